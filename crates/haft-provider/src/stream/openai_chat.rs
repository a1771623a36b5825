//! OpenAI's Chat Completions, and what the many servers make of them: chunks with a delta of one message.
//!
//! There is no end of a call: it ends where the next one begins, or with the message. Servers differ: calls without an
//! id get one, calls that all say index 0 are told apart by their ids, arguments that are an object are taken as one.
//! Fields of a message or a call that nobody here knows are put together and sent back.

use serde_json::{Map, Value, json};

use super::Delta;
use super::draft::{Draft, field, input_text, is_object, malformed, merge, parsed};
use crate::reply::{Failure, Stop, Usage};

#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    id: String,
    content: String,
    refusal: String,
    /// Fields of the message that are not known here.
    rest: Map<String, Value>,
    calls: Vec<Call>,
}

#[derive(Debug, Clone)]
struct Call {
    index: u64,
    number: Option<usize>,
    id: String,
    name: String,
    input: String,
    rest: Map<String, Value>,
    custom: bool,
    ended: bool,
}

impl Chunks {
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
        self.frame(&chunk, draft, out)?;
        let Some(Value::Array(choices)) = chunk.get_mut("choices") else { return Ok(()) };
        for choice in choices {
            let Value::Object(choice) = choice else { return Err(malformed("a choice that is no object")) };
            // One answer was asked for.
            if choice.get("index").and_then(Value::as_u64).unwrap_or_default() != 0 {
                continue;
            }
            if let Some(Value::Object(delta)) = choice.remove("delta") {
                self.grow(delta, draft, out)?;
            }
            self.finish(choice, draft, out);
        }
        Ok(())
    }

    /// A whole completion at once.
    pub(super) fn whole(
        &mut self,
        body: &str,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let mut completion = parsed(body)?;
        self.frame(&completion, draft, out)?;
        let choice = completion.get_mut("choices").and_then(|choices| choices.get_mut(0));
        let Some(Value::Object(choice)) = choice else { return Err(malformed("no choice")) };
        if let Some(Value::Object(message)) = choice.remove("message") {
            self.grow(message, draft, out)?;
        }
        self.finish(choice, draft, out);
        Ok(())
    }

    fn frame(
        &mut self,
        chunk: &Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        match chunk.get("error") {
            None | Some(Value::Null) => {}
            Some(Value::Object(error)) => {
                let code =
                    error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
                let kind = match field(error, "code") {
                    "" => field(error, "type"),
                    code => code,
                };
                return Err(Failure::said(code, kind, field(error, "message")));
            }
            Some(other) => return Err(Failure::said(None, "", other.as_str().unwrap_or_default())),
        }
        if self.id.is_empty() {
            self.id = field(chunk, "id").to_owned();
        }
        draft.start(chunk.get("model").and_then(Value::as_str), out);
        if let Some(usage) = chunk.get("usage").and_then(Value::as_object) {
            draft.usage(usage_of(usage), out);
        }
        Ok(())
    }

    fn grow(
        &mut self,
        mut delta: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let content = match delta.remove("content") {
            Some(Value::String(text)) => text,
            // Some servers send parts.
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            _ => String::new(),
        };
        if let Some(Value::String(text)) = delta.remove("refusal") {
            draft.text(&text, out)?;
            self.refusal.push_str(&text);
        }
        for key in ["reasoning_content", "reasoning"] {
            let text = field(&delta, key);
            if !text.is_empty() {
                draft.thinking(text, out)?;
                break;
            }
        }
        draft.text(&content, out)?;
        self.content.push_str(&content);
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            for (at, call) in (0..).zip(calls) {
                match call {
                    Value::Object(call) => self.call(at, call, draft, out)?,
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

    fn call(
        &mut self,
        at: u64,
        mut delta: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let index = delta.remove("index").and_then(|index| index.as_u64()).unwrap_or(at);
        let id = match delta.remove("id") {
            Some(Value::String(id)) => id,
            _ => String::new(),
        };
        let custom = field(&delta, "type") == "custom";
        let mut function = match delta.remove(if custom { "custom" } else { "function" }) {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        delta.remove("type");
        let name = match function.remove("name") {
            Some(Value::String(name)) => name,
            _ => String::new(),
        };
        let more = match function.remove(if custom { "input" } else { "arguments" }) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        // The same index with another id is another call: some servers send index 0 for all of them.
        let known = self.calls.iter().position(|call| {
            call.index == index && !call.ended && (id.is_empty() || call.id.is_empty() || call.id == id)
        });
        let known = match known {
            Some(known) => known,
            None => {
                self.end_calls(draft, out);
                draft.part()?;
                // No id: one is made, so that the result has something to answer to.
                let id = if id.is_empty() { self.made_id() } else { id };
                let (name, input, rest) = (String::new(), String::new(), Map::new());
                self.calls.push(Call { index, number: None, id, name, input, rest, custom, ended: false });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[known];
        if call.name.is_empty() {
            call.name = name;
        }
        if call.number.is_none() && !call.name.is_empty() && !call.custom {
            call.number = Some(draft.begin(&call.id, &call.name, out)?);
            draft.input(known_number(call), &call.input, out)?;
        }
        call.input.push_str(&more);
        match call.number {
            Some(number) => draft.input(number, &more, out)?,
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

    fn end_calls(&mut self, draft: &mut Draft, out: &mut Vec<Delta>) {
        for call in self.calls.iter_mut().filter(|call| !call.ended) {
            call.ended = true;
            match call.number {
                Some(number) => draft.end_call(number, &call.id, &call.name, &call.input, out),
                None if call.custom && !call.name.is_empty() => draft.refuse_custom(&call.id, &call.name),
                None => {}
            }
        }
    }

    fn finish(&mut self, choice: &Map<String, Value>, draft: &mut Draft, out: &mut Vec<Delta>) {
        let open = self.calls.last().is_some_and(|call| !is_object(&call.input));
        let stop = match field(choice, "finish_reason") {
            "" => return,
            "length" => Stop::MaxTokens { in_call: open },
            "content_filter" => Stop::Refused { why: None },
            _ if !self.refusal.is_empty() => Stop::Refused { why: Some(self.refusal.clone()) },
            "stop" | "tool_calls" | "function_call" | "eos" => Stop::End,
            other => Stop::Other(other.to_owned()),
        };
        self.end_calls(draft, out);
        draft.stop(stop, out);
    }

    /// The message as it is sent back.
    pub(super) fn items(self, draft: &mut Draft) -> Vec<Value> {
        let cut = draft.stop_reason().is_none_or(Stop::cuts);
        let mut calls = Vec::new();
        for mut call in self.calls {
            let answered = call.custom || call.number.is_some_and(|number| draft.answers(number));
            if call.name.is_empty() || !call.ended || !answered {
                continue;
            }
            let mut value = std::mem::take(&mut call.rest);
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
        let (content, refusal) = (self.content, self.refusal);
        let has_text = !content.trim().is_empty() || !refusal.is_empty();
        if calls.is_empty() && !has_text {
            return Vec::new();
        }
        let mut message = self.rest;
        message.insert("role".to_owned(), "assistant".into());
        let content = if content.trim().is_empty() { Value::Null } else { content.into() };
        message.insert("content".to_owned(), content);
        if !refusal.is_empty() {
            message.insert("refusal".to_owned(), refusal.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        vec![Value::Object(message)]
    }
}

fn known_number(call: &Call) -> usize {
    call.number.unwrap_or_default()
}

fn usage_of(said: &Map<String, Value>) -> Usage {
    let count = |key: &str| said.get(key).and_then(Value::as_u64).unwrap_or_default();
    let detail = |of: &str, key: &str| {
        said.get(of).and_then(|details| details.get(key)).and_then(Value::as_u64).unwrap_or_default()
    };
    Usage {
        input_tokens: count("prompt_tokens"),
        output_tokens: count("completion_tokens"),
        cache_read_tokens: detail("prompt_tokens_details", "cached_tokens"),
        cache_write_tokens: detail("prompt_tokens_details", "cache_write_tokens"),
        thinking_tokens: detail("completion_tokens_details", "reasoning_tokens"),
    }
}
