//! Takes away what a command put under a protected name, and puts back what was there.
//!
//! The content is first renamed to an inert name where it is, which is atomic, and then copied to the state directory: a
//! process that has the file open writes to nothing that counts.

use std::io;
use std::path::{Path, PathBuf};

use super::snapshot::Content;
use crate::profile::recovered::Recovered;
use crate::profile::{shown, undo};

/// Where something is that was taken away.
pub(super) enum Taken {
    Kept(PathBuf),
    /// A symlink, which holds nothing but its target.
    Symlink(PathBuf),
}

/// Takes away what is at a path.
pub(super) fn take(path: &Path, recovered: &Recovered) -> io::Result<Taken> {
    let aside = undo::rename_aside(path)?;
    if let Ok(target) = std::fs::read_link(&aside) {
        undo::remove(&aside)?;
        return Ok(Taken::Symlink(target));
    }
    let name = path.file_name().unwrap_or_default();
    let kept = match undo::open_file(&aside) {
        Ok(file) => recovered.keep_copy("protected", name, &file),
        Err(_) if aside.is_dir() => Ok(recovered.keep("protected", &aside)),
        Err(error) => Err(error),
    };
    // What can't be copied stays under the name that nothing obeys.
    let Ok(kept) = kept else { return Ok(Taken::Kept(aside)) };
    match undo::remove(&aside) {
        Err(_) if undo::is_there(&aside) => Ok(Taken::Kept(aside)),
        _ => Ok(Taken::Kept(kept)),
    }
}

/// Puts content at a path where nothing is, with the folders that lead to it from `root`.
pub(super) fn restore(root: &Path, path: &Path, content: &Content) -> io::Result<()> {
    let mut folders: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| *folder != root).collect();
    folders.reverse();
    for folder in folders {
        if !folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            undo::make_folder(folder)?;
        }
    }
    match content {
        Content::File { bytes, executable } => {
            undo::write_new(path, bytes, if *executable { 0o755 } else { 0o644 })
        }
        Content::Symlink(target) => undo::link(path, target),
        Content::LargeFile { .. } | Content::Other => Err(io::Error::other("its content was not kept")),
    }
}

/// What was done, in words for the user.
pub(super) fn describe(taken: Option<io::Result<Taken>>, restored: Option<io::Result<()>>) -> String {
    let taken = taken.map(|taken| match taken {
        Ok(Taken::Kept(kept)) => format!("it was taken away and is kept in `{}`", shown(&kept)),
        Ok(Taken::Symlink(target)) => format!("it was a symlink to `{}`, and was removed", shown(&target)),
        Err(error) => format!("it can't be taken away: {error}; remove it"),
    });
    let restored = restored.map(|restored| match restored {
        Ok(()) => "what was there before was put back".to_owned(),
        Err(error) => format!("what was there before can't be put back: {error}"),
    });
    taken.into_iter().chain(restored).collect::<Vec<_>>().join("; ")
}
