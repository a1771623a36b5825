//! What an offer gives back: results of tools, contents of resources, prompts, completions, refusals; and how they are
//! written in each revision.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haft::content::Blob;
use haft::{Content, Output, ToolResult};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::who::Revision;

/// Where a server says who it is.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The result of a tool.
///
/// ```
/// use haft_mcp::server::Reply;
///
/// let reply = Reply::text("12 files");
/// assert!(!reply.is_error);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Reply {
    /// What it says, in order.
    pub content: Vec<Block>,
    /// The same for code. Clients of older revisions get it only if it is an object.
    pub structured: Option<Value>,
    /// The tool failed, in the words of the content.
    pub is_error: bool,
    /// Goes out as `_meta`.
    pub meta: Option<Map<String, Value>>,
}

/// One block of a result or a prompt.
#[derive(Debug, Clone)]
pub enum Block {
    /// A block of `haft`: a document that is sound goes out as audio, any other as an embedded resource.
    Content(Content),
    /// A block as the protocol writes it, for what has no other form here.
    Raw(Box<RawValue>),
}

impl From<Content> for Block {
    fn from(content: Content) -> Block {
        Block::Content(content)
    }
}

impl Block {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Block {
        Block::Content(Content::text(text))
    }

    /// A block as the protocol writes it. A value always can be written.
    pub fn raw(value: &Value) -> Block {
        match serde_json::value::to_raw_value(value) {
            Ok(raw) => Block::Raw(raw),
            Err(error) => Block::text(format!("[a block was left out: {error}]")),
        }
    }
}

impl Reply {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Reply {
        Reply { content: vec![Block::text(text)], ..Reply::default() }
    }

    /// A failure, in words for the model.
    pub fn error(text: impl Into<Arc<str>>) -> Reply {
        Reply { content: vec![Block::text(text)], is_error: true, ..Reply::default() }
    }

    /// These blocks.
    pub fn new(content: impl IntoIterator<Item = Block>) -> Reply {
        Reply { content: content.into_iter().collect(), ..Reply::default() }
    }

    /// The same with a value for code.
    #[must_use]
    pub fn with_structured(mut self, value: Value) -> Reply {
        self.structured = Some(value);
        self
    }

    /// The same with something in `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: Value) -> Reply {
        self.meta.get_or_insert_default().insert(key.to_owned(), value);
        self
    }
}

impl From<Output> for Reply {
    /// The first structured block is the value for code; as the protocol wants it, its text is there as well.
    fn from(output: Output) -> Reply {
        let mut reply = Reply::default();
        for block in output.into_blocks() {
            if let Content::Structured(value) = block {
                reply.content.push(Block::text(match &value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                }));
                reply.structured.get_or_insert(value);
            } else {
                reply.content.push(Block::Content(block));
            }
        }
        reply
    }
}

impl From<&ToolResult> for Reply {
    /// A failed call is a result that says so: the model is to read it.
    fn from(result: &ToolResult) -> Reply {
        let mut reply = Reply::from(Output::new(result.for_model()));
        reply.is_error = result.is_error();
        reply
    }
}

/// What a resource holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Contents {
    /// Whose content it is.
    pub uri: Arc<str>,
    /// Its kind, where known.
    pub media_type: Option<Arc<str>>,
    /// The content itself.
    pub body: Body,
    /// Goes out as `_meta`.
    pub meta: Option<Map<String, Value>>,
}

/// Text, or bytes.
#[derive(Debug, Clone)]
pub enum Body {
    /// Text.
    Text(Arc<str>),
    /// Bytes, not encoded.
    Bytes(Arc<[u8]>),
}

impl Contents {
    /// A text.
    pub fn text(uri: impl Into<Arc<str>>, media_type: &str, text: impl Into<Arc<str>>) -> Contents {
        Contents {
            uri: uri.into(),
            media_type: Some(media_type.into()),
            body: Body::Text(text.into()),
            meta: None,
        }
    }

    /// Bytes.
    pub fn bytes(uri: impl Into<Arc<str>>, media_type: &str, bytes: impl Into<Arc<[u8]>>) -> Contents {
        Contents {
            uri: uri.into(),
            media_type: Some(media_type.into()),
            body: Body::Bytes(bytes.into()),
            meta: None,
        }
    }
}

/// A prompt with its arguments put in.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PromptReply {
    /// What it is for.
    pub description: Option<String>,
    /// What is said, and by whom.
    pub messages: Vec<(Role, Block)>,
}

impl PromptReply {
    /// A prompt of these messages.
    pub fn new(messages: impl IntoIterator<Item = (Role, Block)>) -> PromptReply {
        PromptReply { description: None, messages: messages.into_iter().collect() }
    }
}

/// Who says something in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// Proposals for an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The best first. At most a hundred go out.
    pub values: Vec<String>,
    /// How many there are in all, where known.
    pub total: Option<usize>,
}

impl Completion {
    /// These and no others.
    pub fn new(values: impl IntoIterator<Item = String>) -> Completion {
        let values: Vec<String> = values.into_iter().collect();
        Completion { total: Some(values.len()), values }
    }
}

/// How long something may be believed without asking again, and by whom (revision 2026-07-28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Freshness {
    /// Zero is: ask each time.
    pub ttl: Duration,
    /// It is the same for everybody. What hangs on who asks is not.
    pub public: bool,
}

impl Freshness {
    /// For so long, for whoever asked.
    pub fn private(ttl: Duration) -> Freshness {
        Freshness { ttl, public: false }
    }
}

/// A request that can't be carried out, as an error of the protocol.
///
/// For requests that make no sense, not for tools that fail: a model reads a [`Reply`] and may do better, and nobody but a
/// programmer reads this.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// For code.
    pub kind: RefusalKind,
    /// For people.
    pub message: String,
    /// More for code.
    pub data: Option<Value>,
}

/// Why a request can't be carried out. Its number hangs on the revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Nobody here knows the method.
    UnknownMethod,
    /// The parameters make no sense.
    InvalidParams,
    /// No such resource.
    UnknownResource,
    /// The client can't do what this needs.
    MissingAbility,
    /// It is our fault.
    Internal,
    /// Another number of the protocol.
    Code(i32),
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), data: None }
    }

    /// The same with more for code.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Refusal {
        self.data = Some(data);
        self
    }

    /// The parameters make no sense.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(RefusalKind::InvalidParams, message)
    }

    /// It is our fault.
    pub fn internal(message: impl Into<String>) -> Refusal {
        Refusal::new(RefusalKind::Internal, message)
    }

    /// Nobody here knows the method.
    pub fn unknown_method(method: &str) -> Refusal {
        let method = crate::text::line(method, 100);
        Refusal::new(RefusalKind::UnknownMethod, format!("the method `{method}` is not known here"))
    }

    /// There is no such tool.
    pub fn unknown_tool(name: &str) -> Refusal {
        Refusal::invalid(format!("Unknown tool: {}", crate::text::line(name, 200)))
    }

    /// There is no such prompt.
    pub fn unknown_prompt(name: &str) -> Refusal {
        Refusal::invalid(format!("Unknown prompt: {}", crate::text::line(name, 200)))
    }

    /// There is no such resource.
    pub fn unknown_resource(uri: &str) -> Refusal {
        let uri = crate::text::line(uri, crate::limits::URI_CHARS_MAX);
        Refusal::new(RefusalKind::UnknownResource, "Resource not found")
            .with_data(serde_json::json!({"uri": uri}))
    }

    /// The number that goes out.
    pub fn code(&self, revision: Revision) -> i32 {
        match self.kind {
            RefusalKind::UnknownMethod => -32601,
            RefusalKind::InvalidParams => -32602,
            // The newest revision gave the number of its own up.
            RefusalKind::UnknownResource if revision.is_stateless() => -32602,
            RefusalKind::UnknownResource => -32002,
            RefusalKind::MissingAbility => -32021,
            RefusalKind::Internal => -32603,
            RefusalKind::Code(code) => code,
        }
    }
}

/// What every result of one server has in common.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) revision: Revision,
    /// Who answers; the newest revision says so with each result.
    pub(crate) server: Option<Arc<RawValue>>,
}

impl Stamp {
    pub(crate) fn new(revision: Revision) -> Stamp {
        Stamp { revision, server: None }
    }

    /// Begins a result.
    pub(crate) fn begin<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if self.revision.is_stateless() { map.serialize_entry("resultType", "complete") } else { Ok(()) }
    }

    /// Ends a result: what stands in `_meta`.
    pub(crate) fn end<M: serde::ser::SerializeMap>(
        &self,
        map: &mut M,
        meta: Option<&Map<String, Value>>,
    ) -> Result<(), M::Error> {
        if meta.is_none() && self.server.is_none() {
            return Ok(());
        }
        map.serialize_entry("_meta", &Meta { server: self.server.as_deref(), rest: meta })
    }
}

struct Meta<'a> {
    server: Option<&'a RawValue>,
    rest: Option<&'a Map<String, Value>>,
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(server) = self.server {
            map.serialize_entry(SERVER_INFO, server)?;
        }
        for (key, value) in self.rest.into_iter().flatten() {
            // Who answers is not for an offer to say.
            if key != SERVER_INFO {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// Something written as one revision has it.
pub(crate) struct As<'a, T>(pub(crate) &'a T, pub(crate) &'a Stamp);

impl Serialize for As<'_, Reply> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let As(reply, stamp) = *self;
        let mut map = to.serialize_map(None)?;
        stamp.begin(&mut map)?;
        map.serialize_entry("content", &Blocks(&reply.content))?;
        if let Some(value) = &reply.structured
            && takes_structured(value, stamp.revision)
        {
            map.serialize_entry("structuredContent", value)?;
        }
        if reply.is_error {
            map.serialize_entry("isError", &true)?;
        }
        stamp.end(&mut map, reply.meta.as_ref())?;
        map.end()
    }
}

/// Objects since there are structured results, everything in the newest.
fn takes_structured(value: &Value, revision: Revision) -> bool {
    revision.is_stateless() || (value.is_object() && revision >= Revision::V2025_06_18)
}

struct Blocks<'a>(&'a [Block]);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(Some(self.0.len()))?;
        for block in self.0 {
            seq.serialize_element(block)?;
        }
        seq.end()
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let content = match self {
            // A message is one line, and breaks between values are the only ones that JSON has.
            Block::Raw(raw) if raw.get().contains(['\n', '\r']) => {
                let line = RawValue::from_string(raw.get().replace(['\n', '\r'], " "));
                return line.map_err(serde::ser::Error::custom)?.serialize(to);
            }
            Block::Raw(raw) => return raw.serialize(to),
            Block::Content(content) => content,
        };
        let mut map = to.serialize_map(None)?;
        match content {
            Content::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", &**text)?;
            }
            Content::Image(blob) => blob_entries(&mut map, "image", blob)?,
            Content::Document(blob) if blob.media_type.starts_with("audio/") => {
                blob_entries(&mut map, "audio", blob)?;
            }
            Content::Document(blob) => {
                map.serialize_entry("type", "resource")?;
                map.serialize_entry("resource", &Embedded(blob))?;
            }
            Content::Link(link) => {
                map.serialize_entry("type", "resource_link")?;
                map.serialize_entry("uri", &*link.uri)?;
                map.serialize_entry("name", &*link.name)?;
                if let Some(kind) = &link.media_type {
                    map.serialize_entry("mimeType", &**kind)?;
                }
            }
            other => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", &*other.to_text())?;
            }
        }
        map.end()
    }
}

fn blob_entries<M: serde::ser::SerializeMap>(map: &mut M, kind: &str, blob: &Blob) -> Result<(), M::Error> {
    map.serialize_entry("type", kind)?;
    map.serialize_entry("data", &BASE64_STANDARD.encode(&blob.bytes))?;
    map.serialize_entry("mimeType", &*blob.media_type)
}

/// A document inside of a result.
struct Embedded<'a>(&'a Blob);

impl Serialize for Embedded<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let name = self.0.name.as_deref().unwrap_or("document");
        let mut map = to.serialize_map(None)?;
        // A name that is an address already is kept as it is.
        if name.contains("://") {
            map.serialize_entry("uri", name)?;
        } else {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            map.serialize_entry("uri", &format!("haft://document/{name}"))?;
        }
        map.serialize_entry("mimeType", &*self.0.media_type)?;
        map.serialize_entry("blob", &BASE64_STANDARD.encode(&self.0.bytes))?;
        map.end()
    }
}

impl Serialize for Contents {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("uri", &*self.uri)?;
        if let Some(kind) = &self.media_type {
            map.serialize_entry("mimeType", &**kind)?;
        }
        match &self.body {
            Body::Text(text) => map.serialize_entry("text", &**text)?,
            Body::Bytes(bytes) => map.serialize_entry("blob", &BASE64_STANDARD.encode(bytes))?,
        }
        if let Some(meta) = &self.meta {
            map.serialize_entry("_meta", meta)?;
        }
        map.end()
    }
}

impl Serialize for As<'_, PromptReply> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let As(reply, stamp) = *self;
        let mut map = to.serialize_map(None)?;
        stamp.begin(&mut map)?;
        if let Some(description) = &reply.description {
            map.serialize_entry("description", description)?;
        }
        map.serialize_entry("messages", &Messages(&reply.messages))?;
        stamp.end(&mut map, None)?;
        map.end()
    }
}

struct Messages<'a>(&'a [(Role, Block)]);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct Message<'a>(&'a Role, &'a Block);
        impl Serialize for Message<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(Some(2))?;
                let role = match self.0 {
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                map.serialize_entry("role", role)?;
                map.serialize_entry("content", self.1)?;
                map.end()
            }
        }
        let mut seq = to.serialize_seq(Some(self.0.len()))?;
        for (role, block) in self.0 {
            seq.serialize_element(&Message(role, block))?;
        }
        seq.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(reply: &Reply, revision: Revision) -> Value {
        serde_json::to_value(As(reply, &Stamp::new(revision))).unwrap()
    }

    #[test]
    fn every_kind_of_block_has_its_form() {
        let document = |kind: &str, name: Option<&str>| {
            Content::Document(Blob {
                media_type: kind.into(),
                bytes: b"abc".as_slice().into(),
                name: name.map(Into::into),
            })
        };
        let output = Output::new(vec![
            Content::text("hi"),
            Content::image("image/png", b"abc".as_slice()),
            document("audio/wav", None),
            document("application/pdf", Some("a b.pdf")),
            document("application/pdf", Some("x://y")),
            Content::link("file:///a", "a"),
        ]);
        assert_eq!(
            written(&Reply::from(output), Revision::V2025_11_25)["content"],
            json!([
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "YWJj", "mimeType": "image/png"},
                {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "haft://document/a+b.pdf", "mimeType": "application/pdf", "blob": "YWJj"}},
                {"type": "resource", "resource": {"uri": "x://y", "mimeType": "application/pdf", "blob": "YWJj"}},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
            ])
        );
    }

    #[test]
    fn structured_values_go_out_where_the_revision_takes_them() {
        let list = Reply::from(Output::new(vec![Content::Structured(json!([1]))]));
        let object = Reply::from(Output::new(vec![Content::Structured(json!({"a": 1}))]));
        assert_eq!(
            written(&object, Revision::V2025_06_18),
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}})
        );
        assert_eq!(
            written(&object, Revision::V2025_03_26),
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}]})
        );
        assert_eq!(
            written(&list, Revision::V2025_11_25),
            json!({"content": [{"type": "text", "text": "[1]"}]})
        );
        assert_eq!(
            written(&list, Revision::V2026_07_28),
            json!({"resultType": "complete", "content": [{"type": "text", "text": "[1]"}], "structuredContent": [1]})
        );
    }

    #[test]
    fn numbers_of_refusals_hang_on_the_revision() {
        let gone = Refusal::unknown_resource("x://y");
        assert_eq!(gone.code(Revision::V2025_11_25), -32002);
        assert_eq!(gone.code(Revision::V2026_07_28), -32602);
    }
}
