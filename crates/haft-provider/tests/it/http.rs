//! The client against the scripted server and against servers that behave badly, over real sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_agent::{
    AgentLoop, Conversation, FailureKind, Model, ReplyDelta, RunEnd, RunEvent, RunOutcome, ToolDeferral,
};
use haft_provider::client::{ProviderClient, RetryPolicy};
use haft_provider::endpoint::ProviderEndpoint;
use haft_provider::scripted::{ModelScript, ScriptServer, serve_script};
use haft_provider::{RequestOptions, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::loops::{check_history, engine};

const ANY: &str = "127.0.0.1:0";

async fn server(script: &Value) -> ScriptServer {
    serve_script(ModelScript::parse(&script.to_string()).unwrap(), ANY.parse().unwrap()).await.unwrap()
}

fn quick() -> RetryPolicy {
    RetryPolicy { attempts: 4, first: Duration::from_millis(1), most: Duration::from_millis(2) }
}

fn client(base_url: String, wire: Wire, stream: bool) -> ProviderClient {
    let endpoint = ProviderEndpoint::new(wire).base_url(base_url).key("sk-test");
    ProviderClient::new(endpoint, RequestOptions::new("m-1").stream(stream)).unwrap().retry(quick())
}

async fn run(client: ProviderClient, log: &Arc<Mutex<Vec<String>>>) -> (RunOutcome, Conversation) {
    run_with(engine(), client, log).await
}

async fn run_with(
    engine: haft::Engine,
    client: ProviderClient,
    log: &Arc<Mutex<Vec<String>>>,
) -> (RunOutcome, Conversation) {
    let mut conversation = Conversation::new(client.endpoint().wire);
    let seen = log.clone();
    let events = Arc::new(move |event: RunEvent| match event {
        RunEvent::Model(ReplyDelta::Retrying { failure, .. }) => {
            seen.lock().unwrap().push(format!("{:?}", failure.kind))
        }
        RunEvent::Model(ReplyDelta::Restarted) => seen.lock().unwrap().push("restarted".into()),
        _ => {}
    });
    let outcome = AgentLoop::new(engine, client).events(events).run(&mut conversation, "go").await;
    check_history(&conversation);
    (outcome, conversation)
}

#[tokio::test]
async fn every_wire_streamed_and_not() {
    let script = json!({"model": "scripted-1", "turns": [
        {"text": "Let me see.", "thinking": "hm", "tool_calls": [{"name": "echo", "input": {"n": "é\"\n"}}, {"name": "fail"}]},
        {"expect": [{"result": 0, "pointer": "/n", "equals": "é\"\n"}, {"result": 1, "is_error": true}], "tool_calls": [{"name": "echo"}]},
        {"text": "All done."},
    ]});
    let server = server(&script).await;
    for wire in Wire::ALL {
        let mut kept = Vec::new();
        for stream in [true, false] {
            let log = Arc::default();
            let (outcome, conversation) = run(client(server.base_url(wire), wire, stream), &log).await;
            assert_eq!(
                (outcome.ended.clone(), outcome.text.as_str()),
                (RunEnd::Finished, "All done."),
                "{wire} {stream}: {}",
                outcome.ended
            );
            assert_eq!((outcome.turns, outcome.calls.len()), (3, 3));
            assert!(outcome.usage.output_tokens > 0 && outcome.usage.input_tokens > 0);
            assert!(log.lock().unwrap().is_empty());
            kept.push(conversation);
        }
        assert_eq!(kept[0], kept[1], "{wire}: the same history, streamed or not");
    }
}

/// What comes at once is told in pieces, and is the same.
#[tokio::test]
async fn a_long_answer_that_is_not_streamed() {
    let text = "é and more ".repeat(30_000);
    let script = json!({"turns": [{"text": text, "tool_calls": [{"name": "echo"}]}, {"text": text}]});
    let server = server(&script).await;
    for wire in Wire::ALL {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = told.clone();
        let events = Arc::new(move |event: RunEvent| {
            if let RunEvent::Model(ReplyDelta::Text(text)) = event {
                seen.lock().unwrap().push(text);
            }
        });
        let client = client(server.base_url(wire), wire, false);
        let mut conversation = Conversation::new(wire);
        let outcome = AgentLoop::new(engine(), client).events(events).run(&mut conversation, "go").await;
        assert_eq!((outcome.turns, outcome.calls.len(), outcome.text == text), (2, 1, true), "{wire}");
        let told = told.lock().unwrap();
        assert!(told.len() > 8 && told.iter().all(|piece| piece.len() < 70_000), "{wire}: {}", told.len());
        assert!(told.concat() == text.repeat(2), "{wire}");
        check_history(&conversation);
    }
}

/// Turn after turn over the same connection: the end of an answer is read, also where it comes after the
/// message's.
#[tokio::test]
async fn a_connection_is_used_again() {
    let mut turns = vec![json!({"tool_calls": [{"name": "echo"}]}); 20];
    turns.push(json!({"text": "done"}));
    let script = json!({"turns": turns});
    let server = server(&script).await;
    for wire in Wire::ALL {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let (address, behind) = (listener.local_addr().unwrap(), server.address());
        let accepted: Arc<Mutex<usize>> = Arc::default();
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let mut real = TcpStream::connect(behind).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut real).await });
            }
        });
        let base_url = server.base_url(wire).replace(&behind.to_string(), &address.to_string());
        let (outcome, _) = run(client(base_url, wire, true), &Arc::default()).await;
        assert_eq!((outcome.ended, outcome.turns), (RunEnd::Finished, 21), "{wire}");
        // On a busy machine a request may be faster than the end of the answer before it.
        let accepted = *accepted.lock().unwrap();
        assert!(accepted < 10, "{wire}: {accepted}");
    }
}

/// An endpoint that is said to know of deferred tools and doesn't: told once, and clones of the client know
/// it too.
#[tokio::test]
async fn deferred_tools_at_an_endpoint_that_does_not_know_them() {
    let turns = json!([
        {"tool_calls": [{"name": "ToolSearch", "input": {"query": "echo"}}]},
        {"tool_calls": [{"name": "echo", "input": {"n": 1}}], "expect": [{"contains": "Gives back its input."}]},
        {"text": "All done.", "expect": [{"pointer": "/n", "equals": 1}]},
    ]);
    for (wire, knows) in
        [Wire::Anthropic, Wire::OpenAi].into_iter().flat_map(|wire| [(wire, true), (wire, false)])
    {
        let server = server(&json!({"turns": turns, "deferral": knows})).await;
        for stream in [true, false] {
            let usual = client(server.base_url(wire), wire, stream);
            assert_eq!(usual.deferral(), ToolDeferral::Fallback, "nobody knows who that is");
            let endpoint = ProviderEndpoint::new(wire)
                .base_url(server.base_url(wire))
                .key("k")
                .deferral(ToolDeferral::Native);
            let client = ProviderClient::new(endpoint, RequestOptions::new("m-1").stream(stream)).unwrap();
            assert_eq!(client.deferral(), ToolDeferral::Native);
            let other = client.clone();
            let log: Arc<Mutex<Vec<String>>> = Arc::default();
            let (outcome, _) = run_with(searching(), client, &log).await;
            assert_eq!(outcome.text, "All done.", "{wire} {knows} {stream}: {}", outcome.ended);
            let (told, after) = if knows {
                (vec![], ToolDeferral::Native)
            } else {
                (vec!["BadRequest".to_owned()], ToolDeferral::Fallback)
            };
            assert_eq!(
                (log.lock().unwrap().clone(), other.deferral()),
                (told, after),
                "{wire} {knows} {stream}"
            );
        }
    }
}

/// An engine whose tool has to be searched for.
fn searching() -> haft::Engine {
    let echo = haft::dynamic_tool(
        "echo",
        "Gives back its input.",
        json!({"type": "object"}),
        |input, _| async move { Ok(input.to_string()) },
    );
    let echo = echo.effects(|_| haft::Effects::none());
    let registry = haft::Registry::new().with(haft::search::ToolSearch).unwrap();
    let mut gates = haft::registry::ToolGates::default();
    gates.defer_above = 0;
    haft::Engine::builder(registry.with_external("outside", echo).unwrap()).gates(gates).build()
}

#[tokio::test]
async fn errors_are_tried_again_and_told() {
    let script =
        json!({"turns": [{"text": "hello", "error": {"status": 429, "times": 2, "retry_after_ms": 1}}]});
    for wire in Wire::ALL {
        let server = server(&script).await;
        let log = Arc::default();
        let (outcome, _) = run(client(server.base_url(wire), wire, true), &log).await;
        assert_eq!(outcome.text, "hello", "{wire}: {}", outcome.ended);
        assert_eq!(*log.lock().unwrap(), ["RateLimited", "RateLimited"]);
    }
}

#[tokio::test]
async fn connections_that_are_lost() {
    let text = "a long text that is cut off in the middle";
    for wire in Wire::ALL {
        for error in [
            json!({"disconnect": true, "times": 1}),
            json!({"disconnect": true, "after_events": 5, "times": 1}),
            json!({"after_events": 5, "times": 1, "type": "overloaded_error"}),
        ] {
            let server =
                server(&json!({"turns": [{"text": text, "stream": {"chunk_chars": 3}, "error": error}]}))
                    .await;
            let log = Arc::default();
            let (outcome, conversation) = run(client(server.base_url(wire), wire, true), &log).await;
            assert_eq!(outcome.text, text, "{wire} {error}: {}", outcome.ended);
            assert_eq!(conversation.items().len(), 2);
            let log = log.lock().unwrap();
            let kind = if error.get("type").is_some() { "Overloaded" } else { "Disconnected" };
            assert_eq!(log.last().unwrap(), kind, "{wire} {error}");
            assert_eq!(
                log.contains(&"restarted".to_owned()),
                error.get("after_events").is_some(),
                "{wire} {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_call_that_ran_is_never_asked_for_again() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "echo", "input": {"n": 1}}, {"name": "echo", "input": {"n": 2}}], "error": {"disconnect": true, "after_events": 9, "times": 1}, "stream": {"chunk_chars": 100}},
        {"text": "on", "expect": [{"result": 0, "pointer": "/n", "equals": 1}]},
    ]});
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let server = server(&script).await;
        let log = Arc::default();
        let (outcome, _) = run(client(server.base_url(wire), wire, true), &log).await;
        assert_eq!(outcome.text, "on", "{wire}: {}", outcome.ended);
        assert_eq!(*log.lock().unwrap(), Vec::<String>::new(), "{wire}: nothing was tried again");
    }
}

/// A server that says one thing to every connection; counts them.
async fn rude(answer: &'static [u8]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let got = stream.read(&mut head).await.unwrap_or_default();
            seen.lock().unwrap().push(String::from_utf8_lossy(&head[..got]).into_owned());
            let _ = stream.write_all(answer).await;
        }
    });
    (address, heads)
}

async fn failure(answer: &'static [u8]) -> (haft_agent::ModelFailure, usize) {
    failure_by(Wire::Anthropic, answer).await
}

async fn failure_by(wire: Wire, answer: &'static [u8]) -> (haft_agent::ModelFailure, usize) {
    let (address, heads) = rude(answer).await;
    let (outcome, _) = run(client(format!("http://{address}"), wire, true), &Arc::default()).await;
    let RunEnd::Failed(failure) = outcome.ended else { panic!("{}", outcome.ended) };
    let attempts = heads.lock().unwrap().len();
    (failure, attempts)
}

#[tokio::test]
async fn servers_that_behave_badly() {
    let (told, attempts) = failure(b"").await;
    assert_eq!((told.kind, attempts), (FailureKind::Disconnected, 4));
    let (told, _) =
        failure(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 4\r\n\r\nrubb").await;
    assert_eq!(told.kind, FailureKind::Disconnected);
    let (told, attempts) =
        failure(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {rubbish\n\n").await;
    assert_eq!((told.kind, attempts), (FailureKind::Malformed, 1));
    let (told, attempts) =
        failure(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]").await;
    assert_eq!((told.kind, attempts), (FailureKind::Malformed, 1));
    let (told, attempts) =
        failure(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(
        (told.kind, told.status, attempts),
        (FailureKind::BadRequest, Some(302), 1),
        "the key goes nowhere else"
    );
    let (told, attempts) =
        failure(b"HTTP/1.1 503 No\r\nx-should-retry: false\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!((told.status, attempts), (Some(503), 1));
    let (told, attempts) =
        failure(b"HTTP/1.1 409 No\r\nx-should-retry: true\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!((told.status, attempts), (Some(409), 4));
}

/// An address where something else answers is a mistake, and asking again doesn't mend it.
#[tokio::test]
async fn servers_of_something_else() {
    for wire in Wire::ALL {
        let (told, attempts) = failure_by(
            wire,
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 13\r\n\r\n<html></html>",
        )
        .await;
        assert_eq!((told.kind, attempts), (FailureKind::Malformed, 1), "{wire}");
        assert_eq!(
            told.message,
            "the server's answer is no event stream (content-type text/html; charset=utf-8); is the base URL right?"
        );
        let (told, attempts) = failure_by(
            wire,
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        )
        .await;
        assert_eq!((told.kind, attempts), (FailureKind::Malformed, 1), "{wire}: {told}");
        assert!(told.message.ends_with("; is the base URL right?"), "{wire}: {told}");
    }
}

#[tokio::test]
async fn what_is_sent_with_a_request() {
    let (address, heads) = rude(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n").await;
    for wire in Wire::ALL {
        run(client(format!("http://{address}"), wire, true), &Arc::default()).await;
    }
    let heads = heads.lock().unwrap();
    let has = |at: usize, parts: &[&str]| {
        for part in parts {
            assert!(heads[at].contains(part), "{part} in {}", heads[at]);
        }
    };
    has(
        0,
        &[
            "POST /v1/messages HTTP/1.1",
            "x-api-key: sk-test",
            "anthropic-version: 2023-06-01",
            "user-agent: haft/",
        ],
    );
    has(1, &["POST /responses HTTP/1.1", "authorization: Bearer sk-test", "content-type: application/json"]);
    has(
        2,
        &["POST /chat/completions HTTP/1.1", "authorization: Bearer sk-test", "accept: text/event-stream"],
    );
    has(3, &["POST /v1beta/models/m-1:streamGenerateContent?alt=sse HTTP/1.1", "x-goog-api-key: sk-test"]);
}

#[tokio::test]
async fn silence_is_an_end() {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = client(format!("http://{address}"), Wire::OpenAi, true)
        .retry(RetryPolicy::never())
        .silence(Duration::from_millis(20));
    let (outcome, _) = run(client, &Arc::default()).await;
    let RunEnd::Failed(failure) = outcome.ended else { panic!("{}", outcome.ended) };
    assert_eq!(failure.kind, FailureKind::TimedOut);
}

#[tokio::test]
async fn an_endpoint_that_fails_again_and_again_is_left_alone() {
    let (address, heads) = rude(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").await;
    let client = client(format!("http://{address}"), Wire::OpenAi, true);
    let mut ends = Vec::new();
    for _ in 0..5 {
        let (outcome, _) = run(client.clone(), &Arc::default()).await;
        let RunEnd::Failed(failure) = outcome.ended else { panic!("{}", outcome.ended) };
        ends.push(failure.kind);
    }
    assert_eq!(ends.last(), Some(&FailureKind::Resting), "{ends:?}");
    assert_eq!(heads.lock().unwrap().len(), 10);
}

/// One raw exchange with the scripted server.
async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_server_takes_what_clients_send() {
    let server = server(&json!({"turns": [{"text": "hi"}], "side": {"text": "a title"}})).await;
    let address = server.address();
    let body = json!({"model": "m", "input": "hello", "tools": [{"type": "function"}]}).to_string();
    let plain =
        format!("POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = raw(address, &plain).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"text\":\"hi\""), "{answer}");
    let twice = raw(address, &format!("{plain}{plain}")).await;
    assert_eq!(twice.matches("HTTP/1.1 200 OK").count(), 2, "the connection stays");
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "POST /responses HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\na\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        second.len()
    );
    let answer = raw(address, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{answer}");
    let side = json!({"model": "m", "messages": [{"role": "user", "content": "title?"}]}).to_string();
    let side = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{side}", side.len());
    assert!(raw(address, &side).await.contains("a title"));
    assert!(raw(address, "GET /v1/models HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn the_server_refuses_what_it_should() {
    let server = server(&json!({"turns": [{"text": "hi"}]})).await;
    let address = server.address();
    let post =
        |body: &str| format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let refused = [
        ("rubbish\r\n\r\n".to_owned(), "400"),
        ("POST / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), "400"),
        (format!("POST / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000)), "431"),
        ("POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n".to_owned(), "413"),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffff\r\n".to_owned(), "413"),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n".to_owned(), "400"),
        (post("{"), "400"),
        (post("{}"), "400"),
        (
            post(
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":"b"}]}"#,
            ),
            "400",
        ),
        (
            post(
                r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}"#,
            ),
            "400",
        ),
    ];
    for (request, status) in refused {
        let answer = raw(address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
    }
    for cut in ["", "POST", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc"] {
        raw(address, cut).await;
    }
    let open =
        serve_script(ModelScript::parse("turns: [{text: a}]").unwrap(), "0.0.0.0:0".parse().unwrap()).await;
    assert!(open.unwrap_err().to_string().starts_with("0.0.0.0 is no loopback address"));
    drop(server);
    tokio::task::yield_now().await;
}

#[tokio::test]
async fn an_interrupt_in_every_state_of_an_exchange() {
    let scripts = [
        json!({"turns": [{"text": "a", "delay_ms": 60_000}]}),
        json!({"turns": [{"text": "abcdef", "stream": {"chunk_chars": 1, "chunk_delay_ms": 60_000}}]}),
        json!({"turns": [{"error": {"status": 529, "retry_after_ms": 60_000}}]}),
    ];
    for (at, script) in scripts.iter().enumerate() {
        let server = server(script).await;
        let handle = haft_agent::RunHandle::new();
        let said: Arc<tokio::sync::Notify> = Arc::default();
        let told = said.clone();
        let events = Arc::new(move |event: RunEvent| {
            let there = match at {
                0 => matches!(event, RunEvent::Asked { .. }),
                1 => matches!(event, RunEvent::Model(ReplyDelta::Started { .. })),
                _ => matches!(event, RunEvent::Model(ReplyDelta::Retrying { .. })),
            };
            if there {
                told.notify_one();
            }
        });
        let client = client(server.base_url(Wire::Anthropic), Wire::Anthropic, true);
        let agent = AgentLoop::new(engine(), client).events(events).handle(handle.clone());
        let mut conversation = Conversation::new(Wire::Anthropic);
        let interrupt = async {
            said.notified().await;
            handle.interrupt();
        };
        let (outcome, ()) = tokio::join!(agent.run(&mut conversation, "go"), interrupt);
        assert_eq!(outcome.ended, RunEnd::Interrupted, "{at}");
        check_history(&conversation);
    }
}

#[test]
fn clients_that_can_t_be_made() {
    let bad =
        |endpoint: ProviderEndpoint| ProviderClient::new(endpoint, RequestOptions::new("m")).err().unwrap();
    assert_eq!(
        bad(ProviderEndpoint::new(Wire::OpenAi).key("a\nb")),
        "the header `authorization` can't be sent; a key must be one line of plain characters"
    );
    assert!(
        bad(ProviderEndpoint::new(Wire::OpenAi).base_url("nowhere"))
            .starts_with("the base URL `nowhere` has no scheme")
    );
}
