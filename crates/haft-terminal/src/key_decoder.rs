//! Bytes from a terminal, as keys.
//!
//! Knows what terminals in use send: UTF-8, control characters, the sequences of xterm and of those who report modifiers
//! with letters (`CSI … u`), and bracketed paste. A sequence that isn't known is one unknown key, never loose letters. An
//! escape that nothing follows for a moment is the key itself; who keeps the time calls [`KeyDecoder::settle`].

use crate::limits::{KEY_BYTES_MAX, TYPED_BYTES_MAX};

/// A key, or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalKey {
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

impl TerminalKey {
    /// Whether it is part of a text: also Enter, which ends its lines.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self,
            TerminalKey::Char(_) | TerminalKey::Paste(_) | TerminalKey::Enter | TerminalKey::NewLine
        )
    }
}

/// Makes keys of bytes, however they are cut.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder {
    bytes: Vec<u8>,
    /// A paste that hasn't ended.
    paste: Option<Vec<u8>>,
}

const PASTE_END: &[u8] = b"\x1b[201~";

impl KeyDecoder {
    /// Takes bytes; gives the keys that are whole.
    pub(crate) fn feed(&mut self, bytes: &[u8], keys: &mut Vec<TerminalKey>) {
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
                DecodedKey::TerminalKey(key, length) => {
                    at += length;
                    keys.push(key);
                }
                DecodedKey::Paste(length) => {
                    at += length;
                    self.paste = Some(Vec::new());
                }
                DecodedKey::More if rest.len() > KEY_BYTES_MAX => {
                    at += rest.len();
                    keys.push(TerminalKey::Unknown);
                }
                DecodedKey::More => break,
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
    pub(crate) fn settle(&mut self, keys: &mut Vec<TerminalKey>) {
        if self.is_waiting() {
            let bytes = std::mem::take(&mut self.bytes);
            keys.push(if bytes == b"\x1b" { TerminalKey::Escape } else { TerminalKey::Unknown });
        }
    }

    /// Moves bytes into the paste; the key and where the rest begins once its end is there.
    fn pasted(&mut self, at: usize) -> Option<(usize, TerminalKey)> {
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
                Some((0, TerminalKey::Paste(cleaned(&paste))))
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

enum DecodedKey {
    TerminalKey(TerminalKey, usize),
    /// A paste begins after so many bytes.
    Paste(usize),
    More,
}

fn decode(bytes: &[u8]) -> DecodedKey {
    let one = |key| DecodedKey::TerminalKey(key, 1);
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' => one(TerminalKey::Enter),
        b'\n' => one(TerminalKey::NewLine),
        b'\t' => one(TerminalKey::Tab),
        0x7f | 0x08 => one(TerminalKey::Backspace),
        0 => one(TerminalKey::Ctrl(' ')),
        byte @ 0x01..=0x1a => one(TerminalKey::Ctrl((byte - 1 + b'a') as char)),
        byte @ 0x1c..=0x1f => one(TerminalKey::Ctrl((byte + 0x40) as char)),
        byte @ 0x20..=0x7e => one(TerminalKey::Char(byte as char)),
        _ => match utf8(bytes) {
            Some((Some(c), length)) => DecodedKey::TerminalKey(
                if c.is_control() { TerminalKey::Unknown } else { TerminalKey::Char(c) },
                length,
            ),
            Some((None, length)) => DecodedKey::TerminalKey(TerminalKey::Unknown, length),
            None => DecodedKey::More,
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

fn escape(bytes: &[u8]) -> DecodedKey {
    match bytes.get(1) {
        None => DecodedKey::More,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => DecodedKey::More,
            Some(b'M') => DecodedKey::TerminalKey(TerminalKey::Enter, 3),
            Some(letter) => DecodedKey::TerminalKey(letter_key(*letter, 0), 3),
        },
        Some(0x1b) => DecodedKey::TerminalKey(TerminalKey::Escape, 1),
        Some(b'\r' | b'\n') => DecodedKey::TerminalKey(TerminalKey::NewLine, 2),
        Some(0x7f | 0x08) => DecodedKey::TerminalKey(TerminalKey::AltBackspace, 2),
        Some(_) => match decode(&bytes[1..]) {
            DecodedKey::TerminalKey(TerminalKey::Char(c), length) => {
                DecodedKey::TerminalKey(alt(c), length + 1)
            }
            DecodedKey::TerminalKey(_, length) => DecodedKey::TerminalKey(TerminalKey::Unknown, length + 1),
            _ => DecodedKey::More,
        },
    }
}

fn alt(c: char) -> TerminalKey {
    match c {
        'b' | 'B' => TerminalKey::WordLeft,
        'f' | 'F' => TerminalKey::WordRight,
        c => TerminalKey::Alt(c.to_ascii_lowercase()),
    }
}

/// `ESC [`, parameters, a final byte.
fn sequence(bytes: &[u8]) -> DecodedKey {
    let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // Something that can't be a part of it ends it as well.
        let broken = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
        return broken.map_or(DecodedKey::More, |at| DecodedKey::TerminalKey(TerminalKey::Unknown, at + 2));
    };
    let broken = bytes[2..2 + length].iter().position(|byte| !(0x20..=0x3f).contains(byte));
    if let Some(at) = broken {
        return DecodedKey::TerminalKey(TerminalKey::Unknown, at + 2);
    }
    let (parameters, last, length) = (&bytes[2..2 + length], bytes[2 + length], length + 3);
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.split(':').next()?.parse::<u32>().ok();
    let numbers: Vec<u32> =
        parameters.split(|byte| *byte == b';').map(|part| number(part).unwrap_or(0)).collect();
    let get = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let held = get(1).saturating_sub(1);
    let key = match last {
        b'~' => match get(0) {
            200 => return DecodedKey::Paste(length),
            1 | 7 => TerminalKey::Home,
            3 => TerminalKey::Delete,
            4 | 8 => TerminalKey::End,
            5 => TerminalKey::PageUp,
            6 => TerminalKey::PageDown,
            27 => coded(get(2), held),
            _ => TerminalKey::Unknown,
        },
        b'u' => coded(get(0), held),
        letter => letter_key(letter, held),
    };
    DecodedKey::TerminalKey(key, length)
}

const SHIFT: u32 = 1;
const ALT: u32 = 2;
const CTRL: u32 = 4;

fn letter_key(letter: u8, held: u32) -> TerminalKey {
    let by_word = held & (ALT | CTRL) != 0;
    match letter {
        b'A' => TerminalKey::Up,
        b'B' => TerminalKey::Down,
        b'C' if by_word => TerminalKey::WordRight,
        b'C' => TerminalKey::Right,
        b'D' if by_word => TerminalKey::WordLeft,
        b'D' => TerminalKey::Left,
        b'H' => TerminalKey::Home,
        b'F' => TerminalKey::End,
        b'Z' => TerminalKey::BackTab,
        _ => TerminalKey::Unknown,
    }
}

/// A key by the number of its character.
fn coded(code: u32, held: u32) -> TerminalKey {
    let Some(c) = char::from_u32(code) else { return TerminalKey::Unknown };
    match c {
        '\r' if held != 0 => TerminalKey::NewLine,
        '\r' => TerminalKey::Enter,
        '\t' if held & SHIFT != 0 => TerminalKey::BackTab,
        '\t' => TerminalKey::Tab,
        '\x1b' => TerminalKey::Escape,
        '\x7f' | '\x08' if held & ALT != 0 => TerminalKey::AltBackspace,
        '\x7f' | '\x08' => TerminalKey::Backspace,
        c if c.is_control() => TerminalKey::Unknown,
        c if held & CTRL != 0 => TerminalKey::Ctrl(c.to_ascii_lowercase()),
        c if held & ALT != 0 => alt(c),
        c if held & SHIFT != 0 => TerminalKey::Char(c.to_uppercase().next().unwrap_or(c)),
        c => TerminalKey::Char(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<TerminalKey> {
        let (mut decoder, mut keys) = (KeyDecoder::default(), Vec::new());
        decoder.feed(bytes, &mut keys);
        decoder.settle(&mut keys);
        keys
    }

    fn check(bytes: &[u8], expected: &[TerminalKey]) {
        assert_eq!(keys(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        // One byte after the other is the same.
        let (mut decoder, mut one_by_one) = (KeyDecoder::default(), Vec::new());
        bytes.iter().for_each(|byte| decoder.feed(&[*byte], &mut one_by_one));
        decoder.settle(&mut one_by_one);
        assert_eq!(one_by_one, expected, "byte by byte");
    }

    #[test]
    fn letters_and_controls() {
        check("aé日".as_bytes(), &[TerminalKey::Char('a'), TerminalKey::Char('é'), TerminalKey::Char('日')]);
        check(
            b"\r\n\t\x7f\x03\x1a",
            &[
                TerminalKey::Enter,
                TerminalKey::NewLine,
                TerminalKey::Tab,
                TerminalKey::Backspace,
                TerminalKey::Ctrl('c'),
                TerminalKey::Ctrl('z'),
            ],
        );
        check(b"\xff\xc3", &[TerminalKey::Unknown, TerminalKey::Unknown]);
    }

    #[test]
    fn sequences() {
        check(
            b"\x1b[A\x1bOB\x1b[1;5C\x1b[Z\x1b[3~",
            &[
                TerminalKey::Up,
                TerminalKey::Down,
                TerminalKey::WordRight,
                TerminalKey::BackTab,
                TerminalKey::Delete,
            ],
        );
        check(
            b"\x1b\r\x1b[13;2u\x1b[27;2;13~\x1b[13u",
            &[TerminalKey::NewLine, TerminalKey::NewLine, TerminalKey::NewLine, TerminalKey::Enter],
        );
        check(
            b"\x1bb\x1b\x7f\x1bx\x1b[99;5u",
            &[
                TerminalKey::WordLeft,
                TerminalKey::AltBackspace,
                TerminalKey::Alt('x'),
                TerminalKey::Ctrl('c'),
            ],
        );
        check(
            b"\x1b[?62;c\x1b[<0;1;1Ma",
            &[TerminalKey::Unknown, TerminalKey::Unknown, TerminalKey::Char('a')],
        );
        check(b"\x1b", &[TerminalKey::Escape]);
        check(b"\x1b\x1b[A", &[TerminalKey::Escape, TerminalKey::Up]);
    }

    #[test]
    fn a_paste_is_one_key_and_answers_nothing() {
        check(
            b"\x1b[200~y\r\nrm \x1b[31m\x07x\x1b[201~z",
            &[TerminalKey::Paste("y\nrm [31mx".into()), TerminalKey::Char('z')],
        );
        check(
            b"\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~",
            &[TerminalKey::Paste("a".into()), TerminalKey::Paste("b".into())],
        );
    }

    #[test]
    fn a_paste_without_end_takes_no_memory() {
        let (mut decoder, mut keys) = (KeyDecoder::default(), Vec::new());
        decoder.feed(b"\x1b[200~", &mut keys);
        for _ in 0..100 {
            decoder.feed(&[b'x'; 100_000], &mut keys);
        }
        assert!(decoder.paste.as_ref().unwrap().len() < 2 * TYPED_BYTES_MAX);
        decoder.feed(PASTE_END, &mut keys);
        assert!(matches!(&keys[..], [TerminalKey::Paste(text)] if text.len() == TYPED_BYTES_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let (mut decoder, mut keys) = (KeyDecoder::default(), Vec::new());
            let at = at.min(bytes.len());
            decoder.feed(&bytes[..at], &mut keys);
            decoder.feed(&bytes[at..], &mut keys);
            decoder.settle(&mut keys);
            prop_assert!(!decoder.is_waiting());
            prop_assert!(keys.iter().all(|key| !matches!(key, TerminalKey::Char(c) if c.is_control())));
        }
    }
}
