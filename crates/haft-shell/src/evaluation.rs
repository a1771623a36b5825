//! Detects expressions that bash evaluates and that may contain text from elsewhere.
//!
//! In `$((k))`, `[[ $k -gt 3 ]]` and `${!k}` bash evaluates the value of `k` as an expression, and a
//! subscript in it runs substitutions. So the author of a file that `read k` reads decides what runs, and
//! such a command isn't read-only. Names are followed through the text of values. A value that can only be
//! a number is harmless.

use std::collections::{BTreeMap, BTreeSet};

/// Variables that the shell sets from file names, input or matched text. `@` and digits are positional
/// parameters.
const SET_BY_SHELL: &[&str] =
    &["@", "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "PWD", "OLDPWD", "DIRSTACK", "COPROC", "_"];

/// The known facts about the expressions of a command.
#[derive(Debug, Default)]
pub(super) struct ExpressionCheck {
    /// The names in expressions.
    evaluated: BTreeSet<String>,
    variables: BTreeMap<String, VariableSource>,
    holds_output: bool,
}

/// The sources of a variable's values.
#[derive(Debug, Default)]
struct VariableSource {
    is_data: bool,
    /// The names in the text of its values.
    names: BTreeSet<String>,
}

impl ExpressionCheck {
    /// Records a text that is evaluated.
    pub(super) fn evaluate(&mut self, text: &str) {
        self.evaluated.extend(names_in(text));
    }

    /// Records that an expression contains a command's output.
    pub(super) fn evaluate_output(&mut self) {
        self.holds_output = true;
    }

    /// Records that a variable is set to a value with this text; `is_data` means that it may be anything.
    pub(super) fn assign(&mut self, name: &str, text: &str, is_data: bool) {
        let source = self.variables.entry(name.to_owned()).or_default();
        source.is_data |= is_data;
        source.names.extend(names_in(text));
    }

    /// Returns whether an expression may contain text from elsewhere.
    pub(super) fn evaluates_data(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = self.evaluated.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if SET_BY_SHELL.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit()) {
                return true;
            }
            let Some(source) = self.variables.get(name).filter(|_| seen.insert(name)) else { continue };
            if source.is_data {
                return true;
            }
            open.extend(source.names.iter().map(String::as_str));
        }
        self.holds_output
    }
}

/// Returns the variables and positional parameters in a text.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut begins = 0;
    let mut found = Vec::new();
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if is_part(c) {
            continue;
        }
        let (before, name) = (text[..begins].trim_end_matches('{'), &text[begins..at]);
        if !name.is_empty() && (!name.starts_with(|c: char| c.is_ascii_digit()) || before.ends_with('$')) {
            found.push(name.to_owned());
        }
        if matches!(c, '@' | '*') && text[..at].trim_end_matches('{').ends_with('$') {
            found.push("@".to_owned());
        }
        begins = at + c.len_utf8();
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_followed_through_values() {
        let names = |text| names_in(text).collect::<Vec<_>>();
        assert_eq!(names("a + $b*${c[1]} - 12"), ["a", "b", "c"]);
        assert_eq!(names("$1 ${2} $@ ${*} $# 3"), ["1", "2", "@", "@"]);
        let check = |assigned: &[(&str, &str, bool)], evaluated: &str| {
            let mut check = ExpressionCheck::default();
            assigned.iter().for_each(|(name, text, is_data)| check.assign(name, text, *is_data));
            check.evaluate(evaluated);
            check.evaluates_data()
        };
        assert!(check(&[("k", "", true), ("j", "k", false)], "j + 1"));
        assert!(!check(&[("k", "", true), ("j", "1", false)], "j + 1"));
        assert!(!check(&[("j", "j", false)], "j") && check(&[], "$1") && check(&[], "REPLY"));
    }
}
