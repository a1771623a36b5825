//! Anthropic: `tool_use` blocks in the `content` of a message.

use super::json::Json;
use super::{BadMessage, Message, list, required};

pub(super) fn read(value: Json<'_>, message: &mut Message) -> Result<(), BadMessage> {
    let mut stop = None;
    let (blocks, path) = match value.array() {
        Some(blocks) => (blocks, ""),
        None => {
            let fields = value.required_object("", "a message object or its content array")?;
            stop = fields.string("stop_reason");
            match fields.get("content") {
                // A message of text alone.
                Some(content) if content.is_string() => return Ok(()),
                Some(content) => (list(Some(content), "/content", "an array of content blocks")?, "/content"),
                None => return Err(BadMessage::at("", "the message has no `content`; an array is required")),
            }
        }
    };
    let mut last_is_call = false;
    for (at, block) in blocks.iter().enumerate() {
        let path = format!("{path}/{at}");
        let block = block.required_object(&path, "a content block")?;
        last_is_call = block.is("type", "tool_use");
        if last_is_call {
            let id = required(&block, &path, "id", "the `tool_use` block")?;
            let name = required(&block, &path, "name", "the `tool_use` block")?;
            message.call(&id, &name, block.get("input").map_or("{}", Json::text));
        }
    }
    let ended_early = ["max_tokens", "model_context_window_exceeded"];
    if last_is_call && stop.is_some_and(|stop| ended_early.contains(&&*stop)) {
        message.cut_off();
    }
    Ok(())
}
