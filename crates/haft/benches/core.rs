//! What the engine costs, as ratios to a floor measured in the same run, from inside a runtime worker.
//!
//! Rounds of floor and engine alternate, so that a busy machine slows both; the ratio is the median over the rounds.
//! `cargo xtask bench` runs this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft::{Effects, Engine, Registry, ToolCall, tool};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use serde::Deserialize;
use serde_json::Value;

const ROUNDS: usize = 31;

/// A small input: three fields.
#[derive(Deserialize, schemars::JsonSchema)]
struct Small {
    name: String,
    limit: u32,
    all: bool,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct OnePath {
    path: PathBuf,
}

impl Small {
    fn answer(&self) -> u64 {
        u64::from(self.limit) + self.name.len() as u64 + u64::from(self.all)
    }
}

const SMALL: &str = r#"{"name": "src/lib.rs", "limit": 200, "all": true}"#;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(all()).await.unwrap() });
}

async fn all() {
    let small = tool("small", "A small tool.", |input: Small, _| async move { Ok(input.answer()) })
        .effects(|_| Effects::none());
    let one_path = tool("one_path", "A tool with a path.", |input: OnePath, _| async move {
        Ok(input.path.as_os_str().len())
    })
    .effects(|input: &OnePath| Effects::reads(&input.path));
    let engine = Engine::new(Registry::new().with(small).unwrap().with(one_path).unwrap());
    let engine = std::sync::Arc::new(engine);
    let schema =
        jsonschema::validator_for(engine.snapshot().find("small").unwrap().tool().input_schema()).unwrap();
    let schema = std::sync::Arc::new(schema);

    let path = std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let text = serde_json::json!({ "path": path }).to_string();

    println!("| what | floor | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");

    let floor = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                black_box(floor_call(&schema).await);
            }
        }
    };
    let ours = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                let results = engine.turn().run([ToolCall::new("1", "small", SMALL)]).await;
                black_box(results[0].outcome().unwrap().to_text());
            }
        }
    };
    let one = compare(2_000, floor, &ours).await;
    row("one call of a small typed tool", &one, "≤ 2.5");

    let open = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                black_box(openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).unwrap());
            }
        }
    };
    let with_path = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                let results = engine.turn().run([ToolCall::new("1", "one_path", text.as_str())]).await;
                black_box(results[0].outcome().unwrap().to_text());
            }
        }
    };
    let pathy = compare(1_000, open, &with_path).await;
    let without: Vec<f64> = {
        // The part that the path adds, as a multiple of one openat2.
        let both = compare(1_000, &ours, &with_path).await;
        both.0.iter().zip(&both.1).zip(&pathy.0).map(|((small, path), open)| (path - small) / open).collect()
    };
    println!(
        "| the same with one path to resolve: what the path adds | {} (one openat2) | {} | {:.2} | ≤ 1.5 |",
        nanos(median(&pathy.0)),
        nanos(median(&without) * median(&pathy.0)),
        median(&without),
    );

    let floor_turn = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                let tasks: Vec<_> = (0..100).map(|_| floor_task(&schema)).collect();
                for task in tasks {
                    black_box(serde_json::to_string(&task.await.unwrap()).unwrap());
                }
            }
        }
    };
    let our_turn = |count: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            for _ in 0..count {
                let results = engine.turn().run((0..100).map(|_| ToolCall::new("1", "small", SMALL))).await;
                for result in &results {
                    black_box(result.outcome().unwrap().to_text());
                }
            }
        }
    };
    let turn = compare(40, floor_turn, our_turn).await;
    let each =
        (turn.0.iter().map(|time| time / 100.0).collect(), turn.1.iter().map(|time| time / 100.0).collect());
    row("100 calls in one turn, per call", &each, "≤ 2.5");

    let calls = |many: usize| {
        let (engine, schema, path, text) = (engine.clone(), schema.clone(), path.clone(), text.clone());
        let _ = (&engine, &schema, &path, &text);
        async move {
            let results = engine.turn().run((0..many).map(|_| ToolCall::new("1", "small", SMALL))).await;
            black_box(results);
        }
    };
    let thousand = |_| calls(1_000);
    let ten_thousand = |_| calls(10_000);
    let linear = compare(1, thousand, ten_thousand).await;
    let each =
        (linear.0.iter().map(|time| time / 1e3).collect(), linear.1.iter().map(|time| time / 1e4).collect());
    row("10,000 calls in one message, per call, against 1,000", &each, "about 1: linear");
}

/// The least that a call can cost: parse, schema, decode, a task of its own, serialise.
async fn floor_call(schema: &jsonschema::Validator) -> String {
    serde_json::to_string(&floor_task(schema).await.unwrap()).unwrap()
}

fn floor_task(schema: &jsonschema::Validator) -> tokio::task::JoinHandle<u64> {
    let value: Value = serde_json::from_str(SMALL).unwrap();
    assert!(schema.is_valid(&value));
    let input = Small::deserialize(&value).unwrap();
    tokio::spawn(async move { black_box(input.answer()) })
}

/// Times of both in nanoseconds per repetition, one of each for every round.
async fn compare<F: Future<Output = ()> + Send, M: Future<Output = ()> + Send>(
    count: usize,
    floor: impl Fn(usize) -> F,
    measured: impl Fn(usize) -> M,
) -> (Vec<f64>, Vec<f64>) {
    let mut times = (Vec::new(), Vec::new());
    floor(count).await;
    measured(count).await;
    for _ in 0..ROUNDS {
        times.0.push(per(count, time(floor(count)).await));
        times.1.push(per(count, time(measured(count)).await));
    }
    times
}

async fn time(work: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

fn per(count: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

fn row(what: &str, (floor, measured): &(Vec<f64>, Vec<f64>), goal: &str) {
    let ratios: Vec<f64> = measured.iter().zip(floor).map(|(measured, floor)| measured / floor).collect();
    println!(
        "| {what} | {} | {} | {:.2} | {goal} |",
        nanos(median(floor)),
        nanos(median(measured)),
        median(&ratios)
    );
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn nanos(time: f64) -> String {
    if time >= 1e3 { format!("{:.2} µs", time / 1e3) } else { format!("{time:.0} ns") }
}
