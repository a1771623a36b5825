//! What definitions cost: against serialising the same schemas, and against a clone of the bytes once they
//! are made.
//!
//! Rounds alternate, so that a busy machine slows both; the ratio is the median over the rounds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use haft::registry::Snapshot;
use haft::{Engine, Registry, dynamic_tool};
use haft_provider::{DefinitionCache, Wire};
use serde_json::{Value, json};

const ROUNDS: usize = 31;
const TOOLS: usize = 1_000;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("| what | floor | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for (what, schema) in
        [("plain schemas", plain as fn(usize) -> Value), ("schemas with `$ref` and `allOf`", linked)]
    {
        let snapshot = snapshot(schema);
        let schemas: Vec<&Value> =
            snapshot.offers().iter().map(|offer| offer.tool().input_schema()).collect();
        for (name, form) in
            [("Anthropic", Wire::Anthropic), ("OpenAI, strict", Wire::OpenAi), ("Gemini", Wire::Gemini)]
        {
            let [floor, made] = rounds(
                1,
                || schemas.iter().map(|schema| serde_json::to_string(schema).unwrap().len()).sum(),
                || DefinitionCache::new(form).define(black_box(&snapshot)).json().len(),
            );
            row(&format!("definitions of 1,000 tools, first time: {name}, {what}"), &floor, &made, "≤ 10");
        }
    }
    let snapshot = snapshot(plain);
    let definitions = DefinitionCache::new(Wire::Anthropic);
    let bytes = definitions.define(&snapshot).shared();
    let [floor, kept] = rounds(
        10_000,
        || Arc::clone(black_box(&bytes)).len(),
        || definitions.define(black_box(&snapshot)).shared().len(),
    );
    row("the same, kept, against a clone of the bytes", &floor, &kept, "a clone of bytes");
}

/// Arguments as a search tool has them.
fn plain(at: usize) -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression to look for."},
            "path": {"type": "string", "description": format!("Where to look, absolute or relative ({at}).")},
            "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "What to return."},
            "head_limit": {"type": "integer", "minimum": 0, "maximum": 100_000, "description": "How many lines at most."},
            "multiline": {"type": "boolean", "default": false, "description": "Whether `.` matches line breaks."},
            "globs": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

fn linked(at: usize) -> Value {
    json!({
        "type": "object",
        "properties": {
            "filter": {"$ref": "#/$defs/filter"},
            "sort": {"allOf": [{"$ref": "#/$defs/sort"}, {"description": format!("How to sort ({at}).")}]},
            "page": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        },
        "$defs": {
            "filter": {"type": "object", "properties": {"field": {"type": "string"}, "value": {"type": "string", "description": "What it has to be."}}, "required": ["field", "value"]},
            "sort": {"type": "object", "properties": {"by": {"enum": ["name", "date"]}, "up": {"type": "boolean"}}},
        },
    })
}

fn snapshot(schema: fn(usize) -> Value) -> Snapshot {
    let tools: Vec<_> = (0..TOOLS)
        .map(|at| {
            let description =
                format!("Looks for something in the place with the number {at}. Use it when you know where.");
            dynamic_tool(format!("tool_{at:04}"), description, schema(at), |_, _| async { Ok("") })
        })
        .collect();
    let mut registry = Registry::new();
    registry = tools.into_iter().fold(registry, |registry, tool| registry.with(tool).unwrap());
    Engine::new(registry).snapshot()
}

/// Times of `count` runs of each, in nanoseconds a run, one after the other in each round.
fn rounds(count: usize, floor: impl Fn() -> usize, measured: impl Fn() -> usize) -> [Vec<f64>; 2] {
    let time = |work: &dyn Fn() -> usize| {
        let start = Instant::now();
        for _ in 0..count {
            black_box(work());
        }
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(time(&floor));
        times[1].push(time(&measured));
    }
    times
}

fn row(what: &str, floor: &[f64], measured: &[f64], goal: &str) {
    let ratios: Vec<f64> = measured.iter().zip(floor).map(|(measured, floor)| measured / floor).collect();
    let (floor, measured) = (nanos(median(floor)), nanos(median(measured)));
    println!("| {what} | {floor} | {measured} | {:.2} | {goal} |", median(&ratios));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn nanos(time: f64) -> String {
    match time {
        time if time >= 1e6 => format!("{:.2} ms", time / 1e6),
        time if time >= 1e3 => format!("{:.2} µs", time / 1e3),
        time => format!("{time:.0} ns"),
    }
}
