//! What the filters of a PDF make of data, a piece at a time: as readers, so that what comes out can be counted and is never
//! kept whole.
//!
//! They are as forgiving as readers of PDF are: what is damaged ends there. Filters for pictures are not here; what they
//! make has the size that the picture says.

use std::io::{self, Read};

use flate2::read::{DeflateDecoder, ZlibDecoder};

/// Data that comes out of a filter.
pub(super) type Data<'a> = Box<dyn Read + 'a>;

/// What a filter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Flate,
    Lzw {
        /// Whether codes grow one entry early, as they do unless it is said otherwise.
        early: bool,
    },
    RunLength,
    Ascii85,
    AsciiHex,
    /// Of a picture, or of an encryption: what comes out is not counted here.
    Last,
}

impl Filter {
    /// The filters that a dictionary names, in order; none where it says it elsewhere.
    pub(super) fn named(dictionary: &[u8]) -> Option<Vec<Filter>> {
        let at = find(dictionary, b"/Filter")?;
        let value = dictionary[at + b"/Filter".len()..].trim_ascii_start();
        let names = match value.strip_prefix(b"[") {
            Some(list) => &list[..find(list, b"]")?],
            None => {
                let name = value.strip_prefix(b"/")?;
                let end = name.iter().position(|byte| !is_regular(*byte)).unwrap_or(name.len());
                &value[..=end]
            }
        };
        let early = find(dictionary, b"/EarlyChange")
            .is_none_or(|at| !dictionary[at + b"/EarlyChange".len()..].trim_ascii_start().starts_with(b"0"));
        let filter = |name: &[u8]| match name {
            b"FlateDecode" | b"Fl" => Filter::Flate,
            b"LZWDecode" | b"LZW" => Filter::Lzw { early },
            b"RunLengthDecode" | b"RL" => Filter::RunLength,
            b"ASCII85Decode" | b"A85" => Filter::Ascii85,
            b"ASCIIHexDecode" | b"AHx" => Filter::AsciiHex,
            _ => Filter::Last,
        };
        // What stands behind a name in a list is a reference, and says what it is elsewhere.
        let names: Vec<&[u8]> = names.split(|byte| *byte == b'/').map(<[u8]>::trim_ascii).collect();
        let (first, names) = names.split_first()?;
        let are_names =
            first.is_empty() && names.iter().all(|name| name.iter().all(|byte| is_regular(*byte)));
        are_names.then(|| names.iter().map(|name| filter(name)).collect())
    }

    /// Whether more can come out than goes in.
    pub(super) fn unpacks(self) -> bool {
        matches!(self, Filter::Flate | Filter::Lzw { .. } | Filter::RunLength)
    }

    /// What it makes of data; the last one's is what goes in.
    pub(super) fn over<'a>(self, data: Data<'a>) -> Data<'a> {
        match self {
            Filter::Flate => Box::new(Flate::Unknown(Some(data))),
            Filter::Lzw { early } => Box::new(Pump::new(Lzw::new(data, early))),
            Filter::RunLength => Box::new(Pump::new(RunLength(Bytes::new(data)))),
            Filter::Ascii85 => Box::new(Pump::new(Ascii85(Bytes::new(data)))),
            Filter::AsciiHex => Box::new(Pump::new(AsciiHex(Bytes::new(data)))),
            Filter::Last => data,
        }
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, word)
}

/// Whether a byte can be in a name.
fn is_regular(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"()<>[]{}/%\0".contains(&byte)
}

/// Deflated data, with or without the two bytes before it, which some writers forget.
enum Flate<'a> {
    Unknown(Option<Data<'a>>),
    Known(Data<'a>),
}

impl Read for Flate<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if let Flate::Unknown(data) = self {
            let mut data = data.take().unwrap_or_else(|| Box::new(io::empty()));
            let mut mark = Vec::new();
            data.by_ref().take(2).read_to_end(&mut mark)?;
            let is_marked = is_zlib(&mark);
            let whole = io::Cursor::new(mark).chain(data);
            *self = Flate::Known(match is_marked {
                true => Box::new(ZlibDecoder::new(whole)),
                false => Box::new(DeflateDecoder::new(whole)),
            });
        }
        match self {
            Flate::Known(data) => data.read(room),
            Flate::Unknown(_) => Ok(0),
        }
    }
}

/// Whether data begins as deflated data does.
pub(super) fn is_zlib(data: &[u8]) -> bool {
    matches!(data, [first, second, ..]
        if first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}

/// Data byte by byte.
struct Bytes<'a> {
    data: Data<'a>,
    room: Box<[u8]>,
    at: usize,
    end: usize,
}

impl<'a> Bytes<'a> {
    fn new(data: Data<'a>) -> Bytes<'a> {
        Bytes { data, room: vec![0; 16 * 1024].into(), at: 0, end: 0 }
    }

    fn next(&mut self) -> Option<u8> {
        if self.at == self.end {
            self.end = self.data.read(&mut self.room).ok()?;
            self.at = 0;
        }
        let byte = *self.room[..self.end].get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

/// Something that makes a few bytes at a time.
trait Step {
    /// Puts some there; nothing at the end.
    fn step(&mut self, out: &mut Vec<u8>) -> Option<()>;
}

/// A reader of what is made in steps.
struct Pump<S> {
    step: S,
    out: Vec<u8>,
    at: usize,
}

impl<S: Step> Pump<S> {
    fn new(step: S) -> Pump<S> {
        Pump { step, out: Vec::new(), at: 0 }
    }
}

impl<S: Step> Read for Pump<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.at == self.out.len() {
            self.out.clear();
            self.at = 0;
            if self.step.step(&mut self.out).is_none() {
                return Ok(0);
            }
        }
        let count = room.len().min(self.out.len() - self.at);
        room[..count].copy_from_slice(&self.out[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

struct RunLength<'a>(Bytes<'a>);

impl Step for RunLength<'_> {
    fn step(&mut self, out: &mut Vec<u8>) -> Option<()> {
        match self.0.next()? {
            128 => None,
            count @ 0..128 => (0..=count).try_for_each(|_| {
                out.push(self.0.next()?);
                Some(())
            }),
            count => {
                let byte = self.0.next()?;
                out.resize(257 - usize::from(count), byte);
                Some(())
            }
        }
    }
}

struct AsciiHex<'a>(Bytes<'a>);

impl AsciiHex<'_> {
    fn digit(&mut self) -> Option<u8> {
        loop {
            match self.0.next()? {
                b'>' => {
                    self.0 = Bytes::new(Box::new(io::empty()));
                    return None;
                }
                byte => {
                    if let Some(digit) = char::from(byte).to_digit(16) {
                        return u8::try_from(digit).ok();
                    }
                }
            }
        }
    }
}

impl Step for AsciiHex<'_> {
    fn step(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let high = self.digit()?;
        out.push(high << 4 | self.digit().unwrap_or(0));
        Some(())
    }
}

struct Ascii85<'a>(Bytes<'a>);

impl Step for Ascii85<'_> {
    fn step(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let (mut group, mut count) = (0_u32, 0_usize);
        while count < 5 {
            match self.0.next() {
                Some(b'z') if count == 0 => {
                    out.extend([0; 4]);
                    return Some(());
                }
                Some(byte @ b'!'..=b'u') => {
                    group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                    count += 1;
                }
                Some(b'~') | None => break,
                Some(_) => {}
            }
        }
        let full = count == 5;
        if count < 2 {
            return None;
        }
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        out.extend(&group.to_be_bytes()[..count - 1]);
        // After a part there is nothing more; the next step finds that out as well.
        if !full {
            self.0 = Bytes::new(Box::new(io::empty()));
        }
        Some(())
    }
}

/// The dictionary coder, as TIFF and PDF have it.
struct Lzw<'a> {
    data: Bytes<'a>,
    early: usize,
    bits: u32,
    left: u32,
    /// Each entry is one before it and a byte.
    table: Vec<(u16, u8)>,
    last: Option<u16>,
}

const CLEAR: u16 = 256;
const END: u16 = 257;
const FIRST: u16 = 258;
const CODES: usize = 4096;

impl<'a> Lzw<'a> {
    fn new(data: Data<'a>, early: bool) -> Lzw<'a> {
        let (data, early) = (Bytes::new(data), usize::from(early));
        Lzw { data, early, bits: 0, left: 0, table: Vec::new(), last: None }
    }

    fn code(&mut self) -> Option<u16> {
        let known = usize::from(FIRST) + self.table.len() + usize::from(self.last.is_some()) + self.early;
        let width = match known {
            ..=512 => 9,
            513..=1024 => 10,
            1025..=2048 => 11,
            _ => 12,
        };
        while self.left < width {
            self.bits = self.bits << 8 | u32::from(self.data.next()?);
            self.left += 8;
        }
        self.left -= width;
        u16::try_from(self.bits >> self.left & ((1 << width) - 1)).ok()
    }

    /// The bytes of an entry.
    fn spell(&self, mut code: u16, out: &mut Vec<u8>) -> Option<()> {
        let begin = out.len();
        while code >= FIRST {
            let (before, byte) = *self.table.get(usize::from(code - FIRST))?;
            out.push(byte);
            code = before;
        }
        out.push(u8::try_from(code).ok()?);
        out[begin..].reverse();
        Some(())
    }
}

impl Step for Lzw<'_> {
    fn step(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let code = self.code()?;
        if code == CLEAR {
            self.table.clear();
            self.last = None;
            return Some(());
        }
        if code == END {
            return None;
        }
        let begin = out.len();
        let next = FIRST + u16::try_from(self.table.len()).ok()?;
        match self.last {
            // The entry that this very code makes: the last one, and its own first byte.
            Some(last) if code == next => {
                self.spell(last, out)?;
                out.push(out[begin]);
            }
            _ => self.spell(code, out)?,
        }
        if let Some(last) = self.last
            && usize::from(next) < CODES
        {
            self.table.push((last, out[begin]));
        }
        self.last = Some(code);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(filter: Filter, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        filter.over(Box::new(data)).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn filters_are_found_by_their_names() {
        let named = |text: &str| Filter::named(text.as_bytes());
        let lzw = Filter::Lzw { early: true };
        assert_eq!(named("<< /Filter /FlateDecode /Length 3 >>"), Some(vec![Filter::Flate]));
        assert_eq!(named("<</Filter/LZWDecode>>"), Some(vec![lzw]));
        assert_eq!(
            named("<< /Filter [ /ASCII85Decode /LZWDecode ] /DecodeParms [null <</EarlyChange 0>>] >>"),
            Some(vec![Filter::Ascii85, Filter::Lzw { early: false }])
        );
        assert_eq!(
            named("<< /Filter [/A85/Fl/DCTDecode] >>"),
            Some(vec![Filter::Ascii85, Filter::Flate, Filter::Last])
        );
        assert_eq!(named("<< /Filter 7 0 R >>"), None);
        assert_eq!(named("<< /Filter [/Fl 7 0 R] >>"), None);
        assert_eq!(named("<< /Length 3 >>"), None);
    }

    #[test]
    fn text_and_runs_are_unpacked() {
        assert_eq!(all(Filter::AsciiHex, b"48 65 6C6c 6f7>rest"), b"Hellop");
        assert_eq!(all(Filter::Ascii85, b"87cURD]i,\"Ebo80~>"), b"Hello World!");
        assert_eq!(all(Filter::Ascii85, b"z87cUR~>"), b"\0\0\0\0Hell");
        assert_eq!(all(Filter::RunLength, &[2, b'a', b'b', b'c', 254, b'x', 128, 9]), b"abcxxx");
    }

    /// The example of the PDF reference.
    #[test]
    fn codes_are_unpacked() {
        let data = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        assert_eq!(all(Filter::Lzw { early: true }, &data), [45, 45, 45, 45, 45, 65, 45, 45, 45, 66]);
    }

    /// A packer, to see what grows beyond nine bits.
    fn packed(text: &[u8], early: usize) -> Vec<u8> {
        let mut table: std::collections::HashMap<Vec<u8>, u16> =
            (0..=255).map(|byte| (vec![byte as u8], byte)).collect();
        let (mut out, mut bits, mut left) = (Vec::new(), 0_u32, 0);
        let mut next = 258_usize;
        let mut put = |code: u16, known: usize| {
            let width = [512, 1024, 2048].iter().filter(|most| known + early > **most).count() + 9;
            bits = bits << width | u32::from(code);
            left += width;
            while left >= 8 {
                left -= 8;
                out.push((bits >> left) as u8);
            }
        };
        put(256, next);
        let mut word: Vec<u8> = Vec::new();
        for byte in text {
            let mut longer = word.clone();
            longer.push(*byte);
            if table.contains_key(&longer) {
                word = longer;
                continue;
            }
            put(table[&word], next);
            if next < 4_000 {
                table.insert(longer, next as u16);
                next += 1;
            }
            word = vec![*byte];
        }
        put(table[&word], next);
        put(257, next);
        put(0, next);
        out
    }

    #[test]
    fn long_data_comes_back() {
        let text: Vec<u8> = (0..60_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8 % 17).collect();
        for early in [true, false] {
            let packed = packed(&text, usize::from(early));
            assert!(packed.len() < text.len());
            assert_eq!(all(Filter::Lzw { early }, &packed), text, "{early}");
        }
    }
}
