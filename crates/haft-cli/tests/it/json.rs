//! JSON outputs, held against the committed schemas.

use serde_json::Value;

use crate::room::{Room, crate_path};

/// Runs in a fresh room and returns the one JSON value on standard output, which fits its schema.
fn valid(schema: &str, args: &[&str], code: i32) -> Value {
    valid_in(&Room::new(), schema, args, code)
}

/// The same in a room that was made ready.
pub(crate) fn valid_in(room: &Room, schema: &str, args: &[&str], code: i32) -> Value {
    let ran = room.run(room.haft(args), "");
    assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1, "one line: {}", ran.stdout);
    let value: Value =
        serde_json::from_str(&ran.stdout.replace("\"duration_ms\":T", "\"duration_ms\":0.5")).unwrap();
    let schema = std::fs::read_to_string(crate_path("schemas").join(schema)).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let problems: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{value}");
    value
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

const RESULT_KEYS: [&str; 7] =
    ["duration_ms", "error", "is_error", "offloaded_to", "output", "tool_name", "was_concurrent"];

#[test]
fn a_result_has_the_keys_that_others_rely_on() {
    let call =
        |input: &str, code| valid("call.schema.json", &["call", "Read", input, "--output", "json"], code);
    let done = call(r#"{"file_path": "notes.txt", "limit": 3}"#, 0);
    assert_eq!(keys(&done), RESULT_KEYS);
    assert_eq!(done["output"], "1\tone\n2\ttwo\n3\tthree");
    assert_eq!((&done["error"], &done["is_error"]), (&Value::Null, &Value::Bool(false)));

    for (input, kind) in [
        (r#"{"file_path": "gone"}"#, "Failed"),
        ("{}", "InvalidInput"),
        ("[]", "InvalidInput"),
        (r#"{"file_path": "/etc/hosts"}"#, "Denied"),
    ] {
        let failed = call(input, 1);
        assert_eq!(keys(&failed), RESULT_KEYS);
        assert_eq!(keys(&failed["error"]), ["kind", "message", "retryable"]);
        assert_eq!(failed["error"]["kind"], kind, "{input}");
        assert_eq!((&failed["output"], &failed["is_error"]), (&Value::Null, &Value::Bool(true)));
    }
    let unknown = valid("call.schema.json", &["call", "Nothing", "--output", "json"], 1);
    assert_eq!(unknown["error"]["kind"], "UnknownTool");
    assert_eq!(unknown["tool_name"], "Nothing");
}

#[test]
fn the_list_has_the_keys_that_others_rely_on() {
    let tools = valid("tools.schema.json", &["tools", "--format", "json", "--all"], 0);
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.contains(&"Read"), "{names:?}");
    for tool in tools.as_array().unwrap() {
        for key in ["name", "group", "origin", "class", "max_result_chars"] {
            assert!(!tool[key].is_null(), "{key} of {tool}");
        }
    }
    let denied = valid("tools.schema.json", &["tools", "--format", "json", "--all", "--deny", "Read"], 0);
    let is_read = |tool: &&Value| tool["name"] == "Read";
    let read = denied.as_array().unwrap().iter().find(is_read).unwrap();
    assert_eq!(read["offered"], false);
    let offered = valid("tools.schema.json", &["tools", "--format", "json", "--deny", "Read"], 0);
    assert_eq!(offered.as_array().unwrap().iter().find(is_read), None);
}

#[test]
fn a_schema_can_refuse() {
    let schema = std::fs::read_to_string(crate_path("schemas/call.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(!schema.is_valid(&serde_json::json!({"tool_name": "Read"})));
}

/// What a machine can make of the sandbox differs; that it says so doesn't.
#[test]
fn the_doctor_says_what_was_tried() {
    let room = Room::new();
    room.write("work/.haft/settings.json", r#"{"permissions": {"deny": ["Raed(x)"]}}"#);
    let report = valid_in(&room, "doctor.schema.json", &["doctor", "--output", "json"], 0);
    let parts: Vec<&str> =
        report["parts"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert!(parts.contains(&"user namespace") && parts.contains(&"Landlock"), "{parts:?}");
    let findings = report["findings"].to_string();
    assert!(findings.contains("Raed"), "{findings}");
}
