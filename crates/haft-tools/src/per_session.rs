//! What tools remember of each session, for as long as the session is used, and beyond where it has a folder.
//!
//! One set of tools may serve many sessions, as in a server. Each has its own value, found by the session's
//! id; sub-agents have the id of their session and share it. The number of sessions has a bound: the one that
//! was not used for longest is forgotten, and comes back from its folder or begins anew.

use std::sync::{Arc, Mutex};

use haft::Context;
use haft::sync::lock;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::session_folders::SessionFolders;

/// How many sessions are remembered: as many as a server has clients.
const SESSIONS_MAX: usize = 2_048;

/// A value for each session. Clones share them.
pub(crate) struct PerSession<T> {
    sessions: Arc<Mutex<Vec<SessionEntry<T>>>>,
    shelf: SessionFolders,
    /// The name of the file in a session's folder.
    file: &'static str,
}

struct SessionEntry<T> {
    session: String,
    value: T,
    /// As it is in the folder.
    kept: Vec<u8>,
}

impl<T> Clone for PerSession<T> {
    fn clone(&self) -> PerSession<T> {
        PerSession { sessions: self.sessions.clone(), shelf: self.shelf.clone(), file: self.file }
    }
}

impl<T: Default + Serialize + DeserializeOwned> PerSession<T> {
    /// Values that are kept in files of this name.
    pub(crate) fn new(shelf: &SessionFolders, file: &'static str) -> PerSession<T> {
        PerSession { sessions: Arc::default(), shelf: shelf.clone(), file }
    }

    /// What a session's folder has of it, if it has one.
    #[allow(dead_code, reason = "a build may have only some of the tools")]
    pub(crate) fn kept(&self, session: &str) -> Option<T> {
        self.shelf.take(session, self.file)
    }

    /// Looks at the value of the call's session, or changes it. Others wait meanwhile: be quick, and take no
    /// other lock.
    pub(crate) fn with<R>(&self, cx: &Context, look: impl FnOnce(&mut T) -> R) -> R {
        let mut sessions = lock(&self.sessions);
        let id = cx.call().session_id();
        let found = match sessions.iter().position(|known| known.session == id) {
            Some(at) => sessions.remove(at),
            None => {
                if sessions.len() == SESSIONS_MAX {
                    sessions.remove(0);
                }
                let value = self.shelf.take(id, self.file).unwrap_or_default();
                let kept = serde_json::to_vec(&value).unwrap_or_default();
                SessionEntry { session: id.to_owned(), value, kept }
            }
        };
        sessions.push(found);
        let known = sessions.last_mut().expect("it was put there");
        let said = look(&mut known.value);
        let now = serde_json::to_vec(&known.value).unwrap_or_default();
        if now != known.kept && self.shelf.put(id, self.file, &now).is_ok() {
            known.kept = now;
        }
        said
    }
}
