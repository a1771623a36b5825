//! Anthropic's bytes.

use serde_json::{Value, json};

use super::{Said, Stopping, named, pieces};

/// The signature of what a script thinks.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn stop(said: &Said) -> &'static str {
    match said.stopping() {
        Stopping::End => "end_turn",
        Stopping::ToolCalls => "tool_use",
        Stopping::MaxTokens => "max_tokens",
        Stopping::Refusal => "refusal",
        Stopping::PauseTurn => "pause_turn",
        Stopping::ContextFull => "model_context_window_exceeded",
    }
}

fn message(said: &Said) -> Value {
    json!({
        "id": format!("msg_{}", said.id), "type": "message", "role": "assistant", "model": said.model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(said, 1),
    })
}

fn usage(said: &Said, output: u64) -> Value {
    json!({
        "input_tokens": said.input_tokens, "output_tokens": output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

pub(super) fn whole(said: &Said) -> Value {
    let mut content = Vec::new();
    if !said.thinking.is_empty() {
        content.push(json!({"type": "thinking", "thinking": said.thinking, "signature": SIGNATURE}));
    }
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text}));
    }
    for (at, call) in said.calls.iter().enumerate() {
        content.push(
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": said.input_value(at)}),
        );
    }
    let mut message = message(said);
    message["content"] = content.into();
    message["stop_reason"] = stop(said).into();
    message["usage"] = usage(said, said.output_tokens);
    message
}

pub(super) fn frames(said: &Said, chars: usize) -> Vec<String> {
    let mut frames =
        vec![named("message_start", &json!({"type": "message_start", "message": message(said)}))];
    let mut index = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        let at = index;
        index += 1;
        let start = json!({"type": "content_block_start", "index": at, "content_block": begin});
        frames.push(named("content_block_start", &start));
        for delta in deltas {
            let event = json!({"type": "content_block_delta", "index": at, "delta": delta});
            frames.push(named("content_block_delta", &event));
        }
        frames.push(named("content_block_stop", &json!({"type": "content_block_stop", "index": at})));
    };
    if !said.thinking.is_empty() {
        let mut deltas: Vec<Value> = pieces(&said.thinking, chars)
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !said.text.is_empty() {
        let deltas =
            pieces(&said.text, chars).map(|piece| json!({"type": "text_delta", "text": piece})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (at, call) in said.calls.iter().enumerate() {
        let deltas = pieces(said.input(at), chars)
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect();
        block(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}), deltas);
    }
    let delta = json!({"stop_reason": stop(said), "stop_sequence": null});
    let end = json!({"type": "message_delta", "delta": delta, "usage": usage(said, said.output_tokens)});
    frames.push(named("message_delta", &end));
    frames.push(named("message_stop", &json!({"type": "message_stop"})));
    frames
}
