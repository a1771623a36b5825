//! Hooks of the settings, from outside: real programs that say no, yes, something else, or nothing at all.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::room::{PATH, Ran, Room, ran};

/// The user's settings.
const USER: &str = "home/.config/haft/settings.json";
/// The project's.
const PROJECT: &str = "work/.claude/settings.json";

/// A room whose user has one hook, which is this script.
fn with_hook(event: &str, more: Value, body: &str) -> Room {
    let room = Room::new();
    room.write("hook.sh", &format!("#!/bin/bash\n{body}\n"));
    room.write(USER, &settings(&room, event, more));
    room
}

/// Settings with one hook: `hook.sh` of the room.
fn settings(room: &Room, event: &str, more: Value) -> String {
    let mut handler = json!({"type": "command", "command": room.path("hook.sh")});
    let mut group = json!({});
    for (key, value) in more.as_object().unwrap() {
        let into = if key == "matcher" { &mut group } else { &mut handler };
        into[key] = value.clone();
    }
    group["hooks"] = json!([handler]);
    json!({"hooks": {event: [group]}}).to_string()
}

fn read(room: &Room) -> Ran {
    room.say(&["call", "Read", r#"{"file_path": "notes.txt"}"#])
}

fn notes() -> Ran {
    ran(0, "1\tone\n2\ttwo\n3\tthree\n", "")
}

#[test]
fn exit_code_2_denies_in_the_words_of_the_hook() {
    let room = with_hook("PreToolUse", json!({"matcher": "Read"}), "echo not this file >&2; exit 2");
    let words = "denied by hook `ROOM/hook.sh (~/.config/haft/settings.json:1)`: not this file\n";
    assert_eq!(read(&room), ran(1, "", words));
    // The matcher means another tool.
    let other = room.say(&["call", "Glob", r#"{"pattern": "*.txt"}"#]);
    assert_eq!(other.code, Some(0), "{other:?}");
}

fn dispatch(room: &Room, input: Value, args: &[&str]) -> (Ran, Value) {
    let message = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": input}
    ]});
    let mut command = room.haft(["dispatch"].iter().chain(args));
    command.env(PATH, std::env::var_os(PATH).unwrap());
    let ran = room.run(command, &message.to_string());
    let answer = serde_json::from_str(&ran.stdout).unwrap_or_default();
    (ran, answer)
}

#[test]
fn words_of_a_hook_after_the_call_go_to_the_model_and_those_for_the_user_do_not() {
    let body = r#"cat > seen.json
echo '{"systemMessage": "for you", "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "mind the gap"}}'"#;
    let room = with_hook("PostToolUse", json!({}), body);
    let (said, answer) = dispatch(&room, json!({"file_path": "notes.txt"}), &[]);
    let text = answer.to_string();
    assert!(text.contains("mind the gap") && text.contains("three") && !text.contains("for you"), "{said:?}");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), "Read: for you\n"));
    let seen: Value = serde_json::from_slice(&fs::read(room.path("work/seen.json")).unwrap()).unwrap();
    assert_eq!((&seen["tool_use_id"], &seen["permission_mode"]), (&json!("toolu_1"), &json!("default")));
    assert_eq!(seen["tool_input"]["file_path"], json!(room.path("work/notes.txt")));
    assert_eq!(seen["cwd"], json!(room.path("work")));
    assert!(seen["session_id"].as_str().is_some_and(|id| id.len() > 8), "{seen}");
}

fn write(room: &Room, path: &str, args: &[&str]) -> Ran {
    let input = json!({"file_path": path, "content": "new\n"}).to_string();
    room.say(&[&["call", "Write", input.as_str()], args].concat())
}

const YES: &str = r#"echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"MORE}}}'"#;

#[test]
fn rules_that_a_permission_hook_adds_are_kept_where_it_says() {
    let rule = |destination: &str| {
        let more = format!(
            r#", "updatedPermissions": [{{"type": "addRules", "rules": [{{"toolName": "Edit", "ruleContent": "/new.txt"}}], "behavior": "allow", "destination": "{destination}"}}]"#
        );
        YES.replace("MORE", &more)
    };
    for (destination, lasts) in [("session", false), ("localSettings", true)] {
        let room = with_hook("PermissionRequest", json!({}), &rule(destination));
        assert_eq!(write(&room, "new.txt", &[]), ran(0, "created `new.txt`: 1 line\n", ""));
        fs::remove_file(room.path(USER)).unwrap();
        let checked = room.say(&["check", "Write", r#"{"file_path": "new.txt", "content": ""}"#]);
        assert_eq!(checked.code, Some(if lasts { 0 } else { 10 }), "{destination}: {checked:?}");
    }
    let room = with_hook("PermissionRequest", json!({}), &rule("userSettings"));
    let said = write(&room, "new.txt", &[]);
    let words = "its `updatedPermissions` were left out: no rule is kept in `userSettings`";
    assert!(said.code == Some(0) && said.stderr.contains(words), "{said:?}");
}

#[test]
fn a_condition_limits_a_hook_to_the_calls_that_its_rule_means() {
    let room = with_hook("PreToolUse", json!({"if": "Edit(src/**)"}), "echo not there >&2; exit 2");
    let args = ["--permission-mode", "acceptEdits"];
    let inside = write(&room, "src/new.rs", &args);
    assert!(inside.code == Some(1) && inside.stderr.contains("not there"), "{inside:?}");
    assert_eq!(write(&room, "new.txt", &args).code, Some(0));
}

#[test]
fn hooks_of_a_project_run_once_it_is_trusted_and_only_as_it_was() {
    let room = Room::new();
    room.write("work/.haft/guard.sh", "#!/bin/sh\necho guarded >&2; exit 2\n");
    let handler = json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.haft/guard.sh"});
    room.write(PROJECT, &json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}).to_string());
    let untrusted = read(&room);
    let words = "warning: this workspace is not trusted; left out: 1 hook, 1 script; its deny and ask rules hold; `haft trust` \
                 shows all of it\n";
    assert_eq!(untrusted, Ran { stderr: words.into(), ..notes() });

    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let trusted = read(&room);
    assert!(trusted.code == Some(1) && trusted.stderr.contains("settings.json:1)`: guarded"), "{trusted:?}");
}

/// Two hooks of the project, each with a script of its own, one of which changes while the session runs.
#[test]
fn a_script_that_changed_stops_only_the_hooks_that_name_it() {
    let room = Room::new();
    room.write("work/.haft/one.sh", "#!/bin/sh\ntouch one\n");
    room.write("work/.haft/two.sh", "#!/bin/sh\ntouch two\n");
    let handler = |name: &str, args: bool| {
        let command = format!("${{CLAUDE_PROJECT_DIR}}/.haft/{name}.sh");
        let exec = json!({"type": "command", "command": command, "args": [], "onFailure": "continue"});
        let shell = json!({"type": "command", "command": format!("\"{command}\""), "onFailure": "continue"});
        json!({"hooks": [if args { exec } else { shell }]})
    };
    for args in [false, true] {
        let hooks = json!({"hooks": {"PostToolUse": [handler("one", args), handler("two", args)]}});
        room.write("work/.haft/one.sh", "#!/bin/sh\ntouch one\n");
        // On lines of their own: that is what hooks are told apart by.
        room.write(PROJECT, &format!("{hooks:#}"));
        room.write(USER, "{}");
        assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
        room.write(USER, &settings(&room, "PreToolUse", json!({})));
        room.write("hook.sh", "#!/bin/sh\necho 'touch more' >> .haft/one.sh\n");
        let _ = (fs::remove_file(room.path("work/one")), fs::remove_file(room.path("work/two")));
        let said = read(&room);
        assert_eq!((said.code, &said.stdout), (Some(0), &notes().stdout), "{said:?}");
        assert!(said.stderr.contains("changed script `.haft/one.sh`"), "{said:?}");
        assert!(!said.stderr.contains("two.sh"), "{said:?}");
        assert!(room.path("work/two").exists() && !room.path("work/one").exists(), "{said:?}");
        // The next session finds the workspace changed as a whole.
        room.write(USER, "{}");
        assert!(read(&room).stderr.contains("has changed since it was trusted"), "{said:?}");
    }
}

/// The JSON of a provider has no place for it, so it is on standard error.
#[test]
fn a_hook_that_ends_the_turn_is_told() {
    let stop = r#"echo '{"continue": false, "stopReason": "enough"}'"#;
    let (said, _) =
        dispatch(&with_hook("PostToolUse", json!({}), stop), json!({"file_path": "notes.txt"}), &[]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), "a hook ended the turn: enough\n"), "{said:?}");
}

/// What is suggested is a rule that counts when it is given back.
#[test]
fn a_permission_hook_may_give_back_what_is_suggested() {
    let body = r#"exec python3 -c '
import json, sys
asked = json.load(sys.stdin)
decision = {"behavior": "allow", "updatedPermissions": asked["permission_suggestions"]}
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}))'"#;
    let room = with_hook("PermissionRequest", json!({}), body);
    assert_eq!(write(&room, "new.txt", &["--non-interactive"]), ran(0, "created `new.txt`: 1 line\n", ""));
    fs::remove_file(room.path(USER)).unwrap();
    let check = |path: &str| {
        let input = json!({"file_path": path, "content": ""}).to_string();
        room.say(&["check", "Write", &input]).code
    };
    assert_eq!((check("new.txt"), check("other.txt")), (Some(0), Some(10)));
}

/// The label of a hook goes to the model.
#[test]
fn what_follows_the_path_of_an_address_is_not_shown() {
    let room = Room::new();
    let handler = json!({"type": "http", "url": "http://127.0.0.1:1/hook?key=geheim#x"});
    room.write(USER, &json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}).to_string());
    let failed = read(&room);
    assert!(
        failed.stderr.contains("hook `http://127.0.0.1:1/hook (") && !failed.stderr.contains("geheim"),
        "{failed:?}"
    );
}

#[test]
fn looking_runs_no_hook() {
    let room = Room::new();
    room.write("hook.sh", "#!/bin/sh\ntouch ran\nexit 2\n");
    let handler = json!([{"hooks": [{"type": "command", "command": room.path("hook.sh")}]}]);
    let events =
        ["PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "SessionStart", "SessionEnd"];
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), handler.clone())).collect();
    room.write(USER, &json!({"hooks": hooks}).to_string());
    let new = r#"{"file_path": "new.txt", "content": ""}"#;
    assert_eq!(room.say(&["check", "Write", new]).code, Some(10));
    assert_eq!(room.say(&["check", "Write", new, "--deny", "Write"]).code, Some(11));
    assert_eq!(room.say(&["tools"]).code, Some(0));
    assert_eq!(room.say(&["settings", "show"]).code, Some(0));
    assert!(!room.path("work/ran").exists());
    assert_eq!(read(&room).code, Some(1));
    assert!(room.path("work/ran").exists(), "a call does");
}

/// A hook that is an address: one request, answered by hand.
#[test]
fn an_address_is_asked_and_may_say_no() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let room = Room::new();
    let hooks = json!({"PreToolUse": [{"hooks": [{"type": "http", "url": url, "timeout": 30}]}]});
    room.write(USER, &json!({"hooks": hooks}).to_string());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut bytes = [0; 4096];
        while !String::from_utf8_lossy(&request).contains("\"tool_name\":\"Read\"") {
            let count = stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "the request ended early");
            request.extend_from_slice(&bytes[..count]);
        }
        let body = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "from afar"}}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
    });
    let denied = read(&room);
    assert!(denied.code == Some(1) && denied.stderr.ends_with("from afar\n"), "{denied:?}");
    answering.join().unwrap();
}

/// A script in the workspace is one that a command can write, whoever has named it as a hook.
#[test]
fn a_hook_of_the_user_runs_nothing_outside_that_a_command_has_written() {
    for form in ["\"$CLAUDE_PROJECT_DIR\"/tools/hook.sh", "tools/missing.sh", "make -s hook"] {
        let room = Room::new();
        let mark = room.path("beside/ran");
        room.write("work/tools/hook.sh", "#!/bin/sh\ntrue\n");
        room.write("work/Makefile", "hook:\n\ttrue\n");
        let handler = json!({"type": "command", "command": form});
        let group = json!([{"matcher": "Bash", "hooks": [handler]}]);
        room.write(USER, &json!({"hooks": {"PostToolUse": group}}).to_string());
        let shell = format!("#!/bin/sh\ntouch {}\n", mark.display());
        room.write("work/evil.sh", &shell);
        room.write("work/evil.mk", &format!("hook:\n\ttouch {}\n", mark.display()));
        room.write(
            "work/attack.sh",
            "cp evil.sh tools/hook.sh; cp -p evil.sh tools/missing.sh; cp evil.mk Makefile; \
             mv tools other && cp -rp other tools; true",
        );
        let calls = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "bash attack.sh"}},
            {"type": "tool_use", "id": "2", "name": "Bash", "input": {"command": "ls"}},
        ]});
        for _ in 0..2 {
            let mut haft = room.haft(["dispatch", "--allow", "Bash"]);
            haft.env(PATH, std::env::var_os(PATH).unwrap());
            let ran = room.run(haft, &calls.to_string());
            assert!(!mark.exists(), "{form}: {ran:?}");
        }
        let script = fs::read_to_string(room.path("work/tools/hook.sh")).unwrap();
        let named = form.contains("hook.sh");
        assert!(!named || !script.contains("touch"), "{form}: {script}");
    }
    // The control: one that lies elsewhere runs outside, and so did all of these.
    let room = with_hook("PostToolUse", json!({}), "touch \"$HAFT_PROJECT_DIR/../beside/ran\"");
    assert_eq!(read(&room).code, Some(0));
    assert!(room.path("beside/ran").exists());
}

/// Also where no command has written it: nobody said yes to what it is now.
#[test]
fn a_script_of_a_users_hook_that_changed_in_the_session_is_not_run() {
    let room = Room::new();
    room.write("work/tools/hook.sh", "#!/bin/sh\ntrue\n");
    let handler = json!({"type": "command", "command": "./tools/hook.sh"});
    let group = json!([{"matcher": "*", "hooks": [handler]}]);
    room.write(USER, &json!({"hooks": {"PreToolUse": group}}).to_string());
    let input = json!({"file_path": "tools/hook.sh", "content": "#!/bin/sh\nexit 0\n"});
    let calls = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "0", "name": "Read", "input": {"file_path": "tools/hook.sh"}},
        {"type": "tool_use", "id": "1", "name": "Write", "input": input},
        {"type": "tool_use", "id": "2", "name": "Read", "input": {"file_path": "notes.txt"}},
    ]});
    let mut haft = room.haft(["dispatch", "--permission-mode", "acceptEdits"]);
    haft.env(PATH, std::env::var_os(PATH).unwrap());
    let ran = room.run(haft, &calls.to_string());
    assert!(ran.stdout.contains("has changed since this session began"), "{ran:?}");
}

/// With a virtual environment in `PATH` a command could give any program another meaning.
#[test]
fn a_hook_of_the_user_finds_no_program_in_the_workspace() {
    let room = Room::new();
    let mark = room.path("beside/ran");
    for program in ["check-it", "bash", "sh"] {
        room.write(&format!("work/.venv/bin/{program}"), &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    }
    let group = json!([{"hooks": [{"type": "command", "command": "check-it || echo none"}]}]);
    room.write(USER, &json!({"hooks": {"PreToolUse": group}}).to_string());
    let mut haft = room.haft(["call", "Read", r#"{"file_path": "notes.txt"}"#]);
    let path = std::env::var(PATH).unwrap();
    haft.env(PATH, format!("{}:{path}", room.path("work/.venv/bin").display()));
    let ran = room.run(haft, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!mark.exists());
}
