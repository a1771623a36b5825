//! The folders of git of repositories that are held: learnt while no command runs, and settled when one has
//! ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use haft::ports::ConfinementRefusal;
use haft_git::layout::FolderKind;

use super::cleanup::{CleanupResult, CleanupScope};
use super::{GuardState, RepositoryGuard, recovery, repository_roots};
use crate::profile::git_folders::{GitFolders, folder_id};
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::repository::{self, GitRepository};
use crate::profile::undo_journal::{KnownFolder, UndoRecord};
use crate::profile::{display_path, limits, undo};

impl RepositoryGuard {
    /// Takes what git keeps now for the user's, but for what commands have made and for what can't be taken
    /// away yet. To be called while none runs that could write in them: so of the first `count` repositories.
    pub(super) fn learn(&self, state: &mut GuardState, count: usize) {
        let roots = self.roots(&state.repositories);
        let held = self.roots(&state.repositories[..count.min(state.repositories.len())]);
        let mut before = std::mem::take(&mut state.administrations);
        let mut room = limits::GIT_FOLDERS_ALL_MAX;
        for root in roots {
            if !held.contains(&root) {
                state.administrations.extend(before.remove(&root).map(|known| (root, known)));
                continue;
            }
            let known = before.remove(&root);
            let max = limits::GIT_FOLDERS_MAX.min(room).max(1);
            let mut found = GitFolders::look(&root, kind_of(&root, &state.repositories), known.as_ref(), max);
            found.bound();
            room = room.saturating_sub(found.folders.len() - usize::from(!found.folders.is_empty()));
            for (path, folder) in &mut found.folders {
                let by_command = || folder.id.is_some_and(|id| state.made.contains(&(path.clone(), id)));
                folder.made = folder.kind == FolderKind::Worktree && by_command();
                let left = folder.held.iter().filter(|name| state.unsettled.contains(&path.join(name)));
                let left: Vec<_> = left.cloned().collect();
                for name in left {
                    folder.held.remove(&name);
                    folder.changed = None;
                }
            }
            found.sequences.retain(|path, _| !state.unsettled.contains(path));
            state.administrations.insert(root, found);
        }
        state.made.retain(|(path, made)| folder_id(path) == Some(*made));
        state.unsettled.retain(|path| undo::is_there(path));
        self.save_configs(state);
    }

    /// The same for a repository that is held from now on, and leaves the others.
    pub(super) fn learn_new(&self, state: &mut GuardState) {
        for root in self.roots(&state.repositories) {
            let kind = kind_of(&root, &state.repositories);
            let look = || GitFolders::look(&root, kind, None, limits::GIT_FOLDERS_MAX);
            state.administrations.entry(root.clone()).or_insert_with(look);
        }
        self.save_configs(state);
    }

    /// The outermost administrations of repositories, where commands could write them.
    pub(super) fn roots(&self, repositories: &[GitRepository]) -> Vec<PathBuf> {
        let elsewhere = repositories.iter().flat_map(|repository| &repository.elsewhere);
        let writable: Vec<&PathBuf> = self.workspaces.iter().chain(elsewhere).collect();
        let inside = |root: &&PathBuf| writable.iter().any(|writable| root.starts_with(writable));
        let all: BTreeSet<&PathBuf> =
            repositories.iter().flat_map(|repository| &repository.roots).filter(inside).collect();
        let is_of = |root: &Path, other: &Path| {
            repository::is_module_of(root, other) || root.parent() == Some(&other.join("worktrees"))
        };
        let is_part = |root: &Path| all.iter().any(|other| is_of(root, other));
        all.iter().filter(|root| !is_part(root)).map(|root| (*root).clone()).collect()
    }

    /// Says which folders are held whole, because there is too much in them.
    pub(super) fn whole(&self) -> Vec<String> {
        let state = self.state();
        let whole = state.administrations.values().flat_map(|administration| &administration.whole);
        let note = |path: &PathBuf| {
            format!(
                "commands can't write `{}`: there is more in it than can be protected name by name; remove what isn't \
                 needed (`git worktree prune`)",
                display_path(path)
            )
        };
        whole.map(note).collect()
    }

    /// Looks again at repositories that the user has removed or replaced while no command ran.
    pub(super) fn find_again(&self, state: &mut GuardState) {
        let changed = |repository: &GitRepository| folder_id(&repository.git) != repository.id;
        let entries: Vec<PathBuf> = state
            .repositories
            .iter()
            .filter(|repository| changed(repository))
            .map(|repository| repository.git.clone())
            .collect();
        for entry in entries {
            let at = state.repositories.iter().position(|repository| repository.git == entry);
            let Some(at) = at else { continue };
            match repository::find_entry(&entry, self.home.as_deref()) {
                Some(mut found) => {
                    found.elsewhere.retain(|path| state.repositories[at].elsewhere.contains(path));
                    state.repositories[at] = found;
                }
                None => self.forget(state, at),
            }
        }
    }

    /// Forgets repositories that somebody has removed or replaced while a command ran: what is there now may
    /// be the command's.
    pub(super) fn forget_replaced(&self) {
        let mut state = self.state();
        for at in (0..state.repositories.len()).rev() {
            let known = &state.repositories[at];
            if folder_id(&known.git) != known.id {
                self.forget(&mut state, at);
            }
        }
    }

    fn forget(&self, state: &mut GuardState, at: usize) {
        let gone = state.repositories.remove(at);
        state.replaced.insert(gone.git.clone());
        for held in state.held.values_mut().filter(|held| **held > at) {
            *held -= 1;
        }
        state.nested.forget(&gone.git);
        let roots = self.roots(&state.repositories);
        state.administrations.retain(|root, _| roots.contains(root));
    }

    /// Takes away what a command put into the folders of git of repositories that are held.
    pub(super) fn settle(&self, afresh: bool, said: &mut Vec<ConfinementRefusal>) {
        let mut state = self.state();
        let works = repository_roots(&state);
        let GuardState { administrations, made, unsettled, configs, nested, .. } = &mut *state;
        let open = configs.open();
        let roots: Vec<PathBuf> = administrations.keys().cloned().collect();
        let users = nested.users().0;
        let is_users = |git: &Path| users.contains(git);
        let ground = CleanupScope {
            workspaces: &self.workspaces,
            addresses: RemoteAddresses { roots: &self.written, held: &works },
            roots: &roots,
            open: &open,
            is_users: &is_users,
            gently: false,
            afresh,
        };
        for (root, users) in administrations.iter() {
            let kind = users.kind.unwrap_or(FolderKind::Git);
            let CleanupResult { found, left } = ground.settle(root, kind, Some(users), said);
            unsettled.extend(left);
            for (path, folder) in &found.folders {
                let known = users.folders.get(path).is_some_and(|known| known.is_same(folder));
                if let (FolderKind::Worktree, false, Some(id)) = (folder.kind, known, folder.id) {
                    made.insert((path.clone(), id));
                }
            }
        }
    }

    /// Keeps which repositories no command has made, and what there is in their folders of git, for whoever
    /// comes after us.
    pub(super) fn keep_known(&self, state: &mut GuardState) -> Result<(), String> {
        let (users, whole) = state.nested.users();
        let mut repositories: Vec<PathBuf> = users.iter().cloned().collect();
        if !whole {
            match &state.known {
                Some((known, _)) => repositories.extend(known.repositories.iter().cloned()),
                // No command has run yet: new ones aren't found then.
                None => {
                    repositories.extend(recovery::nearby_repositories(&self.workspaces));
                    repositories.extend(state.repositories.iter().map(|repository| repository.git.clone()));
                }
            }
        }
        repositories.sort_by(|one, other| {
            one.components().count().cmp(&other.components().count()).then_with(|| one.cmp(other))
        });
        repositories.dedup();
        let mut folders = Vec::new();
        let mut sequences = Vec::new();
        for administration in state.administrations.values() {
            let users = administration.folders.iter().filter(|(_, folder)| !folder.made);
            folders.extend(users.map(|(path, folder)| KnownFolder {
                path: path.clone(),
                kind: folder.kind.letter(),
                names: folder.held.iter().cloned().collect(),
            }));
            let whole = administration.whole.iter();
            folders.extend(whole.map(|path| KnownFolder {
                path: path.clone(),
                kind: b'.',
                names: Vec::new(),
            }));
            sequences.extend(administration.sequences.clone());
        }
        let known = UndoRecord {
            workspaces: self.workspaces.clone(),
            more: !whole || repositories.len() > limits::KNOWN_REPOSITORIES_MAX,
            repositories: repositories.into_iter().take(limits::KNOWN_REPOSITORIES_MAX).collect(),
            roots: state.administrations.keys().cloned().collect(),
            folders,
            sequences,
            names: state.awaited.clone(),
            ..UndoRecord::default()
        };
        if state.known.as_ref().is_some_and(|(kept, _)| *kept == known) {
            return Ok(());
        }
        let kept = self.journal.keep(&known).map_err(|error| {
            format!("no record can be kept of the repositories that no command has made: {error}")
        })?;
        state.known = Some((known, kept));
        Ok(())
    }
}

/// What an outermost administration is.
fn kind_of(root: &Path, repositories: &[GitRepository]) -> FolderKind {
    let found = repositories.iter().find(|repository| repository.git == root);
    found.map_or(FolderKind::Git, GitRepository::kind)
}
