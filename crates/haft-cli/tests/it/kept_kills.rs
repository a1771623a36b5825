//! Sessions that are killed: at moments by chance and at every state of the journal, over all wires, and
//! several at once.
//!
//! Whatever happens, a session that goes on ends with one result for each call, in order, and nothing ran
//! twice.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::room::{PATH, Ran, Room};
use crate::run_http::Served;

pub(crate) const WIRES: [&str; 4] = ["anthropic", "openai", "openai-chat", "gemini"];
/// Calls that leave a trace, in three messages; `r` only look.
const SCRIPT: &str = r#"{"turns": [
    {"text": "one", "tool_calls": [
        {"name": "Read", "input": {"file_path": "notes.txt"}},
        {"name": "Bash", "input": {"command": "echo c1 >> ran.txt"}},
        {"name": "Bash", "input": {"command": "echo c2 >> ran.txt"}}]},
    {"text": "two", "tool_calls": [
        {"name": "Bash", "input": {"command": "echo c3 >> ran.txt"}},
        {"name": "Read", "input": {"file_path": "src/main.rs"}},
        {"name": "Bash", "input": {"command": "echo c4 >> ran.txt; exit 3"}}]},
    {"text": "three", "tool_calls": [{"name": "Bash", "input": {"command": "echo c5 >> ran.txt"}}]},
    {"text": "finished"},
    {"text": "finished again"}]}"#;
const TRACES: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

fn room() -> Room {
    let room = Room::new();
    room.write("script.json", SCRIPT);
    room
}

/// A run by this wire; without one from the script itself.
pub(crate) fn run(room: &Room, wire: Option<(&str, &Served)>, more: &[&str]) -> Command {
    let mut args = vec!["run", "--permission-mode", "bypassPermissions", "--output", "stream-json"];
    let url = wire.map(|(wire, served)| served.base_url(wire));
    match (&wire, &url) {
        (Some((wire, _)), Some(url)) => {
            args.extend(["--provider", wire, "--base-url", url, "--model", "m"]);
        }
        _ => args.extend(["--script", "../script.json"]),
    }
    args.extend(more);
    let mut command = room.haft(args);
    command.env(PATH, std::env::var_os(PATH).unwrap());
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        command.env(key, "no-real-key");
    }
    command
}

pub(crate) fn journals(room: &Room) -> Vec<PathBuf> {
    let folder = room.path("home/.local/state/haft/sessions");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("journal.log")).filter(|path| path.is_file()).collect()
}

/// The conversation in a journal; every whole line of it is as it was written.
pub(crate) fn items(journal: &Path) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let bytes = std::fs::read(journal).unwrap();
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let record: Value = serde_json::from_slice(&line[9..]).unwrap();
        if record["is"] == "items" {
            items.truncate(usize::try_from(record["from"].as_u64().unwrap()).unwrap());
            items.extend(record["items"].as_array().unwrap().iter().cloned());
        }
    }
    items
}

/// Ids, each with its text.
pub(crate) type Pairs = Vec<(String, String)>;

/// The calls and the results of a conversation in any wire: ids with what was asked and answered.
pub(crate) fn pairs(items: &[Value]) -> (Pairs, Pairs) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for item in items {
        match item["type"].as_str() {
            Some("function_call") => calls.push((text(&item["call_id"]), text(&item["arguments"]))),
            Some("function_call_output") => results.push((text(&item["call_id"]), text(&item["output"]))),
            _ => {}
        }
        for call in item["tool_calls"].as_array().into_iter().flatten() {
            calls.push((text(&call["id"]), text(&call["function"]["arguments"])));
        }
        if item["role"] == "tool" {
            results.push((text(&item["tool_call_id"]), text(&item["content"])));
        }
        for block in [&item["content"], &item["parts"]].into_iter().filter_map(Value::as_array).flatten() {
            if block["type"] == "tool_use" {
                calls.push((text(&block["id"]), text(&block["input"])));
            } else if block["type"] == "tool_result" {
                results.push((text(&block["tool_use_id"]), text(&block["content"])));
            } else if let Some(call) = block.get("functionCall") {
                calls.push((text(&call["id"]), text(&call["args"])));
            } else if let Some(result) = block.get("functionResponse") {
                results.push((text(&result["id"]), text(&result["response"])));
            }
        }
    }
    (calls, results)
}

/// What was found of a session that came to its end; panics where something was lost or done twice.
fn judged(room: &Room, journal: &Path, named: &str) -> usize {
    let (calls, results) = pairs(&items(journal));
    let ids = |pairs: &[(String, String)]| pairs.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&calls), ids(&results), "{named}: a result for each call, in order");
    let text = std::fs::read_to_string(room.path("work/ran.txt")).unwrap_or_default();
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *ran.entry(line).or_default() += 1);
    let mut unknown = 0;
    for trace in TRACES {
        let times = ran.get(trace).copied().unwrap_or(0);
        assert!(times <= 1, "{named}: {trace} ran {times} times");
        let at = calls.iter().position(|(_, asked)| asked.contains(&format!("echo {trace} ")));
        let at = at.unwrap_or_else(|| panic!("{named}: {trace} was never asked for: {calls:?}"));
        if results[at].1.contains("outcome is unknown") {
            unknown += 1
        } else {
            assert_eq!(times, 1, "{named}: {trace}: {}", results[at].1)
        }
    }
    unknown
}

/// Numbers by chance, always the same ones.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Runs until it is killed after so many lines and so long; whether it was still there.
fn killed(mut command: Command, lines: u64, then: Duration) -> bool {
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut ended = (0..lines).any(|_| receiver.recv().is_err());
    // As long as this, or until it ends.
    let until = std::time::Instant::now() + then;
    while !ended {
        match receiver.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
            Ok(_) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => break,
            Err(mpsc::RecvTimeoutError::Disconnected) => ended = true,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    reader.join().unwrap();
    !ended
}

/// Kills a session one to three times and lets it come to its end; how often it was killed, and unknown
/// outcomes.
fn trial(wire: Option<(&str, &Served)>, seed: u64) -> (usize, usize) {
    let room = room();
    let named = format!("{:?}, seed {seed}", wire.map(|(wire, _)| wire));
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1);
    let mut kills = 0;
    for _ in 0..=chance.below(3) {
        // One that has nothing to go on with yet is begun again.
        let begun = journals(&room).iter().any(|journal| !items(journal).is_empty());
        let words = if begun { "--continue" } else { "go" };
        let (lines, then) = (chance.below(30), Duration::from_micros(chance.below(60_000)));
        kills += usize::from(killed(run(&room, wire, &[words]), lines, then));
    }
    let begun: Vec<PathBuf> =
        journals(&room).into_iter().filter(|journal| !items(journal).is_empty()).collect();
    assert!(begun.len() <= 1, "{named}: {begun:?}");
    let words = if begun.is_empty() { "go" } else { "--continue" };
    let ran = room.run(run(&room, wire, &[words]), "");
    // 2: it had come to its end before.
    assert!(matches!(ran.code, Some(0 | 2)), "{named}: {ran:?}");
    let journal = journals(&room).into_iter().find(|journal| !items(journal).is_empty()).unwrap();
    nobody_left(&room, &named);
    (kills, judged(&room, &journal, &named))
}

/// Nothing that a killed process had started is at work in this room. The kernel may need a moment for who
/// just died.
pub(crate) fn nobody_left(room: &Room, named: &str) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let left: Vec<PathBuf> = processes
            .filter(|process| {
                std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(room.path("")))
            })
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < until, "{named}: {left:?}");
        crate::room::pause();
    }
}

/// Trials with these seeds over all wires, some at once.
fn trials(seeds: std::ops::Range<u64>) -> (usize, usize) {
    let workers = WIRES.len() as u64;
    let done: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..workers)
            .map(|worker| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let wire = WIRES[usize::try_from(worker).unwrap()];
                    let served = Served::start(&room());
                    let mut sum = (0, 0);
                    for seed in seeds.filter(|seed| seed % workers == worker) {
                        let (kills, unknown) = trial(Some((wire, &served)), seed);
                        sum = (sum.0 + kills, sum.1 + unknown);
                    }
                    sum
                })
            })
            .collect();
        working.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    done.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn sessions_killed_by_chance_go_on_in_every_wire() {
    let (kills, _) = trials(0..12);
    assert!(kills >= 4, "only {kills} were killed while they ran");
}

#[test]
#[ignore = "prove"]
fn prove_that_killed_sessions_go_on() {
    const PART: u64 = 100;
    let (mut done, mut kills, mut unknown) = (0, 0, 0);
    while kills < 1_000 {
        let found = trials(done..done + PART);
        (done, kills, unknown) = (done + PART, kills + found.0, unknown + found.1);
        println!("{done} sessions, {kills} kills");
    }
    println!(
        "proof: {done} sessions over four wires, killed {kills} times at moments by chance, came to their end, and no process \
         of theirs was left"
    );
    println!(
        "proof: no call ran twice, each had one result; of {unknown} the outcome was unknown and said to be"
    );
}

pub(crate) fn has_strace() -> bool {
    Command::new("strace")
        .args(["-qq", "-e", "trace=none", "true"])
        .status()
        .is_ok_and(|status| status.success())
}

/// What happens to the journal of a session.
#[derive(Debug)]
pub(crate) enum Fault {
    /// To a call of the system on it, as `strace` takes it.
    Call(String),
    /// It can grow by so many bytes; the write that passes this is short, and the next one ends the process
    /// or fails.
    Full { bytes: u64, dies: bool },
}

impl Fault {
    /// The command that runs `haft` with it.
    fn around(&self, journal: &Path, trace: &Path) -> Command {
        match self {
            Fault::Call(inject) => {
                let mut command = Command::new("strace");
                command.args(["-f", "-qq", "-o"]).arg(trace).arg("-P").arg(journal);
                command.args([
                    "-e",
                    "trace=write,pwrite64,fdatasync,ftruncate",
                    "-e",
                    &format!("inject={inject}"),
                ]);
                command
            }
            Fault::Full { bytes, dies } => {
                let bound = journal.metadata().unwrap().len() + bytes;
                let trap = if *dies { "" } else { "trap '' XFSZ; " };
                let script = format!("{trap}exec prlimit --core=0 --fsize={bound} \"$@\"");
                let mut command = Command::new("sh");
                command.args(["-c", &script, "sh"]);
                command
            }
        }
    }

    /// Whether it came to pass.
    fn hit(&self, ran: &Ran, trace: &Path) -> bool {
        match self {
            Fault::Call(_) => {
                let trace = std::fs::read_to_string(trace).unwrap_or_default();
                // strace ends as the program did; others that are killed, as spare sandboxes are at the end,
                // don't count.
                trace.contains("INJECTED") || ran.code.is_none()
            }
            Fault::Full { dies: true, .. } => ran.code.is_none(),
            Fault::Full { .. } => ran.code != Some(0) || ran.stderr.contains("journal could not be written"),
        }
    }
}

/// A session of a script whose first turn is words goes on behind it while something happens to its journal,
/// and then to its end; whether it happened, and the journal.
pub(crate) fn went_on(room: &Room, fault: &Fault) -> (bool, PathBuf) {
    assert_eq!(room.run(run(room, None, &["hello"]), "").code, Some(0));
    let journal = journals(room).pop().unwrap();
    let id = journal.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let plain = run(room, None, &["--resume", &id, "go"]);
    let mut command = fault.around(&journal, &room.path("trace"));
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(room.path("work"));
    command.env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let first = room.run(command, "");
    let hit = fault.hit(&first, &room.path("trace"));
    let words: &[&str] = if first.code == Some(0) { &["--resume", &id, "more"] } else { &["--resume", &id] };
    let second = room.run(run(room, None, words), "");
    assert!(!(first.stderr.clone() + &second.stderr).contains("panicked"), "{fault:?}: {first:?} {second:?}");
    // 2: it had come to its end before.
    assert!(matches!(second.code, Some(0 | 2)), "{fault:?}: {first:?} {second:?}");
    (hit, journal)
}

/// The script with a fault; whether it came to pass, and how many outcomes were unknown.
fn injected(fault: &Fault) -> (bool, usize) {
    let room = Room::new();
    room.write("script.json", &SCRIPT.replacen("[\n", "[{\"text\": \"hello\"},\n", 1));
    let (hit, journal) = went_on(&room, fault);
    let (calls, results) = pairs(&items(&journal));
    let ids = |pairs: &[(String, String)]| pairs.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&calls), ids(&results), "{fault:?}: a result for each call, in order");
    let text = std::fs::read_to_string(room.path("work/ran.txt")).unwrap_or_default();
    for trace in TRACES {
        assert!(text.lines().filter(|line| *line == trace).count() <= 1, "{fault:?}: {trace} ran twice");
    }
    let unknown = results.iter().filter(|(_, text)| text.contains("outcome is unknown")).count();
    (hit, unknown)
}

/// All of these, until so many in a row aren't reached any more, as lines that wait together are one write;
/// how many were, and how many outcomes were unknown.
fn swept(what: impl Fn(usize) -> Fault, step: usize, misses: usize) -> (usize, usize) {
    let (mut count, mut unknown, mut missed) = (0, 0, 0);
    for at in (1..).step_by(step) {
        let (hit, more) = injected(&what(at));
        missed = if hit { 0 } else { missed + 1 };
        if missed == misses {
            break;
        }
        (count, unknown) = (count + usize::from(hit), unknown + more);
        assert!(count < 2_000, "{:?} is reached without end", what(at));
    }
    (count, unknown)
}

/// These faults happen, and each is survived.
fn survives(faults: impl IntoIterator<Item = Fault>) {
    for fault in faults {
        assert!(injected(&fault).0, "{fault:?} is not reached");
    }
}

/// Faults of these calls on the journal; with `strace` alone.
fn survives_in_calls(faults: &[&str]) {
    if !has_strace() {
        eprintln!("skipped: there is no strace that may trace");
        return;
    }
    survives(faults.iter().map(|inject| Fault::Call((*inject).to_owned())));
}

// Lines that wait together are one write, so their count is another each time: five at least, as each of the
// three messages and each of their answers waits for what was before it.

#[test]
fn states_of_the_journal_are_survived() {
    survives_in_calls(&["write:signal=KILL:when=1", "write:signal=KILL:when=3", "write:signal=KILL:when=5"]);
}

#[test]
fn failed_writes_of_the_journal_are_survived() {
    survives_in_calls(&[
        "write:error=ENOSPC:when=1",
        "write:error=ENOSPC:when=3",
        "write:error=ENOSPC:when=5",
    ]);
}

/// Room for lines is made, and given back at the end.
#[test]
fn faults_while_the_journal_makes_room_are_survived() {
    survives_in_calls(&["pwrite64:signal=KILL:when=1", "pwrite64:error=ENOSPC:when=1"]);
}

#[test]
fn faults_while_the_journal_gives_room_back_are_survived() {
    survives_in_calls(&["ftruncate:signal=KILL:when=1", "ftruncate:error=ENOSPC:when=1"]);
}

/// The kernel itself takes a part of a write and then no more.
#[test]
fn lines_that_are_written_in_part_are_survived() {
    survives([1, 1_998, 3_995].map(|bytes| Fault::Full { bytes, dies: true }));
}

#[test]
fn lines_that_find_no_more_room_are_survived() {
    survives([1, 1_998, 3_995].map(|bytes| Fault::Full { bytes, dies: false }));
}

#[test]
#[ignore = "prove"]
fn prove_that_every_state_of_the_journal_is_survived() {
    if !has_strace() {
        println!("proof: not made here: there is no strace that may trace");
        return;
    }
    let told = |name: &str, (count, unknown): (usize, usize)| {
        assert!(count >= 3, "{name}: {count}");
        println!(
            "proof: {name}: {count} times, every call has one result and none ran twice; {unknown} outcomes unknown"
        );
    };
    for (name, what, on) in [
        ("kill -9 at each write", "write:signal=KILL:when=", ""),
        ("kill -9 at each fdatasync", "fdatasync:signal=KILL:when=", ""),
        ("ENOSPC at each write", "write:error=ENOSPC:when=", ""),
        ("EIO at each write", "write:error=EIO:when=", ""),
        ("EIO at each fdatasync", "fdatasync:error=EIO:when=", ""),
        ("ENOSPC from each write on", "write:error=ENOSPC:when=", "+"),
    ] {
        told(&format!("{name} of the journal"), swept(|at| Fault::Call(format!("{what}{at}{on}")), 1, 4));
    }
    // A step that meets lines at other places each time.
    for (name, dies) in [("the process dies", true), ("there is no more room", false)] {
        told(
            &format!("{name} in the middle of a line of the journal, every 97 bytes"),
            swept(|bytes| Fault::Full { bytes: bytes as u64, dies }, 97, 1),
        );
    }
}

#[test]
fn several_processes_share_a_workspace_and_a_state_folder() {
    let room = room();
    let most = 6;
    let runs: Vec<_> = (0..most).map(|_| run(&room, None, &["go"]).spawn().unwrap()).collect();
    for child in runs {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let journals = journals(&room);
    assert_eq!(journals.len(), most);
    for journal in &journals {
        let (calls, results) = pairs(&items(journal));
        assert_eq!((calls.len(), results.len()), (7, 7), "{}", journal.display());
    }
    let text = std::fs::read_to_string(room.path("work/ran.txt")).unwrap();
    for trace in TRACES {
        assert_eq!(text.lines().filter(|line| *line == trace).count(), most, "{trace}");
    }
    // Of several who go on with one session, one does.
    let id = journals[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let runs: Vec<_> =
        (0..4).map(|_| run(&room, None, &["--resume", &id, "more"]).spawn().unwrap()).collect();
    let codes: Vec<Option<i32>> =
        runs.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
    assert!(codes.iter().filter(|code| **code == Some(0)).count() >= 1, "{codes:?}");
    let said = items(&journals[0]).iter().filter(|item| item.to_string().contains("more")).count();
    // One that comes after another has ended goes on too, and finds that the script is over: 1. Who is
    // refused says nothing: 2.
    let went_on = codes.iter().filter(|code| **code != Some(2)).count();
    assert!(said <= went_on, "{said} said, {codes:?}");
    let (calls, results) = pairs(&items(&journals[0]));
    assert_eq!(calls.len(), results.len());
}

/// A session goes on although somebody has its lock in this way, who lets go when the file was asked for so
/// often.
fn goes_on_beside(lock: rustix::fs::FlockOperation, (call, times): (&str, usize)) {
    if !has_strace() {
        println!("skipped: there is no strace that may trace");
        return;
    }
    let room = Room::new();
    room.write("script.json", r#"{"turns": [{"text": "one"}, {"text": "two"}]}"#);
    assert_eq!(room.run(run(&room, None, &["hello"]), "").code, Some(0));
    let journal = journals(&room).pop().unwrap();
    let looks = std::fs::File::open(&journal).unwrap();
    rustix::fs::flock(&looks, lock).unwrap();
    let plain = run(&room, None, &["--continue", "more"]);
    let trace = room.path("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=flock", "-o"]).arg(&trace).arg("-P").arg(&journal);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(room.path("work")).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while std::fs::read_to_string(&trace).unwrap_or_default().matches(call).count() < times {
        assert!(child.try_wait().unwrap().is_none(), "{:?}", child.wait_with_output());
        crate::room::pause();
    }
    drop(looks);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A list that was stopped while it asked whether a session runs has a part in its lock.
#[test]
fn who_only_looks_keeps_no_session_from_going_on() {
    // More often than where somebody writes.
    goes_on_beside(rustix::fs::FlockOperation::NonBlockingLockShared, ("LOCK_EX", 40));
}

/// What a killed process was about to start has its lock until it becomes another program.
#[test]
fn what_a_killed_process_leaves_for_a_moment_is_waited_for() {
    goes_on_beside(rustix::fs::FlockOperation::NonBlockingLockExclusive, ("LOCK_SH", 4));
}
