//! What the journal costs: runs of the real program from a script, with it and without it, in turns. Then how long a long
//! session takes to go on, and to be listed.
//!
//! A run of many turns and one of few are measured, and the difference counts: what a program does once is in neither.
//! One `fdatasync` is measured beside the writes, on the same disk. `cargo xtask bench` runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

const RUNS: usize = 15;
const TURNS: usize = 40;
const READS: usize = 50;
const OFF: &str = r#"{"journal":{"enabled":false},"run":{"maxTurns":1000}}"#;
const ON: &str = r#"{"run":{"maxTurns":1000}}"#;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let room = room.path();
    std::fs::create_dir_all(room.join("work")).unwrap();
    let lines: String = (0..60).map(|line| format!("line {line} of a file that is read\n")).collect();
    std::fs::write(room.join("work/a.txt"), lines).unwrap();
    let reads: Vec<Value> = (1..=READS)
        .map(|line| json!({"name": "Read", "input": {"file_path": "a.txt", "offset": line}}))
        .collect();
    let write = vec![json!({"name": "Write", "input": {"file_path": "w.txt", "content": "x"}})];
    script(room, "reads", &reads, TURNS);
    script(room, "write", &write, TURNS);
    script(room, "none", &[], 0);

    println!("| what | without | with the journal | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let (off, on, _) = measured(room, "reads");
    for (what, pick) in [("time", 0), ("processor", 1)] {
        let (off, on) = (off[pick] / TURNS as f64, on[pick] / TURNS as f64);
        println!(
            "| {what} of a turn of {READS} reads | {off:.2} ms | {on:.2} ms | {:.2} | ≤ 1.05 |",
            on / off
        );
    }
    let (off, on, sync) = measured(room, "write");
    let (off, on) = (off[0] / TURNS as f64, on[0] / TURNS as f64);
    let more = (on - off) / sync;
    println!("| time of a turn of one write | {off:.2} ms | {on:.2} ms | {:.2} | |", on / off);
    println!("| the same in `fdatasync`s, of {sync:.2} ms each | | | {more:.2} | ≤ 1.3 |");

    script(room, "long", &[&reads[..], &reads[..]].concat(), 100);
    std::fs::remove_dir_all(room.join("state")).unwrap();
    ran(room, "long", ON, &["go"]);
    let session = std::fs::read_dir(room.join("state/sessions")).unwrap().next().unwrap().unwrap().path();
    let journal = std::fs::read(session.join("journal.log")).unwrap();
    let (mut fresh, mut resumed) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        fresh.push(ran(room, "none", OFF, &["go"])[0]);
        // As it was: each time the same conversation goes on.
        std::fs::write(session.join("journal.log"), &journal).unwrap();
        resumed.push(
            ran(room, "long", ON, &["--resume", session.file_name().unwrap().to_str().unwrap(), "more"])[0],
        );
    }
    let (fresh, resumed) = (median(fresh), median(resumed));
    println!();
    println!("| what | a new session | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let megabytes = journal.len() / 1_000_000;
    println!(
        "| a session of 10,000 calls ({megabytes} MB) goes on, to its end | {fresh:.0} ms | {resumed:.0} ms | {:.1} | ≤ 300 ms |",
        resumed / fresh
    );
    for copy in 0..30 {
        let folder = room.join(format!("state/sessions/copy-{copy}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("journal.log"), &journal).unwrap();
    }
    let listed = median((0..RUNS).map(|_| command(room, &["sessions", "list"])[0]).collect());
    println!("| 31 such sessions are listed | {fresh:.0} ms | {listed:.0} ms | {:.1} | |", listed / fresh);
}

fn script(room: &Path, name: &str, calls: &[Value], turns: usize) {
    let turn = json!({"text": "t", "tool_calls": calls});
    let mut all: Vec<Value> = std::iter::repeat_n(turn, turns).collect();
    all.extend(std::iter::repeat_n(json!({"text": "end"}), 3));
    std::fs::write(room.join(format!("{name}.json")), json!({"turns": all}).to_string()).unwrap();
}

/// Time and processor time of a script, without the journal and with it, beyond what a run without turns takes; and
/// the time of a sync.
fn measured(room: &Path, name: &str) -> ([f64; 2], [f64; 2], f64) {
    let mut taken: [Vec<[f64; 2]>; 4] = Default::default();
    let mut syncs = Vec::new();
    let mut file = OpenOptions::new().create(true).append(true).open(room.join("synced")).unwrap();
    for _ in 0..RUNS {
        for (at, (name, settings)) in
            [("none", OFF), (name, OFF), ("none", ON), (name, ON)].into_iter().enumerate()
        {
            taken[at].push(ran(room, name, settings, &["go"]));
        }
        for _ in 0..TURNS {
            file.write_all(&[b'x'; 600]).unwrap();
            let started = Instant::now();
            file.sync_data().unwrap();
            syncs.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    }
    // The system counts processor time in steps that are too long for a middle one.
    let of = |at: usize, pick: usize| match pick {
        0 => median(taken[at].iter().map(|one| one[0]).collect()),
        _ => taken[at].iter().map(|one| one[1]).sum::<f64>() / taken[at].len() as f64,
    };
    let beyond = |least: usize, all: usize| [of(all, 0) - of(least, 0), of(all, 1) - of(least, 1)];
    (beyond(0, 1), beyond(2, 3), median(syncs))
}

fn ran(room: &Path, script: &str, settings: &str, words: &[&str]) -> [f64; 2] {
    let script = room.join(format!("{script}.json"));
    let mode = ["--permission-mode", "bypassPermissions", "--output", "json", "--settings", settings];
    let mut args = vec!["run", "--script", script.to_str().unwrap()];
    args.extend(mode);
    args.extend(words);
    command(room, &args)
}

/// The time and the processor time of a run, in milliseconds.
fn command(room: &Path, args: &[&str]) -> [f64; 2] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command
        .args(args)
        .current_dir(room.join("work"))
        .env("HOME", room)
        .env("HAFT_STATE_DIR", room.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (before, started) = (children(), Instant::now());
    assert!(command.status().unwrap().success(), "{args:?}");
    [started.elapsed().as_secs_f64() * 1000.0, children() - before]
}

/// The processor time of all children so far, in milliseconds.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // The 16th and 17th, counted from the third; in hundredths of a second on every Linux that there is.
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(13) + ticks(14)) * 10.0
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
