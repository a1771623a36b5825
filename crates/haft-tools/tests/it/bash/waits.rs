//! `Monitor`: waits for a line, an end, a file.

use haft::ports::{TaskId, Tasks as _};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn for_a_line_of_a_task() {
    let scene = Scene::new();
    scene.background("echo booting; sleep 0.2; printf 'ready on 80'; exec sleep 1000").await;
    let said = scene.says("Monitor", json!({"task_id": "task-1", "pattern": "ready on [0-9]+"})).await;
    assert!(said.starts_with("ready on 80\ntask-1 still runs"), "a line without an end counts: {said}");
    scene.background("echo only this").await;
    let said = scene.says("Monitor", json!({"task_id": "task-2", "pattern": "never"})).await;
    assert!(
        said.starts_with("Failed: only this\nno line matched before it ended\ntask-2 ended after"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn for_the_end_of_a_task() {
    let scene = Scene::new();
    scene.background("sleep 0.2; echo done; exit 3").await;
    let said = scene.says("Monitor", json!({"task_id": "task-1", "until": "exit"})).await;
    assert!(said.starts_with("done\ntask-1 ended after ") && said.ends_with("exit code 3"), "{said}");
    scene.background("exec sleep 1000").await;
    let said = scene.says("Monitor", json!({"task_id": "task-2", "timeout_ms": 100})).await;
    assert!(
        said.starts_with("TimedOut: (no output)\ntask-2 still runs") && said.contains("over after 0.1 s"),
        "{said}"
    );
    assert!(scene.tasks.list()[1].running, "a wait doesn't end what it waits for");
}

#[tokio::test(flavor = "multi_thread")]
async fn for_a_command_that_ends_with_the_wait_unless_it_is_to_stay() {
    let scene = Scene::new();
    let command = "echo a; echo found; exec sleep 1000";
    let said = scene.says("Monitor", json!({"command": command, "pattern": "^found$"})).await;
    assert!(said.starts_with("found\ntask-1 ended after ") && said.contains("set `persistent`"), "{said}");
    let said =
        scene.says("Monitor", json!({"command": command, "pattern": "^found$", "persistent": true})).await;
    assert!(said.starts_with("found\ntask-2 still runs"), "{said}");
    assert!(scene.tasks.list()[1].running);
    let said = scene.says("Monitor", json!({"command": "echo x; exit 0"})).await;
    assert!(said.starts_with("x\ntask-3 ended after ") && said.ends_with("exit code 0"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_cancelled_takes_its_command_with_it() {
    let scene = Scene::new();
    let mut turn = scene.engine.turn();
    let command = "echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 1000";
    turn.push(ToolCall::new("1", "Monitor", json!({"command": command})));
    let handle = turn.handle();
    let results = tokio::spawn(turn.finish());
    until(|| scene.path("pid").exists()).await;
    let pid = fs::read_to_string(scene.path("pid")).unwrap();
    handle.interrupt();
    assert_eq!(results.await.unwrap()[0].error_kind(), Some(ErrorKind::Cancelled));
    until(|| !lives(&pid)).await;
    scene.tasks.ended(TaskId(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn for_a_file() {
    let scene = Scene::new();
    scene.background("sleep 0.3; echo x > made; sleep 0.6; echo more >> made; sleep 0.6; rm made").await;
    let monitor = |until: &'static str| {
        scene.says("Monitor", json!({"file": "made", "until": until, "timeout_ms": 20_000}))
    };
    assert_eq!(monitor("exists").await, "`made` is there now, with 2 bytes");
    assert_eq!(monitor("exists").await, "`made` is there already");
    assert_eq!(monitor("changes").await, "`made` has changed: 7 bytes, 2 before");
    assert_eq!(monitor("changes").await, "`made` is gone");
    let said = scene.says("Monitor", json!({"file": "never", "timeout_ms": 50})).await;
    assert!(said.starts_with("TimedOut: `never` did not come or change"), "{said}");
}

#[tokio::test]
async fn what_makes_no_sense_is_said() {
    let scene = Scene::new();
    for (input, expected) in [
        (json!({}), "give exactly one of `task_id`, `command` and `file`"),
        (json!({"file": "a", "command": "ls"}), "give exactly one of `task_id`, `command` and `file`"),
        (json!({"command": "ls", "until": "line"}), "`pattern` is missing: the line to wait for"),
        (
            json!({"command": "ls", "pattern": "("}),
            "`pattern` is no regular expression: error: unclosed group",
        ),
        (json!({"file": "a", "until": "exit"}), "`file` is waited for until it `exists` or `changes`"),
        (json!({"command": "ls", "until": "exists"}), "`until` is `exists` or `changes` for a `file` only"),
        (json!({"command": ""}), "`command` is empty"),
        (
            json!({"command": "ls", "timeout_ms": 3_600_001}),
            "`timeout_ms` must be at most 3600000 milliseconds, got 3600001",
        ),
    ] {
        let said = scene.says("Monitor", input.clone()).await;
        assert!(said.starts_with(&format!("InvalidInput: {expected}")), "{input}: {said}");
    }
}
