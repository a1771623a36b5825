//! Files of trust and approvals: their names, their replacement, and the lock of their folder.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haft::private_file::{ReplaceOptions, create_private_dir, replace_private_file};

use super::digest::Digest;

/// How long a writer waits for another one.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Returns the file name of a workspace in a store: a hash of its real path.
pub fn key(workspace: &Path) -> Digest {
    Digest::from_parts([b"workspace".as_slice(), workspace.as_os_str().as_encoded_bytes()])
}

/// Returns the seconds since 1970, for display.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Replaces a file durably, in a folder that is created for its owner alone if it isn't there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, None)
}

/// The same with other permissions.
pub(crate) fn replace_with(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    create_private_dir(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    replace_private_file(path, bytes, &ReplaceOptions { is_durable: true, permissions })
}

/// Takes a lock against other writers of a folder, until the result is dropped.
pub(crate) fn lock_folder(folder: &Path) -> io::Result<File> {
    create_private_dir(folder)?;
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

/// Checks that only this user could have written a file: it is owned by the user and not writable for
/// others.
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
    fn a_file_of_ours_is_one_that_others_can_not_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file");
        replace(&path, b"one").unwrap();
        assert!(is_ours(&path).is_ok());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap();
        assert!(is_ours(&path).unwrap_err().contains("others"));
    }
}
