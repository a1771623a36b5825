//! Sub-agents in `haft run`: scripts for several conversations at once, real tools, real files.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::room::Room;
use crate::run::{events, object, play, results, with_script};

/// A script in which the main agent says these turns, and agents whose task has a word in it say others.
fn script(main: Value, agents: &[(&str, Value)]) -> Room {
    let agents: Vec<Value> =
        agents.iter().map(|(word, turns)| json!({"when": {"contains": word}, "turns": turns})).collect();
    with_script(&json!({"turns": main, "agents": agents}).to_string())
}

/// A call of `Agent`.
fn agent(prompt: &str, more: Value) -> Value {
    let mut input = json!({"description": "a task", "prompt": prompt});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"name": "Agent", "input": input})
}

/// A call of a tool.
fn call(name: &str, input: Value) -> Value {
    json!({"name": name, "input": input})
}

fn calls(calls: &[Value]) -> Value {
    json!({"tool_calls": calls})
}

#[test]
fn agents_work_side_by_side_and_their_answers_are_results() {
    let wait = call("Monitor", json!({"file": "other.txt", "timeout_ms": 60_000}));
    let write = call("Write", json!({"file_path": "other.txt", "content": "x"}));
    let room = script(
        json!([calls(&[agent("FIRST waits", json!({})), agent("SECOND writes", json!({"name": "writer"}))]), {"text": "Done."}]),
        &[
            // The first can end only if the second works beside it.
            ("FIRST", json!([calls(&[wait]), {"text": "It came."}])),
            ("SECOND", json!([calls(&[write]), {"text": "Written."}])),
        ],
    );
    let ran = play(&room, &["go", "--allow", "Write", "--output", "json"]);
    assert_eq!(results(&ran), ["It came.", "Written."], "{ran:?}");
    std::fs::remove_file(room.path("work/other.txt")).unwrap();
    let text = play(&room, &["go", "--allow", "Write"]);
    assert!(text.stderr.contains("writer ✓ Write  other.txt"), "{}", text.stderr);
    assert!(text.stderr.contains("✓ Agent  writer: a task"), "{}", text.stderr);
}

#[test]
fn what_agents_do_is_in_the_stream_under_the_call_that_they_work_for() {
    let read = call("Read", json!({"file_path": "notes.txt"}));
    let room = script(
        json!([calls(&[agent("LOOK", json!({"name": "looker"}))]), {"text": "Done."}]),
        &[("LOOK", json!([{"text": "I look.", "tool_calls": [read]}, {"text": "three"}]))],
    );
    let events = events(&play(&room, &["go", "--output", "stream-json"]));
    let of = |kind: &str| {
        let of_agent = |event: &&Value| event["type"] == kind && event["agent"] == "looker";
        events.iter().filter(of_agent).collect::<Vec<_>>()
    };
    for kind in ["user", "turn", "text", "call", "tool_started", "tool_finished", "results", "ended"] {
        assert!(!of(kind).is_empty(), "{kind}");
        assert!(of(kind).iter().all(|event| event["parent_tool_use_id"] == "toolu_scripted_1_0"), "{kind}");
    }
    let main = events.iter().filter(|event| event["type"] == "turn" && event.get("agent").is_none());
    assert_eq!(main.count(), 2, "the main agent's turns are its own");
    assert_eq!(events.last().unwrap()["text"], "Done.");
}

#[test]
fn an_agent_that_explores_changes_nothing_and_has_no_tools_to() {
    let write = call("Write", json!({"file_path": "no.txt", "content": "x"}));
    let touch = call("Bash", json!({"command": "touch no.txt"}));
    let read = call("Bash", json!({"command": "wc -l notes.txt"}));
    let room = script(
        json!([calls(&[agent("LOOK", json!({"subagent_type": "Explore"}))]), {"text": "Done."}]),
        &[(
            "LOOK",
            json!([
                calls(&[write, touch, read]),
                {"text": "Looked.", "expect": [
                    {"result": 0, "is_error": true, "contains": "no tool named `Write`"},
                    {"result": 1, "is_error": true, "contains": "mode `plan`"},
                    {"result": 2, "is_error": false, "contains": "3"}]}
            ]),
        )],
    );
    let ran = play(&room, &["go", "--permission-mode", "bypassPermissions", "--output", "json"]);
    assert_eq!(results(&ran), ["Looked."], "{ran:?}");
    assert!(!room.path("work/no.txt").exists());
}

#[test]
fn an_agent_may_do_no_more_than_its_parent() {
    let write = |file: &str| call("Write", json!({"file_path": file, "content": "x"}));
    let room = script(
        json!([calls(&[agent("WIDE", json!({"subagent_type": "wide"}))]), {"text": "Done."}]),
        &[(
            "WIDE",
            json!([calls(&[write("a.txt"), write("b.txt")]), {"text": "Tried.", "expect": [
                {"result": 0, "is_error": true, "contains": "denied"},
                {"result": 1, "is_error": true, "contains": "denied"}]}]),
        )],
    );
    let kind = "---\nname: wide\ndescription: Wants everything\npermissionMode: bypassPermissions\n---\nYou may all.\n";
    room.write("home/.config/haft/agents/wide.md", kind);
    let ran = play(&room, &["go", "--deny", "Edit(a.txt)", "--output", "json"]);
    assert_eq!(results(&ran), ["Tried."], "{ran:?}");
    assert!(!room.path("work/a.txt").exists() && !room.path("work/b.txt").exists());
}

#[test]
fn kinds_come_from_files_and_bad_ones_are_said() {
    let write = call("Write", json!({"file_path": "no.txt", "content": "x"}));
    let read = call("Read", json!({"file_path": "notes.txt"}));
    let room = script(
        json!([calls(&[agent("REVIEW", json!({"subagent_type": "reviewer"}))]), {"text": "Done."}]),
        &[(
            "REVIEW",
            json!([calls(&[read, write]), {"text": "Reviewed.", "expect": [
                {"result": 0, "is_error": false},
                {"result": 1, "is_error": true, "contains": "no tool named `Write`"}]}]),
        )],
    );
    let file = "---\nname: reviewer\ndescription: Reviews changes\ntools: Read, Grep\n---\nYou review.\n";
    room.write("home/.config/haft/agents/reviewer.md", file);
    room.write("home/.config/haft/agents/broken.md", "name: x\n");
    room.write("work/.haft/agents/project.md", &file.replace("reviewer", "of-project"));
    let ran = play(&room, &["go", "--allow", "Write", "--output", "json"]);
    assert_eq!(results(&ran), ["Reviewed."], "{ran:?}");
    for part in
        ["agent left out: ~/.config/haft/agents/broken.md: it has no head", "left out: .haft/agents; this"]
    {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let tools = room.say(&["tools", "--all", "--format", "json"]);
    assert!(tools.stdout.contains("reviewer: Reviews changes"), "{}", tools.stdout);
    assert!(!tools.stdout.contains("of-project"), "a project's count once it is trusted");
}

#[test]
fn what_goes_wrong_says_how_far_it_came() {
    let read = call("Read", json!({"file_path": "notes.txt"}));
    let room = script(
        json!([
            calls(&[
                agent("LONG", json!({"subagent_type": "short"})),
                agent("LOST", json!({})),
                agent("NOBODY", json!({"subagent_type": "nobody"})),
                agent("MUTE", json!({})),
            ]),
            {"text": "Done."}
        ]),
        &[
            (
                "LONG",
                json!([{"text": "First.", "tool_calls": [read]}, calls(std::slice::from_ref(&read)), {"text": "Never."}]),
            ),
            (
                "LOST",
                json!([calls(std::slice::from_ref(&read)), {"error": {"status": 401, "message": "bad key"}}]),
            ),
            ("MUTE", json!([{"text": " ", "stop": "end"}])),
        ],
    );
    let kind = "---\nname: short\ndescription: Has one turn\nmaxTurns: 1\n---\n";
    room.write("home/.config/haft/agents/short.md", kind);
    let ran = play(&room, &["go", "--output", "json"]);
    let found = results(&ran);
    // The four agents start at the same time, so their numbers are in any order.
    let failure = "did not finish: the most turns were reached; it came as far as 1 turn, 1 call\nits last words: First.";
    assert!(found[0].starts_with("Failed: the agent `short-") && found[0].ends_with(failure), "{found:?}");
    assert!(found[1].contains("did not finish") && found[1].contains("bad key"), "{found:?}");
    assert!(found[1].contains("2 turns, 1 call"), "{found:?}");
    assert!(
        found[2]
            .contains("no kind of agent `nobody`; `subagent_type` is one of: general, explore, plan, short")
    );
    assert!(found[3].contains("did not finish"), "{found:?}");
}

#[test]
fn agents_give_tasks_to_agents_but_not_for_ever() {
    // Every agent of this script hands its task on.
    let on = calls(&[agent("DEEPER", json!({}))]);
    let room = script(
        json!([on, {"text": "Done."}]),
        &[(
            "DEEPER",
            json!([on, {"text": "Answered.", "cases": [
                {"when": {"contains": "no tool named `Agent`"}, "turn": {"text": "This is the end."}}]}]),
        )],
    );
    let found = events(&play(&room, &["go", "--output", "stream-json"]));
    let agents: std::collections::BTreeSet<&str> =
        found.iter().filter_map(|event| event["agent"].as_str()).filter(|agent| *agent != "main").collect();
    assert_eq!(agents.len(), 3, "{agents:?}");
    assert!(found.iter().any(|event| event["text"].as_str().is_some_and(|text| text.contains("the end"))));
    assert_eq!(found.last().unwrap()["text"], "Done.");
}

#[test]
fn what_agents_cost_counts_for_the_run() {
    let read = call("Read", json!({"file_path": "notes.txt"}));
    let turns = json!([calls(std::slice::from_ref(&read)), calls(std::slice::from_ref(&read)), calls(&[read]), {"text": "Read."}]);
    let room = script(json!([calls(&[agent("READ", json!({}))]), {"text": "Done."}]), &[("READ", turns)]);
    let alone = object(&play(&with_script(r#"{"turns": [{"text": "Done."}]}"#), &["go", "--output", "json"]));
    let once = alone["usage"]["input_tokens"].as_u64().unwrap();
    let all = object(&play(&room, &["go", "--output", "json"]));
    assert!(all["usage"]["input_tokens"].as_u64().unwrap() > 4 * once, "{all} {alone}");

    let most = json!({"run": {"maxTokens": 3 * once}});
    room.write("home/.config/haft/settings.json", &most.to_string());
    let ran = play(&room, &["go", "--output", "json"]);
    let found = object(&ran);
    assert_eq!(found["stop"], "max_total_tokens", "{found}");
    assert!(results(&ran)[0].contains("did not finish: the most tokens were reached"), "{found}");
}

#[test]
fn an_agent_in_the_background_is_a_task() {
    let room = script(
        json!([
            calls(&[agent("SLOW", json!({"run_in_background": true, "name": "slow"}))]),
            calls(&[call("TaskOutput", json!({}))]),
            calls(&[call("Monitor", json!({"task_id": "task-1", "timeout_ms": 60_000}))]),
            calls(&[call("TaskOutput", json!({"task_id": "task-1"}))]),
            {"text": "Done."}
        ]),
        &[(
            "SLOW",
            json!([
                {"delay_ms": 300, "tool_calls": [call("Read", json!({"file_path": "notes.txt"}))]},
                {"text": "It has three lines."}]),
        )],
    );
    let ran = play(&room, &["go", "--output", "json"]);
    let found = results(&ran);
    assert!(found[0].starts_with("the agent `slow` runs in the background as task-1"), "{found:?}");
    assert!(found[1].contains("Agent: slow: a task"), "{found:?}");
    assert!(found[3].contains("✓ Read") && found[3].contains("task-1 ended after"), "{found:?}");
    assert!(found[3].ends_with("It has three lines."), "{found:?}");
}

/// A run that is asked once doesn't end before its agents: nobody would hear them.
#[test]
fn the_answer_of_an_agent_in_the_background_reaches_the_model() {
    let room = script(
        json!([
            calls(&[agent("SLOW", json!({"run_in_background": true}))]),
            {"text": "I wait."},
            {"text": "Heard.", "expect": [{"prompt": true, "contains": "has answered:\n\nForty-two."}]}
        ]),
        &[("SLOW", json!([{"delay_ms": 300, "text": "Forty-two."}]))],
    );
    let ran = play(&room, &["go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Heard.\n"), "{}", ran.stderr);
}

#[test]
fn a_task_that_is_an_agent_can_be_stopped() {
    let room = script(
        json!([
            calls(&[agent("NEVER", json!({"run_in_background": true}))]),
            calls(&[call("TaskStop", json!({"task_id": "task-1"}))]),
            {"text": "Done."}
        ]),
        &[("NEVER", json!([{"delay_ms": 600_000, "text": "Never."}]))],
    );
    let ran = play(&room, &["go", "--output", "json"]);
    assert!(results(&ran)[1].starts_with("stopped task-1: general-1: a task"), "{ran:?}");
}

#[test]
fn messages_reach_agents_that_work() {
    let room = script(
        json!([
            calls(&[agent("LISTEN", json!({"run_in_background": true, "name": "listener"}))]),
            calls(&[
                call("SendMessage", json!({"to": "listener", "message": "The word is BLUE."})),
                call("SendMessage", json!({"to": "nobody", "message": "x"})),
            ]),
            calls(&[call("Write", json!({"file_path": "go.txt", "content": ""}))]),
            calls(&[call("Monitor", json!({"task_id": "task-1", "timeout_ms": 60_000}))]),
            {"text": "Done.", "expect": [{"contains": "heard BLUE"}]},
            {"text": "Done."}
        ]),
        &[(
            "LISTEN",
            json!([
                calls(&[call("Monitor", json!({"file": "go.txt", "timeout_ms": 60_000}))]),
                {"text": "I heard BLUE and heard BLUE.",
                 "expect": [{"prompt": true, "contains": "Message from the agent `main`:\n\nThe word is BLUE."}]}]),
        )],
    );
    let ran = play(&room, &["go", "--allow", "Write", "--output", "json"]);
    let found = results(&ran);
    assert_eq!(found[1], "sent to `listener`; it reads it before its next turn", "{ran:?}");
    assert!(found[2].contains("there is no agent `nobody` at work"), "{found:?}");
    assert!(found[2].contains("these are at work: `listener`"), "{found:?}");
    assert!(found[4].contains("heard BLUE"), "{found:?}");
}

#[test]
fn an_interrupt_ends_agents_and_says_how_far_they_came() {
    let room = script(
        json!([calls(&[agent("NEVER", json!({}))]), {"text": "Done."}]),
        &[(
            "NEVER",
            json!([
                calls(&[call("Write", json!({"file_path": "began.txt", "content": ""}))]),
                calls(&[call("Bash", json!({"command": "touch sleeps.txt; sleep 600"}))])
            ]),
        )],
    );
    let script = room.path("script.json");
    let args = [
        "run",
        "--script",
        script.to_str().unwrap(),
        "go",
        "--output",
        "json",
        "--allow",
        "Write",
        "--allow",
        "Bash",
    ];
    let mut command = room.haft(args);
    command.env(crate::room::PATH, std::env::var_os(crate::room::PATH).unwrap());
    let child = command.spawn().unwrap();
    let began = Instant::now();
    while !room.path("work/sleeps.txt").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the agent never began");
        crate::room::pause();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = found["calls"][0]["error"]["message"].as_str().unwrap();
    assert!(words.starts_with("the agent `general-1` was cancelled"), "{words}");
    // The command may have its own result by then.
    assert!(words.contains("it came as far as 2 turns, "), "{words}");
}

/// A single call has a model where one is configured, or a script in its place; where there is none it says
/// what to do.
#[test]
fn a_single_call_gives_a_task_too() {
    let script = r#"{"turns": [{"text": "nobody asks"}], "agents": [{"when": {"contains": "count the lines"}, "turns": [
        {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"text": "There are three.", "expect": [{"result": 0, "contains": "three"}]}]}]}"#;
    let room = crate::run::with_script(script);
    let input = r#"{"description": "counts", "prompt": "count the lines of notes.txt"}"#;
    for name in ["Agent", "agent", "Task"] {
        let called = room.say(&["call", name, input, "--script", "../script.json"]);
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stdout.contains("There are three."), "{called:?}");
    }
    let nobody = room.say(&["call", "Agent", input]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    assert!(nobody.stderr.contains("an agent needs a model, and none is configured"), "{nobody:?}");
    let other = room.say(&["call", "Read", r#"{"file_path": "notes.txt"}"#, "--script", "../script.json"]);
    assert_eq!(other.code, Some(2), "{other:?}");
}
