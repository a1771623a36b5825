//! `Sleep` through an engine.

use std::time::Duration;

use haft::{Engine, ErrorKind, Registry, ToolCall};
use serde_json::json;

use crate::room::Room;

#[tokio::test(start_paused = true)]
async fn it_waits_as_long_as_it_was_told() {
    let engine = Engine::new(Registry::new().with(haft_tools::core()).unwrap());
    let start = tokio::time::Instant::now();
    let results = engine.turn().run([ToolCall::new("1", "sleep", json!({"seconds": 90.5}))]).await;
    assert_eq!(results[0].outcome().unwrap().to_text(), "waited 90.5 s");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(90_500) && waited < Duration::from_secs(95), "{waited:?}");
}

#[test]
fn too_long_and_senseless_waits_are_refused() {
    let room = Room::new();
    for seconds in [json!(301), json!(-1), json!(1e300)] {
        assert_eq!(room.error("Sleep", json!({"seconds": seconds})).0, ErrorKind::InvalidInput);
    }
    assert_eq!(room.text("Sleep", json!({"seconds": 0})), "waited 0 s");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_it() {
    let engine = Engine::new(Registry::new().with(haft_tools::core()).unwrap());
    let turn = engine.turn();
    let handle = turn.handle();
    let run = turn.run([ToolCall::new("1", "Sleep", json!({"seconds": 300}))]);
    let start = tokio::time::Instant::now();
    let (results, ()) = tokio::join!(run, async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        handle.interrupt();
    });
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Cancelled));
    assert!(start.elapsed() < Duration::from_secs(10));
}
