//! Incremental Markdown rendering: finished lines are emitted, and the unfinished rest can be
//! rendered at any time.
//!
//! Each source line is a line of its own: models break lines intentionally. A finished line is
//! emitted immediately, so an answer of any length needs memory for its last lines only. Only a
//! table is buffered until it ends, to align its columns. Unknown syntax is shown as its source.

mod inline;
mod table;

use haft::text::truncate_bytes;

use crate::limits::{LINE_BYTES_MAX, TABLE_ROWS_MAX};
use crate::style::{Line, Style};

use self::inline::{LineCompleteness, inline};

/// Renders one text.
#[derive(Debug)]
pub(crate) struct MarkdownWriter {
    columns: usize,
    /// The prefix of the first line; further lines are indented by its width.
    bullet: Line,
    begun: bool,
    /// Whether an empty line is due before the next output.
    blank: bool,
    /// The line that is being received.
    unfinished: String,
    /// Whether that line continues one that was too long.
    is_continuation: bool,
    within: BlockState,
}

#[derive(Debug)]
enum BlockState {
    Text,
    Code(CodeFence),
    /// The rows so far.
    Table(Vec<String>),
}

#[derive(Debug, Clone, Copy)]
struct CodeFence {
    mark: u8,
    length: usize,
    indent: usize,
    /// Whether added and removed lines are highlighted.
    diff: bool,
}

impl MarkdownWriter {
    /// Creates a writer for lines of `columns` columns; the first starts with `bullet`, and the
    /// others are indented.
    pub(crate) fn new(columns: usize, bullet: Line) -> MarkdownWriter {
        MarkdownWriter {
            columns,
            bullet,
            begun: false,
            blank: false,
            unfinished: String::new(),
            is_continuation: false,
            within: BlockState::Text,
        }
    }

    /// Sets the width of further lines.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Processes more text; appends the finished lines.
    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<Line>) {
        let mut rest = text;
        while let Some(end) = rest.find('\n') {
            if self.unfinished.is_empty() {
                self.line(&rest[..end], out);
            } else {
                self.unfinished.push_str(&rest[..end]);
                let line = std::mem::take(&mut self.unfinished);
                self.line(&line, out);
            }
            self.is_continuation = false;
            rest = &rest[end + 1..];
        }
        self.unfinished.push_str(rest);
        while self.unfinished.len() > LINE_BYTES_MAX {
            let part = split(&mut self.unfinished);
            self.line(&part, out);
            self.is_continuation = true;
        }
    }

    /// Ends the text; appends the remaining lines.
    pub(crate) fn finish(&mut self, out: &mut Vec<Line>) {
        let last = std::mem::take(&mut self.unfinished);
        if !last.is_empty() {
            self.line(&last, out);
        }
        self.end_table(out);
        self.within = BlockState::Text;
    }

    /// Renders the unfinished part as if it were finished.
    pub(crate) fn tail(&self) -> Vec<Line> {
        let mut shown = MarkdownWriter::new(self.columns, self.bullet.clone());
        (shown.begun, shown.blank, shown.is_continuation) = (self.begun, self.blank, self.is_continuation);
        let mut out = Vec::new();
        match &self.within {
            BlockState::Text => {}
            BlockState::Code(fence) => shown.within = BlockState::Code(*fence),
            BlockState::Table(rows) => shown.within = BlockState::Table(rows.clone()),
        }
        let last = self.unfinished.trim_end();
        if !last.is_empty() {
            match &mut shown.within {
                // The rows of a table are rendered together, and the last one may be incomplete.
                BlockState::Table(rows) if is_row(last) => rows.push(last.to_owned()),
                BlockState::Code(fence) if fence.is_beginning_of(last) => {}
                _ if is_mark(last) => {}
                _ => shown.lines(last, LineCompleteness::No, &mut out),
            }
        }
        shown.end_table(&mut out);
        out
    }

    fn line(&mut self, line: &str, out: &mut Vec<Line>) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            let mut rest = line.to_owned();
            while !rest.is_empty() {
                let part = split(&mut rest);
                self.lines(&part, LineCompleteness::Yes, out);
                self.is_continuation = true;
            }
            self.is_continuation = false;
        } else {
            self.lines(line, LineCompleteness::Yes, out);
        }
    }

    fn lines(&mut self, line: &str, completeness: LineCompleteness, out: &mut Vec<Line>) {
        if let BlockState::Code(fence) = &self.within {
            if fence.is_end(line) {
                self.within = BlockState::Text;
            } else {
                let fence = *fence;
                self.code(line, fence, out);
            }
            return;
        }
        if let BlockState::Table(rows) = &mut self.within {
            if is_row(line) {
                rows.push(line.to_owned());
                if rows.len() == TABLE_ROWS_MAX {
                    self.end_table(out);
                }
                return;
            }
            self.end_table(out);
        }
        let trimmed = line.trim_start();
        if trimmed.trim_end().is_empty() {
            self.blank = self.begun;
            return;
        }
        let indent = line.len() - trimmed.len();
        if self.is_continuation {
            return self.text(Line::default(), trimmed, Style::PLAIN, indent, completeness, out);
        }
        if let Some(fence) = CodeFence::parse(line) {
            self.within = BlockState::Code(fence);
            return;
        }
        if is_row(line) {
            self.within = BlockState::Table(vec![line.to_owned()]);
            return;
        }
        let level = trimmed.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && trimmed[level..].starts_with(' ') {
            let title = trimmed[level..].trim().trim_end_matches('#').trim_end();
            self.blank = self.begun;
            return self.text(Line::default(), title, Style::HEADING, 0, completeness, out);
        }
        if is_rule(trimmed) {
            let rule = "─".repeat(self.inner().min(40));
            return self.put(Line::from_text(&rule, Style::DIM), out);
        }
        if let Some(quoted) = trimmed.strip_prefix('>') {
            let bar = Line::from_text("│ ", Style::DIM);
            return self.quote(bar, quoted.trim_start(), completeness, out);
        }
        if let Some((mark, rest)) = parse_list_item(trimmed) {
            let mut lead = Line::default();
            lead.push_spaces(indent.min(self.inner() / 3));
            let (mark, rest) = match (mark, parse_checkbox(rest)) {
                (_, Some((done, rest))) => (if done { "☑" } else { "☐" }, rest),
                ("-" | "*" | "+", None) => ("•", rest),
                (number, None) => (number, rest),
            };
            lead.push(mark, Style::DIM);
            lead.push_spaces(1);
            return self.text(lead, rest, Style::PLAIN, 0, completeness, out);
        }
        self.text(Line::default(), trimmed, Style::PLAIN, indent, completeness, out);
    }

    fn inner(&self) -> usize {
        self.columns.saturating_sub(self.bullet.width()).max(8)
    }

    fn text(
        &mut self,
        mut lead: Line,
        text: &str,
        style: Style,
        indent: usize,
        completeness: LineCompleteness,
        out: &mut Vec<Line>,
    ) {
        lead.push_spaces(indent.min(self.inner() / 3));
        let hang = lead.width();
        lead.append(&inline(text, style, completeness));
        for line in lead.wrap(self.inner(), hang) {
            self.put(line, out);
        }
    }

    fn quote(&mut self, bar: Line, text: &str, completeness: LineCompleteness, out: &mut Vec<Line>) {
        let quoted = inline(text, Style::PLAIN.italic(), completeness);
        for line in quoted.wrap(self.inner() - bar.width(), 0) {
            let mut shown = bar.clone();
            shown.append(&line);
            self.put(shown, out);
        }
    }

    fn code(&mut self, line: &str, fence: CodeFence, out: &mut Vec<Line>) {
        let style = match line.bytes().next() {
            Some(b'+') if fence.diff => Style::SUCCESS,
            Some(b'-') if fence.diff => Style::ERROR,
            _ => Style::CODE,
        };
        let indent = line.bytes().take(fence.indent).take_while(|byte| *byte == b' ').count();
        for part in Line::from_text(&line[indent..], style).chop(self.inner() - 2) {
            let mut shown = Line::default();
            shown.push_spaces(2);
            shown.append(&part);
            self.put(shown, out);
        }
    }

    fn end_table(&mut self, out: &mut Vec<Line>) {
        if let BlockState::Table(rows) = &mut self.within {
            let rows = std::mem::take(rows);
            self.within = BlockState::Text;
            for line in table::lay_out(&rows, self.inner()) {
                self.put(line, out);
            }
        }
    }

    fn put(&mut self, line: Line, out: &mut Vec<Line>) {
        if std::mem::take(&mut self.blank) && self.begun {
            out.push(Line::default());
        }
        let mut shown = Line::default();
        if std::mem::replace(&mut self.begun, true) {
            if !line.is_empty() {
                shown.push_spaces(self.bullet.width());
            }
        } else {
            shown.append(&self.bullet);
        }
        shown.append(&line);
        out.push(shown);
    }
}

impl CodeFence {
    fn parse(line: &str) -> Option<CodeFence> {
        let rest = line.trim_start();
        let mark = rest.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
        let length = rest.bytes().take_while(|byte| *byte == mark).count();
        let language = rest[length..].trim();
        (length >= 3 && !language.contains('`')).then(|| CodeFence {
            mark,
            length,
            indent: line.len() - rest.len(),
            diff: matches!(language, "diff" | "patch"),
        })
    }

    fn is_end(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && self.is_beginning_of(line)
    }

    /// Returns whether a line may become the closing fence.
    fn is_beginning_of(&self, line: &str) -> bool {
        line.trim().bytes().all(|byte| byte == self.mark)
    }
}

/// Splits off the start of a line that is too long, at a space if possible.
fn split(text: &mut String) -> String {
    let mut end = truncate_bytes(text, LINE_BYTES_MAX).len();
    if end < text.len() {
        end = text[..end].rfind(' ').map_or(end, |blank| blank + 1);
    }
    let rest = text.split_off(end);
    std::mem::replace(text, rest)
}

fn is_row(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.len() > 1
}

fn is_rule(line: &str) -> bool {
    let marks = |mark: char| {
        line.chars().all(|c| c == mark || c == ' ') && line.chars().filter(|c| *c == mark).count() >= 3
    };
    marks('-') || marks('*') || marks('_')
}

/// Returns whether an unfinished line consists of block markers only: a list, a heading, a fence, a
/// table.
fn is_mark(line: &str) -> bool {
    let line = line.trim();
    line.bytes().all(|byte| matches!(byte, b'-' | b'*' | b'+' | b'#' | b'`' | b'~' | b'|' | b'>' | b'_'))
}

/// Returns the marker of a list item, and the rest of the line.
fn parse_list_item(line: &str) -> Option<(&str, &str)> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match line.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    let rest = line[mark..].strip_prefix(' ')?;
    Some((&line[..mark], rest.trim_start()))
}

fn parse_checkbox(text: &str) -> Option<(bool, &str)> {
    let done = match text.get(..4)? {
        "[ ] " => false,
        "[x] " | "[X] " => true,
        _ => return None,
    };
    Some((done, &text[4..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(source: &str, columns: usize) -> Vec<String> {
        let mut markdown = MarkdownWriter::new(columns, Line::plain("● "));
        let mut out = Vec::new();
        markdown.push(source, &mut out);
        markdown.finish(&mut out);
        out.iter().map(Line::text).collect()
    }

    fn check(source: &str, expected: &[&str]) {
        assert_eq!(rendered(source, 30), expected, "{source}");
    }

    #[test]
    fn blocks_are_laid_out() {
        check("Hello *you*.\n\n\nMore", &["● Hello you.", "", "  More"]);
        check("a\n# Title #\nb", &["● a", "", "  Title", "  b"]);
        check("- one\n  - two\n1. three\n- [x] done", &["● • one", "    • two", "  1. three", "  ☑ done"]);
        check("> so it is", &["● │ so it is"]);
        check("x\n\n---\ny", &["● x", "", &format!("  {}", "─".repeat(28)), "  y"]);
    }

    #[test]
    fn code_is_kept_as_it_is() {
        check(
            "```rust\nfn a() { **b** }\n\n  c\n```\nd",
            &["●   fn a() { **b** }", "    ", "      c", "  d"],
        );
        check("~~~\n```\n~~~", &["●   ```"]);
        check("```\nnever closed", &["●   never closed"]);
    }

    #[test]
    fn items_hang_and_words_wrap() {
        check("- a list with more than fits on a line", &["● • a list with more than fits", "    on a line"]);
    }

    #[test]
    fn tables_are_aligned_with_wide_characters() {
        check(
            "| name | n |\n|---|--:|\n| 日本 | 1 |\n| b | 10 |\nend",
            &["● name │  n", "  ─────┼───", "  日本 │  1", "  b    │ 10", "  end"],
        );
        check("| no table\nx", &["● | no table", "  x"]);
    }

    #[test]
    fn the_tail_shows_what_is_being_written() {
        let mut markdown = MarkdownWriter::new(30, Line::plain("● "));
        let mut out = Vec::new();
        markdown.push("one\ntwo **bo", &mut out);
        let text = |lines: &[Line]| lines.iter().map(Line::text).collect::<Vec<_>>();
        assert_eq!(text(&out), ["● one"]);
        assert_eq!(text(&markdown.tail()), ["  two bo"]);
        markdown.push("ld**\n| a | b |\n|---|---|\n| 1", &mut out);
        assert_eq!(text(&out), ["● one", "  two bold"]);
        assert_eq!(text(&markdown.tail()), ["  a │ b", "  ──┼──", "  1 │"]);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut markdown = MarkdownWriter::new(80, Line::plain("● "));
        let (mut lines, mut out) = (0, Vec::new());
        for _ in 0..1_000 {
            markdown.push(&"word ".repeat(1_000), &mut out);
            lines += out.drain(..).count();
            assert!(markdown.unfinished.len() <= LINE_BYTES_MAX);
        }
        assert!(lines > 60_000, "{lines}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn however_it_is_cut_the_outcome_is_the_same(source in "[a-c*_`#|>~ \\-\\[\\]()\n日]{0,120}", at in 0usize..120) {
            let at = source.char_indices().map(|(at, _)| at).nth(at).unwrap_or(source.len());
            let mut markdown = MarkdownWriter::new(24, Line::plain("● "));
            let mut out = Vec::new();
            markdown.push(&source[..at], &mut out);
            for line in markdown.tail() {
                prop_assert!(line.width() <= 24, "{:?}", line.text());
            }
            markdown.push(&source[at..], &mut out);
            markdown.finish(&mut out);
            for line in &out {
                prop_assert!(line.width() <= 24, "{:?}", line.text());
            }
            prop_assert_eq!(out.iter().map(Line::text).collect::<Vec<_>>(), rendered(&source, 24));
        }

        #[test]
        fn letters_are_never_lost(source in "[a-c* _`~\\[\\]()\\\\]{0,60}") {
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
            let source = format!("x {source}");
            prop_assert_eq!(letters(&rendered(&source, 40).concat()), letters(&source));
        }
    }
}
