//! Proposed rules allow the call that they were proposed for, and no similar one.

use haft::decision::Verdict;
use haft_policy::gate::{CheckedCall, DecisionReport};
use haft_policy::source::RuleList;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Session, with};

/// Opens a session in which commands ask unless a rule allows them.
fn careful() -> Session {
    let mut session = with(json!({}));
    session.no_sandbox = false;
    session.open()
}

/// Generates odd commands from pieces.
fn command() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "make",
        "ls",
        "echo",
        "git",
        "a",
        "x.txt",
        "*",
        "\\*",
        "\\",
        "**",
        "?",
        "[a]",
        "(",
        ")",
        "'",
        "\"",
        "$X",
        "$(",
        "`",
        " ",
        "  ",
        "\n",
        "\t",
        "\u{b}",
        "\r",
        "\u{a0}",
        ";",
        "&&",
        "|",
        "&",
        ">",
        "<",
        ">out",
        ":*",
        ":",
        " *",
        "timeout",
        "timeout:5",
        "command:",
        "domain:",
        "#",
        "{a,b}",
        "~",
        "=",
        "X=1 ",
        "-rf",
        "!",
        "%",
        "é",
    ]);
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

/// Returns slightly different calls. None of them was asked about.
fn siblings(command: &str) -> Vec<String> {
    let mut siblings = vec![
        format!("{command} extra"),
        format!("{command}extra"),
        format!("extra {command}"),
        format!("{command}; extra"),
        format!("{command}\nextra"),
        format!("{command}\u{b}"),
    ];
    for (from, to) in [("*", "extra"), ("\\", ""), (":*", " extra"), ("(", ""), ("a", "b"), ("\n", " ; ")] {
        siblings.push(command.replace(from, to));
    }
    siblings
}

/// Returns the commands that would be started: commands that are equivalent for a shell are not siblings.
fn parts(explanation: &DecisionReport) -> Value {
    let parts = explanation.parts.iter().map(|part| json!([part.text, part.reason]));
    json!([parts.collect::<Vec<_>>(), explanation.effects.writes, explanation.effects.reads])
}

fn explain(session: &Session, command: &str) -> Option<DecisionReport> {
    session.check(CheckedCall::new("Bash", json!({ "command": command }))).ok()
}

/// Each case opens a session, so there are few unless `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 100 };
    ProptestConfig { cases, failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rules_that_are_proposed_allow_one_call_alone(command in command()) {
        let session = careful();
        let Some(explained) = explain(&session, &command) else { return Ok(()) };
        let Some(change) = explained.to_allow.clone().filter(|change| !change.rules.is_empty()) else {
            return Ok(());
        };
        let siblings = siblings(&command).into_iter().filter_map(|other| Some((explain(&session, &other)?, other)));
        let siblings: Vec<_> = siblings.filter(|(other, _)| parts(other) != parts(&explained)).collect();
        session.policy.add_rules(&change.rules, RuleList::Allow, false).map_err(TestCaseError::fail)?;
        let now = explain(&session, &command).unwrap();
        prop_assert_eq!(now.verdict, Verdict::Allow, "{:?} {:?}\n{}", command, change.rules, now);
        for (other, sibling) in siblings {
            let now = explain(&session, &sibling).unwrap();
            // The rest of it may be exactly what was allowed, with one command less.
            let fewer = other.parts.iter().all(|part| {
                explained.parts.iter().any(|known| known.text == part.text && known.kind == part.kind)
            }) && other.effects.writes.iter().all(|path| explained.effects.writes.contains(path));
            prop_assert!(
                now.verdict != Verdict::Allow || fewer,
                "{:?} allows {:?}, which is not {:?}\n{}", change.rules, sibling, command, now
            );
        }
    }

    /// The same for files, which have odd names as well.
    #[test]
    fn rules_that_are_proposed_allow_one_file_alone(
        name in "[a*?\\[\\]\\\\!(){}:~#$ .\n'\u{e9}-]{1,8}", other in "[a*?\\[\\]\\\\!(){}:~#$ .\n'\u{e9}-]{1,8}",
    ) {
        let input = |name: &str| json!({"file_path": format!("dir/{name}"), "content": ""});
        let session = careful();
        let check = |name: &str| session.check(CheckedCall::new("Write", input(name)));
        let Ok(explained) = check(&name) else { return Ok(()) };
        prop_assume!(explained.verdict == Verdict::Ask);
        let Some(change) = explained.to_allow.filter(|change| !change.rules.is_empty()) else { return Ok(()) };
        session.policy.add_rules(&change.rules, RuleList::Allow, false).map_err(TestCaseError::fail)?;
        prop_assert_eq!(check(&name).unwrap().verdict, Verdict::Allow, "{:?} {:?}", name, change.rules);
        if let Ok(second) = check(&other)
            && second.effects.writes != explained.effects.writes
            && !second.effects.writes[0].starts_with(&format!("{}/", explained.effects.writes[0]))
        {
            prop_assert_eq!(second.verdict, Verdict::Ask, "{:?} allows {:?}", change.rules, other);
        }
    }
}

/// The special characters of rules in proposals.
#[test]
fn odd_characters_keep_to_themselves() {
    for (command, rules, sibling) in [
        ("make *", r"Bash(make \*)", "make x"),
        ("make )", "Bash(make ))", "make"),
        ("", "", ""),
        ("make ')'", "Bash(make ')')", "make '))'"),
        ("make 'a(b'", "Bash(make 'a(b')", "make 'a(c'"),
        ("  make  x ", "Bash(make x)", "make y"),
        (r"make \* '\'", r"Bash(make \\\* '\\')", r"make \\ '\'"),
        ("make 'a\nb'", "Bash(make 'a\nb')", "make 'a b'"),
        ("make a:*", r"Bash(make a:\*)", "make a"),
        ("make\nnpm test", "Bash(make) Bash(npm test)", "make\nnpm run"),
    ] {
        let session = careful();
        let change = explain(&session, command).unwrap().to_allow.unwrap();
        assert_eq!(change.rules.join(" "), rules, "{command:?}");
        session.policy.add_rules(&change.rules, RuleList::Allow, false).unwrap();
        if !sibling.is_empty() {
            assert_eq!(explain(&session, command).unwrap().verdict, Verdict::Allow, "{command:?}");
            assert_ne!(explain(&session, sibling).unwrap().verdict, Verdict::Allow, "{sibling:?}");
        }
    }
}

/// A host with a star in its name would match other hosts.
#[test]
fn a_star_in_a_host_is_proposed_to_nobody() {
    let session = careful();
    let rules = |url: &str| {
        let explained = session.check(CheckedCall::new("WebFetch", json!({ "url": url })));
        explained.unwrap().to_allow.unwrap().rules
    };
    assert_eq!(rules("https://x.io/"), ["WebFetch(domain:x.io)"]);
    assert_eq!(rules("http://[::1]/"), ["WebFetch(domain:::1)"]);
    assert!(!rules("https://*.evil.net/").iter().any(|rule| rule.contains("evil")));
}
