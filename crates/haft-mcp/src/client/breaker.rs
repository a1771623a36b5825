//! When a server that can't be reached is left alone for a while.
//!
//! Only reaching it counts: a tool that fails is an answer. After too many failures in a row calls are refused at once; when
//! the pause is over one call tries, and its outcome decides for the others.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::session::Session;
use crate::limits::{BREAKER_FAILURES, BREAKER_PAUSE};

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    /// Calls are refused until then.
    closed_until: Option<Instant>,
    /// A call tries whether it is better.
    trying: bool,
    /// The connection whose loss was counted last.
    lost: Weak<Session>,
}

impl Breaker {
    /// Whether a call may try, and if not, for how many seconds.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), u64> {
        let Some(until) = self.closed_until else { return Ok(()) };
        let left = until.saturating_duration_since(now);
        if !left.is_zero() {
            return Err(left.as_secs().max(1));
        }
        if self.trying {
            return Err(1);
        }
        self.trying = true;
        Ok(())
    }

    pub(crate) fn reached(&mut self) {
        *self = Breaker::default();
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= BREAKER_FAILURES {
            self.closed_until = Some(now + BREAKER_PAUSE);
        }
        self.trying = false;
    }

    /// A connection was lost: that counts once, however many calls were under way.
    pub(crate) fn lost(&mut self, connection: &Arc<Session>, now: Instant) {
        let connection = Arc::downgrade(connection);
        if !self.lost.ptr_eq(&connection) {
            self.failed(now);
            self.lost = connection;
        }
    }

    /// A call that was admitted ended without knowing.
    pub(crate) fn gave_up(&mut self) {
        self.trying = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_closes_after_failures_in_a_row_and_lets_one_try() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 1..BREAKER_FAILURES {
            breaker.failed(start);
        }
        breaker.reached();
        for _ in 0..BREAKER_FAILURES {
            assert_eq!(breaker.admit(start), Ok(()), "failures have to be in a row");
            breaker.failed(start);
        }
        assert_eq!(breaker.admit(start), Err(BREAKER_PAUSE.as_secs()));
        let later = start + BREAKER_PAUSE + Duration::from_millis(1);
        assert_eq!(breaker.admit(later), Ok(()));
        assert_eq!(breaker.admit(later), Err(1), "one at a time");
        breaker.failed(later);
        assert!(breaker.admit(later).is_err());
        let much_later = later + BREAKER_PAUSE + BREAKER_PAUSE;
        assert_eq!(breaker.admit(much_later), Ok(()));
        breaker.gave_up();
        assert_eq!(breaker.admit(much_later), Ok(()));
        breaker.reached();
        assert_eq!((breaker.admit(start), breaker.admit(start)), (Ok(()), Ok(())));
    }
}
