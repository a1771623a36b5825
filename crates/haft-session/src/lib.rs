//! The assembled session: settings, rules, sandbox, hooks, MCP servers, journal and engine, combined as in
//! `haft`.

pub mod agents;
pub mod assembly;
mod builder;
mod channels;
pub mod clients;
mod error;
mod events;
mod factory;
mod front_end;
mod guarded_processes;
mod handle;
pub mod hooks;
pub mod loaded_settings;
pub mod mcp;
mod notice;
mod options;
pub mod processes;
mod prompts;
pub mod replay;
pub mod run;
pub mod sandbox_report;
mod session;
pub mod session_journal;
pub mod settings_view;
mod store;
mod temp_folder;
mod text;
pub mod trust;

pub use builder::{ResumeFrom, SessionBuilder};
pub use channels::SessionChannels;
pub use error::{SessionError, SessionErrorKind, SessionOption};
pub use events::{EventSubscription, SessionEvent, SessionEventKind};
pub use factory::SessionFactory;
pub use front_end::FrontEnd;
pub use haft_policy::gate::ModeForbidden;
pub use handle::{CallKey, DetachError, FrontEndGuard, NotSaid, SessionClosed, SessionHandle, SetModeError};
pub use notice::{NoticeSink, SessionNotice};
pub use options::{AskerSource, SessionEnvironment, SessionOptions, SessionPurpose, TelemetrySource};
pub use prompts::{
    AnswerError, CallDigest, PromptContent, PromptId, PromptKind, UserAnswer, UserPrompt, ask_through,
};
pub use session::{Agent, Session, SessionReport};
pub use store::{SessionEntry, SessionStore};

// Plain types that front ends use.
pub use haft::dispatch::{ConflictRule, TurnHandle};
pub use haft::ports::ApprovalAnswer;
pub use haft_policy::gate::{DecisionReport, RuleWording};
