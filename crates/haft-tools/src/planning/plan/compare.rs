//! What was done, held against a plan's steps: each is done, missing or different, with the calls that show it.
//!
//! The comparison is by what a step names. A file counts as changed if a call that succeeded declared to write or delete it,
//! a command as run if a command line holds it and the last such run succeeded, a name in code if a change that succeeded
//! contains it. A step that names nothing is compared by its words, and says so: that is a hint, no proof. No model is asked.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use haft::Effects;
use haft::call_log::PastCall;
use haft::text::{single_line, truncate_chars};
use serde_json::Value;

use super::steps::{Intent, Step, Target, words};

/// How many of a step's words have to be found in one call for it to count as done, in percent.
const WORDS_DONE: usize = 60;
/// And for it to count as something like it.
const WORDS_NEAR: usize = 34;
/// How many changes that no step names are listed.
pub(crate) const UNPLANNED_MAX: usize = 20;

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Different,
    Missing,
}

impl Outcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Different => "different",
            Outcome::Missing => "missing",
        }
    }
}

/// A step, what became of it, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) evidence: Vec<String>,
}

/// Whether something that a step names was found.
enum Found {
    Met(String),
    Other(String),
    Unmet(String),
}

/// What became of one step.
pub(crate) fn verdict(step: &Step, calls: &[PastCall]) -> Verdict {
    let (names, rest): (Vec<&Target>, Vec<&Target>) =
        step.targets.iter().partition(|target| matches!(target, Target::Symbol(_)));
    // Long inputs are remembered in part, so a name that isn't found proves nothing where files and commands do.
    let proving = if rest.is_empty() { &names } else { &rest };
    if proving.is_empty() {
        return by_words(step, calls);
    }
    let found: Vec<Found> = proving.iter().map(|target| look(target, step.intent, calls)).collect();
    let met = found.iter().filter(|found| matches!(found, Found::Met(_))).count();
    let unmet = found.iter().filter(|found| matches!(found, Found::Unmet(_))).count();
    let outcome = match () {
        () if met == found.len() => Outcome::Done,
        () if unmet == found.len() => Outcome::Missing,
        () => Outcome::Different,
    };
    let evidence = found
        .into_iter()
        .map(|found| match found {
            Found::Met(words) | Found::Other(words) | Found::Unmet(words) => words,
        })
        .collect();
    Verdict { outcome, evidence }
}

/// Files that calls changed and no step names, each with the last call that did.
pub(crate) fn unplanned(steps: &[Step], calls: &[PastCall]) -> Vec<String> {
    let named: Vec<&String> = steps
        .iter()
        .flat_map(|step| &step.targets)
        .filter_map(|target| match target {
            Target::Path(path) => Some(path),
            _ => None,
        })
        .collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for call in calls.iter().rev().filter(|call| call.error.is_none()) {
        for path in changed(&call.effects) {
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

fn look(target: &Target, intent: Intent, calls: &[PastCall]) -> Found {
    match target {
        Target::Path(path) => path_found(path, intent, calls),
        Target::Command(command) => command_found(command, calls),
        Target::Symbol(name) => symbol_found(name, calls),
    }
}

fn path_found(path: &str, intent: Intent, calls: &[PastCall]) -> Found {
    let good = || calls.iter().rev().filter(|call| call.error.is_none());
    let touches = |call: &&PastCall, of: fn(&Effects) -> Vec<&Path>| {
        of(&call.effects).into_iter().any(|touched| is_at(touched, path))
    };
    if let Some(call) = good().find(|call| touches(call, changed)) {
        return Found::Met(format!("`{path}` was changed ({})", named_call(call)));
    }
    let read = good().find(|call| touches(call, read));
    match (read, intent) {
        (Some(call), Intent::Look) => {
            return Found::Met(format!("`{path}` was looked at ({})", named_call(call)));
        }
        // A program that is run on a file, or that is the file.
        (_, Intent::Run | Intent::Look) => {
            if let Some(call) = good().find(|call| mentions(call, path)) {
                return Found::Met(format!("`{path}` is in {}", named_call(call)));
            }
        }
        _ => {}
    }
    if let Some(call) = calls.iter().rev().find(|call| call.error.is_some() && touches(call, changed)) {
        let why = call.error.as_deref().unwrap_or_default();
        return Found::Other(format!(
            "`{path}` was not changed: {} failed: {}",
            named_call(call),
            first_line(why)
        ));
    }
    if let Some(call) = read {
        return Found::Other(format!("`{path}` was only looked at ({})", named_call(call)));
    }
    if let Some(call) = good().find(|call| !call.effects.runs.is_empty() && mentions(call, path)) {
        return Found::Other(format!(
            "`{path}` is in the command of {}, and what that changed isn't known",
            named_call(call)
        ));
    }
    Found::Unmet(format!("`{path}`: no call touched it"))
}

fn command_found(command: &str, calls: &[PastCall]) -> Found {
    let runs = |call: &&PastCall| !call.effects.runs.is_empty();
    let same = calls.iter().rev().filter(runs).find(|call| lines(call).any(|line| holds(&line, command)));
    match same.map(|call| (call, &call.error)) {
        Some((call, None)) => {
            return Found::Met(format!("`{command}` ran and succeeded ({})", named_call(call)));
        }
        Some((call, Some(error))) => {
            return Found::Other(format!(
                "`{command}` ran and failed ({}): {}",
                named_call(call),
                first_line(error)
            ));
        }
        None => {}
    }
    let start: Vec<&str> = command.split(' ').take(2).collect();
    let near = calls
        .iter()
        .rev()
        .filter(runs)
        .find_map(|call| Some((call, lines(call).find(|line| holds(line, &start.join(" ")))?)));
    match near.filter(|_| command.split(' ').count() > start.len()) {
        Some((call, line)) => Found::Other(format!(
            "`{command}` was not run; `{}` was ({})",
            first_line(&line),
            named_call(call)
        )),
        None => Found::Unmet(format!("`{command}` was not run")),
    }
}

fn symbol_found(name: &str, calls: &[PastCall]) -> Found {
    let found = calls
        .iter()
        .rev()
        .filter(|call| call.error.is_none() && is_change(call))
        .find(|call| texts(&call.input).iter().any(|text| text.contains(name)));
    match found {
        Some(call) => Found::Met(format!("`{name}` is in {}", named_call(call))),
        None => Found::Unmet(format!("`{name}`: in no change that was made")),
    }
}

/// The call that has most of the step's words.
fn by_words(step: &Step, calls: &[PastCall]) -> Verdict {
    let wanted: BTreeSet<String> = words(&step.text).filter(|word| says_something(word)).map(stem).collect();
    let score = |call: &PastCall| {
        let mut has: BTreeSet<String> = words(&call.about).map(stem).collect();
        has.extend(texts(&call.input).iter().flat_map(|text| words(text)).map(stem));
        wanted.iter().filter(|word| has.contains(*word)).count()
    };
    let fits = |call: &&PastCall| call.error.is_none() && (step.intent != Intent::Change || is_change(call));
    let best = calls
        .iter()
        .filter(fits)
        .map(|call| (score(call), call))
        .max_by_key(|(score, call)| (*score, call.number));
    let percent = |score: usize| (score * 100).checked_div(wanted.len()).unwrap_or(0);
    match best {
        Some((score, call)) if percent(score) >= WORDS_DONE => Verdict {
            outcome: Outcome::Done,
            evidence: vec![format!(
                "names no file and no command; by its words it is {} `{}`",
                named_call(call),
                first_line(&call.about)
            )],
        },
        Some((score, call)) if percent(score) >= WORDS_NEAR => Verdict {
            outcome: Outcome::Different,
            evidence: vec![format!(
                "names no file and no command; the nearest is {} `{}`",
                named_call(call),
                first_line(&call.about)
            )],
        },
        _ => Verdict {
            outcome: Outcome::Missing,
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
fn stem(word: String) -> String {
    let stem = ["ing", "ed", "es", "s"].iter().find_map(|end| word.strip_suffix(end));
    stem.filter(|stem| stem.chars().count() > 2).map_or_else(|| word.clone(), str::to_owned)
}

/// What a call changed, its commands included.
fn changed(effects: &Effects) -> Vec<&Path> {
    let own = effects.writes.iter().chain(&effects.deletes).map(|set| &*set.path);
    own.chain(
        inner(effects).flat_map(|inner| inner.writes.iter().chain(&inner.deletes)).map(|set| &*set.path),
    )
    .collect()
}

fn read(effects: &Effects) -> Vec<&Path> {
    let own = effects.reads.iter().map(|set| &*set.path);
    own.chain(inner(effects).flat_map(|inner| &inner.reads).map(|set| &*set.path)).collect()
}

fn inner(effects: &Effects) -> impl Iterator<Item = &Effects> {
    effects.runs.iter().filter_map(|command| command.effects.as_deref())
}

fn is_change(call: &PastCall) -> bool {
    !changed(&call.effects).is_empty() || !call.effects.runs.is_empty() || call.effects.unknown
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
    match folder {
        true => path.windows(wanted.len()).any(|part| part == wanted),
        false => path.ends_with(&wanted) || (path.len() < wanted.len() && wanted.ends_with(&path)),
    }
}

/// The command lines of a call: of a shell its input, of others what they declare to run.
fn lines(call: &PastCall) -> impl Iterator<Item = String> + '_ {
    let given = call.input.get("command").and_then(Value::as_str).map(single_line);
    given.into_iter().chain(call.effects.runs.iter().map(|command| single_line(&command.text)))
}

/// Whether a line has these words in a row.
fn holds(line: &str, command: &str) -> bool {
    line.match_indices(command).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || ";|&()'\"".contains(c));
        edge(line[..at].chars().next_back()) && edge(line[at + command.len()..].chars().next())
    })
}

fn mentions(call: &PastCall, path: &str) -> bool {
    texts(&call.input).iter().any(|text| text.contains(path))
}

/// All texts of an input.
fn texts(input: &Value) -> Vec<&str> {
    match input {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn first_line(text: &str) -> String {
    truncate_chars(text.lines().next().unwrap_or_default(), 120).to_owned()
}
