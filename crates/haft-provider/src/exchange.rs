//! One request with its attempts, over whatever carries it.
//!
//! A request is made again only while nothing came of it that could have been acted upon: before its first
//! content, or, where only text came, after saying [`ReplyDelta::Restarted`]. Once a call was ready the
//! message is not asked for again: a stream that breaks then ends as a failure with what came, and the loop
//! goes on from there. So no call ever runs twice.
//!
//! What carries a request is a [`RequestTransport`]: the network, or the scripted model inside of this
//! process. Both are retried, rested and cut by the same code.

mod circuit_breaker;
mod retry_policy;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::sync::lock;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

pub use self::retry_policy::RetryPolicy;

use self::circuit_breaker::EndpointBreaker;
#[cfg(feature = "http")]
pub(crate) use self::retry_policy::retry_delay;
use crate::Wire;
use crate::failure;
use crate::limits::{DRAIN_MS, DRAIN_SECONDS_MAX, RETRY_AFTER_SECONDS_MAX};
use crate::stream::{MessageReader, decode_response};
use haft_agent::{FailureKind, ModelFailure, ModelReply, ReplyDelta, ReplyStream, StopReason, ToolDeferral};

/// What an answer that nobody can read mostly means.
pub(crate) const WRONG_ADDRESS: &str = "is the base URL right?";

/// How much of a text that came whole is told at once, in bytes.
const TOLD_BYTES: usize = 64 * 1024;

/// Carries requests.
pub(crate) trait RequestTransport: Send + Sync + 'static {
    /// Sends a body and waits for the head of its answer.
    fn send(&self, body: Arc<String>) -> BoxFuture<'_, Result<ResponseHead, ModelFailure>>;

    /// Makes what the first request needs.
    #[cfg(feature = "http")]
    fn warm(&self) {}
}

/// The head of an answer.
pub(crate) enum ResponseHead {
    /// An error, with its body.
    Refused {
        status: u16,
        body: String,
        /// How long the provider wants to be left alone.
        after: Option<Duration>,
        /// Whether the provider says that trying again helps.
        again: Option<bool>,
    },
    /// A message that wasn't streamed.
    Whole(String),
    /// A message that is.
    Stream(Box<dyn ChunkStream>),
}

/// The bytes of a stream.
pub(crate) trait ChunkStream: Send {
    /// Waits for bytes and feeds them; false at the end. Dropping the future loses nothing.
    fn next<'a>(
        &'a mut self,
        feed: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<bool, ModelFailure>>;
}

/// What all requests to one endpoint share.
pub(crate) struct EndpointState {
    pub(crate) wire: Wire,
    pub(crate) transport: Box<dyn RequestTransport>,
    breaker: Mutex<EndpointBreaker>,
    /// Whether the endpoint is told of deferred tools in a form of its own.
    defers: AtomicBool,
    /// Streams whose message is over and whose end has not come yet. They end with the line.
    draining: Mutex<JoinSet<()>>,
}

impl EndpointState {
    pub(crate) fn new(wire: Wire, transport: impl RequestTransport, deferral: ToolDeferral) -> EndpointState {
        let (transport, breaker) = (Box::new(transport), Mutex::new(EndpointBreaker::new()));
        let defers = AtomicBool::new(deferral == ToolDeferral::Native);
        EndpointState { wire, transport, breaker, defers, draining: Mutex::default() }
    }

    pub(crate) fn deferral(&self) -> ToolDeferral {
        if self.defers.load(Ordering::Relaxed) { ToolDeferral::Native } else { ToolDeferral::Fallback }
    }

    pub(crate) fn set_deferral(&self, deferral: ToolDeferral) {
        self.defers.store(deferral == ToolDeferral::Native, Ordering::Relaxed);
    }

    /// Takes what is left of a stream whose message is over: a connection can be used again only once its
    /// answer was read to the end. Mostly that is there already; if it isn't soon, it is waited for
    /// elsewhere.
    async fn drain(&self, mut rest: Box<dyn ChunkStream>) {
        let mut rest = Box::pin(async move { while let Ok(true) = rest.next(&mut |_| {}).await {} });
        if timeout(Duration::from_millis(DRAIN_MS), rest.as_mut()).await.is_ok() {
            // Whoever keeps the connection sees it before the next request looks for one.
            return tokio::task::yield_now().await;
        }
        let mut draining = lock(&self.draining);
        while draining.try_join_next().is_some() {}
        draining.spawn(async move { drop(timeout(Duration::from_secs(DRAIN_SECONDS_MAX), rest).await) });
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, EndpointBreaker> {
        lock(&self.breaker)
    }
}

/// One request with its attempts.
pub(crate) struct RequestExchange {
    line: Arc<EndpointState>,
    body: Arc<String>,
    retry: RetryPolicy,
    silence: Duration,
    /// The attempt that is being made, from 1.
    attempt: u32,
    state: ExchangeState,
    reader: MessageReader,
}

enum ExchangeState {
    /// The request has to be sent.
    Ready,
    /// The request has to be sent again, then.
    Waiting(Instant),
    Streaming(Box<dyn ChunkStream>),
    /// The message came, in one way or another.
    Over,
    /// It came whole, and is told from this byte of its text on.
    Telling(Box<ModelReply>, usize),
    /// It came whole.
    Whole(Box<ModelReply>),
    /// It didn't come, or broke off: why, and what came of it.
    Failed(ModelFailure, Box<ModelReply>),
}

impl ReplyStream for RequestExchange {
    fn more<'a>(&'a mut self, out: &'a mut Vec<ReplyDelta>) -> BoxFuture<'a, bool> {
        Box::pin(self.step(out))
    }

    fn finish(self: Box<Self>) -> ModelReply {
        let wire = self.line.wire;
        match self.state {
            ExchangeState::Whole(reply) => *reply,
            // Nobody was told of its calls, so they are not in it.
            ExchangeState::Telling(reply, _) if !reply.requests_calls() => *reply,
            ExchangeState::Telling(..) => ModelReply::empty(wire, StopReason::Interrupted),
            ExchangeState::Ready | ExchangeState::Waiting(_) => {
                ModelReply::empty(wire, StopReason::Interrupted)
            }
            ExchangeState::Streaming(_) => {
                let reply = self.reader.finish(&mut Vec::new());
                match reply.stop() {
                    StopReason::Cut => reply.with_stop(StopReason::Interrupted),
                    _ => reply,
                }
            }
            ExchangeState::Over => self.reader.finish(&mut Vec::new()),
            ExchangeState::Failed(failure, reply) => reply.with_stop(StopReason::Failed(failure)),
        }
    }
}

impl RequestExchange {
    pub(crate) fn new(
        line: Arc<EndpointState>,
        body: String,
        retry: RetryPolicy,
        silence: Duration,
    ) -> RequestExchange {
        let reader = MessageReader::new(line.wire);
        RequestExchange {
            line,
            body: Arc::new(body),
            retry,
            silence,
            attempt: 1,
            state: ExchangeState::Ready,
            reader,
        }
    }

    /// One step: a wait, an answer's head, or bytes with something in them.
    async fn step(&mut self, out: &mut Vec<ReplyDelta>) -> bool {
        loop {
            match &mut self.state {
                ExchangeState::Ready => match self.connect(out).await {
                    Ok(state) => self.state = state,
                    Err(failure) => return self.failed(failure, out),
                },
                ExchangeState::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = ExchangeState::Ready;
                }
                ExchangeState::Streaming(chunks) => {
                    let (before, reader) = (out.len(), &mut self.reader);
                    let mut feed = |bytes: &[u8]| reader.feed(bytes, out);
                    let next = timeout(self.silence, chunks.next(&mut feed)).await;
                    match next {
                        Err(_) => return self.failed(silence_failure(self.silence), out),
                        Ok(Ok(true)) => {
                            if let Some(failure) = self.reader.failure() {
                                let failure = failure.clone();
                                return self.failed(failure, out);
                            }
                            if self.reader.is_over() {
                                self.line.breaker().succeeded();
                                if let ExchangeState::Streaming(rest) =
                                    std::mem::replace(&mut self.state, ExchangeState::Over)
                                {
                                    self.line.drain(rest).await;
                                }
                                return false;
                            }
                            if out.len() > before {
                                return true;
                            }
                        }
                        Ok(ended) => return self.ended(ended.err(), out),
                    }
                }
                ExchangeState::Telling(reply, told) => {
                    let rest = &reply.text()[*told..];
                    if !rest.is_empty() {
                        let most = (TOLD_BYTES.min(rest.len())..).find(|end| rest.is_char_boundary(*end));
                        let piece = &rest[..most.unwrap_or(rest.len())];
                        *told += piece.len();
                        out.push(ReplyDelta::Text(piece.to_owned()));
                        return true;
                    }
                    if let ExchangeState::Telling(reply, _) =
                        std::mem::replace(&mut self.state, ExchangeState::Over)
                    {
                        told_calls(&reply, out);
                        self.state = ExchangeState::Whole(reply);
                    }
                    return false;
                }
                ExchangeState::Over | ExchangeState::Whole(_) | ExchangeState::Failed(..) => return false,
            }
        }
    }

    /// The bytes are over, or broke off.
    fn ended(&mut self, broke: Option<ModelFailure>, out: &mut Vec<ReplyDelta>) -> bool {
        // The last event may lack its line end.
        let mut tail = Vec::new();
        let (has_content, reply) = self.take_reply(&mut tail);
        let lost = || ModelFailure::new(FailureKind::Disconnected, "the stream ended before the message did");
        let failure = match reply.stop() {
            StopReason::Cut => broke.unwrap_or_else(lost),
            StopReason::Failed(failure) => failure.clone(),
            _ => {
                out.extend(tail);
                self.line.breaker().succeeded();
                self.state = ExchangeState::Whole(Box::new(reply));
                return false;
            }
        };
        // What came last is told too: calls may be in it.
        out.extend(tail);
        self.again_or_not(failure, has_content, reply, out)
    }

    /// Takes what came so far, and whether anybody may have seen something of it.
    fn take_reply(&mut self, out: &mut Vec<ReplyDelta>) -> (bool, ModelReply) {
        let reader = std::mem::replace(&mut self.reader, MessageReader::new(self.line.wire));
        let has_content = reader.has_content();
        (has_content, reader.finish(out))
    }

    async fn connect(&mut self, out: &mut Vec<ReplyDelta>) -> Result<ExchangeState, ModelFailure> {
        let line = self.line.clone();
        line.breaker().ask(Instant::now())?;
        let sent = timeout(self.silence, line.transport.send(self.body.clone())).await;
        match sent.map_err(|_| silence_failure(self.silence))?? {
            ResponseHead::Refused { status, body, after, again } => {
                let mut failure = refusal_failure(status, &body);
                failure.retry_after = after;
                // The provider knows better than its status.
                match again {
                    Some(false) if failure.is_passing() => failure.kind = FailureKind::BadRequest,
                    Some(true) if !failure.is_passing() => failure.kind = FailureKind::Server,
                    _ => {}
                }
                Err(failure)
            }
            ResponseHead::Whole(body) => {
                let reply = decode_response(line.wire, body).map_err(|failure| match failure.kind {
                    FailureKind::Malformed => {
                        ModelFailure::new(failure.kind, format!("{}; {WRONG_ADDRESS}", failure.message))
                    }
                    _ => failure,
                })?;
                if reply.items().is_empty() && *reply.stop() == StopReason::Cut {
                    let words = format!("the server's answer has no message in it; {WRONG_ADDRESS}");
                    return Err(ModelFailure::new(FailureKind::Malformed, words));
                }
                line.breaker().succeeded();
                out.push(ReplyDelta::Started { model: reply.model().map(str::to_owned) });
                Ok(ExchangeState::Telling(Box::new(reply), 0))
            }
            ResponseHead::Stream(chunks) => Ok(ExchangeState::Streaming(chunks)),
        }
    }

    fn failed(&mut self, failure: ModelFailure, out: &mut Vec<ReplyDelta>) -> bool {
        let (has_content, reply) = self.take_reply(out);
        self.again_or_not(failure, has_content, reply, out)
    }

    /// What a failure means: another attempt, or the end.
    fn again_or_not(
        &mut self,
        failure: ModelFailure,
        has_content: bool,
        reply: ModelReply,
        out: &mut Vec<ReplyDelta>,
    ) -> bool {
        let now = Instant::now();
        self.line.breaker().failed(&failure, now);
        let asked = failure.retry_after.unwrap_or_default();
        let may = failure.is_passing()
            && reply.calls().is_empty()
            && self.attempt < self.retry.attempts
            && asked <= Duration::from_secs(RETRY_AFTER_SECONDS_MAX);
        if !may {
            self.state = ExchangeState::Failed(failure, Box::new(reply));
            return false;
        }
        if has_content {
            out.push(ReplyDelta::Restarted);
        }
        let wait = self.retry.wait(self.attempt).max(asked);
        self.attempt += 1;
        out.push(ReplyDelta::Retrying { failure, attempt: self.attempt, wait });
        self.state = ExchangeState::Waiting(now + wait);
        true
    }
}

fn silence_failure(limit: Duration) -> ModelFailure {
    ModelFailure::new(FailureKind::TimedOut, format!("nothing came for {} s", limit.as_secs_f64()))
}

/// The calls of a whole reply, told as if they had come piece by piece.
fn told_calls(reply: &ModelReply, out: &mut Vec<ReplyDelta>) {
    for (call, ready) in reply.calls().into_iter().enumerate() {
        let (id, name) = (ready.id.to_string(), ready.name.to_string());
        out.push(ReplyDelta::CallBegun { call, id, name });
        out.push(ReplyDelta::CallReady { call, ready });
    }
    out.push(ReplyDelta::Usage(reply.usage().clone()));
}

/// A refusal by its status and its body, in whichever of the providers' forms.
fn refusal_failure(status: u16, body: &str) -> ModelFailure {
    let parsed: Value = serde_json::from_str(body).unwrap_or_default();
    // Gemini wraps its error in a list where a stream was asked for.
    let parsed = parsed.get(0).unwrap_or(&parsed);
    match parsed.get("error").unwrap_or(parsed) {
        Value::Null => failure::from_parts(Some(status), "", body.trim()),
        error => failure::from_error(Some(status), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        assert_eq!(refusal_failure(status, body).to_string(), expected);
    }

    #[test]
    fn refusals_of_every_form() {
        check(
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            "the provider doesn't accept the key (401): invalid x-api-key",
        );
        check(
            429,
            r#"{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "the account has no quota left (429): You exceeded your quota",
        );
        check(
            503,
            r#"[{"error":{"code":503,"message":"try later","status":"UNAVAILABLE"}}]"#,
            "the provider is overloaded (503): try later",
        );
        check(
            404,
            r#"{"error":"model not found"}"#,
            "the provider doesn't know the model or the address (404): model not found",
        );
        check(502, "<html>bad gateway</html>", "the provider failed (502): <html>bad gateway</html>");
        check(500, "", "the provider failed (500): the provider answered 500 without a word");
    }
}
