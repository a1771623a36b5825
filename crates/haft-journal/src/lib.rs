//! The session journal: records what a session does, so that nothing is lost in a crash.
//!
//! A [`Journal`] is the engine's [`Recorder`](haft::ports::Recorder) on disk: one append-only file
//! per session, one checksummed line per record. The intent of a call with side effects is on the
//! disk before the call runs. The outcome follows with the next intent or at the end of the turn.
//! [`JournalStore`] is the directory of all sessions, [`read`] reads a journal, and
//! [`RecoveredSession`] has the state of each call of an interrupted turn.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft_journal::{SessionStart, JournalOptions, Record, JournalStore};
//!
//! # let folder = tempfile::tempdir()?;
//! let store = JournalStore::at(folder.path());
//! let journal = store.create("s1", SessionStart::in_folder("/tmp"), JournalOptions::default())?;
//! journal.note(Record::note("a first look"))?;
//! journal.close()?;
//!
//! let contents = store.read("s1")?;
//! assert_eq!(contents.records.len(), 2);
//! # Ok(()) }
//! ```
#![warn(missing_docs)]

mod completed_calls;
mod journal;
mod journal_disk;
mod journal_reader;
mod journal_store;
mod journal_writer;
pub mod limits;
mod line_appender;
mod line_format;
mod record;
mod record_encoding;
mod recovery;
mod resume_notes;
mod secret_redactor;
mod session_summary;

pub use self::completed_calls::CompletedCall;
pub use self::journal::{Durability, Journal, JournalOptions};
pub use self::journal_disk::{JournalDisk, RealDisk, sha256};
pub use self::journal_reader::{DamagedLine, JournalContents, parse, read};
pub use self::journal_store::{JournalStore, ResumePoint, StoreError, StoredSession};
pub use self::line_format::LineFault;
pub use self::record::{
    FileBefore, IntentRecord, OutcomeRecord, Record, RecordedBlock, RefusedRecord, SessionStart,
    StampedRecord,
};
pub use self::recovery::{CallState, FileChange, RecoveredSession, UnfinishedCall};
pub use self::secret_redactor::SecretRedactor;
pub use self::session_summary::SessionSummary;
