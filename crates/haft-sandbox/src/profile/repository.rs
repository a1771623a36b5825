//! Repositories of git in and around the working directories: what of them must stay as it is.
//!
//! A repository whose administration lies elsewhere (a worktree, a submodule) is believed only if the other end points
//! back: anybody can write a `.git` file that names a folder of somebody else.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::named::{Named, named};
use super::{gitconfig, limits, read_small, shown};

/// One repository, as far as it concerns what runs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The folder that `.git` lies in.
    pub(super) work: PathBuf,
    /// Kept as they are.
    pub(super) fixed: Vec<PathBuf>,
    /// Its configuration, which some commands have to write.
    pub(super) config: PathBuf,
    /// Names that must not come to be. They can't be held from inside without breaking git, so they are taken away.
    pub(super) unwanted: Vec<PathBuf>,
    /// Files that its configuration names and that aren't there: whatever is made there would run.
    pub(super) missing: Vec<PathBuf>,
    /// Folders of hooks that its configuration names and that aren't there.
    pub(super) hooks: Vec<PathBuf>,
    /// Folders outside of the working directory that git has to write: verified.
    pub(super) elsewhere: Vec<PathBuf>,
}

impl Repository {
    /// One of which only the `.git` file is known, which doesn't lead to where it should.
    pub(super) fn unknown(work: &Path) -> Repository {
        let git = work.join(".git");
        let (config, none) = (git.join("config"), Vec::new);
        let (work, fixed) = (work.to_owned(), vec![git]);
        let (unwanted, missing) = (none(), none());
        Repository { work, fixed, config, unwanted, missing, hooks: none(), elsewhere: none() }
    }
}

/// The repository in a folder; an error says why its administration isn't shown.
///
/// What the user's own configuration names in it is a part of it.
pub(super) fn find(work: &Path, home: Option<&Path>) -> Result<Option<Repository>, String> {
    let git = work.join(".git");
    let Ok(found) = git.symlink_metadata() else { return Ok(None) };
    if found.is_dir() {
        return Ok(Some(plain(work, &git, home)));
    }
    if found.is_symlink() {
        // Held as a link, and what it leads to as any other.
        let real = git.canonicalize().map_err(|error| format!("`{}` leads nowhere: {error}", shown(&git)))?;
        return Ok(Some(plain(work, &real, home)));
    }
    let there = pointed(&git)
        .ok_or_else(|| format!("`{}` names no folder; commands don't see that repository", shown(&git)))?;
    let Some(Led { common, is_worktree, .. }) = led(work) else {
        return Err(format!(
            "`{}` leads to `{}`, which doesn't lead back; commands don't see that repository",
            shown(&git),
            shown(&there)
        ));
    };
    let mut repository = plain(work, &common, home);
    repository.fixed.push(git);
    if is_worktree {
        let names = ["gitdir", "commondir", "config.worktree"];
        repository.fixed.extend(names.iter().map(|name| there.join(name)));
    }
    repository.elsewhere.push(common);
    Ok(Some(repository))
}

/// Where a `.git` file leads.
pub(super) struct Led {
    /// The folder that it names.
    pub(super) there: PathBuf,
    /// The one with its configuration: of a worktree that of its repository, else the same.
    pub(super) common: PathBuf,
    pub(super) is_worktree: bool,
}

/// Where the `.git` file of a folder leads, if that leads back.
pub(super) fn led(work: &Path) -> Option<Led> {
    let git = work.join(".git");
    let there = pointed(&git)?;
    if let Some(common) = verified_worktree(&git, &there) {
        return Some(Led { there, common, is_worktree: true });
    }
    let common = verified_submodule(work, &there)?;
    Some(Led { there, common, is_worktree: false })
}

/// Whether a folder is where a repository with this administration keeps that of a submodule.
pub(super) fn is_module_of(there: &Path, administration: &Path) -> bool {
    let Ok(rest) = there.strip_prefix(administration) else { return false };
    let parts: Vec<&OsStr> = rest.iter().collect();
    match parts.as_slice() {
        [modules, _, ..] if *modules == "modules" => true,
        // A submodule of a worktree.
        [worktrees, _, modules, _, ..] => *worktrees == "worktrees" && *modules == "modules",
        _ => false,
    }
}

/// A repository whose administration is this folder.
fn plain(work: &Path, git: &Path, home: Option<&Path>) -> Repository {
    let mut fixed = vec![git.join("hooks")];
    let mut unwanted = vec![git.join("commondir")];
    let worktree_config = git.join("config.worktree");
    match worktree_config.symlink_metadata() {
        Ok(_) => fixed.push(worktree_config),
        Err(_) => unwanted.push(worktree_config),
    }
    for module in modules(&git.join("modules")) {
        fixed.extend([module.join("hooks"), module.join("config")]);
    }
    for worktree in fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten() {
        let names = ["gitdir", "commondir", "config.worktree"];
        fixed.extend(names.iter().map(|name| worktree.path().join(name)));
    }
    let config = git.join("config");
    let Named { there, hooks, missing } = named(&config, work, home);
    fixed.extend(there);
    fixed.retain(|path| path.symlink_metadata().is_ok() || path.ends_with("hooks"));
    fixed.extend(hooks.iter().cloned());
    fixed.truncate(limits::WATCHED_ENTRIES_MAX);
    Repository { work: work.to_owned(), fixed, config, unwanted, missing, hooks, elsewhere: Vec::new() }
}

/// Where the worktrees of a repository have configuration of their own, whoever made it. No command is to make one: what it
/// says would run when somebody looks at that worktree.
pub(super) fn worktree_configs(config: &Path) -> Vec<PathBuf> {
    let folder = config.parent().map(|git| git.join("worktrees"));
    let worktrees = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let configs = worktrees.map(|worktree| worktree.path().join("config.worktree"));
    configs.filter(|path| path.symlink_metadata().is_ok()).take(limits::WATCHED_ENTRIES_MAX).collect()
}

/// The administrations of submodules, which may lie in one another.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders, mut seen) = (Vec::new(), vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > limits::WATCHED_ENTRIES_MAX || found.len() >= limits::REPOSITORIES_MAX {
                return found;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if path.join("HEAD").is_file() && path.join("objects").is_dir() {
                folders.push(path.join("modules"));
                found.push(path);
            } else {
                // `modules/group/name`.
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Where the administration of a repository lies, whoever vouches for it: its `.git`, or the folder that this names.
pub(super) fn administration(work: &Path) -> Option<PathBuf> {
    let git = work.join(".git");
    let found = git.symlink_metadata().ok()?;
    if found.is_dir() { Some(git) } else { pointed(&git).or_else(|| git.canonicalize().ok()) }
}

/// The folder that a `.git` file names, as it really is.
fn pointed(git: &Path) -> Option<PathBuf> {
    let text = read_small(git)?;
    let path = as_git_reads(text.strip_prefix(b"gitdir: ")?)?;
    git.parent()?.join(path).canonicalize().ok().filter(|path| path.is_dir())
}

/// The path in a file: everything but the ends of lines behind it. Another reading would look at another place.
fn as_git_reads(text: &[u8]) -> Option<&Path> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let path = &text[..=end];
    (!path.contains(&0)).then(|| Path::new(OsStr::from_bytes(path)))
}

/// The common folder of a worktree, if `worktrees/N/gitdir` leads back to its `.git` file.
fn verified_worktree(git: &Path, there: &Path) -> Option<PathBuf> {
    let line = |name: &str| {
        let text = read_small(&there.join(name))?;
        as_git_reads(&text).map(Path::to_owned)
    };
    let back = there.join(line("gitdir")?).canonicalize().ok()?;
    let common = there.join(line("commondir")?).canonicalize().ok()?;
    let listed = there.parent() == Some(&common.join("worktrees"));
    let whole = common.join("HEAD").is_file() && common.join("objects").is_dir();
    (back == git && listed && whole).then_some(common)
}

/// The administration of a submodule, if its configuration says that its files are here.
fn verified_submodule(work: &Path, there: &Path) -> Option<PathBuf> {
    let entries = gitconfig::parse(&read_small(&there.join("config"))?).ok()?;
    let worktree = entries.iter().rev().find(|entry| entry.name() == "core.worktree")?;
    let back = there.join(worktree.value.as_ref()?).canonicalize().ok()?;
    (back == work && there.join("objects").is_dir()).then(|| there.to_owned())
}

/// The folder above with a repository, if a working directory is only a part of one.
pub(super) fn above(work: &Path) -> Option<&Path> {
    work.ancestors().skip(1).find(|above| above.join(".git").symlink_metadata().is_ok())
}
