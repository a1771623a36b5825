//! The eight steps of one call: their order, what each fails to, and what no failure loses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::hooks::{HookSet, PostHookResponse, PreHookResponse};
use haft::ports::{ApprovalAnswer, AuthorizationRequest, Authorizer, PermissionMode};
use haft::testing::{
    EventLog, MemoryRecorder, ScriptedAsker, TestCaller, TestHook, let_tasks_run, scripted_tool, test_context,
};
use haft::tool::{AnyTool, GuardDenied};
use haft::{
    Cause, Context, Effects, EngineBuilder, ErrorKind, NoInput, PermissionRules, Tool, ToolError, ToolSpec,
    dynamic_tool, tool,
};
use serde_json::{Value, json};

use crate::pipeline_hooks::Rules;
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
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        self.0.say(format!("5 rules {}", request.input["n"]));
        Vec::new()
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

struct LoudAsker(Log, ScriptedAsker);

impl haft::ports::Asker for LoudAsker {
    fn approve<'a>(
        &'a self,
        approval: &'a haft::ports::ApprovalRequest,
    ) -> haft::future::BoxFuture<'a, ApprovalAnswer> {
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
        intent: &'a haft::ports::CallIntent<'a>,
    ) -> haft::future::BoxFuture<'a, Result<(), haft::ports::RecordError>> {
        self.0.say(format!("6 recorder {}", intent.input["n"]));
        Box::pin(std::future::ready(Ok(())))
    }

    fn after<'a>(
        &'a self,
        _: &'a haft::ports::CallIntent<'a>,
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
            Ok(if n < least {
                PreHookResponse::rewrite(json!({"n": n + 1}))
            } else {
                PreHookResponse::go_on()
            })
        })
        .on_permission(move |call, _| {
            permission.say(format!("5 hook {}", call.input["n"]));
            Ok(None)
        })
        .on_after(move |_, result| {
            after.say(format!("7 hook {}", result.to_json().output));
            Ok(PostHookResponse::default())
        })
}

fn witnessed(least: i64, asker: ScriptedAsker) -> (TestCaller, Log) {
    let log = Log::default();
    let hook = loud_hook(&log, least);
    let hooks = HookSet::new().before(hook.clone()).permission(hook.clone()).after(hook);
    let (rules, asker) = (LoudRules(log.clone()), LoudAsker(log.clone(), asker));
    let recorder = Arc::new(LoudRecorder(log.clone()));
    let caller = TestCaller::new().tool(Witness(log.clone())).engine(|engine| {
        engine.permissions(rules).asker(asker).hooks(hooks).ports(|ports| ports.recorder = Some(recorder))
    });
    (caller, log)
}

#[tokio::test]
async fn the_steps_come_in_their_order() {
    let (caller, log) = witnessed(0, ScriptedAsker::new().then(ApprovalAnswer::Once));
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
    let (caller, log) = witnessed(1, ScriptedAsker::new().then(ApprovalAnswer::Once));
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
    let edit = |n: Value| ApprovalAnswer::Edit(json!({"n": n}));
    let (caller, log) = witnessed(0, ScriptedAsker::new().then(edit(json!(7))).then(ApprovalAnswer::Once));
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
        let (caller, log) = witnessed(0, ScriptedAsker::new().then(ApprovalAnswer::Once));
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
    let hook = TestHook::new("bad").on_before(|_| Ok(PreHookResponse::rewrite(json!({"n": "many"}))));
    let log = Log::default();
    let caller = TestCaller::new()
        .tool(Witness(log.clone()))
        .engine(|engine| engine.hooks(HookSet::new().before(hook)));
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
                    if empty { Err(ToolError::invalid_input("`pattern` is empty; give one")) } else { Ok(()) }
                }
            },
        )
    };
    let check = async |caller: TestCaller, call: (&str, Value), expected: &str| {
        let results = caller.turn([("1", call.0, call.1)]).await;
        results.check([format!("1 {expected}").as_str()]);
    };
    let with = |tool: AnyTool| TestCaller::new().tool(tool);
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
        |hook: TestHook| with(any(reader("t"))).engine(|engine| engine.hooks(HookSet::new().before(hook)));
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
    let denied = PermissionRules::new().deny("Edit").unwrap();
    check(
        with(any(changer("Edit"))).engine(|engine| engine.permissions(denied)),
        ("Edit", no_input.clone()),
        "Denied: Edit is denied by rule `Edit` (Permissions::deny)\ndo not try another tool for the same purpose",
    )
    .await;
    let explained = |_: &AuthorizationRequest<'_>| {
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
    let quiet = PermissionRules::new().mode(PermissionMode::DontAsk);
    check(
        with(any(plain("t", Effects::unknown()))).engine(|engine| engine.permissions(quiet)),
        ("t", no_input.clone()),
        "Denied: t was denied: nothing is known of what it touches, so it needs a yes, and this mode doesn't ask\n\
         to allow it: allow rule `t`",
    )
    .await;
    let asked = |answer: ApprovalAnswer| {
        let asker = ScriptedAsker::new().then(answer);
        with(any(plain("t", Effects::unknown()))).engine(|engine| engine.asker(asker))
    };
    check(
        asked(ApprovalAnswer::No),
        ("t", no_input.clone()),
        "Rejected: the user said no to t and ended the turn; wait for what they say",
    )
    .await;
    check(
        asked(ApprovalAnswer::NoBecause("use the other one".into())),
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
    let (failing, _) = scripted_tool("t")
        .effects(|_| Effects::none())
        .then_fail(ToolError::new("t found 3 matches; it must be unique"))
        .build();
    check(with(failing), ("t", no_input.clone()), "Failed: t found 3 matches; it must be unique").await;
    let (slow, _handle) =
        scripted_tool("t").effects(|_| Effects::none()).with(|tool| tool.timeout_ms(1_500)).build();
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
        let (slow, handle) = scripted_tool("slow").build();
        let rules = PermissionRules::new().allow("slow").unwrap();
        let caller = TestCaller::new().tool(slow).engine(|engine| engine.permissions(rules));
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
    let (flaky, _) = scripted_tool("t")
        .effects(|_| Effects::none())
        .then_fail(ToolError::new("busy").retryable())
        .then_fail(ToolError::new("wrong"))
        .build();
    let caller = TestCaller::new().tool(flaky);
    assert_eq!(error(caller.call("t", "{}").await), (ErrorKind::Failed, true));
    assert_eq!(error(caller.call("t", "{}").await), (ErrorKind::Failed, false));
    assert_eq!(error(caller.call("u", "{}").await), (ErrorKind::UnknownTool, false));
    assert_eq!(error(caller.call("t", "[]").await), (ErrorKind::InvalidInput, false));
}

#[tokio::test]
async fn the_recorder_is_told_before_and_after_and_can_refuse_changes() {
    let log = EventLog::new();
    let recorder = MemoryRecorder::new();
    let caller = TestCaller::new().tool(reader("read")).tool(changer("change")).engine(recording(&recorder));
    let caller = caller.engine(|engine| engine.events(log.clone()));
    let calls = || [("r", "read", "{}"), ("c", "change", "{}"), ("x", "read", "[]")];

    caller.turn(calls()).await;
    let told =
        ["before r read, by its effects", "after r ok", "before c change, by the tool itself", "after c ok"];
    assert_eq!(recorder.lines(), told);
    let haft::testing::RecordedNote::Before { side_effects, rerunnable, turn, .. } = &recorder.notes()[2]
    else {
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
    let caller = TestCaller::new()
        .tool(reader("Read").alias("read_file"))
        .engine(|engine| engine.hooks(HookSet::new().before(hook.clone())));
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
    let rules = PermissionRules::new().allow("write").unwrap();
    let port = Arc::new(files.clone());
    let caller = TestCaller::new()
        .tool(write.effects(|_| Effects::reads("a.txt").and(Effects::writes("b.txt"))))
        .engine(|engine| engine.permissions(rules).ports(|ports| ports.files = port));
    assert_eq!(caller.call("write", "{}").await.to_json().output, true, "only what it declared");
    assert_eq!(files.text(here.join("b.txt")).as_deref(), Some("text"));
    assert_eq!(files.text(here.join("c.txt")), None);

    let cx = test_context(".", |_| {});
    assert!(
        cx.ports().processes().is_none() && cx.ports().asker().is_none() && cx.ports().recorder().is_none()
    );
}

/// A question waits as long as it takes and holds nothing; taking the call away takes the question away.
#[tokio::test]
async fn a_question_holds_nobody_up_and_goes_with_its_call() {
    let asker = ScriptedAsker::waiting();
    let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    let caller = TestCaller::new()
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
    let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    let calls = Arc::new(AtomicUsize::new(0));
    let caller = TestCaller::new().tool(read).tool(reader("alone"));
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
