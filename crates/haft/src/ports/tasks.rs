//! The port to background tasks: calls that were given an answer and go on.

use std::fmt;

use serde::Serialize;

use crate::cancel::Cancel;
use crate::result::ToolResult;

/// Keeps track of what runs in the background.
///
/// The engine calls [`adopt`](Tasks::adopt) when a call moves to the background and [`finish`](Tasks::finish) when it
/// ends; tools list, read and stop tasks. All of it is quick and never waits. Everything here ends with the session.
pub trait Tasks: Send + Sync + 'static {
    /// Takes a running call over.
    ///
    /// # Errors
    /// There are too many already; the call then stays where it is.
    fn adopt(&self, tool: &str, about: &str, cancel: Cancel) -> Result<TaskId, TooManyTasks>;

    /// Keeps the result of one that ended.
    fn finish(&self, task: TaskId, result: ToolResult);

    /// All of them, oldest first.
    fn list(&self) -> Vec<TaskState>;

    /// The result of one that ended.
    fn result(&self, task: TaskId) -> Option<ToolResult>;

    /// Stops one; false if there is no such task or it ended before.
    fn stop(&self, task: TaskId) -> bool;
}

/// The number of a background task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task-{}", self.0)
    }
}

/// A background task as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskState {
    /// Its number.
    pub id: TaskId,
    /// The tool that it belongs to.
    pub tool: String,
    /// What it does.
    pub about: String,
    /// Whether it still runs.
    pub running: bool,
}

/// No room for another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTasks {
    /// How many there may be.
    pub most: usize,
}

impl fmt::Display for TooManyTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks already run in the background, and no more may", self.most)
    }
}

impl std::error::Error for TooManyTasks {}
