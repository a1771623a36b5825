//! The loop where somebody holds it: a stream that stands still, a host that doesn't answer, a tool that
//! doesn't end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::results::OffloadStore;
use haft::testing::{ScriptedAsker, let_tasks_run, scripted_tool};
use haft::tool::{BreakerOptions, Interrupt, RetryPolicy};
use haft::{
    Chars, Effects, Engine, NoInput, PermissionRules, Registry, ToolError, ToolResult, dynamic_tool, tool,
};
use haft_agent::{
    AgentLoop, Conversation, LoopHooks, MessageFormat, MessageReview, Model, ModelReply, ModelRequest,
    ReplyDelta, ReplyStream, RunEnd, RunEvent, RunHandle, RunLimit, RunOptions, StopReason,
};
use haft_provider::Wire;
use haft_provider::stream::MessageReader;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::loops::{check_history, engine, model};

/// A model whose messages a test writes event by event.
struct Held {
    wire: Wire,
    replies: Mutex<VecDeque<mpsc::UnboundedReceiver<Vec<u8>>>>,
}

struct HeldReply {
    reader: MessageReader,
    bytes: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Held {
    /// The model, and what writes its messages.
    fn new(wire: Wire, messages: usize) -> (Held, Vec<mpsc::UnboundedSender<Vec<u8>>>) {
        let (pens, replies) =
            (0..messages).map(|_| mpsc::unbounded_channel()).unzip::<_, _, Vec<_>, VecDeque<_>>();
        (Held { wire, replies: replies.into() }, pens)
    }
}

impl Model for Held {
    fn format(&self) -> &'static dyn MessageFormat {
        self.wire.into()
    }

    fn name(&self) -> &str {
        "held"
    }

    fn ask(&self, _: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        let bytes = self.replies.lock().unwrap().pop_front().expect("no more messages were planned");
        Box::new(HeldReply { reader: MessageReader::new(self.wire), bytes })
    }
}

impl ReplyStream for HeldReply {
    fn more<'a>(&'a mut self, out: &'a mut Vec<ReplyDelta>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            match self.bytes.recv().await {
                Some(bytes) => {
                    self.reader.feed(&bytes, out);
                    !self.reader.is_over()
                }
                None => false,
            }
        })
    }

    fn finish(self: Box<Self>) -> ModelReply {
        self.reader.finish(&mut Vec::new())
    }
}

fn events(events: Vec<Value>) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

/// A message of three calls in three pieces: two calls whole, a third that begins, the end.
fn message(wire: Wire) -> [Vec<u8>; 3] {
    let call = |at: u64, name: &str| -> Vec<Value> {
        match wire {
            Wire::Anthropic => vec![
                json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": format!("c{at}"), "name": name, "input": {}}}),
                json!({"type": "content_block_delta", "index": at, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
                json!({"type": "content_block_stop", "index": at}),
            ],
            Wire::OpenAi => {
                let item = |status: &str, arguments: &str| json!({"type": "function_call", "call_id": format!("c{at}"), "name": name, "arguments": arguments, "status": status});
                vec![
                    json!({"type": "response.output_item.added", "output_index": at, "item": item("in_progress", "")}),
                    json!({"type": "response.function_call_arguments.delta", "output_index": at, "delta": "{}"}),
                    json!({"type": "response.output_item.done", "output_index": at, "item": item("completed", "{}")}),
                ]
            }
            Wire::OpenAiChat => {
                let delta = json!({"tool_calls": [{"index": at, "id": format!("c{at}"), "function": {"name": name, "arguments": "{}"}}]});
                vec![json!({"choices": [{"index": 0, "delta": delta}]})]
            }
            Wire::Gemini => {
                let part = json!({"functionCall": {"id": format!("c{at}"), "name": name, "args": {}}});
                vec![json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]})]
            }
        }
    };
    let (mut whole, third) = ([call(0, "read"), call(1, "write")].concat(), call(2, "read"));
    let end = match wire {
        Wire::Anthropic => vec![
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ],
        Wire::OpenAi => vec![json!({"type": "response.completed", "response": {"status": "completed"}})],
        Wire::OpenAiChat => {
            vec![json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})]
        }
        Wire::Gemini => vec![json!({"candidates": [{"finishReason": "STOP"}]})],
    };
    let at = third.len().div_ceil(2);
    let (begun, rest) = third.split_at(at);
    whole.extend_from_slice(begun);
    [events(whole), events(rest.to_vec()), events(end)]
}

fn last_words(wire: Wire) -> Vec<u8> {
    events(match wire {
        Wire::Anthropic => vec![
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "done"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ],
        Wire::OpenAi => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "done"}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ],
        Wire::OpenAiChat => {
            vec![
                json!({"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}),
                json!({"choices": []}),
            ]
        }
        Wire::Gemini => {
            vec![json!({"candidates": [{"content": {"parts": [{"text": "done"}]}, "finishReason": "STOP"}]})]
        }
    })
}

/// The stream stands still after a read, a write and the beginning of another read: the first read runs and
/// ends, the write has not begun. With the end of the message it does, and the second read after it. Without
/// an end it never does.
#[tokio::test]
async fn only_what_changes_nothing_runs_before_the_message_is_complete() {
    for wire in Wire::ALL {
        for ends_well in [true, false] {
            let (read, reads) = scripted_tool("read").effects(|_| Effects::none()).build();
            let (write, writes) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
            let registry = Registry::new().with(read).unwrap().with(write).unwrap();
            let engine =
                Engine::builder(registry).permissions(PermissionRules::new().allow("write").unwrap()).build();
            let (model, mut pens) = Held::new(wire, 2);
            let (second, first) = (pens.pop().unwrap(), pens.pop().unwrap());
            let mut conversation = Conversation::new(wire);
            let agent = AgentLoop::new(engine, model);
            let [whole, rest, end] = message(wire);
            let drive = async {
                first.send(whole).unwrap();
                reads.started().await.succeed("one");
                let_tasks_run().await;
                assert_eq!((reads.calls(), writes.calls()), (1, 0), "{wire}");
                first.send(rest).unwrap();
                let_tasks_run().await;
                assert_eq!(
                    (reads.calls(), writes.calls()),
                    (1, 0),
                    "{wire}: three whole calls are no whole message"
                );
                if ends_well {
                    first.send(end).unwrap();
                    drop(first);
                    writes.started().await.succeed("two");
                    reads.started().await.succeed("three");
                } else {
                    drop(first);
                }
                second.send(last_words(wire)).unwrap();
                drop(second);
            };
            let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
            assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "done"), "{wire}");
            let counts = if ends_well { (2, 1) } else { (1, 0) };
            assert_eq!((reads.calls(), writes.calls()), counts, "{wire}");
            check_history(&conversation);
        }
    }
}

/// Where a host never answers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Prompt,
    Answered,
    Stopping,
    Compacting,
}

struct Deaf {
    at: Place,
    reached: Notify,
}

impl Deaf {
    fn answer<T: Send + Default + 'static>(&self, place: Place) -> BoxFuture<'_, T> {
        Box::pin(async move {
            if self.at == place {
                self.reached.notify_one();
                std::future::pending::<()>().await;
            }
            T::default()
        })
    }
}

impl LoopHooks for Deaf {
    fn before_message<'a>(&'a self, _: &'a str) -> BoxFuture<'a, MessageReview> {
        self.answer(Place::Prompt)
    }

    fn after_calls<'a>(&'a self, _: &'a [ToolResult]) -> BoxFuture<'a, Option<String>> {
        self.answer(Place::Answered)
    }

    fn before_stop<'a>(&'a self, _: &'a str, _: bool) -> BoxFuture<'a, Option<String>> {
        self.answer(Place::Stopping)
    }

    fn before_compaction(&self, _: u64) -> BoxFuture<'_, bool> {
        let answer = self.answer::<()>(Place::Compacting);
        Box::pin(async move {
            answer.await;
            true
        })
    }
}

/// No host can hold a run: an interrupt ends it, and so does its time.
#[tokio::test(start_paused = true)]
async fn a_host_that_never_answers() {
    for place in [Place::Prompt, Place::Answered, Place::Stopping, Place::Compacting] {
        for by_time in [false, true] {
            let host = Arc::new(Deaf { at: place, reached: Notify::new() });
            let script = json!({"turns": [{"tool_calls": [{"name": "echo"}]}, {"text": "done"}]});
            let mut options = RunOptions::new();
            if by_time {
                options = options.max_time(Duration::from_secs(60));
            }
            if place == Place::Compacting {
                options = options.window_tokens(1);
            }
            let handle = RunHandle::new();
            let agent = AgentLoop::new(engine(), model(script, Wire::Anthropic))
                .hooks(host.clone())
                .options(options)
                .handle(handle.clone());
            let mut conversation = Conversation::new(Wire::Anthropic);
            let drive = async {
                host.reached.notified().await;
                if !by_time {
                    handle.interrupt();
                }
            };
            let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
            let expected = match (place, by_time) {
                // The model had finished.
                (Place::Stopping, _) => RunEnd::Finished,
                (_, false) => RunEnd::Interrupted,
                (_, true) => RunEnd::Limit(RunLimit::Time),
            };
            assert_eq!(outcome.ended, expected, "{place:?}");
            check_history(&conversation);
            if place == Place::Prompt {
                assert!(conversation.is_empty(), "words without a verdict don't go in");
            }
        }
    }
}

/// While a question waits for the user, and while the model writes a summary.
#[tokio::test(start_paused = true)]
async fn interrupts_while_a_question_waits_and_while_it_is_summarised() {
    let (write, writes) = scripted_tool("write").effects(|_| Effects::writes("a")).build();
    let asker = ScriptedAsker::waiting();
    let asked = asker.clone();
    let engine_asking = Engine::builder(Registry::new().with(write).unwrap()).asker(asker).build();
    let handle = RunHandle::new();
    let script = json!({"turns": [{"tool_calls": [{"name": "write"}]}]});
    let agent = AgentLoop::new(engine_asking, model(script, Wire::OpenAi)).handle(handle.clone());
    let mut conversation = Conversation::new(Wire::OpenAi);
    let drive = async {
        let question = asked.asked().await;
        handle.interrupt();
        question
    };
    let (outcome, question) = tokio::join!(agent.run(&mut conversation, "go"), drive);
    assert!(question.is_withdrawn());
    assert_eq!((outcome.ended, writes.calls()), (RunEnd::Interrupted, 0));
    check_history(&conversation);

    let handle = RunHandle::new();
    let script = json!({"turns": [{"text": "a summary", "delay_ms": 60_000}]});
    let options = RunOptions::new().window_tokens(1);
    let agent = AgentLoop::new(engine(), model(script, Wire::OpenAi)).options(options).handle(handle.clone());
    let mut conversation = Conversation::new(Wire::OpenAi);
    let drive = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.interrupt();
    };
    let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
    assert_eq!((outcome.ended, outcome.turns), (RunEnd::Interrupted, 0), "nothing else was asked");
    assert_eq!(conversation.items().len(), 1, "the conversation is as it was");
}

/// A tool that never ends doesn't outlive the run's time by much, and its result says why it was stopped.
#[tokio::test(start_paused = true)]
async fn the_time_is_over_for_tools_too() {
    for interrupt in [Interrupt::Block, Interrupt::Cancel] {
        let (slow, slows) = scripted_tool("slow")
            .effects(|_| Effects::none())
            .with(move |tool| tool.interrupt(interrupt))
            .build();
        let script = json!({"turns": [{"tool_calls": [{"name": "slow"}]}]});
        let agent =
            AgentLoop::new(Engine::new(Registry::new().with(slow).unwrap()), model(script, Wire::Anthropic))
                .options(RunOptions::new().max_time(Duration::from_secs(60)));
        let mut conversation = Conversation::new(Wire::Anthropic);
        let begun = tokio::time::Instant::now();
        let (outcome, _held) = tokio::join!(agent.run(&mut conversation, "go"), slows.started());
        assert_eq!(outcome.ended, RunEnd::Limit(RunLimit::Time));
        assert!(begun.elapsed() < Duration::from_secs(75), "{:?}", begun.elapsed());
        let said = json!(conversation.items()).to_string();
        assert!(said.contains("slow was cancelled: the time for this run was over"), "{interrupt:?}: {said}");
        check_history(&conversation);
    }
}

/// A long result that is cleared later says where its whole is, also in a later run of the same conversation.
#[tokio::test]
async fn a_cleared_result_says_where_its_whole_is() {
    let folder = std::env::temp_dir().join(format!("haft-cleared-{}", std::process::id()));
    for wire in Wire::ALL {
        let give = dynamic_tool("give", "Gives a lot.", json!({"type": "object"}), |_, _| async {
            Ok("a line of it\n".repeat(1_000))
        })
        .effects(|_| Effects::none())
        .result_limit(Chars(2_000));
        let engine = Engine::builder(Registry::new().with(give).unwrap())
            .result_store(OffloadStore::at(&folder))
            .build();
        let script =
            json!({"turns": [{"tool_calls": [{"name": "give"}]}, {"text": "done"}, {"text": "again"}]});
        let mut conversation = Conversation::new(wire);
        let first =
            AgentLoop::new(engine.clone(), model(script.clone(), wire)).run(&mut conversation, "go").await;
        let path = first.calls[0].1.offloaded_to().unwrap().display().to_string();
        let compacted: Arc<AtomicU64> = Arc::default();
        let mut options = RunOptions::new().window_tokens(100);
        (options.kept_results, options.summarise) = (0, false);
        let agent = AgentLoop::new(engine, model(script, wire))
            .options(options)
            .hooks(Arc::new(Counts(compacted.clone())));
        let second = agent.run(&mut conversation, "on").await;
        assert_eq!(second.text, "again", "{wire}: {}", second.ended);
        let note = format!("[cleared to make room; the whole output is in {path}]");
        assert!(json!(conversation.items()).to_string().contains(&note), "{wire}");
        assert_eq!(compacted.load(Ordering::Relaxed), 1, "{wire}");
        // Nothing is left that could be cleared, so nobody is told that something will be.
        agent.run(&mut conversation, "and on").await;
        assert_eq!(compacted.load(Ordering::Relaxed), 1, "{wire}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Counts how often room is made.
struct Counts(Arc<AtomicU64>);

impl LoopHooks for Counts {
    fn before_compaction(&self, _: u64) -> BoxFuture<'_, bool> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { true })
    }
}

/// What the user said last stays as it was said when the rest is summarised.
#[tokio::test]
async fn unanswered_words_outlive_a_summary() {
    for wire in Wire::ALL {
        let script = json!({"turns": [
            {"text": "x", "cases": [
                {"when": {"prompt": true, "contains": "Write a summary"}, "turn": {"text": "Nothing yet."}},
                {"when": {"prompt": true, "contains": "count the files"}, "turn": {"text": "There are three."}},
            ]},
        ]});
        let compacted: Arc<AtomicU64> = Arc::default();
        let agent = AgentLoop::new(engine(), model(script, wire))
            .options(RunOptions::new().window_tokens(1))
            .hooks(Arc::new(Counts(compacted.clone())));
        let mut conversation = Conversation::new(wire);
        let outcome = agent.run(&mut conversation, "count the files").await;
        assert_eq!(outcome.text, "There are three.", "{wire}: {}", outcome.ended);
        assert!(json!(conversation.items()).to_string().contains("Nothing yet."), "{wire}");
        assert_eq!(compacted.load(Ordering::Relaxed), 1, "{wire}");
    }
}

/// A tool that came between turns can be called in the next one; one that went is unknown.
#[tokio::test]
async fn tools_are_refreshed_between_turns() {
    let shared: Arc<OnceLock<Engine>> = Arc::default();
    let of_tool = shared.clone();
    let learn = tool("learn", "Learns another tool.", move |_: NoInput, _| {
        let engine = of_tool.get().unwrap().clone();
        async move {
            let sing =
                tool("sing", "Sings.", |_: NoInput, _| async { Ok("la") }).effects(|_| Effects::none());
            engine.refresh_with(Registry::new().with(sing).unwrap());
            Ok("learnt")
        }
    })
    .effects(|_| Effects::none());
    let engine = Engine::new(Registry::new().with(learn).unwrap());
    shared.set(engine.clone()).ok().unwrap();
    let script = json!({"turns": [
        {"tool_calls": [{"name": "sing"}, {"name": "learn"}]},
        {"expect": [{"tool": "sing", "is_error": true}, {"tool": "learn", "equals": "learnt"}], "tool_calls": [{"name": "sing"}, {"name": "learn"}]},
        {"expect": [{"tool": "sing", "equals": "la"}, {"tool": "learn", "is_error": true}], "text": "done"},
    ]});
    let outcome = AgentLoop::new(engine, model(script, Wire::Gemini))
        .run(&mut Conversation::new(Wire::Gemini), "go")
        .await;
    assert_eq!(outcome.text, "done", "{}", outcome.ended);
}

/// A tool's own policy holds in the loop: what changes nothing is tried again and gives one result; what may
/// have changed something never is, whatever its policy says.
#[tokio::test(start_paused = true)]
async fn tools_are_tried_again_only_where_it_can_t_hurt() {
    let failing = || ToolError::new("try later").retryable();
    let (read, reads) = scripted_tool("read")
        .effects(|_| Effects::none())
        .with(|tool| tool.retry(RetryPolicy::up_to(3)))
        .then_fail(failing())
        .then_fail(failing())
        .then("here")
        .build();
    let (write, writes) = scripted_tool("write")
        .effects(|_| Effects::writes("a"))
        .with(|tool| tool.retry(RetryPolicy::up_to(3)))
        .then_fail(failing())
        .build();
    let registry = Registry::new().with(read).unwrap().with(write).unwrap();
    let engine =
        Engine::builder(registry).permissions(PermissionRules::new().allow("write").unwrap()).build();
    let script = json!({"turns": [
        {"tool_calls": [{"name": "read"}, {"name": "write"}]},
        {"expect": [{"result": 0, "equals": "here"}, {"result": 1, "is_error": true, "contains": "try later"}], "text": "done"},
    ]});
    let mut conversation = Conversation::new(Wire::Anthropic);
    let outcome = AgentLoop::new(engine, model(script, Wire::Anthropic)).run(&mut conversation, "go").await;
    assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "done"));
    assert_eq!((reads.calls(), writes.calls()), (3, 1));
    check_history(&conversation);
}

/// A tool that is down is left alone after a while, and the model is told; then one call tries again.
#[tokio::test(start_paused = true)]
async fn a_tool_that_keeps_failing_is_left_alone() {
    let down = || ToolError::new("the server is down").retryable();
    let (fetch, fetches) = scripted_tool("fetch")
        .effects(|_| Effects::none())
        .with(|tool| tool.breaker(BreakerOptions::after(2)))
        .then_fail(down())
        .then_fail(down())
        .then("here")
        .build();
    let call = json!([{"name": "fetch"}]);
    let script = json!({"turns": [
        {"tool_calls": call}, {"tool_calls": call},
        {"tool_calls": call, "expect": [{"contains": "the server is down"}]},
        {"tool_calls": call, "delay_ms": 31_000, "expect": [{"is_error": true, "contains": "fetch was not run: it failed 2 times in a row"}]},
        {"text": "done", "expect": [{"equals": "here"}]},
    ]});
    let mut conversation = Conversation::new(Wire::OpenAi);
    let engine = Engine::new(Registry::new().with(fetch).unwrap());
    let outcome = AgentLoop::new(engine, model(script, Wire::OpenAi)).run(&mut conversation, "go").await;
    assert_eq!((outcome.text.as_str(), fetches.calls()), ("done", 3), "{}", outcome.ended);
    check_history(&conversation);
}

/// A hundred loops side by side, on all wires, each with its own tools: some finish, some are interrupted,
/// some run into a limit, and none knows of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_loops_side_by_side() {
    let one = |at: usize| async move {
        let wire = Wire::ALL[at % 4];
        let mine =
            dynamic_tool("mine", "Says whose it is.", json!({"type": "object"}), move |_, _| async move {
                Ok(format!("I am {at}"))
            })
            .effects(|_| Effects::none());
        let (wait, waits) = scripted_tool("wait")
            .effects(|_| Effects::none())
            .with(|tool| tool.interrupt(Interrupt::Cancel))
            .build();
        let registry = Registry::new().with(mine).unwrap().with(wait).unwrap();
        let calls = match at % 3 {
            0 => json!([{"name": "mine"}, {"name": "mine"}]),
            1 => json!([{"name": "mine"}, {"name": "wait"}]),
            _ => json!([{"name": "mine"}]),
        };
        let expect = json!([{"equals": format!("I am {at}")}]);
        let script =
            json!({"turns": [{"tool_calls": calls}, {"expect": expect, "text": format!("done {at}")}]});
        let handle = RunHandle::new();
        let events = Arc::new(Mutex::new(0));
        let count = events.clone();
        let agent = AgentLoop::new(Engine::new(registry), model(script, wire))
            .options(if at % 3 == 2 { RunOptions::new().max_turns(1) } else { RunOptions::new() })
            .events(Arc::new(move |event: RunEvent| {
                if let RunEvent::Ended { .. } = event {
                    *count.lock().unwrap() += 1;
                }
            }))
            .handle(handle.clone());
        let mut conversation = Conversation::new(wire);
        let drive = async {
            if at % 3 == 1 {
                let _running = waits.started().await;
                handle.interrupt();
            }
        };
        let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), drive);
        let expected = match at % 3 {
            0 => RunEnd::Finished,
            1 => RunEnd::Interrupted,
            _ => RunEnd::Limit(RunLimit::Turns),
        };
        assert_eq!(outcome.ended, expected, "{at}");
        assert_eq!(outcome.text, if at.is_multiple_of(3) { format!("done {at}") } else { String::new() });
        let said = outcome.calls[0].1.outcome().unwrap().to_text();
        assert_eq!((said.as_str(), *events.lock().unwrap()), (format!("I am {at}").as_str(), 1));
        check_history(&conversation);
    };
    let runs: Vec<_> = (0..100).map(|at| tokio::spawn(one(at))).collect();
    for run in runs {
        run.await.unwrap();
    }
}

/// A host that wants the conversation as it is.
struct Keeps;

impl LoopHooks for Keeps {
    fn before_compaction(&self, _: u64) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }
}

/// As long as the conversation fits it stays as it is, if the host wants that; once it doesn't, the run ends.
#[tokio::test]
async fn a_host_keeps_the_conversation_as_it_is() {
    let run = async |stop: &str| {
        let script = json!({"turns": [{"text": "Long. ".repeat(50), "stop": stop}]});
        let cleared = Arc::new(AtomicU64::new(0));
        let seen = cleared.clone();
        let events = Arc::new(move |event: RunEvent| {
            if matches!(event, RunEvent::Cleared { .. } | RunEvent::Summarised { .. }) {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut conversation = Conversation::new(Wire::Anthropic);
        let outcome = AgentLoop::new(Engine::new(Registry::new()), model(script, Wire::Anthropic))
            .options(RunOptions::new().window_tokens(10))
            .hooks(Arc::new(Keeps))
            .events(events)
            .run(&mut conversation, "a prompt that fills the small window more than enough")
            .await;
        assert_eq!(cleared.load(Ordering::Relaxed), 0);
        outcome.ended
    };
    assert_eq!(run("end").await, RunEnd::Finished);
    assert_eq!(run("context_full").await, RunEnd::Stopped(StopReason::ContextFull));
}
