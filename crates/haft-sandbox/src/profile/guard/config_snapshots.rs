//! Configurations of git as they were before a command, and what becomes of changes that nobody was let make.
//!
//! A mount on a file goes when somebody outside gives that name to another file, as `git config` does for the
//! user, another session, or another command. From then on a command that runs could write it. So whoever
//! changed it: keys stay that a command may change, the others are put back, and the file is kept as it was,
//! since the change may have been the user's. One that a command may write is looked at when that ends,
//! whether it has changed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haft::ports::{ConfinementRefusal, ProcessRequest};
use haft_git::layout::FolderKind;

use super::config_check::check_config;
use super::{GuardState, RepositoryGuard, repository_roots};
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::undo_journal::{RecordFile, UndoRecord};
use crate::profile::{display_path, read_small, request_address, undo};

/// Device, number, size, and when it last changed.
type ConfigStamp = Option<(u64, u64, u64, i64, i64)>;

/// What configurations were.
#[derive(Debug, Default)]
pub(super) struct ConfigSnapshots(BTreeMap<PathBuf, ConfigSnapshot>);

#[derive(Debug, Default)]
struct ConfigSnapshot {
    stamp: ConfigStamp,
    /// What it was before the commands that run, or when it was looked at last.
    before: Vec<u8>,
    /// The requests of running commands that may write it.
    writers: BTreeSet<usize>,
    /// What it was, for whoever comes after us: while commands may write it, and until what they did could be
    /// undone.
    kept: Option<RecordFile>,
}

fn config_stamp(path: &Path) -> ConfigStamp {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

impl ConfigSnapshot {
    /// One that is there and can be read.
    fn read(path: &Path) -> Option<ConfigSnapshot> {
        // Before it is read: what comes in between is a change.
        let stamp = config_stamp(path);
        let before = read_small(path).filter(|_| stamp.is_some())?;
        Some(ConfigSnapshot { stamp, before, ..ConfigSnapshot::default() })
    }

    /// Takes what a look has left for what it should be.
    fn looked_at(&mut self, path: &Path, now: Vec<u8>) {
        // What somebody has written since is a change.
        self.stamp =
            ConfigSnapshot::read(path).filter(|again| again.before == now).and_then(|again| again.stamp);
        self.before = now;
    }
}

impl ConfigSnapshots {
    /// Takes a configuration as it is, unless a command may write it.
    fn take(&mut self, path: &Path) {
        let is_known =
            self.0.get(path).is_some_and(|known| known.kept.is_some() || known.stamp == config_stamp(path));
        // Where a link leads is held by itself.
        if is_known || path.is_symlink() {
            return;
        }
        match ConfigSnapshot::read(path) {
            Some(config) => drop(self.0.insert(path.to_owned(), config)),
            None => drop(self.0.remove(path)),
        }
    }

    /// Those that running commands may write, or that are still to be undone.
    pub(super) fn open(&self) -> Vec<PathBuf> {
        let open = self.0.iter().filter(|(_, config)| config.kept.is_some());
        open.map(|(path, _)| path.clone()).collect()
    }
}

impl RepositoryGuard {
    /// Takes the configurations of all folders of git that were learnt as they are.
    pub(super) fn save_configs(&self, state: &mut GuardState) {
        let GuardState { administrations, configs, .. } = state;
        let folders = administrations.values().flat_map(|administration| &administration.folders);
        let mut all = BTreeSet::new();
        for (path, folder) in folders {
            let names: &[&str] = match folder.kind {
                FolderKind::Git | FolderKind::Bare => &["config", "config.worktree"],
                FolderKind::Worktree => &["config.worktree"],
                FolderKind::Modules | FolderKind::Worktrees => &[],
            };
            let held = names.iter().filter(|name| folder.held.contains(OsStr::new(name)));
            all.extend(held.map(|name| path.join(name)));
        }
        configs.0.retain(|path, config| config.kept.is_some() || all.contains(path));
        all.iter().for_each(|path| configs.take(path));
    }

    /// Lets a request write a configuration.
    pub(super) fn open_config(&self, path: &Path, request: &ProcessRequest) -> Result<(), String> {
        let mut state = self.state();
        let config = state
            .configs
            .0
            .entry(path.to_owned())
            .or_insert_with(|| ConfigSnapshot::read(path).unwrap_or_default());
        if config.kept.is_none() {
            config.kept = Some(self.keep_config(path, &config.before)?);
        }
        config.writers.insert(request_address(request));
        Ok(())
    }

    /// Keeps what a configuration is, for the case that we are killed before we can look at it.
    fn keep_config(&self, path: &Path, before: &[u8]) -> Result<RecordFile, String> {
        self.journal.keep(&UndoRecord::of_config(path, before)).map_err(|error| {
            format!("no copy of `{}` can be kept, which this command may write: {error}", display_path(&path))
        })
    }

    /// Looks at configurations that this request could write, and, if it could write folders of git, at those
    /// that nobody was let write and that have changed. Others that still can are compared with what it
    /// leaves.
    pub(super) fn look_at_configs(
        &self,
        request: &ProcessRequest,
        could_write: bool,
        said: &mut Vec<ConfinementRefusal>,
    ) {
        let mut state = self.state();
        let held = repository_roots(&state);
        let addresses = RemoteAddresses { roots: &self.written, held: &held };
        let GuardState { configs, administrations, .. } = &mut *state;
        for (path, config) in &mut configs.0 {
            let was_open = config.kept.is_some();
            let is_due = if was_open {
                config.writers.remove(&request_address(request))
            } else {
                // One that is gone with its repository is looked at with that.
                could_write && config.stamp != config_stamp(path) && path.parent().is_some_and(Path::is_dir)
            };
            if !is_due || !was_open && held.is_empty() {
                continue;
            }
            let checked = check_config(path, &config.before, &addresses, Some(&self.recovered));
            said.extend(checked.said.map(|said| match said {
                ConfinementRefusal::Protected { path, done } if !was_open => {
                    ConfinementRefusal::Changed { path, done }
                }
                other => other,
            }));
            // What can't be undone yet is tried again.
            let Some(now) = checked.now else { continue };
            if config.writers.is_empty() {
                config.kept = None;
            } else if now != config.before {
                match self.keep_config(path, &now) {
                    Ok(kept) => config.kept = Some(kept),
                    Err(_) => continue,
                }
            }
            config.looked_at(path, now);
            let folder = path.parent().zip(path.file_name()).filter(|_| undo::is_there(path));
            if let Some((folder, name)) = folder
                && let Some(folder) =
                    administrations.values_mut().find_map(|found| found.folders.get_mut(folder))
            {
                // There may have been none.
                folder.held.insert(name.to_owned());
            }
            self.watch.learn([path]);
        }
    }

    /// Undoes what could not be undone when the command had ended that did it.
    pub(super) fn undo_configs(&self, state: &mut GuardState) {
        let held = repository_roots(state);
        let addresses = RemoteAddresses { roots: &self.written, held: &held };
        let due = state
            .configs
            .0
            .iter_mut()
            .filter(|(_, config)| config.kept.is_some() && config.writers.is_empty());
        for (path, config) in due {
            let checked = check_config(path, &config.before, &addresses, Some(&self.recovered));
            state.late.extend(checked.said);
            if let Some(now) = checked.now {
                config.kept = None;
                config.looked_at(path, now);
            }
        }
    }

    /// Leaves what can't be undone to the next session.
    pub(super) fn leave_configs(&self, state: &mut GuardState) {
        state.configs.0.values_mut().for_each(|config| config.writers.clear());
        self.undo_configs(state);
        state.configs.0.values_mut().flat_map(|config| &mut config.kept).for_each(RecordFile::leave);
    }
}
