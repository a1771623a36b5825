//! Rules: the conventional ones row by row, known bypasses of similar systems, and properties of all rules.

mod conventions;
mod documented;
mod explaining;
mod extensions;
mod hosts;
mod lints;
mod properties;
mod proposals;
mod security;

use haft::decision::Verdict;
use haft_policy::rule::{
    InvalidRule, Rule, RuleAnchors, RuleLint, RuleMatches, RuleSet, RuleSubject, SubjectCommand, SubjectPath,
};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use serde_json::{Value, json};

/// Parses a rule such as `deny Bash(rm *)` or `user allow Read(/x)`: its scope (default: the project), its
/// list, its text.
fn written(line: &str) -> UnparsedRule {
    let (scope, rest) = match line.split_once(' ') {
        Some(("user", rest)) => (SourceScope::User, rest),
        Some(("local", rest)) => (SourceScope::Local, rest),
        Some(("managed", rest)) => (SourceScope::Managed, rest),
        _ => (SourceScope::Project, line),
    };
    let (list, text) = rest.split_once(' ').unwrap();
    let list = match list {
        "deny" => RuleList::Deny,
        "ask" => RuleList::Ask,
        "allow" => RuleList::Allow,
        other => panic!("no list {other}"),
    };
    let source = match scope {
        SourceScope::User => {
            SettingsSource::in_file(scope, "/home/me/.claude/settings.json", 3, "/home/me/.claude")
        }
        // The project's root is above the working directory, so that the two anchors differ.
        SourceScope::Project => SettingsSource::in_file(scope, "/p/.haft/settings.json", 3, "/p"),
        SourceScope::Managed => SettingsSource::in_file(scope, "/etc/haft/settings.json", 3, "/etc/haft"),
        _ => SettingsSource::new(scope, "/p/w"),
    };
    UnparsedRule::plain(text, list, source)
}

fn parse(line: &str) -> Result<Rule, InvalidRule> {
    Rule::parse(written(line))
}

/// The directories of the tests: `/p/w` in the project `/p`, with `/added`.
fn anchors() -> RuleAnchors {
    RuleAnchors::new("/home/me", "/p/w").with_added("/added")
}

fn compile(rules: &[&str]) -> (RuleSet, Vec<RuleLint>) {
    let rules = rules.iter().map(|line| parse(line).unwrap_or_else(|bad| panic!("{bad}"))).collect();
    RuleSet::compile(rules, &anchors())
}

fn set(rules: &[&str]) -> RuleSet {
    compile(rules).0
}

/// A call in text form: `Read a.txt`, `Bash ls; pwd`, `WebFetch example.com`, `mcp__x__y {"a": 1}`. For any
/// tool its declared effects can follow, as in `script | writes a | runs ls`. Paths are relative to the
/// working directory; `a -> /b` is a symlink. The built-in file tools and `WebFetch` are confined to their
/// effects, and so is any tool with `!` after its name.
struct Call {
    tool: String,
    input: Value,
    enforced: bool,
    effects: Vec<(String, String)>,
}

fn call(text: &str) -> Call {
    let mut parts = text.split(" | ");
    let first = parts.next().unwrap();
    let (tool, rest) = first.split_once(' ').unwrap_or((first, ""));
    let bang = tool.ends_with('!');
    let mut call = Call {
        tool: tool.trim_end_matches('!').to_owned(),
        input: json!({}),
        enforced: bang,
        effects: Vec::new(),
    };
    let mut effect = |verb: &str, what: &str| call.effects.push((verb.to_owned(), what.to_owned()));
    match &*call.tool {
        _ if rest.is_empty() => {}
        _ if rest.starts_with('{') => call.input = serde_json::from_str(rest).unwrap(),
        "Read" | "LSP" => effect("reads", rest),
        "Grep" | "Glob" => effect("reads-below", rest),
        "Edit" | "Write" | "NotebookEdit" => effect("writes", rest),
        "WebFetch" => effect("reaches", rest),
        "Bash" | "Monitor" | "PowerShell" => {
            call.input = json!({ "command": rest });
            rest.split("; ").for_each(|command| effect("runs", command));
        }
        "Agent" => call.input = json!({ "subagent_type": rest }),
        "Skill" => {
            let (skill, args) = rest.split_once(' ').unwrap_or((rest, ""));
            call.input = json!({ "skill": skill, "args": args });
        }
        other => panic!("what is `{rest}` to {other}?"),
    }
    for part in parts {
        let (verb, what) = part.split_once(' ').unwrap_or((part, ""));
        effect(verb, what);
    }
    let files = ["Read", "LSP", "Grep", "Glob", "Edit", "Write", "NotebookEdit", "WebFetch"];
    call.enforced |= files.contains(&&*call.tool);
    call
}

impl Call {
    fn with<T>(&self, then: impl FnOnce(&RuleSubject<'_>) -> T) -> T {
        let absolute = |path: &str| std::path::Path::new("/p/w").join(path.trim());
        let paths: Vec<_> = self
            .effects
            .iter()
            .map(|(_, what)| {
                let (given, real) = what.split_once(" -> ").unwrap_or((what, what));
                (absolute(given), absolute(real))
            })
            .collect();
        let mut subject = RuleSubject::new(&self.tool, &self.input);
        subject.enforced = self.enforced;
        for ((verb, what), (given, real)) in self.effects.iter().zip(&paths) {
            let place = SubjectPath::linked(given, real);
            let command = SubjectCommand::plain(&**what);
            match &**verb {
                "reads" => subject.touches.reads.push(place),
                "reads-below" => subject.touches.reads.push(place.and_below()),
                "writes" => subject.touches.writes.push(place),
                "writes-below" => subject.touches.writes.push(place.and_below()),
                "deletes" => subject.touches.deletes.push(place),
                "deletes-below" => subject.touches.deletes.push(place.and_below()),
                "reaches" => subject.touches.hosts.push(what.into()),
                "runs" => subject.commands.push(command),
                "runs-unclear" => subject.commands.push(SubjectCommand { understood: false, ..command }),
                "runs-exact" => subject.commands.push(SubjectCommand { exact_only: true, ..command }),
                // An effect of the previous command.
                "it-reads" => subject.commands.last_mut().unwrap().touches.reads.push(place),
                "it-deletes" => subject.commands.last_mut().unwrap().touches.deletes.push(place),
                "it-allows" => subject.commands.last_mut().unwrap().for_allow.push(what.into()),
                "it-denies" => subject.commands.last_mut().unwrap().for_deny.push(what.into()),
                "alias" => subject.aliases.push(what),
                "open" => subject.open = true,
                "leaves-out" => subject.leaves_out = true,
                other => panic!("no effect {other}"),
            }
        }
        then(&subject)
    }
}

fn decide(set: &RuleSet, text: &str) -> RuleMatches {
    call(text).with(|subject| {
        let (quick, told) = (set.decide(subject), set.explain(subject));
        assert_eq!((quick.verdict, quick.by), (told.verdict, told.by), "two answers for {text}");
        told
    })
}

fn word(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Deny) => "deny",
        Some(Verdict::Ask) => "ask",
        Some(Verdict::Allow) => "allow",
        None => "silent",
    }
}

/// Checks the verdict of these rules on each call: lines of `verdict: call`.
#[track_caller]
fn check(rules: &[&str], calls: &[&str]) {
    let set = set(rules);
    for line in calls {
        let (expected, call) = line.split_once(": ").unwrap();
        let decision = decide(&set, call);
        assert_eq!(word(decision.verdict), expected, "{call} under {rules:?}: {decision:?}");
    }
}
