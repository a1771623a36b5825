//! OpenAI's Chat Completions, and what the many servers make of them: chunks with a delta of one message.
//!
//! There is no end of a call: it ends where the next one begins, or with the message. Servers differ:
//! streamed calls without an id get one, calls that all have index 0 are told apart by their ids, arguments
//! that are an object are taken as one. Unknown fields of a message or a call are put together and sent back.

use haft_agent::{CallKind, StopReason};
use serde_json::{Map, Value, json};

use crate::wire::decoder::{
    DecodeResult, MessageDecoder, input_text, is_object, merge_members, read_arguments, required_list,
    required_member,
};
use crate::wire::json_text::{JsonError, JsonObject, JsonText};
use crate::wire::message_draft::{MessageDraft, TextRanges};
use crate::wire::openai_responses::read_usage;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChunkDecoder {
    id: String,
    content: TextRanges,
    refusal: TextRanges,
    /// Unknown fields of the message.
    unknown: Map<String, Value>,
    calls: Vec<DraftCall>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct DraftCall {
    index: u64,
    number: Option<usize>,
    id: String,
    name: String,
    input: String,
    unknown: Map<String, Value>,
    is_free_form: bool,
    has_ended: bool,
}

impl MessageDecoder for ChunkDecoder {
    fn decode_event(&mut self, chunk: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        self.read_frame(chunk, draft)?;
        for choice in chunk.items("choices") {
            let choice = choice.required_object("a choice")?;
            // One answer was asked for.
            if choice.get("index").and_then(JsonText::number).unwrap_or_default() != 0 {
                continue;
            }
            if let Some(delta) = choice.object("delta")? {
                self.grow(&delta, false, draft)?;
            }
            self.finish(&choice, draft);
        }
        Ok(())
    }

    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult {
        if let Some(calls) = message.array() {
            return self.take_calls(&calls, false, draft);
        }
        let frame = message.required_object("a message object")?;
        self.read_frame(&frame, draft)?;
        let choice = match frame.get("choices") {
            None if draft.keeps_only_calls() => frame,
            None => return Err(frame.error("the completion has no `choices`; an array is required").into()),
            Some(choices) => match &required_list(Some(choices), "an array of choices")?[..] {
                [] => return Err(choices.error("the completion has no choice; one is required").into()),
                [first, ..] => first.required_object("a choice")?,
            },
        };
        let is_cut = choice.is("finish_reason", "length");
        match choice.get("message") {
            Some(inner) => self.grow(&inner.required_object("a message object")?, is_cut, draft)?,
            None => self.grow(&choice, is_cut, draft)?,
        }
        self.finish(&choice, draft);
        Ok(())
    }

    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value> {
        let ChunkDecoder { content, refusal, unknown: mut message, calls, .. } = std::mem::take(self);
        let calls: Vec<Value> = calls.into_iter().filter_map(|call| call.into_value(draft)).collect();
        let is_blank = draft.is_blank(&content);
        if calls.is_empty() && is_blank && refusal.is_empty() {
            return Vec::new();
        }
        message.insert("role".to_owned(), "assistant".into());
        let content = if is_blank { Value::Null } else { draft.text_of(&content).into() };
        message.insert("content".to_owned(), content);
        if !refusal.is_empty() {
            message.insert("refusal".to_owned(), draft.text_of(&refusal).into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        vec![Value::Object(message)]
    }
}

impl ChunkDecoder {
    fn read_frame(&mut self, chunk: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.check_error(chunk.get("error"))?;
        if self.id.is_empty() {
            self.id = chunk.string("id").unwrap_or_default().into_owned();
        }
        draft.start(chunk.string("model"));
        let usage = chunk.value("usage");
        if usage.is_object() {
            draft.report_usage(read_usage(&usage, "prompt_tokens", "completion_tokens"));
        }
        Ok(())
    }

    /// Takes a piece of the message. With `is_cut` it came whole, and ended inside its last call.
    fn grow(&mut self, delta: &JsonObject<'_>, is_cut: bool, draft: &mut MessageDraft) -> DecodeResult {
        if !draft.keeps_only_calls() {
            self.grow_text(delta, draft)?;
        }
        if let Some(call) = delta.given("function_call") {
            let words = "a `function_call` of the old form has no id to answer to; `tool_calls` are accepted";
            return Err(call.error(words).into());
        }
        if draft.is_streamed() {
            for (at, call) in (0..).zip(delta.items("tool_calls")) {
                self.grow_call(at, &call.required_object("a tool call")?, draft)?;
            }
        } else {
            let calls = required_list(delta.get("tool_calls"), "an array of tool calls")?;
            self.take_calls(&calls, is_cut, draft)?;
        }
        let known = ["content", "refusal", "tool_calls", "function_call", "role"];
        let mut unknown = draft.copy_fields(delta, &known)?;
        unknown.retain(|_, value| !value.is_null());
        draft.keep(unknown.values().map(|value| value.as_str().map_or(64, str::len)).sum())?;
        merge_members(&mut self.unknown, unknown);
        Ok(())
    }

    fn grow_text(&mut self, delta: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.text(delta.text("refusal")?, &mut self.refusal)?;
        for key in ["reasoning_content", "reasoning"] {
            let text = delta.text(key)?;
            if !text.is_empty() {
                draft.thinking(&text)?;
                break;
            }
        }
        draft.text(delta.text("content")?, &mut self.content)?;
        // Some servers send parts.
        for part in delta.items("content") {
            if let Some(part) = part.object()? {
                draft.text(part.text("text")?, &mut self.content)?;
            }
        }
        Ok(())
    }

    /// Takes calls that came whole. With `is_cut` the message ended inside the last one.
    fn take_calls(&mut self, calls: &[JsonText<'_>], is_cut: bool, draft: &mut MessageDraft) -> DecodeResult {
        for (at, call) in (0..).zip(calls) {
            let call = call.required_object("a tool call")?;
            check_call(&call)?;
            self.grow_call(at, &call, draft)?;
            self.end_calls(is_cut && at as usize + 1 == calls.len(), draft);
        }
        Ok(())
    }

    fn grow_call(&mut self, at: u64, delta: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        let index = delta.get("index").and_then(JsonText::number).unwrap_or(at);
        let id = delta.text("id")?;
        let is_free_form = delta.is("type", "custom");
        let (holder, input) = if is_free_form { ("custom", "input") } else { ("function", "arguments") };
        let function = delta.object(holder)?;
        let name = function.as_ref().map(|function| function.text("name")).transpose()?.unwrap_or_default();
        let input = read_arguments(function.as_ref().and_then(|function| function.get(input)));
        // The same index with another id is another call: some servers send index 0 for all of them.
        let known = self.calls.iter().position(|call| {
            call.index == index && !call.has_ended && (id.is_empty() || call.id.is_empty() || call.id == id)
        });
        let known = match known {
            Some(known) => known,
            None => {
                self.end_calls(false, draft);
                draft.part()?;
                // Without an id one is made, so that the result has something to answer to.
                let id = if id.is_empty() { self.make_id() } else { id.into_owned() };
                self.calls.push(DraftCall { index, id, is_free_form, ..DraftCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[known];
        if call.name.is_empty() {
            call.name = name.into_owned();
        }
        if call.number.is_none() && !call.name.is_empty() && !call.is_free_form {
            let number = draft.begin(&call.id, &call.name)?;
            draft.input(number, &call.input)?;
            call.number = Some(number);
        }
        call.input.push_str(&input);
        match call.number {
            Some(number) => draft.input(number, &input)?,
            None => draft.keep(input.len())?,
        }
        merge_members(&mut call.unknown, draft.copy_fields(delta, &["index", "id", "type", holder])?);
        Ok(())
    }

    /// Makes an id that is the same each time the same message is read.
    fn make_id(&self) -> String {
        let begin = self.id.char_indices().rev().nth(23).map_or(0, |(at, _)| at);
        format!("call_{}_{}", &self.id[begin..], self.calls.len())
    }

    fn end_calls(&mut self, is_cut: bool, draft: &mut MessageDraft) {
        for call in self.calls.iter_mut().filter(|call| !call.has_ended) {
            call.has_ended = true;
            match call.number {
                Some(number) if is_cut => {
                    draft.refuse_cut(CallKind::Function, number, &call.id, &call.name);
                }
                Some(number) => {
                    draft.end_call(CallKind::Function, number, &call.id, &call.name, &call.input);
                }
                None if call.is_free_form && !call.name.is_empty() => {
                    draft.refuse_free_form(&call.id, &call.name);
                }
                None => {}
            }
        }
    }

    fn finish(&mut self, choice: &JsonObject<'_>, draft: &mut MessageDraft) {
        let in_call = self.calls.last().is_some_and(|call| !is_object(&call.input));
        let stop = match &*choice.string("finish_reason").unwrap_or_default() {
            "" => return,
            "length" => StopReason::MaxTokens { in_call },
            "content_filter" => StopReason::Refused { why: None },
            _ if !self.refusal.is_empty() => StopReason::Refused { why: Some(draft.text_of(&self.refusal)) },
            "stop" | "tool_calls" | "function_call" | "eos" => StopReason::End,
            other => StopReason::Other(other.to_owned()),
        };
        self.end_calls(false, draft);
        draft.stop(stop);
    }
}

impl DraftCall {
    /// Makes the call as it is sent back, if it can be.
    fn into_value(self, draft: &MessageDraft) -> Option<Value> {
        let is_answered = self.is_free_form || self.number.is_some_and(|number| draft.has_answer(number));
        if self.name.is_empty() || !self.has_ended || !is_answered {
            return None;
        }
        let mut value = self.unknown;
        value.insert("id".to_owned(), self.id.into());
        let (kind, function) = if self.is_free_form {
            ("custom", json!({"name": self.name, "input": self.input}))
        } else {
            let is_cut = draft.stop_reason().is_none_or(StopReason::cuts) && !is_object(&self.input);
            let input = if is_cut { "{}".to_owned() } else { input_text(&self.input) };
            ("function", json!({"name": self.name, "arguments": input}))
        };
        value.insert("type".to_owned(), kind.into());
        value.insert(kind.to_owned(), function);
        Some(Value::Object(value))
    }
}

/// Checks that a call that came whole can be answered.
fn check_call(call: &JsonObject<'_>) -> Result<(), JsonError> {
    required_member(call, "id", "the tool call")?;
    let (key, input) =
        if call.is("type", "custom") { ("custom", "input") } else { ("function", "arguments") };
    let Some(function) = call.get(key) else {
        return Err(call.error(format!("the tool call has no `{key}`; an object is required")));
    };
    let function = function.required_object(&format!("an object with `name` and `{input}`"))?;
    required_member(&function, "name", "the tool call").map(drop)
}
