//! State files of the user, one for each workspace.
//!
//! As with trust itself, a file is written atomically and readable only for its owner, and is ignored if
//! another user could have written it. Two processes that change a file wait for each other.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::atomic_write;
use crate::settings::read_file::{self, UnreadableFile};

/// A file in the state folder, or of the user's settings.
///
/// ```
/// use haft_policy::trust::StateFile;
///
/// let dir = tempfile::tempdir()?;
/// let file = StateFile::for_workspace(dir.path(), "notes", dir.path(), "json");
/// assert_eq!(file.read(1_000), Ok(None));
/// file.change(1_000, |before| { assert!(before.is_none()); Ok(b"{}".to_vec()) })?;
/// assert_eq!(file.read(1_000).unwrap().as_deref(), Some(&b"{}"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Returns the file for a workspace in a subfolder of the state folder.
    pub fn for_workspace(state_dir: &Path, folder: &str, workspace: &Path, ending: &str) -> StateFile {
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        StateFile { path: state_dir.join(folder).join(format!("{}.{ending}", atomic_write::key(&workspace))) }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content, or `None` if the file doesn't exist.
    ///
    /// # Errors
    /// Returns a message with the path if the file can't be read, is too long, or could have been written
    /// by another user.
    pub fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
        let say = |words: String| format!("{}: {words}", self.path.display());
        let bytes =
            read_file::read_bytes(&self.path, bytes_max).map_err(|UnreadableFile { why, .. }| say(why))?;
        let Some(bytes) = bytes else { return Ok(None) };
        atomic_write::is_ours(&self.path).map_err(say)?;
        Ok(Some(bytes))
    }

    /// Replaces the content by the result of `change`, while holding a lock against other writers.
    ///
    /// # Errors
    /// Returns the error of `change`, or a message if the file can't be read or written.
    pub fn change(
        &self,
        bytes_max: u64,
        change: impl FnOnce(Option<Vec<u8>>) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let say = |error: io::Error| format!("{}: {error}", self.path.display());
        let folder = self.path.parent().ok_or_else(|| say(io::ErrorKind::InvalidInput.into()))?;
        let _lock = atomic_write::lock_folder(folder).map_err(say)?;
        let bytes = change(self.read(bytes_max)?)?;
        if bytes.len() as u64 > bytes_max {
            return Err(format!("{}: it would be longer than {bytes_max} bytes", self.path.display()));
        }
        atomic_write::replace(&self.path, &bytes).map_err(say)
    }

    /// Removes the file. Returns whether it existed.
    ///
    /// # Errors
    /// Returns the I/O error of the removal.
    pub fn forget(&self) -> io::Result<bool> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Atomically replaces a file that users edit too. It keeps its permissions; a new file gets `new_mode`.
/// For a symlink, the target is replaced.
///
/// # Errors
/// Returns the I/O error of the write.
pub fn replace_file(path: &Path, bytes: &[u8], new_mode: u32) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = std::fs::metadata(&path).ok().map(|found| found.permissions());
    let permissions = before.unwrap_or_else(|| std::fs::Permissions::from_mode(new_mode));
    atomic_write::replace_with(&path, bytes, Some(permissions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::write(&file, "before").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace_file(&link, b"after", 0o600).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        replace_file(&dir.path().join("new"), b"", 0o644).unwrap();
        let new = std::fs::metadata(dir.path().join("new")).unwrap();
        assert_eq!(new.permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn a_change_that_fails_changes_nothing_and_strangers_files_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::for_workspace(dir.path(), "x", dir.path(), "json");
        file.change(10, |_| Ok(b"one".to_vec())).unwrap();
        assert!(file.change(10, |_| Err("no".to_owned())).is_err());
        assert!(file.change(10, |_| Ok(vec![b'x'; 11])).is_err());
        assert_eq!(file.read(10).unwrap().unwrap(), b"one");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(file.read(10).unwrap_err().contains("others can write it"));
        assert_eq!((file.forget().unwrap(), file.forget().unwrap()), (true, false));
    }
}
