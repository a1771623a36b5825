//! Anthropic's request.
//!
//! There are four cache markers: after the tools, after the system prompt, at the end of the conversation,
//! and where the end was a turn ago, since the provider looks only a few blocks back for what it has.

use haft_agent::ModelRequest;
use serde_json::{Value, json};

use super::results::with_known_references;
use crate::limits::ANTHROPIC_MAX_TOKENS;
use crate::request::{RequestBody, RequestOptions, ThinkingMode, system_texts, tools_json, write_json};

pub(super) fn write_request(
    options: &RequestOptions,
    request: &ModelRequest<'_>,
    body: &mut RequestBody<'_>,
) {
    body.put("model", &json!(options.model));
    let max_tokens = options.max_tokens.unwrap_or(ANTHROPIC_MAX_TOKENS);
    body.put("max_tokens", &json!(max_tokens));
    if let Some(tools) = tools_json(request) {
        let marked = request.tools.cacheable().filter(|_| options.cache);
        let (before, after) = tools.split_at(marked.unwrap_or_default());
        body.raw("tools", |json| {
            json.push_str(before);
            if marked.is_some() {
                json.push_str(",\"cache_control\":{\"type\":\"ephemeral\"}");
            }
            options.push_tools(json, after, super::WIRE.search_tool);
        });
    }
    let mut system: Vec<Value> =
        system_texts(request).map(|text| json!({"type": "text", "text": text})).collect();
    if let Some(last) = system.last_mut() {
        if options.cache {
            last["cache_control"] = cache_marker();
        }
        body.put("system", &Value::Array(system));
    }
    match &options.thinking {
        // The budget is part of what the answer may have.
        Some(ThinkingMode::Tokens(tokens)) => {
            let budget = (*tokens).clamp(1_024, max_tokens.saturating_sub(1).max(1_024));
            body.put("thinking", &json!({"type": "enabled", "budget_tokens": budget}));
        }
        Some(ThinkingMode::Effort(effort)) => {
            body.put("thinking", &json!({"type": "adaptive"}));
            body.put("output_config", &json!({"effort": effort}));
        }
        None => {}
    }
    body.put_temperature(options);
    body.put_stream(options);
    let items = request.conversation.items();
    let marked = if options.cache { turn_ends(items) } else { Vec::new() };
    body.list("messages", items.iter().enumerate(), |(at, item), json| {
        let item = with_known_references(item, request.tools);
        match marked.contains(&at).then(|| with_marker(&item)).flatten() {
            Some(item) => write_json(json, &item),
            None => write_json(json, &item),
        }
    });
}

fn cache_marker() -> Value {
    json!({"type": "ephemeral"})
}

/// Returns where the conversation ends now and where it ended a turn ago: its last two messages of the user.
fn turn_ends(items: &[Value]) -> Vec<usize> {
    let users = items.iter().enumerate().rev().filter(|(_, item)| item["role"] == "user");
    users.map(|(at, _)| at).take(2).collect()
}

/// Returns a message with a marker on its last block.
fn with_marker(item: &Value) -> Option<Value> {
    let mut item = item.clone();
    match &mut item["content"] {
        Value::Array(blocks) => {
            blocks.last_mut()?.as_object_mut()?.insert("cache_control".to_owned(), cache_marker());
        }
        Value::String(text) => {
            item["content"] = json!([{"type": "text", "text": text, "cache_control": cache_marker()}]);
        }
        _ => return None,
    }
    Some(item)
}
