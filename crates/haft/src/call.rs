//! A call as the model asks for it.

use std::sync::Arc;

use serde_json::Value;

/// One call of a tool, as it came from a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id that the result has to carry. Need not be unique: one result comes back for each call all the
    /// same.
    pub id: Arc<str>,
    /// The name of the tool.
    pub name: Arc<str>,
    /// The arguments.
    pub input: CallInput,
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallInput {
    /// As text, the form in which models write them. Broken text is that call's error.
    Text(String),
    /// As a value, where somebody has parsed them already.
    Value(Value),
}

impl ToolCall {
    /// A call with an id.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, input: impl Into<CallInput>) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), input: input.into() }
    }
}

impl CallInput {
    /// As a value; text that is no JSON is a string.
    pub(crate) fn into_value(self) -> Value {
        match self {
            CallInput::Value(value) => value,
            CallInput::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        }
    }
}

impl From<Value> for CallInput {
    fn from(value: Value) -> CallInput {
        CallInput::Value(value)
    }
}

impl From<String> for CallInput {
    fn from(text: String) -> CallInput {
        CallInput::Text(text)
    }
}

impl From<&str> for CallInput {
    fn from(text: &str) -> CallInput {
        CallInput::Text(text.to_owned())
    }
}
