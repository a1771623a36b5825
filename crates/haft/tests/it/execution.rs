//! Step 6 under strain: attempts, threads, and tools that block or never end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use haft::event::EventKind;
use haft::ports::PermissionMode;
use haft::testing::{EventLog, TestCaller, scripted_tool};
use haft::tool::RetryPolicy;
use haft::{Effects, ErrorKind, NoInput, PermissionRules, ToolError, limits, tool};

use crate::reader;

/// Runs again only what may be run again, and only where that can help.
#[tokio::test(start_paused = true)]
async fn retries() {
    async fn check(effects: Effects, error: fn() -> ToolError, attempts: u32, expected: usize) {
        let words = format!("{effects}, {:?}", error());
        let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let mut flaky = scripted_tool("flaky")
            .effects(move |_| effects.clone())
            .with(|tool| tool.retry(RetryPolicy { attempts, pause: Duration::from_millis(1) }));
        for _ in 0..attempts.max(1) {
            flaky = flaky.then_fail(error());
        }
        let (flaky, handle) = flaky.build();
        let caller = TestCaller::new().tool(flaky).engine(|engine| engine.permissions(rules));
        assert_eq!(caller.call("flaky", "{}").await.error_kind(), Some(ErrorKind::Failed));
        assert_eq!(handle.calls(), expected, "{words}");
    }
    let busy = || ToolError::new("busy").retryable();
    let wrong = || ToolError::new("wrong");
    check(Effects::none(), busy, 3, 3).await;
    check(Effects::none(), wrong, 3, 1).await;
    check(Effects::observes("x.io"), busy, 3, 3).await;
    check(Effects::writes_state("s"), busy, 3, 1).await;
    check(Effects::writes_state("s").repeatable(), busy, 3, 3).await;
    check(Effects::unknown().repeatable(), busy, 3, 1).await;
    check(Effects::delegates(), busy, 3, 1).await;
    check(Effects::none(), busy, 0, 1).await;
    check(Effects::none(), busy, 100, haft::limits::ATTEMPTS_MAX as usize).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_succeeds_is_a_success_and_the_time_limit_is_over_all_attempts() {
    let (flaky, handle) = scripted_tool("flaky")
        .effects(|_| Effects::none())
        .with(|tool| tool.retry(RetryPolicy::up_to(3)))
        .then_fail(ToolError::new("busy").retryable())
        .then("there")
        .build();
    let log = EventLog::new();
    let caller = TestCaller::new().tool(flaky).engine(|engine| engine.events(log.clone()));
    caller.turn([("1", "flaky", "{}")]).await.check(["1 ok: there"]);
    assert_eq!(handle.calls(), 2);
    assert_eq!(log.lines(), ["1 started", "1 progress attempt 1 failed, trying again", "1 finished"]);

    let pause = RetryPolicy { attempts: 3, pause: Duration::from_secs(20) };
    let (flaky, handle) = scripted_tool("flaky")
        .effects(|_| Effects::none())
        .with(|tool| tool.retry(pause).timeout(Duration::from_secs(10)))
        .then_fail(ToolError::new("busy").retryable())
        .build();
    let result = TestCaller::new().tool(flaky).call("flaky", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::TimedOut));
    assert_eq!(handle.calls(), 1);
}

#[tokio::test]
async fn a_blocking_tool_has_a_thread_of_its_own() {
    let own = tool("own", "Names its thread.", |_: NoInput, _| async {
        Ok(std::thread::current().name().unwrap_or("").to_owned())
    });
    let caller = TestCaller::new().tool(own.effects(|_| Effects::none()).blocking());
    caller.turn([("1", "own", "{}")]).await.check(["1 ok: haft-own"]);

    let panics = tool("panics", "Panics.", |_: NoInput, _| async {
        if true {
            panic!("secret words");
        }
        Ok(())
    });
    let caller = TestCaller::new().tool(panics.effects(|_| Effects::none()).blocking());
    assert_eq!(caller.call("panics", "{}").await.error_kind(), Some(ErrorKind::Panicked));
}

/// Also on a runtime with one thread: the call doesn't have it.
#[tokio::test]
async fn a_blocking_tool_that_never_ends_is_given_up_and_counted() {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let stuck = tool("stuck", "Waits for somebody.", move |_: NoInput, _| {
        let gate = gate.clone();
        async move {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(5));
            Ok(())
        }
    });
    let caller = TestCaller::new()
        .tool(stuck.effects(|_| Effects::none()).blocking().timeout_ms(20))
        .tool(reader("read"));
    // On a busy machine the time may be over before the call has a thread; it is given up then, too.
    while caller.as_engine().abandoned_threads() == 0 {
        let results = caller.turn([("1", "stuck", "{}"), ("2", "read", "{}")]).await;
        assert_eq!(results[0].error_kind(), Some(ErrorKind::TimedOut));
        assert_eq!(results[1].error_kind(), None);
    }
    assert_eq!(caller.as_engine().abandoned_threads(), 1);
    drop(go);
    yield_until(|| caller.as_engine().abandoned_threads() == 0).await;
}

/// The calls are cancelled once each of them holds a thread, so their number does not depend on how fast
/// threads start.
#[tokio::test]
async fn too_many_threads_that_never_end_refuse_further_ones() {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let stuck = tool("stuck", "Waits until the test ends.", move |_: NoInput, _| {
        let (gate, count) = (gate.clone(), count.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = gate.lock().unwrap().recv();
            Ok(())
        }
    });
    let most = limits::ABANDONED_THREADS_MAX;
    let stuck = stuck.effects(|_| Effects::none()).blocking();
    let caller = TestCaller::new().tool(stuck).engine(|engine| engine.max_concurrency(most / 2));
    for expected in [most / 2, most] {
        let turn = caller.start((0..most / 2).map(|call| (call.to_string(), "stuck", "{}")));
        yield_until(|| started.load(Ordering::SeqCst) == expected).await;
        turn.abort();
        yield_until(|| caller.as_engine().abandoned_threads() == expected).await;
    }
    let words = "1 Failed: stuck can't run: 64 of its kind never ended and still hold threads";
    caller.turn([("1", "stuck", "{}")]).await.check([words]);
    drop(go);
    yield_until(|| caller.as_engine().abandoned_threads() == 0).await;
    caller.turn([("1", "stuck", "{}")]).await.check(["1 ok: "]);
}

/// Waits for something that only a counter shows.
async fn yield_until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        tokio::task::yield_now().await;
    }
}

/// A tool that blocks a thread of the runtime can't be cancelled; it is answered all the same, and reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_runtime_thread_is_answered_and_reported() {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let stuck = tool("stuck", "Waits for somebody.", move |_: NoInput, _| {
        let (gate, end) = (gate.clone(), end.clone());
        async move {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(5));
            end.store(true, Ordering::SeqCst);
            Ok("late")
        }
    });
    let log = EventLog::new();
    let caller = TestCaller::new()
        .tool(stuck.effects(|_| Effects::none()).timeout_ms(50))
        .engine(|engine| engine.events(log.clone()));
    let result = caller.call("stuck", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::TimedOut));
    assert!(!ended.load(Ordering::SeqCst), "it was answered while it still blocked");
    let stuck = log.wait_for(|event| matches!(event.what, EventKind::BlocksThread { .. })).await;
    assert_eq!(stuck.call.unwrap().id.as_ref(), "1");
    drop(go);
}

/// The supervisor sleeps already when the call that blocks begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_beside_others_is_answered_too() {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let stuck = tool("stuck", "Waits for somebody.", move |_: NoInput, _| {
        let gate = gate.clone();
        async move {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(5));
            Ok("late")
        }
    });
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(stuck.effects(|_| Effects::none()).timeout_ms(50)).tool(slow);
    let turn = caller.start([("1", "slow", "{}")]);
    let call = handle.started().await;
    let result = caller.call("stuck", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::TimedOut));
    call.succeed("text");
    turn.results().await.check(["1 ok: text"]);
    drop(go);
}
