//! `Diff` through an engine.

use serde_json::json;

use crate::room::Room;

#[test]
fn differences_are_a_unified_diff() {
    let room =
        Room::with(&[("a", "1\n2\n3\n4\n5\n6\n"), ("b", "1\n2\n3\n4\n5\nsix"), ("c", "1\n2\n3\n4\n5\n6\n")]);
    assert_eq!(
        room.text("Diff", json!({"a": "a", "b": "b", "context": 1})),
        "--- a\n+++ b\n@@ -5,2 +5,2 @@\n 5\n-6\n+six\n\\ No newline at end of file\n"
    );
    assert_eq!(room.text("diff", json!({"a": "a", "b": "c"})), "[`a` and `c` are the same, 12 B]");
    let view = room.view("Diff", json!({"a": "a", "b": "b"}));
    assert_eq!((view.title.as_str(), view.summary.as_deref()), ("a and b", Some("+1 −1")));
}

#[test]
fn what_is_no_text_is_compared_by_bytes() {
    let room = Room::with(&[("dir/x", "")]);
    room.put("a", b"ab\0c");
    room.put("b", b"ab\0d1");
    assert_eq!(
        room.text("Diff", json!({"a": "a", "b": "b"})),
        "[`a` (4 bytes) and `b` (5 bytes) are binary; they differ from byte 3 on, counted from 0]"
    );
    room.put("x", b"\xff\n");
    room.put("y", b"\xfe\n");
    assert_eq!(
        room.text("Diff", json!({"a": "x", "b": "y"})),
        "[`x` and `y` differ only in bytes that are not UTF-8]"
    );
    assert!(room.error("Diff", json!({"a": "a", "b": "dir"})).1.contains("is a directory"));
    assert!(room.error("Diff", json!({"a": "a", "b": "dri"})).1.contains("did you mean `dir`?"));
}

#[cfg(feature = "encodings")]
#[test]
fn other_encodings_are_compared_by_lines() {
    let room = Room::with(&[("c", "h\u{e9}\nx\n")]);
    let utf16 = |text: &str| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    room.put("a", utf16("h\u{e9}\nx\n"));
    room.put("b", utf16("h\u{e9}\ny\n"));
    assert_eq!(
        room.text("Diff", json!({"a": "a", "b": "b"})),
        "--- a\n+++ b\n@@ -1,2 +1,2 @@\n h\u{e9}\n-x\n+y\n"
    );
    assert_eq!(
        room.text("Diff", json!({"a": "a", "b": "c"})),
        "[`a` and `c` have the same text, and differ only in how it is encoded]"
    );
}
