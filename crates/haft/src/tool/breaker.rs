//! The circuit breaker of a tool that fails again and again.
//!
//! What counts is what speaks of the tool and not of the call: it took too long, it panicked, or its error
//! says that the same call may succeed later. An error that says "not so" comes from a tool that works.

use std::sync::Mutex;
use std::time::Duration;

use haft_scheduler::sync::lock;
use tokio::time::Instant;

use crate::circuit_breaker::CircuitBreaker;
use crate::content::ToolOutput;
use crate::error::{ErrorKind, ToolError};

/// When a failing tool is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// How many calls in a row may fail.
    pub failures: u32,
    /// How long the tool is left alone then. One call may try afterwards, and decides how it goes on.
    pub rest: Duration,
}

impl BreakerOptions {
    /// Left alone for half a minute after this many failures in a row.
    pub fn after(failures: u32) -> BreakerOptions {
        BreakerOptions { failures: failures.max(1), rest: Duration::from_secs(30) }
    }
}

/// The breaker of one tool, shared by all agents that share the registry.
#[derive(Debug)]
pub(crate) struct ToolCircuit(Mutex<CircuitBreaker>);

impl ToolCircuit {
    pub(crate) fn new(policy: BreakerOptions) -> ToolCircuit {
        ToolCircuit(Mutex::new(CircuitBreaker::new(policy.failures, policy.rest)))
    }

    /// Whether a call may be made now; if not, the answer in its place.
    pub(crate) fn ask(&self, tool: &str, now: Instant) -> Result<(), ToolError> {
        let mut breaker = lock(&self.0);
        breaker.admit(now).map_err(|refused| {
            let (times, left) = (breaker.failures(), refused.remaining().unwrap_or_default().as_secs() + 1);
            let words = format!(
                "{tool} was not run: it failed {times} times in a row and is left alone for {left} s; do without it, or \
                 try again then"
            );
            ToolError::with_kind(ErrorKind::Blocked, words).retryable()
        })
    }

    /// How a call went. Takes it and gives it back: what the future of a call lends it keeps room for twice.
    pub(crate) fn noted(
        &self,
        outcome: Result<ToolOutput, ToolError>,
        now: Instant,
    ) -> Result<ToolOutput, ToolError> {
        self.note(&outcome, now);
        outcome
    }

    fn note(&self, outcome: &Result<ToolOutput, ToolError>, now: Instant) {
        let mut breaker = lock(&self.0);
        match outcome.as_ref().err().map(|error| (error.kind(), error.is_retryable())) {
            // Says nothing of the tool.
            Some((ErrorKind::Cancelled, _)) => {}
            Some((ErrorKind::TimedOut | ErrorKind::Panicked, _) | (ErrorKind::Failed, true)) => {
                breaker.record_failure(now);
            }
            _ => breaker.record_success(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_rests_lets_one_try_and_closes() {
        let circuit = ToolCircuit::new(BreakerOptions::after(2));
        let now = Instant::now();
        let down = || Err(ToolError::new("down").retryable());
        let wrong = || Err(ToolError::new("no such page"));
        circuit.note(&down(), now);
        circuit.note(&wrong(), now);
        circuit.note(&down(), now);
        assert!(circuit.ask("t", now).is_ok(), "one that answers works");
        circuit.note(&down(), now);
        let error = circuit.ask("t", now).unwrap_err();
        assert_eq!(
            error.message(),
            "t was not run: it failed 2 times in a row and is left alone for 31 s; do without it, or try again then"
        );
        assert!(error.is_retryable());
        let later = now + Duration::from_secs(30);
        assert!(circuit.ask("t", later).is_ok(), "one may try");
        assert!(circuit.ask("t", later).is_err(), "and no other");
        circuit.note(&down(), later);
        assert!(circuit.ask("t", later + Duration::from_secs(1)).is_err());
        let again = later + Duration::from_secs(31);
        assert!(circuit.ask("t", again).is_ok());
        circuit.note(&wrong(), again);
        assert!(circuit.ask("t", again).is_ok() && circuit.ask("t", again).is_ok());
    }
}
