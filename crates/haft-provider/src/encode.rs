//! Results for a wire: one function a provider, from a [`ToolResult`] to its JSON.
//!
//! What the model gets is [`ToolResult::for_model`]; here it is only put into the provider's blocks. Pictures and
//! documents that a wire or its API doesn't take become a line that names them: a request that is refused because of
//! one picture would take all results of the turn with it, and every later request too. So what a picture is, its first bytes
//! say, not whoever sent it: APIs refuse a JPEG that is called a PNG. A structured result is JSON text, except for Gemini, which
//! takes the value. Nothing is ever empty, because some APIs refuse empty text: a tool that said nothing is
//! `(no output)`.

use std::borrow::Cow;

use haft::content::Blob;
use haft::text::truncate_chars;
use haft::{Content, ToolResult};
use serde_json::{Value, json};

use crate::limits::{ANTHROPIC_IMAGE_BYTES_MAX, DOCUMENT_BYTES_MAX, OPENAI_OUTPUT_CHARS_MAX};

/// What a result without content says.
pub const NO_OUTPUT: &str = "(no output)";
/// What a result says that is nothing but spaces and line breaks, where a wire refuses those.
const ONLY_SPACE: &str = "(only white space)";
/// How a text ends that was cut to what a wire takes.
const CUT: &str = "\n[cut here: the provider takes no more]";

/// An Anthropic `tool_result` block.
///
/// `content` is a string where there is only text, otherwise blocks; `is_error` is there on errors.
pub fn anthropic(result: &ToolResult) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    for block in result.for_model() {
        match anthropic_block(&block) {
            // Text without anything to read in it is refused.
            Block::Text(text) if text.trim().is_empty() => {}
            Block::Text(text) => match blocks.last_mut() {
                Some(Value::Object(last)) if last["type"] == "text" => {
                    if let Some(Value::String(before)) = last.get_mut("text") {
                        separate(before);
                        before.push_str(&text);
                    }
                }
                _ => blocks.push(json!({"type": "text", "text": text})),
            },
            Block::Other(block) => blocks.push(block),
        }
    }
    let content = match &mut blocks[..] {
        [] => {
            let nothing = result.for_model().iter().all(|block| block.to_text().is_empty());
            json!(if nothing { NO_OUTPUT } else { ONLY_SPACE })
        }
        [only] if only["type"] == "text" => only["text"].take(),
        _ => Value::Array(blocks),
    };
    anthropic_result(result.call_id(), content, result.is_error())
}

pub(crate) fn anthropic_result(id: &str, content: Value, is_error: bool) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    if is_error {
        block["is_error"] = true.into();
    }
    block
}

enum Block<'a> {
    Text(Cow<'a, str>),
    Other(Value),
}

fn anthropic_block(block: &Content) -> Block<'_> {
    match block {
        Content::Image(blob) if blob.bytes.len() <= ANTHROPIC_IMAGE_BYTES_MAX => match picture(blob) {
            Some(kind) => {
                let source = json!({"type": "base64", "media_type": kind, "data": blob.to_base64()});
                Block::Other(json!({"type": "image", "source": source}))
            }
            None => Block::Text(block.to_text()),
        },
        Content::Document(blob) if !blob.bytes.is_empty() && blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let text = std::str::from_utf8(&blob.bytes).ok().filter(|text| !text.trim().is_empty());
            let source = match (&*blob.media_type, text) {
                _ if is_pdf(blob) => {
                    json!({"type": "base64", "media_type": "application/pdf", "data": blob.to_base64()})
                }
                ("text/plain", Some(text)) => {
                    json!({"type": "text", "media_type": "text/plain", "data": text})
                }
                _ => return Block::Text(block.to_text()),
            };
            let mut document = json!({"type": "document", "source": source});
            if let Some(name) = &blob.name {
                document["title"] = (&**name).into();
            }
            Block::Other(document)
        }
        _ => Block::Text(block.to_text()),
    }
}

/// An OpenAI Responses `function_call_output` item.
///
/// `output` is a string where there is only text, otherwise a list of parts. There is no flag for errors: their text
/// begins with `error: `.
pub fn openai(result: &ToolResult) -> Value {
    let blocks = result.for_model();
    let mut parts: Vec<Value> = Vec::new();
    let mut only_text = true;
    for block in &blocks {
        let part = openai_part(block);
        only_text &= part.is_none();
        parts.push(part.unwrap_or_else(|| json!({"type": "input_text", "text": block.to_text()})));
    }
    let output = if only_text {
        Value::String(bounded(text(result)))
    } else {
        parts.retain(|part| part["text"] != "");
        Value::Array(parts)
    };
    json!({"type": "function_call_output", "call_id": result.call_id(), "output": output})
}

fn openai_part(block: &Content) -> Option<Value> {
    match block {
        Content::Image(blob) if blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let url = data_url(picture(blob)?, blob);
            Some(json!({"type": "input_image", "image_url": url, "detail": "auto"}))
        }
        Content::Document(blob) if is_pdf(blob) && blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let name = blob.name.as_deref().unwrap_or("document.pdf");
            Some(json!({"type": "input_file", "filename": name, "file_data": data_url(PDF, blob)}))
        }
        _ => None,
    }
}

/// An OpenAI Chat Completions message of the role `tool`. It takes text alone.
pub fn openai_chat(result: &ToolResult) -> Value {
    openai_chat_result(result.call_id(), &bounded(text(result)))
}

pub(crate) fn openai_chat_result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// A Gemini part with a `functionResponse`. A call without an id (its id is empty) has a response without one.
///
/// `response` has `output`, or `error` on errors; pictures and PDFs are in `parts`.
pub fn gemini(result: &ToolResult) -> Value {
    gemini_named(result, result.tool_name())
}

/// The response under the name by which the call asked, which may be another name of the tool.
pub(crate) fn gemini_named(result: &ToolResult, name: &str) -> Value {
    if let Some(error) = result.error() {
        let mut words = error.message().to_owned();
        for note in result.notes() {
            separate(&mut words);
            words.push_str(note);
        }
        return gemini_result(result.call_id(), name, json!({"error": words}), Vec::new());
    }
    let mut parts = Vec::new();
    let mut blocks = result.for_model();
    blocks.retain(|block| match gemini_part(block) {
        Some(part) => {
            parts.push(part);
            false
        }
        None => true,
    });
    let output = match &blocks[..] {
        [Content::Structured(value)] => value.clone(),
        [] if !parts.is_empty() => json!("see the attached parts"),
        blocks => json!(joined(blocks)),
    };
    gemini_result(result.call_id(), name, json!({"output": output}), parts)
}

pub(crate) fn gemini_result(id: &str, name: &str, response: Value, parts: Vec<Value>) -> Value {
    let mut found = json!({"name": name, "response": response});
    if !id.is_empty() {
        found["id"] = id.into();
    }
    if !parts.is_empty() {
        found["parts"] = parts.into();
    }
    json!({"functionResponse": found})
}

fn gemini_part(block: &Content) -> Option<Value> {
    let (kind, blob) = match block {
        // It takes no GIF.
        Content::Image(blob) => (picture(blob).filter(|kind| *kind != "image/gif")?, blob),
        Content::Document(blob) if is_pdf(blob) => (PDF, blob),
        _ => return None,
    };
    (blob.bytes.len() <= DOCUMENT_BYTES_MAX)
        .then(|| json!({"inlineData": {"mimeType": kind, "data": blob.to_base64()}}))
}

const PDF: &str = "application/pdf";

/// What a picture is by its first bytes, if it is one that providers take.
fn picture(blob: &Blob) -> Option<&'static str> {
    match &*blob.bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Whether it is called a PDF and begins like one; readers of those let something stand before.
fn is_pdf(blob: &Blob) -> bool {
    let head = &blob.bytes[..blob.bytes.len().min(1024)];
    &*blob.media_type == PDF && head.windows(5).any(|bytes| bytes == b"%PDF-")
}

fn data_url(kind: &str, blob: &Blob) -> String {
    format!("data:{kind};base64,{}", blob.to_base64())
}

/// The result as one text that says whether it is an error.
fn text(result: &ToolResult) -> String {
    let text = joined(&result.for_model());
    if result.is_error() { error_text(&text) } else { text }
}

/// An error where there is no flag for it.
pub(crate) fn error_text(words: &str) -> String {
    format!("error: {words}")
}

/// Blocks as one text, which is not empty.
fn joined(blocks: &[Content]) -> String {
    let mut all = String::new();
    for block in blocks {
        separate(&mut all);
        all.push_str(&block.to_text());
    }
    if all.is_empty() { NO_OUTPUT.to_owned() } else { all }
}

/// Begins a new line.
fn separate(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The text within what OpenAI takes.
fn bounded(mut text: String) -> String {
    if truncate_chars(&text, OPENAI_OUTPUT_CHARS_MAX).len() < text.len() {
        text.truncate(truncate_chars(&text, OPENAI_OUTPUT_CHARS_MAX - CUT.len()).len());
        text.push_str(CUT);
    }
    text
}
