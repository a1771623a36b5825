//! Pages over HTTP: every address checked, the checked one dialled, at every redirect; and bounds on all that a server can do
//! to who asks it.
//!
//! A request is one connection by HTTP/1.1, made for it and closed after it. No connection is kept: a name that was good a
//! minute ago is looked up and checked again. There are no cookies, no proxy of the environment, and no keys but those that
//! a caller gives for one request. Redirects are followed on the same host only; where one leads elsewhere, that is the
//! answer, since whoever allowed this host has said nothing of the other.
//!
//! Built on hyper's connections and not on a whole client, because the address that is dialled has to be the one that was
//! checked, and a client resolves, keeps and retries by itself.

pub mod limits;
mod target;
mod unpack;

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

pub use limits::Limits;
pub use target::{BadTarget, Target};

use crate::host::{Host, HostRule, shown};
use crate::outside::{Internet, Outside, Pass, checked};
use unpack::{Bad, Body, Wanted};

/// Who asks, for those who run servers.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For code.
    pub kind: FailureKind,
    words: String,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// It may not be reached.
    Refused,
    /// Its name has no address.
    Unresolved,
    /// Nobody answers there.
    Unreachable,
    /// It can't show that it is who it should be, or speaks no TLS.
    Untrusted,
    /// It took too long.
    TimedOut,
    /// Redirects without an end, or to where nothing is fetched from.
    Redirects,
    /// A body that grows out of all proportion.
    Bomb,
    /// What came is no HTTP, or broke off.
    Broken,
}

impl Failure {
    fn new(kind: FailureKind, words: impl Into<String>) -> Failure {
        Failure { kind, words: words.into() }
    }

    /// Whether the same request may succeed a little later.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::Broken)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failure {}

/// What is asked of a server.
#[derive(Debug, Clone)]
pub struct Ask {
    target: Target,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    /// A page.
    pub fn get(target: Target) -> Ask {
        Ask { target, method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// An answer to these bytes of JSON.
    pub fn post_json(target: Target, body: impl Into<Bytes>) -> Ask {
        let ask = Ask { target, method: Method::POST, headers: HeaderMap::new(), body: body.into() };
        ask.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Ask {
        self.headers.insert(name, value);
        self
    }
}

/// What a server said.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Where it came from, after redirects.
    pub target: Target,
    /// The address that was dialled.
    pub address: IpAddr,
    /// The status, for example 200.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, unpacked.
    pub body: Vec<u8>,
    /// Whether the body was longer and its end is missing.
    pub cut: bool,
}

impl Answer {
    /// A header, where it is there and text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What came of following redirects.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// An answer, whatever its status.
    Page(Answer),
    /// It is at another host now, which was not asked.
    Elsewhere {
        /// The page that said so.
        from: Target,
        /// Where it is.
        to: Target,
        /// The status, for example 301.
        status: u16,
    },
}

/// Asks servers. Clones share what is being resolved and the machine's certificates.
///
/// ```no_run
/// use haft_net::fetch::{Fetched, Fetcher, Target};
///
/// # async fn page() -> Result<(), Box<dyn std::error::Error>> {
/// let fetcher = Fetcher::new();
/// match fetcher.get(&Target::parse("https://example.com/")?, "text/html").await? {
///     Fetched::Page(answer) => println!("{} bytes", answer.body.len()),
///     Fetched::Elsewhere { to, .. } => println!("now at {to}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Fetcher {
    outside: Arc<dyn Outside>,
    limits: Limits,
    opened: Arc<[HostRule]>,
    denied: Arc<[HostRule]>,
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
    /// One that reaches public addresses and nothing else.
    pub fn new() -> Fetcher {
        Fetcher {
            outside: Arc::new(Internet),
            limits: Limits::default(),
            opened: Arc::new([]),
            denied: Arc::new([]),
            private: false,
            resolving: Arc::new(Semaphore::new(limits::RESOLVING_MAX)),
            tls: Arc::default(),
        }
    }

    /// With other bounds.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Fetcher {
        self.limits = limits;
        self
    }

    /// With names and connections of one's own.
    #[must_use]
    pub fn with_outside(mut self, outside: Arc<dyn Outside>) -> Fetcher {
        self.outside = outside;
        self
    }

    /// Also ports of this machine that one of these rules names with its port (`localhost:8080`), and private addresses that
    /// one names. What is public needs no rule here.
    #[must_use]
    pub fn with_opened(mut self, rules: impl IntoIterator<Item = HostRule>) -> Fetcher {
        self.opened = rules.into_iter().collect();
        self
    }

    /// Never these hosts.
    #[must_use]
    pub fn with_denied(mut self, rules: impl IntoIterator<Item = HostRule>) -> Fetcher {
        self.denied = rules.into_iter().collect();
        self
    }

    /// Names may lead to private addresses (an intranet). This machine, its neighbours and metadata services stay out of
    /// reach.
    #[must_use]
    pub fn with_private_addresses(mut self, allowed: bool) -> Fetcher {
        self.private = allowed;
        self
    }

    /// Trusts what this says in place of the machine's certificates.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ClientConfig>) -> Fetcher {
        self.tls = Arc::new(OnceLock::from(Ok(config)));
        self
    }

    /// Where a page is asked for: by `https`, but at this machine and at private addresses that a rule opens, which seldom
    /// speak it.
    pub fn upgraded(&self, target: &Target) -> Target {
        let inner = match target.host() {
            host if host.is_local() => true,
            host @ Host::Address(address) => {
                crate::address::check(*address).is_err() && self.names(host, target.port())
            }
            Host::Name(_) => false,
        };
        if target.is_encrypted() || inner { target.clone() } else { target.encrypted() }
    }

    /// What a host may turn out to be.
    ///
    /// # Errors
    /// It may not be asked at all.
    fn pass(&self, target: &Target) -> Result<Pass, Failure> {
        let (host, port) = (target.host(), target.port());
        let denied = |rule: &&HostRule| rule.covers(host) && rule.port().is_none_or(|only| only == port);
        if let Some(rule) = self.denied.iter().find(denied) {
            return Err(Failure::new(FailureKind::Refused, format!("the rule `{rule}` denies `{host}`")));
        }
        if host.is_local() {
            return if self.opened.iter().any(|rule| rule.opens_local(host, port)) {
                Ok(Pass { local: true, ..Pass::default() })
            } else {
                Err(Failure::new(
                    FailureKind::Refused,
                    format!(
                        "`{}:{port}` is the user's own machine; only a rule with its port, `{}` among \
                         `sandbox.network.allowedDomains`, opens it",
                        host.bracketed(),
                        host.local_rule(port)
                    ),
                ))
            };
        }
        let named = matches!(host, Host::Address(_)) && self.names(host, port);
        Ok(Pass { private: self.private || named, ..Pass::default() })
    }

    fn names(&self, host: &Host, port: u16) -> bool {
        self.opened.iter().any(|rule| rule.opens(host) && rule.port().is_none_or(|only| only == port))
    }

    /// A page, by redirects on the same host if need be.
    ///
    /// # Errors
    /// Why there is none. A status that says so is an answer.
    pub async fn get(&self, target: &Target, accept: &'static str) -> Result<Fetched, Failure> {
        self.in_time(async {
            let mut target = target.clone();
            for _ in 0..=self.limits.redirects {
                let ask = Ask::get(target.clone()).header(header::ACCEPT, HeaderValue::from_static(accept));
                let answer = self.exchange(&ask).await?;
                let Some(to) = redirect(&answer)? else { return Ok(Fetched::Page(answer)) };
                if !is_same(&target, &to) {
                    return Ok(Fetched::Elsewhere { from: target, to, status: answer.status });
                }
                target = to;
            }
            let words = format!("it redirects more than {} times", self.limits.redirects);
            Err(Failure::new(FailureKind::Redirects, words))
        })
        .await
    }

    /// One answer; a redirect is one too.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn send(&self, ask: &Ask) -> Result<Answer, Failure> {
        self.in_time(self.exchange(ask)).await
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let late = |_| late("the whole answer", self.limits.whole);
        timeout(self.limits.whole, work).await.map_err(late)?
    }

    async fn exchange(&self, ask: &Ask) -> Result<Answer, Failure> {
        let target = &ask.target;
        let (stream, address) = self.connect(target).await?;
        if !target.is_encrypted() {
            return self.speak(ask, stream, address).await;
        }
        let untrusted = |words: String| Failure::new(FailureKind::Untrusted, words);
        let config = self.tls().map_err(untrusted)?;
        let name = match target.host() {
            Host::Name(name) => ServerName::try_from(name.clone()),
            Host::Address(address) => Ok(ServerName::from(*address)),
        };
        let name = name.map_err(|_| untrusted(format!("`{}` can't be in a certificate", target.host())))?;
        let handshake = TlsConnector::from(config).connect(name, stream);
        match timeout(self.limits.handshake, handshake).await {
            Ok(Ok(stream)) => self.speak(ask, stream, address).await,
            Ok(Err(error)) => Err(untrusted(format!(
                "no encrypted connection to `{}:{}` can be made: {error}",
                target.host().bracketed(),
                target.port()
            ))),
            Err(_) => Err(late("agreeing on encryption", self.limits.handshake)),
        }
    }

    /// Made when the first request needs it, because reading the machine's certificates takes a while.
    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        let make = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_platform_verifier())
                .map_err(|error| format!("the certificates of this machine can't be read: {error}"))?
                .with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        };
        self.tls.get_or_init(make).clone()
    }

    /// A connection to one of the host's addresses, all of which were checked.
    async fn connect(&self, target: &Target) -> Result<(TcpStream, IpAddr), Failure> {
        let (host, port) = (target.host(), target.port());
        let pass = self.pass(target)?;
        let addresses = match host {
            Host::Address(address) => vec![*address],
            host if host.is_local() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Host::Name(name) => self.resolve(name).await?,
        };
        let addresses =
            checked(host, addresses, &pass).map_err(|words| Failure::new(FailureKind::Refused, words))?;
        let mut last = None;
        for address in addresses.into_iter().take(limits::ADDRESSES_MAX) {
            match timeout(self.limits.dial, self.outside.dial((address, port).into())).await {
                Ok(Ok(stream)) => {
                    // Small messages go at once; where that can't be set they go a little later.
                    let _ = stream.set_nodelay(true);
                    return Ok((stream, address));
                }
                Ok(Err(error)) => last = Some(error.to_string()),
                Err(_) => last = Some("it didn't answer in time".to_owned()),
            }
        }
        Err(match last {
            Some(why) => Failure::new(
                FailureKind::Unreachable,
                format!("`{}:{port}` can't be reached: {why}", host.bracketed()),
            ),
            None => unresolved(&host.to_string(), "it has no address"),
        })
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Failure> {
        let lookup = async {
            // Goes with the lookup and not with whoever waits for it: one that hangs keeps its place.
            let permit = self.resolving.clone().acquire_owned().await;
            let (outside, name) = (self.outside.clone(), name.to_owned());
            tokio::task::spawn_blocking(move || {
                let addresses = outside.resolve(&name);
                drop(permit);
                addresses
            })
            .await
        };
        match timeout(self.limits.resolve, lookup).await {
            Ok(Ok(Ok(addresses))) => Ok(addresses),
            Ok(Ok(Err(error))) => Err(unresolved(name, &error.to_string())),
            Ok(Err(_)) => Err(unresolved(name, "looking it up failed")),
            Err(_) => Err(late(&format!("looking up `{name}`"), self.limits.resolve)),
        }
    }

    async fn speak<S>(&self, ask: &Ask, stream: S, address: IpAddr) -> Result<Answer, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: &dyn std::error::Error| Failure::new(FailureKind::Broken, broken(error));
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HEAD_BYTES_MAX)
            .max_headers(limits::HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // Ends with the request, whatever comes of it.
        let _driver = Driver(tokio::spawn(async move {
            // What goes wrong is told by the request.
            let _ = connection.await;
        }));
        let request = request(ask).map_err(|error| broken(&error))?;
        let response = match timeout(self.limits.head, sender.send_request(request)).await {
            Ok(response) => response.map_err(|error| broken(&error))?,
            Err(_) => return Err(late("the beginning of the answer", self.limits.head)),
        };
        let (head, mut incoming) = response.into_parts();
        let encoding = head.headers.get(header::CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
        let encoding = encoding.unwrap_or("?");
        let Some(mut body) = Body::new(encoding, &self.limits) else {
            let words = format!("its body is packed as `{}`; `gzip` was asked for", shown(encoding));
            return Err(Failure::new(FailureKind::Broken, words));
        };
        let (mut sent, mut cut) = (0_usize, false);
        loop {
            let frame = match timeout(self.limits.idle, incoming.frame()).await {
                Ok(Some(frame)) => frame.map_err(|error| broken(&error))?,
                Ok(None) => break,
                Err(_) => return Err(late("more of the answer", self.limits.idle)),
            };
            let Some(part) = frame.data_ref() else { continue };
            let part = &part[..part.len().min(self.limits.sent_bytes - sent)];
            sent += part.len();
            let wanted = body.take(part).map_err(unpacked)?;
            if wanted == Wanted::Enough {
                break;
            }
            if sent == self.limits.sent_bytes {
                cut = true;
                break;
            }
        }
        let (body, cut) = body.finish(cut).map_err(unpacked)?;
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(Answer { target: ask.target.clone(), address, status, headers, body, cut })
    }
}

/// The task that moves the bytes of a connection.
struct Driver(tokio::task::JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(ask: &Ask) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(ask.method.clone())
        .uri(ask.target.of_request())
        .header(header::HOST, ask.target.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::CONNECTION, "close");
    for (name, value) in &ask.headers {
        request = request.header(name, value);
    }
    request.body(Full::new(ask.body.clone()))
}

/// Where an answer sends who asked.
fn redirect(answer: &Answer) -> Result<Option<Target>, Failure> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(place) = answer.headers.get(header::LOCATION) else { return Ok(None) };
    let bad = |why: String| {
        Failure::new(FailureKind::Redirects, format!("it redirects to where nothing is fetched: {why}"))
    };
    let place = place.to_str().map_err(|_| bad("the place is no text".to_owned()))?;
    let to = answer.target.join(place).map_err(|error| bad(error.to_string()))?;
    if answer.target.is_encrypted() && !to.is_encrypted() && to.host() == answer.target.host() {
        return Err(bad(format!("`{}` is not encrypted, and this page is", shown(to.as_str()))));
    }
    Ok(Some(to))
}

/// Whether a redirect stays where it was allowed to go.
fn is_same(from: &Target, to: &Target) -> bool {
    from.host() == to.host() && (from.port() == to.port() || (from.port(), to.port()) == (80, 443))
}

fn late(what: &str, after: Duration) -> Failure {
    let seconds = after.as_secs_f64();
    Failure::new(FailureKind::TimedOut, format!("{what} didn't come within {seconds} s"))
}

fn unresolved(name: &str, why: &str) -> Failure {
    let words = format!("the name `{name}` can't be resolved: {why}; look at how it is spelt");
    Failure::new(FailureKind::Unresolved, words)
}

fn unpacked(bad: Bad) -> Failure {
    match bad {
        Bad::Bomb => {
            Failure::new(FailureKind::Bomb, "its body unpacks to many times its size; that is refused")
        }
        Bad::Broken => Failure::new(FailureKind::Broken, "its body is not packed as it says, or broke off"),
    }
}

/// What hyper says of a connection, with what is behind it.
fn broken(error: &dyn std::error::Error) -> String {
    let mut words = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        words.push(error.to_string());
        next = error.source();
    }
    format!("the answer can't be read: {}", words.join(": "))
}
