//! The assembled session: settings, rules, sandbox, hooks, MCP servers, journal and engine, put together as `haft` does.

pub mod agents;
pub mod assembly;
mod builder;
mod children;
pub mod clients;
mod error;
pub mod hooks;
pub mod kept;
pub mod loaded_settings;
pub mod mcp;
mod notice;
mod options;
pub mod processes;
pub mod replay;
pub mod run;
pub mod sandbox_report;
mod session;
pub mod settings_view;
mod text;
pub mod trust;

pub use builder::{ResumeFrom, SessionBuilder};
pub use error::SessionError;
pub use notice::{NoticeSink, SessionNotice};
pub use options::{AskerSource, Environment, SessionOptions, SessionPurpose, TelemetrySource};
pub use session::{Agent, Session};

// Plain values that front ends name.
pub use haft_policy::gate::DecisionReport;
