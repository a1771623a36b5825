//! One turn: calls in, results out, with a runtime for as long as it takes.

use haft::{Engine, ToolCall, ToolResult};

use crate::Usage;
use crate::interrupt::Interrupts;

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;

/// Runs the calls and returns one result for each, in order. Interrupts go to this turn while it runs.
pub(crate) fn run(
    engine: &Engine,
    calls: Vec<ToolCall>,
    interrupts: &Interrupts,
) -> Result<Vec<ToolResult>, Usage> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    let workers = (calls.len() + 1).min(cores).max(WORKERS_MIN);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.map_err(|error| Usage(format!("no threads can be started: {error}")))?;
    let turn = engine.turn();
    interrupts.tell(Some(turn.handle()));
    let results = runtime.block_on(turn.run(calls));
    interrupts.tell(None);
    // A thread that a tool keeps busy is not waited for.
    runtime.shutdown_background();
    Ok(results)
}
