//! `Edit` through an engine, on real files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use haft::effects::table::{ConcurrencyClass, EffectFacts};
use haft::view::{CallStage, LineChange, ViewPart};
use haft::{Engine, ErrorKind, PermissionRules, Registry, Tool as _, Workspace};
use serde_json::{Value, json};

use crate::room::{Room, run};
use haft_tools::edit::*;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "old_string": old, "new_string": new})
}

/// What a file becomes by an edit.
#[track_caller]
fn check(file: impl AsRef<[u8]>, old: &str, new: &str, expected: impl AsRef<[u8]>) {
    let room = Room::new();
    room.put("f", file);
    room.text("Edit", edit("f", old, new));
    assert_eq!(String::from_utf8_lossy(&room.bytes("f")), String::from_utf8_lossy(expected.as_ref()));
}

#[test]
fn a_text_is_replaced_and_everything_else_stays() {
    check("a\nb\nc\n", "b", "B", "a\nB\nc\n");
    check("a\nb\nc\n", "a\nb\n", "", "c\n");
    check("no end", "no", "an", "an end");
    check("a\r\nb\r\nc", "b\nc", "x\ny\nz", "a\r\nx\r\ny\r\nz");
    check("\u{feff}first\nsecond", "first", "1st", "\u{feff}1st\nsecond");
    check(b"\xff\xfe? latin caf\xe9\nhere\n", "here", "there", b"\xff\xfe? latin caf\xe9\nthere\n");
    check("$1 \\1 & done", "$1 \\1 &", "\\0 $0", "\\0 $0 done");
    check("tab\there", "\t", "  ", "tab  here");
}

/// Files in UTF-16 are usual on Windows; their mark says which they are.
#[test]
fn a_file_in_utf16_is_edited_and_stays_so() {
    type Bytes = fn(u16) -> [u8; 2];
    for bytes in [u16::to_le_bytes as Bytes, u16::to_be_bytes] {
        let utf16 = |text: &str| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        check(utf16("a\r\nb\u{1f600}\r\nc"), "b\u{1f600}\nc", "\u{e9}\nd", utf16("a\r\n\u{e9}\r\nd"));
        let room = Room::new();
        room.put("f", utf16("one\ntwo\n"));
        let patch = "*** Begin Patch\n*** Update File: f\n one\n-two\n+zw\u{f6}lf\n*** End Patch";
        room.text("ApplyPatch", json!({"input": patch}));
        assert_eq!(room.bytes("f"), utf16("one\nzw\u{f6}lf\n"));
        let edits = json!([{"old_string": "one", "new_string": "1"}, {"old_string": "zw\u{f6}lf", "new_string": "12"}]);
        room.text("MultiEdit", json!({"file_path": "f", "edits": edits}));
        assert_eq!(room.bytes("f"), utf16("1\n12\n"));
        let shown = room.text("Read", json!({"file_path": "f"}));
        assert!(
            shown.contains("[decoded from UTF-16") && shown.contains("edits keep that encoding]"),
            "{shown}"
        );
        // Half of a character would be lost.
        let room = Room::new();
        room.put("f", [utf16("one\n"), bytes(0xd800).to_vec()].concat());
        let (_, refused) = room.error("Edit", edit("f", "one", "two"));
        assert!(refused.contains("half of a character"), "{refused}");
    }
}

#[test]
fn the_answer_says_where_and_how_much() {
    let room = Room::with(&[("src/lib.rs", "a\nb\nc\n")]);
    assert_eq!(room.text("Edit", edit("src/lib.rs", "b", "x\ny")), "`src/lib.rs` edited at line 2 (+2 −1)");
    let all =
        json!({"file_path": "src/lib.rs", "old_string": "\n", "new_string": ";\n", "replace_all": true});
    assert_eq!(room.text("Edit", all), "`src/lib.rs` edited in 4 places, lines 1, 2, 3, 4 (+4 −4)");
    assert_eq!(room.content("src/lib.rs"), "a;\nx;\ny;\nc;\n");
}

#[test]
fn several_matches_are_an_error_that_names_them() {
    let room = Room::with(&[("src/lib.rs", "x\nfoo\n\nfoo\nfoo\n")]);
    assert_eq!(
        room.error("Edit", edit("src/lib.rs", "foo", "bar")),
        (
            ErrorKind::Failed,
            "Edit found 3 matches for `old_string` in src/lib.rs (lines 2, 4, 5); it must be unique\n\
             give more surrounding lines, or set `replace_all`"
                .into()
        )
    );
    assert_eq!(room.content("src/lib.rs"), "x\nfoo\n\nfoo\nfoo\n");
    room.put("many", "a\n".repeat(40));
    let (_, words) = room.error("Edit", edit("many", "a", "b"));
    assert!(words.contains("(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 30 more)"), "{words}");
    let (_, words) = room.error("Edit", edit("many", "a\na", "b"));
    assert!(words.contains("39 matches"), "those that overlap are not unique either: {words}");
}

#[test]
fn no_match_is_an_error_that_shows_the_closest_place() {
    let room = Room::with(&[("f", "fn main() {\n\tlet a = 1;\n}\n")]);
    assert_eq!(
        room.error("Edit", edit("f", "    let a = 1;", "x")).1,
        "Edit found no match for `old_string` in f; line 2 matches but for white space:\n\tlet a = 1;\n\
         give it as it stands there"
    );
    assert!(room.error("Edit", edit("f", "zebra", "x")).1.contains("no line of it is there"));
}

#[test]
fn what_can_not_be_edited_is_said() {
    let room = Room::with(&[("main.rs", "text"), ("dir/x", "")]);
    room.put("bin", b"a\0b");
    let check = |input: Value, kind: ErrorKind, words: &str| {
        let said = room.error("Edit", input);
        assert_eq!(said.0, kind, "{said:?}");
        assert!(said.1.starts_with(words), "{said:?}");
    };
    check(
        edit("main.rs", "text", "text"),
        ErrorKind::InvalidInput,
        "`old_string` and `new_string` are the same",
    );
    check(
        edit("mian.rs", "a", "b"),
        ErrorKind::Failed,
        "`ROOM/mian.rs` does not exist; did you mean `main.rs`?",
    );
    check(edit("bin", "a", "b"), ErrorKind::Failed, "`bin` is a binary file, 3 bytes");
    let huge = fs::File::create(room.path("huge")).unwrap();
    huge.set_len(haft::limits::FILE_BYTES_MAX + 1).unwrap();
    check(
        edit("huge", "a", "b"),
        ErrorKind::Failed,
        "`huge` has 67108865 bytes; Edit changes files of at most 67108864",
    );
    check(edit("dir", "a", "b"), ErrorKind::Failed, "`ROOM/dir` is a directory");
    check(edit("main.rs", "", "b"), ErrorKind::Failed, "`old_string` is empty, and `main.rs` is not");
    check(edit("/etc/hostname", "a", "b"), ErrorKind::Denied, "Edit was denied");
}

#[test]
fn an_empty_old_text_creates_or_fills() {
    let room = Room::with(&[("empty", ""), ("marked", "\u{feff}")]);
    assert_eq!(room.text("Edit", edit("new/deep/f", "", "a\nb\n")), "created `new/deep/f`");
    assert_eq!(room.content("new/deep/f"), "a\nb\n");
    assert_eq!(room.text("Edit", edit("empty", "", "x\n")), "`empty` filled (+1 −0)");
    assert_eq!(room.content("empty"), "x\n");
    room.text("Edit", edit("marked", "", "x\n"));
    assert_eq!(room.content("marked"), "\u{feff}x\n");
}

#[test]
fn the_mode_stays_and_links_lead_to_their_target() {
    let room = Room::with(&[("run.sh", "old")]);
    fs::set_permissions(room.path("run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("run.sh", room.path("link")).unwrap();
    room.text("Edit", edit("link", "old", "new"));
    assert_eq!(room.content("run.sh"), "new");
    assert_eq!(fs::metadata(room.path("run.sh")).unwrap().mode() & 0o7777, 0o751);
    assert!(fs::symlink_metadata(room.path("link")).unwrap().is_symlink());
    let names: Vec<_> =
        fs::read_dir(room.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left behind: {names:?}");
}

#[test]
fn a_person_sees_the_lines_that_changed() {
    let room = Room::with(&[("f", "1\n2\n3\n4\n5\n6\n7\n8\nold\n10\n")]);
    let view = room.view("Edit", edit("f", "old", "new\nmore"));
    assert_eq!((view.title.as_str(), view.summary.as_deref()), ("f", Some("+2 −1")));
    let [ViewPart::Diff { path, lines }] = &view.body[..] else { panic!("{view:?}") };
    let shown: Vec<_> = lines.iter().map(|line| (line.change, line.number, line.text.as_str())).collect();
    assert_eq!(path, "f");
    assert_eq!(
        shown,
        [
            (LineChange::Same, 6, "6"),
            (LineChange::Same, 7, "7"),
            (LineChange::Same, 8, "8"),
            (LineChange::Removed, 9, "old"),
            (LineChange::Added, 9, "new"),
            (LineChange::Added, 10, "more"),
            (LineChange::Same, 11, "10"),
        ]
    );
    let input = edit("./f", "a\nb", "a\nc");
    let before = Edit::default().view(&CallStage::Use { input: &input, complete: true }).unwrap();
    assert_eq!((before.title.as_str(), before.summary.as_deref()), ("f", Some("+1 −1")));
    let half = json!({"file_path": "f"});
    assert!(Edit::default().view(&CallStage::Use { input: &half, complete: false }).is_some());
}

#[test]
fn it_reads_and_writes_the_file_and_nothing_else() {
    let input = EditInput {
        file_path: "f".into(),
        old_string: "a".into(),
        new_string: "b".into(),
        replace_all: None,
    };
    let effects = Edit::default().effects(&input);
    assert_eq!((effects.reads.len(), effects.writes.len(), effects.unknown), (1, 1, false));
    assert_eq!(effects.judge(&EffectFacts::unresolved()).class, ConcurrencyClass::WriteExclusive);
}

// What the session has seen of files.

fn read(room: &Room, path: &str) {
    room.text("Read", json!({ "file_path": path }));
}

const CHANGED: &str = "has changed on disk since it was read";

#[test]
fn a_file_that_changed_since_it_was_read_has_to_be_read_again() {
    let room = Room::with(&[("f", "one\ntwo\n")]);
    read(&room, "f");
    room.put("f", "one\ntwo\nthree\n");
    let (kind, words) = room.error("Edit", edit("f", "two", "2"));
    assert_eq!(kind, ErrorKind::Failed);
    assert_eq!(
        words,
        "`f` has changed on disk since it was read, and was not edited; read it again, then edit"
    );
    let several = json!({"file_path": "f", "edits": [{"old_string": "two", "new_string": "2"}]});
    assert!(room.error("MultiEdit", several).1.contains(CHANGED));
    let write = json!({"file_path": "f", "content": "lost"});
    assert!(room.error("Write", write).1.contains(CHANGED));
    assert_eq!(room.content("f"), "one\ntwo\nthree\n");
    read(&room, "f");
    assert_eq!(room.text("Edit", edit("f", "three", "3")), "`f` edited at line 3 (+1 −1)");
    assert_eq!(
        room.text("Edit", edit("f", "two", "2")),
        "`f` edited at line 2 (+1 −1)",
        "own edits are known"
    );
}

/// What the session itself left isn't read again for the next edit. That it is still that is found out all
/// the same, also where nothing but the bytes tells it.
#[test]
fn what_an_edit_left_is_believed_only_as_long_as_it_is_there() {
    let room = Room::with(&[("f", "one\ntwo\nkey\n")]);
    room.text("Edit", edit("f", "one", "1"));
    room.text("Edit", edit("f", "two", "2"));
    assert_eq!(room.content("f"), "1\n2\nkey\n");
    let dated = fs::metadata(room.path("f")).unwrap().modified().unwrap();
    fs::write(room.path("f"), "1\n3\nkey\n").unwrap();
    fs::File::options().write(true).open(room.path("f")).unwrap().set_modified(dated).unwrap();
    let (_, words) = room.error("Edit", edit("f", "key", "door"));
    assert!(words.contains(CHANGED), "{words}");
    assert_eq!(room.content("f"), "1\n3\nkey\n");
    read(&room, "f");
    // It was seen since, so what the edit left is not what is known.
    fs::write(room.path("f"), "1\n2\nkey\n").unwrap();
    let (_, words) = room.error("Edit", edit("f", "key", "door"));
    assert!(words.contains(CHANGED), "{words}");
    // What isn't found in what was left is looked for in what is there.
    read(&room, "f");
    room.text("Edit", edit("f", "key", "lock"));
    assert_eq!(room.error("Edit", edit("f", "key", "door")).0, ErrorKind::Failed);
    fs::write(room.path("f"), "1\n2\nkey!\n").unwrap();
    let (_, words) = room.error("Edit", edit("f", "key!", "door"));
    assert!(words.contains(CHANGED), "{words}");
    assert_eq!(room.content("f"), "1\n2\nkey!\n");
}

#[test]
fn a_write_over_a_file_that_changed_is_refused() {
    let write = |text: &str| json!({"file_path": "f", "content": text});
    let room = Room::with(&[("f", "old\n")]);
    room.text("Write", write("never read, so nobody is surprised\n"));
    room.text("Write", write("own writes are known\n"));
    room.put("f", "somebody else's\n");
    let (kind, words) = room.error("Write", write("lost\n"));
    assert_eq!(kind, ErrorKind::Failed);
    assert_eq!(
        words,
        "`f` has changed on disk since it was read, and was not written; read all of it again, then write what it \
         shall be"
    );
    assert_eq!(room.content("f"), "somebody else's\n");
    read(&room, "f");
    room.text("Write", write("now\n"));
    fs::remove_file(room.path("f")).unwrap();
    room.text("Write", write("there is nothing to lose\n"));
}

#[test]
fn a_touch_is_no_change_and_another_name_is_the_same_file() {
    let room = Room::with(&[("f", "one\n")]);
    read(&room, "f");
    room.age("f", 500);
    assert_eq!(room.text("Edit", edit("f", "one", "two")), "`f` edited at line 1 (+1 −1)");
    // Replaced by another file of the same content, as some editors do.
    room.put("g", "two\n");
    fs::rename(room.path("g"), room.path("f")).unwrap();
    assert!(!room.text("Edit", edit("f", "two", "three")).contains("had changed"));

    symlink("f", room.path("link")).unwrap();
    read(&room, "link");
    room.put("f", "other\n");
    assert!(room.error("Edit", edit("f", "three", "x")).1.contains(CHANGED));
}

#[test]
fn of_a_file_that_was_read_in_part_its_date_and_length_are_known() {
    let long = "line\n".repeat(5_000);
    let room = Room::with(&[("f", &long)]);
    room.age("f", 100);
    read(&room, "f");
    let write = json!({"file_path": "f", "content": "x"});
    room.put("f", "LINE\n".repeat(5_000));
    assert!(room.error("Write", write.clone()).1.contains(CHANGED));
    read(&room, "f");
    room.text("Write", write);
}

#[test]
fn a_page_does_not_make_the_rest_of_a_changed_file_known() {
    let page = |room: &Room, offset: u32, limit: u32| {
        room.text("Read", json!({"file_path": "f", "offset": offset, "limit": limit}));
    };
    let write = json!({"file_path": "f", "content": "x"});
    let room = Room::with(&[("f", "1\n2\n3\n")]);
    read(&room, "f");
    room.put("f", "1\n2\nforeign\n4\n");
    for (offset, limit) in [(1, 1), (4, 9), (2, 1)] {
        page(&room, offset, limit);
        assert!(room.error("Write", write.clone()).1.contains(CHANGED), "{offset}");
    }
    // Lines 1 and 2 were read; 3 and 4 follow them to the end.
    page(&room, 3, 9);
    room.text("Write", write.clone());
    room.put("f", "1\n2\n");
    read(&room, "f");
    room.age("f", 7);
    page(&room, 2, 1);
    room.text("Write", write.clone());
    // The end of a line that is too long for a page is found by asking for what follows it.
    room.put("f", "long".repeat(1_000_000));
    page(&room, 1, 1);
    assert!(room.error("Write", write.clone()).1.contains(CHANGED));
    assert!(room.error("Read", json!({"file_path": "f", "offset": 2})).1.contains("has 1 line"));
    room.text("Write", write);
}

#[test]
fn a_line_is_named_once_and_its_matches_counted() {
    let room = Room::with(&[("f", "aaa\nb\na\n")]);
    let (_, words) = room.error("Edit", edit("f", "a", "x"));
    assert!(words.contains("4 matches for `old_string` in f (lines 1 (3 times), 3);"), "{words}");
    let all = json!({"file_path": "f", "old_string": "a", "new_string": "x", "replace_all": true});
    assert_eq!(room.text("Edit", all), "`f` edited in 4 places, lines 1 (3 times), 3 (+2 −2)");
}

#[test]
fn line_ends_can_be_changed() {
    let room = Room::with(&[("f", "a\r\nb\r\n")]);
    let all = json!({"file_path": "f", "old_string": "\r\n", "new_string": "\n", "replace_all": true});
    assert_eq!(room.text("Edit", all), "`f` edited in 2 places, lines 1, 2 (+2 −2)");
    assert_eq!(room.content("f"), "a\nb\n");
}

#[test]
fn sessions_remember_for_themselves_and_agents_of_one_session_together() {
    let room = Room::with(&[("f", "one\n")]);
    read(&room, "f");
    room.put("f", "other\n");
    let other = Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(Workspace::new(room.path("")).unwrap())
        .permissions(PermissionRules::new().allow("Edit").unwrap())
        .build();
    let miss = edit("f", "one", "x");
    let words = |engine: &Engine| run(engine, "Edit", miss.clone()).error().unwrap().message().to_owned();
    assert!(words(room.engine()).contains(CHANGED));
    assert!(!words(&other).contains(CHANGED), "another session has not read it");
    let same_tools = room.builder().session_id("another").build();
    assert!(!words(&same_tools).contains(CHANGED), "also with the same tools");
}

#[test]
fn who_is_asked_sees_where_it_is_and_is_not_warned() {
    let room = Room::with(&[("f", "1\n2\n3\n4\n5\nold\n")]);
    let asked = room.asked("Edit", edit("f", "old", "new"));
    let [ViewPart::Diff { lines, .. }] = &asked.view.body[..] else { panic!("{asked:?}") };
    let shown: Vec<_> = lines.iter().map(|line| (line.number, line.text.as_str())).collect();
    assert_eq!(shown, [(3, "3"), (4, "4"), (5, "5"), (6, "old"), (6, "new")]);
    assert!(asked.warnings().is_empty() && asked.is_harmless(), "what it replaces stands in the call");
    // One that will fail shows what it says.
    let asked = room.asked("Edit", edit("f", "nowhere", "new"));
    assert!(matches!(&asked.view.body[..], [ViewPart::Diff { lines, .. }] if lines.len() == 2), "{asked:?}");
}

#[test]
fn nothing_beyond_ascii_is_put_into_a_file_of_another_encoding() {
    let latin = b"caf\xe9 cr\xe8me br\xfbl\xe9e d\xe9j\xe0 vu \xe9t\xe9\nline two\n";
    let room = Room::new();
    room.put("l1.txt", latin);
    let multi = json!({"file_path": "l1.txt", "edits": [{"old_string": "line two", "new_string": "ligne num\u{e9}rot\u{e9}e"}]});
    let patch =
        "*** Begin Patch\n*** Update File: l1.txt\n-line two\n+ligne num\u{e9}rot\u{e9}e\n*** End Patch";
    for (tool, input) in [
        ("Edit", edit("l1.txt", "line two", "ligne num\u{e9}rot\u{e9}e")),
        ("MultiEdit", multi),
        ("ApplyPatch", json!({"input": patch})),
    ] {
        let (_, words) = room.error(tool, input);
        let wanted = "`l1.txt` is in another encoding than UTF-8, and the new text has `\u{e9}`";
        assert!(words.starts_with(wanted) && words.contains(tool), "{words}");
        assert_eq!(room.bytes("l1.txt"), latin);
    }
    room.text("Edit", edit("l1.txt", "line two", "line 2"));
    assert_eq!(room.bytes("l1.txt")[..latin.len() - 4], [&latin[..latin.len() - 9], b"line "].concat()[..]);
    check(b"sch\xc3\xb6n \xff\nx\n", "x", "\u{fc}", b"sch\xc3\xb6n \xff\n\xc3\xbc\n");
}
