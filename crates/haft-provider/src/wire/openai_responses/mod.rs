//! OpenAI Responses.

mod decoder;
mod request;
mod results;
mod script;

use haft::ToolResult;
use haft_agent::{ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value, json};

use self::decoder::ItemDecoder;
pub(super) use self::decoder::read_usage;
use super::json::{Json, Object};
use super::request_history::RequestHistory;
use super::result_content::data_url;
use super::script_message::{ScriptMessage, ScriptTarget};
use super::{Answer, MessageDecoder, ResultFacts, WireFacts, WireFormat};
use crate::decode::BadMessage;
use crate::definitions::{DeferralFormat, DefinitionFormat, json_text};
use crate::request::{RequestBody, RequestOptions};
use crate::schema::{Dialect, WireSchema};
use crate::transcript::{PastResult, TranscriptItem, content_text, item_kind, item_role};

/// Items that wait for an answer of another kind than a tool's.
const OTHER_CALLS: [&str; 6] = [
    "apply_patch_call",
    "computer_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

/// The wire.
pub(super) static WIRE: ResponsesWire = ResponsesWire;

pub(super) struct ResponsesWire;

static FACTS: WireFacts = WireFacts {
    name: "openai",
    key_variable: "OPENAI_API_KEY",
    base_url_variable: "OPENAI_BASE_URL",
    base_url: "https://api.openai.com/v1",
    script_base_path: "/v1",
    script_call_prefix: "call",
    search_tool: Some(r#"{"type":"web_search"}"#),
    wrapping_keys: &[],
    part_keys: &["output"],
    history_key: "input",
    content_key: "content",
    has_answers_in_user_message: false,
    results: ResultFacts {
        wrapper: None,
        id_key: "call_id",
        content_key: "output",
        is_clearable: |item| item["type"] == "function_call_output",
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
        deferral: Some(DeferralFormat::InConversation { write_search }),
    },
};

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

impl WireFormat for ResponsesWire {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }

    fn request_url(&self, base: &str, _model: &str, _stream: bool) -> Result<String, String> {
        Ok(format!("{base}/responses"))
    }

    fn supports_deferral(&self, model: &str) -> bool {
        let is_old = ["chatgpt", "o1", "o3", "o4", "codex-"].iter().any(|old| model.starts_with(old));
        let version = model.strip_prefix("gpt-").map(model_version);
        !is_old && version.is_none_or(|version| version >= (5, 4))
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
        Box::new(ItemDecoder::default())
    }

    fn stored_message(&self, items: &[Value]) -> String {
        Value::from(items.to_vec()).to_string()
    }

    fn owns_message(&self, fields: &Object<'_>) -> Result<bool, BadMessage> {
        let has_output = fields.get("output").is_some_and(|output| output.array().is_some());
        Ok(has_output
            || fields.is("object", "response")
            || (!fields.has("content") && self.owns_part(fields)))
    }

    fn owns_part(&self, fields: &Object<'_>) -> bool {
        const KINDS: [&str; 9] = [
            "function_call",
            "message",
            "reasoning",
            "output_text",
            "refusal",
            "compaction",
            "mcp_approval_request",
            "mcp_list_tools",
            "program",
        ];
        fields.string("type").is_some_and(|kind| {
            KINDS.contains(&&*kind) || kind.ends_with("_call") || kind.ends_with("_call_output")
        })
    }

    fn owns_event(&self, fields: &Object<'_>) -> bool {
        fields.string("type").is_some_and(|kind| kind.starts_with("response."))
    }

    fn call_name(&self, part: &Object<'_>) -> Option<&'static str> {
        let kind = part.string("type")?;
        ["function_call", "custom_tool_call", "tool_search_call"].into_iter().find(|name| *name == kind)
    }

    fn user_part(&self, part: &UserPart) -> Value {
        match part {
            UserPart::Text(text) => json!({"type": "input_text", "text": text}),
            UserPart::Image(blob) => {
                let url = data_url(&blob.media_type, blob);
                json!({"type": "input_image", "image_url": url, "detail": "auto"})
            }
        }
    }

    fn user_item(&self, parts: Vec<Value>) -> Value {
        json!({"type": "message", "role": "user", "content": parts})
    }

    fn encode_result(
        &self,
        call: &RequestedCall,
        result: &ToolResult,
        tools: Option<&ToolDefinitions>,
    ) -> Answer {
        results::encode(call, result, tools)
    }

    fn encode_refusal(&self, call: &RequestedCall, message: &str) -> Answer {
        results::encode_refusal(call, message)
    }

    fn encode_note(&self, note: String) -> Value {
        let text = json!({"type": "input_text", "text": note});
        json!({"type": "message", "role": "developer", "content": [text]})
    }

    fn loaded_tools(&self, item: &Value) -> Vec<String> {
        results::loaded_tools(item)
    }

    fn awaits_reply(&self, item: &Value) -> bool {
        match item["role"].as_str() {
            Some(role) => role == "user",
            // Results have no role.
            None => item["type"].as_str().is_some_and(|kind| kind.ends_with("_output")),
        }
    }

    fn called_tools<'v>(&self, item: &'v Value) -> Vec<&'v str> {
        let name = (item["type"] == "function_call").then(|| item["name"].as_str()).flatten();
        name.into_iter().collect()
    }

    fn classify_item<'t>(&self, fields: &Object<'t>, item: Json<'t>) -> Option<TranscriptItem<'t>> {
        if !item_role(fields).is_empty() {
            return None;
        }
        match &*item_kind(fields) {
            "function_call" | "custom_tool_call" | "tool_search_call" => Some(TranscriptItem::Calls),
            kind if kind.ends_with("_output") && fields.has("call_id") => {
                Some(TranscriptItem::Results(vec![item]))
            }
            kind if OTHER_CALLS.contains(&kind) => Some(TranscriptItem::OtherCall(kind.to_owned())),
            "message" | "reasoning" | "compaction" => Some(TranscriptItem::Message),
            kind => kind.ends_with("_call").then_some(TranscriptItem::Message),
        }
    }

    fn past_result(&self, piece: Json<'_>) -> Result<Option<(String, PastResult)>, BadMessage> {
        let Some(item) = piece.object("")? else { return Ok(None) };
        let id = item.string("call_id").unwrap_or_default().into_owned();
        Ok(Some((id, content_text(item.get("output").or_else(|| item.get("tools"))))))
    }

    fn parse_script_path<'p>(&self, path: &'p str) -> Option<ScriptTarget<'p>> {
        path.ends_with("/responses").then(ScriptTarget::default)
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
        let code = kind.unwrap_or("api_error");
        let error =
            json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 0});
        super::script_message::named_event("error", &error)
    }

    fn script_error_body(&self, status: u16, kind: Option<&str>, message: &str) -> Value {
        let kind = kind.unwrap_or(super::script_message::error_kind(status));
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
    }
}
