//! The repository of which a working directory is only a part.
//!
//! git looks for `.git` in the folders above, and takes every file for deleted that it doesn't see. So
//! commands see the whole work tree, and write of it the working directory and what git keeps. That shows
//! more than the user named, so there are limits: it is no home folder, no folder of the system, and no other
//! user's, and it ends where another file system begins.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::home::HIDDEN;
use super::system::SYSTEM;
use super::{ProfileConfig, is_of_the_kernel, is_too_wide, repository};

/// The tops of the repositories that working directories are parts of, as far as commands may see them.
pub(super) fn top_folders(config: &ProfileConfig) -> Vec<PathBuf> {
    let mut tops: Vec<PathBuf> =
        config.workspace.iter().filter_map(|workspace| top_of(workspace, config)).collect();
    tops.sort();
    tops.dedup();
    tops
}

fn top_of(workspace: &Path, config: &ProfileConfig) -> Option<PathBuf> {
    if workspace.join(".git").symlink_metadata().is_ok() || is_seen(workspace, config) {
        return None;
    }
    let top = repository::repository_above(workspace)?;
    let seen = config.workspace.iter().any(|other| top.starts_with(other));
    (!seen && may_be_shown(top, workspace, config)).then(|| top.to_owned())
}

/// Whether a working directory lies in another one, whose repository is known anyway.
fn is_seen(workspace: &Path, config: &ProfileConfig) -> bool {
    is_too_wide(workspace, config.home.as_deref()).is_some()
        || config.workspace.iter().any(|other| other != workspace && workspace.starts_with(other))
}

fn may_be_shown(top: &Path, workspace: &Path, config: &ProfileConfig) -> bool {
    let home = config.home.as_deref();
    let in_home = home.iter().flat_map(|home| HIDDEN.iter().map(|name| home.join(name)));
    let mut hidden = in_home.chain(config.own.iter().cloned());
    let is_system = SYSTEM.iter().any(|folder| top.starts_with(folder));
    let user = rustix::process::geteuid().as_raw();
    let device = workspace.metadata().map(|found| found.dev());
    let is_ours =
        |found: &Metadata| found.uid() == user && device.as_ref().is_ok_and(|device| *device == found.dev());
    let owned =
        |path: &Path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink() && is_ours(&found));
    let mut between = workspace.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
    is_too_wide(top, home).is_none()
        && !is_system
        && is_of_the_kernel(top).is_none()
        && !hidden.any(|hidden| top.starts_with(hidden))
        && owned(&top.join(".git"))
        && between.all(owned)
}
