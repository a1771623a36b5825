//! Gemini: `functionCall` parts of a content. Python's dumps spell the same in snake case; both are read.

use serde_json::{Map, Value};

use super::{BadMessage, Message, is_object, list, required, shown};

pub(super) fn read(value: &Value, message: &mut Message) -> Result<(), BadMessage> {
    if let Value::Array(parts) = value {
        return read_parts(parts, "", message);
    }
    is_object(value, "", "a content object")?;
    let (value, path) = match value.get("candidates") {
        None => (value, ""),
        Some(candidates) => match list(Some(candidates), "/candidates", "an array of candidates")? {
            [] => {
                return Err(BadMessage::at("/candidates", "the response has no candidate; one is required"));
            }
            [first, ..] => (first, "/candidates/0"),
        },
    };
    is_object(value, path, "a candidate")?;
    let (inner, inner_path) = match value.get("content") {
        // A candidate that was blocked has none.
        Some(Value::Null) => return Ok(()),
        Some(inner) => (inner, format!("{path}/content")),
        None => (value, path.to_owned()),
    };
    is_object(inner, &inner_path, "a content object")?;
    let path = format!("{inner_path}/parts");
    let parts = list(inner.get("parts"), &path, "an array of parts")?;
    read_parts(parts, &path, message)?;
    let reason = either(value, "finishReason", "finish_reason").and_then(Value::as_str);
    if reason == Some("MAX_TOKENS") && parts.last().is_some_and(|part| call_of(part).is_some()) {
        message.cut_off();
    }
    Ok(())
}

fn read_parts(parts: &[Value], path: &str, message: &mut Message) -> Result<(), BadMessage> {
    for (at, part) in parts.iter().enumerate() {
        let path = format!("{path}/{at}");
        is_object(part, &path, "a part")?;
        let Some((key, call)) = call_of(part) else { continue };
        let path = format!("{path}/{key}");
        is_object(call, &path, "an object with `name` and `args`")?;
        let name = required(call, &path, "name", "the function call")?;
        let id = match call.get("id") {
            None | Some(Value::Null) => "",
            Some(Value::String(id)) => id,
            Some(other) => {
                let words =
                    format!("the `id` of the function call is {}; a string is accepted", shown(other));
                return Err(BadMessage::at(format!("{path}/id"), words));
            }
        };
        let args = call.get("args").filter(|args| !args.is_null()).cloned();
        message.call(id, name, args.unwrap_or_else(|| Value::Object(Map::new())));
        if either(call, "willContinue", "will_continue") == Some(&Value::Bool(true)) {
            message.cut_off();
        }
    }
    Ok(())
}

/// The call of a part, and how its key is spelled.
pub(super) fn call_of(part: &Value) -> Option<(&'static str, &Value)> {
    let found = |key: &'static str| part.get(key).filter(|call| !call.is_null()).map(|call| (key, call));
    found("functionCall").or_else(|| found("function_call"))
}

fn either<'v>(value: &'v Value, camel: &str, snake: &str) -> Option<&'v Value> {
    value.get(camel).or_else(|| value.get(snake))
}
