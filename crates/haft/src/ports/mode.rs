//! The port to the live permission mode.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The permission mode of a session, live: a change counts from the next judgement on.
pub trait ModeControl: Send + Sync + 'static {
    /// The mode now.
    fn current(&self) -> PermissionMode;

    /// Changes it. Whether a tool may do so is for the rules to say.
    fn set(&self, mode: PermissionMode);
}

/// How much runs unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = with_manual)]
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

    /// Whether nothing runs unasked in this mode that wouldn't in the other.
    ///
    /// `plan` and `dontAsk` are each tighter than `default` in their own way, and neither than the other.
    pub fn is_within(self, other: PermissionMode) -> bool {
        let looseness = |mode| match mode {
            PermissionMode::Plan | PermissionMode::DontAsk => 0,
            PermissionMode::Default => 1,
            PermissionMode::AcceptEdits => 2,
            PermissionMode::Auto => 3,
            PermissionMode::BypassPermissions => 4,
        };
        self == other || looseness(self) < looseness(other)
    }

    /// Whether the user is asked in this mode about what no rule and no call asks for: to run a command again
    /// with more, or to put a file back.
    pub fn allows_own_questions(self) -> bool {
        match self {
            PermissionMode::Default | PermissionMode::AcceptEdits | PermissionMode::Auto => true,
            PermissionMode::Plan | PermissionMode::DontAsk | PermissionMode::BypassPermissions => false,
        }
    }
}

/// The other name of `default` is accepted too.
fn with_manual(schema: &mut schemars::Schema) {
    if let Some(serde_json::Value::Array(names)) = schema.get_mut("oneOf") {
        names.push(serde_json::json!({"const": "manual", "description": "Another name for `default`."}));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (name, mode) in PermissionMode::ALL {
            assert_eq!(name.parse(), Ok(mode));
            assert_eq!(mode.to_string(), name);
        }
        assert_eq!("manual".parse(), Ok(PermissionMode::Default));
        assert!("yolo".parse::<PermissionMode>().unwrap_err().to_string().contains("`bypassPermissions`"));
    }

    #[test]
    fn looser_is_never_within_tighter() {
        let within = |a: &str, b: &str| a.parse::<PermissionMode>().unwrap().is_within(b.parse().unwrap());
        for mode in PermissionMode::ALL {
            assert!(mode.1.is_within(PermissionMode::BypassPermissions) && mode.1.is_within(mode.1));
        }
        assert!(within("plan", "default") && within("dontAsk", "default") && within("default", "auto"));
        assert!(!within("plan", "dontAsk") && !within("dontAsk", "plan") && !within("default", "plan"));
        assert!(!within("acceptEdits", "default") && !within("bypassPermissions", "auto"));
    }
}
