//! Checks the examples of a rule when rules are loaded: the rule alone has to match every `match` and no
//! `not_match`.

use std::borrow::Cow;
use std::path::Path;

use haft::effects::RootExtent;
use serde_json::{Value, json};

use super::known_tools;
use super::lint::{LintKind, RuleLint};
use super::rule_set::{RuleAnchors, RuleSet};
use super::subject::{RuleSubject, SubjectCommand, SubjectPath};
use super::{Rule, RuleSpecifier, ToolPattern};
use crate::source::RuleList;

/// Determines the effects of a tool call with this input.
pub type BuildSubject<'e> = dyn for<'a> Fn(&'a str, &'a Value) -> RuleSubject<'a> + 'e;

/// Returns one lint for each failing example.
pub(super) fn check_examples(
    rules: &[Rule],
    anchors: &RuleAnchors,
    examine: &BuildSubject<'_>,
) -> Vec<RuleLint> {
    let mut lints = Vec::new();
    for (id, rule) in (0..).zip(rules) {
        let written = rule.written();
        if written.matches.is_empty() && written.not_matches.is_empty() {
            continue;
        }
        let alone = RuleSet::build(vec![rule.clone()], anchors, vec![true]);
        let examples = written.matches.iter().map(|example| (example, true));
        for (example, wanted) in examples.chain(written.not_matches.iter().map(|example| (example, false))) {
            if let Err(words) = example_holds(&alone, rule, example, wanted, examine) {
                lints.push(RuleLint::new(id, rule, LintKind::FailingExample, words));
            }
        }
    }
    lints
}

fn example_holds(
    alone: &RuleSet,
    rule: &Rule,
    example: &Value,
    wanted: bool,
    examine: &BuildSubject<'_>,
) -> Result<(), String> {
    let (key, not) = if wanted { ("match", "doesn't match") } else { ("not_match", "matches") };
    let input = example_input(rule, example).ok_or_else(|| {
        let accepted = "an object with the whole input is accepted, or a string for the field that decides";
        format!("the example {example} in `{key}` is not understood; {accepted}")
    })?;
    let tool = sample_name(rule);
    let mut subject = examine(&tool, &input);
    subject.enforced = true;
    let matched = alone.decide(&subject).verdict == Some(rule.list().verdict());
    if matched == wanted {
        return Ok(());
    }
    let left_out =
        if rule.list() == RuleList::Allow { "; the rule is left out until that is mended" } else { "" };
    Err(format!("its example {example} in `{key}` {not}{left_out}"))
}

/// Returns the whole input that an example stands for.
fn example_input(rule: &Rule, example: &Value) -> Option<Value> {
    match (example, &rule.spec) {
        (Value::Object(_), _) => Some(example.clone()),
        (Value::String(_), RuleSpecifier::Argument(spec)) => {
            let names: Vec<&str> = spec.name.split('.').collect();
            Some(names.iter().rev().fold(example.clone(), |inner, name| json!({ *name: inner })))
        }
        (Value::String(host), RuleSpecifier::Host(_)) if !host.contains("//") => {
            Some(json!({ "url": format!("https://{host}/") }))
        }
        (Value::String(_), _) => {
            known_tools::primary_field(&rule.tool).map(|field| json!({ field: example }))
        }
        _ => None,
    }
}

/// Returns the name of a tool that the rule matches.
fn sample_name(rule: &Rule) -> String {
    match rule.names {
        ToolPattern::One => rule.tool.clone(),
        ToolPattern::Server => format!("{}__tool", rule.tool),
        ToolPattern::Matching(_) => rule.tool.replace('*', "tool"),
    }
}

/// Builds a call's effects from its text alone: the command line is one command, and no path is a symlink.
pub(super) fn plain_subject<'a>(tool: &'a str, input: &'a Value, cwd: &Path) -> RuleSubject<'a> {
    let mut subject = RuleSubject::new(tool, input);
    let Some(text) = known_tools::primary_field(tool).and_then(|field| input.get(field)?.as_str()) else {
        return subject;
    };
    let place = || {
        let path = cwd.join(text);
        SubjectPath {
            real: Cow::Owned(path.clone()),
            given: Cow::Owned(path),
            extent: RootExtent::File,
            open: false,
            partial: false,
        }
    };
    match tool {
        "Bash" | "Monitor" | "PowerShell" => subject.commands.push(SubjectCommand::plain(text.trim())),
        "Read" => subject.touches.reads.push(place()),
        "Grep" | "Glob" => subject.touches.reads.push(place().and_below()),
        "Edit" | "Write" | "NotebookEdit" | "MultiEdit" => subject.touches.writes.push(place()),
        "WebFetch" => subject.touches.hosts.extend(url_host(text).map(Cow::Borrowed)),
        _ => {}
    }
    subject
}

/// Returns the host of a URL. Only for examples in settings; tools use a real URL parser.
fn url_host(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host =
        if host.starts_with('[') { host.split_inclusive(']').next()? } else { host.split(':').next()? };
    (!host.is_empty()).then_some(host)
}
