//! One line of a journal: a checksum, a blank, JSON, a line end.
//!
//! The checksum is over the JSON's bytes. JSON has no raw line ends in it, so a line is whole if its end is there and its
//! sum is right, and a reader can find the next line after a damaged one. People can read it with what they have.

use std::fmt;

/// Digits of the checksum.
const SUM_CHARS: usize = 8;

/// Why a line isn't one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It has no line end: what wrote it was cut off.
    Torn,
    /// Its checksum doesn't fit.
    Sum,
    /// It is whole, and nothing that this version knows.
    Unknown,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Torn => "it was cut off while it was written",
            Fault::Sum => "its bytes are not those that were written",
            Fault::Unknown => "it is of a kind that this version doesn't know",
        })
    }
}

/// The beginning of a line whose JSON comes in two parts.
pub(crate) fn sum_of(head: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(tail);
    format!("{:08x} ", hasher.finalize()).into_bytes()
}

/// Appends a line with this JSON.
pub(crate) fn put(out: &mut Vec<u8>, json: &[u8]) {
    debug_assert!(!json.contains(&b'\n'), "JSON as it is written here has no line ends");
    let sum = crc32fast::hash(json);
    out.extend_from_slice(format!("{sum:08x} ").as_bytes());
    out.extend_from_slice(json);
    out.push(b'\n');
}

/// The JSON of a line that has its end no more.
pub(crate) fn open(line: &[u8]) -> Result<&[u8], Fault> {
    let (sum, rest) = line.split_at_checked(SUM_CHARS).ok_or(Fault::Sum)?;
    let json = rest.strip_prefix(b" ").ok_or(Fault::Sum)?;
    let sum = std::str::from_utf8(sum)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or(Fault::Sum)?;
    if crc32fast::hash(json) == sum { Ok(json) } else { Err(Fault::Sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back() {
        let mut out = Vec::new();
        put(&mut out, br#"{"a":1}"#);
        assert_eq!(out.last(), Some(&b'\n'));
        assert_eq!(open(&out[..out.len() - 1]), Ok(&br#"{"a":1}"#[..]));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut out = Vec::new();
        put(&mut out, br#"{"call":"toolu_1","tool":"Write"}"#);
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
            assert_eq!(open(&out[..end]), Err(Fault::Sum), "cut at {end}");
        }
    }
}
