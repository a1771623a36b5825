//! The directory of all sessions: `STATE/sessions/ID/journal.log`, one directory each.
//!
//! Each file has one writer, which holds a lock on it. Any number of processes can work at the same
//! time, and a reader can tell a running session from one that died.

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

/// The name of the file in a session's directory.
const JOURNAL_FILE: &str = "journal.log";
/// How long an empty file counts as a session that is just starting.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
/// How many bytes at the end of a file are compared to detect changes.
const TAIL_BYTES: usize = 64 * 1024;
/// How often a file that another process removes is created again.
const OPEN_TRIES: u32 = 3;

/// The sessions in a state directory.
#[derive(Debug, Clone)]
pub struct JournalStore {
    folder: PathBuf,
}

/// A session on disk.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The session's id.
    pub id: String,
    /// The session's directory.
    pub folder: PathBuf,
    /// The time of the last write.
    pub changed: SystemTime,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// Whether a process writes it now.
    pub is_running: bool,
}

/// Where a session is resumed: returned by [`JournalStore::recover`] and passed to
/// [`JournalStore::resume`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    /// The length of the complete lines.
    whole: u64,
    /// The number of the next line.
    next: u64,
    /// The length of the written data, including an incomplete last line.
    length: u64,
    /// The checksum of the last bytes of that data.
    last: u32,
}

/// Why a session can't be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no session with this id.
    Unknown(String),
    /// Several sessions have ids with this prefix.
    AmbiguousId(String, Vec<String>),
    /// Another process runs it.
    Running(String),
    /// Another process holds a read lock and doesn't release it.
    ReadLocked(String),
    /// Another process wrote to it since it was read.
    ChangedMeanwhile(String),
    /// The text is not a valid id.
    InvalidId(String),
    /// An I/O error.
    Io(PathBuf, io::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unknown(id) => {
                write!(f, "there is no session `{id}`; `haft sessions list` shows them")
            }
            StoreError::AmbiguousId(id, ids) => {
                write!(f, "`{id}` matches several sessions: {}", ids.join(", "))
            }
            StoreError::Running(id) => write!(f, "the session `{id}` runs in another process"),
            StoreError::ReadLocked(id) => write!(
                f,
                "no process runs session `{id}`, but one holds a read lock on it, such as a `haft \
                 sessions list` that was stopped; continue or end that process, then try again"
            ),
            StoreError::ChangedMeanwhile(id) => write!(
                f,
                "another process has resumed session {id} meanwhile; look at `haft sessions show {id}`, \
                 then try again"
            ),
            StoreError::InvalidId(id) => {
                write!(f, "`{id}` is no id of a session: letters, digits, `.`, `-` and `_`")
            }
            StoreError::Io(path, error) => write!(f, "`{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl JournalStore {
    /// Creates a store in a state directory. Directories are created when they are needed.
    pub fn at(state: &Path) -> JournalStore {
        JournalStore { folder: state.join("sessions") }
    }

    /// Starts a session.
    ///
    /// # Errors
    /// The id is invalid or another process uses it, or an I/O error occurs.
    pub fn create(
        &self,
        id: &str,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<Journal, StoreError> {
        self.open(id, began, options).map(|(journal, _)| journal)
    }

    /// Resumes or starts a session; also returns its earlier contents. An incomplete last line is
    /// truncated.
    ///
    /// # Errors
    /// Another process runs it, or an I/O error occurs.
    pub fn open(
        &self,
        id: &str,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<(Journal, JournalContents), StoreError> {
        let (mut disk, length, path) = self.open_disk(id)?;
        let failed = |error| StoreError::Io(path.clone(), error);
        let contents = read(&path).map_err(failed)?;
        if contents.whole < length {
            disk.truncate(contents.whole).map_err(failed)?;
        }
        let journal = start_journal(disk, (id, &path), (contents.whole, contents.next()), began, options)
            .map_err(failed)?;
        Ok((journal, contents))
    }

    /// Recovers a session, and returns where to resume it. Changes nothing.
    ///
    /// # Errors
    /// There is no such session, or it can't be read.
    pub fn recover(&self, id: &str) -> Result<(RecoveredSession, ResumePoint), StoreError> {
        let bytes = self.read_bytes(id)?;
        let (recovered, whole, next) = RecoveredSession::from_bytes(&bytes);
        Ok((recovered, ResumePoint { whole, next, length: bytes.len() as u64, last: tail_checksum(&bytes) }))
    }

    /// Returns the number of completed calls up to a resume point, and the newest `most` of them,
    /// oldest first.
    ///
    /// # Errors
    /// There is no such session, or it can't be read.
    pub fn calls(
        &self,
        id: &str,
        until: ResumePoint,
        most: usize,
    ) -> Result<(u64, Vec<CompletedCall>), StoreError> {
        let bytes = self.read_bytes(id)?;
        Ok(completed_calls::completed_calls(&bytes[..bytes.len().min(until.whole as usize)], most))
    }

    /// Resumes a session at a resume point. An incomplete last line is truncated.
    ///
    /// # Errors
    /// Another process runs it or wrote to it meanwhile, or an I/O error occurs.
    pub fn resume(
        &self,
        id: &str,
        mark: ResumePoint,
        began: SessionStart,
        options: JournalOptions,
    ) -> Result<Journal, StoreError> {
        let (mut disk, length, path) = self.open_disk(id)?;
        let failed = |error| StoreError::Io(path.clone(), error);
        if length != mark.length || tail_checksum(&disk.read_tail(TAIL_BYTES).map_err(failed)?) != mark.last {
            return Err(StoreError::ChangedMeanwhile(id.to_owned()));
        }
        if mark.whole < length {
            disk.truncate(mark.whole).map_err(failed)?;
        }
        start_journal(disk, (id, &path), (mark.whole, mark.next), began, options).map_err(failed)
    }

    /// Returns a short summary of a session.
    ///
    /// # Errors
    /// There is no such session, or it can't be read.
    pub fn summary(&self, id: &str) -> Result<SessionSummary, StoreError> {
        let path = self.session_folder(id)?.join(JOURNAL_FILE);
        // A concurrent write doesn't affect the lines before it.
        std::fs::read(&path)
            .map(|bytes| SessionSummary::parse(&bytes))
            .map_err(|error| read_error(id, &path, error))
    }

    /// Returns how a session started, from its first line.
    ///
    /// # Errors
    /// There is no such session, or it can't be read.
    pub fn began(&self, id: &str) -> Result<Option<SessionStart>, StoreError> {
        let path = self.session_folder(id)?.join(JOURNAL_FILE);
        let failed = |error| read_error(id, &path, error);
        let file = std::fs::File::open(&path).map_err(failed)?;
        let mut first = Vec::new();
        let mut reader = io::BufReader::new(file).take(LINE_BYTES_MAX as u64);
        reader.read_until(b'\n', &mut first).map_err(failed)?;
        Ok(match journal_reader::parse(&first).records.pop().map(|stamped| stamped.record) {
            Some(Record::Began(began)) => Some(began),
            _ => None,
        })
    }

    fn read_bytes(&self, id: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.session_folder(id)?.join(JOURNAL_FILE);
        journal_reader::read_bytes(&path).map_err(|error| read_error(id, &path, error))
    }

    /// Opens the file of a session, or creates it.
    fn open_disk(&self, id: &str) -> Result<(RealDisk, u64, PathBuf), StoreError> {
        let folder = self.session_folder(id)?;
        let path = folder.join(JOURNAL_FILE);
        let mut tries = 0;
        let (disk, length) = loop {
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&folder);
            made.map_err(|error| StoreError::Io(folder.clone(), error))?;
            tries += 1;
            match RealDisk::open(&path) {
                Ok(opened) => break opened,
                // Another process removed it and is done now or soon.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < OPEN_TRIES => {}
                Err(error) => return Err(lock_error(id, &path, error)),
            }
        };
        Ok((disk, length, path))
    }

    /// Reads the records of a session.
    ///
    /// # Errors
    /// There is no such session, or it can't be read.
    pub fn read(&self, id: &str) -> Result<JournalContents, StoreError> {
        let path = self.session_folder(id)?.join(JOURNAL_FILE);
        read(&path).map_err(|error| read_error(id, &path, error))
    }

    /// Returns all sessions, newest first. Unreadable ones are omitted.
    pub fn list(&self) -> Vec<StoredSession> {
        self.list_with(RealDisk::is_held)
    }

    /// Checks again whether a process runs a session. With `waits`, retries for a moment: a child
    /// of a killed process may hold the lock a little longer.
    pub fn is_running(&self, session: &StoredSession, waits: bool) -> bool {
        let path = session.folder.join(JOURNAL_FILE);
        if waits { RealDisk::stays_held(&path) } else { RealDisk::is_held(&path) }
    }

    /// Returns all sessions. The caller chooses how `is_running` is determined, because checking
    /// thousands of locks is slow.
    fn list_with(&self, is_running: fn(&Path) -> bool) -> Vec<StoredSession> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().take(SESSIONS_MAX);
        let inspect = |entry: std::fs::DirEntry| self.inspect(&entry.path(), is_running);
        let mut sessions: Vec<StoredSession> = entries.filter_map(inspect).collect();
        sessions.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.id.cmp(&a.id)));
        sessions
    }

    /// Finds a session by its id or a unique prefix of it.
    ///
    /// # Errors
    /// No session or several sessions match.
    pub fn find(&self, id: &str) -> Result<StoredSession, StoreError> {
        let exact = self.session_folder(id)?;
        if let Some(session) = self.inspect(&exact, RealDisk::is_held) {
            return Ok(session);
        }
        let mut candidates: Vec<StoredSession> =
            self.list().into_iter().filter(|one| one.id.starts_with(id)).collect();
        match candidates.len() {
            0 => Err(StoreError::Unknown(id.to_owned())),
            1 => Ok(candidates.remove(0)),
            _ => {
                let ids = candidates.iter().take(5).map(|session| session.id.clone()).collect();
                Err(StoreError::AmbiguousId(id.to_owned(), ids))
            }
        }
    }

    /// Removes a session that no process runs.
    ///
    /// # Errors
    /// A process runs it, or an I/O error occurs.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        let session = self.find(id)?;
        remove_locked(&session.folder, LockPatience::Some)
            .map_err(|error| lock_error(&session.id, &session.folder, error))
    }

    /// Removes sessions older than `age`, then the oldest until the rest takes at most `bytes`.
    /// Running sessions stay. Returns the number of removed sessions.
    pub fn clean(&self, age: Duration, bytes: u64) -> usize {
        let now = SystemTime::now();
        let mut total = 0;
        let mut removed = 0;
        for session in self.list_with(|_| false) {
            let since = now.duration_since(session.changed).unwrap_or_default();
            // Another process has created it and not yet locked it.
            let is_starting = session.bytes == 0 && since < STARTUP_GRACE;
            let removes = !is_starting && (since > age || total + session.bytes > bytes);
            if removes && remove_locked(&session.folder, LockPatience::None).is_ok() {
                removed += 1
            } else {
                total += session.bytes
            }
        }
        removed
    }

    fn inspect(&self, folder: &Path, is_running: fn(&Path) -> bool) -> Option<StoredSession> {
        self.session_folder(folder.file_name()?.to_str()?).ok()?;
        let path = folder.join(JOURNAL_FILE);
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

    fn session_folder(&self, id: &str) -> Result<PathBuf, StoreError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let is_valid =
            !id.is_empty() && id.len() <= 128 && id.bytes().all(is_allowed) && !id.starts_with('.');
        if is_valid { Ok(self.folder.join(id)) } else { Err(StoreError::InvalidId(id.to_owned())) }
    }
}

/// Removes the directory of a session under its lock, so that no process can resume it meanwhile
/// and write to a deleted file. Returns `WouldBlock` if a process holds the lock.
fn remove_locked(folder: &Path, patience: LockPatience) -> io::Result<()> {
    let _held = RealDisk::lock_idle(&folder.join(JOURNAL_FILE), patience)?;
    std::fs::remove_dir_all(folder)
}

fn lock_error(id: &str, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::WouldBlock => StoreError::Running(id.to_owned()),
        io::ErrorKind::ResourceBusy => StoreError::ReadLocked(id.to_owned()),
        _ => StoreError::Io(path.to_owned(), error),
    }
}

fn read_error(id: &str, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::Unknown(id.to_owned()),
        _ => StoreError::Io(path.to_owned(), error),
    }
}

fn tail_checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..])
}

/// Creates a journal on this file and records the start or resume.
fn start_journal(
    disk: RealDisk,
    named: (&str, &Path),
    at: (u64, u64),
    began: SessionStart,
    options: JournalOptions,
) -> io::Result<Journal> {
    let journal = Journal::with_disk(Box::new(disk), named, at, options)?;
    journal.note(Record::Began(began)).map_err(|error| io::Error::other(error.message))?;
    Ok(journal)
}
