//! Host names in `WebFetch(domain:…)`, compared label by label and never as text: `example.com.evil.net` begins like
//! `example.com` and is not below it.

use std::collections::HashMap;

use super::pattern::{Shape, Wild};

/// The longest host name that is accepted.
const HOST_CHARS_MAX: usize = 253;

/// Hosts as a rule writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostSpec {
    /// `*`.
    All,
    Some {
        /// `*.`: something before the labels, at any depth.
        below: bool,
        /// A `*` in a label stays in it.
        labels: Vec<Wild>,
    },
}

impl HostSpec {
    /// Reads what stands after `domain:`.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    pub(super) fn parse(text: &str) -> Result<HostSpec, String> {
        let text = text.trim();
        if text == "*" {
            return Ok(HostSpec::All);
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if !rest.is_ascii() {
            return Err(format!(
                "`{text}` is not ASCII; write the host name as it is sent, with `xn--` labels"
            ));
        }
        let wanted = "a host name such as `example.com`, `*.example.com` or `*` is accepted";
        let is_address = rest.starts_with('[') && rest.ends_with(']');
        let plain =
            |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c) || (is_address && ":[]".contains(c));
        if rest.is_empty() || rest.len() > HOST_CHARS_MAX || !rest.chars().all(plain) {
            return Err(format!("`{text}` is no host name; {wanted}, without scheme, port and path"));
        }
        let host = canonical(rest);
        if host.split('.').any(str::is_empty) {
            return Err(format!("`{text}` has an empty label; {wanted}"));
        }
        Ok(HostSpec::Some { below, labels: host.split('.').map(Wild::new).collect() })
    }
}

/// Small letters, no dot at the end, no brackets.
pub(super) fn canonical(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.to_ascii_lowercase()
}

/// Rules by host.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    exact: HashMap<String, Vec<u32>>,
    below: HashMap<String, Vec<u32>>,
    wild: Vec<(bool, Vec<Wild>, u32)>,
    all: Vec<u32>,
}

impl Hosts {
    pub(super) fn insert(&mut self, spec: &HostSpec, rule: u32) {
        let HostSpec::Some { below, labels } = spec else { return self.all.push(rule) };
        let exact: Option<Vec<&str>> = labels.iter().map(Shape::exact).collect();
        match exact {
            Some(labels) => {
                let map = if *below { &mut self.below } else { &mut self.exact };
                map.entry(labels.join(".")).or_default().push(rule);
            }
            None => self.wild.push((*below, labels.clone(), rule)),
        }
    }

    /// Hands over every rule for this host.
    pub(super) fn each(&self, host: &str, mut found: impl FnMut(u32)) {
        let host = canonical(host);
        self.all.iter().for_each(|rule| found(*rule));
        self.exact.get(&host).into_iter().flatten().for_each(|rule| found(*rule));
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
