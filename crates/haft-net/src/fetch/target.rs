//! The target of a request: a URL that is parsed once, by the rules of browsers, and used only in
//! its normalized form.
//!
//! The code that checks a host and the code that dials it must agree on the host, so both take it
//! from here. User information is refused because it makes `https://example.com@evil.net` look like
//! another host. Ports of other protocols are refused because their servers can interpret a request
//! as commands.

use std::fmt;

use url::Url;

use super::limits::URL_BYTES_MAX;
use crate::host::{Host, printable_excerpt};

/// Ports of other protocols, sorted: the list of the fetch standard.
const OTHER_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// A URL that can be fetched: `http` or `https`, a host, no user information.
///
/// ```
/// use haft_net::fetch::FetchTarget;
///
/// let target = FetchTarget::parse("HTTPS://Example.COM:443/a?b#c").unwrap();
/// assert_eq!(target.to_string(), "https://example.com/a?b");
/// assert_eq!((target.host().to_string().as_str(), target.port()), ("example.com", 443));
/// assert!(FetchTarget::parse("https://me@example.com/").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchTarget {
    url: Url,
    host: Host,
    port: u16,
}

/// A text that is not a valid target; the message says why and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetParseError(String);

impl fmt::Display for TargetParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TargetParseError {}

impl FetchTarget {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is not a valid target.
    pub fn parse(text: &str) -> Result<FetchTarget, TargetParseError> {
        if text.len() > URL_BYTES_MAX {
            return Err(TargetParseError(format!("it has more than {URL_BYTES_MAX} bytes")));
        }
        let url = Url::parse(text.trim()).map_err(|error| {
            let hint = if text.contains("://") { "" } else { "; it begins with `https://`" };
            TargetParseError(format!("`{}` is no address: {error}{hint}", printable_excerpt(text)))
        })?;
        FetchTarget::from_url(url)
    }

    /// Resolves a reference relative to this URL.
    ///
    /// # Errors
    /// The result is not a valid target.
    pub fn join(&self, reference: &str) -> Result<FetchTarget, TargetParseError> {
        if reference.len() > URL_BYTES_MAX {
            return Err(TargetParseError(format!("it has more than {URL_BYTES_MAX} bytes")));
        }
        let bad =
            |error| TargetParseError(format!("`{}` is no address: {error}", printable_excerpt(reference)));
        FetchTarget::from_url(self.url.join(reference).map_err(bad)?)
    }

    fn from_url(mut url: Url) -> Result<FetchTarget, TargetParseError> {
        let bad = |why: String| Err(TargetParseError(why));
        if !matches!(url.scheme(), "http" | "https") {
            return bad(format!(
                "`{}:` is not fetched; `https:` and `http:` are",
                printable_excerpt(url.scheme())
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return bad("an address with a user or a password is refused; remove the part before `@`".into());
        }
        let host = match url.host() {
            Some(url::Host::Domain(name)) => {
                Host::parse(name).map_err(|bad| TargetParseError(bad.to_string()))?
            }
            Some(url::Host::Ipv4(address)) => Host::Address(address.into()),
            Some(url::Host::Ipv6(address)) => Host::Address(std::net::IpAddr::V6(address).to_canonical()),
            None => return bad("it names no host".into()),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        if OTHER_PORTS.binary_search(&port).is_ok() {
            return bad(format!("port {port} belongs to another protocol and is not fetched"));
        }
        url.set_fragment(None);
        Ok(FetchTarget { url, host, port })
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the explicit or default port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the scheme is `https`.
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the URL as text.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the path as it is sent.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// Returns the same URL with `https`; an explicit port stays.
    #[must_use]
    pub fn with_https(&self) -> FetchTarget {
        let mut url = self.url.clone();
        // Changing between `http` and `https` can't fail.
        let _ = url.set_scheme("https");
        FetchTarget::from_url(url).unwrap_or_else(|_| self.clone())
    }

    /// Appends query parameters.
    #[must_use]
    pub fn with_query<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> FetchTarget {
        let mut target = self.clone();
        target.url.query_pairs_mut().extend_pairs(pairs);
        target
    }

    /// Returns path and query for the request line.
    pub(super) fn request_path(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// Returns host and port for the `Host` header.
    pub(super) fn authority(&self) -> &str {
        &self.url[url::Position::BeforeHost..url::Position::AfterPort]
    }
}

impl fmt::Display for FetchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_are_sorted() {
        assert!(OTHER_PORTS.is_sorted());
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, part) in [
            ("example.com", "it begins with `https://`"),
            ("file:///etc/passwd", "`file:` is not fetched"),
            ("ftp://example.com/", "`ftp:` is not fetched"),
            ("javascript:alert(1)", "`javascript:` is not fetched"),
            ("https://a:b@example.com/", "a user or a password"),
            ("https://example.com@evil.net/", "a user or a password"),
            ("http://example.com:25/", "port 25"),
            ("http://exa mple.com/", "is no address"),
            ("http://256.256.256.256/", "is no address"),
            ("https://exa\0mple.com/", "is no address"),
        ] {
            let message = FetchTarget::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn numbers_are_the_addresses_that_browsers_make_of_them() {
        for (text, host) in [
            ("http://127.1/", "127.0.0.1"),
            ("http://0x7f000001/", "127.0.0.1"),
            ("http://017700000001/", "127.0.0.1"),
            ("http://[::ffff:7f00:1]/", "127.0.0.1"),
            ("http://①②⑦.0.0.1/", "127.0.0.1"),
            ("http://bücher.example/", "xn--bcher-kva.example"),
            ("http://EXAMPLE.com./", "example.com"),
        ] {
            assert_eq!(FetchTarget::parse(text).unwrap().host().to_string(), host, "{text}");
        }
    }

    #[test]
    fn a_plain_address_becomes_an_encrypted_one() {
        let up = |text: &str| FetchTarget::parse(text).unwrap().with_https().to_string();
        assert_eq!(up("http://example.com/a?b"), "https://example.com/a?b");
        assert_eq!(up("http://example.com:80/"), "https://example.com/");
        assert_eq!(up("http://example.com:8080/"), "https://example.com:8080/");
    }
}
