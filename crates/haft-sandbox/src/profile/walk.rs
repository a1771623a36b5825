//! One look at the working directories, when the session starts.
//!
//! Finds the repositories in them, the sockets of other programs, and what rules deny. No link is followed. The walk goes
//! level by level, so that where it has to stop what is near was seen. What it finds stays for the session; whatever
//! appears later isn't known, except where a name can be foretold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft::files::Hidden;

use super::limits;
use super::nested::Folder;
use super::shown;

#[derive(Default, Debug)]
pub(super) struct Found {
    /// Folders with a `.git` in them.
    pub(super) repositories: Vec<PathBuf>,
    /// More such folders than are looked into.
    pub(super) more_repositories: Vec<PathBuf>,
    /// Sockets, which would lead out of the sandbox.
    pub(super) sockets: Vec<PathBuf>,
    /// What may not be read.
    pub(super) unreadable: Vec<PathBuf>,
    /// What may not be written.
    pub(super) unwritable: Vec<PathBuf>,
    /// All that rules deny to write.
    pub(super) denied: BTreeSet<PathBuf>,
    /// Folders that can't be looked into.
    pub(super) closed: Vec<PathBuf>,
    /// Folders lie so deep that they weren't seen.
    pub(super) too_deep: bool,
    /// All others, if all were seen.
    pub(super) folders: Option<BTreeMap<PathBuf, Folder>>,
    /// Folders that commands may write beside the working directories, and that hold too much to remember it.
    pub(super) too_much: Vec<PathBuf>,
    /// The folders that what is hidden lies in, as far up as the working directories.
    above_hidden: BTreeSet<PathBuf>,
    /// Why something may have been missed.
    pub(super) missed: Option<String>,
}

/// Whether rules deny everything in a folder, also what isn't there yet: a name that nobody uses, and one below.
pub(super) fn is_whole(rule: &Hidden, folder: &Path) -> bool {
    let unused = folder.join("\u{1}unused");
    rule.covers(&unused) && rule.covers(&unused.join("\u{1}"))
}

impl Found {
    /// Adds what was found in folders that settings let commands write. Gives why something may have been missed there;
    /// that takes nothing from what is known of the working directories.
    pub(super) fn add(&mut self, roots: &[PathBuf], other: Found) -> Option<String> {
        self.repositories.extend(other.repositories);
        self.more_repositories.extend(other.more_repositories);
        self.sockets.extend(other.sockets);
        self.unwritable.extend(other.unwritable);
        self.denied.extend(other.denied);
        match (&mut self.folders, other.folders) {
            (Some(folders), Some(more)) => folders.extend(more),
            _ => self.too_much.extend_from_slice(roots),
        }
        other.missed
    }

    /// Counts the folders that must keep their place because of what is hidden in them.
    fn keep_in_place(&mut self, hidden: &Path, roots: &[PathBuf]) {
        let above = hidden.ancestors().skip(1).take_while(|above| !roots.iter().any(|root| root == above));
        self.above_hidden.extend(above.map(Path::to_owned));
        let count = limits::MASKED_FOLDERS_MAX;
        if self.above_hidden.len() > count {
            self.missed = Some(format!("what is hidden lies in more than {count} folders"));
        }
    }
}

pub(super) fn walk(roots: &[PathBuf], deny_read: Option<&Hidden>, deny_write: Option<&Hidden>) -> Found {
    walk_but(roots, &[], deny_read, deny_write)
}

/// The same without folders that are looked at otherwise.
///
/// Folders are read on a thread of their own: one of a file system whose server is gone never answers. What it holds stays
/// unseen then, and the session begins all the same.
pub(super) fn walk_but(
    roots: &[PathBuf],
    but: &[PathBuf],
    deny_read: Option<&Hidden>,
    deny_write: Option<&Hidden>,
) -> Found {
    walk_within(limits::WALK_ANSWER, roots, but, deny_read, deny_write)
}

fn walk_within(
    patience: Duration,
    roots: &[PathBuf],
    but: &[PathBuf],
    deny_read: Option<&Hidden>,
    deny_write: Option<&Hidden>,
) -> Found {
    let walk = Walk {
        found: Found::default(),
        left: roots.iter().map(|root| (root.clone(), 0)).collect(),
        now: None,
        seen: BTreeMap::new(),
        entries: 0,
        roots: roots.to_vec(),
        but: but.to_vec(),
        deny_read: deny_read.cloned(),
        deny_write: deny_write.cloned(),
    };
    let walk = Arc::new(Mutex::new(walk));
    let (tell, told) = mpsc::channel();
    let theirs = walk.clone();
    let look = move || {
        // Nothing is locked while a folder is read.
        let next = || lock(&theirs).next();
        while let Some(folder) = next() {
            let listed = Listed::of(&folder, limits::WALK_ENTRIES_MAX);
            lock(&theirs).add(&folder, listed);
            // Nobody may be there any more to hear it; then there is nothing next either.
            let _ = tell.send(());
        }
    };
    if std::thread::Builder::new().name("haft-look".to_owned()).spawn(look).is_err() {
        return lock(&walk).end(Some("no thread can be had to look at them".to_owned()));
    }
    loop {
        match told.recv_timeout(patience) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return lock(&walk).end(None),
            Err(RecvTimeoutError::Timeout) => {
                let mut walk = lock(&walk);
                let at = walk.now.as_deref().map(shown).unwrap_or_default();
                return walk.end(Some(format!("`{at}` does not answer; is a file system there gone?")));
            }
        }
    }
}

fn lock(walk: &Mutex<Walk>) -> MutexGuard<'_, Walk> {
    walk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A look that goes on.
struct Walk {
    found: Found,
    /// Folders to look into, and how deep they are.
    left: VecDeque<(PathBuf, usize)>,
    /// The one that is being looked into.
    now: Option<PathBuf>,
    seen: BTreeMap<PathBuf, Folder>,
    entries: usize,
    roots: Vec<PathBuf>,
    but: Vec<PathBuf>,
    deny_read: Option<Hidden>,
    deny_write: Option<Hidden>,
}

/// What a folder holds.
struct Listed {
    itself: Option<Folder>,
    /// Nothing if it can't be read.
    inside: Option<Vec<(OsString, FileType)>>,
}

impl Listed {
    /// Of one more than `most` nobody needs to know.
    fn of(folder: &Path, most: usize) -> Listed {
        // To be taken before it is read.
        let itself = Folder::of(folder);
        let entry = |entry: fs::DirEntry| entry.file_type().ok().map(|kind| (entry.file_name(), kind));
        let inside = fs::read_dir(folder).ok();
        let inside = inside.map(|entries| entries.flatten().take(most + 1).filter_map(entry).collect());
        Listed { itself, inside }
    }
}

impl Walk {
    /// The next folder to look into.
    fn next(&mut self) -> Option<PathBuf> {
        self.now = self.left.front().map(|(folder, _)| folder.clone());
        self.now.clone()
    }

    /// What came of it. It is not looked any further from here on.
    fn end(&mut self, missed: Option<String>) -> Found {
        let all = missed.is_none() && self.left.is_empty();
        self.left.clear();
        let mut found = std::mem::take(&mut self.found);
        found.missed = found.missed.or(missed);
        if all && self.entries <= limits::WALK_ENTRIES_MAX {
            found.folders = Some(std::mem::take(&mut self.seen));
        }
        found
    }

    fn add(&mut self, folder: &Path, listed: Listed) {
        // Whoever waited has given up.
        let Some((_, depth)) = self.left.pop_front() else { return };
        let Listed { itself: mut seen, inside } = listed;
        match inside {
            None => self.found.closed.push(folder.to_owned()),
            Some(inside) => {
                for (name, kind) in inside {
                    self.entries += 1;
                    if self.entries > limits::WALK_ENTRIES_MAX {
                        let count = limits::WALK_ENTRIES_MAX;
                        let words = format!("they hold more than {count} files, and no more are looked at");
                        self.found.missed = Some(words);
                        self.left.clear();
                        return;
                    }
                    if let Some(seen) = &mut seen {
                        let is_git = name == ".git";
                        seen.has_git |= is_git;
                        seen.inside.extend((kind.is_dir() && !is_git).then(|| name.clone()));
                    }
                    self.entry(folder, &name, kind, depth);
                }
            }
        }
        self.seen.extend(seen.map(|seen| (folder.to_owned(), seen)));
    }

    fn entry(&mut self, folder: &Path, name: &OsStr, kind: FileType, depth: usize) {
        let Walk { found, left, roots, but, deny_read, deny_write, .. } = self;
        let covers = |rule: &Option<Hidden>, path: &Path| rule.as_ref().is_some_and(|rule| rule.covers(path));
        let (path, is_git) = (folder.join(name), name == ".git");
        if is_git && found.repositories.len() < limits::REPOSITORIES_MAX {
            found.repositories.push(folder.to_owned());
        } else if is_git && found.more_repositories.len() < limits::REPOSITORIES_WHOLE_MAX {
            found.more_repositories.push(folder.to_owned());
        } else if is_git {
            let count = limits::REPOSITORIES_MAX + limits::REPOSITORIES_WHOLE_MAX;
            found.missed = Some(format!("they hold more than {count} repositories"));
        }
        let unwritable = covers(deny_write, &path);
        // Also what is hidden: nobody is to be told later that a command has made it.
        if unwritable {
            found.denied.insert(path.clone());
        }
        if covers(deny_read, &path) {
            let count = limits::MASKS_MAX;
            if found.unreadable.len() >= count {
                found.missed = Some(format!("rules deny reading more than {count} files in them"));
                return;
            }
            found.keep_in_place(&path, roots);
            found.unreadable.push(path);
            return;
        }
        if kind.is_socket() {
            let count = limits::MASKS_MAX;
            if found.sockets.len() >= count {
                found.missed = Some(format!("they hold more than {count} sockets"));
                return;
            }
            found.keep_in_place(&path, roots);
            found.sockets.push(path);
            return;
        }
        let whole = kind.is_dir() && !is_git && deny_write.as_ref().is_some_and(|rule| is_whole(rule, &path));
        // One in a folder that is held is held.
        if (unwritable || whole) && !found.unwritable.iter().any(|held| path.starts_with(held)) {
            let count = limits::MASKS_MAX;
            if found.unwritable.len() < count {
                found.unwritable.push(path.clone());
            } else {
                found.missed = Some(format!("rules deny writing more than {count} files in them"));
            }
        }
        // A folder that is a root itself is looked at as such.
        if kind.is_dir() && !is_git && !roots.contains(&path) && !but.contains(&path) {
            if depth < limits::WALK_DEPTH_MAX {
                left.push_back((path, depth + 1));
            } else {
                // What lies further down is seen before the first command, where nothing has to be held.
                found.missed = Some(format!("they are more than {depth} folders deep"));
                found.too_deep = true;
            }
        }
    }
}
