//! Settings: which files there are, what is in them, and what they say together.
//!
//! ```text
//! Places ── where to look     Layers::read ── every file, parsed once and checked by the table of settings
//!                                 │
//!                                 ├── trust::Inventory ── trust::TrustStore ── Standing
//!                                 │                                               │
//!                                 └── Layers::merge ── one tree ── Settings  <────┘
//! ```
//!
//! Each key is one row of the table (`table.rs`), written with the field that the program reads. A file that can't be
//! understood is an error, never "no rules". What a workspace's files may say depends on whether the workspace is trusted; that
//! is decided in [`trust`](crate::trust), from the same trees. Rules are kept as they were written and hooks as data: other
//! modules judge by them and run them.

mod de;
pub mod edit;
mod hook;
pub(crate) mod journal;
mod jsonc;
mod known_names;
mod layer;
mod mcp_servers;
mod mcp_settings;
mod merge;
#[cfg(test)]
mod page;
mod permissions;
mod places;
mod protected_paths;
pub(crate) mod read_file;
mod repository_writes;
mod run;
mod sandbox;
mod schema;
mod serve;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod user_servers;
mod values;
mod web;

pub use de::SettingValue;
pub use hook::{
    BackgroundMode, EVENTS, HOOK_TIMEOUT_S_MAX, HookAction, HookGroup, HookHandler, HookSettings, OnFailure,
    Shell,
};
pub use journal::{Durability, JournalSettings};
pub use jsonc::{SETTINGS_DEPTH_MAX, TextPosition};
pub use known_names::is_refused_variable;
pub use layer::{
    SETTINGS_BYTES_MAX, SettingsError, SettingsFlags, SettingsLayer, SettingsLayers, SettingsProblem,
    SettingsWarning, WARNINGS_MAX,
};
pub use mcp_servers::{
    McpServer, McpTransport, RemoteProtocol, SERVER_TIMEOUT_MS_MIN, SERVERS_MAX, check_server,
};
pub use mcp_settings::{
    McpOptions, McpSettings, RefusalReason, ServerMatch, ServerOptions, ToolSearchSettings, WithheldReason,
};
pub use merge::TrustStatus;
pub use permissions::PermissionSettings;
pub use places::{
    CLAUDE_CONFIG_DIR, CLAUDE_MANAGED_DIR, InvalidSettingsPlace, MANAGED_SETTINGS, SettingsPlaces, git_root,
};
pub use protected_paths::{PathProtection, ProtectedPaths};
pub use repository_writes::repository_write;
pub use run::{Prices, Provider, ProviderSettings, RunSettings};
pub use sandbox::{
    HiddenFile, HiddenVariable, PrivateHost, SandboxCredentials, SandboxFiles, SandboxNetwork,
    SandboxSettings,
};
pub use schema::schema;
pub use serve::{SERVE_CLIENTS_MAX, ServeClient, ServeOauth, ServeSettings};
pub use table::{SettingEntry, SettingsTree};
pub use values::{
    Classifier, DeclaredEffects, DeclaredTools, DisableKeyword, EnvValue, RepetitionGuard, ToolEffects,
};
pub use web::{Answers, PREAPPROVED_MAX, Search, WebSettings};

pub(crate) use places::normalize_path;

use std::collections::BTreeMap;

use crate::trust::TrustItemKind;
pub(crate) use jsonc::JsonNode;
use table::{anyone, settings_section, trusted};

settings_section! {
    /// Settings of `haft`: what tools may do, hooks, and what else a workspace, a user or a machine sets.
    pub struct Settings {
        settings {}
        sections {
            /// Rules and the mode.
            permissions: PermissionSettings = "permissions";
            /// Hooks.
            hooks: HookSettings = "";
        }
        settings {
            /// Environment variables for the commands that tools run.
            pub env: BTreeMap<String, SettingValue<EnvValue>> = "env", trusted(TrustItemKind::Env).by_name(1).check_name(check_variable);
            /// What tools touch that don't say so themselves, by name or glob.
            pub effects: DeclaredTools = "effects", trusted(TrustItemKind::Effects).by_name(1);
        }
        sections {
            /// The sandbox.
            sandbox: SandboxSettings = "sandbox";
            /// Servers.
            mcp: McpSettings = "";
        }
        settings {
            /// When a model is given only the names of tools, and finds the rest by `ToolSearch`.
            pub tool_search: Option<SettingValue<ToolSearchSettings>> = "toolSearch", anyone().check(ToolSearchSettings::check);
            /// A command that decides on calls before the user is asked: it gets the call as JSON and answers allow, deny or
            /// ask.
            pub classifier: Option<SettingValue<Classifier>> = "classifier", trusted(TrustItemKind::Classifier).check(Classifier::check);
            /// In how many turns in a row the same call may come before it asks; `false` never asks. Default: 3.
            pub repetition_guard: Option<SettingValue<RepetitionGuard>> = "repetitionGuard", trusted(TrustItemKind::RepetitionGuard).loosens(guard_loosens);
        }
        sections {
            /// The model that `haft run` asks.
            run: RunSettings = "run";
            /// Who may use `haft serve`.
            serve: ServeSettings = "serve";
            /// How sessions are kept.
            journal: JournalSettings = "journal";
            /// What searches the web, and whose pages need no question.
            web: WebSettings = "web";
        }
        ignored {
            /// The schema of this file, for editors.
            "$schema": String;
        }
        derived {
            /// All of it as one tree, for those who show it.
            tree: SettingsTree;
            /// What a person should know.
            warnings: Vec<SettingsWarning>;
        }
    }
}

/// Whether a variable may be set by a file, which is or isn't a workspace's.
fn check_variable(name: &str, value: &JsonNode, is_workspaces: bool) -> Result<(), String> {
    let is_odd = name.is_empty() || name.contains(['=', '\0']);
    if is_odd || value.as_str().is_some_and(|value| value.contains('\0')) {
        return Err("a variable has a name without `=`, and no zero byte anywhere; it is left out".to_owned());
    }
    match is_workspaces && is_refused_variable(name) {
        true => Err(format!("a workspace can't set the variable `{name}`; set it in your own settings")),
        false => Ok(()),
    }
}

fn guard_loosens(node: &JsonNode, before: Option<&JsonNode>) -> bool {
    let guard = |node: &JsonNode| RepetitionGuard::from_json(&node.json);
    let before = before.and_then(guard).unwrap_or_default();
    guard(node).is_none_or(|guard| !guard.is_within(before))
}

/// The text of a file as settings are read: a regular one of bounded length, UTF-8; nothing where there is none.
///
/// # Errors
/// Why it can't be read, in words.
pub fn read_text(path: &std::path::Path, bytes_max: u64) -> Result<Option<String>, String> {
    read_file::read_text(path, bytes_max).map_err(|unreadable| unreadable.why)
}
