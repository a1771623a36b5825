//! OpenAI Chat Completions: the `tool_calls` of a message.

use serde_json::Value;

use super::{BadMessage, Message, arguments, is_object, list, required};

pub(super) fn read(value: &Value, message: &mut Message) -> Result<(), BadMessage> {
    if let Value::Array(calls) = value {
        return read_calls(calls, "", message);
    }
    is_object(value, "", "a message object")?;
    let (value, path) = match value.get("choices") {
        None => (value, ""),
        Some(choices) => match list(Some(choices), "/choices", "an array of choices")? {
            [] => return Err(BadMessage::at("/choices", "the completion has no choice; one is required")),
            [first, ..] => (first, "/choices/0"),
        },
    };
    is_object(value, path, "a choice")?;
    let (inner, inner_path) = match value.get("message") {
        Some(inner) => (inner, format!("{path}/message")),
        None => (value, path.to_owned()),
    };
    is_object(inner, &inner_path, "a message object")?;
    let path = format!("{inner_path}/tool_calls");
    let calls = list(inner.get("tool_calls"), &path, "an array of tool calls")?;
    read_calls(calls, &path, message)?;
    if value.get("finish_reason").and_then(Value::as_str) == Some("length") && !calls.is_empty() {
        message.cut_off();
    }
    Ok(())
}

fn read_calls(calls: &[Value], path: &str, message: &mut Message) -> Result<(), BadMessage> {
    for (at, call) in calls.iter().enumerate() {
        let path = format!("{path}/{at}");
        is_object(call, &path, "a tool call")?;
        let id = required(call, &path, "id", "the tool call")?;
        if call.get("type").and_then(Value::as_str) == Some("custom") {
            let custom = call.get("custom").unwrap_or(&Value::Null);
            message.custom(id, required(custom, &format!("{path}/custom"), "name", "the tool call")?);
            continue;
        }
        let Some(function) = call.get("function") else {
            return Err(BadMessage::at(path, "the tool call has no `function`; an object is required"));
        };
        let path = format!("{path}/function");
        is_object(function, &path, "an object with `name` and `arguments`")?;
        let name = required(function, &path, "name", "the tool call")?;
        message.call(id, name, arguments(function.get("arguments")));
    }
    Ok(())
}
