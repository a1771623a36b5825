//! Repositories that commands make, wherever git, an editor or somebody could enter them.

use std::path::{Path, PathBuf};

use haft::ports::{ConfinementRefusal, ProcessRequest};

use super::cleanup::{CleanupOutcome, CleanupScope};
use super::{GuardState, RepositoryGuard, recovery};
use crate::profile::name_comparison::NameContents;
use crate::profile::nested_repos::content_of;
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::undo_journal::known_work;
use crate::profile::{limits, open_path, repository, request_address, undo};

const MADE_DENIED: &str = "a rule denies writing it, and a command made it: only what is there when the session begins, and \
     what rules name without a wildcard, can be held; look at it";
const MADE_UNREADABLE: &str =
    "a command made it unreadable, and a repository could hide there; so its owner can read it again";
const LEFT_UNREADABLE: &str = "a command made it unreadable, so nobody knows whether it has put a repository there; look before \
     you use git in it";
const TOO_MUCH: &str = "commands have made so many files that repositories among them, and what rules deny to write, \
     aren't looked for any more; look before you use git there";

impl RepositoryGuard {
    /// A repository that a command has made keeps of its configuration what `git init` and `git clone` write:
    /// where git or an editor would enter it by itself.
    pub(super) fn look_for_new_repositories(
        &self,
        request: &ProcessRequest,
        said: &mut Vec<ConfinementRefusal>,
    ) {
        let (held, known) = {
            let state = self.state();
            let known = state.repositories.len();
            (state.held.get(&request_address(request)).map_or(known, |held| *held).min(known), known)
        };
        // Made while this command ran, by another one: this one could still change them.
        let made: Vec<PathBuf> =
            self.state().repositories[held..].iter().map(|repository| repository.git.clone()).collect();
        for entry in &made {
            self.check_entry(entry, held, said);
        }
        let mut looked_at = Vec::new();
        loop {
            let mut new = self.entered_by_itself();
            new.retain(|work| !looked_at.contains(work));
            if new.is_empty() || looked_at.len() >= limits::REPOSITORIES_MAX {
                break;
            }
            for work in new {
                if self.check_new(&work, known, said) == CleanupOutcome::Stays
                    && let Some((mut repository, _)) =
                        repository::find_repository(&work, self.home.as_deref())
                {
                    // What was made in the session vouches for nothing outside of it.
                    repository.elsewhere.clear();
                    let mut state = self.state();
                    state.repositories.push(repository);
                    self.learn_new(&mut state);
                }
                looked_at.push(work);
            }
        }
        self.look_at_nested(known, said);
        if self.state().repositories.len() > known {
            self.put_missing_aside(said);
            self.watch.learn(&self.watched());
        }
    }

    /// The same wherever somebody could enter one. These aren't held, so that they can be removed like other
    /// files, but looked at again when something of them has changed.
    fn look_at_nested(&self, known: usize, said: &mut Vec<ConfinementRefusal>) {
        let looked = self.state().nested.look();
        for entry in looked.repositories {
            if self.state().repositories.iter().any(|repository| repository.git == entry) {
                continue;
            }
            let before = content_of(&entry, &NameContents::default());
            match self.check_entry(&entry, known, said) {
                CleanupOutcome::Stays => self.state().nested.checked(&entry, Some(before)),
                CleanupOutcome::Fails => self.state().nested.checked(&entry, None),
                CleanupOutcome::Gone => {}
            }
        }
        let opened = looked.opened.into_iter().take(limits::NAMES_TOLD_MAX);
        let closed = looked.closed.into_iter().take(limits::NAMES_TOLD_MAX);
        let gave_up = self.workspaces.first().filter(|_| looked.gave_up).cloned();
        let denied = looked.denied.into_iter().map(|path| (path, MADE_DENIED));
        let opened = opened.map(|path| (path, MADE_UNREADABLE));
        let closed = closed.map(|path| (path, LEFT_UNREADABLE));
        let found = denied.chain(opened).chain(closed).chain(gave_up.map(|path| (path, TOO_MUCH)));
        said.extend(found.map(|(path, done)| ConfinementRefusal::Protected { path, done: done.into() }));
        self.state().gave_up |= looked.gave_up;
    }

    /// Looks at repositories that commands which still run have made: somebody is about to use git outside.
    pub(in crate::profile) fn check_now(&self) {
        let known = self.state().repositories.len();
        if self.state().held.is_empty() {
            return;
        }
        let mut said = Vec::new();
        self.look_at_nested(known, &mut said);
        self.check_files(&mut said);
        self.state().late.append(&mut said);
    }

    /// Whether there was too much to look for repositories in.
    pub(in crate::profile) fn gave_up(&self) -> bool {
        self.state().gave_up
    }

    /// Takes from a repository that a command has made, by its `.git` or its own folder, what would run, and
    /// says so.
    fn check_entry(&self, entry: &Path, held: usize, said: &mut Vec<ConfinementRefusal>) -> CleanupOutcome {
        match entry.parent().filter(|_| entry.ends_with(".git")) {
            // Where it leads is found by itself.
            Some(work) if work.starts_with(&self.temp) && !entry.is_dir() && leads_to_found(work) => {
                CleanupOutcome::Stays
            }
            Some(work) => self.check_new(work, held, said),
            None if repository::is_part_of_bare(entry, &self.written) => CleanupOutcome::Stays,
            None => {
                let is_made = self.state().nested.is_made(entry);
                self.on_ground(entry, held, |ground| ground.clean_bare(entry, is_made, said))
            }
        }
    }

    /// Takes from the repository in a folder that a command has made what would run, and says so. The first
    /// `held` repositories were held all the time.
    fn check_new(&self, work: &Path, held: usize, said: &mut Vec<ConfinementRefusal>) -> CleanupOutcome {
        self.on_ground(&work.join(".git"), held, |ground| ground.clean(work, said))
    }

    /// Does something with what there is around a repository.
    fn on_ground(
        &self,
        entry: &Path,
        held: usize,
        act: impl FnOnce(&CleanupScope<'_>) -> CleanupOutcome,
    ) -> CleanupOutcome {
        let (roots, works, users, (gently, afresh)) = {
            let state = self.state();
            let held = &state.repositories[..held.min(state.repositories.len())];
            let works: Vec<PathBuf> = held.iter().map(|repository| repository.work.clone()).collect();
            let users = state.nested.users().0.clone();
            (self.roots(held), works, users, (state.replaced.contains(entry), state.held.len() > 1))
        };
        let is_users = |git: &Path| users.contains(git);
        // In the temporary folder repositories are looked for, too, but only there they vouch for each other.
        let temp = Some(&self.temp).filter(|temp| entry.starts_with(temp));
        let folders: Vec<PathBuf> = self.workspaces.iter().chain(temp).cloned().collect();
        let ground = CleanupScope {
            workspaces: &folders,
            addresses: RemoteAddresses { roots: &self.written, held: &works },
            roots: &roots,
            open: &[],
            is_users: &is_users,
            // Somebody removed the user's; if it wasn't to make it anew, nothing is lost.
            gently,
            afresh,
        };
        act(&ground)
    }

    /// Folders with a repository that isn't known yet: a working directory, one directly in it (editors look
    /// there), and what an index calls a submodule.
    fn entered_by_itself(&self) -> Vec<PathBuf> {
        let mut state = self.state();
        let GuardState { repositories, indexes, nested, .. } = &mut *state;
        let near = recovery::nearby_repositories(&self.workspaces);
        let mut found: Vec<PathBuf> = near.iter().map(|entry| known_work(entry).to_owned()).collect();
        for repository in repositories.iter() {
            let Some(there) = repository::git_dir(&repository.work) else { continue };
            let links = indexes.links(&there.join("index"));
            found.extend(links.iter().map(|link| repository.work.join(link)));
        }
        let looks_everywhere = nested.users().1;
        found.retain(|work| {
            // Where a link leads is no place of its own.
            let inside = self.workspaces.iter().any(|workspace| work.starts_with(workspace))
                && open_path(work).is_ok();
            let git = work.join(".git");
            let known = repositories.iter().any(|repository| repository.git == git);
            // A worktree isn't held, so that it can be removed again; it is looked at with all others.
            let is_worktree = || {
                let led = repository::git_dir(work);
                led.is_some_and(|led| led.parent().is_some_and(|above| above.ends_with(".git/worktrees")))
            };
            inside && !known && undo::is_there(&git) && !(looks_everywhere && git.is_file() && is_worktree())
        });
        found.sort();
        found.dedup();
        found
    }
}

/// Whether the `.git` file of a folder leads to an administration that is looked at for itself, which none is
/// that lies in a folder of git.
fn leads_to_found(work: &Path) -> bool {
    let led = repository::git_file_target(work).map(|led| led.common).or_else(|| repository::git_dir(work));
    led.is_some_and(|led| !led.ancestors().skip(1).any(|above| above.ends_with(".git")))
}
