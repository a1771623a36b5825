//! Files whose text is not UTF-8, for the tools that put UTF-8 into files.
//!
//! What a model gives is UTF-8. Put into a file of another encoding it makes one that is in neither, which no program
//! shows as it was meant. ASCII is the same in all of them but UTF-16, so only what goes beyond it is refused. A byte
//! gone wrong in a file that otherwise has characters of UTF-8 is no other encoding.

use haft::ToolError;

/// What a file is in, if it is text and not in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    Utf16,
    /// An encoding of the time before Unicode, such as windows-1252; which one is not asked here.
    Legacy,
}

impl Other {
    /// Nothing for UTF-8, and for what is no text.
    pub(crate) fn of(bytes: &[u8]) -> Option<Other> {
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            return bytes[..bytes.len().min(crate::read::SNIFF_BYTES)].contains(&0).then_some(Other::Utf16);
        }
        if str::from_utf8(bytes).is_ok() || bytes.contains(&0) {
            return None;
        }
        let (mut wrong, mut right) = (0_usize, 0_usize);
        for chunk in bytes.utf8_chunks() {
            right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
            wrong += usize::from(!chunk.invalid().is_empty());
        }
        (wrong > right).then_some(Other::Legacy)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Other::Utf16 => "UTF-16",
            Other::Legacy => "another encoding than UTF-8",
        }
    }
}

/// Whether these texts may be put into a file.
///
/// # Errors
/// The file is in another encoding, and a text goes beyond ASCII.
pub(crate) fn check<'a>(
    file: &[u8],
    texts: impl IntoIterator<Item = &'a str>,
    tool: &str,
    shown: &str,
) -> Result<(), ToolError> {
    let Some(beyond) = texts.into_iter().find_map(|text| text.chars().find(|c| !c.is_ascii())) else {
        return Ok(());
    };
    match Other::of(file) {
        None => Ok(()),
        Some(other) => Err(ToolError::new(format!(
            "`{shown}` is in {}, and the new text has `{beyond}`, which would be put there as UTF-8; {tool} puts only ASCII \
             into such a file: convert it to UTF-8 first, or write the whole file with Write",
            other.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_known_and_a_wrong_byte_is_none() {
        let check = |bytes: &[u8], expected| assert_eq!(Other::of(bytes), expected, "{bytes:?}");
        check(b"ascii", None);
        check("sch\u{f6}n".as_bytes(), None);
        check(b"caf\xe9 cr\xe8me\n", Some(Other::Legacy));
        check(b"sch\xc3\xb6n \xff gut\n", None);
        check(b"\xff\xfea\0", Some(Other::Utf16));
        check(b"\xfe\xff\0a", Some(Other::Utf16));
        check(b"\x89PNG\r\n\x1a\n\0\0\xff", None);
    }
}
