//! Recording a conversation as it grows, so that another process can resume it.

use haft::future::BoxFuture;
use haft::{ToolCall, ToolResult};
use serde_json::Value;

use crate::message_format::{MessageFormat, UnreadableMessage};
use crate::reply::TokenUsage;
use crate::tool_definitions::ToolDefinitions;

/// Records the conversation of a run. By default every method records nothing.
///
/// Called in the run's own task, in order. Methods that return no future must not block;
/// [`finish_turn`](ConversationRecorder::finish_turn) may take as long as a disk does. The conversation is
/// the sum of all [`record_items`](ConversationRecorder::record_items): each call replaces the items from
/// `from` on. A message of the model is recorded before its calls that change something begin, and again as
/// items when all of them have results. A process that dies in between leaves a message with unanswered
/// calls, which [`AgentLoop::resume_interrupted`](crate::AgentLoop::resume_interrupted) continues.
pub trait ConversationRecorder: Send + Sync + 'static {
    /// Records the items of the conversation from the index `from` on.
    fn record_items(&self, from: usize, items: &[Value]) {
        let _ = (from, items);
    }

    /// Records a complete message of the model that requests calls.
    fn record_reply(&self, turn: u64, items: &[Value]) {
        let _ = (turn, items);
    }

    /// Records the tools that a request offers to the model.
    fn record_tools(&self, turn: u64, tools: &ToolDefinitions) {
        let _ = (turn, tools);
    }

    /// Records what a message of the model cost.
    fn record_usage(&self, turn: u64, usage: &TokenUsage) {
        let _ = (turn, usage);
    }

    /// Finishes a turn: all calls of a message have results, and its items are recorded. The next request
    /// waits for this.
    fn finish_turn<'a>(&'a self, calls: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        let _ = calls;
        Box::pin(async {})
    }
}

/// A message of the model whose calls were not all answered when its process died.
#[derive(Debug, Clone, Default)]
pub struct InterruptedTurn {
    /// The message, as [`ConversationRecorder::record_reply`] received it.
    pub items: Vec<Value>,
    /// The results that are known, in any order. Calls without one are run.
    pub results: Vec<ToolResult>,
}

impl InterruptedTurn {
    /// Returns the calls to run of a message that was stored.
    ///
    /// # Errors
    /// The items are no message of this format.
    pub fn calls(format: &dyn MessageFormat, items: &[Value]) -> Result<Vec<ToolCall>, UnreadableMessage> {
        let requested = format.requested_calls(items)?;
        let runnable = requested.into_iter().filter(|requested| requested.refusal.is_none());
        Ok(runnable.map(|requested| requested.call).collect())
    }
}
