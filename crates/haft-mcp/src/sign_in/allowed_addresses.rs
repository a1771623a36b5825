//! To which addresses requests are made because a server said so.
//!
//! A server names whoever gives tokens for it, and that one names more addresses. Without rules a server on
//! the internet could have this machine ask its neighbours, or the metadata service of a cloud. So: `https`,
//! or `http` on this machine for a server that is on this machine; and nothing that is nearer to us than the
//! server itself. Names are judged by what they resolve to, in the client's own resolver, and exactly those
//! addresses are dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

use crate::limits::URI_CHARS_MAX;
use crate::text;

/// How near an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressScope {
    /// Anywhere on the internet.
    Public,
    /// In a network of somebody's own.
    Private,
    /// This machine.
    Here,
    /// Nothing that a server has to do with: neighbours on the wire, many machines at once, reserved.
    Nowhere,
}

fn place_of_v4(address: Ipv4Addr) -> AddressScope {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => AddressScope::Here,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => AddressScope::Private,
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) => {
            AddressScope::Nowhere
        }
        (198, 51, 100) | (203, 0, 113) => AddressScope::Nowhere,
        _ => AddressScope::Public,
    }
}

fn place_of_v6(address: Ipv6Addr) -> AddressScope {
    if address == Ipv6Addr::LOCALHOST {
        return AddressScope::Here;
    }
    let parts = address.segments();
    let inside = || Ipv4Addr::from_bits(u32::from(parts[6]) << 16 | u32::from(parts[7]));
    match parts {
        // An IPv4 address in another form is that address.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => place_of_v4(inside()),
        [0xfc00..=0xfdff, ..] => AddressScope::Private,
        // Tunnels carry addresses of which nobody knows where they lead.
        [0x2001, 0 | 0xdb8, ..] | [0x2002, ..] => AddressScope::Nowhere,
        [0x2000..=0x3fff, ..] => AddressScope::Public,
        _ => AddressScope::Nowhere,
    }
}

/// How near an address is.
pub(crate) fn place_of(address: IpAddr) -> AddressScope {
    match address {
        IpAddr::V4(address) => place_of_v4(address),
        IpAddr::V6(address) => place_of_v6(address),
    }
}

/// How near a host is, as far as its name says so.
pub(crate) fn place_of_host(url: &Url) -> Option<AddressScope> {
    match url.host()? {
        Host::Ipv4(address) => Some(place_of_v4(address)),
        Host::Ipv6(address) => Some(place_of_v6(address)),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            (name == "localhost" || name.ends_with(".localhost")).then_some(AddressScope::Here)
        }
    }
}

/// Whether an address may carry what is secret: encrypted, or on this machine.
pub(crate) fn is_confidential(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && place_of_host(url) == Some(AddressScope::Here))
}

/// What may be reached on behalf of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowedAddresses {
    /// Where the server is.
    server: AddressScope,
}

impl AllowedAddresses {
    pub(crate) fn around(server: AddressScope) -> AllowedAddresses {
        AllowedAddresses { server }
    }

    /// What may be reached on behalf of the server at this address. A proxy resolves names itself, so with
    /// one a name counts as public.
    pub(crate) async fn for_server(server: &Url, by_proxy: bool) -> AllowedAddresses {
        if let Some(place) = place_of_host(server) {
            return AllowedAddresses::around(place);
        }
        let (Some(host), Some(port), false) = (server.host_str(), server.port_or_known_default(), by_proxy)
        else {
            return AllowedAddresses::around(AddressScope::Public);
        };
        // The farthest of its addresses: one that is near as well gives no right to what is near. Nothing
        // that has to be resolved is this machine.
        let found = tokio::net::lookup_host((host, port)).await;
        let farthest = found.into_iter().flatten().map(|address| place_of(address.ip())).min();
        AllowedAddresses::around(match farthest {
            Some(AddressScope::Private) => AddressScope::Private,
            _ => AddressScope::Public,
        })
    }

    pub(crate) fn allows(self, place: AddressScope) -> bool {
        place != AddressScope::Nowhere && place <= self.server
    }

    /// All of these, if each may be reached.
    pub(crate) fn checked(self, name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        match found.iter().find(|address| !self.allows(place_of(address.ip()))) {
            None if found.is_empty() => Err(format!("`{}` has no address", text::display_line(name, 200))),
            None => Ok(found),
            Some(bad) => Err(format!(
                "`{}` is {}, which a server elsewhere has no business with",
                text::display_line(name, 200),
                bad.ip()
            )),
        }
    }

    /// An address that somebody named, if it may be asked, or shown to a user.
    ///
    /// # Errors
    /// What is wrong with it, with what it is for.
    pub(crate) fn check(self, address: &str, what: &str) -> Result<Url, String> {
        let bad =
            |why: &str| Err(format!("{what} `{}` is not used: {why}", text::display_line(address, 200)));
        if address.len() > URI_CHARS_MAX {
            return bad("it is too long");
        }
        let Ok(url) = Url::parse(address) else { return bad("it is no address") };
        if !matches!(url.scheme(), "https" | "http") {
            return bad("only https is");
        }
        if !is_confidential(&url) {
            return bad("only https is, or http on this machine");
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return bad("it has a name, a password or a fragment in it");
        }
        match place_of_host(&url) {
            Some(place) if !self.allows(place) => bad("a server elsewhere has no business there"),
            _ if url.host().is_none() => bad("it names no host"),
            _ => Ok(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_nearer_than_the_server_is_asked() {
        let check = |server: AddressScope, address: &str| {
            AllowedAddresses::around(server).check(address, "x").is_ok()
        };
        for (address, public, private, here) in [
            ("https://as.example/token", true, true, true),
            ("https://93.184.216.34/", true, true, true),
            ("https://10.0.0.1/", false, true, true),
            ("https://[fd00::1]/", false, true, true),
            ("https://100.64.1.1/", false, true, true),
            ("https://127.0.0.1/", false, false, true),
            ("https://localhost/", false, false, true),
            ("https://a.localhost./", false, false, true),
            ("http://127.0.0.1:1/", false, false, true),
            ("http://[::1]:1/", false, false, true),
            ("http://localhost:1/", false, false, true),
            ("https://[::ffff:127.0.0.1]/", false, false, true),
            ("https://[::ffff:7f00:1]/", false, false, true),
            ("https://2130706433/", false, false, true),
            ("https://0x7f.1/", false, false, true),
            ("https://169.254.169.254/latest", false, false, false),
            ("https://[fe80::1]/", false, false, false),
            ("https://0.0.0.0/", false, false, false),
            ("https://[::]/", false, false, false),
            ("https://[64:ff9b::a9fe:a9fe]/", false, false, false),
            ("http://as.example/", false, false, false),
            ("http://10.0.0.1/", false, false, false),
            ("javascript:alert(1)", false, false, false),
            ("file:///etc/passwd", false, false, false),
            ("data:text/html,x", false, false, false),
            ("https://me:pw@as.example/", false, false, false),
            ("https://as.example/#x", false, false, false),
            ("as.example", false, false, false),
        ] {
            assert_eq!(check(AddressScope::Public, address), public, "public {address}");
            assert_eq!(check(AddressScope::Private, address), private, "private {address}");
            assert_eq!(check(AddressScope::Here, address), here, "here {address}");
        }
        let long = format!("https://as.example/{}", "x".repeat(5_000));
        assert!(!check(AddressScope::Here, &long));
    }

    #[test]
    fn one_address_too_near_is_enough_to_refuse_a_name() {
        let places = AllowedAddresses::around(AddressScope::Public);
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(places.checked("x", vec![at("93.184.216.34:443")]).is_ok());
        let words = places.checked("x", vec![at("93.184.216.34:443"), at("10.1.2.3:443")]).unwrap_err();
        assert!(words.contains("10.1.2.3"), "{words}");
        assert!(places.checked("x", Vec::new()).is_err());
    }

    #[tokio::test]
    async fn a_server_here_is_one_that_says_so() {
        let of = |url: &str| {
            let url = Url::parse(url).unwrap();
            async move { AllowedAddresses::for_server(&url, false).await.server }
        };
        assert_eq!(of("http://127.0.0.1:3/mcp").await, AddressScope::Here);
        assert_eq!(of("https://192.168.3.4/mcp").await, AddressScope::Private);
        assert_eq!(of("https://8.8.8.8/mcp").await, AddressScope::Public);
        assert_eq!(of("https://nobody.invalid/mcp").await, AddressScope::Public);
    }
}
