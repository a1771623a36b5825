//! A message of the scripted model, and what its wires share when they write it.
//!
//! What is written here is read back by this crate's own decoders and by the vendors' SDKs, so events have
//! every field that those require, and nothing that depends on the time or on chance.

use haft::text::{truncate_bytes, truncate_chars};
use serde_json::{Value, json};

use crate::scripted::StopKind;

/// A message before it is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptMessage {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<ScriptCall>,
    /// Whether searches for tools have a form of their own.
    pub(crate) has_native_search: bool,
    pub(crate) stop: Option<StopKind>,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As text, which need not be JSON.
    pub(crate) input: String,
}

/// What a request path asks for beside the wire, where it says so.
#[derive(Debug, Default)]
pub(crate) struct ScriptTarget<'p> {
    pub(crate) stream: Option<bool>,
    pub(crate) model: Option<&'p str>,
}

impl ScriptMessage {
    pub(crate) fn stopping(&self) -> StopKind {
        let natural = if self.calls.is_empty() { StopKind::End } else { StopKind::ToolCalls };
        self.stop.unwrap_or(natural)
    }

    /// Whether the end of the message cuts into this call.
    pub(crate) fn cuts_call(&self, at: usize) -> bool {
        matches!(self.stopping(), StopKind::MaxTokens | StopKind::ContextFull)
            && at.checked_add(1) == Some(self.calls.len())
    }

    /// The part of a call's input that is written.
    pub(crate) fn input(&self, at: usize) -> &str {
        let input = &self.calls[at].input;
        if !self.cuts_call(at) {
            return input;
        }
        truncate_bytes(input, input.len() / 2)
    }

    /// A call's input as a value, for wires that have it as one.
    pub(crate) fn input_value(&self, at: usize) -> Value {
        match serde_json::from_str(self.input(at)) {
            Ok(value @ Value::Object(_)) => value,
            _ => json!({}),
        }
    }
}

/// The kind of an error as Anthropic and OpenAI name it.
pub(crate) fn error_kind(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// Writes an event with a name.
pub(crate) fn named_event(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

/// Writes an event without a name.
pub(crate) fn plain_event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Splits a text into pieces of so many characters.
pub(crate) fn split_text(text: &str, chars: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = truncate_chars(rest, chars.max(1)).len();
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}
