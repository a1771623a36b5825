//! `haft replay` and `haft stats`, as a person uses them.

use serde_json::Value;

use crate::json::valid_in;
use crate::room::{Ran, Room, crate_path};

const SCRIPT: &str = r#"{"turns": [
    {"text": "I look.", "tool_calls": [
        {"name": "read_file", "input": {"file_path": "notes.txt"}},
        {"name": "Read", "input": {"file_path": "src/main.rs"}}
    ]},
    {"tool_calls": [{"name": "Write", "input": {"file_path": "made.txt", "content": "made\n"}}]},
    {"tool_calls": [{"name": "Read", "input": {"file_path": "../beside/other.txt"}}]},
    {"text": "Done."}
]}"#;

/// An old conversation, with names of today, of then and of nobody.
const OLD: &str = r#"{"messages": [
  {"role": "assistant", "content": [
    {"type": "tool_use", "id": "a", "name": "read_file", "input": {"file_path": "notes.txt"}},
    {"type": "tool_use", "id": "b", "name": "frobnicate", "input": {}}]},
  {"role": "user", "content": [
    {"type": "tool_result", "tool_use_id": "a", "content": "1\tone\n2\ttwo\n3\tthree"},
    {"type": "tool_result", "tool_use_id": "b", "content": "frobnicated"}]},
  {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {"file": 1}}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}]}"#;

/// A room with one session that is kept.
fn held() -> (Room, Ran) {
    let room = Room::new();
    room.write("script.json", SCRIPT);
    let ran =
        room.say(&["run", "--script", "../script.json", "--allow", "Write", "--output", "stream-json", "go"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    (room, ran)
}

fn json(room: &Room, args: &[&str], code: i32) -> Value {
    let ran = room.say(&[&["replay"], args, &["--output", "json"]].concat());
    assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let schema = std::fs::read_to_string(crate_path("schemas/replay.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(schema.is_valid(&value), "{value}");
    value
}

/// Name, tool, recorded and today of each row.
fn rows(report: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        format!("{} {} {} > {}", text("name"), text("tool"), text("recorded"), text("today"))
    };
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

fn session(room: &Room) -> String {
    let listed: Value =
        serde_json::from_str(&room.say(&["sessions", "list", "--output", "json"]).stdout).unwrap();
    listed[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn old_transcripts_work_and_unknown_names_are_rows() {
    let room = Room::new();
    room.write("work/old.json", OLD);
    let report = json(&room, &["old.json", "--all"], 1);
    assert_eq!(
        rows(&report),
        [
            "read_file Read ran > allow",
            "frobnicate frobnicate ran > unknown tool",
            "Read Read ran > invalid input"
        ]
    );
    assert_eq!((&report["calls"], &report["turns"], &report["differ"]), (&3.into(), &2.into(), &2.into()));
    assert_eq!(report["rows"][1]["line"], 4);
    let table = room.say(&["replay", "old.json"]);
    assert!(table.stdout.contains("≠ 2") && table.stdout.contains("no tool named `frobnicate`"), "{table:?}");
    assert!(!table.stdout.contains("read_file"), "what is the same isn't shown: {table:?}");
}

#[test]
fn a_new_rule_shows_what_it_would_have_stopped() {
    let (room, _) = held();
    let id = session(&room);
    let same = json(&room, &[&id, "--allow", "Write"], 0);
    assert_eq!((&same["form"], &same["calls"], &same["differ"]), (&"journal".into(), &4.into(), &0.into()));
    // A rule allowed it then, and today it would ask.
    assert_eq!(rows(&json(&room, &[&id[..id.len() - 1]], 1)), ["Write Write ran > ask"]);
    let stopped = json(&room, &[&id, "--deny", "Read(notes.txt)", "--allow", "Write"], 1);
    assert_eq!(rows(&stopped), ["Read Read ran > deny"]);
    // What nobody could be asked about is still so; allowed, it differs.
    let allowed = json(&room, &[&id, "--allow", "Write", "--add-dir", "../beside"], 1);
    assert_eq!(rows(&allowed), ["Read Read Denied > allow"]);
    assert!(!room.path("work/made.txt.bak").exists());
}

#[test]
fn events_and_journals_tell_the_same() {
    let (room, ran) = held();
    room.write("work/events.jsonl", &ran.stdout.replace(":T", ":0"));
    let args = ["--all", "--allow", "Write"];
    let events = json(&room, &[&["events.jsonl"], &args[..]].concat(), 0);
    assert_eq!(events["form"], "haft run events");
    assert_eq!(
        rows(&events),
        [
            "read_file Read ran > allow",
            "Read Read ran > allow",
            "Write Write ran > allow",
            "Read Read Denied > ask"
        ]
    );
    // The journal as a file, and as a folder.
    let folder = room.path(&format!("home/.local/state/haft/sessions/{}", session(&room)));
    for path in [folder.clone(), folder.join("journal.log")] {
        let journal = json(&room, &[&[path.to_str().unwrap()], &args[..]].concat(), 0);
        assert_eq!((&journal["form"], &journal["calls"]), (&"journal".into(), &4.into()));
    }
}

#[test]
fn recorded_results_meet_todays_limits_and_order() {
    let room = Room::new();
    room.write("work/old.json", OLD);
    let report = json(&room, &["old.json", "--results", "recorded", "--all"], 1);
    assert_eq!(rows(&report)[0], "read_file Read ran > same");
    assert_eq!(report["differ"], 2);

    let long = "x".repeat(200_000);
    let one = |id: &str, name: &str, input: &str| {
        format!(r#"{{"type": "tool_use", "id": "{id}", "name": "{name}", "input": {input}}}"#)
    };
    let result = |id: &str, text: &str| {
        format!(r#"{{"type": "tool_result", "tool_use_id": "{id}", "content": "{text}"}}"#)
    };
    let command = r#"{"command": "make"}"#;
    let text = format!(
        r#"[{{"role": "assistant", "content": [{}]}}, {{"role": "user", "content": [{}]}},
            {{"role": "assistant", "content": [{}, {}]}}, {{"role": "user", "content": [{}, {}]}},
            {{"role": "assistant", "content": [{}]}}]"#,
        one("a", "Bash", command),
        result("a", &long),
        one("b", "Read", r#"{"file_path": "notes.txt"}"#),
        one("c", "Read", r#"{"file_path": "src/main.rs"}"#),
        result("c", "2"),
        result("b", "1"),
        one("d", "Read", r#"{"file_path": "notes.txt"}"#),
    );
    room.write("work/long.json", &text);
    let report = json(&room, &["long.json", "--results", "recorded", "--all"], 1);
    assert_eq!(
        rows(&report),
        [
            "Bash Bash ran > cut",
            "Read Read ran > order",
            "Read Read ran > order",
            "Read Read no result > no result"
        ]
    );
    assert_eq!(report["differ"], 3, "the last call may wait for its result");
    assert!(
        !room.path("work/made.txt").exists() && !room.path("home/.local").exists(),
        "nothing is left behind"
    );
}

/// A program may have learned to answer otherwise since.
#[test]
fn recorded_results_are_held_against_output_schemas() {
    let room = Room::new();
    let schema = r#", "output": "json", "output_schema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}, "read_only": true"#;
    room.script("home/.config/haft/tools/counter", "Counter", "echo '{\"count\": 3}'", schema);
    let script = r#"{"turns": [{"tool_calls": [{"name": "Counter", "input": {}}]}, {"text": "Done."}]}"#;
    room.write("script.json", script);
    let ran = room.say(&["run", "--script", "../script.json", "--allow", "Counter", "go"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let id = session(&room);
    let again = |code| json(&room, &[&id, "--results", "recorded", "--allow", "Counter", "--all"], code);
    assert_eq!(rows(&again(0)), ["Counter Counter ran > same"]);
    let other = schema.replace("integer", "string");
    room.script("home/.config/haft/tools/counter", "Counter", "echo '{\"count\": \"3\"}'", &other);
    let report = again(1);
    assert_eq!(rows(&report), ["Counter Counter ran > other form"]);
    let why = report["rows"][0]["why"].as_str().unwrap();
    assert!(why.contains("/count") && why.contains("a string is accepted"), "{why}");
    // Of files without kinds of blocks the text is read; an error and a part of a result promise nothing.
    for (text, error, expected) in [
        (r#"{\"count\": \"3\"}"#, false, "ran > same"),
        ("three", false, "ran > other form"),
        ("three", true, "failed > same"),
        ("{\\\"count\\\": … the whole result is in /x]", false, "ran > same"),
    ] {
        let text = format!(
            r#"[{{"role": "assistant", "content": [{{"type": "tool_use", "id": "a", "name": "Counter", "input": {{}}}}]}},
                {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "a", "is_error": {error}, "content": "{text}"}}]}}]"#
        );
        room.write("work/old.json", &text);
        let code = i32::from(expected.ends_with("form"));
        let report = json(&room, &["old.json", "--results", "recorded", "--allow", "Counter", "--all"], code);
        assert_eq!(rows(&report), [format!("Counter Counter {expected}")]);
    }
}

#[test]
fn calls_made_again_stay_in_a_copy() {
    let (room, ran) = held();
    room.write("work/events.jsonl", &ran.stdout.replace(":T", ":0"));
    std::fs::remove_file(room.path("work/made.txt")).unwrap();
    std::fs::write(room.path("work/notes.txt"), "one\ntwo\nfour\n").unwrap();
    let id = session(&room);
    let ran = room.say(&["replay", &id, "--run", "--all", "--output", "json"]);
    if ran.stderr.contains("needs the sandbox") {
        println!("skipped: there is no sandbox here");
        return;
    }
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    // Calls that ran side by side may be recorded in any order.
    let mut found = rows(&report);
    found.sort();
    assert_eq!(
        found,
        [
            "Read Read Denied > deny",
            "Read Read ran > other result",
            "Read Read ran > same",
            "Write Write ran > same",
        ],
        "{report}"
    );
    let other = report["rows"].as_array().unwrap().iter().find(|row| row["today"] == "other result").unwrap();
    assert!(other["why"].as_str().unwrap().contains("`3\tthree` then, `3\tfour` now"), "{report}");
    assert!(!room.path("work/made.txt").exists(), "it was made in the copy");
    // A rule that allows to write elsewhere doesn't count.
    let outside = room.path("beside/new.txt");
    let text = format!(
        r#"[{{"role": "assistant", "content": [{{"type": "tool_use", "id": "a", "name": "Write", "input": {{"file_path": "{}", "content": "x"}}}}]}}]"#,
        outside.display()
    );
    room.write("work/out.json", &text);
    let report = json(&room, &["out.json", "--run", "--all", "--permission-mode", "bypassPermissions"], 0);
    assert_eq!(rows(&report), ["Write Write no result > not made"]);
    assert!(!outside.exists());
}

/// Settings that open files and hosts to commands open them to no command that is made again, however it
/// names them.
#[test]
fn what_settings_open_is_shut_for_calls_made_again() {
    let room = Room::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (beside, work) = (room.path("beside"), room.path("work"));
    let (beside, work) = (beside.to_str().unwrap(), work.to_str().unwrap());
    std::os::unix::fs::symlink(beside, room.path("work/link")).unwrap();
    let commands = [
        format!("echo x > {beside}/named.txt"),
        format!("d=$(echo {beside}); echo x > $d/hidden.txt"),
        "cd link && echo x > by-link.txt".to_owned(),
        format!("cp notes.txt {beside}/copied.txt"),
        format!("rm -f {beside}/other.txt"),
        format!("p={work}; cd \"${{p%k}}\"k && echo x > original.txt"),
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo x >&3"),
        format!("p={port}; curl -s http://127.0.0.1:$p/"),
        format!("curl -s http://127.0.0.1:{port}/"),
    ];
    let quoted = |command: &String| serde_json::to_string(command).unwrap();
    let calls: Vec<String> = commands
        .iter()
        .enumerate()
        .map(|(at, command)| {
            let input = quoted(command);
            format!(
                r#"{{"type": "tool_use", "id": "c{at}", "name": "Bash", "input": {{"command": {input}}}}}"#
            )
        })
        .collect();
    let results: Vec<String> = (0..commands.len())
        .map(|at| format!(r#"{{"type": "tool_result", "tool_use_id": "c{at}", "content": "x"}}"#))
        .collect();
    room.write(
        "work/open.json",
        &format!(
            r#"[{{"role": "assistant", "content": [{}]}}, {{"role": "user", "content": [{}]}}]"#,
            calls.join(", "),
            results.join(", ")
        ),
    );
    let settings = serde_json::json!({
        "permissions": {"allow": [format!("Edit(/{beside}/**)"), "WebFetch(domain:127.0.0.1)"]},
        "sandbox": {"filesystem": {"allowWrite": [beside, work]}, "network": {"allowedDomains": ["127.0.0.1", format!("127.0.0.1:{port}")]}}
    });
    for mode in ["default", "bypassPermissions"] {
        let settings = settings.to_string();
        let mut haft = room.haft([
            "replay",
            "open.json",
            "--run",
            "--all",
            "--permission-mode",
            mode,
            "--settings",
            &settings,
            "--output",
            "json",
        ]);
        haft.env(crate::room::PATH, std::env::var_os(crate::room::PATH).unwrap());
        let ran = room.run(haft, "");
        if ran.stderr.contains("needs the sandbox") {
            println!("skipped: there is no sandbox here");
            return;
        }
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        assert_eq!(report["rows"].as_array().unwrap().len(), commands.len(), "{report}");
        let mut there: Vec<String> = std::fs::read_dir(beside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, ["other.txt"], "{mode}: {report}");
        assert!(!room.path("work/original.txt").exists(), "{mode}: {report}");
        assert!(listener.accept().is_err(), "{mode}: somebody came: {report}");
    }
}

#[test]
fn what_can_not_be_read_says_where() {
    let room = Room::new();
    let check = |text: &str, expected: &str| {
        room.write("work/bad.json", text);
        let ran = room.say(&["replay", "bad.json"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{ran:?}");
    };
    check("", "bad.json: it is empty; accepted are");
    check("{\"role\": \"user\", \"content\": \"x\"}\n{oops", "bad.json: line 2: no JSON");
    check(
        "[{\"role\": \"assistant\",\n\"content\": [{\"type\": \"tool_use\"}]}]",
        "bad.json: line 1: at `/content/0`",
    );
    let ran = room.say(&["replay", "nothing"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("neither a file nor a session"), "{ran:?}");
}

#[test]
fn sessions_are_counted() {
    let (room, _) = held();
    let stats = valid_in(&room, "stats.schema.json", &["stats", "--output", "json"], 0);
    assert_eq!(
        [&stats["calls"], &stats["changes"], &stats["errors"], &stats["denials"]],
        [&Value::from(3), &1.into(), &0.into(), &1.into()]
    );
    assert_eq!(stats["tools"][0]["tool"], "Read");
    assert_eq!((&stats["tools"][0]["calls"], &stats["tools"][0]["denials"]), (&2.into(), &1.into()));
    let times: Vec<f64> =
        ["p50_ms", "p95_ms", "p99_ms", "max_ms"].map(|key| stats["tools"][0][key].as_f64().unwrap()).to_vec();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    let concurrency = stats["concurrency"].as_u64().unwrap();
    assert!((1..=2).contains(&concurrency), "{concurrency}");
    room.say(&["run", "--script", "../script.json", "--allow", "Write", "go"]);
    let all = valid_in(&room, "stats.schema.json", &["stats", "--all", "--output", "json"], 0);
    assert_eq!(all["sessions"].as_array().unwrap().len(), 2);
    let table = room.say(&["stats", "--all"]).stdout;
    assert!(table.starts_with("2 sessions\n") && table.contains("p95") && table.contains('█'), "{table}");
    assert!(!table.contains('\x1b'), "no styles where there is no terminal");
    assert_eq!(Room::new().say(&["stats"]).code, Some(2));
}
