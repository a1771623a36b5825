//! Our server with many clients at once: all are served, or refused by a response.

use std::net::SocketAddr;

use haft::Cancel;
use haft_mcp::limits;
use haft_mcp::server::{HttpConfig, McpServer, Principal, StaticTokens};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::serving::Workshop;

/// A token of the server.
pub(crate) const TOKEN: &str = "token-a";

/// Starts a server that knows one token.
pub(crate) async fn serve(change: impl FnOnce(HttpConfig) -> HttpConfig) -> SocketAddr {
    let server = McpServer::new(Workshop::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = change(HttpConfig::new().with_verifier(StaticTokens::new().with(TOKEN, Principal::new("a"))));
    tokio::spawn(async move { server.serve_http(listener, http, &Cancel::new()).await });
    address
}

/// A connection of a plain HTTP client.
#[derive(Debug)]
struct Connection(TcpStream);

/// The head of a response, and as much of its body as is declared.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Connection {
    async fn open(address: SocketAddr) -> Connection {
        Connection(TcpStream::connect(address).await.unwrap())
    }

    async fn send_head(&mut self, method: &str, session: Option<&str>, length: usize) {
        let session = session.map_or(String::new(), |session| {
            format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n")
        });
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {TOKEN}\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{session}\
             content-length: {length}\r\n\r\n",
            self.0.peer_addr().unwrap().port()
        );
        self.0.write_all(head.as_bytes()).await.unwrap();
    }

    /// Sends a request, its body apart from its head, and reads the response.
    async fn send(&mut self, method: &str, session: Option<&str>, body: &str) -> Response {
        self.send_head(method, session, body.len()).await;
        self.0.write_all(body.as_bytes()).await.unwrap();
        self.read().await
    }

    async fn post(&mut self, session: Option<&str>, message: &Value) -> Response {
        self.send("POST", session, &message.to_string()).await
    }

    async fn read(&mut self) -> Response {
        let mut text = Vec::new();
        let head = loop {
            if let Some(end) = text.windows(4).position(|part| part == b"\r\n\r\n") {
                break String::from_utf8(text.drain(..end + 4).collect()).unwrap();
            }
            assert!(self.0.read_buf(&mut text).await.unwrap() > 0, "closed without a response");
        };
        let mut response = Response { status: head[9..12].parse().unwrap(), head, body: String::new() };
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        while text.len() < length {
            assert!(self.0.read_buf(&mut text).await.unwrap() > 0, "closed in a response");
        }
        response.body = String::from_utf8(text).unwrap();
        response
    }
}

fn rpc(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A client as the SDKs are: one connection for requests, one for the stream of its session.
#[derive(Debug)]
struct Client {
    requests: Connection,
    stream: Connection,
    session: String,
}

impl Client {
    /// Begins a session, or returns the response that refuses it.
    async fn begin(address: SocketAddr) -> Result<Client, Response> {
        let accepted = |response: Response| if response.status < 300 { Ok(response) } else { Err(response) };
        let mut requests = Connection::open(address).await;
        let info = json!({"name": "t", "version": "0"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let begun = accepted(requests.post(None, &rpc(0, "initialize", params)).await)?;
        let session = begun.header("mcp-session-id").unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        accepted(requests.post(Some(&session), &initialized).await)?;
        let mut stream = Connection::open(address).await;
        accepted(stream.send("GET", Some(&session), "").await)?;
        Ok(Client { requests, stream, session })
    }

    async fn echo(&mut self) {
        let call = rpc(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
        let response = self.requests.post(Some(&self.session), &call).await;
        assert_eq!(response.json()["result"]["content"][0]["text"], "hi", "{}", response.body);
    }
}

/// Starts this many clients together.
async fn start(address: SocketAddr, count: usize) -> (Vec<Client>, Vec<Response>) {
    let mut starting = JoinSet::new();
    for _ in 0..count {
        starting.spawn(Client::begin(address));
    }
    let (mut served, mut refused) = (Vec::new(), Vec::new());
    for begun in starting.join_all().await {
        match begun {
            Ok(client) => served.push(client),
            Err(response) => refused.push(response),
        }
    }
    (served, refused)
}

#[tokio::test]
async fn five_hundred_clients_of_one_token_are_served() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(8_192);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    let address = serve(|http| http).await;
    let (mut clients, refused) = start(address, 500).await;
    assert_eq!((clients.len(), refused.len()), (500, 0));
    for client in &mut clients {
        client.echo().await;
    }
}

/// Further clients get a response that says when to try again. Clients with a session notice nothing, also
/// with a new connection.
#[tokio::test]
async fn clients_beyond_a_limit_are_refused_by_a_response() {
    let address = serve(|http| http.with_connections(64, 32).with_sessions(64, 8)).await;
    let (mut clients, refused) = start(address, 100).await;
    assert_eq!((clients.len(), refused.len()), (8, 92));
    for response in &refused {
        let headers = ["retry-after", "connection"].map(|name| response.header(name));
        assert_eq!((response.status, headers), (429, [Some("1"), Some("close")]));
        assert_eq!(response.json()["error"]["code"], -32600);
    }
    for client in &mut clients {
        client.echo().await;
        client.requests = Connection::open(address).await;
        client.echo().await;
    }
    let gone = clients.pop().unwrap();
    let mut last = Connection::open(address).await;
    assert_eq!(last.send("DELETE", Some(&gone.session), "").await.status, 204);
    drop((last, gone.stream));
    Client::begin(address).await.unwrap().echo().await;
}

/// A client that sends its body slowly can send all of it, and reads the response then.
#[tokio::test]
async fn connections_beyond_a_limit_are_refused_by_a_response() {
    let address = serve(|http| http.with_connections(4, 4)).await;
    let mut first = Client::begin(address).await.unwrap();
    let mut third = Connection::open(address).await;
    assert_eq!(third.send("POST", None, "{}").await.status, 400, "the last one for new clients");
    let mut refused = Connection::open(address).await;
    let body = rpc(1, "tools/list", json!({"padding": "x".repeat(50_000)})).to_string();
    refused.send_head("POST", None, body.len()).await;
    for half in [&body[..25_000], &body[25_000..]] {
        // The paused clock moves on when the server has nothing more to do.
        tokio::time::pause();
        tokio::time::sleep(limits::REFUSED_BODY_TIMEOUT / 4).await;
        tokio::time::resume();
        refused.0.write_all(half.as_bytes()).await.unwrap();
    }
    let response = refused.read().await;
    let headers = ["retry-after", "connection"].map(|name| response.header(name));
    assert_eq!((response.status, headers), (503, [Some("1"), Some("close")]));
    first.requests = Connection::open(address).await;
    first.echo().await;
}
