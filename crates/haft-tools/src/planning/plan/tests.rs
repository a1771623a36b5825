//! Plan mode and the comparison of work with plans.

use std::sync::Arc;

use haft::call_log::CallLog;
use haft::hooks::HookSet;
use haft::ports::{ApprovalAnswer, PermissionMode};
use haft::testing::{LiveMode, ScriptedAsker, TestCaller};
use haft::{Effects, Registry, ToolOutput, dynamic_tool};
use serde_json::{Value, json};

use super::steps::{StepIntent, StepTarget, parse_steps};
use super::*;
use crate::enter_plan_mode::EnterPlanMode;
use crate::exit_plan_mode::ExitPlanMode;
use crate::verify_plan::VerifyPlan;

const PLAN: &str = "# Speed up\n\n## Context\n- it is slow\n\n## Steps\n\n1. Add the cache in `src/cache.rs`\n   - with `fn lookup()`\n2. Use it in src/main.rs\n3. Run `cargo test`\n4. Update `README.md`\n5. Explain the speed to readers in the documents\n";

/// A session with plan tools, and tools that only say what they touch.
fn session(asker: &ScriptedAsker, mode: &LiveMode) -> TestCaller {
    let (plans, log) = (SessionPlans::default(), CallLog::new());
    let writes = |name: &'static str| {
        let schema = json!({"type": "object"});
        dynamic_tool(name, "Touches a file, or says so.", schema, |input: Value, _| async move {
            match input["fails"].as_str() {
                Some(words) => Err(haft::ToolError::new(words)),
                None => Ok("ok".to_owned()),
            }
        })
        .effects(|input: &Value| match (input["file_path"].as_str(), input["command"].as_str()) {
            (Some(path), _) if input["look"] == true => Effects::reads(path),
            (Some(path), _) => Effects::writes(path),
            (_, Some(command)) => Effects::runs(command),
            _ => Effects::none(),
        })
    };
    let registry = Registry::new()
        .with(EnterPlanMode::new(&plans))
        .and_then(|registry| registry.with(ExitPlanMode::new(&plans, Some(log.clone()))))
        .and_then(|registry| registry.with(VerifyPlan::new(&plans, Some(log.clone()))))
        .and_then(|registry| registry.with(writes("Write")))
        .and_then(|registry| registry.with(writes("Bash")));
    let allowed = haft::PermissionRules::new().allow("Write").unwrap().allow("Bash").unwrap();
    TestCaller::with_registry(registry.unwrap()).engine(|engine| {
        let engine = engine.permissions(allowed).asker(asker.clone()).hooks(HookSet::new().after(log));
        engine.ports(|ports| ports.mode = Some(Arc::new(mode.clone())))
    })
}

async fn say(caller: &TestCaller, tool: &str, input: Value) -> String {
    let result = caller.call(tool, input).await;
    match result.outcome() {
        Ok(output) => ToolOutput::to_text(output),
        Err(error) => format!("! {}", error.message()),
    }
}

#[tokio::test]
async fn a_plan_is_sent_back_and_then_approved() {
    let asker = ScriptedAsker::new()
        .then(ApprovalAnswer::NoBecause("no cache, please".into()))
        .then(ApprovalAnswer::Edit(json!({"plan": "1. Edit `a.rs`"})))
        .then(ApprovalAnswer::Once);
    let mode = LiveMode::new(PermissionMode::AcceptEdits);
    let caller = session(&asker, &mode);
    let early = say(&caller, "ExitPlanMode", json!({"plan": PLAN})).await;
    assert!(early.contains("this session doesn't plan") && asker.approvals().is_empty(), "{early}");
    assert!(say(&caller, "EnterPlanMode", json!({})).await.starts_with("the session plans now"));
    assert!(say(&caller, "EnterPlanMode", json!({})).await.starts_with("this session plans already"));
    let sent_back = say(&caller, "ExitPlanMode", json!({"plan": PLAN})).await;
    assert!(sent_back.contains("no cache, please"), "{sent_back}");
    assert_eq!(mode.changes(), [PermissionMode::Plan], "nothing changes by a no");
    let approval = &asker.approvals()[0];
    assert!(
        matches!(&approval.view.body[..], [haft::view::ViewPart::Text { text }] if text.contains("src/cache.rs"))
    );
    let approved = say(&caller, "ExitPlanMode", json!({"plan": PLAN})).await;
    assert!(
        approved.contains("mode is `acceptEdits` now") && approved.ends_with("1. Edit `a.rs`"),
        "{approved}"
    );
    assert_eq!(mode.changes(), [PermissionMode::Plan, PermissionMode::AcceptEdits]);
    let verified = say(&caller, "VerifyPlan", json!({})).await;
    assert!(verified.starts_with("0 of 1 steps: 0 done, 0 different, 1 missing"), "{verified}");
}

#[tokio::test]
async fn a_rule_or_hook_approves_no_plan() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::NoBecause("I decide".into()));
    let mode = LiveMode::new(PermissionMode::Plan);
    let caller = session(&asker, &mode)
        .engine(|engine| engine.permissions(haft::PermissionRules::new().allow("ExitPlanMode").unwrap()));
    let said = say(&caller, "ExitPlanMode", json!({"plan": PLAN})).await;
    assert!(said.contains("I decide") && mode.changes().is_empty(), "{said}");
}

#[tokio::test]
async fn a_mode_that_the_user_chose_meanwhile_stays() {
    let asker = ScriptedAsker::waiting();
    let mode = LiveMode::new(PermissionMode::Plan);
    let caller = session(&asker, &mode);
    let turn = caller.start([("1", "ExitPlanMode", json!({"plan": PLAN}))]);
    let asked = asker.asked().await;
    haft::ports::ModeControl::set(&mode, PermissionMode::DontAsk);
    asked.answer(ApprovalAnswer::Once);
    turn.results().await;
    assert_eq!(mode.changes(), [PermissionMode::DontAsk]);
}

#[tokio::test]
async fn steps_are_done_missing_or_different() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let mode = LiveMode::new(PermissionMode::Plan);
    let caller = session(&asker, &mode);
    say(&caller, "Write", json!({"file_path": "README.md"})).await;
    say(&caller, "ExitPlanMode", json!({"plan": PLAN})).await;
    say(&caller, "Write", json!({"file_path": "./src/cache.rs", "content": "pub fn lookup() {}"})).await;
    say(&caller, "Write", json!({"file_path": "src/main.rs", "look": true})).await;
    say(&caller, "Bash", json!({"command": "cargo test"})).await;
    say(&caller, "Bash", json!({"command": "cd x && cargo  test -q", "fails": "exit code 101\nmore"})).await;
    say(&caller, "Write", json!({"file_path": "src/extra.rs"})).await;
    assert_eq!(
        say(&caller, "VerifyPlan", json!({})).await,
        "1 of 5 steps: 1 done, 2 different, 2 missing\n\n\
         1 done: Add the cache in `src/cache.rs`\n    `src/cache.rs` was changed (call 3, Write)\n\
         2 different: Use it in src/main.rs\n    `src/main.rs` was only looked at (call 4, Write)\n\
         3 different: Run `cargo test`\n    `cargo test` ran and failed (call 6, Bash): exit code 101\n\
         4 missing: Update `README.md`\n    `README.md`: no call touched it\n\
         5 missing: Explain the speed to readers in the documents\n    names no file and no command, and no call is like its words\n\n\
         changed, and in no step: src/extra.rs (call 7, Write)\n\n\
         do what is missing, look at what is different, or tell the user why it is not needed"
    );
    say(&caller, "Write", json!({"file_path": "src/main.rs"})).await;
    say(&caller, "Bash", json!({"command": "cargo test"})).await;
    say(
        &caller,
        "Write",
        json!({"file_path": "./README.md", "content": "explain the speed for readers of documents"}),
    )
    .await;
    let done = say(&caller, "VerifyPlan", json!({})).await;
    assert!(done.starts_with("5 of 5 steps: 5 done, 0 different, 0 missing"), "{done}");
    assert!(done.contains("by its words it is call"), "{done}");
}

#[tokio::test]
async fn nothing_to_hold_the_work_against() {
    let mode = LiveMode::new(PermissionMode::Default);
    let caller = session(&ScriptedAsker::new(), &mode);
    assert!(say(&caller, "VerifyPlan", json!({})).await.contains("no plan was approved"));
    say(&caller, "Bash", json!({"command": "npm test -- --all"})).await;
    let given =
        say(&caller, "VerifyPlan", json!({"plan": "- run `npm test`\n- run `npm test -- --one`"})).await;
    assert!(given.contains("1 done: run `npm test`"), "{given}");
    assert!(given.contains("2 different: ") && given.contains("`npm test -- --all` was"), "{given}");
}

#[test]
fn plans_have_steps_whatever_they_look_like() {
    let titles = |plan: &str| parse_steps(plan).into_iter().map(|step| step.title).collect::<Vec<_>>();
    assert_eq!(titles("- [ ] one\n- [x] two\n  - in it\n"), ["one", "two"]);
    assert_eq!(titles("Intro:\n\n1) a\n- detail\n2) b\n\nafter"), ["a", "b"]);
    assert_eq!(titles("# T\n## First\ntext\n## Notes\nx\n## Second\n"), ["First", "Second"]);
    assert_eq!(titles("Do a.\nAnd more.\n\nDo b."), ["Do a.", "Do b."]);
    assert_eq!(titles("```\n1. not a step\n```\n- step"), ["step"]);
    assert_eq!(titles(""), Vec::<String>::new());
    let of = |plan: &str| {
        let step = parse_steps(plan).remove(0);
        (step.intent, step.targets)
    };
    let (path, command, symbol) = (
        |text: &str| StepTarget::Path(text.into()),
        |text: &str| StepTarget::Command(text.into()),
        |text: &str| StepTarget::Symbol(text.into()),
    );
    assert_eq!(of("- Read ./a/b.py, then c.txt."), (StepIntent::Look, vec![path("a/b.py"), path("c.txt")]));
    assert_eq!(
        of("- Run `make` and `cargo  test -q`"),
        (StepIntent::Run, vec![command("make"), command("cargo test -q")])
    );
    assert_eq!(
        of("- Add `Parser::next()` to `src/x`"),
        (StepIntent::Change, vec![symbol("Parser::next"), path("src/x")])
    );
    assert_eq!(of("- See https://a.b/c.html, e.g. v1.2 etc."), (StepIntent::Change, Vec::new()));
}
