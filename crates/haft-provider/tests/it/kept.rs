//! A conversation that is kept as it grows, and a message whose calls another process left unanswered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::future::BoxFuture;
use haft::{Effects, Engine, NoInput, Registry, ToolCall, ToolOutput, ToolResult, tool};
use haft_agent::{AgentLoop, Conversation, ConversationRecorder, InterruptedTurn, RunEnd, RunHandle};
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use serde_json::Value;

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenAi, Wire::OpenAiChat, Wire::Gemini];

const SCRIPT: &str = r#"{"turns": [
    {"text": "First.", "tool_calls": [{"name": "count"}, {"name": "count"}]},
    {"text": "Second.", "tool_calls": [{"name": "count"}]},
    {"text": "Done."}
]}"#;

/// Keeps all that it is told, as a journal would.
#[derive(Default)]
struct Book {
    items: Mutex<Vec<Value>>,
    replies: Mutex<Vec<Vec<Value>>>,
    settled: AtomicUsize,
}

impl ConversationRecorder for Book {
    fn record_items(&self, from: usize, items: &[Value]) {
        let mut kept = self.items.lock().unwrap();
        kept.truncate(from);
        kept.extend_from_slice(items);
    }

    fn record_reply(&self, _: u64, items: &[Value]) {
        self.replies.lock().unwrap().push(items.to_vec());
    }

    fn finish_turn<'a>(&'a self, calls: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        self.settled.fetch_add(calls.len(), Ordering::Relaxed);
        Box::pin(async {})
    }
}

fn counting() -> (Engine, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = tool("count", "Counts its calls.", move |_: NoInput, _| {
        let now = counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok(now) }
    });
    (Engine::new(Registry::new().with(tool.effects(|_| Effects::none())).unwrap()), count)
}

fn model(wire: Wire) -> ScriptedModel {
    ScriptedModel::new(ModelScript::parse(SCRIPT).unwrap(), wire)
}

#[tokio::test]
async fn what_is_kept_is_the_conversation() {
    for wire in WIRES {
        let (engine, _) = counting();
        let book = Arc::new(Book::default());
        let mut conversation = Conversation::new(wire);
        let agent = AgentLoop::new(engine, model(wire)).recorder(book.clone());
        let outcome = agent.run(&mut conversation, "go").await;
        assert_eq!(outcome.text, "Done.", "{wire:?}");
        assert_eq!(*book.items.lock().unwrap(), conversation.items(), "{wire:?}");
        assert_eq!(
            (book.replies.lock().unwrap().len(), book.settled.load(Ordering::Relaxed)),
            (2, 3),
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn a_message_that_was_left_is_answered_and_known_results_are_not_made_again() {
    for wire in WIRES {
        let (engine, _) = counting();
        let book = Arc::new(Book::default());
        let mut whole = Conversation::new(wire);
        AgentLoop::new(engine, model(wire)).recorder(book.clone()).run(&mut whole, "go").await;
        let first = book.replies.lock().unwrap()[0].clone();
        let call = match wire {
            Wire::Gemini => first[0]["parts"][1]["functionCall"]["id"].as_str().map(str::to_owned),
            Wire::Anthropic => first[0]["content"][1]["id"].as_str().map(str::to_owned),
            Wire::OpenAi => first.iter().find_map(|item| item["call_id"].as_str()).map(str::to_owned),
            _ => first[0]["tool_calls"][0]["id"].as_str().map(str::to_owned),
        };
        let Some(call) = call else { panic!("{wire:?}: no call in {first:?}") };

        // Another process: it has the user's words, the message, and the result of its first call.
        let (engine, count) = counting();
        let mut conversation = Conversation::new(wire);
        conversation.say("go");
        let known = ToolResult::kept(call, "count", Ok(ToolOutput::from(haft::ResultBlock::text("known"))));
        let agent = AgentLoop::new(engine, model(wire));
        let cut_off = InterruptedTurn { items: first, results: vec![known] };
        let outcome = agent.resume_interrupted(&mut conversation, cut_off).await.unwrap();
        assert_eq!((outcome.text.as_str(), count.load(Ordering::Relaxed)), ("Done.", 2), "{wire:?}");
        assert_eq!(conversation.items().len(), whole.items().len(), "{wire:?}");
        let text = serde_json::to_string(conversation.items()).unwrap();
        assert_eq!(text.matches("known").count(), 1, "{wire:?}: {text}");
    }
}

/// What an earlier process left half done is told once: with the results, and also if the user interrupts at
/// once.
#[tokio::test]
async fn what_was_posted_before_is_kept_with_the_results() {
    for wire in WIRES {
        let (engine, _) = counting();
        let book = Arc::new(Book::default());
        let mut whole = Conversation::new(wire);
        AgentLoop::new(engine, model(wire)).recorder(book.clone()).run(&mut whole, "go").await;
        let first = book.replies.lock().unwrap()[0].clone();
        for taken_up in [true, false] {
            let (engine, _) = counting();
            let (book, handle) = (Arc::new(Book::default()), RunHandle::new());
            let agent = AgentLoop::new(engine, model(wire)).recorder(book.clone()).handle(handle.clone());
            let mut conversation = Conversation::new(wire);
            conversation.say("go");
            book.record_items(0, conversation.items());
            handle.post("something was left half done").unwrap();
            handle.interrupt();
            let outcome = if taken_up {
                let cut_off = InterruptedTurn { items: first.clone(), results: Vec::new() };
                agent.resume_interrupted(&mut conversation, cut_off).await.unwrap()
            } else {
                agent.resume(&mut conversation).await
            };
            assert_eq!(outcome.ended, RunEnd::Interrupted, "{wire:?}");
            let kept = book.items.lock().unwrap();
            assert_eq!(*kept, conversation.items(), "{wire:?}");
            let text = serde_json::to_string(&*kept).unwrap();
            assert_eq!(text.matches("half done").count(), 1, "{wire:?}, taken up: {taken_up}: {text}");
        }
    }
}

#[tokio::test]
async fn what_is_no_message_changes_nothing() {
    let (engine, count) = counting();
    let mut conversation = Conversation::new(Wire::Anthropic);
    conversation.say("go");
    let before = conversation.clone();
    let agent = AgentLoop::new(engine, model(Wire::Anthropic));
    for items in [vec![], vec![Value::from(3)]] {
        agent
            .resume_interrupted(&mut conversation, InterruptedTurn { items, results: Vec::new() })
            .await
            .unwrap_err();
        assert_eq!((&conversation, count.load(Ordering::Relaxed)), (&before, 0));
    }
}

/// Some servers give one id to several calls, or none: a session tells them apart by ids of its own, which
/// stay in it.
#[tokio::test]
async fn ids_of_a_session_are_not_told_to_the_provider() {
    let script = r#"{"turns": [
        {"text": "First.", "tool_calls": [{"name": "count", "id": "same"}, {"name": "count", "id": "same"}]},
        {"text": "Done."}]}"#;
    for wire in WIRES {
        let (engine, count) = counting();
        let mut conversation = Conversation::new(wire);
        let agent = AgentLoop::new(engine, ScriptedModel::new(ModelScript::parse(script).unwrap(), wire));
        agent.run(&mut conversation, "go").await;
        assert_eq!(count.load(Ordering::Relaxed), 2, "{wire:?}");
        let text = serde_json::to_string(conversation.items()).unwrap();
        assert!(!text.contains("same#") && text.matches("\"same\"").count() == 4, "{wire:?}: {text}");
    }
}
