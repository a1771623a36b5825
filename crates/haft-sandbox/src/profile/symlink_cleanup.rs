//! Links among the names in folders of git that commands may make.
//!
//! git follows a link where it writes: `COMMIT_EDITMSG`, `logs/HEAD`, `FETCH_HEAD`. Who puts one there has
//! the user's next `git commit` write wherever they like. git itself makes none but `HEAD`, in old
//! repositories; so one that wasn't there before is taken away. Folders are read again only when they have
//! changed.
//!
//! Not looked into: what lies in `objects/ab`, which git never writes through, and in folders of programs
//! beside git.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haft_git::layout::WRITTEN_FOLDERS;

use super::{limits, nested_repos, undo};

/// The links of an administration.
#[derive(Clone, Debug, Default)]
pub(super) struct GitSymlinks {
    folders: BTreeMap<PathBuf, FolderLinks>,
}

#[derive(Clone, Debug)]
struct FolderLinks {
    /// When it changed, unless that was just before it was read.
    changed: Option<(i64, i64)>,
    links: BTreeMap<OsString, PathBuf>,
    inside: Vec<OsString>,
}

impl GitSymlinks {
    /// Adds those of one folder of git; what hasn't changed since `before` isn't read again.
    pub(super) fn look(&mut self, folder: &Path, before: Option<&GitSymlinks>) {
        let mut left = vec![(folder.to_owned(), None::<usize>)];
        while let Some((path, deep)) = left.pop() {
            let known = before.and_then(|before| before.folders.get(&path));
            let Some(seen) = FolderLinks::read(&path, known) else { continue };
            for name in &seen.inside {
                let deeper = match deep {
                    None => WRITTEN_FOLDERS.iter().find(|(into, _)| name == *into).map(|(_, deep)| *deep),
                    // Objects themselves are never written through a link.
                    Some(2) if path.ends_with("objects") => (name == "info" || name == "pack").then_some(1),
                    Some(deep) => deep.checked_sub(1).filter(|deep| *deep > 0),
                };
                left.extend(deeper.map(|deep| (path.join(name), Some(deep))));
            }
            self.folders.insert(path, seen);
            if self.folders.len() >= limits::GIT_FOLDERS_SEEN_MAX {
                return;
            }
        }
    }

    /// Every link, and where it leads.
    pub(super) fn all(&self) -> impl Iterator<Item = (PathBuf, &Path)> {
        self.folders.iter().flat_map(|(folder, seen)| {
            seen.links.iter().map(move |(name, to)| (folder.join(name), to.as_path()))
        })
    }

    /// Where a link leads.
    pub(super) fn get(&self, path: &Path) -> Option<&Path> {
        let seen = self.folders.get(path.parent()?)?;
        seen.links.get(path.file_name()?).map(PathBuf::as_path)
    }
}

impl FolderLinks {
    fn read(path: &Path, known: Option<&FolderLinks>) -> Option<FolderLinks> {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        let changed = (found.ctime(), found.ctime_nsec());
        if let Some(known) = known.filter(|known| known.changed == Some(changed)) {
            return Some(known.clone());
        }
        let mut seen = FolderLinks {
            changed: (!nested_repos::is_fresh(found.ctime())).then_some(changed),
            links: BTreeMap::new(),
            inside: Vec::new(),
        };
        for entry in undo::read_dir(path).ok()?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => seen.inside.push(entry.file_name()),
                Ok(kind) if kind.is_symlink() => {
                    let to = fs::read_link(entry.path()).unwrap_or_default();
                    seen.links.insert(entry.file_name(), to);
                }
                _ => {}
            }
        }
        Some(seen)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_found_where_git_writes() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["refs/heads/a/b", "logs/refs", "objects/ab", "objects/pack", "other/x"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let links = [
            "COMMIT_EDITMSG",
            "logs/HEAD",
            "logs/refs/x",
            "objects/ac",
            "objects/pack/p",
            "refs/heads/a/b/c",
        ];
        for link in links.into_iter().chain(["objects/ab/cd", "other/x/y"]) {
            symlink("/none", dir.path().join(link)).unwrap();
        }
        let mut found = GitSymlinks::default();
        found.look(dir.path(), None);
        let mut names: Vec<PathBuf> = found.all().map(|(path, _)| path).collect();
        names.sort();
        assert_eq!(names, links.map(|link| dir.path().join(link)));
        assert_eq!(found.get(&dir.path().join("logs/HEAD")), Some(Path::new("/none")));
    }
}
