//! MCP servers in the program: where they come from, what every command makes of them, and that nothing is
//! left of them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::json::valid_in;
use crate::room::{PATH, Ran, Room, crate_path, lives, until};
use crate::run::{object, play};
use crate::run_http::Served;

/// The entry of the server that misbehaves when told to, with faults of its connection; it counts in
/// `work/counts`.
pub(crate) fn faulty(room: &Room, faults: &str) -> Value {
    // In the workspace, where the sandbox shows it.
    let script = room.path("work/peer.py");
    fs::copy(crate_path("../haft-mcp/tests/peers/faulty.py"), &script).unwrap();
    json!({"command": "python3", "args": ["-u", script, faults], "env": {"COUNTS": room.path("work/counts")}})
}

/// A room with a file of servers beside its workspace.
fn with_servers(servers: &[(&str, Value)]) -> Room {
    let room = Room::new();
    write_servers(&room, "servers.json", servers);
    room
}

fn write_servers(room: &Room, file: &str, servers: &[(&str, Value)]) {
    let servers: serde_json::Map<String, Value> =
        servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
    room.write(file, &json!({"mcpServers": servers}).to_string());
}

fn one(faults: &str) -> Room {
    let room = Room::new();
    let server = faulty(&room, faults);
    write_servers(&room, "servers.json", &[("f", server)]);
    room
}

/// With the servers of the file beside the workspace.
fn say(room: &Room, args: &[&str]) -> Ran {
    room.say(&[args, &["--mcp-config", "../servers.json"]].concat())
}

fn counted(room: &Room, what: &str) -> usize {
    let text = fs::read_to_string(room.path("work/counts")).unwrap_or_default();
    text.lines().filter(|line| *line == what).count()
}

const ECHO: [&str; 3] = ["call", "mcp__f__echo", r#"{"text": "hi"}"#];

#[test]
fn every_command_has_the_tools_of_servers() {
    let room = one("");
    let listed = say(&room, &["tools", "--all"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(
        listed.stdout.contains("\nf          ") && listed.stdout.contains("mcp__f__echo !"),
        "{listed:?}"
    );
    assert!(listed.stdout.contains("(mcp, 2025-11-25, "), "{listed:?}");
    let left_out = "warning: the MCP server `f`: its tool `no_schema` is left out: it has no input schema\n";
    assert!(listed.stderr.contains(left_out), "{listed:?}");

    let denied = say(&room, &ECHO);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.stderr.contains("to allow it: --allow mcp__f__echo"), "{denied:?}");
    let called = say(&room, &[&ECHO[..], &["--allow", "mcp__f"]].concat());
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hi\n"), "{called:?}");

    let message = json!([{"type": "tool_use", "id": "a", "name": "mcp__f__echo", "input": {"text": "ho"}},
        {"type": "tool_use", "id": "b", "name": "mcp__f__failed", "input": {}}]);
    room.write("work/message.json", &message.to_string());
    let answered = say(&room, &["dispatch", "message.json", "--allow", "mcp__f"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    let answer: Value = serde_json::from_str(&answered.stdout).unwrap();
    assert_eq!(answer["content"][0]["content"], "ho", "{answer}");
    assert_eq!(answer["content"][1]["is_error"], true, "{answer}");

    // Rules alone are asked, and nothing is started for it.
    let starts = counted(&room, "start");
    for (flags, code) in
        [(&[][..], 10), (&["--allow", "mcp__f"][..], 0), (&["--deny", "mcp__f__echo"][..], 11)]
    {
        let checked = say(&room, &[&["check", "mcp__f__echo", "{}"], flags].concat());
        assert_eq!(checked.code, Some(code), "{checked:?}");
    }
    assert_eq!(counted(&room, "start"), starts);
}

#[test]
fn who_needs_no_server_starts_none() {
    let room = one("");
    let read = say(&room, &["call", "Read", r#"{"file_path": "notes.txt", "limit": 1}"#]);
    assert!(
        read.code == Some(0) && read.stdout.starts_with("1\tone\n") && read.stderr.is_empty(),
        "{read:?}"
    );
    let settings = say(&room, &["settings", "show"]);
    assert!(settings.stdout.contains("mcpServers.f"), "{settings:?}");
    assert_eq!(counted(&room, "start"), 0);
    let named = say(&room, &["call", "mcp__f__nothing"]);
    assert!(named.code == Some(1) && named.stderr.contains("no tool named `mcp__f__nothing`"), "{named:?}");
    assert_eq!(counted(&room, "start"), 1);
}

#[test]
fn a_server_that_fails_is_named_and_harms_nobody() {
    let room = with_servers(&[
        ("gone", json!({"command": "no-such-program"})),
        (
            "web",
            json!({"type": "http",
        "url": "http://127.0.0.1:9/mcp"}),
        ),
    ]);
    let good = faulty(&room, "");
    let more = json!({"mcpServers": {"f": good, "dies": {"command": "sh", "args": ["-c", "echo it hurts >&2; exit 3"]}}});
    room.write("more.json", &more.to_string());
    let ran = say(&room, &["tools", "--all", "--mcp-config", "../more.json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for name in ["gone", "web", "dies"] {
        let words = format!("warning: the MCP server `{name}` can't be used: ");
        assert_eq!(ran.stderr.matches(&words).count(), 1, "{name}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("ended with code 3; its last words: it hurts"), "{ran:?}");
    assert!(ran.stdout.contains("mcp__f__echo"), "{ran:?}");
}

#[test]
fn a_server_that_says_nothing_is_given_up_at_the_limit() {
    let room = one("silent");
    room.write("home/.config/haft/settings.json", r#"{"mcp": {"connectTimeoutMs": 700}}"#);
    let ran = say(&room, &["tools", "--format", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr, "warning: the MCP server `f` can't be used: it took longer than 0.7 s\n");
}

#[test]
fn variables_are_put_in_and_missing_ones_are_said() {
    let room = Room::new();
    let mut server = faulty(&room, "");
    server["command"] = json!("${SNAKE:-python3}");
    server["env"] = json!({"TOKEN": "${NOWHERE}"});
    write_servers(&room, "servers.json", &[("f", server)]);
    let ran = say(&room, &[&ECHO[..], &["--allow", "mcp__f"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi\n"), "{ran:?}");
    let words = "the server `f` names `${NOWHERE}`, which is not set; it stays as it is written\n";
    assert!(ran.stderr.starts_with("warning: ") && ran.stderr.ends_with(words), "{ran:?}");
}

#[test]
fn lists_of_settings_rule_servers_out() {
    let room = one("");
    let warned = say(&room, &["tools", "--settings", r#"{"deniedMcpServers": [{"serverName": "f"}]}"#]);
    assert!(warned.stderr.contains("the server `f` is not used: denied by"), "{warned:?}");
    let listed = say(&room, &["mcp", "list", "--settings", r#"{"allowedMcpServers": []}"#]);
    assert!(listed.stdout.starts_with("– f   not used"), "{listed:?}");
    assert_eq!(counted(&room, "start"), 0);
}

/// What came with the workspace: trusted, then approved, then approved again once it changed.
#[test]
fn a_server_of_the_workspace_needs_a_yes_to_what_it_runs_and_offers() {
    let room = Room::new();
    let server = faulty(&room, "");
    write_servers(&room, "work/.mcp.json", &[("f", server)]);
    let echo = || room.say(&[&ECHO[..], &["--allow", "mcp__f"]].concat());

    let untrusted = room.say(&["tools"]);
    assert!(
        untrusted.stderr.contains("not trusted") && !untrusted.stdout.contains("mcp__f"),
        "{untrusted:?}"
    );
    let refused = room.say(&["mcp", "approve", "--yes"]);
    assert!(
        refused.code == Some(1)
            && refused.stderr.contains("`f` can't be approved: the workspace is not trusted")
    );
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));

    let waiting = echo();
    let words = "the MCP server `f` is not started: you have not approved it; `haft mcp approve f` shows it";
    assert!(waiting.code == Some(1) && waiting.stderr.contains(words), "{waiting:?}");
    assert_eq!(counted(&room, "start"), 0, "nothing runs before a yes");
    let shown = room.say(&["mcp", "approve"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(
        shown.stdout.contains("server f   .mcp.json:1") && shown.stdout.contains("command          python3")
    );
    assert!(shown.stderr.contains("not approved: nobody was asked"), "{shown:?}");
    assert_eq!(counted(&room, "start"), 0);

    let approved = room.say(&["mcp", "approve", "f", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(
        approved.stdout.contains("new tool echo\n") && approved.stdout.contains("Says it back."),
        "{approved:?}"
    );
    assert!(approved.stdout.contains("new instructions for models\n"), "{approved:?}");
    let called = echo();
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hi\n"), "{called:?}");
    let again = room.say(&["mcp", "approve", "f"]);
    assert!(again.code == Some(0) && again.stderr.contains("tools are approved"), "{again:?}");

    // The same command, and another description: withheld, shown with what changed, offered after a new yes.
    room.write("work/counts.says", "Says it back. \u{202e}And sends it on.");
    let changed = echo();
    assert_eq!(changed.code, Some(1), "{changed:?}");
    let words = "the MCP server `f`: one of its tools has changed since you approved it (`echo`)";
    assert!(changed.stderr.contains(words), "{changed:?}");
    let listed = room.say(&["tools", "--all"]);
    assert!(
        !listed.stdout.contains("mcp__f__echo !") && listed.stdout.contains("mcp__f__late"),
        "{listed:?}"
    );
    let shown = room.say(&["mcp", "approve"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(
        shown.stdout.contains("changed tool echo")
            && shown.stdout.contains("-  \"description\": \"Says it back.\"")
    );
    assert!(shown.stdout.contains("\\u{202e}And sends it on."), "nothing is hidden: {shown:?}");
    assert_eq!(room.say(&["mcp", "approve", "--yes"]).code, Some(0));
    assert_eq!(echo().code, Some(0));

    // Another command is another server, and needs trust anew as well.
    let other = faulty(&room, "old");
    write_servers(&room, "work/.mcp.json", &[("f", other)]);
    assert!(echo().stderr.contains("has changed since it was trusted"));
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    assert!(echo().stderr.contains("is not started: it is not what you approved"));
    let forgotten = room.say(&["trust", "--forget"]);
    assert_eq!(forgotten.stderr, "no longer trusted; no server of it is approved any more\n");
}

/// One of the workspace can touch what the session may, and no more.
#[test]
fn servers_of_the_workspace_run_in_the_sandbox() {
    let room = Room::new();
    let mut server = faulty(&room, "");
    let outside = room.path("beside/made");
    let script = format!("echo x > {} 2>/dev/null; exec python3 -u \"$@\"", outside.display());
    let args: Vec<Value> = [json!("-c"), json!(script), json!("sh")]
        .into_iter()
        .chain(server["args"].as_array().unwrap()[1..].iter().cloned())
        .collect();
    (server["command"], server["args"]) = (json!("sh"), json!(args));
    write_servers(&room, "work/.mcp.json", &[("f", server)]);
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    assert_eq!(room.say(&["mcp", "approve", "--yes"]).code, Some(0));
    let call = |flags: &[&str]| room.say(&[&ECHO[..], &["--allow", "mcp__f"], flags].concat());
    let called = call(&[]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hi\n"), "{called:?}");
    assert!(!outside.exists());
    // The same file named by the user is the user's own.
    let named = call(&["--mcp-config", ".mcp.json"]);
    assert_eq!(named.code, Some(0), "{named:?}");
    assert!(outside.exists());
    // And runs in the sandbox all the same where the user says so.
    fs::remove_file(&outside).unwrap();
    room.write("home/.config/haft/settings.json", r#"{"mcp": {"servers": {"f": {"sandbox": true}}}}"#);
    let confined = call(&["--mcp-config", ".mcp.json"]);
    assert_eq!((confined.code, confined.stdout.as_str()), (Some(0), "hi\n"), "{confined:?}");
    assert!(!outside.exists());
}

#[test]
fn servers_are_added_shown_and_removed() {
    let room = Room::new();
    let args = faulty(&room, "")["args"].clone();
    let args: Vec<&str> = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let added = room.say(&[&["mcp", "add", "f", "--env", "A=b=c", "--", "python3"], &args[..]].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.stderr.starts_with("added `f` to ~/.config/haft/mcp.json (for you, in this workspace)\n"));
    let called = room.say(&[&ECHO[..], &["--allow", "mcp__f"]].concat());
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hi\n"), "no trust is needed for one's own");
    let twice = room.say(&["mcp", "add", "f", "x"]);
    assert!(twice.code == Some(2) && twice.stderr.contains("names `f` already"), "{twice:?}");

    let listed = valid_in_path(&room, "mcp-list.schema.json", &["mcp", "list", "--output", "json"]);
    assert_eq!(listed[0]["name"], "f");
    assert_eq!((&listed[0]["state"], &listed[0]["scope"]), (&json!("ready"), &json!("local")));
    assert_eq!(listed[0]["revision"], "2025-11-25");
    assert!(listed[0]["tools"].as_u64().unwrap() > 20 && listed[0]["latency_ms"].is_number(), "{listed}");
    let shown = valid_in_path(&room, "mcp-get.schema.json", &["mcp", "get", "f", "--output", "json"]);
    assert_eq!(shown["names"], json!(["A"]));
    assert_eq!(shown["instructions"], "Be\\u{200b} kind.");
    assert!(shown["offered"].as_array().unwrap().iter().any(|tool| tool["wire_name"] == "mcp__f__echo"));
    let text = room.say(&["mcp", "get", "f"]).stdout;
    assert!(
        text.contains("variables      A") && text.contains("outside of the sandbox") && !text.contains("b=c"),
        "{text}"
    );

    // Beside others, in files that people write.
    room.write("work/.mcp.json", "{\n  // ours\n  \"mcpServers\": {}\n}\n");
    let header = "Authorization: Bearer ${T}";
    let web = ["mcp", "add", "-t", "http", "-s", "project", "web", "https://x.example/mcp", "-H", header];
    assert_eq!(room.say(&web).code, Some(0));
    let file = fs::read_to_string(room.path("work/.mcp.json")).unwrap();
    assert!(
        file.starts_with("{\n  // ours\n") && file.contains("\"Authorization\": \"Bearer ${T}\""),
        "{file}"
    );
    let json = room.say(&["mcp", "add-json", "u", r#"{"command": "x", "args": []}"#, "--scope", "user"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    for (args, words) in [
        (&["mcp", "add", "a b", "x"][..], "a name is made of letters"),
        (&["mcp", "add", "workspace", "x"], "this name is reserved"),
        (&["mcp", "add", "x", "-t", "sse", "nowhere"], "is no address"),
        (&["mcp", "add", "x", "localhost:7191/mcp"], "write `http://localhost:7191/mcp` for an address"),
        (&["mcp", "add", "x", "docs.example.com/mcp"], "looks like an address"),
        (&["mcp", "add", "x", "y", "--env", "novalue"], "--env takes NAME=VALUE"),
        (&["mcp", "add", "x", "-t", "http", "https://x", "--env", "A=b"], "an address has no environment"),
        (&["mcp", "add-json", "x", "{}"], "the key `command` is missing"),
        (&["mcp", "remove", "nobody"], "names a server `nobody`"),
        (&["mcp", "get", "nobody"], "no MCP server named `nobody`; there are `f`, `u`, `web`"),
        (&["mcp", "call", "nobody", "x"], "no MCP server named `nobody`"),
        (&["mcp", "logs", "../nobody"], "no MCP server named `../nobody`"),
    ] {
        let ran = room.say(args);
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
    assert_eq!(room.say(&["mcp", "remove", "f"]).code, Some(0));
    assert_eq!(room.say(&["mcp", "remove", "web", "--scope", "project"]).code, Some(0));
    assert_eq!(room.say(&["mcp", "remove", "u"]).code, Some(0));
    assert!(room.say(&["mcp", "list"]).stderr.starts_with("no MCP server is configured here"));
    assert!(fs::read_to_string(room.path("work/.mcp.json")).unwrap().contains("// ours"));
}

/// With programs to be found.
fn valid_in_path(room: &Room, schema: &str, args: &[&str]) -> Value {
    let ran = room.say(args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let schema = crate::run::schema(schema);
    let problems: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{value}");
    value
}

#[test]
fn an_empty_list_is_a_list() {
    let listed = valid_in(&Room::new(), "mcp-list.schema.json", &["mcp", "list", "--output", "json"], 0);
    assert_eq!(listed, json!([]));
}

#[test]
fn what_a_server_complains_about_is_kept_for_others_to_see() {
    let room = one("");
    let died = say(&room, &["mcp", "call", "f", "die_before", "--allow", "mcp__f"]);
    assert!(died.code == Some(1) && died.stderr.contains("its last words: it hurts"), "{died:?}");
    let logs = say(&room, &["mcp", "logs", "f"]);
    assert!(logs.code == Some(0) && logs.stdout.ends_with("it hurts\n"), "{logs:?}");
}

/// Whatever ends the program ends its servers and what they started.
#[test]
fn nothing_is_left_of_a_server() {
    // What a server starts is in its group, or leaves it and everything else behind.
    for (number, away) in ["", "setsid "].into_iter().enumerate() {
        nothing_is_left_of_what(number, away);
    }
}

fn nothing_is_left_of_what(number: usize, away: &str) {
    let room = Room::new();
    let mark = format!("{}.{}{}", 1_000, number + 1, std::process::id());
    let args = faulty(&room, "")["args"].clone();
    let script = format!("{away}sleep {mark} & exec python3 -u \"$@\"");
    let args: Vec<Value> = [json!("-c"), json!(script), json!("sh")]
        .into_iter()
        .chain(args.as_array().unwrap()[1..].iter().cloned())
        .collect();
    let env = json!({"COUNTS": room.path("work/counts")});
    write_servers(&room, "servers.json", &[("f", json!({"command": "sh", "args": args, "env": env}))]);
    let called = say(&room, &[&ECHO[..], &["--allow", "mcp__f"]].concat());
    assert_eq!(called.stdout, "hi\n", "{called:?}");
    until("the server's own processes are gone", || !lives(&mark));
    let listed = say(&room, &["mcp", "list"]);
    assert!(listed.stdout.starts_with("✓ f"), "{listed:?}");
    until("the server's own processes are gone", || !lives(&mark));
    for signal in ["INT", "TERM", "KILL"] {
        let args = ["call", "mcp__f__never", "--allow", "mcp__f", "--mcp-config", "../servers.json"];
        let mut command = room.haft(args);
        let mut child = command.env(PATH, std::env::var_os(PATH).unwrap()).spawn().unwrap();
        let starts = counted(&room, "start");
        until("the server runs", || lives(&mark) && counted(&room, "start") >= starts.max(1));
        for _ in 0..3 {
            let _ = std::process::Command::new("kill")
                .args([format!("-{signal}"), child.id().to_string()])
                .stderr(std::process::Stdio::null())
                .status();
        }
        let code = child.wait().unwrap().code();
        assert_eq!(code, (signal != "KILL").then_some(130), "{signal}");
        until("all is gone", || !lives(&mark));
    }
}

fn run(room: &Room, script: &Value, more: &[&str]) -> (Value, String) {
    room.write("script.json", &script.to_string());
    let args = ["go", "--output", "json", "--allow", "mcp__f", "--mcp-config", "../servers.json"];
    let ran = play(room, &[&args[..], more].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    (object(&ran), ran.stderr)
}

fn call(name: &str, input: Value) -> Value {
    json!({"tool_calls": [{"name": name, "input": input}]})
}

/// A run waits for nobody; the model does, if it wants to.
#[test]
fn a_run_has_the_tools_once_they_are_there() {
    let room = one("");
    let script = json!({"turns": [call("WaitForMcpServers", json!({})), call("mcp__f__echo", json!({"text": "hi"})),
        call("mcp__f__change_list", json!({})), call("mcp__f__late", json!({})), call("mcp__f__new_one", json!({})),
        call("mcp__f__die_before", json!({})), call("mcp__f__echo", json!({"text": "again"})), {"text": "Done."}]});
    let (found, said) = run(&room, &script, &[]);
    let results: Vec<&Value> =
        found["calls"].as_array().unwrap().iter().map(|call| &call["result"]).collect();
    assert!(results[0].as_str().unwrap().starts_with("`f` is there, with "), "{found}");
    assert_eq!((results[1], results[6]), (&json!("hi"), &json!("again")), "{found}");
    assert!(
        found["calls"][4]["error"]["message"].as_str().unwrap().contains("unknown tool"),
        "the new tool is there: {found}"
    );
    assert!(
        found["calls"][5]["error"]["message"].as_str().unwrap().contains("went away during the call"),
        "{found}"
    );
    assert!(said.contains("warning: the MCP server `f` went away: "), "{said}");
    assert_eq!(counted(&room, "start"), 2, "one that died is started again for the next call");
}

/// What a model is sent beside the user's words: read off the wire.
#[test]
fn a_model_hears_what_servers_have_to_say() {
    let room = one("watched");
    let read = json!({"server": "f", "uri": "note:///a"});
    let script = json!({"turns": [call("WaitForMcpServers", json!({})), call("ReadMcpResource", read),
        call("mcp__f__late", json!({})), call("mcp__f__touch", json!({})), call("mcp__f__late", json!({})),
        {"text": "Done."}]});
    room.write("script.json", &script.to_string());
    let served = Served::start(&room);
    let (url, sent) = recorded(served.base_url("anthropic"));
    let args =
        ["run", "go", "--provider", "anthropic", "--base-url", &url, "--model", "m", "--allow", "mcp__f"];
    let ran = say(&room, &args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(counted(&room, "subscribed note:///a"), 1, "{ran:?}");
    let sent = sent.lock().unwrap().clone();
    assert!(
        sent[0].contains("These MCP servers are still being connected") && sent[0].contains("`f`"),
        "{}",
        sent[0]
    );
    assert!(sent[1].contains("The MCP server `f` says how to use it:"), "{}", sent[1]);
    let last = sent.last().unwrap();
    let words = "The resource `note:///a` of the MCP server `f` has changed since you read it.";
    assert_eq!(last.matches(words).count(), 1, "{last}");
    assert_eq!(last.matches("says how to use it").count(), 1, "each is said once: {last}");
}

/// Something between the program and its model that keeps what was sent.
fn recorded(to: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, to) = (sent.clone(), to.trim_start_matches("http://").to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {
                let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                length =
                    line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            kept.lock().unwrap().push(String::from_utf8(body.clone()).unwrap());
            // One request for each connection, so that the end of the answer is the end of it.
            let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            let mut there = TcpStream::connect(&to).unwrap();
            there.write_all(head.as_bytes()).and_then(|()| there.write_all(&body)).unwrap();
            let _ = std::io::copy(&mut there, &mut stream);
        }
    });
    (url, sent)
}

#[test]
fn a_long_call_goes_on_in_the_background() {
    let room = one("");
    room.write("home/.config/haft/settings.json", r#"{"mcp": {"backgroundAfterMs": 200}}"#);
    let script = json!({"turns": [call("WaitForMcpServers", json!({})), call("mcp__f__late", json!({})),
        call("TaskOutput", json!({"task_id": "task-1", "block": true})), call("mcp__f__never", json!({})),
        call("TaskStop", json!({"task_id": "task-2"})), call("TaskOutput", json!({})),
        call("TaskOutput", json!({"task_id": "task-2", "block": true})), call("mcp__f__echo", json!({"text": "still there"})), {"text": "Done."}]});
    let (found, _) = run(&room, &script, &[]);
    let text = |at: usize| found["calls"][at]["result"].as_str().unwrap_or_default().to_owned();
    assert!(
        text(1).starts_with("not finished after 0.2 s, so it goes on in the background as task-1"),
        "{found}"
    );
    assert!(text(2).contains("task-1 ended after") && text(2).contains("too late"), "{found}");
    assert!(text(5).contains("mcp__f__never: `never` of `f`") && !text(5).contains("runs since"), "{found}");
    assert!(
        text(6).contains("`never` of `f` was stopped by TaskStop") && !text(6).contains("interrupt"),
        "{found}"
    );
    assert_eq!(counted(&room, "cancelled"), 1, "the server was told before it ended");
}

/// There is nothing behind a single call, or the calls of one message: it would end with the program.
#[test]
fn a_single_call_is_waited_for() {
    let room = one("");
    room.write("home/.config/haft/settings.json", r#"{"mcp": {"backgroundAfterMs": 50}}"#);
    for args in [&["call", "mcp__f__late", "{}"][..], &["mcp", "call", "f", "late", "{}"]] {
        let ran = say(&room, &[args, &["--allow", "mcp__f"]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "too late\n"), "{ran:?}");
    }
}

/// Whoever finds nothing is told who may have it later.
#[test]
fn a_search_names_the_servers_that_are_not_there_yet() {
    let room = Room::new();
    let servers = [("f", faulty(&room, "dozens")), ("slow", faulty(&room, "silent"))];
    write_servers(&room, "servers.json", &servers);
    let search = |query: &str| call("ToolSearch", json!({"query": query}));
    let script = json!({"turns": [call("WaitForMcpServers", json!({"timeout": 6000})), search("a melody"),
        search("+xylophone"), {"text": "Done."}]});
    let (ran, _) = run(&room, &script, &[]);
    assert!(ran["calls"][1]["result"].to_string().contains("mcp__f__flute"), "{ran}");
    let words = ran["calls"][2]["error"]["message"].as_str().unwrap_or_else(|| panic!("{ran}"));
    assert!(
        words.starts_with("no tool fits `+xylophone`")
            && words.contains("still being connected")
            && words.contains("`slow`"),
        "{words}"
    );
    assert!(!words.contains("`f`"), "{words}");
}

/// What is called a secret is shown to nobody but who approves it, wherever it got to.
#[test]
fn keys_in_arguments_are_not_shown() {
    const KEY: &str = "a-key-nobody-sees";
    let args = json!(["-c", "echo \"got $2 $KEY\" >&2; exit 3", "sh", "--token", KEY, "--mode", "fast"]);
    let broken = json!({"command": "sh", "args": args, "env": {"KEY": "another-key-of-it"}});
    let room = with_servers(&[("s", broken)]);
    for (args, code) in [
        (&["mcp", "list"][..], 0),
        (&["mcp", "list", "--output", "json"], 0),
        (&["mcp", "get", "s"], 1),
        (&["mcp", "get", "s", "--output", "json"], 1),
        (&["mcp", "logs", "s"], 0),
        (&["settings", "show"], 0),
    ] {
        let shown = say(&room, args);
        assert_eq!(shown.code, Some(code), "{args:?} {shown:?}");
        let all = format!("{}{}", shown.stdout, shown.stderr);
        assert!(!all.contains(KEY) && !all.contains("another-key-of-it"), "{args:?} {all}");
        if args[1] != "show" && args[1] != "logs" {
            assert!(all.contains("--token …") || all.contains("argument       …"), "{args:?} {all}");
            assert!(all.contains("its process ended with code 3"), "{args:?} {all}");
        }
    }
    let logs = say(&room, &["mcp", "logs", "s"]);
    assert!(logs.stdout.contains("got … …"), "{logs:?}");
}

#[test]
fn many_tools_are_found_by_searching() {
    let room = one("dozens");
    let listed = say(&room, &["tools"]);
    assert!(listed.stdout.contains("71 tools, found by search  (mcp, "), "{listed:?}");
    assert!(listed.stdout.contains("ToolSearch ≡") && listed.stdout.contains(" by ToolSearch"), "{listed:?}");
    let names = |args: &[&str]| -> Vec<String> {
        let rows: Value = serde_json::from_str(&say(&room, args).stdout).unwrap();
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!names(&["tools", "--format", "json"]).iter().any(|name| name.starts_with("mcp__")));
    assert!(names(&["tools", "--format", "json", "--all"]).contains(&"mcp__f__flute".to_owned()));
    assert!(!names(&["tools", "--format", "anthropic"]).contains(&"mcp__f__flute".to_owned()));
    let found = say(&room, &["call", "ToolSearch", r#"{"query": "melody"}"#]);
    assert!(found.stdout.contains("mcp__f__flute"), "{found:?}");

    let script = json!({"turns": [call("WaitForMcpServers", json!({})), call("ToolSearch", json!({"query": "a melody"})),
        call("mcp__f__flute", json!({})), {"text": "Done."}]});
    let (ran, _) = run(&room, &script, &[]);
    assert_eq!(ran["calls"][2]["result"], "la la la", "{ran}");

    room.write("home/.config/haft/settings.json", r#"{"toolSearch": {"enabled": false}}"#);
    let listed = names(&["tools", "--format", "json"]);
    assert!(listed.contains(&"mcp__f__flute".to_owned()) && !listed.contains(&"ToolSearch".to_owned()));
}

#[test]
fn nothing_of_a_server_that_a_rule_denies_is_reached() {
    let room = one("");
    let listed = say(&room, &["tools", "--deny", "mcp__f"]);
    assert!(listed.code == Some(0) && !listed.stdout.contains("mcp__f__"), "{listed:?}");
    let uri = r#"{"server": "f", "uri": "file:///etc/passwd"}"#;
    let read = say(&room, &["call", "ReadMcpResource", uri, "--deny", "mcp__f"]);
    assert_eq!((read.code, read.stdout.as_str()), (Some(1), ""), "{read:?}");
    let rows = say(&room, &["mcp", "list", "--deny", "mcp__f"]);
    assert!(rows.stdout.contains("denied by rule `mcp__f`"), "{rows:?}");
    assert_eq!(counted(&room, "start"), 0, "it is not even started");
}

/// A list that nobody had to wait for would be empty.
#[test]
fn lists_of_all_servers_wait_for_them() {
    let room = one("shelf");
    let listed = say(&room, &["call", "ListMcpResources", "{}"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("note:///a"), "{listed:?}");
    let message = json!([{"type": "tool_use", "id": "a", "name": "ListMcpResources", "input": {}}]);
    room.write("work/message.json", &message.to_string());
    let answered = say(&room, &["dispatch", "message.json"]);
    assert!(answered.stdout.contains("note:///a"), "{answered:?}");
}

/// Resources and prompts of a server are asked for as its tools are, and reached under the names that it gave
/// them.
#[test]
fn resources_are_asked_for_as_tools_are() {
    let room = one("shelf");
    let read = ["call", "ReadMcpResource", r#"{"server": "f", "uri": "note:///a"}"#];
    let denied = say(&room, &read);
    assert_eq!((denied.code, denied.stdout.as_str()), (Some(1), ""), "{denied:?}");
    assert!(denied.stderr.contains("to allow it: --allow 'ReadMcpResource(server:f)'"), "{denied:?}");
    let allowed = say(&room, &[&read[..], &["--allow", "mcp__f"]].concat());
    assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), "[resource note:///a]\na note\n"));
    assert_eq!(counted(&room, "read note:///a"), 1);
    let prompt = json!({"server": "f", "name": "p\u{202e}1"}).to_string();
    assert_eq!(say(&room, &["call", "GetMcpPrompt", &prompt]).code, Some(1));
    assert_eq!(say(&room, &["call", "GetMcpPrompt", &prompt, "--allow", "mcp__f"]).code, Some(0));
    assert_eq!(counted(&room, "prompt 'p\\u202e1'"), 1);
}

#[test]
fn only_addresses_that_servers_are_reached_by_are_added() {
    let room = Room::new();
    for (args, words) in [
        (
            &["ftp://x"][..],
            "`ftp://x` is an address with `ftp`, and no server is reached so; a command, or an address with http, https, ws or wss is accepted",
        ),
        (&["--transport", "http", "ws://x"], "an address with http or https is accepted"),
        (&["--transport", "ws", "https://x"], "an address with ws or wss is accepted"),
        (&["--transport", "stdio", "https://x"], "a command, or an address"),
    ] {
        let added = room.say(&[&["mcp", "add", "u"], args].concat());
        assert!(added.code == Some(2) && added.stderr.contains(words), "{added:?}");
    }
    for (name, args) in
        [("a", &["https://x/mcp"][..]), ("b", &["./a//b"]), ("c", &["--transport", "http", "${URL}"])]
    {
        let added = room.say(&[&["mcp", "add", name], args].concat());
        assert_eq!(added.code, Some(0), "{added:?}");
    }
}

/// Two that change the file at once change it one after the other.
#[test]
fn no_server_is_lost_when_several_are_added_at_once() {
    let room = Room::new();
    let names: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| {
                let added = room.say(&["mcp", "add", name, "--", "x"]);
                assert_eq!(added.code, Some(0), "{added:?}");
            });
        }
    });
    let kept = fs::read_to_string(room.path("home/.config/haft/mcp.json")).unwrap();
    assert!(names.iter().all(|name| kept.contains(&format!("\"{name}\""))), "{kept}");
    for name in &names {
        assert_eq!(room.say(&["mcp", "remove", name]).code, Some(0));
    }
}

/// A hook may be a tool of a server; it says what a program would print.
#[test]
fn a_hook_may_be_a_tool_of_a_server() {
    let room = one("");
    let says = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not ${tool_input.file_path}"}}"#;
    let hook = json!({"type": "mcp_tool", "server": "f", "tool": "echo", "input": {"text": says}});
    let settings = |hook: &Value| {
        let text = json!({"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [hook]}]}}).to_string();
        room.write("home/.config/haft/settings.json", &text);
    };
    settings(&hook);
    let read = ["call", "Read", r#"{"file_path": "notes.txt"}"#];
    let denied = say(&room, &read);
    assert!(
        denied.code == Some(1)
            && denied.stderr.trim_end().ends_with("/notes.txt")
            && denied.stderr.contains(": not "),
        "{denied:?}"
    );
    // A rule that denies the tool keeps the hook from it, and a gate that fails is shut.
    let failed = say(&room, &[&read[..], &["--deny", "mcp__f__echo"]].concat());
    assert!(failed.code == Some(1) && failed.stderr.contains("denies `mcp__f__echo`"), "{failed:?}");
    let mut quiet = hook.clone();
    quiet["input"]["text"] = json!("fine");
    settings(&quiet);
    let allowed = say(&room, &read);
    assert!(allowed.code == Some(0) && allowed.stdout.contains("one"), "{allowed:?}");
    quiet["tool"] = json!("nothing");
    settings(&quiet);
    let failed = say(&room, &read);
    assert!(failed.code == Some(1) && failed.stderr.contains("offers no tool `nothing`"), "{failed:?}");
}
