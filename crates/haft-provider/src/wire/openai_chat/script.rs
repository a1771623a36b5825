//! The side of Chat Completions in the scripted model: the conversation of a request, and messages.

use serde_json::{Map, Value, json};

use crate::scripted::StopKind;
use crate::wire::request_history::{RequestHistory, joined_text, required_list, value_text};
use crate::wire::result_content::ERROR_PREFIX;
use crate::wire::script_message::{ScriptCall, ScriptMessage, plain_event, split_text};

fn finish_reason(message: &ScriptMessage) -> &'static str {
    match message.stopping() {
        StopKind::End | StopKind::PauseTurn => "stop",
        StopKind::ToolCalls => "tool_calls",
        StopKind::MaxTokens | StopKind::ContextFull => "length",
        StopKind::Refusal => "content_filter",
    }
}

fn usage_object(message: &ScriptMessage) -> Value {
    json!({
        "prompt_tokens": message.input_tokens, "completion_tokens": message.output_tokens,
        "total_tokens": message.input_tokens + message.output_tokens,
    })
}

fn chunk_frame(message: &ScriptMessage, kind: &str, choices: Value) -> Value {
    json!({"id": format!("chatcmpl-{}", message.id), "object": kind, "created": 0, "model": message.model, "choices": choices})
}

pub(super) fn write_response(message: &ScriptMessage) -> Value {
    let mut body = json!({"role": "assistant", "content": null, "refusal": null});
    if !message.text.is_empty() {
        body["content"] = message.text.as_str().into();
    }
    if !message.thinking.is_empty() {
        body["reasoning_content"] = message.thinking.as_str().into();
    }
    let call = |(at, call): (usize, &ScriptCall)| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": message.input(at)}});
    if !message.calls.is_empty() {
        body["tool_calls"] = message.calls.iter().enumerate().map(call).collect();
    }
    let choice =
        json!({"index": 0, "message": body, "logprobs": null, "finish_reason": finish_reason(message)});
    let mut whole = chunk_frame(message, "chat.completion", json!([choice]));
    whole["usage"] = usage_object(message);
    whole
}

pub(super) fn write_events(message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
    let mut events = Vec::new();
    let mut push = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        events.push(plain_event(&chunk_frame(message, "chat.completion.chunk", json!([choice]))));
    };
    push(json!({"role": "assistant", "content": ""}), None);
    for piece in split_text(&message.thinking, chunk_chars) {
        push(json!({"reasoning_content": piece}), None);
    }
    for piece in split_text(&message.text, chunk_chars) {
        push(json!({"content": piece}), None);
    }
    for (at, call) in message.calls.iter().enumerate() {
        let begin = json!({"index": at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}});
        push(json!({"tool_calls": [begin]}), None);
        for piece in split_text(message.input(at), chunk_chars) {
            push(json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}), None);
        }
    }
    push(json!({}), Some(finish_reason(message)));
    let mut end = chunk_frame(message, "chat.completion.chunk", json!([]));
    end["usage"] = usage_object(message);
    events.push(plain_event(&end));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

pub(super) fn read_history(body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
    for message in required_list(body, "messages")? {
        match message["role"].as_str() {
            Some("assistant") => {
                history.begin_message();
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let function = if call["type"] == "custom" { &call["custom"] } else { &call["function"] };
                    history.push_call(value_text(call.get("id")), value_text(function.get("name")));
                }
            }
            Some("tool") => {
                let result = joined_text(&message["content"]);
                let is_error = result.starts_with(ERROR_PREFIX);
                history.push_result(&value_text(message.get("tool_call_id")), result, None, is_error)?;
            }
            Some("user") => {
                history.check_answered(|id, tool| {
                    format!("the call `{id}` of `{tool}` has no result before the user speaks")
                })?;
                history.push_user(joined_text(&message["content"]));
            }
            Some("system" | "developer") => {}
            _ => return Err("a message has no role, or one that is not known".to_owned()),
        }
    }
    Ok(())
}
