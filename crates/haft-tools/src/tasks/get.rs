//! `TaskGet`: all that is known of one task.

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::{RESULT_CHARS, STATE, TaskLists};

/// Returns one task of the session's list with its description, status, owner, and what it waits for and
/// blocks.
///
/// Read a task before you begin it, above all one that somebody else wrote down.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskGetInput {
    /// The number of the task, as in "3"; TaskList has them.
    #[serde(rename = "taskId")]
    pub task_id: String,
}

/// The tool `TaskGet`.
#[derive(Default)]
pub struct TaskGet {
    lists: TaskLists,
}

impl TaskGet {
    /// The tool on these lists.
    pub fn new(lists: &TaskLists) -> TaskGet {
        TaskGet { lists: lists.clone() }
    }
}

impl Tool for TaskGet {
    type Input = TaskGetInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskGet")
            .alias("task_get")
            .group("tasks")
            .feature("tasks")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("look at one task of the list")
    }

    fn effects(&self, _: &TaskGetInput) -> Effects {
        Effects::reads_state(STATE)
    }

    async fn call(&self, input: TaskGetInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        self.lists.with(cx, |list| {
            let task = list.named(&input.task_id)?;
            let numbers = |ids: Vec<u64>| {
                let ids: Vec<String> = ids.iter().map(|id| format!("#{id}")).collect();
                ids.join(", ")
            };
            let mut text = format!("#{} {}\nstatus: {}\n", task.id, task.subject, task.status.word());
            let owner = task.owner.clone().unwrap_or_default();
            let blocked_by = numbers(task.blocked_by.iter().copied().collect());
            let rows = [
                ("owner", owner),
                ("blocked by", blocked_by),
                ("still waits for", numbers(list.open_blockers(task))),
                ("blocks", numbers(list.blocks(task.id).collect())),
            ];
            for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
                text.push_str(&format!("{name}: {value}\n"));
            }
            text.push_str(&format!("\n{}", task.description));
            let view = CallView::titled(format!("#{} {}", task.id, task.subject)).summary(task.status.word());
            Ok(ToolOutput::from(ResultBlock::text(text.trim_end().to_owned())).with_view(view))
        })
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(format!("#{}", stage.text("taskId")?.trim_start_matches('#')));
        Some(view.why(stage))
    }
}
