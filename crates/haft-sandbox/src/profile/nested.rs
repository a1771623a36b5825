//! Repositories that come to be in the working directories while the session lives, however deep.
//!
//! Whoever enters one with git obeys its configuration, and git enters those that an index calls submodules by itself. An
//! index can be hidden from us (split, a link, too large), a `cd` with git in the prompt needs none: so what counts is
//! which folders hold a `.git` that weren't there before. The look at the start is remembered with the time at which each
//! folder changed, which no command can set; afterwards only folders that changed are read again.
//!
//! What appears while no command runs is the user's, and is left alone.
//!
//! The same look finds files that rules deny to write and that weren't there when the session began: no name can be held
//! that nobody can foretell, so these are only told.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft::files::Hidden;

use super::{limits, repository};

/// Device, number, and when it last changed.
type Changed = (u64, u64, i64, i64);

/// So long after a change a folder may change once more without showing it.
const COARSE: Duration = Duration::from_secs(2);

/// A folder as it was read.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    changed: Changed,
    /// It had changed just before, so that its time says nothing.
    fresh: bool,
    pub(super) inside: Vec<OsString>,
    pub(super) has_git: bool,
}

impl Folder {
    /// To be taken before it is read.
    pub(super) fn of(path: &Path) -> Option<Folder> {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        let changed = (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = i64::try_from(now.saturating_sub(COARSE).as_secs()).unwrap_or_default();
        Some(Folder { changed, fresh: found.ctime() >= since, inside: Vec::new(), has_git: false })
    }
}

#[derive(Debug, Default)]
pub(super) struct Nested {
    roots: Vec<PathBuf>,
    /// What isn't looked into: commands don't see it.
    hidden: Vec<PathBuf>,
    /// Nothing, if there was too much to look at.
    folders: Option<BTreeMap<PathBuf, Folder>>,
    /// Folders with a repository that no command has made.
    users: BTreeSet<PathBuf>,
    /// The others, as they were when no command ran.
    made: BTreeMap<PathBuf, Vec<(PathBuf, Changed)>>,
    /// Says what may not be written.
    deny_write: Option<Hidden>,
    /// What of it is there.
    denied: BTreeSet<PathBuf>,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Folders with a repository that a command has made or changed.
    pub(super) repositories: Vec<PathBuf>,
    /// What a command made although rules deny it.
    pub(super) denied: Vec<PathBuf>,
    /// Folders that can't be read any more.
    pub(super) closed: Vec<PathBuf>,
    /// There was too much, and nothing is looked for any more.
    pub(super) gave_up: bool,
}

impl Nested {
    /// With what the look at the start has found in these working directories, which commands may write.
    pub(super) fn new(
        roots: Vec<PathBuf>,
        hidden: Vec<PathBuf>,
        folders: Option<BTreeMap<PathBuf, Folder>>,
    ) -> Nested {
        let within = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
        let folders = folders.map(|mut folders| {
            folders.retain(|path, _| within(path));
            folders
        });
        let mut nested = Nested { roots, hidden, folders, ..Nested::default() };
        nested.users = nested.repositories().into_iter().collect();
        nested
    }

    /// Also finds what rules deny to write, beside what is there.
    pub(super) fn with_denied(mut self, rule: Option<Hidden>, there: BTreeSet<PathBuf>) -> Nested {
        (self.deny_write, self.denied) = (rule, there);
        self
    }

    /// Takes what is there now for the user's: no command runs.
    pub(super) fn begin(&mut self) {
        self.refresh(&mut Looked::default());
        let there = self.repositories();
        self.made.retain(|work, _| there.contains(work));
        for work in there {
            match self.made.get_mut(&work) {
                Some(stamps) => *stamps = stamps_of(&work),
                None => drop(self.users.insert(work)),
            }
        }
    }

    /// What commands have made or changed.
    pub(super) fn look(&mut self) -> Looked {
        let mut looked = Looked::default();
        self.refresh(&mut looked);
        let there = self.repositories();
        let touched = |work: &PathBuf| {
            !self.users.contains(work) && self.made.get(work).is_none_or(|stamps| *stamps != stamps_of(work))
        };
        looked.repositories = there.into_iter().filter(touched).collect();
        looked
    }

    /// Takes a repository that was looked at for one that is as it should be.
    pub(super) fn checked(&mut self, work: &Path) {
        self.made.insert(work.to_owned(), stamps_of(work));
    }

    fn repositories(&self) -> BTreeSet<PathBuf> {
        let all = self.folders.iter().flatten();
        all.filter(|(_, folder)| folder.has_git).map(|(path, _)| path.clone()).collect()
    }

    fn refresh(&mut self, looked: &mut Looked) {
        let Some(mut before) = self.folders.take() else { return };
        let mut now = BTreeMap::new();
        let mut left: Vec<PathBuf> = self.roots.clone();
        let mut read = 0;
        while let Some(path) = left.pop() {
            let Some(mut folder) = Folder::of(&path) else { continue };
            match before.remove(&path) {
                Some(known) if known.changed == folder.changed && !known.fresh => folder = known,
                known => match fs::read_dir(&path) {
                    Ok(entries) => {
                        for entry in entries.flatten() {
                            read += 1;
                            let name = entry.file_name();
                            let is_denied = |rule: &Hidden| rule.covers(&path.join(&name));
                            if self.deny_write.as_ref().is_some_and(is_denied)
                                && self.denied.len() < limits::FOLDERS_KNOWN_MAX
                                && self.denied.insert(path.join(&name))
                            {
                                looked.denied.push(path.join(&name));
                            }
                            if name == ".git" {
                                folder.has_git = true;
                            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                                folder.inside.push(name);
                            }
                        }
                    }
                    Err(_) => {
                        // What is known to be in it still is, as far as anybody can tell.
                        if let Some(known) = known {
                            folder.inside = known.inside;
                            folder.has_git = known.has_git;
                        }
                        folder.fresh = false;
                        looked.closed.push(path.clone());
                    }
                },
            }
            let inside = folder.inside.iter().map(|name| path.join(name));
            left.extend(inside.filter(|path| !self.roots.contains(path) && !self.hidden.contains(path)));
            now.insert(path, folder);
            if read > limits::NEW_ENTRIES_MAX || now.len() > limits::FOLDERS_KNOWN_MAX {
                looked.gave_up = true;
                return;
            }
        }
        self.folders = Some(now);
    }
}

/// When everything of a repository changed that says what runs.
fn stamps_of(work: &Path) -> Vec<(PathBuf, Changed)> {
    let mut names = vec![work.join(".git")];
    if let Some(there) = repository::administration(work) {
        if names[0].is_dir() {
            // It changes with every commit; what it is doesn't.
            names.clear();
        }
        let of_git = ["config", "config.worktree", "commondir", "hooks", "worktrees"];
        names.extend(of_git.iter().map(|name| there.join(name)));
        for folder in ["hooks", "worktrees"] {
            let entries = fs::read_dir(there.join(folder)).into_iter().flatten().flatten();
            names.extend(entries.take(limits::WATCHED_ENTRIES_MAX).map(|entry| entry.path()));
        }
    }
    let stamp = |path: PathBuf| {
        let found = path.symlink_metadata().ok()?;
        Some((path, (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())))
    };
    names.into_iter().filter_map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(root: &Path) -> Nested {
        let found = super::super::walk::walk(&[root.to_owned()], None, None);
        Nested::new(vec![root.to_owned()], Vec::new(), found.folders)
    }

    #[test]
    fn what_was_made_meanwhile_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("mine/.git")).unwrap();
        let mut nested = nested(root);
        assert!(nested.look().repositories.is_empty());
        fs::create_dir_all(root.join("a/b/c/.git")).unwrap();
        assert_eq!(nested.look().repositories, [root.join("a/b/c")]);
        nested.checked(&root.join("a/b/c"));
        assert!(nested.look().repositories.is_empty());
        fs::write(root.join("a/b/c/.git/config"), "").unwrap();
        assert_eq!(nested.look().repositories, [root.join("a/b/c")]);
        // What comes between commands is the user's.
        fs::create_dir_all(root.join("a/users/.git")).unwrap();
        nested.begin();
        assert_eq!(nested.look().repositories, [] as [PathBuf; 0]);
        fs::remove_dir_all(root.join("a")).unwrap();
        assert!(nested.look().repositories.is_empty());
    }
}
