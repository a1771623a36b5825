//! The browser tools through the program: a real Chromium in the sandbox of a session, with a dev server
//! beside it.

use serde_json::{Value, json};

use crate::room::{Ran, Room};
use crate::run::{events, play, with_script};

/// Whether there is a Chromium; where there is none, that is said.
fn is_there() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).any(|dir| names.iter().any(|name| dir.join(name).is_file()));
    if !found {
        #[expect(clippy::print_stderr, reason = "a test that was skipped has to be noticed")]
        {
            eprintln!("skipped: no Chromium was found; `cargo xtask test` installs it");
        }
    }
    found
}

/// A dev server as an agent would start it: it takes a port that is free in the session's own network.
const SERVER: &str = r#"
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
print("serves", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 5173), H).serve_forever()
"#;

fn starts() -> Vec<Value> {
    vec![
        json!({"tool_calls": [{"name": "Bash", "input": {"command": "python3 server.py", "run_in_background": true}}]}),
        json!({"tool_calls": [{"name": "Monitor", "input": {"task_id": "task-1", "pattern": "serves", "timeout_ms": 30000}}]}),
    ]
}

/// Plays a session in which these calls are made one after the other, behind a server's start; what each
/// said.
fn session(room: &Room, calls: &[(&str, Value)], flags: &[&str]) -> Vec<String> {
    let mut turns = starts();
    turns.extend(calls.iter().map(|(name, input)| json!({"tool_calls": [{"name": name, "input": input}]})));
    turns.push(json!({"text": "done"}));
    room.write("script.json", &json!({"turns": turns}).to_string());
    room.write("work/server.py", SERVER);
    let mut all = vec!["--output", "stream-json", "--allow", "Bash", "--allow", "Monitor", "go"];
    all.extend(flags);
    let ran: Ran = play(room, &all);
    let said = events(&ran).into_iter().filter(|event| event["type"] == "results").map(|event| {
        let result = &event["results"][0];
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
            _ => String::new(),
        };
        if result["is_error"] == true {
            format!("error: {}", result["error"]["message"].as_str().unwrap_or_default())
        } else {
            text(&result["output"])
        }
    });
    let said: Vec<String> = said.skip(2).collect();
    assert_eq!(said.len(), calls.len(), "{ran:?}");
    said
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

/// What a page wants beyond what is allowed is refused by the sandbox's network, by whatever way, and the
/// result says what would allow it.
#[test]
fn a_dev_server_of_the_session_is_reached_and_nothing_else() {
    if !is_there() {
        return;
    }
    let room = with_script("{}");
    let page = r#"<title>App</title><h1>Hello</h1><button onclick="this.textContent='pressed'">Press</button>
        <img src="https://pictures.example/a.png"><img src="http://169.254.169.254/latest"><script src="http://localhost:3128/x"></script>"#;
    room.write("work/index.html", page);
    let said = session(
        &room,
        &[
            ("BrowserNavigate", json!({"url": "http://localhost:5173/", "snapshot": true})),
            ("BrowserClick", json!({"selector": "button", "snapshot": true})),
            ("BrowserNavigate", json!({"url": "http://127.0.0.1:9999/"})),
            ("BrowserNavigate", json!({"url": "http://10.1.2.3/"})),
            ("BrowserNavigate", json!({"url": "https://denied.example/"})),
            ("BrowserEvaluate", json!({"script": "1"})),
            ("Bash", json!({"command": "ls -A; ls /tmp"})),
        ],
        &[
            "--allow",
            "BrowserNavigate",
            "--allow",
            "BrowserClick",
            "--deny",
            "WebFetch(domain:denied.example)",
        ],
    );
    has(
        &said[0],
        &[
            "page: http://localhost:5173/ · \"App\"",
            "- heading \"Hello\" [level=1]",
            "- button \"Press\" [ref=e",
        ],
    );
    has(
        &said[0],
        &[
            "refused pictures.example:443: no rule allows `pictures.example`; `WebFetch(domain:pictures.example)` would",
        ],
    );
    has(&said[0], &["refused 169.254.169.254:80:", "refused http://localhost:3128/x: port 3128"]);
    has(&said[1], &["clicked `button`", "- button \"pressed\""]);
    has(&said[2], &["error: http://127.0.0.1:9999/ was not opened: net::ERR_CONNECTION_REFUSED"]);
    has(
        &said[3],
        &[
            "error: http://10.1.2.3/ was not opened: `10.1.2.3` is an address, and only a rule that names it opens one",
        ],
    );
    has(&said[4], &["denied by rule `WebFetch(domain:denied.example)`"]);
    has(&said[5], &["error:"]);
    assert!(
        !said[6].contains("haft-browser"),
        "the profile is nowhere in the session's folders: {}",
        said[6]
    );
}

/// The browser is made known to the sandbox's network by an address that leads nowhere. Nobody sees it: no
/// tab, no message of a console, no word of a refusal, whenever that is told.
#[test]
fn the_address_that_the_browser_is_greeted_with_is_never_seen() {
    if !is_there() {
        return;
    }
    let room = with_script("{}");
    room.write("work/index.html", "<title>App</title><h1>Hello</h1>");
    let page = json!({"url": "http://localhost:5173/"});
    let tabs = || ("BrowserTabs", json!({}));
    let said = session(
        &room,
        &[
            ("BrowserNavigate", page.clone()),
            tabs(),
            ("BrowserConsole", json!({"level": "debug"})),
            ("BrowserWait", json!({"timeout_ms": 500})),
            ("BrowserClose", json!({})),
            tabs(),
            ("BrowserNavigate", page),
            tabs(),
        ],
        &["--allow", "BrowserNavigate", "--allow", "BrowserClose"],
    );
    for text in &said {
        assert!(!text.contains("192.0.2") && !text.contains("refused"), "{text}");
    }
    for at in [1, 7] {
        has(&said[at], &["*1 http://localhost:5173/"]);
        assert_eq!(said[at].lines().count(), 1, "{}", said[at]);
    }
}

/// Rules for hosts are rules for the browser: they let it act unasked, and open its hosts to pages.
#[test]
fn rules_for_hosts_hold_for_the_browser() {
    if !is_there() {
        return;
    }
    let room = with_script("{}");
    room.write("work/index.html", "<title>App</title><input aria-label=In>");
    let said = session(
        &room,
        &[
            ("BrowserNavigate", json!({"url": "http://localhost:5173/"})),
            ("BrowserType", json!({"selector": "input", "text": "typed"})),
            ("BrowserEvaluate", json!({"script": "document.querySelector('input').value"})),
            ("BrowserNavigate", json!({"url": "https://nobody.example/"})),
            ("BrowserNavigate", json!({"url": "https://other.example/"})),
            ("BrowserClose", json!({})),
            ("BrowserTabs", json!({})),
        ],
        &["--allow", "WebFetch(domain:localhost)", "--allow", "WebFetch(domain:nobody.example)"],
    );
    has(&said[0], &["\"App\""]);
    has(&said[1], &["typed into `input`"]);
    has(&said[2], &["\n\"typed\""]);
    has(&said[3], &["error: https://nobody.example/ was not opened", "can't be resolved"]);
    has(&said[4], &["it reaches other.example"]);
    has(&said[5], &["the browser has ended"]);
    has(&said[6], &["no browser runs"]);
}

/// One call of its own starts a browser and leaves nothing.
#[test]
fn one_call_starts_a_browser_and_ends_it() {
    if !is_there() {
        return;
    }
    let room = Room::new();
    let input = json!({"url": "http://localhost:4/"}).to_string();
    let ran = room.say(&["call", "BrowserNavigate", &input, "--allow", "BrowserNavigate"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    has(&format!("{}{}", ran.stdout, ran.stderr), &["net::ERR_CONNECTION_REFUSED", "nobody listens there"]);
}

/// Without a sandbox this machine is the user's own.
#[test]
fn without_a_sandbox_a_port_of_this_machine_needs_a_setting() {
    if !is_there() {
        return;
    }
    let room = Room::new();
    let input = json!({"url": "http://localhost:4/"}).to_string();
    let ran = room.say(&["call", "BrowserNavigate", &input, "--allow", "BrowserNavigate", "--no-sandbox"]);
    has(
        &format!("{}{}", ran.stdout, ran.stderr),
        &["port 4 of this machine is opened by `localhost:4` in `sandbox.network.allowedDomains`"],
    );
}

#[test]
fn a_host_without_a_rule_asks_and_a_missing_browser_is_named() {
    let room = Room::new();
    let input = json!({"url": "http://localhost:4/"}).to_string();
    let asks = room.say(&["check", "BrowserNavigate", &json!({"url": "https://example.com/"}).to_string()]);
    has(&asks.stdout, &["it reaches example.com", "--allow 'WebFetch(domain:example.com)'"]);
    let missing = {
        let mut haft = room.haft(["call", "BrowserNavigate", &input, "--allow", "BrowserNavigate"]);
        haft.env("PATH", "/usr/bin:/bin").env("HAFT_CHROMIUM", "/usr/bin/no-such-browser");
        room.run(haft, "")
    };
    has(&missing.stderr, &["there is no browser at `/usr/bin/no-such-browser`", "apt install chromium"]);
}
