//! OpenAI's Responses: items that are added, grow and are done, by their place in the output.
//!
//! Ids of items are not looked at: some servers change them from event to event. An item is kept as its `done` event
//! has it. Of an item that was never done only the text of a message survives, as a plain message of the assistant.

use std::borrow::Cow;
use std::collections::BTreeMap;

use haft::search::TOOL_SEARCH;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Assemble;
use super::draft::{
    Draft, Object, Read, Spans, arguments, count, field, input_text, is_object, malformed, parsed,
};
use crate::decode::OPENAI_OTHERS;
use crate::decode::json::Json;
use crate::failure;
use haft_agent::{CallKind, ModelFailure, StopReason, TokenUsage};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Items {
    items: BTreeMap<u64, Item>,
    refused: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Item {
    call: Option<usize>,
    /// The text of a message so far.
    text: Spans,
    done: Option<Object>,
    /// The text is in `text` and not in `done`.
    without_text: bool,
}

/// The end of a response without its output, which is as long as everything that came before it.
#[derive(Deserialize, Serialize)]
struct Ending {
    r#type: String,
    response: EndingResponse,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct EndingResponse {
    model: Value,
    status: Value,
    usage: Value,
    error: Value,
    incomplete_details: Value,
}

/// A message that is done: everything but its text is read, which came in pieces and is kept already.
#[derive(Deserialize)]
struct LongDone {
    r#type: String,
    output_index: u64,
    item: LongItem,
}

#[derive(Deserialize)]
struct LongItem {
    content: [LongPart; 1],
    #[serde(flatten)]
    rest: Object,
}

#[derive(Deserialize)]
struct LongPart {
    #[serde(rename = "text")]
    _text: IgnoredAny,
    #[serde(flatten)]
    rest: Object,
}

/// The text of such a message, as it was written.
fn long_text(data: &str) -> Option<&str> {
    fn open<'t>(value: Json<'t>, key: &str) -> Option<Json<'t>> {
        value.object("").ok().flatten()?.get(key)
    }
    let content = open(open(Json::new(data).ok()?, "item")?, "content")?.array()?;
    Some(open(*content.first()?, "text")?.text())
}

/// What an event is.
#[derive(Deserialize)]
struct EventKind<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

/// Events that say again what came in pieces.
const REPEATS: [&str; 6] = [
    "response.output_text.done",
    "response.content_part.done",
    "response.refusal.done",
    "response.reasoning_text.done",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.done",
];

/// An event from which so many bytes on the output of the end isn't read again.
const LONG_BYTES: usize = 64 * 1024;

impl Items {
    /// Takes the end of a long message whose text came in pieces: the same text is not kept twice. False if it is none.
    fn long_done(&mut self, data: &str, draft: &mut Draft) -> Result<bool, ModelFailure> {
        let Ok(LongDone { r#type: kind, output_index: place, item }) = serde_json::from_str(data) else {
            return Ok(false);
        };
        let LongItem { content: [part], rest: mut message } = item;
        let is_message = kind == "response.output_item.done"
            && field(&message, "type") == "message"
            && field(&part.rest, "type") == "output_text";
        let is_kept = |item: &Item| long_text(data).is_some_and(|text| draft.is_text(&item.text, text));
        if !is_message || !self.items.get(&place).is_some_and(is_kept) {
            return Ok(false);
        }
        message.insert("content".to_owned(), Value::Array(vec![Value::Object(part.rest)]));
        self.done(place, message, draft)?;
        self.at(place, draft)?.without_text = true;
        Ok(true)
    }

    /// An event's fields.
    fn parsed(&self, data: &str) -> Result<Object, ModelFailure> {
        if data.len() > LONG_BYTES
            && self.has_done()
            && let Ok(ending) = serde_json::from_str::<Ending>(data)
            && let Ok(Value::Object(event)) = serde_json::to_value(ending)
        {
            return Ok(event);
        }
        parsed(data)
    }
}

impl Assemble for Items {
    fn event(&mut self, data: &str, draft: &mut Draft) -> Read {
        if data.len() > LONG_BYTES
            && let Ok(event) = serde_json::from_str::<EventKind<'_>>(data)
            && (REPEATS.contains(&&*event.r#type) || self.long_done(data, draft)?)
        {
            return Ok(());
        }
        let mut event = self.parsed(data)?;
        match field(&event, "type") {
            "response.created" | "response.in_progress" | "response.queued" => {
                draft.start(event.get("response").and_then(|response| response.get("model")));
                Ok(())
            }
            "response.output_item.added" => match event.remove("item") {
                Some(Value::Object(item)) => self.add(place(&event)?, &item, draft),
                _ => Err(malformed("an added item that is no object")),
            },
            "response.output_text.delta" => {
                let item = self.at(place(&event)?, draft)?;
                draft.text(field(&event, "delta"), &mut item.text)
            }
            "response.refusal.delta" => {
                self.refused = true;
                // What was refused is told, and kept only as the item has it when it is done.
                draft.text(field(&event, "delta"), &mut Spans::default())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                draft.thinking(field(&event, "delta"))
            }
            "response.function_call_arguments.delta" => {
                let call = self.at(place(&event)?, draft)?.call;
                call.map_or(Ok(()), |call| draft.input(call, field(&event, "delta")))
            }
            "response.output_item.done" => match event.remove("item") {
                Some(Value::Object(item)) => self.done(place(&event)?, item, draft),
                _ => Err(malformed("a done item that is no object")),
            },
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                match event.remove("response") {
                    Some(Value::Object(response)) => self.end(response, draft),
                    _ => Err(malformed("an end without the response")),
                }
            }
            "error" => Err(match event.remove("error") {
                Some(error @ Value::Object(_)) => failure::from_error(None, &error),
                _ => failure::from_error(None, &Value::Object(event)),
            }),
            _ => Ok(()),
        }
    }

    fn whole(&mut self, body: &str, draft: &mut Draft) -> Read {
        let response = parsed(body)?;
        match (response.contains_key("output"), response.get("error")) {
            (true, _) => self.end(response, draft),
            (false, Some(error @ Value::Object(_))) => Err(failure::from_error(None, error)),
            (false, _) => Err(malformed("no `output`")),
        }
    }

    fn items(&mut self, draft: &mut Draft) -> Vec<Value> {
        let mut items: Vec<Value> = Vec::with_capacity(self.items.len());
        for item in std::mem::take(&mut self.items).into_values() {
            match item.done {
                // Not whole, and the stream broke.
                Some(_) if item.call.is_some_and(|call| !draft.answers(call)) => {}
                Some(done) if field(&done, "type") == "message" && is_empty(&done) => {}
                Some(mut done) => {
                    if let Some(part) = done.get_mut("content").filter(|_| item.without_text) {
                        part[0]["text"] = draft.text_of(&item.text).into();
                    }
                    items.push(Value::Object(done));
                }
                None if !draft.is_blank(&item.text) => {
                    let mut message = json!({"role": "assistant"});
                    message["content"] = draft.text_of(&item.text).into();
                    items.push(message);
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

impl Items {
    fn at(&mut self, place: u64, draft: &mut Draft) -> Result<&mut Item, ModelFailure> {
        if !self.items.contains_key(&place) {
            draft.part()?;
        }
        Ok(self.items.entry(place).or_default())
    }

    fn add(&mut self, place: u64, value: &Object, draft: &mut Draft) -> Read {
        draft.start(None);
        let item = self.at(place, draft)?;
        if field(value, "type") == "function_call" && item.call.is_none() {
            item.call = Some(draft.begin(field(value, "call_id"), field(value, "name"))?);
        }
        Ok(())
    }

    fn done(&mut self, place: u64, mut value: Object, draft: &mut Draft) -> Read {
        self.add(place, &value, draft)?;
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
                    draft.end_call(call, id, name, &arguments(value.get("arguments")));
                }
                _ => draft.refuse_custom(id, name),
            }
        } else if is_search(&value) {
            // What is searched for comes with the item, whole.
            let (id, input) = (field(&value, "call_id"), arguments(value.get("arguments")));
            let call = draft.begin(id, TOOL_SEARCH)?;
            item.call = Some(call);
            draft.input(call, &input)?;
            match unfinished {
                true => draft.refuse_cut_of(CallKind::ToolSearch, call, id, TOOL_SEARCH),
                false => draft.end_call_of(CallKind::ToolSearch, call, id, TOOL_SEARCH, &input),
            }
        } else if OPENAI_OTHERS.contains(&kind) && field(&value, "execution") != "server" {
            draft.pass_over(kind);
        }
        if kind == "function_call" {
            let text = arguments(value.get("arguments"));
            let text = if unfinished && !is_object(&text) { "{}".to_owned() } else { input_text(&text) };
            value.insert("arguments".to_owned(), text.into());
        }
        item.done = Some(value);
        Ok(())
    }

    fn end(&mut self, mut response: Object, draft: &mut Draft) -> Read {
        draft.start(response.get("model"));
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            draft.usage(usage_of(usage, "input_tokens", "output_tokens"));
        }
        if let Some(error) = response.get("error").filter(|error| error.is_object()) {
            return Err(failure::from_error(None, error));
        }
        let output = match response.remove("output") {
            // Servers that stream no items have them here. Others count places differently here and there.
            Some(Value::Array(output)) if !self.has_done() => output,
            _ => Vec::new(),
        };
        for (place, value) in (0..).zip(output) {
            let Value::Object(value) = value else { return Err(malformed("an item that is no object")) };
            if self.items.get(&place).is_none_or(|item| item.text.is_empty()) {
                // The item is done, so its text is kept in it.
                let mut told = Spans::default();
                for part in value.get("content").and_then(Value::as_array).into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("output_text") => {
                            draft.text(part["text"].as_str().unwrap_or_default(), &mut told)?
                        }
                        Some("refusal") => {
                            self.refused = true;
                            draft.text(part["refusal"].as_str().unwrap_or_default(), &mut told)?;
                        }
                        _ => {}
                    }
                }
            }
            self.done(place, value, draft)?;
        }
        self.stop(&response, draft);
        Ok(())
    }

    fn stop(&mut self, response: &Object, draft: &mut Draft) {
        let reason = response.get("incomplete_details").and_then(|details| details.get("reason"));
        let stop = match (field(response, "status"), reason.and_then(Value::as_str)) {
            (_, Some("max_output_tokens")) => StopReason::MaxTokens { in_call: self.open_call() },
            (_, Some("content_filter")) => StopReason::Refused { why: None },
            (_, Some(other)) => StopReason::Other(other.to_owned()),
            ("completed" | "", None) if self.refused => StopReason::Refused { why: None },
            ("completed" | "", None) => StopReason::End,
            (other, None) => StopReason::Other(other.to_owned()),
        };
        draft.stop(stop);
        draft.close();
    }

    fn has_done(&self) -> bool {
        self.items.values().any(|item| item.done.is_some())
    }

    fn open_call(&self) -> bool {
        let last = self.items.values().next_back();
        last.is_some_and(|item| {
            item.call.is_some() && item.done.as_ref().is_none_or(|done| field(done, "status") == "incomplete")
        })
    }
}

/// Whether an item is a search for tools that is ours to make.
fn is_search(item: &Object) -> bool {
    field(item, "type") == "tool_search_call"
        && field(item, "execution") != "server"
        && !field(item, "call_id").is_empty()
}

fn is_empty(message: &Object) -> bool {
    message.get("content").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn place(event: &Object) -> Result<u64, ModelFailure> {
    let place = event.get("output_index").and_then(Value::as_u64);
    place.ok_or_else(|| malformed("an event of an item without its place"))
}

/// OpenAI's usage. Its two wires have other names for the same: `input_tokens` with `input_tokens_details`, and so on.
pub(super) fn usage_of(said: &Value, input: &str, output: &str) -> TokenUsage {
    let detail = |of: &str, key: &str| count(said.get(format!("{of}_details")), key);
    TokenUsage {
        input_tokens: count(Some(said), input),
        output_tokens: count(Some(said), output),
        cache_read_tokens: detail(input, "cached_tokens"),
        cache_write_tokens: detail(input, "cache_write_tokens"),
        thinking_tokens: detail(output, "reasoning_tokens"),
    }
}
