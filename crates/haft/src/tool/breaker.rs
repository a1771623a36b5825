//! A circuit breaker: a tool that fails again and again is left alone for a while, then tried by one call.
//!
//! What counts is what speaks of the tool and not of the call: it took too long, it panicked, or its error says that the
//! same call may succeed later. An error that says "not so" comes from a tool that works. Nothing here is about models:
//! a provider's endpoint has a breaker of its own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::content::Output;
use crate::error::{ErrorKind, ToolError};

/// When a failing tool is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// How many calls in a row may fail.
    pub failures: u32,
    /// How long the tool is left alone then. One call may try afterwards, and decides how it goes on.
    pub rest: Duration,
}

impl Breaker {
    /// Left alone for half a minute after this many failures in a row.
    pub fn after(failures: u32) -> Breaker {
        Breaker { failures: failures.max(1), rest: Duration::from_secs(30) }
    }
}

/// The breaker of one tool, shared by all agents that share the registry.
#[derive(Debug)]
pub(crate) struct Circuit {
    policy: Breaker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    rests: Option<Instant>,
}

impl Circuit {
    pub(crate) fn new(policy: Breaker) -> Circuit {
        Circuit { policy, state: Mutex::default() }
    }

    /// Whether a call may be made now; if not, the answer in its place.
    pub(crate) fn ask(&self, tool: &str, now: Instant) -> Result<(), ToolError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = state.rests else { return Ok(()) };
        if now < until {
            let (times, left) = (state.failures, until.saturating_duration_since(now).as_secs() + 1);
            let words = format!(
                "{tool} was not run: it failed {times} times in a row and is left alone for {left} s; do without it, or \
                 try again then"
            );
            return Err(ToolError::of(ErrorKind::Blocked, words).retryable());
        }
        // One tries, and the others wait: whoever tries may be gone before it is known how it went.
        state.rests = Some(now + self.policy.rest);
        Ok(())
    }

    /// How a call went.
    pub(crate) fn note(&self, outcome: &Result<Output, ToolError>, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome.as_ref().err().map(|error| (error.kind(), error.is_retryable())) {
            // Says nothing of the tool.
            Some((ErrorKind::Cancelled, _)) => {}
            Some((ErrorKind::TimedOut | ErrorKind::Panicked, _) | (ErrorKind::Failed, true)) => {
                state.failures = state.failures.saturating_add(1);
                if state.failures >= self.policy.failures {
                    state.rests = Some(now + self.policy.rest);
                }
            }
            _ => *state = State::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_rests_lets_one_try_and_closes() {
        let circuit = Circuit::new(Breaker::after(2));
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
