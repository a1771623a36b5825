//! A folder of the host with only some of what lies in it.
//!
//! Small files and links are copied, folders are bound. So the whole is a few mounts, whatever it shows, and
//! what is replaced on the host later isn't seen before the next session.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

use super::{NODEV, NOSUID, RDONLY, copy_mount, mount_on, open_path};
use crate::mount_plan::ExcerptEntry;
use crate::{limits, sys};

/// Puts what is listed into an empty folder in memory. What can't be read is left out, as it can't be read
/// there either.
pub(super) fn fill_excerpt(root: BorrowedFd<'_>, from: &Path, entries: &[ExcerptEntry]) -> Result<()> {
    for entry in entries {
        let (folder, name) = folder_for(root, entry.name())?;
        match entry {
            ExcerptEntry::Text { content, .. } => write_entry(folder.as_fd(), &name, content)?,
            ExcerptEntry::Host(relative) => match show_entry(folder.as_fd(), &name, &from.join(relative)) {
                Err(Errno::NOENT | Errno::ACCESS) => {}
                shown => shown?,
            },
        }
    }
    Ok(())
}

/// The folder for a name, made if it isn't there.
fn folder_for(root: BorrowedFd<'_>, name: &Path) -> Result<(OwnedFd, OsString)> {
    let (Some(parent), Some(last)) = (name.parent(), name.file_name()) else { return Err(Errno::INVAL) };
    let mut folder = rustix::fs::openat(root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    for part in parent.iter() {
        folder = folder_in(folder.as_fd(), part)?;
    }
    Ok((folder, last.to_owned()))
}

fn folder_in(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// Shows what lies at a path of the host.
fn show_entry(folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<()> {
    let source = open_path(path, OFlags::NOFOLLOW)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode) {
        FileType::Symlink => {
            let to = rustix::fs::readlinkat(&source, "", Vec::new())?;
            rustix::fs::symlinkat(&*to, folder, name)
        }
        FileType::Directory => bind_mount(&source, &folder_in(folder, name)?),
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = rustix::fs::open(path, flags, Mode::empty())?;
            let mut content = Vec::new();
            let most = limits::COPIED_BYTES_MAX;
            std::fs::File::from(file).take(most + 1).read_to_end(&mut content).map_err(|_| Errno::IO)?;
            if content.len() as u64 <= most {
                return write_entry(folder, name, &content);
            }
            write_entry(folder, name, b"")?;
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            bind_mount(&source, &rustix::fs::openat(folder, name, flags, Mode::empty())?)
        }
        _ => Ok(()),
    }
}

fn bind_mount(source: &OwnedFd, place: &OwnedFd) -> Result<()> {
    let tree = copy_mount(source.as_fd())?;
    sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | RDONLY, true)?;
    mount_on(&tree, place)
}

fn write_entry(folder: BorrowedFd<'_>, name: &OsStr, content: &[u8]) -> Result<()> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, create, Mode::from_raw_mode(0o644))?;
    std::fs::File::from(file).write_all(content).map_err(|_| Errno::NOSPC)
}
