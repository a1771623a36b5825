//! Walking a tree on several threads, by descriptors.
//!
//! A directory is listed by one thread; its directories, and its files in portions, become jobs for whoever
//! is free. The newest job goes first, so the walk goes down before it goes on, and few directories are open
//! at once. What is wanted of an entry, and what is done with a file, is the [`WalkVisitor`]'s business.
//!
//! `ignore` has a parallel walker too. It opens by path, and a directory that is swapped for a link while it
//! walks leads it out of what was granted, so only its matchers are used.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use haft::files::{FileError, FileErrorKind, FileKind, OpenDir};
use haft::sync::lock;

/// How many threads walk one tree at most.
pub(crate) const THREADS_MAX: usize = 8;
/// How many directories deep a walk goes.
pub(crate) const DEPTH_MAX: usize = 256;
/// How many files of one directory are one job.
const FILES_PER_JOB: usize = 64;

/// What a walk is for. One value is shared by all threads.
pub(crate) trait WalkVisitor: Sync {
    /// What one thread keeps.
    type Local: Send;
    /// What is known of a directory beyond its entries, such as the rules that hold in it.
    type Rules: Clone + Send + Sync;

    /// A new thread begins.
    fn local(&self) -> Self::Local;

    /// A directory was listed; `rules` are those of the directory above it.
    fn enter(&self, dir: &DirectoryListing<'_>, rules: &Self::Rules) -> Self::Rules;

    /// Whether to go into a directory, or to look at a file.
    fn wants(&self, rules: &Self::Rules, entry: &WalkEntry<'_>) -> bool;

    /// A file that is wanted.
    fn file(
        &self,
        local: &mut Self::Local,
        dir: &dyn OpenDir,
        entry: &WalkEntry<'_>,
    ) -> Result<(), FileError>;
}

/// An entry: its name, and its whole path.
pub(crate) struct WalkEntry<'a> {
    pub(crate) name: &'a OsStr,
    /// Absolute; for matching, ordering and showing, never for opening.
    pub(crate) path: &'a Path,
    pub(crate) is_dir: bool,
    /// How many directories lie between the beginning of the walk and this entry.
    pub(crate) depth: usize,
}

/// A directory that was just listed.
pub(crate) struct DirectoryListing<'a> {
    pub(crate) dir: &'a dyn OpenDir,
    pub(crate) path: &'a Path,
    names: &'a NameList,
}

impl DirectoryListing<'_> {
    /// What an entry of this name is, if there is one.
    pub(crate) fn kind(&self, name: &str) -> Option<FileKind> {
        let bytes = name.as_bytes();
        self.names.entries.iter().find(|entry| self.names.bytes(entry) == bytes).map(|entry| entry.kind)
    }

    /// Whether any entry begins with a dot; those that rule over others do.
    pub(crate) fn has_hidden(&self) -> bool {
        self.names.entries.iter().any(|entry| self.names.bytes(entry)[0] == b'.')
    }
}

/// What could not be looked at.
#[derive(Default)]
pub(crate) struct WalkProblems {
    pub(crate) count: usize,
    pub(crate) first: Option<String>,
}

impl WalkProblems {
    fn add(&mut self, error: &FileError) {
        self.count += 1;
        self.first.get_or_insert_with(|| error.to_string());
    }

    /// A line for the end of a result; nothing if there is nothing to say.
    pub(crate) fn words(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        let places = if self.count == 1 { "1 place" } else { &format!("{} places", self.count) };
        Some(format!("[{places} could not be looked at; the first: {first}]"))
    }
}

/// Walks everything beneath `root`. Returns what each thread kept.
///
/// Blocks; ends soon after `stop` is set, with what there is until then.
pub(crate) fn walk_tree<V: WalkVisitor>(
    root: Box<dyn OpenDir>,
    path: &Path,
    rules: V::Rules,
    visit: &V,
    stop: &AtomicBool,
) -> (Vec<V::Local>, WalkProblems) {
    let queue = WalkQueue {
        state: Mutex::new(QueueState {
            jobs: Vec::new(),
            working: 0,
            over: false,
            problems: WalkProblems::default(),
        }),
        ready: Condvar::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let begin = ListJob { dir: root, path: path.as_os_str().as_bytes().to_vec(), rules, depth: 0 };
    queue.lock().jobs.push(WalkJob::List(begin));
    let kept = std::thread::scope(|scope| {
        let work = || WalkWorker { queue: &queue, visit, stop, path: Vec::new(), local: visit.local() }.run();
        let others: Vec<_> = (1..threads)
            .map_while(|_| {
                std::thread::Builder::new().name("haft-walk".into()).spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut kept = vec![work()];
        for other in others {
            match other.join() {
                Ok(local) => kept.push(local),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        kept
    });
    (kept, std::mem::take(&mut queue.lock().problems))
}

struct WalkQueue<R> {
    state: Mutex<QueueState<R>>,
    ready: Condvar,
}

struct QueueState<R> {
    jobs: Vec<WalkJob<R>>,
    /// Threads that are busy, and may bring more jobs.
    working: usize,
    over: bool,
    problems: WalkProblems,
}

impl<R> WalkQueue<R> {
    fn lock(&self) -> MutexGuard<'_, QueueState<R>> {
        lock(&self.state)
    }
}

enum WalkJob<R> {
    /// A directory that is open.
    List(ListJob<R>),
    /// A directory in one that is open.
    Open(Arc<OpenDirectory<R>>, usize),
    /// Files of a directory.
    Files(Arc<OpenDirectory<R>>, std::ops::Range<usize>),
}

struct ListJob<R> {
    dir: Box<dyn OpenDir>,
    path: Vec<u8>,
    rules: R,
    depth: usize,
}

/// A directory with the entries that are wanted; it stays open for as long as a job needs it.
struct OpenDirectory<R> {
    dir: Box<dyn OpenDir>,
    path: Vec<u8>,
    rules: R,
    depth: usize,
    names: NameList,
}

/// Names without an allocation for each.
#[derive(Default)]
struct NameList {
    bytes: Vec<u8>,
    entries: Vec<NameEntry>,
}

#[derive(Clone, Copy)]
struct NameEntry {
    start: usize,
    end: usize,
    kind: FileKind,
}

impl NameList {
    fn push(&mut self, name: &OsStr, kind: FileKind) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name.as_bytes());
        self.entries.push(NameEntry { start, end: self.bytes.len(), kind });
    }

    fn bytes(&self, entry: &NameEntry) -> &[u8] {
        &self.bytes[entry.start..entry.end]
    }

    fn name(&self, at: usize) -> &OsStr {
        OsStr::from_bytes(self.bytes(&self.entries[at]))
    }
}

struct WalkWorker<'a, V: WalkVisitor> {
    queue: &'a WalkQueue<V::Rules>,
    visit: &'a V,
    stop: &'a AtomicBool,
    /// The path of the entry at hand, written over again and again.
    path: Vec<u8>,
    local: V::Local,
}

/// A thread that panics must not leave the others waiting.
struct EndOnPanic<'a, R>(&'a WalkQueue<R>);

impl<R> Drop for EndOnPanic<'_, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().over = true;
            self.0.ready.notify_all();
        }
    }
}

impl<V: WalkVisitor> WalkWorker<'_, V> {
    fn run(mut self) -> V::Local {
        let queue = self.queue;
        let _guard = EndOnPanic(queue);
        let mut found: Vec<WalkJob<V::Rules>> = Vec::new();
        let mut problem: Option<FileError> = None;
        let mut busy = false;
        loop {
            let mut state = queue.lock();
            state.working -= usize::from(busy);
            if let Some(error) = problem.take() {
                state.problems.add(&error);
            }
            let news = found.len();
            state.jobs.append(&mut found);
            if news > 1 {
                queue.ready.notify_all();
            }
            let job = loop {
                if self.stop.load(Ordering::Relaxed) || state.over {
                    state.over = true;
                    break None;
                }
                if let Some(job) = state.jobs.pop() {
                    break Some(job);
                }
                if state.working == 0 {
                    state.over = true;
                    break None;
                }
                state = queue.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            let Some(job) = job else {
                let left = std::mem::take(&mut state.jobs);
                drop(state);
                queue.ready.notify_all();
                drop(left);
                return self.local;
            };
            state.working += 1;
            busy = true;
            drop(state);
            problem = self.work(job, &mut found).err().filter(|error| !is_change(error));
        }
    }

    fn work(&mut self, job: WalkJob<V::Rules>, found: &mut Vec<WalkJob<V::Rules>>) -> Result<(), FileError> {
        match job {
            WalkJob::List(begin) => self.list(begin, found),
            WalkJob::Open(above, at) => {
                let name = above.names.name(at);
                let dir = above.dir.open_dir(name)?;
                let path = join_path(&above.path, name);
                self.list(ListJob { dir, path, rules: above.rules.clone(), depth: above.depth + 1 }, found)
            }
            WalkJob::Files(dir, range) => {
                self.files(&dir, range);
                Ok(())
            }
        }
    }

    fn list(
        &mut self,
        begin: ListJob<V::Rules>,
        found: &mut Vec<WalkJob<V::Rules>>,
    ) -> Result<(), FileError> {
        let ListJob { dir, path, rules, depth } = begin;
        if depth == DEPTH_MAX {
            let shown = String::from_utf8_lossy(&path);
            let words = format!("`{shown}` lies more than {DEPTH_MAX} directories deep");
            return Err(FileError::new(FileErrorKind::TooLarge, words));
        }
        let mut names = NameList::default();
        dir.each(&mut |name, kind| {
            if matches!(kind, FileKind::File | FileKind::Directory) {
                names.push(name, kind);
            }
        })?;
        let listing =
            DirectoryListing { dir: &*dir, path: Path::new(OsStr::from_bytes(&path)), names: &names };
        let rules = self.visit.enter(&listing, &rules);
        self.path.clone_from(&path);
        let NameList { bytes, mut entries } = names;
        entries.retain(|entry| {
            let (name, is_dir) = (&bytes[entry.start..entry.end], entry.kind == FileKind::Directory);
            name_at(&mut self.path, path.len(), name);
            let path = Path::new(OsStr::from_bytes(&self.path));
            let name = OsStr::from_bytes(name);
            self.visit.wants(&rules, &WalkEntry { name, path, is_dir, depth })
        });
        if entries.is_empty() {
            return Ok(());
        }
        // Files first, then directories, each by name: the beginning of the order is done first.
        entries.sort_unstable_by(|one, other| {
            let key = |entry: &NameEntry| (entry.kind == FileKind::Directory, &bytes[entry.start..entry.end]);
            key(one).cmp(&key(other))
        });
        let files = entries.partition_point(|entry| entry.kind == FileKind::File);
        let dir = Arc::new(OpenDirectory { dir, path, rules, depth, names: NameList { bytes, entries } });
        found.extend((files..dir.names.entries.len()).rev().map(|at| WalkJob::Open(dir.clone(), at)));
        let portions = (FILES_PER_JOB..files).step_by(FILES_PER_JOB);
        let portion = |from: usize| WalkJob::Files(dir.clone(), from..files.min(from + FILES_PER_JOB));
        found.extend(portions.rev().map(portion));
        if found.len() > 1 {
            // Others can begin while this thread looks at its own portion.
            let mut state = self.queue.lock();
            state.jobs.append(found);
            drop(state);
            self.queue.ready.notify_all();
        }
        self.files(&dir, 0..files.min(FILES_PER_JOB));
        Ok(())
    }

    fn files(&mut self, dir: &OpenDirectory<V::Rules>, range: std::ops::Range<usize>) {
        self.path.clone_from(&dir.path);
        for at in range {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = dir.names.name(at);
            name_at(&mut self.path, dir.path.len(), name.as_bytes());
            let path = Path::new(OsStr::from_bytes(&self.path));
            let place = WalkEntry { name, path, is_dir: false, depth: dir.depth };
            match self.visit.file(&mut self.local, &*dir.dir, &place) {
                Err(error) if !is_change(&error) => self.queue.lock().problems.add(&error),
                _ => {}
            }
        }
    }
}

/// Whether an error only says that something else happens to the tree while it is walked.
fn is_change(error: &FileError) -> bool {
    matches!(
        error.kind(),
        FileErrorKind::NotFound
            | FileErrorKind::NotAFile
            | FileErrorKind::NotADirectory
            | FileErrorKind::IsDirectory
    )
}

fn join_path(dir: &[u8], name: &OsStr) -> Vec<u8> {
    let mut path = dir.to_vec();
    name_at(&mut path, dir.len(), name.as_bytes());
    path
}

/// Puts a name behind the first `len` bytes of a path, which are a directory.
fn name_at(path: &mut Vec<u8>, len: usize, name: &[u8]) {
    path.truncate(len);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests;
