//! Host names in `WebFetch(domain:…)`. They are compared label by label and never as text:
//! `example.com.evil.net` begins like `example.com` but is not a subdomain of it.
//!
//! Both sides are converted to the form that a browser sends, so that no alternative spelling bypasses a
//! rule: `EXAMPLE.com.`, `ex%61mple.com` and full-width letters are one host, `0x7f.1` and `2130706433` are
//! one address.

use std::borrow::Cow;
use std::collections::HashMap;

use haft::effects::template;

use super::pattern::{IndexedPattern, WildcardPattern};

/// The maximum length of a host name.
const HOST_CHARS_MAX: usize = 253;

/// The host pattern of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostSpec {
    /// `*`.
    All,
    Some {
        /// `*.`: any subdomain, at any depth.
        below: bool,
        /// A `*` in a label doesn't match across dots.
        labels: Vec<WildcardPattern>,
    },
}

impl HostSpec {
    /// Parses the text after `domain:`.
    ///
    /// # Errors
    /// Returns a message that says what is wrong and what to write instead.
    pub(super) fn parse(text: &str) -> Result<HostSpec, String> {
        let text = text.trim();
        if text == "*" {
            return Ok(HostSpec::All);
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let wanted = "a host name such as `example.com`, `*.example.com` or `*` is accepted";
        let refused = || format!("`{text}` is no host name; {wanted}, without scheme, port and path");
        // An address may end in a port, a rule may not.
        let is_address = rest.parse::<std::net::Ipv6Addr>().is_ok() || rest.ends_with(']');
        if rest.len() > HOST_CHARS_MAX || rest.contains(['/', '@']) || (rest.contains(':') && !is_address) {
            return Err(refused());
        }
        let host = if rest.contains('*') {
            parse_wildcard(rest).ok_or_else(refused)?
        } else {
            template::parse_host(rest).ok_or_else(refused)?
        };
        if host.split('.').any(str::is_empty) {
            return Err(format!("`{text}` has an empty label; {wanted}"));
        }
        Ok(HostSpec::Some { below, labels: host.split('.').map(WildcardPattern::new).collect() })
    }
}

/// Converts a name with wildcards label by label. Labels without a wildcard get the form that is sent.
fn parse_wildcard(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_*".contains(c);
    let label = |label: &str| match label.contains('*') {
        true => label.chars().all(plain).then(|| label.to_ascii_lowercase()),
        false if label.chars().all(plain) => Some(label.to_ascii_lowercase()),
        false => template::parse_host(label),
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let labels: Option<Vec<String>> = text.split('.').map(label).collect();
    labels.map(|labels| labels.join("."))
}

/// Returns the canonical form of a host. A text that is not a host is only converted to lower case.
pub(super) fn canonical_host(host: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    let last = host.rsplit('.').next().unwrap_or("");
    // A name that ends in a number is an IPv4 address, which has many spellings.
    let is_name = last.starts_with(|c: char| c.is_ascii_lowercase());
    if is_name && host.bytes().all(plain) && !host.contains("xn--") {
        return Cow::Borrowed(host);
    }
    template::parse_host(host).map_or_else(|| Cow::Owned(host.to_ascii_lowercase()), Cow::Owned)
}

/// Rules indexed by host.
#[derive(Debug, Clone, Default)]
pub(super) struct HostIndex {
    exact: HashMap<String, Vec<u32>>,
    below: HashMap<String, Vec<u32>>,
    wild: Vec<(bool, Vec<WildcardPattern>, u32)>,
    all: Vec<u32>,
}

impl HostIndex {
    pub(super) fn insert(&mut self, spec: &HostSpec, rule: u32) {
        let HostSpec::Some { below, labels } = spec else { return self.all.push(rule) };
        let exact: Option<Vec<&str>> = labels.iter().map(IndexedPattern::exact).collect();
        match exact {
            Some(labels) => {
                let map = if *below { &mut self.below } else { &mut self.exact };
                map.entry(labels.join(".")).or_default().push(rule);
            }
            None => self.wild.push((*below, labels.clone(), rule)),
        }
    }

    /// Calls `found` for every rule that matches this host.
    pub(super) fn each(&self, host: &str, mut found: impl FnMut(u32)) {
        let host = canonical_host(host);
        self.all.iter().for_each(|rule| found(*rule));
        let host = &*host;
        self.exact.get(host).into_iter().flatten().for_each(|rule| found(*rule));
        if !self.below.is_empty() {
            for (dot, _) in host.match_indices('.').filter(|(dot, _)| *dot > 0) {
                self.below.get(&host[dot + 1..]).into_iter().flatten().for_each(|rule| found(*rule));
            }
        }
        if !self.wild.is_empty() {
            let labels: Vec<&str> = host.split('.').collect();
            for (below, patterns, rule) in &self.wild {
                let more = labels.len().checked_sub(patterns.len());
                let fits = more.is_some_and(|more| (more > 0) == *below);
                let start = more.unwrap_or_default();
                if fits
                    && patterns.iter().zip(&labels[start..]).all(|(pattern, label)| pattern.matches(label))
                {
                    found(*rule);
                }
            }
        }
    }
}
