//! The environment variables of `haft`, and how their values are read.
//!
//! Nothing in this crate looks at the environment by itself: a host asks these functions and hands over the
//! answers. Each takes the look-up as an argument, so that a program says where values come from. A variable
//! that is empty counts as not set.

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::text::truncate_chars;

/// How many calls of a turn run at once: a whole number from 1 on. Default: 10. The flag `--max-concurrency`
/// wins.
pub const HAFT_MAX_CONCURRENCY: &str = "HAFT_MAX_CONCURRENCY";
/// The folder for what outlives a session, results that were too long for the model among it.
/// Default: `$XDG_STATE_HOME/haft`, or `~/.local/state/haft`. No tool can write there.
pub const HAFT_STATE_DIR: &str = "HAFT_STATE_DIR";
/// The folder for the user's settings. Default: `$XDG_CONFIG_HOME/haft`, or `~/.config/haft`. No tool can
/// write there.
pub const HAFT_CONFIG_DIR: &str = "HAFT_CONFIG_DIR";
/// Set for processes that are started as MCP servers. A `haft serve` that finds it connects to no servers of
/// its own: files of clients name `haft serve` too, and it would start itself without end.
pub const HAFT_MCP_SERVER: &str = "HAFT_MCP_SERVER";
/// How long a command of Bash runs before it goes on in the background, in milliseconds. Default: 120000.
pub const HAFT_BASH_TIMEOUT_MS: &str = "HAFT_BASH_TIMEOUT_MS";
/// How long a call of Bash may ask to run in the foreground, in milliseconds. Default: 600000.
pub const HAFT_BASH_TIMEOUT_MAX_MS: &str = "HAFT_BASH_TIMEOUT_MAX_MS";
/// The Chromium that the browser tools start: a path, or a name to be looked for on `PATH`. Default: the
/// first that is found by its usual names (`chromium`, `google-chrome` …).
pub const HAFT_CHROMIUM: &str = "HAFT_CHROMIUM";

/// Finds the value of a variable; usually [`std::env::var_os`].
pub type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Reads [`HAFT_MAX_CONCURRENCY`].
///
/// # Errors
/// A value that [`parse_count`] refuses.
pub fn max_concurrency(lookup: VariableLookup<'_>) -> Result<Option<NonZeroUsize>, InvalidVariable> {
    let Some(value) = non_empty_variable(lookup, HAFT_MAX_CONCURRENCY) else { return Ok(None) };
    let shown = value.to_string_lossy();
    parse_count(&shown).map(Some).map_err(|reason| InvalidVariable { name: HAFT_MAX_CONCURRENCY, reason })
}

/// Reads [`HAFT_BASH_TIMEOUT_MS`] and [`HAFT_BASH_TIMEOUT_MAX_MS`].
///
/// # Errors
/// A value that [`parse_count`] refuses.
pub fn bash_timeouts(
    lookup: VariableLookup<'_>,
) -> Result<(Option<Duration>, Option<Duration>), InvalidVariable> {
    let read = |name: &'static str| {
        let Some(value) = non_empty_variable(lookup, name) else { return Ok(None) };
        let count =
            parse_count(&value.to_string_lossy()).map_err(|reason| InvalidVariable { name, reason })?;
        Ok(Some(Duration::from_millis(count.get() as u64)))
    };
    Ok((read(HAFT_BASH_TIMEOUT_MS)?, read(HAFT_BASH_TIMEOUT_MAX_MS)?))
}

/// Returns [`HAFT_STATE_DIR`] or its default; nothing where no home folder is known.
pub fn state_dir(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    data_folder(lookup, HAFT_STATE_DIR, "XDG_STATE_HOME", ".local/state")
}

/// Returns [`HAFT_CONFIG_DIR`] or its default; nothing where no home folder is known.
pub fn config_dir(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    data_folder(lookup, HAFT_CONFIG_DIR, "XDG_CONFIG_HOME", ".config")
}

/// Returns [`HAFT_CHROMIUM`].
pub fn chromium_path(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    non_empty_variable(lookup, HAFT_CHROMIUM).map(PathBuf::from)
}

/// Reads a whole number from 1 on.
///
/// # Errors
/// In words: what came, and what is accepted.
pub fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    text.trim().parse().map_err(|_| {
        let shown = truncate_chars(text, 40);
        format!("{shown:?} is not accepted; a whole number from 1 on is")
    })
}

fn data_folder(lookup: VariableLookup<'_>, own: &str, shared: &str, in_home: &str) -> Option<PathBuf> {
    if let Some(own) = non_empty_variable(lookup, own) {
        return Some(PathBuf::from(own));
    }
    // The standard for these folders says that relative paths in them don't count.
    let absolute =
        |name: &str| non_empty_variable(lookup, name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(shared).or_else(|| absolute("HOME").map(|home| home.join(in_home)))?;
    Some(base.join("haft"))
}

fn non_empty_variable(lookup: VariableLookup<'_>, name: &str) -> Option<OsString> {
    lookup(name).filter(|value| !value.is_empty())
}

/// A variable whose value can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidVariable {
    name: &'static str,
    reason: String,
}

impl fmt::Display for InvalidVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable `{}`: {}", self.name, self.reason)
    }
}

impl std::error::Error for InvalidVariable {}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(variables: &[(&str, &str)], read: impl Fn(VariableLookup<'_>) -> T) -> T {
        read(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn concurrency_is_a_number_from_one_on() {
        let read = |value: &str| with(&[(HAFT_MAX_CONCURRENCY, value)], max_concurrency);
        assert_eq!(read("4"), Ok(NonZeroUsize::new(4)));
        assert_eq!(read(""), Ok(None));
        assert_eq!(with(&[], max_concurrency), Ok(None));
        for bad in ["0", "-1", "1.5", "many", "99999999999999999999999"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(HAFT_MAX_CONCURRENCY) && error.contains(bad), "{error}");
        }
    }

    #[test]
    fn folders_are_found_in_order() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(with(variables, state_dir), expected.map(PathBuf::from), "{variables:?}");
        };
        let home = ("HOME", "/home/me");
        check(&[home], Some("/home/me/.local/state/haft"));
        check(&[home, ("XDG_STATE_HOME", "/s")], Some("/s/haft"));
        check(&[home, ("XDG_STATE_HOME", "s")], Some("/home/me/.local/state/haft"));
        check(&[home, ("XDG_STATE_HOME", "/s"), (HAFT_STATE_DIR, "/own")], Some("/own"));
        check(&[home, (HAFT_STATE_DIR, "")], Some("/home/me/.local/state/haft"));
        check(&[], None);
        assert_eq!(with(&[home], config_dir), Some(PathBuf::from("/home/me/.config/haft")));
    }
}
