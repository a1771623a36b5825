//! Calls that were given an answer and go on.

use haft::event::What;
use haft::ports::{NewTask, Tasks};
use haft::testing::{Caller, EventLog, let_tasks_run};
use haft::{Cause, ConflictRule, limits};
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
    // Another agent waits for the same file.
    let mut other = caller.start([("o", "edit", path("a"))]);
    let_tasks_run().await;
    assert_eq!((reads.calls(), edits.calls()), (0, 0));
    assert!(turn.handle().detach(1).is_err(), "it doesn't run");

    let task = turn.handle().detach(0).unwrap().task;
    assert!(turn.handle().detach(0).is_err(), "only once");
    let in_the_other = other.meanwhile(edits.started()).await;
    assert_eq!(in_the_other.context().call_id(), "o");
    in_the_other.succeed("other");
    started(&mut turn, &reads).await.succeed("two");
    started(&mut turn, &edits).await.succeed("three");
    started(&mut turn, &edits).await.succeed("four");
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
    log.wait_for(|event| matches!(event.what, What::BackgroundFinished(_))).await;
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
    let (caller, tasks) = with_tasks(Caller::new().tool(slow));
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
    let without = Caller::new().tool(slow.clone());
    let mut turn = without.start([call("1", "slow")]);
    let running = started(&mut turn, &slows).await;
    assert_eq!(turn.handle().detach(0), Err("this host has no background tasks".into()));
    running.succeed("text");
    let handle = turn.handle().clone();
    turn.results().await.check(["1 ok: text"]);
    assert_eq!(handle.detach(0), Err("call 0 of this turn doesn't run".into()));

    let (caller, tasks) = with_tasks(Caller::new().tool(slow));
    for _ in 0..limits::TASKS_MAX {
        let (tool, about) = ("other".to_owned(), String::new());
        tasks.adopt(NewTask { tool, about, cancel: haft::Cancel::new(), log: None }).unwrap();
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
