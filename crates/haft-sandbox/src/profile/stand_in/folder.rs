//! What is done in folders that are held open, by name, without following links.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags, mkdirat, openat, statat, statx};
use rustix::io::Errno;

use crate::profile::limits;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StandInId(pub(super) u64, pub(super) u64);

impl StandInId {
    pub(super) fn from_stat(found: &Stat) -> StandInId {
        StandInId(found.st_dev, found.st_ino)
    }
}

/// The names in a folder.
pub(super) fn names_in(folder: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Looks for the names of a file.
pub(super) struct NameSearch {
    id: StandInId,
    pub(super) found: Vec<(OwnedFd, OsString, PathBuf)>,
    entries_left: usize,
}

impl NameSearch {
    pub(super) fn new(id: StandInId) -> NameSearch {
        NameSearch { id, found: Vec::new(), entries_left: limits::WALK_ENTRIES_MAX }
    }

    /// Whether everything was looked at.
    pub(super) fn look_in(&mut self, folder: BorrowedFd<'_>, inside: &Path, depth: usize) -> bool {
        let Ok(names) = names_in(folder) else { return false };
        let mut whole = depth <= limits::WALK_DEPTH_MAX;
        for name in names.into_iter().filter(|_| depth <= limits::WALK_DEPTH_MAX) {
            let Some(left) = self.entries_left.checked_sub(1) else { return false };
            self.entries_left = left;
            let Ok(found) = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let rest = inside.join(&name);
            if is_folder(&found) {
                let deeper = open_folder(folder, &name);
                whole &= deeper.is_ok_and(|deeper| self.look_in(deeper.as_fd(), &rest, depth + 1));
            } else if StandInId::from_stat(&found) == self.id
                && let Ok(held) = folder.try_clone_to_owned()
            {
                self.found.push((held, name, rest));
            }
        }
        whole
    }
}

pub(super) fn is_empty(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let Ok(opened) = open_folder(folder, name) else { return false };
    let Ok(mut entries) = rustix::fs::Dir::new(opened) else { return false };
    let other = |entry: &rustix::fs::DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
    !entries.any(|entry| entry.is_ok_and(|entry| other(&entry)))
}

pub(super) fn is_folder(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

/// A folder with the permissions of another; one that is there stays as it is.
pub(super) fn make_like(folder: BorrowedFd<'_>, name: &OsStr, like: &Stat) -> io::Result<()> {
    match mkdirat(folder, name, Mode::from_raw_mode(like.st_mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn open_folder(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

pub(super) fn mount_number(folder: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}
