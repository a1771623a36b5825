//! Sessions over HTTP, of the revisions with a handshake: they outlive their requests and connections.
//!
//! Session ids are random and bound to the principal of the handshake; for any other principal the session
//! doesn't exist.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::Cause;
use haft::sync::lock;
use http::StatusCode;
use tokio::time::Instant;

use super::client_info::{Principal, ProtocolRevision};
use super::event_stream::EventStream;
use super::http_message::{HttpError, HttpRequest, PROTOCOL_VERSION, SESSION_ID};
use super::session::ServerSession;
use super::tokens::random_secret;
use crate::limits;

/// A session of a revision with a handshake.
pub(super) struct HttpSession {
    pub(super) session: Arc<ServerSession>,
    principal: Option<Principal>,
    /// The stream of messages that belong to no request.
    pub(super) standalone: Arc<EventStream>,
    /// Streams that can be resumed, the oldest first.
    streams: Mutex<VecDeque<(u64, Arc<EventStream>)>>,
    next_stream: AtomicU64,
    last_used: Mutex<Instant>,
}

impl HttpSession {
    pub(super) fn new(session: Arc<ServerSession>, principal: Option<Principal>) -> Arc<HttpSession> {
        let is_primed = session.revision() >= ProtocolRevision::V2025_11_25;
        Arc::new(HttpSession {
            principal,
            standalone: Arc::new(EventStream::new(Some(0), is_primed)),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            last_used: Mutex::new(Instant::now()),
            session,
        })
    }

    /// A stream for the response to a request, with its number.
    pub(super) fn new_stream(&self, is_primed: bool) -> (u64, Arc<EventStream>) {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        (number, Arc::new(EventStream::new(Some(number), is_primed)))
    }

    /// The stream of a `Last-Event-ID`, and the event.
    ///
    /// # Errors
    /// The id is unknown, or its stream is not kept any more.
    pub(super) fn resume(&self, last: &str) -> Result<(Arc<EventStream>, u64), HttpError> {
        let position = last
            .split_once('-')
            .and_then(|(stream, event)| Some((stream.parse::<u64>().ok()?, event.parse::<u64>().ok()?)));
        let unknown = || HttpError::bad_request("`Last-Event-ID` is not one of this session");
        let (number, event) = position.ok_or_else(unknown)?;
        if number == 0 {
            return Ok((self.standalone.clone(), event));
        }
        let streams = lock(&self.streams);
        let stream = streams.iter().find(|(known, _)| *known == number).map(|(_, stream)| stream.clone());
        let gone = || HttpError::bad_request("the stream of `Last-Event-ID` is not kept any more");
        Ok((stream.ok_or_else(gone)?, event))
    }

    /// Whether it has had no request and no reader for so long.
    fn is_unused_for(&self, time: Duration, now: Instant) -> bool {
        self.session.is_idle()
            && !self.standalone.is_read()
            && now.duration_since(*lock(&self.last_used)) > time
    }

    fn end(&self) {
        self.session.cancel().cancel(Cause::Disconnect);
        self.standalone.finish(None);
    }

    /// Keeps a stream for its resumption.
    pub(super) fn keep_stream(&self, number: u64, stream: &Arc<EventStream>) {
        let mut streams = lock(&self.streams);
        streams.push_back((number, stream.clone()));
        if streams.len() > limits::STREAMS_KEPT {
            // A finished stream was probably read.
            let at = streams.iter().position(|(_, stream)| stream.is_finished()).unwrap_or(0);
            streams.remove(at);
        }
    }
}

/// The sessions of one listener. Dropping it ends them.
pub(crate) struct HttpSessions {
    by_id: Mutex<HashMap<Box<str>, Arc<HttpSession>>>,
    maximum: SessionMaximum,
}

/// How many sessions there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionMaximum {
    pub(crate) total: usize,
    pub(crate) per_principal: usize,
}

impl HttpSessions {
    pub(super) fn new(maximum: SessionMaximum) -> HttpSessions {
        HttpSessions { by_id: Mutex::default(), maximum }
    }

    /// Ends expired sessions.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        lock(&self.by_id).retain(|_, session| {
            let stays = !session.is_unused_for(limits::SESSION_IDLE, now);
            if !stays {
                session.end();
            }
            stays
        });
    }

    /// Adds a session, and returns its id. Where there are too many, it replaces the least recently used one
    /// that has no connection: of the same principal, if that has too many.
    ///
    /// # Errors
    /// There are too many in use, or no random numbers.
    pub(super) fn admit(&self, session: &Arc<HttpSession>) -> Result<Box<str>, HttpError> {
        let refuse = |status, message: &str| HttpError::new(status, message);
        let full = || refuse(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions; try again later");
        let id: Box<str> = random_secret(16).ok_or_else(full)?.into();
        self.sweep();
        let now = Instant::now();
        let mut sessions = lock(&self.by_id);
        let is_own = |other: &HttpSession| other.principal == session.principal;
        let own_count = sessions.values().filter(|other| is_own(other)).count();
        let has_too_many = own_count >= self.maximum.per_principal;
        if has_too_many || sessions.len() >= self.maximum.total {
            let may_end = |other: &HttpSession| {
                other.is_unused_for(limits::SESSION_REPLACEABLE, now) && (!has_too_many || is_own(other))
            };
            let candidates = sessions.iter().filter(|(_, other)| may_end(other));
            let oldest = candidates.min_by_key(|(_, other)| *lock(&other.last_used));
            let message = "this token has too many sessions; end one, or try again later";
            let oldest = oldest.map(|(id, _)| id.clone()).ok_or_else(|| {
                if has_too_many { refuse(StatusCode::TOO_MANY_REQUESTS, message) } else { full() }
            })?;
            if let Some(session) = sessions.remove(&oldest) {
                session.end();
            }
        }
        sessions.insert(id.clone(), session.clone());
        Ok(id)
    }

    /// The session that a request names.
    ///
    /// # Errors
    /// There is none, or it is another principal's.
    pub(super) fn find(&self, http: &HttpRequest) -> Result<Arc<HttpSession>, HttpError> {
        let missing = || HttpError::bad_request("`Mcp-Session-Id` is missing");
        let id = http.header(SESSION_ID).ok_or_else(missing)?;
        if let Some(version) = http.header(PROTOCOL_VERSION)
            && ProtocolRevision::from_name(version).is_none()
        {
            return Err(HttpError::bad_request("`MCP-Protocol-Version` names an unsupported revision"));
        }
        let session = lock(&self.by_id).get(id).cloned();
        let session = session.filter(|session| session.principal == http.principal);
        let unknown = || HttpError::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one");
        let session = session.ok_or_else(unknown)?;
        *lock(&session.last_used) = Instant::now();
        Ok(session)
    }

    /// Ends a session.
    pub(super) fn remove(&self, session: &Arc<HttpSession>) {
        lock(&self.by_id).retain(|_, other| !Arc::ptr_eq(other, session));
        session.end();
    }

    /// Ends the streams that no request ends.
    pub(super) fn finish_standalone_streams(&self) {
        for session in lock(&self.by_id).values() {
            session.standalone.finish(None);
        }
    }
}

impl Drop for HttpSessions {
    fn drop(&mut self) {
        for session in lock(&self.by_id).values() {
            session.end();
        }
    }
}
