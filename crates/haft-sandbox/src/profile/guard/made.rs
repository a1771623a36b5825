//! Repositories that commands make, wherever git, an editor or somebody could enter them.

use std::fs;
use std::path::{Path, PathBuf};

use haft::ports::{ProcessRequest, Refusal};

use super::config::check_new_config;
use super::{Guard, State};
use crate::profile::{address, limits, repository, undo};

impl Guard {
    /// A repository that a command has made keeps of its configuration what `git init` and `git clone` write: where git
    /// or an editor would enter it by itself.
    pub(super) fn look_for_new_repositories(&self, request: &ProcessRequest, said: &mut Vec<Refusal>) {
        let (held, known) = {
            let mut state = self.state();
            let known = state.repositories.len();
            (state.held.remove(&address(request)).unwrap_or(known).min(known), known)
        };
        // Made while this command ran, by another one: this one could still change them.
        let made: Vec<PathBuf> =
            self.state().repositories[held..].iter().map(|repository| repository.work.clone()).collect();
        for work in &made {
            self.check_new(work, held, said);
        }
        let mut looked_at = Vec::new();
        loop {
            let mut new = self.entered_by_itself();
            new.retain(|work| !looked_at.contains(work));
            if new.is_empty() || looked_at.len() >= limits::REPOSITORIES_MAX {
                break;
            }
            for work in new {
                if self.check_new(&work, known, said)
                    && let Ok(Some(mut repository)) = repository::find(&work, self.home.as_deref())
                {
                    // What was made in the session vouches for nothing outside of it.
                    repository.elsewhere.clear();
                    let mut state = self.state();
                    state.plain.retain(|plain| *plain != work);
                    state.repositories.push(repository);
                }
                looked_at.push(work);
            }
        }
        self.look_at_nested(known, said);
        if self.state().repositories.len() > known {
            self.take_away_unwanted(said);
            let new: Vec<PathBuf> = self.state().repositories[known..]
                .iter()
                .flat_map(|repository| repository.fixed.iter().chain([&repository.config]).cloned())
                .collect();
            self.watch.learn(&new);
        }
    }

    /// The same wherever somebody could enter one. These aren't held, so that they can be removed like other files, but
    /// looked at again when something of them has changed.
    fn look_at_nested(&self, known: usize, said: &mut Vec<Refusal>) {
        let looked = self.state().nested.look();
        for work in looked.repositories {
            if self.state().repositories.iter().any(|repository| repository.work == work) {
                continue;
            }
            if self.check_new(&work, known, said)
                && let Ok(Some(repository)) = repository::find(&work, self.home.as_deref())
            {
                let of_worktrees = repository::worktree_configs(&repository.config);
                let held =
                    |path: &PathBuf| self.state().repositories.iter().any(|held| held.fixed.contains(path));
                let unwanted = repository.unwanted.into_iter().chain(of_worktrees);
                for path in unwanted.filter(|path| path.symlink_metadata().is_ok() && !held(path)) {
                    said.push(Refusal::Protected { done: undo::take_away(&path), path });
                }
            }
            self.state().nested.checked(&work);
        }
        for path in looked.denied.into_iter().filter(|path| !self.placeholders.made(path)) {
            let done = "a rule denies writing it, and a command made it: only what is there when the session begins, and \
                        what rules name without a wildcard, can be held; look at it";
            said.push(Refusal::Protected { path, done: done.into() });
        }
        for path in looked.closed {
            let done = "a command made it unreadable, so nobody knows whether it has put a repository there; look before \
                        you use git in it";
            said.push(Refusal::Protected { path, done: done.into() });
        }
        if looked.gave_up {
            self.state().gave_up = true;
            let done = "commands have made so many files that repositories among them aren't looked for any more; look \
                        before you use git there";
            said.extend(
                self.workspaces
                    .first()
                    .map(|path| Refusal::Protected { path: path.clone(), done: done.into() }),
            );
        }
    }

    /// Whether there was too much to look for repositories in.
    pub(in crate::profile) fn gave_up(&self) -> bool {
        self.state().gave_up
    }

    /// Takes from a repository that a command has made what would run, and says so. Whether it is one that stays and has
    /// to be held from now on. The first `held` repositories were held all the time.
    fn check_new(&self, work: &Path, held: usize, said: &mut Vec<Refusal>) -> bool {
        let git = work.join(".git");
        let Ok(found) = git.symlink_metadata() else { return false };
        let there = match repository::find(work, self.home.as_deref()) {
            Ok(Some(repository)) if !found.is_symlink() => repository.config.parent().map(Path::to_owned),
            _ => None,
        };
        // Nobody keeps a repository where every command writes and nothing is held.
        let there = there.filter(|there| !there.starts_with(&self.temp));
        let Some(there) = there else {
            // It may lead anywhere.
            said.push(Refusal::Protected { done: undo::take_away(&git), path: git });
            return false;
        };
        if !self.workspaces.iter().any(|workspace| there.starts_with(workspace)) {
            // Its other end lies where no command writes, and leads back.
            return false;
        }
        let config = there.join("config");
        if self.state().repositories[..held].iter().any(|known| known.config == config) {
            return true;
        }
        let of_submodule = (!found.is_dir()).then_some(work);
        said.extend(check_new_config(&config, of_submodule));
        let extra = there.join("config.worktree");
        if extra.symlink_metadata().is_ok() {
            said.push(Refusal::Protected { done: undo::take_away(&extra), path: extra });
        }
        let hooks = there.join("hooks");
        if hooks.symlink_metadata().is_err() {
            return true;
        }
        match undo::names(&hooks) {
            Ok(names) => {
                for name in names.iter().filter(|name| !name.to_string_lossy().ends_with(".sample")) {
                    let path = hooks.join(name);
                    said.push(Refusal::Protected { done: undo::take_away(&path), path });
                }
            }
            // Not a folder, or a link to one.
            Err(_) => said.push(Refusal::Protected { done: undo::take_away(&hooks), path: hooks }),
        }
        true
    }

    /// Folders with a repository that isn't known yet: a working directory, one directly in it (editors look there), and
    /// what an index calls a submodule.
    fn entered_by_itself(&self) -> Vec<PathBuf> {
        let mut state = self.state();
        let State { repositories, plain, indexes, .. } = &mut *state;
        let mut found = plain.clone();
        for workspace in &self.workspaces {
            let entries = fs::read_dir(workspace).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            found.extend(folders.take(limits::FOLDERS_LOOKED_AT_MAX).map(|folder| folder.path()));
        }
        for repository in repositories.iter() {
            let Some(there) = repository::administration(&repository.work) else { continue };
            let links = indexes.links(&there.join("index"));
            found.extend(links.iter().map(|link| repository.work.join(link)));
        }
        found.retain(|work| {
            let inside = self.workspaces.iter().any(|workspace| work.starts_with(workspace));
            let known = repositories.iter().any(|repository| repository.work == *work);
            inside && !known && work.join(".git").symlink_metadata().is_ok()
        });
        found.sort();
        found.dedup();
        found
    }
}
