//! Anthropic's events: blocks that begin, grow and stop, by their index.
//!
//! Blocks are kept as they came, also those of kinds and with deltas that nobody here knows. Left out of what is sent
//! back is only what the API refuses there: text without anything in it, thinking without its signature, and, at the
//! end of a message, thinking and the server's own calls that nothing follows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Delta;
use super::draft::{Draft, field, input_value, is_blank, is_object, malformed, merge, parsed};
use crate::reply::{Failure, Stop, Usage};

#[derive(Debug, Clone, Default)]
pub(super) struct Blocks {
    blocks: BTreeMap<u64, Block>,
    /// The end as the beginning said it: so it is with messages that were not written piece by piece.
    said: Map<String, Value>,
}

#[derive(Debug, Clone)]
struct Block {
    value: Map<String, Value>,
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

impl Blocks {
    pub(super) fn event(
        &mut self,
        data: &str,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let mut event = parsed(data)?;
        match field(&event, "type") {
            "message_start" => {
                if draft.has_started() {
                    draft.restart(out)?;
                    *self = Blocks::default();
                }
                match event.remove("message") {
                    Some(Value::Object(message)) => self.start(message, draft, out),
                    _ => Err(malformed("a `message_start` without a message")),
                }
            }
            "content_block_start" => match event.remove("content_block") {
                Some(Value::Object(block)) => self.begin(index(&event)?, block, draft, out),
                _ => Err(malformed("a `content_block_start` without a block")),
            },
            "content_block_delta" => match event.remove("delta") {
                Some(Value::Object(delta)) => self.grow(index(&event)?, delta, draft, out),
                _ => Err(malformed("a `content_block_delta` without a delta")),
            },
            "content_block_stop" => self.close(index(&event)?, draft, out),
            "message_delta" => {
                update(&mut event, draft, out);
                if let Some(delta) = event.get("delta").and_then(Value::as_object) {
                    self.stop(delta, draft, out);
                }
                Ok(())
            }
            "message_stop" => {
                let said = std::mem::take(&mut self.said);
                self.stop(&said, draft, out);
                draft.stop(Stop::End, out);
                draft.close();
                Ok(())
            }
            "error" => {
                let error = event.get("error").and_then(Value::as_object);
                let (kind, message) =
                    error.map_or(("", ""), |error| (field(error, "type"), field(error, "message")));
                Err(Failure::said(None, kind, message))
            }
            _ => Ok(()),
        }
    }

    /// A whole message at once.
    pub(super) fn whole(
        &mut self,
        body: &str,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let message = parsed(body)?;
        if field(&message, "type") == "error" {
            return self.event(body, draft, out);
        }
        self.start(message, draft, out)?;
        let said = std::mem::take(&mut self.said);
        self.stop(&said, draft, out);
        Ok(())
    }

    fn start(
        &mut self,
        mut message: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        draft.start(message.get("model").and_then(Value::as_str), out);
        update(&mut message, draft, out);
        for key in ["stop_reason", "stop_details"] {
            self.said.extend(message.remove(key).map(|value| (key.to_owned(), value)));
        }
        let Some(Value::Array(content)) = message.remove("content") else { return Ok(()) };
        for (at, block) in (0..).zip(content) {
            let Value::Object(block) = block else { return Err(malformed("a block that is no object")) };
            let shown = match field(&block, "type") {
                "text" => Some((field(&block, "text").to_owned(), false)),
                "thinking" => Some((field(&block, "thinking").to_owned(), true)),
                _ => None,
            };
            let input = block.get("input").map(Value::to_string);
            self.begin(at, block, draft, out)?;
            match shown {
                Some((text, false)) => draft.text(&text, out)?,
                Some((text, true)) => draft.thinking(&text, out)?,
                None => {}
            }
            if let (Some(block), Some(input)) = (self.blocks.get_mut(&at), input) {
                block.input = input;
            }
            self.close(at, draft, out)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        at: u64,
        value: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        draft.start(None, out);
        draft.part()?;
        draft.keep(size(&value))?;
        let mut call = None;
        if field(&value, "type") == "tool_use" {
            let (id, name) = (field(&value, "id"), field(&value, "name"));
            if id.is_empty() || name.is_empty() {
                return Err(malformed("a `tool_use` without an id or a name"));
            }
            call = Some(draft.begin(id, name, out)?);
        }
        let block = Block { value, input: String::new(), call, closed: false };
        match self.blocks.insert(at, block) {
            None => Ok(()),
            Some(_) => Err(malformed("two blocks with one index")),
        }
    }

    fn grow(
        &mut self,
        at: u64,
        mut delta: Map<String, Value>,
        draft: &mut Draft,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let Some(block) = self.blocks.get_mut(&at).filter(|block| !block.closed) else {
            return Err(malformed("a delta of a block that isn't open"));
        };
        match field(&delta, "type") {
            "input_json_delta" => {
                let json = field(&delta, "partial_json");
                block.input.push_str(json);
                match block.call {
                    Some(call) => draft.input(call, json, out)?,
                    None => draft.keep(json.len())?,
                }
                return Ok(());
            }
            "text_delta" => draft.text(field(&delta, "text"), out)?,
            "thinking_delta" => draft.thinking(field(&delta, "thinking"), out)?,
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

    fn close(&mut self, at: u64, draft: &mut Draft, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let Some(block) = self.blocks.get_mut(&at).filter(|block| !block.closed) else {
            return Err(malformed("the end of a block that isn't open"));
        };
        block.closed = true;
        // Some blocks come with their input whole.
        if block.input.is_empty()
            && let Some(input) = block.value.get("input").filter(|input| **input != json!({}))
        {
            block.input = input.to_string();
        }
        if let Some(call) = block.call {
            let (id, name) = (field(&block.value, "id"), field(&block.value, "name"));
            draft.end_call(call, id, name, &block.input, out);
        }
        Ok(())
    }

    fn stop(&mut self, delta: &Map<String, Value>, draft: &mut Draft, out: &mut Vec<Delta>) {
        let stop = match field(delta, "stop_reason") {
            "" => return,
            "end_turn" => Stop::End,
            "tool_use" => Stop::Calls,
            "stop_sequence" => Stop::Sequence,
            "pause_turn" => Stop::Paused,
            "max_tokens" => Stop::MaxTokens { in_call: self.open_call() },
            "model_context_window_exceeded" => Stop::ContextFull,
            "refusal" => {
                let why = delta.get("stop_details").and_then(|details| details.get("explanation"));
                Stop::Refused { why: why.and_then(Value::as_str).map(str::to_owned) }
            }
            other => Stop::Other(other.to_owned()),
        };
        draft.stop(stop, out);
    }

    /// Whether the last block is a call that isn't whole.
    fn open_call(&self) -> bool {
        let last = self.blocks.values().next_back();
        last.is_some_and(|block| block.call.is_some() && !(block.closed && is_object(&block.input)))
    }

    /// The message as it is sent back.
    pub(super) fn items(self, draft: &mut Draft) -> Vec<Value> {
        let whole = draft.is_whole();
        let paused = draft.stop_reason() == Some(&Stop::Paused);
        let mut content: Vec<Value> = Vec::with_capacity(self.blocks.len());
        for mut block in self.blocks.into_values() {
            let keep = match block.kind() {
                "text" => !is_blank(block.value.get("text")),
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
            if block.value.contains_key("input") {
                let cut = whole && draft.stop_reason().is_some_and(Stop::cuts) && !is_object(&block.input);
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
            false => vec![json!({"role": "assistant", "content": content})],
        }
    }
}

/// A block that can't be a message's last.
fn hangs(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking" | "server_tool_use" | "mcp_tool_use")
    )
}

fn index(event: &Map<String, Value>) -> Result<u64, Failure> {
    event
        .get("index")
        .and_then(Value::as_u64)
        .ok_or_else(|| malformed("an event of a block without an index"))
}

/// About how many bytes a value takes.
fn size(value: &Map<String, Value>) -> usize {
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
fn update(event: &mut Map<String, Value>, draft: &mut Draft, out: &mut Vec<Delta>) {
    let Some(Value::Object(said)) = event.get("usage") else { return };
    let count = |key: &str| said.get(key).and_then(Value::as_u64);
    let before = &draft.usage;
    let read = count("cache_read_input_tokens").unwrap_or(before.cache_read_tokens);
    let written = count("cache_creation_input_tokens").unwrap_or(before.cache_write_tokens);
    let fresh = count("input_tokens").unwrap_or_else(|| {
        before.input_tokens.saturating_sub(before.cache_read_tokens.saturating_add(before.cache_write_tokens))
    });
    let details = said.get("output_tokens_details");
    let thinking = details.and_then(|details| details.get("thinking_tokens")).and_then(Value::as_u64);
    let usage = Usage {
        input_tokens: fresh.saturating_add(read).saturating_add(written),
        output_tokens: count("output_tokens").unwrap_or(before.output_tokens),
        cache_read_tokens: read,
        cache_write_tokens: written,
        thinking_tokens: thinking.unwrap_or(before.thinking_tokens),
    };
    draft.usage(usage, out);
}
