//! A folder to run `haft` in, with an environment of its own.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A folder with a few files, a home, and no terminal.
pub(crate) struct Room {
    dir: TempDir,
}

/// Variable that programs are found by; a room has none of its own.
pub(crate) const PATH: &str = "PATH";

/// What a run of the program came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A run that came to this.
pub(crate) fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
    Ran { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
}

impl Room {
    /// A room without files. It isn't in `/tmp`, of which a session has one of its own.
    pub(crate) fn empty() -> Room {
        let room = Room { dir: tempfile::tempdir_in("/var/tmp").unwrap() };
        for dir in ["work", "home", "tmp"] {
            std::fs::create_dir_all(room.path(dir)).unwrap();
        }
        room
    }

    pub(crate) fn new() -> Room {
        let room = Room::empty();
        for dir in ["work/src", "beside"] {
            std::fs::create_dir_all(room.path(dir)).unwrap();
        }
        for (path, bytes) in [
            ("work/notes.txt", &b"one\ntwo\nthree\n"[..]),
            ("work/empty.txt", b""),
            ("work/src/main.rs", b"fn main() {}\n"),
            ("work/photo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
            ("beside/other.txt", b"outside\n"),
        ] {
            std::fs::write(room.path(path), bytes).unwrap();
        }
        room
    }

    /// A path in the room; commands run in its `work`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    /// Writes a file of the room; one that begins with `#!` can be run.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Writes a script tool; `more` are keys of its manifest after a comma.
    pub(crate) fn script(&self, folder: &str, name: &str, body: &str, more: &str) {
        let manifest = format!(
            r#"{{"name": "{name}", "description": "A tool of a test.", "input_schema": {{"type": "object"}}, "command": ["./run"]{more}}}"#
        );
        self.write(&format!("{folder}/tool.json"), &manifest);
        self.write(&format!("{folder}/run"), &format!("#!/bin/bash\n{body}\n"));
    }

    /// Runs `haft` to the end, with programs to be found and nothing on standard input.
    pub(crate) fn say(&self, args: &[&str]) -> Ran {
        let mut command = self.haft(args);
        command.env(PATH, std::env::var_os(PATH).unwrap());
        self.run(command, "")
    }

    /// `haft` with these arguments, not yet started.
    pub(crate) fn haft<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(args).current_dir(self.path("work"));
        command.env_clear().env("HOME", self.path("home")).env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end, with this on standard input.
    pub(crate) fn run(&self, mut command: Command, input: &str) -> Ran {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // Whoever doesn't read closes the pipe; that is no failure of ours.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| self.plain(&String::from_utf8(bytes).unwrap());
        let stderr = without_busy_warnings(&text(output.stderr));
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr }
    }

    /// A text without what differs from run to run: the room's own path, and times.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = text.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "ROOM");
        let mut plain = String::new();
        let mut rest = text.as_str();
        const KEY: &str = "\"duration_ms\":";
        while let Some(at) = rest.find(KEY) {
            let (before, after) = rest.split_at(at + KEY.len());
            plain.push_str(before);
            plain.push('T');
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || ".e-".contains(c));
        }
        plain + rest
    }
}

/// Between two looks at something that is waited for: short enough that no test takes longer, long enough
/// that what is waited for has the processor.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Waits for something, and fails if it never comes to be.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "it never came to be: {what}");
        pause();
    }
}

/// Whether a process runs that was given this argument.
pub(crate) fn lives(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

/// A path of this crate.
pub(crate) fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text without warnings of calls that block a thread: on a busy machine any call may be one.
pub(crate) fn without_busy_warnings(stderr: &str) -> String {
    let lines = stderr.split_inclusive('\n').filter(|line| !line.contains(": keeps a thread busy since "));
    lines.collect()
}
