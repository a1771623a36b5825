//! What a list of sessions shows, found without reading what was said: lines are told by their beginnings.

use crate::journal_reader::whole;
use crate::line_format;
use crate::record::{Record, SessionStart};

/// A session in a few words.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionSummary {
    /// How it began, the first time.
    pub began: SessionStart,
    /// How it went on last.
    pub last: SessionStart,
    /// Its name, where it has one.
    pub title: Option<String>,
    /// How many calls were started.
    pub calls: usize,
    /// Whether it ended by itself.
    pub is_ended: bool,
}

impl SessionSummary {
    /// Looks through a journal. Checksums are not looked at: whoever goes on with the session does that.
    pub(crate) fn parse(bytes: &[u8]) -> SessionSummary {
        let mut head = SessionSummary::default();
        let mut first = true;
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &bytes[at..]) {
            let json = bytes[at..at + end].get(9..).unwrap_or_default();
            at += end + 1;
            match line_format::kind(json) {
                Some((_, b"intent", _)) => head.calls += 1,
                Some((_, b"began" | b"title" | b"ended", _)) | None => {
                    if let Ok(stamped) = whole(json) {
                        head.add(stamped.record, &mut first);
                    }
                }
                Some(_) => {}
            }
        }
        head
    }

    fn add(&mut self, record: Record, first: &mut bool) {
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
