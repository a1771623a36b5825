//! Rules beyond the conventions: effects of every tool, arguments in `allow`, examples and messages.

use haft_policy::rule::{LintKind, Rule, RuleSet};
use serde_json::json;

use super::{anchors, call, check, parse, set, written};

#[test]
fn an_edit_rule_stops_every_declared_write() {
    for list in ["deny", "ask"] {
        check(
            &[&format!("{list} Edit(/w/secrets/**)"), "allow script", "allow mcp__fs", "allow Bash"],
            &[
                &format!("{list}: script | writes secrets/a"),
                &format!("{list}: mcp__fs__write_file | writes secrets/a"),
                &format!("{list}: mcp__fs__remove | deletes secrets/a"),
                &format!("{list}: Bash echo x | writes secrets/a"),
                &format!("{list}: Bash rm secrets/a | it-deletes secrets/a"),
                "allow: script | writes other/a",
                "allow: mcp__fs__write_file | reads secrets/a",
            ],
        );
    }
}

#[test]
fn a_read_rule_stops_every_declared_read() {
    check(
        &["deny Read(/w/secrets/**)", "allow script"],
        &["deny: script | reads secrets/a", "allow: script | reads other/a"],
    );
}

#[test]
fn a_command_rule_stops_every_declared_command() {
    check(&["deny Bash(rm *)", "allow script"], &["deny: script | runs rm x", "allow: script | runs ls"]);
}

#[test]
fn a_host_rule_stops_every_declared_host() {
    check(
        &["deny WebFetch(domain:*.evil.net)", "allow mcp__x"],
        &[
            "deny: mcp__x__y | reaches a.evil.net",
            "allow: mcp__x__y | reaches b.org",
            "deny: Bash curl | reaches a.evil.net",
        ],
    );
}

#[test]
fn a_bare_rule_is_about_the_tool_of_that_name() {
    // Denying the shell while allowing scripts that replace it must let those scripts run.
    check(&["deny Bash", "allow script"], &["allow: script | runs make"]);
    check(&["deny WebFetch", "allow mcp__x"], &["allow: mcp__x__y | reaches a.org"]);
    check(&["deny Write"], &["deny: Write a", "silent: Edit a"]);
    check(&["deny Read"], &["deny: Read a", "silent: Grep a"]);
}

/// `Edit(p)` matches every change of `p`, so a bare `Edit` matches every change.
#[test]
fn edit_alone_stops_every_change() {
    for (list, word) in [("deny", "deny"), ("ask", "ask")] {
        check(
            &[&format!("{list} Edit"), "allow Bash", "allow script", "allow Write"],
            &[
                &format!("{word}: Edit a"),
                &format!("{word}: Write /etc/a"),
                &format!("{word}: NotebookEdit a"),
                &format!("{word}: script | deletes a"),
                &format!("{word}: Bash touch a | writes a"),
                "allow: Bash ls | it-reads a",
                "allow: script | reads a",
                "silent: Read a",
            ],
        );
    }
    let set = set(&["deny Edit"]);
    for hidden in ["Edit", "Write", "NotebookEdit", "MultiEdit"] {
        assert!(set.tool_denial(hidden).is_some(), "{hidden}");
    }
    assert!(set.tool_denial("Read").is_none() && set.tool_denial("Bash").is_none());
    assert!(super::set(&["deny Edit(src/**)", "ask Edit"]).tool_denial("Write").is_none());
}

#[test]
fn an_allow_by_effect_counts_only_where_it_is_enforced() {
    check(
        &["allow Edit(src/**)", "allow Read(src/**)", "allow Bash(make)", "allow WebFetch(domain:a.org)"],
        &[
            "allow: Write src/a",
            "silent: script | writes src/a",
            "allow: script! | writes src/a",
            "silent: script | reads src/a",
            "silent: script | runs make",
            "allow: script! | runs make",
            "silent: mcp__x__y | reaches a.org",
            "allow: script! | reads src/a | writes src/b | runs make | reaches a.org",
        ],
    );
}

#[test]
fn every_effect_has_to_be_covered() {
    check(
        &["allow Edit(src/**)", "allow Bash(make)"],
        &[
            "allow: script! | writes src/a | runs make",
            "silent: script! | writes src/a | writes other",
            "silent: script! | writes src/a | runs rm x",
            "silent: script! | writes src/a | reaches a.org",
            "silent: script! | writes src/a | open",
        ],
    );
    // A call without effects is not automatically covered.
    check(&["allow Edit(src/**)"], &["silent: script!", "silent: TaskCreate"]);
}

#[test]
fn bare_edit_covers_the_working_directories() {
    check(
        &["allow Edit"],
        &[
            "allow: Edit a",
            "allow: Write x/a",
            "allow: Edit /added/a",
            "allow: Read a",
            "silent: Edit /p/a",
            "silent: Edit /etc/passwd",
            "silent: Edit a -> /etc/passwd",
            "silent: Edit ../a",
            "silent: Read /etc/passwd",
        ],
    );
    check(
        &["allow Write"],
        &[
            "allow: Write a",
            "allow: Write x/../a",
            "silent: Write ../a",
            "silent: Write /etc/passwd",
            "silent: Edit a",
        ],
    );
    check(&["allow Edit", "allow Edit(//etc/hosts)"], &["allow: Edit /etc/hosts"]);
    check(&["allow Read"], &["allow: Read /etc/hosts", "allow: Grep /etc", "silent: Edit a"]);
}

#[test]
fn a_name_covers_what_a_stranger_does_in_the_working_directories() {
    check(
        &["allow mcp__x__y"],
        &[
            "allow: mcp__x__y | writes a | runs rm | reaches a.org",
            "allow: mcp__x__y | open",
            "silent: mcp__x__y | writes /etc/a",
            "silent: mcp__x__y | reads /etc/a",
            "silent: mcp__x__y | writes a -> /etc/a",
        ],
    );
    // A rule for the path covers the rest, as no declaration has to be trusted.
    check(
        &["allow mcp__x__y", "allow Edit(//etc/a)"],
        &["allow: mcp__x__y | writes /etc/a", "silent: mcp__x__y | writes /etc/b"],
    );
}

#[test]
fn a_command_rule_covers_what_the_command_touches_in_the_working_directories() {
    check(
        &["allow Bash(rm *)"],
        &[
            "allow: Bash rm a | it-deletes a",
            "allow: Bash rm a | it-deletes /added/a",
            "silent: Bash rm /etc/a | it-deletes /etc/a",
            "silent: Bash rm a | it-deletes a -> /etc/a",
        ],
    );
    check(&["allow Bash(rm *)", "allow Edit(//etc/a)"], &["allow: Bash rm /etc/a | it-deletes /etc/a"]);
    check(&["allow Bash(rm /etc/a)"], &["allow: Bash rm /etc/a | it-deletes /etc/a"]);
    check(&["allow Bash"], &["allow: Bash rm /etc/a | it-deletes /etc/a"]);
}

#[test]
fn an_exact_rule_for_the_whole_line_covers_all_of_it() {
    let line = r#"Bash {"command": "make && ls > out"} | runs make | runs ls | writes out"#;
    check(&["allow Bash(make && ls > out)"], &[&format!("allow: {line}")]);
    check(&["allow Bash(make && ls > *)"], &[&format!("silent: {line}")]);
    check(&["allow Bash(make && ls > out)", "deny Bash(ls *)"], &[&format!("deny: {line}")]);
    check(&["allow Bash($X)"], &[r#"silent: Bash {"command": "$X"} | runs-unclear $X"#]);
}

#[test]
fn a_rule_with_an_operator_stops_the_whole_line() {
    let piped = r#"Bash {"command": "curl x \u007c sh"} | runs curl x | runs sh"#;
    for list in ["deny", "ask"] {
        let rule = format!("{list} Bash(curl * | sh)");
        check(&[&rule, "allow Bash"], &[&format!("{list}: {piped}"), "allow: Bash curl x", "allow: Bash sh"]);
    }
    // A rule without an operator is about each command separately.
    let line = r#"Bash {"command": "git log && echo main"} | runs git log | runs echo main"#;
    check(&["deny Bash(git * main)", "allow Bash"], &[&format!("allow: {line}"), "deny: Bash git push main"]);
    check(&["allow Bash(curl * | sh)"], &[&format!("silent: {piped}")]);
}

#[test]
fn what_is_not_understood_is_covered_by_the_bare_name_alone() {
    check(&["allow Bash($X *)"], &["silent: Bash | runs-unclear $X y"]);
    check(&["allow Bash"], &["allow: Bash | runs-unclear $X y"]);
}

#[test]
fn arguments_work_in_allow_and_in_depth() {
    check(
        &["allow mcp__github__create_issue(repo:acme/*)", "allow tool(config.mode:safe)"],
        &[
            r#"allow: mcp__github__create_issue {"repo": "acme/site"}"#,
            r#"silent: mcp__github__create_issue {"repo": "evil/site"}"#,
            "silent: mcp__github__create_issue",
            r#"allow: tool {"config": {"mode": "safe"}} | writes a"#,
            r#"silent: tool {"config": {"mode": "wild"}}"#,
            r#"silent: tool {"mode": "safe"}"#,
        ],
    );
    check(&["deny mcp__x(config.mode:wild)"], &[r#"deny: mcp__x__y {"config": {"mode": "wild"}}"#]);
    check(
        &["deny mcp__x__*(env:prod)"],
        &[r#"deny: mcp__x__y {"env": "prod"}"#, r#"silent: mcp__x__y {"env": "dev"}"#],
    );
}

#[test]
fn an_argument_never_allows_every_command() {
    check(
        &["allow Bash(run_in_background:true)"],
        &[r#"silent: Bash {"command": "rm", "run_in_background": true} | runs rm"#],
    );
}

#[test]
fn a_literal_star_in_a_command_has_a_backslash() {
    check(&[r"allow Bash(ls \*.rs)"], &["allow: Bash ls *.rs", "silent: Bash ls a.rs"]);
}

#[test]
fn a_folder_with_something_denied_in_it() {
    // A path in the folder: denied. A name that may be in the folder: asked.
    check(
        &["deny Edit(/w/secrets/**)", "deny Edit(.env)", "allow script"],
        &[
            "deny: script | writes-below /p",
            "deny: script | deletes-below .",
            "deny: script | writes-below secrets",
            "deny: script | writes-below secrets/x",
            "ask: script | deletes-below build",
            "silent: script | deletes-below /p/other",
            "allow: script | deletes /p/w/other",
        ],
    );
    // A tool that omits what it may not read is not stopped, unless all of it is denied.
    check(
        &["deny Read(secrets/**)", "deny Read(.env)"],
        &["ask: Grep .", "silent: Grep . | leaves-out", "deny: Grep secrets | leaves-out"],
    );
    let set = set(&["deny Read(.env)"]);
    call("Grep . | leaves-out").with(|subject| assert!(set.decide(subject).leaves_out));
    call("Grep /etc | leaves-out").with(|subject| assert!(!set.decide(subject).leaves_out));
}

#[test]
fn a_walker_asks_for_each_file() {
    use haft_policy::rule::{EffectKind, SubjectPath};
    let set = set(&["deny Read(.env)", "ask Edit(a/**)"]);
    let stops = |touch, path: &str| set.stops("Grep", touch, &SubjectPath::at(path)).map(|id| id.index());
    assert_eq!(stops(EffectKind::Reads, "/p/w/x/.env"), Some(0));
    assert_eq!(stops(EffectKind::Reads, "/p/w/a/b"), None);
    assert_eq!(stops(EffectKind::Writes, "/p/w/a/b"), Some(1));
}

#[test]
fn a_folder_is_allowed_only_as_a_whole() {
    check(&["allow Read(/w/a/**)"], &["allow: Grep a", "allow: Grep a/b", "silent: Grep ."]);
    check(&["allow Read(/w/a/*)"], &["silent: Grep a", "silent: Grep a/b", "allow: Read a/b"]);
    check(&["allow Read(/w/*.md)"], &["silent: Grep ."]);
}

#[test]
fn a_linked_anchor_is_one_anchor() {
    let rules = ["allow Edit(src/**)", "deny Read(/x)"].map(|line| parse(line).unwrap()).to_vec();
    let linked = anchors().with_link("/p", "/data/p");
    let (set, _) = RuleSet::compile(rules, &linked);
    let verdict = |text: &str| super::word(super::decide(&set, text).verdict);
    assert_eq!(verdict("Edit src/a -> /data/p/w/src/a"), "allow");
    assert_eq!(verdict("Edit src/a -> /data/p/w/b"), "silent");
    assert_eq!(verdict("Read /data/p/x"), "deny");
}

#[test]
fn another_name_of_a_tool_is_denied_and_never_allowed() {
    check(&["deny Read"], &["deny: view | alias Read"]);
    check(&["allow Read"], &["silent: view | alias Read"]);
}

fn with_examples(line: &str, matches: serde_json::Value, not_matches: serde_json::Value) -> Vec<String> {
    let mut written = written(line);
    written.matches = matches.as_array().unwrap().clone();
    written.not_matches = not_matches.as_array().unwrap().clone();
    let (_, lints) = RuleSet::compile(vec![Rule::parse(written).unwrap()], &anchors());
    assert!(lints.iter().all(|lint| lint.kind == LintKind::FailingExample), "{lints:?}");
    lints.into_iter().map(|lint| lint.words).collect()
}

#[test]
fn examples_are_checked_when_rules_are_loaded() {
    let good = |line: &str, matches, not_matches| {
        assert_eq!(with_examples(line, matches, not_matches), Vec::<String>::new(), "{line}");
    };
    good("allow Bash(npm run *)", json!(["npm run x", {"command": "npm run"}]), json!(["npm runx"]));
    good("deny Read(.env)", json!([".env", "a/.env", "/p/w/.ENV"]), json!(["env"]));
    good("ask Edit(/src/**)", json!(["/p/src/a"]), json!(["src/a"]));
    good("deny WebFetch(domain:*.a.org)", json!(["x.a.org", "https://x.a.org:8/y"]), json!(["a.org"]));
    good("allow mcp__x(repo:acme/*)", json!(["acme/y", {"repo": "acme/z"}]), json!(["evil/y"]));
    good("allow t(config.mode:safe)", json!(["safe"]), json!(["wild", {"config": {}}]));
    good("deny Agent(Explore)", json!(["Explore"]), json!(["Plan"]));

    let bad = with_examples("deny Bash(rm *)", json!(["rmdir x"]), json!(["rm x"]));
    assert_eq!(
        bad,
        [r#"its example "rmdir x" in `match` doesn't match"#, r#"its example "rm x" in `not_match` matches"#]
    );
    let odd = with_examples("deny mcp__x__y", json!([7]), json!([]));
    assert!(odd[0].contains("an object with the whole input is accepted"), "{odd:?}");
}

#[test]
fn an_allow_rule_with_a_failing_example_is_left_out_and_a_deny_rule_is_not() {
    let verdict = |list: &str| {
        let mut written = written(&format!("{list} Bash(rm *)"));
        written.not_matches = vec![json!("rm x")];
        let (set, _) = RuleSet::compile(vec![Rule::parse(written).unwrap()], &anchors());
        super::word(super::decide(&set, "Bash rm x").verdict)
    };
    assert_eq!(verdict("allow"), "silent");
    assert_eq!(verdict("deny"), "deny");
}

#[test]
fn a_message_is_kept_for_the_model() {
    let mut written = written("deny Edit(/migrations/**)");
    written.message = Some("migrations are generated".to_owned());
    let rule = Rule::parse(written).unwrap();
    assert_eq!(rule.reference().message.as_deref(), Some("migrations are generated"));
    assert_eq!(
        rule.reason(haft::decision::Verdict::Deny).to_string(),
        "rule `Edit(/migrations/**)` (/p/.haft/settings.json:3): migrations are generated"
    );
}
