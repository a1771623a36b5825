//! The tools of a simulation: one for each way to touch something, each with a body that misbehaves by the seed.

use std::sync::Mutex;
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::files::WriteMode;
use haft::sync::lock;
use haft::tool::{Interrupt, Retry};
use haft::{Chars, Context, Effects, Engine, Registry, ToolCall, ToolError, dynamic_tool};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::dice::Dice;
use crate::plan::{Bug, TOOLS};
use crate::world::World;

/// What a tool says when it panics: nobody may read it.
pub(crate) const PANIC: &str = "a panic with a secret in it";
/// The most characters of a result.
pub(crate) const RESULT_CHARS: usize = 3_000;
/// The server whose tools may go away.
pub(crate) const SERVER: &str = "far";

/// The engine of the process that lives, for tools that start calls themselves.
#[derive(Default)]
pub(crate) struct Engines(Mutex<Option<Engine>>);

impl Engines {
    pub(crate) fn set(&self, engine: Option<Engine>) {
        *lock(&self.0) = engine;
    }

    fn get(&self) -> Option<Engine> {
        lock(&self.0).clone()
    }
}

/// What a tool does with a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Succeeds,
    Floods,
    Fails,
    FailsForNow,
    Panics,
    PanicsWhenDropped,
    Hangs,
    HangsAndPanics,
}

/// The mark of the call that an input belongs to.
pub(crate) fn mark_of(input: &Value) -> &str {
    input["t"].as_str().unwrap_or("?")
}

fn changes(tool: &str) -> bool {
    !matches!(tool, "look" | "delegate")
}

fn effects(tool: &str, mark: &str) -> Effects {
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

/// All tools, for one process.
pub(crate) fn registry(world: &World, engines: &std::sync::Arc<Engines>) -> Registry {
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
        let (inner, engines) = (world.clone(), engines.clone());
        let call = move |input: Value, cx: Context| {
            let (world, engines) = (inner.clone(), engines.clone());
            async move { body(world, engines, name, input, cx).await }
        };
        let mut dice = Dice::of(world.0.seed, &["tool", name]);
        let interrupt = dice.pick(&[Interrupt::Block, Interrupt::Cancel]);
        let mut tool = dynamic_tool(name, "Does something.", schema, call)
            .effects(move |input: &Value| effects(name, mark_of(input)))
            .timeout(Duration::from_millis(3_000 + dice.roll(9_000)))
            .result_limit(Chars(if world.has(Bug::Unbounded) { 1_000_000 } else { RESULT_CHARS }))
            .interrupt(interrupt);
        if name == "look" {
            tool = tool.retry(Retry::up_to(3));
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

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::panic_any(PANIC.to_owned());
        }
    }
}

async fn body(
    world: World,
    engines: std::sync::Arc<Engines>,
    tool: &'static str,
    input: Value,
    cx: Context,
) -> Result<String, ToolError> {
    let mark = mark_of(&input).to_owned();
    world.while_it_lives().await;
    let mut alive = world.starts(&mark, tool, &input, changes(tool));
    let process = world.state().process.to_string();
    let mut dice = Dice::of(world.0.seed, &["body", &mark, &process]);
    let act = dice.weighted(&[
        (50, Act::Succeeds),
        (12, Act::Floods),
        (8, Act::Fails),
        (6, Act::FailsForNow),
        (7, Act::Panics),
        (3, Act::PanicsWhenDropped),
        (5, Act::Hangs),
        (2, Act::HangsAndPanics),
    ]);
    if world.has(Bug::TaskLeft) {
        let (world, mark, input) = (world.clone(), format!("{mark}-left"), input.clone());
        drop(tokio::spawn(async move {
            let _alive = world.starts(&mark, "look", &input, false);
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
        let written = match world.has(Bug::WritesOutside) {
            true => std::fs::write(&there, "x").is_ok(),
            false => cx.files().write(&there, b"x", WriteMode::Replace).await.is_ok(),
        };
        world.tell(format!("{mark} tries to write outside: {}", if written { "done" } else { "refused" }));
    }
    if tool == "delegate" {
        delegate(&world, &engines, &mark, &cx).await;
    }
    match act {
        Act::Succeeds | Act::Floods => {
            alive.ends();
            let more = if act == Act::Floods { dice.roll(60_000) } else { dice.roll(50) };
            let more = "x".repeat(usize::try_from(more).unwrap_or_default());
            Ok(format!("ran {mark} {more}"))
        }
        Act::Fails => {
            alive.ends();
            Err(ToolError::new(format!("ran {mark} and it failed")))
        }
        Act::FailsForNow => {
            alive.ends();
            Err(ToolError::new(format!("ran {mark} and it failed for now")).retryable())
        }
        Act::Panics if world.has(Bug::PanicText) => Err(ToolError::new(PANIC)),
        Act::Panics => std::panic::panic_any(PANIC.to_owned()),
        Act::PanicsWhenDropped => {
            let _grenade = Grenade;
            alive.ends();
            Ok(format!("ran {mark}"))
        }
        Act::Hangs => std::future::pending().await,
        Act::HangsAndPanics => {
            let _grenade = Grenade;
            std::future::pending().await
        }
    }
}

/// Starts calls of another agent, and gives nothing of them back.
async fn delegate(world: &World, engines: &Engines, mark: &str, cx: &Context) {
    let Some(engine) = engines.get() else { return };
    // It does the same in every process: whatever runs twice would be seen.
    let mut dice = Dice::of(world.0.seed, &["delegate", mark]);
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
        world.broken("I1", format!("a worker made the calls {own:?} and got results for {ids:?}"));
    }
}
