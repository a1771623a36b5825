//! When a server that can't be reached is left alone for a while.
//!
//! Only reaching it counts: a tool that fails is an answer. After too many failures in a row calls are refused at once; when
//! the pause is over one call tries, and its outcome decides for the others.
//!
//! A server that can't be connected is so for everybody. One that goes away while it works on calls of somebody is left alone by
//! them: others share it, and what one of them asks for is no reason to keep it from the rest.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::session::Session;
use crate::limits::{BREAKER_CALLERS_MAX, BREAKER_FAILURES, BREAKER_PAUSE};

/// What is known of one server.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    /// Whether it can be connected.
    connects: Breaker,
    /// Whether it survives the calls of each caller; only of those under whose last call it went away.
    callers: HashMap<Box<str>, Breaker>,
}

impl Breakers {
    /// Whether a call may try, over a connection that is there or has to be made; if not, for how many seconds.
    pub(crate) fn admit(&mut self, caller: &str, is_connected: bool, now: Instant) -> Result<(), u64> {
        if let Some(breaker) = self.callers.get_mut(caller) {
            breaker.admit(now)?;
        }
        if is_connected { Ok(()) } else { self.connects.admit(now) }
    }

    /// A call was answered.
    pub(crate) fn reached(&mut self, caller: &str) {
        self.connects = Breaker::default();
        self.callers.remove(caller);
    }

    /// No connection could be made.
    pub(crate) fn not_connected(&mut self, now: Instant) {
        self.connects.failed(now);
    }

    /// A connection was lost under a call: that counts once, however many calls of the caller were under way.
    pub(crate) fn lost(&mut self, caller: &str, connection: &Arc<Session>, now: Instant) {
        if !self.callers.contains_key(caller) && self.callers.len() >= BREAKER_CALLERS_MAX {
            // Whoever may try soonest is missed least.
            let first = self.callers.iter().min_by_key(|(_, breaker)| breaker.closed_until);
            let first = first.map(|(caller, _)| caller.clone());
            first.and_then(|first| self.callers.remove(&first));
        }
        self.callers.entry(caller.into()).or_default().lost(Arc::downgrade(connection), now);
    }

    /// A call that was admitted ended without knowing.
    pub(crate) fn gave_up(&mut self, caller: &str) {
        self.connects.trying = false;
        if let Some(breaker) = self.callers.get_mut(caller) {
            breaker.trying = false;
        }
    }
}

#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    /// Calls are refused until then.
    closed_until: Option<Instant>,
    /// A call tries whether it is better.
    trying: bool,
    /// The connection whose loss was counted last.
    lost: Weak<Session>,
}

impl Breaker {
    fn admit(&mut self, now: Instant) -> Result<(), u64> {
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

    fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= BREAKER_FAILURES {
            self.closed_until = Some(now + BREAKER_PAUSE);
        }
        self.trying = false;
    }

    fn lost(&mut self, connection: Weak<Session>, now: Instant) {
        if !self.lost.ptr_eq(&connection) {
            self.failed(now);
            self.lost = connection;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_closes_after_failures_in_a_row_and_lets_one_try() {
        let (mut breakers, start) = (Breakers::default(), Instant::now());
        for _ in 1..BREAKER_FAILURES {
            breakers.not_connected(start);
        }
        breakers.reached("a");
        for _ in 0..BREAKER_FAILURES {
            assert_eq!(breakers.admit("a", false, start), Ok(()), "failures have to be in a row");
            breakers.not_connected(start);
        }
        assert_eq!(breakers.admit("a", false, start), Err(BREAKER_PAUSE.as_secs()));
        assert_eq!(breakers.admit("b", false, start), Err(BREAKER_PAUSE.as_secs()), "it is so for all");
        assert_eq!(breakers.admit("b", true, start), Ok(()), "unless it is there");
        let later = start + BREAKER_PAUSE + Duration::from_millis(1);
        assert_eq!(breakers.admit("a", false, later), Ok(()));
        assert_eq!(breakers.admit("a", false, later), Err(1), "one at a time");
        breakers.not_connected(later);
        assert!(breakers.admit("a", false, later).is_err());
        let much_later = later + BREAKER_PAUSE + BREAKER_PAUSE;
        assert_eq!(breakers.admit("a", false, much_later), Ok(()));
        breakers.gave_up("a");
        assert_eq!(breakers.admit("a", false, much_later), Ok(()));
        breakers.reached("a");
        let both = (breakers.admit("a", false, start), breakers.admit("a", false, start));
        assert_eq!(both, (Ok(()), Ok(())));
    }
}
