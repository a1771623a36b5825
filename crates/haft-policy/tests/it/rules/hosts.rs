//! Hosts in all spellings.

use haft::decision::Verdict;
use haft::effects::template::parse_host;
use haft_policy::rule::{Rule, RuleSet, RuleSubject};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use serde_json::{Value, json};

use super::anchors;

fn rule(host: &str, list: RuleList) -> Option<RuleSet> {
    let written = UnparsedRule::plain(
        format!("WebFetch(domain:{host})"),
        list,
        SettingsSource::new(SourceScope::User, "/u"),
    );
    Some(RuleSet::compile(vec![Rule::parse(written).ok()?], &anchors()).0)
}

fn verdict(set: &RuleSet, reached: &str) -> Option<Verdict> {
    let input = json!({});
    let mut subject = RuleSubject::new("WebFetch", &input).reaching(reached.to_owned());
    subject.hosts_only = true;
    set.decide(&subject).verdict
}

/// Spellings of one host: a rule for any of them matches all.
#[test]
fn spellings_of_one_host_are_one() {
    let groups: &[&[&str]] = &[
        &[
            "example.com",
            "EXAMPLE.com",
            "example.com.",
            "ex%61mple.com",
            "\u{ff45}xample.com",
            "ex\u{ad}ample.com",
            "example\u{3002}com",
        ],
        &["b\u{fc}cher.de", "xn--bcher-kva.de", "B\u{dc}CHER.de", "bu\u{308}cher.de"],
        &["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "127.0.0.1."],
        &["::1", "[::1]", "[0:0:0:0:0:0:0:1]", "0:0::1"],
    ];
    for group in groups {
        for named in *group {
            let (deny, allow) = (rule(named, RuleList::Deny).unwrap(), rule(named, RuleList::Allow).unwrap());
            for reached in groups.iter().flat_map(|group| *group) {
                let same = group.contains(reached);
                let expected = |yes| if same { yes } else { None };
                assert_eq!(verdict(&deny, reached), expected(Some(Verdict::Deny)), "deny {named}: {reached}");
                assert_eq!(
                    verdict(&allow, reached),
                    expected(Some(Verdict::Allow)),
                    "allow {named}: {reached}"
                );
            }
        }
    }
    for (reached, met) in
        [("a.org:443", true), ("A.org.:80", true), ("b.org:443", false), ("a.org.b:443", false)]
    {
        let deny = rule("a.org", RuleList::Deny).unwrap();
        assert_eq!(verdict(&deny, reached) == Some(Verdict::Deny), met, "{reached}");
    }
    let wild = rule("*.B\u{dc}CHER.de", RuleList::Deny).unwrap();
    assert_eq!(verdict(&wild, "a.xn--bcher-kva.de"), Some(Verdict::Deny));
    assert_eq!(verdict(&wild, "xn--bcher-kva.de"), None);
    let wild = rule("192.168.*.1", RuleList::Deny).unwrap();
    assert_eq!(verdict(&wild, "0xc0a80501"), Some(Verdict::Deny));
    assert_eq!(verdict(&wild, "192.168.5.2"), None);
}

/// The conformance tests of browsers: a rule for a host matches every text that the standard parses as that
/// host.
#[test]
fn every_address_of_the_standard_is_met_by_a_rule_for_its_host() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/wpt-url");
    let Ok(text) = std::fs::read_to_string(data.join("urltestdata.json")) else {
        eprintln!("skipped: {} is not there", data.display());
        return;
    };
    let tests: Vec<Value> = serde_json::from_str(&text).unwrap();
    let (mut met, mut refused, mut missed) = (0, Vec::new(), Vec::new());
    for test in &tests {
        let field = |name: &str| test[name].as_str().unwrap_or_default();
        // A relative address needs a base, so tools don't receive it by itself.
        if test["base"].is_string() || test["failure"] == true || field("hostname").is_empty() {
            continue;
        }
        // A port belongs to the address, brackets to the notation.
        match rule(field("hostname"), RuleList::Deny) {
            None => refused.push(field("hostname").to_owned()),
            Some(deny) => match parse_host(field("input")).map(|host| verdict(&deny, &host)) {
                Some(Some(Verdict::Deny)) => met += 1,
                other => missed.push((field("input").to_owned(), field("hostname").to_owned(), other)),
            },
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(met > 200, "only {met} addresses were met");
    // An invalid rule is rejected at load, and nothing runs.
    assert!(refused.len() < 20, "{refused:#?}");
}
