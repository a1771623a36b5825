//! Settings on the command line: who wins, what is said of mistakes, and what is shown.

use crate::json::{keys, valid_in};
use crate::room::{Room, ran};

#[test]
fn a_file_that_can_not_be_understood_stops_every_command() {
    let room = Room::new();
    room.write("work/.haft/settings.json", r#"{"permissions": {"deny": ["Read(../x)"]}}"#);
    for args in [
        &["tools"][..],
        &["call", "Read", r#"{"file_path": "notes.txt"}"#],
        &["dispatch"],
        &["settings", "show"],
        &["check", "Read", r#"{"file_path": "notes.txt"}"#],
        &["trust", "--yes"],
    ] {
        let stopped = room.say(args);
        assert_eq!((stopped.code, stopped.stdout.as_str()), (Some(2), ""), "{args:?}: {stopped:?}");
        let words = "error: .haft/settings.json:1:27: bad rule `Read(../x)`: ";
        assert!(stopped.stderr.starts_with(words), "{args:?}: {}", stopped.stderr);
    }
}

#[test]
fn a_file_that_a_flag_names_counts_at_once() {
    let room = Room::new();
    room.write("more.json", r#"{"permissions": {"deny": ["Glob"]}, /* trusted */ "env": {"A": "1"}}"#);
    let inline = r#"{"permissions": {"deny": ["Grep"]}}"#;
    let listed = room.say(&["tools", "--settings", "../more.json", "--settings", inline]);
    assert!(listed.code == Some(0) && listed.stderr.is_empty(), "{listed:?}");
    assert!(!listed.stdout.contains("Glob") && !listed.stdout.contains("Grep"), "{listed:?}");
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
}

/// A relative folder would be another one in every workspace, of the workspace's choice.
#[test]
fn folders_of_the_environment_are_absolute() {
    let room = Room::new();
    for args in [&["tools"][..], &["trust", "--forget"]] {
        let mut command = room.haft(args);
        command.env("HAFT_STATE_DIR", "relative/folder");
        let stopped = room.run(command, "");
        assert_eq!((stopped.code, stopped.stdout.as_str()), (Some(2), ""), "{args:?}: {stopped:?}");
        assert!(stopped.stderr.contains("`HAFT_STATE_DIR`: `relative/folder` is relative"), "{stopped:?}");
    }
}
