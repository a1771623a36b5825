//! The port to the live permission mode.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The permission mode of a session, live: a change counts from the next judgement on.
pub trait Mode: Send + Sync + 'static {
    /// The mode now.
    fn current(&self) -> PermissionMode;

    /// Changes it. Whether a tool may do so is for the rules to say.
    fn set(&self, mode: PermissionMode);
}

/// How much runs unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PermissionMode {
    /// What changes nothing runs; the rest asks. `manual` is another name for it.
    #[default]
    #[serde(alias = "manual")]
    Default,
    /// Edits in the working directories run too.
    AcceptEdits,
    /// Nothing is changed until a plan was approved.
    Plan,
    /// A classifier decides in the user's place.
    Auto,
    /// What would ask is denied.
    DontAsk,
    /// Everything runs, unless a rule denies or asks.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes, with the names by which they are set.
    pub const ALL: [(&'static str, PermissionMode); 6] = [
        ("default", PermissionMode::Default),
        ("acceptEdits", PermissionMode::AcceptEdits),
        ("plan", PermissionMode::Plan),
        ("auto", PermissionMode::Auto),
        ("dontAsk", PermissionMode::DontAsk),
        ("bypassPermissions", PermissionMode::BypassPermissions),
    ];
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PermissionMode::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for PermissionMode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<PermissionMode, UnknownMode> {
        let known_as = if name == "manual" { "default" } else { name };
        let found = PermissionMode::ALL.iter().find(|(known, _)| *known == known_as);
        found.map(|(_, mode)| *mode).ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// A mode that there isn't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMode(String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = PermissionMode::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
        write!(f, "no permission mode `{}`; accepted: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownMode {}
