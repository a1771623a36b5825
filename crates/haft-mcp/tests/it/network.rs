//! Servers over the network that the test itself is: WebSocket, and HTTP that says no in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use haft_mcp::{RemoteTransport, ServerConfig, ServerStatus, ServerTransport, limits};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::fake::{Fake, older, one_tool, result};
use crate::{Room, host};

/// Serves a fake over WebSocket, to any number of clients.
async fn web_socket(fake: Fake) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let fake = fake.clone();
            tokio::spawn(async move {
                #[expect(clippy::result_large_err, reason = "the library's own type")]
                let agree = |request: &Request, mut response: Response| {
                    assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
                    assert_eq!(request.headers()["x-key"], "k");
                    response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
                    Ok(response)
                };
                let mut socket = tokio_tungstenite::accept_hdr_async(stream, agree).await.unwrap();
                socket.send(Message::Ping("are you there".into())).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    let Message::Text(text) = message else { continue };
                    for back in fake.hear(serde_json::from_str(&text).unwrap()) {
                        if socket.send(Message::text(back.to_string())).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    format!("ws://{address}/mcp")
}

fn talks() -> Fake {
    older("2025-11-25", json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        Some("tools/call") if message["params"]["arguments"]["big"] == true => {
            let text = "x".repeat(limits::MESSAGE_BYTES_MAX + 1);
            result(message, json!({"content": [{"type": "text", "text": text}]}))
        }
        _ => result(message, json!({"content": [{"type": "text", "text": "ok"}]})),
    })
}

#[tokio::test]
async fn a_web_socket_is_as_good_as_any_other_connection() {
    let mut remote = RemoteTransport::new(web_socket(talks()).await);
    remote.headers.insert("X-Key".into(), "k".into());
    let room = Room::settled([ServerConfig::new("w", ServerTransport::WebSocket(remote))], host()).await;
    assert_eq!(room.revision(), "2025-11-25");
    assert_eq!(room.text("mcp__w__t", json!({})).await, "ok");
    let words = room.failure("mcp__w__t", json!({"big": true})).await;
    assert!(words.contains("a message of more than 16777216 bytes"), "{words}");
    assert_eq!(room.text("mcp__w__t", json!({})).await, "ok", "it is connected again");
}

#[tokio::test]
async fn where_nobody_listens_that_is_said_in_short() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for transport in [
        ServerTransport::http(format!("http://{address}/mcp")),
        ServerTransport::sse(format!("http://{address}/sse")),
    ] {
        let room = Room::settled([ServerConfig::new("w", transport)], host()).await;
        let ServerStatus::Failed { reason, .. } = room.server().status() else {
            panic!("{:?}", room.server().status())
        };
        assert!(reason.ends_with("it can't be reached: Connection refused (os error 111)"), "{reason}");
        assert!(!reason.contains("error sending") && !reason.contains("Client error"), "{reason}");
    }
}

/// The body of a request, once all of it is there.
async fn body_of(stream: &mut tokio::net::TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(body.to_owned());
        }
    }
}

/// Serves a fake over Streamable HTTP: each message is a request, and its answer the first thing that comes
/// back, as JSON or as an event.
async fn streamable(fake: Fake, as_event: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let fake = fake.clone();
            tokio::spawn(async move {
                let Some(body) = body_of(&mut stream).await else { return };
                let back = serde_json::from_str(&body).map(|message| fake.hear(message)).unwrap_or_default();
                let answer = match back.first() {
                    Some(back) if as_event => {
                        http_answer("200 OK\r\ncontent-type: text/event-stream", &format!("data: {back}\n\n"))
                    }
                    Some(back) => http_answer("200 OK\r\ncontent-type: application/json", &back.to_string()),
                    None if body.is_empty() => http_answer("405 Method Not Allowed", ""),
                    None => http_answer("202 Accepted", ""),
                };
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn both_handshakes_and_a_malformed_tool_over_streamable_http() {
    let answers = |message: &serde_json::Value| match message["method"].as_str() {
        Some("tools/list") => {
            let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}, {"name": "no_schema"}, {"inputSchema": {}},
                {"name": "u", "inputSchema": {"type": "object"}, "outputSchema": true}]);
            result(
                message,
                json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}),
            )
        }
        _ => result(message, json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})),
    };
    for as_event in [false, true] {
        let fakes = [
            (older("2025-06-18", json!({"tools": {}}), answers), "2025-06-18"),
            (crate::fake::newest(json!({"tools": {}}), answers), "2026-07-28"),
        ];
        for (fake, revision) in fakes {
            let url = streamable(fake, as_event).await;
            let room = Room::settled([ServerConfig::new("h", ServerTransport::http(url))], host()).await;
            assert_eq!(room.revision(), revision, "as event: {as_event}");
            assert_eq!(room.server().tool_count(), 2, "the others are none the worse");
            let left_out: Vec<String> = room.server().left_out().into_iter().map(|left| left.name).collect();
            assert_eq!(left_out, ["no_schema", "?"], "{revision}, as event: {as_event}");
            for tool in ["mcp__h__t", "mcp__h__u"] {
                assert_eq!(room.text(tool, json!({})).await, "ok", "{revision} {tool}");
            }
        }
    }
}

/// The end of the answer's body is the end of the call, whatever the body says.
#[tokio::test]
async fn an_answer_to_something_else_ends_its_call() {
    for as_event in [false, true] {
        let fake = older("2025-11-25", json!({"tools": {}}), |message| match message["method"].as_str() {
            Some("tools/list") => one_tool(message, "t"),
            _ => match message["params"]["arguments"]["what"].as_str() {
                Some("number") => vec![json!({"jsonrpc": "2.0", "id": 99999, "result": {"content": []}})],
                Some("text") => vec![json!("nothing")],
                _ => vec![
                    json!({"jsonrpc": "2.0", "id": message["id"].to_string(), "result": {"content": [{"type": "text", "text": "ok"}]}}),
                ],
            },
        });
        let gateway = Fake::new({
            let fake = fake.clone();
            move |message| {
                let mut answers = fake.hear(message.clone());
                for answer in answers.iter_mut().filter(|answer| answer["id"].is_number()) {
                    answer["id"] = answer["id"].to_string().into();
                }
                answers
            }
        });
        let mut config = ServerConfig::new("h", ServerTransport::http(streamable(fake, as_event).await));
        config.call_timeout = std::time::Duration::from_secs(20);
        let room = Room::settled([config], host()).await;
        for what in ["number", "text"] {
            let words = room.failure("mcp__h__t", json!({"what": what})).await;
            assert!(!words.contains("took longer"), "as event: {as_event}, {what}: {words}");
            assert!(
                as_event || words.contains("answered with something senseless: its answer is"),
                "{words}"
            );
        }
        // A text is no number, but for a gateway that makes texts of all numbers.
        let words = room.failure("mcp__h__t", json!({"what": "other"})).await;
        assert!(words.contains("its answer is for another request"), "as event: {as_event}: {words}");
        let config = ServerConfig::new("g", ServerTransport::http(streamable(gateway, as_event).await));
        let room = Room::settled([config], host()).await;
        assert_eq!(room.text("mcp__g__t", json!({})).await, "ok");
    }
}

/// The answer to a call has begun and could be resumed, but nobody takes connections any more.
#[tokio::test]
async fn an_answer_that_nobody_is_there_to_resume_ends_its_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let fake = talks();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(body) = body_of(&mut stream).await else { continue };
            let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            if message["method"] == "tools/call" {
                let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                             id: 7\nretry: 10\ndata: \n\n";
                stream.write_all(begun.as_bytes()).await.unwrap();
                drop(listener);
                return;
            }
            let session = "content-type: application/json\r\nmcp-session-id: s";
            let answer = match fake.hear(message).first() {
                Some(back) => http_answer(&format!("200 OK\r\n{session}"), &back.to_string()),
                None if body.is_empty() => http_answer("405 Method Not Allowed", ""),
                None => http_answer("202 Accepted", ""),
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let mut config = ServerConfig::new("h", ServerTransport::http(url));
    config.call_timeout = std::time::Duration::from_secs(8);
    let room = Room::settled([config], host()).await;
    let words = room.failure("mcp__h__t", json!({})).await;
    assert!(words.contains("went away during the call: nobody is there any more"), "{words}");
}

/// Answers every request with the same bytes, and counts them.
async fn answers(bytes: impl Into<Vec<u8>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (bytes, count): (Arc<[u8]>, _) = (bytes.into().into(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(&bytes).await;
            });
        }
    });
    (format!("http://{address}/mcp"), count)
}

async fn failure(transport: ServerTransport) -> (String, bool) {
    let room = Room::settled([ServerConfig::new("x", transport)], host()).await;
    match room.server().status() {
        ServerStatus::Failed { reason, retries } => (reason, retries),
        other => panic!("{other:?}"),
    }
}

fn http_answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_server_that_wants_an_authorization_says_so_and_is_not_asked_again() {
    let no = http_answer("401 Unauthorized\r\nwww-authenticate: Bearer realm=\"x\"", "");
    for kind in [ServerTransport::http, ServerTransport::sse] {
        let (url, count) = answers(no.clone()).await;
        let room = Room::settled([ServerConfig::new("x", kind(url))], host()).await;
        let status = room.server().status();
        assert!(
            matches!(&status, ServerStatus::NeedsSignIn { reason } if reason.contains("HTTP 401")),
            "{status:?}"
        );
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
    // Who says who they are has said it.
    let (url, count) = answers(no.clone()).await;
    let mut remote = RemoteTransport::new(url);
    remote.headers.insert("Authorization".into(), "Bearer mine".into());
    let (reason, retries) = failure(ServerTransport::Http(remote)).await;
    assert!(reason.contains("Bearer realm=\"x\"") && !retries, "{reason}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let (url, _) = answers(no).await;
    let (reason, _) = failure(ServerTransport::web_socket(url.replace("http", "ws"))).await;
    assert!(reason.contains("HTTP 401"), "{reason}");
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let (elsewhere, asked) = answers(http_answer("200 OK", "")).await;
    let (url, _) =
        answers(http_answer(&format!("307 Temporary Redirect\r\nlocation: {elsewhere}"), "")).await;
    let (reason, _) = failure(ServerTransport::http(url)).await;
    assert!(reason.contains("a redirect to"), "{reason}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "our headers stay here");
}

#[tokio::test]
async fn the_older_form_sends_nothing_to_another_origin() {
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: http://elsewhere.example/post\n\n";
    let (url, _) = answers(events).await;
    let (reason, _) = failure(ServerTransport::sse(url)).await;
    assert_eq!(reason, "its address for messages is at another origin, `http://elsewhere.example`");
    let (url, _) = answers(http_answer("200 OK\r\ncontent-type: text/html", "<html>")).await;
    let (reason, _) = failure(ServerTransport::sse(url)).await;
    assert_eq!(reason, "it answered with `text/html` in place of events");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let mut endless = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_vec();
    endless.resize(limits::MESSAGE_BYTES_MAX + 100_000, b'x');
    let (url, _) = answers(endless).await;
    let (reason, _) = failure(ServerTransport::http(url)).await;
    assert!(
        reason.contains(&format!("an answer of more than {} bytes", limits::MESSAGE_BYTES_MAX)),
        "{reason}"
    );
}

#[tokio::test]
async fn nobody_there_is_tried_again_by_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (reason, retries) = failure(ServerTransport::http(format!("http://{address}/mcp"))).await;
    assert!(retries, "{reason}");
}
