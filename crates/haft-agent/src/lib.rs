//! The agent loop: asks a model, runs its calls, returns the results, until the model stops.
//!
//! [`Loop`] is the loop, [`RunEvent`] what it reports, [`RunOptions`] its limits, [`Handle`] its remote control and
//! [`Outcome`] its result. It works with any [`Model`]. What depends on the form of a provider's messages is behind
//! [`MessageFormat`]: this crate passes the items of a [`Conversation`] on and never looks into them. The crate
//! `haft-provider` has the formats and models of the vendors.
//!
//! ```
//! use std::sync::Arc;
//!
//! use haft::Engine;
//! use haft_agent::{Conversation, Loop, Model, RunEvent, RunOptions};
//!
//! async fn ask(engine: Engine, model: impl Model, question: &str) -> String {
//!     let mut conversation = Conversation::new(model.format());
//!     let agent = Loop::new(engine, model)
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

pub use agent_loop::Loop;
pub use conversation::Conversation;
pub use conversation_recorder::{CutOff, Keeper};
pub use message_format::{
    CallAnswers, CallKind, ExcerptLine, MessageFormat, RequestedCall, UnreadableMessage, UserPart,
};
pub use model::{Incoming, Model, Prompt};
pub use reply::{Failure, FailureKind, Reply, Stop, Usage};
pub use reply_delta::Delta;
pub use run_event::{RunEvent, RunSink, ToolEvents};
pub use run_handle::{Handle, NotPosted};
pub use run_options::{Prices, PromptVerdict, RunOptions, Session};
pub use run_outcome::{Ended, Limit, Outcome};
pub use tool_definitions::{Deferral, LeftOut, ToolDefiner, Tools, UnknownDeferral};
pub use usage_meter::{Account, Spent};
