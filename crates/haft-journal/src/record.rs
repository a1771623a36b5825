//! The kinds of records, as they are kept.
//!
//! A record is what happened, in the words of the core; it is written once and never changed. Readers of later versions
//! know these kinds and fields; what they don't know they pass over and count.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::Content;
use haft::context::Moved;
use haft::decision::{DecisionReason, DecisionSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A record with its place: the `n`th of its session, and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StampedRecord {
    /// Counts from 0 without a gap; order is by this and never by time.
    pub n: u64,
    /// Milliseconds since 1970 by the clock of the machine, which may jump.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// A session began, or goes on in another process.
    Began(SessionStart),
    /// A name for people.
    Title {
        /// The name.
        text: String,
    },
    /// The conversation has these items from the place `from` on; what was there before is replaced.
    Items {
        /// How many items before stay.
        from: usize,
        /// Those that follow, in the provider's JSON.
        items: Vec<Value>,
    },
    /// The model's message is whole; its calls run, and its items follow with their results.
    Reply {
        /// The turn.
        turn: u64,
        /// In the provider's JSON.
        items: Vec<Value>,
    },
    /// The tools of a turn, where they differ from those of the turn before.
    Tools {
        /// Of their definitions.
        hash: String,
        /// Their names.
        names: Vec<String>,
    },
    /// A call is about to run.
    Intent(Box<IntentRecord>),
    /// What came of one.
    Outcome(Box<OutcomeRecord>),
    /// A call that was not run, and why.
    Refused(Box<RefusedRecord>),
    /// What a message of the model cost.
    Spent {
        /// The turn.
        turn: u64,
        /// Tokens that were sent.
        input: u64,
        /// Of these, read from the provider's prompt cache.
        cached: u64,
        /// Tokens that the model wrote.
        output: u64,
    },
    /// A task goes on in the background.
    Task {
        /// Its id.
        id: String,
        /// What it is.
        words: String,
    },
    /// Such a task has ended.
    TaskEnded {
        /// Its id.
        id: String,
    },
    /// A worktree is about to be made.
    Worktree {
        /// Where.
        path: PathBuf,
        /// Of which repository.
        repository: PathBuf,
        /// Its branch.
        branch: String,
    },
    /// What is known of files now, by path, in the words of whoever has to know it again.
    Seen {
        /// Only what is new.
        files: BTreeMap<String, Value>,
    },
    /// A hook did something.
    Hook {
        /// Whose call it was about.
        agent: String,
        /// The turn.
        turn: u64,
        /// The call, if it was about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// When it ran.
        when: String,
        /// The hook.
        hook: String,
        /// What came of it.
        outcome: String,
    },
    /// Something for the reader of a log.
    Note {
        /// What.
        text: String,
    },
    /// The session ended by itself.
    Ended {
        /// Why, as one word.
        why: String,
    },
}

impl Record {
    /// Something for the reader of a log.
    pub fn note(text: impl Into<String>) -> Record {
        Record::Note { text: text.into() }
    }
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionStart {
    /// Of the program.
    pub version: String,
    /// The working directory.
    pub cwd: PathBuf,
    /// The process.
    pub pid: u32,
    /// Who is asked, where a model is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Which model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The form of the conversation's items.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wire: String,
    /// Where the provider is reached, where that was said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Which command it is: `run`, `serve`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
}

impl SessionStart {
    /// A session of this process in this folder.
    pub fn in_folder(cwd: impl Into<PathBuf>) -> SessionStart {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        SessionStart { version, cwd: cwd.into(), pid: std::process::id(), ..SessionStart::default() }
    }
}

/// A call that is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// Whose call.
    pub agent: String,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The input as it runs.
    pub input: Value,
    /// SHA-256 of the input's canonical JSON.
    pub digest: String,
    /// What it declares, in words.
    pub effects: String,
    /// Whether it can change anything.
    pub changes: bool,
    /// Whether it may be run again.
    pub again: bool,
    /// Who allowed it: the rule, the mode, the user.
    pub by: String,
    /// The source of the decision. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DecisionSource>,
    /// How what it may change looked before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileBefore>,
    /// Where the agent was, if it had moved.
    #[serde(default, skip_serializing_if = "Moved::is_nowhere")]
    pub moved: Moved,
}

/// A file before a call that may change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileBefore {
    /// Where.
    pub path: PathBuf,
    /// Its size; none if there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was changed last, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<i64>,
    /// SHA-256 of its content, where it is a file of a bearable size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// Whose call.
    pub agent: String,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Why it failed, if it did: the kind of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the model got. Left out of calls that change nothing: they can be run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Vec<RecordedBlock>>,
    /// SHA-256 of what the model got: its texts and bytes, one after another.
    pub digest: String,
    /// How long it ran, in microseconds.
    pub micros: u64,
    /// Whether another call ran at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// Where the whole result lies, if the model got a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
    /// Where the agent was then, if it had moved.
    #[serde(default, skip_serializing_if = "Moved::is_nowhere")]
    pub moved: Moved,
    /// How long that is, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<u64>,
    /// When it ended, in microseconds since 1970; the time of the record is when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Whether the tool gave what it had kept from an earlier call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// A call that was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedRecord {
    /// Whose call.
    pub agent: String,
    /// The turn.
    #[serde(default)]
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool, as the call named it.
    pub tool: String,
    /// The input, as it came.
    pub input: Value,
    /// The kind of the error.
    pub kind: String,
    /// Its words.
    pub why: String,
    /// The source of the decision that refused it. Calls that no decision was made on, and records of earlier versions, have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DecisionSource>,
    /// Whether the decision was to ask, in a session without a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// All reasons of the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<DecisionReason>,
}

/// A block of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordedBlock {
    /// Text.
    Text(String),
    /// A picture or a document: media type and bytes in base64.
    Image(String, String),
    /// The same for documents.
    Document(String, String),
    /// A JSON value.
    Json(Value),
    /// Something that lies elsewhere: address and name.
    Link(String, String),
}

impl RecordedBlock {
    /// As the core has it.
    pub fn into_content(self) -> Content {
        let bytes = |text: &str| STANDARD.decode(text).unwrap_or_default();
        match self {
            RecordedBlock::Text(text) => Content::text(text),
            RecordedBlock::Image(kind, data) => Content::image(kind, bytes(&data)),
            RecordedBlock::Document(kind, data) => Content::document(kind, bytes(&data)),
            RecordedBlock::Json(value) => Content::Structured(value),
            RecordedBlock::Link(uri, name) => Content::link(uri, name),
        }
    }
}

/// The kind of an error as programs read it.
pub(crate) fn word(kind: haft::ErrorKind) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    value.as_str().map_or_else(|| format!("{kind:?}"), str::to_owned)
}
