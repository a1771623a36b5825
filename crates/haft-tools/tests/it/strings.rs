//! Naughty strings and broken UTF-8 in every text field of the tools that start nothing: an error or a
//! result, never a panic.

use std::path::Path;

use haft::ErrorKind;
use serde_json::{Value, json};

use crate::room::Room;

/// The strings, if the data is there.
fn naughty() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let Ok(blns) = std::fs::read_to_string(root.join("blns/blns.json")) else {
        skipped(&root);
        return Vec::new();
    };
    let mut all: Vec<String> = serde_json::from_str(&blns).unwrap();
    let broken = std::fs::read(root.join("utf8tests/utf8tests.bin")).unwrap_or_default();
    all.extend(broken.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()));
    all
}

/// Strings that mean something to a tool of files.
const TELLING: [&str; 7] =
    ["\0", "a\0b", "/", "..", "~", "\u{feff}", "*** Begin Patch\n*** Update File: \0\n+x\n*** End Patch"];

fn skipped(root: &Path) {
    eprintln!("skipped: there is no `{}`", root.display());
}

/// Calls that work, and the text fields in them.
fn calls() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let patch = "*** Begin Patch\n*** Update File: f\n-x\n+y\n*** End Patch";
    vec![
        ("Read", json!({"file_path": "f", "pages": "1"}), vec!["/file_path", "/pages"]),
        ("Write", json!({"file_path": "new", "content": "c"}), vec!["/file_path", "/content"]),
        (
            "Edit",
            json!({"file_path": "f", "old_string": "x", "new_string": "y"}),
            vec!["/file_path", "/old_string", "/new_string"],
        ),
        (
            "MultiEdit",
            json!({"file_path": "f", "edits": [{"old_string": "x", "new_string": "y"}]}),
            vec!["/file_path", "/edits/0/old_string", "/edits/0/new_string"],
        ),
        ("ApplyPatch", json!({"input": patch}), vec!["/input"]),
        (
            "NotebookEdit",
            json!({"notebook_path": "n.ipynb", "cell_id": "intro", "new_source": "x", "edit_mode": "replace", "cell_type": "code"}),
            vec!["/notebook_path", "/cell_id", "/new_source", "/edit_mode", "/cell_type"],
        ),
        ("LS", json!({"path": ".", "ignore": ["x"]}), vec!["/path", "/ignore/0"]),
        ("Diff", json!({"a": "f", "b": "f"}), vec!["/a", "/b"]),
        ("Rewind", json!({"action": "list", "paths": ["f"]}), vec!["/action", "/paths/0"]),
        ("Sleep", json!({"seconds": "0"}), vec!["/seconds"]),
        ("Glob", json!({"pattern": "*", "path": "."}), vec!["/pattern", "/path"]),
        ("Grep", json!({"pattern": "x", "path": ".", "glob": "*"}), vec!["/pattern", "/path", "/glob"]),
        (
            "TodoWrite",
            json!({"todos": [{"content": "x", "status": "pending", "activeForm": "x"}]}),
            vec!["/todos/0/content", "/todos/0/status", "/todos/0/activeForm"],
        ),
        (
            "TaskCreate",
            json!({"subject": "x", "description": "x", "blockedBy": ["1"]}),
            vec!["/subject", "/description", "/blockedBy/0"],
        ),
        ("TaskUpdate", json!({"taskId": "1", "owner": "x"}), vec!["/taskId", "/owner"]),
        ("TaskGet", json!({"taskId": "1"}), vec!["/taskId"]),
    ]
}

/// Puts each string into each field for which `is_tried` holds; it is given their numbers. Returns the number
/// of calls.
fn check(strings: &[String], is_tried: impl Fn(usize, usize) -> bool) -> usize {
    let room = Room::in_memory();
    room.put("f", "x\n");
    #[cfg(feature = "notebooks")]
    room.put("n.ipynb", crate::SAMPLE_NOTEBOOK);
    let mut fields = Vec::new();
    for (tool, input, pointers) in calls() {
        if tool != "NotebookEdit" || cfg!(feature = "notebooks") {
            fields.extend(pointers.into_iter().map(|pointer| (tool, input.clone(), pointer)));
        }
    }
    let mut tried = 0;
    for (number, text) in strings.iter().enumerate() {
        for (at, (tool, input, pointer)) in fields.iter().enumerate() {
            // Some would look at the whole disk.
            let is_everything =
                matches!((*tool, text.trim_end_matches('/')), ("LS" | "Glob" | "Grep", "" | ".."));
            if is_everything || !is_tried(number, at) {
                continue;
            }
            let mut input = input.clone();
            *input.pointer_mut(pointer).unwrap() = text.clone().into();
            let result = room.call(tool, input);
            let kind = result.error_kind();
            let is_fine = !matches!(kind, Some(ErrorKind::Panicked | ErrorKind::UnknownTool));
            assert!(is_fine, "{tool} {pointer} {text:?}: {kind:?}");
            tried += 1;
        }
        room.put("f", "x\n");
    }
    tried
}

/// Every string in some fields, and every field with some strings.
#[test]
fn naughty_strings_in_every_field_are_an_error_or_a_result() {
    check(&naughty(), |number, at| (number + at).is_multiple_of(6));
}

#[test]
fn strings_that_mean_something_to_file_tools_are_an_error_or_a_result() {
    assert!(check(&TELLING.map(String::from), |_, _| true) > 100);
}

#[test]
#[ignore = "prove"]
fn prove_every_naughty_string_in_every_field_is_an_error_or_a_result() {
    let strings = naughty();
    let tried = check(&strings, |_, _| true);
    println!(
        "proof: {} strings in every text field of the tools that start nothing, {tried} calls: no panic",
        strings.len()
    );
}

/// A content of naughty strings goes in and comes out as it was.
#[test]
fn naughty_strings_are_written_and_changed_to_the_byte() {
    let room = Room::in_memory();
    let mut all = naughty();
    all.extend(TELLING.map(String::from));
    for text in all.iter().filter(|text| !text.is_empty()).step_by(4) {
        room.text("Write", json!({"file_path": "f", "content": format!("[{text}]")}));
        assert_eq!(room.content("f"), format!("[{text}]"));
        if text.contains('\0') {
            continue;
        }
        let edit = json!({"file_path": "f", "edits": [{"old_string": format!("[{text}"), "new_string": "<"}, {"old_string": "<", "new_string": text}]});
        if room.call("MultiEdit", edit).outcome().is_ok() {
            assert_eq!(room.content("f"), format!("{text}]"));
        }
        room.text("Rewind", json!({"action": "list"}));
    }
}
