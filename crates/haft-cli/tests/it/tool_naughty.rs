//! Bad input for every tool: strings that break programs, in every field that takes a string.
//!
//! Each gives a result, an error or a right one: no panic, no hang, and nothing outside of the workspace.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::room::{PATH, Room, crate_path};
use crate::tool_example;

/// How many strings each field gets; the rest are for `cargo xtask prove`.
const FIELD_STRINGS: usize = 24;
/// Calls of one message.
const CALLS: usize = 48;

#[test]
fn strings_that_break_programs_break_no_tool() {
    let Some(strings) = strings() else {
        println!("skipped: the strings are not there");
        return;
    };
    try_all(&strings, FIELD_STRINGS);
}

#[test]
#[ignore = "takes long; cargo xtask prove runs it"]
fn prove_strings_that_break_programs_break_no_tool() {
    let strings = strings().expect("the strings are there");
    try_all(&strings, strings.len());
}

fn try_all(strings: &[String], each: usize) {
    let mut start = 0;
    let mut tried = 0;
    for (tool, example) in tool_example::all() {
        // What runs commands, waits or asks a model does so for each of them; the pages try those.
        if !example.is_quick() {
            continue;
        }
        let mut inputs = Vec::new();
        for field in fields(&example.input) {
            for offset in 0..each {
                let string = &strings[(start + offset) % strings.len()];
                let mut input = example.input.clone();
                *input.pointer_mut(&field).unwrap() = json!(string);
                inputs.push(input);
            }
            start += each;
        }
        for inputs in inputs.chunks(CALLS) {
            tried += inputs.len();
            try_some(&tool, inputs);
        }
    }
    println!("{tried} calls");
}

fn try_some(tool: &str, inputs: &[Value]) {
    let room = Room::new();
    let before = names(&room);
    let calls = inputs.iter().enumerate().map(
        |(index, input)| json!({"type": "tool_use", "id": format!("c{index}"), "name": tool, "input": input}),
    );
    let message = json!({"role": "assistant", "content": calls.collect::<Vec<_>>()});
    let mut command = room.haft(["dispatch", "--from", "anthropic", "--permission-mode", "acceptEdits"]);
    command.env(PATH, std::env::var_os(PATH).unwrap());
    let ran = room.run(command, &message.to_string());
    let answer: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{tool}: {error}\n{}\n{}", ran.stdout, ran.stderr));
    let results = answer["content"].as_array().unwrap();
    assert_eq!(results.len(), inputs.len(), "{tool}");
    for (result, input) in results.iter().zip(inputs) {
        let said = result["content"].to_string();
        assert!(!said.contains("panicked"), "{tool} {input}: {said}");
    }
    assert_eq!(names(&room), before, "{tool} touched something outside of the workspace");
}

/// All names in the room outside of the workspace and the program's own folders.
fn names(room: &Room) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let mut folders = vec![room.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path == room.path("work") || path == room.path("home/.local") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path.clone());
            }
            names.insert(path);
        }
    }
    names
}

/// Pointers to every string of an input.
fn fields(input: &Value) -> Vec<String> {
    match input {
        Value::String(_) => vec![String::new()],
        Value::Object(fields_of) => {
            let each = |(name, value): (&String, &Value)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                fields(value).into_iter().map(move |rest| format!("/{name}{rest}")).collect::<Vec<_>>()
            };
            fields_of.iter().flat_map(each).collect()
        }
        Value::Array(items) => {
            let each = |(index, value): (usize, &Value)| {
                fields(value).into_iter().map(move |rest| format!("/{index}{rest}")).collect::<Vec<_>>()
            };
            items.iter().enumerate().flat_map(each).collect()
        }
        _ => Vec::new(),
    }
}

/// The collections of such strings that lie beside the repository.
fn strings() -> Option<Vec<String>> {
    let data = crate_path("../../../shared/data");
    let known = std::fs::read_to_string(data.join("blns/blns.json")).ok()?;
    let mut strings: Vec<String> = serde_json::from_str(&known).unwrap();
    for entry in std::fs::read_dir(data.join("utf8tests")).into_iter().flatten().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        strings.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
    }
    Some(strings)
}
