//! The bounds of what is kept and sent.

use std::time::Duration;

/// How many spans wait to be sent. `OTEL_BSP_MAX_QUEUE_SIZE` says otherwise.
pub const QUEUE_MAX: usize = 2_048;
/// How many spans one request has. `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` says otherwise.
pub const BATCH_MAX: usize = 512;
/// How long spans wait for others to be sent with. `OTEL_BSP_SCHEDULE_DELAY` says otherwise.
pub const SPAN_DELAY: Duration = Duration::from_secs(5);
/// How often metrics are sent. `OTEL_METRIC_EXPORT_INTERVAL` says otherwise.
pub const METRIC_INTERVAL: Duration = Duration::from_secs(60);
/// How long one request may take. `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the program waits for what is still to be sent.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(3);
/// How many calls are watched at once; more are not traced, and counted.
pub const OPEN_MAX: usize = 10_000;
/// How many sessions are remembered, so that each has a span around its calls.
pub const SESSIONS_MAX: usize = 1_000;
/// How many combinations of attributes one metric has; what comes after them is counted together, as the standard has it.
pub const SERIES_MAX: usize = 500;
/// How many facts a call may have beside those that every span has.
pub const NOTES_MAX: usize = 32;
/// The longest text of an attribute, in characters. `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` says otherwise.
pub const VALUE_CHARS_MAX: usize = 4_096;
