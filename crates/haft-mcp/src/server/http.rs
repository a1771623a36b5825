//! Configuration of a Streamable HTTP listener. There is no TLS here, and only HTTP/1.1: a proxy with
//! certificates stands in front of what leaves the machine.

use std::io;
use std::sync::Arc;

use haft::Cancel;
use tokio::net::TcpListener;

use super::McpServer;
use super::client_info::TransportKind;
use super::connection_limits::ConnectionMaximum;
use super::http_auth::{ServedHosts, is_loopback};
use super::http_listener::HttpListener;
use super::http_session::SessionMaximum;
use super::tokens::TokenVerifier;
use super::unix_socket::UnixSocket;
use crate::limits;
use crate::token_bucket::Rate;

/// How a server is reached over HTTP, and by which clients.
///
/// ```
/// use haft_mcp::server::{HttpConfig, Principal, StaticTokens};
///
/// let http = HttpConfig::new().with_verifier(StaticTokens::new().with("s3cret", Principal::new("me")));
/// # drop(http);
/// ```
#[derive(Clone)]
pub struct HttpConfig {
    pub(super) path: String,
    pub(super) verifier: Option<Arc<dyn TokenVerifier>>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) resource: Option<ProtectedResource>,
    pub(super) rate: Option<Rate>,
    pub(super) connections: ConnectionMaximum,
    pub(super) sessions: SessionMaximum,
}

impl Default for HttpConfig {
    fn default() -> HttpConfig {
        HttpConfig::new()
    }
}

/// Where clients get a token (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedResource {
    /// The address of this server as clients know it.
    pub resource: url::Url,
    /// The authorization servers.
    pub authorization_servers: Vec<String>,
    /// Scopes of tokens.
    pub scopes: Vec<String>,
}

impl ProtectedResource {
    /// A server at this address, with tokens of these authorization servers.
    pub fn new(
        resource: url::Url,
        authorization_servers: impl IntoIterator<Item = String>,
    ) -> ProtectedResource {
        let authorization_servers = authorization_servers.into_iter().collect();
        ProtectedResource { resource, authorization_servers, scopes: Vec::new() }
    }

    /// The address of the metadata.
    pub(super) fn metadata_url(&self) -> String {
        let mut url = self.resource.clone();
        let path = self.resource.path().trim_end_matches('/');
        url.set_path(&format!("{METADATA_PATH}{path}"));
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }
}

/// Where clients look for the metadata of a resource.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

impl HttpConfig {
    /// The path `/mcp`, loopback names with the listener's port as hosts and origins, no tokens.
    pub fn new() -> HttpConfig {
        HttpConfig {
            path: "/mcp".to_owned(),
            verifier: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            resource: None,
            rate: Some(Rate { per_second: limits::RATE_PER_SECOND, burst: limits::RATE_BURST }),
            connections: ConnectionMaximum {
                total: limits::CONNECTIONS_MAX,
                per_principal: limits::CONNECTIONS_EACH_MAX,
                unauthenticated: limits::UNAUTHENTICATED_CONNECTIONS_MAX,
            },
            sessions: SessionMaximum {
                total: limits::SESSIONS_MAX,
                per_principal: limits::SESSIONS_EACH_MAX,
            },
        }
    }

    /// The same for clients with a valid token.
    #[must_use]
    pub fn with_verifier(mut self, verifier: impl TokenVerifier) -> HttpConfig {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    /// The same with these host names as well, with any port.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> HttpConfig {
        self.hosts.extend(hosts.into_iter().map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase()));
        self
    }

    /// The same for web pages of these origins, such as `https://app.example`. They may read the responses.
    #[must_use]
    pub fn with_origins(mut self, origins: impl IntoIterator<Item = String>) -> HttpConfig {
        self.origins.extend(origins);
        self
    }

    /// The same as a protected resource of OAuth: a 401 says where to get a token. Needs
    /// [`HttpConfig::with_verifier`].
    #[must_use]
    pub fn with_resource(mut self, resource: ProtectedResource) -> HttpConfig {
        self.resource = Some(resource);
        self
    }

    /// The same with another rate limit per principal: requests a second, and burst; or none.
    #[must_use]
    pub fn with_rate(mut self, rate: Option<(u32, u32)>) -> HttpConfig {
        self.rate = rate.map(|(per_second, burst)| Rate { per_second, burst });
        self
    }

    /// The same with at most this many authenticated connections in all, and of one principal. Without tokens
    /// there are no principals. Fewer where the process has too few descriptors.
    #[must_use]
    pub fn with_connections(mut self, total: usize, each: usize) -> HttpConfig {
        (self.connections.total, self.connections.per_principal) = (total.max(1), each.max(1));
        self
    }

    /// The same with at most this many sessions in all, and of one principal.
    #[must_use]
    pub fn with_sessions(mut self, total: usize, each: usize) -> HttpConfig {
        self.sessions = SessionMaximum { total: total.max(1), per_principal: each.max(1) };
        self
    }

    /// The same with at most this many unauthenticated connections.
    #[must_use]
    pub fn with_unauthenticated_connections(mut self, most: usize) -> HttpConfig {
        self.connections.unauthenticated = most.max(1);
        self
    }
}

impl McpServer {
    /// Serves the clients of a TCP listener.
    ///
    /// # Errors
    /// The listener can be reached from other machines and requires no token, or it doesn't listen.
    pub async fn serve_http(&self, listener: TcpListener, http: HttpConfig, stop: &Cancel) -> io::Result<()> {
        let address = listener.local_addr()?;
        // The default is too small for many clients that connect at once: the kernel would reset some of
        // their connections.
        rustix::net::listen(&listener, limits::BACKLOG)?;
        if http.verifier.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address} can be reached from other machines; it has to require a token"),
            ));
        }
        let mut hosts = http.hosts.clone();
        if !address.ip().is_unspecified() && !is_loopback(&address.ip().to_string()) {
            hosts.push(address.ip().to_string());
        }
        let hosts = ServedHosts { names: hosts, port: address.port() };
        let served = HttpListener::new(self.core(stop), http, Some(hosts), TransportKind::Http);
        served
            .serve(|| async {
                let (stream, from) = listener.accept().await?;
                // A response is one small write; waiting for more gains nothing.
                let _ = stream.set_nodelay(true);
                Ok((stream, Some(from)))
            })
            .await;
        Ok(())
    }

    /// Serves the clients of a Unix socket, which only its owner can open. The socket is removed at the end.
    pub async fn serve_unix(&self, socket: UnixSocket, http: HttpConfig, stop: &Cancel) {
        let served = HttpListener::new(self.core(stop), http, None, TransportKind::Unix);
        served.serve(|| async { Ok((socket.accept().await?, None)) }).await;
    }
}
