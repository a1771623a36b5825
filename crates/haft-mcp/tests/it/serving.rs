//! Our server, and clients over lines: every revision, and every way to misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::{Cancel, Cause};
use haft_mcp::limits;
use haft_mcp::server::{
    CallToolResult, ChangeNotifier, ContentBlock, DefinitionList, ElicitationAnswer, ErrorData,
    Implementation, InputRequest, ListChange, LogLevel, McpServer, ServerFeatures, ServerHandler,
    ToolCallRequest, unknown_resource, unknown_tool,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;

/// A handler whose tools do what a test wants.
pub(crate) struct Workshop {
    /// Each permit lets one call of `wait` end.
    pub(crate) gate: Semaphore,
    pub(crate) waiting: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) watched: AtomicUsize,
    pub(crate) changes: ChangeNotifier,
}

fn text_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn error_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl Workshop {
    pub(crate) fn new() -> Arc<Workshop> {
        Arc::new(Workshop {
            gate: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            changes: ChangeNotifier::default(),
        })
    }

    async fn run(&self, call: ToolCallRequest) -> Result<CallToolResult, ErrorData> {
        let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap_or_default();
        Ok(match call.name.as_str() {
            "echo" => match arguments["text"].as_str() {
                Some(text) => text_result(text),
                None => error_result("invalid input for echo: /text is missing; a string is required"),
            },
            "big" => text_result("x".repeat(1024 * 1024)),
            "wait" => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    permit = self.gate.acquire() => permit.unwrap().forget(),
                    _ = call.cancel.cancelled() => {
                        self.cancelled.fetch_add(1, Ordering::SeqCst);
                        return Ok(error_result("cancelled"));
                    }
                }
                text_result("waited")
            }
            // One that hears of nothing.
            "stubborn" => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.unwrap().forget();
                text_result("waited")
            }
            "tell" => {
                call.peer.progress(1.0, Some(2.0), Some("half"));
                call.peer.log(LogLevel::Debug, None, &json!("small"));
                call.peer.log(LogLevel::Error, Some("workshop"), &json!("large"));
                self.waiting.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.unwrap().forget();
                call.peer.progress(2.0, Some(2.0), None);
                text_result("told")
            }
            "ask" | "ask_in_task" => {
                if call.name == "ask_in_task" {
                    call.peer.start_task()?;
                }
                let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                match call.peer.elicit("Who?", form).await {
                    Ok(ElicitationAnswer::Accepted(content)) => text_result(format!("{}", content["name"])),
                    Ok(other) => text_result(format!("{other:?}")),
                    Err(why) => error_result(why.to_string()),
                }
            }
            "ask_thrice" => {
                let mut heard = Vec::new();
                for _ in 0..3 {
                    heard.push(call.peer.ask(InputRequest::roots()).await?["roots"].clone());
                }
                text_result(Value::Array(heard).to_string())
            }
            "panic" => panic!("on purpose"),
            other => return Err(unknown_tool(other)),
        })
    }
}

impl ServerHandler for Workshop {
    fn info(&self) -> Implementation {
        Implementation::new("workshop", "1").with_title("The workshop")
    }

    fn instructions(&self) -> Option<String> {
        Some("Mind the saw.".to_owned())
    }

    fn features(&self) -> ServerFeatures {
        ServerFeatures {
            tools: true,
            resources: true,
            subscriptions: true,
            logging: true,
            list_changes: true,
            tasks: true,
            ..ServerFeatures::default()
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        let names = ["echo", "big", "wait", "tell", "ask", "ask_thrice", "ask_in_task", "panic"];
        let tool = |name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
        Box::pin(async move { Ok(DefinitionList::new(names.map(tool))) })
    }

    fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
        Box::pin(self.run(call))
    }

    fn subscribe(&self, uri: &str) -> Result<(), ErrorData> {
        if uri == "x://none" {
            return Err(unknown_resource(uri));
        }
        self.watched.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unsubscribe(&self, _: &str) {
        self.watched.fetch_sub(1, Ordering::SeqCst);
    }

    fn changes(&self) -> Option<broadcast::Receiver<ListChange>> {
        Some(self.changes.subscribe())
    }
}

/// A client that writes whatever a test wants, and its server.
struct Wire {
    to: Option<WriteHalf<DuplexStream>>,
    from: Option<BufReader<ReadHalf<DuplexStream>>>,
    stop: Cancel,
    serving: JoinHandle<()>,
}

async fn patient<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("within a minute")
}

impl Wire {
    fn open(server: McpServer) -> Wire {
        let (theirs, ours) = tokio::io::duplex(16 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        let stop = Cancel::new();
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { server.serve_lines(reader, writer, &stopped).await });
        let (from, to) = tokio::io::split(theirs);
        Wire { to: Some(to), from: Some(BufReader::new(from)), stop, serving }
    }

    async fn greeted(server: McpServer, revision: &str, can: Value) -> Wire {
        let mut wire = Wire::open(server);
        wire.request(0, "initialize", hello(revision, can)).await;
        assert_eq!(wire.next().await["result"]["protocolVersion"], revision);
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        wire
    }

    async fn raw(&mut self, bytes: &[u8]) {
        patient(self.to.as_mut().unwrap().write_all(bytes)).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})).await;
    }

    async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments})).await;
    }

    /// The next message; nothing at the end.
    async fn maybe(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = patient(self.from.as_mut().unwrap().read_line(&mut line)).await.unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    async fn next(&mut self) -> Value {
        self.maybe().await.expect("the server talks on")
    }

    async fn answer(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let id = id.into();
        self.call(id.clone(), tool, arguments).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn works(&mut self) {
        let answer = self.answer("works", "echo", json!({"text": "yes"})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "yes");
    }
}

fn hello(revision: &str, can: Value) -> Value {
    json!({"protocolVersion": revision, "capabilities": can, "clientInfo": {"name": "t", "version": "0"}})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// What a request of the newest revision says of its client.
pub(crate) fn meta(can: Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": can,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"}})
}

fn server() -> (Arc<Workshop>, McpServer) {
    let workshop = Workshop::new();
    (workshop.clone(), McpServer::new(workshop))
}

#[tokio::test]
async fn every_revision_with_a_handshake_is_spoken() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut wire = Wire::open(server().1);
        wire.request(1, "initialize", hello(revision, json!({}))).await;
        let greeting = wire.next().await;
        assert_eq!(greeting["result"]["protocolVersion"], revision);
        assert_eq!(greeting["result"]["serverInfo"]["name"], "workshop");
        assert_eq!(greeting["result"]["instructions"], "Mind the saw.");
        assert_eq!(greeting["result"]["capabilities"]["tools"]["listChanged"], true);
        assert!(greeting["result"]["capabilities"].get("prompts").is_none());
        wire.request("p", "ping", json!({})).await;
        assert_eq!(wire.next().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        wire.request(2, "tools/list", json!({})).await;
        assert_eq!(wire.next().await["result"]["tools"].as_array().unwrap().len(), 8);
        wire.works().await;
        wire.request(3, "prompts/list", json!({})).await;
        assert_eq!(wire.next().await["error"]["code"], -32601, "not offered");
        wire.request(4, "initialize", hello(revision, json!({}))).await;
        assert_eq!(wire.next().await["error"]["code"], -32600, "once is enough");
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let mut wire = Wire::open(server().1);
    wire.request(1, "server/discover", json!({"_meta": meta(json!({}))})).await;
    let found = wire.next().await;
    assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["result"]["resultType"], "complete");
    assert_eq!(found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["title"], "The workshop");
    wire.request(
        2,
        "tools/call",
        json!({"name": "echo", "arguments": {"text": "a"}, "_meta": meta(json!({}))}),
    )
    .await;
    let called = wire.next().await;
    assert_eq!((text(&called), called["result"]["resultType"].as_str()), ("a", Some("complete")));
    wire.request(3, "server/discover", json!({})).await;
    assert_eq!(wire.next().await["error"]["code"], -32602, "nobody said who asks");
    let mut other = meta(json!({}));
    other["io.modelcontextprotocol/protocolVersion"] = "2030-01-01".into();
    wire.request(4, "tools/list", json!({"_meta": other})).await;
    let refused = wire.next().await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2030-01-01"}));
    wire.request(5, "ping", json!({"_meta": meta(json!({}))})).await;
    assert_eq!(wire.next().await["error"]["code"], -32601);
}

#[tokio::test]
async fn nothing_comes_before_the_handshake() {
    let mut wire = Wire::open(server().1);
    wire.call(1, "echo", json!({"text": "a"})).await;
    assert_eq!(wire.next().await["error"]["code"], -32600);
    wire.request(2, "initialize", json!({"capabilities": {}})).await;
    assert_eq!(wire.next().await["error"]["code"], -32602, "no revision");
    wire.request(3, "initialize", hello("1900-01-01", json!({}))).await;
    assert_eq!(wire.next().await["result"]["protocolVersion"], "2025-11-25");
    wire.works().await;
}

#[tokio::test]
async fn bad_input_is_a_result_and_an_unknown_tool_an_error() {
    let mut wire = Wire::greeted(server().1, "2025-11-25", json!({})).await;
    for arguments in [json!({}), json!({"text": 3}), json!([]), json!("x"), Value::Null] {
        let answer = wire.answer(1, "echo", arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{arguments}");
        assert!(text(&answer).contains("/text is missing"), "{arguments}");
    }
    let unknown = wire.answer(2, "saw", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(unknown["error"]["message"], "Unknown tool: saw");
}

#[tokio::test]
async fn senseless_lines_are_answered_and_do_no_harm() {
    let mut wire = Wire::greeted(server().1, "2025-11-25", json!({})).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{}{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let lines: [(&[u8], Option<i64>); 14] = [
        (b"{", Some(-32700)),
        (b"nonsense", Some(-32700)),
        (b"\xff\xfe", Some(-32700)),
        (b"\xef\xbb\xbf{}", Some(-32700)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"ping\"}", Some(-32700)),
        (b"{}", Some(-32600)),
        (b"3", Some(-32600)),
        (b"null", Some(-32600)),
        (b"[]", Some(-32600)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", Some(-32600)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", Some(-32600)),
        (deep.as_bytes(), Some(-32602)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"haft-77\",\"result\":{}}", None),
        (b"", None),
    ];
    for (line, code) in lines {
        wire.raw(line).await;
        wire.raw(b"\r\n").await;
        if let Some(code) = code {
            let answer = wire.next().await;
            assert_eq!(answer["error"]["code"], code, "{}", String::from_utf8_lossy(line));
        }
    }
    wire.works().await;
}

#[tokio::test]
async fn a_client_that_only_talks_nonsense_has_to_go() {
    let mut wire = Wire::open(server().1);
    let nonsense = "x\n".repeat(limits::INVALID_MAX as usize);
    wire.raw(nonsense.as_bytes()).await;
    let mut told = 0;
    while wire.maybe().await.is_some() {
        told += 1;
    }
    assert_eq!(told, limits::INVALID_MAX);
    patient(wire.serving).await.unwrap();
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_connection() {
    let (_, server) = server();
    let mut wire = Wire::open(server.with_limits(|limits| limits.message_bytes = 100_000));
    for _ in 0..20 {
        if wire.to.as_mut().unwrap().write_all(&[b'x'; 10_000]).await.is_err() {
            break;
        }
    }
    assert_eq!(wire.next().await["error"]["message"], "the message is too long");
    assert!(wire.maybe().await.is_none());
    patient(wire.serving).await.unwrap();
}

#[tokio::test]
async fn what_was_asked_is_answered_after_the_input_ended() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    wire.raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"pi").await;
    patient(wire.to.take().unwrap().shutdown()).await.unwrap();
    workshop.gate.add_permits(1);
    assert_eq!(text(&wire.next().await), "waited");
    assert!(wire.maybe().await.is_none(), "half a line is none");
    patient(wire.serving).await.unwrap();
}

#[tokio::test]
async fn the_last_message_needs_no_end_of_its_line() {
    let (_, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}").await;
    patient(wire.to.take().unwrap().shutdown()).await.unwrap();
    assert_eq!(wire.next().await["id"], 2);
    patient(wire.serving).await.unwrap();
}

#[tokio::test]
async fn requests_under_way_are_bounded_and_each_is_answered_once() {
    let (workshop, server) = server();
    let mut wire =
        Wire::greeted(server.with_limits(|limits| limits.in_flight = 10), "2025-11-25", json!({})).await;
    for id in 0..15 {
        wire.call(id, "wait", json!({})).await;
    }
    let mut refused = Vec::new();
    for _ in 0..5 {
        let answer = wire.next().await;
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        refused.push(answer["id"].as_u64().unwrap());
    }
    assert_eq!(refused, [10, 11, 12, 13, 14]);
    // Whether it is still there can be asked all the same.
    wire.request(99, "ping", json!({})).await;
    let pong = wire.next().await;
    assert_eq!((pong["id"].as_u64(), pong["result"].is_object()), (Some(99), true), "{pong}");
    workshop.gate.add_permits(10);
    let mut answered = Vec::new();
    for _ in 0..10 {
        answered.push(wire.next().await["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..10).collect::<Vec<_>>());
    wire.works().await;
}

#[tokio::test]
async fn a_number_that_is_taken_is_not_answered_twice() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    wire.call(1, "echo", json!({"text": "other"})).await;
    let wrong = wire.next().await;
    assert_eq!((wrong["id"].clone(), wrong["error"]["code"].as_i64()), (Value::Null, Some(-32600)));
    // The same figure as text is another number.
    assert_eq!(text(&wire.answer("1", "echo", json!({"text": "text"})).await), "text");
    workshop.gate.add_permits(1);
    assert_eq!(text(&wire.next().await), "waited");
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_not_answered() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(7, "wait", json!({})).await;
    wire.call(8, "wait", json!({})).await;
    for odd in [json!({}), json!({"requestId": "7"}), json!({"requestId": 99}), json!(null)] {
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": odd})).await;
    }
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
        .await;
    crate::until("it was told", || workshop.cancelled.load(Ordering::SeqCst) == 1).await;
    workshop.gate.add_permits(1);
    assert_eq!(wire.next().await["id"], 8);
    // The number is free again.
    assert_eq!(text(&wire.answer(7, "echo", json!({"text": "again"})).await), "again");
}

#[tokio::test]
async fn batches_belong_to_old_revisions() {
    let (_, server) = server();
    let mut wire = Wire::greeted(server.clone(), "2025-03-26", json!({})).await;
    let echo = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": id.to_string()}}});
    wire.send(
        json!([echo(1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, echo(2), 3, echo(1)]),
    )
    .await;
    let answers = wire.next().await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{answers:?}");
    let good = answers.iter().filter(|answer| answer.get("result").is_some()).count();
    assert_eq!(good, 2, "{answers:?}");
    wire.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    wire.works().await;
    for odd in [json!([]), Value::Array((0..=limits::BATCH_MAX as u32).map(echo).collect())] {
        wire.send(odd).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
    }
    let mut wire = Wire::greeted(server, "2025-06-18", json!({})).await;
    wire.send(json!([echo(1)])).await;
    assert_eq!(wire.next().await["error"]["code"], -32600);
    wire.works().await;
}

#[tokio::test]
async fn a_panic_is_one_failed_request() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut wire = Wire::greeted(server().1, "2025-11-25", json!({})).await;
        let meta = if revision == "2026-07-28" { meta(json!({})) } else { json!({}) };
        wire.request(1, "tools/call", json!({"name": "panic", "_meta": meta})).await;
        let answer = wire.next().await;
        assert_eq!(answer["error"]["code"], -32603, "{revision}: {answer}");
        assert!(!answer.to_string().contains("on purpose"), "{answer}");
        wire.works().await;
    }
}

#[tokio::test]
async fn the_client_is_asked_and_wrong_answers_do_no_harm() {
    let mut wire = Wire::greeted(server().1, "2025-11-25", json!({"elicitation": {}})).await;
    wire.call(1, "ask", json!({})).await;
    let asked = wire.next().await;
    assert_eq!(
        (asked["method"].as_str(), asked["params"]["message"].as_str()),
        (Some("elicitation/create"), Some("Who?"))
    );
    let accept = json!({"action": "accept", "content": {"name": "me"}});
    for wrong in [json!(1), json!("haft-999"), json!("x"), json!(null)] {
        wire.send(json!({"jsonrpc": "2.0", "id": wrong, "result": accept})).await;
    }
    // `null` is no number of anybody's.
    assert_eq!(wire.answer("still", "echo", json!({"text": "here"})).await["id"], "still");
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": accept})).await;
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    assert_eq!(text(&wire.next().await), "\"me\"");

    wire.call(2, "ask", json!({})).await;
    let asked = wire.next().await;
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no\u{202e}"}}))
        .await;
    assert_eq!(text(&wire.next().await), "the client refused: no\\u{202e}");

    wire.call(3, "ask", json!({})).await;
    let asked = wire.next().await;
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": 3})).await;
    assert_eq!(text(&wire.next().await), "the client's answer is invalid");

    for (at, twice) in [
        r#"{"action": "decline", "action": "accept", "content": {"name": "me"}}"#,
        r#"{"action": "accept", "content": {"name": "you", "name": "me"}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        wire.call(30 + at, "ask", json!({})).await;
        let asked = wire.next().await;
        let answer = format!("{{\"jsonrpc\": \"2.0\", \"id\": {}, \"result\": {twice}}}\n", asked["id"]);
        wire.raw(answer.as_bytes()).await;
        assert_eq!(text(&wire.next().await), "the client's answer is invalid", "{twice}");
    }

    wire.call(4, "ask", json!({})).await;
    let asked = wire.next().await;
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}))
        .await;
    let told = wire.next().await;
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], asked["id"]);

    let mut plain = Wire::greeted(server().1, "2025-11-25", json!({})).await;
    assert_eq!(text(&plain.answer(1, "ask", json!({})).await), "the client can't show forms to its user");
}

#[tokio::test]
async fn a_call_of_the_newest_revision_asks_by_its_result_and_goes_on() {
    let mut wire = Wire::open(server().1);
    let can = json!({"elicitation": {}, "roots": {}});
    let again = |tool: &str, more: Value| {
        let mut params = json!({"name": tool, "arguments": {}, "_meta": meta(can.clone())});
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        params
    };
    wire.request(1, "tools/call", again("ask", json!({}))).await;
    let first = wire.next().await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    let (key, asked) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(asked["params"]["message"], "Who?");
    let said = |name: &str| json!({key: {"action": "accept", "content": {"name": name}}});
    let state = &first["requestState"];

    // Another tool, other arguments, a state that was changed: none of them goes on with this call.
    wire.request(
        2,
        "tools/call",
        again("wait", json!({"requestState": state, "inputResponses": said("you")})),
    )
    .await;
    assert_eq!(wire.next().await["error"]["code"], -32602);
    let other = json!({"requestState": state, "inputResponses": said("you"), "arguments": {"a": 1}});
    wire.request(3, "tools/call", again("ask", other)).await;
    assert_eq!(wire.next().await["error"]["code"], -32602);
    for odd in ["", "x", "AAAA", &format!("{}A", state.as_str().unwrap()), &"A".repeat(100_000)] {
        wire.request(
            4,
            "tools/call",
            again("ask", json!({"requestState": odd, "inputResponses": said("you")})),
        )
        .await;
        assert_eq!(wire.next().await["error"]["code"], -32602, "{odd}");
    }
    // An answer that is none is asked for again, with another state.
    let senseless = json!({"requestState": state, "inputResponses": {key: 3, "more": {}}});
    wire.request(5, "tools/call", again("ask", senseless)).await;
    let second = wire.next().await["result"].clone();
    assert_eq!(second["inputRequests"], first["inputRequests"]);
    assert_ne!(second["requestState"], first["requestState"]);
    wire.request(
        6,
        "tools/call",
        again("ask", json!({"requestState": state, "inputResponses": said("old")})),
    )
    .await;
    assert_eq!(wire.next().await["error"]["code"], -32602, "a state is good once");
    let good = json!({"requestState": second["requestState"], "inputResponses": said("me")});
    wire.request(7, "tools/call", again("ask", good.clone())).await;
    assert_eq!(text(&wire.next().await), "\"me\"");
    wire.request(8, "tools/call", again("ask", good)).await;
    assert_eq!(wire.next().await["error"]["code"], -32602);

    // Nobody can answer what was not asked yet.
    let early = json!({"inputResponses": {"ask": {"action": "accept", "content": {"name": "me"}}, "ask-1": {"action": "accept"}}});
    wire.request(9, "tools/call", again("ask", early)).await;
    assert_eq!(wire.next().await["result"]["resultType"], "input_required");

    // Several rounds.
    let mut more = json!({});
    for round in 0..3 {
        wire.request(10 + round, "tools/call", again("ask_thrice", more)).await;
        let result = wire.next().await["result"].clone();
        let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        more = json!({"requestState": result["requestState"], "inputResponses": {key: {"roots": [round]}}});
    }
    wire.request(20, "tools/call", again("ask_thrice", more)).await;
    assert_eq!(text(&wire.next().await), "[[0],[1],[2]]");
}

#[tokio::test]
async fn progress_and_logs_come_to_who_wants_them() {
    let (workshop, server) = server();
    workshop.gate.add_permits(10);
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.request(1, "tools/call", json!({"name": "tell", "_meta": {"progressToken": "t"}})).await;
    let progress = wire.next().await;
    assert_eq!(
        progress["params"],
        json!({"progressToken": "t", "progress": 1.0, "total": 2.0, "message": "half"})
    );
    let line = wire.next().await;
    assert_eq!(
        line["params"],
        json!({"level": "error", "logger": "workshop", "data": "large"}),
        "small lines are not wanted"
    );
    assert_eq!(wire.next().await["params"]["progress"], 2.0);
    assert_eq!(text(&wire.next().await), "told");
    wire.request(2, "logging/setLevel", json!({"level": "emergency"})).await;
    assert_eq!(wire.next().await["result"], json!({}));
    wire.request(3, "logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(wire.next().await["error"]["code"], -32602);
    assert_eq!(text(&wire.answer(4, "tell", json!({})).await), "told", "no token, no progress");
    let mut meta = meta(json!({}));
    meta["io.modelcontextprotocol/logLevel"] = "debug".into();
    wire.request(5, "tools/call", json!({"name": "tell", "_meta": meta})).await;
    assert_eq!(wire.next().await["params"]["data"], "small");
    assert_eq!(wire.next().await["params"]["data"], "large");
    assert_eq!(text(&wire.next().await), "told");
}

#[tokio::test]
async fn changes_are_told_to_who_listens() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server.clone(), "2025-11-25", json!({})).await;
    wire.works().await;
    workshop.changes.notify(ListChange::Tools);
    assert_eq!(wire.next().await["method"], "notifications/tools/list_changed");
    wire.request(1, "resources/subscribe", json!({"uri": "x://none"})).await;
    assert_eq!(wire.next().await["error"]["code"], -32002);
    wire.request(2, "resources/subscribe", json!({"uri": "x://1"})).await;
    assert_eq!(wire.next().await["result"], json!({}));
    workshop.changes.notify(ListChange::Resource("x://2".into()));
    workshop.changes.notify(ListChange::Resource("x://1".into()));
    let told = wire.next().await;
    assert_eq!(
        (told["method"].as_str(), told["params"]["uri"].as_str()),
        (Some("notifications/resources/updated"), Some("x://1"))
    );
    drop(wire);
    crate::until("nobody watches", || workshop.watched.load(Ordering::SeqCst) == 0).await;

    let mut wire = Wire::open(server);
    let filter =
        json!({"resourcesListChanged": true, "resourceSubscriptions": ["x://1", "x://none", "x://1"]});
    wire.request("s", "subscriptions/listen", json!({"notifications": filter, "_meta": meta(json!({}))}))
        .await;
    let first = wire.next().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        first["params"]["notifications"],
        json!({"resourcesListChanged": true, "resourceSubscriptions": ["x://1"]})
    );
    workshop.changes.notify(ListChange::Tools);
    workshop.changes.notify(ListChange::Resources);
    let told = wire.next().await;
    assert_eq!(told["method"], "notifications/resources/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s");
    wire.stop.cancel(Cause::Shutdown);
    let last = wire.next().await;
    assert_eq!((last["id"].as_str(), last["result"]["resultType"].as_str()), (Some("s"), Some("complete")));
    assert!(wire.maybe().await.is_none());
    assert_eq!(workshop.watched.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_client_that_is_gone_cancels_what_it_asked_for() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    crate::until("it waits", || workshop.waiting.load(Ordering::SeqCst) == 1).await;
    // Nobody reads the answers any more, and the next one finds that out.
    (wire.to, wire.from) = (None, None);
    workshop.changes.notify(ListChange::Tools);
    patient(wire.serving).await.unwrap();
    assert_eq!(workshop.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from() {
    let mut wire = Wire::greeted(server().1, "2025-11-25", json!({})).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "big", "arguments": {"pad": "x".repeat(8_000)}}});
    let line = format!("{call}\n").into_bytes();
    let most = limits::UNREAD_BYTES_MAX / (1024 * 1024) + limits::READ_BYTES / 8_000 + 16;
    let mut taken = 0;
    // With nobody reading, the pipe to the server is full after a bounded number of calls.
    while tokio::time::timeout(Duration::from_millis(500), wire.to.as_mut().unwrap().write_all(&line))
        .await
        .is_ok()
    {
        taken += 1;
        assert!(taken <= most, "{taken} calls were taken");
    }
}

/// What nobody reads holds up nothing, whether the server is told to go or the input ends.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_keeps_no_server() {
    for (told, within) in [(true, limits::SHUTDOWN_GRACE * 2), (false, limits::READ_STALL * 2)] {
        let mut wire = Wire::greeted(server().1, "2025-11-25", json!({})).await;
        wire.call(1, "big", json!({})).await;
        if told {
            wire.stop.cancel(Cause::Shutdown)
        } else {
            wire.to.as_mut().unwrap().shutdown().await.unwrap()
        };
        tokio::time::timeout(within, wire.serving).await.expect("it ends").unwrap();
    }
}

#[tokio::test]
async fn a_server_that_ends_lets_calls_finish() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    crate::until("it waits", || workshop.waiting.load(Ordering::SeqCst) == 1).await;
    wire.stop.cancel(Cause::Shutdown);
    workshop.gate.add_permits(1);
    assert_eq!(text(&wire.next().await), "waited");
    assert!(wire.maybe().await.is_none());
    assert_eq!(workshop.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_ends_cancels_what_takes_too_long() {
    let (workshop, server) = server();
    let server = server.with_limits(|limits| limits.shutdown_grace = Duration::from_millis(20));
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    crate::until("it waits", || workshop.waiting.load(Ordering::SeqCst) == 1).await;
    wire.call(2, "stubborn", json!({})).await;
    wire.request(3, "tools/call", json!({"name": "stubborn", "arguments": {}, "_meta": meta(json!({}))}))
        .await;
    crate::until("all wait", || workshop.waiting.load(Ordering::SeqCst) == 3).await;
    wire.stop.cancel(Cause::Shutdown);
    let mut answers = [wire.next().await, wire.next().await, wire.next().await];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let [first, others @ ..] = answers;
    assert_eq!(
        (first["id"].as_u64(), text(&first)),
        (Some(1), "cancelled"),
        "it says itself how far it came"
    );
    for (answer, id) in others.iter().zip([2, 3]) {
        assert_eq!(
            (answer["id"].as_u64(), answer["error"]["code"].as_i64()),
            (Some(id), Some(-32000)),
            "{answer}"
        );
    }
    workshop.gate.add_permits(2);
    assert!(wire.maybe().await.is_none(), "each is answered once");
    patient(wire.serving).await.unwrap();
    assert_eq!(workshop.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_is_dropped_cancels_everything() {
    let (workshop, server) = server();
    let mut wire = Wire::greeted(server, "2025-11-25", json!({})).await;
    wire.call(1, "wait", json!({})).await;
    wire.request(
        2,
        "tools/call",
        json!({"name": "ask", "arguments": {}, "_meta": meta(json!({"elicitation": {}}))}),
    )
    .await;
    assert_eq!(wire.next().await["result"]["resultType"], "input_required");
    wire.serving.abort();
    assert!(wire.maybe().await.is_none());
    // Nobody holds it any more: neither the call that waited, nor the one that asked, nor who tells of
    // changes.
    crate::until("all is gone", || Arc::strong_count(&workshop) == 1).await;
}
