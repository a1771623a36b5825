//! The answer to one call: immutable, cheap to clone, with a view for each reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::call::ToolCall;
use crate::content::{ResultBlock, ToolOutput};
use crate::error::{ErrorKind, ToolError};
use crate::registry::RegisteredTool;
use crate::results::{
    BudgetedResult, LimitedOutput, OffloadStore, OmittedText, ResultLimit, fit_to_budget, output_bytes,
};
use crate::text::truncate_chars;
use crate::tool::AnyTool;
use crate::view::{CallStage, CallView};

/// The answer to one call.
///
/// There is exactly one for each call, whatever happens. Readers take the view that is theirs:
/// [`for_model`](ToolResult::for_model), [`to_json`](ToolResult::to_json) for programs and hooks,
/// [`view`](ToolResult::view) for the screen, and the accessors for the log.
#[derive(Clone)]
pub struct ToolResult(Arc<ResultParts>);

#[derive(Clone)]
pub(crate) struct ResultParts {
    pub(crate) call_id: Arc<str>,
    pub(crate) tool_name: Arc<str>,
    pub(crate) tool: Option<AnyTool>,
    pub(crate) input: Option<Arc<Value>>,
    pub(crate) outcome: Result<ToolOutput, ToolError>,
    /// Words for the model beside the output: injected by hooks, or by the engine.
    pub(crate) notes: Vec<String>,
    /// A hook ended the turn with this result, for this reason.
    pub(crate) stop: Option<Arc<str>>,
    pub(crate) duration: Duration,
    pub(crate) was_concurrent: bool,
    pub(crate) offloaded_to: Option<PathBuf>,
    pub(crate) cut: Option<OmittedText>,
    pub(crate) limit: ResultLimit,
}

impl ToolResult {
    pub(crate) fn from_parts(parts: ResultParts) -> ToolResult {
        ToolResult(Arc::new(parts))
    }

    /// The result of a call that was never given to an engine, because something was wrong with it: for hosts
    /// that tell of all calls of a message.
    pub fn not_taken(call: &ToolCall, error: ToolError) -> ToolResult {
        ToolResult::refused(call.id.clone(), call.name.clone(), error)
    }

    /// The result of a call that an earlier process ran, as it was kept.
    pub fn kept(
        call_id: impl Into<Arc<str>>,
        tool_name: impl Into<Arc<str>>,
        outcome: Result<ToolOutput, ToolError>,
    ) -> ToolResult {
        ToolResult::refused(call_id.into(), tool_name.into(), ToolError::new(""))
            .with(|parts| parts.outcome = outcome)
    }

    /// A result of a call that never ran.
    pub(crate) fn refused(call_id: Arc<str>, tool_name: Arc<str>, error: ToolError) -> ToolResult {
        ToolResult::from_parts(ResultParts {
            call_id,
            tool_name,
            tool: None,
            input: None,
            outcome: Err(error),
            notes: Vec::new(),
            stop: None,
            duration: Duration::ZERO,
            was_concurrent: false,
            offloaded_to: None,
            cut: None,
            limit: ResultLimit::default(),
        })
    }

    /// A result that is given in place of the call's own.
    pub(crate) fn answered(
        call_id: Arc<str>,
        entry: &RegisteredTool,
        input: Arc<Value>,
        output: ToolOutput,
    ) -> ToolResult {
        ToolResult::refused(call_id, entry.name().clone(), ToolError::new("")).with(|parts| {
            parts.tool = Some(entry.tool().clone());
            parts.input = Some(input);
            parts.outcome = Ok(output);
        })
    }

    /// The same result with something changed.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut ResultParts)) -> ToolResult {
        change(Arc::make_mut(&mut self.0));
        self
    }

    pub(crate) fn parts(&self) -> &ResultParts {
        &self.0
    }

    /// The id of the call.
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// The tool that was called: its own name where the call used an alias, what the call said where there is
    /// none.
    pub fn tool_name(&self) -> &str {
        &self.0.tool_name
    }

    /// The input as it ran, where the call got that far.
    pub fn input(&self) -> Option<&Value> {
        self.0.input.as_deref()
    }

    /// What came back, within limits, or why nothing did.
    pub fn outcome(&self) -> Result<&ToolOutput, &ToolError> {
        self.0.outcome.as_ref()
    }

    /// The error, if it is one.
    pub fn error(&self) -> Option<&ToolError> {
        self.0.outcome.as_ref().err()
    }

    /// The text of the output, or the message of the error.
    pub fn text(&self) -> String {
        match self.outcome() {
            Ok(output) => output.to_text(),
            Err(error) => error.message().to_owned(),
        }
    }

    /// The kind of the error, if it is one.
    pub fn error_kind(&self) -> Option<ErrorKind> {
        self.error().map(ToolError::kind)
    }

    /// Whether the call failed.
    pub fn is_error(&self) -> bool {
        self.0.outcome.is_err()
    }

    /// How long the tool ran; zero if it didn't.
    pub fn duration(&self) -> Duration {
        self.0.duration
    }

    /// Whether another call of the turn ran at the same time.
    pub fn was_concurrent(&self) -> bool {
        self.0.was_concurrent
    }

    /// Whether the tool gave what it had kept from an earlier call.
    pub fn is_cached(&self) -> bool {
        self.0.outcome.as_ref().is_ok_and(ToolOutput::is_cached)
    }

    /// Where the whole output is kept, if the model got only a part.
    pub fn offloaded_to(&self) -> Option<&Path> {
        self.0.offloaded_to.as_deref()
    }

    /// Words for the model beside the output.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Whether the turn ends with this result: the user said a bare no, or a hook stopped it. The model
    /// should not be asked again before the user said something.
    pub fn ends_turn(&self) -> bool {
        self.0.stop.is_some() || self.error().is_some_and(ToolError::ends_turn)
    }

    /// Why a hook ended the turn, if one did.
    pub fn stop_reason(&self) -> Option<&str> {
        self.0.stop.as_deref()
    }

    /// What the model gets: the output or the words of the error, then the notes.
    pub fn for_model(&self) -> Vec<ResultBlock> {
        let mut blocks = match &self.0.outcome {
            Ok(output) => output.blocks().to_vec(),
            Err(error) => vec![ResultBlock::text(error.message())],
        };
        blocks.extend(self.0.notes.iter().map(|note| ResultBlock::text(note.as_str())));
        blocks
    }

    /// What a program gets.
    pub fn to_json(&self) -> ResultJson {
        let parts = &self.0;
        ResultJson {
            tool_name: parts.tool_name.to_string(),
            output: parts.outcome.as_ref().map_or(Value::Null, ToolOutput::to_json),
            error: self.error().map(|error| ErrorJson {
                kind: error.kind(),
                message: error.message().to_owned(),
                retryable: error.is_retryable(),
            }),
            is_error: self.is_error(),
            duration_ms: parts.duration.as_secs_f64() * 1000.0,
            was_concurrent: parts.was_concurrent,
            offloaded_to: parts.offloaded_to.as_ref().map(|path| path.display().to_string()),
            notes: parts.notes.clone(),
        }
    }

    /// What a person sees.
    pub fn view(&self) -> CallView {
        let none = Value::Null;
        let input = self.input().unwrap_or(&none);
        let stage = match &self.0.outcome {
            Ok(output) => CallStage::Result { input, output },
            Err(error) if matches!(error.kind(), ErrorKind::Rejected | ErrorKind::Denied) => {
                CallStage::Rejected { input, reason: error.message() }
            }
            Err(error) => CallStage::Error { input, error },
        };
        match &self.0.tool {
            Some(tool) => tool.view(&stage),
            None => CallView::default_for(self.tool_name(), &stage).harmless(),
        }
    }
}

impl std::fmt::Debug for ToolResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ToolResult");
        shown.field("call_id", &self.0.call_id).field("tool_name", &self.0.tool_name);
        shown.field("outcome", &self.0.outcome).finish_non_exhaustive()
    }
}

/// A result as JSON: the form that `haft call --output json` prints and that hooks read.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ResultJson {
    /// The tool that was called.
    pub tool_name: String,
    /// A string for text, the value for a structured result, an array of content blocks otherwise; null on
    /// error.
    pub output: Value,
    /// Why the call failed; null if it did not.
    pub error: Option<ErrorJson>,
    /// Whether the call failed.
    pub is_error: bool,
    /// How long the tool ran.
    pub duration_ms: f64,
    /// Whether another call of the turn ran at the same time.
    pub was_concurrent: bool,
    /// Where the whole output is kept, if only a part is shown.
    pub offloaded_to: Option<String>,
    /// Words for the model beside the output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An error as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ErrorJson {
    /// The kind, for code.
    #[schemars(with = "String")]
    pub kind: ErrorKind,
    /// The words for the model.
    pub message: String,
    /// Whether trying the same call again can help.
    pub retryable: bool,
}

/// Brings the notes of all results within `most` characters together, the same for each; returns what they
/// have.
fn bound_notes(results: &mut [ToolResult], most: usize) -> usize {
    let chars = |result: &ToolResult| result.notes().iter().map(|note| note.chars().count()).sum::<usize>();
    let all: usize = results.iter().map(chars).sum();
    if all <= most {
        return all;
    }
    let each = most / results.len().max(1);
    for result in results.iter_mut().filter(|result| chars(result) > each) {
        *result = result.clone().with(|parts| {
            let notes = parts.notes.join("\n");
            let mut all = truncate_chars(&notes, each.saturating_sub(NOTE_CUT.len())).to_owned();
            all.push_str(NOTE_CUT);
            parts.notes = if each > NOTE_CUT.len() { vec![all] } else { Vec::new() };
        });
    }
    results.iter().map(chars).sum()
}

/// How a note ends that was cut to fit the turn.
const NOTE_CUT: &str = " (cut)";

/// Whether a tool can be asked for the part that follows: it takes an `offset`, as a page advises.
fn tool_pages(parts: &ResultParts) -> bool {
    let schema = parts.tool.as_ref().map(AnyTool::input_schema);
    schema.is_some_and(|schema| schema.pointer("/properties/offset").is_some())
}

/// The turn's budget over all its results.
pub(crate) fn within_budget(
    mut results: Vec<ToolResult>,
    budget: usize,
    store: &OffloadStore,
) -> Vec<ToolResult> {
    let size = |result: &ToolResult| {
        let parts = result.parts();
        let notes: usize = parts.notes.iter().map(String::len).sum();
        notes + parts.outcome.as_ref().map_or_else(|error| error.message().len(), output_bytes)
    };
    if results.iter().map(size).sum::<usize>() <= budget {
        return results;
    }
    let budget = budget - bound_notes(&mut results, budget / 4);
    let settled = |result: &ToolResult| {
        let ResultParts { outcome, offloaded_to, cut, .. } = result.parts().clone();
        match outcome {
            Ok(output) => LimitedOutput { output, offloaded_to, cut },
            Err(error) => LimitedOutput::whole(ToolOutput::new(vec![ResultBlock::text(error.message())])),
        }
    };
    let mut all: Vec<LimitedOutput> = results.iter().map(settled).collect();
    let parts = results.iter().map(ToolResult::parts);
    let mut fits: Vec<BudgetedResult<'_>> = all
        .iter_mut()
        .zip(parts)
        .map(|(settled, parts)| {
            BudgetedResult::new(&parts.tool_name, settled, parts.limit).pages(tool_pages(parts))
        })
        .collect();
    fit_to_budget(&mut fits, budget, store);
    let changed: Vec<bool> = fits.iter().map(|fit| fit.changed).collect();
    for ((result, settled), _) in results.iter_mut().zip(all).zip(changed).filter(|(_, changed)| *changed) {
        *result = result.clone().with(|parts| match &mut parts.outcome {
            Ok(output) => {
                *output = settled.output;
                parts.offloaded_to = settled.offloaded_to;
                parts.cut = settled.cut;
            }
            Err(error) => *error = error.clone().saying(settled.output.to_text()),
        });
    }
    results
}
