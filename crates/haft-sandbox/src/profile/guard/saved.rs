//! Configurations of git as they were before a command, and what becomes of changes that nobody was let make.
//!
//! A mount on a file goes when somebody outside gives that name to another file, as `git config` does for the user, another
//! session, or another command. From then on a command that runs could write it. So whoever changed it: keys stay that a
//! command may change, the others are put back, and the file is kept as it was, since the change may have been the user's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haft::ports::Refusal;
use haft_git::layout::FolderKind;

use super::config::check_config;
use super::{Guard, State, works};
use crate::profile::addresses::Addresses;
use crate::profile::read_small;

/// Device, number, size, and when it last changed.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// What configurations were.
#[derive(Debug, Default)]
pub(super) struct Saved(BTreeMap<PathBuf, One>);

#[derive(Debug)]
struct One {
    stamp: Stamp,
    bytes: Vec<u8>,
}

fn stamp(path: &Path) -> Stamp {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

impl Saved {
    /// Takes a configuration as it is.
    fn take(&mut self, path: &Path) {
        // Before it is read: what comes in between is a change.
        let stamp = stamp(path);
        let is_known = self.0.get(path).is_some_and(|one| one.stamp == stamp);
        // Where a link leads is held by itself.
        if is_known || path.is_symlink() {
            return;
        }
        match read_small(path).filter(|_| stamp.is_some()) {
            Some(bytes) => drop(self.0.insert(path.to_owned(), One { stamp, bytes })),
            None => drop(self.0.remove(path)),
        }
    }

    /// Takes it as it is where somebody has looked at it.
    pub(super) fn looked_at(&mut self, path: &Path) {
        self.0.remove(path);
        self.take(path);
    }

    fn changed(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let changed = self.0.iter().filter(|(path, one)| stamp(path) != one.stamp);
        changed.map(|(path, one)| (path.clone(), one.bytes.clone())).collect()
    }
}

impl Guard {
    /// Takes the configurations of all folders of git that were learnt as they are.
    pub(super) fn save_configs(&self, state: &mut State) {
        let State { administrations, saved, .. } = state;
        let folders = administrations.values().flat_map(|administration| &administration.folders);
        let mut all = Vec::new();
        for (path, folder) in folders {
            let names: &[&str] = match folder.kind {
                FolderKind::Git | FolderKind::Bare => &["config", "config.worktree"],
                FolderKind::Worktree => &["config.worktree"],
                FolderKind::Modules | FolderKind::Worktrees => &[],
            };
            all.extend(
                names
                    .iter()
                    .filter(|name| folder.held.contains(OsStr::new(name)))
                    .map(|name| path.join(name)),
            );
        }
        saved.0.retain(|path, _| all.contains(path));
        all.iter().for_each(|path| saved.take(path));
    }

    /// Looks at those that nobody was let write and that have changed.
    pub(super) fn check_saved(&self, said: &mut Vec<Refusal>) {
        let mut state = self.state();
        let held = works(&state);
        let addresses = Addresses { roots: &self.written, held: &held };
        let State { configs, saved, repositories, .. } = &mut *state;
        for (path, before) in saved.changed() {
            // One that is gone with its repository is looked at with that.
            let is_gone = !path.parent().is_some_and(Path::is_dir);
            if configs.contains_key(&path) || is_gone || repositories.is_empty() {
                continue;
            }
            let checked = check_config(&path, &before, &addresses, Some(&self.recovered));
            said.extend(checked.said.map(|said| match said {
                Refusal::Protected { path, done } => Refusal::Changed { path, done },
                other => other,
            }));
            if checked.now.is_some() {
                saved.looked_at(&path);
                self.watch.learn([&path]);
            }
        }
    }
}
