//! Access over HTTP: host names, origins, tokens and rate limits.
//!
//! A web page can make requests to servers on the same machine, and with a name of its own that resolves
//! there (DNS rebinding) it could read the responses. So a request has to name a served host, and one of a
//! web page a served origin. Loopback names count with the port of this listener alone, since other ports
//! belong to other servers. This is checked before tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use haft::sync::lock;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};
use tokio::time::Instant;
use url::Url;

use super::client_info::Principal;
use super::http_message::HttpError;
use super::tokens::TokenVerifier;
use crate::limits::{RATES_MAX, TOKEN_BYTES_MAX};
use crate::token_bucket::{Rate, TokenBucket};

/// The access rules of one listener.
pub(crate) struct HttpAuth {
    /// None over a Unix socket: a request may name any host there, and loopback origins are unknown.
    pub(crate) hosts: Option<ServedHosts>,
    /// Origins of web pages, beside this listener's own.
    pub(crate) origins: Vec<String>,
    pub(crate) verifier: Option<Arc<dyn TokenVerifier>>,
    /// Requests of each principal.
    pub(crate) rate: Option<Rate>,
    pub(crate) limiter: RateLimiter,
}

/// The hosts that a listener serves.
pub(crate) struct ServedHosts {
    /// Lower-case names beside the loopback ones. They count with any port: a proxy may stand before the
    /// server.
    pub(crate) names: Vec<String>,
    /// The listener's port, for loopback names.
    pub(crate) port: u16,
}

impl ServedHosts {
    fn serves(&self, host: &str, port: Option<u16>) -> bool {
        let is_own = is_loopback(host) && port.unwrap_or(HTTP_PORT) == self.port;
        is_own || self.names.iter().any(|known| known == host)
    }
}

/// The default port of an HTTP address.
const HTTP_PORT: u16 = 80;

/// Invalid tokens from one address.
const INVALID_TOKENS: Rate = Rate { per_second: 10, burst: 100 };

impl HttpAuth {
    /// # Errors
    /// The host or origin is not served.
    pub(crate) fn check_host_and_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
        let forbidden = |message: &str| HttpError::new(StatusCode::FORBIDDEN, message);
        if let Some(hosts) = &self.hosts {
            let is_single = headers.get_all(HOST).iter().count() == 1;
            let host = headers.get(HOST).filter(|_| is_single).and_then(|host| host.to_str().ok());
            // The request line may name a host as well; then both have to be served.
            let others = uri.authority().map(|authority| authority.as_str());
            let is_served =
                |host: &str| host_and_port(host).is_some_and(|(host, port)| hosts.serves(&host, port));
            if !host.is_some_and(is_served) || !others.is_none_or(is_served) {
                let message = "this host and port are not served here; the server has a list of hosts";
                return Err(forbidden(message));
            }
        }
        let is_known =
            |origin: &http::HeaderValue| origin.to_str().is_ok_and(|origin| self.knows_origin(origin));
        if headers.get_all(ORIGIN).iter().all(is_known) {
            return Ok(());
        }
        Err(forbidden("this origin is not served here; the server has a list of origins"))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        if self.lists_origin(origin) {
            return true;
        }
        let Some(hosts) = &self.hosts else { return false };
        // `null` is no URL.
        Url::parse(origin).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| is_loopback(host.trim_matches(['[', ']'])))
                && url.port_or_known_default() == Some(hosts.port)
        })
    }

    /// Whether the configuration names this origin.
    pub(crate) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// The principal of the request's token.
    ///
    /// # Errors
    /// The token is missing or invalid, or can't be verified now.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        address: &str,
    ) -> Result<Option<Principal>, HttpError> {
        let Some(verifier) = &self.verifier else { return Ok(None) };
        let unauthorized = |message: &str| HttpError::new(StatusCode::UNAUTHORIZED, message);
        let mut tokens = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (tokens.next(), tokens.next()) else {
            return Err(unauthorized("a bearer token is needed: `Authorization: Bearer TOKEN`"));
        };
        let token = header.to_str().ok().and_then(bearer_token);
        let Some(token) = token.filter(|token| token.len() <= TOKEN_BYTES_MAX) else {
            return Err(unauthorized("the header `Authorization` has to be `Bearer TOKEN`"));
        };
        // Guessing is slowed down; verifying a token may cost an authorization server work.
        let failures = format!("!{address}");
        if !self.limiter.take(&failures, INVALID_TOKENS, 0.0, Instant::now()) {
            let message = "there were too many invalid tokens; wait";
            return Err(HttpError::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        match verifier.verify(token).await {
            Ok(Some(principal)) => Ok(Some(principal)),
            Ok(None) => {
                self.limiter.take(&failures, INVALID_TOKENS, 1.0, Instant::now());
                Err(unauthorized("the token is invalid or expired"))
            }
            // The reason may name what a client must not know.
            Err(_) => {
                let message = "the token can't be verified now; try again";
                Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, message))
            }
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// The rate limit is exceeded.
    pub(crate) fn count_request(&self, client: &str) -> Result<(), HttpError> {
        match self.rate {
            Some(rate) if !self.limiter.take(client, rate, 1.0, Instant::now()) => Err(HttpError::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("more than {} requests a second; wait", rate.per_second),
            )),
            _ => Ok(()),
        }
    }
}

/// The token of `Bearer TOKEN`.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The lower-case name and the port of a header `Host`.
fn host_and_port(header: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match header.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => header.split_at(header.find(':').unwrap_or(header.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// Whether a name is a loopback one.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Token buckets by client.
#[derive(Default)]
pub(crate) struct RateLimiter(Mutex<HashMap<Box<str>, TokenBucket>>);

impl RateLimiter {
    /// Takes tokens from a client's bucket; whether it had any.
    fn take(&self, client: &str, rate: Rate, cost: f64, now: Instant) -> bool {
        let mut buckets = lock(&self.0);
        if !buckets.contains_key(client) {
            if buckets.len() >= RATES_MAX {
                // A bucket that is full again need not be kept.
                buckets.retain(|_, bucket| !bucket.is_full(rate, now));
            }
            if buckets.len() >= RATES_MAX {
                return false;
            }
            buckets.insert(client.into(), TokenBucket::full(rate, now));
        }
        buckets.get_mut(client).is_some_and(|bucket| bucket.take(rate, cost, now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn auth(hosts: &[&str], origins: &[&str]) -> HttpAuth {
        HttpAuth {
            hosts: Some(ServedHosts {
                names: hosts.iter().map(|host| (*host).to_owned()).collect(),
                port: 7070,
            }),
            origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            verifier: None,
            rate: None,
            limiter: RateLimiter::default(),
        }
    }

    fn is_admitted(auth: &HttpAuth, host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        auth.check_host_and_origin(&Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn loopback_and_configured_hosts_are_served() {
        let auth = auth(&["haft.example"], &["https://app.example"]);
        for host in [
            "LOCALHOST:7070",
            "127.0.0.1:7070",
            "127.9.9.9:7070",
            "[::1]:7070",
            "haft.example:443",
            "haft.example",
        ] {
            assert!(is_admitted(&auth, Some(host), None), "{host}");
        }
        for host in [
            "localhost",
            "[::1]",
            "localhost:80",
            "127.0.0.1:7071",
            "[::1]:70",
            "localhost:+7070",
            "localhost:7070 ",
            "localhost:",
            "evil.example",
            "localhost.evil.example:7070",
            "127.0.0.1.evil.example:7070",
            "evil.example:7070",
            "localhost:x",
            "[::1",
            "",
            "localhost:80:80",
            "10.0.0.1",
            "0.0.0.0",
            "haft.example.evil",
            "user@localhost:7070",
        ] {
            assert!(!is_admitted(&auth, Some(host), None), "{host}");
        }
        assert!(!is_admitted(&auth, None, None), "no host at all");
        for origin in
            ["http://localhost:7070", "http://127.0.0.1:7070", "http://[::1]:7070", "https://app.example"]
        {
            assert!(is_admitted(&auth, Some("localhost:7070"), Some(origin)), "{origin}");
        }
        for origin in [
            "http://localhost:3000",
            "http://localhost",
            "https://127.0.0.1",
            "http://[::1]:5",
            "https://app.example:444",
            "null",
            "https://evil.example",
            "https://app.example.evil",
            "file://",
            "http://localhost.evil:7070",
            "app.example",
            "",
        ] {
            assert!(!is_admitted(&auth, Some("localhost:7070"), Some(origin)), "{origin}");
        }
    }

    #[test]
    fn the_default_port_may_be_omitted() {
        let mut auth = auth(&[], &[]);
        auth.hosts = Some(ServedHosts { names: Vec::new(), port: 80 });
        assert!(is_admitted(&auth, Some("localhost"), Some("http://localhost")));
        assert!(!is_admitted(&auth, Some("localhost"), Some("https://localhost")));
        auth.hosts = None;
        assert!(is_admitted(&auth, Some("anything"), None), "a Unix socket has no name");
        assert!(!is_admitted(&auth, Some("anything"), Some("http://localhost")));
    }

    #[test]
    fn several_hosts_are_refused() {
        let auth = auth(&[], &[]);
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost:7070".parse().unwrap());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(auth.check_host_and_origin(&Uri::from_static("/mcp"), &headers).is_err());
        headers.remove(HOST);
        headers.insert(HOST, "localhost:7070".parse().unwrap());
        for other in
            ["http://evil.example:7070/mcp", "http://localhost:7071/mcp", "http://a@localhost:7070/mcp"]
        {
            assert!(auth.check_host_and_origin(&other.parse().unwrap(), &headers).is_err(), "{other}");
        }
        assert!(auth.check_host_and_origin(&Uri::from_static("http://localhost:7070/mcp"), &headers).is_ok());
    }

    #[test]
    fn bearer_tokens_have_one_form() {
        assert_eq!(bearer_token("Bearer abc"), Some("abc"));
        assert_eq!(bearer_token("bearer  abc "), Some("abc"));
        for wrong in ["abc", "Basic abc", "Bearer", "Bearer ", ""] {
            assert_eq!(bearer_token(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn buckets_are_separate_and_refill() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let take = |client, at| limiter.take(client, Rate { per_second: 10, burst: 3 }, 1.0, at);
        assert!(take("a", now) && take("a", now) && take("a", now));
        assert!(!take("a", now));
        assert!(take("b", now));
        let later = now + Duration::from_millis(250);
        assert!(take("a", later) && take("a", later) && !take("a", later));
    }

    #[test]
    fn buckets_are_limited_in_number() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let rate = Rate { per_second: 1, burst: 1 };
        for number in 0..RATES_MAX {
            assert!(limiter.take(&number.to_string(), rate, 1.0, now));
        }
        assert!(!limiter.take("one more", rate, 1.0, now));
        assert!(limiter.take("one more", rate, 1.0, now + Duration::from_secs(2)));
    }
}
