//! Which folder a path meant, should it have another name by now.
//!
//! What a killed session has left is undone by whoever comes next, and the user may have renamed the folder
//! meanwhile. So what is kept for that says also which folders its paths lead through. One that isn't there
//! any more is looked for beside its old name, and where the next session works; elsewhere nobody finds it,
//! and what is kept waits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::git_folders::{FolderId, folder_id};
use super::limits;

/// The folders that some paths lead through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderIdentities(BTreeMap<PathBuf, FolderId>);

impl FolderIdentities {
    /// Of all folders above these paths, and of those that are folders themselves.
    pub(super) fn for_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> FolderIdentities {
        let mut all = BTreeMap::new();
        for path in paths {
            for above in path.ancestors() {
                if all.contains_key(above) || all.len() >= limits::WHEREABOUTS_MAX {
                    break;
                }
                if let Some(found) = folder_id(above).filter(|_| above.is_dir()) {
                    all.insert(above.to_owned(), found);
                }
            }
        }
        FolderIdentities(all)
    }

    /// Each folder, and which one it was, as text.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Path, String)> {
        self.0
            .iter()
            .map(|(path, (device, number, born))| (path.as_path(), format!("{device}:{number}:{born}")))
    }

    /// Adds one of these.
    pub(super) fn add(&mut self, folder: PathBuf, text: &[u8]) {
        let mut numbers = str::from_utf8(text).unwrap_or_default().split(':');
        let mut number = || numbers.next().and_then(|number| number.parse::<u128>().ok());
        if let (Some(device), Some(inode), Some(born)) = (number(), number(), number())
            && let (Ok(device), Ok(inode)) = (device.try_into(), inode.try_into())
        {
            self.0.insert(folder, (device, inode, born));
        }
    }

    /// Where a path leads now. Nothing if the folder that it meant is nowhere to be found. `here` are folders
    /// in which it may be, or which may be it.
    pub(super) fn now(&self, path: &Path, here: &[PathBuf]) -> Option<PathBuf> {
        let Some(known) = path.ancestors().find(|above| self.0.contains_key(*above)) else {
            return Some(path.to_owned());
        };
        let Some(found) = self.find(known, here) else {
            // Not every file system keeps numbers: what has the name is meant, if there is nothing better.
            return known.is_dir().then(|| path.to_owned());
        };
        let rest = path.strip_prefix(known).ok()?;
        Some(if rest.as_os_str().is_empty() { found } else { found.join(rest) })
    }

    fn find(&self, folder: &Path, here: &[PathBuf]) -> Option<PathBuf> {
        let known = *self.0.get(folder)?;
        let is_it = |path: &Path| folder_id(path) == Some(known);
        if is_it(folder) {
            return Some(folder.to_owned());
        }
        let parent = folder.parent().and_then(|parent| self.find(parent, here));
        if let (Some(parent), Some(name)) = (&parent, folder.file_name()) {
            let same = parent.join(name);
            if is_it(&same) {
                return Some(same);
            }
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            // The number alone is read with the name, and few have the right one.
            let alike = |entry: &fs::DirEntry| {
                use std::os::unix::fs::DirEntryExt as _;
                entry.ino() == known.1
            };
            let found = entries.take(limits::RENAMED_LOOKED_AT_MAX).filter(alike).map(|entry| entry.path());
            if let Some(found) = found.into_iter().find(|path| is_it(path)) {
                return Some(found);
            }
        }
        let above = here.iter().flat_map(|here| here.ancestors());
        let directly = here.iter().flat_map(|here| folder.file_name().map(|name| here.join(name)));
        above.map(Path::to_owned).chain(directly).find(|path| is_it(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let config = root.join("a/b/.git/config");
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        fs::create_dir_all(root.join("elsewhere/deep")).unwrap();
        fs::write(&config, "").unwrap();
        let known = FolderIdentities::for_paths([config.as_path()]);
        let mut again = FolderIdentities::default();
        known.all().for_each(|(path, id)| again.add(path.to_owned(), id.as_bytes()));
        assert_eq!(again, known);
        assert_eq!(known.now(&config, &[]), Some(config.clone()));
        // Two names on the way are others, and another folder has the old one.
        fs::rename(root.join("a/b"), root.join("a/c")).unwrap();
        fs::rename(root.join("a"), root.join("z")).unwrap();
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        assert_eq!(known.now(&config, &[]), Some(root.join("z/c/.git/config")));
        // Somewhere else it is found by who works there, and by nobody else.
        fs::remove_dir_all(root.join("a")).unwrap();
        fs::rename(root.join("z/c"), root.join("elsewhere/deep/d")).unwrap();
        assert_eq!(known.now(&config, &[]), None);
        let here = [root.join("elsewhere/deep/d/sub")];
        assert_eq!(known.now(&config, &here), Some(root.join("elsewhere/deep/d/.git/config")));
        assert_eq!(FolderIdentities::default().now(&config, &[]), Some(config));
    }
}
