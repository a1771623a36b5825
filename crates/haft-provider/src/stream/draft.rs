//! What all assemblers share: the calls of the message, its end, its bounds, and who is told.
//!
//! The answer's text is kept here, once: parts of the message know where theirs lies in it, so that an answer of many
//! megabytes takes its own size in memory and not a multiple of it.
//!
//! A call goes one of three ways: it is *ready* (its input is a whole JSON object, or the message ended well and the
//! model wrote what it wrote), *refused* (it can be answered but not run, because it was cut off or has no JSON form), or
//! it is *dropped* with the rest of a stream that broke, and is then in no history.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use haft::ToolCall;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::Wire;
use crate::decode::Message;
use crate::limits::{REPLY_BYTES_MAX, REPLY_CALLS_MAX, REPLY_PARTS_MAX};
use haft_agent::{CallKind, FailureKind, ModelFailure, ModelReply, ReplyDelta, StopReason, TokenUsage};

/// A JSON object.
pub(super) type Object = Map<String, Value>;
/// How reading something ends.
pub(super) type Read = Result<(), ModelFailure>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    /// What was said since it was last taken.
    pub(super) out: Vec<ReplyDelta>,
    /// Nobody is told of text, because it is there at once.
    silent: bool,
    message: Message,
    held: Vec<Held>,
    begun: usize,
    ready: usize,
    /// The calls that have an answer: ready or refused.
    answered: BTreeSet<usize>,
    /// Bytes that are kept, and parts.
    kept: usize,
    parts: usize,
    text: String,
    saw_thinking: bool,
    started: bool,
    pub(super) model: Option<String>,
    pub(super) usage: TokenUsage,
    stop: Option<StopReason>,
    failure: Option<ModelFailure>,
    /// The end of the message was said in so many words.
    closed: bool,
}

/// A call that waits for the end of the message, or behind one that does: calls are answered in the order of the message.
#[derive(Debug, Clone, PartialEq)]
struct Held {
    call: usize,
    kind: CallKind,
    id: String,
    name: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    /// It is run with this input, if that turns out to be whole.
    Input(String),
    /// The message ended inside of it.
    Cut,
    /// It takes text and not JSON.
    Custom,
}

impl Draft {
    pub(super) fn new(wire: Wire) -> Draft {
        Draft {
            out: Vec::new(),
            silent: false,
            message: Message::new(wire),
            held: Vec::new(),
            begun: 0,
            ready: 0,
            answered: BTreeSet::new(),
            kept: 0,
            parts: 0,
            text: String::new(),
            saw_thinking: false,
            started: false,
            model: None,
            usage: TokenUsage::default(),
            stop: None,
            failure: None,
            closed: false,
        }
    }

    /// A draft of a message that came whole.
    pub(super) fn silent(wire: Wire) -> Draft {
        Draft { silent: true, ..Draft::new(wire) }
    }

    /// Forgets everything but what went wrong.
    ///
    /// # Errors
    /// A call got ready already: it may have been run.
    pub(super) fn restart(&mut self) -> Read {
        if self.ready > 0 {
            let words = "the stream began a second message after the first had calls";
            return Err(ModelFailure::new(FailureKind::Malformed, words));
        }
        let out = std::mem::take(&mut self.out);
        *self = Draft { out, ..Draft::new(self.message.wire()) };
        self.out.push(ReplyDelta::Restarted);
        Ok(())
    }

    /// The message began; `model` is who writes it, where that is said.
    pub(super) fn start(&mut self, model: Option<&Value>) {
        if let Some(model) = model.and_then(Value::as_str).filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
        if !std::mem::replace(&mut self.started, true) {
            self.out.push(ReplyDelta::Started { model: self.model.clone() });
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.started
    }

    /// Counts what is kept.
    pub(super) fn keep(&mut self, bytes: usize) -> Read {
        self.kept += bytes;
        if self.kept > REPLY_BYTES_MAX {
            let words = format!("the message has more than {REPLY_BYTES_MAX} bytes");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        Ok(())
    }

    /// Counts a part of the message.
    pub(super) fn part(&mut self) -> Read {
        self.parts += 1;
        if self.parts > REPLY_PARTS_MAX {
            let words = format!("the message has more than {REPLY_PARTS_MAX} parts");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        Ok(())
    }

    /// More of the answer, which is a part's: `spans` says from now on that it lies there.
    pub(super) fn text<'t>(&mut self, text: impl Into<Cow<'t, str>>, spans: &mut Spans) -> Read {
        let text: Cow<'t, str> = text.into();
        if text.is_empty() {
            return Ok(());
        }
        self.keep(text.len())?;
        let begin = self.text.len();
        if !self.silent {
            self.out.push(ReplyDelta::Text(text.clone().into_owned()));
        }
        match text {
            // A long one that comes at once is taken over.
            Cow::Owned(text) if begin == 0 && self.silent => self.text = text,
            text => self.text.push_str(&text),
        }
        spans.push(begin..self.text.len());
        Ok(())
    }

    /// Whether the text of a part is what a JSON text says, written as we would write it.
    pub(super) fn is_text(&self, spans: &Spans, json: &str) -> bool {
        let [span] = &spans.0[..] else { return false };
        let mut same = Same(json.as_bytes());
        serde_json::to_writer(&mut same, &self.text[span.clone()]).is_ok() && same.0.is_empty()
    }

    /// The text of a part.
    pub(super) fn text_of(&self, spans: &Spans) -> String {
        spans.0.iter().map(|span| &self.text[span.clone()]).collect()
    }

    /// Whether there is nothing to read in the text of a part.
    pub(super) fn is_blank(&self, spans: &Spans) -> bool {
        spans.0.iter().all(|span| self.text[span.clone()].trim().is_empty())
    }

    pub(super) fn thinking(&mut self, text: &str) -> Read {
        if !text.is_empty() {
            self.keep(text.len())?;
            self.saw_thinking = true;
            self.out.push(ReplyDelta::Thinking(text.to_owned()));
        }
        Ok(())
    }

    /// A call began; gives its number.
    pub(super) fn begin(&mut self, id: &str, name: &str) -> Result<usize, ModelFailure> {
        if self.begun == REPLY_CALLS_MAX {
            let words = format!("the message has more than {REPLY_CALLS_MAX} calls");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        let call = self.begun;
        self.begun += 1;
        self.out.push(ReplyDelta::CallBegun { call, id: id.to_owned(), name: name.to_owned() });
        Ok(call)
    }

    pub(super) fn input(&mut self, call: usize, json: &str) -> Read {
        if !json.is_empty() {
            self.keep(json.len())?;
            self.out.push(ReplyDelta::CallInput { call, json: json.to_owned() });
        }
        Ok(())
    }

    /// The end of a call's block. It is ready if its input is a whole object; otherwise it waits.
    pub(super) fn end_call(&mut self, call: usize, id: &str, name: &str, input: &str) {
        self.end_call_of(CallKind::Function, call, id, name, input);
    }

    pub(super) fn end_call_of(&mut self, kind: CallKind, call: usize, id: &str, name: &str, input: &str) {
        if self.held.is_empty() && is_object(input) {
            self.run(kind, call, id, name, input);
        } else {
            self.hold(kind, call, id, name, What::Input(input.to_owned()));
        }
    }

    fn hold(&mut self, kind: CallKind, call: usize, id: &str, name: &str, what: What) {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.held.push(Held { call, kind, id, name, what });
    }

    fn run(&mut self, kind: CallKind, call: usize, id: &str, name: &str, input: &str) {
        self.ready += 1;
        self.answered.insert(call);
        self.message.call_of(kind, id, name, input);
        self.out.push(ReplyDelta::CallReady { call, ready: ToolCall::new(id, name, input) });
    }

    /// A call that can be answered but not run: the message ended inside of it.
    pub(super) fn refuse_cut(&mut self, call: usize, id: &str, name: &str) {
        self.refuse_cut_of(CallKind::Function, call, id, name);
    }

    pub(super) fn refuse_cut_of(&mut self, kind: CallKind, call: usize, id: &str, name: &str) {
        if !self.held.is_empty() {
            return self.hold(kind, call, id, name, What::Cut);
        }
        self.answered.insert(call);
        self.message.call_of(kind, id, name, "");
        self.message.cut_off();
    }

    /// A call that takes text and not JSON. It has no number: nobody was told that it began.
    pub(super) fn refuse_custom(&mut self, id: &str, name: &str) {
        match self.held.is_empty() {
            true => self.message.custom(id, name),
            false => self.hold(CallKind::FreeForm, usize::MAX, id, name, What::Custom),
        }
    }

    /// Whether a call is ready or refused, and so has an answer.
    pub(super) fn answers(&self, call: usize) -> bool {
        self.answered.contains(&call)
    }

    pub(super) fn pass_over(&mut self, kind: &str) {
        self.message.pass_over(kind);
    }

    /// The message's end with its reason: calls that waited are ready now, unless this is where they were cut off.
    pub(super) fn stop(&mut self, stop: StopReason) {
        if self.stop.is_some() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for Held { call, kind, id, name, what } in held {
            match what {
                What::Input(input) if is_object(&input) || !stop.cuts() => {
                    let input = if input.trim().is_empty() { "{}" } else { &input };
                    self.run(kind, call, &id, &name, input);
                }
                What::Input(_) | What::Cut => self.refuse_cut_of(kind, call, &id, &name),
                What::Custom => self.refuse_custom(&id, &name),
            }
        }
        self.stop = Some(match stop {
            StopReason::End if self.message.requests_calls() => StopReason::Calls,
            StopReason::Calls if !self.message.requests_calls() => StopReason::End,
            stop => stop,
        });
    }

    pub(super) fn stop_reason(&self) -> Option<&StopReason> {
        self.stop.as_ref()
    }

    /// Nothing that follows belongs to the message.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn fail(&mut self, failure: ModelFailure) {
        // A whole message stays whole, whatever follows.
        if self.failure.is_none() && self.stop.is_none() {
            self.failure = Some(failure);
        }
        self.closed = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.closed
    }

    pub(super) fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    pub(super) fn has_content(&self) -> bool {
        self.begun > 0 || self.saw_thinking || !self.text.is_empty()
    }

    pub(super) fn calls_ready(&self) -> usize {
        self.ready
    }

    pub(super) fn failure(&self) -> Option<&ModelFailure> {
        self.failure.as_ref()
    }

    pub(super) fn usage(&mut self, usage: TokenUsage) {
        if usage != self.usage {
            self.usage = usage.clone();
            self.out.push(ReplyDelta::Usage(usage));
        }
    }

    /// The bytes are over: what still waits to be run is dropped, because nobody knows whether it is whole.
    pub(super) fn end_of_bytes(&mut self) {
        for Held { call, kind, id, name, what } in std::mem::take(&mut self.held) {
            match what {
                What::Input(_) => {}
                What::Cut => self.refuse_cut_of(kind, call, &id, &name),
                What::Custom => self.refuse_custom(&id, &name),
            }
        }
    }

    pub(super) fn into_reply(self, items: Vec<Value>) -> ModelReply {
        let stop = match (self.stop, self.failure) {
            (Some(stop), _) => stop,
            (None, Some(failure)) => StopReason::Failed(failure),
            (None, None) => StopReason::Cut,
        };
        let Draft { message, usage, text, model, .. } = self;
        let reply =
            ModelReply::empty(message.wire(), stop).with_items(items).with_requested(message.requested);
        reply.with_usage(usage).with_text(text).with_model(model)
    }

    pub(super) fn into_message(self) -> Message {
        self.message
    }
}

/// What is left of a text that something written has to be the same as.
struct Same<'t>(&'t [u8]);

impl std::io::Write for Same<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Where a part's text lies in the answer's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    fn push(&mut self, span: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => self.0.push(span),
        }
    }

    /// Adds another part's.
    pub(super) fn extend(&mut self, other: Spans) {
        other.0.into_iter().for_each(|span| self.push(span));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a text is one whole JSON object. A part of one never is: its last bracket is missing.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// An input as it stands in the history: what can't be read as an object is shown in one.
pub(super) fn input_value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => value,
        _ if text.trim().is_empty() => Value::Object(Map::new()),
        _ => serde_json::json!({"invalid_json": text}),
    }
}

/// The same as text, for wires that have arguments as text. What is fine stays as it was written.
pub(super) fn input_text(text: &str) -> String {
    match is_object(text) {
        true => text.to_owned(),
        false => input_value(text).to_string(),
    }
}

/// A message of these parts, which are moved: `json!` would copy them.
pub(super) fn of_parts(role: &str, key: &str, parts: Vec<Value>) -> Value {
    let fields = [("role".to_owned(), role.into()), (key.to_owned(), Value::Array(parts))];
    Value::Object(Map::from_iter(fields))
}

/// An event as JSON.
pub(super) fn parsed(data: &str) -> Result<Object, ModelFailure> {
    match serde_json::from_str(data) {
        Ok(Value::Object(event)) => Ok(event),
        Ok(_) => Err(malformed("an event that is no object")),
        Err(error) => Err(malformed(&format!("an event that can't be read: {error}"))),
    }
}

pub(super) fn malformed(what: &str) -> ModelFailure {
    ModelFailure::new(FailureKind::Malformed, format!("the stream has {what}"))
}

/// Adds one object's fields to another's: texts grow, lists grow, everything else is replaced.
pub(super) fn merge(into: &mut Object, from: Object) {
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

/// A text field, empty where there is none.
pub(super) fn field<'v>(object: &'v Object, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Takes a text field out of an object; empty where there is none.
pub(super) fn taken(object: &mut Object, key: &str) -> String {
    match object.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Arguments as text: some servers have them as a value.
pub(super) fn arguments(given: Option<&Value>) -> String {
    match given {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A number of a usage, 0 where it isn't said.
pub(super) fn count(said: Option<&Value>, key: &str) -> u64 {
    said.and_then(|said| said.get(key)).and_then(Value::as_u64).unwrap_or_default()
}

pub(super) fn is_blank(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
}
