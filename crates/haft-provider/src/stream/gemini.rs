//! Gemini's stream: whole responses one after the other, each with more parts.
//!
//! Parts are kept as they came. Pieces of text are joined only where neither has anything beside its text: a part with
//! a signature has to come back as it is.

use serde_json::Value;

use super::Assemble;
use super::draft::{Draft, Object, Read, Spans, count, field, malformed, of_parts, parsed, taken};
use crate::failure;
use crate::{Wire, decode};
use haft_agent::{FailureKind, ModelFailure, StopReason, TokenUsage};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Parts {
    parts: Vec<Part>,
}

/// A part, the number of the call in it, and its text, which is in the value only where it is a thought.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    value: Object,
    call: Option<usize>,
    text: Option<Spans>,
}

impl Assemble for Parts {
    fn event(&mut self, data: &str, draft: &mut Draft) -> Read {
        let mut chunk = parsed(data)?;
        if let Some(error) = chunk.get("error").filter(|error| error.is_object()) {
            return Err(failure::from_error(None, error));
        }
        draft.start(chunk.get("modelVersion"));
        if let Some(usage) = chunk.get("usageMetadata").filter(|usage| usage.is_object()) {
            draft.usage(usage_of(usage));
        }
        let blocked = chunk.get("promptFeedback").map(|feedback| feedback["blockReason"].clone());
        if let Some(Value::String(reason)) = blocked {
            draft.stop(StopReason::Refused { why: Some(reason) });
            return Ok(());
        }
        let candidate = chunk.get_mut("candidates").and_then(|candidates| candidates.get_mut(0));
        let Some(Value::Object(candidate)) = candidate else { return Ok(()) };
        let reason = field(candidate, "finishReason").to_owned();
        let parts = match candidate.get_mut("content").and_then(|content| content.get_mut("parts")) {
            Some(Value::Array(parts)) => std::mem::take(parts),
            _ => Vec::new(),
        };
        // Inputs as they were written: from the text, not from what became of it.
        let mut asked = match parts.iter().any(|part| part.get("functionCall").is_some()) {
            false => Vec::new(),
            true => {
                let read = decode(data, Some(Wire::Gemini));
                read.map_err(|bad| ModelFailure::new(FailureKind::Malformed, bad.to_string()))?
                    .into_requested()
            }
        }
        .into_iter();
        for part in parts {
            let Value::Object(part) = part else { return Err(malformed("a part that is no object")) };
            let mut number = None;
            if part.get("functionCall").is_some_and(|call| !call.is_null()) {
                let Some(asked) = asked.next() else { return Err(malformed("a call that can't be read")) };
                let (id, name, input) = asked;
                let call = draft.begin(&id, &name)?;
                number = Some(call);
                match input {
                    Some(input) => {
                        draft.input(call, &input)?;
                        draft.end_call(call, &id, &name, &input);
                    }
                    None => draft.refuse_cut(call, &id, &name),
                }
            }
            self.add(part, number, draft)?;
        }
        if reason == "MALFORMED_FUNCTION_CALL" {
            // There is nothing in the message; asked again, the model mostly does better.
            let words = "the model wrote a call that can't be read (MALFORMED_FUNCTION_CALL)";
            return Err(ModelFailure::new(FailureKind::Server, words));
        }
        if !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED" {
            let message = candidate.get("finishMessage").and_then(Value::as_str).map(str::to_owned);
            draft.stop(stop(&reason, message, self.parts.last()));
        }
        Ok(())
    }

    fn items(&mut self, draft: &mut Draft) -> Vec<Value> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for mut part in std::mem::take(&mut self.parts) {
            if let Some(text) = part.text {
                part.value.insert("text".to_owned(), draft.text_of(&text).into());
            }
            let nothing = field(&part.value, "text").is_empty()
                && part.value.len() == 1
                && part.value.contains_key("text");
            if !nothing && part.call.is_none_or(|call| draft.answers(call)) {
                parts.push(Value::Object(part.value));
            }
        }
        let is_answer = |part: &Value| part["thought"] != Value::Bool(true);
        match parts.iter().any(is_answer) {
            true => vec![of_parts("model", "parts", parts)],
            false => Vec::new(),
        }
    }
}

impl Parts {
    fn add(&mut self, mut value: Object, call: Option<usize>, draft: &mut Draft) -> Read {
        let is_plain = |part: &Object| part.keys().all(|key| matches!(key.as_str(), "text" | "thought"));
        let has_text = value.get("text").is_some_and(Value::is_string);
        let thought = is_thought(&value);
        let mut text = None;
        match thought {
            true => draft.thinking(field(&value, "text"))?,
            false if has_text => {
                let mut spans = Spans::default();
                draft.text(taken(&mut value, "text"), &mut spans)?;
                text = Some(spans);
            }
            false => {}
        }
        if has_text
            && is_plain(&value)
            && let Some(last) = self.parts.last_mut()
            && is_plain(&last.value)
            && is_thought(&last.value) == thought
        {
            match (&mut last.text, text.take(), last.value.get_mut("text")) {
                (Some(before), Some(more), _) => {
                    before.extend(more);
                    return Ok(());
                }
                (None, None, Some(Value::String(before))) => {
                    before.push_str(field(&value, "text"));
                    return Ok(());
                }
                (_, more, _) => text = more,
            }
        }
        draft.part()?;
        draft.keep(64)?;
        self.parts.push(Part { value, call, text });
        Ok(())
    }
}

fn is_thought(part: &Object) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn stop(reason: &str, message: Option<String>, last: Option<&Part>) -> StopReason {
    match reason {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxTokens { in_call: last.is_some_and(|part| part.call.is_some()) },
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => StopReason::Refused { why: Some(message.unwrap_or_else(|| reason.to_owned())) },
        other => StopReason::Other(other.to_owned()),
    }
}

fn usage_of(said: &Value) -> TokenUsage {
    let count = |key: &str| count(Some(said), key);
    let thinking = count("thoughtsTokenCount");
    TokenUsage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(thinking),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        thinking_tokens: thinking,
    }
}
