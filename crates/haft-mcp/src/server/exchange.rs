//! What requests over HTTP say: messages in their bodies, sessions in their headers, streams in their answers.
//!
//! Revisions with a handshake have sessions (`http_session.rs`). A request there goes on when its connection is lost, and its answer can be fetched later. In the newest
//! revision every request stands alone, its headers repeat what its body says and have to agree with it, and it is cancelled
//! when its connection is gone.
//!
//! An answer that comes soon and alone is plain JSON; only what takes longer, or says something before, becomes a stream.

use std::sync::Arc;
use std::task::Poll;

use haft::{Cancel, Cause};
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming as Body;
use serde_json::value::RawValue;

use super::Core;
use super::agree::{arguments_agree, headers_agree};
use super::answers::{answered, refused, refused_ok, senseless, status, status_of};
use super::asker::{Asker, SESSION, VERSION, bad};
use super::busy::Busy;
use super::events::{EventStream, Opened};
use super::gate::Refused;
use super::http_session::{HttpSession, HttpSessions};
use super::lines::Batch;
use super::message::{self, Incoming, Outcome, Request};
use super::reply::{Refusal, RefusalKind, Stamp};
use super::sent::Sent;
use super::session::{Outlet, Reach, Session};
use super::who::{Revision, Way};
use super::wish::{self, Params};
use crate::limits;

/// All exchanges of one listener.
pub(crate) struct Exchange {
    core: Arc<Core>,
    way: Way,
    sessions: HttpSessions,
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

impl Exchange {
    pub(crate) fn new(core: Arc<Core>, way: Way) -> Exchange {
        Exchange { core, way, sessions: HttpSessions::new(), busy: Arc::default() }
    }

    pub(crate) fn busy(&self) -> &Arc<Busy> {
        &self.busy
    }

    /// Ends what would go on for ever.
    pub(crate) fn stop_streams(&self) {
        self.sessions.stop_streams();
    }

    /// Ends sessions that nobody uses.
    pub(crate) fn sweep(&self) {
        self.sessions.sweep();
    }

    /// Takes a message.
    pub(crate) async fn post(&self, asker: Asker, body: Body) -> Answer {
        asker.check_kinds()?;
        let text = asker.read(body, self.core.limits.message_bytes).await?;
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
            let session = self.sessions.of(&asker)?;
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
        let http = HttpSession::new(session.clone(), asker.principal.clone());
        let name = self.sessions.admit(&http)?;
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
        let (name, stream) = http.stream(session.revision() >= Revision::V2025_11_25);
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
        let http = self.sessions.of(asker).map_err(|refused| match refused.status {
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
        let (name, stream) = http.stream(false);
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
        let http = self.sessions.of(asker)?;
        let Some(last) = asker.header("last-event-id") else {
            return Ok(Sent::events(http.standing.read(0)));
        };
        let (stream, event) = http.resumed(last)?;
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
        let http = self.sessions.of(asker)?;
        self.sessions.remove(&http);
        Ok(Sent::empty(StatusCode::NO_CONTENT))
    }
}
