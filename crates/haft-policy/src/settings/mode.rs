//! The permission modes by name, and which of two is looser.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

/// How calls that no rule speaks of are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = with_manual)]
pub enum Mode {
    /// What changes nothing runs; the rest asks. `manual` is another name for it.
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

/// The other name of `default` is accepted too.
fn with_manual(schema: &mut schemars::Schema) {
    if let Some(serde_json::Value::Array(names)) = schema.get_mut("oneOf") {
        names.push(serde_json::json!({"const": "manual", "description": "Another name for `default`."}));
    }
}

impl Mode {
    /// All modes, with the names by which they are set.
    pub const ALL: [(&'static str, Mode); 6] = [
        ("default", Mode::Default),
        ("acceptEdits", Mode::AcceptEdits),
        ("plan", Mode::Plan),
        ("auto", Mode::Auto),
        ("dontAsk", Mode::DontAsk),
        ("bypassPermissions", Mode::BypassPermissions),
    ];

    /// Whether nothing runs unasked in this mode that wouldn't in the other.
    ///
    /// `plan` and `dontAsk` are each tighter than `default` in their own way, and neither than the other.
    pub fn is_within(self, other: Mode) -> bool {
        let looseness = |mode| match mode {
            Mode::Plan | Mode::DontAsk => 0,
            Mode::Default => 1,
            Mode::AcceptEdits => 2,
            Mode::Auto => 3,
            Mode::BypassPermissions => 4,
        };
        self == other || looseness(self) < looseness(other)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Mode::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name))
    }
}

/// A mode that there isn't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchMode(String);

impl FromStr for Mode {
    type Err = NoSuchMode;

    fn from_str(name: &str) -> Result<Mode, NoSuchMode> {
        let name = if name == "manual" { "default" } else { name };
        let found = Mode::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| *mode).ok_or_else(|| NoSuchMode(name.to_owned()))
    }
}

impl fmt::Display for NoSuchMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Mode::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
        write!(f, "no permission mode `{}`; accepted: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for NoSuchMode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (name, mode) in Mode::ALL {
            assert_eq!(name.parse(), Ok(mode));
            assert_eq!(mode.to_string(), name);
        }
        assert_eq!("manual".parse(), Ok(Mode::Default));
        assert!("yolo".parse::<Mode>().unwrap_err().to_string().contains("`bypassPermissions`"));
    }

    #[test]
    fn looser_is_never_within_tighter() {
        let within = |a: &str, b: &str| a.parse::<Mode>().unwrap().is_within(b.parse().unwrap());
        for mode in Mode::ALL {
            assert!(mode.1.is_within(Mode::BypassPermissions) && mode.1.is_within(mode.1));
        }
        assert!(within("plan", "default") && within("dontAsk", "default") && within("default", "auto"));
        assert!(!within("plan", "dontAsk") && !within("dontAsk", "plan") && !within("default", "plan"));
        assert!(!within("acceptEdits", "default") && !within("bypassPermissions", "auto"));
    }
}
