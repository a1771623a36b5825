//! `TaskList`: every task in a line.

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, NoInput, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};

use crate::tasks::{RESULT_CHARS, STATE, TaskLists, TaskStatus};

/// The tool `TaskList`.
#[derive(Default)]
pub struct TaskList {
    lists: TaskLists,
}

impl TaskList {
    /// The tool on these lists.
    pub fn new(lists: &TaskLists) -> TaskList {
        TaskList { lists: lists.clone() }
    }
}

impl Tool for TaskList {
    type Input = NoInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskList")
            .description(
                "Lists the tasks of this session: number, status, owner, and what each still waits for.\n\n\
                 Look at it after a task is completed, to find the next one that waits for nothing, and before you add \
                 one that may be there already. TaskGet has the description of a task.",
            )
            .alias("task_list")
            .group("tasks")
            .feature("tasks")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("list tasks to do and their status")
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::reads_state(STATE)
    }

    async fn call(&self, _: NoInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        self.lists.with(cx, |list| {
            let lines: Vec<String> = list.tasks.iter().map(|task| list.line(task)).collect();
            let ready = list
                .tasks
                .iter()
                .find(|task| task.status == TaskStatus::Pending && list.open_blockers(task).is_empty());
            let text = match (lines.is_empty(), ready) {
                (true, _) => "there are no tasks; TaskCreate makes one".to_owned(),
                (false, Some(next)) => {
                    format!(
                        "{}\n{}; the first that waits for nothing is #{}",
                        lines.join("\n"),
                        list.counts(),
                        next.id
                    )
                }
                (false, None) => format!("{}\n{}", lines.join("\n"), list.counts()),
            };
            Ok(ToolOutput::from(ResultBlock::text(text)).with_view(list.view("")))
        })
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled("");
        Some(view.why(stage))
    }
}
