//! What protected names hold, read from the disk.
//!
//! Folders and files that have not changed since the last look are not read again. The time of a change is
//! too coarse to tell two changes apart that follow each other at once, so it counts only once it is a few
//! seconds old.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_protected::{ProtectionClass, find_for_commands, leads_to_name, may_begin};
use sha2::{Digest as _, Sha256};

use crate::profile::nested_repos::is_fresh;
use crate::profile::{limits, open_plain, undo};

/// What is at a protected path. Two that are equal do the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeafContent {
    File {
        bytes: Arc<[u8]>,
        executable: bool,
    },
    /// Too large to be kept.
    LargeFile {
        digest: [u8; 32],
        executable: bool,
    },
    Symlink(PathBuf),
    /// A pipe, a socket, a device, or a file that can't be read.
    Other,
}

/// One look at all protected names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameSnapshot {
    entries: BTreeMap<PathBuf, SnapshotEntry>,
    /// Names that hold more than can be compared.
    pub(super) too_large: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
struct SnapshotEntry {
    /// Device, number, and when it last changed.
    stamp: (u64, u64, i64, i64),
    /// It had changed just before.
    fresh: bool,
    class: ProtectionClass,
    /// It is the name itself, and not something in a protected folder.
    is_name: bool,
    kind: EntryKind,
}

#[derive(Clone, Debug)]
enum EntryKind {
    /// The protected names in it.
    Folder(Vec<OsString>),
    Leaf(LeafContent),
}

/// What a path below a root is to the table.
struct NameProtection {
    class: ProtectionClass,
    is_name: bool,
}

impl NameProtection {
    /// None for what isn't protected. A folder on the way to a name such as `.github/workflows` is: a symlink
    /// there replaces it.
    fn find(relative: &Path) -> Option<NameProtection> {
        if let Some(found) = find_for_commands(relative) {
            let is_name = found.components == relative.components().count();
            return Some(NameProtection { class: found.row.class, is_name });
        }
        leads_to_name(relative).then_some(NameProtection { class: ProtectionClass::Held, is_name: false })
    }
}

/// Whether a path, relative to a folder at whose top names count, is protected or leads to such a name.
pub(super) fn is_or_leads_to_name(relative: &Path) -> bool {
    NameProtection::find(relative).is_some()
}

/// Whether content under such a path is undone at once.
pub(super) fn is_held(relative: &Path) -> bool {
    NameProtection::find(relative).is_some_and(|found| found.class == ProtectionClass::Held)
}

impl NameSnapshot {
    /// Looks at protected names in these folders, and at these other paths. What hasn't changed is taken from
    /// before.
    pub(super) fn take(roots: &[PathBuf], others: &BTreeSet<PathBuf>, before: &NameSnapshot) -> NameSnapshot {
        let mut taken = NameSnapshot::default();
        for root in roots {
            taken.add(root, Path::new(""), before, &mut 0);
        }
        for path in others {
            if let (Some(root), Some(name)) = (path.parent(), path.file_name()) {
                taken.add(root, Path::new(name), before, &mut 1);
            }
        }
        taken
    }

    /// What was at these paths at another time.
    pub(super) fn from_leaves(leaves: impl IntoIterator<Item = (PathBuf, LeafContent)>) -> NameSnapshot {
        let entry = |content| SnapshotEntry {
            stamp: (0, 0, 0, 0),
            fresh: true,
            class: ProtectionClass::Held,
            is_name: false,
            kind: EntryKind::Leaf(content),
        };
        let entries = leaves.into_iter().map(|(path, content)| (path, entry(content))).collect();
        NameSnapshot { entries, too_large: BTreeSet::new() }
    }

    fn add(&mut self, root: &Path, relative: &Path, before: &NameSnapshot, room: &mut usize) {
        let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) };
        let is_root = path == root;
        let Ok(metadata) = path.symlink_metadata() else { return };
        let protection = NameProtection::find(relative);
        if protection.is_none() && !is_root {
            return;
        }
        let (class, is_name) =
            protection.map_or((ProtectionClass::Held, false), |found| (found.class, found.is_name));
        let begins_only = !is_root && !is_name && find_for_commands(relative).is_none();
        let stamp = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        let known = before.entries.get(&path).filter(|known| known.stamp == stamp && !known.fresh);
        let fresh = is_fresh(metadata.ctime());
        let kind = if metadata.is_dir() {
            let names = match known.map(|known| &known.kind) {
                Some(EntryKind::Folder(names)) => names.clone(),
                _ => protected_names_in(&path, relative),
            };
            for name in &names {
                if is_root {
                    *room = limits::PROTECTED_ENTRIES_MAX;
                }
                let Some(left) = room.checked_sub(1) else {
                    self.too_large.extend(name_of(root, relative));
                    break;
                };
                *room = left;
                self.add(root, &relative.join(name), before, room);
            }
            EntryKind::Folder(names)
        } else if begins_only && !metadata.is_symlink() {
            return;
        } else {
            match known.map(|known| &known.kind) {
                Some(EntryKind::Leaf(content)) => EntryKind::Leaf(content.clone()),
                _ => EntryKind::Leaf(LeafContent::read(&path, &metadata)),
            }
        };
        self.entries.insert(path, SnapshotEntry { stamp, fresh, class, is_name, kind });
    }

    /// Files and symlinks.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (&Path, &LeafContent)> {
        self.entries.iter().filter_map(|(path, entry)| match &entry.kind {
            EntryKind::Leaf(content) => Some((path.as_path(), content)),
            EntryKind::Folder(_) => None,
        })
    }

    pub(super) fn leaf(&self, path: &Path) -> Option<&LeafContent> {
        match &self.entries.get(path)?.kind {
            EntryKind::Leaf(content) => Some(content),
            EntryKind::Folder(_) => None,
        }
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.entries.contains_key(path)
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        matches!(self.entries.get(path), Some(SnapshotEntry { kind: EntryKind::Folder(_), .. }))
    }

    /// Takes what is at these paths from another look.
    pub(super) fn adopt(&mut self, other: &NameSnapshot, is_taken: impl Fn(&Path) -> bool) {
        self.entries.retain(|path, _| !is_taken(path));
        let taken = other.entries.iter().filter(|(path, _)| is_taken(path));
        self.entries.extend(taken.map(|(path, entry)| (path.clone(), entry.clone())));
    }

    /// Takes these for what is at all paths that count, and leaves those that are the same.
    pub(super) fn adopt_leaves(
        &mut self,
        leaves: BTreeMap<PathBuf, LeafContent>,
        counts: impl Fn(&Path) -> bool,
    ) {
        let is_same = |path: &PathBuf, entry: &SnapshotEntry| match &entry.kind {
            EntryKind::Leaf(content) => leaves.get(path) == Some(content),
            EntryKind::Folder(_) => true,
        };
        self.entries.retain(|path, entry| !counts(path) || is_same(path, entry));
        for (path, entry) in NameSnapshot::from_leaves(leaves).entries {
            if counts(&path) {
                self.entries.entry(path).or_insert(entry);
            }
        }
    }

    /// Names of class *held* that exist, and names that hold too much.
    pub(super) fn held_names(&self) -> impl Iterator<Item = &PathBuf> {
        let is_held = |entry: &SnapshotEntry| entry.is_name && entry.class == ProtectionClass::Held;
        let held = self.entries.iter().filter(move |(_, entry)| is_held(entry)).map(|(path, _)| path);
        held.chain(&self.too_large)
    }
}

/// The name that a path lies in.
fn name_of(root: &Path, relative: &Path) -> Option<PathBuf> {
    let found = find_for_commands(relative)?;
    Some(root.join(found.top(relative)))
}

fn protected_names_in(folder: &Path, relative: &Path) -> Vec<OsString> {
    // A command may have closed it to hide something.
    let entries = undo::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let mut names: Vec<OsString> = if relative.as_os_str().is_empty() {
        names.filter(|name| may_begin(&name.to_string_lossy())).collect()
    } else {
        names.collect()
    };
    names.retain(|name| NameProtection::find(&relative.join(name)).is_some());
    names.sort();
    names
}

impl LeafContent {
    pub(super) fn read(path: &Path, metadata: &fs::Metadata) -> LeafContent {
        if metadata.is_symlink() {
            return fs::read_link(path).map_or(LeafContent::Other, LeafContent::Symlink);
        }
        let Some(mut file) = open_plain(path) else { return LeafContent::Other };
        let executable = metadata.mode() & 0o111 != 0;
        let mut bytes = Vec::new();
        let read = file.by_ref().take(limits::PROTECTED_BYTES_MAX + 1).read_to_end(&mut bytes);
        match read {
            Err(_) => LeafContent::Other,
            Ok(read) if read as u64 <= limits::PROTECTED_BYTES_MAX => {
                LeafContent::File { bytes: bytes.into(), executable }
            }
            Ok(_) => {
                let mut digest = Sha256::new_with_prefix(&bytes);
                let mut chunk = vec![0; 1 << 16];
                while let Ok(read @ 1..) = file.read(&mut chunk) {
                    digest.update(&chunk[..read]);
                }
                LeafContent::LargeFile { digest: digest.finalize().into(), executable }
            }
        }
    }

    /// What git stores of it.
    pub(super) fn blob(&self) -> Option<&[u8]> {
        use std::os::unix::ffi::OsStrExt as _;
        match self {
            LeafContent::File { bytes, .. } => Some(bytes),
            LeafContent::Symlink(target) => Some(target.as_os_str().as_bytes()),
            LeafContent::LargeFile { .. } | LeafContent::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(snapshot: &NameSnapshot, root: &Path) -> Vec<String> {
        let relative = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        snapshot.leaves().map(|(path, _)| relative(path)).collect()
    }

    #[test]
    fn protected_names_are_found_and_plain_work_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in [
            ".vscode/tasks.json",
            ".VSCode2/tasks.json",
            ".github/workflows/ci.yml",
            ".github/CODEOWNERS",
            ".claude/settings.json",
            ".claude/worktrees/a/.vscode/tasks.json",
            ".cargo/config.toml",
            ".cargo/registry/index",
            "x.code-workspace",
            "sub/.vscode/tasks.json",
            "sub/.envrc",
            "src/main.rs",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        std::os::unix::fs::symlink("src", root.join(".hg")).unwrap();
        let others = BTreeSet::from([root.join("sub/.envrc"), root.join("none/.envrc")]);
        let roots = [root.clone()];
        let first = NameSnapshot::take(&roots, &others, &NameSnapshot::default());
        let expected = [
            ".cargo/config.toml",
            ".claude/settings.json",
            ".github/workflows/ci.yml",
            ".hg",
            ".vscode/tasks.json",
            "sub/.envrc",
            "x.code-workspace",
        ];
        assert_eq!(paths(&first, &root), expected);
        let held: Vec<String> =
            first.held_names().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect();
        assert_eq!(held, [".claude", ".vscode", "sub/.envrc", "x.code-workspace"]);
        // However quickly a change follows.
        for content in ["1", "2", "3"] {
            fs::write(root.join(".vscode/tasks.json"), content).unwrap();
            let next = NameSnapshot::take(&roots, &others, &first);
            assert_eq!(next.leaf(&root.join(".vscode/tasks.json")).unwrap().blob(), Some(content.as_bytes()));
        }
    }

    #[test]
    fn a_folder_with_too_much_in_it_is_known_as_that() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join(".idea")).unwrap();
        for number in 0..=limits::PROTECTED_ENTRIES_MAX {
            fs::write(root.join(".idea").join(number.to_string()), "").unwrap();
        }
        let taken =
            NameSnapshot::take(std::slice::from_ref(&root), &BTreeSet::new(), &NameSnapshot::default());
        assert_eq!(taken.too_large, BTreeSet::from([root.join(".idea")]));
    }
}
