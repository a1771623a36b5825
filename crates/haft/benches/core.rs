//! What the engine costs, as ratios to a floor measured in the same run, from inside a runtime worker.
//!
//! Rounds of floor and engine alternate, so that a busy machine slows both; the ratio is the median over the
//! rounds. `cargo xtask bench` runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use haft::{Effects, Engine, Registry, ToolCall, tool};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use serde::Deserialize;
use serde_json::Value;

const ROUNDS: usize = 31;

/// A small input, as calls of a search tool have it.
#[derive(Deserialize, schemars::JsonSchema)]
struct Small {
    pattern: String,
    glob: Option<String>,
    output_mode: String,
    head_limit: u32,
    multiline: bool,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct OnePath {
    path: PathBuf,
}

impl Small {
    fn answer(&self) -> u64 {
        let texts =
            self.pattern.len() + self.output_mode.len() + self.glob.as_deref().unwrap_or_default().len();
        u64::from(self.head_limit) + texts as u64 + u64::from(self.multiline)
    }
}

const SMALL: &str = r#"{"pattern": "fn [a-z]+_limit", "glob": "src/**/*.rs", "output_mode": "content", "head_limit": 200, "multiline": false}"#;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(all()).await.unwrap() });
}

/// What every measurement uses.
struct Bench {
    engine: Engine,
    schema: jsonschema::Validator,
    path: PathBuf,
    small: ToolCall,
    one_path: ToolCall,
}

impl Bench {
    fn new() -> Bench {
        let small = tool("small", "A small tool.", |input: Small, _| async move { Ok(input.answer()) })
            .effects(|_| Effects::none());
        let one_path = tool("one_path", "A tool with a path.", |input: OnePath, _| async move {
            Ok(input.path.as_os_str().len())
        })
        .effects(|input: &OnePath| Effects::reads(&input.path));
        let engine = Engine::new(Registry::new().with(small).unwrap().with(one_path).unwrap());
        let schema = engine.snapshot().find("small").unwrap().tool().input_schema().clone();
        let path = std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
        Bench {
            engine,
            schema: jsonschema::validator_for(&schema).unwrap(),
            small: ToolCall::new("1", "small", SMALL),
            one_path: ToolCall::new("1", "one_path", serde_json::json!({ "path": path }).to_string()),
            path,
        }
    }

    async fn turn(&self, call: &ToolCall, calls: usize) {
        let results = self.engine.turn().run((0..calls).map(|_| call.clone())).await;
        for result in &results {
            black_box(result.outcome().unwrap().to_text());
        }
    }

    /// The least that calls can cost: parse, schema, decode, a task of its own, joined, serialise.
    async fn floor(&self, calls: usize) {
        let task = |_| {
            let value: Value = serde_json::from_str(SMALL).unwrap();
            assert!(self.schema.is_valid(&value));
            let input = Small::deserialize(&value).unwrap();
            tokio::spawn(async move { black_box(input.answer()) })
        };
        if calls == 1 {
            black_box(serde_json::to_string(&task(0).await.unwrap()).unwrap());
            return;
        }
        let tasks: Vec<_> = (0..calls).map(task).collect();
        for task in tasks {
            black_box(serde_json::to_string(&task.await.unwrap()).unwrap());
        }
    }

    fn open(&self) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        black_box(openat2(CWD, &self.path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).unwrap());
    }
}

/// One thing to measure: so many times.
#[derive(Clone, Copy)]
enum Work {
    Floor(usize),
    Small(usize),
    OnePath,
    Open,
}

impl Work {
    async fn run(self, bench: &Bench, count: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..count {
            match self {
                Work::Floor(calls) => bench.floor(calls).await,
                Work::Small(calls) => bench.turn(&bench.small, calls).await,
                Work::OnePath => bench.turn(&bench.one_path, 1).await,
                Work::Open => bench.open(),
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    }
}

async fn all() {
    let bench = Bench::new();
    println!("| what | floor | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");

    let [floor, small] = rounds(&bench, 2_000, [Work::Floor(1), Work::Small(1)]).await;
    row("one call of a small typed tool", &floor, &small, 1.0, "≤ 2.5");

    let [open, small, path] = rounds(&bench, 1_000, [Work::Open, Work::Small(1), Work::OnePath]).await;
    let added: Vec<f64> = path.iter().zip(&small).map(|(path, small)| path - small).collect();
    row("what one path to resolve adds to it, against one openat2", &open, &added, 1.0, "≤ 1.5");

    let [floor, turn] = rounds(&bench, 40, [Work::Floor(100), Work::Small(100)]).await;
    row("100 calls in one turn, per call", &floor, &turn, 100.0, "≤ 2.5");

    let [thousand, ten] = rounds(&bench, 1, [Work::Small(1_000), Work::Small(10_000)]).await;
    let tenth: Vec<f64> = ten.iter().map(|time| time / 10.0).collect();
    row(
        "10,000 calls in one message, per call, against 1,000",
        &thousand,
        &tenth,
        1_000.0,
        "about 1: linear",
    );

    let (inputs, calls) = memory();
    let what = "memory of a waiting call beyond its input (text, JSON, decoded)";
    println!("| {what} | {inputs} bytes | {} bytes | – | ≤ 1,024 bytes |", calls.saturating_sub(inputs));
}

/// The memory of calls that wait, per call: their inputs alone, and all of it.
///
/// Read off the process, so no allocator has to be replaced; many calls make what the allocator keeps for
/// itself small.
fn memory() -> (usize, usize) {
    const CALLS: usize = 100_000;
    let grown = |before: usize| resident().saturating_sub(before) / CALLS;
    let before = resident();
    let inputs: Vec<(ToolCall, Value, Small)> = (0..CALLS)
        .map(|_| {
            let value: Value = serde_json::from_str(SMALL).unwrap();
            let input = Small::deserialize(&value).unwrap();
            (ToolCall::new("1", "small", SMALL), value, input)
        })
        .collect();
    let alone = grown(before);
    // Not given back: memory that was used before would hide what the calls need.
    std::mem::forget(inputs);
    // Calls that change something wait for the end of the message, which doesn't come.
    let waits = tool("waits", "A tool that waits.", |input: Small, _| async move { Ok(input.answer()) });
    let engine = Engine::new(Registry::new().with(waits).unwrap());
    let mut turn = engine.turn();
    let before = resident();
    for _ in 0..CALLS {
        turn.push(ToolCall::new("1", "waits", SMALL));
    }
    (alone, grown(before))
}

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize =
        pages.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}

/// Times in nanoseconds: one of each kind of work in every round.
async fn rounds<const N: usize>(bench: &Bench, count: usize, works: [Work; N]) -> [Vec<f64>; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=ROUNDS {
        for (work, times) in works.iter().zip(&mut times) {
            let time = work.run(bench, count).await;
            // The first round only warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    times
}

fn row(what: &str, floor: &[f64], measured: &[f64], calls: f64, goal: &str) {
    let ratios: Vec<f64> = measured.iter().zip(floor).map(|(measured, floor)| measured / floor).collect();
    let (floor, measured) = (nanos(median(floor) / calls), nanos(median(measured) / calls));
    println!("| {what} | {floor} | {measured} | {:.2} | {goal} |", median(&ratios));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn nanos(time: f64) -> String {
    if time >= 1e3 { format!("{:.2} µs", time / 1e3) } else { format!("{time:.0} ns") }
}
