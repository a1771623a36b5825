//! Changes that were undone and turn out to be the user's: they are made again.
//!
//! What was taken away is read again where it is kept, which no command can write: the user may have looked
//! at it there before the answer.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use haft::ports::{ConfinementRefusal, UndoneChange};

use super::judge::NameChange;
use super::quarantine::{self, RemovedContent};
use super::snapshot::{LeafContent, NameSnapshot};
use super::{ProtectedFiles, ProtectedState};
use crate::profile::{approved, limits, undo};

/// A change that was undone and can be made again.
pub(super) struct RedoableChange {
    pub(super) change: UndoneChange,
    /// What is put there; none if the change was a removal.
    content: Option<LeafContent>,
    /// The command that was notified of it while it ran.
    command: Option<usize>,
}

impl ProtectedFiles {
    /// What is needed to make a change again, whose undoing is described by `done`; none where its content
    /// wasn't kept as a whole.
    pub(super) fn redoable_change(
        &self,
        change: &NameChange<'_>,
        taken: Option<&io::Result<RemovedContent>>,
        executed: &str,
        done: &str,
    ) -> Option<RedoableChange> {
        let content = match (change.now, taken) {
            (None, None) => None,
            (Some(LeafContent::File { executable, .. }), Some(Ok(RemovedContent::Kept(kept))))
                if kept.starts_with(&self.caches) =>
            {
                let content = LeafContent::read(kept, &kept.symlink_metadata().ok()?);
                let LeafContent::File { bytes, .. } = content else { return None };
                Some(LeafContent::File { bytes, executable: *executable })
            }
            (Some(_), Some(Ok(RemovedContent::Symlink(target)))) => {
                Some(LeafContent::Symlink(target.clone()))
            }
            _ => return None,
        };
        let (path, executed, done) = (change.path.to_owned(), executed.to_owned(), done.to_owned());
        Some(RedoableChange { change: UndoneChange { path, executed, done }, content, command: None })
    }

    /// Changes that a command asks about when it has ended: those of which it was notified, and those of
    /// which no command was.
    pub(in crate::profile) fn unanswered(&self, number: usize) -> Vec<UndoneChange> {
        let state = self.state();
        let is_its_own =
            |redoable: &&RedoableChange| redoable.command.is_none_or(|command| command == number);
        state.redoable.values().filter(is_its_own).map(|redoable| redoable.change.clone()).collect()
    }

    /// The user has answered about changes; those that are the user's are made again. Returns what to report.
    pub(in crate::profile) fn answered(&self, paths: &[PathBuf], is_users: bool) -> Vec<ConfinementRefusal> {
        let mut state = self.state();
        let mut said = Vec::new();
        for path in paths {
            let Some(redoable) = state.redoable.remove(path).filter(|_| is_users) else { continue };
            let done = match self.redo_change(&mut state, path, redoable.content) {
                Ok(()) => "the user says that this is their work, so it stays".to_owned(),
                Err(error) => format!(
                    "the user says that this is their work, but it can't be made again: {error}; {}",
                    redoable.change.done
                ),
            };
            state.undone.retain(
                |said| !matches!(said, ConfinementRefusal::Protected { path: undone, .. } if undone == path),
            );
            for listener in state.listeners.values_mut() {
                listener.planted.remove(path);
            }
            said.push(ConfinementRefusal::Changed { path: path.clone(), done });
        }
        said
    }

    fn redo_change(
        &self,
        state: &mut ProtectedState,
        path: &Path,
        content: Option<LeafContent>,
    ) -> io::Result<()> {
        match &content {
            None => drop(self.quarantine.take(path)?),
            Some(content) => {
                if let LeafContent::File { bytes, .. } = content {
                    // For other sessions that work here, and for the next one should this one be killed.
                    approved::approve_content(&self.caches, path, bytes)?;
                } else if undo::is_there(path) {
                    undo::remove_entry(path)?;
                }
                quarantine::restore_content(self.root_of(path), path, content)?;
            }
        }
        let now = NameSnapshot::take(&self.roots, &BTreeSet::from([path.to_owned()]), &state.saved);
        state.saved.adopt(&now, |changed| path.starts_with(changed));
        state.known.accepted.extend(content.map(|content| (path.to_owned(), content)));
        Ok(())
    }
}

impl ProtectedState {
    /// Keeps what is needed to make a change again. `command` is the one that was notified of it.
    pub(super) fn keep_redoable(&mut self, redoable: Option<RedoableChange>, command: Option<usize>) {
        let Some(redoable) = redoable else { return };
        if self.redoable.len() < limits::REPORTED_MAX {
            self.redoable.insert(redoable.change.path.clone(), RedoableChange { command, ..redoable });
        }
    }
}
