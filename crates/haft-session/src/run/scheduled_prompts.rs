//! Scheduled prompts in a run: the model gets them between two turns while it works, and at once while it doesn't.
//!
//! Hooks that hear what the user says hear these too, since they are said in the user's place: at once by the loop itself, and
//! while it works here.

use haft::sync::lock;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use haft_agent::{LoopHooks, RunHandle};
use haft_tools::cron::CronTable;

use crate::NoticeSink;
use crate::text::one_line;

/// What is scheduled, and what was due while no run could take it.
pub struct ScheduledPrompts {
    crons: Arc<CronTable>,
    waiting: Mutex<VecDeque<String>>,
    notices: NoticeSink,
}

impl ScheduledPrompts {
    /// From here on a run waits for what is due.
    pub fn begin(crons: Arc<CronTable>, notices: NoticeSink) -> ScheduledPrompts {
        crons.begin();
        ScheduledPrompts { crons, waiting: Mutex::default(), notices }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<String>> {
        lock(&self.waiting)
    }

    /// What the model is to be told next, when its time has come.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&self) -> String {
        let waiting = self.waiting().pop_front();
        match waiting {
            Some(words) => words,
            None => self.crons.due().await.words(),
        }
    }

    /// Runs to the end, and tells the run meanwhile what is due and no hook holds back.
    pub async fn run_beside<T>(
        &self,
        handle: &RunHandle,
        session: &impl LoopHooks,
        run: impl Future<Output = T>,
    ) -> T {
        let telling = async {
            loop {
                let mut words = self.next().await;
                // Where the run ends meanwhile it waits for the next.
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
                    // The run is over, or its queue is full; the next run takes it.
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

    /// Says what ends with the session, and what went wrong.
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
