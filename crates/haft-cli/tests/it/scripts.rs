//! Script tools on the command line: where they come from, what is said of bad ones, and what is left of
//! them.

use std::fs;

use crate::room::{PATH, Room, lives, ran, until};

#[test]
fn tools_of_the_settings_and_of_flags_are_there() {
    let room = Room::new();
    room.script("home/.config/haft/tools/mine", "mine", "echo user", r#", "read_only": true"#);
    room.script("tools/a", "given", "echo flag", r#", "effects": {"writes": ["x"]}"#);
    room.script("one", "single", "echo one", "");
    let listed =
        room.say(&["tools", "--tools-dir", "../tools", "--tools-dir", "../one", "--tools-dir", "../tools/."]);
    let expected = "given !  mine ≡  single !\n";
    assert!(
        listed.code == Some(0) && listed.stdout.contains(expected) && listed.stderr.is_empty(),
        "{listed:?}"
    );

    let json = room.say(&["tools", "--tools-dir", "../tools", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let row = |name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        (row["group"].clone(), row["origin"].clone())
    };
    assert_eq!(row("mine"), ("scripts".into(), "script:user".into()));
    assert_eq!(row("given"), ("scripts".into(), "script:tools-dir-001".into()));

    let called = room.say(&["call", "mine", "--allow", "mine", "--no-sandbox"]);
    assert_eq!(called, ran(0, "user\n", ""));
    let called =
        room.say(&["--tools-dir", "../tools", "call", "given", "--permission-mode", "bypassPermissions"]);
    assert_eq!(called, ran(0, "flag\n", ""));
}

/// What a script declares is what it can do: one that says it touches nothing runs unasked, and can't write;
/// what is not declared is not read.
#[test]
fn what_is_declared_is_what_can_happen() {
    let room = Room::new();
    room.write("work/secret.txt", "SECRET\n");
    room.script("tools/looks", "looks", "echo ran > made", r#", "effects": {}"#);
    room.script(
        "tools/reads",
        "reads",
        "cat notes.txt; cat secret.txt || true",
        r#", "effects": {"reads": ["notes.txt"]}"#,
    );
    room.script("tools/writes", "writes", "echo ran > made", r#", "effects": {"writes": ["made"]}"#);
    let call = |name: &str| room.say(&["--tools-dir", "../tools", "call", name, "--allow", "writes"]);
    let looked = call("looks");
    assert!(looked.code == Some(1) && looked.stderr.contains("Read-only file system"), "{looked:?}");
    assert!(!room.path("work/made").exists());
    let read = call("reads");
    assert!(read.stdout.contains("three") && !format!("{read:?}").contains("SECRET"), "{read:?}");
    assert_eq!(call("writes").code, Some(0));
    assert_eq!(fs::read_to_string(room.path("work/made")).unwrap(), "ran\n");
}

#[test]
fn a_bad_tool_is_a_warning_and_a_bad_folder_is_wrong_usage() {
    let room = Room::new();
    room.script("tools/good", "good", "echo fine", "");
    room.write("tools/bad/tool.json", "{\"name\": 7}");
    let warned = room.say(&["--tools-dir", "../tools", "call", "good", "--allow", "good"]);
    assert_eq!((warned.code, warned.stdout.as_str()), (Some(0), "fine\n"));
    let expected =
        "warning: script tool left out: ROOM/tools/bad/tool.json: 4 problems\n  /command: missing;";
    assert!(warned.stderr.starts_with(expected), "{}", warned.stderr);
    for (dir, why) in [("../nowhere", "it does not exist"), ("notes.txt", "not a directory")] {
        let refused = room.say(&["--tools-dir", dir, "call", "good"]);
        let words = format!(
            "error: the tools directory `{dir}`: {why}; give a directory that exists (--tools-dir)\n"
        );
        assert_eq!(refused, ran(2, "", &words));
    }
    let empty = room.say(&["tools", "--tools-dir", "src"]);
    let words =
        "warning: the tools directory `src` has no tool; a tool is a folder in it with a `tool.json`\n";
    assert_eq!((empty.code, empty.stderr.as_str()), (Some(0), words));
}

/// Wherever the folders lie and whatever they are called: the first of the flags has the plain name, and the
/// other's name is the same everywhere.
#[test]
fn the_names_of_tools_that_clash_do_not_depend_on_paths() {
    let mut seen = Vec::new();
    for folders in [["one", "two"], ["z/elsewhere", "a"]] {
        let room = Room::new();
        for (folder, answer) in folders.iter().zip(["echo first", "echo second"]) {
            room.script(&format!("{folder}/t"), "send", answer, "");
        }
        room.script("home/.config/haft/tools/send", "send", "echo user", "");
        let dirs = folders.map(|folder| format!("../{folder}"));
        let given =
            ["--tools-dir", &dirs[0], "--tools-dir", &dirs[1], "--permission-mode", "bypassPermissions"];
        let with = |args: &[&str]| room.say(&[args, &given].concat());
        let listed = with(&["tools", "--format", "json"]);
        let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let names: Vec<String> =
            rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        let names: Vec<String> = names.into_iter().filter(|name| name.starts_with("send")).collect();
        let answers: Vec<String> = names.iter().map(|name| with(&["call", name]).stdout).collect();
        assert_eq!(answers[0], "first\n");
        seen.push((names, answers, listed.stderr));
    }
    assert_eq!(seen[0], seen[1]);
    let warning = "warning: two tools are called `send`, which script:tools-dir-001 has; the one of ";
    assert_eq!(seen[0].2.matches(warning).count(), 2, "{}", seen[0].2);
    assert!(seen[0].2.contains(&format!(
        "script:user is called `{}`\n",
        seen[0].0[seen[0].1.iter().position(|a| a == "user\n").unwrap()]
    )));
}

/// Whatever ends the program ends what it started.
#[test]
fn nothing_is_left_of_an_interrupted_script() {
    let room = Room::new();
    // In its sandbox a process has another number, so they are known by what they were told.
    let mark = format!("{}.0{}", 1_000, std::process::id());
    let body = format!("sleep {mark}1 & setsid sleep {mark}2 & sleep {mark}3");
    room.script("tools/t", "t", &body, r#", "interrupt": "cancel""#);
    for signal in ["INT", "TERM", "HUP"] {
        let mut command = room.haft(["--tools-dir", "../tools", "--allow", "t", "call", "t"]);
        let mut child = command.env(PATH, std::env::var_os(PATH).unwrap()).spawn().unwrap();
        let started = [1, 2, 3].map(|number| format!("{mark}{number}"));
        for started in &started {
            until("a process of the script", || lives(started));
        }
        let kill =
            std::process::Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        for started in &started {
            until(&format!("{started} is gone after {signal}"), || !lives(started));
        }
    }
}
