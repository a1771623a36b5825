//! What the journal costs: runs of the real program from a script, with it and without it, in turns. Then how
//! long a long session takes to go on, and to be listed.
//!
//! A run of many turns and one of few are measured, and the difference counts: what a program does once is in
//! neither. One `fdatasync` is measured beside the writes, on the same disk and in the same rhythm: of a line
//! that was appended, behind as much work as a turn is. One that follows another at once is quicker, since
//! neither processor nor disk has come to rest, and so is one of a line in room that was there before, as the
//! journal makes it; both are shown too. `cargo xtask bench` runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

const RUNS: usize = 25;
const TURNS: usize = 40;
const READS: usize = 50;
/// About what a turn of one write notes, in bytes.
const NOTED_BYTES: usize = 1800;
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
    let write = |turn: usize| {
        vec![json!({"name": "Write", "input": {"file_path": "w.txt", "content": format!("text {turn}\n")}})]
    };
    script(room, "reads", std::iter::repeat_n(reads.clone(), TURNS));
    script(room, "write", (0..TURNS).map(write));
    script(room, "none", std::iter::empty());

    println!("| what | without | with the journal | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let rounds = measured(room, "reads");
    let of = |rounds: &[(Turn, Turn)], value: fn(&Turn, &Turn) -> f64| {
        median(rounds.iter().map(|(off, on)| value(off, on)).collect())
    };
    let (off, on) = (of(&rounds, |off, _| off[0]), of(&rounds, |_, on| on[0]));
    let ratio = of(&rounds, |off, on| on[0] / off[0]);
    println!("| time of a turn of {READS} reads | {off:.2} ms | {on:.2} ms | {ratio:.2} | ≤ 1.05 |");
    // The system counts processor time in steps that are too long for one round.
    let sum = |pick: fn(&(Turn, Turn)) -> f64| rounds.iter().map(pick).sum::<f64>() / RUNS as f64;
    let (off, on) = (sum(|(off, _)| off[1]), sum(|(_, on)| on[1]));
    println!("| processor time of the same | {off:.2} ms | {on:.2} ms | {:.2} | |", on / off);
    let rounds = measured(room, "write");
    let (off, on) = (of(&rounds, |off, _| off[0]), of(&rounds, |_, on| on[0]));
    let (ratio, more) = (of(&rounds, |off, on| on[0] / off[0]), of(&rounds, |off, on| on[0] - off[0]));
    println!("| time of a turn of one write | {off:.2} ms | {on:.2} ms | {ratio:.2} | |");
    println!();
    println!("| what | one `fdatasync` | a turn of one write has more | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for (what, work, grows, goal) in [
        ("of what was appended, behind as much work as the turn's", off, true, "≤ 1.3"),
        ("of what was appended, one right after another", 0.0, true, ""),
        ("of what was written into room, behind as much work", off, false, ""),
        ("of what was written into room, one right after another", 0.0, false, ""),
    ] {
        let sync = synced(room, work, grows);
        println!("| {what} | {sync:.3} ms | {more:.3} ms | {:.2} | {goal} |", more / sync);
    }

    script(room, "long", std::iter::repeat_n([&reads[..], &reads[..]].concat(), 100));
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

/// A script with turns of these calls.
fn script(room: &Path, name: &str, turns: impl Iterator<Item = Vec<Value>>) {
    let mut all: Vec<Value> = turns.map(|calls| json!({"text": "t", "tool_calls": calls})).collect();
    all.extend(std::iter::repeat_n(json!({"text": "end"}), 3));
    std::fs::write(room.join(format!("{name}.json")), json!({"turns": all}).to_string()).unwrap();
}

/// Time and processor time of a turn, in milliseconds.
type Turn = [f64; 2];

/// A turn of a script without the journal and with it, in each round, beyond what a run without turns takes.
/// Rounds are compared with themselves: a machine has slow minutes.
fn measured(room: &Path, name: &str) -> Vec<(Turn, Turn)> {
    let beyond = |settings| {
        let (least, all) = (ran(room, "none", settings, &["go"]), ran(room, name, settings, &["go"]));
        [0, 1].map(|pick| (all[pick] - least[pick]) / TURNS as f64)
    };
    let round = |at: usize| {
        // Neither is always the one that follows the other.
        let (swapped, [first, second]) = match at % 2 {
            0 => (false, [OFF, ON].map(beyond)),
            _ => (true, [ON, OFF].map(beyond)),
        };
        if swapped { (second, first) } else { (first, second) }
    };
    (0..RUNS).map(round).collect()
}

/// What one `fdatasync` of as many bytes as a turn notes adds to so many milliseconds of work.
fn synced(room: &Path, work: f64, grows: bool) -> f64 {
    let mut file = File::create(room.join("synced")).unwrap();
    if !grows {
        file.write_all(&vec![0; NOTED_BYTES * TURNS * 2 * RUNS]).unwrap();
        file.rewind().unwrap();
    }
    file.sync_all().unwrap();
    let mut taken = [Vec::new(), Vec::new()];
    let started = Instant::now();
    (0..1_000).for_each(|_| looks(room));
    let each = started.elapsed().as_secs_f64();
    let count = (work / each).round() as usize;
    for at in 0..2 * RUNS {
        let started = Instant::now();
        for _ in 0..TURNS {
            (0..count).for_each(|_| looks(room));
            file.write_all(&[b'x'; NOTED_BYTES]).unwrap();
            if at % 2 == 1 {
                file.sync_data().unwrap();
            }
        }
        taken[at % 2].push(started.elapsed().as_secs_f64() * 1000.0 / TURNS as f64);
        // What one round left is not the next one's.
        file.sync_data().unwrap();
    }
    let [without, with] = taken;
    median(with.iter().zip(&without).map(|(with, without)| with - without).collect())
}

/// A little work, as calls do it.
fn looks(room: &Path) {
    let text = std::fs::read_to_string(room.join("work/a.txt")).unwrap();
    assert!(json!(text).to_string().len() > text.len());
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
    // What another session wrote would have to be read first.
    let _ = std::fs::remove_file(room.join("work/w.txt"));
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
