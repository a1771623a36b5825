//! The gate to the web: no text makes it panic, an address that was taken is taken again from its own print
//! and means the same host, and nothing leads to an address that isn't public without being seen.
#![no_main]

use std::net::IpAddr;

use haft_net::address::check;
use haft_net::fetch::FetchTarget;
use haft_net::host::{Host, HostRule};
use haft_net::network_access::{AddressAllowance, retain_allowed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // An address, a reference on its page, and a rule.
    let mut lines = text.splitn(3, '\n');
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let rule = lines.next().unwrap_or(first);
    if let Some(target) = gate(FetchTarget::parse(first).ok()) {
        gate(target.join(second).ok());
        let encrypted = gate(Some(target.encrypted())).expect("it was given");
        assert_eq!(encrypted.host(), target.host());
        let asked = target.with_query([("q", second)]);
        assert_eq!((asked.host(), asked.port()), (target.host(), target.port()), "{asked}");
    }
    if let Ok(host) = Host::parse(first) {
        same(&host);
    }
    if let Ok(rule) = rule.parse::<HostRule>() {
        let again: HostRule = rule.to_string().parse().expect("a rule is taken from its own print");
        assert_eq!(again, rule);
        if let Ok(host) = Host::parse(first) {
            assert!(!rule.opens(&host) || rule.covers(&host), "{rule} opens what it doesn't cover: {host}");
        }
    }
});

fn gate(target: Option<FetchTarget>) -> Option<FetchTarget> {
    let target = target?;
    let again = FetchTarget::parse(target.as_str()).unwrap_or_else(|bad| panic!("{target}: {bad}"));
    assert_eq!(again, target, "an address is taken from its own print");
    let text = target.as_str();
    let (scheme, rest) = text.split_once("://").expect("it has a scheme");
    assert!(matches!(scheme, "http" | "https"), "{text}");
    let authority = rest.split(['/', '?', '#']).next().expect("there is a first part");
    assert!(!authority.contains('@') && text.is_ascii(), "{text}");
    assert!(
        !text.bytes().any(|byte| byte.is_ascii_control() || byte == b' '),
        "{text:?} has room for a header"
    );
    // What somebody who splits the text by hand takes for the host is the host.
    let shown = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    assert_eq!(Host::parse(shown).as_ref(), Ok(target.host()), "{text}");
    same(target.host());
    Some(target)
}

fn same(host: &Host) {
    assert_eq!(Host::parse(&host.to_string()).as_ref(), Ok(host), "a host is taken from its own print");
    assert_eq!(Host::parse(&host.bracketed()).as_ref(), Ok(host));
    assert!(HostRule::exact(host).covers(host));
    let Host::Address(address) = host else { return };
    let public = check(*address).is_ok();
    assert_eq!(retain_allowed(host, vec![*address], &AddressAllowance::default()).is_ok(), public);
    assert!(!public || !(address.is_loopback() || address.is_unspecified() || address.is_multicast()));
    if let IpAddr::V4(address) = address {
        let mapped = IpAddr::V6(address.to_ipv6_mapped());
        assert_eq!(check(mapped).is_ok(), public, "{mapped}");
        assert!(!public || !(address.is_private() || address.is_link_local() || address.is_broadcast()));
    }
}
