//! Gemini's bytes. It has inputs as values, so one that is no object can't be said; it becomes an empty one.

use serde_json::{Value, json};

use super::{Said, Stopping, pieces, plain};

fn finish(said: &Said) -> &'static str {
    match said.stopping() {
        Stopping::End | Stopping::ToolCalls | Stopping::PauseTurn => "STOP",
        Stopping::MaxTokens | Stopping::ContextFull => "MAX_TOKENS",
        Stopping::Refusal => "SAFETY",
    }
}

fn frame(said: &Said, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let usage = json!({
        "promptTokenCount": said.input_tokens, "candidatesTokenCount": said.output_tokens,
        "totalTokenCount": said.input_tokens + said.output_tokens,
    });
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": said.model, "responseId": said.id})
}

fn calls(said: &Said) -> Vec<Value> {
    let call = |(at, call): (usize, &super::SaidCall)| {
        json!({
            "functionCall": {"id": call.id, "name": call.name, "args": said.input_value(at)},
            "thoughtSignature": "c2NyaXB0ZWQ=",
        })
    };
    said.calls.iter().enumerate().map(call).collect()
}

pub(super) fn whole(said: &Said) -> Value {
    let mut parts = Vec::new();
    if !said.thinking.is_empty() {
        parts.push(json!({"text": said.thinking, "thought": true}));
    }
    if !said.text.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    parts.extend(calls(said));
    frame(said, parts, Some(finish(said)))
}

pub(super) fn frames(said: &Said, chars: usize) -> Vec<String> {
    let mut frames = Vec::new();
    let mut push = |part: Value| frames.push(plain(&frame(said, vec![part], None)));
    for piece in pieces(&said.thinking, chars) {
        push(json!({"text": piece, "thought": true}));
    }
    for piece in pieces(&said.text, chars) {
        push(json!({"text": piece}));
    }
    let mut calls = calls(said);
    // The end comes with the last call where it cuts into it, as it does there.
    let last = if said.cuts(said.calls.len().wrapping_sub(1)) { calls.pop() } else { None };
    for call in calls {
        push(call);
    }
    frames.push(plain(&frame(said, last.into_iter().collect(), Some(finish(said)))));
    frames
}
