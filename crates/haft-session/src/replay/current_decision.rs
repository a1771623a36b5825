//! The decision on a recorded call today, and whether it contradicts what was recorded.
//!
//! A contradiction is a call that ran and would be denied. A call that would ask is as recorded if the user may have been
//! asked then, which a transcript never rules out; a journal does, where it names a rule. Hooks don't decide again.

use haft::decision::{Decision, Verdict};
use haft_policy::gate::{BadCall, Policy};

use super::recording::{RecordedCall, RecordedOutcome};

/// Sources that may have allowed a call in place of the user.
const ASKED: [&str; 4] = ["the user", "a hook", "a permission hook", "the tool itself"];

/// What today says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CurrentDecision {
    Allow,
    Ask,
    Deny,
    Unknown,
    Invalid,
}

impl CurrentDecision {
    pub(super) fn name(self) -> &'static str {
        match self {
            CurrentDecision::Allow => "allow",
            CurrentDecision::Ask => "ask",
            CurrentDecision::Deny => "deny",
            CurrentDecision::Unknown => "unknown tool",
            CurrentDecision::Invalid => "invalid input",
        }
    }

    /// The tool's own name, what today says, and why.
    pub(super) fn from_check(
        policy: &Policy,
        checked: Result<(String, Decision), BadCall>,
        name: &str,
    ) -> (String, CurrentDecision, String) {
        match checked {
            Ok((tool, decision)) => {
                let today = match decision.verdict {
                    Verdict::Allow => CurrentDecision::Allow,
                    Verdict::Ask => CurrentDecision::Ask,
                    Verdict::Deny => CurrentDecision::Deny,
                };
                (tool, today, policy.explanation(&decision))
            }
            Err(bad @ BadCall::UnknownTool(..)) => {
                (name.to_owned(), CurrentDecision::Unknown, bad.to_string())
            }
            Err(bad) => (name.to_owned(), CurrentDecision::Invalid, bad.to_string()),
        }
    }

    /// Whether this and the record can't both be.
    pub(super) fn contradicts(self, recorded: &RecordedCall) -> bool {
        let text = recorded.text.as_deref().unwrap_or_default();
        match (&recorded.outcome, self) {
            (
                RecordedOutcome::Ran | RecordedOutcome::Failed | RecordedOutcome::Unknown,
                CurrentDecision::Allow,
            ) => false,
            (
                RecordedOutcome::Ran | RecordedOutcome::Failed | RecordedOutcome::Unknown,
                CurrentDecision::Ask,
            ) => recorded.by.as_deref().is_some_and(unasked),
            (RecordedOutcome::Ran | RecordedOutcome::Failed | RecordedOutcome::Unknown, _) => true,
            (RecordedOutcome::Refused(kind), today) => match (kind.as_str(), today) {
                ("Denied", CurrentDecision::Deny)
                | ("UnknownTool", CurrentDecision::Unknown)
                | ("InvalidInput", CurrentDecision::Invalid) => false,
                // Nobody could be asked then.
                ("Denied", CurrentDecision::Ask) => !text.contains("needs a yes"),
                ("Denied", CurrentDecision::Allow) => true,
                ("UnknownTool", _) => true,
                // What makes no sense fits its schema: only running it would tell.
                ("InvalidInput", _) => text.contains("invalid input for "),
                ("Rejected", CurrentDecision::Allow) => true,
                // Stopped by what isn't asked here.
                _ => matches!(today, CurrentDecision::Unknown | CurrentDecision::Invalid),
            },
        }
    }
}

/// Whether a call ran without a question.
fn unasked(by: &str) -> bool {
    !ASKED.contains(&by) && !by.contains("classifier")
}
