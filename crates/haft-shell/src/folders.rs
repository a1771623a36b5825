//! Where the shell is after the `cd`s of a command: one folder, a few, or unknown.

use std::path::{Component, Path, PathBuf};

use super::FOLDERS_MAX;

/// The folders that a relative path may count from; relative to where the command begins. Nothing: unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkingFolders(Option<Vec<PathBuf>>);

impl WorkingFolders {
    pub(super) fn start() -> WorkingFolders {
        WorkingFolders(Some(vec![PathBuf::new()]))
    }

    pub(super) fn unknown() -> WorkingFolders {
        WorkingFolders(None)
    }

    pub(super) fn or(mut self, other: &WorkingFolders) -> WorkingFolders {
        match (&mut self.0, &other.0) {
            (Some(mine), Some(theirs)) => {
                for path in theirs {
                    if !mine.contains(path) {
                        mine.push(path.clone());
                    }
                }
                if mine.len() > FOLDERS_MAX {
                    self.0 = None;
                }
            }
            _ => self.0 = None,
        }
        self
    }

    pub(super) fn moved(&self) -> bool {
        *self != WorkingFolders::start()
    }

    /// The folders, if they are known.
    pub(super) fn folders(&self) -> Option<&[PathBuf]> {
        self.0.as_deref()
    }

    /// Where a path may be.
    pub(super) fn join(&self, path: &Path) -> Option<Vec<PathBuf>> {
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        self.0.as_ref().map(|folders| folders.iter().map(|folder| folder.join(path)).collect())
    }

    /// After `cd path`. Going up from a folder that may be a link is left unknown.
    pub(super) fn enter(&self, path: &Path) -> WorkingFolders {
        let Some(paths) = self.join(path) else { return WorkingFolders::unknown() };
        let plain = |path: &PathBuf| {
            let mut named = false;
            path.components().all(|part| {
                let up = part == Component::ParentDir;
                let fine = !(named && up);
                named |= !up;
                fine
            })
        };
        if paths.iter().all(plain) { WorkingFolders(Some(paths)) } else { WorkingFolders::unknown() }
    }
}
