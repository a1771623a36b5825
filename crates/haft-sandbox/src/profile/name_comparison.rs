//! What protected names look like before a call and after it.
//!
//! Number and time of change say at once whether a file can have changed, and only then, or if it had changed
//! just before, it is read. What counts is content, kind and permissions: a file that was saved again
//! unchanged is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use haft::sync::lock;
use sha2::{Digest as _, Sha256};

use super::nested_repos::is_fresh;
use super::{limits, open_plain};

#[derive(Debug, Default)]
pub(super) struct NameWatch(Mutex<NameWatchState>);

#[derive(Debug, Default)]
struct NameWatchState {
    now: NameContents,
    /// What was new when changes were last asked for.
    new: BTreeSet<PathBuf>,
}

/// What is at some names and below.
#[derive(Debug, Default)]
pub(super) struct NameContents {
    seen: BTreeMap<PathBuf, EntryState>,
    /// There was more: a name that is missing here may have been there.
    cut: bool,
}

#[derive(Clone, Debug)]
struct EntryState {
    /// Device, number, and when it last changed.
    stamp: (u64, u64, i64, i64),
    /// It had changed just before, so that another change may not show in the stamp.
    fresh: bool,
    what: EntryContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum EntryContent {
    File { mode: u32, len: u64, hash: Option<[u8; 32]> },
    Folder { mode: u32 },
    Link(PathBuf),
    Other,
}

impl NameWatch {
    fn seen(&self) -> MutexGuard<'_, NameWatchState> {
        lock(&self.0)
    }

    /// Takes what is there now for what it should be.
    pub(super) fn refresh<'n>(&self, names: impl IntoIterator<Item = &'n PathBuf>) {
        let mut all = self.seen();
        *all = NameWatchState { now: NameContents::look(names, &all.now), new: BTreeSet::new() };
    }

    /// Takes what is at these names now for what it should be, and leaves the others.
    pub(super) fn learn<'n>(&self, names: impl IntoIterator<Item = &'n PathBuf>) {
        let names: Vec<&PathBuf> = names.into_iter().collect();
        let mut all = self.seen();
        let now = NameContents::look(names.iter().copied(), &all.now);
        all.now.seen.retain(|path, _| !names.iter().any(|name| path.starts_with(name)));
        all.now.seen.extend(now.seen);
        all.now.cut |= now.cut;
    }

    /// What has changed since, which is then known; but for names that a running command may write.
    pub(super) fn changed<'n>(
        &self,
        names: impl IntoIterator<Item = &'n PathBuf>,
        but: &[PathBuf],
    ) -> Vec<PathBuf> {
        let mut all = self.seen();
        let NameContents { seen, cut } = &all.now;
        let open = |path: &Path| but.iter().any(|open| path.starts_with(open));
        let mut now = NameContents::look(names.into_iter().filter(|name| !open(name)), &all.now);
        now.seen.extend(
            seen.iter().filter(|(path, _)| open(path)).map(|(path, seen)| (path.clone(), seen.clone())),
        );
        let cut = *cut || now.cut;
        let differs = |path: &&PathBuf| match (seen.get(*path), now.seen.get(*path)) {
            (Some(before), Some(now)) => before.what != now.what,
            // Which of too many are seen is chance.
            (before, now) => !cut && before.is_some() != now.is_some(),
        };
        let mut changed: Vec<PathBuf> = seen.keys().chain(now.seen.keys()).filter(differs).cloned().collect();
        changed.sort();
        changed.dedup();
        let new = changed.iter().filter(|path| !seen.contains_key(*path)).cloned().collect();
        *all = NameWatchState { now, new };
        changed
    }

    /// Whether something that has changed wasn't there before.
    pub(super) fn is_new(&self, path: &Path) -> bool {
        self.seen().new.contains(path)
    }
}

impl NameContents {
    /// What is there now; what hasn't changed since it was `known` isn't read again.
    pub(super) fn look<'n>(
        names: impl IntoIterator<Item = &'n PathBuf>,
        known: &NameContents,
    ) -> NameContents {
        let mut found = NameContents::default();
        let mut paths: Vec<PathBuf> = names.into_iter().cloned().collect();
        while let Some(path) = paths.pop() {
            if found.seen.len() >= limits::WATCHED_ENTRIES_MAX {
                found.cut = true;
                break;
            }
            let Ok(at) = path.symlink_metadata() else { continue };
            let same = known.seen.get(&path).filter(|known| known.stamp == file_stamp(&at) && !known.fresh);
            if at.is_dir() && same.is_some() {
                // The names in it are the same.
                let beneath =
                    known.seen.range::<Path, _>((Bound::Excluded(path.as_path()), Bound::Unbounded));
                let beneath =
                    beneath.map(|(beneath, _)| beneath).take_while(|beneath| beneath.starts_with(&path));
                paths.extend(beneath.filter(|beneath| beneath.parent() == Some(&path)).cloned());
            } else if at.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                let before = paths.len();
                paths.extend(entries.take(limits::WATCHED_ENTRIES_MAX).map(|entry| entry.path()));
                found.cut |= paths.len() - before == limits::WATCHED_ENTRIES_MAX;
            }
            let now = same.cloned().unwrap_or_else(|| EntryState::look(&path, at));
            found.seen.insert(path, now);
        }
        found
    }

    /// Whether nothing at all has happened to any of it.
    pub(super) fn is_untouched(&self, now: &NameContents) -> bool {
        let same = |((path, before), (other, now)): ((&PathBuf, &EntryState), (&PathBuf, &EntryState))| {
            path == other && before.stamp == now.stamp && before.what == now.what
        };
        !self.cut
            && !now.cut
            && self.seen.len() == now.seen.len()
            && self.seen.iter().zip(&now.seen).all(same)
    }
}

fn file_stamp(found: &fs::Metadata) -> (u64, u64, i64, i64) {
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}

impl EntryState {
    fn look(path: &Path, mut found: fs::Metadata) -> EntryState {
        // By its descriptor, so that stamp and content are of the same one.
        let file = if found.is_file() { open_plain(path) } else { None };
        if let Some(opened) = file.as_ref().and_then(|file| file.metadata().ok()) {
            found = opened;
        }
        let mode = found.mode() & 0o7777;
        let what = if found.is_file() {
            EntryContent::File { mode, len: found.len(), hash: file.and_then(hash_file) }
        } else if found.is_dir() {
            EntryContent::Folder { mode }
        } else if found.is_symlink() {
            EntryContent::Link(fs::read_link(path).unwrap_or_default())
        } else {
            EntryContent::Other
        };
        EntryState { stamp: file_stamp(&found), fresh: is_fresh(found.ctime()), what }
    }
}

fn hash_file(file: fs::File) -> Option<[u8; 32]> {
    let mut bytes = Vec::new();
    file.take(limits::HASHED_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_and_not_who_wrote_it() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = dir.path().join("hooks");
        fs::create_dir(&hooks).unwrap();
        fs::write(hooks.join("a"), "1").unwrap();
        let names = [hooks.clone(), dir.path().join("missing")];
        let watch = NameWatch::default();
        watch.refresh(&names);
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0]);
        fs::write(hooks.join("b"), "1").unwrap();
        fs::rename(hooks.join("b"), hooks.join("a")).unwrap();
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0], "another file with the same content");
        fs::write(hooks.join("a"), "2").unwrap();
        fs::write(hooks.join("new"), "").unwrap();
        fs::write(dir.path().join("missing"), "").unwrap();
        assert_eq!(
            watch.changed(&names, &[]),
            [hooks.join("a"), hooks.join("new"), dir.path().join("missing")]
        );
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0], "it is told once");
        // What may be written is no change, is not forgotten, and counts again once it may not.
        fs::write(dir.path().join("missing"), "more").unwrap();
        assert_eq!(watch.changed(&names, &names[1..]), [] as [PathBuf; 0]);
        watch.learn(&names[1..]);
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0]);
        fs::write(dir.path().join("missing"), "much more").unwrap();
        assert_eq!(watch.changed(&names, &[]), [dir.path().join("missing")]);
    }

    #[test]
    fn nobody_is_accused_where_there_is_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let names = [dir.path().join("hooks"), dir.path().join("config")];
        fs::create_dir(&names[0]).unwrap();
        fs::write(&names[1], "1").unwrap();
        for number in 0..limits::WATCHED_ENTRIES_MAX + 10 {
            fs::write(names[0].join(number.to_string()), "").unwrap();
        }
        let watch = NameWatch::default();
        watch.refresh(&names);
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0]);
        fs::write(names[0].join("new"), "").unwrap();
        assert_eq!(watch.changed(&names, &[]), [] as [PathBuf; 0]);
        fs::write(&names[1], "2").unwrap();
        assert_eq!(watch.changed(&names, &[]), [names[1].clone()]);
    }
}
