//! Reports of agents in the background to the main agent: each end once, unless it has looked at the result itself.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use haft::dispatch::TaskTable;
use haft::future::BoxFuture;
use haft::ports::{TaskId, TaskState, Tasks as _};
use haft::sync::lock;
use haft::text::truncate_chars;

/// How many characters of an answer are reported at once; `TaskOutput` shows the rest.
const ANSWER_CHARS_MAX: usize = 8_000;

/// Reports agents in the background that have ended.
pub struct BackgroundReports {
    tasks: Arc<TaskTable>,
    /// Whether their ends are waited for.
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

    /// Returns what has ended since the last call, as messages for the model.
    pub fn take(&self) -> Vec<String> {
        let mut reported = lock(&self.reported);
        let ended: Vec<TaskState> =
            self.agents().filter(|task| !task.running && reported.insert(task.id)).collect();
        ended.iter().filter_map(|task| self.report(task)).collect()
    }

    /// The end of one; none if it was looked at.
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
        let more = match shown.len() < text.len() {
            true => format!("\n[TaskOutput {{\"task_id\": \"{id}\"}} shows the rest]"),
            false => String::new(),
        };
        Some(format!("The agent in the background {id} ({about}) {how}:\n\n{shown}{more}"))
    }

    /// What has ended, if need be after a wait; none if nothing is awaited.
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
            poll_fn(|cx| match ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}
