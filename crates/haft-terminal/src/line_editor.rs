//! An editor for one or more lines of text, with a cursor between grapheme clusters.

use haft::text::truncate_bytes;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use crate::key_decoder::TerminalKey;
use crate::limits::{TYPED_BYTES_MAX, TYPED_LINES};
use crate::style::{Line, Style};
use crate::text::{sanitize, width};

/// How much of a line is laid out around the cursor, in bytes.
const LAYOUT_BYTES: usize = 8 * 1024;

/// A text with a cursor.
#[derive(Debug, Default, Clone)]
pub(crate) struct LineEditor {
    text: String,
    /// The byte offset, at a cluster boundary.
    cursor: usize,
    /// The text that was cut last.
    cut: String,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditOutcome {
    /// The text or the cursor may have changed.
    Edited,
    /// The key has no meaning here, or leaves the text.
    Nothing,
}

impl LineEditor {
    /// Creates an editor with the cursor at the end of the text.
    pub(crate) fn with_text(text: impl Into<String>) -> LineEditor {
        let text = text.into();
        LineEditor { cursor: text.len(), text, cut: String::new() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.cursor = self.text.len();
    }

    /// Returns whether a backslash at the end requests another line.
    pub(crate) fn ends_with_backslash(&self) -> bool {
        self.cursor == self.text.len() && self.text.ends_with('\\')
    }

    pub(crate) fn insert(&mut self, text: &str) {
        let room = TYPED_BYTES_MAX.saturating_sub(self.text.len());
        let text = truncate_bytes(text, room);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    pub(crate) fn apply(&mut self, key: &TerminalKey) -> EditOutcome {
        match key {
            TerminalKey::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            TerminalKey::Paste(text) => self.insert(text),
            TerminalKey::NewLine => self.insert("\n"),
            TerminalKey::Backspace => self.remove(self.previous_boundary(), self.cursor),
            TerminalKey::Ctrl('d') if self.text.is_empty() => return EditOutcome::Nothing,
            TerminalKey::Delete | TerminalKey::Ctrl('d') => self.remove(self.cursor, self.next_boundary()),
            TerminalKey::Left | TerminalKey::Ctrl('b') => self.cursor = self.previous_boundary(),
            TerminalKey::Right | TerminalKey::Ctrl('f') => self.cursor = self.next_boundary(),
            TerminalKey::WordLeft => self.cursor = self.word_before(),
            TerminalKey::WordRight => self.cursor = self.word_after(),
            TerminalKey::Home | TerminalKey::Ctrl('a') => self.cursor = self.line_start(),
            TerminalKey::End | TerminalKey::Ctrl('e') => self.cursor = self.line_end(),
            TerminalKey::Ctrl('w') | TerminalKey::AltBackspace => {
                self.cut_out(self.word_before(), self.cursor)
            }
            TerminalKey::Alt('d') => self.cut_out(self.cursor, self.word_after()),
            TerminalKey::Ctrl('u') => self.cut_out(self.line_start(), self.cursor),
            TerminalKey::Ctrl('k') => self.cut_out(self.cursor, self.line_end()),
            TerminalKey::Ctrl('y') => {
                let cut = self.cut.clone();
                self.insert(&cut);
            }
            TerminalKey::Up => return self.move_vertically(self.line_start().checked_sub(1)),
            TerminalKey::Down => {
                let end = self.line_end();
                return self.move_vertically((end < self.text.len()).then_some(end + 1));
            }
            _ => return EditOutcome::Nothing,
        }
        EditOutcome::Edited
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn cut_out(&mut self, from: usize, to: usize) {
        if from < to {
            self.cut = self.text[from..to].to_owned();
            self.remove(from, to);
        }
    }

    fn previous_boundary(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn next_boundary(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len())
    }

    fn word_before(&self) -> usize {
        let head = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        let word = head.trim_end_matches(char::is_alphanumeric);
        word.len()
    }

    fn word_after(&self) -> usize {
        let tail = &self.text[self.cursor..];
        let gap = tail.len() - tail.trim_start_matches(|c: char| !c.is_alphanumeric()).len();
        let word = tail[gap..].len() - tail[gap..].trim_start_matches(char::is_alphanumeric).len();
        self.cursor + gap + word
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Moves to the same column of the line that contains `at`.
    fn move_vertically(&mut self, at: Option<usize>) -> EditOutcome {
        let Some(at) = at else { return EditOutcome::Nothing };
        let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
        self.cursor = at;
        let (start, end) = (self.line_start(), self.line_end());
        let line = &self.text[start..end];
        self.cursor = line.grapheme_indices(true).nth(column).map_or(end, |(at, _)| start + at);
        EditOutcome::Edited
    }

    /// Lays out the text in at most [`TYPED_LINES`] lines around the cursor; also returns the
    /// cursor's row and column.
    pub(crate) fn lay_out(&self, columns: usize) -> (Vec<Line>, (usize, usize)) {
        let columns = columns.max(4);
        let (from, to) = self.window();
        let mut lines = vec![Line::default()];
        let (mut used, mut cursor) = (0, (0, 0));
        for (at, cluster) in self.text[from..to].grapheme_indices(true) {
            let at = from + at;
            if at == self.cursor {
                cursor = (lines.len() - 1, used);
            }
            if matches!(cluster, "\n" | "\r\n") {
                lines.push(Line::default());
                used = 0;
                continue;
            }
            let shown = if cluster == "\t" { "    ".into() } else { sanitize(cluster) };
            let wide = width(&shown);
            if used + wide > columns {
                lines.push(Line::default());
                used = 0;
                if at == self.cursor {
                    cursor = (lines.len() - 1, 0);
                }
            }
            // An escaped character may be wider than a line.
            let line = Line::from_text(&shown, Style::PLAIN).truncate_to(columns);
            used += line.width();
            lines.last_mut().expect("there is a first line").append(&line);
        }
        if self.cursor >= to {
            if used >= columns {
                lines.push(Line::default());
                used = 0;
            }
            cursor = (lines.len() - 1, used);
        }
        let first = (cursor.0 + 1).saturating_sub(TYPED_LINES);
        let shown: Vec<Line> = lines.drain(first..).take(TYPED_LINES).collect();
        (shown, (cursor.0 - first, cursor.1))
    }

    /// Returns the byte range that must be laid out around the cursor: never all of a large text.
    fn window(&self) -> (usize, usize) {
        let mut from = self.cursor;
        for _ in 0..TYPED_LINES {
            match self.text[..from].rfind('\n') {
                Some(at) => from = at,
                None => {
                    from = 0;
                    break;
                }
            }
        }
        if self.text[from..].starts_with('\n') && from > 0 {
            from += 1;
        }
        let mut to = self.cursor;
        for _ in 0..TYPED_LINES {
            match self.text[to..].find('\n') {
                Some(at) => to += at + 1,
                None => {
                    to = self.text.len();
                    break;
                }
            }
        }
        let mut start = from.max(self.cursor.saturating_sub(LAYOUT_BYTES));
        let mut end = to.min(self.cursor + LAYOUT_BYTES);
        while !self.text.is_char_boundary(start) {
            start += 1;
        }
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        (start.min(self.cursor), end.max(self.cursor))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[TerminalKey]) -> String {
        let mut editor = LineEditor::default();
        keys.iter().for_each(|key| {
            editor.apply(key);
        });
        let mut shown = editor.text.clone();
        shown.insert(editor.cursor, '|');
        shown
    }

    fn chars(text: &str) -> Vec<TerminalKey> {
        text.chars().map(TerminalKey::Char).collect()
    }

    fn check(text: &str, keys: &[TerminalKey], expected: &str) {
        let all: Vec<TerminalKey> = chars(text).into_iter().chain(keys.iter().cloned()).collect();
        assert_eq!(typed(&all), expected);
    }

    #[test]
    fn characters_are_what_a_person_takes_for_one() {
        check("ae\u{301}", &[TerminalKey::Backspace], "a|");
        check("a👩\u{200d}👧b", &[TerminalKey::Left, TerminalKey::Left, TerminalKey::Delete], "a|b");
        check("日本", &[TerminalKey::Left], "日|本");
    }

    #[test]
    fn words_and_lines() {
        check("one two-three", &[TerminalKey::Ctrl('w')], "one two-|");
        check(
            "one two",
            &[TerminalKey::WordLeft, TerminalKey::Ctrl('k'), TerminalKey::Home, TerminalKey::Ctrl('y')],
            "two|one ",
        );
        check("one", &[TerminalKey::NewLine, TerminalKey::Char('t'), TerminalKey::Up], "o|ne\nt");
        check(
            "one",
            &[TerminalKey::Paste("\nlonger".into()), TerminalKey::Up, TerminalKey::End, TerminalKey::Down],
            "one\nlon|ger",
        );
        check("one", &[TerminalKey::Up], "one|");
        check("a b", &[TerminalKey::Ctrl('u')], "|");
    }

    #[test]
    fn the_cursor_is_seen() {
        let mut editor = LineEditor::with_text("a日本b");
        assert_eq!(editor.lay_out(4), (vec![Line::plain("a日"), Line::plain("本b")], (1, 3)));
        editor.insert("c");
        assert_eq!(editor.lay_out(4).1, (2, 0), "a full line leaves no room for the cursor");
        let many = LineEditor::with_text("x\n".repeat(100));
        let (lines, cursor) = many.lay_out(20);
        assert_eq!((lines.len(), cursor), (TYPED_LINES, (TYPED_LINES - 1, 0)));
    }

    #[test]
    fn a_text_has_a_bound() {
        let mut editor = LineEditor::default();
        editor.insert(&"日".repeat(TYPED_BYTES_MAX));
        assert!(editor.text.len() <= TYPED_BYTES_MAX);
        assert!(editor.lay_out(80).0.len() <= TYPED_LINES);
    }

    fn key() -> impl Strategy<Value = TerminalKey> {
        prop_oneof![
            4 => any::<char>().prop_filter("no controls", |c| !c.is_control()).prop_map(TerminalKey::Char),
            1 => Just(TerminalKey::NewLine), 1 => Just(TerminalKey::Left), 1 => Just(TerminalKey::Right), 1 => Just(TerminalKey::Up),
            1 => Just(TerminalKey::Down), 1 => Just(TerminalKey::Backspace), 1 => Just(TerminalKey::Delete), 1 => Just(TerminalKey::WordLeft),
            1 => Just(TerminalKey::WordRight), 1 => Just(TerminalKey::Ctrl('w')), 1 => Just(TerminalKey::Ctrl('u')), 1 => Just(TerminalKey::Ctrl('y')),
            1 => Just(TerminalKey::Home), 1 => Just(TerminalKey::End), 1 => Just(TerminalKey::Paste("a\tb\n\u{202e}日\u{301}".into())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_keys_break_it(keys in proptest::collection::vec(key(), 0..60), columns in 4usize..20) {
            let mut editor = LineEditor::default();
            for key in &keys {
                editor.apply(key);
                prop_assert!(editor.text.is_char_boundary(editor.cursor));
                let (lines, (row, column)) = editor.lay_out(columns);
                prop_assert!(row < lines.len() && column <= columns);
                prop_assert!(lines.iter().all(|line| line.width() <= columns));
            }
        }
    }
}
