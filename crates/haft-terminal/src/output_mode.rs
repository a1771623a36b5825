//! Whether there is a screen to draw on, and how: decided once, from the environment that the host gives.

use crate::style::ColorMode;

/// The variables that are looked at.
pub mod env {
    /// Set and not empty: no colours and no other styles.
    pub const NO_COLOR: &str = "NO_COLOR";
    /// `dumb`: a terminal that can only print lines.
    pub const TERM: &str = "TERM";
    /// Set and not empty or `false`: lines for a log, even where there is a terminal.
    pub const CI: &str = "CI";
}

/// What fits a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// A live screen.
    Live(ColorMode),
    /// Lines, one after the other, without styles.
    Plain,
}

impl OutputMode {
    /// What fits, by the environment; `terminal` is whether keys and the screen are one.
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
