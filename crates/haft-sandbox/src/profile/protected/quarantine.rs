//! Takes away what a command put under a protected name, and puts back what was there.
//!
//! The content is first renamed to an inert name where it is, which is atomic, and then copied to the state
//! directory: a process that has the file open writes to nothing that counts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use haft::sync::lock;

use super::snapshot::LeafContent;
use crate::profile::recovered_files::RecoveredFiles;
use crate::profile::{display_path, limits, undo};

/// Where what a session takes away is kept.
pub(super) struct QuarantineFolder {
    recovered: RecoveredFiles,
    /// Made with the first file, with how many there are.
    folder: Mutex<Option<(PathBuf, usize)>>,
}

/// Where something is that was taken away.
pub(super) enum RemovedContent {
    Kept(PathBuf),
    /// A symlink, which holds nothing but its target.
    Symlink(PathBuf),
    /// A pipe, a socket or a device.
    Special,
}

impl QuarantineFolder {
    pub(super) fn new(caches: &Path) -> QuarantineFolder {
        QuarantineFolder { recovered: RecoveredFiles::beside(caches), folder: Mutex::default() }
    }

    /// Takes away what is at a path.
    pub(super) fn take(&self, path: &Path) -> io::Result<RemovedContent> {
        let aside = undo::rename_aside(path)?;
        let kind = aside.symlink_metadata()?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            let target = fs::read_link(&aside);
            undo::remove_entry(&aside)?;
            return Ok(target.map_or(RemovedContent::Special, RemovedContent::Symlink));
        }
        let kept = match undo::open_file(&aside) {
            Ok(file) => self.keep(path, &file),
            Err(_) if aside.is_dir() => Ok(self.recovered.keep("protected", &aside)),
            Err(error) => Err(error),
        };
        // What can't be copied stays under the name that nothing obeys.
        let Ok(kept) = kept else { return Ok(RemovedContent::Kept(aside)) };
        match undo::remove_entry(&aside) {
            Err(_) if undo::is_there(&aside) => Ok(RemovedContent::Kept(aside)),
            _ => Ok(RemovedContent::Kept(kept)),
        }
    }

    /// Copies a file, so that it is another one for whoever has it open.
    fn keep(&self, path: &Path, file: &File) -> io::Result<PathBuf> {
        let mut folder = lock(&self.folder);
        if folder.is_none() {
            *folder = Some((self.recovered.place("protected")?, 0));
        }
        let (folder, count) = folder.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let is_too_much =
            *count >= limits::QUARANTINED_MAX || file.metadata()?.len() > limits::QUARANTINED_BYTES_MAX;
        if is_too_much {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        *count += 1;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let to = folder.join(format!("{count}-{name}"));
        io::copy(&mut &*file, &mut File::create_new(&to)?)?;
        Ok(to)
    }
}

/// Puts content at a path where nothing is, with the folders that lead to it from `root`.
pub(super) fn restore_content(root: &Path, path: &Path, content: &LeafContent) -> io::Result<()> {
    let mut folders: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| *folder != root).collect();
    folders.reverse();
    for folder in folders {
        if !folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            undo::make_folder(folder)?;
        }
    }
    match content {
        LeafContent::File { bytes, executable } => {
            undo::write_new(path, bytes, if *executable { 0o755 } else { 0o644 })
        }
        LeafContent::Symlink(target) => undo::make_symlink(path, target),
        LeafContent::LargeFile { .. } | LeafContent::Other => {
            Err(io::Error::other("its content was not kept"))
        }
    }
}

/// The message for the user: what was removed and restored.
pub(super) fn describe_outcome(
    taken: Option<&io::Result<RemovedContent>>,
    restored: Option<io::Result<()>>,
) -> String {
    let taken = taken.map(|taken| match taken {
        Ok(RemovedContent::Kept(kept)) => {
            format!("it was taken away and is kept in `{}`", display_path(kept))
        }
        Ok(RemovedContent::Special) => "it was no file, and was removed".to_owned(),
        Ok(RemovedContent::Symlink(target)) => {
            format!("it was a symlink to `{}`, and was removed", display_path(target))
        }
        Err(error) => format!("it can't be taken away: {error}; remove it"),
    });
    let restored = restored.map(|restored| match restored {
        Ok(()) => "what was there before was put back".to_owned(),
        Err(error) => format!("what was there before can't be put back: {error}"),
    });
    taken.into_iter().chain(restored).collect::<Vec<_>>().join("; ")
}
