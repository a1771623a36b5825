//! Other names of files that are hidden.
//!
//! A mask lies over a name, and a file may have several (hard links). Where something hidden has more than
//! one, the working directories are looked through once more for the others. That is rare, so a session
//! without such files pays a look at those that are hidden and nothing else. Names that come later are the
//! user's doing: no command can make one, since it doesn't see the file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::limits;

#[derive(Debug, Default)]
pub(super) struct HardLinks {
    pub(super) names: Vec<PathBuf>,
    /// Why some may have been missed.
    pub(super) missed: Option<String>,
}

/// Device and number.
type InodeId = (u64, u64);

/// Other names in these folders of the files that are hidden, or lie in a folder that is.
pub(super) fn find_hard_links(hidden: &[PathBuf], roots: &[PathBuf]) -> HardLinks {
    let mut twins = HardLinks::default();
    let mut linked: BTreeSet<InodeId> = BTreeSet::new();
    // A folder with more files than that isn't one of secrets.
    visit_files(hidden, &[], |_, found| {
        if found.nlink() > 1 {
            linked.insert((found.dev(), found.ino()));
        }
    });
    if linked.is_empty() {
        return twins;
    }
    let mut names = Vec::new();
    let seen = visit_files(roots, hidden, |path, found| {
        if found.nlink() > 1 && linked.contains(&(found.dev(), found.ino())) {
            names.push(path.to_owned());
        }
    });
    if !seen {
        twins.missed = Some(format!("there are more than {} files to look at", limits::WALK_ENTRIES_MAX));
    }
    if names.len() > limits::MASKS_MAX {
        names.truncate(limits::MASKS_MAX);
        twins.missed = Some(format!("there are more than {} of them", limits::MASKS_MAX));
    }
    twins.names = names;
    twins
}

/// Gives each regular file at or below these paths, but for what lies at others. Whether that was all.
fn visit_files(roots: &[PathBuf], but: &[PathBuf], mut each: impl FnMut(&Path, &fs::Metadata)) -> bool {
    let but: BTreeSet<&Path> = but.iter().map(PathBuf::as_path).collect();
    let mut left: Vec<PathBuf> = roots.to_vec();
    let mut looked_at = 0;
    while let Some(path) = left.pop() {
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_file() {
            each(&path, &found);
        }
        if !found.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > limits::WALK_ENTRIES_MAX {
                return false;
            }
            let path = entry.path();
            let plain = entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir());
            if plain && !but.contains(&*path) {
                left.push(path);
            }
        }
    }
    true
}
