//! Rows 6 to 9 of the fault model, with a process that misbehaves: whatever it does, one answer for each
//! call, and the next call works.

use std::time::Duration;

use haft::ErrorKind;
use haft_mcp::{ServerStatus, limits};
use serde_json::json;

use crate::{Room, count, faulty, host, until};

async fn room(faults: &str) -> (Room, tempfile::NamedTempFile) {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let room = Room::settled([faulty(faults, counts.path())], host()).await;
    (room, counts)
}

async fn echoes(room: &Room) {
    assert_eq!(room.text("mcp__f__echo", json!({"text": "hello"})).await, "hello");
}

#[tokio::test]
async fn a_server_that_dies_fails_its_call_once_and_is_there_for_the_next() {
    let (room, counts) = room("").await;
    let words = room.failure("mcp__f__die_before", json!({})).await;
    assert!(words.contains("went away during the call: its process ended with code 7"), "{words}");
    assert!(words.contains("its last words: it hurts"), "{words}");
    echoes(&room).await;
    let words = room.failure("mcp__f__die_half", json!({})).await;
    assert!(words.contains("what the call did until then is not known"), "{words}");
    echoes(&room).await;
    assert_eq!(room.text("mcp__f__die_after", json!({})).await, "last words");
    until("it is known to be gone", || matches!(room.server().status(), ServerStatus::Failed { .. })).await;
    echoes(&room).await;
    assert_eq!(count(counts.path(), "start"), 4);
}

#[tokio::test]
async fn a_call_that_may_have_had_effects_is_not_repeated_and_a_server_that_always_dies_is_left_alone() {
    let (room, counts) = room("").await;
    for crash in 1..=limits::BREAKER_FAILURES as usize {
        room.failure("mcp__f__counted", json!({})).await;
        assert_eq!(count(counts.path(), "call"), crash, "made once");
    }
    let words = room.failure("mcp__f__counted", json!({})).await;
    assert!(words.contains("left alone; try again in"), "{words}");
    assert_eq!(count(counts.path(), "call"), limits::BREAKER_FAILURES as usize);
}

/// A server that one caller's calls bring down is there for the others, and stays there.
#[tokio::test]
async fn who_brings_a_server_down_is_left_alone_and_nobody_else() {
    let (room, counts) = room("").await;
    for _ in 0..limits::BREAKER_FAILURES {
        room.failure("mcp__f__counted", json!({})).await;
    }
    let other = room.builder.clone().session_id("another session").build();
    other.refresh_with(room.servers.registry(&room.base).unwrap());
    let call = haft::ToolCall::new("1", "mcp__f__echo", r#"{"text": "hello"}"#);
    let heard = other.turn().run([call]).await.remove(0);
    assert!(heard.error().is_none(), "{:?}", heard.error());
    // It is there again, and all the same not for who ends it each time.
    let words = room.failure("mcp__f__counted", json!({})).await;
    assert!(words.contains("left alone; try again in"), "{words}");
    assert_eq!(count(counts.path(), "call"), limits::BREAKER_FAILURES as usize);
}

/// One death is one failure, however many calls it ends.
#[tokio::test]
async fn a_server_that_dies_with_many_calls_under_way_is_there_for_the_next() {
    let (room, counts) = room("").await;
    let calls = 2 * limits::BREAKER_FAILURES as usize;
    let turns: Vec<_> = (0..calls).map(|_| room.other_engine().turn()).collect();
    let never = turns.into_iter().map(|turn| turn.run([haft::ToolCall::new("n", "mcp__f__never", "{}")]));
    let died = async {
        until("all are under way", || count(counts.path(), "never") == calls).await;
        room.failure("mcp__f__die_before", json!({})).await
    };
    let (ended, _) = tokio::join!(futures_util::future::join_all(never), died);
    assert!(ended.iter().all(|results| results[0].error().unwrap().message().contains("went away")));
    echoes(&room).await;
}

/// Python writes `NaN` and lone surrogates by itself, and servers nest what they like.
#[tokio::test]
async fn an_answer_that_is_no_json_ends_its_call() {
    let (room, _counts) = room("").await;
    for what in ["nan", "surrogate", "infinite", "deep", "cut"] {
        let words = room.failure("mcp__f__unreadable", json!({"what": what})).await;
        assert!(
            words.contains("answered with something senseless: its answer can't be read: "),
            "{what}: {words}"
        );
    }
    echoes(&room).await;
}

#[tokio::test]
async fn every_call_in_flight_gets_one_error() {
    let (room, counts) = room("").await;
    let calls = |tool: &str| haft::ToolCall::new(tool, format!("mcp__f__{tool}"), "{}");
    let (first, second) = (room.engine.turn(), room.other_engine().turn());
    let started = async {
        until("a call in flight", || count(counts.path(), "never") == 1).await;
        second.run([calls("die_before")]).await
    };
    let (waiting, died) = tokio::join!(first.run([calls("never")]), started);
    for results in [waiting, died] {
        assert_eq!(results.len(), 1);
        let words = results[0].error().unwrap().message();
        assert!(words.contains("went away during the call"), "{words}");
    }
    echoes(&room).await;
}

#[tokio::test]
async fn floods_are_bounded() {
    let (room, _counts) = room("").await;
    assert_eq!(room.text("mcp__f__flood_stderr", json!({})).await, "flooded");
    assert!(room.server().log().len() <= limits::LOG_BYTES_MAX * 8, "each hidden character may take several");
    assert_eq!(room.text("mcp__f__flood_notifications", json!({})).await, "flooded");
    let dropped = room.server().dropped();
    assert!(dropped.floods > 5_000, "{dropped:?}");
    let words = room.failure("mcp__f__long_line", json!({})).await;
    assert!(words.contains(&format!("a line of more than {} bytes", limits::MESSAGE_BYTES_MAX)), "{words}");
    echoes(&room).await;
}

#[tokio::test]
async fn nonsense_is_counted_and_nothing_happens() {
    let (room, _counts) = room("").await;
    assert_eq!(room.text("mcp__f__bad_json", json!({})).await, "still here");
    assert!(room.server().dropped().invalid >= 9, "{:?}", room.server().dropped());
    assert_eq!(room.text("mcp__f__nul", json!({})).await, "still here");
    assert_eq!(room.text("mcp__f__bom", json!({})).await, "bom");
    assert_eq!(room.text("mcp__f__wrong_id", json!({})).await, "for you");
    assert!(room.server().dropped().unknown >= 3, "{:?}", room.server().dropped());
    // A text is the id of no request of a server that answers others by number.
    assert_eq!(room.text("mcp__f__text_id", json!({})).await, "as a number");
    let before = room.server().dropped().unknown;
    assert_eq!(room.text("mcp__f__duplicate", json!({})).await, "first");
    until("both answers too many", || room.server().dropped().unknown == before + 2).await;
    assert_eq!(room.text("mcp__f__batch", json!({})).await, "batched");
    assert!(room.server().log().contains("[info] in a batch"), "{}", room.server().log());
    let words = room.failure("mcp__f__odd", json!({})).await;
    assert!(words.contains("neither a result nor an error"), "{words}");
    let words = room.failure("mcp__f__null", json!({})).await;
    assert!(words.contains("its result is no object"), "{words}");
    echoes(&room).await;
    assert_eq!(room.text("mcp__f__last_line", json!({})).await, "no end");
}

#[tokio::test]
async fn errors_and_failures_are_told_in_the_server_s_words() {
    let (room, _counts) = room("").await;
    let words = room.failure("mcp__f__error", json!({})).await;
    assert_eq!(words, "the MCP server `f` answered with error -32602: no such \\u{202e}thing");
    assert_eq!(room.failure("mcp__f__failed", json!({})).await, "it went wrong");
    let wrong = room.call("mcp__f__echo", json!({"text": 3})).await;
    assert_eq!(wrong.error().unwrap().kind(), ErrorKind::InvalidInput, "the server isn't even asked");
}

#[tokio::test]
async fn a_server_that_never_answers_costs_its_time_and_no_more() {
    for faults in ["silent", "listless"] {
        let counts = tempfile::NamedTempFile::new().unwrap();
        let mut config = faulty(faults, counts.path());
        config.connect_timeout = Duration::from_millis(1_500);
        let room = Room::settled([config], host()).await;
        let ServerStatus::Failed { reason, retries } = room.server().status() else { panic!("{faults}") };
        assert_eq!((reason.as_str(), retries), ("it took longer than 1.5 s", false), "{faults}");
        room.servers.close().await;
    }
}

#[tokio::test]
async fn a_call_that_never_ends_is_ended_and_the_server_is_told() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let mut config = faulty("", counts.path());
    config.call_timeout = Duration::from_millis(800);
    let room = Room::settled([config], host()).await;
    let result = room.call("mcp__f__never", json!({})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.message(), "the call took longer than 0.8 s; the MCP server `f` was told to stop");
    until("the server is told", || count(counts.path(), "cancelled") == 1).await;
    // A turn that is dropped tells it as well.
    let turn = room.engine.turn();
    let call = haft::ToolCall::new("1", "mcp__f__never", "{}");
    tokio::select! {
        ended = turn.run([call]) => panic!("it ended: {ended:?}"),
        () = until("the call is under way", || count(counts.path(), "never") == 2) => {}
    }
    until("the server is told again", || count(counts.path(), "cancelled") == 2).await;
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_a_late_answer_is_dropped() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let mut config = faulty("", counts.path());
    config.idle_timeout = Some(Duration::from_millis(1_500));
    let log = haft::testing::EventLog::new();
    let mut room = Room::settled([config], host()).await;
    room.engine = room.builder.clone().events(log.clone()).build();
    room.refresh();
    let words = room.failure("mcp__f__late", json!({"cancelled": true})).await;
    assert_eq!(words, "the MCP server `f` gave no sign of life for 1.5 s; it was told to stop");
    let done = room.call("mcp__f__progress", json!({})).await;
    assert_eq!(
        done.to_json().output,
        json!([{"type": "text", "text": "done"}, {"type": "structured", "value": {"steps": 6}}])
    );
    let lines = log.lines().join("\n");
    assert!(lines.contains("step 3"), "{lines}");
    until("the late answer is dropped", || room.server().dropped().unknown == 1).await;
}

#[tokio::test]
async fn a_server_asks_and_only_what_was_lent_is_answered() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let asker = haft::testing::ScriptedAsker::new().then_choose(Some(vec!["Ada".to_owned()]));
    let host = host().with_asker(std::sync::Arc::new(asker)).with_roots(["/srv/x"]);
    let room = Room::settled([faulty("", counts.path())], host).await;
    let answers = room.text("mcp__f__ask", json!({})).await;
    let answers: serde_json::Value = serde_json::from_str(&answers).unwrap();
    assert_eq!(
        answers,
        json!({"who": {"action": "accept", "content": {"name": "Ada"}},
               "where": {"roots": [{"uri": "file:///srv/x", "name": "x"}]}, "what": {"error": -32601}})
    );
    assert_eq!(
        room.text("mcp__f__requests", json!({})).await,
        "200",
        "each is answered, if only with a refusal"
    );
}

/// A server is asked no more at once than its configuration says; the others wait for their turn, and it
/// comes.
#[tokio::test]
async fn no_more_calls_run_at_once_than_a_server_is_to_have() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let mut config = faulty("", counts.path());
    config.concurrency = 2;
    let room = Room::settled([config], host()).await;
    let never = || room.other_engine().turn().run([haft::ToolCall::new("n", "mcp__f__never", "{}")]);
    let under_way = || count(counts.path(), "never");
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(never())).collect();
    until("two are under way", || under_way() == 2).await;
    // What was sent before this has arrived when it is answered.
    room.server().resource("note:///a").await.unwrap();
    assert_eq!(under_way(), 2, "the others wait");
    calls[..2].iter().for_each(tokio::task::JoinHandle::abort);
    until("the turn of others comes", || under_way() == 4).await;
}

#[tokio::test]
async fn what_can_t_be_started_says_why() {
    let config =
        haft_mcp::ServerConfig::new("x", haft_mcp::ServerTransport::stdio("no-such-program-here", ["a"]));
    let room = Room::settled([config], host()).await;
    let ServerStatus::Failed { reason, retries: false } = room.server().status() else { panic!() };
    assert!(reason.contains("no-such-program-here"), "{reason}");
}
