//! MCP over HTTP: messages in bodies, sessions in headers, event streams in responses.
//!
//! Revisions with a handshake have sessions (`http_session.rs`): a request continues when its connection is
//! lost, and its response can be fetched later. In the stateless revision a request is cancelled when its
//! connection is lost.
//!
//! A response that comes soon and alone is plain JSON; one that takes longer, or follows a notification,
//! becomes a stream.

use std::sync::Arc;
use std::task::Poll;

use haft::{Cancel, Cause};
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming as IncomingBody;
use rmcp::model::ErrorData;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::ServerCore;
use super::batch::MessageBatch;
use super::client_info::{ClientInfo, ProtocolRevision, TransportKind};
use super::event_stream::{EventStream, StreamStart};
use super::http_message::{
    HttpError, HttpRequest, PROTOCOL_VERSION, ResponseBody, SESSION_ID, empty_response, event_response,
    invalid_response, json_response, response_status, rpc_response,
};
use super::http_session::{HttpSession, HttpSessions, SessionMaximum};
use super::json_rpc::{IncomingMessage, RequestResult, RpcRequest, is_batch, read_message, write_response};
use super::request::{McpRequest, SharedParams, read_handshake};
use super::results::ResultStamp;
use super::session::{MessageSink, RequestContext, RequestOutcome, ServerSession};
use crate::limits;

/// The MCP exchanges of one listener.
pub(crate) struct HttpExchange {
    core: Arc<ServerCore>,
    transport: TransportKind,
    pub(crate) sessions: HttpSessions,
    /// Has a receiver for each request that runs outside of its connection.
    pub(crate) running: watch::Sender<()>,
}

/// Cancels a request when its response is dropped.
struct CancelOnDisconnect(Cancel);

impl Drop for CancelOnDisconnect {
    fn drop(&mut self) {
        self.0.cancel(Cause::Disconnect);
    }
}

type HttpResult = Result<Response<ResponseBody>, HttpError>;

impl HttpExchange {
    pub(crate) fn new(
        core: Arc<ServerCore>,
        transport: TransportKind,
        sessions: SessionMaximum,
    ) -> HttpExchange {
        HttpExchange {
            core,
            transport,
            sessions: HttpSessions::new(sessions),
            running: watch::Sender::new(()),
        }
    }

    /// Takes a message.
    pub(crate) async fn post(&self, http: HttpRequest, body: &mut IncomingBody) -> HttpResult {
        http.check_media_types()?;
        let text = http.read_body(body, self.core.limits.message_bytes).await?;
        if is_batch(&text) {
            return self.batch(&http, &text).await;
        }
        let message = match read_message(&text) {
            Ok(message) => message,
            Err(invalid) => return Ok(invalid_response(StatusCode::BAD_REQUEST, &invalid)),
        };
        let version = http.header(PROTOCOL_VERSION);
        let is_stateless = version.is_some_and(|version| {
            ProtocolRevision::from_name(version).is_none_or(ProtocolRevision::is_stateless)
        });
        if http.headers.contains_key(SESSION_ID) && !is_stateless {
            return self.in_session(&self.sessions.find(&http)?, &message).await;
        }
        match message {
            IncomingMessage::RpcRequest(request) => match SharedParams::read(request.params) {
                Ok(shared) if is_stateless || shared.is_stateless() => {
                    Ok(self.stateless(&http, &request, shared).await)
                }
                Ok(_) if request.method == "initialize" => self.initialize(&http, &request).await,
                Ok(_) => {
                    let message = "`Mcp-Session-Id` is missing; the response to `initialize` has it";
                    Err(HttpError::bad_request(message))
                }
                Err(error) => {
                    let stamp = ResultStamp::new(ProtocolRevision::V2026_07_28);
                    Ok(rpc_response(request.id, Err(error), &stamp))
                }
            },
            // Without a session there is nothing that a notification could be about.
            IncomingMessage::Notification { .. } => Ok(empty_response(StatusCode::ACCEPTED)),
            IncomingMessage::Response { .. } => {
                Err(HttpError::bad_request("no request is waiting for a response"))
            }
        }
    }

    /// Serves a request of the stateless revision.
    async fn stateless(
        &self,
        http: &HttpRequest,
        request: &RpcRequest<'_>,
        shared: SharedParams,
    ) -> Response<ResponseBody> {
        let refuse =
            |error| rpc_response(request.id, Err(error), &ResultStamp::new(ProtocolRevision::V2026_07_28));
        let (session, work, stream, guard) = match self.begin_stateless(http, request, shared).await {
            Ok(begun) => begun,
            Err(error) => return refuse(error),
        };
        if let Some(result) = self.run(request.id, &session, work, &stream).await {
            return rpc_response(request.id, result, session.stamp());
        }
        match stream.start(limits::STREAM_AFTER).await {
            StreamStart::Response(response) => json_response(response_status(&response), response),
            StreamStart::Empty | StreamStart::Streaming => event_response(stream.read(0).with_guard(guard)),
        }
    }

    async fn begin_stateless(
        &self,
        http: &HttpRequest,
        request: &RpcRequest<'_>,
        mut shared: SharedParams,
    ) -> Result<
        (
            Arc<ServerSession>,
            impl Future<Output = RequestOutcome> + Send + use<>,
            Arc<EventStream>,
            CancelOnDisconnect,
        ),
        ErrorData,
    > {
        shared.check_sender()?;
        let call = McpRequest::read(&request.method, request.params, ProtocolRevision::V2026_07_28)?;
        http.check_headers(&request.method, &call, &shared)?;
        let sender = shared.take_sender()?;
        let session = self.open(http, sender.client(self.transport)).await?;
        http.check_argument_headers(&session, &call).await?;
        let stream = Arc::new(EventStream::new(None, false));
        let cancel = session.cancel().child();
        let guard = CancelOnDisconnect(cancel.clone());
        let context = RequestContext { sink: stream.clone(), cancel, log_level: Some(sender.log_level) };
        let work = session.begin(request.id, &request.method, call, shared, context)?;
        Ok((session, work, stream, guard))
    }

    async fn open(
        &self,
        http: &HttpRequest,
        mut client: ClientInfo,
    ) -> Result<Arc<ServerSession>, ErrorData> {
        client.principal = http.principal.clone();
        ServerSession::open(&self.core, client, self.core.cancel.child(), self.core.stopping.clone()).await
    }

    /// Runs a request: returns its result if it is ready at once, else finishes the stream in a task.
    async fn run(
        &self,
        id: &RawValue,
        session: &Arc<ServerSession>,
        work: impl Future<Output = RequestOutcome> + Send + 'static,
        stream: &Arc<EventStream>,
    ) -> Option<Result<RequestResult, ErrorData>> {
        let mut work = Box::pin(work);
        let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        let first = match first {
            Poll::Ready(Some(result)) if stream.is_empty() => return Some(result),
            first => first,
        };
        let (stream, session, id) = (stream.clone(), session.clone(), id.to_owned());
        let finish = move |outcome: RequestOutcome| {
            stream.finish(outcome.map(|result| {
                let mut text = Vec::new();
                write_response(&mut text, &id, result, session.stamp());
                text
            }));
        };
        match first {
            Poll::Ready(outcome) => finish(outcome),
            Poll::Pending => {
                let running = self.running.subscribe();
                tokio::spawn(async move {
                    finish(work.await);
                    drop(running);
                });
            }
        }
        None
    }

    async fn initialize(&self, http: &HttpRequest, request: &RpcRequest<'_>) -> HttpResult {
        let refuse = |error| {
            Ok(rpc_response(
                request.id,
                Err(error),
                &ResultStamp::new(ProtocolRevision::LATEST_WITH_HANDSHAKE),
            ))
        };
        let client = match read_handshake(request.params, self.transport) {
            Ok(client) => client,
            Err(error) => return refuse(error),
        };
        let session = match self.open(http, client).await {
            Ok(session) => session,
            Err(error) => return refuse(error),
        };
        let result = Ok(session.initialize_result());
        let admitted = HttpSession::new(session.clone(), http.principal.clone());
        let id = self.sessions.admit(&admitted)?;
        let (forwarding, sink) = (session.clone(), admitted.standalone.clone());
        tokio::spawn(async move { forwarding.forward_changes(&*sink).await });
        let mut response = rpc_response(request.id, result, session.stamp());
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(response)
    }

    async fn in_session(&self, http: &Arc<HttpSession>, message: &IncomingMessage<'_>) -> HttpResult {
        let session = &http.session;
        let request = match message {
            IncomingMessage::Notification { method, params } => {
                session.receive_notification(method, *params);
                return Ok(empty_response(StatusCode::ACCEPTED));
            }
            IncomingMessage::Response { id, result } => {
                session.receive_response(id, *result);
                return Ok(empty_response(StatusCode::ACCEPTED));
            }
            IncomingMessage::RpcRequest(request) => request,
        };
        if request.method == "initialize" {
            let error = ErrorData::invalid_request("this session is initialized already", None);
            return Ok(rpc_response(request.id, Err(error), session.stamp()));
        }
        let (number, stream) = http.new_stream(session.revision() >= ProtocolRevision::V2025_11_25);
        let cancel = session.cancel().child();
        let context = RequestContext { sink: stream.clone(), cancel, log_level: None };
        let work = match session.begin_raw(request.id, &request.method, request.params, context) {
            Ok(work) => work,
            Err(error) => return Ok(rpc_response(request.id, Err(error), session.stamp())),
        };
        if let Some(result) = self.run(request.id, session, work, &stream).await {
            return Ok(rpc_response(request.id, result, session.stamp()));
        }
        Ok(self.respond_with(http, number, &stream).await)
    }

    /// Responds with what a stream brings: the response alone, or the stream.
    async fn respond_with(
        &self,
        http: &HttpSession,
        number: u64,
        stream: &Arc<EventStream>,
    ) -> Response<ResponseBody> {
        match stream.start(limits::STREAM_AFTER).await {
            StreamStart::Response(response) => json_response(StatusCode::OK, response),
            StreamStart::Empty => empty_response(StatusCode::ACCEPTED),
            StreamStart::Streaming => {
                http.keep_stream(number, stream);
                event_response(stream.read(0))
            }
        }
    }

    async fn batch(&self, http: &HttpRequest, text: &[u8]) -> HttpResult {
        let http = self.sessions.find(http).map_err(|error| match error.status {
            StatusCode::NOT_FOUND => error,
            _ => HttpError::bad_request(
                "batches are not part of this revision, or `Mcp-Session-Id` is missing",
            ),
        })?;
        let (number, stream) = http.new_stream(false);
        let sink: Arc<dyn MessageSink> = stream.clone();
        let batch = match MessageBatch::begin(&http.session, text, &sink) {
            Ok(batch) => batch,
            Err(invalid) => return Ok(invalid_response(StatusCode::BAD_REQUEST, &invalid)),
        };
        let (filled, running) = (stream.clone(), self.running.subscribe());
        tokio::spawn(async move {
            filled.finish(batch.responses().await);
            drop(running);
        });
        Ok(self.respond_with(&http, number, &stream).await)
    }

    /// Opens the stream that belongs to no request, or resumes one.
    pub(crate) fn get(&self, http: &HttpRequest) -> HttpResult {
        self.require_session(http)?;
        if !http.accepts("text/event-stream") {
            let message = "the response is `text/event-stream`";
            return Err(HttpError::new(StatusCode::NOT_ACCEPTABLE, message));
        }
        let session = self.sessions.find(http)?;
        let Some(last) = http.header("last-event-id") else {
            return Ok(event_response(session.standalone.read(0)));
        };
        let (stream, event) = session.resume(last)?;
        Ok(event_response(stream.read(event)))
    }

    /// Ends a session.
    pub(crate) fn delete(&self, http: &HttpRequest) -> HttpResult {
        self.require_session(http)?;
        self.sessions.remove(&self.sessions.find(http)?);
        Ok(empty_response(StatusCode::NO_CONTENT))
    }

    fn require_session(&self, http: &HttpRequest) -> Result<(), HttpError> {
        if http.headers.contains_key(SESSION_ID) {
            return Ok(());
        }
        Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "without a session there are only POST requests"))
    }
}
