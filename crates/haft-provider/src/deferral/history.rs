//! What a conversation holds of searches, and how it is written for an endpoint that takes them, or doesn't.

use std::borrow::Cow;
use std::collections::HashSet;

use haft::search::TOOL_SEARCH;
use serde_json::{Value, json};

use crate::Wire;
use haft_agent::{ToolDeferral, ToolDefinitions};

/// The tools whose definitions a conversation holds, by name.
pub(crate) fn found(wire: Wire, items: &[Value]) -> HashSet<String> {
    let mut names = HashSet::new();
    for item in items {
        match wire {
            Wire::Anthropic => {
                for result in results(item) {
                    names.extend(references(result).map(str::to_owned));
                }
            }
            Wire::OpenAi if is_output(item) => {
                names.extend(definitions(item).filter_map(|tool| Some(tool["name"].as_str()?.to_owned())));
            }
            _ => {}
        }
    }
    names
}

/// An item as it is sent with these tools.
pub(crate) fn sent<'v>(wire: Wire, item: &'v Value, tools: &ToolDefinitions) -> Cow<'v, Value> {
    match wire {
        Wire::Anthropic => anthropic(item, tools),
        Wire::OpenAi if tools.deferral() == ToolDeferral::Fallback => openai(item),
        _ => Cow::Borrowed(item),
    }
}

/// Whether a result holds definitions and not words: it isn't cleared, since what it holds would be sent elsewhere.
pub(crate) fn holds_definitions(result: &Value) -> bool {
    references(result).next().is_some()
}

fn results(message: &Value) -> impl Iterator<Item = &Value> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "tool_result")
}

/// The names that a result refers to.
fn references(result: &Value) -> impl Iterator<Item = &str> {
    let blocks = result["content"].as_array().into_iter().flatten();
    let references = blocks.filter(|block| block["type"] == "tool_reference");
    references.filter_map(|block| block["tool_name"].as_str())
}

/// References to what is not among the deferred tools of a request are refused, with the whole request.
fn anthropic<'v>(item: &'v Value, tools: &ToolDefinitions) -> Cow<'v, Value> {
    let fits = |result: &Value| references(result).all(|name| tools.is_referable(name));
    if results(item).all(fits) {
        return Cow::Borrowed(item);
    }
    let mut item = item.clone();
    for block in item["content"].as_array_mut().into_iter().flatten() {
        if block["type"] != "tool_result" || fits(block) {
            continue;
        }
        let names: Vec<&str> = references(block).collect();
        let kept: Vec<&str> = names.iter().copied().filter(|name| tools.is_referable(name)).collect();
        block["content"] = match kept.is_empty() {
            true => Value::String(format!("found {}", names.join(", "))),
            false => {
                kept.into_iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect()
            }
        };
    }
    Cow::Owned(item)
}

fn is_client(item: &Value) -> bool {
    item["execution"] != "server" && item["call_id"].is_string()
}

fn is_output(item: &Value) -> bool {
    item["type"] == "tool_search_output" && is_client(item)
}

fn definitions(output: &Value) -> impl Iterator<Item = &Value> {
    output["tools"].as_array().into_iter().flatten()
}

/// A search as the call of a function that it is.
fn openai(item: &Value) -> Cow<'_, Value> {
    if is_output(item) {
        let shown = |tool: &Value| json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]});
        let found: Vec<Value> = definitions(item).map(shown).collect();
        let output = match found.is_empty() {
            true => "error: nothing was found".to_owned(),
            false => Value::Array(found).to_string(),
        };
        return Cow::Owned(
            json!({"type": "function_call_output", "call_id": item["call_id"], "output": output}),
        );
    }
    if item["type"] == "tool_search_call" && is_client(item) {
        let arguments = match &item["arguments"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // Its id is that of another kind of item, and need not be said.
        return Cow::Owned(json!({
            "type": "function_call", "call_id": item["call_id"], "name": TOOL_SEARCH, "arguments": arguments,
        }));
    }
    Cow::Borrowed(item)
}
