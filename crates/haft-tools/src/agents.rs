//! Tools that give tasks to other agents, and talk to those that run.

pub mod agent;
pub mod send_message;

pub use agent::{Agent, AgentKind};
pub use send_message::SendMessage;
