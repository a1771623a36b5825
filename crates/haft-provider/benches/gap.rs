//! What passes between the last byte of a model's answer and its next request: the loop with the real `Read`,
//! against the least that a client can do. And the memory of a run whose answer is long.
//!
//! Both talk to one server that says what the scripted model says and looks at the clock. The least client is
//! a socket of the standard library: it parses the events, reads the files one after the other, writes the
//! JSON. Rounds alternate, so that a busy machine slows both.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use haft::{Engine, Registry, Workspace};
use haft_agent::{AgentLoop, Conversation, RunEnd};
use haft_provider::client::ProviderClient;
use haft_provider::endpoint::ProviderEndpoint;
use haft_provider::scripted::{ModelScript, serve_script};
use haft_provider::{RequestOptions, Wire};
use serde_json::{Value, json};

const ROUNDS: usize = 60;
/// Rounds that are not counted: connections, threads and caches are made then.
const WARM: usize = 5;
const FILE_BYTES: usize = 5_600;
const ANSWER_BYTES: usize = 20 * 1024 * 1024;
/// The argument that makes this program one that listens.
const LISTEN: &str = "--listen";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == LISTEN) {
        return listen(arguments[at + 1].parse().unwrap(), &arguments[at + 2]);
    }
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = std::env::temp_dir().join(format!("haft-gap-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    println!("| what | minimal client | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for (reads, goal) in [(6, 4), (50, 3)] {
        let files = files(&folder, reads);
        let (mut floors, mut gaps) = (Vec::new(), Vec::new());
        let server = Server::start(&runtime, &files);
        let agent = Arc::new(agent(server.address, &folder));
        let mut least = Least::new(server.address);
        for round in 0..ROUNDS + WARM {
            least.run();
            let floor = server.gap();
            let agent = agent.clone();
            let run = async move {
                let outcome = agent.run(&mut Conversation::new(Wire::Anthropic), "go").await;
                assert_eq!((outcome.ended, outcome.calls.len()), (RunEnd::Finished, reads));
                assert!(outcome.calls.iter().all(|(_, result)| !result.is_error()));
            };
            // Beside the connection, as the program runs it.
            runtime.block_on(runtime.spawn(run)).unwrap();
            let gap = server.gap();
            if round >= WARM {
                floors.push(floor);
                gaps.push(gap);
            }
        }
        row(&format!("from an answer to the next request, {reads} reads of 5.6 KB"), floors, gaps, goal);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    println!();
    println!("| memory of a run, at its most | a short answer | 20 MB streamed | beyond the answer | |");
    println!("|---|---|---|---|---|");
    for wire in Wire::ALL {
        let [short, long] = [1, ANSWER_BYTES].map(|bytes| memory(&runtime, wire, bytes));
        let beyond = long.saturating_sub(short + ANSWER_BYTES / 1024) / 1024;
        println!("| {wire} | {} MB | {} MB | {beyond} MB | |", short / 1024, long / 1024);
    }
}

/// The kilobytes that a run takes at its most whose answer has so many bytes: another process, so that the
/// server's memory isn't counted.
fn memory(runtime: &tokio::runtime::Runtime, wire: Wire, bytes: usize) -> usize {
    let mut script =
        ModelScript::parse(r#"{"turns": [{"text": "", "stream": {"chunk_chars": 200}}]}"#).unwrap();
    // More than a file may hold.
    script.turns[0].text = Some("twenty bytes of text".repeat(bytes.div_ceil(20)));
    runtime.block_on(async {
        let server = serve_script(script, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([LISTEN, wire.name(), &server.base_url(wire)]);
        let ran = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
        String::from_utf8(ran.stdout).unwrap().trim().parse().unwrap()
    })
}

/// One run, and what it took at its most.
fn listen(wire: Wire, base_url: &str) {
    let endpoint = ProviderEndpoint::new(wire).base_url(base_url);
    let agent = AgentLoop::new(
        Engine::new(Registry::new()),
        ProviderClient::new(endpoint, RequestOptions::new("m")).unwrap(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(agent.run(&mut Conversation::new(wire), "go"));
    assert_eq!(outcome.ended, RunEnd::Finished);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", most.and_then(|most| most.split_whitespace().next()).unwrap_or("0"));
}

fn files(folder: &Path, count: usize) -> Vec<PathBuf> {
    let line = "a line of some words, as source code has them\n";
    let text = line.repeat(FILE_BYTES / line.len() + 1);
    let write = |at: usize| {
        let path = folder.join(format!("file_{at}.txt"));
        std::fs::write(&path, &text[..FILE_BYTES]).unwrap();
        path
    };
    (0..count).map(write).collect()
}

fn agent(address: SocketAddr, folder: &Path) -> AgentLoop {
    let registry = Registry::new().with(haft_tools::core()).unwrap();
    let engine = Engine::builder(registry).workspace(Workspace::new(folder).unwrap()).build();
    let endpoint = ProviderEndpoint::new(Wire::Anthropic).base_url(format!("http://{address}"));
    AgentLoop::new(engine, ProviderClient::new(endpoint, RequestOptions::new("m")).unwrap())
}

/// Says two answers by turns, and how long it was from the end of the first to the whole of the next request.
struct Server {
    address: SocketAddr,
    gaps: mpsc::Receiver<Duration>,
}

impl Server {
    fn start(runtime: &tokio::runtime::Runtime, files: &[PathBuf]) -> Server {
        let calls: Vec<Value> =
            files.iter().map(|file| json!({"name": "Read", "input": {"file_path": file}})).collect();
        let script =
            json!({"turns": [{"tool_calls": calls, "stream": {"chunk_chars": 64}}, {"text": "done"}]});
        let answers = answers(runtime, &script);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, gaps) = mpsc::channel();
        let said: Arc<Mutex<Option<Instant>>> = Arc::default();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (answers, tell, said) = (answers.clone(), tell.clone(), said.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::with_capacity(1 << 20, stream);
                    stream.get_ref().set_nodelay(true).unwrap();
                    while let Some(body) = body(&mut stream) {
                        let came = Instant::now();
                        let has_results = body.windows(11).any(|part| part == b"tool_result");
                        if let Some(said) = said.lock().unwrap().take().filter(|_| has_results) {
                            tell.send(came - said).unwrap();
                        }
                        stream.get_mut().write_all(&answers[usize::from(has_results)]).unwrap();
                        *said.lock().unwrap() = Some(Instant::now());
                    }
                });
            }
        });
        Server { address, gaps }
    }

    fn gap(&self) -> Duration {
        self.gaps.recv().unwrap()
    }
}

/// What the scripted model says to a conversation that begins, and to one with results.
fn answers(runtime: &tokio::runtime::Runtime, script: &Value) -> [Vec<u8>; 2] {
    let calls = script["turns"][0]["tool_calls"].as_array().unwrap().len();
    let id = |at: usize| format!("toolu_scripted_1_{at}");
    let asked: Vec<Value> =
        (0..calls).map(|at| json!({"type": "tool_use", "id": id(at), "name": "Read", "input": {}})).collect();
    let results: Vec<Value> =
        (0..calls).map(|at| json!({"type": "tool_result", "tool_use_id": id(at), "content": "x"})).collect();
    let first = json!([{"role": "user", "content": "go"}]);
    let second = json!([
        {"role": "user", "content": "go"}, {"role": "assistant", "content": asked}, {"role": "user", "content": results},
    ]);
    runtime.block_on(async {
        let script = ModelScript::parse(&script.to_string()).unwrap();
        let server = serve_script(script, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address();
        let said = move |messages: Value| {
            tokio::task::spawn_blocking(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(&post(&json!({"stream": true, "messages": messages}).to_string())).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                answer
            })
        };
        [said(first).await.unwrap(), said(second).await.unwrap()]
    })
}

fn post(body: &str) -> Vec<u8> {
    let length = body.len();
    let mut request =
        format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    request.extend_from_slice(body.as_bytes());
    request
}

/// Reads a request with a length.
fn body(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// The least that a client can do.
struct Least(BufReader<TcpStream>);

impl Least {
    fn new(address: SocketAddr) -> Least {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Least(BufReader::with_capacity(1 << 16, stream))
    }

    fn run(&mut self) {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        loop {
            let request =
                json!({"model": "m", "max_tokens": 1, "stream": true, "messages": messages}).to_string();
            self.0.get_mut().write_all(&post(&request)).unwrap();
            let (mut blocks, mut input): (Vec<Value>, String) = (Vec::new(), String::new());
            self.events(|event| match event["type"].as_str() {
                Some("content_block_start") => {
                    blocks.push(event["content_block"].clone());
                    input.clear();
                }
                Some("content_block_delta") => {
                    input.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
                }
                Some("content_block_stop") => {
                    if let Some(block) = blocks.last_mut().filter(|block| block["type"] == "tool_use") {
                        block["input"] = serde_json::from_str(&input).unwrap();
                    }
                }
                _ => {}
            });
            let read = |block: &Value| {
                let text = std::fs::read_to_string(block["input"]["file_path"].as_str()?).unwrap();
                Some(json!({"type": "tool_result", "tool_use_id": block["id"], "content": text}))
            };
            let results: Vec<Value> = blocks.iter().filter_map(read).collect();
            if results.is_empty() {
                return;
            }
            messages.push(json!({"role": "assistant", "content": blocks}));
            messages.push(json!({"role": "user", "content": results}));
        }
    }

    /// The events of a chunked answer.
    fn events(&mut self, mut take: impl FnMut(Value)) {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).unwrap();
        }
        let mut chunk = Vec::new();
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            chunk.resize(size + 2, 0);
            self.0.read_exact(&mut chunk).unwrap();
            if size == 0 {
                return;
            }
            let text = std::str::from_utf8(&chunk).unwrap();
            for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
                take(serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn row(what: &str, mut floors: Vec<Duration>, mut gaps: Vec<Duration>, goal: u32) {
    floors.sort();
    gaps.sort();
    let (floor, gap) = (floors[floors.len() / 2], gaps[gaps.len() / 2]);
    let ratio = gap.as_secs_f64() / floor.as_secs_f64();
    println!("| {what} | {floor:.2?} | {gap:.2?} | {ratio:.2} | ≤ {goal} |");
}
