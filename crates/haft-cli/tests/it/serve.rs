//! `haft serve` as a client sees it: what it offers, what stays denied, how it asks, what ends with whom.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mcp::faulty;
use crate::room::{PATH, Room, until};

/// `haft serve` with flags, programs to be found.
pub(crate) fn serve(room: &Room, flags: &[&str]) -> Command {
    let mut command = room.haft([&["serve"], flags].concat());
    command.env(PATH, std::env::var_os(PATH).unwrap());
    command
}

/// A client over standard input and output.
pub(crate) struct Stdio1 {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    /// What came that answers nothing.
    pub(crate) heard: Vec<Value>,
    /// What is said to questions.
    pub(crate) answers: Vec<Value>,
    pub(crate) asked: Vec<Value>,
    /// The same as it came.
    pub(crate) asked_as: Vec<String>,
}

impl Stdio1 {
    /// A client that can be asked.
    pub(crate) fn new(room: &Room, flags: &[&str]) -> Stdio1 {
        Stdio1::with(room, flags, &json!({"elicitation": {}}))
    }

    pub(crate) fn with(room: &Room, flags: &[&str], can: &Value) -> Stdio1 {
        let mut child = serve(room, flags).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (heard, answers, asked, asked_as) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut client = Stdio1 { child, input, output, next: 0, heard, answers, asked, asked_as };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": {"name": "t", "version": "1"}});
        let begun = client.request("initialize", hello);
        assert_eq!(begun["result"]["serverInfo"]["name"], "haft", "{begun}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    /// The next message. Everything on standard output is one.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if line.is_empty() {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
        if message["method"] == "elicitation/create" {
            self.asked_as.push(line);
        }
        Some(message)
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().unwrap_or_else(|| panic!("no answer to {id}: {}", self.gone()));
            if message["method"] == "elicitation/create" {
                self.asked.push(message["params"].clone());
                let said = self.answers.remove(0);
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": said}));
            } else if message["id"] == id {
                return message;
            } else {
                self.heard.push(message);
            }
        }
    }

    /// How a server ended that should not have, and its last words.
    fn gone(&mut self) -> String {
        until("it ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let mut words = String::new();
        let stderr = self.child.stderr.take();
        stderr.into_iter().for_each(|mut stderr| drop(stderr.read_to_string(&mut words)));
        format!("the server ended with {status}, heard {:?}, its last words: {words}", self.heard)
    }

    /// Calls a tool: the text of its result, and whether it failed.
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        outcome(&answer)
    }

    pub(crate) fn tools(&mut self) -> Vec<String> {
        names(&self.request("tools/list", json!({})))
    }

    /// Waits for a notification.
    pub(crate) fn hear(&mut self, method: &str) {
        loop {
            if let Some(at) = self.heard.iter().position(|message| message["method"] == method) {
                self.heard.remove(at);
                return;
            }
            let message = self.receive().expect("a notification");
            self.heard.push(message);
        }
    }

    /// Goes away; how the server ended.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.input.take();
        assert!(self.receive().is_none(), "nothing comes after the end");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Stdio1 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn outcome(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    (text, result["isError"] == true)
}

pub(crate) fn said(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

const NEW: &str = "new.txt";

pub(crate) fn write_new() -> Value {
    json!({"file_path": NEW, "content": "words\n"})
}

#[test]
fn all_tools_are_offered_and_the_end_of_input_is_the_end() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &[]);
    let listed = client.request("tools/list", json!({}));
    let names = names(&listed);
    for name in ["Bash", "Edit", "Glob", "Grep", "Read", "Write"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    assert!(!names.iter().any(|name| name == "ToolSearch"));
    let of = |name: &str| {
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["annotations"].clone()
    };
    assert_eq!((&of("Read")["readOnlyHint"], &of("Read")["openWorldHint"]), (&json!(true), &json!(false)));
    assert_eq!((&of("Bash")["readOnlyHint"], &of("Bash")["destructiveHint"]), (&json!(false), &json!(true)));
    let read = client.call("Read", json!({"file_path": "notes.txt", "limit": 1}));
    assert!(read.0.starts_with("1\tone") && !read.1, "{read:?}");
    let wrong = client.call("Read", json!({"file_path": 7}));
    assert!(wrong.1 && wrong.0.contains("a string is accepted"), "{wrong:?}");
    let unknown = client.request("tools/call", json!({"name": "read_fil", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("Read"), "{unknown}");
    assert_eq!(client.leave(), Some(0));
}

/// Each client has a mode, a plan and a list of tasks of its own.
#[test]
fn a_plan_is_approved_through_the_client() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &["--allow", "Write"]);
    assert!(!client.call("EnterPlanMode", json!({})).1);
    let denied = client.call("Write", write_new());
    assert!(denied.1 && denied.0.contains("before the plan was approved"), "{denied:?}");
    let said = |content: Value| json!({"action": "accept", "content": content});
    client.answers = vec![
        said(json!({"decision": "deny", "reason": "smaller, please"})),
        said(json!({"decision": "allow once"})),
        said(json!({"answer": "blue"})),
    ];
    let plan = json!({"plan": "1. Write `new.txt`"});
    let back = client.call("ExitPlanMode", plan.clone());
    assert!(back.1 && back.0.contains("smaller, please"), "{back:?}");
    assert!(client.call("Write", write_new()).1, "it was not approved");
    let approved = client.call("ExitPlanMode", plan);
    assert!(!approved.1 && approved.0.contains("the mode is `default` now"), "{approved:?}");
    assert!(
        client.asked[0]["message"].as_str().unwrap().contains("1. Write `new.txt`"),
        "{:?}",
        client.asked
    );
    assert!(!client.call("Write", write_new()).1);
    let verified = client.call("VerifyPlan", json!({}));
    assert!(verified.0.starts_with("1 of 1 steps: 1 done"), "{verified:?}");
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let asked =
        client.call("AskUserQuestion", json!({"questions": [{"question": "Which?", "options": options}]}));
    assert_eq!(asked, ("question: Which?\nanswer: blue".to_owned(), false));
    assert!(!client.tools().iter().any(|name| name.starts_with("Cron")), "nobody would tell what is due");
    let mut other = Stdio1::new(&room, &["--non-interactive"]);
    assert!(!other.tools().iter().any(|name| name == "ExitPlanMode" || name == "AskUserQuestion"));
}

#[test]
fn who_cannot_be_asked_is_told_what_would_allow_it() {
    let room = Room::new();
    for (flags, can) in
        [(&[][..], json!({"elicitation": {"url": {}}})), (&["--non-interactive"], json!({"elicitation": {}}))]
    {
        let mut client = Stdio1::with(&room, flags, &can);
        let denied = client.call("Write", write_new());
        assert!(
            denied.1 && denied.0.contains("Edit(") && denied.0.contains("nobody can be asked"),
            "{denied:?}"
        );
        assert!(client.asked.is_empty() && !room.path("work/new.txt").exists());
    }
}

#[test]
fn only_a_clear_yes_lets_it_run() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &[]);
    for no in [json!({"action": "accept", "content": {}}), said("deny")] {
        client.answers.push(no.clone());
        let denied = client.call("Write", write_new());
        assert!(denied.1 && !room.path("work/new.txt").exists(), "{no}: {denied:?}");
    }
    let message = client.asked[0]["message"].as_str().unwrap();
    assert!(
        message.contains("Write") && message.contains("writes new.txt") && message.contains("words"),
        "{message}"
    );
    client.answers.push(said("allow once"));
    assert!(!client.call("Write", write_new()).1);
    assert_eq!(fs::read_to_string(room.path("work/new.txt")).unwrap(), "words\n");
    // Once is once; for the session is until the client goes, and for this client.
    client.answers.push(said("allow for this session"));
    let again = json!({"file_path": NEW, "content": "more\n"});
    assert!(!client.call("Write", again.clone()).1);
    assert!(!client.call("Write", json!({"file_path": NEW, "content": "most\n"})).1);
    assert_eq!(client.asked.len(), 4);
    let mut other = Stdio1::new(&room, &[]);
    other.answers.push(said("deny"));
    assert!(other.call("Write", again).1);
    assert_eq!(other.asked.len(), 1);
}

/// The process that wrote its number into a file, once it has.
pub(crate) fn number_in(file: &Path) -> i32 {
    let mut number = None;
    until("a number in the file", || {
        number = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        number.is_some()
    });
    number.unwrap()
}

pub(crate) fn is_there(process: i32) -> bool {
    // One that ended and wasn't waited for is no longer there.
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

const SLEEPS: &str = "echo $$ > pid; exec sleep 1000";
const FREE: [&str; 3] = ["--no-sandbox", "--permission-mode", "bypassPermissions"];

#[test]
fn cancelling_stops_the_command() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &FREE);
    let id = client
        .begin("tools/call", json!({"name": "Bash", "arguments": {"command": SLEEPS, "timeout": 600_000}}));
    let process = number_in(&room.path("work/pid"));
    assert!(is_there(process));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    until("the command ends", || !is_there(process));
    assert!(!client.call("Read", json!({"file_path": "notes.txt"})).1, "the client goes on");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn nothing_outlives_the_client() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &FREE);
    let behind = "echo $$ > behind; exec sleep 1000";
    client.call("Bash", json!({"command": behind, "run_in_background": true}));
    let behind = number_in(&room.path("work/behind"));
    client.begin("tools/call", json!({"name": "Bash", "arguments": {"command": SLEEPS, "timeout": 600_000}}));
    let process = number_in(&room.path("work/pid"));
    assert!(is_there(process) && is_there(behind));
    drop(client.input.take());
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    assert!(!is_there(process) && !is_there(behind));
}

#[test]
fn being_told_to_end_lets_what_is_under_way_finish() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &[&FREE[..], &["--grace", "60"]].concat());
    let waits = "echo $$ > pid; while [ ! -e go ]; do :; done; echo done";
    let id = client
        .begin("tools/call", json!({"name": "Bash", "arguments": {"command": waits, "timeout": 600_000}}));
    number_in(&room.path("work/pid"));
    kill_process(Pid::from_child(&client.child), Signal::TERM).unwrap();
    room.write("work/go", "");
    let answer = client.answer(id);
    assert_eq!(outcome(&answer).0.trim(), "done", "{answer}");
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
}

/// What can't be served is said before anything is promised.
#[test]
fn what_makes_no_sense_is_said_at_once() {
    let room = Room::new();
    room.write("work/taken", "mine");
    let taken = room.say(&["serve", "--unix", "taken"]);
    assert!(taken.code == Some(2) && !taken.stderr.contains("listening"), "{taken:?}");
    let typo = room.say(&["serve", "--tools", "Reed"]);
    let words = "--tools `Reed`: no tool is called that; closest: `Read`";
    assert!(typo.code == Some(2) && typo.stderr.contains(words), "{typo:?}");
    let stranger = room.say(&["serve", "--tools", "mcp__nobody__*"]);
    assert!(stranger.code == Some(2) && stranger.stderr.contains("no tool is called that"), "{stranger:?}");
    // A server may have any tool.
    room.write("servers.json", &json!({"mcpServers": {"f": faulty(&room, "")}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60", "--tools", "mcp__f__ec*"];
    let mut client = Stdio1::new(&room, &flags);
    assert_eq!(client.tools(), ["mcp__f__echo"]);
    // What runs commands goes with them.
    let mut client = Stdio1::new(&room, &["--deny", "Bash"]);
    let tools = client.tools();
    assert!(!tools.iter().any(|name| name == "Bash" || name == "Monitor"), "{tools:?}");
}

/// The link in a result that was too large.
pub(crate) fn link(answer: &Value) -> String {
    let blocks = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let link =
        blocks.iter().find(|block| block["type"] == "resource_link").unwrap_or_else(|| panic!("{answer}"));
    link["uri"].as_str().unwrap().to_owned()
}

/// A server over HTTP, ended with this.
pub(crate) struct Http {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

impl Http {
    pub(crate) fn start(room: &Room, flags: &[&str]) -> Http {
        let mut child = serve(room, &[&["--http", "127.0.0.1:0"], flags].concat()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut url = None;
        let mut token = None;
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some(found) = line.strip_prefix("listening on ") {
                url = Some(found.to_owned());
                if flags.contains(&"--settings") {
                    break;
                }
            } else if let Some(found) = line.strip_prefix("token, shown only now: ") {
                token = Some(found.to_owned());
                break;
            }
        }
        // What it says later is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Http { child, url: url.expect("it listens"), token }
    }

    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    /// A request that stands alone, as the newest revision has them: the status, and the message.
    pub(crate) fn post(
        &self,
        token: Option<&str>,
        headers: &str,
        method: &str,
        params: Value,
    ) -> (u16, Value) {
        let request = self.request(token, headers, method, params);
        exchange(TcpStream::connect(self.address()).unwrap(), &request)
    }

    /// The text of such a request.
    pub(crate) fn request(
        &self,
        token: Option<&str>,
        headers: &str,
        method: &str,
        mut params: Value,
    ) -> String {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let name = ["name", "uri"]
            .iter()
            .find_map(|key| params[*key].as_str())
            .map(|name| format!("Mcp-Name: {name}\r\n"));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address()) };
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\n{host}{headers}{token}{}Mcp-Method: {method}\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            name.unwrap_or_default(),
            body.len()
        )
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn end(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn call(&self, token: &str, name: &str, arguments: Value) -> Value {
        self.post(Some(token), "", "tools/call", json!({"name": name, "arguments": arguments})).1
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and reads all that comes: the status, and the last message.
pub(crate) fn exchange(mut stream: impl std::io::Read + std::io::Write, request: &str) -> (u16, Value) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    let mut messages = body
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data:").unwrap_or(line).trim()).ok());
    (status, messages.next_back().unwrap_or(Value::Null))
}

fn unchunked(body: &str) -> String {
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

#[test]
fn only_who_has_the_token_and_names_a_known_host_comes_in() {
    let room = Room::new();
    let served = Http::start(&room, &[]);
    let token = served.token.clone().unwrap();
    let (status, listed) = served.post(Some(&token), "", "tools/list", json!({}));
    assert!(status == 200 && names(&listed).contains(&"Read".to_owned()), "{status} {listed}");
    assert_eq!(served.post(None, "", "tools/list", json!({})).0, 401);
    assert_eq!(served.post(Some(&token), "Host: evil.example\r\n", "tools/list", json!({})).0, 403);
    let open = Http::start(&room, &["--host", "haft.example", "--origin", "https://app.example"]);
    let headers = "Host: haft.example\r\nOrigin: https://app.example\r\n";
    assert_eq!(open.post(open.token.as_deref(), headers, "tools/list", json!({})).0, 200);
    let refused = room.say(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--allow-remote") && refused.stdout.is_empty(), "{refused:?}");
}

/// A token, and its SHA-256.
const ALICE: (&str, &str) =
    ("alice-0123456789abcdef", "08de70070336baac3db11e5cca05f85f86ebd13d9ba9b67a357084e7fa43532d");

#[test]
fn each_token_has_its_own_view_mode_and_results() {
    let room = Room::new();
    room.write("home/bob.token", "bob-0123456789abcdef\n");
    fs::set_permissions(room.path("home/bob.token"), fs::Permissions::from_mode(0o600)).unwrap();
    let settings = json!({"serve": {"clients": [
        {"name": "alice", "tokenSha256": ALICE.1, "mode": "bypassPermissions", "deny": ["Bash(touch *)"]},
        {"name": "bob", "tokenFile": "~/bob.token", "tools": ["Rea*", "mcp__none__*", "Write"]},
    ]}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let served = Http::start(&room, &["--settings", "{}", "--no-sandbox"]);
    assert_eq!(served.token, None, "no other token is made");
    let bob = "bob-0123456789abcdef";
    let listed = |token: &str| names(&served.post(Some(token), "", "tools/list", json!({})).1);
    assert_eq!(listed(bob), ["Read", "Write"]);
    assert!(listed(ALICE.0).contains(&"Bash".to_owned()));
    assert!(outcome(&served.call(bob, "Write", write_new())).1, "bob is not asked, so it is denied");
    assert!(!outcome(&served.call(ALICE.0, "Write", write_new())).1);
    let touched = outcome(&served.call(ALICE.0, "Bash", json!({"command": "touch x"})));
    assert!(touched.1 && touched.0.contains("settings.json"), "{touched:?}");
    let unknown = served.call(bob, "Bash", json!({"command": "true"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

    let uri = link(&served.call(ALICE.0, "Bash", json!({"command": "seq 1 100000"})));
    let read = |token: &str| served.post(Some(token), "", "resources/read", json!({"uri": uri})).1;
    assert_eq!(read(ALICE.0)["result"]["contents"][0]["text"].as_str().unwrap().lines().count(), 100_000);
    assert!(read(bob)["error"].is_object());
    let resources = |token: &str| {
        served.post(Some(token), "", "resources/list", json!({})).1["result"]["resources"].clone()
    };
    assert_eq!((resources(ALICE.0).as_array().unwrap().len(), resources(bob)), (1, json!([])));
}

/// An authorization server that knows one token, and counts how often it was asked.
fn authorization(resource: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut secret) = (0, false);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                secret |= line.starts_with("authorization: basic ");
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let good = secret && body == b"token=good-token";
            let answer = json!({"active": good, "aud": resource, "sub": "me", "scope": "tools"}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close",
                answer.len()
            );
            write!(stream, "{head}\r\n\r\n{answer}").unwrap();
        }
    });
    format!("http://{address}/introspect")
}

#[test]
fn tokens_of_an_authorization_server_are_asked_about() {
    let room = Room::new();
    let resource = "https://haft.example/mcp";
    room.write("home/secret", "0123456789abcdef");
    fs::set_permissions(room.path("home/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let oauth = json!({"resource": resource, "authorizationServers": ["https://auth.example"],
        "introspection": authorization(resource), "clientId": "haft", "clientSecretFile": "~/secret", "scopes": ["tools"]});
    // One that is called as the subject is, and one that is the subject.
    let clients =
        json!([{"name": "me", "mode": "bypassPermissions"}, {"name": "oauth:me", "tools": ["Read"]}]);
    let settings = json!({"serve": {"oauth": oauth, "clients": clients}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let served = Http::start(&room, &["--settings", "{}"]);
    assert_eq!(served.token, None);
    let (status, listed) = served.post(Some("good-token"), "", "tools/list", json!({}));
    assert_eq!((status, names(&listed)), (200, vec!["Read".to_owned()]), "{listed}");
    for wrong in [None, Some("bad-token"), Some("me")] {
        assert_eq!(served.post(wrong, "", "tools/list", json!({})).0, 401, "{wrong:?}");
    }
    let request = format!(
        "GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        served.address()
    );
    let (status, found) = exchange(TcpStream::connect(served.address()).unwrap(), &request);
    assert_eq!(
        (status, &found["authorization_servers"][0]),
        (200, &json!("https://auth.example")),
        "{found}"
    );
}

#[test]
fn a_token_of_others_and_an_unknown_view_are_refused() {
    let room = Room::new();
    room.write("home/token", "0123456789abcdef");
    let refused =
        room.say(&["serve", "--http", "0", "--token-file", room.path("home/token").to_str().unwrap()]);
    assert!(refused.code == Some(2) && refused.stderr.contains("chmod 600"), "{refused:?}");
    let refused = room.say(&["serve", "--view", "nobody"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("no client is called that"), "{refused:?}");
}

#[test]
fn a_socket_is_its_owners() {
    let room = Room::new();
    let path = room.path("home/haft.sock");
    let mut child = serve(&room, &["--unix", path.to_str().unwrap()]).spawn().unwrap();
    until("the socket is there", || path.exists());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: tools/list\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, listed) = exchange(UnixStream::connect(&path).unwrap(), &request);
    assert!(status == 200 && names(&listed).contains(&"Read".to_owned()), "{status} {listed}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!path.exists());
}
