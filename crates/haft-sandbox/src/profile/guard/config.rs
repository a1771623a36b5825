//! What becomes of a configuration of git that a command could write: what would run is undone, and that is said.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use haft::ports::Refusal;

use crate::profile::gitconfig::{self, Merged};
use crate::profile::{placeholders, undo};

/// Undoes what a command of a session that was killed has changed in a configuration. Says so.
pub(super) fn undo_left(path: &Path, before: &[u8]) -> Option<String> {
    // The repository may be gone.
    path.parent().filter(|folder| folder.is_dir())?;
    let Refusal::Protected { path, done } = check_config(path, before)? else { return None };
    Some(format!(
        "a session was killed while a command could write `{}`: {done}; if it was you who changed that since, do it again",
        path.display()
    ))
}

/// Puts aside what a command of a session that was killed has made. Says so.
pub(super) fn aside_left(below: &Path, name: &Path) -> Option<String> {
    // An empty folder is nothing that git obeys.
    if name.symlink_metadata().is_err() || placeholders::stands(name) {
        return None;
    }
    let done = undo::put_aside(name, below);
    Some(format!(
        "a session was killed while a command could make `{}`: {done}; if it was you who made it since, name it so again",
        name.display()
    ))
}

/// Looks at a configuration that a command was let write.
pub(super) fn check_config(path: &Path, before: &[u8]) -> Option<Refusal> {
    let found = path.symlink_metadata().ok();
    let now = found.as_ref().filter(|found| found.is_file()).and_then(|_| undo::read(path).ok());
    let (bytes, undone) = match now.as_deref().map(|now| (gitconfig::merge(before, now), now)) {
        Some((Merged::Stays, now)) => match found.is_some_and(|found| found.nlink() > 1) {
            // Another name of it could be written by the next command.
            true => (now.to_owned(), Vec::new()),
            false => return None,
        },
        Some((Merged::Undone(bytes, names), _)) => (bytes, names),
        None => (before.to_owned(), vec!["all of it (it was no file any more)".into()]),
    };
    written_back(path, &bytes, &undone)
}

/// Keeps of the configuration of a repository that a command has made what `git init`, `git clone` and, for a submodule
/// in this folder, `git submodule` write.
pub(super) fn check_new_config(path: &Path, of_submodule: Option<&Path>) -> Option<Refusal> {
    let bytes = undo::read(path).ok().filter(|bytes| gitconfig::parse(bytes).is_ok());
    let Some(bytes) = bytes else {
        path.symlink_metadata().ok()?;
        return Some(Refusal::Protected { path: path.to_owned(), done: undo::take_away(path) });
    };
    let leads_here = |entry: &gitconfig::Entry| {
        let to = path
            .parent()
            .zip(entry.value.as_ref())
            .and_then(|(there, to)| there.join(to).canonicalize().ok());
        entry.name() == "core.worktree" && of_submodule.is_some() && to.as_deref() == of_submodule
    };
    let may = |entry: &gitconfig::Entry| gitconfig::may_be_new(entry) || leads_here(entry);
    let (kept, undone) = gitconfig::without_those(&bytes, may)?;
    written_back(path, &kept, &undone)
}

fn written_back(path: &Path, bytes: &[u8], undone: &[String]) -> Option<Refusal> {
    // Keys, or that it is everything.
    let shown =
        |name: &String| if name.starts_with("all of it (") { name.clone() } else { format!("`{name}`") };
    let names: Vec<String> = undone.iter().take(5).map(shown).collect();
    let names = names.join(", ");
    let done = match undo::replace(path, bytes) {
        Ok(()) if undone.is_empty() => return None,
        Ok(()) => format!("a command changed {names}, and that was undone"),
        Err(error) => format!(
            "a command changed {names}, and that can't be undone: {error}; look at it before you use git here"
        ),
    };
    Some(Refusal::Protected { path: path.to_owned(), done })
}
