//! The assembled session: settings, rules, sandbox, hooks, MCP servers, journal and engine, put together as `haft` does.

pub mod agents;
pub mod assembly;
mod children;
mod error;
pub mod hooks;
pub mod kept;
pub mod loaded_settings;
pub mod mcp;
mod notice;
mod options;
pub mod processes;
pub mod run;
pub mod settings_view;
mod text;

pub use error::SessionError;
pub use notice::{NoticeSink, SessionNotice};
pub use options::{AskerSource, Environment, SessionOptions, SessionPurpose, TelemetrySource};
