//! What a model's reply says while it arrives.

use std::time::Duration;

use haft::ToolCall;

use crate::reply::{ModelFailure, TokenUsage};

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// The message began.
    Started {
        /// The model that writes it, where the provider reports it.
        model: Option<String>,
    },
    /// More of the answer's text.
    Text(String),
    /// More of what the model thinks, where it is shown.
    Thinking(String),
    /// A call began; its input is still being written.
    CallBegun {
        /// Its number in the message, from 0.
        call: usize,
        /// The id that its result has to carry; may be empty for Gemini.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's input, as JSON text that is not whole yet. To be shown, never to be run.
    CallInput {
        /// The call's number.
        call: usize,
        /// The text.
        json: String,
    },
    /// A call with its whole input. Calls get ready in the order in which they have to be answered.
    CallReady {
        /// The call's number.
        call: usize,
        /// The call.
        ready: ToolCall,
    },
    /// What the message cost so far.
    Usage(TokenUsage),
    /// What came so far counts no more: the message begins anew.
    Restarted,
    /// The request is made again after a while.
    Retrying {
        /// Why.
        failure: ModelFailure,
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How long until then.
        wait: Duration,
    },
}
