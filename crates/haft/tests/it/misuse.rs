//! Runtimes that go away, ports that hang, tools that never yield, rules that change at the wrong moment: one
//! result for each call all the same, and nothing runs that should not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::future::BoxFuture;
use haft::hooks::HookSet;
use haft::ports::{
    ApprovalAnswer, AuthorizationRequest, Authorizer, CallIntent, PermissionMode, RecordError, Recorder,
};
use haft::testing::{ScriptedAsker, TestCaller, TestHook, let_tasks_run, scripted_tool};
use haft::tool::{AnyTool, Interrupt};
use haft::{
    Cause, Effects, Engine, ErrorKind, NoInput, PermissionRules, Registry, ResultBlock, ToolCall, ToolError,
    ToolResult, Workspace, dynamic_tool, tool,
};
use serde_json::json;

use crate::{Dir, plain, reader};

fn current() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn call(name: &str) -> ToolCall {
    ToolCall::new("1", name, "{}")
}

/// A task that was dropped before it ran owed nothing, and the turn waited for ever.
#[test]
fn a_runtime_that_goes_down_before_a_call_ran_answers_it() {
    let engine = Engine::new(Registry::new().with(reader("read")).unwrap());
    let mut turn = engine.turn();
    let first = current();
    first.block_on(async {
        turn.push(call("read"));
        turn.push(call("no_such_tool"));
    });
    drop(first);
    let results = current().block_on(turn.finish());
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].error().and_then(ToolError::cause), Some(Cause::Shutdown));
}

/// And without any runtime a call is an error, not a panic that loses it.
#[test]
fn a_call_made_outside_of_a_runtime_is_answered() {
    let engine = Engine::new(Registry::new().with(reader("read")).unwrap());
    let mut turn = engine.turn();
    turn.push(call("read"));
    let results = current().block_on(turn.finish());
    assert!(results[0].error().unwrap().message().contains("needs a Tokio runtime"), "{results:?}");
}

fn spinning(name: &str, until: &Arc<AtomicBool>) -> AnyTool {
    let until = until.clone();
    tool(name.to_owned(), "Spins.", move |_: NoInput, _| {
        let until = until.clone();
        async move {
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok("ended after all")
        }
    })
    .effects(|_| Effects::none())
    .interrupt(Interrupt::Cancel)
    .timeout_ms(100)
    .build()
    .unwrap()
}

/// A call that never looks up was answered by its time limit only, whoever cancelled it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_that_never_yields_is_answered() {
    let end = Arc::new(AtomicBool::new(false));
    let patient = tool("patient", "Spins.", {
        let end = end.clone();
        move |_: NoInput, _| {
            let end = end.clone();
            async move {
                while !end.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            }
        }
    });
    let patient = patient
        .effects(|_| Effects::none())
        .interrupt(Interrupt::Cancel)
        .timeout(haft::tool::CallTimeout::Never);
    let engine = Engine::new(Registry::new().with(patient).unwrap());
    let turn = engine.turn();
    let handle = turn.handle();
    let running = tokio::spawn(turn.run([call("patient")]));
    while handle.interrupt().is_empty() && !running.is_finished() {
        handle.cancel(Cause::User);
        tokio::time::sleep(Duration::from_millis(5)).await;
        if running.is_finished() {
            break;
        }
    }
    let results = running.await.unwrap();
    end.store(true, Ordering::Relaxed);
    assert_eq!(results[0].error().and_then(ToolError::cause), Some(Cause::User));
}

/// With every thread of the runtime busy nobody was left to look at the time.
#[test]
fn time_limits_hold_although_every_thread_is_busy() {
    let end = Arc::new(AtomicBool::new(false));
    let registry = Registry::new().with(spinning("spins", &end)).unwrap();
    let engine = Engine::new(registry);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // The waiting itself happens on this thread.
    let results = runtime.block_on(engine.turn().run([call("spins")]));
    end.store(true, Ordering::Relaxed);
    assert!(results.iter().all(|result| result.error_kind() == Some(ErrorKind::TimedOut)), "{results:?}");
    assert!(results[0].input().is_some() && !results[0].duration().is_zero(), "what is known of it is kept");
}

/// The task that watches the time lived on the first runtime for ever.
#[test]
fn time_limits_hold_on_a_second_runtime() {
    let waits = tool("waits", "Waits.", |_: NoInput, _| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let waits = waits.effects(|_| Effects::none()).timeout_ms(50);
    let engine = Engine::new(Registry::new().with(waits).unwrap().with(reader("read")).unwrap());
    let first = current();
    assert!(!first.block_on(engine.turn().run([call("read")]))[0].is_error());
    let results = current().block_on(engine.turn().run([call("waits")]));
    assert_eq!(results[0].error_kind(), Some(ErrorKind::TimedOut));
    drop(first);
}

struct Stuck {
    before: bool,
}

impl Recorder for Stuck {
    fn before<'a>(&'a self, _: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        if self.before { Box::pin(std::future::pending()) } else { Box::pin(std::future::ready(Ok(()))) }
    }
    fn after<'a>(
        &'a self,
        _: &'a CallIntent<'a>,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(std::future::pending())
    }
}

/// A journal that hangs held the call, and nobody could end it.
#[tokio::test(start_paused = true)]
async fn a_recorder_that_hangs_holds_nobody_for_ever() {
    let with = |before: bool| {
        TestCaller::new().tool(crate::changer("t")).engine(|engine| {
            let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
            engine.permissions(rules).ports(|ports| ports.recorder = Some(Arc::new(Stuck { before })))
        })
    };
    assert_eq!(with(true).call("t", "{}").await.error_kind(), Some(ErrorKind::NotRecorded));
    assert_eq!(with(false).call("t", "{}").await.error_kind(), None, "the result stays");
    let caller = with(true);
    let turn = caller.start([("1", "t", "{}")]);
    let_tasks_run().await;
    turn.handle().interrupt();
    assert_eq!(turn.results().await[0].error_kind(), Some(ErrorKind::Cancelled));
}

/// A check that never comes back held its turn.
#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_is_given_up() {
    let stuck = plain("t", Effects::none()).check(|_, _| std::future::pending());
    let result = TestCaller::new().tool(stuck).call("t", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::TimedOut));
    let stuck = plain("t", Effects::none()).guard(|_, _| std::future::pending());
    assert_eq!(TestCaller::new().tool(stuck).call("t", "{}").await.error_kind(), Some(ErrorKind::Blocked));
}

/// A tool that declares nothing could not even write where it was allowed to.
#[tokio::test]
async fn what_is_unknown_and_allowed_may_touch_what_the_session_may() {
    let dir = Dir::new();
    dir.folder("w/.haft");
    let writes = |path: &'static str| {
        tool("t", "Writes.", move |_: NoInput, cx| async move {
            Ok(cx.files().write(path, b"text", haft::files::WriteMode::Replace).await.map(drop)?)
        })
    };
    let check = async |path: &'static str, expected: Option<ErrorKind>| {
        let workspace = dir.workspace().with_protected(dir.path("w/.haft"));
        let rules = PermissionRules::new().allow("t").unwrap();
        let caller = TestCaller::new()
            .tool(writes(path))
            .engine(|engine| engine.workspace(workspace).permissions(rules));
        assert_eq!(caller.call("t", "{}").await.error_kind(), expected, "{path}");
    };
    check("new.txt", None).await;
    check("../outside.txt", Some(ErrorKind::Failed)).await;
    check(".haft/settings.json", Some(ErrorKind::Failed)).await;
}

/// The older of two changes, assembled more slowly, brought the old tools back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_tools_stay() {
    let (entered, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let slow = {
        let (entered, go, armed) = (entered.clone(), go.clone(), AtomicBool::new(false));
        plain("slow", Effects::none()).unavailable_reason(move || {
            // The first look is the engine's own.
            if armed.swap(true, Ordering::SeqCst) {
                entered.store(true, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            None
        })
    };
    let engine = Engine::new(Registry::new().with(slow).unwrap());
    engine.snapshot();
    let other = engine.clone();
    let refreshing = tokio::task::spawn_blocking(move || other.refresh());
    while !entered.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    engine.refresh_with(Registry::new().with(reader("new")).unwrap());
    go.store(true, Ordering::SeqCst);
    refreshing.await.unwrap();
    assert_eq!(engine.snapshot().offers()[0].name(), "new");
}

struct Switch(Arc<AtomicBool>);

impl Authorizer for Switch {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        let denial = || DecisionReason::new(DecisionSource::Rule, Verdict::Deny, "rule `late`");
        self.0.load(Ordering::SeqCst).then(denial).into_iter().collect()
    }
    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

/// A rule that came while the user was thinking did not hold.
#[tokio::test]
async fn a_rule_that_came_during_the_question_holds() {
    let denies = Arc::new(AtomicBool::new(false));
    let asker = ScriptedAsker::waiting();
    let caller = TestCaller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.permissions(Switch(denies.clone())).asker(asker.clone()));
    for (deny, expected) in [(false, None), (true, Some(ErrorKind::Denied))] {
        let turn = caller.start([("1", "t", "{}")]);
        let asked = asker.asked().await;
        denies.store(deny, Ordering::SeqCst);
        asked.answer(ApprovalAnswer::Once);
        assert_eq!(turn.results().await[0].error_kind(), expected);
    }
    // And a mode that asks nobody asks nobody a second time.
    let rules = PermissionRules::new();
    let caller = TestCaller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.permissions(rules.clone()).asker(asker.clone()));
    let turn = caller.start([("1", "t", "{}")]);
    let asked = asker.asked().await;
    haft::ports::ModeControl::set(&rules, PermissionMode::DontAsk);
    asked.answer(ApprovalAnswer::Once);
    assert_eq!(turn.results().await[0].error_kind(), Some(ErrorKind::Denied));
}

/// Building one set of rules from another loosened both.
#[test]
fn a_mode_that_is_built_is_its_own() {
    let strict = PermissionRules::new();
    let _loose = strict.clone().mode(PermissionMode::BypassPermissions);
    assert_eq!(haft::ports::ModeControl::current(&strict), PermissionMode::Default);
}

/// A worker with a workspace of its own reached further than who made it.
#[tokio::test]
async fn a_worker_does_not_reach_further_than_its_parent() {
    let dir = Dir::new();
    dir.file("w/inside/a", "");
    dir.file("beside", "");
    let (delegate, handle) = scripted_tool("delegate").effects(|_| Effects::delegates()).build();
    let look = dynamic_tool("look", "Looks.", json!({"type": "object"}), |_, _| async { Ok("seen") });
    let look = look.effects(|args| Effects::reads(PathBuf::from(args["path"].as_str().unwrap_or_default())));
    let workspace = dir.workspace();
    let caller = TestCaller::new().tool(delegate).tool(look).engine(|engine| engine.workspace(workspace));
    let turn = caller.start([("1", "delegate", "{}")]);
    let outer = handle.started().await;
    let child = caller.as_engine().child("worker", caller.registry().clone(), outer.context());
    let child = child
        .workspace(Workspace::new(dir.path("")).unwrap().with_dir(dir.path("w/inside")).unwrap())
        .build();
    let look = |path: PathBuf| [ToolCall::new("1", "look", json!({"path": path}))];
    assert_eq!(child.turn().run(look(dir.path("w/inside/a"))).await[0].error_kind(), None);
    assert_eq!(child.turn().run(look(dir.path("beside"))).await[0].error_kind(), Some(ErrorKind::Denied));
    outer.succeed("done");
    turn.results().await;
}

/// A link carried any number of characters past every limit.
#[tokio::test]
async fn a_link_is_no_way_around_the_limit() {
    let links =
        |length: usize| {
            tool("t", "Links.", move |_: NoInput, _| async move {
                Ok(ResultBlock::link("x".repeat(length), "name"))
            })
            .effects(|_| Effects::none())
        };
    let chars = async |length: usize| {
        let result = TestCaller::new().tool(links(length)).call("t", "{}").await;
        result.for_model().iter().map(|block| block.to_text().len()).sum::<usize>()
    };
    assert!(chars(100).await > 100);
    assert!(chars(1_000_000).await < 1_000);
}

/// What a hook had to say was lost with a call that was then denied.
#[tokio::test]
async fn what_a_hook_says_is_said_although_the_call_is_denied() {
    let hook =
        TestHook::new("h").on_before(|_| Ok(haft::hooks::PreHookResponse::with_context("mind the gap")));
    let caller = TestCaller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.hooks(HookSet::new().before(hook)));
    let result = caller.call("t", "{}").await;
    assert_eq!(
        (result.error_kind(), result.notes()),
        (Some(ErrorKind::Denied), &["mind the gap".to_owned()][..])
    );
}
