//! What the results of all wires share.
//!
//! The model gets [`ToolResult::for_model`]; a wire only puts it into the provider's blocks. Images and
//! documents that a wire or its API doesn't take become a line that names them: a request that is rejected
//! because of one image would take all results of the turn with it, and every later request too. So the image
//! type is detected from the magic bytes and the declared type is ignored: APIs reject a JPEG that is called
//! a PNG. Nothing is ever empty, because some APIs reject empty text: a tool without output says
//! `(no output)`.

use haft::content::BinaryContent;
use haft::text::truncate_chars;
use haft::{ResultBlock, ToolResult};
use serde_json::Value;

use crate::limits::OPENAI_OUTPUT_CHARS_MAX;

/// What a result without content says.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// How a text ends that was cut to what a wire takes.
const CUT: &str = "\n[cut here: the provider takes no more]";
pub(crate) const PDF: &str = "application/pdf";

/// Detects the type of an image from its magic bytes, if providers take that type.
pub(crate) fn image_type(blob: &BinaryContent) -> Option<&'static str> {
    match &*blob.bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Whether a document is called a PDF and begins like one; PDF readers allow something before the header.
pub(crate) fn is_pdf(blob: &BinaryContent) -> bool {
    let head = &blob.bytes[..blob.bytes.len().min(1024)];
    &*blob.media_type == PDF && head.windows(5).any(|bytes| bytes == b"%PDF-")
}

pub(crate) fn data_url(kind: &str, blob: &BinaryContent) -> String {
    format!("data:{kind};base64,{}", blob.to_base64())
}

/// Returns a result as one text, within what OpenAI takes, that says whether it is an error.
pub(crate) fn result_text(result: &ToolResult) -> String {
    let text = join_text(&result.for_model());
    truncate_text(if result.is_error() { error_text(&text) } else { text })
}

/// Marks an error where the wire has no flag for it.
pub(crate) fn error_text(message: &str) -> String {
    format!("{ERROR_PREFIX}{message}")
}

/// How the text of an error begins where the wire has no flag for it.
pub(crate) const ERROR_PREFIX: &str = "error: ";

/// Joins blocks to one text, which is not empty.
pub(crate) fn join_text(blocks: &[ResultBlock]) -> String {
    let mut joined = String::new();
    for block in blocks {
        start_line(&mut joined);
        joined.push_str(&block.to_text());
    }
    if joined.is_empty() { NO_OUTPUT.to_owned() } else { joined }
}

/// Begins a new line.
pub(crate) fn start_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn truncate_text(mut text: String) -> String {
    if truncate_chars(&text, OPENAI_OUTPUT_CHARS_MAX).len() < text.len() {
        text.truncate(truncate_chars(&text, OPENAI_OUTPUT_CHARS_MAX - CUT.len()).len());
        text.push_str(CUT);
    }
    text
}

/// Returns what a search found, as `ToolSearch` reports it: name, description and schema of each tool.
pub(crate) fn found_tools(result: &ToolResult) -> &[Value] {
    let blocks = result.outcome().map_or(&[][..], |output| output.blocks());
    let mut lists = blocks.iter().filter_map(|block| match block {
        ResultBlock::Structured(Value::Array(tools)) => Some(&tools[..]),
        _ => None,
    });
    lists.next().unwrap_or_default()
}
