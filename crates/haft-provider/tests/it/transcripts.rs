//! Transcripts of every form, read back as calls and what came of them.

use haft_provider::Wire;
use haft_provider::transcript::{PastCall, PastConversation, TranscriptForm, read_transcript};

use crate::shared::data;

/// A call in a line: turn, line, agent, id, name, input, result.
fn shown(call: &PastCall) -> String {
    let result = match &call.result {
        None => "-".to_owned(),
        Some(result) if result.is_error => {
            format!("!{}{}", result.kind.as_deref().unwrap_or(""), result.text)
        }
        Some(result) => format!("{}{}", result.text, "+".repeat(result.others)),
    };
    let agent = call.agent.as_deref().map(|agent| format!("{agent}/")).unwrap_or_default();
    let input = call.input.as_deref().unwrap_or("?");
    format!("{}:{} {agent}{} {} {input} {result}", call.turn, call.line, call.id, call.name)
}

#[track_caller]
fn check(text: &str, form: TranscriptForm, expected: &[&str]) -> PastConversation {
    let transcript = read_transcript(text).unwrap_or_else(|bad| panic!("{bad}"));
    assert_eq!(transcript.calls.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(transcript.form, Some(form));
    transcript
}

const ANTHROPIC: &str = r#"{"model": "m", "messages": [
 {"role": "user", "content": "hi"},
 {"role": "assistant", "content": [{"type": "text", "text": "Well."},
   {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "x"}},
   {"type": "tool_use", "id": "b", "name": "Old", "input": {}}]},
 {"role": "user", "content": [
   {"type": "tool_result", "tool_use_id": "b", "content": "no such tool", "is_error": true},
   {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "one"}, {"type": "image", "source": {}}]}]},
 {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "y"}}]}
]}"#;

#[test]
fn a_request_of_anthropic() {
    let transcript = check(
        ANTHROPIC,
        TranscriptForm::Messages(Wire::Anthropic),
        &[
            r#"1:4 a Read {"file_path": "x"} one+"#,
            "1:5 b Old {} !no such tool",
            r#"2:9 c Read {"file_path": "y"} -"#,
        ],
    );
    let places: Vec<usize> =
        transcript.calls.iter().filter_map(|call| Some(call.result.as_ref()?.place)).collect();
    assert_eq!(places, [1, 0], "the order in which results came");
}

#[test]
fn chat_as_a_list_as_lines_and_of_the_old_form() {
    let one = r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}"#;
    let two = r#"{"role": "tool", "tool_call_id": "a", "content": "error: no"}"#;
    let form = TranscriptForm::Messages(Wire::OpenAiChat);
    check(&format!("[{one},\n{two}]"), form, &[r#"1:1 a f {"x": 1} !error: no"#]);
    check(&format!("{one}\n\n{two}\n"), form, &[r#"1:1 a f {"x": 1} !error: no"#]);
    check(
        &format!(r#"{{"choices": [{{"message": {one}, "finish_reason": "tool_calls"}}]}}"#),
        form,
        &[r#"1:1 a f {"x": 1} -"#],
    );
    let old = r#"[{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "ok"}]"#;
    check(old, form, &["1:1 f f {} ok"]);
}

#[test]
fn items_of_openai_and_a_response() {
    let form = TranscriptForm::Messages(Wire::OpenAi);
    let text = r#"{"input": [{"role": "user", "content": "hi"},
      {"type": "reasoning", "summary": []},
      {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
      {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{"},
      {"type": "function_call_output", "call_id": "a", "output": "1"},
      {"type": "function_call_output", "call_id": "zz", "output": "1"}],
      "output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "shell_call", "call_id": "s"}]}"#;
    let transcript = check(text, form, &["1:3 a f {} 1", "1:4 b g { -", "2:7 c f {} -"]);
    assert_eq!((transcript.stray_results, transcript.passed_over), (1, vec!["shell_call".to_owned()]));
    let response = r#"{"object": "response", "output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]}"#;
    check(response, form, &["1:1 c f {} -"]);
}

#[test]
fn contents_of_gemini() {
    let text = r#"{"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
      {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"error": "no"}}}]}]}"#;
    check(text, TranscriptForm::Messages(Wire::Gemini), &[r#"1:1 f f {"a": 1} !no"#]);
}

#[test]
fn events_of_claude_code() {
    let text = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s","tools":[]}
{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"a","name":"Task","input":{}}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m9","role":"assistant","content":[{"type":"tool_use","id":"x","name":"Bash","input":{"command":"ls"}}]},"parent_tool_use_id":"a"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"f"}]},"parent_tool_use_id":"a"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"done"}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"tool_use","id":"b","name":"Read","input":{}}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"tool_use","id":"c","name":"Read","input":{}}]},"parent_tool_use_id":null}
{"type":"result","subtype":"success","is_error":false,"result":"x"}"#;
    let transcript = check(
        text,
        TranscriptForm::ClaudeCode,
        &["1:2 a Task {} done", r#"1:3 a/x Bash {"command":"ls"} f"#, "2:6 b Read {} -", "2:7 c Read {} -"],
    );
    assert_eq!(transcript.cwd, Some("/w".into()));
}

#[test]
fn events_and_the_outcome_of_a_run() {
    let last = r#"{"type":"result","text":"x","stop":"finished","turns":1,"calls":[{"id":"a","tool_name":"Read","input":{"file_path":"y"},"is_error":true,"error":{"kind":"Denied","message":"no"},"duration_ms":1,"result":null}],"denials":[]}"#;
    let text = format!(
        r#"{{"type":"session","session_id":"s","cwd":"/w"}}
{{"type":"turn","turn":1}}
{{"type":"call","call":0,"call_id":"a","tool_name":"read_file","input":{{"file_path":"x"}}}}
{{"type":"tool_started","call_id":"a","tool_name":"Read","input":{{"file_path":"y"}},"agent":"main","turn":1}}
{{"type":"tool_finished","call_id":"a","result":{{"call_id":"a","output":"long","error":null,"is_error":false}}}}
{{"type":"results","turn":1,"results":[{{"call_id":"a","output":"short","error":null,"is_error":false}}]}}
{last}"#
    );
    check(&text, TranscriptForm::Run, &[r#"1:3 a read_file {"file_path":"y"} short"#]);
    check(last, TranscriptForm::Run, &[r#"1:1 a Read {"file_path":"y"} !Deniedno"#]);
}

#[test]
fn what_is_no_transcript_says_where() {
    let check = |text: &str, expected: &str| {
        let bad = read_transcript(text).unwrap_err().to_string();
        assert!(bad.starts_with(expected), "{bad}");
    };
    check("", "it is empty; accepted are messages of Anthropic");
    check("[1, 2", "line 1: no JSON: ");
    check("{\n\"messages\": [\n oops", "line 3: no JSON: ");
    check("5", "a number doesn't say whose messages it has");
    check("{}", "an object doesn't say whose messages it has");
    check("{\"role\": \"user\", \"content\": \"x\"}\n{\"role\": oops}", "line 2: no JSON: ");
    check("{\"a\": 1}\n{\"b\": 1}", "none of its lines is a message or an event");
    check(
        "[{\"role\": \"user\", \"content\": \"x\"},\n{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"name\": \"f\"}]}]",
        "line 2: at `/content/0`: ",
    );
    check("data: {\"x\": 1}\n\n", "line 1: the stream doesn't begin");
}

/// Streams that providers really sent: each is one message, and what calls it has is known to the reader of
/// streams.
#[test]
fn recorded_streams_are_read() {
    let Some(folder) = data("llm-streams") else { return };
    let mut calls = 0;
    for vendor in ["anthropic-sdk", "vercel-ai-anthropic", "vercel-ai-openai"] {
        for entry in std::fs::read_dir(folder.join(vendor)).unwrap().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let transcript =
                read_transcript(&text).unwrap_or_else(|bad| panic!("{}: {bad}", entry.path().display()));
            assert!(matches!(transcript.form, Some(TranscriptForm::Stream(_))), "{}", entry.path().display());
            calls += transcript.calls.len();
        }
    }
    assert!(calls >= 5, "{calls}");
}
