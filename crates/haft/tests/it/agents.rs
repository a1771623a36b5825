//! Agents of one session: what a worker may do, what ends it, and that two of them lose no write.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::dispatch::ConflictRule;
use haft::files::WriteMode;
use haft::ports::{ApprovalAnswer, ModeControl, PermissionMode};
use haft::testing::{
    EventLog, RunningTurn, ScriptedAsker, StartedCall, TestCaller, ToolHandle, let_tasks_run, scripted_tool,
};
use haft::tool::{AnyTool, Interrupt};
use haft::{
    Cause, Context, Effects, Engine, EngineBuilder, ErrorKind, Json, PermissionRules, Registry, ToolCall,
    ToolError, ToolResult, dynamic_tool,
};
use serde_json::{Value, json};

use crate::{Dir, any, plain, reader};

/// A parent whose call `delegate` runs, so that it can have children.
struct Parent {
    caller: TestCaller,
    turn: RunningTurn,
    call: StartedCall,
}

impl Parent {
    async fn new(tools: Vec<AnyTool>, change: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Parent {
        let delegate = scripted_tool("delegate").effects(|_| Effects::delegates());
        let (delegate, handle) = delegate.with(|tool| tool.interrupt(Interrupt::Cancel)).build();
        let caller =
            tools.into_iter().fold(TestCaller::new().tool(delegate), TestCaller::tool).engine(change);
        let mut turn = caller.start([("d", "delegate", "{}")]);
        let call = turn.meanwhile(handle.started()).await;
        Parent { caller, turn, call }
    }

    fn child(&self, agent: &str, tools: &[&str]) -> Engine {
        self.child_builder(agent, tools).build()
    }

    fn child_builder(&self, agent: &str, tools: &[&str]) -> EngineBuilder {
        let given = self.caller.registry().only(|entry| tools.contains(&entry.tool().name()));
        self.caller.as_engine().child(agent, given, self.call.context())
    }
}

fn file(name: &str, effects: fn(&str) -> Effects) -> (AnyTool, ToolHandle) {
    scripted_tool(name).effects(move |input| effects(input["path"].as_str().unwrap())).build()
}

fn call(tool: &str, input: Value) -> ToolCall {
    ToolCall::new("c", tool, input)
}

async fn one(engine: &Engine, tool: &str) -> ToolResult {
    engine.turn().run([call(tool, json!({}))]).await.remove(0)
}

async fn kind(engine: &Engine, tool: &str) -> Option<ErrorKind> {
    one(engine, tool).await.error_kind()
}

fn bypass() -> PermissionRules {
    PermissionRules::new().mode(PermissionMode::BypassPermissions)
}

// ---- What a worker may do.

#[tokio::test(start_paused = true)]
async fn a_worker_has_only_the_tools_it_was_given() {
    let parent = Parent::new(vec![any(reader("read")), any(reader("secret"))], |engine| engine).await;
    let child = parent.child("worker", &["read"]);
    let turn = child.turn();
    assert_eq!(turn.definitions().map(|offer| offer.name()).collect::<Vec<_>>(), ["read"]);
    assert_eq!(kind(&child, "read").await, None);
    assert_eq!(kind(&child, "secret").await, Some(ErrorKind::UnknownTool));
    assert_eq!(kind(&child, "delegate").await, Some(ErrorKind::UnknownTool), "nor can it delegate by itself");
    assert_eq!(kind(parent.caller.as_engine(), "secret").await, None, "the parent still has it");
}

#[tokio::test(start_paused = true)]
async fn the_stricter_of_both_rules_holds() {
    async fn check(parents: PermissionRules, own: Option<PermissionRules>, expected: Option<ErrorKind>) {
        let write = any(plain("write", Effects::changes("x.io")));
        let parent = Parent::new(vec![write], |engine| engine.permissions(parents)).await;
        let child = parent.child_builder("worker", &["write"]);
        let child = own.into_iter().fold(child, |child, own| child.permissions(own)).build();
        assert_eq!(kind(&child, "write").await, expected);
        // And so for a worker of the worker, which says nothing itself.
        let grandchild =
            child.child("worker-2", parent.caller.registry().clone(), parent.call.context()).build();
        assert_eq!(kind(&grandchild, "write").await, expected);
    }
    let rules = PermissionRules::new;
    let allow = || rules().allow("write").unwrap();
    let ask = || rules().ask("write").unwrap();
    let deny = || rules().deny("write").unwrap();
    let no_tool = Some(ErrorKind::UnknownTool);
    let denied = Some(ErrorKind::Denied);
    check(allow(), None, None).await;
    check(allow(), Some(rules()), None).await;
    check(allow(), Some(ask()), denied).await;
    check(rules(), Some(allow()), denied).await;
    check(rules(), Some(bypass()), denied).await;
    check(ask(), Some(allow()), denied).await;
    check(ask(), Some(bypass()), denied).await;
    // What is denied by name isn't even shown.
    for (parents, own) in [(deny(), None), (deny(), Some(bypass())), (bypass(), Some(deny()))] {
        let write = any(plain("write", Effects::changes("x.io")));
        let parent = Parent::new(vec![write], |engine| engine.permissions(parents)).await;
        let child = parent.child_builder("worker", &["write"]);
        let child = own.into_iter().fold(child, |child, own| child.permissions(own)).build();
        assert_eq!(child.turn().definitions().count(), 0);
        let kind = kind(&child, "write").await;
        assert!(kind == no_tool || kind == denied, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_for_the_session_counts_in_every_agent() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Session);
    let write = any(plain("write", Effects::changes("x.io")));
    let change = |engine: EngineBuilder| engine.asker(asker.clone()).schedule(ConflictRule::Effects);
    let parent = Parent::new(vec![write], change).await;
    assert_eq!(kind(parent.caller.as_engine(), "write").await, None);
    let child = parent.child_builder("worker", &["write"]);
    assert_eq!(kind(&child.clone().build(), "write").await, None);
    assert_eq!(kind(&child.permissions(PermissionRules::new()).build(), "write").await, None);
    assert_eq!(asker.approvals().len(), 1, "asked once, in the parent");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_a_worker_asked_for_is_the_sessions() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Session);
    let write = any(plain("write", Effects::changes("x.io")));
    let parent = Parent::new(vec![write], |engine| engine.asker(asker.clone())).await;
    assert_eq!(kind(&parent.child("worker", &["write"]), "write").await, None);
    assert_eq!(kind(parent.caller.as_engine(), "write").await, None);
    assert_eq!(asker.approvals().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_changes_in_the_parent_counts_at_once() {
    let rules = PermissionRules::new();
    let write = any(plain("write", Effects::changes("x.io")));
    let asker = ScriptedAsker::new();
    let change = |engine: EngineBuilder| engine.permissions(rules.clone()).asker(asker.clone());
    let parent = Parent::new(vec![write], change).await;
    let child = parent.child_builder("worker", &["write"]).permissions(bypass()).build();
    assert_eq!(kind(&child, "write").await, Some(ErrorKind::Rejected), "the asker's list is empty");
    rules.set(PermissionMode::BypassPermissions);
    assert_eq!(kind(&child, "write").await, None);
    rules.set(PermissionMode::DontAsk);
    assert_eq!(kind(&child, "write").await, Some(ErrorKind::Denied));
    assert_eq!(asker.approvals().len(), 1, "nobody is asked in that mode");
}

// ---- What ends a worker.

#[tokio::test(start_paused = true)]
async fn an_interrupt_reaches_the_calls_of_a_worker() {
    let (slow, slows) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let (write, writes) = scripted_tool("write").effects(|_| Effects::writes_state("s")).build();
    let parent = Parent::new(vec![slow, write], |engine| engine.permissions(bypass())).await;
    let child = parent.child("worker", &["slow", "write"]);
    let work = tokio::spawn(child.turn().run(["slow", "write"].map(|tool| call(tool, json!({})))));
    let inner = slows.started().await;
    assert_eq!(inner.context().call().agent_id(), "worker");
    assert_eq!(parent.turn.handle().interrupt(), [""; 0]);
    inner.dropped().await;
    assert_eq!(inner.context().cancel().cause(), Some(Cause::User));
    let results = work.await.unwrap();
    let causes: Vec<_> = results.iter().map(|result| result.error().and_then(ToolError::cause)).collect();
    assert_eq!(causes, [Some(Cause::User); 2]);
    assert_eq!(writes.calls(), 0, "what waited in the worker never runs");
    assert_eq!(kind(&child, "slow").await, Some(ErrorKind::Cancelled), "nor does anything new");
    let cancelled = "d Cancelled: delegate was cancelled: the user interrupted this turn";
    parent.turn.results().await.check([cancelled]);
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_worker_does_not_end_its_parent() {
    let (slow, slows) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let parent = Parent::new(vec![slow], |engine| engine).await;
    let (child, other) = (parent.child("worker", &["slow"]), parent.child("other", &["slow"]));
    let work = tokio::spawn(child.turn().run([call("slow", json!({}))]));
    let inner = slows.started().await;
    let beside = tokio::spawn(other.turn().run([call("slow", json!({}))]));
    let running = slows.started().await;
    child.shutdown(Cause::Shutdown);
    inner.dropped().await;
    work.await.unwrap();
    let_tasks_run().await;
    assert!(!running.is_dropped() && !parent.call.is_dropped());
    running.succeed("text");
    assert!(!beside.await.unwrap()[0].is_error());
    parent.call.succeed("done");
    parent.turn.results().await.check(["d ok: done"]);
}

// ---- Files.

#[tokio::test(start_paused = true)]
async fn writers_of_one_file_wait_for_each_other_over_agents() {
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let dir = Dir::new();
        let workspace = dir.workspace();
        let (edit, edits) = file("edit", |path| Effects::writes(path));
        let (look, looks) = file("look", |path| Effects::reads(path));
        let change = |engine: EngineBuilder| engine.workspace(workspace).permissions(bypass()).schedule(rule);
        let parent = Parent::new(vec![edit, look], change).await;
        let engines = ["a", "b", "c", "d", "e"].map(|agent| parent.child(agent, &["edit", "look"]));
        let begin = |at: usize, tool: &str, name: &str| {
            let call = call(tool, json!({"path": name}));
            tokio::spawn(engines[at].turn().run([call]))
        };
        let mut work = vec![begin(0, "edit", "x")];
        let first = edits.started().await;
        work.push(begin(1, "edit", "./y/../x"));
        let_tasks_run().await;
        work.push(begin(2, "edit", "x"));
        work.push(begin(3, "look", "x"));
        looks.started().await.succeed("reads take no locks");
        let_tasks_run().await;
        assert_eq!(edits.calls(), 1);
        work.push(begin(4, "edit", "z"));
        let elsewhere = edits.started().await;
        assert_eq!(elsewhere.input()["path"], "z", "another file is free");
        elsewhere.succeed("z");
        first.succeed("one");
        let second = edits.started().await;
        assert_eq!(second.context().call().agent_id(), "b", "first come, first served");
        second.fail(ToolError::new("failing gives the file free too"));
        edits.started().await.succeed("three");
        for work in work {
            work.await.unwrap();
        }
    }
}

/// A call that gives up waiting gives up its place.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_cancelled_while_it_waits_blocks_nobody() {
    let dir = Dir::new();
    let workspace = dir.workspace();
    let (edit, edits) = file("edit", |path| Effects::writes(path));
    let change = |engine: EngineBuilder| engine.workspace(workspace).permissions(bypass());
    let parent = Parent::new(vec![edit], change).await;
    let start = |agent: &str| {
        let turn = parent.child(agent, &["edit"]).turn();
        let handle = turn.handle();
        (tokio::spawn(turn.run([call("edit", json!({"path": "x"}))])), handle)
    };
    let (first, first_turn) = start("a");
    let holding = edits.started().await;
    let (second, second_turn) = start("b");
    let_tasks_run().await;
    let (third, _) = start("c");
    let_tasks_run().await;
    second_turn.cancel(Cause::User);
    assert_eq!(second.await.unwrap()[0].error_kind(), Some(ErrorKind::Cancelled));
    first_turn.cancel(Cause::User);
    holding.dropped().await;
    edits.started().await.succeed("three");
    assert!(!third.await.unwrap()[0].is_error());
    assert!(first.await.unwrap()[0].is_error());
    assert_eq!(edits.calls(), 2);
}

/// Reads the file of its input, gives way, and writes it back with a line more.
fn append() -> AnyTool {
    let schema = json!({"type": "object"});
    let tool = dynamic_tool("append", "Adds a line.", schema, |input: Value, cx: Context| async move {
        for name in input["paths"].as_array().unwrap() {
            let path = name.as_str().unwrap();
            let before = cx.files().read_to_string(path).await?;
            tokio::task::yield_now().await;
            let after = format!("{before}{}\n", input["line"].as_str().unwrap());
            cx.files().write(path, after.as_bytes(), WriteMode::Replace).await?;
        }
        Ok("added")
    });
    any(tool.effects(|input| {
        let paths = input["paths"].as_array().unwrap().iter();
        paths.fold(Effects::none(), |effects, path| effects.and(Effects::writes(path.as_str().unwrap())))
    }))
}

/// Two agents with 50 calls each; returns the lines of the files when all is done.
async fn two_agents(files: [&[&str]; 2]) -> [Vec<String>; 2] {
    let dir = Dir::new();
    let workspace = dir.workspace();
    let paths = ["w/x", "w/y"].map(|name| dir.file(name, ""));
    let change = |engine: EngineBuilder| {
        engine.workspace(workspace).permissions(bypass()).schedule(ConflictRule::Effects)
    };
    let parent = Parent::new(vec![append()], change).await;
    let work = [0, 1].map(|agent| {
        let turn = parent.child(&agent.to_string(), &["append"]).turn();
        let line = move |at: usize| json!({"paths": files[agent], "line": format!("{agent} {at}")});
        let calls = (0..50).map(|at| call("append", line(at))).collect::<Vec<_>>();
        tokio::spawn(turn.run(calls))
    });
    for work in work {
        // Real time, and only so that a deadlock fails instead of hanging.
        let results =
            tokio::time::timeout(Duration::from_secs(120), work).await.expect("a deadlock").unwrap();
        assert!(results.iter().all(|result| !result.is_error()), "{results:?}");
    }
    paths.map(|path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_agents_lose_no_write_to_one_file() {
    let [lines, _] = two_agents([&["x"], &["x"]]).await;
    let of = |agent: usize| {
        lines.iter().filter(|line| line.starts_with(&agent.to_string())).cloned().collect::<Vec<_>>()
    };
    for agent in [0, 1] {
        let expected: Vec<String> = (0..50).map(|at| format!("{agent} {at}")).collect();
        assert_eq!(of(agent), expected, "each agent's in its order");
    }
    assert_eq!(lines.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_agents_that_write_two_files_in_opposite_order_do_not_deadlock() {
    let [x, y] = two_agents([&["x", "y"], &["y", "x"]]).await;
    assert_eq!((x.len(), y.len()), (100, 100));
    assert_eq!(x, y, "a call has all of its files at once");
}

// ---- Delegating.

/// A tool that runs a worker inside of its call and gives its result.
fn delegate(engine: &Arc<OnceLock<Engine>>, given: Registry) -> AnyTool {
    let engine = engine.clone();
    let schema = json!({"type": "object"});
    let tool = dynamic_tool("delegate", "Delegates.", schema, move |input: Value, cx: Context| {
        let child = engine.get().unwrap().child("worker", given.clone(), &cx).build();
        async move {
            let work = input["tool"].as_str().unwrap();
            let result = one(&child, work).await;
            result.outcome().map(|output| Json(json!({"worker": output.to_text()}))).map_err(Clone::clone)
        }
    });
    any(tool.effects(|_| Effects::delegates()))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_delegates_holds_its_slot_and_not_its_workers() {
    let (slow, slows) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let (beside, besides) = scripted_tool("beside").effects(|_| Effects::none()).build();
    let given = Registry::new().with(slow).unwrap();
    let engine = Arc::new(OnceLock::new());
    let log = EventLog::new();
    let caller = TestCaller::new()
        .tool(delegate(&engine, given))
        .tool(beside)
        .engine(|engine| engine.max_concurrency(1).events(log.clone()));
    assert!(engine.set(caller.as_engine().clone()).is_ok());
    let mut turn = caller.start([
        ("1", "delegate", json!({"tool": "slow"})),
        ("2", "beside", json!({})),
        ("3", "delegate", json!({"tool": "beside"})),
    ]);
    let inner = turn.meanwhile(slows.started()).await;
    assert_eq!(inner.context().call().agent_id(), "worker");
    let_tasks_run().await;
    assert_eq!(besides.calls(), 0, "the one slot of the parent is taken");
    inner.succeed("deep");
    turn.meanwhile(besides.started()).await.succeed("text");
    let lines = turn.results().await.lines();
    assert_eq!(lines[..2], [r#"1 ok: {"worker":"deep"}"#, "2 ok: text"]);
    assert!(lines[2].contains("no tool named `beside`"), "{lines:?}");
    let of_worker = log.events().iter().filter(|event| &*event.agent == "worker").count();
    assert_eq!(of_worker, 3, "a worker's events carry its name: started, finished, and finished");
}

/// A call that holds a file, or the last place of its tool, once waited for itself when it delegated to a
/// worker that wanted the same.
#[tokio::test(start_paused = true)]
async fn a_worker_has_what_its_ancestor_holds() {
    let dir = Dir::new();
    let workspace = dir.workspace();
    let delegate = scripted_tool("delegate").effects(|_| Effects::delegates().and(Effects::writes("x")));
    let (delegate, handle) = delegate.with(|tool| tool.concurrency(1).timeout_ms(5_000)).build();
    let (edit, edits) = file("edit", |path| Effects::writes(path));
    let caller = TestCaller::new()
        .tool(delegate)
        .tool(edit)
        .engine(|engine| engine.workspace(workspace).permissions(bypass()));
    let mut turn = caller.start([("d", "delegate", "{}")]);
    let outer = turn.meanwhile(handle.started()).await;
    // Another agent wants the file too: it waits for the ancestor, and so it is in nobody's way.
    let other = caller.start([("o", "edit", r#"{"path": "x"}"#)]);
    let_tasks_run().await;
    let child = caller.as_engine().child("worker", caller.registry().clone(), outer.context()).build();
    let work = tokio::spawn(child.turn().run([call("edit", json!({"path": "x"}))]));
    edits.started().await.succeed("edited");
    assert!(!work.await.unwrap()[0].is_error());
    let work = tokio::spawn(child.turn().run([call("delegate", json!({}))]));
    handle.started().await.succeed("delegated");
    assert!(!work.await.unwrap()[0].is_error());
    assert_eq!(edits.calls(), 1, "the other still waits");
    outer.succeed("done");
    turn.results().await.check(["d ok: done"]);
    edits.started().await.succeed("at last");
    other.results().await.check(["o ok: at last"]);
}

/// An agent that moved works where it is: what is around it is outside, and so for those that it gives tasks
/// to.
#[tokio::test(start_paused = true)]
async fn a_scope_that_moved_is_the_childs_too() {
    let dir = Dir::new();
    let workspace = dir.workspace();
    dir.file("w/inner/a", "");
    dir.file("w/b", "");
    let (look, looks) = file("look", |path| Effects::reads(path));
    let (enter, enters) = scripted_tool("enter").effects(|_| Effects::none()).build();
    let change = |engine: EngineBuilder| engine.workspace(workspace);
    let parent = Parent::new(vec![look, enter], change).await;
    let engine = parent.caller.as_engine().clone();
    let begin =
        |engine: &Engine, tool: &str, input: Value| tokio::spawn(engine.turn().run([call(tool, input)]));
    let entering = begin(&engine, "enter", json!({}));
    let inside = enters.started().await;
    inside.context().location().enter(std::path::Path::new("inner")).unwrap();
    assert!(inside.context().location().enter(std::path::Path::new("/")).unwrap_err().contains("outside"));
    assert_eq!(inside.context().location().entered().unwrap().file_name().unwrap(), "inner");
    inside.succeed("there");
    entering.await.unwrap();

    let reading = begin(&engine, "look", json!({"path": "a"}));
    let call = looks.started().await;
    assert!(call.context().cwd().ends_with("w/inner"), "{:?}", call.context().cwd());
    assert!(
        call.context().location().move_to(std::path::Path::new("..")).is_err(),
        "nobody moves out by that"
    );
    let child = engine.child("worker", parent.caller.registry().clone(), call.context()).build();
    let of_child = begin(&child, "look", json!({"path": "a"}));
    let inner = looks.started().await;
    assert!(inner.context().cwd().ends_with("w/inner"));
    inner.succeed("a");
    assert!(!of_child.await.unwrap()[0].is_error());
    for engine in [&engine, &child] {
        let outside = begin(engine, "look", json!({"path": "../b"})).await.unwrap();
        assert_eq!(outside[0].error_kind(), Some(ErrorKind::Denied), "it asks, and nobody is there");
    }
    call.succeed("a");
    assert!(!reading.await.unwrap()[0].is_error());
    let leaving = begin(&engine, "enter", json!({}));
    let inside = enters.started().await;
    inside.context().location().leave();
    inside.succeed("back");
    leaving.await.unwrap();
    let reading = begin(&engine, "look", json!({"path": "b"}));
    looks.started().await.succeed("b");
    assert!(!reading.await.unwrap()[0].is_error());
}

/// A person who is asked is told which agent asks.
#[tokio::test(start_paused = true)]
async fn a_question_names_the_agent() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once).then(ApprovalAnswer::Once);
    let write = any(plain("write", Effects::changes("x.io")));
    let change = |engine: EngineBuilder| engine.asker(asker.clone()).schedule(ConflictRule::Effects);
    let parent = Parent::new(vec![write], change).await;
    assert_eq!(kind(parent.caller.as_engine(), "write").await, None);
    assert_eq!(kind(&parent.child("worker", &["write"]), "write").await, None);
    let asked: Vec<Option<String>> =
        asker.approvals().iter().map(|approval| approval.agent.clone()).collect();
    assert_eq!(asked, [None, Some("worker".to_owned())]);
}
