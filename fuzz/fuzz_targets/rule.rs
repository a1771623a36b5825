//! The rule parser: no text makes it panic, what it takes it takes again from its own print, and a compiled
//! rule decides about any call.
#![no_main]

use haft_policy::rule::{RuleAnchors, SubjectCommand, Rule, RuleSet, RuleSubject};
use haft_policy::source::{RuleList, SourceScope, SettingsSource, UnparsedRule};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    // A rule, and after a line break the command that it decides about.
    let (text, command) = text.split_once('\n').unwrap_or((text, text));
    for list in [RuleList::Deny, RuleList::Ask, RuleList::Allow] {
        let parse = |text: &str| Rule::parse(UnparsedRule::plain(text, list, SettingsSource::new(SourceScope::User, "/p")));
        let rule = match parse(text) {
            Ok(rule) => rule,
            Err(bad) => {
                assert!(!bad.what.is_empty() && !bad.to_string().is_empty());
                continue;
            }
        };
        let printed = rule.to_string();
        let again = parse(&printed).expect("what was taken is taken again");
        assert_eq!(again.to_string(), printed);
        assert_eq!((again.tool(), again.is_bare()), (rule.tool(), rule.is_bare()));

        let tool = rule.tool().to_owned();
        let (set, _) = RuleSet::compile(vec![rule], &RuleAnchors::new("/home/me", "/p"));
        let (same, _) = RuleSet::compile(vec![again], &RuleAnchors::new("/home/me", "/p"));
        for name in [tool.as_str(), "Bash", "mcp__s__t"] {
            let input = json!({"command": command, "file_path": command, "n": 1});
            let mut subject = RuleSubject::new(name, &input).running(SubjectCommand::plain(command));
            subject = subject.reading(command).writing(command).deleting("/p/x").reaching(command);
            let decided = set.decide(&subject);
            assert_eq!(decided.verdict, set.explain(&subject).verdict, "the quick answer is the long one");
            assert_eq!(decided.verdict, same.decide(&subject).verdict, "a rule means what its print means");
        }
    }
});
