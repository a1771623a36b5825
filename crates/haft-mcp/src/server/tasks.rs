//! Calls that run as tasks: the extension `io.modelcontextprotocol/tasks` of the stateless revision.
//!
//! A handler decides when its call becomes a task
//! ([`ClientPeer::start_task`](super::ClientPeer::start_task)). The request is answered with the task; the
//! client then asks for its state, answers its questions and cancels it. A task belongs to the principal of
//! its call: for any other principal it doesn't exist. Its state is kept for [`TASK_KEPT`], also when it is
//! done.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use haft::sync::lock;
use haft::{Cancel, Cause};
use rmcp::model::{ErrorData, Task, TaskStatus};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::client_info::ProtocolRevision;
use super::json_rpc::RequestResult;
use super::peer::InputRequest;
use super::results::{ResultStamp, invalid_params};
use super::session::RequestOutcome;
use super::suspended_calls::{CallSignal, QuestionSet, ResumableCall};
use super::tokens::random_secret;
use crate::limits::{TASK_KEPT, TASK_POLL_INTERVAL, TASKS_EACH_MAX, TASKS_MAX};

/// All tasks of one server.
#[derive(Default)]
pub(crate) struct CallTasks {
    tasks: TaskTable,
    /// Raised when the server ends.
    closing: Cancel,
}

type TaskTable = Arc<Mutex<HashMap<Box<str>, Arc<CallTask>>>>;

/// One task.
struct CallTask {
    id: Box<str>,
    principal: Option<Arc<str>>,
    created: SystemTime,
    cancel: Cancel,
    state: Mutex<TaskState>,
}

struct TaskState {
    updated: SystemTime,
    phase: TaskPhase,
}

enum TaskPhase {
    /// Running, with these open questions.
    Running(Vec<QuestionSet>),
    Completed(Box<RawValue>),
    Failed(ErrorData),
    Cancelled,
}

/// A task as its client sees it.
#[derive(Debug)]
pub(crate) struct TaskSnapshot {
    pub(crate) task: Task,
    pub(crate) payload: TaskPayload,
}

/// What a state adds to a task.
#[derive(Debug)]
pub(crate) enum TaskPayload {
    None,
    Questions(BTreeMap<String, InputRequest>),
    Result(Box<RawValue>),
    Error(ErrorData),
}

impl CallTasks {
    /// Makes a call a task. Returns the call if there are too many.
    pub(super) fn start(&self, mut call: ResumableCall) -> Result<RequestResult, Box<ResumableCall>> {
        let principal = call.identity.principal.clone();
        let mut tasks = lock(&self.tasks);
        let own_count = tasks.values().filter(|task| task.principal == principal).count();
        let id = random_secret(16).filter(|_| tasks.len() < TASKS_MAX && own_count < TASKS_EACH_MAX);
        let Some(id) = id else { return Err(Box::new(call)) };
        let now = SystemTime::now();
        let open = std::mem::take(&mut call.open);
        let task = Arc::new(CallTask {
            id: id.into(),
            principal,
            created: now,
            cancel: call.cancel.clone(),
            state: Mutex::new(TaskState { updated: now, phase: TaskPhase::Running(open) }),
        });
        tasks.insert(task.id.clone(), task.clone());
        let snapshot = task.snapshot().task;
        tokio::spawn(run(task, call, self.tasks.clone(), self.closing.clone()));
        Ok(RequestResult::TaskCreated(Box::new(snapshot)))
    }

    /// The state of a task.
    ///
    /// # Errors
    /// The principal has no such task.
    pub(crate) fn get(&self, id: &str, principal: Option<&str>) -> Result<RequestResult, ErrorData> {
        Ok(RequestResult::TaskState(Box::new(self.find(id, principal)?.snapshot())))
    }

    /// Takes answers to a task's questions. Others are ignored.
    ///
    /// # Errors
    /// The principal has no such task.
    pub(crate) fn update(
        &self,
        id: &str,
        principal: Option<&str>,
        mut responses: Map<String, Value>,
    ) -> Result<RequestResult, ErrorData> {
        self.find(id, principal)?.change(|phase| {
            if let TaskPhase::Running(open) = phase {
                let asked = std::mem::take(open);
                *open = asked.into_iter().filter_map(|questions| questions.answer(&mut responses)).collect();
            }
        });
        Ok(RequestResult::Empty)
    }

    /// Cancels a task, unless it is done.
    ///
    /// # Errors
    /// The principal has no such task.
    pub(crate) fn cancel(&self, id: &str, principal: Option<&str>) -> Result<RequestResult, ErrorData> {
        self.find(id, principal)?.cancel.cancel(Cause::User);
        Ok(RequestResult::Empty)
    }

    fn find(&self, id: &str, principal: Option<&str>) -> Result<Arc<CallTask>, ErrorData> {
        let task = lock(&self.tasks).get(id).filter(|task| task.principal.as_deref() == principal).cloned();
        task.ok_or_else(|| {
            invalid_params("there is no task with this `taskId`, or it was kept for long enough")
        })
    }

    /// Cancels all tasks and forgets them.
    pub(super) fn cancel_all(&self, cause: Cause) {
        for task in std::mem::take(&mut *lock(&self.tasks)).into_values() {
            task.cancel.cancel(cause);
        }
        self.closing.cancel(cause);
    }
}

/// Drives a task to its end, and removes it when it was kept for long enough.
async fn run(task: Arc<CallTask>, mut call: ResumableCall, tasks: TaskTable, closing: Cancel) {
    let expiry = Instant::now() + TASK_KEPT;
    let in_time = tokio::time::timeout_at(expiry, task.drive(&mut call)).await.is_ok();
    if in_time {
        tokio::select! {
            () = tokio::time::sleep_until(expiry) => {}
            _ = closing.cancelled() => {}
        }
    } else {
        task.cancel.cancel(Cause::Timeout);
        // The work limits its own cleanup.
        task.drive(&mut call).await;
    }
    lock(&tasks).remove(&task.id);
}

impl CallTask {
    async fn drive(&self, call: &mut ResumableCall) {
        loop {
            tokio::select! {
                biased;
                outcome = call.work.outcome() => return self.finish(outcome),
                Some(signal) = call.signals.recv() => {
                    if let CallSignal::Questions(questions) = signal {
                        self.change(|phase| {
                            if let TaskPhase::Running(open) = phase {
                                open.push(questions);
                            }
                        });
                    }
                }
            }
        }
    }

    fn finish(&self, outcome: RequestOutcome) {
        let done = match outcome {
            None => TaskPhase::Cancelled,
            Some(Err(error)) => TaskPhase::Failed(error),
            Some(Ok(result)) => match result.into_raw(&ResultStamp::new(ProtocolRevision::V2026_07_28)) {
                Ok(text) => TaskPhase::Completed(text),
                Err(error) => TaskPhase::Failed(ErrorData::internal_error(error.to_string(), None)),
            },
        };
        self.change(|phase| *phase = done);
    }

    fn change(&self, change: impl FnOnce(&mut TaskPhase)) {
        let mut state = lock(&self.state);
        change(&mut state.phase);
        state.updated = SystemTime::now();
    }

    fn snapshot(&self) -> TaskSnapshot {
        let state = lock(&self.state);
        let (status, payload) = match &state.phase {
            TaskPhase::Running(open) => {
                let open = open.iter().filter(|questions| !questions.is_withdrawn());
                let questions: BTreeMap<_, _> = open.flat_map(QuestionSet::unanswered).cloned().collect();
                if questions.is_empty() {
                    (TaskStatus::Working, TaskPayload::None)
                } else {
                    (TaskStatus::InputRequired, TaskPayload::Questions(questions))
                }
            }
            TaskPhase::Completed(result) => (TaskStatus::Completed, TaskPayload::Result(result.clone())),
            TaskPhase::Failed(error) => (TaskStatus::Failed, TaskPayload::Error(error.clone())),
            TaskPhase::Cancelled => (TaskStatus::Cancelled, TaskPayload::None),
        };
        let mut task = Task::new(&*self.id, status, iso_8601(self.created), iso_8601(state.updated));
        task.ttl_ms = Some(TASK_KEPT.as_millis() as u64);
        task.poll_interval_ms = Some(TASK_POLL_INTERVAL.as_millis() as u64);
        TaskSnapshot { task, payload }
    }
}

/// A point in time as text, in UTC.
fn iso_8601(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since March 1 of the year 0, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month_of_year) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month_of_year <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let milliseconds = since.subsec_millis();
    format!("{year:04}-{month_of_year:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_utc() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_795_132_799_001, "2026-11-19T23:59:59.001Z"),
        ] {
            assert_eq!(iso_8601(UNIX_EPOCH + Duration::from_millis(milliseconds)), expected);
        }
    }
}
