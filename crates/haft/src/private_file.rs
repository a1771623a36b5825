//! Replaces a file of the program's own state in one step, for its owner alone.
//!
//! The content is written to a new file beside it, which is renamed over it: another process reads the old
//! content or the new one, and a program that is killed leaves one of them. Files that tools write are
//! written through [`files`](crate::files), which keep mode and owner.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits;

/// How a file is replaced.
#[derive(Debug, Clone, Default)]
pub struct ReplaceOptions {
    /// Waits until the disk has content and name. Without it a crash of the machine may lose the new content.
    pub is_durable: bool,
    /// Its permissions; for its owner alone (0600) by default.
    pub permissions: Option<Permissions>,
}

/// Creates a directory and its missing parents for their owner alone (0700). It may exist.
///
/// # Errors
/// What the operating system says.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file, or creates it, in a directory that exists.
///
/// ```
/// use haft::private_file::{ReplaceOptions, replace_private_file};
///
/// # fn main() -> std::io::Result<()> {
/// let path = std::env::temp_dir().join(format!("haft-example-{}", std::process::id()));
/// let durable = ReplaceOptions { is_durable: true, ..ReplaceOptions::default() };
/// replace_private_file(&path, b"one", &durable)?;
/// replace_private_file(&path, b"two", &durable)?;
/// assert_eq!(std::fs::read(&path)?, b"two");
/// # std::fs::remove_file(&path) }
/// ```
///
/// # Errors
/// What the operating system says; the old content is left then. Only where the directory can't be flushed is
/// the new content in place.
pub fn replace_private_file(path: &Path, bytes: &[u8], options: &ReplaceOptions) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let (temporary, mut file) = create_beside(path)?;
    let mut write = || {
        file.write_all(bytes)?;
        if let Some(permissions) = &options.permissions {
            file.set_permissions(permissions.clone())?;
        }
        if options.is_durable {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    };
    if let Err(error) = write() {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    if options.is_durable { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// A new file under a name that no other writer uses.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    for _ in 0..limits::TEMP_NAME_TRIES_MAX {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_replaced_whole_and_private() {
        for is_durable in [true, false] {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("a/b/file");
            create_private_dir(path.parent().unwrap()).unwrap();
            let options = ReplaceOptions { is_durable, ..ReplaceOptions::default() };
            replace_private_file(&path, b"one", &options).unwrap();
            replace_private_file(&path, b"two", &options).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"two");
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(left, 1, "no temporary file is left");
            let permissions = Some(Permissions::from_mode(0o640));
            replace_private_file(&path, b"three", &ReplaceOptions { permissions, ..options }).unwrap();
            assert_eq!(mode(&path), 0o640);
        }
    }

    #[test]
    fn a_failed_replacement_leaves_what_was_there() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("inside"), "x").unwrap();
        assert!(replace_private_file(&path, b"new", &ReplaceOptions::default()).is_err());
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
