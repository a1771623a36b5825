//! A disk that fails at the n-th thing that is asked of it, for every n: the old file stays whole, or the new
//! one is.
//!
//! What `replace_file.rs` asks of the kernel goes through here in tests. Writes take a few bytes at a time,
//! so that there are many places to fail in the middle of a file.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use super::WriteMode;
use super::replace::{ReplaceTarget, replace_file};

/// How many bytes one write takes while faults are counted.
const PIECE_BYTES: usize = 3;

thread_local! {
    /// How many things may still be asked before one fails, and how; none where the disk is sound.
    static FAULT: Cell<Option<(u32, Errno)>> = const { Cell::new(None) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// One more thing is asked.
fn asked() -> Result<(), Errno> {
    match FAULT.get() {
        Some((0, errno)) if !FAILED.replace(true) => Err(errno),
        Some((left, errno)) => {
            FAULT.set(Some((left.saturating_sub(1), errno)));
            Ok(())
        }
        None => Ok(()),
    }
}

pub(super) fn openat(dir: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    asked()?;
    rustix::fs::openat(dir, name, flags, mode)
}

pub(super) fn write(file: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    asked()?;
    let most = if FAULT.get().is_some() { PIECE_BYTES } else { usize::MAX };
    rustix::io::write(file, &bytes[..bytes.len().min(most)])
}

pub(super) fn fchmod(file: impl AsFd, mode: Mode) -> Result<(), Errno> {
    asked()?;
    rustix::fs::fchmod(file, mode)
}

pub(super) fn fsync(file: impl AsFd) -> Result<(), Errno> {
    asked()?;
    rustix::fs::fsync(file)
}

pub(super) fn renameat(
    from: impl AsFd,
    old: impl rustix::path::Arg,
    to: impl AsFd,
    new: &OsStr,
) -> Result<(), Errno> {
    asked()?;
    rustix::fs::renameat(from, old, to, new)
}

pub(super) fn renameat_with(
    from: impl AsFd,
    old: impl rustix::path::Arg,
    to: impl AsFd,
    new: &OsStr,
    flags: RenameFlags,
) -> Result<(), Errno> {
    asked()?;
    rustix::fs::renameat_with(from, old, to, new, flags)
}

#[test]
fn a_disk_that_fails_at_any_moment_leaves_a_whole_file() {
    let (old, new) = ("the old text, some bytes long", "and a new one that is a good deal longer than that");
    let mut faults = 0;
    type Way = fn(&[u8]) -> ReplaceTarget<'_>;
    let ways: [(bool, Way); 4] = [
        (true, |_| WriteMode::Replace.into()),
        (true, |old| ReplaceTarget::Content(old)),
        (false, |_| WriteMode::Replace.into()),
        (false, |_| WriteMode::Create.into()),
    ];
    for (existed, over) in ways {
        for errno in [Errno::NOSPC, Errno::IO, Errno::DQUOT, Errno::INTR] {
            for at in 0.. {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("file");
                if existed {
                    fs::write(&path, old).unwrap();
                }
                let dir = OwnedFd::from(fs::File::open(folder.path()).unwrap());
                FAILED.set(false);
                FAULT.set(Some((at, errno)));
                let over = over(old.as_bytes());
                let done = replace_file(&dir, OsStr::new("file"), Path::new("file"), new.as_bytes(), over);
                FAULT.set(None);
                let found = fs::read_to_string(&path).ok();
                let names = fs::read_dir(folder.path()).unwrap().count();
                assert_eq!(names, usize::from(found.is_some()), "something is left at {at} by {errno}");
                match &done {
                    Ok(_) => assert_eq!(found.as_deref(), Some(new)),
                    Err(error) if error.to_string().contains("was written, but") => {
                        assert_eq!(found.as_deref(), Some(new));
                    }
                    Err(_) => assert_eq!(found.as_deref(), existed.then_some(old), "{at} by {errno}"),
                }
                if !FAILED.get() {
                    assert!(done.is_ok(), "nothing failed");
                    break;
                }
                // A call that was only interrupted is made again, if it was a write.
                assert!(done.is_err() || errno == Errno::INTR, "{at} by {errno}");
                faults += 1;
            }
        }
    }
    assert!(faults > 200, "{faults}");
}
