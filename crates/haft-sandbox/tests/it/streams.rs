//! What a child is given: input, descriptors, environment, signals.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::{Arc, Mutex};

use haft::ports::{ProcessExit, ProcessRequest, Processes};
use haft_sandbox::{LocalProcesses, SandboxStack};

use crate::confined::Ground;
use crate::{run, sh, text};

#[tokio::test]
async fn large_input_goes_in_while_output_comes_out() {
    let input: Vec<u8> = (0..=255).cycle().take(5_000_000).collect();
    let outcome =
        run(ProcessRequest::new(["cat"], "/").with_stdin(input.clone()).with_output_bytes_max(8_000_000));
    assert_eq!(outcome.await.unwrap().stdout.whole(), Some(&input[..]));
}

#[tokio::test]
async fn a_child_that_never_reads_or_closes_early_is_no_error() {
    for script in ["exit 0", "exec <&-; sleep 0.05", "head -c 1 > /dev/null"] {
        let outcome = run(sh(script).with_stdin(vec![b'x'; 3_000_000])).await.unwrap();
        assert_eq!(outcome.exit, ProcessExit::Code(0), "{script}");
    }
    let nothing = run(sh("cat; echo end")).await.unwrap();
    assert_eq!(text(&nothing.stdout.head), "end\n", "no input is an input that ends at once");
}

/// Talks to a child: a line in, a line out, then the end of its input.
async fn talk(processes: &dyn Processes, request: ProcessRequest) {
    let (given, pipes) = std::sync::mpsc::channel();
    let (said, complaints) = std::sync::mpsc::channel();
    let request = request
        .with_on_output(move |bytes| said.send(String::from_utf8_lossy(bytes).into_owned()).unwrap())
        .with_pipes(move |input, output| given.send((input, output)).unwrap());
    let conversation = std::thread::spawn(move || {
        let (input, output) = pipes.recv().unwrap();
        let (mut input, mut output) = (std::fs::File::from(input), std::fs::File::from(output));
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            let mut answer = Vec::new();
            let wanted = format!("<{word}>\n");
            while answer.len() < wanted.len() {
                let mut byte = [0];
                // Our end doesn't block.
                match output.read(&mut byte) {
                    Ok(0) => panic!("it ended: {answer:?}"),
                    Ok(_) => answer.push(byte[0]),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(answer, wanted.as_bytes());
        }
    });
    let outcome = processes.run(request).await.unwrap();
    conversation.join().unwrap();
    assert_eq!(outcome.exit, ProcessExit::Code(0), "it ended because its input did");
    assert_eq!(outcome.stdout.total_bytes, 0, "the output was somebody else's");
    assert_eq!(complaints.into_iter().collect::<String>(), "hm\n", "only complaints are heard");
}

#[tokio::test]
async fn a_child_can_be_talked_to_while_it_runs() {
    let script = "echo hm >&2; while read word; do echo \"<$word>\"; done";
    talk(&crate::processes(), sh(script)).await;
    let ground = Ground::new();
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        talk(&ground.sandbox_of(stack, ground.scene()), ground.bash(script)).await;
    }
}

#[tokio::test]
async fn lines_on_descriptor_three_are_heard_one_by_one() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    let request = sh("echo one >&3; printf 'two\\n\\nthree' >&3; echo result").with_on_line(move |line| {
        told.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
        panic!("a listener that fails harms nobody");
    });
    let outcome = run(request).await.unwrap();
    assert_eq!(text(&outcome.stdout.head), "result\n");
    assert_eq!(*heard.lock().unwrap(), ["one", "two", "three"]);
}

/// Also what the host opened without close-on-exec, and also low numbers.
#[tokio::test]
async fn a_child_has_its_own_descriptors_and_no_others() {
    let leak = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    assert!(leak.as_fd().as_raw_fd() > 2);
    let list = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done";
    let outcome = run(ProcessRequest::new(["bash", "-c", list], "/")).await.unwrap();
    // The shell reads the folder by one more.
    assert_eq!(text(&outcome.stdout.head), "0\n1\n2\n3\n");
    let outcome = run(ProcessRequest::new(["bash", "-c", list], "/").with_on_line(|_| {})).await.unwrap();
    assert_eq!(text(&outcome.stdout.head), "0\n1\n2\n3\n4\n");
}

#[tokio::test]
async fn the_environment_is_made_from_the_list() {
    let host = [
        ("PATH", std::env::var("PATH").unwrap().as_str()),
        ("HOME", "/nowhere"),
        ("SOME_TOKEN", "secret"),
        ("LD_PRELOAD", ""),
        ("EDITOR", "vi"),
    ]
    .map(|(name, value)| (name.into(), value.into()));
    let processes = LocalProcesses::new(host);
    let request = |names: &[&str]| {
        ProcessRequest::new(["env"], "/").with_passed_env(names.iter().copied()).with_env("ADDED", "yes")
    };
    let names = async |request: ProcessRequest| {
        let outcome = processes.run(request).await.unwrap();
        let lines = text(&outcome.stdout.head).lines();
        lines.filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(request(&[])).await, ["ADDED", "HOME", "PATH"]);
    assert_eq!(names(request(&["SOME_TOKEN"])).await, ["ADDED", "HOME", "PATH", "SOME_TOKEN"]);
}

/// Nothing is ignored and nothing is blocked, whatever the host does with its signals.
#[tokio::test]
async fn signals_are_as_at_the_beginning() {
    let outcome = run(ProcessRequest::new(["cat", "/proc/self/status"], "/")).await.unwrap();
    let told = |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| line.starts_with(name));
    let lines: Vec<&str> = text(&outcome.stdout.head).lines().filter(told).collect();
    for line in &lines {
        assert_eq!(line.split_whitespace().nth(1), Some("0000000000000000"), "{lines:?}");
    }
    assert_eq!(lines.len(), 3);
    let pipe =
        run(ProcessRequest::new(["bash", "-c", "yes | head -1 > /dev/null; echo ${PIPESTATUS[0]}"], "/"));
    assert_eq!(text(&pipe.await.unwrap().stdout.head), "141\n", "a broken pipe is a signal");
}

#[tokio::test]
async fn children_run_side_by_side() {
    let processes = Arc::new(crate::processes());
    let dir = tempfile::tempdir().unwrap();
    // Each waits for the next one's file; none would end alone.
    let one = |own: usize, other: usize| {
        let script = format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo {own}");
        let (processes, cwd) = (processes.clone(), dir.path().to_owned());
        tokio::spawn(async move { processes.run(ProcessRequest::new(["sh", "-c", &script], cwd)).await })
    };
    let runs: Vec<_> = (0..8).map(|own| one(own, (own + 1) % 8)).collect();
    for (own, run) in runs.into_iter().enumerate() {
        assert_eq!(text(&run.await.unwrap().unwrap().stdout.head), format!("{own}\n"));
    }
}

#[test]
fn no_runtime_is_needed() {
    let processes = crate::processes();
    let mut run = processes.run(sh("echo hi"));
    let thread = std::thread::current();
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread)).into();
    let mut task = std::task::Context::from_waker(&waker);
    let outcome = loop {
        match run.as_mut().poll(&mut task) {
            std::task::Poll::Ready(outcome) => break outcome.unwrap(),
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(outcome.stdout.whole(), Some(&b"hi\n"[..]));
}
