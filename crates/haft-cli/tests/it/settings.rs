//! Settings on the command line: who wins, what is said of mistakes, and what is shown.

use crate::json::{keys, valid_in};
use crate::room::{Room, ran};

#[test]
fn a_file_that_can_not_be_understood_stops_every_command() {
    for (file, text, expected) in [
        (
            "work/.haft/settings.json",
            "{\n  \"permissions\": {",
            ".haft/settings.json:2:18: this object has no `}`",
        ),
        ("work/.claude/settings.json", "{\"permissions\": 3}", ".claude/settings.json:1:17: `permissions`: "),
        ("work/.claude/settings.local.json", "", ".claude/settings.local.json:1:1: there is no value"),
        ("home/.config/haft/settings.json", "{} x", "~/.config/haft/settings.json:1:4: "),
        ("home/.claude/settings.json", "[]", "~/.claude/settings.json:1:1: "),
        ("work/.mcp.json", "{\"mcpServers\": [}", ".mcp.json:1:17: "),
        (
            "work/.haft/settings.json",
            r#"{"permissions": {"deny": ["Read(../x)"]}}"#,
            ".haft/settings.json:1:27: bad rule `Read(../x)`: ",
        ),
        (
            "work/.haft/settings.json",
            r#"{"permissions": {"defaultMode": "yolo"}}"#,
            ".haft/settings.json:1:33: `permissions.defaultMode`: ",
        ),
    ] {
        let room = Room::new();
        room.write(file, text);
        for args in [
            &["tools"][..],
            &["call", "Read", r#"{"file_path": "notes.txt"}"#],
            &["dispatch"],
            &["settings", "show"],
            &["check", "Read", r#"{"file_path": "notes.txt"}"#],
            &["trust"],
        ] {
            let stopped = room.say(args);
            assert_eq!(
                (stopped.code, stopped.stdout.as_str()),
                (Some(2), ""),
                "{file} {args:?}: {stopped:?}"
            );
            assert!(
                stopped.stderr.starts_with(&format!("error: {expected}")),
                "{args:?}: {}",
                stopped.stderr
            );
        }
    }
}

#[test]
fn what_can_not_be_read_is_no_settings_file() {
    let room = Room::new();
    std::fs::create_dir_all(room.path("work/.haft/settings.json")).unwrap();
    let stopped = room.say(&["tools"]);
    assert_eq!(stopped.code, Some(2));
    assert!(stopped.stderr.starts_with("error: .haft/settings.json: can't be read: "), "{stopped:?}");
    let room = Room::new();
    let mut relative = room.haft(["tools"]);
    relative.env("HAFT_CONFIG_DIR", "conf");
    let stopped = room.run(relative, "");
    assert!(stopped.code == Some(2) && stopped.stderr.contains("give an absolute path"), "{stopped:?}");
}

#[test]
fn a_file_that_a_flag_names_counts_at_once_and_must_be_there() {
    let room = Room::new();
    room.write("more.json", r#"{"permissions": {"deny": ["Glob"]}, /* trusted */ "env": {"A": "1"}}"#);
    let listed = room.say(&[
        "tools",
        "--settings",
        "../more.json",
        "--settings",
        r#"{"permissions": {"deny": ["Grep"]}}"#,
    ]);
    assert!(listed.code == Some(0) && listed.stderr.is_empty(), "{listed:?}");
    assert!(!listed.stdout.contains("Glob") && !listed.stdout.contains("Grep"), "{listed:?}");
    let gone = room.say(&["tools", "--settings", "gone.json"]);
    let words =
        "error: gone.json: there is no such file; give one that exists, or JSON that begins with `{`\n";
    assert_eq!(gone, ran(2, "", words));
    let bad = room.say(&["tools", "--settings", r#"{"permissions": {"deny": [1]}}"#]);
    assert!(
        bad.code == Some(2) && bad.stderr.starts_with("error: inline settings:1:27: `permissions.deny[0]`: "),
        "{bad:?}"
    );
}

#[test]
fn every_value_is_shown_with_its_place() {
    let room = Room::new();
    room.write(
        "home/.config/haft/settings.json",
        "{\n \"permissions\": {\"allow\": [\"Read\"], \"defaultMode\": \"plan\"},\n \"env\": {\"A_TOKEN\": \"geheim\", \"B\": \"b\"}\n}",
    );
    room.write(
        "work/.claude/settings.json",
        r#"{"permissions": {"deny": [{"rule": "Read(.env)", "message": "keys"}], "allow": ["Edit"]}, "permisions": {}}"#,
    );
    let shown = room.say(&["settings", "show", "--ask", "Write"]);
    let expected = "files      project       .claude/settings.json\n\
                    \x20          user          ~/.config/haft/settings.json\n\
                    trust      no; `haft trust` shows what is left out\n\
                    \n\
                    permissions.defaultMode\n\
                    \x20 plan                                     ~/.config/haft/settings.json:2\n\
                    \n\
                    permissions.deny\n\
                    \x20 {\"message\":\"keys\",\"rule\":\"Read(.env)\"}   .claude/settings.json:1\n\
                    \n\
                    permissions.ask\n\
                    \x20 Write                                    command line\n\
                    \n\
                    permissions.allow\n\
                    \x20 Read                                     ~/.config/haft/settings.json:2\n\
                    \n\
                    env.A_TOKEN\n\
                    \x20 (hidden)                                 ~/.config/haft/settings.json:3\n\
                    \n\
                    env.B\n\
                    \x20 b                                        ~/.config/haft/settings.json:3\n";
    let said = "warning: .claude/settings.json:1: `permisions` is not a key of settings and does nothing; did you mean `permissions`?\n\
                warning: this workspace is not trusted; left out: 1 allow rule; its deny and ask rules hold; `haft trust` shows all of it\n";
    assert_eq!(shown, ran(0, expected, said));

    let args = ["settings", "show", "--output", "json"];
    let json = valid_in(&room, "settings-show.schema.json", &args, 0);
    assert_eq!(keys(&json), ["files", "settings", "trust_hash", "trusted", "warnings", "workspace"]);
    assert_eq!(json["settings"][0]["key"], "permissions.defaultMode");
    assert!(!json.to_string().contains("geheim"), "{json}");
}

/// Every key that a file can have and that counts is shown.
#[test]
fn no_key_is_forgotten() {
    let room = Room::new();
    let settings = r#"{
      "permissions": {"allow": ["A"], "ask": ["B"], "deny": ["C"], "defaultMode": "dontAsk", "additionalDirectories": ["../beside"],
        "disableBypassPermissionsMode": "disable", "disableAutoMode": "disable", "blockReadsOutsideWorkingDirectories": true,
        "blockWritesOutsideWorkingDirectories": true, "denyInsteadOfPrompting": true},
      "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
          {"type": "command", "command": "a", "args": ["b"], "shell": "bash", "async": true, "timeout": 2, "once": true, "if": "Bash(x)", "onFailure": "continue", "statusMessage": "s"},
          {"type": "http", "url": "http://h", "headers": {"Authorization": "geheim", "X": "y"}, "allowedEnvVars": ["E"]},
          {"type": "mcp_tool", "server": "s", "tool": "t", "input": {"i": 1}},
          {"type": "prompt", "prompt": "p", "model": "m"}, {"type": "agent", "prompt": "p", "continueOnBlock": true}]}]},
      "allowedHttpHookUrls": ["http://h"], "httpHookAllowedEnvVars": ["E"],
      "env": {"V": "v"}, "effects": {"t": {"reads": ["{p}"]}},
      "sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "failIfUnavailable": true, "allowUnsandboxedCommands": false,
        "excludedCommands": ["e"], "gitWriters": ["g"], "presets": ["package-registries"], "enableWeakerNestedSandbox": true,
        "filesystem": {"allowRead": ["r"], "allowWrite": ["w"], "denyRead": ["dr"], "denyWrite": ["dw"]},
        "network": {"allowedDomains": ["a"], "deniedDomains": ["d"], "httpProxyPort": 8080}},
      "enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["x"], "disabledMcpjsonServers": ["off"],
      "allowedMcpServers": [{"serverName": "x"}], "deniedMcpServers": [{"serverUrl": "http://*"}],
      "classifier": {"command": ["c"], "timeoutMs": 5}, "repetitionGuard": 2
    }"#;
    room.write("home/.config/haft/settings.json", settings);
    room.write("work/.mcp.json", r#"{"mcpServers": {"hub": {"type": "http", "url": "http://x", "headers": {"Cookie": "geheim"}}, "off": {"command": "o"}}}"#);
    let args = ["settings", "show", "--output", "json"];
    let json = valid_in(&room, "settings-show.schema.json", &args, 0);
    let mut shown: Vec<&str> =
        json["settings"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    shown.dedup();
    assert_eq!(
        shown,
        [
            "permissions.defaultMode",
            "permissions.deny",
            "permissions.ask",
            "permissions.allow",
            "permissions.additionalDirectories",
            "permissions.disableBypassPermissionsMode",
            "permissions.disableAutoMode",
            "permissions.blockReadsOutsideWorkingDirectories",
            "permissions.blockWritesOutsideWorkingDirectories",
            "permissions.denyInsteadOfPrompting",
            "hooks.PreToolUse",
            "allowedHttpHookUrls",
            "httpHookAllowedEnvVars",
            "env.V",
            "effects.t",
            "sandbox.enabled",
            "sandbox.autoAllowBashIfSandboxed",
            "sandbox.failIfUnavailable",
            "sandbox.allowUnsandboxedCommands",
            "sandbox.enableWeakerNestedSandbox",
            "sandbox.excludedCommands",
            "sandbox.gitWriters",
            "sandbox.filesystem.allowWrite",
            "sandbox.filesystem.denyWrite",
            "sandbox.filesystem.allowRead",
            "sandbox.filesystem.denyRead",
            "sandbox.network.allowedDomains",
            "sandbox.network.deniedDomains",
            "sandbox.network.httpProxyPort",
            "sandbox.presets",
            "enableAllProjectMcpServers",
            "enabledMcpjsonServers",
            "disabledMcpjsonServers",
            "allowedMcpServers",
            "deniedMcpServers",
            "mcpServers.hub",
            "mcpServers.off",
            "classifier",
            "repetitionGuard",
        ]
    );
    assert!(!json.to_string().contains("geheim"), "{json}");
    let of = |key: &str| {
        json["settings"].as_array().unwrap().iter().filter(|row| row["key"] == key).collect::<Vec<_>>()
    };
    assert_eq!(of("hooks.PreToolUse").len(), 5);
    assert_eq!(of("mcpServers.hub")[0]["left_out"], "the workspace is not trusted");
    assert_eq!(of("mcpServers.off")[0]["left_out"], "turned off by ~/.config/haft/settings.json:16");
    let none = Room::new().say(&["settings", "show"]);
    assert_eq!(none, ran(0, "files      none\ntrust      not needed\n\nnothing is set\n", ""));
}

#[test]
fn the_schema_is_the_published_one() {
    let printed = Room::new().say(&["settings", "schema"]);
    let published = crate::room::crate_path("../../docs/schemas/settings.schema.json");
    assert_eq!(printed, ran(0, &std::fs::read_to_string(published).unwrap(), ""));
}

#[test]
fn directories_and_variables_of_settings_reach_tools() {
    let room = Room::new();
    room.script("tools/t", "t", "echo $A $B $PATH_OF_TEST", r#", "effects": {}"#);
    let settings = r#"{"permissions": {"additionalDirectories": ["../beside", "../gone"]}, "env": {"A": "one", "B": 2, "PATH_OF_TEST": "p"}}"#;
    room.write("home/.config/haft/settings.json", settings);
    let read = room.say(&["call", "Read", r#"{"file_path": "../beside/other.txt"}"#]);
    let words = "warning: ~/.config/haft/settings.json:1: the directory `ROOM/gone` can't be used: it does not exist\n";
    assert_eq!(read, ran(0, "1\toutside\n", words));
    let called = room.say(&["call", "t", "--tools-dir", "../tools", "--allow", "t"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "one 2 p\n"));
}

#[test]
fn servers_of_a_flag_are_listed_and_hide_those_of_the_same_name() {
    let room = Room::new();
    room.write("given.json", r#"{"mcpServers": {"hub": {"command": "given"}}}"#);
    room.write(
        "home/.claude.json",
        r#"{"mcpServers": {"hub": {"command": "mine"}, "own": {"command": "o"}}}"#,
    );
    let args = ["settings", "show", "--output", "json", "--mcp-config", "../given.json"];
    let json = valid_in(&room, "settings-show.schema.json", &args, 0);
    let rows: Vec<String> = json["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let left_out = row["left_out"].as_str().unwrap_or("used");
            room.plain(&format!("{} {} {left_out}", row["key"].as_str().unwrap(), row["value"]["command"]))
        })
        .collect();
    assert_eq!(
        rows,
        [
            "mcpServers.hub \"given\" used",
            "mcpServers.own \"o\" used",
            "mcpServers.hub \"mine\" ROOM/given.json:1 names one that is called the same",
        ]
    );
    for (file, words) in [("../nowhere.json", "there is no such file"), ("notes.txt", "notes.txt:1:1: ")] {
        let stopped = room.say(&["tools", "--mcp-config", file]);
        assert!(stopped.code == Some(2) && stopped.stderr.contains(words), "{stopped:?}");
    }
}

/// A relative folder would be another one in every workspace, of the workspace's choice.
#[test]
fn folders_of_the_environment_are_absolute() {
    for name in ["HAFT_CONFIG_DIR", "HAFT_STATE_DIR", "CLAUDE_CONFIG_DIR"] {
        for args in [
            &["tools"][..],
            &["call", "Read", r#"{"file_path": "notes.txt"}"#],
            &["settings", "show"],
            &["trust"],
            &["trust", "--forget"],
        ] {
            let room = Room::new();
            let mut command = room.haft(args);
            command.env(name, "relative/folder");
            let stopped = room.run(command, "");
            assert_eq!(
                (stopped.code, stopped.stdout.as_str()),
                (Some(2), ""),
                "{name} {args:?}: {stopped:?}"
            );
            let words = format!("`{name}`: `relative/folder` is relative");
            assert!(stopped.stderr.contains(&words), "{name} {args:?}: {stopped:?}");
        }
    }
}
