//! When a server that can't be reached is left alone for a while.
//!
//! Only reaching it counts: a tool that fails is an answer. After too many failures in a row calls are
//! refused at once; when the pause is over one call tries, and its outcome decides for the others.
//!
//! A server that can't be connected is so for everybody. One that goes away while it works on calls of
//! somebody is left alone by them: others share it, and what one of them asks for is no reason to keep it
//! from the rest.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use haft::circuit_breaker::CircuitBreaker;
use tokio::time::Instant;

use super::session::ClientSession;
use crate::limits::{BREAKER_CALLERS_MAX, BREAKER_FAILURES, BREAKER_PAUSE};

/// What is known of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerBreakers {
    /// Whether it can be connected.
    connects: ServerBreaker,
    /// Whether it survives the calls of each caller; only of those under whose last call it went away.
    callers: HashMap<Box<str>, ServerBreaker>,
}

impl ServerBreakers {
    /// Whether a call may try, over a connection that is there or has to be made; if not, for how many
    /// seconds.
    pub(crate) fn admit(&mut self, caller: &str, is_connected: bool, now: Instant) -> Result<(), u64> {
        if let Some(breaker) = self.callers.get_mut(caller) {
            breaker.admit(now)?;
        }
        if is_connected { Ok(()) } else { self.connects.admit(now) }
    }

    /// A call was answered.
    pub(crate) fn reached(&mut self, caller: &str) {
        self.connects.breaker.record_success();
        self.callers.remove(caller);
    }

    /// No connection could be made.
    pub(crate) fn not_connected(&mut self, now: Instant) {
        self.connects.breaker.record_failure(now);
    }

    /// A connection was lost under a call: that counts once, however many calls of the caller were under way.
    pub(crate) fn lost(&mut self, caller: &str, connection: &Arc<ClientSession>, now: Instant) {
        if !self.callers.contains_key(caller) && self.callers.len() >= BREAKER_CALLERS_MAX {
            // Whoever may try soonest is missed least.
            let first = self.callers.iter().min_by_key(|(_, caller)| caller.breaker.open_until());
            let first = first.map(|(caller, _)| caller.clone());
            first.and_then(|first| self.callers.remove(&first));
        }
        self.callers.entry(caller.into()).or_default().lost(Arc::downgrade(connection), now);
    }

    /// A call that was admitted ended without knowing.
    pub(crate) fn gave_up(&mut self, caller: &str) {
        self.connects.breaker.abandon_probe();
        if let Some(breaker) = self.callers.get_mut(caller) {
            breaker.breaker.abandon_probe();
        }
    }
}

#[derive(Debug)]
struct ServerBreaker {
    breaker: CircuitBreaker,
    /// The connection whose loss was counted last.
    lost: Weak<ClientSession>,
}

impl Default for ServerBreaker {
    fn default() -> ServerBreaker {
        let breaker = CircuitBreaker::new(BREAKER_FAILURES, BREAKER_PAUSE).with_reported_probes();
        ServerBreaker { breaker, lost: Weak::new() }
    }
}

impl ServerBreaker {
    /// If the call is refused, for how many seconds.
    fn admit(&mut self, now: Instant) -> Result<(), u64> {
        self.breaker
            .admit(now)
            .map_err(|refused| refused.remaining().map_or(1, |remaining| remaining.as_secs().max(1)))
    }

    fn lost(&mut self, connection: Weak<ClientSession>, now: Instant) {
        if !self.lost.ptr_eq(&connection) {
            self.breaker.record_failure(now);
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
        let (mut breakers, start) = (ServerBreakers::default(), Instant::now());
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
