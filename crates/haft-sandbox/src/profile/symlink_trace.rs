//! Where a path leads, and everything on the way that decides it.
//!
//! To hold a file isn't enough if the path that leads to it goes through a link: who retargets the link
//! decides what the path means. The same holds for a folder that is left by `..`. So a path is followed name
//! by name, as the kernel does, and each link and each such folder is remembered by its own real name.
//! Whoever holds the end holds these too.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// How many links the kernel follows.
const LINKS_MAX: usize = 40;

/// A path that was followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    /// What it means, with nothing in it that leads elsewhere.
    pub(super) end: PathBuf,
    /// Whether something is there.
    pub(super) there: bool,
    /// Links and folders on the way whose names decide it, beside the folders above these and above the end.
    pub(super) through: Vec<PathBuf>,
}

impl ResolvedPath {
    /// Whether nothing but folders above its end, and above where it begins, leads there.
    pub(super) fn is_straight(&self, from: &Path) -> bool {
        self.there && self.through.iter().all(|through| from.starts_with(through))
    }
}

/// Follows an absolute path. One that leads in a circle has no end.
pub(super) fn trace_symlinks(path: &Path) -> Option<ResolvedPath> {
    let mut way = ResolvedPath { end: PathBuf::from("/"), there: true, through: Vec::new() };
    let mut left: Vec<OsString> = components_reversed(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            if way.there {
                way.through.push(way.end.clone());
            }
            way.end.pop();
            continue;
        }
        let next = way.end.join(&name);
        let found = if way.there { next.symlink_metadata().ok() } else { None };
        match found {
            Some(found) if found.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return None;
                }
                let to = fs::read_link(&next).ok()?;
                way.through.push(next);
                if to.is_absolute() {
                    way.end = PathBuf::from("/");
                }
                left.extend(components_reversed(&to));
            }
            found => {
                way.there = found.is_some();
                way.end = next;
            }
        }
    }
    way.through.retain(|through| {
        !way.end.starts_with(through) || through.symlink_metadata().is_ok_and(|at| at.is_symlink())
    });
    way.through.sort();
    way.through.dedup();
    Some(way)
}

/// A path without `.` and `..`, whatever is there.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The names of a path, the last one first.
fn components_reversed(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut named: Vec<OsString> = named.collect();
    named.reverse();
    named
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_and_every_folder_that_is_left_again_is_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/hooks")).unwrap();
        fs::create_dir_all(root.join("foo/bar")).unwrap();
        symlink("real", root.join("two")).unwrap();
        symlink(root.join("two"), root.join("one")).unwrap();
        symlink("nowhere/x", root.join("late")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let through = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        let way = |path: &str| trace_symlinks(&root.join(path)).unwrap();
        assert!(way("real/hooks").is_straight(&root) && way("foo/../real").is_straight(&root.join("foo")));
        assert!(!way("foo/../real").is_straight(&root) && !way("one").is_straight(&root));
        let found = way("one/hooks");
        assert_eq!((found.end, found.there), (root.join("real/hooks"), true));
        assert_eq!(found.through, through(&["one", "two"]));
        let found = way("foo/bar/../../real");
        assert_eq!((found.end, found.there), (root.join("real"), true));
        assert_eq!(found.through, through(&["foo", "foo/bar"]));
        let found = way("late/y/../z");
        assert_eq!((found.end, found.there), (root.join("nowhere/x/z"), false));
        assert_eq!(found.through, through(&["late"]));
        assert_eq!(trace_symlinks(&root.join("circle/x")), None);
    }
}
