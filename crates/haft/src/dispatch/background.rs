//! Calls that moved to the background: an answer was given, the work goes on.
//!
//! Slot and locks are free again, so later calls may meet what a background task still does. They are not
//! stopped; they are told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_scheduler::sync::lock;
use haft_scheduler::{Cancel, Cause, ConflictKeys};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::content::ToolOutput;
use crate::context::{AgentHost, Context};
use crate::effects::conflict::conflict_keys;
use crate::effects::resolved::ResolvedEffects;
use crate::error::ToolError;
use crate::event::EventKind;
use crate::future::{BoxFuture, GuardedFuture};
use crate::limits;
use crate::ports::{NewTask, TaskId, TaskLog, TaskState, Tasks, TooManyTasks};
use crate::registry::RegisteredTool;
use crate::result::ToolResult;

/// What runs in the background of a session, and what it touches.
#[derive(Default)]
pub(crate) struct BackgroundCalls {
    running: Mutex<Vec<BackgroundCall>>,
    /// How many there are: nearly always none, which every call asks.
    count: AtomicUsize,
}

/// A task, and what it touches.
struct BackgroundCall {
    task: TaskId,
    tool: Arc<str>,
    keys: ConflictKeys,
    /// Agents that know of it; only for one that may touch anything.
    told: Vec<Arc<str>>,
}

impl BackgroundCalls {
    pub(crate) fn add(&self, task: TaskId, tool: Arc<str>, keys: ConflictKeys) {
        let mut running = lock(&self.running);
        running.push(BackgroundCall { task, tool, keys, told: Vec::new() });
        self.count.store(running.len(), Ordering::Release);
    }

    pub(crate) fn remove(&self, task: TaskId) {
        let mut running = lock(&self.running);
        running.retain(|running| running.task != task);
        self.count.store(running.len(), Ordering::Release);
    }

    /// Adds the background tasks, other than its `own`, that a call meets. Of one that may touch anything
    /// every agent is told once: it meets every call, and says nothing about any of them.
    pub(crate) fn add_conflicts(
        &self,
        resolved: &ResolvedEffects,
        entry: &RegisteredTool,
        host: &AgentHost,
        own: Option<TaskId>,
        met: &mut Vec<(TaskId, Arc<str>)>,
    ) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let keys = conflict_keys(resolved, u64::from(entry.number()), host.confined);
        // What only looks at the session, as who lists tasks does, has nothing to fear from a program on the
        // disk.
        let declared = &resolved.declared;
        let inward = !declared.unknown
            && !declared.has_paths()
            && declared.runs.is_empty()
            && declared.reaches.is_empty()
            && !declared.state.is_empty();
        for behind in lock(&self.running).iter_mut() {
            let anything = behind.keys == ConflictKeys::exclusive();
            let known = met.iter().any(|(known, _)| *known == behind.task)
                || (anything && (inward || behind.told.contains(&host.agent)));
            if Some(behind.task) != own && !known && behind.keys.conflicts_with(&keys) {
                met.push((behind.task, behind.tool.clone()));
                if anything && behind.told.len() < limits::BACKGROUND_AGENTS_TOLD_MAX {
                    behind.told.push(host.agent.clone());
                }
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

/// Lets the work of a call go on in the background, in a task of its own that ends with the session.
///
/// # Errors
/// The work back, and why it can't.
pub(crate) fn go_on<F>(cx: &Context, about: String, cancel: Cancel, work: F) -> Result<TaskId, (F, String)>
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let (host, running) = (cx.host(), cx.running());
    let (Some(tasks), Some(entry)) = (host.ports.tasks.as_deref(), cx.entry()) else {
        return Err((work, "this host has no background tasks".to_owned()));
    };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return Err((work, "there is no runtime to go on in".to_owned()));
    };
    let tool = cx.call_ref().tool.clone();
    let (tool_name, effects, log) = (tool.to_string(), running.effects(), running.log());
    let new = NewTask { tool: tool_name, about, effects, cancel, log };
    let task = match tasks.adopt(new) {
        Ok(task) => task,
        Err(full) => return Err((work, full.to_string())),
    };
    running.leaves(task);
    let keys = running.conflict_keys(entry, cx, host.confined);
    host.background.add(task, tool, keys);
    // Made before the task: one that is dropped before it ran has ended too.
    let mut ends = TaskFinisher { cx: cx.clone(), task, started: Instant::now(), over: false };
    runtime.spawn(async move {
        let outcome = GuardedFuture::new(|| -> BoxFuture<'static, _> { Box::pin(work) }).await;
        ends.with(outcome.unwrap_or_else(|_| Err(crate::pipeline::panic_error(&ends.cx.call_ref().tool))));
    });
    Ok(task)
}

/// Says how a background task ended, exactly once.
struct TaskFinisher {
    cx: Context,
    task: TaskId,
    started: Instant,
    over: bool,
}

impl TaskFinisher {
    fn with(&mut self, outcome: Result<ToolOutput, ToolError>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let (host, call) = (self.cx.host(), self.cx.call_ref());
        let refused = ToolResult::refused(call.id.clone(), call.tool.clone(), ToolError::new(""));
        let result = refused.with(|parts| {
            parts.tool = self.cx.entry().map(|entry| entry.tool().clone());
            parts.input = Some(self.cx.running().input());
            parts.duration = self.started.elapsed();
            parts.outcome = outcome;
        });
        host.background.remove(self.task);
        if let Some(tasks) = host.ports.tasks.as_deref() {
            tasks.finish(self.task, result.clone());
        }
        host.tell(self.cx.call().turn(), Some(call), || EventKind::BackgroundFinished(result));
    }
}

impl Drop for TaskFinisher {
    fn drop(&mut self) {
        if !self.over {
            let words = format!("{} was {}", self.cx.call_ref().tool, Cause::Shutdown.words());
            self.with(Err(ToolError::cancelled(Cause::Shutdown, &words)));
        }
    }
}

/// The background tasks of a session, in memory: the [`Tasks`] port of a host that has nothing better.
#[derive(Default)]
pub struct TaskTable {
    tasks: Mutex<Vec<TaskEntry>>,
    /// Told whenever one ends.
    ended: Notify,
}

struct TaskEntry {
    id: TaskId,
    task: NewTask,
    started: Instant,
    end: Option<(ToolResult, Duration)>,
}

impl TaskTable {
    /// No tasks.
    pub fn new() -> TaskTable {
        TaskTable::default()
    }
}

impl Tasks for TaskTable {
    fn adopt(&self, task: NewTask) -> Result<TaskId, TooManyTasks> {
        let mut tasks = lock(&self.tasks);
        if tasks.iter().filter(|task| task.end.is_none()).count() >= limits::TASKS_MAX {
            return Err(TooManyTasks { most: limits::TASKS_MAX });
        }
        if tasks.len() >= limits::TASKS_KEPT_MAX
            && let Some(oldest) = tasks.iter().position(|task| task.end.is_some())
        {
            tasks.remove(oldest);
        }
        let id = TaskId(tasks.last().map_or(1, |last| last.id.0 + 1));
        tasks.push(TaskEntry { id, task, started: Instant::now(), end: None });
        Ok(id)
    }

    fn finish(&self, task: TaskId, result: ToolResult) {
        if let Some(kept) = lock(&self.tasks).iter_mut().find(|kept| kept.id == task) {
            kept.end = Some((result, kept.started.elapsed()));
        }
        self.ended.notify_waiters();
    }

    fn list(&self) -> Vec<TaskState> {
        let state = |kept: &TaskEntry| TaskState {
            id: kept.id,
            tool: kept.task.tool.clone(),
            about: kept.task.about.clone(),
            effects: kept.task.effects.clone(),
            running: kept.end.is_none(),
            ran_for: kept.end.as_ref().map_or_else(|| kept.started.elapsed(), |(_, ran_for)| *ran_for),
        };
        lock(&self.tasks).iter().map(state).collect()
    }

    fn result(&self, task: TaskId) -> Option<ToolResult> {
        let tasks = lock(&self.tasks);
        let (result, _) = tasks.iter().find(|kept| kept.id == task)?.end.as_ref()?;
        Some(result.clone())
    }

    fn stop(&self, task: TaskId) -> bool {
        let cancel = {
            let tasks = lock(&self.tasks);
            let running = tasks.iter().find(|kept| kept.id == task && kept.end.is_none());
            running.map(|kept| kept.task.cancel.clone())
        };
        cancel.map(|cancel| cancel.cancel(Cause::User)).is_some()
    }

    fn log(&self, task: TaskId) -> Option<Arc<dyn TaskLog>> {
        lock(&self.tasks).iter().find(|kept| kept.id == task)?.task.log.clone()
    }

    fn ended<'a>(&'a self, task: TaskId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let mut told = std::pin::pin!(self.ended.notified());
                // Listens from before it looks, so that no end goes by unheard.
                told.as_mut().enable();
                if !lock(&self.tasks).iter().any(|kept| kept.id == task && kept.end.is_none()) {
                    return;
                }
                told.await;
            }
        })
    }
}
