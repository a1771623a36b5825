//! Scheduled prompts in a run: the model receives them between two turns while it works, and immediately
//! while it doesn't.
//!
//! Hooks for user messages also run for these prompts, since they replace messages of the user. The loop
//! fires them for an idle model, and this file while the model works.

use haft::sync::lock;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use haft_agent::{LoopHooks, RunHandle};
use haft_tools::cron::CronTable;

use crate::NoticeSink;
use crate::text::one_line;

/// The schedule, and prompts that were due while no run could accept them.
pub struct ScheduledPrompts {
    crons: Arc<CronTable>,
    waiting: Mutex<VecDeque<String>>,
    notices: NoticeSink,
}

impl ScheduledPrompts {
    /// Starts the schedule. From now on a run waits for due prompts.
    pub fn begin(crons: Arc<CronTable>, notices: NoticeSink) -> ScheduledPrompts {
        crons.begin();
        ScheduledPrompts { crons, waiting: Mutex::default(), notices }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<String>> {
        lock(&self.waiting)
    }

    /// Waits for the next due prompt.
    ///
    /// # Cancel safety
    /// No prompt is lost when the future is dropped.
    pub async fn next(&self) -> String {
        let waiting = self.waiting().pop_front();
        match waiting {
            Some(words) => words,
            None => self.crons.due().await.words(),
        }
    }

    /// Runs to the end, and meanwhile sends the run due prompts that no hook blocks.
    pub async fn run_beside<T>(
        &self,
        handle: &RunHandle,
        session: &impl LoopHooks,
        run: impl Future<Output = T>,
    ) -> T {
        let telling = async {
            loop {
                let mut words = self.next().await;
                // If the run ends in the meantime, the prompt waits for the next run.
                self.waiting().push_front(words.clone());
                let verdict = session.before_message(&words).await;
                self.waiting().pop_front();
                if let Some(reason) = &verdict.blocked {
                    let reason = one_line(reason);
                    self.notices.warn(format!("a planned prompt was not told: a hook says {reason}"));
                    continue;
                }
                if let Some(context) = &verdict.context {
                    words = format!("{words}\n\n{context}");
                }
                if handle.post(words.as_str()).is_err() {
                    // The run is over, or its queue is full. The next run accepts the prompt.
                    self.waiting().push_back(words);
                    std::future::pending::<Infallible>().await;
                }
            }
        };
        tokio::select! {
            biased;
            outcome = run => outcome,
            never = telling => match never {},
        }
    }

    /// Reports what ends with the session, and errors.
    pub fn report(&self) {
        match self.crons.unkept() {
            0 => {}
            1 => self.notices.warn("1 planned prompt ended with the session"),
            more => self.notices.warn(format!("{more} planned prompts ended with the session")),
        }
        if let Some(words) = self.crons.take_trouble() {
            self.notices.warn(one_line(&words));
        }
    }
}
