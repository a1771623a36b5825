//! Ctrl-C, as a signal.

use std::io::{Read as _, Seek as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::room::Room;

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Waits until the child listens for interrupts: then one no longer kills it.
fn wait_until_it_listens(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let begin = Instant::now();
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        let caught = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        if caught & (1 << (Signal::INT.as_raw() - 1)) != 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it never listens");
        crate::room::pause();
    }
}

fn wait_until_it_reads(child: &Child, name: &str) {
    let folder = format!("/proc/{}/fd", child.id());
    let begin = Instant::now();
    let open = || {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|path| path.ends_with(name))
    };
    while !open() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never opens {name}");
        crate::room::pause();
    }
}

#[test]
fn while_input_is_awaited() {
    let room = Room::new();
    let mut child = room.haft(["call", "Read", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_until_it_listens(&child);
    interrupt(&child);
    let kept_open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(kept_open);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(130), true), "{output:?}");
}

/// A file that takes long to read through: a little text, and a hole as large as a disk.
fn endless(room: &Room) {
    let mut file = std::fs::File::create(room.path("work/endless.txt")).unwrap();
    file.write_all("text\n".repeat(4_000).as_bytes()).unwrap();
    file.seek(std::io::SeekFrom::Start(1 << 40)).unwrap();
    file.write_all(b"end").unwrap();
}

#[test]
fn while_a_call_runs() {
    let room = Room::new();
    endless(&room);
    let input = r#"{"file_path": "endless.txt", "offset": 9000}"#;
    let mut child = room.haft(["call", "Read", input, "--output", "json"]).spawn().unwrap();
    wait_until_it_listens(&child);
    wait_until_it_reads(&child, "endless.txt");
    assert_eq!(child.try_wait().unwrap(), None, "it is still reading");
    interrupt(&child);
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stdout} {stderr}");
    let result: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(result["error"]["kind"], "Cancelled", "{result}");
    assert_eq!(result["error"]["message"], "Read was cancelled: the user interrupted this turn");
    assert_eq!(stderr, "");
}

/// Every call has its result in the answer, also those that never began.
#[test]
fn while_a_message_is_dispatched() {
    let room = Room::new();
    endless(&room);
    let call = |id: &str, file: &str| serde_json::json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": file, "offset": 9000}});
    let message = serde_json::json!({"role": "assistant", "content": [call("a", "endless.txt"), call("b", "endless.txt")]});
    let mut command = room.haft(["dispatch", "--max-concurrency", "1"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(message.to_string().as_bytes()).unwrap();
    wait_until_it_listens(&child);
    wait_until_it_reads(&child, "endless.txt");
    interrupt(&child);
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stdout} {stderr}");
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    for (at, id) in ["a", "b"].iter().enumerate() {
        let result = &answer["content"][at];
        assert_eq!((&result["tool_use_id"], &result["is_error"]), (&(*id).into(), &true.into()), "{answer}");
        assert!(result["content"].as_str().unwrap().contains("interrupted this turn"), "{answer}");
    }
    assert_eq!(stderr, "");
}
