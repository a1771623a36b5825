//! What a session has seen of files: the memory that `Read`, `Write` and `Edit` share.
//!
//! A file that was read and has changed since may not be what the model thinks it is. It is remembered by
//! session and path, and by its identity, so that a second name of it is the same file. What counts is the
//! content: a file that was only touched has not changed. Where only a part was read the content isn't known,
//! and time, length and identity are compared instead.
//!
//! Once all of a file was known and it has changed, only all of it makes it known again: pages from the first
//! line to the end. One page tells nothing about the rest.
//!
//! What was never read may still be replaced where a host has no memory between calls, as a single
//! `haft call` has none; a host that has one says so ([`ReadTracker::reads_first`]). The memory has a bound;
//! what was not used for longest is forgotten, and then counts as never read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use haft::Context;
use haft::files::{Bytes, FileId, FileKind, FileMetadata};
use haft::sync::lock;
use serde_json::{Value, json};
use twox_hash::xxhash3_128::Hasher;

use crate::checkpoints::CheckpointStore;
use crate::paths;

/// How many files are remembered, over all sessions.
const FILES_MAX: usize = 4_096;

/// The memory of what sessions have seen, and of what files were before each change. Clones share it.
#[derive(Clone, Default)]
pub struct ReadTracker {
    memory: Arc<Mutex<TrackerMemory>>,
    checkpoints: CheckpointStore,
    reads_first: bool,
}

#[derive(Default)]
struct TrackerMemory {
    files: HashMap<TrackerKey, FileRecord>,
    /// Other names of what is in `files`.
    names: HashMap<(Arc<str>, FileId), PathBuf>,
    /// Grows with every use.
    clock: u64,
    /// What is new since somebody asked; nothing is noted before.
    news: Option<HashSet<TrackerKey>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct TrackerKey {
    session: Arc<str>,
    path: PathBuf,
}

struct FileRecord {
    id: FileId,
    what: SeenContent,
    used: u64,
}

/// What was seen of a file. What is known of all of it stays until all of it is known again.
#[derive(Clone, PartialEq, Debug, Default)]
struct SeenContent {
    /// All of it, as it was then.
    whole: Option<ContentHash>,
    /// That is what the session's last change left, so the checkpoints have its bytes.
    ours: bool,
    /// The last part that was read.
    part: Option<SeenPart>,
}

#[derive(Clone, PartialEq, Debug)]
struct SeenPart {
    /// How the file was then, but for its mode: that is no content.
    then: FileMetadata,
    /// So many lines were read from the first one on, none left out.
    lines: u64,
}

/// A part of a file that `Read` has shown.
pub(crate) struct ShownPage {
    /// Its first line, counted from 1, and the one after its last.
    pub(crate) first: u64,
    pub(crate) next: u64,
    /// The content of the file, if the page goes to its end.
    pub(crate) content: Option<ContentHash>,
}

/// A content, by length and hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ContentHash {
    len: u64,
    hash: u128,
}

impl ContentHash {
    pub(crate) fn from_bytes(bytes: &[u8]) -> ContentHash {
        ContentHash { len: bytes.len() as u64, hash: Hasher::oneshot(bytes) }
    }
}

/// A content that is read in pieces; how it is cut makes no difference.
///
/// It tells contents apart that differ by accident; nobody gains anything by making two alike, as an edit has
/// to find its text.
#[derive(Default)]
pub(crate) struct ContentHasher {
    hasher: Hasher,
    len: u64,
}

impl ContentHasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.len += bytes.len() as u64;
    }

    pub(crate) fn content(&self) -> ContentHash {
        ContentHash { len: self.len, hash: self.hasher.finish_128() }
    }
}

impl ReadTracker {
    /// A memory that lasts: a file that the session has not read is not replaced.
    #[must_use]
    pub fn reads_first(mut self, reads_first: bool) -> ReadTracker {
        self.reads_first = reads_first;
        self
    }

    /// The same, with what files were before each change in the folders of sessions; the one with this id
    /// goes on.
    #[must_use]
    pub(crate) fn kept_in(
        mut self,
        shelf: &crate::session_folders::SessionFolders,
        continues: Option<&str>,
    ) -> ReadTracker {
        self.checkpoints = CheckpointStore::kept_in(shelf);
        if let Some(session) = continues {
            self.checkpoints.continues(session);
        }
        self
    }

    /// Whether a file has to be read before it is replaced, and wasn't.
    pub(crate) fn is_unread(&self, cx: &Context, path: &Path, now: &FileMetadata) -> bool {
        self.reads_first && now.len > 0 && self.lock().find(&TrackerKey::for_path(cx, path), now.id).is_none()
    }

    /// What a session has come to know of files since this was asked last, by path, in a form that
    /// [`ReadTracker::restore`] takes: for who keeps a session.
    pub fn news(&self, session: &str) -> BTreeMap<String, Value> {
        let mut memory = self.lock();
        let new = memory.news.replace(HashSet::new());
        let files = memory.files.iter().filter(|(key, _)| new.as_ref().is_none_or(|new| new.contains(key)));
        let files = files.filter(|(key, _)| &*key.session == session);
        files.filter_map(|(key, record)| Some((key.path.to_str()?.to_owned(), record.to_json()))).collect()
    }

    /// Knows again what an earlier process knew. What isn't understood is left out: it counts as never read.
    pub fn restore(&self, session: &str, files: &BTreeMap<String, Value>) {
        let mut memory = self.lock();
        for (path, value) in files {
            if let Some((id, sight)) = FileRecord::of_json(value) {
                memory.put(TrackerKey { session: session.into(), path: path.into() }, id, sight);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, TrackerMemory> {
        lock(&self.memory)
    }

    /// What files were before each change.
    pub(crate) fn checkpoints(&self) -> &CheckpointStore {
        &self.checkpoints
    }

    /// The session has seen all of a file.
    pub(crate) fn whole(&self, cx: &Context, path: &Path, metadata: &FileMetadata, content: ContentHash) {
        let sight = SeenContent { whole: Some(content), ours: false, part: None };
        self.lock().put(TrackerKey::for_path(cx, path), metadata.id, sight);
    }

    /// The session has written all of a file, or knows all that it wrote into; the checkpoints were told.
    pub(crate) fn wrote(&self, cx: &Context, path: &Path, metadata: &FileMetadata, content: ContentHash) {
        let sight = SeenContent { whole: Some(content), ours: true, part: None };
        self.lock().put(TrackerKey::for_path(cx, path), metadata.id, sight);
    }

    /// What a file was when the session changed it last, if nothing says that it is another one by now. It
    /// may be one all the same: whoever builds on this compares before it writes.
    pub(crate) fn left(&self, cx: &Context, path: &Path, now: &FileMetadata) -> Option<Bytes> {
        // By its name: under another one it has other checkpoints.
        let sight = self.lock().files.get(&TrackerKey::for_path(cx, path))?.what.clone();
        let whole = sight.whole.filter(|whole| sight.ours && whole.len == now.len)?;
        self.checkpoints.tip(cx, path).filter(|tip| tip.len() as u64 == whole.len)
    }

    /// The session has seen a page of a file. Pages that follow each other to the end are the whole, if the
    /// file stayed the same; any other page tells nothing about the rest.
    ///
    /// Says whether the file is another one than the session saw before, as far as the page can tell.
    pub(crate) fn page(&self, cx: &Context, path: &Path, metadata: &FileMetadata, page: &ShownPage) -> bool {
        let metadata = &FileMetadata { mode: None, ..metadata.clone() };
        let mut memory = self.lock();
        let key = TrackerKey::for_path(cx, path);
        let mut sight = memory.find(&key, metadata.id).unwrap_or_default();
        let changed = match (sight.whole, &sight.part) {
            (_, Some(part)) => {
                part.then != *metadata && page.content.is_none_or(|now| sight.whole != Some(now))
            }
            (Some(seen), None) => page.content.map_or(metadata.len != seen.len, |now| now != seen),
            (None, None) => false,
        };
        let before = sight.part.take().filter(|part| part.then == *metadata).map_or(0, |part| part.lines);
        let follows = page.first <= before + 1;
        let lines = if follows { before.max(page.next - 1) } else { before };
        sight = match page.content {
            Some(content) if follows => SeenContent {
                ours: sight.ours && sight.whole == Some(content),
                whole: Some(content),
                part: None,
            },
            _ => SeenContent { part: Some(SeenPart { then: metadata.clone(), lines }), ..sight },
        };
        memory.put(key, metadata.id, sight);
        changed
    }

    /// Whether a file that the session has seen is another one now. What was never seen has not changed.
    pub(crate) fn has_changed(
        &self,
        cx: &Context,
        path: &Path,
        now: &FileMetadata,
        content: Option<ContentHash>,
    ) -> bool {
        let Some(sight) = self.lock().find(&TrackerKey::for_path(cx, path), now.id) else { return false };
        match (sight.whole, sight.part) {
            (Some(seen), _) => content != Some(seen),
            (None, part) => part.is_some_and(|part| part.then != FileMetadata { mode: None, ..now.clone() }),
        }
    }
}

impl TrackerKey {
    fn for_path(cx: &Context, path: &Path) -> TrackerKey {
        TrackerKey { session: cx.call().session_id().into(), path: paths::normalize_path(path, cx) }
    }
}

impl FileRecord {
    fn to_json(&self) -> Value {
        let part = self.what.part.as_ref().map(|part| {
            let modified = part.then.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            json!({
                "len": part.then.len,
                "modified": modified.map(|since| (since.as_secs(), since.subsec_nanos())),
                "lines": part.lines,
            })
        });
        let whole = self.what.whole.map(|content| (content.len, format!("{:032x}", content.hash)));
        json!({"id": [self.id.device, self.id.inode], "whole": whole, "part": part})
    }

    fn of_json(value: &Value) -> Option<(FileId, SeenContent)> {
        let id = FileId { device: value["id"][0].as_u64()?, inode: value["id"][1].as_u64()? };
        let whole = match &value["whole"] {
            Value::Null => None,
            whole => {
                // One in another form is that of no content: the file has to be read again.
                let hash = whole[1].as_str().and_then(|hash| u128::from_str_radix(hash, 16).ok());
                Some(ContentHash { len: whole[0].as_u64()?, hash: hash.unwrap_or_default() })
            }
        };
        let part = match &value["part"] {
            Value::Null => None,
            part => {
                let modified = &part["modified"];
                let nanos = modified[1].as_u64().and_then(|nanos| u32::try_from(nanos).ok());
                let since = modified[0].as_u64().zip(nanos);
                let modified = since.map(|(secs, nanos)| UNIX_EPOCH + Duration::new(secs, nanos));
                let then = FileMetadata {
                    kind: FileKind::File,
                    len: part["len"].as_u64()?,
                    modified,
                    id,
                    mode: None,
                };
                Some(SeenPart { then, lines: part["lines"].as_u64()? })
            }
        };
        Some((id, SeenContent { whole, ours: false, part }))
    }
}

impl TrackerMemory {
    fn find(&mut self, key: &TrackerKey, id: FileId) -> Option<SeenContent> {
        self.clock += 1;
        let by_name = self.files.contains_key(key).then(|| key.clone());
        let key = by_name.or_else(|| {
            let path = self.names.get(&(key.session.clone(), id))?.clone();
            Some(TrackerKey { session: key.session.clone(), path })
        })?;
        let record = self.files.get_mut(&key)?;
        record.used = self.clock;
        Some(record.what.clone())
    }

    fn put(&mut self, key: TrackerKey, id: FileId, what: SeenContent) {
        self.clock += 1;
        self.forget(&key);
        self.names.insert((key.session.clone(), id), key.path.clone());
        if let Some(news) = &mut self.news {
            news.insert(key.clone());
        }
        self.files.insert(key, FileRecord { id, what, used: self.clock });
        if self.files.len() > FILES_MAX {
            // A quarter at once, so that the search for the oldest is rare.
            let mut uses: Vec<u64> = self.files.values().map(|record| record.used).collect();
            let (_, limit, _) = uses.select_nth_unstable(FILES_MAX / 4);
            let limit = *limit;
            let old = self.files.iter().filter(|(_, record)| record.used <= limit);
            let old: Vec<TrackerKey> = old.map(|(key, _)| key.clone()).collect();
            old.iter().for_each(|key| self.forget(key));
        }
    }

    fn forget(&mut self, key: &TrackerKey) {
        if let Some(news) = &mut self.news {
            news.remove(key);
        }
        if let Some(record) = self.files.remove(key) {
            self.names.remove(&(key.session.clone(), record.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_the_same_however_it_was_cut() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for size in [1, 3, 7, 8, 64, 9_999] {
            let mut hash = ContentHasher::default();
            bytes.chunks(size).for_each(|chunk| hash.add(chunk));
            assert_eq!(hash.content(), ContentHash::from_bytes(&bytes), "{size}");
        }
        let mut seen = HashSet::from([ContentHash::from_bytes(&bytes), ContentHash::from_bytes(b"")]);
        for at in 0..300 {
            for change in [1, 0x80] {
                let mut other = bytes.clone();
                other[at] ^= change;
                assert!(seen.insert(ContentHash::from_bytes(&other)), "another byte at {at}");
                assert!(seen.insert(ContentHash::from_bytes(&other[..at + 1])), "cut after {at}");
            }
        }
        assert!(
            seen.insert(ContentHash::from_bytes(&[0; 31])) && seen.insert(ContentHash::from_bytes(&[0; 32]))
        );
    }

    /// What people do to a text: two letters, two pieces that change their places, one that moves.
    #[test]
    fn no_ordinary_change_goes_unnoticed() {
        let text: Vec<u8> =
            (0..6).flat_map(|n| format!("let total_{n} = 0x{:x};\n", 77 * n).into_bytes()).collect();
        let mut seen = HashSet::from([text.clone()]);
        let mut contents = HashSet::from([ContentHash::from_bytes(&text)]);
        let mut check = |other: Vec<u8>, what: std::fmt::Arguments<'_>| {
            let content = ContentHash::from_bytes(&other);
            if seen.insert(other) {
                assert!(contents.insert(content), "{what}");
            }
        };
        // Every third byte: all places within the words that are hashed at once.
        let bits = || (0..96).step_by(3).flat_map(|at| (0..8).map(move |bit| (at, 1_u8 << bit)));
        for (first, one) in bits() {
            for (second, two) in bits().filter(|(second, _)| *second > first) {
                let mut other = text.clone();
                other[first] ^= one;
                other[second] ^= two;
                check(other, format_args!("bits {one:#x} at {first} and {two:#x} at {second}"));
            }
        }
        for size in [1, 4, 8, 16, 32, 40] {
            for (a, b) in (0..4 * 64).map(|n| (n / 64, n % 64)).filter(|(a, b)| a + size <= *b) {
                let mut swapped = text.clone();
                (0..size).for_each(|at| swapped.swap(a + at, b + at));
                check(swapped, format_args!("{size} bytes at {a} and {b} swapped"));
                let mut moved = text.clone();
                moved[a..b + size].rotate_left(size);
                check(moved, format_args!("{size} bytes at {a} moved to {b}"));
            }
        }
    }

    fn sight() -> SeenContent {
        SeenContent { whole: Some(ContentHash::from_bytes(b"x")), ours: false, part: None }
    }

    #[test]
    fn the_memory_has_a_bound_and_forgets_what_is_old() {
        let mut memory = TrackerMemory::default();
        let key = |n: usize| TrackerKey { session: "s".into(), path: format!("/{n}").into() };
        let id = |n: usize| FileId { device: 1, inode: n as u64 };
        for n in 0..3 * FILES_MAX {
            memory.put(key(n), id(n), sight());
            assert!(memory.find(&key(0), id(0)).is_some(), "in use: {n}");
        }
        assert!(memory.files.len() <= FILES_MAX && memory.names.len() <= FILES_MAX);
        assert!(memory.find(&key(1), id(1)).is_none());
        assert!(memory.find(&key(3 * FILES_MAX - 1), id(0)).is_some());
    }

    #[test]
    fn what_one_process_knew_another_knows() {
        let (first, second) = (ReadTracker::default(), ReadTracker::default());
        let key = |path: &str| TrackerKey { session: "s".into(), path: path.into() };
        let id = FileId { device: 1, inode: 7 };
        let modified = Some(UNIX_EPOCH + Duration::new(5, 7));
        let then = FileMetadata { kind: FileKind::File, len: 3, modified, id, mode: None };
        let part = SeenContent { part: Some(SeenPart { then, lines: 2 }), ..SeenContent::default() };
        first.lock().put(key("/a"), id, sight());
        assert_eq!(first.news("s").len(), 1);
        assert!(first.news("s").is_empty() && first.news("t").is_empty());
        first.lock().put(key("/b"), id, part.clone());
        second.restore("s", &first.news("s"));
        second.restore("s", &BTreeMap::from([("/c".to_owned(), json!({"id": "x"}))]));
        assert_eq!(second.lock().find(&key("/b"), id), Some(part));
        assert!(second.lock().find(&key("/c"), FileId { device: 9, inode: 9 }).is_none());
    }

    #[test]
    fn another_name_is_the_same_file_in_the_same_session_only() {
        let mut memory = TrackerMemory::default();
        let key = |session: &str, path: &str| TrackerKey { session: session.into(), path: path.into() };
        let id = FileId { device: 1, inode: 7 };
        memory.put(key("s", "/a"), id, sight());
        assert!(memory.find(&key("s", "/b"), id).is_some());
        assert!(memory.find(&key("t", "/a"), id).is_none());
        assert!(memory.find(&key("s", "/b"), FileId { device: 1, inode: 8 }).is_none());
    }
}
