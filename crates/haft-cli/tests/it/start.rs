//! How long the program takes to start.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How many times the start of `true` a start may take.
const RATIO_MAX: f64 = 5.0;
const RUNS: usize = 300;

fn start(program: &Path, args: &[&str]) -> Duration {
    let begin = Instant::now();
    let status = Command::new(program).args(args).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// In turns, so that whatever else the machine does meets both alike.
#[test]
#[ignore = "prove"]
fn prove_a_short_start() {
    let nothing = Path::new("/usr/bin/true");
    if !nothing.exists() {
        println!("skipped: there is no {}", nothing.display());
        return;
    }
    let haft = Path::new(env!("CARGO_BIN_EXE_haft"));
    let (mut least, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        least.push(start(nothing, &[]));
        ours.push(start(haft, &["--version"]));
    }
    let (least, ours) = (median(least), median(ours));
    let ratio = ours.as_secs_f64() / least.as_secs_f64();
    println!("proof: `haft --version` takes {ratio:.1} times as long as `true` ({ours:.1?}, {least:.1?})");
    assert!(ratio <= RATIO_MAX, "{ratio}");
}
