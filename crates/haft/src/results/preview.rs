//! Cutting text: its beginning and its end, and between them words on what is missing and where it is.
//!
//! Pure: the file is already written, or is already known to be lost, when a preview is made. The words count
//! towards the limit, so a short limit gets shorter words, down to a bare `[cut]`. They are measured at the
//! widest they can get, with the largest numbers, and the text gets the room that remains; thus one pass is
//! enough, and the limit holds without trimming the words themselves.
//!
//! A cut falls on a line boundary unless lines are so long that this would throw away half of the room.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::offload_writer::OffloadedFile;
use crate::text::truncate_chars;

/// Lines longer than this on average can't be read by line numbers with any use.
const LONG_LINE_CHARS: usize = 2_000;

/// The words when there is no room for words.
const LEAST: &str = "[cut]";

/// What a preview leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OmittedText {
    /// Characters of the whole text.
    pub chars: usize,
    /// Lines of the whole text.
    pub lines: usize,
    /// Characters that the model doesn't see.
    pub chars_left_out: usize,
    /// Lines of which the model doesn't see all.
    pub lines_left_out: usize,
    /// Why the rest could not be kept, where it couldn't.
    pub lost: Option<String>,
    /// How many bytes of the text the file holds, where it could not take all of it.
    pub held_bytes: Option<u64>,
    /// Where the pieces lie in the preview, to make a shorter one from it.
    pieces: PreviewPieces,
}

/// What the text of an output stands for, when the tool kept the whole itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OffloadedPreview {
    pub(super) path: PathBuf,
    pub(super) cut: OmittedText,
}

/// What has to be known of a preview to cut it again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PreviewPieces {
    head_bytes: usize,
    tail_bytes: usize,
    preview_bytes: usize,
    tail_opens_line: bool,
    newlines: usize,
    is_json: bool,
}

impl OmittedText {
    /// Returns the beginning and the end of the whole text within its `render_preview`.
    #[cfg(test)]
    pub(super) fn pieces<'a>(&self, preview: &'a str) -> (&'a str, &'a str) {
        let source = PreviewSource::earlier(preview, self).expect("the preview this cut was made with");
        (source.head, source.tail)
    }
}

/// A text to cut: known whole, or as the two pieces of an earlier preview.
pub(super) struct PreviewSource<'a> {
    head: &'a str,
    tail: &'a str,
    tail_opens_line: bool,
    chars: usize,
    lines: usize,
    newlines: usize,
    is_json: bool,
    held_bytes: Option<u64>,
}

impl<'a> PreviewSource<'a> {
    /// A text of which only the beginning and the end are at hand.
    pub(super) fn kept(kept: &OffloadedFile, head: &'a str, tail: &'a str) -> PreviewSource<'a> {
        PreviewSource {
            head,
            tail,
            tail_opens_line: false,
            chars: kept.chars(),
            lines: kept.lines(),
            newlines: kept.newlines(),
            is_json: false,
            held_bytes: (kept.held_bytes() < kept.bytes()).then(|| kept.held_bytes()),
        }
    }

    pub(super) fn held_bytes(&self) -> Option<u64> {
        self.held_bytes
    }

    /// A whole text.
    pub(super) fn whole(text: &'a str, is_json: bool) -> PreviewSource<'a> {
        let newlines = count_newlines(text);
        PreviewSource {
            head: text,
            tail: text,
            tail_opens_line: true,
            chars: text.chars().count(),
            lines: newlines + usize::from(!text.is_empty() && !text.ends_with('\n')),
            newlines,
            is_json: is_json || looks_like_json(text),
            held_bytes: None,
        }
    }

    /// The text behind a preview, unless the preview isn't the one that `cut` describes.
    pub(super) fn earlier(preview: &'a str, cut: &OmittedText) -> Option<PreviewSource<'a>> {
        let pieces = &cut.pieces;
        if preview.len() != pieces.preview_bytes {
            return None;
        }
        Some(PreviewSource {
            head: preview.get(..pieces.head_bytes)?,
            tail: preview.get(preview.len().checked_sub(pieces.tail_bytes)?..)?,
            tail_opens_line: pieces.tail_opens_line,
            chars: cut.chars,
            lines: cut.lines,
            newlines: pieces.newlines,
            is_json: pieces.is_json,
            held_bytes: cut.held_bytes,
        })
    }

    /// Says what is missing once these pieces are shown.
    fn gap(&self, head: &str, tail: &str, tail_opens_line: bool) -> PreviewGap {
        let newlines_between = self.newlines.saturating_sub(count_newlines(head) + count_newlines(tail));
        PreviewGap {
            chars: self.chars.saturating_sub(head.chars().count() + tail.chars().count()),
            lines: newlines_between + usize::from(!tail_opens_line),
            head_lines: count_newlines(head),
            head_chars: head.chars().count(),
        }
    }
}

/// The tools that a preview tells the model to read a kept file with.
///
/// By default `Read` and `Grep`. Name only tools that the model is offered, or it will call one that isn't
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderTools {
    /// Reads a file by `offset` and `limit`.
    pub read: Option<Arc<str>>,
    /// Searches a file.
    pub search: Option<Arc<str>>,
}

impl Default for ReaderTools {
    fn default() -> ReaderTools {
        ReaderTools { read: Some("Read".into()), search: Some("Grep".into()) }
    }
}

/// Where the text that isn't shown can be had.
pub(super) enum RestLocation<'a> {
    /// In a file.
    File {
        path: &'a Path,
        readers: &'a ReaderTools,
        /// How much of it, if not all.
        held_bytes: Option<u64>,
    },
    /// Nowhere.
    Lost { why: &'a str },
    /// From the same tool, called again.
    Page { tool: &'a str },
}

/// What is missing between the two pieces.
#[derive(Clone, Copy)]
struct PreviewGap {
    chars: usize,
    lines: usize,
    head_lines: usize,
    head_chars: usize,
}

/// How many words to make. Tried in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GapWording {
    Full,
    Short,
    Shorter,
    Bare,
}

/// Returns at most `limit` characters that stand for a text which is longer than that.
///
/// A limit too small for `[cut]` gets `[cut]`.
pub(super) fn render_preview(
    source: &PreviewSource<'_>,
    rest: &RestLocation<'_>,
    limit: usize,
) -> (String, OmittedText) {
    let (wording, room) = choose_wording(source, rest, limit);
    let head_room = if matches!(rest, RestLocation::Page { .. }) { room } else { room - room / 3 };
    let head = match rest {
        RestLocation::Page { .. } => head_of_page(source.head, head_room),
        _ => head_of(source.head, head_room),
    };
    let (tail, tail_opens_line) = tail_of(source, room - head_room);
    let gap = source.gap(head, tail, tail_opens_line);
    let words = wording.map_or(Cow::Borrowed(LEAST), |wording| gap_text(source, rest, gap, wording).into());

    let mut text = String::with_capacity(head.len() + words.len() + tail.len() + 2);
    text.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&words);
    if !tail.is_empty() {
        text.push('\n');
        text.push_str(tail);
    }
    let pieces = PreviewPieces {
        head_bytes: head.len(),
        tail_bytes: tail.len(),
        preview_bytes: text.len(),
        tail_opens_line,
        newlines: source.newlines,
        is_json: source.is_json,
    };
    let cut = OmittedText {
        chars: source.chars,
        lines: source.lines,
        chars_left_out: gap.chars,
        lines_left_out: gap.lines,
        lost: if let RestLocation::Lost { why } = rest { Some((*why).to_owned()) } else { None },
        held_bytes: source.held_bytes,
        pieces,
    };
    (text, cut)
}

/// Returns the longest wording that leaves room for text, and how many characters of text it leaves.
fn choose_wording(
    source: &PreviewSource<'_>,
    rest: &RestLocation<'_>,
    limit: usize,
) -> (Option<GapWording>, usize) {
    for wording in [GapWording::Full, GapWording::Short, GapWording::Shorter, GapWording::Bare] {
        let widest = widest_gap(source, rest, wording);
        // The two line breaks around the words count as well.
        let room = limit.saturating_sub(widest + 2);
        let fits = match wording {
            // Long words on a short preview would say much about little.
            GapWording::Full => room >= widest,
            _ => widest <= limit,
        };
        if fits {
            return (Some(wording), room);
        }
    }
    (None, 0)
}

/// Returns the most characters that the words can take, whatever the pieces turn out to be.
fn widest_gap(source: &PreviewSource<'_>, rest: &RestLocation<'_>, wording: GapWording) -> usize {
    let most = PreviewGap {
        chars: source.chars,
        lines: source.lines,
        head_lines: source.lines,
        head_chars: source.chars,
    };
    // Pages have other words where not even one line fits.
    let no_line = PreviewGap { head_lines: 0, ..most };
    [most, no_line]
        .map(|gap| gap_text(source, rest, gap, wording).chars().count())
        .into_iter()
        .max()
        .unwrap_or(0)
}

fn gap_text(
    source: &PreviewSource<'_>,
    rest: &RestLocation<'_>,
    gap: PreviewGap,
    wording: GapWording,
) -> String {
    let all = format_characters(source.chars);
    match (rest, wording) {
        (RestLocation::File { path, readers, held_bytes: None }, GapWording::Full) => format!(
            "[{}; the whole result is in {} ({all}, {}){}]",
            missing_text(source, gap),
            path.display(),
            format_lines(source.lines),
            reading_hint(source, readers),
        ),
        (RestLocation::File { path, readers, held_bytes: Some(held) }, GapWording::Full) => format!(
            "[{}; the whole result had {all}, {}; its first {} bytes are in {}, the rest was too long to keep{}]",
            missing_text(source, gap),
            format_lines(source.lines),
            format_number(usize::try_from(*held).unwrap_or(usize::MAX)),
            path.display(),
            reading_hint(source, readers),
        ),
        (RestLocation::File { path, held_bytes, .. }, GapWording::Short) => {
            format!("[cut: {all}, {} in {}]", whole_or_part(*held_bytes), path.display())
        }
        (RestLocation::File { path, held_bytes, .. }, GapWording::Shorter) => {
            let name = path.file_name().unwrap_or_default();
            format!("[cut: {all}, {} in file {}]", whole_or_part(*held_bytes), name.display())
        }
        (RestLocation::Lost { why }, GapWording::Full) => format!(
            "[{}; the whole result had {all}, {}; what is missing is lost, since it could not be kept in a file: \
             {why}; if it matters, call the tool again for less]",
            missing_text(source, gap),
            format_lines(source.lines),
        ),
        (RestLocation::Lost { why }, GapWording::Short) => format!("[cut: {all}, the rest is lost: {why}]"),
        (RestLocation::Lost { .. }, GapWording::Shorter) => format!("[cut: {all}, the rest is lost]"),
        (RestLocation::Page { tool }, GapWording::Full) if gap.head_lines > 0 => format!(
            "[shown: lines 1–{} of the {} of this page ({} of {all}), since the results of this turn are too long \
             together; call {tool} again for the part that follows, with an offset {} further on]",
            gap.head_lines,
            format_lines(source.lines),
            format_number(gap.head_chars),
            format_lines(gap.head_lines),
        ),
        (RestLocation::Page { tool }, GapWording::Full) => format!(
            "[shown: {} of {all} of this page, within its first line, since the results of this turn are too long \
             together; call {tool} again alone, or for a smaller part]",
            format_number(gap.head_chars),
        ),
        (RestLocation::Page { tool }, GapWording::Short) if gap.head_lines > 0 => {
            format!("[shown: {} of {} lines; call {tool} again for the rest]", gap.head_lines, source.lines)
        }
        (RestLocation::Page { tool }, GapWording::Short) => {
            format!("[cut: {all}; call {tool} again for the rest]")
        }
        (RestLocation::Page { .. }, GapWording::Shorter) => format!("[cut: {all}; call again for the rest]"),
        (_, GapWording::Bare) => format!("[cut: {all}]"),
    }
}

/// Says whether a file holds all.
fn whole_or_part(held_bytes: Option<u64>) -> &'static str {
    if held_bytes.is_some() { "beginning" } else { "whole" }
}

/// Says how much is missing at this place, and who left it out.
fn missing_text(source: &PreviewSource<'_>, gap: PreviewGap) -> String {
    let missing = format!("haft left out {} here", format_characters(gap.chars));
    if source.lines <= 1 {
        return missing;
    }
    format!("{missing}, {} from line {} on", format_lines(gap.lines), gap.head_lines + 1)
}

/// Says how to read on, naming only tools that are there.
fn reading_hint(source: &PreviewSource<'_>, readers: &ReaderTools) -> String {
    let mut text = match (&readers.read, &readers.search) {
        (Some(read), Some(search)) => {
            format!("; read it with {read} using offset and limit, or search it with {search}")
        }
        (Some(read), None) => format!("; read it with {read} using offset and limit"),
        (None, Some(search)) => format!("; search it with {search}"),
        (None, None) => String::new(),
    };
    if source.is_json {
        text.push_str("; it is JSON: where there is a shell, `jq` picks out parts");
    } else if source.chars / source.lines.max(1) > LONG_LINE_CHARS {
        text.push_str("; its lines are long: where there is a shell, `cut -c` reads a part of each");
    }
    text
}

fn format_characters(count: usize) -> String {
    format!("{} character{}", format_number(count), if count == 1 { "" } else { "s" })
}

pub(super) fn format_lines(count: usize) -> String {
    format!("{} line{}", format_number(count), if count == 1 { "" } else { "s" })
}

/// Writes a number with a comma before every third digit.
pub(super) fn format_number(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns at most so many characters from the beginning, up to a line's end if that wastes less than half.
fn head_of(text: &str, room: usize) -> &str {
    let piece = truncate_chars(text, room);
    match piece.rfind('\n') {
        Some(at) if piece.len() < text.len() && at + 1 >= piece.len() / 2 => &piece[..=at],
        _ => piece,
    }
}

/// Returns at most so many characters from the beginning, up to a line's end if there is one.
fn head_of_page(text: &str, room: usize) -> &str {
    let piece = truncate_chars(text, room);
    match piece.rfind('\n') {
        Some(at) if piece.len() < text.len() => &piece[..=at],
        _ => piece,
    }
}

/// Returns at most so many characters from the end, from a line's start if that wastes less than half, and
/// whether they open a line.
fn tail_of<'a>(source: &PreviewSource<'a>, room: usize) -> (&'a str, bool) {
    let text = source.tail;
    let piece = last_chars(text, room);
    if piece.len() == text.len() {
        return (piece, source.tail_opens_line);
    }
    if text[..text.len() - piece.len()].ends_with('\n') {
        return (piece, true);
    }
    match piece.find('\n') {
        Some(at) if at < piece.len() / 2 => (&piece[at + 1..], true),
        _ => (piece, false),
    }
}

fn last_chars(text: &str, chars: usize) -> &str {
    let Some(before) = chars.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(before).map_or(text, |(start, _)| &text[start..])
}

fn count_newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns whether a text is a JSON object or array; many tools print one as text.
fn looks_like_json(text: &str) -> bool {
    // The first character decides for nearly all other text.
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}
