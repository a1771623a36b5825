//! Recorded calls in order with their results, from any kind of file.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::path::PathBuf;

use haft::decision::DecisionSource;
use haft::text::truncate_chars;
use haft_journal::{
    JournalContents, JournalStore, OutcomeRecord, Record, RecordedBlock, RecoveredSession, StoreError,
};
use haft_provider::limits::TRANSCRIPT_BYTES_MAX;
use haft_provider::transcript::{self, PastConversation, PastResult};
use serde_json::Value;

use crate::SessionError;
use crate::text::one_line;

/// A recording of calls.
pub struct CallRecording {
    /// The source that it was read from.
    pub source: String,
    /// The kind of file.
    pub form: String,
    /// The directory in which its calls were made, if it is known.
    pub(super) cwd: Option<PathBuf>,
    pub(super) calls: Vec<RecordedCall>,
    warnings: Vec<String>,
}

/// A recorded call.
pub(super) struct RecordedCall {
    pub(super) id: String,
    /// The tool name in the call.
    pub(super) name: String,
    /// The JSON text; `None` if it was never complete.
    pub(super) input: Option<String>,
    pub(super) turn: usize,
    pub(super) line: Option<usize>,
    pub(super) agent: Option<String>,
    pub(super) outcome: RecordedOutcome,
    /// The source of the decision, if it was recorded.
    pub(super) by: Option<DecisionSource>,
    /// Whether it was denied because it asked and the session had no user.
    pub(super) unanswered: bool,
    /// The text that the model received.
    pub(super) text: Option<String>,
    /// The position of its result among all results in the file.
    pub(super) place: Option<usize>,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordedOutcome {
    Ran,
    /// It ran, and returned an error.
    Failed,
    /// It was not run. Contains the kind of its error.
    Refused(String),
    /// The outcome is not recorded.
    Unknown,
}

impl RecordedOutcome {
    pub(super) fn name(&self) -> String {
        match self {
            RecordedOutcome::Ran => "ran".to_owned(),
            RecordedOutcome::Failed => "failed".to_owned(),
            RecordedOutcome::Refused(kind) => kind.clone(),
            RecordedOutcome::Unknown => "no result".to_owned(),
        }
    }
}

/// The error kinds of calls that were not run.
const REFUSED: [&str; 8] = [
    "Blocked",
    "Denied",
    "HookFailed",
    "InvalidInput",
    "NotInteractive",
    "NotRecorded",
    "Rejected",
    "UnknownTool",
];

/// Texts that identify a denial in files without error kinds: haft's, and those of Claude Code.
const SAID: [(&str, &str); 11] = [
    ("no tool named `", "UnknownTool"),
    ("no such tool available", "UnknownTool"),
    ("invalid input for ", "InvalidInput"),
    ("inputvalidationerror", "InvalidInput"),
    (" was denied", "Denied"),
    ("denied by rule", "Denied"),
    ("denied by hook", "Denied"),
    ("permission to use ", "Denied"),
    ("requested permissions to", "Denied"),
    ("the user said no to ", "Rejected"),
    ("doesn't want to proceed with this tool use", "Rejected"),
];
/// The text of a denial of a call that asked in a session without a user, for files without decisions.
const UNANSWERED: &str = "needs a yes";
/// Such texts are at the beginning of a result.
const SAID_CHARS_MAX: usize = 200;

impl CallRecording {
    /// Reads a journal or a transcript, and detects which it is. `source` names it in messages.
    ///
    /// # Errors
    /// Returns an error if the input can't be read, is too long, or has an unknown form.
    pub fn read(from: impl io::Read, source: &str) -> Result<CallRecording, SessionError> {
        let mut bytes = Vec::new();
        let read = from.take(TRANSCRIPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| SessionError::journal(format!("{source} can't be read: {error}")))?;
        if bytes.len() > TRANSCRIPT_BYTES_MAX {
            return Err(SessionError::journal(format!(
                "{source} has more than {TRANSCRIPT_BYTES_MAX} bytes; that many are read"
            )));
        }
        if is_journal(&bytes) {
            let kept = haft_journal::parse(&bytes);
            if kept.records.is_empty() {
                return Err(SessionError::journal(format!("{source}: no line of this journal can be read")));
            }
            return Ok(of_journal(&kept, source.to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
            SessionError::journal(format!("{source}: line {line}: these bytes are not UTF-8"))
        })?;
        let transcript = transcript::read_transcript(&text)
            .map_err(|bad| SessionError::journal(format!("{source}: {}", one_line(&bad.to_string()))))?;
        Ok(of_transcript(transcript, source.to_owned()))
    }

    /// Reads the journal of the session with this id.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or if its journal can't be read.
    pub fn read_session(store: &JournalStore, id: &str) -> Result<CallRecording, StoreError> {
        Ok(of_journal(&store.read(id)?, format!("session {id}")))
    }

    /// Returns warnings about the recording.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns whether the input is a journal, whose lines begin with a checksum.
fn is_journal(bytes: &[u8]) -> bool {
    bytes.len() > 9 && bytes[..8].iter().all(u8::is_ascii_hexdigit) && bytes[8..].starts_with(b" {")
}

fn of_transcript(transcript: PastConversation, source: String) -> CallRecording {
    let PastConversation { form, cwd, calls, passed_over, stray_results, .. } = transcript;
    let mut warnings = Vec::new();
    if !passed_over.is_empty() {
        warnings.push(format!("passed over, as no tool answers them: {}", passed_over.join(", ")));
    }
    if stray_results > 0 {
        warnings.push(format!("{stray_results} results answer no call of this file"));
    }
    let calls = calls.into_iter().map(|call| {
        let result = call.result;
        RecordedCall {
            outcome: result.as_ref().map_or(RecordedOutcome::Unknown, recorded_outcome),
            unanswered: result.as_ref().is_some_and(|result| result.text.contains(UNANSWERED)),
            place: result.as_ref().map(|result| result.place),
            text: result.map(|result| result.text),
            by: None,
            id: call.id,
            name: call.name,
            input: call.input,
            turn: call.turn,
            line: Some(call.line),
            agent: call.agent,
        }
    });
    let form = form.map_or_else(|| "transcript without calls".to_owned(), |form| form.to_string());
    CallRecording { source, form, cwd, calls: calls.collect(), warnings }
}

fn recorded_outcome(result: &PastResult) -> RecordedOutcome {
    match (&result.kind, result.is_error) {
        (Some(kind), _) if REFUSED.contains(&kind.as_str()) => RecordedOutcome::Refused(kind.clone()),
        (None, true) => {
            let begin = truncate_chars(&result.text, SAID_CHARS_MAX).to_lowercase();
            let said = SAID.iter().find(|(words, _)| begin.contains(words));
            said.map_or(RecordedOutcome::Failed, |(_, kind)| RecordedOutcome::Refused((*kind).to_owned()))
        }
        (_, true) => RecordedOutcome::Failed,
        _ => RecordedOutcome::Ran,
    }
}

/// Converts a journal, which contains every call that ran. Results of read-only calls are not in its
/// outcomes, but in the conversation.
fn of_journal(kept: &JournalContents, source: String) -> CallRecording {
    let mut outcomes: HashMap<(&str, u64, &str), &OutcomeRecord> = HashMap::new();
    let mut cwd = None;
    for stamped in &kept.records {
        match &stamped.record {
            Record::Outcome(outcome) => {
                outcomes.insert((&outcome.agent, outcome.turn, &outcome.call), outcome);
            }
            Record::Began(began) => cwd = cwd.or_else(|| Some(began.cwd.clone())),
            _ => {}
        }
    }
    let items = RecoveredSession::from_contents(kept).items;
    let conversation = Value::Array(items).to_string();
    let said =
        transcript::read_transcript(&conversation).map(|transcript| transcript.calls).unwrap_or_default();
    let said: HashMap<&str, &PastResult> =
        said.iter().filter_map(|call| Some((call.id.as_str(), call.result.as_ref()?))).collect();
    let agent = |agent: &str| (agent != "main").then(|| agent.to_owned());
    let mut calls: Vec<RecordedCall> = Vec::new();
    let mut turn = 0;
    let mut started: HashSet<(usize, &str)> = HashSet::new();
    for stamped in &kept.records {
        match &stamped.record {
            Record::Intent(intent) => {
                turn = usize::try_from(intent.turn).unwrap_or(0);
                started.insert((turn, &intent.call));
                let outcome = outcomes.get(&(intent.agent.as_str(), intent.turn, intent.call.as_str()));
                let text = outcome.and_then(|outcome| outcome.result.as_deref()).map(blocks_text);
                let from_words = || {
                    let is_main = intent.agent == "main";
                    said.get(intent.call.as_str()).filter(|_| is_main).map(|said| said.text.clone())
                };
                calls.push(RecordedCall {
                    id: intent.call.clone(),
                    name: intent.tool.clone(),
                    input: Some(intent.input.to_string()),
                    turn,
                    line: None,
                    agent: agent(&intent.agent),
                    outcome: match outcome {
                        None => RecordedOutcome::Unknown,
                        Some(outcome) if outcome.error.is_some() => RecordedOutcome::Failed,
                        Some(_) => RecordedOutcome::Ran,
                    },
                    by: intent.source,
                    unanswered: false,
                    text: text.or_else(from_words),
                    place: None,
                });
            }
            Record::Reply { turn: replied, .. } => turn = usize::try_from(*replied).unwrap_or(0),
            // A call that began has an outcome.
            Record::Refused(refused) if started.contains(&(turn, refused.call.as_str())) => {}
            Record::Refused(refused) => calls.push(RecordedCall {
                id: refused.call.clone(),
                name: refused.tool.clone(),
                input: Some(match &refused.input {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                }),
                turn,
                line: None,
                agent: agent(&refused.agent),
                outcome: RecordedOutcome::Refused(refused.kind.clone()),
                by: refused.source,
                unanswered: refused.unanswered
                    || (refused.source.is_none() && refused.why.contains(UNANSWERED)),
                text: Some(refused.why.clone()),
                place: None,
            }),
            _ => {}
        }
    }
    let warnings = match kept.damage.len() {
        0 => Vec::new(),
        count => vec![format!("{count} lines of this journal are damaged and left out")],
    };
    CallRecording { source, form: "journal".to_owned(), cwd, calls, warnings }
}

fn blocks_text(blocks: &[RecordedBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        RecordedBlock::Text(text) => Some(text.clone()),
        RecordedBlock::Json(value) => Some(value.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
