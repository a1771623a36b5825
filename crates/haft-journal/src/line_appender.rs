//! Appends records to the file: numbers the lines, joins them into one write, and syncs them with
//! one fsync.
//!
//! After a failed write, the file is truncated to the last complete line, and the write can be
//! retried: a full disk may have space later. A failed *fsync* can't be retried: the kernel may
//! have dropped the dirty pages, so later data could not be trusted. The journal then accepts
//! nothing more. [`journal_writer`](crate::journal_writer) decides when.

use crate::journal_disk::JournalDisk;
use crate::limits::{COPIED_BYTES_MAX, LINE_BYTES_MAX, QUEUE_BYTES_MAX};
use crate::line_format;
use crate::record::Record;
use crate::record_encoding;
use crate::secret_redactor::SecretRedactor;

/// How much of the line buffer is reused between writes, in bytes.
const KEPT_BYTES_MAX: usize = 4 * COPIED_BYTES_MAX;

/// A record that waits to be written.
pub(crate) struct PendingLine {
    /// The record without its opening brace.
    pub(crate) json: Vec<u8>,
    /// The time of the record, in milliseconds since 1970.
    pub(crate) at: u64,
    /// Whether the record is retried after a failed write, because no caller waits for it.
    pub(crate) retries: bool,
}

/// Appends lines to the end of the file.
pub(crate) struct LineAppender {
    disk: Box<dyn JournalDisk>,
    /// The length of the complete lines.
    length: u64,
    /// The number of the next line.
    next: u64,
    redactor: SecretRedactor,
    /// Why the journal accepts nothing more.
    failure: Option<String>,
    /// Records to retry.
    unwritten: Vec<PendingLine>,
    /// The line buffer.
    lines: Vec<u8>,
}

impl LineAppender {
    /// Creates an appender for a file with `length` bytes and `next` complete lines.
    pub(crate) fn open_at(
        disk: Box<dyn JournalDisk>,
        (length, next): (u64, u64),
        redactor: SecretRedactor,
    ) -> LineAppender {
        LineAppender { disk, length, next, redactor, failure: None, unwritten: Vec::new(), lines: Vec::new() }
    }

    /// Returns whether records wait for a retry.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Returns whether the journal accepts nothing more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Rejects all further records. The first reason stays.
    pub(crate) fn fail_permanently(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }

    /// Writes all entries or none. Entries that are retried are written first the next time.
    pub(crate) fn write(
        &mut self,
        entries: impl Iterator<Item = PendingLine>,
        syncs: bool,
    ) -> Result<(), String> {
        let mut all = std::mem::take(&mut self.unwritten);
        for entry in entries {
            all.push(PendingLine { json: self.redactor.redact_json(entry.json), ..entry });
        }
        let written = self.append(&all).and_then(|()| if syncs { self.sync() } else { Ok(()) });
        if written.is_err() {
            self.unwritten = all.into_iter().filter(|entry| entry.retries).collect();
            let bytes: usize = self.unwritten.iter().map(|entry| entry.json.len()).sum();
            if bytes > QUEUE_BYTES_MAX {
                self.fail_permanently(
                    "the journal could not be written for too long and accepts no more records",
                );
            }
            if self.failure.is_some() {
                self.unwritten.clear();
            }
        }
        written
    }

    /// Prepares for the last write: stops preallocation.
    pub(crate) fn finish(&mut self) {
        self.disk.finish();
    }

    /// Releases the file's lock and rejects further records.
    pub(crate) fn unlock(&mut self) {
        self.failure.get_or_insert_with(|| "the journal is closed".to_owned());
        self.disk.unlock();
    }

    fn append(&mut self, entries: &[PendingLine]) -> Result<(), String> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut lines = std::mem::take(&mut self.lines);
        let appended = self.append_lines(entries, &mut lines);
        lines.clear();
        if lines.capacity() <= KEPT_BYTES_MAX {
            self.lines = lines;
        }
        match appended {
            Ok(length) => {
                (self.length, self.next) = (self.length + length, self.next + entries.len() as u64);
                Ok(())
            }
            Err(error) => {
                if let Err(worse) = self.disk.truncate(self.length) {
                    self.fail_permanently(&format!(
                        "the journal could not be written ({error}) nor truncated ({worse})"
                    ));
                }
                Err(format!("the journal could not be written: {error}"))
            }
        }
    }

    /// Appends the entries as lines, and returns their length in bytes.
    fn append_lines(&mut self, entries: &[PendingLine], lines: &mut Vec<u8>) -> std::io::Result<u64> {
        let mut length = 0;
        for (stamp, entry) in (self.next..).zip(entries) {
            let stamp = (stamp, entry.at);
            match entry.json.len() {
                // Large records are written without another copy.
                bytes if (COPIED_BYTES_MAX..=LINE_BYTES_MAX).contains(&bytes) => {
                    line_format::begin_line(lines, stamp, &entry.json);
                    length += lines.len() + bytes;
                    self.disk.append(lines)?;
                    self.disk.append(&entry.json)?;
                    lines.clear();
                    lines.push(b'\n');
                }
                bytes if bytes > LINE_BYTES_MAX => {
                    let note = Record::note(format!("a record of {bytes} bytes was too long to keep"));
                    line_format::append_line(lines, stamp, &record_encoding::encode_record(&note));
                }
                _ => line_format::append_line(lines, stamp, &entry.json),
            }
        }
        length += lines.len();
        if !lines.is_empty() {
            self.disk.append(lines)?;
        }
        Ok(length as u64)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.disk.sync().map_err(|error| {
            let message = format!(
                "failed to sync the journal: {error}; its contents are unreliable, so it accepts \
                         no more records"
            );
            self.fail_permanently(&message);
            message
        })
    }
}
