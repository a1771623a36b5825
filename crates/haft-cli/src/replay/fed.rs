//! `--results recorded`: the calls go through the pipeline, and where a tool would run it gives what was recorded.
//!
//! So today's names, schemas, rules, order, result limits and turn budget are met by yesterday's results. A tool's sense check
//! isn't asked, since it is about files as they are now; hooks are not run; whoever would be asked answers as was recorded.
//! Results that are too long go to a temporary folder, which is gone afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft::ports::{Answer, Approval, Asker, UserQuestion};
use haft::{
    AnyTool, BoxFuture, Content, EngineBuilder, Event, EventSink, OffloadStore, Origin, Output, Registry,
    ToolCall, ToolError, ToolResult,
};
use haft_policy::conventions;

use super::dry::Judge;
use super::forms::Forms;
use super::recording::{Outcome, Past, Recording};
use super::report::Row;
use crate::args::Common;
use crate::session;
use crate::{Usage, turn};

pub(super) fn rows(recording: &Recording, common: &Common) -> Result<Vec<Row>, Usage> {
    let session = session::open(&common.options(), session::SessionPurpose::Inspect)?;
    let judge = Judge::of(&session)?;
    let forms = Forms::of(&session.engine, recording);
    let known: Arc<Vec<Known>> = Arc::new(recording.calls.iter().map(Known::of).collect());
    let registry = stand_ins(&session.engine, recording, &known).map_err(|error| Usage(error.to_string()))?;
    let engine = session
        .engine
        .clone()
        .hooks(haft::Hooks::new())
        .events(Silent)
        .result_store(OffloadStore::temporary())
        .asker(AsRecorded(known))
        .build();
    engine.refresh_with(registry);
    let runtime = turn::runtime(1)?;
    let mut rows = Vec::with_capacity(recording.calls.len());
    for calls in turns(&recording.calls) {
        let made: Vec<ToolCall> =
            calls.iter().filter_map(|(at, past)| Some(call(*at, past, past.input.clone()?))).collect();
        let results = runtime.block_on(async { engine.turn().run(made).await });
        let mut results = results.into_iter();
        let last = calls.last().is_some_and(|(at, _)| at + 1 == recording.calls.len());
        let swapped = out_of_order(&calls);
        for (at, past) in &calls {
            let result = past.input.is_some().then(|| results.next()).flatten();
            rows.push(match result {
                None => judge.row(*at, past),
                Some(result) => row((&judge, &forms), *at, past, &result, last, swapped),
            });
        }
    }
    runtime.shutdown_background();
    rows.sort_by_key(|row| row.n);
    Ok(rows)
}

/// Calls of one message of the model, in order, with their places.
pub(super) fn turns(calls: &[Past]) -> Vec<Vec<(usize, &Past)>> {
    let mut turns: Vec<Vec<(usize, &Past)>> = Vec::new();
    let mut open: BTreeMap<Option<&str>, (usize, usize)> = BTreeMap::new();
    for (at, past) in calls.iter().enumerate() {
        match open.get(&past.agent.as_deref()) {
            Some((turn, place)) if *turn == past.turn => turns[*place].push((at, past)),
            _ => {
                open.insert(past.agent.as_deref(), (past.turn, turns.len()));
                turns.push(vec![(at, past)]);
            }
        }
    }
    turns
}

/// A call by an id that no other has.
pub(super) fn call(at: usize, past: &Past, input: String) -> ToolCall {
    ToolCall::new(format!("r{at}"), past.name.as_str(), input)
}

fn place_of(id: &str) -> Option<usize> {
    id.strip_prefix('r')?.parse().ok()
}

/// What is known of a call's end.
#[derive(Clone)]
pub(super) struct Known {
    text: String,
    outcome: Outcome,
}

impl Known {
    pub(super) fn of(past: &Past) -> Known {
        Known { text: past.text.clone().unwrap_or_default(), outcome: past.outcome.clone() }
    }

    fn given(&self) -> Result<Output, ToolError> {
        match self.outcome {
            Outcome::Failed => Err(ToolError::new(self.text.as_str())),
            _ => Ok(Output::from(Content::text(self.text.as_str()))),
        }
    }
}

/// Today's tools, each with recorded answers, and those that only the conventions know.
fn stand_ins(
    engine: &EngineBuilder,
    recording: &Recording,
    known: &Arc<Vec<Known>>,
) -> Result<Registry, haft::RegistryError> {
    let answered = |tool: &AnyTool| {
        let known = known.clone();
        tool.answered_by(move |cx| match place_of(cx.call().id()).and_then(|at| known.get(at)) {
            Some(known) => known.given(),
            None => Err(ToolError::new("nothing was recorded of this call")),
        })
    };
    let mut of: BTreeMap<Option<Arc<str>>, Vec<AnyTool>> = BTreeMap::new();
    for entry in engine.registry().entries() {
        let source = match entry.origin() {
            Origin::BuiltIn => None,
            other => other.source().map(Arc::from),
        };
        of.entry(source).or_default().push(answered(entry.tool()));
    }
    let snapshot = engine.snapshot();
    let mut names: Vec<&str> = recording.calls.iter().map(|past| past.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        if let (Err(haft::NotFound::Unknown(_)), Some(tool)) = (snapshot.find(name), conventions::tool(name))
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

/// Whether results of a turn came in another order than their calls.
fn out_of_order(calls: &[(usize, &Past)]) -> bool {
    let places: Vec<usize> = calls.iter().filter_map(|(_, past)| past.place).collect();
    !places.is_sorted()
}

fn row(
    (judge, forms): (&Judge, &Forms),
    at: usize,
    past: &Past,
    result: &ToolResult,
    last: bool,
    swapped: bool,
) -> Row {
    let judged = judge.row(at, past);
    // What never got as far as its result is what looking at it says.
    if judged.differs || result.error().is_some_and(|error| !error.kind().began()) {
        return judged;
    }
    let tool = result.tool_name().to_owned();
    let row = |today: &str, why: String, differs| Row::of(at, past, tool.clone(), today, why, differs);
    let Some(text) = &past.text else {
        // The model's last calls may wait for their results.
        let why = "the recording has no result of it".to_owned();
        return row("no result", why, !last && past.outcome == Outcome::Unknown);
    };
    let now = shown(result);
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
    if let Some(why) = forms.fault(past) {
        return row("other form", why, true);
    }
    if swapped {
        let why = "results of this turn came in another order than its calls; today they come in the order of the calls";
        return row("order", why.to_owned(), true);
    }
    row("same", String::new(), false)
}

/// The text that the model gets.
pub(super) fn shown(result: &ToolResult) -> String {
    match result.outcome() {
        Ok(output) => output.to_text(),
        Err(error) => error.message().to_owned(),
    }
}

/// Answers as the user did.
struct AsRecorded(Arc<Vec<Known>>);

impl Asker for AsRecorded {
    fn approve<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let known = place_of(&approval.call_id).and_then(|at| self.0.get(at));
        let answer = match known.map(|known| &known.outcome) {
            Some(Outcome::Refused(_)) | None => Answer::NoBecause("it was refused then".to_owned()),
            Some(_) => Answer::Once,
        };
        Box::pin(std::future::ready(answer))
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Nobody watches.
pub(super) struct Silent;

impl EventSink for Silent {
    fn send(&self, _: Event) {}
}
