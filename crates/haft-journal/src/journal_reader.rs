//! Reading a journal back: all whole lines, and what is wrong with the others.
//!
//! A line without an end is the last thing that a process wrote before it died; that is what a crash looks like, and no
//! damage. So is what a power failure leaves that took a line and not the ones behind it, as long as none of them can have
//! been synced. Any other line whose checksum doesn't fit is damage: it is passed over, counted and said.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::line_format::{self, LineFault};
use crate::record::{Record, StampedRecord};

/// How often a file is read in which somebody seems to write.
const LOOKS_MAX: u32 = 3;

/// What was in a journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalContents {
    /// Its records, in order.
    pub records: Vec<StampedRecord>,
    /// Lines that could not be read.
    pub damage: Vec<DamagedLine>,
    /// Up to here the file has whole lines; a writer goes on from there.
    pub whole: u64,
    /// Whether the last line was cut off.
    pub torn: bool,
}

/// A line that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedLine {
    /// Where it begins, in bytes.
    pub at: u64,
    /// What is wrong.
    pub fault: LineFault,
}

impl JournalContents {
    /// The number that the next record gets.
    pub fn next(&self) -> u64 {
        self.records.last().map_or(0, |last| last.n + 1)
    }
}

/// Reads a file of records.
///
/// # Errors
/// The file can't be read.
pub fn read(path: &Path) -> io::Result<JournalContents> {
    bytes(path).map(|bytes| parse(&bytes))
}

/// What was written of a file.
///
/// Whoever writes it at the same moment may be seen to have written the end of something and not yet its beginning, which is
/// zeros then. That is over when it is looked at again; what stays so is what a power failure left.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut looks = 0;
    loop {
        let mut bytes = std::fs::read(path)?;
        bytes.truncate(line_format::without_room(&bytes).len());
        looks += 1;
        if looks == LOOKS_MAX || memchr::memchr(0, &bytes).is_none() {
            return Ok(bytes);
        }
    }
}

/// The same of bytes that are there already.
pub fn parse(bytes: &[u8]) -> JournalContents {
    let bytes = line_format::without_room(bytes);
    let mut kept = JournalContents::default();
    let mut lines = JournalLines::new(without_hole(bytes));
    for (at, line) in &mut lines {
        match line.and_then(whole) {
            Ok(record) => kept.records.push(record),
            Err(fault) => kept.damage.push(DamagedLine { at, fault }),
        }
    }
    (kept.whole, kept.torn) = (lines.at as u64, lines.at < bytes.len());
    kept
}

/// The lines before a hole that a power failure left, where there is one: zeros in room that was never written on the disk,
/// with lines behind it that were. None of those was synced, or the hole would have been: so they are what may be lost.
///
/// If one of them can only be there after a sync, the zeros are damage of another kind, and stay among the lines.
pub(crate) fn without_hole(bytes: &[u8]) -> &[u8] {
    let Some(zero) = memchr::memchr(0, bytes) else { return bytes };
    let hole = memchr::memrchr(b'\n', &bytes[..zero]).map_or(0, |end| end + 1);
    let (before, behind) = bytes.split_at(hole);
    let lines = |bytes| JournalLines::new(bytes).filter_map(|(_, line)| line.ok());
    let began: BTreeSet<CallFields> = lines(before)
        .filter(|json| kind(json) == Some(b"intent"))
        .filter_map(|json| serde_json::from_slice(json).ok())
        .collect();
    let was_synced = |json: &[u8]| match kind(json) {
        // Who goes on cuts off what it finds like this.
        Some(b"began") | None => true,
        // The result of a call that changed something, which ran once its intent was synced.
        Some(b"outcome") => serde_json::from_slice::<OutcomeFields>(json)
            .is_ok_and(|ended| ended.result.is_some() && !began.contains(&ended.call)),
        Some(_) => false,
    };
    // Zeros may have taken the end of the line before.
    let parts = behind.split(|byte| matches!(byte, 0 | b'\n'));
    if parts.filter_map(|line| line_format::open(line).ok()).any(was_synced) { bytes } else { before }
}

fn kind(json: &[u8]) -> Option<&[u8]> {
    line_format::kind(json).map(|(_, kind, _)| kind)
}

/// What is common to a call and its outcome.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallFields {
    agent: String,
    turn: u64,
    call: String,
}

#[derive(Deserialize)]
struct OutcomeFields {
    #[serde(flatten)]
    call: CallFields,
    result: Option<IgnoredAny>,
}

/// The record of a line.
///
/// What was said is nearly all of a long journal. It is read as what it is: a record that could be of any kind is first
/// read as something of no kind, and then once more.
pub(crate) fn whole(json: &[u8]) -> Result<StampedRecord, LineFault> {
    let read = match line_format::kind(json) {
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

/// [`Record::Items`] with its stamp.
#[derive(Deserialize)]
struct ItemsLine {
    n: u64,
    at: u64,
    from: usize,
    items: Vec<Value>,
}

/// [`Record::Reply`] with its stamp.
#[derive(Deserialize)]
struct ReplyLine {
    n: u64,
    at: u64,
    turn: u64,
    items: Vec<Value>,
}

/// The lines of a journal that have their end: where each begins, and its JSON if its checksum fits.
pub(crate) struct JournalLines<'a> {
    bytes: &'a [u8],
    /// Up to here there were whole lines.
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
        Some((at as u64, line_format::open(&rest[..end])))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a power failure may leave: zeros where a line was, and other lines behind it.
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
        // Before the hole, and behind it; and whether that can only be there after a sync.
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
                let put = |bytes: &mut Vec<u8>, n: usize, rest: &str| {
                    line_format::put(bytes, (n as u64, 0), rest.as_bytes())
                };
                before.iter().enumerate().for_each(|(n, rest)| put(&mut bytes, n, rest));
                let hole = bytes.len();
                put(&mut bytes, before.len(), &note("is lost, with its end or without"));
                let end = bytes.len();
                bytes[hole + from..to.saturating_add(hole).min(end)].fill(0);
                behind.iter().enumerate().for_each(|(n, rest)| put(&mut bytes, before.len() + 1 + n, rest));
                let kept = parse(&bytes);
                let said = format!("{before:?} {behind:?} {from} {to}: {kept:?}");
                assert_eq!(parse(&[&bytes[..], &[0; 99]].concat()), kept, "with room, {said}");
                let (recovered, whole, next) = crate::RecoveredSession::read(&bytes);
                assert_eq!((whole, next), (kept.whole, kept.next()), "{said}");
                assert_eq!((recovered.is_damaged, kept.torn), (is_damage, !is_damage), "{said}");
                if !is_damage {
                    assert_eq!((kept.records.len(), kept.whole), (before.len(), hole as u64), "{said}");
                    assert!(kept.damage.is_empty(), "{said}");
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
            line_format::put(&mut line, (7, 12), &crate::record_encoding::record(&stamped.record));
            let json = line_format::open(&line[..line.len() - 1]).unwrap();
            assert_eq!(whole(json), Ok(stamped.clone()));
            assert_eq!(serde_json::from_slice::<StampedRecord>(json).unwrap(), stamped);
        }
        for bad in ["\"items\",\"from\":-1,\"items\":[]", "\"items\",\"items\":[]", "\"reply\",\"turn\":1"] {
            assert_eq!(
                whole(format!("{{\"n\":1,\"at\":2,\"is\":{bad}}}").as_bytes()),
                Err(LineFault::Unknown)
            );
        }
    }
}
