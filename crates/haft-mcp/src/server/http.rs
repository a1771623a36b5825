//! Streamable HTTP: a listener, its connections, and what a request has to have before anybody reads it.
//!
//! What a request says is `exchange.rs`; who may make it is `gate.rs`. There is no TLS here: what leaves the machine goes through
//! something that has certificates. There is one version of HTTP, the one that every client speaks.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use haft::{Cancel, Cause};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::events::EventBody;
use super::exchange::{Asker, Exchange};
use super::gate::{Gate, Rates, Refused, is_loopback};
use super::message::{INVALID_REQUEST, NoMessage, write_no_message};
use super::newcomers::{Connection, Connections};
use super::socket::UnixSocket;
use super::tokens::TokenCheck;
use super::who::Way;
use super::{Core, Ends, Server};
use crate::limits;

/// How a server is reached over HTTP, and by whom.
///
/// ```
/// use haft_mcp::server::{Http, Principal, Tokens};
///
/// let http = Http::new().with_check(Tokens::new().with("s3cret", Principal::new("me")));
/// # drop(http);
/// ```
#[derive(Clone)]
pub struct Http {
    path: String,
    check: Option<Arc<dyn TokenCheck>>,
    hosts: Vec<String>,
    origins: Vec<String>,
    resource: Option<Resource>,
    rate: Option<(u32, u32)>,
    connections: usize,
}

impl Default for Http {
    fn default() -> Http {
        Http::new()
    }
}

/// What a client is told that has no token: where to get one (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// The address of this server, as clients know it.
    pub resource: url::Url,
    /// Where tokens are given out.
    pub authorization_servers: Vec<String>,
    /// What a token may be good for.
    pub scopes: Vec<String>,
}

impl Resource {
    /// A server at this address, with tokens from there.
    pub fn new(resource: url::Url, authorization_servers: impl IntoIterator<Item = String>) -> Resource {
        Resource {
            resource,
            authorization_servers: authorization_servers.into_iter().collect(),
            scopes: Vec::new(),
        }
    }

    /// Where the metadata of this server is found.
    fn metadata(&self) -> String {
        let mut url = self.resource.clone();
        let path = self.resource.path().trim_end_matches('/');
        url.set_path(&format!("{WELL_KNOWN}{path}"));
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl Http {
    /// The path `/mcp`, hosts and origins of this machine, no tokens.
    pub fn new() -> Http {
        Http {
            path: "/mcp".to_owned(),
            check: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            resource: None,
            rate: Some((limits::RATE_PER_SECOND, limits::RATE_BURST)),
            connections: limits::CONNECTIONS_MAX,
        }
    }

    /// The same at another path.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Http {
        self.path = path.into();
        self
    }

    /// The same for who has a token that is good.
    #[must_use]
    pub fn with_check(mut self, check: impl TokenCheck) -> Http {
        self.check = Some(Arc::new(check));
        self
    }

    /// The same by these names of hosts as well, without ports.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Http {
        self.hosts.extend(hosts.into_iter().map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase()));
        self
    }

    /// The same for pages of these origins as well, such as `https://app.example`. They may read the answers.
    #[must_use]
    pub fn with_origins(mut self, origins: impl IntoIterator<Item = String>) -> Http {
        self.origins.extend(origins);
        self
    }

    /// The same as a resource server of OAuth: clients without a token are told where to get one. Needs
    /// [`Http::with_check`] as well.
    #[must_use]
    pub fn with_resource(mut self, resource: Resource) -> Http {
        self.resource = Some(resource);
        self
    }

    /// The same with another rate for each principal: requests a second, and at once; or none.
    #[must_use]
    pub fn with_rate(mut self, rate: Option<(u32, u32)>) -> Http {
        self.rate = rate;
        self
    }

    /// The same with at most so many connections.
    #[must_use]
    pub fn with_connections(mut self, most: usize) -> Http {
        self.connections = most.max(1);
        self
    }
}

impl Server {
    /// Serves whoever comes to this listener.
    ///
    /// # Errors
    /// The listener can be reached from other machines and no token is asked for.
    pub async fn serve_http(&self, listener: TcpListener, http: Http, stop: &Cancel) -> io::Result<()> {
        let address = listener.local_addr()?;
        if http.check.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address} can be reached from other machines; a token has to be asked for there"),
            ));
        }
        let mut hosts = http.hosts.clone();
        if !address.ip().is_unspecified() && !is_loopback(&address.ip().to_string()) {
            hosts.push(address.ip().to_string());
        }
        let desk = Desk::new(self.core(stop), http, Some(hosts), Way::Http);
        desk.serve(|| async {
            let (stream, from) = listener.accept().await?;
            // An answer is one small write; nothing is gained by waiting for more.
            let _ = stream.set_nodelay(true);
            Ok((stream, Some(from)))
        })
        .await;
        Ok(())
    }

    /// Serves whoever can open a socket in the file system: its owner. The socket is removed at the end.
    pub async fn serve_unix(&self, socket: UnixSocket, http: Http, stop: &Cancel) {
        let desk = Desk::new(self.core(stop), http, None, Way::Unix);
        desk.serve(|| async {
            let stream = socket.accept().await?;
            Ok((stream, None))
        })
        .await;
    }
}

/// What the connections of one listener share.
struct Desk {
    core: Arc<Core>,
    gate: Gate,
    exchange: Exchange,
    path: String,
    resource: Option<Resource>,
    connections: usize,
}

impl Desk {
    fn new(core: Arc<Core>, http: Http, hosts: Option<Vec<String>>, way: Way) -> Arc<Desk> {
        let gate = Gate {
            hosts,
            origins: http.origins,
            check: http.check,
            rate: http.rate,
            rates: Rates::default(),
        };
        let (path, resource, connections) = (http.path, http.resource, http.connections);
        Arc::new(Desk { exchange: Exchange::new(core.clone(), way), core, gate, path, resource, connections })
    }

    /// Takes connections until the server has to end, and sees them out.
    async fn serve<S, F>(self: Arc<Desk>, accept: impl Fn() -> F)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<(S, Option<SocketAddr>)>>,
    {
        let _ends = Ends(self.core.clone());
        let all = Connections::new(self.connections, limits::NEWCOMERS_MAX);
        let mut connections = JoinSet::new();
        let stopping = self.core.stopping.clone();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let stream = tokio::select! {
                stream = accept() => stream,
                _ = sweep.tick() => {
                    self.exchange.sweep();
                    continue;
                }
                _ = stopping.cancelled() => break,
            };
            while connections.try_join_next().is_some() {}
            match stream {
                Ok((stream, from)) => {
                    connections.spawn(self.clone().connection(stream, from, all.come()));
                }
                // Too many open files, for example: it may be better in a moment.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        self.exchange.stop_streams();
        let all = async {
            while connections.join_next().await.is_some() {}
            self.exchange.busy().idle().await;
        };
        if tokio::time::timeout(self.core.limits.shutdown_grace, all).await.is_err() {
            self.core.cancel.cancel(Cause::Shutdown);
            let all = async {
                while connections.join_next().await.is_some() {}
                self.exchange.busy().idle().await;
            };
            let _ = tokio::time::timeout(limits::CANCEL_GRACE * 2, all).await;
        }
    }

    async fn connection<S>(self: Arc<Desk>, stream: S, from: Option<SocketAddr>, standing: Arc<Connection>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (desk, known) = (self.clone(), standing.clone());
        let service = service_fn(move |request| {
            let (desk, known) = (desk.clone(), known.clone());
            async move { Ok::<_, std::convert::Infallible>(desk.answer(request, from, &known).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(Patient::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => return,
            () = standing.has_to_go() => return,
            _ = self.core.stopping.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // Whoever waits for what was cut off is still told so.
        let told = async {
            self.core.cancel.cancelled().await;
            tokio::time::sleep(limits::CANCEL_GRACE + limits::CUT_WAIT).await;
        };
        tokio::select! {
            _ = connection => {}
            () = told => {}
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
        known: &Connection,
    ) -> Response<Sent> {
        let origin = request.headers().get(ORIGIN).cloned();
        let mut response = match self.let_in(request, from, known).await {
            Ok(response) => response,
            Err(refused) => self.refuse(&refused),
        };
        // A page may read the answer only if somebody named its origin.
        if let Some(origin) =
            origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.gate.lists_origin(origin)))
        {
            let headers = response.headers_mut();
            headers.insert("access-control-allow-origin", origin);
            headers.insert(
                "access-control-expose-headers",
                HeaderValue::from_static("mcp-session-id, www-authenticate"),
            );
            headers.insert("vary", HeaderValue::from_static("origin"));
        }
        response
    }

    async fn let_in(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
        known: &Connection,
    ) -> Result<Response<Sent>, Refused> {
        self.gate.place(request.uri(), request.headers())?;
        let path = request.uri().path();
        if let Some(resource) = &self.resource
            && path
                .strip_prefix(WELL_KNOWN)
                .is_some_and(|rest| rest.is_empty() || rest == "/" || rest == self.path)
        {
            return Ok(metadata(resource));
        }
        if path != self.path {
            return Err(Refused::new(
                StatusCode::NOT_FOUND,
                format!("nothing is here; the path is `{}`", self.path),
            ));
        }
        if request.method() == Method::OPTIONS {
            return Ok(preflight());
        }
        let from = from.map_or("-".to_owned(), |from| from.ip().to_string());
        let principal = self.gate.principal(request.headers(), &from).await?;
        if !known.settle() {
            return Err(Refused::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many connections; close one, or try again later",
            ));
        }
        self.gate.count(principal.as_ref().map_or(&from, |principal| &principal.name))?;
        let (parts, body) = request.into_parts();
        let asker = Asker { principal, headers: parts.headers };
        match parts.method {
            Method::POST => self.exchange.post(asker, body).await,
            Method::GET => self.exchange.get(&asker),
            Method::DELETE => self.exchange.delete(&asker),
            _ => {
                Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "only POST, GET and DELETE are known here"))
            }
        }
    }

    fn refuse(&self, refused: &Refused) -> Response<Sent> {
        let mut response = Sent::error(refused.status, &refused.words);
        let headers = response.headers_mut();
        match refused.status {
            StatusCode::UNAUTHORIZED => {
                let challenge = match &self.resource {
                    Some(resource) => format!("Bearer resource_metadata=\"{}\"", resource.metadata()),
                    None => "Bearer".to_owned(),
                };
                if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                    headers.insert(WWW_AUTHENTICATE, challenge);
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
                // Its body was not read, and who asks too much need not keep a place.
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

/// How often is looked for sessions that nobody uses.
const SWEEP: Duration = Duration::from_secs(60);
/// How long is waited when no connection can be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn metadata(resource: &Resource) -> Response<Sent> {
    let mut said = json!({
        "resource": resource.resource.as_str(),
        "authorization_servers": resource.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if !resource.scopes.is_empty() {
        said["scopes_supported"] = json!(resource.scopes);
    }
    Sent::json(StatusCode::OK, said.to_string().into_bytes())
}

/// What a browser asks before a page may ask. Whether it may is said by the header that only known origins get.
fn preflight() -> Response<Sent> {
    let mut response = Sent::empty(StatusCode::NO_CONTENT);
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

/// The body of an answer.
pub(crate) enum Sent {
    Whole(Option<Bytes>),
    Events(Box<EventBody>),
}

impl Sent {
    pub(crate) fn empty(status: StatusCode) -> Response<Sent> {
        let mut response = Response::new(Sent::Whole(None));
        *response.status_mut() = status;
        response
    }

    pub(crate) fn json(status: StatusCode, text: Vec<u8>) -> Response<Sent> {
        let mut response = Response::new(Sent::Whole(Some(Bytes::from(text))));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    pub(crate) fn events(body: EventBody) -> Response<Sent> {
        let mut response = Response::new(Sent::Events(Box::new(body)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert("cache-control", HeaderValue::from_static("no-cache, no-transform"));
        // Known to the proxies that would wait for more otherwise.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    /// An error that belongs to no request.
    pub(crate) fn error(status: StatusCode, words: &str) -> Response<Sent> {
        let mut text = Vec::new();
        write_no_message(
            &mut text,
            &NoMessage { code: INVALID_REQUEST, words: words.to_owned().into(), id: None },
        );
        Sent::json(status, text)
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Sent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Sent::Events(events) => Pin::new(&mut **events).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Sent::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Sent::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Sent::Events(_) => http_body::SizeHint::default(),
        }
    }
}

/// What is under way outside of connections.
#[derive(Default)]
pub(crate) struct Busy {
    count: AtomicUsize,
    changed: Notify,
}

/// Something that is under way.
pub(crate) struct Work(Arc<Busy>);

impl Busy {
    pub(crate) fn begin(self: &Arc<Busy>) -> Work {
        self.count.fetch_add(1, Ordering::AcqRel);
        Work(self.clone())
    }

    async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

/// A connection that ends if nothing of what is written to it is taken for a while.
struct Patient<S> {
    stream: S,
    /// Set while something waits to be written.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Patient<S> {
        Patient { stream, stall: None }
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stall = None;
            return done;
        }
        let stall = self
            .stall
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limits::READ_STALL)));
        match stall.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(cx, done)
    }
}
