//! Programs in Python with the real SDKs: the example of a whole turn, and messages of each provider's own
//! types.
//!
//! `cargo xtask test` makes the environment and names its interpreter; without it these tests say so and
//! pass.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::room::{Ran, Room, crate_path};

/// The interpreter, in a room, with `haft` on the path and nobody else's settings.
fn python(room: &Room) -> Option<Command> {
    let Some(interpreter) = std::env::var_os("HAFT_TEST_PYTHON") else {
        println!("skipped: `cargo xtask test` makes the Python that this test needs");
        return None;
    };
    let mut command = Command::new(interpreter);
    let haft = Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    command.current_dir(room.path("work")).env_clear().env("HOME", room.path("home")).env("PATH", haft);
    command.env("LANG", "C.UTF-8").stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// A server that answers one request after the other with these replies, and gives back what it was sent.
fn model(replies: Vec<Value>) -> (String, thread::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let answer = |reply: Value| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let reply = reply.to_string();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}",
                reply.len()
            )
            .unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        replies.into_iter().map(answer).collect()
    };
    (address, thread::spawn(serve))
}

fn reply(stop: &str, content: Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-20250514", "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

/// What `haft` says when it can't go on reaches the user.
#[test]
fn the_example_shows_what_haft_says() {
    let room = Room::new();
    let Some(mut command) = python(&room) else { return };
    command.arg(crate_path("../../examples/anthropic_turn.py")).arg("Hello");
    command.env("ANTHROPIC_API_KEY", "none").env("HAFT_MAX_CONCURRENCY", "many");
    let ran = room.run(command, "");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.contains("HAFT_MAX_CONCURRENCY"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_example_runs_a_whole_turn() {
    let room = Room::new();
    let Some(mut command) = python(&room) else { return };
    let calls = json!([
        {"type": "text", "text": "I'll look."},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "notes.txt"}},
        {"type": "tool_use", "id": "toolu_2", "name": "Raed", "input": {}},
    ]);
    let (address, model) = model(vec![
        reply("tool_use", calls.clone()),
        reply("end_turn", json!([{"type": "text", "text": "Three lines."}])),
    ]);
    let example = crate_path("../../examples/anthropic_turn.py");
    command.arg(&example).arg("How many lines has notes.txt?");
    command.env("ANTHROPIC_BASE_URL", address).env("ANTHROPIC_API_KEY", "none");
    let ran = room.run(command, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Three lines.\n"), "{}", ran.stderr);

    let requests = model.join().unwrap();
    let answer = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1\tone\n2\ttwo\n3\tthree"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
         "content": requests[1]["messages"][2]["content"][1]["content"]},
    ]});
    assert_eq!(requests[1]["messages"][2], answer);
    let unknown = answer["content"][1]["content"].as_str().unwrap();
    assert!(unknown.starts_with("no tool named `Raed`; closest: `Read`"), "{unknown}");
    assert_eq!(requests[0]["tools"], requests[1]["tools"]);
    for request in &requests {
        fits_the_sdk("anthropic.schema.json", request);
    }
    let lines = std::fs::read_to_string(example).unwrap().lines().count();
    assert!(lines <= 25, "the example has {lines} lines; it should stay one that is read in a minute");
}

/// Holds a request against the schema of the SDK's own types, where that is at hand.
fn fits_the_sdk(schema: &str, request: &Value) {
    let path = crate_path("../../../shared/data/provider-schemas").join(schema);
    let Ok(schema) = std::fs::read_to_string(&path) else {
        println!("skipped: there is no `{}`", path.display());
        return;
    };
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let problems: Vec<String> = schema.iter_errors(request).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{request}");
}

#[test]
fn messages_of_every_sdk_are_taken_and_answered_in_its_own_types() {
    let room = Room::new();
    let Some(mut command) = python(&room) else { return };
    command.arg(crate_path("tests/python/wires.py"));
    let ran = room.run(command, "");
    let said = "anthropic ok\nopenai ok\nopenai-chat ok\ngemini ok\n".to_owned();
    assert_eq!(ran, Ran { code: Some(0), stdout: said, stderr: String::new() });
}
