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

/// The same of bytes that are there already.
pub fn parse(bytes: &[u8]) -> Kept {
    let mut kept = Kept::default();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            kept.torn = true;
            break;
        };
        let record = line::open(&rest[..end])
            .and_then(|json| serde_json::from_slice::<Stamped>(json).map_err(|_| Fault::Unknown));
        match record {
            Ok(record) => kept.records.push(record),
            Err(fault) => kept.damage.push(Damage { at: at as u64, fault }),
        }
        at += end + 1;
        kept.whole = at as u64;
    }
    kept
}
