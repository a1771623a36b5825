//! A run that is kept: what it goes on from, and what is written of it.

use std::sync::Arc;

use haft_agent::{AgentLoop, Conversation, Model, RunEnd, RunHandle, RunOutcome};

use crate::NoticeSink;
use crate::kept::{Journaled, Keeping, Resumed};

/// What is kept of a run, and what it goes on from.
#[derive(Default)]
pub struct Kept {
    pub keeping: Journaled,
    pub resumed: Option<(Resumed, Conversation)>,
    /// What the model is told of a place that it can't be in any more.
    pub not_there: Option<String>,
    pub notices: NoticeSink,
}

impl Kept {
    /// The conversation to begin with; what hooks said first is in a new one.
    pub fn conversation(&self, model: &dyn Model, first: Option<&str>) -> Conversation {
        let mut conversation = match &self.resumed {
            Some((_, talked)) => talked.clone(),
            None => Conversation::new(model.format()),
        };
        if let Some(first) = first {
            conversation.say(first);
            if let Some(keeping) = self.keeping.keeping() {
                keeping.begins(&conversation);
            }
        }
        conversation
    }

    /// What a session that goes on says first; a new one is named after it.
    pub fn said(&self, words: &str) {
        if let (Some(keeping), None) = (self.keeping.keeping(), &self.resumed) {
            keeping.title(words);
        }
    }

    /// Who writes it down, if somebody does.
    pub fn keeping(&self) -> Option<Arc<Keeping>> {
        self.keeping.keeping().cloned()
    }

    /// A loop that keeps what is said.
    pub fn keeps(&self, agent: AgentLoop) -> AgentLoop {
        match self.keeping.keeping() {
            Some(keeping) => agent.recorder(keeping.clone()),
            None => agent,
        }
    }

    /// Whether there is something to go on with before anybody says a word.
    pub fn waits(&self) -> bool {
        self.resumed.as_ref().is_some_and(|(resumed, _)| resumed.waits())
    }

    /// Says something to the model, after what was cut off the last time, if something was.
    pub async fn play(
        &mut self,
        agent: &AgentLoop,
        handle: &RunHandle,
        conversation: &mut Conversation,
        words: Option<&str>,
    ) -> RunOutcome {
        let resumed = self.resumed.take().map(|(resumed, _)| resumed);
        if let Some(told) = resumed.as_ref().and_then(|resumed| resumed.told(self.not_there.as_deref())) {
            // A run that has not begun takes it.
            let _ = handle.post(told);
        }
        let cut_off = resumed.as_ref().and_then(|resumed| resumed.cut_off(conversation.format()));
        let Some(cut_off) = cut_off else {
            return match words {
                Some(words) => agent.run(conversation, words).await,
                None => agent.resume(conversation).await,
            };
        };
        // They go in behind the results.
        if let Some(words) = words {
            let _ = handle.post(words);
        }
        match agent.resume_interrupted(conversation, cut_off).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.notices.warn(format!("the last message can't be read and is left out: {error}"));
                agent.resume(conversation).await
            }
        }
    }

    /// The conversation begins again.
    pub fn begins(&self, conversation: &Conversation) {
        if let Some(keeping) = self.keeping.keeping() {
            keeping.begins(conversation);
        }
    }

    pub fn ended(&self, why: &RunEnd) {
        if let Some(keeping) = self.keeping.keeping() {
            keeping.ended(why.word());
        }
    }
}
