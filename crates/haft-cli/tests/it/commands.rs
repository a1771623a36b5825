//! Transcripts of command lines: exit code, standard output and standard error of each.
//!
//! The files in `commands/` hold the command lines and their output. A line that begins with `$ ` is run.
//! `UPDATE_COMMANDS=1 cargo test -p haft-cli` writes the files again; review the difference.

use std::io::Read as _;
use std::process::Command;

use crate::room::{Ran, Room, crate_path};

/// Makes one test of each transcript.
macro_rules! transcripts {
    ($($name:ident),* $(,)?) => {
        mod commands_do_what_the_transcript_says {
            $(
                #[test]
                fn $name() {
                    super::check_transcript(stringify!($name));
                }
            )*
        }

        const TRANSCRIPTS: &[&str] = &[$(stringify!($name)),*];
    };
}

transcripts![
    calls,
    failed_calls,
    file_tools,
    messages,
    permission,
    program,
    rules,
    tool_list,
    unknown_flags,
    unreadable_input,
    wrong_usage,
];

#[test]
fn every_transcript_has_a_test() {
    let entries = std::fs::read_dir(crate_path(FOLDER)).unwrap();
    let mut files: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, TRANSCRIPTS.iter().map(|name| format!("{name}.txt")).collect::<Vec<_>>());
}

const FOLDER: &str = "tests/it/commands";

fn check_transcript(name: &str) {
    let path = crate_path(FOLDER).join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    let mut answered = false;
    for line in expected.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push_str(&format!("{line}\n{}", transcript(&run(command))));
            answered = true;
        } else if line.is_empty() {
            // What the command printed stands between it and the next empty line.
            answered = false;
            found.push('\n');
        } else if !answered {
            panic!("{name}.txt: neither a command nor the output of one: {line}");
        }
    }
    if std::env::var_os("UPDATE_COMMANDS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let difference = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    if let Some((found, expected)) = difference {
        panic!("{name}.txt: expected\n{expected}\nfound\n{found}\nUPDATE_COMMANDS=1 writes it again");
    }
    assert_eq!(
        found.lines().count(),
        expected.lines().count(),
        "{name}.txt: UPDATE_COMMANDS=1 writes it again"
    );
}

/// Runs one line in a room of its own: `NAME=value` before the program, `<<< text` after the arguments.
fn run(line: &str) -> Ran {
    let room = Room::new();
    let (line, input) = line.split_once(" <<< ").unwrap_or((line, ""));
    let mut words = split(&line.replace("ROOM", room.path("").to_str().unwrap().trim_end_matches('/')));
    let program = words.iter().position(|word| word == "haft").expect("the program is haft");
    let args = words.split_off(program + 1);
    let mut command: Command = room.haft(args);
    for assignment in &words[..program] {
        let (name, value) = assignment.split_once('=').expect("NAME=value");
        command.env(name, value);
    }
    let ran = room.run(command, &split(input).join(" "));
    // A sandbox, in which pictures are decoded too, has its caches there. A call that keeps nothing leaves
    // nothing else.
    let state = std::fs::read_dir(room.path("home/.local/state/haft"));
    let left: Vec<_> = state.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "caches"), "{line}: {left:?} is left behind");
    ran
}

/// Each line of what was printed after a mark: `>` for results, `!` for the rest. No line is empty.
fn transcript(ran: &Ran) -> String {
    let marked = |mark: &str, text: &str| -> String {
        let whole = text.is_empty() || text.ends_with('\n');
        assert!(whole, "the last line ends: {text:?}");
        text.lines().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect()
    };
    let code = ran.code.map_or("by a signal".to_owned(), |code| code.to_string());
    format!("{}{}= {code}\n", marked(">", &ran.stdout), marked("!", &ran.stderr))
}

/// Words between spaces; single quotes keep spaces.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut any) = (false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            ' ' if !quoted => {
                if any {
                    words.push(String::new());
                }
                any = false;
            }
            c => {
                words.last_mut().expect("there is always one").push(c);
                any = true;
            }
        }
    }
    if !any {
        words.pop();
    }
    words
}

#[test]
fn words_are_split_as_a_shell_does() {
    assert_eq!(split("a  'b c' d'e'"), ["a", "b c", "de"]);
    assert_eq!(split("a ''"), ["a", ""]);
    assert_eq!(split(""), Vec::<String>::new());
}

/// A week after a result was kept it is gone.
#[test]
fn old_results_are_removed() {
    let room = Room::new();
    let results = room.path("home/state/results");
    std::fs::create_dir_all(&results).unwrap();
    let days = |days: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 60 * 60);
    for (name, age) in [("Bash-00000001.txt", 6), ("Bash-00000002.txt", 8), ("mine.txt", 100)] {
        std::fs::File::create(results.join(name)).unwrap().set_modified(days(age)).unwrap();
    }
    let mut command = room.haft(["call", "Read", r#"{"file_path": "notes.txt"}"#]);
    command.env("HAFT_STATE_DIR", room.path("home/state"));
    assert_eq!(room.run(command, "").code, Some(0));
    let there = |name: &str| results.join(name).exists();
    assert_eq!(
        (there("Bash-00000001.txt"), there("Bash-00000002.txt"), there("mine.txt")),
        (true, false, true)
    );
}

/// A reader who left before anything came, one who left in the middle, and a full disk.
#[test]
fn a_result_that_nobody_took_is_a_failure() {
    let room = Room::new();
    let gone = "error: standard output can't be written: its reader is gone\n";
    let message = r#"[{"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "notes.txt"}}]"#;
    std::fs::write(room.path("work/message.json"), message).unwrap();
    let read = r#"{"file_path": "notes.txt"}"#;
    for args in [
        &["tools"][..],
        &["tools", "--format", "openai"],
        &["call", "Read", read],
        &["dispatch", "message.json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = room.haft(args).stdout(writer).output().unwrap();
        assert_eq!((closed.status.code(), String::from_utf8_lossy(&closed.stderr).as_ref()), (Some(1), gone));
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let full = room.haft(args).stdout(full).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{full:?}");
        assert!(
            String::from_utf8_lossy(&full.stderr).starts_with("error: standard output can't be written: No")
        );
    }
    // More than a pipe holds, of which the reader takes a little: enough for people, not for a program.
    std::fs::write(room.path("work/long.txt"), "a line of text\n".repeat(6_000)).unwrap();
    let long = r#"{"file_path": "long.txt", "limit": 6000}"#;
    let message = format!(r#"[{{"type": "tool_use", "id": "a", "name": "Read", "input": {long}}}]"#);
    std::fs::write(room.path("work/message.json"), message).unwrap();
    for (args, code, words) in [
        (&["call", "Read", long][..], 0, ""),
        (&["call", "Read", long, "--output", "json"], 1, gone),
        (&["dispatch", "message.json"], 1, gone),
    ] {
        let mut child = room.haft(args).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), said.as_str()), (Some(code), words), "{args:?}");
    }
}
