//! What is left of a session: its conversation, and for a turn that was cut off what became of each call.
//!
//! The rules are those of one table. A call with an outcome is finished: its result is read back, or, where it changed
//! nothing, made again. A call without an intent never started. One with an intent and no outcome did start: what only
//! looks is run again, and of everything else nobody can know how far it came.
//!
//! Where lines are missing, a turn may be missing in the conversation whose calls are still known. The model would ask for them
//! again, so what they changed is told to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use haft::context::Moved;
use serde_json::Value;

use crate::journal_disk;
use crate::journal_reader::{JournalContents, JournalLines, parse, whole, without_hole};
use crate::line_format;
use crate::record::{IntentRecord, OutcomeRecord, Record, RecordedBlock, SessionStart};

/// A session as it can go on.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RecoveredSession {
    /// How it began, the first time.
    pub began: SessionStart,
    /// How it went on last.
    pub last: SessionStart,
    /// Its name, where it has one.
    pub title: Option<String>,
    /// The conversation, in the provider's JSON: whole turns.
    pub items: Vec<Value>,
    /// The message of the model whose calls were not all answered, if the last turn was cut off.
    pub reply: Option<Vec<Value>>,
    /// Calls of the turn that was cut off, by id.
    pub calls: BTreeMap<String, CallState>,
    /// Calls of which the model will have no result, since their message was never whole or is lost, or a worker made them:
    /// those that may have changed something are told to it, in order.
    pub stray: Vec<UnfinishedCall>,
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
        blocks: Vec<RecordedBlock>,
    },
    /// It may be run, again or for the first time.
    Run,
    /// It started, and nobody knows how far it came.
    Unknown(UnfinishedCall),
}

/// A call of which only the beginning is known.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnfinishedCall {
    /// The tool.
    pub tool: String,
    /// What it declared.
    pub effects: String,
    /// What became of the files that it named.
    pub files: Vec<(PathBuf, FileChange)>,
    /// How it ended, as one word, where that is known and its result still has nobody to go to.
    pub ended: Option<String>,
}

/// What became of a file since a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChange {
    /// It is as it was.
    Same,
    /// It has other content.
    Changed,
    /// It is there now, and wasn't.
    Made,
    /// It was there, and isn't.
    Gone,
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileChange::Same => "is as it was before",
            FileChange::Changed => "has changed since",
            FileChange::Made => "was made since",
            FileChange::Gone => "is gone since",
        })
    }
}

impl UnfinishedCall {
    /// What is known of it, looking at the disk now.
    fn from_intent(intent: &IntentRecord) -> UnfinishedCall {
        let files = intent.files.iter().map(|before| {
            let now = journal_disk::look(&before.path);
            let touched = match (before.size, now.size) {
                (None, None) => FileChange::Same,
                (None, Some(_)) => FileChange::Made,
                (Some(_), None) => FileChange::Gone,
                _ if before.sha256.is_some() && before.sha256 == now.sha256 => FileChange::Same,
                _ if before.sha256.is_none() && (before.size, before.changed) == (now.size, now.changed) => {
                    FileChange::Same
                }
                _ => FileChange::Changed,
            };
            (before.path.clone(), touched)
        });
        let (tool, effects) = (intent.tool.clone(), intent.effects.clone());
        UnfinishedCall { tool, effects, files: files.collect(), ended: None }
    }
}

impl fmt::Display for UnfinishedCall {
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

impl RecoveredSession {
    /// What these records come to. Looks at files that calls of unknown outcome named.
    pub fn from_contents(kept: &JournalContents) -> RecoveredSession {
        let gaps = kept.records.windows(2).any(|pair| pair[1].n != pair[0].n + 1);
        let is_damaged =
            !kept.damage.is_empty() || gaps || kept.records.first().is_some_and(|first| first.n != 0);
        RecoveredSession::sum(kept.records.iter().map(|stamped| stamped.record.clone()), is_damaged)
    }

    /// The same from the bytes of a journal, without reading what doesn't count any more: calls of turns that are over, and
    /// conversations that were begun again. Says too up to where there are whole lines, and the number of the next one.
    pub fn read(bytes: &[u8]) -> (RecoveredSession, u64, u64) {
        let bytes = without_hole(bytes);
        let mut lines = JournalLines::new(bytes);
        let mut found: Vec<TypedLine<'_>> = Vec::new();
        let (mut next, mut is_damaged) = (0, false);
        for (_, line) in &mut lines {
            let Ok(json) = line else {
                is_damaged = true;
                continue;
            };
            let Some((n, word, rest)) = line_format::kind(json) else {
                // Of another make: all of it is read.
                let kept = parse(bytes);
                return (RecoveredSession::from_contents(&kept), kept.whole, kept.next());
            };
            is_damaged |= n != next;
            next = n + 1;
            match LineKind::parse(word, rest) {
                Some(kind) => found.push((kind, json)),
                None => is_damaged = true,
            }
        }
        let last = |is: &dyn Fn(&TypedLine<'_>) -> bool| found.iter().rposition(is).unwrap_or(0);
        let talk = last(&|(kind, _)| *kind == LineKind::Items { from_start: true });
        let turn = last(&|(kind, _)| matches!(kind, LineKind::Items { .. }));
        let main = format!("\"agent\":\"{MAIN}\"");
        let place = last(&|(kind, json)| {
            *kind == LineKind::Call
                && memchr::memmem::find(&json[..json.len().min(256)], main.as_bytes()).is_some()
        });
        // Of a damaged one all calls may count.
        let counts = |all: bool, at: usize, kind: &LineKind| match kind {
            LineKind::Always => true,
            LineKind::Items { .. } => at >= talk,
            LineKind::Call => all || at >= turn || at == place,
            LineKind::Reply => at >= turn,
            LineKind::Never => false,
        };
        let sum = |mut is_damaged: bool| {
            let mut records = Vec::new();
            for (at, (kind, json)) in found.iter().enumerate() {
                if !counts(is_damaged && at >= talk, at, kind) {
                    continue;
                }
                match whole(json) {
                    Ok(stamped) => records.push(stamped.record),
                    Err(_) => is_damaged = true,
                }
            }
            RecoveredSession::sum(records, is_damaged)
        };
        let mut recovered = sum(is_damaged);
        if recovered.is_damaged && !is_damaged {
            recovered = sum(true);
        }
        (recovered, lines.at as u64, next)
    }

    fn sum(records: impl IntoIterator<Item = Record>, is_damaged: bool) -> RecoveredSession {
        let mut recovered = RecoveredSession { is_damaged, ..RecoveredSession::default() };
        let mut turn = OpenTurn::default();
        let mut process = 0_u64;
        let mut tasks: Vec<(u64, String, String)> = Vec::new();
        let mut holes = MissingItems::default();
        // What changed something in turns that are missing, with the process in which it did.
        let mut lost: Vec<(u64, UnfinishedCall)> = Vec::new();
        for record in records {
            match record {
                Record::Began(began) => {
                    if process == 0 {
                        recovered.began = began.clone();
                    }
                    process += 1;
                    // It counted what it had found.
                    holes = MissingItems::default();
                    recovered.last = began;
                    recovered.is_ended = false;
                }
                Record::Title { text } => recovered.title = Some(text),
                Record::Items { from, items } => {
                    let (place, is_hole) = holes.place(from, recovered.items.len());
                    recovered.items.truncate(place);
                    // Whoever went on with the session has told of those before.
                    tasks.retain(|(of, ..)| *of == process);
                    lost.retain(|(of, _)| *of == process && from > 0);
                    if is_hole {
                        recovered.is_damaged = true;
                        lost.extend(turn.changes_beside(&items).map(|started| (process, started)));
                    }
                    recovered.items.extend(items);
                    recovered.reply = None;
                    turn = OpenTurn::default();
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
        recovered.stray = lost.into_iter().map(|(_, started)| started).collect();
        recovered.cut_off(turn);
        recovered
    }

    /// What became of the calls of the last turn, if it was cut off.
    fn cut_off(&mut self, mut turn: OpenTurn) {
        // A message that the calls are not from is one before theirs, which is lost.
        let reply = self.reply.as_deref().filter(|_| self.is_damaged).map(strings);
        let is_asked = |call: &str| reply.as_ref().is_none_or(|strings| strings.contains(call));
        for (process, intent) in &turn.intents {
            let state = turn.state(*process, intent);
            if intent.agent == MAIN && self.reply.is_some() && is_asked(&intent.call) {
                self.calls.insert(intent.call.clone(), state);
            } else {
                self.stray.extend(state.changed(intent));
            }
        }
        // One whose intent was lost has ended all the same.
        while let Some(((_, _, agent, call), outcome)) = turn.outcomes.pop_first() {
            let is_asked = self.reply.is_some() && is_asked(&call);
            if let (MAIN, true, Some(blocks)) = (agent.as_str(), is_asked, outcome.result) {
                let (tool, error) = (outcome.tool, outcome.error);
                self.calls.entry(call).or_insert(CallState::Finished { tool, error, blocks });
            }
        }
    }
}

/// The calls since the last items.
#[derive(Default)]
struct OpenTurn {
    /// With the process that they were made in.
    intents: Vec<(u64, Box<IntentRecord>)>,
    outcomes: BTreeMap<CallIdentity, Box<OutcomeRecord>>,
}

impl OpenTurn {
    /// What became of a call.
    fn state(&self, process: u64, intent: &IntentRecord) -> CallState {
        let key = key(process, &intent.agent, intent.turn, &intent.call);
        match self.outcomes.get(&key).map(|outcome| &**outcome) {
            Some(OutcomeRecord { tool, error, result: Some(blocks), .. }) => {
                CallState::Finished { tool: tool.clone(), error: error.clone(), blocks: blocks.clone() }
            }
            _ if !intent.changes => CallState::Run,
            _ => CallState::Unknown(UnfinishedCall::from_intent(intent)),
        }
    }

    /// What calls of the main agent changed that are not in these items.
    fn changes_beside(&self, items: &[Value]) -> impl Iterator<Item = UnfinishedCall> {
        let known = strings(items);
        self.intents.iter().filter_map(move |(process, intent)| {
            let is_lost = intent.agent == MAIN && !known.contains(&*intent.call);
            is_lost.then(|| self.state(*process, intent).changed(intent)).flatten()
        })
    }
}

impl CallState {
    /// What is to be told of a call whose result has nobody to go to: nothing where it changed nothing.
    fn changed(self, intent: &IntentRecord) -> Option<UnfinishedCall> {
        match self {
            CallState::Unknown(started) => Some(started),
            CallState::Finished { error, .. } if intent.changes => {
                let ended = Some(error.unwrap_or_else(|| "ok".to_owned()));
                Some(UnfinishedCall { ended, ..UnfinishedCall::from_intent(intent) })
            }
            _ => None,
        }
    }
}

/// Every text in these values, names of fields apart: ids of calls are among them, wherever a provider has them.
fn strings(values: &[Value]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Value> = values.iter().collect();
    while let Some(value) = next.pop() {
        match value {
            Value::String(text) => drop(found.insert(text.as_str())),
            Value::Array(values) => next.extend(values),
            Value::Object(fields) => next.extend(fields.values()),
            _ => {}
        }
    }
    found
}

/// Where items are missing, and how many: whoever wrote the others counted them.
#[derive(Default)]
struct MissingItems(Vec<(usize, usize)>);

impl MissingItems {
    /// The place among the items that there are, which are `length`, of the one that was written as the `from`th; and whether
    /// some before it are missing that were not known to be.
    fn place(&mut self, from: usize, length: usize) -> (usize, bool) {
        let mut missing = 0;
        for at in 0..self.0.len() {
            let (place, count) = self.0[at];
            if from < place + missing + count {
                self.0.truncate(at);
                let left = from.saturating_sub(place + missing);
                if left > 0 {
                    self.0.push((place, left));
                }
                return (place.min(from - missing), false);
            }
            missing += count;
        }
        let place = from - missing;
        if place > length {
            self.0.push((length, place - length));
        }
        (place.min(length), place > length)
    }
}

type CallIdentity = (u64, u64, String, String);

/// What a call and its outcome have in common. Those of the main agent are in one message, whichever process runs them;
/// those of others may have any ids, turn by turn, and turns are counted by process.
fn key(process: u64, agent: &str, turn: u64, call: &str) -> CallIdentity {
    let (process, turn) = if agent == MAIN { (0, 0) } else { (process, turn) };
    (process, turn, agent.to_owned(), call.to_owned())
}

/// A line, and what it is.
type TypedLine<'a> = (LineKind, &'a [u8]);

/// What a line is to somebody who goes on with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Always,
    Items { from_start: bool },
    Call,
    Reply,
    Never,
}

impl LineKind {
    fn parse(word: &[u8], rest: &[u8]) -> Option<LineKind> {
        Some(match word {
            b"began" | b"title" | b"task" | b"task_ended" | b"worktree" | b"seen" | b"ended" => {
                LineKind::Always
            }
            b"items" => LineKind::Items { from_start: rest.starts_with(b",\"from\":0,") },
            b"intent" | b"outcome" => LineKind::Call,
            b"reply" => LineKind::Reply,
            b"tools" | b"refused" | b"hook" | b"spent" | b"note" => LineKind::Never,
            _ => return None,
        })
    }
}

/// The agent that the user talks to.
const MAIN: &str = "main";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two turns that are over and one that was cut off, one change in each.
    fn session() -> Vec<Value> {
        let began = json!({"is": "began", "version": "1", "cwd": "/", "pid": 1});
        let mut records = vec![began, json!({"is": "items", "from": 0, "items": [{"role": "user"}]})];
        for (at, call) in ["a", "b", "c"].into_iter().enumerate() {
            let said = json!({"role": "assistant", "calls": [{"id": call}]});
            records.push(json!({"is": "reply", "turn": at, "items": [said]}));
            records.push(
                json!({"is": "intent", "agent": "main", "turn": at, "call": call, "tool": call, "input": {},
                "digest": "", "effects": "writes", "changes": true, "again": false, "by": "a rule"}),
            );
            let result = json!([{"text": "done"}]);
            records.push(json!({"is": "outcome", "agent": "main", "turn": at, "call": call, "tool": call, "error": null,
                "result": result, "digest": "", "micros": 1}));
            let items = json!([said, {"role": "user", "results": [{"of": call}]}]);
            records.push(json!({"is": "items", "from": 1 + 2 * at, "items": items}));
        }
        records.pop();
        records
    }

    /// What is found where these lines are damaged.
    fn without(records: &[Value], damaged: &[usize]) -> RecoveredSession {
        let mut bytes = Vec::new();
        for (n, record) in records.iter().enumerate() {
            let record: Record = serde_json::from_value(record.clone()).unwrap();
            let begins = bytes.len();
            line_format::put(&mut bytes, (n as u64, 0), &serde_json::to_vec(&record).unwrap()[1..]);
            if damaged.contains(&n) {
                let middle = usize::midpoint(begins, bytes.len());
                bytes[middle] ^= 1;
            }
        }
        let (read, _, _) = RecoveredSession::read(&bytes);
        assert_eq!(read, RecoveredSession::from_contents(&parse(&bytes)));
        read
    }

    /// Whom a model knows: from the conversation, from results of the last message, from words beside them.
    fn known(recovered: &RecoveredSession) -> [String; 3] {
        let ids = |items: &[Value]| {
            let texts = strings(items);
            texts.into_iter().filter(|text| text.len() == 1).collect::<String>()
        };
        let answered = recovered.calls.keys().map(String::as_str).collect();
        [ids(&recovered.items), answered, recovered.stray.iter().map(|started| &*started.tool).collect()]
    }

    #[test]
    fn changes_of_turns_that_are_lost_are_told() {
        let records = session();
        let (items, replies) = ([1, 5, 9], [2, 6, 10]);
        assert_eq!(known(&without(&records, &[])), ["ab", "c", ""]);
        assert_eq!(known(&without(&records, &[items[1]])), ["b", "c", "a"]);
        assert_eq!(known(&without(&records, &[items[2]])), ["a", "c", "b"]);
        assert_eq!(known(&without(&records, &[items[1], items[2]])), ["", "c", "ab"]);
        assert_eq!(known(&without(&records, &[replies[2]])), ["ab", "", "c"]);
        // The message before is the last that is known, and its calls are not over.
        assert_eq!(known(&without(&records, &[items[2], replies[2]])), ["a", "b", "c"]);
        // Whatever is missing: nothing is unsaid.
        for one in 1..records.len() {
            for other in (1..records.len()).filter(|at| records[*at]["is"] != "intent") {
                if records[one]["is"] == "intent" {
                    continue;
                }
                let mut all: Vec<char> = known(&without(&records, &[one, other])).concat().chars().collect();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all, ['a', 'b', 'c'], "without {one} and {other}");
            }
        }
    }

    #[test]
    fn what_was_told_once_is_not_told_again() {
        let mut records = session();
        records.push(json!({"is": "began", "version": "1", "cwd": "/", "pid": 2}));
        // It goes on behind the three items that it found.
        let more = |word: &str| json!([{"said": word}, {"said": word}]);
        records.push(json!({"is": "items", "from": 3, "items": more("c")}));
        records.push(json!({"is": "items", "from": 5, "items": more("d")}));
        let recovered = without(&records, &[5]);
        assert_eq!((known(&recovered), recovered.items.len()), (["bcd".into(), "".into(), "".into()], 7));
    }

    #[test]
    fn places_are_counted_with_what_is_missing() {
        let mut holes = MissingItems::default();
        assert_eq!(holes.place(0, 0), (0, false));
        assert_eq!(holes.place(5, 3), (3, true));
        assert_eq!(holes.place(7, 5), (5, false));
        // Back behind, into, and before what is missing.
        assert_eq!(holes.place(6, 5), (4, false));
        assert_eq!(holes.place(4, 4), (3, false));
        assert_eq!(holes.place(6, 3), (3, true));
        assert_eq!(holes.place(2, 3), (2, false));
        assert_eq!(holes.place(3, 3), (3, false));
    }
}
