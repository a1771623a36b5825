//! Which wire a message came by, from nothing but its shape.
//!
//! Only marks that one wire alone has are trusted. A message that could be of two is refused: to guess would answer in a
//! form that the other provider refuses.

use haft::text::truncate_chars;

use super::BadMessage;
use super::json::{Json, Object};
use crate::Wire;

/// What is accepted, for the end of a message.
const ACCEPTED: &str = "accepted are an Anthropic message or its content, an OpenAI response or its output, \
     a chat message with tool_calls, and a Gemini content with parts; name the provider";

pub(super) fn wire(value: Json<'_>) -> Result<Wire, BadMessage> {
    let fields = value.object("")?;
    let found = match (&fields, value.array()) {
        (Some(fields), _) => of_object(fields)?,
        (None, Some(items)) => of_list(&items, "")?,
        (None, None) => None,
    };
    found.ok_or_else(|| {
        let what = what(value, fields.as_ref());
        BadMessage::at("", format!("{what} doesn't say whose message it is; {ACCEPTED}")).name_wire()
    })
}

fn of_object(fields: &Object<'_>) -> Result<Option<Wire>, BadMessage> {
    let list = |key: &str| fields.get(key).and_then(Json::array);
    let inner_has = |key: &str, inner: &str| -> Result<bool, BadMessage> {
        let opened = fields.get(key).map(|value| value.object(&format!("/{key}"))).transpose()?.flatten();
        Ok(opened.is_some_and(|opened| opened.has(inner)))
    };
    let kind = fields.string("type");
    if fields.has("candidates") {
        return Ok(Some(Wire::Gemini));
    }
    if fields.has("choices") {
        return Ok(Some(Wire::OpenAiChat));
    }
    if list("output").is_some() || fields.is("object", "response") {
        return Ok(Some(Wire::OpenAi));
    }
    if fields.has("tool_calls") || inner_has("message", "role")? {
        return Ok(Some(Wire::OpenAiChat));
    }
    if list("parts").is_some() || inner_has("content", "parts")? {
        return Ok(Some(Wire::Gemini));
    }
    if let Some(kind) = kind.as_deref().filter(|_| !fields.has("content")) {
        return Ok(of_kind(kind));
    }
    let Some(blocks) = list("content") else { return Ok(None) };
    Ok(match of_list(&blocks, "/content")? {
        Some(wire) => Some(wire),
        // The API's own mark, where the content says nothing.
        None => (blocks.is_empty() && kind.as_deref() == Some("message")).then_some(Wire::Anthropic),
    })
}

/// What all parts of a list agree on.
fn of_list(items: &[Json<'_>], path: &str) -> Result<Option<Wire>, BadMessage> {
    let mut found = None;
    for (at, item) in items.iter().enumerate() {
        let Some(fields) = item.object(&format!("{path}/{at}"))? else { continue };
        match (found, of_part(&fields)) {
            (Some(before), Some(wire)) if before != wire => return Ok(None),
            (_, None) => {}
            (_, wire) => found = wire,
        }
    }
    Ok(found)
}

fn of_part(fields: &Object<'_>) -> Option<Wire> {
    match fields.string("type").as_deref() {
        Some("function" | "custom") => Some(Wire::OpenAiChat),
        Some(kind) => of_kind(kind),
        None => {
            let keys = ["functionCall", "function_call", "text", "thought", "inlineData", "executableCode"];
            keys.iter().any(|key| fields.has(key)).then_some(Wire::Gemini)
        }
    }
}

fn of_kind(kind: &str) -> Option<Wire> {
    match kind {
        "text" | "thinking" | "redacted_thinking" | "container_upload" | "fallback" => Some(Wire::Anthropic),
        "function_call"
        | "message"
        | "reasoning"
        | "output_text"
        | "refusal"
        | "compaction"
        | "mcp_approval_request"
        | "mcp_list_tools"
        | "program" => Some(Wire::OpenAi),
        _ if kind.ends_with("tool_use") || kind.ends_with("tool_result") => Some(Wire::Anthropic),
        _ if kind.ends_with("_call") || kind.ends_with("_call_output") => Some(Wire::OpenAi),
        _ => None,
    }
}

/// What came, in a few words.
fn what(value: Json<'_>, fields: Option<&Object<'_>>) -> String {
    let Some(fields) = fields else {
        return match value.array() {
            Some(items) if items.is_empty() => "an empty array".to_owned(),
            Some(_) => "an array of parts that no one provider has".to_owned(),
            None => value.shown().to_owned(),
        };
    };
    match fields.keys().len() {
        0 => "an object without fields".to_owned(),
        count => {
            let more = if count > 6 { ", …" } else { "" };
            let keys: Vec<String> =
                fields.keys().take(6).map(|key| format!("`{}`", truncate_chars(key, 40))).collect();
            format!("an object with {}{more}", keys.join(", "))
        }
    }
}
