//! Runs in a format that the loop can't know.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::{Effects, Engine, NoInput, Registry, ResultBlock, ToolOutput, ToolResult, tool};
use haft_agent::{
    AgentLoop, Conversation, ConversationRecorder, InterruptedTurn, RunEnd, RunEvent, RunOptions,
};
use serde_json::{Value, json};

use crate::format::{ListFormat, PlannedModel, failure, reply};

/// An engine with one tool that counts its calls.
fn counting() -> (Engine, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = tool("count", "Counts its calls.", move |_: NoInput, _| {
        let now = counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok(now) }
    });
    (Engine::new(Registry::new().with(tool.effects(|_| Effects::none())).unwrap()), count)
}

/// Records the items of a conversation.
#[derive(Default)]
struct ItemRecorder(Mutex<Vec<Value>>);

impl ConversationRecorder for ItemRecorder {
    fn record_items(&self, from: usize, items: &[Value]) {
        let mut recorded = self.0.lock().unwrap();
        recorded.truncate(from);
        recorded.extend_from_slice(items);
    }
}

#[tokio::test]
async fn calls_are_run_and_answered_in_the_form_of_the_format() {
    let (engine, count) = counting();
    let called = json!([["a", "count", {}], ["b", "count", {}]]);
    let mut first = reply("I count.", called.clone());
    first = first.clone().with_requested({
        let mut requested = ListFormat::shared().requested_calls(first.items()).unwrap();
        requested[1].refusal = Some("not this one".to_owned());
        requested
    });
    let model = PlannedModel::new([first, reply("Done.", json!([]))]);
    let recorder = Arc::new(ItemRecorder::default());
    let mut conversation = Conversation::new(ListFormat::shared());
    let agent = AgentLoop::new(engine, model.clone()).recorder(recorder.clone());
    let outcome = agent.run(&mut conversation, "go").await;
    assert_eq!((outcome.text.as_str(), outcome.turns, outcome.calls.len()), ("Done.", 2, 2));
    assert_eq!((outcome.ended, outcome.usage.total_tokens()), (RunEnd::Finished, 30));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let expected = [
        json!(["user", "go"]),
        json!(["model", "I count.", called]),
        json!(["results", [["a", "0"], ["b", "not this one"]]]),
        json!(["model", "Done.", []]),
    ];
    assert_eq!(conversation.items(), expected);
    assert_eq!(*recorder.0.lock().unwrap(), conversation.items());
    assert_eq!(model.requests.lock().unwrap()[1].0, conversation.items()[..3]);
    assert_eq!(model.requests.lock().unwrap()[0].1, r#"["count"]"#);
}

#[tokio::test]
async fn an_interrupted_turn_keeps_known_results() {
    let (engine, count) = counting();
    let items = vec![json!(["model", "I count.", [["a", "count", {}], ["b", "count", {}]]])];
    let known = ToolResult::kept("a", "count", Ok(ToolOutput::from(ResultBlock::text("known"))));
    let mut conversation = Conversation::new(ListFormat::shared());
    conversation.say("go");
    let agent = AgentLoop::new(engine, PlannedModel::new([reply("Done.", json!([]))]));
    let turn = InterruptedTurn { items, results: vec![known] };
    let outcome = agent.resume_interrupted(&mut conversation, turn).await.unwrap();
    assert_eq!((outcome.text.as_str(), count.load(Ordering::Relaxed)), ("Done.", 1));
    assert_eq!(conversation.items()[2], json!(["results", [["a", "known"], ["b", "0"]]]));

    let before = conversation.clone();
    let turn = InterruptedTurn { items: vec![json!(3)], results: Vec::new() };
    let error = agent.resume_interrupted(&mut conversation, turn).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), conversation), ("no message of the model", before));
}

#[tokio::test]
async fn a_full_window_is_cleared_by_the_format() {
    let (engine, _) = counting();
    let call = |id: &str| reply("", json!([[id, "count", {}]]));
    let model = PlannedModel::new([call("a"), call("b"), reply("Done.", json!([]))]);
    let mut options = RunOptions::new().window_tokens(30);
    (options.kept_results, options.summarise) = (1, false);
    let cleared = Arc::new(Mutex::new(0));
    let sum = cleared.clone();
    let events = Arc::new(move |event: RunEvent| {
        if let RunEvent::Cleared { results } = event {
            *sum.lock().unwrap() += results;
        }
    });
    let mut conversation = Conversation::new(ListFormat::shared());
    let agent = AgentLoop::new(engine, model).options(options).events(events);
    let outcome = agent.run(&mut conversation, "go").await;
    assert_eq!((outcome.text.as_str(), *cleared.lock().unwrap()), ("Done.", 1));
    let note = conversation.items()[2][1][0][1].as_str().unwrap();
    assert!(note.starts_with("[cleared to make room"), "{note}");
    assert_eq!(conversation.items()[4], json!(["results", [["b", "1"]]]));
}

#[tokio::test]
async fn a_rejected_deferral_is_asked_again_without() {
    let replies = [failure("what is a deferred tool?"), reply("Done.", json!([]))];
    let model = PlannedModel::new(replies).deferring();
    let mut conversation = Conversation::new(ListFormat::shared());
    let agent = AgentLoop::new(counting().0, model.clone());
    let outcome = agent.run(&mut conversation, "go").await;
    assert_eq!((outcome.text.as_str(), outcome.turns), ("Done.", 1));
    assert_eq!(model.requests.lock().unwrap().len(), 2);

    // Any other failure ends the run.
    let model = PlannedModel::new([failure("no")]).deferring();
    let outcome = AgentLoop::new(counting().0, model).run(&mut conversation, "go").await;
    assert_eq!(outcome.ended.word(), "failed");
}

#[test]
fn a_damaged_conversation_starts_with_the_user() {
    let mut conversation = Conversation::from_items(ListFormat::shared(), vec![json!(["model", "x", []])]);
    conversation.start_with_user("lost");
    conversation.start_with_user("lost");
    assert_eq!(conversation.items(), [json!(["user", "lost"]), json!(["model", "x", []])]);
    assert!(!conversation.awaits_reply());
    conversation.say("more");
    assert!(conversation.awaits_reply());
}
