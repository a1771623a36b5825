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
mod hook;
pub(crate) mod input;
pub(crate) mod jsonc;
mod known;
mod layer;
mod mcp;
mod merge;
mod places;
mod protected;
mod raw;
mod run;
mod sandbox;
mod schema;

pub use hook::{Action, Background, EVENTS, HOOK_TIMEOUT_S_MAX, Handler, HookGroup, OnFailure, Shell};
pub use jsonc::{SETTINGS_DEPTH_MAX, Spot};
pub use known::is_refused_variable;
pub use layer::{Flags, Layer, Layers, Problem, SETTINGS_BYTES_MAX, SettingsError, WARNINGS_MAX, Warning};
pub use mcp::{Remote, SERVER_TIMEOUT_MS_MIN, SERVERS_MAX, Server, Transport};
pub use merge::{
    At, HookSettings, McpSettings, PermissionSettings, ServerMatch, Settings, Standing, ToolEffects, Withheld,
};
pub use places::{BadPlace, CLAUDE_CONFIG_DIR, CLAUDE_MANAGED_DIR, MANAGED_SETTINGS, Places, git_root};
pub use protected::{PROTECTED_FILES, PROTECTED_FOLDERS, Protected, Protection, UNPROTECTED_FOLDERS};
pub use raw::{Classifier, DeclaredEffects, RepetitionGuard};
pub use run::{Prices, Provider, RunSettings};
pub use sandbox::{Sandbox, SandboxFiles, SandboxNetwork};
pub use schema::schema;

pub(crate) use places::lexical;
