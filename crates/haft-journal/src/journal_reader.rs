//! Reads a journal: all complete lines, and the faults of the others.
//!
//! A last line without a newline is the expected result of a crash, and no damage. The same holds
//! for a lost line with complete lines after it, which a power failure can cause, as long as none
//! of the later lines can have been synced. Any other line with a wrong checksum is damage: it is
//! skipped, counted and reported.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::line_format::{self, LineFault};
use crate::record::{Record, StampedRecord};

/// How often a file is read again while a writer seems to be active.
const LOOKS_MAX: u32 = 3;

/// The contents of a journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalContents {
    /// The records in order.
    pub records: Vec<StampedRecord>,
    /// Lines that could not be read.
    pub damage: Vec<DamagedLine>,
    /// The length of the complete lines; a writer continues there.
    pub whole: u64,
    /// Whether the last line is incomplete.
    pub torn: bool,
}

/// A line that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedLine {
    /// The offset of the line in bytes.
    pub at: u64,
    /// Why the line is invalid.
    pub fault: LineFault,
}

impl JournalContents {
    /// Returns the number of the next record.
    pub fn next(&self) -> u64 {
        self.records.last().map_or(0, |last| last.n + 1)
    }
}

/// Reads a journal file.
///
/// # Errors
/// The file can't be read.
pub fn read(path: &Path) -> io::Result<JournalContents> {
    read_bytes(path).map(|bytes| parse(&bytes))
}

/// Reads the file without its preallocated zeros.
///
/// A concurrent write may be visible at its end before its start, which reads as zeros. Reading
/// again resolves that; zeros that stay are the result of a power failure.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut looks = 0;
    loop {
        let mut bytes = std::fs::read(path)?;
        bytes.truncate(line_format::without_padding(&bytes).len());
        looks += 1;
        if looks == LOOKS_MAX || memchr::memchr(0, &bytes).is_none() {
            return Ok(bytes);
        }
    }
}

/// Parses the bytes of a journal.
pub fn parse(bytes: &[u8]) -> JournalContents {
    let bytes = line_format::without_padding(bytes);
    let mut contents = JournalContents::default();
    let mut lines = JournalLines::new(without_hole(bytes));
    for (at, line) in &mut lines {
        match line.and_then(parse_record) {
            Ok(record) => contents.records.push(record),
            Err(fault) => contents.damage.push(DamagedLine { at, fault }),
        }
    }
    (contents.whole, contents.torn) = (lines.at as u64, lines.at < bytes.len());
    contents
}

/// Returns the lines before a hole that a power failure left: zeros in preallocated space that were
/// never overwritten on the disk, with written lines after them. None of those lines was synced, or
/// the hole would have been synced too, so all of them may be dropped.
///
/// If one of the later lines can only exist after an fsync, the zeros are another kind of damage
/// and stay.
pub(crate) fn without_hole(bytes: &[u8]) -> &[u8] {
    let Some(zero) = memchr::memchr(0, bytes) else { return bytes };
    let hole = memchr::memrchr(b'\n', &bytes[..zero]).map_or(0, |end| end + 1);
    let (before, behind) = bytes.split_at(hole);
    let lines = |bytes| JournalLines::new(bytes).filter_map(|(_, line)| line.ok());
    let intents: BTreeSet<CallFields> = lines(before)
        .filter(|json| record_kind(json) == Some(b"intent"))
        .filter_map(|json| serde_json::from_slice(json).ok())
        .collect();
    let was_synced = |json: &[u8]| match record_kind(json) {
        // A resuming process truncates such a hole before it writes.
        Some(b"began") | None => true,
        // The result of a call with side effects, which ran only after its intent was synced.
        Some(b"outcome") => serde_json::from_slice::<OutcomeHeader>(json)
            .is_ok_and(|ended| ended.result.is_some() && !intents.contains(&ended.call)),
        Some(_) => false,
    };
    // The zeros may include the newline of the line before.
    let parts = behind.split(|byte| matches!(byte, 0 | b'\n'));
    if parts.filter_map(|line| line_format::verify_checksum(line).ok()).any(was_synced) {
        bytes
    } else {
        before
    }
}

fn record_kind(json: &[u8]) -> Option<&[u8]> {
    line_format::parse_header(json).map(|(_, kind, _)| kind)
}

/// The fields that a call and its outcome share.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallFields {
    agent: String,
    turn: u64,
    call: String,
}

#[derive(Deserialize)]
struct OutcomeHeader {
    #[serde(flatten)]
    call: CallFields,
    result: Option<IgnoredAny>,
}

/// Parses the record of a line.
///
/// Conversation items are most of a long journal. They are parsed directly, because serde reads a
/// tagged enum twice.
pub(crate) fn parse_record(json: &[u8]) -> Result<StampedRecord, LineFault> {
    let read = match line_format::parse_header(json) {
        Some((_, b"items", _)) => serde_json::from_slice(json).map(|ItemsLine { n, at, from, items }| {
            StampedRecord { n, at, record: Record::Items { from, items } }
        }),
        Some((_, b"reply", _)) => serde_json::from_slice(json).map(|ReplyLine { n, at, turn, items }| {
            StampedRecord { n, at, record: Record::Reply { turn, items } }
        }),
        _ => serde_json::from_slice(json),
    };
    read.map_err(|_| LineFault::Unknown)
}

/// [`Record::Items`] with number and time.
#[derive(Deserialize)]
struct ItemsLine {
    n: u64,
    at: u64,
    from: usize,
    items: Vec<Value>,
}

/// [`Record::Reply`] with number and time.
#[derive(Deserialize)]
struct ReplyLine {
    n: u64,
    at: u64,
    turn: u64,
    items: Vec<Value>,
}

/// Iterates over the complete lines: the offset of each, and its JSON if the checksum matches.
pub(crate) struct JournalLines<'a> {
    bytes: &'a [u8],
    /// The length of the complete lines so far.
    pub(crate) at: usize,
}

impl<'a> JournalLines<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> JournalLines<'a> {
        JournalLines { bytes, at: 0 }
    }
}

impl<'a> Iterator for JournalLines<'a> {
    type Item = (u64, Result<&'a [u8], LineFault>);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, rest) = (self.at, &self.bytes[self.at..]);
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        Some((at as u64, line_format::verify_checksum(&rest[..end])))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// After a power failure: zeros in place of a line, and later lines.
    #[test]
    fn what_was_never_synced_is_cut_off_and_the_rest_is_damage() {
        let intent = |changes: bool| {
            format!(
                r#""is":"intent","agent":"main","turn":1,"call":"1","tool":"T","input":{{}},"digest":"","effects":"","changes":{changes},"again":false,"by":""}}"#
            )
        };
        let outcome = |changes: bool| {
            let result = if changes { r#""result":[],"# } else { "" };
            format!(
                r#""is":"outcome","agent":"main","turn":1,"call":"1","tool":"T",{result}"digest":"","micros":1}}"#
            )
        };
        let note = |text: &str| format!(r#""is":"note","text":"{text}"}}"#);
        let began = r#""is":"began","version":"1","cwd":"/","pid":1}"#.to_owned();
        // The lines before and after the hole, and whether the later ones can only exist after an
        // fsync.
        let cases = [
            (vec![note("a")], vec![note("b"), note("c")], false),
            (vec![], vec![note("b")], false),
            (vec![note("a")], vec![intent(true)], false),
            (vec![note("a")], vec![intent(false), outcome(false)], false),
            (vec![intent(true)], vec![outcome(true)], false),
            (vec![note("a")], vec![intent(true), note("b"), outcome(true)], true),
            (vec![note("a")], vec![began, note("b")], true),
        ];
        for (before, behind, is_damage) in cases {
            for (from, to) in [(0, 1), (3, 30), (0, usize::MAX)] {
                let mut bytes = Vec::new();
                let append = |bytes: &mut Vec<u8>, n: usize, rest: &str| {
                    line_format::append_line(bytes, (n as u64, 0), rest.as_bytes())
                };
                before.iter().enumerate().for_each(|(n, rest)| append(&mut bytes, n, rest));
                let hole = bytes.len();
                append(&mut bytes, before.len(), &note("is lost, with its end or without"));
                let end = bytes.len();
                bytes[hole + from..to.saturating_add(hole).min(end)].fill(0);
                behind
                    .iter()
                    .enumerate()
                    .for_each(|(n, rest)| append(&mut bytes, before.len() + 1 + n, rest));
                let contents = parse(&bytes);
                let context = format!("{before:?} {behind:?} {from} {to}: {contents:?}");
                assert_eq!(parse(&[&bytes[..], &[0; 99]].concat()), contents, "with room, {context}");
                let (recovered, whole, next) = crate::RecoveredSession::from_bytes(&bytes);
                assert_eq!((whole, next), (contents.whole, contents.next()), "{context}");
                assert_eq!((recovered.is_damaged, contents.torn), (is_damage, !is_damage), "{context}");
                if !is_damage {
                    assert_eq!(
                        (contents.records.len(), contents.whole),
                        (before.len(), hole as u64),
                        "{context}"
                    );
                    assert!(contents.damage.is_empty(), "{context}");
                }
            }
        }
    }

    #[test]
    fn what_was_said_is_read_like_any_other_record() {
        let items = vec![json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}), json!(1.5)];
        for record in [Record::Items { from: 3, items: items.clone() }, Record::Reply { turn: 9, items }] {
            let stamped = StampedRecord { n: 7, at: 12, record };
            let mut line = Vec::new();
            line_format::append_line(
                &mut line,
                (7, 12),
                &crate::record_encoding::encode_record(&stamped.record),
            );
            let json = line_format::verify_checksum(&line[..line.len() - 1]).unwrap();
            assert_eq!(parse_record(json), Ok(stamped.clone()));
            assert_eq!(serde_json::from_slice::<StampedRecord>(json).unwrap(), stamped);
        }
        for bad in ["\"items\",\"from\":-1,\"items\":[]", "\"items\",\"items\":[]", "\"reply\",\"turn\":1"] {
            assert_eq!(
                parse_record(format!("{{\"n\":1,\"at\":2,\"is\":{bad}}}").as_bytes()),
                Err(LineFault::Unknown)
            );
        }
    }
}
