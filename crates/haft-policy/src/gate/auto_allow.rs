//! Commands that run without asking because the sandbox confines them to the session's profile.
//!
//! This requires a complete sandbox: a partial one doesn't protect files by name. More knowledge of a
//! command never causes an ask: a script of unknown effects could do the same in the same sandbox, and it
//! runs, even if its text isn't understood. The call asks for paths and hosts that the sandbox doesn't
//! open, and for overwriting or removing files that can't be backed up first. Other known changes are
//! backed up, and `Rewind` restores them.

use std::sync::Arc;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::files::{CheckpointPlan, PlannedChange};
use haft::ports::PermissionMode;

use super::call_analysis::CallAnalysis;
use crate::rule::{EffectKind, EffectRef, RuleMatches};
use crate::source::SettingsSource;

/// Returns whether the sandbox is complete. Called only where it matters.
pub type IsFullSandbox = Arc<dyn Fn() -> bool + Send + Sync>;

/// What lets commands run without asking, and whether the sandbox is complete.
pub(super) struct SandboxAutoAllow {
    /// The setting that permits it in every mode.
    by_settings: Option<SettingsSource>,
    is_full: Option<IsFullSandbox>,
}

/// Returns whether every file that is known to be overwritten or removed can be backed up first.
fn is_kept(case: &CallAnalysis<'_>, matches: &RuleMatches) -> bool {
    let changes = matches
        .uncovered
        .iter()
        .filter(|effect| matches!(effect.touch, EffectKind::Writes | EffectKind::Deletes));
    let places = changes.filter_map(|effect| {
        let place = case.place(*effect)?;
        // An open path outside of the workspace belongs to the session, such as its `/tmp`.
        let inside = case.workspace.contains_both(&place.given, &place.real);
        // A moved file still exists.
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

    /// Returns why a command that would ask runs anyway, if it does.
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
