//! What appends to the file: lines are numbered here, put together, written in one piece and synced with one call.
//!
//! A write that failed is undone by cutting the file to the last whole line, and may be tried again: a full disk can have
//! room later. A *sync* that failed can't: the kernel may have dropped what it couldn't write, so nothing that follows
//! could be trusted, and the journal takes no more. Who holds the pen, and when, is [`writer`](crate::journal_writer)'s matter.

use std::time::{Duration, Instant};

use crate::journal_disk::JournalDisk;
use crate::limits::{COPIED_BYTES_MAX, LINE_BYTES_MAX, QUEUE_BYTES_MAX};
use crate::line_format;
use crate::record::Record;
use crate::record_encoding;
use crate::secret_redactor::SecretRedactor;

/// How long a disk may take that is waited for in the place, without another thread.
const QUICK: Duration = Duration::from_millis(1);
/// How much of the memory for lines is kept from write to write, in bytes.
const KEPT_BYTES_MAX: usize = 4 * COPIED_BYTES_MAX;

/// What becomes a line.
pub(crate) struct PendingLine {
    /// The record, without its first brace.
    pub(crate) json: Vec<u8>,
    /// When it was noted, in milliseconds since 1970.
    pub(crate) at: u64,
    /// Whether nobody waits for it, so that it is kept when it can't be written.
    pub(crate) keeps: bool,
}

/// The end of the file, and the way to it.
pub(crate) struct LineAppender {
    disk: Box<dyn JournalDisk>,
    /// Up to here there are whole lines.
    length: u64,
    /// The number of the next line.
    next: u64,
    redactor: SecretRedactor,
    /// Why nothing can be written any more.
    lost: Option<String>,
    /// What could not be written and still has to be: nobody waits for it.
    unwritten: Vec<PendingLine>,
    /// Lines that are being put together.
    lines: Vec<u8>,
    /// How long the last write took.
    write_took: Duration,
    /// How long the last sync took; the first makes the file's place safe too, and is never quick.
    sync_took: Duration,
}

impl LineAppender {
    /// At the end of this file, which has `length` bytes and `next` whole lines.
    pub(crate) fn at(
        disk: Box<dyn JournalDisk>,
        (length, next): (u64, u64),
        redactor: SecretRedactor,
    ) -> LineAppender {
        LineAppender {
            disk,
            length,
            next,
            redactor,
            lost: None,
            unwritten: Vec::new(),
            lines: Vec::new(),
            write_took: Duration::ZERO,
            sync_took: Duration::MAX,
        }
    }

    /// Whether the disk did this so quickly the last time that it isn't worth a word to another thread.
    pub(crate) fn is_quick(&self, syncs: bool) -> bool {
        self.write_took <= QUICK && (!syncs || self.sync_took <= QUICK)
    }

    /// Whether something has to be written that could not be before.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Whether nothing can be written any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Takes no more, if it still does.
    pub(crate) fn lose(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
    }

    /// Writes all or nothing of it. What nobody waits for is kept and written first the next time.
    pub(crate) fn write(
        &mut self,
        entries: impl Iterator<Item = PendingLine>,
        syncs: bool,
    ) -> Result<(), String> {
        let mut all = std::mem::take(&mut self.unwritten);
        for entry in entries {
            all.push(PendingLine { json: self.redactor.clean_json(entry.json), ..entry });
        }
        let written = self.append(&all).and_then(|()| if syncs { self.sync() } else { Ok(()) });
        if written.is_err() {
            self.unwritten = all.into_iter().filter(|entry| entry.keeps).collect();
            let bytes: usize = self.unwritten.iter().map(|entry| entry.json.len()).sum();
            if bytes > QUEUE_BYTES_MAX {
                self.lose("the journal could not be written for too long; it takes no more");
            }
            if self.lost.is_some() {
                self.unwritten.clear();
            }
        }
        written
    }

    /// What is written now is the last.
    pub(crate) fn end(&mut self) {
        self.disk.end();
    }

    /// Gives the file to others. Nothing can be written any more.
    pub(crate) fn release(&mut self) {
        self.lost.get_or_insert_with(|| "the journal is closed".to_owned());
        self.disk.release();
    }

    fn append(&mut self, entries: &[PendingLine]) -> Result<(), String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if entries.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let mut lines = std::mem::take(&mut self.lines);
        let appended = self.lines(entries, &mut lines);
        lines.clear();
        if lines.capacity() <= KEPT_BYTES_MAX {
            self.lines = lines;
        }
        self.write_took = started.elapsed();
        match appended {
            Ok(length) => {
                (self.length, self.next) = (self.length + length, self.next + entries.len() as u64);
                Ok(())
            }
            Err(error) => {
                if let Err(worse) = self.disk.cut(self.length) {
                    self.lose(&format!("the journal could not be written ({error}) nor mended ({worse})"));
                }
                Err(format!("the journal could not be written: {error}"))
            }
        }
    }

    /// Appends these lines; says how many bytes they are.
    fn lines(&mut self, entries: &[PendingLine], lines: &mut Vec<u8>) -> std::io::Result<u64> {
        let mut length = 0;
        for (stamp, entry) in (self.next..).zip(entries) {
            let stamp = (stamp, entry.at);
            match entry.json.len() {
                // As it is, without another copy.
                bytes if (COPIED_BYTES_MAX..=LINE_BYTES_MAX).contains(&bytes) => {
                    line_format::begin(lines, stamp, &entry.json);
                    length += lines.len() + bytes;
                    self.disk.append(lines)?;
                    self.disk.append(&entry.json)?;
                    lines.clear();
                    lines.push(b'\n');
                }
                bytes if bytes > LINE_BYTES_MAX => {
                    let note = Record::note(format!("a record of {bytes} bytes was too long to keep"));
                    line_format::put(lines, stamp, &record_encoding::record(&note));
                }
                _ => line_format::put(lines, stamp, &entry.json),
            }
        }
        length += lines.len();
        if !lines.is_empty() {
            self.disk.append(lines)?;
        }
        Ok(length as u64)
    }

    fn sync(&mut self) -> Result<(), String> {
        let started = Instant::now();
        let synced = self.disk.sync();
        self.sync_took = started.elapsed();
        synced.map_err(|error| {
            let words =
                format!("the journal's disk failed: {error}; what it has is in doubt, so it takes no more");
            self.lose(&words);
            words
        })
    }
}
