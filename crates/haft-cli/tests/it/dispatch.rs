//! `haft dispatch`: a message in, the answering message out, held against the committed schema.

use serde_json::{Value, json};

use crate::room::{Ran, Room, crate_path};

/// One definition of a committed schema.
fn part_of(schema: &str, part: &str) -> jsonschema::Validator {
    let text = std::fs::read_to_string(crate_path("schemas").join(schema)).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema.as_object_mut().unwrap().remove("anyOf");
    assert!(schema["$defs"].get(part).is_some());
    schema["$ref"] = format!("#/$defs/{part}").into();
    jsonschema::validator_for(&schema).unwrap()
}

fn dispatch(room: &Room, message: &str, args: &[&str]) -> Ran {
    room.run(room.haft([&["dispatch"], args].concat()), message)
}

/// The answer to a message of one wire: it fits the schema, and is the only thing on standard output.
fn answer(message: &Value, wire: &str) -> Value {
    let room = Room::new();
    let ran = dispatch(&room, &message.to_string(), &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{message}");
    assert_eq!(ran.stdout.lines().count(), 1);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let problems: Vec<String> =
        part_of("dispatch.schema.json", wire).iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{value}");
    // Saying the wire changes nothing.
    assert_eq!(dispatch(&room, &message.to_string(), &["-", "--from", wire]).stdout, ran.stdout);
    value
}

const INPUT: &str = r#"{"file_path": "notes.txt", "limit": null}"#;
const TEXT: &str = "1\tone\n2\ttwo\n3\tthree";

#[test]
fn each_wire() {
    let input: Value = serde_json::from_str(INPUT).unwrap();
    let call = json!({"type": "tool_use", "id": "t1", "name": "Read", "input": input});
    let bad = json!({"type": "tool_use", "id": "t2", "name": "Read", "input": [1]});
    assert_eq!(
        answer(
            &json!({"role": "assistant", "content": [{"type": "text", "text": "x"}, call, bad]}),
            "anthropic"
        ),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": TEXT},
            {"type": "tool_result", "tool_use_id": "t2", "is_error": true,
                "content": "invalid input for Read (1 problem):\n  (input)   [1] is an array; an object with `file_path` is accepted\nfix this field and call Read again"},
        ]})
    );
    let call = json!({"type": "function_call", "call_id": "c1", "name": "Read", "arguments": INPUT});
    let custom = json!({"type": "custom_tool_call", "call_id": "c2", "name": "Read", "input": "notes.txt"});
    let found = answer(&json!([call, custom]), "openai");
    assert_eq!(found[0], json!({"type": "function_call_output", "call_id": "c1", "output": TEXT}));
    assert_eq!(found[1]["type"], "custom_tool_call_output");

    let call = json!({"id": "c1", "type": "function", "function": {"name": "Read", "arguments": INPUT}});
    let cut = json!({"id": "c2", "type": "function", "function": {"name": "Read", "arguments": "{\"file_"}});
    let found = answer(&json!({"role": "assistant", "tool_calls": [call, cut]}), "openai-chat");
    assert_eq!(found[0], json!({"role": "tool", "tool_call_id": "c1", "content": TEXT}));
    assert!(found[1]["content"].as_str().unwrap().starts_with("error: invalid input for Read"), "{found}");

    let call = json!({"functionCall": {"name": "read_file", "args": input}});
    let unknown = json!({"functionCall": {"id": "g", "name": "Nothing", "args": {}}});
    assert_eq!(
        answer(&json!({"role": "model", "parts": [call, unknown]}), "gemini"),
        json!({"role": "user", "parts": [
            {"functionResponse": {"name": "read_file", "response": {"output": TEXT}}},
            {"functionResponse": {"id": "g", "name": "Nothing", "response": {"error": "no tool named `Nothing`"}}},
        ]})
    );
}

#[test]
fn a_message_without_calls_has_an_empty_answer() {
    for (message, wire, empty) in [
        (
            json!({"content": [{"type": "text", "text": "done"}]}),
            "anthropic",
            json!({"role": "user", "content": []}),
        ),
        (json!({"output": []}), "openai", json!([])),
        (json!({"role": "assistant", "content": "done", "tool_calls": null}), "openai-chat", json!([])),
        (json!({"parts": [{"text": "done"}]}), "gemini", json!({"role": "user", "parts": []})),
    ] {
        assert_eq!(answer(&message, wire), empty);
    }
}

#[test]
fn a_message_from_a_file_and_one_that_cannot_be_read() {
    let room = Room::new();
    let message =
        json!([{"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "notes.txt"}}]);
    std::fs::write(room.path("message.json"), format!("\u{feff}{message}\n")).unwrap();
    let path = room.path("message.json");
    let ran = dispatch(&room, "", &[path.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.contains(r"1\tone")), (Some(0), true), "{ran:?}");

    std::fs::write(room.path("bytes.json"), b"[\"\xff\"]").unwrap();
    let path = room.path("bytes.json");
    let ran = dispatch(&room, "", &[path.to_str().unwrap()]);
    let words = "error: `ROOM/bytes.json` is not JSON: the bytes from offset 2 on are not valid UTF-8\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), "", words));
}

/// Nothing of a bad message runs, not even the calls before the bad one.
#[test]
fn nothing_of_a_bad_message_runs() {
    let room = Room::new();
    let good = json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "notes.txt"}});
    let message = json!([good, {"type": "tool_use", "name": "Read", "input": {}}]);
    let ran = dispatch(&room, &message.to_string(), &[]);
    let words = "error: standard input: at `/1`: the `tool_use` block has no `id`; a string is required\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), "", words));
}

#[test]
fn definitions_fit_their_schema_and_are_the_same_bytes_each_time() {
    let room = Room::new();
    for form in ["anthropic", "openai", "openai-chat", "gemini", "mcp"] {
        let schema = part_of("definitions.schema.json", form);
        for more in [&["--all"][..], &["--strict", "yes"], &["--strict", "no"], &["--deny", "Read"]] {
            let args = [&["tools", "--format", form], more].concat();
            let ran = room.run(room.haft(&args), "");
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
            let value: Value = serde_json::from_str(&ran.stdout).unwrap();
            let problems: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(problems, Vec::<String>::new(), "{value}");
            assert_eq!(room.run(room.haft(&args), "").stdout, ran.stdout);
            assert_eq!(ran.stdout.contains("\"Read\""), more[0] != "--deny", "{}", ran.stdout);
        }
    }
    assert!(!part_of("definitions.schema.json", "openai").is_valid(&json!([{"name": "x"}])));
}
