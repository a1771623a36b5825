//! How a message of the model is decoded: one state machine for each wire, and the helpers that they share.
//!
//! A message that comes whole goes through the same state machine as a streamed one: it is a stream of one
//! event, whose parts begin and end at once.

use std::borrow::Cow;
use std::fmt;

use haft_agent::{FailureKind, ModelFailure};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::json_text::{JsonError, JsonObject, JsonText};
use super::message_draft::MessageDraft;

/// The state of one message while it is decoded.
pub(crate) trait MessageDecoder: DecoderState + fmt::Debug + Send + Sync {
    /// Takes an event of a stream.
    ///
    /// # Errors
    /// An event that can't be read, and a failure that the provider reports. The message ends with it.
    fn decode_event(&mut self, event: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult;

    /// Takes a whole message, or the list of its parts.
    ///
    /// # Errors
    /// A message that can't be answered, and a failure that the provider reports.
    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult;

    /// Takes out the message as it is sent back.
    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value>;
}

/// Cloning and comparing decoders behind the trait.
pub(crate) trait DecoderState {
    fn clone_box(&self) -> Box<dyn MessageDecoder>;
    fn as_any(&self) -> &dyn std::any::Any;
    fn is_equal(&self, other: &dyn MessageDecoder) -> bool;
}

impl<T: MessageDecoder + Clone + PartialEq + 'static> DecoderState for T {
    fn clone_box(&self) -> Box<dyn MessageDecoder> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn is_equal(&self, other: &dyn MessageDecoder) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }
}

/// How a step of decoding ends.
pub(crate) type DecodeResult = Result<(), DecodeError>;

/// Why decoding stopped.
#[derive(Debug)]
pub(crate) enum DecodeError {
    Message(JsonError),
    Failure(ModelFailure),
}

impl From<JsonError> for DecodeError {
    fn from(error: JsonError) -> DecodeError {
        DecodeError::Message(error)
    }
}

impl From<ModelFailure> for DecodeError {
    fn from(failure: ModelFailure) -> DecodeError {
        DecodeError::Failure(failure)
    }
}

/// Makes the failure of a stream with an event that can't be read.
pub(crate) fn unreadable_event(reason: impl fmt::Display) -> ModelFailure {
    ModelFailure::new(FailureKind::Malformed, format!("the stream has an event that can't be read: {reason}"))
}

/// An event that does not fit what came before it.
pub(crate) fn misplaced_event(what: &str) -> DecodeError {
    ModelFailure::new(FailureKind::Malformed, format!("the stream has {what}")).into()
}

/// Reads a text that must be there and not be empty.
pub(crate) fn required_member<'t>(
    object: &JsonObject<'t>,
    key: &str,
    owner: &str,
) -> Result<Cow<'t, str>, JsonError> {
    let Some(value) = object.get(key) else {
        return Err(object.error(format!("{owner} has no `{key}`; a string is required")));
    };
    let text = required_text(value, key, owner)?;
    if text.is_empty() {
        return Err(value.error(format!("the `{key}` of {owner} is empty; a text is accepted")));
    }
    Ok(text)
}

/// Reads the text of a field of the frame.
pub(crate) fn required_text<'t>(
    value: JsonText<'t>,
    key: &str,
    owner: &str,
) -> Result<Cow<'t, str>, JsonError> {
    value.string().ok_or_else(|| {
        let kind = if value.is_string() { "a string with half a surrogate in it" } else { value.shown() };
        value.error(format!("the `{key}` of {owner} is {kind}; a string is accepted"))
    })
}

/// Reads a list that must be there; null and nothing are an empty one.
pub(crate) fn required_list<'t>(
    value: Option<JsonText<'t>>,
    what: &str,
) -> Result<Vec<JsonText<'t>>, JsonError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    value.array().ok_or_else(|| value.error(format!("{} came; {what} is accepted", value.shown())))
}

/// Reads arguments that are text on most servers and a value on some; left out, there are none.
///
/// A string with a lone surrogate is left as it was written: the engine rejects it for the same reason.
pub(crate) fn read_arguments(value: Option<JsonText<'_>>) -> Cow<'_, str> {
    match value {
        None => Cow::Borrowed(""),
        Some(value) if value.is_null() => Cow::Borrowed(""),
        Some(value) => value.string().unwrap_or(Cow::Borrowed(value.text())),
    }
}

/// Returns whether a text is one whole JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns whether a text is one whole JSON object. A part of one never is: its last bracket is missing.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && is_json(text)
}

/// Makes the input of a call as it stands in the history: what can't be read as an object is shown in one.
pub(crate) fn input_value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => value,
        _ if text.trim().is_empty() => Value::Object(Map::new()),
        _ => serde_json::json!({"invalid_json": text}),
    }
}

/// The same as text, for wires that have arguments as text. What is fine stays as it was written.
pub(crate) fn input_text(text: &str) -> String {
    if is_object(text) { text.to_owned() } else { input_value(text).to_string() }
}

/// Makes a message of these parts without a copy of them.
pub(crate) fn message_with(role: &str, key: &str, parts: Vec<Value>) -> Value {
    let fields = [("role".to_owned(), role.into()), (key.to_owned(), Value::Array(parts))];
    Value::Object(Map::from_iter(fields))
}

/// Adds the members of one object to another: texts and lists grow, everything else is replaced.
pub(crate) fn merge_members(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::String(before)), Value::String(more)) => before.push_str(&more),
            (Some(Value::Array(before)), Value::Array(more)) => before.extend(more),
            (Some(before), value) if !value.is_null() => *before = value,
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Returns a text field, empty where there is none.
pub(crate) fn text_field<'v>(object: &'v Map<String, Value>, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number of a usage, 0 where there is none.
pub(crate) fn usage_count(usage: &Value, key: &str) -> u64 {
    usage.get(key).and_then(Value::as_u64).unwrap_or_default()
}
