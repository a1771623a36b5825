//! Servers that other people wrote, used as a newcomer would: added, listed, called. Skipped, with a word,
//! where they are not installed: `cargo xtask test` installs them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::Room;
use crate::run::{object, play};

fn skipped(what: &str) {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    {
        eprintln!("skipped: {what}");
    }
}

fn package(name: &str) -> Option<String> {
    let modules = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from);
    let script =
        modules.map(|modules| modules.join("@modelcontextprotocol").join(name).join("dist/index.js"));
    let script = script.filter(|script| script.exists());
    if script.is_none() {
        skipped(&format!("HAFT_TEST_NODE_MODULES names no folder with @modelcontextprotocol/{name}"));
    }
    script.map(|script| script.to_str().unwrap().to_owned())
}

fn python() -> Option<String> {
    let python = std::env::var("HAFT_TEST_PYTHON").ok();
    let has = |python: &String| {
        let import =
            Command::new(python).args(["-c", "import mcp_server_time"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let python = python.filter(has);
    if python.is_none() {
        skipped("HAFT_TEST_PYTHON names no interpreter with mcp-server-time");
    }
    python
}

#[track_caller]
fn add(room: &Room, args: &[&str]) {
    let added = room.say(&[&["mcp", "add"], args].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
}

fn rows(room: &Room) -> Value {
    let listed = room.say(&["mcp", "list", "--output", "json"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    serde_json::from_str(&listed.stdout).unwrap()
}

/// The five minutes of a newcomer: add it, see it, call it, let a model call it.
#[test]
fn the_time() {
    let Some(python) = python() else { return };
    let room = Room::new();
    add(&room, &["time", "--", &python, "-m", "mcp_server_time"]);
    let rows = rows(&room);
    assert_eq!((&rows[0]["state"], &rows[0]["revision"]), (&json!("ready"), &json!("2026-07-28")), "{rows}");
    assert_eq!(rows[0]["tools"], 2);
    let zone = r#"{"timezone": "Europe/Berlin"}"#;
    let called = room.say(&["call", "mcp__time__get_current_time", zone, "--allow", "mcp__time"]);
    assert!(called.code == Some(0) && called.stdout.contains("Europe/Berlin"), "{called:?}");
    let called = room.say(&["mcp", "call", "time", "get_current_time", zone, "--allow", "mcp__time"]);
    assert!(called.code == Some(0) && called.stdout.contains("Europe/Berlin"), "{called:?}");
    room.write(
        "script.json",
        &json!({"turns": [{"tool_calls": [{"name": "WaitForMcpServers"}]},
            {"tool_calls": [{"name": "mcp__time__get_current_time", "input": {"timezone": "Asia/Tokyo"}}]},
            {"text": "It is late."}]})
        .to_string(),
    );
    let ran = play(&room, &["what time is it?", "--output", "json", "--allow", "mcp__time"]);
    let found = object(&ran);
    assert!(found["calls"][1]["result"].to_string().contains("Asia/Tokyo"), "{found}");
}

#[test]
fn files_in_the_sandbox_of_the_workspace() {
    let Some(script) = package("server-filesystem") else { return };
    let room = Room::new();
    let work = room.path("work").display().to_string();
    // What is installed for tests lies where the sandbox shows nothing.
    let modules = std::env::var("HAFT_TEST_NODE_MODULES").unwrap();
    let settings = json!({"sandbox": {"filesystem": {"allowRead": [modules]}}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    add(&room, &["files", "--scope", "project", "--", "node", &script, &work]);
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let approved = room.say(&["mcp", "approve", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.stdout.contains("new tool read_text_file"), "{approved:?}");
    let read = |path: PathBuf| {
        let input = json!({"path": path}).to_string();
        room.say(&["call", "mcp__files__read_text_file", &input, "--allow", "mcp__files"])
    };
    let inside = read(room.path("work/notes.txt"));
    assert!(inside.code == Some(0) && inside.stdout.contains("three"), "{inside:?}");
    let outside = read(room.path("beside/other.txt"));
    assert_eq!(outside.code, Some(1), "{outside:?}");
}
