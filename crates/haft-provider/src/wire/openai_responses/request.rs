//! The request of OpenAI's Responses.

use haft_agent::{ModelRequest, ToolDeferral};
use serde_json::{Value, json};

use super::results::as_function;
use crate::request::{RequestBody, RequestOptions, ThinkingMode, joined_system, tools_json, write_json};

pub(super) fn write_request(
    options: &RequestOptions,
    request: &ModelRequest<'_>,
    body: &mut RequestBody<'_>,
) {
    body.put("model", &json!(options.model));
    if let Some(tools) = tools_json(request) {
        body.raw("tools", |json| options.push_tools(json, tools, super::WIRE.search_tool));
    }
    if let Some(system) = joined_system(request) {
        body.put("instructions", &json!(system));
    }
    if let Some(tokens) = options.max_tokens {
        body.put("max_output_tokens", &json!(tokens));
    }
    // Nothing is stored there, so the reasoning has to come along, encrypted.
    body.put("store", &json!(false));
    if has_reasoning(options) {
        body.put("include", &json!(["reasoning.encrypted_content"]));
    }
    if let Some(ThinkingMode::Effort(effort)) = &options.thinking {
        body.put("reasoning", &json!({"effort": effort, "summary": "auto"}));
    }
    if let Some(key) = options.cache_key.as_ref().filter(|_| options.cache) {
        body.put("prompt_cache_key", &json!(key));
    }
    body.put_temperature(options);
    body.put_stream(options);
    let is_stored = options.extra.get("store") == Some(&Value::Bool(true));
    let is_sent =
        |item: &&Value| is_stored || item["type"] != "reasoning" || item["encrypted_content"].is_string();
    let has_native_search = request.tools.deferral() == ToolDeferral::Native;
    body.list("input", request.conversation.items().iter().filter(is_sent), |item, json| {
        let function = if has_native_search { None } else { as_function(item) };
        write_json(json, function.as_ref().unwrap_or(item));
    });
}

/// Whether the model reasons before it answers. Old models reject a request for their reasoning.
fn has_reasoning(options: &RequestOptions) -> bool {
    let old = ["gpt-3", "gpt-4", "chatgpt"];
    options.thinking.is_some() || !old.iter().any(|name| options.model.starts_with(name))
}
