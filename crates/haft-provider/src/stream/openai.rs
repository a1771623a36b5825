//! OpenAI's Responses: items that are added, grow and are done, by their place in the output.
//!
//! Ids of items are not looked at: some servers change them from event to event. An item is kept as its `done` event
//! has it. Of an item that was never done only the text of a message survives, as a plain message of the assistant.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Delta;
use super::draft::{Draft, field, input_text, is_object, malformed, parsed};
use crate::decode::OPENAI_OTHERS;
use crate::reply::{Failure, Stop, Usage};

#[derive(Debug, Clone, Default)]
pub(super) struct Items {
    items: BTreeMap<u64, Item>,
    refused: bool,
}

#[derive(Debug, Clone, Default)]
struct Item {
    call: Option<usize>,
    /// The text of a message so far.
    text: String,
    done: Option<Map<String, Value>>,
}

impl Items {
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
        let mut event = parsed(data)?;
        match field(&event, "type") {
            "response.created" | "response.in_progress" | "response.queued" => {
                let model = event.get("response").and_then(|response| response.get("model"));
                draft.start(model.and_then(Value::as_str), out);
                Ok(())
            }
            "response.output_item.added" => match event.remove("item") {
                Some(Value::Object(item)) => self.add(place(&event)?, &item, draft, out),
                _ => Err(malformed("an added item that is no object")),
            },
            "response.output_text.delta" => {
                let text = field(&event, "delta");
                draft.text(text, out)?;
                self.at(place(&event)?, draft)?.text.push_str(text);
                Ok(())
            }
            "response.refusal.delta" => {
                self.refused = true;
                draft.text(field(&event, "delta"), out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                draft.thinking(field(&event, "delta"), out)
            }
            "response.function_call_arguments.delta" => {
                let call = self.at(place(&event)?, draft)?.call;
                call.map_or(Ok(()), |call| draft.input(call, field(&event, "delta"), out))
            }
            "response.output_item.done" => match event.remove("item") {
                Some(Value::Object(item)) => self.done(place(&event)?, item, draft, out),
                _ => Err(malformed("a done item that is no object")),
            },
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                match event.remove("response") {
                    Some(Value::Object(response)) => self.end(response, draft, out),
                    _ => Err(malformed("an end without the response")),
                }
            }
            "error" => {
                let error = event.get("error").and_then(Value::as_object).unwrap_or(&event);
                Err(failed(error))
            }
            _ => Ok(()),
        }
    }

    /// A whole response at once.
    pub(super) fn whole(
        &mut self,
        body: &str,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let response = parsed(body)?;
        if !response.contains_key("output") {
            let error = response.get("error").and_then(Value::as_object);
            return Err(error.map_or_else(|| malformed("no `output`"), failed));
        }
        self.end(response, draft, out)
    }

    fn at(&mut self, place: u64, draft: &mut Draft) -> Result<&mut Item, Failure> {
        if !self.items.contains_key(&place) {
            draft.part()?;
        }
        Ok(self.items.entry(place).or_default())
    }

    fn add(
        &mut self,
        place: u64,
        value: &Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        draft.start(None, out);
        let item = self.at(place, draft)?;
        if field(value, "type") == "function_call" && item.call.is_none() {
            item.call = Some(draft.begin(field(value, "call_id"), field(value, "name"), out)?);
        }
        Ok(())
    }

    fn done(
        &mut self,
        place: u64,
        mut value: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        self.add(place, &value, draft, out)?;
        let item = self.at(place, draft)?;
        if item.done.is_some() {
            return Err(malformed("an item that is done twice"));
        }
        let kind = field(&value, "type");
        // A call of a program is `in_progress` until it is answered.
        let unfinished = field(&value, "status") == "incomplete";
        if matches!(kind, "function_call" | "custom_tool_call") {
            let (id, name) = (field(&value, "call_id"), field(&value, "name"));
            if id.is_empty() || name.is_empty() {
                return Err(malformed(&format!("a `{kind}` without a call id or a name")));
            }
            match (kind, item.call) {
                ("function_call", Some(call)) if unfinished => draft.refuse_cut(call, id, name),
                ("function_call", Some(call)) => {
                    let given = match value.get("arguments") {
                        None | Some(Value::Null) => String::new(),
                        Some(Value::String(text)) => text.clone(),
                        Some(other) => other.to_string(),
                    };
                    draft.end_call(call, id, name, &given, out);
                }
                _ => draft.refuse_custom(id, name),
            }
        } else if OPENAI_OTHERS.contains(&kind) && field(&value, "execution") != "server" {
            draft.pass_over(kind);
        }
        if kind == "function_call" {
            let text = match value.get("arguments") {
                Some(Value::String(text)) if unfinished && !is_object(text) => "{}".to_owned(),
                Some(Value::String(text)) => input_text(text),
                Some(Value::Object(given)) => Value::Object(given.clone()).to_string(),
                _ => "{}".to_owned(),
            };
            value.insert("arguments".to_owned(), text.into());
        }
        item.done = Some(value);
        Ok(())
    }

    fn end(
        &mut self,
        mut response: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        draft.start(response.get("model").and_then(Value::as_str), out);
        if let Some(usage) = response.get("usage").and_then(Value::as_object) {
            draft.usage(usage_of(usage), out);
        }
        if let Some(error) = response.get("error").and_then(Value::as_object) {
            return Err(failed(error));
        }
        let Some(Value::Array(output)) = response.remove("output") else {
            self.stop(&response, draft, out);
            return Ok(());
        };
        // Servers that stream no items have them here. Others count places differently here and there.
        if self.items.values().any(|item| item.done.is_some()) {
            self.stop(&response, draft, out);
            return Ok(());
        }
        for (place, value) in (0..).zip(output) {
            let Value::Object(value) = value else { return Err(malformed("an item that is no object")) };
            if self.items.get(&place).is_none_or(|item| item.text.is_empty()) {
                for part in value.get("content").and_then(Value::as_array).into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("output_text") => draft.text(part["text"].as_str().unwrap_or_default(), out)?,
                        Some("refusal") => {
                            self.refused = true;
                            draft.text(part["refusal"].as_str().unwrap_or_default(), out)?;
                        }
                        _ => {}
                    }
                }
            }
            self.done(place, value, draft, out)?;
        }
        self.stop(&response, draft, out);
        Ok(())
    }

    fn stop(&mut self, response: &Map<String, Value>, draft: &mut Draft, out: &mut Vec<Delta>) {
        let reason = response.get("incomplete_details").and_then(|details| details.get("reason"));
        let stop = match (field(response, "status"), reason.and_then(Value::as_str)) {
            (_, Some("max_output_tokens")) => Stop::MaxTokens { in_call: self.open_call() },
            (_, Some("content_filter")) => Stop::Refused { why: None },
            (_, Some(other)) => Stop::Other(other.to_owned()),
            ("completed" | "", None) if self.refused => Stop::Refused { why: None },
            ("completed" | "", None) => Stop::End,
            (other, None) => Stop::Other(other.to_owned()),
        };
        draft.stop(stop, out);
        draft.close();
    }

    fn open_call(&self) -> bool {
        let last = self.items.values().next_back();
        last.is_some_and(|item| {
            item.call.is_some() && item.done.as_ref().is_none_or(|done| field(done, "status") == "incomplete")
        })
    }

    /// The items as they are sent back.
    pub(super) fn items(self, draft: &mut Draft) -> Vec<Value> {
        let mut items: Vec<Value> = Vec::with_capacity(self.items.len());
        for item in self.items.into_values() {
            match item.done {
                // Not whole, and the stream broke.
                Some(_) if item.call.is_some_and(|call| !draft.answers(call)) => {}
                Some(done) if field(&done, "type") == "message" && is_empty(&done) => {}
                Some(done) => items.push(Value::Object(done)),
                None if !item.text.trim().is_empty() => {
                    items.push(json!({"role": "assistant", "content": item.text}));
                }
                None => {}
            }
        }
        // Thinking that nothing follows is refused.
        while items.last().is_some_and(|item| item["type"] == "reasoning") {
            items.pop();
        }
        items
    }
}

fn is_empty(message: &Map<String, Value>) -> bool {
    message.get("content").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn place(event: &Map<String, Value>) -> Result<u64, Failure> {
    let place = event.get("output_index").and_then(Value::as_u64);
    place.ok_or_else(|| malformed("an event of an item without its place"))
}

fn failed(error: &Map<String, Value>) -> Failure {
    let kind = match field(error, "code") {
        "" => field(error, "type"),
        code => code,
    };
    Failure::said(None, kind, field(error, "message"))
}

fn usage_of(said: &Map<String, Value>) -> Usage {
    let count = |key: &str| said.get(key).and_then(Value::as_u64).unwrap_or_default();
    let detail = |of: &str, key: &str| {
        said.get(of).and_then(|details| details.get(key)).and_then(Value::as_u64).unwrap_or_default()
    };
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: detail("input_tokens_details", "cached_tokens"),
        cache_write_tokens: detail("input_tokens_details", "cache_write_tokens"),
        thinking_tokens: detail("output_tokens_details", "reasoning_tokens"),
    }
}
