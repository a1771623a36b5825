//! Takes from the folders of git what a command put there and git would obey.
//!
//! There are two cases. Of a folder that was the user's all the time every name was held that isn't a
//! command's to make, so what is there beside these was made by one, and goes. A folder that a command has
//! made keeps what git itself writes into a new one: a configuration with harmless keys, samples of hooks, a
//! worktree's way back to its repository. A `.git` file that a command made may lead into the administration
//! of a repository that is held, or of one like it in the working directories, and straight: on another way a
//! link could be given another end. Every file that says what runs has one name only, since by another one it
//! could be written.
//!
//! What can't be taken from a repository that a command made is taken with it: its `.git` gets a name that
//! nobody obeys.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use haft::ports::ConfinementRefusal;
use haft_git::layout::{
    FolderKind, OBEYED, REPOSITORY_NAMES, is_free, is_obeyed, is_symbolic_head, may_be_shared,
};
use haft_git::sequence::{self, JudgedFile};

use super::config_check::{check_new_config, is_harmless_config};
use crate::profile::git_folders::{GitFolder, GitFolders};
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::repository;
use crate::profile::symlink_cleanup::GitSymlinks;
use crate::profile::{display_path, limits, repo_markers, undo};

/// How often a repository is cleaned that a command goes on to write.
const TRIES: usize = 4;

/// What there is around folders of git that a command could change.
pub(super) struct CleanupScope<'a> {
    pub(super) workspaces: &'a [PathBuf],
    /// Where a remote may lead.
    pub(super) addresses: RemoteAddresses<'a>,
    /// The administrations that were held all the time.
    pub(super) roots: &'a [PathBuf],
    /// Configurations that a command may write just now.
    pub(super) open: &'a [PathBuf],
    /// Whether no command has made a repository, by its `.git` or its own folder, though it may not be held.
    pub(super) is_users: &'a dyn Fn(&Path) -> bool,
    /// It may be the user's, so nothing is removed that can be put aside.
    pub(super) gently: bool,
    /// Somebody who still runs may hold files open, so those that say what runs are written anew.
    pub(super) afresh: bool,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanupOutcome {
    /// It runs nothing, and is there.
    Stays,
    /// It is none any more.
    Gone,
    /// It would still run something.
    Fails,
}

/// What became of an administration.
#[derive(Default)]
pub(super) struct CleanupResult {
    /// What is in it.
    pub(super) found: GitFolders,
    /// What wasn't as it should be when it was looked at last.
    pub(super) left: Vec<PathBuf>,
}

impl CleanupScope<'_> {
    /// Takes away what would run from a repository that a command has made, and says so.
    pub(super) fn clean(&self, work: &Path, said: &mut Vec<ConfinementRefusal>) -> CleanupOutcome {
        let git = work.join(".git");
        let Ok(found) = git.symlink_metadata() else { return CleanupOutcome::Gone };
        if found.is_dir() {
            undo::open_up(&git);
            let settled = self.settle(&git, FolderKind::Git, None, said).left.is_empty();
            return self.settled(&git, settled, said);
        }
        let led = if found.is_symlink() { None } else { repository::git_file_target(work) };
        let Some(led) = led.filter(|led| led.straight && self.vouches_for(&led.common)) else {
            // It may lead anywhere.
            self.take_away(git.clone(), said);
            return if undo::is_there(&git) { CleanupOutcome::Fails } else { CleanupOutcome::Gone };
        };
        let alone = undo::one_name(&git).is_ok();
        // What is held is looked at as a whole.
        let settled = self.is_known(&led.common)
            || self.settle(&led.common, FolderKind::Git, None, said).left.is_empty();
        self.settled(&git, alone && settled, said)
    }

    /// Takes away what would run from a bare repository that a command has made or completed, and says so.
    ///
    /// A folder of the user's that a command completed may hold a `config` or `hooks` that are no
    /// repository's. There `HEAD` gets another name, without which git passes the folder by.
    pub(super) fn clean_bare(
        &self,
        folder: &Path,
        is_made: bool,
        said: &mut Vec<ConfinementRefusal>,
    ) -> CleanupOutcome {
        undo::open_up(folder);
        if is_made {
            if self.settle(folder, FolderKind::Bare, None, said).left.is_empty() {
                return if repository::is_bare(folder) {
                    CleanupOutcome::Stays
                } else {
                    CleanupOutcome::Gone
                };
            }
        } else if self.is_harmless(folder) {
            return CleanupOutcome::Stays;
        }
        let why =
            "it made the folder a repository while a command ran, and git would obey what else is there";
        rename_aside(folder.join("HEAD"), why, said)
    }

    /// Whether a bare repository holds no more than `git init --bare` and `git clone --mirror` write.
    fn is_harmless(&self, folder: &Path) -> bool {
        let is_absent = |name: &&str| !undo::is_there(&folder.join(name));
        let is_straight = |name: &&str| {
            let path = folder.join(name);
            std::fs::read_link(&path).map_or(true, |to| is_symbolic_head(&path, &to))
        };
        ["config.worktree", "commondir", "gitdir", "modules", "worktrees"].iter().all(is_absent)
            && REPOSITORY_NAMES.iter().all(is_straight)
            && hooks_that_run(&folder.join("hooks")).is_ok_and(|names| names.is_empty())
            && is_harmless_config(&folder.join("config"), &self.addresses)
    }

    /// Whether a `.git` file may lead there.
    fn vouches_for(&self, common: &Path) -> bool {
        let inside = |path: &Path| self.workspaces.iter().any(|workspace| path.starts_with(workspace));
        // The folder around it is found and looked at like this one.
        let is_made = |git: &Path| {
            let is_folder = git.symlink_metadata().is_ok_and(|found| found.is_dir());
            git.ends_with(".git") && inside(git) && is_folder
        };
        self.roots.iter().any(|held| held == common || repository::is_module_of(common, held))
            || is_made(common)
            || common.ancestors().any(|above| repository::is_module_of(common, above) && is_made(above))
    }

    /// Whether nobody but the user can have written what an administration says, or it is looked at anyway.
    fn is_known(&self, common: &Path) -> bool {
        let held = |held: &PathBuf| held == common || repository::is_module_of(common, held);
        let users = || common.ends_with(".git") && (self.is_users)(common);
        self.roots.iter().any(held) || users()
    }

    /// Takes away everything in an administration that would run and isn't as the user had it. Again, until
    /// there is nothing: a command that still runs may write meanwhile.
    pub(super) fn settle(
        &self,
        root: &Path,
        kind: FolderKind,
        users: Option<&GitFolders>,
        said: &mut Vec<ConfinementRefusal>,
    ) -> CleanupResult {
        let mut settled = CleanupResult::default();
        for _ in 0..TRIES {
            let mut round = CleanupPass { ground: self, users, root, kind, said, touched: Vec::new() };
            settled.found = round.go();
            settled.left = round.touched;
            if settled.left.is_empty() {
                break;
            }
        }
        settled
    }

    /// The last means where something would still run.
    fn settled(&self, git: &Path, settled: bool, said: &mut Vec<ConfinementRefusal>) -> CleanupOutcome {
        if settled {
            return CleanupOutcome::Stays;
        }
        rename_aside(
            git.to_owned(),
            "what was put there while a command ran would run and can't be taken from it",
            said,
        )
    }

    fn take_away(&self, path: PathBuf, said: &mut Vec<ConfinementRefusal>) {
        let done = if self.gently {
            undo::put_aside(&path, path.parent().unwrap_or(&path))
        } else {
            undo::take_away(&path)
        };
        said.push(ConfinementRefusal::Protected { path, done });
    }
}

/// Gives something a name that nobody obeys, because of this.
fn rename_aside(path: PathBuf, why: &str, said: &mut Vec<ConfinementRefusal>) -> CleanupOutcome {
    let (done, cleaned) = match undo::rename_aside(&path) {
        Ok(aside) => {
            (format!("{why}, so it was renamed to `{}`", display_path(&aside)), CleanupOutcome::Gone)
        }
        Err(error) => (
            format!("{why}, and it can't be renamed: {error}; remove it before you use git there or below"),
            CleanupOutcome::Fails,
        ),
    };
    said.push(ConfinementRefusal::Protected { path, done });
    cleaned
}

/// One look at all folders of an administration.
struct CleanupPass<'a, 'g> {
    ground: &'a CleanupScope<'g>,
    users: Option<&'a GitFolders>,
    root: &'a Path,
    kind: FolderKind,
    said: &'a mut Vec<ConfinementRefusal>,
    /// What wasn't as it should be.
    touched: Vec<PathBuf>,
}

impl CleanupPass<'_, '_> {
    fn go(&mut self) -> GitFolders {
        let found = GitFolders::look(self.root, self.kind, self.users, limits::GIT_FOLDERS_SEEN_MAX);
        let users_whole = |path: &Path| self.users.is_some_and(|users| users.whole.contains(path));
        let whole: Vec<PathBuf> = found.whole.iter().filter(|path| !users_whole(path)).cloned().collect();
        for path in whole {
            self.take_folder(path);
        }
        self.check_links(&found);
        if let Some(head) = self.users.and_then(|users| users.head.as_ref())
            && let Some(done) = repo_markers::put_back(self.root, head)
        {
            self.said.push(ConfinementRefusal::Changed { path: self.root.to_owned(), done });
            self.touched.push(self.root.join("HEAD"));
        }
        for (path, folder) in &found.folders {
            if self.users.is_some_and(|users| users.whole.iter().any(|whole| path.starts_with(whole))) {
                continue;
            }
            let users = self.users.and_then(|users| users.folders.get(path));
            match users.filter(|users| users.is_same(folder)) {
                Some(users) => {
                    let new: Vec<OsString> = folder.held.difference(&users.held).cloned().collect();
                    for name in new {
                        self.take_name(path.join(name));
                    }
                    if users.made {
                        self.check_worktree(path);
                    }
                }
                None => self.check_new(path, folder),
            }
            for name in folder.sequences() {
                for file in sequence::judged_files(&path.join(name)) {
                    self.check_sequence(&file);
                }
            }
        }
        found
    }

    /// Links that weren't there before, among the names that commands may make.
    fn check_links(&mut self, found: &GitFolders) {
        let users = self.users.map(|users| users.links.as_ref());
        for (path, to) in found.links.iter().flat_map(GitSymlinks::all) {
            let before = match users {
                // Only names are known of what the user had.
                Some(None) if may_be_shared(&path) => continue,
                Some(Some(links)) => links.get(&path),
                _ => None,
            };
            if before == Some(to) || is_symbolic_head(&path, to) || self.is_beside(&path) {
                continue;
            }
            let leads = format!(
                "while a command ran it became a link to `{}`, where git would write",
                display_path(&to)
            );
            let taken = if self.ground.gently {
                undo::rename_aside(&path).map(|aside| format!("it was renamed to `{}`", display_path(&aside)))
            } else {
                undo::remove_entry(&path).map(|()| "it was removed".to_owned())
            };
            let put_back = || match before.map(|before| undo::make_symlink(&path, before)) {
                Some(Ok(())) => ", and leads again where it did",
                Some(Err(_)) | None => "",
            };
            let done = match taken {
                Ok(taken) => format!("{leads}; {taken}{}", put_back()),
                Err(error) => {
                    format!("{leads}; it can't be removed: {error}; remove it before you use git there")
                }
            };
            self.said.push(ConfinementRefusal::Protected { path: path.clone(), done });
            self.touched.push(path);
        }
    }

    /// Whether a name directly in a bare repository is none of git's.
    fn is_beside(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.kind == FolderKind::Bare && path.parent() == Some(self.root) && !is_free(FolderKind::Git, name)
    }

    fn take_name(&mut self, path: PathBuf) {
        let is_open = self.ground.open.contains(&path);
        // An empty folder is nothing that git obeys; one may stand in for hooks.
        if is_open || !undo::is_there(&path) || undo::is_empty_folder(&path) {
            return;
        }
        if path.file_name().is_some_and(is_obeyed) || path.is_symlink() {
            self.ground.take_away(path.clone(), self.said)
        } else {
            // It may be all that is left of something: `mv HEAD old`.
            let done = match undo::rename_aside(&path) {
                Ok(aside) => format!(
                    "it was made while a command ran, where git keeps its own, and was renamed to `{}`",
                    display_path(&aside)
                ),
                Err(_) => undo::take_away(&path),
            };
            self.said.push(ConfinementRefusal::Protected { path: path.clone(), done });
        }
        self.touched.push(path);
    }

    /// More than can be looked at: a folder in it goes whole, and of the outermost one what git obeys for
    /// certain.
    fn take_folder(&mut self, path: PathBuf) {
        let users = self.users.and_then(|users| users.folders.get(&path));
        if path != self.root && users.is_none() {
            let done = match undo::rename_aside(&path) {
                Ok(aside) => {
                    format!(
                        "so much was put there while a command ran that it was renamed to `{}`",
                        display_path(&aside)
                    )
                }
                Err(error) => {
                    format!("too much was put there while a command ran, and it can't be renamed: {error}")
                }
            };
            self.said.push(ConfinementRefusal::Protected { path: path.clone(), done });
        } else {
            let had = |name: &str| users.is_some_and(|users| users.held.contains(std::ffi::OsStr::new(name)));
            let new: Vec<PathBuf> =
                OBEYED.iter().filter(|name| !had(name)).map(|name| path.join(name)).collect();
            new.into_iter().for_each(|at| self.take_name(at));
            for file in sequence::SEQUENCE_FOLDERS
                .iter()
                .flat_map(|name| sequence::JUDGED_FILES.map(|file| path.join(name).join(file)))
            {
                self.check_sequence(&file);
            }
            let done = "so much was put there while a command ran that nobody can look through it; look before you use git here";
            self.said.push(ConfinementRefusal::Protected { path: path.clone(), done: done.into() });
        }
        self.touched.push(path);
    }

    /// A folder that a command has made.
    fn check_new(&mut self, path: &Path, folder: &GitFolder) {
        for name in &folder.held {
            let at = path.join(name);
            match (folder.kind, name.to_str().unwrap_or_default()) {
                (FolderKind::Git | FolderKind::Bare, "config") => {
                    let owner = repository::owning_worktree(path);
                    let CleanupScope { addresses, gently, afresh, .. } = self.ground;
                    if let Some(said) = check_new_config(&at, owner.as_deref(), addresses, (*gently, *afresh))
                    {
                        self.said.push(said);
                        self.touched.push(at);
                    }
                }
                (FolderKind::Git | FolderKind::Bare, "hooks") => self.check_new_hooks(at),
                (FolderKind::Worktree, "gitdir" | "commondir") => {}
                _ => self.take_name(at),
            }
        }
        if folder.kind == FolderKind::Worktree {
            self.check_worktree(path);
        }
    }

    /// The way back of a worktree that a command has made.
    fn check_worktree(&mut self, path: &Path) {
        for name in ["gitdir", "commondir"] {
            let at = path.join(name);
            let good = undo::one_name(&at).is_ok()
                && at.symlink_metadata().is_ok_and(|found| found.is_file())
                && (name == "gitdir" || repository::is_own_worktree(path, self.root_of(path)));
            if undo::is_there(&at) && !good {
                self.take_name(at);
            }
        }
    }

    /// The administration that a worktree's folder lies in.
    fn root_of<'p>(&self, path: &'p Path) -> &'p Path {
        path.ancestors().nth(2).unwrap_or(path)
    }

    fn check_new_hooks(&mut self, hooks: PathBuf) {
        undo::open_up(&hooks);
        match hooks_that_run(&hooks) {
            Ok(names) if names.is_empty() => {}
            Ok(names) if !self.ground.gently => {
                for path in names {
                    self.ground.take_away(path.clone(), self.said);
                    self.touched.push(path);
                }
            }
            // Not a folder, a link to one, or more than can be looked through.
            _ => {
                self.ground.take_away(hooks.clone(), self.said);
                self.touched.push(hooks);
            }
        }
    }

    /// What git goes on with.
    fn check_sequence(&mut self, file: &Path) {
        let before = self.users.map(|users| users.sequence(file)).unwrap_or_default();
        let now = match undo::read_file(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            read => read.ok(),
        };
        let stays = now.as_ref().map(|(now, _)| sequence::judge(file, now, &before));
        let done = match (stays, now) {
            (Some(JudgedFile::All), Some((_, false))) if !self.ground.afresh => return,
            // By another name it could be written, or by who has it open.
            (Some(JudgedFile::All), Some((now, _))) if undo::replace_file(file, &now).is_ok() => return,
            (Some(JudgedFile::Some(kept, out)), _) => match undo::replace_file(file, &kept) {
                Ok(()) => format!(
                    "while a command ran lines were put there that git would run when it goes on ({out}), and they were taken out"
                ),
                Err(_) => undo::take_away(file),
            },
            _ => {
                if self.ground.gently {
                    undo::put_aside(file, file.parent().unwrap_or(file))
                } else {
                    undo::take_away(file)
                }
            }
        };
        self.said.push(ConfinementRefusal::Protected { path: file.to_owned(), done });
        self.touched.push(file.to_owned());
    }
}

/// Whether a path is a name of git's that has to have one name only.
pub(super) fn is_obeyed_file(path: &Path) -> bool {
    path.file_name().is_some_and(is_obeyed)
}

/// What lies in a folder of hooks and isn't a sample.
fn hooks_that_run(hooks: &Path) -> io::Result<Vec<PathBuf>> {
    let names = match undo::list_names(hooks) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    // A folder runs nothing; one with something in it can only be put aside, and was.
    let was_put_aside = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.contains(".undone-") && path.symlink_metadata().is_ok_and(|found| found.is_dir())
    };
    let runs = |path: &PathBuf| !path.to_string_lossy().ends_with(".sample") && !was_put_aside(path);
    Ok(names.into_iter().map(|name| hooks.join(name)).filter(runs).collect())
}
