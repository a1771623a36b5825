//! How many recorded calls `haft replay --dry` judges in a second, start of the program and reading of the
//! file included, against parsing the same file as JSON and nothing else, in one run.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

const CALLS: usize = 60_000;
const RUNS: usize = 5;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/main.rs"), "fn main() {}\n").unwrap();
    let text = transcript();
    let file = dir.path().join("calls.jsonl");
    std::fs::write(&file, &text).unwrap();
    let (mut parse, mut replay) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let begin = Instant::now();
        let values =
            text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
        assert_eq!(values, 2 * CALLS / 4);
        parse.push(begin.elapsed().as_secs_f64());
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(["replay", "--dry", "--deny", "Bash(curl *)", "--output", "json"]).arg(&file);
        command.current_dir(dir.path()).env("HOME", dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let status = command.status().unwrap();
        replay.push(begin.elapsed().as_secs_f64());
        assert_eq!(status.code(), Some(1), "some of the calls would be denied");
    }
    let (parse, replay) = (median(parse), median(replay));
    println!("| what | JSON alone | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    println!(
        "| `haft replay --dry` of {CALLS} calls | {:.0} ms | {:.0} ms: {:.0} calls/s | {:.1} | ≥ 20,000 calls/s |",
        parse * 1e3,
        replay * 1e3,
        CALLS as f64 / replay,
        replay / parse
    );
}

/// Messages with four calls each, and their results.
fn transcript() -> String {
    let mut text = String::new();
    for at in 0..CALLS / 4 {
        let inputs = [
            ("Read", r#"{"file_path": "src/main.rs"}"#.to_owned()),
            ("read_file", format!(r#"{{"file_path": "src/gone-{at}.rs", "limit": 20}}"#)),
            ("Bash", format!(r#"{{"command": "git diff --stat HEAD~{at} && cargo test -p x -- t{at}"}}"#)),
            ("Bash", format!(r#"{{"command": "curl -s https://example.com/{at}"}}"#)),
        ];
        let calls: Vec<String> = inputs
            .iter()
            .enumerate()
            .map(|(n, (name, input))| {
                format!(r#"{{"type": "tool_use", "id": "t{at}-{n}", "name": "{name}", "input": {input}}}"#)
            })
            .collect();
        let results: Vec<String> = (0..4)
            .map(|n| {
                let said = "a line of a result\\n".repeat(20);
                format!(r#"{{"type": "tool_result", "tool_use_id": "t{at}-{n}", "content": "{said}"}}"#)
            })
            .collect();
        let _ = writeln!(text, r#"{{"role": "assistant", "content": [{}]}}"#, calls.join(", "));
        let _ = writeln!(text, r#"{{"role": "user", "content": [{}]}}"#, results.join(", "));
    }
    text
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
