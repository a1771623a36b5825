//! A summary of a session for listings. Most lines are classified by their first bytes and not
//! parsed.

use crate::journal_reader::parse_record;
use crate::line_format;
use crate::record::{Record, SessionStart};

/// A short summary of a session.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionSummary {
    /// How the session started first.
    pub began: SessionStart,
    /// How the session was last resumed.
    pub last: SessionStart,
    /// The title, if the session has one.
    pub title: Option<String>,
    /// The number of started calls.
    pub calls: usize,
    /// Whether the session ended by itself.
    pub is_ended: bool,
}

impl SessionSummary {
    /// Scans a journal without verifying checksums; resuming a session verifies them.
    pub(crate) fn parse(bytes: &[u8]) -> SessionSummary {
        let mut summary = SessionSummary::default();
        let mut first = true;
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &bytes[at..]) {
            let json = bytes[at..at + end].get(9..).unwrap_or_default();
            at += end + 1;
            match line_format::parse_header(json) {
                Some((_, b"intent", _)) => summary.calls += 1,
                Some((_, b"began" | b"title" | b"ended", _)) | None => {
                    if let Ok(stamped) = parse_record(json) {
                        summary.apply(stamped.record, &mut first);
                    }
                }
                Some(_) => {}
            }
        }
        summary
    }

    fn apply(&mut self, record: Record, first: &mut bool) {
        match record {
            Record::Began(began) => {
                if std::mem::take(first) {
                    self.began = began.clone();
                }
                self.last = began;
                self.is_ended = false;
            }
            Record::Title { text } => self.title = Some(text),
            Record::Intent(_) => self.calls += 1,
            Record::Ended { .. } => self.is_ended = true,
            _ => {}
        }
    }
}
