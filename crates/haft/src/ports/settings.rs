//! The port to the settings in force.

use serde::Serialize;
use serde_json::Value;

/// Says what is set, and by whom.
///
/// Called by tools, quick, never waits. What looks like a secret is masked before it gets here: whatever is returned may be
/// shown to anybody.
pub trait SettingsView: Send + Sync + 'static {
    /// All values that count now; of lists one for each entry, strongest first.
    fn in_force(&self) -> Vec<Setting>;
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The key, with those around it, as in `permissions.allow`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it comes from: a file and a line, a flag, an answer of the user.
    pub from: String,
    /// Why it doesn't count after all.
    pub left_out: Option<String>,
}
