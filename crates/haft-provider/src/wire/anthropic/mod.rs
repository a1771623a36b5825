//! Anthropic Messages.

mod decoder;
mod request;
mod results;
mod script;

use haft_agent::UserPart;
use serde_json::{Value, json};

use self::decoder::BlockDecoder;
use super::decoder::message_with;
use super::json_text::{JsonError, JsonObject, JsonText};
use super::script_message::{ScriptTarget, error_kind, named_event};
use super::{PartKind, ResultFormat, ScriptFormat, WireFormat};
use crate::definitions::{DeferralFormat, DefinitionFormat, json_text};
use crate::limits::ANTHROPIC_DEFERRED_TOOLS_MAX;
use crate::schema::{SchemaDialect, WireSchema};
use crate::transcript::{PastResult, content_text};

/// The version of the API.
const API_VERSION: &str = "2023-06-01";

pub(super) static WIRE: WireFormat = WireFormat {
    name: "anthropic",
    key_variable: "ANTHROPIC_API_KEY",
    base_url_variable: "ANTHROPIC_BASE_URL",
    base_url: "https://api.anthropic.com",
    request_url: |base, _, _| Ok(format!("{base}/v1/messages")),
    request_headers: |key| {
        let version = ("anthropic-version", API_VERSION.to_owned());
        [version].into_iter().chain(key.map(|key| ("x-api-key", key.to_owned()))).collect()
    },
    definitions: DefinitionFormat {
        strict_dialect: Some(SchemaDialect::AnthropicStrict),
        limits_strict_tools: true,
        limits_property_names: true,
        deferral: Some(DeferralFormat::Marked {
            tools_max: ANTHROPIC_DEFERRED_TOOLS_MAX,
            mark: ",\"defer_loading\":true}",
        }),
        ..DefinitionFormat::plain(|name, tool, schema| write_definition(name, tool.description(), schema))
    },
    // Limited, since each search is paid for.
    search_tool: Some(r#"{"type":"web_search_20250305","name":"web_search","max_uses":8}"#),
    supports_deferral: |model| {
        !["claude-2", "claude-3", "claude-instant"].iter().any(|old| model.starts_with(old))
    },
    write_request: request::write_request,
    decoder: || Box::new(BlockDecoder::default()),
    owns_frame,
    owns_event: |event| event.is("type", "message_start"),
    classify_part,
    wrapping_keys: &["message"],
    part_keys: &["content"],
    history_key: "messages",
    content_key: "content",
    text_key: "text",
    has_item_list: false,
    has_answers_in_user_message: true,
    user_part,
    user_item: |parts| message_with("user", "content", parts),
    encode_result: results::encode_result,
    encode_note: |note| json!({"type": "text", "text": note}),
    results: ResultFormat {
        wrapper: None,
        id_key: "tool_use_id",
        content_key: "content",
        // A result that holds definitions is not cleared, since they would be sent elsewhere.
        is_clearable: |block| {
            block["type"] == "tool_result" && results::referenced_tools(block).next().is_none()
        },
        clear: Value::String,
    },
    loaded_tools: |item| {
        results::past_results(item).flat_map(results::referenced_tools).map(str::to_owned).collect()
    },
    awaits_reply: |item| item["role"] == "user",
    unnamed_call: |_| None,
    past_result,
    script: ScriptFormat {
        base_path: "",
        call_prefix: "toolu",
        parse_path: |path| path.ends_with("/messages").then(ScriptTarget::default),
        read_history: script::read_history,
        write_events: script::write_events,
        write_response: script::write_response,
        write_error: |status, kind, message| {
            let kind = kind.unwrap_or(error_kind(status));
            json!({"type": "error", "error": {"type": kind, "message": message}})
        },
        write_error_event: |body| named_event("error", body),
    },
};

fn write_definition(name: &str, description: &str, schema: &WireSchema) -> String {
    let strict = if schema.strict.is_some() { ",\"strict\":true" } else { "" };
    format!(
        "{{\"name\":{},\"description\":{},\"input_schema\":{}{strict}}}",
        json_text(name),
        json_text(description),
        schema.json
    )
}

fn owns_frame(fields: &JsonObject<'_>) -> Result<bool, JsonError> {
    // The API's own mark, where the content has no parts.
    let is_empty = |content: JsonText<'_>| content.array().is_some_and(|blocks| blocks.is_empty());
    Ok(match fields.get("content") {
        Some(content) => fields.is("type", "message") && is_empty(content),
        None => classify_part(fields).is_some(),
    })
}

fn classify_part(part: &JsonObject<'_>) -> Option<PartKind> {
    match &*part.string("type")? {
        "tool_use" => Some(PartKind::Call("tool_use")),
        "tool_result" => Some(PartKind::Result),
        "text" | "thinking" | "redacted_thinking" | "container_upload" | "fallback" => Some(PartKind::Other),
        kind => (kind.ends_with("tool_use") || kind.ends_with("tool_result")).then_some(PartKind::Other),
    }
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image(blob) => {
            let source = json!({"type": "base64", "media_type": &*blob.media_type, "data": blob.to_base64()});
            json!({"type": "image", "source": source})
        }
    }
}

fn past_result(block: &JsonObject<'_>) -> Result<(String, PastResult), JsonError> {
    let Some(id) = block.string("tool_use_id") else {
        return Err(block.error("the `tool_result` has no `tool_use_id`; a string is required"));
    };
    let is_error = block.get("is_error").is_some_and(JsonText::is_true);
    Ok((id.into_owned(), PastResult { is_error, ..content_text(block.get("content")) }))
}
