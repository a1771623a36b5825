//! Requests against the schemas of the providers' own SDKs.

use std::sync::Arc;

use haft_agent::{Conversation, ModelRequest, ToolDefinitions, UserPart};
use haft_provider::stream::read_response;
use haft_provider::{DefinitionCache, RequestOptions, ThinkingMode, Wire};
use serde_json::{Value, json};

use crate::shared::{fits, request_schema, snapshot};

fn tools(wire: Wire) -> ToolDefinitions {
    let path = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    DefinitionCache::new(wire).define(&snapshot(&[("Grep", path.clone()), ("Read", path)]))
}

/// A conversation with everything in it: words, a picture, thinking, calls, results, words after results.
fn conversation(wire: Wire) -> Conversation {
    let mut conversation = Conversation::new(wire);
    let png =
        haft::content::BinaryContent { media_type: "image/png".into(), bytes: [1, 2, 3].into(), name: None };
    conversation.say_parts(&[UserPart::Text("look".into()), UserPart::Image(png)]);
    let reply = match wire {
        Wire::Anthropic => {
            json!({"type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x"}}, {"type": "tool_use", "id": "b", "name": "Grep", "input": {}}]})
        }
        Wire::OpenAi => json!({"status": "completed", "model": "m", "output": [
            {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "e"}, {"type": "reasoning", "id": "r2", "summary": []},
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
            {"type": "function_call", "id": "f1", "call_id": "a", "name": "Read", "arguments": "{\"path\":\"x\"}", "status": "completed"},
            {"type": "function_call", "id": "f2", "call_id": "b", "name": "Grep", "arguments": "{}", "status": "completed"}]}),
        Wire::OpenAiChat => {
            json!({"id": "i", "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}, {"id": "b", "type": "function", "function": {"name": "Grep", "arguments": "{}"}}]}}]})
        }
        Wire::Gemini => {
            json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "I look."}, {"functionCall": {"id": "a", "name": "Read", "args": {}}, "thoughtSignature": "c2ln"}, {"functionCall": {"id": "b", "name": "Grep", "args": {}}}]}}]})
        }
    };
    let reply = read_response(wire, &reply.to_string()).unwrap();
    conversation.reply(&reply);
    conversation.answer(reply.answer(&[]));
    conversation.say("and then?");
    conversation
}

pub(crate) fn body(wire: Wire, options: &RequestOptions) -> Value {
    let system: [Arc<str>; 2] = ["You help.".into(), "Be brief.".into()];
    let (conversation, tools) = (conversation(wire), tools(wire));
    let prompt = ModelRequest { system: &system, conversation: &conversation, tools: &tools };
    let text = options.body(wire, &prompt);
    assert_eq!(text, options.body(wire, &prompt), "the same bytes each time");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn anthropic_requests_fit_the_schema() {
    let Some(schema) = request_schema("anthropic") else { return };
    for options in [
        RequestOptions::new("m"),
        RequestOptions::new("m").stream(false).max_tokens(9),
        RequestOptions::new("m").thinking(ThinkingMode::Tokens(2_000)),
        RequestOptions::new("m").thinking(ThinkingMode::Effort("high".into())),
        RequestOptions::new("m").with("metadata", json!({"user_id": "u"})).with("max_tokens", 7),
    ] {
        let mut request = body(Wire::Anthropic, &options);
        // The schema is that of a request that isn't streamed.
        request.as_object_mut().unwrap().remove("stream");
        fits(&schema, &request);
    }
    let request = body(Wire::Anthropic, &RequestOptions::new("m").with("max_tokens", 7));
    assert_eq!(request["max_tokens"], 7);
    assert_eq!(body(Wire::Anthropic, &RequestOptions::new("m"))["stream"], true);
}

#[test]
fn openai_requests_fit_the_schema() {
    let Some(schema) = request_schema("openai") else { return };
    for options in [
        RequestOptions::new("gpt-5").cache_key("session"),
        RequestOptions::new("gpt-4.1").max_tokens(9),
        RequestOptions::new("gpt-5").thinking(ThinkingMode::Effort("low".into())),
    ] {
        let mut request = body(Wire::OpenAi, &options);
        request.as_object_mut().unwrap().remove("stream");
        fits(&schema, &request);
        let kinds: Vec<_> =
            request["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
        assert_eq!(
            kinds.iter().filter(|kind| **kind == "reasoning").count(),
            1,
            "only what can be sent back"
        );
        assert_eq!(request["store"], false);
    }
    let include = |model: &str| body(Wire::OpenAi, &RequestOptions::new(model))["include"].clone();
    assert_eq!(include("gpt-5"), json!(["reasoning.encrypted_content"]));
    assert_eq!(include("gpt-4.1"), Value::Null);
}

#[test]
fn cache_markers_are_at_the_ends() {
    let request = body(Wire::Anthropic, &RequestOptions::new("m"));
    let marked = |value: &Value| value.get("cache_control").is_some();
    let tools = request["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(marked).collect::<Vec<_>>(), [false, true]);
    assert_eq!(request["system"].as_array().unwrap().iter().map(marked).collect::<Vec<_>>(), [false, true]);
    let messages = request["messages"].as_array().unwrap();
    let blocks =
        |at: usize| messages[at]["content"].as_array().unwrap().iter().map(marked).collect::<Vec<_>>();
    assert_eq!(messages.len(), 3);
    assert_eq!((blocks(0), blocks(1)), (vec![false, true], vec![false; 4]));
    assert_eq!(blocks(2), [false, false, true], "results and words are one message, marked at its end");
    assert_eq!(request.to_string().matches("cache_control").count(), 4, "the API takes four");
    let mut options = RequestOptions::new("m");
    options.cache = false;
    assert!(!body(Wire::Anthropic, &options).to_string().contains("cache_control"));
}

/// A turn later the beginning is the same bytes, but for the markers.
#[test]
fn the_beginning_of_a_request_stays() {
    for wire in Wire::ALL {
        let (mut conversation, tools) = (conversation(wire), tools(wire));
        let system: [Arc<str>; 1] = ["You help.".into()];
        let mut options = RequestOptions::new("m");
        options.cache = false;
        let before =
            options.body(wire, &ModelRequest { system: &system, conversation: &conversation, tools: &tools });
        conversation.say("more");
        let after =
            options.body(wire, &ModelRequest { system: &system, conversation: &conversation, tools: &tools });
        let same = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
        assert!(same + 32 > before.len(), "{wire}: {same} of {}\n{before}\n{after}", before.len());
    }
}

#[test]
fn chat_and_gemini() {
    let request = body(Wire::OpenAiChat, &RequestOptions::new("m").max_tokens(5));
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "You help.\n\nBe brief."}));
    let roles: Vec<_> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    assert_eq!(
        (&request["max_tokens"], &request["stream_options"]),
        (&json!(5), &json!({"include_usage": true}))
    );
    let request =
        body(Wire::Gemini, &RequestOptions::new("m").max_tokens(5).thinking(ThinkingMode::Tokens(100)));
    assert_eq!(request["systemInstruction"]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(
        request["generationConfig"],
        json!({"maxOutputTokens": 5, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 100}})
    );
    let roles: Vec<_> = request["contents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|content| content["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "model", "user"]);
    assert_eq!(request["contents"][2]["parts"].as_array().unwrap().len(), 3);
    assert!(request["tools"][0]["functionDeclarations"].is_array());
}

#[test]
fn nothing_empty_is_sent() {
    for wire in Wire::ALL {
        let mut conversation = Conversation::new(wire);
        conversation.say(" \n");
        let prompt = ModelRequest {
            system: &["".into()],
            conversation: &conversation,
            tools: &ToolDefinitions::none(),
        };
        let text = RequestOptions::new("m").body(wire, &prompt);
        let request: Value = serde_json::from_str(&text).unwrap();
        assert!(text.contains("(the user said nothing)"), "{text}");
        for key in ["tools", "system", "instructions", "systemInstruction"] {
            assert!(request.get(key).is_none(), "{wire} {key}");
        }
    }
}

#[test]
fn old_results_are_cleared_and_say_so() {
    for wire in Wire::ALL {
        let mut conversation = conversation(wire);
        // The results that are made without running are short: nothing to gain.
        assert_eq!(conversation.clear_results(0, |_| "gone".into()), 0, "{wire}");
        let long = "x".repeat(500);
        let answer = match wire {
            Wire::Anthropic => {
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": long}, {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": long}], "is_error": true}]})
            }
            Wire::OpenAi => {
                json!([{"type": "function_call_output", "call_id": "a", "output": long}, {"type": "function_call_output", "call_id": "b", "output": long}])
            }
            Wire::OpenAiChat => {
                json!([{"role": "tool", "tool_call_id": "a", "content": long}, {"role": "tool", "tool_call_id": "b", "content": long}])
            }
            Wire::Gemini => {
                json!({"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "Read", "response": {"output": long}}}, {"functionResponse": {"id": "b", "name": "Grep", "response": {"output": long}, "parts": []}}]})
            }
        };
        conversation.answer(match answer {
            Value::Array(items) => items,
            item => vec![item],
        });
        let before = conversation.estimate_tokens();
        assert_eq!(conversation.clear_results(1, |id| format!("gone {id}")), 1, "{wire}");
        let text = json!(conversation.items()).to_string();
        assert!(text.contains("gone a") && !text.contains("gone b"), "{wire}: {text}");
        assert_eq!(conversation.clear_results(0, |id| format!("gone {id}")), 1, "{wire}: once each");
        assert!(conversation.estimate_tokens() + 150 < before, "{wire}");
    }
}

/// A picture is a page of text, whatever it weighs.
#[test]
fn a_picture_is_not_counted_by_its_bytes() {
    for wire in Wire::ALL {
        let mut conversation = Conversation::new(wire);
        let png = haft::content::BinaryContent {
            media_type: "image/png".into(),
            bytes: vec![7; 1_000_000].into(),
            name: None,
        };
        conversation.say_parts(&[UserPart::Image(png)]);
        let guess = conversation.estimate_tokens();
        assert!((1_000..3_000).contains(&guess), "{wire}: {guess}");
    }
}

#[test]
fn the_providers_own_search_is_the_last_tool() {
    for wire in Wire::ALL {
        let before = body(wire, &RequestOptions::new("m"));
        let after = body(wire, &RequestOptions::new("m").web_search(true));
        if !wire.searches() {
            assert_eq!(before, after, "{wire}");
            continue;
        }
        let (mut tools, last) = (after["tools"].as_array().unwrap().clone(), before["tools"].clone());
        let search = tools.pop().unwrap();
        assert_eq!(Value::Array(tools), last, "{wire}: what stands before it stays as it is");
        assert!(search.to_string().to_lowercase().replace('_', "").contains("search"), "{search}");
        let schema = match wire {
            Wire::Anthropic => request_schema("anthropic"),
            Wire::OpenAi => request_schema("openai"),
            _ => None,
        };
        if let Some(schema) = schema {
            let mut request = after;
            request.as_object_mut().unwrap().remove("stream");
            fits(&schema, &request);
        }
    }
}
