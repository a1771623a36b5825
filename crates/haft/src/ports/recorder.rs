//! The port to the journal.

use std::fmt;

use serde_json::Value;

use crate::context::DirectoryChange;
use crate::decision::{Decision, DecisionSource};
use crate::effects::resolved::ResolvedEffects;
use crate::error::ErrorKind;
use crate::future::BoxFuture;
use crate::result::ToolResult;

/// Keeps a durable record of what is about to happen and what came of it.
///
/// This is a port and not an event sink: it is told *before* a call runs and can refuse. The engine calls
/// [`before`](Recorder::before) from the call's own task when everything else is settled, then
/// [`after`](Recorder::after) exactly once for each `before` that succeeded, unless the process dies. A
/// refusal stops a call that has side effects; a read-only one goes on, with a warning event.
pub trait Recorder: Send + Sync + 'static {
    /// Notes a call that is about to run. Return only when the note is as durable as it has to be.
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>>;

    /// Notes what came of it.
    fn after<'a>(
        &'a self,
        intent: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>>;

    /// Notes a call that is not run, and why: a rule, the user, a hook, an input that doesn't fit. Told once,
    /// in the course of the turn; must not block. By default nothing is noted.
    fn refused(&self, refusal: &RefusedCall<'_>) {
        let _ = refusal;
    }

    /// Notes what a hook made of a call. Only of hooks that did something or failed; must not block. By
    /// default nothing is noted.
    fn hooked(&self, hooked: &HookOutcome<'_>) {
        let _ = hooked;
    }

    /// Notes what was decided on a request of a child of a running call: a host that it wants to reach, or
    /// files whose change was undone. Must not block. By default nothing is noted.
    fn request_decided(&self, decided: &RequestDecision<'_>) {
        let _ = decided;
    }
}

/// A call that is not run.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RefusedCall<'a> {
    /// The agent that calls.
    pub agent: &'a str,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call_id: &'a str,
    /// The tool, as the call named it if there is none of that name.
    pub tool: &'a str,
    /// The input, as far as it could be read.
    pub input: &'a Value,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Its words: they name the rule, the hook or the answer.
    pub why: &'a str,
    /// The decision that refused it; none where the call didn't come that far.
    pub decision: Option<&'a Decision>,
}

/// What a hook made of a call.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct HookOutcome<'a> {
    /// The agent whose call it is.
    pub agent: &'a str,
    /// The turn.
    pub turn: u64,
    /// The call's id; none after all calls of a message.
    pub call_id: Option<&'a str>,
    /// When it ran: `before`, `permission`, `after`, `denied` or `batch`.
    pub when: &'static str,
    /// The hook.
    pub hook: &'a str,
    /// What came of it, in words.
    pub outcome: &'a str,
}

/// What was decided on a request of a child of a running call.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RequestDecision<'a> {
    /// The agent whose call it is.
    pub agent: &'a str,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call_id: &'a str,
    /// What it is about: hosts, each with its port, or paths.
    pub wanted: &'a [String],
    /// What was decided: `allowed`, or why not; for files what becomes of them.
    pub outcome: &'a str,
    /// The source of the decision.
    pub source: DecisionSource,
}

/// A call that is about to run.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CallIntent<'a> {
    /// The agent that calls: `main`, or a name that is unique in the session.
    pub agent: &'a str,
    /// The turn.
    pub turn: u64,
    /// The call's id.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The input.
    pub input: &'a Value,
    /// What it touches.
    pub effects: &'a ResolvedEffects,
    /// Whether it can change anything.
    pub side_effects: bool,
    /// Whether it may be run again after a crash.
    pub rerunnable: bool,
    /// The decision that allowed it.
    pub decision: &'a Decision,
    /// Where the agent has moved to: before the call, or after it.
    pub moved: &'a DirectoryChange,
}

impl<'a> HookOutcome<'a> {
    /// What a hook did that was about no single call.
    pub fn new(
        agent: &'a str,
        turn: u64,
        when: &'static str,
        hook: &'a str,
        outcome: &'a str,
    ) -> HookOutcome<'a> {
        HookOutcome { agent, turn, call_id: None, when, hook, outcome }
    }
}

/// A record that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// What was wrong.
    pub message: String,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RecordError {}
