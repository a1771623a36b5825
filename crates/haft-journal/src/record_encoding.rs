//! Encodes records as JSON directly from the core's types, without intermediate copies.
//!
//! The encoded records have no opening brace: number and time are inserted when they are written.
//! The kind comes first, so that a reader can classify a line by its first bytes. An input is
//! encoded once, and hashed in the output buffer.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::context::DirectoryChange;
use haft::ports::CallIntent;
use haft::text::truncate_bytes;
use haft::{ResultBlock, ToolResult};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::journal_disk::{sha256, to_hex};
use crate::limits::TEXT_BYTES_MAX;
use crate::record::{FileBefore, Record, error_kind_name};

/// Encodes a record.
pub(crate) fn encode_record(record: &Record) -> Vec<u8> {
    let mut json = serde_json::to_vec(record).expect("records have text keys");
    json.remove(0);
    json
}

/// Encodes the items of the conversation from an index on.
pub(crate) fn encode_items(from: usize, items: &[Value]) -> Vec<u8> {
    let mut json = begin_record("items");
    append_field(&mut json, "from", &from);
    append_field(&mut json, "items", items);
    json.push(b'}');
    json
}

/// Encodes a complete message of the model.
pub(crate) fn encode_reply(turn: u64, items: &[Value]) -> Vec<u8> {
    let mut json = begin_record("reply");
    append_field(&mut json, "turn", &turn);
    append_field(&mut json, "items", items);
    json.push(b'}');
    json
}

/// Encodes a call that is about to run; [`append_files`] completes it.
pub(crate) fn encode_intent(intent: &CallIntent<'_>) -> Vec<u8> {
    let mut json = begin_record("intent");
    append_field(&mut json, "agent", intent.agent);
    append_field(&mut json, "turn", &intent.turn);
    append_field(&mut json, "call", intent.call_id);
    append_field(&mut json, "tool", intent.tool);
    let input = append_field(&mut json, "input", intent.input);
    let digest = sha256(&json[input..]);
    append_field(&mut json, "digest", &digest);
    append_field(&mut json, "effects", &DisplayValue(&intent.effects.declared));
    append_field(&mut json, "changes", &intent.side_effects);
    append_field(&mut json, "again", &intent.rerunnable);
    append_field(&mut json, "by", intent.decision.allowed_by());
    append_field(&mut json, "source", &intent.decision.source);
    append_moved(&mut json, intent.moved);
    json
}

/// Appends the state of the files that a call may change, and the closing brace.
pub(crate) fn append_files(json: &mut Vec<u8>, files: &[FileBefore]) {
    if !files.is_empty() {
        append_field(json, "files", files);
    }
    json.push(b'}');
}

/// The fields of an outcome record.
pub(crate) struct OutcomeFields {
    pub(crate) agent: String,
    pub(crate) turn: u64,
    /// When the call ended, in microseconds since 1970.
    pub(crate) at: u64,
    /// Whether the result is recorded in addition to its digest.
    pub(crate) with_result: bool,
    pub(crate) moved: DirectoryChange,
    pub(crate) result: ToolResult,
}

/// Encodes the outcome of a call.
pub(crate) fn encode_outcome(ended: &OutcomeFields) -> Vec<u8> {
    let result = &ended.result;
    let mut json = begin_record("outcome");
    append_field(&mut json, "agent", &ended.agent);
    append_field(&mut json, "turn", &ended.turn);
    append_field(&mut json, "call", result.call_id());
    append_field(&mut json, "tool", result.tool_name());
    if let Some(kind) = result.error_kind() {
        append_field(&mut json, "error", &error_kind_name(kind));
    }
    let content = result.for_model();
    if ended.with_result {
        let blocks: Vec<BlockRef<'_>> = content.iter().map(BlockRef::from_content).collect();
        append_field(&mut json, "result", &blocks);
    }
    append_field(&mut json, "digest", &content_digest(&content));
    append_field(&mut json, "micros", &u64::try_from(result.duration().as_micros()).unwrap_or(u64::MAX));
    if result.was_concurrent() {
        append_field(&mut json, "beside", &true);
    }
    if let Some(path) = result.offloaded_to() {
        append_field(&mut json, "kept", path);
        if let Ok(metadata) = path.metadata() {
            append_field(&mut json, "kept_bytes", &metadata.len());
        }
    }
    append_field(&mut json, "ended", &ended.at);
    if result.is_cached() {
        append_field(&mut json, "cached", &true);
    }
    append_moved(&mut json, &ended.moved);
    json.push(b'}');
    json
}

/// Returns the SHA-256 of the concatenated texts and bytes that the model receives.
fn content_digest(content: &[ResultBlock]) -> String {
    let mut hasher = Sha256::new();
    for block in content {
        match block {
            ResultBlock::Text(text) => hasher.update(text.as_bytes()),
            ResultBlock::Image(blob) | ResultBlock::Document(blob) => hasher.update(&blob.bytes),
            ResultBlock::Structured(value) => hasher.update(value.to_string()),
            ResultBlock::Link(link) => hasher.update(link.uri.as_bytes()),
            other => hasher.update(format!("{other:?}")),
        }
    }
    to_hex(&hasher.finalize())
}

fn begin_record(kind: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    [b"\"is\":\"", kind.as_bytes(), b"\""].iter().for_each(|part| json.extend_from_slice(part));
    json
}

/// Appends a field, and returns the offset of its value.
fn append_field<T: Serialize + ?Sized>(json: &mut Vec<u8>, name: &str, value: &T) -> usize {
    [b",\"", name.as_bytes(), b"\":"].iter().for_each(|part| json.extend_from_slice(part));
    let at = json.len();
    if serde_json::to_writer(&mut *json, value).is_err() {
        // For example a path that is not valid UTF-8.
        json.truncate(at);
        json.extend_from_slice(b"null");
    }
    at
}

fn append_moved(json: &mut Vec<u8>, moved: &DirectoryChange) {
    if !moved.is_nowhere() {
        append_field(json, "moved", moved);
    }
}

/// Serializes a value as its display text.
struct DisplayValue<T>(T);

impl<T: std::fmt::Display> Serialize for DisplayValue<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A borrowed result block, in the format of [`RecordedBlock`](crate::RecordedBlock).
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum BlockRef<'a> {
    Text(Cow<'a, str>),
    Image(&'a str, String),
    Document(&'a str, String),
    Json(&'a Value),
    Link(&'a str, &'a str),
}

impl BlockRef<'_> {
    fn from_content(content: &ResultBlock) -> BlockRef<'_> {
        match content {
            ResultBlock::Text(text) => BlockRef::Text(truncate_text(text)),
            ResultBlock::Image(blob) => BlockRef::Image(&blob.media_type, STANDARD.encode(&blob.bytes)),
            ResultBlock::Document(blob) => BlockRef::Document(&blob.media_type, STANDARD.encode(&blob.bytes)),
            ResultBlock::Structured(value) => BlockRef::Json(value),
            ResultBlock::Link(link) => BlockRef::Link(&link.uri, &link.name),
            other => BlockRef::Text(Cow::Owned(format!("{other:?}"))),
        }
    }
}

/// Truncates a text to the limit.
fn truncate_text(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let prefix = truncate_bytes(text, TEXT_BYTES_MAX);
    Cow::Owned(format!("{prefix}\n[… {} bytes more were not recorded]", text.len() - prefix.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest is that of the plain text, so other programs can verify it.
    #[test]
    fn a_digest_is_that_of_the_text() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(content_digest(&[ResultBlock::text("abc")]), abc);
        assert_eq!(
            content_digest(&[
                ResultBlock::text("a"),
                ResultBlock::image("image/png", b"b".to_vec()),
                ResultBlock::text("c")
            ]),
            abc
        );
        assert_eq!(
            content_digest(&[ResultBlock::Structured(serde_json::json!({"a": 1}))]),
            sha256(br#"{"a":1}"#)
        );
    }
}
