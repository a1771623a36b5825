//! Everything at once, for a while: memory, descriptors, threads and files stay what they are, and nothing is
//! left.
//!
//! One server over HTTP has three clients that read, search, write, edit, run commands, start and stop tasks,
//! call the tools of an MCP server that dies now and then, and hang up in the middle of a command. Beside it,
//! servers over standard input and output come and go, with results too long for their clients, and turns are
//! interrupted. What is compared are two halves of the time after a while of warming up, never a time.
//!
//! `cargo xtask test` does it for seconds, `cargo xtask soak --minutes N` for as long as you like.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mcp::faulty;
use crate::room::{PATH, Room, until};
use crate::serve::{Http, Stdio1};

/// How many clients the one server has.
const CLIENTS: usize = 3;
/// How long until the next look.
const LOOK: Duration = Duration::from_millis(250);
/// How many looks there are at least, however slow the machine is.
const LOOKS_MIN: usize = 18;
/// How long until the next line about what was seen so far: nothing is lost where a run fails.
const SAID: Duration = Duration::from_secs(60);
/// Says for how many minutes it goes on.
const MINUTES: &str = "HAFT_SOAK_MINUTES";

/// What was counted, by name.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<&'static str, u64>>);

impl Counts {
    fn add(&self, what: &'static str) {
        *self.0.lock().unwrap().entry(what).or_default() += 1;
    }
}

/// Says that its thread panicked.
struct Failed(Sender<()>);

impl Drop for Failed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(());
        }
    }
}

/// What the server has at a moment.
#[derive(Debug, Clone, Copy)]
struct Seen {
    memory_kib: u64,
    descriptors: u64,
    threads: u64,
    files: u64,
}

impl Seen {
    fn of(room: &Room, pid: u32) -> Seen {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says it");
            line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
        };
        Seen {
            memory_kib: number("VmRSS:"),
            threads: number("Threads:"),
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it is alive").count() as u64,
            files: files(&room.path("")),
        }
    }
}

/// How many files there are. Journals aren't counted: each session leaves one, to be cleaned by age and size.
fn files(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() && entry.file_name() == "sessions" => 0,
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ => 1,
    };
    entries.map(count).sum()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn arguments(kind: u64, client: usize) -> (&'static str, &'static str, Value) {
    let file = format!("own{client}.txt");
    match kind {
        0 => ("reads", "Read", json!({"file_path": "notes.txt"})),
        1 => ("searches", "Grep", json!({"pattern": "two", "output_mode": "content"})),
        2 => ("lists", "Glob", json!({"pattern": "**/*.rs"})),
        3 => ("reads", "Read", json!({"file_path": file})),
        4 => ("writes", "Write", json!({"file_path": file, "content": "one\ntwo\n"})),
        5 => ("edits", "Edit", json!({"file_path": file, "old_string": "two", "new_string": "2"})),
        6 => ("commands", "Bash", json!({"command": "echo said; seq 1 100"})),
        7 => ("errors", "Read", json!({"file_path": "no-such-file"})),
        8 => ("calls of a server", "mcp__f__echo", json!({"text": "hi"})),
        _ => ("denials", "Bash", json!({"command": "rm -rf /"})),
    }
}

/// A client of the server over HTTP.
fn client(server: &Http, number: usize, mark: &str, over: &AtomicBool, counts: &Counts) {
    let token = server.token.clone().unwrap();
    let call = |name: &str, arguments: Value| server.call(&token, name, arguments);
    for round in 0u64.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let (what, name, arguments) = arguments(round % 10, number);
        let answer = call(name, arguments);
        assert!(answer.get("result").is_some() || answer.get("error").is_some(), "{name}: {answer}");
        counts.add(what);
        if round % 20 == 0 {
            let command = json!({"command": format!("sleep {mark}"), "run_in_background": true});
            let begun = call("Bash", command).to_string();
            let task = begun.split("task-").nth(1).map(|rest| {
                format!("task-{}", rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>())
            });
            if let Some(task) = task {
                call("TaskStop", json!({"task_id": task}));
                counts.add("tasks started and stopped");
            }
        }
        if round % 30 == 0 {
            let params = json!({"name": "Bash", "arguments": {"command": format!("sleep {mark}")}});
            let request = server.request(Some(&token), "", "tools/call", params);
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            // Nobody waits for the answer.
            drop(stream);
            counts.add("commands that nobody waited for");
        }
        if round % 100 == 50 {
            call("mcp__f__die_half", json!({}));
            counts.add("deaths of the MCP server");
        }
    }
}

/// Servers over standard input and output that come and go, each with a result too long for its client.
fn comers(room: &Room, over: &AtomicBool, counts: &Counts) {
    while !over.load(Ordering::Relaxed) {
        let mut client = Stdio1::new(room, &["--permission-mode", "acceptEdits"]);
        for _ in 0..5 {
            let input =
                json!({"pattern": "line", "path": "big.txt", "output_mode": "content", "head_limit": 0});
            let (said, failed) = client.call("Grep", input);
            assert!(!failed, "{said}");
            counts.add("results too long for the client");
        }
        drop(client);
        counts.add("servers that came and went");
    }
}

/// Turns that are interrupted, or end by themselves.
fn interrupted(room: &Room, mark: &str, over: &AtomicBool, counts: &Counts) {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let message = json!({"role": "assistant", "content": [
        call("a", "Read", json!({"file_path": "notes.txt"})),
        call("b", "Bash", json!({"command": format!("touch began; sleep {mark}")})),
    ]});
    room.write("message.json", &message.to_string());
    while !over.load(Ordering::Relaxed) {
        let _ = std::fs::remove_file(room.path("work/began"));
        let file = room.path("message.json");
        let mut haft = room.haft(["dispatch", "--allow", "Bash", file.to_str().unwrap()]);
        haft.env(PATH, std::env::var_os(PATH).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = haft.spawn().unwrap();
        until("the command runs", || room.path("work/began").exists());
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        child.wait().unwrap();
        counts.add("turns interrupted");
    }
}

/// Processes whose command or environment names this room or its mark.
fn left(room: &Room, mark: &str) -> Vec<String> {
    let home = room.path("");
    let home = home.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of_room = processes.filter_map(|process| {
        let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
        let (line, environment) = (read("cmdline"), read("environ"));
        let names = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        (names(&line, mark) || names(&environment, home))
            .then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    });
    of_room.filter(|line| !line.is_empty()).collect()
}

fn soak(time: Duration) {
    let room = Room::new();
    let lines: String = (0..20_000).map(|number| format!("line {number} of many\n")).collect();
    room.write("work/big.txt", &lines);
    for client in 0..CLIENTS {
        room.write(&format!("work/own{client}.txt"), "one\ntwo\n");
    }
    let servers = json!({"mcpServers": {"f": faulty(&room, "")}});
    room.write("servers.json", &servers.to_string());
    let mark = format!("1000.{}", std::process::id());
    let flags =
        ["--permission-mode", "acceptEdits", "--allow", "Bash", "--allow", "mcp__f", "--deny", "Bash(rm:*)"];
    let mut server = Http::start(&room, &[&flags[..], &["--mcp-config", "../servers.json"]].concat());
    let (over, counts) = (AtomicBool::new(false), Counts::default());
    let seen = std::thread::scope(|scope| {
        // Says that one of them failed: the others are ended then, and nobody waits for ever.
        let (failed, watched): (_, Receiver<()>) = channel();
        let (server, over, counts, room, mark) = (&server, &over, &counts, &room, mark.as_str());
        for number in 0..CLIENTS {
            let failed = Failed(failed.clone());
            scope.spawn(move || {
                let _failed = failed;
                client(server, number, mark, over, counts);
            });
        }
        let (one, other) = (Failed(failed.clone()), Failed(failed));
        scope.spawn(move || {
            let _failed = one;
            comers(room, over, counts);
        });
        scope.spawn(move || {
            let _failed = other;
            interrupted(room, mark, over, counts);
        });
        let begun = Instant::now();
        let (mut seen, mut said) = (Vec::new(), SAID);
        while begun.elapsed() < time || seen.len() < LOOKS_MIN {
            match watched.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => seen.push(Seen::of(room, server.pid())),
                _ => break,
            }
            if begun.elapsed() >= said {
                println!("{} s: {:?} {:?}", said.as_secs(), seen.last(), counts.0.lock().unwrap());
                said += SAID;
            }
        }
        over.store(true, Ordering::Relaxed);
        seen
    });
    let third = seen.len() / 3;
    assert!(seen.len() >= LOOKS_MIN, "something failed after {} looks", seen.len());
    let (early, late) = (&seen[third..2 * third], &seen[2 * third..]);
    let of = |seen: &[Seen], part: fn(&Seen) -> u64| median(seen.iter().map(part).collect());
    println!("proof: {} s, {} looks at the server", time.as_secs(), seen.len());
    for (what, count) in &*counts.0.lock().unwrap() {
        println!("proof: {count} {what}");
    }
    let mut grown = Vec::new();
    for (what, part, room_for) in [
        ("KiB of memory", (|seen| seen.memory_kib) as fn(&Seen) -> u64, 24 * 1024),
        ("descriptors", |seen| seen.descriptors, 24),
        ("threads", |seen| seen.threads, 12),
        ("files", |seen| seen.files, 60),
    ] {
        let (first, early, late) = (part(&seen[0]), of(early, part), of(late, part));
        let most = seen.iter().map(part).max().unwrap_or_default();
        println!("proof: {what}: {first} at first, {early} in the middle, {late} at the end, {most} at most");
        if late > early + early / 4 + room_for {
            grown.push(format!("{what} grew from {early} to {late}"));
        }
    }
    assert!(grown.is_empty(), "{grown:?}");
    server.end();
    until("nothing is left", || left(&room, &mark).is_empty());
    println!("proof: processes left: 0");
}

#[test]
fn a_while_of_everything_leaves_everything_as_it_is() {
    soak(Duration::from_secs(5));
}

#[test]
#[ignore = "soak"]
fn soak_for_minutes() {
    let minutes = std::env::var(MINUTES).ok().and_then(|text| text.parse::<u64>().ok());
    soak(Duration::from_secs(60 * minutes.expect("`cargo xtask soak` says for how long")));
}
