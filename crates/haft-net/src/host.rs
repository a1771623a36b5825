//! Hosts, and rules on them: what `WebFetch(domain:…)` means, usable by whoever reaches out.
//!
//! Names are compared label by label and never as text: `example.com.evil.net` begins like `example.com` and is not
//! below it. They are compared in the form in which they are sent, small ASCII letters with `xn--` labels; what isn't
//! ASCII is refused, on the wire and in rules, so that nobody has to guess which of two spellings was meant. A number
//! in another spelling (`127.1`, `0x7f000001`) looks like a name and is resolved like an address: refused as well.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The longest name of a host.
const NAME_BYTES_MAX: usize = 253;
/// The longest part of it between two dots.
const LABEL_BYTES_MAX: usize = 63;

/// A host: a name in its one form, or an address.
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
    /// A name: small letters, no dot at the end.
    Name(String),
    /// An address; IPv4 where it was written inside of IPv6.
    Address(IpAddr),
}

/// A text that is no host, or no rule for hosts: why, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHost(String);

impl BadHost {
    pub(crate) fn new(why: String) -> BadHost {
        BadHost(why)
    }
}

impl fmt::Display for BadHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadHost {}

impl Host {
    /// Reads a host without scheme, port and path; an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Host, BadHost> {
        let bad = |why: &str| Err(BadHost(format!("`{}` {why}", shown(text))));
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
                    "is no host name; it has letters, digits, `-`, `_` and dots, without scheme, port and path",
                );
            }
        }
        if is_number(name.rsplit('.').next().unwrap_or_default()) {
            return bad("is a number and no name; write an address as four numbers, `192.0.2.1`");
        }
        Ok(Host::Name(name))
    }

    /// Whether it means the machine on which it is used.
    pub fn is_local(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Address(address) => address.is_loopback() || address.is_unspecified(),
        }
    }

    /// The rule that opens a port of this machine under this name of it.
    pub fn local_rule(&self, port: u16) -> HostRule {
        let usual = HostRule::exact(&Host::Name("localhost".into())).with_port(port);
        if usual.opens_local(self, port) { usual } else { HostRule::exact(self).with_port(port) }
    }

    /// As it stands before a port: IPv6 in brackets.
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

/// Whether resolvers take a last label for a number, and the whole for an address.
fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Hosts as a rule writes them: `example.com`, `*.example.com`, `*`, `api-*.example.com`, an address, and each of these
/// with a port.
///
/// Case and a dot at the end don't matter. `*.h` is what is below `h` at any depth and not `h` itself; any other `*`
/// stays inside of its label. Without a port it means the ports 80 and 443 where it allows, and every port where it
/// denies.
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
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    All,
    Names { below: bool, labels: Vec<String> },
    Address(IpAddr),
}

impl HostRule {
    /// Exactly this host.
    pub fn exact(host: &Host) -> HostRule {
        let pattern = match host {
            Host::Name(name) => {
                Pattern::Names { below: false, labels: name.split('.').map(str::to_owned).collect() }
            }
            Host::Address(address) => Pattern::Address(*address),
        };
        HostRule { pattern, port: None }
    }

    /// The same for one port only.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> HostRule {
        self.port = Some(port);
        self
    }

    /// The port that it names.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether `WebFetch(domain:…)` with this host would match; the port is another matter.
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (Pattern::All, _) => true,
            (Pattern::Address(one), Host::Address(other)) => one == other,
            (Pattern::Address(_), Host::Name(_)) => false,
            (Pattern::Names { below, labels }, host) => {
                let host = host.to_string();
                let given: Vec<&str> = host.split('.').collect();
                let Some(more) = given.len().checked_sub(labels.len()) else { return false };
                (more > 0) == *below
                    && labels.iter().zip(&given[more..]).all(|(label, given)| fits(label, given))
            }
        }
    }

    /// Whether it covers the host and is precise enough to open it: an address, and this machine, only where the rule
    /// names exactly that.
    pub fn opens(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (Pattern::Address(one), Host::Address(other)) => one == other,
            (_, Host::Address(_)) => false,
            (Pattern::Names { below: false, labels }, host) if host.is_local() => {
                labels.join(".") == host.to_string()
            }
            (_, host) => !host.is_local() && self.covers(host),
        }
    }

    /// Whether it opens a port of this machine. A rule for one of its usual names opens it by each of them; its other
    /// addresses, at which others may listen, need a rule of their own. Without a port a rule opens none.
    pub fn opens_local(&self, host: &Host, port: u16) -> bool {
        let usual = || ["localhost", "127.0.0.1", "::1"].map(Host::parse).into_iter().flatten();
        let same = || usual().any(|name| name == *host) && usual().any(|name| self.opens(&name));
        self.port == Some(port) && (self.opens(host) || same())
    }
}

impl FromStr for HostRule {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<HostRule, BadHost> {
        let text = text.trim();
        let wanted = "a host such as `example.com`, `*.example.com`, `example.com:8443` or `*` is accepted, without \
                      scheme and path";
        let bad = |why: &str| BadHost(format!("`{}` {why}; {wanted}", shown(text)));
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
            return Ok(HostRule { pattern: Pattern::All, port });
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
        // A letter in place of each star: the rest has to be a name. Patterns of numbers are for denying.
        let number = rest.bytes().all(|byte| byte.is_ascii_digit() || b".*".contains(&byte));
        if !(number && rest.contains('*')) || rest.split('.').any(str::is_empty) {
            Host::parse(&rest.replace('*', "x")).map_err(|_| bad("is no host"))?;
        }
        let rest = rest.strip_suffix('.').unwrap_or(rest).to_ascii_lowercase();
        let labels = rest.split('.').map(str::to_owned).collect();
        Ok(HostRule { pattern: Pattern::Names { below, labels }, port })
    }
}

/// As it can be written in settings.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::All => f.write_str("*")?,
            Pattern::Address(address) => f.write_str(&Host::Address(*address).bracketed())?,
            Pattern::Names { below, labels } => {
                let start = if *below { "*." } else { "" };
                write!(f, "{start}{}", labels.join("."))?;
            }
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Whether a label fits one with stars in it.
fn fits(pattern: &str, label: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == label };
    let (between, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = label.strip_prefix(head).and_then(|left| left.strip_suffix(tail)) else {
        return false;
    };
    // The leftmost place of each part leaves the most room for the ones after it.
    between.split('*').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

/// So much of a foreign text as a message has room for, without anything that a terminal obeys.
pub fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(100).is_some() {
        shown.push('…');
    }
    shown
}
