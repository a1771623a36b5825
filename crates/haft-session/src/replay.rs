//! Replays recorded calls with the current tools and rules, and reports the differences.
//!
//! There are three ways, each in its own file: [`check_calls`] only decides the calls, [`compare_results`]
//! sends recorded results through the pipeline, [`rerun_calls`] makes the calls in a copy of the workspace.
//! All take a [`CallRecording`] from any kind of file. None of them runs the hooks of settings: hooks are
//! programs with side effects, and recorded inputs already contain their rewrites.

mod check_only;
mod compare;
mod current_decision;
mod output_schemas;
mod recorded_results;
mod recording;
mod rerun;
mod workspace_copy;

use haft::EngineBuilder;
use haft::event::{Event, EventSink};
use haft::redact::{redact_json, redact_text};
use haft::results::OffloadStore;
use haft::text::truncate_with_ellipsis;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::check_only::check_calls;
pub use self::recorded_results::compare_results;
pub use self::recording::CallRecording;
use self::recording::RecordedCall;
pub use self::rerun::{RerunError, RerunWatcher, rerun_calls};
use crate::assembly::{SessionAssembler, SessionParts};
use crate::{SessionError, SessionOptions, SessionPurpose};

/// The maximum number of characters shown of an input.
const INPUT_CHARS_MAX: usize = 192;
/// The maximum number of characters shown of a reason.
const REASON_CHARS_MAX: usize = 2_000;

/// A replayed call with its recorded and its current outcome. Secrets in its texts are redacted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct ReplayedCall {
    /// Its number in the recording, counted from 1.
    pub n: usize,
    /// The number of its model message, counted from 1.
    pub turn: usize,
    /// The line in the file, if the file has lines.
    pub line: Option<usize>,
    /// The id of the call.
    pub id: String,
    /// The sub-agent that made it.
    pub agent: Option<String>,
    /// The tool name in the recording.
    pub name: String,
    /// The tool that currently has that name.
    pub tool: String,
    /// The beginning of its input.
    pub input: String,
    /// The recorded outcome: `ran`, `failed`, `no result`, or the kind of a refusal.
    pub recorded: String,
    /// The current outcome: `allow`, `ask`, `deny`, `unknown tool`, `invalid input`; with results `same`
    /// and how they differ.
    pub today: String,
    /// The reason.
    pub why: String,
    /// Whether the outcomes contradict each other.
    pub differs: bool,
}

impl ReplayedCall {
    fn new(
        at: usize,
        recorded: &RecordedCall,
        tool: String,
        today: &str,
        why: String,
        differs: bool,
    ) -> ReplayedCall {
        let input = recorded.input.as_deref().unwrap_or_default();
        ReplayedCall {
            n: at + 1,
            turn: recorded.turn,
            line: recorded.line,
            id: recorded.id.clone(),
            agent: recorded.agent.clone(),
            name: recorded.name.clone(),
            tool,
            input: truncate_with_ellipsis(&redact_json(input), INPUT_CHARS_MAX),
            recorded: recorded.outcome.name(),
            today: today.to_owned(),
            why: truncate_with_ellipsis(&redact_text(&why), REASON_CHARS_MAX),
            differs,
        }
    }
}

/// Opens a session for recorded calls, and reports its warnings.
fn open_session(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionParts, SessionError> {
    let session = SessionAssembler::load(options, purpose)?.open()?;
    session.report_warnings();
    Ok(session)
}

/// Returns the engine of a session, without hooks and events, and with its own folder for long results.
fn quiet_engine(session: &SessionParts) -> EngineBuilder {
    let engine = session.engine.clone().hooks(haft::hooks::HookSet::new()).events(NoEvents);
    engine.result_store(OffloadStore::temporary())
}

/// Discards events: only the report is shown.
struct NoEvents;

impl EventSink for NoEvents {
    fn send(&self, _: Event) {}
}
