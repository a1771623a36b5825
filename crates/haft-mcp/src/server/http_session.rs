//! A session over HTTP, of the revisions that have a handshake: what outlives its requests, and their connections.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use haft::Cause;

use super::events::EventStream;
use super::session::Session;
use super::who::Principal;
use crate::limits;

/// A session of a revision with a handshake.
pub(super) struct HttpSession {
    pub(super) session: Arc<Session>,
    pub(super) principal: Option<Principal>,
    /// What belongs to no request.
    pub(super) standing: Arc<EventStream>,
    /// Streams that can be resumed, the oldest first.
    pub(super) streams: Mutex<VecDeque<(u64, Arc<EventStream>)>>,
    pub(super) next_stream: AtomicU64,
    pub(super) used: Mutex<Instant>,
}

impl HttpSession {
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        !self.standing.is_read()
            && self.session.running() == 0
            && now.saturating_duration_since(*lock(&self.used)) > limits::SESSION_IDLE
    }

    pub(super) fn end(&self) {
        self.session.cancel().cancel(Cause::Disconnect);
        self.standing.finish(None);
    }

    pub(super) fn keep(&self, name: u64, stream: &Arc<EventStream>) {
        let mut streams = lock(&self.streams);
        streams.push_back((name, stream.clone()));
        if streams.len() > limits::STREAMS_KEPT {
            // One that still goes on is worth more than one whose answer was fetched long ago.
            let at = streams.iter().position(|(_, stream)| stream.is_finished()).unwrap_or(0);
            streams.remove(at);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
