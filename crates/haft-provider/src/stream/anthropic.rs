//! Anthropic's events: blocks that begin, grow and stop, by their index.
//!
//! Blocks are kept as they came, also those of kinds and with deltas that nobody here knows. Left out of what is sent
//! back is only what the API refuses there: text without anything in it, thinking without its signature, and, at the
//! end of a message, thinking and the server's own calls that nothing follows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Assemble;
use super::draft::{
    Draft, Object, Read, Spans, count, field, input_value, is_blank, is_object, malformed, merge, of_parts,
    parsed, taken,
};
use crate::failure;
use haft_agent::{ModelFailure, StopReason, TokenUsage};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Blocks {
    blocks: BTreeMap<u64, Block>,
    /// The end as the beginning said it: so it is with messages that were not written piece by piece.
    said: Object,
}

#[derive(Debug, Clone, PartialEq)]
struct Block {
    value: Object,
    /// The text, of blocks of text.
    text: Spans,
    /// The input as text, of calls of any kind.
    input: String,
    call: Option<usize>,
    closed: bool,
}

impl Block {
    fn kind(&self) -> &str {
        field(&self.value, "type")
    }
}

impl Assemble for Blocks {
    fn event(&mut self, data: &str, draft: &mut Draft) -> Read {
        let mut event = parsed(data)?;
        match field(&event, "type") {
            "message_start" => {
                if draft.has_started() {
                    draft.restart()?;
                    *self = Blocks::default();
                }
                self.start(inner(&mut event, "message")?, draft)
            }
            "content_block_start" => {
                let block = inner(&mut event, "content_block")?;
                self.begin(index(&event)?, block, draft)
            }
            "content_block_delta" => {
                let delta = inner(&mut event, "delta")?;
                self.grow(index(&event)?, delta, draft)
            }
            "content_block_stop" => self.close(index(&event)?, draft),
            "message_delta" => {
                update(&event, draft);
                if let Some(delta) = event.get("delta").and_then(Value::as_object) {
                    self.stop(delta, draft);
                }
                Ok(())
            }
            "message_stop" => {
                self.stop_as_said(draft);
                draft.stop(StopReason::End);
                draft.close();
                Ok(())
            }
            "error" => Err(failure::from_error(None, event.get("error").unwrap_or_default())),
            _ => Ok(()),
        }
    }

    fn whole(&mut self, body: &str, draft: &mut Draft) -> Read {
        let message = parsed(body)?;
        if field(&message, "type") == "error" {
            return self.event(body, draft);
        }
        self.start(message, draft)?;
        self.stop_as_said(draft);
        Ok(())
    }

    fn items(&mut self, draft: &mut Draft) -> Vec<Value> {
        let whole = draft.is_whole();
        let paused = draft.stop_reason() == Some(&StopReason::Paused);
        let mut content: Vec<Value> = Vec::with_capacity(self.blocks.len());
        for mut block in std::mem::take(&mut self.blocks).into_values() {
            let keep = match block.kind() {
                "text" => !draft.is_blank(&block.text),
                "thinking" => block.closed && !is_blank(block.value.get("signature")),
                "tool_use" if !block.closed && whole => {
                    // Cut off by the end of the message: answered, not run.
                    let call = block.call.unwrap_or_default();
                    draft.refuse_cut(call, field(&block.value, "id"), field(&block.value, "name"));
                    block.input.clear();
                    true
                }
                // Not whole, and the stream broke: nobody knows what it was to be.
                "tool_use" => block.call.is_some_and(|call| draft.answers(call)),
                _ => block.closed,
            };
            if !keep {
                continue;
            }
            if !block.text.is_empty() {
                block.value.insert("text".to_owned(), draft.text_of(&block.text).into());
            }
            if block.value.contains_key("input") {
                let cut =
                    whole && draft.stop_reason().is_some_and(StopReason::cuts) && !is_object(&block.input);
                let text = if cut { "" } else { &block.input };
                block.value.insert("input".to_owned(), input_value(text));
            }
            content.push(Value::Object(block.value));
        }
        while !paused && content.last().is_some_and(hangs) {
            content.pop();
        }
        match content.is_empty() {
            true => Vec::new(),
            false => vec![of_parts("assistant", "content", content)],
        }
    }
}

impl Blocks {
    fn start(&mut self, mut message: Object, draft: &mut Draft) -> Read {
        draft.start(message.get("model"));
        update(&message, draft);
        for key in ["stop_reason", "stop_details"] {
            self.said.extend(message.remove(key).map(|value| (key.to_owned(), value)));
        }
        let Some(Value::Array(content)) = message.remove("content") else { return Ok(()) };
        for (at, block) in (0..).zip(content) {
            let Value::Object(block) = block else { return Err(malformed("a block that is no object")) };
            self.begin(at, block, draft)?;
            self.close(at, draft)?;
        }
        Ok(())
    }

    fn begin(&mut self, at: u64, mut value: Object, draft: &mut Draft) -> Read {
        draft.start(None);
        draft.part()?;
        // Before anything of it counts: the one that is there may be a call that runs already.
        if self.blocks.contains_key(&at) {
            return Err(malformed("two blocks with one index"));
        }
        let (mut text, mut call) = (Spans::default(), None);
        match field(&value, "type") {
            "tool_use" => {
                let (id, name) = (field(&value, "id"), field(&value, "name"));
                if id.is_empty() || name.is_empty() {
                    return Err(malformed("a `tool_use` without an id or a name"));
                }
                call = Some(draft.begin(id, name)?);
            }
            "text" => draft.text(taken(&mut value, "text"), &mut text)?,
            "thinking" => draft.thinking(field(&value, "thinking"))?,
            _ => {}
        }
        draft.keep(size(&value))?;
        let block = Block { value, text, input: String::new(), call, closed: false };
        self.blocks.insert(at, block);
        Ok(())
    }

    /// The block with this index, while it grows.
    fn open(&mut self, at: u64) -> Result<&mut Block, ModelFailure> {
        let open = self.blocks.get_mut(&at).filter(|block| !block.closed);
        open.ok_or_else(|| malformed("an event of a block that isn't open"))
    }

    fn grow(&mut self, at: u64, mut delta: Object, draft: &mut Draft) -> Read {
        let block = self.open(at)?;
        match field(&delta, "type") {
            "input_json_delta" => {
                let json = field(&delta, "partial_json");
                block.input.push_str(json);
                return match block.call {
                    Some(call) => draft.input(call, json),
                    None => draft.keep(json.len()),
                };
            }
            "text_delta" if block.kind() == "text" => {
                return draft.text(field(&delta, "text"), &mut block.text);
            }
            "thinking_delta" => draft.thinking(field(&delta, "thinking"))?,
            "citations_delta" => {
                draft.keep(size(&delta))?;
                if let Some(citation) = delta.remove("citation") {
                    match block.value.get_mut("citations") {
                        Some(Value::Array(citations)) => citations.push(citation),
                        _ => drop(block.value.insert("citations".to_owned(), json!([citation]))),
                    }
                }
                return Ok(());
            }
            _ => draft.keep(size(&delta))?,
        }
        delta.remove("type");
        merge(&mut block.value, delta);
        Ok(())
    }

    fn close(&mut self, at: u64, draft: &mut Draft) -> Read {
        let block = self.open(at)?;
        block.closed = true;
        // Some blocks come with their input whole.
        if block.input.is_empty()
            && let Some(input) = block.value.get("input").filter(|input| **input != json!({}))
        {
            block.input = input.to_string();
        }
        if let Some(call) = block.call {
            let (id, name) = (field(&block.value, "id"), field(&block.value, "name"));
            draft.end_call(call, id, name, &block.input);
        }
        Ok(())
    }

    fn stop_as_said(&mut self, draft: &mut Draft) {
        let said = std::mem::take(&mut self.said);
        self.stop(&said, draft);
    }

    fn stop(&mut self, delta: &Object, draft: &mut Draft) {
        let stop = match field(delta, "stop_reason") {
            "" => return,
            "end_turn" => StopReason::End,
            "tool_use" => StopReason::Calls,
            "stop_sequence" => StopReason::Sequence,
            "pause_turn" => StopReason::Paused,
            "max_tokens" => StopReason::MaxTokens { in_call: self.open_call() },
            "model_context_window_exceeded" => StopReason::ContextFull,
            "refusal" => {
                let why = delta.get("stop_details").and_then(|details| details.get("explanation"));
                StopReason::Refused { why: why.and_then(Value::as_str).map(str::to_owned) }
            }
            other => StopReason::Other(other.to_owned()),
        };
        draft.stop(stop);
    }

    /// Whether the last block is a call that isn't whole.
    fn open_call(&self) -> bool {
        let last = self.blocks.values().next_back();
        last.is_some_and(|block| block.call.is_some() && !(block.closed && is_object(&block.input)))
    }
}

/// A block that can't be a message's last.
fn hangs(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking" | "server_tool_use" | "mcp_tool_use")
    )
}

/// The object that an event is about.
fn inner(event: &mut Object, key: &str) -> Result<Object, ModelFailure> {
    match event.remove(key) {
        Some(Value::Object(inner)) => Ok(inner),
        _ => Err(malformed(&format!("a `{}` without a `{key}`", field(event, "type")))),
    }
}

fn index(event: &Object) -> Result<u64, ModelFailure> {
    let index = event.get("index").and_then(Value::as_u64);
    index.ok_or_else(|| malformed("an event of a block without an index"))
}

/// About how many bytes a value takes.
fn size(value: &Object) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of).sum::<usize>() + 8,
            Value::Object(fields) => size(fields),
            _ => 8,
        }
    }
    value.iter().map(|(key, value)| key.len() + of(value)).sum::<usize>() + 8
}

/// Brings the usage up to date; counts that aren't said again stay.
fn update(event: &Object, draft: &mut Draft) {
    let Some(said) = event.get("usage").filter(|usage| usage.is_object()) else { return };
    let before = &draft.usage;
    let now = |key: &str, before: u64| if said[key].is_u64() { count(Some(said), key) } else { before };
    let read = now("cache_read_input_tokens", before.cache_read_tokens);
    let written = now("cache_creation_input_tokens", before.cache_write_tokens);
    let cached = before.cache_read_tokens.saturating_add(before.cache_write_tokens);
    let fresh = now("input_tokens", before.input_tokens.saturating_sub(cached));
    let thinking = said["output_tokens_details"]["thinking_tokens"].as_u64();
    let usage = TokenUsage {
        input_tokens: fresh.saturating_add(read).saturating_add(written),
        output_tokens: now("output_tokens", before.output_tokens),
        cache_read_tokens: read,
        cache_write_tokens: written,
        thinking_tokens: thinking.unwrap_or(before.thinking_tokens),
    };
    draft.usage(usage);
}
