//! The side of OpenAI's Responses in the scripted model: the conversation of a request, and messages.

use haft::search::TOOL_SEARCH;
use serde_json::{Map, Value, json};

use crate::scripted::StopKind;
use crate::wire::request_history::{RequestHistory, joined_text, required_list, value_text};
use crate::wire::result_content::ERROR_PREFIX;
use crate::wire::script_message::{ScriptMessage, named_event, split_text};

fn output_items(message: &ScriptMessage) -> Vec<Value> {
    let mut items = Vec::new();
    if !message.thinking.is_empty() {
        let summary = json!([{"type": "summary_text", "text": message.thinking}]);
        items.push(json!({
            "type": "reasoning", "id": format!("rs_{}", message.id), "summary": summary,
            "encrypted_content": "c2NyaXB0ZWQ=",
        }));
    }
    if !message.text.is_empty() {
        let part = match message.stopping() {
            StopKind::Refusal => json!({"type": "refusal", "refusal": message.text}),
            _ => json!({"type": "output_text", "text": message.text, "annotations": []}),
        };
        items.push(json!({
            "type": "message", "id": format!("msg_{}", message.id), "role": "assistant", "status": "completed",
            "content": [part],
        }));
    }
    for (at, call) in message.calls.iter().enumerate() {
        let status = if message.cuts_call(at) { "incomplete" } else { "completed" };
        if message.has_native_search && call.name == TOOL_SEARCH {
            items.push(json!({
                "type": "tool_search_call", "id": format!("tsc_{}_{at}", message.id), "call_id": call.id,
                "execution": "client", "arguments": message.input_value(at), "status": status,
            }));
            continue;
        }
        items.push(json!({
            "type": "function_call", "id": format!("fc_{}_{at}", message.id), "call_id": call.id, "name": call.name,
            "arguments": message.input(at), "status": status,
        }));
    }
    items
}

fn response_object(message: &ScriptMessage, status: &str, output: Vec<Value>) -> Value {
    let reason = match message.stopping() {
        StopKind::MaxTokens | StopKind::ContextFull if status == "incomplete" => {
            json!({"reason": "max_output_tokens"})
        }
        StopKind::Refusal if status == "incomplete" => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let usage = json!({
        "input_tokens": message.input_tokens, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": message.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": message.input_tokens + message.output_tokens,
    });
    json!({
        "id": format!("resp_{}", message.id), "object": "response", "created_at": 0, "model": message.model, "status": status,
        "error": null, "incomplete_details": reason, "instructions": null, "metadata": {}, "output": output,
        "parallel_tool_calls": true, "temperature": null, "top_p": null, "tool_choice": "auto", "tools": [],
        "usage": if status == "in_progress" { Value::Null } else { usage },
    })
}

fn response_status(message: &ScriptMessage) -> &'static str {
    match message.stopping() {
        StopKind::MaxTokens | StopKind::ContextFull => "incomplete",
        StopKind::Refusal if message.text.is_empty() => "incomplete",
        _ => "completed",
    }
}

pub(super) fn write_response(message: &ScriptMessage) -> Value {
    response_object(message, response_status(message), output_items(message))
}

pub(super) fn write_events(message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
    let mut events = Vec::new();
    let mut number = 0;
    let mut push = |kind: &str, mut event: Value| {
        event["type"] = kind.into();
        event["sequence_number"] = number.into();
        number += 1;
        events.push(named_event(kind, &event));
    };
    push("response.created", json!({"response": response_object(message, "in_progress", Vec::new())}));
    push("response.in_progress", json!({"response": response_object(message, "in_progress", Vec::new())}));
    for (place, item) in output_items(message).iter().enumerate() {
        let (kind, id) = (item["type"].as_str().unwrap_or_default(), item["id"].clone());
        let mut begun = item.clone();
        if kind != "reasoning" {
            begun["status"] = "in_progress".into();
        }
        match kind {
            "reasoning" => begun["summary"] = json!([]),
            "message" => begun["content"] = json!([]),
            "tool_search_call" => begun["arguments"] = json!({}),
            _ => begun["arguments"] = "".into(),
        }
        push("response.output_item.added", json!({"output_index": place, "item": begun}));
        match kind {
            "reasoning" => {
                let part = |text: &str| json!({"item_id": id, "output_index": place, "summary_index": 0, "part": {"type": "summary_text", "text": text}});
                push("response.reasoning_summary_part.added", part(""));
                for piece in split_text(&message.thinking, chunk_chars) {
                    let event =
                        json!({"item_id": id, "output_index": place, "summary_index": 0, "delta": piece});
                    push("response.reasoning_summary_text.delta", event);
                }
                let done = json!({"item_id": id, "output_index": place, "summary_index": 0, "text": message.thinking});
                push("response.reasoning_summary_text.done", done);
                push("response.reasoning_summary_part.done", part(&message.thinking));
            }
            "message" => {
                let is_refusal = item["content"][0]["type"] == "refusal";
                let (name, key) = if is_refusal { ("refusal", "refusal") } else { ("output_text", "text") };
                let mut empty = item["content"][0].clone();
                empty[key] = "".into();
                let at = json!({"item_id": id, "output_index": place, "content_index": 0});
                let with = |key: &str, value: Value| {
                    let mut event = at.clone();
                    event[key] = value;
                    event
                };
                push("response.content_part.added", with("part", empty));
                for piece in split_text(&message.text, chunk_chars) {
                    let mut event = with("delta", piece.into());
                    if !is_refusal {
                        event["logprobs"] = json!([]);
                    }
                    push(&format!("response.{name}.delta"), event);
                }
                let mut done = with(key, message.text.as_str().into());
                if !is_refusal {
                    done["logprobs"] = json!([]);
                }
                push(&format!("response.{name}.done"), done);
                push("response.content_part.done", with("part", item["content"][0].clone()));
            }
            // It has no events of its own.
            "tool_search_call" => {}
            _ => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                for piece in split_text(arguments, chunk_chars) {
                    let event = json!({"item_id": id, "output_index": place, "delta": piece});
                    push("response.function_call_arguments.delta", event);
                }
                let done = json!({"item_id": id, "output_index": place, "arguments": arguments});
                push("response.function_call_arguments.done", done);
            }
        }
        push("response.output_item.done", json!({"output_index": place, "item": item}));
    }
    let end = json!({"response": response_object(message, response_status(message), output_items(message))});
    push(&format!("response.{}", response_status(message)), end);
    events
}

pub(super) fn read_history(body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
    if let Some(Value::String(input)) = body.get("input") {
        history.push_user(input.clone());
        return Ok(());
    }
    for item in required_list(body, "input")? {
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("message") | None, Some("user")) => history.push_user(joined_text(&item["content"])),
            (Some("message") | None, Some("system" | "developer")) => history.end_message(),
            (Some("function_call" | "custom_tool_call"), _) => {
                history.continue_message();
                history.push_call(value_text(item.get("call_id")), value_text(item.get("name")));
            }
            (Some("function_call_output" | "custom_tool_call_output"), _) => {
                let result = joined_text(&item["output"]);
                let is_error = result.starts_with(ERROR_PREFIX);
                history.push_result(&value_text(item.get("call_id")), result, None, is_error)?;
            }
            (Some("tool_search_call"), _) if item["execution"] == "client" => {
                history.continue_message();
                history.push_call(value_text(item.get("call_id")), TOOL_SEARCH.to_owned());
                history.deferral_feature = Some("tool_search_call");
            }
            (Some("tool_search_output"), _) if item["execution"] == "client" => {
                let tools = &item["tools"];
                history.push_result(
                    &value_text(item.get("call_id")),
                    tools.to_string(),
                    Some(tools.clone()),
                    false,
                )?;
            }
            (Some(kind), _) if kind.ends_with("_output") => history.end_message(),
            _ => history.continue_message(),
        }
    }
    Ok(())
}
