//! The eight steps of one call: their order, what each fails to, and what no failure loses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::decision::{Decision, DecisionReason, DecisionSource, Verdict};
use haft::future::BoxFuture;
use haft::hooks::{After, Before, HookCall, Hooks};
use haft::ports::{Answer, Authorizer, Intent, PermissionMode, RecordError, Recorder, RefusedCall, Request};
use haft::testing::{
    Caller, EventLog, MemoryRecorder, Saw, ScriptedAsker, TestHook, context, let_tasks_run, scripted,
};
use haft::tool::{AnyTool, GuardDenied};
use haft::{
    Cause, Content, Context, Effects, EngineBuilder, ErrorKind, NoInput, Output, Permissions, Tool,
    ToolError, ToolResult, ToolSpec, dynamic_tool, tool,
};
use serde_json::{Value, json};

use crate::{Log, any, changer, plain, reader};

fn recording(recorder: &MemoryRecorder) -> impl FnOnce(EngineBuilder) -> EngineBuilder {
    let port = Arc::new(recorder.clone());
    |engine| engine.ports(|ports| ports.recorder = Some(port))
}

/// Writes down every step that it is asked about.
struct Witness(Log);

/// Adds up.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    n: i64,
}

impl Tool for Witness {
    type Input = Number;
    type Output = i64;

    fn spec(&self) -> ToolSpec {
        let log = self.0.clone();
        ToolSpec::new("witness").guard(move |input, _| {
            log.say(format!("4 guard {}", input["n"]));
            std::future::ready(Ok(input))
        })
    }

    fn effects(&self, input: &Number) -> Effects {
        self.0.say(format!("2 effects {}", input.n));
        Effects::writes_state("numbers")
    }

    async fn check(&self, input: &Number, _: &Context) -> Result<(), ToolError> {
        self.0.say(format!("3 check {}", input.n));
        Ok(())
    }

    async fn permission(&self, input: &Number, _: &Context) -> Option<DecisionReason> {
        self.0.say(format!("5 opinion {}", input.n));
        None
    }

    async fn call(&self, input: Number, _: &Context) -> Result<i64, ToolError> {
        self.0.say(format!("6 call {}", input.n));
        Ok(input.n)
    }
}

/// Rules that write down that they were asked.
struct LoudRules(Log);

impl Authorizer for LoudRules {
    fn reasons(&self, request: &Request<'_>) -> Vec<DecisionReason> {
        self.0.say(format!("5 rules {}", request.input["n"]));
        Vec::new()
    }

    fn hides(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

struct LoudAsker(Log, ScriptedAsker);

impl haft::ports::Asker for LoudAsker {
    fn approve<'a>(&'a self, approval: &'a haft::ports::Approval) -> haft::future::BoxFuture<'a, Answer> {
        self.0.say(format!("5 user {}", approval.input["n"]));
        self.1.approve(approval)
    }

    fn question<'a>(
        &'a self,
        question: &'a haft::ports::UserQuestion,
    ) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
        self.1.question(question)
    }
}

struct LoudRecorder(Log);

impl haft::ports::Recorder for LoudRecorder {
    fn before<'a>(
        &'a self,
        intent: &'a haft::ports::Intent<'a>,
    ) -> haft::future::BoxFuture<'a, Result<(), haft::ports::RecordError>> {
        self.0.say(format!("6 recorder {}", intent.input["n"]));
        Box::pin(std::future::ready(Ok(())))
    }

    fn after<'a>(
        &'a self,
        _: &'a haft::ports::Intent<'a>,
        result: &'a haft::ToolResult,
    ) -> haft::future::BoxFuture<'a, Result<(), haft::ports::RecordError>> {
        self.0.say(format!("8 recorder {}", result.to_json().output));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A hook that writes down that it was asked, and makes numbers smaller than `least` one larger.
fn loud_hook(log: &Log, least: i64) -> TestHook {
    let (before, permission, after) = (log.clone(), log.clone(), log.clone());
    TestHook::new("loud")
        .on_before(move |call| {
            let n = call.input["n"].as_i64().unwrap();
            before.say(format!("4 hook {n}"));
            Ok(if n < least { Before::rewrite(json!({"n": n + 1})) } else { Before::go_on() })
        })
        .on_permission(move |call, _| {
            permission.say(format!("5 hook {}", call.input["n"]));
            Ok(None)
        })
        .on_after(move |_, result| {
            after.say(format!("7 hook {}", result.to_json().output));
            Ok(After::default())
        })
}

fn witnessed(least: i64, asker: ScriptedAsker) -> (Caller, Log) {
    let log = Log::default();
    let hook = loud_hook(&log, least);
    let hooks = Hooks::new().before(hook.clone()).permission(hook.clone()).after(hook);
    let (rules, asker) = (LoudRules(log.clone()), LoudAsker(log.clone(), asker));
    let recorder = Arc::new(LoudRecorder(log.clone()));
    let caller = Caller::new().tool(Witness(log.clone())).engine(|engine| {
        engine.permissions(rules).asker(asker).hooks(hooks).ports(|ports| ports.recorder = Some(recorder))
    });
    (caller, log)
}

#[tokio::test]
async fn the_steps_come_in_their_order() {
    let (caller, log) = witnessed(0, ScriptedAsker::new().then(Answer::Once));
    caller.turn([("1", "witness", json!({"n": 1}))]).await.check(["1 ok: 1"]);
    let (opinions, steps): (Vec<_>, Vec<_>) =
        log.take().into_iter().partition(|step| step.contains("opinion"));
    assert_eq!(
        opinions,
        ["5 opinion 1"],
        "heard once; whether before or after the rules is nobody's business"
    );
    assert_eq!(
        steps,
        [
            "2 effects 1",
            "3 check 1",
            "4 guard 1",
            "4 hook 1",
            "5 rules 1",
            "5 hook 1",
            "5 user 1",
            "5 rules 1",
            "6 recorder 1",
            "6 call 1",
            "7 hook 1",
            "8 recorder 1",
        ]
    );
}

#[tokio::test]
async fn a_rewrite_goes_back_to_parse_and_is_judged_like_the_first() {
    let (caller, log) = witnessed(1, ScriptedAsker::new().then(Answer::Once));
    caller.turn([("1", "witness", json!({"n": 0}))]).await.check(["1 ok: 1"]);
    let steps = log.take();
    let (first, second) = steps.split_at(4);
    assert_eq!(
        first,
        ["2 effects 0", "3 check 0", "4 guard 0", "4 hook 0"],
        "nobody judged what would change"
    );
    assert_eq!(second[..4].join(", "), "2 effects 1, 3 check 1, 4 guard 1, 4 hook 1");
    assert!(["5 rules 1", "5 opinion 1"].iter().all(|step| second.contains(&(*step).to_owned())));
}

#[tokio::test]
async fn an_edit_by_the_user_goes_back_to_parse() {
    let edit = |n: Value| Answer::Edit(json!({"n": n}));
    let (caller, log) = witnessed(0, ScriptedAsker::new().then(edit(json!(7))).then(Answer::Once));
    caller.turn([("1", "witness", json!({"n": 1}))]).await.check(["1 ok: 7"]);
    let after_edit = log.take().into_iter().skip_while(|step| !step.ends_with(" 7")).collect::<Vec<_>>();
    assert_eq!(after_edit[..3].join(", "), "2 effects 7, 3 check 7, 4 guard 7");
    assert!(after_edit.contains(&"5 rules 7".to_owned()) && after_edit.contains(&"5 user 7".to_owned()));

    // Rubbish from the user is answered like rubbish from the model.
    let (caller, log) = witnessed(0, ScriptedAsker::new().then(edit(json!("x"))));
    let result = caller.call("witness", json!({"n": 1})).await;
    assert_eq!(result.error_kind(), Some(ErrorKind::InvalidInput));
    assert!(log.take().iter().all(|step| !step.starts_with('6')));
}

#[tokio::test]
async fn an_input_is_rewritten_at_most_three_times() {
    async fn check(from: i64, expected: &str) {
        let (caller, log) = witnessed(0, ScriptedAsker::new().then(Answer::Once));
        let result = caller.turn([("1", "witness", json!({"n": from}))]).await;
        result.check([expected]);
        let rounds = log.take().iter().filter(|step| step.starts_with("4 hook")).count();
        assert_eq!(rounds, 1 + from.unsigned_abs().min(3) as usize, "one round more than rewrites");
    }
    check(0, "1 ok: 0").await;
    check(-1, "1 ok: 0").await;
    check(-3, "1 ok: 0").await;
    check(
        -4,
        "1 Blocked: the input of witness was rewritten 3 times and is still not settled; this call was stopped",
    )
    .await;
}

#[tokio::test]
async fn a_rewrite_that_does_not_fit_is_invalid_input() {
    let hook = TestHook::new("bad").on_before(|_| Ok(Before::rewrite(json!({"n": "many"}))));
    let log = Log::default();
    let caller =
        Caller::new().tool(Witness(log.clone())).engine(|engine| engine.hooks(Hooks::new().before(hook)));
    let result = caller.call("witness", json!({"n": 1})).await;
    assert_eq!(result.error_kind(), Some(ErrorKind::InvalidInput));
    assert!(!log.take().contains(&"6 call 1".to_owned()));
}

/// Searches.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct GrepInput {
    /// What to look for.
    pattern: String,
    /// How many lines at most.
    head_limit: Option<u64>,
}

/// The words that a model gets, one for each kind, as `examples.md` has them.
#[tokio::test(start_paused = true)]
async fn every_kind_of_error_says_what_to_do() {
    let grep = || {
        tool("Grep", "Searches.", |_: GrepInput, _| async { Ok("") }).effects(|_| Effects::none()).check(
            |input: &GrepInput, _| {
                let empty = input.pattern.is_empty();
                async move {
                    if empty { Err(ToolError::senseless("`pattern` is empty; give one")) } else { Ok(()) }
                }
            },
        )
    };
    let check = async |caller: Caller, call: (&str, Value), expected: &str| {
        let results = caller.turn([("1", call.0, call.1)]).await;
        results.check([format!("1 {expected}").as_str()]);
    };
    let with = |tool: AnyTool| Caller::new().tool(tool);
    let no_input = json!({});

    let read = || with(any(reader("Read").alias("read_file")));
    check(
        read(),
        ("read_fil", no_input.clone()),
        "UnknownTool: no tool named `read_fil`; closest: `read_file` (alias of Read), `Read`",
    )
    .await;
    check(read(), ("database", no_input.clone()), "UnknownTool: no tool named `database`").await;
    check(
        with(any(reader("ask").needs_user())),
        ("ask", no_input.clone()),
        "NotInteractive: ask can't be used: it needs a user, and this session has none",
    )
    .await;
    check(
        with(any(grep())),
        ("Grep", json!({"head_limit": "ten"})),
        "InvalidInput: invalid input for Grep (2 problems):\n  \
         /head_limit   \"ten\" is a string; an integer ≥ 0 is accepted\n  \
         /pattern      missing; a string is required\n\
         fix these fields and call Grep again",
    )
    .await;
    check(with(any(grep())), ("Grep", json!({"pattern": ""})), "InvalidInput: `pattern` is empty; give one")
        .await;
    let unsure = reader("t").check(|_, _| async { Err(ToolError::new("the disk is gone")) });
    check(with(any(unsure)), ("t", no_input.clone()), "InvalidInput: t can't do that: the disk is gone")
        .await;
    let guarded = reader("t").guard(|_, _| async { Err(GuardDenied("not here".into())) });
    check(
        with(any(guarded)),
        ("t", no_input.clone()),
        "Blocked: t was blocked by one of its guards: not here",
    )
    .await;
    let hooked =
        |hook: TestHook| with(any(reader("t"))).engine(|engine| engine.hooks(Hooks::new().before(hook)));
    check(
        hooked(TestHook::new("audit").blocking("not on fridays")),
        ("t", no_input.clone()),
        "Blocked: t was blocked by hook `audit`: not on fridays",
    )
    .await;
    check(
        hooked(TestHook::new("audit").failing("exit code 3")),
        ("t", no_input.clone()),
        "HookFailed: t was not run: hook `audit` failed (exit code 3); this is a fault of the hook, not a denial",
    )
    .await;
    let denied = Permissions::new().deny("Edit").unwrap();
    check(
        with(any(changer("Edit"))).engine(|engine| engine.permissions(denied)),
        ("Edit", no_input.clone()),
        "Denied: Edit is denied by rule `Edit` (Permissions::deny)\ndo not try another tool for the same purpose",
    )
    .await;
    let explained = |_: &Request<'_>| {
        let text = "rule `Edit(/migrations/**)` (.haft/settings.json:7)";
        let denial = DecisionReason::new(DecisionSource::Rule, Verdict::Deny, text);
        vec![denial.with_message("migrations are generated; change the model files instead")]
    };
    check(
        with(any(changer("Edit"))).engine(|engine| engine.permissions(Rules(explained))),
        ("Edit", no_input.clone()),
        "Denied: Edit was denied by rule `Edit(/migrations/**)` (.haft/settings.json:7): migrations are \
         generated; change the model files instead\ndo not try another tool for the same purpose",
    )
    .await;
    check(
        with(any(plain("t", Effects::changes("x.io")))),
        ("t", no_input.clone()),
        "Denied: t was denied: it changes x.io, so it needs a yes, and nobody can be asked here\n\
         to allow it: allow rule `t`",
    )
    .await;
    let quiet = Permissions::new().mode(PermissionMode::DontAsk);
    check(
        with(any(plain("t", Effects::unknown()))).engine(|engine| engine.permissions(quiet)),
        ("t", no_input.clone()),
        "Denied: t was denied: nothing is known of what it touches, so it needs a yes, and this mode doesn't ask\n\
         to allow it: allow rule `t`",
    )
    .await;
    let asked = |answer: Answer| {
        let asker = ScriptedAsker::new().then(answer);
        with(any(plain("t", Effects::unknown()))).engine(|engine| engine.asker(asker))
    };
    check(
        asked(Answer::No),
        ("t", no_input.clone()),
        "Rejected: the user said no to t and ended the turn; wait for what they say",
    )
    .await;
    check(
        asked(Answer::NoBecause("use the other one".into())),
        ("t", no_input.clone()),
        "Rejected: the user said no to t: use the other one",
    )
    .await;
    let recorder = MemoryRecorder::new();
    recorder.refuse("disk full");
    check(
        with(any(changer("t"))).engine(recording(&recorder)),
        ("t", no_input.clone()),
        "NotRecorded: t was not run: it could not be recorded (disk full), and unrecorded changes are not made",
    )
    .await;
    let (failing, _) = scripted("t")
        .effects(|_| Effects::none())
        .then_fail(ToolError::new("t found 3 matches; it must be unique"))
        .build();
    check(with(failing), ("t", no_input.clone()), "Failed: t found 3 matches; it must be unique").await;
    let (slow, _handle) =
        scripted("t").effects(|_| Effects::none()).with(|tool| tool.timeout_ms(1_500)).build();
    check(
        with(slow),
        ("t", no_input.clone()),
        "TimedOut: t was stopped: it did not finish within 1.5 s; the user did not interrupt. Ask for less at once",
    )
    .await;
    let panics = dynamic_tool("t", "Panics.", json!({"type": "object"}), |_, _| async {
        if true {
            panic!("secret words");
        }
        Ok(())
    });
    check(
        with(any(panics.effects(|_| Effects::none()))),
        ("t", no_input),
        "Panicked: t panicked: this is a fault of the tool, not of your input; its result is lost",
    )
    .await;
}

#[tokio::test]
async fn a_cancelled_call_says_who_cancelled_it() {
    async fn check(cause: Cause, running: &str, waiting: &str) {
        let (slow, handle) = scripted("slow").build();
        let rules = Permissions::new().allow("slow").unwrap();
        let caller = Caller::new().tool(slow).engine(|engine| engine.permissions(rules));
        // The second waits for the first: unknown effects run alone.
        let turn = caller.start([("1", "slow", json!({})), ("2", "slow", json!({}))]);
        let call = handle.started().await;
        turn.handle().cancel(cause);
        call.dropped().await;
        turn.results().await.check([running, waiting]);
        assert_eq!(handle.calls(), 1);
    }
    check(
        Cause::User,
        "1 Cancelled: slow was cancelled: the user interrupted this turn",
        "2 Cancelled: slow was not run; cancelled: the user interrupted this turn",
    )
    .await;
    check(
        Cause::Shutdown,
        "1 Cancelled: slow was cancelled: the session is ending; the user did not interrupt this call",
        "2 Cancelled: slow was not run; cancelled: the session is ending; the user did not interrupt this call",
    )
    .await;
}

#[tokio::test]
async fn only_kinds_that_can_succeed_unchanged_say_retryable() {
    let error = |result: haft::ToolResult| {
        let error = result.error().unwrap().clone();
        (error.kind(), error.is_retryable())
    };
    let (flaky, _) = scripted("t")
        .effects(|_| Effects::none())
        .then_fail(ToolError::new("busy").retryable())
        .then_fail(ToolError::new("wrong"))
        .build();
    let caller = Caller::new().tool(flaky);
    assert_eq!(error(caller.call("t", "{}").await), (ErrorKind::Failed, true));
    assert_eq!(error(caller.call("t", "{}").await), (ErrorKind::Failed, false));
    assert_eq!(error(caller.call("u", "{}").await), (ErrorKind::UnknownTool, false));
    assert_eq!(error(caller.call("t", "[]").await), (ErrorKind::InvalidInput, false));
}

/// Rules from a function.
struct Rules<F>(F);

impl<F: Fn(&Request<'_>) -> Vec<DecisionReason> + Send + Sync + 'static> Authorizer for Rules<F> {
    fn reasons(&self, request: &Request<'_>) -> Vec<DecisionReason> {
        (self.0)(request)
    }

    fn hides(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

/// Two hooks decide on a call that would run by itself (`read`) or ask (`write`): the stricter counts, in any order.
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
            let before =
                move || Before { decision: decision.clone(), blocked: blocked.clone(), ..Before::default() };
            TestHook::new(name).on_before(move |_| Ok(before()))
        };
        let hooks = Hooks::new().before(hook("first", first)).before(hook("second", second));
        let asker = ScriptedAsker::new().then(Answer::Once);
        let caller = Caller::new()
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
    async fn check(rules: Permissions, opinion: Option<DecisionReason>, expected: &[&str]) {
        let hook = TestHook::new("kind").on_before(|_| Ok(Before::decide(DecisionReason::allow())));
        let asker = ScriptedAsker::new().then(Answer::NoBecause("asked".into()));
        let write = plain("write", Effects::changes("x.io")).permission(move |_| opinion.clone());
        let caller = Caller::new()
            .tool(write)
            .engine(|engine| engine.permissions(rules).asker(asker).hooks(Hooks::new().before(hook)));
        caller.turn([("1", "write", "{}")]).await.check(expected.iter().copied());
    }
    check(Permissions::new(), None, &["1 ok: done"]).await;
    let asked = "1 Rejected: the user said no to write: asked";
    check(Permissions::new().ask("write").unwrap(), None, &[asked]).await;
    check(Permissions::new(), Some(DecisionReason::ask("mind")), &[asked]).await;
    check(Permissions::new(), Some(DecisionReason::deny("no")), &["1 Denied: write refuses this call: no"])
        .await;
}

/// A failing hook stops the call, and what is said is that a hook failed.
#[tokio::test(start_paused = true)]
async fn hooks_before_a_call_fail_closed() {
    async fn check(hook: TestHook, how: &str) {
        let log = EventLog::new();
        let run = async |hook: TestHook| {
            let (read, handle) = scripted("read").effects(|_| Effects::none()).then("text").build();
            let caller = Caller::new()
                .tool(read)
                .engine(|engine| engine.hooks(Hooks::new().before(hook)).events(log.clone()));
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
        fn before<'a>(&'a self, _: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
            panic!("no call runs")
        }

        fn after<'a>(
            &'a self,
            _: &'a Intent<'a>,
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
        let caller = Caller::new()
            .tool(read)
            .engine(|engine| change(engine.ports(|ports| ports.recorder = Some(port))));
        let results = caller.turn([("1", "t", "{}")]).await;
        let decision = results[0].error().unwrap().decision();
        assert_eq!(shown(decision), expected);
        assert_eq!(*recorder.0.lock().unwrap(), [expected]);
    }
    let before = |hook: TestHook| |engine: EngineBuilder| engine.hooks(Hooks::new().before(hook));
    let says = |before: Before| TestHook::new("h").on_before(move |_| Ok(before.clone()));
    let why = "deny by Hook: t was blocked by hook `h`: no; 1 path";
    check(before(says(Before::block("no"))), None, why).await;
    let why = "deny by Hook: denied by hook `h`: no; 1 path";
    check(before(says(Before::decide(DecisionReason::deny("no")))), None, why).await;
    let why = "deny by Hook: t was not run: hook `h` ended the turn: enough; 1 path";
    let stop = Before { stop: Some("enough".into()), ..Before::default() };
    check(before(says(stop)), None, why).await;
    let why = "deny by Failure: t was not run: hook `h` failed (exit code 3); this is a fault of the hook, not a \
               denial; 1 path";
    check(before(TestHook::new("h").failing("exit code 3")), None, why).await;
    let why = "deny by Tool: it is blocked by one of its guards: not here; 1 path";
    check(|engine| engine, Some("not here"), why).await;
    let rewritten = AtomicUsize::new(0);
    let rewrites =
        move |_: &HookCall<'_>| Ok(Before::rewrite(json!({"n": rewritten.fetch_add(1, Ordering::Relaxed)})));
    let why = "deny by Failure: the input of t was rewritten 3 times and is still not settled; this call was \
               stopped; 1 path";
    check(before(TestHook::new("h").on_before(rewrites)), None, why).await;
}

#[tokio::test(start_paused = true)]
async fn permission_hooks_answer_for_the_user_and_fail_closed() {
    async fn check(hook: TestHook, expected: &str) {
        let asker = ScriptedAsker::new().then(Answer::NoBecause("asked".into()));
        let caller = Caller::new()
            .tool(plain("write", Effects::changes("x.io")))
            .tool(reader("read"))
            .engine(|engine| engine.asker(asker.clone()).hooks(Hooks::new().permission(hook.clone())));
        let results = caller.turn([("1", "read", "{}"), ("2", "write", "{}")]).await;
        results.check(["1 ok: done", expected]);
        assert_eq!(hook.lines(), ["permission write"], "it is asked only where the user would be");
        let Saw::Permission { reason, .. } = &hook.saw()[0] else { panic!("a permission hook") };
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
        Ok(Before { input: Some(input), context: vec!["stamped".into()], ..Before::default() })
    });
    let second = TestHook::new("second").on_before(|_| Ok(Before::inject("seen")));
    let (read, handle) = scripted("read").effects(|_| Effects::none()).build();
    let hooks = Hooks::new().before(first).before(second.clone());
    let caller = Caller::new().tool(read).engine(|engine| engine.hooks(hooks));
    let turn = caller.start([("1", "read", json!({"a": 1}))]);
    let call = handle.started().await;
    assert_eq!(call.input(), &json!({"a": 1, "stamp": 1}));
    call.succeed("text");
    // Injected words come once, although the hooks ran for both versions of the input.
    let results = turn.results().await;
    results.check(["1 ok: text\nnote: stamped\nnote: seen"]);
    let blocks = [Content::text("text"), Content::text("stamped"), Content::text("seen")];
    assert_eq!(results[0].for_model(), blocks);
    let Saw::Before { input, .. } = &second.saw()[0] else { panic!("a hook before") };
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
            scripted("t").effects(|_| Effects::none()).with(|tool| tool.timeout_ms(timeout_ms)).build();
        let caller = Caller::new()
            .tool(t)
            .engine(|engine| engine.hooks(Hooks::new().after(hook.clone())).events(log.clone()));
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
            Ok(After { context: vec![format!("saw {kind}")], ..After::default() })
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
        let output = Output::new(vec![Content::text("other")]);
        TestHook::new("replace")
            .on_after(move |_, _| Ok(After { output: Some(output.clone()), ..After::default() }))
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
    let caller = Caller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.hooks(Hooks::new().after(hook.clone())));
    assert_eq!(caller.call("t", "{}").await.error_kind(), Some(ErrorKind::Denied));
    assert_eq!(caller.call("t", "[]").await.error_kind(), Some(ErrorKind::InvalidInput));
    assert_eq!(hook.lines(), [""; 0]);
}

#[tokio::test]
async fn the_recorder_is_told_before_and_after_and_can_refuse_changes() {
    let log = EventLog::new();
    let recorder = MemoryRecorder::new();
    let caller = Caller::new().tool(reader("read")).tool(changer("change")).engine(recording(&recorder));
    let caller = caller.engine(|engine| engine.events(log.clone()));
    let calls = || [("r", "read", "{}"), ("c", "change", "{}"), ("x", "read", "[]")];

    caller.turn(calls()).await;
    let told =
        ["before r read, by its effects", "after r ok", "before c change, by the tool itself", "after c ok"];
    assert_eq!(recorder.lines(), told);
    let haft::testing::Note::Before { side_effects, rerunnable, turn, .. } = &recorder.notes()[2] else {
        panic!("an intent")
    };
    assert_eq!((*side_effects, *rerunnable, *turn), (true, false, 1));

    recorder.refuse("disk full");
    let results = caller.turn(calls()).await;
    assert_eq!(results[0].error_kind(), None, "a read goes on");
    assert_eq!(results[1].error_kind(), Some(ErrorKind::NotRecorded));
    assert_eq!(log.warnings(), ["read runs unrecorded: disk full"]);

    recorder.panic();
    let results = caller.turn(calls()).await;
    assert_eq!(results[0].error_kind(), None);
    assert_eq!(results[1].error_kind(), Some(ErrorKind::NotRecorded));
    assert!(results[1].error().unwrap().message().contains("the recorder panicked"));

    recorder.accept();
    recorder.refuse_results("disk full");
    let results = caller.turn(calls()).await;
    assert_eq!(results[1].error_kind(), None, "what happened is not lost");
    assert_eq!(log.warnings().last().unwrap(), "the result could not be recorded: disk full");
}

#[tokio::test]
async fn a_call_through_an_alias_runs_under_its_own_name() {
    let hook = TestHook::new("see");
    let caller = Caller::new()
        .tool(reader("Read").alias("read_file"))
        .engine(|engine| engine.hooks(Hooks::new().before(hook.clone())));
    let result = caller.call("read_file", "{}").await;
    assert_eq!(result.tool_name(), "Read");
    assert_eq!(hook.lines(), ["before Read"]);
}

/// A tool gets to use what was granted to its call and nothing else, through the ports it was given.
#[tokio::test]
async fn a_tool_reaches_its_ports_through_its_context() {
    let files = haft::testing::MemoryFiles::new();
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    files.put(here.join("a.txt"), "text");
    let write = tool("write", "Writes a file.", |_: NoInput, cx: Context| async move {
        let text = cx.files().read_to_string("a.txt").await?;
        let how = haft::files::WriteMode::Replace;
        cx.files().write("b.txt", text.as_bytes(), how).await?;
        Ok(cx.files().write("c.txt", b"", how).await.is_err())
    });
    let rules = Permissions::new().allow("write").unwrap();
    let port = Arc::new(files.clone());
    let caller = Caller::new()
        .tool(write.effects(|_| Effects::reads("a.txt").and(Effects::writes("b.txt"))))
        .engine(|engine| engine.permissions(rules).ports(|ports| ports.files = port));
    assert_eq!(caller.call("write", "{}").await.to_json().output, true, "only what it declared");
    assert_eq!(files.text(here.join("b.txt")).as_deref(), Some("text"));
    assert_eq!(files.text(here.join("c.txt")), None);

    let cx = context(".", |_| {});
    assert!(
        cx.ports().processes().is_none() && cx.ports().asker().is_none() && cx.ports().recorder().is_none()
    );
}

/// A question waits as long as it takes and holds nothing; taking the call away takes the question away.
#[tokio::test]
async fn a_question_holds_nobody_up_and_goes_with_its_call() {
    let asker = ScriptedAsker::waiting();
    let (read, handle) = scripted("read").effects(|_| Effects::none()).build();
    let caller = Caller::new()
        .tool(plain("look", Effects::observes("x.io")))
        .tool(read)
        .engine(|engine| engine.asker(asker.clone()).max_concurrency(1));
    let turn = caller.start([("1", "look", "{}"), ("2", "read", "{}")]);
    let asked = asker.asked().await;
    handle.started().await.succeed("text");
    let_tasks_run().await;
    assert!(!turn.is_finished() && !asked.is_withdrawn());
    assert_eq!(handle.running(), 0, "the other call ran and ended while the user was asked");
    assert_eq!(turn.handle().interrupt(), [""; 0]);
    let results = turn.results().await;
    assert!(asked.is_withdrawn());
    results.check(["1 Cancelled: look was not run; cancelled: the user interrupted this turn", "2 ok: text"]);
}

#[tokio::test]
async fn durations_and_concurrency_are_told() {
    let (read, handle) = scripted("read").effects(|_| Effects::none()).build();
    let calls = Arc::new(AtomicUsize::new(0));
    let caller = Caller::new().tool(read).tool(reader("alone"));
    let turn = caller.start([("1", "read", "{}"), ("2", "read", "{}")]);
    for _ in 0..2 {
        let call = handle.started().await;
        calls.fetch_add(1, Ordering::SeqCst);
        let_tasks_run().await;
        if calls.load(Ordering::SeqCst) == 2 {
            assert_eq!(handle.running(), 2);
        }
        // Both run until the second has started.
        std::mem::forget(call);
    }
    turn.handle().cancel(Cause::User);
    let results = turn.results().await;
    assert!(results.iter().all(haft::ToolResult::was_concurrent));
    let alone = caller.call("alone", "{}").await;
    assert!(!alone.was_concurrent());
    assert_eq!(caller.call("none", "{}").await.duration(), Duration::ZERO);
}

/// Hooks on a denial see it and may say something; a user's no is none of theirs.
#[tokio::test]
async fn hooks_see_denials() {
    let hook = TestHook::new("d").on_denied(|_, reason| {
        assert!(reason.starts_with("write was denied"), "{reason}");
        Ok(After { context: vec!["ask the owner".into()], stop: Some("enough".into()), ..After::default() })
    });
    let (write, calls) = scripted("write").effects(|_| Effects::writes("x")).build();
    let with = |asker: Option<ScriptedAsker>| {
        let hooks = Hooks::new().denied(hook.clone());
        Caller::new().tool(write.clone()).engine(|engine| match asker {
            Some(asker) => engine.hooks(hooks).asker(asker),
            None => engine.hooks(hooks),
        })
    };
    let results = with(None).turn([("1", "write", json!({}))]).await;
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Denied));
    assert_eq!(results[0].notes(), ["ask the owner"]);
    assert_eq!((results[0].ends_turn(), results[0].stop_reason()), (true, Some("enough")));
    let no = ScriptedAsker::new().then(Answer::NoBecause("no".into()));
    with(Some(no))
        .turn([("1", "write", json!({}))])
        .await
        .check(["1 Rejected: the user said no to write: no"]);
    assert_eq!((hook.lines(), calls.calls()), (vec!["denied write".to_owned()], 0));

    // One that fails changes nothing and is reported.
    let log = EventLog::new();
    let hooks = Hooks::new().denied(TestHook::new("d").failing("exit code 3"));
    let caller = Caller::new().tool(write).engine(|engine| engine.hooks(hooks).events(log.clone()));
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
        Ok(After { context, messages, stop: Some("enough".into()), ..After::default() })
    });
    let log = EventLog::new();
    let (read, _) = scripted("read").effects(|_| Effects::none()).then("a").then("b").build();
    let hooks = Hooks::new().after_batch(hook.clone()).after_batch(TestHook::new("bad").panicking());
    let caller = Caller::new().tool(read).engine(|engine| engine.hooks(hooks).events(log.clone()));
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
    let hook =
        TestHook::new("h").on_before(|_| Ok(Before { stop: Some("enough".into()), ..Before::default() }));
    let (write, calls) = scripted("write").effects(|_| Effects::writes("x")).build();
    let caller = Caller::new().tool(write).engine(|engine| engine.hooks(Hooks::new().before(hook)));
    let results = caller.turn([("1", "write", json!({})), ("2", "write", json!({}))]).await;
    results.check([
        "1 Blocked: write was not run: hook `h` ended the turn: enough",
        "2 Cancelled: write was not run; cancelled: a hook ended this turn; the user did not interrupt",
    ]);
    assert_eq!((results[0].ends_turn(), calls.calls()), (true, 0));
    assert_eq!(results[1].error().and_then(haft::ToolError::cause), Some(Cause::Hook));
}
