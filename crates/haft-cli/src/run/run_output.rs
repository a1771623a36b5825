//! Who is shown what happens in a run: lines for people, one JSON object at the end, or one for each event.
//!
//! This is the seam between a run and its readers. A run knows [`RunOutput`] alone: it is told who runs, gets
//! a sink for events, and hands the outcome over. Standard output carries results only: the answer's text, or
//! JSON.

mod plain;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_agent::{RunEnd, RunEvent, RunHandle, RunOutcome, RunSink};
use serde_json::{Value, json};

use self::plain::PlainOutput;
use self::stream::EventStream;
use super::args::RunForm;
use crate::ExitStatus;
use crate::output::{self, OutputReader};

/// A run, as its first event tells of it.
pub(super) struct RunFacts {
    pub(super) session: String,
    pub(super) cwd: PathBuf,
    pub(super) provider: &'static str,
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) tools: Vec<String>,
}

/// How a run is shown.
pub(super) enum RunOutput {
    /// Lines on standard error while it runs, the answer on standard output.
    Plain(Arc<PlainOutput>),
    /// One object on standard output, at the end.
    Json,
    /// One object a line on standard output, as things happen.
    Stream(Arc<EventStream>),
}

impl RunOutput {
    /// The way that flags ask for. A reader who goes away in the middle of a stream ends the run.
    pub(super) fn pick(form: RunForm, cwd: &Path, handle: &RunHandle) -> RunOutput {
        match form {
            RunForm::Text => RunOutput::Plain(Arc::new(PlainOutput::new(cwd))),
            RunForm::Json => RunOutput::Json,
            RunForm::StreamJson => RunOutput::Stream(Arc::new(EventStream::start(handle.clone()))),
        }
    }

    /// Says who runs.
    pub(super) fn begin(&self, facts: &RunFacts) {
        if let RunOutput::Stream(stream) = self {
            stream.line(json!({
                "type": "session", "session_id": facts.session, "cwd": facts.cwd.display().to_string(),
                "provider": facts.provider, "model": facts.model, "permission_mode": facts.mode,
                "tools": facts.tools,
            }));
        }
    }

    /// Where events go.
    pub(super) fn sink(&self) -> Arc<dyn RunSink> {
        match self {
            RunOutput::Plain(plain) => plain.clone(),
            RunOutput::Json => Arc::new(|event: RunEvent| plain::print_notice(&event)),
            RunOutput::Stream(stream) => stream.clone(),
        }
    }

    /// Shows what came of it, and says on standard error why it ended, where the model didn't end it.
    ///
    /// An answer may have many megabytes, so it is handed on and not copied.
    pub(super) fn end(&self, outcome: RunOutcome) -> Result<(), ExitStatus> {
        let ended = outcome.ended.clone();
        let shown = match self {
            RunOutput::Plain(plain) => plain.end(&outcome),
            RunOutput::Json => output::write_result(&json_line(outcome.into_json()), OutputReader::Whole),
            RunOutput::Stream(stream) => {
                let mut last = outcome.into_json();
                last["type"] = "result".into();
                stream.end(last)
            }
        };
        if !matches!(ended, RunEnd::Finished) {
            output::print_line(&format!("haft: {}", output::one_line(&ended.to_string())));
        }
        shown
    }
}

/// A value as a line. The value is gone by the time that the line is used.
fn json_line(value: Value) -> String {
    value.to_string()
}
