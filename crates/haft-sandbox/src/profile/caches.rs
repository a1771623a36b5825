//! Caches of build tools: the user's, and over it what the commands of one workspace have added.
//!
//! A cache that every workspace writes is a delayed way out: what one poisons, the user's next build runs. So
//! a child sees the user's cache below and writes to a copy that belongs to its workspace. Copies are kept
//! between sessions, up to [`limits::CACHES_BYTES_MAX`] together; when a session starts the oldest that
//! nobody uses are removed.
//!
//! An overlay is mounted once for a session and seen by all its children: a second mount with the same
//! working folder would silently be read-only, and clear what the first has there. So each session has
//! working folders of its own, and sessions of one workspace share only the folder of what was added, which
//! the kernel allows. The price is that a child may not see what the user's own programs add to the cache
//! below while the session lasts; then it fetches that again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use super::{display_path, limits, make_private};
use crate::mount_plan::{BindSource, MountEntry};

/// Caches in a home folder that every workspace has a copy of, also where the user has none. Beside them lie
/// credentials and logs, so each is named as narrowly as can be.
pub(super) const USUAL: [&str; 14] = [
    ".cache/go-build",
    ".cache/pip",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".ccache",
    ".gradle/caches",
    ".gradle/wrapper",
    ".m2/repository",
    ".m2/wrapper",
    ".npm/_cacache",
    "go/pkg/mod",
    "go/pkg/sumdb",
];

/// Those of which there is one only where the user has it.
pub(super) const OTHER: [&str; 40] = [
    ".bun/install/cache",
    ".bundle/cache",
    ".cabal/packages",
    ".cache/Cypress",
    ".cache/bazelisk",
    ".cache/ccache",
    ".cache/composer",
    ".cache/coursier",
    ".cache/deno/deps",
    ".cache/deno/gen",
    ".cache/deno/npm",
    ".cache/deno/remote",
    ".cache/electron",
    ".cache/electron-builder",
    ".cache/fontconfig",
    ".cache/golangci-lint",
    ".cache/ms-playwright",
    ".cache/node",
    ".cache/node-gyp",
    ".cache/pnpm",
    ".cache/pre-commit",
    ".cache/puppeteer",
    ".cache/pypoetry/artifacts",
    ".cache/pypoetry/cache",
    ".cache/pypoetry/virtualenvs",
    ".cache/rust-analyzer",
    ".cache/sccache",
    ".cache/typescript",
    ".cache/virtualenv",
    ".cache/zig",
    ".composer/cache",
    ".gradle/jdks",
    ".gradle/native",
    ".ivy2/cache",
    ".konan",
    ".npm/_npx",
    ".nuget/packages",
    ".pub-cache/hosted",
    ".sbt/boot",
    ".yarn/berry/cache",
];

/// The copies of one workspace.
#[derive(Debug)]
pub(super) struct ToolCaches {
    folder: PathBuf,
    /// Locked while the session lives, so that no other removes them.
    _used: File,
    /// What this session's working folders are called.
    session: String,
}

impl ToolCaches {
    /// The copies of this workspace below a folder, after the oldest of others were removed if there was too
    /// much.
    pub(super) fn open(all: &Path, workspace: &Path) -> io::Result<(ToolCaches, Option<String>)> {
        let digest = Sha256::digest(workspace.as_os_str().as_encoded_bytes());
        let key: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = all.join(key);
        make_private(&folder)?;
        let used = use_stamp(&folder)?;
        if flock(&used, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Nobody else is here, so these are leftovers.
            for entry in fs::read_dir(&folder)?.flatten() {
                remove_workers(&entry.path());
            }
        }
        flock(&used, FlockOperation::NonBlockingLockShared)?;
        used.set_modified(SystemTime::now())?;
        let said = make_room(all, &folder);
        static SESSIONS: AtomicUsize = AtomicUsize::new(0);
        let session = format!("{}-{}", std::process::id(), SESSIONS.fetch_add(1, Ordering::Relaxed));
        Ok((ToolCaches { folder, _used: used, session }, said))
    }

    /// An empty folder of this session's, for the helper to mount something on.
    pub(super) fn work(&self, name: &str) -> io::Result<PathBuf> {
        let work = self.folder.join(name).join("work").join(&self.session);
        fs::create_dir_all(&work)?;
        Ok(work)
    }

    /// The part that shows one cache to who may change it.
    pub(super) fn part(&self, name: &str, lower: Option<PathBuf>, at: PathBuf) -> io::Result<MountEntry> {
        let name = name.replace('/', "-");
        let upper = self.folder.join(&name).join("upper");
        fs::create_dir_all(&upper)?;
        Ok(match lower {
            Some(lower) => MountEntry::Overlay { lower, upper, work: self.work(&name)?, at, writable: true },
            None => MountEntry::Bind { from: BindSource::Path(upper), at, writable: true },
        })
    }
}

impl Drop for ToolCaches {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let work = entry.path().join("work").join(&self.session);
            // Empty, as a rule; if not, whoever opens this next removes them.
            let _ = fs::remove_dir(work.join("work"));
            let _ = fs::remove_dir(work);
        }
    }
}

fn use_stamp(folder: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join("used"))
}

/// Removes the oldest copies while there are too many or they are too large. Says so.
fn make_room(all: &Path, own: &Path) -> Option<String> {
    let mut entries_left = limits::CACHES_ENTRIES_MAX;
    let mut kept: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(used) = path.join("used").metadata() else { continue };
        let size = folder_size(&path, &mut entries_left).unwrap_or(limits::CACHES_BYTES_MAX);
        kept.push((used.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, size));
    }
    kept.sort();
    let mut total: u64 = kept.iter().fold(0, |sum, (_, _, size)| sum.saturating_add(*size));
    let (mut count, mut removed) = (kept.len(), 0);
    let (large, many) = (total > limits::CACHES_BYTES_MAX, count > limits::CACHES_WORKSPACES_MAX);
    for (_, path, size) in kept {
        if total <= limits::CACHES_BYTES_MAX && count <= limits::CACHES_WORKSPACES_MAX {
            break;
        }
        if path != own && remove_cache(&path) {
            total = total.saturating_sub(size);
            count -= 1;
            removed += 1;
        }
    }
    let gib = limits::CACHES_BYTES_MAX >> 30;
    if removed > 0 {
        let workspaces = limits::CACHES_WORKSPACES_MAX;
        let why = match (large, many) {
            (true, true) => format!("all together may take {gib} GiB, and be of {workspaces} workspaces"),
            (true, false) => format!("all together may take {gib} GiB"),
            _ => format!("they are kept for the {workspaces} workspaces that were used last"),
        };
        let whose = if removed == 1 { "one other workspace" } else { &format!("{removed} other workspaces") };
        return Some(format!("private copies of build caches of {whose} were removed: {why}"));
    }
    (total > limits::CACHES_BYTES_MAX).then(|| {
        format!(
            "private copies of build caches take more than {gib} GiB, all in use; remove `{}` to free it",
            display_path(&all)
        )
    })
}

/// Removes the copies of one workspace, if no session uses them.
fn remove_cache(folder: &Path) -> bool {
    let free = || {
        let used = use_stamp(folder).ok()?;
        flock(&used, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(used)
    };
    let Some(_held) = free() else { return false };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        remove_workers(&entry.path());
    }
    fs::remove_dir_all(folder).is_ok()
}

/// Removes the working folders of one cache. The kernel leaves folders without permissions in them.
fn remove_workers(cache: &Path) {
    for entry in fs::read_dir(cache.join("work")).into_iter().flatten().flatten() {
        for inner in ["work", "index"] {
            let _ = fs::set_permissions(entry.path().join(inner), fs::Permissions::from_mode(0o700));
        }
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// What a folder takes on the disk; nothing if there are too many files to count.
pub(super) fn folder_size(folder: &Path, entries_left: &mut usize) -> Option<u64> {
    let (mut total, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            *entries_left = entries_left.checked_sub(1)?;
            let Ok(found) = entry.metadata() else { continue };
            total += found.blocks() * 512;
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_run_at_once_have_working_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let open = || ToolCaches::open(dir.path(), Path::new("/w")).unwrap().0;
        let work = |caches: &ToolCaches| {
            let part = caches.part(".npm", Some("/lower".into()), "/home/me/.npm".into()).unwrap();
            let MountEntry::Overlay { work, .. } = part else { panic!("it was an overlay") };
            assert!(work.is_dir());
            work
        };
        let (one, two) = (open(), open());
        let (first, second) = (work(&one), work(&two));
        assert_ne!(first, second);
        assert_eq!(first, work(&one), "a session keeps its own");
        // The kernel's.
        fs::create_dir(first.join("work")).unwrap();
        drop(one);
        assert!(!first.exists() && second.is_dir());
        fs::create_dir_all(second.join("work/left")).unwrap();
        drop(two);
        assert!(second.is_dir());
        open();
        assert!(!second.exists(), "leftovers go");
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let all = dir.path();
        for number in 0..limits::CACHES_WORKSPACES_MAX + 2 {
            let (caches, _) = ToolCaches::open(all, Path::new(&format!("/w/{number}"))).unwrap();
            caches.part(".npm", None, "/home/me/.npm".into()).unwrap();
            caches
                ._used
                .set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64))
                .unwrap();
        }
        let (held, said) = ToolCaches::open(all, Path::new("/w/0")).unwrap();
        let said = said.unwrap();
        let expected = "private copies of build caches of one other workspace were removed: they are kept for the 32 workspaces \
                        that were used last";
        assert_eq!(said, expected);
        assert_eq!(fs::read_dir(all).unwrap().count(), limits::CACHES_WORKSPACES_MAX);
        assert!(held.folder.is_dir());
        assert!(!remove_cache(&held.folder), "it is in use");
    }
}
