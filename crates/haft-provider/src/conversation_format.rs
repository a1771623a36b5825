//! Conversations in the JSON of each wire: messages for Anthropic and Chat, items for OpenAI Responses, contents for Gemini.

use std::collections::HashSet;

use haft::{ToolCall, ToolResult};
use haft_agent::{
    CallAnswers, CallKind, ExcerptLine, MessageFormat, ModelFailure, RequestedCall, ToolDefiner,
    UnreadableMessage, UserPart,
};
use serde_json::Value;

use crate::Wire;
use crate::decode::{BadMessage, decode};
use crate::deferral;
use crate::definitions::Definitions;
use crate::wire::Answer;
use crate::wire::decoder::message_with;

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
        let (format, facts) = (self.format(), self.format().facts());
        let is_blank = |part: &UserPart| matches!(part, UserPart::Text(text) if text.trim().is_empty());
        let parts = parts.iter().filter(|part| !is_blank(part));
        let mut parts: Vec<Value> = parts.map(|part| format.user_part(part)).collect();
        if parts.is_empty() {
            // No provider takes an empty message.
            parts.push(format.user_part(&UserPart::Text("(the user said nothing)".to_owned())));
        }
        if facts.has_answers_in_user_message
            && let Some(Value::Object(last)) = items.last_mut()
            && last.get("role").is_some_and(|role| role == "user")
            && let Some(Value::Array(before)) = last.get_mut(facts.content_key)
        {
            before.extend(parts);
            return;
        }
        items.push(format.user_item(parts));
    }

    fn answer_calls(&self, answers: &CallAnswers<'_>) -> Vec<Value> {
        answer_calls(*self, answers)
    }

    fn requested_calls(&self, items: &[Value]) -> Result<Vec<RequestedCall>, UnreadableMessage> {
        let text = self.format().stored_message(items);
        let unreadable = |bad: BadMessage| UnreadableMessage(bad.to_string());
        Ok(decode(&text, Some(*self)).map_err(unreadable)?.requested)
    }

    fn clear_results(&self, items: &mut [Value], keep: usize, note: &dyn Fn(&str) -> String) -> usize {
        let facts = &self.format().facts().results;
        let clearable = clearable_results(*self, items, keep, note);
        let cleared = clearable.len();
        for (place, text) in clearable {
            let Some(result) = place.get_mut(*self, items) else { continue };
            result[facts.content_key] = (facts.clear)(text);
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
        items.iter().flat_map(|item| self.format().loaded_tools(item)).collect()
    }

    fn awaits_reply(&self, items: &[Value]) -> bool {
        items.last().is_some_and(|last| self.format().awaits_reply(last))
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
        deferral::is_rejection(failure)
    }

    fn tool_definer(&self) -> Box<dyn ToolDefiner> {
        Box::new(Definitions::new(*self))
    }
}

/// Makes the items that answer the calls of one message: one answer for each call, in order.
pub(crate) fn answer_calls(wire: Wire, answers: &CallAnswers<'_>) -> Vec<Value> {
    let format = wire.format();
    let mut results = answers.results.iter();
    let mut items = Vec::with_capacity(answers.requested.len());
    let mut notes = Vec::new();
    for requested in answers.requested {
        let (item, note) = match &requested.refusal {
            Some(refusal) => format.encode_refusal(requested, refusal),
            None => match results.next() {
                Some(result) => answer_call(wire, requested, result, answers),
                None => format.encode_refusal(requested, "this call was not run"),
            },
        };
        items.push(item);
        notes.extend(note);
    }
    // After all results: nothing may stand between them.
    items.extend(notes.into_iter().map(|note| format.encode_note(note)));
    match format.facts().has_answers_in_user_message {
        true => vec![message_with("user", format.facts().content_key, items)],
        false => items,
    }
}

fn answer_call(
    wire: Wire,
    requested: &RequestedCall,
    result: &ToolResult,
    answers: &CallAnswers<'_>,
) -> Answer {
    if let Some(text) = (answers.replacement)(result) {
        return wire.format().encode_refusal(requested, &text);
    }
    let (mut item, note) = wire.format().encode_result(requested, result, answers.tools);
    // Within a session a call may have another id than the provider's, which tells it from its siblings.
    if result.call_id() != &*requested.call.id {
        wire.format().set_call_id(&mut item, &requested.call.id);
    }
    (item, note)
}

/// Encodes one result in a provider's JSON.
///
/// The model gets [`ToolResult::for_model`]; a wire only puts it into the provider's blocks. Images and documents that the
/// wire or its API doesn't take become a line that names them. Where the wire has no flag for errors, their text begins
/// with `error: `. Nothing is ever empty: a tool without output says `(no output)`.
pub fn encode_result(wire: Wire, result: &ToolResult) -> Value {
    let call = ToolCall::new(result.call_id(), result.tool_name(), "");
    wire.format().encode_result(&RequestedCall::new(call, CallKind::Function), result, None).0
}

/// Where a result is: its item, and its part where an item has several.
#[derive(Clone, Copy)]
struct ResultPlace {
    item: usize,
    part: Option<usize>,
}

impl ResultPlace {
    fn get(self, wire: Wire, items: &[Value]) -> Option<&Value> {
        let facts = wire.format().facts();
        let item = items.get(self.item)?;
        let part = match self.part {
            Some(part) => item.get(facts.content_key)?.get(part)?,
            None => item,
        };
        facts.results.wrapper.map_or(Some(part), |key| part.get(key))
    }

    fn get_mut(self, wire: Wire, items: &mut [Value]) -> Option<&mut Value> {
        let facts = wire.format().facts();
        let item = items.get_mut(self.item)?;
        let part = match self.part {
            Some(part) => item.get_mut(facts.content_key)?.get_mut(part)?,
            None => item,
        };
        match facts.results.wrapper {
            Some(key) => part.get_mut(key),
            None => Some(part),
        }
    }
}

/// The results whose content may be cleared, in order.
fn result_places(wire: Wire, items: &[Value]) -> Vec<ResultPlace> {
    let facts = wire.format().facts();
    let parts = |(item, value): (usize, &Value)| -> Vec<ResultPlace> {
        if !facts.has_answers_in_user_message {
            return vec![ResultPlace { item, part: None }];
        }
        let count = value.get(facts.content_key).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).map(|part| ResultPlace { item, part: Some(part) }).collect()
    };
    let places = items.iter().enumerate().flat_map(parts);
    places.filter(|place| place.get(wire, items).is_some_and(facts.results.is_clearable)).collect()
}

/// The results that may be cleared and are long enough that it helps, with the text that replaces them.
fn clearable_results(
    wire: Wire,
    items: &[Value],
    keep: usize,
    note: &dyn Fn(&str) -> String,
) -> Vec<(ResultPlace, String)> {
    let facts = &wire.format().facts().results;
    let places = result_places(wire, items);
    let old = places.len().saturating_sub(keep);
    let old = places.into_iter().take(old);
    old.filter_map(|place| {
        let result = place.get(wire, items)?;
        let text = note(result[facts.id_key].as_str().unwrap_or_default());
        let gains = result[facts.content_key].to_string().len() > text.len() + CLEARED_BYTES_MIN;
        gains.then_some((place, text))
    })
    .collect()
}

/// The texts of an item, then the tools that it calls.
fn excerpt_lines(wire: Wire, item: &Value) -> Vec<ExcerptLine> {
    let facts = wire.format().facts();
    let content = &item[facts.content_key];
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let is_result = !facts.has_answers_in_user_message && (facts.results.is_clearable)(item);
    let texts = content.as_str().into_iter().chain(blocks).filter(|_| !is_result);
    let texts = texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let line = if item["role"] == "user" { ExcerptLine::User } else { ExcerptLine::Model };
    let calls = wire.format().called_tools(item).into_iter();
    texts.map(line).chain(calls.map(|name| ExcerptLine::Call(name.to_owned()))).collect()
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
