//! How long the program takes to start, against a program that does nothing, and a whole `haft call Bash`,
//! sandbox and all, against the same command in a plain bash, in one run. Then `haft serve`, to its list of
//! tools, and how long many MCP servers take to connect, against one.
//!
//! Both are started in turns, so that whatever else the machine does meets both alike. `cargo xtask bench`
//! runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
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
    let empty = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    fill(project.path());
    println!("| what | `true` | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for (what, args, dir, goal) in [
        ("`haft --version`", &["--version"][..], empty.path(), "≤ 5"),
        ("`haft tools`", &["tools"], empty.path(), "≤ 20"),
        ("`haft tools` with settings of 1,000 rules, 20 hooks, 20 tools", &["tools"], project.path(), ""),
    ] {
        let (mut least, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            least.push(start(nothing, &[], dir, dir));
            ours.push(start(haft, args, dir, dir));
        }
        let (least, ours) = (median(least), median(ours));
        let ratio = ours / least;
        println!("| start of {what} | {least:.2} ms | {ours:.2} ms | {ratio:.2} | {goal} |");
    }
    let (mut least, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..RUNS / 4 {
        least.push(start(nothing, &[], empty.path(), empty.path()));
        ours.push(listed(haft, empty.path()));
    }
    let (least, ours) = (median(least), median(ours));
    let ratio = ours / least;
    println!(
        "| start of `haft serve --stdio` to its tools listed | {least:.2} ms | {ours:.2} ms | {ratio:.2} | ≤ 25 ms |"
    );
    whole(tempfile::tempdir().unwrap().path());
    many(tempfile::tempdir().unwrap().path());
}

/// From the start of a server to its list of tools, in milliseconds.
fn listed(haft: &Path, dir: &Path) -> f64 {
    let mut command = Command::new(haft);
    command.args(["serve", "--stdio"]).current_dir(dir).env("HOME", dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let begin = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(ASKS.as_bytes()).unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let list = answers.take(2).last().unwrap();
    let took = begin.elapsed().as_secs_f64() * 1e3;
    assert!(list.contains("\"Read\""), "{list}");
    drop(input);
    child.wait().unwrap();
    took
}

/// What a client says before it has the tools.
const ASKS: &str = concat!(
    r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "#,
    r#""clientInfo": {"name": "bench", "version": "1"}}}"#,
    "\n",
    r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#,
    "\n"
);

/// `haft tools` with servers that take a while, each half a second.
fn many(dir: &Path) {
    println!("\n| what | one server | 20 servers | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let slow = format!("sleep 0.5; exec {} serve --stdio", env!("CARGO_BIN_EXE_haft"));
    let files = [1, 20].map(|count| {
        let servers: Vec<String> = (0..count)
            .map(|at| format!("\"s{at}\": {{\"command\": \"sh\", \"args\": [\"-c\", \"{slow}\"]}}"))
            .collect();
        let file = dir.join(format!("{count}.json"));
        std::fs::write(&file, format!("{{\"mcpServers\": {{{}}}}}", servers.join(", "))).unwrap();
        file.display().to_string()
    });
    let haft = Path::new(env!("CARGO_BIN_EXE_haft"));
    let times =
        |file: &str| (0..5).map(|_| start(haft, &["tools", "--mcp-config", file], dir, dir)).collect();
    let (one, twenty) = (median(times(&files[0])), median(times(&files[1])));
    println!(
        "| `haft tools` with servers that take half a second | {one:.0} ms | {twenty:.0} ms | {:.2} | about 1: the slowest one |",
        twenty / one
    );
}

/// One command, from the start of the program to its end: settings, session, sandbox, command, result.
/// Nothing of it is there before, so this is what the first call of a session costs.
fn whole(dir: &Path) {
    let (work, home) = (dir.join("work"), dir.join("home"));
    std::fs::create_dir_all(&work).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    println!("\n| what | `bash -c true` | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let (haft, bash) = (Path::new(env!("CARGO_BIN_EXE_haft")), Path::new("/bin/bash"));
    let input = "{\"command\": \"true\"}";
    for (what, more) in [
        ("`haft call Bash` of `true`, unasked and read-only", &[][..]),
        ("the same without a sandbox", &["--no-sandbox", "--allow", "Bash"]),
    ] {
        let args = [&["call", "Bash", input], more].concat();
        let (mut least, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..RUNS / 4 {
            least.push(start(bash, &["-c", "true"], &work, &home));
            ours.push(start(haft, &args, &work, &home));
        }
        let (least, ours) = (median(least), median(ours));
        println!("| {what} | {least:.2} ms | {ours:.2} ms | {:.2} | |", ours / least);
    }
}

/// A workspace with as much as a large project has.
fn fill(dir: &Path) {
    let (mut rules, mut hooks) = (String::new(), String::new());
    for at in 0..1_000 {
        let _ = write!(rules, "{}\"Read(secret/{at}/**)\"", if at == 0 { "" } else { ", " });
    }
    for at in 0..20 {
        let gap = if at == 0 { "" } else { ", " };
        let _ = write!(hooks, "{gap}{{\"type\": \"command\", \"command\": \".claude/hook{at}.sh\"}}");
        let tool = dir.join(format!(".haft/tools/t{at}"));
        std::fs::create_dir_all(&tool).unwrap();
        std::fs::write(tool.join("tool.json"), "{}").unwrap();
        std::fs::write(tool.join("run"), "x".repeat(10_000)).unwrap();
    }
    let settings = format!(
        "{{\"permissions\": {{\"deny\": [{rules}]}}, \"hooks\": {{\"PreToolUse\": [{{\"hooks\": [{hooks}]}}]}}}}"
    );
    std::fs::create_dir_all(dir.join(".claude")).unwrap();
    std::fs::write(dir.join(".claude/settings.json"), settings).unwrap();
    for at in 0..20 {
        std::fs::write(dir.join(format!(".claude/hook{at}.sh")), "y".repeat(10_000)).unwrap();
    }
}

/// The time from start to end, in milliseconds.
fn start(program: &Path, args: &[&str], dir: &Path, home: &Path) -> f64 {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("HOME", home).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let status = command.status().unwrap();
    assert!(status.success());
    begin.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
