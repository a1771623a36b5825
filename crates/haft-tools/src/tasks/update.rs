//! `TaskUpdate`: how far a task is, who does it, what it waits for. All of a call counts, or nothing.

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::{
    DESCRIPTION_CHARS_MAX, OWNER_CHARS_MAX, STATE, SUBJECT_CHARS_MAX, TaskLists, TaskStatus, check_length,
    check_text,
};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 4_000;
/// The agent of a session that nobody started.
const MAIN: &str = "main";

/// Changes a task of the session's list: its status, owner, words, and what it waits for.
///
/// Set a task in progress when you begin it, and completed only when it is wholly done: tests pass, nothing
/// is left. One that turns out to be unneeded is deleted. A task that waits for others can't be begun before
/// they are completed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskUpdateInput {
    /// The number of the task, as in "3".
    #[serde(rename = "taskId")]
    pub task_id: String,
    /// The new status. `deleted` takes the task off the list.
    #[serde(default)]
    pub status: Option<NewStatus>,
    /// Another subject.
    #[serde(default)]
    pub subject: Option<String>,
    /// Another description.
    #[serde(default)]
    pub description: Option<String>,
    /// Another name for it while it is being done.
    #[serde(default, rename = "activeForm")]
    pub active_form: Option<String>,
    /// Who does it; empty for nobody.
    #[serde(default)]
    pub owner: Option<String>,
    /// Numbers of tasks that shall wait for this one.
    #[serde(default, rename = "addBlocks")]
    pub add_blocks: Option<Vec<String>>,
    /// Numbers of tasks that this one shall wait for.
    #[serde(default, rename = "addBlockedBy")]
    pub add_blocked_by: Option<Vec<String>>,
    /// Numbers of tasks that this one need not wait for any more.
    #[serde(default, rename = "removeBlockedBy")]
    pub remove_blocked_by: Option<Vec<String>>,
}

/// What a task can be set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewStatus {
    /// Nobody has begun.
    Pending,
    /// Somebody works on it.
    InProgress,
    /// Done.
    Completed,
    /// Off the list.
    Deleted,
}

/// The tool `TaskUpdate`.
#[derive(Default)]
pub struct TaskUpdate {
    lists: TaskLists,
}

impl TaskUpdate {
    /// The tool on these lists.
    pub fn new(lists: &TaskLists) -> TaskUpdate {
        TaskUpdate { lists: lists.clone() }
    }
}

impl Tool for TaskUpdate {
    type Input = TaskUpdateInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskUpdate")
            .alias("task_update")
            .group("tasks")
            .feature("tasks")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("mark a task done or in progress, change owner or dependencies")
    }

    fn effects(&self, _: &TaskUpdateInput) -> Effects {
        Effects::writes_state(STATE)
    }

    async fn permission(&self, _: &TaskUpdateInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, input: &TaskUpdateInput, cx: &Context) -> Result<(), ToolError> {
        if let Some(subject) = &input.subject {
            check_text("subject", subject, SUBJECT_CHARS_MAX)?;
        }
        check_length("description", input.description.as_deref().unwrap_or_default(), DESCRIPTION_CHARS_MAX)?;
        check_length("activeForm", input.active_form.as_deref().unwrap_or_default(), SUBJECT_CHARS_MAX)?;
        check_length("owner", input.owner.as_deref().unwrap_or_default(), OWNER_CHARS_MAX)?;
        self.lists.with(cx, |list| list.named(&input.task_id).map(|_| ()))
    }

    async fn call(&self, input: TaskUpdateInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        self.lists.with(cx, |list| {
            let mut changed = list.clone();
            let id = changed.named(&input.task_id)?.id;
            if input.status == Some(NewStatus::Deleted) {
                let subject = changed.named(&input.task_id)?.subject.clone();
                changed.remove(id);
                let words = format!("deleted #{id} {subject}; {}", changed.counts());
                let view = changed.view(&format!("#{id} deleted"));
                *list = changed;
                return Ok(ToolOutput::from(ResultBlock::text(words)).with_view(view));
            }
            for name in input.remove_blocked_by.iter().flatten() {
                let other = changed.named(name)?.id;
                if let Some(task) = changed.find_mut(id) {
                    task.blocked_by.remove(&other);
                }
            }
            for name in input.add_blocked_by.iter().flatten() {
                let other = changed.named(name)?.id;
                changed.block(id, other)?;
            }
            for name in input.add_blocks.iter().flatten() {
                let other = changed.named(name)?.id;
                changed.block(other, id)?;
            }
            let Some(task) = changed.find_mut(id) else {
                return Err(ToolError::new(format!("#{id} is gone")));
            };
            if let Some(subject) = &input.subject {
                task.subject = subject.trim().to_owned();
            }
            if let Some(description) = &input.description {
                task.description = description.trim().to_owned();
            }
            if let Some(active) = &input.active_form {
                task.active_form = Some(active.trim().to_owned()).filter(|text| !text.is_empty());
            }
            if let Some(owner) = &input.owner {
                task.owner = Some(owner.trim().to_owned()).filter(|text| !text.is_empty());
            }
            let status = match input.status {
                Some(NewStatus::Pending) => Some(TaskStatus::Pending),
                Some(NewStatus::InProgress) => Some(TaskStatus::InProgress),
                Some(NewStatus::Completed) => Some(TaskStatus::Completed),
                Some(NewStatus::Deleted) | None => None,
            };
            if status == Some(TaskStatus::InProgress) && task.owner.is_none() && cx.call().agent_id() != MAIN
            {
                task.owner = Some(cx.call().agent_id().to_owned());
            }
            if let Some(status) = status {
                task.status = status;
                let task = task.clone();
                let waits = changed.open_blockers(&task);
                if status != TaskStatus::Pending && !waits.is_empty() {
                    let waits: Vec<String> = waits.iter().map(|id| format!("#{id}")).collect();
                    return Err(ToolError::new(format!(
                        "#{id} waits for {}, so it can't be {} yet; complete them first, or give them in \
                         `removeBlockedBy`",
                        waits.join(", "),
                        status.word()
                    )));
                }
            }
            let task = changed.named(&input.task_id)?.clone();
            let mut words = changed.line(&task);
            if task.status == TaskStatus::Completed {
                let free: Vec<String> = changed
                    .blocks(id)
                    .filter(|other| {
                        changed.find(*other).is_some_and(|task| changed.open_blockers(task).is_empty())
                    })
                    .map(|id| format!("#{id}"))
                    .collect();
                if !free.is_empty() {
                    words.push_str(&format!("\n{} can begin now", free.join(", ")));
                }
            }
            words.push_str(&format!("\n{}", changed.counts()));
            let view = changed.view(&format!("#{id} {}", task.subject));
            *list = changed;
            Ok(ToolOutput::from(ResultBlock::text(words)).with_view(view))
        })
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let id = stage.text("taskId")?.trim_start_matches('#');
        let view = CallView::titled(match stage.text("status") {
            Some(status) => format!("#{id} {}", status.replace('_', " ")),
            None => format!("#{id}"),
        });
        Some(view.why(stage))
    }
}
