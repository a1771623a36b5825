//! Settings: the files they are read from, their contents, and the merged result.
//!
//! ```text
//! Places ── where to look     Layers::read ── every file, parsed once and checked by the table of settings
//!                                 │
//!                                 ├── trust::Inventory ── trust::TrustStore ── Standing
//!                                 │                                               │
//!                                 └── Layers::merge ── one tree ── Settings  <────┘
//! ```
//!
//! Each key is one row of the table (`table.rs`), declared with the field that the program reads. An
//! invalid file is an error and never "no rules". The effect of a workspace's files depends on whether the
//! workspace is trusted. [`trust`](crate::trust) decides that from the same trees. Rules are kept as
//! written and hooks as data; other modules evaluate and run them.

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
    /// Settings of `haft`: permissions, hooks, and other settings of a workspace, a user or a machine.
    pub struct Settings {
        settings {}
        sections {
            /// Rules and the permission mode.
            permissions: PermissionSettings = "permissions";
            /// Hooks.
            hooks: HookSettings = "";
        }
        settings {
            /// Environment variables for the commands that tools run.
            pub env: BTreeMap<String, SettingValue<EnvValue>> = "env", trusted(TrustItemKind::Env).by_name(1).check_name(check_variable);
            /// Effects of tools that declare none, by tool name or glob.
            pub effects: DeclaredTools = "effects", trusted(TrustItemKind::Effects).by_name(1);
        }
        sections {
            /// The sandbox.
            sandbox: SandboxSettings = "sandbox";
            /// MCP servers.
            mcp: McpSettings = "";
        }
        settings {
            /// When the model receives only the names of tools and finds the rest with `ToolSearch`.
            pub tool_search: Option<SettingValue<ToolSearchSettings>> = "toolSearch", anyone().check(ToolSearchSettings::check);
            /// A command that decides on calls before the user is asked. It receives the call as JSON and
            /// answers allow, deny or ask.
            pub classifier: Option<SettingValue<Classifier>> = "classifier", trusted(TrustItemKind::Classifier).check(Classifier::check);
            /// The number of consecutive turns with the same call after which it asks; `false` never asks.
            /// Default: 3.
            pub repetition_guard: Option<SettingValue<RepetitionGuard>> = "repetitionGuard", trusted(TrustItemKind::RepetitionGuard).loosens(guard_loosens);
        }
        sections {
            /// The model for `haft run`.
            run: RunSettings = "run";
            /// The clients of `haft serve`.
            serve: ServeSettings = "serve";
            /// The journal of sessions.
            journal: JournalSettings = "journal";
            /// Web search, and hosts whose pages are fetched without asking.
            web: WebSettings = "web";
        }
        ignored {
            /// The schema of this file, for editors.
            "$schema": String;
        }
        derived {
            /// The merged settings as one tree, for display.
            tree: SettingsTree;
            /// Warnings for the user.
            warnings: Vec<SettingsWarning>;
        }
    }
}

/// Checks whether a file may set a variable; `is_workspaces` says whether the file belongs to a workspace.
fn check_variable(name: &str, value: &JsonNode, is_workspaces: bool) -> Result<(), String> {
    let is_odd = name.is_empty() || name.contains(['=', '\0']);
    if is_odd || value.as_str().is_some_and(|value| value.contains('\0')) {
        return Err("a variable has a name without `=`, and no zero byte anywhere; it is left out".to_owned());
    }
    if is_workspaces && is_refused_variable(name) {
        Err(format!("a workspace can't set the variable `{name}`; set it in your own settings"))
    } else {
        Ok(())
    }
}

fn guard_loosens(node: &JsonNode, before: Option<&JsonNode>) -> bool {
    let guard = |node: &JsonNode| RepetitionGuard::from_json(&node.json);
    let before = before.and_then(guard).unwrap_or_default();
    guard(node).is_none_or(|guard| !guard.is_within(before))
}

/// Returns the text of a settings file: a regular file of limited size, in UTF-8. `None` if there is no
/// file.
///
/// # Errors
/// Returns the reason why the file can't be read.
pub fn read_text(path: &std::path::Path, bytes_max: u64) -> Result<Option<String>, String> {
    read_file::read_text(path, bytes_max).map_err(|unreadable| unreadable.why)
}
