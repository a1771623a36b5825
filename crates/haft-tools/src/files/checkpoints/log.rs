//! Checkpoints in the folder of their session: what was recorded, in order, to be recorded again when it is
//! continued.
//!
//! A line of JSON for each change, and behind it the bytes that it speaks of: what differs from the text
//! before, of which the reader knows the rest. Only ever appended to. A program that is killed leaves a last
//! entry that is not whole; it and what is behind it is not read. Where the file would become too large it
//! begins anew, and says that what was before is forgotten.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FileText, VersionDelta};

/// The name of the file in a session's folder.
pub(super) const FILE: &str = "checkpoints.log";
/// The largest file, in bytes.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The longest line, in bytes: a path, and numbers.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LogLine {
    /// Changes up to this one were forgotten.
    Forgotten(u64),
    /// What else is to be said of this change.
    More { number: u64, more: ChangeDetail },
    Change {
        number: u64,
        path: PathBuf,
        tool: String,
        turn: u64,
        /// What was there before, as it differs from what was known of the file.
        was: TextDelta,
        /// What is there now, as it differs from what was there before.
        is: TextDelta,
    },
}

/// What else there is to say of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeDetail {
    /// The file was moved there, from this path.
    Moved(PathBuf),
    /// The file that was deleted had this mode.
    Mode(u32),
}

/// A text as a difference; its bytes stand behind the line.
#[derive(Debug, Serialize, Deserialize)]
struct TextDelta {
    absent: bool,
    prefix: usize,
    suffix: usize,
    bytes: usize,
}

/// What happened, as it was recorded.
#[derive(Debug, PartialEq)]
pub(super) enum LogEntry {
    Forgotten(u64),
    More { number: u64, more: ChangeDetail },
    Change { number: u64, path: PathBuf, tool: &'static str, turn: u64, was: FileText, is: FileText },
}

/// A change that is to be kept.
pub(super) struct LoggedChange<'a> {
    pub(super) number: u64,
    pub(super) path: &'a Path,
    pub(super) tool: &'a str,
    pub(super) turn: u64,
    /// What was known of the file.
    pub(super) known: Option<&'a [u8]>,
    pub(super) was: Option<&'a [u8]>,
    pub(super) is: Option<&'a [u8]>,
}

impl LoggedChange<'_> {
    /// Puts it behind the others.
    pub(super) fn append(&self, file: &Path) -> io::Result<()> {
        // From the old to the new here, and backwards in memory; the form is the same.
        let was = VersionDelta::between(self.was, self.known);
        let is = VersionDelta::between(self.is, self.was);
        let line = LogLine::Change {
            number: self.number,
            path: self.path.to_owned(),
            tool: self.tool.to_owned(),
            turn: self.turn,
            was: TextDelta::from_delta(&was),
            is: TextDelta::from_delta(&is),
        };
        append_line(file, &line, &[&was.middle, &is.middle])
    }
}

impl ChangeDetail {
    /// Says it of a change.
    pub(super) fn append(self, number: u64, file: &Path) -> io::Result<()> {
        append_line(file, &LogLine::More { number, more: self }, &[])
    }
}

impl TextDelta {
    fn from_delta(delta: &VersionDelta) -> TextDelta {
        let VersionDelta { absent, prefix, suffix, middle } = delta;
        TextDelta { absent: *absent, prefix: *prefix, suffix: *suffix, bytes: middle.len() }
    }
}

fn append_line(path: &Path, line: &LogLine, parts: &[&[u8]]) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
    bytes.push(b'\n');
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.push(b'\n');
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let len = file.metadata()?.len();
    if len + bytes.len() as u64 > LOG_BYTES_MAX {
        let number = match line {
            LogLine::Change { number, .. } | LogLine::More { number, .. } | LogLine::Forgotten(number) => {
                *number
            }
        };
        // What comes behind differs from what is gone with it, so this one goes too.
        file.set_len(0)?;
        bytes = serde_json::to_vec(&LogLine::Forgotten(number)).map_err(io::Error::other)?;
        bytes.extend_from_slice(b"\n\n");
        file.write_all(&bytes)?;
        return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the checkpoints begin anew"));
    }
    file.write_all(&bytes)
}

/// Reads what was recorded, as far as it is whole. `known` says what the last entry left of a file.
pub(super) fn read_log(
    path: &Path,
    mut each: impl FnMut(LogEntry) -> Option<()>,
    known: impl Fn(&Path) -> FileText,
) {
    let Ok(file) = File::open(path) else { return };
    let mut reader = BufReader::new(file);
    while let Some(entry) = read_entry(&mut reader, &known) {
        if each(entry).is_none() {
            return;
        }
    }
}

fn read_entry(reader: &mut BufReader<File>, known: impl Fn(&Path) -> FileText) -> Option<LogEntry> {
    let mut line = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
    let entry = match serde_json::from_slice(&line).ok()? {
        LogLine::Forgotten(number) => LogEntry::Forgotten(number),
        LogLine::More { number, more } => LogEntry::More { number, more },
        LogLine::Change { number, path, tool, turn, was, is } => {
            let was = read_text(reader, &was, known(&path).as_deref())?;
            let is = read_text(reader, &is, was.as_deref())?;
            LogEntry::Change { number, path, tool: tool_named(&tool), turn, was, is }
        }
    };
    let mut end = [0];
    reader.read_exact(&mut end).ok()?;
    (end == *b"\n").then_some(entry)
}

fn read_text(reader: &mut BufReader<File>, part: &TextDelta, before: Option<&[u8]>) -> Option<FileText> {
    let before = before.unwrap_or_default();
    let fits = part.bytes as u64 <= LOG_BYTES_MAX && part.prefix.checked_add(part.suffix)? <= before.len();
    if !fits {
        return None;
    }
    let mut middle = vec![0; part.bytes];
    reader.read_exact(&mut middle).ok()?;
    let delta =
        VersionDelta { absent: part.absent, prefix: part.prefix, suffix: part.suffix, middle: middle.into() };
    Some(delta.apply(Some(before)))
}

/// The tools that change files; a later version may have others.
fn tool_named(name: &str) -> &'static str {
    let known = ["ApplyPatch", "Edit", "MultiEdit", "NotebookEdit", "Rewind", "Write"];
    known.into_iter().find(|known| *known == name).unwrap_or("another tool")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::*;

    /// What comes back of a file, with what is known of each path after it.
    fn all(path: &Path) -> Vec<LogEntry> {
        let known: RefCell<HashMap<PathBuf, FileText>> = RefCell::default();
        let mut entries = Vec::new();
        let each = |entry: LogEntry| {
            if let LogEntry::Change { path, is, .. } = &entry {
                known.borrow_mut().insert(path.clone(), is.clone());
            }
            entries.push(entry);
            Some(())
        };
        read_log(path, each, |path| known.borrow().get(path).cloned().flatten());
        entries
    }

    #[test]
    fn what_was_written_comes_back_as_far_as_it_is_whole() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join(FILE);
        assert_eq!(all(&file), []);
        let texts: [Option<&'static [u8]>; 5] =
            [None, Some(b"one\n\0two"), Some(b"one\n\xfftwo"), None, Some(b"{\"a\":1}\n")];
        let mut expected = Vec::new();
        for (at, pair) in texts.windows(2).enumerate() {
            let (number, path) = (at as u64 + 1, Path::new("/f"));
            let [was, is] = [pair[0], pair[1]];
            LoggedChange { number, path, tool: "Edit", turn: 7, known: was, was, is }.append(&file).unwrap();
            let (was, is) = (was.map(Into::into), is.map(Into::into));
            expected.push(LogEntry::Change { number, path: path.into(), tool: "Edit", turn: 7, was, is });
        }
        ChangeDetail::Mode(0o755).append(3, &file).unwrap();
        expected.push(LogEntry::More { number: 3, more: ChangeDetail::Mode(0o755) });
        assert_eq!(all(&file), expected);
        // However much of it is there, what is whole is right.
        let bytes = std::fs::read(&file).unwrap();
        for len in 0..bytes.len() {
            std::fs::write(&file, &bytes[..len]).unwrap();
            let found = all(&file);
            assert!(found.len() < expected.len() && expected.starts_with(&found), "{len}");
        }
    }
}
