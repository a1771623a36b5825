//! The outcome of a run.

use std::fmt;

use haft::call::CallInput;
use haft::{ErrorKind, ToolCall, ToolResult};
use serde_json::{Value, json};

use crate::reply::{ModelFailure, StopReason, TokenUsage};
use crate::run_event;

/// The outcome of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The model's last words.
    pub text: String,
    /// Why it ended.
    pub ended: RunEnd,
    /// How often the model was asked.
    pub turns: u64,
    /// What everything cost.
    pub usage: TokenUsage,
    /// What it cost in money, where prices are known.
    pub cost: Option<f64>,
    /// The calls with their results, in order.
    pub calls: Vec<(ToolCall, ToolResult)>,
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunEnd {
    /// The model has finished.
    Finished,
    /// The model's message ended in a way after which it is not asked again: refused, too long, unknown.
    Stopped(StopReason),
    /// A limit of the options was reached.
    Limit(RunLimit),
    /// The user interrupted.
    Interrupted,
    /// A result ended the turn: the user said no, or a hook stopped it. With the reason, where there is one.
    TurnEnded(Option<String>),
    /// The host blocked the user's words, for this reason.
    Blocked(String),
    /// The model can't be reached, or doesn't answer as it should.
    Failed(ModelFailure),
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLimit {
    /// How often the model may be asked.
    Turns,
    /// How many tokens everything may cost.
    Tokens,
    /// How much money everything may cost.
    Cost,
    /// How long it may take.
    Time,
}

impl RunEnd {
    /// One word for it: `end`, `max_turns`, `interrupted` …
    pub fn word(&self) -> &str {
        match self {
            RunEnd::Finished => "end",
            RunEnd::Stopped(stop) => stop.word(),
            RunEnd::Limit(RunLimit::Turns) => "max_turns",
            RunEnd::Limit(RunLimit::Tokens) => "max_total_tokens",
            RunEnd::Limit(RunLimit::Cost) => "max_cost",
            RunEnd::Limit(RunLimit::Time) => "max_time",
            RunEnd::Interrupted => "interrupted",
            RunEnd::TurnEnded(_) => "turn_ended",
            RunEnd::Blocked(_) => "blocked",
            RunEnd::Failed(_) => "failed",
        }
    }

    /// Whether the model said what it had to say.
    pub fn is_finished(&self) -> bool {
        matches!(self, RunEnd::Finished)
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunEnd::Finished => f.write_str("the model has finished"),
            RunEnd::Stopped(stop) => stop.fmt(f),
            RunEnd::Limit(RunLimit::Turns) => f.write_str("the most turns were reached"),
            RunEnd::Limit(RunLimit::Tokens) => f.write_str("the most tokens were reached"),
            RunEnd::Limit(RunLimit::Cost) => f.write_str("the most money was spent"),
            RunEnd::Limit(RunLimit::Time) => f.write_str("the time is over"),
            RunEnd::Interrupted => f.write_str("interrupted"),
            RunEnd::TurnEnded(Some(reason)) => write!(f, "the turn was ended: {reason}"),
            RunEnd::TurnEnded(None) => f.write_str("the turn was ended by the answer no"),
            RunEnd::Blocked(reason) => write!(f, "blocked: {reason}"),
            RunEnd::Failed(failure) => failure.fmt(f),
        }
    }
}

impl RunOutcome {
    /// The calls that rules, hooks or the user didn't let through.
    pub fn denials(&self) -> impl Iterator<Item = &(ToolCall, ToolResult)> {
        self.calls.iter().filter(|(_, result)| {
            matches!(
                result.error_kind(),
                Some(ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Blocked | ErrorKind::HookFailed)
            )
        })
    }

    /// The outcome as `haft run --output json` prints it.
    pub fn to_json(&self) -> Value {
        self.json(self.text.as_str().into())
    }

    /// The same without a copy of the text.
    pub fn into_json(mut self) -> Value {
        let text = std::mem::take(&mut self.text);
        self.json(text.into())
    }

    fn json(&self, text: Value) -> Value {
        let call = |(call, result): &(ToolCall, ToolResult)| {
            let asked = match &call.input {
                CallInput::Text(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
                CallInput::Value(value) => value.clone(),
            };
            let shown = run_event::result(result);
            json!({
                "id": &*call.id, "tool_name": result.tool_name(), "input": result.input().cloned().unwrap_or(asked),
                "is_error": result.is_error(), "error": shown["error"], "duration_ms": shown["duration_ms"],
                "result": shown["output"],
            })
        };
        let mut shown = json!({
            "text": null, "stop": self.ended.word(), "turns": self.turns, "usage": self.usage,
            "calls": self.calls.iter().map(call).collect::<Vec<_>>(),
            "denials": self.denials().map(call).collect::<Vec<_>>(),
        });
        shown["text"] = text;
        if let Some(cost) = self.cost {
            shown["cost"] = cost.into();
        }
        if !self.ended.is_finished() {
            shown["reason"] = self.ended.to_string().into();
        }
        shown
    }
}
