//! OpenAI's bytes, by its Responses.

use haft::search::TOOL_SEARCH;
use serde_json::{Value, json};

use super::{Said, Stopping, named, pieces};

fn items(said: &Said) -> Vec<Value> {
    let mut items = Vec::new();
    if !said.thinking.is_empty() {
        let summary = json!([{"type": "summary_text", "text": said.thinking}]);
        items.push(json!({
            "type": "reasoning", "id": format!("rs_{}", said.id), "summary": summary,
            "encrypted_content": "c2NyaXB0ZWQ=",
        }));
    }
    if !said.text.is_empty() {
        let part = match said.stopping() {
            Stopping::Refusal => json!({"type": "refusal", "refusal": said.text}),
            _ => json!({"type": "output_text", "text": said.text, "annotations": []}),
        };
        items.push(json!({
            "type": "message", "id": format!("msg_{}", said.id), "role": "assistant", "status": "completed",
            "content": [part],
        }));
    }
    for (at, call) in said.calls.iter().enumerate() {
        let status = if said.cuts(at) { "incomplete" } else { "completed" };
        if said.searches && call.name == TOOL_SEARCH {
            items.push(json!({
                "type": "tool_search_call", "id": format!("tsc_{}_{at}", said.id), "call_id": call.id,
                "execution": "client", "arguments": said.input_value(at), "status": status,
            }));
            continue;
        }
        items.push(json!({
            "type": "function_call", "id": format!("fc_{}_{at}", said.id), "call_id": call.id, "name": call.name,
            "arguments": said.input(at), "status": status,
        }));
    }
    items
}

fn response(said: &Said, status: &str, output: Vec<Value>) -> Value {
    let reason = match said.stopping() {
        Stopping::MaxTokens | Stopping::ContextFull if status == "incomplete" => {
            json!({"reason": "max_output_tokens"})
        }
        Stopping::Refusal if status == "incomplete" => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let usage = json!({
        "input_tokens": said.input_tokens, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.input_tokens + said.output_tokens,
    });
    json!({
        "id": format!("resp_{}", said.id), "object": "response", "created_at": 0, "model": said.model, "status": status,
        "error": null, "incomplete_details": reason, "instructions": null, "metadata": {}, "output": output,
        "parallel_tool_calls": true, "temperature": null, "top_p": null, "tool_choice": "auto", "tools": [],
        "usage": if status == "in_progress" { Value::Null } else { usage },
    })
}

fn status(said: &Said) -> &'static str {
    match said.stopping() {
        Stopping::MaxTokens | Stopping::ContextFull => "incomplete",
        Stopping::Refusal if said.text.is_empty() => "incomplete",
        _ => "completed",
    }
}

pub(super) fn whole(said: &Said) -> Value {
    response(said, status(said), items(said))
}

pub(super) fn frames(said: &Said, chars: usize) -> Vec<String> {
    let mut frames = Vec::new();
    let mut number = 0;
    let mut push = |kind: &str, mut event: Value| {
        event["type"] = kind.into();
        event["sequence_number"] = number.into();
        number += 1;
        frames.push(named(kind, &event));
    };
    push("response.created", json!({"response": response(said, "in_progress", Vec::new())}));
    push("response.in_progress", json!({"response": response(said, "in_progress", Vec::new())}));
    for (place, item) in items(said).iter().enumerate() {
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
                for piece in pieces(&said.thinking, chars) {
                    let event =
                        json!({"item_id": id, "output_index": place, "summary_index": 0, "delta": piece});
                    push("response.reasoning_summary_text.delta", event);
                }
                let done =
                    json!({"item_id": id, "output_index": place, "summary_index": 0, "text": said.thinking});
                push("response.reasoning_summary_text.done", done);
                push("response.reasoning_summary_part.done", part(&said.thinking));
            }
            "message" => {
                let refused = item["content"][0]["type"] == "refusal";
                let (name, key) = if refused { ("refusal", "refusal") } else { ("output_text", "text") };
                let mut empty = item["content"][0].clone();
                empty[key] = "".into();
                let at = json!({"item_id": id, "output_index": place, "content_index": 0});
                let with = |key: &str, value: Value| {
                    let mut event = at.clone();
                    event[key] = value;
                    event
                };
                push("response.content_part.added", with("part", empty));
                for piece in pieces(&said.text, chars) {
                    let mut event = with("delta", piece.into());
                    if !refused {
                        event["logprobs"] = json!([]);
                    }
                    push(&format!("response.{name}.delta"), event);
                }
                let mut done = with(key, said.text.as_str().into());
                if !refused {
                    done["logprobs"] = json!([]);
                }
                push(&format!("response.{name}.done"), done);
                push("response.content_part.done", with("part", item["content"][0].clone()));
            }
            // It has no events of its own.
            "tool_search_call" => {}
            _ => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                for piece in pieces(arguments, chars) {
                    let event = json!({"item_id": id, "output_index": place, "delta": piece});
                    push("response.function_call_arguments.delta", event);
                }
                let done = json!({"item_id": id, "output_index": place, "arguments": arguments});
                push("response.function_call_arguments.done", done);
            }
        }
        push("response.output_item.done", json!({"output_index": place, "item": item}));
    }
    let end = json!({"response": response(said, status(said), items(said))});
    push(&format!("response.{}", status(said)), end);
    frames
}
