//! The session's rules in another mode, for agents with fewer permissions than the session.
//!
//! This policy is evaluated in addition to the session's policy and never replaces it, so the stricter
//! verdict applies. A more permissive mode than the session's has no effect. The user's answers belong to
//! the session and apply here at once.

use haft::decision::{CallGrants, DecisionReason, DecisionSource};
use haft::ports::{AuthorizationRequest, Authorizer, PermissionMode, RuleSetId};
use haft::tool::AnyTool;

use super::{Policy, mode};

/// A policy with a mode that overrides the session's mode.
#[derive(Clone)]
pub struct ModeOverride {
    policy: Policy,
    mode: PermissionMode,
}

impl Policy {
    /// Returns these rules with another mode, for
    /// [`EngineBuilder::permissions`](haft::EngineBuilder::permissions) of a child.
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
        // The session's policy has the same rules and hides the same tools.
        None
    }
}
