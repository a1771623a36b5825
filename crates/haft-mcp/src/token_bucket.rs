//! Rate limits: a bucket of tokens that refills with time.

use tokio::time::Instant;

/// A rate, and how much may come at once before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

/// What may still come now.
pub(crate) struct TokenBucket {
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    pub(crate) fn full(rate: Rate, now: Instant) -> TokenBucket {
        TokenBucket { tokens: f64::from(rate.burst.max(1)), filled: now }
    }

    /// Takes this many tokens; whether there was one.
    pub(crate) fn take(&mut self, rate: Rate, cost: f64, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        let refilled = self.tokens + since * f64::from(rate.per_second);
        self.tokens = refilled.min(f64::from(rate.burst.max(1)));
        self.filled = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= cost;
        }
        has_one
    }

    /// Whether it was not used for so long that it is full again.
    pub(crate) fn is_full(&self, rate: Rate, now: Instant) -> bool {
        let full_after = f64::from(rate.burst.max(1)) / f64::from(rate.per_second.max(1));
        now.saturating_duration_since(self.filled).as_secs_f64() >= full_after
    }
}
