//! What a script call costs through the engine, against the same processes started by a shell, in one run.
//!
//! Fifty calls of one `sh` script, ten at once, each with its arguments on standard input; the shell does the
//! same in a loop with `wait -n`. Both go in turns, so that whatever else the machine does meets both alike.
//! Then starts from a host with much memory against one with little: they cost the same, since nothing of the
//! host is copied. `cargo xtask bench` runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use haft::ports::{ProcessRequest, Processes as _};
use haft::{Engine, PermissionRules, Registry, ToolCall, Workspace};
use haft_sandbox::LocalProcesses;

const ROUNDS: usize = 21;
const CALLS: usize = 50;
const AT_ONCE: usize = 10;
const SCRIPT: &str = "#!/bin/sh\nread -r arguments\necho \"$arguments\"\n";
const MANIFEST: &str = r#"{"name": "echo", "description": "Says what it was told.", "command": ["./echo.sh"],
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "effects": {}}"#;

fn main() {
    if std::env::args().any(|argument| argument == "--test") || !Path::new("/bin/bash").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("echo.sh");
    std::fs::write(&program, SCRIPT).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("tool.json"), MANIFEST).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();

    println!("| what | shell or small host | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let engine = engine(dir.path());
    let (mut shell, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        shell.push(by_shell(&program));
        ours.push(runtime.block_on(by_engine(&engine)));
    }
    row(&format!("{CALLS} script calls, {AT_ONCE} at once"), median(shell), median(ours), "≤ 1.2");

    let small = runtime.block_on(starts());
    let memory = vec![1u8; 1 << 30];
    let large = runtime.block_on(starts());
    row("20 starts from a host with 1 GiB", small, large, "");
    assert_eq!(memory.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>(), 1 << 18);
}

fn row(what: &str, floor: f64, measured: f64, goal: &str) {
    println!("| {what} | {floor:.2} ms | {measured:.2} ms | {:.2} | {goal} |", measured / floor);
}

fn engine(tools: &Path) -> Engine {
    let loaded = haft_tools::scripts::load_scripts(tools).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    Engine::builder(loaded.register(&Registry::new(), "script:bench").0)
        .workspace(Workspace::new(tools).unwrap())
        .permissions(PermissionRules::new().allow("echo").unwrap())
        .max_concurrency(AT_ONCE)
        .ports(|ports| ports.processes = Some(Arc::new(LocalProcesses::new(std::env::vars_os()))))
        .build()
}

async fn by_engine(engine: &Engine) -> f64 {
    let calls: Vec<ToolCall> =
        (0..CALLS).map(|n| ToolCall::new(n.to_string(), "echo", serde_json::json!({ "n": n }))).collect();
    let begin = Instant::now();
    let results = engine.turn().run(calls).await;
    let time = begin.elapsed().as_secs_f64() * 1e3;
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result.outcome().unwrap().to_text(), format!("{{\"n\":{n}}}"));
    }
    time
}

/// One process a call and no more: bash itself forks, opens the arguments and becomes the script.
fn by_shell(program: &Path) -> f64 {
    let line = format!(
        "for ((n = 0; n < {CALLS}; n++)); do ((n >= {AT_ONCE})) && wait -n; {} <<< \"{{\\\"n\\\":$n}}\" & done; wait",
        program.display()
    );
    let begin = Instant::now();
    let output = Command::new("bash").arg("-c").arg(line).stderr(Stdio::inherit()).output().unwrap();
    let time = begin.elapsed().as_secs_f64() * 1e3;
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), CALLS);
    time
}

/// Starts of a program that does nothing, one after the other.
async fn starts() -> f64 {
    let processes = LocalProcesses::new(std::env::vars_os());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..20 {
            processes.run(ProcessRequest::new(["true"], "/")).await.unwrap();
        }
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    median(times)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
