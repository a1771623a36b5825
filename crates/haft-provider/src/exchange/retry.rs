//! How long to wait before a request is made again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::ATTEMPTS_MAX;

/// How requests are made again: so often, with waits that double from `first` to `most`, each a little random so that
/// many who failed together don't come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is made at most, the first time included.
    pub attempts: u32,
    /// The first wait.
    pub first: Duration,
    /// The longest wait, unless the provider asks for more.
    pub most: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: ATTEMPTS_MAX,
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// Every request is made once.
    pub fn never() -> RetryPolicy {
        RetryPolicy { attempts: 1, ..RetryPolicy::default() }
    }

    /// The wait after this attempt, from 1: between half of it and the whole.
    pub(super) fn wait(&self, attempt: u32) -> Duration {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX));
        let whole = doubled.min(self.most);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        whole / 2 + (whole / 2).mul_f64(f64::from(nanos % 1_000) / 1_000.0)
    }
}

/// How long the provider wants to be left alone: `retry-after-ms`, or `retry-after` in seconds.
#[cfg(any(test, feature = "http"))]
pub(crate) fn after<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let number = |name: &str| -> Option<f64> { header(name)?.trim().parse().ok() };
    let seconds = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after"))?;
    // A date is not read: what it says is in seconds at every provider that we know of.
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most() {
        let policy = RetryPolicy::default();
        for (attempt, whole_ms) in
            [(1, 500), (2, 1_000), (3, 2_000), (7, 30_000), (40, 30_000), (u32::MAX, 30_000)]
        {
            let wait = policy.wait(attempt).as_millis();
            assert!((whole_ms / 2..=whole_ms).contains(&wait), "{attempt}: {wait}");
        }
    }

    #[test]
    fn what_the_provider_asks_for() {
        let check = |name: &'static str, value: &'static str, expected: Option<Duration>| {
            assert_eq!(after(|asked| (asked == name).then_some(value)), expected, "{value}");
        };
        check("retry-after", "2", Some(Duration::from_secs(2)));
        check("retry-after", " 0.5 ", Some(Duration::from_millis(500)));
        check("retry-after-ms", "20", Some(Duration::from_millis(20)));
        check("retry-after", "-1", None);
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None);
    }
}
