//! What requests over HTTP say: messages in their bodies, sessions in their headers, streams in their answers.
//!
//! Revisions with a handshake have sessions, whose names are random and belong to the principal that shook hands: for anybody
//! else they don't exist. A request there goes on when its connection is lost, and its answer can be fetched later. In the newest
//! revision every request stands alone, its headers repeat what its body says and have to agree with it, and it is cancelled
//! when its connection is gone.
//!
//! An answer that comes soon and alone is plain JSON; only what takes longer, or says something before, becomes a stream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::{Cancel, Cause};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming as Body;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::value::RawValue;

use super::Core;
use super::agree::{arguments_agree, headers_agree};
use super::busy::Busy;
use super::events::{EventStream, Opened};
use super::gate::Refused;
use super::http_session::{HttpSession, lock};
use super::lines::Batch;
use super::message::{self, Incoming, NoMessage, Outcome, Request};
use super::reply::{Refusal, RefusalKind, Stamp};
use super::sent::Sent;
use super::session::{Outlet, Reach, Session};
use super::who::{Client, Principal, Revision, Way};
use super::wish::{self, Params};
use crate::limits;

const SESSION: &str = "mcp-session-id";
pub(super) const VERSION: &str = "mcp-protocol-version";
pub(super) const METHOD: &str = "mcp-method";
pub(super) const NAME: &str = "mcp-name";

/// Who asks, and with which headers.
pub(crate) struct Asker {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: HeaderMap,
}

impl Asker {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }

    /// Whether an answer of this kind is taken.
    fn takes(&self, kind: &str) -> bool {
        let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
        let mut accepted =
            self.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        accepted.peek().is_none()
            || accepted.flat_map(|value| value.split(',')).any(|item| {
                let item = item.split(';').next().unwrap_or_default().trim();
                item.eq_ignore_ascii_case(kind) || item == "*/*" || item.strip_suffix("/*") == Some(family)
            })
    }

    fn client(&self, client: Client) -> Client {
        client.with_principal(self.principal.clone())
    }
}

/// All exchanges of one listener.
pub(crate) struct Exchange {
    core: Arc<Core>,
    way: Way,
    sessions: Mutex<HashMap<Box<str>, Arc<HttpSession>>>,
    random: SystemRandom,
    busy: Arc<Busy>,
}

/// Cancels a request when nobody waits for it any more.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel(Cause::Disconnect);
    }
}

type Answer = Result<Response<Sent>, Refused>;

fn bad(words: impl Into<String>) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, words)
}

impl Exchange {
    pub(crate) fn new(core: Arc<Core>, way: Way) -> Exchange {
        Exchange { core, way, sessions: Mutex::default(), random: SystemRandom::new(), busy: Arc::default() }
    }

    pub(crate) fn busy(&self) -> &Arc<Busy> {
        &self.busy
    }

    /// Ends what would go on for ever.
    pub(crate) fn stop_streams(&self) {
        for session in lock(&self.sessions).values() {
            session.standing.finish(None);
        }
    }

    /// Takes a message.
    pub(crate) async fn post(&self, asker: Asker, body: Body) -> Answer {
        let is_json = asker.header(CONTENT_TYPE.as_str()).is_some_and(|kind| {
            kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            return Err(Refused::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a body has to be `application/json`",
            ));
        }
        if !asker.takes("application/json") || !asker.takes("text/event-stream") {
            let words = "a request has to accept `application/json` and `text/event-stream`";
            return Err(Refused::new(StatusCode::NOT_ACCEPTABLE, words));
        }
        let text = self.body(&asker, body).await?;
        let version = asker.header(VERSION);
        if message::is_batch(&text) {
            return self.batch(&asker, &text).await;
        }
        let message = match message::read(&text) {
            Ok(message) => message,
            Err(wrong) => return Ok(senseless(&wrong)),
        };
        let is_newest =
            version.is_some_and(|version| Revision::of(version).is_none_or(Revision::is_stateless));
        if asker.headers.contains_key(SESSION) && !is_newest {
            let session = self.session(&asker)?;
            return self.in_session(&session, &message).await;
        }
        match message {
            Incoming::Request(request) => {
                let stands = |refusal| Ok(refused(request.id, refusal, Revision::V2026_07_28));
                let params = match Params::read(request.params) {
                    Ok(params) => params,
                    Err(refusal) => return stands(refusal),
                };
                if is_newest || params.is_alone() {
                    return self.alone(asker, &request, params).await;
                }
                if request.method == "initialize" {
                    return self.shake_hands(&asker, &request).await;
                }
                Err(bad("`Mcp-Session-Id` is missing; the answer to `initialize` has it"))
            }
            // There is nothing that a notification without a session could be about.
            Incoming::Notification { .. } => Ok(Sent::empty(StatusCode::ACCEPTED)),
            Incoming::Answer { .. } => Err(bad("nothing was asked")),
        }
    }

    async fn body(&self, asker: &Asker, mut body: Body) -> Result<Vec<u8>, Refused> {
        let most = self.core.limits.message_bytes;
        let too_long =
            || Refused::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {most} bytes"));
        let told = asker.header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<usize>().ok());
        if told.is_some_and(|length| length > most) {
            return Err(too_long());
        }
        // What is told is not believed before it comes.
        let mut text = Vec::with_capacity(told.unwrap_or_default().min(limits::READ_BYTES));
        let all = async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| bad("the body broke off"))?;
                if let Some(data) = frame.data_ref() {
                    if text.len() + data.len() > most {
                        return Err(too_long());
                    }
                    text.extend_from_slice(data);
                }
            }
            Ok(text)
        };
        let late = || Refused::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
        tokio::time::timeout(limits::BODY_TIMEOUT, all).await.map_err(|_| late())?
    }

    /// A request of the newest revision.
    async fn alone(&self, asker: Asker, request: &Request<'_>, mut params: Params) -> Answer {
        let newest = Revision::V2026_07_28;
        let stands = |refusal| Ok(refused(request.id, refusal, newest));
        let checked = params.check_sender().and_then(|()| headers_agree(&asker, &request.method, &params));
        let sender = match checked.and_then(|()| params.take_sender()) {
            Ok(sender) => sender,
            Err(refusal) => return stands(refusal),
        };
        let client = asker.client(sender.client(self.way));
        let opened = Session::open(&self.core, client, self.core.cancel.child(), self.core.stopping.clone());
        let session = match opened.await {
            Ok(session) => session,
            Err(refusal) => return stands(refusal),
        };
        if request.method == "tools/call"
            && let Err(refusal) = arguments_agree(&asker, &session, &params).await
        {
            return stands(refusal);
        }
        let stream = Arc::new(EventStream::passing());
        let cancel = session.cancel().child();
        let reach = Reach { outlet: stream.clone(), cancel: cancel.clone(), level: sender.level };
        let guard = CancelOnDrop(cancel);
        if request.method == "subscriptions/listen" && !asker.takes("text/event-stream") {
            return Err(Refused::new(StatusCode::NOT_ACCEPTABLE, "a subscription is a stream of events"));
        }
        let job = match session.begin(request.id, &request.method, params, reach) {
            Ok(job) => job,
            Err(refusal) => return stands(refusal),
        };
        let finished = self.run(request.id, &session, job, &stream).await;
        if let Some(outcome) = finished {
            let status = outcome.as_ref().err().map_or(StatusCode::OK, |refusal| status(refusal, newest));
            return Ok(answered(status, request.id, &outcome, session.stamp()));
        }
        Ok(match stream.opened(limits::STREAM_AFTER).await {
            Opened::Alone(answer) => Sent::json(status_of(&answer), answer),
            Opened::Nothing | Opened::Streaming => Sent::events(stream.read(0).with_guard(guard)),
        })
    }

    /// Carries a request out: at once if it can be, else in a task that finishes the stream.
    async fn run(
        &self,
        id: &RawValue,
        session: &Arc<Session>,
        job: impl Future<Output = super::rounds::Answer> + Send + 'static,
        stream: &Arc<EventStream>,
    ) -> Option<Result<Outcome, Refusal>> {
        let mut job = Box::pin(job);
        let first = std::future::poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await;
        // What was said before the answer belongs before it.
        if let Poll::Ready(answer) = first {
            if let Some(outcome) = answer {
                if stream.is_fresh() {
                    return Some(outcome);
                }
                let mut text = Vec::new();
                message::write_answer(&mut text, id, &outcome, session.stamp());
                stream.finish(Some(text));
            } else {
                stream.finish(None);
            }
            return None;
        }
        let (stream, session, id) = (stream.clone(), session.clone(), id.to_owned());
        let work = self.busy.begin();
        tokio::spawn(async move {
            let answer = job.await.map(|outcome| {
                let mut text = Vec::new();
                message::write_answer(&mut text, &id, &outcome, session.stamp());
                text
            });
            stream.finish(answer);
            drop(work);
        });
        None
    }

    async fn shake_hands(&self, asker: &Asker, request: &Request<'_>) -> Answer {
        let older = Revision::LATEST_WITH_HANDSHAKE;
        let stands = |refusal| Ok(refused(request.id, refusal, older));
        let client = match wish::handshake(request.params, self.way) {
            Ok(client) => asker.client(client),
            Err(refusal) => return stands(refusal),
        };
        let opened = Session::open(&self.core, client, self.core.cancel.child(), self.core.stopping.clone());
        let session = match opened.await {
            Ok(session) => session,
            Err(refusal) => return stands(refusal),
        };
        let greeting = Ok(session.greeting());
        let primed = session.revision() >= Revision::V2025_11_25;
        let http = Arc::new(HttpSession {
            principal: asker.principal.clone(),
            standing: Arc::new(EventStream::kept(0, primed)),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            used: Mutex::new(Instant::now()),
            session: session.clone(),
        });
        let name = self.admit(&http)?;
        let (told, outlet) = (session.clone(), http.standing.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = told.tell_changes(&*outlet) => {}
                _ = told.cancel().cancelled() => {}
            }
        });
        let mut response = answered(StatusCode::OK, request.id, &greeting, &Stamp::new(session.revision()));
        if let Ok(name) = HeaderValue::from_str(&name) {
            response.headers_mut().insert(SESSION, name);
        }
        Ok(response)
    }

    /// Ends sessions that nobody uses.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        lock(&self.sessions).retain(|_, session| {
            let stays = !session.is_idle(now);
            if !stays {
                session.end();
            }
            stays
        });
    }

    /// Gives a session a name, and room.
    fn admit(&self, session: &Arc<HttpSession>) -> Result<Box<str>, Refused> {
        let full =
            || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions; try again later");
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| full())?;
        let name: Box<str> = BASE64_URL_SAFE_NO_PAD.encode(bytes).into();
        self.sweep();
        let mut sessions = lock(&self.sessions);
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
    fn session(&self, asker: &Asker) -> Result<Arc<HttpSession>, Refused> {
        let name = asker.header(SESSION).ok_or_else(|| bad("`Mcp-Session-Id` is missing"))?;
        if let Some(version) = asker.header(VERSION)
            && Revision::of(version).is_none()
        {
            return Err(bad("`MCP-Protocol-Version` names a revision that is not spoken here"));
        }
        let found = lock(&self.sessions).get(name).cloned();
        let session = found.filter(|session| session.principal == asker.principal);
        let session = session.ok_or_else(|| {
            Refused::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one")
        })?;
        *lock(&session.used) = Instant::now();
        Ok(session)
    }

    async fn in_session(&self, http: &Arc<HttpSession>, message: &Incoming<'_>) -> Answer {
        let session = &http.session;
        let request = match message {
            Incoming::Notification { method, params } => {
                session.heard(method, *params);
                return Ok(Sent::empty(StatusCode::ACCEPTED));
            }
            Incoming::Answer { id, outcome } => {
                session.answered(id, *outcome);
                return Ok(Sent::empty(StatusCode::ACCEPTED));
            }
            Incoming::Request(request) => request,
        };
        let stands = |refusal| Ok(refused_ok(request.id, refusal, session.stamp()));
        if request.method == "initialize" {
            return stands(Refusal::new(
                RefusalKind::Code(message::INVALID_REQUEST),
                "hands were shaken already",
            ));
        }
        let name = http.next_stream.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(EventStream::kept(name, session.revision() >= Revision::V2025_11_25));
        let reach = Reach { outlet: stream.clone(), cancel: session.cancel().child(), level: None };
        let begun = Params::read(request.params)
            .and_then(|params| session.begin(request.id, &request.method, params, reach));
        let job = match begun {
            Ok(job) => job,
            Err(refusal) => return stands(refusal),
        };
        if let Some(outcome) = self.run(request.id, session, job, &stream).await {
            return Ok(answered(StatusCode::OK, request.id, &outcome, session.stamp()));
        }
        Ok(self.follow(http, name, &stream).await)
    }

    /// Answers with what a stream brings: the answer alone, or the stream.
    async fn follow(&self, http: &HttpSession, name: u64, stream: &Arc<EventStream>) -> Response<Sent> {
        match stream.opened(limits::STREAM_AFTER).await {
            Opened::Alone(answer) => Sent::json(StatusCode::OK, answer),
            Opened::Nothing => Sent::empty(StatusCode::ACCEPTED),
            Opened::Streaming => {
                http.keep(name, stream);
                Sent::events(stream.read(0))
            }
        }
    }

    /// Several messages at once, as two old revisions have them.
    async fn batch(&self, asker: &Asker, text: &[u8]) -> Answer {
        let http = self.session(asker).map_err(|refused| match refused.status {
            StatusCode::NOT_FOUND => refused,
            _ => bad("batches are not part of this revision, or `Mcp-Session-Id` is missing"),
        })?;
        if http.session.revision() > Revision::V2025_03_26 {
            return Err(bad("batches are not part of this revision"));
        }
        let texts = match message::batch(text) {
            Ok(texts) => texts,
            Err(wrong) => return Ok(senseless(&wrong)),
        };
        let name = http.next_stream.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(EventStream::kept(name, false));
        let outlet: Arc<dyn Outlet> = stream.clone();
        let batch = Batch::begin(&http.session, &texts, &outlet, |other| match other {
            Incoming::Notification { method, params } => http.session.heard(method, *params),
            Incoming::Answer { id, outcome } => http.session.answered(id, *outcome),
            Incoming::Request(_) => {}
        });
        let (session, filled, work) = (http.session.clone(), stream.clone(), self.busy.begin());
        tokio::spawn(async move {
            filled.finish(batch.answers(session.stamp()).await);
            drop(work);
        });
        Ok(self.follow(&http, name, &stream).await)
    }

    /// Opens the stream of what belongs to no request, or one that was lost.
    pub(crate) fn get(&self, asker: &Asker) -> Answer {
        if !asker.headers.contains_key(SESSION) {
            return Err(Refused::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "without a session there is nothing to listen to",
            ));
        }
        if !asker.takes("text/event-stream") {
            return Err(Refused::new(StatusCode::NOT_ACCEPTABLE, "what comes is `text/event-stream`"));
        }
        let http = self.session(asker)?;
        let Some(last) = asker.header("last-event-id") else {
            return Ok(Sent::events(http.standing.read(0)));
        };
        let place = last
            .split_once('-')
            .and_then(|(name, event)| Some((name.parse::<u64>().ok()?, event.parse::<u64>().ok()?)));
        let (name, event) = place.ok_or_else(|| bad("`Last-Event-ID` is not one that was given out here"))?;
        if name == 0 {
            return Ok(Sent::events(http.standing.read(event)));
        }
        let stream =
            lock(&http.streams).iter().find(|(known, _)| *known == name).map(|(_, stream)| stream.clone());
        let stream = stream.ok_or_else(|| bad("the stream of `Last-Event-ID` is not kept any more"))?;
        Ok(Sent::events(stream.read(event)))
    }

    /// Ends a session.
    pub(crate) fn delete(&self, asker: &Asker) -> Answer {
        if !asker.headers.contains_key(SESSION) {
            return Err(Refused::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "without a session there is nothing to end",
            ));
        }
        let http = self.session(asker)?;
        lock(&self.sessions).retain(|_, session| !Arc::ptr_eq(session, &http));
        http.end();
        Ok(Sent::empty(StatusCode::NO_CONTENT))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        for session in lock(&self.sessions).values() {
            session.end();
        }
    }
}

/// The status of an error in the newest revision.
fn status(refusal: &Refusal, revision: Revision) -> StatusCode {
    status_of_code(i64::from(refusal.code(revision)))
}

fn status_of_code(code: i64) -> StatusCode {
    match code {
        -32601 => StatusCode::NOT_FOUND,
        -32700 | -32600 | -32602 | -32020 | -32021 | -32022 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The same for an answer that is written already.
fn status_of(answer: &[u8]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Failed {
        error: Option<Code>,
    }
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    let failed = serde_json::from_slice::<Failed>(answer).ok().and_then(|failed| failed.error);
    failed.map_or(StatusCode::OK, |error| status_of_code(error.code))
}

fn answered(
    status: StatusCode,
    id: &RawValue,
    outcome: &Result<Outcome, Refusal>,
    stamp: &Stamp,
) -> Response<Sent> {
    let mut text = Vec::with_capacity(256);
    message::write_answer(&mut text, id, outcome, stamp);
    Sent::json(status, text)
}

fn refused(id: &RawValue, refusal: Refusal, revision: Revision) -> Response<Sent> {
    answered(status(&refusal, revision), id, &Err(refusal), &Stamp::new(revision))
}

/// Revisions with a handshake say everything in the message.
fn refused_ok(id: &RawValue, refusal: Refusal, stamp: &Stamp) -> Response<Sent> {
    answered(StatusCode::OK, id, &Err(refusal), stamp)
}

fn senseless(wrong: &NoMessage) -> Response<Sent> {
    let mut text = Vec::new();
    message::write_no_message(&mut text, wrong);
    Sent::json(StatusCode::BAD_REQUEST, text)
}
