//! How much of repositories a command may write, and which configurations that opens.

use std::path::{Path, PathBuf};

use haft::ports::ProcessRequest;
use haft_git::RepositoryLevel;
use haft_git::layout::FolderKind;

use super::RepositoryGuard;
use crate::profile::{limits, repository, request_address, runs_beside};

impl RepositoryGuard {
    /// How much of repositories a request may write: what it was judged to need, or more where the user has
    /// granted it a path in a folder of git.
    fn level(&self, request: &ProcessRequest) -> RepositoryLevel {
        let level = RepositoryLevel::from_number(request.protection.number);
        if level > RepositoryLevel::None || request.access.write.is_empty() {
            return level;
        }
        let folders = self.folders_of_git();
        let is_of_git = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        if request.access.write.iter().any(|root| is_of_git(&root.path)) {
            RepositoryLevel::Data
        } else {
            level
        }
    }

    /// Whether the child of a request sees folders of git read-only: it runs beside others, or isn't known to
    /// write a repository.
    pub(in crate::profile) fn closes_git(&self, request: &ProcessRequest) -> bool {
        runs_beside(request) || self.level(request) == RepositoryLevel::None
    }

    /// The configurations that this request may write: of the innermost repositories around its folders, and
    /// of their submodules, which `git submodule` writes.
    pub(super) fn configs_of(&self, request: &ProcessRequest) -> Vec<PathBuf> {
        if self.level(request) < RepositoryLevel::Configuration
            || self.state().beside.contains(&request_address(request))
        {
            return Vec::new();
        }
        let named = request.protection.folders.iter().filter_map(|folder| folder.canonicalize().ok());
        let mut folders: Vec<PathBuf> = named.collect();
        if request.protection.folders.is_empty() {
            folders.push(request.cwd.clone());
        }
        let mut configs: Vec<PathBuf> =
            folders.iter().flat_map(|folder| self.configs_around(folder)).collect();
        configs.sort();
        configs.dedup();
        configs
    }

    /// The configurations of the innermost repository around a folder, and of its submodules.
    fn configs_around(&self, folder: &Path) -> Vec<PathBuf> {
        let state = self.state();
        let around = state.repositories.iter().filter(|repository| folder.starts_with(&repository.work));
        let innermost = around.max_by_key(|repository| repository.work.components().count());
        let Some(found) = innermost else { return Vec::new() };
        let config = &found.config;
        if config.is_symlink() {
            // What it leads to may be anybody's.
            return Vec::new();
        }
        let own = match found.kind() {
            FolderKind::Bare => Some(found.git.clone()),
            _ => repository::git_dir(&found.work),
        };
        let own = own.map(|own| own.join("config.worktree"));
        let folders = state.administrations.values().flat_map(|administration| &administration.folders);
        let is_module =
            |path: &Path| config.parent().is_some_and(|root| repository::is_module_of(path, root));
        let modules = folders.filter(|(path, folder)| folder.kind == FolderKind::Git && is_module(path));
        let modules = modules.map(|(path, _)| path.join("config")).filter(|config| config.is_file());
        let modules = modules.take(limits::MODULE_CONFIGS_MAX);
        [config.clone()].into_iter().chain(own).chain(modules).filter(|config| !config.is_symlink()).collect()
    }

    /// The child of a request has ended, and what it did was looked at.
    pub(super) fn forget_command(&self, request: &ProcessRequest) {
        self.files.end(request_address(request));
        let mut state = self.state();
        state.held.remove(&request_address(request));
        state.beside.remove(&request_address(request));
        if state.held.is_empty() && std::mem::take(&mut state.keeps_files) {
            self.journal.forget_files();
        }
    }
}
