//! Contents that a program outside of the session writes under protected names, as the user told it to.
//!
//! `haft mcp add` writes `.mcp.json` while a session of another process may run a command there, which would
//! take that for the command's. So what is about to be written is announced first: by a file in the state
//! directory whose name is a hash of path and content.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{limits, make_private};

fn approved_folder(caches: &Path) -> PathBuf {
    caches.join("approved")
}

fn file_name(path: &Path, content: &[u8]) -> String {
    let path = path.as_os_str().as_bytes();
    let hash = Sha256::new_with_prefix(path).chain_update([0]).chain_update(content).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Announces that the user wants this content at a path, so that no session takes it for a command's.
/// `caches` is that of [`ProfileConfig`](super::ProfileConfig).
///
/// # Errors
/// What the file system says.
///
/// ```
/// let (state, work) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// haft_sandbox::approve_content(state.path(), &work.path().join(".mcp.json"), b"{}")?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn approve_content(caches: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = approved_folder(caches);
    make_private(&folder)?;
    let entries: Vec<PathBuf> = fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
    if entries.len() >= limits::APPROVALS_MAX {
        entries.iter().for_each(|path| drop(fs::remove_file(path)));
    }
    let real = path.parent().and_then(|parent| parent.canonicalize().ok());
    let real = real.zip(path.file_name()).map_or_else(|| path.to_owned(), |(parent, name)| parent.join(name));
    File::create(folder.join(file_name(&real, content))).map(drop)
}

pub(super) fn is_approved(caches: &Path, path: &Path, content: Option<&[u8]>) -> bool {
    content.is_some_and(|content| approved_folder(caches).join(file_name(path, content)).exists())
}
