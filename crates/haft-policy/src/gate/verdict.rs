//! The one function that decides: hard denials, rules, then the mode of what rules leave open, and last what isn't known.

use std::sync::Arc;

use haft::ports::{Because, PermissionMode};

use super::case::Case;
use super::live::Sets;
use super::unknown::{self, Unknown};
use super::{Inner, mode};
use crate::rule::{Decision, RuleId, RuleSet, Touch, Verdict, Why};
use crate::source::List;

/// What a sandbox may leave open to commands of that which rules stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Nothing.
    Nothing,
    /// Something outside of the working directories that may not be read, since there was too much to look at. Commands
    /// ask of which nobody knows what they read.
    Elsewhere,
    /// Anything: it masks nothing, or could not look at all of the working directories. Commands ask that no rule allows.
    Anything,
}

/// Says what a sandbox may leave open.
pub type Misses = Arc<dyn Fn() -> Open + Send + Sync>;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Never.
    Deny(Because),
    /// Only after the user's own yes.
    Ask(Because),
    /// It asks; a hook or a classifier may answer.
    Undecided(Because),
    /// It runs.
    Allow(Because),
}

/// What becomes of a call, and what the rules said.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    pub(super) decision: Decision,
    /// The mode or something else decided, and not a rule.
    pub(super) by_rule: bool,
    /// It would run but for something that isn't known of it; with the rule that could speak of that, if it is one.
    pub(super) unknown: Option<Option<RuleId>>,
}

/// Decides. With `explain` every rule that had something to say is in the decision; the outcome is the same.
pub(super) fn judge(
    inner: &Inner,
    sets: &Sets,
    mode: PermissionMode,
    case: &Case<'_>,
    explain: bool,
) -> Judged {
    let rules = sets.of(mode);
    let mut decision = if explain { rules.explain(&case.subject) } else { rules.decide(&case.subject) };
    let allows = matches!(decision.verdict, Verdict::Silent | Verdict::Allow);
    if allows
        && !case.doubts().is_empty()
        && let Some(exact) = exact_rule(rules, case)
    {
        (decision.verdict, decision.by) = (Verdict::Allow, Some(exact));
    }
    let by = |decision: &Decision| {
        let Some(rule) = decision.by.map(|id| rules.rule(id)) else { return Because::by("the rules") };
        // A rule that denies, and something of it may be in a folder that is touched.
        let perhaps = rule.list() == List::Deny && decision.verdict == Verdict::Ask;
        let because = rule.because();
        if perhaps { because.saying(Why::MayBeInside.to_string()) } else { because }
    };
    let (outcome, by_rule) = if let Some(because) = mode::never(inner, case) {
        (Outcome::Deny(because), false)
    } else {
        match decision.verdict {
            Verdict::Deny => (Outcome::Deny(by(&decision)), true),
            // Who wants a question doesn't want less than the mode does.
            Verdict::Ask => match mode::denies(mode, case, || rules.explain(&case.subject).uncovered) {
                Some(because) => (Outcome::Deny(because), false),
                None => (Outcome::Ask(by(&decision)), true),
            },
            verdict => {
                let allowed = (verdict == Verdict::Allow).then(|| by(&decision));
                mode::decide(inner, mode, case, &decision, allowed)
            }
        }
    };
    let bypass = mode == PermissionMode::BypassPermissions;
    let open = match outcome {
        Outcome::Allow(_) => open(inner, rules, case),
        _ => Open::Nothing,
    };
    let outcome = match outcome {
        Outcome::Allow(_) if open == Open::Anything && !by_rule && !bypass => {
            Outcome::Undecided(Because::by(MISSES))
        }
        outcome => outcome,
    };
    let unknown = match &outcome {
        Outcome::Allow(_) => unknown::find(inner, rules, case, open != Open::Nothing, bypass),
        _ => None,
    };
    match unknown {
        None => Judged { outcome, decision, by_rule, unknown: None },
        Some(Unknown { because, rule }) => {
            // Nothing but a yes lifts a block.
            let outcome = if rule.is_some() { Outcome::Undecided(because) } else { Outcome::Ask(because) };
            Judged { outcome, decision, by_rule: false, unknown: Some(rule) }
        }
    }
}

const MISSES: &str = "the sandbox can't hide from it here all that rules keep commands from";

/// What of that which rules stop a command could touch, because the sandbox could not look at everything or masks nothing.
fn open(inner: &Inner, rules: &RuleSet, case: &Case<'_>) -> Open {
    let stops = [Touch::Reads, Touch::Writes].iter().any(|touch| rules.may_stop(*touch, false).is_some());
    match &inner.misses {
        Some(misses) if case.caged && stops => misses(),
        _ => Open::Nothing,
    }
}

/// The rule for exactly this command line, which lets through what nobody understands.
fn exact_rule(rules: &RuleSet, case: &Case<'_>) -> Option<RuleId> {
    let decision = rules.explain(&case.whole_line()?);
    let covering = decision.others.iter().filter(|(_, why)| matches!(why, Why::Covers(_))).map(|(id, _)| *id);
    let allowing = decision.by.filter(|_| decision.verdict == Verdict::Allow);
    allowing.into_iter().chain(covering).find(|id| !rules.rule(*id).is_bare())
}
