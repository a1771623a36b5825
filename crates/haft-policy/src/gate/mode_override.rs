//! The same rules in a mode of their own, for agents that may do less than the session.
//!
//! It is held beside the session's policy and never in its place, so the stricter of both counts: a mode that would let more
//! through than the session's changes nothing. Answers of the user are the session's and count here at once.

use haft::decision::{CallGrants, DecisionReason, DecisionSource};
use haft::ports::{AuthorizationRequest, Authorizer, PermissionMode, RuleSetId};
use haft::tool::AnyTool;

use super::{Policy, mode};

/// A policy in a mode of its own.
#[derive(Clone)]
pub struct ModeOverride {
    policy: Policy,
    mode: PermissionMode,
}

impl Policy {
    /// These rules in another mode than the session's, for [`EngineBuilder::permissions`](haft::EngineBuilder::permissions) of a child.
    pub fn in_mode(&self, mode: PermissionMode) -> ModeOverride {
        ModeOverride { policy: self.clone(), mode }
    }
}

impl Authorizer for ModeOverride {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        vec![self.policy.0.reason(request, self.mode)]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        self.policy.rule_set()
    }

    fn may_ask(&self, source: DecisionSource) -> bool {
        mode::may_ask(self.mode, source)
    }

    fn grants(&self, request: &AuthorizationRequest<'_>, approved: bool) -> CallGrants {
        self.policy.grants(request, approved)
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        // The session's rules are these, and hide what they hide.
        None
    }
}
