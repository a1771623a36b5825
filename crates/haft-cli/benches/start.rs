//! How long the program takes to start, against a program that does nothing, in one run.
//!
//! Both are started in turns, so that whatever else the machine does meets both alike. `cargo xtask bench` runs this
//! and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: usize = 400;

fn main() {
    let nothing = Path::new("/usr/bin/true");
    if std::env::args().any(|argument| argument == "--test") || !nothing.exists() {
        return;
    }
    let haft = Path::new(env!("CARGO_BIN_EXE_haft"));
    println!("| what | `true` | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for (args, goal) in [(["--version"].as_slice(), "≤ 5"), (["tools"].as_slice(), "≤ 20")] {
        let (mut least, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            least.push(start(nothing, &[]));
            ours.push(start(haft, args));
        }
        let (least, ours) = (median(least), median(ours));
        let ratio = ours / least;
        println!(
            "| start of `haft {}` | {least:.2} ms | {ours:.2} ms | {ratio:.2} | {goal} |",
            args.join(" ")
        );
    }
}

/// The time from start to end, in milliseconds.
fn start(program: &Path, args: &[&str]) -> f64 {
    let begin = Instant::now();
    let status = Command::new(program).args(args).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    begin.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
