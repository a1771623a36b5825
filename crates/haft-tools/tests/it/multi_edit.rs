//! `MultiEdit` through an engine.

use haft::view::CallStage;
use haft::{ErrorKind, Tool as _};
use haft_tools::MultiEdit;
use serde_json::{Value, json};

use crate::room::Room;

#[test]
fn all_edits_are_done_in_order_each_on_what_the_last_one_left() {
    let room = Room::with(&[("f", "one\r\ntwo\r\nthree\r\n")]);
    let edits = json!([
        {"old_string": "one", "new_string": "1"},
        {"old_string": "1\ntwo", "new_string": "1\n2\n2"},
        {"old_string": "2", "new_string": "zwei", "replace_all": true},
    ]);
    let said = room.text("MultiEdit", json!({"file_path": "f", "edits": edits}));
    assert_eq!(said, "`f` changed by 3 edits (+3 −2)");
    assert_eq!(room.content("f"), "1\r\nzwei\r\nzwei\r\nthree\r\n");
}

#[test]
fn if_one_fails_nothing_is_changed() {
    let room = Room::with(&[("f", "one\ntwo\ntwo\n")]);
    let check = |edits: Value, kind: ErrorKind, words: &str| {
        let said = room.error("multi_edit", json!({"file_path": "f", "edits": edits}));
        assert_eq!(said, (kind, words.to_owned()));
        assert_eq!(room.content("f"), "one\ntwo\ntwo\n");
    };
    check(
        json!([{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]),
        ErrorKind::Failed,
        "edit 2 of 2: MultiEdit found 2 matches for `old_string` in f (lines 2, 3); it must be unique\n\
         give more surrounding lines, or set `replace_all`\nnothing was changed",
    );
    check(
        json!([{"old_string": "one", "new_string": "1"}, {"old_string": "", "new_string": "2"}]),
        ErrorKind::InvalidInput,
        "`old_string` of edit 2 is empty; only the first edit may create a file, give the text to replace",
    );
    let (kind, _) = room.error("MultiEdit", json!({"file_path": "f", "edits": []}));
    assert_eq!(kind, ErrorKind::InvalidInput);
}

#[test]
fn the_first_edit_may_create_the_file() {
    let room = Room::new();
    let edits = json!([{"old_string": "", "new_string": "a b"}, {"old_string": "b", "new_string": "c"}]);
    assert_eq!(room.text("MultiEdit", json!({"file_path": "new/f", "edits": edits})), "created `new/f`");
    assert_eq!(room.content("new/f"), "a c");
}

#[test]
fn a_person_sees_each_edit_before_and_the_change_after() {
    let room = Room::with(&[("f", "a\nb\n")]);
    let input = json!({"file_path": "f", "edits": [{"old_string": "a", "new_string": "A"}, {"old_string": "b", "new_string": "B"}]});
    let before = MultiEdit::default().view(&CallStage::Use { input: &input, complete: true }).unwrap();
    assert_eq!((before.summary.as_deref(), before.body.len()), (Some("2 edits"), 2));
    let after = room.view("MultiEdit", input);
    assert_eq!((after.summary.as_deref(), after.body.len()), (Some("+2 −2"), 1));
}
