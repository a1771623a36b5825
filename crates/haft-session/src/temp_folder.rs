//! The folder that the child processes of a session see at `/tmp`.
//!
//! It is a folder of the host that no other user can access. Its name contains the ids of the session and
//! of its process. It is removed when the session ends. The names of its files are kept, so that the model
//! can be told which files are gone when the session continues. Folders of killed sessions are removed a
//! day later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft::files::PathTable;
use haft::text::truncate_chars;

use crate::processes;
use crate::text::one_line;

/// Where child processes see the folder.
const PREFIX: &str = "/tmp";
/// The prefix of the folder's name, which ends with the process id.
const NAME_PREFIX: &str = "haft-";
/// The age at which such a folder counts as left behind by a killed session.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the file names of a removed folder are kept.
const LISTING_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The maximum number of folders, and of name lists, that one session removes.
const SWEPT_MAX: usize = 100;
/// The maximum number of lost file names in the note for the model.
const NAMES_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 200;

/// The temporary folder of a session. It is created when it is first needed.
#[derive(Clone, Debug)]
pub(crate) struct TempFolder {
    path: PathBuf,
    /// The file with the names of its contents.
    listing: Option<PathBuf>,
}

impl TempFolder {
    /// Returns the folder of this process for a session.
    pub(crate) fn new(session: &str, state: Option<&Path>) -> TempFolder {
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().unwrap_or(parent);
        // A second process that resumes a running session has its own folder to remove.
        let path = parent.join(format!("{NAME_PREFIX}{session}-{:x}", std::process::id()));
        TempFolder { path, listing: state.map(|state| temp_listing(state, session)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mapping of session paths, if `/tmp` is this folder except for these paths of the host.
    /// Without mounts every path is mapped to itself.
    pub(crate) fn path_table(&self, host: impl IntoIterator<Item = PathBuf>) -> PathTable {
        let table = PathTable::new(PREFIX, &self.path, host, |folder| {
            processes::can_be_full() && haft_sandbox::make_private(folder).is_ok()
        });
        let room = haft_sandbox::TempRoom::new(&self.path);
        table.with_room(move |bytes| room.check(bytes))
    }

    /// Removes the folder, and stores the names of its contents.
    pub(crate) fn remove(&self) {
        let names = names_in(&self.path);
        // The folder belongs to this session alone, and no process uses it any more.
        let _ = std::fs::remove_dir_all(&self.path);
        let Some(listing) = self.listing.as_ref().filter(|_| !names.is_empty()) else { return };
        let Some(folder) = listing.parent() else { return };
        let _ = std::fs::create_dir_all(folder);
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(SWEPT_MAX) {
            if is_older(&entry, LISTING_KEPT) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let _ = std::fs::write(listing, names.join("\n"));
    }

    /// Removes folders of this user's sessions that have ended.
    pub(crate) fn sweep_others(&self) {
        let entries = self.path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
        let left = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| owner_is_gone(entry, NAME_PREFIX) && is_older(entry, LEFT_BEHIND_AFTER));
        for entry in left.take(SWEPT_MAX) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether a path is in the location where sessions have their own folder.
pub(crate) fn is_below_temp(path: &Path) -> bool {
    path != Path::new(PREFIX) && path.starts_with(PREFIX)
}

/// Returns a note for the model about the files in the session's `/tmp` that were removed with the earlier
/// process; `None` if there were none.
pub(crate) fn describe_lost(session: &str, state: &Path) -> Option<String> {
    let listing = temp_listing(state, session);
    let kept = std::fs::read_to_string(&listing).unwrap_or_default();
    let mut names: Vec<String> = kept.lines().map(str::to_owned).collect();
    // A killed session has stored no names.
    let parent = std::env::temp_dir();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if owner_is_gone(&entry, &format!("{NAME_PREFIX}{session}-")) {
            names.extend(names_in(&entry.path()));
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let _ = std::fs::remove_file(&listing);
    names.sort();
    names.dedup();
    let left_out = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<String> =
        names.iter().take(NAMES_MAX).map(|name| format!("`{PREFIX}/{}`", one_line(name))).collect();
    let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
    (!shown.is_empty()).then(|| {
        format!(
            "`{PREFIX}` is empty again. What was there no longer exists: {}{more}. Make again what you need of it.",
            shown.join(", ")
        )
    })
}

fn temp_listing(state: &Path, session: &str) -> PathBuf {
    processes::caches_dir(state).join("temp").join(session)
}

/// Returns the names directly in a folder. Folders that were created for programs are listed only if they
/// aren't empty.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_empty = |path: &Path| {
        path.symlink_metadata().is_ok_and(|found| found.is_dir())
            && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
    };
    let names = entries.filter(|entry| !is_empty(&entry.path())).take(10 * NAMES_MAX);
    let name = |entry: std::fs::DirEntry| one_line(&entry.file_name().to_string_lossy());
    names.map(|entry| truncate_chars(&name(entry), NAME_CHARS_MAX).to_owned()).collect()
}

fn is_older(entry: &std::fs::DirEntry, age: Duration) -> bool {
    let modified = entry.metadata().ok().and_then(|found| found.modified().ok());
    modified.and_then(|modified| modified.elapsed().ok()).is_some_and(|elapsed| elapsed > age)
}

/// Returns whether this is a folder of this user with this name prefix, whose process has ended.
fn owner_is_gone(entry: &std::fs::DirEntry, prefix: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let name = entry.file_name();
    let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.rsplit('-').next());
    let process = number.and_then(|number| u32::from_str_radix(number, 16).ok());
    let Some(process) = process.filter(|process| !Path::new("/proc").join(process.to_string()).exists())
    else {
        return false;
    };
    let own = rustix::process::getuid().as_raw();
    process != 0 && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own)
}
