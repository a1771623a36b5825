//! `Read` through an engine, on real files.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::effects::table::EffectFacts;
use haft::files::{
    Bytes, DirEntry, DirFiles, FileError, FileMetadata, Files, GrantedAccess, OpenDir, OpenFile, WriteMode,
    WriteOutcome,
};
use haft::future::BoxFuture;
use haft::ports::PermissionMode;
use haft::{Engine, EngineBuilder, ErrorKind, PermissionRules, Registry, ToolCall, ToolResult, Workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::text::{CHUNK_BYTES, LINE_CHARS, PAGE_CHARS_MAX, SKIP_BYTES};
use super::*;

/// A folder to read in.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> TestFolder {
        TestFolder(tempfile::tempdir().unwrap())
    }

    fn with(name: &str, bytes: impl AsRef<[u8]>) -> TestFolder {
        let room = TestFolder::new();
        fs::write(room.0.path().join(name), bytes).unwrap();
        room
    }

    fn engine(&self) -> EngineBuilder {
        let workspace = Workspace::new(self.0.path()).unwrap();
        Engine::builder(Registry::new().with(Read::default()).unwrap()).workspace(workspace)
    }

    fn read(&self, input: Value) -> ToolResult {
        run(self.engine().build(), input)
    }

    #[track_caller]
    fn text(&self, input: Value) -> String {
        let result = self.read(input);
        result.outcome().unwrap().to_text()
    }

    #[track_caller]
    fn error(&self, input: Value) -> (ErrorKind, String) {
        let result = self.read(input);
        let error = result.outcome().unwrap_err();
        (error.kind(), error.message().replace(&self.real(), "ROOM"))
    }

    fn real(&self) -> String {
        self.0.path().canonicalize().unwrap().display().to_string()
    }
}

fn run(engine: Engine, input: Value) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(engine.turn().run([ToolCall::new("1", "Read", input)])).remove(0)
}

/// What a whole file of these bytes is shown as.
#[track_caller]
fn check(bytes: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(TestFolder::with("f", bytes).text(json!({"file_path": "f"})), expected);
}

/// What a file of these bytes is refused with.
#[track_caller]
fn refuse(bytes: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(
        TestFolder::with("f", bytes).error(json!({"file_path": "f"})),
        (ErrorKind::Failed, expected.to_owned())
    );
}

#[test]
fn lines_have_numbers() {
    check("one\ntwo\n", "1\tone\n2\ttwo");
    check("one\ntwo", "1\tone\n2\ttwo");
    check("\n\nx\n\n", "1\t\n2\t\n3\tx\n4\t");
    check("a\r\nb\r\n", "1\ta\n2\tb");
    check("a\rb\r\r\n", "1\ta\rb\r");
    check("\u{feff}a\n", "1\ta");
    check("tab\there\n", "1\ttab\there");
    check("日本語\n🙂\n", "1\t日本語\n2\t🙂");
}

/// Several lines are looked at together, and where such a look ends differs: in a line, in a character, at
/// the end of what was read at once.
#[test]
fn lines_are_the_same_wherever_a_look_at_them_ends() {
    let lengths = [0, 1, 63, 64, 65, 700, LINE_CHARS / 4 - 1];
    for unit in ["a", "\u{e9}", "\u{20ac}", "a\t", "x\u{1f600}"] {
        for end in ["\n", "\r\n"] {
            let (mut text, mut expected) = (String::new(), Vec::new());
            for at in 0..400 {
                let line = unit.repeat(lengths[at % lengths.len()]);
                text.push_str(&format!("{line}{end}"));
                expected.push(format!("{}\t{line}", at + 1));
            }
            assert!(text.len() > CHUNK_BYTES);
            check(&text, &expected.join("\n"));
        }
    }
}

#[test]
fn an_empty_file_says_so() {
    check("", "[`f` is empty: it has no lines]");
    check("\u{feff}", "[`f` is empty: it has no lines]");
    check("\n", "1\t");
}

#[test]
fn a_part_is_read_and_says_how_to_go_on() {
    let room = TestFolder::with("f", "a\nb\nc\nd\n");
    let check = |offset: u32, limit: u32, expected: &str| {
        assert_eq!(room.text(json!({"file_path": "f", "offset": offset, "limit": limit})), expected);
    };
    check(1, 4, "1\ta\n2\tb\n3\tc\n4\td");
    check(2, 2, "2\tb\n3\tc\n[lines 2 to 3 of a file of 8 bytes; more follow, read on with offset 4]");
    check(4, 1, "4\td");
    check(3, 100, "3\tc\n4\td");
}

#[test]
fn an_offset_beyond_the_end_says_how_many_lines_there_are() {
    let beyond = |bytes: &str, offset: u32| {
        TestFolder::with("f", bytes).error(json!({"file_path": "f", "offset": offset})).1
    };
    assert_eq!(beyond("a\nb\n", 3), "`f` has 2 lines; an `offset` of 3 is beyond its end");
    assert_eq!(beyond("a\nb", 900), "`f` has 2 lines; an `offset` of 900 is beyond its end");
    assert_eq!(beyond("a", 2), "`f` has 1 line; an `offset` of 2 is beyond its end");
    let room = TestFolder::with("f", "x\n".repeat(300_000));
    let (_, words) = room.error(json!({"file_path": "f", "offset": 300_001}));
    assert_eq!(words, "`f` has 300000 lines; an `offset` of 300001 is beyond its end");
    assert_eq!(room.text(json!({"file_path": "f", "offset": 300_000})), "300000\tx");
}

#[test]
fn two_thousand_lines_are_a_page() {
    let room = TestFolder::with("f", (1..=2001).map(|n| format!("line {n}\n")).collect::<String>());
    let text = room.text(json!({"file_path": "f"}));
    assert_eq!(text.lines().count(), 2001);
    assert_eq!(
        text.lines().next_back(),
        Some("[lines 1 to 2000 of a file of 18903 bytes; more follow, read on with offset 2001]")
    );
    assert_eq!(room.text(json!({"file_path": "f", "offset": 2001})), "2001\tline 2001");
    assert_eq!(room.text(json!({"file_path": "f", "limit": 5000})).lines().count(), 2001, "all of them");
}

#[test]
fn input_of_the_wrong_shape_is_told_apart_from_input_without_sense() {
    let room = TestFolder::with("f", "a\n");
    let kinds = |input: Value| {
        let result = room.read(input);
        let error = result.error().expect("an error").clone();
        (error.kind(), error.is_semantic(), error.message().to_owned())
    };
    for (input, place) in [
        (json!({}), "/file_path"),
        (json!({"file_path": 5}), "/file_path"),
        (json!({"file_path": "f", "offset": 0}), "/offset"),
        (json!({"file_path": "f", "limit": 0}), "/limit"),
        (json!({"file_path": "f", "limit": -1}), "/limit"),
        (json!({"file_path": "f", "lines": 3}), "/lines"),
    ] {
        let (kind, semantic, words) = kinds(input.clone());
        assert_eq!((kind, semantic), (ErrorKind::InvalidInput, false), "{input}");
        assert!(words.contains(place), "{input}: {words}");
    }
    for (path, words) in [("", "`file_path` is empty"), ("a\0b", "`file_path` contains a NUL byte")] {
        let (kind, semantic, said) = kinds(json!({"file_path": path}));
        assert_eq!((kind, semantic), (ErrorKind::InvalidInput, true));
        assert!(said.starts_with(words), "{said}");
    }
    assert_eq!(room.text(json!({"file_path": "f", "offset": 1, "limit": 1})), "1\ta");
    assert_eq!(room.text(json!({"file_path": "f", "offset": null})), "1\ta");
}

#[test]
fn paths_are_relative_to_the_working_directory_or_absolute() {
    let room = TestFolder::new();
    fs::create_dir(room.0.path().join("sub")).unwrap();
    fs::write(room.0.path().join("sub/f"), "x").unwrap();
    let absolute = format!("{}/sub/f", room.real());
    for path in ["sub/f", "./sub/f", "sub/../sub/f", &absolute] {
        assert_eq!(room.text(json!({"file_path": path})), "1\tx", "{path}");
    }
}

#[test]
fn a_missing_file_is_answered_with_names_like_it() {
    let room = TestFolder::with("main.rs", "fn main() {}");
    fs::create_dir(room.0.path().join("src")).unwrap();
    fs::write(room.0.path().join("src/lib.rs"), "").unwrap();
    std::os::unix::fs::symlink("nowhere", room.0.path().join("broken")).unwrap();
    let check = |path: &str, expected: &str| {
        let (kind, words) = room.error(json!({"file_path": path}));
        assert_eq!((kind, words.as_str()), (ErrorKind::Failed, expected));
    };
    check("mian.rs", "`ROOM/mian.rs` does not exist; did you mean `main.rs`?");
    check("src/lib.py", "`ROOM/src/lib.py` does not exist; did you mean `src/lib.rs`?");
    check("scr/lib.rs", "`ROOM/scr/lib.rs` does not exist; there is no directory `scr`; did you mean `src`?");
    check("zebra", "`ROOM/zebra` does not exist; relative paths are taken from `ROOM`");
    check("broken", "`ROOM/broken` does not exist; it is a link to something that does not exist");
    check("~/notes", "`ROOM/~/notes` does not exist; `~` is not expanded, give the absolute path");
    assert!(room.text(json!({"file_path": "main.rs"})).contains("fn main"));
}

#[test]
fn only_files_are_read() {
    let room = TestFolder::with("file", "x");
    fs::create_dir(room.0.path().join("dir")).unwrap();
    make_pipe(&room.0.path().join("pipe"));
    let check = |path: &str, expected: &str| {
        let (kind, words) = room.error(json!({"file_path": path}));
        assert_eq!((kind, words.as_str()), (ErrorKind::Failed, expected));
    };
    for path in ["dir", "dir/", "./dir//"] {
        let listed = room.text(json!({"file_path": path}));
        assert!(listed.starts_with("[`dir` is a directory with "), "{listed}");
    }
    check("pipe", "`ROOM/pipe` is a pipe; only regular files can be read");
    assert_eq!(room.text(json!({"file_path": "file"})), "1\tx");
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn what_lies_outside_needs_a_yes() {
    let (room, other) = (TestFolder::new(), TestFolder::with("f", "secret"));
    let path = format!("{}/f", other.real());
    let (kind, words) = room.error(json!({"file_path": path}));
    assert_eq!(kind, ErrorKind::Denied);
    assert!(!words.contains("secret"));
    let bypass = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let result = run(room.engine().permissions(bypass).build(), json!({"file_path": path}));
    assert_eq!(result.outcome().unwrap().to_text(), "1\tsecret");
}

#[test]
fn long_lines_are_cut_in_place() {
    let full = "x".repeat(LINE_CHARS);
    check(format!("{full}\nb\n"), &format!("1\t{full}\n2\tb"));
    check(format!("{full}\r\nb\n"), &format!("1\t{full}\n2\tb"));
    check(format!("{full}x\nb\n"), &format!("1\t{full}… [line cut: 2000 of 2001 characters]\n2\tb"));
    let wide = "🙂".repeat(LINE_CHARS);
    check(&wide, &format!("1\t{wide}"));
    check(format!("{wide}🙂"), &format!("1\t{wide}… [line cut: 2000 of 2001 characters]"));
    let chunks = "é".repeat(100_000);
    let shown = "é".repeat(LINE_CHARS);
    check(
        format!("a\n{chunks}\nb"),
        &format!("1\ta\n2\t{shown}… [line cut: 2000 of 100000 characters]\n3\tb"),
    );
}

#[test]
fn binary_files_are_refused_with_size_and_kind() {
    refuse(b"ab\0cd", "`f` is a binary file, 5 bytes; Read shows text, pictures and PDF");
    refuse(
        b"PK\x03\x04\x14\0",
        "`f` is a ZIP archive (or an office document), 6 bytes; Read shows text, pictures and PDF",
    );
    refuse(
        b"\xff\xfe\0\0a\0\0\0",
        "`f` is text in UTF-32, 8 bytes; Read shows text, pictures and PDF; convert it to UTF-8 first",
    );
    let noise: Vec<u8> = (1..=255).chain((1..=255).rev()).collect();
    for bytes in [&noise[..], "\u{1}\u{2}".repeat(255).as_bytes()] {
        refuse(
            bytes,
            "`f` is not text that can be decoded, 510 bytes; Read shows text, pictures and PDF; if it is text, convert it to \
             UTF-8 first",
        );
    }
    check("GIF89a is a format\n", "1\tGIF89a is a format");
    check("\u{1b}[31mred\u{1b}[0m\n", "1\t\u{1b}[31mred\u{1b}[0m");
}

#[test]
fn a_few_wrong_bytes_are_shown_and_said_to_be() {
    check(
        b"caf\xc3\xa9 au lait\nbien s\xfbr\n",
        "1\tcafé au lait\n2\tbien s�r\n[this page has bytes that are not UTF-8, shown as �]",
    );
    let mut late = "text\n".repeat(4_000).into_bytes();
    late.extend(b"a\0b\n");
    let room = TestFolder::with("f", &late);
    assert_eq!(
        room.text(json!({"file_path": "f", "offset": 4001})),
        "4001\ta␀b\n[this page has NUL bytes, shown as ␀]"
    );
    let first = room.text(json!({"file_path": "f"}));
    assert!(first.ends_with("read on with offset 2001]"), "the words on how to go on come last");
}

#[test]
fn a_file_that_turns_binary_is_refused_from_there_on() {
    let mut bytes = "#!/bin/sh\n".repeat(2_000).into_bytes();
    bytes.extend((0..50_000u32).flat_map(|n| [0x90, 0, (n % 251) as u8 | 0x80, b'\n']));
    let room = TestFolder::with("f", &bytes);
    assert!(room.text(json!({"file_path": "f"})).starts_with("1\t#!/bin/sh"));
    let (_, words) = room.error(json!({"file_path": "f", "offset": 2001}));
    assert!(words.starts_with("`f` is not text from line 2001 on"), "{words}");
}

#[test]
fn pages_are_bounded_and_together_give_the_file() {
    let line = |n: usize| format!("{n} {}", "y".repeat(n % 1_900));
    let lines: Vec<String> = (1..=1_500).map(line).collect();
    let room = TestFolder::with("f", lines.join("\n"));
    let (mut offset, mut pages, mut all) = (1, 0, Vec::new());
    loop {
        let text = room.text(json!({"file_path": "f", "offset": offset}));
        assert!(text.chars().count() <= haft::limits::TURN_CHARS);
        pages += 1;
        let more = text.lines().next_back().and_then(|last| last.strip_suffix(']')?.rsplit_once("offset "));
        let shown = text.lines().filter(|line| !line.starts_with('['));
        all.extend(shown.map(|line| line.split_once('\t').unwrap().1.to_owned()));
        match more {
            Some((words, next)) => {
                assert!(words.contains("this page is full, read on with "), "{words}");
                offset = next.parse().unwrap();
            }
            None => break,
        }
    }
    assert_eq!(all, lines);
    assert!((3..10).contains(&pages), "{pages}");
}

/// The disk, with every byte counted.
struct CountingFiles(DirFiles, Arc<AtomicUsize>);

impl Files for CountingFiles {
    fn open<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenFile>, FileError>> {
        Box::pin(async move {
            let file = self.0.open(access, path).await?;
            Ok(Box::new(CountingFile(file, self.1.clone())) as Box<dyn OpenFile>)
        })
    }
    fn metadata<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
    ) -> BoxFuture<'a, Result<FileMetadata, FileError>> {
        self.0.metadata(a, p)
    }
    fn list<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
    ) -> BoxFuture<'a, Result<Vec<DirEntry>, FileError>> {
        self.0.list(a, p)
    }
    fn open_dir<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenDir>, FileError>> {
        self.0.open_dir(a, p)
    }
    fn write<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
        bytes: &'a [u8],
        how: WriteMode,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        self.0.write(a, p, bytes, how)
    }
    fn swap<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
        old: Bytes,
        new: Bytes,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        self.0.swap(a, p, old, new)
    }
    fn remove<'a>(
        &'a self,
        a: &'a GrantedAccess,
        p: &'a Path,
        old: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        self.0.remove(a, p, old)
    }
    fn rename<'a>(
        &'a self,
        a: &'a GrantedAccess,
        from: &'a Path,
        to: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        self.0.rename(a, from, to)
    }
    fn create_dir<'a>(&'a self, a: &'a GrantedAccess, p: &'a Path) -> BoxFuture<'a, Result<(), FileError>> {
        self.0.create_dir(a, p)
    }
}

struct CountingFile(Box<dyn OpenFile>, Arc<AtomicUsize>);

impl OpenFile for CountingFile {
    fn metadata(&self) -> &FileMetadata {
        self.0.metadata()
    }
    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async move {
            let bytes = self.0.read(max).await?;
            self.1.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(bytes)
        })
    }
    fn seek(&mut self, offset: u64) {
        self.0.seek(offset);
    }
}

/// Reads and returns the text and how many bytes of the file that took.
fn counted(room: &TestFolder, input: Value) -> (String, usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::new(CountingFiles(DirFiles::new(), count.clone()));
    let result = run(room.engine().ports(|ports| ports.files = counting).build(), input);
    (result.outcome().unwrap().to_text(), count.load(Ordering::Relaxed))
}

#[test]
fn no_more_is_read_than_is_shown() {
    let room = TestFolder::new();
    let line = |n: usize| format!("{n:07} {}\n", "z".repeat(92));
    let path = room.0.path().join("f");
    fs::write(&path, (1..=20_000).map(line).collect::<String>()).unwrap();
    // The rest of 100 MB is a hole: whoever reads it would see NUL bytes.
    fs::File::options().write(true).open(&path).unwrap().set_len(100_000_000).unwrap();

    let (text, bytes) = counted(&room, json!({"file_path": "f"}));
    assert_eq!(text.lines().count(), 2_001);
    assert!(bytes < 202_000 + CHUNK_BYTES, "{bytes}");

    let (text, bytes) = counted(&room, json!({"file_path": "f", "limit": 1}));
    assert!(text.starts_with("1\t0000001"), "{text}");
    assert!(bytes <= CHUNK_BYTES, "{bytes}");

    let (text, bytes) = counted(&room, json!({"file_path": "f", "offset": 10_001, "limit": 10}));
    assert!(text.starts_with("10001\t0010001"), "{text}");
    assert!(bytes < 1_010_000 + SKIP_BYTES, "what lies before is read, and one chunk: {bytes}");
}

#[test]
fn very_long_lines_do_not_make_a_page_read_without_end() {
    let room = TestFolder::new();
    let path = room.0.path().join("f");
    let mut bytes = format!("{}\n", "w".repeat(60_000)).repeat(50).into_bytes();
    fs::write(&path, &bytes).unwrap();
    let (text, read) = counted(&room, json!({"file_path": "f"}));
    assert!(read < 1_000_000, "{read}");
    assert!(
        text.ends_with("what may follow that line is read with offset 15]"),
        "{}",
        &text[text.len() - 100..]
    );
    assert!(text.contains("[line cut: 2000 of 60000 characters]"));
    assert!(text.contains("[line cut: 2000 of more than "));

    bytes = vec![b'w'; 3_000_000];
    fs::write(&path, &bytes).unwrap();
    let (text, read) = counted(&room, json!({"file_path": "f"}));
    assert!(read < 1_000_000, "{read}");
    assert!(text.contains("… [line cut: 2000 of more than 7"), "{}", &text[2_000..]);
    let (_, words) = room.error(json!({"file_path": "f", "offset": 2}));
    assert_eq!(words, "`f` has 1 line; an `offset` of 2 is beyond its end");
}

#[test]
fn a_person_sees_the_path_and_what_came_of_it() {
    let room = TestFolder::with("f", "a\nb\n");
    fs::write(room.0.path().join("one"), "a").unwrap();
    fs::write(room.0.path().join("none"), "").unwrap();
    let shown = |path: &str| {
        let view = room.read(json!({"file_path": path})).view();
        (view.title, view.summary.unwrap_or_default().replace(&room.real(), "ROOM"))
    };
    assert_eq!(shown("f"), ("f".into(), "2 lines".into()));
    assert_eq!(shown("./one"), ("one".into(), "1 line".into()));
    assert_eq!(shown("none"), ("none".into(), "empty".into()));
    assert!(shown("gone").1.starts_with("`ROOM/gone` does not exist"));
    let part = room.read(json!({"file_path": "f", "limit": 1})).view();
    assert_eq!(part.summary.as_deref(), Some("1 line"), "the words at the end are no line");
}

#[test]
fn it_is_listed_as_what_its_effects_say() {
    let tool = haft::tool::AnyTool::typed(Read::default()).unwrap();
    let input = ReadInput { file_path: "f".into(), offset: None, limit: None, pages: None, images: None };
    let class = Read::default().effects(&input).judge(&EffectFacts::unresolved()).class;
    assert_eq!(tool.listed_class(), class.into());
    assert_eq!(
        (tool.group(), tool.aliases(), tool.result_limit()),
        ("files", &["read_file".into()][..], Unlimited)
    );
}

/// Test data beside the repository; absent in a plain checkout.
fn shared(name: &str) -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    let found = fs::read(&path).ok();
    if found.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    found
}

#[test]
fn utf8_test_cases_are_shown_as_their_authors_expect() {
    let Some(text) = shared("utf8tests/utf8tests.txt") else { return };
    let text = String::from_utf8(text).unwrap();
    let bytes = |hex: &str| -> Vec<u8> {
        let digits: String = hex.chars().filter(char::is_ascii_hexdigit).collect();
        (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let mut cases = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(':').collect();
        let (given, expected) = match parts[..] {
            [_, "valid hex", hex] => (bytes(hex), bytes(hex)),
            [_, "invalid hex", hex, _, replaced] => (bytes(hex), bytes(replaced)),
            _ => continue,
        };
        // Lines of their own are not what these are about, and NUL bytes are another test.
        if given.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
            continue;
        }
        // Between letters: a mark at the very beginning would be taken for an encoding.
        let file = [b"a", &given[..], b"z"].concat();
        let shown = TestFolder::with("f", &file).text(json!({"file_path": "f"}));
        let expected = format!("1\ta{}z", String::from_utf8(expected).unwrap());
        assert_eq!(shown.lines().next(), Some(expected.as_str()), "{line}");
        cases += 1;
    }
    assert!(cases > 100, "{cases}");
    let whole = shared("utf8tests/utf8tests.bin").unwrap();
    refuse(
        &whole,
        &format!("`f` is a binary file, {} bytes; Read shows text, pictures and PDF", whole.len()),
    );
}

#[test]
fn naughty_strings_come_back_as_they_are() {
    let Some(text) = shared("blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_slice(&text).unwrap();
    let plain = |text: &String| !text.contains(['\n', '\r', '\0']) && !text.starts_with('\u{feff}');
    let strings: Vec<String> = strings.into_iter().filter(plain).collect();
    assert!(strings.len() > 400);
    let numbered = |(at, text): (usize, &String)| format!("{}\t{text}", at + 1);
    let expected: Vec<String> = strings.iter().enumerate().map(numbered).collect();
    check(strings.join("\n"), &expected.join("\n"));
    let room = TestFolder::with("f", "x");
    let engine = room.engine().build();
    for name in &strings {
        // As a path: an answer, whatever it is, and never a panic.
        let result = run(engine.clone(), json!({"file_path": name}));
        assert_ne!(result.error_kind(), Some(ErrorKind::Panicked), "{name}");
    }
}

/// How the words begin that follow a line that was cut.
#[cfg(feature = "encodings")]
const CUT: &str = "… [line cut: ";

/// The page without the lengths of lines that were cut: bytes that are no text are counted in another way
/// there.
#[cfg(feature = "encodings")]
fn without_lengths(page: &str) -> String {
    let plain = |line: &str| match line.split_once(CUT) {
        Some((shown, _)) => format!("{shown}{CUT}\n"),
        None => line.to_owned(),
    };
    page.split_inclusive('\n').map(plain).collect()
}

/// What a page is, worked out slowly: all lines first, then those that are shown.
#[cfg(feature = "encodings")]
fn slowly(bytes: &[u8], first: usize, limit: usize) -> String {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate().skip(first - 1).take(limit);
    let shown = lines.map(|(at, line)| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).replace('\0', "␀");
        let cut: String = line.chars().take(LINE_CHARS).collect();
        let more = if line.chars().count() > LINE_CHARS { CUT } else { "" };
        format!("{}\t{cut}{more}\n", at + 1)
    });
    shown.collect()
}

/// Lines of all kinds, also where pieces that are read at once meet, are what they are when each is looked at
/// alone.
#[cfg(feature = "encodings")]
#[test]
fn a_page_is_what_it_is_line_by_line() {
    assert!(check_pages(0..80) > 150);
}

#[cfg(feature = "encodings")]
#[test]
#[ignore = "prove"]
fn prove_a_page_is_what_it_is_line_by_line() {
    let seeds = 0..3_000;
    println!("proof: {} pages of files made by chance are what they are line by line", check_pages(seeds));
}

/// Reads pages of the files that these seeds make. Returns how many.
#[cfg(feature = "encodings")]
fn check_pages(seeds: std::ops::Range<u64>) -> usize {
    let long = "x".repeat(LINE_CHARS - 1);
    let wide = "ä€😀".repeat(LINE_CHARS / 3);
    let pieces: [&[u8]; 16] = [
        b"\n",
        b"\r\n",
        b"\r",
        b"word",
        b"let value = 1;\n",
        b"\t",
        "ä".as_bytes(),
        "€😀\r\n".as_bytes(),
        b"\xff",
        b"\xe2\x82",
        b"\x1b[1m",
        b"\0",
        "\u{feff}".as_bytes(),
        long.as_bytes(),
        wide.as_bytes(),
        b"nothing of it is odd here\r\n",
    ];
    let room = TestFolder::new();
    let engine = room.engine().build();
    let mut pages = 0;
    for seed in seeds {
        let mut state = seed;
        let mut dice = |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % sides
        };
        let mut bytes = if dice(4) == 0 { BYTE_ORDER_MARK.to_vec() } else { Vec::new() };
        // So that it is taken for text, and an end of what is read at once lies anywhere in what follows.
        let plain = match dice(3) {
            0 => 0,
            1 => 10 * SNIFF_BYTES / 8 + dice(100),
            _ => CHUNK_BYTES - dice(3_000),
        };
        while bytes.len() < plain {
            bytes.extend_from_slice(b"a line of text, which is as long as lines are\n");
        }
        for _ in 0..dice(60) {
            let piece = pieces[dice(pieces.len())];
            if plain > 0 || !matches!(piece, b"\0" | b"\xff" | b"\xe2\x82") {
                bytes.extend_from_slice(piece);
            }
        }
        // Another encoding is another matter, as is a file without a line.
        if encoding::is_legacy(&bytes[..bytes.len().min(CHUNK_BYTES)]) {
            continue;
        }
        fs::write(room.0.path().join("f"), &bytes).unwrap();
        let lines = bytes
            .strip_prefix(BYTE_ORDER_MARK)
            .unwrap_or(&bytes)
            .split_inclusive(|byte| *byte == b'\n')
            .count();
        if lines == 0 {
            continue;
        }
        for (first, limit) in [(1, 2_000), (1 + dice(lines), 1 + dice(lines)), (lines, 1), (1, lines)] {
            let result = run(engine.clone(), json!({"file_path": "f", "offset": first, "limit": limit}));
            let page = match result.outcome() {
                Ok(output) => without_lengths(&output.to_text()),
                Err(error) if error.message().contains("is not text from line") => continue,
                Err(error) => panic!("seed {seed}: {error:?}"),
            };
            let expected = slowly(&bytes, first, limit);
            let expected =
                if lines < first + limit { expected.trim_end_matches('\n').to_owned() } else { expected };
            let rest = page.strip_prefix(&expected[..]).unwrap_or_else(|| {
                let differs =
                    page.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other).count();
                panic!(
                    "seed {seed}, lines {first} and {limit} more of {lines}: another byte at {differs} of {}",
                    expected.len()
                )
            });
            let rest = rest.trim_start_matches('\n');
            assert!(rest.is_empty() || rest.starts_with('['), "seed {seed}: {rest:?}");
            assert_eq!(rest.contains("read on with offset"), first + limit <= lines, "seed {seed}: {rest:?}");
            pages += 1;
        }
    }
    pages
}

/// A last line that has no end, and no room on the page, was read to its end as well.
#[test]
fn a_file_whose_last_line_was_not_shown_is_not_known_as_a_whole() {
    let line = format!("{}\n", "x".repeat(1_000));
    let lines = PAGE_CHARS_MAX / (line.len() + 4);
    for (last, is_whole) in [("y".repeat(10), true), ("y".repeat(LINE_CHARS), false)] {
        let room = TestFolder::with("f", format!("{}{last}", line.repeat(lines)));
        let seen = ReadTracker::default();
        let workspace = Workspace::new(room.0.path()).unwrap();
        let engine =
            Engine::builder(Registry::new().with(Read::new(&seen)).unwrap()).workspace(workspace).build();
        let session = engine.session_id().to_owned();
        let text = run(engine, json!({"file_path": "f"})).outcome().unwrap().to_text();
        assert_eq!(text.contains("this page is full"), !is_whole);
        let known = seen.news(&session);
        assert_eq!(known.values().next().unwrap()["whole"].is_array(), is_whole);
    }
}
