//! One `/tmp`: file tools, rules, commands, agents and servers of a session mean the same files by it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::room::{Ran, Room};
use crate::run::{play, results};

/// A file of the host's `/tmp` that goes with the test.
struct HostFile(PathBuf);

impl HostFile {
    fn new(name: &str) -> HostFile {
        HostFile(format!("/tmp/haft-it-{}-{name}", std::process::id()).into())
    }

    fn with_text(name: &str, text: &str) -> HostFile {
        let file = HostFile::new(name);
        fs::write(&file.0, text).unwrap();
        file
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bash(command: impl Into<String>) -> Value {
    json!({"name": "Bash", "input": {"command": command.into()}})
}

fn read(path: &str) -> Value {
    json!({"name": "Read", "input": {"file_path": path}})
}

fn write(path: &str, content: &str) -> Value {
    json!({"name": "Write", "input": {"file_path": path, "content": content}})
}

/// Makes these calls in one session, one after the other. Gives their results, or the kind and words of the
/// error.
fn in_session(room: &Room, calls: &[Value], flags: &[&str]) -> Vec<String> {
    results(&run(room, calls, &[&["go", "--output", "json"], flags].concat()))
}

fn run(room: &Room, calls: &[Value], args: &[&str]) -> Ran {
    let turns = calls.iter().map(|call| json!({"tool_calls": [call]}));
    let turns: Vec<Value> = turns.chain([json!({"text": "Done."})]).collect();
    room.write("script.json", &json!({"turns": turns}).to_string());
    play(room, args)
}

const AUTO: [&str; 2] = ["--permission-mode", "auto"];
const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn commands_and_file_tools_mean_the_same_files() {
    let room = Room::new();
    let x = HostFile::new("x");
    let path = x.path();
    for flags in [AUTO, BYPASS] {
        let calls = [
            bash(format!("echo data | tee {path}")),
            bash(format!("python3 -c \"print(open('{path}').read())\"")),
            read(path),
            write(&format!("{path}.py"), "print('from a script')\n"),
            bash(format!("python3 {path}.py")),
            json!({"name": "Edit", "input": {"file_path": format!("{path}.py"), "old_string": "from a", "new_string": "from an edited"}}),
            bash(format!("cd /tmp && python3 {path}.py && cp {path} {path}.copy")),
            json!({"name": "Glob", "input": {"pattern": "haft-it-*", "path": "/tmp"}}),
            json!({"name": "Grep", "input": {"pattern": "dat.", "path": "/tmp", "output_mode": "content"}}),
            bash(
                "python3 -c \"import os, tempfile; f = tempfile.NamedTemporaryFile('w', delete=False); f.write('made'); \
                 f.close(); os.rename(f.name, '/tmp/from-mktemp'); print(os.listdir(os.environ['TMPDIR']))\"",
            ),
            read("/tmp/from-mktemp"),
        ];
        let found = in_session(&room, &calls, &flags);
        for (index, part) in [
            (0, "data"),
            (1, "data"),
            (2, "1\tdata"),
            (3, ".py"),
            (4, "from a script"),
            (6, "from an edited script"),
            (7, ".copy"),
            (8, "data"),
            (9, "from-mktemp"),
            (10, "1\tmade"),
        ] {
            assert!(found[index].contains(part), "{flags:?} {index} {part}: {found:#?}");
        }
        // The result says where the user finds it.
        assert!(found[3].contains("/tmp/haft-") && found[3].contains("on the host"), "{found:#?}");
        assert!(!x.0.exists() && !Path::new("/tmp/from-mktemp").exists());
    }
}

/// The folder has a name on the host that begins with `haft-`; commands see what lies in it and not that
/// name.
#[test]
fn commands_see_nothing_in_it_that_no_command_made() {
    let room = Room::new();
    let calls = [
        bash("ls -A /tmp; mkdir /tmp/haft-it-there; echo made > /tmp/haft-it-there/file"),
        bash("find /tmp; cat /tmp/haft-it-there/file; ls -A /tmp"),
    ];
    let found = in_session(&room, &calls, &AUTO);
    assert_eq!(found[0], "(no output)", "{found:#?}");
    let listed = "/tmp\n/tmp/haft-it-there\n/tmp/haft-it-there/file\nmade\nhaft-it-there";
    assert_eq!(found[1], listed, "{found:#?}");
}

/// Controls: without a sandbox, and where the folder was added, it is the host's.
#[test]
fn without_a_sandbox_and_in_an_added_directory_it_is_the_hosts() {
    let room = Room::new();
    let x = HostFile::new("plain");
    let found = in_session(
        &room,
        &[write(x.path(), "host\n"), bash(format!("cat {}", x.path()))],
        &["--no-sandbox", BYPASS[0], BYPASS[1]],
    );
    assert!(found[1].contains("host") && !found[0].contains("on the host"), "{found:#?}");
    assert_eq!(fs::read_to_string(&x.0).unwrap(), "host\n");

    let added = HostFile::new("added");
    fs::create_dir(&added.0).unwrap();
    let path = added.path();
    let calls = [
        write(&format!("{path}/a"), "tool\n"),
        bash(format!("cat {path}/a; echo command > {path}/b; echo own > {path}/../haft-it-own")),
        read(&format!("{path}/b")),
        read(&format!("{path}/../haft-it-own")),
    ];
    let found = in_session(&room, &calls, &["--add-dir", path, AUTO[0], AUTO[1]]);
    assert!(found[1].contains("tool") && found[2].contains("command"), "{found:#?}");
    assert!(found[3].contains("own"), "{found:#?}");
    assert_eq!(fs::read_to_string(added.0.join("a")).unwrap(), "tool\n");
    assert!(added.0.join("b").exists() && !Path::new("/tmp/haft-it-own").exists());
}

#[test]
fn a_path_rule_below_it_refers_to_the_host() {
    let room = Room::new();
    let (out, secret) = (HostFile::new("out"), HostFile::with_text("secret", "SECRET\n"));
    fs::create_dir(&out.0).unwrap();
    let (folder, allow) = (out.path(), format!("Edit(/{}/**)", out.path()));
    let deny = format!("Read(/{})", secret.path());
    let calls = [
        write(&format!("{folder}/a"), "tool\n"),
        bash(format!("python3 -c \"print(open('{folder}/a').read())\" && touch {folder}/b")),
        read(&format!("{folder}/b")),
        read(secret.path()),
        bash(format!("cat {}", secret.path())),
        bash(format!("p={}; python3 -c \"print(open('$p').read())\" 2>&1; true", secret.path())),
    ];
    for flags in [AUTO, BYPASS] {
        let found = in_session(&room, &calls, &[&["--allow", &allow, "--deny", &deny], &flags[..]].concat());
        assert!(found[1].contains("tool") && !found[2].starts_with("Denied"), "{found:#?}");
        assert!(out.0.join("a").exists() && out.0.join("b").exists(), "{found:#?}");
        for denied in &found[3..] {
            assert!(!denied.contains("SECRET"), "{found:#?}");
        }
        assert!(found[3].starts_with("Denied") && found[4].starts_with("Denied"), "{found:#?}");
    }
    assert_eq!(fs::read_to_string(&secret.0).unwrap(), "SECRET\n");
}

/// A rule that begins with a wildcard names no folder of the host's: it is about what the session has there.
#[test]
fn a_rule_for_all_of_it_is_about_the_sessions_files() {
    let room = Room::new();
    let x = HostFile::new("ruled");
    let calls = [write(x.path(), "x\n"), read(x.path())];
    let found = in_session(&room, &calls, &["--allow", "Edit(//tmp/**)"]);
    assert!(found[1].contains("1\tx"), "{found:#?}");
    let found = in_session(&room, &calls, &["--deny", "Edit(//tmp/**)", AUTO[0], AUTO[1]]);
    assert!(found[0].starts_with("Denied"), "{found:#?}");
    assert!(!x.0.exists());
}

/// What only the host has asks, and is then shown to that call, to be read.
#[test]
fn a_file_that_only_the_host_has_needs_an_approval() {
    let room = Room::new();
    let host = HostFile::with_text("theirs", "theirs\n");
    let path = host.path();
    let calls = [
        read(path),
        bash(format!("cat {path}")),
        bash(format!("python3 -c \"print(open('{path}').read())\" 2>&1; true")),
        bash(format!("echo mine > {path}; cat {path}")),
        read(path),
        bash(format!("rm {path} && ls {path} 2>&1; true")),
    ];
    for flags in [AUTO, BYPASS] {
        let found = in_session(&room, &calls, &flags);
        assert!(found[0].starts_with("Denied") && found[1].starts_with("Denied"), "{flags:?} {found:#?}");
        assert!(found[2].contains("FileNotFoundError"), "{found:#?}");
        assert!(found[3].contains("mine") && found[4].contains("mine"), "{found:#?}");
        assert!(!found[5].starts_with("Denied"), "{found:#?}");
    }
    // Approved for the call by a rule for everything, which names no folder of the host's: readable, and no
    // more.
    let calls = [
        read(path),
        bash(format!("cat {path}; cat /tmp/other 2>&1; true")),
        bash(format!("ls -A {path} 2>&1; true")),
        read(path),
    ];
    let found = in_session(&room, &calls, &["--allow", "Read(//tmp/**)", "--allow", "Bash"]);
    assert!(found[0].contains("1\ttheirs") && found[1].contains("theirs"), "{found:#?}");
    // No mount point is left that would be taken for the session's own file.
    assert!(found[3].contains("1\ttheirs"), "{found:#?}");
    assert_eq!(fs::read_to_string(&host.0).unwrap(), "theirs\n");
}

#[test]
fn symlinks_lead_nowhere_that_their_text_does_not_lead_a_command() {
    let room = Room::new();
    room.write("home/.ssh/id_rsa", "KEY-OF-A-TEST\n");
    room.write("work/.env", "DENIED-BY-A-RULE\n");
    let host = HostFile::with_text("linked", "OF-THE-HOST\n");
    let (key, work) = (room.path("home/.ssh/id_rsa"), room.path("work"));
    symlink(host.path(), room.path("work/to-host")).unwrap();
    symlink("/tmp/own", room.path("work/to-own")).unwrap();
    let links = format!(
        "ln -s {} /tmp/key; ln -s {} /tmp/work; ln -s /etc/shadow /tmp/shadow; ln -s ../etc/passwd /tmp/passwd; \
         echo mine > /tmp/own\n",
        key.display(),
        work.display()
    );
    room.write("work/links.sh", &links);
    let denied = [
        read("/tmp/key"),
        read("/tmp/shadow"),
        read("/tmp/work/.env"),
        read("/tmp/../etc/shadow"),
        read("/tmp/work/../home/.ssh/id_rsa"),
        read("to-host"),
        write("/tmp/key", "planted"),
        bash("cat /tmp/key"),
        bash("cat /tmp/work/.env"),
        bash("cat to-host"),
    ];
    let allowed = [
        read("/tmp/work/notes.txt"),
        bash("cat /tmp/passwd"),
        read("to-own"),
        json!({"name": "Grep", "input": {"pattern": "DENIED", "path": "/tmp/work"}}),
        bash("cat to-own"),
    ];
    let calls: Vec<Value> = [bash("sh links.sh")].iter().chain(&denied).chain(&allowed).cloned().collect();
    for flags in [AUTO, BYPASS] {
        let found = in_session(&room, &calls, &[&["--deny", "Read(**/.env)"], &flags[..]].concat());
        for (index, result) in found[1..=denied.len()].iter().enumerate() {
            assert!(result.starts_with("Denied"), "{flags:?} {}: {result}", denied[index]);
        }
        for secret in ["KEY-OF-A-TEST", "DENIED-BY-A-RULE", "OF-THE-HOST"] {
            assert!(!found.iter().any(|result| result.contains(secret)), "{flags:?} {secret}: {found:#?}");
        }
        let found = &found[1 + denied.len()..];
        assert!(found[0].contains("one") && found[1].contains("root"), "{flags:?} {found:#?}");
        assert!(found[2].contains("mine") && found[4].contains("mine"), "{flags:?} {found:#?}");
    }
    assert_eq!(fs::read_to_string(key).unwrap(), "KEY-OF-A-TEST\n");
}

/// A server that leaves a file when it has told its tools, and whose tool reads another.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "initialize":
        version, info = message["params"]["protocolVersion"], {"name": "s", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": open("/tmp/of-agent").read()}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    if "id" in message:
        print(json.dumps(answer), flush=True)
    if method == "tools/list":
        open("/tmp/of-server", "w").write("server")
"#;

#[test]
fn agents_hooks_and_project_servers_share_it() {
    let room = Room::new();
    room.write("work/server.py", SERVER);
    let servers = json!({"mcpServers": {"s": {"command": "python3", "args": ["server.py"]}}});
    room.write("work/.mcp.json", &servers.to_string());
    room.write("work/hook.sh", "#!/bin/sh\ncat /tmp/of-agent > /tmp/of-hook\n");
    let hook = json!({"type": "command", "command": room.path("work/hook.sh")});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Glob", "hooks": [hook]}]}});
    room.write("work/.haft/settings.json", &hooks.to_string());
    for args in [&["trust", "--yes"][..], &["mcp", "approve", "--yes"]] {
        assert_eq!(room.say(args).code, Some(0));
    }
    let agent = json!({"name": "Agent", "input": {"description": "a task", "prompt": "FIRST writes"}});
    let calls = [
        json!({"name": "Monitor", "input": {"file": "/tmp/of-server", "timeout_ms": 60_000}}),
        agent,
        json!({"name": "Glob", "input": {"pattern": "of-*", "path": "/tmp"}}),
        read("/tmp/of-server"),
        read("/tmp/of-hook"),
        json!({"name": "mcp__s__look", "input": {}}),
    ];
    let turns: Vec<Value> =
        calls.iter().map(|call| json!({"tool_calls": [call]})).chain([json!({"text": "Done."})]).collect();
    let of_agent = json!([{"tool_calls": [write("/tmp/of-agent", "agent\n")]}, {"text": "Written."}]);
    let agents = json!([{"when": {"contains": "FIRST"}, "turns": of_agent}]);
    room.write("script.json", &json!({"turns": turns, "agents": agents}).to_string());
    let flags = ["go", "--output", "json", "--allow", "mcp__s", AUTO[0], AUTO[1]];
    let found = results(&play(&room, &flags));
    assert_eq!(found[1], "Written.", "{found:#?}");
    assert!(found[2].contains("of-server") && found[2].contains("of-hook"), "{found:#?}");
    assert!(found[3].contains("server") && found[4].contains("agent"), "{found:#?}");
    assert!(found[5].contains("agent"), "{found:#?}");
    assert!(!Path::new("/tmp/of-agent").exists());
}

#[test]
fn a_script_tool_with_declared_effects_finds_what_it_declared() {
    let room = Room::new();
    let effects = r#", "input_schema": {"type": "object", "properties": {"from": {"type": "string"}, "to": {"type": "string"}}}, "effects": {"reads": ["{from}"], "writes": ["{to}"]}"#;
    let manifest =
        format!(r#"{{"name": "copies", "description": "Copies.", "command": ["./run"]{effects}}}"#);
    room.write("tools/copies/tool.json", &manifest);
    room.write("tools/copies/run", "#!/bin/sh\ncat /tmp/from > /tmp/to; cat /tmp/to; ls /tmp\n");
    let tools = room.path("tools");
    let calls = [
        bash("echo copied > /tmp/from; echo beside > /tmp/beside"),
        json!({"name": "copies", "input": {"from": "/tmp/from", "to": "/tmp/to"}}),
        read("/tmp/to"),
    ];
    let found = in_session(&room, &calls, &["--tools-dir", tools.to_str().unwrap(), AUTO[0], AUTO[1]]);
    assert!(found[1].contains("copied") && !found[1].contains("beside"), "{found:#?}");
    assert!(found[2].contains("copied"), "{found:#?}");
}

/// The folder goes with its session, and the model is told what went when the session continues.
#[test]
fn a_session_that_continues_is_told_what_is_gone() {
    let room = Room::new();
    let calls = [write("/tmp/haft-it-of-tool", "x"), bash("echo x > /tmp/haft-it-of-command")];
    let turns = calls.iter().map(|call| json!({"tool_calls": [call]})).chain([json!({"text": "Done."})]);
    let knows = json!({
        "expect": [{"prompt": true, "contains": "/tmp/haft-it-of-tool"}, {"prompt": true, "contains": "/tmp/haft-it-of-command"}, {"prompt": true, "contains": "no longer exists"}],
        "text": "I know.",
    });
    let turns: Vec<Value> = turns.chain([knows]).collect();
    room.write("script.json", &json!({"turns": turns}).to_string());
    let first = play(&room, &["go", AUTO[0], AUTO[1]]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let again = play(&room, &["--continue", "go on"]);
    assert!(again.code == Some(0) && again.stdout.contains("I know."), "{again:?}");
}
