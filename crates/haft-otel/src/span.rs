//! One span, as it is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::id::{SpanId, TraceId};

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    /// Whether the parent is of another process.
    pub(crate) remote_parent: bool,
    pub(crate) state: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// In nanoseconds since 1970, as the end.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub(crate) failed: Option<String>,
}

/// Which side of something a span is, by the numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Internal = 1,
    Client = 3,
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
