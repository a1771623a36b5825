//! `Read`: the lines of a text file, by pages.
//!
//! Its results are never kept in a file, because they come from one: the tool pages by itself. A page ends at
//! `limit` lines, at a number of characters, or at a number of bytes read, whichever comes first, and says how to
//! read on. Lines before the page are read through, because nobody knows where line 5,000 begins; nothing after the
//! page is read, but for the rest of one chunk.
//!
//! The rule for what is not text: a NUL byte or the signature of a known format at the beginning, or too many
//! characters that UTF-8 or a terminal would not have, at the beginning or in the page. A few wrong bytes are shown
//! as `�`, and said to be: a log with one broken line should be readable.

use std::path::PathBuf;

use haft::files::OpenFile;
use haft::view::visible_line;
use haft::{Class, Context, Effects, Interrupt, Stage, Tool, ToolError, ToolSpec, Unlimited, View};
use memchr::memchr;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::seen::{Hash, Page, Seen};
use crate::{near, paths};

/// Lines of a page, if the call doesn't say.
const LINES: u64 = 2_000;
/// Characters of one line that are shown.
const LINE_CHARS: usize = 2_000;
/// Characters of one page, line numbers included. Within what all results of a turn may have together.
const PAGE_CHARS_MAX: usize = 390_000;
/// Bytes that are read for one page, from its first line on. Only very long lines get there.
const PAGE_BYTES_MAX: u64 = 768 * 1024;
/// Bytes that are read at once for a page.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes that are read at once on the way to a page. More than what is read on the calling task, so a long way
/// leaves room for others and can be cancelled.
const SKIP_BYTES: usize = 2 * haft::limits::INLINE_IO_BYTES;
/// Bytes at the beginning by which binary files are known.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Reads a text file and returns its lines, each as its number, a tab and the text.
///
/// Use it to look at a file whose path you know. It returns up to 2000 lines; when more follow, the last line says
/// so and gives the `offset` to read on with. Lines longer than 2000 characters are cut, and say so. For a large file,
/// give `offset` and `limit` to read only the part you need. Ask for several files at once by several calls.
/// It reads no directories and no binary files such as images, archives or PDF.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadInput {
    /// Path of the file: absolute, or relative to the working directory.
    pub file_path: PathBuf,
    /// Number of the first line to return, counted from 1. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub offset: Option<u32>,
    /// How many lines to return at most. Default: 2000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

/// The tool `Read`.
#[derive(Default)]
pub struct Read {
    seen: Seen,
}

impl Read {
    /// The tool with a memory that others share: what it reads, they know.
    pub fn new(seen: &Seen) -> Read {
        Read { seen: seen.clone() }
    }
}

impl Tool for Read {
    type Input = ReadInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Read")
            .alias("read_file")
            .group("files")
            .feature("files")
            .listed_class(Class::ReadOnly)
            .result_limit(Unlimited)
            .interrupt(Interrupt::Cancel)
            .search_hint("show print cat view open the text of a file")
    }

    fn effects(&self, input: &ReadInput) -> Effects {
        Effects::reads(&input.file_path)
    }

    async fn check(&self, input: &ReadInput, _: &Context) -> Result<(), ToolError> {
        paths::check("file_path", &input.file_path)
    }

    async fn call(&self, input: ReadInput, cx: &Context) -> Result<String, ToolError> {
        let path = &input.file_path;
        let file = match cx.files().open(path).await {
            Ok(file) => file,
            Err(error) => return Err(near::explain(error, path, cx).await),
        };
        let first = u64::from(input.offset.unwrap_or(1)).max(1);
        let limit = input.limit.map_or(LINES, u64::from).max(1);
        let mut reader = Reader::new(file);
        let shown = visible_line(&path.to_string_lossy());
        let page = page(&mut reader, &shown, first, limit).await?;
        let content = reader.is_over.then(|| reader.hash.content());
        let next = page.next;
        self.seen.page(cx, path, reader.file.metadata(), &Page { first, next, content });
        page.text
    }

    fn view(&self, stage: &Stage<'_>) -> Option<View> {
        let path = stage.text("file_path")?;
        let view = View::titled(path.strip_prefix("./").unwrap_or(path));
        Some(match stage {
            Stage::Result { output, .. } => view.summary(summary(&output.to_text())),
            Stage::Error { error, .. } => view.summary(error.message()),
            Stage::Rejected { reason, .. } => view.summary(*reason),
            _ => view,
        })
    }
}

/// `214 lines`, from the text of a result.
fn summary(text: &str) -> String {
    let numbered = |line: &&str| {
        line.split_once('\t').is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match text.lines().filter(numbered).count() {
        0 => "empty".to_owned(),
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    }
}

/// Why a page ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The file did.
    File,
    /// The lines that were asked for are there.
    Limit,
    /// The next line would be too much.
    Full,
}

/// What there is to say of a page, and the number of the line after it.
struct Shown {
    /// An error, if nothing is there: that too is known then.
    text: Result<String, ToolError>,
    next: u64,
}

/// Reads one page: `limit` lines from line `first` on.
async fn page(reader: &mut Reader, path: &str, first: u64, limit: u64) -> Result<Shown, ToolError> {
    let len = reader.file.metadata().len;
    reader.fill(CHUNK_BYTES).await?;
    reader.recognise(path, len)?;
    if reader.is_at_end().await? {
        return Ok(Shown { text: Ok(format!("[`{path}` is empty: it has no lines]")), next: 1 });
    }
    let skipped = reader.skip_lines(first - 1).await?;
    if reader.is_at_end().await? {
        let lines = if skipped == 1 { "1 line" } else { &format!("{skipped} lines") };
        let words = format!("`{path}` has {lines}; an `offset` of {first} is beyond its end");
        return Ok(Shown { text: Err(ToolError::new(words)), next: first });
    }

    let mut page = String::with_capacity(reader.buffer.len() + reader.buffer.len() / 4);
    let mut chars = 0;
    let mut odd = Odd::default();
    let mut next = first;
    let begin = reader.position;
    let mut is_open = false;
    let end = loop {
        if next - first == limit {
            break if reader.is_at_end().await? { End::File } else { End::Limit };
        }
        let began = page.len();
        page.push_str(itoa::Buffer::new().format(next));
        page.push('\t');
        let line = match reader.plain_line(&mut page) {
            true => None,
            false => match reader.line(begin + PAGE_BYTES_MAX).await? {
                Some(line) => Some(line),
                None => {
                    page.truncate(began);
                    break End::File;
                }
            },
        };
        line.iter().for_each(|line| line.show(&mut page));
        page.push('\n');
        let shown_chars = page[began..].chars().count();
        if chars + shown_chars > PAGE_CHARS_MAX && next > first {
            page.truncate(began);
            break End::Full;
        }
        is_open = line.as_ref().is_some_and(|line| line.is_open);
        match &line {
            Some(line) => odd.read(&line.kept),
            None => odd.chars += shown_chars,
        }
        chars += shown_chars;
        next += 1;
        if reader.position - begin >= PAGE_BYTES_MAX {
            break if reader.is_at_end().await? { End::File } else { End::Full };
        }
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
        End::File => {
            page.pop();
        }
        End::Limit => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; more follow, read on with offset {next}]"
        )),
        // Where such a line ends isn't known, so nobody knows whether there is another one.
        End::Full if is_open => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; this page is full, and the end of line {last} was not \
             reached; what may follow that line is read with offset {next}]"
        )),
        End::Full => page.push_str(&format!(
            "[lines {first} to {last} of a file of {len} bytes; this page is full, read on with offset {next}]"
        )),
    }
    Ok(Shown { text: Ok(page), next })
}

/// An open file, read line by line and no further than needed.
struct Reader {
    file: Box<dyn OpenFile>,
    buffer: Vec<u8>,
    /// Where in the buffer the next byte is.
    at: usize,
    /// Where in the file the next byte is.
    position: u64,
    /// Of everything that was read.
    hash: Hash,
    /// The end of the file was read.
    is_over: bool,
}

impl Reader {
    fn new(file: Box<dyn OpenFile>) -> Reader {
        Reader { file, buffer: Vec::new(), at: 0, position: 0, hash: Hash::default(), is_over: false }
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

    fn take(&mut self, bytes: usize) {
        self.at += bytes;
        self.position += bytes as u64;
    }

    async fn is_at_end(&mut self) -> Result<bool, ToolError> {
        Ok(self.fill(CHUNK_BYTES).await?.is_empty())
    }

    /// Refuses what is no text, by its beginning.
    fn recognise(&mut self, path: &str, len: u64) -> Result<(), ToolError> {
        let head = &self.buffer[..self.buffer.len().min(SNIFF_BYTES)];
        let refused = |kind: &str, advice: &str| {
            Err(ToolError::new(format!("`{path}` is {kind}, {len} bytes; Read shows text only{advice}")))
        };
        let known = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature));
        if let Some((_, kind)) = known.filter(|(signature, _)| head.contains(&0) || !is_plain(signature)) {
            let advice = if kind.contains("UTF-") { ", encoded as UTF-8; convert it first" } else { "" };
            return refused(kind, advice);
        }
        if head.contains(&0) {
            return refused("a binary file", "");
        }
        let mut odd = Odd::default();
        odd.read(head);
        if odd.is_too_much() {
            return refused("not UTF-8 text", ", encoded as UTF-8; if it is text, convert it first");
        }
        if head.starts_with(BYTE_ORDER_MARK) {
            self.take(BYTE_ORDER_MARK.len());
        }
        Ok(())
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

    /// Reads a line and shows it, if all of it is there and nothing of it is odd, as it is with nearly all lines.
    fn plain_line(&mut self, page: &mut String) -> bool {
        let bytes = &self.buffer[self.at..];
        let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(LINE_CHARS + 1)]) else { return false };
        let bytes = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        // All bytes are looked at: that is faster than to stop at the first.
        let controls = bytes.iter().filter(|byte| **byte < b' ' && **byte != b'\t').count();
        let Ok(text) = str::from_utf8(bytes) else { return false };
        if controls > 0 {
            return false;
        }
        page.push_str(text);
        self.take(end + 1);
        true
    }

    /// Reads a line; nothing at the end of the file. Its end is looked for up to the position `until`.
    async fn line(&mut self, until: u64) -> Result<Option<Line>, ToolError> {
        let mut line = Line::default();
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

/// As much of a line as is shown, and what is known of the rest.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    /// Characters after what is kept.
    chars_beyond: usize,
    /// The end of the line was not reached.
    is_open: bool,
}

impl Line {
    /// Enough for the longest characters, and to see that there are more.
    const KEPT_BYTES: usize = 4 * (LINE_CHARS + 1);

    fn push(&mut self, bytes: &[u8]) {
        let room = Line::KEPT_BYTES - self.kept.len();
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
        if let Some((cut, _)) = shown.char_indices().nth(LINE_CHARS) {
            let chars = shown.chars().count() + self.chars_beyond;
            let more = if self.is_open { "more than " } else { "" };
            shown.truncate(cut);
            shown.push_str(&format!("… [line cut: {LINE_CHARS} of {more}{chars} characters]"));
        }
        page.push_str(&shown);
    }
}

/// What doesn't belong into text.
#[derive(Default)]
struct Odd {
    chars: usize,
    /// Sequences that are not UTF-8.
    invalid: usize,
    /// Control characters that no text file has.
    controls: usize,
    nuls: usize,
}

impl Odd {
    fn read(&mut self, bytes: &[u8]) {
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

    /// More than a few, and more than three in ten. (Text in another encoding of Europe has about one in ten.)
    fn is_too_much(&self) -> bool {
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

pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Formats that are known by their first bytes. Those that a text could begin with are only believed of a file that
/// has NUL bytes too, but for PDF, which may have none for long.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "a program or library (ELF)"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe\0\0", "text in UTF-32"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
];

fn is_plain(signature: &[u8]) -> bool {
    signature != b"%PDF-" && signature.iter().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
