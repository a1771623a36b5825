//! `Monitor`: waits for something to happen instead of looking again and again.
//!
//! For a line that a task prints, for its end, or for a file. A command can be given as well; it is judged
//! and run as `Bash` would judge and run it, as a task in the background, and ends with the wait unless it is
//! to stay. Waiting changes nothing, so other calls that only look run beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haft::files::FileErrorKind;
use haft::ports::{PortName, TaskId, Tasks};
use haft::tool::{CallTimeout, Interrupt, ListedClass};
use haft::view::CallStage;
use haft::{
    CallView, Chars, Context, Effects, ErrorKind, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec,
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bash::render_result::{command_title, with_tail};
use crate::bash::{self, BACKGROUND_TIMEOUT_MAX, Bash, command_run};
use crate::task_output::{
    background_tasks, describe_state, find_task, parse_pattern, wait_either, wait_limit,
};
use crate::task_stop::END_WAIT;

/// Characters of a result that the model sees at once.
pub const RESULT_CHARS: usize = 10_000;
/// How long is waited, unless the call says otherwise.
pub const WAIT: Duration = Duration::from_secs(300);
/// How long a call may say.
pub const WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// How often a file is looked at.
pub const FILE_PERIOD: Duration = Duration::from_millis(200);
/// How often watchers are told how long it has been.
const PROGRESS_PERIOD: Duration = Duration::from_secs(5);
/// Bytes of output that are looked through at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The longest line that a pattern is tried on; of a longer one the beginning.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Lines of a task that are shown when the wait is over.
const LINES_SHOWN: usize = 20;

/// Waits until a background task prints a line or ends, or until a file is there or changes.
///
/// Give exactly one of `task_id`, `command` and `file`. With a `pattern` it waits for the first line that
/// matches it, else for the end of the task or command, or for the file. A `command` is run as Bash runs it,
/// and ended when the wait is over unless `persistent` is set. Use it instead of `sleep` in a loop: for a
/// server that gets ready, a build that ends, a file that another program writes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MonitorInput {
    /// What is waited for, in a few words, for the person who watches.
    #[serde(default)]
    pub description: Option<String>,
    /// How long to wait, in milliseconds: 300000 unless said, at most 3600000.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// A background task, for example `task-1`.
    #[serde(default)]
    pub task_id: Option<String>,
    /// A command to start and to wait for.
    #[serde(default)]
    pub command: Option<String>,
    /// A file to wait for.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A regular expression: the wait is over when a line matches it.
    #[serde(default)]
    pub pattern: Option<String>,
    /// What is waited for, if it isn't clear from the rest.
    #[serde(default)]
    pub until: Option<WaitCondition>,
    /// Leaves the command running in the background when the wait is over.
    #[serde(default)]
    pub persistent: Option<bool>,
}

/// What ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitCondition {
    /// A line that matches `pattern`.
    Line,
    /// The end of the task or command.
    Exit,
    /// The file is there.
    Exists,
    /// The file changes, comes or goes.
    Changes,
}

/// The tool `Monitor`.
#[derive(Debug, Clone)]
pub struct Monitor {
    bash: Bash,
}

impl Monitor {
    /// Waits, and runs commands as this does.
    pub fn new(bash: &Bash) -> Monitor {
        Monitor { bash: bash.clone() }
    }
}

/// What is waited for, once the input is understood.
enum MonitorTarget<'a> {
    Task { name: &'a str, line: Option<Regex> },
    Command { command: &'a str, line: Option<Regex> },
    File { file: &'a Path, until: WaitCondition },
}

impl MonitorInput {
    fn wait(&self) -> Result<MonitorTarget<'_>, ToolError> {
        let wrong = |words: &str| Err(ToolError::invalid_input(words));
        let line = self.pattern.as_deref().map(|text| parse_pattern("pattern", text)).transpose()?;
        match (&self.task_id, &self.command, &self.file) {
            (None, None, Some(file)) => match (line.is_some(), self.until) {
                (true, _) | (_, Some(WaitCondition::Line | WaitCondition::Exit)) => wrong(
                    "`file` is waited for until it `exists` or `changes`; for a line of it give a `command`, such as `tail -F`",
                ),
                (false, until) => {
                    Ok(MonitorTarget::File { file, until: until.unwrap_or(WaitCondition::Exists) })
                }
            },
            (Some(_), None, None) | (None, Some(_), None) => {
                match (self.until, line.is_some()) {
                    (Some(WaitCondition::Exists | WaitCondition::Changes), _) => {
                        return wrong(
                            "`until` is `exists` or `changes` for a `file` only; `line` or `exit` is accepted here",
                        );
                    }
                    (Some(WaitCondition::Line), false) => {
                        return wrong("`pattern` is missing: the line to wait for");
                    }
                    (Some(WaitCondition::Exit), true) => {
                        return wrong("`until` is `exit`, and `pattern` waits for a line; leave one out");
                    }
                    _ => {}
                }
                match (&self.task_id, &self.command) {
                    (Some(name), _) => Ok(MonitorTarget::Task { name, line }),
                    (_, Some(command)) => Ok(MonitorTarget::Command { command, line }),
                    _ => wrong("give `task_id`, `command` or `file`"),
                }
            }
            _ => wrong("give exactly one of `task_id`, `command` and `file`"),
        }
    }
}

impl Tool for Monitor {
    type Input = MonitorInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Monitor")
            .alias("monitor")
            .group("shell")
            .feature("shell")
            .listed_class(ListedClass::Depends)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(CallTimeout::Never)
            .interrupt(Interrupt::Cancel)
            .needs(PortName::Tasks)
            .needs(PortName::Processes)
            .search_hint("wait for a line a file or the end of a background task")
    }

    fn effects(&self, input: &MonitorInput) -> Effects {
        let looks = Effects::reads_state("session:background");
        match (&input.command, &input.file) {
            (Some(command), _) => looks.and(self.bash.effects_of(&self.bash.analyse(command))),
            (None, Some(file)) => looks.and(Effects::reads(file)),
            (None, None) => looks,
        }
    }

    async fn check(&self, input: &MonitorInput, cx: &Context) -> Result<(), ToolError> {
        wait_limit("timeout_ms", input.timeout_ms, WAIT, WAIT_MAX)?;
        match input.wait()? {
            MonitorTarget::Task { name, .. } => find_task(name, background_tasks(cx)?).map(|_| ()),
            MonitorTarget::Command { command, .. } => {
                Bash::check_command(command)?;
                self.bash.check_repository(&self.bash.analyse(command), false, cx)
            }
            MonitorTarget::File { .. } => Ok(()),
        }
    }

    fn describe(&self, input: &MonitorInput) -> Option<String> {
        input.description.clone().filter(|words| !words.trim().is_empty())
    }

    async fn call(&self, input: MonitorInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let limit = wait_limit("timeout_ms", input.timeout_ms, WAIT, WAIT_MAX)?;
        let what = input.wait()?;
        match what {
            MonitorTarget::File { file, until } => {
                let words = within_limit(limit, cx, wait_for_file(cx, file, until)).await;
                let shown = file.display();
                match words {
                    Some(words) => Ok(ResultBlock::text(words?).into()),
                    None => Err(too_long(limit, &format!("`{shown}` did not come or change"))),
                }
            }
            MonitorTarget::Task { name, line } => {
                let tasks = background_tasks(cx)?;
                let task = find_task(name, tasks)?.id;
                let found = within_limit(limit, cx, wait_for_task(tasks, task, line.as_ref())).await;
                render_wait(found, task, tasks, limit, line.is_some())
            }
            MonitorTarget::Command { command, line } => {
                let tasks = background_tasks(cx)?;
                let analysis = self.bash.analyse(command);
                let launch = command_run::CommandLaunch {
                    command: command.to_owned(),
                    confinement: self.bash.confinement(&analysis, cx),
                    repository: self.bash.repository_use(&analysis),
                    timeout: BACKGROUND_TIMEOUT_MAX,
                };
                let running = command_run::start_command(launch, cx);
                running.log.to_background();
                cx.background().set_log(running.log.clone());
                let cancel = running.cancel.clone();
                let task = bash::adopt_task(command, running, BACKGROUND_TIMEOUT_MAX, cx)
                    .map_err(|(_, why)| ToolError::new(format!("it was not started: {why}")))?;
                // Cancelled or dropped, the wait takes the command with it.
                let guard = (input.persistent != Some(true)).then(|| EndsWith(cancel));
                let found = within_limit(limit, cx, wait_for_task(tasks, task, line.as_ref())).await;
                let stopped = guard.is_some() && !matches!(found, Some(WaitResult::Ended));
                // Cancelling the call ends the command, and on a busy machine its end is noticed first.
                if guard.is_some()
                    && let Some(cause) = cx.cancel().cause()
                {
                    return Err(ToolError::cancelled(
                        cause,
                        "the wait was cancelled, and its command with it",
                    ));
                }
                drop(guard);
                if stopped {
                    let _ = tokio::time::timeout(END_WAIT, tasks.ended(task)).await;
                }
                let ended = "the command was ended with the wait; set `persistent` to leave it running";
                let with_words = |words: &str| format!("{words}\n{ended}");
                match render_wait(found, task, tasks, limit, line.is_some()) {
                    Ok(output) if stopped => Ok(ResultBlock::text(with_words(&output.to_text())).into()),
                    Err(error) if stopped => {
                        Err(ToolError::with_kind(error.kind(), with_words(error.message())))
                    }
                    result => result,
                }
            }
        }
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let about = match stage.text("command") {
            Some(command) => command_title(command),
            None => stage.text("task_id").or(stage.text("file")).unwrap_or_default().to_owned(),
        };
        let view = CallView::titled(about);
        Some(match stage {
            CallStage::Use { .. } => match stage.text("description") {
                Some(words) => view.summary(words),
                None => view,
            },
            CallStage::Progress { progress, .. } => CallView { summary: progress.message.clone(), ..view },
            CallStage::Result { output, .. } => with_tail(view, &output.to_text()),
            _ => view.why(stage),
        })
    }
}

/// Ends a command when the wait for it is over, however that comes.
struct EndsWith(haft::Cancel);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.cancel(haft::Cause::User);
    }
}

/// Nothing if the time was over. Says now and then how long it has been.
async fn within_limit<T>(limit: Duration, cx: &Context, work: impl Future<Output = T>) -> Option<T> {
    let started = tokio::time::Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        let left = limit.saturating_sub(started.elapsed());
        match tokio::time::timeout(left.min(PROGRESS_PERIOD), &mut work).await {
            Ok(value) => return Some(value),
            Err(_) if started.elapsed() >= limit => return None,
            Err(_) => {
                let share = started.elapsed().as_secs_f64() / limit.as_secs_f64().max(0.001);
                cx.progress(share, format!("waits since {} s", started.elapsed().as_secs()));
            }
        }
    }
}

/// How a wait for a task was over.
enum WaitResult {
    Line(String),
    Ended,
}

/// Waits until a task prints a line that matches, or ends.
async fn wait_for_task(tasks: &dyn Tasks, task: TaskId, line: Option<&Regex>) -> WaitResult {
    let (Some(line), Some(log)) = (line, tasks.log(task)) else {
        tasks.ended(task).await;
        return WaitResult::Ended;
    };
    let mut from = 0;
    loop {
        // Looked at before what was printed: a task that has ended by now prints nothing more.
        let over = !tasks.list().iter().any(|state| state.id == task && state.running);
        let activity = log.size().activity;
        while let Ok(text) = log.read(from, CHUNK_BYTES) {
            // An unfinished line is looked at again when there is more of it, unless it fills all.
            let end = text
                .rfind('\n')
                .map_or(if text.len() < CHUNK_BYTES / 2 { 0 } else { text.len() }, |at| at + 1);
            if let Some(found) = matching_line(&text, line) {
                return WaitResult::Line(found);
            }
            from += end as u64;
            if end == 0 {
                break;
            }
        }
        let (_, open) = log.tail();
        if let Some(found) = matching_line(&open, line) {
            return WaitResult::Line(found);
        }
        if over {
            return WaitResult::Ended;
        }
        wait_either(log.more(activity), tasks.ended(task)).await;
    }
}

fn matching_line(text: &str, line: &Regex) -> Option<String> {
    text.lines()
        .map(|text| haft::text::truncate_bytes(text, LINE_BYTES_MAX))
        .find(|text| line.is_match(text))
        .map(str::to_owned)
}

/// What came of a wait for a task.
fn render_wait(
    found: Option<WaitResult>,
    task: TaskId,
    tasks: &dyn Tasks,
    limit: Duration,
    for_line: bool,
) -> Result<ToolOutput, ToolError> {
    let state = find_task(&task.to_string(), tasks)?;
    let stands = describe_state(&state, tasks);
    let last = last_lines(tasks, task);
    match found {
        Some(WaitResult::Line(line)) => Ok(ResultBlock::text(format!("{line}\n{stands}")).into()),
        Some(WaitResult::Ended) if for_line => {
            Err(ToolError::new(format!("{last}\nno line matched before it ended\n{stands}")))
        }
        Some(WaitResult::Ended) => Ok(ResultBlock::text(format!("{last}\n{stands}")).into()),
        None => Err(too_long(limit, &format!("{last}\n{stands}"))),
    }
}

fn last_lines(tasks: &dyn Tasks, task: TaskId) -> String {
    let Some(log) = tasks.log(task) else { return String::new() };
    let (text, open) = log.tail();
    let text = text + &open;
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    if shown.is_empty() { "(no output)".to_owned() } else { shown }
}

fn too_long(limit: Duration, stands: &str) -> ToolError {
    let seconds = limit.as_secs_f64();
    ToolError::with_kind(
        ErrorKind::TimedOut,
        format!("{stands}\nthe wait was over after {seconds} s; the user did not interrupt"),
    )
}

/// What a file is, as far as a change of it can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp(Option<(u64, Option<SystemTime>)>);

async fn file_stamp(cx: &Context, file: &Path) -> Result<FileStamp, ToolError> {
    match cx.files().metadata(file).await {
        Ok(found) => Ok(FileStamp(Some((found.len, found.modified)))),
        Err(error) if error.kind() == FileErrorKind::NotFound => Ok(FileStamp(None)),
        Err(error) => Err(error.into()),
    }
}

/// Looks again and again: a file system tells of changes in too many ways, and some of them don't.
async fn wait_for_file(cx: &Context, file: &Path, until: WaitCondition) -> Result<String, ToolError> {
    let (shown, before) = (file.display(), file_stamp(cx, file).await?);
    if until == WaitCondition::Exists && before.0.is_some() {
        return Ok(format!("`{shown}` is there already"));
    }
    loop {
        tokio::time::sleep(FILE_PERIOD).await;
        let now = file_stamp(cx, file).await?;
        match (&before.0, &now.0) {
            (None, Some((len, _))) => return Ok(format!("`{shown}` is there now, with {len} bytes")),
            (Some(_), None) => return Ok(format!("`{shown}` is gone")),
            (Some((old, _)), Some((len, _))) if before != now => {
                return Ok(format!("`{shown}` has changed: {len} bytes, {old} before"));
            }
            _ => {}
        }
    }
}
