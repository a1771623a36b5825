//! Many edits of one file at once: none is lost.

use haft::dispatch::ConflictRule;
use haft::{Engine, PermissionRules, Registry, ToolCall, Workspace};
use serde_json::json;

#[test]
fn edits_of_one_file_at_once_lose_none_by_classes() {
    check(ConflictRule::Classes, 300);
}

#[test]
fn edits_of_one_file_at_once_lose_none_by_effects() {
    check(ConflictRule::Effects, 300);
}

#[test]
#[ignore = "prove"]
fn prove_a_thousand_edits_of_one_file_at_once_lose_none() {
    check(ConflictRule::Classes, 1_000);
    check(ConflictRule::Effects, 1_000);
    println!(
        "proof: 1000 edits of one file in four turns at once, by either rule: none is lost, all are undone"
    );
}

/// So many edits in several turns of one session.
fn check(rule: ConflictRule, edits: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("f");
    let lines: Vec<String> = (0..edits).map(|at| format!("line {at};")).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let permissions = PermissionRules::new().allow("Edit").unwrap().allow("MultiEdit").unwrap();
    let permissions = permissions.allow("ApplyPatch").unwrap().allow("Rewind").unwrap();
    let engine = Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(Workspace::new(temp.path()).unwrap())
        .permissions(permissions)
        .schedule(rule)
        .build();
    let calls = |part: usize| {
        (0..edits).filter(move |at| at % 4 == part).map(|at| {
                let (old, new) = (format!("line {at};"), format!("done {at};"));
                let id = at.to_string();
                match at % 3 {
                    0 => ToolCall::new(id, "Edit", json!({"file_path": "f", "old_string": old, "new_string": new})),
                    1 => ToolCall::new(
                        id,
                        "MultiEdit",
                        json!({"file_path": "f", "edits": [{"old_string": old, "new_string": new}]}),
                    ),
                    _ => ToolCall::new(
                        id,
                        "ApplyPatch",
                        json!({"input": format!("*** Begin Patch\n*** Update File: f\n-{old}\n+{new}\n*** End Patch")}),
                    ),
                }
            })
    };
    // Four turns of one session, at the same time.
    let turns: Vec<_> = (0..4)
        .map(|part| {
            let engine = engine.clone();
            let calls: Vec<ToolCall> = calls(part).collect();
            runtime.spawn(async move { engine.turn().run(calls).await })
        })
        .collect();
    for turn in turns {
        for result in runtime.block_on(turn).unwrap() {
            assert!(result.outcome().is_ok(), "{:?}", result.outcome());
        }
    }
    let expected: Vec<String> = (0..edits).map(|at| format!("done {at};")).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected.join("\n"));
    // All of them are undone at once.
    let undo = ToolCall::new("undo", "Rewind", json!({"action": "restore", "to": 1}));
    let result = runtime.block_on(engine.turn().run([undo])).remove(0);
    assert!(result.outcome().is_ok(), "{:?}", result.outcome());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines.join("\n"));
}
