//! What happens in a run, as one enum for screens and logs.

use std::sync::Arc;

use haft::ToolResult;
use haft::call::CallInput;
use haft::event::{EventKind, EventSink};
use serde_json::{Value, json};

use crate::reply::{StopReason, TokenUsage};
use crate::reply_delta::ReplyDelta;
use crate::run_outcome::RunEnd;

/// Something that happened in a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunEvent {
    /// The model is asked, for the nth time, from 1.
    Asked {
        /// Which time.
        turn: u64,
        /// The tools that the provider can't take, and that the model is not told of.
        left_out: Vec<Arc<str>>,
    },
    /// The model says something, or begins, or is asked again.
    Model(ReplyDelta),
    /// A tool does something: the engine's own event. Only where the engine was given [`ToolEventSink`].
    Tool(haft::event::Event),
    /// The model's message is over.
    Replied {
        /// Which time.
        turn: u64,
        /// Why.
        stop: StopReason,
        /// What it cost.
        usage: TokenUsage,
    },
    /// All calls of a message have their results.
    Answered {
        /// Which time.
        turn: u64,
        /// The results, in order.
        results: Vec<ToolResult>,
    },
    /// Somebody interrupted, and these tools finish first. A second interrupt stops them too.
    Finishing {
        /// Their names.
        tools: Vec<String>,
    },
    /// Words of the user went in.
    Said(String),
    /// Old results were cleared to make room.
    Cleared {
        /// How many.
        results: usize,
    },
    /// The conversation was replaced by a summary of it.
    Summarised {
        /// The summary.
        summary: String,
    },
    /// Something happened in the run of a sub-agent.
    Agent {
        /// The agent.
        agent: Arc<str>,
        /// The call that it works for.
        call: Arc<str>,
        /// What happened.
        event: Box<RunEvent>,
    },
    /// The run is over.
    Ended {
        /// Why.
        why: RunEnd,
        /// What everything cost.
        usage: TokenUsage,
    },
}

/// Takes events of a run. Called from the run itself, so it must not block.
pub trait RunSink: Send + Sync + 'static {
    /// Takes one event.
    fn send(&self, event: RunEvent);
}

impl<F: Fn(RunEvent) + Send + Sync + 'static> RunSink for F {
    fn send(&self, event: RunEvent) {
        self(event);
    }
}

/// Brings an engine's events into a run's: give it to [`EngineBuilder::events`](haft::EngineBuilder::events).
#[derive(Clone)]
pub struct ToolEventSink(Arc<dyn RunSink>);

impl ToolEventSink {
    /// Events go here.
    pub fn new(sink: Arc<dyn RunSink>) -> ToolEventSink {
        ToolEventSink(sink)
    }
}

impl EventSink for ToolEventSink {
    fn send(&self, event: haft::event::Event) {
        self.0.send(RunEvent::Tool(event));
    }
}

impl RunEvent {
    /// The event as JSON, one object with a `type`; none for what only a screen needs.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            RunEvent::Asked { turn, .. } => json!({"type": "turn", "turn": turn}),
            RunEvent::Model(delta) => return model(delta),
            RunEvent::Tool(event) => return tool(event),
            RunEvent::Replied { turn, stop, usage } => {
                json!({"type": "replied", "turn": turn, "stop": stop.word(), "usage": usage})
            }
            RunEvent::Answered { turn, results } => {
                let results: Vec<Value> = results.iter().map(result).collect();
                json!({"type": "results", "turn": turn, "results": results})
            }
            RunEvent::Finishing { tools } => json!({"type": "finishing", "tools": tools}),
            RunEvent::Said(text) => json!({"type": "user", "text": text}),
            RunEvent::Cleared { results } => json!({"type": "cleared", "results": results}),
            RunEvent::Summarised { summary } => json!({"type": "summarised", "summary": summary}),
            RunEvent::Agent { agent, call, event } => {
                let mut shown = event.to_json()?;
                shown["agent"] = (&**agent).into();
                shown["parent_tool_use_id"] = (&**call).into();
                shown
            }
            RunEvent::Ended { why, usage } => {
                json!({"type": "ended", "stop": why.word(), "reason": why.to_string(), "usage": usage})
            }
        })
    }
}

/// A result as `haft call --output json` prints it, with the call's id.
pub(crate) fn result(result: &ToolResult) -> Value {
    let mut shown = serde_json::to_value(result.to_json()).unwrap_or_default();
    shown["call_id"] = result.call_id().into();
    shown
}

fn model(delta: &ReplyDelta) -> Option<Value> {
    Some(match delta {
        ReplyDelta::Started { model } => json!({"type": "started", "model": model}),
        ReplyDelta::Text(text) => json!({"type": "text", "text": text}),
        ReplyDelta::Thinking(text) => json!({"type": "thinking", "text": text}),
        ReplyDelta::CallBegun { call, id, name } => {
            json!({"type": "call_begun", "call": call, "call_id": id, "tool_name": name})
        }
        ReplyDelta::CallInput { call, json } => json!({"type": "call_input", "call": call, "json": json}),
        ReplyDelta::CallReady { call, ready } => {
            let input = match &ready.input {
                CallInput::Text(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
                CallInput::Value(value) => value.clone(),
            };
            json!({"type": "call", "call": call, "call_id": &*ready.id, "tool_name": &*ready.name, "input": input})
        }
        ReplyDelta::Usage(usage) => json!({"type": "usage", "usage": usage}),
        ReplyDelta::Restarted => json!({"type": "restarted"}),
        ReplyDelta::Retrying { failure, attempt, wait } => {
            json!({"type": "retrying", "attempt": attempt, "wait_ms": wait.as_millis() as u64, "failure": failure})
        }
    })
}

fn tool(event: &haft::event::Event) -> Option<Value> {
    let mut shown = match &event.what {
        EventKind::Asking => json!({"type": "tool_asking"}),
        EventKind::Started { input, .. } => json!({"type": "tool_started", "input": **input}),
        EventKind::Partial(text) => json!({"type": "tool_output", "text": text}),
        EventKind::Finished(done) => json!({"type": "tool_finished", "result": result(done)}),
        EventKind::BackgroundFinished(done) => json!({"type": "tool_finished_later", "result": result(done)}),
        EventKind::BlocksThread { since } => {
            json!({"type": "tool_blocks", "since_ms": since.as_millis() as u64})
        }
        EventKind::Warning(text) => json!({"type": "warning", "text": text}),
        EventKind::Message(text) => json!({"type": "message", "text": text}),
        // Views and progress bars are for screens.
        _ => return None,
    };
    shown["agent"] = (&*event.agent).into();
    shown["turn"] = event.turn.into();
    if let Some(call) = &event.call {
        shown["call"] = call.index.into();
        shown["call_id"] = (&*call.id).into();
        shown["tool_name"] = (&*call.tool).into();
    }
    Some(shown)
}
