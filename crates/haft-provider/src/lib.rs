//! The wires of model providers: the only place that knows their JSON.
//!
//! Each wire is one folder below `wire`, with everything about it, registered in one table. Three things pass
//! here. [`DefinitionCache`] are the `tools` of a request. [`decode_message`](decode_message()) finds the
//! calls in a model's message. [`ModelMessage::answer`] makes the message that answers them, and
//! [`encode_result`] writes one result.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::{Effects, Engine, Registry, tool};
//! use haft_provider::{DefinitionCache, Wire, decode_message};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//! let add = tool("add", "Adds two numbers.", |Add { a, b }, _cx| async move { Ok(a + b) })
//!     .effects(|_| Effects::none());
//! let engine = Engine::new(Registry::new().with(add)?);
//! let definitions = DefinitionCache::new(Wire::Anthropic);
//!
//! let turn = engine.turn();                             // pins the tools: what is sent is what can be called
//! let tools = definitions.define(turn.snapshot());          // goes out under `tools`
//! # let _ = tools;
//! let reply = r#"{"role": "assistant", "content": [
//!     {"type": "text", "text": "Let me see."},
//!     {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}]}"#;
//!
//! let message = decode_message(reply, None)?;                   // the wire is detected from the shape
//! let results = turn.run(message.calls()).await;
//! assert_eq!(
//!     message.answer(&results),
//!     serde_json::json!({"role": "user", "content": [
//!         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]})
//! );
//! # Ok(()) }
//! ```
//!
//! Around that: [`RequestOptions`] makes requests out of a [`Conversation`](haft_agent::Conversation),
//! [`stream`] reads the reply while it arrives, `client` carries both over HTTP (feature `http`), and
//! [`scripted`] is a model without a provider. The agent loop is in the crate `haft-agent`, below this one;
//! each [`Wire`] is a [`MessageFormat`](haft_agent::MessageFormat) of it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::{Effects, Engine, NoInput, Registry, tool};
//! use haft_agent::{Conversation, AgentLoop};
//! use haft_provider::scripted::{ModelScript, ScriptedModel};
//! use haft_provider::Wire;
//!
//! let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
//! let engine = Engine::new(Registry::new().with(answer)?);
//! let script = ModelScript::parse(r#"{"turns": [{"tool_calls": [{"name": "answer"}]}, {"text": "It is 42."}]}"#)?;
//!
//! let mut conversation = Conversation::new(Wire::Anthropic);
//! let outcome = AgentLoop::new(engine, ScriptedModel::new(script, Wire::Anthropic))
//!     .run(&mut conversation, "What is the answer?")
//!     .await;
//! assert_eq!((outcome.text.as_str(), outcome.turns, outcome.calls.len()), ("It is 42.", 2, 1));
//! # Ok(()) }
//! ```
#![warn(missing_docs)]

#[cfg(feature = "http")]
pub mod client;
pub mod endpoint;
pub mod limits;
pub mod scripted;
pub mod stream;
pub mod transcript;

mod conversation_format;
mod decode_message;
mod definitions;
mod exchange;
mod failure;
#[cfg(doctest)]
mod pages;
mod request;
mod schema;
mod tool_deferral;
mod wire;

pub use conversation_format::encode_result;
pub use decode_message::{InvalidMessage, ModelMessage, decode_message};
pub use definitions::{DefinitionCache, DefinitionForm};
pub use exchange::RetryPolicy;
pub use request::{RequestOptions, ThinkingMode};
pub use tool_deferral::default_deferral;
pub use wire::{UnknownWire, Wire};
