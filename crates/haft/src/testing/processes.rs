//! Child processes that end by script; none is started.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::future::BoxFuture;
use crate::ports::{
    CapturedOutput, EnforcedRules, ProcessError, ProcessExit, ProcessOutcome, ProcessRequest, Processes,
};

/// A [`Processes`] that answers from a list and keeps what it was asked. At the end of the list nothing can
/// be started.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::{ProcessExit, Processes, ProcessRequest};
/// use haft::testing::ScriptedProcesses;
///
/// let request = |program: &str| ProcessRequest::new([program], "/").with_output_bytes_max(6);
/// let processes = ScriptedProcesses::new().prints("hello world").exits(2, "no such flag");
/// let first = processes.run(request("echo")).await.unwrap();
/// assert_eq!((&*first.stdout.head, &*first.stdout.tail), (&b"hel"[..], &b"rld"[..]), "within the request's bound");
/// assert_eq!(processes.run(request("ls")).await.unwrap().exit, ProcessExit::Code(2));
/// assert_eq!(processes.run(request("rm")).await.unwrap_err().to_string(), "no answer is scripted for `rm`");
/// assert_eq!(processes.requests().len(), 3);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ScriptedProcesses {
    script: Arc<Mutex<ProcessScript>>,
    confines: bool,
}

#[derive(Default)]
struct ProcessScript {
    answers: VecDeque<ScriptedExit>,
    requests: Vec<ProcessRequest>,
}

enum ScriptedExit {
    Ends(Box<Result<ProcessOutcome, ProcessError>>),
    Hangs,
}

impl ScriptedProcesses {
    /// An empty list, and children that nothing confines.
    pub fn new() -> ScriptedProcesses {
        ScriptedProcesses::default()
    }

    /// Says that children can do no more than was granted, so that effects of commands are believed.
    #[must_use]
    pub fn confining(self) -> ScriptedProcesses {
        ScriptedProcesses { confines: true, ..self }
    }

    /// The next process ends like this.
    #[must_use]
    pub fn then(self, outcome: Result<ProcessOutcome, ProcessError>) -> ScriptedProcesses {
        lock(&self.script).answers.push_back(ScriptedExit::Ends(Box::new(outcome)));
        self
    }

    /// The next process prints this and ends well.
    #[must_use]
    pub fn prints(self, stdout: impl AsRef<[u8]>) -> ScriptedProcesses {
        self.then(Ok(process_outcome(ProcessExit::Code(0), stdout.as_ref(), b"")))
    }

    /// The next process complains and ends with this code.
    #[must_use]
    pub fn exits(self, code: i32, stderr: impl AsRef<[u8]>) -> ScriptedProcesses {
        self.then(Ok(process_outcome(ProcessExit::Code(code), b"", stderr.as_ref())))
    }

    /// The next process can't be started.
    #[must_use]
    pub fn refuses(self, words: impl Into<String>) -> ScriptedProcesses {
        self.then(Err(ProcessError { message: words.into() }))
    }

    /// The next process runs until it is cancelled or its time is over.
    #[must_use]
    pub fn hangs(self) -> ScriptedProcesses {
        lock(&self.script).answers.push_back(ScriptedExit::Hangs);
        self
    }

    /// What was asked for, in order.
    pub fn requests(&self) -> Vec<ProcessRequest> {
        lock(&self.script).requests.clone()
    }
}

fn process_outcome(exit: ProcessExit, stdout: &[u8], stderr: &[u8]) -> ProcessOutcome {
    let all = |bytes: &[u8]| CapturedOutput::cut(bytes.to_vec(), usize::MAX);
    ProcessOutcome { exit, stdout: all(stdout), stderr: all(stderr), refused: Vec::new(), held: Vec::new() }
}

impl Processes for ScriptedProcesses {
    fn confines(&self) -> bool {
        self.confines
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let answer = {
            let mut script = lock(&self.script);
            script.requests.push(request.clone());
            script.answers.pop_front()
        };
        Box::pin(async move {
            match answer {
                Some(ScriptedExit::Ends(outcome)) => {
                    let mut outcome = (*outcome)?;
                    for stream in [&mut outcome.stdout, &mut outcome.stderr] {
                        if let (Some(on_output), false) = (&request.on_output, stream.head.is_empty()) {
                            on_output(&stream.head);
                        }
                        if stream.whole().is_some() {
                            *stream = CapturedOutput::cut(
                                std::mem::take(&mut stream.head),
                                request.output_bytes_max,
                            );
                        }
                    }
                    Ok(outcome)
                }
                Some(ScriptedExit::Hangs) => {
                    let waited = tokio::time::timeout(request.timeout, request.cancel.cancelled()).await;
                    let exit = if waited.is_ok() { ProcessExit::Cancelled } else { ProcessExit::TimedOut };
                    Ok(process_outcome(exit, b"", b""))
                }
                None => {
                    let argv: Vec<_> = request.argv.iter().map(|part| part.to_string_lossy()).collect();
                    Err(ProcessError { message: format!("no answer is scripted for `{}`", argv.join(" ")) })
                }
            }
        })
    }
}
