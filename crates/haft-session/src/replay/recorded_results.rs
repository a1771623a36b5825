//! Sends the calls through the pipeline, with recorded results in place of running the tools.
//!
//! So the current names, schemas, rules, order, result limits and turn budget are applied to recorded
//! results. A tool's own input check is skipped, since it depends on the current files. Hooks are not run.
//! Prompts are answered as recorded. Long results go to a temporary folder, which is removed afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft::registry::ToolOrigin;
use haft::tool::AnyTool;
use haft::{EngineBuilder, Registry, ResultBlock, ToolCall, ToolError, ToolOutput, ToolResult};
use haft_policy::conventions;

use super::check_only::CallChecker;
use super::output_schemas::OutputSchemas;
use super::recording::{CallRecording, RecordedCall, RecordedOutcome};
use super::{ReplayedCall, open_session, quiet_engine};
use crate::{SessionError, SessionOptions, SessionPurpose};

/// Sends recorded results through the current pipeline and compares what the model would receive.
///
/// # Errors
/// Returns an error if the session can't be opened.
pub async fn compare_results(
    recording: &CallRecording,
    options: &SessionOptions,
) -> Result<Vec<ReplayedCall>, SessionError> {
    let session = open_session(options, SessionPurpose::Inspect)?;
    let checker = CallChecker::new(&session);
    let schemas = OutputSchemas::new(&session.engine, recording);
    let results: Arc<Vec<RecordedResult>> =
        Arc::new(recording.calls.iter().map(RecordedResult::new).collect());
    let registry = tools_with_recorded_results(&session.engine, recording, &results)
        .map_err(|error| SessionError::tools(error.to_string()))?;
    let engine = quiet_engine(&session).asker(RecordedApprovals::new(recording)).build();
    engine.refresh_with(registry);
    let mut replayed = Vec::with_capacity(recording.calls.len());
    for calls in group_by_turn(&recording.calls) {
        let made: Vec<ToolCall> = calls
            .iter()
            .filter_map(|(at, recorded)| Some(to_tool_call(*at, recorded, recorded.input.clone()?)))
            .collect();
        let mut results = engine.turn().run(made).await.into_iter();
        let is_last = calls.last().is_some_and(|(at, _)| at + 1 == recording.calls.len());
        let is_swapped = is_out_of_order(&calls);
        for (at, recorded) in &calls {
            let result = recorded.input.is_some().then(|| results.next()).flatten();
            let checked = checker.check(*at, recorded).await;
            replayed.push(match result {
                None => checked,
                Some(result) => {
                    compare_result((*at, recorded, checked), &schemas, &result, is_last, is_swapped)
                }
            });
        }
    }
    replayed.sort_by_key(|call| call.n);
    Ok(replayed)
}

/// Groups calls by the model message that contains them, in order, with their indexes.
pub(super) fn group_by_turn(calls: &[RecordedCall]) -> Vec<Vec<(usize, &RecordedCall)>> {
    let mut turns: Vec<Vec<(usize, &RecordedCall)>> = Vec::new();
    let mut open: BTreeMap<Option<&str>, (usize, usize)> = BTreeMap::new();
    for (at, recorded) in calls.iter().enumerate() {
        match open.get(&recorded.agent.as_deref()) {
            Some((turn, place)) if *turn == recorded.turn => turns[*place].push((at, recorded)),
            _ => {
                open.insert(recorded.agent.as_deref(), (recorded.turn, turns.len()));
                turns.push(vec![(at, recorded)]);
            }
        }
    }
    turns
}

/// Returns a call with a unique id.
pub(super) fn to_tool_call(at: usize, recorded: &RecordedCall, input: String) -> ToolCall {
    ToolCall::new(format!("r{at}"), recorded.name.as_str(), input)
}

fn place_of(id: &str) -> Option<usize> {
    id.strip_prefix('r')?.parse().ok()
}

/// The recorded result of a call.
#[derive(Clone)]
struct RecordedResult {
    text: String,
    outcome: RecordedOutcome,
}

impl RecordedResult {
    fn new(recorded: &RecordedCall) -> RecordedResult {
        RecordedResult { text: recorded.text.clone().unwrap_or_default(), outcome: recorded.outcome.clone() }
    }

    fn output(&self) -> Result<ToolOutput, ToolError> {
        match self.outcome {
            RecordedOutcome::Failed => Err(ToolError::new(self.text.as_str())),
            _ => Ok(ToolOutput::from(ResultBlock::text(self.text.as_str()))),
        }
    }
}

/// Returns the current tools, each with recorded answers, and the conventional ones.
fn tools_with_recorded_results(
    engine: &EngineBuilder,
    recording: &CallRecording,
    results: &Arc<Vec<RecordedResult>>,
) -> Result<Registry, haft::registry::RegistryError> {
    let answered = |tool: &AnyTool| {
        let results = results.clone();
        tool.answered_by(move |cx| match place_of(cx.call().id()).and_then(|at| results.get(at)) {
            Some(result) => result.output(),
            None => Err(ToolError::new("nothing was recorded of this call")),
        })
    };
    let mut of: BTreeMap<Option<Arc<str>>, Vec<AnyTool>> = BTreeMap::new();
    for entry in engine.registry().entries() {
        let source = match entry.origin() {
            ToolOrigin::BuiltIn => None,
            other => other.source().map(Arc::from),
        };
        of.entry(source).or_default().push(answered(entry.tool()));
    }
    let snapshot = engine.snapshot();
    let mut names: Vec<&str> = recording.calls.iter().map(|recorded| recorded.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        if let (Err(haft::registry::ToolNotFound::Unknown(_)), Some(tool)) =
            (snapshot.find(name), conventions::find_tool(name))
        {
            let server = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
            of.entry(server.map(|(server, _)| Arc::from(server))).or_default().push(answered(&tool));
        }
    }
    let mut registry = Registry::new();
    for (source, tools) in of {
        registry = match source {
            None => registry.with(tools)?,
            Some(source) => registry.with_external(source, tools)?,
        };
    }
    Ok(registry)
}

/// Returns whether results of a turn arrived in another order than their calls.
fn is_out_of_order(calls: &[(usize, &RecordedCall)]) -> bool {
    let places: Vec<usize> = calls.iter().filter_map(|(_, recorded)| recorded.place).collect();
    !places.is_sorted()
}

/// Returns the difference in the result of one call.
fn compare_result(
    (at, recorded, checked): (usize, &RecordedCall, ReplayedCall),
    schemas: &OutputSchemas,
    result: &ToolResult,
    is_last: bool,
    is_swapped: bool,
) -> ReplayedCall {
    // A call that never produced a result has the outcome of the check.
    if checked.differs || result.error().is_some_and(|error| !error.kind().began()) {
        return checked;
    }
    let tool = result.tool_name().to_owned();
    let row = |today: &str, why: String, differs| {
        ReplayedCall::new(at, recorded, tool.clone(), today, why, differs)
    };
    let Some(text) = &recorded.text else {
        // The model's last calls may have no results yet.
        let why = "the recording has no result of it".to_owned();
        return row("no result", why, !is_last && recorded.outcome == RecordedOutcome::Unknown);
    };
    let now = result_text(result);
    if now != *text {
        let (then, now) = (text.chars().count(), now.chars().count());
        let why = match result.offloaded_to() {
            Some(_) => format!(
                "{then} characters are too many today: {now} would be shown, and the whole kept in a file"
            ),
            None => format!("the model would get {now} characters and not {then}"),
        };
        return row("cut", why, true);
    }
    if let Some(why) = schemas.violation(recorded) {
        return row("other form", why, true);
    }
    if is_swapped {
        let why = "results of this turn came in another order than its calls; today they come in the order of the calls";
        return row("order", why.to_owned(), true);
    }
    row("same", String::new(), false)
}

/// Returns the text that the model receives.
pub(super) fn result_text(result: &ToolResult) -> String {
    match result.outcome() {
        Ok(output) => output.to_text(),
        Err(error) => error.message().to_owned(),
    }
}

/// Approves the calls that ran in the recording, and no others.
pub(super) struct RecordedApprovals(Vec<bool>);

impl RecordedApprovals {
    pub(super) fn new(recording: &CallRecording) -> RecordedApprovals {
        let ran = |recorded: &RecordedCall| !matches!(recorded.outcome, RecordedOutcome::Refused(_));
        RecordedApprovals(recording.calls.iter().map(ran).collect())
    }
}

impl Asker for RecordedApprovals {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let ran = place_of(&approval.call_id).and_then(|at| self.0.get(at)).copied().unwrap_or(false);
        let answer = if ran {
            ApprovalAnswer::Once
        } else {
            ApprovalAnswer::NoBecause("it was refused then".to_owned())
        };
        Box::pin(std::future::ready(answer))
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }
}
