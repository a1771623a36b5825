//! What a session did, kept so that nothing is lost.
//!
//! A [`Journal`] is the engine's [`Recorder`](haft::ports::Recorder) on disk: one file a session, lines that are only ever
//! appended, each with a checksum. The intent of a call that can change something is on the disk before the call runs;
//! what came of it follows with the next intent, or at the turn's end. [`JournalStore`] is the folder of all sessions, [`read`]
//! brings one back, and [`RecoveredSession`] says what became of each call of a turn that was cut off.
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
//! let kept = store.read("s1")?;
//! assert_eq!(kept.records.len(), 2);
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
