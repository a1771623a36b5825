//! Checks of the invariants, based on what tools, disk and user observed.
//!
//! | | in a simulation |
//! |---|---|
//! | I1 | each call has one result, in its place, and the right one; the journal restores the conversation |
//! | I2 | no tool still runs when the session has ended |
//! | I3 | every remaining result file was referenced in a result |
//! | I4 | nothing was written outside of the session's directory |
//! | I5 | no result and no turn exceeds its size limit |
//! | I6 | the session ends by itself, and no panic message reaches the model |
//! | I7 | no call with side effects starts before its intent is safe, or runs twice, or is kept from the model |
//! | I8 | a call that a rule, a hook or the user did not allow doesn't start |

use std::path::PathBuf;

use haft::ToolResult;
use haft_journal::{Durability, RecoveredSession};
use serde_json::Value;

use crate::conversation_pairs::pair_calls_with_results;
use crate::simulated_tools::{PANIC_TEXT, RESULT_CHARS};
use crate::simulated_world::SimulatedWorld;

/// How much notes of hooks and of the engine may add to a result's limit.
const NOTES_CHARS_MAX: usize = 1_500;

/// Checks a call when its tool starts.
pub(crate) fn check_tool_start(
    world: &SimulatedWorld,
    mark: &str,
    tool: &str,
    input: &Value,
    changes: bool,
    starts: u32,
) {
    if tool == "forbidden" {
        world.report_violation("I8", format!("{mark} runs, and a rule forbids its tool"));
    }
    let (barred_calls, approved) = {
        let state = world.state();
        let same = |approved: &&(String, Value)| approved.0 == mark && approved.1 == *input;
        (state.barred_calls.get(mark).copied(), state.approved.iter().filter(same).count())
    };
    if let Some(why) = barred_calls {
        world.report_violation("I8", format!("{mark} runs though {why}"));
    }
    if tool == "asks" && approved == 0 {
        world.report_violation(
            "I8",
            format!("{mark} runs with {input}, and the user did not say yes to that"),
        );
    }
    if !changes {
        return;
    }
    // After a notice, the model may repeat the call.
    let is_noted = world.state().resume_notes.contains(mark);
    if starts > 1 && !is_noted {
        world.report_violation("I7", format!("{tool} {mark} starts {starts} times"));
    }
    let safe = world.0.plan.durability != Durability::Off;
    if !world.0.disk.has_intent(&format!("\"t\":\"{mark}\""), safe) {
        world.report_violation("I7", format!("{tool} {mark} starts, and the disk has no intent of it"));
    }
}

/// Checks the sizes of the results of a message.
pub(crate) fn check_results(world: &SimulatedWorld, results: &[ToolResult]) {
    let size = |result: &ToolResult| -> usize {
        result.for_model().iter().map(|block| block.to_text().chars().count()).sum()
    };
    let mut sum = 0;
    for result in results {
        let chars = size(result);
        sum += chars;
        if chars > RESULT_CHARS + NOTES_CHARS_MAX {
            world
                .report_violation("I5", format!("the result of {} has {chars} characters", result.call_id()));
        }
    }
    let most = world.0.plan.budget_chars.max(results.len() * 200) + results.len() * NOTES_CHARS_MAX;
    if sum > most {
        world.report_violation("I5", format!("the results of a turn have {sum} characters together"));
    }
}

/// Checks the conversation of a process that ended by itself.
pub(crate) fn check_conversation(world: &SimulatedWorld, items: &[Value]) {
    let flat: String = items.iter().map(Value::to_string).collect();
    if flat.contains(PANIC_TEXT) {
        world.report_violation("I6", "a panic message reached the model");
    }
    let pairs = match pair_calls_with_results(world.0.plan.wire, items) {
        Ok(pairs) => pairs,
        Err(why) => return world.report_violation("I1", format!("the conversation is not valid: {why}")),
    };
    let (tool_runs, recorded_outcomes) = {
        let mut state = world.state();
        state.counts.answered += pairs.len() as u64;
        (state.tool_runs.clone(), state.recorded_outcomes.clone())
    };
    for pair in &pairs {
        let Some(mark) = alphanumerics_after(&pair.call, "\"t\":\"")
            .or_else(|| alphanumerics_after(&pair.call, "t\\\":\\\""))
        else {
            continue;
        };
        if let Some(other) = alphanumerics_after(&pair.result, "ran ")
            && other.starts_with('m')
            && other != mark
        {
            world.report_violation("I1", format!("{mark} has the result of {other}"));
        }
        let began = tool_runs.get(&mark).is_some_and(|run| run.changes);
        if began && (pair.result.contains("was not run;") || pair.result.contains("was not run:")) {
            world
                .report_violation("I7", format!("{mark} started, and the model is told that it did not run"));
        }
        if recorded_outcomes.contains_key(&mark) && began && pair.result.contains("outcome is unknown") {
            world.report_violation(
                "I7",
                format!("{mark}: its result was recorded and is reported as unknown"),
            );
        }
    }
    let dead = world.state().deaths.clone();
    for (mark, run) in &tool_runs {
        // A worker's call appears in the worker's own conversation. It must appear here only if the
        // worker's process died before the delegating call had its result.
        let is_expected = match mark.split_once('s') {
            None => true,
            Some((asked, _)) => {
                let is_noted = recorded_outcomes.contains_key(mark)
                    || recorded_outcomes.contains_key(&format!("{asked}z"));
                dead.contains(&run.process) && !is_noted
            }
        };
        if run.changes && is_expected && !flat.contains(mark.as_str()) {
            world.report_violation(
                "I7",
                format!("{} {mark} started, and the conversation doesn't mention it", run.tool),
            );
        }
    }
}

/// Returns the alphanumeric text after `before`.
fn alphanumerics_after(text: &str, before: &str) -> Option<String> {
    let from = text.find(before)? + before.len();
    let word: String = text[from..].chars().take_while(char::is_ascii_alphanumeric).collect();
    (!word.is_empty()).then_some(word)
}

/// Checks the journal of a process that had no disk fault and ended by itself.
pub(crate) fn check_journal(world: &SimulatedWorld, recovered: &RecoveredSession, items: &[Value]) {
    if recovered.items != items {
        let same = recovered
            .items
            .iter()
            .zip(items)
            .take_while(|(restored_count, item_count)| restored_count == item_count)
            .count();
        let (restored_count, item_count) = (recovered.items.len(), items.len());
        world.report_violation(
            "I1",
            format!("the journal gives {restored_count} items back of {item_count}, the first {same} right"),
        );
    }
    if recovered.reply.is_some() || !recovered.stray.is_empty() || recovered.is_damaged {
        world.report_violation("I1", "the journal of a complete session recovers as interrupted");
    }
}

/// Checks that no tool is running.
pub(crate) fn check_no_running_tools(world: &SimulatedWorld) {
    let running_tools = world.state().running_tools;
    if running_tools > 0 {
        world.report_violation("I2", format!("{running_tools} tools still run when the session has ended"));
    }
}

fn list_files(world: &SimulatedWorld, folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.0.root.join(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Excludes the result files of a process that died: they are removed by age.
pub(crate) fn excuse_leftover_files(world: &SimulatedWorld) {
    let left = list_files(world, "results");
    world.state().files.extend(left);
}

/// Checks which files remain on the real disk.
pub(crate) fn check_leftover_files(world: &SimulatedWorld) {
    let referenced = world.state().files.clone();
    let left = list_files(world, "results").into_iter().filter(|path| !referenced.contains(path)).count();
    if left > 0 {
        world.report_violation("I3", format!("{left} result files are not referenced by any result"));
    }
    if !list_files(world, "outside").is_empty() {
        world.report_violation("I4", "something was written outside of the session's folder");
    }
}
