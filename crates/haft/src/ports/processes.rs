//! The port to child processes.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::files::Access;
use crate::future::BoxFuture;

/// Starts child processes, and is the only thing that does.
///
/// A tool calls [`run`](Processes::run) from its own task and awaits the end. When the call is cancelled the future
/// is dropped or the request's `cancel` is raised; either way everything that was started must be gone before the
/// implementation lets go of it.
pub trait Processes: Send + Sync + 'static {
    /// Whether a child can do no more than its request grants. Where it can't be held to that, effects of commands
    /// are not believed.
    fn confines(&self) -> bool;

    /// Runs one process to its end.
    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>>;
}

/// Told of output as it comes.
pub type OnOutput = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A process to run.
#[derive(Clone)]
pub struct ProcessRequest {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it reads; nothing if empty.
    pub stdin: Vec<u8>,
    /// Variables beside those that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// What it may read and write.
    pub access: Access,
    /// Hosts that it may reach.
    pub hosts: Vec<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// How much output is kept.
    pub output_bytes_max: usize,
    /// Told of output as it comes.
    pub on_output: Option<OnOutput>,
    /// Raised when the call is cancelled.
    pub cancel: Cancel,
}

/// How a process ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// How it ended.
    pub exit: Exit,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
    /// Whether output was cut.
    pub cut: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By us, because its time was over.
    TimedOut,
    /// By us, because the call was cancelled.
    Cancelled,
}

/// A process that could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessError {
    /// What was wrong, and what can be done.
    pub message: String,
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProcessError {}
