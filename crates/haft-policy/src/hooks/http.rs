//! HTTP hooks: the event is sent as a request, and the response is read like a program's output.
//!
//! Requests go directly to the address, without a proxy and without redirects, since either could send the
//! event to a host that the user did not allow. The client is created when the first hook needs it, because
//! loading the machine's certificates takes a while.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Url, redirect};

use super::{HookSession, limits};
use crate::settings::{HookSettings, SettingValue};

/// The HTTP client, and the limits that settings put on requests.
pub(super) struct HookHttpClient {
    /// The client, created on first use.
    client: OnceLock<Result<reqwest::Client, String>>,
    allowed_urls: Option<Vec<String>>,
    allowed_variables: Option<Vec<String>>,
}

impl HookHttpClient {
    pub(super) fn new(settings: &HookSettings) -> HookHttpClient {
        let texts = |list: &Option<Vec<SettingValue<String>>>| {
            list.as_ref().map(|list| list.iter().map(|at| at.value.clone()).collect())
        };
        HookHttpClient {
            client: OnceLock::new(),
            allowed_urls: texts(&settings.allowed_urls),
            allowed_variables: texts(&settings.allowed_env_vars),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, String> {
        let made = self.client.get_or_init(|| {
            // Fails if the host has already installed a provider, which is fine too.
            let _ = rustls::crypto::ring::default_provider().install_default();
            reqwest::Client::builder()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| format!("no request can be sent: {}", describe_error_chain(&error)))
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Sends an event. Returns the body of a successful response, and whether it was truncated.
    pub(super) async fn post(
        &self,
        url: &str,
        headers: Result<HeaderMap, String>,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<(String, bool), String> {
        let request = self.client()?.post(url).headers(headers?).header("content-type", "application/json");
        let exchange = async {
            let mut answer = request.body(body).send().await.map_err(|error| describe_failure(&error))?;
            if !answer.status().is_success() {
                return Err(format!("its address answered {}", answer.status()));
            }
            let mut body = Vec::new();
            while let Some(bytes) = answer.chunk().await.map_err(|error| describe_failure(&error))? {
                let room = limits::OUTPUT_BYTES_MAX - body.len();
                body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    return Ok((body, true));
                }
            }
            Ok((body, false))
        };
        let (body, cut) = tokio::time::timeout(limit, exchange)
            .await
            .map_err(|_| format!("its address took longer than {} s", limit.as_secs_f64()))??;
        Ok((String::from_utf8_lossy(&body).into_owned(), cut))
    }
}

fn describe_failure(error: &reqwest::Error) -> String {
    format!("its address could not be asked: {}", describe_error_chain(error))
}

/// Formats an error with its sources, without the address, which may contain a secret.
fn describe_error_chain(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        words.push(error.to_string());
        next = error.source();
    }
    match words.is_empty() {
        true if error.is_builder() => "the address or a header can't be used".into(),
        true => "the connection failed".into(),
        false => words.join(": "),
    }
}

impl HookHttpClient {
    /// Checks that settings allow an address.
    pub(super) fn may_reach(&self, url: &str) -> Result<(), String> {
        let parsed = Url::parse(url).map_err(|error| format!("its address can't be read: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(format!(
                "its address begins with `{}:`; `http:` and `https:` are accepted",
                parsed.scheme()
            ));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("its address has a user name in it; put it into a header".into());
        }
        match &self.allowed_urls {
            Some(allowed) if !allowed.iter().any(|pattern| is_allowed(pattern, &parsed)) => {
                Err("its address is not among `allowedHttpHookUrls`".into())
            }
            _ => Ok(()),
        }
    }

    /// Replaces `$NAME` and `${NAME}` in headers by the variable's value if the name is allowed, otherwise
    /// by nothing.
    pub(super) fn headers(
        &self,
        headers: &BTreeMap<String, String>,
        allowed: &[String],
        session: &HookSession,
    ) -> Result<HeaderMap, String> {
        let value_of = |name: &str| {
            let may = allowed.iter().any(|known| known == name)
                && self.allowed_variables.as_ref().is_none_or(|all| all.iter().any(|known| known == name));
            if may { session.variable(name).unwrap_or_default() } else { "" }
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = || format!("its header `{name}` can't be sent");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&expand_variables(value, value_of)).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.append(key, value);
        }
        Ok(map)
    }
}

/// Replaces the variables in a text.
fn expand_variables<'a>(text: &str, value_of: impl Fn(&str) -> &'a str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match braced.filter(|(name, _)| is_name(name)) {
            Some((name, left)) => {
                out.push_str(value_of(name));
                rest = left;
            }
            None => {
                let end =
                    after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
                if end == 0 {
                    out.push('$');
                } else {
                    out.push_str(value_of(&after[..end]));
                }
                rest = &after[end..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns whether an address matches a pattern with `*`, part by part: a `*` in the host never matches
/// into the path.
fn is_allowed(pattern: &str, url: &Url) -> bool {
    let Some((scheme, rest)) = pattern.split_once("://") else { return false };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!("{host}:{port}"));
    let mut target = url.path().to_owned();
    if let Some(query) = url.query() {
        target.push('?');
        target.push_str(query);
    }
    let known_port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
    let authority = authority.to_ascii_lowercase();
    let authorities = [Some(port.unwrap_or_else(|| host.to_owned())), known_port];
    matches_glob(&scheme.to_ascii_lowercase(), url.scheme())
        && authorities.into_iter().flatten().any(|given| matches_glob(&authority, &given))
        && matches_glob(path, &target)
}

/// Returns whether a text matches a pattern in which `*` matches anything.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, url: &str, allowed: bool) {
        let url = Url::parse(url).expect("an address");
        assert_eq!(is_allowed(pattern, &url), allowed, "{pattern} {url}");
    }

    #[test]
    fn patterns_of_addresses() {
        check("https://hooks.example.com/*", "https://hooks.example.com/a/b?c=d", true);
        check("https://hooks.example.com/*", "https://hooks.example.com.evil.org/a", false);
        check("https://hooks.example.com/*", "http://hooks.example.com/a", false);
        check("https://*.example.com/*", "https://a.example.com/x", true);
        check("https://*.example.com/*", "https://evil.org/.example.com/x", false);
        check("https://*.example.com/*", "https://evil.org/?.example.com/x", false);
        check("http://localhost:*/*", "http://localhost:8080/hook", true);
        check("http://localhost:*/*", "http://localhost/hook", true);
        check("http://localhost:8080/hook", "http://localhost:8080/hook", true);
        check("http://localhost:8080/hook", "http://localhost:8080/hook2", false);
        check("http://localhost:8080", "http://localhost:8080/", true);
        check("*", "http://localhost:8080/", false);
        check("*://*/*", "http://localhost:8080/a", true);
        check("https://EXAMPLE.com/*", "https://example.COM/a", true);
        check("http://a/*b*c", "http://a/xbyc", true);
        check("http://a/*b*c", "http://a/xcyb", false);
    }

    #[test]
    fn variables_in_headers() {
        let value_of = |name: &str| if name == "TOKEN" { "t0" } else { "" };
        for (text, expected) in [
            ("Bearer $TOKEN", "Bearer t0"),
            ("${TOKEN}x", "t0x"),
            ("$OTHER.", "."),
            ("cost: 5$", "cost: 5$"),
            ("$$TOKEN", "$t0"),
            ("${not a name}", "${not a name}"),
            ("${TOKEN", "${TOKEN"),
        ] {
            assert_eq!(expand_variables(text, value_of), expected, "{text}");
        }
    }
}
