//! OpenAI Chat Completions: the `tool_calls` of a message.

use super::json::Json;
use super::{BadMessage, Message, arguments, list, required};

pub(super) fn read(value: Json<'_>, message: &mut Message) -> Result<(), BadMessage> {
    if let Some(calls) = value.array() {
        return read_calls(&calls, "", message);
    }
    let whole = value.required_object("", "a message object")?;
    let (choice, path) = match whole.get("choices") {
        None => (whole, ""),
        Some(choices) => match &list(Some(choices), "/choices", "an array of choices")?[..] {
            [] => return Err(BadMessage::at("/choices", "the completion has no choice; one is required")),
            [first, ..] => (first.required_object("/choices/0", "a choice")?, "/choices/0"),
        },
    };
    let cut = choice.is("finish_reason", "length");
    let (inner, path) = match choice.get("message") {
        Some(inner) => {
            let path = format!("{path}/message");
            (inner.required_object(&path, "a message object")?, path)
        }
        None => (choice, path.to_owned()),
    };
    if inner.given("function_call").is_some() {
        let words = "a `function_call` of the old form has no id to answer to; `tool_calls` are accepted";
        return Err(BadMessage::at(format!("{path}/function_call"), words));
    }
    let path = format!("{path}/tool_calls");
    let calls = list(inner.get("tool_calls"), &path, "an array of tool calls")?;
    read_calls(&calls, &path, message)?;
    if cut && !calls.is_empty() {
        message.cut_off();
    }
    Ok(())
}

fn read_calls(calls: &[Json<'_>], path: &str, message: &mut Message) -> Result<(), BadMessage> {
    for (at, call) in calls.iter().enumerate() {
        let path = format!("{path}/{at}");
        let call = call.required_object(&path, "a tool call")?;
        let id = required(&call, &path, "id", "the tool call")?;
        if call.is("type", "custom") {
            let Some(custom) = call.get("custom") else {
                return Err(BadMessage::at(path, "the tool call has no `custom`; an object is required"));
            };
            let path = format!("{path}/custom");
            let custom = custom.required_object(&path, "an object with `name` and `input`")?;
            message.custom(&id, &required(&custom, &path, "name", "the tool call")?);
            continue;
        }
        let Some(function) = call.get("function") else {
            return Err(BadMessage::at(path, "the tool call has no `function`; an object is required"));
        };
        let path = format!("{path}/function");
        let function = function.required_object(&path, "an object with `name` and `arguments`")?;
        let name = required(&function, &path, "name", "the tool call")?;
        message.call(&id, &name, arguments(function.get("arguments")));
    }
    Ok(())
}
