//! Calls that run as tasks, as a client of servers made by the test and as a server.

use std::sync::atomic::{AtomicUsize, Ordering};

use haft_mcp::limits;
use serde_json::{Value, json};

use crate::fake::{Fake, newest, older, result};
use crate::{Room, host, until};

fn tool_list(message: &Value, more: Value) -> Vec<Value> {
    let mut tool = json!({"name": "t", "description": "A tool.", "inputSchema": {"type": "object"}});
    tool.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    result(message, json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}))
}

fn task(status: &str) -> Value {
    json!({"resultType": "complete", "taskId": "one", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 100})
}

/// A server whose calls are tasks, with these states one after the other; the last one stays.
fn tasks_server(states: Vec<Value>) -> Fake {
    let asked = AtomicUsize::new(0);
    newest(json!({"tools": {}}), move |message| match message["method"].as_str() {
        Some("tools/list") => tool_list(message, json!({})),
        Some("tools/call") => {
            let mut created = task("working");
            created["resultType"] = json!("task");
            result(message, created)
        }
        Some("tasks/get") => {
            let number = asked.fetch_add(1, Ordering::SeqCst).min(states.len() - 1);
            result(message, states[number].clone())
        }
        Some("tasks/update" | "tasks/cancel") => result(message, json!({"resultType": "complete"})),
        _ => Vec::new(),
    })
}

fn with(mut task: Value, key: &str, value: Value) -> Value {
    task[key] = value;
    task
}

fn completed() -> Value {
    with(task("completed"), "result", json!({"content": [{"type": "text", "text": "done"}]}))
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_result() {
    let roots = json!({"r": {"method": "roots/list", "params": {}}});
    let asking = with(task("input_required"), "inputRequests", roots);
    let fake = tasks_server(vec![task("working"), asking.clone(), asking, completed()]);
    let room = Room::settled([fake.in_process("x")], host()).await;
    assert_eq!(room.text("mcp__x__t", json!({})).await, "done");
    let updates = fake.heard("tasks/update");
    assert_eq!(updates.len(), 1, "each question is answered once");
    assert_eq!(updates[0]["params"]["taskId"], "one");
    assert!(updates[0]["params"]["inputResponses"]["r"]["roots"].is_array());
    assert!(fake.heard("tasks/cancel").is_empty());
    let declared =
        &fake.heard("tools/call")[0]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(declared["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{declared}");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_result_is_a_failed_call() {
    let failed = with(task("failed"), "error", json!({"code": -32603, "message": "the disk is full"}));
    for (state, expected, cancels) in [
        (failed, "answered with error -32603: the disk is full", 0),
        (task("cancelled"), "it cancelled its task", 0),
        (task("completed"), "its task is in no known state", 1),
        (task("lost"), "its task is in no known state", 1),
    ] {
        let fake = tasks_server(vec![task("working"), state]);
        let room = Room::settled([fake.in_process("x")], host()).await;
        let words = room.failure("mcp__x__t", json!({})).await;
        assert!(words.contains(expected), "{words}");
        until("it is cancelled", || fake.heard("tasks/cancel").len() == cancels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_is_cancelled() {
    let fake = tasks_server(vec![task("working")]);
    let mut config = fake.in_process("x");
    config.call_timeout = limits::TASK_PAUSE_MAX;
    let room = Room::settled([config], host()).await;
    let words = room.failure("mcp__x__t", json!({})).await;
    assert!(words.contains("took longer than"), "{words}");
    until("it is cancelled", || !fake.heard("tasks/cancel").is_empty()).await;
    assert_eq!(fake.heard("tasks/cancel")[0]["params"]["taskId"], "one");
}

/// Revision 2025-11-25 has tasks of another kind: a tool says that its calls have to be tasks.
#[tokio::test]
async fn an_older_tool_that_requires_a_task_gets_one() {
    for (support, is_task) in [("required", true), ("optional", false), ("forbidden", false)] {
        let fake =
            older("2025-11-25", json!({"tools": {}}), move |message| match message["method"].as_str() {
                Some("tools/list") => tool_list(message, json!({"execution": {"taskSupport": support}})),
                Some("tools/call") if message["params"]["task"].is_object() => {
                    result(message, json!({"task": {"taskId": "one", "status": "working"}}))
                }
                Some("tools/call" | "tasks/result") => {
                    result(message, json!({"content": [{"type": "text", "text": "done"}]}))
                }
                _ => Vec::new(),
            });
        let room = Room::settled([fake.in_process("x")], host()).await;
        assert_eq!(room.text("mcp__x__t", json!({"a": 1})).await, "done", "{support}");
        assert_eq!(fake.heard("tools/call")[0]["params"]["arguments"], json!({"a": 1}));
        let ids: Vec<Value> =
            fake.heard("tasks/result").iter().map(|asked| asked["params"]["taskId"].clone()).collect();
        assert_eq!(ids, if is_task { vec![json!("one")] } else { Vec::new() }, "{support}");
    }
}
