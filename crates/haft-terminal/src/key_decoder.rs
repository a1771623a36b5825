//! Decodes bytes from a terminal to keys.
//!
//! Supports what common terminals send: UTF-8, control characters, the sequences of xterm, the `CSI
//! … u` sequences for modified letters, and bracketed paste. An unknown sequence is one unknown
//! key, never separate letters. An escape byte that is not followed by another byte soon is the
//! Escape key; the caller measures the time and calls [`KeyDecoder::settle`].

use crate::limits::{KEY_BYTES_MAX, TYPED_BYTES_MAX};

/// A key or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalKey {
    Char(char),
    /// Pasted text with `\n` line ends.
    Paste(String),
    Enter,
    /// Enter with a modifier, or Ctrl-J: starts a new line.
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
    /// Ctrl with a letter in lower case.
    Ctrl(char),
    Alt(char),
    AltBackspace,
    Unknown,
}

impl TerminalKey {
    /// Returns whether the key is part of a text, including Enter.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self,
            TerminalKey::Char(_) | TerminalKey::Paste(_) | TerminalKey::Enter | TerminalKey::NewLine
        )
    }
}

/// Decodes bytes in chunks of any size.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder {
    bytes: Vec<u8>,
    /// An incomplete paste.
    paste: Option<Vec<u8>>,
}

const PASTE_END: &[u8] = b"\x1b[201~";

impl KeyDecoder {
    /// Decodes bytes; appends the complete keys.
    pub(crate) fn feed(&mut self, bytes: &[u8], keys: &mut Vec<TerminalKey>) {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            if self.paste.is_some() {
                match self.append_paste(at) {
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
                DecodedKey::Key(key, length) => {
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

    /// Returns whether an incomplete key waits for more bytes.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.bytes.is_empty()
    }

    /// Decodes an incomplete key as it is, after a timeout.
    pub(crate) fn settle(&mut self, keys: &mut Vec<TerminalKey>) {
        if self.is_waiting() {
            let bytes = std::mem::take(&mut self.bytes);
            keys.push(if bytes == b"\x1b" { TerminalKey::Escape } else { TerminalKey::Unknown });
        }
    }

    /// Appends bytes to the paste. At its end, returns the key and the offset of the rest.
    fn append_paste(&mut self, at: usize) -> Option<(usize, TerminalKey)> {
        let mut paste = self.paste.take()?;
        let rest = self.bytes.split_off(at);
        let before = paste.len();
        // The end marker may start in the previous chunk.
        let from = before.saturating_sub(PASTE_END.len());
        paste.extend_from_slice(&rest);
        let end = paste[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END);
        match end {
            Some(end) => {
                let after = paste.split_off(from + end);
                self.bytes.clear();
                self.bytes.extend_from_slice(&after[PASTE_END.len()..]);
                paste.truncate(TYPED_BYTES_MAX);
                Some((0, TerminalKey::Paste(sanitize_paste(&paste))))
            }
            None => {
                if paste.len() > TYPED_BYTES_MAX + PASTE_END.len() {
                    // Excess bytes are dropped, except a possible start of the end marker.
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

/// Converts pasted bytes to text: normalizes line ends and drops other control characters.
fn sanitize_paste(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

enum DecodedKey {
    Key(TerminalKey, usize),
    /// A paste starts after this many bytes.
    Paste(usize),
    More,
}

fn decode(bytes: &[u8]) -> DecodedKey {
    let one = |key| DecodedKey::Key(key, 1);
    match bytes[0] {
        0x1b => decode_escape(bytes),
        b'\r' => one(TerminalKey::Enter),
        b'\n' => one(TerminalKey::NewLine),
        b'\t' => one(TerminalKey::Tab),
        0x7f | 0x08 => one(TerminalKey::Backspace),
        0 => one(TerminalKey::Ctrl(' ')),
        byte @ 0x01..=0x1a => one(TerminalKey::Ctrl((byte - 1 + b'a') as char)),
        byte @ 0x1c..=0x1f => one(TerminalKey::Ctrl((byte + 0x40) as char)),
        byte @ 0x20..=0x7e => one(TerminalKey::Char(byte as char)),
        _ => match utf8(bytes) {
            Some((Some(c), length)) => DecodedKey::Key(
                if c.is_control() { TerminalKey::Unknown } else { TerminalKey::Char(c) },
                length,
            ),
            Some((None, length)) => DecodedKey::Key(TerminalKey::Unknown, length),
            None => DecodedKey::More,
        },
    }
}

/// Decodes the first character, or the length of invalid bytes; `None` if more bytes are needed.
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

fn decode_escape(bytes: &[u8]) -> DecodedKey {
    match bytes.get(1) {
        None => DecodedKey::More,
        Some(b'[') => decode_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => DecodedKey::More,
            Some(b'M') => DecodedKey::Key(TerminalKey::Enter, 3),
            Some(letter) => DecodedKey::Key(letter_key(*letter, 0), 3),
        },
        Some(0x1b) => DecodedKey::Key(TerminalKey::Escape, 1),
        Some(b'\r' | b'\n') => DecodedKey::Key(TerminalKey::NewLine, 2),
        Some(0x7f | 0x08) => DecodedKey::Key(TerminalKey::AltBackspace, 2),
        Some(_) => match decode(&bytes[1..]) {
            DecodedKey::Key(TerminalKey::Char(c), length) => DecodedKey::Key(alt_key(c), length + 1),
            DecodedKey::Key(_, length) => DecodedKey::Key(TerminalKey::Unknown, length + 1),
            _ => DecodedKey::More,
        },
    }
}

fn alt_key(c: char) -> TerminalKey {
    match c {
        'b' | 'B' => TerminalKey::WordLeft,
        'f' | 'F' => TerminalKey::WordRight,
        c => TerminalKey::Alt(c.to_ascii_lowercase()),
    }
}

/// Decodes `ESC [`, parameters, and a final byte.
fn decode_sequence(bytes: &[u8]) -> DecodedKey {
    let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // An invalid byte ends the sequence.
        let broken = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
        return broken.map_or(DecodedKey::More, |at| DecodedKey::Key(TerminalKey::Unknown, at + 2));
    };
    let broken = bytes[2..2 + length].iter().position(|byte| !(0x20..=0x3f).contains(byte));
    if let Some(at) = broken {
        return DecodedKey::Key(TerminalKey::Unknown, at + 2);
    }
    let (parameters, last, length) = (&bytes[2..2 + length], bytes[2 + length], length + 3);
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.split(':').next()?.parse::<u32>().ok();
    let numbers: Vec<u32> =
        parameters.split(|byte| *byte == b';').map(|part| number(part).unwrap_or(0)).collect();
    let get = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let modifiers = get(1).saturating_sub(1);
    let key = match last {
        b'~' => match get(0) {
            200 => return DecodedKey::Paste(length),
            1 | 7 => TerminalKey::Home,
            3 => TerminalKey::Delete,
            4 | 8 => TerminalKey::End,
            5 => TerminalKey::PageUp,
            6 => TerminalKey::PageDown,
            27 => key_from_code(get(2), modifiers),
            _ => TerminalKey::Unknown,
        },
        b'u' => key_from_code(get(0), modifiers),
        letter => letter_key(letter, modifiers),
    };
    DecodedKey::Key(key, length)
}

const SHIFT: u32 = 1;
const ALT: u32 = 2;
const CTRL: u32 = 4;

fn letter_key(letter: u8, modifiers: u32) -> TerminalKey {
    let by_word = modifiers & (ALT | CTRL) != 0;
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

/// Returns the key for a character code with modifiers.
fn key_from_code(code: u32, modifiers: u32) -> TerminalKey {
    let Some(c) = char::from_u32(code) else { return TerminalKey::Unknown };
    match c {
        '\r' if modifiers != 0 => TerminalKey::NewLine,
        '\r' => TerminalKey::Enter,
        '\t' if modifiers & SHIFT != 0 => TerminalKey::BackTab,
        '\t' => TerminalKey::Tab,
        '\x1b' => TerminalKey::Escape,
        '\x7f' | '\x08' if modifiers & ALT != 0 => TerminalKey::AltBackspace,
        '\x7f' | '\x08' => TerminalKey::Backspace,
        c if c.is_control() => TerminalKey::Unknown,
        c if modifiers & CTRL != 0 => TerminalKey::Ctrl(c.to_ascii_lowercase()),
        c if modifiers & ALT != 0 => alt_key(c),
        c if modifiers & SHIFT != 0 => TerminalKey::Char(c.to_uppercase().next().unwrap_or(c)),
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
        // Feeding single bytes gives the same keys.
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
