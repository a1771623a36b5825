//! How long to wait before a request is made again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::ATTEMPTS_MAX;

/// How requests are made again: so often, with waits that double from `first` to `most`, each a little random
/// so that many who failed together don't come back together.
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

/// How long the provider wants to be left alone: `retry-after-ms`, or `retry-after` in seconds or as a date.
#[cfg(any(test, feature = "http"))]
pub(crate) fn retry_delay<'h>(header: impl Fn(&str) -> Option<&'h str>, now: SystemTime) -> Option<Duration> {
    let number = |name: &str| -> Option<f64> { header(name)?.trim().parse().ok() };
    match number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after")) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // A date that is over means now.
        None => Some(parse_http_date(header("retry-after")?.trim())?.duration_since(now).unwrap_or_default()),
    }
}

/// A date as HTTP writes it, `Wed, 21 Oct 2026 07:28:00 GMT`; of its two older forms nobody makes use.
#[cfg(any(test, feature = "http"))]
fn parse_http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts[..] else { return None };
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    let (day, year): (u64, u64) = (number(day)?, number(year)?);
    let month = MONTHS.find(month).filter(|at| at % 3 == 0 && month.len() == 3)? as u64 / 3;
    let clock: Vec<u64> = time.split(':').map(number).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    if !(1970..=9999).contains(&year)
        || !(1..=31).contains(&day)
        || hours > 23
        || minutes > 59
        || seconds > 60
    {
        return None;
    }
    // Years that begin in March have their odd day at the end.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + hours * 3_600 + minutes * 60 + seconds))
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
            let now = UNIX_EPOCH + Duration::from_secs(1_792_567_650);
            assert_eq!(retry_delay(|asked| (asked == name).then_some(value), now), expected, "{value}");
        };
        check("retry-after", "2", Some(Duration::from_secs(2)));
        check("retry-after", " 0.5 ", Some(Duration::from_millis(500)));
        check("retry-after-ms", "20", Some(Duration::from_millis(20)));
        check("retry-after", "-1", None);
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", Some(Duration::from_secs(30)));
        check("retry-after", "Thu, 22 Oct 2026 07:28:00 GMT", Some(Duration::from_secs(86_430)));
        check("retry-after", "Tue, 29 Feb 2028 07:27:30 GMT", Some(Duration::from_secs(496 * 86_400)));
        check("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT", Some(Duration::ZERO));
        check("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT", Some(Duration::ZERO));
        for odd in [
            "Wed, 21 Oct 2026 07:28:00 CET",
            "Wed, 32 Oct 2026 07:28:00 GMT",
            "Wed, 21 ctN 2026 07:28:00 GMT",
            "Wed, 21 Oct 2026 7:28 GMT",
            "Wed, 21 Oct 99999 07:28:00 GMT",
            "Wednesday, 21-Oct-26 07:28:00 GMT",
            "soon",
            "",
        ] {
            check("retry-after", odd, None);
        }
    }
}
