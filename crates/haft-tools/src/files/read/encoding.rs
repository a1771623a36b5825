//! Text that is not UTF-8: UTF-16 with a byte order mark, and legacy encodings, which are detected as
//! browsers do.
//!
//! Such a file is decoded whole and then paged like any other. A file counts as legacy only if its beginning
//! has bytes that are not UTF-8 and hardly any character that is more than one byte of it: a broken byte in a
//! file of UTF-8 stays a broken byte. What decodes with errors, or to characters that no text has, is no
//! text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use haft::files::{FileError, FileMetadata, OpenFile};
use haft::future::BoxFuture;
use haft::{Context, IntoOutput as _, ToolError, ToolOutput};

use super::text::{LineReader, read_page};
use super::{CHANGED, LINES, Read, ReadInput, read_all};
use crate::blocking::off_thread;
use crate::read_tracker::{ContentHash, ShownPage};

/// The largest file whose encoding is guessed, in bytes.
const GUESSED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much of a file that is in memory is looked at for its encoding, in bytes.
const BEGINNING_BYTES: usize = 64 * 1024;

/// Letters beyond ASCII by which an encoding is believed.
const LETTERS_MIN: usize = 6;

/// Whether the beginning of a file looks like text in another encoding than UTF-8.
pub(super) fn is_legacy(beginning: &[u8]) -> bool {
    // As nearly every file is, but for a character that the end of what was read cuts off.
    if str::from_utf8(beginning).map_or_else(|error| error.error_len().is_none(), |_| true) {
        return false;
    }
    let (mut invalid, mut long) = (0, 0);
    let mut chunks = beginning.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        long += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        // A character that is cut off by the end of what was read is none of it.
        let cut = chunks.peek().is_none() && chunk.invalid().len() < 4 && could_begin(chunk.invalid());
        invalid += usize::from(!chunk.invalid().is_empty() && !cut);
    }
    if invalid <= long {
        return false;
    }
    decode_text(beginning, false).is_some()
}

/// Whether bytes at the end could be the beginning of a character of UTF-8.
fn could_begin(bytes: &[u8]) -> bool {
    match bytes {
        [first, rest @ ..] => {
            let len = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return false,
            };
            bytes.len() < len && rest.iter().all(|byte| byte & 0xc0 == 0x80)
        }
        [] => false,
    }
}

/// The text, and the encoding that it was in; nothing if it is no text in any.
fn decode_text(bytes: &[u8], is_whole: bool) -> Option<(String, &'static Encoding)> {
    let (encoding, is_certain) = match bytes {
        [0xff, 0xfe, ..] => (UTF_16LE, true),
        [0xfe, 0xff, ..] => (UTF_16BE, true),
        _ => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(bytes, is_whole);
            (detector.guess(None, Utf8Detection::Deny), false)
        }
    };
    let mut text = String::new();
    let mut decoder = encoding.new_decoder_with_bom_removal();
    text.reserve(decoder.max_utf8_buffer_length(bytes.len())?);
    let (_, _, had_errors) = decoder.decode_to_string(bytes, &mut text, is_whole);
    let odd = |c: char| c.is_control() && !matches!(c, '\t'..='\r' | '\u{1b}' | '\u{85}');
    let controls = text.chars().filter(|c| odd(*c)).count();
    // Of what isn't ASCII most should be letters, and more than a few: else it is rather a byte gone wrong.
    let (letters, others) = text.chars().filter(|c| !c.is_ascii()).fold((0, 0), |(letters, others), c| {
        if c.is_alphanumeric() { (letters + 1, others) } else { (letters, others + 1) }
    });
    let is_text = letters >= LETTERS_MIN && letters >= others && controls * 100 <= text.chars().count();
    let plausible = is_certain || !had_errors && is_text;
    plausible.then_some((text, encoding))
}

/// The text of a whole file that is not UTF-8; nothing for any other.
pub(super) fn decode_file(bytes: &[u8]) -> Option<String> {
    let is_utf16 = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let beginning = &bytes[..bytes.len().min(BEGINNING_BYTES)];
    let is_other =
        if is_utf16 { beginning.contains(&0) } else { !beginning.contains(&0) && is_legacy(beginning) };
    if is_other { decode_text(bytes, true).map(|(text, _)| text) } else { None }
}

/// A page of the decoded text.
pub(super) async fn read_encoded_page(
    tool: &Read,
    input: &ReadInput,
    reader: LineReader,
    shown: &str,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let (metadata, bytes) = read_all(reader, shown).await?;
    let is_utf16 = matches!(bytes[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    if !is_utf16 && metadata.len > GUESSED_BYTES_MAX {
        return Err(ToolError::new(format!(
            "`{shown}` is not UTF-8, and with {} bytes too large to guess its encoding; convert it first",
            metadata.len
        )));
    }
    let (content, decoded) =
        off_thread(bytes.len(), move || (ContentHash::from_bytes(&bytes), decode_text(&bytes, true))).await?;
    let Some((text, encoding)) = decoded else {
        let words = "it is no text in UTF-8, nor in an encoding that can be detected";
        return Err(ToolError::new(format!("`{shown}` can't be shown, {} bytes: {words}", metadata.len)));
    };
    let mut reader =
        LineReader::new(Box::new(DecodedFile { text: text.into_bytes(), at: 0, metadata: metadata.clone() }));
    let first = u64::from(input.offset.unwrap_or(1)).max(1);
    let limit = input.limit.map_or(LINES, u64::from).max(1);
    reader.beginning().await?;
    let page = read_page(&mut reader, shown, first, limit).await?;
    let seen =
        ShownPage { first, next: page.next, content: (reader.is_over && page.is_last).then_some(content) };
    let changed = tool.seen.page(cx, &input.file_path, &metadata, &seen);
    let how = if is_utf16 { "by its mark" } else { "as it was detected" };
    let mut text = page.text?;
    text.push_str(&format!(
        "\n[decoded from {}, {how}; {}]",
        encoding.name(),
        if is_utf16 { "edits keep that encoding" } else { "edits find only what is ASCII in such a file" }
    ));
    if changed {
        text.push_str(CHANGED);
    }
    text.into_output()
}

/// Text in memory, as a file.
struct DecodedFile {
    text: Vec<u8>,
    at: usize,
    metadata: FileMetadata,
}

impl OpenFile for DecodedFile {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        let rest = &self.text[self.at..];
        let bytes = rest[..rest.len().min(max)].to_vec();
        self.at += bytes.len();
        Box::pin(async move { Ok(bytes) })
    }

    fn seek(&mut self, offset: u64) {
        self.at = usize::try_from(offset).map_or(self.text.len(), |offset| offset.min(self.text.len()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::room::Room;

    #[track_caller]
    fn check(bytes: &[u8], lines: &str, encoding: &str) {
        let room = Room::new();
        room.put("f", bytes);
        let said = room.text("Read", json!({"file_path": "f"}));
        let (text, note) = said.rsplit_once("\n[").expect(&said);
        assert_eq!(text, lines);
        assert!(note.starts_with(&format!("decoded from {encoding}, ")), "{note}");
    }

    #[test]
    fn text_in_other_encodings_is_decoded() {
        let utf16 = |big: bool, text: &str| -> Vec<u8> {
            let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        check(&utf16(false, "héllo\r\n😀\r\n"), "1\théllo\n2\t😀", "UTF-16LE");
        check(&utf16(true, "héllo\n"), "1\théllo", "UTF-16BE");
        check(
            b"caf\xe9 au lait\nbien s\xfbr, d\xe9j\xe0 vu, tr\xe8s cr\xe8me\n",
            "1\tcafé au lait\n2\tbien sûr, déjà vu, très crème",
            "windows-1252",
        );
        let russian = "Привет, мир. Это обычный русский текст.";
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode(russian);
        check(&bytes, &format!("1\t{russian}"), "windows-1251");
        let japanese = "これは日本語の文章です。漢字とかなを使います。";
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode(japanese);
        check(&bytes, &format!("1\t{japanese}"), "Shift_JIS");
        let chinese = "这是一个中文文本文件，用于测试编码检测。";
        let (bytes, _, _) = encoding_rs::GBK.encode(chinese);
        check(&bytes, &format!("1\t{chinese}"), "GBK");
    }

    #[test]
    fn a_broken_byte_in_utf8_stays_one() {
        assert!(!is_legacy("schön und gut\n".as_bytes()));
        assert!(!is_legacy(b"sch\xc3\xb6n \xff gut\n"));
        assert!(!is_legacy(b"ascii"));
        assert!(!is_legacy("cut: é".as_bytes().split_last().unwrap().1), "cut off by the end of a chunk");
        assert!(!is_legacy("cut: €".as_bytes().split_last().unwrap().1));
        assert!(is_legacy(b"d\xe9j\xe0 vu au caf\xe9, tr\xe8s cr\xe8me \xe0 la fran\xe7aise"));
        assert!(!is_legacy(b"one \xe9"), "one byte gone wrong is no encoding");
        let noise: Vec<u8> = (1..=255).chain((1..=255).rev()).collect();
        assert!(!is_legacy(&noise));
    }

    #[test]
    fn a_decoded_file_has_pages_and_is_known_by_its_bytes() {
        let room = Room::new();
        room.put("f", "é\n".repeat(8).chars().map(|c| c as u8).collect::<Vec<u8>>());
        let said = room.text("Read", json!({"file_path": "f", "offset": 2, "limit": 2}));
        assert!(said.starts_with("2\té\n3\té\n[lines 2 to 3 of a file of 16 bytes; more follow"), "{said}");
        room.text("Read", json!({"file_path": "f"}));
        room.put("f", b"other\n");
        let (_, words) = room.error("Write", json!({"file_path": "f", "content": "x"}));
        assert!(words.contains("has changed on disk"), "{words}");
    }
}
