//! The few things that a journal asks of a disk, behind a trait so that tests can break them one by one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use crate::limits::HASHED_BYTES_MAX;
use crate::line_format;
use crate::record::FileBefore;

/// How often a lock is tried that a writer has, and how often one that others have who only look; with a pause between.
const LOCK_TRIES: (u32, u32) = (25, 500);
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A session's folder, the folder of all sessions, and the state folder may all be new.
const NEW_FOLDERS: usize = 3;

/// How much room for lines a sync makes where there is none left, in bytes.
const ROOM_BYTES: u64 = 64 * 1024;
/// Room ends where a block of the disk does, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// A file that is appended to. One writer has it.
pub trait JournalDisk: Send + 'static {
    /// Appends all of this; on an error an unknown part of it may be there.
    ///
    /// # Errors
    /// The disk is full, gone or broken.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything that was appended survives a power failure.
    ///
    /// # Errors
    /// It may not. What was appended since the last success is in doubt then, whatever is tried later.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to this length.
    ///
    /// # Errors
    /// It has another length now.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// What is appended now is the last.
    fn end(&mut self) {}

    /// Nothing is appended any more: another process may have the file.
    fn release(&mut self) {}
}

/// A real file, locked until it is released or closed.
///
/// A file system that syncs a file which has grown has to write its own books too, with whatever other programs changed in
/// its folders meanwhile. So a sync that meets a grown file makes it longer than it has to be, by zeros, and lines are written
/// into them: the syncs that follow write those lines and nothing else.
#[derive(Debug)]
pub struct RealDisk {
    /// Its place is the end of the lines.
    file: File,
    /// Up to here there are lines, and zeros behind them.
    end: u64,
    /// How long the file is.
    length: u64,
    /// Whether room is made. Not where files may not be longer than somebody said.
    makes_room: bool,
    /// Folders whose entries are new: they are synced with the file, once.
    folders: Vec<PathBuf>,
}

impl RealDisk {
    /// Opens or makes the file and locks it for this process; returns where its lines end too.
    ///
    /// # Errors
    /// It can't be made; another process has it: `WouldBlock`; one looks at it and doesn't end: `ResourceBusy`; or it was
    /// removed meanwhile: `NotFound`.
    pub fn open(path: &Path) -> io::Result<(RealDisk, u64)> {
        let mut options = OpenOptions::new();
        options.write(true).read(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path)?;
        lock(&file, LockPatience::Some)?;
        let meta = file.metadata()?;
        // What is written to a file that was removed before the lock was had would be lost.
        let there = std::fs::symlink_metadata(path)?;
        if (there.dev(), there.ino()) != (meta.dev(), meta.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let length = meta.len();
        let folders = match (length, path.parent()) {
            (0, Some(folder)) => folder.ancestors().take(NEW_FOLDERS).map(Path::to_owned).collect(),
            _ => Vec::new(),
        };
        let end = end_of(&file, length)?;
        file.seek(SeekFrom::Start(end))?;
        let makes_room = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_none();
        Ok((RealDisk { file, end, length, makes_room, folders }, end))
    }

    /// Makes room behind the lines, which are safe by now. Where there is none to be had, lines go on without.
    fn make_room(&mut self) {
        let until = (self.end + ROOM_BYTES).next_multiple_of(BLOCK_BYTES);
        let zeros = vec![0; usize::try_from(until - self.end).unwrap_or(0)];
        // Some file systems say only when they sync that there is no room.
        match self.file.write_all_at(&zeros, self.end).and_then(|()| self.file.sync_data()) {
            Ok(()) => self.length = until,
            Err(_) => {
                self.makes_room = false;
                // A part of them may be there; they are nothing to a reader.
                let _ = self.file.set_len(self.end);
            }
        }
    }

    /// The last bytes of the lines, so many at most.
    pub(crate) fn last(&self, most: usize) -> io::Result<Vec<u8>> {
        let count = usize::try_from(self.end).unwrap_or(most).min(most);
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, self.end - count as u64)?;
        Ok(bytes)
    }

    /// The lock on a file that nobody writes now, for who removes it: as long as it is held, nobody goes on with it.
    ///
    /// # Errors
    /// Another process has it: `WouldBlock`; one looks at it and doesn't end: `ResourceBusy`; or it can't be opened.
    pub(crate) fn hold(path: &Path, patience: LockPatience) -> io::Result<File> {
        let file = File::open(path)?;
        lock(&file, patience)?;
        Ok(file)
    }

    /// Whether some process writes this file, also in a moment: what one that was killed had just begun to start has its lock
    /// until it becomes another program.
    pub(crate) fn stays_held(path: &Path) -> bool {
        (0..LOCK_TRIES.0).all(|number| {
            if number > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            RealDisk::is_held(path)
        })
    }

    /// Whether some process writes this file now.
    pub(crate) fn is_held(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => false,
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }
}

/// Whether those who only look, and have a file for a moment, are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockPatience {
    None,
    Some,
}

fn lock(file: &File, patience: LockPatience) -> io::Result<()> {
    match patience {
        LockPatience::None => Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?),
        LockPatience::Some => lock_within(file, LOCK_TRIES),
    }
}

/// Those who look share the lock. So who can share it too knows that nobody writes, and can wait longer: one that looks ends
/// soon, unless somebody stopped it just then.
fn lock_within(file: &File, (mut written, mut looked_at): (u32, u32)) -> io::Result<()> {
    use rustix::io::Errno;
    while let Err(error) = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        let (tries, last) = match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                rustix::fs::flock(file, FlockOperation::Unlock)?;
                (&mut looked_at, io::Error::from(io::ErrorKind::ResourceBusy))
            }
            Err(_) => (&mut written, error.into()),
        };
        *tries = tries.saturating_sub(1);
        if *tries == 0 {
            return Err(last);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Ok(())
}

impl JournalDisk for RealDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        self.length = self.length.max(self.end);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        for folder in &self.folders {
            File::open(folder)?.sync_all()?;
        }
        self.folders.clear();
        self.file.sync_data()?;
        if self.makes_room && self.end == self.length {
            self.make_room();
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        (self.end, self.length) = (length, length);
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn end(&mut self) {
        self.makes_room = false;
        if self.length > self.end && self.file.set_len(self.end).is_ok() {
            self.length = self.end;
        }
    }

    fn release(&mut self) {
        // Closing the file releases the lock too, should this fail.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Where the lines of a file end: without the room behind them.
fn end_of(file: &File, mut length: u64) -> io::Result<u64> {
    let mut part = Vec::new();
    while length > 0 {
        let at = length.saturating_sub(ROOM_BYTES);
        part.resize(usize::try_from(length - at).unwrap_or(0), 0);
        file.read_exact_at(&mut part, at)?;
        length = at + line_format::without_room(&part).len() as u64;
        if length > at {
            break;
        }
    }
    Ok(length)
}

/// How a file looks now.
pub(crate) fn look(path: &Path) -> FileBefore {
    let mut seen = FileBefore { path: path.to_owned(), size: None, changed: None, sha256: None };
    let Ok(meta) = std::fs::symlink_metadata(path) else { return seen };
    seen.size = Some(meta.len());
    seen.changed = Some(meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()));
    if meta.is_file() && meta.len() <= HASHED_BYTES_MAX {
        seen.sha256 = hash(path);
    }
    seen
}

fn hash(path: &Path) -> Option<String> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed());
    let file = options.open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(HASHED_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= HASHED_BYTES_MAX).then(|| sha256(&bytes))
}

/// The SHA-256 of these bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdef";
    let pairs =
        bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
    pairs.map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_into_room_that_a_sync_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.log");
        let size = || path.metadata().unwrap().len();
        let (mut disk, end) = RealDisk::open(&path).unwrap();
        assert_eq!(end, 0);
        disk.append(b"one\n").unwrap();
        assert_eq!(size(), 4, "nobody needs room before a sync");
        disk.sync().unwrap();
        let long = size();
        assert!(long > ROOM_BYTES && long % BLOCK_BYTES == 0, "{long}");
        disk.append(b"two\n").unwrap();
        disk.sync().unwrap();
        assert_eq!(size(), long);
        // One that was killed: who is next goes on where lines end, in the same room.
        drop(disk);
        let (mut disk, end) = RealDisk::open(&path).unwrap();
        assert_eq!((end, size()), (8, long));
        assert_eq!(disk.last(5).unwrap(), b"\ntwo\n"[..5].to_vec());
        disk.append(b"thr").unwrap();
        disk.cut(8).unwrap();
        assert_eq!(size(), 8);
        disk.append(&vec![b'x'; 3 * ROOM_BYTES as usize]).unwrap();
        disk.sync().unwrap();
        disk.end();
        disk.append(&vec![b'y'; ROOM_BYTES as usize]).unwrap();
        disk.sync().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, 8 + 4 * ROOM_BYTES);
        assert!(bytes.starts_with(b"one\ntwo\nxxx") && bytes.ends_with(b"yyy") && !bytes.contains(&0));
    }

    #[test]
    fn who_writes_is_told_apart_from_who_looks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.log");
        let (held, _) = RealDisk::open(&path).unwrap();
        let file = File::open(&path).unwrap();
        let kind = |tries| lock_within(&file, tries).map_err(|error| error.kind());
        assert_eq!(kind((2, u32::MAX)), Err(io::ErrorKind::WouldBlock));
        assert!(RealDisk::is_held(&path));
        drop(held);
        let looks = File::open(&path).unwrap();
        rustix::fs::flock(&looks, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(!RealDisk::is_held(&path));
        assert_eq!(kind((u32::MAX, 2)), Err(io::ErrorKind::ResourceBusy));
        drop(looks);
        assert_eq!(kind((1, 1)), Ok(()));
    }
}
