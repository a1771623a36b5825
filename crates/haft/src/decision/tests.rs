//! Every combination of source and verdict, up to five reasons.

use std::path::Path;

use super::*;
use crate::effects::Effects;
use crate::effects::table::ConcurrencyClass;
use crate::files::PathTable;

use DecisionSource as S;
use Verdict::{Allow, Ask, Deny};

/// How many reasons a combination has at most.
const REASONS_MAX: usize = 5;

/// Sources that an authorizer speaks for. The others are tool, hooks, classifier and user.
const OF_RULES: [S; 7] = [S::Protected, S::Rule, S::Mode, S::Sandbox, S::Effects, S::Grants, S::Failure];

fn every_reason() -> Vec<DecisionReason> {
    let reasons = |source| Verdict::ALL.map(|verdict| DecisionReason::new(source, verdict, ""));
    S::ALL.into_iter().flat_map(reasons).collect()
}

/// Calls `check` with every multiset of up to `most` reasons. The order is for another test.
fn each_combination(most: usize, check: &mut dyn FnMut(&[DecisionReason])) {
    fn extend(
        all: &[DecisionReason],
        most: usize,
        reasons: &mut Vec<DecisionReason>,
        check: &mut dyn FnMut(&[DecisionReason]),
    ) {
        check(reasons);
        if reasons.len() == most {
            return;
        }
        for (at, reason) in all.iter().enumerate() {
            reasons.push(reason.clone());
            extend(&all[at..], most, reasons, check);
            reasons.pop();
        }
    }
    extend(&every_reason(), most, &mut Vec::with_capacity(most), check);
}

/// The table in the module's documentation, written down once more.
fn may_lift(by: S, ask: S, may_vouch: bool) -> bool {
    let weak = [S::Mode, S::Sandbox, S::Effects, S::Grants].contains(&ask);
    match by {
        S::User | S::PermissionHook => true,
        S::Hook | S::Classifier => weak,
        S::Tool => weak && may_vouch,
        _ => false,
    }
}

/// The verdict that the table gives.
fn expected(reasons: &[DecisionReason], may_vouch: bool) -> Verdict {
    let with = |verdict| reasons.iter().filter(move |reason| reason.verdict == verdict);
    let stands =
        |ask: &DecisionReason| !with(Allow).any(|allow| may_lift(allow.source, ask.source, may_vouch));
    match (with(Deny).next().is_some(), with(Ask).any(stands)) {
        (true, _) => Deny,
        (false, true) => Ask,
        (false, false) => Allow,
    }
}

/// A call that only reads, or one of which nothing is known: the tool may vouch for the first alone.
fn effects(is_known: bool) -> CallEffects {
    let declared = if is_known { Effects::none() } else { Effects::unknown() };
    let class = EffectClass {
        class: if is_known { ConcurrencyClass::ReadOnly } else { ConcurrencyClass::Unsafe },
        asks: if is_known { ApprovalNeed::No } else { ApprovalNeed::Always },
        read_only: is_known,
        destructive: !is_known,
        concurrency_safe: is_known,
        rerunnable: is_known,
    };
    let resolved = ResolvedEffects::resolve(Arc::new(declared), Path::new("/"), &PathTable::default());
    CallEffects { resolved, class, unconfined_child: false }
}

/// Decides on every combination. What the rules leave open is decided by the effects.
fn check_every_decision(is_known: bool) {
    let workspace = Workspace::without_dirs();
    let context =
        DecisionContext { workspace: &workspace, runs_in_child: false, has_user: true, may_ask: &|_| true };
    let effects = effects(is_known);
    let mut count = 0u32;
    each_combination(REASONS_MAX, &mut |all| {
        count += 1;
        let (rules, others): (Vec<_>, Vec<_>) =
            all.iter().cloned().partition(|reason| OF_RULES.contains(&reason.source));
        let open = (rules.is_empty() && !is_known).then_some(Ask);
        let verdict = expected(all, is_known).max(match open {
            Some(ask)
                if !others
                    .iter()
                    .any(|other| other.verdict == Allow && may_lift(other.source, S::Effects, false)) =>
            {
                ask
            }
            _ => Allow,
        });
        let decision = decide(effects.clone(), &context, rules, &others);
        assert_eq!(decision.verdict, verdict, "{all:?}");
        // The source that is named has given that verdict.
        assert!(
            decision
                .reason()
                .is_none_or(|reason| (reason.source, reason.verdict) == (decision.source, verdict)),
            "{all:?}"
        );
    });
    assert!(count > 700_000, "{count}");
}

#[test]
fn a_deny_is_final_and_an_ask_is_lifted_by_the_table_alone() {
    check_every_decision(true);
}

/// The tool's own allow counts for nothing then.
#[test]
fn the_table_holds_for_calls_with_unknown_effects() {
    check_every_decision(false);
}

fn folded(reasons: &[DecisionReason], may_vouch: bool) -> (Verdict, Option<S>) {
    match deciding_reason(reasons, may_vouch).map(|at| &reasons[at]) {
        Some(reason) => (reason.verdict, Some(reason.source)),
        None => (Allow, None),
    }
}

#[test]
fn the_order_of_reasons_does_not_matter() {
    each_combination(REASONS_MAX, &mut |all| {
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        assert_eq!(folded(&reversed, true), folded(all, true), "{all:?}");
    });
    each_combination(3, &mut |all| {
        let [a, b, c] = all else { return };
        let first = folded(all, true);
        for order in [[a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]] {
            assert_eq!(folded(&order.map(Clone::clone), true), first, "{all:?}");
        }
    });
}

#[test]
fn a_further_reason_allows_more_only_where_its_source_may_lift_an_ask() {
    let further = every_reason();
    each_combination(REASONS_MAX - 1, &mut |all| {
        let before = folded(all, true).0;
        let mut more = Vec::with_capacity(REASONS_MAX);
        more.extend_from_slice(all);
        for reason in &further {
            more.push(reason.clone());
            if folded(&more, true).0 < before {
                let lifts =
                    |ask: &DecisionReason| ask.verdict == Ask && may_lift(reason.source, ask.source, true);
                assert!(reason.verdict == Allow && before == Ask && all.iter().any(lifts), "{more:?}");
            }
            more.pop();
        }
    });
}
