//! Gates fail closed, other failures are reported: the fault table of hooks, row by row.

use std::time::{Duration, Instant};

use haft_policy::hooks::Hooks;
use serde_json::{Value, json};

use super::{Scene, run};

/// Waits for a killed process; the kernel may take a moment to remove it.
fn is_gone(pid: &str) {
    let pid = pid.trim();
    assert!(!pid.is_empty(), "the hook told its number");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        if matches!(state, None | Some('Z' | 'X')) {
            return;
        }
        assert!(Instant::now() < until, "it still runs: {stat}");
        std::thread::yield_now();
    }
}

/// Returns one command with additional keys.
fn with(command: &str, more: Value) -> Value {
    let mut hook = json!({"type": "command", "command": command});
    for (key, value) in more.as_object().expect("an object") {
        hook[key] = value.clone();
    }
    json!([{"hooks": [hook]}])
}

/// Checks that a pre-call hook with this failure blocks the call with this message, and that with
/// `onFailure: "continue"` the call runs.
async fn check(hook: Value, how: &str) {
    let scene = Scene::new();
    let line = scene.echo(json!({"PreToolUse": hook.clone()}), json!({"n": 1})).await;
    assert!(line.starts_with("1 HookFailed: Echo was not run: hook `"), "{line}");
    assert!(line.contains(&format!("failed ({how}")), "{line}\nexpected {how}");
    assert!(line.ends_with("this is a fault of the hook, not a denial"), "{line}");

    let mut continuing = hook.clone();
    continuing[0]["hooks"][0]["onFailure"] = "continue".into();
    let scene = Scene::new();
    let line = scene.echo(json!({"PreToolUse": continuing}), json!({"n": 1})).await;
    assert_eq!(line, "1 ok: {\"n\":1}");
    assert!(scene.log.warnings().iter().any(|words| words.contains(how)), "{:?}", scene.log.warnings());

    // The same hook after a call loses nothing and is reported.
    let scene = Scene::new();
    let line = scene.echo(json!({"PostToolUse": hook.clone()}), json!({"n": 1})).await;
    assert_eq!(line, "1 ok: {\"n\":1}");
    assert!(scene.log.warnings().iter().any(|words| words.contains(how)), "{:?}", scene.log.warnings());

    // As a permission hook it blocks.
    let scene = Scene::new();
    let line = scene.call(json!({"PermissionRequest": hook}), "Write", json!({"n": 1})).await;
    assert!(line.starts_with("1 HookFailed: Write was not run: permission hook `"), "{line}");
    assert!(line.contains(how), "{line}");
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    check(with("/no/such/program", json!({"args": []})), "it could not be started").await;
    check(run("/no/such/program"), "it could not be started (exit code 127)").await;
    check(run("/etc"), "it could not be started (exit code 126)").await;
}

#[tokio::test]
async fn a_hook_that_hangs() {
    let started = Instant::now();
    check(with("sleep 300", json!({"timeout": 0.3})), "it took longer than 0.3 s").await;
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_hook_that_is_killed() {
    check(run("kill -KILL $$"), "it was ended by signal 9").await;
}

#[tokio::test]
async fn exit_codes_that_mean_nothing() {
    check(run("echo broken >&2; exit 1"), "exit code 1, which is neither 0 nor 2: broken").await;
    check(run("exit 3"), "exit code 3, which is neither 0 nor 2: it gave no reason").await;
}

#[tokio::test]
async fn json_that_cannot_be_read() {
    check(run("echo '{not json'"), "it printed JSON that can't be read").await;
    check(run("echo '{\"continue\": 1}'"), "the key `continue` of what it printed must be").await;
    check(
        run("echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"deny\"}}'"),
        "its `hookSpecificOutput` lacks `\"hookEventName\"",
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_floods() {
    check(run("echo -n '{'; yes | head -c 5000000"), "it printed more than 1048576 bytes of JSON").await;
    // Text alone is no failure, however long.
    let scene = Scene::new();
    let flood = json!({"PreToolUse": run("yes | head -c 5000000; yes | head -c 5000000 >&2")});
    assert_eq!(scene.echo(flood, json!({})).await, "1 ok: {}");
}

/// Types that are accepted but not supported: a gate blocks and says so, others are reported, and both are
/// reported at load.
#[tokio::test]
async fn types_that_are_not_run_here() {
    let hooks = [
        json!({"type": "mcp_tool", "server": "s", "tool": "t"}),
        json!({"type": "prompt", "prompt": "is this fine? $ARGUMENTS"}),
        json!({"type": "agent", "prompt": "look"}),
    ];
    for hook in hooks {
        let kind = hook["type"].as_str().expect("a type").to_owned();
        check(json!([{"hooks": [hook.clone()]}]), &format!("hooks of the type `{kind}` are not run here"))
            .await;
        let hooks = Scene::new().hooks(json!({"PreToolUse": [{"hooks": [hook]}]}));
        assert!(!hooks.listed()[0].runs);
        assert!(hooks.warnings()[0].message.contains("it blocks what it should look at"));
    }
}

/// At its timeout a hook ends with everything that it started. Leftover processes delay nothing.
#[tokio::test]
async fn a_hook_ends_with_its_whole_group() {
    let scene = Scene::new();
    let hangs = with("sleep 300 & echo $! > child; echo $$ > self; wait", json!({"timeout": 0.5}));
    let line = scene.echo(json!({"PreToolUse": hangs}), json!({})).await;
    assert!(line.contains("it took longer than 0.5 s"), "{line}");
    is_gone(&scene.read("self"));
    is_gone(&scene.read("child"));

    // It ends, and a grandchild keeps its output open.
    let scene = Scene::new();
    let started = Instant::now();
    let leaks = run("sleep 300 & echo $! > child; exit 0");
    assert_eq!(scene.echo(json!({"PreToolUse": leaks}), json!({})).await, "1 ok: {}");
    assert!(started.elapsed() < Duration::from_secs(60), "nobody waits for what it left behind");
    is_gone(&scene.read("child"));
}

/// Cancelling a call ends its hooks.
#[tokio::test]
async fn a_cancelled_call_ends_its_hooks() {
    let scene = Scene::new();
    let fifo = scene.dir().join("begun");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let hooks = scene.hooks(json!({"PreToolUse": run("echo $$ > begun; exec sleep 300")}));
    let caller = scene.caller(&hooks);
    let turn = caller.start([("1", "Echo", json!({}))]);
    let pid = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo)).await.expect("read");
    turn.handle().cancel(haft::Cause::User);
    let results = turn.results().await;
    assert!(results.lines()[0].starts_with("1 Cancelled"), "{:?}", results.lines());
    drop((caller, hooks));
    drop(scene);
    is_gone(&pid.expect("a number"));
}

/// A hook that edited its own script fails its verification and isn't run.
#[tokio::test]
async fn a_hook_that_is_not_what_it_was_is_not_run() {
    let scene = Scene::new();
    let script = scene.script("hook.sh", "#!/bin/bash\ntouch ran\necho '# more' >> \"$0\"\n");
    let before = std::fs::read(&script).expect("the script");
    let path = script.clone();
    let verify = move |_: &haft_policy::settings::HookHandler| match std::fs::read(&path) {
        Ok(now) if now == before => Ok(()),
        _ => Err("its script changed since it was trusted".to_owned()),
    };
    let session = scene.session().with_verify(std::sync::Arc::new(verify));
    let settings = json!({"hooks": {"PreToolUse": run(&script)}});
    let hooks = scene.try_hooks(&settings, session).expect("hooks");
    let caller = scene.caller(&hooks);
    caller.turn([("1", "Echo", json!({}))]).await.check(["1 ok: {}"]);
    std::fs::remove_file(scene.dir().join("ran")).expect("it ran");
    let lines = caller.turn([("1", "Echo", json!({}))]).await.lines();
    assert!(lines[0].contains("it was not started: its script changed since it was trusted"), "{lines:?}");
    assert!(lines[0].starts_with("1 HookFailed"), "{lines:?}");
    assert!(!scene.dir().join("ran").exists());
}

/// Invalid hooks stop everything at load, with their location.
#[test]
fn hooks_that_cannot_be_understood() {
    let scene = Scene::new();
    let hook = json!({"type": "command", "command": "true"});
    let bad = |hooks: Value| {
        let settings = json!({"hooks": hooks});
        scene.try_hooks(&settings, scene.session()).map(|_| ()).expect_err("bad hooks").to_string()
    };
    // The file loader rejects it, but settings can come from elsewhere.
    let mut settings = scene.settings(&json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}));
    settings.hooks.groups[0].matcher = Some("Edit(".to_owned());
    let read = Hooks::from_settings(&settings, scene.processes.clone(), scene.session());
    let words = read.map(|_| ()).expect_err("bad hooks").to_string();
    assert!(words.contains("the matcher `Edit(` is neither names nor a regular expression"), "{words}");
    let many: Vec<Value> =
        (0..129).map(|n| json!({"hooks": [{"type": "command", "command": format!("true {n}")}]})).collect();
    assert!(bad(json!({"PreToolUse": many})).contains("`PreToolUse` has more than 128 hooks"));
}
