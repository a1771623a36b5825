//! A message in each provider's bytes: streamed, and at once.
//!
//! What is written here is read back by this crate's own reader and by the vendors' SDKs, so events have every field that
//! those insist on, and nothing that depends on the time or on chance.

mod anthropic;
mod gemini;
mod openai;
mod openai_chat;

use haft::text::{truncate_bytes, truncate_chars};
use serde_json::{Value, json};

use super::script::Stopping;
use crate::Wire;

/// What is said.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<SaidCall>,
    /// Searches for tools have a form of their own.
    pub(super) searches: bool,
    pub(super) stop: Option<Stopping>,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Debug, Clone)]
pub(super) struct SaidCall {
    pub(super) id: String,
    pub(super) name: String,
    /// As text, which need not be JSON.
    pub(super) input: String,
}

impl Said {
    fn stopping(&self) -> Stopping {
        let natural = if self.calls.is_empty() { Stopping::End } else { Stopping::ToolCalls };
        self.stop.unwrap_or(natural)
    }

    /// Whether the end of the message cuts into this call.
    fn cuts(&self, at: usize) -> bool {
        matches!(self.stopping(), Stopping::MaxTokens | Stopping::ContextFull)
            && at.checked_add(1) == Some(self.calls.len())
    }

    /// The part of a call's input that is said.
    fn input(&self, at: usize) -> &str {
        let input = &self.calls[at].input;
        if !self.cuts(at) {
            return input;
        }
        truncate_bytes(input, input.len() / 2)
    }

    /// A call's input as a value, for wires that have it as one.
    fn input_value(&self, at: usize) -> Value {
        match serde_json::from_str(self.input(at)) {
            Ok(value @ Value::Object(_)) => value,
            _ => json!({}),
        }
    }
}

/// The message as a stream of events.
pub(super) fn frames(wire: Wire, said: &Said, chunk_chars: usize) -> Vec<String> {
    match wire {
        Wire::Anthropic => anthropic::frames(said, chunk_chars),
        Wire::OpenAi => openai::frames(said, chunk_chars),
        Wire::OpenAiChat => openai_chat::frames(said, chunk_chars),
        Wire::Gemini => gemini::frames(said, chunk_chars),
    }
}

/// The message at once.
pub(super) fn whole(wire: Wire, said: &Said) -> Value {
    match wire {
        Wire::Anthropic => anthropic::whole(said),
        Wire::OpenAi => openai::whole(said),
        Wire::OpenAiChat => openai_chat::whole(said),
        Wire::Gemini => gemini::whole(said),
    }
}

/// An error in the middle of a stream.
pub(super) fn error_frame(wire: Wire, kind: Option<&str>, words: &str) -> String {
    let kind = kind.unwrap_or(if wire == Wire::Gemini { "INTERNAL" } else { "api_error" });
    match wire {
        Wire::Anthropic => {
            named("error", &json!({"type": "error", "error": {"type": kind, "message": words}}))
        }
        Wire::OpenAi => named(
            "error",
            &json!({"type": "error", "code": kind, "message": words, "param": null, "sequence_number": 0}),
        ),
        Wire::OpenAiChat => {
            plain(&json!({"error": {"message": words, "type": kind, "param": null, "code": null}}))
        }
        Wire::Gemini => plain(&json!({"error": {"code": 500, "message": words, "status": kind}})),
    }
}

/// An event with a name.
fn named(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

/// An event without one.
fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A text in pieces.
fn pieces(text: &str, chars: usize) -> impl Iterator<Item = &str> {
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
