//! Settings files as they occur in practice: invalid, incomplete, in the locations of another program.

use std::fs;
use std::os::unix::fs::symlink;

use haft_policy::settings::{PathProtection, ProtectedPaths, SettingsFlags, WithheldReason};
use haft_policy::source::SourceScope;

use crate::room::{Room, rules};

#[test]
fn a_bad_rule_is_told_with_line_and_column() {
    let check = |text: &str, expected: &str| {
        let room = Room::new().with("work/.haft/settings.json", text);
        assert_eq!(room.error(), format!(".haft/settings.json:{expected}"), "{text}");
    };
    let forms = "`Tool` or `Tool(specifier)` is accepted";
    check(
        "{\n  \"permissions\": {\n    \"deny\": [\"Read\", \"Bash(rm\"]\n  }\n}",
        &format!("3:22: bad rule `Bash(rm`: no closing `)`; {forms}"),
    );
    // The text of a rule in an object, not the object.
    check(
        "{\"permissions\": {\"ask\": [\n {\"message\": \"m\",\n  \"rule\": \"(x)\"}]}}",
        &format!("3:11: bad rule `(x)`: no tool name before `(`; {forms}"),
    );
    // The workspace isn't trusted, so the rule wouldn't apply, but the file is invalid anyway. Each invalid
    // rule is reported.
    check(
        "{\"permissions\": {\"allow\": [\"\",\n\"ä)\"]}}",
        &format!(
            "1:28: bad rule ``: empty; {forms}\n.haft/settings.json:2:1: bad rule `ä)`: `)` without `(`; {forms}"
        ),
    );
    let room = Room::new().with(
        "config/settings.json",
        &format!(r#"{{"permissions": {{"deny": ["{}"]}}}}"#, "(".repeat(5_000)),
    );
    assert!(room.error().chars().count() < 500, "what is long is cut");
}

/// An incomplete file doesn't count as one with fewer rules: it is an error, and nothing starts.
#[test]
fn a_file_of_rules_that_is_half_written_is_an_error_at_every_byte() {
    let text = r#"{"permissions": {"deny": ["Bash", "Read(./secret/**)"], "allow": ["Write"]}}"#;
    for end in 1..text.len() {
        let error = Room::new().with("config/settings.json", &text[..end]).error();
        assert!(error.contains("settings.json:1:"), "cut at {end}: {error}");
    }
}

/// Hooks of an untrusted file don't run, but their errors are reported.
#[test]
fn a_matcher_and_an_if_that_can_not_be_read_are_told_with_line_and_column() {
    let check = |group: &str, expected: &str| {
        let text = format!("{{\"hooks\": {{\"PreToolUse\": [\n{group}]}}}}");
        let error = Room::new().with("work/.claude/settings.json", &text).error();
        assert!(error.starts_with(&format!(".claude/settings.json:{expected}")), "{error}");
    };
    check(r#"{"matcher": "(Read", "hooks": []}"#, "2:13: the matcher `(Read` is neither names nor");
    let handler =
        |rule: &str| format!(r#"{{"hooks": [{{"type": "command", "command": "x", "if": "{rule}"}}]}}"#);
    check(&handler("Edit(a"), "2:54: `if`: bad rule `Edit(a`: no closing `)`");
}

#[test]
fn what_is_not_utf8_is_told_with_line_and_column() {
    let room = Room::new();
    fs::create_dir_all(room.at("work/.claude")).unwrap();
    fs::write(room.at("work/.claude/settings.json"), b"{\n \"env\": {\"\xc3\xa4\": \"\xff\"}}").unwrap();
    assert_eq!(room.error(), ".claude/settings.json:2:16: can't be read: the byte 0xff is not UTF-8 here");
}

#[test]
fn a_place_that_is_not_what_it_should_be_is_never_no_settings() {
    for folder in [".haft", ".claude"] {
        let check = |prepare: &dyn Fn(&Room), expected: &str| {
            let room = Room::new();
            fs::create_dir_all(room.at("work")).unwrap();
            prepare(&room);
            let error = room.error();
            assert!(error.starts_with(folder) && error.contains(expected), "{folder}: {error}");
        };
        let at = |room: &Room, name: &str| room.at("work").join(folder).join(name);
        let made = |room: &Room| fs::create_dir_all(room.at("work").join(folder)).unwrap();
        check(
            &|room| symlink("nowhere", room.at("work").join(folder)).unwrap(),
            &format!("`{folder}`, where it would be, is a link that leads nowhere"),
        );
        check(
            &|room| fs::write(room.at("work").join(folder), "").unwrap(),
            &format!("`{folder}`, where it would be, is not a folder"),
        );
        check(
            &|room| symlink(folder, room.at("work").join(folder)).unwrap(),
            "its links go round in a circle",
        );
        for name in ["settings.json", "settings.local.json"] {
            check(&|room| fs::create_dir_all(at(room, name)).unwrap(), "it is a directory");
            check(
                &|room| {
                    made(room);
                    symlink("nowhere", at(room, name)).unwrap();
                },
                "it is a link that leads nowhere",
            );
            check(
                &|room| {
                    made(room);
                    let mode = rustix::fs::Mode::RUSR;
                    rustix::fs::mkfifoat(rustix::fs::CWD, at(room, name), mode).unwrap();
                },
                "it is a fifo",
            );
        }
    }
    // A folder without settings, and a symlink to one with settings, work as usual.
    let room = Room::new().with("real/settings.json", r#"{"permissions": {"deny": ["A"]}}"#);
    fs::create_dir_all(room.at("work/.claude")).unwrap();
    symlink("../real", room.at("work/.haft")).unwrap();
    assert_eq!(rules(&room.load().settings.permissions.rules), "-A");
}

/// If `null` were accepted, emptying a list by accident would remove its rules.
#[test]
fn null_is_not_nothing() {
    let check = |text: &str, expected: &str| {
        let room = Room::new().with("work/.claude/settings.json", text);
        let words = "`null` is not accepted; leave the key out, or give it a value";
        assert_eq!(room.error(), format!(".claude/settings.json:{expected}: {words}"), "{text}");
    };
    check(r#"{"permissions": null}"#, "1:17: `permissions`");
    check("{\"permissions\": {\n\"deny\": null}}", "2:9: `permissions.deny`");
    check(r#"{"hooks": null}"#, "1:11: `hooks`");
    let handler =
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": null}]}]}}"#;
    check(handler, "1:79: `hooks.Stop[0].hooks[0].timeout`");
}

#[test]
fn the_machine_owners_files_for_claude_code_count_after_ours() {
    let rule = |name: &str| format!(r#"{{"permissions": {{"deny": ["{name}"], "defaultMode": "MODE"}}}}"#);
    let rule = |name: &str, mode: &str| rule(name).replace("MODE", mode);
    let room = Room::new()
        .with("etc/claude-code/managed-settings.json", &rule("base", "plan"))
        .with("etc/claude-code/managed-settings.d/20-b.json", &rule("second", "dontAsk"))
        .with("etc/claude-code/managed-settings.d/10-a.json", &rule("first", "acceptEdits"))
        .with("etc/claude-code/managed-settings.d/.hidden.json", "not read")
        .with("etc/claude-code/managed-settings.d/notes.txt", "not read")
        .with("config/settings.json", &rule("user", "default"));
    let settings = room.load().settings;
    assert_eq!(rules(&settings.permissions.rules), "-second -first -base -user");
    assert!(settings.permissions.rules[..3].iter().all(|rule| rule.source.scope == SourceScope::Managed));
    assert_eq!(settings.permissions.default_mode.unwrap().value.to_string(), "dontAsk");
    room.write("etc/settings.json", &rule("ours", "default"));
    let settings = room.load().settings;
    assert_eq!(rules(&settings.permissions.rules), "-ours -second -first -base -user");
    assert_eq!(settings.permissions.default_mode.unwrap().value.to_string(), "default");

    room.write("etc/claude-code/managed-settings.d/30.json", "{");
    assert!(room.error().contains("managed-settings.d/30.json:1:1: "), "{}", room.error());
    fs::remove_dir_all(room.at("etc/claude-code/managed-settings.d")).unwrap();
    symlink("nowhere", room.at("etc/claude-code/managed-settings.d")).unwrap();
    assert!(room.error().contains("managed-settings.d: can't be listed"), "{}", room.error());
}

fn servers(room: &Room, flags: &SettingsFlags) -> Vec<String> {
    let mcp = room.load_with(flags).settings.mcp;
    let used = mcp.servers.iter().map(|server| (server, String::new()));
    let withheld = mcp.withheld.iter().map(|(server, why)| {
        let why = match why {
            WithheldReason::Untrusted => " untrusted".to_owned(),
            WithheldReason::Disabled(by) => format!(" off by {by}"),
            WithheldReason::Hidden(by) => format!(" hidden by {by}"),
        };
        (server, why)
    });
    let root = room.root.to_str().unwrap();
    used.chain(withheld)
        .map(|(server, why)| {
            let line = format!("{:?} {} {}{why}", server.source.scope, server.name, server.source);
            line.replace(root, "")
        })
        .collect()
}

#[test]
fn servers_that_the_user_added_elsewhere_are_the_users() {
    let work = Room::new();
    let path = work.at("work").display().to_string();
    let one =
        |name: &str| format!(r#"{{"{name}": {{"command": "{name}"}}, "both": {{"command": "of-{name}"}}}}"#);
    let text = format!(
        r#"{{"numStartups": 3, "mcpServers": {}, "projects": {{
            "/elsewhere": {{"mcpServers": {{"other": {{"command": "x"}}}}}},
            "{path}": {{"hasTrustDialogAccepted": true, "allowedTools": ["Bash"], "mcpServers": {}}}}}}}"#,
        one("mine"),
        one("here"),
    );
    work.write("home/.claude.json", &text);
    work.write("work/.mcp.json", &format!(r#"{{"mcpServers": {}}}"#, one("theirs")));
    work.write("given.json", &format!(r#"{{"mcpServers": {}}}"#, one("given")));
    // Nothing else in that file applies: neither its trust nor its rules.
    let loaded = work.load();
    assert!(!loaded.judgement.is_trusted() && loaded.settings.permissions.rules.is_empty());
    assert_eq!(loaded.inventory.items().iter().filter(|item| item.text.contains("here")).count(), 0);
    assert_eq!(
        servers(&work, &SettingsFlags::default()),
        [
            "Local both ~/.claude.json",
            "Local here ~/.claude.json",
            "User mine ~/.claude.json",
            "Project theirs .mcp.json:1 untrusted",
            "Project both .mcp.json:1 untrusted",
            "User both ~/.claude.json hidden by ~/.claude.json",
        ]
    );
    let flags = SettingsFlags { mcp_config: vec!["../given.json".into()], ..SettingsFlags::default() };
    let all = servers(&work, &flags);
    assert_eq!(all[..2], ["CommandLine given /given.json:1", "CommandLine both /given.json:1"]);
    assert!(all.contains(&"Local both ~/.claude.json hidden by /given.json:1".to_owned()), "{all:?}");
}

/// The file belongs to another program and contains no rules, so skipping it loosens nothing.
#[test]
fn a_file_of_servers_that_is_another_programs_stops_nothing() {
    let check = |text: &str, expected: &str| {
        let room = Room::new().with("home/.claude.json", text);
        let warnings = room.load().settings.warnings;
        let words: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert!(words.len() == 1 && words[0].contains(expected), "{text}: {words:?}");
    };
    check("{", "~/.claude.json: can't be read: EOF while parsing an object at line 1 column 1");
    check("[]", "left out");
    check("{} {}", "trailing characters");
    check(r#"{"mcpServers": 3}"#, "`mcpServers` is no object");
    check(r#"{"mcpServers": {"a b": {"command": "x"}}}"#, "the server `a b` is left out");
    check(
        r#"{"mcpServers": {"a": {"command": "x", "env": null}}}"#,
        "the server `a` is left out: `env`: `null`",
    );
    let quiet =
        Room::new().with("home/.claude.json", r#"{"projects": {"x": null, "y": 3}, "mcpServers": {}}"#);
    assert!(quiet.load().settings.warnings.is_empty());
}

#[test]
fn what_the_user_has_elsewhere_is_written_by_no_tool() {
    let room = Room::new();
    let protected = ProtectedPaths::new(&room.places(), []);
    for path in ["home/.claude.json", "etc/claude-code/managed-settings.d/x.json"] {
        let judged = protected.judge(&room.at(path));
        assert!(matches!(judged, Some(PathProtection::Never(_))), "{path}: {judged:?}");
    }
}

#[test]
fn only_managed_hosts_count_where_the_owner_says_so() {
    let room = Room::new()
        .with(
            "etc/settings.json",
            r#"{"sandbox": {"network": {"allowManagedDomainsOnly": true, "allowedDomains": ["a"]}}}"#,
        )
        .with(
            "config/settings.json",
            r#"{"sandbox": {"network": {"allowedDomains": ["b"], "deniedDomains": ["c"]}}}"#,
        );
    let network = room.load().settings.sandbox.network;
    let values = |list: &[haft_policy::settings::SettingValue<String>]| -> Vec<String> {
        list.iter().map(|at| at.value.clone()).collect()
    };
    assert_eq!(
        (values(&network.allowed_domains), values(&network.denied_domains)),
        (vec!["a".into()], vec!["c".into()])
    );
    assert!(network.managed_domains_only.is_some());
    let room = Room::new()
        .with("config/settings.json", r#"{"sandbox": {"network": {"allowManagedDomainsOnly": true}}}"#);
    let warnings = room.load().settings.warnings;
    assert!(warnings[0].message.contains("counts in managed settings only"), "{warnings:?}");
}
