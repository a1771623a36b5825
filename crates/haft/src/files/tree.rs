//! Directories that are open: walking a tree by descriptors.
//!
//! A walk that opens `root/a/b` by its path follows whatever `a` has become since it was listed. Here every
//! directory is opened by its name in the descriptor of the one before, following no link, so a walk that
//! began inside of what was granted stays there. Which entries are worth opening is the caller's business.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use haft_scheduler::sync::lock;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, fstat, openat, seek, statat};
use rustix::io::{Errno, read, retry_on_intr};

use super::dir::{file_kind, metadata_from_stat, must_be_regular, refuse_hard_link};
use super::error::{FileError, FileErrorKind, display_path};
use super::{FileKind, FileMetadata, HiddenPaths, OpenDir, ReadFile};

/// How many bytes of entries the kernel gives at once.
const ENTRY_BYTES: usize = 32 * 1024;

/// A directory of this machine.
pub(super) struct LocalDir {
    dir: OwnedFd,
    /// For messages.
    path: PathBuf,
    /// Whether the descriptor's own position has left the beginning. Only one thread at a time reads entries.
    read: Mutex<bool>,
    /// Asked about files with several names.
    hidden: Option<HiddenPaths>,
}

impl LocalDir {
    pub(super) fn new(dir: OwnedFd, path: &Path, hidden: Option<HiddenPaths>) -> LocalDir {
        LocalDir { dir, path: path.to_owned(), read: Mutex::new(false), hidden }
    }

    fn child(&self, name: &OsStr, flags: OFlags) -> Result<OwnedFd, FileError> {
        must_be_a_name(name, &self.path)?;
        openat(&self.dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| self.failed(name, errno))
    }

    fn failed(&self, name: &OsStr, errno: Errno) -> FileError {
        let path = self.path.join(name);
        let is_link = || statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_link(&stat));
        // A link where a directory was wanted is answered with "not a directory".
        if errno == Errno::LOOP || errno == Errno::NOTDIR && is_link() {
            let text = format!("`{}` is a link, and links are not followed here", display_path(&path));
            return FileError::new(FileErrorKind::NotAFile, text);
        }
        FileError::from_io("read", &path, errno)
    }
}

impl OpenDir for LocalDir {
    fn each(&self, show: &mut dyn FnMut(&OsStr, FileKind)) -> Result<(), FileError> {
        let fail = |errno| FileError::from_io("listed", &self.path, errno);
        let mut again = lock(&self.read);
        if *again {
            seek(&self.dir, SeekFrom::Start(0)).map_err(fail)?;
        }
        *again = true;
        let mut buffer = [MaybeUninit::uninit(); ENTRY_BYTES];
        let mut stream = RawDir::new(&self.dir, &mut buffer);
        while let Some(entry) = stream.next() {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems don't say; an entry that has vanished since is left out.
                FileType::Unknown => match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => file_kind(FileType::from_raw_mode(stat.st_mode)),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(fail(errno)),
                },
                known => file_kind(known),
            };
            show(OsStr::from_bytes(name.to_bytes()), kind);
        }
        Ok(())
    }

    fn open_dir(&self, name: &OsStr) -> Result<Box<dyn OpenDir>, FileError> {
        let dir = self.child(name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
        Ok(Box::new(LocalDir::new(dir, &self.path.join(name), self.hidden.clone())))
    }

    fn open(&self, name: &OsStr) -> Result<Box<dyn ReadFile>, FileError> {
        let file = self.child(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = fstat(&file).map_err(|errno| self.failed(name, errno))?;
        // The name was a file when it was listed; this is what it is now.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size == 0 {
            must_be_regular(&file, &stat, &self.path.join(name))?;
        }
        let metadata = metadata_from_stat(&stat);
        if let Some(hidden) = self.hidden.as_ref().filter(|_| stat.st_nlink > 1) {
            refuse_hard_link(hidden, metadata.id, &self.path.join(name))?;
        }
        Ok(Box::new(WalkedFile { left: metadata.len, file, metadata }))
    }

    fn metadata(&self, name: &OsStr) -> Result<FileMetadata, FileError> {
        must_be_a_name(name, &self.path)?;
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        found.map(|stat| metadata_from_stat(&stat)).map_err(|errno| self.failed(name, errno))
    }
}

/// Refuses what would lead out of the directory.
pub(crate) fn must_be_a_name(name: &OsStr, dir: &Path) -> Result<(), FileError> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let text = format!(
            "`{}` is not the name of an entry of `{}`",
            display_path(Path::new(name)),
            display_path(dir)
        );
        return Err(FileError::new(FileErrorKind::NotGranted, text));
    }
    Ok(())
}

fn is_link(stat: &Stat) -> bool {
    super::nolink::is_link(stat)
}

struct WalkedFile {
    file: OwnedFd,
    metadata: FileMetadata,
    left: u64,
}

impl ReadFile for WalkedFile {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }
}

impl io::Read for WalkedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The end is known: asking for it would be one more system call for each of many small files.
        if self.left == 0 {
            return Ok(0);
        }
        let count = retry_on_intr(|| read(&self.file, &mut *buffer))?;
        self.left = if count == 0 { 0 } else { self.left.saturating_sub(count as u64) };
        Ok(count)
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
