//! The circuit breaker of a provider's endpoint.
//!
//! A 429 is not a failure of the endpoint, which works and says how long to wait. Rejected requests don't
//! count either.

use std::time::Duration;

use haft::circuit_breaker::CircuitBreaker;
use tokio::time::Instant;

use crate::limits::{BREAKER_FAILURES_MAX, BREAKER_REST_SECONDS};
use haft_agent::{FailureKind, ModelFailure};

#[derive(Debug)]
pub(super) struct EndpointBreaker(CircuitBreaker);

impl EndpointBreaker {
    pub(super) fn new() -> EndpointBreaker {
        EndpointBreaker(CircuitBreaker::new(BREAKER_FAILURES_MAX, Duration::from_secs(BREAKER_REST_SECONDS)))
    }

    /// Whether a request may be made now.
    pub(super) fn ask(&mut self, now: Instant) -> Result<(), ModelFailure> {
        self.0.admit(now).map_err(|refused| {
            let (times, left) = (self.0.failures(), refused.remaining().unwrap_or_default().as_secs() + 1);
            let words = format!("it failed {times} times in a row; it is tried again in {left} s");
            ModelFailure::new(FailureKind::Resting, words)
        })
    }

    pub(super) fn succeeded(&mut self) {
        self.0.record_success();
    }

    pub(super) fn failed(&mut self, failure: &ModelFailure, now: Instant) {
        let counts = matches!(
            failure.kind,
            FailureKind::Overloaded | FailureKind::Server | FailureKind::Disconnected | FailureKind::TimedOut
        );
        if counts {
            self.0.record_failure(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_rests_lets_one_try_and_closes() {
        let mut breaker = EndpointBreaker::new();
        let now = Instant::now();
        let broken = ModelFailure::new(FailureKind::Server, "x");
        for _ in 0..BREAKER_FAILURES_MAX {
            assert!(breaker.ask(now).is_ok());
            breaker.failed(&ModelFailure::new(FailureKind::RateLimited, "x"), now);
            breaker.failed(&broken, now);
        }
        let words = breaker.ask(now).unwrap_err().to_string();
        assert_eq!(
            words,
            "the endpoint is left alone for a while: it failed 10 times in a row; it is tried again in 31 s"
        );
        let later = now + Duration::from_secs(BREAKER_REST_SECONDS);
        assert!(breaker.ask(later).is_ok(), "one may try");
        assert!(breaker.ask(later).is_err(), "and no other");
        breaker.failed(&broken, later);
        assert!(breaker.ask(later + Duration::from_secs(1)).is_err());
        let again = later + Duration::from_secs(BREAKER_REST_SECONDS + 1);
        assert!(breaker.ask(again).is_ok());
        breaker.succeeded();
        assert!(breaker.ask(again).is_ok() && breaker.ask(again).is_ok());
    }
}
