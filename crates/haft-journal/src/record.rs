//! The kinds of records and their serialized form.
//!
//! A record describes an event in the terms of the core. It is written once and never changed.
//! Later versions can read these kinds and fields; readers skip and count what they don't know.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::ResultBlock;
use haft::context::DirectoryChange;
use haft::decision::{DecisionReason, DecisionSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A record with its number and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StampedRecord {
    /// The number of the record, from 0 without gaps. It defines the order; time doesn't.
    pub n: u64,
    /// Milliseconds since 1970 by the system clock, which may jump.
    pub at: u64,
    /// The event.
    #[serde(flatten)]
    pub record: Record,
}

/// An event in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// A session started or was resumed by another process.
    Began(SessionStart),
    /// The title of the session.
    Title {
        /// The title.
        text: String,
    },
    /// Items of the conversation from index `from` on; they replace earlier ones.
    Items {
        /// The number of earlier items that stay.
        from: usize,
        /// The items in the provider's JSON.
        items: Vec<Value>,
    },
    /// The model's message is complete. Its calls run next, and its items follow with their
    /// results.
    Reply {
        /// The turn.
        turn: u64,
        /// The message in the provider's JSON.
        items: Vec<Value>,
    },
    /// The tools of a turn, if they differ from those of the turn before.
    Tools {
        /// The hash of the definitions.
        hash: String,
        /// The names of the tools.
        names: Vec<String>,
    },
    /// A call is about to run.
    Intent(Box<IntentRecord>),
    /// The outcome of a call.
    Outcome(Box<OutcomeRecord>),
    /// A call that was not run, with the reason.
    Refused(Box<RefusedRecord>),
    /// The token usage of a message of the model.
    Spent {
        /// The turn.
        turn: u64,
        /// Input tokens.
        input: u64,
        /// Input tokens that the provider's prompt cache served.
        cached: u64,
        /// Output tokens.
        output: u64,
    },
    /// A background task was started.
    Task {
        /// Its id.
        id: String,
        /// Its description.
        words: String,
    },
    /// A background task ended.
    TaskEnded {
        /// Its id.
        id: String,
    },
    /// A worktree is about to be created.
    Worktree {
        /// The path of the worktree.
        path: PathBuf,
        /// The repository.
        repository: PathBuf,
        /// The branch.
        branch: String,
    },
    /// What tools know about files, by path; the format belongs to the tools.
    Seen {
        /// Changes since the last such record.
        files: BTreeMap<String, Value>,
    },
    /// A hook had an effect.
    Hook {
        /// The agent whose call it was.
        agent: String,
        /// The turn.
        turn: u64,
        /// The call, if the hook ran for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The hook's event.
        when: String,
        /// The hook.
        hook: String,
        /// The effect.
        outcome: String,
    },
    /// The decision on a request of a running call's child process.
    Request {
        /// The agent of the call.
        agent: String,
        /// The turn.
        turn: u64,
        /// The call.
        call: String,
        /// The requested hosts with their ports, or the requested paths.
        wanted: Vec<String>,
        /// The decision.
        outcome: String,
        /// The source of the decision.
        source: DecisionSource,
    },
    /// A note for readers of the log.
    Note {
        /// The text.
        text: String,
    },
    /// The session ended by itself.
    Ended {
        /// The reason, as one word.
        why: String,
    },
}

impl Record {
    /// Creates a note for readers of the log.
    pub fn note(text: impl Into<String>) -> Record {
        Record::Note { text: text.into() }
    }
}

/// How a session started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionStart {
    /// The version of the program.
    pub version: String,
    /// The working directory.
    pub cwd: PathBuf,
    /// The process id.
    pub pid: u32,
    /// The provider, if the session uses a model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The format of the conversation's items.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wire: String,
    /// The provider's base URL, if it was configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// The command: `run`, `serve`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
}

impl SessionStart {
    /// Creates the start of a session in a directory by this process.
    pub fn in_folder(cwd: impl Into<PathBuf>) -> SessionStart {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        SessionStart { version, cwd: cwd.into(), pid: std::process::id(), ..SessionStart::default() }
    }
}

/// A call that is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// The agent of the call.
    pub agent: String,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The input with which the call runs.
    pub input: Value,
    /// SHA-256 of the input's canonical JSON.
    pub digest: String,
    /// The declared effects, as text.
    pub effects: String,
    /// Whether the call has side effects.
    pub changes: bool,
    /// Whether the call may be run again.
    pub again: bool,
    /// What allowed the call: a rule, the mode, the user.
    pub by: String,
    /// The source of the decision. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DecisionSource>,
    /// The state of the files that the call may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileBefore>,
    /// Where the agent had moved, if it had.
    #[serde(default, skip_serializing_if = "DirectoryChange::is_nowhere")]
    pub moved: DirectoryChange,
}

/// The state of a file before a call that may change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileBefore {
    /// The path.
    pub path: PathBuf,
    /// The size; `None` if the file did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The modification time, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<i64>,
    /// SHA-256 of the content, if the file is small enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The agent of the call.
    pub agent: String,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The kind of the error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The result that the model received. Omitted for calls without side effects, which can be run
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Vec<RecordedBlock>>,
    /// SHA-256 of the concatenated texts and bytes that the model received.
    pub digest: String,
    /// The duration in microseconds.
    pub micros: u64,
    /// Whether another call ran at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// The file with the complete result, if the model received a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
    /// Where the agent had moved after the call, if it had.
    #[serde(default, skip_serializing_if = "DirectoryChange::is_nowhere")]
    pub moved: DirectoryChange,
    /// The size of that file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<u64>,
    /// When the call ended, in microseconds since 1970. The record's own time is that of the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Whether the tool returned a cached result of an earlier call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// A call that was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedRecord {
    /// The agent of the call.
    pub agent: String,
    /// The turn.
    #[serde(default)]
    pub turn: u64,
    /// The call's id.
    pub call: String,
    /// The tool as the call named it.
    pub tool: String,
    /// The input as received.
    pub input: Value,
    /// The kind of the error.
    pub kind: String,
    /// The error message.
    pub why: String,
    /// The source of the decision that refused the call. Calls without a decision and records of
    /// earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DecisionSource>,
    /// Whether the decision was to ask in a session without a user.
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
    /// An image: media type and base64 data.
    Image(String, String),
    /// A document: media type and base64 data.
    Document(String, String),
    /// A JSON value.
    Json(Value),
    /// A link: URI and name.
    Link(String, String),
}

impl RecordedBlock {
    /// Converts the block to the core's type.
    pub fn into_content(self) -> ResultBlock {
        let bytes = |text: &str| STANDARD.decode(text).unwrap_or_default();
        match self {
            RecordedBlock::Text(text) => ResultBlock::text(text),
            RecordedBlock::Image(kind, data) => ResultBlock::image(kind, bytes(&data)),
            RecordedBlock::Document(kind, data) => ResultBlock::document(kind, bytes(&data)),
            RecordedBlock::Json(value) => ResultBlock::Structured(value),
            RecordedBlock::Link(uri, name) => ResultBlock::link(uri, name),
        }
    }
}

/// Returns the serialized name of an error kind.
pub(crate) fn error_kind_name(kind: haft::ErrorKind) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    value.as_str().map_or_else(|| format!("{kind:?}"), str::to_owned)
}
