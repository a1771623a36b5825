//! The input history, in a file that only its user can read.
//!
//! The file has one JSON string per line, newest last, and is read on first use. As in shells,
//! input that starts with a space is not recorded. An unreadable file disables the history only.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use haft::private_file::{ReplaceOptions, replace_private_file};

use crate::limits::{HISTORY_FILE_BYTES_MAX, HISTORY_MAX, HISTORY_TEXT_BYTES_MAX};

/// The entries, and the position in them.
#[derive(Debug, Default)]
pub(crate) struct InputHistory {
    path: Option<PathBuf>,
    loaded: bool,
    texts: Vec<String>,
    /// The index of the shown entry, and the unsent draft.
    shown: Option<(usize, String)>,
    /// The number of lines in the file.
    lines: usize,
}

impl InputHistory {
    pub(crate) fn new(path: Option<PathBuf>) -> InputHistory {
        InputHistory { path, ..InputHistory::default() }
    }

    /// Records an entry.
    pub(crate) fn add(&mut self, text: &str) {
        self.shown = None;
        let is_recordable =
            !text.trim().is_empty() && !text.starts_with(' ') && text.len() <= HISTORY_TEXT_BYTES_MAX;
        self.load();
        if !is_recordable || self.texts.last().is_some_and(|last| last == text) {
            return;
        }
        self.texts.push(text.to_owned());
        if self.texts.len() > HISTORY_MAX {
            self.texts.remove(0);
        }
        self.lines += 1;
        let Some(path) = &self.path else { return };
        // The history is optional, so errors are ignored.
        let _ = if self.lines > 2 * HISTORY_MAX { rewrite(path, &self.texts) } else { append(path, text) };
        if self.lines > 2 * HISTORY_MAX {
            self.lines = self.texts.len();
        }
    }

    /// Returns the previous entry. `now` is the draft, which comes back after the newest entry.
    pub(crate) fn older(&mut self, now: &str) -> Option<&str> {
        self.load();
        let (at, draft) = match self.shown.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None if self.texts.is_empty() => return None,
            None => (self.texts.len() - 1, now.to_owned()),
        };
        self.shown = Some((at, draft));
        self.texts.get(at).map(String::as_str)
    }

    /// Returns the next entry, and the draft after the newest one.
    pub(crate) fn newer(&mut self) -> Option<String> {
        let (at, draft) = self.shown.take()?;
        match self.texts.get(at + 1) {
            Some(text) => {
                self.shown = Some((at + 1, draft));
                Some(text.clone())
            }
            None => Some(draft),
        }
    }

    /// Resets the position: the input is edited and no longer an entry.
    pub(crate) fn reset_position(&mut self) {
        self.shown = None;
    }

    fn load(&mut self) {
        if std::mem::replace(&mut self.loaded, true) {
            return;
        }
        let Some(text) = self.path.as_deref().and_then(read) else { return };
        self.lines = text.lines().count();
        let texts = text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
        self.texts = texts.filter(|text| text.len() <= HISTORY_TEXT_BYTES_MAX).collect();
        let over = self.texts.len().saturating_sub(HISTORY_MAX);
        self.texts.drain(..over);
    }
}

fn read(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(HISTORY_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn line(text: &str) -> String {
    format!("{}\n", serde_json::Value::from(text))
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(line(text).as_bytes())
}

fn rewrite(path: &Path, texts: &[String]) -> std::io::Result<()> {
    let lines: String = texts.iter().map(|text| line(text)).collect();
    replace_private_file(path, lines.as_bytes(), &ReplaceOptions::default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_goes_back_and_forth_and_keeps_the_draft() {
        let mut history = InputHistory::new(None);
        history.add("one");
        history.add("two");
        history.add("two");
        history.add(" secret");
        assert_eq!(history.older("draft"), Some("two"));
        assert_eq!(history.older("two"), Some("one"));
        assert_eq!(history.older("one"), Some("one"));
        assert_eq!(history.newer().as_deref(), Some("two"));
        assert_eq!(history.newer().as_deref(), Some("draft"));
        assert_eq!(history.newer(), None);
    }

    #[test]
    fn it_outlives_the_program_and_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/history");
        let mut history = InputHistory::new(Some(path.clone()));
        for number in 0..2 * HISTORY_MAX + 5 {
            history.add(&format!("text\n{number}"));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().lines().count() <= 2 * HISTORY_MAX);
        let mut again = InputHistory::new(Some(path));
        assert_eq!(again.older("").unwrap(), format!("text\n{}", 2 * HISTORY_MAX + 4));
        assert_eq!(again.texts.len(), HISTORY_MAX);
    }

    #[test]
    fn a_broken_file_costs_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        fs::write(&path, b"\"good\"\n{broken\n\xff\n").unwrap();
        assert_eq!(InputHistory::new(Some(path)).older(""), Some("good"));
        let mut nowhere = InputHistory::new(Some(dir.path().to_owned()));
        nowhere.add("x");
        assert_eq!(nowhere.older(""), Some("x"));
    }
}
