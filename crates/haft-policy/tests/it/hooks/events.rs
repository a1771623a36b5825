//! The events that fire for each outcome, and the input of hooks.

use haft::ports::ApprovalAnswer;
use haft::testing::ScriptedAsker;
use serde_json::{Value, json};

use super::{Scene, answer, print, run};

/// Returns hooks for every event of calls that write the event's name to a file.
fn witnesses() -> Value {
    let tells = "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"hook_event_name\"])' >> fired";
    let events = [
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "PermissionDenied",
    ];
    events.iter().map(|event| ((*event).to_owned(), run(tells))).collect::<serde_json::Map<_, _>>().into()
}

/// The table of `docs/hooks.md`.
#[tokio::test]
async fn which_event_fires_on_which_outcome() {
    let check = async |tool: &str, input: Value, asker: Option<ScriptedAsker>, expected: &[&str]| {
        let scene = Scene::new();
        let hooks = scene.hooks(witnesses());
        let caller = scene.caller(&hooks).engine(|engine| match asker {
            Some(asker) => engine.asker(asker),
            None => engine,
        });
        let lines = caller.turn([("1", tool, input)]).await.lines();
        let fired = scene.read("fired");
        assert_eq!(fired.lines().collect::<Vec<_>>(), expected, "{tool}: {lines:?}");
    };
    let pre = "PreToolUse";
    check("NoSuchTool", json!({}), None, &[]).await;
    check("Echo", json!({"n": "x"}), None, &[]).await;
    check("Echo", json!({}), None, &[pre, "PostToolUse", "PostToolBatch"]).await;
    check("Fail", json!({}), None, &[pre, "PostToolUseFailure", "PostToolBatch"]).await;
    check("Write", json!({}), None, &[pre, "PermissionRequest", "PermissionDenied", "PostToolBatch"]).await;
    let yes = Some(ScriptedAsker::new().then(ApprovalAnswer::Once));
    check("Write", json!({}), yes, &[pre, "PermissionRequest", "PostToolUse", "PostToolBatch"]).await;
    let no = Some(ScriptedAsker::new().then(ApprovalAnswer::NoBecause("no".into())));
    check("Write", json!({}), no, &[pre, "PermissionRequest", "PostToolBatch"]).await;
}

/// A hook's denial fires no further events of the call.
#[tokio::test]
async fn a_call_that_a_hook_stopped_fires_no_more() {
    let scene = Scene::new();
    let mut hooks = witnesses();
    hooks["PreToolUse"] = run("echo PreToolUse >> fired; exit 2");
    let hooks = scene.hooks(hooks);
    scene.caller(&hooks).turn([("1", "Echo", json!({}))]).await;
    assert_eq!(scene.read("fired"), "PreToolUse\nPostToolBatch\n");

    let scene = Scene::new();
    let mut hooks = witnesses();
    let deny = answer("PermissionRequest", json!({"decision": {"behavior": "deny"}}));
    hooks["PermissionRequest"] = run(&format!("echo PermissionRequest >> fired\n{deny}"));
    let hooks = scene.hooks(hooks);
    scene.caller(&hooks).turn([("1", "Write", json!({}))]).await;
    assert_eq!(scene.read("fired"), "PreToolUse\nPermissionRequest\nPostToolBatch\n");
}

/// A cancelled call has no outcome to report.
#[tokio::test]
async fn a_cancelled_call_fires_nothing_after_it() {
    let scene = Scene::new();
    let hooks = scene.hooks(witnesses());
    let (tool, handle) = haft::testing::scripted_tool("Slow").effects(|_| haft::Effects::none()).build();
    let caller = haft::testing::TestCaller::new().tool(tool).engine(|engine| {
        let workspace = haft::Workspace::new(scene.dir()).expect("the folder");
        engine.workspace(workspace).hooks(hooks.add_to(haft::hooks::HookSet::new()))
    });
    let turn = caller.start([("1", "Slow", json!({}))]);
    let call = handle.started().await;
    turn.handle().cancel(haft::Cause::User);
    let lines = turn.results().await.lines();
    assert!(lines[0].starts_with("1 Cancelled"), "{lines:?}");
    assert_eq!(scene.read("fired"), "PreToolUse\n");
    drop(call);
}

/// A call that timed out has failed, and its hooks run although the call itself is cancelled.
#[tokio::test]
async fn a_call_that_took_too_long_fires_its_failure() {
    let scene = Scene::new();
    let hooks = scene.hooks(witnesses());
    let slow = haft::dynamic_tool("Slow", "A tool.", json!({"type": "object"}), |_, _| async {
        std::future::pending::<()>().await;
        Ok(String::new())
    });
    let slow = slow.effects(|_| haft::Effects::none()).timeout(std::time::Duration::from_millis(50));
    let caller = haft::testing::TestCaller::new().tool(slow).engine(|engine| {
        let workspace = haft::Workspace::new(scene.dir()).expect("the folder");
        engine.workspace(workspace).hooks(hooks.add_to(haft::hooks::HookSet::new()))
    });
    let lines = caller.turn([("1", "Slow", json!({}))]).await.lines();
    assert!(lines[0].starts_with("1 TimedOut"), "{lines:?}");
    assert_eq!(scene.read("fired"), "PreToolUse\nPostToolUseFailure\nPostToolBatch\n");
}

/// The complete input of a hook for each event.
#[tokio::test]
async fn what_hooks_read() {
    let scene = Scene::new();
    let keep = |event: &str| run(&format!("cat > {event}.json"));
    let hooks = json!({
        "PreToolUse": keep("pre"), "PostToolUse": keep("post"), "PostToolUseFailure": keep("failure"),
        "PostToolBatch": keep("batch"), "PermissionRequest": keep("request"), "PermissionDenied": keep("denied"),
    });
    let session = scene.session().with_mode(|| "acceptEdits".into());
    let hooks = scene.try_hooks(&json!({"hooks": hooks}), session).expect("hooks");
    let caller = scene.caller(&hooks).engine(|engine| engine.session_id("s-9"));
    let dir = scene.dir().canonicalize().expect("the folder");
    let common = |event: &str, more: Value| {
        let mut object = json!({
            "session_id": "s-9", "transcript_path": "/t/transcript.jsonl", "cwd": dir, "permission_mode": "acceptEdits",
            "hook_event_name": event,
        });
        for (key, value) in more.as_object().expect("an object") {
            object[key] = value.clone();
        }
        object
    };
    let without_time = |name: &str| {
        let mut seen = scene.read_json(name);
        assert!(seen["duration_ms"].is_u64(), "{seen}");
        seen.as_object_mut().expect("an object").remove("duration_ms");
        seen
    };

    caller.turn([("c1", "Read", json!({"file_path": "src/a.rs"}))]).await;
    let input = json!({"file_path": dir.join("src/a.rs")});
    let pre = json!({"tool_name": "Read", "tool_input": input, "tool_use_id": "c1"});
    assert_eq!(scene.read_json("pre.json"), common("PreToolUse", pre.clone()));
    let mut post = pre;
    post["tool_response"] = json!("{\"file_path\":\"src/a.rs\"}");
    assert_eq!(without_time("post.json"), common("PostToolUse", post));

    caller
        .turn([("c2", "Fail", json!({})), ("c3", "Data", json!({})), ("c4", "Data", json!({"n": "x"}))])
        .await;
    let failure = json!({
        "tool_name": "Fail", "tool_input": {}, "tool_use_id": "c2", "error": "it broke", "is_interrupt": false,
    });
    assert_eq!(without_time("failure.json"), common("PostToolUseFailure", failure));
    let batch = json!({"tool_calls": [
        {"tool_name": "Fail", "tool_input": {}, "tool_use_id": "c2", "tool_response": "it broke"},
        {"tool_name": "Data", "tool_input": {}, "tool_use_id": "c3", "tool_response": {"rows": 2, "name": "x"}},
    ]});
    assert_eq!(scene.read_json("batch.json"), common("PostToolBatch", batch));

    let results = caller.turn([("c5", "Write", json!({"n": 1}))]).await;
    let suggestions = json!([{
        "type": "addRules", "rules": [{"toolName": "Write"}], "behavior": "allow", "destination": "localSettings",
    }]);
    let request =
        json!({"tool_name": "Write", "tool_input": {"n": 1}, "permission_suggestions": suggestions});
    assert_eq!(scene.read_json("request.json"), common("PermissionRequest", request));
    let reason = results[0].error().expect("a denial").message().to_owned();
    let denied = json!({"tool_name": "Write", "tool_input": {"n": 1}, "tool_use_id": "c5", "reason": reason});
    assert_eq!(scene.read_json("denied.json"), common("PermissionDenied", denied));
}

#[tokio::test]
async fn where_hooks_run() {
    let scene = Scene::new();
    let project = scene.dir().join("a project");
    std::fs::create_dir(&project).expect("a folder");
    let dir = scene.dir().canonicalize().expect("the folder");
    let script =
        "pwd > where; echo \"${CLAUDE_PROJECT_DIR}|$HAFT_PROJECT_DIR|$FROM_SETTINGS|$MINE\" >> where";
    let settings = json!({
        "env": {"FROM_SETTINGS": "yes"},
        "hooks": {"PreToolUse": [{"hooks": [
            {"type": "command", "command": script},
            {"type": "command", "command": "printf", "args": ["%s", "${CLAUDE_PROJECT_DIR}/x $(touch injected)"]},
            {"type": "command", "command": "[ -t 0 ] || ! (: < /dev/tty) 2>/dev/null && touch no-terminal"},
        ]}]},
    });
    let session =
        scene.session().with_project_dir(&project).with_environment([("MINE".into(), "too".into())]);
    let hooks = scene.try_hooks(&settings, session).expect("hooks");
    scene.caller(&hooks).turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    let project = project.display();
    assert_eq!(scene.read("where"), format!("{}\n{project}|{project}|yes|too\n", dir.display()));
    assert!(!dir.join("injected").exists());
    assert!(dir.join("no-terminal").exists());
}

#[tokio::test]
async fn after_all_calls_of_a_message() {
    let scene = Scene::new();
    let context = answer("PostToolBatch", json!({"additionalContext": "run the tests"}));
    let hooks = scene.hooks(json!({"PostToolBatch": run(&context)}));
    let calls = || [("1", "Echo", json!({})), ("2", "Echo", json!({}))];
    let results = scene.caller(&hooks).turn(calls()).await;
    results.check(["1 ok: {}", "2 ok: {}\nnote: run the tests"]);
    assert!(!results[1].ends_turn());

    for stops in
        ["echo enough >&2; exit 2".to_owned(), print(&json!({"continue": false, "stopReason": "enough"}))]
    {
        let scene = Scene::new();
        let hooks = scene.hooks(json!({"PostToolBatch": run(&stops)}));
        let results = scene.caller(&hooks).turn(calls()).await;
        assert_eq!(results[1].stop_reason(), Some("enough"), "{stops}");
        assert!(results[1].ends_turn() && !results[1].is_error());
    }

    // A failure is reported and changes nothing.
    let scene = Scene::new();
    let hooks = scene.hooks(json!({"PostToolBatch": run("exit 9")}));
    scene.caller(&hooks).turn(calls()).await.check(["1 ok: {}", "2 ok: {}"]);
    assert!(scene.log.lines().iter().any(|line| line.contains("exit code 9")), "{:?}", scene.log.lines());
}

#[tokio::test]
async fn a_denied_call_may_be_tried_again() {
    let scene = Scene::new();
    let retry = answer("PermissionDenied", json!({"retry": true}));
    let line = scene.call(json!({"PermissionDenied": run(&retry)}), "Write", json!({})).await;
    assert!(
        line.starts_with("1 Denied") && line.ends_with("says that this call may be tried again"),
        "{line}"
    );
}

/// Names of events that nothing fires are accepted and listed, with a warning that they never run.
#[test]
fn all_names_are_accepted_and_listed() {
    let scene = Scene::new();
    let all: serde_json::Map<String, Value> =
        haft_policy::settings::EVENTS.iter().map(|(name, _)| ((*name).to_owned(), run("true"))).collect();
    let hooks = scene.hooks(all.into());
    assert_eq!(hooks.listed().len(), 33);
    assert_eq!(hooks.listed().iter().filter(|hook| hook.runs).count(), 13);
    assert_eq!(hooks.warnings().len(), 20);
    assert!(hooks.warnings()[0].message.contains("this hook never runs"));
}
