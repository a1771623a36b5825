//! A conversation in the provider's own JSON, as it is sent with every request.
//!
//! It is kept in the provider's form and not in one of ours, because what a model sent has to come back unchanged:
//! signatures, encrypted reasoning, blocks that nobody here knows. So a conversation belongs to one wire.

use std::collections::{HashMap, HashSet};

use haft::{Blob, ToolResult};
use serde_json::{Map, Value, json};

use crate::deferral::history;
use crate::reply::Reply;
use crate::{Wire, encode};

/// Fields whose length says nothing about their tokens.
const OPAQUE: [&str; 7] =
    ["data", "encrypted_content", "file_data", "image_url", "signature", "thoughtSignature", "url"];
/// What such a field counts, in characters.
const OPAQUE_CHARS: u64 = 6_000;

/// What was said so far: messages for Anthropic and Chat, items for OpenAI Responses, contents for Gemini.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    wire: Wire,
    items: Vec<Value>,
    /// Where the whole of long results is, by call.
    offloaded: HashMap<String, String>,
}

/// A part of what the user says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum UserPart {
    /// Words.
    Text(String),
    /// A picture: PNG, JPEG, GIF or WebP.
    Image(Blob),
}

impl Conversation {
    /// An empty conversation by this wire.
    pub fn new(wire: Wire) -> Conversation {
        Conversation::from_items(wire, Vec::new())
    }

    /// A conversation that was kept: its items as [`items`](Conversation::items) gave them.
    pub fn from_items(wire: Wire, items: Vec<Value>) -> Conversation {
        Conversation { wire, items, offloaded: HashMap::new() }
    }

    /// The wire that it belongs to.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// What was said, in the provider's JSON.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds words of the user.
    pub fn say(&mut self, text: &str) {
        self.say_parts(&[UserPart::Text(text.to_owned())]);
    }

    /// Adds what the user says. Right after results it goes into the same message, where the wire has results there.
    pub fn say_parts(&mut self, parts: &[UserPart]) {
        let mut parts: Vec<Value> = parts.iter().filter_map(|part| self.part(part)).collect();
        if parts.is_empty() {
            // No provider takes a message without anything in it.
            parts.extend(self.part(&UserPart::Text("(the user said nothing)".to_owned())));
        }
        let key = if self.wire == Wire::Gemini { "parts" } else { "content" };
        if matches!(self.wire, Wire::Anthropic | Wire::Gemini)
            && let Some(Value::Object(last)) = self.items.last_mut()
            && last.get("role").is_some_and(|role| role == "user")
            && let Some(Value::Array(before)) = last.get_mut(key)
        {
            before.extend(parts);
            return;
        }
        self.items.push(match self.wire {
            Wire::OpenAi => json!({"type": "message", "role": "user", "content": parts}),
            // Many local servers take nothing but a string.
            Wire::OpenAiChat => match &parts[..] {
                [only] if only["type"] == "text" => json!({"role": "user", "content": only["text"]}),
                _ => json!({"role": "user", "content": parts}),
            },
            Wire::Anthropic | Wire::Gemini => {
                let mut message = Map::new();
                message.insert("role".to_owned(), "user".into());
                message.insert(key.to_owned(), parts.into());
                Value::Object(message)
            }
        });
    }

    fn part(&self, part: &UserPart) -> Option<Value> {
        match part {
            UserPart::Text(text) if text.trim().is_empty() => None,
            UserPart::Text(text) => Some(match self.wire {
                Wire::OpenAi => json!({"type": "input_text", "text": text}),
                Wire::Gemini => json!({"text": text}),
                Wire::Anthropic | Wire::OpenAiChat => json!({"type": "text", "text": text}),
            }),
            UserPart::Image(blob) => {
                let url = || format!("data:{};base64,{}", blob.media_type, blob.to_base64());
                Some(match self.wire {
                    Wire::Anthropic => {
                        let source = json!({"type": "base64", "media_type": &*blob.media_type, "data": blob.to_base64()});
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

    /// Adds a model's reply. What waits for an answer there has to be answered next.
    ///
    /// # Panics
    /// The reply came by another wire.
    pub fn reply(&mut self, reply: &Reply) {
        assert_eq!(reply.wire(), self.wire, "a conversation belongs to one wire");
        self.items.extend(reply.items().iter().cloned());
    }

    /// The same without a copy: the reply's items are here from now on.
    pub(crate) fn take(&mut self, reply: &mut Reply) {
        assert_eq!(reply.wire(), self.wire, "a conversation belongs to one wire");
        self.items.append(&mut reply.items);
    }

    /// Remembers where the whole of long results is, for the time when they are cleared.
    pub(crate) fn remember(&mut self, results: &[ToolResult]) {
        for result in results {
            // Calls without an id can't be told apart later.
            if let Some(path) = result.offloaded_to().filter(|_| !result.call_id().is_empty()) {
                self.offloaded.insert(result.call_id().to_owned(), path.display().to_string());
            }
        }
    }

    /// Adds the answer to a reply's calls, as [`Reply::answer`] made it.
    pub fn answer(&mut self, answer: Value) {
        match answer {
            Value::Array(answers) => self.items.extend(answers),
            answer => self.items.push(answer),
        }
    }

    /// The tools whose definitions it holds because they were searched for, by name. None by wires that have no form for
    /// that.
    pub fn found(&self) -> HashSet<String> {
        history::found(self.wire, &self.items)
    }

    /// About how many tokens it has: a quarter of its characters, for lack of the model's own count. Pictures and what
    /// is encrypted count as a page of text.
    pub fn tokens_guess(&self) -> u64 {
        self.tokens_guess_from(0)
    }

    /// The same from an item on.
    pub(crate) fn tokens_guess_from(&self, first: usize) -> u64 {
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
        self.items.iter().skip(first).map(chars).sum::<u64>() / 4
    }

    /// Clears old results: all but the newest `keep` lose what is in them, and say so in the words that `note` gives for
    /// the call's id. Results that are shorter than their note stay. Returns how many were cleared.
    pub fn clear_results(&mut self, keep: usize, note: impl Fn(&str) -> String) -> usize {
        let wire = self.wire;
        let old = self.old_results(keep, note);
        let cleared = old.len();
        for (result, words) in old {
            result[result_keys(wire).1] = match wire {
                Wire::Gemini => json!({"output": words}),
                _ => Value::String(words),
            };
            if let Some(fields) = result.as_object_mut() {
                // Gemini keeps pictures beside the response.
                fields.remove("parts");
            }
        }
        cleared
    }

    /// The same, with notes that say where the whole of a result is, if it is anywhere.
    pub(crate) fn clear_old_results(&mut self, keep: usize) -> usize {
        let offloaded = std::mem::take(&mut self.offloaded);
        let cleared = self.clear_results(keep, |id| cleared_note(offloaded.get(id)));
        self.offloaded = offloaded;
        cleared
    }

    /// Whether there is anything that could be cleared so.
    pub(crate) fn has_old_results(&mut self, keep: usize) -> bool {
        !self.old_results(keep, |_| cleared_note(None)).is_empty()
    }

    /// The results that may be cleared and are long enough that it helps, with what they would say.
    fn old_results(&mut self, keep: usize, note: impl Fn(&str) -> String) -> Vec<(&mut Value, String)> {
        let wire = self.wire;
        let mut results: Vec<&mut Value> = Vec::new();
        for item in &mut self.items {
            match wire {
                Wire::Anthropic => {
                    let blocks = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
                    let is_words = |block: &Value| !history::holds_definitions(block);
                    results.extend(blocks.filter(|block| block["type"] == "tool_result" && is_words(block)));
                }
                Wire::OpenAi if item["type"] == "function_call_output" => results.push(item),
                Wire::OpenAiChat if item["role"] == "tool" => results.push(item),
                Wire::Gemini => {
                    let parts = item.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten();
                    results.extend(parts.filter_map(|part| part.get_mut("functionResponse")));
                }
                _ => {}
            }
        }
        let old = results.len().saturating_sub(keep);
        let (id, content) = result_keys(wire);
        let old = results.into_iter().take(old);
        old.filter_map(|result| {
            let words = note(result[id].as_str().unwrap_or_default());
            let gains = result[content].to_string().len() > words.len() + 64;
            gains.then_some((result, words))
        })
        .collect()
    }
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

/// What a result says that had to make room.
fn cleared_note(offloaded: Option<&String>) -> String {
    match offloaded {
        Some(path) => format!("[cleared to make room; the whole output is in {path}]"),
        None => format!("[cleared to make room; call the tool again if it is needed; {}]", encode::CLEARED),
    }
}
