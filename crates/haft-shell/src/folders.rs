//! The working directory after the `cd`s of a command: one folder, a few, or unknown.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use super::FOLDERS_MAX;

/// The possible bases of a relative path, relative to the directory in which the command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkingFolders {
    Start,
    /// The start directory is an empty path in the list.
    Known(Rc<[PathBuf]>),
    Unknown,
}

impl WorkingFolders {
    pub(super) fn or(self, other: &WorkingFolders) -> WorkingFolders {
        if self == *other {
            return self;
        }
        let (Some(mine), Some(theirs)) = (self.folders(), other.folders()) else {
            return WorkingFolders::Unknown;
        };
        let added = theirs.iter().filter(|path| !mine.contains(path));
        let all: Rc<[PathBuf]> = mine.iter().chain(added).cloned().collect();
        if all.len() > FOLDERS_MAX { WorkingFolders::Unknown } else { WorkingFolders::Known(all) }
    }

    pub(super) fn moved(&self) -> bool {
        *self != WorkingFolders::Start
    }

    /// Returns the folders, if they are known.
    pub(super) fn folders(&self) -> Option<&[PathBuf]> {
        static START: &[PathBuf] = &[PathBuf::new()];
        match self {
            WorkingFolders::Start => Some(START),
            WorkingFolders::Known(folders) => Some(folders),
            WorkingFolders::Unknown => None,
        }
    }

    /// Returns the possible locations of a path.
    pub(super) fn join(&self, path: &Path) -> Option<Vec<PathBuf>> {
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        self.folders().map(|folders| folders.iter().map(|folder| folder.join(path)).collect())
    }

    /// Returns the folders after `cd path`. The parent of a folder that may be a symlink is unknown.
    pub(super) fn enter(&self, path: &Path) -> WorkingFolders {
        let Some(paths) = self.join(path) else { return WorkingFolders::Unknown };
        let plain = |path: &PathBuf| {
            let mut named = false;
            path.components().all(|part| {
                let up = part == Component::ParentDir;
                let fine = !(named && up);
                named |= !up;
                fine
            })
        };
        if paths.iter().all(plain) { WorkingFolders::Known(paths.into()) } else { WorkingFolders::Unknown }
    }
}
