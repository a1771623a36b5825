//! The file system of this machine, opened only through what was granted.
//!
//! There is no state and no cache: a descriptor of a root that is kept would go on naming a directory that
//! has been moved away. Every operation finds its way anew, in up to three steps:
//!
//! 1. If a root covers the path as written, the path is opened following no link (`nolink`). This is nearly
//!    every operation, and one system call.
//! 2. If there was a link and the root is a subtree, the path is opened beneath the root's descriptor; the
//!    kernel follows links that stay inside and refuses those that do not.
//! 3. If that was refused, or no root covers the path as written, or it contains `..`: the path is resolved,
//!    a root is looked for that covers the *real* path, and that is opened following no link. This is for
//!    absolute links into a root (virtual environments, nix) and for roots that are reached through a link.
//!    When a link has appeared between resolving and opening, the step is repeated a bounded number of times.
//!
//! Whatever changes something takes step 3 only, down to the parent directory, and then works on names in
//! that directory's descriptor.
//!
//! Waiting: metadata and small reads run on the calling task. Large reads, large directories and everything
//! that waits for the disk (a write ends with `fsync`) go to tokio's blocking threads, if there is a runtime.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haft_scheduler::sync::lock;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::{Errno, pread};

use super::error::{FileError, FileErrorKind, display_path};
use super::nolink::{self, OpenMethod, is_dir, is_link};
use super::replace::{ReplaceTarget, remove_file, rename_entry, replace_file};
use super::resolve::{FileId, RealPath, ResolveError, ResolveErrorKind};
use super::resolve::{on_procfs, resolve_entry_with, resolve_read_with, resolve_with};
use super::tree::LocalDir;
use super::{
    DirEntry, FileKind, FileMetadata, Files, GrantedAccess, HiddenPaths, OpenDir, OpenFile, PathTable,
    RequiredAccess, RootExtent, WriteMode, WriteOutcome,
};
use crate::future::BoxFuture;
use crate::limits;

/// The file system of this machine.
#[derive(Clone, Debug, Default)]
pub struct DirFiles {
    kernel: OpenMethod,
    paths: PathTable,
}

impl DirFiles {
    /// The file system of this machine.
    pub fn new() -> DirFiles {
        DirFiles::default()
    }

    /// The same for a session whose paths lie where this says.
    #[must_use]
    pub fn with_paths(self, paths: PathTable) -> DirFiles {
        DirFiles { paths, ..self }
    }

    #[cfg(test)]
    pub(crate) fn walking() -> DirFiles {
        DirFiles { kernel: OpenMethod::Walk, ..DirFiles::default() }
    }
}

impl Files for DirFiles {
    fn resolve(&self, path: &Path) -> Result<RealPath, ResolveError> {
        resolve_read_with(self.kernel, &self.paths, Path::new("/"), path)
    }

    fn open<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenFile>, FileError>> {
        Box::pin(async move {
            let (file, has_other_names) = self.open_file(access, path)?;
            if let Some(hidden) = access.hidden.clone().filter(|_| has_other_names) {
                let (path, id) = (path.to_owned(), file.metadata.id);
                offload_work(move || refuse_hard_link(&hidden, id, &path)).await?;
            }
            Ok(Box::new(file) as Box<dyn OpenFile>)
        })
    }

    fn metadata<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<FileMetadata, FileError>> {
        Box::pin(async move {
            let file = self.reach(access, path, OFlags::PATH)?;
            stat_of(&file, path).map(|stat| metadata_from_stat(&stat))
        })
    }

    fn list<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Vec<DirEntry>, FileError>> {
        Box::pin(async move {
            let dir = self.reach(access, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
            // The size of a directory grows with its entries on every common file system.
            let large = metadata_from_stat(&stat_of(&dir, path)?).len > limits::INLINE_IO_BYTES as u64;
            let path = path.to_owned();
            if large {
                offload_work(move || read_entries(dir, &path)).await
            } else {
                read_entries(dir, &path)
            }
        })
    }

    fn open_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenDir>, FileError>> {
        Box::pin(async move {
            // A grant for one file says nothing about what is beneath a directory of that name.
            let read = access.roots(RequiredAccess::Read).filter(|root| root.extent == RootExtent::Subtree);
            let whole = GrantedAccess { read: read.cloned().collect(), ..GrantedAccess::default() };
            let dir = self.reach(&whole, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
            Ok(Box::new(LocalDir::new(dir, path, access.hidden.clone())) as Box<dyn OpenDir>)
        })
    }

    fn write<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        bytes: &'a [u8],
        how: WriteMode,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        let files = self.clone();
        let (access, path, bytes) = (access.clone(), path.to_owned(), bytes.to_vec());
        Box::pin(offload_change(move || {
            retry_until_settled(&path, || {
                let place = files.place(&access, RequiredAccess::Write, &path)?;
                let Some((dir, name)) = files.parent(&place, MissingParents::Create, &path)? else {
                    return Ok(None);
                };
                files.paths.check_room(&place.real, bytes.len())?;
                replace_file(&dir, &name, &path, &bytes, how.into())
            })
        }))
    }

    fn swap<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Bytes,
        new: Bytes,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        let files = self.clone();
        let (access, path) = (access.clone(), path.to_owned());
        Box::pin(offload_change(move || {
            retry_until_settled(&path, || {
                let place = files.place(&access, RequiredAccess::Write, &path)?;
                let Some((dir, name)) = files.parent(&place, MissingParents::Find, &path)? else {
                    return Ok(None);
                };
                files.paths.check_room(&place.real, new.len())?;
                replace_file(&dir, &name, &path, &new, ReplaceTarget::Content(&old))
            })
        }))
    }

    fn remove<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let files = self.clone();
        let (access, path, old) = (access.clone(), path.to_owned(), old.map(<[u8]>::to_vec));
        Box::pin(offload_change(move || {
            retry_until_settled(&path, || {
                let place = files.entry(&access, &path)?;
                let Some((dir, name)) = files.parent(&place, MissingParents::Find, &path)? else {
                    return Ok(None);
                };
                remove_file(&dir, &name, &path, old.as_deref()).map(Some)
            })
        }))
    }

    fn rename<'a>(
        &'a self,
        access: &'a GrantedAccess,
        from: &'a Path,
        to: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let files = self.clone();
        let (access, from, to) = (access.clone(), from.to_owned(), to.to_owned());
        Box::pin(offload_change(move || {
            let (from, to) = (&*from, &*to);
            retry_until_settled(from, || {
                let (old, new) = (files.entry(&access, from)?, files.entry(&access, to)?);
                let Some((old_dir, old_name)) = files.parent(&old, MissingParents::Find, from)? else {
                    return Ok(None);
                };
                let found = statat(&old_dir, &old_name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|errno| FileError::from_io("renamed", from, errno))?;
                if is_dir(&found) {
                    // The grant of one file must not move a whole tree.
                    for (place, path) in [(&old, from), (&new, to)] {
                        let whole = |root: &super::GrantedRoot| {
                            root.extent == RootExtent::Subtree && root.covers(&place.real)
                        };
                        if !access.roots(RequiredAccess::Write).any(whole) {
                            return Err(FileError::not_granted(&access, RequiredAccess::Write, path, false));
                        }
                    }
                }
                let Some((new_dir, new_name)) = files.parent(&new, MissingParents::Create, to)? else {
                    return Ok(None);
                };
                rename_entry((&old_dir, &old_name, from), (&new_dir, &new_name, to)).map(Some)
            })
        }))
    }

    fn create_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            retry_until_settled(path, || {
                let place = self.place(access, RequiredAccess::Write, path)?;
                let Some((dir, name)) = self.parent(&place, MissingParents::Create, path)? else {
                    return Ok(None);
                };
                mkdirat(&dir, &name, Mode::from_raw_mode(0o777))
                    .map_err(|errno| FileError::from_io("created", path, errno))
                    .map(Some)
            })
        })
    }
}

/// Refuses a file with several names, one of which is hidden.
pub(super) fn refuse_hard_link(hidden: &HiddenPaths, file: FileId, path: &Path) -> Result<(), FileError> {
    let Some(why) = hidden.refuses_hard_link(file) else { return Ok(()) };
    Err(FileError::new(FileErrorKind::NotGranted, format!("`{}` {why}", display_path(path))))
}

/// What to do about parent directories that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingParents {
    Find,
    Create,
}

impl DirFiles {
    /// Opens a file, and says whether it has other names.
    fn open_file(&self, access: &GrantedAccess, path: &Path) -> Result<(LocalFile, bool), FileError> {
        // Without NONBLOCK a pipe would wait here for its writer; without NOCTTY a terminal would become
        // ours.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.reach(access, path, flags)?;
        let stat = stat_of(&file, path)?;
        must_be_regular(&file, &stat, path)?;
        let metadata = metadata_from_stat(&stat);
        Ok((
            LocalFile { file: Arc::new(file), path: path.to_owned(), metadata, offset: 0 },
            stat.st_nlink > 1,
        ))
    }

    /// Opens what is at `path` for reading, by the three steps above.
    fn reach(&self, access: &GrantedAccess, path: &Path, flags: OFlags) -> Result<OwnedFd, FileError> {
        must_be_usable(path)?;
        if let Some(root) = access.root_for(RequiredAccess::Read, path).filter(|_| !self.paths.moves(path)) {
            match nolink::open_nolink(self.kernel, path, flags) {
                Ok(file) => return Ok(file),
                Err(Errno::LOOP) => {}
                Err(errno) => return Err(FileError::from_io("read", path, errno)),
            }
            if let (RootExtent::Subtree, OpenMethod::Openat2, Ok(relative)) =
                (root.extent, self.kernel, path.strip_prefix(&root.path))
                // The kernel would follow a symlink to where the session has a folder of its own.
                && !self.paths.moves_within(&root.path)
                && let Ok(file) = nolink::open_beneath(&root.path, relative, flags)
            {
                return Ok(file);
            }
        }
        retry_until_settled(path, || {
            let place = self.place(access, RequiredAccess::Read, path)?;
            match nolink::open_nolink(self.kernel, &place.real, flags) {
                Ok(file) => Ok(Some(file)),
                Err(Errno::LOOP) => Ok(None),
                Err(errno) => Err(FileError::from_io("read", path, errno)),
            }
        })
    }

    /// Resolves a path, following links, and finds a root that covers where it really leads.
    fn place(
        &self,
        access: &GrantedAccess,
        need: RequiredAccess,
        path: &Path,
    ) -> Result<RealPath, FileError> {
        must_be_usable(path)?;
        let root = Path::new("/");
        if need == RequiredAccess::Read
            && let Ok(found) = resolve_read_with(self.kernel, &self.paths, root, path)
            // A file that only the host has is there for the calls that may read it.
            && access.root_for(need, &found.real).is_some()
        {
            return Ok(found);
        }
        granted_path(access, need, path, resolve_with(self.kernel, &self.paths, root, path))
    }

    /// The same for the name itself: a link at the end is not followed.
    fn entry(&self, access: &GrantedAccess, path: &Path) -> Result<RealPath, FileError> {
        must_be_usable(path)?;
        granted_path(
            access,
            RequiredAccess::Write,
            path,
            resolve_entry_with(self.kernel, &self.paths, Path::new("/"), path),
        )
    }

    /// Opens the directory that holds a real path; none if a link has appeared on the way to it.
    fn parent(
        &self,
        place: &RealPath,
        parents: MissingParents,
        path: &Path,
    ) -> Result<Option<(OwnedFd, OsString)>, FileError> {
        let (Some(parent), Some(name)) = (place.real.parent(), place.real.file_name()) else {
            return Err(FileError::new(FileErrorKind::IsDirectory, "`/` is the root directory"));
        };
        // Readable, so that it can be synced; a directory that may be searched but not read works without.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let found = match nolink::open_nolink(self.kernel, parent, flags) {
            Err(Errno::ACCESS) => nolink::open_nolink(self.kernel, parent, OFlags::PATH | OFlags::DIRECTORY),
            Err(Errno::NOENT) if parents == MissingParents::Create => self.create_path(parent),
            found => found,
        };
        match found {
            Ok(dir) => Ok(Some((dir, name.to_owned()))),
            Err(Errno::LOOP) => Ok(None),
            Err(errno) => Err(FileError::from_io("reached", path, errno)),
        }
    }

    /// Creates the missing directories of a real path, each in the descriptor of the one before.
    fn create_path(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut existing = path;
        let mut at = loop {
            match nolink::open_nolink(self.kernel, existing, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(at) => break at,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            let (Some(name), Some(parent)) = (existing.file_name(), existing.parent()) else {
                return Err(Errno::NOENT);
            };
            missing.push(name);
            existing = parent;
        };
        for name in missing.into_iter().rev() {
            match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = match openat(&at, name, flags, Mode::empty()) {
                // Somebody put a link here since; the caller looks again.
                Err(Errno::NOTDIR) if is_link(&statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)?) => {
                    return Err(Errno::LOOP);
                }
                opened => opened?,
            };
        }
        Ok(at)
    }
}

/// Tries again while links appear between resolving and opening, a bounded number of times.
fn retry_until_settled<T>(
    path: &Path,
    mut attempt: impl FnMut() -> Result<Option<T>, FileError>,
) -> Result<T, FileError> {
    for _ in 0..limits::RESOLVE_TRIES_MAX {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    let text = format!("`{}` keeps changing while it is being opened; try again later", display_path(path));
    Err(FileError::new(FileErrorKind::Io, text))
}

fn must_be_usable(path: &Path) -> Result<(), FileError> {
    let wrong = if !path.is_absolute() {
        "is not an absolute path"
    } else if path.as_os_str().as_bytes().contains(&0) {
        "contains a NUL byte"
    } else {
        return Ok(());
    };
    Err(FileError::new(FileErrorKind::NotFound, format!("`{}` {wrong}", display_path(path))))
}

fn granted_path(
    access: &GrantedAccess,
    need: RequiredAccess,
    path: &Path,
    resolved: Result<RealPath, ResolveError>,
) -> Result<RealPath, FileError> {
    match resolved {
        Ok(place) if access.root_for(need, &place.real).is_some() => Ok(place),
        Ok(place) => {
            // A path that is covered as written got out by a link.
            let by_link = access.root_for(need, &place.given).is_some();
            Err(FileError::not_granted(access, need, path, by_link))
        }
        // What went wrong outside is nobody's business in here.
        Err(error) if access.root_for(need, &error.at).is_none() => {
            Err(FileError::not_granted(access, need, path, false))
        }
        Err(error) => {
            let kind = match error.kind {
                ResolveErrorKind::NotADirectory => FileErrorKind::NotADirectory,
                ResolveErrorKind::MagicLink => FileErrorKind::NotGranted,
                _ => FileErrorKind::Io,
            };
            Err(FileError::new(kind, error.to_string()).with_source(std::io::Error::other(error)))
        }
    }
}

/// Refuses everything but regular files that are what they say.
pub(super) fn must_be_regular(file: &OwnedFd, stat: &Stat, path: &Path) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => {
            let text = format!("`{}` is a directory, not a file; list it instead", display_path(path));
            return Err(FileError::new(FileErrorKind::IsDirectory, text));
        }
        FileType::Fifo => return Err(not_a_file(path, "a pipe")),
        FileType::Socket => return Err(not_a_file(path, "a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => return Err(not_a_file(path, "a device")),
        _ => return Err(not_a_file(path, "of an unknown kind")),
    }
    // `/proc/PID/mem` and `/proc/PID/environ` call themselves regular files of length 0. They are the memory
    // and the secrets of processes, our own among them.
    let procfs =
        stat.st_size == 0 && on_procfs(file).map_err(|errno| FileError::from_io("read", path, errno))?;
    if procfs { Err(not_a_file(path, "a view of the kernel")) } else { Ok(()) }
}

fn not_a_file(path: &Path, what: &str) -> FileError {
    let text = format!("`{}` is {what}; only regular files can be read", display_path(path));
    FileError::new(FileErrorKind::NotAFile, text)
}

fn stat_of(file: &OwnedFd, path: &Path) -> Result<Stat, FileError> {
    fstat(file).map_err(|errno| FileError::from_io("read", path, errno))
}

pub(super) fn metadata_from_stat(stat: &Stat) -> FileMetadata {
    FileMetadata {
        kind: file_kind(FileType::from_raw_mode(stat.st_mode)),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified: modified_time(stat),
        id: FileId::from_stat(stat),
        mode: Some(Mode::from_raw_mode(stat.st_mode).bits() & 0o777),
    }
}

#[expect(clippy::unnecessary_cast, reason = "the fields have other widths on other architectures")]
fn modified_time(stat: &Stat) -> Option<SystemTime> {
    let (seconds, nanos) = (stat.st_mtime as i64, stat.st_mtime_nsec as u64);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = SystemTime::UNIX_EPOCH;
    let base = if seconds < 0 { base.checked_sub(whole) } else { base.checked_add(whole) };
    base?.checked_add(Duration::from_nanos(nanos))
}

pub(super) fn file_kind(of: FileType) -> FileKind {
    match of {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn read_entries(dir: OwnedFd, path: &Path) -> Result<Vec<DirEntry>, FileError> {
    let fail = |errno| FileError::from_io("listed", path, errno);
    let mut entries = Vec::new();
    let mut stream = Dir::new(dir).map_err(fail)?;
    while let Some(entry) = stream.read() {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == limits::LIST_ENTRIES_MAX {
            let text = format!("`{}` has more than {} entries", display_path(path), limits::LIST_ENTRIES_MAX);
            return Err(FileError::new(FileErrorKind::TooLarge, text));
        }
        let kind = match entry.file_type() {
            // Some file systems don't say; an entry that has vanished since is left out.
            FileType::Unknown => {
                let dir = stream.fd().map_err(fail)?;
                match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => file_kind(FileType::from_raw_mode(stat.st_mode)),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(fail(errno)),
                }
            }
            known => file_kind(known),
        };
        entries.push(DirEntry { name: OsString::from_vec(name.to_bytes().to_vec()), kind });
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// How long a change of files that has begun is waited for when its call is given up. It can't be stopped in
/// the middle, and a disk that doesn't answer must not hold up everything else.
const CHANGE_WAIT: Duration = Duration::from_secs(1);

/// Reads on a thread for that, or right here without a runtime or a thread.
///
/// # Cancel safety
/// Work that has not begun is not done when the future is dropped.
async fn offload_work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    offload_with_wait(work, Duration::ZERO).await
}

/// Changes files on a thread for that, or right here without a runtime or a thread.
///
/// # Cancel safety
/// A change that has not begun is not made when the future is dropped. One that has begun is waited for, so
/// that nothing changes after the call has its result.
async fn offload_change<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    offload_with_wait(work, CHANGE_WAIT).await
}

async fn offload_with_wait<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    wait: Duration,
) -> Result<T, FileError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    let (work, theirs) = share_work(work);
    let (tell, result) = sync_channel(1);
    let offloaded = OffloadedWork { work, result, wait };
    // The runtime panics where the machine gives it no thread, and keeps the work for whoever gets one later.
    // So it is taken back: what was said to have failed must not be done after all.
    let begin = || {
        runtime.spawn_blocking(move || {
            let answer = take_work(&theirs).map(|work| work());
            answer.is_some_and(|answer| tell.send(answer).is_ok())
        })
    };
    let gone = || FileError::new(FileErrorKind::Io, "the runtime is shutting down");
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(begin)) {
        Ok(begun) => match begun.await {
            Ok(_) => offloaded.result.recv().map_err(|_| gone())?,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(gone()),
        },
        Err(_) => match take_work(&offloaded.work) {
            Some(work) => work(),
            // Somebody got a thread in the meantime and is at it.
            None => offloaded.result.recv().map_err(|_| gone())?,
        },
    }
}

/// Work on another thread, as the future that waits for it sees it.
struct OffloadedWork<W, T> {
    work: SharedWork<W>,
    result: Receiver<T>,
    /// How long dropping this waits for work that has begun.
    wait: Duration,
}

impl<W, T> Drop for OffloadedWork<W, T> {
    fn drop(&mut self) {
        // After the result there is no sender any more, so this waits for nothing.
        if take_work(&self.work).is_none() && !self.wait.is_zero() {
            let _ = self.result.recv_timeout(self.wait);
        }
    }
}

/// Work that is done once, by the first who takes it.
type SharedWork<W> = Arc<std::sync::Mutex<Option<W>>>;

fn share_work<W>(work: W) -> (SharedWork<W>, SharedWork<W>) {
    let shared = Arc::new(std::sync::Mutex::new(Some(work)));
    (Arc::clone(&shared), shared)
}

fn take_work<W>(work: &SharedWork<W>) -> Option<W> {
    lock(work).take()
}

struct LocalFile {
    file: Arc<OwnedFd>,
    path: PathBuf,
    metadata: FileMetadata,
    offset: u64,
}

impl OpenFile for LocalFile {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async move {
            // No more memory than the rest of the file needs, and a little, to notice that it grew.
            let rest = self.metadata.len.saturating_sub(self.offset).min(limits::FILE_BYTES_MAX) as usize;
            let room = max.min(rest + READ_SLACK_BYTES);
            let bytes = if room > limits::INLINE_IO_BYTES {
                let (file, path, offset) = (Arc::clone(&self.file), self.path.clone(), self.offset);
                offload_work(move || read_at(&file, &path, offset, room)).await?
            } else {
                read_at(&self.file, &self.path, self.offset, room)?
            };
            self.offset += bytes.len() as u64;
            Ok(bytes)
        })
    }

    fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }
}

/// How much room a read keeps beyond the length that the file had when it was opened.
const READ_SLACK_BYTES: usize = 512;

fn read_at(file: &OwnedFd, path: &Path, offset: u64, room: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::with_capacity(room);
    // Offsets that the kernel cannot express are beyond the end of any file.
    if room == 0 || offset > i64::MAX as u64 {
        return Ok(bytes);
    }
    rustix::io::retry_on_intr(|| pread(file, spare_capacity(&mut bytes), offset))
        .map_err(|errno| FileError::from_io("read", path, errno))?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
