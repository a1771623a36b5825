//! Variables whose value is known where they are used: `f=src/main.rs; sed -n 1p $f`.
//!
//! A variable is bound only if it is set once, to plain text, by a command that certainly runs in this
//! shell, and if nothing else in the command may change it. Everything that sets variables reports here. A
//! variable that is set twice isn't bound.

use std::collections::BTreeSet;

use super::examine::fits_any;

/// Variables that the shell sets itself, or that can't be set.
const SPECIAL: &str = "BASH* COMP* DIRSTACK EPOCH* EUID FUNCNAME GROUPS HIST* HOSTTYPE IFS LINENO MACHTYPE MAPFILE OLDPWD OPT* OSTYPE \
    PIPESTATUS POSIXLY_CORRECT PPID PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID _";

/// Variables with one known value.
#[derive(Debug, Default)]
pub(super) struct VariableBindings {
    bound: Vec<(String, String)>,
    assigned: BTreeSet<String>,
    /// Something may set any variable.
    closed: bool,
}

impl VariableBindings {
    /// Records that a variable is set. Returns whether that contradicts a binding.
    pub(super) fn assign(&mut self, name: &str) -> bool {
        self.assigned.insert(name.to_owned());
        self.bound.iter().any(|(bound, _)| bound == name) || (name == "IFS" && !self.bound.is_empty())
    }

    /// Records that a variable was set to this text. It is bound if nothing else sets it.
    pub(super) fn bind(&mut self, name: &str, value: &str, is_first: bool) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_./+,:@%-".contains(c);
        let known = !value.is_empty() && value.chars().all(plain) && !fits_any(SPECIAL, name);
        if known && is_first && !self.closed && !self.assigned.contains("IFS") {
            self.bound.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Returns whether a variable was set before.
    pub(super) fn is_assigned(&self, name: &str) -> bool {
        self.assigned.contains(name)
    }

    /// Records that any variable may be set from here on.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.bound.clear();
    }

    /// Returns the number of bound variables.
    pub(super) fn len(&self) -> usize {
        self.bound.len()
    }

    /// Keeps only the first `length` bindings.
    pub(super) fn truncate(&mut self, length: usize) {
        self.bound.truncate(length);
    }

    /// Expands a word that begins with a bound variable and has no other expansion.
    pub(super) fn expand(&self, written: &str) -> Option<String> {
        let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
        let rest = inner.strip_prefix('$')?;
        let (name, rest) = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => rest.split_at(
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len()),
            ),
        };
        let plain = rest.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
        let (_, value) = self.bound.iter().find(|(bound, _)| bound == name).filter(|_| plain)?;
        Some(format!("{value}{rest}"))
    }
}
