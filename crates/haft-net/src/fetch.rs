//! An HTTP client that checks every address, also after redirects, and limits everything that a
//! server can send.
//!
//! Each request opens one HTTP/1.1 connection and closes it. Connections are not reused: a name
//! that was checked a minute ago is resolved and checked again. There are no cookies, no proxies
//! from the environment, and no credentials except those that the caller adds to one request.
//! Redirects within the same origin are followed. A redirect to another origin is returned to the
//! caller, because permission for one host doesn't cover another.
//!
//! This is built on hyper's connections instead of a complete client, because the dialled address
//! must be the checked one. A complete client resolves, pools and retries on its own.

mod body_decoder;
pub mod limits;
mod target;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use limits::FetchLimits;
pub use target::{FetchTarget, TargetParseError};

use crate::host::{Host, HostRule, printable_excerpt};
use crate::network_access::{AddressAllowance, NetworkAccess, SystemNetwork, retain_allowed};
use body_decoder::{BodyDecoder, DecodeError, DecodeProgress};

/// Identifies haft to server operators.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchError {
    /// The kind of the failure.
    pub kind: FetchErrorKind,
    message: String,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// The host may not be reached.
    Refused,
    /// The name has no address.
    Unresolved,
    /// No address of the host accepts a connection.
    Unreachable,
    /// The TLS handshake failed: the certificate is invalid, or the server speaks no TLS.
    Untrusted,
    /// A timeout expired.
    TimedOut,
    /// Too many redirects, or a redirect to an address that can't be fetched.
    InvalidRedirect,
    /// The body grows too much when it is decompressed.
    DecompressionBomb,
    /// The response is not valid HTTP, or the connection broke.
    Malformed,
}

impl FetchError {
    fn new(kind: FetchErrorKind, message: impl Into<String>) -> FetchError {
        FetchError { kind, message: message.into() }
    }

    /// Returns whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            FetchErrorKind::Unreachable | FetchErrorKind::TimedOut | FetchErrorKind::Malformed
        )
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FetchError {}

/// A request to a server.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    target: FetchTarget,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl FetchRequest {
    /// Creates a GET request.
    pub fn get(target: FetchTarget) -> FetchRequest {
        FetchRequest { target, method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Creates a POST request with a JSON body.
    pub fn post_json(target: FetchTarget, body: impl Into<Bytes>) -> FetchRequest {
        let fetch_request =
            FetchRequest { target, method: Method::POST, headers: HeaderMap::new(), body: body.into() };
        fetch_request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> FetchRequest {
        self.headers.insert(name, value);
        self
    }
}

/// The response of a server.
#[derive(Debug, Clone)]
pub struct FetchResponse {
    /// The final address, after redirects.
    pub target: FetchTarget,
    /// The IP address that was dialled.
    pub address: IpAddr,
    /// The status code, for example 200.
    pub status: u16,
    /// The response headers.
    pub headers: HeaderMap,
    /// The decoded body.
    pub body: Vec<u8>,
    /// Whether the body was truncated at a limit.
    pub is_truncated: bool,
}

impl FetchResponse {
    /// Returns a header that exists and is valid text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The result of a fetch that follows redirects.
#[derive(Debug, Clone)]
pub enum FetchResult {
    /// A response with any status code.
    Page(FetchResponse),
    /// A redirect to another origin. That origin got no request.
    OtherOrigin {
        /// The address that redirected.
        from: FetchTarget,
        /// The target of the redirect.
        to: FetchTarget,
        /// The status code of the redirect, for example 301.
        status: u16,
    },
}

/// An HTTP client. Clones share the limit on name lookups and the TLS configuration.
///
/// ```no_run
/// use haft_net::fetch::{FetchResult, Fetcher, FetchTarget};
///
/// # async fn page() -> Result<(), Box<dyn std::error::Error>> {
/// let fetcher = Fetcher::new();
/// match fetcher.get(&FetchTarget::parse("https://example.com/")?, "text/html").await? {
///     FetchResult::Page(response) => println!("{} bytes", response.body.len()),
///     FetchResult::OtherOrigin { to, .. } => println!("now at {to}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Fetcher {
    network: Arc<dyn NetworkAccess>,
    limits: FetchLimits,
    allowed_rules: Arc<[HostRule]>,
    denied_rules: Arc<[HostRule]>,
    private: bool,
    resolving: Arc<Semaphore>,
    tls: Arc<OnceLock<Result<Arc<ClientConfig>, String>>>,
}

impl Default for Fetcher {
    fn default() -> Fetcher {
        Fetcher::new()
    }
}

impl Fetcher {
    /// Creates a fetcher that reaches public addresses only.
    pub fn new() -> Fetcher {
        Fetcher {
            network: Arc::new(SystemNetwork),
            limits: FetchLimits::default(),
            allowed_rules: Arc::new([]),
            denied_rules: Arc::new([]),
            private: false,
            resolving: Arc::new(Semaphore::new(limits::RESOLVING_MAX)),
            tls: Arc::default(),
        }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: FetchLimits) -> Fetcher {
        self.limits = limits;
        self
    }

    /// Replaces the resolver and the network.
    #[must_use]
    pub fn with_network(mut self, network: Arc<dyn NetworkAccess>) -> Fetcher {
        self.network = network;
        self
    }

    /// Allows ports of this machine that a rule names with the port (`localhost:8080`), and private
    /// addresses that a rule names. Public addresses need no rule here.
    #[must_use]
    pub fn with_opened(mut self, rules: impl IntoIterator<Item = HostRule>) -> Fetcher {
        self.allowed_rules = rules.into_iter().collect();
        self
    }

    /// Denies these hosts.
    #[must_use]
    pub fn with_denied(mut self, rules: impl IntoIterator<Item = HostRule>) -> Fetcher {
        self.denied_rules = rules.into_iter().collect();
        self
    }

    /// Allows names to resolve to private addresses (an intranet). This machine, link-local
    /// addresses and metadata services stay denied.
    #[must_use]
    pub fn with_private_addresses(mut self, allowed: bool) -> Fetcher {
        self.private = allowed;
        self
    }

    /// Replaces the TLS configuration, including the trusted certificates.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ClientConfig>) -> Fetcher {
        self.tls = Arc::new(OnceLock::from(Ok(config)));
        self
    }

    /// Returns the address with `https`. This machine, and private addresses that a rule allows,
    /// keep `http` because they seldom support TLS.
    pub fn prefer_https(&self, target: &FetchTarget) -> FetchTarget {
        let inner = match target.host() {
            host if host.is_local() => true,
            host @ Host::Address(address) => {
                crate::address::check(*address).is_err() && self.is_named_by_rule(host, target.port())
            }
            Host::Name(_) => false,
        };
        if target.is_encrypted() || inner { target.clone() } else { target.with_https() }
    }

    /// Returns which non-public addresses the host may resolve to.
    ///
    /// # Errors
    /// The host is denied.
    fn address_allowance(&self, target: &FetchTarget) -> Result<AddressAllowance, FetchError> {
        let (host, port) = (target.host(), target.port());
        let is_denied = |rule: &&HostRule| rule.covers(host) && rule.port().is_none_or(|only| only == port);
        if let Some(rule) = self.denied_rules.iter().find(is_denied) {
            return Err(FetchError::new(
                FetchErrorKind::Refused,
                format!("the rule `{rule}` denies `{host}`"),
            ));
        }
        if host.is_local() {
            return if self.allowed_rules.iter().any(|rule| rule.opens_local(host, port)) {
                Ok(AddressAllowance { local: true, ..AddressAllowance::default() })
            } else {
                Err(FetchError::new(
                    FetchErrorKind::Refused,
                    format!(
                        "`{}:{port}` is the user's own machine; only a rule with its port, `{}` among \
                         `sandbox.network.allowedDomains`, opens it",
                        host.bracketed(),
                        host.local_rule(port)
                    ),
                ))
            };
        }
        let named = matches!(host, Host::Address(_)) && self.is_named_by_rule(host, port);
        Ok(AddressAllowance { private: self.private || named, ..AddressAllowance::default() })
    }

    fn is_named_by_rule(&self, host: &Host, port: u16) -> bool {
        self.allowed_rules.iter().any(|rule| rule.opens(host) && rule.port().is_none_or(|only| only == port))
    }

    /// Fetches a page and follows redirects within the same origin.
    ///
    /// # Errors
    /// There is no response. A response with an error status is not an error.
    pub async fn get(&self, target: &FetchTarget, accept: &'static str) -> Result<FetchResult, FetchError> {
        self.within_deadline(async {
            let mut target = target.clone();
            for _ in 0..=self.limits.redirects {
                let fetch_request = FetchRequest::get(target.clone())
                    .header(header::ACCEPT, HeaderValue::from_static(accept));
                let response = self.exchange(&fetch_request).await?;
                let Some(to) = redirect_target(&response)? else { return Ok(FetchResult::Page(response)) };
                if !is_same_origin(&target, &to) {
                    return Ok(FetchResult::OtherOrigin { from: target, to, status: response.status });
                }
                target = to;
            }
            let message = format!("it redirects more than {} times", self.limits.redirects);
            Err(FetchError::new(FetchErrorKind::InvalidRedirect, message))
        })
        .await
    }

    /// Sends one request and returns its response; redirects are not followed.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(&self, fetch_request: &FetchRequest) -> Result<FetchResponse, FetchError> {
        self.within_deadline(self.exchange(fetch_request)).await
    }

    async fn within_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let timeout_error = |_| timeout_error("the request", self.limits.total);
        timeout(self.limits.total, work).await.map_err(timeout_error)?
    }

    async fn exchange(&self, fetch_request: &FetchRequest) -> Result<FetchResponse, FetchError> {
        let target = &fetch_request.target;
        let (stream, address) = self.connect(target).await?;
        if !target.is_encrypted() {
            return self.exchange_http(fetch_request, stream, address).await;
        }
        let untrusted = |message: String| FetchError::new(FetchErrorKind::Untrusted, message);
        let config = self.tls().map_err(untrusted)?;
        let name = match target.host() {
            Host::Name(name) => ServerName::try_from(name.clone()),
            Host::Address(address) => Ok(ServerName::from(*address)),
        };
        let name =
            name.map_err(|_| untrusted(format!("`{}` is not a valid server name for TLS", target.host())))?;
        let handshake = TlsConnector::from(config).connect(name, stream);
        match timeout(self.limits.handshake, handshake).await {
            Ok(Ok(stream)) => self.exchange_http(fetch_request, stream, address).await,
            Ok(Err(error)) => Err(untrusted(format!(
                "the TLS handshake with `{}:{}` failed: {error}",
                target.host().bracketed(),
                target.port()
            ))),
            Err(_) => Err(timeout_error("the TLS handshake", self.limits.handshake)),
        }
    }

    /// Created on the first use, because loading the system's certificates is slow.
    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        let make = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_platform_verifier())
                .map_err(|error| format!("failed to load the certificates of the system: {error}"))?
                .with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        };
        self.tls.get_or_init(make).clone()
    }

    /// Connects to one of the host's addresses after checking all of them.
    async fn connect(&self, target: &FetchTarget) -> Result<(TcpStream, IpAddr), FetchError> {
        let (host, port) = (target.host(), target.port());
        let allowance = self.address_allowance(target)?;
        let addresses = match host {
            Host::Address(address) => vec![*address],
            host if host.is_local() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Host::Name(name) => self.resolve(name).await?,
        };
        let addresses = retain_allowed(host, addresses, &allowance)
            .map_err(|message| FetchError::new(FetchErrorKind::Refused, message))?;
        let mut last = None;
        for address in addresses.into_iter().take(limits::ADDRESSES_MAX) {
            match timeout(self.limits.dial, self.network.dial((address, port).into())).await {
                Ok(Ok(stream)) => {
                    // Sends small writes without delay. A failure only adds latency.
                    let _ = stream.set_nodelay(true);
                    return Ok((stream, address));
                }
                Ok(Err(error)) => last = Some(error.to_string()),
                Err(_) => last = Some("the connection timed out".to_owned()),
            }
        }
        Err(match last {
            Some(why) => FetchError::new(
                FetchErrorKind::Unreachable,
                format!("`{}:{port}` can't be reached: {why}", host.bracketed()),
            ),
            None => unresolved_error(&host.to_string(), "it has no address"),
        })
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, FetchError> {
        let lookup = async {
            // The lookup holds the permit, not the caller: a lookup that hangs keeps its permit
            // after the caller's timeout.
            let permit = self.resolving.clone().acquire_owned().await;
            let (network, name) = (self.network.clone(), name.to_owned());
            tokio::task::spawn_blocking(move || {
                let addresses = network.resolve(&name);
                drop(permit);
                addresses
            })
            .await
        };
        match timeout(self.limits.resolve, lookup).await {
            Ok(Ok(Ok(addresses))) => Ok(addresses),
            Ok(Ok(Err(error))) => Err(unresolved_error(name, &error.to_string())),
            Ok(Err(_)) => Err(unresolved_error(name, "looking it up failed")),
            Err(_) => Err(timeout_error(&format!("the lookup of `{name}`"), self.limits.resolve)),
        }
    }

    async fn exchange_http<S>(
        &self,
        fetch_request: &FetchRequest,
        stream: S,
        address: IpAddr,
    ) -> Result<FetchResponse, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let malformed_error = |error: &dyn std::error::Error| {
            FetchError::new(FetchErrorKind::Malformed, malformed_error(error))
        };
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HEAD_BYTES_MAX)
            .max_headers(limits::HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| malformed_error(&error))?;
        // Aborted when the request ends.
        let _driver = ConnectionTask(tokio::spawn(async move {
            // The request reports the error.
            let _ = connection.await;
        }));
        let request = build_request(fetch_request).map_err(|error| malformed_error(&error))?;
        let response = match timeout(self.limits.head, sender.send_request(request)).await {
            Ok(response) => response.map_err(|error| malformed_error(&error))?,
            Err(_) => return Err(timeout_error("the response head", self.limits.head)),
        };
        let (head, mut incoming) = response.into_parts();
        let encoding = head.headers.get(header::CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
        let encoding = encoding.unwrap_or("?");
        let Some(mut body) = BodyDecoder::new(encoding, &self.limits) else {
            let message = format!(
                "its body has the unsupported encoding `{}`; `gzip` was requested",
                printable_excerpt(encoding)
            );
            return Err(FetchError::new(FetchErrorKind::Malformed, message));
        };
        let (mut sent, mut cut) = (0_usize, false);
        loop {
            let frame = match timeout(self.limits.idle, incoming.frame()).await {
                Ok(Some(frame)) => frame.map_err(|error| malformed_error(&error))?,
                Ok(None) => break,
                Err(_) => return Err(timeout_error("the response body", self.limits.idle)),
            };
            let Some(part) = frame.data_ref() else { continue };
            let part = &part[..part.len().min(self.limits.encoded_bytes - sent)];
            sent += part.len();
            let wanted = body.decode_part(part).map_err(decode_error)?;
            if wanted == DecodeProgress::Enough {
                break;
            }
            if sent == self.limits.encoded_bytes {
                cut = true;
                break;
            }
        }
        let (body, cut) = body.finish(cut).map_err(decode_error)?;
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(FetchResponse {
            target: fetch_request.target.clone(),
            address,
            status,
            headers,
            body,
            is_truncated: cut,
        })
    }
}

/// The task that drives the connection.
struct ConnectionTask(tokio::task::JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn build_request(fetch_request: &FetchRequest) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(fetch_request.method.clone())
        .uri(fetch_request.target.request_path())
        .header(header::HOST, fetch_request.target.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::CONNECTION, "close");
    for (name, value) in &fetch_request.headers {
        request = request.header(name, value);
    }
    request.body(Full::new(fetch_request.body.clone()))
}

/// Returns the target of a redirect.
fn redirect_target(response: &FetchResponse) -> Result<Option<FetchTarget>, FetchError> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(place) = response.headers.get(header::LOCATION) else { return Ok(None) };
    let bad = |why: String| {
        FetchError::new(
            FetchErrorKind::InvalidRedirect,
            format!("it redirects to an address that can't be fetched: {why}"),
        )
    };
    let place = place.to_str().map_err(|_| bad("the location is not valid text".to_owned()))?;
    let to = response.target.join(place).map_err(|error| bad(error.to_string()))?;
    if response.target.is_encrypted() && !to.is_encrypted() && to.host() == response.target.host() {
        return Err(bad(format!("`{}` is not encrypted, and this page is", printable_excerpt(to.as_str()))));
    }
    Ok(Some(to))
}

/// Returns whether a redirect stays within the origin that was allowed.
fn is_same_origin(from: &FetchTarget, to: &FetchTarget) -> bool {
    from.host() == to.host() && (from.port() == to.port() || (from.port(), to.port()) == (80, 443))
}

fn timeout_error(what: &str, after: Duration) -> FetchError {
    let seconds = after.as_secs_f64();
    FetchError::new(FetchErrorKind::TimedOut, format!("{what} timed out after {seconds} s"))
}

fn unresolved_error(name: &str, why: &str) -> FetchError {
    let message = format!("the name `{name}` can't be resolved: {why}; check the spelling");
    FetchError::new(FetchErrorKind::Unresolved, message)
}

fn decode_error(bad: DecodeError) -> FetchError {
    match bad {
        DecodeError::DecompressionBomb => FetchError::new(
            FetchErrorKind::DecompressionBomb,
            "its body decompresses to many times its size; that is refused",
        ),
        DecodeError::Malformed => FetchError::new(
            FetchErrorKind::Malformed,
            "its body doesn't match its declared encoding, or is truncated",
        ),
    }
}

/// Formats an error of hyper with its sources.
fn malformed_error(error: &dyn std::error::Error) -> String {
    let mut message = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        message.push(error.to_string());
        next = error.source();
    }
    format!("failed to read the response: {}", message.join(": "))
}
