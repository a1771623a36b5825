//! The calls that one rule matches, for the `if` of a hook.
//!
//! The rule becomes a set of its own with one deny rule, so that it matches effects and not only names: a
//! hook for a folder sees every tool that writes there. Unlike a deny rule, it also matches unknown effects
//! that could be the named ones, such as those of a command that isn't understood. A hook that runs
//! needlessly can say so, but a hook that doesn't run can't say anything.

use haft::decision::Verdict;
use haft::ports::AuthorizationRequest;

use super::Policy;
use super::call_analysis::CallAnalysis;
use super::unknown_effects;
use crate::rule::{InvalidRule, Rule, RuleSet};
use crate::source::{RuleList, SettingsSource, UnparsedRule};

/// The calls that a rule matches.
pub struct RuleFilter {
    policy: Policy,
    set: RuleSet,
}

impl Policy {
    /// Parses a rule by itself, outside of any list. A specifier that rules never evaluate is ignored.
    ///
    /// # Errors
    /// Returns [`InvalidRule`] if the rule is invalid.
    pub fn rule_filter(&self, rule: &str, source: &SettingsSource) -> Result<RuleFilter, InvalidRule> {
        let parse = |text: &str| Rule::parse(UnparsedRule::plain(text, RuleList::Deny, source.clone()));
        let mut rule = parse(rule)?;
        if rule.is_never_looked_at() {
            rule = parse(rule.tool())?;
        }
        let (set, _) = RuleSet::compile(vec![rule], &self.0.surroundings.anchors);
        Ok(RuleFilter { policy: self.clone(), set })
    }
}

impl RuleFilter {
    /// Returns whether the rule matches a call. If that can't be determined, the result is true.
    pub fn is_meant(&self, request: &AuthorizationRequest<'_>) -> bool {
        let case = CallAnalysis::for_request(request, &self.policy.0.surroundings);
        let matches = self.set.decide(&case.subject);
        let meets = matches!(matches.verdict, Some(Verdict::Deny | Verdict::Ask)) || matches.leaves_out;
        meets || unknown_effects::may_mean(&self.policy.0, &self.set, &case)
    }
}
