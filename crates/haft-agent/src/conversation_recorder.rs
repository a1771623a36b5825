//! Recording a conversation as it grows, so that another process can resume it.

use haft::future::BoxFuture;
use haft::{ToolCall, ToolResult};
use serde_json::Value;

use crate::message_format::{MessageFormat, UnreadableMessage};
use crate::reply::TokenUsage;
use crate::tool_definitions::ToolDefinitions;

/// Records the conversation of a run. By default every method records nothing.
///
/// Called in the run's own task, in order. Methods that return no future must not block; [`settled`](ConversationRecorder::settled) may take as
/// long as a disk does. The conversation is the sum of what [`items`](ConversationRecorder::items) was told: each time, what was there
/// from `from` on is replaced. A message of the model is told before its calls that change something begin, and again as
/// items when all of them have results, so a process that dies in between leaves a message whose calls are not answered:
/// [`AgentLoop::resume_interrupted`](crate::AgentLoop::resume_interrupted) goes on from there.
pub trait ConversationRecorder: Send + Sync + 'static {
    /// The conversation has these items from the place `from` on.
    fn items(&self, from: usize, items: &[Value]) {
        let _ = (from, items);
    }

    /// The model's message is whole, and asks for calls.
    fn replied(&self, turn: u64, items: &[Value]) {
        let _ = (turn, items);
    }

    /// The model is asked, and offered these tools.
    fn asked(&self, turn: u64, tools: &ToolDefinitions) {
        let _ = (turn, tools);
    }

    /// The model's message is over, and cost this.
    fn spent(&self, turn: u64, usage: &TokenUsage) {
        let _ = (turn, usage);
    }

    /// All calls of a message have their results, and the items were told. The next request waits for this.
    fn settled<'a>(&'a self, calls: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        let _ = calls;
        Box::pin(async {})
    }
}

/// A message of the model whose calls were not all answered when its process died.
#[derive(Debug, Clone, Default)]
pub struct InterruptedTurn {
    /// The message, as [`ConversationRecorder::replied`] was told it.
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
