//! A terminal for tests: a tmux server with a shell in its own directory.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The timeout for expected output.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two reads of the terminal: each starts `tmux`, which would occupy a core.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Stage {
    dir: tempfile::TempDir,
    socket: PathBuf,
}

/// Returns whether tmux is available; prints a note if not.
pub(crate) fn has_tmux() -> bool {
    let has = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    if !has {
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: there is no tmux\n").unwrap();
    }
    has
}

impl Stage {
    /// Opens a terminal of this size with a shell.
    pub(crate) fn open(columns: usize, rows: usize) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("tmux");
        std::fs::create_dir(dir.path().join("w")).unwrap();
        let stage = Stage { dir, socket };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let made = stage.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            "env PS1='$ ' sh",
        ]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        stage.see("$");
        stage
    }

    /// Runs a command in the directory on an empty terminal.
    pub(crate) fn start(&self, command: &str) {
        self.type_("clear");
        self.key("Enter");
        self.until("an empty terminal", |screen| screen == "$");
        self.type_(&format!("cd {}; clear; {command}", self.folder().display()));
        self.key("Enter");
    }

    /// Returns the path of a file beside the directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the working directory of the program.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(arguments);
        // The shell gets the environment of a typical terminal, wherever the tests run.
        ["TMUX", "CI", "NO_COLOR"].iter().for_each(|name| _ = command.env_remove(name));
        command.output().unwrap()
    }

    pub(crate) fn type_(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    pub(crate) fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    /// Pastes a text, bracketed if the program has enabled that.
    pub(crate) fn paste(&self, text: &str, marked: bool) {
        self.tmux(&["set-buffer", text]);
        self.tmux(if marked { &["paste-buffer", "-p"] } else { &["paste-buffer"] });
    }

    pub(crate) fn resize(&self, columns: usize, rows: usize) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Returns the terminal's contents without empty lines at the end.
    pub(crate) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Returns the terminal's contents with styles.
    pub(crate) fn coloured(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Queries tmux for a format string.
    pub(crate) fn ask(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{what} never came; the terminal shows\n{screen}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until a text is visible.
    #[track_caller]
    pub(crate) fn see(&self, text: &str) -> String {
        self.until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Returns the terminal modes that the shell sees after the program has ended.
    pub(crate) fn modes(&self) -> String {
        let path = self.dir.path().join("modes");
        self.type_(&format!("stty -a > {0}.new; mv {0}.new {0}", path.display()));
        self.key("Enter");
        let began = Instant::now();
        while !path.exists() {
            assert!(began.elapsed() < PATIENCE, "no shell is there:\n{}", self.screen());
            std::thread::sleep(POLL_INTERVAL);
        }
        std::fs::read_to_string(path).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
