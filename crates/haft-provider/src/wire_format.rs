//! Conversations in the JSON of each wire: messages for Anthropic and Chat, items for OpenAI Responses, contents for Gemini.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::Wire;
use crate::answer::{answer_calls, user_message};
use crate::decode::{BadMessage, decode};
use crate::deferral::{self, history};
use crate::definitions::Definitions;
use haft_agent::{CallAnswers, ExcerptLine, MessageFormat, RequestedCall, UnreadableMessage, UserPart};
use haft_agent::{ModelFailure, ToolDefiner};

/// Fields whose length says nothing about their tokens.
const OPAQUE: [&str; 7] =
    ["data", "encrypted_content", "file_data", "image_url", "signature", "thoughtSignature", "url"];
/// What such a field counts, in characters.
const OPAQUE_CHARS: u64 = 6_000;
/// How much longer than its note a result must be to be cleared, in bytes of its JSON.
const CLEARED_BYTES_MIN: usize = 64;

impl From<Wire> for &'static dyn MessageFormat {
    fn from(wire: Wire) -> &'static dyn MessageFormat {
        match wire {
            Wire::Anthropic => &Wire::Anthropic,
            Wire::OpenAi => &Wire::OpenAi,
            Wire::OpenAiChat => &Wire::OpenAiChat,
            Wire::Gemini => &Wire::Gemini,
        }
    }
}

impl MessageFormat for Wire {
    fn name(&self) -> &'static str {
        Wire::name(*self)
    }

    fn push_user(&self, items: &mut Vec<Value>, parts: &[UserPart]) {
        let mut parts: Vec<Value> = parts.iter().filter_map(|part| user_part(*self, part)).collect();
        if parts.is_empty() {
            // No provider takes a message without anything in it.
            parts.extend(user_part(*self, &UserPart::Text("(the user said nothing)".to_owned())));
        }
        let key = if *self == Wire::Gemini { "parts" } else { "content" };
        if matches!(self, Wire::Anthropic | Wire::Gemini)
            && let Some(Value::Object(last)) = items.last_mut()
            && last.get("role").is_some_and(|role| role == "user")
            && let Some(Value::Array(before)) = last.get_mut(key)
        {
            before.extend(parts);
            return;
        }
        items.push(match self {
            Wire::OpenAi => json!({"type": "message", "role": "user", "content": parts}),
            // Many local servers take nothing but a string.
            Wire::OpenAiChat => match &parts[..] {
                [only] if only["type"] == "text" => json!({"role": "user", "content": only["text"]}),
                _ => json!({"role": "user", "content": parts}),
            },
            Wire::Anthropic | Wire::Gemini => user_message(key, parts),
        });
    }

    fn answer_calls(&self, answers: &CallAnswers<'_>) -> Vec<Value> {
        answer_calls(*self, answers)
    }

    fn requested_calls(&self, items: &[Value]) -> Result<Vec<RequestedCall>, UnreadableMessage> {
        let text = match (self, items) {
            (Wire::OpenAi, items) => Value::from(items.to_vec()).to_string(),
            (_, [first, ..]) => first.to_string(),
            (_, []) => String::new(),
        };
        let unreadable = |bad: BadMessage| UnreadableMessage(bad.to_string());
        Ok(decode(&text, Some(*self)).map_err(unreadable)?.requested)
    }

    fn clear_results(&self, items: &mut [Value], keep: usize, note: &dyn Fn(&str) -> String) -> usize {
        let clearable = clearable_results(*self, items, keep, note);
        let cleared = clearable.len();
        for (place, text) in clearable {
            let Some(result) = place.get_mut(*self, items) else { continue };
            result[result_keys(*self).1] = match self {
                Wire::Gemini => json!({"output": text}),
                _ => Value::String(text),
            };
            if let Some(fields) = result.as_object_mut() {
                // Gemini keeps pictures beside the response.
                fields.remove("parts");
            }
        }
        cleared
    }

    fn has_clearable_results(&self, items: &[Value], keep: usize, note: &dyn Fn(&str) -> String) -> bool {
        !clearable_results(*self, items, keep, note).is_empty()
    }

    /// A quarter of the characters. Pictures and what is encrypted count as a page of text.
    fn estimate_tokens(&self, items: &[Value]) -> u64 {
        fn chars(value: &Value) -> u64 {
            match value {
                Value::String(text) => text.len() as u64,
                Value::Array(items) => items.iter().map(chars).sum(),
                Value::Object(fields) => {
                    let field = |(key, value): (&String, &Value)| match OPAQUE.contains(&key.as_str()) {
                        true => chars(value).min(OPAQUE_CHARS),
                        false => key.len() as u64 + chars(value),
                    };
                    fields.iter().map(field).sum()
                }
                _ => 4,
            }
        }
        items.iter().map(chars).sum::<u64>() / 4
    }

    fn loaded_tools(&self, items: &[Value]) -> HashSet<String> {
        history::found(*self, items)
    }

    fn awaits_reply(&self, items: &[Value]) -> bool {
        items.last().is_some_and(|last| match last["role"].as_str() {
            Some(role) => matches!(role, "user" | "tool"),
            // OpenAI's results have no role.
            None => last["type"].as_str().is_some_and(|kind| kind.ends_with("_output")),
        })
    }

    fn starts_with_user(&self, items: &[Value]) -> bool {
        items.first().is_none_or(|first| first["role"] == "user")
    }

    fn excerpt(&self, items: &[Value], lines_max: usize) -> Vec<ExcerptLine> {
        // Most items have at least one line.
        let newest = &items[items.len().saturating_sub(lines_max)..];
        let mut lines: Vec<ExcerptLine> = newest.iter().flat_map(excerpt_lines).collect();
        lines.split_off(lines.len().saturating_sub(lines_max))
    }

    fn is_deferral_rejection(&self, failure: &ModelFailure) -> bool {
        deferral::is_refused(failure)
    }

    fn tool_definer(&self) -> Box<dyn ToolDefiner> {
        Box::new(Definitions::new(*self))
    }
}

fn user_part(wire: Wire, part: &UserPart) -> Option<Value> {
    match part {
        UserPart::Text(text) if text.trim().is_empty() => None,
        UserPart::Text(text) => Some(match wire {
            Wire::OpenAi => json!({"type": "input_text", "text": text}),
            Wire::Gemini => json!({"text": text}),
            Wire::Anthropic | Wire::OpenAiChat => json!({"type": "text", "text": text}),
        }),
        UserPart::Image(blob) => {
            let url = || format!("data:{};base64,{}", blob.media_type, blob.to_base64());
            Some(match wire {
                Wire::Anthropic => {
                    let source =
                        json!({"type": "base64", "media_type": &*blob.media_type, "data": blob.to_base64()});
                    json!({"type": "image", "source": source})
                }
                Wire::OpenAi => json!({"type": "input_image", "image_url": url(), "detail": "auto"}),
                Wire::OpenAiChat => json!({"type": "image_url", "image_url": {"url": url()}}),
                Wire::Gemini => {
                    json!({"inlineData": {"mimeType": &*blob.media_type, "data": blob.to_base64()}})
                }
            })
        }
    }
}

/// Where a result is: its item, and its part where an item has several.
#[derive(Clone, Copy)]
struct ResultPlace {
    item: usize,
    part: usize,
}

impl ResultPlace {
    fn get(self, wire: Wire, items: &[Value]) -> Option<&Value> {
        let item = items.get(self.item)?;
        match wire {
            Wire::Anthropic => item.get("content")?.get(self.part),
            Wire::Gemini => item.get("parts")?.get(self.part)?.get("functionResponse"),
            Wire::OpenAi | Wire::OpenAiChat => Some(item),
        }
    }

    fn get_mut(self, wire: Wire, items: &mut [Value]) -> Option<&mut Value> {
        let item = items.get_mut(self.item)?;
        match wire {
            Wire::Anthropic => item.get_mut("content")?.get_mut(self.part),
            Wire::Gemini => item.get_mut("parts")?.get_mut(self.part)?.get_mut("functionResponse"),
            Wire::OpenAi | Wire::OpenAiChat => Some(item),
        }
    }
}

/// The results with a text in them, in order.
fn result_places(wire: Wire, items: &[Value]) -> Vec<ResultPlace> {
    let mut places = Vec::new();
    let parts = |item: &Value, key: &str| item.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    for (at, item) in items.iter().enumerate() {
        let count = match wire {
            Wire::Anthropic => parts(item, "content"),
            Wire::Gemini => parts(item, "parts"),
            Wire::OpenAi => usize::from(item["type"] == "function_call_output"),
            Wire::OpenAiChat => usize::from(item["role"] == "tool"),
        };
        let places_here = (0..count).map(|part| ResultPlace { item: at, part });
        places.extend(places_here.filter(|place| {
            place.get(wire, items).is_some_and(|result| match wire {
                Wire::Anthropic => result["type"] == "tool_result" && !history::holds_definitions(result),
                _ => true,
            })
        }));
    }
    places
}

/// The results that may be cleared and are long enough that it helps, with the text that replaces them.
fn clearable_results(
    wire: Wire,
    items: &[Value],
    keep: usize,
    note: &dyn Fn(&str) -> String,
) -> Vec<(ResultPlace, String)> {
    let places = result_places(wire, items);
    let old = places.len().saturating_sub(keep);
    let (id, content) = result_keys(wire);
    let old = places.into_iter().take(old);
    old.filter_map(|place| {
        let result = place.get(wire, items)?;
        let text = note(result[id].as_str().unwrap_or_default());
        let gains = result[content].to_string().len() > text.len() + CLEARED_BYTES_MIN;
        gains.then_some((place, text))
    })
    .collect()
}

/// The fields of a result that hold the call's id and what came of it.
fn result_keys(wire: Wire) -> (&'static str, &'static str) {
    match wire {
        Wire::Anthropic => ("tool_use_id", "content"),
        Wire::OpenAi => ("call_id", "output"),
        Wire::OpenAiChat => ("tool_call_id", "content"),
        Wire::Gemini => ("id", "response"),
    }
}

/// The texts of an item, then the tools that it calls. Works for the items of every wire.
fn excerpt_lines(item: &Value) -> Vec<ExcerptLine> {
    let is_users = item["role"] == "user";
    let blocks = [&item["content"], &item["parts"]].into_iter().filter_map(Value::as_array).flatten();
    let texts = item["content"].as_str().into_iter();
    let texts = texts.chain(blocks.clone().filter_map(|block| block["text"].as_str()));
    let mut lines = Vec::new();
    if item["role"] != "tool" {
        let texts = texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        lines.extend(texts.map(|text| match is_users {
            true => ExcerptLine::User(text),
            false => ExcerptLine::Model(text),
        }));
    }
    let chat_calls = item["tool_calls"].as_array().into_iter().flatten();
    let chat_names = chat_calls.map(|call| &call["function"]["name"]);
    let block_names = blocks.map(|block| match &block["type"] {
        kind if kind == "tool_use" => &block["name"],
        _ => &block["functionCall"]["name"],
    });
    let item_name = (item["type"] == "function_call").then(|| &item["name"]);
    let names = chat_names.chain(block_names).chain(item_name).filter_map(Value::as_str);
    lines.extend(names.map(|name| ExcerptLine::Call(name.to_owned())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_the_same_in_every_wire() {
        let anthropic = [
            json!({"role": "user", "content": "Hello"}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Read", "id": "1", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}),
        ];
        let openai = [
            json!({"role": "user", "content": "Hello"}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
            json!({"type": "function_call", "name": "Read", "call_id": "1", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": "x"}),
        ];
        let chat = [
            json!({"role": "user", "content": "Hello"}),
            json!({"role": "assistant", "content": "I look.", "tool_calls": [{"id": "1", "function": {"name": "Read", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "1", "content": "x"}),
        ];
        let gemini = [
            json!({"role": "user", "parts": [{"text": "Hello"}]}),
            json!({"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "Read", "args": {}}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": "Read", "response": {}}}]}),
        ];
        let expected = [
            ExcerptLine::User("Hello".to_owned()),
            ExcerptLine::Model("I look.".to_owned()),
            ExcerptLine::Call("Read".to_owned()),
        ];
        let wires = [
            (Wire::Anthropic, &anthropic[..]),
            (Wire::OpenAi, &openai),
            (Wire::OpenAiChat, &chat),
            (Wire::Gemini, &gemini),
        ];
        for (wire, items) in wires {
            assert_eq!(wire.excerpt(items, 40), expected, "{wire}");
            assert!(wire.excerpt(items, 1).len() <= 1, "{wire}");
        }
    }
}
