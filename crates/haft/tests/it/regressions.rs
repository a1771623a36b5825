//! Mistakes that were made once: each test tells what went wrong, and holds that it no longer does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::dispatch::{ConflictRule, TaskTable};
use haft::event::EventKind;
use haft::future::BoxFuture;
use haft::hooks::{HookCall, HookError, HookSet, PostHook, PostHookResponse, PreHook, PreHookResponse};
use haft::ports::{ApprovalAnswer, PermissionMode, Tasks};
use haft::testing::{
    EventLog, MemoryRecorder, ScriptedAsker, TestCaller, TestHook, let_tasks_run, scripted_tool,
};
use haft::tool::RetryPolicy;
use haft::{
    Cause, Context, Effects, ErrorKind, PermissionRules, Registry, Tool, ToolError, ToolResult, ToolSpec,
    Workspace,
};
use serde_json::json;

use crate::{Dir, any, caller_in, changer, plain, reader};

/// Results are taken out of the board when the turn ends, and a call that ends later (abandoned, or in the
/// background) then counts as one without a result: the board counts below zero, and the call is told of a
/// second time where that is no panic.
#[tokio::test]
async fn a_call_that_went_to_the_background_has_one_result() {
    let overflows = Arc::new(AtomicUsize::new(0));
    let count = overflows.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_some_and(|place| place.file().ends_with("board.rs")) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        before(panic);
    }));
    let log = EventLog::new();
    let tasks = Arc::new(TaskTable::new());
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let port = tasks.clone();
    let caller = TestCaller::new()
        .tool(slow)
        .engine(|engine| engine.events(log.clone()).ports(|ports| ports.tasks = Some(port)));
    let turn = caller.start([("1", "slow", "{}")]);
    let call = handle.started().await;
    let task = turn.handle().detach(0).unwrap().task;
    turn.results().await.check(["1 ok: slow goes on in the background as task-1; its result is kept there"]);
    call.succeed("late");
    let_tasks_run().await;
    assert_eq!(tasks.result(task).unwrap().to_json().output, "late");
    let finished = log.lines().iter().filter(|line| *line == "1 finished").count();
    let overflows = overflows.load(Ordering::SeqCst);
    assert_eq!((finished, overflows), (1, 0), "one result: {:?}", log.lines());
}

/// The watch over a call's time ends only after the hooks behind it, so a slow hook turns a success into a
/// time-out.
#[tokio::test(start_paused = true)]
async fn a_slow_hook_after_a_call_does_not_make_it_late() {
    struct Slow;
    impl PostHook for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn after<'a>(
            &'a self,
            _: &'a HookCall<'a>,
            _: &'a ToolResult,
        ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok(PostHookResponse::default())
            })
        }
    }
    let (quick, _) = scripted_tool("quick")
        .effects(|_| Effects::none())
        .with(|tool| tool.timeout_ms(1_000))
        .then("text")
        .build();
    let caller = TestCaller::new().tool(quick).engine(|engine| engine.hooks(HookSet::new().after(Slow)));
    let result = caller.call("quick", "{}").await;
    assert_eq!(result.error_kind(), None, "the tool was in time");
}

/// A builder can be inspected and cloned before it is built, and the end of one engine doesn't cancel another
/// one that was built from the same builder.
#[tokio::test]
async fn engines_of_one_builder_end_separately() {
    let builder = haft::Engine::builder(Registry::new().with(reader("read")).unwrap());
    assert_eq!(builder.snapshot().offers().len(), 1);
    let other = builder.clone().build();
    let engine = builder.max_concurrency(2).build();
    assert_eq!(engine.session_id(), other.session_id());
    other.shutdown(haft::Cause::Shutdown);
    drop(other);
    let results = engine.turn().run([haft::ToolCall::new("1", "read", "{}")]).await;
    assert_eq!(results[0].error_kind(), None, "{:?}", results[0]);
}

/// Clones share a session only if they were made after the first turn; else the first to go ends the other.
#[tokio::test]
async fn a_clone_of_an_engine_may_go_first() {
    let engine = haft::Engine::new(Registry::new().with(reader("read")).unwrap());
    let other = engine.clone();
    let call = || [haft::ToolCall::new("1", "read", "{}")];
    assert_eq!(engine.turn().run(call()).await[0].error_kind(), None);
    assert_eq!(other.turn().run(call()).await[0].error_kind(), None);
    drop(other);
    let results = engine.turn().run(call()).await;
    assert_eq!(results[0].error_kind(), None, "{:?}", results[0]);
}

/// A task in the background holds its turn, and the turn holds the engine, so nothing ever ends it.
#[tokio::test]
async fn a_background_task_ends_with_its_engine() {
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new()
        .tool(slow)
        .engine(|engine| engine.ports(|ports| ports.tasks = Some(Arc::new(TaskTable::new()))));
    let turn = caller.start([("1", "slow", "{}")]);
    let call = handle.started().await;
    turn.handle().detach(0).unwrap();
    turn.results().await;
    drop(caller);
    let_tasks_run().await;
    assert!(call.is_dropped(), "it ends with its engine");
}

/// A rule, a tool or a hook that asks is heard before the mode, which then asks although it promises not to.
#[tokio::test]
async fn a_mode_that_does_not_ask_asks_nobody() {
    async fn check(rules: PermissionRules, opinion: Option<DecisionReason>, hook: Option<DecisionReason>) {
        let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
        let hook = TestHook::new("h")
            .on_before(move |_| Ok(PreHookResponse { decision: hook.clone(), ..PreHookResponse::default() }));
        let tool = changer("t").permission(move |_| opinion.clone());
        let rules = rules.mode(PermissionMode::DontAsk);
        let caller = TestCaller::new().tool(tool).engine(|engine| {
            engine.permissions(rules).asker(asker.clone()).hooks(HookSet::new().before(hook))
        });
        let result = caller.call("t", "{}").await;
        assert!(asker.approvals().is_empty(), "nobody is asked");
        assert_eq!(result.error_kind(), Some(ErrorKind::Denied));
    }
    check(PermissionRules::new(), None, None).await;
    check(PermissionRules::new().ask("t").unwrap(), None, None).await;
    check(PermissionRules::new().allow("t").unwrap(), Some(DecisionReason::ask("mind")), None).await;
    check(PermissionRules::new().allow("t").unwrap(), None, Some(DecisionReason::ask("mind"))).await;
}

/// A path that can't be resolved is in no list, so nothing is found outside and a rule by name allows it.
#[tokio::test]
async fn a_path_that_leads_nowhere_is_refused_whatever_the_rules_say() {
    let dir = Dir::new();
    dir.folder("w");
    dir.link("w/loop", "loop");
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let rules = PermissionRules::new().allow("t").unwrap();
    let caller = caller_in(&dir, any(plain("t", Effects::writes("loop/x"))), rules);
    let caller = caller.engine(|engine| engine.asker(asker.clone()));
    let result = caller.call("t", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::Failed));
    assert!(asker.approvals().is_empty(), "no answer would make it possible");
}

/// A protected place that doesn't exist yet is kept as it was written, links and all.
#[tokio::test]
async fn a_protected_place_need_not_exist_yet() {
    let dir = Dir::new();
    dir.folder("w/config");
    dir.link("config", "w/config");
    let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let check = async |workspace: Workspace, protected: bool| {
        let caller = TestCaller::new()
            .tool(plain("t", Effects::writes("config/settings.json")))
            .engine(|engine| engine.workspace(workspace).permissions(rules.clone()));
        let denied = caller.call("t", "{}").await.error_kind() == Some(ErrorKind::Denied);
        assert_eq!(denied, protected, "it is protected");
    };
    check(dir.workspace().with_protected(dir.path("w/config/settings.json")), true).await;
    check(dir.workspace().with_protected(dir.path("w/config/other.json")), false).await;
    check(dir.workspace().with_protected(dir.path("config/settings.json")), true).await;
}

/// A relative protected place protects nothing.
#[tokio::test]
async fn a_protected_place_may_be_relative() {
    let dir = Dir::new();
    let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let workspace = dir.workspace().with_protected("no/such/settings.json");
    let caller = TestCaller::new()
        .tool(plain("t", Effects::writes("no/such/settings.json")))
        .engine(|engine| engine.workspace(workspace).permissions(rules));
    assert_eq!(caller.call("t", "{}").await.error_kind(), Some(ErrorKind::Denied), "it is protected");
}

/// Panics when it is dropped.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Grenade {
    #[expect(dead_code, reason = "dropping it is what matters")]
    #[serde(default)]
    n: u8,
}

impl Drop for Grenade {
    fn drop(&mut self) {
        // Twice at once would end the process.
        if !std::thread::panicking() {
            panic!("secret words");
        }
    }
}

struct Thrower {
    opinion: Option<DecisionReason>,
}

impl Tool for Thrower {
    type Input = Grenade;
    type Output = &'static str;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("thrower")
    }

    fn effects(&self, _: &Grenade) -> Effects {
        Effects::writes_state("s")
    }

    async fn permission(&self, _: &Grenade, _: &Context) -> Option<DecisionReason> {
        self.opinion.clone()
    }

    async fn call(&self, input: Grenade, _: &Context) -> Result<&'static str, ToolError> {
        std::mem::forget(input);
        Ok("held")
    }
}

/// An input that a rewrite replaces is dropped outside of any guard, and the call is answered as if the
/// session ended.
#[tokio::test]
async fn an_input_that_panics_when_it_is_replaced_is_answered_in_its_own_words() {
    let hook = TestHook::new("rewrites").on_before(|_| Ok(PreHookResponse::rewrite(json!({"n": 1}))));
    let caller = TestCaller::new()
        .tool(Thrower { opinion: Some(DecisionReason::allow()) })
        .tool(reader("read"))
        .engine(|engine| engine.hooks(HookSet::new().before(hook)));
    let results = caller.turn([("1", "thrower", "{}"), ("2", "read", "{}")]).await;
    assert_eq!(results[1].error_kind(), None);
    let kind = results[0].error_kind();
    assert!(matches!(kind, None | Some(ErrorKind::Panicked)), "its own words: {results:?}");
}

/// And one of a call that never begins: under the board's lock, and in the task of whoever stops it.
#[tokio::test]
async fn stopping_a_turn_runs_no_code_of_a_tool() {
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::writes_state("s")).build();
    let rules = PermissionRules::new().allow("slow").unwrap();
    let caller = TestCaller::new()
        .tool(slow)
        .tool(Thrower { opinion: Some(DecisionReason::allow()) })
        .tool(reader("read"))
        .engine(|engine| engine.permissions(rules));
    let turn = caller.start([("1", "slow", "{}"), ("2", "thrower", "{}"), ("3", "read", "{}")]);
    let _call = handle.started().await;
    turn.handle().cancel(Cause::User);
    let results = turn.results().await;
    assert!(results.iter().all(|result| result.error_kind() == Some(ErrorKind::Cancelled)));
}

/// A hook's own facts are asked outside of any guard; the call is then answered as if the session ended.
#[tokio::test]
async fn a_hook_that_panics_when_asked_for_its_facts_has_failed() {
    struct Shaky;
    impl PreHook for Shaky {
        fn name(&self) -> &str {
            "shaky"
        }
        fn before<'a>(&'a self, _: &'a HookCall<'a>) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
            Box::pin(std::future::ready(Ok(PreHookResponse::go_on())))
        }
        fn timeout(&self) -> Duration {
            panic!("secret words")
        }
    }
    let caller =
        TestCaller::new().tool(reader("read")).engine(|engine| engine.hooks(HookSet::new().before(Shaky)));
    let result = caller.call("read", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::HookFailed), "a hook failed: {result:?}");
}

/// The cause of an error is foreign too, and an attempt that failed is dropped outside of any guard.
#[tokio::test(start_paused = true)]
async fn an_error_whose_source_panics_when_it_is_dropped_is_only_an_error() {
    #[derive(Debug)]
    struct Source;
    impl std::fmt::Display for Source {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("source")
        }
    }
    impl std::error::Error for Source {}
    impl Drop for Source {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("secret words");
            }
        }
    }
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let flaky = haft::dynamic_tool("flaky", "Fails once.", json!({"type": "object"}), move |_, _| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first { Err(ToolError::new("busy").retryable().with_source(Source)) } else { Ok("there") }
        }
    });
    let caller = TestCaller::new().tool(flaky.effects(|_| Effects::none()).retry(RetryPolicy::up_to(2)));
    let result = caller.call("flaky", "{}").await;
    assert!(
        matches!(result.error_kind(), None | Some(ErrorKind::Panicked)),
        "one result, its own: {result:?}"
    );
}

/// The budget is measured with the notes of hooks and then kept without them.
#[tokio::test]
async fn notes_count_towards_the_budget() {
    let hook = TestHook::new("chatty").on_after(|_, _| {
        Ok(PostHookResponse { context: vec!["x".repeat(9_000)], ..PostHookResponse::default() })
    });
    let caller = TestCaller::new()
        .tool(reader("read"))
        .engine(|engine| engine.turn_budget(5_000).hooks(HookSet::new().after(hook)));
    let results = caller.turn([("1", "read", "{}"), ("2", "read", "{}")]).await;
    let chars: usize =
        results.iter().flat_map(ToolResult::for_model).map(|block| block.to_text().len()).sum();
    assert!(chars <= 5_000, "within the budget: {chars}");
}

/// Two outside tools of one name: the second is offered with a suffix, and spoken of without it.
#[tokio::test]
async fn a_model_is_told_the_name_that_it_knows() {
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]});
    let send = || any(haft::dynamic_tool("send", "Sends.", schema.clone(), |_, _| async { Ok("sent") }));
    let caller = TestCaller::new().external("a", send()).external("b", send());
    let snapshot = caller.as_engine().snapshot();
    let name = snapshot.offers()[1].name();
    let result = caller.call(name, "{}").await;
    let words = result.error().unwrap().message();
    assert!(words.ends_with(&format!("call {name} again")), "the name it was called by: {words}");
}

/// And a rule that names it as it is listed says nothing of it.
#[tokio::test]
async fn a_rule_for_the_name_under_which_a_tool_is_offered_holds() {
    let registry = Registry::new()
        .with_external("a", reader("send"))
        .unwrap()
        .with_external("b", reader("send"))
        .unwrap();
    let name =
        TestCaller::with_registry(registry.clone()).as_engine().snapshot().offers()[1].name().to_owned();
    let rules = PermissionRules::new().deny(&name).unwrap();
    let caller = TestCaller::with_registry(registry).engine(|engine| engine.permissions(rules));
    assert_eq!(caller.call("send", "{}").await.error_kind(), None);
    assert_eq!(caller.call(&name, "{}").await.error_kind(), Some(ErrorKind::Denied), "the rule holds");
}

/// A yes for the session about a path outside is kept as a yes to the tool: too little there, too much
/// inside.
#[tokio::test]
async fn a_yes_for_the_session_is_for_what_was_asked() {
    let dir = Dir::new();
    let tool = plain("t", Effects::none()).effects(|args| Effects::writes(args["path"].as_str().unwrap()));
    let asker = ScriptedAsker::new()
        .then(ApprovalAnswer::Session)
        .then(ApprovalAnswer::Once)
        .then(ApprovalAnswer::Once);
    let caller =
        caller_in(&dir, any(tool), PermissionRules::new()).engine(|engine| engine.asker(asker.clone()));
    for _ in 0..2 {
        assert_eq!(caller.call("t", json!({"path": "../outside"})).await.error_kind(), None);
    }
    assert_eq!(asker.approvals().len(), 1, "asked about once");
    caller.call("t", json!({"path": "inside"})).await;
    assert_eq!(asker.approvals().len(), 2, "and never about this one");
}

/// Judged again after waiting, a call is judged without what the hooks decided.
#[tokio::test]
async fn what_a_hook_decided_holds_when_a_call_is_judged_again() {
    let dir = Dir::new();
    for place in ["a", "b", "c"] {
        dir.file(&format!("w/{place}/x"), place);
    }
    dir.link("w/link", "a");
    let (write, handle) = scripted_tool("write").effects(|_| Effects::writes("b/x")).build();
    let hook = TestHook::new("asks").on_before(|call| {
        Ok(if call.tool == "look" {
            PreHookResponse::decide(DecisionReason::ask("a hook says so"))
        } else {
            PreHookResponse::go_on()
        })
    });
    let asker = ScriptedAsker::waiting();
    let rules = PermissionRules::new().allow("write").unwrap();
    let workspace = dir.workspace();
    let caller =
        TestCaller::new().tool(write).tool(plain("look", Effects::reads("link/x"))).engine(|engine| {
            engine
                .workspace(workspace)
                .permissions(rules)
                .asker(asker.clone())
                .hooks(HookSet::new().before(hook))
                .schedule(ConflictRule::Effects)
        });
    let turn = caller.start([("1", "write", "{}"), ("2", "look", "{}")]);
    let writing = handle.started().await;
    // While the user thinks, the link moves to where the first call writes: asked again, then it has to wait.
    let asked = asker.asked().await;
    dir.link("w/link", "b");
    asked.answer(ApprovalAnswer::Once);
    asker.asked().await.answer(ApprovalAnswer::Once);
    let_tasks_run().await;
    // While it waits the link moves once more: judged again, when the first is done.
    dir.link("w/link", "c");
    writing.succeed("written");
    let_tasks_run().await;
    let asked = asker.try_asked().expect("the hook still asks");
    asked.answer(ApprovalAnswer::Once);
    turn.results().await.check(["1 ok: written", "2 ok: done"]);
}

/// A tool that says it asks the user is run where there is none, unless its spec says so too.
#[tokio::test]
async fn a_call_that_asks_the_user_does_not_run_without_one() {
    let caller = TestCaller::new().tool(plain("t", Effects::asks_user()));
    assert_eq!(caller.call("t", "{}").await.error_kind(), Some(ErrorKind::NotInteractive), "nobody is there");
}

/// The event is made before it is known whether the call ran beside others.
#[tokio::test]
async fn an_event_says_what_the_result_says() {
    let log = EventLog::new();
    let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(read).engine(|engine| engine.events(log.clone()));
    let turn = caller.start([("1", "read", "{}"), ("2", "read", "{}")]);
    let (first, second) = (handle.started().await, handle.started().await);
    first.succeed("one");
    second.succeed("two");
    let results = turn.results().await;
    let mut told: VecDeque<bool> = log
        .events()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Finished(result) => Some(result.was_concurrent()),
            _ => None,
        })
        .collect();
    for result in results.iter() {
        let event = told.pop_front().unwrap();
        assert_eq!(event, result.was_concurrent(), "the event says what the result says");
    }
}

/// Calls that are stopped before they begin get a result and no event.
#[tokio::test]
async fn a_call_that_never_began_is_told_of_too() {
    let log = EventLog::new();
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::writes_state("s")).build();
    let rules = PermissionRules::new().allow("slow").unwrap();
    let caller = TestCaller::new().tool(slow).engine(|engine| engine.permissions(rules).events(log.clone()));
    let turn = caller.start([("1", "slow", "{}"), ("2", "slow", "{}")]);
    let _call = handle.started().await;
    turn.handle().cancel(Cause::User);
    turn.results().await;
    let finished = log.lines().iter().filter(|line| line.ends_with("finished: Cancelled")).count();
    assert_eq!(finished, 2, "every call is told of: {:?}", log.lines());
}

/// The recorder hears of results of calls whose intent it refused, and its panic is kept from everybody.
#[tokio::test]
async fn the_recorder_hears_the_results_of_what_it_took() {
    let recorder = MemoryRecorder::new();
    recorder.refuse("disk full");
    let port = Arc::new(recorder.clone());
    let caller = TestCaller::new()
        .tool(reader("read"))
        .engine(|engine| engine.ports(|ports| ports.recorder = Some(port)));
    assert_eq!(caller.call("read", "{}").await.error_kind(), None);
    assert_eq!(recorder.lines(), [""; 0], "only what it took");
}

/// Time spent waiting for a file that another agent writes counts as time that the tool ran.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_lock_is_not_running() {
    let dir = Dir::new();
    let write = |name: &str| scripted_tool(name).effects(|_| Effects::writes("a"));
    let (slow, slow_handle) = write("slow").with(|tool| tool.timeout(haft::tool::CallTimeout::Never)).build();
    let (quick, quick_handle) = write("quick").with(|tool| tool.timeout_ms(1_000)).build();
    let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let workspace = dir.workspace();
    let caller = TestCaller::new()
        .tool(slow)
        .tool(quick)
        .engine(|engine| engine.workspace(workspace).permissions(rules));
    let first = caller.start([("1", "slow", "{}")]);
    let holding = slow_handle.started().await;
    let second = caller.start([("2", "quick", "{}")]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!second.is_finished(), "it never had the file, so it can't be late");
    holding.succeed("one");
    quick_handle.started().await.succeed("two");
    first.results().await.check(["1 ok: one"]);
    second.results().await.check(["2 ok: two"]);
}

/// A hook that panics in `name` while its failure is being reported takes the report with it.
#[tokio::test]
async fn a_hook_after_a_call_that_panics_in_its_name_loses_nothing() {
    struct Nameless;
    impl PostHook for Nameless {
        fn name(&self) -> &str {
            panic!("secret words")
        }
        fn after<'a>(
            &'a self,
            _: &'a HookCall<'a>,
            _: &'a ToolResult,
        ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
            Box::pin(std::future::ready(Err(HookError::new("exit 3"))))
        }
    }
    let log = EventLog::new();
    let hooks = HookSet::new().after(Nameless);
    let caller =
        TestCaller::new().tool(reader("read")).engine(|engine| engine.hooks(hooks).events(log.clone()));
    let result = caller.call("read", "{}").await;
    assert_eq!(result.error_kind(), None, "the result stays: {result:?}");
}

/// A call that was answered no was first given its result and then ended the turn. Between the two another
/// call that ended let the next one go, and what changes something runs to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nothing_begins_after_a_bare_no() {
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Holds the end of call 1 up until call 3 has begun, or for a while.
    struct Holds(Mutex<Sender<()>>, Mutex<Receiver<()>>);
    impl haft::event::EventSink for Holds {
        fn send(&self, event: haft::event::Event) {
            let about = |id: &str| event.call.as_ref().is_some_and(|call| &*call.id == id);
            if about("1") && matches!(event.what, EventKind::Finished(_)) {
                let _ = self.0.lock().unwrap().send(());
                let _ = self.1.lock().unwrap().recv_timeout(Duration::from_millis(300));
            }
        }
    }
    let (reached, at_end) = channel();
    let (began, wait) = channel();
    let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    let write = haft::dynamic_tool("write", "Changes something.", json!({"type": "object"}), move |_, _| {
        let _ = began.send(());
        std::future::ready(Ok("written"))
    });
    let asker = ScriptedAsker::waiting();
    let rules = PermissionRules::new().allow("write").unwrap();
    let caller = TestCaller::new()
        .tool(plain("look", Effects::observes("x.io")))
        .tool(read)
        .tool(write.effects(|_| Effects::writes_state("s")))
        .engine(|engine| {
            let sink = Holds(Mutex::new(reached), Mutex::new(wait));
            engine.asker(asker.clone()).permissions(rules).events(sink)
        });
    let mut turn = caller.start([("1", "look", "{}"), ("2", "read", "{}"), ("3", "write", "{}")]);
    let asked = turn.meanwhile(asker.asked()).await;
    let reading = turn.meanwhile(handle.started()).await;
    asked.answer(ApprovalAnswer::No);
    tokio::task::spawn_blocking(move || at_end.recv()).await.unwrap().unwrap();
    reading.succeed("text");
    turn.results().await.check([
        "1 Rejected: the user said no to look and ended the turn; wait for what they say",
        "2 ok: text",
        "3 Cancelled: write was not run; cancelled: the user interrupted this turn",
    ]);
}

/// A thread said that its call was over before it said that it was over itself, and counted as given up in
/// between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_ends_in_time_was_never_given_up() {
    let quick = plain("quick", Effects::none()).blocking();
    let caller = TestCaller::new().tool(quick);
    for _ in 0..500 {
        assert_eq!(caller.call("quick", "{}").await.error_kind(), None);
        assert_eq!(caller.as_engine().abandoned_threads(), 0);
    }
}
