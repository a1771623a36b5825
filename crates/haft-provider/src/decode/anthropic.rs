//! Anthropic: `tool_use` blocks in the `content` of a message.

use serde_json::{Map, Value};

use super::{BadMessage, Message, is_object, list, required};

pub(super) fn read(value: &Value, message: &mut Message) -> Result<(), BadMessage> {
    let (blocks, path) = match value {
        Value::Array(blocks) => (blocks.as_slice(), ""),
        Value::Object(fields) => match fields.get("content") {
            // A message of text alone.
            Some(Value::String(_)) => return Ok(()),
            Some(content) => (list(Some(content), "/content", "an array of content blocks")?, "/content"),
            None => return Err(BadMessage::at("", "the message has no `content`; an array is required")),
        },
        other => {
            is_object(other, "", "a message object or its content array")?;
            return Ok(());
        }
    };
    for (at, block) in blocks.iter().enumerate() {
        let path = format!("{path}/{at}");
        is_object(block, &path, "a content block")?;
        if block.get("type").and_then(Value::as_str) == Some("tool_use") {
            let id = required(block, &path, "id", "the `tool_use` block")?;
            let name = required(block, &path, "name", "the `tool_use` block")?;
            let input = block.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
            message.call(id, name, input);
        }
    }
    let ended_early = ["max_tokens", "model_context_window_exceeded"];
    let stop = value.get("stop_reason").and_then(Value::as_str);
    let last_is_call = blocks.last().is_some_and(|block| block["type"] == "tool_use");
    if stop.is_some_and(|stop| ended_early.contains(&stop)) && last_is_call {
        message.cut_off();
    }
    Ok(())
}
