//! Properties of all rules and all calls.

use haft::decision::Verdict;
use haft_policy::rule::{Rule, RuleSet};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use proptest::prelude::*;

use super::{Call, anchors, call, parse};

/// Generates a text from the pieces of rules.
fn rule_text() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "Bash",
        "Read",
        "Edit",
        "Write",
        "WebFetch",
        "Agent",
        "Skill",
        "Monitor",
        "PowerShell",
        "Grep",
        "mcp__s",
        "mcp__s__*",
        "mcp__s__t",
        "*",
        "script",
        "Task",
        "B*",
    ]);
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "ls",
        "src",
        ".env",
        "/",
        "//",
        "~/",
        "./",
        "*",
        "**",
        "?",
        "[a-b]",
        " ",
        ":*",
        ":",
        "domain:",
        "a.b",
        "\\",
        "model:",
        "/p/w/",
        "A",
        "\u{e9}",
        "e\u{301}",
        "!",
        "..",
        "(",
        ")",
        "run_in_background:true",
    ]);
    let inside = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    (name, prop::option::weighted(0.8, inside))
        .prop_map(|(name, inside)| inside.map_or(name.to_owned(), |inside| format!("{name}({inside})")))
}

fn rule_line() -> impl Strategy<Value = String> {
    (prop::sample::select(vec!["deny", "ask", "allow", "user deny", "local allow"]), rule_text())
        .prop_map(|(list, text)| format!("{list} {text}"))
}

fn rules(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule_line(), count)
        .prop_map(|lines| lines.iter().filter_map(|line| parse(line).ok()).collect())
}

fn calls() -> impl Strategy<Value = String> {
    let tool = prop::sample::select(vec![
        "Bash",
        "Bash!",
        "Read",
        "Edit",
        "Write",
        "Grep",
        "NotebookEdit",
        "WebFetch",
        "script",
        "script!",
        "mcp__s__t",
        "Agent",
        "Skill",
        "Monitor",
        "PowerShell",
    ]);
    let path = prop::sample::select(vec![
        "a",
        "src/a",
        "src/b/.env",
        ".ENV",
        "/etc/a",
        "/p/b",
        "/p/w",
        "a/b",
        "e\u{301}",
        "src -> /etc",
        "a -> src/b",
    ]);
    let effect = prop_oneof![
        path.clone().prop_map(|path| format!("reads {path}")),
        path.clone().prop_map(|path| format!("reads-below {path}")),
        path.clone().prop_map(|path| format!("writes {path}")),
        path.clone().prop_map(|path| format!("deletes-below {path}")),
        prop::sample::select(vec![
            "runs ls",
            "runs a b",
            "runs-unclear ls",
            "runs-exact ls a",
            "reaches a.b",
            "open",
            "leaves-out",
            "reaches b.a.b",
            "alias Read",
            "runs b*"
        ])
        .prop_map(str::to_owned),
    ];
    (tool, prop::collection::vec(effect, 0..4))
        .prop_map(|(tool, effects)| [&[tool.to_owned()], &*effects].concat().join(" | "))
}

fn compile(rules: Vec<Rule>) -> RuleSet {
    RuleSet::compile(rules, &anchors()).0
}

fn verdict(set: &RuleSet, call: &Call) -> Option<Verdict> {
    call.with(|subject| set.decide(subject).verdict)
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.max(1_000), failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    /// Every text is parsed or rejected with a message.
    #[test]
    fn parsing_never_panics(text in prop_oneof![".{0,40}", rule_text()], list in 0..3) {
        let list = [RuleList::Deny, RuleList::Ask, RuleList::Allow][list as usize];
        let source = SettingsSource::new(SourceScope::User, "/u");
        let written = |text: &str| UnparsedRule::plain(text, list, source.clone());
        match Rule::parse(written(&text)) {
            Err(bad) => prop_assert!(!bad.what.is_empty()),
            Ok(rule) => {
                let again = Rule::parse(written(&rule.to_string())).unwrap();
                prop_assert_eq!(&again.to_string(), &rule.to_string());
                prop_assert_eq!(again.is_bare(), rule.is_bare());
                let (set, _) = RuleSet::compile(vec![rule], &anchors());
                for text in ["Bash ls", "Read a/b", "Grep .", "WebFetch a.b", "Agent x", "mcp__a__b"] {
                    super::decide(&set, text);
                }
            }
        }
    }

    /// The quick answer equals the explained one.
    #[test]
    fn both_answers_are_one(rules in rules(0..12), text in calls()) {
        let set = compile(rules);
        call(&text).with(|subject| {
            let (quick, told) = (set.decide(subject), set.explain(subject));
            assert_eq!((quick.verdict, quick.by, quick.leaves_out), (told.verdict, told.by, told.leaves_out));
            if matches!(quick.verdict, Some(Verdict::Allow) | None) {
                assert_eq!(quick.uncovered, told.uncovered);
            }
            assert!(told.others.iter().all(|(id, _)| Some(*id) != told.by), "the deciding rule lost nothing");
        });
    }

    /// A set stops exactly what one of its rules alone would stop: the indexes lose nothing.
    #[test]
    fn a_set_stops_what_its_rules_stop(rules in rules(1..12), text in calls()) {
        let call = call(&text);
        let stops = |verdict| match verdict { Some(Verdict::Deny) => 2, Some(Verdict::Ask) => 1, _ => 0 };
        let alone = rules.iter().map(|rule| stops(verdict(&compile(vec![rule.clone()]), &call))).max().unwrap_or(0);
        prop_assert_eq!(stops(verdict(&compile(rules), &call)), alone);
    }

    /// Deny rules match paths as ripgrep's gitignore does.
    #[test]
    fn paths_are_read_as_gitignore_reads_them(
        pattern in prop::collection::vec(
            prop::sample::select(vec!["a", "b", "*", "**", "a*", "?", "[ab]", "*b", "a*b", "?b*", "\\a", "ab"]), 1..5),
        path in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "ba", "abb", "c", "a*b"]), 1..6),
    ) {
        let (pattern, path) = (format!("/{}", pattern.join("/")), path.join("/"));
        let mut builder = ignore::gitignore::GitignoreBuilder::new("/p");
        builder.add_line(None, &pattern).unwrap();
        let theirs = builder.build().unwrap();
        let expected = theirs.matched_path_or_any_parents(&path, false).is_ignore();
        let ours = compile(vec![parse(&format!("deny Read({pattern})")).unwrap()]);
        let got = verdict(&ours, &call(&format!("Read /p/{path}"))) == Some(Verdict::Deny);
        prop_assert_eq!(got, expected, "{} on {}", pattern, path);
    }

    /// An allow rule lifts no restriction, and a deny or ask rule allows nothing.
    #[test]
    fn more_rules_do_what_their_list_says(rules in rules(0..8), more in rule_line(), text in calls()) {
        let call = call(&text);
        let Ok(more) = parse(&more) else { return Ok(()) };
        let list = more.list();
        let before = verdict(&compile(rules.clone()), &call);
        let after = verdict(&compile(rules.into_iter().chain([more]).collect()), &call);
        match (list, before) {
            (RuleList::Allow, Some(_)) => prop_assert_eq!(after, before),
            (RuleList::Allow, None) => prop_assert!(matches!(after, None | Some(Verdict::Allow))),
            (_, Some(Verdict::Deny)) => prop_assert_eq!(after, Some(Verdict::Deny)),
            (_, Some(Verdict::Ask)) => prop_assert!(matches!(after, Some(Verdict::Ask | Verdict::Deny))),
            (_, before) => prop_assert!(after == before || matches!(after, Some(Verdict::Ask | Verdict::Deny))),
        }
    }

    /// A rule that is proposed to deny a call denies it.
    #[test]
    fn a_proposed_denial_denies(text in calls()) {
        let call = call(&text);
        let rule = call.with(|subject| compile(Vec::new()).propose_deny(subject));
        let set = compile(vec![parse(&format!("local deny {rule}")).unwrap()]);
        prop_assert_eq!(verdict(&set, &call), Some(Verdict::Deny), "{}", rule);
    }

    /// Proposed rules cover the call.
    #[test]
    fn proposed_rules_cover_the_call(rules in rules(0..6), text in calls()) {
        let call = call(&text);
        let allowing: Vec<Rule> = rules.into_iter().filter(|rule| rule.list() == RuleList::Allow).collect();
        let proposed = call.with(|subject| compile(allowing.clone()).propose(subject));
        if !proposed.is_empty() {
            let added = proposed.iter().map(|rule| parse(&format!("local allow {rule}")).unwrap());
            let set = compile(allowing.into_iter().chain(added).collect());
            prop_assert_eq!(verdict(&set, &call), Some(Verdict::Allow), "{:?}", proposed);
        }
    }
}
