//! What granted places were when their call was authorized, held open until it runs.
//!
//! Between a yes and the start of a child there is time: a queue, a hook, a recorder. A path that is looked
//! up again after it may lead elsewhere. So what a call was granted outside of the workspace is opened as
//! soon as it may run, is compared with what was judged, and goes with the grant; whoever confines the child
//! shows it from these descriptors.
//!
//! Files of tools don't need this: they open beneath the real path and follow no link.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::nolink::{self, OpenMethod};
use super::resolve::{FileId, RealPath};
use crate::limits;

/// A place by descriptor: the folder that its name lies in, and what has that name.
#[derive(Debug)]
pub struct PinnedPath {
    folder: OwnedFd,
    rest: PathBuf,
    itself: Option<OwnedFd>,
}

impl PinnedPath {
    /// Opens what is at a real path, following no link. That nothing is there is no error.
    ///
    /// # Errors
    /// The path isn't absolute, or leads through a link, or the machine refuses.
    pub fn open(path: &Path) -> io::Result<PinnedPath> {
        if !path.is_absolute() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for above in path.ancestors().skip(1) {
            let folder =
                match nolink::open_nolink(OpenMethod::Openat2, above, OFlags::PATH | OFlags::DIRECTORY) {
                    Err(Errno::NOENT) => continue,
                    opened => opened?,
                };
            let rest = path.strip_prefix(above).unwrap_or(path).to_owned();
            let itself = match rest.components().count() {
                1 => open_entry(folder.as_fd(), &rest)?,
                _ => None,
            };
            return Ok(PinnedPath { folder, rest, itself });
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// The nearest folder above it that exists: the one that it lies in, if it does.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The names from there; one, unless folders are missing too.
    pub fn rest(&self) -> &Path {
        &self.rest
    }

    /// What is there: a file, a folder, or a link, which wasn't followed.
    pub fn itself(&self) -> Option<BorrowedFd<'_>> {
        self.itself.as_ref().map(|itself| itself.as_fd())
    }

    fn is(&self, judged: &RealPath) -> bool {
        let id = |descriptor: &OwnedFd| fstat(descriptor).ok().map(|stat| FileId::from_stat(&stat));
        match &self.itself {
            Some(itself) => judged.exists && id(itself) == Some(judged.anchor),
            None => !judged.exists && id(&self.folder) == Some(judged.anchor),
        }
    }
}

fn open_entry(folder: BorrowedFd<'_>, name: &Path) -> io::Result<Option<OwnedFd>> {
    match openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The places that a call was granted, as they were when it was authorized. Cheap to clone; empty by default.
#[derive(Clone, Default)]
pub struct PinnedPaths(Arc<BTreeMap<PathBuf, Option<PinnedPath>>>);

/// What is known of a granted path.
#[derive(Debug)]
pub enum PinState<'a> {
    /// It wasn't held: whoever starts the child looks it up.
    Unknown,
    /// It was something else already when it was to be held.
    Changed,
    /// This is it.
    Is(&'a PinnedPath),
}

impl PinnedPaths {
    /// Opens places, of which each has to be what was judged. At most [`limits::HELD_PLACES_MAX`] are held.
    pub fn hold<'a>(judged: impl IntoIterator<Item = &'a RealPath>) -> PinnedPaths {
        let mut places = BTreeMap::new();
        for path in judged {
            if places.len() >= limits::HELD_PLACES_MAX {
                break;
            }
            if !places.contains_key(&path.real) {
                let place = PinnedPath::open(&path.real).ok().filter(|place| place.is(path));
                places.insert(path.real.clone(), place);
            }
        }
        PinnedPaths(Arc::new(places))
    }

    /// What a real path was.
    pub fn place(&self, path: &Path) -> PinState<'_> {
        match self.0.get(path) {
            None => PinState::Unknown,
            Some(None) => PinState::Changed,
            Some(Some(place)) => PinState::Is(place),
        }
    }
}

impl fmt::Debug for PinnedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::resolve_path;
    use super::*;

    #[test]
    fn a_place_stays_what_was_judged() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join("file"), "mine").unwrap();
        let judged = |name: &str| resolve_path(&root, Path::new(name)).unwrap();
        let (file, new) = (judged("file"), judged("a/b"));
        let held = PinnedPaths::hold([&file, &new]);
        let place = |path: &str| match held.place(&root.join(path)) {
            PinState::Is(place) => (place.rest().to_owned(), place.itself().is_some()),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(place("file"), ("file".into(), true));
        assert_eq!(place("a/b"), ("a/b".into(), false));
        assert!(matches!(held.place(&root.join("other")), PinState::Unknown));

        // Another file, a link, or something where there was nothing: not what was judged.
        fs::rename(root.join("file"), root.join("moved")).unwrap();
        fs::write(root.join("file"), "evil").unwrap();
        symlink("moved", root.join("a")).unwrap();
        let held = PinnedPaths::hold([&file, &new]);
        for path in ["file", "a/b"] {
            assert!(matches!(held.place(&root.join(path)), PinState::Changed), "{path}");
        }
    }
}
