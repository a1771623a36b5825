//! Duration histograms, cumulative for this process and exported as a whole. A lost request costs
//! one sample in time only.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::limits::SERIES_MAX;

/// The upper bounds of the buckets in seconds, as the MCP conventions recommend.
pub(crate) const BUCKET_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The duration of tool calls.
pub(crate) const TOOL_CALL_DURATION: &str = "haft.tool.call.duration";
/// The duration of requests to MCP servers.
pub(crate) const MCP_REQUEST_DURATION: &str = "mcp.client.operation.duration";
/// The lifetime of connections to MCP servers.
pub(crate) const MCP_SESSION_DURATION: &str = "mcp.client.session.duration";

/// A histogram of the durations with one set of attributes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DurationHistogram {
    pub(crate) counts: [u64; BUCKET_BOUNDS.len() + 1],
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The attributes of a measurement.
pub(crate) type MetricAttributes = Vec<(&'static str, Value)>;
/// All histograms, grouped by metric name.
pub(crate) type MetricSnapshot = Vec<(&'static str, Vec<(MetricAttributes, DurationHistogram)>)>;

/// The histograms of all metrics.
#[derive(Debug, Default)]
pub(crate) struct DurationMetrics {
    all: HashMap<&'static str, HashMap<String, (MetricAttributes, DurationHistogram)>>,
    changed: bool,
}

impl DurationMetrics {
    pub(crate) fn record(&mut self, name: &'static str, attributes: MetricAttributes, took: Duration) {
        let all = self.all.entry(name).or_default();
        let mut key = format!("{attributes:?}");
        let mut attributes = attributes;
        if all.len() >= SERIES_MAX && !all.contains_key(&key) {
            // The attribute that the standard requires for measurements beyond the limit.
            attributes = vec![("otel.metric.overflow", json!(true))];
            key = String::new();
        }
        let seconds = took.as_secs_f64();
        let (_, series) = all.entry(key).or_insert_with(|| {
            let counts = [0; BUCKET_BOUNDS.len() + 1];
            (attributes, DurationHistogram { counts, sum: 0.0, min: f64::INFINITY, max: 0.0 })
        });
        let bucket = BUCKET_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKET_BOUNDS.len());
        series.counts[bucket] += 1;
        series.sum += seconds;
        series.min = series.min.min(seconds);
        series.max = series.max.max(seconds);
        self.changed = true;
    }

    /// Returns all histograms if a measurement was added since the last snapshot.
    pub(crate) fn take_snapshot(&mut self) -> Option<MetricSnapshot> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        Some(self.all.iter().map(|(name, all)| (*name, all.values().cloned().collect())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_their_buckets() {
        let mut metrics = DurationMetrics::default();
        assert!(metrics.take_snapshot().is_none());
        for millis in [5, 10, 11, 400_000] {
            metrics.record(TOOL_CALL_DURATION, vec![("a", json!(1))], Duration::from_millis(millis));
        }
        let all = metrics.take_snapshot().unwrap();
        let [(TOOL_CALL_DURATION, series)] = &all[..] else { panic!("{all:?}") };
        let (_, series) = &series[0];
        assert_eq!((series.counts[0], series.counts[1], series.counts[BUCKET_BOUNDS.len()]), (2, 1, 1));
        assert_eq!((series.min, series.max), (0.005, 400.0));
        assert!(metrics.take_snapshot().is_none(), "nothing was added since");
    }

    #[test]
    fn there_is_an_end_to_combinations() {
        let mut metrics = DurationMetrics::default();
        for n in 0..SERIES_MAX + 10 {
            metrics.record(TOOL_CALL_DURATION, vec![("n", json!(n))], Duration::ZERO);
        }
        let all = metrics.take_snapshot().unwrap();
        assert_eq!(all[0].1.len(), SERIES_MAX + 1);
        let over = all[0].1.iter().find(|(attributes, _)| attributes[0].0 == "otel.metric.overflow").unwrap();
        assert_eq!(over.1.counts[0], 10);
    }
}
