//! Ids of traces and spans, and the header that carries them.
//!
//! The id of a call's span is made from what the call is (session, agent, turn, place) and a secret of this process, not
//! drawn when the span begins: whoever asks in the middle of a call which span it is gets the same answer, and nothing has
//! to be remembered for it.

use haft::ports::{CallPlace, TraceContext};
use sha2::{Digest as _, Sha256};

/// Sixteen bytes, not all zero.
pub(crate) type TraceId = [u8; 16];
/// Eight bytes, not all zero.
pub(crate) type SpanId = [u8; 8];

/// Who called this program, as its `TRACEPARENT` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) sampled: bool,
    pub(crate) state: Option<String>,
}

impl Parent {
    /// Reads `traceparent`, and `tracestate` that goes with it. What isn't one is none: the standard says to begin anew.
    pub(crate) fn read(parent: &str, state: Option<&str>) -> Option<Parent> {
        let parent = parent.trim();
        let mut parts = parent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = hex::<1>(version)?[0];
        // Later versions may have more parts; this one has four.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span) = (hex::<16>(trace)?, hex::<8>(span)?);
        let sampled = hex::<1>(flags)?[0] & 1 == 1;
        let state = state.map(str::trim).filter(|state| !state.is_empty() && state.len() <= 512);
        let state = state.filter(|state| state.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let zero = trace == [0; 16] || span == [0; 8];
        (!zero).then(|| Parent { trace, span, sampled, state: state.map(str::to_owned) })
    }
}

/// Exactly so many bytes in small hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
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

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes ids.
#[derive(Debug)]
pub(crate) struct Ids {
    secret: [u8; 16],
    parent: Option<Parent>,
}

impl Ids {
    pub(crate) fn new(parent: Option<Parent>) -> Ids {
        use std::hash::{BuildHasher as _, RandomState};
        // Two keys that the system's randomness is behind; nothing here guards a secret of anybody.
        let word = |n: u64| RandomState::new().hash_one((n, std::process::id())).to_le_bytes();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&word(1));
        secret[8..].copy_from_slice(&word(2));
        Ids { secret, parent }
    }

    pub(crate) fn parent(&self) -> Option<&Parent> {
        self.parent.as_ref()
    }

    /// Whether spans are wanted: not where whoever called this program said that its trace isn't kept.
    pub(crate) fn sampled(&self) -> bool {
        self.parent.as_ref().is_none_or(|parent| parent.sampled)
    }

    /// The trace of a session: the caller's, or one of its own.
    pub(crate) fn trace(&self, session: &str) -> TraceId {
        match &self.parent {
            Some(parent) => parent.trace,
            None => first(self.digest(&[b"trace", session.as_bytes()])),
        }
    }

    /// The span around a session's calls.
    pub(crate) fn session(&self, session: &str) -> SpanId {
        first(self.digest(&[b"session", session.as_bytes()]))
    }

    /// The span of a call.
    pub(crate) fn call(&self, place: &CallPlace<'_>) -> SpanId {
        let CallPlace { session, agent, turn, call, .. } = place;
        let (turn, index) = (turn.to_le_bytes(), (call.index as u64).to_le_bytes());
        first(self.digest(&[
            b"call",
            session.as_bytes(),
            agent.as_bytes(),
            &turn,
            &index,
            call.id.as_bytes(),
        ]))
    }

    /// A span that nobody asks for again.
    pub(crate) fn fresh(&self, number: u64) -> SpanId {
        first(self.digest(&[b"fresh", &number.to_le_bytes()]))
    }

    /// What a call hands on.
    pub(crate) fn context(&self, place: &CallPlace<'_>) -> TraceContext {
        let flags = u8::from(self.sampled());
        TraceContext {
            traceparent: format!(
                "00-{}-{}-{flags:02x}",
                shown(&self.trace(place.session)),
                shown(&self.call(place))
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

/// The beginning of a digest, which is all zeros only in a world that ends first.
fn first<const N: usize>(digest: [u8; 32]) -> [u8; N] {
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
        let parent = Parent::read(HEADER, Some("a=b")).unwrap();
        assert!(parent.sampled);
        assert_eq!((parent.span[0], parent.state.as_deref()), (0xb7, Some("a=b")));
        assert!(!Parent::read(&HEADER.replace("-01", "-00"), None).unwrap().sampled);
        assert!(Parent::read(&HEADER.replace("00-0", "cc-0").replace("-01", "-01-more"), None).is_some());
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
            assert_eq!(Parent::read(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn a_call_has_one_span_and_others_have_others() {
        let ids = Ids::new(Parent::read(HEADER, None));
        let call = |index| CallRef { index, id: "c".into(), tool: "T".into() };
        let (one, two) = (call(0), call(1));
        let place = |turn, call| CallPlace::new("s", "main", turn, call);
        let all = [ids.call(&place(1, &one)), ids.call(&place(1, &two)), ids.call(&place(2, &one))];
        assert_eq!(all[0], ids.call(&place(1, &one)));
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        let handed = ids.context(&place(1, &one)).traceparent;
        assert!(
            handed.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && handed.ends_with("-01"),
            "{handed}"
        );
        assert_eq!(Parent::read(&handed, None).unwrap().span, all[0]);
        assert_ne!(Ids::new(None).trace("s"), Ids::new(None).trace("s"), "each process has its own");
    }
}
