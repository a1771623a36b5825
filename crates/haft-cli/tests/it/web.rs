//! The web through the program, with servers on the loopback that settings open.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::room::{PATH, Ran, Room};
use crate::run::with_script;
use crate::run_http::{Served, asking, seen};

/// A server that says this to everybody.
fn server(kind: &str, body: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn open(room: &Room, port: u16) {
    let settings = json!({"sandbox": {"network": {"allowedDomains": [format!("localhost:{port}")]}}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
}

fn fetch(room: &Room, input: serde_json::Value, flags: &[&str]) -> Ran {
    let input = input.to_string();
    room.say(&[&["call", "WebFetch", &input][..], flags].concat())
}

#[test]
fn a_page_of_this_machine_needs_its_port_and_a_yes() {
    let room = Room::new();
    let port = server("text/html", "<title>T</title><h1>Hello</h1><p>words");
    let url = format!("http://localhost:{port}/");
    let (input, allow) = (json!({"url": url}), ["--allow", "WebFetch(domain:localhost)"]);
    let closed = fetch(&room, input.clone(), &allow);
    assert_eq!(closed.code, Some(1), "{closed:?}");
    assert!(
        closed.stderr.contains(&format!("`localhost:{port}` among `sandbox.network.allowedDomains`")),
        "{closed:?}"
    );
    open(&room, port);
    let unasked = fetch(&room, input.clone(), &[]);
    assert!(unasked.code == Some(1) && unasked.stderr.contains("localhost"), "{unasked:?}");
    let got = fetch(&room, input.clone(), &allow);
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(got.stdout.contains("title: T\n\n# Hello\n\nwords\n</web_content>"), "{got:?}");
    let denied = fetch(&room, input, &["--allow", "WebFetch", "--deny", "WebFetch(domain:localhost)"]);
    assert!(denied.code == Some(1) && denied.stderr.contains("WebFetch(domain:localhost)"), "{denied:?}");
}

/// What is allowed gets as far as the fetcher, which is told to go nowhere.
#[test]
fn known_hosts_are_not_asked_about() {
    let room = Room::new();
    let asks = |web: &str, url: &str| {
        let network = r#""sandbox": {"network": {"deniedDomains": ["docs.python.org", "house.example"]}}"#;
        room.write("home/.config/haft/settings.json", &format!("{{{network}{web}}}"));
        let ran = fetch(&room, json!({"url": url}), &[]);
        let stopped = ran.stderr.contains("can't be fetched: the rule");
        assert!(ran.code == Some(1) && (stopped || ran.stderr.contains("needs a yes")), "{ran:?}");
        !stopped
    };
    let (python, house) = ("https://docs.python.org/3/", "https://house.example/");
    assert!(!asks("", python) && asks("", house));
    assert!(asks("", "https://docs.python.org:8443/") && asks("", "https://docs.python.org.evil.example/"));
    let own = r#", "web": {"preapproved": ["house.example"], "usualPreapproved": false}"#;
    assert!(asks(own, python) && !asks(own, house));
    let careful = r#", "permissions": {"ask": ["WebFetch(domain:docs.python.org)"]}"#;
    assert!(asks(careful, python));
}

#[test]
fn a_search_is_offered_where_one_is_configured() {
    let room = Room::new();
    let names = |room: &Room| room.say(&["tools", "--format", "json"]).stdout;
    assert!(names(&room).contains("\"WebFetch\"") && !names(&room).contains("\"WebSearch\""));
    let port = server(
        "application/json",
        r#"{"results": [{"title": "T", "url": "https://a.example/", "content": "c"}]}"#,
    );
    let mut haft = room.haft(["call", "WebSearch", r#"{"query": "rust"}"#, "--allow", "WebSearch"]);
    haft.env(PATH, std::env::var_os(PATH).unwrap()).env("SEARXNG_URL", format!("http://127.0.0.1:{port}"));
    let ran = room.run(haft, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("1. T\n   https://a.example/\n   c\n"), "{ran:?}");

    let settings = json!({"web": {"search": "brave", "braveApiKey": "sk-very-secret", "searxngUrl": "http://x.example"}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    assert!(names(&room).contains("\"WebSearch\""));
    let shown = room.say(&["settings", "show"]);
    assert!(shown.stdout.contains("web.braveApiKey") && !shown.stdout.contains("secret"), "{shown:?}");
    room.write("home/.config/haft/settings.json", r#"{"web": {"search": "tavily"}}"#);
    let missing = room.say(&["tools"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("set TAVILY_API_KEY"), "{missing:?}");
}

#[test]
fn a_small_model_answers_a_prompt() {
    let room = with_script(r#"{"turns": [{"text": "It says hello."}]}"#);
    let served = Served::start(&room);
    let port = server("text/plain", "hello, and more that nobody asked for");
    let mut settings = json!({
        "sandbox": {"network": {"allowedDomains": [format!("localhost:{port}")]}},
        "web": {"answers": {"provider": "anthropic", "model": "small"}},
        "run": {"anthropic": {"baseUrl": served.base_url("anthropic")}}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let input = json!({"url": format!("http://localhost:{port}/"), "prompt": "What does it say?"});
    let ran = fetch(&room, input.clone(), &["--allow", "WebFetch"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\nIt says hello.\n") && !ran.stdout.contains("nobody asked for"), "{ran:?}");
    settings["run"] = json!({});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let without = fetch(&room, input, &["--allow", "WebFetch"]);
    assert!(without.stdout.contains("there is no key for `anthropic`"), "{without:?}");
    assert!(without.stdout.contains("nobody asked for"), "{without:?}");
}

#[test]
fn a_provider_searches_by_itself_where_settings_say_so() {
    let room = Room::new();
    let last = |room: &Room, more: &[&str]| {
        let seen = seen(room, |url| asking(room, url, more));
        let tools = seen.body["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool["type"] == "web_search_20250305" && tool["name"] == "web_search")
    };
    assert!(!last(&room, &[]));
    room.write("home/.config/haft/settings.json", r#"{"web": {"search": "provider"}}"#);
    assert!(last(&room, &[]));
    assert!(!last(&room, &["--deny", "WebSearch"]), "a rule against searching holds there too");
}
