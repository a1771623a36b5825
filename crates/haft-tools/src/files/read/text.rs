//! Text by pages: lines with their numbers, as many as fit.
//!
//! Lines before a page are read through, because nobody knows where line 5,000 begins; nothing after the page
//! is read, but for the rest of one chunk.

use haft::ToolError;
use haft::files::OpenFile;
use memchr::memchr;

use super::BYTE_ORDER_MARK;
use crate::read_tracker::ContentHasher;

/// Characters of one line that are shown.
pub(super) const LINE_CHARS: usize = 2_000;
/// Characters of one page, line numbers included. Within what all results of a turn may have together.
pub(super) const PAGE_CHARS_MAX: usize = 390_000;
/// Bytes that are read for one page, from its first line on. Only very long lines get there.
const PAGE_BYTES_MAX: u64 = 768 * 1024;
/// Bytes that are read at once for a page.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes that are read at once on the way to a page. More than what is read on the calling task, so a long
/// way leaves room for others and can be cancelled.
pub(super) const SKIP_BYTES: usize = 2 * haft::limits::INLINE_IO_BYTES;

/// Characters of a line that room is made for beforehand.
const LINE_CHARS_GUESS: u64 = 120;
/// Bytes that are looked at together for anything odd: more than a line that is shown whole.
const LOOK_BYTES: usize = 4 * LINE_CHARS;

/// Why a page ended.
#[derive(Clone, Copy, PartialEq)]
enum PageEnd {
    /// The file did.
    File,
    /// The lines that were asked for are there.
    Limit,
    /// The next line would be too much.
    Full,
}

/// What there is to say of a page, and the number of the line after it.
pub(super) struct TextPage {
    /// An error, if nothing is there: that too is known then.
    pub(super) text: Result<String, ToolError>,
    pub(super) next: u64,
    /// Nothing follows it.
    pub(super) is_last: bool,
}

/// Reads one page: `limit` lines from line `first` on.
pub(super) async fn read_page(
    reader: &mut LineReader,
    path: &str,
    first: u64,
    limit: u64,
) -> Result<TextPage, ToolError> {
    let len = reader.file.metadata().len;
    if reader.is_at_end().await? {
        return Ok(TextPage {
            text: Ok(format!("[`{path}` is empty: it has no lines]")),
            next: 1,
            is_last: true,
        });
    }
    let skipped = reader.skip_lines(first - 1).await?;
    if reader.is_at_end().await? {
        let lines = if skipped == 1 { "1 line" } else { &format!("{skipped} lines") };
        let words = format!("`{path}` has {lines}; an `offset` of {first} is beyond its end");
        return Ok(TextPage { text: Err(ToolError::new(words)), next: first, is_last: true });
    }

    let room = len.min(PAGE_CHARS_MAX as u64).min(limit.saturating_mul(LINE_CHARS_GUESS)) as usize;
    let mut page = String::with_capacity(room + room / 4);
    let mut chars = 0;
    let mut odd = OddBytes::default();
    let mut next = first;
    let begin = reader.position;
    let until = begin + PAGE_BYTES_MAX;
    let mut is_open = false;
    let end = loop {
        let (lines, shown) =
            reader.plain_lines(&mut page, next, limit - (next - first), PAGE_CHARS_MAX - chars, until);
        if lines > 0 {
            (next, is_open) = (next + lines, false);
            (chars, odd.chars) = (chars + shown, odd.chars + shown);
        }
        if reader.position >= until {
            break if reader.is_at_end().await? { PageEnd::File } else { PageEnd::Full };
        }
        if next - first == limit {
            break if reader.is_at_end().await? { PageEnd::File } else { PageEnd::Limit };
        }
        let Some(line) = reader.line(until).await? else { break PageEnd::File };
        let began = page.len();
        write_line_number(&mut page, next);
        line.show(&mut page);
        page.push('\n');
        let shown = page[began..].chars().count();
        if chars + shown > PAGE_CHARS_MAX && next > first {
            page.truncate(began);
            break PageEnd::Full;
        }
        is_open = line.is_open;
        odd.read(&line.kept);
        chars += shown;
        next += 1;
    };
    if odd.is_too_much() {
        let words = format!(
            "`{path}` is not text from line {first} on, although it begins like text ({len} bytes); \
             Read shows text only"
        );
        return Err(ToolError::new(words));
    }
    page.push_str(&odd.words());
    let last = next - 1;
    match end {
        PageEnd::File => {
            page.pop();
        }
        PageEnd::Limit => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; more follow, read on with offset {next}]"
        )),
        // Where such a line ends isn't known, so nobody knows whether there is another one.
        PageEnd::Full if is_open => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; this page is full, and the end of line {last} was not \
             reached; what may follow that line is read with offset {next}]"
        )),
        PageEnd::Full => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; this page is full, read on with offset {next}]"
        )),
    }
    Ok(TextPage { text: Ok(page), next, is_last: end == PageEnd::File })
}

/// What stands before a line.
fn write_line_number(page: &mut String, line: u64) {
    page.push_str(itoa::Buffer::new().format(line));
    page.push('\t');
}

/// An open file, read line by line and no further than needed.
pub(super) struct LineReader {
    pub(super) file: Box<dyn OpenFile>,
    buffer: Vec<u8>,
    /// Where in the buffer the next byte is.
    at: usize,
    /// Where in the file the next byte is.
    position: u64,
    /// Of everything that was read.
    pub(super) hash: ContentHasher,
    /// The end of the file was read.
    pub(super) is_over: bool,
}

impl LineReader {
    pub(super) fn new(file: Box<dyn OpenFile>) -> LineReader {
        LineReader {
            file,
            buffer: Vec::new(),
            at: 0,
            position: 0,
            hash: ContentHasher::default(),
            is_over: false,
        }
    }

    /// Makes sure that there are bytes to look at, if the file has more.
    async fn fill(&mut self, bytes: usize) -> Result<&[u8], ToolError> {
        if self.at == self.buffer.len() {
            self.buffer = self.file.read(bytes).await?;
            self.at = 0;
            self.hash.add(&self.buffer);
            self.is_over |= self.buffer.is_empty();
        }
        Ok(&self.buffer[self.at..])
    }

    /// The beginning, as much as is read at once.
    pub(super) async fn beginning(&mut self) -> Result<&[u8], ToolError> {
        self.fill(CHUNK_BYTES).await
    }

    /// Passes over a byte order mark.
    pub(super) fn skip_mark(&mut self) {
        if self.position == 0 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.take(BYTE_ORDER_MARK.len());
        }
    }

    /// All of the file, of which only the beginning was read.
    #[cfg(any(feature = "encodings", feature = "images", feature = "notebooks"))]
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, ToolError> {
        let mut bytes = std::mem::take(&mut self.buffer);
        // One byte more than was said: a file that grows meanwhile is read to the end all the same, up to the
        // bound.
        let max = haft::limits::FILE_BYTES_MAX as usize + 1;
        loop {
            let more = self.file.read(SKIP_BYTES.max(self.file.metadata().len as usize).min(max)).await?;
            if more.is_empty() || bytes.len() >= max {
                bytes.truncate(max);
                return Ok(bytes);
            }
            bytes.extend(more);
        }
    }

    fn take(&mut self, bytes: usize) {
        self.at += bytes;
        self.position += bytes as u64;
    }

    async fn is_at_end(&mut self) -> Result<bool, ToolError> {
        Ok(self.fill(CHUNK_BYTES).await?.is_empty())
    }

    /// Reads over this many lines; returns how many there were.
    async fn skip_lines(&mut self, lines: u64) -> Result<u64, ToolError> {
        let mut skipped = 0;
        let mut in_line = false;
        while skipped < lines {
            let bytes = self.fill(SKIP_BYTES).await?;
            if bytes.is_empty() {
                break;
            }
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            in_line = bytes.last() != Some(&b'\n');
            let taken = if skipped + ends < lines {
                skipped += ends;
                bytes.len()
            } else {
                let mut left = lines - skipped;
                let last = bytes.iter().position(|byte| {
                    left -= u64::from(*byte == b'\n');
                    left == 0
                });
                (skipped, in_line) = (lines, false);
                last.map_or(bytes.len(), |last| last + 1)
            };
            self.take(taken);
        }
        Ok(skipped + u64::from(in_line))
    }

    /// Reads lines and shows them with their numbers, from this one on, as long as all of a line is there and
    /// nothing of it is odd: so it is with nearly all of them. Says how many lines those were, and how many
    /// characters.
    fn plain_lines(
        &mut self,
        page: &mut String,
        first: u64,
        most: u64,
        room: usize,
        until: u64,
    ) -> (u64, usize) {
        let (mut lines, mut chars) = (0, 0);
        loop {
            let bytes = &self.buffer[self.at..];
            let text = plain_prefix(&bytes[..bytes.len().min(LOOK_BYTES)]);
            let (is_ascii, has_returns) = (text.is_ascii(), text.contains('\r'));
            let mut from = 0;
            while lines < most && self.position + (from as u64) < until {
                let Some(len) = memchr(b'\n', &text.as_bytes()[from..]) else { break };
                let mut line = &text[from..from + len];
                if has_returns {
                    line = line.strip_suffix('\r').unwrap_or(line);
                }
                let line_chars = if is_ascii { line.len() } else { line.chars().count() };
                if len > LINE_CHARS || has_returns && line.contains('\r') {
                    break;
                }
                let began = page.len();
                write_line_number(page, first + lines);
                let shown = page.len() - began + line_chars + 1;
                if chars + shown > room {
                    page.truncate(began);
                    break;
                }
                if has_returns {
                    page.push_str(line);
                    page.push('\n');
                } else {
                    page.push_str(&text[from..=from + len]);
                }
                (lines, chars) = (lines + 1, chars + shown);
                from += len + 1;
            }
            self.take(from);
            if from == 0 {
                return (lines, chars);
            }
        }
    }

    /// Reads a line; nothing at the end of the file. Its end is looked for up to the position `until`.
    async fn line(&mut self, until: u64) -> Result<Option<ShownLine>, ToolError> {
        let mut line = ShownLine::default();
        let mut any = false;
        loop {
            let until = usize::try_from(until.saturating_sub(self.position)).unwrap_or(usize::MAX);
            let bytes = self.fill(CHUNK_BYTES).await?;
            if bytes.is_empty() {
                return Ok(any.then_some(line));
            }
            any = true;
            let bytes = &bytes[..bytes.len().min(until.max(1))];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let text = &bytes[..end.unwrap_or(bytes.len())];
            line.push(text);
            let taken = text.len() + usize::from(end.is_some());
            let stop = until <= taken;
            self.take(taken);
            if end.is_some() {
                return Ok(Some(line));
            }
            if stop {
                line.is_open = true;
                return Ok(Some(line));
            }
        }
    }
}

/// The beginning that is UTF-8 without any control character but white space.
pub(super) fn plain_prefix(bytes: &[u8]) -> &str {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()),
    };
    let odd = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    // All bytes of a block are looked at: that is faster than to stop at the first.
    let mut blocks = text.as_bytes().chunks(64);
    match blocks.position(|block| block.iter().fold(false, |any, byte| any | odd(byte))) {
        None => text,
        Some(block) => {
            let from = block * 64;
            let at = text.as_bytes()[from..].iter().position(odd);
            &text[..at.map_or(text.len(), |at| from + at)]
        }
    }
}

/// As much of a line as is shown, and what is known of the rest.
#[derive(Default)]
struct ShownLine {
    kept: Vec<u8>,
    /// Characters after what is kept.
    chars_beyond: usize,
    /// The end of the line was not reached.
    is_open: bool,
}

impl ShownLine {
    /// Enough for the longest characters, and to see that there are more.
    const KEPT_BYTES: usize = 4 * (LINE_CHARS + 1);

    fn push(&mut self, bytes: &[u8]) {
        let room = ShownLine::KEPT_BYTES - self.kept.len();
        let (kept, beyond) = bytes.split_at(bytes.len().min(room));
        self.kept.extend_from_slice(kept);
        // Every byte but the second to fourth of a character.
        self.chars_beyond += beyond.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    }

    /// Writes the line as the model sees it.
    fn show(&self, page: &mut String) {
        let whole = self.chars_beyond == 0 && !self.is_open;
        let bytes = if whole { self.kept.strip_suffix(b"\r").unwrap_or(&self.kept) } else { &self.kept };
        let mut shown = String::from_utf8_lossy(bytes).replace('\0', "␀");
        let end = haft::text::truncate_chars(&shown, LINE_CHARS).len();
        if end < shown.len() {
            let chars = shown.chars().count() + self.chars_beyond;
            let more = if self.is_open { "more than " } else { "" };
            shown.truncate(end);
            shown.push_str(&format!("… [line cut: {LINE_CHARS} of {more}{chars} characters]"));
        }
        page.push_str(&shown);
    }
}

/// What doesn't belong into text.
#[derive(Default)]
pub(super) struct OddBytes {
    chars: usize,
    /// Sequences that are not UTF-8.
    invalid: usize,
    /// Control characters that no text file has.
    controls: usize,
    nuls: usize,
}

impl OddBytes {
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid();
            self.chars += valid.chars().count();
            self.nuls += valid.bytes().filter(|byte| *byte == 0).count();
            // Tab to carriage return, and escape, which begins a colour in a log.
            let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t'..=b'\r' | 0x1b);
            self.controls += valid.bytes().filter(control).count();
            let invalid = usize::from(!chunk.invalid().is_empty());
            self.invalid += invalid;
            self.chars += invalid;
        }
    }

    /// More than a few, and more than three in ten. (Text in another encoding of Europe has about one in
    /// ten.)
    pub(super) fn is_too_much(&self) -> bool {
        let odd = self.invalid + self.controls;
        odd > 16 && odd * 10 > self.chars * 3
    }

    fn words(&self) -> String {
        let mut words = String::new();
        if self.invalid > 0 {
            words.push_str("[this page has bytes that are not UTF-8, shown as �]\n");
        }
        if self.nuls > 0 {
            words.push_str("[this page has NUL bytes, shown as ␀]\n");
        }
        words
    }
}
