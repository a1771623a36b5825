//! The port to what a session has done: its calls, as far as they are remembered.

use serde_json::Value;

use crate::effects::Effects;

/// Tells which calls of a session ran.
///
/// Asked by tools that compare what was done with something else; quick, never waits. Only calls whose execution began are
/// there, those of sub-agents too; [`CallLog`](crate::call_log::CallLog) keeps them.
pub trait History: Send + Sync + 'static {
    /// The calls that are remembered, oldest first.
    fn calls(&self) -> Vec<PastCall>;

    /// How many older ones are forgotten.
    fn forgotten(&self) -> u64;
}

/// A call that ran.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PastCall {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The agent that made it.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The input; long texts in it are cut.
    pub input: Value,
    /// What it declared.
    pub effects: Effects,
    /// What it was about, as its view says: a path, a command.
    pub about: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
}
