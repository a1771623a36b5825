//! What surrounds a run: memory files and the hooks of a session.

use serde_json::json;

use crate::room::Room;
use crate::run::{READS, object, play, with_script};
use crate::run_http::{asking, seen};

fn system(room: &Room) -> (String, String) {
    let seen = seen(room, |url| asking(room, url, &[]));
    (seen.system(), seen.ran.stderr)
}

#[test]
fn memory_of_a_project_is_read_once_it_is_trusted() {
    let room = Room::new();
    room.write("work/AGENTS.md", "Use tabs here.\n");
    room.write("work/CLAUDE.md", "Never touch main.rs.\n");
    let (before, said) = system(&room);
    assert!(!before.contains("Use tabs") && !before.contains("Never touch"), "{before}");
    assert!(said.contains("left out: AGENTS.md, CLAUDE.md; this workspace is not trusted"), "{said}");

    let shown = room.say(&["trust"]);
    assert_eq!(shown.code, Some(1), "nobody said yes: {shown:?}");
    assert!(shown.stdout.contains("read by models") && shown.stdout.contains("  AGENTS.md\n"), "{shown:?}");
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let (after, said) = system(&room);
    assert!(after.contains("From AGENTS.md:\n\nUse tabs here.") && after.contains("Never touch"), "{after}");
    assert!(!said.contains("left out"), "{said}");

    // They are no part of what was said yes to.
    room.write("work/AGENTS.md", "Use blanks here.\n");
    assert!(system(&room).0.contains("Use blanks here."));
    room.write("work/.haft/settings.json", r#"{"permissions": {"allow": ["Bash(ls)"]}}"#);
    let (changed, said) = system(&room);
    assert!(!changed.contains("Use blanks"), "what the workspace may do has changed");
    assert!(said.contains("left out: AGENTS.md"), "{said}");
    assert_eq!(room.say(&["trust", "--forget"]).code, Some(0));
}

#[test]
fn memory_is_bounded_and_stays_inside() {
    let room = Room::new();
    room.write("work/.git/HEAD", "ref: refs/heads/main\n");
    room.write("work/AGENTS.md", &format!("The root says so. {}", "x".repeat(100_000)));
    room.write("work/src/AGENTS.md", "The folder says so.");
    room.write("home/.config/haft/AGENTS.md", "The user says so.");
    std::os::unix::fs::symlink("AGENTS.md", room.path("work/CLAUDE.md")).unwrap();
    std::os::unix::fs::symlink("../../beside/other.txt", room.path("work/src/CLAUDE.md")).unwrap();
    let trusted = room.say(&["trust", "--yes", "src"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let seen = seen(&room, |url| {
        let mut command = asking(&room, url, &[]);
        command.current_dir(room.path("work/src"));
        command
    });
    let system = seen.system();
    let at = |words: &str| system.find(words).unwrap_or_else(|| panic!("{words}"));
    assert!(
        at("The user says so.") < at("The root says so.")
            && at("The root says so.") < at("The folder says so.")
    );
    assert_eq!(system.matches("The root says so.").count(), 1, "a link to it is the same file");
    assert!(!system.contains("outside"), "what a link leads to outside is not read");
    assert!(system.len() < 100_000);
    assert!(seen.ran.stderr.contains("is longer than 65536 bytes"), "{}", seen.ran.stderr);
}

/// Settings whose hooks write down what they are told.
fn hooks(room: &Room, more: &str) {
    let log = room.path("beside/log").display().to_string();
    let entry = |event: &str| {
        format!(
            r#""{event}": [{{"hooks": [{{"type": "command", "command": "cat >> {log}; echo >> {log}", "timeout": 60}}]}}]"#
        )
    };
    let all: Vec<String> =
        ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"].iter().map(|event| entry(event)).collect();
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    room.write("home/.config/haft/settings.json", &format!(r#"{{"hooks": {{{}{more}}}}}"#, all.join(", ")));
}

#[test]
fn a_session_fires_its_hooks_in_order() {
    let room = with_script(READS);
    hooks(&room, "");
    let ran = play(&room, &["how many?"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = std::fs::read_to_string(room.path("beside/log")).unwrap();
    let told: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = told.iter().map(|event| event["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]);
    assert_eq!((&told[0]["source"], &told[0]["model"]), (&json!("startup"), &json!("scripted")));
    assert_eq!(told[1]["prompt"], "how many?");
    assert_eq!(told[2]["last_assistant_message"], "It has three lines.");
    assert_eq!(told[2]["stop_hook_active"], false);
}

#[test]
fn a_hook_blocks_words_and_adds_to_them() {
    let room = with_script(
        r#"{"turns": [{"text": "Yes.", "expect": [{"prompt": true, "contains": "it is Monday"}]}]}"#,
    );
    let of = |event: &str, command: &str| {
        json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}).to_string()
    };
    for event in ["UserPromptSubmit", "SessionStart"] {
        room.write("home/.config/haft/settings.json", &of(event, "echo it is Monday"));
        let ran = play(&room, &["go"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Yes.\n"), "{event}: {ran:?}");
    }
    room.write("home/.config/haft/settings.json", &of("UserPromptSubmit", "echo not today >&2; exit 2"));
    let ran = play(&room, &["go", "--output", "json"]);
    let found = object(&ran);
    assert_eq!(
        (ran.code, &found["stop"], &found["turns"]),
        (Some(1), &json!("blocked"), &json!(0)),
        "{ran:?}"
    );
    assert_eq!(ran.stderr, "haft: blocked: not today\n");
}

#[test]
fn a_hook_keeps_the_model_going() {
    let room = with_script(
        r#"{"turns": [{"text": "Done."}, {"text": "Tested too.", "expect": [{"prompt": true, "contains": "test it first"}]}]}"#,
    );
    let once = room.path("beside/once").display().to_string();
    let command = format!("[ -e {once} ] && exit 0; touch {once}; echo test it first >&2; exit 2");
    let settings = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let ran = play(&room, &["go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Tested too.\n"), "{ran:?}");
    assert!(ran.stderr.contains("● Done.") && ran.stderr.contains("» test it first"), "{}", ran.stderr);
}

#[test]
fn a_hook_ends_a_session_before_it_began() {
    let room = with_script(READS);
    let command = r#"echo '{"continue": false, "stopReason": "closed on Mondays"}'"#;
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    let ran = play(&room, &["go"]);
    assert_eq!(ran, crate::room::ran(1, "", "haft: a hook ended the session: closed on Mondays\n"));
}
