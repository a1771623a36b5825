//! Lines of styled text. A line contains sanitized text only, so it can be written to the terminal
//! as it is.
//!
//! Styles use the sixteen colours that every terminal lets its user configure. Colour is never the
//! only signal: coloured text also has a sign or a word.

use std::fmt::Write as _;

use crate::text::{clusters, sanitize, truncate_to_width, width};

/// The style of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    colour: Option<Colour>,
    bold: bool,
    dim: bool,
    italic: bool,
    underlined: bool,
    struck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Magenta = 35,
    Cyan = 36,
}

impl Style {
    /// The terminal's default.
    pub const PLAIN: Style =
        Style { colour: None, bold: false, dim: false, italic: false, underlined: false, struck: false };
    /// For less important text.
    pub const DIM: Style = Style { dim: true, ..Style::PLAIN };
    /// For important text.
    pub const BOLD: Style = Style { bold: true, ..Style::PLAIN };
    pub(crate) const SUCCESS: Style = Style::from_colour(Colour::Green);
    /// For errors.
    pub const ERROR: Style = Style::from_colour(Colour::Red);
    pub(crate) const DANGER: Style = Style { bold: true, ..Style::from_colour(Colour::Red) };
    pub(crate) const PROMPT: Style = Style { bold: true, ..Style::from_colour(Colour::Yellow) };
    /// For warnings.
    pub const WARNING: Style = Style::from_colour(Colour::Yellow);
    /// For measurements and activity.
    pub const ACTIVITY: Style = Style::from_colour(Colour::Cyan);
    pub(crate) const CODE: Style = Style::from_colour(Colour::Cyan);
    pub(crate) const HEADING: Style = Style { bold: true, ..Style::from_colour(Colour::Magenta) };
    pub(crate) const LINK: Style = Style { underlined: true, ..Style::from_colour(Colour::Blue) };

    const fn from_colour(colour: Colour) -> Style {
        Style { colour: Some(colour), ..Style::PLAIN }
    }

    pub(crate) fn bold(self) -> Style {
        Style { bold: true, ..self }
    }

    pub(crate) fn italic(self) -> Style {
        Style { italic: true, ..self }
    }

    pub(crate) fn struck(self) -> Style {
        Style { struck: true, ..self }
    }

    fn write(self, out: &mut String) {
        let flags = [(self.bold, 1), (self.dim, 2), (self.italic, 3), (self.underlined, 4), (self.struck, 9)];
        out.push_str("\x1b[0");
        for (_, code) in flags.iter().filter(|(on, _)| *on) {
            let _ = write!(out, ";{code}");
        }
        if let Some(colour) = self.colour {
            let _ = write!(out, ";{}", colour as u8);
        }
        out.push('m');
    }
}

/// Whether styles are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorMode {
    /// Text only.
    #[default]
    Plain,
    /// Text with styles.
    Styled,
}

/// A piece of sanitized text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

/// One line of styled, sanitized text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    spans: Vec<Span>,
}

impl Line {
    /// Creates a line in one style; control characters are escaped.
    pub fn from_text(text: &str, style: Style) -> Line {
        Line::default().with(text, style)
    }

    /// Creates a line without style.
    pub fn plain(text: &str) -> Line {
        Line::from_text(text, Style::PLAIN)
    }

    /// Appends text.
    #[must_use]
    pub fn with(mut self, text: &str, style: Style) -> Line {
        self.push(text, style);
        self
    }

    pub(crate) fn push(&mut self, text: &str, style: Style) {
        self.push_safe(&sanitize(text), style);
    }

    /// Appends text that is already sanitized.
    fn push_safe(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span { text: text.to_owned(), style }),
        }
    }

    pub(crate) fn append(&mut self, other: &Line) {
        for span in &other.spans {
            self.push_safe(&span.text, span.style);
        }
    }

    pub(crate) fn push_spaces(&mut self, count: usize) {
        self.push_safe(&" ".repeat(count), Style::PLAIN);
    }

    /// Appends spaces up to a column.
    pub(crate) fn pad_to(&mut self, column: usize) {
        self.push_spaces(column.saturating_sub(self.width()));
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Returns whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Writes the line with or without styles.
    pub fn write(&self, color_mode: ColorMode, out: &mut String) {
        for span in &self.spans {
            if color_mode == ColorMode::Plain || span.style == Style::PLAIN {
                out.push_str(&span.text);
            } else {
                span.style.write(out);
                out.push_str(&span.text);
                out.push_str("\x1b[0m");
            }
        }
    }

    /// Removes spaces at the end.
    pub(crate) fn trim_end(mut self) -> Line {
        while let Some(last) = self.spans.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// Truncates the line to a width, and marks the truncation with `…`.
    pub(crate) fn truncate_to(self, columns: usize) -> Line {
        if self.width() <= columns {
            return self;
        }
        let mut line = Line::default();
        let mut left = columns.saturating_sub(1);
        for span in &self.spans {
            let (part, used) = truncate_to_width(&span.text, left);
            line.push_safe(part, span.style);
            left -= used;
            if part.len() < span.text.len() {
                break;
            }
        }
        if columns > 0 {
            line.push_safe("…", Style::DIM);
        }
        line
    }

    /// Breaks the line at any character, as for code.
    pub(crate) fn chop(self, columns: usize) -> Vec<Line> {
        let columns = columns.max(2);
        if self.width() <= columns {
            return vec![self];
        }
        let mut lines = vec![Line::default()];
        let mut used = 0;
        for span in &self.spans {
            for (cluster, wide) in clusters(&span.text) {
                if used + wide > columns {
                    lines.push(Line::default());
                    used = 0;
                }
                lines.last_mut().expect("there is a first line").push_safe(cluster, span.style);
                used += wide;
            }
        }
        lines
    }

    /// Breaks the line between words; further lines are indented.
    pub(crate) fn wrap(self, columns: usize, indent: usize) -> Vec<Line> {
        let columns = columns.max(2);
        if self.width() <= columns {
            return vec![self];
        }
        let indent = if indent + 8 > columns { 0 } else { indent };
        let mut wrapping = LineWrapper {
            columns,
            indent,
            lines: Vec::new(),
            line: Line::default(),
            used: 0,
            begun: false,
            blanks: 0,
            word: Line::default(),
            word_width: 0,
        };
        for span in &self.spans {
            let mut rest = span.text.as_str();
            while !rest.is_empty() {
                let blank = rest.starts_with(' ');
                let end = rest.find(|c| (c == ' ') != blank).unwrap_or(rest.len());
                if blank {
                    wrapping.place_word();
                    wrapping.blanks += end;
                } else {
                    wrapping.word.push_safe(&rest[..end], span.style);
                    wrapping.word_width += width(&rest[..end]);
                }
                rest = &rest[end..];
            }
        }
        wrapping.place_word();
        if wrapping.used > 0 {
            wrapping.lines.push(wrapping.line);
        }
        wrapping.lines
    }
}

/// The state of wrapping one line.
struct LineWrapper {
    columns: usize,
    indent: usize,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    /// Whether the current line contains a word.
    begun: bool,
    blanks: usize,
    word: Line,
    word_width: usize,
}

impl LineWrapper {
    /// Places the pending word, with the spaces before it unless it starts a line.
    fn place_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let first = self.lines.is_empty();
        let blanks = std::mem::take(&mut self.blanks);
        let blanks = if self.begun || first { blanks.min(self.columns / 2) } else { 0 };
        let word = std::mem::take(&mut self.word);
        let word_width = std::mem::take(&mut self.word_width);
        if self.used + blanks + word_width <= self.columns {
            self.line.push_spaces(blanks);
            self.line.append(&word);
            self.used += blanks + word_width;
        } else if word_width <= self.columns - self.indent {
            self.next_line();
            self.line.append(&word);
            self.used += word_width;
        } else {
            // The word is longer than a line, or its script has no spaces.
            if self.used + blanks < self.columns {
                self.line.push_spaces(blanks);
                self.used += blanks;
            }
            for span in &word.spans {
                for (cluster, wide) in clusters(&span.text) {
                    if self.used + wide > self.columns {
                        self.next_line();
                    }
                    self.line.push_safe(cluster, span.style);
                    self.used += wide;
                }
            }
        }
        self.begun = true;
    }

    fn next_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.line.push_spaces(self.indent);
        self.used = self.indent;
        self.begun = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn styles_are_closed_and_can_be_left_out() {
        let line = Line::from_text("ok", Style::SUCCESS).with(" a\x1b[2J", Style::PLAIN);
        let (mut styled, mut plain) = (String::new(), String::new());
        line.write(ColorMode::Styled, &mut styled);
        line.write(ColorMode::Plain, &mut plain);
        assert_eq!(styled, "\x1b[0;32mok\x1b[0m a\\u{1b}[2J");
        assert_eq!(plain, "ok a\\u{1b}[2J");
    }

    #[test]
    fn words_wrap_with_an_indent() {
        let line = Line::plain("- one two ").with("three", Style::BOLD).with("four five", Style::PLAIN);
        assert_eq!(texts(&line.wrap(12, 2)), ["- one two", "  threefour", "  five"]);
    }

    #[test]
    fn wide_and_long_words_are_broken() {
        assert_eq!(texts(&Line::plain("ab 日本語日本語").wrap(7, 0)), ["ab 日本", "語日本", "語"]);
        assert_eq!(texts(&Line::plain("日本").chop(3)), ["日", "本"]);
        assert_eq!(Line::plain("日本語").truncate_to(4).text(), "日…");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(text in "[a-z日é\u{301} ]{0,80}", columns in 2usize..30, indent in 0usize..6) {
            let line = Line::plain(&text);
            let wrapped = line.clone().wrap(columns, indent);
            for line in &wrapped {
                prop_assert!(line.width() <= columns, "{:?} at {columns}", line.text());
            }
            let words = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(words(&texts(&wrapped).concat()), words(&line.text()));
            for line in line.clone().chop(columns) {
                prop_assert!(line.width() <= columns);
            }
            prop_assert!(line.truncate_to(columns).width() <= columns);
        }
    }
}
