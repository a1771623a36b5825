//! What was recorded, whatever kind of file it lies in: calls in order, and what came of each.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use haft_journal::{Block, Kept, OutcomeRecord, Record, Recovered, Store};
use haft_provider::limits::TRANSCRIPT_BYTES_MAX;
use haft_provider::transcript::{self, PastResult, Transcript};
use serde_json::Value;

use crate::args::Common;
use crate::output::one_line;
use crate::{Usage, given};

/// Calls that were made.
pub(super) struct Recording {
    /// Where it was read from.
    pub(super) source: String,
    /// What kind of file it is.
    pub(super) form: String,
    /// Where its calls were made, where that is known.
    pub(super) cwd: Option<PathBuf>,
    pub(super) calls: Vec<Past>,
    warnings: Vec<String>,
}

/// One of them.
pub(super) struct Past {
    pub(super) id: String,
    /// The tool as the call named it.
    pub(super) name: String,
    /// JSON text; none where it was never whole.
    pub(super) input: Option<String>,
    pub(super) turn: usize,
    pub(super) line: Option<usize>,
    pub(super) agent: Option<String>,
    pub(super) outcome: Outcome,
    /// Who allowed it, where that was recorded.
    pub(super) by: Option<String>,
    /// The text that the model got.
    pub(super) text: Option<String>,
    /// The place of its result among all of the file.
    pub(super) place: Option<usize>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Ran,
    /// It ran, and gave an error.
    Failed,
    /// It was not run, by the kind of its error.
    Refused(String),
    /// Nothing says.
    Unknown,
}

impl Outcome {
    pub(super) fn word(&self) -> String {
        match self {
            Outcome::Ran => "ran".to_owned(),
            Outcome::Failed => "failed".to_owned(),
            Outcome::Refused(kind) => kind.clone(),
            Outcome::Unknown => "no result".to_owned(),
        }
    }
}

/// Kinds of errors that calls have which were not run.
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

/// Words by which a refusal is known where a file has no kinds: ours, and those of Claude Code.
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
/// Such words stand at the beginning of a result.
const SAID_CHARS_MAX: usize = 200;

/// Finds what a command line names: a file, or a session.
pub(super) fn open(name: &str, common: &Common) -> Result<Recording, Usage> {
    if name == "-" {
        return read(io::stdin().lock(), "standard input");
    }
    let path = common.cwd.as_deref().unwrap_or(Path::new("")).join(name);
    let path = if path.exists() { path } else { PathBuf::from(name) };
    let path = if path.is_dir() { path.join("journal.log") } else { path };
    let shown = one_line(&path.display().to_string());
    match File::open(&path) {
        Ok(file) => read(file, &shown),
        Err(error) if error.kind() == io::ErrorKind::NotFound => session(name, common),
        Err(error) => Err(Usage(format!("`{shown}` can't be read: {error}"))),
    }
}

fn session(name: &str, common: &Common) -> Result<Recording, Usage> {
    let neither = |why: String| {
        let name = one_line(name);
        Usage(format!("`{name}` is neither a file nor a session: {why}"))
    };
    let base = common.cwd.as_deref().unwrap_or(Path::new("."));
    let places = given::places(base, &|name| std::env::var_os(name))?;
    let state = places.state_dir.as_deref().ok_or_else(|| neither("there is no state folder".to_owned()))?;
    let store = Store::at(state);
    let found = store.find(name).map_err(|error| neither(error.to_string()))?;
    let kept = store.read(&found.id).map_err(|error| Usage(error.to_string()))?;
    Ok(of_journal(&kept, format!("session {}", found.id)))
}

fn read(from: impl io::Read, source: &str) -> Result<Recording, Usage> {
    let mut bytes = Vec::new();
    let read = from.take(TRANSCRIPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Usage(format!("{source} can't be read: {error}")))?;
    if bytes.len() > TRANSCRIPT_BYTES_MAX {
        return Err(Usage(format!(
            "{source} has more than {TRANSCRIPT_BYTES_MAX} bytes; that many are read"
        )));
    }
    if is_journal(&bytes) {
        let kept = haft_journal::parse(&bytes);
        if kept.records.is_empty() {
            return Err(Usage(format!("{source}: no line of this journal can be read")));
        }
        return Ok(of_journal(&kept, source.to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        Usage(format!("{source}: line {line}: these bytes are not UTF-8"))
    })?;
    let transcript =
        transcript::read(&text).map_err(|bad| Usage(format!("{source}: {}", one_line(&bad.to_string()))))?;
    Ok(of_transcript(transcript, source.to_owned()))
}

/// A journal's lines begin with a checksum.
fn is_journal(bytes: &[u8]) -> bool {
    bytes.len() > 9 && bytes[..8].iter().all(u8::is_ascii_hexdigit) && bytes[8..].starts_with(b" {")
}

fn of_transcript(transcript: Transcript, source: String) -> Recording {
    let Transcript { form, cwd, calls, passed_over, stray_results, .. } = transcript;
    let mut warnings = Vec::new();
    if !passed_over.is_empty() {
        warnings.push(format!("passed over, as no tool answers them: {}", passed_over.join(", ")));
    }
    if stray_results > 0 {
        warnings.push(format!("{stray_results} results answer no call of this file"));
    }
    let calls = calls.into_iter().map(|call| {
        let result = call.result;
        Past {
            outcome: result.as_ref().map_or(Outcome::Unknown, outcome),
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
    Recording { source, form, cwd, calls: calls.collect(), warnings }
}

fn outcome(result: &PastResult) -> Outcome {
    match (&result.kind, result.is_error) {
        (Some(kind), _) if REFUSED.contains(&kind.as_str()) => Outcome::Refused(kind.clone()),
        (None, true) => {
            let begin: String = result.text.chars().take(SAID_CHARS_MAX).collect::<String>().to_lowercase();
            let said = SAID.iter().find(|(words, _)| begin.contains(words));
            said.map_or(Outcome::Failed, |(_, kind)| Outcome::Refused((*kind).to_owned()))
        }
        (_, true) => Outcome::Failed,
        _ => Outcome::Ran,
    }
}

/// A journal has what ran as it ran. Results of calls that only look are not in its outcomes, but in the conversation.
fn of_journal(kept: &Kept, source: String) -> Recording {
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
    let items = Recovered::of(kept).items;
    let conversation = Value::Array(items).to_string();
    let said = transcript::read(&conversation).map(|transcript| transcript.calls).unwrap_or_default();
    let said: HashMap<&str, &PastResult> =
        said.iter().filter_map(|call| Some((call.id.as_str(), call.result.as_ref()?))).collect();
    let agent = |agent: &str| (agent != "main").then(|| agent.to_owned());
    let mut calls: Vec<Past> = Vec::new();
    let mut turn = 0;
    let mut started: HashSet<(usize, &str)> = HashSet::new();
    for stamped in &kept.records {
        match &stamped.record {
            Record::Intent(intent) => {
                turn = usize::try_from(intent.turn).unwrap_or(0);
                started.insert((turn, &intent.call));
                let outcome = outcomes.get(&(intent.agent.as_str(), intent.turn, intent.call.as_str()));
                let text = outcome.and_then(|outcome| outcome.result.as_deref()).map(text);
                let from_words = || {
                    let is_main = intent.agent == "main";
                    said.get(intent.call.as_str()).filter(|_| is_main).map(|said| said.text.clone())
                };
                calls.push(Past {
                    id: intent.call.clone(),
                    name: intent.tool.clone(),
                    input: Some(intent.input.to_string()),
                    turn,
                    line: None,
                    agent: agent(&intent.agent),
                    outcome: match outcome {
                        None => Outcome::Unknown,
                        Some(outcome) if outcome.error.is_some() => Outcome::Failed,
                        Some(_) => Outcome::Ran,
                    },
                    by: Some(intent.by.clone()),
                    text: text.or_else(from_words),
                    place: None,
                });
            }
            Record::Reply { turn: replied, .. } => turn = usize::try_from(*replied).unwrap_or(0),
            // One that began has its outcome.
            Record::Refused(refused) if started.contains(&(turn, refused.call.as_str())) => {}
            Record::Refused(refused) => calls.push(Past {
                id: refused.call.clone(),
                name: refused.tool.clone(),
                input: Some(match &refused.input {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                }),
                turn,
                line: None,
                agent: agent(&refused.agent),
                outcome: Outcome::Refused(refused.kind.clone()),
                by: None,
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
    Recording { source, form: "journal".to_owned(), cwd, calls, warnings }
}

fn text(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::Json(value) => Some(value.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Recording {
    /// What should be known beside the rows.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
