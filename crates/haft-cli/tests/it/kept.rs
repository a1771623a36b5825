//! Sessions that are kept: a run that was killed goes on, and what it did can be read.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::room::{PATH, Room};

const SCRIPT: &str = r#"{"turns": [
    {"text": "I look.", "tool_calls": [
        {"name": "Read", "input": {"file_path": "notes.txt"}},
        {"name": "Write", "input": {"file_path": "made.txt", "content": "made\n"}},
        {"name": "Bash", "input": {"command": "touch begun; sleep 600; touch ended"}}
    ]},
    {"text": "All is done."}
]}"#;

fn allowed(room: &Room, args: &[&str]) -> std::process::Command {
    let mut all = vec!["run", "--script", "../script.json", "--allow", "Write", "--allow", "Bash(*)"];
    all.extend(args);
    let mut command = room.haft(all);
    command.env(PATH, std::env::var_os(PATH).unwrap());
    command
}

/// A session that was killed while its last call ran.
fn killed() -> Room {
    let room = Room::new();
    room.write("script.json", SCRIPT);
    let mut command = allowed(&room, &["--output", "stream-json", "do it"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "tool_started" && event["tool_name"] == "Bash" {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    room
}

#[test]
fn a_killed_run_goes_on_and_nothing_is_done_twice() {
    let room = killed();
    let sessions: Value =
        serde_json::from_str(&room.say(&["sessions", "list", "--output", "json"]).stdout).unwrap();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    assert_eq!((&sessions[0]["state"], &sessions[0]["title"]), (&"cut off".into(), &"do it".into()));
    // Who made it again would say that it was overwritten.
    std::fs::write(room.path("work/made.txt"), "changed by hand\n").unwrap();

    let ran = room.run(allowed(&room, &["--continue", "--output", "json"]), "");
    let outcome: Value =
        serde_json::from_str(&ran.stdout.replace(":T", ":0")).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(outcome["text"], "All is done.", "{ran:?}");
    let results: Vec<&str> = outcome["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["result"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(results[0], "1\tone\n2\ttwo\n3\tthree");
    assert!(results[1].starts_with("created `made.txt`"), "{results:?}");
    assert_eq!(std::fs::read_to_string(room.path("work/made.txt")).unwrap(), "changed by hand\n");
    let unknown = outcome["calls"][2]["error"]["message"].as_str().unwrap();
    assert!(unknown.contains("outcome is unknown"), "{unknown}");
    assert!(!room.path("work/ended").exists());

    let log = room.say(&["log", "--calls", "--output", "json"]).stdout;
    let entries: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(&line.replace(":T", ":0")).unwrap()).collect();
    let of = |tool: &str| -> Vec<&str> {
        let of_tool = entries.iter().filter(|entry| entry["tool"] == tool);
        of_tool.map(|entry| entry["outcome"].as_str().unwrap()).collect()
    };
    assert_eq!((of("Read"), of("Write"), of("Bash")), (vec!["ok", "ok"], vec!["ok"], vec!["unknown"]));

    let again = room.run(allowed(&room, &["--continue"]), "");
    assert_eq!(again.code, Some(2), "{again:?}");
}

#[test]
fn what_was_refused_is_in_the_log_with_its_rule() {
    let room = Room::new();
    room.write(
        "script.json",
        r#"{"turns": [{"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]}, {"text": "Well."}]}"#,
    );
    let ran = room.say(&["run", "--script", "../script.json", "--deny", "Read(notes.txt)", "look"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = room.say(&["log", "--denials"]).stdout;
    assert!(log.contains("Read") && log.contains("Read(notes.txt)"), "{log}");
    let json = room.say(&["log", "--denials", "--output", "json"]).stdout;
    assert!(json.contains(r#""source":"rule""#), "{json}");
    assert_eq!(room.say(&["log", "--changes"]).stdout.trim(), "nothing of that kind");
}

#[test]
fn sessions_are_removed_and_what_is_not_there_is_said() {
    let room = Room::new();
    assert_eq!(room.say(&["sessions", "list"]).stdout.trim(), "no sessions are kept");
    let none = room.say(&["run", "--continue", "hello"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("nothing to continue"), "{none:?}");
    let bad = room.say(&["run", "--resume", "../x", "hello"]);
    assert!(bad.stderr.contains("is no id of a session"), "{bad:?}");
    // One that was killed while it made its journal.
    room.write("home/.local/state/haft/sessions/begun/journal.log", "");
    let empty = room.say(&["run", "--resume", "begun", "hello"]);
    assert_eq!(empty.code, Some(2));
    assert!(empty.stderr.contains("doesn't say where it works"), "{empty:?}");
    std::fs::remove_dir_all(room.path("home/.local/state/haft/sessions/begun")).unwrap();
    room.write("script.json", r#"{"turns": [{"text": "Hello."}]}"#);
    for _ in 0..2 {
        assert_eq!(room.say(&["run", "--script", "../script.json", "hi"]).code, Some(0));
    }
    let listed = room.say(&["sessions", "list", "--here"]).stdout;
    assert_eq!(
        listed.lines().filter(|line| line.contains("ended") && line.ends_with("hi")).count(),
        2,
        "{listed}"
    );
    assert_eq!(room.say(&["sessions", "rm", "--all"]).stderr.trim(), "removed 2 sessions");
    assert_eq!(room.say(&["log"]).code, Some(2));
}

#[test]
fn a_journal_that_can_not_be_written_stops_changes_and_not_looking() {
    let room = Room::new();
    room.write("script.json", SCRIPT);
    // A session's folder can't be made where a file is.
    room.write("home/.local/state/haft/sessions", "");
    let ran = room.run(allowed(&room, &["--output", "json", "do it"]), "");
    assert!(ran.stderr.contains("can't be kept, so nothing is changed"), "{ran:?}");
    let outcome: Value = serde_json::from_str(&ran.stdout.replace(":T", ":0")).unwrap();
    let errors: Vec<bool> =
        outcome["calls"].as_array().unwrap().iter().map(|call| call["is_error"] == true).collect();
    assert_eq!(errors, [false, true, true], "{ran:?}");
    assert!(!room.path("work/made.txt").exists() && !room.path("work/begun").exists());
}

#[test]
fn keys_are_not_in_the_journal() {
    let room = Room::new();
    room.write(
        "script.json",
        r#"{"turns": [{"tool_calls": [{"name": "Write", "input": {"file_path": "k.txt", "content": "my-secret-value"}}]}, {"text": "my-secret-value"}]}"#,
    );
    room.write("home/.config/haft/settings.json", r#"{"journal": {"redact": ["MY_SECRET"]}}"#);
    let mut command =
        room.haft(["run", "--script", "../script.json", "--allow", "Write", "keep my-secret-value"]);
    command.env(PATH, std::env::var_os(PATH).unwrap()).env("MY_SECRET", "my-secret-value");
    assert_eq!(room.run(command, "").code, Some(0));
    let sessions = room.path("home/.local/state/haft/sessions");
    let session = std::fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(session.join("journal.log")).unwrap();
    assert!(!text.contains("my-secret-value") && text.contains("[redacted: MY_SECRET]"), "{text}");
    assert_eq!(std::fs::read_to_string(room.path("work/k.txt")).unwrap(), "my-secret-value");
}

/// A resumed request is the same bytes, so the journal has them; logs and exports don't.
#[test]
fn tokens_are_in_the_journal_and_in_no_log() {
    let room = Room::new();
    let body = "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5";
    let mut secrets: Vec<String> =
        ["ghp_", "gho_", "github_pat_11A_", "sk-ant-api03-", "sk-", "glpat-", "xoxb-1-", "xoxp-2-"]
            .iter()
            .map(|prefix| format!("{prefix}{body}"))
            .collect();
    secrets.push("AKIAIOSFODNN7EXAMPLE".to_owned());
    secrets.push(format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{body}"));
    let pem = format!("-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n");
    let content = format!("{}\n{pem}", secrets.join("\n"));
    let calls: Vec<Value> = secrets
        .iter()
        .map(|secret| serde_json::json!({"name": "Bash", "input": {"command": format!("curl -H 'X: {secret}' h.test")}}))
        .chain([serde_json::json!({"name": "Write", "input": {"file_path": "k", "content": content}})])
        .collect();
    let script = serde_json::json!({"turns": [{"tool_calls": calls}, {"text": "Done."}]});
    room.write("script.json", &script.to_string());
    let words = format!("use {}", secrets[0]);
    let mut command = room.haft(["run", "--script", "../script.json", "--allow", "Write", &words]);
    command.env(PATH, std::env::var_os(PATH).unwrap());
    assert_eq!(room.run(command, "").code, Some(0));
    let journal = std::fs::read_to_string(crate::kept_kills::journals(&room).pop().unwrap()).unwrap();
    let id = room.say(&["sessions", "list"]).stdout.split_whitespace().next().unwrap().to_owned();
    for args in [
        &["log"][..],
        &["log", "--output", "json"],
        &["log", "--denials"],
        &["sessions", "show", &id],
        &["sessions", "show", &id, "--output", "json"],
        &["sessions", "list"],
        &["sessions", "list", "--output", "json"],
        &["replay", &id, "--all"],
        &["replay", &id, "--all", "--output", "json"],
    ] {
        let shown = room.say(args).stdout;
        assert!(shown.contains("[redacted: GitHub token]") || !args.contains(&"log"), "{args:?}: {shown}");
        assert!(!shown.contains(body) && !shown.contains("AKIAIOSFODNN7EXAMPLE"), "{args:?}: {shown}");
    }
    assert!(secrets.iter().all(|secret| journal.contains(secret)), "{journal}");
}

#[test]
fn who_may_not_go_on_with_a_session_takes_nothing_from_it() {
    let room = Room::new();
    let script = r#"{"turns": [
        {"tool_calls": [{"name": "Bash", "input": {"command": "touch begun; until [ -e go ]; do sleep 0.05; done"}}]},
        {"tool_calls": [{"name": "Bash", "input": {"command": "echo still here"}}]},
        {"text": "Done."}]}"#;
    room.write("script.json", script);
    let mut command = allowed(&room, &["--output", "stream-json", "do it"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"tool_started\"")));
    // There, whenever its sandbox is made.
    while !room.path("work/begun").exists() {
        crate::room::pause();
    }
    let sessions: Value =
        serde_json::from_str(&room.say(&["sessions", "list", "--output", "json"]).stdout).unwrap();
    let ran = room.run(allowed(&room, &["--resume", sessions[0]["id"].as_str().unwrap(), "more"]), "");
    assert!(ran.stderr.contains("runs in another process"), "{ran:?}");
    std::fs::write(room.path("work/go"), "").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success());
    assert!(rest.iter().any(|line| line.contains("\"output\":\"still here")), "{rest:?}");
}

/// A turn that is lost: the model doesn't know it, and would do it again.
#[test]
fn what_a_damaged_journal_has_lost_is_told() {
    let room = Room::new();
    let turn = |trace: &str| {
        let command = format!("echo {trace} >> ran.txt");
        serde_json::json!({"tool_calls": [{"name": "Bash", "input": {"command": command}}]})
    };
    let turns = serde_json::json!({"turns": [turn("c1"), turn("c2"), {"text": "Done."}, {"text": "Again."}]});
    room.write("script.json", &turns.to_string());
    assert_eq!(room.run(allowed(&room, &["do it"]), "").code, Some(0));
    let journal = crate::kept_kills::journals(&room).pop().unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let is_items = |line: &&str| line.contains("\"is\":\"items\"");
    // The items of the first turn; those before are the prompt.
    let first_turn = text.split_inclusive('\n').filter(is_items).nth(1).unwrap();
    std::fs::write(&journal, text.replace(first_turn, &first_turn.replacen("\":", "\";", 3))).unwrap();
    let ran = room.run(allowed(&room, &["--continue", "go on"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = std::fs::read_to_string(&journal).unwrap();
    let words: String = after.lines().skip(text.lines().count()).filter(is_items).collect();
    assert!(words.contains("The journal of the session is damaged"), "{words}");
    assert!(words.contains("Bash was run to its end (ok)") && words.contains("runs echo c1."), "{words}");
    assert!(!words.contains("runs echo c2."), "{words}");
}
