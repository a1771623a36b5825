//! Measures the cost of a thousand rules for a call, compared with the same call without rules.
//!
//! Rounds with and without rules alternate, so that a busy machine slows both. Each number is the median
//! over the rounds. No two calls of a round are equal, so caching has no effect.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use haft_policy::rule::{Rule, RuleAnchors, RuleSet, RuleSubject, SubjectCommand, SubjectPath};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use serde_json::{Value, json};

const ROUNDS: usize = 31;
const CALLS: usize = 500;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("| what | no rules | 1,000 rules | added | to reach |");
    println!("|---|---|---|---|---|");
    let empty = compile(Vec::new());
    let mixed = compile((0..1_000).map(mixed).collect());
    let paths = compile((0..1_000).map(path).collect());
    let commands = compile((0..1_000).map(command).collect());
    let calls = Calls::new();
    let files = [("mixed", &mixed), ("all for paths", &paths)];
    for (what, rules) in files {
        row(&format!("a file call, rules {what}"), &empty, rules, "≤ 2 µs", |set| calls.files(set, false));
        row(&format!("a file call through a link, rules {what}"), &empty, rules, "–", |set| {
            calls.files(set, true)
        });
        row(&format!("a search in a folder, rules {what}"), &empty, rules, "≤ 2 µs", |set| {
            calls.searches(set)
        });
    }
    for (what, rules) in [("mixed", &mixed), ("all for commands", &commands)] {
        row(&format!("a shell call of two commands, rules {what}"), &empty, rules, "≤ 30 µs", |set| {
            calls.shell(set)
        });
    }
    row("a call of a server's tool, rules mixed", &empty, &mixed, "–", |set| calls.servers(set));
    let start = Instant::now();
    black_box(compile((0..1_000).map(self::mixed).collect()));
    println!("\nReading and compiling 1,000 rules took {:.1} ms.", start.elapsed().as_secs_f64() * 1e3);
}

fn compile(rules: Vec<(RuleList, String)>) -> RuleSet {
    let source = SettingsSource::new(SourceScope::User, "/home/me/.claude");
    let rule = |(list, text)| Rule::parse(UnparsedRule::plain(text, list, source.clone())).unwrap();
    RuleSet::compile(rules.into_iter().map(rule).collect(), &RuleAnchors::new("/home/me", "/srv/project")).0
}

fn list(n: usize) -> RuleList {
    [RuleList::Deny, RuleList::Ask, RuleList::Allow][n % 3]
}

/// Rules in the proportions of long settings: half commands, a third paths, the rest hosts and servers.
fn mixed(n: usize) -> (RuleList, String) {
    match n % 10 {
        0..=4 => command(n),
        5..=7 => path(n),
        8 => (list(n), format!("WebFetch(domain:*.host{n}.example)")),
        _ => (list(n), format!("mcp__server{n}__get_*")),
    }
}

fn path(n: usize) -> (RuleList, String) {
    let tool = if n.is_multiple_of(2) { "Read" } else { "Edit" };
    let path = match n % 8 {
        0 => format!(".env{n}"),
        1 => format!("*.secret{n}"),
        2 => format!("src/part{n}/**"),
        3 => format!("~/.config/app{n}/**"),
        4 => format!("//etc/app{n}.conf"),
        5 => format!("part{n}/**/*.key"),
        6 => format!("generated{n}-*"),
        _ => format!("/settings{n}/*.json"),
    };
    (list(n), format!("{tool}({path})"))
}

fn command(n: usize) -> (RuleList, String) {
    let command = match n % 5 {
        0 => format!("npm run task{n}"),
        1 => format!("git sub{n} *"),
        2 => format!("tool{n}:*"),
        3 => format!("make * target{n}"),
        _ => format!("cargo {n} * --flag"),
    };
    (list(n), format!("Bash({command})"))
}

struct Calls {
    paths: Vec<(PathBuf, PathBuf)>,
    commands: Vec<[String; 2]>,
    tools: Vec<String>,
    input: Value,
}

impl Calls {
    fn new() -> Calls {
        let path = |n: usize| {
            let given = PathBuf::from(format!("/srv/project/src/part{n}/deep/module_{n}/file{n}.rs"));
            (given, PathBuf::from(format!("/srv/project/lib/part{n}/other/file{n}.rs")))
        };
        Calls {
            paths: (0..CALLS).map(path).collect(),
            commands: (0..CALLS)
                .map(|n| [format!("git show{n} -p HEAD~{n}"), format!("grep -n needle{n} src/lib{n}.rs")])
                .collect(),
            tools: (0..CALLS).map(|n| format!("mcp__server{n}__put_thing")).collect(),
            input: json!({}),
        }
    }

    fn files(&self, set: &RuleSet, linked: bool) {
        for (given, real) in &self.paths {
            let mut subject = RuleSubject::new("Edit", &self.input).enforced();
            let place = if linked { SubjectPath::linked(given, real) } else { SubjectPath::at(given) };
            subject.touches.writes.push(place);
            black_box(set.decide(&subject));
        }
    }

    fn searches(&self, set: &RuleSet) {
        for (given, _) in &self.paths {
            let mut subject = RuleSubject::new("Grep", &self.input).enforced();
            subject.leaves_out = true;
            subject.touches.reads.push(SubjectPath::at(given.parent().unwrap()).and_below());
            black_box(set.decide(&subject));
        }
    }

    fn shell(&self, set: &RuleSet) {
        for commands in &self.commands {
            let mut subject = RuleSubject::new("Bash", &self.input);
            for text in commands {
                let mut command = SubjectCommand::plain(&**text);
                command.for_deny.push(text.as_str().into());
                subject.commands.push(command);
            }
            black_box(set.decide(&subject));
        }
    }

    fn servers(&self, set: &RuleSet) {
        for tool in &self.tools {
            black_box(set.decide(&RuleSubject::new(tool, &self.input)));
        }
    }
}

fn row(what: &str, without: &RuleSet, with: &RuleSet, goal: &str, calls: impl Fn(&RuleSet)) {
    let time = |set: &RuleSet| {
        let start = Instant::now();
        calls(set);
        start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
    };
    let (mut none, mut all) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = (time(without), time(with));
        // The first round only warms up.
        if round > 0 {
            none.push(times.0);
            all.push(times.1);
        }
    }
    let added: Vec<f64> = all.iter().zip(&none).map(|(all, none)| all - none).collect();
    let (none, all, added) = (nanos(median(none)), nanos(median(all)), nanos(median(added)));
    println!("| {what} | {none} | {all} | {added} | {goal} |");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn nanos(time: f64) -> String {
    if time >= 1e3 { format!("{:.2} µs", time / 1e3) } else { format!("{time:.0} ns") }
}
