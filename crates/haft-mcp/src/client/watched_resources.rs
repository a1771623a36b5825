//! The resources of a server that somebody read, and which of them changed since.
//!
//! Who reads a resource wants to know when it is no longer what was read. Servers tell that only of what they
//! were asked about, so what was read is subscribed to, by the connection; here is only what there is to ask
//! and what was told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use tokio::sync::Notify;

use crate::limits::RESOURCES_WATCHED_MAX;

/// What was read of one server. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct WatchedResources(Arc<WatchedInner>);

#[derive(Default)]
struct WatchedInner {
    state: Mutex<WatchedState>,
    /// Rung when there is more to ask about.
    more: Notify,
}

#[derive(Default)]
struct WatchedState {
    read: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl WatchedResources {
    /// Somebody has read it as it is now.
    pub(crate) fn was_read(&self, uri: &str) {
        let mut state = self.state();
        state.changed.remove(uri);
        if !state.read.contains(uri) && state.read.len() < RESOURCES_WATCHED_MAX {
            state.read.insert(uri.to_owned());
            self.0.more.notify_one();
        }
    }

    /// The server says that it changed, or something in it.
    pub(crate) fn updated(&self, uri: &str) {
        let mut state = self.state();
        let holds = |read: &&String| {
            uri.strip_prefix(read.as_str()).is_some_and(|rest| {
                rest.is_empty() || read.ends_with('/') || rest.starts_with(['/', '#', '?'])
            })
        };
        if let Some(read) = state.read.iter().find(holds).cloned() {
            state.changed.insert(read);
        }
    }

    /// What changed since it was read, each told once.
    pub(crate) fn take_changed(&self) -> Vec<String> {
        std::mem::take(&mut self.state().changed).into_iter().collect()
    }

    /// Everything that was read.
    pub(crate) fn read(&self) -> Vec<String> {
        self.state().read.iter().cloned().collect()
    }

    /// Completes when there is more to ask about than before.
    pub(crate) async fn more(&self) {
        self.0.more.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, WatchedState> {
        lock(&self.0.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_and_changed_is_told_once() {
        let watched = WatchedResources::default();
        watched.updated("file:///a");
        assert!(watched.take_changed().is_empty(), "nobody read it");
        watched.was_read("file:///a");
        watched.updated("file:///ab");
        assert!(watched.take_changed().is_empty(), "that is another one");
        watched.updated("file:///a/b");
        watched.updated("file:///a");
        assert_eq!(watched.take_changed(), ["file:///a"]);
        assert!(watched.take_changed().is_empty());
        watched.updated("file:///a");
        watched.was_read("file:///a");
        assert!(watched.take_changed().is_empty(), "it was read again as it is");
        for number in 0..2 * RESOURCES_WATCHED_MAX {
            watched.was_read(&format!("x:{number}"));
        }
        assert_eq!(watched.read().len(), RESOURCES_WATCHED_MAX);
    }
}
