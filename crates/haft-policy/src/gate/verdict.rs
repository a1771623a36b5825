//! What rules and mode say of a call: hard denials, rules, then the mode of what rules leave open, and last what isn't known.

use std::sync::Arc;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::ports::PermissionMode;

use super::call_analysis::CallAnalysis;
use super::session_rules::CompiledRules;
use super::unknown_effects::{self, UnknownEffect};
use super::{PolicyInner, mode};
use crate::rule::{EffectKind, NotDecidingReason, Rule, RuleId, RuleMatches, RuleSet};
use crate::source::RuleList;

/// What a sandbox may leave open to commands of that which rules stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoverageGap {
    /// Nothing.
    Nothing,
    /// Something outside of the working directories that may not be read, since there was too much to look at. Commands
    /// ask of which nobody knows what they read.
    Elsewhere,
    /// Anything: it masks nothing, or could not look at all of the working directories. Commands ask that no rule allows.
    Anything,
}

/// Reports what the sandbox of a session may leave open. Asked only where rules stop something and a sandbox is to hide it.
#[derive(Clone)]
pub struct SandboxCoverage(Arc<dyn Fn() -> CoverageGap + Send + Sync>);

impl SandboxCoverage {
    /// What this function reports.
    pub fn new(gap: impl Fn() -> CoverageGap + Send + Sync + 'static) -> SandboxCoverage {
        SandboxCoverage(Arc::new(gap))
    }

    /// Nothing is known of the sandbox, so it is assumed to hide nothing.
    pub fn unknown() -> SandboxCoverage {
        SandboxCoverage::new(|| CoverageGap::Anything)
    }
}

/// What rules and mode say of a call, and the matches behind it.
pub(super) struct PolicyReason {
    pub(super) reason: DecisionReason,
    pub(super) matches: RuleMatches,
    /// It would run but for something that isn't known of it; with the rule that could speak of that, if it is one.
    pub(super) unknown: Option<Option<RuleId>>,
}

/// The rule that would let a call through if the mode didn't leave it out.
pub(super) fn find_suspended_rule<'s>(
    sets: &'s CompiledRules,
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
) -> Option<&'s Rule> {
    let rules = sets.suspended_in(mode)?;
    let matches = rules.decide(&case.subject);
    matches.by.filter(|_| matches.verdict == Some(Verdict::Allow)).map(|id| rules.rule(id))
}

/// Why a rule doesn't count in a mode.
pub(super) fn why_suspended(mode: PermissionMode) -> String {
    format!("mode `{mode}` leaves out rules that allow any program")
}

/// What rules and mode say. Where a rule would let the call through that the mode leaves out, the reason says so.
pub(super) fn judge_call(
    inner: &PolicyInner,
    sets: &CompiledRules,
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
    explain: bool,
) -> PolicyReason {
    let mut judged = judge_by_rules(inner, sets, mode, case, explain);
    let asks = judged.reason.verdict == Verdict::Ask;
    if let Some(rule) = asks.then(|| find_suspended_rule(sets, mode, case)).flatten() {
        let (text, source) = (&judged.reason.text, rule.source());
        judged.reason.text =
            format!("{text}; `{rule}` ({source}) doesn't count, as {}", why_suspended(mode)).into();
    }
    judged
}

/// With `explain` the matches hold every rule that had something to say; the reason is the same.
fn judge_by_rules(
    inner: &PolicyInner,
    sets: &CompiledRules,
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
    explain: bool,
) -> PolicyReason {
    let rules = sets.for_mode(mode);
    let mut matches = if explain { rules.explain(&case.subject) } else { rules.decide(&case.subject) };
    let allows = matches!(matches.verdict, None | Some(Verdict::Allow));
    if allows
        && !case.doubts().is_empty()
        && let Some(exact) = exact_rule(rules, case)
    {
        // It lets the line run, and grants nothing.
        matches.uncovered.retain(|effect| case.needs_grant(*effect));
        let covered = matches.uncovered.is_empty();
        (matches.verdict, matches.by) =
            if covered { (Some(Verdict::Allow), Some(exact)) } else { (None, None) };
    }
    let reason = by_rules_and_mode(inner, mode, rules, case, &matches);
    let bypass = mode == PermissionMode::BypassPermissions;
    let allowed = reason.verdict == Verdict::Allow;
    let open = if allowed { coverage_gap(inner, rules, case) } else { CoverageGap::Nothing };
    if open == CoverageGap::Anything && reason.rule.is_none() && !bypass {
        let reason = DecisionReason::new(DecisionSource::Sandbox, Verdict::Ask, MISSES);
        return PolicyReason { reason, matches, unknown: None };
    }
    let unknown = if allowed {
        unknown_effects::find_unknown(inner, rules, case, open != CoverageGap::Nothing, bypass)
    } else {
        None
    };
    match unknown {
        None => PolicyReason { reason, matches, unknown: None },
        Some(UnknownEffect { text, rule }) => {
            // Nothing but a yes lifts a block.
            let source = if rule.is_some() { DecisionSource::Effects } else { DecisionSource::Protected };
            let reason = DecisionReason::new(source, Verdict::Ask, text);
            PolicyReason { reason, matches, unknown: Some(rule) }
        }
    }
}

fn by_rules_and_mode(
    inner: &PolicyInner,
    mode: PermissionMode,
    rules: &RuleSet,
    case: &CallAnalysis<'_>,
    matches: &RuleMatches,
) -> DecisionReason {
    if let Some(reason) = mode::find_absolute_denial(inner, case) {
        return reason;
    }
    match matches.verdict {
        Some(Verdict::Deny) => by_rule(rules, matches, Verdict::Deny),
        // An ask rule does not lift a denial of the mode.
        Some(Verdict::Ask) => mode::mode_denial(mode, case, || rules.explain(&case.subject).uncovered)
            .unwrap_or_else(|| by_rule(rules, matches, Verdict::Ask)),
        verdict => {
            let allowed = verdict.map(|verdict| by_rule(rules, matches, verdict));
            mode::decide_by_mode(inner, mode, case, matches, allowed)
        }
    }
}

/// The reason of the rule that matched.
pub(super) fn by_rule(rules: &RuleSet, matches: &RuleMatches, verdict: Verdict) -> DecisionReason {
    let Some(rule) = matches.by.map(|id| rules.rule(id)) else {
        return DecisionReason::new(DecisionSource::Rule, verdict, "the rules");
    };
    // A rule that denies, and something of it may be in a folder that is touched.
    let perhaps = rule.list() == RuleList::Deny && verdict == Verdict::Ask;
    let reason = rule.reason(verdict);
    if perhaps { reason.with_message(NotDecidingReason::MayBeInside.to_string()) } else { reason }
}

const MISSES: &str = "the sandbox can't hide from it here all that rules keep commands from";

/// What of that which rules stop a command could touch, because the sandbox could not look at everything or masks nothing.
fn coverage_gap(inner: &PolicyInner, rules: &RuleSet, case: &CallAnalysis<'_>) -> CoverageGap {
    let stops =
        [EffectKind::Reads, EffectKind::Writes].iter().any(|touch| rules.may_stop(*touch, false).is_some());
    if case.caged && stops { (inner.coverage.0)() } else { CoverageGap::Nothing }
}

/// The rule for exactly this command line, which lets through what nobody understands.
fn exact_rule(rules: &RuleSet, case: &CallAnalysis<'_>) -> Option<RuleId> {
    let decision = rules.explain(&case.whole_line()?);
    let covering = decision
        .others
        .iter()
        .filter(|(_, why)| matches!(why, NotDecidingReason::Covers(_)))
        .map(|(id, _)| *id);
    let allowing = decision.by.filter(|_| decision.verdict == Some(Verdict::Allow));
    allowing.into_iter().chain(covering).find(|id| !rules.rule(*id).is_bare())
}
