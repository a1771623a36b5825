//! What goes on and what is dropped, message by message, over a connection made of two channels.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::super::{MessageSource, SendQueue, SilentEnd};
use super::*;

struct Scripted(mpsc::Receiver<Vec<u8>>);

impl MessageSource for Scripted {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(async move { Ok(self.0.recv().await) })
    }
}

/// A guard, what it is sent, and what it sends.
fn guard() -> (TransportGuard, mpsc::Sender<Vec<u8>>, mpsc::Receiver<String>) {
    let (send, source) = mpsc::channel(10_000);
    let (sent, heard) = mpsc::channel(10_000);
    let outbox = SendQueue::new(sent, true, |sent: &mut mpsc::Sender<String>, text| {
        Box::pin(async move { sent.send(text).await.map_err(|error| error.to_string()) })
    });
    let link = MessageLink { source: Box::new(Scripted(source)), outbox, end: Box::new(SilentEnd) };
    (TransportGuard::over_link(link, ConnectionWatch::default()), send, heard)
}

fn request(id: i64) -> ClientJsonRpcMessage {
    let request = serde_json::from_value(json!({"method": "tools/list"})).unwrap();
    ClientJsonRpcMessage::request(request, NumberOrString::Number(id))
}

fn answer(id: i64) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "odd"}], "extra": 1}})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn an_answer_goes_on_once_and_as_it_came() {
    let (mut guard, send, _heard) = guard();
    guard.send(request(1)).await.unwrap();
    for text in [answer(2), answer(1), answer(1)] {
        send.send(text).await.unwrap();
    }
    drop(send);
    let Some(ServerJsonRpcMessage::Response(response)) = guard.next().await else { panic!() };
    let ServerResult::CustomResult(CustomResult(result)) = response.result else { panic!() };
    assert_eq!(result, json!({"tools": [{"name": "odd"}], "extra": 1}));
    assert!(guard.next().await.is_none());
    assert_eq!(guard.watch.counted(DropCause::Unknown), 2);
    assert_eq!(guard.watch.ended().as_deref(), Some("it ended the connection"));
}

/// A gateway that writes the numbers of requests as texts does so from the start; from another server a text
/// is another id.
#[tokio::test]
async fn a_text_names_a_request_only_for_a_server_that_writes_texts() {
    for (ids, passed) in [
        ([json!(1), json!(2), json!(3)], 3),
        ([json!("1"), json!("2"), json!("3")], 3),
        ([json!("1"), json!(2), json!("3")], 3),
        ([json!(1), json!("2"), json!("3")], 1),
        ([json!("01"), json!("+2"), json!(" 3")], 0),
        ([json!("1.0"), json!(2), json!("3")], 1),
    ] {
        let (mut guard, send, _heard) = guard();
        for (number, id) in (1..).zip(&ids) {
            guard.send(request(number)).await.unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}});
            send.send(answer.to_string().into_bytes()).await.unwrap();
        }
        drop(send);
        let mut heard = Vec::new();
        while let Some(ServerJsonRpcMessage::Response(response)) = guard.next().await {
            heard.push(response.id);
        }
        assert_eq!(heard.len(), passed, "{ids:?}: {heard:?}");
        assert!(heard.iter().all(|id| matches!(id, NumberOrString::Number(_))), "{heard:?}");
    }
}

#[tokio::test]
async fn too_much_nonsense_ends_the_connection() {
    let (mut guard, send, _heard) = guard();
    for _ in 0..=INVALID_MAX {
        send.send(b"nonsense".to_vec()).await.unwrap();
    }
    assert!(guard.next().await.is_none());
    assert!(guard.watch.ended().unwrap().contains("make no sense"));
    assert!(guard.watch.is_over());
}

#[tokio::test(start_paused = true)]
async fn notifications_have_a_rate_and_changes_of_lists_are_never_lost() {
    let (mut guard, send, _heard) = guard();
    let log =
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    for _ in 0..NOTIFICATIONS_BURST + 50 {
        send.send(log.to_string().into_bytes()).await.unwrap();
    }
    send.send(changed.to_string().into_bytes()).await.unwrap();
    let waited = async {
        let mut passed = 0;
        while guard.next().await.is_some() {
            passed += 1;
        }
        passed
    };
    // The clock only moves when nothing else can.
    let mut passed = 0;
    tokio::select! {
        all = waited => passed = all,
        () = tokio::time::sleep(Duration::from_millis(1)) => {}
    }
    assert_eq!(passed, 0, "it still listens");
    assert_eq!(guard.watch.counted(DropCause::Floods), 50);
    assert_eq!(guard.watch.take_changes(), ListChanges { tools: true, ..ListChanges::default() });
    tokio::time::advance(Duration::from_secs(1)).await;
    send.send(log.to_string().into_bytes()).await.unwrap();
    assert!(guard.next().await.is_some(), "a second later there is room again");
}

#[tokio::test]
async fn requests_over_the_number_that_may_be_open_are_refused() {
    let (mut guard, send, mut heard) = guard();
    let ask =
        |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}).to_string().into_bytes();
    for id in 0..=REQUESTS_OPEN_MAX {
        send.send(ask(id)).await.unwrap();
    }
    for _ in 0..REQUESTS_OPEN_MAX {
        assert!(matches!(guard.next().await, Some(ServerJsonRpcMessage::Request(_))));
    }
    drop(send);
    assert!(guard.next().await.is_none());
    let refusal: Value = serde_json::from_str(&heard.recv().await.unwrap()).unwrap();
    assert_eq!(
        (&refusal["id"], &refusal["error"]["message"]),
        (&json!(REQUESTS_OPEN_MAX), &json!("too many requests at once"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_question_without_an_answer_is_answered_in_its_place() {
    let (mut guard, _send, _heard) = guard();
    let discover = serde_json::from_value(json!({"method": "server/discover", "params": {}})).unwrap();
    guard.send(ClientJsonRpcMessage::request(discover, NumberOrString::Number(7))).await.unwrap();
    let Some(ServerJsonRpcMessage::Error(error)) = guard.next().await else { panic!() };
    assert_eq!((error.id, error.error.code), (Some(NumberOrString::Number(7)), ErrorCode::METHOD_NOT_FOUND));
}
