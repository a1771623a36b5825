//! Gemini's `generateContent`.

mod decoder;
mod request;
mod results;
mod script;

use haft::ToolResult;
use haft_agent::{ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value, json};

use self::decoder::PartDecoder;
use super::json::{Json, Object};
use super::request_history::RequestHistory;
use super::script_message::{ScriptMessage, ScriptTarget};
use super::{Answer, MessageDecoder, ResultFacts, WireFacts, WireFormat};
use crate::decode::BadMessage;
use crate::definitions::{DefinitionFormat, json_text};
use crate::request::{RequestBody, RequestOptions};
use crate::schema::{Dialect, WireSchema};
use crate::transcript::{PastResult, TranscriptItem, item_kind, item_role};

/// The wire.
pub(super) static WIRE: GeminiWire = GeminiWire;

pub(super) struct GeminiWire;

static FACTS: WireFacts = WireFacts {
    name: "gemini",
    key_variable: "GEMINI_API_KEY",
    base_url_variable: "GOOGLE_GEMINI_BASE_URL",
    base_url: "https://generativelanguage.googleapis.com",
    script_base_path: "",
    script_call_prefix: "call",
    search_tool: Some(r#"{"googleSearch":{}}"#),
    wrapping_keys: &["candidates", "content"],
    part_keys: &["parts"],
    history_key: "contents",
    content_key: "parts",
    has_answers_in_user_message: true,
    results: ResultFacts {
        wrapper: Some("functionResponse"),
        id_key: "id",
        content_key: "response",
        is_clearable: |_| true,
        clear: |text| json!({"output": text}),
    },
    definitions: DefinitionFormat {
        list: ("[{\"functionDeclarations\":[", "]}]"),
        dialect: Dialect::Gemini,
        strict_dialect: None,
        is_strict_by_default: false,
        limits_strict_tools: false,
        limits_property_names: false,
        write: |name, tool, schema| write_definition(name, tool.description(), schema),
        deferral: None,
    },
};

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
fn call_of<'t>(part: &Object<'t>) -> Option<(&'static str, Json<'t>)> {
    ["functionCall", "function_call"].into_iter().find_map(|key| Some((key, part.given(key)?)))
}

impl WireFormat for GeminiWire {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }

    fn request_url(&self, base: &str, model: &str, stream: bool) -> Result<String, String> {
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
        if model.is_empty() || !model.chars().all(is_known) || model.contains("..") {
            return Err(format!("`{model}` is no name of a Gemini model"));
        }
        let folder = if model.contains('/') { "" } else { "models/" };
        let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        Ok(format!("{base}/v1beta/{folder}{model}:{method}"))
    }

    fn request_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        key.map(|key| ("x-goog-api-key".to_owned(), key.to_owned())).into_iter().collect()
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
        Box::new(PartDecoder::default())
    }

    fn owns_message(&self, fields: &Object<'_>) -> Result<bool, BadMessage> {
        let has_parts = fields.get("parts").is_some_and(|parts| parts.array().is_some());
        let wraps_parts = || Ok(fields.object("content")?.is_some_and(|content| content.has("parts")));
        if fields.has("candidates") || has_parts { Ok(true) } else { wraps_parts() }
    }

    fn owns_part(&self, fields: &Object<'_>) -> bool {
        let keys = ["functionCall", "function_call", "text", "thought", "inlineData", "executableCode"];
        fields.string("type").is_none() && keys.iter().any(|key| fields.has(key))
    }

    fn owns_event(&self, fields: &Object<'_>) -> bool {
        fields.has("candidates")
    }

    fn call_name(&self, part: &Object<'_>) -> Option<&'static str> {
        // The old form of a chat message has a `function_call` beside its role; the decoder of that wire reports it.
        let is_part = part.string("type").is_none() && !part.has("role");
        call_of(part).filter(|_| is_part).map(|(key, _)| key)
    }

    fn user_part(&self, part: &UserPart) -> Value {
        match part {
            UserPart::Text(text) => json!({"text": text}),
            UserPart::Image(blob) => {
                json!({"inlineData": {"mimeType": &*blob.media_type, "data": blob.to_base64()}})
            }
        }
    }

    fn encode_result(
        &self,
        call: &RequestedCall,
        result: &ToolResult,
        _tools: Option<&ToolDefinitions>,
    ) -> Answer {
        (results::encode(&call.call.name, result), None)
    }

    fn encode_refusal(&self, call: &RequestedCall, message: &str) -> Answer {
        let (id, name) = (&*call.call.id, &*call.call.name);
        (results::encode_response(id, name, json!({"error": message}), Vec::new()), None)
    }

    fn set_call_id(&self, answer: &mut Value, id: &str) {
        match answer["functionResponse"].as_object_mut() {
            Some(response) if id.is_empty() => drop(response.remove("id")),
            Some(response) => drop(response.insert("id".to_owned(), id.into())),
            None => {}
        }
    }

    fn called_tools<'v>(&self, item: &'v Value) -> Vec<&'v str> {
        let parts = item["parts"].as_array().into_iter().flatten();
        parts.filter_map(|part| part["functionCall"]["name"].as_str()).collect()
    }

    fn classify_item<'t>(&self, fields: &Object<'t>, _item: Json<'t>) -> Option<TranscriptItem<'t>> {
        match &*item_role(fields) {
            "model" => Some(TranscriptItem::Calls),
            "user" => fields.get("parts").and_then(Json::array).map(TranscriptItem::Results),
            "" if item_kind(fields).is_empty() && fields.has("parts") => Some(TranscriptItem::Calls),
            _ => None,
        }
    }

    fn past_result(&self, piece: Json<'_>) -> Result<Option<(String, PastResult)>, BadMessage> {
        Ok(results::past_result(&piece.to_value().unwrap_or_default()))
    }

    fn parse_script_path<'p>(&self, path: &'p str) -> Option<ScriptTarget<'p>> {
        let (model, method) = path.rsplit('/').next()?.split_once(':')?;
        let stream = match method {
            "streamGenerateContent" => true,
            "generateContent" => false,
            _ => return None,
        };
        Some(ScriptTarget { stream: Some(stream), model: Some(model) })
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
        let kind = kind.unwrap_or(script::error_kind(status));
        json!({"error": {"code": status, "message": message, "status": kind}})
    }
}
