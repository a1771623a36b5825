//! The calls of a session that ran, for notes about the work before an interruption.
//!
//! Calls are ordered by when they ended. A call that was interrupted by the end of its process is
//! included with an unknown outcome. Only the newest calls are parsed, because a session may be
//! long.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::journal_reader::{CallFields, JournalLines, parse_record};
use crate::line_format;
use crate::record::{OutcomeRecord, Record, RecordedBlock};

/// A call that ran.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompletedCall {
    /// The agent of the call.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The input with which it ran.
    pub input: Value,
    /// The error message, if the call failed.
    pub error: Option<String>,
}

/// The lines of a call: its intent, and its outcome if there is one.
type CallLines<'a> = (&'a [u8], Option<&'a [u8]>);

/// Returns the number of completed calls and the newest of them, oldest first.
pub(crate) fn completed_calls(bytes: &[u8], most: usize) -> (u64, Vec<CompletedCall>) {
    let mut running: BTreeMap<CallFields, &[u8]> = BTreeMap::new();
    let mut ended: VecDeque<CallLines<'_>> = VecDeque::new();
    let mut count = 0;
    let mut end = |call| {
        count += 1;
        if ended.len() == most {
            ended.pop_front();
        }
        ended.push_back(call);
    };
    for json in JournalLines::new(bytes).filter_map(|(_, line)| line.ok()) {
        let Some((_, kind, _)) = line_format::parse_header(json) else { continue };
        match kind {
            b"began" => std::mem::take(&mut running).into_values().for_each(|intent| end((intent, None))),
            b"intent" => {
                if let Ok(key) = serde_json::from_slice(json) {
                    running.insert(key, json);
                }
            }
            b"outcome" => {
                let key = serde_json::from_slice::<CallFields>(json).ok();
                if let Some(intent) = key.and_then(|key| running.remove(&key)) {
                    end((intent, Some(json)));
                }
            }
            _ => {}
        }
    }
    running.into_values().for_each(|intent| end((intent, None)));
    (count, ended.into_iter().filter_map(parse_call).collect())
}

fn parse_call((intent, outcome): CallLines<'_>) -> Option<CompletedCall> {
    let Record::Intent(intent) = parse_record(intent).ok()?.record else { return None };
    let error = match outcome.map(|outcome| parse_record(outcome).map(|stamped| stamped.record)) {
        Some(Ok(Record::Outcome(outcome))) => error_text(*outcome),
        _ => Some("the session was cut off, and the outcome is unknown".to_owned()),
    };
    Some(CompletedCall { agent: intent.agent, tool: intent.tool, input: intent.input, error })
}

/// Returns the error message, or the error kind if the message was not recorded.
fn error_text(outcome: OutcomeRecord) -> Option<String> {
    let kind = outcome.error?;
    let message = outcome.result.into_iter().flatten().find_map(|block| match block {
        RecordedBlock::Text(text) => Some(text),
        _ => None,
    });
    Some(message.unwrap_or(kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn journal(records: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, record) in records.iter().enumerate() {
            let record: Record = serde_json::from_value(record.clone()).unwrap();
            line_format::append_line(&mut out, (n as u64, 0), &serde_json::to_vec(&record).unwrap()[1..]);
        }
        out
    }

    fn intent(call: &str, turn: u64, path: &str) -> Value {
        let (input, effects) = (json!({"file_path": path}), "writes");
        json!({"is": "intent", "agent": "main", "turn": turn, "call": call, "tool": "Write", "input": input,
               "digest": "", "effects": effects, "changes": true, "again": false, "by": "a rule"})
    }

    fn outcome(call: &str, turn: u64, error: Option<&str>) -> Value {
        let text = error.map(|error| json!([{"text": format!("{error}!")}]));
        json!({"is": "outcome", "agent": "main", "turn": turn, "call": call, "tool": "Write", "error": error,
               "result": text, "digest": "", "micros": 1})
    }

    #[test]
    fn calls_are_there_as_they_ended_and_cut_off_ones_with_their_process() {
        let began = json!({"is": "began", "version": "1", "cwd": "/", "pid": 1});
        let records = [
            began.clone(),
            intent("1", 1, "a"),
            intent("2", 1, "b"),
            outcome("2", 1, None),
            outcome("1", 1, Some("failed")),
            intent("1", 2, "c"),
            began,
            intent("1", 1, "d"),
            outcome("1", 1, None),
            intent("2", 1, "e"),
        ];
        let bytes = journal(&records);
        let shown = |(count, calls): (u64, Vec<CompletedCall>)| {
            let each = calls.into_iter().map(|call| {
                format!("{} {}", call.input["file_path"].as_str().unwrap(), call.error.unwrap_or_default())
            });
            (count, each.collect::<Vec<_>>())
        };
        let cut = "the session was cut off, and the outcome is unknown";
        let (c, e) = (format!("c {cut}"), format!("e {cut}"));
        assert_eq!(
            shown(completed_calls(&bytes, 9)),
            (5, vec!["b ".into(), "a failed!".into(), c, "d ".into(), e.clone()])
        );
        assert_eq!(shown(completed_calls(&bytes, 2)), (5, vec!["d ".into(), e]));
        assert_eq!(completed_calls(b"", 2), (0, Vec::new()));
        // A damaged line loses only its own call.
        let mut damaged = bytes.clone();
        let at = memchr::memmem::find(&damaged, b"\"outcome\"").unwrap();
        damaged[at] = b'x';
        assert_eq!(shown(completed_calls(&damaged, 9)).1.len(), 5);
    }
}
