//! The clock of the machine is set while the program runs: an hour back, an hour on, beyond 2038, before
//! 1970.
//!
//! Setting it needs a machine of one's own, and the kernel's namespaces move only the clocks that count from
//! its start. So the wall clock is moved between the program and its C library, by a few lines of C that
//! stand before `clock_gettime`; the program itself is the real one. The other clocks are moved by the
//! kernel.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kept_kills::{journals, run};
use crate::room::Room;

/// Adds the seconds in a file to the time of day.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int64_t none;
static volatile int64_t *moved;
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    if (!moved) {
        const char *path = getenv("TEST_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *at = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        moved = at == MAP_FAILED ? &none : at;
    }
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved;
    return failed;
}
"#;

/// The most that a call of these tests can take, in milliseconds, on a machine that is very busy.
const LONG_MS: f64 = 120_000.0;

/// A room whose clock can be set; none where nothing can be compiled.
fn clocked() -> Option<(Room, PathBuf)> {
    let room = Room::new();
    let library = room.path("clock.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-x", "c", "-", "-o"]).arg(&library);
    let Ok(mut cc) = cc.stdin(Stdio::piped()).spawn() else {
        println!("skipped: there is no C compiler");
        return None;
    };
    cc.stdin.take().unwrap().write_all(SHIM.as_bytes()).unwrap();
    assert!(cc.wait().unwrap().success());
    room.write("clock", "\0\0\0\0\0\0\0\0");
    Some((room, library))
}

/// Numbers under a key, wherever they are.
fn numbers(value: &Value, key: &str, found: &mut Vec<f64>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_f64));
            fields.values().for_each(|value| numbers(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|item| numbers(item, key, found)),
        _ => {}
    }
}

fn jumps(room: &Room, library: &PathBuf, seconds: i64) {
    let named = format!("{seconds} s");
    let bash = |command: &str, timeout: u64| json!({"name": "Bash", "input": {"command": command, "timeout": timeout}});
    let turns = json!({"turns": [
        {"tool_calls": [bash("touch here; while [ ! -e jumped ]; do sleep 0.02; done; echo first", 60_000)]},
        {"tool_calls": [bash("sleep 0.2; echo second", 60_000), {"name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"tool_calls": [bash("sleep 600", 300)]},
        {"text": "finished"},
        {"text": "finished again"}]});
    room.write("script.json", &turns.to_string());
    let _ = std::fs::remove_dir_all(room.path("home/.local"));
    for file in ["here", "jumped"] {
        let _ = std::fs::remove_file(room.path("work").join(file));
    }
    let set = |seconds: i64| {
        let clock = std::fs::OpenOptions::new().write(true).open(room.path("clock")).unwrap();
        clock.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    };
    let moved = |more: &[&str]| {
        let mut command = run(room, None, more);
        command.env("LD_PRELOAD", library).env("TEST_CLOCK", room.path("clock"));
        command
    };
    set(0);
    let child = moved(&["go"]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !room.path("work/here").exists() {
        assert!(Instant::now() < until, "{named}: it never came");
        crate::room::pause();
    }
    set(seconds);
    room.write("work/jumped", "");
    let output = child.wait_with_output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !told.contains("panicked"), "{named}: {said} {told}");
    for words in ["first", "second", "did not finish within 0.3 s"] {
        assert!(said.contains(words), "{named}: {words}: {said}");
    }
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut times = Vec::new();
    numbers(&json!(events), "duration_ms", &mut times);
    assert!(
        !times.is_empty() && times.iter().all(|time| (0.0..LONG_MS).contains(time)),
        "{named}: {times:?}"
    );

    // The order is that of the numbers; the times in it have jumped.
    let text = std::fs::read_to_string(journals(room).pop().unwrap()).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(&line[9..]).unwrap()).collect();
    assert!(records.iter().enumerate().all(|(at, record)| record["n"] == at), "{named}: {text}");
    let at: Vec<i64> = records.iter().map(|record| record["at"].as_i64().unwrap()).collect();
    let step = at.windows(2).map(|two| two[1] - two[0]).max_by_key(|step| step.abs()).unwrap();
    // Before 1970 there is no number for a time.
    let expected = (seconds * 1_000).max(-at[0]);
    assert!((step - expected).abs() < 120_000, "{named}: the clock went by {step} ms");
    let mut micros = Vec::new();
    numbers(&json!(records), "micros", &mut micros);
    assert!(micros.len() >= 4 && micros.iter().all(|time| *time < LONG_MS * 1_000.0), "{named}: {micros:?}");

    // Under the new clock and under the old one it is there, goes on, and can be read.
    for (seconds, words) in [(seconds, "more"), (0, "still more")] {
        set(seconds);
        for args in [
            &["sessions", "list", "--output", "json"][..],
            &["log", "--output", "json"],
            &["stats", "--output", "json"],
        ] {
            let mut command = room.haft(args);
            command.env("LD_PRELOAD", library).env("TEST_CLOCK", room.path("clock"));
            let ran = room.run(command, "");
            assert!(ran.code == Some(0) && ran.stdout.len() > 20, "{named}: {args:?}: {ran:?}");
            assert!(!ran.stdout.contains("_ms\":-") && !ran.stderr.contains("panicked"), "{named}: {ran:?}");
        }
        if words == "more" {
            let ran = room.run(moved(&["--continue", words]), "");
            assert_eq!(ran.code, Some(0), "{named}: {ran:?}");
        }
    }
    assert_eq!(journals(room).len(), 1, "{named}");
}

#[test]
fn the_clock_is_set_in_the_middle_of_a_turn() {
    let Some((room, library)) = clocked() else { return };
    const YEAR: i64 = 365 * 24 * 60 * 60;
    for seconds in [-3_600, 3_600, 14 * YEAR, -70 * YEAR] {
        jumps(&room, &library, seconds);
    }
}

/// As after a start of the machine: what counts from there is behind what it was.
#[test]
fn a_session_goes_on_when_the_other_clocks_are_behind() {
    let room = Room::new();
    let turns = json!({"turns": [
        {"tool_calls": [{"name": "Bash", "input": {"command": "sleep 600", "timeout": 300}}]},
        {"text": "one"},
        {"tool_calls": [{"name": "Bash", "input": {"command": "sleep 600", "timeout": 300}}]},
        {"text": "two"}]});
    room.write("script.json", &turns.to_string());
    let ahead = |more: &[&str]| {
        let plain = run(&room, None, more);
        let mut command = Command::new("unshare");
        command.args(["-r", "-T", "--monotonic", "9000000", "--boottime", "9000000", "--fork"]);
        command.arg(plain.get_program()).args(plain.get_args()).current_dir(room.path("work")).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let first = room.run(ahead(&["go"]), "");
    if first.stderr.starts_with("unshare:") {
        eprintln!("skipped: there are no namespaces of clocks: {}", first.stderr);
        return;
    }
    let second = room.run(run(&room, None, &["--continue", "more"]), "");
    for ran in [&first, &second] {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("did not finish within 0.3 s"), "{ran:?}");
    }
}
