//! Calls that are submitted one at a time: their order, cancellation and limits.

use super::*;

/// A conflicting call waits for the one that came before, whichever turn or submission it belongs to; others
/// don't.
#[tokio::test]
async fn submitted_calls_and_turns_are_in_one_order() {
    let dir = Dir::new();
    let ((edit, edits), (look, looks)) = (edit("edit").build(), look("look").build());
    let caller = free_caller(&dir, ConflictRule::Effects, vec![edit, look]);
    let engine = caller.as_engine();
    let write = engine.submit(ToolCall::new("1", "edit", path("a")));
    let read = engine.submit(ToolCall::new("2", "look", path("a")));
    let other = engine.submit(ToolCall::new("3", "look", path("b")));
    let turn = caller.start([ToolCall::new("4", "edit", path("a"))]);
    let first = edits.started().await;
    looks.started().await.succeed("b");
    assert_eq!(other.await.to_json().output, "b", "it doesn't wait for the others");
    let_tasks_run().await;
    assert!(looks.try_started().is_none() && edits.try_started().is_none());
    first.succeed("written");
    assert_eq!(write.await.to_json().output, "written");
    looks.started().await.succeed("a");
    assert_eq!(read.await.to_json().output, "a");
    edits.started().await.succeed("again");
    assert_eq!(turn.results().await.len(), 1);
}

/// Dropping a submitted call cancels it, and only it; a call that waited for it goes on.
#[tokio::test]
async fn a_dropped_submission_is_cancelled() {
    let (write, writes) = write("write").build();
    let caller = caller(vec![write]);
    let engine = caller.as_engine();
    let first = engine.submit(call("1", "write"));
    let second = engine.submit(call("2", "write"));
    let third = engine.submit(call("3", "write"));
    let started = writes.started().await;
    drop(second);
    drop(first);
    let next = writes.started().await;
    assert!(started.is_dropped());
    next.succeed("third");
    assert_eq!(third.await.to_json().output, "third");
    assert_eq!(writes.calls(), 2, "the second never ran");
}

#[tokio::test]
async fn too_many_unfinished_calls_are_refused() {
    let (write, writes) = write("write").build();
    let caller = caller(vec![write]);
    let engine = caller.as_engine();
    let mut pending: Vec<_> =
        (0..limits::UNFINISHED_CALLS_MAX).map(|id| engine.submit(call(&id.to_string(), "write"))).collect();
    let refused = engine.submit(call("x", "write")).await;
    let error = refused.error().unwrap();
    assert!(error.is_retryable() && error.kind() == ErrorKind::Blocked, "{error:?}");
    writes.started().await.succeed("");
    pending.remove(0).await;
    let next = writes.started().await;
    let last = engine.submit(call("y", "write"));
    drop(pending);
    while !next.is_dropped() {
        tokio::task::yield_now().await;
    }
    writes.started().await.succeed("there is room again");
    assert_eq!(last.await.to_json().output, "there is room again");
}

/// Sixteen tasks submit reads and writes of four files at once. Every read returns what the last write that
/// was submitted before it wrote: the outcome is that of running the calls one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn submitting_from_many_tasks_equals_the_serial_order() {
    use std::sync::Mutex;
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct CellInput {
        path: String,
        text: Option<String>,
    }
    /// The id of a call, its file, and what it writes.
    type Submitted = (String, usize, Option<String>);
    const TASKS: usize = 16;
    const CALLS: usize = 24;
    for rule in RULES {
        let dir = Dir::new();
        let cells: Arc<Mutex<[String; 4]>> = Arc::default();
        let cell = |input: &CellInput| input.path[1..].parse::<usize>().unwrap();
        let (reads, writes) = (cells.clone(), cells.clone());
        let read = haft::tool("read", "Reads.", move |input: CellInput, _| {
            let cells = reads.clone();
            async move {
                let before = cells.lock().unwrap()[cell(&input)].clone();
                tokio::task::yield_now().await;
                let after = cells.lock().unwrap()[cell(&input)].clone();
                assert_eq!(before, after, "a write ran beside a read");
                Ok(after)
            }
        })
        .effects(|input: &CellInput| Effects::reads(&input.path));
        let write = haft::tool("write", "Writes.", move |input: CellInput, _| {
            let cells = writes.clone();
            async move {
                tokio::task::yield_now().await;
                cells.lock().unwrap()[cell(&input)] = input.text.clone().unwrap();
                Ok("written")
            }
        })
        .effects(|input: &CellInput| Effects::writes(&input.path));
        let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let caller = TestCaller::new().tool(read).tool(write);
        let caller =
            caller.engine(|engine| engine.workspace(dir.workspace()).permissions(rules).schedule(rule));
        // The lock makes the order of submission known; it is not held while calls run.
        let order: Arc<Mutex<Vec<Submitted>>> = Arc::default();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (engine, order) = (caller.as_engine().clone(), order.clone());
                tokio::spawn(async move {
                    let mut results = Vec::new();
                    for number in 0..CALLS {
                        let id = format!("{task}-{number}");
                        let file = (task * 7 + number * 5) % 4;
                        let text = (number % 3 == 0).then(|| id.clone());
                        let name = if text.is_some() { "write" } else { "read" };
                        let input = json!({"path": format!("f{file}"), "text": text});
                        let pending = {
                            let mut order = order.lock().unwrap();
                            order.push((id.clone(), file, text));
                            engine.submit(ToolCall::new(id.clone(), name, input))
                        };
                        // Every other call is awaited at once, so that some wait and some overlap.
                        let pending = tokio::spawn(pending);
                        if number % 2 == 0 {
                            tokio::task::yield_now().await;
                        }
                        results.push((id, pending));
                    }
                    results
                })
            })
            .collect();
        let mut results = std::collections::HashMap::new();
        for task in tasks {
            for (id, pending) in task.await.unwrap() {
                results.insert(id, pending.await.unwrap().to_json().output);
            }
        }
        let mut serial: [String; 4] = Default::default();
        for (id, file, text) in order.lock().unwrap().iter() {
            match text {
                Some(text) => {
                    assert_eq!(results[id], "written");
                    serial[*file] = text.clone();
                }
                None => assert_eq!(results[id], serial[*file].as_str(), "{rule:?}: read {id}"),
            }
        }
        assert_eq!(*cells.lock().unwrap(), serial, "{rule:?}");
    }
}

/// A runtime ends under calls that wait for each other: each has a result, however many there are.
#[test]
fn calls_of_a_runtime_that_ends_have_results() {
    let (write, writes) = write("write").build();
    let caller = caller(vec![write]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let pending: Vec<_> = {
        let _entered = runtime.enter();
        (0..2_000).map(|id| caller.as_engine().submit(call(&id.to_string(), "write"))).collect()
    };
    let started = runtime.block_on(writes.started());
    runtime.shutdown_timeout(Duration::from_secs(10));
    assert!(started.is_dropped());
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for call in pending {
        assert_eq!(other.block_on(call).error_kind(), Some(ErrorKind::Cancelled));
    }
}
