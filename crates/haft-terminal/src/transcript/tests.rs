//! Transcripts of runs: which lines are printed, and which calls stay open.

use std::time::{Duration, Instant};

use haft::event::CallRef;
use haft::testing::TestCaller;
use haft::{Effects, NoInput, ToolError, tool};
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct TranscriptDriver {
    transcript: RunTranscript,
    now: Instant,
    out: Vec<String>,
}

impl TranscriptDriver {
    fn new(columns: usize) -> TranscriptDriver {
        let now = Instant::now();
        TranscriptDriver {
            transcript: RunTranscript::new(columns, Path::new("/w"), now),
            now,
            out: Vec::new(),
        }
    }

    fn event(&mut self, event: RunEvent) -> &mut TranscriptDriver {
        self.transcript.event(event, self.now);
        self
    }

    fn text(&mut self, text: &str) -> &mut TranscriptDriver {
        self.event(RunEvent::Model(ReplyDelta::Text(text.into())))
    }

    fn begun(&mut self, call: usize, name: &str) -> &mut TranscriptDriver {
        self.event(RunEvent::Model(ReplyDelta::CallBegun { call, id: format!("c{call}"), name: name.into() }))
    }

    fn ready(&mut self, call: usize, name: &str, input: Value) -> &mut TranscriptDriver {
        let ready = ToolCall::new(format!("c{call}"), name, input);
        self.event(RunEvent::Model(ReplyDelta::CallReady { call, ready }))
    }

    fn tool(&mut self, index: usize, name: &str, what: EventKind) -> &mut TranscriptDriver {
        let call = CallRef { index, id: format!("c{index}").into(), tool: name.into() };
        self.event(RunEvent::Tool(made(Some(call), what)))
    }

    fn started(&mut self, index: usize, name: &str, title: &str) -> &mut TranscriptDriver {
        self.tool(
            index,
            name,
            EventKind::Started { view: CallView::titled(title), input: Arc::new(json!({})) },
        )
    }

    fn replied(&mut self) -> &mut TranscriptDriver {
        self.event(RunEvent::Replied { turn: 1, stop: StopReason::Calls, usage: TokenUsage::default() })
    }

    fn take(&mut self) -> Vec<String> {
        let lines: Vec<String> =
            self.transcript.take().iter().map(|line| line.text().trim_end().to_owned()).collect();
        self.out.extend(lines.clone());
        lines
    }

    fn live(&self, most: usize) -> Vec<String> {
        self.transcript
            .live_lines(self.now, 0, most, None)
            .iter()
            .map(|line| line.text().trim_end().to_owned())
            .collect()
    }
}

/// An event from the engine, because the type has no public constructor.
fn made(call: Option<CallRef>, what: EventKind) -> Event {
    let caught: Arc<std::sync::Mutex<Option<Event>>> = Arc::default();
    let sink = caught.clone();
    let engine = haft::Engine::builder(haft::Registry::new()).events(Catch(sink)).build();
    // Any event works; a warning for an unknown call is the cheapest.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { engine.turn().run([ToolCall::new("x", "nothing", json!({}))]).await });
    let mut event = caught.lock().unwrap().take().expect("the call has an event");
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

/// A real result of a tool that returns this text or fails with it.
fn result(words: &'static str, fails: bool) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let speak =
        move |_: NoInput, _| async move { if fails { Err(ToolError::new(words)) } else { Ok(words) } };
    let caller = TestCaller::new().tool(tool("speak", "Speaks.", speak).effects(|_| Effects::none()));
    runtime.block_on(async { caller.turn([("c", "speak", json!({}))]).await[0].clone() })
}

#[test]
fn calls_that_ran_at_once_come_out_together() {
    let mut driver = TranscriptDriver::new(90);
    driver.text("I'll look.").begun(0, "Read").begun(1, "Read");
    driver.ready(0, "Read", json!({})).ready(1, "Read", json!({})).replied();
    driver.started(0, "Read", "/w/a.rs").started(1, "Read", "/w/b.rs");
    driver.tool(1, "Read", EventKind::Finished(result("b", false)));
    assert_eq!(driver.take(), ["● I'll look."], "the first is still running");
    driver.tool(0, "Read", EventKind::Finished(result("a", false)));
    let lines = driver.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("  ✓ speak ") && lines[0].ends_with("┐ 2 at once"), "{lines:?}");
    assert!(lines[1].ends_with('┘'), "{lines:?}");
    assert!(driver.live(10).is_empty());
}

#[test]
fn a_call_alone_comes_out_when_it_ends() {
    let mut driver = TranscriptDriver::new(90);
    driver.ready(0, "Bash", json!({})).ready(1, "Bash", json!({})).replied();
    driver.started(0, "Bash", "one").tool(0, "Bash", EventKind::Finished(result("done", false)));
    driver.started(1, "Bash", "two");
    let lines = driver.take();
    assert!(lines.len() == 1 && !lines[0].contains('┐'), "{lines:?}");
    assert!(driver.live(10)[0].contains("Bash"));
}

#[test]
fn text_overtakes_calls_that_still_run() {
    let mut driver = TranscriptDriver::new(60);
    driver.text("One.").begun(0, "wait").ready(0, "wait", json!({})).started(0, "wait", "x");
    driver.text("Two.\nThree");
    assert_eq!(driver.take(), ["● One.", "", "● Two."]);
    assert!(driver.live(10)[0].contains("Three"));
    assert!(driver.live(10).last().unwrap().contains("wait"));
}

#[test]
fn an_input_is_seen_while_it_is_written() {
    let mut driver = TranscriptDriver::new(80);
    driver.transcript.set_views(Arc::new(|_, stage| stage.text("file_path").map(CallView::titled)));
    driver.begun(0, "Write");
    let json = r#"{"file_path": "/w/a.rs", "content": "fn main() {\n    one();\n    tw"#;
    for c in json.chars() {
        driver.event(RunEvent::Model(ReplyDelta::CallInput { call: 0, json: c.to_string() }));
    }
    driver.transcript.refresh_partial_views(driver.now + Duration::from_secs(1));
    let live = driver.live(20);
    assert!(live[0].contains("Write   a.rs"), "{live:?}");
    assert_eq!(&live[1..], ["      fn main() {", "          one();", "          tw"]);
    // The message was cut off: the call never ran and disappears.
    driver.replied();
    assert!(driver.live(20).is_empty() && driver.take().is_empty());
}

#[test]
fn failures_say_why() {
    let mut driver = TranscriptDriver::new(60);
    driver.ready(0, "speak", json!({})).replied().started(0, "speak", "x");
    let reason = "Edit found 3 matches for `old_string` in src/lib.rs (lines 12, 40, 96); it must be unique";
    driver.tool(0, "speak", EventKind::Finished(result(reason, true)));
    let shown = driver.take();
    assert!(shown[0].contains("✗ speak"), "{shown:?}");
    assert!(shown.concat().replace("      ", " ").contains("it must be unique"), "{shown:?}");
}

#[test]
fn results_that_were_not_seen_finish_with_the_turn() {
    let mut driver = TranscriptDriver::new(80);
    driver.ready(0, "speak", json!({})).replied().started(0, "speak", "x");
    driver.event(RunEvent::Answered { turn: 1, results: vec![result("late", false)] });
    assert!(driver.take()[0].contains("✓ speak"));
    driver.ready(0, "speak", json!({})).replied();
    let mut usage = TokenUsage::default();
    (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) = (12_345, 6, 12_000);
    driver.event(RunEvent::Ended { why: RunEnd::Interrupted, usage });
    let lines = driver.take();
    assert!(lines[0].contains("– speak") && lines[0].contains("not run"), "{lines:?}");
    assert!(lines.last().unwrap().contains("12,345 tokens in (12,000 from the cache), 6 out"), "{lines:?}");
    assert!(!driver.transcript.is_busy());
}

#[test]
fn many_calls_fit_the_screen() {
    let mut driver = TranscriptDriver::new(80);
    for call in 0..200 {
        driver.ready(call, "Read", json!({}));
    }
    driver.replied().started(150, "Read", "/w/the-one");
    let live = driver.live(10);
    assert_eq!(live.len(), 10);
    assert!(live.iter().any(|line| line.contains("the-one")), "{live:?}");
    assert_eq!(live[9], "  … 191 more calls");
}

#[test]
fn what_a_model_or_tool_says_can_not_move_the_cursor() {
    let mut driver = TranscriptDriver::new(60);
    driver
        .text("a\x1b[2Jb\u{202e}c\r\n")
        .begun(0, "x\x1b[H")
        .event(RunEvent::Said("\x07\x1b]0;t\x07".into()));
    driver.transcript.note(Line::plain("n\x1b[1A"));
    driver.tool(0, "x", EventKind::Warning("w\x1b[31m".into()));
    for line in driver.transcript.take().iter().chain(&driver.transcript.live_lines(driver.now, 0, 20, None))
    {
        assert!(!line.text().chars().any(char::is_control), "{:?}", line.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any events in any order, no line is too wide, the live region fits, and the end leaves
    /// nothing open.
    #[test]
    fn no_order_of_events_breaks_it(steps in proptest::collection::vec((0usize..12, 0usize..4), 0..60), columns in 20usize..100) {
        let good = result("good\nmore\nlines", false);
        let bad = result("bad", true);
        let template = made(None, EventKind::Asking);
        let mut driver = TranscriptDriver::new(columns);
        for (step, call) in steps {
            let what = match step {
                0 => { driver.text("Some **text**\nand 日本 more"); continue }
                1 => { driver.begun(call, "Read"); continue }
                2 => { driver.ready(call, "Read", json!({"a": "b"})); continue }
                3 => { driver.event(RunEvent::Model(ReplyDelta::CallInput { call, json: "{\"a\": \"x\\ny".into() })); continue }
                4 => { driver.replied(); continue }
                5 => { driver.event(RunEvent::Answered { turn: 1, results: vec![good.clone(), bad.clone()] }); continue }
                6 => { driver.event(RunEvent::Model(ReplyDelta::Restarted)); continue }
                7 => EventKind::Asking,
                8 => EventKind::Started { view: CallView::titled("t".repeat(300)), input: Arc::new(json!({})) },
                9 => EventKind::Finished(if call % 2 == 0 { good.clone() } else { bad.clone() }),
                10 => EventKind::Progress(CallProgress { fraction: Some(f64::NAN), message: Some("m".repeat(200)) }),
                _ => EventKind::Partial("p\nq\n".into()),
            };
            let mut event = template.clone();
            event.call = Some(CallRef { index: call, id: "c".into(), tool: "Read".into() });
            event.what = what;
            driver.event(RunEvent::Tool(event));
            let live = driver.transcript.live_lines(driver.now, 0, 8, None);
            prop_assert!(live.len() <= 8);
            let finished = driver.transcript.take();
            for line in finished.iter().chain(&live) {
                prop_assert!(line.width() <= columns, "{columns}: {:?}", line.text());
            }
        }
        driver.event(RunEvent::Ended { why: RunEnd::Finished, usage: TokenUsage::default() });
        driver.take();
        prop_assert!(driver.live(50).is_empty());
    }
}

/// An agent may make hundreds of calls while its parent call is open.
#[test]
fn calls_of_other_agents_go_out_as_they_end_under_their_names() {
    let of_agent = |what: EventKind| {
        let call = CallRef { index: 0, id: "x".into(), tool: "Read".into() };
        let mut event = made(Some(call), what);
        event.agent = "explore-1".into();
        let event = Box::new(RunEvent::Tool(event));
        RunEvent::Agent { agent: "explore-1".into(), call: "c0".into(), event }
    };
    let mut driver = TranscriptDriver::new(100);
    driver.ready(0, "Agent", json!({})).replied().started(0, "Agent", "explore-1: find it");
    driver.event(of_agent(EventKind::Started { view: CallView::titled("a.rs"), input: Arc::new(json!({})) }));
    let live = driver.live(10);
    assert!(live.len() == 2 && live[1].contains("Read") && live[1].contains("explore-1 a.rs"), "{live:?}");
    driver.event(of_agent(EventKind::Finished(result("found", false))));
    let out = driver.take();
    assert!(out.len() == 1 && out[0].contains("explore-1"), "{out:?}");
    assert_eq!(driver.live(10).len(), 1, "the call that it works for is still open");
}
