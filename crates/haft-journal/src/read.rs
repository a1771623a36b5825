//! Reading a journal back: all whole lines, and what is wrong with the others.
//!
//! A line without an end is the last thing that a process wrote before it died; that is what a crash looks like, and no
//! damage. A line in the middle whose checksum doesn't fit is damage: it is passed over, counted and said.

use std::io;
use std::path::Path;

use crate::line::{self, Fault};
use crate::record::Stamped;

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

pub(crate) fn parse(bytes: &[u8]) -> Kept {
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
pub(crate) fn whole(json: &[u8]) -> Result<Stamped, Fault> {
    serde_json::from_slice(json).map_err(|_| Fault::Unknown)
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
