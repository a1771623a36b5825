//! A configuration with everything that it includes. The caller reads the files.
//!
//! Conditions of `includeIf` aren't evaluated: a file that may be included counts as included.

use std::path::{Path, PathBuf};

use crate::config::{ConfigEntry, parse};

/// The maximum depth of includes, the same as git's.
const DEPTH_MAX: usize = 10;
/// The maximum number of files in one configuration.
const FILES_MAX: usize = 200;

/// A configuration and the files that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedConfig {
    /// The files that were read.
    pub files: Vec<ConfigFile>,
    /// Every path that an `include` names, whether or not it was read.
    pub includes: Vec<PathBuf>,
    /// A file can't be parsed as git parses it, or there are too many files: the configuration may have
    /// more entries.
    pub incomplete: bool,
}

/// One file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The name by which it is included.
    pub path: PathBuf,
    /// Its entries.
    pub entries: Vec<ConfigEntry>,
}

impl LoadedConfig {
    /// Returns every entry of every file.
    pub fn entries(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.files.iter().flat_map(|file| &file.entries)
    }
}

/// Reads a configuration and the files that it includes. `read` returns the bytes of a file, or `None` if
/// it doesn't exist.
pub fn load(
    config: &Path,
    home: Option<&Path>,
    read: &mut dyn FnMut(&Path) -> Option<Vec<u8>>,
) -> LoadedConfig {
    let mut loaded = LoadedConfig::default();
    load_file(config, home, 0, read, &mut loaded);
    loaded
}

fn load_file(
    path: &Path,
    home: Option<&Path>,
    depth: usize,
    read: &mut dyn FnMut(&Path) -> Option<Vec<u8>>,
    loaded: &mut LoadedConfig,
) {
    let Some(bytes) = read(path) else { return };
    if depth > DEPTH_MAX || loaded.files.len() >= FILES_MAX {
        loaded.incomplete = true;
        return;
    }
    let Ok(entries) = parse(&bytes) else {
        loaded.incomplete = true;
        return;
    };
    let paths: Vec<PathBuf> = entries.iter().filter_map(|entry| included(path, entry, home)).collect();
    loaded.files.push(ConfigFile { path: path.to_owned(), entries });
    for path in paths {
        if !loaded.includes.contains(&path) {
            loaded.includes.push(path.clone());
            load_file(&path, home, depth + 1, read, loaded);
        }
    }
}

/// Returns the file that an entry includes.
fn included(config: &Path, entry: &ConfigEntry, home: Option<&Path>) -> Option<PathBuf> {
    let is_include = matches!(entry.section.as_str(), "include" | "includeif") && entry.key == "path";
    let value = entry.value.as_deref().filter(|value| is_include && !value.is_empty())?;
    Some(named_path(config.parent()?, value, home))
}

/// Returns the path that a value names, relative to a folder or to the home directory.
pub fn named_path(base: &Path, value: &str, home: Option<&Path>) -> PathBuf {
    match (value.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => base.join(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_from(files: &[(&str, &str)]) -> LoadedConfig {
        let mut read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.as_bytes().to_vec())
        };
        load(Path::new("/w/.git/config"), Some(Path::new("/home/me")), &mut read)
    }

    #[test]
    fn included_files_are_followed_whatever_the_condition() {
        let loaded = load_from(&[
            ("/w/.git/config", "[include]\npath = more\n[includeIf \"gitdir:/x/\"]\npath = ~/work\n"),
            ("/w/.git/more", "[include]\npath = ../gone\n[core]\npager = evil\n"),
            ("/home/me/work", "[user]\nname = Me\n"),
        ]);
        let names: Vec<String> = loaded.entries().map(ConfigEntry::name).collect();
        assert_eq!(
            names.join(" "),
            "include.path includeif.gitdir:/x/.path include.path core.pager user.name"
        );
        let includes = ["/w/.git/more", "/w/.git/../gone", "/home/me/work"].map(PathBuf::from);
        assert_eq!((loaded.includes, loaded.incomplete), (includes.to_vec(), false));
    }

    #[test]
    fn what_cannot_be_read_or_has_no_end_is_incomplete() {
        assert!(load_from(&[("/w/.git/config", "[broken")]).incomplete);
        let cycle = load_from(&[("/w/.git/config", "[include]\npath = config\n")]);
        assert_eq!((cycle.files.len(), cycle.incomplete), (2, false), "a file includes itself once");
        let mut read = |path: &Path| {
            let number: usize = path.file_name()?.to_str()?.parse().unwrap_or(0);
            Some(format!("[include]\npath = {}\n", number + 1).into_bytes())
        };
        let deep = load(Path::new("/config"), None, &mut read);
        assert_eq!((deep.files.len(), deep.incomplete), (DEPTH_MAX + 1, true));
    }
}
