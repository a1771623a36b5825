//! Streams made by hand: the corners of each wire that no recording has.

use haft_agent::{FailureKind, ModelReply, ReplyDelta, StopReason};
use haft_provider::Wire;
use haft_provider::stream::{MessageReader, read_response};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::streams::check_pairs;

/// Reads events; shows the deltas in short, then the reply.
#[track_caller]
fn read(wire: Wire, events: &[Value]) -> (Vec<String>, ModelReply) {
    let (mut reader, mut deltas) = (MessageReader::new(wire), Vec::new());
    for event in events {
        reader.feed(format!("event: x\ndata: {event}\n\n").as_bytes(), &mut deltas);
    }
    let reply = reader.finish(&mut deltas);
    (deltas.iter().filter_map(show).collect(), reply)
}

fn show(delta: &ReplyDelta) -> Option<String> {
    Some(match delta {
        ReplyDelta::Text(text) => format!("text {text}"),
        ReplyDelta::Thinking(text) => format!("thinking {text}"),
        ReplyDelta::CallBegun { call, id, name } => format!("begun {call} {id} {name}"),
        ReplyDelta::CallInput { call, json } => format!("input {call} {json}"),
        ReplyDelta::CallReady { call, ready } => {
            let haft::call::CallInput::Text(input) = &ready.input else { panic!("an input that is no text") };
            format!("ready {call} {} {} {input}", ready.id, ready.name)
        }
        ReplyDelta::Restarted => "restarted".to_owned(),
        _ => return None,
    })
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 1}}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn tool(index: u64, id: &str) -> Value {
    block(index, json!({"type": "tool_use", "id": id, "name": "t", "input": {}}))
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn input(index: u64, json: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

fn end(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn stop(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
}

#[test]
fn a_call_is_ready_at_the_end_of_its_block() {
    let events = [
        start(),
        tool(0, "a"),
        input(0, "{\"x\":"),
        input(0, "1}"),
        end(0),
        tool(1, "b"),
        end(1),
        stop("tool_use"),
    ];
    let (deltas, reply) = read(Wire::Anthropic, &events);
    let expected = [
        "begun 0 a t",
        "input 0 {\"x\":",
        "input 0 1}",
        "ready 0 a t {\"x\":1}",
        "begun 1 b t",
        "ready 1 b t {}",
    ];
    assert_eq!(deltas, expected);
    assert_eq!(reply.stop(), &StopReason::Calls);
    assert_eq!(
        (reply.usage().input_tokens, reply.usage().cache_read_tokens, reply.usage().output_tokens),
        (8, 5, 9)
    );
    let content = json!([
        {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "t", "input": {}},
    ]);
    assert_eq!(reply.items(), [json!({"role": "assistant", "content": content})]);
}

/// Broken input waits for the end of the message, and everything after it, so that results stay in order.
#[test]
fn broken_input_is_an_error_of_the_call_if_the_message_ends_well() {
    let events = [
        start(),
        tool(0, "a"),
        input(0, "{\"x\":"),
        end(0),
        tool(1, "b"),
        input(1, "{}"),
        end(1),
        stop("tool_use"),
    ];
    let (deltas, reply) = read(Wire::Anthropic, &events);
    assert_eq!(deltas[4..], ["ready 0 a t {\"x\":", "ready 1 b t {}"]);
    assert_eq!(reply.items()[0]["content"][0]["input"], json!({"invalid_json": "{\"x\":"}));
    let (deltas, reply) = read(Wire::Anthropic, &events[..7]);
    assert_eq!(deltas.iter().filter(|delta| delta.starts_with("ready")).count(), 0);
    assert_eq!((reply.stop(), reply.items(), reply.requests_calls()), (&StopReason::Cut, &[][..], false));
}

#[test]
fn max_tokens_inside_of_a_call_answers_it_and_runs_nothing() {
    for closed in [true, false] {
        let mut events =
            vec![start(), tool(0, "a"), input(0, "{}"), end(0), tool(1, "b"), input(1, "{\"x\": \"lo")];
        events.extend(closed.then(|| end(1)));
        events.push(stop("max_tokens"));
        let (deltas, reply) = read(Wire::Anthropic, &events);
        assert_eq!(deltas.iter().filter(|delta| delta.starts_with("ready")).count(), 1);
        assert_eq!(reply.stop(), &StopReason::MaxTokens { in_call: true });
        assert_eq!(reply.calls().len(), 1);
        assert_eq!(reply.items()[0]["content"][1]["input"], json!({}));
        let answer = &reply.answer(&[])[0];
        assert_eq!(answer["content"][1]["tool_use_id"], "b");
        assert_eq!(
            answer["content"][1]["content"],
            "t was not run: the message ended before the call was complete; make the call again, shorter if it was long"
        );
    }
}

#[test]
fn thinking_comes_back_with_its_signature_or_not_at_all() {
    let thinking = |signed: bool| {
        let mut events = vec![
            start(),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        ];
        events.extend(signed.then(|| delta(0, json!({"type": "signature_delta", "signature": "sig"}))));
        events.push(end(0));
        events.push(block(1, json!({"type": "redacted_thinking", "data": "xyz"})));
        events.push(end(1));
        events
    };
    let text = [
        block(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "so"})),
        end(2),
    ];
    let (_, reply) = read(Wire::Anthropic, &[&thinking(true)[..], &text, &[stop("end_turn")]].concat());
    let kept = json!([{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "so"}]);
    assert_eq!(reply.items()[0]["content"], kept);
    let (_, reply) = read(Wire::Anthropic, &[&thinking(false)[..], &text, &[stop("end_turn")]].concat());
    assert_eq!(reply.items()[0]["content"].as_array().unwrap().len(), 2, "no signature, no thinking");
    let (_, reply) = read(Wire::Anthropic, &thinking(true));
    assert_eq!(reply.items(), [] as [Value; 0], "thinking can't be a message's last");
}

#[test]
fn blocks_and_deltas_that_nobody_knows_are_kept() {
    let events = [
        start(),
        block(0, json!({"type": "future", "a": "x", "list": [1], "deep": {"k": null}})),
        delta(0, json!({"type": "future_delta", "a": "y", "list": [2], "b": {"c": 1}})),
        end(0),
        block(1, json!({"type": "text", "text": " \n"})),
        end(1),
        json!({"type": "something_new"}),
        stop("pause_turn"),
    ];
    let (_, reply) = read(Wire::Anthropic, &events);
    let expected = json!([{"type": "future", "a": "xy", "list": [1, 2], "deep": {"k": null}, "b": {"c": 1}}]);
    assert_eq!((reply.stop(), &reply.items()[0]["content"]), (&StopReason::Paused, &expected));
}

#[test]
fn a_second_beginning_restarts_unless_a_call_was_ready() {
    let first = [start(), tool(0, "a"), input(0, "{\"x")];
    let second = [start(), tool(0, "b"), input(0, "{}"), end(0), stop("tool_use")];
    let (deltas, reply) = read(Wire::Anthropic, &[&first[..], &second].concat());
    assert!(deltas.contains(&"restarted".to_owned()));
    assert_eq!(reply.calls().len(), 1);
    let (_, reply) = read(Wire::Anthropic, &[&second[..4], &second].concat());
    let StopReason::Failed(failure) = reply.stop() else { panic!("{}", reply.stop()) };
    assert_eq!((failure.kind, reply.calls().len()), (FailureKind::Malformed, 1));
}

/// The one that is there was ready and may run: it is answered, once, and the other one never was.
#[test]
fn a_second_block_with_an_index_that_was_used_takes_nothing_from_the_first() {
    let events = [
        start(),
        tool(1, "a"),
        end(1),
        stop("tool_use"),
        tool(1, "a"),
        end(2),
        json!({"type": "message_stop"}),
    ];
    let (deltas, reply) = read(Wire::Anthropic, &events);
    assert_eq!(deltas.iter().filter(|delta| delta.starts_with("ready")).count(), 1, "{deltas:?}");
    assert_eq!(reply.calls().len(), 1);
    check_pairs(&reply, "a second block");
}

#[test]
fn errors_inside_of_a_stream() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (_, reply) = read(Wire::Anthropic, &[start(), overloaded]);
    assert_eq!(reply.stop().to_string(), "the provider is overloaded: Overloaded");
    let chat = json!({"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}});
    let (_, reply) = read(Wire::OpenAiChat, &[chat]);
    let StopReason::Failed(failure) = reply.stop() else { panic!("{}", reply.stop()) };
    assert_eq!(
        (failure.kind, failure.status, failure.is_passing()),
        (FailureKind::RateLimited, Some(429), true)
    );
    let gemini = json!({"error": {"code": 503, "message": "try later", "status": "UNAVAILABLE"}});
    let (_, reply) = read(Wire::Gemini, &[gemini]);
    assert_eq!(reply.stop().to_string(), "the provider is overloaded (503): try later");
    for wire in Wire::ALL {
        let mut reader = MessageReader::new(wire);
        reader.feed(b"data: {bro\n\n", &mut Vec::new());
        assert_eq!(reader.failure().unwrap().kind, FailureKind::Malformed);
        assert!(reader.is_over() && !reader.is_whole());
    }
}

fn chunk(delta: Value) -> Value {
    json!({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(index: u64, rest: Value) -> Value {
    let mut call = rest;
    call["index"] = index.into();
    chunk(json!({"tool_calls": [call]}))
}

#[test]
fn chat_calls_end_where_the_next_begins() {
    let events = [
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": "hm"})),
        chunk(json!({"content": "Let me "})),
        chunk(json!({"content": "see."})),
        call(0, json!({"id": "a", "type": "function", "function": {"name": "t", "arguments": ""}})),
        call(0, json!({"function": {"arguments": "{\"x\":"}})),
        call(0, json!({"function": {"arguments": "1}"}})),
        call(
            1,
            json!({"id": "b", "type": "function", "function": {"name": "u", "arguments": ""}, "extra_content": {"sig": "s"}}),
        ),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}}),
    ];
    let (deltas, reply) = read(Wire::OpenAiChat, &events);
    let ready = deltas.iter().position(|delta| delta == "ready 0 a t {\"x\":1}").unwrap();
    let begun = deltas.iter().position(|delta| delta == "begun 1 b u").unwrap();
    assert!(ready < begun, "{deltas:?}");
    assert_eq!(deltas.last().unwrap(), "ready 1 b u {}");
    assert_eq!((reply.stop(), reply.usage().cache_read_tokens), (&StopReason::Calls, 6));
    let expected = json!({
        "role": "assistant", "content": "Let me see.", "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{\"x\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "u", "arguments": "{}"}, "extra_content": {"sig": "s"}},
        ],
    });
    assert_eq!(reply.items(), [expected]);
}

/// Local servers: every call has index 0, arguments are objects, ids are missing, the reason is `stop`.
#[test]
fn chat_as_local_servers_speak_it() {
    let events = [
        call(0, json!({"id": "a", "function": {"name": "t", "arguments": "{}"}})),
        call(0, json!({"id": "b", "function": {"name": "t", "arguments": "{\"n\": 2}"}})),
        finish("stop"),
    ];
    let (deltas, reply) = read(Wire::OpenAiChat, &events);
    assert_eq!(deltas.iter().filter(|delta| delta.starts_with("ready")).count(), 2);
    assert_eq!(reply.stop(), &StopReason::Calls);
    let both = json!([{"function": {"name": "t", "arguments": {"n": 1}}}, {"function": {"name": "u"}}]);
    let (deltas, reply) = read(Wire::OpenAiChat, &[chunk(json!({"tool_calls": both})), finish("tool_calls")]);
    assert_eq!(deltas[2], "ready 0 call_cmpl-1_0 t {\"n\":1}", "{deltas:?}");
    assert_eq!(reply.items()[0]["tool_calls"][1]["id"], "call_cmpl-1_1");
    assert_eq!(reply.answer(&[])[1]["tool_call_id"], "call_cmpl-1_1");
}

#[test]
fn chat_cut_by_length() {
    let events = [
        call(0, json!({"id": "a", "function": {"name": "t", "arguments": "{}"}})),
        call(1, json!({"id": "b", "function": {"name": "t", "arguments": "{\"n\""}})),
        finish("length"),
    ];
    let (_, reply) = read(Wire::OpenAiChat, &events);
    assert_eq!((reply.stop(), reply.calls().len()), (&StopReason::MaxTokens { in_call: true }, 1));
    assert_eq!(reply.items()[0]["tool_calls"][1]["function"]["arguments"], "{}");
    assert_eq!(reply.answer(&[]).len(), 2);
    let (_, reply) = read(Wire::OpenAiChat, &events[..2]);
    assert_eq!(
        (reply.stop(), reply.items()[0]["tool_calls"].as_array().unwrap().len()),
        (&StopReason::Cut, 1)
    );
}

#[test]
fn openai_items_that_were_not_done_leave_their_text() {
    let added = |place: u64, item: Value| json!({"type": "response.output_item.added", "output_index": place, "item": item});
    let done = |place: u64, item: Value| json!({"type": "response.output_item.done", "output_index": place, "item": item});
    let reasoning = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"});
    let text =
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "half"});
    let function = |status: &str, arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": arguments, "status": status});
    let begun = [
        done(0, reasoning.clone()),
        added(1, json!({"type": "message", "role": "assistant", "content": []})),
        text,
    ];
    let (_, reply) = read(Wire::OpenAi, &begun);
    assert_eq!(reply.items(), [reasoning.clone(), json!({"role": "assistant", "content": "half"})]);
    let (_, reply) = read(Wire::OpenAi, &begun[..1]);
    assert_eq!(reply.items(), [] as [Value; 0]);
    let cut = [
        added(0, function("in_progress", "")),
        done(0, function("incomplete", "{\"a")),
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}}),
    ];
    let (_, reply) = read(Wire::OpenAi, &cut);
    assert_eq!(
        (reply.stop(), reply.calls().len(), reply.requests_calls()),
        (&StopReason::MaxTokens { in_call: true }, 0, true)
    );
    assert_eq!(reply.items()[0]["arguments"], "{}");
    let custom = [
        done(0, json!({"type": "custom_tool_call", "call_id": "x", "name": "t", "input": "free"})),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ];
    let (_, reply) = read(Wire::OpenAi, &custom);
    assert_eq!(reply.answer(&[])[0]["type"], "custom_tool_call_output");
    assert_eq!(reply.stop(), &StopReason::Calls);
}

/// A call whose input can't be read waits for the message's end; what follows it is answered behind it all
/// the same.
#[test]
fn openai_answers_are_in_the_order_of_the_calls() {
    let done = |place: u64, item: Value| json!({"type": "response.output_item.done", "output_index": place, "item": item});
    let function = |id: &str, status: &str| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{oops", "status": status});
    let events = [
        done(0, function("a", "completed")),
        done(1, function("b", "incomplete")),
        done(2, json!({"type": "custom_tool_call", "call_id": "x", "name": "t", "input": "free"})),
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}}),
    ];
    let ids = |items: &[Value]| items.iter().map(|item| item["call_id"].clone()).collect::<Vec<_>>();
    let answers = |reply: &ModelReply| ids(&reply.answer(&[]));
    let (_, reply) = read(Wire::OpenAi, &events);
    assert_eq!(
        (ids(reply.items()), answers(&reply)),
        (vec!["a".into(), "b".into(), "x".into()], ids(reply.items()))
    );
    // Where the stream breaks, nobody knows whether the first was whole.
    let (_, reply) = read(Wire::OpenAi, &events[..3]);
    assert_eq!((ids(reply.items()), answers(&reply)), (vec!["b".into(), "x".into()], ids(reply.items())));
}

fn gemini(parts: Value, reason: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    json!({"candidates": [candidate], "modelVersion": "g", "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}})
}

#[test]
fn gemini_keeps_signatures_where_they_were() {
    let events = [
        gemini(json!([{"text": "hm", "thought": true}]), None),
        gemini(json!([{"text": "mm", "thought": true}]), None),
        gemini(json!([{"text": "a"}]), None),
        gemini(json!([{"text": "b"}, {"text": "", "thoughtSignature": "s1"}]), None),
        gemini(
            json!([{"functionCall": {"name": "t", "args": {"x": 1}}, "thoughtSignature": "s2"}, {"functionCall": {"id": "i", "name": "u"}}]),
            None,
        ),
        gemini(json!([]), Some("STOP")),
    ];
    let (deltas, reply) = read(Wire::Gemini, &events);
    assert!(deltas.contains(&"ready 0  t {\"x\":1}".to_owned()), "{deltas:?}");
    assert_eq!(deltas.last().unwrap(), "ready 1 i u {}");
    let parts = json!([
        {"text": "hmmm", "thought": true}, {"text": "ab"}, {"text": "", "thoughtSignature": "s1"},
        {"functionCall": {"name": "t", "args": {"x": 1}}, "thoughtSignature": "s2"}, {"functionCall": {"id": "i", "name": "u"}},
    ]);
    assert_eq!(reply.items(), [json!({"role": "model", "parts": parts})]);
    assert_eq!((reply.stop(), reply.text(), reply.usage().output_tokens), (&StopReason::Calls, "ab", 5));
    let (_, reply) = read(Wire::Gemini, &events[..2]);
    assert_eq!(reply.items(), [] as [Value; 0]);
    let (_, reply) = read(Wire::Gemini, &[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    assert_eq!(reply.stop(), &StopReason::Refused { why: Some("SAFETY".into()) });
}

/// Two equal keys in a call's arguments are for the engine to refuse, so they have to reach it.
#[test]
fn inputs_reach_the_engine_as_they_were_written() {
    let part = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"t","args":{"x":1,"x":2}}}]},"finishReason":"STOP"}]}"#;
    let (mut reader, mut deltas) = (MessageReader::new(Wire::Gemini), Vec::new());
    reader.feed(format!("data: {part}\n\n").as_bytes(), &mut deltas);
    assert_eq!(
        reader.finish(&mut deltas).calls()[0].input,
        haft::call::CallInput::Text(r#"{"x":1,"x":2}"#.into())
    );
    let message = r#"{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{"x":1,"x":2}}],"stop_reason":"tool_use"}"#;
    assert_eq!(
        read_response(Wire::Anthropic, message).unwrap().calls()[0].input,
        haft::call::CallInput::Text(r#"{"x":1,"x":2}"#.into())
    );
}

#[test]
fn whole_responses_have_the_same_ends() {
    let message = |stop: &str, content: Value| {
        json!({"type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 2}}).to_string()
    };
    let reply = read_response(Wire::Anthropic, &message("refusal", json!([]))).unwrap();
    assert_eq!((reply.stop().word(), reply.items().len(), reply.usage().output_tokens), ("refused", 0, 2));
    let cut = json!([{"type": "tool_use", "id": "a", "name": "t", "input": {}}]);
    let reply = read_response(Wire::Anthropic, &message("max_tokens", cut)).unwrap();
    assert_eq!((reply.calls().len(), reply.requests_calls()), (0, true));
    let chat = json!({"id": "x", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    let reply = read_response(Wire::OpenAiChat, &chat.to_string()).unwrap();
    assert_eq!(
        (reply.text(), reply.stop(), reply.items()),
        ("hi", &StopReason::End, &[json!({"role": "assistant", "content": "hi"})][..])
    );
    let error =
        json!({"type": "error", "error": {"type": "authentication_error", "message": "no"}}).to_string();
    assert_eq!(read_response(Wire::Anthropic, &error).unwrap_err().kind, FailureKind::Unauthorized);
    for wire in Wire::ALL {
        assert!(read_response(wire, "<html>").is_err());
    }
}

#[test]
fn what_grows_is_bounded() {
    let (mut reader, mut deltas) = (MessageReader::new(Wire::Anthropic), Vec::new());
    for index in 0..20_000 {
        reader.feed(
            format!("data: {}\n\n", block(index, json!({"type": "text", "text": ""}))).as_bytes(),
            &mut deltas,
        );
    }
    assert_eq!(reader.failure().unwrap().message, "the message has more than 10000 parts");
    let (mut reader, mut deltas) = (MessageReader::new(Wire::Anthropic), Vec::new());
    for index in 0..2_000 {
        reader.feed(format!("data: {}\n\n", tool(index, "a")).as_bytes(), &mut deltas);
    }
    assert_eq!(reader.failure().unwrap().kind, FailureKind::TooLarge);
    let deep = format!("data: {{\"type\": \"x\", \"a\": {}\n\n", "[".repeat(100_000));
    let mut reader = MessageReader::new(Wire::OpenAi);
    reader.feed(deep.as_bytes(), &mut deltas);
    assert_eq!(reader.failure().unwrap().kind, FailureKind::Malformed);
}

/// Every event that the corners above are made of, by wire.
fn deck(wire: Wire) -> Vec<Value> {
    let item = |place: u64, kind: &str, item: Value| json!({"type": format!("response.output_item.{kind}"), "output_index": place, "item": item});
    let function = |id: &str, status: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": arguments, "status": status});
    match wire {
        Wire::Anthropic => vec![
            start(),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "signature_delta", "signature": "s"})),
            end(0),
            tool(1, "a"),
            input(1, "{\"x\":"),
            input(1, "1}"),
            end(1),
            tool(2, "b"),
            end(2),
            tool(3, "c"),
            input(3, "{\"y"),
            end(3),
            block(4, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
            end(4),
            block(5, json!({"type": "text", "text": "so"})),
            stop("tool_use"),
            stop("max_tokens"),
            json!({"type": "message_stop"}),
        ],
        Wire::OpenAi => vec![
            item(0, "added", function("a", "in_progress", "")),
            item(0, "done", function("a", "completed", "{}")),
            item(1, "added", function("b", "in_progress", "")),
            item(1, "done", function("b", "completed", "{\"x")),
            item(2, "done", function("c", "incomplete", "{\"x")),
            item(3, "done", json!({"type": "custom_tool_call", "call_id": "d", "name": "t", "input": "x"})),
            item(4, "done", json!({"type": "reasoning", "id": "r", "summary": []})),
            json!({"type": "response.output_text.delta", "output_index": 5, "delta": "text"}),
            json!({"type": "response.completed", "response": {"status": "completed", "output": [function("e", "completed", "{}")]}}),
            json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}}),
        ],
        Wire::OpenAiChat => vec![
            chunk(json!({"content": "text"})),
            call(0, json!({"id": "a", "function": {"name": "t", "arguments": ""}})),
            call(0, json!({"function": {"arguments": "{}"}})),
            call(1, json!({"id": "b", "function": {"name": "t", "arguments": "{\"x"}})),
            call(0, json!({"id": "c", "function": {"name": "t", "arguments": "{}"}})),
            call(2, json!({"function": {"name": "t"}})),
            call(3, json!({"id": "e", "type": "custom", "custom": {"name": "t", "input": "x"}})),
            call(4, json!({"id": "f"})),
            finish("tool_calls"),
            finish("length"),
        ],
        Wire::Gemini => vec![
            gemini(json!([{"text": "a"}]), None),
            gemini(json!([{"functionCall": {"id": "a", "name": "t", "args": {}}}]), None),
            gemini(json!([{"functionCall": {"id": "b", "name": "t", "args": []}}]), None),
            gemini(
                json!([{"functionCall": {"id": "c", "name": "t", "args": {}, "willContinue": true}}]),
                None,
            ),
            gemini(json!([{"functionCall": {"id": "d", "name": "t", "args": {}}}]), Some("MAX_TOKENS")),
            gemini(json!([]), Some("STOP")),
        ],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Events in any order, some twice, some not at all: every call that is kept has one answer, and what was
    /// told to be ready is what there is to run.
    #[test]
    fn events_in_any_order_leave_pairs(wire in prop::sample::select(Wire::ALL.to_vec()), order in prop::collection::vec(any::<prop::sample::Index>(), 0..24), sorted in any::<bool>()) {
        let deck = deck(wire);
        let mut places: Vec<usize> = order.iter().map(|index| index.index(deck.len())).collect();
        if sorted {
            // Nearly in order is where the interesting ones are.
            places.sort_unstable();
        }
        let events: Vec<Value> = places.into_iter().map(|place| deck[place].clone()).collect();
        let (deltas, reply) = read(wire, &events);
        let ready = deltas.iter().filter(|delta| delta.starts_with("ready")).count();
        prop_assert_eq!(ready, reply.calls().len());
        check_pairs(&reply, &json!(events).to_string());
    }
}
