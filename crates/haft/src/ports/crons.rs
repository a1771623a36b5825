//! The port to prompts that are planned for later.

use std::fmt;

use serde::Serialize;

/// Keeps prompts, and gives them to the loop when their time comes.
///
/// Called by tools, from any task; quick, but what is to outlive the session is on disk when a call returns.
pub trait Crons: Send + Sync + 'static {
    /// Plans a prompt.
    ///
    /// # Errors
    /// In words for the model: no such time, too many already, nothing would fire here, or it can't be kept.
    fn create(&self, new: NewCron) -> Result<CronState, String>;

    /// Forgets one; what it was, if there was one of this name.
    ///
    /// # Errors
    /// It can't be forgotten for good, in words.
    fn delete(&self, id: &str) -> Result<Option<CronState>, String>;

    /// All of them, by the time at which they are due.
    fn list(&self) -> Vec<CronState>;
}

/// A prompt to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCron {
    /// When: minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// What the model is told then.
    pub prompt: String,
    /// Every time, and not only the first.
    pub recurring: bool,
    /// Kept for later sessions.
    pub durable: bool,
}

/// A prompt that is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CronState {
    /// Its name, for example `cron-1`.
    pub id: String,
    /// When.
    pub cron: String,
    /// What the model is told then.
    pub prompt: String,
    /// Every time, and not only the first.
    pub recurring: bool,
    /// Kept for later sessions.
    pub durable: bool,
    /// The next time, in the zone of the machine, as `2026-03-01T08:30:00+01:00[Europe/Vienna]`.
    pub next: String,
}

impl CronState {
    /// A prompt that is planned for `next`.
    pub fn new(id: impl Into<String>, of: NewCron, next: impl Into<String>) -> CronState {
        let NewCron { cron, prompt, recurring, durable } = of;
        CronState { id: id.into(), cron, prompt, recurring, durable, next: next.into() }
    }
}

impl fmt::Display for CronState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let often = if self.recurring { "every time" } else { "once" };
        let kept = if self.durable { ", kept for later sessions" } else { "" };
        write!(f, "{}  `{}`  {often}{kept}, next {}", self.id, self.cron, self.next)
    }
}
