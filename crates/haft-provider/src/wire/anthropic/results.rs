//! Anthropic's `tool_result` blocks, and the references to deferred tools in them.

use std::borrow::Cow;

use haft::search::TOOL_SEARCH;
use haft::{ResultBlock, ToolResult};
use haft_agent::{RequestedCall, ToolDeferral, ToolDefinitions};
use serde_json::{Value, json};

use crate::limits::{ANTHROPIC_IMAGE_BYTES_MAX, DOCUMENT_BYTES_MAX};
use crate::wire::EncodedResult;
use crate::wire::result_content::{NO_OUTPUT, PDF, found_tools, image_type, is_pdf, start_line};

/// What a result says that is nothing but spaces and line breaks, which the API rejects.
const ONLY_SPACE: &str = "(only white space)";

/// Encodes a result. `content` is a string where there is only text, otherwise blocks; `is_error` is there on
/// errors.
pub(super) fn encode_result(
    call: &RequestedCall,
    result: &ToolResult,
    tools: Option<&ToolDefinitions>,
) -> EncodedResult {
    let id = &*call.call.id;
    if let Some(tools) = tools.filter(|tools| tools.deferral() == ToolDeferral::Native)
        && result.tool_name() == TOOL_SEARCH
        && let Some(references) = encode_references(result, tools)
    {
        // Notes have no place in it.
        let note = (!result.notes().is_empty()).then(|| result.notes().join("\n"));
        return (encode_content(id, references, false), note);
    }
    let mut blocks: Vec<Value> = Vec::new();
    for block in result.for_model() {
        match encode_block(&block) {
            // Text without anything to read in it is rejected.
            EncodedBlock::Text(text) if text.trim().is_empty() => {}
            EncodedBlock::Text(text) => match blocks.last_mut() {
                Some(Value::Object(last)) if last["type"] == "text" => {
                    if let Some(Value::String(before)) = last.get_mut("text") {
                        start_line(before);
                        before.push_str(&text);
                    }
                }
                _ => blocks.push(json!({"type": "text", "text": text})),
            },
            EncodedBlock::Other(block) => blocks.push(block),
        }
    }
    let content = match &mut blocks[..] {
        [] => {
            let is_empty = result.for_model().iter().all(|block| block.to_text().is_empty());
            json!(if is_empty { NO_OUTPUT } else { ONLY_SPACE })
        }
        [only] if only["type"] == "text" => only["text"].take(),
        _ => Value::Array(blocks),
    };
    (encode_content(id, content, result.is_error()), None)
}

fn encode_content(id: &str, content: Value, is_error: bool) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    if is_error {
        block["is_error"] = true.into();
    }
    block
}

enum EncodedBlock<'a> {
    Text(Cow<'a, str>),
    Other(Value),
}

fn encode_block(block: &ResultBlock) -> EncodedBlock<'_> {
    match block {
        ResultBlock::Image(blob) if blob.bytes.len() <= ANTHROPIC_IMAGE_BYTES_MAX => match image_type(blob) {
            Some(kind) => {
                let source = json!({"type": "base64", "media_type": kind, "data": blob.to_base64()});
                EncodedBlock::Other(json!({"type": "image", "source": source}))
            }
            None => EncodedBlock::Text(block.to_text()),
        },
        ResultBlock::Document(blob) if !blob.bytes.is_empty() && blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let text = std::str::from_utf8(&blob.bytes).ok().filter(|text| !text.trim().is_empty());
            let source = match (&*blob.media_type, text) {
                _ if is_pdf(blob) => json!({"type": "base64", "media_type": PDF, "data": blob.to_base64()}),
                ("text/plain", Some(text)) => {
                    json!({"type": "text", "media_type": "text/plain", "data": text})
                }
                _ => return EncodedBlock::Text(block.to_text()),
            };
            let mut document = json!({"type": "document", "source": source});
            if let Some(name) = &blob.name {
                document["title"] = (&**name).into();
            }
            EncodedBlock::Other(document)
        }
        _ => EncodedBlock::Text(block.to_text()),
    }
}

/// Encodes what a search found as `tool_reference` blocks. `None` if there is nothing to refer to: then the
/// result is one like any other.
fn encode_references(result: &ToolResult, tools: &ToolDefinitions) -> Option<Value> {
    let names = found_tools(result).iter().filter_map(|tool| tool["name"].as_str());
    let references: Vec<Value> = names.filter(|name| tools.is_referable(name)).map(tool_reference).collect();
    (!references.is_empty()).then(|| references.into())
}

fn tool_reference(name: &str) -> Value {
    json!({"type": "tool_reference", "tool_name": name})
}

/// Returns the results in a message.
pub(super) fn past_results(message: &Value) -> impl Iterator<Item = &Value> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "tool_result")
}

/// Returns the names of the tools that a result refers to.
pub(super) fn referenced_tools(result: &Value) -> impl Iterator<Item = &str> {
    let blocks = result["content"].as_array().into_iter().flatten();
    let references = blocks.filter(|block| block["type"] == "tool_reference");
    references.filter_map(|block| block["tool_name"].as_str())
}

/// Removes references to what is not among the deferred tools of a request: the API rejects the whole request
/// for one.
pub(super) fn with_known_references<'v>(item: &'v Value, tools: &ToolDefinitions) -> Cow<'v, Value> {
    let is_known = |result: &Value| referenced_tools(result).all(|name| tools.is_referable(name));
    if past_results(item).all(is_known) {
        return Cow::Borrowed(item);
    }
    let mut item = item.clone();
    for block in item["content"].as_array_mut().into_iter().flatten() {
        if block["type"] != "tool_result" || is_known(block) {
            continue;
        }
        let names: Vec<&str> = referenced_tools(block).collect();
        let kept: Vec<&str> = names.iter().copied().filter(|name| tools.is_referable(name)).collect();
        block["content"] = if kept.is_empty() {
            Value::String(format!("found {}", names.join(", ")))
        } else {
            kept.into_iter().map(tool_reference).collect()
        };
    }
    Cow::Owned(item)
}
