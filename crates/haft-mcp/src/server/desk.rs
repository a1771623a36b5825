//! The connections of one listener, and what a request has to have before anybody reads it.
//!
//! What a request says is `exchange.rs`; who may make it is `gate.rs`; who has to go when there are too many, `newcomers.rs`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use haft::Cause;
use http::header::{ALLOW, CONNECTION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::asker::Asker;
use super::exchange::Exchange;
use super::gate::{Gate, Rates, Refused, ServedHosts};
use super::http::{Http, Resource, WELL_KNOWN};
use super::newcomers::{Connection, Connections, NoRoom};
use super::patient::Patient;
use super::sent::Sent;
use super::strict_heads::StrictHeads;
use super::who::Way;
use super::{Core, Ends};
use crate::limits;

/// What the connections of one listener share.
pub(crate) struct Desk {
    core: Arc<Core>,
    gate: Gate,
    exchange: Exchange,
    path: String,
    resource: Option<Resource>,
    connections: usize,
    connections_each: usize,
}

impl Desk {
    pub(crate) fn new(core: Arc<Core>, http: Http, hosts: Option<ServedHosts>, way: Way) -> Arc<Desk> {
        let gate = Gate {
            hosts,
            origins: http.origins,
            check: http.check,
            rate: http.rate,
            rates: Rates::default(),
        };
        Arc::new(Desk {
            exchange: Exchange::new(core.clone(), way),
            core,
            gate,
            path: http.path,
            resource: http.resource,
            connections: http.connections,
            connections_each: http.connections_each,
        })
    }

    /// Takes connections until the server has to end, and sees them out.
    pub(crate) async fn serve<S, F>(self: Arc<Desk>, accept: impl Fn() -> F)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<(S, Option<SocketAddr>)>>,
    {
        let _ends = Ends(self.core.clone());
        let all = Connections::new(self.connections, self.connections_each, limits::NEWCOMERS_MAX);
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
            .serve_connection(TokioIo::new(StrictHeads::new(Patient::new(stream))), service);
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
        known.settle(principal.as_ref().map(|principal| &*principal.name)).map_err(
            |no_room| match no_room {
                NoRoom::Full => Refused::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "there are too many connections; try again later",
                ),
                NoRoom::Share => Refused::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    format!("you have {} connections already; close one", self.connections_each),
                ),
            },
        )?;
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
