//! What a command prints, while it runs and afterwards.
//!
//! Every command prints into one of these, in the foreground as in the background, so that it can move from
//! one to the other at any moment. What is short stays in memory; a longer text goes to a file of the
//! session's results as it comes, up to a bound. Beyond that only the end is kept, and everything is counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::future::BoxFuture;
use haft::limits::SPILL_BYTES_MAX;
use haft::ports::{LogSize, TaskLog};
use haft::results::{OffloadStore, OffloadWriter, OffloadedFile};
use haft::sync::lock;
use haft::text::truncate_chars;
use tokio::sync::Notify;

use super::terminal_text::{LeftOut, TerminalTextCleaner};

/// Bytes of text that are held in memory before a file is begun: more than the characters that a result may
/// have.
pub const MEMORY_BYTES_MAX: usize = 128 * 1024;
/// The same for a command in the background, of which there may be hundreds.
pub const BACKGROUND_MEMORY_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the end that are held in memory besides.
pub const TAIL_BYTES_MAX: usize = 32 * 1024;

/// What a command prints.
pub(crate) struct OutputLog {
    store: Option<Arc<OffloadStore>>,
    state: Mutex<LogState>,
    grown: Notify,
    /// Up to where somebody has looked.
    looked: AtomicU64,
}

struct LogState {
    cleaner: TerminalTextCleaner,
    /// All of it while there is no file, else the beginning.
    head: String,
    /// The end, where the head is not all.
    tail: String,
    /// What came after the file was full: the last of it, as it came.
    raw_tail: Vec<u8>,
    /// Something between the tail and this is missing.
    raw_cut: bool,
    memory_max: usize,
    bytes: u64,
    activity: u64,
    file: OverflowPlace,
    finished: bool,
    /// What could not be ended.
    held: Vec<u32>,
}

/// Where a text goes that is too long for memory.
enum OverflowPlace {
    Memory,
    File(OffloadWriter),
    Kept(OffloadedFile),
    /// Nowhere, for this reason.
    Lost(String),
}

/// What a command printed, all in all.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandOutput {
    /// All of it, or the beginning.
    pub(crate) head: String,
    /// The end, where the head is not all.
    pub(crate) tail: String,
    /// How many bytes of text there were.
    pub(crate) bytes: u64,
    /// The file that holds all of it, or as much as a file may have.
    pub(crate) kept: Option<OffloadedFile>,
    /// Why there is no such file although it is needed.
    pub(crate) lost: Option<String>,
    pub(super) left_out: LeftOut,
}

impl CommandOutput {
    /// Whether the head is all.
    pub(crate) fn is_whole(&self) -> bool {
        self.kept.is_none() && self.lost.is_none()
    }
}

impl OutputLog {
    pub(crate) fn new(store: Option<Arc<OffloadStore>>) -> OutputLog {
        let state = LogState {
            cleaner: TerminalTextCleaner::default(),
            head: String::new(),
            tail: String::new(),
            raw_tail: Vec::new(),
            raw_cut: false,
            memory_max: MEMORY_BYTES_MAX,
            bytes: 0,
            activity: 0,
            file: OverflowPlace::Memory,
            finished: false,
            held: Vec::new(),
        };
        OutputLog { store, state: Mutex::new(state), grown: Notify::new(), looked: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        lock(&self.state)
    }

    /// Takes what was printed.
    pub(crate) fn add(&self, bytes: &[u8]) {
        {
            let mut state = self.state();
            if state.finished {
                return;
            }
            state.activity += bytes.len() as u64;
            if state.is_full() {
                state.bytes += bytes.len() as u64;
                state.keep_raw(bytes);
            } else {
                let mut text = String::new();
                state.cleaner.add(bytes, &mut text);
                state.take(&text, self.store.as_deref());
            }
        }
        self.grown.notify_waiters();
    }

    /// The command goes on in the background: little of what it prints stays in memory from now on.
    pub(crate) fn to_background(&self) {
        let mut state = self.state();
        state.memory_max = BACKGROUND_MEMORY_BYTES_MAX;
        if state.head.len() > state.memory_max && matches!(state.file, OverflowPlace::Memory) {
            state.begin(self.store.as_deref());
        }
        if !matches!(state.file, OverflowPlace::Memory) {
            let end = state.head.floor_char_boundary(BACKGROUND_MEMORY_BYTES_MAX);
            if let OverflowPlace::File(_) = state.file {
                state.head.truncate(end);
            }
        }
    }

    /// These of it could not be ended.
    pub(crate) fn is_held(&self, held: &[u32]) {
        self.state().held = held.to_owned();
    }

    /// There is no more. Called again it says the same.
    pub(crate) fn finish(&self) -> CommandOutput {
        let printed = {
            let mut state = self.state();
            state.finish(self.store.as_deref());
            state.printed()
        };
        self.grown.notify_waiters();
        printed
    }

    /// Bytes that are held in memory.
    #[cfg(test)]
    pub(super) fn held_in_memory(&self) -> usize {
        let state = self.state();
        state.head.capacity()
            + state.tail.capacity()
            + state.raw_tail.capacity()
            + state.cleaner.open_line().len()
    }

    /// The last line that says something.
    pub(crate) fn last_line(&self) -> Option<String> {
        let state = self.state();
        let open = state.cleaner.open_line().trim();
        let text = if state.tail.is_empty() { &state.head } else { &state.tail };
        let from = text.len().saturating_sub(4_096);
        let end = &text[text.ceil_char_boundary(from)..];
        let line = if open.is_empty() {
            end.lines().rev().map(str::trim).find(|line| !line.is_empty())?
        } else {
            open
        };
        Some(truncate_chars(line, haft::limits::PROGRESS_CHARS_MAX / 2).to_owned())
    }
}

/// What a command in the background printed outlives it, however it ended.
impl Drop for OutputLog {
    fn drop(&mut self) {
        let mut state = self.state();
        if state.memory_max == BACKGROUND_MEMORY_BYTES_MAX {
            state.finish(self.store.as_deref());
        }
    }
}

impl LogState {
    fn is_full(&self) -> bool {
        matches!(self.file, OverflowPlace::File(_)) && self.bytes >= SPILL_BYTES_MAX
    }

    /// How much can be read again.
    fn held_bytes(&self) -> u64 {
        match &self.file {
            OverflowPlace::Memory | OverflowPlace::Lost(_) => self.head.len() as u64,
            OverflowPlace::File(_) => self.bytes.min(SPILL_BYTES_MAX),
            OverflowPlace::Kept(kept) => kept.held_bytes(),
        }
    }

    fn take(&mut self, text: &str, store: Option<&OffloadStore>) {
        if text.is_empty() {
            return;
        }
        self.bytes += text.len() as u64;
        if matches!(self.file, OverflowPlace::Memory) {
            if self.head.len() + text.len() <= self.memory_max {
                self.head.push_str(text);
                return;
            }
            self.begin(store);
        }
        if let OverflowPlace::File(keeping) = &mut self.file
            && let Err(error) = keeping.write(text.as_bytes())
        {
            self.file = OverflowPlace::Lost(describe_io_error(&error));
        }
        // The beginning is filled however large the pieces are that it comes in.
        let mut rest = text;
        let room = self.memory_max.saturating_sub(self.head.len());
        if room > 0 && self.head.len() as u64 == self.bytes - text.len() as u64 {
            let (beginning, after) = text.split_at(text.floor_char_boundary(room));
            self.head.push_str(beginning);
            // Where there is no file, beginning and end are shown one after the other.
            if let OverflowPlace::Lost(_) = self.file {
                rest = after;
            }
        }
        self.tail.push_str(rest);
        if self.tail.len() > 2 * TAIL_BYTES_MAX {
            let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL_BYTES_MAX);
            self.tail.drain(..from);
        }
    }

    /// Begins the file with what there is.
    fn begin(&mut self, store: Option<&OffloadStore>) {
        let Some(store) = store else {
            self.file = OverflowPlace::Lost("there is no place for it".to_owned());
            return;
        };
        let begun = store.begin("Bash", "txt", SPILL_BYTES_MAX).and_then(|mut keeping| {
            keeping.write(self.head.as_bytes())?;
            Ok(keeping)
        });
        self.file = match begun {
            Ok(keeping) => OverflowPlace::File(keeping),
            Err(error) => OverflowPlace::Lost(describe_io_error(&error)),
        };
    }

    /// There is no more.
    fn finish(&mut self, store: Option<&OffloadStore>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let mut rest = String::new();
        self.cleaner.finish(&mut rest);
        self.take(&rest, store);
        self.file = match std::mem::replace(&mut self.file, OverflowPlace::Memory) {
            OverflowPlace::File(keeping) => OverflowPlace::Kept(keeping.finish()),
            other => other,
        };
        self.activity += 1;
    }

    /// Bytes for which no file has room.
    fn keep_raw(&mut self, bytes: &[u8]) {
        if let OverflowPlace::File(keeping) = &mut self.file {
            // Only counted.
            let _ = keeping.write(bytes);
        }
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        self.raw_cut |= last.len() < bytes.len();
        self.raw_tail.extend_from_slice(last);
        if self.raw_tail.len() > 2 * TAIL_BYTES_MAX {
            self.raw_cut = true;
            self.raw_tail.drain(..self.raw_tail.len() - TAIL_BYTES_MAX);
        }
    }

    /// The end, and the line after it that has none.
    fn ending(&self) -> (String, String) {
        if self.raw_tail.is_empty() {
            let text = if self.tail.is_empty() { &self.head } else { &self.tail };
            let from = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES_MAX));
            return (text[from..].to_owned(), self.cleaner.open_line().to_owned());
        }
        let (mut cleaner, mut text) = (TerminalTextCleaner::default(), String::new());
        cleaner.add(&self.raw_tail, &mut text);
        let open = cleaner.open_line().to_owned();
        if !self.raw_cut {
            return (self.tail.clone() + &text, open);
        }
        // It begins in the middle of a line, maybe of a control sequence.
        let from = text.find('\n').map_or(0, |at| at + 1);
        (text[from..].to_owned(), open)
    }

    fn printed(&self) -> CommandOutput {
        let (kept, lost) = match &self.file {
            OverflowPlace::Kept(kept) => (Some(kept.clone()), None),
            OverflowPlace::Lost(why) => (None, Some(why.clone())),
            OverflowPlace::Memory | OverflowPlace::File(_) => (None, None),
        };
        let tail = if kept.is_some() || lost.is_some() {
            let (text, open) = self.ending();
            if self.raw_tail.is_empty() { text } else { text + &open }
        } else {
            String::new()
        };
        let (head, bytes, left_out) = (self.head.clone(), self.bytes, self.cleaner.left_out());
        CommandOutput { head, tail, bytes, kept, lost, left_out }
    }
}

impl TaskLog for OutputLog {
    fn held(&self) -> Vec<u32> {
        self.state().held.clone()
    }

    fn size(&self) -> LogSize {
        let state = self.state();
        let file = match &state.file {
            OverflowPlace::File(keeping) => Some(keeping.path().to_owned()),
            OverflowPlace::Kept(kept) => Some(kept.path().to_owned()),
            OverflowPlace::Memory | OverflowPlace::Lost(_) => None,
        };
        LogSize { bytes: state.bytes, held_bytes: state.held_bytes(), activity: state.activity, file }
    }

    fn read(&self, from: u64, bytes_max: usize) -> io::Result<String> {
        let (file, held) = {
            let state = self.state();
            let file = match &state.file {
                OverflowPlace::File(keeping) => keeping.path().to_owned(),
                OverflowPlace::Kept(kept) => kept.path().to_owned(),
                OverflowPlace::Memory | OverflowPlace::Lost(_) => {
                    let from = usize::try_from(from).unwrap_or(usize::MAX).min(state.head.len());
                    let from = state.head.ceil_char_boundary(from);
                    let end = state.head.floor_char_boundary(from.saturating_add(bytes_max));
                    return Ok(state.head[from..end.max(from)].to_owned());
                }
            };
            (file, state.held_bytes())
        };
        let length = usize::try_from(held.saturating_sub(from)).unwrap_or(usize::MAX).min(bytes_max);
        let mut bytes = vec![0; length];
        let mut read = 0;
        let file = File::open(file)?;
        while read < length {
            match file.read_at(&mut bytes[read..], from + read as u64)? {
                0 => break,
                count => read += count,
            }
        }
        bytes.truncate(read);
        // Cut at a character: at the front where a position is somebody's guess, at the end where the room
        // ends.
        let front = bytes.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
        let text = match std::str::from_utf8(&bytes[front..]) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[front..front + error.valid_up_to()]).unwrap_or(""),
        };
        Ok(text.to_owned())
    }

    fn tail(&self) -> (String, String) {
        self.state().ending()
    }

    fn keep(&self) -> io::Result<Option<PathBuf>> {
        let mut state = self.state();
        if matches!(state.file, OverflowPlace::Memory)
            && !(state.head.is_empty() && state.cleaner.open_line().is_empty())
        {
            state.begin(self.store.as_deref());
        }
        state.finish(self.store.as_deref());
        match &state.file {
            OverflowPlace::Kept(kept) => Ok(Some(kept.path().to_owned())),
            OverflowPlace::Lost(why) => Err(io::Error::other(why.clone())),
            OverflowPlace::Memory | OverflowPlace::File(_) => Ok(None),
        }
    }

    fn last_look(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    fn looked(&self, up_to: u64) {
        self.looked.fetch_max(up_to, Ordering::Relaxed);
    }

    fn more<'a>(&'a self, activity: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let mut told = std::pin::pin!(self.grown.notified());
                told.as_mut().enable();
                if self.state().activity > activity {
                    return;
                }
                told.await;
            }
        })
    }
}

/// Why something can't be written, without the number of the system's error.
fn describe_io_error(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_lowercase()
}

#[cfg(test)]
mod tests;
