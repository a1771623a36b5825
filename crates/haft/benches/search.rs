//! What a search among 10,000 tools costs, and the index over them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use haft::search::{SearchIndex, SearchableTool};
use serde_json::json;

const TOOLS: usize = 10_000;
const ROUNDS: usize = 51;

/// Sentences as long as those of real tools, of words as frequent as real ones.
fn description(number: usize) -> String {
    const COMMON: [&str; 16] = [
        "returns", "the", "list", "of", "a", "given", "project", "by", "its", "id", "and", "user", "with",
        "all", "for", "creates",
    ];
    let mut words = Vec::new();
    let mut state = number as u64 + 1;
    for _ in 0..40 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (state >> 33) as usize;
        words.push(if draw.is_multiple_of(3) {
            format!("word{}", draw % 4_000)
        } else {
            COMMON[draw % 16].to_owned()
        });
    }
    words.join(" ")
}

/// The best and the middle of some times: what it costs, and what it costs on this machine now.
fn times(times: impl Iterator<Item = Duration>) -> String {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    format!("{:>10.1?} {:>10.1?}", times[0], times[times.len() / 2])
}

fn main() {
    let schema =
        json!({"type": "object", "properties": {"project_id": {}, "name": {}, "pageSize": {}, "filter": {}}});
    let tools: Vec<(String, String)> = (0..TOOLS)
        .map(|number| (format!("mcp__server{}__do_thing_{number}", number % 50), description(number)))
        .collect();
    let searchable = || {
        tools.iter().map(|(name, description)| SearchableTool {
            name,
            hint: "thing maker",
            description,
            input_schema: &schema,
        })
    };
    let built = (0..25).map(|_| {
        let begun = Instant::now();
        black_box(SearchIndex::new(searchable()));
        begun.elapsed()
    });
    println!("{:<40} {}", format!("index over {TOOLS} tools"), times(built));
    let index = SearchIndex::new(searchable());
    for query in [
        "word17 word170",
        "list of projects by user",
        "creates a word99 for the given user",
        "+server7 list projects",
        "mcp__server3__do_thing_53",
    ] {
        let found = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            black_box(index.find(black_box(query), 5));
            begun.elapsed()
        });
        println!("{query:<40} {}", times(found));
    }
}
