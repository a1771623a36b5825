//! The asker at a real terminal: `haft` inside tmux, keys typed, the screen read.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::room::Room;

/// A tmux server of its own with one window, in which `haft` runs.
struct Screen {
    room: Room,
    socket: PathBuf,
}

impl Screen {
    /// Runs a command line in a new window; nothing if there is no tmux.
    fn run(line: &str) -> Option<Screen> {
        Screen::run_after("", line)
    }

    /// Runs something before that.
    fn run_after(first: &str, line: &str) -> Option<Screen> {
        Screen::run_in(Room::new(), first, line)
    }

    /// The same in a room that was made ready.
    fn run_in(room: Room, first: &str, line: &str) -> Option<Screen> {
        let socket = room.path("tmux");
        let program = env!("CARGO_BIN_EXE_haft");
        // The result goes to a file, so that the screen holds the dialogue only.
        let script = format!("{first} {program} {line} >out.txt; echo \"exit $?\"; sleep 600");
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&socket).args(["-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "40"]);
        tmux.arg(script)
            .current_dir(room.path("work"))
            .env("HOME", room.path("home"))
            .env_remove("TMUX")
            .env_remove("CI");
        let started = match tmux.output() {
            Ok(started) => started,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                println!("skipped: tmux is not installed");
                return None;
            }
            Err(error) => panic!("tmux: {error}"),
        };
        assert!(started.status.success(), "{started:?}");
        Some(Screen { room, socket })
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn text(&self) -> String {
        let text = self.tmux(&["capture-pane", "-p", "-J"]);
        let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        self.room.plain(&lines.join("\n"))
    }

    /// Waits until the screen shows this.
    fn wait_for(&self, words: &str) -> String {
        let begin = Instant::now();
        loop {
            let text = self.text();
            if text.contains(words) {
                return text;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "`{words}` never came:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types something, and Enter.
    fn answer(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn out(&self) -> String {
        std::fs::read_to_string(self.room.path("work/out.txt")).unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The end of the prompt: everything before it is on the screen as well.
const PROMPT: &str = "   [n]";
const READ: &str = r#"call Read '{"file_path": "notes.txt", "limit": 3}' --ask Read"#;

#[test]
fn yes_lets_it_run() {
    let Some(screen) = Screen::run(READ) else { return };
    let shown = screen.wait_for(PROMPT);
    assert_eq!(
        shown,
        "? Read   notes.txt\n\
         \x20   input     {\"file_path\":\"notes.txt\",\"limit\":3}\n\
         \x20   effects   reads notes.txt\n\
         \x20   why       rule `Read` (command line)\n\
         \x20   to allow  remove the rule `Read` (command line) from `ask`; no allow rule lifts it\n\
         \x20 allow this call?   y once   n no   r no, because …   e edit the input   [n]"
    );
    screen.answer("y");
    screen.wait_for("exit 0");
    assert_eq!(screen.out(), "1\tone\n2\ttwo\n3\tthree\n");
}

#[test]
fn control_c_at_the_question_interrupts() {
    let Some(screen) = Screen::run(READ) else { return };
    screen.wait_for(PROMPT);
    screen.tmux(&["send-keys", "C-c"]);
    let shown = screen.wait_for("exit 130");
    assert!(shown.contains("(no longer asked)"), "{shown}");
    assert_eq!(screen.out(), "");
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let Some(screen) = Screen::run_after("echo typing; sleep 1;", READ) else { return };
    screen.wait_for("typing");
    screen.answer("y");
    screen.wait_for(PROMPT);
    screen.answer("n");
    screen.wait_for("exit 1");
    assert_eq!(screen.out(), "");
}

#[test]
fn a_file_outside_is_asked_for_and_read() {
    let Some(screen) = Screen::run(r#"call Read '{"file_path": "../beside/other.txt"}'"#) else { return };
    let shown = screen.wait_for(PROMPT);
    assert!(shown.contains("outside of the working directories"), "{shown}");
    assert!(shown.contains("always    Read(/ROOM/beside/other.txt)"), "{shown}");
    screen.answer("s");
    screen.wait_for("exit 0");
    assert_eq!(screen.out(), "1\toutside\n");
}

/// What is answered with "always" is a rule of the user's: shown before, kept outside of the workspace, never
/// asked again.
#[test]
fn always_is_kept_and_not_asked_again() {
    let line = r#"call Write '{"file_path": "new.txt", "content": "x"}'"#;
    let Some(screen) = Screen::run(line) else { return };
    let shown = screen.wait_for(PROMPT);
    assert!(shown.contains("    always    Edit(/ROOM/work/new.txt)\n"), "{shown}");
    assert!(shown.contains("a always"), "{shown}");
    screen.answer("a");
    screen.wait_for("exit 0");
    let again = screen.room.say(&["call", "Write", r#"{"file_path": "new.txt", "content": "y"}"#]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let other = screen.room.say(&["call", "Write", r#"{"file_path": "other.txt", "content": "y"}"#]);
    assert_eq!(other.code, Some(1), "{other:?}");
    let shown = screen.room.say(&["settings", "show"]);
    let rule = "permissions.allow\n  Edit(/ROOM/work/new.txt)   ROOM/home/.local/state/haft/remembered/";
    assert!(shown.stdout.contains(rule), "{shown:?}");
}

/// An answer that can't be kept holds for the run, and the user learns that it is no more than that.
#[test]
fn an_answer_that_can_not_be_kept_is_said() {
    let room = Room::new();
    room.write("home/.local/state/haft/remembered", "a file where a folder should be");
    let line = r#"call Write '{"file_path": "new.txt", "content": "x"}'"#;
    let Some(screen) = Screen::run_in(room, "", line) else { return };
    screen.wait_for(PROMPT);
    screen.answer("a");
    let shown = screen.wait_for("exit 0");
    assert!(shown.contains("your answer holds for this session only: `Edit("), "{shown}");
}

/// An edited input meets the rules like any other.
#[test]
fn an_edit_does_not_get_past_a_rule() {
    let line = r#"call Write '{"file_path": "new.txt", "content": "x"}' --deny 'Edit(secret/**)'"#;
    let Some(screen) = Screen::run(line) else { return };
    screen.wait_for(PROMPT);
    screen.answer("e");
    screen.wait_for("new input");
    screen.answer(r#"{"file_path": "secret/a", "content": "x"}"#);
    let shown = screen.wait_for("exit 1");
    assert!(shown.contains("denied by rule `Edit(secret/**)` (command line)"), "{shown}");
    assert!(!screen.room.path("work/secret").exists());
}

/// A workspace is trusted by a clear yes to what was shown, and by nothing else.
#[test]
fn trust_is_a_clear_yes() {
    for (key, exit, said) in [("y", "exit 0", "trusted, until"), ("ok", "exit 1", "not trusted")] {
        let room = Room::new();
        room.write("work/.claude/settings.json", r#"{"permissions": {"allow": ["Edit"]}}"#);
        let Some(screen) = Screen::run_in(room, "", "trust") else { return };
        let shown = screen.wait_for("   [n]");
        assert!(shown.contains("trust this workspace with all of it?"), "{shown}");
        assert!(screen.out().contains("allow rules\n  Edit   .claude/settings.json:1\n"), "{}", screen.out());
        screen.answer(key);
        let shown = screen.wait_for(exit);
        assert!(shown.contains(said), "{shown}");
        let after = screen.room.say(&["settings", "show"]);
        assert_eq!(after.stdout.contains("permissions.allow"), key == "y", "{after:?}");
    }
}

/// One line, rewritten, and gone when the call is over.
#[test]
fn progress_is_shown_while_a_script_runs() {
    let manifest =
        r#"{"name": "t", "description": "Waits.", "input_schema": {"type": "object"}, "command": ["./run"]}"#;
    let run = r#"#!/bin/bash\necho "{\"progress\": 0.25}" >&3\necho "{\"progress\": 0.5, \"message\": \"half\"}" >&3\nuntil [ -e go ]; do sleep 0.01; done\necho done\n"#;
    let first = format!(
        "mkdir -p tools/t; printf '%s' '{manifest}' > tools/t/tool.json; printf '%b' '{run}' > tools/t/run; chmod +x tools/t/run;"
    );
    let Some(screen) = Screen::run_after(&first, "--tools-dir tools --allow t call t") else { return };
    assert_eq!(screen.wait_for("half"), "t: 50 % half");
    std::fs::write(screen.room.path("work/go"), "").unwrap();
    assert_eq!(screen.wait_for("exit"), "exit 0");
    assert_eq!(screen.out(), "done\n");
}
