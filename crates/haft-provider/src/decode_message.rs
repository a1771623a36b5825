//! From a model's message to its calls, and from their results to the message that answers.
//!
//! The input is the provider's own JSON, as its API or an SDK's dump has it: a whole response, the message in
//! it, or the list of its parts. The wire is detected from the shape. A message is bad as a whole (nothing of
//! it may run) when its frame is: a call without an id or a name can't be answered, and one with two ids
//! can't be answered rightly. Whatever is wrong inside the arguments of one call is the error of that call:
//! they go to the engine as they were written.
//!
//! Calls that the provider runs itself, text and reasoning are passed over. Every call that waits for an
//! answer gets one, also where it can't be run: free-form calls, and a call that was cut off when the message
//! ended early. Half an input is never run.

use std::fmt;

use haft::call::CallInput;
use haft::schema::not_json;
use haft::{ToolCall, ToolResult};
use haft_agent::{CallAnswers, CallKind, RequestedCall};
use serde_json::Value;

use crate::Wire;
use crate::conversation_format::answer_calls;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::MessageDecoder;
use crate::wire::decoder::DecodeError;
use crate::wire::detection::{detect_wire, reject_foreign_calls};
use crate::wire::json_text::{self, JsonText};
use crate::wire::message_draft::MessageDraft;

/// A model's message with its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelMessage {
    wire: Wire,
    pub(crate) requested: Vec<RequestedCall>,
    passed_over: Vec<String>,
}

/// Why a message can't be used: what, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMessage {
    path: String,
    message: String,
    wire_helps: bool,
}

impl InvalidMessage {
    pub(crate) fn new(path: String, message: impl Into<String>, wire_helps: bool) -> InvalidMessage {
        InvalidMessage { path, message: message.into(), wire_helps }
    }

    fn whole(message: impl Into<String>) -> InvalidMessage {
        InvalidMessage::new(String::new(), message, false)
    }

    /// Whether the message may be readable if the caller names its [`Wire`].
    pub fn wire_helps(&self) -> bool {
        self.wire_helps
    }

    /// The JSON pointer to the place; empty for the whole message.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "at `{}`: {}", json_text::shorten_text(path), self.message),
        }
    }
}

impl std::error::Error for InvalidMessage {}

/// Reads a message. Without a wire, its shape says which it is.
///
/// Accepted are, each as the API sends it or an SDK dumps it:
///
/// * Anthropic: a message, or its `content`
/// * OpenAI Responses: a response, or its `output`
/// * OpenAI Chat: a completion, a choice, or a message with `tool_calls`
/// * Gemini: a response, a candidate, a content, or its `parts`; in camel or snake case
///
/// # Errors
/// Text that is no JSON, a shape that no wire has or that several have, calls of another wire than the one
/// that was said, equal keys in the frame, and calls that can't be answered because they lack an id or a
/// name.
pub fn decode_message(text: &str, wire: Option<Wire>) -> Result<ModelMessage, InvalidMessage> {
    let message = open_message(text)?;
    let wire = match wire {
        Some(wire) => wire,
        None => detect_wire(message).map_err(|error| error.locate(text))?,
    };
    let mut draft = MessageDraft::for_calls(wire);
    decode_into(message, wire, &mut draft).map_err(|error| match error {
        DecodeError::Message(error) => error.locate(text),
        DecodeError::Failure(failure) => InvalidMessage::whole(failure.message),
    })?;
    Ok(draft.into_message())
}

/// Opens the text of a message.
pub(crate) fn open_message(text: &str) -> Result<JsonText<'_>, InvalidMessage> {
    if text.len() > MESSAGE_BYTES_MAX {
        let bytes = text.len();
        let words = format!("the message has {bytes} bytes; at most {MESSAGE_BYTES_MAX} are accepted");
        return Err(InvalidMessage::whole(words));
    }
    if text.trim().is_empty() {
        return Err(InvalidMessage::whole("the message is empty; an assistant message as JSON is accepted"));
    }
    JsonText::new(text)
        .map_err(|error| InvalidMessage::whole(format!("the message is not JSON: {}", not_json(&error))))
}

/// Decodes a whole message and returns its decoder.
pub(crate) fn decode_into(
    message: JsonText<'_>,
    wire: Wire,
    draft: &mut MessageDraft,
) -> Result<Box<dyn MessageDecoder>, DecodeError> {
    reject_foreign_calls(message, wire)?;
    let mut decoder = (wire.format().decoder)();
    decoder.decode_message(message, draft)?;
    Ok(decoder)
}

impl ModelMessage {
    pub(crate) fn new(wire: Wire) -> ModelMessage {
        ModelMessage { wire, requested: Vec::new(), passed_over: Vec::new() }
    }

    /// Returns whether anything waits for an answer, also what can't be run.
    pub(crate) fn requests_calls(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Returns what waits for an answer: id, name, and the input of what can be run.
    pub(crate) fn into_requested(self) -> Vec<(String, String, Option<String>)> {
        let one = |RequestedCall { call, refusal, .. }: RequestedCall| {
            let input = match call.input {
                CallInput::Text(text) => text,
                CallInput::Value(value) => value.to_string(),
            };
            (call.id.to_string(), call.name.to_string(), refusal.is_none().then_some(input))
        };
        self.requested.into_iter().map(one).collect()
    }

    /// The wire that it came by and is answered by.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The calls to run, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        let runnable = self.requested.iter().filter(|requested| requested.refusal.is_none());
        runnable.map(|requested| requested.call.clone()).collect()
    }

    /// Kinds of parts that wait for an answer that is not a tool's, such as `shell_call`: the host's own
    /// business.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The message that answers, in the same provider's JSON: one result for each call, in order.
    ///
    /// `results` are those of [`calls`](ModelMessage::calls), in the same order. Anthropic and Gemini: the
    /// user's message. OpenAI Responses: the list of output items. Chat: the list of tool messages.
    pub fn answer(&self, results: &[ToolResult]) -> Value {
        let replacement = |_: &ToolResult| None;
        let answers =
            CallAnswers { requested: &self.requested, results, tools: None, replacement: &replacement };
        let mut items = answer_calls(self.wire, &answers);
        if self.wire.format().has_answers_in_user_message {
            items.pop().unwrap_or_default()
        } else {
            Value::Array(items)
        }
    }

    pub(crate) fn push_call(&mut self, kind: CallKind, id: &str, name: &str, input: &str) {
        self.requested.push(RequestedCall::new(ToolCall::new(id, name, input), kind));
    }

    /// Adds a call that takes text and not JSON.
    pub(crate) fn push_free_form(&mut self, id: &str, name: &str) {
        let refusal =
            format!("`{name}` takes no free-form input here; call it as a function, with JSON arguments");
        self.requested.push(RequestedCall::refused(ToolCall::new(id, name, ""), CallKind::FreeForm, refusal));
    }

    /// Adds a call that may have lost a part of its input, so it isn't run.
    pub(crate) fn push_cut_call(&mut self, kind: CallKind, id: &str, name: &str) {
        let refusal = format!(
            "{name} was not run: the message ended before the call was complete; make the call again, shorter if it was long"
        );
        self.requested.push(RequestedCall::refused(ToolCall::new(id, name, ""), kind, refusal));
    }

    pub(crate) fn pass_over(&mut self, kind: &str) {
        self.passed_over.push(kind.to_owned());
    }
}
