//! From a model's message to its calls, and from their results to the message that answers.
//!
//! What comes in is the provider's own JSON, as its API or an SDK's dump has it: a whole response, the message in it, or
//! the list of its parts. The shape says which wire it is. A message is bad as a whole (nothing of it may run) when its
//! frame is: a call without an id or a name can't be answered, and one with two ids can't be answered rightly. Whatever
//! is wrong inside one call's arguments is that call's own error: they go to the engine as they were written.
//!
//! Calls that the provider runs itself, text and reasoning are passed over. Every call that waits for an answer gets
//! one, also where it can't be run: free-form calls, and a call that was cut off when the message ended early. Half an
//! input is never run.

mod anthropic;
mod foreign;
mod gemini;
pub(crate) mod json;
mod openai;
mod openai_chat;
mod shape;

use std::borrow::Cow;
use std::fmt;

use haft::schema::not_json;
use haft::search::TOOL_SEARCH;
use haft::{CallInput, ErrorKind, ToolCall, ToolError, ToolResult};
use serde_json::{Value, json};

use self::json::{Json, Object};
pub(crate) use self::openai::OTHERS as OPENAI_OTHERS;
use crate::deferral::answer::{self, Answer};
use crate::definitions::Tools;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::{Deferral, Wire, encode};

/// A model's message with its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    wire: Wire,
    asked: Vec<Asked>,
    passed_over: Vec<String>,
}

/// One thing that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
enum Asked {
    /// A call to run.
    Call(ToolCall, Kind),
    /// One that can't be run, and the words for the model.
    Refused { id: String, name: String, words: String, kind: Kind },
}

/// What a call is to its provider, where it has several kinds with an answer of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The call of a function.
    Function,
    /// One with text and not JSON for an input.
    Custom,
    /// OpenAI's own form of a search for tools.
    Search,
}

/// Why a message can't be used: what, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage {
    path: String,
    message: String,
}

impl BadMessage {
    fn at(path: impl Into<String>, message: impl Into<String>) -> BadMessage {
        BadMessage { path: path.into(), message: message.into() }
    }

    /// The JSON pointer to the place; empty for the whole message.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "at `{}`: {}", json::short(path), self.message),
        }
    }
}

impl std::error::Error for BadMessage {}

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
/// Text that is no JSON, a shape that no wire has or that several have, calls of another wire than the one that was
/// said, equal keys in the frame, and calls that can't be answered because they lack an id or a name.
pub fn decode(text: &str, wire: Option<Wire>) -> Result<Message, BadMessage> {
    if text.len() > MESSAGE_BYTES_MAX {
        let bytes = text.len();
        let words = format!("the message has {bytes} bytes; at most {MESSAGE_BYTES_MAX} are accepted");
        return Err(BadMessage::at("", words));
    }
    if text.trim().is_empty() {
        return Err(BadMessage::at("", "the message is empty; an assistant message as JSON is accepted"));
    }
    let value = Json::new(text)
        .map_err(|error| BadMessage::at("", format!("the message is not JSON: {}", not_json(&error))))?;
    let wire = match wire {
        Some(wire) => wire,
        None => shape::wire(value)?,
    };
    foreign::check(value, wire)?;
    let mut message = Message::new(wire);
    match wire {
        Wire::Anthropic => anthropic::read(value, &mut message)?,
        Wire::OpenAi => openai::read(value, &mut message)?,
        Wire::OpenAiChat => openai_chat::read(value, &mut message)?,
        Wire::Gemini => gemini::read(value, &mut message)?,
    }
    Ok(message)
}

impl Message {
    pub(crate) fn new(wire: Wire) -> Message {
        Message { wire, asked: Vec::new(), passed_over: Vec::new() }
    }

    /// Whether anything waits for an answer, also what can't be run.
    pub(crate) fn asks(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What waits for an answer: id, name, and the input of what can be run.
    pub(crate) fn into_asked(self) -> Vec<(String, String, Option<String>)> {
        let one = |asked| match asked {
            Asked::Call(call, _) => {
                let input = match call.input {
                    CallInput::Text(text) => text,
                    CallInput::Value(value) => value.to_string(),
                };
                (call.id.to_string(), call.name.to_string(), Some(input))
            }
            Asked::Refused { id, name, .. } => (id, name, None),
        };
        self.asked.into_iter().map(one).collect()
    }

    /// The wire that it came by and is answered by.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The calls to run, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        let call = |asked: &Asked| match asked {
            Asked::Call(call, _) => Some(call.clone()),
            Asked::Refused { .. } => None,
        };
        self.asked.iter().filter_map(call).collect()
    }

    /// Kinds of parts that wait for an answer that is not a tool's, such as `shell_call`: the host's own business.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The message that answers, in the same provider's JSON: one result for each call, in order.
    ///
    /// `results` are those of [`calls`](Message::calls), in the same order. Anthropic and Gemini: the user's message.
    /// OpenAI Responses: the list of output items. Chat: the list of tool messages.
    pub fn answer(&self, results: &[ToolResult]) -> Value {
        self.answer_or(results, None, |_| None)
    }

    /// The same for a request with these tools, and with other words in place of some results: calls that were not run for
    /// a reason that the engine doesn't know of.
    pub(crate) fn answer_or(
        &self,
        results: &[ToolResult],
        tools: Option<&Tools>,
        instead: impl Fn(&ToolResult) -> Option<String>,
    ) -> Value {
        let mut results = results.iter();
        let mut answers = Vec::with_capacity(self.asked.len());
        let mut beside = Vec::new();
        for asked in &self.asked {
            let (answer, words) = match asked {
                Asked::Call(call, kind) => match results.next() {
                    Some(result) => match instead(result) {
                        Some(words) => self.refusal(&call.id, &call.name, &words, *kind),
                        None => {
                            let (mut answer, words) = self.result(call, *kind, result, tools);
                            if result.call_id() != &*call.id {
                                self.set_id(&mut answer, &call.id);
                            }
                            (answer, words)
                        }
                    },
                    None => self.refusal(&call.id, &call.name, "this call was not run", *kind),
                },
                Asked::Refused { id, name, words, kind } => self.refusal(id, name, words, *kind),
            };
            answers.push(answer);
            beside.extend(words);
        }
        // After all results: nothing may stand between them.
        for words in beside {
            answers.push(match self.wire {
                Wire::OpenAi => {
                    let text = json!({"type": "input_text", "text": words});
                    json!({"type": "message", "role": "developer", "content": [text]})
                }
                _ => json!({"type": "text", "text": words}),
            });
        }
        match self.wire {
            Wire::Anthropic => json!({"role": "user", "content": answers}),
            Wire::OpenAi | Wire::OpenAiChat => Value::Array(answers),
            Wire::Gemini => json!({"role": "user", "parts": answers}),
        }
    }

    /// Gives an answer the id that the provider gave the call: within a session a call may have another one, which tells it
    /// from its siblings.
    fn set_id(&self, answer: &mut Value, id: &str) {
        match self.wire {
            Wire::Anthropic => answer["tool_use_id"] = id.into(),
            Wire::OpenAi => answer["call_id"] = id.into(),
            Wire::OpenAiChat => answer["tool_call_id"] = id.into(),
            Wire::Gemini => match answer["functionResponse"].as_object_mut() {
                Some(response) if id.is_empty() => drop(response.remove("id")),
                Some(response) => drop(response.insert("id".to_owned(), id.into())),
                None => {}
            },
        }
    }

    /// All calls with their results, in order: those that ran as they are given, the others with the words that answer
    /// them.
    pub(crate) fn with_refused(
        &self,
        ran: impl IntoIterator<Item = (ToolCall, ToolResult)>,
    ) -> Vec<(ToolCall, ToolResult)> {
        let mut ran = ran.into_iter();
        let mut all = Vec::with_capacity(self.asked.len());
        for asked in &self.asked {
            match asked {
                Asked::Call(..) => all.extend(ran.next()),
                Asked::Refused { id, name, words, .. } => {
                    let call = ToolCall::new(id.as_str(), name.as_str(), "");
                    let error = ToolError::of(ErrorKind::InvalidInput, words.as_str());
                    let result = ToolResult::not_taken(&call, error);
                    all.push((call, result));
                }
            }
        }
        all.extend(ran);
        all
    }

    /// A result in the form that answers its call, and words that have no place in it.
    fn result(&self, call: &ToolCall, kind: Kind, result: &ToolResult, tools: Option<&Tools>) -> Answer {
        if kind == Kind::Search {
            return answer::openai(result, tools);
        }
        let tools = tools.filter(|tools| tools.deferral() == Deferral::Native);
        if let (Wire::Anthropic, Some(tools), TOOL_SEARCH) = (self.wire, tools, result.tool_name())
            && let Some(answer) = answer::anthropic(result, tools)
        {
            return answer;
        }
        let answer = match self.wire {
            Wire::Anthropic => encode::anthropic(result),
            Wire::OpenAi => encode::openai(result),
            Wire::OpenAiChat => encode::openai_chat(result),
            Wire::Gemini => encode::gemini_named(result, &call.name),
        };
        (answer, None)
    }

    fn refusal(&self, id: &str, name: &str, words: &str, kind: Kind) -> Answer {
        let answer = match (self.wire, kind) {
            (Wire::OpenAi, Kind::Search) => return answer::openai_refused(id, words),
            (Wire::Anthropic, _) => encode::anthropic_result(id, words.into(), true),
            (Wire::OpenAi, kind) => {
                let kind =
                    if kind == Kind::Custom { "custom_tool_call_output" } else { "function_call_output" };
                json!({"type": kind, "call_id": id, "output": encode::error_text(words)})
            }
            (Wire::OpenAiChat, _) => encode::openai_chat_result(id, &encode::error_text(words)),
            (Wire::Gemini, _) => encode::gemini_result(id, name, json!({"error": words}), Vec::new()),
        };
        (answer, None)
    }

    pub(crate) fn call(&mut self, id: &str, name: &str, input: impl Into<String>) {
        self.call_of(Kind::Function, id, name, input);
    }

    pub(crate) fn call_of(&mut self, kind: Kind, id: &str, name: &str, input: impl Into<String>) {
        self.asked.push(Asked::Call(ToolCall::new(id, name, input.into()), kind));
    }

    pub(crate) fn custom(&mut self, id: &str, name: &str) {
        let words =
            format!("`{name}` takes no free-form input here; call it as a function, with JSON arguments");
        let (id, name) = (id.to_owned(), name.to_owned());
        self.asked.push(Asked::Refused { id, name, words, kind: Kind::Custom });
    }

    pub(crate) fn pass_over(&mut self, kind: &str) {
        self.passed_over.push(kind.to_owned());
    }

    /// The last call may have lost a part of its input, so it isn't run.
    pub(crate) fn cut_off(&mut self) {
        if let Some(last @ Asked::Call(..)) = self.asked.last_mut() {
            let Asked::Call(call, kind) = &*last else { return };
            let words = format!(
                "{} was not run: the message ended before the call was complete; make the call again, shorter if it was long",
                call.name
            );
            let (id, name, kind) = (call.id.to_string(), call.name.to_string(), *kind);
            *last = Asked::Refused { id, name, words, kind };
        }
    }
}

/// A text that must be there and not be empty.
fn required<'t>(object: &Object<'t>, path: &str, key: &str, of: &str) -> Result<Cow<'t, str>, BadMessage> {
    let Some(value) = object.get(key) else {
        return Err(BadMessage::at(path, format!("{of} has no `{key}`; a string is required")));
    };
    let found = text(value, path, key, of)?;
    if found.is_empty() {
        let words = format!("the `{key}` of {of} is empty; a text is accepted");
        return Err(BadMessage::at(format!("{path}/{key}"), words));
    }
    Ok(found)
}

/// The text of a field of the frame.
fn text<'t>(value: Json<'t>, path: &str, key: &str, of: &str) -> Result<Cow<'t, str>, BadMessage> {
    value.string().ok_or_else(|| {
        let came = if value.is_string() { "a string with half a surrogate in it" } else { value.shown() };
        BadMessage::at(
            format!("{path}/{key}"),
            format!("the `{key}` of {of} is {came}; a string is accepted"),
        )
    })
}

/// A list that must be there; null and nothing are an empty one.
fn list<'t>(value: Option<Json<'t>>, path: &str, what: &str) -> Result<Vec<Json<'t>>, BadMessage> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    value.array().ok_or_else(|| BadMessage::at(path, format!("{} came; {what} is accepted", value.shown())))
}

/// Arguments that are text on most servers and a value on some; left out, there are none.
///
/// A string that is no text is left as it was written: the engine refuses it for the same reason.
fn arguments(value: Option<Json<'_>>) -> Cow<'_, str> {
    match value {
        None => Cow::Borrowed(""),
        Some(value) if value.is_null() => Cow::Borrowed(""),
        Some(value) => value.string().unwrap_or(Cow::Borrowed(value.text())),
    }
}
