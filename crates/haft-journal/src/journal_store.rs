//! The folder of all sessions: `STATE/sessions/ID/journal.log`, one folder each.
//!
//! Each file has one writer, which holds a lock on it; so any number of processes can work at once, and a reader can tell
//! a session that runs from one that died.

use std::fmt;
use std::io::{self, BufRead as _, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::completed_calls::{self, CompletedCall};
use crate::journal::{Journal, JournalOptions};
use crate::journal_disk::{JournalDisk as _, LockPatience, RealDisk};
use crate::journal_reader::{self, JournalContents, read};
use crate::limits::{LINE_BYTES_MAX, SESSIONS_MAX};
use crate::record::{Record, SessionStart};
use crate::recovery::RecoveredSession;
use crate::session_summary::SessionSummary;

/// The name of the file in a session's folder.
const FILE: &str = "journal.log";
/// How long an empty file counts as one whose session just begins.
const BEGINS: Duration = Duration::from_secs(60);
/// How many bytes at the end of a file tell that it is the one that was looked at.
const LAST_BYTES: usize = 64 * 1024;
/// How often a file is made again that others remove.
const OPEN_TRIES: u32 = 3;

/// The sessions of a state folder.
#[derive(Debug, Clone)]
pub struct JournalStore {
    folder: PathBuf,
}

/// A session that is kept.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredSession {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// When something was noted last.
    pub changed: SystemTime,
    /// How much it takes.
    pub bytes: u64,
    /// Whether a process has it now.
    pub is_running: bool,
}

/// Where a session goes on: from [`JournalStore::recover`] for [`JournalStore::go_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    /// Up to here there are whole lines.
    whole: u64,
    /// The number of the next one.
    next: u64,
    /// How much was written; a last line that was cut off counts.
    length: u64,
    /// The checksum of the last bytes of that.
    last: u32,
}

/// Why a session can't be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none with this id.
    Unknown(String),
    /// Several begin like this.
    Several(String, Vec<String>),
    /// Another process has it.
    Running(String),
    /// Another process looks at it and doesn't end.
    LookedAt(String),
    /// Another process had it since it was looked at.
    GoneOn(String),
    /// This can't be an id.
    BadId(String),
    /// The disk says no.
    Io(PathBuf, io::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unknown(id) => {
                write!(f, "there is no session `{id}`; `haft sessions list` shows them")
            }
            StoreError::Several(id, ids) => {
                write!(f, "`{id}` is the beginning of several sessions: {}", ids.join(", "))
            }
            StoreError::Running(id) => write!(f, "the session `{id}` runs in another process"),
            StoreError::LookedAt(id) => write!(
                f,
                "no process works on session `{id}`, but one looks at it and doesn't end, such as a `haft sessions list` that \
                 was stopped; let it go on or end it, then try again"
            ),
            StoreError::GoneOn(id) => write!(
                f,
                "session {id} has gone on in another process meanwhile; look at `haft sessions show {id}`, then try again"
            ),
            StoreError::BadId(id) => {
                write!(f, "`{id}` is no id of a session: letters, digits, `.`, `-` and `_`")
            }
            StoreError::Io(path, error) => write!(f, "`{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl JournalStore {
    /// The sessions below this state folder. Nothing is made before it is needed.
    pub fn at(state: &Path) -> JournalStore {
        JournalStore { folder: state.join("sessions") }
    }

    /// Begins a session.
    ///
    /// # Errors
    /// The id isn't one, or is taken; or the disk says no.
    pub fn create(
        &self,
        id: &str,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<Journal, StoreError> {
        self.open(id, began, options).map(|(journal, _)| journal)
    }

    /// Goes on with a session, or begins it: what was noted before comes too. What a crash left half written is cut off.
    ///
    /// # Errors
    /// Another process has it, or the disk says no.
    pub fn open(
        &self,
        id: &str,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<(Journal, JournalContents), StoreError> {
        let (mut disk, length, path) = self.disk(id)?;
        let failed = |error| StoreError::Io(path.clone(), error);
        let kept = read(&path).map_err(failed)?;
        if kept.whole < length {
            disk.cut(kept.whole).map_err(failed)?;
        }
        let journal = begun(disk, (id, &path), (kept.whole, kept.next()), began, options).map_err(failed)?;
        Ok((journal, kept))
    }

    /// A session as it can go on, and the mark from where it does. Nothing is changed.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn recover(&self, id: &str) -> Result<(RecoveredSession, ResumePoint), StoreError> {
        let bytes = self.bytes(id)?;
        let (recovered, whole, next) = RecoveredSession::read(&bytes);
        Ok((recovered, ResumePoint { whole, next, length: bytes.len() as u64, last: last(&bytes) }))
    }

    /// How many calls of a session ran up to a mark, and the newest `most` of them, oldest first.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn calls(
        &self,
        id: &str,
        until: ResumePoint,
        most: usize,
    ) -> Result<(u64, Vec<CompletedCall>), StoreError> {
        let bytes = self.bytes(id)?;
        Ok(completed_calls::calls(&bytes[..bytes.len().min(until.whole as usize)], most))
    }

    /// Goes on with a session from this mark. What a crash left half written is cut off.
    ///
    /// # Errors
    /// Another process has it, or had it meanwhile; or the disk says no.
    pub fn go_on(
        &self,
        id: &str,
        mark: ResumePoint,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<Journal, StoreError> {
        let (mut disk, length, path) = self.disk(id)?;
        let failed = |error| StoreError::Io(path.clone(), error);
        if length != mark.length || last(&disk.last(LAST_BYTES).map_err(failed)?) != mark.last {
            return Err(StoreError::GoneOn(id.to_owned()));
        }
        if mark.whole < length {
            disk.cut(mark.whole).map_err(failed)?;
        }
        begun(disk, (id, &path), (mark.whole, mark.next), began, options).map_err(failed)
    }

    /// A session in a few words.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn head(&self, id: &str) -> Result<SessionSummary, StoreError> {
        let path = self.folder_of(id)?.join(FILE);
        // Whatever somebody writes at the moment, its beginning is there.
        std::fs::read(&path)
            .map(|bytes| SessionSummary::parse(&bytes))
            .map_err(|error| not_read(id, &path, error))
    }

    /// How a session began, which is its first line.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn began(&self, id: &str) -> Result<Option<SessionStart>, StoreError> {
        let path = self.folder_of(id)?.join(FILE);
        let failed = |error| not_read(id, &path, error);
        let file = std::fs::File::open(&path).map_err(failed)?;
        let mut first = Vec::new();
        let mut reader = io::BufReader::new(file).take(LINE_BYTES_MAX as u64);
        reader.read_until(b'\n', &mut first).map_err(failed)?;
        Ok(match journal_reader::parse(&first).records.pop().map(|stamped| stamped.record) {
            Some(Record::Began(began)) => Some(began),
            _ => None,
        })
    }

    fn bytes(&self, id: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.folder_of(id)?.join(FILE);
        journal_reader::bytes(&path).map_err(|error| not_read(id, &path, error))
    }

    /// The file of a session, made if there is none.
    fn disk(&self, id: &str) -> Result<(RealDisk, u64, PathBuf), StoreError> {
        let folder = self.folder_of(id)?;
        let path = folder.join(FILE);
        let mut tries = 0;
        let (disk, length) = loop {
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&folder);
            made.map_err(|error| StoreError::Io(folder.clone(), error))?;
            tries += 1;
            match RealDisk::open(&path) {
                Ok(opened) => break opened,
                // Another process removed it, and is done by now or soon.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < OPEN_TRIES => {}
                Err(error) => return Err(not_had(id, &path, error)),
            }
        };
        Ok((disk, length, path))
    }

    /// What was noted in a session.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn read(&self, id: &str) -> Result<JournalContents, StoreError> {
        let path = self.folder_of(id)?.join(FILE);
        read(&path).map_err(|error| not_read(id, &path, error))
    }

    /// All sessions, the newest first. What can't be looked at is left out.
    pub fn list(&self) -> Vec<StoredSession> {
        self.listed(RealDisk::is_held)
    }

    /// Whether a process has a session, asked again. Where `waits`, for a moment: a process that was killed just now may have
    /// left something that has it still.
    pub fn is_running(&self, session: &StoredSession, waits: bool) -> bool {
        let path = session.folder.join(FILE);
        if waits { RealDisk::stays_held(&path) } else { RealDisk::is_held(&path) }
    }

    /// All sessions; whether one runs is asked of `is_running`, because to look at locks is slow where there are thousands.
    fn listed(&self, is_running: fn(&Path) -> bool) -> Vec<StoredSession> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().take(SESSIONS_MAX);
        let look = |entry: std::fs::DirEntry| self.look(&entry.path(), is_running);
        let mut sessions: Vec<StoredSession> = entries.filter_map(look).collect();
        sessions.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.id.cmp(&a.id)));
        sessions
    }

    /// The session whose id this is, or begins with this.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn find(&self, id: &str) -> Result<StoredSession, StoreError> {
        let exact = self.folder_of(id)?;
        if let Some(session) = self.look(&exact, RealDisk::is_held) {
            return Ok(session);
        }
        let mut fitting: Vec<StoredSession> =
            self.list().into_iter().filter(|one| one.id.starts_with(id)).collect();
        match fitting.len() {
            0 => Err(StoreError::Unknown(id.to_owned())),
            1 => Ok(fitting.remove(0)),
            _ => {
                let ids = fitting.iter().take(5).map(|session| session.id.clone()).collect();
                Err(StoreError::Several(id.to_owned(), ids))
            }
        }
    }

    /// Removes a session that no process has.
    ///
    /// # Errors
    /// One has it, or the disk says no.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        let session = self.find(id)?;
        discard(&session.folder, LockPatience::Some)
            .map_err(|error| not_had(&session.id, &session.folder, error))
    }

    /// Removes what is older than `age`, then the oldest until all take no more than `bytes`; what runs stays. Returns
    /// how many are gone.
    pub fn clean(&self, age: Duration, bytes: u64) -> usize {
        let now = SystemTime::now();
        let mut total = 0;
        let mut removed = 0;
        for session in self.listed(|_| false) {
            let since = now.duration_since(session.changed).unwrap_or_default();
            // Another process has made it and doesn't hold it yet.
            let begins = session.bytes == 0 && since < BEGINS;
            let removes = !begins && (since > age || total + session.bytes > bytes);
            match removes && discard(&session.folder, LockPatience::None).is_ok() {
                true => removed += 1,
                false => total += session.bytes,
            }
        }
        removed
    }

    fn look(&self, folder: &Path, is_running: fn(&Path) -> bool) -> Option<StoredSession> {
        self.folder_of(folder.file_name()?.to_str()?).ok()?;
        let path = folder.join(FILE);
        let meta = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(meta.mtime()).unwrap_or(0));
        let changed = changed + Duration::from_nanos(u64::try_from(meta.mtime_nsec()).unwrap_or(0));
        Some(StoredSession {
            id: folder.file_name()?.to_str()?.to_owned(),
            folder: folder.to_owned(),
            changed,
            bytes: meta.len(),
            is_running: is_running(&path),
        })
    }

    fn folder_of(&self, id: &str) -> Result<PathBuf, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let fits = !id.is_empty() && id.len() <= 128 && id.bytes().all(plain) && !id.starts_with('.');
        if fits { Ok(self.folder.join(id)) } else { Err(StoreError::BadId(id.to_owned())) }
    }
}

/// Removes the folder of a session, under its lock: who goes on with it meanwhile is not left with a file that is gone.
/// `WouldBlock` where somebody has it.
fn discard(folder: &Path, patience: LockPatience) -> io::Result<()> {
    let _held = RealDisk::hold(&folder.join(FILE), patience)?;
    std::fs::remove_dir_all(folder)
}

fn not_had(id: &str, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::WouldBlock => StoreError::Running(id.to_owned()),
        io::ErrorKind::ResourceBusy => StoreError::LookedAt(id.to_owned()),
        _ => StoreError::Io(path.to_owned(), error),
    }
}

fn not_read(id: &str, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::Unknown(id.to_owned()),
        _ => StoreError::Io(path.to_owned(), error),
    }
}

fn last(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[bytes.len().saturating_sub(LAST_BYTES)..])
}

/// A journal on this file, with how it begins or goes on.
fn begun(
    disk: RealDisk,
    named: (&str, &Path),
    at: (u64, u64),
    began: SessionStart,
    options: JournalOptions,
) -> io::Result<Journal> {
    let journal = Journal::on(Box::new(disk), named, at, options)?;
    journal.note(Record::Began(began)).map_err(|error| io::Error::other(error.message))?;
    Ok(journal)
}
