//! Watches protected names while commands run, so that what one plants there is gone at once.
//!
//! One thread and one inotify instance serve a session, because the machine gives few of them to a user.
//! Folders at whose top names count and protected folders are watched from the start, other folders for names
//! that count anywhere, and folders that appear in turn. A name is judged when its file is closed or renamed
//! into place, a symlink or a hard link when it appears, and a file that stays open after a moment.
//!
//! What this misses, because events or watches were lost, is found by the comparison after the command.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use haft::sync::lock;
use haft_protected::{is_any_depth, may_begin};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::ProtectedFiles;
use crate::profile::limits;
use crate::start;

/// Watches from the first command on.
#[derive(Default)]
pub(in crate::profile) struct LiveWatch {
    /// Empty before the first command; none where nothing can be watched.
    watch: OnceLock<Option<WatchThread>>,
    collector: OnceLock<()>,
}

struct WatchThread {
    shared: Arc<WatchState>,
    thread: Option<JoinHandle<()>>,
}

struct WatchState {
    inotify: OwnedFd,
    /// Written when the session ends.
    end: OwnedFd,
    files: Arc<ProtectedFiles>,
    folders: Mutex<WatchedFolders>,
}

#[derive(Default)]
struct WatchedFolders {
    by_number: HashMap<i32, WatchedFolder>,
    numbers: HashMap<PathBuf, i32>,
}

#[derive(Clone)]
struct WatchedFolder {
    path: PathBuf,
    role: FolderRole,
}

/// Which names in a folder count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FolderRole {
    /// A working directory or the top of a repository: all of the table.
    Top,
    /// All, since it lies in a protected name or leads to one.
    Protected,
    /// Those that count anywhere.
    Plain,
}

/// Files that were created and not closed yet, and when they are judged all the same.
type OpenFiles = HashMap<PathBuf, Instant>;

impl LiveWatch {
    /// A command is about to begin. `others` are folders in which only names count that count anywhere.
    pub(in crate::profile) fn begin(
        &self,
        files: &Arc<ProtectedFiles>,
        others: impl FnOnce() -> Vec<PathBuf>,
    ) {
        let watch = self.watch.get_or_init(|| WatchThread::start(files.clone(), others()));
        for root in files.roots() {
            // One may have been removed and made again.
            if let Some(WatchThread { shared, .. }) = watch {
                shared.watch_tree(root, &mut OpenFiles::new(), WatchDepth::NamesOnly);
            }
        }
    }

    /// A command that writes repositories is about to begin: git may put there what a history has, so that is
    /// collected.
    pub(in crate::profile) fn expect_git(&self, files: &Arc<ProtectedFiles>) {
        self.collector.get_or_init(|| {
            let files = files.clone();
            let thread = thread::Builder::new().name("haft-history".into());
            let _ = thread.stack_size(crate::limits::THREAD_STACK_BYTES).spawn(move || {
                start::block_signals();
                files.collect_histories();
            });
        });
    }
}

/// How much of a folder is watched with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchDepth {
    /// Protected names in it.
    NamesOnly,
    /// Everything, because it has just appeared.
    Everything,
}

impl WatchThread {
    fn start(files: Arc<ProtectedFiles>, others: Vec<PathBuf>) -> Option<WatchThread> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let shared = Arc::new(WatchState { inotify, end, files, folders: Mutex::default() });
        let watched = shared.clone();
        let thread =
            thread::Builder::new().name("haft-names".into()).stack_size(crate::limits::THREAD_STACK_BYTES);
        let thread = thread.spawn(move || {
            start::block_signals();
            watched.follow(others);
        });
        Some(WatchThread { shared, thread: Some(thread.ok()?) })
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl WatchState {
    fn folders(&self) -> MutexGuard<'_, WatchedFolders> {
        lock(&self.folders)
    }

    /// Until the session ends.
    fn follow(&self, mut to_watch: Vec<PathBuf>) {
        // The outer ones first, should there be too many.
        to_watch.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        let mut open_files = OpenFiles::new();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        loop {
            let next = open_files.values().min().map(|at| at.saturating_duration_since(Instant::now()));
            let next = if to_watch.is_empty() { next } else { Some(Duration::ZERO) };
            let timeout = next.map(|next| Timespec {
                tv_sec: i64::try_from(next.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: next.subsec_nanos().into(),
            });
            let mut polled =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
            let _ = poll(&mut polled, timeout.as_ref());
            if !polled[1].revents().is_empty() {
                return;
            }
            if !polled[0].revents().is_empty() {
                self.take_events(&mut buffer, &mut open_files);
            }
            for _ in 0..limits::FOLDERS_WATCHED_AT_ONCE {
                let Some(folder) = to_watch.pop() else { break };
                self.watch(&folder, self.files.role_of(&folder));
            }
            let now = Instant::now();
            let due: Vec<PathBuf> = open_files.extract_if(|_, at| *at <= now).map(|(path, _)| path).collect();
            due.iter().for_each(|path| self.files.judge_now(path));
        }
    }

    fn take_events(&self, buffer: &mut [MaybeUninit<u8>], open_files: &mut OpenFiles) {
        let mut events = inotify::Reader::new(&self.inotify, buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    self.note(event.wd(), name, event.events(), open_files);
                }
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            if events.is_buffer_empty() {
                return;
            }
        }
    }

    fn note(&self, number: i32, name: Option<&OsStr>, what: ReadFlags, open_files: &mut OpenFiles) {
        if what.contains(ReadFlags::IGNORED) {
            let mut folders = self.folders();
            if let Some(gone) = folders.by_number.remove(&number) {
                folders.numbers.remove(&gone.path);
            }
            return;
        }
        let Some((folder, name)) = self.folders().by_number.get(&number).cloned().zip(name) else { return };
        let path = folder.path.join(name);
        if what.contains(ReadFlags::ISDIR) {
            if name != ".git" {
                self.watch_tree(&path, open_files, WatchDepth::Everything);
            }
        } else if is_watched_name(folder.role, name) {
            self.judge(&path, what, open_files);
        }
    }

    /// Judges a file that has appeared, or waits until it is closed.
    fn judge(&self, path: &Path, what: ReadFlags, open_files: &mut OpenFiles) {
        let is_whole = what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO)
            || path.symlink_metadata().is_ok_and(|found| !found.is_file() || found.nlink() > 1);
        if is_whole {
            open_files.remove(path);
            self.files.judge_now(path);
        } else {
            let at = Instant::now() + limits::OPEN_FILE_WAIT;
            open_files.entry(path.to_owned()).or_insert(at);
        }
    }

    /// Watches a folder and what is in it, and judges what is there already.
    fn watch_tree(&self, top: &Path, open_files: &mut OpenFiles, depth: WatchDepth) {
        let mut left = vec![top.to_owned()];
        let mut room = limits::FOLDERS_WATCHED_MAX;
        while let Some(folder) = left.pop() {
            let role = self.files.role_of(&folder);
            room = room.saturating_sub(1);
            if room == 0 || !self.watch(&folder, role) && depth == WatchDepth::NamesOnly {
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (name, is_folder) =
                    (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
                let is_name = is_watched_name(role, &name);
                if is_folder && name != ".git" && (is_name || depth == WatchDepth::Everything) {
                    left.push(entry.path());
                } else if !is_folder && is_name && depth == WatchDepth::Everything {
                    self.judge(&entry.path(), ReadFlags::CREATE, open_files);
                }
            }
        }
    }

    /// Whether the folder is watched only now.
    fn watch(&self, path: &Path, role: FolderRole) -> bool {
        let mut folders = self.folders();
        if folders.by_number.len() >= limits::FOLDERS_WATCHED_MAX && role == FolderRole::Plain {
            return false;
        }
        let wanted = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::EXCL_UNLINK;
        let Ok(number) = inotify::add_watch(&self.inotify, path, wanted) else { return false };
        let is_new = folders.numbers.insert(path.to_owned(), number) != Some(number);
        let known = folders.by_number.insert(number, WatchedFolder { path: path.to_owned(), role });
        is_new || known.is_none()
    }
}

impl ProtectedFiles {
    fn role_of(&self, folder: &Path) -> FolderRole {
        match () {
            () if self.roots().iter().any(|root| root == folder) => FolderRole::Top,
            () if self.leads_to_name(folder) => FolderRole::Protected,
            () => FolderRole::Plain,
        }
    }
}

/// Whether a name in such a folder is looked at.
fn is_watched_name(role: FolderRole, name: &OsStr) -> bool {
    match (role, name.to_str()) {
        (FolderRole::Protected, _) => true,
        (FolderRole::Top, Some(name)) => may_begin(name) || is_any_depth(name),
        (FolderRole::Plain, Some(name)) => is_any_depth(name),
        (_, None) => false,
    }
}
