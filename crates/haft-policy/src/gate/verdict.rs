//! Evaluates rules and mode for a call: hard denials, then rules, then the mode for what rules leave open,
//! and last unknown effects.

use std::sync::Arc;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::ports::PermissionMode;

use super::call_analysis::CallAnalysis;
use super::session_rules::CompiledRules;
use super::unknown_effects::{self, UnknownEffect};
use super::{PolicyInner, mode};
use crate::rule::{EffectKind, NotDecidingReason, Rule, RuleId, RuleMatches, RuleSet};
use crate::source::RuleList;

/// Which restricted files the sandbox may leave accessible to commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoverageGap {
    /// None.
    Nothing,
    /// Unreadable files outside of the working directories, since there were too many to visit. Commands
    /// whose reads are unknown ask.
    Elsewhere,
    /// Any file: the sandbox masks nothing, or could not visit all of the working directories. Commands
    /// that no rule allows ask.
    Anything,
}

/// Reports which restricted files the sandbox of a session may leave accessible. Called only if rules
/// restrict files and a sandbox has to hide them.
#[derive(Clone)]
pub struct SandboxCoverage(Arc<dyn Fn() -> CoverageGap + Send + Sync>);

impl SandboxCoverage {
    /// Creates a report from a function.
    pub fn new(gap: impl Fn() -> CoverageGap + Send + Sync + 'static) -> SandboxCoverage {
        SandboxCoverage(Arc::new(gap))
    }

    /// Returns the report for an unknown sandbox, which is assumed to hide nothing.
    pub fn unknown() -> SandboxCoverage {
        SandboxCoverage::new(|| CoverageGap::Anything)
    }
}

/// The result of rules and mode for a call, with the underlying matches.
pub(super) struct PolicyReason {
    pub(super) reason: DecisionReason,
    pub(super) matches: RuleMatches,
    /// The call would run but for an unknown effect. Contains the rule that could match it, if it is a
    /// rule.
    pub(super) unknown: Option<Option<RuleId>>,
}

/// Returns the rule that would allow a call if the mode didn't leave it out.
pub(super) fn find_suspended_rule<'s>(
    sets: &'s CompiledRules,
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
) -> Option<&'s Rule> {
    let rules = sets.suspended_in(mode)?;
    let matches = rules.decide(&case.subject);
    matches.by.filter(|_| matches.verdict == Some(Verdict::Allow)).map(|id| rules.rule(id))
}

/// Describes why a rule doesn't count in a mode.
pub(super) fn why_suspended(mode: PermissionMode) -> String {
    format!("mode `{mode}` leaves out rules that allow any program")
}

/// Evaluates rules and mode. If the mode leaves out a rule that would allow the call, the reason says so.
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

/// With `explain` the matches hold every rule that matched. The reason is the same.
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
        // It lets the line run, but grants nothing.
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
            // Only the user's approval lifts a block.
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

/// Returns the reason for the rule that matched.
pub(super) fn by_rule(rules: &RuleSet, matches: &RuleMatches, verdict: Verdict) -> DecisionReason {
    let Some(rule) = matches.by.map(|id| rules.rule(id)) else {
        return DecisionReason::new(DecisionSource::Rule, verdict, "the rules");
    };
    // A deny rule that may match something in an affected folder.
    let perhaps = rule.list() == RuleList::Deny && verdict == Verdict::Ask;
    let reason = rule.reason(verdict);
    if perhaps { reason.with_message(NotDecidingReason::MayBeInside.to_string()) } else { reason }
}

const MISSES: &str = "the sandbox can't hide from it here all that rules keep commands from";

/// Returns which restricted files a command could access, because the sandbox could not visit everything or
/// masks nothing.
fn coverage_gap(inner: &PolicyInner, rules: &RuleSet, case: &CallAnalysis<'_>) -> CoverageGap {
    let stops =
        [EffectKind::Reads, EffectKind::Writes].iter().any(|touch| rules.may_stop(*touch, false).is_some());
    if case.caged && stops { (inner.coverage.0)() } else { CoverageGap::Nothing }
}

/// Returns the rule for exactly this command line, which allows it even if it isn't understood.
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
