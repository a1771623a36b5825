//! One result by each wire, held against the providers' own schemas.

use haft::{
    Effects, Engine, IntoOutput, NoInput, Registry, ResultBlock, ToolCall, ToolError, ToolResult, tool,
};
use haft_provider::{Wire, encode_result};
use serde_json::{Value, json};

use crate::shared::{anthropic_request, fits, openai_request, request_schema};

/// The result of a tool that gives this back.
async fn result<T: IntoOutput + Clone + Sync>(output: Result<T, &'static str>) -> ToolResult {
    let say = tool("say", "Says.", move |_: NoInput, _| {
        let output = output.clone().map_err(ToolError::new);
        async move { output }
    })
    .effects(|_| Effects::none());
    let engine = Engine::new(Registry::new().with(say).unwrap());
    engine.turn().run([ToolCall::new("id-1", "say", "{}")]).await.pop().unwrap()
}

/// All four, after each was held against its provider's schema where there is one.
#[track_caller]
fn all(result: &ToolResult) -> [Value; 4] {
    let (anthropic, openai) = (encode_result(Wire::Anthropic, result), encode_result(Wire::OpenAi, result));
    for name in ["anthropic", "anthropic-beta"] {
        if let Some(schema) = request_schema(name) {
            fits(&schema, &anthropic_request(json!([]), json!({"role": "user", "content": [anthropic]})));
        }
    }
    if let Some(schema) = request_schema("openai") {
        fits(&schema, &openai_request(json!([]), json!([openai])));
    }
    [anthropic, openai, encode_result(Wire::OpenAiChat, result), encode_result(Wire::Gemini, result)]
}

#[tokio::test]
async fn text() {
    assert_eq!(
        all(&result(Ok("hello")).await),
        [
            json!({"type": "tool_result", "tool_use_id": "id-1", "content": "hello"}),
            json!({"type": "function_call_output", "call_id": "id-1", "output": "hello"}),
            json!({"role": "tool", "tool_call_id": "id-1", "content": "hello"}),
            json!({"functionResponse": {"id": "id-1", "name": "say", "response": {"output": "hello"}}}),
        ]
    );
}

#[tokio::test]
async fn errors() {
    assert_eq!(
        all(&result::<&str>(Err("the disk is full; free some space")).await),
        [
            json!({"type": "tool_result", "tool_use_id": "id-1", "content": "the disk is full; free some space", "is_error": true}),
            json!({"type": "function_call_output", "call_id": "id-1", "output": "error: the disk is full; free some space"}),
            json!({"role": "tool", "tool_call_id": "id-1", "content": "error: the disk is full; free some space"}),
            json!({"functionResponse": {"id": "id-1", "name": "say", "response": {"error": "the disk is full; free some space"}}}),
        ]
    );
}

#[tokio::test]
async fn nothing_is_never_empty() {
    for empty in [vec![], vec![ResultBlock::text("")], vec![ResultBlock::text(""), ResultBlock::text("")]] {
        let [anthropic, openai, chat, gemini] = all(&result(Ok(empty)).await);
        assert_eq!(anthropic["content"], "(no output)");
        assert_eq!(openai["output"], "(no output)");
        assert_eq!(chat["content"], "(no output)");
        assert_eq!(gemini["functionResponse"]["response"], json!({"output": "(no output)"}));
    }
    let [anthropic, openai, ..] = all(&result(Ok(" \n")).await);
    assert_eq!((&anthropic["content"], &openai["output"]), (&json!("(only white space)"), &json!(" \n")));
}

#[tokio::test]
async fn structured_results() {
    let [anthropic, openai, chat, gemini] = all(&result(Ok(json!({"a": [1, null]}))).await);
    assert_eq!(anthropic["content"], r#"{"a":[1,null]}"#);
    assert_eq!(openai["output"], r#"{"a":[1,null]}"#);
    assert_eq!(chat["content"], r#"{"a":[1,null]}"#);
    assert_eq!(gemini["functionResponse"]["response"], json!({"output": {"a": [1, null]}}));
}

/// How every PNG begins.
const PNG: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

#[tokio::test]
async fn pictures_documents_and_links() {
    let blocks = vec![
        ResultBlock::text("see"),
        ResultBlock::text("this"),
        ResultBlock::image("image/png", PNG),
        ResultBlock::image("image/tiff", [1]),
        ResultBlock::document("application/pdf", *b"%PDF-1"),
        ResultBlock::document("text/plain", *b"words"),
        ResultBlock::document("application/zip", [9]),
        ResultBlock::link("https://example.com/x", "x"),
    ];
    let [anthropic, openai, chat, gemini] = all(&result(Ok(blocks)).await);
    assert_eq!(
        anthropic["content"],
        json!([
            {"type": "text", "text": "see\nthis"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            {"type": "text", "text": "[image: image/tiff, 1 bytes]"},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
            {"type": "text", "text": "[document: application/zip, 1 bytes]\n[x: https://example.com/x]"},
        ])
    );
    assert_eq!(
        openai["output"][2],
        json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"})
    );
    assert_eq!(
        openai["output"][4],
        json!({"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"})
    );
    assert!(chat["content"].as_str().unwrap().contains("[image: image/png, 8 bytes]\n"));
    assert_eq!(
        gemini["functionResponse"]["parts"],
        json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}, {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0x"}}])
    );
    let [.., gemini] = all(&result(Ok(ResultBlock::image("image/png", PNG))).await);
    assert_eq!(gemini["functionResponse"]["response"], json!({"output": "see the attached parts"}));
}

/// One that isn't what it is called would have every request refused from then on.
#[tokio::test]
async fn what_a_picture_is_its_bytes_say() {
    let lies = vec![
        ResultBlock::image("image/png", *b"<html>no picture"),
        ResultBlock::image("image/png", []),
        ResultBlock::document("application/pdf", *b"no document"),
    ];
    for wire in all(&result(Ok(lies)).await) {
        let text = wire.to_string();
        assert!(text.contains("[image: image/png, 16 bytes]\\n[image: image/png, 0 bytes]"), "{text}");
        for part in ["base64", "input_image", "input_file", "inlineData"] {
            assert!(!text.contains(part), "{text}");
        }
    }
    let jpeg = [0xff, 0xd8, 0xff, 0xe0];
    let [anthropic, openai, _, gemini] = all(&result(Ok(ResultBlock::image("image/png", jpeg))).await);
    assert_eq!(anthropic["content"][0]["source"]["media_type"], "image/jpeg");
    assert_eq!(openai["output"][0]["image_url"], "data:image/jpeg;base64,/9j/4A==");
    assert_eq!(gemini["functionResponse"]["parts"][0]["inlineData"]["mimeType"], "image/jpeg");
}

#[tokio::test]
async fn a_picture_that_is_too_large_is_named() {
    let large = vec![0; haft_provider::limits::ANTHROPIC_IMAGE_BYTES_MAX + 1];
    let block = encode_result(Wire::Anthropic, &result(Ok(ResultBlock::image("image/png", large))).await);
    assert_eq!(block["content"], "[image: image/png, 3932161 bytes]");
}
