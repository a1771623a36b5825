//! `Glob` through an engine, on real files.

use std::fs;
use std::os::unix::fs::symlink;

use haft::effects::table::{ConcurrencyClass, EffectFacts};
use haft::{ErrorKind, Tool as _};
use serde_json::json;

use crate::room::{Room, make_pipe};
use haft_tools::glob::*;

/// A small project. All files have the same age, so they stand by path.
fn project() -> Room {
    let files =
        ["a.rs", "b.txt", "src/lib.rs", "src/deep/x.rs", "src/deep/y.py", ".hidden/h.rs", ".git/config"];
    let room = Room::new();
    for name in files {
        room.put(name, "x");
        room.age(name, 10);
    }
    room
}

#[track_caller]
fn check(pattern: &str, expected: &str) {
    let text = project().text("Glob", json!({ "pattern": pattern }));
    assert_eq!(text.split('\n').collect::<Vec<_>>().join(" "), expected, "{pattern}");
}

#[test]
fn patterns_find_what_they_say() {
    check("**/*.rs", ".hidden/h.rs a.rs src/deep/x.rs src/lib.rs");
    check("**/*", ".hidden/h.rs a.rs b.txt src/deep/x.rs src/deep/y.py src/lib.rs");
    check("*", "a.rs b.txt");
    check("*.{rs,txt}", "a.rs b.txt");
    check("?.rs", "a.rs");
    check("[ab].*", "a.rs b.txt");
    check("[!a].*", "b.txt");
    check("src/*", "src/lib.rs");
    check("src/**", "src/deep/x.rs src/deep/y.py src/lib.rs");
    check("src/", "src/deep/x.rs src/deep/y.py src/lib.rs");
    check("./src/*.rs", "src/lib.rs");
    check("s*/*/x.rs", "src/deep/x.rs");
    check("{src/deep,src}/*.rs", "src/deep/x.rs src/lib.rs");
    check("src/deep/x.rs", "src/deep/x.rs");
    check("**/deep/*", "src/deep/x.rs src/deep/y.py");
    check("**", ".hidden/h.rs a.rs b.txt src/deep/x.rs src/deep/y.py src/lib.rs");
}

#[test]
fn nothing_is_an_answer_and_says_what_would_find_more() {
    check(
        "*.py",
        "[no file matches `*.py` in the working directory itself; `**/*.py` looks in all directories below]",
    );
    check("nowhere/*.rs", "[no file matches `nowhere/*.rs` in the working directory]");
    check("**/*.zig", "[no file matches `**/*.zig` in the working directory]");
    check("b.txt/*", "[no file matches `b.txt/*` in the working directory]");
}

#[test]
fn the_newest_come_first_and_not_more_than_a_hundred() {
    let room = Room::new();
    for n in 0..130 {
        room.put(&format!("f{n:03}"), "x");
        room.age(&format!("f{n:03}"), if n < 3 { 1 } else { 1_000 - n });
    }
    let text = room.text("Glob", json!({"pattern": "*"}));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..5], ["f000", "f001", "f002", "f129", "f128"], "by age, then by path");
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[100], "[the 100 newest of 130 files; a narrower pattern or `path` shows others]");
    assert_eq!(room.view("Glob", json!({"pattern": "*"})).summary.as_deref(), Some("130 files"));
}

#[test]
fn the_place_may_be_given_in_every_way() {
    let room = project();
    let find = |input| room.text("Glob", input);
    assert_eq!(find(json!({"pattern": "*.rs", "path": "src"})), "src/lib.rs");
    assert_eq!(find(json!({"pattern": "*.rs", "path": format!("{}/src", room.real())})), "src/lib.rs");
    assert_eq!(find(json!({"pattern": format!("{}/src/*.rs", room.real())})), "src/lib.rs");
    assert_eq!(find(json!({"pattern": "../a.rs", "path": "src"})), "a.rs");
    assert_eq!(find(json!({"pattern": "config", "path": ".git"})), ".git/config", "if it is asked for");
    let refused = |input| room.error("Glob", input);
    assert_eq!(
        refused(json!({"pattern": "*", "path": "a.rs"})),
        (ErrorKind::Failed, "`a.rs` is not a directory; give the directory to look in".into())
    );
    assert_eq!(
        refused(json!({"pattern": "*", "path": "scr"})),
        (ErrorKind::Failed, "`ROOM/scr` does not exist; did you mean `src`?".into())
    );
    assert_eq!(refused(json!({"pattern": "../*"})).0, ErrorKind::Denied);
    assert_eq!(refused(json!({"pattern": "/etc/*"})).0, ErrorKind::Denied);
}

#[test]
fn what_makes_no_sense_is_said_before_anything_runs() {
    let room = Room::new();
    for (pattern, words) in [
        ("", "`pattern` is empty; `**/*` is every file"),
        ("[a", "`pattern` is not understood: unclosed character class; missing ']'"),
        ("{a", "`pattern` is not understood: unclosed alternate group"),
        ("**/../x", "`..` in `pattern` must come before the first wildcard"),
        ("{/etc,src}/*", "`{…}` at the beginning of `pattern` has a part"),
        ("{src,{..,x}}/*", "`{…}` at the beginning of `pattern` has a part"),
        ("a\0", "`pattern` contains a NUL byte"),
    ] {
        let (kind, said) = room.error("Glob", json!({ "pattern": pattern }));
        assert_eq!(kind, ErrorKind::InvalidInput, "{pattern}");
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn links_pipes_and_what_they_lead_to_are_no_files() {
    let room = Room::with(&[("real/f.txt", "x")]);
    symlink("real", room.path("dirlink")).unwrap();
    symlink("real/f.txt", room.path("filelink.txt")).unwrap();
    symlink("..", room.path("real/up")).unwrap();
    make_pipe(&room.path("pipe.txt"));
    assert_eq!(room.text("Glob", json!({"pattern": "**/*.txt"})), "real/f.txt");
    assert_eq!(
        room.text("Glob", json!({"pattern": "*", "path": "dirlink"})),
        "dirlink/f.txt",
        "a link that is named and stays inside is followed"
    );
}

#[test]
fn a_directory_that_may_not_be_read_is_said_and_the_rest_is_found() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::with(&[("a.txt", "x"), ("shut/b.txt", "x")]);
    fs::set_permissions(room.path("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    let text = room.text("Glob", json!({"pattern": "**/*.txt"}));
    fs::set_permissions(room.path("shut"), fs::Permissions::from_mode(0o700)).unwrap();
    // Who may read everything sees no difference.
    if !text.contains("b.txt") {
        let note = "[1 place could not be looked at; the first: `ROOM/shut` can't be read: its permissions don't allow it]";
        assert_eq!(text, format!("a.txt\n{note}"));
    }
}

#[test]
fn it_declares_where_the_pattern_begins_and_nothing_else() {
    let base = |pattern: &str, path: Option<&str>| {
        let input = GlobInput { pattern: pattern.into(), path: path.map(Into::into) };
        let effects = Glob.effects(&input);
        assert_eq!(
            haft::tool::ListedClass::from(effects.judge(&EffectFacts::unresolved()).class),
            ConcurrencyClass::ReadOnly.into()
        );
        effects.reads[0].path.display().to_string()
    };
    assert_eq!(base("**/*.rs", None), ".");
    assert_eq!(base("src/a/*.rs", None), "./src/a");
    assert_eq!(base("/x/y/*/z", Some("ignored")), "/x/y");
    assert_eq!(base("a/*.rs", Some("/w")), "/w/a");
}

#[test]
fn braces_in_the_middle_may_have_a_slash() {
    let room = Room::with(&[("src/a.rs", ""), ("src/sub/b.rs", ""), ("..c", "")]);
    let found = room.text("Glob", json!({"pattern": "src{,/sub}/*.rs"}));
    assert_eq!(found.lines().count(), 2, "{found}");
    assert_eq!(room.text("Glob", json!({"pattern": "{..c,x}"})), "..c");
}

#[test]
fn names_that_no_call_can_give_are_said_to_be() {
    use std::os::unix::ffi::OsStrExt as _;
    let room = Room::new();
    fs::write(room.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    let note = "[1 name is not UTF-8 and shown with �; no call can name such a file]";
    assert_eq!(room.text("Glob", json!({"pattern": "*"})), format!("caf�\n{note}"));
    assert_eq!(room.text("Grep", json!({"pattern": "x"})), format!("caf�\n{note}"));
}
