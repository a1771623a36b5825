//! The current decision on a recorded call, and whether it contradicts the recorded one.
//!
//! A call that ran and would now be denied is a contradiction. A call that would ask is consistent if the
//! user may have been asked when it was recorded. A transcript never rules that out; a journal does if it
//! names a rule. Hooks don't decide again.

use haft::decision::{Decision, DecisionSource, Verdict};
use haft_policy::gate::{InvalidCall, Policy};

use super::recording::{RecordedCall, RecordedOutcome};

/// The current decision on a call.
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

    /// Returns the tool's own name, the current decision, and its reason.
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

    /// Returns whether this decision contradicts the record.
    pub(super) fn contradicts(self, recorded: &RecordedCall) -> bool {
        let text = recorded.text.as_deref().unwrap_or_default();
        match (&recorded.outcome, self) {
            (RecordedOutcome::Refused(kind), today) => match (kind.as_str(), today) {
                ("Denied", CurrentDecision::Decided(Verdict::Deny))
                | ("UnknownTool", CurrentDecision::UnknownTool)
                | ("InvalidInput", CurrentDecision::InvalidInput) => false,
                // At that time no user could be asked.
                ("Denied", CurrentDecision::Decided(Verdict::Ask)) => !recorded.unanswered,
                ("Denied", CurrentDecision::Decided(Verdict::Allow)) => true,
                ("UnknownTool", _) => true,
                // An input may match its schema and still be rejected by the tool, which only running it
                // would show.
                ("InvalidInput", _) => text.contains("invalid input for "),
                ("Rejected", CurrentDecision::Decided(Verdict::Allow)) => true,
                // It was stopped by a check that is not repeated here.
                (_, today) => !matches!(today, CurrentDecision::Decided(_)),
            },
            (_, CurrentDecision::Decided(Verdict::Allow)) => false,
            (_, CurrentDecision::Decided(Verdict::Ask)) => recorded.by.is_some_and(is_without_question),
            _ => true,
        }
    }
}

/// Returns whether calls that this source allows currently run without asking too.
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
