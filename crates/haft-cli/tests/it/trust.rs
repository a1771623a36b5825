//! `haft trust`: what is shown, what a yes is a yes to, and what an untrusted workspace can't do.

use std::fs;

use crate::json::{keys, valid_in};
use crate::room::{Ran, Room, ran};

const NOBODY: &str = "not trusted: nobody was asked; --yes, or --trust-hash with the hash above, says yes\n";

/// A workspace with everything that runs or loosens, and something that tightens.
fn workspace() -> Room {
    let room = Room::new();
    room.script(
        "work/.haft/tools/theirs",
        "theirs",
        "echo ran; echo ran >> made",
        r#", "effects": {"writes": ["made"]}"#,
    );
    room.write("work/.haft/check.sh", "#!/bin/sh\nexit 0\n");
    room.write(
        "work/.claude/settings.json",
        r#"{
  "permissions": {"allow": ["theirs"], "deny": ["Glob"], "additionalDirectories": ["../beside"]},
  "env": {"MODE_OF_TEST": "yes"},
  "hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": ".haft/check.sh", "onFailure": "continue", "timeout": 60}]}]}
}"#,
    );
    room.write("work/.mcp.json", r#"{"mcpServers": {"hub": {"command": "./hub.sh"}}}"#);
    room
}

fn hash(room: &Room) -> String {
    let shown = valid_in(room, "trust.schema.json", &["trust", "--output", "json"], 1);
    shown["hash"].as_str().unwrap().to_owned()
}

fn offers(ran: &Ran, tool: &str) -> bool {
    ran.stdout.split_whitespace().any(|word| word == tool)
}

#[test]
fn everything_that_runs_or_loosens_is_shown_and_nothing_is_kept_without_a_yes() {
    let room = workspace();
    let shown = room.say(&["trust"]);
    let expected = format!(
        "workspace  ROOM/work\n\
         hash       {}\n\
         trust      no\n\
         \n\
         hooks\n\
         \x20 SessionEnd *: .haft/check.sh   .claude/settings.json:4\n\
         \n\
         hooks that fail open\n\
         \x20 SessionEnd *: .haft/check.sh   .claude/settings.json:4\n\
         \n\
         servers\n\
         \x20 hub: ./hub.sh                  .mcp.json:1\n\
         \n\
         scripts\n\
         \x20 .haft/check.sh\n\
         \x20 hub.sh\n\
         \n\
         files of script tools\n\
         \x20 .haft/tools/theirs/run\n\
         \x20 .haft/tools/theirs/tool.json\n\
         \n\
         allow rules\n\
         \x20 theirs                         .claude/settings.json:2\n\
         \n\
         added directories\n\
         \x20 ../beside                      .claude/settings.json:2\n\
         \n\
         environment variables\n\
         \x20 MODE_OF_TEST=yes               .claude/settings.json:3\n",
        hash(&room)
    );
    assert_eq!(shown, ran(1, &expected, NOBODY));
    assert!(!room.path("home/.local").exists(), "looking leaves nothing behind");
}

/// A server needs a yes of its own.
const UNAPPROVED: &str = "warning: the MCP server `hub` is not started: you have not approved it; `haft mcp approve hub` shows it\n";

#[test]
fn a_yes_makes_it_count_and_a_forgotten_yes_does_not() {
    let room = workspace();
    let yes = room.say(&["trust", "--yes"]);
    assert_eq!((yes.code, yes.stderr.as_str()), (Some(0), "trusted, until one of these changes\n"));
    let listed = room.say(&["tools"]);
    assert!(
        offers(&listed, "theirs") && !offers(&listed, "Glob") && listed.stderr == UNAPPROVED,
        "{listed:?}"
    );
    assert_eq!(room.say(&["call", "theirs"]), ran(0, "ran\n", ""));
    let outside = room.say(&["call", "Read", r#"{"file_path": "../beside/other.txt"}"#]);
    assert_eq!(outside, ran(0, "1\toutside\n", ""));
    let again = room.say(&["trust"]);
    assert!(again.code == Some(0) && again.stdout.contains("trust      yes, by you\n"), "{again:?}");

    room.write("work/.haft/tools/theirs/run", "#!/bin/bash\necho other\n");
    let changed = room.say(&["trust"]);
    let part = "trust      no longer: it has changed\n\nsince it was trusted\n  changed file of a script tool \
                `.haft/tools/theirs/run`\n";
    assert!(changed.code == Some(1) && changed.stdout.contains(part), "{changed:?}");
    assert!(!offers(&room.say(&["tools"]), "theirs"));

    assert_eq!(room.say(&["trust", "--forget"]), ran(0, "", "no longer trusted\n"));
    assert_eq!(room.say(&["trust", "--forget"]), ran(0, "", "it was not trusted\n"));
}

#[test]
fn a_hash_trusts_exactly_one_state() {
    let room = workspace();
    let hash = hash(&room);
    let listed = room.say(&["tools", "--trust-hash", &hash]);
    assert!(offers(&listed, "theirs") && listed.stderr == UNAPPROVED, "{listed:?}");
    assert!(!room.path("home/.local").exists(), "a hash for one run keeps nothing");
    let refused = room.say(&["trust", "--yes", "--trust-hash", &"0".repeat(64)]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("not trusted: --trust-hash is not the hash"), "{refused:?}");
    assert_eq!(room.say(&["trust", "--trust-hash", &hash]).code, Some(0));
    assert!(offers(&room.say(&["tools"]), "theirs"));
    let wrong = room.say(&["tools", "--trust-hash", "12"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("64 hexadecimal digits"), "{wrong:?}");
}

#[test]
fn what_can_not_be_hashed_can_not_be_trusted() {
    let room = workspace();
    let fifo = room.path("work/.haft/tools/theirs/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let shown = room.say(&["trust", "--yes"]);
    assert!(shown.code == Some(1) && shown.stdout.contains("trust      impossible\n"), "{shown:?}");
    assert!(shown.stdout.contains("in the way\n  `.haft/tools/theirs/pipe` can't be hashed: "), "{shown:?}");
    assert!(!room.path("home/.local").exists());
}

#[test]
fn where_there_is_nothing_nobody_is_asked() {
    let room = Room::new();
    room.write("work/.haft/settings.json", r#"{"permissions": {"deny": ["Write"]}}"#);
    let shown = room.say(&["trust"]);
    let expected = "workspace  ROOM/work\ntrust      not needed: nothing in it runs or loosens anything\n";
    assert_eq!(shown, ran(0, expected, ""));
    let elsewhere = room.say(&["trust", "../beside"]);
    assert!(elsewhere.code == Some(0) && elsewhere.stdout.starts_with("workspace  ROOM/beside\n"));
    let nowhere = room.say(&["trust", "../nowhere"]);
    assert!(
        nowhere.code == Some(2) && nowhere.stderr.starts_with("error: the directory `./../nowhere`"),
        "{nowhere:?}"
    );
}

#[test]
fn json_says_the_same() {
    let room = workspace();
    let shown = valid_in(&room, "trust.schema.json", &["trust", "--output", "json"], 1);
    assert_eq!(keys(&shown), ["changes", "hash", "items", "memory", "obstacles", "state", "workspace"]);
    assert_eq!(shown["state"], "untrusted");
    assert_eq!(shown["items"][0]["kind"], "hook");
    let yes = valid_in(&room, "trust.schema.json", &["trust", "--yes", "--output", "json"], 0);
    assert_eq!((&yes["state"], &yes["hash"]), (&"trusted".into(), &shown["hash"]));
}

/// Whoever takes trust back starts anew: answers were given to the same files.
#[test]
fn forgetting_forgets_answers_too() {
    let room = Room::new();
    let answer = r#"echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow", "updatedPermissions": [
        {"type": "addRules", "rules": [{"toolName": "Edit", "ruleContent": "/a.txt"}, {"toolName": "Edit", "ruleContent": "/b.txt"}], "behavior": "allow", "destination": "localSettings"}]}}}'"#;
    room.write("hook.sh", &format!("#!/bin/sh\n{answer}\n"));
    let handler = serde_json::json!({"type": "command", "command": room.path("hook.sh")});
    let settings = serde_json::json!({"hooks": {"PermissionRequest": [{"hooks": [handler]}]}});
    room.write("home/.config/haft/settings.json", &settings.to_string());
    assert_eq!(room.say(&["call", "Write", r#"{"file_path": "x.txt", "content": ""}"#]).code, Some(0));
    fs::remove_file(room.path("home/.config/haft/settings.json")).unwrap();
    let a = ["check", "Write", r#"{"file_path": "a.txt", "content": ""}"#];
    assert_eq!(room.say(&a).code, Some(0), "it was answered with always");
    assert_eq!(room.say(&["trust", "--forget"]), ran(0, "", "it was not trusted; 2 answers forgotten\n"));
    assert_eq!(room.say(&a).code, Some(10), "it asks again");
    assert_eq!(room.say(&["trust", "--forget"]), ran(0, "", "it was not trusted\n"));
}
