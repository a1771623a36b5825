//! What a server's tool, resource or prompt gives back, as content blocks.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haft::content::{BinaryContent, ResourceLink};
use haft::{ResultBlock, ToolError, ToolOutput};
use serde_json::Value;

use crate::limits::{NAME_CHARS_MAX, URI_CHARS_MAX};
use crate::text;

/// The result of a tool.
///
/// # Errors
/// The tool says that it failed; in its own words.
pub(crate) fn of_call(result: &Value) -> Result<ToolOutput, ToolError> {
    let mut blocks = convert_blocks(&result["content"]);
    if result["isError"] == true {
        let words = ToolOutput::new(blocks).to_text();
        let words =
            if words.trim().is_empty() { "the tool failed and did not say why".to_owned() } else { words };
        return Err(ToolError::new(words));
    }
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null()) {
        // Most servers send the same once more as text, for clients that know no better.
        blocks.retain(|block| match block {
            ResultBlock::Text(text) => serde_json::from_str::<Value>(text).ok().as_ref() != Some(structured),
            _ => true,
        });
        blocks.push(ResultBlock::Structured(structured.clone()));
    }
    Ok(ToolOutput::new(blocks))
}

/// A list of blocks as servers send them.
pub(crate) fn convert_blocks(list: &Value) -> Vec<ResultBlock> {
    match list {
        Value::Array(items) => items.iter().flat_map(convert_block).collect(),
        Value::Null => Vec::new(),
        one => convert_block(one),
    }
}

fn convert_block(block: &Value) -> Vec<ResultBlock> {
    let field = |name: &str| block[name].as_str().unwrap_or_default();
    match field("type") {
        "text" => {
            let words = block["text"].as_str();
            vec![ResultBlock::text(words.unwrap_or("[a block of text was left out: its `text` is no text]"))]
        }
        "image" => vec![decode_blob(field("data"), field("mimeType"), None)],
        "audio" => vec![decode_blob(field("data"), field("mimeType"), None)],
        "resource" => convert_resource(&block["resource"]),
        "resource_link" => vec![convert_link(block)],
        other => {
            vec![ResultBlock::text(format!(
                "[content of the type `{}` was left out]",
                text::display_line(other, 40)
            ))]
        }
    }
}

/// The content of a resource: its text, or its bytes by their kind.
pub(crate) fn convert_resource(resource: &Value) -> Vec<ResultBlock> {
    let field = |name: &str| resource[name].as_str();
    let uri = text::display_line(field("uri").unwrap_or("?"), URI_CHARS_MAX);
    let kind = field("mimeType").unwrap_or("application/octet-stream");
    match (field("text"), field("blob")) {
        (Some(words), _) => vec![ResultBlock::text(format!("[resource {uri}]\n{words}"))],
        (None, Some(data)) => vec![decode_blob(data, kind, Some(&uri))],
        (None, None) => vec![ResultBlock::text(format!("[resource {uri} has neither text nor data]"))],
    }
}

fn convert_link(link: &Value) -> ResultBlock {
    let field = |name: &str, most: usize| link[name].as_str().map(|words| text::display_line(words, most));
    let uri = field("uri", URI_CHARS_MAX).unwrap_or_default();
    let name = field("title", NAME_CHARS_MAX).or_else(|| field("name", NAME_CHARS_MAX));
    ResultBlock::Link(ResourceLink {
        name: name.unwrap_or_else(|| uri.clone()).into(),
        uri: uri.into(),
        media_type: field("mimeType", 100).map(Into::into),
    })
}

fn decode_blob(data: &str, kind: &str, name: Option<&str>) -> ResultBlock {
    let kind = text::display_line(kind, 100);
    // Some servers break the lines.
    let packed: String = data.split_ascii_whitespace().collect();
    let Ok(bytes) = BASE64_STANDARD.decode(packed) else {
        return ResultBlock::text(format!("[{kind} was left out: it is not base64]"));
    };
    let is_image = kind.starts_with("image/");
    let blob = BinaryContent { media_type: kind.into(), bytes: bytes.into(), name: name.map(Into::into) };
    if is_image { ResultBlock::Image(blob) } else { ResultBlock::Document(blob) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_has_a_block() {
        let result = json!({"content": [
            {"type": "text", "text": "hi"},
            {"type": "image", "data": "YWJj", "mimeType": "image/png"},
            {"type": "audio", "data": "YW\nJj", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x://1", "text": "words"}},
            {"type": "resource", "resource": {"uri": "x://2", "blob": "YWJj", "mimeType": "image/gif"}},
            {"type": "resource_link", "uri": "x://3", "name": "three", "mimeType": "text/plain"},
            {"type": "image", "data": "!", "mimeType": "image/png"},
            {"type": "hologram"},
            {"type": "text", "text": 5},
        ]});
        let output = of_call(&result).unwrap();
        assert_eq!(
            output.to_text(),
            "hi\n[image: image/png, 3 bytes]\n[document: audio/wav, 3 bytes]\n[resource x://1]\nwords\n\
             [image x://2: image/gif, 3 bytes]\n[three: x://3]\n[image/png was left out: it is not base64]\n\
             [content of the type `hologram` was left out]\n[a block of text was left out: its `text` is no text]"
        );
    }

    #[test]
    fn structured_content_is_there_once() {
        let twice =
            json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}});
        assert_eq!(of_call(&twice).unwrap().to_json(), json!({"a": 1}));
        let both = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": [1]});
        assert_eq!(of_call(&both).unwrap().blocks().len(), 2);
        assert_eq!(of_call(&json!({})).unwrap().to_json(), json!(""));
    }

    #[test]
    fn a_failed_tool_fails_in_its_own_words() {
        let failed = json!({"content": [{"type": "text", "text": "no such city"}], "isError": true});
        assert_eq!(of_call(&failed).unwrap_err().message(), "no such city");
        assert!(of_call(&json!({"isError": true})).unwrap_err().message().contains("did not say why"));
    }
}
