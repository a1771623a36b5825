//! One request to a model, without tools and without a conversation.

use std::sync::Arc;

use haft_agent::{Conversation, Model, ModelReply, ModelRequest, ToolDefinitions};

/// Sends a request to the model and waits for its complete reply.
pub(crate) async fn single_reply(model: &dyn Model, system: &[Arc<str>], question: &str) -> ModelReply {
    let mut conversation = Conversation::new(model.format());
    conversation.say(question);
    let tools = ToolDefinitions::none();
    let mut reply = model.ask(&ModelRequest { system, conversation: &conversation, tools: &tools });
    let mut deltas = Vec::new();
    while reply.more(&mut deltas).await {
        deltas.clear();
    }
    reply.finish()
}
