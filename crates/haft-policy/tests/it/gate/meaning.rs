//! The calls that the rule of a condition matches.

use haft_policy::source::{SettingsSource, SourceScope};
use serde_json::json;

use super::{Session, input, with};

/// Checks lines of `yes|no rule | tool argument`.
fn means(session: &Session, table: &str) {
    let source = SettingsSource::new(SourceScope::User, session.room.at("work"));
    let engine = session.caller.as_engine();
    let snapshot = engine.snapshot();
    for line in table.lines().map(str::trim) {
        let (rule, call) = line.split_once(" | ").unwrap();
        let (expected, rule) = rule.split_once(' ').unwrap();
        let (tool, argument) = call.split_once(' ').unwrap();
        let meaning = session.policy.rule_filter(rule, &source).unwrap_or_else(|error| panic!("{error}"));
        let offer = snapshot.find(tool).unwrap();
        let input = input(tool, argument, &session.room);
        let meant =
            engine.consider(offer.tool(), offer.origin(), input.into(), |call| meaning.is_meant(call));
        assert_eq!(if meant.unwrap() { "yes" } else { "no" }, expected, "{line}");
    }
}

#[test]
fn a_rule_means_what_is_done_whoever_does_it() {
    means(
        &with(json!({})).open(),
        "yes Write | Write a.txt
         no Write | Read a.txt
         yes Edit(src/**) | Write src/b.txt
         no Edit(src/**) | Write a.txt
         no Edit(src/**) | Read src/b.txt
         yes Edit(src/**) | stranger src/x
         yes Edit(src/**) | delete_tree src
         yes Edit(src/**) | Bash echo x > src/x
         no Edit(src/**) | Bash cat src/x
         yes Read(src/**) | Grep src
         yes Bash(rm *) | Bash make && sudo rm -r x
         no Bash(rm *) | Bash git rm x
         no Bash(rm *) | Write a.txt
         yes WebFetch(domain:x.io) | WebFetch https://x.io/a
         no WebFetch(domain:x.io) | WebFetch https://y.io/a
         yes mcp__hub | mcp__hub__get x
         no mcp__hub | mcp__fs__read_file x",
    );
}

#[test]
fn what_can_not_be_told_is_a_yes() {
    means(
        &with(json!({})).open(),
        "yes Bash(rm *) | Bash $(cat a.txt)
         yes Edit(src/**) | Bash $(cat a.txt)
         no Write | Bash $(cat a.txt)
         yes WebFetch(domain:x.io) | Bash $(cat a.txt)
         yes Write(src/**) | Write src/b.txt",
    );
}

#[test]
fn a_rule_that_can_not_be_read_is_none() {
    let session = with(json!({})).open();
    let source = SettingsSource::new(SourceScope::User, session.room.at("work"));
    assert!(session.policy.rule_filter("Bash(rm *", &source).is_err());
}
