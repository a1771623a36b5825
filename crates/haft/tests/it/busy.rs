//! Calls that keep their thread busy, end late or move away while others wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haft::dispatch::TaskTable;
use haft::ports::{NewTask, PermissionMode, TaskId, TaskLog, TaskState, Tasks, TooManyTasks};
use haft::tool::{Interrupt, SiblingPolicy};
use haft::{
    Context, Effects, Engine, EngineBuilder, ErrorKind, NoInput, PermissionRules, Registry, ToolCall,
    ToolError, ToolResult, dynamic_tool, tool,
};

fn engine(registry: Registry) -> EngineBuilder {
    Engine::builder(registry).permissions(PermissionRules::new().mode(PermissionMode::BypassPermissions))
}

fn call(id: usize, tool: &str) -> ToolCall {
    ToolCall::new(format!("{id}"), tool, "{}")
}

async fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// a call that never yields is answered soon after it was cancelled, whoever cancelled it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn interrupt_of_a_call_that_never_yields() {
    let started = Arc::new(AtomicBool::new(false));
    let flag = started.clone();
    let stuck = tool("stuck", "d", move |_: NoInput, _| {
        let flag = flag.clone();
        async move {
            flag.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        }
    })
    .effects(|_| Effects::none())
    .interrupt(Interrupt::Cancel);
    let engine = engine(Registry::new().with(stuck).unwrap()).build();
    let mut turn = engine.turn();
    let handle = turn.handle();
    turn.push(call(0, "stuck"));
    let finished = tokio::spawn(turn.finish());
    until(&started).await;
    handle.interrupt();
    let began = Instant::now();
    let results = finished.await.unwrap();
    println!("{:?} after {:?}", results[0].error_kind(), began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

/// the late failure of a call that was answered long ago stops nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn late_failure_stops_a_later_batch() {
    let late = tool("late", "d", |_: NoInput, _| async {
        std::thread::sleep(Duration::from_millis(700));
        Err::<(), _>(ToolError::new("too late"))
    })
    .effects(|_| Effects::none())
    .timeout(Duration::from_millis(50))
    .on_error(SiblingPolicy::OnError);
    let next = tool("next", "d", |_: NoInput, _| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok("done")
    })
    .effects(|_| Effects::writes_state("s"));
    let engine = engine(Registry::new().with(late).unwrap().with(next).unwrap()).build();
    let results = engine.turn().run([call(0, "late"), call(1, "next")]).await;
    println!(
        "{:?} {:?}",
        results[0].error().map(|e| e.message().to_owned()),
        results[1].error().map(|e| e.message().to_owned())
    );
    assert_eq!(results[0].error_kind(), Some(ErrorKind::TimedOut));
    assert!(!results[1].is_error());
}

/// a call that is abandoned at its limit stops its siblings where the policy says so, as one that yields
/// does.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_abandoned_call_stops_its_siblings() {
    let stuck = tool("stuck", "d", |_: NoInput, _| async {
        std::thread::sleep(Duration::from_millis(1500));
        Ok(())
    })
    .effects(|_| Effects::none())
    .timeout(Duration::from_millis(50))
    .on_error(SiblingPolicy::OnError);
    let beside = tool("beside", "d", |_: NoInput, _| async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        Ok("done")
    })
    .effects(|_| Effects::none());
    let engine = engine(Registry::new().with(stuck).unwrap().with(beside).unwrap()).build();
    let results = engine.turn().run([call(0, "stuck"), call(1, "beside")]).await;
    assert_eq!(results[0].error_kind(), Some(ErrorKind::TimedOut));
    assert_eq!(
        results[1].error_kind(),
        Some(ErrorKind::Cancelled),
        "{:?}",
        results[1].error().map(|e| e.message().to_owned())
    );
}

/// a call is moved to the background from a thread that is no runtime's.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn detach_from_another_thread() {
    let slow = tool("slow", "d", |_: NoInput, cx: Context| async move {
        let _ = cx.cancelled().await;
        Ok(())
    })
    .effects(|_| Effects::writes_state("s"));
    let quick =
        tool("quick", "d", |_: NoInput, _| async { Ok("done") }).effects(|_| Effects::writes_state("s"));
    let engine = engine(Registry::new().with(slow).unwrap().with(quick).unwrap())
        .ports(|ports| ports.tasks = Some(Arc::new(TaskTable::new())))
        .build();
    let mut turn = engine.turn();
    let handle = turn.handle();
    turn.push(call(0, "slow"));
    turn.push(call(1, "quick"));
    let finished = tokio::spawn(turn.finish());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let detached = std::thread::spawn(move || handle.detach(0).map(|_| ())).join();
    println!("{detached:?}");
    let results =
        tokio::time::timeout(Duration::from_secs(2), finished).await.expect("the turn ends").unwrap();
    assert!(!results[1].is_error());
}

/// a call that turns out safe lets those behind it in.
#[tokio::test]
async fn a_call_that_turns_out_safe_lets_others_in() {
    let together = Arc::new(AtomicUsize::new(0));
    let here = together.clone();
    let meet = dynamic_tool("meet", "d", serde_json::json!({"type": "object"}), move |_, _| {
        let here = here.clone();
        async move {
            here.fetch_add(1, Ordering::AcqRel);
            let began = Instant::now();
            while here.load(Ordering::Acquire) < 2 && began.elapsed() < Duration::from_secs(1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(here.load(Ordering::Acquire) == 2)
        }
    })
    .effects(|input| if input["write"] == true { Effects::writes_state("s") } else { Effects::none() })
    .guard(|mut input, _| async move {
        input["write"] = false.into();
        Ok(input)
    });
    let engine = engine(Registry::new().with(meet).unwrap()).build();
    let results = engine
        .turn()
        .run([
            ToolCall::new("0", "meet", r#"{"write": true}"#),
            ToolCall::new("1", "meet", r#"{"write": false}"#),
        ])
        .await;
    assert_eq!(results[0].to_json().output, true, "0 ran beside 1");
}

/// two who move one call to the background at once: what the model is told is what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_detach_one_call() {
    struct Slow(TaskTable);
    impl Tasks for Slow {
        fn adopt(&self, task: NewTask) -> Result<TaskId, TooManyTasks> {
            let task = self.0.adopt(task);
            // The second to come is the first to go on.
            if task.as_ref().is_ok_and(|task| task.0 == 1) {
                std::thread::sleep(Duration::from_millis(200));
            }
            task
        }
        fn finish(&self, task: TaskId, result: ToolResult) {
            self.0.finish(task, result);
        }
        fn list(&self) -> Vec<TaskState> {
            self.0.list()
        }
        fn result(&self, task: TaskId) -> Option<ToolResult> {
            self.0.result(task)
        }
        fn stop(&self, task: TaskId) -> bool {
            self.0.stop(task)
        }
        fn log(&self, task: TaskId) -> Option<Arc<dyn TaskLog>> {
            self.0.log(task)
        }
        fn ended<'a>(&'a self, task: TaskId) -> haft::future::BoxFuture<'a, ()> {
            self.0.ended(task)
        }
    }
    let slow = tool("slow", "d", |_: NoInput, _| async move {
        tokio::time::sleep(Duration::from_millis(600)).await;
        Ok("real")
    })
    .effects(|_| Effects::none());
    let tasks = Arc::new(Slow(TaskTable::new()));
    let port = tasks.clone();
    let engine = engine(Registry::new().with(slow).unwrap()).ports(|ports| ports.tasks = Some(port)).build();
    let mut turn = engine.turn();
    let handle = turn.handle();
    turn.push(call(0, "slow"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let runtime = tokio::runtime::Handle::current();
    let detach = |after: u64| {
        let (handle, runtime) = (handle.clone(), runtime.clone());
        std::thread::spawn(move || {
            let _inside = runtime.enter();
            std::thread::sleep(Duration::from_millis(after));
            handle.detach(0).map(|detached| detached.task)
        })
    };
    let (first, second) = (detach(0), detach(50));
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    let results = turn.finish().await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    let list = tasks.list();
    println!("{first:?} {second:?} {list:?} {:?}", results[0].to_json().output);
    assert!(list.iter().all(|task| !task.running), "a task that never ends: {list:?}");
    let told = [first, second].into_iter().flatten().next().unwrap();
    assert!(results[0].to_json().output.as_str().unwrap().contains(&told.to_string()));
    assert_eq!(tasks.result(told).unwrap().to_json().output, "real");
}
