//! Gemini's stream: whole responses one after the other, each with more parts.
//!
//! Parts are kept as they came. Pieces of text are joined only where neither has anything beside its text: a part with
//! a signature has to come back as it is.

use serde_json::{Map, Value, json};

use super::Delta;
use super::draft::{Draft, field, malformed, parsed};
use crate::reply::{Failure, FailureKind, Stop, Usage};
use crate::{Wire, decode};

#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
}

/// A part, and the number of the call in it.
#[derive(Debug, Clone)]
struct Part {
    value: Map<String, Value>,
    call: Option<usize>,
}

impl Parts {
    pub(super) fn event(
        &mut self,
        data: &str,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        if data == "[DONE]" {
            draft.close();
            return Ok(());
        }
        let mut chunk = parsed(data)?;
        if let Some(Value::Object(error)) = chunk.get("error") {
            let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            return Err(Failure::said(code, field(error, "status"), field(error, "message")));
        }
        draft.start(chunk.get("modelVersion").and_then(Value::as_str), out);
        if let Some(usage) = chunk.get("usageMetadata").and_then(Value::as_object) {
            draft.usage(usage_of(usage), out);
        }
        let blocked = chunk.get("promptFeedback").map(|feedback| feedback["blockReason"].clone());
        if let Some(Value::String(reason)) = blocked {
            draft.stop(Stop::Refused { why: Some(reason) }, out);
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
                read.map_err(|bad| Failure::new(FailureKind::Malformed, bad.to_string()))?.into_asked()
            }
        }
        .into_iter();
        for part in parts {
            let Value::Object(part) = part else { return Err(malformed("a part that is no object")) };
            let mut number = None;
            if part.get("functionCall").is_some_and(|call| !call.is_null()) {
                let Some(asked) = asked.next() else { return Err(malformed("a call that can't be read")) };
                let (id, name, input) = asked;
                let call = draft.begin(&id, &name, out)?;
                number = Some(call);
                match input {
                    Some(input) => {
                        draft.input(call, &input, out)?;
                        draft.end_call(call, &id, &name, &input, out);
                    }
                    None => draft.refuse_cut(call, &id, &name),
                }
            }
            self.add(part, number, draft, out)?;
        }
        if reason == "MALFORMED_FUNCTION_CALL" {
            // There is nothing in the message; asked again, the model mostly does better.
            let words = "the model wrote a call that can't be read (MALFORMED_FUNCTION_CALL)";
            return Err(Failure::new(FailureKind::Server, words));
        }
        if !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED" {
            let message = candidate.get("finishMessage").and_then(Value::as_str).map(str::to_owned);
            draft.stop(stop(&reason, message, self.parts.last()), out);
        }
        Ok(())
    }

    fn add(
        &mut self,
        part: Map<String, Value>,
        call: Option<usize>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let thought = part.get("thought") == Some(&Value::Bool(true));
        let text = field(&part, "text");
        match thought {
            true => draft.thinking(text, out)?,
            false => draft.text(text, out)?,
        }
        let is_plain = |part: &Map<String, Value>| {
            part.get("text").is_some_and(Value::is_string)
                && part.keys().all(|key| matches!(key.as_str(), "text" | "thought"))
        };
        if is_plain(&part)
            && let Some(Part { value: last, .. }) = self.parts.last_mut()
            && is_plain(last)
            && (last.get("thought") == Some(&Value::Bool(true))) == thought
            && let Some(Value::String(before)) = last.get_mut("text")
        {
            before.push_str(text);
            return Ok(());
        }
        draft.part()?;
        draft.keep(64)?;
        self.parts.push(Part { value: part, call });
        Ok(())
    }

    /// The content as it is sent back.
    pub(super) fn items(self, draft: &mut Draft) -> Vec<Value> {
        let is_kept = |part: &Part| {
            let text = part.value.get("text").and_then(Value::as_str);
            let nothing = text == Some("") && part.value.len() == 1;
            !nothing && part.call.is_none_or(|call| draft.answers(call))
        };
        let parts: Vec<Value> =
            self.parts.into_iter().filter(is_kept).map(|part| Value::Object(part.value)).collect();
        let is_answer = |part: &Value| part["thought"] != Value::Bool(true);
        match parts.iter().any(is_answer) {
            true => vec![json!({"role": "model", "parts": parts})],
            false => Vec::new(),
        }
    }
}

fn stop(reason: &str, message: Option<String>, last: Option<&Part>) -> Stop {
    match reason {
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::MaxTokens { in_call: last.is_some_and(|part| part.call.is_some()) },
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => Stop::Refused { why: Some(message.unwrap_or_else(|| reason.to_owned())) },
        other => Stop::Other(other.to_owned()),
    }
}

fn usage_of(said: &Map<String, Value>) -> Usage {
    let count = |key: &str| said.get(key).and_then(Value::as_u64).unwrap_or_default();
    let thinking = count("thoughtsTokenCount");
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(thinking),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        thinking_tokens: thinking,
    }
}
