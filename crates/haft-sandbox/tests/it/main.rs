//! Real children: `sh`, `bash` and `python3`, and what becomes of them.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod attack;
mod bare;
mod beside;
mod bubblewrap;
mod confined;
mod declared;
mod denied;
mod ends;
mod errors;
mod escapes;
mod evidence;
mod fallback;
mod faults;
mod folders;
mod full;
mod grants;
mod isolated;
mod kept;
mod kernel;
mod lives;
mod made;
mod memory;
mod named;
mod output;
mod planted;
mod profile;
mod repositories;
mod session;
mod sockets;
mod streams;
mod subfolder;
mod temp;
mod toolchains;
mod undone;
mod user;
mod visible;
mod wider;
mod witness;
mod workflows;

use std::time::{Duration, Instant};

use haft::ports::{ProcessError, ProcessOutcome, ProcessRequest, Processes as _};
use haft_sandbox::LocalProcesses;

fn processes() -> LocalProcesses {
    LocalProcesses::new(std::env::vars_os())
}

/// A shell script, in a folder that is always there.
fn sh(script: &str) -> ProcessRequest {
    ProcessRequest::new(["sh", "-c", script], "/")
}

async fn run(request: ProcessRequest) -> Result<ProcessOutcome, ProcessError> {
    processes().run(request).await
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits until something is so; only for what other processes do, which nobody tells us.
#[track_caller]
fn until(what: &str, so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "it never came to be: {what}");
        // Waiting takes no core from what is waited for.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Says why a test tries nothing here.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Waits for a file that another process makes.
async fn appears(path: std::path::PathBuf) {
    tokio::task::spawn_blocking(move || until("the file is there", || path.exists())).await.unwrap();
}

/// Whether a process runs; one that is dead and not collected doesn't.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// The process that wrote its number to a file.
fn pid_in(file: &std::path::Path) -> u32 {
    let read = || std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    until("a number in the file", || read().is_some());
    read().unwrap()
}
