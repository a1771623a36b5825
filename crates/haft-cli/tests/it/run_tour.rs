//! The tour: what `haft run` does with no key and no network.

use serde_json::{Value, json};

use crate::room::Room;
use crate::run::{events, object};

/// Folders of tours that are still there.
fn left_behind(room: &Room) -> usize {
    std::fs::read_dir(room.path("temp")).unwrap().count()
}

/// A tour whose temporary folders are the room's.
fn tour(room: &Room, args: &[&str]) -> crate::room::Ran {
    std::fs::create_dir_all(room.path("temp")).unwrap();
    let mut command = room.haft([&["run"][..], args].concat());
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("TMPDIR", room.path("temp"));
    room.run(command, "")
}

#[test]
fn it_shows_what_there_is_to_see() {
    let room = Room::new();
    let ran = tour(&room, &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("counted one line too few"), "{}", ran.stdout);
    for part in [
        "no key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY)",
        "✓ Read   src/count.sh",
        "✓ Grep   \"read -r\"",
        "4 + while read -r line || [ -n \"$line\" ]; do",
        "denied by rule `Bash(rm *)` (.haft/settings.json:4)",
        "the tour says yes, once",
        "too long for the model; the whole is in ",
        "Edit found no match",
        "| ok: 4 lines",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("your prompt"), "{}", ran.stderr);
    assert_eq!(left_behind(&room), 0);
    assert!(!room.path("home/.local").exists(), "nothing of the user's is touched");
}

/// What a program would take for the model's answer is not given, and nothing runs.
#[test]
fn a_prompt_is_not_answered_by_a_script() {
    let room = Room::new();
    for args in [
        &["review"][..],
        &["review", "--output", "json"],
        &["review", "--output", "stream-json"],
        &["--model", "gpt-5", "hello"],
        &["-"],
    ] {
        let ran = tour(&room, args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        for part in
            ["no key is configured: set ANTHROPIC_API_KEY", "`haft run` without a prompt plays a tour"]
        {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
        assert_eq!(left_behind(&room), 0);
    }
}

#[test]
fn it_is_told_as_json_too() {
    let room = Room::new();
    let found = object(&tour(&room, &["--output", "json"]));
    let of = |name: &str, is: fn(&Value) -> bool| {
        found["calls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["tool_name"] == name)
            .filter(|call| is(call))
            .count()
    };
    assert!(of("Read", |call| call["is_error"] == json!(false)) >= 3);
    assert_eq!(of("Edit", |call| call["is_error"] == json!(true)), 1);
    assert_eq!(of("Edit", |call| call["is_error"] == json!(false)), 1);
    assert_eq!(found["denials"].as_array().unwrap().len(), 1);
    assert!(found["text"].as_str().unwrap().contains("a rule forbids it"));
}

#[test]
fn calls_run_side_by_side() {
    let room = Room::new();
    let events = events(&tour(&room, &["--output", "stream-json"]));
    let beside =
        |event: &&Value| event["type"] == "tool_finished" && event["result"]["was_concurrent"] == true;
    assert!(events.iter().filter(beside).count() >= 3);
}

#[test]
fn it_goes_without_a_sandbox_too() {
    let room = Room::new();
    let ran = tour(&room, &["--no-sandbox"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("--no-sandbox was given: nothing but rules"), "{}", ran.stderr);
    assert!(ran.stdout.contains("counted one line too few"), "{}", ran.stdout);
    assert_eq!(left_behind(&room), 0);
}

/// Settings of the user are for the user's sessions.
#[test]
fn it_doesnt_run_the_users_hooks() {
    let room = Room::new();
    let settings = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch \"$HOME/ran\""}]}]}}"#;
    room.write("home/.config/haft/settings.json", settings);
    assert_eq!(tour(&room, &[]).code, Some(0));
    assert!(!room.path("home/ran").exists());
}
