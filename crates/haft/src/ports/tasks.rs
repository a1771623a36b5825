//! The port to background tasks: calls that were given an answer and go on.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::Cancel;
use serde::Serialize;

use crate::effects::Effects;
use crate::future::BoxFuture;
use crate::result::ToolResult;

/// Keeps track of what runs in the background.
///
/// The engine calls [`adopt`](Tasks::adopt) when a call moves to the background and [`finish`](Tasks::finish)
/// when it ends; tools list, read and stop tasks. All of it but [`ended`](Tasks::ended) is quick and never
/// waits. Everything here ends with the session.
pub trait Tasks: Send + Sync + 'static {
    /// Takes a running call over.
    ///
    /// # Errors
    /// There are too many already; the call then stays where it is.
    fn adopt(&self, task: NewTask) -> Result<TaskId, TooManyTasks>;

    /// Keeps the result of one that ended.
    fn finish(&self, task: TaskId, result: ToolResult);

    /// All of them, oldest first.
    fn list(&self) -> Vec<TaskState>;

    /// The result of one that ended.
    fn result(&self, task: TaskId) -> Option<ToolResult>;

    /// Stops one; false if there is no such task or it ended before.
    fn stop(&self, task: TaskId) -> bool;

    /// What one has printed so far, if its tool shows that.
    fn log(&self, task: TaskId) -> Option<Arc<dyn TaskLog>>;

    /// Completes when a task has ended: at once if it has, or if there is no such task.
    fn ended<'a>(&'a self, task: TaskId) -> BoxFuture<'a, ()>;
}

/// A call that moves to the background.
#[derive(Clone)]
pub struct NewTask {
    /// The tool that it belongs to.
    pub tool: String,
    /// What it does, on one line.
    pub about: String,
    /// What its call declared.
    pub effects: Arc<Effects>,
    /// What stops it.
    pub cancel: Cancel,
    /// What it prints, if its tool shows that.
    pub log: Option<Arc<dyn TaskLog>>,
}

/// What a task prints: readable while it runs and afterwards.
///
/// Positions are bytes of text that is ready to be shown: valid UTF-8 without control sequences.
pub trait TaskLog: Send + Sync + 'static {
    /// How much there is.
    fn size(&self) -> LogSize;

    /// The text from a position on: whole characters, at most this many bytes. Empty at the end.
    ///
    /// # Errors
    /// The file that holds it can't be read.
    fn read(&self, from: u64, bytes_max: usize) -> io::Result<String>;

    /// The last of what was printed, also where there was no room for what is before it, and then the line
    /// that has no end yet.
    fn tail(&self) -> (String, String);

    /// Sees to it that what was printed outlives the session, and says in which file; nothing if nothing was
    /// printed.
    ///
    /// # Errors
    /// There is no place for it, or it can't be written.
    fn keep(&self) -> io::Result<Option<PathBuf>>;

    /// Up to where somebody has looked; 0 before the first time.
    fn last_look(&self) -> u64;

    /// Somebody has looked up to here.
    fn looked(&self, up_to: u64);

    /// What of a task that has ended could not be ended with it, by the numbers of the processes; see
    /// [`ProcessOutcome::held`](crate::ports::ProcessOutcome::held).
    fn held(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Completes when more than this has been printed, by [`LogSize::activity`].
    fn more<'a>(&'a self, activity: u64) -> BoxFuture<'a, ()>;
}

/// How much a task has printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSize {
    /// Bytes of text in all, without a line that has no end yet.
    pub bytes: u64,
    /// How many of them can be read: the first ones, if not all.
    pub held_bytes: u64,
    /// Grows with everything that is printed, also where nothing of it is shown.
    pub activity: u64,
    /// The file that holds it, if it is too long for memory.
    pub file: Option<PathBuf>,
}

/// The number of a background task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct TaskId(pub u64);

impl TaskId {
    /// The task of this name, as [`Display`](fmt::Display) writes it; the number alone will do.
    ///
    /// ```
    /// use haft::ports::TaskId;
    ///
    /// assert_eq!(TaskId::parse("task-7"), Some(TaskId(7)));
    /// assert_eq!(TaskId::parse("7"), Some(TaskId(7)));
    /// assert_eq!(TaskId::parse("bash_7"), None);
    /// ```
    pub fn parse(name: &str) -> Option<TaskId> {
        let number = name.strip_prefix("task-").unwrap_or(name);
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok().map(TaskId))?
    }
}

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
    /// What its call declared.
    #[serde(skip)]
    pub effects: Arc<Effects>,
    /// Whether it still runs.
    pub running: bool,
    /// For how long it has run in the background, or had when it ended.
    pub ran_for: Duration,
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
