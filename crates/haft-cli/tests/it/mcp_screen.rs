//! Servers in a run on a terminal: what they ask, how far they are, and what there is to approve. tmux shows
//! it.

use std::fs;

use serde_json::json;

use crate::room::crate_path;
use crate::stage::{Stage, has_tmux};

/// A terminal with a file of one server beside its folder.
fn stage(faults: &str, script: &str) -> Stage {
    let stage = Stage::open(100, 40);
    fs::write(stage.beside("script.json"), script).unwrap();
    // In the workspace, where the sandbox shows it.
    fs::copy(crate_path("../haft-mcp/tests/peers/faulty.py"), stage.folder().join("peer.py")).unwrap();
    let counts = stage.folder().join("counts");
    let server = json!({"command": "python3", "args": ["-u", "peer.py", faults], "env": {"COUNTS": counts}});
    let servers = json!({"mcpServers": {"f": server}}).to_string();
    fs::write(stage.beside("servers.json"), servers).unwrap();
    stage
}

fn haft(stage: &Stage, arguments: &str) {
    stage.start(&format!(
        "HAFT_CONFIG_DIR={} HAFT_STATE_DIR={} {} {arguments}",
        stage.beside("config").display(),
        stage.beside("state").display(),
        env!("CARGO_BIN_EXE_haft"),
    ));
}

fn run(stage: &Stage, flags: &str) {
    let script = stage.beside("script.json");
    haft(stage, &format!("run --script {} --allow mcp__f {flags}", script.display()));
}

#[test]
fn a_server_asks_the_user_and_shows_how_far_it_is() {
    if !has_tmux() {
        return;
    }
    let stage = stage(
        "",
        r#"{"turns": [{"tool_calls": [{"name": "WaitForMcpServers"}]}, {"tool_calls": [{"name": "mcp__f__ask"}]},
            {"tool_calls": [{"name": "mcp__f__progress"}]}, {"text": "All is said."}]}"#,
    );
    run(&stage, &format!("--mcp-config {} go", stage.beside("servers.json").display()));
    let asked = stage.see("enter sends it");
    assert!(asked.contains("The server `f` asks: Who?") && asked.contains("name"), "{asked}");
    stage.type_("Ann");
    stage.key("Enter");
    stage.see("step ");
    let done = stage.see("All is said.");
    assert!(done.contains("✓ mcp__f__progress"), "{done}");
}

#[test]
fn what_there_is_to_approve_is_asked_in_the_run() {
    if !has_tmux() {
        return;
    }
    let stage =
        stage("few", r#"{"turns": [{"tool_calls": [{"name": "mcp__f__flute"}]}, {"text": "Heard."}]}"#);
    fs::copy(stage.beside("servers.json"), stage.folder().join(".mcp.json")).unwrap();
    haft(&stage, "trust --yes");
    stage.see("trusted, until one of these changes");
    run(&stage, "");
    let asked =
        stage.until("a question", |screen| screen.contains("Start it?") && screen.contains("or a number"));
    assert!(asked.contains("The MCP server `f` came with this workspace"), "{asked}");
    assert!(asked.contains("peer.py") && !stage.folder().join("counts").exists(), "{asked}");
    stage.type_("1");
    let asked =
        stage.until("another", |screen| screen.contains("new tool flute") && screen.contains("or a number"));
    assert!(asked.contains("Plays a melody."), "{asked}");
    stage.type_("1");
    stage.until("no question", |screen| !screen.contains("or a number"));
    stage.type_("play");
    stage.key("Enter");
    let heard = stage.see("Heard.");
    assert!(heard.contains("la la la"), "{heard}");
}
