//! Streamable HTTP: how a server is reached, and by whom.
//!
//! The listener's connections are `desk.rs`. There is no TLS here: what leaves the machine goes through something that has
//! certificates. There is one version of HTTP, the one that every client speaks.

use std::io;
use std::sync::Arc;

use haft::Cancel;
use tokio::net::TcpListener;

use super::Server;
use super::desk::Desk;
use super::gate::{ServedHosts, is_loopback};
use super::socket::UnixSocket;
use super::tokens::TokenCheck;
use super::who::Way;
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
    pub(super) path: String,
    pub(super) check: Option<Arc<dyn TokenCheck>>,
    hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) resource: Option<Resource>,
    pub(super) rate: Option<(u32, u32)>,
    pub(super) connections: usize,
    pub(super) connections_each: usize,
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
    pub(super) fn metadata(&self) -> String {
        let mut url = self.resource.clone();
        let path = self.resource.path().trim_end_matches('/');
        url.set_path(&format!("{WELL_KNOWN}{path}"));
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }
}

/// Where servers of tokens look for the metadata of a resource.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl Http {
    /// The path `/mcp`, names of this machine with the port of the listener as hosts and origins, no tokens.
    pub fn new() -> Http {
        Http {
            path: "/mcp".to_owned(),
            check: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            resource: None,
            rate: Some((limits::RATE_PER_SECOND, limits::RATE_BURST)),
            connections: limits::CONNECTIONS_MAX,
            connections_each: limits::CONNECTIONS_EACH_MAX,
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

    /// The same by these names of hosts as well, with any port.
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

    /// The same with at most so many connections of one principal. Without tokens there are no principals.
    #[must_use]
    pub fn with_connections_each(mut self, most: usize) -> Http {
        self.connections_each = most.max(1);
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
        let hosts = ServedHosts { names: hosts, port: address.port() };
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
