//! The folder of a session, where it keeps what is to be there when it is continued: task lists, plans,
//! checkpoints.
//!
//! The host says where the folders of sessions are, and makes them; where a session has none, as in a single
//! call or where no journal is wanted, everything is in memory only. A file is replaced in one step, so a
//! program that is killed leaves the old one or the new one. What can't be written is left: the session goes
//! on with what it knows, and only a later one misses it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::private_file::{ReplaceOptions, replace_private_file};
use serde::de::DeserializeOwned;

/// The largest file that is read back whole, in bytes.
#[allow(dead_code, reason = "a build may have only the tools for files")]
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where the folders of sessions are, each with the session's id as its name. The default has none.
#[derive(Debug, Clone, Default)]
pub struct SessionFolders(Option<Arc<Path>>);

impl SessionFolders {
    /// Folders of sessions in this one.
    pub fn at(sessions: &Path) -> SessionFolders {
        SessionFolders(Some(sessions.into()))
    }

    /// A file of a session, if it has a folder.
    pub(crate) fn file(&self, session: &str, name: &str) -> Option<PathBuf> {
        // The id comes from the host; it is held against this all the same, because it becomes a path.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let is_name = !session.is_empty() && !session.starts_with('.') && session.bytes().all(plain);
        let folder = self.0.as_ref().filter(|_| is_name)?.join(session);
        folder.is_dir().then(|| folder.join(name))
    }

    /// What was put there; nothing if there is nothing, or nothing that can be understood.
    #[allow(dead_code, reason = "a build may have only the tools for files")]
    pub(crate) fn take<T: DeserializeOwned>(&self, session: &str, name: &str) -> Option<T> {
        let mut bytes = Vec::new();
        let file = File::open(self.file(session, name)?).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Puts this there, in the place of what was.
    #[allow(dead_code, reason = "a build may have only the tools for files")]
    pub(crate) fn put(&self, session: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = self.file(session, name) else { return Ok(()) };
        replace_private_file(&path, bytes, &ReplaceOptions::default())
    }
}
