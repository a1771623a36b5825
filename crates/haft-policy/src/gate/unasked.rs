//! Commands that run unasked because the sandbox holds them to the session's profile.
//!
//! Only with all of the sandbox: a part of it protects no names. And only for what the profile can make good: what is
//! known to be removed, written over, or to lie or lead outside asks as before, and so does what isn't understood.

use std::sync::Arc;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::ports::PermissionMode;

use super::case::Case;
use super::mode;
use crate::rule::{RuleMatches, Touch};
use crate::source::Source;

/// Says whether all of the sandbox is there. Asked only where it decides.
pub type IsFull = Arc<dyn Fn() -> bool + Send + Sync>;

/// Who lets commands run unasked, and whether they are held.
pub(super) struct Unasked {
    /// Where settings say so for every mode.
    by_settings: Option<Source>,
    is_full: Option<IsFull>,
}

impl Unasked {
    pub(super) fn new(by_settings: Option<Source>, is_full: Option<IsFull>) -> Unasked {
        Unasked { by_settings, is_full }
    }

    /// Why a command runs that would ask otherwise, if it does.
    pub(super) fn covers(
        &self,
        mode: PermissionMode,
        case: &Case<'_>,
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
        let understood = case.doubts().is_empty();
        let stays = |touch: Touch| match touch {
            Touch::Call | Touch::Runs | Touch::Reads | Touch::Writes => true,
            Touch::Deletes | Touch::Reaches | Touch::Anything => false,
        };
        let held = matches.uncovered.iter().all(|effect| {
            let overwrites = effect.touch == Touch::Writes
                && case.place(*effect).is_none_or(|place| place.real.symlink_metadata().is_ok());
            stays(effect.touch) && !overwrites && mode::outside(case, *effect).is_none()
        });
        (is_command && understood && held && is_full())
            .then(|| DecisionReason::new(DecisionSource::Sandbox, Verdict::Allow, by))
    }
}
