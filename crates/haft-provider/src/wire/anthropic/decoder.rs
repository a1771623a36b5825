//! Anthropic's messages: blocks that begin, grow and end, by their index.
//!
//! Blocks are kept as they came, also those of unknown kinds and with unknown deltas. Left out of what is
//! sent back is only what the API rejects there: text without content, thinking without its signature, and,
//! at the end of a message, thinking and the server's own calls that nothing follows.

use std::collections::BTreeMap;

use haft_agent::{CallKind, StopReason, TokenUsage};
use serde_json::{Map, Value, json};

use crate::wire::decoder::{
    DecodeError, DecodeResult, MessageDecoder, input_value, is_object, merge_members, message_with,
    misplaced_event, required_list, required_member, text_field, usage_count,
};
use crate::wire::json_text::{JsonObject, JsonText};
use crate::wire::message_draft::{MessageDraft, TextRanges};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BlockDecoder {
    blocks: BTreeMap<u64, DraftBlock>,
    /// The end as the beginning of the message states it: messages that were not written piece by piece have
    /// it there.
    stated_end: StatedEnd,
}

#[derive(Debug, Clone, PartialEq)]
struct DraftBlock {
    value: Map<String, Value>,
    /// The text, of blocks of text.
    text: TextRanges,
    /// The input that arrived in pieces.
    input: String,
    /// The input that arrived with the block.
    whole_input: Option<String>,
    call: Option<BlockCall>,
    is_closed: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct BlockCall {
    number: usize,
    id: String,
    name: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct StatedEnd {
    reason: String,
    explanation: Option<String>,
}

impl StatedEnd {
    fn read(fields: &JsonObject<'_>) -> StatedEnd {
        let explanation = fields.value("stop_details")["explanation"].as_str().map(str::to_owned);
        StatedEnd { reason: fields.string("stop_reason").unwrap_or_default().into_owned(), explanation }
    }

    fn stop_reason(self, in_call: bool) -> Option<StopReason> {
        Some(match &*self.reason {
            "" => return None,
            "end_turn" => StopReason::End,
            "tool_use" => StopReason::Calls,
            "stop_sequence" => StopReason::Sequence,
            "pause_turn" => StopReason::Paused,
            "max_tokens" => StopReason::MaxTokens { in_call },
            "model_context_window_exceeded" => StopReason::ContextFull,
            "refusal" => StopReason::Refused { why: self.explanation },
            _ => StopReason::Other(self.reason),
        })
    }
}

impl MessageDecoder for BlockDecoder {
    fn decode_event(&mut self, event: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        match &*event.text("type")? {
            "message_start" => {
                if draft.has_started() {
                    draft.restart()?;
                    *self = BlockDecoder::default();
                }
                let message = inner_object(event, "message")?;
                self.start(&message, draft);
                self.decode_blocks(&message.items("content"), false, draft)
            }
            "content_block_start" => {
                let block = inner_object(event, "content_block")?;
                self.begin(block_index(event)?, &block, draft)
            }
            "content_block_delta" => self.grow(block_index(event)?, &inner_object(event, "delta")?, draft),
            "content_block_stop" => self.close(block_index(event)?, false, draft),
            "message_delta" => {
                update_usage(event, draft);
                if let Some(delta) = event.object("delta")? {
                    self.stop(StatedEnd::read(&delta), draft);
                }
                Ok(())
            }
            "message_stop" => {
                self.stop_as_stated(draft);
                draft.stop(StopReason::End);
                draft.close();
                Ok(())
            }
            "error" => draft
                .check_error(Some(event.given("error").unwrap_or(JsonText::EMPTY_TEXT)))
                .map_err(DecodeError::from),
            _ => Ok(()),
        }
    }

    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult {
        if let Some(blocks) = message.array() {
            return self.decode_blocks(&blocks, false, draft);
        }
        let fields = message.required_object("a message object or its content array")?;
        if fields.is("type", "error") {
            draft.check_error(Some(fields.given("error").unwrap_or(JsonText::EMPTY_TEXT)))?;
        }
        self.start(&fields, draft);
        let blocks = match fields.get("content") {
            // A message of text alone.
            Some(content) if content.is_string() => Vec::new(),
            Some(content) => required_list(Some(content), "an array of content blocks")?,
            None if draft.keeps_only_calls() && fields.is("type", "tool_use") => {
                return self.decode_block(0, message, false, draft);
            }
            None => {
                return Err(fields.error("the message has no `content`; an array is required").into());
            }
        };
        let stop = self.stated_end.clone().stop_reason(true);
        self.decode_blocks(&blocks, stop.is_some_and(|stop| stop.cuts()), draft)?;
        let ends_in_call = self.blocks.values().next_back().is_some_and(|block| block.call.is_some());
        if let Some(stop) = self.stated_end.clone().stop_reason(ends_in_call) {
            draft.stop(stop);
        }
        Ok(())
    }

    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value> {
        let blocks = std::mem::take(&mut self.blocks).into_values();
        let mut content: Vec<Value> = blocks.filter_map(|block| block.into_value(draft)).collect();
        let is_paused = draft.stop_reason() == Some(&StopReason::Paused);
        while !is_paused && content.last().is_some_and(needs_successor) {
            content.pop();
        }
        if content.is_empty() { Vec::new() } else { vec![message_with("assistant", "content", content)] }
    }
}

impl BlockDecoder {
    fn start(&mut self, message: &JsonObject<'_>, draft: &mut MessageDraft) {
        draft.start(message.string("model"));
        update_usage(message, draft);
        self.stated_end = StatedEnd::read(message);
    }

    /// Takes blocks that came whole. With `is_cut` the message ended inside the last one.
    fn decode_blocks(
        &mut self,
        blocks: &[JsonText<'_>],
        is_cut: bool,
        draft: &mut MessageDraft,
    ) -> DecodeResult {
        for (at, block) in (1..).zip(blocks) {
            let is_last = at == blocks.len();
            self.decode_block(at as u64 - 1, *block, is_cut && is_last, draft)?;
        }
        Ok(())
    }

    fn decode_block(
        &mut self,
        at: u64,
        block: JsonText<'_>,
        is_cut: bool,
        draft: &mut MessageDraft,
    ) -> DecodeResult {
        self.begin(at, &block.required_object("a content block")?, draft)?;
        self.close(at, is_cut, draft)
    }

    fn begin(&mut self, at: u64, block: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.start(None);
        draft.part()?;
        // Before anything of it counts: the one that is there may be a call that runs already.
        if self.blocks.contains_key(&at) {
            return Err(misplaced_event("two blocks with one index"));
        }
        let (mut text, mut call, mut except) = (TextRanges::default(), None, ["input", ""]);
        match &*block.string("type").unwrap_or_default() {
            "tool_use" => {
                let id = required_member(block, "id", "the `tool_use` block")?.into_owned();
                let name = required_member(block, "name", "the `tool_use` block")?.into_owned();
                call = Some(BlockCall { number: draft.begin(&id, &name)?, id, name });
            }
            "text" if !draft.keeps_only_calls() => {
                draft.text(block.text("text")?, &mut text)?;
                except[1] = "text";
            }
            "thinking" if !draft.keeps_only_calls() => draft.thinking(&block.text("thinking")?)?,
            _ => {}
        }
        let mut value = draft.copy_fields(block, &except)?;
        // The text is counted already.
        draft.keep(if except[1] == "text" { 64 } else { block.len() })?;
        let whole_input = block.get("input").map(|input| input.text().to_owned());
        if whole_input.is_some() {
            value.insert("input".to_owned(), Value::Null);
        }
        let block = DraftBlock { value, text, input: String::new(), whole_input, call, is_closed: false };
        self.blocks.insert(at, block);
        Ok(())
    }

    /// The block with this index, while it grows.
    fn open(&mut self, at: u64) -> Result<&mut DraftBlock, DecodeError> {
        let open = self.blocks.get_mut(&at).filter(|block| !block.is_closed);
        open.ok_or_else(|| misplaced_event("an event of a block that isn't open"))
    }

    fn grow(&mut self, at: u64, delta: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        let block = self.open(at)?;
        match &*delta.text("type")? {
            "input_json_delta" => {
                let json = delta.text("partial_json")?;
                block.input.push_str(&json);
                match &block.call {
                    Some(call) => draft.input(call.number, &json)?,
                    None => draft.keep(json.len())?,
                }
                return Ok(());
            }
            "text_delta" if block.kind() == "text" => {
                draft.text(delta.text("text")?, &mut block.text)?;
                return Ok(());
            }
            "thinking_delta" => draft.thinking(&delta.text("thinking")?)?,
            "citations_delta" => {
                draft.keep(delta.len())?;
                let citation = delta.to_map(&["type"])?.remove("citation");
                let citations = citation.map(|citation| ("citations".to_owned(), json!([citation])));
                merge_members(&mut block.value, Map::from_iter(citations));
                return Ok(());
            }
            _ => draft.keep(delta.len())?,
        }
        merge_members(&mut block.value, delta.to_map(&["type"])?);
        Ok(())
    }

    fn close(&mut self, at: u64, is_cut: bool, draft: &mut MessageDraft) -> DecodeResult {
        let block = self.open(at)?;
        block.is_closed = true;
        let whole_input = block.whole_input.take();
        if !draft.is_streamed() {
            block.input = whole_input.unwrap_or_else(|| "{}".to_owned());
        } else if block.input.is_empty() {
            // Streamed blocks begin with an empty object in place of an input that follows; some come with
            // their input.
            block.input = whole_input.filter(|input| !is_empty_object(input)).unwrap_or_default();
        }
        if let Some(BlockCall { number, id, name }) = &block.call {
            if is_cut {
                draft.refuse_cut(CallKind::Function, *number, id, name)
            } else {
                draft.end_call(CallKind::Function, *number, id, name, &block.input)
            }
        }
        Ok(())
    }

    fn stop_as_stated(&mut self, draft: &mut MessageDraft) {
        let stated = std::mem::take(&mut self.stated_end);
        self.stop(stated, draft);
    }

    fn stop(&mut self, end: StatedEnd, draft: &mut MessageDraft) {
        if let Some(stop) = end.stop_reason(self.ends_in_call()) {
            draft.stop(stop);
        }
    }

    /// Whether the last block is a call that isn't whole.
    fn ends_in_call(&self) -> bool {
        let last = self.blocks.values().next_back();
        last.is_some_and(|block| block.call.is_some() && !(block.is_closed && is_object(&block.input)))
    }
}

impl DraftBlock {
    fn kind(&self) -> &str {
        text_field(&self.value, "type")
    }

    /// Makes the block as it is sent back, if it can be.
    fn into_value(mut self, draft: &mut MessageDraft) -> Option<Value> {
        let is_whole = draft.is_whole();
        let is_kept = match (self.kind(), &self.call) {
            ("text", _) => !draft.is_blank(&self.text),
            ("thinking", _) => self.is_closed && !text_field(&self.value, "signature").trim().is_empty(),
            // Cut off by the end of the message: answered, not run.
            (_, Some(call)) if !self.is_closed && is_whole => {
                draft.refuse_cut(CallKind::Function, call.number, &call.id, &call.name);
                self.input.clear();
                true
            }
            // The stream broke before the call was whole.
            (_, Some(call)) => draft.has_answer(call.number),
            _ => self.is_closed,
        };
        if !is_kept {
            return None;
        }
        if !self.text.is_empty() {
            self.value.insert("text".to_owned(), draft.text_of(&self.text).into());
        }
        if self.value.contains_key("input") {
            let is_cut =
                is_whole && draft.stop_reason().is_some_and(StopReason::cuts) && !is_object(&self.input);
            let input = if is_cut { "" } else { &self.input };
            self.value.insert("input".to_owned(), input_value(input));
        }
        Some(Value::Object(self.value))
    }
}

/// Whether a block can't be the last one of a message.
fn needs_successor(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking" | "server_tool_use" | "mcp_tool_use")
    )
}

/// The object that an event is about.
fn inner_object<'t>(event: &JsonObject<'t>, key: &str) -> Result<JsonObject<'t>, DecodeError> {
    let missing =
        || misplaced_event(&format!("a `{}` without a `{key}`", event.string("type").unwrap_or_default()));
    event.object(key)?.ok_or_else(missing)
}

fn block_index(event: &JsonObject<'_>) -> Result<u64, DecodeError> {
    let index = event.get("index").and_then(JsonText::number);
    index.ok_or_else(|| misplaced_event("an event of a block without an index"))
}

fn is_empty_object(text: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(text).is_ok_and(|fields| fields.is_empty())
}

/// Brings the usage up to date; counts that are left out stay.
fn update_usage(fields: &JsonObject<'_>, draft: &mut MessageDraft) {
    let reported = fields.value("usage");
    if !reported.is_object() {
        return;
    }
    let before = &draft.usage;
    let now =
        |key: &str, before: u64| if reported[key].is_u64() { usage_count(&reported, key) } else { before };
    let read = now("cache_read_input_tokens", before.cache_read_tokens);
    let written = now("cache_creation_input_tokens", before.cache_write_tokens);
    let cached = before.cache_read_tokens.saturating_add(before.cache_write_tokens);
    let fresh = now("input_tokens", before.input_tokens.saturating_sub(cached));
    let thinking = reported["output_tokens_details"]["thinking_tokens"].as_u64();
    draft.report_usage(TokenUsage {
        input_tokens: fresh.saturating_add(read).saturating_add(written),
        output_tokens: now("output_tokens", before.output_tokens),
        cache_read_tokens: read,
        cache_write_tokens: written,
        thinking_tokens: thinking.unwrap_or(before.thinking_tokens),
    });
}
