//! A model that plays a script: no key, no network, the same each time.
//!
//! It is stateless: which turn of the script is answered is read off the conversation that comes with each
//! request, so any number of sessions can play one script, and a session that is continued goes on where it
//! was. What it says is written in the provider's own bytes and read by the same reader as everything else,
//! in this process ([`ScriptedModel`]) or through a server on this machine ([`serve_script`]) that anybody's
//! agent can talk to.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft_provider::scripted::{ModelScript, ScriptedModel};
//! use haft_agent::{Conversation, Model, ModelRequest, ToolDefinitions};
//! use haft_provider::Wire;
//!
//! let script = ModelScript::parse(r#"{"turns": [{"text": "Hello."}]}"#)?;
//! let model = ScriptedModel::new(script, Wire::Anthropic);
//! let mut conversation = Conversation::new(Wire::Anthropic);
//! conversation.say("Hi.");
//! let mut incoming = model.ask(&ModelRequest { system: &[], conversation: &conversation, tools: &ToolDefinitions::none() });
//! while incoming.more(&mut Vec::new()).await {}
//! assert_eq!(incoming.finish().text(), "Hello.");
//! # Ok(()) }
//! ```

mod located_value;
mod model;
mod script_format;
mod script_player;
mod server;

pub use self::located_value::InvalidScript;
pub use self::model::ScriptedModel;
pub use self::script_format::{
    InjectedError, ModelScript, RequestCondition, ScriptTurn, ScriptedCall, SideAnswer, StopKind, StreamPace,
    TurnCase, script_schema,
};
pub use self::server::{ScriptServer, serve_script};
