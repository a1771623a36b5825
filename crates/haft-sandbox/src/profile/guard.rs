//! Names that must stay as they are, because what they hold runs by itself or says what runs.
//!
//! Before a command they are held in its view: read-only, with every folder above them pinned, since renaming a folder
//! would replace them. After it they are compared with what they were. What the kernel held and what has changed all the
//! same was changed by somebody else, mostly the user: that is said and left alone. What could not be held is put back:
//! names that git would obey as soon as they exist, links, and a configuration of git that a command had to write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haft::ports::{ProcessRequest, Refusal};

use super::compare::Watch;
use super::gitconfig::{self, Merged};
use super::placeholders::Placeholders;
use super::places::Places;
use super::repository::{self, Repository};
use super::walk::Found;
use super::{ProfileConfig, grants, limits, read_small};

/// Names in a working directory that no command may write, whether they exist or not.
pub const PROTECTED: &[&str] = &[".haft", ".claude", ".mcp.json", ".vscode", ".idea", ".husky", ".envrc"];
/// Folders in these that are plain work.
pub const PLAIN_WORK: &[&str] = &[".claude/worktrees", ".haft/worktrees"];

pub(super) struct Guard {
    /// Working directories that commands may write.
    workspaces: Vec<PathBuf>,
    /// Held if they are there, and otherwise stood in for.
    names: Vec<PathBuf>,
    /// Held if they are there.
    scripts: Vec<PathBuf>,
    /// Held if they are there, and not looked at afterwards: this program itself writes them.
    own: Vec<PathBuf>,
    placeholders: Placeholders,
    watch: Watch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    repositories: Vec<Repository>,
    /// Working directories that were none when the session began and are none yet.
    plain: Vec<PathBuf>,
    /// Links among the names, and where they lead.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Configurations that a running command may write, as they were.
    configs: BTreeMap<PathBuf, Vec<u8>>,
    /// Files that were made for a call.
    empty: Vec<PathBuf>,
}

impl Guard {
    pub(super) fn new(
        config: &ProfileConfig,
        workspaces: Vec<PathBuf>,
        found: &Found,
        notes: &mut Vec<String>,
    ) -> Result<Guard, String> {
        let mut state = State::default();
        for work in &found.repositories {
            // What lies in a folder that commands can't write needs no guard; its administration may, elsewhere.
            match repository::find(work) {
                Ok(repository) => state.repositories.extend(repository),
                Err(why) => {
                    notes.extend(workspaces.contains(work).then_some(why));
                    state.repositories.push(Repository::unknown(work));
                }
            }
        }
        // Only the folder that was asked for vouches for an administration elsewhere.
        for repository in &mut state.repositories {
            if !workspaces.contains(&repository.work) {
                repository.elsewhere.clear();
            }
        }
        for workspace in &workspaces {
            let is_one = state.repositories.iter().any(|repository| repository.work == *workspace);
            if let Some(above) =
                repository::above(workspace).filter(|_| !is_one && !workspace.join(".git").exists())
            {
                notes.push(format!(
                    "the repository of `{}` begins above it, in `{}`; commands don't see it: start there, or add it",
                    workspace.display(),
                    above.display()
                ));
            }
        }
        let is_plain = |work: &&PathBuf| work.join(".git").symlink_metadata().is_err();
        state.plain = workspaces.iter().filter(is_plain).cloned().collect();
        let in_workspaces =
            workspaces.iter().flat_map(|workspace| PROTECTED.iter().map(|name| workspace.join(name)));
        let names = in_workspaces.chain(config.deny_write_paths.iter().cloned()).collect();
        let scripts = config.scripts.iter().chain(&found.unwritable).cloned().collect();
        let records = config.caches.join("placeholders");
        let placeholders = Placeholders::open(&records).map_err(|error| {
            format!("no record of what is to be cleaned up can be kept in `{}`: {error}", records.display())
        })?;
        let state = Mutex::new(state);
        let own = config.own.clone();
        Ok(Guard { workspaces, names, scripts, own, placeholders, watch: Watch::default(), state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Folders outside of the working directories that git must be able to write.
    pub(super) fn elsewhere(&self) -> Vec<PathBuf> {
        let state = self.state();
        let inside = |path: &PathBuf| self.workspaces.iter().any(|workspace| path.starts_with(workspace));
        let all = state.repositories.iter().flat_map(|repository| &repository.elsewhere);
        all.filter(|path| !inside(path)).cloned().collect()
    }

    /// Whether a path is one of the names or lies in one.
    pub(super) fn is_within(&self, path: &Path) -> bool {
        let plain =
            |workspace: &PathBuf| PLAIN_WORK.iter().any(|name| path.starts_with(workspace.join(name)));
        !self.workspaces.iter().any(plain) && self.fixed(None).iter().any(|name| path.starts_with(name))
    }

    /// Remembers a file that was made for a call.
    pub(super) fn made_empty(&self, path: &Path) {
        self.state().empty.push(path.to_owned());
    }

    /// Everything that stays as it is, but for a configuration that the command may write.
    fn fixed(&self, but: Option<&Path>) -> Vec<PathBuf> {
        let state = self.state();
        let of_git = state.repositories.iter().flat_map(|repository| {
            repository.fixed.iter().chain([&repository.config]).filter(|path| Some(path.as_path()) != but)
        });
        self.names.iter().chain(&self.scripts).chain(of_git).cloned().collect()
    }

    /// The configuration that this request may write: of the innermost repository that it runs in.
    fn config_of(&self, request: &ProcessRequest) -> Option<PathBuf> {
        if !request.git_config {
            return None;
        }
        let state = self.state();
        let around = state.repositories.iter().filter(|repository| request.cwd.starts_with(&repository.work));
        around.max_by_key(|repository| repository.work.components().count()).map(|found| found.config.clone())
    }

    /// Holds every name that a child could change.
    pub(super) fn hold(&self, places: &mut Places, request: &ProcessRequest) -> Result<(), String> {
        let config = self.config_of(request);
        let fixed = self.fixed(config.as_deref());
        for path in fixed.iter().chain(&self.own).chain(&request.access.never_written) {
            if places.writable_root(path).is_none() {
                continue;
            }
            match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => self.hold_link(places, path),
                Ok(_) => places.protect(path),
                Err(_) if self.can_stand_in(path) => match self.placeholders.ensure(path) {
                    Ok(()) => places.protect(path),
                    // Who may not make it here can't make it from inside.
                    Err(error) if is_refusal(&error) => {}
                    Err(error) => {
                        return Err(format!(
                            "`{}` must not be made by a command, and can't be kept from it: {error}",
                            path.display()
                        ));
                    }
                },
                Err(_) => {}
            }
        }
        if let Some(config) = &config {
            places.pin_above(config);
            self.state().configs.insert(config.clone(), read_small(config).unwrap_or_default());
        }
        let works: Vec<PathBuf> =
            self.state().repositories.iter().map(|repository| repository.work.join(".git")).collect();
        for git in &works {
            if let (Some(_), Ok(to)) = (places.writable_root(git), fs::read_link(git)) {
                places.pin_above(git);
                self.state().links.insert(git.clone(), to);
            }
        }
        for plain in self.workspaces.iter().flat_map(|at| PLAIN_WORK.iter().map(|name| at.join(name))) {
            if places.shows(&plain) && plain.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                places.bind(&plain, true);
            }
        }
        self.watch.refresh(&fixed);
        Ok(())
    }

    /// A link can't be held itself: its target is, and the link is looked at afterwards.
    fn hold_link(&self, places: &mut Places, path: &Path) {
        if let Ok(to) = fs::read_link(path) {
            self.state().links.insert(path.to_owned(), to);
        }
        if let Ok(real) = path.canonicalize() {
            places.protect(&real);
        }
        places.pin_above(path);
    }

    /// Whether an empty folder may stand at a path: never above a working directory or outside of one.
    fn can_stand_in(&self, path: &Path) -> bool {
        let named = self.names.iter().any(|name| name == path) || path.ends_with("hooks");
        let inside = |folder: &PathBuf| path != folder && path.starts_with(folder);
        let there = path.parent().is_some_and(Path::is_dir);
        named && there && (self.workspaces.iter().any(inside) || self.elsewhere().iter().any(inside))
    }

    /// Compares, puts back, and says what was done.
    pub(super) fn finished(&self, request: &ProcessRequest) -> Vec<Refusal> {
        let mut said = Vec::new();
        let config = self.config_of(request);
        let empty = std::mem::take(&mut self.state().empty);
        for path in empty {
            grants::remove_if_empty(&path);
        }
        if let Some(config) = &config {
            let before = self.state().configs.remove(config);
            said.extend(before.and_then(|before| check_config(config, &before)));
        }
        self.take_away_unwanted(&mut said);
        self.put_links_back(&mut said);
        self.look_for_new_repositories(&mut said);
        let fixed = self.fixed(config.as_deref());
        for path in self.watch.changed(&fixed) {
            let told = said
                .iter()
                .any(|said| matches!(said, Refusal::Protected { path: told, .. } if path.starts_with(told)));
            let granted =
                request.access.write.iter().any(|root| root.covers(&path) && self.is_within(&root.path));
            if !told && !granted && !self.placeholders.made(&path) {
                let done = "it changed while a command ran. Commands can't write it, so you or another program did; \
                            look at it if you didn't";
                said.push(Refusal::Protected { path, done: done.into() });
            }
        }
        said.truncate(limits::REPORTED_MAX);
        said
    }

    fn take_away_unwanted(&self, said: &mut Vec<Refusal>) {
        let state = self.state();
        for path in state.repositories.iter().flat_map(|repository| &repository.unwanted) {
            if path.symlink_metadata().is_ok() {
                said.push(Refusal::Protected { path: path.clone(), done: taken_away(path) });
            }
        }
    }

    fn put_links_back(&self, said: &mut Vec<Refusal>) {
        for (path, to) in &self.state().links {
            if fs::read_link(path).is_ok_and(|now| now == *to) {
                continue;
            }
            let aside = if path.symlink_metadata().is_ok() { taken_away(path) } else { String::new() };
            let done = match std::os::unix::fs::symlink(to, path) {
                Ok(()) => format!("the link to `{}` was put back", to.display()),
                Err(error) => format!("the link to `{}` can't be put back: {error}; {aside}", to.display()),
            };
            said.push(Refusal::Protected { path: path.clone(), done });
        }
    }

    /// A working directory that has become a repository keeps of its configuration what `git init` writes.
    fn look_for_new_repositories(&self, said: &mut Vec<Refusal>) {
        let plain = self.state().plain.clone();
        for workspace in &plain {
            let git = workspace.join(".git");
            let Ok(found) = git.symlink_metadata() else { continue };
            if !found.is_dir() {
                // It may lead anywhere.
                said.push(Refusal::Protected { path: git.clone(), done: taken_away(&git) });
                continue;
            }
            said.extend(check_new_config(&git.join("config")));
            for hook in fs::read_dir(git.join("hooks")).into_iter().flatten().flatten() {
                if !hook.file_name().to_string_lossy().ends_with(".sample") {
                    let path = hook.path();
                    said.push(Refusal::Protected { done: taken_away(&path), path });
                }
            }
            let Ok(Some(repository)) = repository::find(workspace) else { continue };
            {
                let mut state = self.state();
                state.plain.retain(|plain| plain != workspace);
                state.repositories.push(repository);
            }
            self.take_away_unwanted(said);
            self.watch.refresh(&self.fixed(None));
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory
    )
}

/// Takes a name away; a folder with something in it is put aside. Says what was done.
fn taken_away(path: &Path) -> String {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let removed = if is_folder { fs::remove_dir(path) } else { fs::remove_file(path) };
    match removed {
        Ok(()) => "a command made it, and it was removed".into(),
        Err(_) => match put_aside(path) {
            Ok(aside) => format!("a command made it, and it was renamed to `{}`", aside.display()),
            Err(error) => format!("a command made it, and it can't be removed: {error}; remove it"),
        },
    }
}

fn put_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..1_000 {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".undone-{number}"));
        let aside = path.with_file_name(name);
        if aside.symlink_metadata().is_err() {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other("there are too many of its kind"))
}

/// Looks at a configuration that a command was let write.
fn check_config(path: &Path, before: &[u8]) -> Option<Refusal> {
    let found = path.symlink_metadata().ok();
    let now = found.as_ref().filter(|found| found.is_file()).and_then(|_| read_small(path));
    let (bytes, undone) = match now.as_deref().map(|now| (gitconfig::merge(before, now), now)) {
        Some((Merged::Stays, now)) => match found.is_some_and(|found| found.nlink() > 1) {
            // Another name of it could be written by the next command.
            true => (now.to_owned(), Vec::new()),
            false => return None,
        },
        Some((Merged::Undone(bytes, names), _)) => (bytes, names),
        None => (before.to_owned(), vec!["all of it, because it was no file any more".into()]),
    };
    written_back(path, &bytes, &undone)
}

/// Keeps of the configuration of a repository that a command has made what `git init` and `git clone` write.
fn check_new_config(path: &Path) -> Option<Refusal> {
    let entries = read_small(path).map(|bytes| gitconfig::parse(&bytes));
    let entries = match entries {
        Some(Ok(entries)) => entries,
        _ => {
            path.symlink_metadata().ok()?;
            return Some(Refusal::Protected { path: path.to_owned(), done: taken_away(path) });
        }
    };
    let undone: Vec<String> =
        entries.iter().filter(|entry| !gitconfig::may_be_new(entry)).map(gitconfig::Entry::name).collect();
    if undone.is_empty() {
        return None;
    }
    let kept = gitconfig::write(entries.iter().filter(|entry| gitconfig::may_be_new(entry)));
    written_back(path, &kept, &undone)
}

fn written_back(path: &Path, bytes: &[u8], undone: &[String]) -> Option<Refusal> {
    let names: Vec<String> = undone.iter().take(5).map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    let done = match replace(path, bytes) {
        Ok(()) if undone.is_empty() => return None,
        Ok(()) => format!("a command changed {names}, and that was undone"),
        Err(error) => format!(
            "a command changed {names}, and that can't be undone: {error}; look at it before you use git here"
        ),
    };
    Some(Refusal::Protected { path: path.to_owned(), done })
}

/// Puts a new file with this content in place of whatever is there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        put_aside(path)?;
    }
    let name = path.with_file_name(format!(".config-{}", std::process::id()));
    let _ = fs::remove_file(&name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&name)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| fs::rename(&name, parent.join(path.file_name().unwrap_or_default())));
    if written.is_err() {
        let _ = fs::remove_file(&name);
    }
    written
}
