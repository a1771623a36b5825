//! What a tool holds: the files of one call.
//!
//! A tool names paths; it never sees the [`GrantedAccess`] they are held against. Relative paths are taken
//! from the call's working directory. The bounds on what fits into memory are here, so that every
//! implementation of [`Files`] has the same ones.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::{FileError, FileErrorKind, display_path};
use super::filtered_dir::FilteredDir;
use super::{DirEntry, FileMetadata, Files, GrantedAccess, OpenDir, OpenFile, WriteMode, WriteOutcome};
use crate::limits;

/// The files that one call may touch.
#[derive(Clone, Copy)]
pub struct ScopedFiles<'a> {
    files: &'a dyn Files,
    access: &'a GrantedAccess,
    cwd: &'a Path,
}

impl<'a> ScopedFiles<'a> {
    /// The files of a call that was granted `access` and works in `cwd`, an absolute path.
    pub fn new(files: &'a dyn Files, access: &'a GrantedAccess, cwd: &'a Path) -> ScopedFiles<'a> {
        ScopedFiles { files, access, cwd }
    }

    /// The directory from which relative paths are taken.
    pub fn cwd(&self) -> &'a Path {
        self.cwd
    }

    /// Reads a whole file of at most [`FILE_BYTES_MAX`](limits::FILE_BYTES_MAX) bytes.
    pub async fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, FileError> {
        let path = self.absolute(path.as_ref())?;
        let mut file = self.files.open(self.access, &path).await?;
        let len = file.metadata().len;
        if len > limits::FILE_BYTES_MAX {
            return Err(too_large(&path, len));
        }
        // One byte more than the bound: a file that grows while it is read is noticed, not cut.
        let max = limits::FILE_BYTES_MAX as usize + 1;
        let mut bytes = file.read(max).await?;
        loop {
            if bytes.len() >= max {
                return Err(too_large(&path, bytes.len() as u64));
            }
            let more = file.read(max - bytes.len()).await?;
            if more.is_empty() {
                return Ok(bytes);
            }
            bytes.extend(more);
        }
    }

    /// Reads a whole text file of at most [`FILE_BYTES_MAX`](limits::FILE_BYTES_MAX) bytes.
    ///
    /// # Errors
    /// [`NotText`](FileErrorKind::NotText) says at which byte the text stops being UTF-8.
    pub async fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String, FileError> {
        let path = path.as_ref();
        let bytes = self.read(path).await?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let path = display_path(path);
            FileError::new(
                FileErrorKind::NotText,
                format!("`{path}` is not text: the bytes from offset {at} on are not valid UTF-8"),
            )
        })
    }

    /// Opens a file for reading in pieces.
    pub async fn open(&self, path: impl AsRef<Path>) -> Result<Box<dyn OpenFile>, FileError> {
        self.files.open(self.access, &self.absolute(path.as_ref())?).await
    }

    /// Says what is at a path, following links.
    pub async fn metadata(&self, path: impl AsRef<Path>) -> Result<FileMetadata, FileError> {
        self.files.metadata(self.access, &self.absolute(path.as_ref())?).await
    }

    /// Whether there is anything at a path. A path outside of what may be read is an error, not "no".
    pub async fn exists(&self, path: impl AsRef<Path>) -> Result<bool, FileError> {
        match self.metadata(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == FileErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists one directory, sorted by name.
    pub async fn list(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>, FileError> {
        self.files.list(self.access, &self.absolute(path.as_ref())?).await
    }

    /// Opens a directory, to walk what is beneath it; see [`OpenDir`].
    pub async fn open_dir(&self, path: impl AsRef<Path>) -> Result<Box<dyn OpenDir>, FileError> {
        let path = self.absolute(path.as_ref())?;
        let dir = self.files.open_dir(self.access, &path).await?;
        let Some(hidden) = &self.access.hidden else { return Ok(dir) };
        let (given, real) = match self.files.resolve(&path) {
            Ok(found) => (found.given, found.real),
            Err(_) => (path.clone(), path),
        };
        Ok(Box::new(FilteredDir::over(dir, given, real, hidden.clone())))
    }

    /// Writes a whole file, all of it or nothing; see [`Files::write`].
    pub async fn write(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
        how: WriteMode,
    ) -> Result<WriteOutcome, FileError> {
        self.files.write(self.access, &self.absolute(path.as_ref())?, bytes, how).await
    }

    /// Replaces a file if it is still what it was when it was read; see [`Files::swap`].
    pub async fn swap(
        &self,
        path: impl AsRef<Path>,
        old: impl Into<Bytes>,
        new: impl Into<Bytes>,
    ) -> Result<WriteOutcome, FileError> {
        self.files.swap(self.access, &self.absolute(path.as_ref())?, old.into(), new.into()).await
    }

    /// Removes a file, a link or an empty directory.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.files.remove(self.access, &self.absolute(path.as_ref())?, None).await
    }

    /// Removes a file if it is still what it was when it was read; see [`Files::remove`].
    pub async fn remove_if(&self, path: impl AsRef<Path>, old: &[u8]) -> Result<(), FileError> {
        self.files.remove(self.access, &self.absolute(path.as_ref())?, Some(old)).await
    }

    /// Renames a file, a link or a directory; replaces nothing.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
        self.files.rename(self.access, &self.absolute(from.as_ref())?, &self.absolute(to.as_ref())?).await
    }

    /// Creates a directory and its missing parents.
    pub async fn create_dir(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.files.create_dir(self.access, &self.absolute(path.as_ref())?).await
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf, FileError> {
        // `cwd.join("")` is the directory itself, which nobody means by an empty path.
        if path.as_os_str().is_empty() {
            return Err(FileError::new(
                FileErrorKind::NotFound,
                "the path is empty; give the path of a file",
            ));
        }
        Ok(self.cwd.join(path))
    }
}

fn too_large(path: &Path, len: u64) -> FileError {
    let max = limits::FILE_BYTES_MAX;
    FileError::new(
        FileErrorKind::TooLarge,
        format!(
            "`{}` has {len} bytes, more than the {max} that can be read whole; read a part of it",
            display_path(path)
        ),
    )
}
