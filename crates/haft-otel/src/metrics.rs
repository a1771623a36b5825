//! How long things take, counted in this process and sent as a whole: a request that is lost costs nothing but its moment.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::limits::SERIES_MAX;

/// The upper ends of the buckets, in seconds: those that the conventions of MCP advise.
pub(crate) const BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// How long calls of tools take.
pub(crate) const TOOL: &str = "haft.tool.call.duration";
/// How long requests to MCP servers take.
pub(crate) const REQUEST: &str = "mcp.client.operation.duration";
/// How long connections to MCP servers last.
pub(crate) const CONNECTION: &str = "mcp.client.session.duration";

/// Durations with the same attributes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) counts: [u64; BOUNDS.len() + 1],
    pub(crate) sum: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Facts about what was measured.
pub(crate) type Attributes = Vec<(&'static str, Value)>;
/// All that was measured, by name.
pub(crate) type Measured = Vec<(&'static str, Vec<(Attributes, Series)>)>;

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    all: HashMap<&'static str, HashMap<String, (Attributes, Series)>>,
    changed: bool,
}

impl Metrics {
    pub(crate) fn add(&mut self, name: &'static str, attributes: Attributes, took: Duration) {
        let all = self.all.entry(name).or_default();
        let mut key = format!("{attributes:?}");
        let mut attributes = attributes;
        if all.len() >= SERIES_MAX && !all.contains_key(&key) {
            // What the standard has in place of one combination too many.
            attributes = vec![("otel.metric.overflow", json!(true))];
            key = String::new();
        }
        let seconds = took.as_secs_f64();
        let (_, series) = all.entry(key).or_insert_with(|| {
            let counts = [0; BOUNDS.len() + 1];
            (attributes, Series { counts, sum: 0.0, least: f64::INFINITY, most: 0.0 })
        });
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        series.counts[bucket] += 1;
        series.sum += seconds;
        series.least = series.least.min(seconds);
        series.most = series.most.max(seconds);
        self.changed = true;
    }

    /// All of it, if something was added since it was last asked for.
    pub(crate) fn take_changed(&mut self) -> Option<Measured> {
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
        let mut metrics = Metrics::default();
        assert!(metrics.take_changed().is_none());
        for millis in [5, 10, 11, 400_000] {
            metrics.add(TOOL, vec![("a", json!(1))], Duration::from_millis(millis));
        }
        let all = metrics.take_changed().unwrap();
        let [(TOOL, series)] = &all[..] else { panic!("{all:?}") };
        let (_, series) = &series[0];
        assert_eq!((series.counts[0], series.counts[1], series.counts[BOUNDS.len()]), (2, 1, 1));
        assert_eq!((series.least, series.most), (0.005, 400.0));
        assert!(metrics.take_changed().is_none(), "nothing was added since");
    }

    #[test]
    fn there_is_an_end_to_combinations() {
        let mut metrics = Metrics::default();
        for n in 0..SERIES_MAX + 10 {
            metrics.add(TOOL, vec![("n", json!(n))], Duration::ZERO);
        }
        let all = metrics.take_changed().unwrap();
        assert_eq!(all[0].1.len(), SERIES_MAX + 1);
        let over = all[0].1.iter().find(|(attributes, _)| attributes[0].0 == "otel.metric.overflow").unwrap();
        assert_eq!(over.1.counts[0], 10);
    }
}
