//! Takes from a repository that a command has made what would run.
//!
//! It keeps what git itself writes into a new one. A `.git` file that a command made may lead into the administration of a
//! repository that is held, or of one like it in the working directories, which is then looked at itself; anywhere else
//! commands could write what it leads to, unseen. Every file that says what runs has one name only, since by another one
//! it could be written.
//!
//! What can't be taken from a repository is taken with it: its `.git` gets a name that nobody obeys.

use std::io;
use std::path::{Path, PathBuf};

use haft::ports::Refusal;

use super::config::{check_new_config, is_clean};
use crate::profile::repository::{self, Led, Repository};
use crate::profile::{shown, undo};

/// How often a repository is cleaned that a command goes on to write.
const TRIES: usize = 4;

/// What there is around a repository that a command has made.
pub(super) struct Ground<'a> {
    pub(super) workspaces: &'a [PathBuf],
    /// Those that were held all the time.
    pub(super) held: &'a [Repository],
    /// Whether no command has made the repository in a folder, though it may not be held.
    pub(super) is_users: &'a dyn Fn(&Path) -> bool,
    /// It may be the user's, so nothing is removed that can be put aside.
    pub(super) gently: bool,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleaned {
    /// It runs nothing, and is there.
    Stays,
    /// It is none any more.
    Gone,
    /// It would still run something.
    Fails,
}

impl Ground<'_> {
    /// Takes away what would run, and says so.
    pub(super) fn clean(&self, work: &Path, said: &mut Vec<Refusal>) -> Cleaned {
        let git = work.join(".git");
        let Ok(found) = git.symlink_metadata() else { return Cleaned::Gone };
        if found.is_dir() {
            undo::open_up(&git);
            let settled = self.settle_administration(&git, None, said);
            return self.settled(&git, settled, said);
        }
        let led = if found.is_symlink() { None } else { repository::led(work) };
        let Some(led) = led.filter(|led| self.vouches_for(&led.common)) else {
            // It may lead anywhere.
            self.take_away(git.clone(), said);
            return if undo::is_there(&git) { Cleaned::Fails } else { Cleaned::Gone };
        };
        let mut alone = undo::one_name(&git).is_ok();
        if led.is_worktree {
            alone &= self.clean_worktree(&led, said);
        }
        if self.is_known(&led.common) {
            return self.settled(&git, alone, said);
        }
        let of_submodule = (!led.is_worktree).then_some(work);
        let settled = self.settle_administration(&led.common, of_submodule, said);
        self.settled(&git, alone && settled, said)
    }

    /// Whether a `.git` file may lead there.
    fn vouches_for(&self, common: &Path) -> bool {
        let held = || self.held.iter().filter_map(|repository| repository.config.parent());
        let inside = |path: &Path| self.workspaces.iter().any(|workspace| path.starts_with(workspace));
        // The folder around it is found and looked at like this one.
        let is_made = |git: &Path| {
            let is_folder = git.symlink_metadata().is_ok_and(|found| found.is_dir());
            git.ends_with(".git") && inside(git) && is_folder
        };
        held().any(|held| held == common || repository::is_module_of(common, held))
            || is_made(common)
            || common.ancestors().any(|above| repository::is_module_of(common, above) && is_made(above))
    }

    /// Whether nobody but the user can have written what an administration says.
    fn is_known(&self, common: &Path) -> bool {
        let config = common.join("config");
        let held = |held: &Repository| held.config == config || held.fixed.contains(&config);
        let users = || common.ends_with(".git") && common.parent().is_some_and(|work| (self.is_users)(work));
        self.held.iter().any(held) || users()
    }

    fn is_held(&self, path: &Path) -> bool {
        self.held.iter().any(|held| held.fixed.iter().any(|fixed| fixed == path))
    }

    /// What a worktree has of its own. Whether nobody can write that by another name.
    fn clean_worktree(&self, led: &Led, said: &mut Vec<Refusal>) -> bool {
        let config = led.there.join("config.worktree");
        if undo::is_there(&config) && (self.gently || !self.is_held(&config)) {
            self.take_away(config, said);
        }
        ["gitdir", "commondir"].iter().all(|name| undo::one_name(&led.there.join(name)).is_ok())
    }

    /// Cleans it until it is clean: a command that still runs may write meanwhile. Whether it is.
    fn settle_administration(
        &self,
        there: &Path,
        of_submodule: Option<&Path>,
        said: &mut Vec<Refusal>,
    ) -> bool {
        (0..TRIES).any(|_| {
            self.clean_administration(there, of_submodule, said);
            self.is_settled(there, of_submodule)
        })
    }

    fn clean_administration(&self, there: &Path, of_submodule: Option<&Path>, said: &mut Vec<Refusal>) {
        let config = there.join("config");
        for path in unwanted(there) {
            if undo::is_there(&path) {
                self.take_away(path, said);
            }
        }
        said.extend(check_new_config(&config, of_submodule, self.gently));
        for path in repository::worktree_configs(&config).into_iter().filter(|path| !self.is_held(path)) {
            self.take_away(path, said);
        }
        let hooks = there.join("hooks");
        undo::open_up(&hooks);
        match hooks_that_run(&hooks) {
            Ok(names) if names.is_empty() => {}
            Ok(names) if !self.gently => {
                for path in names {
                    self.take_away(path, said);
                }
            }
            // Not a folder, a link to one, or more than can be looked through.
            _ => self.take_away(hooks, said),
        }
    }

    /// Whether nothing is left in an administration that would run.
    fn is_settled(&self, there: &Path, of_submodule: Option<&Path>) -> bool {
        !unwanted(there).iter().any(|path| undo::is_there(path))
            && hooks_that_run(&there.join("hooks")).is_ok_and(|names| names.is_empty())
            && is_clean(&there.join("config"), of_submodule)
    }

    /// The last means where something would still run.
    fn settled(&self, git: &Path, settled: bool, said: &mut Vec<Refusal>) -> Cleaned {
        if settled {
            return Cleaned::Stays;
        }
        let (done, cleaned) = match undo::rename_aside(git) {
            Ok(aside) => {
                let done = format!(
                    "what a command put there would run and can't be taken from it, so all of it was renamed to `{}`",
                    shown(&aside)
                );
                (done, Cleaned::Gone)
            }
            Err(error) => {
                let done = format!(
                    "what a command put there would run, and it can't be undone: {error}; remove it before you use git there"
                );
                (done, Cleaned::Fails)
            }
        };
        said.push(Refusal::Protected { path: git.to_owned(), done });
        cleaned
    }

    fn take_away(&self, path: PathBuf, said: &mut Vec<Refusal>) {
        let done = match self.gently {
            true => undo::put_aside(&path, path.parent().unwrap_or(&path)),
            false => undo::take_away(&path),
        };
        said.push(Refusal::Protected { path, done });
    }
}

/// Names in the administration of a repository that a command has made which lead git elsewhere.
fn unwanted(there: &Path) -> [PathBuf; 2] {
    ["commondir", "config.worktree"].map(|name| there.join(name))
}

/// What lies in a folder of hooks and isn't a sample.
fn hooks_that_run(hooks: &Path) -> io::Result<Vec<PathBuf>> {
    let names = match undo::names(hooks) {
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
