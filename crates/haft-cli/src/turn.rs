//! One turn: calls in, results out, with a runtime for as long as it takes.

use haft::effects::{Access, State};
use haft::{Effects, Engine, NotFound, Snapshot, ToolCall, ToolResult};
use tokio::runtime::Runtime;

use crate::Usage;
use crate::interrupt::Interrupts;
use crate::session::{Lent, Links};
use crate::threads;

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;

/// Runs the calls and returns one result for each, in order. Interrupts go to this turn while it runs.
///
/// Servers are started if a call is for a tool that isn't there without them, and ended with the turn.
pub(crate) fn run(
    engine: &Engine,
    links: &Links,
    calls: Vec<ToolCall>,
    interrupts: &Interrupts,
) -> Result<Vec<ToolResult>, Usage> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let made = calls.clone();
    let all_there =
        |snapshot: &Snapshot| made.iter().all(|call| needs_no_more_servers(engine, snapshot, call));
    let runtime = runtime(calls.len())?;
    let results = runtime.block_on(async {
        let mut pool = None;
        if links.are_for_hooks() || !all_there(&engine.snapshot()) {
            links.warn();
            if !links.is_fixed() {
                let lent = Lent { asker: links.asker.clone(), one_turn: true, ..Lent::default() };
                pool = Some(links.open(engine, lent)?);
            }
        }
        if let Some(pool) = &pool {
            pool.settled(all_there).await;
        }
        let turn = engine.turn();
        interrupts.tell(Some(turn.handle()));
        let results = turn.run(calls).await;
        interrupts.tell(None);
        if let Some(pool) = &pool {
            pool.close().await;
        }
        Ok(results)
    });
    // A thread that a tool keeps busy is not waited for.
    runtime.shutdown_background();
    results
}

/// What a call declares to touch, if its tool is offered and its input fits.
pub(crate) fn declared_effects(engine: &Engine, snapshot: &Snapshot, call: &ToolCall) -> Option<Effects> {
    let offer = snapshot.find(&call.name).ok()?;
    let (tool, input) = (offer.tool(), call.input.clone());
    engine.consider(tool, offer.origin(), input, |request| request.declared().clone()).ok()
}

/// Whether a call reads what servers offer: their tools, or their prompts and resources.
fn reads_servers(effects: &Effects) -> bool {
    let of_servers =
        |resource: &str| resource == "session:tools" || resource == "mcp" || resource.starts_with("mcp:");
    let observes = |state: &State| state.access == Access::Observe && of_servers(&state.resource);
    effects.state.iter().any(observes)
}

/// Whether a call can be made with the servers that are there: its tool is known, and it doesn't look through all that
/// servers offer.
fn needs_no_more_servers(engine: &Engine, snapshot: &Snapshot, call: &ToolCall) -> bool {
    !matches!(snapshot.find(&call.name), Err(NotFound::Unknown(_)))
        && !declared_effects(engine, snapshot, call).is_some_and(|effects| reads_servers(&effects))
}

/// A runtime on this thread, for what hardly ever waits.
pub(crate) fn one_thread() -> Result<Runtime, Usage> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Usage(format!("no runtime can be started: {error}")))
}

/// A runtime for so many calls at once.
pub(crate) fn runtime(calls: usize) -> Result<Runtime, Usage> {
    let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    let workers = (calls + 1).min(cores).max(WORKERS_MIN);
    threads::runtime(workers)
}
