//! Records as JSON, made from what the core has without a copy in between.
//!
//! What is made here has no first brace: number and time go before it when it is written. The kind comes first, so that a
//! reader can pass over a line by its beginning. An input that is hashed is made JSON once, and hashed where it stands.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::context::Moved;
use haft::ports::Intent;
use haft::text::truncate_bytes;
use haft::{Content, ToolResult};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::journal_disk::{hexadecimal, sha256};
use crate::limits::TEXT_BYTES_MAX;
use crate::record::{FileBefore, Record, word};

/// A record.
pub(crate) fn record(record: &Record) -> Vec<u8> {
    let mut json = serde_json::to_vec(record).expect("records have text keys");
    json.remove(0);
    json
}

/// What the conversation has from a place on.
pub(crate) fn items(from: usize, items: &[Value]) -> Vec<u8> {
    let mut json = begin("items");
    field(&mut json, "from", &from);
    field(&mut json, "items", items);
    json.push(b'}');
    json
}

/// A message of the model that is whole.
pub(crate) fn reply(turn: u64, items: &[Value]) -> Vec<u8> {
    let mut json = begin("reply");
    field(&mut json, "turn", &turn);
    field(&mut json, "items", items);
    json.push(b'}');
    json
}

/// A call that is about to run, without its end: [`files`] follows.
pub(crate) fn intent(intent: &Intent<'_>) -> Vec<u8> {
    let mut json = begin("intent");
    field(&mut json, "agent", intent.agent);
    field(&mut json, "turn", &intent.turn);
    field(&mut json, "call", intent.call_id);
    field(&mut json, "tool", intent.tool);
    let input = field(&mut json, "input", intent.input);
    let digest = sha256(&json[input..]);
    field(&mut json, "digest", &digest);
    field(&mut json, "effects", &DisplayValue(&intent.effects.declared));
    field(&mut json, "changes", &intent.side_effects);
    field(&mut json, "again", &intent.rerunnable);
    field(&mut json, "by", intent.decision.allowed_by());
    field(&mut json, "source", &intent.decision.source);
    moved(&mut json, intent.moved);
    json
}

/// How what an intent may change looked before, and the end of it.
pub(crate) fn files(json: &mut Vec<u8>, files: &[FileBefore]) {
    if !files.is_empty() {
        field(json, "files", files);
    }
    json.push(b'}');
}

/// What came of a call.
pub(crate) struct OutcomeFields {
    pub(crate) agent: String,
    pub(crate) turn: u64,
    /// When, in microseconds since 1970.
    pub(crate) at: u64,
    /// Whether the result is kept, and not only its digest.
    pub(crate) with_result: bool,
    pub(crate) moved: Moved,
    pub(crate) result: ToolResult,
}

/// The outcome of a call.
pub(crate) fn outcome(ended: &OutcomeFields) -> Vec<u8> {
    let result = &ended.result;
    let mut json = begin("outcome");
    field(&mut json, "agent", &ended.agent);
    field(&mut json, "turn", &ended.turn);
    field(&mut json, "call", result.call_id());
    field(&mut json, "tool", result.tool_name());
    if let Some(kind) = result.error_kind() {
        field(&mut json, "error", &word(kind));
    }
    let content = result.for_model();
    if ended.with_result {
        let blocks: Vec<BlockRef<'_>> = content.iter().map(BlockRef::from_content).collect();
        field(&mut json, "result", &blocks);
    }
    field(&mut json, "digest", &digest(&content));
    field(&mut json, "micros", &u64::try_from(result.duration().as_micros()).unwrap_or(u64::MAX));
    if result.was_concurrent() {
        field(&mut json, "beside", &true);
    }
    if let Some(path) = result.offloaded_to() {
        field(&mut json, "kept", path);
        if let Ok(there) = path.metadata() {
            field(&mut json, "kept_bytes", &there.len());
        }
    }
    field(&mut json, "ended", &ended.at);
    if result.is_cached() {
        field(&mut json, "cached", &true);
    }
    moved(&mut json, &ended.moved);
    json.push(b'}');
    json
}

/// The SHA-256 of what a model gets: its texts and bytes, one after another.
fn digest(content: &[Content]) -> String {
    let mut hasher = Sha256::new();
    for block in content {
        match block {
            Content::Text(text) => hasher.update(text.as_bytes()),
            Content::Image(blob) | Content::Document(blob) => hasher.update(&blob.bytes),
            Content::Structured(value) => hasher.update(value.to_string()),
            Content::Link(link) => hasher.update(link.uri.as_bytes()),
            other => hasher.update(format!("{other:?}")),
        }
    }
    hexadecimal(&hasher.finalize())
}

fn begin(kind: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    [b"\"is\":\"", kind.as_bytes(), b"\""].iter().for_each(|part| json.extend_from_slice(part));
    json
}

/// Appends a field; its value begins where this says.
fn field<T: Serialize + ?Sized>(json: &mut Vec<u8>, name: &str, value: &T) -> usize {
    [b",\"", name.as_bytes(), b"\":"].iter().for_each(|part| json.extend_from_slice(part));
    let at = json.len();
    if serde_json::to_writer(&mut *json, value).is_err() {
        // A path that is no text, for example.
        json.truncate(at);
        json.extend_from_slice(b"null");
    }
    at
}

fn moved(json: &mut Vec<u8>, moved: &Moved) {
    if !moved.is_nowhere() {
        field(json, "moved", moved);
    }
}

/// Something as the text that it is shown as.
struct DisplayValue<T>(T);

impl<T: std::fmt::Display> Serialize for DisplayValue<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A block of a result as [`RecordedBlock`](crate::RecordedBlock) reads it, of what is there.
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
    fn from_content(content: &Content) -> BlockRef<'_> {
        match content {
            Content::Text(text) => BlockRef::Text(cut(text)),
            Content::Image(blob) => BlockRef::Image(&blob.media_type, STANDARD.encode(&blob.bytes)),
            Content::Document(blob) => BlockRef::Document(&blob.media_type, STANDARD.encode(&blob.bytes)),
            Content::Structured(value) => BlockRef::Json(value),
            Content::Link(link) => BlockRef::Link(&link.uri, &link.name),
            other => BlockRef::Text(Cow::Owned(format!("{other:?}"))),
        }
    }
}

/// A text within its bound.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let kept = truncate_bytes(text, TEXT_BYTES_MAX);
    Cow::Owned(format!("{kept}\n[… {} bytes more were not recorded]", text.len() - kept.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anybody who has the text can check it.
    #[test]
    fn a_digest_is_that_of_the_text() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&[Content::text("abc")]), abc);
        assert_eq!(
            digest(&[Content::text("a"), Content::image("image/png", b"b".to_vec()), Content::text("c")]),
            abc
        );
        assert_eq!(digest(&[Content::Structured(serde_json::json!({"a": 1}))]), sha256(br#"{"a":1}"#));
    }
}
