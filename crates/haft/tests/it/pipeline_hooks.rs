//! Hooks around a call: what they see, what they decide, and that a failing one refuses the call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::decision::{Decision, DecisionReason};
use haft::future::BoxFuture;
use haft::hooks::{HookCall, HookSet, PostHookResponse, PreHookResponse};
use haft::ports::{
    ApprovalAnswer, AuthorizationRequest, Authorizer, CallIntent, RecordError, Recorder, RefusedCall,
};
use haft::testing::{EventLog, HookInvocation, ScriptedAsker, TestCaller, TestHook, scripted_tool};
use haft::tool::{AnyTool, GuardDenied};
use haft::{
    Cause, Effects, EngineBuilder, ErrorKind, PermissionRules, ResultBlock, ToolError, ToolOutput, ToolResult,
};
use serde_json::json;

use crate::{any, plain, reader};

/// Rules from a function.
pub(crate) struct Rules<F>(pub(crate) F);

impl<F: Fn(&AuthorizationRequest<'_>) -> Vec<DecisionReason> + Send + Sync + 'static> Authorizer
    for Rules<F>
{
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        (self.0)(request)
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

/// Two hooks decide on a call that would run by itself (`read`) or ask (`write`): the stricter counts, in any
/// order.
#[tokio::test]
async fn the_strictest_decision_of_the_hooks_counts() {
    fn decision(word: &str) -> Option<DecisionReason> {
        match word {
            "-" => None,
            "allow" => Some(DecisionReason::allow()),
            "ask" => Some(DecisionReason::ask("a hook says so")),
            "deny" => Some(DecisionReason::deny("a hook says so")),
            "block" => None,
            other => panic!("no decision `{other}`"),
        }
    }
    async fn one(tool: &str, first: &str, second: &str, expected: &str) {
        let hook = |name: &'static str, word: &str| {
            let decision = decision(word);
            let blocked = (word == "block").then(|| "a hook says so".to_owned());
            let before = move || PreHookResponse {
                decision: decision.clone(),
                blocked: blocked.clone(),
                ..PreHookResponse::default()
            };
            TestHook::new(name).on_before(move |_| Ok(before()))
        };
        let hooks = HookSet::new().before(hook("first", first)).before(hook("second", second));
        let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
        let caller = TestCaller::new()
            .tool(reader("read"))
            .tool(plain("write", Effects::changes("x.io")))
            .engine(|engine| engine.hooks(hooks).asker(asker.clone()));
        let result = caller.call(tool, "{}").await;
        let asked = if asker.approvals().is_empty() { "" } else { "asks, " };
        let came = result.error_kind().map_or("runs".to_owned(), |kind| format!("{kind:?}"));
        assert_eq!(format!("{asked}{came}"), expected, "{tool}: {first}, {second}");
    }
    async fn check(tool: &str, first: &str, second: &str, expected: &str) {
        one(tool, first, second, expected).await;
        one(tool, second, first, expected).await;
    }
    check("read", "-", "-", "runs").await;
    check("read", "-", "ask", "asks, runs").await;
    check("read", "-", "deny", "Denied").await;
    check("write", "-", "-", "asks, runs").await;
    check("write", "-", "allow", "runs").await;
    check("write", "allow", "ask", "asks, runs").await;
    check("write", "allow", "deny", "Denied").await;
    check("write", "ask", "deny", "Denied").await;
    check("write", "ask", "block", "Blocked").await;
}

#[tokio::test]
async fn a_hook_that_allows_lifts_no_rule() {
    async fn check(rules: PermissionRules, opinion: Option<DecisionReason>, expected: &[&str]) {
        let hook = TestHook::new("kind").on_before(|_| Ok(PreHookResponse::decide(DecisionReason::allow())));
        let asker = ScriptedAsker::new().then(ApprovalAnswer::NoBecause("asked".into()));
        let write = plain("write", Effects::changes("x.io")).permission(move |_| opinion.clone());
        let caller = TestCaller::new()
            .tool(write)
            .engine(|engine| engine.permissions(rules).asker(asker).hooks(HookSet::new().before(hook)));
        caller.turn([("1", "write", "{}")]).await.check(expected.iter().copied());
    }
    check(PermissionRules::new(), None, &["1 ok: done"]).await;
    let asked = "1 Rejected: the user said no to write: asked";
    check(PermissionRules::new().ask("write").unwrap(), None, &[asked]).await;
    check(PermissionRules::new(), Some(DecisionReason::ask("mind")), &[asked]).await;
    check(
        PermissionRules::new(),
        Some(DecisionReason::deny("no")),
        &["1 Denied: write refuses this call: no"],
    )
    .await;
}

/// A failing hook stops the call, and what is said is that a hook failed.
#[tokio::test(start_paused = true)]
async fn hooks_before_a_call_fail_closed() {
    async fn check(hook: TestHook, how: &str) {
        let log = EventLog::new();
        let run = async |hook: TestHook| {
            let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).then("text").build();
            let caller = TestCaller::new()
                .tool(read)
                .engine(|engine| engine.hooks(HookSet::new().before(hook)).events(log.clone()));
            (caller.turn([("1", "read", "{}")]).await, handle.calls())
        };
        let (results, calls) = run(hook.clone()).await;
        let words = format!(
            "1 HookFailed: read was not run: hook `audit` failed ({how}); this is a fault of the hook, not a denial"
        );
        results.check([words.as_str()]);
        assert_eq!(calls, 0);
        assert_eq!(log.warnings(), [""; 0]);

        let (results, calls) = run(hook.continuing()).await;
        results.check(["1 ok: text"]);
        assert_eq!(calls, 1);
        assert_eq!(log.warnings(), [format!("hook `audit` failed, and the call goes on: {how}")]);
    }
    let hook = || TestHook::new("audit");
    check(hook().failing("exit code 3"), "exit code 3").await;
    check(hook().panicking(), "it panicked").await;
    check(hook().hanging().timeout(Duration::from_millis(1_500)), "it took longer than 1.5 s").await;
}

/// Whatever stops a call before step 5 is a reason of its decision, in the result and for the recorder.
#[tokio::test(start_paused = true)]
async fn refusals_by_hooks_and_guards_carry_a_decision() {
    #[derive(Default)]
    struct Refusals(Mutex<Vec<String>>);

    impl Recorder for Refusals {
        fn before<'a>(&'a self, _: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
            panic!("no call runs")
        }

        fn after<'a>(
            &'a self,
            _: &'a CallIntent<'a>,
            _: &'a ToolResult,
        ) -> BoxFuture<'a, Result<(), RecordError>> {
            panic!("no call runs")
        }

        fn refused(&self, refused: &RefusedCall<'_>) {
            self.0.lock().unwrap().push(shown(refused.decision));
        }
    }

    fn shown(decision: Option<&Decision>) -> String {
        let Some(decision) = decision else { return "none".to_owned() };
        let Decision { verdict, source, .. } = decision;
        let reads = decision.effects.resolved.reads.len();
        format!("{verdict} by {source:?}: {}; {reads} path", decision.reason().unwrap())
    }

    async fn check(
        change: impl FnOnce(EngineBuilder) -> EngineBuilder,
        guard: Option<&'static str>,
        expected: &str,
    ) {
        let (recorder, place) = (Arc::new(Refusals::default()), std::env::temp_dir().join("x"));
        let port = recorder.clone();
        let mut read = any(reader("t").effects(move |_| Effects::reads(&place)));
        if let Some(why) = guard {
            let place = std::env::temp_dir().join("x");
            let tool = reader("t").effects(move |_| Effects::reads(&place));
            read = any(tool.guard(move |_, _| async move { Err(GuardDenied(why.into())) }));
        }
        let caller = TestCaller::new()
            .tool(read)
            .engine(|engine| change(engine.ports(|ports| ports.recorder = Some(port))));
        let results = caller.turn([("1", "t", "{}")]).await;
        let decision = results[0].error().unwrap().decision();
        assert_eq!(shown(decision), expected);
        assert_eq!(*recorder.0.lock().unwrap(), [expected]);
    }
    let before = |hook: TestHook| |engine: EngineBuilder| engine.hooks(HookSet::new().before(hook));
    let says = |before: PreHookResponse| TestHook::new("h").on_before(move |_| Ok(before.clone()));
    let why = "deny by Hook: t was blocked by hook `h`: no; 1 path";
    check(before(says(PreHookResponse::block("no"))), None, why).await;
    let why = "deny by Hook: denied by hook `h`: no; 1 path";
    check(before(says(PreHookResponse::decide(DecisionReason::deny("no")))), None, why).await;
    let why = "deny by Hook: t was not run: hook `h` ended the turn: enough; 1 path";
    let stop = PreHookResponse { stop: Some("enough".into()), ..PreHookResponse::default() };
    check(before(says(stop)), None, why).await;
    let why = "deny by Failure: t was not run: hook `h` failed (exit code 3); this is a fault of the hook, not a \
               denial; 1 path";
    check(before(TestHook::new("h").failing("exit code 3")), None, why).await;
    let why = "deny by Tool: it is blocked by one of its guards: not here; 1 path";
    check(|engine| engine, Some("not here"), why).await;
    let rewritten = AtomicUsize::new(0);
    let rewrites = move |_: &HookCall<'_>| {
        Ok(PreHookResponse::rewrite(json!({"n": rewritten.fetch_add(1, Ordering::Relaxed)})))
    };
    let why = "deny by Failure: the input of t was rewritten 3 times and is still not settled; this call was \
               stopped; 1 path";
    check(before(TestHook::new("h").on_before(rewrites)), None, why).await;
}

#[tokio::test(start_paused = true)]
async fn permission_hooks_answer_for_the_user_and_fail_closed() {
    async fn check(hook: TestHook, expected: &str) {
        let asker = ScriptedAsker::new().then(ApprovalAnswer::NoBecause("asked".into()));
        let caller = TestCaller::new()
            .tool(plain("write", Effects::changes("x.io")))
            .tool(reader("read"))
            .engine(|engine| engine.asker(asker.clone()).hooks(HookSet::new().permission(hook.clone())));
        let results = caller.turn([("1", "read", "{}"), ("2", "write", "{}")]).await;
        results.check(["1 ok: done", expected]);
        assert_eq!(hook.lines(), ["permission write"], "it is asked only where the user would be");
        let HookInvocation::Permission { reason, .. } = &hook.invocations()[0] else {
            panic!("a permission hook")
        };
        assert_eq!(reason, "it changes x.io");
    }
    let says = |decision: Option<DecisionReason>| {
        TestHook::new("gate").on_permission(move |_, _| Ok(decision.clone()))
    };
    let asked = "2 Rejected: the user said no to write: asked";
    check(says(None), asked).await;
    check(says(Some(DecisionReason::ask("still"))), asked).await;
    check(says(Some(DecisionReason::allow())), "2 ok: done").await;
    check(says(Some(DecisionReason::deny("no"))), "2 Denied: denied by a permission hook: no").await;
    let failed = |how: &str| {
        format!(
            "2 HookFailed: write was not run: permission hook `gate` failed ({how}); this is a fault of the hook, \
             not a denial"
        )
    };
    check(TestHook::new("gate").failing("exit code 3"), &failed("exit code 3")).await;
    check(TestHook::new("gate").panicking(), &failed("it panicked")).await;
    let hangs = TestHook::new("gate").hanging().timeout(Duration::from_secs(2));
    check(hangs, &failed("it took longer than 2 s")).await;
}

#[tokio::test]
async fn hooks_see_what_the_hooks_before_them_made_and_may_inject_words() {
    let first = TestHook::new("first").on_before(|call| {
        let mut input = call.input.clone();
        input["stamp"] = json!(1);
        Ok(PreHookResponse {
            input: Some(input),
            context: vec!["stamped".into()],
            ..PreHookResponse::default()
        })
    });
    let second = TestHook::new("second").on_before(|_| Ok(PreHookResponse::with_context("seen")));
    let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    let hooks = HookSet::new().before(first).before(second.clone());
    let caller = TestCaller::new().tool(read).engine(|engine| engine.hooks(hooks));
    let turn = caller.start([("1", "read", json!({"a": 1}))]);
    let call = handle.started().await;
    assert_eq!(call.input(), &json!({"a": 1, "stamp": 1}));
    call.succeed("text");
    // Injected words come once, although the hooks ran for both versions of the input.
    let results = turn.results().await;
    results.check(["1 ok: text\nnote: stamped\nnote: seen"]);
    let blocks = [ResultBlock::text("text"), ResultBlock::text("stamped"), ResultBlock::text("seen")];
    assert_eq!(results[0].for_model(), blocks);
    let HookInvocation::Before { input, .. } = &second.invocations()[0] else { panic!("a hook before") };
    assert_eq!(input, &json!({"a": 1, "stamp": 1}));
}

/// Whatever 6 comes to, 7 sees it and can't lose it.
#[tokio::test(start_paused = true)]
async fn hooks_after_a_call_see_every_outcome_and_lose_none() {
    enum Tool {
        Succeeds,
        Fails,
        Panics,
        TimesOut,
    }
    async fn check(tool: Tool, hook: TestHook, expected: &str) -> Vec<String> {
        let log = EventLog::new();
        // A panic prints a backtrace, which takes seconds on a busy machine.
        let timeout_ms = if matches!(tool, Tool::TimesOut) { 1_000 } else { 60_000 };
        let (t, handle) =
            scripted_tool("t").effects(|_| Effects::none()).with(|tool| tool.timeout_ms(timeout_ms)).build();
        let caller = TestCaller::new()
            .tool(t)
            .engine(|engine| engine.hooks(HookSet::new().after(hook.clone())).events(log.clone()));
        let turn = caller.start([("1", "t", "{}")]);
        let call = handle.started().await;
        match tool {
            Tool::Succeeds => call.succeed("text"),
            Tool::Fails => call.fail(ToolError::new("wrong")),
            Tool::Panics => call.panic(),
            Tool::TimesOut => {}
        }
        turn.results().await.check([expected]);
        assert_eq!(hook.lines(), ["after t"]);
        log.warnings()
    }
    let note = || {
        TestHook::new("note").on_after(|_, result| {
            let kind = result.error_kind().map_or("success".to_owned(), |kind| format!("{kind:?}"));
            Ok(PostHookResponse { context: vec![format!("saw {kind}")], ..PostHookResponse::default() })
        })
    };
    check(Tool::Succeeds, note(), "1 ok: text\nnote: saw success").await;
    check(Tool::Fails, note(), "1 Failed: wrong\nnote: saw Failed").await;
    let panicked =
        "1 Panicked: t panicked: this is a fault of the tool, not of your input; its result is lost";
    check(Tool::Panics, note(), &format!("{panicked}\nnote: saw Panicked")).await;
    let late = "1 TimedOut: t was stopped: it did not finish within 1 s; the user did not interrupt. Ask for less at once";
    check(Tool::TimesOut, note(), &format!("{late}\nnote: saw TimedOut")).await;

    let replace = || {
        let output = ToolOutput::new(vec![ResultBlock::text("other")]);
        TestHook::new("replace").on_after(move |_, _| {
            Ok(PostHookResponse { output: Some(output.clone()), ..PostHookResponse::default() })
        })
    };
    check(Tool::Succeeds, replace(), "1 ok: other").await;
    check(Tool::Fails, replace(), "1 Failed: wrong").await;

    let bad = || TestHook::new("bad");
    let warned = |how: &str| [format!("hook `bad` failed after t: {how}")];
    assert_eq!(check(Tool::Succeeds, bad().failing("exit 3"), "1 ok: text").await, warned("exit 3"));
    assert_eq!(check(Tool::Succeeds, bad().panicking(), "1 ok: text").await, warned("it panicked"));
    assert_eq!(check(Tool::Fails, bad().panicking(), "1 Failed: wrong").await, warned("it panicked"));
    let hangs = bad().hanging().timeout(Duration::from_millis(500));
    assert_eq!(check(Tool::Succeeds, hangs, "1 ok: text").await, warned("it took longer than 0.5 s"));
}

#[tokio::test]
async fn a_call_that_never_ran_has_no_hooks_after_it() {
    let hook = TestHook::new("after");
    let caller = TestCaller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.hooks(HookSet::new().after(hook.clone())));
    assert_eq!(caller.call("t", "{}").await.error_kind(), Some(ErrorKind::Denied));
    assert_eq!(caller.call("t", "[]").await.error_kind(), Some(ErrorKind::InvalidInput));
    assert_eq!(hook.lines(), [""; 0]);
}

/// Hooks on a denial see it and may say something; a user's no is none of theirs.
#[tokio::test]
async fn hooks_see_denials() {
    let hook = TestHook::new("d").on_denied(|_, reason| {
        assert!(reason.starts_with("write was denied"), "{reason}");
        Ok(PostHookResponse {
            context: vec!["ask the owner".into()],
            stop: Some("enough".into()),
            ..PostHookResponse::default()
        })
    });
    let (write, calls) = scripted_tool("write").effects(|_| Effects::writes("x")).build();
    let with = |asker: Option<ScriptedAsker>| {
        let hooks = HookSet::new().denied(hook.clone());
        TestCaller::new().tool(write.clone()).engine(|engine| match asker {
            Some(asker) => engine.hooks(hooks).asker(asker),
            None => engine.hooks(hooks),
        })
    };
    let results = with(None).turn([("1", "write", json!({}))]).await;
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Denied));
    assert_eq!(results[0].notes(), ["ask the owner"]);
    assert_eq!((results[0].ends_turn(), results[0].stop_reason()), (true, Some("enough")));
    let no = ScriptedAsker::new().then(ApprovalAnswer::NoBecause("no".into()));
    with(Some(no))
        .turn([("1", "write", json!({}))])
        .await
        .check(["1 Rejected: the user said no to write: no"]);
    assert_eq!((hook.lines(), calls.calls()), (vec!["denied write".to_owned()], 0));

    // One that fails changes nothing and is reported.
    let log = EventLog::new();
    let hooks = HookSet::new().denied(TestHook::new("d").failing("exit code 3"));
    let caller = TestCaller::new().tool(write).engine(|engine| engine.hooks(hooks).events(log.clone()));
    let results = caller.turn([("1", "write", json!({}))]).await;
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Denied));
    assert_eq!(log.warnings(), ["hook `d` failed after write was denied: exit code 3"]);
}

/// Hooks after a message see all results, speak with the last one, and may end the turn.
#[tokio::test]
async fn hooks_after_a_message() {
    let hook = TestHook::new("b").on_batch(|batch| {
        let (context, messages) =
            (vec![format!("{} calls", batch.results.len())], vec!["for the user".into()]);
        Ok(PostHookResponse { context, messages, stop: Some("enough".into()), ..PostHookResponse::default() })
    });
    let log = EventLog::new();
    let (read, _) = scripted_tool("read").effects(|_| Effects::none()).then("a").then("b").build();
    let hooks = HookSet::new().after_batch(hook.clone()).after_batch(TestHook::new("bad").panicking());
    let caller = TestCaller::new().tool(read).engine(|engine| engine.hooks(hooks).events(log.clone()));
    let results = caller.turn([("1", "read", json!({})), ("2", "read", json!({}))]).await;
    results.check(["1 ok: a", "2 ok: b\nnote: 2 calls"]);
    assert_eq!((results[0].ends_turn(), results[1].stop_reason()), (false, Some("enough")));
    assert_eq!(log.warnings(), ["hook `bad` failed after the calls of a message: it panicked"]);
    assert!(log.lines().contains(&"message: for the user".to_owned()), "{:?}", log.lines());
    assert_eq!(hook.lines(), ["batch of 2"]);
}

/// A hook that ends the turn takes the calls along that have not begun, and says who it was.
#[tokio::test]
async fn a_hook_before_a_call_ends_the_turn() {
    let hook = TestHook::new("h")
        .on_before(|_| Ok(PreHookResponse { stop: Some("enough".into()), ..PreHookResponse::default() }));
    let (write, calls) = scripted_tool("write").effects(|_| Effects::writes("x")).build();
    let caller = TestCaller::new().tool(write).engine(|engine| engine.hooks(HookSet::new().before(hook)));
    let results = caller.turn([("1", "write", json!({})), ("2", "write", json!({}))]).await;
    results.check([
        "1 Blocked: write was not run: hook `h` ended the turn: enough",
        "2 Cancelled: write was not run; cancelled: a hook ended this turn; the user did not interrupt",
    ]);
    assert_eq!((results[0].ends_turn(), calls.calls()), (true, 0));
    assert_eq!(results[1].error().and_then(haft::ToolError::cause), Some(Cause::Hook));
}
