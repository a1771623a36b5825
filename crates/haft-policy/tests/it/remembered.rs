//! "Always" answers: stored outside of the workspace, per workspace, one per line.

use haft_policy::source::{RuleList, SourceScope};
use haft_policy::trust::{REMEMBERED_MAX, RememberedRules};

use crate::room::{Room, rules, set_mode};

fn of(room: &Room, workspace: &str) -> RememberedRules {
    RememberedRules::open(&room.at("state"), &room.at(workspace))
}

#[test]
fn answers_come_back_with_their_lines() {
    let room = Room::new();
    let answers = of(&room, "work");
    assert_eq!(rules(&answers.rules().0), "");
    assert!(!answers.file().exists(), "looking creates nothing");
    answers.add("Bash(npm test)", RuleList::Allow).unwrap();
    answers.add("Edit(//etc/**)", RuleList::Deny).unwrap();
    answers.add("Bash(npm test)", RuleList::Allow).unwrap();
    let loaded = room.load();
    assert_eq!(rules(&loaded.remembered), "+Bash(npm test) -Edit(//etc/**)");
    let source = &loaded.remembered[1].source;
    assert_eq!((source.scope, source.line), (SourceScope::Session, Some(2)));
    assert_eq!(*source.anchor, *room.at("work"));
    assert!(source.to_string().ends_with(".jsonl:2"));
    assert!(!answers.file().starts_with(room.at("work")));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(answers.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(rules(&of(&room, "home").rules().0), "", "other workspaces have their own");
    assert_eq!((answers.forget().unwrap(), answers.forget().unwrap()), (2, 0));
}

#[test]
fn answers_count_without_trust_but_not_against_the_owner() {
    let room = Room::new().with("work/.haft/settings.json", r#"{"permissions": {"allow": ["X"]}}"#);
    of(&room, "work").add("A", RuleList::Allow).unwrap();
    of(&room, "work").add("D", RuleList::Deny).unwrap();
    assert_eq!(rules(&room.load().remembered), "+A -D");
    room.write("etc/settings.json", r#"{"permissions": {"allowManagedPermissionRulesOnly": true}}"#);
    assert_eq!(rules(&room.load().remembered), "-D");
}

#[test]
fn a_damaged_line_is_skipped_and_swallows_no_other() {
    let room = Room::new();
    let answers = of(&room, "work");
    answers.add("A", RuleList::Allow).unwrap();
    let mut text = std::fs::read_to_string(answers.file()).unwrap();
    text.push_str("{\"rule\": \"half");
    std::fs::write(answers.file(), &text).unwrap();
    answers.add("B", RuleList::Allow).unwrap();
    let (found, warnings) = answers.rules();
    assert_eq!(rules(&found), "+A +B");
    assert!(warnings.len() == 1 && warnings[0].contains(":2: not an answer"), "{warnings:?}");
    std::fs::write(answers.file(), b"\xff\n{\"rule\": 3}\n\n").unwrap();
    assert_eq!((answers.rules().0.len(), answers.rules().1.len()), (0, 2));
}

#[test]
fn a_file_that_others_can_write_does_not_count() {
    let room = Room::new();
    let answers = of(&room, "work");
    answers.add("A", RuleList::Allow).unwrap();
    set_mode(answers.file(), 0o666);
    let loaded = room.load();
    assert!(loaded.remembered.is_empty());
    assert!(loaded.store_warnings[0].contains("others can write it"), "{:?}", loaded.store_warnings);
    set_mode(answers.file(), 0o600);
    assert_eq!(room.load().remembered.len(), 1);
}

#[test]
fn answers_are_bounded() {
    let room = Room::new();
    let answers = of(&room, "work");
    assert!(answers.add(&"x".repeat(20_000), RuleList::Allow).is_err());
    answers.add("A", RuleList::Allow).unwrap();
    let line = std::fs::read_to_string(answers.file()).unwrap();
    let lines: String = (0..REMEMBERED_MAX).map(|n| line.replace("\"A\"", &format!("\"A{n}\""))).collect();
    std::fs::write(answers.file(), lines).unwrap();
    let error = answers.add("one more", RuleList::Allow).unwrap_err().to_string();
    assert!(error.contains("1000 answers are kept already"), "{error}");
    std::fs::write(answers.file(), "\n".repeat(1024 * 1024)).unwrap();
    assert!(answers.add("full", RuleList::Allow).unwrap_err().to_string().contains("full"));
}

#[test]
fn many_writers_lose_nothing_and_double_nothing() {
    let room = Room::new();
    let start = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (answers, start) = (of(&room, "work"), &start);
            scope.spawn(move || {
                for n in 0..40 {
                    start.wait();
                    answers.add(&format!("Bash(shared {n})"), RuleList::Allow).unwrap();
                    answers.add(&format!("Bash(w{writer} n{n})"), RuleList::Allow).unwrap();
                }
            });
        }
    });
    let (found, warnings) = of(&room, "work").rules();
    assert_eq!((found.len(), warnings.len()), (40 + 4 * 40, 0));
}
