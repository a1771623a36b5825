//! Inputs that are made to hurt, given to the whole engine beside an ordinary call: each is one result, and
//! costs no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::ports::ApprovalAnswer;
use haft::testing::ScriptedAsker;
use haft::{Context, Effects, Engine, ErrorKind, PermissionRules, Registry, ToolCall, dynamic_tool, limits};
use serde_json::{Value, json};

use crate::any;

/// An engine with a tool that gives its input back.
fn echo() -> Engine {
    let body = |input: Value, _: Context| async move { Ok(input.to_string()) };
    let tool = dynamic_tool("echo", "Says the same.", json!({"type": "object"}), body);
    Engine::new(Registry::new().with(any(tool.effects(|_| Effects::none()))).unwrap())
}

#[tokio::test]
async fn json_that_is_made_to_hurt_is_one_error_and_the_next_call_runs() {
    let deep = |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let bombs: Vec<(&str, String, bool)> = vec![
        ("10,000 levels of lists", deep(10_000), false),
        ("1,000,000 levels of lists", deep(1_000_000), false),
        ("1,000,000 levels that never close", "[".repeat(1_000_000), false),
        ("100,000 levels of objects", objects(100_000), false),
        ("a level more than may be", deep(limits::INPUT_DEPTH_MAX), false),
        ("100 MB of text", format!("{{\"a\": \"{}\"}}", "x".repeat(100_000_000)), false),
        ("a key twice", r#"{"a": 1, "a": 2}"#.to_owned(), false),
        ("a key twice, one escaped", r#"{"a": 1, "\u0061": 2}"#.to_owned(), false),
        ("half a surrogate", r#"{"a": "\ud800"}"#.to_owned(), false),
        ("a number without end", r#"{"a": 1e400}"#.to_owned(), false),
        ("no number", r#"{"a": NaN}"#.to_owned(), false),
        ("a NUL in a text", r#"{"a": "\u0000"}"#.to_owned(), true),
        ("minus nothing", r#"{"a": -0.0}"#.to_owned(), true),
        ("a mark before it", "\u{feff}{}".to_owned(), false),
        ("words behind it", r#"{} and more"#.to_owned(), false),
        ("nothing", String::new(), true),
    ];
    for (name, bomb, fine) in bombs {
        let calls = [
            ToolCall::new("1", "echo", r#"{"a": "before"}"#),
            ToolCall::new("2", "echo", bomb.as_str()),
            ToolCall::new("3", "echo", r#"{"a": "after"}"#),
        ];
        let results = echo().turn().run(calls).await;
        let kinds: Vec<Option<ErrorKind>> = results.iter().map(haft::ToolResult::error_kind).collect();
        let expected = if fine { None } else { Some(ErrorKind::InvalidInput) };
        assert_eq!(kinds, [None, expected, None], "{name}");
        if let Some(error) = results[1].error() {
            assert!(error.message().chars().count() <= limits::ERROR_CHARS_MAX, "{name}");
        }
    }
}

/// What the gate judges is what the tool gets: with one key twice the two could see different things.
#[tokio::test]
async fn a_million_keys_are_read_or_refused_and_never_half() {
    let keys: Vec<String> = (0..1_000_000).map(|at| format!("\"k{at}\":{at}")).collect();
    let text = format!("{{{}}}", keys.join(","));
    let results = echo().turn().run([ToolCall::new("1", "echo", text.as_str())]).await;
    match results[0].error_kind() {
        None => assert!(results[0].offloaded_to().is_some(), "all of it is kept where it can be read"),
        kind => assert_eq!(kind, Some(ErrorKind::InvalidInput)),
    }
}

/// Two calls that are alike to the last byte ask at once: each yes is for one of them.
#[tokio::test]
async fn one_yes_is_one_execution() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let body = move |_: Value, _: Context| {
        let count = count.clone();
        async move {
            tokio::task::yield_now().await;
            Ok(count.fetch_add(1, Ordering::SeqCst).to_string())
        }
    };
    let tool = dynamic_tool("same", "Counts.", json!({"type": "object"}), body);
    let registry = Registry::new().with(any(tool.effects(|_| Effects::none()))).unwrap();
    let asker = ScriptedAsker::new()
        .then(ApprovalAnswer::Once)
        .then(ApprovalAnswer::NoBecause("once is enough".to_owned()))
        .then(ApprovalAnswer::NoBecause("still".to_owned()))
        .then(ApprovalAnswer::Once);
    let engine = Engine::builder(registry)
        .asker(asker.clone())
        .permissions(PermissionRules::new().ask("same").unwrap())
        .build();
    let calls = (0..4).map(|at| ToolCall::new(at.to_string(), "same", "{}"));
    let results = engine.turn().run(calls).await;
    assert_eq!(ran.load(Ordering::SeqCst), 2, "as often as somebody said yes");
    assert_eq!(results.iter().filter(|result| result.is_error()).count(), 2);
    assert_eq!(asker.approvals().len(), 4, "each call asks for itself");
}
