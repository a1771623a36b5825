//! What configuration of git names that runs or is read as configuration, whether it is there or not.
//!
//! A repository's own configuration, the user's and the machine's: a relative name in any of them means a
//! place in the work tree. Each word of a value counts, since `python3 tools/f.py` runs its second. What
//! isn't there counts where git would run it as soon as it is.

use std::fs;
use std::path::{Path, PathBuf};

use haft_git::keys::starts_program;
use haft_git::{ConfigEntry, include};

use super::symlink_trace::{ResolvedPath, trace_symlinks};
use super::{limits, read_small};

#[derive(Debug, Default)]
pub(super) struct ConfiguredPaths {
    /// Those that are there, by their real names.
    pub(super) there: Vec<PathBuf>,
    /// Links and folders by which they are named.
    pub(super) through: Vec<PathBuf>,
    /// Folders of hooks that aren't.
    pub(super) hooks: Vec<PathBuf>,
    /// Other files that aren't.
    pub(super) missing: Vec<PathBuf>,
}

/// How many folders are remembered that a command line names, as places for what it names next.
const FOLDERS_NAMED_MAX: usize = 8;
/// How deep links are looked for in what is held.
const LINKS_DEEP: usize = 3;
/// How a script that is named by its name alone ends.
const ENDS: [&str; 13] =
    ["sh", "bash", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "lua", "php", "fish", "zsh"];

/// What configuration of a repository names, and that of the user and the machine for it, and what its hooks
/// lead to.
pub(super) fn find_configured_paths(
    configs: &[PathBuf],
    hooks: &Path,
    work: &Path,
    home: Option<&Path>,
) -> ConfiguredPaths {
    let mut named = ConfiguredPaths::default();
    let users = [".gitconfig", ".config/git/config"].iter().flat_map(|name| home.map(|home| home.join(name)));
    let users: Vec<PathBuf> = users.collect();
    for config in configs.iter().cloned().chain(["/etc/gitconfig".into()]).chain(users.iter().cloned()) {
        read_config(&config, work, home, &mut named);
    }
    // The user's own may be links into a working directory, as of who keeps them in a repository.
    let attributes = home.map(|home| home.join(".config/git/attributes"));
    for config in users.iter().chain(&attributes) {
        if let Some(ConfiguredPath::There(path)) = named.add(config) {
            named.there.push(path);
        }
    }
    let folders: Vec<PathBuf> = named.there.iter().filter(|path| path.is_dir()).cloned().collect();
    for folder in folders.iter().map(PathBuf::as_path).chain([hooks]) {
        named.add_links(folder, &[]);
    }
    for list in [&mut named.there, &mut named.through, &mut named.hooks, &mut named.missing] {
        list.sort();
        list.dedup();
    }
    named
}

impl ConfiguredPaths {
    /// Adds where a path leads. Whether something is there.
    fn add(&mut self, path: &Path) -> Option<ConfiguredPath> {
        let way = trace_symlinks(path)?;
        self.through.extend(way.through);
        Some(if way.there { ConfiguredPath::There(way.end) } else { ConfiguredPath::Missing(way.end) })
    }

    /// Adds what links in a folder lead to, which is held: they are, too, but what they lead to isn't.
    pub(super) fn add_links(&mut self, folder: &Path, but: &[PathBuf]) {
        let (mut left, mut seen) = (vec![(folder.to_owned(), 0)], 0);
        while let Some((folder, deep)) = left.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                seen += 1;
                if seen > limits::WATCHED_ENTRIES_MAX {
                    return;
                }
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if kind.is_dir() && deep < LINKS_DEEP && !but.contains(&path) {
                    left.push((path, deep + 1));
                } else if kind.is_symlink() {
                    match self.add(&path) {
                        Some(ConfiguredPath::There(to)) => self.there.push(to),
                        Some(ConfiguredPath::Missing(to)) => self.missing.push(to),
                        None => {}
                    }
                }
            }
        }
    }
}

/// Looks at a configuration, by the name that git has for it: what it includes is looked for beside that.
fn read_config(config: &Path, work: &Path, home: Option<&Path>, named: &mut ConfiguredPaths) {
    let mut read = |path: &Path| read_small(&trace_symlinks(path).filter(|way| way.there)?.end);
    let loaded = include::load(config, home, &mut read);
    for include in &loaded.includes {
        match named.add(include) {
            Some(ConfiguredPath::There(path)) => named.there.push(path),
            Some(ConfiguredPath::Missing(path)) => named.missing.push(path),
            None => {}
        }
    }
    for entry in loaded.entries() {
        look_at(entry, work, home, named);
    }
}

/// Looks at one entry.
fn look_at(entry: &ConfigEntry, work: &Path, home: Option<&Path>, named: &mut ConfiguredPaths) {
    let at = |base: &Path, text: &str| include::named_path(base, text, home);
    let value = entry.value.as_deref().unwrap_or_default();
    match (entry.section.as_str(), entry.key.as_str()) {
        _ if value.is_empty() => {}
        ("include" | "includeif", "path") | ("core", "worktree") => {}
        ("core", "hookspath") | ("init", "templatedir") => match named.add(&at(work, value)) {
            Some(ConfiguredPath::There(path)) => named.there.push(path),
            Some(ConfiguredPath::Missing(path)) => named.hooks.push(path),
            None => {}
        },
        ("remote" | "branch" | "submodule" | "url", _) if !starts_program(entry) => {}
        _ => {
            // `cd tools && ./f.sh` means a place in the folder that was named before.
            let mut bases = vec![work.to_owned()];
            let words = shell_words(value).into_iter().enumerate();
            let places = words.flat_map(|(index, word)| {
                let mut ways: Vec<ResolvedPath> =
                    bases.iter().filter_map(|base| trace_symlinks(&at(base, word))).collect();
                // What is in one of them is missing in none.
                if ways.iter().any(|way| way.there) {
                    ways.retain(|way| way.there);
                }
                if bases.len() < FOLDERS_NAMED_MAX {
                    let folders = ways.iter().filter(|way| way.there && way.end.is_dir());
                    let new: Vec<PathBuf> = folders.map(|way| way.end.clone()).collect();
                    bases.extend(new);
                }
                ways.into_iter().map(move |way| (index, word, way)).collect::<Vec<_>>()
            });
            for (index, word, way) in places.collect::<Vec<_>>() {
                // A program without a slash is looked for elsewhere.
                if way.there && way.end.is_file() && (word.contains('/') || index > 0) {
                    named.there.push(way.end);
                    named.through.extend(way.through);
                } else if !way.there && starts_program(entry) && is_script(word, index) {
                    named.missing.push(way.end);
                    named.through.extend(way.through);
                }
            }
        }
    }
}

/// The words of a value, as a shell would roughly have them.
fn shell_words(value: &str) -> Vec<&str> {
    let apart = |c: char| c.is_whitespace() || "\"'`;&|()<>=!".contains(c);
    value.split(apart).filter(|word| !word.is_empty()).take(limits::NAMES_LOOKED_AT_MAX).collect()
}

/// Whether a word that names nothing would be run if it did.
fn is_script(word: &str, index: usize) -> bool {
    let plain =
        !word.starts_with('-') && !word.contains("//") && !word.contains(['$', '*', '%', ':', '~', '\\']);
    let ends =
        Path::new(word).extension().and_then(|end| end.to_str()).is_some_and(|end| ENDS.contains(&end));
    plain && (word.contains('/') || (ends && index > 0))
}

enum ConfiguredPath {
    There(PathBuf),
    Missing(PathBuf),
}
