//! The disk operations of a journal, behind a trait so that tests can make each of them fail.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use crate::limits::HASHED_BYTES_MAX;
use crate::line_format;
use crate::record::FileBefore;

/// How often a lock that a writer holds is tried, and how often one that only readers hold, with a
/// pause in between.
const LOCK_TRIES: (u32, u32) = (25, 500);
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// The session's directory, the directory of all sessions, and the state directory may all be new.
const NEW_FOLDERS: usize = 3;

/// How many bytes an fsync preallocates when no space is left.
const PREALLOCATED_BYTES: u64 = 64 * 1024;
/// Preallocation ends at a multiple of the disk's block size.
const BLOCK_BYTES: u64 = 4096;

/// An append-only file with one writer.
pub trait JournalDisk: Send + 'static {
    /// Appends all bytes. On an error, an unknown part of them may be written.
    ///
    /// # Errors
    /// The disk is full, missing or broken.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Syncs all appended data, so that it survives a power failure.
    ///
    /// # Errors
    /// The fsync failed. The data since the last successful fsync is unreliable, and a retry can't
    /// change that.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates the file to this length.
    ///
    /// # Errors
    /// The file has an unknown length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Prepares for the last appends.
    fn finish(&mut self) {}

    /// Releases the file for other processes; nothing is appended any more.
    fn unlock(&mut self) {}
}

/// A real file, locked until it is released or closed.
///
/// Syncing a file that has grown also commits the file system's metadata, including unrelated
/// changes of other programs. Therefore an fsync that finds the file grown extends it with zeros,
/// and later lines overwrite the zeros: their fsyncs write data only.
#[derive(Debug)]
pub struct RealDisk {
    /// Positioned at the end of the lines.
    file: File,
    /// The end of the lines; preallocated zeros follow.
    end: u64,
    /// The length of the file.
    length: u64,
    /// Whether zeros are preallocated. Disabled if the process has a file size limit.
    preallocates: bool,
    /// Directories with new entries. They are synced once with the file.
    folders: Vec<PathBuf>,
}

impl RealDisk {
    /// Opens or creates the file and locks it for this process; also returns where its lines end.
    ///
    /// # Errors
    /// The file can't be created; another process writes it (`WouldBlock`); a process holds a read
    /// lock for too long (`ResourceBusy`); or the file was removed meanwhile (`NotFound`).
    pub fn open(path: &Path) -> io::Result<(RealDisk, u64)> {
        let mut options = OpenOptions::new();
        options.write(true).read(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path)?;
        lock(&file, LockPatience::Some)?;
        let meta = file.metadata()?;
        // Writes to a file that was removed before it was locked would be lost.
        let metadata_at_path = std::fs::symlink_metadata(path)?;
        if (metadata_at_path.dev(), metadata_at_path.ino()) != (meta.dev(), meta.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let length = meta.len();
        let folders = match (length, path.parent()) {
            (0, Some(folder)) => folder.ancestors().take(NEW_FOLDERS).map(Path::to_owned).collect(),
            _ => Vec::new(),
        };
        let end = find_end(&file, length)?;
        file.seek(SeekFrom::Start(end))?;
        let preallocates = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_none();
        Ok((RealDisk { file, end, length, preallocates, folders }, end))
    }

    /// Preallocates zeros after the synced lines. If that fails, appends continue without
    /// preallocation.
    fn preallocate(&mut self) {
        let until = (self.end + PREALLOCATED_BYTES).next_multiple_of(BLOCK_BYTES);
        let zeros = vec![0; usize::try_from(until - self.end).unwrap_or(0)];
        // Some file systems report a full disk only on fsync.
        match self.file.write_all_at(&zeros, self.end).and_then(|()| self.file.sync_data()) {
            Ok(()) => self.length = until,
            Err(_) => {
                self.preallocates = false;
                // A part of the zeros may be written; readers ignore them.
                let _ = self.file.set_len(self.end);
            }
        }
    }

    /// Reads the last bytes of the lines, at most `most`.
    pub(crate) fn read_tail(&self, most: usize) -> io::Result<Vec<u8>> {
        let count = usize::try_from(self.end).unwrap_or(most).min(most);
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, self.end - count as u64)?;
        Ok(bytes)
    }

    /// Locks a file that has no writer, so that it can be removed: while the lock is held, no
    /// process can resume the session.
    ///
    /// # Errors
    /// Another process writes it (`WouldBlock`); a process holds a read lock for too long
    /// (`ResourceBusy`); or it can't be opened.
    pub(crate) fn lock_idle(path: &Path, patience: LockPatience) -> io::Result<File> {
        let file = File::open(path)?;
        lock(&file, patience)?;
        Ok(file)
    }

    /// Returns whether a process keeps writing this file for a moment. A child that a killed
    /// process was just starting holds the lock until it calls exec.
    pub(crate) fn stays_held(path: &Path) -> bool {
        (0..LOCK_TRIES.0).all(|number| {
            if number > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            RealDisk::is_held(path)
        })
    }

    /// Returns whether a process writes this file now.
    pub(crate) fn is_held(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => false,
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }
}

/// Whether to wait for short read locks.
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

/// Readers hold a shared lock. If a shared lock is available, there is no writer, and waiting
/// longer is worthwhile: a reader ends soon unless it was stopped.
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
        if self.preallocates && self.end == self.length {
            self.preallocate();
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        (self.end, self.length) = (length, length);
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn finish(&mut self) {
        self.preallocates = false;
        if self.length > self.end && self.file.set_len(self.end).is_ok() {
            self.length = self.end;
        }
    }

    fn unlock(&mut self) {
        // If this fails, closing the file still releases the lock.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Returns where the lines of a file end, without the preallocated zeros.
fn find_end(file: &File, mut length: u64) -> io::Result<u64> {
    let mut part = Vec::new();
    while length > 0 {
        let at = length.saturating_sub(PREALLOCATED_BYTES);
        part.resize(usize::try_from(length - at).unwrap_or(0), 0);
        file.read_exact_at(&mut part, at)?;
        length = at + line_format::without_padding(&part).len() as u64;
        if length > at {
            break;
        }
    }
    Ok(length)
}

/// Returns the current state of a file.
pub(crate) fn snapshot_file(path: &Path) -> FileBefore {
    let mut file = FileBefore { path: path.to_owned(), size: None, changed: None, sha256: None };
    let Ok(meta) = std::fs::symlink_metadata(path) else { return file };
    file.size = Some(meta.len());
    file.changed = Some(meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()));
    if meta.is_file() && meta.len() <= HASHED_BYTES_MAX {
        file.sha256 = hash_file(path);
    }
    file
}

fn hash_file(path: &Path) -> Option<String> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed());
    let file = options.open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(HASHED_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= HASHED_BYTES_MAX).then(|| sha256(&bytes))
}

/// Returns the SHA-256 of the bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
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
        assert_eq!(size(), 4, "nothing is preallocated before an fsync");
        disk.sync().unwrap();
        let long = size();
        assert!(long > PREALLOCATED_BYTES && long % BLOCK_BYTES == 0, "{long}");
        disk.append(b"two\n").unwrap();
        disk.sync().unwrap();
        assert_eq!(size(), long);
        // After a crash, the next process continues at the end of the lines in the same
        // preallocated space.
        drop(disk);
        let (mut disk, end) = RealDisk::open(&path).unwrap();
        assert_eq!((end, size()), (8, long));
        assert_eq!(disk.read_tail(5).unwrap(), b"\ntwo\n"[..5].to_vec());
        disk.append(b"thr").unwrap();
        disk.truncate(8).unwrap();
        assert_eq!(size(), 8);
        disk.append(&vec![b'x'; 3 * PREALLOCATED_BYTES as usize]).unwrap();
        disk.sync().unwrap();
        disk.finish();
        disk.append(&vec![b'y'; PREALLOCATED_BYTES as usize]).unwrap();
        disk.sync().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, 8 + 4 * PREALLOCATED_BYTES);
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
