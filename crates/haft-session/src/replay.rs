//! Recorded calls again, by today's tools and rules, and what differs from then.
//!
//! Three ways, each in a file: [`check_calls`] only decides on them, [`compare_results`] brings recorded results through the
//! pipeline, [`rerun_calls`] makes the calls in a copy of the workspace. All take a [`CallRecording`], whatever kind of file it came
//! from. Hooks of settings are not run in any of them: they are programs with effects of their own, and inputs are recorded
//! as hooks left them.

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

/// The most of an input that is shown, in characters.
const INPUT_CHARS_MAX: usize = 192;
/// The most of a reason that is shown, in characters.
const REASON_CHARS_MAX: usize = 2_000;

/// A call, then and now. Secrets in its texts are redacted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct ReplayedCall {
    /// Its number in the recording, from 1.
    pub n: usize,
    /// The message of the model that it was in, from 1.
    pub turn: usize,
    /// The line of the file, where the file has lines.
    pub line: Option<usize>,
    /// Its id.
    pub id: String,
    /// The sub-agent that made it.
    pub agent: Option<String>,
    /// The tool as it was named then.
    pub name: String,
    /// The tool that answers to that name today.
    pub tool: String,
    /// The beginning of its input.
    pub input: String,
    /// What was recorded: `ran`, `failed`, `no result`, or the kind of a refusal.
    pub recorded: String,
    /// What today says: `allow`, `ask`, `deny`, `unknown tool`, `invalid input`; with results `same` and how they differ.
    pub today: String,
    /// Why.
    pub why: String,
    /// Whether that can't both be.
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

/// Opens a session for recorded calls, and reports what is doubtful about it.
fn open_session(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionParts, SessionError> {
    let session = SessionAssembler::load(options, purpose)?.open()?;
    session.report_warnings();
    Ok(session)
}

/// The engine of a session, without hooks and events, and with a folder of its own for long results.
fn quiet_engine(session: &SessionParts) -> EngineBuilder {
    let engine = session.engine.clone().hooks(haft::hooks::HookSet::new()).events(NoEvents);
    engine.result_store(OffloadStore::temporary())
}

/// Discards events: a report is all that is shown.
struct NoEvents;

impl EventSink for NoEvents {
    fn send(&self, _: Event) {}
}
