//! `Write` through an engine, on real files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use haft::effects::table::EffectFacts;
use haft::view::{CallStage, ViewPart};
use haft::{Engine, ErrorKind, PermissionRules, Registry, Tool as _, Workspace};
use serde_json::{Value, json};

use crate::room::{Room, make_pipe, run};
use haft_tools::write::*;

fn write(path: &str, content: &str) -> Value {
    json!({"file_path": path, "content": content})
}

#[test]
fn files_are_created_and_replaced_to_the_byte() {
    let room = Room::new();
    assert_eq!(room.text("Write", write("a/b/new.txt", "one\ntwo\n")), "created `a/b/new.txt`: 2 lines");
    for content in ["", "no end", "a\r\nb\r\n", "\u{feff}x", "nul\0"] {
        room.text("Write", write("f", content));
        assert_eq!(room.content("f"), content);
    }
    room.text("Write", write("f", "a\nb\nc\n"));
    assert_eq!(room.text("Write", write("f", "a\nB\n")), "replaced `f`: 2 lines instead of 3 (+1 −2)");
    assert_eq!(room.text("Write", write("one", "x")), "created `one`: 1 line");
    let left: Vec<_> = fs::read_dir(room.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing is left behind: {left:?}");
}

#[test]
fn the_mode_stays_and_a_file_that_is_read_only_is_refused() {
    let room = Room::with(&[("run.sh", "old"), ("fixed", "old")]);
    fs::set_permissions(room.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    room.text("Write", write("run.sh", "new"));
    assert_eq!(fs::metadata(room.path("run.sh")).unwrap().mode() & 0o7777, 0o755);
    fs::set_permissions(room.path("fixed"), fs::Permissions::from_mode(0o444)).unwrap();
    // Also for those who may write everything.
    let edit = json!({"file_path": "fixed", "old_string": "old", "new_string": "new"});
    for (tool, input) in [("Write", write("fixed", "new")), ("Edit", edit)] {
        let (_, words) = room.error(tool, input);
        assert_eq!(words, "`ROOM/fixed` is read-only: nobody may write it, as its mode says");
    }
    assert_eq!(room.content("fixed"), "old");
}

#[test]
fn what_is_no_file_is_refused() {
    let room = Room::with(&[("dir/x", "")]);
    make_pipe(&room.path("pipe"));
    let check = |input: Value, kind: ErrorKind, words: &str| {
        let said = room.error("Write", input);
        assert_eq!(said.0, kind, "{said:?}");
        assert!(said.1.starts_with(words), "{said:?}");
    };
    check(write("dir", "x"), ErrorKind::Failed, "`ROOM/dir` is a directory");
    check(write("dir/x/y", "x"), ErrorKind::Failed, "`ROOM/dir/x` is not a directory");
    check(write("new/", "x"), ErrorKind::InvalidInput, "`file_path` ends with `/`");
    assert!(!room.path("new").exists());
    check(write("pipe", "x"), ErrorKind::Failed, "`ROOM/pipe` is a pipe, a socket or a device");
    check(write("", "x"), ErrorKind::InvalidInput, "`file_path` is empty");
    check(write("/etc/x", "x"), ErrorKind::Denied, "Write was denied");
    check(write("../x", "x"), ErrorKind::Denied, "Write was denied");
    symlink("/etc/x", room.path("out")).unwrap();
    check(write("out", "x"), ErrorKind::Denied, "Write was denied");
}

#[test]
fn a_person_sees_the_change_or_the_beginning() {
    let room = Room::with(&[("f", "a\nb\n")]);
    let view = room.view("Write", write("f", "a\nc\n"));
    assert_eq!((view.title.as_str(), view.summary.as_deref()), ("f", Some("+1 −1")));
    assert!(matches!(&view.body[..], [ViewPart::Diff { lines, .. }] if lines.len() == 3), "{view:?}");
    let long = "line\n".repeat(50);
    let view = room.view("Write", write("new", &long));
    assert_eq!(view.summary.as_deref(), Some("created, 50 lines"));
    assert!(matches!(&view.body[..], [ViewPart::Code { text, .. }] if *text == long), "{view:?}");
    let huge = room.view("Write", write("huge", &"line\n".repeat(100_000)));
    let [ViewPart::Code { text, .. }] = &huge.body[..] else { panic!("{huge:?}") };
    let (shown, last) = text.rsplit_once('\n').unwrap();
    assert_eq!(last, format!("… {} more lines", 100_000 - shown.lines().count()));
    let input = write("x", "a\n");
    let before = Write::default().view(&CallStage::Use { input: &input, complete: true }).unwrap();
    assert_eq!(before.summary.as_deref(), Some("1 line"));
}

/// A protected file has a second name inside of what may be written: that name gets a new file, the old one
/// stays.
#[test]
fn a_second_name_of_a_protected_file_does_not_lead_to_it() {
    let room = Room::with(&[("keep/settings", "protected"), ("f", "x")]);
    fs::hard_link(room.path("keep/settings"), room.path("alias")).unwrap();
    let permissions = PermissionRules::new().allow("Write").unwrap().allow("Edit").unwrap();
    let workspace = Workspace::new(room.path("")).unwrap().with_protected(room.path("keep"));
    let engine = Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(workspace)
        .permissions(permissions)
        .build();
    let refused = run(&engine, "Write", write("keep/settings", "mine"));
    assert_eq!(refused.error_kind(), Some(ErrorKind::Denied));
    let edit = json!({"file_path": "alias", "old_string": "protected", "new_string": "mine"});
    for (tool, input) in [("Edit", edit), ("Write", write("alias", "mine too"))] {
        assert!(run(&engine, tool, input).outcome().is_ok(), "{tool}");
        assert_eq!(room.content("keep/settings"), "protected", "{tool}");
    }
    assert_eq!(room.content("alias"), "mine too");
    symlink("keep/settings", room.path("link")).unwrap();
    let refused = run(&engine, "Write", write("link", "mine"));
    assert_eq!(refused.error_kind(), Some(ErrorKind::Denied));
    assert_eq!(room.content("keep/settings"), "protected");
}

#[test]
fn it_is_listed_as_what_its_effects_say() {
    let input = WriteInput { file_path: "f".into(), content: String::new() };
    let tool = haft::tool::AnyTool::typed(Write::default()).unwrap();
    assert_eq!(
        tool.listed_class(),
        Write::default().effects(&input).judge(&EffectFacts::unresolved()).class.into()
    );
}

#[test]
fn who_is_asked_sees_the_change_to_a_file_that_is_there() {
    let room = Room::with(&[("f", "a\nb\n")]);
    let asked = room.asked("Write", write("f", "a\nc\n"));
    assert_eq!((asked.view.title.as_str(), asked.view.summary.as_deref()), ("f", Some("+1 −1")));
    assert!(matches!(&asked.view.body[..], [ViewPart::Diff { lines, .. }] if lines.len() == 3), "{asked:?}");
    assert_eq!(asked.warnings().len(), 1, "what was there is in no call");
    assert_eq!(room.content("f"), "a\nb\n");
    let asked = room.asked("Write", write("new", "a\n"));
    assert!(matches!(&asked.view.body[..], [ViewPart::Code { .. }]), "{asked:?}");
    assert!(asked.warnings().is_empty());
}

#[test]
fn where_a_session_remembers_a_file_is_read_before_it_is_replaced() {
    let room = Room::remembering();
    room.put("there.txt", "one\n");
    room.put("empty.txt", "");
    let (_, refused) = room.error("Write", write("there.txt", "two\n"));
    assert!(refused.contains("was not read in this session"), "{refused}");
    assert_eq!(room.content("there.txt"), "one\n");
    room.text("Write", write("empty.txt", "x\n"));
    room.text("Write", write("new.txt", "x\n"));
    room.text("Write", write("new.txt", "y\n"));
    room.text("Read", json!({"file_path": "there.txt"}));
    room.text("Write", write("there.txt", "two\n"));
    assert_eq!(room.content("there.txt"), "two\n");
}

#[test]
fn a_file_in_utf16_stays_so_and_another_encoding_is_said_to_be_utf8_now() {
    let room = Room::new();
    room.put("f", b"\xff\xfea\0\n\0");
    let said = room.text("Write", write("f", "x\u{e9}\n"));
    assert!(said.ends_with("\n[in UTF-16, as the file was]"), "{said}");
    assert_eq!(fs::read(room.path("f")).unwrap(), b"\xff\xfex\0\xe9\0\n\0");
    room.put("g", b"caf\xe9\n");
    let said = room.text("Write", write("g", "caf\u{e9}\n"));
    assert!(said.ends_with("\n[the file was in another encoding than UTF-8; it is UTF-8 now]"), "{said}");
    assert!(!room.text("Write", write("g", "y\n")).contains("UTF-8"));
}

/// A person who gave a file an attribute, an access control list or a second name finds them again, or is
/// told.
#[test]
fn what_belongs_to_a_file_is_kept_or_said() {
    let room = Room::with(&[("f", "one\n"), ("plain", "one\n"), ("named", "one\n")]);
    let attribute = |name: &str| {
        let mut value = [0; 256];
        let length = rustix::fs::getxattr(room.path("f"), name, &mut value[..]).unwrap();
        value[..length].to_vec()
    };
    let set = |file: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(room.path(file), name, value, rustix::fs::XattrFlags::empty())
    };
    if set("f", "user.colour", b"blue").is_err() {
        return;
    }
    // User 1000 may read and write; owner, group, mask and others as usual.
    let entry = |tag: u16, allowed: u16, id: u32| {
        [&tag.to_le_bytes()[..], &allowed.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let list: Vec<u8> = [
        2_u32.to_le_bytes().to_vec(),
        entry(1, 6, none),
        entry(2, 6, 1000),
        entry(4, 4, none),
        entry(16, 6, none),
        entry(32, 4, none),
    ]
    .concat();
    let has_lists = set("f", "system.posix_acl_access", &list).is_ok();
    // New files in the folder get an access list that the old ones don't have.
    let inherits = has_lists && set("", "system.posix_acl_default", &list).is_ok();
    let edit = |file: &str, old: &str, new: &str| {
        room.text("Edit", json!({"file_path": file, "old_string": old, "new_string": new}))
    };
    let said = [edit("f", "one", "two"), room.text("Write", write("f", "three\n"))].concat();
    assert!(!said.contains("kept") && !said.contains("keep"), "{said}");
    assert_eq!(attribute("user.colour"), b"blue");
    if has_lists {
        assert_eq!(attribute("system.posix_acl_access"), list);
    }
    edit("plain", "one", "two");
    if inherits {
        let found = rustix::fs::getxattr(room.path("plain"), "system.posix_acl_access", &mut [0; 256][..]);
        assert_eq!(found, Err(rustix::io::Errno::NODATA));
    }

    fs::hard_link(room.path("named"), room.path("other")).unwrap();
    let said = edit("named", "one", "two");
    assert!(
        said.ends_with("\n[`named`: another name of the file (a hard link) keeps the old content]"),
        "{said}"
    );
    assert_eq!(room.content("other"), "one\n");
    fs::remove_file(room.path("other")).unwrap();
    for name in ["other", "third"] {
        fs::hard_link(room.path("named"), room.path(name)).unwrap();
    }
    let patch = "*** Begin Patch\n*** Update File: named\n-two\n+three\n*** End Patch";
    let said = room.text("ApplyPatch", json!({"input": patch}));
    assert!(
        said.ends_with("\n[`named`: 2 other names of the file (hard links) keep the old content]"),
        "{said}"
    );
}
