//! The circuit breaker of tools, provider endpoints and MCP servers.
//!
//! It counts failures in a row. After too many of them it opens: callers are refused until a pause is over.
//! Then one caller probes, and its outcome closes the breaker or opens it again. What counts as a failure,
//! and what a refused caller is told, the owner decides.

use std::time::Duration;

use tokio::time::Instant;

/// The state of one circuit breaker.
///
/// ```
/// # use std::time::Duration;
/// use haft::circuit_breaker::CircuitBreaker;
///
/// # let now = tokio::time::Instant::now();
/// let mut breaker = CircuitBreaker::new(2, Duration::from_secs(30));
/// breaker.record_failure(now);
/// assert!(breaker.admit(now).is_ok());
/// breaker.record_failure(now);
/// assert!(breaker.admit(now).is_err());
/// ```
#[derive(Debug, Clone)]
pub struct CircuitBreaker {
    failures_max: u32,
    pause: Duration,
    probe_timeout: Option<Duration>,
    failures: u32,
    open_until: Option<Instant>,
    probe: ProbeState,
}

#[derive(Debug, Clone, Copy)]
enum ProbeState {
    None,
    /// The outcome of a probe is awaited until then.
    Until(Instant),
    /// The outcome of a probe is awaited until it is reported.
    UntilReported,
}

/// A caller that a [`CircuitBreaker`] refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerRefusal {
    /// The breaker is open for this long.
    Open(Duration),
    /// Another caller probes; it may be replaced after this time, if that is known.
    Probing(Option<Duration>),
}

impl CircuitBreaker {
    /// A closed breaker that opens for `pause` after `failures_max` failures in a row.
    ///
    /// A probe whose outcome isn't reported within `pause` counts no longer, and another caller may probe.
    pub fn new(failures_max: u32, pause: Duration) -> CircuitBreaker {
        CircuitBreaker {
            failures_max,
            pause,
            probe_timeout: Some(pause),
            failures: 0,
            open_until: None,
            probe: ProbeState::None,
        }
    }

    /// Waits for the outcome of a probe without a time limit: the owner always reports one, or
    /// [abandons](CircuitBreaker::abandon_probe) the probe.
    #[must_use]
    pub fn with_reported_probes(mut self) -> CircuitBreaker {
        self.probe_timeout = None;
        self
    }

    /// Whether a caller may go ahead now.
    ///
    /// # Errors
    /// If the breaker is open, or another caller probes.
    pub fn admit(&mut self, now: Instant) -> Result<(), BreakerRefusal> {
        let Some(open_until) = self.open_until else { return Ok(()) };
        if now < open_until {
            return Err(BreakerRefusal::Open(open_until.saturating_duration_since(now)));
        }
        match self.probe {
            ProbeState::Until(end) if now < end => {
                return Err(BreakerRefusal::Probing(Some(end.saturating_duration_since(now))));
            }
            ProbeState::UntilReported => return Err(BreakerRefusal::Probing(None)),
            ProbeState::None | ProbeState::Until(_) => {}
        }
        self.probe =
            self.probe_timeout.map_or(ProbeState::UntilReported, |timeout| ProbeState::Until(now + timeout));
        Ok(())
    }

    /// A caller succeeded: closes the breaker.
    pub fn record_success(&mut self) {
        (self.failures, self.open_until, self.probe) = (0, None, ProbeState::None);
    }

    /// A caller failed.
    pub fn record_failure(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.failures_max {
            self.open_until = Some(now + self.pause);
        }
        self.probe = ProbeState::None;
    }

    /// A caller ended without an outcome: if it probed, another one may.
    pub fn abandon_probe(&mut self) {
        self.probe = ProbeState::None;
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the last pause ends; `None` as long as the breaker is closed.
    pub fn open_until(&self) -> Option<Instant> {
        self.open_until
    }
}

impl BreakerRefusal {
    /// How long the caller should wait, if that is known.
    pub fn remaining(self) -> Option<Duration> {
        match self {
            BreakerRefusal::Open(remaining) => Some(remaining),
            BreakerRefusal::Probing(remaining) => remaining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    #[test]
    fn opens_after_failures_in_a_row_and_lets_one_caller_probe() {
        let (mut breaker, now) = (CircuitBreaker::new(2, PAUSE), Instant::now());
        breaker.record_failure(now);
        breaker.record_success();
        breaker.record_failure(now);
        assert_eq!(breaker.admit(now), Ok(()), "failures have to be in a row");
        breaker.record_failure(now);
        assert_eq!(breaker.admit(now), Err(BreakerRefusal::Open(PAUSE)));
        let later = now + PAUSE;
        assert_eq!(breaker.admit(later), Ok(()));
        assert_eq!(breaker.admit(later), Err(BreakerRefusal::Probing(Some(PAUSE))));
        breaker.record_failure(later);
        assert_eq!(breaker.admit(later), Err(BreakerRefusal::Open(PAUSE)));
        let again = later + PAUSE;
        assert_eq!(breaker.admit(again), Ok(()));
        breaker.record_success();
        assert_eq!((breaker.admit(again), breaker.admit(again)), (Ok(()), Ok(())));
    }

    #[test]
    fn probes_end_by_themselves_or_when_they_are_reported() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::new(1, PAUSE);
        breaker.record_failure(now);
        assert_eq!(breaker.admit(now + PAUSE), Ok(()));
        assert_eq!(breaker.admit(now + 2 * PAUSE), Ok(()), "the first probe has timed out");

        let mut breaker = CircuitBreaker::new(1, PAUSE).with_reported_probes();
        breaker.record_failure(now);
        assert_eq!(breaker.admit(now + PAUSE), Ok(()));
        assert_eq!(breaker.admit(now + 9 * PAUSE), Err(BreakerRefusal::Probing(None)));
        breaker.abandon_probe();
        assert_eq!(breaker.admit(now + 9 * PAUSE), Ok(()));
    }
}
