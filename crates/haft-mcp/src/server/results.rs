//! Results of the engine and of other servers as the SDK's types, and how a result differs between revisions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haft::content::BinaryContent;
use haft::{ResultBlock, ToolOutput, ToolResult};
use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ErrorCode, ErrorData, GetPromptResult,
    ImageContent, MetaObject, PromptMessage, ReadResourceResult, Resource, ResourceContents, ResultType,
};
use serde_json::{Value, json};

use super::client_info::ProtocolRevision;
use crate::limits::URI_CHARS_MAX;
use crate::text;

/// The `_meta` key under which a server identifies itself.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The result of a call. A failed call is a result as well: the model reads it.
pub fn tool_result(result: &ToolResult) -> CallToolResult {
    let mut sent = output_result(ToolOutput::new(result.for_model()));
    sent.is_error = result.is_error().then_some(true);
    sent
}

/// The first structured block becomes `structuredContent`; as the protocol requires, its text is sent as
/// well.
pub fn output_result(output: ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::default();
    for block in output.into_blocks() {
        if let ResultBlock::Structured(value) = block {
            result.content.push(ContentBlock::text(match &value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            }));
            result.structured_content.get_or_insert(value);
        } else {
            result.content.push(content_block(&block));
        }
    }
    result
}

/// A block of the engine. Sound is sent as audio, any other document as an embedded resource.
pub fn content_block(content: &ResultBlock) -> ContentBlock {
    let data = |blob: &BinaryContent| BASE64_STANDARD.encode(&blob.bytes);
    match content {
        ResultBlock::Image(blob) => ContentBlock::Image(ImageContent::new(data(blob), &*blob.media_type)),
        ResultBlock::Document(blob) if blob.media_type.starts_with("audio/") => {
            ContentBlock::Audio(AudioContent::new(data(blob), &*blob.media_type))
        }
        ResultBlock::Document(blob) => {
            let contents = binary_contents(&document_uri(blob), &blob.media_type, &blob.bytes);
            ContentBlock::Resource(EmbeddedResource::new(contents))
        }
        ResultBlock::Link(link) => {
            let mut resource = Resource::new(&*link.uri, &*link.name);
            resource.mime_type = link.media_type.as_deref().map(str::to_owned);
            ContentBlock::ResourceLink(resource)
        }
        other => ContentBlock::text(other.to_text()),
    }
}

/// Contents of a resource that is no text.
pub fn binary_contents(uri: &str, media_type: &str, bytes: &[u8]) -> ResourceContents {
    ResourceContents::blob(BASE64_STANDARD.encode(bytes), uri).with_mime_type(media_type)
}

/// A name that is a URI already stays as it is.
fn document_uri(blob: &BinaryContent) -> String {
    match blob.name.as_deref().unwrap_or("document") {
        name if name.contains("://") => name.to_owned(),
        name => {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            format!("haft://document/{name}")
        }
    }
}

/// The result of another server's `resources/read`. Contents that don't conform to the protocol are left out.
pub fn relay_resource(result: &Value) -> ReadResourceResult {
    let contents = result["contents"].as_array().into_iter().flatten();
    ReadResourceResult::new(contents.filter_map(resource_contents).collect())
}

fn resource_contents(contents: &Value) -> Option<ResourceContents> {
    let mut contents: ResourceContents = serde_json::from_value(contents.clone()).ok()?;
    if let ResourceContents::BlobResourceContents { blob, .. } = &mut contents {
        // Some servers break base64 into lines.
        blob.retain(|char| !char.is_ascii_whitespace());
        BASE64_STANDARD.decode(&*blob).ok()?;
    }
    Some(contents)
}

/// The result of another server's `prompts/get`. Messages that don't conform to the protocol are left out.
pub fn relay_prompt(result: &Value) -> GetPromptResult {
    let message = |message: &Value| serde_json::from_value::<PromptMessage>(message.clone()).ok();
    let messages = result["messages"].as_array().into_iter().flatten().filter_map(message);
    let mut relayed = GetPromptResult::new(messages.collect());
    relayed.description = result["description"].as_str().map(str::to_owned);
    relayed
}

/// The error for a tool that is not offered.
pub fn unknown_tool(name: &str) -> ErrorData {
    invalid_params(format!("Unknown tool: {}", text::display_line(name, 200)))
}

/// The error for a prompt that is not offered.
pub fn unknown_prompt(name: &str) -> ErrorData {
    invalid_params(format!("Unknown prompt: {}", text::display_line(name, 200)))
}

/// The error for a URI without a resource.
pub fn unknown_resource(uri: &str) -> ErrorData {
    let uri = text::display_line(uri, URI_CHARS_MAX);
    ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))
}

pub(crate) fn unknown_method(method: &str) -> ErrorData {
    let message = format!("the method `{}` is not known here", text::display_line(method, 100));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

pub(crate) fn invalid_params(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}

/// What a revision adds to every result, or changes in it.
#[derive(Debug, Clone)]
pub(crate) struct ResultStamp {
    pub(crate) revision: ProtocolRevision,
    /// The server's description; the stateless revision repeats it in each result.
    pub(crate) server_info: Option<Value>,
}

impl ResultStamp {
    pub(crate) fn new(revision: ProtocolRevision) -> ResultStamp {
        ResultStamp { revision, server_info: None }
    }

    /// Sets the fields that all results have.
    pub(crate) fn apply(&self, result_type: &mut Option<ResultType>, meta: &mut Option<MetaObject>) {
        *result_type = self.revision.is_stateless().then_some(ResultType::COMPLETE);
        self.identify(meta);
    }

    /// Only this server says in `_meta` which server answers, not a handler.
    pub(crate) fn identify(&self, meta: &mut Option<MetaObject>) {
        if let Some(info) = &self.server_info {
            meta.get_or_insert_default().insert(SERVER_INFO.to_owned(), info.clone());
        } else if let Some(meta) = meta {
            meta.remove(SERVER_INFO);
        }
    }

    /// Objects are accepted since results can be structured, other values in the stateless revision.
    pub(crate) fn accepts_structured(&self, value: &Value) -> bool {
        self.revision.is_stateless() || (value.is_object() && self.revision >= ProtocolRevision::V2025_06_18)
    }

    /// The stateless revision has no number of its own for a missing resource.
    pub(crate) fn error_code(&self, code: ErrorCode) -> ErrorCode {
        match code {
            ErrorCode::RESOURCE_NOT_FOUND if self.revision.is_stateless() => ErrorCode::INVALID_PARAMS,
            code => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_content_kind_has_a_block() {
        let document = |kind: &str, name: Option<&str>| {
            ResultBlock::Document(BinaryContent {
                media_type: kind.into(),
                bytes: b"abc".as_slice().into(),
                name: name.map(Into::into),
            })
        };
        let output = ToolOutput::new(vec![
            ResultBlock::text("hi"),
            ResultBlock::image("image/png", b"abc".as_slice()),
            document("audio/wav", None),
            document("application/pdf", Some("a b.pdf")),
            document("application/pdf", Some("x://y")),
            ResultBlock::link("file:///a", "a"),
            ResultBlock::Structured(json!([1])),
        ]);
        let result = serde_json::to_value(output_result(output)).unwrap();
        assert_eq!(
            result["content"],
            json!([
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "YWJj", "mimeType": "image/png"},
                {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "haft://document/a+b.pdf", "mimeType": "application/pdf", "blob": "YWJj"}},
                {"type": "resource", "resource": {"uri": "x://y", "mimeType": "application/pdf", "blob": "YWJj"}},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "text", "text": "[1]"},
            ])
        );
        assert_eq!(result["structuredContent"], json!([1]));
    }

    #[test]
    fn conforming_parts_of_another_server_are_relayed() {
        let read = relay_resource(&json!({"contents": [
            {"uri": "x://1", "text": "words", "mimeType": "text/plain", "_meta": {"a": 1}},
            {"uri": "x://2", "blob": "YW\nJj"},
            {"uri": "x://3"}, {"text": "no address"}, {"uri": "x://4", "blob": "!"}, 7]}));
        assert_eq!(
            serde_json::to_value(read.contents).unwrap(),
            json!([{"uri": "x://1", "text": "words", "mimeType": "text/plain", "_meta": {"a": 1}}, {"uri": "x://2", "blob": "YWJj"}])
        );
        let prompt = relay_prompt(&json!({"description": "d", "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "system", "content": {"type": "text", "text": "no"}},
            {"role": "assistant", "content": "odd"}]}));
        assert_eq!((prompt.messages.len(), prompt.description.as_deref()), (1, Some("d")));
    }
}
