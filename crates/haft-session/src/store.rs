//! [`SessionStore`]: the sessions stored on this machine.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use haft_journal::JournalStore;

use crate::{SessionEnvironment, SessionError, loaded_settings};

/// The sessions whose journals are stored on this machine.
pub struct SessionStore(JournalStore);

/// A stored session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionEntry {
    /// The id, for [`ResumeFrom::Id`](crate::ResumeFrom::Id).
    pub id: String,
    /// The working directory.
    pub cwd: PathBuf,
    /// The title: the beginning of the user's first message.
    pub title: Option<String>,
    /// The number of started calls.
    pub calls: usize,
    /// Whether it ended normally, and was not interrupted.
    pub is_ended: bool,
    /// Whether a process is running it.
    pub is_running: bool,
    /// The time of the last write.
    pub changed: SystemTime,
}

impl SessionStore {
    /// Opens the store that the environment of this process names.
    ///
    /// # Errors
    /// Returns an error if there is no directory for it.
    pub fn from_env() -> Result<SessionStore, SessionError> {
        SessionStore::open(&SessionEnvironment::default())
    }

    /// Opens the store that this environment names.
    ///
    /// # Errors
    /// Returns an error if there is no directory for it.
    pub fn open(environment: &SessionEnvironment) -> Result<SessionStore, SessionError> {
        let places =
            loaded_settings::settings_places(std::path::Path::new("."), &|name| environment.get(name))?;
        let missing = "no sessions are kept: there is no state directory; set HAFT_STATE_DIR or HOME";
        let state = places.state_dir.ok_or_else(|| SessionError::journal(missing))?;
        Ok(SessionStore(JournalStore::at(&state)))
    }

    /// Returns the sessions, newest first. A session that can't be read is skipped.
    pub fn list(&self) -> Vec<SessionEntry> {
        let entry = |session: haft_journal::StoredSession| {
            let head = self.0.summary(&session.id).ok()?;
            Some(SessionEntry {
                id: session.id,
                cwd: head.began.cwd,
                title: head.title,
                calls: head.calls,
                is_ended: head.is_ended,
                is_running: session.is_running,
                changed: session.changed,
            })
        };
        self.0.list().into_iter().filter_map(entry).collect()
    }
}

impl fmt::Display for SessionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.is_running, self.is_ended) {
            (true, _) => "running",
            (false, true) => "ended",
            (false, false) => "cut off",
        };
        let title = self.title.as_deref().unwrap_or("(no title)");
        write!(f, "{}  {state}  {} calls  {}  {title}", self.id, self.calls, self.cwd.display())
    }
}
