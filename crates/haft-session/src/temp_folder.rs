//! The folder that the children of a session see at `/tmp`.
//!
//! It is a folder of the host that no other user may enter, with the id of the session and of its process in its name. It is
//! removed when the session ends. The names of what was in it are kept, so that the model can be told when the session
//! continues. Folders of sessions that were killed are removed a day later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft::files::PathTable;
use haft::text::truncate_chars;

use crate::processes;
use crate::text::one_line;

/// Where children see the folder.
const PREFIX: &str = "/tmp";
/// Begins the name of the folder, which ends with the number of its process.
const NAME_PREFIX: &str = "haft-";
/// How old such a folder is before it counts as left behind: its session was killed.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the names of what was in a folder are kept.
const LISTING_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many of either one session removes.
const SWEPT_MAX: usize = 100;
/// Maximum number of lost file names in the note for the model.
const NAMES_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 200;

/// The temporary folder of a session. It is made when it is first needed.
#[derive(Clone, Debug)]
pub(crate) struct TempFolder {
    path: PathBuf,
    /// Where the names of what was in it are kept.
    listing: Option<PathBuf>,
}

impl TempFolder {
    /// The folder of this process for a session.
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

    /// Where paths of the session lie, if `/tmp` is this folder but for these paths of the host. Without mounts every path
    /// lies where it says.
    pub(crate) fn path_table(&self, host: impl IntoIterator<Item = PathBuf>) -> PathTable {
        let table = PathTable::new(PREFIX, &self.path, host, |folder| {
            processes::can_be_full() && haft_sandbox::make_private(folder).is_ok()
        });
        let room = haft_sandbox::TempRoom::new(&self.path);
        table.with_room(move |bytes| room.check(bytes))
    }

    /// Removes the folder, and keeps the names of what was in it.
    pub(crate) fn remove(&self) {
        let names = names_in(&self.path);
        // Of this session alone, and nothing runs any more that could use it.
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

    /// Removes folders of this user's sessions that are gone.
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

/// Whether a path lies where sessions have a folder of their own.
pub(crate) fn is_below_temp(path: &Path) -> bool {
    path != Path::new(PREFIX) && path.starts_with(PREFIX)
}

/// Tells the model which files of a session's `/tmp` went with its earlier process; nothing if there were none.
pub(crate) fn describe_lost(session: &str, state: &Path) -> Option<String> {
    let listing = temp_listing(state, session);
    let kept = std::fs::read_to_string(&listing).unwrap_or_default();
    let mut names: Vec<String> = kept.lines().map(str::to_owned).collect();
    // A session that was killed has kept none.
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

/// The names of what lies directly in a folder; of folders that programs were given in it, only if they hold something.
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

/// Whether this is a folder of this user's with a name that begins so, of a process that has ended.
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
