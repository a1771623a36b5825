//! Gemini's `functionResponse` parts.

use haft::{Content, ToolResult};
use serde_json::{Value, json};

use crate::limits::DOCUMENT_BYTES_MAX;
use crate::transcript::PastResult;
use crate::wire::result_content::{PDF, image_type, is_pdf, join_text, start_line};

/// Encodes a result under the name by which the call asked, which may be another name of the tool. `response` has
/// `output`, or `error` on errors; images and PDFs are in `parts`. A structured result stays a value.
pub(super) fn encode(name: &str, result: &ToolResult) -> Value {
    if let Some(error) = result.error() {
        let mut message = error.message().to_owned();
        for note in result.notes() {
            start_line(&mut message);
            message.push_str(note);
        }
        return encode_response(result.call_id(), name, json!({"error": message}), Vec::new());
    }
    let mut parts = Vec::new();
    let mut blocks = result.for_model();
    blocks.retain(|block| match encode_part(block) {
        Some(part) => {
            parts.push(part);
            false
        }
        None => true,
    });
    let output = match &blocks[..] {
        [Content::Structured(value)] => value.clone(),
        [] if !parts.is_empty() => json!("see the attached parts"),
        blocks => json!(join_text(blocks)),
    };
    encode_response(result.call_id(), name, json!({"output": output}), parts)
}

/// Makes a response. A call without an id (its id is empty) has a response without one.
pub(super) fn encode_response(id: &str, name: &str, response: Value, parts: Vec<Value>) -> Value {
    let mut body = json!({"name": name, "response": response});
    if !id.is_empty() {
        body["id"] = id.into();
    }
    if !parts.is_empty() {
        body["parts"] = parts.into();
    }
    json!({"functionResponse": body})
}

fn encode_part(block: &Content) -> Option<Value> {
    let (kind, blob) = match block {
        // It takes no GIF.
        Content::Image(blob) => (image_type(blob).filter(|kind| *kind != "image/gif")?, blob),
        Content::Document(blob) if is_pdf(blob) => (PDF, blob),
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
pub(super) fn past_result(part: &Value) -> Option<(String, PastResult)> {
    let response = part.get("functionResponse").or_else(|| part.get("function_response"))?;
    let (id, value, is_error) = read_response(response);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let others = response["parts"].as_array().map_or(0, Vec::len);
    Some((id.to_owned(), PastResult { text, is_error, others, ..PastResult::default() }))
}
