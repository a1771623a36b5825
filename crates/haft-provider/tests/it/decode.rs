//! Messages in, calls out; results in, the answering message out.

use haft::call::CallInput;
use haft::{Effects, Engine, NoInput, Registry, dynamic_tool, tool};
use haft_provider::{ModelMessage, Wire, decode_message};
use serde_json::{Value, json};

#[track_caller]
fn read(message: Value) -> ModelMessage {
    decode_message(&message.to_string(), None).unwrap_or_else(|bad| panic!("{message}: {bad}"))
}

/// The calls as `id name input`, after the wire.
#[track_caller]
fn check(message: Value, wire: Wire, expected: &[&str]) {
    let found = read(message);
    let calls: Vec<String> = found
        .calls()
        .iter()
        .map(|call| match &call.input {
            CallInput::Text(text) => format!("{} {} {text}", call.id, call.name),
            CallInput::Value(value) => panic!("{value} was read before the engine could judge it"),
        })
        .collect();
    assert_eq!((found.wire(), calls), (wire, expected.iter().map(|call| call.to_string()).collect()));
}

#[track_caller]
fn refused(text: &str, wire: Option<Wire>, expected: &str) {
    let bad = decode_message(text, wire).expect_err(text).to_string();
    assert!(bad.starts_with(expected), "{text}\n{bad}");
}

#[test]
fn anthropic() {
    let content = json!([
        {"type": "thinking", "thinking": "…", "signature": "s"},
        {"type": "text", "text": "hi", "citations": null},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "tool_use", "id": "t1", "name": "a", "input": {"x": 1}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "t2", "name": "b", "input": []},
        {"type": "tool_use", "id": "t2", "name": "c"},
    ]);
    let expected = ["t1 a {\"x\":1}", "t2 b []", "t2 c {}"];
    check(content.clone(), Wire::Anthropic, &expected);
    check(
        json!({"id": "m", "type": "message", "role": "assistant", "model": "x", "content": content, "stop_reason": "tool_use"}),
        Wire::Anthropic,
        &expected,
    );
    check(json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]}), Wire::Anthropic, &[]);
    check(json!({"type": "message", "content": []}), Wire::Anthropic, &[]);
    assert_eq!(decode_message(r#"{"content": "only text"}"#, Some(Wire::Anthropic)).unwrap().calls(), []);
}

#[test]
fn openai() {
    let output = json!([
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "function_call", "id": "f", "call_id": "c1", "name": "a", "arguments": "{\"x\": 1}", "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "b", "arguments": "{bro"},
        {"type": "function_call", "call_id": "c3", "name": "b", "arguments": {"x": 1}},
        {"type": "function_call", "call_id": "c4", "name": "b", "arguments": ""},
    ]);
    let expected = ["c1 a {\"x\": 1}", "c2 b {bro", "c3 b {\"x\":1}", "c4 b "];
    check(output.clone(), Wire::OpenAi, &expected);
    check(json!({"object": "response", "output": output, "error": null}), Wire::OpenAi, &expected);
    check(output[3].clone(), Wire::OpenAi, &expected[..1]);
    let other = read(
        json!([{"type": "shell_call", "call_id": "x"}, {"type": "tool_search_call", "execution": "server"}]),
    );
    assert_eq!(other.passed_over(), ["shell_call"]);
}

#[test]
fn openai_chat() {
    let calls = json!([
        {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
        {"id": "c2", "function": {"name": "b", "arguments": {"x": 1}}},
    ]);
    let expected = ["c1 a {}", "c2 b {\"x\":1}"];
    let message = json!({"role": "assistant", "content": null, "refusal": null, "function_call": null, "tool_calls": calls});
    check(message.clone(), Wire::OpenAiChat, &expected);
    check(
        json!({"index": 0, "finish_reason": "tool_calls", "message": message}),
        Wire::OpenAiChat,
        &expected,
    );
    check(
        json!({"object": "chat.completion", "choices": [{"message": message}]}),
        Wire::OpenAiChat,
        &expected,
    );
    check(json!({"role": "assistant", "content": "hi", "tool_calls": null}), Wire::OpenAiChat, &[]);
}

#[test]
fn gemini() {
    let content = json!({"role": "model", "parts": [
        {"text": "hi"}, {"thought": true, "text": "…"},
        {"functionCall": {"name": "a", "args": {"x": 1}}, "thoughtSignature": "s"},
        {"functionCall": {"id": "g", "name": "b"}}]});
    let expected = [" a {\"x\":1}", "g b {}"];
    check(content.clone(), Wire::Gemini, &expected);
    check(json!({"content": content, "finishReason": "STOP"}), Wire::Gemini, &expected);
    check(json!({"candidates": [{"content": content}], "usageMetadata": {}}), Wire::Gemini, &expected);
    check(content["parts"].clone(), Wire::Gemini, &expected);
    check(
        json!({"role": "model", "parts": [{"text": "hi", "function_call": null}, {"text": null, "function_call": {"id": null, "name": "a", "args": {"x": 1}, "will_continue": null}}]}),
        Wire::Gemini,
        &expected[..1],
    );
    check(json!({"candidates": [{"content": null, "finish_reason": "SAFETY"}]}), Wire::Gemini, &[]);
}

#[test]
fn bad_messages_say_what_and_where() {
    refused("{\n \"role\" 1}", None, "the message is not JSON: expected `:` at line 2 column 9");
    refused("", None, "the message is empty; an assistant message as JSON is accepted");
    refused(
        &"[".repeat(5_000),
        None,
        "the message is not JSON: an array is not closed at line 1 column 5000",
    );
    refused("5", None, "a number doesn't say whose message it is; accepted are an Anthropic message");
    refused("[]", None, "an empty array doesn't say whose message it is");
    refused("{}", None, "an object without fields doesn't say");
    refused(
        r#"{"role": "assistant", "content": "hi"}"#,
        None,
        "an object with `content`, `role` doesn't say",
    );
    refused(
        r#"[{"type": "tool_use"}, {"type": "function_call"}]"#,
        None,
        "an array of parts that no one provider has",
    );
    let anthropic = Some(Wire::Anthropic);
    refused(
        r#"{"content": 5}"#,
        anthropic,
        "at `/content`: a number came; an array of content blocks is accepted",
    );
    refused(r#"{}"#, anthropic, "the message has no `content`; an array is required");
    refused("7", anthropic, "a number came; a message object or its content array is accepted");
    refused(r#"[5]"#, anthropic, "at `/0`: a number came; a content block is accepted");
    refused(
        r#"{"content": [{"type": "tool_use", "name": "a"}]}"#,
        None,
        "at `/content/0`: the `tool_use` block has no `id`; a string is required",
    );
    refused(
        r#"[{"type": "tool_use", "id": "", "name": "a"}]"#,
        None,
        "at `/0/id`: the `id` of the `tool_use` block is empty",
    );
    refused(
        r#"[{"type": "tool_use", "id": "i", "name": 5}]"#,
        None,
        "at `/0/name`: the `name` of the `tool_use` block is a number; a string is accepted",
    );
    refused(
        r#"{"output": [{"type": "function_call", "name": "a"}]}"#,
        None,
        "at `/output/0`: the `function_call` has no `call_id`",
    );
    refused(r#"{"tool_calls": [{"id": "x"}]}"#, None, "at `/tool_calls/0`: the tool call has no `function`");
    refused(r#"{"choices": []}"#, None, "at `/choices`: the completion has no choice");
    refused(
        r#"{"choices": [{"message": {"tool_calls": {}}}]}"#,
        None,
        "at `/choices/0/message/tool_calls`: an object came",
    );
    refused(
        r#"{"parts": [{"functionCall": {"args": {}}}]}"#,
        None,
        "at `/parts/0/functionCall`: the function call has no `name`",
    );
    refused(
        r#"{"parts": [{"functionCall": {"name": "a", "id": 5}}]}"#,
        None,
        "at `/parts/0/functionCall/id`: the `id` of the function call is a number",
    );
}

/// A message that is taken for another provider's has calls that nobody would answer.
#[test]
fn calls_of_another_wire_are_refused() {
    let anthropic = json!({"type": "tool_use", "id": "a", "name": "now", "input": {}});
    let openai = json!({"type": "function_call", "call_id": "a", "name": "now", "arguments": "{}"});
    let custom = json!({"type": "custom_tool_call", "call_id": "a", "name": "now", "input": "x"});
    let chat = json!({"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}});
    let bare = json!({"id": "a", "function": {"name": "now", "arguments": "{}"}});
    let free = json!({"id": "a", "type": "custom", "custom": {"name": "now", "input": "x"}});
    let gemini = json!({"functionCall": {"name": "now", "args": {}}});
    let snake = json!({"function_call": {"name": "now", "args": {}}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [chat]});
    for (whose, kind, path, text) in [
        (Wire::Anthropic, "tool_use", "/0", json!([anthropic])),
        (
            Wire::Anthropic,
            "tool_use",
            "/content/1",
            json!({"role": "assistant", "content": [{"type": "text", "text": ""}, anthropic]}),
        ),
        (
            Wire::Anthropic,
            "tool_use",
            "/message/content/0",
            json!({"message": {"role": "assistant", "content": [anthropic]}}),
        ),
        (Wire::Anthropic, "tool_use", "", anthropic.clone()),
        (Wire::OpenAi, "function_call", "/0", json!([openai])),
        (Wire::OpenAi, "function_call", "", openai.clone()),
        (Wire::OpenAi, "custom_tool_call", "/output/0", json!({"output": [custom]})),
        (Wire::OpenAiChat, "function", "/0", json!([chat])),
        (Wire::OpenAiChat, "function", "/tool_calls/0", json!({"content": "text", "tool_calls": [bare]})),
        (Wire::OpenAiChat, "custom", "/tool_calls/0", json!({"content": [], "tool_calls": [free]})),
        (
            Wire::OpenAiChat,
            "function",
            "/choices/0/message/tool_calls/0",
            json!({"choices": [{"message": message}]}),
        ),
        (Wire::Gemini, "functionCall", "/parts/0", json!({"parts": [gemini]})),
        (
            Wire::Gemini,
            "function_call",
            "/candidates/0/content/parts/0",
            json!({"candidates": [{"content": {"parts": [snake]}}]}),
        ),
        (Wire::Gemini, "functionCall", "/content/parts/0", json!({"content": {"parts": [gemini]}})),
    ] {
        for wire in Wire::ALL.into_iter().filter(|wire| *wire != whose) {
            let words =
                format!("a `{kind}` is a call of `{whose}`, and the message is read as one of `{wire}`");
            let place = if path.is_empty() { String::new() } else { format!("at `{path}`: ") };
            refused(&text.to_string(), Some(wire), &format!("{place}{words}"));
        }
    }
    // Beside calls of its own too.
    refused(
        &json!([openai, anthropic]).to_string(),
        Some(Wire::OpenAi),
        "at `/1`: a `tool_use` is a call of",
    );
    refused(
        &json!({"role": "assistant", "content": [anthropic], "tool_calls": [chat]}).to_string(),
        None,
        "at `/content/0`: a `tool_use`",
    );
    refused(
        r#"{"role": "assistant", "content": null, "function_call": {"name": "now", "arguments": "{}"}}"#,
        Some(Wire::OpenAiChat),
        "at `/function_call`: a `function_call` of the old form has no id to answer to; `tool_calls` are",
    );
    // Looking for them ends, however deep a message is wrapped.
    let deep = format!(r#"{}{{}}{}"#, r#"{"content":"#.repeat(200_000), "}".repeat(200_000));
    refused(&deep, None, "an object with `content` doesn't say whose message it is");
    assert_eq!(decode_message(&deep, Some(Wire::Gemini)).unwrap().calls(), []);
    // What is nobody's call is passed over, whoever is said.
    let others = json!([{"type": "text", "text": "hi"}, {"type": "server_tool_use", "id": "s", "name": "w", "input": {}}, {"type": "new_thing", "name": "x"}]);
    assert_eq!(decode_message(&others.to_string(), Some(Wire::OpenAi)).unwrap().calls(), []);
}

/// Equal keys in the frame: two readers could take different ones.
#[test]
fn equal_keys_of_the_frame_are_a_bad_message() {
    let twice = |key: &str| format!("the key \"{key}\" appears twice in one object; give it once");
    for (text, path, key) in [
        (r#"[{"type": "tool_use", "id": "a", "id": "b", "name": "now", "input": {}}]"#, "/0/id", "id"),
        (
            r#"{"content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}, "input": {}}]}"#,
            "/content/0/input",
            "input",
        ),
        (
            r#"{"content": [], "content": [{"type": "tool_use", "id": "a", "name": "now"}]}"#,
            "/content",
            "content",
        ),
        (
            r#"{"output": [{"type": "function_call", "type": "message", "call_id": "c", "name": "now"}]}"#,
            "/output/0/type",
            "type",
        ),
        (
            r#"{"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"name": "now", "name": "echo"}}]}}]}"#,
            "/choices/0/message/tool_calls/0/function/name",
            "name",
        ),
        (
            r#"{"parts": [{"functionCall": {"name": "now", "args": {}, "args": {}}}]}"#,
            "/parts/0/functionCall/args",
            "args",
        ),
    ] {
        let bad = decode_message(text, None).expect_err(text);
        assert_eq!((bad.path(), bad.to_string()), (path, format!("at `{path}`: {}", twice(key))), "{text}");
    }
    refused(
        r#"[{"type": "tool_use", "id": "\ud800", "name": "now"}]"#,
        None,
        "at `/0/id`: the `id` of the `tool_use` block is a string with half a surrogate in it; a string",
    );
    // What nobody reads is nobody's business.
    check_text(r#"{"usage": {"a": 1, "a": 2}, "content": [{"type": "text", "text": "\ud800", "x": [[]]}]}"#);
}

#[track_caller]
fn check_text(text: &str) {
    assert_eq!(decode_message(text, None).unwrap().calls(), [], "{text}");
}

/// Whatever is wrong inside one call's arguments is that call's own error, on every wire; the others run.
#[tokio::test]
async fn a_bad_input_is_its_own_calls_error() {
    let deep = format!(r#"{{"x": {}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    for (input, expected) in [
        (r#"{"x": 1, "x": 2}"#, "the key \"x\" appears twice in one object; give it once"),
        (r#"{"x": "\ud800"}"#, "a \\u escape of a surrogate has to be followed by its second half"),
        (r#"{"x": 1e400}"#, "out of range"),
        (deep.as_str(), "nested too deep; at most 64 objects and arrays may be inside one another"),
    ] {
        let quoted = Value::from(input);
        // The half of a surrogate once more, in the string that holds the arguments.
        let halved = quoted.to_string().replace(r"\\ud800", r"\ud800");
        for message in [
            format!(
                r#"[{{"type":"tool_use","id":"1","name":"echo","input":{input}}},{{"type":"tool_use","id":"2","name":"now","input":{{}}}}]"#
            ),
            format!(
                r#"[{{"type":"function_call","call_id":"1","name":"echo","arguments":{input}}},{{"type":"function_call","call_id":"2","name":"now","arguments":"{{}}"}}]"#
            ),
            format!(
                r#"[{{"type":"function_call","call_id":"1","name":"echo","arguments":{quoted}}},{{"type":"function_call","call_id":"2","name":"now","arguments":"{{}}"}}]"#
            ),
            format!(
                r#"{{"tool_calls":[{{"id":"1","function":{{"name":"echo","arguments":{halved}}}}},{{"id":"2","function":{{"name":"now","arguments":"{{}}"}}}}]}}"#
            ),
            format!(
                r#"{{"parts":[{{"functionCall":{{"name":"echo","args":{input}}}}},{{"functionCall":{{"name":"now"}}}}]}}"#
            ),
        ] {
            let answer = answered_text(&message).await;
            let results = answer.get("content").or(answer.get("parts")).unwrap_or(&answer);
            let (bad, good) = (results[0].to_string(), results[1].to_string());
            let expected = Value::from(expected).to_string();
            assert!(bad.contains(expected.trim_matches('"')), "{bad}");
            assert!(good.contains("noon"), "{good}");
        }
    }
}

/// Runs the calls of a message on two small tools and returns the answer.
async fn answered(message: Value) -> Value {
    answered_text(&message.to_string()).await
}

async fn answered_text(message: &str) -> Value {
    let echo = dynamic_tool(
        "echo",
        "Echoes.",
        json!({"type": "object", "properties": {"x": {"type": "integer"}}}),
        |input, _| async move { Ok(input.to_string()) },
    )
    .effects(|_| Effects::none());
    let now = tool("now", "Tells the time.", |_: NoInput, _| async { Ok("noon") })
        .effects(|_| Effects::none())
        .alias("time");
    let engine = Engine::new(Registry::new().with(echo).unwrap().with(now).unwrap());
    let message = decode_message(message, None).unwrap_or_else(|bad| panic!("{message}: {bad}"));
    let results = engine.turn().run(message.calls()).await;
    message.answer(&results)
}

#[tokio::test]
async fn answers_are_in_order_whatever_happened() {
    assert_eq!(
        answered(json!([{"type": "tool_use", "id": "1", "name": "now", "input": {}}, {"type": "tool_use", "id": "1", "name": "nope", "input": {}}, {"type": "tool_use", "id": "2", "name": "echo", "input": 5}])).await,
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "noon"},
            {"type": "tool_result", "tool_use_id": "1", "content": "no tool named `nope`; closest: `now`", "is_error": true},
            {"type": "tool_result", "tool_use_id": "2", "content": "invalid input for echo (1 problem):\n  (input)   5 is a number; an object with `x` is accepted\nfix this field and call echo again", "is_error": true},
        ]})
    );
    // A free-form call is answered, between the others.
    assert_eq!(
        answered(json!([
            {"type": "custom_tool_call", "call_id": "c0", "name": "echo", "input": "text"},
            {"type": "function_call", "call_id": "c1", "name": "echo", "arguments": "{\"x\": null}"},
            {"type": "function_call", "call_id": "c2", "name": "echo", "arguments": "{"}]))
        .await,
        json!([
            {"type": "custom_tool_call_output", "call_id": "c0", "output": "error: `echo` takes no free-form input here; call it as a function, with JSON arguments"},
            {"type": "function_call_output", "call_id": "c1", "output": "{}"},
            {"type": "function_call_output", "call_id": "c2", "output": "error: invalid input for echo (1 problem):\n  (input)   the JSON text is cut off at line 1 column 1: an object is not closed; send the whole text\nfix this field and call echo again"},
        ])
    );
    // The name that was asked for, and no id where there was none.
    assert_eq!(
        answered(json!({"parts": [{"functionCall": {"name": "time", "args": {}}}]})).await,
        json!({"role": "user", "parts": [{"functionResponse": {"name": "time", "response": {"output": "noon"}}}]})
    );
    for (message, empty) in [
        (json!({"content": [{"type": "text", "text": "x"}]}), json!({"role": "user", "content": []})),
        (json!({"output": []}), json!([])),
        (json!({"tool_calls": []}), json!([])),
        (json!({"parts": [{"text": "x"}]}), json!({"role": "user", "parts": []})),
    ] {
        assert_eq!(answered(message).await, empty);
    }
}

#[tokio::test]
async fn half_a_call_is_never_run() {
    let cut = "was not run: the message ended before the call was complete";
    let call = json!({"type": "tool_use", "id": "1", "name": "now", "input": {}});
    let answer = answered(json!({"stop_reason": "max_tokens", "content": [call, call]})).await;
    assert_eq!(answer["content"][0]["content"], "noon");
    assert!(
        answer["content"][1]["content"].as_str().unwrap().contains(cut)
            && answer["content"][1]["is_error"] == true
    );
    let text = json!({"type": "text", "text": "and"});
    let answer = answered(json!({"stop_reason": "max_tokens", "content": [call, text]})).await;
    assert_eq!(answer["content"][0]["content"], "noon");

    let answer = answered(json!([{"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}", "status": "incomplete"}])).await;
    assert!(answer[0]["output"].as_str().unwrap().contains(cut), "{answer}");
    let calls = json!([{"id": "c", "function": {"name": "now", "arguments": "{}"}}]);
    let answer =
        answered(json!({"choices": [{"finish_reason": "length", "message": {"tool_calls": calls}}]})).await;
    assert!(answer[0]["content"].as_str().unwrap().contains(cut), "{answer}");
    let parts = json!([{"functionCall": {"name": "now"}}]);
    let answer =
        answered(json!({"candidates": [{"finishReason": "MAX_TOKENS", "content": {"parts": parts}}]})).await;
    assert!(
        answer["parts"][0]["functionResponse"]["response"]["error"].as_str().unwrap().contains(cut),
        "{answer}"
    );
}
