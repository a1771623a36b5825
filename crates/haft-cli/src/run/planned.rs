//! Planned prompts in a run: told between two turns while the model works, and at once while it doesn't.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use haft_provider::run::Handle;
use haft_tools::cron::CronTable;

use crate::output;

/// What is planned, and what was due when nobody took it.
pub(super) struct Planned {
    crons: Arc<CronTable>,
    waiting: Mutex<VecDeque<String>>,
}

impl Planned {
    /// From here on somebody waits for what is due.
    pub(super) fn begin(crons: Arc<CronTable>) -> Planned {
        crons.begin();
        Planned { crons, waiting: Mutex::default() }
    }

    /// What the model is to be told next, when its time has come.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn next(&self) -> String {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match waiting {
            Some(words) => words,
            None => self.crons.due().await.words(),
        }
    }

    /// Runs to the end, and tells the run meanwhile what is due.
    pub(super) async fn beside<T>(&self, handle: &Handle, run: impl Future<Output = T>) -> T {
        let telling = async {
            loop {
                let words = self.next().await;
                if handle.post(words.as_str()).is_err() {
                    // The run is over, or has too much to hear; it is told with the next.
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(words);
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
    pub(super) fn report(&self) {
        match self.crons.unkept() {
            0 => {}
            1 => output::warning("1 planned prompt ended with the session"),
            more => output::warning(&format!("{more} planned prompts ended with the session")),
        }
        if let Some(words) = self.crons.take_trouble() {
            output::warning(&output::one_line(&words));
        }
    }
}
