//! The tool system of a language-model agent: everything between "the model asked for these calls" and "here
//! are the results".
//!
//! A model can only produce text; tools are its hands. This crate has the contract of a [`Tool`], the
//! [`Registry`] that holds tools, the [pipeline] that every call goes through, the [scheduler](dispatch) that
//! runs many calls safely at once, and the results. It knows no vendor, no protocol, no terminal and no
//! settings file: those reach it through [ports].
//!
//! The root of the crate is for tool authors: what a tool is written with, and what runs it in a test or a
//! small program. Everything that only a host needs is in a module.
//!
//! # The one idea
//!
//! A call declares its [`Effects`], and everything reads that one declaration: whether it may run beside
//! others, whether it asks, what a sandbox lets it touch, whether it may be repeated, what a person is shown.
//!
//! # Writing tools
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::schemars::JsonSchema;
//! use haft::serde::Deserialize;
//! use haft::{Effects, Engine, Registry, ToolCall, tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(crate = "haft::serde")]
//! #[schemars(crate = "haft::schemars")]
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
//! [`serde`], [`schemars`] and [`serde_json`] are re-exported, so that a crate with tools needs no dependency
//! on them: the two `crate = …` attributes tell the derive macros where they are. A crate that depends on
//! them itself leaves the attributes out; it has to use the same major versions.
//!
//! | for | read |
//! |---|---|
//! | the contract of a tool | [`Tool`], or [`tool()`] and [`dynamic_tool`] for closures |
//! | what never changes about a tool: names, limits, retries | [`ToolSpec`], [`mod@tool`] |
//! | what a call touches, and what follows from it | [`Effects`], [`effects::table`] |
//! | what a call may use: files, progress, cancellation, the host's ports | [`Context`] |
//! | what a call returns | [`IntoOutput`], [`ToolOutput`], [`ResultBlock`], [`ToolError`] |
//! | tests without a model, a disk or a clock | the module `testing`, behind the feature of that name |
//!
//! # Hosting an engine
//!
//! A host builds an [`Engine`] with an [`EngineBuilder`] and takes one [turn](dispatch::Turn) for each
//! message of the model.
//!
//! | for | read |
//! |---|---|
//! | building and running an engine, sub-agents | [`engine`] |
//! | which tools there are, and which a turn offers | [`registry`], [`search`] |
//! | the eight steps of a call | [`pipeline`] |
//! | many calls at once, background tasks | [`dispatch`] |
//! | whether a call may run: rules, and how the decision is made | [`permission`], [`decision`], [`ports::Authorizer`] |
//! | hooks before and after calls | [`hooks`] |
//! | processes, the user, the journal: what a host implements | [`ports`] |
//! | files, and what a call may open | [`files`] |
//! | results: as values, limits and storage | [`result`], [`results`], [`call_log`] |
//! | events and views for a screen | [`event`], [`view`] |
//! | redaction of secrets in logs and exports | [`redact`] |
//! | files of the program's own state | [`private_file`] |
//! | tools in a child process | [`mod@isolate`] |
//! | input schemas | [`schema`] |
//! | limits and environment variables | [`limits`], [`env`](mod@env) |
#![warn(missing_docs)]

#[cfg(panic = "abort")]
compile_error!("haft answers a tool's panic with a result and needs `panic = \"unwind\"`");

pub mod call;
pub mod call_log;
pub mod canonical;
pub mod circuit_breaker;
pub mod content;
pub mod context;
pub mod decision;
pub mod dispatch;
pub mod effects;
pub mod engine;
pub mod env;
pub mod error;
pub mod event;
pub mod files;
pub mod future;
pub mod hooks;
pub mod isolate;
pub mod limits;
pub mod permission;
pub mod pipeline;
pub mod ports;
pub mod private_file;
pub mod redact;
pub mod registry;
pub mod result;
pub mod results;
pub mod schema;
pub mod search;
pub mod spelling;
pub mod sse;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod tool;
pub mod view;

#[cfg(doctest)]
mod readme;
mod supervise;

pub use {schemars, serde, serde_json};

pub use call::ToolCall;
pub use content::{IntoOutput, Json, ResultBlock, ToolOutput};
pub use context::Context;
pub use effects::resolved::Workspace;
pub use effects::{Effects, PathSet};
pub use engine::{Engine, EngineBuilder};
pub use error::{ErrorKind, ToolError};
pub use haft_scheduler::{Cancel, Cause};
pub use isolate::isolated;
pub use permission::PermissionRules;
pub use registry::Registry;
pub use result::ToolResult;
pub use results::ResultLimit::{Chars, Unlimited};
pub use tool::{NoInput, Tool, ToolSpec, dynamic_tool, tool};
pub use view::CallView;
