//! What it costs to be a server: a small call over standard input and output, sixteen of them at once, and
//! one over HTTP, against a bare server of the official SDK.
//!
//! Each server is a process of its own, this program with other arguments. The client is a few lines over
//! blocking pipes and sockets, the same for both; rounds alternate, so that a busy machine slows both.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::Cancel;
use haft::future::BoxFuture;
use haft_mcp::server::{
    DefinitionList, HttpConfig, Implementation, McpServer, ServerFeatures, ServerHandler as HaftHandler,
    ToolCallRequest,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ROUNDS: usize = 15;
const CALLS: usize = 2_000;
const IN_FLIGHT: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        arguments.iter().position(|argument| argument == name).map(|at| arguments[at + 1].as_str())
    };
    if let Some(kind) = after("--stdio") {
        return serve(stdio(kind.to_owned()));
    }
    if let Some(kind) = after("--http") {
        return serve(http(kind.to_owned()));
    }
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    println!("| a small call | bare rmcp | haft | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let (mut bare, mut ours) = (Pipes::start("rmcp"), Pipes::start("haft"));
    row("one at a time over stdio", "≤ 1.3", || bare.calls(1), || ours.calls(1));
    row("16 in flight over stdio", "≤ 0.5", || bare.calls(IN_FLIGHT), || ours.calls(IN_FLIGHT));
    let (mut bare, mut ours) = (Web::start("rmcp"), Web::start("haft"));
    row("one at a time over HTTP", "≤ 1.3", || bare.calls(), || ours.calls());
}

/// One line of the table: the middle round of each, as the time of one call.
fn row(what: &str, goal: &str, mut bare: impl FnMut() -> Duration, mut ours: impl FnMut() -> Duration) {
    let (mut theirs, mut mine) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(bare());
        mine.push(ours());
    }
    let middle = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() / CALLS as f64 * 1e6
    };
    let (theirs, mine) = (middle(&mut theirs), middle(&mut mine));
    println!("| {what} | {theirs:.1} µs | {mine:.1} µs | {:.2} | {goal} |", mine / theirs);
}

fn serve(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

async fn stdio(kind: String) {
    if kind == "rmcp" {
        let service = Bare.serve(rmcp::transport::io::stdio()).await.unwrap();
        service.waiting().await.unwrap();
    } else {
        McpServer::new(Arc::new(Ours::new())).serve_stdio(&Cancel::new()).await;
    }
}

async fn http(kind: String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    if kind == "haft" {
        let server = McpServer::new(Arc::new(Ours::new()));
        return server.serve_http(listener, HttpConfig::new().with_rate(None), &Cancel::new()).await.unwrap();
    }
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Bare), sessions, StreamableHttpServerConfig::default());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = service.clone();
        tokio::spawn(async move {
            let handle = hyper::service::service_fn(move |request| {
                let service = service.clone();
                async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, handle).await;
        });
    }
}

struct Bare;

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.and_then(|arguments| arguments.get("text")?.as_str().map(str::to_owned));
        Ok(CallToolResult::success(vec![ContentBlock::text(text.unwrap_or_default())]).into())
    }
}

struct Ours(DefinitionList);

impl Ours {
    fn new() -> Ours {
        Ours(DefinitionList::new([json!({"name": "echo", "inputSchema": {"type": "object"}})]))
    }
}

impl HaftHandler for Ours {
    fn info(&self) -> Implementation {
        Implementation::new("bench", "1")
    }

    fn features(&self) -> ServerFeatures {
        ServerFeatures { tools: true, ..ServerFeatures::default() }
    }

    fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(async { Ok(self.0.clone()) })
    }

    fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
        Box::pin(async move {
            let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap_or_default();
            let text = arguments["text"].as_str().unwrap_or_default();
            Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
        })
    }
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn call(id: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"a few words"}}}}}}"#
    )
}

fn start(mode: &str, kind: &str, input: Stdio) -> Child {
    let own = std::env::current_exe().unwrap();
    Command::new(own)
        .args([mode, kind])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A server over pipes, and its client.
struct Pipes {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: usize,
}

impl Pipes {
    fn start(kind: &str) -> Pipes {
        let mut child = start("--stdio", kind, Stdio::piped());
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut pipes = Pipes { child, to, from, next: 1 };
        writeln!(pipes.to, "{HELLO}").unwrap();
        pipes.line();
        writeln!(pipes.to, "{READY}").unwrap();
        pipes
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server is gone");
        assert!(!line.contains("\"error\""), "{line}");
        line
    }

    fn send(&mut self) {
        let line = call(self.next) + "\n";
        self.next += 1;
        self.to.write_all(line.as_bytes()).unwrap();
    }

    /// So many calls, of which some are under way at any time.
    fn calls(&mut self, in_flight: usize) -> Duration {
        let begun = Instant::now();
        for _ in 0..in_flight {
            self.send();
        }
        for answered in 0..CALLS {
            self.line();
            if answered + in_flight < CALLS {
                self.send();
            }
        }
        begun.elapsed()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over HTTP, and its client on one connection.
struct Web {
    child: Child,
    stream: BufReader<TcpStream>,
    address: String,
    session: String,
    next: usize,
}

impl Web {
    fn start(kind: &str) -> Web {
        let mut child = start("--http", kind, Stdio::null());
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut web = Web { child, stream: BufReader::new(stream), address, session: String::new(), next: 1 };
        let (head, _) = web.post(HELLO);
        let line = head.iter().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:"));
        web.session = line.unwrap().split_once(':').unwrap().1.trim().to_owned();
        web.post(READY);
        web
    }

    /// Sends a message and reads the whole answer, however it comes.
    fn post(&mut self, body: &str) -> (Vec<String>, Vec<u8>) {
        let session = if self.session.is_empty() {
            String::new()
        } else {
            format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", self.session)
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\n{session}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        loop {
            let line = self.text();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        assert!(head[0].contains(" 20"), "{head:?}");
        let told = |name: &str| {
            head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix(name).map(str::to_owned))
        };
        let mut answer = Vec::new();
        if let Some(length) = told("content-length: ") {
            answer.resize(length.trim().parse().unwrap(), 0);
            self.stream.read_exact(&mut answer).unwrap();
        } else if told("transfer-encoding: chunked").is_some() {
            loop {
                let size = usize::from_str_radix(self.text().trim(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                self.stream.read_exact(&mut chunk).unwrap();
                if size == 0 {
                    break;
                }
                answer.extend_from_slice(&chunk[..size]);
            }
        }
        (head, answer)
    }

    fn text(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stream.read_line(&mut line).unwrap() > 0, "the server is gone");
        line.truncate(line.trim_end().len());
        line
    }

    fn calls(&mut self) -> Duration {
        let begun = Instant::now();
        for _ in 0..CALLS {
            let id = self.next;
            self.next += 1;
            let (_, answer) = self.post(&call(id));
            assert!(answer.windows(11).any(|part| part == b"a few words"));
        }
        begun.elapsed()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
