//! What the decoders of all wires share: the calls of the message, its end, its limits, and the deltas that
//! are reported.
//!
//! The text of the answer is stored here, once: parts of the message know their range in it, so that an
//! answer of many megabytes takes its own size in memory and not a multiple of it.
//!
//! A streamed call ends in one of three ways: it is *ready* (its input is a whole JSON object, or the message
//! ended well and the model wrote what it wrote), *refused* (it can be answered but not run, because it was
//! cut off or has no JSON form), or *dropped* with the rest of a stream that broke, and is then in no
//! history. In a message that came whole no call has to wait: it is ready or refused at once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use haft::ToolCall;
use haft_agent::{CallKind, FailureKind, ModelFailure, ModelReply, ReplyDelta, StopReason, TokenUsage};
use serde_json::{Map, Value};

use super::decoder::{DecodeError, is_object, unreadable_event};
use super::json_text::{JsonError, JsonObject, JsonText};
use crate::Wire;
use crate::decode_message::ModelMessage;
use crate::failure;
use crate::limits::{REPLY_BYTES_MAX, REPLY_CALLS_MAX, REPLY_PARTS_MAX};

/// What a draft is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DraftPurpose {
    /// A reply that arrives piece by piece: deltas are reported.
    Stream,
    /// A reply that came whole.
    Reply,
    /// The calls of a message that came whole; nothing else is kept, and a failure in it is not looked at.
    Calls,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MessageDraft {
    /// The deltas since they were last taken.
    pub(crate) out: Vec<ReplyDelta>,
    purpose: DraftPurpose,
    message: ModelMessage,
    waiting: Vec<WaitingCall>,
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
    pub(crate) model: Option<String>,
    pub(crate) usage: TokenUsage,
    stop: Option<StopReason>,
    failure: Option<ModelFailure>,
    /// Nothing that follows belongs to the message.
    closed: bool,
}

/// A call that waits for the end of the message, or behind one that does: calls are answered in the order of
/// the message.
#[derive(Debug, Clone, PartialEq)]
struct WaitingCall {
    call: usize,
    kind: CallKind,
    id: String,
    name: String,
    end: CallEnd,
}

/// How a waiting call ended.
#[derive(Debug, Clone, PartialEq)]
enum CallEnd {
    /// It is run with this input, if that turns out to be whole.
    Input(String),
    /// The message ended inside of it.
    Cut,
    /// It takes text and not JSON.
    FreeForm,
}

impl MessageDraft {
    /// Creates the draft of a streamed reply.
    pub(crate) fn for_stream(wire: Wire) -> MessageDraft {
        MessageDraft::new(wire, DraftPurpose::Stream)
    }

    /// Creates the draft of a reply that came whole.
    pub(crate) fn for_reply(wire: Wire) -> MessageDraft {
        MessageDraft::new(wire, DraftPurpose::Reply)
    }

    /// Creates a draft that keeps only the calls of a message that came whole.
    pub(crate) fn for_calls(wire: Wire) -> MessageDraft {
        MessageDraft::new(wire, DraftPurpose::Calls)
    }

    fn new(wire: Wire, purpose: DraftPurpose) -> MessageDraft {
        MessageDraft {
            out: Vec::new(),
            purpose,
            message: ModelMessage::new(wire),
            waiting: Vec::new(),
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

    /// Whether the message arrives piece by piece.
    pub(crate) fn is_streamed(&self) -> bool {
        self.purpose == DraftPurpose::Stream
    }

    /// Whether nothing but calls is kept.
    pub(crate) fn keeps_only_calls(&self) -> bool {
        self.purpose == DraftPurpose::Calls
    }

    fn report(&mut self, delta: impl FnOnce() -> ReplyDelta) {
        if self.is_streamed() {
            self.out.push(delta());
        }
    }

    /// Fails if the provider reports an error.
    pub(crate) fn check_error(&self, error: Option<JsonText<'_>>) -> Result<(), ModelFailure> {
        match error.filter(|error| !error.is_null() && !self.keeps_only_calls()) {
            Some(error) => Err(failure::from_error(None, &error.to_value().unwrap_or_default())),
            None => Ok(()),
        }
    }

    /// Copies a part of the message for the history, without these fields.
    pub(crate) fn copy_fields(
        &self,
        part: &JsonObject<'_>,
        except: &[&str],
    ) -> Result<Map<String, Value>, JsonError> {
        if self.keeps_only_calls() { Ok(Map::new()) } else { part.to_map(except) }
    }

    /// Forgets everything but what went wrong.
    ///
    /// # Errors
    /// A call got ready already: it may have been run.
    pub(crate) fn restart(&mut self) -> Result<(), ModelFailure> {
        if self.ready > 0 {
            let words = "the stream began a second message after the first had calls";
            return Err(ModelFailure::new(FailureKind::Malformed, words));
        }
        let out = std::mem::take(&mut self.out);
        *self = MessageDraft { out, ..MessageDraft::for_stream(self.message.wire()) };
        self.out.push(ReplyDelta::Restarted);
        Ok(())
    }

    /// The message began; `model` is the model that writes it, where that is known.
    pub(crate) fn start(&mut self, model: Option<Cow<'_, str>>) {
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            self.model = Some(model.into_owned());
        }
        if !std::mem::replace(&mut self.started, true) {
            let model = self.model.clone();
            self.report(|| ReplyDelta::Started { model });
        }
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    /// Counts what is kept.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), ModelFailure> {
        self.kept += bytes;
        if self.kept > REPLY_BYTES_MAX && !self.keeps_only_calls() {
            let words = format!("the message has more than {REPLY_BYTES_MAX} bytes");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        Ok(())
    }

    /// Counts a part of the message.
    pub(crate) fn part(&mut self) -> Result<(), ModelFailure> {
        self.parts += 1;
        if self.parts > REPLY_PARTS_MAX && !self.keeps_only_calls() {
            let words = format!("the message has more than {REPLY_PARTS_MAX} parts");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        Ok(())
    }

    /// More of the answer, which is a part's: `ranges` says from now on that it lies there.
    pub(crate) fn text<'t>(
        &mut self,
        text: impl Into<Cow<'t, str>>,
        ranges: &mut TextRanges,
    ) -> Result<(), ModelFailure> {
        let text: Cow<'t, str> = text.into();
        if text.is_empty() || self.keeps_only_calls() {
            return Ok(());
        }
        self.keep(text.len())?;
        let begin = self.text.len();
        self.text.push_str(&text);
        self.report(|| ReplyDelta::Text(text.into_owned()));
        ranges.push(begin..self.text.len());
        Ok(())
    }

    /// Whether the text of a part is what a JSON text says, written as we would write it.
    pub(crate) fn is_text(&self, ranges: &TextRanges, json: &str) -> bool {
        let [range] = &ranges.0[..] else { return false };
        let mut same = ExpectedText(json.as_bytes());
        serde_json::to_writer(&mut same, &self.text[range.clone()]).is_ok() && same.0.is_empty()
    }

    /// The text of a part.
    pub(crate) fn text_of(&self, ranges: &TextRanges) -> String {
        ranges.0.iter().map(|range| &self.text[range.clone()]).collect()
    }

    /// Whether there is nothing to read in the text of a part.
    pub(crate) fn is_blank(&self, ranges: &TextRanges) -> bool {
        ranges.0.iter().all(|range| self.text[range.clone()].trim().is_empty())
    }

    pub(crate) fn thinking(&mut self, text: &str) -> Result<(), ModelFailure> {
        if !text.is_empty() {
            self.keep(text.len())?;
            self.saw_thinking = true;
            self.report(|| ReplyDelta::Thinking(text.to_owned()));
        }
        Ok(())
    }

    /// A call began; gives its number.
    pub(crate) fn begin(&mut self, id: &str, name: &str) -> Result<usize, ModelFailure> {
        if self.begun == REPLY_CALLS_MAX && !self.keeps_only_calls() {
            let words = format!("the message has more than {REPLY_CALLS_MAX} calls");
            return Err(ModelFailure::new(FailureKind::TooLarge, words));
        }
        let call = self.begun;
        self.begun += 1;
        self.report(|| ReplyDelta::CallBegun { call, id: id.to_owned(), name: name.to_owned() });
        Ok(call)
    }

    pub(crate) fn input(&mut self, call: usize, json: &str) -> Result<(), ModelFailure> {
        if !json.is_empty() {
            self.keep(json.len())?;
            self.report(|| ReplyDelta::CallInput { call, json: json.to_owned() });
        }
        Ok(())
    }

    /// A call ended. It is ready if its input is a whole object; otherwise it waits.
    pub(crate) fn end_call(&mut self, kind: CallKind, call: usize, id: &str, name: &str, input: &str) {
        if !self.is_streamed() || (self.waiting.is_empty() && is_object(input)) {
            self.run(kind, call, id, name, input);
        } else {
            self.hold(kind, call, id, name, CallEnd::Input(input.to_owned()));
        }
    }

    fn hold(&mut self, kind: CallKind, call: usize, id: &str, name: &str, end: CallEnd) {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.waiting.push(WaitingCall { call, kind, id, name, end });
    }

    fn run(&mut self, kind: CallKind, call: usize, id: &str, name: &str, input: &str) {
        self.ready += 1;
        self.answered.insert(call);
        self.message.push_call(kind, id, name, input);
        self.report(|| ReplyDelta::CallReady { call, ready: ToolCall::new(id, name, input) });
    }

    /// A call that can be answered but not run: the message ended inside of it.
    pub(crate) fn refuse_cut(&mut self, kind: CallKind, call: usize, id: &str, name: &str) {
        if !self.waiting.is_empty() {
            return self.hold(kind, call, id, name, CallEnd::Cut);
        }
        self.answered.insert(call);
        self.message.push_cut_call(kind, id, name);
    }

    /// A call that takes text and not JSON. It has no number: its begin was not reported.
    pub(crate) fn refuse_free_form(&mut self, id: &str, name: &str) {
        if self.waiting.is_empty() {
            self.message.push_free_form(id, name)
        } else {
            self.hold(CallKind::FreeForm, usize::MAX, id, name, CallEnd::FreeForm)
        }
    }

    /// Whether a call is ready or refused, and so has an answer.
    pub(crate) fn has_answer(&self, call: usize) -> bool {
        self.answered.contains(&call)
    }

    pub(crate) fn pass_over(&mut self, kind: &str) {
        self.message.pass_over(kind);
    }

    /// The message's end with its reason: calls that waited are ready now, unless this is where they were cut
    /// off.
    pub(crate) fn stop(&mut self, stop: StopReason) {
        if self.stop.is_some() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        for WaitingCall { call, kind, id, name, end } in waiting {
            match end {
                CallEnd::Input(input) if is_object(&input) || !stop.cuts() => {
                    let input = if input.trim().is_empty() { "{}" } else { &input };
                    self.run(kind, call, &id, &name, input);
                }
                CallEnd::Input(_) | CallEnd::Cut => self.refuse_cut(kind, call, &id, &name),
                CallEnd::FreeForm => self.refuse_free_form(&id, &name),
            }
        }
        self.stop = Some(match stop {
            StopReason::End if self.message.requests_calls() => StopReason::Calls,
            StopReason::Calls if !self.message.requests_calls() => StopReason::End,
            stop => stop,
        });
    }

    pub(crate) fn stop_reason(&self) -> Option<&StopReason> {
        self.stop.as_ref()
    }

    /// Nothing that follows belongs to the message.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Ends the message because of an event.
    pub(crate) fn fail_decoding(&mut self, error: DecodeError, event: &str) {
        self.fail(match error {
            DecodeError::Failure(failure) => failure,
            DecodeError::Message(error) => unreadable_event(error.locate(event)),
        });
    }

    pub(crate) fn fail(&mut self, failure: ModelFailure) {
        // A whole message stays whole, whatever follows.
        if self.failure.is_none() && self.stop.is_none() {
            self.failure = Some(failure);
        }
        self.closed = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.closed
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    pub(crate) fn has_content(&self) -> bool {
        self.begun > 0 || self.saw_thinking || !self.text.is_empty()
    }

    pub(crate) fn calls_ready(&self) -> usize {
        self.ready
    }

    pub(crate) fn failure(&self) -> Option<&ModelFailure> {
        self.failure.as_ref()
    }

    pub(crate) fn report_usage(&mut self, usage: TokenUsage) {
        if usage != self.usage {
            self.usage = usage.clone();
            self.report(|| ReplyDelta::Usage(usage));
        }
    }

    /// The bytes are over: what still waits to be run is dropped, because it may not be whole.
    pub(crate) fn end_of_bytes(&mut self) {
        for WaitingCall { call, kind, id, name, end } in std::mem::take(&mut self.waiting) {
            match end {
                CallEnd::Input(_) => {}
                CallEnd::Cut => self.refuse_cut(kind, call, &id, &name),
                CallEnd::FreeForm => self.refuse_free_form(&id, &name),
            }
        }
    }

    pub(crate) fn into_reply(self, items: Vec<Value>) -> ModelReply {
        let stop = match (self.stop, self.failure) {
            (Some(stop), _) => stop,
            (None, Some(failure)) => StopReason::Failed(failure),
            (None, None) => StopReason::Cut,
        };
        let MessageDraft { message, usage, text, model, .. } = self;
        let reply =
            ModelReply::empty(message.wire(), stop).with_items(items).with_requested(message.requested);
        reply.with_usage(usage).with_text(text).with_model(model)
    }

    pub(crate) fn into_message(self) -> ModelMessage {
        self.message
    }
}

/// What is left of a text that something written has to be the same as.
struct ExpectedText<'t>(&'t [u8]);

impl std::io::Write for ExpectedText<'_> {
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
pub(crate) struct TextRanges(Vec<Range<usize>>);

impl TextRanges {
    fn push(&mut self, range: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }

    /// Adds another part's.
    pub(crate) fn extend(&mut self, other: TextRanges) {
        other.0.into_iter().for_each(|range| self.push(range));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
