//! One line of a journal: a checksum, a blank, JSON, a line end.
//!
//! The checksum is over the JSON's bytes. JSON has no raw line ends in it, so a line is whole if its end is there and its
//! sum is right, and a reader can find the next line after a damaged one. People can read it with what they have.

use std::fmt;
use std::io::Write as _;

/// Digits of the checksum.
const SUM_CHARS: usize = 8;

/// Why a line isn't one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineFault {
    /// It has no line end: what wrote it was cut off.
    Torn,
    /// Its checksum doesn't fit.
    Sum,
    /// It is whole, and nothing that this version knows.
    Unknown,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineFault::Torn => "it was cut off while it was written",
            LineFault::Sum => "its bytes are not those that were written",
            LineFault::Unknown => "it is of a kind that this version doesn't know",
        })
    }
}

/// What was written of a file's bytes: not the zeros behind the lines, which are room for the next ones.
pub(crate) fn without_room(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Appends the beginning of a line: its checksum, number and time. What follows is the JSON of the record without its first
/// brace, and a line end.
pub(crate) fn begin(out: &mut Vec<u8>, (n, at): (u64, u64), rest: &[u8]) {
    debug_assert!(!rest.contains(&b'\n'), "JSON as it is written here has no line ends");
    let sum_at = out.len();
    out.extend_from_slice(b"00000000 ");
    let head_at = out.len();
    write!(out, "{{\"n\":{n},\"at\":{at},").expect("memory takes it");
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&out[head_at..]);
    hasher.update(rest);
    let mut sum = hasher.finalize();
    for digit in out[sum_at..sum_at + SUM_CHARS].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(sum & 15) as usize];
        sum >>= 4;
    }
}

/// Appends a line with this record, which is JSON without its first brace.
pub(crate) fn put(out: &mut Vec<u8>, stamp: (u64, u64), rest: &[u8]) {
    begin(out, stamp, rest);
    out.extend_from_slice(rest);
    out.push(b'\n');
}

/// What a line is, as far as its beginning tells: the number, the kind and what follows the kind. None if it begins
/// otherwise, which another version may have done.
pub(crate) fn kind(json: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let digits = |text: &'_ [u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = json.strip_prefix(b"{\"n\":")?;
    let (n, rest) = rest.split_at(digits(rest));
    let n = std::str::from_utf8(n).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(b",\"at\":")?;
    let rest = rest[digits(rest)..].strip_prefix(b",\"is\":\"")?;
    let end = rest.iter().take(32).position(|byte| *byte == b'"')?;
    Some((n, &rest[..end], &rest[end + 1..]))
}

/// The JSON of a line that has its end no more.
pub(crate) fn open(line: &[u8]) -> Result<&[u8], LineFault> {
    let (sum, rest) = line.split_at_checked(SUM_CHARS).ok_or(LineFault::Sum)?;
    let json = rest.strip_prefix(b" ").ok_or(LineFault::Sum)?;
    let sum = std::str::from_utf8(sum)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or(LineFault::Sum)?;
    if crc32fast::hash(json) == sum { Ok(json) } else { Err(LineFault::Sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back() {
        let mut out = Vec::new();
        put(&mut out, (7, 12), br#""is":"note","a":1}"#);
        assert_eq!(out.last(), Some(&b'\n'));
        let json = open(&out[..out.len() - 1]).unwrap();
        assert_eq!(json, &br#"{"n":7,"at":12,"is":"note","a":1}"#[..]);
        assert_eq!(kind(json), Some((7, &b"note"[..], &br#","a":1}"#[..])));
        for other in [&br#"{"at":1,"n":7}"#[..], b"{\"n\":}", b"{\"n\":1,\"at\":2,\"is\":\"", b""] {
            assert_eq!(kind(other), None);
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut out = Vec::new();
        put(&mut out, (1, 2), br#""call":"toolu_1","tool":"Write"}"#);
        out.pop();
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut changed = out.clone();
                changed[at] ^= 1 << bit;
                // The letters of the sum may change their case, and nothing else.
                let same = changed.eq_ignore_ascii_case(&out) && at < SUM_CHARS;
                assert_eq!(open(&changed).is_ok(), same, "byte {at}, bit {bit}");
            }
        }
        for end in 0..out.len() {
            assert_eq!(open(&out[..end]), Err(LineFault::Sum), "cut at {end}");
        }
    }
}
