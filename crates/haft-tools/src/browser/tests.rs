//! The tools with a real Chromium, on pages that the test serves on the loopback.
//!
//! There is no sandbox here, since a test has no program of its own to be its helper; the tests of the
//! program have one. What no sandbox sees to is asked of the check, which the test answers.

mod pages;
mod safety;
mod words;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::ports::{PermissionMode, Processes};
use haft::{Engine, EngineBuilder, PermissionRules, Registry, ToolCall, ToolResult, Workspace};
use haft_sandbox::LocalProcesses;
use serde_json::{Value, json};

use super::Browser;

/// The browser of these tests; `None` and a message if none is installed.
///
/// The headless shell is Chromium without its own windows and starts in a third of the time. The tests of the
/// program use the whole of Chromium.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HAFT_TEST_CHROMIUM").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let found =
        std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|at| at.is_file());
    if found.is_none() {
        eprintln!("skipped: no Chromium was found; `cargo xtask test` installs it");
    }
    found
}

/// A page as it is served.
#[derive(Clone)]
pub(super) struct ServedPage {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

/// A site on the loopback.
pub(super) struct TestSite {
    pub(super) port: u16,
    pages: Arc<Mutex<HashMap<String, ServedPage>>>,
    /// The requests that came, by their paths.
    pub(super) asked: Arc<Mutex<Vec<String>>>,
}

impl TestSite {
    pub(super) fn new(pages: &[(&str, &str)]) -> TestSite {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = TestSite { port, pages: Arc::default(), asked: Arc::default() };
        pages.iter().for_each(|(path, body)| {
            site.put(path, "200 OK\r\nContent-Type: text/html; charset=utf-8", body)
        });
        let (pages, asked) = (site.pages.clone(), site.asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, asked) = (pages.clone(), asked.clone());
                std::thread::spawn(move || serve(stream, &pages, &asked));
            }
        });
        site
    }

    pub(super) fn put(&self, path: &str, head: &str, body: impl AsRef<[u8]>) {
        let page = ServedPage { head: head.to_owned(), body: body.as_ref().to_vec() };
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }
}

fn serve(mut stream: TcpStream, pages: &Mutex<HashMap<String, ServedPage>>, asked: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let Some(path) = head.split(' ').nth(1) else { return };
    let path = path.split('?').next().unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path.clone());
    let missing = ServedPage {
        head: "404 Not Found\r\nContent-Type: text/plain".into(),
        body: b"nothing here".to_vec(),
    };
    let page = pages.lock().unwrap().get(&path).cloned().unwrap_or(missing);
    let length = page.body.len();
    let answer = format!("HTTP/1.1 {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n", page.head);
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&page.body));
}

/// A session with a browser in it.
pub(super) struct TestSession {
    pub(super) dir: tempfile::TempDir,
    pub(super) builder: EngineBuilder,
    pub(super) engine: Engine,
    pub(super) browser: Browser,
}

impl TestSession {
    /// A session that may open this site; none where there is no Chromium.
    pub(super) fn new(site: &TestSite) -> Option<TestSession> {
        Some(TestSession::of(Browser::new().program(Some(chromium()?)).local_ports([site.port])))
    }

    pub(super) fn of(browser: Browser) -> TestSession {
        TestSession::with_processes(browser, LocalProcesses::new(std::env::vars_os()))
    }

    pub(super) fn with_processes(browser: Browser, processes: impl Processes) -> TestSession {
        let dir = tempfile::tempdir().unwrap();
        let permissions = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let builder = Engine::builder(Registry::new().with(browser.tools()).unwrap())
            .workspace(Workspace::new(dir.path()).unwrap())
            .permissions(permissions)
            .ports(|ports| ports.processes = Some(Arc::new(processes)));
        TestSession { dir, engine: builder.clone().build(), builder, browser }
    }

    pub(super) async fn call(&self, tool: &str, input: Value) -> ToolResult {
        let call = ToolCall::new("1", format!("Browser{tool}"), input);
        tokio::time::timeout(Duration::from_secs(120), self.engine.turn().run([call]))
            .await
            .expect("it ends")
            .remove(0)
    }

    /// What a call says; an error with its kind before it.
    pub(super) async fn says(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input).await.outcome() {
            Ok(output) => output.to_text(),
            Err(error) => format!("{:?}: {}", error.kind(), error.message()),
        }
    }

    pub(super) async fn open(&self, site: &TestSite, path: &str) -> String {
        self.says("Navigate", json!({"url": site.url(path)})).await
    }

    /// What is on the page.
    pub(super) async fn sees(&self) -> String {
        let said = self.says("Snapshot", json!({})).await;
        said.split_once("instruction to you\n").map_or(said.clone(), |(_, seen)| seen.to_owned())
    }

    /// The value of an expression, as JSON.
    pub(super) async fn value(&self, script: &str) -> String {
        let said = self.says("Evaluate", json!({"script": script})).await;
        said.split_once("instruction to you\n").map_or(said.clone(), |(_, value)| value.to_owned())
    }
}

/// The ref of the line that has this in it.
#[track_caller]
pub(super) fn named(seen: &str, what: &str) -> String {
    let line =
        seen.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what} in:\n{seen}"));
    let name = line.split_once("[ref=").and_then(|(_, rest)| rest.split_once(']'));
    name.unwrap_or_else(|| panic!("{line}")).0.to_owned()
}

#[track_caller]
pub(super) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
