//! OpenAI's Chat Completions, and what the many servers make of them: chunks with a delta of one message.
//!
//! There is no end of a call: it ends where the next one begins, or with the message. Servers differ: calls without an
//! id get one, calls that all say index 0 are told apart by their ids, arguments that are an object are taken as one.
//! Fields of a message or a call that nobody here knows are put together and sent back.

use serde_json::{Value, json};

use super::Assemble;
use super::draft::{
    Draft, Object, Read, Spans, arguments, field, input_text, is_object, malformed, merge, parsed, taken,
};
use super::openai::usage_of;
use crate::failure;
use haft_agent::StopReason;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Chunks {
    id: String,
    content: Spans,
    refusal: Spans,
    /// Fields of the message that are not known here.
    rest: Object,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Call {
    index: u64,
    number: Option<usize>,
    id: String,
    name: String,
    input: String,
    rest: Object,
    custom: bool,
    ended: bool,
}

impl Assemble for Chunks {
    fn event(&mut self, data: &str, draft: &mut Draft) -> Read {
        let mut chunk = parsed(data)?;
        self.frame(&chunk, draft)?;
        let Some(Value::Array(choices)) = chunk.get_mut("choices") else { return Ok(()) };
        for choice in choices {
            let Value::Object(choice) = choice else { return Err(malformed("a choice that is no object")) };
            // One answer was asked for.
            if choice.get("index").and_then(Value::as_u64).unwrap_or_default() == 0 {
                self.choice(choice, "delta", draft)?;
            }
        }
        Ok(())
    }

    fn whole(&mut self, body: &str, draft: &mut Draft) -> Read {
        let mut completion = parsed(body)?;
        self.frame(&completion, draft)?;
        match completion.get_mut("choices").and_then(|choices| choices.get_mut(0)) {
            Some(Value::Object(choice)) => self.choice(choice, "message", draft),
            _ => Err(malformed("no choice")),
        }
    }

    fn items(&mut self, draft: &mut Draft) -> Vec<Value> {
        let Chunks { content, refusal, rest: mut message, calls: asked, .. } = std::mem::take(self);
        let cut = draft.stop_reason().is_none_or(StopReason::cuts);
        let mut calls = Vec::new();
        for call in asked {
            let answered = call.custom || call.number.is_some_and(|number| draft.answers(number));
            if call.name.is_empty() || !call.ended || !answered {
                continue;
            }
            let mut value = call.rest;
            value.insert("id".to_owned(), call.id.into());
            if call.custom {
                value.insert("type".to_owned(), "custom".into());
                value.insert("custom".to_owned(), json!({"name": call.name, "input": call.input}));
            } else {
                let broken = cut && !is_object(&call.input);
                let input = if broken { "{}".to_owned() } else { input_text(&call.input) };
                value.insert("type".to_owned(), "function".into());
                value.insert("function".to_owned(), json!({"name": call.name, "arguments": input}));
            }
            calls.push(Value::Object(value));
        }
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

impl Chunks {
    fn frame(&mut self, chunk: &Object, draft: &mut Draft) -> Read {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(failure::from_error(None, error));
        }
        if self.id.is_empty() {
            self.id = field(chunk, "id").to_owned();
        }
        draft.start(chunk.get("model"));
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            draft.usage(usage_of(usage, "prompt_tokens", "completion_tokens"));
        }
        Ok(())
    }

    fn choice(&mut self, choice: &mut Object, key: &str, draft: &mut Draft) -> Read {
        if let Some(Value::Object(delta)) = choice.remove(key) {
            self.grow(delta, draft)?;
        }
        self.finish(choice, draft);
        Ok(())
    }

    fn grow(&mut self, mut delta: Object, draft: &mut Draft) -> Read {
        let content = match delta.remove("content") {
            Some(Value::String(text)) => text,
            // Some servers send parts.
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            _ => String::new(),
        };
        draft.text(taken(&mut delta, "refusal"), &mut self.refusal)?;
        for key in ["reasoning_content", "reasoning"] {
            let text = field(&delta, key);
            if !text.is_empty() {
                draft.thinking(text)?;
                break;
            }
        }
        draft.text(content, &mut self.content)?;
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            for (at, call) in (0..).zip(calls) {
                match call {
                    Value::Object(call) => self.call(at, call, draft)?,
                    _ => return Err(malformed("a call that is no object")),
                }
            }
        }
        if delta.get("function_call").is_some_and(|call| !call.is_null()) {
            return Err(malformed("a `function_call` of the old form, which has no id to answer to"));
        }
        delta.remove("function_call");
        delta.remove("role");
        delta.retain(|_, value| !value.is_null());
        draft.keep(delta.values().map(|value| value.as_str().map_or(64, str::len)).sum())?;
        merge(&mut self.rest, delta);
        Ok(())
    }

    fn call(&mut self, at: u64, mut delta: Object, draft: &mut Draft) -> Read {
        let index = delta.remove("index").and_then(|index| index.as_u64()).unwrap_or(at);
        let id = taken(&mut delta, "id");
        let custom = taken(&mut delta, "type") == "custom";
        let mut function = match delta.remove(if custom { "custom" } else { "function" }) {
            Some(Value::Object(function)) => function,
            _ => Object::new(),
        };
        let name = taken(&mut function, "name");
        let more = arguments(function.get(if custom { "input" } else { "arguments" }));
        // The same index with another id is another call: some servers send index 0 for all of them.
        let known = self.calls.iter().position(|call| {
            call.index == index && !call.ended && (id.is_empty() || call.id.is_empty() || call.id == id)
        });
        let known = match known {
            Some(known) => known,
            None => {
                self.end_calls(draft);
                draft.part()?;
                // No id: one is made, so that the result has something to answer to.
                let id = if id.is_empty() { self.made_id() } else { id };
                self.calls.push(Call { index, id, custom, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[known];
        if call.name.is_empty() {
            call.name = name;
        }
        if call.number.is_none() && !call.name.is_empty() && !call.custom {
            let number = draft.begin(&call.id, &call.name)?;
            draft.input(number, &call.input)?;
            call.number = Some(number);
        }
        call.input.push_str(&more);
        match call.number {
            Some(number) => draft.input(number, &more)?,
            None => draft.keep(more.len())?,
        }
        merge(&mut call.rest, delta);
        Ok(())
    }

    /// An id that is the same each time the same message is read.
    fn made_id(&self) -> String {
        let of: String = self.id.chars().rev().take(24).collect::<Vec<_>>().into_iter().rev().collect();
        format!("call_{of}_{}", self.calls.len())
    }

    fn end_calls(&mut self, draft: &mut Draft) {
        for call in self.calls.iter_mut().filter(|call| !call.ended) {
            call.ended = true;
            match call.number {
                Some(number) => draft.end_call(number, &call.id, &call.name, &call.input),
                None if call.custom && !call.name.is_empty() => draft.refuse_custom(&call.id, &call.name),
                None => {}
            }
        }
    }

    fn finish(&mut self, choice: &Object, draft: &mut Draft) {
        let open = self.calls.last().is_some_and(|call| !is_object(&call.input));
        let stop = match field(choice, "finish_reason") {
            "" => return,
            "length" => StopReason::MaxTokens { in_call: open },
            "content_filter" => StopReason::Refused { why: None },
            _ if !self.refusal.is_empty() => StopReason::Refused { why: Some(draft.text_of(&self.refusal)) },
            "stop" | "tool_calls" | "function_call" | "eos" => StopReason::End,
            other => StopReason::Other(other.to_owned()),
        };
        self.end_calls(draft);
        draft.stop(stop);
    }
}
