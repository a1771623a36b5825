//! Room in the model's window: old results are cleared first, then the model summarises what was said.
//!
//! Clearing comes first because it costs nothing and loses the least: a result can be had again by calling
//! again, or read where its whole was kept. A summary costs a request and loses what it leaves out.

use haft::text::truncate_chars;

use super::{ActiveRun, RunInterruption};
use crate::conversation::Conversation;
use crate::limits::SUMMARY_CHARS_MAX;
use crate::reply::{StopReason, TokenUsage};
use crate::run_event::RunEvent;
use crate::run_outcome::RunEnd;
use crate::tool_definitions::ToolDefinitions;

/// What the model is asked for a summary with.
const SUMMARISE: &str = "The conversation has become too long to go on. Do not call any tool. Write a summary from which \
    you can continue without the rest: what the user asked for, in their words where they matter; what was done and found \
    out, with file names, commands and numbers; what failed and why; what is still to be done, and the very next step.";

/// How a conversation begins that was summarised.
const SUMMARISED: &str = "The conversation so far had become too long and was replaced by this summary:";

impl ActiveRun<'_> {
    /// Makes room before the model is asked, where the window is nearly full, or where the provider said that
    /// it is.
    pub(super) async fn keep_room(&mut self, tools: &ToolDefinitions) -> Option<RunEnd> {
        let options = &self.with.options;
        let is_near = |tokens: u64| {
            let near =
                |window: u64| tokens.saturating_mul(100) >= window.saturating_mul(options.window_percent);
            options.window_tokens.is_some_and(near)
        };
        // The provider's own count where there is one, and a guess for what came since.
        let tokens = match self.last.total_tokens() {
            0 => self.conversation.estimate_tokens(),
            said => said.saturating_add(self.conversation.estimate_tokens_from(self.last_items)),
        };
        if self.full == 0 && !is_near(tokens) {
            return None;
        }
        let keep = options.kept_results;
        if self.full == 0 && !options.summarise && !self.conversation.has_old_results(keep) {
            return None;
        }
        match self.host(self.with.hooks.before_compaction(tokens)).await {
            Ok(true) => {}
            Ok(false) => return (self.full > 0).then_some(RunEnd::Stopped(StopReason::ContextFull)),
            Err(halt) => return Some(halt.into()),
        }
        if self.full <= 1 {
            let results = self.conversation.clear_old_results(keep);
            if results > 0 {
                self.last = TokenUsage::default();
                self.keep_from(0);
                self.with.tell(|| RunEvent::Cleared { results });
                if !is_near(self.conversation.estimate_tokens()) {
                    return None;
                }
            }
        }
        // Twice is enough to see that a summary doesn't help either.
        if options.summarise && self.full <= 2 {
            match self.summarise(tools).await {
                Ok(true) => return None,
                Ok(false) => {}
                Err(halt) => return Some(halt.into()),
            }
        }
        (self.full > 0).then_some(RunEnd::Stopped(StopReason::ContextFull))
    }

    /// Replaces the conversation by a summary of it, and what the user said that nobody has answered yet.
    /// False if there is none to be had.
    async fn summarise(&mut self, tools: &ToolDefinitions) -> Result<bool, RunInterruption> {
        let mut asked = self.conversation.clone();
        if self.full > 0 {
            // The provider takes no more, and the question comes on top.
            asked.clear_old_results(0);
        }
        asked.say(SUMMARISE);
        let (reply, halt) = self.listen(&asked, tools, EventReporting::Yes, |_| {}).await;
        self.spend(reply.usage());
        if let Some(halt) = halt {
            return Err(halt);
        }
        let is_whole =
            matches!(reply.stop(), StopReason::End | StopReason::Sequence | StopReason::MaxTokens { .. });
        if !is_whole || reply.text().trim().is_empty() {
            return Ok(false);
        }
        let summary = truncate_chars(reply.text(), SUMMARY_CHARS_MAX).to_owned();
        *self.conversation = Conversation::new(asked.format());
        self.conversation.say(&format!("{SUMMARISED}\n\n{summary}"));
        for words in &self.words {
            self.conversation.say(words);
        }
        self.last = TokenUsage::default();
        self.keep_from(0);
        self.with.tell(|| RunEvent::Summarised { summary });
        Ok(true)
    }
}

/// Whether the reply is reported.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum EventReporting {
    Yes,
    No,
}
