//! Usage of runs that work together: each meter counts its own run and those that work for it.
//!
//! Limits apply to the root meter while all runs still work: several runs in parallel can't each use up what
//! is left.

use std::sync::{Arc, Mutex};

use haft::sync::lock;

use crate::reply::TokenUsage;

/// Counts what a run costs, with all runs that work for it. Clones are the same meter.
#[derive(Clone, Default)]
pub struct UsageMeter(Arc<MeterState>);

#[derive(Default)]
struct MeterState {
    total: Mutex<UsageTotal>,
    /// The meter of the run that this one works for.
    parent: Option<UsageMeter>,
}

/// What runs have used.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UsageTotal {
    /// In tokens.
    pub usage: TokenUsage,
    /// In money, as far as prices are known.
    pub cost: Option<f64>,
}

impl UsageMeter {
    /// Creates a root meter.
    pub fn new() -> UsageMeter {
        UsageMeter::default()
    }

    /// Creates the meter of a run that works for this one: its usage counts here too.
    #[must_use]
    pub fn child(&self) -> UsageMeter {
        UsageMeter(Arc::new(MeterState { total: Mutex::default(), parent: Some(self.clone()) }))
    }

    /// Adds usage, here and in all meters above.
    pub fn add(&self, usage: &TokenUsage, cost: Option<f64>) {
        let mut at = Some(self);
        while let Some(meter) = at {
            let mut total = lock(&meter.0.total);
            total.usage.add(usage);
            total.cost = match (total.cost, cost) {
                (before, None) => before,
                (before, Some(cost)) => Some(before.unwrap_or_default() + cost),
            };
            at = meter.0.parent.as_ref();
        }
    }

    /// Returns what was used here and below.
    pub fn total(&self) -> UsageTotal {
        lock(&self.0.total).clone()
    }

    /// Returns the root meter.
    pub(crate) fn root(&self) -> &UsageMeter {
        let mut meter = self;
        while let Some(parent) = &meter.0.parent {
            meter = parent;
        }
        meter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_in_all_meters_above() {
        let top = UsageMeter::new();
        let (one, other) = (top.child(), top.child());
        let deep = one.child();
        let tokens = |input_tokens| TokenUsage { input_tokens, ..TokenUsage::default() };
        deep.add(&tokens(5), Some(0.5));
        other.add(&tokens(7), None);
        top.add(&tokens(1), Some(1.0));
        let total = |meter: &UsageMeter| (meter.total().usage.input_tokens, meter.total().cost);
        assert_eq!(total(&deep), (5, Some(0.5)));
        assert_eq!(total(&one), (5, Some(0.5)));
        assert_eq!(total(&other), (7, None));
        assert_eq!(total(&top), (13, Some(1.5)));
        assert_eq!(total(deep.root()), (13, Some(1.5)));
    }
}
