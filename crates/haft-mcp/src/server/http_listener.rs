//! The connections of one HTTP listener: limits, access, routing, and the shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use haft::Cause;
use http::header::{ALLOW, CONNECTION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::client_info::TransportKind;
use super::connection_limits::{
    ConnectionLimits, ConnectionMaximum, LimitReached, OpenConnection, RequestOrigin,
};
use super::exchange::HttpExchange;
use super::http::{HttpConfig, METADATA_PATH, ProtectedResource};
use super::http_auth::{HttpAuth, RateLimiter, ServedHosts};
use super::http_message::{
    HttpError, HttpRequest, ResponseBody, SESSION_ID, discard_body, empty_response, invalid_response,
    json_response,
};
use super::http_stream::HttpStream;
use super::json_rpc::InvalidMessage;
use super::{CancelOnDrop, ServerCore};
use crate::limits;

/// How often expired sessions are ended.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a connection can't be accepted, for example with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the connections of one listener share.
pub(crate) struct HttpListener {
    core: Arc<ServerCore>,
    auth: HttpAuth,
    exchange: HttpExchange,
    path: String,
    resource: Option<ProtectedResource>,
    connections: ConnectionMaximum,
}

impl HttpListener {
    pub(crate) fn new(
        core: Arc<ServerCore>,
        http: HttpConfig,
        hosts: Option<ServedHosts>,
        transport: TransportKind,
    ) -> Arc<HttpListener> {
        let HttpConfig { path, verifier, origins, resource, rate, connections, sessions, .. } = http;
        let auth = HttpAuth { hosts, origins, verifier, rate, limiter: RateLimiter::default() };
        let exchange = HttpExchange::new(core.clone(), transport, sessions);
        Arc::new(HttpListener {
            core,
            auth,
            exchange,
            path,
            resource,
            connections: within_descriptors(connections),
        })
    }

    /// Accepts connections until the server stops, and waits for requests in flight.
    pub(crate) async fn serve<S, F>(self: Arc<HttpListener>, accept: impl Fn() -> F)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<(S, Option<SocketAddr>)>>,
    {
        let _cancel_on_drop = CancelOnDrop(self.core.clone());
        let limits = ConnectionLimits::new(self.connections);
        let mut connections = JoinSet::new();
        let stopping = self.core.stopping.clone();
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            let next = async {
                limits.has_room().await;
                accept().await
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = sweep.tick() => {
                    self.exchange.sessions.sweep();
                    continue;
                }
                _ = stopping.cancelled() => break,
            };
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, from)) => {
                    connections.spawn(self.clone().serve_connection(stream, from, limits.open()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        self.exchange.sessions.finish_standalone_streams();
        if !self.wait_for_all(&mut connections, self.core.limits.shutdown_grace).await {
            self.core.cancel.cancel(Cause::Shutdown);
            self.wait_for_all(&mut connections, limits::CANCEL_GRACE * 2).await;
        }
    }

    /// Whether all connections and requests ended in time.
    async fn wait_for_all(&self, connections: &mut JoinSet<()>, timeout: Duration) -> bool {
        let all = async {
            while connections.join_next().await.is_some() {}
            self.exchange.running.closed().await;
        };
        tokio::time::timeout(timeout, all).await.is_ok()
    }

    async fn serve_connection<S>(
        self: Arc<HttpListener>,
        stream: S,
        from: Option<SocketAddr>,
        open: Arc<OpenConnection>,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (listener, counted) = (self.clone(), open.clone());
        let service = service_fn(move |request| {
            let (listener, counted) = (listener.clone(), counted.clone());
            async move { Ok::<_, std::convert::Infallible>(listener.respond(request, from, &counted).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEAD_TIMEOUT)
            .max_buf_size(limits::HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(HttpStream::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => return,
            () = open.wait_for_eviction() => return,
            _ = self.core.stopping.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // Clients are still sent the responses of cancelled requests.
        let cancelled = async {
            self.core.cancel.cancelled().await;
            tokio::time::sleep(limits::CANCEL_GRACE + limits::CUT_WAIT).await;
        };
        tokio::select! {
            _ = connection => {}
            () = cancelled => {}
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
        open: &OpenConnection,
    ) -> Response<ResponseBody> {
        let origin = request.headers().get(ORIGIN).cloned();
        let (parts, mut body) = request.into_parts();
        let mut response = match self.route(parts, &mut body, from, open).await {
            Ok(response) => response,
            Err(error) => {
                discard_body(&mut body).await;
                self.error_response(error)
            }
        };
        // A web page may read the response only if the configuration names its origin.
        if let Some(origin) =
            origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.auth.lists_origin(origin)))
        {
            let headers = response.headers_mut();
            headers.insert("access-control-allow-origin", origin);
            let exposed = HeaderValue::from_static("mcp-session-id, www-authenticate");
            headers.insert("access-control-expose-headers", exposed);
            headers.insert("vary", HeaderValue::from_static("origin"));
        }
        response
    }

    async fn route(
        &self,
        request: Parts,
        body: &mut Incoming,
        from: Option<SocketAddr>,
        open: &OpenConnection,
    ) -> Result<Response<ResponseBody>, HttpError> {
        self.auth.check_host_and_origin(&request.uri, &request.headers)?;
        let path = request.uri.path();
        if let Some(resource) = &self.resource
            && let Some(rest) = path.strip_prefix(METADATA_PATH)
            && (rest.is_empty() || rest == "/" || rest == self.path)
        {
            return Ok(metadata_response(resource));
        }
        if path != self.path {
            let message = format!("nothing is here; the path is `{}`", self.path);
            return Err(HttpError::new(StatusCode::NOT_FOUND, message));
        }
        if request.method == Method::OPTIONS {
            return Ok(preflight_response());
        }
        let principal = self.admit(&request.headers, from, open).await?;
        let http = HttpRequest { principal, headers: request.headers };
        match request.method {
            Method::POST => self.exchange.post(http, body).await,
            Method::GET => self.exchange.get(&http),
            Method::DELETE => self.exchange.delete(&http),
            _ => {
                let message = "only POST, GET and DELETE are allowed";
                Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, message))
            }
        }
    }

    /// Authenticates a request, and counts it and its connection.
    async fn admit(
        &self,
        headers: &HeaderMap,
        from: Option<SocketAddr>,
        open: &OpenConnection,
    ) -> Result<Option<super::Principal>, HttpError> {
        let address = from.map_or("-".to_owned(), |from| from.ip().to_string());
        let principal = self.auth.authenticate(headers, &address).await?;
        let name = principal.as_ref().map(|principal| &*principal.name);
        let has_session = headers.contains_key(SESSION_ID);
        let sender = if has_session { RequestOrigin::Session } else { RequestOrigin::NewClient };
        open.authenticate(name, sender).map_err(|limit| match limit {
            LimitReached::Total => {
                let message = "there are too many connections; try again later";
                HttpError::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
            LimitReached::PerPrincipal => {
                let most = self.connections.per_principal;
                let message =
                    format!("this token has too many connections, of {most} at most; try again later");
                HttpError::new(StatusCode::TOO_MANY_REQUESTS, message)
            }
        })?;
        self.auth.count_request(name.unwrap_or(&address))?;
        Ok(principal)
    }

    fn error_response(&self, error: HttpError) -> Response<ResponseBody> {
        let mut response = invalid_response(error.status, &InvalidMessage::invalid_request(error.message));
        let headers = response.headers_mut();
        match error.status {
            StatusCode::UNAUTHORIZED => {
                let challenge = match &self.resource {
                    Some(resource) => format!("Bearer resource_metadata=\"{}\"", resource.metadata_url()),
                    None => "Bearer".to_owned(),
                };
                if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                    headers.insert(WWW_AUTHENTICATE, challenge);
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
                // The connection makes room for others.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            }
            _ => {}
        }
        response
    }
}

/// As many connections as the process has descriptors for.
fn within_descriptors(maximum: ConnectionMaximum) -> ConnectionMaximum {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    maximum.within_descriptors(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn metadata_response(resource: &ProtectedResource) -> Response<ResponseBody> {
    let mut metadata = json!({
        "resource": resource.resource.as_str(),
        "authorization_servers": resource.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if !resource.scopes.is_empty() {
        metadata["scopes_supported"] = json!(resource.scopes);
    }
    json_response(StatusCode::OK, metadata.to_string().into_bytes())
}

/// The response to a browser's preflight request. Only configured origins get the header that allows the
/// request.
fn preflight_response() -> Response<ResponseBody> {
    let mut response = empty_response(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert("access-control-allow-methods", HeaderValue::from_static("POST, GET, DELETE"));
    headers.insert(
        "access-control-allow-headers",
        HeaderValue::from_static(
            "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
        ),
    );
    headers.insert("access-control-max-age", HeaderValue::from_static("600"));
    response
}
