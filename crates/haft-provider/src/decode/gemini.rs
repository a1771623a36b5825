//! Gemini: `functionCall` parts of a content. Python's dumps spell the same in snake case; both are read.

use std::borrow::Cow;

use super::json::{Json, Object};
use super::{BadMessage, Message, list, required, text};

pub(super) fn read(value: Json<'_>, message: &mut Message) -> Result<(), BadMessage> {
    if let Some(parts) = value.array() {
        return read_parts(&parts, "", message).map(|_| ());
    }
    let whole = value.required_object("", "a content object")?;
    let (candidate, path) = match whole.get("candidates") {
        None => (whole, ""),
        Some(candidates) => match &list(Some(candidates), "/candidates", "an array of candidates")?[..] {
            [] => {
                return Err(BadMessage::at("/candidates", "the response has no candidate; one is required"));
            }
            [first, ..] => (first.required_object("/candidates/0", "a candidate")?, "/candidates/0"),
        },
    };
    let reason = either(&candidate, "finishReason", "finish_reason").and_then(Json::string);
    let (parts, path) = match candidate.get("content") {
        // A candidate that was blocked has none.
        Some(inner) if inner.is_null() => return Ok(()),
        Some(inner) => {
            let path = format!("{path}/content");
            (inner.required_object(&path, "a content object")?.get("parts"), format!("{path}/parts"))
        }
        None => (candidate.get("parts"), format!("{path}/parts")),
    };
    let parts = list(parts, &path, "an array of parts")?;
    let last_is_call = read_parts(&parts, &path, message)?;
    if last_is_call && reason.is_some_and(|reason| reason == "MAX_TOKENS") {
        message.cut_off();
    }
    Ok(())
}

/// Reads the parts; says whether the last one is a call.
fn read_parts(parts: &[Json<'_>], path: &str, message: &mut Message) -> Result<bool, BadMessage> {
    let mut last_is_call = false;
    for (at, part) in parts.iter().enumerate() {
        let path = format!("{path}/{at}");
        let found = call_of(&part.required_object(&path, "a part")?);
        last_is_call = found.is_some();
        let Some((key, call)) = found else { continue };
        let path = format!("{path}/{key}");
        let call = call.required_object(&path, "an object with `name` and `args`")?;
        let name = required(&call, &path, "name", "the function call")?;
        let id = match call.given("id") {
            None => Cow::Borrowed(""),
            Some(id) => text(id, &path, "id", "the function call")?,
        };
        message.call(&id, &name, call.given("args").map_or("{}", Json::text));
        if either(&call, "willContinue", "will_continue").is_some_and(|more| more.text() == "true") {
            message.cut_off();
        }
    }
    Ok(last_is_call)
}

/// The call of a part, and how its key is spelled.
pub(super) fn call_of<'t>(part: &Object<'t>) -> Option<(&'static str, Json<'t>)> {
    let found = |key: &'static str| part.given(key).map(|call| (key, call));
    found("functionCall").or_else(|| found("function_call"))
}

fn either<'t>(value: &Object<'t>, camel: &str, snake: &str) -> Option<Json<'t>> {
    value.get(camel).or_else(|| value.get(snake))
}
