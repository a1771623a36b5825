//! Running a command again where it may write.
//!
//! A command that was taken for one that only looks, failed, and is known for certain to have been kept from
//! writing, may be run once more with what the session may write, if there is a user whom the mode lets be
//! asked. What the command says of itself is no reason. The yes counts for this call and for what was shown.
//! Hosts are asked about while the command runs ([`ChildRequests`](haft::ports::ChildRequests)).
//!
//! The second run waits until no other call of the message runs, and keeps them from running: the first was
//! beside others that look.

use haft::Context;
use haft::ports::{AnswerChoice, ConfinementLevel, ConfinementRefusal, ProcessExit, UserQuestion};
use haft::view::visible_line;

use super::command_run::CommandEnd;
use super::render_result::RunFacts;

/// How many files are named in the offer.
pub(super) const OFFERED_MAX: usize = 8;

/// What the model is told of a yes.
pub(super) const RAN_AGAIN: &str =
    "the user let it run again with what this session may write; this is what came of it";

/// An offer to run a command again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WriteOffer {
    /// What it could not write.
    files: Vec<String>,
}

impl WriteOffer {
    /// The offer for a run, if there is one to make.
    pub(super) fn for_run(ended: &CommandEnd, facts: &RunFacts<'_>) -> Option<WriteOffer> {
        let only_looked =
            matches!(facts.confinement, ConfinementLevel::Declared | ConfinementLevel::ReadOnly);
        if ended.exit == ProcessExit::Code(0) || !facts.confined || !only_looked {
            return None;
        }
        let mut files: Vec<String> = Vec::new();
        for refusal in &ended.refused {
            let ConfinementRefusal::Path { path, write: true } = refusal else { continue };
            let name = format!("`{}`", visible_line(&path.to_string_lossy()));
            if files.len() < OFFERED_MAX && !files.contains(&name) {
                files.push(name);
            }
        }
        (!files.is_empty()).then_some(WriteOffer { files })
    }

    /// Asks the user; nothing if nobody was asked.
    pub(super) async fn ask(&self, command: &str, cx: &Context) -> Option<OfferAnswer> {
        let may_ask = cx.ports().mode().is_none_or(|mode| mode.current().allows_own_questions());
        let asker = cx.ports().asker().filter(|_| may_ask)?;
        let text = format!(
            "`{}` was taken for a command that only looks and could not write {}. Run it again with what this session may \
             write?",
            command.trim(),
            self.files.join(", ")
        );
        let choice =
            |label: &str, words: &str| AnswerChoice { label: label.into(), description: Some(words.into()) };
        let choices = vec![choice("no", "leave it"), choice("yes", "run it again, once")];
        let answer = asker.question(&UserQuestion { text, choices, several: false }).await;
        Some(if answer.is_some_and(|answers| answers == ["yes"]) {
            OfferAnswer::Yes
        } else {
            OfferAnswer::No
        })
    }
}

/// What the user said.
pub(super) enum OfferAnswer {
    Yes,
    No,
}
