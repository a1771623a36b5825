//! `haft run` over HTTP: against `haft script serve` by all four wires, and what a server gets to see.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::room::{PATH, Ran, Room};
use crate::run::{READS, object, with_script};

/// `haft script serve`, which ends with this.
pub(crate) struct Served {
    child: Child,
    url: String,
}

impl Served {
    pub(crate) fn start(room: &Room) -> Served {
        let script = room.path("script.json");
        let mut child = room.haft(["script", "serve", script.to_str().unwrap()]).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Served { child, url: url.trim().to_owned() }
    }

    /// The base URL for a provider, as its SDK takes it.
    pub(crate) fn base_url(&self, provider: &str) -> String {
        if provider.starts_with("openai") { format!("{}/v1", self.url) } else { self.url.clone() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROVIDERS: [&str; 4] = ["anthropic", "openai", "openai-chat", "gemini"];

#[test]
fn every_wire_plays_the_same() {
    let room = with_script(READS);
    let served = Served::start(&room);
    let script = room.path("script.json").display().to_string();
    let here = object(&room.say(&["run", "go", "--script", &script, "--output", "json"]));
    for provider in PROVIDERS {
        let url = served.base_url(provider);
        let args =
            ["run", "go", "--provider", provider, "--base-url", &url, "--model", "m", "--output", "json"];
        let ran = room.say(&args);
        assert_eq!(ran.code, Some(0), "{provider}: {ran:?}");
        let there = object(&ran);
        for key in ["text", "stop", "turns"] {
            assert_eq!(there[key], here[key], "{provider}: {key}");
        }
        assert_eq!(there["calls"][0]["result"], here["calls"][0]["result"], "{provider}");
    }
}

#[test]
fn what_passes_is_tried_again_and_told() {
    let script = r#"{"turns": [
        {"text": "I'll look.", "tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}], "error": {"status": 529, "type": "overloaded_error", "retry_after_ms": 5, "times": 2}},
        {"text": "It has three lines."}]}"#;
    let room = with_script(script);
    let served = Served::start(&room);
    let url = served.base_url("anthropic");
    let args = ["run", "go", "--provider", "anthropic", "--base-url", &url];
    let ran = room.say(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It has three lines.\n"), "{ran:?}");
    assert!(ran.stderr.contains("(attempt 2)") && ran.stderr.contains("(attempt 3)"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("✓ Read").count(), 1, "{}", ran.stderr);
}

#[test]
fn prices_limit_what_a_run_costs() {
    let room = with_script(READS);
    let served = Served::start(&room);
    let settings = json!({"run": {
        "provider": "openai-chat", "maxCost": 0.001,
        "openai-chat": {"model": "m", "baseUrl": served.base_url("openai-chat")},
        "prices": {"m": {"input": 1000, "output": 1000}}}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let ran = room.say(&["run", "go", "--output", "json"]);
    let found = object(&ran);
    assert_eq!(
        (ran.code, &found["stop"], &found["turns"]),
        (Some(1), &json!("max_cost"), &json!(1)),
        "{ran:?}"
    );
    assert!(found["cost"].as_f64().unwrap() > 0.001);
    let ran = room.say(&["run", "go", "--model", "other", "--output", "json"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("no price for `other`"), "{}", ran.stderr);
}

#[test]
fn a_server_ends_when_it_is_told_to() {
    let room = with_script(READS);
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(&room);
        assert!(served.url.starts_with("http://127.0.0.1:"), "{}", served.url);
        kill_process(Pid::from_child(&served.child), signal).unwrap();
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
        let mut stderr = String::new();
        served.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(stderr.contains("GOOGLE_GEMINI_BASE_URL="), "{stderr}");
    }
}

/// What a server was sent, which refuses it.
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
    pub(crate) ran: Ran,
}

impl Seen {
    /// The system prompt of a request to Anthropic.
    pub(crate) fn system(&self) -> String {
        let parts = self.body["system"].as_array().unwrap();
        parts.iter().map(|part| part["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }
}

/// Runs a command against a server that looks at one request; `with` gets the server's address.
pub(crate) fn seen(room: &Room, with: impl FnOnce(&str) -> Command) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = r#"{"type":"error","error":{"type":"invalid_request_error","message":"seen with sk-very-secret"}}"#;
        write!(
            stream,
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        )
        .unwrap();
        (head, serde_json::from_slice(&body).unwrap())
    });
    let ran = room.run(with(&url), "");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let (head, body) = server.join().unwrap();
    Seen { head, body, ran }
}

/// A run against a server of Anthropic's kind.
pub(crate) fn asking(room: &Room, url: &str, more: &[&str]) -> Command {
    let mut command = room.haft([&["run", "go"][..], more].concat());
    command.env(PATH, std::env::var_os(PATH).unwrap());
    command.env("ANTHROPIC_API_KEY", "sk-very-secret").env("ANTHROPIC_BASE_URL", url);
    command
}

#[test]
fn a_key_goes_to_the_server_and_nowhere_else() {
    for form in ["text", "json", "stream-json"] {
        let room = Room::new();
        let seen = seen(&room, |url| asking(&room, url, &["--output", form, "--model", "m-1"]));
        assert!(seen.head.contains("x-api-key: sk-very-secret"), "{}", seen.head);
        assert_eq!(seen.body["model"], "m-1");
        assert!(seen.ran.stderr.contains("seen with (the key)"), "{}", seen.ran.stderr);
        assert!(!seen.body.to_string().contains("secret"));
        assert!(!seen.ran.stdout.contains("secret") && !seen.ran.stderr.contains("secret"), "{:?}", seen.ran);
    }
    let room = Room::new();
    room.write("home/.config/haft/settings.json", r#"{"run": {"anthropic": {"apiKey": "sk-very-secret"}}}"#);
    for args in [&["settings", "show"][..], &["settings", "show", "--output", "json"], &["doctor"]] {
        let ran = room.say(args);
        assert!(!ran.stdout.contains("secret") && !ran.stderr.contains("secret"), "{ran:?}");
    }
    let shown = room.say(&["settings", "show"]).stdout;
    assert!(shown.contains("run.anthropic.apiKey") && shown.contains("(hidden)"), "{shown}");
    let seen = seen(&room, |url| {
        let mut command = asking(&room, url, &[]);
        command.env_remove("ANTHROPIC_API_KEY");
        command
    });
    assert!(seen.head.contains("x-api-key: sk-very-secret"), "{}", seen.head);
}

/// Whoever sets the address gets the key.
#[test]
fn no_project_sets_an_address_or_a_key() {
    let room = Room::new();
    let settings = r#"{
        "run": {"provider": "openai", "anthropic": {"baseUrl": "http://127.0.0.1:9", "apiKey": "theirs", "model": "theirs"}},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_MODEL": "theirs", "FOO": "x"}}"#;
    room.write("work/.haft/settings.json", settings);
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let seen = seen(&room, |url| asking(&room, url, &[]));
    assert_eq!(seen.body["model"], "claude-sonnet-4-5");
    assert!(seen.head.contains("x-api-key: sk-very-secret"), "{}", seen.head);
    let warning = ".haft/settings.json:2: `run` counts in your own settings only";
    assert!(seen.ran.stderr.contains(warning), "{}", seen.ran.stderr);

    // Nor does it make a run of what would be the tour.
    let ran = room.say(&["run"]);
    assert!(ran.stderr.contains("This is the tour"), "{}", ran.stderr);
}

#[test]
fn a_request_says_how_to_work_and_where() {
    let room = Room::new();
    let seen = seen(&room, |url| asking(&room, url, &["--append-system-prompt", "Answer in Latin."]));
    let system = seen.system();
    assert!(system.contains("Answer in Latin.") && system.contains("run side by side"), "{system}");
    assert!(system.contains(&format!("Working directory: {}", room.path("work").display())), "{system}");
    let tools: Vec<&str> =
        seen.body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(tools.contains(&"Read") && tools.contains(&"Bash"), "{tools:?}");
    assert_eq!(seen.body["messages"][0]["content"][0]["text"], "go");
}
