//! How much of a result the model sees, and where the rest of it stays.
//!
//! A result over its limit is not cut and forgotten: [`limit_output`] writes the whole of it to a file of the
//! [`OffloadStore`] and gives the model the beginning, the end, the size, the path and how to read on. When
//! all results of a turn are there, [`fit_to_budget`] holds their sum to the turn's budget in the same way.
//!
//! Only text and structured blocks count, in characters, each as [`ResultBlock::to_text`] writes it;
//! pictures, documents and links pass through untouched and are bounded by whoever makes them. What a tool
//! says about its own limit lives with the tool; which results belong to one turn is the engine's knowledge.
//! This part calls no tool, asks nobody and never fails: a file that can't be written costs the middle of the
//! result, says so, and still keeps the limit. (Sending the full text instead, as others do, breaks the next
//! request.)
//!
//! - `keeping` writes a result that is too long for memory to its file while it comes.
//! - `store` keeps files: private, never through a link, removed by age and size.
//! - `preview` cuts text: pure, no files.
//! - `budget` decides who shrinks when a turn's results are too much together.

mod budget;
mod offload_writer;
mod preview;
mod store;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::content::{ResultBlock, ToolOutput};
use crate::limits;
use crate::text::truncate_chars;

pub use budget::{BudgetedResult, fit_to_budget};
pub use offload_writer::{OffloadWriter, OffloadedFile};
pub(crate) use preview::OffloadedPreview;
pub use preview::{OmittedText, ReaderTools};
pub use store::OffloadStore;

use preview::{PreviewSource, RestLocation};

/// How much of a result the model may see at once.
///
/// Written as a number, or as `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultLimit {
    /// At most so many characters; a longer result goes to a file.
    Chars(usize),
    /// The tool pages by itself. Only a turn's budget shortens its results: to a page, or to a file if it
    /// takes no `offset`.
    Unlimited,
}

impl Default for ResultLimit {
    fn default() -> ResultLimit {
        ResultLimit::Chars(limits::RESULT_CHARS)
    }
}

impl Serialize for ResultLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ResultLimit::Chars(chars) => chars.serialize(serializer),
            ResultLimit::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for ResultLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ResultLimit, D::Error> {
        struct LimitVisitor;
        impl de::Visitor<'_> for LimitVisitor {
            type Value = ResultLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of characters or \"unlimited\"")
            }

            fn visit_u64<E: de::Error>(self, chars: u64) -> Result<ResultLimit, E> {
                // Where `usize` is smaller, a number that it can't hold is a limit nothing reaches.
                Ok(ResultLimit::Chars(usize::try_from(chars).unwrap_or(usize::MAX)))
            }

            fn visit_i64<E: de::Error>(self, chars: i64) -> Result<ResultLimit, E> {
                match u64::try_from(chars) {
                    Ok(chars) => self.visit_u64(chars),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(chars), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ResultLimit, E> {
                if text == "unlimited" {
                    return Ok(ResultLimit::Unlimited);
                }
                Err(E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(LimitVisitor)
    }
}

/// A result as the model gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitedOutput {
    /// What the model gets.
    pub output: ToolOutput,
    /// The file that holds the whole result, where it didn't go to the model whole.
    pub offloaded_to: Option<PathBuf>,
    /// What was left out, where something was.
    pub cut: Option<OmittedText>,
}

impl LimitedOutput {
    /// A result that goes to the model as it is, for example an error with its own bound.
    pub fn whole(output: ToolOutput) -> LimitedOutput {
        LimitedOutput { output, offloaded_to: None, cut: None }
    }

    /// Takes over the file that the tool kept itself, unless somebody changed the text since.
    fn adopt(&mut self) {
        let Some(OffloadedPreview { path, cut }) = self.output.take_preview() else { return };
        if earlier_preview(self.output.blocks(), Some(&cut)).is_some() {
            (self.offloaded_to, self.cut) = (Some(path), Some(cut));
        }
    }

    /// Replaces the text of the output by at most `limit` characters of it, the whole going to a file.
    ///
    /// One that is a preview already becomes a shorter preview of the same file.
    fn shorten(&mut self, tool: &str, limit: usize, store: &OffloadStore) {
        let was_cached = self.output.is_cached();
        let blocks = std::mem::take(&mut self.output).into_blocks();
        let (text, cut) = if let Some((source, lost)) = earlier_preview(&blocks, self.cut.as_ref()) {
            let rest = match (&self.offloaded_to, lost) {
                (Some(path), _) => {
                    RestLocation::File { path, readers: store.readers(), held_bytes: source.held_bytes() }
                }
                (None, Some(why)) => RestLocation::Lost { why },
                (None, None) => RestLocation::Page { tool },
            };
            preview::render_preview(&source, &rest, limit)
        } else {
            let (text, form) = whole_text(&blocks);
            let source = PreviewSource::whole(&text, form == TextForm::Json);
            let kept = store.keep(tool, form.extension(), text.as_bytes());
            let why = kept.as_ref().err().map(io_reason);
            self.offloaded_to = kept.ok();
            let rest = match &self.offloaded_to {
                Some(path) => RestLocation::File { path, readers: store.readers(), held_bytes: None },
                None => RestLocation::Lost { why: why.as_deref().unwrap_or_default() },
            };
            preview::render_preview(&source, &rest, limit)
        };
        self.output = replace_text(blocks, text);
        self.output.set_cached(was_cached);
        self.cut = Some(cut);
    }

    /// Replaces the text of the output by its first lines, at most `limit` characters, and no file.
    fn turn_to_page(&mut self, tool: &str, limit: usize) {
        let was_cached = self.output.is_cached();
        let blocks = std::mem::take(&mut self.output).into_blocks();
        let rest = RestLocation::Page { tool };
        let (text, cut) = if let Some((source, _)) = earlier_preview(&blocks, self.cut.as_ref()) {
            preview::render_preview(&source, &rest, limit)
        } else {
            let (text, form) = whole_text(&blocks);
            preview::render_preview(&PreviewSource::whole(&text, form == TextForm::Json), &rest, limit)
        };
        self.output = replace_text(blocks, text);
        self.output.set_cached(was_cached);
        self.cut = Some(cut);
    }
}

/// Brings one result below its limit.
///
/// A result within the limit comes back untouched and uncopied. Otherwise the whole text is in a file of
/// `store`, and one text block stands in place of all text and structured blocks. `tool` names the file and
/// is never trusted as a path.
///
/// ```
/// use haft::{ResultBlock, ToolOutput};
/// use haft::results::{OffloadStore, ResultLimit, limit_output};
///
/// let store = OffloadStore::temporary();
/// let log: String = (1..=5_000).map(|line| format!("line {line}\n")).collect();
/// let settled = limit_output(ToolOutput::new(vec![ResultBlock::text(log.as_str())]), "Bash", ResultLimit::Chars(1_000), &store);
///
/// assert!(settled.output.to_text().chars().count() <= 1_000);
/// let path = settled.offloaded_to.expect("the temporary folder takes a file");
/// assert_eq!(std::fs::read_to_string(path)?, log);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn limit_output(
    output: ToolOutput,
    tool: &str,
    limit: ResultLimit,
    store: &OffloadStore,
) -> LimitedOutput {
    let mut settled = LimitedOutput::whole(output);
    settled.adopt();
    if let ResultLimit::Chars(limit) = limit
        && exceeds_limit(&settled.output, limit)
    {
        settled.shorten(tool, limit, store);
    }
    settled
}

/// Returns whether the output has more than `limit` characters.
fn exceeds_limit(output: &ToolOutput, limit: usize) -> bool {
    // Bytes bound characters from above and cost nothing to count.
    output_bytes(output) > limit && output_chars(output) > limit
}

/// Returns the bytes of all text, structured blocks included.
pub(crate) fn output_bytes(output: &ToolOutput) -> usize {
    let of = |part| match part {
        CountedBlock::Text(text) => text.len(),
        CountedBlock::Json(Value::Number(_) | Value::Bool(_) | Value::Null) => SCALAR_BYTES_MAX,
        CountedBlock::Json(value) => JsonLength::for_value(value).bytes,
    };
    output.blocks().iter().filter_map(counted_block).map(of).sum()
}

/// No number is longer than this: an upper bound that costs nothing, since [`output_bytes`] only has to
/// bound.
const SCALAR_BYTES_MAX: usize = 32;

/// Returns the characters of all text, structured blocks included.
fn output_chars(output: &ToolOutput) -> usize {
    let of = |part| match part {
        CountedBlock::Text(text) => text.chars().count(),
        CountedBlock::Json(value) => JsonLength::for_value(value).chars,
    };
    output.blocks().iter().filter_map(counted_block).map(of).sum()
}

/// A block that counts.
enum CountedBlock<'a> {
    Text(&'a str),
    Json(&'a Value),
}

/// Returns what counts of a block; a structured string reads as its text, as in [`ResultBlock::to_text`].
fn counted_block(block: &ResultBlock) -> Option<CountedBlock<'_>> {
    match block {
        ResultBlock::Text(text) => Some(CountedBlock::Text(text)),
        ResultBlock::Structured(Value::String(text)) => Some(CountedBlock::Text(text)),
        ResultBlock::Structured(value) => Some(CountedBlock::Json(value)),
        ResultBlock::Image(_) | ResultBlock::Document(_) | ResultBlock::Link(_) => None,
    }
}

/// Measures compact JSON without building its text.
#[derive(Default)]
struct JsonLength {
    bytes: usize,
    chars: usize,
}

impl JsonLength {
    fn for_value(value: &Value) -> JsonLength {
        let mut tally = JsonLength::default();
        serde_json::to_writer(&mut tally, value)
            .expect("a JSON value has text keys, and counting can't fail");
        tally
    }
}

impl io::Write for JsonLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        // Every byte but the second to fourth of a character.
        self.chars += bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the whole text of a result is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextForm {
    Text,
    Json,
}

impl TextForm {
    fn extension(self) -> &'static str {
        match self {
            TextForm::Text => "txt",
            TextForm::Json => "json",
        }
    }
}

/// Returns everything that counts as one text: values on many lines, one line break between blocks.
///
/// Compact JSON is one line, which no tool that reads by lines can page through.
fn whole_text(blocks: &[ResultBlock]) -> (Cow<'_, str>, TextForm) {
    let mut parts = blocks.iter().filter_map(counted_block);
    if let (Some(CountedBlock::Text(text)), None) = (parts.next(), parts.next()) {
        return (Cow::Borrowed(text), TextForm::Text);
    }
    let mut whole = String::new();
    let mut form = TextForm::Json;
    for part in blocks.iter().filter_map(counted_block) {
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        match part {
            CountedBlock::Text(text) => {
                form = TextForm::Text;
                whole.push_str(text);
            }
            CountedBlock::Json(value) => whole.push_str(&format!("{value:#}")),
        }
    }
    (Cow::Owned(whole), form)
}

/// Returns the preview that these blocks hold already, and why its rest is lost where it is.
///
/// Nothing if somebody changed the text since it was cut: then it is a new result.
fn earlier_preview<'a>(
    blocks: &'a [ResultBlock],
    cut: Option<&'a OmittedText>,
) -> Option<(PreviewSource<'a>, Option<&'a str>)> {
    let cut = cut?;
    let mut parts = blocks.iter().filter_map(counted_block);
    match (parts.next(), parts.next()) {
        (Some(CountedBlock::Text(text)), None) => {
            Some((PreviewSource::earlier(text, cut)?, cut.lost.as_deref()))
        }
        _ => None,
    }
}

/// Puts one text in place of everything that counts, where the first of it stood.
fn replace_text(blocks: Vec<ResultBlock>, text: String) -> ToolOutput {
    let place = blocks.iter().position(|block| counted_block(block).is_some()).unwrap_or(0);
    let mut kept: Vec<ResultBlock> = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.into_iter().enumerate() {
        if index == place {
            kept.push(ResultBlock::text(text.as_str()));
        }
        if counted_block(&block).is_none() {
            kept.push(block);
        }
    }
    ToolOutput::new(kept)
}

/// Returns why a file could not be written, short enough for a preview.
fn io_reason(error: &io::Error) -> String {
    truncate_chars(&error.to_string(), limits::OFFLOAD_REASON_CHARS).to_owned()
}
