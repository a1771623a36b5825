//! Which calls one rule means, for the `if` of a hook.
//!
//! The rule is a set of its own that denies, so that it reaches what a call does and not only what it is called: a hook
//! that looks after a folder sees whatever writes there. Unlike a rule that denies, it also means what nobody knows and could
//! be it, as in a command that isn't understood: a hook that had nothing to look at says so itself, one that wasn't started says nothing.

use haft::decision::Verdict;
use haft::ports::Request;

use super::Policy;
use super::case::Case;
use super::unknown;
use crate::rule::{BadRule, Rule, RuleSet};
use crate::source::{List, Source, WrittenRule};

/// The calls that a rule means.
pub struct Meaning {
    policy: Policy,
    set: RuleSet,
}

impl Policy {
    /// Understands a rule by itself, in no list. A specifier that rules never look at is none.
    ///
    /// # Errors
    /// A rule that can't be understood.
    pub fn meaning(&self, rule: &str, source: &Source) -> Result<Meaning, BadRule> {
        let parse = |text: &str| Rule::parse(WrittenRule::plain(text, List::Deny, source.clone()));
        let mut rule = parse(rule)?;
        if rule.is_never_looked_at() {
            rule = parse(rule.tool())?;
        }
        let (set, _) = RuleSet::compile(vec![rule], &self.0.surroundings.anchors);
        Ok(Meaning { policy: self.clone(), set })
    }
}

impl Meaning {
    /// Whether a call is one of them. What can't be told is a yes.
    pub fn is_meant(&self, request: &Request<'_>) -> bool {
        let case = Case::of(request, &self.policy.0.surroundings);
        let matches = self.set.decide(&case.subject);
        let meets = matches!(matches.verdict, Some(Verdict::Deny | Verdict::Ask)) || matches.leaves_out;
        meets || unknown::may_mean(&self.policy.0, &self.set, &case)
    }
}
