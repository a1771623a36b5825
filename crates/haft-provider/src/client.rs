//! A provider over HTTP: requests out, streams in, retries between.
//!
//! A request is made again only while nothing came of it that could have been acted upon: before its first content, or,
//! where only text came, after saying [`Delta::Restarted`]. Once a call was ready the message is not asked for again: a
//! stream that breaks then ends as [`Stop::Cut`], and the loop goes on from what came. So no call ever runs twice.
//!
//! Requests go straight to the address: no redirect, and no proxy but the one that the host names.

mod breaker;
mod retry;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use haft::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use tokio::time::{Instant, sleep_until, timeout};

pub use self::retry::RetryPolicy;

use self::breaker::Breaker;
use crate::Wire;
use crate::endpoint::Endpoint;
use crate::limits::{
    CONNECT_SECONDS_MAX, ERROR_BYTES_MAX, MESSAGE_BYTES_MAX, RETRY_AFTER_SECONDS_MAX, SILENCE_SECONDS_MAX,
};
use crate::model::{Incoming, Model, Prompt};
use crate::reply::{Failure, FailureKind, Reply, Stop};
use crate::request::RequestOptions;
use crate::stream::{Delta, Reader, whole};

/// A provider over HTTP. Clones share connections and what is known of the endpoint's health.
///
/// ```no_run
/// use haft_provider::client::Client;
/// use haft_provider::endpoint::Endpoint;
/// use haft_provider::{RequestOptions, Wire};
///
/// # fn main() -> Result<(), String> {
/// let endpoint = Endpoint::new(Wire::Anthropic).key("sk-…");
/// let client = Client::new(endpoint, RequestOptions::new("claude-sonnet-4-5"))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    options: Arc<RequestOptions>,
    url: Arc<str>,
    retry: RetryPolicy,
    silence: Duration,
}

struct Shared {
    endpoint: Endpoint,
    headers: HeaderMap,
    http: OnceLock<Result<reqwest::Client, String>>,
    breaker: Mutex<Breaker>,
}

impl Client {
    /// A client of this endpoint. Nothing is sent and no certificate read yet.
    ///
    /// # Errors
    /// In words: an address or a header that can't be used.
    pub fn new(endpoint: Endpoint, options: RequestOptions) -> Result<Client, String> {
        let url = endpoint.url(&options.model, options.stream)?;
        let mut headers = HeaderMap::new();
        for (name, value) in endpoint.headers() {
            let bad =
                || format!("the header `{name}` can't be sent; a key must be one line of plain characters");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let accept = if options.stream { "text/event-stream" } else { "application/json" };
        headers.insert("accept", HeaderValue::from_static(accept));
        let breaker = Mutex::new(Breaker::new());
        let shared = Arc::new(Shared { endpoint, headers, http: OnceLock::new(), breaker });
        Ok(Client {
            shared,
            options: Arc::new(options),
            url: url.into(),
            retry: RetryPolicy::default(),
            silence: Duration::from_secs(SILENCE_SECONDS_MAX),
        })
    }

    /// How requests are made again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Client {
        self.retry = policy;
        self
    }

    /// How long a stream may say nothing. Default: ten minutes.
    #[must_use]
    pub fn silence(mut self, most: Duration) -> Client {
        self.silence = most;
        self
    }

    /// The endpoint that is asked.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// Asks with a body that was made already.
    pub fn send(&self, body: impl Into<String>) -> Box<dyn Incoming> {
        Box::new(Exchange {
            client: self.clone(),
            body: body.into(),
            attempt: 1,
            state: State::Ready,
            reader: Reader::new(self.shared.endpoint.wire),
        })
    }
}

impl Shared {
    fn http(&self) -> Result<&reqwest::Client, String> {
        let made = self.http.get_or_init(|| {
            // Fails if the host has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = reqwest::Client::builder()
                .redirect(redirect::Policy::none())
                .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
                .tcp_nodelay(true)
                .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
            let builder = match &self.endpoint.proxy {
                Some(proxy) => {
                    let bad = |_| "the proxy's address can't be used".to_owned();
                    builder.proxy(reqwest::Proxy::all(proxy).map_err(bad)?)
                }
                None => builder.no_proxy(),
            };
            builder.build().map_err(|error| format!("no request can be sent: {}", chain(&error)))
        });
        made.as_ref().map_err(Clone::clone)
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for Client {
    fn wire(&self) -> Wire {
        self.shared.endpoint.wire
    }

    fn name(&self) -> &str {
        &self.options.model
    }

    fn ask(&self, prompt: &Prompt<'_>) -> Box<dyn Incoming> {
        self.send(self.options.body(prompt))
    }
}

/// One request with its attempts.
struct Exchange {
    client: Client,
    body: String,
    /// The attempt that is being made, from 1.
    attempt: u32,
    state: State,
    reader: Reader,
}

enum State {
    /// The request has to be sent.
    Ready,
    /// The request has to be sent again, then.
    Waiting(Instant),
    Streaming(reqwest::Response),
    /// The message came, in one way or another.
    Over,
    /// It came whole.
    Whole(Box<Reply>),
    /// It didn't come.
    Failed(Failure),
}

impl Incoming for Exchange {
    fn more<'a>(&'a mut self, out: &'a mut Vec<Delta>) -> BoxFuture<'a, bool> {
        Box::pin(self.step(out))
    }

    fn finish(self: Box<Self>) -> Reply {
        let wire = self.client.shared.endpoint.wire;
        match self.state {
            State::Whole(reply) => *reply,
            State::Ready | State::Waiting(_) => Reply::nothing(wire, Stop::Interrupted),
            State::Streaming(_) => {
                let reply = self.reader.finish(&mut Vec::new());
                match reply.stop() {
                    Stop::Cut => reply.with_stop(Stop::Interrupted),
                    _ => reply,
                }
            }
            State::Over => self.reader.finish(&mut Vec::new()),
            State::Failed(failure) => {
                let reply = self.reader.finish(&mut Vec::new());
                reply.with_stop(Stop::Failed(failure))
            }
        }
    }
}

impl Exchange {
    /// One step: a wait, an answer's head, or bytes with something in them.
    async fn step(&mut self, out: &mut Vec<Delta>) -> bool {
        loop {
            match &mut self.state {
                State::Ready => match self.connect(out).await {
                    Ok(state) => self.state = state,
                    Err(failure) => return self.failed(failure, out),
                },
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Ready;
                }
                State::Streaming(response) => {
                    let chunk = match timeout(self.client.silence, response.chunk()).await {
                        Ok(chunk) => chunk,
                        Err(_) => {
                            let words = format!("nothing came for {} s", self.client.silence.as_secs());
                            return self.failed(Failure::new(FailureKind::TimedOut, words), out);
                        }
                    };
                    match chunk {
                        Ok(Some(bytes)) => {
                            let before = out.len();
                            self.reader.feed(&bytes, out);
                            if let Some(failure) = self.reader.failure() {
                                let failure = failure.clone();
                                return self.failed(failure, out);
                            }
                            if self.reader.is_over() {
                                return self.came();
                            }
                            if out.len() > before {
                                return true;
                            }
                        }
                        ended => {
                            // The last event may lack its line end; what it says is said by `finish` in any case.
                            let mut tail = Vec::new();
                            let reply = self.reader.clone().finish(&mut tail);
                            if matches!(reply.stop(), Stop::Cut) {
                                let words = match ended {
                                    Err(error) => chain(&error),
                                    Ok(_) => "the stream ended before the message did".to_owned(),
                                };
                                return self.failed(Failure::new(FailureKind::Disconnected, words), out);
                            }
                            if let Stop::Failed(failure) = reply.stop() {
                                let failure = failure.clone();
                                return self.failed(failure, out);
                            }
                            out.extend(tail);
                            self.client.shared.breaker().succeeded();
                            self.state = State::Whole(Box::new(reply));
                            return false;
                        }
                    }
                }
                State::Over | State::Whole(_) | State::Failed(_) => return false,
            }
        }
    }

    fn came(&mut self) -> bool {
        self.client.shared.breaker().succeeded();
        self.state = State::Over;
        false
    }

    async fn connect(&mut self, out: &mut Vec<Delta>) -> Result<State, Failure> {
        let shared = self.client.shared.clone();
        shared.breaker().ask(Instant::now())?;
        let http = shared.http().map_err(|words| Failure::new(FailureKind::BadRequest, words))?;
        let request = http.post(&*self.client.url).headers(shared.headers.clone()).body(self.body.clone());
        let silence = || {
            let words = format!("no answer came for {} s", self.client.silence.as_secs());
            Failure::new(FailureKind::TimedOut, words)
        };
        let sent = timeout(self.client.silence, request.send()).await.map_err(|_| silence())?;
        let response = sent.map_err(|error| {
            let kind = if error.is_builder() { FailureKind::BadRequest } else { FailureKind::Disconnected };
            Failure::new(kind, chain(&error))
        })?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let after = retry::after(response.headers());
            let again = response
                .headers()
                .get("x-should-retry")
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned);
            let (body, _) =
                timeout(self.client.silence, read(response, ERROR_BYTES_MAX)).await.unwrap_or_default();
            let mut failure = refusal(status, &body);
            failure.retry_after = after;
            // The provider knows better than its status.
            match again.as_deref() {
                Some("false") if failure.is_passing() => failure.kind = FailureKind::BadRequest,
                Some("true") if !failure.is_passing() => failure.kind = FailureKind::Server,
                _ => {}
            }
            return Err(failure);
        }
        let kind =
            response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.contains("json") && !kind.contains("stream") {
            let read = timeout(self.client.silence, read(response, MESSAGE_BYTES_MAX))
                .await
                .map_err(|_| silence())?;
            let (body, cut) = read;
            if let Some(failure) = cut {
                return Err(failure);
            }
            let reply = whole(shared.endpoint.wire, &body)?;
            shared.breaker().succeeded();
            told(&reply, out);
            return Ok(State::Whole(Box::new(reply)));
        }
        Ok(State::Streaming(response))
    }

    /// What a failure means: another attempt, or the end.
    fn failed(&mut self, failure: Failure, out: &mut Vec<Delta>) -> bool {
        let now = Instant::now();
        self.client.shared.breaker().failed(&failure, now);
        let asked = failure.retry_after.unwrap_or_default();
        let may = failure.is_passing()
            && self.reader.calls_ready() == 0
            && self.attempt < self.client.retry.attempts
            && asked <= Duration::from_secs(RETRY_AFTER_SECONDS_MAX);
        if !may {
            self.state = State::Failed(failure);
            return false;
        }
        if self.reader.has_content() {
            out.push(Delta::Restarted);
        }
        self.reader = Reader::new(self.client.shared.endpoint.wire);
        let wait = self.client.retry.wait(self.attempt).max(asked);
        self.attempt += 1;
        out.push(Delta::Retrying { failure, attempt: self.attempt, wait });
        self.state = State::Waiting(now + wait);
        true
    }
}

/// A whole reply, told as if it had come piece by piece.
pub(crate) fn told(reply: &Reply, out: &mut Vec<Delta>) {
    out.push(Delta::Started { model: reply.model().map(str::to_owned) });
    if !reply.text().is_empty() {
        out.push(Delta::Text(reply.text().to_owned()));
    }
    for (call, ready) in reply.calls().into_iter().enumerate() {
        let (id, name) = (ready.id.to_string(), ready.name.to_string());
        out.push(Delta::CallBegun { call, id, name });
        out.push(Delta::CallReady { call, ready });
    }
    out.push(Delta::Usage(reply.usage().clone()));
}

/// Reads a body, at most so much; says what broke.
async fn read(mut response: reqwest::Response, most: usize) -> (String, Option<Failure>) {
    let mut body = Vec::new();
    let failure = loop {
        match response.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() > most => {
                let words = format!("the answer is longer than {most} bytes");
                break Some(Failure::new(FailureKind::TooLarge, words));
            }
            Ok(Some(bytes)) => body.extend_from_slice(&bytes),
            Ok(None) => break None,
            Err(error) => break Some(Failure::new(FailureKind::Disconnected, chain(&error))),
        }
    };
    (String::from_utf8_lossy(&body).into_owned(), failure)
}

/// A refusal by its status and its body, in whichever of the providers' forms.
fn refusal(status: u16, body: &str) -> Failure {
    let parsed: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    // Gemini wraps its error in a list where a stream was asked for.
    let parsed = parsed.get(0).unwrap_or(&parsed);
    let error = parsed.get("error").unwrap_or(parsed);
    let text = |key: &str| error.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let word = [text("code"), text("status"), text("type")].into_iter().find(|word| !word.is_empty());
    let message = match (text("message"), error.as_str()) {
        ("", Some(words)) => words,
        ("", None) if !parsed.is_object() => body.trim(),
        (words, _) => words,
    };
    Failure::said(Some(status), word.unwrap_or_default(), message)
}

/// An error with what is behind it, without the address.
fn chain(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        words.push(error.to_string());
        next = error.source();
    }
    match words.is_empty() {
        true if error.is_builder() => "the address or a header can't be used".to_owned(),
        true => "the connection broke".to_owned(),
        false => words.join(": "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        assert_eq!(refusal(status, body).to_string(), expected);
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
