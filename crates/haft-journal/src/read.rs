//! Reading a journal back: all whole lines, and what is wrong with the others.
//!
//! A line without an end is the last thing that a process wrote before it died; that is what a crash looks like, and no
//! damage. A line in the middle whose checksum doesn't fit is damage: it is passed over, counted and said.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::line::{self, Fault};
use crate::record::{Record, Stamped};

/// What was in a journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// Its records, in order.
    pub records: Vec<Stamped>,
    /// Lines that could not be read.
    pub damage: Vec<Damage>,
    /// Up to here the file has whole lines; a writer goes on from there.
    pub whole: u64,
    /// Whether the last line was cut off.
    pub torn: bool,
}

/// A line that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes.
    pub at: u64,
    /// What is wrong.
    pub fault: Fault,
}

impl Kept {
    /// The number that the next record gets.
    pub fn next(&self) -> u64 {
        self.records.last().map_or(0, |last| last.n + 1)
    }
}

/// Reads a file of records.
///
/// # Errors
/// The file can't be read.
pub fn read(path: &Path) -> io::Result<Kept> {
    std::fs::read(path).map(|bytes| parse(&bytes))
}

/// The same of bytes that are there already.
pub fn parse(bytes: &[u8]) -> Kept {
    let bytes = line::without_room(bytes);
    let mut kept = Kept::default();
    let mut lines = Lines::of(bytes);
    for (at, line) in &mut lines {
        match line.and_then(whole) {
            Ok(record) => kept.records.push(record),
            Err(fault) => kept.damage.push(Damage { at, fault }),
        }
    }
    (kept.whole, kept.torn) = (lines.at as u64, lines.at < bytes.len());
    kept
}

/// The record of a line.
///
/// What was said is nearly all of a long journal. It is read as what it is: a record that could be of any kind is first
/// read as something of no kind, and then once more.
pub(crate) fn whole(json: &[u8]) -> Result<Stamped, Fault> {
    let read =
        match line::kind(json) {
            Some((_, b"items", _)) => serde_json::from_slice(json)
                .map(|Said { n, at, from, items }| Stamped { n, at, record: Record::Items { from, items } }),
            Some((_, b"reply", _)) => serde_json::from_slice(json).map(|Replied { n, at, turn, items }| {
                Stamped { n, at, record: Record::Reply { turn, items } }
            }),
            _ => serde_json::from_slice(json),
        };
    read.map_err(|_| Fault::Unknown)
}

/// [`Record::Items`] with its stamp.
#[derive(Deserialize)]
struct Said {
    n: u64,
    at: u64,
    from: usize,
    items: Vec<Value>,
}

/// [`Record::Reply`] with its stamp.
#[derive(Deserialize)]
struct Replied {
    n: u64,
    at: u64,
    turn: u64,
    items: Vec<Value>,
}

/// The lines of a journal that have their end: where each begins, and its JSON if its checksum fits.
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    /// Up to here there were whole lines.
    pub(crate) at: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Lines<'a> {
        Lines { bytes, at: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (u64, Result<&'a [u8], Fault>);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, rest) = (self.at, &self.bytes[self.at..]);
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        Some((at as u64, line::open(&rest[..end])))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_said_is_read_like_any_other_record() {
        let items = vec![json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}), json!(1.5)];
        for record in [Record::Items { from: 3, items: items.clone() }, Record::Reply { turn: 9, items }] {
            let stamped = Stamped { n: 7, at: 12, record };
            let mut line = Vec::new();
            line::put(&mut line, (7, 12), &crate::encode::record(&stamped.record));
            let json = line::open(&line[..line.len() - 1]).unwrap();
            assert_eq!(whole(json), Ok(stamped.clone()));
            assert_eq!(serde_json::from_slice::<Stamped>(json).unwrap(), stamped);
        }
        for bad in ["\"items\",\"from\":-1,\"items\":[]", "\"items\",\"items\":[]", "\"reply\",\"turn\":1"] {
            assert_eq!(whole(format!("{{\"n\":1,\"at\":2,\"is\":{bad}}}").as_bytes()), Err(Fault::Unknown));
        }
    }
}
