//! Several processes that change one file at the same time: no change is lost, and none is made on what
//! nobody read.

use std::fs;

use serde_json::{Value, json};

use crate::room::Room;
use crate::run::object;

/// Each process runs one turn after another, each with one edit of a line of its own.
const PROCESSES: usize = 8;
const EDITS: usize = 25;
/// Processes that each make one call, one after the other in each place.
const CALLS: usize = 4;

fn line(process: usize, edit: usize, value: &str) -> String {
    format!("p{process}e{edit:03}={value}")
}

fn file() -> String {
    let lines = (0..PROCESSES).flat_map(|process| (0..EDITS).map(move |edit| line(process, edit, "0")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs a script in each process, all at once; returns the calls of each.
fn race(room: &Room, turns: impl Fn(usize) -> Vec<Value>) -> Vec<Vec<Value>> {
    let running: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let mut turns = turns(process);
            turns.push(json!({"text": "done"}));
            let script = format!("script{process}.json");
            room.write(&script, &json!({ "turns": turns }).to_string());
            let script = room.path(&script);
            let arguments = ["run", "go", "--output", "json", "--permission-mode", "acceptEdits", "--script"];
            let mut command = room.haft(arguments);
            command.arg(script).arg("--max-turns").arg("500").spawn().unwrap()
        })
        .collect();
    let ended = running.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let ran = crate::room::Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        object(&ran)["calls"].as_array().unwrap().clone()
    });
    ended.collect()
}

/// Files that the session has not read: each edit is made on what the file is at that moment, also when
/// another process was faster. Several patterns of edits in one turn, so that they come as close to each
/// other as they can.
#[test]
fn edits_of_several_processes_are_all_there() {
    let room = Room::empty();
    room.write("work/f", &file());
    let calls = race(&room, |process| {
        let call = |edit: usize| {
            let (old, new) = (line(process, edit, "0"), line(process, edit, "1"));
            // A session knows what it wrote itself; it reads again what others changed since.
            let read = json!({"name": "Read", "input": {"file_path": "f"}});
            let edit =
                json!({"name": "Edit", "input": {"file_path": "f", "old_string": old, "new_string": new}});
            json!({"tool_calls": [read, edit]})
        };
        (0..EDITS).map(call).collect()
    });
    let mut refused = 0;
    let text = fs::read_to_string(room.path("work/f")).unwrap();
    for (process, calls) in calls.iter().enumerate() {
        let edits = calls.iter().filter(|call| call["tool_name"] == "Edit");
        for (edit, call) in edits.enumerate() {
            let words = call["error"]["message"].as_str().unwrap_or_default();
            let done = call["is_error"] == false;
            assert!(done || words.contains("has changed on disk since it was read"), "{call}");
            refused += usize::from(!done);
            // What was said is what is there.
            assert!(
                text.contains(&line(process, edit, if done { "1" } else { "0" })),
                "{process} {edit} {call}"
            );
        }
    }
    assert!(refused < PROCESSES * EDITS, "all of them");
}

/// A single call has no memory: each of them comes through.
#[test]
fn calls_of_several_processes_are_all_there() {
    let room = Room::empty();
    room.write("work/f", &file());
    let workers: Vec<_> = (0..PROCESSES)
        .map(|process| {
            move |room: &Room, edit: usize| {
                let (old, new) = (line(process, edit, "0"), line(process, edit, "1"));
                let input = json!({"file_path": "f", "old_string": old, "new_string": new}).to_string();
                room.haft(["call", "--permission-mode", "acceptEdits", "Edit", &input]).spawn().unwrap()
            }
        })
        .collect();
    // A few at a time of each, so that the machine isn't full of processes.
    for edit in 0..CALLS {
        let running: Vec<_> = workers.iter().map(|start| start(&room, edit)).collect();
        for child in running {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let text = fs::read_to_string(room.path("work/f")).unwrap();
    assert_eq!(text.matches("=1").count(), PROCESSES * CALLS, "{text}");
}
