//! Runs as they are told: what comes out, what stays open.

use std::time::{Duration, Instant};

use haft::event::CallRef;
use haft::testing::Caller;
use haft::{Effects, NoInput, ToolError, tool};
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct StoryDouble {
    story: RunTranscript,
    now: Instant,
    out: Vec<String>,
}

impl StoryDouble {
    fn new(columns: usize) -> StoryDouble {
        let now = Instant::now();
        StoryDouble { story: RunTranscript::new(columns, Path::new("/w"), now), now, out: Vec::new() }
    }

    fn event(&mut self, event: RunEvent) -> &mut StoryDouble {
        self.story.event(event, self.now);
        self
    }

    fn text(&mut self, text: &str) -> &mut StoryDouble {
        self.event(RunEvent::Model(ReplyDelta::Text(text.into())))
    }

    fn begun(&mut self, call: usize, name: &str) -> &mut StoryDouble {
        self.event(RunEvent::Model(ReplyDelta::CallBegun { call, id: format!("c{call}"), name: name.into() }))
    }

    fn ready(&mut self, call: usize, name: &str, input: Value) -> &mut StoryDouble {
        let ready = ToolCall::new(format!("c{call}"), name, input);
        self.event(RunEvent::Model(ReplyDelta::CallReady { call, ready }))
    }

    fn tool(&mut self, index: usize, name: &str, what: What) -> &mut StoryDouble {
        let call = CallRef { index, id: format!("c{index}").into(), tool: name.into() };
        self.event(RunEvent::Tool(made(Some(call), what)))
    }

    fn started(&mut self, index: usize, name: &str, title: &str) -> &mut StoryDouble {
        self.tool(index, name, What::Started { view: View::titled(title), input: Arc::new(json!({})) })
    }

    fn replied(&mut self) -> &mut StoryDouble {
        self.event(RunEvent::Replied { turn: 1, stop: StopReason::Calls, usage: TokenUsage::default() })
    }

    fn take(&mut self) -> Vec<String> {
        let lines: Vec<String> =
            self.story.take().iter().map(|line| line.text().trim_end().to_owned()).collect();
        self.out.extend(lines.clone());
        lines
    }

    fn live(&self, most: usize) -> Vec<String> {
        self.story
            .live(self.now, 0, most, None)
            .iter()
            .map(|line| line.text().trim_end().to_owned())
            .collect()
    }
}

/// An event as the engine makes it: its type can't be made here.
fn made(call: Option<CallRef>, what: What) -> Event {
    let caught: Arc<std::sync::Mutex<Option<Event>>> = Arc::default();
    let sink = caught.clone();
    let engine = haft::Engine::builder(haft::Registry::new()).events(Catch(sink)).build();
    // Any event will do; a warning of an unknown call is the cheapest.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { engine.turn().run([ToolCall::new("x", "nothing", json!({}))]).await });
    let mut event = caught.lock().unwrap().take().expect("a call is told of");
    event.call = call;
    event.what = what;
    event
}

struct Catch(Arc<std::sync::Mutex<Option<Event>>>);

impl haft::event::EventSink for Catch {
    fn send(&self, event: Event) {
        *self.0.lock().unwrap() = Some(event);
    }
}

/// A real result of a tool that says, or fails with, these words.
fn result(words: &'static str, fails: bool) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let speak =
        move |_: NoInput, _| async move { if fails { Err(ToolError::new(words)) } else { Ok(words) } };
    let caller = Caller::new().tool(tool("speak", "Speaks.", speak).effects(|_| Effects::none()));
    runtime.block_on(async { caller.turn([("c", "speak", json!({}))]).await[0].clone() })
}

#[test]
fn calls_that_ran_at_once_come_out_together() {
    let mut told = StoryDouble::new(90);
    told.text("I'll look.").begun(0, "Read").begun(1, "Read");
    told.ready(0, "Read", json!({})).ready(1, "Read", json!({})).replied();
    told.started(0, "Read", "/w/a.rs").started(1, "Read", "/w/b.rs");
    told.tool(1, "Read", What::Finished(result("b", false)));
    assert_eq!(told.take(), ["● I'll look."], "the first is still running");
    told.tool(0, "Read", What::Finished(result("a", false)));
    let lines = told.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("  ✓ speak ") && lines[0].ends_with("┐ 2 at once"), "{lines:?}");
    assert!(lines[1].ends_with('┘'), "{lines:?}");
    assert!(told.live(10).is_empty());
}

#[test]
fn a_call_alone_comes_out_when_it_ends() {
    let mut told = StoryDouble::new(90);
    told.ready(0, "Bash", json!({})).ready(1, "Bash", json!({})).replied();
    told.started(0, "Bash", "one").tool(0, "Bash", What::Finished(result("done", false)));
    told.started(1, "Bash", "two");
    let lines = told.take();
    assert!(lines.len() == 1 && !lines[0].contains('┐'), "{lines:?}");
    assert!(told.live(10)[0].contains("Bash"));
}

#[test]
fn text_overtakes_calls_that_still_run() {
    let mut told = StoryDouble::new(60);
    told.text("One.").begun(0, "wait").ready(0, "wait", json!({})).started(0, "wait", "x");
    told.text("Two.\nThree");
    assert_eq!(told.take(), ["● One.", "", "● Two."]);
    assert!(told.live(10)[0].contains("Three"));
    assert!(told.live(10).last().unwrap().contains("wait"));
}

#[test]
fn an_input_is_seen_while_it_is_written() {
    let mut told = StoryDouble::new(80);
    told.story.set_views(Arc::new(|_, stage| stage.text("file_path").map(View::titled)));
    told.begun(0, "Write");
    let json = r#"{"file_path": "/w/a.rs", "content": "fn main() {\n    one();\n    tw"#;
    for c in json.chars() {
        told.event(RunEvent::Model(ReplyDelta::CallInput { call: 0, json: c.to_string() }));
    }
    told.story.look(told.now + Duration::from_secs(1));
    let live = told.live(20);
    assert!(live[0].contains("Write   a.rs"), "{live:?}");
    assert_eq!(&live[1..], ["      fn main() {", "          one();", "          tw"]);
    // Cut off: it never ran, and nothing of it stays.
    told.replied();
    assert!(told.live(20).is_empty() && told.take().is_empty());
}

#[test]
fn failures_say_why() {
    let mut told = StoryDouble::new(60);
    told.ready(0, "speak", json!({})).replied().started(0, "speak", "x");
    let reason = "Edit found 3 matches for `old_string` in src/lib.rs (lines 12, 40, 96); it must be unique";
    told.tool(0, "speak", What::Finished(result(reason, true)));
    let shown = told.take();
    assert!(shown[0].contains("✗ speak"), "{shown:?}");
    assert!(shown.concat().replace("      ", " ").contains("it must be unique"), "{shown:?}");
}

#[test]
fn results_that_were_not_seen_finish_with_the_turn() {
    let mut told = StoryDouble::new(80);
    told.ready(0, "speak", json!({})).replied().started(0, "speak", "x");
    told.event(RunEvent::Answered { turn: 1, results: vec![result("late", false)] });
    assert!(told.take()[0].contains("✓ speak"));
    told.ready(0, "speak", json!({})).replied();
    let mut usage = TokenUsage::default();
    (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) = (12_345, 6, 12_000);
    told.event(RunEvent::Ended { why: RunEnd::Interrupted, usage });
    let lines = told.take();
    assert!(lines[0].contains("– speak") && lines[0].contains("not run"), "{lines:?}");
    assert!(lines.last().unwrap().contains("12,345 tokens in (12,000 from the cache), 6 out"), "{lines:?}");
    assert!(!told.story.is_busy());
}

#[test]
fn many_calls_fit_the_screen() {
    let mut told = StoryDouble::new(80);
    for call in 0..200 {
        told.ready(call, "Read", json!({}));
    }
    told.replied().started(150, "Read", "/w/the-one");
    let live = told.live(10);
    assert_eq!(live.len(), 10);
    assert!(live.iter().any(|line| line.contains("the-one")), "{live:?}");
    assert_eq!(live[9], "  … 191 more calls");
}

#[test]
fn what_a_model_or_tool_says_can_not_move_the_cursor() {
    let mut told = StoryDouble::new(60);
    told.text("a\x1b[2Jb\u{202e}c\r\n").begun(0, "x\x1b[H").event(RunEvent::Said("\x07\x1b]0;t\x07".into()));
    told.story.note(Line::plain("n\x1b[1A"));
    told.tool(0, "x", What::Warning("w\x1b[31m".into()));
    for line in told.story.take().iter().chain(&told.story.live(told.now, 0, 20, None)) {
        assert!(!line.text().chars().any(char::is_control), "{:?}", line.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: no line is too wide, the live part fits, and the end leaves nothing open.
    #[test]
    fn no_order_of_events_breaks_it(steps in proptest::collection::vec((0usize..12, 0usize..4), 0..60), columns in 20usize..100) {
        let good = result("good\nmore\nlines", false);
        let bad = result("bad", true);
        let template = made(None, What::Asking);
        let mut told = StoryDouble::new(columns);
        for (step, call) in steps {
            let what = match step {
                0 => { told.text("Some **text**\nand 日本 more"); continue }
                1 => { told.begun(call, "Read"); continue }
                2 => { told.ready(call, "Read", json!({"a": "b"})); continue }
                3 => { told.event(RunEvent::Model(ReplyDelta::CallInput { call, json: "{\"a\": \"x\\ny".into() })); continue }
                4 => { told.replied(); continue }
                5 => { told.event(RunEvent::Answered { turn: 1, results: vec![good.clone(), bad.clone()] }); continue }
                6 => { told.event(RunEvent::Model(ReplyDelta::Restarted)); continue }
                7 => What::Asking,
                8 => What::Started { view: View::titled("t".repeat(300)), input: Arc::new(json!({})) },
                9 => What::Finished(if call % 2 == 0 { good.clone() } else { bad.clone() }),
                10 => What::Progress(Progress { fraction: Some(f64::NAN), message: Some("m".repeat(200)) }),
                _ => What::Partial("p\nq\n".into()),
            };
            let mut event = template.clone();
            event.call = Some(CallRef { index: call, id: "c".into(), tool: "Read".into() });
            event.what = what;
            told.event(RunEvent::Tool(event));
            let live = told.story.live(told.now, 0, 8, None);
            prop_assert!(live.len() <= 8);
            let finished = told.story.take();
            for line in finished.iter().chain(&live) {
                prop_assert!(line.width() <= columns, "{columns}: {:?}", line.text());
            }
        }
        told.event(RunEvent::Ended { why: RunEnd::Finished, usage: TokenUsage::default() });
        told.take();
        prop_assert!(told.live(50).is_empty());
    }
}

/// An agent may make hundreds of calls while the one that it works for is open.
#[test]
fn calls_of_other_agents_go_out_as_they_end_under_their_names() {
    let of_agent = |what: What| {
        let call = CallRef { index: 0, id: "x".into(), tool: "Read".into() };
        let mut event = made(Some(call), what);
        event.agent = "explore-1".into();
        let event = Box::new(RunEvent::Tool(event));
        RunEvent::Agent { agent: "explore-1".into(), call: "c0".into(), event }
    };
    let mut told = StoryDouble::new(100);
    told.ready(0, "Agent", json!({})).replied().started(0, "Agent", "explore-1: find it");
    told.event(of_agent(What::Started { view: View::titled("a.rs"), input: Arc::new(json!({})) }));
    let live = told.live(10);
    assert!(live.len() == 2 && live[1].contains("Read") && live[1].contains("explore-1 a.rs"), "{live:?}");
    told.event(of_agent(What::Finished(result("found", false))));
    let out = told.take();
    assert!(out.len() == 1 && out[0].contains("explore-1"), "{out:?}");
    assert_eq!(told.live(10).len(), 1, "the call that it works for is still open");
}
