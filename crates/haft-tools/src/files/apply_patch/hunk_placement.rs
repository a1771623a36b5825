//! Where the changes of a patch belong in a file, and the file after them.
//!
//! A place is found by its lines: first as they stand, then but for white space at their ends, then but for
//! white space at both, then with typographic signs taken for plain ones. Lines that stay are taken from the
//! file and not from the patch, so that a match that is not exact changes no more than it says.

use super::parse::{PatchHunk, PatchLine};
use crate::read::BYTE_ORDER_MARK;

/// Comparisons of lines for one change, before its place counts as not found.
const COMPARED_MAX: usize = 20_000_000;
/// Lines that an error shows.
const LINES_SHOWN: usize = 6;

/// A file after its changes.
#[derive(Debug)]
pub(super) struct PatchedText {
    pub(super) text: Vec<u8>,
    /// Changes whose place was not found to the letter.
    pub(super) fuzzy: usize,
}

/// A line of a file, and its end.
#[derive(Clone, Copy, PartialEq)]
struct FileLine<'a> {
    text: &'a [u8],
    end: &'a [u8],
}

/// Puts the changes into a file.
///
/// # Errors
/// In words: which change has no place.
pub(super) fn place_hunks(file: &[u8], hunks: &[PatchHunk]) -> Result<PatchedText, String> {
    let (mark, body) = match file.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => (BYTE_ORDER_MARK, body),
        None => (&b""[..], file),
    };
    let rows: Vec<FileLine<'_>> =
        body.split_inclusive(|byte| *byte == b'\n').map(FileLine::from_line).collect();
    let usual = rows.first().map(|row| row.end).filter(|end| !end.is_empty()).unwrap_or(b"\n");
    let ended = rows.last().is_none_or(|row| !row.end.is_empty());
    let mut out: Vec<FileLine<'_>> = Vec::with_capacity(rows.len());
    let (mut at, mut fuzzy) = (0, 0);
    for hunk in hunks {
        let from = past_headers(&rows, at, hunk)?;
        let wanted: Vec<&[u8]> = hunk.lines.iter().filter_map(PatchLine::old).map(str::as_bytes).collect();
        // Empty lines at the end of a change may be some too many.
        let spare =
            hunk.lines.iter().rev().take_while(|line| **line == PatchLine::Stays(String::new())).count();
        let needed = &wanted[..wanted.len() - spare.min(wanted.len().saturating_sub(1))];
        let found = |from: usize, at_end: bool| {
            seek_lines(&rows, &wanted, from, at_end).or_else(|| seek_lines(&rows, needed, from, at_end))
        };
        let (start, how) = match wanted.is_empty() {
            // Only new lines: after what leads to them, or at the end.
            true if hunk.headers.is_empty() || hunk.at_end => (rows.len(), 0),
            true => (from, 0),
            false => found(from, hunk.at_end).ok_or_else(|| explain_missing(hunk, &wanted, &rows, from))?,
        };
        fuzzy += usize::from(how > 0);
        let all = seek_lines(&rows[..rows.len().min(start + wanted.len())], &wanted, start, false).is_some();
        let lines = if all { &hunk.lines[..] } else { &hunk.lines[..hunk.lines.len() - spare] };
        out.extend(&rows[at.min(start)..start]);
        at = start;
        for line in lines {
            match line {
                PatchLine::Comes(text) => {
                    // Its end is that of the line that it stands before or replaces.
                    let end = rows.get(at).or(rows.last()).map_or(usual, |row| row.end);
                    let end = if end.is_empty() { usual } else { end };
                    out.push(FileLine { text: text.as_bytes(), end });
                }
                PatchLine::Stays(_) => {
                    out.push(rows[at]);
                    at += 1;
                }
                PatchLine::Goes(_) => at += 1,
            }
        }
    }
    out.extend(&rows[at..]);
    let mut text = mark.to_vec();
    let last = out.len().saturating_sub(1);
    for (number, row) in out.iter().enumerate() {
        text.extend_from_slice(row.text);
        let end = if row.end.is_empty() { usual } else { row.end };
        if number < last || ended {
            text.extend_from_slice(end);
        }
    }
    Ok(PatchedText { text, fuzzy })
}

impl<'a> FileLine<'a> {
    fn from_line(line: &'a [u8]) -> FileLine<'a> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = if text.len() < line.len() { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
        FileLine { text, end: &line[text.len()..] }
    }
}

impl PatchLine {
    fn old(&self) -> Option<&str> {
        match self {
            PatchLine::Stays(text) | PatchLine::Goes(text) => Some(text),
            PatchLine::Comes(_) => None,
        }
    }

    pub(super) fn added(&self) -> Option<&str> {
        match self {
            PatchLine::Comes(text) => Some(text),
            PatchLine::Stays(_) | PatchLine::Goes(_) => None,
        }
    }
}

/// The line after those that lead to a place.
fn past_headers(rows: &[FileLine<'_>], at: usize, hunk: &PatchHunk) -> Result<usize, String> {
    let mut from = at;
    for header in &hunk.headers {
        let found = seek_lines(rows, &[header.as_bytes()], from, false);
        // A header often names the line that the place itself begins with.
        from = found.map(|(found, _)| found + 1).ok_or_else(|| {
            format!("change at line {} of the patch: no line `{header}` follows in the file", hunk.number)
        })?;
    }
    let first = hunk.lines.iter().find_map(PatchLine::old);
    let begins_with_it = from > at
        && first.is_some_and(|first| {
            hunk.headers.last().is_some_and(|header| header.trim() == first.trim())
                && !first.trim().is_empty()
        });
    Ok(if begins_with_it { from - 1 } else { from })
}

/// Where the lines are, from a line on; and how far they had to be bent.
fn seek_lines(rows: &[FileLine<'_>], wanted: &[&[u8]], from: usize, at_end: bool) -> Option<(usize, usize)> {
    let mut compared = 0;
    let last = rows.len().checked_sub(wanted.len()).filter(|last| *last >= from)?;
    for (how, same) in LEVELS.iter().enumerate() {
        let first = at_end.then_some(last).into_iter();
        for start in first.chain(from..=last) {
            let matches = rows[start..].iter().zip(wanted).take_while(|(row, wanted)| {
                compared += 1;
                same(row.text, wanted)
            });
            if matches.count() == wanted.len() {
                return Some((start, how));
            }
            if compared > COMPARED_MAX {
                return None;
            }
        }
    }
    None
}

type SameLine = fn(&[u8], &[u8]) -> bool;

/// When two lines are the same, the strictest first.
const LEVELS: [SameLine; 4] = [
    |one, other| one == other,
    |one, other| one.trim_ascii_end() == other.trim_ascii_end(),
    |one, other| one.trim_ascii() == other.trim_ascii(),
    |one, other| plain_line(one) == plain_line(other),
];

/// A line with typographic signs as plain ones.
fn plain_line(line: &[u8]) -> String {
    let sign = |c: char| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    };
    String::from_utf8_lossy(line).trim().chars().map(sign).collect()
}

fn explain_missing(hunk: &PatchHunk, wanted: &[&[u8]], rows: &[FileLine<'_>], from: usize) -> String {
    let shown = |lines: &[&[u8]]| -> String {
        let lines = lines.iter().take(LINES_SHOWN);
        lines.map(|line| format!("\n    {}", String::from_utf8_lossy(&line[..line.len().min(200)]))).collect()
    };
    let number = hunk.number;
    if seek_lines(rows, wanted, 0, false).is_some() {
        return format!(
            "change at line {number} of the patch: its lines are in the file only before the change above it; \
             give the changes in the order of the file:{}",
            shown(wanted)
        );
    }
    // The longest beginning that is there says where it went wrong.
    let there =
        (1..wanted.len()).rev().find_map(|len| Some((seek_lines(rows, &wanted[..len], from, false)?.0, len)));
    match there {
        Some((start, len)) => {
            let row = rows.get(start + len).map_or("the end of the file".to_owned(), |row| {
                format!("`{}`", String::from_utf8_lossy(&row.text[..row.text.len().min(200)]))
            });
            format!(
                "change at line {number} of the patch: line {} of the file begins to match, but line {} is {row} and the \
                 patch has `{}`",
                start + 1,
                start + len + 1,
                String::from_utf8_lossy(&wanted[len][..wanted[len].len().min(200)])
            )
        }
        None => format!("change at line {number} of the patch: the file has no such lines:{}", shown(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{PatchSection, parse_patch};
    use super::*;

    #[track_caller]
    fn check(file: &str, changes: &str, expected: &str) {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{changes}\n*** End Patch");
        let sections = parse_patch(&patch).unwrap();
        let PatchSection::Update { hunks, .. } = &sections[0] else { panic!("{sections:?}") };
        let said = match place_hunks(file.as_bytes(), hunks) {
            Ok(placed) => String::from_utf8(placed.text).unwrap(),
            Err(words) => words,
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn lines_go_and_come_where_they_belong() {
        check("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n");
        check("a\nb\nc\n", "-a\n-b\n-c", "");
        check("a\nb\na\nb\n", "@@\n-a\n+1\n@@\n-a\n+2", "1\nb\n2\nb\n");
        check("a\nx\nb\nx\n", "@@ b\n-x\n+y", "a\nx\nb\ny\n");
        check(
            "class A\n  def f\n    x\nclass B\n  def f\n    x\n",
            "@@ class B\n@@   def f\n-    x\n+    y",
            "class A\n  def f\n    x\nclass B\n  def f\n    y\n",
        );
        check("fn a() {\n    1\n}\n", "@@ fn a() {\n fn a() {\n-    1\n+    2", "fn a() {\n    2\n}\n");
        check("a\nx\nb\nx\n", "-x\n+end\n*** End of File", "a\nx\nb\nend\n");
        check("a\n", "@@\n+b", "a\nb\n");
        check("a\nc\n", "@@ a\n+b", "a\nb\nc\n");
        check("", "+a", "a\n");
    }

    #[test]
    fn line_ends_marks_and_a_missing_end_stay() {
        check("a\r\nb\r\nc\r\n", " a\n-b\n+B\n+B2", "a\r\nB\r\nB2\r\nc\r\n");
        check("a\nb", "-b\n+c", "a\nc");
        check("a\nb", " b\n+c", "a\nb\nc");
        check("a\nb", "-a\n b", "b");
        check("\u{feff}a\nb\n", "-a\n+A", "\u{feff}A\nb\n");
        check("a\r\nb\nc\r\n", " b\n+x", "a\r\nb\nx\r\nc\r\n");
    }

    #[test]
    fn what_differs_a_little_is_found_and_what_stays_is_the_files() {
        check("  if x:  \n    y\n", "   if x:\n-    y\n+    z", "  if x:  \n    z\n");
        check("\tif x:\n\t\ty\n", " if x:\n-y\n+\t\tz", "\tif x:\n\t\tz\n");
        check(
            "say \u{201c}hi\u{201d} \u{2013} now\nx\n",
            " say \"hi\" - now\n-x\n+y",
            "say \u{201c}hi\u{201d} \u{2013} now\ny\n",
        );
        check("a\nb\n", " a\n-b\n+c\n\n", "a\nc\n");
        check("a\nb\nc\n", "-a\n+A\n\n\n@@\n-b\n+B", "A\nB\nc\n");
        check("a\n\nc\n", "-a\n+A\n\n@@\n-c\n+C", "A\n\nC\n");
    }

    #[test]
    fn what_has_no_place_is_told_why() {
        check(
            "a\nb\nc\n",
            " a\n-x\n+y",
            "change at line 3 of the patch: line 1 of the file begins to match, but line 2 is `b` and the patch has `x`",
        );
        check("a\n", "-x\n+y", "change at line 3 of the patch: the file has no such lines:\n    x");
        check(
            "a\nb\n",
            "-b\n+B\n@@\n-a\n+A",
            "change at line 5 of the patch: its lines are in the file only before the change above it; give the changes in the order of the file:\n    a",
        );
        check(
            "a\n",
            "@@ nowhere\n+y",
            "change at line 3 of the patch: no line `nowhere` follows in the file",
        );
    }
}
