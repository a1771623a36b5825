//! OpenAI's bytes, by Chat Completions.

use serde_json::{Value, json};

use super::{Said, Stopping, pieces, plain};

fn finish(said: &Said) -> &'static str {
    match said.stopping() {
        Stopping::End | Stopping::PauseTurn => "stop",
        Stopping::ToolCalls => "tool_calls",
        Stopping::MaxTokens | Stopping::ContextFull => "length",
        Stopping::Refusal => "content_filter",
    }
}

fn usage(said: &Said) -> Value {
    json!({
        "prompt_tokens": said.input_tokens, "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
    })
}

fn frame(said: &Said, kind: &str, choices: Value) -> Value {
    json!({"id": format!("chatcmpl-{}", said.id), "object": kind, "created": 0, "model": said.model, "choices": choices})
}

pub(super) fn whole(said: &Said) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    if !said.text.is_empty() {
        message["content"] = said.text.as_str().into();
    }
    if !said.thinking.is_empty() {
        message["reasoning_content"] = said.thinking.as_str().into();
    }
    let call = |(at, call): (usize, &super::SaidCall)| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": said.input(at)}});
    if !said.calls.is_empty() {
        message["tool_calls"] = said.calls.iter().enumerate().map(call).collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish(said)});
    let mut whole = frame(said, "chat.completion", json!([choice]));
    whole["usage"] = usage(said);
    whole
}

pub(super) fn frames(said: &Said, chars: usize) -> Vec<String> {
    let mut frames = Vec::new();
    let mut push = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        frames.push(plain(&frame(said, "chat.completion.chunk", json!([choice]))));
    };
    push(json!({"role": "assistant", "content": ""}), None);
    for piece in pieces(&said.thinking, chars) {
        push(json!({"reasoning_content": piece}), None);
    }
    for piece in pieces(&said.text, chars) {
        push(json!({"content": piece}), None);
    }
    for (at, call) in said.calls.iter().enumerate() {
        let begin = json!({"index": at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}});
        push(json!({"tool_calls": [begin]}), None);
        for piece in pieces(said.input(at), chars) {
            push(json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}), None);
        }
    }
    push(json!({}), Some(finish(said)));
    let mut end = frame(said, "chat.completion.chunk", json!([]));
    end["usage"] = usage(said);
    frames.push(plain(&end));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}
