//! The invariants, looked at from outside: by what tools, disk and user saw.
//!
//! | | in a simulation |
//! |---|---|
//! | I1 | one result for each call of the conversation, in its place, and the right one; the journal gives the conversation back |
//! | I2 | nothing that a tool began is still at work when the session has ended |
//! | I3 | every file that is left among the results was told to somebody |
//! | I4 | nothing was written outside of the session's folder |
//! | I5 | no result, and no turn, is longer than it may be |
//! | I6 | the session ends by itself, and no word of a panic gets to the model |
//! | I7 | nothing that changes something begins before its intent is safe, or twice, or without a word to the model |
//! | I8 | what a rule, a hook or the user did not allow, or could not, doesn't begin |

use std::path::PathBuf;

use haft::ToolResult;
use haft_journal::{Durability, RecoveredSession};
use serde_json::Value;

use crate::history::pairs;
use crate::tools::{PANIC, RESULT_CHARS};
use crate::world::World;

/// What words around a result may add to its bound: notes of hooks and of the engine.
const NOTES_CHARS: usize = 1_500;

/// A tool begins.
pub(crate) fn begins(world: &World, mark: &str, tool: &str, input: &Value, changes: bool, starts: u32) {
    if tool == "forbidden" {
        world.broken("I8", format!("{mark} runs, and a rule forbids its tool"));
    }
    let (barred, approved) = {
        let state = world.state();
        let same = |approved: &&(String, Value)| approved.0 == mark && approved.1 == *input;
        (state.barred.get(mark).copied(), state.approved.iter().filter(same).count())
    };
    if let Some(why) = barred {
        world.broken("I8", format!("{mark} runs though {why}"));
    }
    if tool == "asks" && approved == 0 {
        world.broken("I8", format!("{mark} runs with {input}, and the user did not say yes to that"));
    }
    if !changes {
        return;
    }
    // A model that was told may do as it likes.
    let told = world.state().told.contains(mark);
    if starts > 1 && !told {
        world.broken("I7", format!("{tool} {mark} begins for the {starts}. time"));
    }
    let safe = world.0.plan.durability != Durability::Off;
    if !world.0.disk.has_intent(&format!("\"t\":\"{mark}\""), safe) {
        world.broken("I7", format!("{tool} {mark} begins, and the disk has no intent of it"));
    }
}

/// The results of a message.
pub(crate) fn answered(world: &World, results: &[ToolResult]) {
    let size = |result: &ToolResult| -> usize {
        result.for_model().iter().map(|block| block.to_text().chars().count()).sum()
    };
    let mut sum = 0;
    for result in results {
        let chars = size(result);
        sum += chars;
        if chars > RESULT_CHARS + NOTES_CHARS {
            world.broken("I5", format!("the result of {} has {chars} characters", result.call_id()));
        }
    }
    let most = world.0.plan.budget_chars.max(results.len() * 200) + results.len() * NOTES_CHARS;
    if sum > most {
        world.broken("I5", format!("the results of a turn have {sum} characters together"));
    }
}

/// A process has come to its own end.
pub(crate) fn ended(world: &World, items: &[Value]) {
    let flat: String = items.iter().map(Value::to_string).collect();
    if flat.contains(PANIC) {
        world.broken("I6", "the model was told the words of a panic");
    }
    let found = match pairs(world.0.plan.wire, items) {
        Ok(found) => found,
        Err(why) => return world.broken("I1", format!("the conversation is not valid: {why}")),
    };
    let (ran, noted) = {
        let mut state = world.state();
        state.tally.answered += found.len() as u64;
        (state.ran.clone(), state.noted.clone())
    };
    for pair in &found {
        let Some(mark) = word_after(&pair.call, "\"t\":\"").or_else(|| word_after(&pair.call, "t\\\":\\\""))
        else {
            continue;
        };
        if let Some(other) = word_after(&pair.result, "ran ")
            && other.starts_with('m')
            && other != mark
        {
            world.broken("I1", format!("{mark} has the result of {other}"));
        }
        let began = ran.get(&mark).is_some_and(|ran| ran.changes);
        if began && (pair.result.contains("was not run;") || pair.result.contains("was not run:")) {
            world.broken("I7", format!("{mark} began, and the model is told that it didn't"));
        }
        if noted.contains_key(&mark) && began && pair.result.contains("outcome is unknown") {
            world.broken("I7", format!("{mark}: its result was noted and is said to be unknown"));
        }
    }
    let dead = world.state().deaths.clone();
    for (mark, ran) in &ran {
        // What a worker did, its own conversation says, unless that died with it: before the one who asked had an answer.
        let told = match mark.split_once('s') {
            None => true,
            Some((asked, _)) => {
                let is_noted = noted.contains_key(mark) || noted.contains_key(&format!("{asked}z"));
                dead.contains(&ran.process) && !is_noted
            }
        };
        if ran.changes && told && !flat.contains(mark.as_str()) {
            world.broken("I7", format!("{} {mark} began, and the model has no word of it", ran.tool));
        }
    }
}

/// The word that follows, as far as marks go.
fn word_after(text: &str, before: &str) -> Option<String> {
    let from = text.find(before)? + before.len();
    let word: String = text[from..].chars().take_while(char::is_ascii_alphanumeric).collect();
    (!word.is_empty()).then_some(word)
}

/// The journal of a process that had a good disk and came to its own end.
pub(crate) fn kept(world: &World, recovered: &RecoveredSession, items: &[Value]) {
    if recovered.items != items {
        let same = recovered.items.iter().zip(items).take_while(|(kept, had)| kept == had).count();
        let (kept, had) = (recovered.items.len(), items.len());
        world.broken("I1", format!("the journal gives {kept} items back of {had}, the first {same} right"));
    }
    if recovered.reply.is_some() || !recovered.stray.is_empty() || recovered.is_damaged {
        world.broken("I1", "the journal of a whole session says that it was cut off");
    }
}

/// Nothing is at work any more.
pub(crate) fn quiet(world: &World) {
    let alive = world.state().alive;
    if alive > 0 {
        world.broken("I2", format!("{alive} pieces of work go on when everything has ended"));
    }
}

fn files(world: &World, folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.0.root.join(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What a process that died had made is cleaned by age.
pub(crate) fn died(world: &World) {
    let left = files(world, "results");
    world.state().files.extend(left);
}

/// What is left on the real disk.
pub(crate) fn left(world: &World) {
    let told = world.state().files.clone();
    let left = files(world, "results").into_iter().filter(|path| !told.contains(path)).count();
    if left > 0 {
        world.broken("I3", format!("{left} files are left among the results that nobody was told of"));
    }
    if !files(world, "outside").is_empty() {
        world.broken("I4", "something was written outside of the session's folder");
    }
}
