//! Which calls one rule means, for the `if` of a hook.
//!
//! The rule is a set of its own that denies, so that it reaches what a call does and not only what it is called: a hook
//! that looks after a folder sees whatever writes there. Unlike a rule that denies, it also means what nobody knows and could
//! be it, as in a command that isn't understood: a hook that had nothing to look at says so itself, one that wasn't started says nothing.

use haft::decision::Verdict;
use haft::ports::AuthorizationRequest;

use super::Policy;
use super::call_analysis::CallAnalysis;
use super::unknown_effects;
use crate::rule::{InvalidRule, Rule, RuleSet};
use crate::source::{RuleList, SettingsSource, UnparsedRule};

/// The calls that a rule means.
pub struct RuleFilter {
    policy: Policy,
    set: RuleSet,
}

impl Policy {
    /// Understands a rule by itself, in no list. A specifier that rules never look at is none.
    ///
    /// # Errors
    /// A rule that can't be understood.
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
    /// Whether a call is one of them. What can't be told is a yes.
    pub fn is_meant(&self, request: &AuthorizationRequest<'_>) -> bool {
        let case = CallAnalysis::for_request(request, &self.policy.0.surroundings);
        let matches = self.set.decide(&case.subject);
        let meets = matches!(matches.verdict, Some(Verdict::Deny | Verdict::Ask)) || matches.leaves_out;
        meets || unknown_effects::may_mean(&self.policy.0, &self.set, &case)
    }
}
