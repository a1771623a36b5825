//! `haft serve` with servers behind it: when their tools are there, and what of theirs is shown to whom.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::mcp::faulty;
use crate::room::{Room, until};
use crate::serve::*;

/// A server that begins to answer once a file is there.
fn late(room: &Room) {
    let server = faulty(room, "");
    let args: Vec<String> =
        server["args"].as_array().unwrap().iter().map(|arg| format!("'{}'", arg.as_str().unwrap())).collect();
    let waits = format!("while [ ! -e go ]; do :; done; exec python3 {}", args.join(" "));
    room.write(
        "servers.json",
        &json!({"mcpServers": {"f": {"command": "sh", "args": ["-c", waits]}}}).to_string(),
    );
}

#[test]
fn servers_come_later_and_clients_are_told() {
    let room = Room::new();
    late(&room);
    let flags = ["--mcp-config", "../servers.json", "--allow", "mcp__f", "--server-wait", "0"];
    let mut client = Stdio1::new(&room, &flags);
    assert!(!client.tools().iter().any(|name| name.starts_with("mcp__f__")), "nothing waits for a server");
    room.write("work/go", "");
    until("the tools are there", || {
        client.hear("notifications/tools/list_changed");
        client.tools().iter().any(|name| name == "mcp__f__echo")
    });
    assert_eq!(client.call("mcp__f__echo", json!({"text": "hi"})), ("hi".to_owned(), false));
    assert_eq!(client.leave(), Some(0));
}

/// What a post of the older revisions is answered with, head and all.
fn post(served: &Http, session: &str, method: &str, params: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let (address, token) = (served.address(), served.token.as_deref().unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{session}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Clients are told one after the other; what one of them sees, none of the others may lack afterwards.
#[test]
fn what_one_client_is_offered_all_are() {
    let room = Room::new();
    late(&room);
    let served =
        Http::start(&room, &["--mcp-config", "../servers.json", "--allow", "mcp__f", "--server-wait", "0"]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let sessions: Vec<String> = (0..16)
        .map(|_| {
            let greeted = post(&served, "", "initialize", &hello);
            let id = greeted.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
            format!("{}\r\n", id.unwrap_or_else(|| panic!("{greeted}")))
        })
        .collect();
    let has = |session: &String| post(&served, session, "tools/list", &json!({})).contains("mcp__f__echo");
    assert!(!sessions.iter().any(has), "it is not there yet");
    room.write("work/go", "");
    until("the tools are there", || has(&sessions[0]));
    let missing = sessions.iter().rev().filter(|session| !has(session)).count();
    assert_eq!(missing, 0);
}

/// Clients keep their servers in files that `haft` reads as well.
#[test]
fn one_that_is_a_server_of_itself_starts_once() {
    let room = Room::new();
    let again = format!(
        "#!/bin/sh\necho start >> {}\nexec {} serve --stdio --mcp-config {}\n",
        room.path("work/starts").display(),
        env!("CARGO_BIN_EXE_haft"),
        room.path("servers.json").display(),
    );
    room.write("again.sh", &again);
    room.write(
        "servers.json",
        &json!({"mcpServers": {"me": {"command": room.path("again.sh")}}}).to_string(),
    );
    let mut client = Stdio1::new(&room, &["--mcp-config", "../servers.json"]);
    until("the tools are there", || {
        client.hear("notifications/tools/list_changed");
        client.tools().iter().any(|name| name == "mcp__me__Read")
    });
    assert!(!client.tools().iter().any(|name| name.contains("mcp__me__mcp")), "it has no servers of its own");
    assert_eq!(client.leave(), Some(0));
    assert_eq!(fs::read_to_string(room.path("work/starts")).unwrap(), "start\n");
}

/// A client that asks once sees the tools of servers that come in time, and one that knows a name may use it
/// before.
#[test]
fn who_asks_before_a_server_is_there_waits_for_it() {
    let room = Room::new();
    late(&room);
    let flags = ["--mcp-config", "../servers.json", "--allow", "mcp__f", "--server-wait"];
    let mut hasty = Stdio1::new(&room, &[&flags[..], &["0"]].concat());
    let id = hasty.begin("tools/call", json!({"name": "mcp__f__echo", "arguments": {"text": "hi"}}));
    let other = hasty.request("tools/call", json!({"name": "mcp__g__echo", "arguments": {}}));
    assert!(other["error"]["message"].as_str().unwrap().contains("mcp__g__echo"), "{other}");
    let mut client = Stdio1::new(&room, &[&flags[..], &["60"]].concat());
    let listing = client.begin("tools/list", json!({}));
    // What needs no server waits for none.
    assert!(client.call("Read", json!({"file_path": "notes.txt"})).0.contains("one"));
    room.write("work/go", "");
    let listed = loop {
        match client.heard.iter().position(|message| message["id"] == listing) {
            Some(at) => break client.heard.remove(at),
            None => {
                let message = client.receive().expect("an answer");
                client.heard.push(message);
            }
        }
    };
    assert!(names(&listed).contains(&"mcp__f__echo".to_owned()), "{listed}");
    let answer = hasty.answer(id);
    assert_eq!(outcome(&answer), ("hi".to_owned(), false));
}

/// Resources and prompts pass the same rules as tools, and hide nothing.
#[test]
fn resources_and_prompts_are_asked_for_and_shown_for_what_they_are() {
    let room = Room::new();
    let server = faulty(&room, "shelf");
    room.write("servers.json", &json!({"mcpServers": {"f": server}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60"];
    let mut client = Stdio1::with(&room, &flags, &json!({}));
    let listed = client.request("resources/list", json!({}));
    let note = json!([{"uri": "note:///a", "name": "n\\u{202e}a", "title": "\\u{1b}[31m"}]);
    assert_eq!(listed["result"]["resources"], note, "{listed}");
    let prompts = client.request("prompts/list", json!({}));
    let prompt = json!([{"name": "f__p\\u{202e}1", "title": "t\\u{200b}", "description": "d\\u{7}"}]);
    assert_eq!(prompts["result"]["prompts"], prompt, "{prompts}");
    for (method, params) in
        [("resources/read", json!({"uri": "note:///a"})), ("prompts/get", json!({"name": "f__p\\u{202e}1"}))]
    {
        let refused = client.request(method, params.clone());
        let words = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(words.contains("(server:f)"), "{refused}");
        let mut allowed = Stdio1::with(&room, &[&flags[..], &["--allow", "mcp__f"]].concat(), &json!({}));
        let passed = allowed.request(method, params);
        assert!(passed["result"].is_object(), "{passed}");
    }
    let counts = fs::read_to_string(room.path("work/counts")).unwrap();
    assert_eq!(counts.matches("read note:///a").count(), 1, "{counts}");
    assert_eq!(counts.matches("prompt 'p\\u202e1'").count(), 1, "{counts}");
}

#[test]
fn resources_are_not_listed_where_none_can_be_read() {
    let room = Room::new();
    let server = faulty(&room, "shelf");
    room.write("servers.json", &json!({"mcpServers": {"f": server}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60", "--deny"];
    let mut client = Stdio1::new(&room, &[&flags[..], &["ReadMcpResource"]].concat());
    let listed = |client: &mut Stdio1, method: &str, key: &str| {
        let listed = client.request(method, json!({}));
        listed["result"][key].as_array().unwrap_or_else(|| panic!("{listed}")).len()
    };
    assert_eq!(listed(&mut client, "resources/list", "resources"), 0);
    assert_eq!(listed(&mut client, "prompts/list", "prompts"), 1, "prompts are another matter");
    let mut client = Stdio1::new(&room, &[&flags[..], &["GetMcpPrompt"]].concat());
    assert_eq!(listed(&mut client, "prompts/list", "prompts"), 0);
    assert_eq!(listed(&mut client, "resources/list", "resources"), 1);
}

#[test]
fn a_page_of_a_server_is_shown_as_a_page() {
    let room = Room::new();
    let server = faulty(&room, "");
    room.write("servers.json", &json!({"mcpServers": {"f": server}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60", "--allow", "mcp__f"];
    for (can, mode) in [(json!({"form": {}, "url": {}}), "url"), (json!({"form": {}}), "form")] {
        let mut client = Stdio1::with(&room, &flags, &json!({ "elicitation": can }));
        client.answers = vec![json!({"action": "accept", "content": {"answer": "I have opened it"}})];
        assert_eq!(client.call("mcp__f__page", json!({})), (r#"{"action": "accept"}"#.to_owned(), false));
        let asked = &client.asked[0];
        assert_eq!(asked["mode"].as_str().unwrap_or("form"), mode, "{asked}");
        assert!(
            asked["message"].as_str().unwrap().contains("The server `f` asks you to open a page"),
            "{asked}"
        );
        if mode == "url" {
            assert_eq!(asked["url"], "https://page.example/a");
        }
    }
}

#[test]
fn a_form_of_a_server_keeps_the_order_of_its_fields() {
    let room = Room::new();
    let server = faulty(&room, "");
    room.write("servers.json", &json!({"mcpServers": {"f": server}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60", "--allow", "mcp__f"];
    let mut client = Stdio1::with(&room, &flags, &json!({"elicitation": {}}));
    client.answers = vec![json!({"action": "accept", "content": {"city": "Rome"}})];
    let (said, _) = client.call("mcp__f__fields", json!({}));
    assert!(said.contains("Rome"), "{said}");
    let text = &client.asked_as[0];
    let at = |name: &str| text.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{text}"));
    assert!(at("street") < at("number") && at("number") < at("city"), "{text}");
}

#[test]
fn results_of_others_behind_it_are_listed_to_nobody() {
    let room = Room::new();
    let program = json!({"command": env!("CARGO_BIN_EXE_haft"),
        "args": ["serve", "--stdio", "--allow", "Bash", "--no-sandbox", "--cwd", room.path("work")]});
    room.write("servers.json", &json!({"mcpServers": {"me": program}}).to_string());
    let flags = ["--mcp-config", "../servers.json", "--server-wait", "60", "--allow", "mcp__me"];
    let mut client = Stdio1::new(&room, &flags);
    let made = client
        .request("tools/call", json!({"name": "mcp__me__Bash", "arguments": {"command": "seq 1 100000"}}));
    let blocks = made["result"]["content"].as_array().unwrap_or_else(|| panic!("{made}"));
    let link = blocks.iter().find(|block| block["type"] == "resource_link");
    let uri = link.unwrap_or_else(|| panic!("{made}"))["uri"].clone();
    let listed = client.request("resources/list", json!({}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    assert!(!resources.iter().any(|resource| resource["uri"] == uri), "{listed}");
    let read = client.request("resources/read", json!({ "uri": uri }));
    assert!(
        read["result"]["contents"][0]["text"].as_str().unwrap_or_default().contains("\n99999\n"),
        "{read}"
    );
}

#[test]
fn what_a_client_did_is_in_the_log() {
    let room = Room::new();
    let served = Http::start(&room, &["--allow", "Write", "--deny", "Read(notes.txt)", "--no-sandbox"]);
    let token = served.token.clone().unwrap();
    assert!(!outcome(&served.call(&token, "Write", write_new())).1);
    assert!(outcome(&served.call(&token, "Read", json!({"file_path": "notes.txt"}))).1);
    let listed: Value =
        serde_json::from_str(&room.say(&["sessions", "list", "--output", "json"]).stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let log = room.say(&["log", "--calls"]).stdout;
    assert!(log.contains("ok      Write") && log.contains("Read(notes.txt)"), "{log}");
}
