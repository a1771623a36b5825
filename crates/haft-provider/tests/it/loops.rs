//! The loop with the scripted model, in this process: every wire, every end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::testing::scripted_tool;
use haft::tool::Interrupt;
use haft::{Effects, Engine, EngineBuilder, PermissionRules, Registry, ToolResult, dynamic_tool};
use haft_agent::{
    AgentLoop, Conversation, FailureKind, LoopHooks, MessageReview, PostError, ReplyDelta, RunEnd, RunEvent,
    RunHandle, RunLimit, RunOptions, RunOutcome, RunSink, StopReason, ToolEventSink, UsageMeter,
};
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use serde_json::{Value, json};

/// An engine with a tool that gives back what it is given, and one that writes.
pub(crate) fn engine() -> Engine {
    engine_builder().build()
}

fn engine_builder() -> EngineBuilder {
    let any = json!({"type": "object"});
    let echo = dynamic_tool("echo", "Gives back its input.", any.clone(), |input, _| async move {
        Ok(input.to_string())
    })
    .effects(|_| Effects::none());
    let fail = dynamic_tool("fail", "Fails.", any, |_, _| async move {
        Err::<String, _>(haft::ToolError::new("it broke"))
    })
    .effects(|_| Effects::none());
    Engine::builder(Registry::new().with(echo).unwrap().with(fail).unwrap())
}

pub(crate) fn model(script: Value, wire: Wire) -> ScriptedModel {
    ScriptedModel::new(ModelScript::parse(&script.to_string()).unwrap(), wire)
}

async fn play(script: Value, wire: Wire) -> (RunOutcome, Conversation) {
    let mut conversation = Conversation::new(wire);
    let outcome = AgentLoop::new(engine(), model(script, wire)).run(&mut conversation, "go").await;
    check_history(&conversation);
    (outcome, conversation)
}

/// Every call in a conversation has one result.
#[track_caller]
pub(crate) fn check_history(conversation: &Conversation) {
    let wire: Wire = conversation.format().name().parse().unwrap();
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for item in conversation.items() {
        match wire {
            Wire::Anthropic => {
                for block in item["content"].as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("tool_use") => calls.push(block["id"].clone()),
                        Some("tool_result") => results.push(block["tool_use_id"].clone()),
                        _ => {}
                    }
                }
            }
            Wire::OpenAi => match item["type"].as_str() {
                Some("function_call") => calls.push(item["call_id"].clone()),
                Some("function_call_output") => results.push(item["call_id"].clone()),
                _ => {}
            },
            Wire::OpenAiChat => {
                calls.extend(
                    item["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].clone()),
                );
                results.extend((item["role"] == "tool").then(|| item["tool_call_id"].clone()));
            }
            Wire::Gemini => {
                for part in item["parts"].as_array().into_iter().flatten() {
                    calls.extend(part.get("functionCall").map(|call| call["id"].clone()));
                    results.extend(part.get("functionResponse").map(|call| call["id"].clone()));
                }
            }
        }
    }
    assert_eq!(calls, results, "{}", json!(conversation.items()));
}

fn texts(outcome: &RunOutcome) -> Vec<String> {
    let text = |result: &ToolResult| {
        result.for_model().iter().map(|block| block.to_text().into_owned()).collect::<String>()
    };
    outcome.calls.iter().map(|(_, result)| text(result)).collect()
}

#[tokio::test]
async fn calls_run_and_results_go_back_by_every_wire() {
    let script = json!({"turns": [
        {"text": "Let me see.", "thinking": "hm", "tool_calls": [{"name": "echo", "input": {"n": 1}}, {"name": "fail"}, {"name": "nothing"}]},
        {"expect": [{"result": 0, "pointer": "/n", "equals": 1}, {"result": 1, "is_error": true, "contains": "it broke"}, {"tool": "nothing", "regex": "no tool named .nothing."}],
         "tool_calls": [{"name": "echo", "input": {"n": "é\"\n"}}]},
        {"expect": [{"pointer": "/n", "equals": "é\"\n"}], "text": "All done."},
    ]});
    for wire in Wire::ALL {
        let (outcome, conversation) = play(script.clone(), wire).await;
        assert_eq!(
            (outcome.ended.word(), outcome.text.as_str(), outcome.turns),
            ("end", "All done.", 3),
            "{wire}: {}",
            outcome.ended
        );
        assert_eq!(texts(&outcome)[0], "{\"n\":1}");
        assert_eq!(outcome.calls.len(), 4);
        assert!(outcome.usage.total_tokens() > 0);
        assert!(!conversation.is_empty());
        let shown = outcome.to_json();
        assert_eq!(
            (&shown["stop"], &shown["calls"][0]["tool_name"], &shown["calls"][0]["input"]),
            (&json!("end"), &json!("echo"), &json!({"n": 1}))
        );
        assert_eq!(shown["calls"][1]["error"]["kind"], "Failed");
    }
}

#[tokio::test]
async fn cases_choose_by_what_came() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "fail"}]},
        {"text": "It worked.", "cases": [{"when": {"is_error": true}, "turn": {"text": "It failed."}}]},
    ]});
    assert_eq!(play(script, Wire::OpenAi).await.0.text, "It failed.");
    let script = json!({"turns": [{"text": "no", "cases": [{"when": {"prompt": true, "equals": "go"}, "turn": {"text": "yes"}}]}]});
    assert_eq!(play(script, Wire::Gemini).await.0.text, "yes");
    let script = json!({"turns": [{"expect": [{"contains": "x"}], "text": "a"}]});
    let RunEnd::Failed(failure) = play(script, Wire::Anthropic).await.0.ended else { panic!("no failure") };
    assert_eq!(failure.message, "turn 1 of the script expects something else (`expect/0`): no results came");
}

/// Reads start while the model still writes; a write waits for the end of the message.
#[tokio::test]
async fn safe_calls_run_while_the_message_arrives() {
    for wire in Wire::ALL {
        let (read, reads) = scripted_tool("read").effects(|_| Effects::none()).build();
        let (write, writes) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
        let registry = Registry::new().with(read).unwrap().with(write).unwrap();
        let engine =
            Engine::builder(registry).permissions(PermissionRules::new().allow("write").unwrap()).build();
        // The stream stands still after the read: one piece each hundred seconds.
        let script = json!({"turns": [
            {"tool_calls": [{"name": "read"}, {"name": "write"}, {"name": "read", "input": {"path": "a long enough input to take many pieces"}}], "stream": {"chunk_chars": 4}},
            {"text": "done"},
        ]});
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = log.clone();
        let events = Arc::new(move |event: RunEvent| match event {
            RunEvent::Model(ReplyDelta::CallReady { call, .. }) => {
                seen.lock().unwrap().push(format!("ready {call}"))
            }
            RunEvent::Replied { .. } => seen.lock().unwrap().push("replied".into()),
            _ => {}
        });
        let mut conversation = Conversation::new(wire);
        let agent = AgentLoop::new(engine, model(script, wire)).events(events);
        let run = agent.run(&mut conversation, "go");
        let drive = async {
            let first = reads.started().await;
            if wire != Wire::Gemini {
                assert!(
                    !log.lock().unwrap().contains(&"replied".to_owned()),
                    "{wire}: began while it arrived"
                );
            }
            assert_eq!(writes.calls(), 0);
            first.succeed("one");
            writes.started().await.succeed("written");
            assert!(log.lock().unwrap().contains(&"replied".to_owned()), "{wire}: the write waited");
            reads.started().await.succeed("two");
        };
        let (outcome, ()) = tokio::join!(run, drive);
        assert_eq!(texts(&outcome), ["one", "written", "two"], "{wire}");
        check_history(&conversation);
    }
}

/// Whoever watches knows of a call before anything is told of its run, however soon that begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_is_told_before_it_runs() {
    let calls: Vec<Value> = (0..40)
        .map(|n| json!({"name": if n == 39 { "nothing" } else { "echo" }, "input": {"n": n}}))
        .collect();
    let script = json!({"turns": [{"tool_calls": calls}, {"text": "done"}]});
    for wire in Wire::ALL {
        let log: Arc<Mutex<Vec<(&str, String)>>> = Arc::default();
        let seen = log.clone();
        let sink: Arc<dyn RunSink> = Arc::new(move |event: RunEvent| {
            let told = match event {
                RunEvent::Model(ReplyDelta::CallReady { ready, .. }) => {
                    // Were the call with the engine already, its run would be told meanwhile.
                    (0..2_000).for_each(|_| std::thread::yield_now());
                    ("call", ready.id.to_string())
                }
                RunEvent::Tool(event) => {
                    ("tool", event.call.map(|call| call.id.to_string()).unwrap_or_default())
                }
                _ => return,
            };
            seen.lock().unwrap().push(told);
        });
        let engine = engine_builder().events(ToolEventSink::new(sink.clone())).build();
        let mut conversation = Conversation::new(wire);
        let outcome = AgentLoop::new(engine, model(script.clone(), wire))
            .events(sink)
            .run(&mut conversation, "go")
            .await;
        assert_eq!(outcome.calls.len(), 40);
        let log = log.lock().unwrap();
        for (at, (what, id)) in log.iter().enumerate() {
            let known = || log[..at].iter().any(|(what, known)| *what == "call" && known == id);
            assert!(*what == "call" || known(), "{wire}: {id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn passing_errors_are_tried_again() {
    for wire in Wire::ALL {
        let script = json!({"turns": [{"text": "hello there, this is long enough to be cut", "stream": {"chunk_chars": 4}, "error": {"status": 529, "times": 2, "retry_after_ms": 1500}}]});
        let retried: Arc<Mutex<Vec<(u32, Duration)>>> = Arc::default();
        let seen = retried.clone();
        let events = Arc::new(move |event: RunEvent| {
            if let RunEvent::Model(ReplyDelta::Retrying { attempt, wait, failure }) = event {
                assert_eq!(failure.kind, FailureKind::Overloaded);
                seen.lock().unwrap().push((attempt, wait));
            }
        });
        let mut conversation = Conversation::new(wire);
        let outcome =
            AgentLoop::new(engine(), model(script, wire)).events(events).run(&mut conversation, "go").await;
        assert_eq!(outcome.ended, RunEnd::Finished);
        let waits = Duration::from_millis(1500);
        assert_eq!(*retried.lock().unwrap(), [(2, waits), (3, waits)], "{wire}");
    }
}

/// Text that came before the connection was lost is said again, and once in the history.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_before_any_call_begins_anew() {
    for wire in Wire::ALL {
        let script = json!({"turns": [{"text": "hello there, this is long", "stream": {"chunk_chars": 4}, "error": {"disconnect": true, "after_events": 6, "times": 1}}]});
        let restarts: Arc<Mutex<u32>> = Arc::default();
        let seen = restarts.clone();
        let events = Arc::new(move |event: RunEvent| {
            if let RunEvent::Model(ReplyDelta::Restarted) = event {
                *seen.lock().unwrap() += 1;
            }
        });
        let mut conversation = Conversation::new(wire);
        let outcome =
            AgentLoop::new(engine(), model(script, wire)).events(events).run(&mut conversation, "go").await;
        assert_eq!(
            (outcome.ended, outcome.text.as_str()),
            (RunEnd::Finished, "hello there, this is long"),
            "{wire}"
        );
        assert_eq!(*restarts.lock().unwrap(), 1, "{wire}");
        assert_eq!(conversation.items().len(), 2);
    }
}

/// Once a call was ready its message is never asked for again: what ran has run.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_after_a_call_never_runs_it_twice() {
    for wire in Wire::ALL {
        let (read, reads) =
            scripted_tool("read").effects(|_| Effects::none()).then("one").then("again").build();
        let (write, writes) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
        let registry = Registry::new().with(read).unwrap().with(write).unwrap();
        let engine =
            Engine::builder(registry).permissions(PermissionRules::new().allow("write").unwrap()).build();
        let calls = json!([{"name": "read"}, {"name": "write"}, {"name": "read", "input": {"a": "b"}}]);
        // Where the second call has just become whole, by each wire.
        let after = match wire {
            Wire::Anthropic => 7,
            Wire::OpenAi => 10,
            Wire::OpenAiChat => 7,
            Wire::Gemini => 2,
        };
        let script = json!({"turns": [
            {"tool_calls": calls, "error": {"disconnect": true, "after_events": after, "times": 1}},
            {"text": "I see.", "expect": [{"result": 0, "equals": "one"}, {"result": 1, "is_error": true, "contains": "write was not run; cancelled: the connection was lost"}]},
        ]});
        let mut conversation = Conversation::new(wire);
        let outcome = AgentLoop::new(engine, model(script, wire)).run(&mut conversation, "go").await;
        assert_eq!(
            (outcome.ended.clone(), outcome.text.as_str()),
            (RunEnd::Finished, "I see."),
            "{wire}: {}",
            outcome.ended
        );
        assert_eq!((reads.calls(), writes.calls()), (1, 0), "{wire}");
        check_history(&conversation);
        // Whoever watches reads the same as the model.
        assert!(texts(&outcome)[1].contains("the connection was lost"), "{wire}: {:?}", texts(&outcome));
    }
}

#[tokio::test(start_paused = true)]
async fn lasting_errors_end_the_run() {
    let failed = |script: Value| async move {
        match play(script, Wire::Anthropic).await.0.ended {
            RunEnd::Failed(failure) => failure,
            other => panic!("{other}"),
        }
    };
    let failure = failed(json!({"turns": [{"error": {"status": 401, "message": "no key"}}]})).await;
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Unauthorized, "no key"));
    let failure = failed(json!({"turns": [{"error": {"status": 500}}]})).await;
    assert_eq!(failure.kind, FailureKind::Server, "after all attempts");
    let failure = failed(json!({"turns": [{"error": {"status": 429, "retry_after_ms": 3_000_000}}]})).await;
    assert_eq!(failure.kind, FailureKind::RateLimited, "nobody waits that long");
    let failure = failed(json!({"turns": [{"tool_calls": [{"name": "echo"}]}]})).await;
    assert_eq!(failure.message, "the script has 1 turns, and turn 2 was asked for");
    let failure = failed(
        json!({"turns": [{"text": "hello", "error": {"type": "overloaded_error", "after_events": 3}}]}),
    )
    .await;
    assert_eq!(failure.kind, FailureKind::Overloaded);
}

#[tokio::test]
async fn ends_of_a_message_are_ends_of_a_run() {
    for wire in Wire::ALL {
        let (outcome, _) = play(json!({"turns": [{"text": "long", "stop": "max_tokens"}]}), wire).await;
        assert_eq!(outcome.ended, RunEnd::Stopped(StopReason::MaxTokens { in_call: false }), "{wire}");
        let (outcome, _) = play(json!({"turns": [{"text": "I won't.", "stop": "refusal"}]}), wire).await;
        assert_eq!(outcome.ended.word(), "refused", "{wire}");
        // Cut off in the middle of a call: answered, not run, and the model tries again.
        let script = json!({"turns": [
            {"tool_calls": [{"name": "echo"}, {"name": "echo", "input": {"long": "input"}}], "stop": "max_tokens"},
            {"expect": [{"result": 1, "is_error": true, "contains": "echo was not run: the message ended before the call was complete"}], "text": "shorter"},
        ]});
        let (outcome, _) = play(script, wire).await;
        assert_eq!((outcome.text.as_str(), outcome.calls.len()), ("shorter", 2), "{wire}: {}", outcome.ended);
        let cut = &outcome.to_json()["calls"][1];
        assert_eq!((&cut["tool_name"], &cut["is_error"]), (&json!("echo"), &json!(true)), "{wire}");
        assert!(cut["error"]["message"].as_str().unwrap().contains("before the call was complete"), "{cut}");
    }
    // The window is full in the middle of an answer: summarised, then answered.
    let script = json!({"turns": [
        {"text": "a", "stop": "context_full", "cases": [{"when": {"prompt": true, "contains": "replaced by this summary"}, "turn": {"text": "b"}}]},
        {"text": "sum", "expect": [{"prompt": true, "contains": "cut off because the window was full"}]},
    ]});
    let (outcome, conversation) = play(script, Wire::Anthropic).await;
    assert_eq!((outcome.text.as_str(), conversation.items().len()), ("b", 2), "{}", outcome.ended);
    let (outcome, conversation) =
        play(json!({"turns": [{"text": "wait", "stop": "pause_turn"}, {"text": "done"}]}), Wire::Anthropic)
            .await;
    // The paused message and what follows it are one: the script sees that the model has spoken once.
    assert_eq!((outcome.text.as_str(), conversation.items().len()), ("done", 3), "{}", outcome.ended);
}

#[tokio::test(start_paused = true)]
async fn limits() {
    let endless = || {
        let turn = json!({"tool_calls": [{"name": "echo"}], "delay_ms": 1000});
        json!({"turns": vec![turn; 50]})
    };
    let run = |options: RunOptions| async move {
        let mut conversation = Conversation::new(Wire::OpenAi);
        let outcome = AgentLoop::new(engine(), model(endless(), Wire::OpenAi))
            .options(options)
            .run(&mut conversation, "go")
            .await;
        check_history(&conversation);
        (outcome.ended, outcome.turns)
    };
    assert_eq!(run(RunOptions::new().max_turns(3)).await, (RunEnd::Limit(RunLimit::Turns), 3));
    assert_eq!(run(RunOptions::new().max_tokens(1)).await, (RunEnd::Limit(RunLimit::Tokens), 1));
    assert_eq!(
        run(RunOptions::new().max_time(Duration::from_millis(4_500))).await,
        (RunEnd::Limit(RunLimit::Time), 5)
    );
    let mut options = RunOptions::new();
    options.prices =
        Some(haft_agent::TokenPrices { input: 1e6, output: 1e6, cache_read: 0.0, cache_write: 0.0 });
    options.max_cost = Some(0.5);
    assert_eq!(run(options).await, (RunEnd::Limit(RunLimit::Cost), 1));
}

/// An interrupt while the model writes: what came is kept, calls that ran have their results, the rest say
/// why not.
#[tokio::test]
async fn interrupt_while_the_model_writes() {
    for wire in Wire::ALL {
        let (read, reads) = scripted_tool("read")
            .effects(|_| Effects::none())
            .with(|tool| tool.interrupt(Interrupt::Block))
            .build();
        let (write, writes) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
        let engine = Engine::new(Registry::new().with(read).unwrap().with(write).unwrap());
        let script = json!({"turns": [{"tool_calls": [{"name": "read"}, {"name": "write", "input": {"a": 1}}, {"name": "read", "input": {"a": 1}}], "stream": {"chunk_chars": 1}, "text": ""}]});
        let handle = RunHandle::new();
        let mut conversation = Conversation::new(wire);
        let agent = AgentLoop::new(engine, model(script, wire)).handle(handle.clone());
        let drive = async {
            let started = reads.started().await;
            handle.interrupt();
            haft::testing::let_tasks_run().await;
            started.succeed("one");
        };
        let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
        assert_eq!(outcome.ended, RunEnd::Interrupted, "{wire}");
        assert_eq!(texts(&outcome)[0], "one");
        assert_eq!(writes.calls(), 0);
        check_history(&conversation);
        // The conversation goes on from there.
        conversation.say("go on");
        let said = json!({"turns": [{"text": "never"}, {"text": "Here I am."}]});
        let outcome =
            AgentLoop::new(Engine::new(Registry::new()), model(said, wire)).resume(&mut conversation).await;
        assert_eq!(outcome.text, "Here I am.", "{wire}: {}", outcome.ended);
    }
}

#[tokio::test]
async fn interrupt_while_tools_run_and_force() {
    let (slow, slows) = scripted_tool("slow")
        .effects(|_| Effects::none())
        .with(|tool| tool.interrupt(Interrupt::Block))
        .build();
    let (quick, quicks) = scripted_tool("quick")
        .effects(|_| Effects::none())
        .with(|tool| tool.interrupt(Interrupt::Cancel))
        .build();
    let engine = Engine::new(Registry::new().with(slow).unwrap().with(quick).unwrap());
    let script = json!({"turns": [{"tool_calls": [{"name": "slow"}, {"name": "quick"}]}]});
    let handle = RunHandle::new();
    let mut conversation = Conversation::new(Wire::Anthropic);
    let agent = AgentLoop::new(engine, model(script, Wire::Anthropic)).handle(handle.clone());
    let drive = async {
        let (_slow, _quick) = (slows.started().await, quicks.started().await);
        handle.interrupt();
        haft::testing::let_tasks_run().await;
        assert_eq!(slows.running(), 1, "it would rather finish");
        handle.interrupt();
    };
    let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
    assert_eq!(outcome.ended, RunEnd::Interrupted);
    assert!(
        texts(&outcome).iter().all(|text| text.contains("the user interrupted")),
        "{:?}",
        texts(&outcome)
    );
    check_history(&conversation);
}

#[tokio::test]
async fn words_said_while_tools_run_go_in_with_the_results() {
    let (slow, slows) = scripted_tool("slow")
        .effects(|_| Effects::none())
        .with(|tool| tool.interrupt(Interrupt::Cancel))
        .build();
    let engine = Engine::new(Registry::new().with(slow).unwrap());
    let script = json!({"turns": [{"tool_calls": [{"name": "slow"}]}, {"text": "As you wish.", "expect": [{"prompt": true, "contains": "stop that"}, {"is_error": true}]}]});
    let handle = RunHandle::new();
    let mut conversation = Conversation::new(Wire::OpenAiChat);
    let agent = AgentLoop::new(engine, model(script, Wire::OpenAiChat)).handle(handle.clone());
    let drive = async {
        let _slow = slows.started().await;
        handle.say("stop that").unwrap();
    };
    let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
    assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "As you wish."));
    check_history(&conversation);
}

/// Dropping a run leaves the conversation as it was after its last whole turn.
#[tokio::test]
async fn a_dropped_run_leaves_whole_turns() {
    let (slow, slows) = scripted_tool("slow").effects(|_| Effects::none()).then("first").build();
    let engine = Engine::new(Registry::new().with(slow).unwrap());
    let script = json!({"turns": [{"tool_calls": [{"name": "slow"}]}, {"tool_calls": [{"name": "slow"}]}]});
    let mut conversation = Conversation::new(Wire::Anthropic);
    let agent = AgentLoop::new(engine, model(script, Wire::Anthropic));
    {
        let mut run = std::pin::pin!(agent.run(&mut conversation, "go"));
        // The first ends by itself.
        let mut started = std::pin::pin!(slows.started());
        std::future::poll_fn(|cx| {
            assert!(run.as_mut().poll(cx).is_pending());
            started.as_mut().poll(cx).map(drop)
        })
        .await;
    }
    assert_eq!(conversation.items().len(), 3);
    check_history(&conversation);
}

struct Host(Mutex<Vec<String>>);

impl LoopHooks for Host {
    fn before_message<'a>(&'a self, text: &'a str) -> BoxFuture<'a, MessageReview> {
        Box::pin(async move {
            self.0.lock().unwrap().push(format!("prompt {text}"));
            match text {
                "bad" => MessageReview::block("not that"),
                _ => MessageReview::with("context"),
            }
        })
    }

    fn before_stop<'a>(&'a self, text: &'a str, again: bool) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(format!("stopping {text} {again}"));
            (!again).then(|| "are you sure?".to_owned())
        })
    }

    fn after_calls<'a>(&'a self, results: &'a [ToolResult]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(format!("answered {}", results.len()));
            None
        })
    }
}

#[tokio::test]
async fn a_host_steps_in() {
    for wire in Wire::ALL {
        let host = Arc::new(Host(Mutex::default()));
        let script = json!({"turns": [{"tool_calls": [{"name": "echo"}]}, {"text": "done"}, {"expect": [{"prompt": true, "equals": "are you sure?"}], "text": "yes"}]});
        let agent = AgentLoop::new(engine(), model(script, wire)).hooks(host.clone());
        let outcome = agent.run(&mut Conversation::new(wire), "go").await;
        assert_eq!(outcome.text, "yes", "{wire}: {}", outcome.ended);
        assert_eq!(
            *host.0.lock().unwrap(),
            ["prompt go", "answered 1", "stopping done false", "stopping yes true"]
        );
        let mut untouched = Conversation::new(wire);
        assert_eq!(agent.run(&mut untouched, "bad").await.ended, RunEnd::Blocked("not that".into()));
        assert!(untouched.is_empty());
    }
}

#[tokio::test]
async fn a_bare_no_ends_the_turn() {
    let (write, _) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
    let asker = haft::testing::ScriptedAsker::new().then(haft::ports::ApprovalAnswer::No);
    let engine = Engine::builder(Registry::new().with(write).unwrap()).asker(asker).build();
    let mut conversation = Conversation::new(Wire::Anthropic);
    let script = json!({"turns": [{"tool_calls": [{"name": "write"}, {"name": "write"}]}]});
    let outcome = AgentLoop::new(engine, model(script, Wire::Anthropic)).run(&mut conversation, "go").await;
    assert_eq!(outcome.ended, RunEnd::TurnEnded(None), "{}", outcome.ended);
    assert!(outcome.denials().count() >= 1);
    check_history(&conversation);
}

/// Near the end of the window old results make room; the newest stay.
#[tokio::test]
async fn room_is_made_before_the_window_is_full() {
    for wire in Wire::ALL {
        let long = "x".repeat(4_000);
        let turn = json!({"tool_calls": [{"name": "echo", "input": {"long": long}}]});
        let mut turns = vec![turn; 8];
        turns.push(json!({"text": "done"}));
        let cleared: Arc<Mutex<usize>> = Arc::default();
        let seen = cleared.clone();
        let events = Arc::new(move |event: RunEvent| {
            if let RunEvent::Cleared { results } = event {
                *seen.lock().unwrap() += results;
            }
        });
        let mut options = RunOptions::new().window_tokens(14_000);
        options.kept_results = 2;
        options.summarise = false;
        let mut conversation = Conversation::new(wire);
        let agent =
            AgentLoop::new(engine(), model(json!({"turns": turns}), wire)).options(options).events(events);
        let outcome = agent.run(&mut conversation, "go").await;
        assert_eq!(outcome.text, "done", "{wire}: {}", outcome.ended);
        assert!(*cleared.lock().unwrap() >= 2, "{wire}");
        let text = json!(conversation.items()).to_string();
        assert!(text.contains("[cleared to make room; call the tool again if it is needed"), "{wire}");
        check_history(&conversation);
    }
}

/// The provider says that the window is full: results are cleared, then the model summarises, then it is
/// over.
#[tokio::test]
async fn a_full_window_is_summarised() {
    let full = json!({"error": {"status": 400, "message": "prompt is too long: 250000 tokens > 200000", "times": 1}, "text": "The user wants it done."});
    // The summary is asked for in the same place, and the summarised conversation begins anew.
    let script = json!({"turns": [full]});
    let summaries: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = summaries.clone();
    let events = Arc::new(move |event: RunEvent| {
        if let RunEvent::Summarised { summary } = event {
            seen.lock().unwrap().push(summary);
        }
    });
    let mut conversation = Conversation::new(Wire::Anthropic);
    let mut script = ModelScript::parse(&script.to_string()).unwrap();
    script.turns[0].error.as_mut().unwrap().times = None;
    let outcome = AgentLoop::new(engine(), ScriptedModel::new(script.clone(), Wire::Anthropic))
        .run(&mut conversation, "go")
        .await;
    assert_eq!(outcome.ended, RunEnd::Stopped(StopReason::ContextFull), "nothing helps");
    script.turns[0].cases = ModelScript::parse(&json!({"turns": [{"text": "x", "cases": [
        {"when": {"prompt": true, "contains": "Write a summary"}, "turn": {"text": "The user wants it done."}},
        {"when": {"prompt": true, "contains": "replaced by this summary:\n\nThe user wants it done."}, "turn": {"text": "done"}}]}]}).to_string()).unwrap().turns.remove(0).cases;
    let mut conversation = Conversation::new(Wire::Anthropic);
    let outcome = AgentLoop::new(engine(), ScriptedModel::new(script, Wire::Anthropic))
        .events(events)
        .run(&mut conversation, "go")
        .await;
    assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "done"));
    assert_eq!(*summaries.lock().unwrap(), ["The user wants it done."]);
    assert_eq!(conversation.items().len(), 2);
}

#[tokio::test]
async fn events_are_json() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = log.clone();
    let sink: Arc<dyn haft_agent::RunSink> = Arc::new(move |event: RunEvent| {
        if let Some(shown) = event.to_json() {
            seen.lock().unwrap().push(shown["type"].as_str().unwrap().to_owned());
        }
    });
    let engine = engine_builder().events(haft_agent::ToolEventSink::new(sink.clone())).build();
    let script = json!({"turns": [{"tool_calls": [{"name": "echo", "input": {"a": 1}}]}, {"text": "done"}]});
    AgentLoop::new(engine, model(script, Wire::OpenAi))
        .events(sink)
        .run(&mut Conversation::new(Wire::OpenAi), "go")
        .await;
    let mut kinds = log.lock().unwrap().clone();
    kinds.dedup();
    for kind in [
        "user",
        "turn",
        "started",
        "call_begun",
        "call_input",
        "call",
        "tool_started",
        "tool_finished",
        "usage",
        "replied",
        "results",
        "text",
        "ended",
    ] {
        assert!(kinds.contains(&kind.to_owned()), "{kind} in {kinds:?}");
    }
    assert_eq!(kinds.last().unwrap(), "ended");
}

/// Words of other agents go in before the next turn, stop nothing, and keep a run going that would have
/// ended.
#[tokio::test]
async fn posted_words_go_in_with_the_next_turn() {
    let (slow, handle) = scripted_tool("slow")
        .effects(|_| Effects::none())
        .with(|tool| tool.interrupt(Interrupt::Cancel))
        .build();
    let engine = Engine::new(Registry::new().with(slow).unwrap());
    let heard = |word: &str| json!([{"prompt": true, "contains": word}]);
    let script = json!({"turns": [
        {"tool_calls": [{"name": "slow"}]},
        {"text": "Nearly.", "expect": heard("first")},
        {"text": "Done.", "expect": heard("second")}]});
    let run = RunHandle::new();
    let (late, posted) = (run.clone(), std::sync::atomic::AtomicBool::new(false));
    let sink = move |event: RunEvent| {
        if let RunEvent::Model(ReplyDelta::Text(_)) = event
            && !posted.swap(true, std::sync::atomic::Ordering::SeqCst)
        {
            late.post("second").unwrap();
        }
    };
    let looped =
        AgentLoop::new(engine, model(script, Wire::Anthropic)).handle(run.clone()).events(Arc::new(sink));
    let mut conversation = Conversation::new(Wire::Anthropic);
    let outcome = async {
        let working = looped.run(&mut conversation, "go");
        let meanwhile = async {
            let call = handle.started().await;
            run.post("first").unwrap();
            haft::testing::let_tasks_run().await;
            assert!(!call.is_dropped(), "nothing is stopped by it");
            call.succeed("done");
        };
        tokio::join!(working, meanwhile).0
    }
    .await;
    assert_eq!((outcome.text.as_str(), outcome.turns), ("Done.", 3), "{:?}", outcome.ended);
    assert_eq!(run.post("too late"), Err(PostError::Ended));
}

#[tokio::test]
async fn a_full_queue_takes_no_more() {
    let run = RunHandle::new();
    let most = haft_agent::limits::WAITING_MESSAGES_MAX;
    assert!((0..most).all(|at| run.post(at.to_string()).is_ok()));
    assert_eq!(run.post("more"), Err(PostError::Full));
}

/// Limits are judged over everybody who works for the same run.
#[tokio::test]
async fn what_others_spend_counts_towards_the_limit() {
    let script = json!({"turns": [{"tool_calls": [{"name": "echo"}]}, {"text": "Done."}]});
    let account = UsageMeter::new();
    let other = account.child();
    let spent = haft_agent::TokenUsage { input_tokens: 900_000, ..haft_agent::TokenUsage::default() };
    other.add(&spent, None);
    let mut conversation = Conversation::new(Wire::Anthropic);
    let options = RunOptions::new().max_tokens(1_000_000);
    let run = |account: UsageMeter| {
        AgentLoop::new(engine(), model(script.clone(), Wire::Anthropic))
            .options(options.clone())
            .usage_meter(account)
    };
    let outcome = run(account.child()).run(&mut conversation, "go").await;
    assert_eq!(outcome.ended, RunEnd::Finished);
    assert!(outcome.usage.input_tokens < 900_000, "what it cost itself");
    assert!(account.total().usage.input_tokens > 900_000);
    other.add(&spent, None);
    let mut conversation = Conversation::new(Wire::Anthropic);
    let outcome = run(account.child()).run(&mut conversation, "go").await;
    assert_eq!((outcome.ended, outcome.turns), (RunEnd::Limit(RunLimit::Tokens), 0));
}

#[tokio::test]
async fn a_script_plays_other_turns_to_other_first_words() {
    let script = json!({
        "turns": [{"text": "main"}],
        "agents": [{"when": {"contains": "CHILD"}, "turns": [{"tool_calls": [{"name": "echo"}]}, {"text": "child"}]}],
    });
    for wire in [Wire::Anthropic, Wire::OpenAi, Wire::OpenAiChat, Wire::Gemini] {
        for (prompt, expected, turns) in [("go", "main", 1), ("a CHILD's task", "child", 2)] {
            let mut conversation = Conversation::new(wire);
            let outcome =
                AgentLoop::new(engine(), model(script.clone(), wire)).run(&mut conversation, prompt).await;
            assert_eq!((outcome.text.as_str(), outcome.turns), (expected, turns), "{wire:?} {prompt}");
        }
    }
}
