//! Which requests of pages may go, as far as that is this tool's to say.
//!
//! In the sandbox every request but those to its own loopback goes through the session's proxy, which knows
//! the rules, looks names up and refuses; here only the loopback is left to judge, by port. Without a sandbox
//! there is no such proxy, and every request is looked at before it goes, by the check of the session's
//! processes. That is weaker: the browser looks the name up once more by itself, and connections that aren't
//! requests (WebSockets) aren't seen.

use std::net::IpAddr;

use haft::ports::HostGrants;
use url::{Host, Url};

/// Ports of the loopback that may be granted.
const PORTS_MAX: usize = 64;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestVerdict {
    Go,
    /// The host has to be looked up.
    Look,
    /// It may not, for this reason.
    No(String),
}

/// Who may be reached.
#[derive(Clone)]
pub(super) struct RequestFilter {
    /// The proxy's address with its user and password, in the sandbox.
    proxy: Option<Url>,
    /// Ports of the loopback that pages may reach.
    ports: Vec<u16>,
    /// Hosts that calls were let reach.
    pub(super) grants: HostGrants,
}

impl RequestFilter {
    pub(super) fn new(proxy: Option<Url>, ports: Vec<u16>, grants: HostGrants) -> RequestFilter {
        RequestFilter { proxy, ports, grants }
    }

    /// Whether the session's proxy is between pages and the world.
    pub(super) fn is_confined(&self) -> bool {
        self.proxy.is_some()
    }

    /// User and password of the proxy.
    pub(super) fn password(&self) -> Option<(&str, &str)> {
        self.proxy.as_ref().and_then(|proxy| Some((proxy.username(), proxy.password()?)))
    }

    /// Lets pages reach what a call was allowed to open. Addresses are opened by rules that name them, and
    /// this machine by a rule with the port; but the loopback of a sandbox has only what the session itself
    /// started.
    pub(super) fn grant(&mut self, url: &Url) {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return };
        if is_local(&host) {
            if self.is_confined() && self.ports.len() < PORTS_MAX && !self.ports.contains(&port) {
                self.ports.push(port);
            }
        } else if let Host::Domain(name) = host {
            let usual = matches!((url.scheme(), port), ("http", 80) | ("https", 443));
            let _ = self.grants.grant(if usual { name.to_owned() } else { format!("{name}:{port}") });
        }
    }

    /// What becomes of a request.
    pub(super) fn judge(&self, text: &str) -> RequestVerdict {
        let Ok(url) = Url::parse(text) else { return RequestVerdict::No("it is no address".into()) };
        match url.scheme() {
            "data" | "blob" | "about" => return RequestVerdict::Go,
            "http" | "https" | "ws" | "wss" => {}
            scheme => return RequestVerdict::No(format!("pages reach http and https, and no `{scheme}:`")),
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return RequestVerdict::No("it names no host".into());
        };
        if is_local(&host) {
            return match self.ports.contains(&port) {
                true => RequestVerdict::Go,
                false if self.is_confined() => RequestVerdict::No(format!(
                    "port {port} of this session's own machine is opened by BrowserNavigate to it, or by \
                     `localhost:{port}` in `sandbox.network.allowedDomains`"
                )),
                false => RequestVerdict::No(format!(
                    "port {port} of this machine is opened by `localhost:{port}` in `sandbox.network.allowedDomains`"
                )),
            };
        }
        if self.is_confined() { RequestVerdict::Go } else { RequestVerdict::Look }
    }
}

/// The host of an address, as it is sent.
pub(super) fn host_of(text: &str) -> Option<String> {
    Url::parse(text).ok()?.host().map(|host| unbracketed_host(&host))
}

/// A host without brackets.
pub(super) fn unbracketed_host(host: &Host<&str>) -> String {
    match host {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_canonical().to_string(),
    }
}

/// Whether a host is the machine on which the browser runs.
pub(super) fn is_local(host: &Host<&str>) -> bool {
    let here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(address) => here((*address).into()),
        Host::Ipv6(address) => here(address.to_canonical()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(confined: bool, ports: &[u16]) -> RequestFilter {
        let proxy = confined.then(|| Url::parse("http://haft:token@127.0.0.1:3128").unwrap());
        RequestFilter::new(proxy, ports.to_vec(), HostGrants::default())
    }

    #[test]
    fn the_loopback_is_open_by_port_and_the_rest_is_the_proxys() {
        let check = |guard: &RequestFilter, url: &str, expected: &str| {
            let found = match guard.judge(url) {
                RequestVerdict::Go => "go".to_owned(),
                RequestVerdict::Look => "look".to_owned(),
                RequestVerdict::No(why) => why,
            };
            assert!(found.contains(expected), "{url}: {found}");
        };
        let (inside, outside) = (guard(true, &[5173]), guard(false, &[5173]));
        for open in [
            "http://localhost:5173/a",
            "ws://127.0.0.1:5173",
            "http://[::1]:5173/",
            "http://a.localhost.:5173",
        ] {
            check(&inside, open, "go");
            check(&outside, open, "go");
        }
        for shut in [
            "http://localhost:8080/",
            "https://127.0.0.1/",
            "http://[::ffff:127.0.0.1]:22/",
            "http://0.0.0.0:3128/",
        ] {
            check(&inside, shut, "is opened by BrowserNavigate");
            check(&outside, shut, "of this machine is opened by `localhost:");
        }
        for other in ["https://example.com/", "http://10.0.0.1/", "https://localhost.evil.example/"] {
            check(&inside, other, "go");
            check(&outside, other, "look");
        }
        check(&inside, "data:text/html,hi", "go");
        for bad in ["file:///etc/passwd", "chrome://settings", "ftp://x.io/", "view-source:http://x.io"] {
            check(&inside, bad, "pages reach http and https");
        }
        check(&inside, "nonsense", "no address");
    }

    #[test]
    fn a_call_opens_the_name_that_it_names_and_no_address() {
        let open = |confined: bool, url: &str| {
            let mut guard = guard(confined, &[]);
            guard.grant(&Url::parse(url).unwrap());
            (guard.grants.hosts(), guard.ports)
        };
        let hosts = |hosts: &[&str]| (hosts.iter().map(|host| (*host).to_owned()).collect(), Vec::new());
        assert_eq!(open(true, "https://Example.com/a"), hosts(&["example.com"]));
        assert_eq!(open(true, "https://example.com:8443/a"), hosts(&["example.com:8443"]));
        assert_eq!(open(true, "http://10.0.0.1/"), hosts(&[]));
        assert_eq!(open(true, "http://localhost:5173/"), (Vec::new(), vec![5173]));
        assert_eq!(open(false, "http://localhost:5173/"), hosts(&[]), "this is the user's own machine");
    }
}
