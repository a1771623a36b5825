//! `ApplyPatch` through an engine, on real files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use haft::view::CallStage;
use haft::{Effects, ErrorKind, Tool as _};
use serde_json::{Value, json};

use crate::room::Room;
use haft_tools::apply_patch::*;

fn patch(sections: &str) -> Value {
    json!({"input": format!("*** Begin Patch\n{sections}\n*** End Patch")})
}

#[test]
fn files_are_added_changed_moved_and_deleted_in_one_call() {
    let room = Room::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "x\n"), ("gone", "g\n"), ("same", "s\n")]);
    fs::set_permissions(room.path("b.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    let said = room.text(
        "apply_patch",
        patch(
            "*** Add File: new/c.txt\n+hello\n*** Update File: a.txt\n one\n-two\n+2\n*** Update File: b.txt\n\
             *** Move to: d/b.txt\n-x\n+y\n*** Delete File: gone\n*** Update File: same\n*** Move to: moved",
        ),
    );
    assert_eq!(
        said,
        "added `new/c.txt` (+1 −0)\nchanged `a.txt` (+1 −1)\nmoved `b.txt` to `d/b.txt` (+1 −1)\ndeleted `gone` (+0 −1)\n\
         moved `same` to `moved` (+0 −0)"
    );
    assert_eq!(room.content("new/c.txt"), "hello\n");
    assert_eq!(room.content("a.txt"), "one\n2\n");
    assert_eq!(room.content("d/b.txt"), "y\n");
    assert_eq!(room.content("moved"), "s\n");
    assert_eq!(fs::metadata(room.path("d/b.txt")).unwrap().mode() & 0o7777, 0o751);
    assert!(!room.path("gone").exists() && !room.path("b.txt").exists() && !room.path("same").exists());
}

#[test]
fn a_file_may_be_named_twice() {
    let room = Room::with(&[("a", "1\n2\n")]);
    room.text("ApplyPatch", patch("*** Update File: a\n-1\n+one\n*** Update File: ./a\n one\n-2\n+two"));
    assert_eq!(room.content("a"), "one\ntwo\n");
    room.text("ApplyPatch", patch("*** Delete File: a\n*** Add File: a\n+new"));
    assert_eq!(room.content("a"), "new\n");
}

#[test]
fn if_a_part_has_no_place_nothing_is_changed() {
    let room = Room::with(&[("a", "1\n"), ("b", "2\n"), ("dir/x", "")]);
    let check = |sections: &str, words: &str| {
        let said = room.error("ApplyPatch", patch(sections));
        assert_eq!(said, (ErrorKind::Failed, words.to_owned()));
        assert_eq!((room.content("a"), room.content("b")), ("1\n".into(), "2\n".into()));
        assert!(!room.path("new").exists());
    };
    check(
        "*** Add File: new\n+x\n*** Update File: a\n-1\n+one\n*** Update File: b\n-3\n+x",
        "`b`, change at line 8 of the patch: the file has no such lines:\n    3\n\
         read the file again and give its lines as they stand there; nothing was changed",
    );
    check(
        "*** Update File: a\n-1\n+one\n*** Add File: b\n+x",
        "`b` exists already; change it with `*** Update File: `, or delete it first; nothing was changed",
    );
    check(
        "*** Update File: a\n-1\n+one\n*** Delete File: dri/x",
        "`ROOM/dri/x` does not exist; there is no directory `dri`; did you mean `dir`?; nothing was changed",
    );
    check(
        "*** Delete File: a\n*** Update File: a\n-1\n+one",
        "`a` was moved or deleted by an earlier section of the patch; nothing was changed",
    );
}

/// The second write is refused by the disk, so the first one is taken back.
#[test]
fn a_write_that_fails_takes_back_those_before_it() {
    let room = Room::with(&[("a", "1\n"), ("b", "2\n"), ("c", "3\n")]);
    fs::set_permissions(room.path("c"), fs::Permissions::from_mode(0o444)).unwrap();
    let sections =
        "*** Update File: a\n-1\n+one\n*** Add File: new\n+x\n*** Delete File: b\n*** Update File: c\n-3\n+y";
    let (_, words) = room.error("ApplyPatch", patch(sections));
    assert_eq!(words, "`ROOM/c` is read-only: nobody may write it, as its mode says; nothing was changed");
    assert_eq!((room.content("a"), room.content("b")), ("1\n".into(), "2\n".into()));
    assert!(!room.path("new").exists());
}

#[test]
fn a_file_that_changed_since_it_was_read_has_to_be_read_again() {
    let room = Room::with(&[("a", "1\n2\n")]);
    room.text("Read", json!({"file_path": "a"}));
    room.put("a", "0\n1\n2\n");
    let (_, words) = room.error("ApplyPatch", patch("*** Update File: a\n-1\n+one"));
    assert_eq!(
        words,
        "`a` has changed on disk since it was read; read it again, then patch; nothing was changed"
    );
    let (_, words) = room.error("ApplyPatch", patch("*** Delete File: a"));
    assert!(words.starts_with("`a` has changed on disk"), "{words}");
    assert_eq!(room.content("a"), "0\n1\n2\n");
    room.text("Read", json!({"file_path": "a"}));
    room.text("ApplyPatch", patch("*** Update File: a\n-1\n+one"));
    assert_eq!(room.content("a"), "0\none\n2\n");
}

#[test]
fn it_declares_every_file_that_it_names() {
    let input = |text: &str| ApplyPatchInput { input: format!("*** Begin Patch\n{text}\n*** End Patch") };
    let effects = ApplyPatch::default().effects(&input(
        "*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n-1\n+2\n*** Delete File: d\n*** Update File: e\n-1\n+2",
    ));
    let names = |sets: &[haft::effects::PathSet]| -> String {
        sets.iter().map(|set| set.path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (names(&effects.reads), names(&effects.writes), names(&effects.deletes)),
        ("b d e".into(), "a c e".into(), "b d".into())
    );
    assert_eq!(
        ApplyPatch::default().effects(&ApplyPatchInput { input: "x".into() }),
        Effects::none().recoverable()
    );
    assert!(!effects.unknown);
}

#[test]
fn a_person_sees_the_patch_before_and_the_lines_after() {
    let room = Room::with(&[("a", "1\n"), ("b", "2\n")]);
    let input = patch("*** Update File: a\n-1\n+one\n*** Update File: b\n-2\n+two");
    let before = ApplyPatch::default().view(&CallStage::Use { input: &input, complete: true }).unwrap();
    assert_eq!(before.title, "a and 1 more");
    let after = room.view("ApplyPatch", input);
    assert_eq!(
        (after.title.as_str(), after.summary.as_deref(), after.body.len()),
        ("a and 1 more", Some("+2 −2"), 2)
    );
}

#[test]
fn links_and_directories_are_not_deleted_or_moved() {
    let room = Room::with(&[("t", "x\n"), ("dir/a", "")]);
    std::os::unix::fs::symlink("t", room.path("l")).unwrap();
    let check = |sections: &str, words: &str| {
        assert_eq!(room.error("ApplyPatch", patch(sections)), (ErrorKind::Failed, words.to_owned()));
        assert_eq!((fs::read_link(room.path("l")).unwrap(), room.content("t")), ("t".into(), "x\n".into()));
    };
    let link = |what: &str| {
        format!(
            "`l` is a link to `t`, and ApplyPatch {what} files only; name `t`, or use Bash for the link; nothing was changed"
        )
    };
    check("*** Delete File: l", &link("deletes"));
    check("*** Update File: l\n*** Move to: m\n-x\n+y", &link("moves"));
    check(
        "*** Delete File: dir",
        "`dir` is a directory; ApplyPatch works on files only; nothing was changed",
    );
    room.text("ApplyPatch", patch("*** Update File: l\n-x\n+y"));
    assert_eq!((room.content("t"), fs::read_link(room.path("l")).unwrap()), ("y\n".into(), "t".into()));
    // A link on the way is none.
    std::os::unix::fs::symlink("dir", room.path("way")).unwrap();
    room.text("ApplyPatch", patch("*** Delete File: way/a"));
    assert!(!room.path("dir/a").exists());
}
