//! `Grep` through an engine, on real files.

use std::fs;
use std::os::unix::fs::symlink;

use haft::ErrorKind;
use serde_json::{Value, json};

use crate::room::{Room, make_pipe};

fn project() -> Room {
    Room::with(&[
        ("a.rs", "fn alpha() {}\nfn beta() {}\n// alpha again\n"),
        ("b.txt", "alpha in text\n"),
        ("src/c.rs", "use alpha;\n\n\n\nlast alpha line\n"),
        ("src/d.py", "def beta(): pass\n"),
        (".hidden", "alpha hidden\n"),
        (".git/config", "alpha git\n"),
    ])
}

/// The result of a search, lines joined by `|`.
#[track_caller]
fn check(input: Value, expected: &str) {
    check_in(&project(), input, expected);
}

#[track_caller]
fn check_in(room: &Room, input: Value, expected: &str) {
    let text = room.text("Grep", input.clone());
    assert_eq!(text.split('\n').collect::<Vec<_>>().join("|"), expected, "{input}");
}

#[test]
fn lines_stand_by_path_with_their_numbers() {
    check(
        json!({"pattern": "alpha", "output_mode": "content"}),
        ".hidden:1:alpha hidden|a.rs:1:fn alpha() {}|a.rs:3:// alpha again|b.txt:1:alpha in text|\
         src/c.rs:1:use alpha;|src/c.rs:5:last alpha line",
    );
    check(
        json!({"pattern": "alpha", "output_mode": "content", "-n": false, "glob": "*.rs"}),
        "a.rs:fn alpha() {}|a.rs:// alpha again|src/c.rs:use alpha;|src/c.rs:last alpha line",
    );
}

#[test]
fn counts_and_files_are_what_was_asked_for() {
    check(json!({"pattern": "alpha", "output_mode": "count"}), ".hidden:1|a.rs:2|b.txt:1|src/c.rs:2");
    let room = project();
    for (at, name) in ["src/c.rs", ".hidden", "b.txt", "a.rs"].into_iter().enumerate() {
        room.age(name, at as u64);
    }
    check_in(&room, json!({"pattern": "alpha"}), "src/c.rs|.hidden|b.txt|a.rs");
    room.age("b.txt", 0);
    check_in(&room, json!({"pattern": "alpha"}), "b.txt|src/c.rs|.hidden|a.rs");
}

#[test]
fn files_are_chosen_by_glob_type_and_path() {
    let files = |mut input: Value, expected: &str| {
        input["pattern"] = "alpha|beta".into();
        input["output_mode"] = "count".into();
        check(input, expected);
    };
    files(json!({"type": "rust"}), "a.rs:3|src/c.rs:2");
    files(json!({"type": "py"}), "src/d.py:1");
    files(json!({"glob": "*.{py,txt}"}), "b.txt:1|src/d.py:1");
    files(json!({"glob": "*.py,*.txt"}), "b.txt:1|src/d.py:1");
    files(json!({"glob": "*.py *.txt"}), "b.txt:1|src/d.py:1");
    files(json!({"glob": "!*.rs"}), ".hidden:1|b.txt:1|src/d.py:1");
    files(json!({"glob": "src/*.rs"}), "src/c.rs:2");
    files(json!({"glob": "src/*.rs", "path": "src"}), "src/c.rs:2");
    files(json!({"glob": "/c.rs", "path": "src"}), "src/c.rs:2");
    files(json!({"path": "src"}), "src/c.rs:2|src/d.py:1");
    files(json!({"path": "a.rs"}), "a.rs:3");
    files(json!({"path": "./src/../a.rs"}), "a.rs:3");
    files(json!({"path": "a.rs", "type": "py"}), "a.rs:3");
}

#[test]
fn context_is_shown_as_ripgrep_shows_it() {
    let around = |mut input: Value, expected: &str| {
        input["pattern"] = "beta|last".into();
        input["output_mode"] = "content".into();
        check(input, expected);
    };
    around(
        json!({"-A": 1, "type": "rust"}),
        "a.rs:2:fn beta() {}|a.rs-3-// alpha again|--|src/c.rs:5:last alpha line",
    );
    around(
        json!({"-B": 1}),
        "a.rs-1-fn alpha() {}|a.rs:2:fn beta() {}|--|src/c.rs-4-|src/c.rs:5:last alpha line|--|src/d.py:1:def beta(): pass",
    );
    let both = "a.rs-1-fn alpha() {}|a.rs:2:fn beta() {}|a.rs-3-// alpha again";
    around(json!({"-C": 1, "path": "a.rs"}), "1-fn alpha() {}|2:fn beta() {}|3-// alpha again");
    around(json!({"context": 1, "glob": "a.rs"}), both);
    around(json!({"context": 0, "-C": 1, "glob": "a.rs"}), both);
    around(json!({"-C": 1, "-A": 0, "glob": "a.rs"}), "a.rs-1-fn alpha() {}|a.rs:2:fn beta() {}");
    check(
        json!({"pattern": "alpha", "-C": 1, "output_mode": "content", "path": "src/c.rs"}),
        "1:use alpha;|2-|--|4-|5:last alpha line",
    );
    check(json!({"pattern": "beta", "-C": 5, "type": "py"}), "src/d.py");
}

#[test]
fn case_parts_and_lines_are_options() {
    check(
        json!({"pattern": "ALPHA", "path": "b.txt", "-i": true, "output_mode": "content"}),
        "1:alpha in text",
    );
    check(json!({"pattern": "ALPHA"}), "[no matches for `ALPHA`]");
    check(json!({"pattern": "al|in", "path": "b.txt", "-o": true, "output_mode": "content"}), "1:al|1:in");
    check(
        json!({"pattern": "fn \\w+.*?\\}\\n//", "multiline": true, "output_mode": "content", "glob": "a.rs"}),
        "a.rs:1:fn alpha() {}|a.rs:2:fn beta() {}|a.rs:3:// alpha again",
    );
    check(
        json!({"pattern": "beta.*?again", "multiline": true, "-o": true, "output_mode": "content", "glob": "a.rs"}),
        "a.rs:2:beta() {}|a.rs:3:// alpha again",
    );
    check(json!({"pattern": "a\\(\\)", "multiline": true, "output_mode": "count", "glob": "a.rs"}), "a.rs:2");
    check(json!({"pattern": "^last", "output_mode": "content", "-n": false}), "src/c.rs:last alpha line");
    check(json!({"pattern": "text$", "output_mode": "count"}), "b.txt:1");
}

#[test]
fn a_cut_result_says_how_to_go_on_and_its_parts_are_the_whole() {
    let page = |offset: u32, expected: &str| {
        let mut input =
            json!({"pattern": "alpha", "output_mode": "content", "head_limit": 2, "glob": "*.rs"});
        if offset > 0 {
            input["offset"] = offset.into();
        }
        check(input, expected);
    };
    page(0, "a.rs:1:fn alpha() {}|a.rs:3:// alpha again|[lines 1 to 2; more follow, go on with offset 2]");
    page(2, "src/c.rs:1:use alpha;|src/c.rs:5:last alpha line");
    page(3, "src/c.rs:5:last alpha line");
    page(4, "[there are 4 lines; an `offset` of 4 is beyond them]");
    let count = json!({"pattern": "alpha", "output_mode": "count", "head_limit": 1, "offset": 1});
    check(count, "a.rs:2|[files 2 to 2; more follow, go on with offset 2]");
    let room = project();
    ["a.rs", "b.txt", "src/c.rs", ".hidden"].into_iter().for_each(|name| room.age(name, 5));
    check_in(
        &room,
        json!({"pattern": "alpha", "head_limit": 1}),
        ".hidden|[files 1 to 1 of 4; more follow, go on with offset 1]",
    );
    check_in(&room, json!({"pattern": "alpha", "head_limit": 1, "offset": 3}), "src/c.rs");
    check_in(&room, json!({"pattern": "alpha", "head_limit": 0}), ".hidden|a.rs|b.txt|src/c.rs");
}

#[test]
fn pages_of_a_large_tree_are_the_same_as_all_of_it() {
    let room = Room::new();
    for n in 0..600 {
        let text: String = (0..n % 7).map(|line| format!("hit {n} {line}\n")).collect();
        room.put(&format!("d{}/e{}/f{n}", n % 9, n % 5), text);
    }
    let search = |input: Value| room.text("Grep", input);
    let all = search(json!({"pattern": "hit", "output_mode": "content", "head_limit": 0}));
    let all: Vec<&str> = all.lines().collect();
    assert_eq!(all.len(), (0..600).map(|n| n % 7).sum::<usize>());
    let (mut offset, mut paged) = (0, Vec::new());
    while offset < all.len() {
        let input = json!({"pattern": "hit", "output_mode": "content", "head_limit": 97, "offset": offset});
        let page = search(input);
        paged.extend(page.lines().filter(|line| !line.starts_with('[')).map(str::to_owned));
        offset += 97;
    }
    assert_eq!(paged, all, "whatever was skipped because enough was found");
    let first = search(json!({"pattern": "hit", "output_mode": "content"}));
    assert_eq!(first.lines().count(), 251);
    assert!(first.ends_with("[lines 1 to 250; more follow, go on with offset 250]"));
}

#[test]
fn ignored_files_are_left_out() {
    let room = Room::with(&[
        (".gitignore", "*.log\n/build/\n!keep.log\n"),
        ("a.log", "hit"),
        ("keep.log", "hit"),
        ("build/x", "hit"),
        ("src/build/x", "hit"),
        ("src/.gitignore", "!b.log\nlocal\n"),
        ("src/b.log", "hit"),
        ("src/local", "hit"),
        ("local", "hit"),
        (".ignore", "secret.txt\n"),
        ("secret.txt", "hit"),
        ("src/.rgignore", "!secret.txt\n"),
        ("src/secret.txt", "hit"),
        (".git/info/exclude", "excluded\n"),
        ("excluded", "hit"),
        ("sub/.git/HEAD", "hit"),
        ("sub/c.log", "hit"),
    ]);
    check_in(
        &room,
        json!({"pattern": "hit", "output_mode": "count"}),
        "keep.log:1|local:1|src/b.log:1|src/build/x:1|src/secret.txt:1|sub/c.log:1",
    );
    // The rules above the place that is searched hold there too.
    check_in(
        &room,
        json!({"pattern": "hit", "path": "src", "output_mode": "count"}),
        "src/b.log:1|src/build/x:1|src/secret.txt:1",
    );
    // What is asked for by name or by glob is searched.
    check_in(&room, json!({"pattern": "hit", "path": "build", "output_mode": "count"}), "build/x:1");
    check_in(&room, json!({"pattern": "hit", "path": "a.log"}), "a.log");
    check_in(&room, json!({"pattern": "hit", "glob": "a.log"}), "a.log");
}

#[test]
fn binary_files_links_and_pipes_are_left_out_of_a_walk() {
    let room = Room::new();
    room.put("bin", b"hit\0hit\n");
    room.put("late", [b"hit early\n".repeat(20_000), b"\0\n".to_vec(), b"hit late\n".to_vec()].concat());
    room.put("utf16", b"\xff\xfeh\0i\0t\0\n\0");
    room.put("real/f", "hit");
    room.put("latin1", b"caf\xe9 hit\n");
    symlink("real/f", room.path("link")).unwrap();
    symlink("real", room.path("dirlink")).unwrap();
    make_pipe(&room.path("pipe"));
    check_in(&room, json!({"pattern": "hit", "output_mode": "count"}), "latin1:1|real/f:1|utf16:1");
    check_in(
        &room,
        json!({"pattern": "hit", "output_mode": "content", "glob": "latin1"}),
        "latin1:1:caf� hit",
    );
    check_in(
        &room,
        json!({"pattern": "hit", "output_mode": "content", "path": "bin"}),
        "[bin is binary, and matches]",
    );
    check_in(&room, json!({"pattern": "hit", "path": "bin"}), "bin");
    check_in(&room, json!({"pattern": "hit", "path": "link", "output_mode": "content"}), "1:hit");
    check_in(
        &room,
        json!({"pattern": "hit", "path": "dirlink", "output_mode": "content"}),
        "dirlink/f:1:hit",
    );
    let (kind, words) = room.error("Grep", json!({"pattern": "hit", "path": "pipe"}));
    assert_eq!(
        (kind, words.as_str()),
        (ErrorKind::Failed, "`ROOM/pipe` is a pipe; only regular files can be read")
    );
    let late = room
        .text("Grep", json!({"pattern": "hit", "output_mode": "content", "glob": "late", "head_limit": 0}));
    assert!(
        late.ends_with("[late is binary further on; the rest is not searched]"),
        "{}",
        &late[late.len() - 200..]
    );
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let room = Room::new();
    room.put("min.js", format!("{}needle{}\n", "x".repeat(100_000), "y".repeat(100_000)));
    let text = room.text("Grep", json!({"pattern": "needle", "output_mode": "content"}));
    assert!(text.starts_with("min.js:1:…xxx") && text.contains("xneedley"), "{}", &text[..100]);
    assert!(text.ends_with("… [line cut: 500 of 200006 characters]"));
}

#[test]
fn what_makes_no_sense_is_invalid_and_says_where() {
    let room = project();
    for (input, words) in [
        (json!({"pattern": "a("}), "`pattern` is not a regular expression at character 2: unclosed group"),
        (json!({"pattern": "a", "type": "rustt"}), "`type` has no `rustt`; closest: `rust`"),
        (json!({"pattern": "a", "glob": "{a"}), "`glob` has `{a`, which is not understood"),
        (json!({"pattern": "a", "-A": 5000}), "`-A` is more than 1000 lines"),
        (json!({"pattern": "a\nb"}), "`pattern` has an end of line in it"),
        (json!({"pattern": "a", "path": ""}), "`path` is empty"),
    ] {
        let (kind, said) = room.error("Grep", input);
        assert_eq!(kind, ErrorKind::InvalidInput);
        assert!(said.starts_with(words), "{said}");
    }
    let (_, said) =
        room.error("Grep", json!({"pattern": "a", "output_mode": "lines", "-A": "x", "head_limit": -1}));
    assert!(["/output_mode", "/-A", "/head_limit"].iter().all(|place| said.contains(place)), "{said}");
    let (kind, said) = room.error("Grep", json!({"pattern": "a", "path": "scr"}));
    assert_eq!((kind, said.as_str()), (ErrorKind::Failed, "`ROOM/scr` does not exist; did you mean `src`?"));
    assert_eq!(room.error("Grep", json!({"pattern": "a", "path": "/etc"})).0, ErrorKind::Denied);
}

#[test]
fn a_person_sees_how_much_was_found() {
    let room = project();
    let shown = |input: Value| {
        let view = room.view("Grep", input);
        format!("{} · {}", view.title, view.summary.unwrap_or_default())
    };
    assert_eq!(shown(json!({"pattern": "alpha"})), "\"alpha\" · 4 files");
    assert_eq!(
        shown(json!({"pattern": "alpha", "path": "src", "output_mode": "content"})),
        "\"alpha\" in src · 2 matches in 1 file"
    );
    assert_eq!(
        shown(json!({"pattern": "alpha", "output_mode": "count"})),
        "\"alpha\" · 6 matches in 4 files"
    );
    assert_eq!(shown(json!({"pattern": "zzz"})), "\"zzz\" · no matches");
    assert!(shown(json!({"pattern": "a("})).contains("unclosed group"));
}

#[test]
fn a_session_in_a_part_of_a_repository_uses_the_rules_that_it_can_see() {
    let outer = Room::with(&[
        (".gitignore", "*.txt\n"),
        ("part/.gitignore", "*.log\n"),
        ("part/a.txt", "hit"),
        ("part/a.log", "hit"),
    ]);
    let workspace = haft::Workspace::new(outer.path("part")).unwrap();
    let engine = haft::Engine::builder(haft::Registry::new().with(haft_tools::core()).unwrap())
        .workspace(workspace)
        .build();
    let result = crate::room::run(&engine, "Grep", json!({"pattern": "hit"}));
    assert_eq!(result.outcome().unwrap().to_text(), "a.txt");
}

#[test]
fn what_is_too_much_for_a_search_is_said() {
    let room = Room::new();
    room.put("large", format!("hit {}\n", "x".repeat(440)).repeat(40_000));
    room.put("small", "hit\n");
    let result = room.call("Grep", json!({"pattern": "hit", "output_mode": "content", "head_limit": 0}));
    let kept = fs::read_to_string(result.offloaded_to().unwrap()).unwrap();
    let note = kept.lines().next_back().unwrap();
    assert!(note.starts_with("[lines 1 to 3"), "{note}");
    assert!(note.contains("more follow than fit here, narrow the search, or go on with offset 3"), "{note}");

    let room = Room::new();
    room.put("one_line", vec![b'x'; 17 * 1024 * 1024]);
    room.put("small", "x\n");
    let text = room.text("Grep", json!({"pattern": "x$", "output_mode": "count"}));
    assert!(
        text.starts_with(
            "small:1\n[1 place could not be looked at; the first: `ROOM/one_line` can't be searched"
        ),
        "{text}"
    );
}

/// Compares with the real program where there is one.
#[test]
fn it_finds_what_ripgrep_finds() {
    let rg = std::env::var_os("RG").unwrap_or_else(|| "rg".into());
    if std::process::Command::new(&rg).arg("--version").output().is_err() {
        println!("skipped: no ripgrep; `RG` may name one");
        return;
    }
    let room = Room::new();
    let words = ["alpha", "Beta", "gamma_1", "// TODO", "", "\tindented", "ünï", "x\u{0}y"];
    for n in 0..200_usize {
        let line = |at: usize| words[(n * 7 + at * at * 3) % if n % 40 == 0 { 8 } else { 7 }];
        let end = ["\n", "\r\n"][n / 3 % 2];
        let mut text = (0..n % 23).map(line).collect::<Vec<_>>().join(end);
        if n % 2 == 0 {
            text.push_str(end);
        }
        let kind = ["rs", "py", "log", "md", "tmp"][n % 5];
        room.put(&format!("d{}/{}e{}/f{n}.{kind}", n % 4, if n % 11 == 0 { "." } else { "" }, n % 3), text);
    }
    fs::create_dir(room.path(".git")).unwrap();
    room.put(".gitignore", "*.log\n!f2.log\n/d1/e2\n");
    room.put("d2/.ignore", "*.tmp\n!*.log\n");
    room.put("d3/.rgignore", "f*3.*\n");
    let table: &[(Value, &[&str])] = &[
        (json!({"pattern": "alpha"}), &["-l"]),
        (json!({"pattern": "beta", "-i": true, "output_mode": "content"}), &["-n", "-i"]),
        (json!({"pattern": "\\w+_\\d", "output_mode": "content", "-n": false}), &["-N"]),
        (json!({"pattern": "TODO", "output_mode": "content", "-A": 1, "-B": 2}), &["-n", "-A1", "-B2"]),
        (json!({"pattern": "ü|Beta", "output_mode": "content", "-C": 1}), &["-n", "-C1"]),
        (json!({"pattern": "a", "output_mode": "content", "-o": true}), &["-n", "-o"]),
        (json!({"pattern": "^$", "output_mode": "count"}), &["-c"]),
        (json!({"pattern": "a$", "output_mode": "count"}), &["-c"]),
        (json!({"pattern": ".", "output_mode": "count", "type": "rust"}), &["-c", "-trust"]),
        (json!({"pattern": ".", "output_mode": "count", "glob": "*.log"}), &["-c", "-g", "*.log"]),
        (json!({"pattern": ".", "output_mode": "count", "glob": "!d0/**"}), &["-c", "-g", "!d0/**"]),
        (
            json!({"pattern": "alpha\\s+Beta", "multiline": true, "output_mode": "content"}),
            &["-n", "-U", "--multiline-dotall"],
        ),
        (
            json!({"pattern": "\\s+", "multiline": true, "output_mode": "count"}),
            &["-c", "-U", "--multiline-dotall"],
        ),
        (
            json!({"pattern": "a\\s+\\S", "multiline": true, "-o": true, "output_mode": "content"}),
            &["-n", "-o", "-U", "--multiline-dotall"],
        ),
        (json!({"pattern": "x", "output_mode": "files_with_matches"}), &["-l"]),
    ];
    for (input, flags) in table {
        let mut all = input.clone();
        all["head_limit"] = 0.into();
        let ours = room.text("Grep", all);
        let output = std::process::Command::new(&rg)
            .args([
                "--no-config",
                "--hidden",
                "--crlf",
                "--no-require-git",
                "--no-ignore-global",
                "-g",
                "!.git",
                "--no-heading",
            ])
            .args(["--color", "never", "--sort", "path"])
            .args(*flags)
            .args(["-e", input["pattern"].as_str().unwrap(), "."])
            .current_dir(room.path(""))
            .output()
            .unwrap();
        let theirs = String::from_utf8_lossy(&output.stdout).replace("./", "").replace('\r', "");
        let words = |line: &&str| !line.starts_with('[') && !line.contains("binary");
        let (mut ours, mut theirs): (Vec<&str>, Vec<&str>) =
            (ours.lines().filter(words).collect(), theirs.lines().filter(words).collect());
        if input.get("output_mode").is_none_or(|mode| mode == "files_with_matches") {
            ours.sort_unstable();
            theirs.sort_unstable();
        }
        assert_eq!(ours, theirs, "{input}");
    }
}

#[test]
fn the_end_of_a_line_is_before_a_carriage_return_too() {
    let room = Room::with(&[("dos", "abc\r\nabcd\r\n"), ("unix", "abc\nabcd\n")]);
    let lines = |input: Value| room.text("Grep", input).replace('\n', "|");
    let content = |pattern: &str| lines(json!({"pattern": pattern, "output_mode": "content"}));
    assert_eq!(content("abc$"), "dos:1:abc|unix:1:abc");
    assert_eq!(content("^abcd$"), "dos:2:abcd|unix:2:abcd");
    assert_eq!(content("c\\r$"), "dos:1:abc", "one who looks for it finds it");
    let only = json!({"pattern": "b.*$", "output_mode": "content", "-o": true});
    assert_eq!(lines(only), "dos:1:bc|dos:2:bcd|unix:1:bc|unix:2:bcd");
    let multi = json!({"pattern": "abc$.*abcd$", "multiline": true, "output_mode": "count"});
    assert_eq!(lines(multi), "dos:1|unix:1");
}

#[test]
fn a_line_that_is_too_long_is_said_in_words() {
    let room = Room::with(&[("a", "hit\n"), ("long", &"x".repeat(17 * 1024 * 1024))]);
    let words = "`ROOM/long` can't be searched: it has a line of more than 16777216 bytes";
    let (_, said) = room.error("Grep", json!({"pattern": "hit", "path": "long"}));
    assert_eq!(said, words);
    let note = format!("[1 place could not be looked at; the first: {words}]");
    assert_eq!(room.text("Grep", json!({"pattern": "hit"})), format!("a\n{note}"));
}

#[test]
fn a_glob_may_be_absolute() {
    let room = project();
    for (path, glob) in [(".", "src/c.rs"), ("src", "src/*.rs"), (".", "!{b.txt,src/d.py,a.rs,.hidden}")] {
        let (not, plain) = glob.strip_prefix('!').map_or(("", glob), |plain| ("!", plain));
        let glob = format!("{not}{}/{plain}", room.real());
        check_in(&room, json!({"pattern": "alpha", "path": path, "glob": glob}), "src/c.rs");
    }
}
