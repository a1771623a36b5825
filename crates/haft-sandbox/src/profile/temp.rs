//! The temporary folder of a session on the host: mount points in it, and its size.
//!
//! A host file below `/tmp` that is shown to one call needs a mount point in this folder. The mount point is
//! removed after the call: otherwise it would look like the session's own file.
//!
//! No file system bounds a folder, so its size is measured while commands run, and when one has ended. A
//! command that makes it larger than it may be is killed. A command that begins when the folder is already
//! too large may run as long as the folder doesn't grow, because it may remove something. File tools ask
//! before they write.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use haft::ports::{ConfinementRefusal, KillReason, ProcessRequest};
use haft::sync::lock;
use rustix::fs::{Mode, OFlags};

use super::{limits, request_address};
use crate::watch::KeeperCheck;

pub(super) struct TempFolder {
    path: PathBuf,
    bytes_max: u64,
    state: Mutex<TempFolderState>,
}

#[derive(Default)]
struct TempFolderState {
    mount_points: Vec<MountPoint>,
    /// The size that was measured last, and the free space at that time.
    measured_bytes: u64,
    free_bytes: Option<u64>,
    /// The size that was known when a running child began.
    began_bytes: HashMap<usize, u64>,
}

/// A file or folder that was made to mount something on it, with the requests that use it.
struct MountPoint {
    path: PathBuf,
    users: Vec<usize>,
}

impl TempFolder {
    pub(super) fn new(path: &Path, bytes_max: u64) -> TempFolder {
        TempFolder { path: path.to_owned(), bytes_max, state: Mutex::default() }
    }

    /// A child is about to begin. Of one before it that never began nothing is left.
    pub(super) fn begin(&self, request: &ProcessRequest) {
        self.release(request);
        let mut state = lock(&self.state);
        if state.measured_bytes > self.bytes_max {
            // Only the whole size tells growth from what was there.
            self.measure(&mut state, u64::MAX);
        }
        let bytes = state.measured_bytes;
        state.began_bytes.insert(request_address(request), bytes);
    }

    /// Makes a mount point. One that doesn't last is removed when the last child that uses it has ended.
    pub(super) fn make_mount_point(
        &self,
        request: &ProcessRequest,
        inside: &Path,
        is_file: bool,
        lasts: bool,
    ) -> io::Result<()> {
        let mut state = lock(&self.state);
        let made = make_room(&self.path, inside, is_file)?;
        if lasts {
            return Ok(());
        }
        state.mount_points.extend(made.into_iter().map(|path| MountPoint { path, users: Vec::new() }));
        for point in state.mount_points.iter_mut().filter(|point| inside.starts_with(&point.path)) {
            point.users.push(request_address(request));
        }
        Ok(())
    }

    /// A child has ended.
    pub(super) fn finish(&self, request: &ProcessRequest) -> Option<ConfinementRefusal> {
        self.release(request);
        let mut state = lock(&self.state);
        let began = state.began_bytes.remove(&request_address(request))?;
        let shrunk =
            state.free_bytes.is_none_or(|before| free_bytes(&self.path) + limits::TEMP_GROWTH_BYTES < before);
        if !shrunk {
            return None;
        }
        self.measure(&mut state, self.bytes_max.max(began));
        let bytes = state.measured_bytes;
        (bytes > self.bytes_max.max(began)).then(|| self.too_large(bytes, "remove what isn't needed"))
    }

    /// Measures the folder while a child runs.
    pub(super) fn check(&self, request: &ProcessRequest) -> KeeperCheck {
        let mut state = lock(&self.state);
        let Some(began) = state.began_bytes.get(&request_address(request)).copied() else {
            return KeeperCheck::default();
        };
        let start = Instant::now();
        self.measure(&mut state, self.bytes_max.max(began));
        let pause = (start.elapsed() * limits::TEMP_MEASURE_SHARE).max(limits::TEMP_MEASURE_EVERY);
        let bytes = state.measured_bytes;
        let words = "so commands that made it larger were killed; remove what isn't needed";
        let stop = (bytes > self.bytes_max.max(began))
            .then(|| (KillReason::TempTooLarge, self.too_large(bytes, words)));
        KeeperCheck { next: Some(pause), stop }
    }

    fn too_large(&self, bytes: u64, so: &str) -> ConfinementRefusal {
        const MIB: u64 = 1024 * 1024;
        let done = format!(
            "it has at least {} MiB, more than the {} MiB that it may have, {so}",
            bytes / MIB,
            self.bytes_max / MIB
        );
        ConfinementRefusal::Changed { path: "/tmp".into(), done }
    }

    /// Measures the folder; anything above `counted_max` is enough to know.
    fn measure(&self, state: &mut TempFolderState, counted_max: u64) {
        state.free_bytes = Some(free_bytes(&self.path));
        state.measured_bytes = folder_size(&self.path, counted_max);
    }

    fn release(&self, request: &ProcessRequest) {
        let mut state = lock(&self.state);
        let own = request_address(request);
        state.mount_points.iter_mut().for_each(|point| point.users.retain(|user| *user != own));
        let (unused, used) =
            std::mem::take(&mut state.mount_points).into_iter().partition(|point| point.users.is_empty());
        state.mount_points = used;
        let unused: Vec<MountPoint> = unused;
        // What lies deeper was made later.
        for point in unused.iter().rev() {
            let path = self.path.join(&point.path);
            // What a command has put there is its own.
            let _ = match path.symlink_metadata() {
                Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(&path),
                Ok(found) if found.is_dir() => fs::remove_dir(&path),
                _ => Ok(()),
            };
        }
    }
}

/// Says whether a file tool may write to the temporary folder of a session.
///
/// ```
/// let temp = tempfile::tempdir()?;
/// let room = haft_sandbox::TempRoom::new(temp.path());
/// assert!(room.check(1024).is_ok());
/// assert!(room.check(u64::MAX).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TempRoom {
    path: PathBuf,
    bytes_max: u64,
    /// The size, as far as it is known, and the free space when it was measured.
    known: Mutex<Option<(u64, u64)>>,
}

impl TempRoom {
    /// The room in this folder, which may have as much in it as
    /// [`ProfileConfig::temp_bytes_max`](super::ProfileConfig) says by default.
    pub fn new(path: impl Into<PathBuf>) -> TempRoom {
        TempRoom { path: path.into(), bytes_max: limits::TEMP_BYTES_MAX, known: Mutex::default() }
    }

    /// Checks whether so many bytes may be added. They count as added then. The folder is measured only where
    /// that may matter.
    ///
    /// # Errors
    /// There is no room: how much there is, and what to do.
    pub fn check(&self, more: u64) -> Result<(), String> {
        const MIB: u64 = 1024 * 1024;
        let free = free_bytes(&self.path);
        let mut known = lock(&self.known);
        let fits = |bytes: u64| bytes.checked_add(more).is_some_and(|bytes| bytes <= self.bytes_max);
        let is_current = |&(bytes, before): &(u64, u64)| {
            free.saturating_add(limits::TEMP_GROWTH_BYTES) >= before && fits(bytes)
        };
        let (bytes, before) = match known.filter(is_current) {
            Some(known) => known,
            None => (folder_size(&self.path, self.bytes_max), free),
        };
        *known = Some((if fits(bytes) { bytes + more } else { bytes }, before));
        if fits(bytes) {
            return Ok(());
        }
        Err(format!(
            "the session's `/tmp` has {} MiB and may have {} MiB, so there is no room for {more} bytes more; remove what isn't \
             needed, or write to a working directory",
            bytes / MIB,
            self.bytes_max / MIB
        ))
    }
}

fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |found| found.f_bavail * found.f_frsize)
}

/// What lies in a folder takes, an entry at least a block; counted as far as this.
fn folder_size(folder: &Path, bytes_max: u64) -> u64 {
    let (mut bytes, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            bytes += (found.blocks() * 512).max(limits::TEMP_ENTRY_BYTES);
            if found.is_dir() {
                folders.push(entry.path());
            }
            if bytes > bytes_max {
                return bytes;
            }
        }
    }
    bytes
}

/// Makes a folder that only its user may enter, or sees to it that one is so. Gives its real path.
///
/// # Errors
/// It can't be made, or what is there isn't a folder of this user.
pub fn make_private(folder: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = folder.symlink_metadata()?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("what is there isn't a folder of this user"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    folder.canonicalize()
}

/// Makes a folder or an empty file beneath a folder, and the folders between, without following links:
/// children can write there. Gives what wasn't there, the outer ones first.
fn make_room(folder: &Path, inside: &Path, is_file: bool) -> std::io::Result<Vec<PathBuf>> {
    use rustix::fs::{mkdirat, openat};
    use rustix::io::Errno;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(folder, OFlags::PATH | flags, Mode::empty())?;
    let mut names = inside.iter().peekable();
    let (mut path, mut made) = (PathBuf::new(), Vec::new());
    while let Some(name) = names.next() {
        path.push(name);
        if is_file && names.peek().is_none() {
            let open = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY | OFlags::NONBLOCK;
            let create = OFlags::CREATE | OFlags::EXCL;
            match openat(&at, name, open | create, Mode::from_raw_mode(0o600)) {
                Ok(_) => made.push(path.clone()),
                Err(Errno::EXIST) => drop(openat(&at, name, open, Mode::empty())?),
                Err(errno) => return Err(errno.into()),
            }
            break;
        }
        match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => made.push(path.clone()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        at = openat(&at, name, OFlags::PATH | flags, Mode::empty())?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ProcessRequest {
        ProcessRequest::new(["true"], "/")
    }

    #[test]
    fn mount_points_last_as_long_as_they_are_used() {
        let dir = tempfile::tempdir().unwrap();
        let temp = TempFolder::new(dir.path(), 1 << 30);
        let (one, other) = (request(), request());
        temp.begin(&one);
        temp.begin(&other);
        fs::create_dir(dir.path().join("own")).unwrap();
        let make = |request: &ProcessRequest, path: &str, lasts: bool| {
            temp.make_mount_point(request, Path::new(path), true, lasts).unwrap();
        };
        make(&one, "a/file", false);
        make(&one, "own/file", false);
        make(&other, "a/file", false);
        make(&other, "a/other", false);
        make(&one, "lasting/file", true);
        let is_there = |path: &str| dir.path().join(path).exists();
        temp.finish(&one);
        assert!(is_there("a/file") && !is_there("own/file") && is_there("own"));
        fs::write(dir.path().join("a/other"), "of a command").unwrap();
        temp.finish(&other);
        assert!(!is_there("a/file") && is_there("a/other") && is_there("lasting/file"));
    }

    /// However short it was.
    #[test]
    fn what_a_command_has_left_is_measured_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let temp = TempFolder::new(dir.path(), 100 * 4096);
        let (before, after) = (request(), request());
        temp.begin(&before);
        fs::write(dir.path().join("large"), vec![1; 200 * 4096]).unwrap();
        let Some(ConfinementRefusal::Changed { done, .. }) = temp.finish(&before) else { panic!() };
        assert!(done.ends_with("remove what isn't needed"), "{done}");
        temp.begin(&after);
        assert_eq!(temp.finish(&after), None, "it is reported once");
    }

    #[test]
    fn file_tools_have_the_room_that_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let room = TempRoom { bytes_max: 100 * 4096, ..TempRoom::new(dir.path()) };
        assert_eq!(room.check(60 * 4096), Ok(()));
        // What was not written after all doesn't count.
        assert_eq!(room.check(60 * 4096), Ok(()));
        fs::write(dir.path().join("of a command"), vec![1; 60 * 4096]).unwrap();
        let refused = room.check(60 * 4096).unwrap_err();
        assert!(refused.contains("no room for 245760 bytes more"), "{refused}");
        assert_eq!(room.check(30 * 4096), Ok(()));
        fs::remove_file(dir.path().join("of a command")).unwrap();
        assert_eq!(room.check(90 * 4096), Ok(()));
    }

    #[test]
    fn only_what_grows_above_the_bound_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let temp = TempFolder::new(dir.path(), 100 * 4096);
        let (before, after) = (request(), request());
        temp.begin(&before);
        assert_eq!(temp.check(&before).stop, None);
        fs::write(dir.path().join("large"), vec![1; 200 * 4096]).unwrap();
        let stop = temp.check(&before).stop;
        assert!(
            matches!(stop, Some((KillReason::TempTooLarge, ConfinementRefusal::Changed { .. }))),
            "{stop:?}"
        );
        temp.begin(&after);
        assert_eq!(temp.check(&after).stop, None, "it may be about to remove something");
        fs::write(dir.path().join("more"), vec![1; 4096]).unwrap();
        assert!(temp.check(&after).stop.is_some());
        fs::remove_file(dir.path().join("large")).unwrap();
        assert_eq!(temp.check(&after).stop, None);
    }
}
