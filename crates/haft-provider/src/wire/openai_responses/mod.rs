//! OpenAI Responses.

mod decoder;
mod request;
mod results;
mod script;

use haft_agent::UserPart;
use serde_json::{Value, json};

use self::decoder::ItemDecoder;
pub(super) use self::decoder::read_usage;
use super::json_text::{JsonError, JsonObject};
use super::result_content::data_url;
use super::script_message::{ScriptTarget, named_event};
use super::{PartKind, ResultFormat, ScriptFormat, WireFormat};
use crate::definitions::{DeferralFormat, DefinitionFormat, json_text};
use crate::schema::{SchemaDialect, WireSchema};
use crate::transcript::{PastResult, content_text};

/// Items that wait for an answer of another kind than a tool's.
const OTHER_CALLS: [&str; 6] = [
    "apply_patch_call",
    "computer_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

pub(super) static WIRE: WireFormat = WireFormat {
    name: "openai",
    key_variable: "OPENAI_API_KEY",
    base_url_variable: "OPENAI_BASE_URL",
    base_url: "https://api.openai.com/v1",
    request_url: |base, _, _| Ok(format!("{base}/responses")),
    request_headers: bearer_header,
    definitions: DefinitionFormat {
        strict_dialect: Some(SchemaDialect::OpenAiStrict),
        is_strict_by_default: true,
        deferral: Some(DeferralFormat::InConversation { write_search }),
        ..DefinitionFormat::plain(|name, tool, schema| write_definition(name, tool.description(), schema))
    },
    search_tool: Some(r#"{"type":"web_search"}"#),
    supports_deferral,
    write_request: request::write_request,
    decoder: || Box::new(ItemDecoder::default()),
    owns_frame,
    owns_event: |event| event.string("type").is_some_and(|kind| kind.starts_with("response.")),
    classify_part,
    wrapping_keys: &[],
    part_keys: &["output"],
    history_key: "input",
    content_key: "content",
    text_key: "text",
    has_item_list: true,
    has_answers_in_user_message: false,
    user_part,
    user_item: |parts| json!({"type": "message", "role": "user", "content": parts}),
    encode_result: results::encode_result,
    encode_note: |note| {
        let text = json!({"type": "input_text", "text": note});
        json!({"type": "message", "role": "developer", "content": [text]})
    },
    results: ResultFormat {
        wrapper: None,
        id_key: "call_id",
        content_key: "output",
        is_clearable: |item| item["type"] == "function_call_output",
        clear: Value::String,
    },
    loaded_tools: results::loaded_tools,
    // Results have no role.
    awaits_reply: |item| match item["role"].as_str() {
        Some(role) => role == "user",
        None => item["type"].as_str().is_some_and(|kind| kind.ends_with("_output")),
    },
    unnamed_call: |_| None,
    past_result,
    script: ScriptFormat {
        base_path: "/v1",
        call_prefix: "call",
        parse_path: |path| path.ends_with("/responses").then(ScriptTarget::default),
        read_history: script::read_history,
        write_events: script::write_events,
        write_response: script::write_response,
        write_error,
        write_error_event: |body| {
            let (code, message) = (&body["error"]["type"], &body["error"]["message"]);
            let event = json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 0});
            named_event("error", &event)
        },
    },
};

pub(super) fn bearer_header(key: Option<&str>) -> Vec<(&'static str, String)> {
    key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
}

/// Writes an error as both wires of OpenAI do.
pub(super) fn write_error(status: u16, kind: Option<&str>, message: &str) -> Value {
    let kind = kind.unwrap_or(super::script_message::error_kind(status));
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

fn write_definition(name: &str, description: &str, schema: &WireSchema) -> String {
    format!(
        "{{\"type\":\"function\",\"name\":{},\"description\":{},\"parameters\":{},\"strict\":{}}}",
        json_text(name),
        json_text(description),
        schema.json,
        schema.strict.is_some()
    )
}

/// Makes the API's own form of the search from its definition as a function.
fn write_search(function: &str) -> String {
    let function: Value = serde_json::from_str(function).expect("definitions are JSON");
    let (description, parameters) = (&function["description"], &function["parameters"]);
    format!(
        "{{\"type\":\"tool_search\",\"execution\":\"client\",\"description\":{description},\"parameters\":{parameters}}}"
    )
}

/// Returns the version that a model's name goes on with: `5.4-mini` is 5 and 4, `4o` is 4 and 0.
fn model_version(name: &str) -> (u32, u32) {
    let number = |text: &str| -> u32 {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or(u32::MAX)
    };
    let minor = name.split_once('.').filter(|(major, _)| major.chars().all(|c| c.is_ascii_digit()));
    (number(name), minor.map_or(0, |(_, minor)| number(minor)))
}

fn supports_deferral(model: &str) -> bool {
    let is_old = ["chatgpt", "o1", "o3", "o4", "codex-"].iter().any(|old| model.starts_with(old));
    let version = model.strip_prefix("gpt-").map(model_version);
    !is_old && version.is_none_or(|version| version >= (5, 4))
}

fn owns_frame(fields: &JsonObject<'_>) -> Result<bool, JsonError> {
    let has_output = fields.get("output").is_some_and(|output| output.array().is_some());
    let is_item = !fields.has("content") && classify_part(fields).is_some();
    Ok(has_output || is_item || fields.is("object", "response"))
}

fn classify_part(item: &JsonObject<'_>) -> Option<PartKind> {
    let kind = item.string("type")?;
    let calls = ["function_call", "custom_tool_call", "tool_search_call"];
    if let Some(call) = calls.into_iter().find(|call| *call == kind) {
        return Some(PartKind::Call(call));
    }
    match &*kind {
        "mcp_list_tools" | "message" | "output_text" | "program" | "reasoning" | "refusal" | "compaction" => {
            Some(PartKind::Other)
        }
        kind if kind.ends_with("_output") && item.has("call_id") => Some(PartKind::Result),
        kind if OTHER_CALLS.contains(&kind) => Some(PartKind::HostCall),
        kind => (kind.ends_with("_call") || kind.ends_with("_call_output")).then_some(PartKind::Other),
    }
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "input_text", "text": text}),
        UserPart::Image(blob) => {
            let url = data_url(&blob.media_type, blob);
            json!({"type": "input_image", "image_url": url, "detail": "auto"})
        }
    }
}

fn past_result(item: &JsonObject<'_>) -> Result<(String, PastResult), JsonError> {
    let id = item.string("call_id").unwrap_or_default().into_owned();
    Ok((id, content_text(item.get("output").or_else(|| item.get("tools")))))
}
