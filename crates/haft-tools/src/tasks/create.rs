//! `TaskCreate`: one more task on the session's list.

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::{
    DESCRIPTION_CHARS_MAX, STATE, SUBJECT_CHARS_MAX, TaskLists, check_length, check_text, parse_task_id,
};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 2_000;

/// Puts a task on the list of this session.
///
/// Use it for work of several steps, so that nothing is forgotten and the user sees how far you are; not for
/// a single quick step. One task for each step that can be completed by itself. Set the task in progress with
/// TaskUpdate when you begin it, and completed as soon as it is done. Sub-agents see the same list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskCreateInput {
    /// What is to be done, in a few words, as an instruction: "Run the tests".
    pub subject: String,
    /// What belongs to it: enough for somebody else to do it, and how to see that it is done.
    pub description: String,
    /// What it is called while it is being done: "Running the tests".
    #[serde(default, rename = "activeForm")]
    pub active_form: Option<String>,
    /// Numbers of tasks that have to be completed before this one.
    #[serde(default, rename = "blockedBy")]
    pub blocked_by: Option<Vec<String>>,
}

/// The tool `TaskCreate`.
#[derive(Default)]
pub struct TaskCreate {
    lists: TaskLists,
}

impl TaskCreate {
    /// The tool on these lists.
    pub fn new(lists: &TaskLists) -> TaskCreate {
        TaskCreate { lists: lists.clone() }
    }
}

impl Tool for TaskCreate {
    type Input = TaskCreateInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TaskCreate")
            .alias("task_create")
            .group("tasks")
            .feature("tasks")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("add a task to do to the list, plan work in steps")
    }

    fn effects(&self, _: &TaskCreateInput) -> Effects {
        Effects::writes_state(STATE)
    }

    async fn permission(&self, _: &TaskCreateInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, input: &TaskCreateInput, cx: &Context) -> Result<(), ToolError> {
        check_text("subject", &input.subject, SUBJECT_CHARS_MAX)?;
        check_length("description", &input.description, DESCRIPTION_CHARS_MAX)?;
        check_length("activeForm", input.active_form.as_deref().unwrap_or_default(), SUBJECT_CHARS_MAX)?;
        self.lists.with(cx, |list| {
            input.blocked_by.iter().flatten().try_for_each(|name| list.named(name).map(|_| ()))
        })
    }

    async fn call(&self, input: TaskCreateInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let blockers: Vec<u64> =
            input.blocked_by.iter().flatten().map(|name| parse_task_id(name)).collect::<Result<_, _>>()?;
        let (words, view) = self.lists.with(cx, |list| {
            let there: Vec<u64> = blockers.into_iter().filter(|id| list.find(*id).is_some()).collect();
            let task = list.add(input.subject.trim(), input.description.trim())?;
            task.active_form = input.active_form.filter(|text| !text.trim().is_empty());
            task.blocked_by.extend(there);
            let task = task.clone();
            Ok::<_, ToolError>((
                format!("created {}", list.line(&task)),
                list.view(&format!("#{} {}", task.id, task.subject)),
            ))
        })?;
        Ok(ToolOutput::from(ResultBlock::text(words)).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("subject")?);
        Some(view.why(stage))
    }
}
