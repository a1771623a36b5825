//! Addresses of remotes that a command may put into a configuration of git.
//!
//! An address can be a path, and the repository there runs its own hooks when the user pushes to it. So one
//! that leads to where commands write may not stay, but for a repository that is held: its hooks are the
//! user's. The same counts for a remote's name that no remote has, which git takes for a path. What a name
//! leads to can be changed later, so what counts is where it lies and not what is there now.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use haft_git::ConfigEntry;
use haft_git::config::{parse, remove_entries, render};

use super::repository;
use super::symlink_trace::without_dots;

/// Where commands write, and what of that is held from them.
pub(super) struct RemoteAddresses<'a> {
    pub(super) roots: &'a [PathBuf],
    /// Folders with a repository of the user's, or of git.
    pub(super) held: &'a [PathBuf],
}

/// A configuration without what may not be there, and the names of that.
type CleanedConfig = (Vec<u8>, Vec<String>);

impl RemoteAddresses<'_> {
    /// Takes the addresses out of a configuration that a command has put there and that may not stay, and
    /// puts back what they were before. `config` is where it lies.
    pub(super) fn judge(&self, config: &Path, before: &[u8], now: &[u8]) -> Option<CleanedConfig> {
        if before == now {
            return None;
        }
        let (old, new) = (parse(before).ok()?, parse(now).ok()?);
        let dangled = |entry: &ConfigEntry| old.contains(entry) && is_dangling(entry, &old);
        let bad = |entry: &ConfigEntry| match address_kind(entry) {
            AddressKind::Url => !old.contains(entry) && !self.may_be(config, entry_value(entry)),
            AddressKind::Remote if is_name(entry_value(entry)) => is_dangling(entry, &new) && !dangled(entry),
            AddressKind::Remote => !old.contains(entry) && !self.may_be(config, entry_value(entry)),
            AddressKind::Other => false,
        };
        let (mut bytes, names) = remove_entries(now, |entry| !bad(entry))?;
        // What it was, if the change was one, and a remote whose name is still used.
        let left = parse(&bytes).ok()?;
        let lost =
            |entry: &&ConfigEntry| names.contains(&entry.name()) && !left.contains(entry) && !bad(entry);
        let lost: Vec<&ConfigEntry> = old.iter().filter(lost).collect();
        if !lost.is_empty() {
            if bytes.last().is_some_and(|last| *last != b'\n') {
                bytes.push(b'\n');
            }
            bytes.extend(render(lost));
        }
        Some((bytes, names))
    }

    /// Whether one of the entries of a configuration that a command has made may be there, as far as it is an
    /// address.
    pub(super) fn may_be_new(&self, config: &Path, entry: &ConfigEntry, all: &[ConfigEntry]) -> bool {
        match address_kind(entry) {
            AddressKind::Remote if is_name(entry_value(entry)) => {
                let stays = |other: &&ConfigEntry| self.may_lead(config, entry_value(other));
                let stay: Vec<ConfigEntry> = all.iter().filter(stays).cloned().collect();
                !is_dangling(entry, &stay)
            }
            AddressKind::Url | AddressKind::Remote => self.may_lead(config, entry_value(entry)),
            AddressKind::Other => true,
        }
    }

    /// Whether an address in a repository that a command has made may lead there.
    fn may_lead(&self, config: &Path, address: &str) -> bool {
        self.may_be(config, address) || self.is_local_repository(config, address)
    }

    /// Whether an address leads straight to a repository in a folder that commands write. It is looked at
    /// like the one that has the address, so it runs nothing either.
    fn is_local_repository(&self, config: &Path, address: &str) -> bool {
        let path = local_path(config, address).map(|path| without_dots(&path));
        path.is_some_and(|path| {
            real_path(&path) == path && (path.join(".git").is_dir() || repository::is_bare(&path))
        })
    }

    /// Whether an address leads to another machine, to where no command writes, or to a repository that is
    /// held.
    fn may_be(&self, config: &Path, address: &str) -> bool {
        let is_elsewhere = match address.split_once("://") {
            Some((scheme, _)) => scheme != "file",
            None => is_host(address),
        };
        let path = local_path(config, address).map(|path| without_dots(&path));
        is_elsewhere || path.is_some_and(|path| self.is_safe(&path) && self.is_safe(&real_path(&path)))
    }

    fn is_safe(&self, path: &Path) -> bool {
        let inside = self.roots.iter().any(|root| path.starts_with(root));
        // A folder in one of these isn't that repository.
        let held = |held: &PathBuf| {
            let of_git = held.ends_with(".git") && held.parent() == Some(path);
            path == held || *path == held.join(".git") || of_git
        };
        !inside || self.held.iter().any(held)
    }
}

/// The path that an address is on this machine, if that is known.
fn local_path(config: &Path, address: &str) -> Option<PathBuf> {
    let path = match address.split_once("://") {
        // Letters can be written otherwise in it, and a host can stand before the path.
        Some(("file", path)) if path.starts_with('/') && !path.contains('%') => path,
        Some(_) => return None,
        None if is_host(address) => return None,
        None => address,
    };
    // git takes it from the work tree, and nobody knows here where that of a submodule is.
    match config.parent().filter(|folder| folder.ends_with(".git")).and_then(Path::parent) {
        Some(work) => Some(work.join(path)),
        None => Path::new(path).is_absolute().then(|| PathBuf::from(path)),
    }
}

enum AddressKind {
    Url,
    /// A remote by its name, or an address.
    Remote,
    Other,
}

fn address_kind(entry: &ConfigEntry) -> AddressKind {
    match (entry.section.as_str(), &entry.sub, entry.key.as_str()) {
        // From that of a submodule git only fetches, but what it fetched from is the remote of the submodule
        // from then on.
        ("remote" | "submodule", Some(_), "url") => AddressKind::Url,
        ("branch", Some(_), "remote" | "pushremote") => AddressKind::Remote,
        _ => AddressKind::Other,
    }
}

fn entry_value(entry: &ConfigEntry) -> &str {
    entry.value.as_deref().unwrap_or_default()
}

/// Whether it can be the name of a remote.
fn is_name(value: &str) -> bool {
    !value.contains(['/', ':'])
}

/// Whether it is the name of a remote that none of these gives an address. The repository itself is `.`.
fn is_dangling(entry: &ConfigEntry, all: &[ConfigEntry]) -> bool {
    let name = entry_value(entry);
    let has = |other: &ConfigEntry| {
        other.section == "remote" && other.key == "url" && other.sub.as_deref() == Some(name)
    };
    name != "." && !name.is_empty() && !all.iter().any(has)
}

/// `host:path`, which is reached by ssh; as git tells it from a path.
fn is_host(address: &str) -> bool {
    match (address.find(':'), address.find('/')) {
        (Some(colon), Some(slash)) => colon < slash,
        (colon, _) => colon.is_some(),
    }
}

/// Where it lies, as far as something is there.
fn real_path(path: &Path) -> PathBuf {
    let mut rest: Vec<&OsStr> = Vec::new();
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return rest.iter().rev().fold(real, |at, name| at.join(name));
        }
        rest.extend(above.file_name());
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(before: &str, now: &str) -> Option<(String, String)> {
        let (roots, held) = ([PathBuf::from("/w")], [PathBuf::from("/w"), PathBuf::from("/w/sub")]);
        let addresses = RemoteAddresses { roots: &roots, held: &held };
        let judged = addresses.judge(Path::new("/w/.git/config"), before.as_bytes(), now.as_bytes());
        judged.map(|(bytes, names)| (String::from_utf8(bytes).unwrap(), names.join(" ")))
    }

    #[test]
    fn an_address_may_not_lead_to_where_commands_write() {
        let old = "[remote \"origin\"]\n\turl = https://a/b\n";
        let with = |url: &str| format!("[remote \"origin\"]\n\turl = {url}\n");
        for bad in [
            "/w/x.git",
            "x.git",
            "./x",
            "../w/x",
            "/srv/../w/x",
            "file:///w/x",
            "file://localhost/w/x",
            "file:///%77/x",
            "sub/x",
            "/w/.git/modules/x",
            "../x:y/../w/x",
            "x",
        ] {
            let (text, names) = judged(old, &with(bad)).unwrap_or_else(|| panic!("`{bad}` stays"));
            assert_eq!(names, "remote.origin.url", "{bad}");
            assert!(text.contains("https://a/b") && !text.contains(bad), "{bad}: {text}");
        }
        for good in [
            "https://c/d",
            "git@host:w/x",
            "host:/w/x",
            "ssh://h/w/x",
            "/elsewhere/x.git",
            "../up.git",
            ".",
            "./sub",
            "/w/sub",
            "/w/sub/.git",
            "file:///elsewhere/x",
        ] {
            assert_eq!(judged(old, &with(good)), None, "{good}");
        }
        // That of a submodule becomes that of its remote when it is fetched.
        let module = |url: &str| format!("{old}[submodule \"m\"]\n\tactive = true\n\turl = {url}\n");
        let (text, names) = judged(old, &module("/w/x.git")).unwrap();
        assert_eq!((names.as_str(), text.contains("/w/x.git")), ("submodule.m.url", false));
        let (text, _) = judged(&module("https://m/m"), &module("/w/x.git")).unwrap();
        assert!(text.contains("https://m/m") && !text.contains("/w/x.git"), "{text}");
        for good in ["https://m/n", "/w/sub", "/elsewhere/m.git", "../m.git"] {
            assert_eq!(judged(old, &module(good)), None, "{good}");
        }
        // What was there is the user's.
        let own = with("./mine.git");
        assert_eq!(judged(&own, &format!("{own}[branch \"a\"]\n\tremote = origin\n")), None);
    }

    #[test]
    fn a_name_that_no_remote_has_is_a_path() {
        let old = "[remote \"origin\"]\n\turl = https://a/b\n[branch \"m\"]\n\tremote = origin\n";
        let (text, names) = judged(old, &old.replace("= origin", "= evil")).unwrap();
        assert_eq!(names, "branch.m.remote");
        assert!(text.contains("= origin") && !text.contains("evil"), "{text}");
        // Or has no more.
        let (text, names) = judged(old, "[branch \"m\"]\n\tremote = origin\n").unwrap();
        assert_eq!((names.as_str(), text.contains("origin")), ("branch.m.remote", false));
        assert_eq!(judged(old, ""), None, "git takes both away");
        assert_eq!(judged(old, &format!("{old}[branch \"n\"]\n\tremote = .\n")), None);
        let was = "[branch \"m\"]\n\tremote = gone\n";
        assert_eq!(judged(was, &format!("{was}[user]\n\tname = x\n")), None, "the user's");
    }
}
