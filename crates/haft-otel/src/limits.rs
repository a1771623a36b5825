//! Limits on what is buffered and exported.

use std::time::Duration;

/// How many spans the queue holds. `OTEL_BSP_MAX_QUEUE_SIZE` overrides it.
pub const QUEUE_MAX: usize = 2_048;
/// How many spans one request contains. `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` overrides it.
pub const BATCH_MAX: usize = 512;
/// How long a span waits for a full batch. `OTEL_BSP_SCHEDULE_DELAY` overrides it.
pub const SPAN_DELAY: Duration = Duration::from_secs(5);
/// The interval between exports of metrics. `OTEL_METRIC_EXPORT_INTERVAL` overrides it.
pub const METRIC_INTERVAL: Duration = Duration::from_secs(60);
/// The timeout of one request. `OTEL_EXPORTER_OTLP_TIMEOUT` overrides it.
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the shutdown waits for the last exports.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(3);
/// How many calls are traced at once; further calls are counted and not traced.
pub const OPEN_MAX: usize = 10_000;
/// For how many sessions a start time is stored; further sessions get no session span.
pub const SESSIONS_MAX: usize = 1_000;
/// How many combinations of attributes one metric has; further ones share an overflow series, as
/// the standard requires.
pub const SERIES_MAX: usize = 500;
/// How many attributes a tool may add to the span of its call.
pub const NOTES_MAX: usize = 32;
/// The maximum length of an attribute value, in characters. `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`
/// overrides it.
pub const VALUE_CHARS_MAX: usize = 4_096;
