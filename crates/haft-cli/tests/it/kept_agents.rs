//! A tree of agents whose process is killed at each stage: nothing of it lives on, nothing is done twice, and
//! what was done is told to who goes on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kept_kills::{Fault, has_strace, items, nobody_left, pairs, went_on};
use crate::room::Room;

/// Who leaves which traces: the main agent, one with an agent of its own, that one, and one beside them.
const TRACES: [&str; 6] = ["m1", "a1", "a2", "b1", "c1", "c2"];

fn bash(trace: &str) -> Value {
    json!({"name": "Bash", "input": {"command": format!("echo {trace} >> ran.txt")}})
}

fn agent(prompt: &str) -> Value {
    json!({"name": "Agent", "input": {"description": "a task", "prompt": prompt}})
}

fn tree() -> Room {
    let turn = |calls: &[Value]| json!({"tool_calls": calls});
    let of =
        |word: &str, turns: &[Value]| json!({"when": {"prompt": true, "contains": word}, "turns": turns});
    let script = json!({
        "turns": [
            {"text": "hello"},
            turn(&[agent("FIRST please"), agent("SECOND please")]),
            turn(&[bash("m1")]),
            {"text": "finished"},
            {"text": "finished again"}],
        "agents": [
            of("FIRST", &[turn(&[bash("a1")]), turn(&[agent("THIRD please")]), turn(&[bash("a2")]), json!({"text": "First is done."})]),
            of("SECOND", &[turn(&[bash("b1")]), json!({"text": "Second is done."})]),
            of("THIRD", &[turn(&[bash("c1")]), turn(&[bash("c2")]), json!({"text": "Third is done."})])]});
    let room = Room::new();
    room.write("script.json", &script.to_string());
    room
}

/// Kills the process at the n-th write of its journal; whether there was one, and what ran of the agents
/// then.
fn killed_at(at: usize) -> Option<usize> {
    let room = tree();
    let fault = Fault::Call(format!("write:signal=KILL:when={at}"));
    let (hit, journal) = went_on(&room, &fault);
    nobody_left(&room, &format!("killed at write {at}"));
    let conversation = items(&journal);
    let (calls, results) = pairs(&conversation);
    let ids = |pairs: &[(String, String)]| pairs.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&calls), ids(&results), "killed at write {at}: a result for each call, in order");
    let text = std::fs::read_to_string(room.path("work/ran.txt")).unwrap_or_default();
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *ran.entry(line).or_default() += 1);
    let whole = json!(conversation).to_string();
    let answered = |prompt: &str, words: &str| {
        let call = calls.iter().position(|(_, asked)| asked.contains(prompt));
        call.is_some_and(|call| results[call].1.contains(words))
    };
    for trace in TRACES {
        let times = ran.get(trace).copied().unwrap_or(0);
        assert!(times <= 1, "killed at write {at}: {trace} ran {times} times");
        // Who asked has the agent's own words, or is told what the agent did before it ended with its
        // process.
        let has_words = match trace {
            "b1" => answered("SECOND", "Second is done."),
            "m1" => true,
            _ => answered("FIRST", "First is done."),
        };
        let told = whole.contains(&format!("runs echo {trace}."));
        assert!(
            has_words || times == 0 || told,
            "killed at write {at}: {trace} ran, and nobody knows: {whole}"
        );
    }
    hit.then(|| ran.keys().filter(|trace| **trace != "m1").count())
}

/// Kills at each of so many writes, until there are no more for a while: how many there are is another number
/// each time, since what waits together is one write.
fn swept(step: usize, misses: usize) -> (usize, usize) {
    let mut stages: Vec<usize> = Vec::new();
    let mut missed = 0;
    for at in (1..500).step_by(step) {
        match killed_at(at) {
            Some(ran) => {
                stages.push(ran);
                missed = 0;
            }
            None => missed += 1,
        }
        if missed == misses {
            break;
        }
    }
    let between = stages.iter().filter(|ran| (1..5).contains(*ran)).count();
    (stages.len(), between)
}

#[test]
fn a_tree_of_agents_that_is_killed_is_told_of() {
    if !has_strace() {
        eprintln!("skipped: there is no strace that may trace");
        return;
    }
    let stages = [1, 4, 7].into_iter().filter_map(killed_at).count();
    assert!(stages >= 2, "{stages}");
}

#[test]
#[ignore = "prove"]
fn prove_that_a_killed_tree_of_agents_leaves_nothing() {
    if !has_strace() {
        println!("proof: not made here: there is no strace that may trace");
        return;
    }
    let (stages, between) = swept(1, 4);
    println!(
        "proof: a tree of four agents, killed with -9 at each of {stages} writes of its journal: no process left, no command ran \
         twice, what agents had done was told to who went on; {between} times in the midst of their work"
    );
    assert!(stages >= 6 && between > 0, "{stages} {between}");
}
