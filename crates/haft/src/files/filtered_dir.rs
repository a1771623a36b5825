//! A directory in which some entries aren't there, because a rule says that they may not be read.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::error::{FileError, FileErrorKind, display_path};
use super::{FileKind, FileMetadata, HiddenPaths, OpenDir, ReadFile};

/// A directory without what is hidden in it, by either of its paths.
pub(super) struct FilteredDir {
    dir: Box<dyn OpenDir>,
    given: PathBuf,
    real: PathBuf,
    hidden: HiddenPaths,
}

impl FilteredDir {
    pub(super) fn over(
        dir: Box<dyn OpenDir>,
        given: PathBuf,
        real: PathBuf,
        hidden: HiddenPaths,
    ) -> FilteredDir {
        FilteredDir { dir, given, real, hidden }
    }

    fn hides(&self, name: &OsStr) -> bool {
        let given = self.given.join(name);
        self.hidden.covers(&given) || (self.given != self.real && self.hidden.covers(&self.real.join(name)))
    }

    fn seen(&self, name: &OsStr) -> Result<(), FileError> {
        if !self.hides(name) {
            return Ok(());
        }
        let words = format!("`{}` does not exist", display_path(&self.given.join(name)));
        Err(FileError::new(FileErrorKind::NotFound, words))
    }
}

impl OpenDir for FilteredDir {
    fn each(&self, each: &mut dyn FnMut(&OsStr, FileKind)) -> Result<(), FileError> {
        self.dir.each(&mut |name, kind| {
            if !self.hides(name) {
                each(name, kind);
            }
        })
    }

    fn open_dir(&self, name: &OsStr) -> Result<Box<dyn OpenDir>, FileError> {
        self.seen(name)?;
        let dir = self.dir.open_dir(name)?;
        let (given, real) = (self.given.join(name), self.real.join(name));
        Ok(Box::new(FilteredDir::over(dir, given, real, self.hidden.clone())))
    }

    fn open(&self, name: &OsStr) -> Result<Box<dyn ReadFile>, FileError> {
        self.seen(name)?;
        self.dir.open(name)
    }

    fn metadata(&self, name: &OsStr) -> Result<FileMetadata, FileError> {
        self.seen(name)?;
        self.dir.metadata(name)
    }
}
