//! `Rewind` through an engine.

use haft::ErrorKind;
use serde_json::{Value, json};

use crate::room::Room;

fn write(room: &Room, path: &str, content: &str) {
    room.text("Write", json!({"file_path": path, "content": content}));
}

fn edit(room: &Room, path: &str, old: &str, new: &str) {
    room.text("Edit", json!({"file_path": path, "old_string": old, "new_string": new}));
}

fn restore(to: u64) -> Value {
    json!({"action": "restore", "to": to})
}

#[test]
fn changes_of_several_calls_are_undone_together() {
    let room = Room::with(&[("a", "one\n"), ("gone", "g\n")]);
    write(&room, "new/b", "b\n");
    edit(&room, "a", "one", "1");
    edit(&room, "a", "1", "eins");
    room.text("ApplyPatch", json!({"input": "*** Begin Patch\n*** Delete File: gone\n*** Update File: a\n-eins\n+uno\n*** End Patch"}));
    assert_eq!(
        room.text("Rewind", json!({"action": "list"})),
        "1\tcreated new/b (2 bytes) by Write, turn 1\n2\tchanged a (4 → 2 bytes) by Edit, turn 2\n\
         3\tchanged a (2 → 5 bytes) by Edit, turn 3\n4\tdeleted gone (2 bytes) by ApplyPatch, turn 4\n\
         5\tchanged a (5 → 4 bytes) by ApplyPatch, turn 4"
    );
    let said = room.text("Rewind", json!({"action": "preview", "to": 3}));
    assert_eq!(
        said,
        "would restore 2 files to before change 3:\na: +1 −1\n1\t-uno\n1\t+1\ngone: brought back\n1\t+g"
    );
    assert_eq!(room.content("a"), "uno\n", "a preview changes nothing");
    room.text("Rewind", restore(3));
    assert_eq!((room.content("a"), room.content("gone")), ("1\n".into(), "g\n".into()));
    room.text("Rewind", restore(1));
    assert_eq!(room.content("a"), "one\n");
    assert!(!room.path("new/b").exists());
    // Going back is undone like anything else.
    let (changes, _) = (room.text("Rewind", json!({"action": "list"})), ());
    let first = changes.lines().find(|line| line.contains("by Rewind")).unwrap();
    let first: u64 = first.split('\t').next().unwrap().parse().unwrap();
    room.text("Rewind", restore(first));
    assert_eq!((room.content("a"), room.content("new/b")), ("uno\n".into(), "b\n".into()));
    assert!(!room.path("gone").exists());
}

#[test]
fn a_file_that_moved_is_never_left_without_a_name() {
    let room = Room::with(&[("a", "1\n"), ("b", "2\n")]);
    let patch = "*** Begin Patch\n*** Update File: b\n-2\n+zwei\n*** Update File: a\n*** Move to: c\n-1\n+eins\n*** End Patch";
    room.text("ApplyPatch", json!({"input": patch}));
    assert_eq!(
        room.text("Rewind", json!({"action": "list"})),
        "1\tchanged b (2 → 5 bytes) by ApplyPatch, turn 1\n2\tdeleted a (2 bytes) by ApplyPatch, turn 1\n\
         3\tcreated c (5 bytes, moved from a) by ApplyPatch, turn 1"
    );
    assert!(room.text("Rewind", restore(3)).starts_with("restored 2 files to before change 2:"));
    assert_eq!((room.content("a"), room.content("b")), ("1\n".into(), "zwei\n".into()));
    assert!(!room.path("c").exists());
}

#[test]
fn only_the_named_files_go_back() {
    let room = Room::with(&[("a", "1"), ("b", "1")]);
    edit(&room, "a", "1", "2");
    edit(&room, "b", "1", "2");
    room.text("Rewind", json!({"action": "restore", "to": 1, "paths": ["b"]}));
    assert_eq!((room.content("a"), room.content("b")), ("2".into(), "1".into()));
    let (_, words) = room.error("Rewind", json!({"action": "restore", "to": 1, "paths": ["c"]}));
    assert_eq!(words, "`c` has not changed from change 1 on; `list` shows what has");
}

#[test]
fn what_something_else_has_changed_since_is_not_lost_without_force() {
    let room = Room::with(&[("a", "1"), ("b", "1")]);
    edit(&room, "a", "1", "2");
    edit(&room, "b", "1", "2");
    room.put("a", "foreign");
    let (_, words) = room.error("Rewind", restore(1));
    assert_eq!(
        words,
        "nothing was restored: `a` was changed since by something else than the file tools; look at `preview`, then \
         set `force`, or name other files in `paths`"
    );
    assert_eq!((room.content("a"), room.content("b")), ("foreign".into(), "2".into()));
    room.text("Rewind", json!({"action": "restore", "to": 1, "force": true}));
    assert_eq!((room.content("a"), room.content("b")), ("1".into(), "1".into()));
    room.text("Rewind", restore(3));
    assert_eq!(room.content("a"), "foreign", "and even that comes back");
}

#[test]
fn what_can_not_be_is_told_why() {
    let room = Room::with(&[("a", "1")]);
    assert_eq!(room.text("Rewind", json!({"action": "list"})), "[no file was changed in this session]");
    assert_eq!(
        room.error("Rewind", restore(7)),
        (ErrorKind::Failed, "there is no change 7; no file was changed in this session".into())
    );
    edit(&room, "a", "1", "2");
    let (_, words) = room.error("Rewind", restore(7));
    assert_eq!(words, "there is no change 7; this session has changes from 1 to 1; `list` shows them");
    std::fs::remove_file(room.path("a")).unwrap();
    std::fs::create_dir(room.path("a")).unwrap();
    let (_, words) = room.error("Rewind", restore(1));
    assert!(words.starts_with("`a` is a directory now, where a file was; nothing was restored"), "{words}");
    assert_eq!(room.error("Rewind", json!({"action": "restore"})).0, ErrorKind::InvalidInput);
    assert_eq!(room.error("Rewind", json!({"action": "undo"})).0, ErrorKind::InvalidInput);
}

/// Deleted and brought back, and then the bringing back undone and done again.
#[test]
fn a_file_that_was_deleted_comes_back_with_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::with(&[("run.sh", "x\n")]);
    let mode = |name: &str| std::fs::metadata(room.path(name)).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(room.path("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    room.text("ApplyPatch", json!({"input": "*** Begin Patch\n*** Delete File: run.sh\n*** End Patch"}));
    room.text("Rewind", restore(1));
    assert_eq!((room.content("run.sh"), mode("run.sh")), ("x\n".into(), 0o751));
    room.text("Rewind", restore(2));
    assert!(!room.path("run.sh").exists());
    room.text("Rewind", restore(3));
    assert_eq!(mode("run.sh"), 0o751);
}

#[test]
fn it_declares_what_it_will_write() {
    let room = Room::with(&[("a", "1")]);
    edit(&room, "a", "1", "2");
    let asked = room.asked("Rewind", restore(1));
    assert!(format!("{asked:?}").contains("/a"), "{asked:?}");
}

#[test]
fn a_file_that_was_moved_comes_back_with_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    for change in ["", "\n-x\n+y"] {
        let room = Room::with(&[("run.sh", "x\n")]);
        let mode = |name: &str| std::fs::metadata(room.path(name)).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(room.path("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
        let patch = format!(
            "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/go.sh{change}\n*** End Patch"
        );
        room.text("ApplyPatch", json!({"input": patch}));
        assert_eq!(mode("bin/go.sh"), 0o751);
        room.text("Rewind", restore(1));
        assert_eq!((room.content("run.sh"), mode("run.sh")), ("x\n".into(), 0o751), "{change}");
        assert!(!room.path("bin/go.sh").exists());
    }
}
