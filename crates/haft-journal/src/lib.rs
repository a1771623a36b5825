//! What a session did, kept so that nothing is lost.
//!
//! A [`Journal`] is the engine's [`Recorder`](haft::ports::Recorder) on disk: one file a session, lines that are only ever
//! appended, each with a checksum. The intent of a call that can change something is on the disk before the call runs;
//! what came of it follows with the next intent, or at the turn's end. [`Store`] is the folder of all sessions, [`read`]
//! brings one back, and [`Recovered`] says what became of each call of a turn that was cut off.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft_journal::{Began, Options, Record, Store};
//!
//! # let folder = tempfile::tempdir()?;
//! let store = Store::at(folder.path());
//! let journal = store.create("s1", Began::in_folder("/tmp"), Options::default())?;
//! journal.note(Record::note("a first look"))?;
//! journal.close()?;
//!
//! let kept = store.read("s1")?;
//! assert_eq!(kept.records.len(), 2);
//! # Ok(()) }
//! ```
#![warn(missing_docs)]

mod disk;
mod encode;
mod head;
mod journal;
pub mod limits;
mod line;
mod past;
mod pen;
mod read;
mod record;
mod recover;
mod redact;
mod store;
mod told;
mod writer;

pub use self::disk::{Disk, RealDisk, sha256};
pub use self::head::Head;
pub use self::journal::{Durability, Journal, Options};
pub use self::line::Fault;
pub use self::past::Ran;
pub use self::read::{Damage, Kept, parse, read};
pub use self::record::{Before, Began, Block, IntentRecord, OutcomeRecord, Record, RefusedRecord, Stamped};
pub use self::recover::{CallState, Recovered, Started, Touched};
pub use self::redact::Redactor;
pub use self::store::{Mark, Session, Store, StoreError};
