//! Repositories of git in and around the working directories: where they keep what, and what their configuration names.
//!
//! A repository whose administration lies elsewhere (a worktree, a submodule) is shown only if the other end points back:
//! anybody can write a `.git` file that names a folder of somebody else. What such a file leads to is held all the same,
//! where commands could write it: git doesn't ask who points back. Held, too, is every link and folder on the way there.

use std::path::{Path, PathBuf};

use haft_git::config;
use haft_git::layout::{self, FolderKind, common_folder, gitdir_in, path_in};

pub(super) use super::administration::is_module_of;
use super::administration::{Id, id};
use super::named::{Named, named};
use super::ways::{Way, follow};
use super::{read_small, shown};

/// One repository, as far as it concerns what runs by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    /// The folder that `.git` lies in.
    pub(super) work: PathBuf,
    /// Its `.git`, or for a bare repository the folder itself.
    pub(super) git: PathBuf,
    /// Which one that is: another one is another repository.
    pub(super) id: Option<Id>,
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

impl Repository {
    /// What its outermost folder is to git.
    pub(super) fn kind(&self) -> FolderKind {
        if self.git == self.work { FolderKind::Bare } else { FolderKind::Git }
    }

    /// One of which nothing is known but that all of its `.git` stays as it is: there are too many.
    pub(super) fn whole(work: &Path) -> Repository {
        let git = work.join(".git");
        Repository {
            work: work.to_owned(),
            id: id(&git),
            config: git.join("config"),
            fixed: vec![git.clone()],
            git,
            ..Repository::default()
        }
    }
}

/// Whether a folder is a repository itself, as far as its names tell.
pub(super) fn is_bare(folder: &Path) -> bool {
    layout::is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Whether a folder is a worktree or submodule of a bare repository in these folders, and is looked at with that.
pub(super) fn is_part_of_bare(folder: &Path, roots: &[PathBuf]) -> bool {
    let inside = |above: &&Path| roots.iter().any(|root| above.starts_with(root));
    let mut around = folder.ancestors().skip(1).take_while(inside);
    around.any(|other| layout::is_part_of(folder, other) && is_bare(other))
}

/// The bare repository that a folder is. Its files that git doesn't obey are the user's work.
pub(super) fn find_bare(folder: &Path, home: Option<&Path>) -> Option<Repository> {
    if !is_bare(folder) {
        return None;
    }
    let config = folder.join("config");
    let configs = [folder.join("config.worktree"), config.clone()];
    let Named { there, through, hooks, missing } = named(&configs, &folder.join("hooks"), folder, home);
    Some(Repository {
        work: folder.to_owned(),
        git: folder.to_owned(),
        id: id(folder),
        roots: vec![folder.to_owned()],
        fixed: there.into_iter().chain(hooks.iter().cloned()).collect(),
        through,
        config,
        missing,
        hooks,
        ..Repository::default()
    })
}

/// The repository whose `.git` this is, or that is this folder.
pub(super) fn find_entry(entry: &Path, home: Option<&Path>) -> Option<Repository> {
    match entry.parent().filter(|_| entry.ends_with(".git")) {
        Some(work) => find(work, home).map(|(repository, _)| repository),
        None => find_bare(entry, home),
    }
}

/// The repository in a folder, and why its administration isn't shown, if it lies elsewhere and isn't.
///
/// What the user's own configuration names in it is a part of it.
pub(super) fn find(work: &Path, home: Option<&Path>) -> Option<(Repository, Option<String>)> {
    let git = work.join(".git");
    let found = git.symlink_metadata().ok()?;
    let mut why = None;
    let mut repository = Repository {
        work: work.to_owned(),
        git: git.clone(),
        id: id(&git),
        config: git.join("config"),
        ..Repository::default()
    };
    let mut there = git.clone();
    if found.is_symlink() {
        match follow(&git) {
            Some(way) => {
                if !way.there {
                    why = Some(format!("`{}` leads nowhere", shown(&git)));
                }
                there = way.end;
                repository.through.extend(way.through);
            }
            None => why = Some(format!("`{}` leads in a circle", shown(&git))),
        }
    }
    if there.is_file() {
        repository.fixed.push(there.clone());
        match pointed(&there) {
            Some(way) => {
                let straight = led(work).map(|led| led.common);
                if straight.is_none() {
                    why = Some(format!(
                        "`{}` leads to `{}`, which doesn't lead back; commands don't see that repository",
                        shown(&git),
                        shown(&way.end)
                    ));
                }
                repository.elsewhere.extend(straight);
                there = way.end;
                repository.through.extend(way.through);
            }
            None => {
                why = Some(format!("`{}` names no folder; commands don't see that repository", shown(&git)));
            }
        }
    }
    repository.roots.push(there.clone());
    let mut configs = vec![there.join("config.worktree")];
    if let Some(way) = line(&there, "commondir").and_then(|common| follow(&there.join(common))) {
        repository.through.extend(way.through);
        there = way.end;
        // The folder of a worktree is a part of it.
        match repository.roots[0].starts_with(&there) {
            true => repository.roots = vec![there.clone()],
            false => repository.roots.push(there.clone()),
        }
        configs.push(there.join("config.worktree"));
    }
    repository.config = there.join("config");
    configs.push(repository.config.clone());
    let Named { there: names, through, hooks, missing } = named(&configs, &there.join("hooks"), work, home);
    repository.fixed.extend(names);
    repository.fixed.extend(hooks.iter().cloned());
    repository.through.extend(through);
    (repository.missing, repository.hooks) = (missing, hooks);
    Some((repository, why))
}

/// Where a `.git` file leads.
pub(super) struct Led {
    /// The folder with its configuration: of a worktree that of its repository, else the one that is named.
    pub(super) common: PathBuf,
    /// Nothing on the way could lead elsewhere.
    pub(super) straight: bool,
}

/// Where the `.git` file of a folder leads, if that leads back.
pub(super) fn led(work: &Path) -> Option<Led> {
    let git = work.join(".git");
    let way = pointed(&git).filter(|way| way.end.is_dir())?;
    let there = &way.end;
    if let Some(common) = verified_worktree(&git, there) {
        let straight = way.is_straight(work) && is_own_worktree(there, &common.end);
        return Some(Led { straight, common: common.end });
    }
    verified_submodule(work, there).then(|| Led { straight: way.is_straight(work), common: there.clone() })
}

/// Whether `commondir` of a worktree's folder leads to this administration in the way in which git writes it.
pub(super) fn is_own_worktree(there: &Path, common: &Path) -> bool {
    let text = line(there, "commondir");
    text.is_some_and(|text| text == Path::new("../..") || text == common)
}

/// The folder of a submodule's files, if its configuration names it, and that leads back.
pub(super) fn owner(administration: &Path) -> Option<PathBuf> {
    let work = worktree(administration)?;
    let git = work.join(".git");
    let is_file = git.symlink_metadata().is_ok_and(|found| found.is_file());
    (is_file && pointed(&git)?.end == administration).then_some(work)
}

/// Where the administration of a repository lies, whoever vouches for it: its `.git`, or the folder that this names.
pub(super) fn administration(work: &Path) -> Option<PathBuf> {
    let git = work.join(".git");
    let found = git.symlink_metadata().ok()?;
    if found.is_dir() {
        return Some(git);
    }
    let led = pointed(&git).filter(|way| way.end.is_dir()).map(|way| way.end);
    led.or_else(|| git.canonicalize().ok())
}

/// Where the folder lies that a `.git` file names.
fn pointed(git: &Path) -> Option<Way> {
    let text = read_small(git)?;
    follow(&git.parent()?.join(gitdir_in(&text)?))
}

/// The path in a file of an administration.
fn line(there: &Path, name: &str) -> Option<PathBuf> {
    let text = read_small(&there.join(name))?;
    path_in(&text).map(Path::to_owned)
}

/// The common folder of a worktree, if `worktrees/N/gitdir` leads back to its `.git` file.
fn verified_worktree(git: &Path, there: &Path) -> Option<Way> {
    let back = there.join(line(there, "gitdir")?).canonicalize().ok()?;
    let common = follow(&there.join(line(there, "commondir")?)).filter(|way| way.there)?;
    let listed = common_folder(there) == Some(&common.end);
    let whole = common.end.join("HEAD").is_file() && common.end.join("objects").is_dir();
    (back == git && listed && whole).then_some(common)
}

/// Whether the configuration of a submodule says that its files are here.
fn verified_submodule(work: &Path, there: &Path) -> bool {
    worktree(there).as_deref() == Some(work) && there.join("objects").is_dir()
}

/// The folder that a configuration calls its working tree.
fn worktree(there: &Path) -> Option<PathBuf> {
    let entries = config::parse(&read_small(&there.join("config"))?).ok()?;
    let worktree = entries.iter().rev().find(|entry| entry.name() == "core.worktree")?;
    there.join(worktree.value.as_ref()?).canonicalize().ok()
}

/// The folder above with a repository, if a working directory is only a part of one.
pub(super) fn above(work: &Path) -> Option<&Path> {
    work.ancestors().skip(1).find(|above| above.join(".git").symlink_metadata().is_ok())
}
