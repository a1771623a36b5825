//! Sandbox rules for tests that have no policy.

use crate::decision::{DecisionReason, DecisionSource, Verdict};
use crate::ports::{
    AuthorizationRequest, Authorizer, EnforcedRules, ProcessRestrictions, RestrictProcesses, RuleSetId,
    SandboxRules,
};
use crate::tool::AnyTool;

/// Returns the rules with a change.
///
/// ```
/// use haft::ports::SandboxRules;
/// use haft::testing::with_restrictions;
///
/// let none = SandboxRules::from_authorizer(&haft::PermissionRules::new());
/// let rules = with_restrictions(&none, |rules| rules.unreadable_paths.push("/etc/hosts".into()));
/// assert_eq!(rules.unreadable_paths.len(), 1);
/// ```
pub fn with_restrictions(
    rules: &SandboxRules,
    change: impl FnOnce(&mut ProcessRestrictions),
) -> SandboxRules {
    let mut restrictions = (**rules).clone();
    change(&mut restrictions);
    SandboxRules::from_authorizer(&TestRules(restrictions, rules.enforced()))
}

/// Denies every call, and has these restrictions, under the id of those that they were made from.
struct TestRules(ProcessRestrictions, EnforcedRules);

impl Authorizer for TestRules {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        vec![DecisionReason::new(DecisionSource::Rule, Verdict::Deny, "a test of the sandbox")]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        match self.1 {
            EnforcedRules::Of(rules) => Some(rules),
            EnforcedRules::None | EnforcedRules::Unidentified => None,
        }
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

impl RestrictProcesses for TestRules {
    fn process_restrictions(&self) -> ProcessRestrictions {
        self.0.clone()
    }
}
