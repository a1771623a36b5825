//! Address classification and host rules.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use haft_net::address::{AddressKind, AddressRange, IPV4, IPV6, METADATA_ADDRESSES, check};
use haft_net::host::{Host, HostRule};
use haft_net::host_preset::HostPreset;

fn is_public(address: &str) -> bool {
    check(address.parse().unwrap()).is_ok()
}

/// Returns the first and the last address of a range as integers.
fn ends(first: u128, prefix: u8, width: u8) -> (u128, u128) {
    let rest = u32::from(width - prefix);
    (first, first | 1_u128.checked_shl(rest).map_or(u128::MAX, |size| size - 1))
}

fn in_v4(bits: u128) -> IpAddr {
    Ipv4Addr::from_bits(u32::try_from(bits).unwrap()).into()
}

/// The ways in which IPv6 embeds an IPv4 address.
fn embedded(inner: Ipv4Addr) -> [Ipv6Addr; 8] {
    let bits = u128::from(inner.to_bits());
    let network = 0x2606_4700_u128 << 96;
    [
        bits,
        0xffff << 32 | bits,
        0xffff << 48 | bits,
        0x64_ff9b << 96 | bits,
        0x2002 << 112 | bits << 80,
        0x2001 << 112 | (bits ^ 0xffff_ffff),
        network | 0x5efe << 32 | bits,
        network | 0x0200_5efe << 32 | bits,
    ]
    .map(Ipv6Addr::from_bits)
}

#[test]
fn the_table_is_the_one_of_the_registries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ssrf_ranges.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return eprintln!("skipped: ../shared/data/ssrf_ranges.json is not here");
    };
    let data: serde_json::Value = serde_json::from_str(&text).unwrap();
    let listed = |key: &str| -> BTreeSet<String> {
        let rows = data[key].as_array().unwrap();
        let range = |row: &serde_json::Value| {
            let (network, prefix) = row[0].as_str().unwrap().split_once('/').unwrap();
            format!("{}/{prefix}", network.parse::<IpAddr>().unwrap())
        };
        rows.iter().map(range).collect()
    };
    fn ours<A: std::fmt::Display>(ranges: &[AddressRange<A>]) -> BTreeSet<String> {
        ranges.iter().map(|range| format!("{}/{}", range.network, range.prefix)).collect()
    }
    assert_eq!(ours(IPV4), listed("ipv4"));
    let added: Vec<String> = ours(IPV6).difference(&listed("ipv6")).cloned().collect();
    assert_eq!(added, ["2001::/23", "::ffff:0:0:0/96"], "what we add on purpose");
    assert!(listed("ipv6").is_subset(&ours(IPV6)));
}

#[test]
fn ranges_hold_from_their_first_address_to_their_last() {
    let outside_v4 = |bits: u128| {
        !IPV4.iter().any(|range| {
            let (first, last) = ends(range.network.to_bits().into(), range.prefix, 32);
            (first..=last).contains(&bits)
        })
    };
    for range in IPV4 {
        let (first, last) = ends(range.network.to_bits().into(), range.prefix, 32);
        for inside in [first, first + (last - first) / 2, last] {
            assert!(check(in_v4(inside)).is_err(), "{}", in_v4(inside));
        }
        for beside in
            [first.checked_sub(1), Some(last + 1)].into_iter().flatten().filter(|bits| *bits <= 0xffff_ffff)
        {
            assert_eq!(check(in_v4(beside)).is_ok(), outside_v4(beside), "{}", in_v4(beside));
        }
    }
    for range in IPV6.iter().filter(|range| !range.judged_by_embedded) {
        let (first, last) = ends(range.network.to_bits(), range.prefix, 128);
        for inside in [first, first + (last - first) / 2, last] {
            assert!(check(Ipv6Addr::from_bits(inside).into()).is_err(), "{}", Ipv6Addr::from_bits(inside));
        }
    }
    for metadata in METADATA_ADDRESSES {
        assert_eq!(check(*metadata).unwrap_err().kind, AddressKind::Metadata);
    }
}

#[test]
fn an_address_inside_of_another_is_found() {
    for range in IPV4 {
        let (first, last) = ends(range.network.to_bits().into(), range.prefix, 32);
        for bits in [first, last] {
            let inner = Ipv4Addr::from_bits(u32::try_from(bits).unwrap());
            for outer in embedded(inner) {
                assert!(check(outer.into()).is_err(), "{outer} with {inner}");
            }
        }
    }
    // Forms that reach the embedded address accept a public one; the other forms are always
    // refused.
    let public = embedded(Ipv4Addr::new(1, 1, 1, 1)).map(|outer| check(outer.into()).is_ok());
    assert_eq!(public, [false, true, false, true, false, false, true, true]);
    let metadata = check("::ffff:100.100.100.200".parse().unwrap()).unwrap_err();
    assert_eq!(
        (metadata.kind, metadata.embedded),
        (AddressKind::Metadata, Some(Ipv4Addr::new(100, 100, 100, 200)))
    );
}

#[test]
fn public_addresses_are_public() {
    for address in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "223.255.255.255", "2606:4700::1111"] {
        assert!(is_public(address), "{address}");
    }
    for address in ["2a00:1450::1", "2001:4860:4860::8888", "64:ff9b::101:101", "2400::1", "3ffe::1"] {
        assert!(is_public(address), "{address}");
    }
    // Addresses outside of the registry's ranges that are not allocated.
    for address in ["::ffff:0:1.1.1.1", "4000::1", "1::1", "200::1", "e000::1", "fe00::1", "8000::"] {
        assert!(!is_public(address), "{address}");
    }
}

/// Checks which hosts a rule covers and which it doesn't.
#[track_caller]
fn covers(rule: &str, these: &[&str], not_these: &[&str]) {
    let parsed: HostRule = rule.parse().unwrap();
    for host in these {
        assert!(parsed.covers(&Host::parse(host).unwrap()), "{rule} and {host}");
    }
    for host in not_these {
        assert!(!parsed.covers(&Host::parse(host).unwrap()), "{rule} and {host}");
    }
    assert_eq!(parsed.to_string().parse::<HostRule>().unwrap(), parsed);
}

/// The examples of `WebFetch(domain:…)` in the rule language.
#[test]
fn rules_mean_what_web_fetch_means() {
    covers(
        "Example.com",
        &["example.com", "EXAMPLE.COM."],
        &["a.example.com", "example.com.evil.net", "notexample.com", "example.co"],
    );
    covers("example.com.", &["example.com"], &["example.com.net"]);
    covers(
        "*.example.com",
        &["a.example.com", "a.b.example.com"],
        &["example.com", "aexample.com", "a.example.com.net"],
    );
    covers("*", &["anything.org", "localhost", "1.2.3.4", "[::1]"], &[]);
    covers("example.*", &["example.org"], &["example.evil.com", "x.example.org", "example"]);
    covers("a*.b.c", &["ax.b.c", "a.b.c"], &["ax.y.b.c", "b.b.c"]);
    covers("*.x*.org", &["a.b.xy.org"], &["xy.org"]);
    covers("a*b*c.org", &["abc.org", "axxbyyc.org"], &["ac.org", "acb.org", "ab.c.org"]);
    covers("[::1]", &["[::1]", "::1", "0:0:0:0:0:0:0:1"], &["[::2]", "127.0.0.1"]);
    covers("1.2.3.4", &["1.2.3.4", "::ffff:1.2.3.4"], &["1.2.3.5"]);
    covers("10.*.*.*", &["10.0.0.1"], &["11.0.0.1", "10.0.0.1.example"]);
    covers("example.com:8443", &["example.com"], &["a.example.com"]);
}

#[test]
fn what_is_no_rule_is_told() {
    let bad = |rule: &str| rule.parse::<HostRule>().unwrap_err().to_string();
    assert_eq!(
        bad("https://a.b/c"),
        "`https://a.b/c` has no port after the colon; a host such as `example.com`, `*.example.com`, \
         `example.com:8443` or `*` is accepted, without scheme and path"
    );
    assert_eq!(
        bad("b\u{fc}cher.de"),
        "`b\u{fc}cher.de` is not ASCII; write the host name as it is sent, with `xn--` labels"
    );
    for rule in [
        "",
        ".",
        "a..b",
        "*.",
        "*..a",
        "a b",
        "a/b",
        "a:0",
        "a:99999",
        "a:",
        "::1",
        "a@b",
        "*.b\u{fc}cher.de",
    ] {
        assert!(rule.parse::<HostRule>().is_err(), "{rule}");
    }
    let long = format!("{}.com", "a".repeat(64));
    for host in [
        &long,
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "1.2.3.4.5",
        "a.1",
        "a\0.b",
        "-\n",
        "[1.2.3.4]",
        "[::1",
        "fe80::1%eth0",
    ] {
        assert!(Host::parse(host).is_err(), "{host}");
    }
}

#[test]
fn an_address_and_this_machine_are_opened_by_exact_rules_only() {
    let opens = |rule: &str, host: &str| rule.parse::<HostRule>().unwrap().opens(&Host::parse(host).unwrap());
    assert!(opens("*", "a.example") && opens("1.2.3.4", "1.2.3.4") && opens("localhost", "localhost"));
    for (rule, host) in
        [("*", "1.2.3.4"), ("1.2.3.*", "1.2.3.4"), ("*", "localhost"), ("local*", "localhost")]
    {
        assert!(!opens(rule, host), "{rule} and {host}");
    }
    assert!(!opens("*.localhost", "a.localhost") && !opens("*", "a.localhost"));
}

#[test]
fn presets_are_lists_of_names() {
    let mut seen = BTreeSet::new();
    for preset in HostPreset::ALL {
        assert_eq!(preset.name().parse(), Ok(preset));
        assert_eq!(preset.rules().count(), preset.hosts().len());
        for host in preset.hosts() {
            assert!(matches!(Host::parse(host), Ok(Host::Name(name)) if name == **host), "{host}");
            assert!(seen.insert(*host), "{host} is there twice");
        }
    }
    assert_eq!(
        "npm".parse::<HostPreset>().unwrap_err().to_string(),
        "there is no preset `npm`; `package-registries` and `github-downloads` are known"
    );
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/network.md");
    let document = std::fs::read_to_string(document).unwrap();
    let untold: Vec<&&str> = seen.iter().filter(|host| !document.contains(&format!("`{host}`"))).collect();
    assert!(untold.is_empty(), "docs/network.md doesn't name {untold:?}");
}
