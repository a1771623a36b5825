//! The journal of a run, and the conversation that it continues.

use std::sync::Arc;

use haft_agent::{AgentLoop, Conversation, Model, RunEnd, RunHandle, RunOutcome};

use crate::NoticeSink;
use crate::session_journal::{JournalState, ResumedSession, SessionRecorder};

/// The journal of a run, and the conversation that it continues.
#[derive(Default)]
pub struct RunJournal {
    /// The journal.
    pub journal: JournalState,
    /// The session to continue, with its conversation.
    pub resumed: Option<(ResumedSession, Conversation)>,
    /// The message to the model about a directory that the session can't enter any more.
    pub lost_directory: Option<String>,
    /// Receives warnings.
    pub notices: NoticeSink,
}

impl RunJournal {
    /// Returns the initial conversation. A new one begins with the first message of hooks.
    pub fn conversation(&self, model: &dyn Model, first: Option<&str>) -> Conversation {
        let mut conversation = match &self.resumed {
            Some((_, conversation)) => conversation.clone(),
            None => Conversation::new(model.format()),
        };
        if let Some(first) = first {
            conversation.say(first);
            self.record_conversation(&conversation);
        }
        conversation
    }

    /// Names a new session after its first prompt. A continued session already has a name.
    pub fn record_title(&self, prompt: &str) {
        if let (Some(recorder), None) = (self.journal.recorder(), &self.resumed) {
            recorder.record_title(prompt);
        }
    }

    /// Returns the recorder, if the session has a journal.
    pub fn recorder(&self) -> Option<Arc<SessionRecorder>> {
        self.journal.recorder().cloned()
    }

    /// Adds the recorder to a loop, if there is one.
    pub fn add_recorder(&self, agent: AgentLoop) -> AgentLoop {
        match self.recorder() {
            Some(recorder) => agent.recorder(recorder),
            None => agent,
        }
    }

    /// Returns whether the model has something to answer before the user's next message.
    pub fn awaits_reply(&self) -> bool {
        self.resumed.as_ref().is_some_and(|(resumed, _)| resumed.awaits_reply())
    }

    /// Sends a message to the model. A turn that was interrupted in the last process comes first.
    pub async fn play(
        &mut self,
        agent: &AgentLoop,
        handle: &RunHandle,
        conversation: &mut Conversation,
        prompt: Option<&str>,
    ) -> RunOutcome {
        let resumed = self.resumed.take().map(|(resumed, _)| resumed);
        let lost_directory = self.lost_directory.as_deref();
        if let Some(notes) = resumed.as_ref().and_then(|resumed| resumed.notes_for_model(lost_directory)) {
            // A run that has not begun accepts it.
            let _ = handle.post(notes);
        }
        let interrupted =
            resumed.as_ref().and_then(|resumed| resumed.interrupted_turn(conversation.format()));
        let Some(interrupted) = interrupted else {
            return match prompt {
                Some(prompt) => agent.run(conversation, prompt).await,
                None => agent.resume(conversation).await,
            };
        };
        // The prompt follows the results.
        if let Some(prompt) = prompt {
            let _ = handle.post(prompt);
        }
        match agent.resume_interrupted(conversation, interrupted).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.notices.warn(format!("the last message can't be read and is left out: {error}"));
                agent.resume(conversation).await
            }
        }
    }

    /// Records that the conversation begins again.
    pub fn record_conversation(&self, conversation: &Conversation) {
        if let Some(recorder) = self.journal.recorder() {
            recorder.record_conversation(conversation);
        }
    }

    /// Records the end of the session.
    pub fn record_end(&self, end: &RunEnd) {
        if let Some(recorder) = self.journal.recorder() {
            recorder.record_end(end.word());
        }
    }
}
