//! What the rules of a session and the grants of a call come to.

use super::super::NetworkPolicy;
use super::super::host::{Host, HostRule};
use super::super::policy::HostRefusal;

/// `"allow a.example, deny b.example | grants"`, hosts with ports, and `ok` or a part of the words.
#[track_caller]
fn check(rules: &str, wanted: &[(&str, &str)]) {
    let (session, grants) = rules.split_once('|').unwrap_or((rules, ""));
    let mut policy = NetworkPolicy::new();
    for rule in session.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
        policy = match rule.split_once(' ').unwrap() {
            ("allow", rule) => policy.with_allowed([rule.parse().unwrap()]),
            ("deny", rule) => policy.with_denied([rule.parse().unwrap()]),
            _ => panic!("{rule}"),
        };
    }
    let grants: Vec<HostRule> = grants
        .split(',')
        .map(str::trim)
        .filter(|rule| !rule.is_empty())
        .map(|rule| rule.parse().unwrap())
        .collect();
    for (target, verdict) in wanted {
        let (host, port) = target.rsplit_once(':').unwrap();
        let judged = policy.judge(&grants, &Host::parse(host).unwrap(), port.parse().unwrap());
        match judged {
            Ok(_) => assert_eq!(*verdict, "ok", "{rules}: {target}"),
            Err(HostRefusal { why, grantable }) => {
                assert!(*verdict != "ok" && why.contains(verdict), "{rules}: {target}: {why}");
                // Only what a rule denies stays out of reach whatever is granted.
                let for_good = why.contains(" denies ") || why.contains("no rule can open");
                assert_eq!(grantable, !for_good, "{rules}: {target}: {why}");
                assert_eq!(opens(&policy, &grants, &why, host, port), grantable, "{rules}: {target}: {why}");
            }
        }
    }
}

/// Whether the rule that the words name opens the host, beside all that there is.
fn opens(policy: &NetworkPolicy, grants: &[HostRule], why: &str, host: &str, port: &str) -> bool {
    let named = why.split('`').skip(1).step_by(2).filter_map(|part| {
        let host = part.strip_prefix("WebFetch(domain:").and_then(|rest| rest.strip_suffix(')'));
        host.unwrap_or(part).parse::<HostRule>().ok()
    });
    let Some(rule) = named.last() else { return false };
    let host = Host::parse(host).unwrap();
    policy.clone().with_allowed([rule]).judge(grants, &host, port.parse().unwrap()).is_ok()
}

#[test]
fn nothing_is_allowed_unless_a_rule_says_so() {
    check("", &[("a.example:443", "`WebFetch(domain:a.example)` would"), ("localhost:80", "own machine")]);
    check(
        "| a.example",
        &[("a.example:443", "ok"), ("a.example:80", "ok"), ("b.example:443", "no rule allows")],
    );
    check("allow a.example | b.example", &[("a.example:443", "ok"), ("b.example:443", "ok")]);
}

#[test]
fn ports_beyond_the_two_are_named() {
    check("allow a.example", &[("a.example:22", "`a.example:22` among the allowed hosts would")]);
    check("allow a.example:22", &[("a.example:22", "ok"), ("a.example:443", "not its port 443")]);
    check("", &[("a.example:22", "`a.example:22` among the allowed hosts would")]);
    check("allow *:8443", &[("a.example:8443", "ok"), ("a.example:443", "port")]);
}

#[test]
fn what_is_denied_stays_denied() {
    check(
        "allow *, deny a.example | a.example",
        &[("a.example:443", "the rule `a.example` denies"), ("b.example:443", "ok")],
    );
    check("allow *, deny *.a.example", &[("x.a.example:22", "denies"), ("a.example:443", "ok")]);
    check("allow *, deny a.example:80", &[("a.example:80", "denies"), ("a.example:443", "ok")]);
    check("allow 1.2.3.4, deny 1.2.*.*", &[("1.2.3.4:443", "denies")]);
    check("allow localhost:3000, deny localhost", &[("localhost:3000", "denies")]);
    check("allow localhost:3000, deny *", &[("localhost:3000", "denies")]);
}

#[test]
fn this_machine_is_opened_by_port() {
    check(
        "allow *, allow localhost, allow 127.0.0.1",
        &[("localhost:80", "own machine"), ("127.0.0.1:443", "own machine")],
    );
    check(
        "allow localhost:3000",
        &[
            ("localhost:3000", "ok"),
            ("127.0.0.1:3000", "ok"),
            ("::1:3000", "ok"),
            ("localhost:3001", "`localhost:3001`"),
        ],
    );
    check(
        "allow localhost:3000, allow a.localhost:3000, allow 127.0.0.3:3000",
        &[
            ("127.0.0.2:3000", "own machine"),
            ("0.0.0.0:3000", "own machine"),
            ("b.localhost:3000", "own machine"),
            ("127.0.0.3:3000", "ok"),
            ("a.localhost:3000", "ok"),
        ],
    );
    check(
        "allow *:3000, allow *.localhost:3000",
        &[("localhost:3000", "own machine"), ("a.localhost:3000", "own machine")],
    );
}

#[test]
fn addresses_are_opened_by_address() {
    check("allow *, allow 1.2.3.*", &[("1.2.3.4:443", "is an address")]);
    check(
        "allow 1.2.3.4",
        &[("1.2.3.4:443", "ok"), ("::ffff:1.2.3.4:443", "ok"), ("1.2.3.5:443", "is an address")],
    );
    for nowhere in [
        "192.0.2.1:80",
        "169.254.169.254:80",
        "fe80::1:443",
        "224.0.0.1:80",
        "100.100.100.200:80",
        "0.1.2.3:80",
    ] {
        check("allow *", &[(nowhere, "and no rule can open that")]);
        check("allow 192.0.2.1 | 169.254.169.254, [fe80::1]", &[(nowhere, "and no rule can open that")]);
    }
    check("", &[("10.0.0.7:80", "`WebFetch(domain:10.0.0.7)` would"), ("fd12::1:443", "domain:[fd12::1])")]);
    check("allow [2606:4700::1]:8443", &[("2606:4700::1:8443", "ok"), ("2606:4700::1:443", "port 443")]);
}
