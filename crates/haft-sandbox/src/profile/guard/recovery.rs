//! What commands of a session that was killed have done and nobody has undone: it is undone when the next one
//! starts.
//!
//! Nobody knows what the user did since. So what is in the way is put aside and never removed, and all of it
//! is said.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use haft::ports::ConfinementRefusal;
use haft_git::layout::FolderKind;

use super::cleanup::{CleanupOutcome, CleanupScope};
use super::config_check::{CheckedConfig, check_config};
use crate::profile::git_folders::{GitFolder, GitFolders};
use crate::profile::recovered_files::RecoveredFiles;
use crate::profile::remote_addresses::RemoteAddresses;
use crate::profile::undo_journal::{UndoRecord, known_work};
use crate::profile::{display_path, limits, repository, undo, workspace_scan};

/// Undoes what commands have done since a record was written. Whether nothing is left to be undone.
pub(super) fn undo_record(
    record: &UndoRecord,
    since: SystemTime,
    here: (&[PathBuf], &RecoveredFiles),
    notes: &mut Vec<String>,
) -> bool {
    let mut done = true;
    for (path, before) in &record.configs {
        done &= undo_config(path, before, here, notes);
    }
    for (below, name) in &record.names {
        done &= put_aside(below, name, notes);
    }
    let knows_repositories = !(record.workspaces.is_empty() && record.roots.is_empty());
    done & (!knows_repositories || clean_new(record, since, notes))
}

/// Undoes what a command has changed in a configuration. Whether nothing is left to be undone.
fn undo_config(
    path: &Path,
    before: &[u8],
    (roots, recovered): (&[PathBuf], &RecoveredFiles),
    notes: &mut Vec<String>,
) -> bool {
    // The repository may be gone.
    if !path.parent().is_some_and(Path::is_dir) {
        return true;
    }
    // It may have been killed in another folder than this session's: the repository itself is one that it
    // wrote.
    let work = path.ancestors().nth(2).map(Path::to_owned);
    let roots: Vec<PathBuf> = roots.iter().cloned().chain(work.clone()).collect();
    let addresses = RemoteAddresses { roots: &roots, held: work.as_slice() };
    let CheckedConfig { said, now, .. } = check_config(path, before, &addresses, Some(recovered));
    if let Some(ConfinementRefusal::Protected { path, done }) = said {
        notes.push(format!(
            "a session was killed while a command could write `{}`: {done}; if it was you who changed that since, do it again",
            display_path(&path)
        ));
    }
    now.is_some()
}

/// Puts aside what a command has made. Whether nothing is left to be put aside.
fn put_aside(below: &Path, name: &Path, notes: &mut Vec<String>) -> bool {
    // An empty folder is nothing that git obeys.
    if !undo::is_there(name) || undo::is_empty_folder(name) {
        return true;
    }
    let done = undo::put_aside(name, below);
    notes.push(recovery_note(name, &done));
    !undo::is_there(name)
}

/// Takes from every repository that wasn't there when the session began what would run. Whether that was all.
/// `since` is when that was.
fn clean_new(known: &UndoRecord, since: SystemTime, notes: &mut Vec<String>) -> bool {
    let workspaces: Vec<PathBuf> = known.workspaces.iter().filter(|path| path.is_dir()).cloned().collect();
    let held: Vec<PathBuf> = known.repositories.iter().map(|entry| known_work(entry).to_owned()).collect();
    let addresses = RemoteAddresses { roots: &workspaces, held: &held };
    let is_known = |entry: &Path| known.repositories.iter().any(|known| known == entry);
    let ground = CleanupScope {
        workspaces: &workspaces,
        addresses,
        roots: &known.roots,
        open: &[],
        is_users: &is_known,
        gently: true,
        afresh: false,
    };
    let mut said = Vec::new();
    let mut done = true;
    for root in known.roots.iter().filter(|root| root.is_dir()) {
        let users = recorded_folders(known, root);
        let kind = users.folders.get(root).map_or(FolderKind::Git, |folder| folder.kind);
        done &= ground.settle(root, kind, Some(&users), &mut said).left.is_empty();
    }
    let found = recent_repositories(&workspaces, known.more, since, notes);
    for entry in found.into_iter().filter(|entry| !is_known(entry)) {
        let cleaned = match entry.parent().filter(|_| entry.ends_with(".git")) {
            Some(work) => ground.clean(work, &mut said),
            None if repository::is_part_of_bare(&entry, &workspaces) => CleanupOutcome::Stays,
            None => ground.clean_bare(&entry, false, &mut said),
        };
        done &= cleaned != CleanupOutcome::Fails;
    }
    notes.extend(words_of(said));
    done
}

fn recovery_note(path: &Path, done: &str) -> String {
    format!(
        "a session was killed while a command could make `{}`: {done}; if it was you who made it since, name it so again",
        display_path(path)
    )
}

/// What was undone, for the user.
pub(super) fn words_of(undone: Vec<ConfinementRefusal>) -> Vec<String> {
    let count = undone.len();
    let words = undone.into_iter().take(limits::NAMES_TOLD_MAX).filter_map(|refusal| match refusal {
        ConfinementRefusal::Protected { path, done } => Some(recovery_note(&path, &done)),
        _ => None,
    });
    let more = count.checked_sub(limits::NAMES_TOLD_MAX).filter(|more| *more > 0);
    words.chain(more.map(|more| format!("and {more} more like that"))).collect()
}

/// What the user had in the folders of git of one repository.
fn recorded_folders(known: &UndoRecord, root: &Path) -> GitFolders {
    let mut found = GitFolders::default();
    for folder in known.folders.iter().filter(|folder| folder.path.starts_with(root)) {
        match FolderKind::from_letter(folder.kind) {
            Some(kind) => {
                let held = folder.names.iter().cloned().collect();
                found.folders.insert(folder.path.clone(), GitFolder::recorded(kind, held));
            }
            None => drop(found.whole.insert(folder.path.clone())),
        }
    }
    found.sequences.extend(known.sequences.iter().filter(|(path, _)| path.starts_with(root)).cloned());
    found
}

/// Repositories in these working directories; directly in them only, where others may be the user's.
fn recent_repositories(
    workspaces: &[PathBuf],
    only_near: bool,
    since: SystemTime,
    notes: &mut Vec<String>,
) -> Vec<PathBuf> {
    let mut works = nearby_repositories(workspaces);
    if !only_near {
        let found = walk_opening(workspaces, since, notes);
        if found.folders.is_none() || found.too_deep {
            notes.push(
                "a session was killed while a command ran, and there are too many files, or too deep ones, to find every repository \
                 that it may have made; look before you use git there"
                    .into(),
            );
        }
        works.extend(found.repositories.iter().map(|work| work.join(".git")));
        works.extend(found.bare);
        works.extend(found.folders.iter().flatten().flat_map(|(path, folder)| folder.entries(path)));
    }
    works.sort();
    works.dedup();
    works
}

/// Looks through working directories. Folders that were closed to their owner since then are opened: a
/// command may have hidden something there.
fn walk_opening(
    workspaces: &[PathBuf],
    since: SystemTime,
    notes: &mut Vec<String>,
) -> workspace_scan::WorkspaceScan {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = i64::try_from(since.as_secs()).unwrap_or_default();
    let changed = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.ctime() >= since);
    let mut opened = 0;
    loop {
        let found = workspace_scan::scan_workspaces(workspaces, None, None);
        let closed: Vec<&PathBuf> = found.closed.iter().filter(|path| changed(path)).collect();
        let room = limits::FOLDERS_LOOKED_AT_MAX.saturating_sub(opened);
        let now: Vec<&&PathBuf> = closed.iter().take(room).filter(|path| undo::open_up(path)).collect();
        for path in now.iter().take(limits::NAMES_TOLD_MAX.saturating_sub(opened)) {
            notes.push(format!(
                "a session was killed while a command ran, and since then `{}` can't be read, where a repository could \
                 hide; so its owner can read it again",
                display_path(path)
            ));
        }
        if now.is_empty() {
            return found;
        }
        opened += now.len();
    }
}

/// Repositories in working directories and folders directly in them.
pub(super) fn nearby_repositories(workspaces: &[PathBuf]) -> Vec<PathBuf> {
    let mut works = workspaces.to_owned();
    for workspace in workspaces {
        let entries = fs::read_dir(workspace).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        works.extend(folders.take(limits::FOLDERS_LOOKED_AT_MAX).map(|folder| folder.path()));
    }
    let git = works.iter().map(|work| work.join(".git")).filter(|git| undo::is_there(git));
    let bare = works.iter().filter(|work| repository::is_bare(work)).cloned();
    git.chain(bare).collect()
}
