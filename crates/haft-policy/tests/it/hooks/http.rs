//! HTTP hooks, with a server in this process.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::Scene;

/// Starts a server that sends these answers, one for each connection, and reports the requests.
fn server(answers: Vec<String>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = tell.send(request(&mut stream));
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, told)
}

/// Reads one request, head and body.
fn request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn hook(url: &str, more: Value) -> Value {
    let mut hook = json!({"type": "http", "url": url});
    for (key, value) in more.as_object().expect("an object") {
        hook[key] = value.clone();
    }
    json!({"PreToolUse": [{"hooks": [hook]}]})
}

#[tokio::test]
async fn what_is_sent_and_what_counts() {
    let scene = Scene::new();
    let deny = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "over there"}});
    let (url, told) = server(vec![reply("200 OK", &deny.to_string())]);
    let headers = json!({
        "headers": {"Authorization": "Bearer $TOKEN", "X-Other": "a${SECRET}b"},
        "allowedEnvVars": ["TOKEN"],
    });
    let session =
        scene.session().with_environment([("TOKEN".into(), "t0".into()), ("SECRET".into(), "hidden".into())]);
    let hooks = scene.try_hooks(&json!({"hooks": hook(&url, headers)}), session).expect("hooks");
    let lines = scene.caller(&hooks).turn([("c1", "Echo", json!({"n": 1}))]).await.lines();
    assert!(lines[0].starts_with("c1 Denied") && lines[0].ends_with(": over there"), "{lines:?}");
    let sent = told.recv().expect("a request");
    let (head, body) = sent.split_once("\r\n\r\n").expect("head and body");
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /hook http/1.1"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("authorization: bearer t0") && head.contains("x-other: ab"), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["tool_name"], &body["tool_input"]), (&json!("Echo"), &json!({"n": 1})));
}

#[tokio::test]
async fn answers() {
    let check = async |answer: String, expected: &str| {
        let (url, _told) = server(vec![answer]);
        let line = Scene::new().echo(hook(&url, json!({})), json!({})).await;
        assert!(line.starts_with(expected), "{line}\nexpected {expected}");
        line
    };
    check(reply("200 OK", ""), "1 ok").await;
    check(reply("204 No Content", ""), "1 ok").await;
    check(reply("200 OK", "fine"), "1 ok").await;
    check(reply("200 OK", r#"{"decision":"block","reason":"r"}"#), "1 Denied").await;
    // A gate fails closed.
    let line = check(reply("500 Internal Server Error", ""), "1 HookFailed").await;
    assert!(line.contains("its address answered 500"), "{line}");
    check(reply("200 OK", "{rubbish"), "1 HookFailed").await;
    check(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".into(),
        "1 HookFailed",
    )
    .await;
    check("rubbish\r\n\r\n".into(), "1 HookFailed").await;
    let long = format!("{{{}", " ".repeat(2_000_000));
    let line = check(reply("200 OK", &long), "1 HookFailed").await;
    assert!(line.contains("more than 1048576 bytes"), "{line}");
}

#[tokio::test]
async fn an_address_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let line = Scene::new().echo(hook(&url, json!({"timeout": 0.3})), json!({})).await;
    assert!(
        line.starts_with("1 HookFailed") && line.contains("its address took longer than 0.3 s"),
        "{line}"
    );
    drop(silent);
    let line = Scene::new().echo(hook(&url, json!({"timeout": 20})), json!({})).await;
    assert!(line.starts_with("1 HookFailed") && line.contains("its address could not be asked"), "{line}");
    let line = Scene::new().echo(hook(&url, json!({"onFailure": "continue"})), json!({})).await;
    assert_eq!(line, "1 ok: {}");
}

#[tokio::test]
async fn only_allowed_addresses_are_asked() {
    let check = async |url: &str, allowed: Value, expected: &str| {
        let scene = Scene::new();
        let settings = json!({"hooks": hook(url, json!({})), "allowedHttpHookUrls": allowed});
        let hooks = scene.try_hooks(&settings, scene.session()).expect("hooks");
        let line = scene.caller(&hooks).turn([("1", "Echo", json!({}))]).await.lines().remove(0);
        assert!(line.contains(expected), "{line}\nexpected {expected}");
    };
    let (url, _told) = server(vec![reply("200 OK", ""), reply("200 OK", "")]);
    check(&url, json!(["http://127.0.0.1:*/*"]), "1 ok").await;
    check(&url, json!(["https://hooks.example.com/*"]), "its address is not among `allowedHttpHookUrls`")
        .await;
    check(&url, json!([]), "its address is not among `allowedHttpHookUrls`").await;
    check("ftp://127.0.0.1/", json!(["*://*/*"]), "`http:` and `https:` are accepted").await;
    check("http://a:b@127.0.0.1/", json!(["*://*/*"]), "it has a user name".trim_start_matches("it has "))
        .await;
}
