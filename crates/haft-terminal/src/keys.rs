//! Bytes from a terminal, as keys.
//!
//! Knows what terminals in use send: UTF-8, control characters, the sequences of xterm and of those who report modifiers
//! with letters (`CSI … u`), and bracketed paste. A sequence that isn't known is one unknown key, never loose letters. An
//! escape that nothing follows for a moment is the key itself; who keeps the time calls [`Decoder::settle`].

use crate::limits::{KEY_BYTES_MAX, TYPED_BYTES_MAX};

/// A key, or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// Text that was pasted; its line ends are `\n`.
    Paste(String),
    Enter,
    /// Enter with a modifier, or Ctrl-J: a line more.
    NewLine,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    WordLeft,
    WordRight,
    Escape,
    /// With the letter in lower case.
    Ctrl(char),
    Alt(char),
    AltBackspace,
    Unknown,
}

impl Key {
    /// Whether it is part of a text: also Enter, which ends its lines.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Key::Char(_) | Key::Paste(_) | Key::Enter | Key::NewLine)
    }
}

/// Makes keys of bytes, however they are cut.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// A paste that hasn't ended.
    paste: Option<Vec<u8>>,
}

const PASTE_END: &[u8] = b"\x1b[201~";

impl Decoder {
    /// Takes bytes; gives the keys that are whole.
    pub(crate) fn feed(&mut self, bytes: &[u8], keys: &mut Vec<Key>) {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            if self.paste.is_some() {
                match self.pasted(at) {
                    Some((next, key)) => {
                        at = next;
                        keys.push(key);
                        continue;
                    }
                    None => {
                        at = self.bytes.len();
                        break;
                    }
                }
            }
            let rest = &self.bytes[at..];
            if rest.is_empty() {
                break;
            }
            match decode(rest) {
                Found::Key(key, length) => {
                    at += length;
                    keys.push(key);
                }
                Found::Paste(length) => {
                    at += length;
                    self.paste = Some(Vec::new());
                }
                Found::More if rest.len() > KEY_BYTES_MAX => {
                    at += rest.len();
                    keys.push(Key::Unknown);
                }
                Found::More => break,
            }
        }
        if self.paste.is_none() {
            self.bytes.drain(..at);
        }
    }

    /// Whether a key has begun that more bytes could finish.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.bytes.is_empty()
    }

    /// Nothing followed: what is there is all there is.
    pub(crate) fn settle(&mut self, keys: &mut Vec<Key>) {
        if self.is_waiting() {
            let bytes = std::mem::take(&mut self.bytes);
            keys.push(if bytes == b"\x1b" { Key::Escape } else { Key::Unknown });
        }
    }

    /// Moves bytes into the paste; the key and where the rest begins once its end is there.
    fn pasted(&mut self, at: usize) -> Option<(usize, Key)> {
        let mut paste = self.paste.take()?;
        let rest = self.bytes.split_off(at);
        let before = paste.len();
        // The end may have begun in what came before.
        let from = before.saturating_sub(PASTE_END.len());
        paste.extend_from_slice(&rest);
        let end = paste[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END);
        match end {
            Some(end) => {
                let after = paste.split_off(from + end);
                self.bytes.clear();
                self.bytes.extend_from_slice(&after[PASTE_END.len()..]);
                paste.truncate(TYPED_BYTES_MAX);
                Some((0, Key::Paste(cleaned(&paste))))
            }
            None => {
                if paste.len() > TYPED_BYTES_MAX + PASTE_END.len() {
                    // What is too much is dropped, but not what may be the beginning of the end.
                    let end = paste.split_off(paste.len() - PASTE_END.len());
                    paste.truncate(TYPED_BYTES_MAX);
                    paste.extend_from_slice(&end);
                }
                self.bytes.clear();
                self.paste = Some(paste);
                None
            }
        }
    }
}

/// Pasted bytes as text: line ends are one kind, other control characters are left out.
fn cleaned(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

enum Found {
    Key(Key, usize),
    /// A paste begins after so many bytes.
    Paste(usize),
    More,
}

fn decode(bytes: &[u8]) -> Found {
    let one = |key| Found::Key(key, 1);
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' => one(Key::Enter),
        b'\n' => one(Key::NewLine),
        b'\t' => one(Key::Tab),
        0x7f | 0x08 => one(Key::Backspace),
        0 => one(Key::Ctrl(' ')),
        byte @ 0x01..=0x1a => one(Key::Ctrl((byte - 1 + b'a') as char)),
        byte @ 0x1c..=0x1f => one(Key::Ctrl((byte + 0x40) as char)),
        byte @ 0x20..=0x7e => one(Key::Char(byte as char)),
        _ => match utf8(bytes) {
            Some((Some(c), length)) => {
                Found::Key(if c.is_control() { Key::Unknown } else { Key::Char(c) }, length)
            }
            Some((None, length)) => Found::Key(Key::Unknown, length),
            None => Found::More,
        },
    }
}

/// The first character, or how many bytes are none; nothing if more are needed.
fn utf8(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let part = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(part) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&part[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return error.error_len().map(|length| (None, length)),
    };
    valid.chars().next().map(|c| (Some(c), c.len_utf8()))
}

fn escape(bytes: &[u8]) -> Found {
    match bytes.get(1) {
        None => Found::More,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Found::More,
            Some(b'M') => Found::Key(Key::Enter, 3),
            Some(letter) => Found::Key(letter_key(*letter, 0), 3),
        },
        Some(0x1b) => Found::Key(Key::Escape, 1),
        Some(b'\r' | b'\n') => Found::Key(Key::NewLine, 2),
        Some(0x7f | 0x08) => Found::Key(Key::AltBackspace, 2),
        Some(_) => match decode(&bytes[1..]) {
            Found::Key(Key::Char(c), length) => Found::Key(alt(c), length + 1),
            Found::Key(_, length) => Found::Key(Key::Unknown, length + 1),
            _ => Found::More,
        },
    }
}

fn alt(c: char) -> Key {
    match c {
        'b' | 'B' => Key::WordLeft,
        'f' | 'F' => Key::WordRight,
        c => Key::Alt(c.to_ascii_lowercase()),
    }
}

/// `ESC [`, parameters, a final byte.
fn sequence(bytes: &[u8]) -> Found {
    let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // Something that can't be a part of it ends it as well.
        let broken = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
        return broken.map_or(Found::More, |at| Found::Key(Key::Unknown, at + 2));
    };
    let broken = bytes[2..2 + length].iter().position(|byte| !(0x20..=0x3f).contains(byte));
    if let Some(at) = broken {
        return Found::Key(Key::Unknown, at + 2);
    }
    let (parameters, last, length) = (&bytes[2..2 + length], bytes[2 + length], length + 3);
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.split(':').next()?.parse::<u32>().ok();
    let numbers: Vec<u32> =
        parameters.split(|byte| *byte == b';').map(|part| number(part).unwrap_or(0)).collect();
    let get = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let held = get(1).saturating_sub(1);
    let key = match last {
        b'~' => match get(0) {
            200 => return Found::Paste(length),
            1 | 7 => Key::Home,
            3 => Key::Delete,
            4 | 8 => Key::End,
            5 => Key::PageUp,
            6 => Key::PageDown,
            27 => coded(get(2), held),
            _ => Key::Unknown,
        },
        b'u' => coded(get(0), held),
        letter => letter_key(letter, held),
    };
    Found::Key(key, length)
}

const SHIFT: u32 = 1;
const ALT: u32 = 2;
const CTRL: u32 = 4;

fn letter_key(letter: u8, held: u32) -> Key {
    let by_word = held & (ALT | CTRL) != 0;
    match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if by_word => Key::WordRight,
        b'C' => Key::Right,
        b'D' if by_word => Key::WordLeft,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        _ => Key::Unknown,
    }
}

/// A key by the number of its character.
fn coded(code: u32, held: u32) -> Key {
    let Some(c) = char::from_u32(code) else { return Key::Unknown };
    match c {
        '\r' if held != 0 => Key::NewLine,
        '\r' => Key::Enter,
        '\t' if held & SHIFT != 0 => Key::BackTab,
        '\t' => Key::Tab,
        '\x1b' => Key::Escape,
        '\x7f' | '\x08' if held & ALT != 0 => Key::AltBackspace,
        '\x7f' | '\x08' => Key::Backspace,
        c if c.is_control() => Key::Unknown,
        c if held & CTRL != 0 => Key::Ctrl(c.to_ascii_lowercase()),
        c if held & ALT != 0 => alt(c),
        c if held & SHIFT != 0 => Key::Char(c.to_uppercase().next().unwrap_or(c)),
        c => Key::Char(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let (mut decoder, mut keys) = (Decoder::default(), Vec::new());
        decoder.feed(bytes, &mut keys);
        decoder.settle(&mut keys);
        keys
    }

    fn check(bytes: &[u8], expected: &[Key]) {
        assert_eq!(keys(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        // One byte after the other is the same.
        let (mut decoder, mut one_by_one) = (Decoder::default(), Vec::new());
        bytes.iter().for_each(|byte| decoder.feed(&[*byte], &mut one_by_one));
        decoder.settle(&mut one_by_one);
        assert_eq!(one_by_one, expected, "byte by byte");
    }

    #[test]
    fn letters_and_controls() {
        check("aé日".as_bytes(), &[Key::Char('a'), Key::Char('é'), Key::Char('日')]);
        check(
            b"\r\n\t\x7f\x03\x1a",
            &[Key::Enter, Key::NewLine, Key::Tab, Key::Backspace, Key::Ctrl('c'), Key::Ctrl('z')],
        );
        check(b"\xff\xc3", &[Key::Unknown, Key::Unknown]);
    }

    #[test]
    fn sequences() {
        check(
            b"\x1b[A\x1bOB\x1b[1;5C\x1b[Z\x1b[3~",
            &[Key::Up, Key::Down, Key::WordRight, Key::BackTab, Key::Delete],
        );
        check(
            b"\x1b\r\x1b[13;2u\x1b[27;2;13~\x1b[13u",
            &[Key::NewLine, Key::NewLine, Key::NewLine, Key::Enter],
        );
        check(
            b"\x1bb\x1b\x7f\x1bx\x1b[99;5u",
            &[Key::WordLeft, Key::AltBackspace, Key::Alt('x'), Key::Ctrl('c')],
        );
        check(b"\x1b[?62;c\x1b[<0;1;1Ma", &[Key::Unknown, Key::Unknown, Key::Char('a')]);
        check(b"\x1b", &[Key::Escape]);
        check(b"\x1b\x1b[A", &[Key::Escape, Key::Up]);
    }

    #[test]
    fn a_paste_is_one_key_and_answers_nothing() {
        check(
            b"\x1b[200~y\r\nrm \x1b[31m\x07x\x1b[201~z",
            &[Key::Paste("y\nrm [31mx".into()), Key::Char('z')],
        );
        check(b"\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~", &[Key::Paste("a".into()), Key::Paste("b".into())]);
    }

    #[test]
    fn a_paste_without_end_takes_no_memory() {
        let (mut decoder, mut keys) = (Decoder::default(), Vec::new());
        decoder.feed(b"\x1b[200~", &mut keys);
        for _ in 0..100 {
            decoder.feed(&[b'x'; 100_000], &mut keys);
        }
        assert!(decoder.paste.as_ref().unwrap().len() < 2 * TYPED_BYTES_MAX);
        decoder.feed(PASTE_END, &mut keys);
        assert!(matches!(&keys[..], [Key::Paste(text)] if text.len() == TYPED_BYTES_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let (mut decoder, mut keys) = (Decoder::default(), Vec::new());
            let at = at.min(bytes.len());
            decoder.feed(&bytes[..at], &mut keys);
            decoder.feed(&bytes[at..], &mut keys);
            decoder.settle(&mut keys);
            prop_assert!(!decoder.is_waiting());
            prop_assert!(keys.iter().all(|key| !matches!(key, Key::Char(c) if c.is_control())));
        }
    }
}
