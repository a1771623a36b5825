//! Processes that a closure plays; they say that they confine their children, and enforce no rules.

use haft::future::BoxFuture;
use haft::ports::{
    CapturedOutput, ConfinementRefusal, EnforcedRules, ProcessError, ProcessExit, ProcessOutcome,
    ProcessRequest, Processes,
};

pub(crate) struct ConfinedProcesses<F>(pub(crate) F);

impl<F, R> Processes for ConfinedProcesses<F>
where
    F: Fn(ProcessRequest) -> R + Send + Sync + 'static,
    R: Future<Output = ProcessOutcome> + Send + 'static,
{
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let outcome = (self.0)(request);
        Box::pin(async { Ok(outcome.await) })
    }
}

/// A child that ended without a word.
pub(crate) fn ended(exit: ProcessExit, refused: Vec<ConfinementRefusal>) -> ProcessOutcome {
    let (stdout, stderr) = (CapturedOutput::default(), CapturedOutput::default());
    ProcessOutcome { exit, stdout, stderr, refused, held: Vec::new() }
}
