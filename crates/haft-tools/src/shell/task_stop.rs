//! `TaskStop`: ends a background task, and says how it ended.
//!
//! The task is asked to end and killed if it doesn't; how is the business of whoever runs it. A task was
//! started by a call that was allowed, so ending it asks nobody.

use std::time::Duration;

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::ports::{PortName, TaskId};
use haft::tool::CallTimeout;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::task_output::{background_tasks, describe_held, describe_state, find_task};

/// Characters of a result that the model sees.
pub const RESULT_CHARS: usize = 2_000;
/// How long a task that was told to end is waited for.
pub const END_WAIT: Duration = Duration::from_secs(10);

/// Ends a background task: a command or an agent that was started with `run_in_background` or went on there.
///
/// What it printed stays readable with TaskOutput. It is asked to end first, and killed if it does not, with
/// everything that it started.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskStopInput {
    /// The task, for example `task-1`.
    #[serde(default)]
    pub task_id: Option<String>,
    /// An older name of `task_id`.
    #[serde(default)]
    pub shell_id: Option<String>,
}

impl TaskStopInput {
    fn task(&self) -> Result<&str, ToolError> {
        match (&self.task_id, &self.shell_id) {
            (Some(task), None) | (None, Some(task)) => Ok(task),
            (Some(task), Some(shell)) if task == shell => Ok(task),
            (None, None) => {
                Err(ToolError::invalid_input("`task_id` is missing; TaskOutput lists the background tasks"))
            }
            _ => {
                Err(ToolError::invalid_input("`task_id` and `shell_id` name two tasks; give `task_id` alone"))
            }
        }
    }
}

/// The tool `TaskStop`.
#[derive(Debug, Default)]
pub struct TaskStop;

impl Tool for TaskStop {
    type Input = TaskStopInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskStop")
            .alias("task_stop")
            .alias("KillShell")
            .group("shell")
            .feature("shell")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(CallTimeout::After(2 * END_WAIT))
            .needs(PortName::Tasks)
            .search_hint("stop kill end a background task or shell")
    }

    fn effects(&self, _: &TaskStopInput) -> Effects {
        Effects::writes_state("session:background")
    }

    async fn permission(&self, _: &TaskStopInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, input: &TaskStopInput, cx: &Context) -> Result<(), ToolError> {
        find_task(input.task()?, background_tasks(cx)?).map(|_| ())
    }

    async fn call(&self, input: TaskStopInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let tasks = background_tasks(cx)?;
        let name = input.task()?;
        let task: TaskId = find_task(name, tasks)?.id;
        if !tasks.stop(task) {
            let words =
                format!("it was not running any more; {}", describe_state(&find_task(name, tasks)?, tasks));
            return Ok(ResultBlock::text(words).into());
        }
        let ended = tokio::time::timeout(END_WAIT, tasks.ended(task)).await;
        let state = find_task(name, tasks)?;
        if ended.is_err() {
            let seconds = END_WAIT.as_secs();
            return Err(ToolError::new(format!(
                "{task} was told to end and did not within {seconds} s; look at it again with TaskOutput"
            )));
        }
        if let Some(words) = describe_held(&state, tasks) {
            return Err(ToolError::new(format!("{task} could not be ended: {}\n{words}", state.about)));
        }
        let words = format!("stopped {task}: {}\n{}", state.about, describe_state(&state, tasks));
        let view = CallView::titled(format!("{task}  $ {}", state.about)).summary("stopped");
        Ok(ToolOutput::from(ResultBlock::text(words)).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("task_id").or(stage.text("shell_id"))?);
        Some(view.why(stage))
    }
}
