//! The decision on a recorded call today, and whether it contradicts what was recorded.
//!
//! A contradiction is a call that ran and would be denied. A call that would ask is as recorded if the user may have been
//! asked then, which a transcript never rules out; a journal does, where it names a rule. Hooks don't decide again.

use haft::decision::{Decision, DecisionSource, Verdict};
use haft_policy::gate::{InvalidCall, Policy};

use super::recording::{RecordedCall, RecordedOutcome};

/// What today says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CurrentDecision {
    Decided(Verdict),
    UnknownTool,
    InvalidInput,
}

impl CurrentDecision {
    pub(super) fn name(self) -> String {
        match self {
            CurrentDecision::Decided(verdict) => verdict.to_string(),
            CurrentDecision::UnknownTool => "unknown tool".to_owned(),
            CurrentDecision::InvalidInput => "invalid input".to_owned(),
        }
    }

    /// The tool's own name, what today says, and why.
    pub(super) fn from_check(
        policy: &Policy,
        checked: Result<(String, Decision), InvalidCall>,
        name: &str,
    ) -> (String, CurrentDecision, String) {
        match checked {
            Ok((tool, decision)) => {
                (tool, CurrentDecision::Decided(decision.verdict), policy.explanation(&decision))
            }
            Err(bad @ InvalidCall::UnknownTool(..)) => {
                (name.to_owned(), CurrentDecision::UnknownTool, bad.to_string())
            }
            Err(bad) => (name.to_owned(), CurrentDecision::InvalidInput, bad.to_string()),
        }
    }

    /// Whether this and the record can't both be.
    pub(super) fn contradicts(self, recorded: &RecordedCall) -> bool {
        let text = recorded.text.as_deref().unwrap_or_default();
        match (&recorded.outcome, self) {
            (RecordedOutcome::Refused(kind), today) => match (kind.as_str(), today) {
                ("Denied", CurrentDecision::Decided(Verdict::Deny))
                | ("UnknownTool", CurrentDecision::UnknownTool)
                | ("InvalidInput", CurrentDecision::InvalidInput) => false,
                // Nobody could be asked then.
                ("Denied", CurrentDecision::Decided(Verdict::Ask)) => !recorded.unanswered,
                ("Denied", CurrentDecision::Decided(Verdict::Allow)) => true,
                ("UnknownTool", _) => true,
                // What makes no sense fits its schema: only running it would tell.
                ("InvalidInput", _) => text.contains("invalid input for "),
                ("Rejected", CurrentDecision::Decided(Verdict::Allow)) => true,
                // Stopped by what isn't asked here.
                (_, today) => !matches!(today, CurrentDecision::Decided(_)),
            },
            (_, CurrentDecision::Decided(Verdict::Allow)) => false,
            (_, CurrentDecision::Decided(Verdict::Ask)) => recorded.by.is_some_and(is_without_question),
            _ => true,
        }
    }
}

/// Whether calls that this source allows run without a question today too.
fn is_without_question(source: DecisionSource) -> bool {
    !matches!(
        source,
        DecisionSource::User
            | DecisionSource::Hook
            | DecisionSource::PermissionHook
            | DecisionSource::Tool
            | DecisionSource::Classifier
    )
}
