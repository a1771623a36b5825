//! One look at the working directories, when the session starts.
//!
//! Finds the repositories in them, the sockets of other programs, and what rules deny. No link is followed. The walk goes
//! level by level, so that where it has to stop what is near was seen. What it finds stays for the session; whatever
//! appears later isn't known, except where a name can be foretold.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use haft::files::Hidden;

use super::limits;

#[derive(Default, Debug)]
pub(super) struct Found {
    /// Folders with a `.git` in them.
    pub(super) repositories: Vec<PathBuf>,
    /// Sockets, which would lead out of the sandbox.
    pub(super) sockets: Vec<PathBuf>,
    /// What may not be read.
    pub(super) unreadable: Vec<PathBuf>,
    /// What may not be written.
    pub(super) unwritable: Vec<PathBuf>,
    /// Why something may have been missed.
    pub(super) missed: Option<String>,
}

pub(super) fn walk(roots: &[PathBuf], deny_read: Option<&Hidden>, deny_write: Option<&Hidden>) -> Found {
    let mut found = Found::default();
    let covers = |rule: Option<&Hidden>, path: &PathBuf| rule.is_some_and(|rule| rule.covers(path));
    let mut folders: VecDeque<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 0)).collect();
    let mut entries = 0;
    while let Some((folder, depth)) = folders.pop_front() {
        let Ok(reader) = fs::read_dir(&folder) else { continue };
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
            if is_git && found.repositories.len() >= limits::REPOSITORIES_MAX {
                let count = limits::REPOSITORIES_MAX;
                found.missed = Some(format!("they hold more than {count} repositories"));
            } else if is_git {
                found.repositories.push(folder.clone());
            }
            if covers(deny_read, &path) {
                if found.unreadable.len() >= limits::MASKS_MAX {
                    let count = limits::MASKS_MAX;
                    found.missed = Some(format!("rules deny reading more than {count} files in them"));
                    continue;
                }
                found.unreadable.push(path);
                continue;
            }
            if kind.is_socket() && found.sockets.len() < limits::MASKS_MAX {
                found.sockets.push(path);
                continue;
            }
            if covers(deny_write, &path) && found.unwritable.len() < limits::MASKS_MAX {
                found.unwritable.push(path.clone());
            }
            // A folder that is a root itself is looked at as such.
            if kind.is_dir() && !is_git && depth < limits::WALK_DEPTH_MAX && !roots.contains(&path) {
                folders.push_back((path, depth + 1));
            }
        }
    }
    found
}
