//! Gemini's request.

use haft_agent::ModelRequest;
use serde_json::{Map, Value, json};

use crate::request::{RequestBody, RequestOptions, ThinkingMode, system_texts, tools_json, write_json};

pub(super) fn write_request(
    options: &RequestOptions,
    request: &ModelRequest<'_>,
    body: &mut RequestBody<'_>,
) {
    if let Some(tools) = tools_json(request) {
        body.raw("tools", |json| options.push_tools(json, tools, super::WIRE.search_tool));
    }
    let system: Vec<Value> = system_texts(request).map(|text| json!({"text": text})).collect();
    if !system.is_empty() {
        body.put("systemInstruction", &json!({"parts": system}));
    }
    let mut config = Map::new();
    if let Some(tokens) = options.max_tokens {
        config.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    if let Some(temperature) = options.temperature {
        config.insert("temperature".to_owned(), temperature.into());
    }
    let thinking = options.thinking.as_ref().map(|thinking| match thinking {
        ThinkingMode::Effort(effort) => json!({"includeThoughts": true, "thinkingLevel": effort}),
        ThinkingMode::Tokens(tokens) => json!({"includeThoughts": true, "thinkingBudget": tokens}),
    });
    config.extend(thinking.map(|thinking| ("thinkingConfig".to_owned(), thinking)));
    if !config.is_empty() {
        body.put("generationConfig", &Value::Object(config));
    }
    body.list("contents", request.conversation.items().iter(), |item, json| write_json(json, item));
}
