//! [`SessionStore`]: the sessions that this machine keeps.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use haft_journal::JournalStore;

use crate::{SessionEnvironment, SessionError, loaded_settings};

/// The sessions whose journals are kept on this machine.
pub struct SessionStore(JournalStore);

/// A session that is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionEntry {
    /// Its id, for [`ResumeFrom::Id`](crate::ResumeFrom::Id).
    pub id: String,
    /// The directory that it works in.
    pub cwd: PathBuf,
    /// Its title: the first words of the user.
    pub title: Option<String>,
    /// How many calls were started.
    pub calls: usize,
    /// Whether it ended by itself, and wasn't cut off.
    pub is_ended: bool,
    /// Whether a process has it now.
    pub is_running: bool,
    /// When something was written last.
    pub changed: SystemTime,
}

impl SessionStore {
    /// Opens the store that the environment of this process names.
    ///
    /// # Errors
    /// There is no directory for it.
    pub fn from_env() -> Result<SessionStore, SessionError> {
        SessionStore::open(&SessionEnvironment::default())
    }

    /// Opens the store that this environment names.
    ///
    /// # Errors
    /// There is no directory for it.
    pub fn open(environment: &SessionEnvironment) -> Result<SessionStore, SessionError> {
        let places =
            loaded_settings::settings_places(std::path::Path::new("."), &|name| environment.get(name))?;
        let missing = "no sessions are kept: there is no state directory; set HAFT_STATE_DIR or HOME";
        let state = places.state_dir.ok_or_else(|| SessionError::journal(missing))?;
        Ok(SessionStore(JournalStore::at(&state)))
    }

    /// Lists the sessions, newest first. A session that can't be read is left out.
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
