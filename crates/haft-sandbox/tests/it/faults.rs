//! Faults that a session survives: memory, disks, floods, races, and hosts that are killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes as _, SpillFile};
use haft::results::OffloadStore;
use haft_sandbox::testing::maker;
use haft_sandbox::{ProfileConfig, Sandbox, SandboxConfig, SandboxStack};

use crate::confined::{Ground, HELPER, said};
use crate::lives::{NOTHING, count, mark, run_for_ever};
use crate::profile::User;
use crate::witness::{self, Host, LONG, Way};
use crate::{processes, until};

const ADDRESS_SPACE: u32 = 9;
const PROCESSES: u32 = 6;

#[tokio::test]
async fn a_bound_on_memory_is_told_by_how_the_program_ends() {
    let ground = Ground::new();
    let hog = "x = bytearray(900 << 20); print('DONE')";
    let sandbox = ground.sandbox_of(SandboxStack::Full, ground.scene().rlimit(ADDRESS_SPACE, 600 << 20));
    let outcome = sandbox.run(ground.python(hog)).await.unwrap();
    assert!(
        outcome.exit == ProcessExit::Code(1) && said(&outcome).contains("MemoryError"),
        "{}",
        said(&outcome)
    );
    // One that the kernel kills is told apart from one that failed.
    let outcome = sandbox.run(ground.bash("kill -9 $$")).await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::Signal(9));
    let outcome = ground.sandbox().run(ground.python(hog)).await.unwrap();
    assert!(said(&outcome).contains("DONE"), "{}", said(&outcome));
}

/// When the machine has no memory left the kernel takes a command and not the host or its helper.
#[tokio::test]
async fn commands_are_killed_before_the_host() {
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        let outcome = sandbox.run(ground.bash("cat /proc/self/oom_score_adj")).await.unwrap();
        let inside: i32 = String::from_utf8_lossy(&outcome.stdout.head).trim().parse().unwrap();
        let host: i32 = fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        assert!(inside >= 500 && inside > host, "{stack:?}: {inside}, {host}");
    }
}

#[tokio::test]
async fn nothing_but_nuls_and_no_end_of_a_line() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    for program in ["head -c 20000000 /dev/zero", "head -c 20000000 /dev/zero | tr '\\0' x"] {
        let (heard, lines) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let store = Arc::new(OffloadStore::temporary());
        let script = format!("{program} | tee /dev/fd/3");
        let request = ground
            .bash(&script)
            .with_output_bytes_max(1_000)
            .with_spill(SpillFile::new(store.clone(), "Flood"))
            .with_on_output({
                let heard = heard.clone();
                move |bytes| {
                    heard.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
            })
            .with_on_line({
                let lines = lines.clone();
                move |_| {
                    lines.fetch_add(1, Ordering::Relaxed);
                }
            });
        let outcome = sandbox.run(request).await.unwrap();
        assert_eq!(
            (outcome.exit, outcome.stdout.total_bytes),
            (ProcessExit::Code(0), 20_000_000),
            "{program}"
        );
        assert_eq!(heard.load(Ordering::Relaxed), 20_000_000);
        assert_eq!(lines.load(Ordering::Relaxed), 0, "one line that is too long");
        assert_eq!(outcome.stdout.kept.unwrap().held_bytes(), 20_000_000);
    }
}

/// A disk of 64 KiB: the command goes on, its beginning and end are there, and the rest is said to be lost.
#[test]
fn a_full_disk_costs_the_middle_of_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$HAFT_TEST_DISK\" && exec \"$0\" \"$@\"";
    let inside = |disk: bool| {
        let mut command = if disk {
            let mut command = Command::new("unshare");
            command.args(["-r", "-m", "sh", "-c", script]).arg(std::env::current_exe().unwrap());
            command
        } else {
            Command::new(std::env::current_exe().unwrap())
        };
        command.args(["--exact", "faults::on_a_small_disk", "--ignored", "--nocapture"]);
        let output = command.env("HAFT_TEST_DISK", dir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = inside(true);
    assert!(said.contains("Code(0) 1288895 kept None") && said.contains("No space left"), "{said}");
    let said = inside(false);
    assert!(said.contains("Code(0) 1288895 kept Some(1288895)"), "{said}");
}

#[tokio::test]
#[ignore = "it is a part of another test"]
async fn on_a_small_disk() {
    let Some(disk) = std::env::var_os("HAFT_TEST_DISK") else { return };
    let store = Arc::new(OffloadStore::at(PathBuf::from(disk).join("results")));
    let request = crate::sh("seq 1 200000")
        .with_output_bytes_max(1_000)
        .with_spill(SpillFile::new(store.clone(), "Seq"));
    let outcome = processes().run(request).await.unwrap();
    let stdout = outcome.stdout;
    assert!(stdout.head.starts_with(b"1\n2\n") && stdout.tail.ends_with(b"200000\n"));
    let kept = stdout.kept.as_ref().map(|kept| kept.held_bytes());
    println!("{:?} {} kept {kept:?} {:?}", outcome.exit, stdout.total_bytes, stdout.not_kept);
    // What could not be finished isn't left lying about.
    if stdout.not_kept.is_some() {
        assert_eq!(fs::read_dir(store.dir()).map_or(0, Iterator::count), 0);
    }
}

/// Another command runs while one forks as fast as it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_leaves_the_others_alone() {
    let ground = Ground::new();
    let sandbox = Arc::new(ground.sandbox_of(SandboxStack::Full, ground.scene().rlimit(PROCESSES, 400)));
    let mark = mark();
    let bomb = format!(
        "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('stop'):\n try:\n  if os.fork() == 0: pass\n except OSError: time.sleep(0.01)\n#{mark}"
    );
    let bomb = ground.python(&bomb).with_timeout(Duration::from_secs(60));
    let bomb = {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(bomb).await })
    };
    let begun = ground.workspace().join("begun");
    tokio::task::spawn_blocking(move || until("it has begun", || begun.exists())).await.unwrap();
    for number in 0..5 {
        let outcome = sandbox.run(ground.bash(&format!("echo {number} | cat"))).await.unwrap();
        assert_eq!(said(&outcome), format!("Code(0) {number}\n"));
    }
    assert!(!bomb.is_finished(), "it ran meanwhile");
    fs::write(ground.workspace().join("stop"), "").unwrap();
    bomb.await.unwrap().unwrap();
    until("nothing is left", || count(&mark, None) == 0);
}

/// Swaps protected names and folders above them with names of its own, as fast as it can.
const RACER: &str = "import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
rounds, done = int(sys.argv[1]), [0]
os.makedirs('mine/hooks', exist_ok=True); os.makedirs('other', exist_ok=True)
open('mine/config', 'w').write('[core]\\n\\tfsmonitor = x\\n'); open('mine/hooks/pre-commit', 'w').write('x')
def swap(a, b, flags):
    if libc.syscall(316, -100, a.encode(), -100, b.encode(), flags) == 0:
        done[0] += 1
        libc.syscall(316, -100, a.encode(), -100, b.encode(), flags)
def race(pairs):
    for number in range(rounds):
        a, b = pairs[number % len(pairs)]
        swap(a, b, 2 if number & 1 or len(sys.argv) > 2 else 0)
        # In `.git` itself git has to write.
        if a != '.git':
            try: open(a + '/planted', 'w').close(); done[0] += 1
            except OSError: pass
held = [('.git', 'mine'), ('.git/config', 'mine/config'), ('.git/hooks', 'mine/hooks'), ('.mcp.json', 'other'), ('.haft', 'other'), ('.claude', 'mine'), ('.vscode', 'other')]
if len(sys.argv) > 2: held = [('free', 'other')]; os.makedirs('free', exist_ok=True)
threads = [threading.Thread(target=race, args=(held[n:] + held[:n],)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print('swapped', done[0])";

async fn race(rounds: usize) -> usize {
    let user = User::new();
    let session = user.session();
    let (config, hooks) = (user.at("work/.git/config"), user.at("work/.git/hooks"));
    let names = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = (fs::read(&config).unwrap(), names(&hooks));
    let racer = |more: &[&str]| {
        let rounds = (rounds / 4).to_string();
        let argv = ["/usr/bin/python3", "-c", RACER, &rounds].into_iter().chain(more.iter().copied());
        ProcessRequest::new(argv, user.at("work")).with_timeout(Duration::from_secs(200)).with_merged_output()
    };
    let (exit, said, refused) = session.run(racer(&[])).await;
    assert_eq!((exit, said.trim()), (ProcessExit::Code(0), "swapped 0"), "{refused:?}");
    assert_eq!(before, (fs::read(&config).unwrap(), names(&hooks)));
    assert_eq!(refused, []);
    // The control: what isn't protected is swapped.
    let (_, said, _) = session.run(racer(&["free"])).await;
    let swapped: usize = said.trim().strip_prefix("swapped ").unwrap().parse().unwrap();
    assert!(swapped > 0, "{said}");
    swapped
}

#[tokio::test]
async fn protected_names_are_not_swapped() {
    race(2_000).await;
}

#[tokio::test]
#[ignore = "prove"]
async fn prove_that_protected_names_are_not_swapped() {
    let rounds = 100_000;
    let swapped = race(rounds).await;
    println!(
        "proof: {rounds} rounds of RENAME_EXCHANGE against protected names; escapes: 0 (control: {swapped})"
    );
}

#[test]
fn a_killed_session_is_cleaned_up_by_the_next() {
    assert_eq!(Way::this().witness("faults::witness_of_killed_sessions", 8, LONG), NOTHING);
}

#[test]
#[ignore = "prove"]
fn prove_that_a_killed_session_is_cleaned_up_by_the_next() {
    let rounds = 100;
    let mut all = Vec::new();
    for way in Way::all() {
        let left = way.witness("faults::witness_of_killed_sessions", rounds, LONG);
        let names = left.iter().filter(|left| left.contains(STALE)).count();
        let (processes, words) = (left.len() - names, way.words());
        println!(
            "proof: session killed with -9 at {rounds} moments {words}; processes left: {processes}; names left: {names}"
        );
        all.extend(left);
    }
    assert_eq!(all, NOTHING);
}

const STALE: &str = "a name that stands for nothing";

/// A host with a whole session, killed while commands begin, run and end; then another session in the same
/// place.
#[test]
#[ignore = "it is a part of another test"]
fn witness_of_killed_sessions() {
    let mut user = None;
    witness::begin(|round| {
        let user: &User = user.get_or_insert_with(User::new);
        let mut left = Host::start("faults::session_that_is_killed", &user.at("")).kill(round);
        drop(user.session());
        let standing = [".mcp.json", ".haft", ".claude", ".vscode", ".idea", ".husky", ".envrc"];
        let standing =
            standing.map(|name| user.at("work").join(name)).into_iter().filter(|path| path.exists());
        left.extend(standing.map(|path| format!("{STALE}: {}", path.display())));
        left
    });
}

#[test]
#[ignore = "it is a part of another test"]
fn session_that_is_killed() {
    let Some(root) = std::env::var_os("HAFT_TEST_ROOT").map(PathBuf::from) else { return };
    let mut config = ProfileConfig::new(
        root.join("work"),
        root.join("state/tmp"),
        root.join("state/caches"),
        haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
    );
    config.home = Some(root.join("home"));
    let config = SandboxConfig::new(config)
        .unwrap()
        .with_helper(HELPER)
        .with_maker(maker())
        .with_variables(std::env::vars_os());
    witness::reached(1);
    let sandbox = Sandbox::start(config).unwrap();
    witness::reached(2);
    run_for_ever(sandbox, &root.join("work"), |request, number| {
        let looks = number.is_multiple_of(3);
        request.with_confinement(if looks { ConfinementLevel::ReadOnly } else { ConfinementLevel::Session })
    });
}
