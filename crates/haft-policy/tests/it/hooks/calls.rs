//! The effects of hooks on a call.

use std::sync::Arc;

use haft::hooks::HookCall;
use haft::ports::ApprovalAnswer;
use haft::testing::ScriptedAsker;
use haft_policy::hooks::{HookCondition, PermissionUpdate};
use serde_json::{Value, json};

use super::{Scene, answer, print, run, run_all};

fn pre(specific: Value) -> String {
    answer("PreToolUse", specific)
}

#[tokio::test]
async fn a_hook_says_no() {
    let check = async |command: &str, expected: &str| {
        let line = Scene::new().echo(json!({"PreToolUse": run(command)}), json!({"n": 1})).await;
        assert!(line.contains(expected), "{line}\nexpected {expected}");
    };
    check("exit 0", "1 ok: {\"n\":1}").await;
    check(
        "echo 'not on fridays' >&2; exit 2",
        "1 Denied: denied by hook `echo 'not on fridays' >&2; exit 2 (",
    )
    .await;
    check("echo 'not on fridays' >&2; exit 2", "not on fridays").await;
    check("echo '{\"decision\":\"block\",\"reason\":\"old words\"}'", "old words").await;
    check("echo '{\"decision\":\"approve\"}'; echo no >&2; exit 2", "1 Denied").await;
    check("echo '{rubbish'; echo no >&2; exit 2", "1 Denied").await;
    check(&pre(json!({"permissionDecision": "deny", "permissionDecisionReason": "because"})), ": because")
        .await;
    check(&pre(json!({"permissionDecision": "defer"})), "1 Blocked: Echo was blocked by hook").await;
    // An unusual exit code with valid JSON: only the JSON counts.
    check(&format!("{}\nexit 7", pre(json!({"permissionDecision": "deny"}))), "1 Denied").await;
    check(&format!("{}\nexit 7", pre(json!({"permissionDecision": "allow"}))), "1 ok").await;
}

/// deny > defer > ask > allow, in any order.
#[tokio::test]
async fn the_strictest_of_several_counts() {
    let word = |word: &str| pre(json!({"permissionDecision": word, "permissionDecisionReason": word}));
    let check = async |words: [&str; 2], expected: &str| {
        for words in [words, [words[1], words[0]]] {
            let commands = words.map(word);
            let hooks = json!({"PreToolUse": run_all(commands.iter().map(String::as_str))});
            let line = Scene::new().call(hooks, "Write", json!({})).await;
            assert!(line.starts_with(expected), "{words:?}: {line}");
        }
    };
    check(["allow", "deny"], "1 Denied: denied by hook").await;
    check(["ask", "deny"], "1 Denied: denied by hook").await;
    check(["defer", "deny"], "1 Denied: denied by hook").await;
    check(["defer", "ask"], "1 Blocked").await;
    check(["ask", "allow"], "1 Denied: Write was denied: ask, so it needs a yes").await;
    check(["allow", "allow"], "1 ok").await;
}

/// A denial is reported as a denial, even if another hook failed.
#[tokio::test]
async fn a_denial_counts_more_than_a_failure() {
    let deny = pre(json!({"permissionDecision": "deny", "permissionDecisionReason": "no"}));
    for commands in [["exit 1", &deny], [&deny, "exit 1"]] {
        let line = Scene::new().echo(json!({"PreToolUse": run_all(commands)}), json!({})).await;
        assert!(line.starts_with("1 Denied"), "{line}");
    }
}

#[tokio::test]
async fn an_allow_lifts_no_rule() {
    let scene = Scene::new();
    let hooks = scene.hooks(json!({"PreToolUse": run(&pre(json!({"permissionDecision": "allow"})))}));
    let rules = haft::PermissionRules::new().deny("Write").expect("a rule");
    let caller = scene.caller(&hooks).engine(|engine| engine.permissions(rules));
    let lines = caller.turn([("1", "Write", json!({}))]).await.lines();
    assert!(lines[0].starts_with("1 Denied: Write is"), "{lines:?}");
}

/// Each of two hooks waits for the other, so they end only if they run in parallel.
#[tokio::test]
async fn hooks_of_one_event_run_at_once() {
    let scene = Scene::new();
    let fifos = "mkfifo a b 2>/dev/null;";
    let first = format!("{fifos} echo 1 > a; cat b > /dev/null");
    let second = format!("{fifos} cat a > /dev/null; echo 2 > b");
    let hooks = json!({"PreToolUse": [{"hooks": [
        {"type": "command", "command": first, "timeout": 20},
        {"type": "command", "command": second, "timeout": 20},
    ]}]});
    assert_eq!(scene.echo(hooks, json!({})).await, "1 ok: {}");
}

/// The first hook ends last, but the last one still wins.
#[tokio::test]
async fn rewrites_are_applied_in_the_order_of_the_configuration() {
    for slow in [0, 1] {
        let scene = Scene::new();
        let write = |by: &str| pre(json!({"updatedInput": {"by": by}}));
        let mut commands = [write("first"), write("second")];
        let waits = format!("while ! [ -e done ]; do read -t 0.01 < <(:); done\n{}", commands[slow]);
        let tells = format!("{}\ntouch done", commands[1 - slow]);
        commands[slow] = waits;
        commands[1 - slow] = tells;
        let hooks = json!({"PreToolUse": run_all(commands.iter().map(String::as_str))});
        assert_eq!(scene.echo(hooks, json!({})).await, "1 ok: {\"by\":\"second\"}");
        assert!(scene.log.warnings().iter().any(|words| words.contains("its rewrite was left out")));
    }
}

/// A rewritten call is checked again by the schema, by rules and by the other hooks. Its author is not
/// asked again.
#[tokio::test]
async fn a_rewritten_call_is_checked_again() {
    let scene = Scene::new();
    let bad = pre(json!({"updatedInput": {"n": "many"}}));
    let line = scene.echo(json!({"PreToolUse": run(&bad)}), json!({"n": 1})).await;
    assert!(line.starts_with("1 InvalidInput"), "{line}");

    // A different rewrite each time: the process would never end if the author were asked again.
    let scene = Scene::new();
    let adds = scene.script(
        "adds.py",
        "#!/usr/bin/env python3\nimport json, sys\ncall = json.load(sys.stdin)\nopen('asked', 'a').write('x')\n\
         print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'permissionDecision': 'allow',\n\
         'additionalContext': 'one more', 'updatedInput': {'n': call['tool_input']['n'] + 1}}}))\n",
    );
    let line = scene.call(json!({"PreToolUse": run(&adds)}), "Write", json!({"n": 1})).await;
    assert_eq!(
        line, "1 ok: {\"n\":2}\nnote: one more",
        "what the author said stands: allowed, with its words"
    );
    assert_eq!(scene.read("asked"), "x");

    // A gate sees the final input, wherever it is in the order.
    for gate_first in [true, false] {
        let scene = Scene::new();
        let gate = "if grep -q '\"n\":2'; then echo 'not two' >&2; exit 2; fi";
        let rewrite = pre(json!({"permissionDecision": "allow", "updatedInput": {"n": 2}}));
        let commands = if gate_first { [gate, &rewrite] } else { [&rewrite, gate] };
        let line = scene.echo(json!({"PreToolUse": run_all(commands)}), json!({"n": 1})).await;
        assert!(line.starts_with("1 Denied") && line.contains("not two"), "{line}");
    }

    // Allowing the original input doesn't allow another hook's rewrite.
    let scene = Scene::new();
    let allows_one = "if grep -q '\"n\":1'; then echo '{\"decision\":\"approve\"}'; fi";
    let rewrite = pre(json!({"updatedInput": {"n": 2}}));
    let line =
        scene.call(json!({"PreToolUse": run_all([allows_one, &rewrite])}), "Write", json!({"n": 1})).await;
    assert!(line.starts_with("1 Denied: Write was denied: it writes"), "{line}");

    // An input returned unchanged is not a rewrite.
    let scene = Scene::new();
    let same = "python3 -c 'import json,sys; i=json.load(sys.stdin)[\"tool_input\"]; print(json.dumps({\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"updatedInput\":i}}))'; echo x >> asked";
    let line = scene.call(json!({"PreToolUse": run(same)}), "Read", json!({"file_path": "a.txt"})).await;
    assert_eq!(line, "1 ok: {\"file_path\":\"a.txt\"}");
    assert_eq!(scene.read("asked"), "x\n");
}

#[tokio::test]
async fn words_for_the_model_and_for_the_user() {
    let scene = Scene::new();
    let both = print(&json!({
        "systemMessage": "for the user",
        "suppressOutput": true,
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "before"},
    }));
    let after = answer("PostToolUse", json!({"additionalContext": "after"}));
    let blocks = print(&json!({"decision": "block", "reason": "look again"}));
    let hooks =
        json!({"PreToolUse": run(&both), "PostToolUse": run_all([&after, &blocks, "echo hm >&2; exit 2"])});
    let line = scene.echo(hooks, json!({})).await;
    let lines: Vec<&str> = line.lines().collect();
    assert_eq!(&lines[..3], ["1 ok: {}", "note: before", "note: after"]);
    assert!(lines[3].ends_with("says: look again") && lines[4].ends_with("says: hm"), "{lines:?}");
    assert!(scene.log.lines().contains(&"1 message: for the user".to_owned()), "{:?}", scene.log.lines());
}

#[tokio::test]
async fn another_output() {
    let check = async |tool: &str, output: Value, expected: &str| {
        let scene = Scene::new();
        let hook = answer("PostToolUse", json!({"updatedToolOutput": output}));
        let line = scene.call(json!({"PostToolUse": run(&hook)}), tool, json!({})).await;
        assert_eq!(line.replace(": ", ":"), expected.replace(": ", ":"));
        scene.log.warnings()
    };
    assert_eq!(check("Echo", json!("other"), "1 ok: other").await, [""; 0]);
    assert_eq!(check("Echo", json!([{"type": "text", "text": "t"}]), "1 ok: t").await, [""; 0]);
    assert_eq!(check("Echo", json!({"a": 1}), "1 ok: {}").await.len(), 1, "another shape is left out");
    let data = check("Data", json!({"rows": 3, "name": "y"}), "1 ok: {\"name\":\"y\",\"rows\":3}").await;
    assert_eq!(data, [""; 0]);
    let kept = check("Data", json!({"rows": "three"}), "1 ok: {\"name\":\"x\",\"rows\":2}").await;
    assert_eq!(kept.len(), 1);
    // A failure stays one.
    assert_eq!(check("Fail", json!("fine"), "1 Failed: it broke").await, [""; 0]);
}

/// `continue: false` ends the turn: before a call it isn't made, after it the result stays.
#[tokio::test]
async fn a_hook_ends_the_turn() {
    let stop = print(&json!({"continue": false, "stopReason": "enough for today", "decision": "approve"}));
    let scene = Scene::new();
    let hooks = scene.hooks(
        json!({"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": stop}]}]}),
    );
    let calls = [("1", "Write", json!({})), ("2", "Write", json!({}))];
    let results = scene.caller(&hooks).turn(calls).await;
    let lines = results.lines();
    assert!(lines[0].starts_with("1 Blocked: Write was not run: hook `"), "{lines:?}");
    assert!(lines[0].ends_with("ended the turn: enough for today"), "{lines:?}");
    assert_eq!(
        lines[1],
        "2 Cancelled: Write was not run; cancelled: a hook ended this turn; the user did not interrupt"
    );
    assert!(results[0].ends_turn());

    let scene = Scene::new();
    let hooks = scene.hooks(json!({"PostToolUse": run(&stop)}));
    let results = scene.caller(&hooks).turn([("1", "Echo", json!({"n": 1}))]).await;
    results.check(["1 ok: {\"n\":1}"]);
    assert!(results[0].ends_turn());
    assert_eq!(results[0].stop_reason(), Some("enough for today"));
}

/// Long texts go to a file, and the model receives a preview with its path.
#[tokio::test]
async fn long_words_go_to_a_file() {
    let scene = Scene::new();
    let script = scene.script(
        "long.py",
        "#!/usr/bin/env python3\nimport json\n\
         print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'additionalContext': 'word ' * 5000}}))\n",
    );
    let hooks = scene.hooks(json!({"PreToolUse": run(&script)}));
    let caller = scene.caller(&hooks);
    let results = caller.turn([("1", "Echo", json!({}))]).await;
    let note = &results[0].notes()[0];
    assert!(note.chars().count() <= 10_000, "{}", note.chars().count());
    let at = note.find("/hook-").expect("the path of a file");
    let start = note[..at].rfind(|c: char| c.is_whitespace() || c == '`').map_or(0, |at| at + 1);
    let end = note[at..].find(".txt").expect("a text file") + at + 4;
    let kept = std::fs::read_to_string(&note[start..end]).expect("the whole");
    assert_eq!(kept.len(), 25_000);
}

struct OnlyOne;

impl HookCondition for OnlyOne {
    fn matches(&self, call: &HookCall<'_>) -> bool {
        call.input["n"] == 1
    }
}

#[tokio::test]
async fn a_condition_narrows_and_an_unknown_one_does_not() {
    let scene = Scene::new();
    let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "echo no >&2; exit 2", "if": "Echo(n:1)"},
    ]}], "Stop": [{"hooks": [{"type": "command", "command": "true", "if": "Echo"}]}]}});
    let read =
        |rule: &str, _: &haft_policy::source::SettingsSource| -> Result<Arc<dyn HookCondition>, String> {
            if rule == "Echo(n:1)" { Ok(Arc::new(OnlyOne)) } else { Err("no such rule".into()) }
        };
    let session = scene.session().with_conditions(Arc::new(read));
    let made = scene.try_hooks(&hooks, session.clone()).expect("hooks");
    let lines = scene
        .caller(&made)
        .turn([("1", "Echo", json!({"n": 1})), ("2", "Echo", json!({"n": 2}))])
        .await
        .lines();
    assert!(lines[0].starts_with("1 Denied") && lines[1] == "2 ok: {\"n\":2}", "{lines:?}");
    assert!(made.warnings()[0].message.starts_with("`if` is about calls, and `Stop` is not"));

    // There is no parser for rules: the hook runs for all calls, and a warning says so.
    let made = scene.try_hooks(&hooks, scene.session()).expect("hooks");
    let lines = scene.caller(&made).turn([("1", "Echo", json!({"n": 2}))]).await.lines();
    assert!(lines[0].starts_with("1 Denied"), "{lines:?}");
    assert!(made.warnings().iter().any(|warning| warning.message.contains("nothing understands `if` here")));

    // An invalid rule stops everything.
    let bad =
        json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true", "if": "?"}]}]}});
    let error = scene.try_hooks(&bad, session).map(|_| ()).expect_err("a bad rule").to_string();
    assert!(error.ends_with("`if`: no such rule"), "{error}");
}

#[tokio::test]
async fn identical_hooks_run_once_and_once_means_once() {
    let scene = Scene::new();
    let tells = json!({"type": "command", "command": "echo x >> runs"});
    let once =
        json!({"type": "command", "command": "echo y >> once", "once": true, "statusMessage": "looking"});
    let hooks = scene.hooks(json!({"PreToolUse": [
        {"matcher": "Echo", "hooks": [tells, tells]},
        {"matcher": "*", "hooks": [tells, once]},
        {"matcher": "Ec.*", "hooks": [tells]},
        {"matcher": "Write", "hooks": [{"type": "command", "command": "echo z >> runs"}]},
    ]}));
    let caller = scene.caller(&hooks);
    caller.turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    caller.turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    assert_eq!((scene.read("runs"), scene.read("once")), ("x\nx\n".into(), "y\n".into()));
    assert!(scene.log.lines().contains(&"1 progress looking".to_owned()), "{:?}", scene.log.lines());
}

fn permission(decision: Value) -> String {
    answer("PermissionRequest", json!({"decision": decision}))
}

#[tokio::test]
async fn a_permission_hook_answers_for_the_user() {
    let check = async |commands: &[&str], asker: ScriptedAsker, expected: &str| {
        let scene = Scene::new();
        let hooks = scene.hooks(json!({"PermissionRequest": run_all(commands.iter().copied())}));
        let caller = scene.caller(&hooks).engine(|engine| engine.asker(asker));
        let results = caller.turn([("1", "Write", json!({"n": 1}))]).await;
        let line = results.lines().remove(0);
        assert!(line.starts_with(expected), "{line}\nexpected {expected}");
        results[0].ends_turn()
    };
    let nobody = ScriptedAsker::new;
    let allow = permission(json!({"behavior": "allow"}));
    let deny = permission(json!({"behavior": "deny", "message": "not here"}));
    check(&[&allow], nobody(), "1 ok").await;
    check(&[&deny], nobody(), "1 Denied: denied by hook `").await;
    check(&[&allow, &deny], nobody(), "1 Denied: denied by hook `").await;
    // No answer; exit code 2 is none either, so the user is asked.
    check(&["true"], nobody().then(ApprovalAnswer::Once), "1 ok").await;
    check(&["exit 2"], nobody().then(ApprovalAnswer::Once), "1 ok").await;
    check(&["exit 2"], nobody().then(ApprovalAnswer::NoBecause("no".into())), "1 Rejected").await;
    // A rewritten input is checked again, and its author is not asked again.
    let edits = permission(json!({"behavior": "allow", "updatedInput": {"n": 5}}));
    check(&[&edits], nobody(), "1 ok: {\"n\":5}").await;
    let adds = "python3 -c 'import json,sys; i=json.load(sys.stdin)[\"tool_input\"]; i[\"n\"]+=1; print(json.dumps({\"hookSpecificOutput\":{\"hookEventName\":\"PermissionRequest\",\"decision\":{\"behavior\":\"allow\",\"updatedInput\":i}}}))'";
    check(&[adds], nobody(), "1 ok: {\"n\":2}").await;
    let bad = permission(json!({"behavior": "allow", "updatedInput": {"n": "x"}}));
    check(&[&bad], nobody(), "1 InvalidInput").await;
    let interrupts = permission(json!({"behavior": "deny", "message": "stop it", "interrupt": true}));
    assert!(check(&[&interrupts], nobody(), "1 Denied: denied by hook `").await, "it ends the turn");
}

#[tokio::test]
async fn changes_of_permissions_go_to_whoever_takes_them() {
    let update = json!([{"type": "addRules", "rules": [{"toolName": "Write"}], "behavior": "allow", "destination": "session"}]);
    let allow = permission(json!({"behavior": "allow", "updatedPermissions": update}));
    let scene = Scene::new();
    let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = taken.clone();
    let session = scene.session().with_on_permissions(Arc::new(move |updates: &[PermissionUpdate]| {
        seen.lock().expect("the list").extend(updates.to_vec());
        Ok(())
    }));
    let settings = json!({"hooks": {"PermissionRequest": run(&allow)}});
    let hooks = scene.try_hooks(&settings, session).expect("hooks");
    scene.caller(&hooks).turn([("1", "Write", json!({}))]).await.check(["1 ok: {}"]);
    assert!(
        matches!(&taken.lock().expect("the list")[..], [PermissionUpdate::AddRules { rules, .. }] if rules[0].tool_name == "Write")
    );

    let scene = Scene::new();
    let hooks = scene.try_hooks(&settings, scene.session()).expect("hooks");
    scene.caller(&hooks).turn([("1", "Write", json!({}))]).await.check(["1 ok: {}"]);
    assert!(scene.log.warnings()[0].contains("`updatedPermissions` were left out"));
}

/// In the background: nothing waits for the hook, its answer decides nothing, and it ends with the hooks.
#[tokio::test]
async fn hooks_in_the_background() {
    let scene = Scene::new();
    let fifo = |name: &str| {
        let path = scene.dir().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        path
    };
    let (go, done) = (fifo("go"), fifo("done"));
    let hooks = scene.hooks(json!({"PreToolUse": [{"hooks": [
        {"type": "command", "command": "read x < go; echo $x > done; echo 'wake up' >&2; exit 2", "asyncRewake": true},
        {"type": "command", "command": "exit 2", "async": true},
    ]}]}));
    let caller = scene.caller(&hooks);
    caller.turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    let told = tokio::task::spawn_blocking(move || {
        std::fs::write(go, "now\n").expect("it reads");
        std::fs::read_to_string(done).expect("it writes")
    });
    assert_eq!(told.await.expect("told"), "now\n");
    let mut reports = hooks.take_reports();
    while reports.is_empty() {
        tokio::task::yield_now().await;
        reports = hooks.take_reports();
    }
    assert_eq!((reports.len(), &*reports[0].words, reports[0].wakes), (1, "wake up", true));

    // The hook itself says that it continues in the background.
    let scene = Scene::new();
    let command = "echo '{\"async\": true, \"asyncTimeout\": 60000}'; echo $$ > self; exec sleep 300";
    let hooks = scene.hooks(json!({"PreToolUse": run(command)}));
    let caller = scene.caller(&hooks);
    caller.turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    drop((caller, hooks));
}
