//! What today says of a call, and whether that contradicts what was recorded.
//!
//! The question is what the recording and today can't both be: a call that ran and would be denied. A call that would ask is
//! as recorded if somebody may have been asked then, which a transcript never rules out; a journal does, where it names a
//! rule. What hooks decided then is not asked of them again.

use haft::{Decision, Verdict};
use haft_policy::gate::{BadCall, Policy};

use super::recording::{Outcome, Past};

/// Who may have said yes in a question's place.
const ASKED: [&str; 4] = ["the user", "a hook", "a permission hook", "the tool itself"];

/// What today says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Today {
    Allow,
    Ask,
    Deny,
    Unknown,
    Invalid,
}

impl Today {
    pub(super) fn word(self) -> &'static str {
        match self {
            Today::Allow => "allow",
            Today::Ask => "ask",
            Today::Deny => "deny",
            Today::Unknown => "unknown tool",
            Today::Invalid => "invalid input",
        }
    }

    /// The tool's own name, what today says, and why.
    pub(super) fn of(
        policy: &Policy,
        judged: Result<(String, Decision), BadCall>,
        name: &str,
    ) -> (String, Today, String) {
        match judged {
            Ok((tool, decision)) => {
                let today = match decision.verdict {
                    Verdict::Allow => Today::Allow,
                    Verdict::Ask => Today::Ask,
                    Verdict::Deny => Today::Deny,
                };
                (tool, today, policy.explanation(&decision))
            }
            Err(bad @ BadCall::UnknownTool(..)) => (name.to_owned(), Today::Unknown, bad.to_string()),
            Err(bad) => (name.to_owned(), Today::Invalid, bad.to_string()),
        }
    }

    /// Whether this and the record can't both be.
    pub(super) fn contradicts(self, past: &Past) -> bool {
        let text = past.text.as_deref().unwrap_or_default();
        match (&past.outcome, self) {
            (Outcome::Ran | Outcome::Failed | Outcome::Unknown, Today::Allow) => false,
            (Outcome::Ran | Outcome::Failed | Outcome::Unknown, Today::Ask) => {
                past.by.as_deref().is_some_and(unasked)
            }
            (Outcome::Ran | Outcome::Failed | Outcome::Unknown, _) => true,
            (Outcome::Refused(kind), today) => match (kind.as_str(), today) {
                ("Denied", Today::Deny)
                | ("UnknownTool", Today::Unknown)
                | ("InvalidInput", Today::Invalid) => false,
                // Nobody could be asked then.
                ("Denied", Today::Ask) => !text.contains("needs a yes"),
                ("Denied", Today::Allow) => true,
                ("UnknownTool", _) => true,
                // What makes no sense fits its schema: only running it would tell.
                ("InvalidInput", _) => text.contains("invalid input for "),
                ("Rejected", Today::Allow) => true,
                // Stopped by what isn't asked here.
                _ => matches!(today, Today::Unknown | Today::Invalid),
            },
        }
    }
}

/// Whether a call ran without a question.
fn unasked(by: &str) -> bool {
    !ASKED.contains(&by) && !by.contains("classifier")
}
