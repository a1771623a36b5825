//! What the author of a tool can rely on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haft::decision::CallWarning;
use haft::ports::ApprovalAnswer;
use haft::testing::{EventLog, ManualClock, ScriptedAsker, TestCaller, let_tasks_run, scripted_tool};
use haft::tool::{GuardDenied, RetryPolicy};
use haft::view::{CallProgress, CallStage};
use haft::{
    CallView, Chars, Context, Effects, ErrorKind, IntoOutput, Json, NoInput, Registry, ResultBlock, Tool,
    ToolError, ToolOutput, ToolSpec, dynamic_tool, tool,
};
use serde_json::{Value, json};

use crate::{Dir, Log, any, plain, reader};

/// Counts the words in a text file.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CountWords {
    /// Absolute path of the file.
    path: PathBuf,
}

struct WordCounter;

impl Tool for WordCounter {
    type Input = CountWords;
    type Output = usize;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("count_words").result_limit(Chars(100))
    }

    fn effects(&self, input: &CountWords) -> Effects {
        Effects::reads(&input.path)
    }

    async fn check(&self, input: &CountWords, cx: &Context) -> Result<(), ToolError> {
        if cx.files().exists(&input.path).await? {
            return Ok(());
        }
        Err(ToolError::invalid_input(format!("there is no file `{}`", input.path.display())))
    }

    async fn call(&self, input: CountWords, cx: &Context) -> Result<usize, ToolError> {
        let text = cx.files().read_to_string(&input.path).await?;
        Ok(text.split_whitespace().count())
    }
}

#[tokio::test]
async fn a_typed_tool_from_its_doc_comment_to_its_result() {
    let dir = Dir::new();
    dir.file("w/a.txt", "one two three");
    let caller = TestCaller::new().tool(WordCounter).engine(|engine| engine.workspace(dir.workspace()));
    let snapshot = caller.as_engine().snapshot();
    let offer = snapshot.find("count_words").unwrap();
    assert_eq!(offer.tool().description(), "Counts the words in a text file.");
    assert_eq!(
        offer.tool().input_schema()["properties"]["path"]["description"],
        "Absolute path of the file."
    );
    let path = |name: &str| json!({"path": dir.path(name)});
    let calls = [("1", "count_words", path("w/a.txt")), ("2", "count_words", path("w/none"))];
    let results = caller.turn(calls).await;
    let missing = format!("2 InvalidInput: there is no file `{}`", dir.path("w/none").display());
    results.check(["1 ok: 3", missing.as_str()]);
    assert!(results[1].error().unwrap().is_semantic());
}

#[tokio::test]
async fn a_check_sees_only_the_working_directories() {
    let dir = Dir::new();
    let outside = dir.file("secret", "secret");
    let caller = TestCaller::new().tool(WordCounter).engine(|engine| engine.workspace(dir.workspace()));
    let result = caller.call("count_words", json!({"path": outside})).await;
    assert_eq!(result.error_kind(), Some(ErrorKind::InvalidInput));
    let words = result.error().unwrap().message();
    assert!(words.contains("outside of what this call may read"), "{words}");
}

#[tokio::test]
async fn every_kind_of_output_reaches_the_caller() {
    async fn check<O: IntoOutput + Clone + Sync>(output: O, expected: Value) {
        let give = tool("give", "Gives something.", move |_: NoInput, _| {
            let output = output.clone();
            async move { Ok(output) }
        });
        let caller = TestCaller::new().tool(give.effects(|_| Effects::none()));
        assert_eq!(caller.call("give", "{}").await.to_json().output, expected);
    }
    #[derive(Clone, serde::Serialize, schemars::JsonSchema)]
    struct Pair {
        a: u8,
        b: String,
    }
    check("text", json!("text")).await;
    check(String::from("text"), json!("text")).await;
    check(Arc::<str>::from("text"), json!("text")).await;
    check(7u8, json!(7)).await;
    check(-7i64, json!(-7)).await;
    check(1.5, json!(1.5)).await;
    check(true, json!(true)).await;
    check((), json!("")).await;
    check(json!({"a": [1, null]}), json!({"a": [1, null]})).await;
    check(Some("text"), json!("text")).await;
    check(None::<String>, json!("")).await;
    check(Json(Pair { a: 1, b: "x".into() }), json!({"a": 1, "b": "x"})).await;
    check(ResultBlock::text("text"), json!("text")).await;
    check(ToolOutput::new(vec![]), json!("")).await;
    check(
        vec![ResultBlock::text("see"), ResultBlock::link("file:///a", "a")],
        json!([
            {"type": "text", "text": "see"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "media_type": null},
        ]),
    )
    .await;

    let structured = any(tool("pair", "Gives a pair.", |_: NoInput, _| async {
        Ok(Json(Pair { a: 1, b: String::new() }))
    }));
    let schema = structured.output_schema().expect("a structured output has a schema");
    assert_eq!(schema["required"], json!(["a", "b"]));
    assert_eq!(any(reader("plain")).output_schema(), None);
}

#[tokio::test]
async fn a_question_mark_works_on_any_error_and_keeps_it_for_the_log() {
    let parse = tool("parse", "Parses a number.", |_: NoInput, _| async { Ok("300".parse::<u8>()?) })
        .effects(|_| Effects::none());
    let result = TestCaller::new().tool(parse).call("parse", "{}").await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.message(), "number too large to fit in target type");
    let source = error.source().expect("the error itself is kept");
    assert!(source.to_string().contains("too large"));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_closure_owns_its_context() {
    let spawns = tool("spawns", "Answers from another task.", |_: NoInput, cx: Context| async move {
        let task = tokio::spawn(async move {
            cx.progress(None, "from elsewhere");
            format!("{} {} {} {}", cx.call().id(), cx.call().index(), cx.call().turn(), cx.call().agent_id())
        });
        Ok(task.await?)
    });
    let log = EventLog::new();
    let caller = TestCaller::new()
        .tool(spawns.effects(|_| Effects::none()))
        .engine(|engine| engine.events(log.clone()));
    caller.turn([("id", "spawns", "{}")]).await.check(["id ok: id 0 1 main"]);
    caller.turn([("id", "spawns", "{}")]).await.check(["id ok: id 0 2 main"]);
    assert!(log.lines().contains(&"id progress from elsewhere".to_owned()));
}

#[tokio::test]
async fn a_dynamic_tool_uses_its_schema_as_given() {
    let schema = json!({
        "type": "object",
        "x-vendor": {"kept": true},
        "properties": {"z": {"type": "integer", "default": 5}, "a": {"$ref": "#/$defs/text"}},
        "$defs": {"text": {"type": "string", "minLength": 2}},
        "required": ["a"],
    });
    let echo = dynamic_tool("echo", "Gives its input back.", schema.clone(), |args, _| async { Ok(args) })
        .effects(|_| Effects::none());
    let caller = TestCaller::new().tool(echo);
    assert_eq!(caller.as_engine().snapshot().find("echo").unwrap().tool().input_schema(), &schema);

    let input = json!({"a": "xy", "unknown": [1]});
    assert_eq!(
        caller.call("echo", input.clone()).await.to_json().output,
        input,
        "nothing is added or dropped"
    );
    let refused = caller.call("echo", json!({"a": "x"})).await;
    assert_eq!(refused.error_kind(), Some(ErrorKind::InvalidInput));
    let words = refused.error().unwrap().message();
    assert!(words.contains("/a") && words.contains("call echo again"), "{words}");
}

static DECODED: AtomicUsize = AtomicUsize::new(0);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Counted {
    #[serde(deserialize_with = "count")]
    words: Vec<String>,
}

fn count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    DECODED.fetch_add(1, Ordering::SeqCst);
    serde::Deserialize::deserialize(deserializer)
}

#[tokio::test(start_paused = true)]
async fn every_attempt_decodes_its_input_afresh() {
    let log = Log::default();
    let seen = log.clone();
    let flaky = tool("flaky", "Fails twice.", move |mut input: Counted, _| {
        let seen = seen.clone();
        async move {
            input.words.push("used".into());
            seen.say(input.words.join(" "));
            let attempts = seen.0.lock().unwrap().len();
            if attempts < 3 { Err(ToolError::new("not yet").retryable()) } else { Ok(attempts) }
        }
    });
    let caller = TestCaller::new().tool(flaky.effects(|_| Effects::none()).retry(RetryPolicy::up_to(5)));
    assert_eq!(caller.call("flaky", json!({"words": ["a", "b"]})).await.to_json().output, 3);
    assert_eq!(log.take(), ["a b used", "a b used", "a b used"]);
    assert_eq!(DECODED.load(Ordering::SeqCst), 3, "once when it was read, once for each further attempt");
}

#[tokio::test]
async fn guards_run_in_order_and_may_rewrite_or_deny() {
    let log = Log::default();
    let guard = |name: &'static str, field: &'static str| {
        let log = log.clone();
        move |mut input: Value, _: Context| {
            log.say(format!("{name} sees {input}"));
            input[field] = json!(name);
            std::future::ready(Ok(input))
        }
    };
    let echo = dynamic_tool("echo", "Gives its input back.", json!({"type": "object"}), |args, _| async {
        Ok(args)
    });
    let echo = echo.effects(|_| Effects::none()).guard(guard("one", "a")).guard(guard("two", "b"));
    let result = TestCaller::new().tool(echo).call("echo", json!({})).await;
    assert_eq!(result.to_json().output, json!({"a": "one", "b": "two"}));
    assert_eq!(
        log.take(),
        [
            r#"one sees {}"#,
            r#"two sees {"a":"one"}"#,
            // What they made of it is an input like any other: read, checked and guarded again.
            r#"one sees {"a":"one","b":"two"}"#,
            r#"two sees {"a":"one","b":"two"}"#,
        ]
    );

    let third = log.clone();
    let denied = reader("denied")
        .guard(guard("one", "a"))
        .guard(|input, _| async move { Err(GuardDenied(format!("not with {}", input["a"]))) })
        .guard(move |input, _| {
            third.say("too far");
            std::future::ready(Ok(input))
        });
    let caller = TestCaller::new().tool(denied);
    caller
        .turn([("1", "denied", "{}")])
        .await
        .check([r#"1 Blocked: denied was blocked by one of its guards: not with "one""#]);
    assert_eq!(log.take(), ["one sees {}"]);
}

#[tokio::test]
async fn a_person_is_told_in_the_words_of_the_tool() {
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let remove = plain("remove", Effects::deletes("a.txt"))
        .describe(|input| format!("Removes {} for good", input["name"]))
        .view(|stage| match stage {
            CallStage::Use { complete: false, .. } => Some(CallView::titled("…")),
            CallStage::Use { .. } => Some(CallView::titled(stage.text("name")?)),
            CallStage::Result { .. } => Some(CallView::titled("gone").summary("1 file")),
            _ => None,
        });
    let tool = any(remove);
    let caller = TestCaller::new().tool(tool.clone()).engine(|engine| engine.asker(asker.clone()));
    let result = caller.call("remove", json!({"name": "a.txt"})).await;
    assert_eq!(result.view(), CallView::titled("gone").summary("1 file"));

    let approval = &asker.approvals()[0];
    assert_eq!(approval.description.as_deref(), Some("Removes \"a.txt\" for good"));
    assert_eq!(approval.view, CallView::titled("a.txt"));
    assert_eq!(approval.effects, Effects::deletes("a.txt"));
    assert_eq!(approval.reason(), "it deletes a.txt");
    assert!(matches!(approval.warnings(), [CallWarning::Destroys { .. }]) && !approval.again);

    // From partial input: a screen that draws while the model still writes.
    let partial = json!({"na": "a."});
    assert_eq!(tool.view(&CallStage::Use { input: &partial, complete: false }), CallView::titled("…"));
    // Where the tool has no view of its own, the default.
    assert_eq!(tool.view(&CallStage::Use { input: &partial, complete: true }), CallView::titled("a."));
    let progress = CallProgress { fraction: Some(0.25), message: None };
    let shown = tool.view(&CallStage::Progress { input: &partial, progress: &progress });
    assert_eq!(shown, CallView::titled("a.").summary("25 %"));
}

#[tokio::test]
async fn a_tool_that_is_unavailable_is_not_offered() {
    let on = Arc::new(AtomicBool::new(true));
    let flag = on.clone();
    let reason = move || (!flag.load(Ordering::SeqCst)).then(|| "it sulks".to_owned());
    let caller = TestCaller::new().tool(reader("moody").unavailable_reason(reason));
    caller.turn([("1", "moody", "{}")]).await.check(["1 ok: done"]);
    on.store(false, Ordering::SeqCst);
    caller.turn([("1", "moody", "{}")]).await.check(["1 ok: done"]);
    caller.as_engine().refresh();
    let gone = "1 UnknownTool: moody is not offered: it sulks";
    caller.turn([("1", "moody", "{}")]).await.check([gone]);
    on.store(true, Ordering::SeqCst);
    caller.as_engine().refresh();
    caller.turn([("1", "moody", "{}")]).await.check(["1 ok: done"]);
}

#[tokio::test]
async fn progress_and_partial_output_are_told_while_the_call_runs() {
    let log = EventLog::new();
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(slow).engine(|engine| engine.events(log.clone()));
    let turn = caller.start([("1", "slow", "{}")]);
    let call = handle.started().await;
    call.context().progress(0.5, "half");
    call.context().progress(7.0, "");
    call.context().partial("first lines");
    call.context().warn("mind this");
    assert_eq!(
        log.lines(),
        [
            "1 started",
            "1 progress 50 % half",
            "1 progress 100 %",
            "1 partial first lines",
            "1 warning: mind this"
        ]
    );
    call.succeed("all lines");
    turn.results().await.check(["1 ok: all lines"]);
    assert_eq!(log.lines().last().unwrap(), "1 finished");
}

/// The engine works without anybody watching, too; then events aren't even made.
#[tokio::test]
async fn a_sink_that_panics_loses_the_event_and_nothing_else() {
    struct Bad;
    impl haft::event::EventSink for Bad {
        fn send(&self, _: haft::event::Event) {
            panic!("bad sink");
        }
    }
    let caller = TestCaller::new().tool(reader("read")).engine(|engine| engine.events(Bad));
    caller.turn([("1", "read", "{}")]).await.check(["1 ok: done"]);
}

#[test]
fn tools_that_cannot_be_registered() {
    fn check(registered: Result<Registry, haft::registry::RegistryError>, expected: &str) {
        match registered {
            Ok(_) => assert_eq!("", expected, "it was registered"),
            Err(error) => assert_eq!(error.to_string(), expected),
        }
    }
    let registry = Registry::new();
    let named = |name: &str| registry.with(reader(name));
    let illegal = |name: &str| {
        format!(
            "tool `{name}` is not a legal name; up to 64 letters, digits, `_` and `-` are, beginning with a letter \
             or `_`"
        )
    };
    check(named("good_Name-1"), "");
    check(named("_also"), "");
    check(named(&"x".repeat(64)), "");
    for bad in ["", "1st", "-a", "a.b", "a b", "ä", "a/b", "mcp:x", &"x".repeat(65)] {
        check(named(bad), &illegal(bad));
    }
    check(registry.with(reader("fine").alias("not fine")), &illegal("not fine"));

    let nothing = |words: &str| {
        registry.with(dynamic_tool("mute", words, json!({"type": "object"}), |_, _| async { Ok(()) }))
    };
    let no_words = "tool `mute` has no description; write a doc comment on its input, or give `description`";
    check(nothing(""), no_words);
    check(nothing(" \n "), no_words);
    check(nothing("Says nothing."), "");

    struct Mute;
    impl Tool for Mute {
        type Input = NoInput;
        type Output = ();
        fn spec(&self) -> ToolSpec {
            ToolSpec::new("mute")
        }
        async fn call(&self, _: NoInput, _: &Context) -> Result<(), ToolError> {
            Ok(())
        }
    }
    check(registry.with(Mute), no_words);
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_at_its_await() {
    let _clock = ManualClock::pause();
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(slow);
    let turn = caller.start([("1", "slow", "{}")]);
    let call = handle.started().await;
    let_tasks_run().await;
    assert!(!call.is_dropped());
    turn.handle().cancel(haft::Cause::User);
    call.dropped().await;
    assert_eq!(call.context().cancel().cause(), Some(haft::Cause::User));
    turn.results().await.check(["1 Cancelled: slow was cancelled: the user interrupted this turn"]);
    assert_eq!((handle.running(), handle.dropped()), (0, 1));
}

#[tokio::test]
async fn a_dropped_turn_cancels_everything_in_it() {
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(slow);
    let mut turn = caller.start([("1", "slow", "{}"), ("2", "slow", "{}")]);
    let calls = (turn.meanwhile(handle.started()).await, turn.meanwhile(handle.started()).await);
    turn.abort();
    let_tasks_run().await;
    assert_eq!((handle.running(), handle.dropped()), (0, 2));
    assert_eq!(calls.0.context().cancel().cause(), Some(haft::Cause::Shutdown));
}

#[tokio::test]
async fn a_session_that_is_shut_down_runs_nothing_more() {
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(slow);
    let mut turn = caller.start([("1", "slow", "{}")]);
    let call = turn.meanwhile(handle.started()).await;
    caller.as_engine().shutdown(haft::Cause::Shutdown);
    let_tasks_run().await;
    assert!(call.is_dropped());
    let words = "slow was cancelled: the session is ending; the user did not interrupt this call";
    turn.results().await.check([format!("1 Cancelled: {words}").as_str()]);
    assert_eq!(caller.call("slow", "{}").await.error_kind(), Some(ErrorKind::Cancelled));
    assert_eq!(handle.calls(), 1);
}
