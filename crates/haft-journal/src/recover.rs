//! What is left of a session: its conversation, and for a turn that was cut off what became of each call.
//!
//! The rules are those of one table. A call with an outcome is finished: its result is read back, or, where it changed
//! nothing, made again. A call without an intent never started. One with an intent and no outcome did start: what only
//! looks is run again, and of everything else nobody can know how far it came.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

use crate::disk;
use crate::read::Kept;
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
    /// Calls that changed something in a turn whose message was never whole: told to the model, in order.
    pub stray: Vec<Started>,
    /// Tasks that ran in the background.
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
        Started { tool: intent.tool.clone(), effects: intent.effects.clone(), files: files.collect() }
    }
}

impl fmt::Display for Started {
    /// What the model is told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} was started, and the session was cut off before its result was recorded: its outcome is unknown. It was not \
             run again. It declared: {}.",
            self.tool, self.effects
        )?;
        for (path, touched) in &self.files {
            write!(f, " `{}` {touched}.", path.display())?;
        }
        f.write_str(" Look at what is there before you repeat it.")
    }
}

impl Recovered {
    /// What these records come to. Looks at files that calls of unknown outcome named.
    pub fn of(kept: &Kept) -> Recovered {
        let mut recovered = Recovered { is_damaged: !kept.damage.is_empty(), ..Recovered::default() };
        let gaps = kept.records.windows(2).any(|pair| pair[1].n != pair[0].n + 1);
        recovered.is_damaged |= gaps || kept.records.first().is_some_and(|first| first.n != 0);
        let mut intents: Vec<&IntentRecord> = Vec::new();
        let mut outcomes: BTreeMap<(&str, &str), &OutcomeRecord> = BTreeMap::new();
        let mut first = true;
        for stamped in &kept.records {
            match &stamped.record {
                Record::Began(began) => {
                    if std::mem::take(&mut first) {
                        recovered.began = began.clone();
                    }
                    recovered.last = began.clone();
                    recovered.is_ended = false;
                }
                Record::Title { text } => recovered.title = Some(text.clone()),
                Record::Items { from, items } => {
                    recovered.is_damaged |= *from > recovered.items.len();
                    recovered.items.truncate(*from);
                    recovered.items.extend(items.iter().cloned());
                    recovered.reply = None;
                    intents.clear();
                    outcomes.clear();
                }
                Record::Reply { items, .. } => recovered.reply = Some(items.clone()),
                Record::Intent(intent) => intents.push(intent),
                Record::Outcome(outcome) => {
                    outcomes.insert((&outcome.agent, &outcome.call), outcome);
                }
                Record::Task { id, words } => recovered.tasks.push((id.clone(), words.clone())),
                Record::Worktree { path, repository, branch } => {
                    recovered.worktrees.push((path.clone(), repository.clone(), branch.clone()));
                }
                Record::Ended { .. } => recovered.is_ended = true,
                Record::Tools { .. } | Record::Refused(_) | Record::Note { .. } | Record::Spent { .. } => {}
            }
        }
        for intent in intents {
            let outcome = outcomes.get(&(intent.agent.as_str(), intent.call.as_str()));
            let state = match outcome {
                Some(OutcomeRecord { tool, error, result: Some(blocks), .. }) => {
                    CallState::Finished { tool: tool.clone(), error: error.clone(), blocks: blocks.clone() }
                }
                _ if !intent.changes => CallState::Run,
                _ => CallState::Unknown(Started::of(intent)),
            };
            if intent.agent != MAIN || recovered.reply.is_none() {
                if let CallState::Unknown(started) = state {
                    recovered.stray.push(started);
                }
                continue;
            }
            recovered.calls.insert(intent.call.clone(), state);
        }
        // One whose intent was lost has ended all the same.
        for ((agent, call), outcome) in outcomes {
            if let (MAIN, true, Some(blocks)) = (agent, recovered.reply.is_some(), &outcome.result) {
                recovered.calls.entry(call.to_owned()).or_insert_with(|| CallState::Finished {
                    tool: outcome.tool.clone(),
                    error: outcome.error.clone(),
                    blocks: blocks.clone(),
                });
            }
        }
        recovered
    }
}

/// The agent that the user talks to.
const MAIN: &str = "main";
