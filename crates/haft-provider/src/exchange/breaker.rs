//! A circuit breaker: an endpoint that fails again and again is left alone for a while, then tried by one request.
//!
//! Limits of rate don't count: the endpoint is well, and says how long to wait. Refusals don't count either.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{BREAKER_FAILURES_MAX, BREAKER_REST_SECONDS};
use crate::reply::{Failure, FailureKind};

#[derive(Debug)]
pub(super) struct Breaker {
    failures: u32,
    /// Until when it is left alone.
    rests: Option<Instant>,
}

impl Breaker {
    pub(super) fn new() -> Breaker {
        Breaker { failures: 0, rests: None }
    }

    /// Whether a request may be made now.
    pub(super) fn ask(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(until) = self.rests else { return Ok(()) };
        if now < until {
            let left = until.saturating_duration_since(now).as_secs() + 1;
            let words = format!("it failed {} times in a row; it is tried again in {left} s", self.failures);
            return Err(Failure::new(FailureKind::Resting, words));
        }
        // One tries, and rests for the others: whoever tries may be gone before it is known how it went.
        self.rests = Some(now + Duration::from_secs(BREAKER_REST_SECONDS));
        Ok(())
    }

    pub(super) fn succeeded(&mut self) {
        *self = Breaker::new();
    }

    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) {
        let counts = matches!(
            failure.kind,
            FailureKind::Overloaded | FailureKind::Server | FailureKind::Disconnected | FailureKind::TimedOut
        );
        if !counts {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= BREAKER_FAILURES_MAX {
            self.rests = Some(now + Duration::from_secs(BREAKER_REST_SECONDS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_rests_lets_one_try_and_closes() {
        let mut breaker = Breaker::new();
        let now = Instant::now();
        let broken = Failure::new(FailureKind::Server, "x");
        for _ in 0..BREAKER_FAILURES_MAX {
            assert!(breaker.ask(now).is_ok());
            breaker.failed(&Failure::new(FailureKind::RateLimited, "x"), now);
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
