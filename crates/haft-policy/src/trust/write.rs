//! Writing a file of ours so that it is there whole or not at all, for its owner alone.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::digest::Digest;

/// How long a writer waits for another one.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long it pauses between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The name of a workspace's file in a store: a hash of its real path.
pub fn key(workspace: &Path) -> Digest {
    Digest::of([b"workspace".as_slice(), workspace.as_os_str().as_encoded_bytes()])
}

/// Seconds since 1970, for people.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Creates a folder, and those above it, for its owner alone.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file: written beside it, made durable, renamed.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, None)
}

/// The same with other permissions than for its owner alone.
pub(crate) fn replace_with(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    self::folder(folder)?;
    let (temporary, mut file) = create_beside(path)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    // The name is durable once the folder is.
    File::open(folder)?.sync_all()
}

fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    for _ in 0..haft::limits::TEMP_NAME_TRIES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
        let temporary = path.with_file_name(format!(".{name}.{}.{time}.{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Holds off other writers of a folder until it is dropped.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    self::folder(folder)?;
    let path = folder.join(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if since.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether nobody else could have written a file: it is ours, and others can't write it. In words what is wrong.
pub(crate) fn is_ours(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let found = path.symlink_metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to somebody else".to_owned());
    }
    if found.mode() & 0o022 != 0 {
        return Err("others can write it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary file is left"
        );
        assert!(is_ours(&path).is_ok());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap();
        assert!(is_ours(&path).unwrap_err().contains("others"));
    }

    #[test]
    fn a_failed_replacement_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("inside"), "x").unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
