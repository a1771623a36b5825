//! Recovers a session: its conversation, and the state of each call of an interrupted turn.
//!
//! A call with an outcome is finished: its result is restored, or the call is repeated if it has no
//! side effects. A call without an intent never started. A call with an intent and no outcome did
//! start: it is repeated if it has no side effects, and has an unknown outcome otherwise.
//!
//! If lines are missing, the conversation may lack a turn whose calls are still known. The model
//! would repeat them, so it is told about their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use haft::context::DirectoryChange;
use serde_json::Value;

use crate::journal_disk;
use crate::journal_reader::{JournalContents, JournalLines, parse, parse_record, without_hole};
use crate::line_format;
use crate::record::{IntentRecord, OutcomeRecord, Record, RecordedBlock, SessionStart};

/// The state from which a session can be resumed.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RecoveredSession {
    /// How the session started first.
    pub began: SessionStart,
    /// How the session was last resumed.
    pub last: SessionStart,
    /// The title, if the session has one.
    pub title: Option<String>,
    /// The conversation in the provider's JSON: complete turns.
    pub items: Vec<Value>,
    /// The model's message whose calls have no complete results, if the last turn was interrupted.
    pub reply: Option<Vec<Value>>,
    /// The calls of the interrupted turn, by id.
    pub calls: BTreeMap<String, CallState>,
    /// Calls whose result can't reach the conversation, because their message is incomplete or
    /// lost, or a worker made them. The model is told about those with side effects, in order.
    pub stray: Vec<UnfinishedCall>,
    /// Where the main agent had moved, if it had.
    pub moved: DirectoryChange,
    /// What tools knew about files, by path.
    pub seen: BTreeMap<String, Value>,
    /// Background tasks that ran at the interruption: id and description.
    pub tasks: Vec<(String, String)>,
    /// Worktrees that were created: path, repository, branch.
    pub worktrees: Vec<(PathBuf, PathBuf, String)>,
    /// Whether the session ended by itself.
    pub is_ended: bool,
    /// Whether lines are damaged or missing. A call without a record may then have run.
    pub is_damaged: bool,
}

/// The state of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallState {
    /// The call has a result.
    Finished {
        /// The tool.
        tool: String,
        /// The kind of the error, if the call failed.
        error: Option<String>,
        /// The result for the model.
        blocks: Vec<RecordedBlock>,
    },
    /// The call may be run, again or for the first time.
    Run,
    /// The call started, and its outcome is unknown.
    Unknown(UnfinishedCall),
}

/// A call without a usable outcome.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnfinishedCall {
    /// The tool.
    pub tool: String,
    /// The declared effects.
    pub effects: String,
    /// What happened to the declared files.
    pub files: Vec<(PathBuf, FileChange)>,
    /// The outcome as one word, if it is known and its result can't reach the conversation.
    pub ended: Option<String>,
}

/// How a file changed since a call started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChange {
    /// Unchanged.
    Same,
    /// The content differs.
    Changed,
    /// The file was created.
    Made,
    /// The file was removed.
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
    /// Compares the declared files with the disk.
    fn from_intent(intent: &IntentRecord) -> UnfinishedCall {
        let files = intent.files.iter().map(|before| {
            let now = journal_disk::snapshot_file(&before.path);
            let change = match (before.size, now.size) {
                (None, None) => FileChange::Same,
                (None, Some(_)) => FileChange::Made,
                (Some(_), None) => FileChange::Gone,
                _ if before.sha256.is_some() && before.sha256 == now.sha256 => FileChange::Same,
                _ if before.sha256.is_none() && (before.size, before.changed) == (now.size, now.changed) => {
                    FileChange::Same
                }
                _ => FileChange::Changed,
            };
            (before.path.clone(), change)
        });
        let (tool, effects) = (intent.tool.clone(), intent.effects.clone());
        UnfinishedCall { tool, effects, files: files.collect(), ended: None }
    }
}

impl fmt::Display for UnfinishedCall {
    /// Formats the note for the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ended {
            None => write!(
                f,
                "{} was started, and the session was cut off before its result was recorded: its outcome \
                 is unknown. It was not run again. It declared: {}.",
                self.tool, self.effects
            )?,
            Some(how) => write!(
                f,
                "{} was run to its end ({how}), and the session was cut off before you had its result. It \
                 was not run again. It declared: {}.",
                self.tool, self.effects
            )?,
        }
        for (path, change) in &self.files {
            write!(f, " `{}` {change}.", path.display())?;
        }
        f.write_str(" Look at what is there before you repeat it.")
    }
}

impl RecoveredSession {
    /// Recovers a session from its records. Inspects the files of calls with unknown outcome.
    pub fn from_contents(contents: &JournalContents) -> RecoveredSession {
        let gaps = contents.records.windows(2).any(|pair| pair[1].n != pair[0].n + 1);
        let is_damaged =
            !contents.damage.is_empty() || gaps || contents.records.first().is_some_and(|first| first.n != 0);
        RecoveredSession::from_records(
            contents.records.iter().map(|stamped| stamped.record.clone()),
            is_damaged,
        )
    }

    /// Recovers a session from the bytes of a journal. Skips obsolete records: calls of completed
    /// turns, and conversations that were replaced. Also returns the length of the complete lines
    /// and the number of the next one.
    pub fn from_bytes(bytes: &[u8]) -> (RecoveredSession, u64, u64) {
        let bytes = without_hole(bytes);
        let mut lines = JournalLines::new(bytes);
        let mut typed_lines: Vec<TypedLine<'_>> = Vec::new();
        let (mut next, mut is_damaged) = (0, false);
        for (_, line) in &mut lines {
            let Ok(json) = line else {
                is_damaged = true;
                continue;
            };
            let Some((n, word, rest)) = line_format::parse_header(json) else {
                // Written by another version: parse everything.
                let contents = parse(bytes);
                return (RecoveredSession::from_contents(&contents), contents.whole, contents.next());
            };
            is_damaged |= n != next;
            next = n + 1;
            match LineKind::parse(word, rest) {
                Some(kind) => typed_lines.push((kind, json)),
                None => is_damaged = true,
            }
        }
        let last = |is: &dyn Fn(&TypedLine<'_>) -> bool| typed_lines.iter().rposition(is).unwrap_or(0);
        let conversation_start = last(&|(kind, _)| *kind == LineKind::Items { from_start: true });
        let turn_start = last(&|(kind, _)| matches!(kind, LineKind::Items { .. }));
        let main = format!("\"agent\":\"{MAIN}\"");
        let last_main_call = last(&|(kind, json)| {
            *kind == LineKind::Call
                && memchr::memmem::find(&json[..json.len().min(256)], main.as_bytes()).is_some()
        });
        // In a damaged journal, all calls may matter.
        let counts = |all: bool, at: usize, kind: &LineKind| match kind {
            LineKind::Always => true,
            LineKind::Items { .. } => at >= conversation_start,
            LineKind::Call => all || at >= turn_start || at == last_main_call,
            LineKind::Reply => at >= turn_start,
            LineKind::Never => false,
        };
        let recover = |mut is_damaged: bool| {
            let mut records = Vec::new();
            for (at, (kind, json)) in typed_lines.iter().enumerate() {
                if !counts(is_damaged && at >= conversation_start, at, kind) {
                    continue;
                }
                match parse_record(json) {
                    Ok(stamped) => records.push(stamped.record),
                    Err(_) => is_damaged = true,
                }
            }
            RecoveredSession::from_records(records, is_damaged)
        };
        let mut recovered = recover(is_damaged);
        if recovered.is_damaged && !is_damaged {
            recovered = recover(true);
        }
        (recovered, lines.at as u64, next)
    }

    fn from_records(records: impl IntoIterator<Item = Record>, is_damaged: bool) -> RecoveredSession {
        let mut recovered = RecoveredSession { is_damaged, ..RecoveredSession::default() };
        let mut turn = OpenTurn::default();
        let mut process = 0_u64;
        let mut tasks: Vec<(u64, String, String)> = Vec::new();
        let mut missing = MissingItems::default();
        // Changes of missing turns, with the process that made them.
        let mut lost: Vec<(u64, UnfinishedCall)> = Vec::new();
        for record in records {
            match record {
                Record::Began(began) => {
                    if process == 0 {
                        recovered.began = began.clone();
                    }
                    process += 1;
                    // The new process counted the items that it recovered.
                    missing = MissingItems::default();
                    recovered.last = began;
                    recovered.is_ended = false;
                }
                Record::Title { text } => recovered.title = Some(text),
                Record::Items { from, items } => {
                    let (place, is_hole) = missing.locate(from, recovered.items.len());
                    recovered.items.truncate(place);
                    // The process that resumed the session has reported earlier ones.
                    tasks.retain(|(of, ..)| *of == process);
                    lost.retain(|(of, _)| *of == process && from > 0);
                    if is_hole {
                        recovered.is_damaged = true;
                        lost.extend(turn.changes_missing_from(&items).map(|started| (process, started)));
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
                    turn.outcomes
                        .insert(call_identity(process, &outcome.agent, outcome.turn, &outcome.call), outcome);
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
                | Record::Request { .. }
                | Record::Spent { .. }
                | Record::Note { .. } => {}
            }
        }
        recovered.tasks = tasks.into_iter().map(|(_, id, words)| (id, words)).collect();
        recovered.stray = lost.into_iter().map(|(_, started)| started).collect();
        recovered.recover_interrupted_turn(turn);
        recovered
    }

    /// Determines the state of the last turn's calls if the turn was interrupted.
    fn recover_interrupted_turn(&mut self, mut turn: OpenTurn) {
        // If the message doesn't contain the calls, it is an earlier one, and the message of the
        // calls is lost.
        let reply = self.reply.as_deref().filter(|_| self.is_damaged).map(all_strings);
        let is_asked = |call: &str| reply.as_ref().is_none_or(|strings| strings.contains(call));
        for (process, intent) in &turn.intents {
            let state = turn.call_state(*process, intent);
            if intent.agent == MAIN && self.reply.is_some() && is_asked(&intent.call) {
                self.calls.insert(intent.call.clone(), state);
            } else {
                self.stray.extend(state.into_reportable_change(intent));
            }
        }
        // A call with a lost intent has still ended.
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
    /// Intents with the number of their process.
    intents: Vec<(u64, Box<IntentRecord>)>,
    outcomes: BTreeMap<CallIdentity, Box<OutcomeRecord>>,
}

impl OpenTurn {
    /// Returns the state of a call.
    fn call_state(&self, process: u64, intent: &IntentRecord) -> CallState {
        let key = call_identity(process, &intent.agent, intent.turn, &intent.call);
        match self.outcomes.get(&key).map(|outcome| &**outcome) {
            Some(OutcomeRecord { tool, error, result: Some(blocks), .. }) => {
                CallState::Finished { tool: tool.clone(), error: error.clone(), blocks: blocks.clone() }
            }
            _ if !intent.changes => CallState::Run,
            _ => CallState::Unknown(UnfinishedCall::from_intent(intent)),
        }
    }

    /// Returns the changes by calls of the main agent that these items don't contain.
    fn changes_missing_from(&self, items: &[Value]) -> impl Iterator<Item = UnfinishedCall> {
        let known = all_strings(items);
        self.intents.iter().filter_map(move |(process, intent)| {
            let is_lost = intent.agent == MAIN && !known.contains(&*intent.call);
            is_lost.then(|| self.call_state(*process, intent).into_reportable_change(intent)).flatten()
        })
    }
}

impl CallState {
    /// Returns what to report about a call whose result can't reach the conversation. Calls without
    /// side effects are not reported.
    fn into_reportable_change(self, intent: &IntentRecord) -> Option<UnfinishedCall> {
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

/// Returns all string values, without field names: call ids are among them in every provider's
/// format.
fn all_strings(values: &[Value]) -> BTreeSet<&str> {
    let mut strings = BTreeSet::new();
    let mut next: Vec<&Value> = values.iter().collect();
    while let Some(value) = next.pop() {
        match value {
            Value::String(text) => drop(strings.insert(text.as_str())),
            Value::Array(values) => next.extend(values),
            Value::Object(fields) => next.extend(fields.values()),
            _ => {}
        }
    }
    strings
}

/// Where items are missing, and how many. The recorded indexes reveal them.
#[derive(Default)]
struct MissingItems(Vec<(usize, usize)>);

impl MissingItems {
    /// Returns the index among the `length` present items for the recorded index `from`, and
    /// whether a new gap was found before it.
    fn locate(&mut self, from: usize, length: usize) -> (usize, bool) {
        let mut missing_before = 0;
        for at in 0..self.0.len() {
            let (place, count) = self.0[at];
            if from < place + missing_before + count {
                self.0.truncate(at);
                let left = from.saturating_sub(place + missing_before);
                if left > 0 {
                    self.0.push((place, left));
                }
                return (place.min(from - missing_before), false);
            }
            missing_before += count;
        }
        let place = from - missing_before;
        if place > length {
            self.0.push((length, place - length));
        }
        (place.min(length), place > length)
    }
}

type CallIdentity = (u64, u64, String, String);

/// Returns what a call and its outcome have in common. Calls of the main agent belong to one
/// message, whichever process runs them. Ids of other agents are unique per turn only, and turns
/// are counted per process.
fn call_identity(process: u64, agent: &str, turn: u64, call: &str) -> CallIdentity {
    let (process, turn) = if agent == MAIN { (0, 0) } else { (process, turn) };
    (process, turn, agent.to_owned(), call.to_owned())
}

/// A line with its kind.
type TypedLine<'a> = (LineKind, &'a [u8]);

/// What a line means for a resume.
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
            b"tools" | b"refused" | b"hook" | b"request" | b"spent" | b"note" => LineKind::Never,
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

    /// Two completed turns and an interrupted one, with one change each.
    fn session() -> Vec<Value> {
        let began = json!({"is": "began", "version": "1", "cwd": "/", "pid": 1});
        let mut records = vec![began, json!({"is": "items", "from": 0, "items": [{"role": "user"}]})];
        for (at, call) in ["a", "b", "c"].into_iter().enumerate() {
            let message = json!({"role": "assistant", "calls": [{"id": call}]});
            records.push(json!({"is": "reply", "turn": at, "items": [message]}));
            records.push(
                json!({"is": "intent", "agent": "main", "turn": at, "call": call, "tool": call, "input": {},
                "digest": "", "effects": "writes", "changes": true, "again": false, "by": "a rule"}),
            );
            let result = json!([{"text": "done"}]);
            records.push(json!({"is": "outcome", "agent": "main", "turn": at, "call": call, "tool": call, "error": null,
                "result": result, "digest": "", "micros": 1}));
            let items = json!([message, {"role": "user", "results": [{"of": call}]}]);
            records.push(json!({"is": "items", "from": 1 + 2 * at, "items": items}));
        }
        records.pop();
        records
    }

    /// Recovers the session with these lines damaged.
    fn without(records: &[Value], damaged: &[usize]) -> RecoveredSession {
        let mut bytes = Vec::new();
        for (n, record) in records.iter().enumerate() {
            let record: Record = serde_json::from_value(record.clone()).unwrap();
            let begins = bytes.len();
            line_format::append_line(&mut bytes, (n as u64, 0), &serde_json::to_vec(&record).unwrap()[1..]);
            if damaged.contains(&n) {
                let middle = usize::midpoint(begins, bytes.len());
                bytes[middle] ^= 1;
            }
        }
        let (read, _, _) = RecoveredSession::from_bytes(&bytes);
        assert_eq!(read, RecoveredSession::from_contents(&parse(&bytes)));
        read
    }

    /// Returns the calls that the model knows: from the conversation, from results of the last
    /// message, from notes.
    fn known(recovered: &RecoveredSession) -> [String; 3] {
        let ids = |items: &[Value]| {
            let texts = all_strings(items);
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
        // The earlier message is the last known one, and its calls are not completed.
        assert_eq!(known(&without(&records, &[items[2], replies[2]])), ["a", "b", "c"]);
        // Whichever lines are missing, every change is reported.
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
        // The resumed session continues after the three recovered items.
        let more = |word: &str| json!([{"said": word}, {"said": word}]);
        records.push(json!({"is": "items", "from": 3, "items": more("c")}));
        records.push(json!({"is": "items", "from": 5, "items": more("d")}));
        let recovered = without(&records, &[5]);
        assert_eq!((known(&recovered), recovered.items.len()), (["bcd".into(), "".into(), "".into()], 7));
    }

    #[test]
    fn places_are_counted_with_what_is_missing() {
        let mut missing = MissingItems::default();
        assert_eq!(missing.locate(0, 0), (0, false));
        assert_eq!(missing.locate(5, 3), (3, true));
        assert_eq!(missing.locate(7, 5), (5, false));
        // After, within, and before the gap.
        assert_eq!(missing.locate(6, 5), (4, false));
        assert_eq!(missing.locate(4, 4), (3, false));
        assert_eq!(missing.locate(6, 3), (3, true));
        assert_eq!(missing.locate(2, 3), (2, false));
        assert_eq!(missing.locate(3, 3), (3, false));
    }
}
