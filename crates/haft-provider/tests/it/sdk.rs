//! The real Python SDKs: their types over what is sent and read, their clients at the scripted server.
//!
//! `cargo xtask test` makes the environment and names its interpreter; without it this test says so and
//! passes.

use std::io::Write as _;
use std::process::{Command, Stdio};

use haft_agent::StopReason;
use haft_provider::scripted::{ModelScript, serve_script};
use haft_provider::stream::MessageReader;
use haft_provider::{RequestOptions, ThinkingMode, Wire};
use serde_json::{Value, json};

use crate::requests::body;
use crate::streams::{Recorded, check_cuts, made, recorded};

/// Requests with everything that this crate puts into one.
fn requests() -> Value {
    let of = |wire: Wire| {
        let plain = RequestOptions::new("m").stream(false).max_tokens(5_000);
        let thinks = match wire {
            Wire::Anthropic | Wire::Gemini => ThinkingMode::Tokens(2_000),
            Wire::OpenAi | Wire::OpenAiChat => ThinkingMode::Effort("low".into()),
        };
        let all = [plain.clone(), RequestOptions::new("m"), plain.clone().cache_key("k").thinking(thinks)];
        all.iter().map(|options| body(wire, options)).collect::<Vec<Value>>()
    };
    Wire::ALL.iter().map(|wire| (wire.to_string(), json!(of(*wire)))).collect()
}

/// Recorded messages that came to an end, with what goes back of each.
fn streams() -> Vec<Value> {
    let read = |one: &Recorded| {
        let mut reader = MessageReader::new(one.wire);
        reader.feed(&one.bytes, &mut Vec::new());
        let reply = reader.finish(&mut Vec::new());
        let is_whole = !matches!(reply.stop(), StopReason::Failed(_) | StopReason::Cut);
        // One begins twice, which the SDK doesn't take; of one the SDK keeps half an input, which we don't.
        let differs = ["spliced", "incomplete"].iter().any(|name| one.name.starts_with(name));
        (is_whole && !differs).then(|| {
            let data = named(std::str::from_utf8(&one.bytes).unwrap());
            json!({"name": one.name, "wire": one.wire.name(), "data": data, "items": reply.items()})
        })
    };
    recorded().iter().filter_map(read).collect()
}

/// What is left of a message that was cut off, wherever it was, by wire: one of each shape.
fn histories() -> Value {
    let all = made().into_iter().map(|one| {
        let mut left = Vec::new();
        check_cuts(&one, true, |history| left.push(history));
        assert!(left.len() > 2, "{}", one.name);
        (one.wire.to_string(), json!(left))
    });
    all.collect()
}

/// Events with their names, which the SDK goes by and recordings leave out.
fn named(bytes: &str) -> String {
    let mut all = String::new();
    let mut has_name = false;
    for line in bytes.lines() {
        has_name |= line.starts_with("event:");
        let event = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(kind) = event.as_ref().and_then(|event| event["type"].as_str()).filter(|_| !has_name) {
            all.push_str(&format!("event: {kind}\n"));
        }
        has_name &= !line.is_empty();
        all.push_str(line);
        all.push('\n');
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_sdks_take_what_is_sent_and_said() {
    let Some(interpreter) = std::env::var_os("HAFT_TEST_PYTHON") else {
        eprintln!("skipped: `cargo xtask test` makes the Python that this test needs");
        return;
    };
    let script = json!({"turns": [
        {"thinking": "I think about it for a while.", "text": "I look.", "tool_calls": [{"name": "echo", "input": {"n": 1}}, {"name": "echo", "input": {"n": 2}}],
         "stream": {"chunk_chars": 3}, "error": {"status": 503, "retry_after_ms": 1, "times": 1}},
        {"text": "All done.", "expect": [{"result": 0, "pointer": "/n", "equals": 1}, {"result": 1, "pointer": "/n", "equals": 2}]},
    ]});
    let refusing = json!({"turns": [{"error": {"status": 401, "message": "no such key"}}]});
    let any = || "127.0.0.1:0".parse().unwrap();
    let server = serve_script(ModelScript::parse(&script.to_string()).unwrap(), any()).await.unwrap();
    let refuses = serve_script(ModelScript::parse(&refusing.to_string()).unwrap(), any()).await.unwrap();
    let urls: Value =
        Wire::ALL.iter().map(|wire| (wire.to_string(), json!(server.base_url(*wire)))).collect();
    let histories = tokio::task::spawn_blocking(histories).await.unwrap();
    let searching = json!({"turns": [
        {"tool_calls": [{"name": "ToolSearch", "input": {"query": "echo"}}], "stream": {"chunk_chars": 3}},
        {"tool_calls": [{"name": "echo", "input": {"n": 1}}], "expect": [{"tool": "ToolSearch", "contains": "\"echo\""}]},
        {"text": "All done.", "expect": [{"pointer": "/n", "equals": 1}]},
    ]});
    let searching = serve_script(ModelScript::parse(&searching.to_string()).unwrap(), any()).await.unwrap();
    let searches: Value = [Wire::Anthropic, Wire::OpenAi]
        .iter()
        .map(|wire| (wire.to_string(), json!(searching.base_url(*wire))))
        .collect();
    let given = json!({
        "deferring": crate::deferral::requests().await, "searches": searches,
        "urls": urls, "refusing": refuses.base_url(Wire::Anthropic), "requests": requests(), "streams": streams(),
        "histories": histories,
    });
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(interpreter);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/sdk.py")).env_clear();
        command.env("LANG", "C.UTF-8").env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(given.to_string().as_bytes());
        child.wait_with_output().unwrap()
    });
    let ran = ran.await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("errors ok\n"), "{said}");
}
