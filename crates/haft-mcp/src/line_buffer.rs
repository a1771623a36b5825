//! Lines of a byte stream, for client and server: found in the read buffer, without copying what follows.

use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits::READ_BYTES;

/// The capacity that is kept between messages.
const CAPACITY_KEPT: usize = 16 * READ_BYTES;

/// Bytes that were read, and how far lines were taken from them.
#[derive(Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far the end of that line was looked for.
    searched: usize,
}

impl LineBuffer {
    /// The next whole line.
    pub(crate) fn next_line(&mut self) -> Option<Range<usize>> {
        let Some(length) = line_end(&self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            return None;
        };
        let (start, end) = (self.start, self.searched + length);
        (self.start, self.searched) = (end + 1, end + 1);
        Some(start..end)
    }

    /// The text of a line, without the carriage return at its end.
    pub(crate) fn text(&self, line: Range<usize>) -> &[u8] {
        let line = &self.bytes[line];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Whether another whole line was read.
    pub(crate) fn has_line(&self) -> bool {
        line_end(&self.bytes[self.searched..]).is_some()
    }

    /// How much of an unfinished line was read.
    pub(crate) fn unfinished(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The last message, which may lack its line end, but must not be truncated.
    pub(crate) fn last_message(&mut self) -> Option<Vec<u8>> {
        let LineBuffer { mut bytes, start, .. } = std::mem::take(self);
        let last = bytes.split_off(start);
        let is_complete = serde_json::from_slice::<serde::de::IgnoredAny>(&last).is_ok();
        is_complete.then_some(last)
    }

    /// Reads more; whether there is more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn fill<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> std::io::Result<bool> {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        // One long message must not keep its memory.
        if self.bytes.capacity() > CAPACITY_KEPT && self.bytes.len() < READ_BYTES {
            self.bytes.shrink_to(READ_BYTES);
        }
        self.bytes.reserve(READ_BYTES);
        Ok(reader.read_buf(&mut self.bytes).await? > 0)
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
