//! Which wire a message came by, from nothing but its shape.
//!
//! Only marks that one wire alone has are trusted. A message that could be of two is refused: to guess would answer in a
//! form that the other provider refuses.

use serde_json::Value;

use super::{BadMessage, shown};
use crate::Wire;

/// What is accepted, for the end of a message.
const ACCEPTED: &str = "accepted are an Anthropic message or its content, an OpenAI response or its output, \
     a chat message with tool_calls, and a Gemini content with parts; say which it is with `--from`";

pub(super) fn wire(value: &Value) -> Result<Wire, BadMessage> {
    let found = match value {
        Value::Object(_) => of_object(value),
        Value::Array(items) => of_list(items),
        _ => None,
    };
    found.ok_or_else(|| {
        BadMessage::at("", format!("{} doesn't say whose message it is; {ACCEPTED}", what(value)))
    })
}

fn of_object(value: &Value) -> Option<Wire> {
    let has = |key: &str| value.get(key).is_some();
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let kind = value.get("type").and_then(Value::as_str);
    if has("candidates") {
        return Some(Wire::Gemini);
    }
    if has("choices") {
        return Some(Wire::OpenAiChat);
    }
    if list("output").is_some() || value["object"] == "response" {
        return Some(Wire::OpenAi);
    }
    if has("tool_calls") || value.get("message").is_some_and(|message| message.get("role").is_some()) {
        return Some(Wire::OpenAiChat);
    }
    if list("parts").is_some() || value.get("content").is_some_and(|content| content.get("parts").is_some()) {
        return Some(Wire::Gemini);
    }
    if let Some(kind) = kind.filter(|_| !has("content")) {
        return of_kind(kind);
    }
    if let Some(blocks) = list("content") {
        return match of_list(blocks) {
            Some(wire) => Some(wire),
            // The API's own mark, where the content says nothing.
            None => (blocks.is_empty() && kind == Some("message")).then_some(Wire::Anthropic),
        };
    }
    None
}

/// What all parts of a list agree on.
fn of_list(items: &[Value]) -> Option<Wire> {
    let mut wires = items.iter().filter_map(of_part);
    let first = wires.next()?;
    wires.all(|wire| wire == first).then_some(first)
}

fn of_part(part: &Value) -> Option<Wire> {
    let fields = part.as_object()?;
    match fields.get("type").and_then(Value::as_str) {
        Some("function" | "custom") => Some(Wire::OpenAiChat),
        Some(kind) => of_kind(kind),
        None => {
            let keys = ["functionCall", "function_call", "text", "thought", "inlineData", "executableCode"];
            keys.iter().any(|key| fields.contains_key(*key)).then_some(Wire::Gemini)
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
fn what(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "an object without fields".to_owned(),
        Value::Object(fields) => {
            let mut keys: Vec<&str> = fields.keys().map(String::as_str).collect();
            keys.sort_unstable();
            let more = if keys.len() > 6 { ", …" } else { "" };
            let keys: Vec<String> = keys
                .iter()
                .take(6)
                .map(|key| format!("`{}`", key.chars().take(40).collect::<String>()))
                .collect();
            format!("an object with {}{more}", keys.join(", "))
        }
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(_) => "an array of parts that no one provider has".to_owned(),
        other => shown(other).to_owned(),
    }
}
