//! The format of a line: a checksum, a space, JSON, a newline.
//!
//! The checksum covers the JSON's bytes. The JSON contains no newlines, so a line is complete if it
//! ends with a newline and its checksum matches, and a reader can find the next line after a
//! damaged one. The format is readable with standard text tools.

use std::fmt;
use std::io::Write as _;

/// The number of hexadecimal digits of the checksum.
const SUM_CHARS: usize = 8;

/// Why a line is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineFault {
    /// It has no newline: the write was interrupted.
    Torn,
    /// Its checksum doesn't match.
    Sum,
    /// It is valid, but of a kind that this version doesn't know.
    Unknown,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineFault::Torn => "its write was interrupted",
            LineFault::Sum => "its checksum doesn't match",
            LineFault::Unknown => "this version doesn't know its kind",
        })
    }
}

/// Returns the bytes without the preallocated zeros at the end.
pub(crate) fn without_padding(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Appends the start of a line: checksum, number and time. The caller appends the record without
/// its opening brace, and a newline.
pub(crate) fn begin_line(out: &mut Vec<u8>, (n, at): (u64, u64), rest: &[u8]) {
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

/// Appends a line with a record, which is JSON without its opening brace.
pub(crate) fn append_line(out: &mut Vec<u8>, stamp: (u64, u64), rest: &[u8]) {
    begin_line(out, stamp, rest);
    out.extend_from_slice(rest);
    out.push(b'\n');
}

/// Parses the start of a line: returns its number, its kind and the bytes after the kind. Returns
/// `None` if the line starts otherwise, as another version may write it.
pub(crate) fn parse_header(json: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let digits = |text: &'_ [u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = json.strip_prefix(b"{\"n\":")?;
    let (n, rest) = rest.split_at(digits(rest));
    let n = std::str::from_utf8(n).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(b",\"at\":")?;
    let rest = rest[digits(rest)..].strip_prefix(b",\"is\":\"")?;
    let end = rest.iter().take(32).position(|byte| *byte == b'"')?;
    Some((n, &rest[..end], &rest[end + 1..]))
}

/// Verifies the checksum of a line without its newline, and returns the JSON.
pub(crate) fn verify_checksum(line: &[u8]) -> Result<&[u8], LineFault> {
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
        append_line(&mut out, (7, 12), br#""is":"note","a":1}"#);
        assert_eq!(out.last(), Some(&b'\n'));
        let json = verify_checksum(&out[..out.len() - 1]).unwrap();
        assert_eq!(json, &br#"{"n":7,"at":12,"is":"note","a":1}"#[..]);
        assert_eq!(parse_header(json), Some((7, &b"note"[..], &br#","a":1}"#[..])));
        for other in [&br#"{"at":1,"n":7}"#[..], b"{\"n\":}", b"{\"n\":1,\"at\":2,\"is\":\"", b""] {
            assert_eq!(parse_header(other), None);
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut out = Vec::new();
        append_line(&mut out, (1, 2), br#""call":"toolu_1","tool":"Write"}"#);
        out.pop();
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut changed = out.clone();
                changed[at] ^= 1 << bit;
                // Only the case of the checksum's letters is not significant.
                let same = changed.eq_ignore_ascii_case(&out) && at < SUM_CHARS;
                assert_eq!(verify_checksum(&changed).is_ok(), same, "byte {at}, bit {bit}");
            }
        }
        for end in 0..out.len() {
            assert_eq!(verify_checksum(&out[..end]), Err(LineFault::Sum), "cut at {end}");
        }
    }
}
