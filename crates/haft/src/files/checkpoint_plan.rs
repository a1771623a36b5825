//! Which files have to be kept before something that is known to overwrite or remove them.
//!
//! Who decides whether a call may do so unasked, and who keeps the files, make the same plan.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::RootExtent;

/// How many files are kept for one call.
pub const CHECKPOINT_FILES_MAX: usize = 500;
/// How many bytes are kept for one call.
pub const CHECKPOINT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many names are looked at in folders.
const ENTRIES_MAX: usize = 5_000;

/// Something that is known to be overwritten or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedChange<'p> {
    /// A file or a folder.
    pub path: &'p Path,
    /// The folder alone, or everything in it.
    pub extent: RootExtent,
    /// Only some of what is in the folder, and which isn't known.
    pub partial: bool,
}

/// The files that have to be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointPlan {
    /// Regular files that are there.
    pub files: Vec<PathBuf>,
    bytes: u64,
    entries: usize,
}

impl CheckpointPlan {
    /// What has to be kept of these places: a file, or everything in a folder. Nothing if some of it can't
    /// be: a symlink or a device, a file that can't be read, or too much. A folder of which only an unknown
    /// part changes is kept if all of it can be, and else left out: what is lost of it is as unknown as what
    /// a script does.
    pub fn new<'p>(places: impl IntoIterator<Item = PlannedChange<'p>>) -> Option<CheckpointPlan> {
        let mut plan = CheckpointPlan::default();
        let (partial, whole): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| place.partial);
        for place in whole {
            plan.add(place.path, place.extent)?;
        }
        for place in partial {
            let before = plan.clone();
            if plan.add(place.path, place.extent).is_none() {
                plan = before;
            }
        }
        plan.files.sort();
        plan.files.dedup();
        Some(plan)
    }

    fn add(&mut self, path: &Path, extent: RootExtent) -> Option<()> {
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            // Behind a file there is nothing.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Some(());
            }
            Err(_) => return None,
        };
        if found.is_file() {
            self.bytes = self.bytes.saturating_add(found.len());
            let fits = self.bytes <= CHECKPOINT_BYTES_MAX && self.files.len() < CHECKPOINT_FILES_MAX;
            let readable = access(path, Access::READ_OK).is_ok();
            self.files.push(path.to_owned());
            return (fits && readable).then_some(());
        }
        if !found.is_dir() {
            return None;
        }
        // What is in a folder stays if only the folder is named.
        let inside = (extent == RootExtent::Subtree).then(|| fs::read_dir(path));
        for entry in inside.transpose().ok()?.into_iter().flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return None;
            }
            self.add(&entry.ok()?.path(), extent)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_kept_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("d/e")).unwrap();
        for name in ["a", "d/b", "d/e/c"] {
            fs::write(at(name), "x").unwrap();
        }
        let check = |names: &[(&str, RootExtent)], expected: Option<&[&str]>| {
            let places: Vec<(PathBuf, RootExtent)> =
                names.iter().map(|(name, extent)| (at(name), *extent)).collect();
            let plan = CheckpointPlan::new(places.iter().map(|(path, extent)| PlannedChange {
                path,
                extent: *extent,
                partial: false,
            }));
            let expected = expected.map(|names| names.iter().map(|name| at(name)).collect::<Vec<_>>());
            assert_eq!(plan.map(|plan| plan.files), expected, "{names:?}");
        };
        check(&[("a", RootExtent::File), ("gone", RootExtent::Subtree)], Some(&["a"]));
        check(
            &[("d", RootExtent::Subtree), ("a", RootExtent::File), ("d/b", RootExtent::File)],
            Some(&["a", "d/b", "d/e/c"]),
        );
        check(&[("d", RootExtent::File)], Some(&[]));
        std::os::unix::fs::symlink("a", at("d/link")).unwrap();
        check(&[("d", RootExtent::Subtree)], None);
        check(&[("d/link", RootExtent::File)], None);
        let large = fs::File::create(at("large")).unwrap();
        large.set_len(CHECKPOINT_BYTES_MAX + 1).unwrap();
        check(&[("large", RootExtent::File)], None);
        let change = |path, partial| PlannedChange { path, extent: RootExtent::Subtree, partial };
        let (dir, a) = (dir.path(), at("a"));
        assert_eq!(CheckpointPlan::new([change(dir, false)]), None);
        let plan = CheckpointPlan::new([change(dir, true), change(&a, false)]);
        assert_eq!(plan.map(|plan| plan.files), Some(vec![a.clone()]), "an unknown part doesn't count");
    }
}
