//! One look at the working directories, when the session starts.
//!
//! Finds the repositories in them, the sockets of other programs, and what rules deny. No link is followed.
//! The walk goes level by level, so that where it has to stop what is near was seen. What it finds stays for
//! the session; whatever appears later isn't known, except where a name can be foretold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use haft::files::HiddenPaths;
use haft_git::layout::is_part_of;

use super::limits;
use super::nested_repos::NestedFolder;

#[derive(Default, Debug)]
pub(super) struct WorkspaceScan {
    /// Folders with a `.git` in them.
    pub(super) repositories: Vec<PathBuf>,
    /// Folders that are bare repositories.
    pub(super) bare: Vec<PathBuf>,
    /// More such folders than are looked into.
    pub(super) more_repositories: Vec<PathBuf>,
    /// Sockets, which would lead out of the sandbox.
    pub(super) sockets: Vec<PathBuf>,
    /// What may not be read.
    pub(super) unreadable: Vec<PathBuf>,
    /// What may not be written.
    pub(super) unwritable: Vec<PathBuf>,
    /// All that rules deny to write.
    pub(super) denied: BTreeSet<PathBuf>,
    /// Folders that can't be looked into.
    pub(super) closed: Vec<PathBuf>,
    /// Folders lie so deep that they weren't seen.
    pub(super) too_deep: bool,
    /// All others, if all were seen.
    pub(super) folders: Option<BTreeMap<PathBuf, NestedFolder>>,
    /// Folders that commands may write beside the working directories, and that hold too much to remember it.
    pub(super) too_much: Vec<PathBuf>,
    /// Folders with a repository of which a working directory is only a part.
    pub(super) tops: Vec<PathBuf>,
    /// The folders that what is hidden lies in, as far up as the working directories.
    above_hidden: BTreeSet<PathBuf>,
    /// Why something may have been missed.
    pub(super) missed: Option<String>,
}

/// Whether rules deny everything in a folder, also what isn't there yet: a name that nobody uses, and one
/// below.
pub(super) fn is_whole(rule: &HiddenPaths, folder: &Path) -> bool {
    let unused = folder.join("\u{1}unused");
    rule.covers(&unused) && rule.covers(&unused.join("\u{1}"))
}

impl WorkspaceScan {
    /// Adds what was found in folders that settings let commands write. Gives why something may have been
    /// missed there; that takes nothing from what is known of the working directories.
    pub(super) fn add(&mut self, roots: &[PathBuf], other: WorkspaceScan) -> Option<String> {
        self.repositories.extend(other.repositories);
        self.bare.extend(other.bare);
        self.more_repositories.extend(other.more_repositories);
        self.sockets.extend(other.sockets);
        self.unwritable.extend(other.unwritable);
        self.denied.extend(other.denied);
        match (&mut self.folders, other.folders) {
            (Some(folders), Some(more)) => folders.extend(more),
            _ => self.too_much.extend_from_slice(roots),
        }
        other.missed
    }

    /// Adds repositories of which working directories are parts, and what was found in them: nothing there is
    /// written, so only what is hidden counts.
    pub(super) fn add_tops(&mut self, tops: Vec<PathBuf>, around: WorkspaceScan) {
        self.sockets.extend(around.sockets);
        self.unreadable.extend(around.unreadable);
        self.missed = self.missed.take().or(around.missed);
        self.repositories.extend(tops.iter().cloned());
        self.tops = tops;
    }

    /// Counts the folders that must keep their place because of what is hidden in them.
    fn keep_in_place(&mut self, hidden: &Path, roots: &[PathBuf]) {
        let above = hidden.ancestors().skip(1).take_while(|above| !roots.iter().any(|root| root == above));
        self.above_hidden.extend(above.map(Path::to_owned));
        let count = limits::MASKED_FOLDERS_MAX;
        if self.above_hidden.len() > count {
            self.missed = Some(format!("what is hidden lies in more than {count} folders"));
        }
    }
}

pub(super) fn scan_workspaces(
    roots: &[PathBuf],
    deny_read: Option<&HiddenPaths>,
    deny_write: Option<&HiddenPaths>,
) -> WorkspaceScan {
    walk_but(roots, &[], deny_read, deny_write)
}

/// The same without folders that are looked at otherwise.
pub(super) fn walk_but(
    roots: &[PathBuf],
    but: &[PathBuf],
    deny_read: Option<&HiddenPaths>,
    deny_write: Option<&HiddenPaths>,
) -> WorkspaceScan {
    let mut found = WorkspaceScan::default();
    let covers = |rule: Option<&HiddenPaths>, path: &PathBuf| rule.is_some_and(|rule| rule.covers(path));
    let mut folders: VecDeque<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 0)).collect();
    let mut folders_seen = BTreeMap::new();
    let mut entries = 0;
    while let Some((folder, depth)) = folders.pop_front() {
        let mut seen = NestedFolder::read_folder(&folder);
        let Ok(reader) = fs::read_dir(&folder) else {
            found.closed.push(folder.clone());
            folders_seen.extend(seen.map(|seen| (folder, seen)));
            continue;
        };
        for entry in reader.flatten() {
            entries += 1;
            if entries > limits::WALK_ENTRIES_MAX {
                let count = limits::WALK_ENTRIES_MAX;
                found.missed = Some(format!("they hold more than {count} files, and no more are looked at"));
                return found;
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let is_git = entry.file_name() == ".git";
            if let Some(seen) = &mut seen {
                seen.note(&entry.file_name());
                seen.inside.extend((kind.is_dir() && !is_git).then(|| entry.file_name()));
            }
            if is_git && found.repositories.len() < limits::REPOSITORIES_MAX {
                found.repositories.push(folder.clone());
            } else if is_git && found.more_repositories.len() < limits::REPOSITORIES_WHOLE_MAX {
                found.more_repositories.push(folder.clone());
            } else if is_git {
                let count = limits::REPOSITORIES_MAX + limits::REPOSITORIES_WHOLE_MAX;
                found.missed = Some(format!("they hold more than {count} repositories"));
            }
            let unwritable = covers(deny_write, &path);
            // Also what is hidden: nobody is to be told later that a command has made it.
            if unwritable {
                found.denied.insert(path.clone());
            }
            if covers(deny_read, &path) {
                let count = limits::MASKS_MAX;
                if found.unreadable.len() >= count {
                    found.missed = Some(format!("rules deny reading more than {count} files in them"));
                    continue;
                }
                found.keep_in_place(&path, roots);
                found.unreadable.push(path);
                continue;
            }
            if kind.is_socket() {
                let count = limits::MASKS_MAX;
                if found.sockets.len() >= count {
                    found.missed = Some(format!("they hold more than {count} sockets"));
                    continue;
                }
                found.keep_in_place(&path, roots);
                found.sockets.push(path);
                continue;
            }
            let whole = kind.is_dir() && !is_git && deny_write.is_some_and(|rule| is_whole(rule, &path));
            // One in a folder that is held is held.
            if (unwritable || whole) && !found.unwritable.iter().any(|held| path.starts_with(held)) {
                let count = limits::MASKS_MAX;
                if found.unwritable.len() < count {
                    found.unwritable.push(path.clone());
                } else {
                    found.missed = Some(format!("rules deny writing more than {count} files in them"));
                }
            }
            // A folder that is a root itself is looked at as such.
            if kind.is_dir() && !is_git && !roots.contains(&path) && !but.contains(&path) {
                if depth < limits::WALK_DEPTH_MAX {
                    folders.push_back((path, depth + 1));
                } else {
                    // What lies further down is seen before the first command, where nothing has to be held.
                    found.missed = Some(format!("they are more than {depth} folders deep"));
                    found.too_deep = true;
                }
            }
        }
        if seen.as_ref().is_some_and(NestedFolder::is_bare) {
            if found.bare.len() < limits::REPOSITORIES_MAX {
                found.bare.push(folder.clone());
            } else {
                let count = limits::REPOSITORIES_MAX;
                found.missed = Some(format!("they hold more than {count} bare repositories"));
            }
        }
        folders_seen.extend(seen.map(|seen| (folder, seen)));
    }
    let all = found.bare.clone();
    found.bare.retain(|folder| !all.iter().any(|other| is_part_of(folder, other)));
    found.folders = Some(folders_seen);
    found
}
