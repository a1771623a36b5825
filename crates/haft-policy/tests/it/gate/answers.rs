//! The user's answers: once, for the session, always; and the repetition guard.

use haft::ports::ApprovalAnswer;
use haft_policy::gate::SESSION_RULES_MAX;
use haft_policy::source::RuleList;
use serde_json::json;

use super::{rules, with};

#[tokio::test]
async fn once_is_once() {
    let session = with(json!({})).open();
    session.holds("ask Bash make\nask Bash make").await;
}

#[tokio::test]
async fn a_session_answer_holds_for_exactly_that() {
    let session = with(json!({})).open();
    session.user.now_says(ApprovalAnswer::Session);
    session
        .holds("ask Bash make && npm test\nask Write src/x\nask WebFetch https://x.io/a\nask stranger s")
        .await;
    session
        .holds(
            "allow Bash make && npm test
             allow Bash make
             allow Bash npm test
             allow Write src/x
             allow WebFetch https://x.io/b
             allow stranger s
             ask Bash make install
             ask Write src/y
             ask WebFetch https://y.io",
        )
        .await;
    assert!(!session.room.at("state/remembered").exists(), "a session's answer is kept nowhere");
}

#[tokio::test]
async fn always_is_kept_outside_of_the_workspace_one_rule_for_each_command() {
    let session = with(json!({})).open();
    session.user.now_says(ApprovalAnswer::Always);
    session.holds("ask Bash make && npm test").await;
    session.holds("allow Bash npm test").await;
    let kept = session.room.load().remembered;
    assert_eq!(crate::room::rules(&kept), "+Bash(make) +Bash(npm test)");
    assert!(session.room.at("work").read_dir().unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        name == "a.txt" || name == "src"
    }));
    // The next session has them.
    let next = with(json!({})).open_in(session.room, |setup| setup);
    next.holds("allow Bash make; npm test\nask Bash make clean").await;
}

#[tokio::test]
async fn the_proposal_is_shown_and_is_what_is_kept() {
    let session = with(json!({})).open();
    session.user.now_says(ApprovalAnswer::Session);
    session.call("Bash", json!({"command": "make && ls"})).await;
    session.call("Write", json!({"file_path": "src/x y.txt", "content": ""})).await;
    let proposed: Vec<_> =
        session.user.asked().into_iter().map(|asked| asked.proposed_rule.unwrap()).collect();
    let file = session.room.at("work/src/x y.txt");
    assert_eq!(
        proposed,
        [
            "allow rules `Bash(make)`, `Bash(ls)`".to_owned(),
            format!("allow rule `Edit(/{})`", file.display())
        ]
    );
}

/// An answer can't lift what no rule lifts.
#[tokio::test]
async fn some_answers_can_not_be_kept() {
    let session = with(rules("?Bash(git push *)")).open();
    session.user.now_says(ApprovalAnswer::Always);
    for _ in 0..2 {
        session
            .holds(
                "ask Bash git push
                 ask Bash rm -rf /
                 ask Write .git/config",
            )
            .await;
    }
    assert!(session.room.load().remembered.is_empty());
    let whys: Vec<_> =
        session.user.asked().iter().map(|asked| asked.proposed_rule.clone().unwrap_or_default()).collect();
    assert!(whys[0].contains("remove the rule `Bash(git push *)`"), "{whys:?}");
    assert!(whys[1].contains("a yes each time"), "{whys:?}");
}

#[tokio::test]
async fn what_is_not_understood_is_kept_as_the_whole_line() {
    let session = with(json!({})).open();
    session.user.now_says(ApprovalAnswer::Session);
    session.holds("ask Bash $X y\nallow Bash $X y\nask Bash $X z").await;
}

#[tokio::test]
async fn where_only_the_owner_allows_answers_hold_once() {
    let room = crate::room::Room::new();
    room.write("etc/settings.json", r#"{"permissions": {"allowManagedPermissionRulesOnly": true}}"#);
    let session = with(json!({})).open_in(room, |setup| setup);
    session.user.now_says(ApprovalAnswer::Always);
    session.holds("ask Bash make\nask Bash make").await;
}

#[tokio::test]
async fn the_same_call_in_three_turns_in_a_row_asks() {
    let session = with(json!({})).open();
    let same = json!({"file_path": "a.txt"});
    let call = || session.call("Read", same.clone());
    call().await;
    call().await;
    assert!(session.user.asked().is_empty());
    call().await;
    let asked = session.user.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].reason().contains("3 turns in a row"), "{}", asked[0].reason());
    // The user has seen the call, so the count starts again.
    call().await;
    call().await;
    assert_eq!(session.user.asked().len(), 1);
    call().await;
    assert_eq!(session.user.asked().len(), 2);
}

#[tokio::test]
async fn turns_count_and_not_calls() {
    let session = with(json!({})).open();
    let read = |id: &str, path: &str| (id.to_owned(), "Read", json!({"file_path": path}));
    for _ in 0..2 {
        session
            .caller
            .turn([read("1", "a.txt"), read("2", "a.txt"), read("3", "a.txt"), read("4", "a.txt")])
            .await;
    }
    assert!(session.user.asked().is_empty(), "two turns");
    session.caller.turn([read("1", "src/b.txt")]).await;
    session.caller.turn([read("1", "a.txt")]).await;
    session.caller.turn([read("1", "a.txt")]).await;
    assert!(session.user.asked().is_empty(), "another call came between");
    session.caller.turn([read("1", "a.txt"), read("2", "a.txt")]).await;
    assert_eq!(session.user.asked().len(), 1, "who saw one saw the other");
    for _ in 0..3 {
        session.caller.turn([read("1", "src/b.txt"), read("2", "src/b.txt")]).await;
    }
    assert_eq!(session.user.asked().len(), 2, "a second call in a turn doesn't begin anew");
}

#[tokio::test]
async fn the_guard_is_set_and_off() {
    let counts = async |settings, mode| {
        let session = with(settings).mode(mode).open();
        for _ in 0..6 {
            session.call("Read", json!({"file_path": "a.txt"})).await;
        }
        session.user.asked().len()
    };
    assert_eq!(counts(json!({}), "default").await, 2);
    assert_eq!(counts(json!({"repetitionGuard": 2}), "default").await, 3);
    assert_eq!(counts(json!({"repetitionGuard": false}), "default").await, 0);
    assert_eq!(counts(json!({}), "bypassPermissions").await, 0);
}

#[tokio::test]
async fn rules_that_a_program_adds_count_like_answers() {
    let session = with(json!({})).open();
    let add = |rule: &str, list, lasting| session.policy.add_rules(&[rule.to_owned()], list, lasting);
    add("Bash(make *)", RuleList::Allow, false).unwrap();
    add("Bash(make clean)", RuleList::Deny, false).unwrap();
    add("Bash(npm test)", RuleList::Allow, true).unwrap();
    session.holds("allow Bash make x\ndeny Bash make clean\nallow Bash npm test").await;
    let kept = session.room.load().remembered;
    assert_eq!(crate::room::rules(&kept), "+Bash(npm test)");
    // All or none.
    let bad = ["Write".to_owned(), "Bash(".to_owned()];
    assert!(session.policy.add_rules(&bad, RuleList::Allow, true).unwrap_err().contains("bad rule `Bash(`"));
    let many: Vec<String> = (0..SESSION_RULES_MAX).map(|number| format!("Bash(run {number})")).collect();
    assert!(
        session.policy.add_rules(&many, RuleList::Allow, true).unwrap_err().contains("at most 1000 rules")
    );
    session.holds("ask Write new.txt\nask Bash run 1").await;
    assert_eq!(session.room.load().remembered.len(), 1);
}

#[tokio::test]
async fn what_is_allowed_for_a_turn_ends_with_it() {
    let session = with(rules("-Bash(npm publish);+Bash(ls)")).open();
    let allow = |rules: &[&str]| {
        session.policy.allow_for_turn(&rules.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    allow(&["Bash(make *)", "Bash(npm *)", "Bash(ls)"]).unwrap();
    session
        .holds(
            "allow Bash make x\nallow Bash npm test\nallow Bash ls\ndeny Bash npm publish\nask Write src/x",
        )
        .await;
    assert!(allow(&["Bash(touch *)", "Bash(("]).is_err(), "all of them or none");
    session.holds("ask Bash touch y").await;
    // A rule that the user adds in the meantime stays, and so does an earlier one.
    session.policy.add_rules(&["Bash(npm *)".into()], RuleList::Allow, false).unwrap();
    session.policy.end_turn();
    session.holds("ask Bash make x\nallow Bash npm test\nallow Bash ls").await;
    session.policy.end_turn();
    session.holds("allow Bash ls").await;
}

#[tokio::test]
async fn where_only_the_owner_allows_a_turn_allows_nothing() {
    let room = crate::room::Room::new();
    room.write(
        "etc/settings.json",
        &json!({"permissions": {"allowManagedPermissionRulesOnly": true}}).to_string(),
    );
    let session = with(json!({})).open_in(room, |setup| setup);
    let said = session.policy.allow_for_turn(&["Bash(make)".into()]);
    assert!(said.unwrap_err().contains("machine's owner"));
}
