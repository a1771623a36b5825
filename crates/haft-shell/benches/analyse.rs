//! Measures the cost of analyzing an everyday command; the median over rounds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use haft_shell::{ShellDirectories, analyse_command};

const ROUNDS: usize = 101;
const COMMANDS: &str = include_str!("../testdata/everyday.txt");

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    // A mark and a space precede each command.
    let commands: Vec<String> = COMMANDS.lines().map(|line| line[2..].replace("\\n", "\n")).collect();
    let place = ShellDirectories::new("/repo").with_home("/home/me");
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for command in &commands {
                black_box(analyse_command(command, &place));
            }
            start.elapsed().as_secs_f64() * 1e6 / commands.len() as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("| what | µs a command |");
    println!("|---|---|");
    println!("| `analyse` over {} everyday commands | {:.2} |", commands.len(), rounds[ROUNDS / 2]);
}
