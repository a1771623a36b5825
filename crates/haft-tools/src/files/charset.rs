//! Files whose text is not UTF-8, for the tools that change files.
//!
//! What a model gives is UTF-8. A file in UTF-16 with a byte order mark is decoded, changed, and encoded as
//! it was. Put into a file of another encoding, the model's text makes one that is in neither, which no
//! program shows as it was meant. ASCII is the same in all of those, so only what goes beyond it is refused.
//! A byte gone wrong in a file that otherwise has characters of UTF-8 is no other encoding.

use haft::ToolError;

/// The byte order mark, as a character.
const MARK: char = '\u{feff}';

/// UTF-16 with a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utf16Order {
    LittleEndian,
    BigEndian,
}

impl Utf16Order {
    /// The encoding of a file that begins with the mark. Text in a legacy encoding may begin so, too, but has
    /// no zero byte.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Utf16Order> {
        let encoding = match bytes {
            [0xff, 0xfe, ..] => Utf16Order::LittleEndian,
            [0xfe, 0xff, ..] => Utf16Order::BigEndian,
            _ => return None,
        };
        bytes[..bytes.len().min(crate::read::SNIFF_BYTES)].contains(&0).then_some(encoding)
    }

    /// The text of a file, without the mark.
    ///
    /// # Errors
    /// The file is not UTF-16 throughout, and would not be the same bytes when it is encoded again; the end
    /// of a sentence.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<String, String> {
        let (units, rest) = bytes.as_chunks::<2>();
        let units = units.iter().map(|unit| match self {
            Utf16Order::LittleEndian => u16::from_le_bytes(*unit),
            Utf16Order::BigEndian => u16::from_be_bytes(*unit),
        });
        let text: String = char::decode_utf16(units.skip(1)).collect::<Result<_, _>>().map_err(|_| {
            "begins as UTF-16, and has a half of a character in it; it can't be changed".to_owned()
        })?;
        if rest.is_empty() {
            Ok(text)
        } else {
            Err("begins as UTF-16, and has an odd number of bytes; it can't be changed".to_owned())
        }
    }

    /// The bytes of a file with this text, which is UTF-8.
    pub(crate) fn encode(self, text: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(text);
        let units = std::iter::once(MARK).chain(text.chars());
        let mut bytes = Vec::with_capacity(2 * text.len() + 2);
        for c in units {
            for unit in c.encode_utf16(&mut [0; 2]) {
                bytes.extend(match self {
                    Utf16Order::LittleEndian => unit.to_le_bytes(),
                    Utf16Order::BigEndian => unit.to_be_bytes(),
                });
            }
        }
        bytes
    }
}

/// Whether a file is text in an encoding of the time before Unicode, such as windows-1252.
pub(crate) fn is_legacy(bytes: &[u8]) -> bool {
    if str::from_utf8(bytes).is_ok() || bytes.contains(&0) {
        return false;
    }
    let (mut wrong, mut right) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        wrong += usize::from(!chunk.invalid().is_empty());
    }
    wrong > right
}

/// Whether these texts may be put into a file.
///
/// # Errors
/// The file is in a legacy encoding, and a text goes beyond ASCII.
pub(crate) fn check_encodable<'a>(
    file: &[u8],
    texts: impl IntoIterator<Item = &'a str>,
    tool: &str,
    shown: &str,
) -> Result<(), ToolError> {
    let Some(beyond) = texts.into_iter().find_map(|text| text.chars().find(|c| !c.is_ascii())) else {
        return Ok(());
    };
    if !is_legacy(file) {
        return Ok(());
    }
    Err(ToolError::new(format!(
        "`{shown}` is in another encoding than UTF-8, and the new text has `{beyond}`, which would be put there as UTF-8; \
         {tool} puts only ASCII into such a file: convert it to UTF-8 first, or write the whole file with Write"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_known_and_a_wrong_byte_is_none() {
        let check =
            |bytes: &[u8], expected| assert_eq!((Utf16Order::detect(bytes), is_legacy(bytes)), expected);
        check(b"ascii", (None, false));
        check("sch\u{f6}n".as_bytes(), (None, false));
        check(b"caf\xe9 cr\xe8me\n", (None, true));
        check(b"\xff\xfe legacy \xe9", (None, true));
        check(b"sch\xc3\xb6n \xff gut\n", (None, false));
        check(b"\xff\xfea\0", (Some(Utf16Order::LittleEndian), false));
        check(b"\xfe\xff\0a", (Some(Utf16Order::BigEndian), false));
        check(b"\x89PNG\r\n\x1a\n\0\0\xff", (None, false));
    }

    #[test]
    fn utf16_is_the_same_bytes_when_it_is_encoded_again() {
        for encoding in [Utf16Order::LittleEndian, Utf16Order::BigEndian] {
            let bytes = encoding.encode("h\u{e9}llo\r\n\u{1f600}\0\n".as_bytes());
            assert_eq!(Utf16Order::detect(&bytes), Some(encoding));
            assert_eq!(encoding.encode(encoding.decode(&bytes).unwrap().as_bytes()), bytes);
        }
        assert!(Utf16Order::LittleEndian.decode(b"\xff\xfea").is_err());
        assert!(Utf16Order::BigEndian.decode(b"\xfe\xff\xd8\0\0a").is_err());
    }
}
