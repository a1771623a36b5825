//! What was done, held against a plan's steps: each is done, missing or different, with the calls that show
//! it.
//!
//! The comparison is by what a step names. A file counts as changed if a call that succeeded declared to
//! write or delete it, a command as run if a command line holds it and the last such run succeeded, a name in
//! code if a change that succeeded contains it. A step that names nothing is compared by its words, and says
//! so: that is a hint, no proof. No model is asked.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use haft::Effects;
use haft::call_log::PastCall;
use haft::text::{single_line, truncate_chars};
use serde_json::Value;

use super::steps::{PlanStep, StepIntent, StepTarget, split_words};

/// How many of a step's words have to be found in one call for it to count as done, in percent.
const WORDS_DONE: usize = 60;
/// And for it to count as something like it.
const WORDS_NEAR: usize = 34;
/// How many changes that no step names are listed.
pub(crate) const UNPLANNED_MAX: usize = 20;

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Done,
    Different,
    Missing,
}

impl StepOutcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            StepOutcome::Done => "done",
            StepOutcome::Different => "different",
            StepOutcome::Missing => "missing",
        }
    }
}

/// A step, what became of it, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepVerdict {
    pub(crate) outcome: StepOutcome,
    pub(crate) evidence: Vec<String>,
}

/// Whether something that a step names was found.
enum TargetMatch {
    Met(String),
    Other(String),
    Unmet(String),
}

/// What became of one step.
pub(crate) fn judge_step(step: &PlanStep, calls: &[PastCall]) -> StepVerdict {
    let (names, rest): (Vec<&StepTarget>, Vec<&StepTarget>) =
        step.targets.iter().partition(|target| matches!(target, StepTarget::Symbol(_)));
    // Long inputs are remembered in part, so a name that isn't found proves nothing where files and commands
    // do.
    let proving = if rest.is_empty() { &names } else { &rest };
    if proving.is_empty() {
        return by_words(step, calls);
    }
    let found: Vec<TargetMatch> =
        proving.iter().map(|target| find_target(target, step.intent, calls)).collect();
    let met = found.iter().filter(|found| matches!(found, TargetMatch::Met(_))).count();
    let unmet = found.iter().filter(|found| matches!(found, TargetMatch::Unmet(_))).count();
    let outcome = match () {
        () if met == found.len() => StepOutcome::Done,
        () if unmet == found.len() => StepOutcome::Missing,
        () => StepOutcome::Different,
    };
    let evidence = found
        .into_iter()
        .map(|found| match found {
            TargetMatch::Met(words) | TargetMatch::Other(words) | TargetMatch::Unmet(words) => words,
        })
        .collect();
    StepVerdict { outcome, evidence }
}

/// Files that calls changed and no step names, each with the last call that did.
pub(crate) fn unplanned_changes(steps: &[PlanStep], calls: &[PastCall]) -> Vec<String> {
    let named: Vec<&String> = steps
        .iter()
        .flat_map(|step| &step.targets)
        .filter_map(|target| match target {
            StepTarget::Path(path) => Some(path),
            _ => None,
        })
        .collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for call in calls.iter().rev().filter(|call| call.error.is_none()) {
        for path in changed_paths(&call.effects) {
            let shown = path.display().to_string();
            let expected = named.iter().any(|name| is_at(path, name));
            if !expected && seen.insert(shown.clone()) && found.len() < UNPLANNED_MAX {
                found.push(format!("{shown} ({})", named_call(call)));
            }
        }
    }
    found.reverse();
    found
}

fn named_call(call: &PastCall) -> String {
    format!("call {}, {}", call.number, call.tool)
}

fn find_target(target: &StepTarget, intent: StepIntent, calls: &[PastCall]) -> TargetMatch {
    match target {
        StepTarget::Path(path) => path_found(path, intent, calls),
        StepTarget::Command(command) => command_found(command, calls),
        StepTarget::Symbol(name) => symbol_found(name, calls),
    }
}

fn path_found(path: &str, intent: StepIntent, calls: &[PastCall]) -> TargetMatch {
    let good = || calls.iter().rev().filter(|call| call.error.is_none());
    let touches = |call: &&PastCall, of: fn(&Effects) -> Vec<&Path>| {
        of(&call.effects).into_iter().any(|touched| is_at(touched, path))
    };
    if let Some(call) = good().find(|call| touches(call, changed_paths)) {
        return TargetMatch::Met(format!("`{path}` was changed ({})", named_call(call)));
    }
    let read = good().find(|call| touches(call, read_paths));
    match (read, intent) {
        (Some(call), StepIntent::Look) => {
            return TargetMatch::Met(format!("`{path}` was looked at ({})", named_call(call)));
        }
        // A program that is run on a file, or that is the file.
        (_, StepIntent::Run | StepIntent::Look) => {
            if let Some(call) = good().find(|call| mentions_path(call, path)) {
                return TargetMatch::Met(format!("`{path}` is in {}", named_call(call)));
            }
        }
        _ => {}
    }
    if let Some(call) = calls.iter().rev().find(|call| call.error.is_some() && touches(call, changed_paths)) {
        let why = call.error.as_deref().unwrap_or_default();
        return TargetMatch::Other(format!(
            "`{path}` was not changed: {} failed: {}",
            named_call(call),
            first_line(why)
        ));
    }
    if let Some(call) = read {
        return TargetMatch::Other(format!("`{path}` was only looked at ({})", named_call(call)));
    }
    if let Some(call) = good().find(|call| !call.effects.runs.is_empty() && mentions_path(call, path)) {
        return TargetMatch::Other(format!(
            "`{path}` is in the command of {}, and what that changed isn't known",
            named_call(call)
        ));
    }
    TargetMatch::Unmet(format!("`{path}`: no call touched it"))
}

fn command_found(command: &str, calls: &[PastCall]) -> TargetMatch {
    let runs = |call: &&PastCall| !call.effects.runs.is_empty();
    let same = calls
        .iter()
        .rev()
        .filter(runs)
        .find(|call| command_lines(call).any(|line| holds_words(&line, command)));
    match same.map(|call| (call, &call.error)) {
        Some((call, None)) => {
            return TargetMatch::Met(format!("`{command}` ran and succeeded ({})", named_call(call)));
        }
        Some((call, Some(error))) => {
            return TargetMatch::Other(format!(
                "`{command}` ran and failed ({}): {}",
                named_call(call),
                first_line(error)
            ));
        }
        None => {}
    }
    let start: Vec<&str> = command.split(' ').take(2).collect();
    let near =
        calls.iter().rev().filter(runs).find_map(|call| {
            Some((call, command_lines(call).find(|line| holds_words(line, &start.join(" ")))?))
        });
    match near.filter(|_| command.split(' ').count() > start.len()) {
        Some((call, line)) => TargetMatch::Other(format!(
            "`{command}` was not run; `{}` was ({})",
            first_line(&line),
            named_call(call)
        )),
        None => TargetMatch::Unmet(format!("`{command}` was not run")),
    }
}

fn symbol_found(name: &str, calls: &[PastCall]) -> TargetMatch {
    let found = calls
        .iter()
        .rev()
        .filter(|call| call.error.is_none() && is_change(call))
        .find(|call| input_texts(&call.input).iter().any(|text| text.contains(name)));
    match found {
        Some(call) => TargetMatch::Met(format!("`{name}` is in {}", named_call(call))),
        None => TargetMatch::Unmet(format!("`{name}`: in no change that was made")),
    }
}

/// The call that has most of the step's words.
fn by_words(step: &PlanStep, calls: &[PastCall]) -> StepVerdict {
    let wanted: BTreeSet<String> =
        split_words(&step.text).filter(|word| says_something(word)).map(word_stem).collect();
    let score = |call: &PastCall| {
        let mut has: BTreeSet<String> = split_words(&call.about).map(word_stem).collect();
        has.extend(input_texts(&call.input).iter().flat_map(|text| split_words(text)).map(word_stem));
        wanted.iter().filter(|word| has.contains(*word)).count()
    };
    let fits =
        |call: &&PastCall| call.error.is_none() && (step.intent != StepIntent::Change || is_change(call));
    let best = calls
        .iter()
        .filter(fits)
        .map(|call| (score(call), call))
        .max_by_key(|(score, call)| (*score, call.number));
    let percent = |score: usize| (score * 100).checked_div(wanted.len()).unwrap_or(0);
    match best {
        Some((score, call)) if percent(score) >= WORDS_DONE => StepVerdict {
            outcome: StepOutcome::Done,
            evidence: vec![format!(
                "names no file and no command; by its words it is {} `{}`",
                named_call(call),
                first_line(&call.about)
            )],
        },
        Some((score, call)) if percent(score) >= WORDS_NEAR => StepVerdict {
            outcome: StepOutcome::Different,
            evidence: vec![format!(
                "names no file and no command; the nearest is {} `{}`",
                named_call(call),
                first_line(&call.about)
            )],
        },
        _ => StepVerdict {
            outcome: StepOutcome::Missing,
            evidence: vec!["names no file and no command, and no call is like its words".to_owned()],
        },
    }
}

const FILLERS: &[&str] = &[
    "about", "after", "also", "because", "been", "before", "done", "each", "every", "from", "have", "into",
    "must", "need", "only", "over", "should", "step", "than", "that", "them", "then", "there", "these",
    "they", "this", "those", "when", "where", "which", "will", "with", "would",
];

fn says_something(word: &str) -> bool {
    word.chars().count() > 3 && !FILLERS.contains(&word)
}

/// Without the ends that the same word has in another place of a sentence.
fn word_stem(word: String) -> String {
    let stem = ["ing", "ed", "es", "s"].iter().find_map(|end| word.strip_suffix(end));
    stem.filter(|stem| stem.chars().count() > 2).map_or_else(|| word.clone(), str::to_owned)
}

/// What a call changed, its commands included.
fn changed_paths(effects: &Effects) -> Vec<&Path> {
    let own = effects.writes.iter().chain(&effects.deletes).map(|set| &*set.path);
    own.chain(
        inner_effects(effects)
            .flat_map(|inner| inner.writes.iter().chain(&inner.deletes))
            .map(|set| &*set.path),
    )
    .collect()
}

fn read_paths(effects: &Effects) -> Vec<&Path> {
    let own = effects.reads.iter().map(|set| &*set.path);
    own.chain(inner_effects(effects).flat_map(|inner| &inner.reads).map(|set| &*set.path)).collect()
}

fn inner_effects(effects: &Effects) -> impl Iterator<Item = &Effects> {
    effects.runs.iter().filter_map(|command| command.effects.as_deref())
}

fn is_change(call: &PastCall) -> bool {
    !changed_paths(&call.effects).is_empty() || !call.effects.runs.is_empty() || call.effects.unknown
}

/// Whether a path is the one that was named, or lies in the folder that was: its end is the name.
fn is_at(path: &Path, name: &str) -> bool {
    let parts = |path: &Path| -> Vec<String> {
        path.components()
            .filter(|part| !matches!(part, Component::CurDir | Component::RootDir))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (path, wanted) = (parts(path), parts(Path::new(name)));
    if wanted.is_empty() {
        return false;
    }
    let folder = name.ends_with('/') || !wanted.last().is_some_and(|last| last.contains('.'));
    if folder {
        path.windows(wanted.len()).any(|part| part == wanted)
    } else {
        path.ends_with(&wanted) || (path.len() < wanted.len() && wanted.ends_with(&path))
    }
}

/// The command lines of a call: of a shell its input, of others what they declare to run.
fn command_lines(call: &PastCall) -> impl Iterator<Item = String> + '_ {
    let given = call.input.get("command").and_then(Value::as_str).map(single_line);
    given.into_iter().chain(call.effects.runs.iter().map(|command| single_line(&command.text)))
}

/// Whether a line has these words in a row.
fn holds_words(line: &str, command: &str) -> bool {
    line.match_indices(command).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || ";|&()'\"".contains(c));
        edge(line[..at].chars().next_back()) && edge(line[at + command.len()..].chars().next())
    })
}

fn mentions_path(call: &PastCall, path: &str) -> bool {
    input_texts(&call.input).iter().any(|text| text.contains(path))
}

/// All texts of an input.
fn input_texts(input: &Value) -> Vec<&str> {
    match input {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(input_texts).collect(),
        Value::Object(fields) => fields.values().flat_map(input_texts).collect(),
        _ => Vec::new(),
    }
}

fn first_line(text: &str) -> String {
    truncate_chars(text.lines().next().unwrap_or_default(), 120).to_owned()
}
