//! `haft run` with a script in place of a model: what it prints, how it ends.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::room::{Ran, Room, crate_path};

/// Reads a file, then answers.
pub(crate) const READS: &str = r#"{"turns": [
    {"text": "I'll look.", "tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
    {"text": "It has three lines.", "expect": [{"result": 0, "contains": "three"}]}]}"#;

/// A room with a script.
pub(crate) fn with_script(script: &str) -> Room {
    let room = Room::new();
    room.write("script.json", script);
    room
}

/// Runs the script of the room with these arguments, and nobody to ask.
pub(crate) fn play(room: &Room, more: &[&str]) -> Ran {
    let script = room.path("script.json");
    let mut args = vec!["run", "--script", script.to_str().unwrap()];
    args.extend(more);
    room.say(&args)
}

/// What is checked against a committed schema.
pub(crate) fn schema(name: &str) -> jsonschema::Validator {
    let text = std::fs::read_to_string(crate_path("schemas").join(name)).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// The object that `--output json` printed, which fits its schema.
#[track_caller]
pub(crate) fn object(ran: &Ran) -> Value {
    let text = ran.stdout.replace("\"duration_ms\":T", "\"duration_ms\":0.5");
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{ran:?}"));
    let problems: Vec<String> =
        schema("run.schema.json").iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{value}");
    value
}

/// What the calls of a run came to: the result's text, or kind and words of the error.
pub(crate) fn results(ran: &Ran) -> Vec<String> {
    let result = |call: &Value| match call["error"]["message"].as_str() {
        Some(words) => format!("{}: {words}", call["error"]["kind"].as_str().unwrap()),
        None => call["result"].as_str().unwrap_or_default().to_owned(),
    };
    object(ran)["calls"].as_array().unwrap().iter().map(result).collect()
}

/// The events that `--output stream-json` printed, which fit their schema.
#[track_caller]
pub(crate) fn events(ran: &Ran) -> Vec<Value> {
    let schema = schema("run-event.schema.json");
    let text = ran.stdout.replace("\"duration_ms\":T", "\"duration_ms\":0.5");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &events {
        assert!(schema.is_valid(event), "{event}");
    }
    events
}

#[test]
fn the_answer_is_the_result_and_all_else_is_beside_it() {
    let room = with_script(READS);
    let ran = play(&room, &["how many lines?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It has three lines.\n"), "{}", ran.stderr);
    for part in ["● I'll look.", "✓ Read   notes.txt", "3 lines", "2 turns · 1 call · "] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("It has three lines"), "{}", ran.stderr);
}

#[test]
fn json_has_the_keys_that_others_rely_on() {
    let script = r#"{"turns": [
        {"tool_calls": [
            {"name": "Read", "input": {"file_path": "notes.txt"}},
            {"name": "Read", "input": {"file_path": "gone.txt"}},
            {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}},
            {"name": "Nothing"}]},
        {"text": "Done."}]}"#;
    let room = with_script(script);
    let ran = play(&room, &["go", "--output", "json"]);
    assert_eq!(ran.code, Some(0), "the model finished, whatever single calls returned: {}", ran.stderr);
    let found = object(&ran);
    assert_eq!(crate::json::keys(&found), ["calls", "denials", "stop", "text", "turns", "usage"]);
    assert_eq!(
        (&found["text"], &found["stop"], &found["turns"]),
        (&json!("Done."), &json!("end"), &json!(2))
    );
    let kinds: Vec<&Value> =
        found["calls"].as_array().unwrap().iter().map(|call| &call["error"]["kind"]).collect();
    assert_eq!(kinds, [&Value::Null, &json!("Failed"), &json!("Denied"), &json!("UnknownTool")]);
    assert_eq!(found["calls"][0]["result"], "1\tone\n2\ttwo\n3\tthree");
    assert_eq!(found["calls"][0]["input"], json!({"file_path": "notes.txt"}));
    assert_eq!(found["denials"].as_array().unwrap().len(), 1);
    assert_eq!(found["denials"][0], found["calls"][2]);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_stream_begins_with_the_session_and_ends_with_the_result() {
    let room = with_script(READS);
    let ran = play(&room, &["go", "--output", "stream-json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = events(&ran);
    let of_type = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!((&first["type"], &first["provider"]), (&json!("session"), &json!("scripted")));
    assert!(first["tools"].as_array().unwrap().contains(&json!("Read")));
    assert_eq!((&last["type"], &last["text"]), (&json!("result"), &json!("It has three lines.")));
    assert_eq!(of_type("turn").len(), 2);
    assert_eq!(of_type("tool_finished").len(), 1);
    let text: String = of_type("text").iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(text, "I'll look.It has three lines.");
    assert_eq!(ran.stderr, "");
}

#[test]
fn limits_end_a_run() {
    let room = with_script(READS);
    let ran = play(&room, &["go", "--max-turns", "1", "--output", "json"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(object(&ran)["stop"], "max_turns");
    assert_eq!(ran.stderr, "haft: the most turns were reached\n");

    room.write("home/.config/haft/settings.json", r#"{"run": {"maxTokens": 10}}"#);
    let ran = play(&room, &["go", "--output", "json"]);
    assert_eq!((ran.code, &object(&ran)["stop"]), (Some(1), &json!("max_total_tokens")));
}

#[test]
fn a_model_that_ends_otherwise_is_no_success() {
    for (turn, stop) in [
        (r#"{"text": "No.", "stop": "refusal"}"#, "refused"),
        (r#"{"text": "It is too lo", "stop": "max_tokens"}"#, "max_tokens"),
        (r#"{"error": {"status": 401, "message": "bad key"}}"#, "failed"),
    ] {
        let room = with_script(&format!(r#"{{"turns": [{turn}]}}"#));
        let ran = play(&room, &["go", "--output", "json"]);
        let found = object(&ran);
        assert_eq!((ran.code, &found["stop"]), (Some(1), &json!(stop)), "{ran:?}");
        assert_eq!(ran.stderr, format!("haft: {}\n", found["reason"].as_str().unwrap()));
    }
}

#[test]
fn words_come_from_the_command_line_or_from_a_pipe() {
    let script = r#"{"turns": [{"text": "Yes.", "expect": [{"prompt": true, "contains": "of the pipe"}]}]}"#;
    let room = with_script(script);
    let path = room.path("script.json").display().to_string();
    for args in [&["run", "--script", &path][..], &["run", "-", "--script", &path]] {
        let ran = room.run(room.haft(args), "words of the pipe\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Yes.\n"), "{}", ran.stderr);
    }
    let ran = room.run(room.haft(["run", "words", "--script", &path]), "words of the pipe\n");
    assert_eq!(ran.code, Some(1), "those of the command line count: {ran:?}");
    for args in [&["run", "--script", &path][..], &["run", " ", "--script", &path]] {
        let ran = room.run(room.haft(args), "\n");
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("is empty; give a prompt"), "{}", ran.stderr);
    }
}

#[test]
fn wrong_usage_says_what_to_do() {
    let room = with_script("turns:\n  - txt: a\n");
    let check = |args: &[&str], part: &str| {
        let ran = room.say(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
    };
    let script = room.path("script.json").display().to_string();
    check(&["run", "go", "--continue"], "nothing to continue");
    check(&["run", "go", "--resume", "x"], "there is no session `x`");
    check(&["run", "go", "--script", &script], "line 2: at `/turns/0/txt`: unknown field");
    check(&["run", "go", "--script", "gone.yaml"], "`gone.yaml` can't be read");
    check(&["run", "go", "--provider", "scripted"], "--script FILE");
    check(&["run", "go", "--provider", "openai"], "set OPENAI_API_KEY");
    check(&["run", "go", "--base-url", "http://127.0.0.1:1"], "(--provider)");
    check(&["run", "go", "--max-turns", "0"], "a whole number from 1 on");
    check(&["script", "serve", &script], "line 2");
    room.write("script.json", READS);
    check(&["script", "serve", &script, "--addr", "0.0.0.0:0"], "no loopback address");
}

#[test]
fn lists_of_tools_are_rules() {
    let script = r#"{"turns": [
        {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}, {"name": "Write", "input": {"file_path": "src/new.txt", "content": "x"}}]},
        {"text": "Done."}]}"#;
    let room = with_script(script);
    let lists = ["--allowed-tools", "Glob, Edit(src/**)", "--disallowed-tools", "Read Grep"];
    let ran = play(&room, &[&["go", "--output", "json"][..], &lists].concat());
    let found = object(&ran);
    assert_eq!(found["calls"][0]["error"]["kind"], "Denied", "{found}");
    assert_eq!(found["calls"][1]["is_error"], false, "{found}");
    assert_eq!(std::fs::read_to_string(room.path("work/src/new.txt")).unwrap(), "x");
}

/// Waits until something is said, byte by byte: what follows belongs to whoever reads on.
fn wait_for(from: &mut impl std::io::Read, part: &str) {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&seen).contains(part) {
        assert_eq!(from.read(&mut byte).unwrap(), 1, "never said: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The rest of a run that was told to end.
fn ended(room: &Room, child: Child) -> Ran {
    let begin = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60));
    let text = |bytes: Vec<u8>| room.plain(&String::from_utf8(bytes).unwrap());
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A run that waits for its model after a first answer.
fn waiting(room: &Room, more: &[&str]) -> Child {
    let script = room.path("script.json").display().to_string();
    let mut args = vec!["run", "go", "--script", &script];
    args.extend(more);
    let mut command = room.haft(args);
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.spawn().unwrap()
}

#[test]
fn an_interrupt_while_the_model_thinks_leaves_results_for_all_calls() {
    let script = r#"{"turns": [
        {"text": "I'll look.", "tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"text": "Never said.", "delay_ms": 600000}]}"#;
    let room = with_script(script);
    let mut child = waiting(&room, &["--output", "stream-json"]);
    wait_for(child.stdout.as_mut().unwrap(), r#"{"turn":2,"type":"turn"}"#);
    signal(&child, Signal::INT);
    let ran = ended(&room, child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(130), "haft: interrupted\n"), "{ran:?}");
    let last: Value =
        serde_json::from_str(ran.stdout.lines().last().unwrap().replace(":T", ":1").as_str()).unwrap();
    assert_eq!((&last["stop"], &last["turns"]), (&json!("interrupted"), &json!(2)), "{last}");
    assert_eq!(last["calls"][0]["is_error"], false, "{last}");
}

#[test]
fn an_interrupt_while_a_command_runs_stops_it() {
    let script = r#"{"turns": [
        {"text": "A while.", "tool_calls": [{"name": "Bash", "input": {"command": "echo begun >&2; sleep 600"}}]},
        {"text": "Never said."}]}"#;
    for by in [Signal::INT, Signal::TERM] {
        let room = with_script(script);
        room.write("home/.config/haft/settings.json", r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo '{\"systemMessage\": \"begins\"}'"}]}]}}"#);
        let mut child = waiting(&room, &["--allow", "Bash", "--output", "json"]);
        wait_for(child.stderr.as_mut().unwrap(), "begins");
        signal(&child, by);
        let ran = ended(&room, child);
        let found = object(&ran);
        assert_eq!((ran.code, &found["stop"]), (Some(130), &json!("interrupted")), "{ran:?}");
        assert_eq!(found["calls"][0]["error"]["kind"], "Cancelled", "{found}");
    }
}

/// A program that reads events and goes away should not pay for what it doesn't see.
#[test]
fn a_reader_who_is_gone_ends_the_run() {
    let script = r#"{"turns": [{"text": "Long.", "stream": {"chunk_chars": 1, "chunk_delay_ms": 20}, "tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]}, {"text": "Never said.", "delay_ms": 600000}]}"#;
    let room = with_script(script);
    let mut child = waiting(&room, &["--output", "stream-json"]);
    drop(child.stdout.take());
    let ran = ended(&room, child);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("its reader is gone"), "{ran:?}");
}
