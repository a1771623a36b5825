//! What is kept although it has no place: what a command left under names that it wasn't granted, and what it
//! had made when its session was killed.
//!
//! It may be the only copy of something of the user's (`mv notes /elsewhere/notes`), so it is moved into a
//! folder of the state directory that the user is told of, and never carried out later: nobody knows whether
//! it was finished. The oldest go when a session starts, by age, number and size.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, linkat};

use super::{caches, limits};

pub(super) struct RecoveredFiles(PathBuf);

impl RecoveredFiles {
    /// Keeps things below this folder, and leaves all that is there.
    pub(super) fn beside(all: &Path) -> RecoveredFiles {
        RecoveredFiles(all.join("recovered"))
    }

    /// Keeps things below this folder, and removes the oldest of what is there.
    pub(super) fn open(all: &Path) -> RecoveredFiles {
        let folder = all.join("recovered");
        make_room(&folder);
        RecoveredFiles(folder)
    }

    /// Moves a folder here, or copies it from another disk. Where it is then: where it was, if that can't be.
    pub(super) fn keep(&self, name: &str, folder: &Path) -> PathBuf {
        let moved = self.place(name).and_then(|to| {
            if fs::rename(folder, &to).is_err() {
                let mut bytes_left = limits::RECOVERED_BYTES_MAX;
                if let Err(error) = copy_tree(folder, &to, &mut bytes_left, 0) {
                    let _ = fs::remove_dir_all(&to);
                    return Err(error);
                }
                let _ = fs::remove_dir_all(folder);
            }
            // It counts from now.
            let _ = File::open(&to).and_then(|opened| opened.set_modified(SystemTime::now()));
            Ok(to)
        });
        moved.unwrap_or_else(|_| folder.to_owned())
    }

    /// Gives a file that is held one more name here, or copies it from another disk.
    pub(super) fn keep_file(&self, name: &str, called: &OsStr, file: BorrowedFd<'_>) -> io::Result<PathBuf> {
        let to = self.place(name)?.join(called);
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        if linkat(CWD, &held, CWD, &to, AtFlags::SYMLINK_FOLLOW).is_err() {
            fs::copy(&held, &to)?;
        }
        Ok(to)
    }

    /// Keeps a file with this content.
    pub(super) fn keep_bytes(&self, name: &str, called: &OsStr, bytes: &[u8]) -> io::Result<PathBuf> {
        let to = self.place(name)?.join(called);
        fs::write(&to, bytes)?;
        Ok(to)
    }

    /// An empty folder of this name, or nearly.
    pub(super) fn place(&self, name: &str) -> io::Result<PathBuf> {
        make_private(&self.0).or_else(|error| if self.0.is_dir() { Ok(()) } else { Err(error) })?;
        for number in 0..limits::RECOVERED_MAX * 2 {
            let name = if number == 0 { name.to_owned() } else { format!("{name}-{number}") };
            match make_private(&self.0.join(&name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| self.0.join(name)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

/// Copies files, folders and links; the rest can't be lost.
fn copy_tree(from: &Path, to: &Path, bytes_left: &mut u64, depth: usize) -> io::Result<()> {
    if depth > limits::WALK_DEPTH_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            make_private(&to)?;
            copy_tree(&entry.path(), &to, bytes_left, depth + 1)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, to)?;
        } else if kind.is_file() {
            let left = bytes_left.checked_sub(entry.metadata()?.len());
            *bytes_left = left.ok_or(io::ErrorKind::FileTooLarge)?;
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Removes what is too old, and the oldest while there are too many or they are too large; but never the
/// newest.
fn make_room(folder: &Path) {
    let mut entries_left = limits::CACHES_ENTRIES_MAX;
    let mut all: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        let size =
            caches::folder_size(&entry.path(), &mut entries_left).unwrap_or(limits::RECOVERED_BYTES_MAX);
        all.push((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), size));
    }
    all.sort();
    let mut total = all.iter().fold(0_u64, |sum, (_, _, size)| sum.saturating_add(*size));
    let mut count = all.len();
    for (since, path, size) in all {
        let old = since.elapsed().is_ok_and(|age| age > limits::RECOVERED_AGE_MAX);
        let many = count > limits::RECOVERED_MAX || total > limits::RECOVERED_BYTES_MAX && count > 1;
        if old || many {
            let _ = fs::remove_dir_all(path);
            (total, count) = (total.saturating_sub(size), count - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_old_go_and_then_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let kept = RecoveredFiles::open(dir.path());
        let all = limits::RECOVERED_MAX + 2;
        for number in 0..all {
            let from = dir.path().join("from");
            fs::create_dir(&from).unwrap();
            fs::write(from.join("x"), "x").unwrap();
            let at = kept.keep(&number.to_string(), &from);
            let age = match number {
                0 => limits::RECOVERED_AGE_MAX * 2,
                _ => Duration::from_secs((all - number) as u64),
            };
            File::open(&at).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        RecoveredFiles::open(dir.path());
        let left = |number: usize| dir.path().join(format!("recovered/{number}/x")).exists();
        assert_eq!((left(0), left(1), left(2), left(all - 1)), (false, false, true, true));
    }
}
