//! How a child ends, and that nothing is left of it.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use haft::ports::{ProcessExit, ProcessOutcome, ProcessRequest, Processes as _};
use haft::{Cancel, Cause};
use haft_sandbox::LocalProcesses;

use crate::confined::HELPER;
use crate::{lives, pid_in, processes, run, sh, text, until};

#[tokio::test]
async fn codes_and_signals_are_told_apart() {
    for (script, expected) in [
        ("exit 0", ProcessExit::Code(0)),
        ("exit 3", ProcessExit::Code(3)),
        ("exit 255", ProcessExit::Code(255)),
        ("kill -9 $$", ProcessExit::Signal(9)),
        ("kill -TERM $$", ProcessExit::Signal(15)),
        ("kill -SEGV $$", ProcessExit::Signal(11)),
    ] {
        assert_eq!(run(sh(script)).await.unwrap().exit, expected, "{script}");
    }
}

/// `$$` leads a session and a group of its own, and there is no terminal to open.
#[tokio::test]
async fn a_child_has_a_session_of_its_own_and_no_terminal() {
    let script = "set -- $(cut -d' ' -f5,6 /proc/$$/stat); [ $1 = $$ ] && [ $2 = $$ ] && echo own
                  (: < /dev/tty) 2>/dev/null || echo none";
    let outcome = run(sh(script)).await.unwrap();
    assert_eq!(text(&outcome.stdout.head), "own\nnone\n");
}

/// Runs a request with longer and longer timeouts, until it has begun before its time was over.
async fn run_out_of_time(
    request: impl Fn() -> ProcessRequest,
    has_begun: impl Fn(&ProcessOutcome) -> bool,
) -> ProcessOutcome {
    for timeout in [300, 3_000, 30_000] {
        let outcome = run(request().with_timeout(Duration::from_millis(timeout))).await.unwrap();
        if has_begun(&outcome) {
            return outcome;
        }
    }
    panic!("it does not begin within half a minute");
}

#[tokio::test]
async fn a_child_that_takes_too_long_is_told_to_end_first() {
    let script = "trap 'echo asked; exit 7' TERM; echo begun; while :; do sleep 0.01; done";
    let begun = |outcome: &ProcessOutcome| text(&outcome.stdout.head).starts_with("begun");
    let outcome = run_out_of_time(|| sh(script), begun).await;
    assert_eq!((outcome.exit, text(&outcome.stdout.head)), (ProcessExit::TimedOut, "begun\nasked\n"));
}

#[tokio::test]
async fn one_that_will_not_end_is_killed_with_its_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "trap '' TERM INT; sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.05; done' &
                  echo $$ > child; while :; do sleep 0.05; done";
    let request = || ProcessRequest::new(["bash", "-c", script], dir.path());
    let written = |name: &str| dir.path().join(name).metadata().is_ok_and(|file| file.len() > 0);
    let outcome = run_out_of_time(request, |_| written("child") && written("grandchild")).await;
    assert_eq!(outcome.exit, ProcessExit::TimedOut);
    for name in ["child", "grandchild"] {
        let pid = pid_in(&dir.path().join(name));
        until(name, || !lives(pid));
    }
}

#[tokio::test]
async fn one_that_stopped_itself_is_ended_too() {
    let outcome =
        run(sh("kill -STOP $$; echo never").with_timeout(Duration::from_millis(100))).await.unwrap();
    assert_eq!((outcome.exit, outcome.stdout.head.len()), (ProcessExit::TimedOut, 0));
}

#[tokio::test]
async fn cancelling_answers_with_what_was_printed() {
    let cancel = Cancel::new();
    let (begun, heard) = mpsc::channel();
    let request = sh("echo begun; exec sleep 1000").with_cancel(cancel.clone()).with_on_output(move |_| {
        let _ = begun.send(());
    });
    let run = tokio::spawn(async move { run(request).await });
    tokio::task::spawn_blocking(move || heard.recv().unwrap()).await.unwrap();
    cancel.cancel(Cause::User);
    let outcome = run.await.unwrap().unwrap();
    assert_eq!((outcome.exit, text(&outcome.stdout.head)), (ProcessExit::Cancelled, "begun\n"));
}

#[tokio::test]
async fn what_is_cancelled_before_it_begins_never_begins() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    cancel.cancel(Cause::User);
    let request = ProcessRequest::new(["touch", "made"], dir.path()).with_cancel(cancel);
    assert_eq!(run(request).await.unwrap().exit, ProcessExit::Cancelled);
    assert!(!dir.path().join("made").exists());
}

/// The group hears TERM at once, and what doesn't listen is killed soon after.
#[tokio::test]
async fn dropping_the_future_ends_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; sh -c 'echo $$ > polite; exec sleep 1000' & echo $$ > deaf; while :; do sleep 0.05; done";
    let processes = Arc::new(processes());
    let (own, cwd) = (processes.clone(), dir.path().to_owned());
    let run = tokio::spawn(async move { own.run(ProcessRequest::new(["bash", "-c", script], cwd)).await });
    tokio::task::yield_now().await;
    let pids = ["polite", "deaf"].map(|name| pid_in(&dir.path().join(name)));
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    until("both are gone", || !pids.into_iter().any(lives));
    until("nothing is watched any more", || processes.running() == 0);
}

/// The last owner waits until everything is gone.
#[tokio::test]
async fn nothing_outlives_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let pids = {
        let processes = processes();
        let script = "trap '' TERM; echo $$ > deaf; while :; do sleep 0.05; done";
        let mut run = processes.run(ProcessRequest::new(["bash", "-c", script], dir.path()));
        std::future::poll_fn(|task| {
            assert!(run.as_mut().poll(task).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        pid_in(&dir.path().join("deaf"))
    };
    assert!(!lives(pids));
}

/// Also what somebody still waits for; and then nothing is started any more.
#[tokio::test]
async fn shutting_down_ends_everything() {
    let dir = tempfile::tempdir().unwrap();
    let processes = Arc::new(processes());
    let (own, cwd) = (processes.clone(), dir.path().to_owned());
    let script = "sleep 1000 & echo $! > started; wait";
    let run = tokio::spawn(async move { own.run(ProcessRequest::new(["sh", "-c", script], cwd)).await });
    tokio::task::yield_now().await;
    let started = pid_in(&dir.path().join("started"));
    processes.shutdown();
    assert_eq!(processes.running(), 0);
    until("the grandchild is gone", || !lives(started));
    assert_eq!(run.await.unwrap().unwrap().exit, ProcessExit::Cancelled);
    let refused = processes.run(sh("true")).await.unwrap_err();
    assert_eq!(refused.to_string(), "no process is started any more: this program ends");
}

/// A background child that keeps standard output open holds nobody up, and does not survive.
#[tokio::test]
async fn a_leaked_pipe_does_not_hang_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let script = "sh -c 'echo $$ > leaked; exec sleep 1000' & until [ -s leaked ]; do :; done; echo done";
    let outcome = run(ProcessRequest::new(["bash", "-c", script], dir.path())).await.unwrap();
    assert_eq!((outcome.exit, text(&outcome.stdout.head)), (ProcessExit::Code(0), "done\n"));
    let leaked = pid_in(&dir.path().join("leaked"));
    until("the leaked child is gone", || !lives(leaked));
}

/// One that floods the pipe after its parent has gone is not listened to for ever.
#[tokio::test]
async fn a_leaked_flood_ends() {
    let outcome = run(sh("yes & echo done; exit 5").with_output_bytes_max(1_000)).await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::Code(5));
}

/// What leaves the session is out of reach until there are process namespaces; the call still ends.
#[tokio::test]
async fn a_daemon_does_not_hang_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & until [ -s daemon ]; do :; done; echo done";
    let outcome = run(ProcessRequest::new(["bash", "-c", script], dir.path())).await.unwrap();
    assert_eq!(text(&outcome.stdout.head), "done\n");
    let daemon = pid_in(&dir.path().join("daemon"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A killed host takes its children along. The host is this test again, in a process of its own.
#[test]
fn a_child_dies_with_a_killed_host() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ends::host_of_a_sleeper", "--ignored", "--nocapture"])
        .env("HAFT_TEST_DIR", dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let sleeper = pid_in(&dir.path().join("sleeper"));
    assert!(lives(sleeper));
    host.kill().unwrap();
    host.wait().unwrap();
    until("the sleeper is gone", || !lives(sleeper));
}

/// Runs until it is killed; see above.
#[test]
#[ignore = "it is a part of another test"]
fn host_of_a_sleeper() {
    let Some(dir) = std::env::var_os("HAFT_TEST_DIR") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let request = ProcessRequest::new(["sh", "-c", "echo $$ > sleeper; exec sleep 1000"], dir);
    let _ = runtime.block_on(run(request));
}

/// The thread that starts a child lives as long as the child; the host's threads may come and go.
#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let processes = Arc::new(processes());
    let dir = tempfile::tempdir().unwrap();
    let mut run = {
        let request = ProcessRequest::new(
            ["sh", "-c", "echo $$ > there; until [ -e go ]; do sleep 0.01; done; echo done"],
            dir.path(),
        );
        let processes = processes.clone();
        Box::pin(async move { processes.run(request).await })
    };
    // Polled once, so started, on a thread that ends.
    let mut run = std::thread::spawn(move || {
        let waker = std::task::Waker::noop();
        assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        run
    })
    .join()
    .unwrap();
    let pid = pid_in(&dir.path().join("there"));
    assert!(lives(pid));
    std::fs::write(dir.path().join("go"), "").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(&mut run).unwrap();
    assert_eq!(text(&outcome.stdout.head), "done\n");
}

/// A server may start something that leaves its group, its session and its parent.
#[tokio::test]
async fn what_leaves_a_child_that_stays_ends_with_it() {
    for ends_by_itself in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let kept = LocalProcesses::new(std::env::vars_os()).keeping_families(Some(HELPER.into()));
        let script = "setsid sh -c 'trap \"\" TERM HUP; echo $$ > away; while :; do sleep 0.05; done' &
                      while [ ! -s away ]; do sleep 0.01; done; echo begun; id -u; read line; exit 3";
        let (say, pipes) = mpsc::channel();
        let cancel = Cancel::new();
        let request = ProcessRequest::new(["bash", "-c", script], dir.path())
            .with_cancel(cancel.clone())
            .with_pipes(move |input, output| drop(say.send((input, output))));
        let ended = tokio::spawn(async move { kept.run(request).await });
        let (input, output) = tokio::task::spawn_blocking(move || pipes.recv().unwrap()).await.unwrap();
        let away = pid_in(&dir.path().join("away"));
        assert!(lives(away));
        if ends_by_itself {
            drop(input)
        } else {
            cancel.cancel(Cause::Shutdown)
        }
        let outcome = ended.await.unwrap().unwrap();
        assert_eq!(outcome.exit, if ends_by_itself { ProcessExit::Code(3) } else { ProcessExit::Cancelled });
        until("it has gone with the rest", || !lives(away));
        drop(output);
    }
}
