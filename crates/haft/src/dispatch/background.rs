//! Calls that moved to the background: an answer was given, the work goes on.
//!
//! Slot and locks are free again, so later calls may meet what a background task still does. They are not stopped;
//! they are told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::cancel::{Cancel, Cause};
use crate::effects::conflict::Touch;
use crate::effects::resolved::Resolved;
use crate::limits;
use crate::ports::{TaskId, TaskState, Tasks, TooManyTasks};
use crate::registry::Entry;
use crate::result::ToolResult;
use crate::sync::lock;

/// What runs in the background of a session, and what it touches.
#[derive(Default)]
pub(crate) struct Background {
    running: Mutex<Vec<(TaskId, Arc<str>, Touch)>>,
    /// How many there are: nearly always none, which every call asks.
    count: AtomicUsize,
}

impl Background {
    pub(crate) fn add(&self, task: TaskId, tool: Arc<str>, touch: Touch) {
        let mut running = lock(&self.running);
        running.push((task, tool, touch));
        self.count.store(running.len(), Ordering::Release);
    }

    pub(crate) fn remove(&self, task: TaskId) {
        let mut running = lock(&self.running);
        running.retain(|(running, ..)| *running != task);
        self.count.store(running.len(), Ordering::Release);
    }

    /// Adds the background tasks, other than its `own`, that a call meets.
    pub(crate) fn meet(
        &self,
        resolved: &Resolved,
        entry: &Entry,
        confined: bool,
        own: Option<TaskId>,
        met: &mut Vec<(TaskId, Arc<str>)>,
    ) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let touch = Touch::of(resolved, u64::from(entry.number()), confined);
        for (task, tool, other) in lock(&self.running).iter() {
            let known = met.iter().any(|(known, _)| known == task);
            if Some(*task) != own && !known && other.conflicts(&touch) {
                met.push((*task, tool.clone()));
            }
        }
    }

    /// Words for a call that met background tasks.
    pub(crate) fn note(met: Vec<(TaskId, Arc<str>)>) -> Option<String> {
        let met: Vec<String> = met.into_iter().map(|(task, tool)| format!("{task} ({tool})")).collect();
        (!met.is_empty())
            .then(|| format!("this call overlapped with what ran in the background: {}", met.join(", ")))
    }
}

/// The background tasks of a session, in memory: the [`Tasks`] port of a host that has nothing better.
#[derive(Default)]
pub struct TaskTable {
    tasks: Mutex<Vec<Kept>>,
}

struct Kept {
    state: TaskState,
    cancel: Cancel,
    result: Option<ToolResult>,
}

impl TaskTable {
    /// No tasks.
    pub fn new() -> TaskTable {
        TaskTable::default()
    }
}

impl Tasks for TaskTable {
    fn adopt(&self, tool: &str, about: &str, cancel: Cancel) -> Result<TaskId, TooManyTasks> {
        let mut tasks = lock(&self.tasks);
        if tasks.iter().filter(|task| task.state.running).count() >= limits::TASKS_MAX {
            return Err(TooManyTasks { most: limits::TASKS_MAX });
        }
        if tasks.len() >= limits::TASKS_KEPT_MAX
            && let Some(oldest) = tasks.iter().position(|task| !task.state.running)
        {
            tasks.remove(oldest);
        }
        let id = TaskId(tasks.last().map_or(1, |last| last.state.id.0 + 1));
        let state = TaskState { id, tool: tool.to_owned(), about: about.to_owned(), running: true };
        tasks.push(Kept { state, cancel, result: None });
        Ok(id)
    }

    fn finish(&self, task: TaskId, result: ToolResult) {
        if let Some(kept) = lock(&self.tasks).iter_mut().find(|kept| kept.state.id == task) {
            kept.state.running = false;
            kept.result = Some(result);
        }
    }

    fn list(&self) -> Vec<TaskState> {
        lock(&self.tasks).iter().map(|kept| kept.state.clone()).collect()
    }

    fn result(&self, task: TaskId) -> Option<ToolResult> {
        lock(&self.tasks).iter().find(|kept| kept.state.id == task)?.result.clone()
    }

    fn stop(&self, task: TaskId) -> bool {
        let cancel = {
            let tasks = lock(&self.tasks);
            tasks
                .iter()
                .find(|kept| kept.state.id == task && kept.state.running)
                .map(|kept| kept.cancel.clone())
        };
        cancel.map(|cancel| cancel.cancel(Cause::User)).is_some()
    }
}
