//! `LS` through an engine.

use std::os::unix::fs::symlink;

use haft::ErrorKind;
use serde_json::{Value, json};

use crate::room::{Room, make_pipe};

fn ls(room: &Room, input: Value) -> String {
    room.text("LS", input)
}

#[test]
fn a_tree_has_directories_first_sizes_and_levels() {
    let room = Room::with(&[
        ("b.txt", "12345"),
        ("a/deep/er/x", ""),
        ("a/f", ""),
        (".git/config", ""),
        (".hid", ""),
    ]);
    room.put("large", vec![0; 5_000]);
    symlink("b.txt", room.path("l")).unwrap();
    make_pipe(&room.path("p"));
    assert_eq!(
        ls(&room, json!({})),
        "ROOM/\n  .git/ …\n  a/\n    deep/ …\n    f (0 B)\n  .hid (0 B)\n  b.txt (5 B)\n  l (link)\n  large (4.9 KiB)\n  \
         p (pipe, socket or device)"
    );
    assert_eq!(ls(&room, json!({"path": "a", "depth": 1})), "a/\n  deep/ …\n  f (0 B)");
    assert_eq!(ls(&room, json!({"path": "a", "depth": 5, "ignore": ["f", "er/"]})), "a/\n  deep/");
    assert_eq!(room.text("list_dir", json!({"path": "a/deep/er"})), "a/deep/er/\n  x (0 B)");
}

#[test]
fn what_is_too_much_is_counted() {
    let room = Room::new();
    for at in 0..250 {
        room.put(&format!("many/f{at:03}"), "");
    }
    let text = ls(&room, json!({}));
    assert!(text.contains("    f199 (0 B)\n    … 50 more") && !text.contains("f200"), "{text}");
    for dir in 0..20 {
        for at in 0..100 {
            room.put(&format!("d{dir:02}/f{at:03}"), "");
        }
    }
    let text = ls(&room, json!({}));
    assert!(text.contains("  d19/"), "the upper level is whole: {text}");
    assert!(text.ends_with("patterns to `ignore`]"), "{text}");
    assert!(text.lines().count() < 1_100);
}

#[test]
fn what_is_no_directory_is_told_why() {
    let room = Room::with(&[("f", ""), ("dir/x", "")]);
    assert_eq!(
        room.error("LS", json!({"path": "f"})).1,
        "`f` is not a directory; Read shows what is in a file"
    );
    assert!(room.error("LS", json!({"path": "dri"})).1.ends_with("did you mean `dir`?"));
    assert_eq!(room.error("LS", json!({"ignore": ["[a"]})).0, ErrorKind::InvalidInput);
    assert_eq!(room.error("LS", json!({"depth": 0})).0, ErrorKind::InvalidInput);
    std::fs::create_dir(room.path("empty")).unwrap();
    assert_eq!(ls(&room, json!({"path": "empty"})), "empty/\n[empty]");
}
