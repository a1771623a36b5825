//! Settings: which files there are, what is in them, and what they say together.
//!
//! ```text
//! Places ── where to look        Layers::read ── every file, read once        Layers::merge ── Settings
//!                                       │                                          ▲
//!                                       └── trust::Inventory ── trust::TrustStore ─┘ Standing
//! ```
//!
//! A file that can't be understood is an error, never "no rules". What a workspace's files may say depends on whether
//! the workspace is trusted; that is decided next door, in [`trust`](crate::trust), from the same bytes. Rules are kept
//! as they were written and hooks as data: others judge by them and run them.

mod added;
mod de;
pub mod edit;
mod hook;
pub(crate) mod input;
pub(crate) mod journal;
mod jsonc;
mod known;
mod layer;
mod mcp;
mod merge;
mod places;
mod protected;
mod raw;
mod repository_writes;
mod run;
mod sandbox;
mod schema;
mod serve;
mod servers;
mod web;

pub use hook::{Action, Background, EVENTS, HOOK_TIMEOUT_S_MAX, Handler, HookGroup, OnFailure, Shell};
pub use journal::{Durability, JournalSettings};
pub use jsonc::{SETTINGS_DEPTH_MAX, Spot};
pub use known::is_refused_variable;
pub use layer::{Flags, Layer, Layers, Problem, SETTINGS_BYTES_MAX, SettingsError, WARNINGS_MAX, Warning};
pub use mcp::{Remote, SERVER_TIMEOUT_MS_MIN, SERVERS_MAX, Server, Transport, check_server};
pub use merge::{
    At, HookSettings, McpSettings, PermissionSettings, Refused, ServerMatch, Settings, Standing, ToolEffects,
    Withheld,
};
pub use places::{BadPlace, CLAUDE_CONFIG_DIR, CLAUDE_MANAGED_DIR, MANAGED_SETTINGS, Places, git_root};
pub use protected::{Protected, Protection};
pub use raw::{Classifier, DeclaredEffects, RepetitionGuard};
pub use repository_writes::repository_write;
pub use run::{Prices, Provider, RunSettings};
pub use sandbox::{PrivateHost, Sandbox, SandboxFiles, SandboxNetwork};
pub use schema::schema;
pub use serve::{SERVE_CLIENTS_MAX, ServeClient, ServeOauth, ServeSettings};
pub use servers::{McpOptions, ServerOptions, ToolSearchSettings};
pub use web::{Answers, PREAPPROVED_MAX, Search, WebSettings};

pub(crate) use places::lexical;

/// The text of a file as settings are read: a regular one of bounded length, UTF-8; nothing where there is none.
///
/// # Errors
/// Why it can't be read, in words.
pub fn read_text(path: &std::path::Path, bytes_max: u64) -> Result<Option<String>, String> {
    input::text(path, bytes_max).map_err(|unreadable| unreadable.why)
}
