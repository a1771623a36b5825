//! How confined children end, and that nothing is left of them, whatever they do and whoever is killed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haft::ports::{ChildRequests, ConfinementLevel, ProcessExit, ProcessRequest, Processes as _};
use haft::testing::with_restrictions;
use haft::{Cancel, Cause};
use haft_sandbox::testing::{TestScene, sandbox};
use haft_sandbox::{LocalProcesses, Sandbox, SandboxStack};

use crate::confined::{Ground, HELPER, said};
use crate::profile::User;
use crate::witness::{self, Host, LONG, Way};
use crate::{text, until};

/// What is left, as it should be.
pub(crate) const NOTHING: [&str; 0] = [];

/// A mark that can be found in a command line.
pub(crate) fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("1000.{}{:06}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How many processes there are with this in their command line, or with this program. One that dies has
/// neither any more, but its name until it is gone, and with the first process of a namespace all others of
/// it.
pub(crate) fn count(mark: &str, program: Option<&Path>) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let found = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let runs = std::fs::read_link(entry.path().join("exe")).ok();
        let named = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let name = program.and_then(|program| program.file_name()).map(|name| name.to_string_lossy());
        line.contains(mark)
            || (program.is_some() && runs.as_deref() == program)
            || name.is_some_and(|name| named.trim() == name)
    };
    processes.filter(found).count()
}

#[tokio::test]
async fn codes_and_signals_are_told_apart() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        for (script, expected) in [
            ("exit 0", ProcessExit::Code(0)),
            ("exit 3", ProcessExit::Code(3)),
            ("exit 255", ProcessExit::Code(255)),
            ("kill -9 $$", ProcessExit::Signal(9)),
            ("kill -TERM $$", ProcessExit::Signal(15)),
            ("kill -SEGV $$", ProcessExit::Signal(11)),
        ] {
            let outcome = sandbox.run(ground.bash(script)).await.unwrap();
            assert_eq!(outcome.exit, expected, "{stack:?} {script} {}", said(&outcome));
        }
    }
}

#[tokio::test]
async fn streams_are_apart_or_in_order() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        let script = "cat; echo 1; echo 2 >&2; echo 3; echo 4 >&2; echo line >&3";
        let (send, heard) = std::sync::mpsc::channel();
        let request = ground.bash(script).with_stdin("in ").with_on_line(move |line| {
            let _ = send.send(line.to_vec());
        });
        let outcome = sandbox.run(request).await.unwrap();
        assert_eq!((text(&outcome.stdout.head), text(&outcome.stderr.head)), ("in 1\n3\n", "2\n4\n"));
        assert_eq!(heard.recv().unwrap(), b"line");
        let outcome =
            sandbox.run(ground.bash("echo 1; echo 2 >&2; echo 3; echo 4 >&2").with_merged_output()).await;
        let outcome = outcome.unwrap();
        assert_eq!((text(&outcome.stdout.head), text(&outcome.stderr.head)), ("1\n2\n3\n4\n", ""));
    }
    let local = crate::processes();
    let outcome = local.run(ground.bash("echo 1; echo 2 >&2; echo 3").with_merged_output()).await.unwrap();
    assert_eq!((text(&outcome.stdout.head), text(&outcome.stderr.head)), ("1\n2\n3\n", ""));
}

/// Each of these would get away from a process group.
const RUNAWAYS: [&str; 6] = [
    "setsid sleep MARK & sleep MARK",
    "(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep MARK; done' &) ; sleep MARK",
    "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  time.sleep(MARK)' ; sleep MARK",
    "trap '' TERM INT HUP; while :; do sleep MARK; done",
    "setsid sleep MARK & kill -STOP $!; sleep MARK",
    "kill -STOP $$; sleep MARK",
];

#[tokio::test]
async fn whatever_runs_away_is_gone_when_its_time_is_over() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = Arc::new(ground.sandbox_of(stack, ground.scene()));
        // All at once, since each lasts until its time is over.
        let runaways = RUNAWAYS.map(|script| {
            let (sandbox, mark) = (sandbox.clone(), mark());
            let script = script.replace("MARK", &mark);
            let request = ground.bash(&script).with_timeout(Duration::from_secs(1));
            tokio::spawn(async move {
                let outcome = sandbox.run(request).await.unwrap();
                assert_eq!(outcome.exit, ProcessExit::TimedOut, "{stack:?} {script}");
                assert_eq!(count(&mark, None), 0, "{stack:?} {script}");
            })
        });
        for runaway in runaways {
            runaway.await.unwrap();
        }
    }
}

/// The program ends by itself and leaves something behind: that ends too, and what it has said by then is
/// heard.
#[tokio::test]
async fn whatever_is_left_behind_is_gone_when_the_program_ends() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        for script in [
            "setsid sleep MARK & exit 4",
            "(setsid sleep MARK &) ; sleep 0.1; exit 4",
            "setsid sleep MARK >/dev/null 2>&1 & kill -STOP $!; exit 4",
        ] {
            let mark = mark();
            let outcome = sandbox.run(ground.bash(&script.replace("MARK", &mark))).await.unwrap();
            assert_eq!(outcome.exit, ProcessExit::Code(4), "{stack:?} {script}");
            until("it is gone", || count(&mark, None) == 0);
        }
        let outcome = sandbox.run(ground.bash("exec > >(sleep 0.05; cat); echo late")).await.unwrap();
        assert_eq!(text(&outcome.stdout.head), "late\n", "{stack:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_and_abandoned_children_are_gone() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = Arc::new(ground.sandbox_of(stack, ground.scene()));
        let (mark, cancel) = (mark(), Cancel::new());
        let script = format!("setsid sleep {mark} & echo begun; sleep {mark}");
        let (send, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let request = ground.bash(&script).with_cancel(cancel.clone()).with_on_output(move |_| {
            let _ = send.send(());
        });
        let own = sandbox.clone();
        let run = tokio::spawn(async move { own.run(request).await });
        begun.recv().await.unwrap();
        until("both run", || count(&mark, None) >= 2);
        cancel.cancel(haft::Cause::User);
        let outcome = run.await.unwrap().unwrap();
        assert_eq!((outcome.exit, text(&outcome.stdout.head)), (ProcessExit::Cancelled, "begun\n"));
        assert_eq!(count(&mark, None), 0);

        let own = sandbox.clone();
        let request = ground.bash(&script);
        let run = tokio::spawn(async move { own.run(request).await });
        until("both run", || count(&mark, None) >= 2);
        run.abort();
        until("both are gone", || count(&mark, None) == 0);
        until("nothing is watched any more", || sandbox.running() == 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutting_down_ends_everything_and_the_helper_with_it() {
    let ground = Ground::new();
    let (mark, helper) = (mark(), ground.own_helper());
    let sandbox =
        Arc::new(sandbox(&helper, SandboxStack::Full, ground.scene(), TestScene::system()).unwrap());
    let own = sandbox.clone();
    let request = ground.bash(&format!("setsid sleep {mark} & sleep {mark}"));
    let run = tokio::spawn(async move { own.run(request).await });
    until("both run", || count(&mark, None) >= 2);
    sandbox.shutdown();
    assert_eq!((count(&mark, None), sandbox.running()), (0, 0));
    assert_eq!(run.await.unwrap().unwrap().exit, ProcessExit::Cancelled);
    assert!(sandbox.run(ground.bash("true")).await.is_err());
    drop(sandbox);
    until("the helper is gone", || count("no such mark", Some(&helper)) == 0);
}

/// A helper that is killed takes its children along, and the next call is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_helper_is_noticed() {
    let ground = Ground::new();
    let (mark, helper) = (mark(), ground.own_helper());
    let sandbox =
        Arc::new(sandbox(&helper, SandboxStack::Full, ground.scene(), TestScene::system()).unwrap());
    let own = sandbox.clone();
    let request = ground.bash(&format!("sleep {mark}"));
    let run = tokio::spawn(async move { own.run(request).await });
    until("it runs", || count(&mark, None) >= 1);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let runs = std::fs::read_link(entry.path().join("exe")).ok();
        if runs.as_deref() == Some(&helper)
            && String::from_utf8_lossy(&line).contains("haft: sandbox")
            && first_of_its_kind(&entry.path())
        {
            let pid: i32 = entry.file_name().to_string_lossy().parse().unwrap();
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
    until("it is gone", || count(&mark, Some(&helper)) == 0);
    // On a busy machine the end of the command may be reported before the end of the helper.
    let lost = match run.await.unwrap() {
        Ok(outcome) => outcome.exit == ProcessExit::Signal(9),
        Err(error) => error.to_string().contains("helper has ended"),
    };
    assert!(lost, "the command ended otherwise");
    let refused = sandbox.run(ground.bash("true")).await.unwrap_err();
    assert!(refused.to_string().contains("start another"), "{refused}");
}

/// Whether a process isn't the first of a namespace, so it is the helper and none of its copies.
pub(crate) fn first_of_its_kind(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().count() == 1
}

#[test]
fn nothing_survives_a_killed_host() {
    assert_eq!(Way::this().witness("lives::witness_of_killed_hosts", 12, LONG), NOTHING);
}

#[test]
#[ignore = "prove"]
fn prove_that_nothing_survives_a_killed_host() {
    let rounds = 100;
    let mut all = Vec::new();
    for way in Way::all() {
        let left = way.witness("lives::witness_of_killed_hosts", rounds, LONG);
        let (count, words) = (left.len(), way.words());
        println!("proof: host killed with -9 at {rounds} moments {words}; processes left: {count}");
        all.extend(left);
    }
    assert_eq!(all, NOTHING);
}

#[test]
#[ignore = "it is a part of another test"]
fn witness_of_killed_hosts() {
    witness::begin(|round| {
        let ground = Ground::new();
        Host::start("lives::host_that_is_killed", &ground.workspace()).kill(round)
    });
}

/// Runs one call after another until it is killed.
#[test]
#[ignore = "it is a part of another test"]
fn host_that_is_killed() {
    let Some(workspace) = std::env::var_os("HAFT_TEST_ROOT").map(PathBuf::from) else { return };
    let scene = TestScene::system().bind(&workspace, true);
    witness::reached(1);
    let sandbox = sandbox(HELPER, SandboxStack::Full, scene.clone(), scene).unwrap();
    witness::reached(2);
    run_for_ever(sandbox, &workspace, |request, _| request);
}

/// Five at a time, most of which run out of theirs.
pub(crate) fn run_for_ever(
    sandbox: Sandbox,
    folder: &Path,
    also: impl Fn(ProcessRequest, u64) -> ProcessRequest,
) {
    let sandbox = Arc::new(sandbox);
    let begun = Arc::new(std::sync::Once::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut all = Vec::new();
        for number in 0u64.. {
            let script = "echo; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000";
            let begun = begun.clone();
            let request = ProcessRequest::new(["bash", "-c", script], folder)
                .with_timeout(Duration::from_millis(3 + number % 30))
                .with_on_output(move |_| begun.call_once(|| witness::reached(3)));
            let (sandbox, request) = (sandbox.clone(), also(request, number));
            all.push(tokio::spawn(async move { sandbox.run(request).await }));
            if all.len() > 4 {
                let _ = all.remove(0).await;
            }
        }
    });
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_bound() {
    const NPROC: u32 = 6;
    let ground = Ground::new();
    let sandbox = ground.sandbox_of(SandboxStack::Full, ground.scene().rlimit(NPROC, 400));
    let mark = mark();
    let script = format!(
        "import os, time\nn = 0\nwhile n < 2000:\n try:\n  if os.fork() == 0: time.sleep({mark})\n  n += 1\n except OSError: break\nprint(n, flush=True)\ntime.sleep({mark})"
    );
    // Ended when it can't make any more.
    let cancel = Cancel::new();
    let request = ground.python(&script).with_cancel(cancel.clone());
    let request = request.with_on_output(move |_| cancel.cancel(Cause::User));
    let outcome = sandbox.run(request).await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::Cancelled);
    let made: u32 = text(&outcome.stdout.head).trim().parse().unwrap_or(u32::MAX);
    assert!(made < 500, "{made} processes: {}", said(&outcome));
    assert_eq!(count(&mark, None), 0);
    // And the next one has its own bound.
    assert_eq!(sandbox.run(ground.bash("echo on | cat")).await.unwrap().exit, ProcessExit::Code(0));
}

#[tokio::test]
async fn many_at_once() {
    let ground = Ground::new();
    let sandbox = Arc::new(ground.sandbox());
    let one = |number: usize| {
        let confinement =
            if number.is_multiple_of(3) { ConfinementLevel::ReadOnly } else { ConfinementLevel::Session };
        let request = ground.bash(&format!("echo {number}")).with_confinement(confinement);
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(request).await })
    };
    let runs: Vec<_> = (0..100).map(one).collect();
    for (number, run) in runs.into_iter().enumerate() {
        let outcome = run.await.unwrap().unwrap();
        assert_eq!(said(&outcome), format!("Code(0) {number}\n"));
    }
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    std::fs::write(ground.workspace().join("plain"), "x").unwrap();
    for (program, expected) in [
        ("no-such-program", "`no-such-program` is not there: no folder of PATH has a program of this name"),
        ("./missing", "WORKSPACE/./missing` does not exist"),
        ("./plain", "is not executable"),
    ] {
        let error =
            sandbox.run(ProcessRequest::new([program], ground.workspace())).await.unwrap_err().to_string();
        let error = error.replace(ground.workspace().to_str().unwrap(), "WORKSPACE");
        assert!(error.contains(expected), "{error}");
    }
    let error = sandbox.run(ProcessRequest::new(["true"], ground.at("outside"))).await.unwrap_err();
    assert!(error.to_string().contains("working directory"), "{error}");
    let long = ProcessRequest::new(["/bin/echo".to_owned(), "x".repeat(4_000_000)], ground.workspace());
    let error = sandbox.run(long).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    // Long, but not too long.
    let many = (0..2000).map(|_| "y".repeat(500));
    let long = ProcessRequest::new(["/bin/echo".to_owned()].into_iter().chain(many), ground.workspace());
    assert_eq!(sandbox.run(long).await.unwrap().stdout.total_bytes, 2000 * 501);
}

/// A spare sandbox is used only for what it was made of.
#[tokio::test]
async fn a_spare_is_never_stale() {
    let ground = Ground::new();
    let file = ground.workspace().join("config");
    std::fs::write(&file, "one").unwrap();
    let sandbox = ground.sandbox_of(SandboxStack::Full, ground.scene().protect(&file));
    for round in 0..6 {
        // The host replaces the file; a bind that was made before would still show the old one.
        let text = format!("round {round}");
        std::fs::write(ground.at("new"), &text).unwrap();
        std::fs::rename(ground.at("new"), &file).unwrap();
        for _ in 0..3 {
            let outcome = sandbox.run(ground.bash("cat config; ls /tmp; touch /tmp/left")).await.unwrap();
            assert!(said(&outcome).starts_with(&format!("Code(0) {text}")), "{}", said(&outcome));
            assert!(!said(&outcome).contains("left"), "a sandbox was used twice");
            // So long that a spare is made.
            let end = Instant::now() + Duration::from_millis(12);
            until("a moment has passed", || Instant::now() > end);
        }
    }
}

/// Nor if what it holds was removed and made anew: file systems give the number of what was removed to what
/// is made next, and with the old one went what lay on it.
#[tokio::test]
async fn a_spare_holds_what_was_made_anew() {
    let mut user = User::new();
    let (name, secret) = (user.at("work/.mcp.json"), user.at("work/secret"));
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unreadable_paths.push(secret.clone()));
    let (hooks, planted) = (user.at("work/.git/hooks"), user.at("work/.envrc"));
    let anew = || {
        for (path, content) in [(&name, "{}"), (&secret, "SECRET")] {
            let _ = std::fs::remove_file(path);
            std::fs::write(path, content).unwrap();
        }
        std::fs::remove_dir_all(&hooks).unwrap();
        std::fs::create_dir(&hooks).unwrap();
    };
    anew();
    let session = user.session();
    let attempt =
        "echo evil >> .mcp.json; echo evil > .git/hooks/pre-commit; echo evil > .envrc; cat secret; true";
    let mut same = 0;
    for round in 0..20 {
        session.good("true").await;
        // So long that a spare is made.
        let end = Instant::now() + Duration::from_millis(20);
        until("a moment has passed", || Instant::now() > end);
        let number = name.metadata().unwrap().ino();
        match round % 4 {
            // The very same file, by another entry of its folder: what lay on the first went with that.
            3 => {
                for file in [&name, &secret] {
                    let other = user.at("other-name");
                    std::fs::hard_link(file, &other).unwrap();
                    std::fs::remove_file(file).unwrap();
                    std::fs::rename(&other, file).unwrap();
                }
            }
            _ => anew(),
        }
        same += usize::from(name.metadata().unwrap().ino() == number);
        let (_, said, _) = session.run(session.request(attempt)).await;
        assert!(!said.contains("SECRET"), "{said}");
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "{}");
        assert!(!hooks.join("pre-commit").exists() && !planted.exists());
    }
    eprintln!("the number came again in {same} of 20 rounds");
}

/// A thread of the helper that had ended was still listed for a moment, and one start of thousands failed.
#[test]
#[ignore = "prove"]
fn prove_that_helpers_start_on_a_busy_machine() {
    let (starts, stop) = (3_000, AtomicBool::new(false));
    let ground = Ground::new();
    let start = || sandbox(HELPER, SandboxStack::Full, ground.scene(), ground.scene()).err();
    let failed: Vec<String> = std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let starting: Vec<_> = (0..2)
            .map(|_| threads.spawn(|| (0..starts / 2).filter_map(|_| start()).collect::<Vec<_>>()))
            .collect();
        let failed = starting.into_iter().flat_map(|starting| starting.join().unwrap());
        let failed = failed.map(|error| error.to_string()).collect();
        stop.store(true, Ordering::Relaxed);
        failed
    });
    println!("proof: {starts} helpers started beside four busy threads; failed: {}", failed.len());
    assert_eq!(failed, NOTHING);
}

/// While the user is asked about a host the time of the child stands still, and afterwards it goes on.
#[tokio::test]
async fn the_time_of_a_question_is_not_the_childs() {
    let processes = LocalProcesses::new(std::env::vars_os());
    let (requests, queue) = ChildRequests::channel();
    let run = |script: &str| {
        let request = ProcessRequest::new(["sh", "-c", script], "/");
        let request = request.with_timeout(Duration::from_millis(100));
        processes.run(request.with_child_requests(Some(requests.clone())))
    };
    let question = queue.begin_question();
    let outcome = run("sleep 0.6; exit 3").await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::Code(3));
    drop(question);
    let outcome = run("sleep 60").await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::TimedOut);
}
