//! Every revision of the protocol, with a server made by the test: the handshake, and what is particular to
//! each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use haft::testing::ScriptedAsker;
use haft_mcp::{HostServices, ServerStatus, limits};
use serde_json::{Value, json};

use crate::fake::{Fake, newest, older, one_tool, result};
use crate::web::{Web, reply};
use crate::{Room, host, until};

#[tokio::test]
async fn every_older_revision_is_spoken() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let fake = older(revision, json!({"tools": {}}), |message| match message["method"].as_str() {
            Some("tools/list") => one_tool(message, "t"),
            _ => result(message, json!({"content": [{"type": "text", "text": "ok"}]})),
        });
        let room = Room::settled([fake.in_process("x")], host()).await;
        assert_eq!(room.revision(), revision);
        assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
        assert_eq!(fake.heard("notifications/initialized").len(), 1);
        assert_eq!(
            fake.heard("initialize")[0]["params"]["protocolVersion"],
            "2025-11-25",
            "the newest is offered"
        );
    }
}

#[tokio::test]
async fn a_revision_that_nobody_knows_is_refused() {
    let fake = older("1999-01-01", json!({"tools": {}}), |_| Vec::new());
    let room = Room::settled([fake.in_process("x")], host()).await;
    let ServerStatus::Failed { reason, retries } = room.server().status() else { panic!() };
    assert!(
        reason.starts_with("it speaks revision `1999-01-01` of the protocol; known are 2024-11-05, "),
        "{reason}"
    );
    assert!(!retries);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_first_question_is_an_older_one() {
    let deaf = Fake::new(|message| match message["method"].as_str() {
        Some("server/discover") => Vec::new(),
        Some("initialize") => result(
            message,
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "d", "version": "0"}}),
        ),
        _ => Vec::new(),
    });
    let room = Room::settled([deaf.in_process("x")], host()).await;
    assert_eq!(room.revision(), "2024-11-05");
    assert_eq!(room.server().tool_count(), 0, "it has no tools and isn't asked for them");
    assert!(deaf.heard("tools/list").is_empty());
}

#[tokio::test]
async fn a_server_that_answers_whatever_it_is_asked_is_an_older_one() {
    let fake = Fake::new(|message| match message["method"].as_str() {
        Some("initialize") => result(
            message,
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "d", "version": "0"}}),
        ),
        Some(method) if method.starts_with("notifications/") => Vec::new(),
        _ => result(message, json!({})),
    });
    let room = Room::settled([fake.in_process("x")], host()).await;
    assert_eq!(room.revision(), "2025-06-18");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_answer_the_first_question_is_asked_again() {
    let asked = Arc::new(AtomicBool::new(false));
    let first = asked.clone();
    // The first time it answers only when it is asked something else, and that it refuses.
    let slow = Fake::new(move |message| {
        let discovered = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "ttlMs": 0, "cacheScope": "private"});
        match message["method"].as_str() {
            Some("server/discover") if first.swap(true, Ordering::SeqCst) => result(message, discovered),
            Some("server/discover") => Vec::new(),
            Some("initialize") => {
                let late = json!({"jsonrpc": "2.0", "id": 0, "result": discovered});
                let refused = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32022, "message": "too old"}});
                vec![late, refused]
            }
            _ => Vec::new(),
        }
    });
    let room = Room::settled([slow.in_process("x")], host()).await;
    assert_eq!(slow.heard("server/discover")[0]["id"], 0);
    assert_eq!(room.revision(), "2026-07-28");
}

#[tokio::test]
async fn the_stateless_revision_says_who_asks_with_every_request() {
    let fake = newest(json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ => result(message, json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})),
    });
    let room = Room::settled([fake.in_process("x")], host()).await;
    assert_eq!(room.revision(), "2026-07-28");
    assert_eq!(room.text("mcp__x__t", json!({"a": 1})).await, "ok");
    assert!(fake.heard("initialize").is_empty());
    let call = &fake.heard("tools/call")[0]["params"];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("t"), &json!({"a": 1})));
    let meta = &call["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "haft");
    assert!(
        meta["io.modelcontextprotocol/clientCapabilities"].is_object() && !meta["progressToken"].is_null()
    );
    let ServerStatus::Ready { facts, .. } = room.server().status() else { panic!() };
    assert_eq!(
        (facts.instructions.as_deref(), facts.implementation.as_deref()),
        (Some("Ask nicely."), Some("fake 2"))
    );
}

#[tokio::test]
async fn a_call_may_ask_for_input_and_is_made_again_with_it() {
    let fake = newest(json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ if message["params"]["inputResponses"].is_null() => {
            let schema =
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
            result(
                message,
                json!({"resultType": "input_required", "requestState": "opaque", "inputRequests": {
                    "q": {"method": "elicitation/create", "params": {"mode": "form", "message": "How many?", "requestedSchema": schema}},
                    "r": {"method": "roots/list"}}}),
            )
        }
        _ => {
            let params = &message["params"];
            let told =
                json!([params["inputResponses"], params["requestState"], params["arguments"]]).to_string();
            result(message, json!({"resultType": "complete", "content": [{"type": "text", "text": told}]}))
        }
    });
    let asker = haft::testing::ScriptedAsker::new().then_choose(Some(vec!["3".to_owned()]));
    let room =
        Room::settled([fake.in_process("x")], host().with_asker(Arc::new(asker)).with_roots(["/r"])).await;
    let told: Value = serde_json::from_str(&room.text("mcp__x__t", json!({"a": 1})).await).unwrap();
    assert_eq!(
        told,
        json!([{"q": {"action": "accept", "content": {"n": 3}}, "r": {"roots": [{"name": "r", "uri": "file:///r"}]}}, "opaque", {"a": 1}])
    );
}

/// A user who answers everything, and a note of the fields that were asked for.
#[derive(Clone, Default)]
struct Fills(Arc<std::sync::Mutex<Vec<String>>>);

impl haft::ports::Asker for Fills {
    fn approve<'a>(
        &'a self,
        _: &'a haft::ports::ApprovalRequest,
    ) -> haft::future::BoxFuture<'a, haft::ports::ApprovalAnswer> {
        Box::pin(std::future::ready(haft::ports::ApprovalAnswer::No))
    }

    fn question<'a>(
        &'a self,
        question: &'a haft::ports::UserQuestion,
    ) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
        let field = question.text.lines().last().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push(field);
        Box::pin(std::future::ready(Some(vec!["x".to_owned()])))
    }
}

/// JSON has no order, and people who write forms do.
#[tokio::test]
async fn fields_of_a_form_are_asked_for_as_they_stand() {
    let wanted = ["street, optional", "number, optional", "city, optional"];
    let user = Fills::default();
    let counts = tempfile::NamedTempFile::new().unwrap();
    let lent = || host().with_asker(Arc::new(user.clone()));
    let room = Room::settled([crate::faulty("", counts.path())], lent()).await;
    let said = room.text("mcp__f__fields", json!({})).await;
    assert!(said.contains(r#""street": "x""#), "{said}");
    assert_eq!(*user.0.lock().unwrap(), wanted, "a request of the server");

    let fake = newest(json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ => result(message, json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})),
    });
    for kind in ["application/json", "text/event-stream"] {
        user.0.lock().unwrap().clear();
        let fake = fake.clone();
        let web = Web::start(move |_, seen| {
            let message: Value = serde_json::from_str(&seen.body).ok()?;
            let is_asking =
                message["method"] == "tools/call" && message["params"]["inputResponses"].is_null();
            let back = if is_asking {
                    let fields = r#"{"street": {"type": "string"}, "number": {"type": "string"}, "city": {"type": "string"}}"#;
                    let schema = format!(r#"{{"type": "object", "properties": {fields}}}"#);
                    let params = format!(r#"{{"mode": "form", "message": "?", "requestedSchema": {schema}}}"#);
                    let asks = format!(r#"{{"q": {{"method": "elicitation/create", "params": {params}}}}}"#);
                    let result = format!(
                        r#"{{"resultType": "input_required", "requestState": "s", "inputRequests": {asks}}}"#
                    );
                    format!(r#"{{"jsonrpc": "2.0", "id": {}, "result": {result}}}"#, message["id"])
                } else { fake.hear(message).first()?.to_string() };
            let body = if kind == "application/json" { back } else { format!("data: {back}\n\n") };
            Some(reply(&format!("200 OK\r\ncontent-type: {kind}"), body))
        })
        .await;
        let config = haft_mcp::ServerConfig::new("x", haft_mcp::ServerTransport::http(web.url.clone()));
        let room = Room::settled([config], lent()).await;
        assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
        assert_eq!(*user.0.lock().unwrap(), wanted, "a result that asks, as {kind}");
    }
}

/// A user who thinks, and a note of what they are being asked.
#[derive(Clone, Default)]
struct Thinks {
    open: Arc<AtomicUsize>,
    ever: Arc<AtomicUsize>,
}

impl haft::ports::Asker for Thinks {
    fn approve<'a>(
        &'a self,
        _: &'a haft::ports::ApprovalRequest,
    ) -> haft::future::BoxFuture<'a, haft::ports::ApprovalAnswer> {
        Box::pin(std::future::ready(haft::ports::ApprovalAnswer::No))
    }

    fn question<'a>(
        &'a self,
        _: &'a haft::ports::UserQuestion,
    ) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
        struct Open(Arc<AtomicUsize>);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        Box::pin(async {
            self.ever.fetch_add(1, Ordering::SeqCst);
            self.open.fetch_add(1, Ordering::SeqCst);
            let _open = Open(self.open.clone());
            std::future::pending().await
        })
    }
}

/// A server that answers a call and leaves its questions open.
#[tokio::test]
async fn questions_are_withdrawn_with_the_call_that_they_were_for() {
    let fake = older("2025-11-25", json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        Some("tools/call") => {
            let ask = |number: usize| {
                json!({"jsonrpc": "2.0", "id": format!("{}-{number}", message["id"]), "method": "elicitation/create",
                    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
            };
            let mut back: Vec<Value> = (0..5).map(ask).collect();
            back.extend(result(message, json!({"content": [{"type": "text", "text": "done"}]})));
            back
        }
        _ => Vec::new(),
    });
    let user = Thinks::default();
    let room =
        Room::settled([fake.in_process("s")], HostServices::new("/").with_asker(Arc::new(user.clone())))
            .await;
    // More often than questions may be open at once.
    for calls in 1..=2 * haft_mcp::limits::REQUESTS_OPEN_MAX {
        assert_eq!(room.text("mcp__s__t", json!({})).await, "done");
        let refused = || {
            let heard = fake.heard.lock().unwrap();
            heard.iter().filter(|message| message["error"]["code"] == -32603).count()
        };
        crate::until("the server is told", || refused() == 5 * calls).await;
    }
    assert_eq!(user.open.load(Ordering::SeqCst), 0);
    assert_eq!(room.server().dropped().refused, 0);
    assert!(user.ever.load(Ordering::SeqCst) > 0);
}

/// One that stops reading while there is more to say than the connection holds.
#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_delays_no_end() {
    let connect = || async {
        let (ours, theirs) = tokio::io::duplex(1 << 12);
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(theirs);
            let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(reader));
            let greeted = older("2025-11-25", json!({"tools": {}}), |message| one_tool(message, "t"));
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["method"] == "tools/call" {
                    break;
                }
                for back in greeted.hear(message) {
                    let line = format!("{back}\n");
                    tokio::io::AsyncWriteExt::write_all(&mut writer, line.as_bytes()).await.unwrap();
                }
            }
            // It is there, and that is all.
            std::future::pending::<()>().await;
        });
        Ok(Box::new(ours) as Box<dyn haft_mcp::BytePipe>)
    };
    let config = haft_mcp::ServerConfig::new("s", haft_mcp::ServerTransport::in_process(connect));
    let room = Room::settled([config], HostServices::new("/")).await;
    let turn = |text: String| room.engine.turn().run([haft::ToolCall::new("1", "mcp__s__t", text)]);
    let calls = futures_util::future::join(
        turn("{}".to_owned()),
        turn(json!({"much": "x".repeat(100_000)}).to_string()),
    );
    assert!(tokio::time::timeout(Duration::from_secs(1), calls).await.is_err(), "nobody answers");
    let begun = tokio::time::Instant::now();
    room.servers.close().await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn a_call_that_asks_for_ever_is_ended() {
    let fake = newest(json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ => result(message, json!({"resultType": "input_required", "requestState": "again"})),
    });
    let room = Room::settled([fake.in_process("x")], host()).await;
    let words = room.failure("mcp__x__t", json!({})).await;
    assert!(words.ends_with("it asked for more input 10 times"), "{words}");
    assert_eq!(fake.heard("tools/call").len(), 10);
}

/// Before 2026-07-28 a server refuses a call that needs a page, and names the page. It says itself that it
/// did nothing.
#[tokio::test(start_paused = true)]
async fn a_page_that_a_call_needs_is_shown_and_the_call_is_made_again() {
    let opened = AtomicBool::new(false);
    let fake = older("2025-11-25", json!({"tools": {}}), move |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ if opened.fetch_xor(true, Ordering::SeqCst) => {
            result(message, json!({"content": [{"type": "text", "text": "ok"}]}))
        }
        _ => {
            let page = json!({"mode": "url", "elicitationId": "p1", "url": "https://page.example/a", "message": "Look."});
            let error = json!({"code": -32042, "message": "not yet", "data": {"elicitations": [page]}});
            vec![json!({"jsonrpc": "2.0", "id": message["id"], "error": error})]
        }
    });
    let answer = |answer: &str| Some(vec![answer.to_owned()]);
    let user = ScriptedAsker::new().then_choose(answer("I have opened it")).then_choose(answer("No"));
    let room = Room::settled([fake.in_process("x")], host().with_asker(Arc::new(user.clone()))).await;
    assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
    let shown = user.questions()[0].text.clone();
    assert!(shown.contains("Look.") && shown.contains("https://page.example/a"), "{shown}");
    let words = room.failure("mcp__x__t", json!({})).await;
    assert!(
        words.ends_with("not yet; the user has to open https://page.example/a first, and the user did not"),
        "{words}"
    );
    assert_eq!(fake.heard("tools/call").len(), 3, "not made again without a yes");
    room.servers.close().await;
    let room = Room::settled([fake.in_process("x")], host()).await;
    room.text("mcp__x__t", json!({})).await;
    let words = room.failure("mcp__x__t", json!({})).await;
    assert!(words.ends_with("https://page.example/a first, and nobody can be asked here"), "{words}");
}

/// A batch is bounded, and an answer that somebody waits for is heard wherever it stands.
#[tokio::test]
async fn an_answer_at_the_end_of_a_long_batch_is_heard() {
    let fake = older("2025-03-26", json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ => {
            let words = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "w"}});
            let mut batch = vec![words; 2 * limits::BATCH_MAX];
            batch.extend(result(message, json!({"content": [{"type": "text", "text": "ok"}]})));
            vec![json!(batch)]
        }
    });
    let room = Room::settled([fake.in_process("x")], host()).await;
    assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
    assert_eq!(room.server().log().matches("[info] w").count(), limits::BATCH_MAX);
}

#[tokio::test]
async fn changes_are_listened_for_where_that_has_to_be_asked_for() {
    let changed = Arc::new(AtomicBool::new(false));
    let now = changed.clone();
    let fake = newest(json!({"tools": {"listChanged": true}}), move |message| {
        match message["method"].as_str() {
            Some("tools/list") => {
                one_tool(message, if now.load(Ordering::SeqCst) { "after" } else { "before" })
            }
            Some("subscriptions/listen") => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
                let filter = json!({"toolsListChanged": true});
                now.store(true, Ordering::SeqCst);
                vec![
                    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"notifications": filter, "_meta": meta}}),
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}),
                ]
            }
            _ => Vec::new(),
        }
    });
    let room = Room::settled([fake.in_process("x")], host()).await;
    until("the new list", || room.servers.origin_of("mcp__x__after").is_some()).await;
    assert_eq!(fake.heard("subscriptions/listen").len(), 1);
    assert!(changed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn twenty_servers_connect_side_by_side_and_nobody_waits() {
    let begun = std::time::Instant::now();
    let fakes: Vec<Fake> = (0..20)
        .map(|_| older("2025-11-25", json!({"tools": {}}), |message| one_tool(message, "t")))
        .collect();
    let configs = fakes.iter().enumerate().map(|(number, fake)| fake.in_process(&format!("s{number}")));
    let room = Room::new(configs, host());
    assert_eq!(room.servers.registry(&room.base).unwrap().len(), 0, "what is there now");
    assert!(matches!(room.server().status(), ServerStatus::Connecting));
    room.servers.settled(std::time::Duration::from_secs(60)).await;
    assert_eq!(room.servers.registry(&room.base).unwrap().len(), 20, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_lost_connection_is_made_again_for_the_next_call() {
    let fake = older("2025-11-25", json!({"tools": {}}), |message| match message["method"].as_str() {
        Some("tools/list") => one_tool(message, "t"),
        _ => result(message, json!({"content": [{"type": "text", "text": "ok"}]})),
    });
    let up = Arc::new(AtomicBool::new(true));
    let (is_up, served) = (up.clone(), fake.clone());
    let cut = Arc::new(tokio::sync::Notify::new());
    let cutting = cut.clone();
    let transport = haft_mcp::ServerTransport::in_process(move || {
        let (is_up, served, cutting) = (is_up.clone(), served.clone(), cutting.clone());
        async move {
            if !is_up.load(Ordering::SeqCst) {
                return Err("it is down".to_owned());
            }
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            tokio::spawn(async move {
                tokio::select! {
                    () = served.serve_on(theirs) => {}
                    () = cutting.notified() => {}
                }
            });
            Ok(Box::new(ours) as Box<dyn haft_mcp::BytePipe>)
        }
    });
    let room = Room::settled([haft_mcp::ServerConfig::new("x", transport)], host()).await;
    assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
    up.store(false, Ordering::SeqCst);
    cut.notify_one();
    until("it is gone", || matches!(room.server().status(), ServerStatus::Failed { .. })).await;
    let words = room.failure("mcp__x__t", json!({})).await;
    assert!(words.contains("is not there: it is down"), "{words}");
    assert_eq!(room.server().tool_count(), 1, "its tools are still offered");
    up.store(true, Ordering::SeqCst);
    assert_eq!(room.text("mcp__x__t", json!({})).await, "ok");
}
