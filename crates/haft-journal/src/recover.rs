//! What is left of a session: its conversation, and for a turn that was cut off what became of each call.
//!
//! The rules are those of one table. A call with an outcome is finished: its result is read back, or, where it changed
//! nothing, made again. A call without an intent never started. One with an intent and no outcome did start: what only
//! looks is run again, and of everything else nobody can know how far it came.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use haft::Moved;
use serde_json::Value;

use crate::disk;
use crate::line;
use crate::read::{Kept, Lines, parse, whole};
use crate::record::{Began, Block, IntentRecord, OutcomeRecord, Record};

/// A session as it can go on.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// How it began, the first time.
    pub began: Began,
    /// How it went on last.
    pub last: Began,
    /// Its name, where it has one.
    pub title: Option<String>,
    /// The conversation, in the provider's JSON: whole turns.
    pub items: Vec<Value>,
    /// The message of the model whose calls were not all answered, if the last turn was cut off.
    pub reply: Option<Vec<Value>>,
    /// Calls of the turn that was cut off, by id.
    pub calls: BTreeMap<String, CallState>,
    /// Calls of which the model will have no result, since their message was never whole or a worker made them: those that
    /// may have changed something are told to it, in order.
    pub stray: Vec<Started>,
    /// Where the main agent was, if it had moved.
    pub moved: Moved,
    /// What was known of files, by path.
    pub seen: BTreeMap<String, Value>,
    /// Tasks that ran in the background when it was cut off.
    pub tasks: Vec<(String, String)>,
    /// Worktrees that were made: path, repository, branch.
    pub worktrees: Vec<(PathBuf, PathBuf, String)>,
    /// Whether the session ended by itself.
    pub is_ended: bool,
    /// Something is missing: lines were damaged or lost. What is not known of a call is not known whether it ran, then.
    pub is_damaged: bool,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallState {
    /// It has its result.
    Finished {
        /// The tool.
        tool: String,
        /// Whether it is an error, and of which kind.
        error: Option<String>,
        /// What the model gets.
        blocks: Vec<Block>,
    },
    /// It may be run, again or for the first time.
    Run,
    /// It started, and nobody knows how far it came.
    Unknown(Started),
}

/// A call of which only the beginning is known.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Started {
    /// The tool.
    pub tool: String,
    /// What it declared.
    pub effects: String,
    /// What became of the files that it named.
    pub files: Vec<(PathBuf, Touched)>,
    /// How it ended, as one word, where that is known and its result still has nobody to go to.
    pub ended: Option<String>,
}

/// What became of a file since a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Touched {
    /// It is as it was.
    Same,
    /// It has other content.
    Changed,
    /// It is there now, and wasn't.
    Made,
    /// It was there, and isn't.
    Gone,
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Touched::Same => "is as it was before",
            Touched::Changed => "has changed since",
            Touched::Made => "was made since",
            Touched::Gone => "is gone since",
        })
    }
}

impl Started {
    /// What is known of it, looking at the disk now.
    fn of(intent: &IntentRecord) -> Started {
        let files = intent.files.iter().map(|before| {
            let now = disk::look(&before.path);
            let touched = match (before.size, now.size) {
                (None, None) => Touched::Same,
                (None, Some(_)) => Touched::Made,
                (Some(_), None) => Touched::Gone,
                _ if before.sha256.is_some() && before.sha256 == now.sha256 => Touched::Same,
                _ if before.sha256.is_none() && (before.size, before.changed) == (now.size, now.changed) => {
                    Touched::Same
                }
                _ => Touched::Changed,
            };
            (before.path.clone(), touched)
        });
        let (tool, effects) = (intent.tool.clone(), intent.effects.clone());
        Started { tool, effects, files: files.collect(), ended: None }
    }
}

impl fmt::Display for Started {
    /// What the model is told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ended {
            None => write!(
                f,
                "{} was started, and the session was cut off before its result was recorded: its outcome is unknown. It was \
                 not run again. It declared: {}.",
                self.tool, self.effects
            )?,
            Some(how) => write!(
                f,
                "{} was run to its end ({how}), and the session was cut off before you had its result. It was not run again. \
                 It declared: {}.",
                self.tool, self.effects
            )?,
        }
        for (path, touched) in &self.files {
            write!(f, " `{}` {touched}.", path.display())?;
        }
        f.write_str(" Look at what is there before you repeat it.")
    }
}

impl Recovered {
    /// What these records come to. Looks at files that calls of unknown outcome named.
    pub fn of(kept: &Kept) -> Recovered {
        let gaps = kept.records.windows(2).any(|pair| pair[1].n != pair[0].n + 1);
        let is_damaged =
            !kept.damage.is_empty() || gaps || kept.records.first().is_some_and(|first| first.n != 0);
        Recovered::sum(kept.records.iter().map(|stamped| stamped.record.clone()), is_damaged)
    }

    /// The same from the bytes of a journal, without reading what doesn't count any more: calls of turns that are over, and
    /// conversations that were begun again. Says too up to where there are whole lines, and the number of the next one.
    pub fn read(bytes: &[u8]) -> (Recovered, u64, u64) {
        let mut lines = Lines::of(bytes);
        let mut found: Vec<Found<'_>> = Vec::new();
        let (mut next, mut is_damaged) = (0, false);
        for (_, line) in &mut lines {
            let Ok(json) = line else {
                is_damaged = true;
                continue;
            };
            let Some((n, word, rest)) = line::kind(json) else {
                // Of another make: all of it is read.
                let kept = parse(bytes);
                return (Recovered::of(&kept), kept.whole, kept.next());
            };
            is_damaged |= n != next;
            next = n + 1;
            match Kind::of(word, rest) {
                Some(kind) => found.push((kind, json)),
                None => is_damaged = true,
            }
        }
        let last = |is: &dyn Fn(&Found<'_>) -> bool| found.iter().rposition(is).unwrap_or(0);
        let talk = last(&|(kind, _)| *kind == Kind::Items { from_start: true });
        let turn = last(&|(kind, _)| matches!(kind, Kind::Items { .. }));
        let main = format!("\"agent\":\"{MAIN}\"");
        let place = last(&|(kind, json)| {
            *kind == Kind::Call
                && memchr::memmem::find(&json[..json.len().min(256)], main.as_bytes()).is_some()
        });
        let counts = |(at, (kind, _)): &(usize, &Found<'_>)| match kind {
            Kind::Always => true,
            Kind::Items { .. } => *at >= talk,
            Kind::Call => *at >= turn || *at == place,
            Kind::Reply => *at >= turn,
            Kind::Never => false,
        };
        let mut records = Vec::new();
        for (_, (_, json)) in found.iter().enumerate().filter(counts) {
            match whole(json) {
                Ok(stamped) => records.push(stamped.record),
                Err(_) => is_damaged = true,
            }
        }
        (Recovered::sum(records, is_damaged), lines.at as u64, next)
    }

    fn sum(records: impl IntoIterator<Item = Record>, is_damaged: bool) -> Recovered {
        let mut recovered = Recovered { is_damaged, ..Recovered::default() };
        let mut turn = Turn::default();
        let mut process = 0_u64;
        let mut tasks: Vec<(u64, String, String)> = Vec::new();
        for record in records {
            match record {
                Record::Began(began) => {
                    if process == 0 {
                        recovered.began = began.clone();
                    }
                    process += 1;
                    recovered.last = began;
                    recovered.is_ended = false;
                }
                Record::Title { text } => recovered.title = Some(text),
                Record::Items { from, items } => {
                    recovered.is_damaged |= from > recovered.items.len();
                    recovered.items.truncate(from);
                    recovered.items.extend(items);
                    recovered.reply = None;
                    turn = Turn::default();
                    // Whoever went on with the session has told of those before.
                    tasks.retain(|(of, ..)| *of == process);
                }
                Record::Reply { items, .. } => recovered.reply = Some(items),
                Record::Intent(intent) => {
                    if intent.agent == MAIN {
                        recovered.moved = intent.moved.clone();
                    }
                    turn.intents.push((process, intent));
                }
                Record::Outcome(outcome) => {
                    if outcome.agent == MAIN {
                        recovered.moved = outcome.moved.clone();
                    }
                    turn.outcomes.insert(key(process, &outcome.agent, outcome.turn, &outcome.call), outcome);
                }
                Record::Task { id, words } => tasks.push((process, id, words)),
                Record::TaskEnded { id } => tasks.retain(|(of, known, _)| *of != process || *known != id),
                Record::Worktree { path, repository, branch } => {
                    if !recovered.worktrees.iter().any(|(known, ..)| *known == path) {
                        recovered.worktrees.push((path, repository, branch));
                    }
                }
                Record::Seen { files } => recovered.seen.extend(files),
                Record::Ended { .. } => recovered.is_ended = true,
                Record::Tools { .. }
                | Record::Refused(_)
                | Record::Hook { .. }
                | Record::Spent { .. }
                | Record::Note { .. } => {}
            }
        }
        recovered.tasks = tasks.into_iter().map(|(_, id, words)| (id, words)).collect();
        recovered.cut_off(turn);
        recovered
    }

    /// What became of the calls of the last turn, if it was cut off.
    fn cut_off(&mut self, mut turn: Turn) {
        for (process, intent) in turn.intents {
            let key = key(process, &intent.agent, intent.turn, &intent.call);
            let outcome = turn.outcomes.get(&key).map(|outcome| &**outcome);
            let state = match outcome {
                Some(OutcomeRecord { tool, error, result: Some(blocks), .. }) => {
                    CallState::Finished { tool: tool.clone(), error: error.clone(), blocks: blocks.clone() }
                }
                _ if !intent.changes => CallState::Run,
                _ => CallState::Unknown(Started::of(&intent)),
            };
            if intent.agent != MAIN || self.reply.is_none() {
                match state {
                    CallState::Unknown(started) => self.stray.push(started),
                    CallState::Finished { error, .. } if intent.changes => {
                        let ended = Some(error.unwrap_or_else(|| "ok".to_owned()));
                        self.stray.push(Started { ended, ..Started::of(&intent) });
                    }
                    _ => {}
                }
                continue;
            }
            self.calls.insert(intent.call.clone(), state);
        }
        // One whose intent was lost has ended all the same.
        while let Some(((_, _, agent, call), outcome)) = turn.outcomes.pop_first() {
            if let (MAIN, true, Some(blocks)) = (agent.as_str(), self.reply.is_some(), outcome.result) {
                let (tool, error) = (outcome.tool, outcome.error);
                self.calls.entry(call).or_insert(CallState::Finished { tool, error, blocks });
            }
        }
    }
}

/// The calls since the last items.
#[derive(Default)]
struct Turn {
    /// With the process that they were made in.
    intents: Vec<(u64, Box<IntentRecord>)>,
    outcomes: BTreeMap<Key, Box<OutcomeRecord>>,
}

type Key = (u64, u64, String, String);

/// What a call and its outcome have in common. Those of the main agent are in one message, whichever process runs them;
/// those of others may have any ids, turn by turn, and turns are counted by process.
fn key(process: u64, agent: &str, turn: u64, call: &str) -> Key {
    let (process, turn) = if agent == MAIN { (0, 0) } else { (process, turn) };
    (process, turn, agent.to_owned(), call.to_owned())
}

/// A line, and what it is.
type Found<'a> = (Kind, &'a [u8]);

/// What a line is to somebody who goes on with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Always,
    Items { from_start: bool },
    Call,
    Reply,
    Never,
}

impl Kind {
    fn of(word: &[u8], rest: &[u8]) -> Option<Kind> {
        Some(match word {
            b"began" | b"title" | b"task" | b"task_ended" | b"worktree" | b"seen" | b"ended" => Kind::Always,
            b"items" => Kind::Items { from_start: rest.starts_with(b",\"from\":0,") },
            b"intent" | b"outcome" => Kind::Call,
            b"reply" => Kind::Reply,
            b"tools" | b"refused" | b"hook" | b"spent" | b"note" => Kind::Never,
            _ => return None,
        })
    }
}

/// The agent that the user talks to.
const MAIN: &str = "main";
