//! Conversations in the JSON of each wire: messages for Anthropic and Chat, items for OpenAI Responses,
//! contents for Gemini.

use std::collections::HashSet;

use haft::{ToolCall, ToolError, ToolResult};
use haft_agent::{
    CallAnswers, CallKind, ExcerptLine, MessageFormat, ModelFailure, RequestedCall, ToolDefiner,
    UnreadableMessage, UserPart,
};
use serde_json::Value;

use crate::Wire;
use crate::decode_message::{InvalidMessage, decode_message};
use crate::definitions::DefinitionCache;
use crate::tool_deferral;

/// Fields whose length is unrelated to their tokens.
const OPAQUE: [&str; 7] =
    ["data", "encrypted_content", "file_data", "image_url", "signature", "thoughtSignature", "url"];
/// What such a field counts, in characters.
const OPAQUE_CHARS: u64 = 6_000;
/// How much longer than its note a result must be to be cleared, in bytes of its JSON.
const CLEARED_BYTES_MIN: usize = 64;

impl MessageFormat for Wire {
    fn name(&self) -> &'static str {
        Wire::name(*self)
    }

    fn push_user(&self, items: &mut Vec<Value>, parts: &[UserPart]) {
        let format = self.format();
        let is_blank = |part: &UserPart| matches!(part, UserPart::Text(text) if text.trim().is_empty());
        let parts = parts.iter().filter(|part| !is_blank(part));
        let mut parts: Vec<Value> = parts.map(|part| (format.user_part)(part)).collect();
        if parts.is_empty() {
            // No provider takes an empty message.
            parts.push((format.user_part)(&UserPart::Text("(the user said nothing)".to_owned())));
        }
        if format.has_answers_in_user_message
            && let Some(Value::Object(last)) = items.last_mut()
            && last.get("role").is_some_and(|role| role == "user")
            && let Some(Value::Array(before)) = last.get_mut(format.content_key)
        {
            before.extend(parts);
            return;
        }
        items.push((format.user_item)(parts));
    }

    fn answer_calls(&self, answers: &CallAnswers<'_>) -> Vec<Value> {
        answer_calls(*self, answers)
    }

    fn requested_calls(&self, items: &[Value]) -> Result<Vec<RequestedCall>, UnreadableMessage> {
        let text = stored_message(*self, items);
        let unreadable = |bad: InvalidMessage| UnreadableMessage(bad.to_string());
        Ok(decode_message(&text, Some(*self)).map_err(unreadable)?.requested)
    }

    fn clear_results(&self, items: &mut [Value], keep: usize, note: &dyn Fn(&str) -> String) -> usize {
        let format = &self.format().results;
        let clearable = clearable_results(*self, items, keep, note);
        let cleared = clearable.len();
        for (place, text) in clearable {
            let Some(result) = place.get_mut(*self, items) else { continue };
            result[format.content_key] = (format.clear)(text);
            if let Some(fields) = result.as_object_mut() {
                // Gemini has images beside the response.
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
                    let field = |(key, value): (&String, &Value)| {
                        if OPAQUE.contains(&key.as_str()) {
                            chars(value).min(OPAQUE_CHARS)
                        } else {
                            key.len() as u64 + chars(value)
                        }
                    };
                    fields.iter().map(field).sum()
                }
                _ => 4,
            }
        }
        items.iter().map(chars).sum::<u64>() / 4
    }

    fn loaded_tools(&self, items: &[Value]) -> HashSet<String> {
        items.iter().flat_map(|item| (self.format().loaded_tools)(item)).collect()
    }

    fn awaits_reply(&self, items: &[Value]) -> bool {
        items.last().is_some_and(|last| (self.format().awaits_reply)(last))
    }

    fn starts_with_user(&self, items: &[Value]) -> bool {
        items.first().is_none_or(|first| first["role"] == "user")
    }

    fn excerpt(&self, items: &[Value], lines_max: usize) -> Vec<ExcerptLine> {
        // Most items have at least one line.
        let newest = &items[items.len().saturating_sub(lines_max)..];
        let mut lines: Vec<ExcerptLine> = newest.iter().flat_map(|item| excerpt_lines(*self, item)).collect();
        lines.split_off(lines.len().saturating_sub(lines_max))
    }

    fn is_deferral_rejection(&self, failure: &ModelFailure) -> bool {
        tool_deferral::is_rejection(failure)
    }

    fn tool_definer(&self) -> Box<dyn ToolDefiner> {
        Box::new(DefinitionCache::new(*self))
    }
}

/// Makes the items that answer the calls of one message: one answer for each call, in order.
pub(crate) fn answer_calls(wire: Wire, answers: &CallAnswers<'_>) -> Vec<Value> {
    let format = wire.format();
    let mut results = answers.results.iter();
    let mut items = Vec::with_capacity(answers.requested.len());
    let mut notes = Vec::new();
    for requested in answers.requested {
        let refuse = |message: &str| ToolResult::not_taken(&requested.call, ToolError::new(message));
        let result = match &requested.refusal {
            Some(refusal) => refuse(refusal),
            None => match results.next() {
                Some(result) => match (answers.replacement)(result) {
                    Some(text) => refuse(&text),
                    None => result.clone(),
                },
                None => refuse("this call was not run"),
            },
        };
        let (item, note) = (format.encode_result)(requested, &result, answers.tools);
        items.push(item);
        notes.extend(note);
    }
    // After all results: nothing may stand between them.
    items.extend(notes.into_iter().map(format.encode_note));
    if format.has_answers_in_user_message { vec![(format.user_item)(items)] } else { items }
}

/// Encodes one result in a provider's JSON.
///
/// The model gets [`ToolResult::for_model`]; a wire only puts it into the provider's blocks. Images and
/// documents that the wire or its API doesn't take become a line that names them. Where the wire has no flag
/// for errors, their text begins with `error: `. Nothing is ever empty: a tool without output says
/// `(no output)`.
pub fn encode_result(wire: Wire, result: &ToolResult) -> Value {
    let call = ToolCall::new(result.call_id(), result.tool_name(), "");
    (wire.format().encode_result)(&RequestedCall::new(call, CallKind::Function), result, None).0
}

/// Where a result is: its item, and its part where an item has several.
#[derive(Clone, Copy)]
struct ResultPlace {
    item: usize,
    part: Option<usize>,
}

impl ResultPlace {
    fn get(self, wire: Wire, items: &[Value]) -> Option<&Value> {
        let format = wire.format();
        let item = items.get(self.item)?;
        let part = match self.part {
            Some(part) => item.get(format.content_key)?.get(part)?,
            None => item,
        };
        format.results.wrapper.map_or(Some(part), |key| part.get(key))
    }

    fn get_mut(self, wire: Wire, items: &mut [Value]) -> Option<&mut Value> {
        let format = wire.format();
        let item = items.get_mut(self.item)?;
        let part = match self.part {
            Some(part) => item.get_mut(format.content_key)?.get_mut(part)?,
            None => item,
        };
        match format.results.wrapper {
            Some(key) => part.get_mut(key),
            None => Some(part),
        }
    }
}

/// The results whose content may be cleared, in order.
fn result_places(wire: Wire, items: &[Value]) -> Vec<ResultPlace> {
    let format = wire.format();
    let parts = |(item, value): (usize, &Value)| -> Vec<ResultPlace> {
        if !format.has_answers_in_user_message {
            return vec![ResultPlace { item, part: None }];
        }
        let count = value.get(format.content_key).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).map(|part| ResultPlace { item, part: Some(part) }).collect()
    };
    let places = items.iter().enumerate().flat_map(parts);
    places.filter(|place| place.get(wire, items).is_some_and(format.results.is_clearable)).collect()
}

/// The results that may be cleared and are long enough that it helps, with the text that replaces them.
fn clearable_results(
    wire: Wire,
    items: &[Value],
    keep: usize,
    note: &dyn Fn(&str) -> String,
) -> Vec<(ResultPlace, String)> {
    let format = &wire.format().results;
    let places = result_places(wire, items);
    let old = places.len().saturating_sub(keep);
    let old = places.into_iter().take(old);
    old.filter_map(|place| {
        let result = place.get(wire, items)?;
        let text = note(result[format.id_key].as_str().unwrap_or_default());
        let gains = result[format.content_key].to_string().len() > text.len() + CLEARED_BYTES_MIN;
        gains.then_some((place, text))
    })
    .collect()
}

/// The texts of an item, then the tools that it calls.
fn excerpt_lines(wire: Wire, item: &Value) -> Vec<ExcerptLine> {
    let format = wire.format();
    let content = &item[format.content_key];
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block[format.text_key].as_str());
    let is_result = !format.has_answers_in_user_message && (format.results.is_clearable)(item);
    let texts = content.as_str().into_iter().chain(blocks).filter(|_| !is_result);
    let texts = texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    if item["role"] == "user" {
        return texts.map(ExcerptLine::User).collect();
    }
    let message = decode_message(&stored_message(wire, std::slice::from_ref(item)), Some(wire));
    let calls = message.map(|message| message.requested).unwrap_or_default().into_iter();
    texts
        .map(ExcerptLine::Model)
        .chain(calls.map(|call| ExcerptLine::Call(call.call.name.to_string())))
        .collect()
}

/// Returns a message of the model as JSON, from the items that store it.
fn stored_message(wire: Wire, items: &[Value]) -> String {
    if wire.format().has_item_list {
        Value::from(items.to_vec()).to_string()
    } else {
        items.first().map(Value::to_string).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
