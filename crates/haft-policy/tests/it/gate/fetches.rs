//! Addresses that are fetched.

use serde_json::json;

use super::{Session, rules, with};

fn verdict(session: &Session, url: &str) -> String {
    session.explain("WebFetch", &json!({"url": url})).verdict.to_string()
}

/// All of these lead to the same host.
const SPELLINGS: &[&str] = &[
    "https://example.com/",
    "https:example.com",
    "https:/example.com",
    "https:\\\\example.com\\x",
    "HTTPS://EXAMPLE.COM",
    "https://ex%61mple.com/",
    "https://\u{ff45}xample.com/",
    "https://ex\u{ad}ample.com/",
    "ht\ntps://exa\tmple.com/",
    "  https://example.com  ",
    "https://example.com./",
    "https://example.com:8443/x?y#z",
    "http://example\u{3002}com",
];

#[tokio::test]
async fn every_spelling_of_a_host_is_that_host() {
    let denied = with(rules("-WebFetch(domain:example.com); +WebFetch")).open();
    let allowed = with(rules("+WebFetch(domain:example.com)")).open();
    for url in SPELLINGS {
        assert_eq!(
            (verdict(&denied, url), verdict(&allowed, url)),
            ("deny".into(), "allow".into()),
            "{url:?}"
        );
    }
    for url in ["https://example.org/", "https://example.com.evil.net", "https://evil.net/example.com"] {
        assert_eq!(
            (verdict(&denied, url), verdict(&allowed, url)),
            ("allow".into(), "ask".into()),
            "{url:?}"
        );
    }
    denied.holds("deny WebFetch https:example.com\nallow WebFetch https:example.org").await;
    let local = with(rules("-WebFetch(domain:127.0.0.1); +WebFetch")).open();
    for url in ["http://0x7f.1/", "http://2130706433", "http://127.1:80/", "http://%31%32%37.0.0.1"] {
        assert_eq!(verdict(&local, url), "deny", "{url}");
    }
    assert_eq!(verdict(&local, "http://127.0.0.2/"), "allow");
}

/// Rules allow web addresses. Other addresses can be denied like any other, and otherwise ask.
#[tokio::test]
async fn only_addresses_of_the_web_are_allowed() {
    for given in ["+WebFetch", "+WebFetch(domain:example.com)", "+WebFetch(domain:*)"] {
        let session = with(rules(given)).open();
        assert_eq!(verdict(&session, "http://example.com/"), "allow", "{given}");
        for url in
            ["ftp://example.com/", "file:///etc/passwd", "example.com", "https://", "data:,x", "no address"]
        {
            assert_eq!(verdict(&session, url), "ask", "{given}: {url}");
        }
    }
    let session = with(rules("-WebFetch(domain:example.com)")).mode("bypassPermissions").open();
    for url in ["ftp://example.com/", "example.com/x", "wss://EXAMPLE.com", "//example.com"] {
        assert_eq!(verdict(&session, url), "deny", "{url}");
    }
    for url in ["file:///etc/passwd", "no address", "https://"] {
        assert_eq!(verdict(&session, url), "ask", "{url}");
    }
    assert_eq!(verdict(&session, "https://x.io"), "allow");
    let session = with(json!({})).mode("bypassPermissions").open();
    assert_eq!(verdict(&session, "no address"), "allow");
}

#[tokio::test]
async fn a_name_or_password_is_refused_however_it_is_written() {
    let session = with(rules("+WebFetch")).mode("bypassPermissions").open();
    for url in [
        "https://me:pw@x.io/",
        "https:me@x.io",
        "https:/me@x.io/",
        "https:\\\\me@x.io",
        "ht\ntps://m\te@x.io/",
        "https://@x.io/",
    ] {
        assert_eq!(verdict(&session, url), "deny", "{url:?}");
    }
    for url in ["https://x.io/@me", "https://x.io/?a=b@c", "https://x.io/#@"] {
        assert_eq!(verdict(&session, url), "allow", "{url}");
    }
}

/// The hosts that rules open and close to commands. A rule for every host applies to commands too. A bare
/// rule opens all hosts, but denies only the tool.
#[test]
fn rules_for_every_host_are_rules_for_commands() {
    for (given, allowed, asked, denied) in [
        ("+WebFetch", "*", "", ""),
        ("+WebFetch(*)", "*", "", ""),
        ("+WebFetch(domain:*)", "*", "", ""),
        ("+WebFetch(domain:*.x.io); -WebFetch(domain:evil.io)", "*.x.io", "", "evil.io"),
        ("-WebFetch(domain:*)", "", "", "*"),
        ("?WebFetch(domain:*)", "", "*", ""),
        ("-WebFetch", "", "", ""),
        ("?WebFetch", "", "", ""),
        ("+Bash; +Read", "", "", ""),
    ] {
        let wanted = with(rules(given)).open().policy.sandbox_rules();
        let hosts = [&wanted.allowed_hosts, &wanted.asked_hosts, &wanted.denied_hosts];
        let hosts =
            hosts.map(|hosts| hosts.iter().map(|host| host.pattern.as_str()).collect::<Vec<_>>().join(" "));
        assert_eq!(hosts, [allowed, asked, denied], "{given}");
    }
}

/// A read that settings deny counts for the sandbox like a deny rule.
#[test]
fn what_settings_deny_to_read_counts_as_a_rule() {
    let mut settings = rules("-Read(//a/ruled)");
    let ruled = with(settings.clone()).open().policy;
    settings["sandbox"] = json!({
        "filesystem": {"denyRead": ["/b/plain", "/b/x/../up", "/c/**/*.key"], "denyWrite": ["~/w"]},
        "network": {"deniedDomains": ["evil.io"]},
        "credentials": {"envVars": [{"name": "TOKEN", "mode": "deny"}]},
    });
    let wanted = with(settings).open().policy.sandbox_rules();
    assert_eq!(wanted.unreadable_paths.len(), 3);
    assert!(wanted.unwritable_paths.iter().any(|path| path.ends_with("w")), "{:?}", wanted.unwritable_paths);
    assert_eq!(wanted.denied_hosts[0].pattern, "evil.io");
    assert_eq!(wanted.hidden_variables, ["TOKEN"]);
    let unreadable = wanted.unreadable.as_ref().unwrap();
    for (path, denied) in [
        ("/a/ruled", true),
        ("/b/plain", true),
        ("/b/plain/below", true),
        ("/B/PLAIN", true),
        ("/b/up", true),
        ("/c/x/y/z.key", true),
        ("/b/other", false),
        ("/c/x/y/z.pem", false),
    ] {
        assert_eq!(unreadable.covers(path.as_ref()), denied, "{path}");
    }
    let named: Vec<(String, bool)> =
        wanted.denied_reads.iter().map(|denied| (denied.rule.clone(), denied.whole)).collect();
    let of_settings = |path: &str| format!("sandbox.filesystem.denyRead: {path}");
    let expected = [
        ("Read(//a/ruled)".to_owned(), true),
        (of_settings("/b/plain"), true),
        (of_settings("/b/up"), true),
        (of_settings("/c/**/*.key"), false),
    ];
    assert_eq!(named, expected);
    // Only for the sandbox: rules decide what tools may read.
    assert_eq!(ruled.sandbox_rules().denied_reads.len(), 1);
}
