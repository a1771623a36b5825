//! Writing a file so that it is whole at every moment.
//!
//! The bytes go to a new file with a random name in the same directory, are synced, and then take the old
//! file's name in one step. A reader sees the old file or the new one; a crash leaves one of the two and at
//! worst a `.haft-….tmp` beside it. A file with several hard links is replaced under this name only: the
//! other names keep the old content. This is wanted, for a second name may lie outside of what was granted.
//!
//! The last step, taking the name, is done under a lock on the folder that every process of ours honours
//! (`flock` on its descriptor: no file is left behind, and it ends with the process that holds it). Whoever
//! has looked at the file before ([`ReplaceTarget::Content`]) has it compared under the same lock, so of two
//! that change it at the same time one is told. Where a folder can't be locked, as some network file systems
//! and folders that can't be read, the comparison is made all the same, and what is left open is the moment
//! between it and the renaming. Removing and renaming take the same lock.
//!
//! Everything here works on names in one directory descriptor, so nothing that happens to the path meanwhile
//! can lead the write elsewhere. The new file gets the owner, mode, extended attributes and access control
//! list of the old one ([`attributes`](super::attributes)); the caller is told what it could not get, and of
//! other names.

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    Access as Permission, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, accessat,
    fchown, flock, fstat, linkat, statat, unlinkat,
};
#[cfg(not(test))]
use rustix::fs::{fchmod, fsync, openat, renameat, renameat_with};
#[cfg(not(test))]
use rustix::io::write;
use rustix::io::{Errno, read};
use rustix::process::{Gid, Uid};

use super::attributes::keep_attributes;
use super::error::{FileError, FileErrorKind, display_path, io_error_text};
#[cfg(test)]
use super::replace_tests::{fchmod, fsync, openat, renameat, renameat_with, write};
use super::{WriteMode, WriteOutcome};
use crate::limits;

/// Between two tries for the lock of a folder.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// What may be there before.
#[derive(Clone, Copy)]
pub(super) enum ReplaceTarget<'a> {
    /// Nothing; a file that was there before gets the mode that it had.
    Nothing(Option<u32>),
    Anything,
    /// Exactly this.
    Content(&'a [u8]),
}

impl From<WriteMode> for ReplaceTarget<'_> {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::Create => ReplaceTarget::Nothing(None),
            WriteMode::CreateAs(mode) => ReplaceTarget::Nothing(Some(mode)),
            WriteMode::Replace => ReplaceTarget::Anything,
        }
    }
}

/// Writes `bytes` under `name` in `dir`; `path` is for messages. None if there is a link of that name.
pub(super) fn replace_file(
    dir: &OwnedFd,
    name: &OsStr,
    path: &Path,
    bytes: &[u8],
    over: ReplaceTarget<'_>,
) -> Result<Option<WriteOutcome>, FileError> {
    let fail = |errno| FileError::from_io("written", path, errno);
    let old = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) => Some(old),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(fail(errno)),
    };
    if let Some(old) = &old {
        match FileType::from_raw_mode(old.st_mode) {
            FileType::Symlink => return Ok(None),
            FileType::Directory => return Err(fail(Errno::ISDIR)),
            _ if matches!(over, ReplaceTarget::Nothing(_)) => return Err(fail(Errno::EXIST)),
            FileType::RegularFile => {}
            _ => {
                let text = format!(
                    "`{}` is a pipe, a socket or a device; only files can be written",
                    display_path(path)
                );
                return Err(FileError::new(FileErrorKind::NotAFile, text));
            }
        }
        // Renaming over a file asks nobody whether the file may be written; its owner may have said no. Where
        // nobody may write it, that is meant for those too whom the kernel does not ask.
        if Mode::from_raw_mode(old.st_mode).intersection(Mode::WUSR | Mode::WGRP | Mode::WOTH).is_empty() {
            let text =
                format!("`{}` is read-only: nobody may write it, as its mode says", display_path(path));
            return Err(FileError::new(FileErrorKind::Io, text));
        }
        if let Err(errno @ (Errno::ACCESS | Errno::ROFS)) =
            accessat(dir, name, Permission::WRITE_OK, AtFlags::EACCESS)
        {
            return Err(fail(errno));
        }
    }

    // What is another one by now needn't be written to be found out. Of a large file that is looked at once
    // only, under the lock: nearly always it is as it was.
    if let ReplaceTarget::Content(content) = over
        && content.len() <= limits::INLINE_IO_BYTES
        && !has_content(dir, name, content).map_err(fail)?
    {
        return Err(FileError::changed(path));
    }

    // A new file gets the mode that the kernel gives to any new file here; a replacement is private until it
    // has the mode of the old one.
    let mode = Mode::from_raw_mode(match (&old, over) {
        (Some(_), _) | (None, ReplaceTarget::Nothing(Some(_))) => 0o600,
        (None, _) => 0o666,
    });
    let mut temp = TempFile::create(dir, mode).map_err(fail)?;
    write_all(&temp.file, bytes).map_err(fail)?;
    let mut written = WriteOutcome { existed: old.is_some(), ..WriteOutcome::default() };
    match (&old, over) {
        (Some(old), _) => {
            written.other_names = other_names(old);
            written.lost_owner = !keep_mode(&temp.file, old).map_err(fail)?;
            written.lost_attributes = !keep_attributes(dir, name, &temp.file);
        }
        (None, ReplaceTarget::Nothing(Some(mode))) => {
            fchmod(&temp.file, Mode::from_raw_mode(mode & 0o777)).map_err(fail)?;
        }
        (None, _) => {}
    }
    fsync(&temp.file).map_err(fail)?;
    let lock = FolderLock::take(dir, path)?;
    match over {
        ReplaceTarget::Content(content) if !has_content(dir, name, content).map_err(fail)? => {
            return Err(FileError::changed(path));
        }
        ReplaceTarget::Content(_) | ReplaceTarget::Anything => {
            renameat(dir, &temp.name, dir, name).map_err(fail)?
        }
        ReplaceTarget::Nothing(_) => rename_file(dir, OsStr::new(&temp.name), dir, name).map_err(fail)?,
    }
    temp.placed = true;
    drop(lock);
    match fsync(dir) {
        // The file is in place. Some file systems cannot sync a directory (EINVAL), and a directory that may
        // not be read could only be opened as a path (EBADF).
        Ok(()) | Err(Errno::INVAL | Errno::BADF) => {}
        Err(errno) => {
            // It can be read already, so to say that nothing was written would be wrong.
            let (path, why) = (display_path(path), io_error_text(&errno.into()));
            let text = format!(
                "`{path}` was written, but whether it outlives a failure of the machine is not known: {why}"
            );
            return Err(FileError::new(FileErrorKind::Io, text).with_source(errno.into()));
        }
    }
    Ok(Some(written))
}

#[expect(clippy::unnecessary_cast, reason = "the field has other widths on other architectures")]
fn other_names(file: &Stat) -> u64 {
    (file.st_nlink as u64).saturating_sub(1)
}

/// Removes what has a name in `dir`: with `old`, only if it is a file that is still exactly that.
pub(super) fn remove_file(
    dir: &OwnedFd,
    name: &OsStr,
    path: &Path,
    old: Option<&[u8]>,
) -> Result<(), FileError> {
    let fail = |errno| FileError::from_io("removed", path, errno);
    let _lock = FolderLock::take(dir, path)?;
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
    let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    if let Some(old) = old
        && (is_dir || !has_content(dir, name, old).map_err(fail)?)
    {
        return Err(FileError::changed(path));
    }
    unlinkat(dir, name, if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() }).map_err(fail)
}

/// Gives what has a name in one folder a name in another, that nothing has.
///
/// Only the first folder is locked: whoever changes the file there either did it before, or finds it gone.
/// The new name needs no lock, as it is taken in one step or not at all.
pub(super) fn rename_entry(
    (old_dir, old_name, from): (&OwnedFd, &OsStr, &Path),
    (new_dir, new_name, to): (&OwnedFd, &OsStr, &Path),
) -> Result<(), FileError> {
    let _lock = FolderLock::take(old_dir, from)?;
    match rename_file(old_dir, old_name, new_dir, new_name) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => {
            let found = statat(new_dir, new_name, AtFlags::SYMLINK_NOFOLLOW);
            let is_dir = found.is_ok_and(|to| FileType::from_raw_mode(to.st_mode) == FileType::Directory);
            let why = if is_dir { Errno::ISDIR } else { Errno::EXIST };
            Err(FileError::from_io("replaced", to, why))
        }
        Err(errno) => Err(FileError::from_io("renamed", from, errno)),
    }
}

/// Renames without replacing anything.
fn rename_file(
    old_dir: &OwnedFd,
    old_name: &OsStr,
    new_dir: &OwnedFd,
    new_name: &OsStr,
) -> Result<(), Errno> {
    match renameat_with(old_dir, old_name, new_dir, new_name, RenameFlags::NOREPLACE) {
        // A file system without this flag can still refuse to make a second name.
        Err(Errno::INVAL | Errno::NOSYS) => {}
        renamed => return renamed,
    }
    match linkat(old_dir, old_name, new_dir, new_name, AtFlags::empty()) {
        Ok(()) => unlinkat(old_dir, old_name, AtFlags::empty()),
        // A folder has one name only; renamed over another one it fails unless that is empty.
        Err(Errno::PERM) => renameat(old_dir, old_name, new_dir, new_name),
        Err(errno) => Err(errno),
    }
}

/// Whether a file has exactly this content; one that is gone has not.
fn has_content(dir: &OwnedFd, name: &OsStr, content: &[u8]) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    if fstat(&file)?.st_size as u64 != content.len() as u64 {
        return Ok(false);
    }
    let mut left = content;
    let mut piece = vec![0; limits::INLINE_IO_BYTES.min(content.len() + 1)];
    loop {
        match read(&file, &mut piece[..]) {
            Ok(0) => return Ok(left.is_empty()),
            Ok(count) => match left.strip_prefix(&piece[..count]) {
                Some(rest) => left = rest,
                None => return Ok(false),
            },
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The right to give names in a folder, among those who ask for it; given back when it is dropped.
struct FolderLock<'a>(&'a OwnedFd);

impl<'a> FolderLock<'a> {
    fn take(dir: &'a OwnedFd, path: &Path) -> Result<Option<FolderLock<'a>>, FileError> {
        let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match flock(dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(FolderLock(dir))),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if start.elapsed() >= limits::FOLDER_LOCK_WAIT => {
                    let text = format!(
                        "`{}` was not changed: another process holds a lock on its folder; try again later",
                        display_path(path)
                    );
                    return Err(FileError::new(FileErrorKind::Io, text));
                }
                // A waiting lock can't be given up, so it is asked for again and again.
                Err(Errno::WOULDBLOCK) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Drop for FolderLock<'_> {
    fn drop(&mut self) {
        // Not left to the closing of the descriptor: a child that is just being started may hold a copy of
        // it.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// A temporary file that removes itself unless it was placed.
struct TempFile<'a> {
    dir: &'a OwnedFd,
    name: String,
    file: OwnedFd,
    placed: bool,
}

impl<'a> TempFile<'a> {
    fn create(dir: &'a OwnedFd, mode: Mode) -> Result<TempFile<'a>, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut answer = Errno::EXIST;
        for _ in 0..limits::TEMP_NAME_TRIES_MAX {
            // The standard library seeds this from the operating system: a random number without a
            // dependency. Nothing rests on it, `EXCL` decides; it keeps two writers from waiting on each
            // other's names.
            let name = format!(".haft-{:016x}.tmp", RandomState::new().hash_one(std::process::id()));
            match openat(dir, &name, flags, mode) {
                Ok(file) => return Ok(TempFile { dir, name, file, placed: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    answer = errno;
                    break;
                }
            }
        }
        Err(answer)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing more can be done about a failure here.
            let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Gives the new file the owner and mode of the old one; the owner only where that is possible. Returns
/// whether it was.
fn keep_mode(file: &OwnedFd, old: &Stat) -> Result<bool, Errno> {
    let mut mode = Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o7777);
    let new = fstat(file)?;
    let owner = (new.st_uid != old.st_uid).then(|| Uid::from_raw(old.st_uid));
    let group = (new.st_gid != old.st_gid).then(|| Gid::from_raw(old.st_gid));
    let is_kept = (owner.is_none() && group.is_none()) || fchown(file, owner, group).is_ok();
    if !is_kept {
        // The group alone can be kept more often than the owner.
        let _ = fchown(file, None, group);
        // Set-user-id of somebody else must not become set-user-id of ours.
        mode -= Mode::SUID | Mode::SGID;
    }
    // After the owner: changing the owner clears these bits.
    fchmod(file, mode)?;
    Ok(is_kept)
}
