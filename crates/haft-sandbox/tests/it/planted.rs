//! Names that other programs execute: what commands put there is gone when they have ended, what git or the
//! user puts there stays, and nothing of ours is ever seen.

use std::fs;
use std::process::Command;

use haft::ports::{ConfinementRefusal, KillReason, ProcessExit, ProcessRequest, Processes as _};
use haft_git::RepositoryLevel;
use haft_sandbox::approve_content;

use crate::attack::kill_session;
use crate::profile::{Session, User, git, level};
use crate::until;
use crate::workflows::TRACKED;

/// What is left in a folder and below, without what git keeps.
fn files(user: &User, folder: &str) -> Vec<String> {
    let script = "find . -name .git -prune -o -mindepth 1 -printf '%P\\n' | sort";
    let done = Command::new("bash").args(["-c", script]).current_dir(user.at(folder)).output().unwrap();
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The paths of what was undone, relative to the working directory.
fn undone(user: &User, refused: &[ConfinementRefusal]) -> Vec<String> {
    let relative = |path: &std::path::Path| path.strip_prefix(user.at("work")).unwrap().display().to_string();
    let undone = refused.iter().map(|refused| match refused {
        ConfinementRefusal::Protected { path, .. } => relative(path),
        other => panic!("{other:?}"),
    });
    undone.collect()
}

fn at_level(session: &Session<'_>, script: &str, wanted: RepositoryLevel) -> ProcessRequest {
    session.request(script).with_protection(level(wanted))
}

#[tokio::test]
async fn what_a_command_plants_is_gone_when_it_has_ended() {
    for (script, expected) in [
        ("mkdir .vscode && echo evil > .vscode/tasks.json", &[".vscode/tasks.json"][..]),
        ("echo evil > .mcp.json", &[".mcp.json"]),
        ("mkdir -p .cursor/rules && echo evil > .cursor/rules/x.mdc", &[".cursor/rules/x.mdc"]),
        ("echo evil > lefthook.yml", &["lefthook.yml"]),
        ("mkdir -p sub/new && echo evil > sub/new/.envrc", &["sub/new/.envrc"]),
        ("echo evil > x && mv x .envrc", &[".envrc"]),
        ("mkdir x && echo evil > x/tasks.json && mv x .vscode", &[".vscode/tasks.json"]),
        ("echo evil > x && ln -s x .envrc", &[".envrc"]),
        ("ln -s sub .idea", &[".idea"]),
        ("echo evil > x && ln x .mcp.json", &[".mcp.json"]),
        ("echo evil > x.code-workspace", &["x.code-workspace"]),
        ("mkdir -p .github && ln -s ../x .github/workflows", &[".github/workflows"]),
        ("ln -s x .github && mkdir -p x/workflows", &[".github"]),
        ("mkfifo .envrc", &[".envrc"]),
        ("mkdir .haft && echo '{}' > .haft/settings.json && chmod 000 .haft", &[".haft/settings.json"]),
        ("git init -q sub2 && echo evil > sub2/.envrc", &["sub2/.envrc"]),
    ] {
        let user = User::new();
        fs::create_dir(user.at("work/sub")).unwrap();
        let session = user.session();
        let (exit, said, refused) = session.run(at_level(&session, script, RepositoryLevel::None)).await;
        assert_eq!(exit, ProcessExit::Code(0), "{script}: {said}");
        assert_eq!(undone(&user, &refused), expected, "{script}: {refused:?}");
        for path in expected {
            assert!(user.at("work").join(path).symlink_metadata().is_err(), "{script} left {path}");
        }
        let left = files(&user, "work");
        assert!(!left.iter().any(|name| name.contains("undone")), "{script} left {left:?}");
        assert!(format!("{refused:?}").contains("to keep such a change, allow it"), "{refused:?}");
    }
}

#[tokio::test]
async fn what_the_user_had_there_is_put_back() {
    let user = User::new();
    let mine = [
        (".npmrc", "mine"),
        (".vscode/tasks.json", "mine"),
        (".cargo/config.toml", "mine"),
        ("a/.envrc", "mine"),
    ];
    for (path, content) in mine {
        let path = user.at("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let before = files(&user, "work");
    let session = user.session();
    let script = "echo evil > .npmrc; rm -r .vscode .cargo; echo evil > .vscode; echo evil >> a/.envrc";
    let (exit, said, refused) = session.run(at_level(&session, script, RepositoryLevel::Data)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(undone(&user, &refused).len() >= 4, "{refused:?}");
    assert_eq!(files(&user, "work"), before);
    for (path, content) in mine {
        assert_eq!(fs::read_to_string(user.at("work").join(path)).unwrap(), content, "{path}");
    }
    let kept =
        Command::new("grep").arg("-rlx").arg("evil").arg(user.at("state/caches/recovered")).output().unwrap();
    assert!(String::from_utf8_lossy(&kept.stdout).lines().count() >= 2, "what was taken away is kept");
    // The next command begins with all of it.
    session.good("cat .npmrc .vscode/tasks.json").await;
}

#[tokio::test]
async fn a_command_sees_and_leaves_nothing_that_is_not_the_users() {
    let user = User::new();
    let session = user.session();
    assert_eq!(session.good("ls -A").await, ".git\nREADME\n");
    session.good("mkdir /tmp/x && cp -r . /tmp/x && ls -A /tmp/x && tar cf /tmp/x.tar .").await;
    assert_eq!(
        session.good("ls -A /tmp/x; tar tf /tmp/x.tar | grep -v .git/").await,
        ".git\nREADME\n./\n./README\n"
    );
    session.good("touch junk && git clean -fdx && git stash -u").await;
    let wait = session.request("touch /tmp/here; until [ -e go ]; do sleep 0.01; done");
    let meanwhile = async {
        let here = user.at("state/tmp/here");
        tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
        let seen = files(&user, "work");
        fs::write(user.at("work/go"), "").unwrap();
        assert_eq!(seen, ["README"]);
    };
    let (outcome, ()) = tokio::join!(session.sandbox.run(wait), meanwhile);
    assert_eq!(outcome.unwrap().refused, []);
}

#[tokio::test]
async fn a_repository_is_cloned_into_an_empty_folder() {
    let mut user = User::new();
    fs::rename(user.at("work"), user.at("source")).unwrap();
    fs::create_dir(user.at("work")).unwrap();
    user.config.allow_read.push(user.at("source"));
    let session = user.session();
    let line = format!("git clone -q {} .", user.at("source").display());
    let (exit, said, refused) = session.run(session.analysed(&line)).await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    assert_eq!(files(&user, "work"), ["README"]);
}

/// What is fetched was in no history when the session began, so it is kept and the user is told.
#[tokio::test]
async fn names_that_are_pulled_are_taken_away_and_told() {
    let user = User::new();
    let prepare = format!("{TRACKED}; git remote add lib ../work/lib");
    Command::new("bash").args(["-c", &prepare]).current_dir(user.at("work")).status().unwrap();
    let session = user.session();
    let line = "git fetch -q lib && git checkout -q FETCH_HEAD -- .vscode sub";
    let (exit, said, refused) = session.run(session.analysed(line)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert_eq!(undone(&user, &refused), [".vscode/tasks.json"]);
    assert_eq!(fs::read_to_string(user.at("work/.vscode/tasks.json")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(user.at("work/sub/file")).unwrap(), "3\n");
    // In the next session it is a part of the history.
    drop(session);
    let session = user.session();
    let line = "git checkout -q FETCH_HEAD -- .vscode";
    let (exit, said, refused) = session.run(session.analysed(line)).await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    assert_eq!(fs::read_to_string(user.at("work/.vscode/tasks.json")).unwrap(), "3\n");
}

#[tokio::test]
async fn what_the_user_writes_while_a_command_runs_stays() {
    let user = User::new();
    let session = user.session();
    let wait = at_level(&session, "touch here; until [ -e go ]; do sleep 0.01; done", RepositoryLevel::None);
    let (here, own, other) = (user.at("work/here"), user.at("work/.envrc"), user.at("work/.mcp.json"));
    let meanwhile = async {
        tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
        // A tool of this program, and another program of ours.
        session.sandbox.begin_writes(std::slice::from_ref(&own));
        fs::write(&own, "mine").unwrap();
        session.sandbox.end_writes(std::slice::from_ref(&own));
        approve_content(&user.at("state/caches"), &other, b"{}").unwrap();
        fs::write(&other, "{}").unwrap();
        let (_, _, refused) = session.run(session.request("echo evil > lefthook.yml")).await;
        assert_eq!(undone(&user, &refused.iter().map(as_protected).collect::<Vec<_>>()), ["lefthook.yml"]);
        fs::write(user.at("work/go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(session.sandbox.run(wait), meanwhile);
    assert_eq!(outcome.unwrap().refused, []);
    assert_eq!(fs::read_to_string(user.at("work/.envrc")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(user.at("work/.mcp.json")).unwrap(), "{}");
}

/// The same, whoever of several it was.
fn as_protected(refused: &ConfinementRefusal) -> ConfinementRefusal {
    match refused.clone() {
        ConfinementRefusal::Changed { path, done } => ConfinementRefusal::Protected { path, done },
        other => other,
    }
}

/// The command itself waits until the name is gone.
#[tokio::test]
async fn what_a_command_plants_is_gone_at_once() {
    for (script, name) in [
        ("echo evil > .mcp.json", ".mcp.json"),
        ("echo evil > x; mv x .mcp.json", ".mcp.json"),
        ("echo evil > x; ln x .mcp.json", ".mcp.json"),
        ("ln -s x .mcp.json", ".mcp.json"),
        ("exec 9> .mcp.json; echo evil >&9", ".mcp.json"),
        ("mkdir -p .vscode; echo evil > .vscode/tasks.json", ".vscode/tasks.json"),
        ("mkdir -p x/y; echo evil > x/y/t; mv x .claude", ".claude/y/t"),
        ("mkdir -p a/b/c; echo evil > a/b/c/.envrc", "a/b/c/.envrc"),
        ("mkdir -p a/b; mv a d; mkdir d/b/c; echo evil > d/b/c/.envrc", "d/b/c/.envrc"),
        ("echo evil > .envrc/x; mkdir sub; echo evil > sub/.envrc", "sub/.envrc"),
    ] {
        let user = User::new();
        let session = user.session();
        let script =
            format!("{script}; while [ -L {name} ] || [ -e {name} ]; do sleep 0.001; done; echo seen");
        let (exit, said, refused) = session.run(at_level(&session, &script, RepositoryLevel::None)).await;
        assert!(exit == ProcessExit::Code(0) && said.ends_with("seen\n"), "{script}: {exit:?} {said}");
        assert_eq!(undone(&user, &refused), [name], "{script}: {refused:?}");
    }
}

#[tokio::test]
async fn a_command_that_plants_again_is_killed() {
    let user = User::new();
    let session = user.session();
    let script = "while :; do echo evil > .mcp.json; done";
    for wanted in [RepositoryLevel::None, RepositoryLevel::Data] {
        let (exit, said, refused) = session.run(at_level(&session, script, wanted)).await;
        assert_eq!(exit, ProcessExit::Killed(KillReason::ProtectedFiles), "{said}");
        assert!(
            refused.len() >= 2 && undone(&user, &refused).iter().all(|name| name == ".mcp.json"),
            "{refused:?}"
        );
        assert!(!user.at("work/.mcp.json").exists());
    }
    // git checks out many files.
    let script = "mkdir .vscode; for n in 1 2 3; do echo x > .vscode/$n; done; sleep 0.1";
    let (exit, said, refused) = session.run(at_level(&session, script, RepositoryLevel::Data)).await;
    assert_eq!((exit, refused.len()), (ProcessExit::Code(0), 3), "{said}");
}

/// What a session that was killed had let a command do is undone when the next one starts.
#[tokio::test]
async fn what_a_killed_session_left_is_undone_by_the_next() {
    let user = User::new();
    fs::write(user.at("work/.npmrc"), "mine").unwrap();
    kill_session(&user, level(RepositoryLevel::None)).await;
    fs::write(user.at("work/.npmrc"), "evil").unwrap();
    fs::write(user.at("work/.mcp.json"), "evil").unwrap();
    let session = user.session();
    let notes = session.sandbox.notes().join("\n");
    assert!(notes.contains(".npmrc") && notes.contains(".mcp.json"), "{notes}");
    assert_eq!(fs::read_to_string(user.at("work/.npmrc")).unwrap(), "mine");
    assert!(!user.at("work/.mcp.json").exists());
    drop(session);
    assert_eq!(user.session().sandbox.notes(), [] as [&str; 0], "it is undone once");
}

/// Each session looks after its own commands, and all of them see the same.
#[tokio::test]
async fn several_sessions_at_once_leave_nothing() {
    let user = User::new();
    let sessions: Vec<_> = (0..6).map(|_| user.session()).collect();
    let script = |number: usize| {
        format!("mkdir -p .vscode d{number}; echo {number} > .vscode/t{number}; echo x > d{number}/.envrc")
    };
    let runs =
        sessions.iter().enumerate().map(|(number, session)| session.run(session.request(&script(number))));
    let mut outcomes = Vec::new();
    let mut runs: Vec<_> = runs.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        runs.retain_mut(|run| match run.as_mut().poll(cx) {
            std::task::Poll::Ready(outcome) => {
                outcomes.push(outcome);
                false
            }
            std::task::Poll::Pending => true,
        });
        if runs.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert!(outcomes.iter().all(|(exit, ..)| *exit == ProcessExit::Code(0)), "{outcomes:?}");
    let left = files(&user, "work");
    assert!(left.iter().all(|name| !name.contains(".vscode/") && !name.contains(".envrc")), "{left:?}");
    git(&user.at("work"), &["status"]);
}

/// How long a planted name exists, and how often a program that watches the folder reads it before it is
/// gone.
#[tokio::test]
#[ignore = "prove"]
async fn prove_how_long_a_planted_name_exists() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;
    const ROUNDS: usize = 1_000;
    for busy_threads in [0, 4] {
        let user = User::new();
        let session = user.session();
        let background = haft::ports::BackgroundFlag::default();
        background.begin();
        let wait =
            at_level(&session, "touch here; until [ -e go ]; do sleep 0.1; done", RepositoryLevel::None);
        let wait = wait.with_background(background).with_timeout(std::time::Duration::from_secs(300));
        let (work, name) = (user.at("work"), user.at("work/.mcp.json"));
        let plants = move || {
            until("it runs", || work.join("here").exists());
            let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
            let mut windows = Vec::new();
            std::thread::scope(|threads| {
                for _ in 0..busy_threads {
                    threads.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                threads.spawn(|| watch_for(&name, &done, &seen));
                for round in 0..ROUNDS {
                    if round % 2 == 0 {
                        fs::write(&name, "evil").unwrap();
                    } else {
                        fs::write(work.join("new"), "evil").unwrap();
                        fs::rename(work.join("new"), &name).unwrap();
                    }
                    let begun = Instant::now();
                    while name.symlink_metadata().is_ok() {
                        std::thread::yield_now();
                    }
                    windows.push(begun.elapsed());
                }
                done.store(true, Ordering::Relaxed);
            });
            fs::write(work.join("go"), "").unwrap();
            windows.sort();
            let at = |part: usize| windows[(ROUNDS * part / 100).min(ROUNDS - 1)];
            println!(
                "proof: a planted name existed for {:?} (p50), {:?} (p90), {:?} (p99), {:?} (max) beside {busy_threads} busy threads; \
                 another watcher read it in {} of {ROUNDS}",
                at(50),
                at(90),
                at(99),
                at(100),
                seen.load(Ordering::Relaxed)
            );
        };
        let (outcome, planted) = tokio::join!(session.sandbox.run(wait), tokio::task::spawn_blocking(plants));
        planted.unwrap();
        assert!(outcome.unwrap().refused.len() >= ROUNDS / 2);
        assert!(!user.at("work/.mcp.json").exists());
    }
}

/// Reads a file as soon as inotify tells that it is there, like an editor that watches its folder.
fn watch_for(
    name: &std::path::Path,
    done: &std::sync::atomic::AtomicBool,
    seen: &std::sync::atomic::AtomicUsize,
) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use std::sync::atomic::Ordering;
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, name.parent().unwrap(), WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)
        .unwrap();
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !done.load(Ordering::Relaxed) {
        let ready = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&moment)).unwrap();
        let _ = rustix::io::read(&watch, &mut [0; 4096]);
        if ready > 0 && fs::read_to_string(name).is_ok_and(|read| read == "evil") {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    }
}
