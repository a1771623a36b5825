//! Gemini's `functionResponse` parts.

use haft::{ResultBlock, ToolResult};
use haft_agent::{RequestedCall, ToolDefinitions};
use serde_json::{Value, json};

use crate::limits::DOCUMENT_BYTES_MAX;
use crate::transcript::PastResult;
use crate::wire::EncodedResult;
use crate::wire::json_text::{JsonError, JsonObject, JsonText};
use crate::wire::result_content::{PDF, image_type, is_pdf, join_text};

/// Encodes a result under the name by which the call asked, which may be another name of the tool. `response`
/// has `output`, or `error` on errors; images and PDFs are in `parts`. A structured result stays a value.
pub(super) fn encode_result(
    call: &RequestedCall,
    result: &ToolResult,
    _: Option<&ToolDefinitions>,
) -> EncodedResult {
    let (mut parts, mut blocks) = (Vec::new(), result.for_model());
    let response = if result.is_error() {
        json!({"error": join_text(&blocks)})
    } else {
        blocks.retain(|block| match encode_part(block) {
            Some(part) => {
                parts.push(part);
                false
            }
            None => true,
        });
        match &blocks[..] {
            [ResultBlock::Structured(value)] => json!({"output": value}),
            [] if !parts.is_empty() => json!({"output": "see the attached parts"}),
            blocks => json!({"output": join_text(blocks)}),
        }
    };
    let mut body = json!({"name": &*call.call.name, "response": response});
    // A call without an id has a response without one.
    if !call.call.id.is_empty() {
        body["id"] = (&*call.call.id).into();
    }
    if !parts.is_empty() {
        body["parts"] = parts.into();
    }
    (json!({"functionResponse": body}), None)
}

fn encode_part(block: &ResultBlock) -> Option<Value> {
    let (kind, blob) = match block {
        // It takes no GIF.
        ResultBlock::Image(blob) => (image_type(blob).filter(|kind| *kind != "image/gif")?, blob),
        ResultBlock::Document(blob) if is_pdf(blob) => (PDF, blob),
        _ => return None,
    };
    (blob.bytes.len() <= DOCUMENT_BYTES_MAX)
        .then(|| json!({"inlineData": {"mimeType": kind, "data": blob.to_base64()}}))
}

/// Reads the id of the call (its name where there is none), the value, and whether it is an error.
pub(super) fn read_response(response: &Value) -> (&str, &Value, bool) {
    let id = response["id"].as_str().filter(|id| !id.is_empty());
    let id = id.or_else(|| response["name"].as_str()).unwrap_or_default();
    let body = &response["response"];
    match (body.get("output"), body.get("error")) {
        (Some(output), _) => (id, output, false),
        (None, Some(error)) => (id, error, true),
        (None, None) => (id, body, false),
    }
}

/// Reads the result in a part of an old conversation.
pub(super) fn past_result(part: &JsonObject<'_>) -> Result<(String, PastResult), JsonError> {
    let response = ["functionResponse", "function_response"].into_iter().find_map(|key| part.get(key));
    let response = response.and_then(JsonText::to_value).unwrap_or_default();
    let (id, value, is_error) = read_response(&response);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let others = response["parts"].as_array().map_or(0, Vec::len);
    Ok((id.to_owned(), PastResult { text, is_error, others, ..PastResult::default() }))
}
