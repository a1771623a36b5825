//! What a killed session leaves beside its conversation: where it was, what it had read, tasks, worktrees,
//! hooks, denials.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::{PATH, Ran, Room};

/// A command that says that it runs and doesn't end.
const HANGS: &str = "touch begun; sleep 600";

fn call(name: &str, input: Value) -> Value {
    json!({"tool_calls": [{"name": name, "input": input}]})
}

fn bash(command: &str) -> Value {
    call("Bash", json!({"command": command}))
}

fn with(turns: &[Value]) -> Room {
    let room = Room::new();
    room.write("script.json", &json!({"turns": turns}).to_string());
    room
}

fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@x.io"]).args(args).current_dir(dir);
    assert!(git.output().unwrap().status.success(), "{args:?}");
}

fn run(room: &Room, more: &[&str]) -> Command {
    let mut args = vec!["run", "--script", "../script.json", "--permission-mode", "bypassPermissions"];
    args.extend(more);
    let mut command = room.haft(args);
    command.env(PATH, std::env::var_os(PATH).unwrap());
    command
}

/// Runs until the command that hangs has started, and kills it.
fn killed(room: &Room) {
    let mut child = run(room, &["--output", "stream-json", "go"]).stdout(Stdio::piped()).spawn().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "tool_started" && line.contains(HANGS) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The same where the folder is a repository with one commit; returns the folder.
fn killed_in_a_repository(room: &Room) -> PathBuf {
    let work = room.path("work");
    git(&work, &["init", "-q", "-b", "trunk"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    killed(room);
    work
}

fn go_on(room: &Room) -> (Ran, Value) {
    let ran = room.run(run(room, &["--continue", "--output", "json"]), "");
    let found = serde_json::from_str(&ran.stdout.replace(":T", ":0")).unwrap_or_else(|_| panic!("{ran:?}"));
    (ran, found)
}

fn result(outcome: &Value, at: usize) -> String {
    let call = &outcome["calls"][at];
    let words = call["error"]["message"].as_str().or_else(|| call["result"].as_str());
    words.unwrap_or_default().to_owned()
}

#[test]
fn a_session_goes_on_in_its_worktree() {
    let room = with(&[
        call("EnterWorktree", json!({"name": "apart"})),
        bash(HANGS),
        bash("pwd; echo in > inside.txt"),
        json!({"text": "Done."}),
    ]);
    let work = killed_in_a_repository(&room);
    let shown = room.say(&["sessions", "list", "--output", "json"]).stdout;
    let id = serde_json::from_str::<Value>(&shown).unwrap()[0]["id"].as_str().unwrap().to_owned();
    let shown = room.say(&["sessions", "show", &id]).stdout;
    assert!(shown.contains("a worktree of this session is in") && shown.contains("haft/apart"), "{shown}");

    let (ran, outcome) = go_on(&room);
    assert!(result(&outcome, 1).contains("/.haft/worktrees/apart"), "{outcome} {ran:?}");
    assert!(work.join(".haft/worktrees/apart/inside.txt").exists() && !work.join("inside.txt").exists());
    assert!(ran.stderr.contains("outcome is unknown"), "{ran:?}");

    // What would be lost stays; what wouldn't goes.
    // The command may have been killed before.
    let _ = std::fs::remove_file(work.join(".haft/worktrees/apart/begun"));
    let shown = room.say(&["sessions", "show", &id, "--output", "json"]).stdout;
    let left = serde_json::from_str::<Value>(&shown).unwrap()["left"].to_string();
    assert!(left.contains("haft/apart"), "{left}");
    let copy = room.path("sessions");
    let sessions = room.path("home/.local/state/haft/sessions");
    assert!(Command::new("cp").arg("-a").arg(&sessions).arg(&copy).status().unwrap().success());
    let removed = room.say(&["sessions", "rm", &id]);
    assert!(removed.stderr.contains("stays: it has 1 changed file"), "{removed:?}");
    assert!(work.join(".haft/worktrees/apart/inside.txt").exists());
    std::fs::remove_file(work.join(".haft/worktrees/apart/inside.txt")).unwrap();
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::rename(&copy, &sessions).unwrap();
    let removed = room.say(&["sessions", "rm", &id]);
    assert!(removed.stderr.contains("removed the worktree"), "{removed:?}");
    assert!(!work.join(".haft/worktrees/apart").exists());
}

#[test]
fn a_worktree_that_is_gone_is_said() {
    let room = with(&[
        call("EnterWorktree", json!({"name": "apart"})),
        bash(HANGS),
        bash("pwd"),
        json!({"text": "Done."}),
    ]);
    let work = killed_in_a_repository(&room);
    std::fs::remove_dir_all(work.join(".haft/worktrees/apart")).unwrap();
    let (ran, outcome) = go_on(&room);
    assert!(ran.stderr.contains("goes on in its first folder"), "{ran:?}");
    assert!(result(&outcome, 1).trim_end().ends_with("/work"), "{outcome}");
}

#[test]
fn what_was_read_is_known_again() {
    let turns = [
        call("Read", json!({"file_path": "notes.txt"})),
        call("Read", json!({"file_path": "src/main.rs"})),
        bash(HANGS),
        json!({"tool_calls": [
            {"name": "Write", "input": {"file_path": "notes.txt", "content": "new\n"}},
            {"name": "Write", "input": {"file_path": "src/main.rs", "content": "new\n"}}]}),
        json!({"text": "Done."}),
    ];
    let room = with(&turns);
    killed(&room);
    room.write("work/notes.txt", "changed by hand\n");
    let (ran, outcome) = go_on(&room);
    let refused = result(&outcome, 1);
    assert!(refused.contains("changed"), "{refused} {ran:?}");
    assert_eq!(std::fs::read_to_string(room.path("work/notes.txt")).unwrap(), "changed by hand\n");
    // What is as it was read may be replaced without another look.
    assert_eq!(std::fs::read_to_string(room.path("work/src/main.rs")).unwrap(), "new\n", "{outcome}");
}

#[test]
fn tasks_of_a_dead_process_are_said_to_have_ended() {
    let room = with(&[
        call("Bash", json!({"command": "sleep 500", "run_in_background": true})),
        bash(HANGS),
        json!({"text": "Done."}),
    ]);
    killed(&room);
    let shown = room.say(&["sessions", "list", "--output", "json"]).stdout;
    let id = serde_json::from_str::<Value>(&shown).unwrap()[0]["id"].as_str().unwrap().to_owned();
    let shown = room.say(&["sessions", "show", &id]).stdout;
    assert!(shown.contains("task-1 ended with its process"), "{shown}");
    let (ran, _) = go_on(&room);
    assert!(ran.stderr.contains("task-1 ended with its process"), "{ran:?}");
    let journal = room.path(&format!("home/.local/state/haft/sessions/{id}/journal.log"));
    let text = std::fs::read_to_string(journal).unwrap();
    assert!(text.contains("ran in the background and ended with the old process"), "{text}");
    let shown = room.say(&["sessions", "show", &id]).stdout;
    assert!(!shown.contains("left "), "{shown}");
}

#[test]
fn hooks_and_refusals_are_in_the_log() {
    let room = with(&[
        json!({"tool_calls": [
            {"name": "Read", "input": {"file_path": "notes.txt"}},
            {"name": "NoSuchTool", "input": {"x": 1}}]}),
        json!({"text": "Done."}),
    ]);
    let hook = json!({"hooks": {"PreToolUse": [
        {"matcher": "Read", "hooks": [{"type": "command", "command": "echo not today >&2; exit 2"}]}]}});
    room.write("home/.config/haft/settings.json", &hook.to_string());
    let ran = room.run(run(&room, &["go"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = room.say(&["log", "--output", "json"]).stdout;
    let entries: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(&line.replace(":T", ":0")).unwrap()).collect();
    let hooked = entries.iter().find(|entry| entry["kind"] == "hook").unwrap_or_else(|| panic!("{log}"));
    assert!(hooked["words"].as_str().unwrap().contains("not today"), "{hooked}");
    let mut refused: Vec<&Value> = entries.iter().filter(|entry| entry["kind"] == "refused").collect();
    refused.sort_by_key(|entry| entry["tool"].to_string());
    assert_eq!(refused.len(), 2, "{log}");
    assert_eq!(refused[1]["tool"], "Read");
    assert_eq!((&refused[0]["tool"], &refused[0]["input"]["x"]), (&json!("NoSuchTool"), &json!(1)));
}

/// What was decided on hosts that a running command wanted.
#[test]
fn requests_of_commands_are_in_the_log() {
    let room = with(&[bash("sh fetch.sh"), json!({"text": "Done."})]);
    // The line names no host, so it begins, and asks while it runs.
    room.write("work/fetch.sh", "curl -s https://a.example/; true");
    room.write("home/.config/haft/settings.json", r#"{"permissions": {"allow": ["Bash"]}}"#);
    let ran = room.run(run(&room, &["go"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = room.say(&["log", "--output", "json"]).stdout;
    let entries: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(&line.replace(":T", ":0")).unwrap()).collect();
    let of_requests = |entry: &&Value| entry["kind"] == "request";
    let request = entries.iter().find(of_requests).unwrap_or_else(|| panic!("{log}"));
    let words = request["words"].as_str().unwrap();
    assert!(words.starts_with("a.example:443 for ") && words.contains("denied"), "{request}");
    assert!(room.say(&["log", "--denials"]).stdout.contains("a.example:443"));
    assert!(!room.say(&["log", "--changes"]).stdout.contains("a.example:443 for"));
}

#[test]
fn what_terminals_would_obey_is_escaped_in_json() {
    let room = with(&[json!({"text": "Done."})]);
    let ran = room.run(run(&room, &["title \u{9b}31m \u{202e}evil"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for args in [&["sessions", "list", "--output", "json"][..], &["log", "--output", "json"], &["log"]] {
        let shown = room.say(args).stdout;
        assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
        assert!(shown.contains("evil"), "{shown:?}");
    }
    let shown = room.say(&["sessions", "list", "--output", "json"]).stdout;
    let rows: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(rows[0]["title"], "title \u{9b}31m \u{202e}evil");
}

#[test]
fn a_session_that_goes_on_unkept_says_so() {
    let room = with(&[json!({"text": "One."}), json!({"text": "Two."})]);
    assert_eq!(room.run(run(&room, &["hi"]), "").code, Some(0));
    let settings = r#"{"journal": {"enabled": false}}"#;
    let ran = room.run(run(&room, &["--settings", settings, "--continue", "more"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("what follows is not kept"), "{ran:?}");
}

#[test]
fn what_an_agent_was_denied_is_in_the_log() {
    let room = Room::new();
    let script = json!({
        "turns": [
            call("Agent", json!({"prompt": "APART please", "description": "a task", "subagent_type": "general-purpose"})),
            {"text": "Done."}],
        "agents": [{"when": {"prompt": true, "contains": "APART"}, "turns": [
            call("Read", json!({"file_path": "notes.txt"})),
            {"text": "I may not."}]}]});
    room.write("script.json", &script.to_string());
    let ran = room.run(run(&room, &["--deny", "Read(notes.txt)", "go"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = room.say(&["log", "--denials", "--output", "json"]).stdout;
    let entry: Value = serde_json::from_str(log.trim()).unwrap_or_else(|_| panic!("{log}"));
    assert_eq!((&entry["tool"], &entry["input"]["file_path"]), (&json!("Read"), &json!("notes.txt")));
    assert!(entry["agent"].as_str().unwrap().starts_with("general-"), "{entry}");
    assert!(entry["words"].as_str().unwrap().contains("Read(notes.txt)"), "{entry}");
}

/// What was not approved stays so, also when the program ended in between.
#[test]
fn a_session_that_planned_plans_on() {
    let write = || call("Write", json!({"file_path": "made.txt", "content": "x"}));
    let turns = ["Planning.", "Denied.", "Done."].map(|text| json!({"text": text}));
    let [planning, denied, done] = turns;
    let room = with(&[planning, write(), denied, write(), done]);
    let run = |more: &[&str]| {
        let args = ["run", "--script", "../script.json", "--output", "json", "--allow", "Edit"];
        room.say(&[&args[..], more].concat())
    };
    assert!(run(&["go"]).stdout.contains("Planning."));
    // As EnterPlanMode leaves it, which needs a user.
    let sessions = room.path("home/.local/state/haft/sessions");
    let session = std::fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    std::fs::write(session.join("plan.json"), json!({"plans": true, "approved": null}).to_string()).unwrap();
    let second = run(&["--continue", "go on"]);
    assert!(second.stdout.contains("Denied.") && second.stderr.contains("plans on"), "{second:?}");
    assert!(!room.path("work/made.txt").exists(), "{second:?}");
    let third = run(&["--continue", "--permission-mode", "default", "go on"]);
    assert!(third.stdout.contains("Done.") && room.path("work/made.txt").exists(), "{third:?}");
}
