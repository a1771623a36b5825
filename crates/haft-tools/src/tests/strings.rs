//! Naughty strings and broken UTF-8 in every text that a tool takes: an error or a result, never a panic, and nothing
//! outside of the room.

use std::path::Path;

use haft::ErrorKind;
use serde_json::{Value, json};

use super::room::Room;

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
    all.extend(
        ["\0", "a\0b", "/", "..", "~", "\u{feff}", "*** Begin Patch\n*** Update File: \0\n+x\n*** End Patch"]
            .map(String::from),
    );
    all
}

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
    ]
}

#[test]
fn naughty_strings_in_every_field_are_an_error_or_a_result() {
    let room = Room::in_memory();
    room.put("f", "x\n");
    #[cfg(feature = "notebooks")]
    room.put("n.ipynb", crate::notebook::tests::SAMPLE);
    for text in naughty() {
        for (tool, input, fields) in calls() {
            if tool == "NotebookEdit" && !cfg!(feature = "notebooks") {
                continue;
            }
            for field in fields {
                // Ones that would look at the whole disk.
                if matches!((tool, text.trim_end_matches('/')), ("LS" | "Glob", "" | "..")) {
                    continue;
                }
                let mut input = input.clone();
                *input.pointer_mut(field).unwrap() = text.clone().into();
                let result = room.call(tool, input);
                assert_ne!(result.error_kind(), Some(ErrorKind::Panicked), "{tool} {field} {text:?}");
            }
        }
        room.put("f", "x\n");
    }
}

/// A content of naughty strings goes in and comes out as it was.
#[test]
fn naughty_strings_are_written_and_changed_to_the_byte() {
    let room = Room::in_memory();
    let all = naughty();
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
