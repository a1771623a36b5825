//! Our server over HTTP: who is let in, sessions and streams, and clients that try to be somebody else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haft::{Cancel, Cause};
use haft_mcp::limits;
use haft_mcp::server::{
    HttpConfig, ListChange, McpServer, Principal, ProtectedResource, StaticTokens, TokenIntrospection,
    TokenVerifier as _, UnixSocket,
};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

use crate::serving::{Workshop, meta};

/// A server that listens, and clients for it.
struct Place {
    workshop: Arc<Workshop>,
    address: SocketAddr,
    stop: Cancel,
    serving: JoinHandle<std::io::Result<()>>,
    client: Client,
}

impl Place {
    async fn open(http: HttpConfig) -> Place {
        Place::with(http, |server| server).await
    }

    async fn with(http: HttpConfig, change: impl FnOnce(McpServer) -> McpServer) -> Place {
        let workshop = Workshop::new();
        let server = change(McpServer::new(workshop.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Cancel::new();
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { server.serve_http(listener, http, &stopped).await });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Place { workshop, address, stop, serving, client: Client::builder().no_proxy().build().unwrap() }
    }

    fn request(&self, method: Method) -> RequestBuilder {
        self.client
            .request(method, format!("http://{}/mcp", self.address))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        self.request(Method::POST).body(message.to_string())
    }

    /// A request of the newest revision, with the headers that it needs.
    fn alone(&self, id: u32, method: &str, mut params: Value, can: Value) -> RequestBuilder {
        params["_meta"] = meta(can);
        let request = self.post(&rpc(id, method, params.clone()));
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        match params["name"].as_str() {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Shakes hands; gives the name of the session.
    async fn greeted(&self, token: Option<&str>, can: Value) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": {"name": "t", "version": "0"}});
        let mut request = self.post(&rpc(0, "initialize", params));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    fn in_session(&self, session: &str, message: &Value) -> RequestBuilder {
        self.post(message).header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25")
    }
}

fn rpc(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u32, tool: &str) -> Value {
    rpc(id, "tools/call", json!({"name": tool, "arguments": {"text": "hi"}, "_meta": {"progressToken": id}}))
}

async fn json_of(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

async fn status(request: RequestBuilder) -> StatusCode {
    request.send().await.unwrap().status()
}

/// Reads events of a stream until one satisfies.
struct Events {
    response: Response,
    text: String,
}

impl Events {
    async fn of(request: RequestBuilder) -> Events {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { response, text: String::new() }
    }

    /// The next event that carries a message: its id and what it says.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
                };
                let (id, data) = (field("id: "), field("data: "));
                self.text = rest.to_owned();
                if !data.is_empty() {
                    return Some((id, serde_json::from_str(&data).unwrap()));
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).unwrap());
        }
    }
}

fn tokens() -> HttpConfig {
    HttpConfig::new().with_verifier(
        StaticTokens::new().with("token-a", Principal::new("a")).with("token-b", Principal::new("b")),
    )
}

#[tokio::test]
async fn pages_and_names_from_elsewhere_are_not_let_in() {
    let place = Place::open(
        tokens().with_hosts(["haft.example".to_owned()]).with_origins(["https://app.example".to_owned()]),
    )
    .await;
    let with = |name: &'static str, value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        place.alone(1, "tools/list", json!({}), json!({})).bearer_auth("token-a").headers(headers)
    };
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "127.0.0.1.evil.example"),
        ("host", "localhost@evil.example"),
        ("host", "localhost"),
        ("host", "localhost:1"),
        ("host", "127.0.0.1:80"),
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:1"),
        ("origin", "http://127.0.0.1"),
        ("origin", "null"),
    ] {
        assert_eq!(status(with(name, value)).await, StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let own = format!("localhost:{}", place.address.port());
    let own_origin = format!("http://{own}");
    for (name, value) in [
        ("host", "haft.example:1"),
        ("host", &own),
        ("origin", &own_origin),
        ("origin", "https://app.example"),
    ] {
        assert_eq!(status(with(name, value)).await, StatusCode::OK, "{name}: {value}");
    }
    let named = with("origin", "https://app.example").send().await.unwrap();
    assert_eq!(named.headers()["access-control-allow-origin"], "https://app.example");
    let local = with("origin", &own_origin).send().await.unwrap();
    assert!(
        !local.headers().contains_key("access-control-allow-origin"),
        "let in, but its page reads nothing"
    );
    let asked = place.request(Method::OPTIONS).header("origin", "https://app.example").send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::NO_CONTENT);
    assert!(asked.headers()["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_asked_for() {
    let place = Place::open(tokens()).await;
    let list = || place.alone(1, "tools/list", json!({}), json!({}));
    for wrong in [
        list(),
        list().bearer_auth("token-c"),
        list().bearer_auth(""),
        list().header("authorization", "Basic token-a"),
        list().bearer_auth("token-a").header("authorization", "Bearer token-b"),
        list().bearer_auth("x".repeat(20_000)),
    ] {
        let response = wrong.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
    assert_eq!(status(list().bearer_auth("token-a")).await, StatusCode::OK);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(status(place.request(method)).await, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn a_server_that_others_can_reach_needs_tokens() {
    let server = McpServer::new(Workshop::new());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = server.serve_http(listener, HttpConfig::new(), &Cancel::new()).await.unwrap_err();
    assert!(refused.to_string().contains("it has to require a token"), "{refused}");
}

#[tokio::test]
async fn a_session_belongs_to_who_began_it() {
    let place = Place::open(tokens()).await;
    let session = place.greeted(Some("token-a"), json!({})).await;
    assert!(session.len() >= 22, "128 bits");
    let other = place.greeted(Some("token-a"), json!({})).await;
    assert_ne!(session, other);
    let echo = || place.in_session(&session, &call(1, "echo"));
    assert_eq!(status(echo().bearer_auth("token-a")).await, StatusCode::OK);
    assert_eq!(status(echo().bearer_auth("token-b")).await, StatusCode::NOT_FOUND);
    for method in [Method::GET, Method::DELETE] {
        let theirs = place.request(method).header("mcp-session-id", &session).bearer_auth("token-b");
        assert_eq!(status(theirs).await, StatusCode::NOT_FOUND);
    }
    for odd in ["", "x", &session[..21]] {
        let odd = place.in_session(odd, &call(1, "echo")).bearer_auth("token-a");
        assert_eq!(status(odd).await, StatusCode::NOT_FOUND);
    }
    let unknown = place
        .post(&call(1, "echo"))
        .header("mcp-session-id", &session)
        .header("mcp-protocol-version", "1999-01-01");
    assert_eq!(status(unknown.bearer_auth("token-a")).await, StatusCode::BAD_REQUEST);
    assert_eq!(
        status(place.post(&call(1, "echo")).bearer_auth("token-a")).await,
        StatusCode::BAD_REQUEST,
        "no session at all"
    );
    let end = place.request(Method::DELETE).header("mcp-session-id", &session).bearer_auth("token-a");
    assert_eq!(status(end).await, StatusCode::NO_CONTENT);
    assert_eq!(status(echo().bearer_auth("token-a")).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_no_message_is_refused_before_anybody_reads_it() {
    let place =
        Place::with(HttpConfig::new(), |server| server.with_limits(|limits| limits.message_bytes = 10_000))
            .await;
    let session = place.greeted(None, json!({})).await;
    let post =
        |body: &str| place.request(Method::POST).header("mcp-session-id", &session).body(body.to_owned());
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(10_000));
    for (body, expected) in
        [("{", 400), ("", 400), ("3", 400), ("[]", 400), ("[{}]", 400), ("\u{feff}{}", 400), (&*long, 413)]
    {
        assert_eq!(status(post(body)).await.as_u16(), expected, "{body:.20}");
    }
    let url = format!("http://{}/mcp", place.address);
    let bare = |kind: &'static str, accept: &'static str| {
        place.client.post(&url).header("content-type", kind).header("accept", accept).body("{}")
    };
    assert_eq!(status(bare("text/plain", "*/*")).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(status(bare("application/json", "application/json")).await, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(status(bare("application/json; charset=utf-8", "*/*")).await, StatusCode::BAD_REQUEST);
    assert_eq!(status(place.request(Method::PUT)).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(
        status(place.client.get(format!("http://{}/other", place.address))).await,
        StatusCode::NOT_FOUND
    );
    assert_eq!(status(post(&call(1, "echo").to_string())).await, StatusCode::OK, "and it still works");
}

#[tokio::test]
async fn headers_of_the_newest_revision_have_to_agree_with_the_body() {
    let place = Place::open(HttpConfig::new()).await;
    let echo = json!({"name": "echo", "arguments": {"text": "hi"}});
    let good = || place.alone(1, "tools/call", echo.clone(), json!({}));
    let answer = json_of(good().send().await.unwrap()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    let changed = |name: &'static str, value: Option<&'static str>| {
        let mut request = good().build().unwrap();
        request.headers_mut().remove(name);
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        place.client.execute(request)
    };
    for (name, value) in [
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-method", Some("TOOLS/CALL")),
        ("mcp-name", None),
        ("mcp-name", Some("wait")),
        ("mcp-name", Some("=?base64?!?=")),
        ("mcp-protocol-version", None),
    ] {
        let response = changed(name, value).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{name}: {value:?}");
        let answer = json_of(response).await;
        assert_eq!(
            (answer["error"]["code"].as_i64(), answer["id"].as_i64()),
            (Some(-32020), Some(1)),
            "{name}: {value:?}"
        );
    }
    assert_eq!(changed("mcp-name", Some("=?base64?ZWNobw==?=")).await.unwrap().status(), StatusCode::OK);
    let unknown = place.alone(2, "tools/eat", json!({}), json!({})).send().await.unwrap();
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_answer_that_says_nothing_before_is_no_stream() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({})).await;
    let plain = place.in_session(&session, &call(1, "echo")).send().await.unwrap();
    assert_eq!(plain.headers()["content-type"], "application/json");
    place.workshop.gate.add_permits(2);
    for request in [place.in_session(&session, &call(2, "tell")), {
        let mut params = json!({"name": "tell"});
        params["_meta"] = meta(json!({}));
        params["_meta"]["progressToken"] = 2.into();
        place
            .post(&rpc(2, "tools/call", params))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "tell")
    }] {
        let mut events = Events::of(request).await;
        let mut seen = Vec::new();
        while let Some((_, message)) = events.next().await {
            seen.push(
                message["method"]
                    .as_str()
                    .unwrap_or("answer")
                    .trim_start_matches("notifications/")
                    .to_owned(),
            );
        }
        assert_eq!(seen.first().unwrap(), "progress");
        assert_eq!(seen.last().unwrap(), "answer");
    }
}

#[tokio::test]
async fn a_stream_that_was_lost_is_resumed() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({})).await;
    let mut events = Events::of(place.in_session(&session, &call(1, "tell"))).await;
    let (id, first) = events.next().await.unwrap();
    assert_eq!(first["params"]["progress"], 1.0);
    drop(events);
    place.workshop.gate.add_permits(1);
    let get = |last: &str| {
        place.request(Method::GET).header("mcp-session-id", &session).header("last-event-id", last)
    };
    let mut resumed = Events::of(get(&id)).await;
    let mut seen = Vec::new();
    while let Some((_, message)) = resumed.next().await {
        seen.push(message);
    }
    assert_eq!(seen.last().unwrap()["result"]["content"][0]["text"], "told");
    assert!(seen.iter().all(|message| message["params"]["progress"] != 1.0), "only what was missed");
    for odd in ["", "x", "9999-1", "1", "-1-1"] {
        assert_eq!(status(get(odd)).await, StatusCode::BAD_REQUEST, "{odd}");
    }
}

#[tokio::test]
async fn closing_the_stream_cancels_in_the_newest_revision_and_not_before() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({})).await;
    for (request, cancelled) in [
        (place.in_session(&session, &call(1, "wait")), 0),
        (place.alone(1, "tools/call", json!({"name": "wait"}), json!({})), 1),
    ] {
        let waiting = place.workshop.waiting.load(Ordering::SeqCst);
        let sent = tokio::spawn(request.send());
        crate::until("it waits", || place.workshop.waiting.load(Ordering::SeqCst) == waiting + 1).await;
        sent.abort();
        if cancelled == 0 {
            place.workshop.gate.add_permits(1);
            crate::until("it was let go on", || place.workshop.gate.available_permits() == 0).await;
        }
        crate::until("it ended", || place.workshop.cancelled.load(Ordering::SeqCst) == cancelled).await;
    }
    // The older words for it.
    let waiting = place.workshop.waiting.load(Ordering::SeqCst);
    let sent = tokio::spawn(place.in_session(&session, &call(5, "wait")).send());
    crate::until("it waits", || place.workshop.waiting.load(Ordering::SeqCst) == waiting + 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(status(place.in_session(&session, &cancel)).await, StatusCode::ACCEPTED);
    crate::until("it ended", || place.workshop.cancelled.load(Ordering::SeqCst) == 2).await;
    assert!(
        sent.await.unwrap().unwrap().text().await.unwrap().is_empty(),
        "a cancelled request is not answered"
    );
}

#[tokio::test]
async fn a_client_is_asked_on_the_stream_of_its_call() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({"elicitation": {}})).await;
    let mut events = Events::of(place.in_session(&session, &call(1, "ask"))).await;
    let (_, asked) = events.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "me"}}});
    assert_eq!(status(place.in_session(&session, &answer)).await, StatusCode::ACCEPTED);
    assert_eq!(events.next().await.unwrap().1["result"]["content"][0]["text"], "\"me\"");
}

#[tokio::test]
async fn nobody_goes_on_with_the_call_of_somebody_else() {
    let place = Place::open(tokens()).await;
    let ask = |more: Value, token: &str| {
        let mut params = json!({"name": "ask", "arguments": {}});
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        place.alone(1, "tools/call", params, json!({"elicitation": {}})).bearer_auth(token)
    };
    let asked = json_of(ask(json!({}), "token-a").send().await.unwrap()).await;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let more = json!({"requestState": asked["result"]["requestState"], "inputResponses": {key: {"action": "accept", "content": {"name": "b"}}}});
    let theirs = json_of(ask(more.clone(), "token-b").send().await.unwrap()).await;
    assert_eq!(theirs["error"]["code"], -32602, "{theirs}");
    let ours = json_of(ask(more, "token-a").send().await.unwrap()).await;
    assert_eq!(ours["result"]["content"][0]["text"], "\"b\"", "{ours}");
}

#[tokio::test]
async fn changes_come_on_the_stream_of_the_session() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({})).await;
    let mut events = Events::of(place.request(Method::GET).header("mcp-session-id", &session)).await;
    place.workshop.changes.notify(ListChange::Tools);
    assert_eq!(events.next().await.unwrap().1["method"], "notifications/tools/list_changed");
    assert_eq!(status(place.request(Method::GET)).await, StatusCode::METHOD_NOT_ALLOWED, "without a session");
    place.stop.cancel(Cause::Shutdown);
    assert!(events.next().await.is_none(), "a server that ends ends its streams");
    place.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn too_many_requests_have_to_wait() {
    let place = Place::open(tokens().with_rate(Some((1, 3)))).await;
    let list = |token: &str| place.alone(1, "tools/list", json!({}), json!({})).bearer_auth(token);
    let mut refused = 0;
    for _ in 0..20 {
        let response = list("token-a").send().await.unwrap();
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(response.headers()["retry-after"], "1");
            assert_eq!(response.headers()["connection"], "close");
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
    assert_eq!(status(list("token-b")).await, StatusCode::OK, "others are not held back");
}

/// What a proxy takes for a part of one value must not be a header here.
#[tokio::test]
async fn a_bare_line_feed_ends_no_line() {
    let place = Place::open(HttpConfig::new()).await;
    // Pretty JSON has bare line feeds, and they are none of a head.
    let body =
        serde_json::to_string_pretty(&rpc(1, "tools/list", json!({"_meta": meta(json!({}))}))).unwrap();
    let host = format!("host: {}", place.address);
    let rest = "content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list";
    let request = |first: &str, host: &str| {
        format!("{first}{host}\r\n{rest}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let good = request("POST /mcp HTTP/1.1\r\n", &host);
    for (sent, expected) in [
        (good.clone(), &[200][..]),
        (format!("{good}{good}"), &[200, 200]),
        (request("POST /mcp HTTP/1.1\n", &host), &[400]),
        (request("POST /mcp HTTP/1.1\r\n", &format!("x: y\n{host}")), &[400]),
        (request("POST /mcp HTTP/1.1\r\n", &format!("{host}\nx: y")), &[400]),
        (good.replacen("\r\n\r\n", "\n\n", 1), &[400]),
        (format!("{good}{}", request("POST /mcp HTTP/1.1\r\n", &format!("x: y\n{host}"))), &[200, 400]),
        (good.replacen("content-length", "content-length: 3\r\ncontent-length", 1), &[400]),
        (good.replacen("content-length", "transfer-encoding: chunked\r\ncontent-length", 1), &[400]),
    ] {
        let mut stream = TcpStream::connect(place.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        let heard = String::from_utf8_lossy(&heard).into_owned();
        let answers: Vec<u16> =
            heard.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect();
        assert_eq!(answers, expected, "{sent:?}: {heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dawdles_is_let_go() {
    let place = Place::open(HttpConfig::new()).await;
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", place.address);
    for sent in
        ["", "POST /mcp HT", head.as_str(), &format!("{head}content-length: 500\r\n\r\n{{\"jsonrpc\"")]
    {
        let mut stream = TcpStream::connect(place.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        // The clock runs on by itself while everybody waits.
        let ended = tokio::time::timeout(limits::BODY_TIMEOUT * 3, stream.read_to_end(&mut heard)).await;
        assert!(ended.is_ok(), "{sent:.30}");
        if sent.len() > head.len() {
            assert!(heard.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&heard));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_let_go() {
    const CALLS: usize = 32;
    let place = Place::open(HttpConfig::new()).await;
    let body = rpc(1, "tools/call", json!({"name": "big", "_meta": meta(json!({}))})).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: big\r\ncontent-length: {}\r\n\r\n{body}",
        place.address,
        body.len()
    );
    let mut stream = TcpStream::connect(place.address).await.unwrap();
    stream.write_all(request.repeat(CALLS).as_bytes()).await.unwrap();
    tokio::time::sleep(limits::READ_STALL * 3).await;
    let mut heard = Vec::new();
    // It may end in the middle of an answer, or be cut off.
    let _ = stream.read_to_end(&mut heard).await;
    assert!(heard.starts_with(b"HTTP/1.1 200") && heard.len() < CALLS * 1024 * 1024, "{} bytes", heard.len());
}

#[tokio::test]
async fn a_server_that_ends_answers_what_it_took() {
    let place = Place::open(HttpConfig::new()).await;
    let session = place.greeted(None, json!({})).await;
    let sent = tokio::spawn(place.in_session(&session, &call(1, "wait")).send());
    let alone = tokio::spawn(place.alone(1, "tools/call", json!({"name": "wait"}), json!({})).send());
    crate::until("they wait", || place.workshop.waiting.load(Ordering::SeqCst) == 2).await;
    place.stop.cancel(Cause::Shutdown);
    place.workshop.gate.add_permits(2);
    for sent in [sent, alone] {
        let text = sent.await.unwrap().unwrap().text().await.unwrap();
        assert!(text.contains("waited"), "{text}");
    }
    place.serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(place.address).await.is_err(), "nobody listens any more");
    assert_eq!(place.workshop.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_ends_cancels_what_takes_too_long() {
    let place = Place::with(HttpConfig::new(), |server| {
        server.with_limits(|limits| limits.shutdown_grace = Duration::from_millis(20))
    })
    .await;
    let session = place.greeted(None, json!({})).await;
    let sent = tokio::spawn(place.in_session(&session, &call(1, "wait")).send());
    let alone = tokio::spawn(place.alone(1, "tools/call", json!({"name": "wait"}), json!({})).send());
    crate::until("they wait", || place.workshop.waiting.load(Ordering::SeqCst) == 2).await;
    place.stop.cancel(Cause::Shutdown);
    for sent in [sent, alone] {
        let text = sent.await.unwrap().unwrap().text().await.unwrap();
        assert_eq!(text.matches("cancelled").count(), 1, "{text}");
    }
    place.serving.await.unwrap().unwrap();
    assert_eq!(place.workshop.cancelled.load(Ordering::SeqCst), 2);
}

/// Silent connections are closed after a while if others wait; authenticated ones are not.
#[tokio::test(start_paused = true)]
async fn silent_connections_keep_nobody_out() {
    const MOST: usize = 8;
    let place = Place::open(tokens().with_connections(1, 1).with_unauthenticated_connections(MOST)).await;
    let list = || place.alone(1, "tools/list", json!({}), json!({})).bearer_auth("token-a");
    let mut silent = Vec::new();
    for _ in 0..MOST * 2 {
        silent.push(TcpStream::connect(place.address).await.unwrap());
    }
    assert_eq!(status(list()).await, StatusCode::OK);
    for _ in 0..MOST {
        silent.push(TcpStream::connect(place.address).await.unwrap());
    }
    assert_eq!(status(list()).await, StatusCode::OK);
    let mut heard = Vec::new();
    silent[0].read_to_end(&mut heard).await.unwrap();
    assert!(heard.is_empty(), "the oldest connection is closed");
    let other = Client::builder().no_proxy().build().unwrap();
    let second = other.execute(list().build().unwrap()).await.unwrap();
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// One client with all the connections that it may have keeps the others out of nothing.
#[tokio::test]
async fn connections_are_counted_for_each_principal() {
    let place = Place::open(tokens().with_connections(3, 2)).await;
    let list = |token: &str| place.alone(1, "tools/list", json!({}), json!({})).bearer_auth(token);
    // Each client has a connection of its own, which stays.
    let clients: Vec<Client> = (0..4).map(|_| Client::builder().no_proxy().build().unwrap()).collect();
    let asked = async |client: &Client, token: &str| {
        client.execute(list(token).build().unwrap()).await.unwrap().status()
    };
    assert_eq!(asked(&clients[0], "token-a").await, StatusCode::OK);
    assert_eq!(asked(&clients[1], "token-a").await, StatusCode::OK);
    assert_eq!(asked(&clients[2], "token-a").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(asked(&clients[3], "token-b").await, StatusCode::OK);
    assert_eq!(asked(&clients[0], "token-a").await, StatusCode::OK, "what it has it keeps");
}

/// A principal with many sessions gets no more, until one of its own was unused for a while.
#[tokio::test(start_paused = true)]
async fn sessions_are_counted_for_each_principal() {
    let mut place = Place::open(tokens().with_sessions(4, 2)).await;
    // The server closes connections that are idle for as long as this test waits.
    place.client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let listed = async |session: &str, token: &str| {
        status(place.in_session(session, &rpc(1, "tools/list", json!({}))).bearer_auth(token)).await
    };
    let refused = async |token: &str| {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
        let response = place.post(&rpc(0, "initialize", params)).bearer_auth(token).send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "1");
        response.status()
    };
    let first = place.greeted(Some("token-a"), json!({})).await;
    let second = place.greeted(Some("token-a"), json!({})).await;
    assert_eq!(refused("token-a").await, StatusCode::TOO_MANY_REQUESTS);
    let others = place.greeted(Some("token-b"), json!({})).await;
    tokio::time::sleep(limits::SESSION_REPLACEABLE / 2).await;
    assert_eq!(listed(&second, "token-a").await, StatusCode::OK);
    tokio::time::sleep(limits::SESSION_REPLACEABLE).await;
    let third = place.greeted(Some("token-a"), json!({})).await;
    assert_eq!(listed(&first, "token-a").await, StatusCode::NOT_FOUND, "the least recently used one ended");
    for (session, token) in [(&second, "token-a"), (&third, "token-a"), (&others, "token-b")] {
        assert_eq!(listed(session, token).await, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haft.sock");
    let server = McpServer::new(Workshop::new());
    let stop = Cancel::new();
    let serve = |stop: Cancel| {
        let server = server.clone();
        let socket = UnixSocket::bind(&path)?;
        std::io::Result::Ok(tokio::spawn(
            async move { server.serve_unix(socket, HttpConfig::new(), &stop).await },
        ))
    };
    let serving = serve(stop.clone()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    let taken = serve(Cancel::new()).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);

    let mut stream = UnixStream::connect(&path).await.unwrap();
    let body = rpc(1, "tools/list", json!({"_meta": meta(json!({}))})).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: anything\r\nconnection: close\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/list\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"echo\""), "{answer}");
    stop.cancel(Cause::Shutdown);
    serving.await.unwrap();
    assert!(!path.exists());

    // One that was left behind is replaced, a file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let stop = Cancel::new();
    let serving = serve(stop.clone()).unwrap();
    stop.cancel(Cause::Shutdown);
    serving.await.unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(serve(Cancel::new()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// An authorization server that knows one token and counts how often it is asked.
async fn authorization() -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let good =
                request.contains("token=good") && request.contains("authorization: Basic aWQ6c2VjcmV0");
            let body = if good {
                json!({"active": true, "sub": "me", "aud": "http://haft.example/mcp", "scope": "tools"})
            } else {
                json!({"active": false})
            }
            .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            stream
                .write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
                .await
                .unwrap();
        }
    });
    (format!("http://{address}/introspect"), asked)
}

#[tokio::test]
async fn a_resource_server_says_where_tokens_are_and_asks_about_them() {
    let (endpoint, asked) = authorization().await;
    let check = TokenIntrospection::new(endpoint.parse().unwrap(), "id", "secret", "http://haft.example/mcp")
        .unwrap();
    let resource = ProtectedResource::new(
        "http://haft.example/mcp".parse().unwrap(),
        ["http://auth.example".to_owned()],
    );
    let place = Place::open(HttpConfig::new().with_verifier(check).with_resource(resource)).await;
    let list = || place.alone(1, "tools/list", json!({}), json!({}));
    let refused = list().send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"http://haft.example/.well-known/oauth-protected-resource/mcp\""
    );
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let told =
            json_of(place.client.get(format!("http://{}{path}", place.address)).send().await.unwrap()).await;
        assert_eq!(told["resource"], "http://haft.example/mcp");
        assert_eq!(told["authorization_servers"], json!(["http://auth.example"]));
    }
    assert_eq!(status(list().bearer_auth("bad")).await, StatusCode::UNAUTHORIZED);
    for _ in 0..3 {
        assert_eq!(status(list().bearer_auth("good")).await, StatusCode::OK);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "each token once");
    let gone = TokenIntrospection::new("http://127.0.0.1:1/".parse().unwrap(), "id", "secret", "x").unwrap();
    assert!(gone.verify("t").await.unwrap_err().contains("can't be asked"));
}
