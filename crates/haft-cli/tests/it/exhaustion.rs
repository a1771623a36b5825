//! A machine that has no more to give: no descriptors, no threads. Calls get errors in words, and the program
//! lives.
//!
//! Both are bounded by the kernel itself. A bound on threads binds no root and counts what else a user runs,
//! so root runs the program as a user who has nothing else.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::room::{PATH, Room};
use crate::serve::Stdio1;

/// How long a run may take before it counts as hanging.
const LONG: Duration = Duration::from_secs(60);

/// A turn with everything in it: many readers, a search, a command, a write.
fn message() -> (String, usize) {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let mut calls: Vec<Value> = (0..30)
        .map(|number| call(&format!("r{number}"), "Read", json!({"file_path": "notes.txt"})))
        .collect();
    calls.push(call("g", "Grep", json!({"pattern": "t"})));
    calls.push(call("b", "Bash", json!({"command": "echo said"})));
    calls.push(call("w", "Write", json!({"file_path": "new.txt", "content": "whole"})));
    let count = calls.len();
    (json!({"role": "assistant", "content": calls}).to_string(), count)
}

/// Plays the turn by a command that runs `haft`, and says how many calls failed; none where nothing ran and
/// that was said.
fn played(room: &Room, how: &[&str]) -> Option<usize> {
    let _ = std::fs::remove_file(room.path("work/new.txt"));
    std::fs::write(room.path("message.json"), message().0).unwrap();
    let mut command = Command::new(how[0]);
    let own = room.path("haft");
    let haft = if own.exists() { own } else { env!("CARGO_BIN_EXE_haft").into() };
    command.args(&how[1..]).arg(haft);
    command.args(["dispatch", "--permission-mode", "acceptEdits", "--allow", "Bash"]);
    command.arg(room.path("message.json")).current_dir(room.path("work")).env_clear();
    command.env("HOME", room.path("home")).env(PATH, std::env::var_os(PATH).unwrap());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // What is said fits a pipe, so nobody waits for a reader.
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > LONG {
            child.kill().unwrap();
            panic!("{how:?}: it hangs");
        }
        crate::room::pause();
    }
    let output = child.wait_with_output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read_to_string(room.path("work/new.txt")).ok();
    match output.status.code() {
        Some(0) => {
            let answer: Value = serde_json::from_str(&said).unwrap();
            let results = answer["content"].as_array().unwrap();
            assert_eq!(results.len(), message().1, "{how:?}: one result for each call");
            for result in results.iter().filter(|result| result["is_error"] == true) {
                let words = result["content"].as_str().unwrap();
                assert!(words.len() > 20, "{how:?}: {words}");
            }
            let wrote = results.iter().find(|result| result["tool_use_id"] == "w").unwrap();
            assert_eq!(
                written.as_deref(),
                (wrote["is_error"] != true).then_some("whole"),
                "{how:?}: {wrote}"
            );
            Some(results.iter().filter(|result| result["is_error"] == true).count())
        }
        Some(2) => {
            assert!(told.starts_with("error: ") && said.is_empty(), "{how:?}: {told}");
            assert_eq!(written, None);
            None
        }
        other => panic!("{how:?}: {other:?} {told}"),
    }
}

fn descriptors(bounds: impl IntoIterator<Item = u32>) -> (usize, usize, usize) {
    let room = Room::new();
    let (mut refused, mut failed, mut fine) = (0, 0, 0);
    for bound in bounds {
        match played(&room, &["prlimit", &format!("--nofile={bound}")]) {
            None => refused += 1,
            Some(0) => fine += 1,
            Some(_) => failed += 1,
        }
    }
    (refused, failed, fine)
}

#[test]
fn without_descriptors_calls_fail_in_words() {
    let (_, failed, fine) = descriptors([8, 16, 20, 64]);
    assert!(failed >= 1 && fine >= 1, "{failed} {fine}");
}

#[test]
#[ignore = "prove"]
fn prove_that_no_bound_on_descriptors_breaks_a_turn() {
    let (refused, failed, fine) = descriptors(4..=72);
    println!(
        "proof: one turn of {} calls with every bound on descriptors from 4 to 72: {refused} times nothing ran and that was \
         said, {failed} times some calls failed in words, {fine} times all went well; never a panic, a hang, half a file or a \
         missing result",
        message().1
    );
    assert!(refused > 0 && failed > 0 && fine > 0);
}

/// Plays the turn as a user who may have so many processes and threads, and nobody else's.
fn threads(bounds: impl IntoIterator<Item = u32>) -> Option<(usize, usize, usize)> {
    use std::os::unix::fs::PermissionsExt as _;
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can become a user who has no other processes");
        return None;
    }
    let room = Room::new();
    // Somebody else has to get at the program and into the room.
    std::fs::copy(env!("CARGO_BIN_EXE_haft"), room.path("haft")).unwrap();
    std::fs::set_permissions(room.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let user = (60_000 + std::process::id() % 5_000).to_string();
    let owner = format!("{user}:{user}");
    let (mut refused, mut failed, mut fine) = (0, 0, 0);
    for bound in bounds {
        let given = Command::new("chown").args(["-R", &owner]).arg(room.path("")).status().unwrap();
        assert!(given.success());
        let bound = format!("--nproc={bound}");
        let how = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "prlimit", &bound];
        match played(&room, &how) {
            None => refused += 1,
            Some(0) => fine += 1,
            Some(_) => failed += 1,
        }
    }
    Some((refused, failed, fine))
}

/// It hung once where the second thread of the runtime could not be made, and panicked where the first could
/// not.
#[test]
fn without_threads_nothing_hangs() {
    let Some((refused, failed, fine)) = threads([1, 2, 3, 4, 5, 8, 64]) else { return };
    assert!(refused >= 2 && failed >= 1 && fine >= 1, "{refused} {failed} {fine}");
}

#[test]
#[ignore = "prove"]
fn prove_that_no_bound_on_threads_breaks_a_turn() {
    let Some((refused, failed, fine)) = threads(1..=48) else { return };
    println!(
        "proof: one turn of {} calls with every bound on processes and threads from 1 to 48: {refused} times nothing ran and \
         that was said, {failed} times some calls failed in words, {fine} times all went well; never a hang",
        message().1
    );
}

/// A server whose descriptors run out while it serves answers with errors, and is as good as before once
/// there are some.
#[test]
fn a_server_without_descriptors_lives_on() {
    let room = Room::new();
    let mut client = Stdio1::new(&room, &["--permission-mode", "acceptEdits"]);
    let read = |client: &mut Stdio1| {
        client.request("tools/call", json!({"name": "Read", "arguments": {"file_path": "notes.txt"}}))
    };
    let limit = |pid: u32, bound: &str| {
        let bound = format!("--nofile={bound}");
        let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &bound]).status().unwrap();
        assert!(set.success());
    };
    let works = |answer: &Value| {
        answer["result"]["content"].to_string().contains("three") && answer["result"]["isError"] != true
    };
    // The bound is on numbers: below the first that is free there is room for none. The journal has folders
    // open for a moment while it makes them safe, so it is looked at more than once.
    let free = (0..20).map(|_| {
        assert!(works(&read(&mut client)));
        let is_free =
            |number: &u32| std::fs::read_link(format!("/proc/{}/fd/{number}", client.pid())).is_err();
        (0..4096).find(is_free).unwrap()
    });
    let open = free.min().unwrap();
    limit(client.pid(), &format!("{open}:4096"));
    for _ in 0..20 {
        let answer = read(&mut client);
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        assert!(answer.to_string().contains("too many files are open"), "{answer}");
    }
    limit(client.pid(), "1024:4096");
    assert!(works(&read(&mut client)));
}
