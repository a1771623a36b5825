//! Very many calls, an interrupt at every point where anything waits, and trees of workers: the dispatcher's
//! edges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::dispatch::ConflictRule;
use haft::tool::{AnyTool, Interrupt, SiblingPolicy};
use haft::{
    Cause, Context, Effects, Engine, ErrorKind, PermissionRules, Registry, ToolCall, ToolError, dynamic_tool,
};
use serde_json::{Value, json};

use crate::any;

const RULES: [ConflictRule; 2] = [ConflictRule::Classes, ConflictRule::Effects];

/// How many calls run now, and the most that ever did; of those that have to be alone, whether one was not.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    alone: AtomicUsize,
    disturbed: AtomicUsize,
}

impl Crowd {
    fn enter(self: &Arc<Crowd>, alone: bool) -> Inside {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        if alone {
            self.alone.fetch_add(1, Ordering::SeqCst);
        }
        if self.alone.load(Ordering::SeqCst) > 0 && now > 1 {
            self.disturbed.fetch_add(1, Ordering::SeqCst);
        }
        Inside(self.clone(), alone)
    }
}

struct Inside(Arc<Crowd>, bool);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        if self.1 {
            self.0.alone.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn crowded(name: &'static str, crowd: &Arc<Crowd>, effects: fn(&Value) -> Effects, alone: bool) -> AnyTool {
    let crowd = crowd.clone();
    let body = move |input: Value, _: Context| {
        let crowd = crowd.clone();
        async move {
            let _inside = crowd.enter(alone);
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            if input["fail"] == true {
                Err(ToolError::new("as it was told"))
            } else {
                Ok(input["at"].clone().to_string())
            }
        }
    };
    any(dynamic_tool(name, "Does something.", json!({"type": "object"}), body)
        .effects(effects)
        .permission(|_| Some(DecisionReason::allow())))
}

/// Calls of all classes in one message: none is lost, order is kept, no more run at once than may, and what
/// has to be alone is.
#[tokio::test]
async fn ten_thousand_mixed_calls_keep_their_order_and_the_cap() {
    for rule in RULES {
        let crowd = Arc::new(Crowd::default());
        let tools = [
            crowded("look", &crowd, |_| Effects::none(), false),
            crowded("mark", &crowd, |input| Effects::writes_state(input["at"].to_string()), false),
            crowded("anything", &crowd, |_| Effects::unknown(), true),
        ];
        let registry = tools.into_iter().fold(Registry::new(), |registry, tool| registry.with(tool).unwrap());
        let rules = PermissionRules::new().allow("anything").unwrap();
        let engine = Engine::builder(registry)
            .schedule(rule)
            .max_concurrency(7)
            .permissions(rules)
            .sibling_policy(SiblingPolicy::Never)
            .turn_budget(usize::MAX)
            .build();
        let name = |at: usize| match at % 100 {
            50 => "anything",
            at if at % 20 == 1 => "mark",
            _ => "look",
        };
        let calls = (0..10_000)
            .map(|at| ToolCall::new(at.to_string(), name(at), json!({"at": at, "fail": at % 13 == 0})));
        let results = engine.turn().run(calls).await;
        assert_eq!(results.len(), 10_000);
        for (at, result) in results.iter().enumerate() {
            assert_eq!(result.call_id(), at.to_string(), "{rule:?}");
            let expected = (at % 13 == 0).then_some(ErrorKind::Failed);
            assert_eq!(result.error_kind(), expected, "{rule:?}, call {at}");
        }
        assert_eq!(crowd.most.load(Ordering::SeqCst), 7, "{rule:?}: the cap is reached and not passed");
        assert_eq!(crowd.disturbed.load(Ordering::SeqCst), 0, "{rule:?}: alone means alone");
    }
}

/// With failures that stop their siblings nobody waits for ever either.
#[tokio::test]
async fn ten_thousand_calls_that_stop_each_other_all_end() {
    for rule in RULES {
        let crowd = Arc::new(Crowd::default());
        let look = crowded("look", &crowd, |_| Effects::none(), false);
        let engine = Engine::builder(Registry::new().with(look).unwrap())
            .schedule(rule)
            .sibling_policy(SiblingPolicy::OnError)
            .turn_budget(usize::MAX)
            .build();
        let calls = (0..10_000)
            .map(|at| ToolCall::new(at.to_string(), "look", json!({"at": at, "fail": at % 97 == 0})));
        let results = engine.turn().run(calls).await;
        let ids: Vec<usize> = results.iter().map(|result| result.call_id().parse().unwrap()).collect();
        assert_eq!(ids, (0..10_000).collect::<Vec<_>>());
        // The first that fails stops all that run or wait beside it.
        let kinds: Vec<Option<ErrorKind>> = results.iter().map(haft::ToolResult::error_kind).collect();
        assert_eq!(kinds[0], Some(ErrorKind::Failed), "{rule:?}");
        let known =
            |kind: &Option<ErrorKind>| matches!(kind, None | Some(ErrorKind::Failed | ErrorKind::Cancelled));
        assert!(kinds.iter().all(known), "{rule:?}");
        assert!(kinds.contains(&Some(ErrorKind::Cancelled)), "{rule:?}: nobody was stopped");
        assert_eq!(crowd.now.load(Ordering::SeqCst), 0);
    }
}

/// Interrupts a turn after so many steps of the runtime; whether it was still running.
async fn interrupted_after(steps: usize, force: bool) -> bool {
    let crowd = Arc::new(Crowd::default());
    let slow = |name: &'static str, interrupt: Interrupt, effects: Effects| {
        let crowd = crowd.clone();
        let body = move |_: Value, cx: Context| {
            let crowd = crowd.clone();
            async move {
                let _inside = crowd.enter(false);
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                cx.progress(0.5, "half");
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok("done")
            }
        };
        let tool = dynamic_tool(name, "Takes a while.", json!({"type": "object"}), body);
        any(tool
            .effects(move |_| effects.clone())
            .permission(|_| Some(DecisionReason::allow()))
            .interrupt(interrupt))
    };
    let registry = [
        slow("stops", Interrupt::Cancel, Effects::none()),
        slow("lasts", Interrupt::Block, Effects::none()),
        slow("writes", Interrupt::Block, Effects::writes_state("x")),
    ]
    .into_iter()
    .fold(Registry::new(), |registry, tool| registry.with(tool).unwrap());
    let engine = Engine::builder(registry).max_concurrency(2).build();
    let mut turn = engine.turn();
    let names = ["stops", "lasts", "writes", "stops", "nobody", "writes", "lasts"];
    for (at, name) in names.iter().enumerate() {
        turn.push(ToolCall::new(at.to_string(), *name, json!({})));
    }
    let handle = turn.handle();
    let running = tokio::spawn(turn.finish());
    for _ in 0..steps {
        // Every other step lets time pass, so that what sleeps is met too.
        match steps % 2 {
            0 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    let ran = !running.is_finished();
    if force {
        handle.cancel(Cause::User)
    } else {
        drop(handle.interrupt())
    }
    let results = running.await.unwrap();
    let ids: Vec<&str> = results.iter().map(haft::ToolResult::call_id).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4", "5", "6"], "after {steps} steps");
    for result in &results {
        let kind = result.error_kind();
        let known = matches!(kind, None | Some(ErrorKind::Cancelled | ErrorKind::UnknownTool));
        assert!(known, "after {steps} steps: {} is {kind:?}", result.call_id());
    }
    assert_eq!(crowd.now.load(Ordering::SeqCst), 0, "after {steps} steps something still runs");
    ran
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_at_every_point_leaves_one_result_for_each_call() {
    for force in [false, true] {
        let mut reached = 0;
        for steps in 0..400 {
            reached += usize::from(interrupted_after(steps, force).await);
        }
        assert!(reached >= 15, "only {reached} interrupts met a turn that ran");
        assert!(reached < 400, "no turn was over before its interrupt");
    }
}

/// A worker that starts a worker, and so on; the last one hangs. `deepest` counts how far it came.
fn tree(depth: usize, crowd: &Arc<Crowd>) -> (Engine, Arc<std::sync::OnceLock<Engine>>) {
    let engines: Arc<std::sync::OnceLock<Engine>> = Arc::default();
    let (crowd, known) = (crowd.clone(), engines.clone());
    let body = move |input: Value, cx: Context| {
        let (crowd, known) = (crowd.clone(), known.clone());
        async move {
            let _inside = crowd.enter(false);
            let level = usize::try_from(input["level"].as_u64().unwrap_or_default()).unwrap();
            if level == depth {
                std::future::pending::<()>().await;
            }
            let engine = known.get().expect("it is set before the first call");
            let child = engine.child(format!("worker-{level}"), engine.registry(), &cx).build();
            let calls = [
                ToolCall::new("deeper", "delegate", json!({"level": level + 1})),
                ToolCall::new("never", "forbidden", json!({})),
            ];
            let results = child.turn().run(calls).await;
            Ok(results.iter().map(|result| format!("{:?} ", result.error_kind())).collect::<String>())
        }
    };
    let delegate = dynamic_tool("delegate", "Starts a worker.", json!({"type": "object"}), body);
    let delegate = any(delegate.effects(|_| Effects::delegates()).interrupt(Interrupt::Cancel));
    let forbidden = |_: Value, _: Context| async { Ok("it ran") };
    let forbidden = dynamic_tool("forbidden", "Must not run.", json!({"type": "object"}), forbidden);
    let registry = Registry::new().with(delegate).unwrap().with(any(forbidden)).unwrap();
    let rules = PermissionRules::new().allow("delegate").unwrap().deny("forbidden").unwrap();
    let engine = Engine::builder(registry).permissions(rules).build();
    let _ = engines.set(engine.clone());
    (engine, engines)
}

/// A hundred workers below each other: all of them end with the first, and none may do what it may not.
#[tokio::test(start_paused = true)]
async fn a_tree_of_a_hundred_workers_ends_with_its_root() {
    let crowd = Arc::new(Crowd::default());
    let (engine, _known) = tree(100, &crowd);
    let mut turn = engine.turn();
    turn.push(ToolCall::new("root", "delegate", json!({"level": 0})));
    let handle = turn.handle();
    let running = tokio::spawn(turn.finish());
    while crowd.now.load(Ordering::SeqCst) < 101 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!running.is_finished(), "it ended {} levels down", crowd.now.load(Ordering::SeqCst));
    }
    handle.interrupt();
    let results = running.await.unwrap();
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Cancelled));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(crowd.now.load(Ordering::SeqCst), 0, "workers outlived their root");
}

/// Dropping everything, as a process does that ends, is the same.
#[tokio::test(start_paused = true)]
async fn a_tree_of_workers_ends_when_its_turn_is_dropped() {
    let crowd = Arc::new(Crowd::default());
    let (engine, _known) = tree(20, &crowd);
    let running = tokio::spawn(engine.turn().run([ToolCall::new("root", "delegate", json!({"level": 0}))]));
    while crowd.now.load(Ordering::SeqCst) < 21 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(crowd.now.load(Ordering::SeqCst), 0, "workers outlived their turn");
}
