//! Calls that were given an answer and go on.

use std::sync::Arc;

use haft::dispatch::ConflictRule;
use haft::event::EventKind;
use haft::ports::{NewTask, Tasks};
use haft::testing::{EventLog, TestCaller, let_tasks_run};
use haft::{Cause, Effects, limits};
use serde_json::json;

use crate::Dir;
use crate::dispatch::*;

#[tokio::test(start_paused = true)]
async fn a_call_in_the_background_frees_its_slot_and_its_files() {
    let dir = Dir::new();
    let ((slow, slows), (edit, edits)) = (edit("slow").build(), edit("edit").build());
    let (read, reads) = read("read").build();
    let caller = free_caller(&dir, ConflictRule::Effects, vec![slow, edit, read]);
    let log = EventLog::new();
    let (caller, tasks) = with_tasks(caller.engine(|engine| engine.max_concurrency(1).events(log.clone())));
    let calls = [
        ("1", "slow", path("a")),
        ("2", "read", json!({})),
        ("3", "edit", path("a")),
        ("4", "edit", path("b")),
    ];
    let mut turn = caller.start(calls);
    let background = started(&mut turn, &slows).await;
    // A later turn waits for the same file and the same slot.
    let mut other = caller.start([("o", "edit", path("a"))]);
    let_tasks_run().await;
    assert_eq!((reads.calls(), edits.calls()), (0, 0));
    assert!(turn.handle().detach(1).is_err(), "it doesn't run");

    let task = turn.handle().detach(0).unwrap().task;
    assert!(turn.handle().detach(0).is_err(), "only once");
    started(&mut turn, &reads).await.succeed("two");
    started(&mut turn, &edits).await.succeed("three");
    started(&mut turn, &edits).await.succeed("four");
    let in_the_other = other.meanwhile(edits.started()).await;
    assert_eq!(in_the_other.context().call().id(), "o", "what came first goes first");
    in_the_other.succeed("other");
    let note = "note: this call overlapped with what ran in the background: task-1 (slow)";
    turn.results().await.check([
        "1 ok: slow goes on in the background as task-1; its result is kept there",
        "2 ok: two",
        &format!("3 ok: three\n{note}"),
        "4 ok: four",
    ]);
    other.results().await.check([&*format!("o ok: other\n{note}")]);

    assert_eq!((task.to_string(), tasks.list()[0].running), ("task-1".into(), true));
    assert!(tasks.result(task).is_none() && !background.is_dropped());
    background.succeed("real");
    log.wait_for(|event| matches!(event.what, EventKind::BackgroundFinished(_))).await;
    let real = tasks.result(task).unwrap();
    assert_eq!(lines(std::slice::from_ref(&real)), ["1 ok: real"]);
    assert_eq!(real.notes(), [""; 0], "it doesn't overlap with itself");
    assert!(!tasks.list()[0].running && !tasks.stop(task));
    let mut after = caller.start([("5", "edit", path("a"))]);
    started(&mut after, &edits).await.succeed("five");
    after.results().await.check(["5 ok: five"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_stopped() {
    let (slow, slows) = read("slow").build();
    let (caller, tasks) = with_tasks(TestCaller::new().tool(slow));
    let mut turn = caller.start([call("1", "slow")]);
    let background = started(&mut turn, &slows).await;
    let task = turn.handle().detach(0).unwrap().task;
    turn.results().await;
    assert!(tasks.stop(task));
    background.dropped().await;
    let_tasks_run().await;
    let kept = tasks.result(task).unwrap();
    assert_eq!(lines(&[kept]), ["1 Cancelled: slow was cancelled: the user interrupted this turn"]);
}

/// A turn that is interrupted, cancelled or dropped has nothing to say to what has left it.
#[tokio::test(start_paused = true)]
async fn a_call_in_the_background_is_no_longer_the_turns() {
    let ((slow, slows), (read, reads)) = (read("slow").build(), read("read").build());
    let (caller, _tasks) = with_tasks(caller(vec![slow, read]));
    let mut turn = caller.start([call("1", "slow"), call("2", "read")]);
    let (background, running) = (started(&mut turn, &slows).await, started(&mut turn, &reads).await);
    turn.handle().detach(0).unwrap();
    assert_eq!(turn.handle().interrupt(), ["read"], "nobody waits for what runs in the background");
    turn.handle().cancel(Cause::User);
    running.dropped().await;
    turn.results().await;
    let_tasks_run().await;
    assert!(!background.is_dropped());
    drop(caller);
    background.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn detaching_can_be_refused() {
    let (slow, slows) = read("slow").build();
    let without = TestCaller::new().tool(slow.clone());
    let mut turn = without.start([call("1", "slow")]);
    let running = started(&mut turn, &slows).await;
    assert_eq!(turn.handle().detach(0), Err("this host has no background tasks".into()));
    running.succeed("text");
    let handle = turn.handle().clone();
    turn.results().await.check(["1 ok: text"]);
    assert_eq!(handle.detach(0), Err("call 0 of this turn doesn't run".into()));

    let (caller, tasks) = with_tasks(TestCaller::new().tool(slow));
    for _ in 0..limits::TASKS_MAX {
        let (tool, about) = ("other".to_owned(), String::new());
        let (effects, cancel) = (Arc::new(Effects::none()), haft::Cancel::new());
        tasks.adopt(NewTask { tool, about, effects, cancel, log: None }).unwrap();
    }
    let mut turn = caller.start([call("1", "slow")]);
    let running = started(&mut turn, &slows).await;
    let refused = turn.handle().detach(0).unwrap_err();
    assert_eq!(refused, "500 tasks already run in the background, and no more may");
    assert!(!running.is_dropped(), "it stays where it is");
    running.succeed("text");
    turn.results().await.check(["1 ok: text"]);
}

// ---- Events.

// ---- What a tool does by itself.

/// A tool that answers at once and lets the rest go on until it is told to end.
fn leaver() -> haft::tool::AnyTool {
    let leave = |_: haft::NoInput, cx: haft::Context| async move {
        let cancel = cx.cancel().child();
        let told = cancel.clone();
        let rest = async move {
            told.cancelled().await;
            haft::IntoOutput::into_output("ended well")
        };
        match cx.background().spawn("the rest", cancel, rest) {
            Ok(task) => Ok(format!("goes on as {task}")),
            Err((_, why)) => Err(haft::ToolError::new(why)),
        }
    };
    let tool = haft::tool("leaver", "Leaves something behind.", leave);
    tool.effects(|_| haft::Effects::reads_state("x")).build().unwrap()
}

#[tokio::test]
async fn a_tool_answers_and_its_work_goes_on_until_it_is_stopped() {
    let (caller, tasks) = with_tasks(TestCaller::new().tool(leaver()));
    caller.turn([("1", "leaver", json!({}))]).await.check(["1 ok: goes on as task-1"]);
    let state = &tasks.list()[0];
    assert_eq!((&*state.tool, &*state.about, state.running), ("leaver", "the rest", true));
    assert!(tasks.stop(state.id));
    tasks.ended(state.id).await;
    let result = tasks.result(state.id).unwrap();
    assert_eq!(result.outcome().unwrap().to_text(), "ended well", "it was told, and answered for itself");
    assert!(!tasks.stop(state.id) && !tasks.list()[0].running);
    tasks.ended(haft::ports::TaskId(9)).await;
}

#[tokio::test]
async fn what_a_tool_left_behind_ends_with_the_session() {
    let (caller, tasks) = with_tasks(TestCaller::new().tool(leaver()));
    caller.turn([("1", "leaver", json!({}))]).await;
    drop(caller);
    tasks.ended(tasks.list()[0].id).await;
}

#[tokio::test]
async fn without_a_place_for_tasks_the_work_comes_back() {
    let caller = TestCaller::new().tool(leaver());
    let results = caller.turn([("1", "leaver", json!({}))]).await;
    results.check(["1 Failed: this host has no background tasks"]);
}

/// The working directory of an agent: moved by one call, and found by all that come later.
#[tokio::test]
async fn a_call_moves_the_working_directory_for_those_after_it() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("sub")).unwrap();
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct To {
        to: Option<String>,
    }
    let go = |to: To, cx: haft::Context| async move {
        let before = cx.cwd().to_owned();
        let said = match &to.to {
            Some(to) => cx.location().move_to(to.as_ref()).err().unwrap_or_else(|| "moved".to_owned()),
            None => cx.location().workspace().cwd().display().to_string(),
        };
        assert_eq!(cx.cwd(), before, "nothing changes for the call itself");
        Ok(said)
    };
    let go = haft::tool("go", "Moves.", go).effects(|_| haft::Effects::none().exclusive());
    let workspace = haft::Workspace::new(dir.path("")).unwrap();
    let root = workspace.cwd().to_owned();
    let caller = TestCaller::new().tool(go).engine(|engine| engine.workspace(workspace));
    let results = caller
        .turn([
            ("1", "go", json!({"to": "sub"})),
            ("2", "go", json!({})),
            ("3", "go", json!({"to": "/"})),
            ("4", "go", json!({"to": "nowhere"})),
            ("5", "go", json!({"to": ".."})),
            ("6", "go", json!({})),
        ])
        .await;
    let said: Vec<String> = results.iter().map(|result| result.outcome().unwrap().to_text()).collect();
    let (sub, root) = (root.join("sub").display().to_string(), root.display().to_string());
    assert_eq!(
        said[..3],
        ["moved".to_owned(), sub, "`/` lies outside of the working directories".to_owned()]
    );
    assert_eq!(said[3], "`nowhere` is not a directory");
    assert_eq!(said[4..], ["moved".to_owned(), root]);
}
