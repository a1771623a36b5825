//! Who may come in over HTTP: names of hosts and origins, tokens, how often.
//!
//! A page in a browser can make requests to servers on the same machine, and with a name of its own that points there it may
//! even read the answers. So a request has to name a host that is known here, and one that comes from a page has to name an
//! origin that is; for names of this machine with the port of this very listener, since other ports belong to other
//! servers. That is asked before anything else, tokens included.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use haft::sync::lock;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};
use url::Url;

use super::tokens::TokenCheck;
use super::who::Principal;
use crate::limits::{RATES_MAX, TOKEN_BYTES_MAX};

/// The rules of one listener.
pub(crate) struct Gate {
    /// None over a socket in the file system: a request may name any host there, and no page of this machine is known.
    pub(crate) hosts: Option<ServedHosts>,
    /// Origins of pages, beside this listener's own on this machine.
    pub(crate) origins: Vec<String>,
    pub(crate) check: Option<Arc<dyn TokenCheck>>,
    /// Requests a second, and at once.
    pub(crate) rate: Option<(u32, u32)>,
    pub(crate) rates: Rates,
}

/// The hosts that a listener serves.
pub(crate) struct ServedHosts {
    /// In small letters, beside those of this machine. They count with any port: something may stand before the server.
    pub(crate) names: Vec<String>,
    /// The port of the listener, with which names of this machine count.
    pub(crate) port: u16,
}

impl ServedHosts {
    fn serves(&self, host: &str, port: Option<u16>) -> bool {
        let is_own = is_loopback(host) && port.unwrap_or(HTTP_PORT) == self.port;
        is_own || self.names.iter().any(|known| known == host)
    }
}

/// The port of an address without one.
const HTTP_PORT: u16 = 80;

/// How many tokens that are not good may come from one place: a second, and at once.
const FAILURES: (u32, u32) = (10, 100);

/// A request that isn't let in.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) words: String,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, words: impl Into<String>) -> Refused {
        Refused { status, words: words.into() }
    }
}

impl Gate {
    /// Whether the request names a host and an origin that are known.
    ///
    /// # Errors
    /// It doesn't.
    pub(crate) fn place(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let forbidden = |words: &str| Refused::new(StatusCode::FORBIDDEN, words);
        if let Some(hosts) = &self.hosts {
            let named = headers.get(HOST).and_then(|host| host.to_str().ok());
            let is_one = headers.get_all(HOST).iter().count() == 1;
            let named = named.filter(|_| is_one).and_then(host_of);
            // A request may name the host in its first line as well; then both count.
            let also = uri.authority().map(|authority| host_of(authority.as_str()));
            let is_served = |named: &Option<(String, Option<u16>)>| {
                named.as_ref().is_some_and(|(host, port)| hosts.serves(host, *port))
            };
            if !is_served(&named) || !also.as_ref().is_none_or(is_served) {
                return Err(forbidden(
                    "this host and port are not served here; the server has a list of hosts",
                ));
            }
        }
        for origin in headers.get_all(ORIGIN) {
            if !origin.to_str().is_ok_and(|origin| self.knows_origin(origin)) {
                return Err(forbidden("this origin is not served here; the server has a list of origins"));
            }
        }
        Ok(())
    }

    /// Whether pages of this origin may ask.
    fn knows_origin(&self, origin: &str) -> bool {
        if self.lists_origin(origin) {
            return true;
        }
        let Some(hosts) = &self.hosts else { return false };
        let is_own = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| is_loopback(host.trim_matches(['[', ']'])))
                && url.port_or_known_default() == Some(hosts.port)
        };
        // `null` and what is no address are no origins of this machine.
        Url::parse(origin).is_ok_and(|url| is_own(&url))
    }

    /// Whether an origin was named by whoever configured this.
    pub(crate) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Whom the request comes from.
    ///
    /// # Errors
    /// It has no token, or none that is good.
    pub(crate) async fn principal(
        &self,
        headers: &HeaderMap,
        from: &str,
    ) -> Result<Option<Principal>, Refused> {
        let Some(check) = &self.check else { return Ok(None) };
        let unauthorized = |words: &str| Refused::new(StatusCode::UNAUTHORIZED, words);
        let mut tokens = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (tokens.next(), tokens.next()) else {
            return Err(unauthorized("a bearer token is needed: `Authorization: Bearer TOKEN`"));
        };
        let token = header.to_str().ok().and_then(bearer);
        let Some(token) = token.filter(|token| token.len() <= TOKEN_BYTES_MAX) else {
            return Err(unauthorized("the header `Authorization` has to be `Bearer TOKEN`"));
        };
        // Who guesses has to guess slowly; asking about a token may cost somebody else something.
        let failures = format!("!{from}");
        if !self.rates.take(&failures, FAILURES, 0.0, Instant::now()) {
            return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, "too many tokens were not good; wait"));
        }
        match check.check(token).await {
            Ok(Some(principal)) => Ok(Some(principal)),
            Ok(None) => {
                self.rates.take(&failures, FAILURES, 1.0, Instant::now());
                Err(unauthorized("the token is not good, or no longer"))
            }
            // Why is for a log: the reason may name what a stranger need not know.
            Err(_) => Err(Refused::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token can't be checked now; try again",
            )),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn count(&self, whose: &str) -> Result<(), Refused> {
        match self.rate {
            Some(rate) if !self.rates.take(whose, rate, 1.0, Instant::now()) => Err(Refused::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("more than {} requests a second; wait", rate.0),
            )),
            _ => Ok(()),
        }
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The name in a header `Host`, in small letters, and the port.
fn host_of(header: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match header.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest)
        }
        None => match header.split_once(':') {
            Some((host, _)) => (host, &header[host.len()..]),
            None => (header, ""),
        },
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// Whether a name is one of this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How often each principal may ask yet.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<Box<str>, Bucket>>);

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Rates {
    /// Takes so much of what one may do yet; whether there was any.
    fn take(&self, whose: &str, (per_second, burst): (u32, u32), cost: f64, now: Instant) -> bool {
        let mut buckets = lock(&self.0);
        let burst = f64::from(burst.max(1));
        let full_after = burst / f64::from(per_second.max(1));
        if !buckets.contains_key(whose) {
            if buckets.len() >= RATES_MAX {
                // One that would be full again need not be remembered.
                buckets.retain(|_, bucket| now.duration_since(bucket.filled).as_secs_f64() < full_after);
            }
            if buckets.len() >= RATES_MAX {
                return false;
            }
            buckets.insert(whose.into(), Bucket { tokens: burst, filled: now });
        }
        let Some(bucket) = buckets.get_mut(whose) else { return false };
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * f64::from(per_second)).min(burst);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate(hosts: &[&str], origins: &[&str]) -> Gate {
        Gate {
            hosts: Some(ServedHosts {
                names: hosts.iter().map(|host| (*host).to_owned()).collect(),
                port: 7070,
            }),
            origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            check: None,
            rate: None,
            rates: Rates::default(),
        }
    }

    fn lets_in(gate: &Gate, host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        gate.place(&Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn only_this_machine_and_what_was_named_is_served() {
        let gate = gate(&["haft.example"], &["https://app.example"]);
        for host in [
            "LOCALHOST:7070",
            "127.0.0.1:7070",
            "127.9.9.9:7070",
            "[::1]:7070",
            "haft.example:443",
            "haft.example",
        ] {
            assert!(lets_in(&gate, Some(host), None), "{host}");
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
            assert!(!lets_in(&gate, Some(host), None), "{host}");
        }
        assert!(!lets_in(&gate, None, None), "no host at all");
        for origin in
            ["http://localhost:7070", "http://127.0.0.1:7070", "http://[::1]:7070", "https://app.example"]
        {
            assert!(lets_in(&gate, Some("localhost:7070"), Some(origin)), "{origin}");
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
            assert!(!lets_in(&gate, Some("localhost:7070"), Some(origin)), "{origin}");
        }
    }

    #[test]
    fn the_port_of_a_web_server_need_not_be_named() {
        let mut gate = gate(&[], &[]);
        gate.hosts = Some(ServedHosts { names: Vec::new(), port: 80 });
        assert!(lets_in(&gate, Some("localhost"), Some("http://localhost")));
        assert!(!lets_in(&gate, Some("localhost"), Some("https://localhost")));
        gate.hosts = None;
        assert!(lets_in(&gate, Some("anything"), None), "a socket in the file system has no name");
        assert!(!lets_in(&gate, Some("anything"), Some("http://localhost")));
    }

    #[test]
    fn two_hosts_are_none() {
        let gate = gate(&[], &[]);
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost:7070".parse().unwrap());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(gate.place(&Uri::from_static("/mcp"), &headers).is_err());
        headers.remove(HOST);
        headers.insert(HOST, "localhost:7070".parse().unwrap());
        for other in
            ["http://evil.example:7070/mcp", "http://localhost:7071/mcp", "http://a@localhost:7070/mcp"]
        {
            assert!(gate.place(&other.parse().unwrap(), &headers).is_err(), "{other}");
        }
        assert!(gate.place(&Uri::from_static("http://localhost:7070/mcp"), &headers).is_ok());
    }

    #[test]
    fn tokens_have_one_form() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for wrong in ["abc", "Basic abc", "Bearer", "Bearer ", ""] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_rate_counts_for_each_and_comes_back() {
        let rates = Rates::default();
        let now = Instant::now();
        let take = |whose, at| rates.take(whose, (10, 3), 1.0, at);
        assert!(take("a", now) && take("a", now) && take("a", now));
        assert!(!take("a", now));
        assert!(take("b", now));
        let later = now + Duration::from_millis(250);
        assert!(take("a", later) && take("a", later) && !take("a", later));
    }

    #[test]
    fn rates_are_not_remembered_without_end() {
        let rates = Rates::default();
        let now = Instant::now();
        for number in 0..RATES_MAX {
            assert!(rates.take(&number.to_string(), (1, 1), 1.0, now));
        }
        assert!(!rates.take("one more", (1, 1), 1.0, now));
        assert!(rates.take("one more", (1, 1), 1.0, now + Duration::from_secs(2)));
    }
}
