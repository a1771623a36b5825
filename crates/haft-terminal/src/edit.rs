//! A text that is being typed: one line or several, with a cursor between characters as a person counts them.

use haft::text::truncate_bytes;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use crate::keys::Key;
use crate::limits::{TYPED_BYTES_MAX, TYPED_LINES};
use crate::style::{Line, Style};
use crate::text::{safe, width};

/// How much of one line is laid out around the cursor, in bytes.
const AROUND: usize = 8 * 1024;

/// A text and a cursor in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Editor {
    text: String,
    /// In bytes, between characters.
    cursor: usize,
    /// What was cut last.
    cut: String,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// The text or the cursor may have changed.
    Edited,
    /// The key means nothing here, or leads out of the text.
    Nothing,
}

impl Editor {
    /// A text with the cursor at its end.
    pub(crate) fn with(text: impl Into<String>) -> Editor {
        let text = text.into();
        Editor { cursor: text.len(), text, cut: String::new() }
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

    /// Whether the character before the cursor asks for another line.
    pub(crate) fn ends_with_backslash(&self) -> bool {
        self.cursor == self.text.len() && self.text.ends_with('\\')
    }

    pub(crate) fn insert(&mut self, text: &str) {
        let room = TYPED_BYTES_MAX.saturating_sub(self.text.len());
        let text = truncate_bytes(text, room);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    pub(crate) fn apply(&mut self, key: &Key) -> Did {
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(text),
            Key::NewLine => self.insert("\n"),
            Key::Backspace => self.remove(self.before(), self.cursor),
            Key::Ctrl('d') if self.text.is_empty() => return Did::Nothing,
            Key::Delete | Key::Ctrl('d') => self.remove(self.cursor, self.after()),
            Key::Left | Key::Ctrl('b') => self.cursor = self.before(),
            Key::Right | Key::Ctrl('f') => self.cursor = self.after(),
            Key::WordLeft => self.cursor = self.word_before(),
            Key::WordRight => self.cursor = self.word_after(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_start(),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(),
            Key::Ctrl('w') | Key::AltBackspace => self.cut_out(self.word_before(), self.cursor),
            Key::Alt('d') => self.cut_out(self.cursor, self.word_after()),
            Key::Ctrl('u') => self.cut_out(self.line_start(), self.cursor),
            Key::Ctrl('k') => self.cut_out(self.cursor, self.line_end()),
            Key::Ctrl('y') => {
                let cut = self.cut.clone();
                self.insert(&cut);
            }
            Key::Up => return self.vertical(self.line_start().checked_sub(1)),
            Key::Down => {
                let end = self.line_end();
                return self.vertical((end < self.text.len()).then_some(end + 1));
            }
            _ => return Did::Nothing,
        }
        Did::Edited
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

    fn before(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn after(&self) -> usize {
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

    /// To the same column of the line that `at` lies in.
    fn vertical(&mut self, at: Option<usize>) -> Did {
        let Some(at) = at else { return Did::Nothing };
        let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
        self.cursor = at;
        let (start, end) = (self.line_start(), self.line_end());
        let line = &self.text[start..end];
        self.cursor = line.grapheme_indices(true).nth(column).map_or(end, |(at, _)| start + at);
        Did::Edited
    }

    /// The text in so many columns, at most [`TYPED_LINES`] lines around the cursor, and where the cursor is among them.
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
            let shown = if cluster == "\t" { "    ".into() } else { safe(cluster) };
            let wide = width(&shown);
            if used + wide > columns {
                lines.push(Line::default());
                used = 0;
                if at == self.cursor {
                    cursor = (lines.len() - 1, 0);
                }
            }
            // What is written out may itself be wider than a line.
            let line = Line::of(&shown, Style::PLAIN).cut(columns);
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

    /// What has to be looked at to lay out the lines around the cursor: never all of a large text.
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
        let mut start = from.max(self.cursor.saturating_sub(AROUND));
        let mut end = to.min(self.cursor + AROUND);
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

    fn typed(keys: &[Key]) -> String {
        let mut editor = Editor::default();
        keys.iter().for_each(|key| {
            editor.apply(key);
        });
        let mut shown = editor.text.clone();
        shown.insert(editor.cursor, '|');
        shown
    }

    fn chars(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    fn check(text: &str, keys: &[Key], expected: &str) {
        let all: Vec<Key> = chars(text).into_iter().chain(keys.iter().cloned()).collect();
        assert_eq!(typed(&all), expected);
    }

    #[test]
    fn characters_are_what_a_person_takes_for_one() {
        check("ae\u{301}", &[Key::Backspace], "a|");
        check("a👩\u{200d}👧b", &[Key::Left, Key::Left, Key::Delete], "a|b");
        check("日本", &[Key::Left], "日|本");
    }

    #[test]
    fn words_and_lines() {
        check("one two-three", &[Key::Ctrl('w')], "one two-|");
        check("one two", &[Key::WordLeft, Key::Ctrl('k'), Key::Home, Key::Ctrl('y')], "two|one ");
        check("one", &[Key::NewLine, Key::Char('t'), Key::Up], "o|ne\nt");
        check("one", &[Key::Paste("\nlonger".into()), Key::Up, Key::End, Key::Down], "one\nlon|ger");
        check("one", &[Key::Up], "one|");
        check("a b", &[Key::Ctrl('u')], "|");
    }

    #[test]
    fn the_cursor_is_seen() {
        let mut editor = Editor::with("a日本b");
        assert_eq!(editor.lay_out(4), (vec![Line::plain("a日"), Line::plain("本b")], (1, 3)));
        editor.insert("c");
        assert_eq!(editor.lay_out(4).1, (2, 0), "a full line leaves no room for the cursor");
        let many = Editor::with("x\n".repeat(100));
        let (lines, cursor) = many.lay_out(20);
        assert_eq!((lines.len(), cursor), (TYPED_LINES, (TYPED_LINES - 1, 0)));
    }

    #[test]
    fn a_text_has_a_bound() {
        let mut editor = Editor::default();
        editor.insert(&"日".repeat(TYPED_BYTES_MAX));
        assert!(editor.text.len() <= TYPED_BYTES_MAX);
        assert!(editor.lay_out(80).0.len() <= TYPED_LINES);
    }

    fn key() -> impl Strategy<Value = Key> {
        prop_oneof![
            4 => any::<char>().prop_filter("no controls", |c| !c.is_control()).prop_map(Key::Char),
            1 => Just(Key::NewLine), 1 => Just(Key::Left), 1 => Just(Key::Right), 1 => Just(Key::Up),
            1 => Just(Key::Down), 1 => Just(Key::Backspace), 1 => Just(Key::Delete), 1 => Just(Key::WordLeft),
            1 => Just(Key::WordRight), 1 => Just(Key::Ctrl('w')), 1 => Just(Key::Ctrl('u')), 1 => Just(Key::Ctrl('y')),
            1 => Just(Key::Home), 1 => Just(Key::End), 1 => Just(Key::Paste("a\tb\n\u{202e}日\u{301}".into())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_keys_break_it(keys in proptest::collection::vec(key(), 0..60), columns in 4usize..20) {
            let mut editor = Editor::default();
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
