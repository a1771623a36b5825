//! Layers: which files apply, in which order, and which errors stop everything.

use std::path::Path;

use haft::ports::PermissionMode;
use haft_policy::settings::{
    HookAction, McpTransport, OnFailure, RepetitionGuard, ServerMatch, SettingsFlags, TrustStatus,
    WithheldReason,
};
use haft_policy::source::{RuleList, SourceScope};

use crate::room::{Room, json_flag, rules, set_mode};

#[test]
fn lists_of_all_layers_are_put_together_strongest_first() {
    let rule = |name: &str| format!(r#"{{"permissions": {{"deny": ["{name}"]}}}}"#);
    let room = Room::new()
        .with("etc/settings.json", &rule("managed"))
        .with("work/.haft/settings.local.json", &rule("local"))
        .with("work/.claude/settings.local.json", &rule("claude-local"))
        .with("work/.haft/settings.json", &rule("project"))
        .with("work/.claude/settings.json", &rule("claude-project"))
        .with("config/settings.json", &rule("user"))
        .with("home/.claude/settings.json", &rule("claude-user"))
        .with("elsewhere/given.json", &rule("given"));
    let flags = SettingsFlags {
        settings: vec!["../elsewhere/given.json".to_owned(), rule("inline")],
        deny: vec!["flag".to_owned()],
        ..SettingsFlags::default()
    };
    let loaded = room.load_with(&flags);
    assert_eq!(
        rules(&loaded.settings.permissions.rules),
        "-managed -flag -inline -given -local -claude-local -project -claude-project -user -claude-user"
    );
    let sources = loaded.settings.permissions.rules.iter().map(|rule| {
        let anchor = rule.source.anchor.strip_prefix(&room.root).unwrap();
        format!(
            "{:?} {} {}",
            rule.source.scope,
            rule.source.to_string().replace(room.root.to_str().unwrap(), ""),
            anchor.display()
        )
    });
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [
            "Managed /etc/settings.json:1 etc",
            "CommandLine command line work",
            "CommandLine inline settings:1 work",
            "CommandLine /elsewhere/given.json:1 elsewhere",
            "Local .haft/settings.local.json:1 work",
            "Local .claude/settings.local.json:1 work",
            "Project .haft/settings.json:1 work",
            "Project .claude/settings.json:1 work",
            "User /config/settings.json:1 config",
            "User ~/.claude/settings.json:1 home/.claude",
        ]
    );
}

#[test]
fn scalars_are_the_strongest_layers() {
    let mode = |mode: &str| format!(r#"{{"permissions": {{"defaultMode": "{mode}"}}}}"#);
    let found = |room: &Room, flags: &SettingsFlags| {
        let mode = room.load_with(flags).settings.permissions.default_mode.unwrap();
        format!("{} {:?}", mode.value, mode.source.scope)
    };
    let room = Room::new().with("home/.claude/settings.json", &mode("auto"));
    assert_eq!(found(&room, &SettingsFlags::default()), "auto User");
    // haft's own file of the same scope takes precedence.
    room.write("config/settings.json", &mode("acceptEdits"));
    assert_eq!(found(&room, &SettingsFlags::default()), "acceptEdits User");
    room.write("work/.haft/settings.json", &mode("default"));
    assert_eq!(found(&room, &SettingsFlags::default()), "default Project");
    room.write("work/.haft/settings.local.json", &mode("plan"));
    assert_eq!(found(&room, &SettingsFlags::default()), "plan Local");
    assert_eq!(found(&room, &json_flag(&mode("acceptEdits"))), "acceptEdits CommandLine");
    let flags = SettingsFlags {
        permission_mode: Some(PermissionMode::BypassPermissions),
        ..json_flag(&mode("acceptEdits"))
    };
    assert_eq!(found(&room, &flags), "bypassPermissions CommandLine");
    room.write("etc/settings.json", &mode("dontAsk"));
    assert_eq!(found(&room, &flags), "dontAsk Managed");
}

#[test]
fn every_value_knows_its_line() {
    let room = Room::new().with(
        "config/settings.json",
        "\u{feff}{ // mine\r\n  \"permissions\": {\r\n    \"allow\": [\r\n      \"Read\",\r\n      {\"rule\": \"Bash(npm test)\",\r\n       \"match\": [\"npm test\", {\"command\": \"npm test\"}], \"not_match\": [\"npm run\"], \"message\": \"no\"},\r\n    ],\r\n  },\r\n  \"env\": {\r\n    \"A\": \"x\", \"B\": 1\r\n  },\r\n}",
    );
    let settings = room.load().settings;
    let [read, bash] = &settings.permissions.rules[..] else { panic!() };
    assert_eq!((read.source.line, bash.source.line), (Some(4), Some(5)));
    assert_eq!((bash.matches.len(), bash.not_matches.len(), bash.message.as_deref()), (2, 1, Some("no")));
    assert_eq!(bash.list, RuleList::Allow);
    assert_eq!((settings.env["A"].value.0.as_str(), settings.env["B"].value.0.as_str()), ("x", "1"));
    assert_eq!(settings.env["B"].source.line, Some(10));
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn a_file_that_is_wrong_stops_everything_and_is_named() {
    let check = |text: &str, expected: &str| {
        let room = Room::new().with("work/.haft/settings.json", text);
        assert_eq!(room.error(), expected, "{text}");
    };
    check(
        "{\n  \"permissions\": {\n    \"deny\": [\"Read\"\n  }\n}",
        ".haft/settings.json:4:3: no `}` is accepted here; something before it isn't closed, or there is one too many",
    );
    check("", ".haft/settings.json:1:1: there is no value; an object is accepted, at least `{}`");
    check("[]", ".haft/settings.json:1:1: a list is not accepted; an object is");
    check(
        r#"{"permissions": {"deny": "Bash"}}"#,
        ".haft/settings.json:1:26: `permissions.deny`: the string \"Bash\" is not accepted; a list is",
    );
    check(
        r#"{"permissions": {"deny": [7]}}"#,
        ".haft/settings.json:1:27: `permissions.deny[0]`: the number 7 is not accepted; a rule such as \"Bash(npm test)\", or an object with the key `rule`, is",
    );
    check(
        r#"{"permissions": {"deny": [{"match": []}]}}"#,
        ".haft/settings.json:1:27: `permissions.deny[0]`: the key `rule` is missing",
    );
    check(
        r#"{"permissions": {"defaultMode": "yolo"}}"#,
        ".haft/settings.json:1:33: `permissions.defaultMode`: the string \"yolo\" is not accepted; one of \"default\", \"manual\", \"acceptEdits\", \"plan\", \"auto\", \"dontAsk\", \"bypassPermissions\" is",
    );
    check(
        "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [\n {\"type\": \"command\"}]}]}}",
        ".haft/settings.json:2:2: a hook of type `command` needs the key `command`",
    );
    check(
        r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "timeout": 0}]}]}}"#,
        ".haft/settings.json:1:85: the time limit 0 is not accepted; seconds above 0, at most 86400, are",
    );
    check(
        r#"{"permissions": {"deny": ["A"]}, "permissions": {}}"#,
        ".haft/settings.json:1:34: `permissions` is given twice, first on line 1; keep one of them",
    );
}

#[test]
fn all_broken_files_are_named_at_once() {
    let room = Room::new()
        .with("work/.haft/settings.json", "{")
        .with("config/settings.json", "[")
        .with("work/.mcp.json", "x");
    let error = room.error();
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(error.contains("config/settings.json:1:1") && error.contains(".mcp.json:1:1"), "{error}");
}

/// An unreadable file doesn't count as an empty one.
#[test]
fn what_is_no_readable_file_stops_everything() {
    let room = Room::new();
    let path = room.at("work/.haft/settings.json");
    let check = |part: &str| {
        let error = room.error();
        assert!(error.starts_with(".haft/settings.json:") && error.contains(part), "{error}");
        assert!(error.contains(": can't be read: "), "{error}");
        if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) }.unwrap();
    };
    std::fs::create_dir_all(&path).unwrap();
    check("a directory");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    check("a fifo");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    check("a device");
    std::os::unix::fs::symlink("nowhere.json", &path).unwrap();
    check("leads nowhere");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    check("longer than");
    room.write("work/.haft/settings.json", &format!("{{\"x\": \"{}\"}}", "x".repeat(1024 * 1024)));
    check("longer than");
    std::fs::write(&path, b"{\"permissions\": \xff}").unwrap();
    check("not UTF-8");
    if !rustix::process::geteuid().is_root() {
        room.write("work/.haft/settings.json", "{}");
        set_mode(&path, 0o000);
        check("permissions");
    }
    room.load();
}

#[test]
fn a_file_that_a_flag_names_has_to_be_there() {
    let room = Room::new();
    let error = room.try_load(&json_flag("absent.json")).unwrap_err().to_string();
    assert!(error.starts_with("absent.json: there is no such file"), "{error}");
    let error = room.try_load(&json_flag("{\"permissions\": []}")).unwrap_err().to_string();
    assert_eq!(error, "inline settings:1:17: `permissions`: a list is not accepted; an object is");
}

#[test]
fn unknown_keys_are_told_with_the_closest_name() {
    let room = Room::new().with(
        "config/settings.json",
        r#"{"permissions": {"alow": ["Read"]}, "permission": {}, "model": "x", "statusLine": {}, "$schema": "s",
            "hooks": {"PreTooluse": [], "Stop": [{"hooks": [{"type": "command", "command": "x", "timout": 3}]}]},
            "zzz": 1, "effects": {"mcp__x": {"read": []}}, "sandbox": {"enabld": true}}"#,
    );
    let settings = room.load().settings;
    let path = room.at("config/settings.json").display().to_string();
    let warnings: Vec<String> =
        settings.warnings.iter().map(|warning| warning.to_string().replace(&path, "f")).collect();
    assert_eq!(
        warnings,
        [
            "f:1: `permission` is not a key of settings and does nothing; did you mean `permissions`?",
            "f:3: `zzz` is not a key of settings and does nothing",
            "f:1: `alow` is not a key of `permissions` and does nothing; did you mean `allow`?",
            "f:2: `timout` is not a key of `hooks` and does nothing; did you mean `timeout`?",
            "f:3: `read` is not a key of `mcp__x` and does nothing; did you mean `reads`?",
            "f:3: `enabld` is not a key of `sandbox` and does nothing; did you mean `enabled`?",
            "f:2: there is no event `PreTooluse`, so its hooks never run; did you mean `PreToolUse`?",
        ]
    );
}

/// A list of rules in the wrong place would look effective.
#[test]
fn a_key_in_the_wrong_object_is_told_where_it_belongs() {
    let room = Room::new().with(
        "config/settings.json",
        r#"{"deny": ["Read"], "disableBypassPermissionsMode": "disable",
            "permissions": {"hooks": {}, "allowedDomains": []}, "excludedCommands": []}"#,
    );
    let settings = room.load().settings;
    let path = room.at("config/settings.json").display().to_string();
    let warnings: Vec<String> =
        settings.warnings.iter().map(|warning| warning.to_string().replace(&path, "f")).collect();
    assert_eq!(
        warnings,
        [
            "f:1: `deny` is not a key of settings and does nothing; it belongs in `permissions`",
            "f:1: `disableBypassPermissionsMode` is not a key of settings and does nothing; it belongs in \
             `permissions`",
            "f:2: `excludedCommands` is not a key of settings and does nothing; it belongs in `sandbox`",
            "f:2: `hooks` is not a key of `permissions` and does nothing; it belongs at the top of the file",
            "f:2: `allowedDomains` is not a key of `permissions` and does nothing",
        ]
    );
}

#[test]
fn hooks_are_merged_weakest_first_and_identical_ones_run_once() {
    let hook = |command: &str, more: &str| {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"matcher": "Bash", "hooks": [{{"type": "command", "command": "{command}"{more}}}]}}]}}}}"#
        )
    };
    let room = Room::new()
        .with("etc/settings.json", &hook("managed", ""))
        .with("config/settings.json", &hook("both", ""))
        .with("home/.claude/settings.json", &hook("both", r#", "timeout": 5, "onFailure": "continue""#))
        .with("work/.haft/settings.json", &hook("both", ""))
        .with("work/.claude/settings.json", &hook("project", r#", "args": ["a", "b"], "async": true"#));
    room.trust();
    let hooks = room.load().settings.hooks;
    let shown: Vec<String> = hooks
        .groups
        .iter()
        .flat_map(|group| &group.handlers)
        .map(|handler| {
            let HookAction::Command { command, args, .. } = &handler.action else { panic!() };
            format!(
                "{command} {args:?} {:?} {:?} {:?}",
                handler.timeout, handler.on_failure, handler.source.scope
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "both None Some(5s) Some(Continue) User",
            "both None None None User",
            "project Some([\"a\", \"b\"]) None None Project",
            "managed None None None Managed",
        ]
    );
    assert_eq!(hooks.groups[0].matcher.as_deref(), Some("Bash"));
    assert_eq!(OnFailure::Continue, hooks.groups[0].handlers[0].on_failure.unwrap());
}

#[test]
fn hooks_can_be_turned_off_but_not_somebody_elses() {
    let hook = |command: &str, more: &str| {
        format!(
            r#"{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "{command}"}}]}}]}}{more}}}"#
        )
    };
    let off = r#", "disableAllHooks": true"#;
    let commands = |room: &Room| {
        let hooks = room.load().settings.hooks;
        let handlers = hooks.groups.into_iter().flat_map(|group| group.handlers);
        let commands = handlers.map(|handler| match handler.action {
            HookAction::Command { command, .. } => command,
            other => panic!("{other:?}"),
        });
        commands.collect::<Vec<_>>().join(" ")
    };
    let room = Room::new()
        .with("etc/settings.json", &hook("managed", ""))
        .with("config/settings.json", &hook("user", ""))
        .with("work/.haft/settings.json", &hook("project", ""));
    room.trust();
    assert_eq!(commands(&room), "user project managed");
    // A repository disables its own hooks, not the user's.
    room.write("work/.haft/settings.json", &hook("project", off));
    room.trust();
    assert_eq!(commands(&room), "user managed");
    room.write("config/settings.json", &hook("user", off));
    assert_eq!(commands(&room), "managed");
    room.write("etc/settings.json", &hook("managed", off));
    assert_eq!(commands(&room), "");
    room.write("config/settings.json", &hook("user", ""));
    room.write("etc/settings.json", &hook("managed", r#", "allowManagedHooksOnly": true"#));
    assert_eq!(commands(&room), "managed");
}

#[test]
fn what_only_the_owner_says_counts_only_there() {
    let only = r#"{"permissions": {"allowManagedPermissionRulesOnly": true, "allow": ["A"], "deny": ["D"]}, "allowManagedHooksOnly": true}"#;
    let room = Room::new().with("config/settings.json", only);
    let settings = room.load().settings;
    assert_eq!(rules(&settings.permissions.rules), "-D +A");
    assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    room.write("etc/settings.json", &only.replace("\"A\"", "\"M\""));
    let flags =
        SettingsFlags { allow: vec!["F".to_owned()], deny: vec!["G".to_owned()], ..SettingsFlags::default() };
    // If only managed settings may allow, deny rules of other files still apply.
    assert_eq!(rules(&room.load_with(&flags).settings.permissions.rules), "-D +M -G -D");
}

#[test]
fn blocks_hold_wherever_they_are_said() {
    let room = Room::new().with(
        "work/.haft/settings.json",
        r#"{"permissions": {"blockReadsOutsideWorkingDirectories": true, "blockWritesOutsideWorkingDirectories": true,
            "denyInsteadOfPrompting": true, "disableBypassPermissionsMode": "disable", "disableAutoMode": "disable"}}"#,
    );
    room.write(
        "config/settings.json",
        r#"{"permissions": {"blockReadsOutsideWorkingDirectories": false, "denyInsteadOfPrompting": false, "defaultMode": "auto"}}"#,
    );
    let loaded = room.load();
    let permissions = &loaded.settings.permissions;
    assert!(permissions.block_reads_outside.is_some() && permissions.block_writes_outside.is_some());
    assert!(permissions.deny_instead_of_prompting.is_some());
    assert!(
        permissions.forbids(PermissionMode::BypassPermissions).is_some()
            && permissions.forbids(PermissionMode::Auto).is_some()
    );
    assert!(permissions.forbids(PermissionMode::Plan).is_none());
    assert_eq!(permissions.default_mode, None);
    assert!(
        loaded.settings.warnings[0].message.contains("disabled by .haft/settings.json:2"),
        "{:?}",
        loaded.settings.warnings
    );
    // A command-line flag of the user is stronger than a file. A workspace can't revert the user's setting.
    let free = r#"{"permissions": {"denyInsteadOfPrompting": false}}"#;
    assert!(room.load_with(&json_flag(free)).settings.permissions.deny_instead_of_prompting.is_none());
    room.write("work/.haft/settings.json", free);
    room.write("config/settings.json", r#"{"permissions": {"denyInsteadOfPrompting": true}}"#);
    assert!(room.load().settings.permissions.deny_instead_of_prompting.is_some());
}

#[test]
fn the_local_file_of_claude_is_at_the_root_of_the_repository() {
    let deny = |name: &str| format!(r#"{{"permissions": {{"deny": ["{name}"]}}}}"#);
    let room = Room::new()
        .with("work/.git/HEAD", "ref: refs/heads/main\n")
        .with("work/.claude/settings.local.json", &deny("root-local"))
        .with("work/.claude/settings.json", &deny("root-project"))
        .with("work/sub/.claude/settings.local.json", &deny("sub-claude-local"))
        .with("work/sub/.claude/settings.json", &deny("sub-project"))
        .with("work/sub/.haft/settings.local.json", &deny("sub-local"));
    let loaded =
        haft_policy::trust::load_settings(&room.places_in("work/sub"), &SettingsFlags::default()).unwrap();
    let permissions = &loaded.settings.permissions;
    assert_eq!(rules(&permissions.rules), "-sub-local -root-local -sub-project");
    // A path that begins with `/` is relative to the session's directory, not to the file.
    assert!(permissions.rules.iter().all(|rule| *rule.source.anchor == *room.at("work/sub")));
}

#[test]
fn in_the_home_folder_one_file_is_read_once_as_the_users() {
    let room = Room::new()
        .with("home/.claude/settings.json", r#"{"permissions": {"allow": ["Read"], "deny": ["X"]}}"#);
    let loaded =
        haft_policy::trust::load_settings(&room.places_in("home"), &SettingsFlags::default()).unwrap();
    assert_eq!(rules(&loaded.settings.permissions.rules), "-X +Read");
    assert_eq!(loaded.settings.permissions.rules[0].source.scope, SourceScope::User);
    assert!(loaded.inventory.is_empty());
}

#[test]
fn directories_are_made_absolute() {
    let room = Room::new().with(
        "config/settings.json",
        r#"{"permissions": {"additionalDirectories": ["../other", "~/x", "/abs/./y", "~"]}}"#,
    );
    let flags = SettingsFlags { add_dirs: vec!["flag".into()], ..SettingsFlags::default() };
    let settings = room.load_with(&flags).settings;
    let dirs: Vec<&Path> =
        settings.permissions.additional_directories.iter().map(|dir| dir.value.as_path()).collect();
    assert_eq!(
        dirs,
        [room.at("work/flag"), room.at("other"), room.at("home/x"), "/abs/y".into(), room.at("home")]
    );
}

#[test]
fn everything_else_is_typed_and_knows_where_it_stands() {
    let room = Room::new().with(
        "config/settings.json",
        r#"{
            "effects": {"mcp__github__get_*": {"reaches": ["api.github.com"]}, "mcp__fs__write": {"writes": ["{path}"]}},
            "sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.example"]}, "filesystem": {"denyRead": ["/s"]}},
            "enableAllProjectMcpServers": false, "enabledMcpjsonServers": ["a"], "disabledMcpjsonServers": ["b"],
            "allowedMcpServers": [{"serverName": "a"}, {"serverCommand": ["npx", "x"]}], "deniedMcpServers": [{"serverUrl": "https://*.evil.example/*"}],
            "classifier": {"command": ["judge", "--fast"], "timeoutMs": 500},
            "repetitionGuard": 5,
            "allowedHttpHookUrls": ["https://hooks.example/*"], "httpHookAllowedEnvVars": []
        }"#,
    );
    let settings = room.load().settings;
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    assert_eq!(settings.effects[0].value.tool, "mcp__github__get_*");
    assert_eq!(settings.effects[1].value.effects.writes, ["{path}"]);
    assert_eq!(settings.effects[1].source.line, Some(2));
    let sandbox = &settings.sandbox;
    assert_eq!(
        (sandbox.enabled.as_ref().unwrap().value, sandbox.auto_allow_bash.as_ref().unwrap().value),
        (true, true)
    );
    assert_eq!(
        (sandbox.network.allowed_domains[0].value.as_str(), sandbox.network.denied_domains[0].value.as_str()),
        ("a.example", "b.example")
    );
    assert_eq!(
        settings.mcp.allowed.as_ref().unwrap()[1].value,
        ServerMatch::Command(vec!["npx".into(), "x".into()])
    );
    assert_eq!(settings.mcp.denied[0].value, ServerMatch::Url("https://*.evil.example/*".into()));
    let classifier = settings.classifier.unwrap();
    assert_eq!((classifier.value.command.len(), classifier.value.timeout_ms), (2, Some(500)));
    assert_eq!(settings.repetition_guard.unwrap().value, RepetitionGuard::After(5));
    assert_eq!(settings.hooks.allowed_urls.unwrap().len(), 1);
    assert_eq!(settings.hooks.allowed_env_vars.unwrap().len(), 0, "an empty list allows nothing");
}

#[test]
fn servers_come_from_the_project_and_from_flags() {
    let server = |command: &str| {
        format!(r#"{{"mcpServers": {{"fs": {{"command": "{command}"}}, "off": {{"command": "x"}}}}}}"#)
    };
    let room = Room::new()
        .with("work/.mcp.json", &server("project"))
        .with("other.json", &server("flag"))
        .with("config/settings.json", r#"{"disabledMcpjsonServers": ["off"]}"#);
    let flags = SettingsFlags { mcp_config: vec!["../other.json".into()], ..SettingsFlags::default() };
    let mcp = room.load_with(&flags).settings.mcp;
    let names: Vec<_> =
        mcp.servers.iter().map(|server| (server.name.as_str(), server.source.scope)).collect();
    assert_eq!(
        names,
        [("fs", SourceScope::CommandLine), ("off", SourceScope::CommandLine)],
        "a file named by a flag is trusted"
    );
    let why: Vec<_> = mcp
        .withheld
        .iter()
        .map(|(server, why)| (server.name.as_str(), matches!(why, WithheldReason::Untrusted)))
        .collect();
    assert_eq!(why, [("fs", true), ("off", false)]);
    room.trust();
    let mcp = room.load_with(&flags).settings.mcp;
    let McpTransport::Stdio { command, .. } = &mcp.servers[0].transport else { panic!() };
    assert_eq!(
        (mcp.servers.len(), command.as_str()),
        (2, "flag"),
        "of two with one name the stronger counts"
    );
    assert!(
        matches!(&mcp.withheld[..], [(fs, WithheldReason::Hidden(_)), (_, WithheldReason::Disabled(_))] if fs.name == "fs")
    );
}

#[test]
fn warnings_are_bounded() {
    let keys: Vec<String> = (0..5_000).map(|n| format!("\"strange{n}\": 1")).collect();
    let room = Room::new().with("work/.haft/settings.json", &format!("{{{}}}", keys.join(",")));
    let warnings = room.load().settings.warnings;
    assert_eq!(warnings.len(), haft_policy::settings::WARNINGS_MAX);
    assert!(warnings.last().unwrap().message.contains("4901 more"), "{}", warnings.last().unwrap());
}

#[test]
fn merging_needs_no_second_reading() {
    let room =
        Room::new().with("work/.haft/settings.json", r#"{"permissions": {"allow": ["A"], "deny": ["D"]}}"#);
    let layers =
        haft_policy::settings::SettingsLayers::read(&room.places(), &SettingsFlags::default()).unwrap();
    room.write("work/.haft/settings.json", r#"{"permissions": {"allow": ["Bash"]}}"#);
    assert_eq!(rules(&layers.merge(TrustStatus::Trusted).permissions.rules), "-D +A");
    assert_eq!(rules(&layers.merge(TrustStatus::Untrusted).permissions.rules), "-D");
    assert_eq!(layers.files().count(), 1);
}

#[test]
fn a_variable_that_no_environment_takes_is_left_out() {
    let room = Room::new()
        .with("config/settings.json", r#"{"env": {"": "x", "A=B": "x", "C": "a\u0000b", "D": "ok"}}"#);
    let settings = room.load().settings;
    assert_eq!((settings.env.len(), settings.warnings.len()), (1, 3));
}

/// Rooms that are shared by many cases: creating one takes longer than a case.
static TEXTS: std::sync::LazyLock<Room> = std::sync::LazyLock::new(Room::new);
static VALUES: std::sync::LazyLock<Room> = std::sync::LazyLock::new(Room::new);

proptest::proptest! {
    /// Any file content yields settings or an error with a location, and never a panic.
    #[test]
    fn any_text_is_settings_or_an_error(text in r#"(\{|\}|\[|\]|,|:|"|\\|/|\*|\n|null|true|1e9|-|"permissions"|"allow"|"hooks"|"Stop"|"env"|\\ud800|\PC){0,60}"#) {
        let text = format!("{{{text}");
        if let Err(error) = TEXTS.try_load(&json_flag(&text)) {
            proptest::prop_assert!(error.problems.iter().all(|problem| problem.at.is_some()), "{error}");
        }
    }

    /// The same for JSON of any shape below known keys.
    #[test]
    fn any_value_below_a_known_key_is_taken_or_refused(
        key in proptest::sample::select(vec!["permissions", "hooks", "env", "effects", "sandbox", "classifier", "repetitionGuard", "allowedMcpServers"]),
        inner in proptest::sample::select(vec!["allow", "Stop", "PATH", "network", "command", "hooks", "serverName"]),
        value in proptest::sample::select(vec!["null", "[]", "{}", "[{}]", "[[]]", "3", "-1", "true", "\"x\"", "[\"x\", 1]", "{\"x\": [null]}", "[{\"hooks\": [{\"type\": \"command\"}]}]"]),
    ) {
        for text in [format!("{{\"{key}\": {value}}}"), format!("{{\"{key}\": {{\"{inner}\": {value}}}}}"), format!("{{\"{key}\": [{{\"{inner}\": {value}}}]}}")] {
            VALUES.write("work/.haft/settings.json", &text);
            if let Ok(loaded) = VALUES.try_load(&SettingsFlags::default()) {
                proptest::prop_assert_eq!(loaded.inventory.hash(), VALUES.inventory().hash());
            }
        }
    }
}
