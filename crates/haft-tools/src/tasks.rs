//! The task list of a session: what is to be done, by whom, and what waits for what.
//!
//! One list for a session and its sub-agents, with bounds, kept in the session's folder if it has one.
//! `TaskCreate`, `TaskGet`, `TaskList` and `TaskUpdate` work on single tasks, `TodoWrite` on the whole list;
//! both see the same. Only one direction of a dependency is kept (`blocked_by`), the other follows from it,
//! so that the two can't disagree. A cycle would never be done and is refused. That a task waits for others
//! means something: it can't be begun or completed before them.

use std::collections::BTreeSet;

use haft::text::truncate_chars;
use haft::view::ViewPart;
use haft::{CallView, Context, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::per_session::PerSession;
use crate::session_folders::SessionFolders;

pub mod create;
pub mod get;
pub mod list;
#[cfg(test)]
mod tests;
pub mod todo_write;
pub mod update;

pub use create::TaskCreate;
pub use get::TaskGet;
pub use list::TaskList;
pub use todo_write::TodoWrite;
pub use update::TaskUpdate;

/// How many tasks a list has at most.
pub const TASKS_MAX: usize = 500;
/// The longest subject, in characters.
pub const SUBJECT_CHARS_MAX: usize = 300;
/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 10_000;
/// The longest owner, in characters.
pub const OWNER_CHARS_MAX: usize = 100;
/// How many characters of a result the model sees.
pub(crate) const RESULT_CHARS: usize = 40_000;
/// How many lines of a list a person is shown; a screen folds longer ones.
const SHOWN_LINES: usize = 5;

/// What lists there are.
pub const STATE: &str = "session:tasks";

/// The task lists of sessions. Clones share them.
#[derive(Clone)]
pub struct TaskLists(PerSession<SessionTasks>);

impl Default for TaskLists {
    fn default() -> TaskLists {
        TaskLists::kept_in(&SessionFolders::default())
    }
}

impl TaskLists {
    /// Lists that are kept in the folders of their sessions.
    pub fn kept_in(shelf: &SessionFolders) -> TaskLists {
        TaskLists(PerSession::new(shelf, "tasks.json"))
    }

    pub(crate) fn with<R>(&self, cx: &Context, look: impl FnOnce(&mut SessionTasks) -> R) -> R {
        self.0.with(cx, look)
    }
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody has begun.
    #[default]
    Pending,
    /// Somebody works on it.
    InProgress,
    /// Done.
    Completed,
}

impl TaskStatus {
    pub(crate) fn word(self) -> &'static str {
        match self {
            TaskStatus::Pending => "pending",
            TaskStatus::InProgress => "in progress",
            TaskStatus::Completed => "completed",
        }
    }

    fn mark(self) -> char {
        match self {
            TaskStatus::Pending => '☐',
            TaskStatus::InProgress => '▸',
            TaskStatus::Completed => '☑',
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskEntry {
    pub(crate) id: u64,
    pub(crate) subject: String,
    pub(crate) description: String,
    pub(crate) active_form: Option<String>,
    pub(crate) status: TaskStatus,
    pub(crate) owner: Option<String>,
    /// Tasks that have to be completed before it.
    pub(crate) blocked_by: BTreeSet<u64>,
}

impl TaskEntry {
    /// What it is called while somebody works on it.
    fn title(&self) -> &str {
        match self.status {
            TaskStatus::InProgress => self.active_form.as_deref().unwrap_or(&self.subject),
            _ => &self.subject,
        }
    }
}

/// The tasks of a session, in the order in which they were made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SessionTasks {
    pub(crate) tasks: Vec<TaskEntry>,
    /// The last number that was given; none is given twice.
    last: u64,
}

impl SessionTasks {
    /// Adds a task.
    pub(crate) fn add(&mut self, subject: &str, description: &str) -> Result<&mut TaskEntry, ToolError> {
        if self.tasks.len() >= TASKS_MAX {
            return Err(ToolError::new(format!(
                "the list has {TASKS_MAX} tasks, and no more fit; delete completed ones with TaskUpdate and `status` \"deleted\""
            )));
        }
        self.last += 1;
        self.tasks.push(TaskEntry {
            id: self.last,
            subject: subject.to_owned(),
            description: description.to_owned(),
            active_form: None,
            status: TaskStatus::Pending,
            owner: None,
            blocked_by: BTreeSet::new(),
        });
        Ok(self.tasks.last_mut().expect("it was just added"))
    }

    pub(crate) fn find(&self, id: u64) -> Option<&TaskEntry> {
        self.tasks.iter().find(|task| task.id == id)
    }

    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut TaskEntry> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    /// The task of this name.
    pub(crate) fn named(&self, name: &str) -> Result<&TaskEntry, ToolError> {
        let id = parse_task_id(name)?;
        self.find(id).ok_or_else(|| {
            let known: Vec<String> = self.tasks.iter().take(50).map(|task| format!("#{}", task.id)).collect();
            let known = if known.is_empty() {
                "there are none; make one with TaskCreate".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            ToolError::invalid_input(format!("no task #{id}; {known}"))
        })
    }

    /// The tasks that wait for this one.
    pub(crate) fn blocks(&self, id: u64) -> impl Iterator<Item = u64> + '_ {
        self.tasks.iter().filter(move |task| task.blocked_by.contains(&id)).map(|task| task.id)
    }

    /// What a task still waits for.
    pub(crate) fn open_blockers(&self, task: &TaskEntry) -> Vec<u64> {
        let open = |id: &&u64| self.find(**id).is_some_and(|other| other.status != TaskStatus::Completed);
        task.blocked_by.iter().filter(open).copied().collect()
    }

    /// Lets `task` wait for `blocker`. Both are there.
    pub(crate) fn block(&mut self, task: u64, blocker: u64) -> Result<(), ToolError> {
        if task == blocker {
            let words =
                format!("#{task} can't wait for #{blocker}, which is itself; leave this dependency out");
            return Err(ToolError::invalid_input(words));
        }
        if let Some(way) = self.way(blocker, task) {
            let way: Vec<String> = way.iter().map(|id| format!("#{id}")).collect();
            return Err(ToolError::invalid_input(format!(
                "#{task} can't wait for #{blocker}: {} (each waits for the next), so none of them could ever begin; \
                 leave this dependency out",
                way.join(" → ")
            )));
        }
        if let Some(task) = self.find_mut(task) {
            task.blocked_by.insert(blocker);
        }
        Ok(())
    }

    /// From one task over what it waits for to another, if there is such a way.
    fn way(&self, from: u64, to: u64) -> Option<Vec<u64>> {
        let mut ways: Vec<Vec<u64>> = vec![vec![from]];
        let mut seen = BTreeSet::from([from]);
        while let Some(way) = ways.pop() {
            let at = *way.last()?;
            if at == to {
                return Some(way);
            }
            for next in self.find(at).into_iter().flat_map(|task| &task.blocked_by) {
                if seen.insert(*next) {
                    ways.push(way.iter().copied().chain([*next]).collect());
                }
            }
        }
        None
    }

    /// Forgets a task; nobody waits for it any more.
    pub(crate) fn remove(&mut self, id: u64) {
        self.tasks.retain(|task| task.id != id);
        self.tasks.iter_mut().for_each(|task| {
            task.blocked_by.remove(&id);
        });
    }

    /// `2 of 5 done`.
    pub(crate) fn counts(&self) -> String {
        let done = self.tasks.iter().filter(|task| task.status == TaskStatus::Completed).count();
        match self.tasks.len() {
            0 => "no tasks".to_owned(),
            all => format!("{done} of {all} done"),
        }
    }

    /// One task in a line, for the model.
    pub(crate) fn line(&self, task: &TaskEntry) -> String {
        let mut line = format!("#{} [{}] {}", task.id, task.status.word(), task.subject);
        if let Some(owner) = &task.owner {
            line.push_str(&format!(" ({owner})"));
        }
        let waits = self.open_blockers(task);
        if !waits.is_empty() && task.status != TaskStatus::Completed {
            let waits: Vec<String> = waits.iter().map(|id| format!("#{id}")).collect();
            line.push_str(&format!(" [waits for {}]", waits.join(", ")));
        }
        line
    }

    /// What a person is shown of the list: all of a short one, of a long one what is being done and what
    /// comes next.
    pub(crate) fn view(&self, title: &str) -> CallView {
        let shown = |task: &TaskEntry| {
            let owner = task.owner.as_ref().map(|owner| format!("  ({owner})")).unwrap_or_default();
            let waits = if task.status == TaskStatus::Pending && !self.open_blockers(task).is_empty() {
                "  waits"
            } else {
                ""
            };
            format!("{} {}{owner}{waits}", task.status.mark(), task.title())
        };
        let mut lines: Vec<String> = Vec::new();
        if self.tasks.len() <= SHOWN_LINES {
            lines.extend(self.tasks.iter().map(shown));
        } else {
            let of = |status: TaskStatus| self.tasks.iter().filter(move |task| task.status == status);
            let done = of(TaskStatus::Completed).count();
            if done > 0 {
                lines.push(format!("☑ {done} done"));
            }
            let open: Vec<&TaskEntry> = of(TaskStatus::InProgress).chain(of(TaskStatus::Pending)).collect();
            let room = SHOWN_LINES - lines.len();
            let fits = if open.len() > room { room - 1 } else { open.len() };
            lines.extend(open.iter().take(fits).map(|task| shown(task)));
            if open.len() > fits {
                lines.push(format!("☐ and {} more", open.len() - fits));
            }
        }
        let view = CallView::titled(title).summary(self.counts());
        if lines.is_empty() { view } else { view.with(ViewPart::Text { text: lines.join("\n") }) }
    }
}

/// The number of a task: `3`, `#3`.
pub(crate) fn parse_task_id(name: &str) -> Result<u64, ToolError> {
    let number = name.trim().trim_start_matches('#');
    number.parse().map_err(|_| {
        let name = truncate_chars(name, 60);
        ToolError::invalid_input(format!("`{name}` is no task; give its number, as in \"3\""))
    })
}

/// A text that has something in it and isn't too long.
pub(crate) fn check_text(field: &str, text: &str, most: usize) -> Result<(), ToolError> {
    if text.trim().is_empty() {
        return Err(ToolError::invalid_input(format!("`{field}` is empty; say what is to be done")));
    }
    check_length(field, text, most)
}

pub(crate) fn check_length(field: &str, text: &str, most: usize) -> Result<(), ToolError> {
    match text.chars().nth(most) {
        None => Ok(()),
        Some(_) => Err(ToolError::invalid_input(format!(
            "`{field}` has {} characters; at most {most} are accepted",
            text.chars().count()
        ))),
    }
}
