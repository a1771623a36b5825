//! OpenAI's Responses: items that are added, grow and are done, by their place in the output.
//!
//! Ids of items are not looked at: some servers change them from event to event. An item is kept as its
//! `done` event has it. Of an item that was never done only the text of a message survives, as a plain
//! message of the assistant. Events that repeat what came in pieces are not parsed.

use std::collections::BTreeMap;

use haft::search::TOOL_SEARCH;
use haft_agent::{CallKind, ModelFailure, StopReason, TokenUsage};
use serde_json::{Map, Value, json};

use super::OTHER_CALLS;
use crate::failure;
use crate::wire::decoder::{
    DecodeError, DecodeResult, MessageDecoder, input_text, is_json, is_object, misplaced_event,
    read_arguments, required_list, required_member, text_field, usage_count,
};
use crate::wire::json_text::{JsonError, JsonObject, JsonText};
use crate::wire::message_draft::{MessageDraft, TextRanges};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ItemDecoder {
    items: BTreeMap<u64, DraftItem>,
    is_refused: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct DraftItem {
    call: Option<usize>,
    /// The text of a message so far.
    text: TextRanges,
    done: Option<Map<String, Value>>,
    /// The text is in `text` and not in `done`.
    is_without_text: bool,
}

impl MessageDecoder for ItemDecoder {
    fn decode_event(&mut self, event: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        match &*event.text("type")? {
            "response.created" | "response.in_progress" | "response.queued" => {
                let response = event.object("response")?;
                draft.start(response.and_then(|response| response.string("model")));
                Ok(())
            }
            "response.output_item.added" => self.add(
                output_index(event)?,
                &inner_object(event, "item", "an added item that is no object")?,
                draft,
            ),
            "response.output_text.delta" => {
                let item = self.at(output_index(event)?, draft)?;
                Ok(draft.text(event.text("delta")?, &mut item.text)?)
            }
            "response.refusal.delta" => {
                self.is_refused = true;
                // A refusal is reported, and kept only as the item has it when it is done.
                Ok(draft.text(event.text("delta")?, &mut TextRanges::default())?)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Ok(draft.thinking(&event.text("delta")?)?)
            }
            "response.function_call_arguments.delta" => match self.at(output_index(event)?, draft)?.call {
                Some(call) => Ok(draft.input(call, &event.text("delta")?)?),
                None => Ok(()),
            },
            "response.output_item.done" => {
                let item = inner_object(event, "item", "a done item that is no object")?;
                self.finish(output_index(event)?, &item, draft)
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.end(&inner_object(event, "response", "an end without the response")?, draft)
            }
            "error" => {
                let error = event.value("error");
                let error = if error.is_object() { error } else { Value::Object(event.to_map(&[])?) };
                Err(failure::from_error(None, &error).into())
            }
            _ => Ok(()),
        }
    }

    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult {
        if let Some(items) = message.array() {
            return self.finish_all(&items, draft);
        }
        let fields = message.required_object("a response object or its output array")?;
        if fields.has("output") {
            return self.end(&fields, draft);
        }
        draft.check_error(fields.get("error"))?;
        if fields.has("type") && draft.keeps_only_calls() {
            // One item of an output.
            self.finish(0, &fields, draft)
        } else {
            Err(fields.error("the response has no `output`; an array is required").into())
        }
    }

    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value> {
        let items = std::mem::take(&mut self.items).into_values();
        let mut items: Vec<Value> = items.filter_map(|item| item.into_value(draft)).collect();
        // Thinking that nothing follows is rejected.
        while items.last().is_some_and(|item| item["type"] == "reasoning") {
            items.pop();
        }
        items
    }
}

impl ItemDecoder {
    fn at(&mut self, place: u64, draft: &mut MessageDraft) -> Result<&mut DraftItem, ModelFailure> {
        if !self.items.contains_key(&place) {
            draft.part()?;
        }
        Ok(self.items.entry(place).or_default())
    }

    fn add(&mut self, place: u64, fields: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.start(None);
        let item = self.at(place, draft)?;
        if fields.is("type", "function_call") && item.call.is_none() {
            item.call = Some(draft.begin(&fields.text("call_id")?, &fields.text("name")?)?);
        }
        Ok(())
    }

    /// Takes an item that is done.
    fn finish(&mut self, place: u64, fields: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        self.add(place, fields, draft)?;
        let item = self.at(place, draft)?;
        if item.done.is_some() {
            return Err(misplaced_event("an item that is done twice"));
        }
        let kind = fields.string("type").unwrap_or_default();
        match &*kind {
            "function_call" => {
                let call = item.call.unwrap_or_default();
                let id = required_member(fields, "call_id", "the `function_call`")?;
                let name = required_member(fields, "name", "the `function_call`")?;
                finish_call(CallKind::Function, call, [&id, &name], fields, draft);
            }
            "custom_tool_call" => {
                let id = required_member(fields, "call_id", "the `custom_tool_call`")?;
                let name = required_member(fields, "name", "the `custom_tool_call`")?;
                draft.refuse_free_form(&id, &name);
            }
            // One that the provider's own search answers has no id of ours.
            "tool_search_call" if !fields.is("execution", "server") && fields.string("call_id").is_some() => {
                let id = required_member(fields, "call_id", "the `tool_search_call`")?;
                let call = draft.begin(&id, TOOL_SEARCH)?;
                item.call = Some(call);
                draft.input(call, &read_arguments(fields.get("arguments")))?;
                finish_call(CallKind::ToolSearch, call, [&id, TOOL_SEARCH], fields, draft);
            }
            kind if OTHER_CALLS.contains(&kind) && !fields.is("execution", "server") => draft.pass_over(kind),
            _ => {}
        }
        let value = match without_text(fields, &item.text, draft)? {
            Some(value) => {
                item.is_without_text = true;
                value
            }
            None if kind == "function_call" && !draft.keeps_only_calls() => {
                let mut value = draft.copy_fields(fields, &["arguments"])?;
                value.insert("arguments".to_owned(), past_arguments(fields).into());
                value
            }
            None => draft.copy_fields(fields, &[])?,
        };
        item.done = Some(value);
        Ok(())
    }

    fn finish_all(&mut self, items: &[JsonText<'_>], draft: &mut MessageDraft) -> DecodeResult {
        for (at, item) in (0..).zip(items) {
            let fields = item.required_object("an output item")?;
            self.take_text(at, &fields, draft)?;
            self.finish(at, &fields, draft)?;
        }
        Ok(())
    }

    /// Reports the text of a message that did not come in pieces.
    fn take_text(&mut self, place: u64, fields: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        if draft.keeps_only_calls() {
            return Ok(());
        }
        let item = self.items.entry(place).or_default();
        if !item.text.is_empty() {
            return Ok(());
        }
        for part in fields.items("content") {
            let Some(part) = part.object()? else { continue };
            match &*part.string("type").unwrap_or_default() {
                "output_text" => draft.text(part.text("text")?, &mut item.text)?,
                "refusal" => {
                    self.is_refused = true;
                    draft.text(part.text("refusal")?, &mut TextRanges::default())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn end(&mut self, response: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.start(response.string("model"));
        let usage = response.value("usage");
        if usage.is_object() {
            draft.report_usage(read_usage(&usage, "input_tokens", "output_tokens"));
        }
        draft.check_error(response.get("error"))?;
        // Servers that stream no items have them here. Others count places differently here and there.
        if !self.items.values().any(|item| item.done.is_some()) {
            let items = required_list(response.get("output"), "an array of output items")?;
            self.finish_all(&items, draft)?;
        }
        self.stop(response, draft);
        Ok(())
    }

    fn stop(&mut self, response: &JsonObject<'_>, draft: &mut MessageDraft) {
        let details = response.value("incomplete_details");
        let stop = match (&*response.string("status").unwrap_or_default(), details["reason"].as_str()) {
            (_, Some("max_output_tokens")) => StopReason::MaxTokens { in_call: self.ends_in_call() },
            (_, Some("content_filter")) => StopReason::Refused { why: None },
            (_, Some(other)) => StopReason::Other(other.to_owned()),
            ("completed" | "", None) if self.is_refused => StopReason::Refused { why: None },
            ("completed" | "", None) => StopReason::End,
            (other, None) => StopReason::Other(other.to_owned()),
        };
        draft.stop(stop);
        draft.close();
    }

    fn ends_in_call(&self) -> bool {
        let last = self.items.values().next_back();
        last.is_some_and(|item| {
            item.call.is_some()
                && item.done.as_ref().is_none_or(|done| text_field(done, "status") == "incomplete")
        })
    }
}

impl DraftItem {
    /// Makes the item as it is sent back, if it can be.
    fn into_value(self, draft: &MessageDraft) -> Option<Value> {
        match self.done {
            // The stream broke before the call was whole.
            Some(_) if self.call.is_some_and(|call| !draft.has_answer(call)) => None,
            Some(done) if text_field(&done, "type") == "message" && !has_content(&done) => None,
            Some(mut done) => {
                if let Some(part) = done.get_mut("content").filter(|_| self.is_without_text) {
                    part[0]["text"] = draft.text_of(&self.text).into();
                }
                Some(Value::Object(done))
            }
            None if draft.is_blank(&self.text) => None,
            None => {
                let mut message = json!({"role": "assistant"});
                message["content"] = draft.text_of(&self.text).into();
                Some(message)
            }
        }
    }
}

fn finish_call(
    kind: CallKind,
    call: usize,
    [id, name]: [&str; 2],
    fields: &JsonObject<'_>,
    draft: &mut MessageDraft,
) {
    if is_cut(fields) {
        draft.refuse_cut(kind, call, id, name)
    } else {
        draft.end_call(kind, call, id, name, &read_arguments(fields.get("arguments")))
    }
}

/// Whether a call was cut off. A call of a program is `in_progress` until it is answered; a call that is
/// still being written isn't whole.
fn is_cut(fields: &JsonObject<'_>) -> bool {
    fields.is("status", "incomplete")
        || (fields.is("type", "function_call")
            && fields.is("status", "in_progress")
            && !is_json(&read_arguments(fields.get("arguments"))))
}

/// The arguments of a call as they stand in the history.
fn past_arguments(fields: &JsonObject<'_>) -> String {
    let text = read_arguments(fields.get("arguments"));
    if is_cut(fields) && !is_object(&text) { "{}".to_owned() } else { input_text(&text) }
}

/// Copies a message whose text is stored already: the same text is not stored twice. `None` for another item.
fn without_text(
    fields: &JsonObject<'_>,
    text: &TextRanges,
    draft: &MessageDraft,
) -> Result<Option<Map<String, Value>>, JsonError> {
    if text.is_empty() || !fields.is("type", "message") {
        return Ok(None);
    }
    let [part] = fields.items("content")[..] else { return Ok(None) };
    let Some(part) = part.object()? else { return Ok(None) };
    let is_stored = part.get("text").is_some_and(|stored| draft.is_text(text, stored.text()));
    if !part.is("type", "output_text") || !is_stored {
        return Ok(None);
    }
    let mut message = draft.copy_fields(fields, &["content"])?;
    let part = draft.copy_fields(&part, &["text"])?;
    message.insert("content".to_owned(), Value::Array(vec![Value::Object(part)]));
    Ok(Some(message))
}

fn has_content(message: &Map<String, Value>) -> bool {
    message.get("content").and_then(Value::as_array).is_some_and(|content| !content.is_empty())
}

fn inner_object<'t>(
    event: &JsonObject<'t>,
    key: &str,
    otherwise: &str,
) -> Result<JsonObject<'t>, DecodeError> {
    event.object(key)?.ok_or_else(|| misplaced_event(otherwise))
}

fn output_index(event: &JsonObject<'_>) -> Result<u64, DecodeError> {
    let place = event.get("output_index").and_then(JsonText::number);
    place.ok_or_else(|| misplaced_event("an event of an item without its place"))
}

/// Reads OpenAI's usage. Its two wires have different names for the same: `input_tokens` with
/// `input_tokens_details`, and so on.
pub(in crate::wire) fn read_usage(usage: &Value, input: &str, output: &str) -> TokenUsage {
    let detail = |name: &str, key: &str| usage_count(&usage[format!("{name}_details")], key);
    TokenUsage {
        input_tokens: usage_count(usage, input),
        output_tokens: usage_count(usage, output),
        cache_read_tokens: detail(input, "cached_tokens"),
        cache_write_tokens: detail(input, "cache_write_tokens"),
        thinking_tokens: detail(output, "reasoning_tokens"),
    }
}
