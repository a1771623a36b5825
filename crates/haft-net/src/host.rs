//! Hosts and host rules: the meaning of `WebFetch(domain:…)`, for every part of haft that opens
//! connections.
//!
//! Names are compared label by label and never as substrings: `example.com.evil.net` starts with
//! `example.com` and is not a subdomain of it. They are compared in the form that is sent:
//! lower-case ASCII with `xn--` labels. Non-ASCII names are refused in requests and in rules, so no
//! spelling is ambiguous. Alternative spellings of IP addresses (`127.1`, `0x7f000001`) are refused
//! too: they look like names, but resolvers take them for addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The maximum length of a host name.
const NAME_BYTES_MAX: usize = 253;
/// The maximum length of one label.
const LABEL_BYTES_MAX: usize = 63;

/// A host: a normalized name or an address.
///
/// ```
/// use haft_net::host::Host;
///
/// assert_eq!(Host::parse("Example.COM.").unwrap().to_string(), "example.com");
/// assert!(matches!(Host::parse("[::1]").unwrap(), Host::Address(address) if address.is_loopback()));
/// assert!(Host::parse("127.1").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name in lower case without a trailing dot.
    Name(String),
    /// An address; IPv4-mapped IPv6 addresses become IPv4.
    Address(IpAddr),
}

/// A text that is not a valid host or host rule; the message says why and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostParseError(String);

impl HostParseError {
    pub(crate) fn new(why: String) -> HostParseError {
        HostParseError(why)
    }
}

impl fmt::Display for HostParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostParseError {}

impl Host {
    /// Parses a host without scheme, port and path; an IPv6 address may have brackets.
    ///
    /// # Errors
    /// The text is not a valid host.
    pub fn parse(text: &str) -> Result<Host, HostParseError> {
        let bad = |why: &str| Err(HostParseError(format!("`{}` {why}", printable_excerpt(text))));
        if !text.is_ascii() {
            return bad("is not ASCII; write the host name as it is sent, with `xn--` labels");
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Some(bare) = bare {
            let Ok(address) = Ipv6Addr::from_str(bare) else { return bad("is no IPv6 address") };
            return Ok(Host::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = IpAddr::from_str(text) {
            return Ok(Host::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return bad("is no host name; it has 1 to 253 characters");
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > LABEL_BYTES_MAX {
                return bad("is no host name; there are 1 to 63 characters between two dots");
            }
            if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
                return bad(
                    "is no host name; it has letters, digits, `-`, `_` and dots, without scheme, port and \
                     path",
                );
            }
        }
        if is_numeric_label(name.rsplit('.').next().unwrap_or_default()) {
            return bad("is a number and no name; write an address as four numbers, `192.0.2.1`");
        }
        Ok(Host::Name(name))
    }

    /// Returns whether the host is this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Address(address) => address.is_loopback() || address.is_unspecified(),
        }
    }

    /// Returns the rule that opens a port of this machine under this name.
    pub fn local_rule(&self, port: u16) -> HostRule {
        let usual = HostRule::exact(&Host::Name("localhost".into())).with_port(port);
        if usual.opens_local(self, port) { usual } else { HostRule::exact(self).with_port(port) }
    }

    /// Returns the host as it is written before a port: IPv6 addresses have brackets.
    pub fn bracketed(&self) -> String {
        match self {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(address) => address.fmt(f),
        }
    }
}

/// Returns whether resolvers parse this last label as a number and the whole name as an address.
fn is_numeric_label(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A host pattern in a rule: `example.com`, `*.example.com`, `*`, `api-*.example.com`, or an
/// address, each with an optional port.
///
/// Case and a trailing dot are ignored. `*.h` matches every subdomain of `h` at any depth, and not
/// `h` itself. Any other `*` matches within one label. Without a port, an allow rule means the
/// ports 80 and 443, and a deny rule means every port.
///
/// ```
/// use haft_net::host::{Host, HostRule};
///
/// let rule: HostRule = "*.example.com".parse().unwrap();
/// assert!(rule.covers(&Host::parse("a.b.example.com").unwrap()));
/// assert!(!rule.covers(&Host::parse("example.com").unwrap()));
/// assert!(!rule.covers(&Host::parse("example.com.evil.net").unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostRule {
    pattern: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostPattern {
    All,
    Names { below: bool, labels: Vec<String> },
    Address(IpAddr),
}

impl HostRule {
    /// Creates a rule for exactly this host.
    pub fn exact(host: &Host) -> HostRule {
        let pattern = match host {
            Host::Name(name) => {
                HostPattern::Names { below: false, labels: name.split('.').map(str::to_owned).collect() }
            }
            Host::Address(address) => HostPattern::Address(*address),
        };
        HostRule { pattern, port: None }
    }

    /// Limits the rule to one port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> HostRule {
        self.port = Some(port);
        self
    }

    /// Returns the port of the rule.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns whether `WebFetch(domain:…)` with this pattern matches a host. The port is not
    /// considered.
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::All, _) => true,
            (HostPattern::Address(one), Host::Address(other)) => one == other,
            (HostPattern::Address(_), Host::Name(_)) => false,
            (HostPattern::Names { below, labels }, host) => {
                let host = host.to_string();
                let host_labels: Vec<&str> = host.split('.').collect();
                let Some(more) = host_labels.len().checked_sub(labels.len()) else { return false };
                (more > 0) == *below
                    && labels
                        .iter()
                        .zip(&host_labels[more..])
                        .all(|(label, host_labels)| label_matches(label, host_labels))
            }
        }
    }

    /// Returns whether the rule matches a host and is precise enough to allow it: only an exact
    /// rule allows an address or this machine.
    pub fn opens(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::Address(one), Host::Address(other)) => one == other,
            (_, Host::Address(_)) => false,
            (HostPattern::Names { below: false, labels }, host) if host.is_local() => {
                labels.join(".") == host.to_string()
            }
            (_, host) => !host.is_local() && self.covers(host),
        }
    }

    /// Returns whether the rule opens a port of this machine. A rule for `localhost`, `127.0.0.1`
    /// or `::1` applies to all three. Other loopback addresses need their own rule, because other
    /// programs may listen there. A rule without a port opens nothing.
    pub fn opens_local(&self, host: &Host, port: u16) -> bool {
        let usual = || ["localhost", "127.0.0.1", "::1"].map(Host::parse).into_iter().flatten();
        let same = || usual().any(|name| name == *host) && usual().any(|name| self.opens(&name));
        self.port == Some(port) && (self.opens(host) || same())
    }
}

impl FromStr for HostRule {
    type Err = HostParseError;

    fn from_str(text: &str) -> Result<HostRule, HostParseError> {
        let text = text.trim();
        let wanted = "a host such as `example.com`, `*.example.com`, `example.com:8443` or `*` is \
                      accepted, without scheme and path";
        let bad = |why: &str| HostParseError(format!("`{}` {why}; {wanted}", printable_excerpt(text)));
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let number =
                    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
                (
                    host,
                    Some(number.filter(|port| *port != 0).ok_or_else(|| bad("has no port after the colon"))?),
                )
            }
            _ => (text, None),
        };
        if host == "*" {
            return Ok(HostRule { pattern: HostPattern::All, port });
        }
        if !host.contains('*') {
            if host.contains(':') && !host.starts_with('[') {
                return Err(bad("is no host; an IPv6 address stands in brackets"));
            }
            let rule = HostRule::exact(&Host::parse(host)?);
            return Ok(HostRule { port, ..rule });
        }
        let (below, rest) = match host.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, host),
        };
        // With a letter in place of each star, the rest must be a valid name. Numeric patterns
        // serve deny rules.
        let number = rest.bytes().all(|byte| byte.is_ascii_digit() || b".*".contains(&byte));
        if !(number && rest.contains('*')) || rest.split('.').any(str::is_empty) {
            Host::parse(&rest.replace('*', "x")).map_err(|_| bad("is no host"))?;
        }
        let rest = rest.strip_suffix('.').unwrap_or(rest).to_ascii_lowercase();
        let labels = rest.split('.').map(str::to_owned).collect();
        Ok(HostRule { pattern: HostPattern::Names { below, labels }, port })
    }
}

/// The form that settings accept.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            HostPattern::All => f.write_str("*")?,
            HostPattern::Address(address) => f.write_str(&Host::Address(*address).bracketed())?,
            HostPattern::Names { below, labels } => {
                let start = if *below { "*." } else { "" };
                write!(f, "{start}{}", labels.join("."))?;
            }
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Returns whether a label matches a pattern with stars.
fn label_matches(pattern: &str, label: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == label };
    let (between, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = label.strip_prefix(head).and_then(|left| left.strip_suffix(tail)) else {
        return false;
    };
    // Taking the leftmost match of each part leaves the most room for the parts after it.
    between.split('*').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Returns an excerpt of an untrusted text for a message, with control characters replaced.
pub fn printable_excerpt(text: &str) -> String {
    let mut printable_excerpt: String =
        text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(100).is_some() {
        printable_excerpt.push('…');
    }
    printable_excerpt
}
