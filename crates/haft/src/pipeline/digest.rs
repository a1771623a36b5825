//! What an approval is bound to.
//!
//! A yes counts for exactly one thing: this definition of the tool, this input, here, touching this, with
//! these grants. The digest is computed only when somebody is asked.

use sha2::{Digest, Sha256};

use super::OpenedCall;
use crate::canonical;
use crate::context::Context;
use crate::effects::resolved::{ResolvedEffects, ResolvedPath};

/// The digest of a call as the user is asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallDigest([u8; 32]);

impl CallDigest {
    pub(crate) fn for_call(opened: &OpenedCall, resolved: &ResolvedEffects, cx: &Context) -> CallDigest {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(opened.entry.fingerprint());
        part(canonical::to_string(&opened.attempt.input).as_bytes());
        part(cx.cwd().as_os_str().as_encoded_bytes());
        let declared = serde_json::to_value(&*resolved.declared).unwrap_or_default();
        part(canonical::to_string(&declared).as_bytes());
        for (kind, paths) in [("r", &resolved.reads), ("w", &resolved.writes), ("d", &resolved.deletes)] {
            for ResolvedPath { at, extent } in paths {
                part(kind.as_bytes());
                part(at.real.as_os_str().as_encoded_bytes());
                // A write is about the place, a read about the very file; both say whether something is
                // there.
                part(format!("{extent:?} {} {:?}", at.exists, at.anchor).as_bytes());
            }
        }
        for root in cx.access().read.iter().chain(&cx.access().write) {
            part(root.path.as_os_str().as_encoded_bytes());
        }
        CallDigest(hash.finalize().into())
    }
}
