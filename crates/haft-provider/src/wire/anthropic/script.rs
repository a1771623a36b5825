//! Anthropic's side of the scripted model: the conversation of a request, and messages.

use serde_json::{Map, Value, json};

use crate::scripted::StopKind;
use crate::wire::request_history::{
    RequestHistory, joined_text, push_line, required_list, sent_tools, value_text,
};
use crate::wire::script_message::{ScriptMessage, named_event, split_text};

/// The signature of scripted thinking.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn stop_word(message: &ScriptMessage) -> &'static str {
    match message.stopping() {
        StopKind::End => "end_turn",
        StopKind::ToolCalls => "tool_use",
        StopKind::MaxTokens => "max_tokens",
        StopKind::Refusal => "refusal",
        StopKind::PauseTurn => "pause_turn",
        StopKind::ContextFull => "model_context_window_exceeded",
    }
}

fn write_frame(message: &ScriptMessage) -> Value {
    json!({
        "id": format!("msg_{}", message.id), "type": "message", "role": "assistant", "model": message.model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage_object(message, 1),
    })
}

fn usage_object(message: &ScriptMessage, output: u64) -> Value {
    json!({
        "input_tokens": message.input_tokens, "output_tokens": output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

pub(super) fn write_response(message: &ScriptMessage) -> Value {
    let mut content = Vec::new();
    if !message.thinking.is_empty() {
        content.push(json!({"type": "thinking", "thinking": message.thinking, "signature": SIGNATURE}));
    }
    if !message.text.is_empty() {
        content.push(json!({"type": "text", "text": message.text}));
    }
    for (at, call) in message.calls.iter().enumerate() {
        content.push(
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": message.input_value(at)}),
        );
    }
    let mut response = write_frame(message);
    response["content"] = content.into();
    response["stop_reason"] = stop_word(message).into();
    response["usage"] = usage_object(message, message.output_tokens);
    response
}

pub(super) fn write_events(message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
    let mut events = vec![named_event(
        "message_start",
        &json!({"type": "message_start", "message": write_frame(message)}),
    )];
    let mut index = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        let at = index;
        index += 1;
        let start = json!({"type": "content_block_start", "index": at, "content_block": begin});
        events.push(named_event("content_block_start", &start));
        for delta in deltas {
            let event = json!({"type": "content_block_delta", "index": at, "delta": delta});
            events.push(named_event("content_block_delta", &event));
        }
        events.push(named_event("content_block_stop", &json!({"type": "content_block_stop", "index": at})));
    };
    if !message.thinking.is_empty() {
        let mut deltas: Vec<Value> = split_text(&message.thinking, chunk_chars)
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !message.text.is_empty() {
        let deltas = split_text(&message.text, chunk_chars)
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (at, call) in message.calls.iter().enumerate() {
        let deltas = split_text(message.input(at), chunk_chars)
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect();
        block(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}), deltas);
    }
    let delta = json!({"stop_reason": stop_word(message), "stop_sequence": null});
    let end = json!({"type": "message_delta", "delta": delta, "usage": usage_object(message, message.output_tokens)});
    events.push(named_event("message_delta", &end));
    events.push(named_event("message_stop", &json!({"type": "message_stop"})));
    events
}

pub(super) fn read_history(body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
    let tools = sent_tools(body);
    check_deferred(tools)?;
    for message in required_list(body, "messages")? {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("assistant") => {
                history.begin_message();
                for block in content.as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("tool_use") => {
                            history.push_call(value_text(block.get("id")), value_text(block.get("name")))
                        }
                        Some("text") if value_text(block.get("text")).trim().is_empty() => {
                            return Err("a text block is empty; text blocks must have text".to_owned());
                        }
                        _ => {}
                    }
                }
            }
            Some("user") => {
                let mut prompt = value_text(Some(content));
                for block in content.as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("tool_result") => {
                            let is_error = block["is_error"] == Value::Bool(true);
                            let result = match expand_references(&block["content"], tools)? {
                                Some(definitions) => {
                                    history.deferral_feature =
                                        history.deferral_feature.or(Some("tool_reference"));
                                    definitions
                                }
                                None => joined_text(&block["content"]),
                            };
                            history.push_result(
                                &value_text(block.get("tool_use_id")),
                                result,
                                None,
                                is_error,
                            )?;
                        }
                        _ => push_line(&mut prompt, &value_text(block.get("text"))),
                    }
                }
                history.check_answered(|id, tool| {
                    format!("the call `{id}` of `{tool}` has no result in the message after it; every call needs one")
                })?;
                history.push_user(prompt);
            }
            Some("system") => {}
            _ => return Err("a message has no role, or one that is not known".to_owned()),
        }
    }
    Ok(())
}

fn is_deferred(tool: &Value) -> bool {
    tool["defer_loading"] == true
}

/// Rejects what the API rejects of deferred tools.
fn check_deferred(tools: &[Value]) -> Result<(), String> {
    if !tools.is_empty() && tools.iter().all(is_deferred) {
        return Err("all tools have defer_loading set; at least one must not".to_owned());
    }
    match tools.iter().find(|tool| is_deferred(tool) && tool.get("cache_control").is_some()) {
        Some(tool) => Err(format!("tool {} can't have both defer_loading and cache_control", tool["name"])),
        None => Ok(()),
    }
}

/// Expands references as the provider does, to the definitions that they name. `None` for another content.
fn expand_references(content: &Value, tools: &[Value]) -> Result<Option<String>, String> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let is_reference = |block: &Value| block["type"] == "tool_reference";
    if !blocks.iter().any(is_reference) {
        return Ok(None);
    }
    if !blocks.iter().all(is_reference) {
        return Err("a result has a tool_reference beside other content".to_owned());
    }
    let mut definitions = Vec::new();
    for block in blocks {
        let Some(tool) = tools.iter().find(|tool| tool["name"] == block["tool_name"]) else {
            return Err(format!("tool_reference {} is not found in the available tools", block["tool_name"]));
        };
        definitions.push(tool.clone());
    }
    Ok(Some(Value::Array(definitions).to_string()))
}
