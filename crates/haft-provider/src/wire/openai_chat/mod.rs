//! OpenAI Chat Completions, which most local servers speak too.

mod decoder;
mod script;

use haft::ToolResult;
use haft_agent::{ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Value, json};

use self::decoder::ChunkDecoder;
use super::json_text::{JsonError, JsonObject, JsonText};
use super::openai_responses::{bearer_header, write_error};
use super::result_content::{data_url, result_text};
use super::script_message::{ScriptTarget, plain_event};
use super::{EncodedResult, PartKind, ResultFormat, ScriptFormat, WireFormat};
use crate::definitions::{DefinitionFormat, json_text};
use crate::request::{RequestBody, RequestOptions, ThinkingMode, joined_system, tools_json, write_json};
use crate::schema::{SchemaDialect, WireSchema};
use crate::transcript::{PastResult, content_text};

pub(super) static WIRE: WireFormat = WireFormat {
    name: "openai-chat",
    key_variable: "OPENAI_API_KEY",
    base_url_variable: "OPENAI_BASE_URL",
    base_url: "https://api.openai.com/v1",
    request_url: |base, _, _| Ok(format!("{base}/chat/completions")),
    request_headers: bearer_header,
    definitions: DefinitionFormat {
        strict_dialect: Some(SchemaDialect::OpenAiStrict),
        is_strict_by_default: true,
        ..DefinitionFormat::plain(|name, tool, schema| write_definition(name, tool.description(), schema))
    },
    search_tool: None,
    supports_deferral: |_| false,
    write_request,
    decoder: || Box::new(ChunkDecoder::default()),
    owns_frame: |fields| {
        let is_choice = || Ok(fields.object("message")?.is_some_and(|message| message.has("role")));
        if fields.has("choices") || fields.has("tool_calls") { Ok(true) } else { is_choice() }
    },
    // Some servers leave the name out of their first chunk.
    owns_event: |event| {
        let is_empty_chunk = event.get("choices").and_then(JsonText::array).is_some_and(|all| all.is_empty());
        event.is("object", "chat.completion.chunk") || is_empty_chunk
    },
    classify_part,
    wrapping_keys: &["choices", "message"],
    part_keys: &["tool_calls"],
    history_key: "messages",
    content_key: "content",
    text_key: "text",
    has_item_list: false,
    has_answers_in_user_message: false,
    user_part,
    // Many local servers take nothing but a string.
    user_item: |parts| match &parts[..] {
        [only] if only["type"] == "text" => json!({"role": "user", "content": only["text"]}),
        _ => json!({"role": "user", "content": parts}),
    },
    encode_result,
    encode_note: |note| json!({"role": "user", "content": note}),
    results: ResultFormat {
        wrapper: None,
        id_key: "tool_call_id",
        content_key: "content",
        is_clearable: |message| message["role"] == "tool",
        clear: Value::String,
    },
    loaded_tools: |_| Vec::new(),
    awaits_reply: |item| matches!(item["role"].as_str(), Some("user" | "tool")),
    // The form that calls had before there were several.
    unnamed_call: |message| message.given("function_call"),
    past_result,
    script: ScriptFormat {
        base_path: "/v1",
        call_prefix: "call",
        parse_path: |path| path.ends_with("/chat/completions").then(ScriptTarget::default),
        read_history: script::read_history,
        write_events: script::write_events,
        write_response: script::write_response,
        write_error,
        write_error_event: plain_event,
    },
};

fn write_definition(name: &str, description: &str, schema: &WireSchema) -> String {
    format!(
        "{{\"type\":\"function\",\"function\":{{\"name\":{},\"description\":{},\"parameters\":{},\"strict\":{}}}}}",
        json_text(name),
        json_text(description),
        schema.json,
        schema.strict.is_some()
    )
}

fn write_request(options: &RequestOptions, request: &ModelRequest<'_>, body: &mut RequestBody<'_>) {
    body.put("model", &json!(options.model));
    if let Some(tools) = tools_json(request) {
        body.raw("tools", |json| json.push_str(tools));
    }
    if let Some(tokens) = options.max_tokens {
        body.put("max_tokens", &json!(tokens));
    }
    if let Some(ThinkingMode::Effort(effort)) = &options.thinking {
        body.put("reasoning_effort", &json!(effort));
    }
    body.put_temperature(options);
    body.put_stream(options);
    if options.stream {
        body.put("stream_options", &json!({"include_usage": true}));
    }
    let system = joined_system(request).map(|text| json!({"role": "system", "content": text}));
    body.list("messages", system.iter().chain(request.conversation.items()), |item, json| {
        write_json(json, item)
    });
}

fn classify_part(part: &JsonObject<'_>) -> Option<PartKind> {
    let has = |key: &str| part.get(key).is_some_and(JsonText::is_object);
    match (part.string("type").as_deref(), part.string("role").as_deref()) {
        (Some("custom"), _) if has("custom") => Some(PartKind::Call("custom")),
        _ if has("function") => Some(PartKind::Call("function")),
        (Some("custom" | "function"), _) => Some(PartKind::Other),
        (_, Some("tool" | "function")) => Some(PartKind::Result),
        _ => None,
    }
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image(blob) => {
            json!({"type": "image_url", "image_url": {"url": data_url(&blob.media_type, blob)}})
        }
    }
}

/// Encodes a result as a message of the role `tool`, which takes text alone.
fn encode_result(call: &RequestedCall, result: &ToolResult, _: Option<&ToolDefinitions>) -> EncodedResult {
    (json!({"role": "tool", "tool_call_id": &*call.call.id, "content": result_text(result)}), None)
}

fn past_result(message: &JsonObject<'_>) -> Result<(String, PastResult), JsonError> {
    let id = message.string("tool_call_id").or_else(|| message.string("name")).unwrap_or_default();
    Ok((id.into_owned(), content_text(message.get("content"))))
}
