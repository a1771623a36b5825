//! Ids of traces and spans, and the `traceparent` header.
//!
//! The span id of a call is derived from the call (session, agent, turn, index) and a secret of the
//! process instead of being random. The id is therefore known at any time during the call without
//! being stored.

use haft::ports::{CallPlace, TraceContext};
use sha2::{Digest as _, Sha256};

/// Sixteen bytes, not all zero.
pub(crate) type TraceId = [u8; 16];
/// Eight bytes, not all zero.
pub(crate) type SpanId = [u8; 8];

/// The remote parent span from `TRACEPARENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteParent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) sampled: bool,
    pub(crate) state: Option<String>,
}

impl RemoteParent {
    /// Parses `traceparent` with its `tracestate`. Returns `None` for invalid values: the standard
    /// requires a new trace then.
    pub(crate) fn parse(parent: &str, state: Option<&str>) -> Option<RemoteParent> {
        let parent = parent.trim();
        let mut parts = parent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = decode_hex::<1>(version)?[0];
        // Version 0 has exactly four parts; later versions may have more.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span) = (decode_hex::<16>(trace)?, decode_hex::<8>(span)?);
        let sampled = decode_hex::<1>(flags)?[0] & 1 == 1;
        let state = state.map(str::trim).filter(|state| !state.is_empty() && state.len() <= 512);
        let state = state.filter(|state| state.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let zero = trace == [0; 16] || span == [0; 8];
        (!zero).then(|| RemoteParent { trace, span, sampled, state: state.map(str::to_owned) })
    }
}

/// Decodes exactly `N` bytes of lower-case hexadecimal digits.
fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (place, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
        *place = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Derives trace and span ids.
#[derive(Debug)]
pub(crate) struct SpanIds {
    secret: [u8; 16],
    parent: Option<RemoteParent>,
}

impl SpanIds {
    pub(crate) fn new(parent: Option<RemoteParent>) -> SpanIds {
        use std::hash::{BuildHasher as _, RandomState};
        // `RandomState` is seeded by the system. The ids need to be unique, not secret.
        let word = |n: u64| RandomState::new().hash_one((n, std::process::id())).to_le_bytes();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&word(1));
        secret[8..].copy_from_slice(&word(2));
        SpanIds { secret, parent }
    }

    pub(crate) fn parent(&self) -> Option<&RemoteParent> {
        self.parent.as_ref()
    }

    /// Returns whether spans are exported. A remote parent can disable sampling.
    pub(crate) fn is_sampled(&self) -> bool {
        self.parent.as_ref().is_none_or(|parent| parent.sampled)
    }

    /// Returns the trace of a session: the remote parent's trace or its own.
    pub(crate) fn trace_id(&self, session: &str) -> TraceId {
        match &self.parent {
            Some(parent) => parent.trace,
            None => id_from_digest(self.digest(&[b"trace", session.as_bytes()])),
        }
    }

    /// Returns the id of the span around a session's calls.
    pub(crate) fn session_span_id(&self, session: &str) -> SpanId {
        id_from_digest(self.digest(&[b"session", session.as_bytes()]))
    }

    /// Returns the span id of a call.
    pub(crate) fn call_span_id(&self, place: &CallPlace<'_>) -> SpanId {
        let CallPlace { session, agent, turn, call, .. } = place;
        let (turn, index) = (turn.to_le_bytes(), (call.index as u64).to_le_bytes());
        id_from_digest(self.digest(&[
            b"call",
            session.as_bytes(),
            agent.as_bytes(),
            &turn,
            &index,
            call.id.as_bytes(),
        ]))
    }

    /// Returns the id of a numbered span that doesn't belong to a call.
    pub(crate) fn standalone_span_id(&self, number: u64) -> SpanId {
        id_from_digest(self.digest(&[b"fresh", &number.to_le_bytes()]))
    }

    /// Returns the trace context that a call passes on.
    pub(crate) fn trace_context(&self, place: &CallPlace<'_>) -> TraceContext {
        let flags = u8::from(self.is_sampled());
        TraceContext {
            traceparent: format!(
                "00-{}-{}-{flags:02x}",
                encode_hex(&self.trace_id(place.session)),
                encode_hex(&self.call_span_id(place))
            ),
            tracestate: self.parent.as_ref().and_then(|parent| parent.state.clone()),
        }
    }

    fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new().chain_update(self.secret);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// Truncates a digest to an id that is not all zero.
fn id_from_digest<const N: usize>(digest: [u8; 32]) -> [u8; N] {
    let mut id = [0; N];
    id.copy_from_slice(&digest[..N]);
    if id.iter().all(|byte| *byte == 0) {
        id[0] = 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use haft::event::CallRef;

    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_or_is_none() {
        let parent = RemoteParent::parse(HEADER, Some("a=b")).unwrap();
        assert!(parent.sampled);
        assert_eq!((parent.span[0], parent.state.as_deref()), (0xb7, Some("a=b")));
        assert!(!RemoteParent::parse(&HEADER.replace("-01", "-00"), None).unwrap().sampled);
        assert!(
            RemoteParent::parse(&HEADER.replace("00-0", "cc-0").replace("-01", "-01-more"), None).is_some()
        );
        for bad in [
            "",
            "00",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1é",
        ] {
            assert_eq!(RemoteParent::parse(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn a_call_has_one_span_and_others_have_others() {
        let ids = SpanIds::new(RemoteParent::parse(HEADER, None));
        let call = |index| CallRef { index, id: "c".into(), tool: "T".into() };
        let (one, two) = (call(0), call(1));
        let place = |turn, call| CallPlace::new("s", "main", turn, call);
        let all = [
            ids.call_span_id(&place(1, &one)),
            ids.call_span_id(&place(1, &two)),
            ids.call_span_id(&place(2, &one)),
        ];
        assert_eq!(all[0], ids.call_span_id(&place(1, &one)));
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        let handed = ids.trace_context(&place(1, &one)).traceparent;
        assert!(
            handed.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && handed.ends_with("-01"),
            "{handed}"
        );
        assert_eq!(RemoteParent::parse(&handed, None).unwrap().span, all[0]);
        assert_ne!(
            SpanIds::new(None).trace_id("s"),
            SpanIds::new(None).trace_id("s"),
            "each process has its own"
        );
    }
}
