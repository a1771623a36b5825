//! What files were before each change: the memory behind `Rewind`.
//!
//! The tools that change files tell it what was there and what is there now. Of each file it keeps one whole
//! text, the newest, and for every older version the part that differs, so a thousand small edits of a large
//! file cost little more than the file. A version is put together backwards from the newest, never from the
//! disk: what somebody else wrote meanwhile doesn't matter, and is kept as a version of its own.
//!
//! It lasts as long as the session: where that has a folder, what is recorded is written down there too
//! ([`log`]), and is there again when the session is continued. What outlives a session is the business of
//! version control. Of what commands change, only that is here which their text names. It has a bound; the
//! oldest changes are forgotten first.
//!
//! Numbers of changes are given once for all sessions: a number alone says which session it belongs to, so
//! that effects can be derived from a call that only names a number.

mod log;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::Context;
use haft::files::Bytes;
use haft::sync::lock;

use crate::paths;
use crate::session_folders::SessionFolders;

/// Bytes that are kept, over all sessions.
pub(crate) const BYTES_MAX: usize = 128 * 1024 * 1024;
/// Changes that are kept, over all sessions.
pub(crate) const CHANGES_MAX: usize = 10_000;
/// What a change costs beyond its bytes, roughly.
const CHANGE_BYTES: usize = 512;

/// What is in a file; nothing if there is none.
pub(crate) type FileText = Option<Bytes>;

/// The memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CheckpointStore {
    kept: Arc<Mutex<CheckpointMemory>>,
    shelf: SessionFolders,
}

impl std::fmt::Debug for CheckpointStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct CheckpointMemory {
    tracks: HashMap<TrackKey, FileTrack>,
    /// Of all sessions, oldest first.
    changes: VecDeque<FileChange>,
    /// How many were made; the next one has the number after it.
    made: u64,
    bytes: usize,
    /// Of each session that has lost some: the last one that was forgotten.
    forgotten: HashMap<Arc<str>, u64>,
    /// Sessions whose folder does not take any more: what was missed would be missing in the middle.
    unwritten: HashSet<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct TrackKey {
    session: Arc<str>,
    path: PathBuf,
}

/// One change of one file.
#[derive(Clone)]
pub(crate) struct FileChange {
    pub(crate) number: u64,
    pub(crate) session: Arc<str>,
    pub(crate) path: PathBuf,
    pub(crate) tool: &'static str,
    pub(crate) turn: u64,
    /// Its length before and after; nothing where there was no file.
    pub(crate) was: Option<usize>,
    pub(crate) is: Option<usize>,
    /// The version before it.
    version: u64,
    /// The name that the file had before, if it moved here.
    pub(crate) from: Option<PathBuf>,
    /// The mode that the file had, if it was deleted.
    mode: Option<u32>,
}

/// The versions of one file.
struct FileTrack {
    /// The number of the oldest.
    first: u64,
    /// Each gives a version from the one after it; the last one from the tip.
    deltas: VecDeque<VersionDelta>,
    /// The bytes in them.
    parts: usize,
    tip: FileText,
}

/// A version, as what differs from the one after it.
struct VersionDelta {
    absent: bool,
    prefix: usize,
    suffix: usize,
    middle: Box<[u8]>,
}

/// What going back would do to one file.
pub(crate) struct FileRestore {
    pub(crate) path: PathBuf,
    /// What it was.
    pub(crate) to: FileText,
    /// What the last change of the session made of it.
    pub(crate) last: FileText,
    /// The name that the file had, if it was moved to this one.
    pub(crate) from: Option<PathBuf>,
    /// The mode that it had when it was deleted, if it was.
    pub(crate) mode: Option<u32>,
}

impl CheckpointStore {
    fn lock(&self) -> MutexGuard<'_, CheckpointMemory> {
        lock(&self.kept)
    }

    /// The same, with what is recorded written down in the folders of sessions.
    pub(crate) fn kept_in(shelf: &SessionFolders) -> CheckpointStore {
        CheckpointStore { kept: Arc::default(), shelf: shelf.clone() }
    }

    /// Takes up what a session that is continued has written down.
    pub(crate) fn continues(&self, session: &str) {
        let Some(file) = self.shelf.file(session, log::FILE) else { return };
        let session: Arc<str> = session.into();
        let mut kept = self.lock();
        let kept = std::cell::RefCell::new(&mut *kept);
        let known = |path: &Path| {
            let key = TrackKey { session: session.clone(), path: path.to_owned() };
            kept.borrow().tracks.get(&key).and_then(|track| track.tip.clone())
        };
        let again = |entry: log::LogEntry| {
            let mut kept = kept.borrow_mut();
            match entry {
                log::LogEntry::Forgotten(number) => {
                    kept.made = kept.made.max(number);
                    kept.forgotten.insert(session.clone(), number);
                }
                log::LogEntry::More { number, more } => {
                    // One that was forgotten meanwhile needs nothing more.
                    let mut changes = kept.changes.iter_mut().rev();
                    if let Some(change) = changes.find(|change| change.number == number) {
                        change.add(more);
                    }
                }
                log::LogEntry::Change { number, path, tool, turn, was, is } => {
                    kept.made = number.checked_sub(1)?;
                    let key = TrackKey { session: session.clone(), path };
                    kept.record(key, tool, turn, was, is);
                }
            }
            Some(())
        };
        log::read_log(&file, again, known);
    }

    /// A tool has changed a file.
    pub(crate) fn record(&self, cx: &Context, tool: &'static str, path: &Path, was: FileText, is: FileText) {
        let key = TrackKey { session: cx.call().session_id().into(), path: paths::normalize_path(path, cx) };
        let mut kept = self.lock();
        let file = self.shelf.file(cx.call().session_id(), log::FILE);
        if let Some(file) = file.filter(|_| !kept.unwritten.contains(&key.session)) {
            let change = log::LoggedChange {
                number: kept.made + 1,
                path: &key.path,
                tool,
                turn: cx.call().turn(),
                known: kept.tracks.get(&key).and_then(|track| track.tip.as_deref()),
                was: was.as_deref(),
                is: is.as_deref(),
            };
            if change.append(&file).is_err() {
                kept.unwritten.insert(key.session.clone());
            }
        }
        kept.record(key, tool, cx.call().turn(), was, is);
    }

    /// What the session's last change left of a file.
    pub(crate) fn tip(&self, cx: &Context, path: &Path) -> FileText {
        let key = TrackKey { session: cx.call().session_id().into(), path: paths::normalize_path(path, cx) };
        self.lock().tracks.get(&key)?.tip.clone()
    }

    /// The last change of `to` was that a file moved there.
    pub(crate) fn moved(&self, cx: &Context, from: &Path, to: &Path) {
        self.more(cx, to, log::ChangeDetail::Moved(paths::normalize_path(from, cx)));
    }

    /// The last change of a file was that it was deleted, and it had this mode.
    pub(crate) fn had_mode(&self, cx: &Context, path: &Path, mode: u32) {
        self.more(cx, path, log::ChangeDetail::Mode(mode));
    }

    /// There is more to say of the last change of a file.
    fn more(&self, cx: &Context, path: &Path, more: log::ChangeDetail) {
        let (session, path) = (cx.call().session_id(), paths::normalize_path(path, cx));
        let mut kept = self.lock();
        let made =
            kept.changes.iter_mut().rev().find(|change| &*change.session == session && change.path == path);
        let Some(change) = made else { return };
        let number = change.number;
        change.add(more.clone());
        let file = self.shelf.file(session, log::FILE);
        if let Some(file) = file.filter(|_| !kept.unwritten.contains(session))
            && more.append(number, &file).is_err()
        {
            kept.unwritten.insert(session.into());
        }
    }

    /// The changes of a session, oldest first; and the last one that was forgotten.
    pub(crate) fn list(&self, session: &str) -> (Vec<FileChange>, Option<u64>) {
        let kept = self.lock();
        let changes = kept.changes.iter().filter(|change| &*change.session == session).cloned().collect();
        (changes, kept.forgotten.get(session).copied())
    }

    /// The first change that is undone together with this one. A file that moved is two changes, the old name
    /// that went and the new one that came; to undo the second alone would leave the file nowhere.
    pub(crate) fn begin(&self, number: u64) -> u64 {
        self.lock().begin(number)
    }

    /// The files that changed from this change on, in the session that it belongs to; and whether each was
    /// there before.
    pub(crate) fn files_since(&self, number: u64) -> BTreeMap<PathBuf, bool> {
        let kept = self.lock();
        let number = kept.begin(number);
        let Some(first) = kept.changes.iter().find(|change| change.number == number) else {
            return BTreeMap::new();
        };
        let mut files = BTreeMap::new();
        for change in kept.since(number, &first.session) {
            files.entry(change.path.clone()).or_insert(change.was.is_some());
        }
        files
    }

    /// What each file was before this change, of those that changed since.
    pub(crate) fn before(&self, session: &str, number: u64) -> Vec<FileRestore> {
        let kept = self.lock();
        let mut firsts: BTreeMap<&Path, &FileChange> = BTreeMap::new();
        for change in kept.since(number, session) {
            firsts.entry(&change.path).or_insert(change);
        }
        let restore = |(path, first): (&Path, &FileChange)| {
            let track = kept.tracks.get(&TrackKey { session: session.into(), path: path.to_owned() })?;
            let (to, last) = (track.version(first.version), track.tip.clone());
            let mode = kept
                .since(number, session)
                .filter(|change| change.path == path)
                .filter_map(|change| change.mode);
            let mode = mode.last();
            Some(FileRestore { path: path.to_owned(), to, last, from: first.from.clone(), mode })
        };
        firsts.into_iter().filter_map(restore).collect()
    }
}

impl FileChange {
    fn add(&mut self, more: log::ChangeDetail) {
        match more {
            log::ChangeDetail::Moved(from) => self.from = Some(from),
            log::ChangeDetail::Mode(mode) => self.mode = Some(mode),
        }
    }
}

impl CheckpointMemory {
    fn begin(&self, number: u64) -> u64 {
        let moved = self.changes.iter().find(|change| change.number == number);
        let Some((moved, from)) = moved.and_then(|moved| Some((moved, moved.from.as_ref()?))) else {
            return number;
        };
        let before = self.changes.iter().rev().skip_while(|change| change.number >= number);
        // Of the same call: what other sessions did may lie between.
        let same = before.filter(|change| change.session == moved.session);
        let mut same = same.take_while(|change| (change.tool, change.turn) == (moved.tool, moved.turn));
        same.find(|change| change.path == *from && change.is.is_none()).map_or(number, |gone| gone.number)
    }

    fn since(&self, number: u64, session: &str) -> impl Iterator<Item = &FileChange> {
        self.changes.iter().filter(move |change| change.number >= number && &*change.session == session)
    }

    fn record(&mut self, key: TrackKey, tool: &'static str, turn: u64, was: FileText, is: FileText) {
        self.made += 1;
        self.bytes -= self.tracks.get(&key).map_or(0, FileTrack::bytes);
        let track = self.tracks.entry(key.clone()).or_insert_with(|| FileTrack::beginning_with(was.clone()));
        if !same_text(track.tip.as_deref(), was.as_deref()) {
            // Somebody else has changed it since: that is a version too.
            track.push(was.clone());
        }
        let version = track.newest();
        track.push(is.clone());
        self.bytes += track.bytes() + CHANGE_BYTES;
        let TrackKey { session, path } = key;
        let (was, is) = (was.map(|was| was.len()), is.map(|is| is.len()));
        self.changes.push_back(FileChange {
            number: self.made,
            session,
            path,
            tool,
            turn,
            was,
            is,
            version,
            from: None,
            mode: None,
        });
        while self.bytes > BYTES_MAX || self.changes.len() > CHANGES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(change) = self.changes.pop_front() else {
            self.bytes = 0;
            return;
        };
        self.bytes -= CHANGE_BYTES;
        self.forgotten.insert(change.session.clone(), change.number);
        let key = TrackKey { session: change.session, path: change.path };
        let Some(track) = self.tracks.get_mut(&key) else { return };
        self.bytes -= track.bytes();
        track.forget_until(change.version);
        if track.deltas.is_empty() {
            drop(self.tracks.remove(&key))
        } else {
            self.bytes += track.bytes()
        }
        if self.changes.iter().all(|other| other.session != key.session) && self.forgotten.len() > CHANGES_MAX
        {
            self.forgotten.remove(&key.session);
        }
    }
}

impl FileTrack {
    fn beginning_with(tip: FileText) -> FileTrack {
        FileTrack { first: 0, deltas: VecDeque::new(), parts: 0, tip }
    }

    fn newest(&self) -> u64 {
        self.first + self.deltas.len() as u64
    }

    fn push(&mut self, new: FileText) {
        let delta = VersionDelta::between(self.tip.as_deref(), new.as_deref());
        self.parts += delta.middle.len();
        self.deltas.push_back(delta);
        self.tip = new;
    }

    fn version(&self, version: u64) -> FileText {
        let mut text = self.tip.clone();
        for at in (version..self.newest()).rev() {
            text = self.deltas[usize::try_from(at - self.first).ok()?].apply(text.as_deref());
        }
        text
    }

    fn forget_until(&mut self, version: u64) {
        while self.first <= version
            && let Some(delta) = self.deltas.pop_front()
        {
            self.parts -= delta.middle.len();
            self.first += 1;
        }
    }

    fn bytes(&self) -> usize {
        self.parts + self.tip.as_ref().map_or(0, |tip| tip.len())
    }
}

impl VersionDelta {
    fn between(old: Option<&[u8]>, new: Option<&[u8]>) -> VersionDelta {
        let Some(old) = old else {
            return VersionDelta { absent: true, prefix: 0, suffix: 0, middle: Box::default() };
        };
        let new = new.unwrap_or_default();
        let prefix = common_prefix(old, new);
        let suffix = common_suffix(&old[prefix..], &new[prefix..]);
        VersionDelta { absent: false, prefix, suffix, middle: old[prefix..old.len() - suffix].into() }
    }

    fn apply(&self, new: Option<&[u8]>) -> FileText {
        if self.absent {
            return None;
        }
        let new = new.unwrap_or_default();
        Some([&new[..self.prefix], &self.middle, &new[new.len() - self.suffix..]].concat().into())
    }
}

/// Whether two texts are the same; one that is shared needn't be looked at.
fn same_text(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    let is_shared = |(one, other): (&[u8], &[u8])| std::ptr::eq(one, other);
    one.zip(other).is_some_and(is_shared) || one == other
}

/// How many bytes are compared at once, before one by one.
const BLOCK: usize = 256;

/// How many bytes two texts have in common at the beginning.
pub(crate) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let same = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    same + one[same..].iter().zip(&other[same..]).take_while(|(one, other)| one == other).count()
}

/// How many bytes two texts have in common at the end.
pub(crate) fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.rchunks_exact(BLOCK).zip(other.rchunks_exact(BLOCK));
    let same = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    let (one, other) = (&one[..one.len() - same], &other[..other.len() - same]);
    same + one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> TrackKey {
        TrackKey { session: "s".into(), path: path.into() }
    }

    fn text(text: &str) -> FileText {
        Some(text.to_owned().into())
    }

    #[test]
    fn a_version_is_what_it_was_however_it_changed() {
        let versions: [Option<&str>; 9] = [
            None,
            Some(""),
            Some("one\ntwo\n"),
            Some("one\n2\n"),
            None,
            Some("other"),
            Some("other other"),
            Some("other"),
            Some("ooother"),
        ];
        let mut kept = CheckpointMemory::default();
        for pair in versions.windows(2) {
            kept.record(key("/f"), "Edit", 1, pair[0].and_then(text), pair[1].and_then(text));
        }
        let all = CheckpointStore { kept: Arc::new(Mutex::new(kept)), shelf: SessionFolders::default() };
        for (at, expected) in versions.iter().enumerate().take(8) {
            let restores = all.before("s", at as u64 + 1);
            assert_eq!(restores.len(), 1);
            assert_eq!(restores[0].to.as_deref(), expected.map(str::as_bytes), "{at}");
            assert_eq!(restores[0].last, text("ooother"));
        }
        assert!(all.before("t", 1).is_empty(), "another session");
    }

    #[test]
    fn what_somebody_else_wrote_between_two_changes_is_kept_too() {
        let mut kept = CheckpointMemory::default();
        kept.record(key("/f"), "Edit", 1, text("a"), text("b"));
        kept.record(key("/f"), "Edit", 1, text("foreign"), text("c"));
        let all = CheckpointStore { kept: Arc::new(Mutex::new(kept)), shelf: SessionFolders::default() };
        assert_eq!(all.before("s", 1)[0].to, text("a"));
        assert_eq!(all.before("s", 2)[0].to, text("foreign"));
    }

    #[test]
    fn small_changes_of_a_large_file_cost_little_and_the_oldest_are_forgotten() {
        let mut kept = CheckpointMemory::default();
        let large = "x".repeat(1_000_000);
        let mut old = text(&large);
        for number in 0..1_000 {
            let new = text(&format!("{large}{number}"));
            kept.record(key("/large"), "Edit", 1, old, new.clone());
            old = new;
        }
        assert!(kept.bytes < 2_000_000, "{}", kept.bytes);
        for number in 0..300 {
            let new = vec![number as u8; 1_000_000];
            kept.record(key(&format!("/{number}")), "Write", 1, None, Some(new.into()));
            assert!(kept.bytes <= BYTES_MAX);
        }
        let (changes, forgotten) = (kept.changes.len(), kept.forgotten["s"]);
        assert!(changes < 200 && forgotten > 1_000, "{changes} {forgotten}");
        let counted: usize = kept.tracks.values().map(FileTrack::bytes).sum();
        assert_eq!(kept.bytes, counted + changes * CHANGE_BYTES);
        kept.record(key("/huge"), "Write", 1, None, Some(vec![0; BYTES_MAX + 1].into()));
        assert_eq!((kept.changes.len(), kept.tracks.len(), kept.bytes), (0, 0, 0));
    }

    #[test]
    fn ends_in_common_are_found_at_every_length() {
        for len in [0, 1, 255, 256, 257, 600] {
            for at in 0..len {
                let one = vec![b'a'; len];
                let mut other = one.clone();
                other[at] = b'b';
                assert_eq!(common_prefix(&one, &other), at);
                assert_eq!(common_suffix(&one, &other), len - at - 1);
            }
            assert_eq!(common_prefix(&vec![1; len], &vec![1; len + 3]), len);
            assert_eq!(common_suffix(&vec![1; len], &vec![1; len + 3]), len);
        }
    }
}
