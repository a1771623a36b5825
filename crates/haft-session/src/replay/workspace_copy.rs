//! A temporary copy of a workspace for a replay, with size limits.
//!
//! Files are copied with the system's own call, which shares their blocks if the file system supports it.
//! Symlinks stay symlinks. Special files are skipped. A symlink that leads out of the workspace still does:
//! a write through it is judged by its target.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::hooks;

/// The maximum number of files, folders and symlinks of a workspace that is copied.
pub(super) const FILES_MAX: usize = 200_000;
/// The maximum total size in bytes.
pub(super) const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// A copy, which is removed when it is dropped.
pub(super) struct WorkspaceCopy {
    dir: PathBuf,
}

impl WorkspaceCopy {
    /// Copies a folder.
    ///
    /// # Errors
    /// Returns a message if the folder is too large, or if copying fails.
    pub(super) fn new(from: &Path) -> Result<WorkspaceCopy, String> {
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().unwrap_or(parent);
        if parent.starts_with(from) {
            return Err(format!(
                "`{}` holds the folder of temporary files, where a copy would go",
                from.display()
            ));
        }
        // The name ensures that the copy of a killed process is found and removed later.
        let copy = WorkspaceCopy { dir: parent.join(format!("haft-replay-{}", hooks::session_id())) };
        let failed = |error: io::Error| format!("`{}` can't be copied: {error}", from.display());
        fs::DirBuilder::new().mode(0o700).create(&copy.dir).map_err(failed)?;
        fs::create_dir(copy.state()).map_err(failed)?;
        let mut budget = CopyBudget { files: FILES_MAX, bytes: BYTES_MAX };
        budget.copy(from, &copy.work()).map_err(failed)?;
        Ok(copy)
    }

    /// Returns the workspace in the copy.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Returns a state folder for the session in the copy.
    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }
}

impl Drop for WorkspaceCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// What may still be copied.
struct CopyBudget {
    files: usize,
    bytes: u64,
}

impl CopyBudget {
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut folders = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = folders.pop() {
            fs::create_dir(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
                self.files =
                    self.files.checked_sub(1).ok_or_else(|| too_large(&format!("{FILES_MAX} files")))?;
                if kind.is_dir() {
                    folders.push((entry.path(), target));
                } else if kind.is_symlink() {
                    std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
                } else if kind.is_file() {
                    let bytes = entry.metadata()?.len();
                    self.bytes = self
                        .bytes
                        .checked_sub(bytes)
                        .ok_or_else(|| too_large(&format!("{BYTES_MAX} bytes")))?;
                    fs::copy(entry.path(), target)?;
                }
            }
        }
        Ok(())
    }
}

fn too_large(what: &str) -> io::Error {
    io::Error::other(format!("it has more than {what}; work in a smaller folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_everything_and_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/f"), "text").unwrap();
        std::os::unix::fs::symlink("a/f", dir.path().join("link")).unwrap();
        let copy = WorkspaceCopy::new(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(copy.work().join("link")).unwrap(), "text");
        assert_eq!(fs::read_link(copy.work().join("link")).unwrap(), Path::new("a/f"));
        let place = copy.work();
        drop(copy);
        assert!(!place.exists());

        let to = tempfile::tempdir().unwrap();
        let copied = CopyBudget { files: 2, bytes: 100 }.copy(dir.path(), &to.path().join("x"));
        assert!(copied.unwrap_err().to_string().contains("files"));
        let copied = CopyBudget { files: 9, bytes: 3 }.copy(dir.path(), &to.path().join("y"));
        assert!(copied.unwrap_err().to_string().contains("bytes"));
    }
}
