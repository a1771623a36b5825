//! What tools remember of each session, for as long as the session is used.
//!
//! One set of tools may serve many sessions, as in a server. Each has its own value, found by the session's id; sub-agents
//! have the id of their session and share it. The number of sessions has a bound: the one that was not used for longest is
//! forgotten, and begins anew.

use std::sync::{Arc, Mutex, PoisonError};

use haft::Context;

/// How many sessions are remembered.
const SESSIONS_MAX: usize = 256;

/// A value for each session. Clones share them.
pub(crate) struct BySession<T>(Arc<Mutex<Vec<(String, T)>>>);

impl<T> Clone for BySession<T> {
    fn clone(&self) -> BySession<T> {
        BySession(self.0.clone())
    }
}

impl<T> Default for BySession<T> {
    fn default() -> BySession<T> {
        BySession(Arc::default())
    }
}

impl<T: Default> BySession<T> {
    /// Looks at the value of the call's session, or changes it. Others wait meanwhile: be quick, and take no other lock.
    pub(crate) fn with<R>(&self, cx: &Context, look: impl FnOnce(&mut T) -> R) -> R {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = cx.session_id();
        let found = match sessions.iter().position(|(known, _)| known == id) {
            Some(at) => sessions.remove(at),
            None => {
                if sessions.len() == SESSIONS_MAX {
                    sessions.remove(0);
                }
                (id.to_owned(), T::default())
            }
        };
        sessions.push(found);
        let (_, value) = sessions.last_mut().expect("it was put there");
        look(value)
    }
}
