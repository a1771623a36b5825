//! One turn: calls in, results out, with a runtime for as long as it takes.

use haft::{Engine, NotFound, Snapshot, ToolCall, ToolResult};
use tokio::runtime::Runtime;

use crate::Usage;
use crate::interrupt::Interrupts;
use crate::session::{Lent, Links};
use crate::threads;

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;

/// Tools whose answer is about all servers.
const LOOK_THROUGH_ALL: [&str; 8] = [
    "ListMcpPrompts",
    "ListMcpPromptsTool",
    "list_mcp_prompts",
    "ListMcpResources",
    "ListMcpResourcesTool",
    "list_mcp_resources",
    "ToolSearch",
    "tool_search",
];

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
    let names: Vec<String> = calls.iter().map(|call| call.name.to_string()).collect();
    // What looks through all that servers offer has to wait for all of them.
    let looks = names.iter().any(|name| LOOK_THROUGH_ALL.contains(&name.as_str()));
    let all_there = |snapshot: &Snapshot| !looks && names.iter().all(|name| is_known(snapshot, name));
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

/// Whether no server is needed to know what becomes of a call of this name.
fn is_known(snapshot: &Snapshot, name: &str) -> bool {
    !matches!(snapshot.find(name), Err(NotFound::Unknown(_)))
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
