//! Anthropic Messages.

mod decoder;
mod request;
mod results;
mod script;

use haft::ToolResult;
use haft_agent::{ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value, json};

use self::decoder::BlockDecoder;
use super::json::{Json, Object};
use super::request_history::RequestHistory;
use super::script_message::{ScriptMessage, ScriptTarget};
use super::{Answer, MessageDecoder, ResultFacts, WireFacts, WireFormat};
use crate::decode::BadMessage;
use crate::definitions::{DeferralFormat, DefinitionFormat, json_text};
use crate::limits::ANTHROPIC_DEFERRED_TOOLS_MAX;
use crate::request::{RequestBody, RequestOptions};
use crate::schema::{Dialect, WireSchema};
use crate::transcript::{PastResult, TranscriptItem, content_text, item_kind, item_role};

/// The version of the API.
const API_VERSION: &str = "2023-06-01";

/// The wire.
pub(super) static WIRE: AnthropicWire = AnthropicWire;

pub(super) struct AnthropicWire;

static FACTS: WireFacts = WireFacts {
    name: "anthropic",
    key_variable: "ANTHROPIC_API_KEY",
    base_url_variable: "ANTHROPIC_BASE_URL",
    base_url: "https://api.anthropic.com",
    script_base_path: "",
    script_call_prefix: "toolu",
    // Limited, since each search is paid for.
    search_tool: Some(r#"{"type":"web_search_20250305","name":"web_search","max_uses":8}"#),
    wrapping_keys: &["message"],
    part_keys: &["content"],
    history_key: "messages",
    content_key: "content",
    has_answers_in_user_message: true,
    results: ResultFacts {
        wrapper: None,
        id_key: "tool_use_id",
        content_key: "content",
        // A result that holds definitions is not cleared, since they would be sent elsewhere.
        is_clearable: |block| {
            block["type"] == "tool_result" && results::referenced_tools(block).next().is_none()
        },
        clear: Value::String,
    },
    definitions: DefinitionFormat {
        list: ("[", "]"),
        dialect: Dialect::Plain,
        strict_dialect: Some(Dialect::AnthropicStrict),
        is_strict_by_default: false,
        limits_strict_tools: true,
        limits_property_names: true,
        write: |name, tool, schema| write_definition(name, tool.description(), schema),
        deferral: Some(DeferralFormat::Marked {
            tools_max: ANTHROPIC_DEFERRED_TOOLS_MAX,
            mark: ",\"defer_loading\":true}",
        }),
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

impl WireFormat for AnthropicWire {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }

    fn request_url(&self, base: &str, _model: &str, _stream: bool) -> Result<String, String> {
        Ok(format!("{base}/v1/messages"))
    }

    fn request_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        let mut headers = vec![("anthropic-version".to_owned(), API_VERSION.to_owned())];
        headers.extend(key.map(|key| ("x-api-key".to_owned(), key.to_owned())));
        headers
    }

    fn supports_deferral(&self, model: &str) -> bool {
        !["claude-2", "claude-3", "claude-instant"].iter().any(|old| model.starts_with(old))
    }

    fn write_request(
        &self,
        options: &RequestOptions,
        request: &ModelRequest<'_>,
        body: &mut RequestBody<'_>,
    ) {
        request::write(options, request, body);
    }

    fn decoder(&self) -> Box<dyn MessageDecoder> {
        Box::new(BlockDecoder::default())
    }

    fn owns_message(&self, fields: &Object<'_>) -> Result<bool, BadMessage> {
        let is_empty_message = || fields.is("type", "message") && fields.items("content").is_empty();
        Ok(match fields.get("content") {
            None => self.owns_part(fields),
            // The API's own mark, where the content has no parts.
            Some(content) => content.array().is_some() && is_empty_message(),
        })
    }

    fn owns_part(&self, fields: &Object<'_>) -> bool {
        fields.string("type").is_some_and(|kind| {
            matches!(&*kind, "text" | "thinking" | "redacted_thinking" | "container_upload" | "fallback")
                || kind.ends_with("tool_use")
                || kind.ends_with("tool_result")
        })
    }

    fn owns_event(&self, fields: &Object<'_>) -> bool {
        fields.is("type", "message_start")
    }

    fn call_name(&self, part: &Object<'_>) -> Option<&'static str> {
        part.is("type", "tool_use").then_some("tool_use")
    }

    fn user_part(&self, part: &UserPart) -> Value {
        match part {
            UserPart::Text(text) => json!({"type": "text", "text": text}),
            UserPart::Image(blob) => {
                let source =
                    json!({"type": "base64", "media_type": &*blob.media_type, "data": blob.to_base64()});
                json!({"type": "image", "source": source})
            }
        }
    }

    fn encode_result(
        &self,
        _call: &RequestedCall,
        result: &ToolResult,
        tools: Option<&ToolDefinitions>,
    ) -> Answer {
        results::encode(result, tools)
    }

    fn encode_refusal(&self, call: &RequestedCall, message: &str) -> Answer {
        (results::encode_content(&call.call.id, message.into(), true), None)
    }

    fn loaded_tools(&self, item: &Value) -> Vec<String> {
        results::past_results(item).flat_map(results::referenced_tools).map(str::to_owned).collect()
    }

    fn called_tools<'v>(&self, item: &'v Value) -> Vec<&'v str> {
        let blocks = item["content"].as_array().into_iter().flatten();
        let calls = blocks.filter(|block| block["type"] == "tool_use");
        calls.filter_map(|call| call["name"].as_str()).collect()
    }

    fn classify_item<'t>(&self, fields: &Object<'t>, item: Json<'t>) -> Option<TranscriptItem<'t>> {
        // A block that can't be read may be a call.
        let is_call =
            |block: &Json<'_>| !matches!(block.object(""), Ok(Some(block)) if !block.is("type", "tool_use"));
        match (&*item_role(fields), &*item_kind(fields)) {
            ("assistant", _) => fields.items("content").iter().any(is_call).then_some(TranscriptItem::Calls),
            ("user", _) => fields.get("content").and_then(Json::array).map(TranscriptItem::Results),
            (_, "tool_use") => Some(TranscriptItem::Calls),
            (_, "tool_result") => Some(TranscriptItem::Results(vec![item])),
            (_, "text" | "thinking") => Some(TranscriptItem::Message),
            (_, kind) => kind.ends_with("tool_use").then_some(TranscriptItem::Message),
        }
    }

    fn past_result(&self, piece: Json<'_>) -> Result<Option<(String, PastResult)>, BadMessage> {
        let Some(block) = piece.object("")?.filter(|block| block.is("type", "tool_result")) else {
            return Ok(None);
        };
        let Some(id) = block.string("tool_use_id") else {
            let words = "the `tool_result` has no `tool_use_id`; a string is required";
            return Err(BadMessage::at("", words));
        };
        let is_error = block.get("is_error").is_some_and(Json::is_true);
        Ok(Some((id.into_owned(), PastResult { is_error, ..content_text(block.get("content")) })))
    }

    fn parse_script_path<'p>(&self, path: &'p str) -> Option<ScriptTarget<'p>> {
        path.ends_with("/messages").then(ScriptTarget::default)
    }

    fn read_history(&self, body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
        script::read_history(body, history)
    }

    fn script_events(&self, message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
        script::write_events(message, chunk_chars)
    }

    fn script_response(&self, message: &ScriptMessage) -> Value {
        script::write_response(message)
    }

    fn script_error_event(&self, kind: Option<&str>, message: &str) -> String {
        let error = json!({"type": kind.unwrap_or("api_error"), "message": message});
        super::script_message::named_event("error", &json!({"type": "error", "error": error}))
    }

    fn script_error_body(&self, status: u16, kind: Option<&str>, message: &str) -> Value {
        let kind = kind.unwrap_or(super::script_message::error_kind(status));
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }
}
