//! A call of a cut-off turn, in each state that it can be in, over each wire: what it comes to when the
//! session goes on, and that the provider would take the history.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kept_kills::{WIRES, items, journals, nobody_left, pairs, run};
use crate::room::{Room, crate_path};
use crate::run_http::Served;

/// A state of a call.
struct Case {
    name: &'static str,
    calls: Value,
    /// The process is killed when this is in its journal, and this file is there.
    until: (&'static str, Option<&'static str>),
    /// What each result begins with when the session has gone on.
    expected: &'static [&'static str],
    /// Files of the workspace then, each with its content.
    files: &'static [(&'static str, &'static str)],
}

fn call(name: &str, input: Value) -> Value {
    json!({"name": name, "input": input})
}

fn cases() -> Vec<Case> {
    let hangs = || call("Bash", json!({"command": "echo ran >> ran.txt; sleep 600"}));
    let write = |name: &str| call("Write", json!({"file_path": name, "content": "made\n"}));
    const UNKNOWN: &str = "Bash was started";
    vec![
        Case {
            name: "finished",
            calls: json!([write("made.txt"), hangs()]),
            until: (r#""tool":"Bash""#, Some("ran.txt")),
            expected: &["created `made.txt`", UNKNOWN],
            // Changed by hand before the session goes on: who made it again would change it back.
            files: &[("made.txt", "changed by hand\n"), ("ran.txt", "ran\n")],
        },
        Case {
            name: "not started",
            calls: json!([hangs(), write("made.txt")]),
            until: (r#""tool":"Bash""#, Some("ran.txt")),
            expected: &[UNKNOWN, "created `made.txt`"],
            files: &[("made.txt", "made\n"), ("ran.txt", "ran\n")],
        },
        Case {
            name: "only looks, started",
            calls: json!([write("other.txt"), call("Look", json!({}))]),
            until: (r#""tool":"Look""#, None),
            expected: &["created `other.txt`", "looked at last"],
            files: &[("other.txt", "made\n")],
        },
        Case {
            name: "unknown",
            calls: json!([
                call("Read", json!({"file_path": "notes.txt"})),
                hangs(),
                call("Read", json!({"file_path": "notes.txt"}))
            ]),
            until: (r#""tool":"Bash""#, Some("ran.txt")),
            expected: &["1\tone", UNKNOWN, "1\tone"],
            files: &[("ran.txt", "ran\n")],
        },
    ]
}

/// Waits until this holds of a process that runs.
fn waits_for(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what}: it never came");
        crate::room::pause();
    }
}

fn check(wire: &str, case: &Case, schema: Option<&jsonschema::Validator>) {
    let named = format!("{wire}, {}", case.name);
    let room = Room::new();
    let turns = json!({"turns": [{"text": "I work.", "tool_calls": case.calls}, {"text": "Done."}]});
    room.write("script.json", &turns.to_string());
    let looks = "while [ ! -e go ]; do sleep 0.05; done; echo looked at last";
    room.script("home/.config/haft/tools/look", "Look", looks, r#", "read_only": true"#);
    let served = Served::start(&room);
    let mut begun: Command = run(&room, Some((wire, &served)), &["go"]);
    let mut child = begun.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    waits_for(&named, || {
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let noted = journals(&room).into_iter().any(|journal| {
            text(journal).lines().any(|line| line.contains(r#""is":"intent""#) && line.contains(case.until.0))
        });
        noted && case.until.1.is_none_or(|file| text(room.path("work").join(file)).ends_with('\n'))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    room.write("work/go", "");
    if case.name == "finished" {
        room.write("work/made.txt", "changed by hand\n");
    }

    let ran = room.run(run(&room, Some((wire, &served)), &["--continue"]), "");
    assert_eq!(ran.code, Some(0), "{named}: {ran:?}");
    let journal = journals(&room).pop().unwrap();
    let history = items(&journal);
    let (calls, results) = pairs(&history);
    let ids = |pairs: &[(String, String)]| pairs.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&calls), ids(&results), "{named}: a result for each call, in order");
    assert_eq!(results.len(), case.expected.len(), "{named}: {results:?}");
    for ((_, text), expected) in results.iter().zip(case.expected) {
        // Some wires have a result in an object or a list of blocks.
        let shown = text.replace("\\t", "\t");
        let begins = shown.find(expected).is_some_and(|at| at < 60);
        assert!(begins, "{named}: {text} and not {expected}");
        assert_eq!(text.contains("outcome is unknown"), expected.starts_with("Bash"), "{named}: {text}");
    }
    for (file, content) in case.files {
        let found = std::fs::read_to_string(room.path("work").join(file)).unwrap_or_default();
        assert_eq!(found, *content, "{named}: {file}");
    }
    neighbours(wire, &history, &named);
    if let Some(schema) = schema {
        fits(schema, wire, &history, &named);
    }
    drop(served);
    nobody_left(&room, &named);
}

/// Results stand right behind the message of their calls, all of them, in the place where this wire has them.
fn neighbours(wire: &str, history: &[Value], named: &str) {
    let has = |item: &Value, list: &str, key: &str| {
        let blocks = item[list].as_array().into_iter().flatten();
        blocks.filter(|block| block["type"] == key || block.get(key).is_some()).count()
    };
    let kind = |at: usize, kind: &str| history.get(at).is_some_and(|item| item["type"] == kind);
    match wire {
        "anthropic" | "gemini" => {
            let (list, call, result) = match wire {
                "gemini" => ("parts", "functionCall", "functionResponse"),
                _ => ("content", "tool_use", "tool_result"),
            };
            let roles: Vec<&str> = history.iter().filter_map(|item| item["role"].as_str()).collect();
            assert!(roles.windows(2).all(|two| two[0] != two[1]), "{named}: {roles:?}");
            for (at, item) in history.iter().enumerate() {
                let calls = has(item, list, call);
                let next = history.get(at + 1).unwrap_or(&Value::Null);
                assert!(calls == 0 || has(next, list, result) == calls, "{named}: {next}");
                // They come before words.
                let first = &next[list][0];
                assert!(
                    calls == 0 || first["type"] == result || first.get(result).is_some(),
                    "{named}: {next}"
                );
            }
        }
        "openai-chat" => {
            let at = history.iter().position(|item| item["tool_calls"].is_array()).unwrap();
            let count = history[at]["tool_calls"].as_array().unwrap().len();
            let roles: Vec<&Value> = history[at + 1..].iter().map(|item| &item["role"]).collect();
            assert!(roles[..count].iter().all(|role| *role == "tool"), "{named}: {roles:?}");
            assert!(roles[count..].iter().all(|role| *role != "tool"), "{named}: {roles:?}");
        }
        _ => {
            let at = (0..history.len()).find(|at| kind(*at, "function_call")).unwrap();
            let count = (at..history.len()).take_while(|at| kind(*at, "function_call")).count();
            let answered = (at + count..history.len()).take_while(|at| kind(*at, "function_call_output"));
            assert_eq!(answered.count(), count, "{named}: {history:?}");
        }
    }
}

/// The provider's own schema of requests, where there is one here. It takes longer to read than a case to
/// check.
fn request_schema(wire: &str) -> Option<jsonschema::Validator> {
    let name = match wire {
        "anthropic" => "anthropic-beta",
        "openai" => "openai",
        _ => return None,
    };
    let path = crate_path("../../../shared/data/provider-schemas").join(format!("{name}.schema.json"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: ../shared/data/provider-schemas is not here");
        return None;
    };
    Some(jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap())
}

fn fits(schema: &jsonschema::Validator, wire: &str, history: &[Value], named: &str) {
    let request = match wire {
        "anthropic" => json!({"model": "m", "max_tokens": 1, "messages": history}),
        _ => json!({"model": "m", "input": history}),
    };
    let problems: Vec<String> = schema.iter_errors(&request).map(|error| error.to_string()).take(3).collect();
    assert!(problems.is_empty(), "{named}: {problems:?}");
}

#[test]
fn every_state_of_a_call_goes_on_in_every_wire() {
    std::thread::scope(|scope| {
        for wire in WIRES {
            scope.spawn(move || {
                let schema = request_schema(wire);
                cases().iter().for_each(|case| check(wire, case, schema.as_ref()));
            });
        }
    });
}
