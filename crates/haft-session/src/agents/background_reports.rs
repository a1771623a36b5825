//! Reports of background agents to the main agent: each end is reported once, unless the main agent has
//! already read the result.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use haft::dispatch::TaskTable;
use haft::future::BoxFuture;
use haft::ports::{TaskId, TaskState, Tasks as _};
use haft::sync::lock;
use haft::text::truncate_chars;

/// The maximum number of characters of an answer in a report; `TaskOutput` shows the rest.
const ANSWER_CHARS_MAX: usize = 8_000;

/// Reports background agents that have ended.
pub struct BackgroundReports {
    tasks: Arc<TaskTable>,
    /// Whether the run waits for them.
    waits: bool,
    reported: Mutex<BTreeSet<TaskId>>,
}

impl BackgroundReports {
    pub fn new(tasks: &Arc<TaskTable>, waits: bool) -> BackgroundReports {
        BackgroundReports { tasks: tasks.clone(), waits, reported: Mutex::default() }
    }

    fn agents(&self) -> impl Iterator<Item = TaskState> {
        self.tasks.list().into_iter().filter(|task| task.effects.delegates)
    }

    /// Returns the ends since the last call, as messages for the model.
    pub fn take(&self) -> Vec<String> {
        let mut reported = lock(&self.reported);
        let ended: Vec<TaskState> =
            self.agents().filter(|task| !task.running && reported.insert(task.id)).collect();
        ended.iter().filter_map(|task| self.report(task)).collect()
    }

    /// Returns the report of an ended agent; `None` if its result was read already.
    fn report(&self, task: &TaskState) -> Option<String> {
        let TaskState { id, about, .. } = task;
        let log = self.tasks.log(*id);
        if log.is_some_and(|log| log.last_look() >= log.size().bytes) {
            return None;
        }
        let result = self.tasks.result(*id)?;
        let (how, text) = match result.outcome() {
            Ok(output) => ("has answered", output.to_text().to_string()),
            Err(error) => ("has failed", error.message().to_owned()),
        };
        let shown = truncate_chars(&text, ANSWER_CHARS_MAX);
        let more = if shown.len() < text.len() {
            format!("\n[TaskOutput {{\"task_id\": \"{id}\"}} shows the rest]")
        } else {
            String::new()
        };
        Some(format!("The agent in the background {id} ({about}) {how}:\n\n{shown}{more}"))
    }

    /// Returns the next report, waiting for it if necessary; `None` if the run doesn't wait.
    pub async fn next(&self) -> Option<String> {
        loop {
            let news = self.take();
            if !news.is_empty() {
                return Some(news.join("\n\n"));
            }
            let running: Vec<TaskId> =
                self.agents().filter(|task| task.running).map(|task| task.id).collect();
            if running.is_empty() || !self.waits {
                return None;
            }
            let mut ends: Vec<BoxFuture<'_, ()>> =
                running.iter().map(|task| self.tasks.ended(*task)).collect();
            poll_fn(|cx| {
                if ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready()) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }
}
