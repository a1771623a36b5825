//! `Read`: what is in a file, whatever it is: text by pages, pictures, PDF, notebooks; and what is in a
//! directory.
//!
//! The kind is found by the first bytes, never by the name alone. What isn't plain text is read by a part of
//! its own, each a feature of the crate, and only once such a file is met. Those decode what others wrote, so
//! they run in a child process with limits of memory and time, and a crash of one is an error like any other
//! (`decoding`).
//!
//! Results are never kept in a file, because they come from one: the tool pages by itself. A page of text
//! ends at `limit` lines, at a number of characters, or at a number of bytes read, whichever comes first, and
//! says how to read on.
//!
//! The rule for what is not text: a NUL byte or the signature of a known format at the beginning, or too many
//! characters that no text has. A few wrong bytes in UTF-8 are shown as `�`, and said to be: a log with one
//! broken line should be readable. Where nothing is UTF-8 the encoding is detected.

#[cfg(feature = "encodings")]
mod encoding;
#[cfg(feature = "notebooks")]
mod notebook;
#[cfg(feature = "pdf")]
mod pdf;
mod text;

use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::files::FileErrorKind;
use haft::text::truncate_chars;
use haft::tool::Interrupt;
use haft::view::{CallStage, visible_line};
use haft::{CallView, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec, Unlimited};
use schemars::JsonSchema;
use serde::Deserialize;

#[cfg(any(feature = "images", feature = "notebooks"))]
use crate::read_tracker::ContentHash;
use crate::read_tracker::{ReadTracker, ShownPage};
use crate::{ls, path_suggestions, paths};
use text::{LineReader, OddBytes, read_page};

/// Lines of a page, if the call doesn't say.
const LINES: u64 = 2_000;
/// Bytes at the beginning by which binary files are known.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;
/// Entries of a directory that are shown.
const ENTRIES_MAX: usize = 1_000;

/// Reads a file and shows what is in it.
///
/// Use it to look at a file whose path you know. Text comes as lines, each as its number, a tab and the text:
/// up to 2000 of them; when more follow, the last line says so and gives the `offset` to read on with. Lines
/// longer than 2000 characters are cut, and say so. For a large file, give `offset` and `limit` to read only
/// the part you need. Text that is not UTF-8 is decoded. Pictures (PNG, JPEG, GIF, WebP) are shown to you,
/// scaled down if they are large. Of a PDF you get the text of its pages, up to 100 at once; give `pages` for
/// some of them, and `images` to see them as they look. Of a notebook (`.ipynb`) you get the cells with their
/// outputs; with `offset` or `limit`, its lines of JSON. Of a directory you get the names in it. Ask for
/// several files at once by several calls.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadInput {
    /// Path of the file: absolute, or relative to the working directory.
    pub file_path: PathBuf,
    /// For text: number of the first line to return, counted from 1. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub offset: Option<u32>,
    /// For text: how many lines to return at most. Default: 2000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// For PDF: the pages to return, such as `3`, `1-5`, `7-` or `1-3,8`. Default: all, up to 100.
    #[serde(default)]
    pub pages: Option<String>,
    /// For PDF: whether to return pictures of the pages instead of their text, up to 10. Default: false.
    #[serde(default)]
    pub images: Option<bool>,
}

/// The tool `Read`.
#[derive(Default)]
pub struct Read {
    seen: ReadTracker,
}

impl Read {
    /// The tool with a memory that others share: what it reads, they know.
    pub fn new(seen: &ReadTracker) -> Read {
        Read { seen: seen.clone() }
    }
}

impl Tool for Read {
    type Input = ReadInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Read")
            .granted_files_only()
            .alias("read_file")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Unlimited)
            .interrupt(Interrupt::Cancel)
            .search_hint("show print cat view open a file: text image picture PDF notebook")
    }

    fn effects(&self, input: &ReadInput) -> Effects {
        Effects::reads(&input.file_path)
    }

    async fn check(&self, input: &ReadInput, _: &Context) -> Result<(), ToolError> {
        let path = input.file_path.to_string_lossy();
        let without_slash = path.trim_end_matches('/');
        let path = if without_slash.is_empty() { &*path } else { without_slash };
        if path != "/" {
            paths::check_path("file_path", Path::new(path))?;
        }
        input.pages.as_deref().map_or(Ok(()), |pages| PageRanges::parse(pages).map(drop))
    }

    async fn call(&self, input: ReadInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let path = &input.file_path;
        let file = match cx.files().open(path).await {
            Ok(file) => file,
            Err(error) if error.kind() == FileErrorKind::IsDirectory => {
                return list_directory(path, cx).await;
            }
            Err(error) => return Err(path_suggestions::explain_missing(error, path, cx).await),
        };
        let mut reader = LineReader::new(file);
        let shown = visible_line(&path.to_string_lossy());
        let head = reader.beginning().await?;
        let by_lines = input.offset.is_some() || input.limit.is_some();
        let kind = FileContentKind::detect(head, path, by_lines);
        if input.pages.is_some() && !kind.has_pages() {
            let words =
                format!("`pages` is for PDF, and `{shown}` is none; for text give `offset` and `limit`");
            return Err(ToolError::new(words));
        }
        match kind {
            FileContentKind::Text => {
                reader.skip_mark();
                self.lines(&input, reader, &shown, cx).await
            }
            #[cfg(feature = "encodings")]
            FileContentKind::Encoded => encoding::read_encoded_page(self, &input, reader, &shown, cx).await,
            #[cfg(feature = "images")]
            FileContentKind::Picture(format) => {
                let (metadata, bytes) = read_all(reader, &shown).await?;
                let content = ContentHash::from_bytes(&bytes);
                let output = crate::images::read_image(&bytes, format, &shown, cx).await?;
                Ok(self.whole(cx, path, &metadata, content, output))
            }
            #[cfg(feature = "pdf")]
            FileContentKind::Pdf => {
                let (metadata, bytes) = read_all(reader, &shown).await?;
                let content = ContentHash::from_bytes(&bytes);
                let output = pdf::read_pdf(&input, &bytes, &shown, cx).await?;
                Ok(self.whole(cx, path, &metadata, content, output))
            }
            #[cfg(feature = "notebooks")]
            FileContentKind::Notebook => {
                let (metadata, bytes) = read_all(reader, &shown).await?;
                let content = ContentHash::from_bytes(&bytes);
                let output = notebook::read_notebook(&bytes, &shown, cx).await?;
                Ok(self.whole(cx, path, &metadata, content, output))
            }
            FileContentKind::Refused(what, advice) => {
                let len = reader.file.metadata().len;
                Err(ToolError::new(format!("`{shown}` is {what}, {len} bytes; Read shows {SHOWN}{advice}")))
            }
        }
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let path = stage.text("file_path")?;
        let view = CallView::titled(path.strip_prefix("./").unwrap_or(path));
        Some(match stage {
            CallStage::Result { output, .. } => view.summary(result_summary(&output.to_text())),
            _ => view.why(stage),
        })
    }
}

impl Read {
    /// What is said of a file that is read whole: it is known now, and said if it was another one before.
    #[cfg(any(feature = "images", feature = "notebooks"))]
    fn whole(
        &self,
        cx: &Context,
        path: &Path,
        metadata: &haft::files::FileMetadata,
        content: ContentHash,
        output: ToolOutput,
    ) -> ToolOutput {
        let changed = self.seen.has_changed(cx, path, metadata, Some(content));
        self.seen.whole(cx, path, metadata, content);
        if !changed {
            return output;
        }
        let view = output.view().cloned();
        let mut blocks = output.into_blocks();
        blocks.push(haft::ResultBlock::text(CHANGED.trim_start()));
        let output = ToolOutput::new(blocks);
        match view {
            Some(view) => output.with_view(view),
            None => output,
        }
    }

    /// A page of text.
    async fn lines(
        &self,
        input: &ReadInput,
        mut reader: LineReader,
        shown: &str,
        cx: &Context,
    ) -> Result<ToolOutput, ToolError> {
        let first = u64::from(input.offset.unwrap_or(1)).max(1);
        let limit = input.limit.map_or(LINES, u64::from).max(1);
        let page = read_page(&mut reader, shown, first, limit).await?;
        // A last line that found no room on the page was read as well, and not shown.
        let content = (reader.is_over && page.is_last).then(|| reader.hash.content());
        let next = page.next;
        let seen = ShownPage { first, next, content };
        let changed = self.seen.page(cx, &input.file_path, reader.file.metadata(), &seen);
        let mut text = page.text?;
        if changed {
            text.push_str(CHANGED);
        }
        text.into_output()
    }
}

/// What is said of a file that is another one than when it was last read.
const CHANGED: &str = "\n[the file has changed since it was last read in this session]";

/// What this build can show.
const SHOWN: &str = if cfg!(feature = "pdf") {
    "text, pictures and PDF"
} else if cfg!(feature = "images") {
    "text and pictures"
} else {
    "text only"
};

/// All bytes of a file that is read whole.
#[cfg(any(feature = "encodings", feature = "images", feature = "notebooks"))]
async fn read_all(
    reader: LineReader,
    shown: &str,
) -> Result<(haft::files::FileMetadata, Vec<u8>), ToolError> {
    let metadata = reader.file.metadata().clone();
    let too_large = |len: u64| {
        let max = haft::limits::FILE_BYTES_MAX;
        ToolError::new(format!("`{shown}` has {len} bytes; files of this kind are read up to {max}"))
    };
    if metadata.len > haft::limits::FILE_BYTES_MAX {
        return Err(too_large(metadata.len));
    }
    let bytes = reader.whole().await?;
    let len = bytes.len() as u64;
    if len > haft::limits::FILE_BYTES_MAX { Err(too_large(len)) } else { Ok((metadata, bytes)) }
}

/// The names in a directory.
async fn list_directory(path: &Path, cx: &Context) -> Result<ToolOutput, ToolError> {
    let entries = cx.files().list(path).await?;
    let shown = paths::display_path(&paths::normalize_path(path, cx), cx.cwd());
    let mut lines = vec![format!(
        "[`{shown}` is a directory with {}; LS shows it as a tree]",
        paths::count_noun(entries.len(), "entry", "entries")
    )];
    lines.extend(ls::entry_names(&entries, ENTRIES_MAX));
    if entries.len() > ENTRIES_MAX {
        lines.push(format!("[{} more; find files by name with Glob]", entries.len() - ENTRIES_MAX));
    }
    lines.extend(paths::unnameable_note(entries.iter().map(|entry| Path::new(&entry.name))));
    let view = CallView::titled(&shown).summary(paths::count_noun(entries.len(), "entry", "entries"));
    Ok(lines.join("\n").into_output()?.with_view(view))
}

/// Pages of a document, as a call names them: ranges, counted from 1; one without an end goes to the last
/// page.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "pdf", derive(serde::Serialize, serde::Deserialize))]
struct PageRanges(Vec<(usize, Option<usize>)>);

/// Ranges of pages in one call.
const RANGES_MAX: usize = 100;

impl PageRanges {
    fn parse(text: &str) -> Result<PageRanges, ToolError> {
        let senseless = || {
            let shown = truncate_chars(text, 60);
            ToolError::invalid_input(format!(
                "`pages` is `{shown}`; give page numbers from 1 and ranges, such as `3`, `1-5`, `7-` or `1-3,8`"
            ))
        };
        let number = |text: &str| match text.trim().parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(senseless()),
        };
        let range = |range: &str| match range.split_once('-') {
            None => number(range).map(|page| (page, Some(page))),
            Some((first, "")) => number(first).map(|first| (first, None)),
            Some((first, last)) => match (number(first)?, number(last)?) {
                (first, last) if first <= last => Ok((first, Some(last))),
                _ => Err(senseless()),
            },
        };
        let ranges: Vec<_> = text.split(',').map(range).collect::<Result<_, _>>()?;
        if ranges.len() > RANGES_MAX { Err(senseless()) } else { Ok(PageRanges(ranges)) }
    }
}

/// `214 lines`, from the text of a result.
fn result_summary(text: &str) -> String {
    let numbered = |line: &&str| {
        line.split_once('\t').is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match text.lines().filter(numbered).count() {
        0 => "empty".to_owned(),
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    }
}

/// What a file is, as far as its beginning tells.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FileContentKind {
    /// UTF-8, or near enough.
    Text,
    /// Text in another encoding.
    #[cfg(feature = "encodings")]
    Encoded,
    #[cfg(feature = "images")]
    Picture(crate::images::ModelImageFormat),
    #[cfg(feature = "pdf")]
    Pdf,
    #[cfg(feature = "notebooks")]
    Notebook,
    /// Something that can't be shown, and what to do about it.
    Refused(&'static str, &'static str),
}

impl FileContentKind {
    fn has_pages(self) -> bool {
        #[cfg(feature = "pdf")]
        return self == FileContentKind::Pdf;
        #[cfg(not(feature = "pdf"))]
        false
    }

    fn detect(beginning: &[u8], path: &Path, by_lines: bool) -> FileContentKind {
        let head = &beginning[..beginning.len().min(SNIFF_BYTES)];
        #[cfg(feature = "images")]
        if let Some(format) = crate::images::ModelImageFormat::detect(head) {
            return FileContentKind::Picture(format);
        }
        let known = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature));
        if let Some((signature, what)) =
            known.filter(|(signature, _)| head.contains(&0) || !is_plain(signature))
        {
            return match *signature {
                #[cfg(feature = "pdf")]
                PDF => FileContentKind::Pdf,
                #[cfg(feature = "encodings")]
                b"\xff\xfe" | b"\xfe\xff" => FileContentKind::Encoded,
                _ if what.contains("UTF-") => FileContentKind::Refused(what, "; convert it to UTF-8 first"),
                _ => FileContentKind::Refused(what, ""),
            };
        }
        if head.contains(&0) {
            return FileContentKind::Refused("a binary file", "");
        }
        #[cfg(feature = "notebooks")]
        if !by_lines
            && path.extension().is_some_and(|extension| extension == "ipynb")
            && head.trim_ascii_start().starts_with(b"{")
        {
            return FileContentKind::Notebook;
        }
        let _ = (path, by_lines);
        #[cfg(feature = "encodings")]
        if encoding::is_legacy(beginning) {
            return FileContentKind::Encoded;
        }
        if text::plain_prefix(head).len() == head.len() {
            return FileContentKind::Text;
        }
        let mut odd = OddBytes::default();
        odd.read(head);
        if odd.is_too_much() {
            FileContentKind::Refused(
                "not text that can be decoded",
                "; if it is text, convert it to UTF-8 first",
            )
        } else {
            FileContentKind::Text
        }
    }
}

/// The text of a file that is not UTF-8, as `Read` would show it; nothing for any other.
pub(crate) fn decode_legacy(bytes: &[u8]) -> Option<String> {
    #[cfg(feature = "encodings")]
    return encoding::decode_file(bytes);
    #[cfg(not(feature = "encodings"))]
    {
        let _ = bytes;
        None
    }
}

pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How a PDF begins.
const PDF: &[u8] = b"%PDF-";

/// Formats that are known by their first bytes. Those that a text could begin with are only believed of a
/// file that has NUL bytes too, but for PDF, which may have none for long.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (PDF, "a PDF document"),
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
    signature != PDF && signature.iter().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
