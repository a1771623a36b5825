//! The tool system of a language-model agent: everything between "the model asked for these calls" and "here are the
//! results".
//!
//! A model can only produce text; tools are its hands. This crate has the contract of a [`Tool`], the [`Registry`] that
//! holds tools, the [pipeline] that every call goes through, the [scheduler](dispatch) that runs
//! many calls safely at once, and the results. It knows no vendor, no protocol, no terminal and no settings file:
//! those reach it through [ports].
//!
//! # The one idea
//!
//! A call declares its [`Effects`], and everything reads that one declaration: whether it may run beside others,
//! whether it asks, what a sandbox lets it touch, whether it may be repeated, what a person is shown.
//!
//! # A turn
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::{Effects, Engine, Registry, ToolCall, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let add = tool("add", "Adds two numbers.", |Add { a, b }, _cx| async move { Ok(a + b) })
//!     .effects(|_| Effects::none());
//! let engine = Engine::new(Registry::new().with(add)?);
//!
//! let turn = engine.turn();                                  // pins the tools: what is sent is what can be called
//! let calls = [ToolCall::new("1", "add", r#"{"a": 1, "b": 2}"#), ToolCall::new("2", "ad", "{}")];
//! let results = turn.run(calls).await;                       // one for each call, in order, whatever happens
//!
//! assert_eq!(results[0].to_json().output, 3);
//! assert_eq!(results[1].error().unwrap().message(), "no tool named `ad`; closest: `add`");
//! # Ok(()) }
//! ```
//!
//! # Where to read on
//!
//! [`Tool`] for the contract, [`pipeline`] for the eight steps of a call, [`dispatch`] for many calls,
//! [`effects::table`] for what follows from a declaration.
#![warn(missing_docs)]

#[cfg(panic = "abort")]
compile_error!("haft answers a tool's panic with a result and needs `panic = \"unwind\"`");

pub mod canonical;
pub mod circuit_breaker;
pub mod context;
pub mod decision;
pub mod dispatch;
pub mod effects;
pub mod env;
pub mod event;
pub mod files;
pub mod hooks;
pub mod isolate;
pub mod limits;
pub mod ports;
pub mod results;
pub mod schema;
pub mod search;
pub mod spelling;
pub mod sse;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod view;

mod call;
mod call_log;
mod content;
mod engine;
mod error;
mod future;
mod permission;
pub mod pipeline;
#[cfg(doctest)]
mod readme;
mod registry;
mod result;
mod supervise;
mod tool;

pub use {schemars, serde, serde_json};

pub use call::{CallInput, ToolCall};
pub use call_log::{CallLog, EarlierCall};
pub use content::{Blob, Content, IntoOutput, Json, Output, ResourceLink};
pub use context::{Context, Moved};
pub use decision::{Decision, DecisionReason, DecisionSource, Verdict};
pub use dispatch::{ConflictRule, Detached, PendingCall, TaskTable, Turn, TurnHandle};
pub use effects::resolved::Workspace;
pub use effects::table::Class;
pub use effects::{Effects, Extent, PathSet};
pub use engine::{CheckOptions, Engine, EngineBuilder, MAIN_AGENT};
pub use error::{ErrorKind, ToolError};
pub use event::{Event, EventSink};
pub use future::BoxFuture;
pub use haft_scheduler::{Cancel, CancelledFuture, Cause, Interrupt};
pub use hooks::Hooks;
pub use isolate::isolated;
pub use permission::{BadRule, Permissions};
pub use ports::{PermissionMode, Port, Ports};
pub use registry::{
    Assembly, Entry, Gates, Listing, NotFound, Offer, Origin, Registry, RegistryError, Snapshot, Withheld,
};
pub use result::{ErrorJson, ResultJson, ToolResult};
pub use results::OffloadStore;
pub use results::ResultLimit::{self, Chars, Unlimited};
pub use tool::{
    AnyTool, BadTool, Breaker, DynamicTool, Exposure, FnTool, Guard, GuardDenied, IntoTools, ListedClass,
    NoInput, Retry, SiblingPolicy, Timeout, Tool, ToolSpec, dynamic_tool, tool,
};
pub use view::{Stage, View};
