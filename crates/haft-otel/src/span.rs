//! One span, as it is exported.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::span_ids::{SpanId, TraceId};

/// An operation with a start and an end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    /// Whether the parent span belongs to another process.
    pub(crate) remote_parent: bool,
    pub(crate) state: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Nanoseconds since 1970, as is the end.
    pub(crate) start_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    /// The error message of a failed operation.
    pub(crate) error: Option<String>,
}

/// The span kind, with the numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal = 1,
    Client = 3,
}

/// Returns the current time in nanoseconds since 1970.
pub(crate) fn unix_nanos_now() -> u64 {
    to_nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
