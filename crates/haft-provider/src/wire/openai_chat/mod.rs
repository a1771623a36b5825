//! OpenAI Chat Completions, which most local servers speak too.

mod decoder;
mod script;

use haft::ToolResult;
use haft_agent::{ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value, json};

use self::decoder::ChunkDecoder;
use super::json::{Json, Object};
use super::request_history::RequestHistory;
use super::result_content::{data_url, error_text, result_text};
use super::script_message::{ScriptMessage, ScriptTarget};
use super::{Answer, MessageDecoder, ResultFacts, WireFacts, WireFormat};
use crate::decode::BadMessage;
use crate::definitions::{DefinitionFormat, json_text};
use crate::request::{RequestBody, RequestOptions, Thinking, joined_system, tools_json, write_json};
use crate::schema::{Dialect, WireSchema};
use crate::transcript::{PastResult, TranscriptItem, content_text, item_role};

/// The wire.
pub(super) static WIRE: ChatWire = ChatWire;

pub(super) struct ChatWire;

static FACTS: WireFacts = WireFacts {
    name: "openai-chat",
    key_variable: "OPENAI_API_KEY",
    base_url_variable: "OPENAI_BASE_URL",
    base_url: "https://api.openai.com/v1",
    script_base_path: "/v1",
    script_call_prefix: "call",
    search_tool: None,
    wrapping_keys: &["choices", "message"],
    part_keys: &["tool_calls"],
    history_key: "messages",
    content_key: "content",
    has_answers_in_user_message: false,
    results: ResultFacts {
        wrapper: None,
        id_key: "tool_call_id",
        content_key: "content",
        is_clearable: |message| message["role"] == "tool",
        clear: Value::String,
    },
    definitions: DefinitionFormat {
        list: ("[", "]"),
        dialect: Dialect::Plain,
        strict_dialect: Some(Dialect::OpenAiStrict),
        is_strict_by_default: true,
        limits_strict_tools: false,
        limits_property_names: false,
        write: |name, tool, schema| write_definition(name, tool.description(), schema),
        deferral: None,
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

/// Makes a message of the role `tool`, which takes text alone.
fn tool_message(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

impl WireFormat for ChatWire {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }

    fn request_url(&self, base: &str, _model: &str, _stream: bool) -> Result<String, String> {
        Ok(format!("{base}/chat/completions"))
    }

    fn write_request(
        &self,
        options: &RequestOptions,
        request: &ModelRequest<'_>,
        body: &mut RequestBody<'_>,
    ) {
        body.put("model", &json!(options.model));
        if let Some(tools) = tools_json(request) {
            body.raw("tools", |json| json.push_str(tools));
        }
        if let Some(tokens) = options.max_tokens {
            body.put("max_tokens", &json!(tokens));
        }
        if let Some(Thinking::Effort(effort)) = &options.thinking {
            body.put("reasoning_effort", &json!(effort));
        }
        body.put_temperature(options);
        body.put_stream(options);
        if options.stream {
            body.put("stream_options", &json!({"include_usage": true}));
        }
        let system = joined_system(request).map(|text| json!({"role": "system", "content": text}));
        body.list("messages", system.iter().chain(request.conversation.items()), |item, json| {
            write_json(json, item);
        });
    }

    fn decoder(&self) -> Box<dyn MessageDecoder> {
        Box::new(ChunkDecoder::default())
    }

    fn owns_message(&self, fields: &Object<'_>) -> Result<bool, BadMessage> {
        let is_choice = || Ok(fields.object("message")?.is_some_and(|message| message.has("role")));
        if fields.has("choices") || fields.has("tool_calls") { Ok(true) } else { is_choice() }
    }

    fn owns_part(&self, fields: &Object<'_>) -> bool {
        fields.string("type").is_some_and(|kind| matches!(&*kind, "function" | "custom"))
    }

    fn owns_event(&self, fields: &Object<'_>) -> bool {
        // Some servers leave the name out of their first chunk.
        let is_empty_chunk = || fields.get("choices").and_then(Json::array).is_some_and(|all| all.is_empty());
        fields.is("object", "chat.completion.chunk") || is_empty_chunk()
    }

    fn call_name(&self, part: &Object<'_>) -> Option<&'static str> {
        let has = |key: &str| part.get(key).is_some_and(Json::is_object);
        match part.is("type", "custom") && has("custom") {
            true => Some("custom"),
            false => has("function").then_some("function"),
        }
    }

    fn user_part(&self, part: &UserPart) -> Value {
        match part {
            UserPart::Text(text) => json!({"type": "text", "text": text}),
            UserPart::Image(blob) => {
                json!({"type": "image_url", "image_url": {"url": data_url(&blob.media_type, blob)}})
            }
        }
    }

    fn user_item(&self, parts: Vec<Value>) -> Value {
        // Many local servers take nothing but a string.
        match &parts[..] {
            [only] if only["type"] == "text" => json!({"role": "user", "content": only["text"]}),
            _ => json!({"role": "user", "content": parts}),
        }
    }

    fn encode_result(
        &self,
        _call: &RequestedCall,
        result: &ToolResult,
        _tools: Option<&ToolDefinitions>,
    ) -> Answer {
        (tool_message(result.call_id(), &result_text(result)), None)
    }

    fn encode_refusal(&self, call: &RequestedCall, message: &str) -> Answer {
        (tool_message(&call.call.id, &error_text(message)), None)
    }

    fn awaits_reply(&self, item: &Value) -> bool {
        matches!(item["role"].as_str(), Some("user" | "tool"))
    }

    fn called_tools<'v>(&self, item: &'v Value) -> Vec<&'v str> {
        let calls = item["tool_calls"].as_array().into_iter().flatten();
        calls.filter_map(|call| call["function"]["name"].as_str()).collect()
    }

    fn classify_item<'t>(&self, fields: &Object<'t>, item: Json<'t>) -> Option<TranscriptItem<'t>> {
        match &*item_role(fields) {
            "assistant" if fields.given("tool_calls").is_some() => Some(TranscriptItem::Calls),
            // The form that calls had before there were several.
            "assistant" => fields.given("function_call").map(TranscriptItem::CallWithoutId),
            "tool" | "function" => Some(TranscriptItem::Results(vec![item])),
            _ => None,
        }
    }

    fn past_result(&self, piece: Json<'_>) -> Result<Option<(String, PastResult)>, BadMessage> {
        let Some(message) = piece.object("")? else { return Ok(None) };
        let id = message.string("tool_call_id").or_else(|| message.string("name")).unwrap_or_default();
        Ok(Some((id.into_owned(), content_text(message.get("content")))))
    }

    fn parse_script_path<'p>(&self, path: &'p str) -> Option<ScriptTarget<'p>> {
        path.ends_with("/chat/completions").then(ScriptTarget::default)
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
        super::script_message::plain_event(&self.script_error_body(500, kind, message))
    }

    fn script_error_body(&self, status: u16, kind: Option<&str>, message: &str) -> Value {
        let kind = kind.unwrap_or(super::script_message::error_kind(status));
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
    }
}
