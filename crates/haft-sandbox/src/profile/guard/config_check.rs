//! What becomes of a configuration of git that a command could write: what would run is undone, and that is
//! said.

use std::io;
use std::path::Path;

use haft::ports::ConfinementRefusal;
use haft_git::config::{self, ConfigMerge};
use haft_git::{ConfigEntry, keys};

use crate::profile::recovered_files::RecoveredFiles;
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::{display_path, undo};

/// What came of a look at a configuration.
pub(super) struct CheckedConfig {
    pub(super) said: Option<ConfinementRefusal>,
    /// What it is now, if all of it may be there: not read again, since somebody could have written it
    /// meanwhile.
    pub(super) now: Option<Vec<u8>>,
}

/// Looks at a configuration that a command could write. What isn't to stay is undone, whoever did it, and
/// kept.
///
/// It is a file of its own afterwards: a descriptor of it that somebody has kept, and another name of it,
/// lead nowhere.
pub(super) fn check_config(
    path: &Path,
    before: &[u8],
    addresses: &RemoteAddresses<'_>,
    recovered: Option<&RecoveredFiles>,
) -> CheckedConfig {
    let merged = |now: &[u8]| {
        let merged = config::merge(before, now);
        let text = if let ConfigMerge::Undone(bytes, _) = &merged { bytes } else { now };
        match (addresses.judge(path, before, text), &merged) {
            (None, _) => merged,
            (Some((bytes, names)), ConfigMerge::Stays) => ConfigMerge::Undone(bytes, names),
            (Some((bytes, names)), ConfigMerge::Undone(_, others)) => {
                ConfigMerge::Undone(bytes, others.iter().cloned().chain(names).collect())
            }
        }
    };
    let (bytes, undone, now) = match undo::read_file(path).map(|(now, _)| (merged(&now), now)) {
        Ok((ConfigMerge::Stays, now)) => (now, Vec::new(), None),
        Ok((ConfigMerge::Undone(bytes, names), now)) => (bytes, names, Some(now)),
        // There was none, and there is none.
        Err(error) if error.kind() == io::ErrorKind::NotFound && before.is_empty() => {
            return CheckedConfig { said: None, now: Some(Vec::new()) };
        }
        Err(_) => (before.to_owned(), vec!["all of it (it was no file any more)".into()], None),
    };
    let names = undone_message(&undone);
    let said = |done: String| Some(ConfinementRefusal::Protected { path: path.to_owned(), done });
    let error = match undo::replace_file(path, &bytes) {
        Ok(()) if undone.is_empty() => return CheckedConfig { said: None, now: Some(bytes) },
        Ok(()) => {
            let kept = now.zip(recovered).and_then(|(now, recovered)| {
                recovered.keep_bytes("git-config", path.file_name()?, &now).ok()
            });
            let kept = kept.map(|kept| format!("; it is kept as it was in `{}`", display_path(&kept)));
            let done = format!(
                "while a command ran {names} was changed, and that was undone{}",
                kept.unwrap_or_default()
            );
            return CheckedConfig { said: said(done), now: Some(bytes) };
        }
        Err(error) => error,
    };
    // It is as it may be, though not a file of its own.
    if undone.is_empty() {
        return CheckedConfig { said: None, now: Some(bytes) };
    }
    // Nothing can be written there, perhaps because the disk is full. Without a configuration git runs
    // nothing, and without a repository it has none.
    let aside = undo::rename_aside(path).or_else(|_| match path.parent() {
        Some(folder) => undo::rename_aside(folder),
        None => Err(io::ErrorKind::InvalidInput.into()),
    });
    let done = match aside {
        Ok(aside) => format!(
            "while a command ran {names} was changed, and that can't be undone: {error}; so it was renamed to `{}`, and is \
             put back as soon as it can be",
            display_path(&aside)
        ),
        Err(_) => format!(
            "while a command ran {names} was changed, and that can't be undone: {error}; look at it before you use git here"
        ),
    };
    CheckedConfig { said: said(done), now: None }
}

/// Keeps of the configuration of a repository that a command has made what `git init`, `git clone` and, for a
/// submodule in this folder, `git submodule` write. Gently: what was there is put aside. Afresh: it is a new
/// file in any case.
pub(super) fn check_new_config(
    path: &Path,
    of_submodule: Option<&Path>,
    addresses: &RemoteAddresses<'_>,
    (gently, afresh): (bool, bool),
) -> Option<ConfinementRefusal> {
    let read = match undo::read_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read.ok().filter(|(bytes, _)| config::parse(bytes).is_ok()),
    };
    let said = |done: String| Some(ConfinementRefusal::Protected { path: path.to_owned(), done });
    let Some((bytes, others)) = read else {
        return said(if gently {
            undo::put_aside(path, path.parent().unwrap_or(path))
        } else {
            undo::take_away(path)
        });
    };
    let all = config::parse(&bytes).unwrap_or_default();
    let without = config::remove_entries(&bytes, |entry| {
        may_be(path, of_submodule, entry) && addresses.may_be_new(path, entry, &all)
    });
    let (kept, undone) = match (without, others || afresh) {
        (Some(without), _) => without,
        (None, true) => (bytes, Vec::new()),
        (None, false) => return None,
    };
    let aside = if gently { undo::rename_aside(path).ok() } else { None };
    let replaced = undo::replace_file(path, &kept);
    if undone.is_empty() && replaced.is_ok() {
        return None;
    }
    let names = undone_message(&undone);
    let whole =
        aside.map(|aside| format!(" (all of it is in `{}`)", display_path(&aside))).unwrap_or_default();
    said(match replaced {
        Ok(()) => format!("while a command ran {names} was changed, and that was undone{whole}"),
        Err(error) => {
            format!("while a command ran {names} was changed, and that can't be undone: {error}{whole}")
        }
    })
}

/// Whether a configuration, if there is one, says no more than that of a repository that a command has made
/// may.
pub(super) fn is_harmless_config(path: &Path, addresses: &RemoteAddresses<'_>) -> bool {
    let bytes = match undo::read_file(path) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok((_, true)) => return false,
        Ok((bytes, false)) => bytes,
    };
    let Ok(all) = config::parse(&bytes) else { return false };
    all.iter().all(|entry| may_be(path, None, entry) && addresses.may_be_new(path, entry, &all))
}

/// Whether an entry may be in the configuration of a repository that a command has made.
fn may_be(path: &Path, of_submodule: Option<&Path>, entry: &ConfigEntry) -> bool {
    let leads_here = || {
        let to = path.parent().zip(entry.value.as_ref());
        let to = to.and_then(|(there, to)| there.join(to).canonicalize().ok());
        entry.name() == "core.worktree" && of_submodule.is_some() && to.as_deref() == of_submodule
    };
    keys::may_be_new(entry) || leads_here()
}

/// Keys, or that it is everything.
fn undone_message(undone: &[String]) -> String {
    let shown = |name: &String| {
        if name.starts_with("all of it (") { name.clone() } else { format!("`{}`", display_path(name)) }
    };
    let names: Vec<String> = undone.iter().take(5).map(shown).collect();
    names.join(", ")
}
