//! `TodoWrite`: the whole task list in one call.
//!
//! The simple form of the same list that `TaskCreate` and the others work on. A task is known again by its
//! words, so that its number, owner and dependencies stay; what is not written again is gone. What a status
//! means is the model's own business here: nothing is refused for a dependency.

use std::collections::BTreeSet;

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::{
    STATE, SUBJECT_CHARS_MAX, SessionTasks, TASKS_MAX, TaskLists, TaskStatus, check_length, check_text,
};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 2_000;

/// Writes the task list of this session: all of it, each time.
///
/// Use it for work of several steps, so that nothing is forgotten and the user sees how far you are; not for
/// a single quick step. Keep one task in progress, and set it completed as soon as it is done, before you
/// begin the next. What you leave out is taken off the list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TodoWriteInput {
    /// All tasks, in the order in which they are to be done.
    pub todos: Vec<TodoItem>,
}

/// A task.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TodoItem {
    /// What is to be done, as an instruction: "Run the tests".
    pub content: String,
    /// How far it is.
    pub status: TaskStatus,
    /// What it is called while it is being done: "Running the tests".
    #[serde(default, rename = "activeForm")]
    pub active_form: Option<String>,
}

/// The tool `TodoWrite`.
#[derive(Default)]
pub struct TodoWrite {
    lists: TaskLists,
}

impl TodoWrite {
    /// The tool on these lists.
    pub fn new(lists: &TaskLists) -> TodoWrite {
        TodoWrite { lists: lists.clone() }
    }
}

impl Tool for TodoWrite {
    type Input = TodoWriteInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("TodoWrite")
            .alias("todo_write")
            .group("tasks")
            .feature("tasks")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("write the list of things to do, checklist, steps")
    }

    fn effects(&self, _: &TodoWriteInput) -> Effects {
        Effects::writes_state(STATE)
    }

    async fn permission(&self, _: &TodoWriteInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, input: &TodoWriteInput, _: &Context) -> Result<(), ToolError> {
        if input.todos.len() > TASKS_MAX {
            return Err(ToolError::invalid_input(format!(
                "`todos` has {} tasks; at most {TASKS_MAX} are accepted",
                input.todos.len()
            )));
        }
        let mut seen = BTreeSet::new();
        for (at, todo) in input.todos.iter().enumerate() {
            let field = format!("todos[{at}].content");
            check_text(&field, &todo.content, SUBJECT_CHARS_MAX)?;
            let active = todo.active_form.as_deref().unwrap_or_default();
            check_length(&format!("todos[{at}].activeForm"), active, SUBJECT_CHARS_MAX)?;
            if !seen.insert(todo.content.trim()) {
                return Err(ToolError::invalid_input(format!(
                    "`{field}` is there twice; give each task words of its own"
                )));
            }
        }
        Ok(())
    }

    async fn call(&self, input: TodoWriteInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        self.lists.with(cx, |list| {
            write_list(list, &input.todos)?;
            let begun = list.tasks.iter().filter(|task| task.status == TaskStatus::InProgress).count();
            let words = format!("{}, {begun} in progress", list.counts());
            Ok(ToolOutput::from(ResultBlock::text(words)).with_view(list.view(&current_title(list))))
        })
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        // The list as far as it is written.
        let todos = stage.input().get("todos")?.as_array()?;
        let whole: Vec<TodoItem> =
            todos.iter().filter_map(|todo| serde_json::from_value(todo.clone()).ok()).collect();
        let mut list = SessionTasks::default();
        write_list(&mut list, &whole).ok()?;
        let view = list.view(&current_title(&list));
        Some(match stage {
            CallStage::Error { error, .. } => CallView::titled("").summary(error.message()),
            CallStage::Rejected { reason, .. } => CallView::titled("").summary(*reason),
            _ => view,
        })
    }
}

/// What is being done.
fn current_title(list: &SessionTasks) -> String {
    let now = list.tasks.iter().find(|task| task.status == TaskStatus::InProgress);
    now.map(|task| task.active_form.clone().unwrap_or_else(|| task.subject.clone())).unwrap_or_default()
}

/// Makes the list what was written, in its order.
fn write_list(list: &mut SessionTasks, todos: &[TodoItem]) -> Result<(), ToolError> {
    let kept: BTreeSet<&str> = todos.iter().map(|todo| todo.content.trim()).collect();
    let gone: Vec<u64> =
        list.tasks.iter().filter(|task| !kept.contains(&*task.subject)).map(|task| task.id).collect();
    gone.into_iter().for_each(|id| list.remove(id));
    let mut order = Vec::with_capacity(todos.len());
    for todo in todos {
        let subject = todo.content.trim();
        let at = match list.tasks.iter().position(|task| task.subject == subject) {
            Some(at) => at,
            None => {
                list.add(subject, "")?;
                list.tasks.len() - 1
            }
        };
        let task = &mut list.tasks[at];
        task.status = todo.status;
        if todo.active_form.is_some() {
            task.active_form.clone_from(&todo.active_form);
        }
        order.push(task.id);
    }
    let place = |id: u64| order.iter().position(|known| *known == id).unwrap_or(usize::MAX);
    list.tasks.sort_by_key(|task| place(task.id));
    Ok(())
}
