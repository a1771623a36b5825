//! The tools of a simulation: one for each kind of effect, with behaviour that depends on the seed.

use std::sync::Mutex;
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::files::WriteMode;
use haft::sync::lock;
use haft::tool::{Interrupt, RetryPolicy};
use haft::{Chars, Context, Effects, Engine, Registry, ToolCall, ToolError, dynamic_tool};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::seeded_dice::SeededDice;
use crate::simulated_world::SimulatedWorld;
use crate::simulation_plan::{PlantedBug, TOOLS};

/// The panic message of a tool; it must not reach the model.
pub(crate) const PANIC_TEXT: &str = "a panic with a secret in it";
/// The maximum length of a result in characters.
pub(crate) const RESULT_CHARS: usize = 3_000;
/// The server whose tools may disappear.
pub(crate) const SERVER: &str = "far";

/// The engine of the living process, for tools that start calls themselves.
#[derive(Default)]
pub(crate) struct CurrentEngine(Mutex<Option<Engine>>);

impl CurrentEngine {
    pub(crate) fn set(&self, engine: Option<Engine>) {
        *lock(&self.0) = engine;
    }

    fn get(&self) -> Option<Engine> {
        lock(&self.0).clone()
    }
}

/// What a tool does with a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ToolBehavior {
    Succeeds,
    ReturnsLongText,
    Fails,
    FailsRetryably,
    Panics,
    PanicsWhenDropped,
    Hangs,
    HangsAndPanics,
}

/// Returns the mark of the call that an input belongs to.
pub(crate) fn mark_of(input: &Value) -> &str {
    input["t"].as_str().unwrap_or("?")
}

fn has_side_effects(tool: &str) -> bool {
    !matches!(tool, "look" | "delegate")
}

fn tool_effects(tool: &str, mark: &str) -> Effects {
    match tool {
        "look" => Effects::reads(format!("r-{mark}")),
        "write" | "asks" | "forbidden" => Effects::writes(format!("w-{mark}")),
        "outside" => Effects::writes(format!("w-{mark}")).exclusive(),
        "shared" => Effects::writes("shared").and(Effects::reads(format!("r-{mark}"))),
        "state" => Effects::writes_state(format!("{mark}-state")),
        "remote" => Effects::changes(format!("{mark}.example")),
        "delegate" => Effects::delegates(),
        _ => Effects::unknown().and(Effects::runs(format!("something with {mark}"))),
    }
}

/// Creates all tools for one process.
pub(crate) fn build_registry(
    world: &SimulatedWorld,
    current_engine: &std::sync::Arc<CurrentEngine>,
) -> Registry {
    let mut registry = Registry::new();
    for (_, name) in TOOLS {
        if name == "nothing_like_this" {
            continue;
        }
        let schema = json!({
            "type": "object",
            "properties": {"t": {"type": "string"}, "v": {"type": "integer"}},
            "required": ["t"], "additionalProperties": false,
        });
        let (inner, current_engine) = (world.clone(), current_engine.clone());
        let call = move |input: Value, cx: Context| {
            let (world, current_engine) = (inner.clone(), current_engine.clone());
            async move { run_tool(world, current_engine, name, input, cx).await }
        };
        let mut dice = SeededDice::for_decision(world.0.seed, &["tool", name]);
        let interrupt = dice.pick(&[Interrupt::Block, Interrupt::Cancel]);
        let mut tool = dynamic_tool(name, "Does something.", schema, call)
            .effects(move |input: &Value| tool_effects(name, mark_of(input)))
            .timeout(Duration::from_millis(3_000 + dice.roll(9_000)))
            .result_limit(Chars(if world.has_bug(PlantedBug::Unbounded) { 1_000_000 } else { RESULT_CHARS }))
            .interrupt(interrupt);
        if name == "look" {
            tool = tool.retry(RetryPolicy::up_to(3));
        }
        if matches!(name, "state" | "outside") {
            tool = tool.permission(|_| Some(DecisionReason::allow()));
        }
        registry = match name {
            "remote" => registry.with_external(SERVER, tool),
            _ => registry.with(tool),
        }
        .unwrap_or_else(|error| panic!("a tool of the simulator is bad: {error}"));
    }
    registry
}

/// Panics when dropped.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::panic_any(PANIC_TEXT.to_owned());
        }
    }
}

async fn run_tool(
    world: SimulatedWorld,
    current_engine: std::sync::Arc<CurrentEngine>,
    tool: &'static str,
    input: Value,
    cx: Context,
) -> Result<String, ToolError> {
    let mark = mark_of(&input).to_owned();
    world.hang_if_dead().await;
    let mut running = world.start_tool(&mark, tool, &input, has_side_effects(tool));
    let process = world.state().process.to_string();
    let mut dice = SeededDice::for_decision(world.0.seed, &["body", &mark, &process]);
    let behavior = dice.pick_weighted(&[
        (50, ToolBehavior::Succeeds),
        (12, ToolBehavior::ReturnsLongText),
        (8, ToolBehavior::Fails),
        (6, ToolBehavior::FailsRetryably),
        (7, ToolBehavior::Panics),
        (3, ToolBehavior::PanicsWhenDropped),
        (5, ToolBehavior::Hangs),
        (2, ToolBehavior::HangsAndPanics),
    ]);
    if world.has_bug(PlantedBug::TaskLeft) {
        let (world, mark, input) = (world.clone(), format!("{mark}-left"), input.clone());
        drop(tokio::spawn(async move {
            let _running = world.start_tool(&mark, "look", &input, false);
            sleep(Duration::from_secs(100_000)).await;
        }));
    }
    if dice.chance(60) {
        cx.progress(0.5, "half of it");
        sleep(Duration::from_millis(dice.roll(5_000))).await;
        cx.partial("a part ".repeat(usize::try_from(dice.roll(2_000)).unwrap_or_default()));
    }
    if tool == "outside" {
        let there = world.0.root.join("outside").join(&mark);
        let written = if world.has_bug(PlantedBug::WritesOutside) {
            std::fs::write(&there, "x").is_ok()
        } else {
            cx.files().write(&there, b"x", WriteMode::Replace).await.is_ok()
        };
        world.log(format!("{mark} tries to write outside: {}", if written { "done" } else { "refused" }));
    }
    if tool == "delegate" {
        delegate(&world, &current_engine, &mark, &cx).await;
    }
    match behavior {
        ToolBehavior::Succeeds | ToolBehavior::ReturnsLongText => {
            running.complete();
            let more =
                if behavior == ToolBehavior::ReturnsLongText { dice.roll(60_000) } else { dice.roll(50) };
            let more = "x".repeat(usize::try_from(more).unwrap_or_default());
            Ok(format!("ran {mark} {more}"))
        }
        ToolBehavior::Fails => {
            running.complete();
            Err(ToolError::new(format!("ran {mark} and it failed")))
        }
        ToolBehavior::FailsRetryably => {
            running.complete();
            Err(ToolError::new(format!("ran {mark} and it failed for now")).retryable())
        }
        ToolBehavior::Panics if world.has_bug(PlantedBug::PanicText) => Err(ToolError::new(PANIC_TEXT)),
        ToolBehavior::Panics => std::panic::panic_any(PANIC_TEXT.to_owned()),
        ToolBehavior::PanicsWhenDropped => {
            let _panic = PanicOnDrop;
            running.complete();
            Ok(format!("ran {mark}"))
        }
        ToolBehavior::Hangs => std::future::pending().await,
        ToolBehavior::HangsAndPanics => {
            let _panic = PanicOnDrop;
            std::future::pending().await
        }
    }
}

/// Runs calls of another agent and discards their results.
async fn delegate(world: &SimulatedWorld, current_engine: &CurrentEngine, mark: &str, cx: &Context) {
    let Some(engine) = current_engine.get() else { return };
    // The calls are the same in every process, so a repeated call would be detected.
    let mut dice = SeededDice::for_decision(world.0.seed, &["delegate", mark]);
    let calls: Vec<ToolCall> = (0..dice.roll(3) + 1)
        .map(|at| {
            let name = dice.pick(&["look", "write", "shared", "state", "forbidden"]);
            let own = format!("{}s{at}z", mark.trim_end_matches('z'));
            ToolCall::new(own.clone(), name, json!({"t": own}))
        })
        .collect();
    let own: Vec<String> = calls.iter().map(|call| call.id.to_string()).collect();
    let child = engine.child(format!("worker-{mark}"), engine.registry(), cx).build();
    let results = child.turn().run(calls).await;
    let ids: Vec<&str> = results.iter().map(haft::ToolResult::call_id).collect();
    if ids != own {
        world.report_violation("I1", format!("a worker made the calls {own:?} and got results for {ids:?}"));
    }
}
