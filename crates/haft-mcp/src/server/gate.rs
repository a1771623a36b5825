//! Who may come in over HTTP: names of hosts and origins, tokens, how often.
//!
//! A page in a browser can make requests to servers on the same machine, and with a name of its own that points there it may
//! even read the answers. So a request has to name a host that is known here, and one that comes from a page has to name an
//! origin that is. That is asked before anything else, tokens included.

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
    /// Names of hosts, in small letters, beside those of this machine. None are asked for over a socket in the file system.
    pub(crate) hosts: Option<Vec<String>>,
    /// Origins of pages, beside those of this machine.
    pub(crate) origins: Vec<String>,
    pub(crate) check: Option<Arc<dyn TokenCheck>>,
    /// Requests a second, and at once.
    pub(crate) rate: Option<(u32, u32)>,
    pub(crate) rates: Rates,
}

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
            let host = named.filter(|_| is_one).and_then(host_of);
            // A request may name the host in its first line as well; then both count.
            let also = uri.host().map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase());
            let is_known = |host: &str| is_loopback(host) || hosts.iter().any(|known| known == host);
            if !host.as_deref().is_some_and(is_known) || !also.as_deref().is_none_or(is_known) {
                return Err(forbidden("this host is not served here; the server has a list of hosts"));
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
        let local = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| is_loopback(host.trim_matches(['[', ']'])))
        };
        // `null` and what is no address are no origins of this machine.
        Url::parse(origin).is_ok_and(|url| local(&url))
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

/// The name in a header `Host`, without the port, in small letters.
fn host_of(header: &str) -> Option<String> {
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
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (is_port && !host.is_empty()).then(|| host.to_ascii_lowercase())
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
            hosts: Some(hosts.iter().map(|host| (*host).to_owned()).collect()),
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
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:7777",
            "127.9.9.9",
            "[::1]:80",
            "[::1]",
            "haft.example:443",
        ] {
            assert!(lets_in(&gate, Some(host), None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:80",
            "localhost:x",
            "[::1",
            "",
            "localhost:80:80",
            "10.0.0.1",
            "0.0.0.0",
            "haft.example.evil",
            "user@localhost",
        ] {
            assert!(!lets_in(&gate, Some(host), None), "{host}");
        }
        assert!(!lets_in(&gate, None, None), "no host at all");
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5", "https://app.example"]
        {
            assert!(lets_in(&gate, Some("localhost"), Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "https://app.example.evil",
            "file://",
            "http://localhost.evil",
            "app.example",
            "",
        ] {
            assert!(!lets_in(&gate, Some("localhost"), Some(origin)), "{origin}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        let gate = gate(&[], &[]);
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(gate.place(&Uri::from_static("/mcp"), &headers).is_err());
        headers.remove(HOST);
        headers.insert(HOST, "localhost".parse().unwrap());
        assert!(gate.place(&Uri::from_static("http://evil.example/mcp"), &headers).is_err());
        assert!(gate.place(&Uri::from_static("http://localhost/mcp"), &headers).is_ok());
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
