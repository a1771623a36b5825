//! The same rules in a mode of their own, for agents that may do less than the session.
//!
//! It is held beside the session's policy and never in its place, so the stricter of both counts: a mode that would let more
//! through than the session's changes nothing. Answers of the user are the session's and count here at once.

use haft::AnyTool;
use haft::ports::{Authorizer, Because, PermissionMode, Request, Ruling};

use super::Policy;
use super::verdict::Outcome;

/// A policy in a mode of its own.
#[derive(Clone)]
pub struct InMode {
    policy: Policy,
    mode: PermissionMode,
}

impl Policy {
    /// These rules in another mode than the session's, for [`Engine::permissions`](haft::Engine::permissions) of a child.
    pub fn in_mode(&self, mode: PermissionMode) -> InMode {
        InMode { policy: self.clone(), mode }
    }
}

impl Authorizer for InMode {
    fn judge(&self, request: &Request<'_>) -> Ruling {
        match self.policy.0.outcome(request, self.mode) {
            Outcome::Deny(because) => Ruling::Deny(because),
            Outcome::Ask(because) => Ruling::Ask(because),
            Outcome::Undecided(because) => Ruling::Undecided(because),
            Outcome::Allow(because) => Ruling::Allow(because),
        }
    }

    fn may_ask(&self) -> bool {
        self.mode != PermissionMode::DontAsk
    }

    fn hides(&self, _: &str, _: &AnyTool) -> Option<Because> {
        // The session's rules are these, and hide what they hide.
        None
    }
}
