//! How large the streams of a PDF are once they are unpacked, before anything keeps them.
//!
//! The library unpacks a stream into memory whole, without a bound, and a few kilobytes that were packed twice become
//! gigabytes. So every stream is unpacked here first, a piece at a time and counted; a file with too much in it is not
//! opened. The bytes are looked at and not the structure, because the structure may itself be packed: a stream is what
//! follows the word, and what begins like packed data is taken for that, also inside of packed data.
//!
//! Other filters don't show in the bytes. Where a dictionary names one, the data goes through all that it names, in its
//! order ([`Filter`]), and is counted behind each. Where it names one and says which elsewhere, the file is refused.
//!
//! What is encrypted can be measured only once the file is open, but for parts that opening itself unpacks: the objects
//! that are packed together. Of those the packed size is bounded, so that what they become is too.

use std::io::Read;

use flate2::read::DeflateDecoder;
use memchr::memmem;

use super::filters::{Data, Filter, is_zlib};

/// The largest stream, in bytes: a picture of 80 million pixels.
pub(super) const STREAM_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// All streams that are no pictures together, in bytes. Pictures are unpacked one at a time.
pub(super) const STREAMS_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often data may be packed.
const NESTED_MAX: usize = 3;
/// Encrypted objects that are packed together: in one part, and all of them, in bytes. Deflated data becomes at most a
/// thousand times as much.
const ENCRYPTED_PART_BYTES_MAX: usize = 256 * 1024;
const ENCRYPTED_BYTES_MAX: usize = 2 * 1024 * 1024;
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

    /// Looks at what opening an encrypted file unpacks.
    ///
    /// # Errors
    /// In words: it may become too much.
    pub(super) fn encrypted(bytes: &[u8]) -> Result<(), String> {
        let mut all = 0;
        for at in memmem::find_iter(bytes, b"/ObjStm") {
            let data =
                memmem::find(&bytes[at..], b"stream").map_or(&bytes[at..], |begin| &bytes[at + begin..]);
            let len = memmem::find(data, b"endstream").unwrap_or(data.len());
            all += len;
            if len > ENCRYPTED_PART_BYTES_MAX || all > ENCRYPTED_BYTES_MAX {
                return Err(
                    "it is encrypted, and too much of it is packed to be opened as it is; decrypt it first"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Looks at one stream.
    ///
    /// # Errors
    /// In words: it becomes too much.
    pub(super) fn stream(&mut self, dictionary: &[u8], data: &[u8]) -> Result<(), String> {
        let names = |name: &[u8]| memmem::find_iter(dictionary, name).count();
        let is_picture = names(b"/Image") > 0;
        let max = if is_picture { self.stream_max } else { self.stream_max.min(self.left) };
        let flate = names(b"/FlateDecode") + names(b"/Fl ");
        let others = names(b"/LZW") + names(b"/RunLengthDecode") + names(b"/RL ");
        let text = names(b"/ASCII") + names(b"/A85") + names(b"/AHx");
        let mut len = 0;
        if is_zlib(data) {
            len = unpacked(&data[2..], max);
        } else if flate > 0 && text == 0 && others == 0 && dictionary.starts_with(b"obj") {
            // Without the two bytes before it, which some writers forget.
            len = unpacked(data, max);
        }
        if flate + others > 1 || others > 0 || text > 0 && flate > 0 {
            let Some(filters) = Filter::named(dictionary) else {
                return Err("it has data that is packed in a way that can't be measured".to_owned());
            };
            len = len.max(through(&filters, data, max));
        }
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

/// How many bytes come out of filters, of all of them together; counted no further than just over `max`.
fn through(filters: &[Filter], data: &[u8], max: u64) -> u64 {
    if filters.iter().filter(|filter| filter.unpacks()).count() > NESTED_MAX {
        return u64::MAX;
    }
    let mut all = 0;
    for end in 1..=filters.len() {
        let (filters, last) = (&filters[..end], filters[end - 1]);
        if last == Filter::Last {
            break;
        }
        let data: Data<'_> = Box::new(data);
        count(filters.iter().fold(data, |data, filter| filter.over(data)), &mut all, max);
        if all > max {
            break;
        }
    }
    all
}

/// Counts what is there. What is damaged ends there, as it does for the library.
fn count(mut data: impl Read, all: &mut u64, max: u64) {
    let mut room = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = data.read(&mut room) {
        *all += read as u64;
        if *all > max {
            return;
        }
    }
}

/// How many bytes data becomes, with all that is packed in it; counted no further than just over `max`.
fn unpacked(data: &[u8], max: u64) -> u64 {
    let mut all = 0_u64;
    for depth in 0..=NESTED_MAX {
        let mut reader: Box<dyn Read + '_> = Box::new(DeflateDecoder::new(data));
        for _ in 0..depth {
            let mut mark = [0; 2];
            if reader.read_exact(&mut mark).is_err() || !is_zlib(&mark) {
                return all;
            }
            reader = Box::new(DeflateDecoder::new(reader));
        }
        count(reader, &mut all, max);
        if all > max {
            return all;
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

    fn hex(data: &[u8]) -> Vec<u8> {
        data.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).chain([b'>']).collect()
    }

    /// Filters that don't show in the bytes, alone and behind each other.
    #[test]
    fn data_behind_other_filters_is_measured_too() {
        let large = vec![b' '; 4_000_000];
        let (once, fits) = (packed(&large), packed(&large[..900_000]));
        check("[/ASCIIHexDecode /FlateDecode]", &hex(&once), false);
        check("[/ASCIIHexDecode /FlateDecode]", &hex(&fits), true);
        check("[/ASCIIHexDecode /FlateDecode /FlateDecode]", &hex(&packed(&once)), false);
        // Runs of 128 bytes, each in two.
        let runs = [129, b' '].repeat(20_000);
        check("/RunLengthDecode", &runs, false);
        check("/RunLengthDecode", &runs[..8_000], true);
        check("[/FlateDecode /RunLengthDecode]", &packed(&runs), false);
        // One byte, and then ever longer runs of it: codes of 258 and up, each the one that is just being made.
        let mut bits = String::new();
        let mut put = |code: usize, width: usize| bits.push_str(&format!("{code:0width$b}"));
        put(256, 9);
        put(32, 9);
        for code in 258..4_000 {
            put(code, [511, 1023, 2047].iter().filter(|most| code >= **most).count() + 9);
        }
        let bits = bits.as_bytes().chunks_exact(8);
        let codes: Vec<u8> =
            bits.map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | (bit & 1))).collect();
        assert!(codes.len() < 6_000);
        check("/LZWDecode", &codes, false);
        check("/LZWDecode", &codes[..500], true);
        check("[/ASCIIHexDecode /LZWDecode]", &hex(&codes), false);
        check("[/LZWDecode 7 0 R]", &codes, false);
    }

    #[test]
    fn what_opening_an_encrypted_file_unpacks_has_a_bound() {
        let part =
            |len: usize| [&b"<< /Type /ObjStm >>\nstream\n"[..], &vec![b'x'; len], b"\nendstream"].concat();
        assert!(Measure::encrypted(&part(1_000).repeat(100)).is_ok());
        assert!(Measure::encrypted(&part(ENCRYPTED_PART_BYTES_MAX + 1)).is_err());
        assert!(Measure::encrypted(&part(200_000).repeat(11)).is_err());
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
        check("[/ASCII85Decode /FlateDecode /FlateDecode]", b"abc", true);
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
