//! Names that are covered in the views of children stay covered, whoever gives them to another file
//! meanwhile.
//!
//! What hides or protects a single file is a mount that lies on it. Somebody outside who renames another file
//! over it, as most editors do when they save, takes that mount away in every view. So the folders of covered
//! names are watched, and where such a name comes to be again, the first process of each child that runs is
//! told to cover it again. In between lies a moment, in which a child that tries without end may be quicker;
//! what it changed then is found when it has ended.
//!
//! Only names are covered again that were there when the child began: these it can't make itself. One watch
//! serves a session, because the machine gives few of them to a user. Where it gives none, names stay covered
//! until they are replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::mount_plan::{CoveredName, MountEntry, MountPlan, place_of};
use crate::{limits, start, wire};

/// The covered names of all children of a session.
#[derive(Default)]
pub(crate) struct CoveredNames(Mutex<Option<CoverWatcher>>);

/// What watches, once there is something to be watched.
struct CoverWatcher {
    shared: Arc<SharedCovers>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct SharedCovers {
    inotify: OwnedFd,
    /// Written when the session ends.
    end: OwnedFd,
    state: Mutex<CoverState>,
}

#[derive(Default)]
struct CoverState {
    folders: HashMap<PathBuf, i32>,
    /// A folder may have several paths.
    paths: HashMap<i32, Vec<PathBuf>>,
    children: HashMap<u64, CoveredChild>,
    last: u64,
}

struct CoveredChild {
    covers: BTreeMap<PathBuf, bool>,
    /// Where its first process listens, once there is one.
    socket: Option<OwnedFd>,
    /// What it is to be told.
    again: BTreeSet<PathBuf>,
}

/// A child whose names stay covered until this is dropped.
pub(crate) struct CoverGuard {
    shared: Arc<SharedCovers>,
    number: u64,
}

impl CoveredNames {
    /// Watches the names of a child that is about to be started; none if there are none, or nothing can be
    /// watched.
    pub(crate) fn begin(&self, scene: &MountPlan) -> Option<CoverGuard> {
        let is_there = |at: &Path| at.symlink_metadata().is_ok();
        // What a call was granted lies over what is covered for all.
        let is_grant =
            |part: &&MountEntry| matches!(part, MountEntry::Bind { .. } | MountEntry::StandIn { .. });
        let granted = |at: &Path| scene.more.iter().filter(is_grant).any(|more| place_of(more) == at);
        let covers: BTreeMap<PathBuf, bool> = scene
            .parts
            .iter()
            .chain(&scene.more)
            .filter_map(|part| match part {
                MountEntry::Mask { at } => Some((at, true)),
                MountEntry::Protect { at } => Some((at, false)),
                _ => None,
            })
            // What is protected is there, or it couldn't be.
            .filter(|(at, hides)| !granted(at) && (!hides || is_there(at)))
            .map(|(at, hides)| (at.clone(), hides))
            .collect();
        if covers.is_empty() {
            return None;
        }
        let shared = self.shared()?;
        let number = {
            let mut state = shared.state();
            covers.keys().for_each(|at| state.watch(&shared.inotify, at));
            state.last += 1;
            let number = state.last;
            state.children.insert(number, CoveredChild { covers, socket: None, again: BTreeSet::new() });
            number
        };
        Some(CoverGuard { shared, number })
    }

    /// Watches no more. The kernel takes its time to close a watch, so this may be left to another thread.
    pub(crate) fn end(&self) {
        let watch = lock(&self.0).take();
        drop(watch);
    }

    fn shared(&self) -> Option<Arc<SharedCovers>> {
        let mut watch = lock(&self.0);
        if watch.is_none() {
            *watch = CoverWatcher::start();
        }
        watch.as_ref().map(|watch| watch.shared.clone())
    }
}

impl CoverGuard {
    /// It was started, and its first process listens here.
    pub(crate) fn started(&self, socket: BorrowedFd<'_>) {
        let mut state = self.shared.state();
        if let Some(child) = state.children.get_mut(&self.number) {
            child.socket = socket.try_clone_to_owned().ok();
            child.tell();
        }
    }
}

impl Drop for CoverGuard {
    fn drop(&mut self) {
        self.shared.state().children.remove(&self.number);
    }
}

impl CoverWatcher {
    fn start() -> Option<CoverWatcher> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let shared = Arc::new(SharedCovers { inotify, end, state: Mutex::default() });
        let watched = shared.clone();
        let thread = std::thread::Builder::new()
            .name("haft-covers".into())
            .stack_size(limits::THREAD_STACK_BYTES)
            .spawn(move || {
                start::block_signals();
                watched.follow();
            })
            .ok()?;
        Some(CoverWatcher { shared, thread: Some(thread) })
    }
}

impl Drop for CoverWatcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SharedCovers {
    fn state(&self) -> MutexGuard<'_, CoverState> {
        lock(&self.state)
    }

    /// Until the session ends.
    fn follow(&self) {
        let again = limits::COVER_AGAIN;
        let again = Timespec { tv_sec: 0, tv_nsec: again.subsec_nanos().into() };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut waits = false;
        loop {
            let mut polled =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
            let _ = poll(&mut polled, waits.then_some(&again));
            if !polled[1].revents().is_empty() {
                return;
            }
            let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
            let mut state = self.state();
            // As many as came together.
            loop {
                match events.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                        state.note(&self.inotify, event.wd(), name, event.events());
                    }
                    Err(Errno::INTR) => continue,
                    Err(_) => break,
                }
                if events.is_buffer_empty() {
                    break;
                }
            }
            waits = false;
            for child in state.children.values_mut() {
                waits |= !child.tell();
            }
        }
    }
}

impl CoverState {
    /// Watches the folder that a name lies in. One that is watched already costs nothing.
    fn watch(&mut self, inotify: &OwnedFd, at: &Path) {
        let Some(folder) = at.parent().filter(|folder| !self.folders.contains_key(*folder)) else { return };
        if self.folders.len() >= limits::FOLDERS_WATCHED_MAX {
            return;
        }
        let wanted =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        if let Ok(number) = inotify::add_watch(inotify, folder, wanted) {
            self.folders.insert(folder.to_owned(), number);
            self.paths.entry(number).or_default().push(folder.to_owned());
        }
    }

    fn note(&mut self, inotify: &OwnedFd, number: i32, name: Option<&OsStr>, what: ReadFlags) {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.watch_again(inotify, Path::new("/"));
        } else if what.contains(ReadFlags::IGNORED) {
            // The folder is gone.
            for path in self.paths.remove(&number).unwrap_or_default() {
                self.folders.remove(&path);
            }
        } else if let Some(name) = name {
            for folder in self.paths.get(&number).cloned().unwrap_or_default() {
                self.watch_again(inotify, &folder.join(name));
            }
        }
    }

    /// What lies there, and in it, is covered again.
    fn watch_again(&mut self, inotify: &OwnedFd, place: &Path) {
        let mut within = BTreeSet::new();
        for child in self.children.values_mut() {
            let names =
                child.covers.range::<Path, _>((Bound::Included(place), Bound::Unbounded)).map(|(at, _)| at);
            let names: Vec<PathBuf> = names.take_while(|at| at.starts_with(place)).cloned().collect();
            within.extend(names.iter().filter(|at| *at != place).cloned());
            child.again.extend(names);
        }
        // Folders that are others now.
        for at in within {
            if let Some(folder) = at.parent()
                && let Some(number) = self.folders.remove(folder)
                && let Some(paths) = self.paths.get_mut(&number)
            {
                paths.retain(|path| path != folder);
            }
            self.watch(inotify, &at);
        }
    }
}

impl CoveredChild {
    /// Tells it what is to be covered again; whether that is all.
    fn tell(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        while !self.again.is_empty() {
            let some: Vec<CoveredName> = self
                .again
                .iter()
                .take(limits::COVERED_AT_ONCE)
                .map(|at| CoveredName { at: at.clone(), hides: self.covers.get(at).copied().unwrap_or(true) })
                .collect();
            match wire::send_at_once(socket.as_fd(), &wire::write_covering(some.iter())) {
                // It is full, and looks at it soon.
                Err(Errno::AGAIN | Errno::NOBUFS) => return false,
                // Sent, or there is nobody any more.
                _ => some.iter().for_each(|cover| {
                    self.again.remove(&cover.at);
                }),
            }
        }
        true
    }
}
