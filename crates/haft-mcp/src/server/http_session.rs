//! Sessions over HTTP, of the revisions that have a handshake: what outlives their requests, and their connections.
//!
//! Names are random and belong to the principal that shook hands: for anybody else they don't exist.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::Cause;
use haft::sync::lock;
use http::StatusCode;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::asker::{Asker, SESSION, VERSION, bad};
use super::events::EventStream;
use super::gate::Refused;
use super::session::Session;
use super::who::{Principal, Revision};
use crate::limits;

/// A session of a revision with a handshake.
pub(super) struct HttpSession {
    pub(super) session: Arc<Session>,
    principal: Option<Principal>,
    /// What belongs to no request.
    pub(super) standing: Arc<EventStream>,
    /// Streams that can be resumed, the oldest first.
    streams: Mutex<VecDeque<(u64, Arc<EventStream>)>>,
    next_stream: AtomicU64,
    used: Mutex<Instant>,
}

impl HttpSession {
    /// A session whose principal has just shaken hands.
    pub(super) fn new(session: Arc<Session>, principal: Option<Principal>) -> Arc<HttpSession> {
        let primed = session.revision() >= Revision::V2025_11_25;
        Arc::new(HttpSession {
            principal,
            standing: Arc::new(EventStream::kept(0, primed)),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            used: Mutex::new(Instant::now()),
            session,
        })
    }

    /// A stream for the answer to a request, and its name.
    pub(super) fn stream(&self, primed: bool) -> (u64, Arc<EventStream>) {
        let name = self.next_stream.fetch_add(1, Ordering::Relaxed);
        (name, Arc::new(EventStream::kept(name, primed)))
    }

    /// The stream that an event was of, and which event of it.
    ///
    /// # Errors
    /// It isn't kept, or never was.
    pub(super) fn resumed(&self, last: &str) -> Result<(Arc<EventStream>, u64), Refused> {
        let place = last
            .split_once('-')
            .and_then(|(name, event)| Some((name.parse::<u64>().ok()?, event.parse::<u64>().ok()?)));
        let (name, event) = place.ok_or_else(|| bad("`Last-Event-ID` is not one that was given out here"))?;
        if name == 0 {
            return Ok((self.standing.clone(), event));
        }
        let streams = lock(&self.streams);
        let stream = streams.iter().find(|(known, _)| *known == name).map(|(_, stream)| stream.clone());
        let stream = stream.ok_or_else(|| bad("the stream of `Last-Event-ID` is not kept any more"))?;
        Ok((stream, event))
    }

    fn is_idle(&self, now: Instant) -> bool {
        !self.standing.is_read()
            && self.session.running() == 0
            && now.saturating_duration_since(*lock(&self.used)) > limits::SESSION_IDLE
    }

    fn end(&self) {
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

/// The sessions of one listener. Dropped, they end.
pub(super) struct HttpSessions {
    by_name: Mutex<HashMap<Box<str>, Arc<HttpSession>>>,
    random: SystemRandom,
}

impl HttpSessions {
    pub(super) fn new() -> HttpSessions {
        HttpSessions { by_name: Mutex::default(), random: SystemRandom::new() }
    }

    /// Ends sessions that nobody uses.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        lock(&self.by_name).retain(|_, session| {
            let stays = !session.is_idle(now);
            if !stays {
                session.end();
            }
            stays
        });
    }

    /// Gives a session a name, and room.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn admit(&self, session: &Arc<HttpSession>) -> Result<Box<str>, Refused> {
        let full =
            || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions; try again later");
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| full())?;
        let name: Box<str> = BASE64_URL_SAFE_NO_PAD.encode(bytes).into();
        self.sweep();
        let mut sessions = lock(&self.by_name);
        // Who has many makes room for its next one itself, so that nobody pushes out others.
        let is_own = |other: &HttpSession| other.principal == session.principal;
        let own = sessions.values().filter(|other| is_own(other)).count();
        let too_many_own = own >= limits::SESSIONS_EACH_MAX;
        if too_many_own || sessions.len() >= limits::SESSIONS_MAX {
            let unused =
                |session: &HttpSession| session.session.running() == 0 && !session.standing.is_read();
            let goes = |other: &HttpSession| unused(other) && (!too_many_own || is_own(other));
            let all = sessions.iter().filter(|(_, session)| goes(session));
            let oldest = all.min_by_key(|(_, session)| *lock(&session.used));
            let oldest = oldest.map(|(name, _)| name.clone()).ok_or_else(full)?;
            if let Some(session) = sessions.remove(&oldest) {
                session.end();
            }
        }
        sessions.insert(name.clone(), session.clone());
        Ok(name)
    }

    /// The session that a request names, if it is the principal's.
    ///
    /// # Errors
    /// There is none, or it is somebody else's.
    pub(super) fn of(&self, asker: &Asker) -> Result<Arc<HttpSession>, Refused> {
        let name = asker.header(SESSION).ok_or_else(|| bad("`Mcp-Session-Id` is missing"))?;
        if let Some(version) = asker.header(VERSION)
            && Revision::of(version).is_none()
        {
            return Err(bad("`MCP-Protocol-Version` names a revision that is not spoken here"));
        }
        let found = lock(&self.by_name).get(name).cloned();
        let session = found.filter(|session| session.principal == asker.principal);
        let session = session.ok_or_else(|| {
            Refused::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one")
        })?;
        *lock(&session.used) = Instant::now();
        Ok(session)
    }

    /// Ends a session.
    pub(super) fn remove(&self, gone: &Arc<HttpSession>) {
        lock(&self.by_name).retain(|_, session| !Arc::ptr_eq(session, gone));
        gone.end();
    }

    /// Ends what would go on for ever.
    pub(super) fn stop_streams(&self) {
        for session in lock(&self.by_name).values() {
            session.standing.finish(None);
        }
    }
}

impl Drop for HttpSessions {
    fn drop(&mut self) {
        for session in lock(&self.by_name).values() {
            session.end();
        }
    }
}
