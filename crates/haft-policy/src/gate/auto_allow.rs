//! Commands that run unasked because the sandbox holds them to the session's profile.
//!
//! Only with all of the sandbox: a part of it protects no names. Knowing more of a command never asks more: what a script
//! of which nothing is known could do in the same sandbox runs, also where the text of the command isn't understood. What
//! asks is a place or host that the sandbox doesn't open, and overwriting or removing what can't be kept before; the rest
//! of what is known to change is kept, and `Rewind` brings it back.

use std::sync::Arc;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::files::{CheckpointPlan, PlannedChange};
use haft::ports::PermissionMode;

use super::call_analysis::CallAnalysis;
use crate::rule::{EffectKind, EffectRef, RuleMatches};
use crate::source::SettingsSource;

/// Says whether all of the sandbox is there. Asked only where it decides.
pub type IsFullSandbox = Arc<dyn Fn() -> bool + Send + Sync>;

/// Who lets commands run unasked, and whether they are held.
pub(super) struct SandboxAutoAllow {
    /// Where settings say so for every mode.
    by_settings: Option<SettingsSource>,
    is_full: Option<IsFullSandbox>,
}

/// Whether everything that is known to be overwritten or removed can be kept before.
fn is_kept(case: &CallAnalysis<'_>, matches: &RuleMatches) -> bool {
    let changes = matches
        .uncovered
        .iter()
        .filter(|effect| matches!(effect.touch, EffectKind::Writes | EffectKind::Deletes));
    let places = changes.filter_map(|effect| {
        let place = case.place(*effect)?;
        // What is no file of the workspace is the session's own, as its `/tmp`.
        let inside = case.workspace.contains_both(&place.given, &place.real);
        // What is moved is still there.
        let partial = place.partial || case.is_moved(*effect, place);
        inside.then(|| PlannedChange { partial, ..place.planned_change() })
    });
    CheckpointPlan::new(places).is_some()
}

impl SandboxAutoAllow {
    pub(super) fn new(
        by_settings: Option<SettingsSource>,
        is_full: Option<IsFullSandbox>,
    ) -> SandboxAutoAllow {
        SandboxAutoAllow { by_settings, is_full }
    }

    /// Why a command runs that would ask otherwise, if it does.
    pub(super) fn covers(
        &self,
        mode: PermissionMode,
        case: &CallAnalysis<'_>,
        matches: &RuleMatches,
    ) -> Option<DecisionReason> {
        let is_full = self.is_full.as_ref()?;
        let by = match (mode, &self.by_settings) {
            (PermissionMode::Plan, _) => return None,
            (PermissionMode::Auto, _) => "mode `auto`: the sandbox holds it".to_owned(),
            (_, Some(source)) => format!("`autoAllowBashIfSandboxed` ({source})"),
            (_, None) => return None,
        };
        let is_command = case.caged && !case.commands.is_empty() && !case.subject.open;
        let stays = |touch: EffectKind| match touch {
            EffectKind::Call
            | EffectKind::Runs
            | EffectKind::Reads
            | EffectKind::Writes
            | EffectKind::Deletes
            | EffectKind::Reaches => true,
            EffectKind::Anything => false,
        };
        let is_held = |effect: &EffectRef| stays(effect.touch) && !case.needs_grant(*effect);
        let held = matches.uncovered.iter().all(is_held);
        (is_command && held && is_kept(case, matches) && is_full())
            .then(|| DecisionReason::new(DecisionSource::Sandbox, Verdict::Allow, by))
    }
}
