//! How large the streams of a PDF are once they are unpacked, before anything keeps them.
//!
//! The library unpacks a stream into memory whole, without a bound, and a few kilobytes that were packed twice become
//! gigabytes. So every stream is unpacked here first, a piece at a time and counted; a file with too much in it is not
//! opened. The bytes are looked at and not the structure, because the structure may itself be packed: a stream is what
//! follows the word, and what begins like packed data is taken for that, also inside of packed data.
//!
//! What is not measured: LZW, and packed data behind ASCII filters. A filter that unpacks behind one of those is
//! refused, so that what they become has a bound in what the file has.

use std::io::Read;

use flate2::read::DeflateDecoder;
use memchr::memmem;

/// The largest stream, in bytes: a picture of 80 million pixels.
pub(super) const STREAM_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// All streams that are no pictures together, in bytes. Pictures are unpacked one at a time.
pub(super) const STREAMS_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often data may be packed.
const NESTED_MAX: usize = 3;
/// How far before a stream its dictionary is looked for, in bytes.
const DICTIONARY_BYTES_MAX: usize = 4 * 1024;

/// How much is unpacked so far, and how much may be.
pub(super) struct Measure {
    stream_max: u64,
    left: u64,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { stream_max: STREAM_BYTES_MAX, left: STREAMS_BYTES_MAX }
    }
}

impl Measure {
    /// Looks at all streams of a file.
    ///
    /// # Errors
    /// In words: it has too much in it.
    pub(super) fn file(&mut self, bytes: &[u8]) -> Result<(), String> {
        let word = b"stream";
        for at in memmem::find_iter(bytes, word) {
            if bytes[..at].ends_with(b"end") {
                continue;
            }
            let before = &bytes[at.saturating_sub(DICTIONARY_BYTES_MAX)..at];
            let dictionary = memmem::rfind(before, b"obj").map_or(before, |begin| &before[begin..]);
            let data = &bytes[at + word.len()..];
            let data = data.strip_prefix(b"\r").unwrap_or(data);
            self.stream(dictionary, data.strip_prefix(b"\n").unwrap_or(data))?;
        }
        Ok(())
    }

    /// Looks at one stream.
    ///
    /// # Errors
    /// In words: it becomes too much.
    pub(super) fn stream(&mut self, dictionary: &[u8], data: &[u8]) -> Result<(), String> {
        let names = |name: &[u8]| memmem::find_iter(dictionary, name).count();
        let packed =
            names(b"/FlateDecode") + names(b"/Fl ") + names(b"/LZWDecode") + names(b"/RunLengthDecode");
        let data = match is_packed(data) {
            true => &data[2..],
            false if packed > 1 => return Err("it has data that is packed more than once".to_owned()),
            // Without the two bytes before it, which some writers forget.
            false if dictionary.starts_with(b"obj") && names(b"/FlateDecode") > 0 && names(b"ASCII") == 0 => {
                data
            }
            false => return Ok(()),
        };
        let is_picture = names(b"/Image") > 0;
        let max = if is_picture { self.stream_max } else { self.stream_max.min(self.left) };
        let len = unpacked(data, max);
        if len > max {
            return Err(format!(
                "it is packed too tightly: it has more than {} MB in one part, or in all that are no pictures",
                max / (1024 * 1024)
            ));
        }
        if !is_picture {
            self.left -= len;
        }
        Ok(())
    }
}

/// Whether data begins as packed data does.
fn is_packed(data: &[u8]) -> bool {
    matches!(data, [first, second, ..]
        if first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}

/// How many bytes data becomes, with all that is packed in it; counted no further than just over `max`.
fn unpacked(data: &[u8], max: u64) -> u64 {
    let mut all = 0_u64;
    for depth in 0..=NESTED_MAX {
        let mut reader: Box<dyn Read + '_> = Box::new(DeflateDecoder::new(data));
        for _ in 0..depth {
            let mut mark = [0; 2];
            if reader.read_exact(&mut mark).is_err() || !is_packed(&mark) {
                return all;
            }
            reader = Box::new(DeflateDecoder::new(reader));
        }
        let mut room = vec![0; 64 * 1024];
        // What is damaged ends there, as it does for the library.
        while let Ok(read @ 1..) = reader.read(&mut room) {
            all += read as u64;
            if all > max {
                return all;
            }
        }
    }
    // Deeper than any program packs.
    u64::MAX
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(data: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn file(filters: &str, data: &[u8]) -> Vec<u8> {
        let head = format!("%PDF-1.7\n4 0 obj\n<< /Length {} /Filter {filters} >>\nstream\n", data.len());
        [head.as_bytes(), data, b"\nendstream\nendobj\n"].concat()
    }

    #[track_caller]
    fn check(filters: &str, data: &[u8], fits: bool) {
        let mut measure = Measure { stream_max: 1_000_000, left: 1_500_000 };
        assert_eq!(measure.file(&file(filters, data)).is_ok(), fits, "{filters}");
    }

    #[test]
    fn data_that_becomes_too_much_is_refused() {
        let large = vec![b' '; 4_000_000];
        let (once, twice) = (packed(&large), packed(&packed(&large)));
        assert!(twice.len() < 200, "{}", twice.len());
        check("/FlateDecode", &once, false);
        check("/FlateDecode", &once[2..], false);
        check("[/FlateDecode /FlateDecode]", &twice, false);
        check("7 0 R", &twice, false);
        check("[/ASCII85Decode /FlateDecode /FlateDecode]", b"abc", false);
        let fits = packed(&large[..900_000]);
        check("/FlateDecode", &fits, true);
        check("/FlateDecode", &[], true);
        check("[/FlateDecode /DCTDecode]", &packed(b"\xff\xd8\xff"), true);
        check("[/ASCII85Decode /FlateDecode]", b"abc", true);
        let mut measure = Measure { stream_max: 1_000_000, left: 1_500_000 };
        assert!(measure.file(&[file("/FlateDecode", &fits), file("/FlateDecode", &fits)].concat()).is_err());
        let picture = file("/FlateDecode /Subtype /Image", &fits);
        let mut measure = Measure { stream_max: 1_000_000, left: 1_500_000 };
        assert!(measure.file(&picture.repeat(5)).is_ok(), "one at a time");
    }
}
