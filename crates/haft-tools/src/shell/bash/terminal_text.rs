//! What a program prints for a terminal, as text that a model reads and a screen can show.
//!
//! Colours, titles and cursor movements go; a line that was written over again and again, as progress is,
//! becomes what it said last; what is invalid, invisible or turns the direction of writing is made visible.
//! Works on pieces as they come, in one pass, and holds nothing but the line that has no end yet: that one
//! may still be written over.
//!
//! This is not a terminal. What is left of a screen full of boxes reads as a list of its lines, which is what
//! a model can use.

/// The longest line that can still be written over, in bytes. Of a longer one the beginning is given out.
pub(super) const LINE_BYTES_MAX: usize = 32 * 1024;
/// How long a control sequence may be; what comes after is text again.
const SEQUENCE_BYTES_MAX: u16 = 256;
/// The same for those that carry text: titles, links, clipboards.
const STRING_BYTES_MAX: u16 = 4_096;

/// Makes text of what a program prints.
#[derive(Default)]
pub(super) struct TerminalTextCleaner {
    state: EscapeState,
    /// The line that has no end yet.
    line: String,
    /// Its beginning was given out, as it is too long.
    begun: bool,
    /// What comes next is written over the line.
    over: bool,
    /// The beginning of a character that is not all there.
    unfinished: Vec<u8>,
    left_out: LeftOut,
}

/// What the text doesn't show.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// How many NUL bytes there were.
    pub(super) nuls: u64,
    /// Something was no UTF-8.
    pub(super) invalid: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and a byte that says that there is one more.
    EscapeMore,
    /// After ESC `[`, with so many bytes.
    Sequence(u16),
    /// After ESC `]` and the like: up to BEL or ESC `\`.
    String(u16),
    /// ESC within such a string.
    StringEscape,
}

impl TerminalTextCleaner {
    /// Takes a piece, and adds the lines that are complete to `out`.
    pub(super) fn add(&mut self, bytes: &[u8], out: &mut String) {
        if self.unfinished.is_empty() {
            return self.take(bytes, out);
        }
        let mut joined = std::mem::take(&mut self.unfinished);
        joined.extend_from_slice(bytes);
        self.take(&joined, out);
    }

    /// There is no more: adds the line that has no end.
    pub(super) fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.unfinished).is_empty() {
            self.invalid(out);
        }
        out.push_str(&std::mem::take(&mut self.line));
    }

    /// The line that has no end yet.
    pub(super) fn open_line(&self) -> &str {
        &self.line
    }

    /// What the text doesn't show.
    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn take(&mut self, mut bytes: &[u8], out: &mut String) {
        while let Some(&byte) = bytes.first() {
            if self.state != EscapeState::Text {
                if self.skip(byte) {
                    bytes = &bytes[1..];
                }
                continue;
            }
            let plain = if self.over { 0 } else { count_leading(bytes, is_plain) };
            if plain > 0 {
                self.plain(&bytes[..plain], out);
                bytes = &bytes[plain..];
            } else if byte == 0 {
                let nuls = count_leading(bytes, |byte| byte == 0);
                self.left_out.nuls += nuls as u64;
                bytes = &bytes[nuls..];
            } else if byte < 0x80 {
                self.control(byte, out);
                bytes = &bytes[1..];
            } else {
                let wide = bytes.iter().take_while(|byte| **byte >= 0x80).count();
                let at_end = wide == bytes.len();
                self.wide(&bytes[..wide], at_end, out);
                bytes = &bytes[wide..];
            }
        }
    }

    /// Text without anything that has to be looked at, line ends included.
    fn plain(&mut self, bytes: &[u8], out: &mut String) {
        let text = std::str::from_utf8(bytes).expect("plain bytes are ASCII");
        match text.rfind('\n') {
            Some(end) => {
                out.push_str(&std::mem::take(&mut self.line));
                out.push_str(&text[..=end]);
                self.begun = false;
                self.line.push_str(&text[end + 1..]);
            }
            None => self.line.push_str(text),
        }
        self.bound(out);
    }

    fn control(&mut self, byte: u8, out: &mut String) {
        match byte {
            b'\n' => {
                out.push_str(&std::mem::take(&mut self.line));
                out.push('\n');
                (self.begun, self.over) = (false, false);
            }
            b'\r' => self.over = true,
            // As manual pages make letters bold.
            0x08 => drop(self.line.pop()),
            0x1b => self.state = EscapeState::Escape,
            // Bells, other alphabets, deleted characters: nothing to see.
            0x07 | 0x0e | 0x0f | 0x7f => {}
            byte => self.push(char::from(byte), out),
        }
    }

    /// Bytes beyond ASCII; `at_end` where the last character may go on in the next piece.
    fn wide(&mut self, mut bytes: &[u8], at_end: bool, out: &mut String) {
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return text.chars().for_each(|c| self.push(c, out)),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            let text = std::str::from_utf8(valid).expect("it was looked at");
            text.chars().for_each(|c| self.push(c, out));
            match error.error_len() {
                None if at_end => {
                    self.unfinished = rest.to_vec();
                    return;
                }
                None => return self.invalid(out),
                Some(length) => {
                    self.invalid(out);
                    bytes = &rest[length..];
                }
            }
        }
    }

    fn invalid(&mut self, out: &mut String) {
        self.left_out.invalid = true;
        self.push(char::REPLACEMENT_CHARACTER, out);
    }

    fn push(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.over) {
            self.line.clear();
            if std::mem::take(&mut self.begun) {
                out.push('\n');
            }
        }
        if is_hidden(c) {
            self.line.extend(c.escape_unicode())
        } else {
            self.line.push(c)
        }
        self.bound(out);
    }

    fn bound(&mut self, out: &mut String) {
        if self.line.len() > LINE_BYTES_MAX {
            out.push_str(&std::mem::take(&mut self.line));
            self.begun = true;
        }
    }

    /// A byte of a control sequence. False if it isn't one: then it is text again.
    fn skip(&mut self, byte: u8) -> bool {
        let (next, taken) = match (self.state, byte) {
            (EscapeState::Escape, b'[') => (EscapeState::Sequence(0), true),
            (EscapeState::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (EscapeState::String(0), true),
            (EscapeState::Escape | EscapeState::EscapeMore, 0x20..=0x2f) => (EscapeState::EscapeMore, true),
            (EscapeState::Escape | EscapeState::EscapeMore, 0x30..=0x7e) => (EscapeState::Text, true),
            (EscapeState::Escape, 0x1b) => (EscapeState::Escape, true),
            (EscapeState::Sequence(count), 0x20..=0x3f) if count < SEQUENCE_BYTES_MAX => {
                (EscapeState::Sequence(count + 1), true)
            }
            (EscapeState::Sequence(_), 0x40..=0x7e) => (EscapeState::Text, true),
            (EscapeState::String(_), 0x07) => (EscapeState::Text, true),
            (EscapeState::String(_), 0x1b) => (EscapeState::StringEscape, true),
            // One that never ends must not swallow all that follows.
            (EscapeState::String(count), byte) if count < STRING_BYTES_MAX && byte != b'\n' => {
                (EscapeState::String(count + 1), true)
            }
            (EscapeState::StringEscape, b'\\') => (EscapeState::Text, true),
            (EscapeState::StringEscape, _) => (EscapeState::Escape, false),
            _ => (EscapeState::Text, false),
        };
        self.state = next;
        taken
    }
}

/// How many bytes at the beginning are of a kind. Floods go by in blocks, which the machine compares at once.
fn count_leading(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    const BLOCK: usize = 64;
    let of_kind = |block: &&[u8]| block.iter().fold(true, |all, byte| all & kind(*byte));
    let whole = bytes.chunks_exact(BLOCK).take_while(of_kind).count() * BLOCK;
    whole + bytes[whole..].iter().take_while(|byte| kind(**byte)).count()
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | b'\n' | b'\t')
}

/// What nobody sees, or what makes others be seen elsewhere. Joiners stay: scripts and pictures need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(bytes: &[u8]) -> String {
        let (mut cleaner, mut out) = (TerminalTextCleaner::default(), String::new());
        cleaner.add(bytes, &mut out);
        cleaner.finish(&mut out);
        out
    }

    /// The same text, whatever pieces it comes in.
    #[track_caller]
    fn check(given: impl AsRef<[u8]>, expected: &str) {
        let given = given.as_ref();
        assert_eq!(clean(given), expected, "{:?}", String::from_utf8_lossy(given));
        for size in [1, 2, 3, 7] {
            let (mut cleaner, mut out) = (TerminalTextCleaner::default(), String::new());
            given.chunks(size).for_each(|piece| cleaner.add(piece, &mut out));
            cleaner.finish(&mut out);
            assert_eq!(out, expected, "in pieces of {size}: {:?}", String::from_utf8_lossy(given));
        }
    }

    #[test]
    fn text_stays_as_it_is() {
        check("", "");
        check("plain\n\ttext", "plain\n\ttext");
        check("grün 漢字 👨‍👩‍👧\n", "grün 漢字 👨‍👩‍👧\n");
        check("\u{2028}", "\\u{2028}");
    }

    #[test]
    fn control_sequences_go() {
        check("\x1b[1;31merror\x1b[0m: x", "error: x");
        check("\x1b]0;title\x07text", "text");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1bPq#0\x1b\\after", "after");
        check("\x1b(Bascii\x1b=\x1b7", "ascii");
        check("\x1b[2J\x1b[H\x1b[?25lmenu", "menu");
        check("\x1b[38;2;1;2;3", "");
        check("a\x1b\nb", "a\nb");
        check("a\x1b[3\nb", "a\nb");
    }

    #[test]
    fn a_sequence_without_an_end_does_not_swallow_the_rest() {
        check(format!("\x1b]0;{}\nafter", "x".repeat(10)), "\nafter");
        let long = format!("\x1b]0;{}after", "x".repeat(STRING_BYTES_MAX as usize - 2));
        check(&long, "after");
        let long = format!("\x1b[{}after", "1".repeat(300));
        assert!(clean(long.as_bytes()).ends_with("1after"));
    }

    #[test]
    fn what_is_written_over_is_what_it_said_last() {
        check("10%\r20%\r100%\ndone\n", "100%\ndone\n");
        check("10%\r20%\r", "20%");
        check("a\r\nb\r\n", "a\nb\n");
        check("a\r\r\nb", "a\nb");
        check("a\r\x1b[Kb", "b");
        check("N\x08NA\x08A", "NA");
        check("\x08\x08a", "a");
        let long = format!("{}\rend\n", "x".repeat(LINE_BYTES_MAX + 10));
        assert!(clean(long.as_bytes()).ends_with("x\nend\n"));
    }

    #[test]
    fn what_is_invalid_or_hidden_is_seen() {
        check(b"a\xffb", "a\u{fffd}b");
        check(b"a\xe6\xbcb", "a\u{fffd}b");
        check(b"a\xe6\xbc", "a\u{fffd}");
        check(b"\xe6\xbc\xa2", "漢");
        check("a\0b\0", "ab");
        check(format!("{}b{}", "\0".repeat(200), "a".repeat(200)), &format!("b{}", "a".repeat(200)));
        check("\u{202e}evil\u{202c}", "\\u{202e}evil\\u{202c}");
        check("a\x01b\x07\x0c", "a\\u{1}b\\u{c}");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{e0041}", "\\u{e0041}");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let (mut cleaner, mut out) = (TerminalTextCleaner::default(), String::new());
        cleaner.add(b"\0\0\xff", &mut out);
        cleaner.add(&[0; 150], &mut out);
        assert_eq!(cleaner.left_out(), LeftOut { nuls: 152, invalid: true });
        assert_eq!((cleaner.open_line(), &*out), ("\u{fffd}", ""));
    }
}
