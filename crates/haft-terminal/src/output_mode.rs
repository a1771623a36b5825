//! Chooses between the live screen and plain lines, once, from the environment that the host
//! passes.

use crate::style::ColorMode;

/// The environment variables that are read.
pub mod env {
    /// If set and not empty, disables colours and other styles.
    pub const NO_COLOR: &str = "NO_COLOR";
    /// `dumb` selects plain lines.
    pub const TERM: &str = "TERM";
    /// If set and neither empty nor `false`, selects plain lines, even on a terminal.
    pub const CI: &str = "CI";
}

/// The output mode for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// The live screen.
    Live(ColorMode),
    /// Plain lines without styles.
    Plain,
}

impl OutputMode {
    /// Returns the mode for an environment. `terminal` tells whether input and output are the same
    /// terminal.
    pub fn for_environment(variable: impl Fn(&str) -> Option<String>, terminal: bool) -> OutputMode {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set(env::TERM);
        let ci = set(env::CI).is_some_and(|value| value != "false" && value != "0");
        if !terminal || ci || term.is_none_or(|term| term == "dumb") {
            return OutputMode::Plain;
        }
        OutputMode::Live(if set(env::NO_COLOR).is_some() { ColorMode::Plain } else { ColorMode::Styled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], terminal: bool, expected: OutputMode) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(OutputMode::for_environment(variable, terminal), expected, "{variables:?}");
    }

    #[test]
    fn the_environment_decides() {
        check(&[("TERM", "xterm-256color")], true, OutputMode::Live(ColorMode::Styled));
        check(&[("TERM", "xterm"), ("NO_COLOR", "1")], true, OutputMode::Live(ColorMode::Plain));
        check(&[("TERM", "xterm"), ("NO_COLOR", "")], true, OutputMode::Live(ColorMode::Styled));
        check(&[("TERM", "dumb")], true, OutputMode::Plain);
        check(&[], true, OutputMode::Plain);
        check(&[("TERM", "xterm"), ("CI", "true")], true, OutputMode::Plain);
        check(&[("TERM", "xterm"), ("CI", "false")], true, OutputMode::Live(ColorMode::Styled));
        check(&[("TERM", "xterm")], false, OutputMode::Plain);
    }
}
