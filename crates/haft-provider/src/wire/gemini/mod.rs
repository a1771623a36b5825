//! Gemini's `generateContent`.

mod decoder;
mod request;
mod results;
mod script;

use haft_agent::UserPart;
use serde_json::{Value, json};

use self::decoder::PartDecoder;
use super::decoder::message_with;
use super::json_text::{JsonError, JsonObject, JsonText};
use super::script_message::{ScriptTarget, plain_event};
use super::{PartKind, ResultFormat, ScriptFormat, WireFormat};
use crate::definitions::{DefinitionFormat, json_text};
use crate::schema::{SchemaDialect, WireSchema};

pub(super) static WIRE: WireFormat = WireFormat {
    name: "gemini",
    key_variable: "GEMINI_API_KEY",
    base_url_variable: "GOOGLE_GEMINI_BASE_URL",
    base_url: "https://generativelanguage.googleapis.com",
    request_url,
    request_headers: |key| key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect(),
    definitions: DefinitionFormat {
        list: ("[{\"functionDeclarations\":[", "]}]"),
        dialect: SchemaDialect::Gemini,
        ..DefinitionFormat::plain(|name, tool, schema| write_definition(name, tool.description(), schema))
    },
    search_tool: Some(r#"{"googleSearch":{}}"#),
    supports_deferral: |_| false,
    write_request: request::write_request,
    decoder: || Box::new(PartDecoder::default()),
    owns_frame,
    owns_event: |event| event.has("candidates"),
    classify_part,
    wrapping_keys: &["candidates", "content"],
    part_keys: &["parts"],
    history_key: "contents",
    content_key: "parts",
    text_key: "text",
    has_item_list: false,
    has_answers_in_user_message: true,
    user_part,
    user_item: |parts| message_with("user", "parts", parts),
    encode_result: results::encode_result,
    encode_note: |note| json!({"text": note}),
    results: ResultFormat {
        wrapper: Some("functionResponse"),
        id_key: "id",
        content_key: "response",
        is_clearable: |_| true,
        clear: |text| json!({"output": text}),
    },
    loaded_tools: |_| Vec::new(),
    awaits_reply: |item| item["role"] == "user",
    unnamed_call: |_| None,
    past_result: results::past_result,
    script: ScriptFormat {
        base_path: "",
        call_prefix: "call",
        parse_path: parse_script_path,
        read_history: script::read_history,
        write_events: script::write_events,
        write_response: script::write_response,
        write_error: |status, kind, message| {
            let kind = kind.unwrap_or(script::error_kind(status));
            json!({"error": {"code": status, "message": message, "status": kind}})
        },
        write_error_event: plain_event,
    },
};

fn request_url(base: &str, model: &str, stream: bool) -> Result<String, String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    if model.is_empty() || !model.chars().all(is_known) || model.contains("..") {
        return Err(format!("`{model}` is no name of a Gemini model"));
    }
    let folder = if model.contains('/') { "" } else { "models/" };
    let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    Ok(format!("{base}/v1beta/{folder}{model}:{method}"))
}

fn write_definition(name: &str, description: &str, schema: &WireSchema) -> String {
    let mut json = format!("{{\"name\":{},\"description\":{}", json_text(name), json_text(description));
    // A function without parameters has none; an object without properties is rejected by some models.
    if schema.has_properties {
        json.push_str(&format!(",\"parametersJsonSchema\":{}", schema.json));
    }
    json.push('}');
    json
}

/// Returns the call of a part, and how its key is spelled.
fn call_of<'t>(part: &JsonObject<'t>) -> Option<(&'static str, JsonText<'t>)> {
    ["functionCall", "function_call"].into_iter().find_map(|key| Some((key, part.given(key)?)))
}

fn owns_frame(fields: &JsonObject<'_>) -> Result<bool, JsonError> {
    let has_parts = fields.get("parts").is_some_and(|parts| parts.array().is_some());
    let wraps_parts = || Ok(fields.object("content")?.is_some_and(|content| content.has("parts")));
    if fields.has("candidates") || has_parts { Ok(true) } else { wraps_parts() }
}

fn classify_part(part: &JsonObject<'_>) -> Option<PartKind> {
    // The old form of a chat message has a `function_call` beside its role; the decoder of that wire reports
    // it.
    if part.string("type").is_some() || part.has("role") {
        return None;
    }
    if let Some((key, _)) = call_of(part) {
        return Some(PartKind::Call(key));
    }
    let has = |key: &&str| part.has(key);
    if ["functionResponse", "function_response"].iter().any(has) {
        Some(PartKind::Result)
    } else {
        ["text", "thought", "inlineData", "executableCode"].iter().any(has).then_some(PartKind::Other)
    }
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"text": text}),
        UserPart::Image(blob) => {
            json!({"inlineData": {"mimeType": &*blob.media_type, "data": blob.to_base64()}})
        }
    }
}

fn parse_script_path(path: &str) -> Option<ScriptTarget<'_>> {
    let (model, method) = path.rsplit('/').next()?.split_once(':')?;
    let stream = match method {
        "streamGenerateContent" => true,
        "generateContent" => false,
        _ => return None,
    };
    Some(ScriptTarget { stream: Some(stream), model: Some(model) })
}
