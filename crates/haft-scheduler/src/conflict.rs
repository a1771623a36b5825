//! Conflict keys: what a call touches, in a form by which two calls can be compared.
//!
//! Two calls conflict if one changes what the other reads or changes: the same path or one above the other,
//! the same file under two names, the same named resource. Running only calls that don't conflict at the same
//! time has the same outcome as running all of them in order.
//!
//! A path is compared by its components alone; the caller has resolved symlinks and lists every name of the
//! place.

use std::path::{Path, PathBuf};

/// Everything that one call touches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConflictKeys {
    /// The call conflicts with every other call.
    pub exclusive: bool,
    /// What the call reads.
    pub reads: KeySet,
    /// What the call may change.
    pub changes: KeySet,
    /// Calls with the same number synchronize among themselves and don't conflict with each other.
    pub synchronized_by: Option<u64>,
}

/// Keys with the same access.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    /// Places in a tree, such as files and directories.
    pub paths: Vec<PathKey>,
    /// Named resources, such as hosts. Two of them are the same if their names are.
    pub resources: Vec<String>,
}

/// One place in a tree. A place conflicts with those above and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathKey {
    /// The names of the place: as given, as resolved, and the symlinks in between.
    pub names: Vec<PathBuf>,
    /// The identity of a file that has several hard links.
    pub file: Option<FileKey>,
}

/// The identity of a file: its device and its number on that device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey(pub u64, pub u64);

impl ConflictKeys {
    /// Returns the keys of a call that conflicts with every other call.
    pub fn exclusive() -> ConflictKeys {
        ConflictKeys { exclusive: true, ..ConflictKeys::default() }
    }

    /// Returns whether the two calls must not run at the same time.
    pub fn conflicts_with(&self, other: &ConflictKeys) -> bool {
        if self.exclusive || other.exclusive {
            return true;
        }
        if self.synchronized_by.is_some() && self.synchronized_by == other.synchronized_by {
            return false;
        }
        self.changes.overlaps(&other.changes)
            || self.changes.overlaps(&other.reads)
            || self.reads.overlaps(&other.changes)
    }

    /// Returns whether a call with these keys may conflict with calls that one with `earlier` didn't conflict
    /// with.
    pub fn is_wider_than(&self, earlier: &ConflictKeys) -> bool {
        self != earlier && !earlier.exclusive
    }

    /// Keeps only the changed paths, for locks that serialize writers.
    #[must_use]
    pub fn into_changed_paths(self) -> ConflictKeys {
        let changes = KeySet { resources: Vec::new(), ..self.changes };
        ConflictKeys { reads: KeySet::default(), changes, ..self }
    }
}

impl KeySet {
    fn overlaps(&self, other: &KeySet) -> bool {
        self.paths.iter().any(|mine| other.paths.iter().any(|theirs| mine.overlaps(theirs)))
            || self.resources.iter().any(|name| other.resources.contains(name))
    }
}

impl PathKey {
    fn overlaps(&self, other: &PathKey) -> bool {
        if self.file.is_some() && self.file == other.file {
            return true;
        }
        let is_related = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        self.names.iter().any(|mine| other.names.iter().any(|theirs| is_related(mine, theirs)))
    }
}
