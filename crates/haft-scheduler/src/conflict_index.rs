//! An index of conflict keys, so that a call need not be compared with every other call.
//!
//! For each path, file and resource the index knows which calls read it and which change it, and for each directory
//! which of them do so anywhere beneath it. Finding the nearest earlier call that conflicts takes as many lookups as the
//! paths of the call have components, however many calls there are.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use crate::conflict::{ConflictKeys, FileKey, KeySet, PathKey};

/// The keys of the unfinished calls of a scheduler.
#[derive(Default)]
pub struct ConflictIndex {
    /// Calls that conflict with every other call.
    exclusive: BTreeSet<usize>,
    /// The others, by the number that synchronizes them: within one such group nothing conflicts.
    groups: HashMap<Option<u64>, KeyGroup>,
}

#[derive(Default)]
struct KeyGroup {
    paths: HashMap<PathBuf, PathUsers>,
    files: HashMap<FileKey, KeyUsers>,
    resources: HashMap<String, KeyUsers>,
}

#[derive(Default)]
struct PathUsers {
    exact: KeyUsers,
    /// Calls that use this path or one below it.
    beneath: KeyUsers,
}

#[derive(Default)]
struct KeyUsers {
    readers: BTreeSet<usize>,
    changers: BTreeSet<usize>,
}

#[derive(Clone, Copy)]
enum KeyAccess {
    Read,
    Change,
}

#[derive(Clone, Copy)]
enum IndexUpdate {
    Insert(usize),
    Remove(usize),
}

impl ConflictIndex {
    /// Adds a call. `None` conflicts with everything.
    pub fn insert(&mut self, call: usize, keys: Option<&ConflictKeys>) {
        self.update(IndexUpdate::Insert(call), keys);
    }

    /// Removes a call, given the keys that it was inserted with.
    pub fn remove(&mut self, call: usize, keys: Option<&ConflictKeys>) {
        self.update(IndexUpdate::Remove(call), keys);
    }

    /// Returns the nearest earlier call that conflicts, and how many lookups that took.
    ///
    /// The keys of an exclusive call conflict with whichever call is nearest; the caller knows that one.
    pub fn nearest_conflict(&self, call: usize, keys: &ConflictKeys) -> (Option<usize>, usize) {
        let mut search = NearestSearch { call, nearest: nearest_before(&self.exclusive, call), lookups: 1 };
        for (synchronized_by, group) in &self.groups {
            if synchronized_by.is_none() || *synchronized_by != keys.synchronized_by {
                group.search(&keys.reads, KeyAccess::Read, &mut search);
                group.search(&keys.changes, KeyAccess::Change, &mut search);
            }
        }
        (search.nearest, search.lookups)
    }

    /// Returns whether the index holds no call.
    pub fn is_empty(&self) -> bool {
        self.exclusive.is_empty() && self.groups.values().all(KeyGroup::is_empty)
    }

    fn update(&mut self, update: IndexUpdate, keys: Option<&ConflictKeys>) {
        let Some(keys) = keys.filter(|keys| !keys.exclusive) else {
            return update.apply_to(&mut self.exclusive);
        };
        let group = self.groups.entry(keys.synchronized_by).or_default();
        group.update(update, &keys.reads, KeyAccess::Read);
        group.update(update, &keys.changes, KeyAccess::Change);
        remove_if(&mut self.groups, &keys.synchronized_by, KeyGroup::is_empty);
    }
}

impl KeyGroup {
    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.files.is_empty() && self.resources.is_empty()
    }

    fn update(&mut self, update: IndexUpdate, keys: &KeySet, access: KeyAccess) {
        keys.paths.iter().for_each(|path| self.update_path(update, path, access));
        for name in &keys.resources {
            self.resources.entry(name.clone()).or_default().update(update, access);
            remove_if(&mut self.resources, name, KeyUsers::is_empty);
        }
    }

    fn update_path(&mut self, update: IndexUpdate, path: &PathKey, access: KeyAccess) {
        if let Some(file) = path.file {
            self.files.entry(file).or_default().update(update, access);
            remove_if(&mut self.files, &file, KeyUsers::is_empty);
        }
        for name in &path.names {
            for (height, directory) in name.ancestors().enumerate() {
                if !self.paths.contains_key(directory) {
                    self.paths.insert(directory.to_path_buf(), PathUsers::default());
                }
                let Some(users) = self.paths.get_mut(directory) else { continue };
                if height == 0 {
                    users.exact.update(update, access);
                }
                users.beneath.update(update, access);
                if users.beneath.is_empty() {
                    self.paths.remove(directory);
                }
            }
        }
    }

    fn search(&self, keys: &KeySet, access: KeyAccess, search: &mut NearestSearch) {
        for path in &keys.paths {
            search.visit(path.file.and_then(|file| self.files.get(&file)), access);
            for name in &path.names {
                for (height, directory) in name.ancestors().enumerate() {
                    let users = self.paths.get(directory);
                    search.visit(
                        users.map(|users| if height == 0 { &users.beneath } else { &users.exact }),
                        access,
                    );
                }
            }
        }
        for name in &keys.resources {
            search.visit(self.resources.get(name), access);
        }
    }
}

impl KeyUsers {
    fn update(&mut self, update: IndexUpdate, access: KeyAccess) {
        update.apply_to(match access {
            KeyAccess::Read => &mut self.readers,
            KeyAccess::Change => &mut self.changers,
        });
    }

    fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.changers.is_empty()
    }
}

impl IndexUpdate {
    fn apply_to(self, calls: &mut BTreeSet<usize>) {
        match self {
            IndexUpdate::Insert(call) => calls.insert(call),
            IndexUpdate::Remove(call) => calls.remove(&call),
        };
    }
}

/// The nearest conflict found so far.
struct NearestSearch {
    call: usize,
    nearest: Option<usize>,
    lookups: usize,
}

impl NearestSearch {
    fn visit(&mut self, users: Option<&KeyUsers>, access: KeyAccess) {
        self.lookups += 1;
        let Some(users) = users else { return };
        self.nearest = self.nearest.max(nearest_before(&users.changers, self.call));
        if matches!(access, KeyAccess::Change) {
            self.nearest = self.nearest.max(nearest_before(&users.readers, self.call));
        }
    }
}

fn nearest_before(calls: &BTreeSet<usize>, call: usize) -> Option<usize> {
    calls.range(..call).next_back().copied()
}

fn remove_if<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: &K, is_unused: impl Fn(&V) -> bool) {
    if map.get(key).is_some_and(is_unused) {
        map.remove(key);
    }
}
