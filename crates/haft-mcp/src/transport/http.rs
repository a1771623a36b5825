//! Streamable HTTP: the SDK knows sessions, streams and headers of each revision; this does the requests,
//! within bounds.
//!
//! The SDK's own client reads whole answers into memory whatever their size, which is why there is one here.
//! A refusal of the first question of the newest revision is answered in the server's place, so that the
//! handshake goes on with an older one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, RequestBuilder, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::{Value, json};
use sse_stream::Sse;

use super::deep_json;
use super::error_chain;
use super::events::EventQueue;
use super::field_order;
use super::guard::{ConnectionWatch, UNREADABLE};
use crate::limits::{MESSAGE_BYTES_MAX, REDIRECTS_MAX};
use crate::sign_in::authorized_client::{AuthorizedClient, WantsSignIn};

/// The transport that the SDK drives over this client.
pub(crate) type HttpTransport = StreamableHttpClientTransport<BoundedHttpClient>;

/// A transport to this address.
pub(crate) fn http_transport(
    requests: AuthorizedClient,
    url: &str,
    concurrency: usize,
    watch: ConnectionWatch,
) -> HttpTransport {
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(concurrency.saturating_add(8))
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        // A session that has ended is a connection that has: the server's handle makes it again, and knows
        // what to repeat.
        .reinit_on_expired_session(false);
    StreamableHttpClientTransport::with_client(BoundedHttpClient { requests, watch }, config)
}

/// A client for remote servers. No cookies, no proxy but the one given, redirects only within the origin.
///
/// # Errors
/// It can't be made, in words.
pub(crate) fn http_client(proxy: Option<&str>) -> Result<Client, String> {
    choose_tls();
    let policy = reqwest::redirect::Policy::custom(|attempt| {
        let before = attempt.previous().first().map(url::Url::origin);
        if attempt.previous().len() <= REDIRECTS_MAX && before.as_ref() == Some(&attempt.url().origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let builder = Client::builder()
        .redirect(policy)
        .tcp_nodelay(true)
        .connect_timeout(crate::limits::CONNECT_TIMEOUT)
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
    let builder = match proxy {
        Some(proxy) => {
            let proxy =
                reqwest::Proxy::all(proxy).map_err(|_| "the proxy's address can't be used".to_owned())?;
            builder.proxy(proxy)
        }
        None => builder.no_proxy(),
    };
    builder.build().map_err(|error| error_chain(&error))
}

/// Says once which cryptography TLS has.
pub(crate) fn choose_tls() {
    static CHOSEN: OnceLock<()> = OnceLock::new();
    // Fails if the host has chosen one already, which is as good.
    CHOSEN.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// Requests to one server.
#[derive(Clone)]
pub(crate) struct BoundedHttpClient {
    requests: AuthorizedClient,
    watch: ConnectionWatch,
}

/// What went wrong with a request, in words.
#[derive(Debug)]
pub(crate) struct HttpFault {
    words: String,
    /// Nobody was there to take it.
    unheard: bool,
}

impl HttpFault {
    fn new(words: impl Into<String>) -> HttpFault {
        HttpFault { words: words.into(), unheard: false }
    }
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for HttpFault {}

pub(crate) type HttpError = StreamableHttpError<HttpFault>;

fn http_error(words: impl Into<String>) -> HttpError {
    StreamableHttpError::Client(HttpFault::new(words))
}

/// Whether a message can't have done anything: nobody was there, or the server no longer knows the session.
pub(crate) fn is_unheard(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::Client(fault) => fault.unheard,
        error => matches!(error, StreamableHttpError::SessionExpired),
    }
}

/// Whether a message was refused until somebody signs in.
pub(crate) fn wants_sign_in(error: &HttpError) -> bool {
    matches!(error, StreamableHttpError::AuthRequired(_))
}

/// What went wrong, in words.
pub(crate) fn describe_error(error: &HttpError) -> String {
    match error {
        StreamableHttpError::AuthRequired(error) => error.www_authenticate_header.clone(),
        StreamableHttpError::InsufficientScope(error) => error.www_authenticate_header.clone(),
        StreamableHttpError::Client(fault) => fault.words.clone(),
        error => error_chain(error),
    }
}

impl BoundedHttpClient {
    async fn send(
        &self,
        request: RequestBuilder,
        session: Option<Arc<str>>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, HttpError> {
        let mut request = request.headers((*self.requests.headers).clone());
        if let Some(session) = session {
            request = request.header("mcp-session-id", &*session);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        // Those of the protocol win over those of the configuration.
        request = request.headers(custom.into_iter().collect());
        let response = self.requests.send(request).await.map_err(|failure| match failure.refused {
            // The SDK has two words for a refusal; it gives up on both, and on nothing else.
            Some(WantsSignIn(true)) => {
                StreamableHttpError::AuthRequired(AuthRequiredError::new(failure.words))
            }
            Some(WantsSignIn(false)) => {
                StreamableHttpError::InsufficientScope(InsufficientScopeError::new(failure.words, None))
            }
            None => StreamableHttpError::Client(HttpFault { words: failure.words, unheard: failure.unheard }),
        })?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            return Err(http_error(format!(
                "it answered with HTTP {}, a redirect to {}; if that is right, put the address into the configuration",
                status.as_u16(),
                crate::text::display_line(to, 200)
            )));
        }
        Ok(response)
    }
}

impl StreamableHttpClient for BoundedHttpClient {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let with_session = session.is_some();
        let body = serde_json::to_string(&message)?;
        let request = self
            .requests
            .client
            .post(&*uri)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.send(request, session, token, custom).await?;
        let status = response.status();
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && with_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (kind, session) = (header("content-type").unwrap_or_default(), header("mcp-session-id"));
        if status.is_success() && kind.starts_with("text/event-stream") {
            let asked = match &message {
                ClientJsonRpcMessage::Request(request) => Some((request.id.clone(), self.watch.clone())),
                _ => None,
            };
            return Ok(StreamableHttpPostResponse::Sse(event_stream(response, asked), session));
        }
        let again = header("retry-after");
        let body = read_body(response).await?;
        if !status.is_success() {
            return refusal_response(&message, with_session, status, again, &body);
        }
        let ClientJsonRpcMessage::Request(request) = &message else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let is_greeting = matches!(
            request.request,
            ClientRequest::DiscoverRequest(_) | ClientRequest::InitializeRequest(_)
        );
        let words = match serde_json::from_slice::<ServerJsonRpcMessage>(&prepare_message(&body)) {
            Ok(answer) if is_greeting || is_answer_to(&answer, &request.id, &self.watch) => {
                return Ok(StreamableHttpPostResponse::Json(answer, session));
            }
            Ok(_) => OTHER_REQUEST.to_owned(),
            Err(error) => format!("its answer is no message: {error}"),
        };
        if is_greeting {
            return Err(http_error(words));
        }
        // The body is all there is, so nothing else will come for this request.
        let error = ErrorData::new(UNREADABLE, words, None);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        Ok(StreamableHttpPostResponse::Json(answer, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        // Whether it knows sessions that can be ended is its own matter.
        self.send(self.requests.client.delete(&*uri), Some(session), token, custom).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = self.requests.client.get(&*uri).header(ACCEPT, "text/event-stream");
        let resumes = last_event.is_some();
        if let Some(last) = last_event {
            request = request.header("last-event-id", last);
        }
        let response = match self.send(request, session, token, custom).await {
            // The SDK would try for ever. Whoever had the rest of the answer is gone, and so is the
            // connection.
            Err(StreamableHttpError::Client(fault)) if resumes && fault.unheard => {
                self.watch.end(Some(format!("nobody is there any more: {fault}")));
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            sent => sent?,
        };
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED || status == StatusCode::NOT_FOUND {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(HttpStatusError::new(status.as_u16(), None).into());
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            Ok(event_stream(response, None))
        } else {
            Err(StreamableHttpError::UnexpectedContentType(Some(crate::text::display_line(kind, 100))))
        }
    }
}

/// An answer that says no. One with a message is that message; the first question of the newest revision is
/// answered as unknown, because the server is an older one.
fn refusal_response(
    message: &ClientJsonRpcMessage,
    with_session: bool,
    status: StatusCode,
    again: Option<String>,
    body: &[u8],
) -> Result<StreamableHttpPostResponse, HttpError> {
    let told = match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error.error),
        _ => None,
    };
    // Some servers say so of a session that they have forgotten, where the protocol has another number for
    // it.
    let forgotten = told.as_ref().is_some_and(|error| error.message.to_lowercase().contains("session"));
    if with_session && status == StatusCode::BAD_REQUEST && forgotten {
        return Err(StreamableHttpError::SessionExpired);
    }
    if let ClientJsonRpcMessage::Request(request) = message {
        let first = matches!(request.request, ClientRequest::DiscoverRequest(_)) && !with_session;
        let unknown =
            || ErrorData::new(ErrorCode::INVALID_REQUEST, format!("HTTP {}", status.as_u16()), None);
        let answer = match told {
            Some(error) => Some(error),
            None if first && status.is_client_error() => Some(unknown()),
            None => None,
        };
        if let Some(error) = answer {
            // With our own number: a refusal from before the message was read can't know it.
            let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
    }
    Err(HttpStatusError::new(status.as_u16(), again).into())
}

/// Whether a message is the answer to the request of this number.
fn is_answer_to(message: &ServerJsonRpcMessage, id: &RequestId, watch: &ConnectionWatch) -> bool {
    answered_id(message).is_some_and(|named| watch.request_id(named) == *id)
}

/// The id that an answer has.
fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// A whole answer, within bounds.
async fn read_body(mut response: Response) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() > MESSAGE_BYTES_MAX => {
                return Err(http_error(format!("it sent an answer of more than {MESSAGE_BYTES_MAX} bytes")));
            }
            Ok(Some(bytes)) => body.extend_from_slice(&bytes),
            Ok(None) => return Ok(body),
            Err(error) => return Err(http_error(error_chain(&error.without_url()))),
        }
    }
}

/// A message as the SDK should read it.
fn prepare_message(message: &[u8]) -> Cow<'_, [u8]> {
    match field_order::with_field_order(message) {
        Cow::Owned(noted) => Cow::Owned(noted),
        Cow::Borrowed(message) => mend_tool_list(message),
    }
}

/// A message whose tools the SDK can read: it would take one that it can't for a reason not to know what the
/// whole message is. That one goes on beside the list, so that it can be said why it is left out. (Other
/// transports don't need this: there the SDK reads no lists.)
fn mend_tool_list(message: &[u8]) -> Cow<'_, [u8]> {
    let is_list = message.windows(TOOLS.len()).any(|part| part == TOOLS);
    let read =
        || serde_json::from_slice::<Value>(message).ok().or_else(|| deep_json::parse_deep_list(message));
    let Some(mut value) = is_list.then(read).flatten() else {
        return message.into();
    };
    let Some(Value::Object(result)) = value.get_mut("result") else { return message.into() };
    let Some(Value::Array(tools)) = result.get_mut("tools") else { return message.into() };
    let reads = |tool: &Value| serde_json::from_value::<rmcp::model::Tool>(tool.clone()).is_ok();
    let mut changed = false;
    let (readable, unread): (Vec<Value>, Vec<Value>) =
        std::mem::take(tools).into_iter().partition(|tool| reads(tool));
    *tools = readable;
    let mut lost = Vec::new();
    for tool in unread {
        changed = true;
        // What a tool can do without is not worth losing it.
        let mut lean = tool.clone();
        if let Value::Object(fields) = &mut lean {
            fields
                .retain(|key, _| !["outputSchema", "annotations", "icons", "title"].contains(&key.as_str()));
        }
        if reads(&lean) { tools.push(lean) } else { lost.push(tool) }
    }
    if !lost.is_empty()
        && let Value::Object(meta) = result.entry("_meta").or_insert_with(|| json!({}))
    {
        meta.insert(UNREAD.to_owned(), lost.into());
    }
    if changed {
        serde_json::to_vec(&value).map_or_else(|_| message.into(), Cow::Owned)
    } else {
        message.into()
    }
}

/// Where the tools stand, in the `_meta` of a list, that the SDK can't read.
pub(crate) const UNREAD: &str = "haft/unread";

const TOOLS: &[u8] = b"\"tools\"";

const OTHER_REQUEST: &str = "its answer is for another request";

/// The error for an answer that has the request's number as a text, from a server that answers with numbers.
///
/// The SDK takes it for the answer, although nothing that waits for the number gets it.
fn answer_with_text_id(data: &str, asked: Option<&(RequestId, ConnectionWatch)>) -> Option<String> {
    let (id, watch) = asked?;
    let text = format!("\"{id}\"");
    if !data.contains(&text) {
        return None;
    }
    let answer: ServerJsonRpcMessage = serde_json::from_str(data).ok()?;
    let named = answered_id(&answer)?;
    if named.to_string() != id.to_string() || watch.request_id(named) == *id {
        return None;
    }
    let error = ErrorData::new(UNREADABLE, OTHER_REQUEST, None);
    serde_json::to_string(&ServerJsonRpcMessage::error(error, Some(id.clone()))).ok()
}

/// The events of an answer, as the SDK wants them. `asked` is the request that they answer.
fn event_stream(
    response: Response,
    asked: Option<(RequestId, ConnectionWatch)>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    struct ResponseStream {
        response: Response,
        events: EventQueue,
        failed: bool,
        asked: Option<(RequestId, ConnectionWatch)>,
    }
    let state = ResponseStream { response, events: EventQueue::default(), failed: false, asked };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(mut event) = state.events.next() {
                if let Some(data) = &mut event.data
                    && let Cow::Owned(whole) = prepare_message(data.as_bytes())
                {
                    *data = String::from_utf8_lossy(&whole).into_owned();
                }
                if let Some(data) = &mut event.data
                    && let Some(error) = answer_with_text_id(data, state.asked.as_ref())
                {
                    *data = error;
                }
                let sse = Sse { event: event.kind, data: event.data, id: event.id, retry: event.retry_ms };
                return Some((Ok(sse), state));
            }
            if state.failed {
                return None;
            }
            let words = match state.response.chunk().await {
                Ok(Some(bytes)) => match state.events.feed(&bytes) {
                    Ok(()) => continue,
                    Err(words) => words,
                },
                Ok(None) => return None,
                Err(error) => error_chain(&error.without_url()),
            };
            state.failed = true;
            return Some((Err(SseError::Body(Box::new(HttpFault::new(words)))), state));
        }
    })
    .boxed()
}
