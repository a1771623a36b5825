//! Gemini's messages: responses with parts. A stream is whole responses one after the other, each with more
//! parts.
//!
//! Parts are kept as they came. Pieces of text are joined only where neither has anything beside its text: a
//! part with a signature has to come back as it is. Python's dumps spell keys in snake case; both spellings
//! are read.

use std::borrow::Cow;

use haft_agent::{CallKind, FailureKind, ModelFailure, StopReason, TokenUsage};
use serde_json::{Map, Value, json};

use super::call_of;
use crate::wire::decoder::{
    DecodeResult, MessageDecoder, message_with, required_list, required_member, required_text, text_field,
    usage_count,
};
use crate::wire::json_text::{JsonObject, JsonText};
use crate::wire::message_draft::{MessageDraft, TextRanges};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PartDecoder {
    parts: Vec<DraftPart>,
}

/// A part, the number of the call in it, and its text, which is in the value only where it is a thought.
#[derive(Debug, Clone, PartialEq)]
struct DraftPart {
    value: Map<String, Value>,
    call: Option<usize>,
    text: Option<TextRanges>,
}

impl MessageDecoder for PartDecoder {
    fn decode_event(&mut self, chunk: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.check_error(chunk.get("error"))?;
        draft.start(chunk.string("modelVersion"));
        let usage = chunk.value("usageMetadata");
        if usage.is_object() {
            draft.report_usage(read_usage(&usage));
        }
        if let Value::String(reason) = &chunk.value("promptFeedback")["blockReason"] {
            draft.stop(StopReason::Refused { why: Some(reason.clone()) });
            return Ok(());
        }
        match chunk.items("candidates").first() {
            Some(candidate) => {
                let candidate = candidate.required_object("a candidate")?;
                self.take_candidate(&candidate, draft)
            }
            None => Ok(()),
        }
    }

    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult {
        if let Some(parts) = message.array() {
            return self.take_parts(&parts, false, draft);
        }
        let response = message.required_object("a content object")?;
        if let Some(candidates) = response.get("candidates") {
            let is_blocked = !response.value("promptFeedback")["blockReason"].is_null();
            if required_list(Some(candidates), "an array of candidates")?.is_empty() && !is_blocked {
                return Err(candidates.error("the response has no candidate; one is required").into());
            }
        }
        if draft.keeps_only_calls() && !response.has("candidates") {
            return self.take_candidate(&response, draft);
        }
        self.decode_event(&response, draft)
    }

    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        let parts: Vec<Value> = parts.filter_map(|part| part.into_value(draft)).collect();
        if parts.iter().all(|part| part["thought"] == Value::Bool(true)) {
            Vec::new()
        } else {
            vec![message_with("model", "parts", parts)]
        }
    }
}

impl PartDecoder {
    fn take_candidate(&mut self, candidate: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        let reason = either_field(candidate, "finishReason", "finish_reason")
            .and_then(JsonText::string)
            .unwrap_or_default();
        let parts = match candidate.get("content") {
            // A candidate that was blocked has none.
            Some(content) if content.is_null() => None,
            Some(content) => content.required_object("a content object")?.get("parts"),
            None => candidate.get("parts"),
        };
        self.take_parts(&required_list(parts, "an array of parts")?, reason == "MAX_TOKENS", draft)?;
        match &*reason {
            // There is nothing in the message; asked again, the model mostly does better.
            "MALFORMED_FUNCTION_CALL" if !draft.keeps_only_calls() => {
                let words = "the model wrote a call that can't be read (MALFORMED_FUNCTION_CALL)";
                return Err(ModelFailure::new(FailureKind::Server, words).into());
            }
            "" | "FINISH_REASON_UNSPECIFIED" => {}
            reason => {
                let message = candidate.string("finishMessage").map(Cow::into_owned);
                draft.stop(stop_reason(reason, message, self.parts.last()));
            }
        }
        Ok(())
    }

    /// Takes the parts of a response. With `is_cut` it ended inside its last part.
    fn take_parts(&mut self, parts: &[JsonText<'_>], is_cut: bool, draft: &mut MessageDraft) -> DecodeResult {
        for (at, part) in parts.iter().enumerate() {
            let part = part.required_object("a part")?;
            match call_of(&part) {
                Some((key, call)) => {
                    let call = call.required_object("an object with `name` and `args`")?;
                    self.take_call(&part, key, &call, is_cut && at + 1 == parts.len(), draft)?;
                }
                None if draft.keeps_only_calls() => {}
                None => self.take_text(&part, draft)?,
            }
        }
        Ok(())
    }

    fn take_call(
        &mut self,
        part: &JsonObject<'_>,
        key: &str,
        call: &JsonObject<'_>,
        is_cut: bool,
        draft: &mut MessageDraft,
    ) -> DecodeResult {
        let name = required_member(call, "name", "the function call")?;
        let id = match call.given("id") {
            None => Cow::Borrowed(""),
            Some(id) => required_text(id, "id", "the function call")?,
        };
        let number = draft.begin(&id, &name)?;
        let input = call.given("args").map_or("{}", JsonText::text);
        if is_cut || either_field(call, "willContinue", "will_continue").is_some_and(JsonText::is_true) {
            draft.refuse_cut(CallKind::Function, number, &id, &name);
        } else {
            draft.input(number, input)?;
            draft.end_call(CallKind::Function, number, &id, &name, input);
        }
        if draft.keeps_only_calls() {
            return Ok(());
        }
        let mut value = draft.copy_fields(part, &[key])?;
        let mut past_call = draft.copy_fields(call, &["args"])?;
        if let Some(args) = call.get("args") {
            let args = args.to_value().unwrap_or_else(|| json!({"invalid_json": args.text()}));
            past_call.insert("args".to_owned(), args);
        }
        value.insert(key.to_owned(), Value::Object(past_call));
        self.push(value, Some(number), None, draft)
    }

    fn take_text(&mut self, part: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        let has_text = part.get("text").is_some_and(JsonText::is_string);
        let is_thought = part.get("thought").is_some_and(JsonText::is_true);
        let text = part.text("text")?;
        if is_thought {
            draft.thinking(&text)?;
            let value = draft.copy_fields(part, &[])?;
            if let Some(DraftPart { value: before, text: None, .. }) = self.parts.last_mut()
                && has_text
                && is_plain(&value)
                && is_plain(before)
                && before.get("thought") == Some(&Value::Bool(true))
                && let Some(Value::String(before)) = before.get_mut("text")
            {
                before.push_str(&text);
                return Ok(());
            }
            return self.push(value, None, None, draft);
        }
        let mut ranges = TextRanges::default();
        draft.text(text, &mut ranges)?;
        let value = draft.copy_fields(part, if has_text { &["text"] } else { &[] })?;
        if let Some(DraftPart { value: before, text: Some(before_text), .. }) = self.parts.last_mut()
            && has_text
            && is_plain(&value)
            && is_plain(before)
        {
            before_text.extend(ranges);
            return Ok(());
        }
        self.push(value, None, has_text.then_some(ranges), draft)
    }

    fn push(
        &mut self,
        value: Map<String, Value>,
        call: Option<usize>,
        text: Option<TextRanges>,
        draft: &mut MessageDraft,
    ) -> DecodeResult {
        draft.part()?;
        draft.keep(64)?;
        self.parts.push(DraftPart { value, call, text });
        Ok(())
    }
}

impl DraftPart {
    /// Makes the part as it is sent back, if it can be.
    fn into_value(mut self, draft: &MessageDraft) -> Option<Value> {
        if let Some(text) = self.text {
            self.value.insert("text".to_owned(), draft.text_of(&text).into());
        }
        let is_empty = self.value.len() == 1
            && self.value.contains_key("text")
            && text_field(&self.value, "text").is_empty();
        let is_answered = self.call.is_none_or(|call| draft.has_answer(call));
        (!is_empty && is_answered).then_some(Value::Object(self.value))
    }
}

/// Whether a part has nothing beside its text.
fn is_plain(part: &Map<String, Value>) -> bool {
    part.keys().all(|key| matches!(key.as_str(), "text" | "thought"))
}

fn either_field<'t>(value: &JsonObject<'t>, camel: &str, snake: &str) -> Option<JsonText<'t>> {
    value.get(camel).or_else(|| value.get(snake))
}

fn stop_reason(reason: &str, message: Option<String>, last: Option<&DraftPart>) -> StopReason {
    match reason {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxTokens { in_call: last.is_some_and(|part| part.call.is_some()) },
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => StopReason::Refused { why: Some(message.unwrap_or_else(|| reason.to_owned())) },
        other => StopReason::Other(other.to_owned()),
    }
}

fn read_usage(usage: &Value) -> TokenUsage {
    let count = |key: &str| usage_count(usage, key);
    let thinking = count("thoughtsTokenCount");
    TokenUsage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(thinking),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        thinking_tokens: thinking,
    }
}
