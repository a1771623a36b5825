//! Gemini's side of the scripted model: the conversation of a request, and messages.
//!
//! It has inputs as values, so one that is no object can't be written; it becomes an empty one.

use serde_json::{Map, Value, json};

use super::results::read_response;
use crate::scripted::StopKind;
use crate::wire::request_history::{RequestHistory, push_line, required_list, value_text};
use crate::wire::script_message::{ScriptCall, ScriptMessage, plain_event, split_text};

fn finish_reason(message: &ScriptMessage) -> &'static str {
    match message.stopping() {
        StopKind::End | StopKind::ToolCalls | StopKind::PauseTurn => "STOP",
        StopKind::MaxTokens | StopKind::ContextFull => "MAX_TOKENS",
        StopKind::Refusal => "SAFETY",
    }
}

fn response_frame(message: &ScriptMessage, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let usage = json!({
        "promptTokenCount": message.input_tokens, "candidatesTokenCount": message.output_tokens,
        "totalTokenCount": message.input_tokens + message.output_tokens,
    });
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": message.model, "responseId": message.id})
}

fn call_parts(message: &ScriptMessage) -> Vec<Value> {
    let call = |(at, call): (usize, &ScriptCall)| {
        json!({
            "functionCall": {"id": call.id, "name": call.name, "args": message.input_value(at)},
            "thoughtSignature": "c2NyaXB0ZWQ=",
        })
    };
    message.calls.iter().enumerate().map(call).collect()
}

pub(super) fn write_response(message: &ScriptMessage) -> Value {
    let mut parts = Vec::new();
    if !message.thinking.is_empty() {
        parts.push(json!({"text": message.thinking, "thought": true}));
    }
    if !message.text.is_empty() {
        parts.push(json!({"text": message.text}));
    }
    parts.extend(call_parts(message));
    response_frame(message, parts, Some(finish_reason(message)))
}

pub(super) fn write_events(message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
    let mut events = Vec::new();
    let mut push = |part: Value| events.push(plain_event(&response_frame(message, vec![part], None)));
    for piece in split_text(&message.thinking, chunk_chars) {
        push(json!({"text": piece, "thought": true}));
    }
    for piece in split_text(&message.text, chunk_chars) {
        push(json!({"text": piece}));
    }
    let mut calls = call_parts(message);
    // The end comes with the last call where it cuts into it, as it does there.
    let last = if message.cuts_call(message.calls.len().wrapping_sub(1)) { calls.pop() } else { None };
    for call in calls {
        push(call);
    }
    events.push(plain_event(&response_frame(
        message,
        last.into_iter().collect(),
        Some(finish_reason(message)),
    )));
    events
}

/// The kind of an error as Gemini names it.
pub(super) fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

pub(super) fn read_history(body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
    for content in required_list(body, "contents")? {
        let all = content["parts"].as_array().into_iter().flatten();
        if content["role"] == "model" {
            history.begin_message();
            for call in all.filter_map(|part| part.get("functionCall")) {
                // Calls have an id or are answered by name.
                let id = value_text(call.get("id"));
                let name = value_text(call.get("name"));
                history.push_call(if id.is_empty() { name.clone() } else { id }, name);
            }
            continue;
        }
        let mut prompt = String::new();
        for part in all {
            let Some(response) = part.get("functionResponse") else {
                push_line(&mut prompt, &value_text(part.get("text")));
                continue;
            };
            let (id, value, is_error) = read_response(response);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let value = Some(value).filter(|value| !value.is_string()).cloned();
            history.push_result(id, text, value, is_error)?;
        }
        history.push_user(prompt);
    }
    Ok(())
}
