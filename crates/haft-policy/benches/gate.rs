//! Measures the cost of a thousand rules for a complete authorization: paths and commands, rules, mode.
//!
//! Rounds with and without rules alternate, so that a busy machine slows both. Each number is the median
//! over the rounds. As in the engine, paths of tools are resolved beforehand, and the gate resolves those
//! in commands.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::time::Instant;

use haft::ports::Authorizer as _;
use haft::registry::ToolOrigin;
use haft::tool::AnyTool;
use haft::{Engine, Registry, Workspace};
use haft_policy::conventions;
use haft_policy::gate::{Policy, PolicyContext};
use haft_policy::settings::{SettingsFlags, SettingsPlaces};
use serde_json::{Value, json};

const ROUNDS: usize = 31;
const CALLS: usize = 200;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(work.join("src")).unwrap();
    let none = engine(&work, Vec::new());
    let many = engine(&work, (0..1_000).map(rule).collect());
    println!("| what | no rules | 1,000 rules | added | to reach |");
    println!("|---|---|---|---|---|");
    let file = |n: usize| ("Write", json!({"file_path": format!("src/part{n}/file{n}.rs"), "content": ""}));
    let look = |n: usize| ("Read", json!({"file_path": format!("src/part{n}/file{n}.rs")}));
    let shell =
        |n: usize| ("Bash", json!({"command": format!("npm run task{n} && grep -r word{n} src | wc -l")}));
    row("a write", &none, &many, "≤ 2 µs", &file);
    row("a read", &none, &many, "≤ 2 µs", &look);
    row("a shell call of three commands", &none, &many, "≤ 30 µs", &shell);
}

fn rule(n: usize) -> (usize, String) {
    let text = match n % 10 {
        0..=4 => format!("Bash(tool{n} *)"),
        5 => format!("Read(.env{n})"),
        6 => format!("Edit(generated{n}/**)"),
        7 => format!("Edit(src/lib{n}/**/*.key)"),
        8 => format!("WebFetch(domain:*.host{n}.example)"),
        _ => format!("mcp__server{n}__get_*"),
    };
    (n % 3, text)
}

struct Gate {
    policy: Policy,
    engine: Engine,
}

fn engine(work: &std::path::Path, rules: Vec<(usize, String)>) -> Gate {
    let of =
        |list: usize| rules.iter().filter(|(own, _)| *own == list).map(|(_, rule)| rule).collect::<Vec<_>>();
    let settings =
        json!({"permissions": {"deny": of(0), "ask": of(1), "allow": of(2)}, "repetitionGuard": false});
    let flags = SettingsFlags { settings: vec![settings.to_string()], ..SettingsFlags::default() };
    let places = SettingsPlaces::from_env(work, &|_| None).unwrap();
    let loaded = haft_policy::trust::load_settings(&places, &flags).unwrap();
    let workspace = Workspace::new(work).unwrap();
    let (policy, _) =
        Policy::new(&loaded, PolicyContext { no_sandbox: true, ..PolicyContext::new(&places, &workspace) })
            .unwrap();
    let engine = Engine::builder(Registry::new()).workspace(workspace).permissions(policy.clone()).build();
    Gate { policy, engine }
}

/// Returns nanoseconds per evaluation, without parsing and resolving the input.
fn round(gate: &Gate, calls: &[(AnyTool, Value)]) -> f64 {
    let mut total = 0;
    for (tool, input) in calls {
        let judged = gate.engine.consider(tool, &ToolOrigin::BuiltIn, input.clone().into(), |request| {
            let start = Instant::now();
            black_box(gate.policy.reasons(request));
            start.elapsed().as_nanos()
        });
        total += judged.unwrap();
    }
    total as f64 / calls.len() as f64
}

fn row(what: &str, none: &Gate, many: &Gate, target: &str, call: &dyn Fn(usize) -> (&'static str, Value)) {
    let calls = |from: usize| -> Vec<(AnyTool, Value)> {
        (from..from + CALLS)
            .map(|n| {
                let (tool, input) = call(n);
                let stand_in: AnyTool = conventions::find_tool(tool).unwrap();
                (stand_in, input)
            })
            .collect()
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for n in 0..ROUNDS {
        let calls = calls(n * CALLS);
        without.push(round(none, &calls));
        with.push(round(many, &calls));
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2] / 1e3
    };
    let (without, with) = (median(without), median(with));
    println!("| {what} | {without:.2} µs | {with:.2} µs | {:.2} µs | {target} |", with - without);
}
