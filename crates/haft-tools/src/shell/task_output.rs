//! `TaskOutput`: what runs in the background, and what it prints.
//!
//! A look at a task shows what is new since the last look; where that was, the task's log knows. A position
//! can be given instead, to page through what was printed. It only looks: it runs beside anything, and a task
//! doesn't notice.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::ports::{PortName, TaskId, TaskLog, TaskState, Tasks};
use haft::text::truncate_chars;
use haft::tool::{CallTimeout, Interrupt};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bash::render_result::{held_words, with_tail};

/// Characters of a result that the model sees at once.
pub const RESULT_CHARS: usize = 30_000;
/// Bytes of output that one look shows; the next look goes on behind them.
pub const PAGE_BYTES: usize = 24 * 1024;
/// How long a look that waits does so, unless the call says otherwise.
pub const WAIT: Duration = Duration::from_secs(30);
/// How long it may be told to wait.
pub const WAIT_MAX: Duration = Duration::from_secs(600);
/// How many tasks are listed; the oldest that ended are left out.
const LISTED_MAX: usize = 100;
/// The longest pattern, in bytes, and the largest program that it may become.
pub(crate) const PATTERN_BYTES_MAX: usize = 1_000;
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// Shows what commands and agents in the background do, and how they stand. Without a `task_id` it lists all
/// background tasks.
///
/// With one it shows what is new since you last looked, whether the task still runs, and how it ended. Use it
/// for commands and agents that were started with `run_in_background` or went on there; an agent's answer is
/// shown with its end. To wait for one line or for the end of one use Monitor, to end one use TaskStop.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskOutputInput {
    /// The task, for example `task-1`. Without it all are listed.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Waits until the task ends or prints something, instead of looking just once.
    #[serde(default)]
    pub block: Option<bool>,
    /// How long to wait with `block`, in milliseconds: 30000 unless said, at most 600000.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// Shows from this byte on instead of from the last look; 0 is the beginning.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Shows only the lines that match this regular expression.
    #[serde(default)]
    pub filter: Option<String>,
}

/// The tool `TaskOutput`.
#[derive(Debug, Default)]
pub struct TaskOutput;

impl Tool for TaskOutput {
    type Input = TaskOutputInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskOutput")
            .alias("task_output")
            .alias("BashOutput")
            .group("shell")
            .feature("shell")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(CallTimeout::Never)
            .interrupt(Interrupt::Cancel)
            .needs(PortName::Tasks)
            .search_hint("background task output list running commands")
    }

    fn effects(&self, _: &TaskOutputInput) -> Effects {
        Effects::reads_state("session:background")
    }

    async fn check(&self, input: &TaskOutputInput, cx: &Context) -> Result<(), ToolError> {
        if let Some(filter) = &input.filter {
            parse_pattern("filter", filter)?;
        }
        wait_limit("timeout", input.timeout, WAIT, WAIT_MAX)?;
        match &input.task_id {
            Some(name) => find_task(name, background_tasks(cx)?).map(|_| ()),
            None => Ok(()),
        }
    }

    async fn call(&self, input: TaskOutputInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let tasks = background_tasks(cx)?;
        let Some(name) = &input.task_id else {
            let text = list_tasks(tasks);
            let view = with_tail(CallView::titled("background tasks"), &text);
            return Ok(ToolOutput::from(ResultBlock::text(text)).with_view(view));
        };
        let task = find_task(name, tasks)?.id;
        let filter = input.filter.as_deref().map(|filter| parse_pattern("filter", filter)).transpose()?;
        let log = tasks.log(task);
        if input.block == Some(true) {
            let limit = wait_limit("timeout", input.timeout, WAIT, WAIT_MAX)?;
            wait_for_news(tasks, task, log.as_ref(), input.offset, limit).await;
        }
        // The state first: a task that has ended by then prints nothing more.
        let state = find_task(name, tasks)?;
        let mut parts = Vec::new();
        if let Some(log) = &log {
            parts.push(new_output(log, input.offset, filter.as_ref())?);
        }
        parts.push(describe_state(&state, tasks));
        let text = parts.join("\n");
        let view = with_tail(
            CallView::titled(format!("{task}  $ {}", state.about)).summary(state_summary(&state)),
            &text,
        );
        Ok(ToolOutput::from(ResultBlock::text(text)).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("task_id").unwrap_or("background tasks"));
        Some(view.why(stage))
    }
}

/// The background tasks of the host.
pub(crate) fn background_tasks(cx: &Context) -> Result<&dyn Tasks, ToolError> {
    cx.ports().tasks().ok_or_else(|| ToolError::new("this host has no background tasks"))
}

/// The task of this name.
///
/// # Errors
/// There is none: which there are.
pub(crate) fn find_task(name: &str, tasks: &dyn Tasks) -> Result<TaskState, ToolError> {
    let all = tasks.list();
    let id = TaskId::parse(name.trim());
    if let Some(found) = all.iter().find(|task| Some(task.id) == id) {
        return Ok(found.clone());
    }
    let running: Vec<String> =
        all.iter().filter(|task| task.running).map(|task| task.id.to_string()).take(20).collect();
    let there = match (all.is_empty(), running.is_empty()) {
        (true, _) => "nothing was started in the background".to_owned(),
        (_, true) => "none runs; TaskOutput without a `task_id` lists those that ended".to_owned(),
        _ => format!("these run: {}", running.join(", ")),
    };
    let name = truncate_chars(name, 60);
    Err(ToolError::invalid_input(format!("there is no background task `{name}`; {there}")))
}

/// A regular expression for lines.
pub(crate) fn parse_pattern(field: &str, text: &str) -> Result<Regex, ToolError> {
    let wrong = |why: String| ToolError::invalid_input(format!("`{field}` is no regular expression: {why}"));
    if text.len() > PATTERN_BYTES_MAX {
        return Err(wrong(format!("it has {} bytes and may have {PATTERN_BYTES_MAX}", text.len())));
    }
    let built = regex::RegexBuilder::new(text).size_limit(PROGRAM_BYTES_MAX).build();
    built.map_err(|error| wrong(error.to_string().lines().last().unwrap_or_default().to_owned()))
}

/// How long to wait.
pub(crate) fn wait_limit(
    field: &str,
    given: Option<u64>,
    usual: Duration,
    max: Duration,
) -> Result<Duration, ToolError> {
    match given.map(Duration::from_millis) {
        None => Ok(usual),
        Some(wait) if wait <= max => Ok(wait),
        Some(wait) => Err(ToolError::invalid_input(format!(
            "`{field}` must be at most {} milliseconds, got {}; look again later instead",
            max.as_millis(),
            wait.as_millis()
        ))),
    }
}

/// Waits until there is something to see, the task ends, or the time is over.
async fn wait_for_news(
    tasks: &dyn Tasks,
    task: TaskId,
    log: Option<&Arc<dyn TaskLog>>,
    offset: Option<u64>,
    limit: Duration,
) {
    let printed = async {
        let Some(log) = log else { return std::future::pending().await };
        let from = offset.unwrap_or_else(|| log.last_look());
        loop {
            let size = log.size();
            if size.bytes > from {
                return;
            }
            log.more(size.activity).await;
        }
    };
    let _ = tokio::time::timeout(limit, wait_either(tasks.ended(task), printed)).await;
}

/// Waits for the first of two.
pub(crate) async fn wait_either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}

/// What a task printed since the last look, or from a position on.
fn new_output(
    log: &Arc<dyn TaskLog>,
    offset: Option<u64>,
    filter: Option<&Regex>,
) -> Result<String, ToolError> {
    let size = log.size();
    let from = offset.unwrap_or_else(|| log.last_look());
    let text = log.read(from, PAGE_BYTES).map_err(|error| {
        ToolError::new("what it printed can't be read again: its file is gone or closed to us")
            .with_source(error)
    })?;
    let upto = from + text.len() as u64;
    let mut notes = Vec::new();
    let left = size.held_bytes.saturating_sub(upto);
    if left > 0 {
        notes.push(format!(
            "[bytes {from} to {upto} of {}; {left} more: look again, or give an `offset`]",
            size.bytes
        ));
    }
    let (mut shown, mut next) = (text, upto);
    let (tail, open) = log.tail();
    if left == 0 && size.bytes > size.held_bytes {
        // There was no room for the middle; what is at the end can still be shown.
        notes.push(format!(
            "[only the first {} of {} bytes were kept; this is the end of what was printed]",
            size.held_bytes, size.bytes
        ));
        shown.push_str(&tail);
        next = next.max(size.bytes);
    }
    if left == 0 && !open.is_empty() {
        shown.push_str(&open);
    }
    if offset.is_none() {
        log.looked(next);
    }
    if let Some(filter) = filter {
        let lines: Vec<&str> = shown.lines().filter(|line| filter.is_match(line)).collect();
        shown = lines.join("\n");
    }
    let empty = match (filter.is_some(), offset.is_none() && from > 0) {
        (true, _) => "(no line matches)",
        (_, true) => "(nothing new)",
        _ => "(no output so far)",
    };
    let shown = shown.trim_end_matches('\n');
    let shown = if shown.is_empty() { empty } else { shown };
    if let Some(file) = size.file {
        notes.push(format!("[all of it is in {}]", file.display()));
    }
    Ok(std::iter::once(shown.to_owned()).chain(notes).collect::<Vec<_>>().join("\n"))
}

/// How a task stands, in a line for the model.
pub(crate) fn describe_state(state: &TaskState, tasks: &dyn Tasks) -> String {
    let (id, seconds) = (state.id, state.ran_for.as_secs_f32());
    if state.running {
        return format!("{id} still runs, since {seconds:.1} s: {}", state.about);
    }
    if let Some(words) = describe_held(state, tasks) {
        return format!("{id} was given up after {seconds:.1} s: {words}");
    }
    // What a command printed was shown; of other tasks the answer is what counts.
    let is_command = !state.effects.runs.is_empty() && tasks.log(id).is_some();
    let end = match tasks.result(state.id) {
        Some(result) => match result.outcome() {
            Ok(output) if is_command => ended_well(&output.to_text()),
            Ok(output) => output.to_text(),
            Err(error) if is_command => error.message().lines().last().unwrap_or_default().to_owned(),
            Err(error) => error.message().to_owned(),
        },
        None => "how is not known any more".to_owned(),
    };
    format!("{id} ended after {seconds:.1} s: {end}")
}

/// What of a task could not be ended, in words.
pub(crate) fn describe_held(state: &TaskState, tasks: &dyn Tasks) -> Option<String> {
    tasks.log(state.id).and_then(|log| held_words(&log.held()))
}

/// The line about how it ended, if there is one: `exit code 1: nothing matches`.
fn ended_well(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    if last.starts_with("exit code ") { last.to_owned() } else { "exit code 0".to_owned() }
}

fn state_summary(state: &TaskState) -> &'static str {
    if state.running { "runs" } else { "ended" }
}

/// All tasks, those that run first.
fn list_tasks(tasks: &dyn Tasks) -> String {
    let mut all = tasks.list();
    if all.is_empty() {
        return "nothing was started in the background".to_owned();
    }
    all.sort_by_key(|task| (!task.running, std::cmp::Reverse(task.id)));
    let count = all.len();
    let mut lines: Vec<String> = all.iter().take(LISTED_MAX).map(|task| task_line(task, tasks)).collect();
    if count > LISTED_MAX {
        lines.push(format!("and {} more that were started earlier", count - LISTED_MAX));
    }
    lines.join("\n")
}

fn task_line(task: &TaskState, tasks: &dyn Tasks) -> String {
    let TaskState { id, tool, about, running, ran_for, .. } = task;
    let seconds = ran_for.as_secs_f32();
    let state = match (running, describe_held(task, tasks)) {
        (true, _) => format!("runs since {seconds:.1} s"),
        (false, None) => format!("ended after {seconds:.1} s"),
        (false, Some(words)) => format!("was given up after {seconds:.1} s ({words})"),
    };
    let printed =
        tasks.log(*id).map(|log| format!(", {} bytes printed", log.size().bytes)).unwrap_or_default();
    format!("{id}  {state}{printed}  {tool}: {about}")
}
