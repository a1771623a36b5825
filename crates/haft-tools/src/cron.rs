//! Prompts that are planned for later: when they are due, who keeps them, who is told.
//!
//! `CronCreate`, `CronDelete` and `CronList` share the [`CronTable`] of their session; without one they are
//! not offered. A loop takes what is [due](CronTable::due) as words for the model. Times are those of a zone:
//! see [`CronExpression`] for what happens where its clocks are changed.
//!
//! - `expression` is minute, hour, day, month and weekday, and the next time that fits.
//! - `table` keeps prompts and waits for the first one.
//! - `kept` keeps those that outlive a session, in a file that several sessions may share.

use std::sync::Arc;

use haft::ToolError;

pub mod create;
mod cron_table;
pub mod delete;
mod expression;
pub mod list;
mod persistent_crons;

pub use create::CronCreate;
pub use cron_table::{Clock, CronState, CronTable, DueCron, NewCron, SystemClock};
pub use delete::CronDelete;
pub use expression::{CronExpression, InvalidCronExpression};
pub use jiff::Timestamp;
pub use jiff::tz::TimeZone;
pub use list::CronList;

/// How many prompts a session plans at most, and how many are kept for later sessions of one workspace.
pub const CRONS_MAX: usize = 50;
/// The longest planned prompt, in characters.
pub const PROMPT_CHARS_MAX: usize = 10_000;
/// The state that planned prompts are.
pub const STATE: &str = "session:cron";
/// What a prompt that outlives the session changes beside it.
pub const KEPT: &str = "kept:cron";
/// Why tools without a table are not offered.
pub(crate) const NO_TABLE: &str = "this session schedules no prompts";

/// The table of a session, for a tool that was made with one.
pub(crate) fn require_table(crons: &Option<Arc<CronTable>>) -> Result<&CronTable, ToolError> {
    crons.as_deref().ok_or_else(|| ToolError::new(NO_TABLE))
}
