//! What configuration of git names that runs or is read as configuration, whether it is there or not.
//!
//! A repository's own configuration, the user's and the machine's: a relative name in any of them means a place in the
//! work tree. Each word of a value counts, since `python3 tools/f.py` runs its second. What isn't there counts where git
//! would run it as soon as it is.

use std::path::{Component, Path, PathBuf};

use super::{gitconfig, limits, read_small};

#[derive(Debug, Default)]
pub(super) struct Named {
    /// Those that are there, by their real names.
    pub(super) there: Vec<PathBuf>,
    /// Folders of hooks that aren't.
    pub(super) hooks: Vec<PathBuf>,
    /// Other files that aren't.
    pub(super) missing: Vec<PathBuf>,
}

/// How deep included files are followed.
const INCLUDES_DEEP: usize = 5;
/// How a script that is named by its name alone ends.
const ENDS: [&str; 13] =
    ["sh", "bash", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "lua", "php", "fish", "zsh"];

/// What the configuration of a repository names, and that of the user and the machine for it.
pub(super) fn named(config: &Path, work: &Path, home: Option<&Path>) -> Named {
    let mut named = Named::default();
    let users = [".gitconfig", ".config/git/config"].iter().flat_map(|name| home.map(|home| home.join(name)));
    for config in [config.to_owned(), "/etc/gitconfig".into()].into_iter().chain(users) {
        look(&config, work, home, 0, &mut named);
    }
    for list in [&mut named.there, &mut named.hooks, &mut named.missing] {
        list.sort();
        list.dedup();
        list.truncate(limits::WATCHED_ENTRIES_MAX);
    }
    named
}

fn look(config: &Path, work: &Path, home: Option<&Path>, deep: usize, named: &mut Named) {
    let entries = read_small(config).and_then(|bytes| gitconfig::parse(&bytes).ok()).unwrap_or_default();
    let at = |base: &Path, text: &str| match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => base.join(text),
    };
    for entry in &entries {
        let value = entry.value.as_deref().unwrap_or_default();
        match (entry.section.as_str(), entry.key.as_str()) {
            _ if value.is_empty() => {}
            ("include" | "includeif", "path") => {
                let Some(folder) = config.parent() else { continue };
                match real(&at(folder, value)) {
                    Found::There(path) => {
                        if deep < INCLUDES_DEEP {
                            look(&path, work, home, deep + 1, named);
                        }
                        named.there.push(path);
                    }
                    Found::Missing(path) => named.missing.push(path),
                }
            }
            ("core", "hookspath") => match real(&at(work, value)) {
                Found::There(path) => named.there.push(path),
                Found::Missing(path) => named.hooks.push(path),
            },
            ("core", "worktree") => {}
            ("remote" | "branch" | "submodule" | "url", key) if !runs(&entry.section, key, value) => {}
            (section, key) => {
                for (index, word) in words(value).into_iter().enumerate() {
                    match real(&at(work, word)) {
                        // A program without a slash is looked for elsewhere.
                        Found::There(path) if path.is_file() && (word.contains('/') || index > 0) => {
                            named.there.push(path);
                        }
                        Found::Missing(path) if runs(section, key, value) && is_script(word, index) => {
                            named.missing.push(path);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Whether git runs the value of a key.
fn runs(section: &str, key: &str, value: &str) -> bool {
    const KEYS: [&str; 26] = [
        "alternaterefscommand",
        "askpass",
        "clean",
        "cmd",
        "command",
        "difffilter",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "helper",
        "packobjectshook",
        "pager",
        "path",
        "process",
        "program",
        "receivepack",
        "receive-pack",
        "smtpserver",
        "smudge",
        "sshcommand",
        "textconv",
        "tocmd",
        "uploadpack",
        "vcs",
    ];
    let by_shell = value.trim_start().starts_with('!');
    by_shell || section == "pager" || KEYS.contains(&key)
}

/// The words of a value, as a shell would roughly have them.
fn words(value: &str) -> Vec<&str> {
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

enum Found {
    There(PathBuf),
    Missing(PathBuf),
}

/// Where a path leads, as far as it does: what is compared with where things lie must be real.
fn real(path: &Path) -> Found {
    if let Ok(real) = path.canonicalize() {
        return Found::There(real);
    }
    let above = path.ancestors().skip(1).find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, mut real)) = above else { return Found::Missing(path.to_owned()) };
    for part in path.strip_prefix(above).unwrap_or(path).components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::Normal(name) => real.push(name),
            _ => {}
        }
    }
    Found::Missing(real)
}
