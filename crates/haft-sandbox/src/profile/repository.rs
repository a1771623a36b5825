//! Repositories of git in and around the working directories: where they keep what, and what their
//! configuration names.
//!
//! A repository whose administration lies elsewhere (a worktree, a submodule) is shown only if the other end
//! points back: anybody can write a `.git` file that names a folder of somebody else. What such a file leads
//! to is held all the same, where commands could write it: git doesn't ask who points back. Held, too, is
//! every link and folder on the way there.

use std::path::{Path, PathBuf};

use haft_git::config;
use haft_git::layout::{self, FolderKind, common_folder, gitdir_in, path_in};

use super::configured_paths::{ConfiguredPaths, find_configured_paths};
pub(super) use super::git_folders::is_module_of;
use super::git_folders::{FolderId, folder_id};
use super::symlink_trace::{ResolvedPath, trace_symlinks};
use super::{display_path, read_small};

/// One repository, as far as it concerns what runs by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GitRepository {
    /// The folder that `.git` lies in.
    pub(super) work: PathBuf,
    /// Its `.git`, or for a bare repository the folder itself.
    pub(super) git: PathBuf,
    /// Which one that is: another one is another repository.
    pub(super) id: Option<FolderId>,
    /// The folders that git takes for its administration, really.
    pub(super) roots: Vec<PathBuf>,
    /// Kept as they are, beside the administration: `.git` where it is a file, and what configuration names.
    pub(super) fixed: Vec<PathBuf>,
    /// Links and folders that lead to something of it.
    pub(super) through: Vec<PathBuf>,
    /// Its configuration, which some commands have to write.
    pub(super) config: PathBuf,
    /// Files that its configuration names and that aren't there: whatever is made there would run.
    pub(super) missing: Vec<PathBuf>,
    /// Folders of hooks that its configuration names and that aren't there.
    pub(super) hooks: Vec<PathBuf>,
    /// Folders outside of the working directory that git has to write: verified.
    pub(super) elsewhere: Vec<PathBuf>,
}

impl GitRepository {
    /// What its outermost folder is to git.
    pub(super) fn kind(&self) -> FolderKind {
        if self.git == self.work { FolderKind::Bare } else { FolderKind::Git }
    }

    /// One of which nothing is known but that all of its `.git` stays as it is: there are too many.
    pub(super) fn whole(work: &Path) -> GitRepository {
        let git = work.join(".git");
        GitRepository {
            work: work.to_owned(),
            id: folder_id(&git),
            config: git.join("config"),
            fixed: vec![git.clone()],
            git,
            ..GitRepository::default()
        }
    }
}

/// Whether a folder is a repository itself, as far as its names tell.
pub(super) fn is_bare(folder: &Path) -> bool {
    layout::is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Whether a folder is a worktree or submodule of a bare repository in these folders, and is looked at with
/// that.
pub(super) fn is_part_of_bare(folder: &Path, roots: &[PathBuf]) -> bool {
    let inside = |above: &&Path| roots.iter().any(|root| above.starts_with(root));
    let mut around = folder.ancestors().skip(1).take_while(inside);
    around.any(|other| layout::is_part_of(folder, other) && is_bare(other))
}

/// The bare repository that a folder is. Its files that git doesn't obey are the user's work.
pub(super) fn find_bare(folder: &Path, home: Option<&Path>) -> Option<GitRepository> {
    if !is_bare(folder) {
        return None;
    }
    let config = folder.join("config");
    let configs = [folder.join("config.worktree"), config.clone()];
    let ConfiguredPaths { there, through, hooks, missing } =
        find_configured_paths(&configs, &folder.join("hooks"), folder, home);
    Some(GitRepository {
        work: folder.to_owned(),
        git: folder.to_owned(),
        id: folder_id(folder),
        roots: vec![folder.to_owned()],
        fixed: there.into_iter().chain(hooks.iter().cloned()).collect(),
        through,
        config,
        missing,
        hooks,
        ..GitRepository::default()
    })
}

/// The repository whose `.git` this is, or that is this folder.
pub(super) fn find_entry(entry: &Path, home: Option<&Path>) -> Option<GitRepository> {
    match entry.parent().filter(|_| entry.ends_with(".git")) {
        Some(work) => find_repository(work, home).map(|(repository, _)| repository),
        None => find_bare(entry, home),
    }
}

/// The repository in a folder, and why its administration isn't shown, if it lies elsewhere and isn't.
///
/// What the user's own configuration names in it is a part of it.
pub(super) fn find_repository(work: &Path, home: Option<&Path>) -> Option<(GitRepository, Option<String>)> {
    let git = work.join(".git");
    let found = git.symlink_metadata().ok()?;
    let mut why = None;
    let mut repository = GitRepository {
        work: work.to_owned(),
        git: git.clone(),
        id: folder_id(&git),
        config: git.join("config"),
        ..GitRepository::default()
    };
    let mut there = git.clone();
    if found.is_symlink() {
        match trace_symlinks(&git) {
            Some(way) => {
                if !way.there {
                    why = Some(format!("`{}` leads nowhere", display_path(&git)));
                }
                there = way.end;
                repository.through.extend(way.through);
            }
            None => why = Some(format!("`{}` leads in a circle", display_path(&git))),
        }
    }
    if there.is_file() {
        repository.fixed.push(there.clone());
        match trace_git_file(&there) {
            Some(way) => {
                let straight = git_file_target(work).map(|led| led.common);
                if straight.is_none() {
                    why = Some(format!(
                        "`{}` leads to `{}`, which doesn't lead back; commands don't see that repository",
                        display_path(&git),
                        display_path(&way.end)
                    ));
                }
                repository.elsewhere.extend(straight);
                there = way.end;
                repository.through.extend(way.through);
            }
            None => {
                why = Some(format!(
                    "`{}` names no folder; commands don't see that repository",
                    display_path(&git)
                ));
            }
        }
    }
    repository.roots.push(there.clone());
    let mut configs = vec![there.join("config.worktree")];
    if let Some(way) =
        read_pointer(&there, "commondir").and_then(|common| trace_symlinks(&there.join(common)))
    {
        repository.through.extend(way.through);
        there = way.end;
        // The folder of a worktree is a part of it.
        if repository.roots[0].starts_with(&there) {
            repository.roots = vec![there.clone()]
        } else {
            repository.roots.push(there.clone())
        }
        configs.push(there.join("config.worktree"));
    }
    repository.config = there.join("config");
    configs.push(repository.config.clone());
    let ConfiguredPaths { there: names, through, hooks, missing } =
        find_configured_paths(&configs, &there.join("hooks"), work, home);
    repository.fixed.extend(names);
    repository.fixed.extend(hooks.iter().cloned());
    repository.through.extend(through);
    (repository.missing, repository.hooks) = (missing, hooks);
    Some((repository, why))
}

/// Where a `.git` file leads.
pub(super) struct GitFileTarget {
    /// The folder with its configuration: of a worktree that of its repository, else the one that is named.
    pub(super) common: PathBuf,
    /// Nothing on the way could lead elsewhere.
    pub(super) straight: bool,
}

/// Where the `.git` file of a folder leads, if that leads back.
pub(super) fn git_file_target(work: &Path) -> Option<GitFileTarget> {
    let git = work.join(".git");
    let way = trace_git_file(&git).filter(|way| way.end.is_dir())?;
    let there = &way.end;
    if let Some(common) = verified_worktree(&git, there) {
        let straight = way.is_straight(work) && is_own_worktree(there, &common.end);
        return Some(GitFileTarget { straight, common: common.end });
    }
    verified_submodule(work, there)
        .then(|| GitFileTarget { straight: way.is_straight(work), common: there.clone() })
}

/// Whether `commondir` of a worktree's folder leads to this administration in the way in which git writes it.
pub(super) fn is_own_worktree(there: &Path, common: &Path) -> bool {
    let text = read_pointer(there, "commondir");
    text.is_some_and(|text| text == Path::new("../..") || text == common)
}

/// The folder of a submodule's files, if its configuration names it, and that leads back.
pub(super) fn owning_worktree(administration: &Path) -> Option<PathBuf> {
    let work = configured_worktree(administration)?;
    let git = work.join(".git");
    let is_file = git.symlink_metadata().is_ok_and(|found| found.is_file());
    (is_file && trace_git_file(&git)?.end == administration).then_some(work)
}

/// Where the administration of a repository lies, whoever vouches for it: its `.git`, or the folder that this
/// names.
pub(super) fn git_dir(work: &Path) -> Option<PathBuf> {
    let git = work.join(".git");
    let found = git.symlink_metadata().ok()?;
    if found.is_dir() {
        return Some(git);
    }
    let led = trace_git_file(&git).filter(|way| way.end.is_dir()).map(|way| way.end);
    led.or_else(|| git.canonicalize().ok())
}

/// Where the folder lies that a `.git` file names.
fn trace_git_file(git: &Path) -> Option<ResolvedPath> {
    let text = read_small(git)?;
    trace_symlinks(&git.parent()?.join(gitdir_in(&text)?))
}

/// The path in a file of an administration.
fn read_pointer(there: &Path, name: &str) -> Option<PathBuf> {
    let text = read_small(&there.join(name))?;
    path_in(&text).map(Path::to_owned)
}

/// The common folder of a worktree, if `worktrees/N/gitdir` leads back to its `.git` file.
fn verified_worktree(git: &Path, there: &Path) -> Option<ResolvedPath> {
    let back = there.join(read_pointer(there, "gitdir")?).canonicalize().ok()?;
    let common = trace_symlinks(&there.join(read_pointer(there, "commondir")?)).filter(|way| way.there)?;
    let listed = common_folder(there) == Some(&common.end);
    let whole = common.end.join("HEAD").is_file() && common.end.join("objects").is_dir();
    (back == git && listed && whole).then_some(common)
}

/// Whether the configuration of a submodule says that its files are here.
fn verified_submodule(work: &Path, there: &Path) -> bool {
    configured_worktree(there).as_deref() == Some(work) && there.join("objects").is_dir()
}

/// The folder that a configuration calls its working tree.
fn configured_worktree(there: &Path) -> Option<PathBuf> {
    let entries = config::parse(&read_small(&there.join("config"))?).ok()?;
    let worktree = entries.iter().rev().find(|entry| entry.name() == "core.worktree")?;
    there.join(worktree.value.as_ref()?).canonicalize().ok()
}

/// The folder above with a repository, if a working directory is only a part of one.
pub(super) fn repository_above(work: &Path) -> Option<&Path> {
    work.ancestors().skip(1).find(|above| above.join(".git").symlink_metadata().is_ok())
}
