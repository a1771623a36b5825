//! The agent loop: asks a model, runs its calls, returns the results, until the model stops.
//!
//! [`AgentLoop`] is the loop, [`RunEvent`] what it reports, [`RunOptions`] its limits, [`RunHandle`] its
//! remote control and [`RunOutcome`] its result. It works with any [`Model`]. What depends on the form of a
//! provider's messages is behind [`MessageFormat`]: this crate passes the items of a [`Conversation`] on and
//! never looks into them. The crate `haft-provider` has the formats and models of the vendors.
//!
//! ```
//! use std::sync::Arc;
//!
//! use haft::Engine;
//! use haft_agent::{Conversation, AgentLoop, Model, RunEvent, RunOptions};
//!
//! async fn ask(engine: Engine, model: impl Model, question: &str) -> String {
//!     let mut conversation = Conversation::new(model.format());
//!     let agent = AgentLoop::new(engine, model)
//!         .options(RunOptions::new().max_turns(20))
//!         .events(Arc::new(|event: RunEvent| println!("{event:?}")));
//!     agent.run(&mut conversation, question).await.text
//! }
//! ```
#![warn(missing_docs)]

pub mod limits;

mod agent_loop;
mod conversation;
mod conversation_recorder;
mod message_format;
mod model;
mod reply;
mod reply_delta;
mod run_event;
mod run_handle;
mod run_options;
mod run_outcome;
mod tool_definitions;
mod usage_meter;

pub use agent_loop::AgentLoop;
pub use conversation::Conversation;
pub use conversation_recorder::{ConversationRecorder, InterruptedTurn};
pub use message_format::{
    CallAnswers, CallKind, ExcerptLine, MessageFormat, RequestedCall, UnreadableMessage, UserPart,
};
pub use model::{Model, ModelRequest, ReplyStream};
pub use reply::{FailureKind, ModelFailure, ModelReply, StopReason, TokenUsage};
pub use reply_delta::ReplyDelta;
pub use run_event::{RunEvent, RunSink, ToolEventSink};
pub use run_handle::{PostError, RunHandle};
pub use run_options::{LoopHooks, MessageReview, RunOptions, TokenPrices};
pub use run_outcome::{RunEnd, RunLimit, RunOutcome};
pub use tool_definitions::{SkippedTool, ToolDeferral, ToolDefiner, ToolDefinitions, UnknownDeferral};
pub use usage_meter::{UsageMeter, UsageTotal};
