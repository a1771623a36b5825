//! Private folders that stand in for folders of the host in which one call was granted single names.
//!
//! Who replaces a file (`sed -i`, an editor, `git config`) writes another one beside it and renames that. So beside a
//! granted name a command has to be able to make others, and the folder that it lies in wasn't granted. The command sees a
//! private folder in its place: a granted file is in it as a second name of the very same file, so that what is written
//! into it is written at once. When the command has ended, what became of the granted names is carried out in the real
//! folder: what is another file now is moved there, what is gone is removed, what was made is moved, and what it leads
//! through is made. Everything else goes with the private folder, and that is said.
//!
//! Both folders lie on one mount, so that nothing has to be copied; everything is done by name in folders that are held
//! open, and no link is followed. In the session's temporary folder, which stands at `/tmp`, the same is done without
//! another folder. What a killed session leaves behind goes when the next one starts: it holds a lock while it lives.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft::files::Extent;
use haft::files::held::Place;
use haft::ports::{ProcessRequest, Refusal};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, StatxFlags, accessat, flock, fstat,
    linkat, mkdirat, openat, renameat, statat, statx, unlinkat,
};
use rustix::io::Errno;

use super::places::Places;
use super::{address, limits};
use crate::scene::Part;

/// What such a folder is called where it has to lie beside the granted name.
const BESIDE: &str = ".haft-standing-in-";

pub(super) struct StandIns {
    /// Where they lie; none if nothing can be mounted.
    folder: Option<PathBuf>,
    state: Mutex<HashMap<usize, Vec<StandIn>>>,
    made: AtomicU64,
}

/// A name that is to be changed.
pub(super) struct Wanted<'a> {
    /// The folder that exists and in which the name lies, or what leads to it.
    pub(super) folder: &'a Path,
    pub(super) place: &'a Place,
    pub(super) extent: Extent,
    /// What stands at that folder for the whole session, if something does.
    pub(super) temp: Option<&'a Path>,
    /// Whether a command has that folder in memory otherwise, and expects nothing of what it leaves there.
    pub(super) in_memory: bool,
}

struct StandIn {
    at: PathBuf,
    /// The private folder, and where it is to be removed from.
    private: Arc<OwnedFd>,
    own: Option<Own>,
    real: OwnedFd,
    names: Vec<Name>,
    /// Where something else is mounted in it.
    room: Vec<PathBuf>,
    quiet: bool,
}

/// A folder that was made here.
struct Own {
    path: PathBuf,
    /// Leads to it, if it lies beside the granted name.
    record: Option<PathBuf>,
}

/// What was granted in a folder.
struct Name {
    rest: PathBuf,
    extent: Extent,
    /// What it was.
    before: Option<Id>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

impl Id {
    fn of(found: &Stat) -> Id {
        Id(found.st_dev, found.st_ino)
    }
}

impl StandIns {
    /// Makes the folder for them, and removes what killed sessions have left.
    pub(super) fn open(caches: &Path) -> io::Result<StandIns> {
        let folder = caches.join("standing-in");
        fs::create_dir_all(&folder)?;
        let lock = open_folder(CWD, &folder)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for entry in fs::read_dir(&folder)?.flatten().take(limits::STAND_INS_SWEPT_MAX) {
                sweep(&entry.path());
            }
        }
        let state = Mutex::new(HashMap::new());
        Ok(StandIns { folder: Some(folder), state, made: AtomicU64::new(0) })
    }

    /// From now on there are none.
    pub(super) fn close(&mut self) {
        self.folder = None;
    }

    fn state(&self) -> MutexGuard<'_, HashMap<usize, Vec<StandIn>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with a call: of one before it that never began nothing is left.
    pub(super) fn begin(&self, request: &ProcessRequest) {
        let left = self.state().remove(&address(request));
        left.into_iter().flatten().for_each(StandIn::remove);
    }

    /// Lets the call change a name. If not, nothing has changed.
    pub(super) fn add(&self, request: &ProcessRequest, wanted: &Wanted<'_>) -> bool {
        let mut state = self.state();
        let all = state.entry(address(request)).or_default();
        let there = all.iter().position(|one| one.at == wanted.folder);
        let at = match there {
            Some(at) => at,
            None => {
                let Ok(Some(new)) = self.make(wanted) else { return false };
                all.push(new);
                all.len() - 1
            }
        };
        let added = all[at].add(wanted).is_ok();
        if !added && all[at].names.is_empty() {
            all.remove(at).remove();
        }
        added
    }

    fn make(&self, wanted: &Wanted<'_>) -> io::Result<Option<StandIn>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let real = wanted.place.folder();
        // Who may not change the folder can't be granted that.
        accessat(real, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())?;
        let mount = mount_number(real)?;
        let on_the_same = |path: &Path| {
            let opened = open_folder(CWD, path)?;
            Ok::<_, io::Error>((mount_number(opened.as_fd())? == mount).then_some(opened))
        };
        let (private, own) = match wanted.temp {
            Some(temp) => match on_the_same(temp)? {
                Some(temp) => (temp, None),
                None => return Ok(None),
            },
            None => {
                let lock = open_folder(CWD, folder)?;
                flock(&lock, FlockOperation::LockShared)?;
                let name = format!("{}-{}", std::process::id(), self.made.fetch_add(1, Ordering::Relaxed));
                let own = if on_the_same(folder)?.is_some() {
                    Own { path: folder.join(name), record: None }
                } else {
                    let record = folder.join(&name);
                    let path = wanted.folder.join(format!("{BESIDE}{name}"));
                    std::os::unix::fs::symlink(&path, &record)?;
                    Own { path, record: Some(record) }
                };
                let made = private_folder(&own, real);
                if made.is_err() {
                    own.remove();
                }
                (made?, Some(own))
            }
        };
        Ok(Some(StandIn {
            at: wanted.folder.to_owned(),
            private: Arc::new(private),
            own,
            real: real.try_clone_to_owned()?,
            names: Vec::new(),
            room: Vec::new(),
            quiet: wanted.in_memory || wanted.temp.is_some(),
        }))
    }

    /// What is to be mounted for a call.
    pub(super) fn parts(&self, request: &ProcessRequest) -> Vec<Part> {
        let state = self.state();
        let own = state.get(&address(request)).into_iter().flatten().filter(|one| one.own.is_some());
        own.map(|one| Part::StandIn { from: one.private.clone(), at: one.at.clone() }).collect()
    }

    /// Whether a call has a path already.
    pub(super) fn holds(&self, request: &ProcessRequest, path: &Path) -> bool {
        let holds = |one: &StandIn| {
            let rest = path.strip_prefix(&one.at).ok();
            rest.is_some_and(|rest| one.names.iter().any(|name| name.covers(rest)))
        };
        self.state().get(&address(request)).is_some_and(|all| all.iter().any(holds))
    }

    /// Remembers where something else is mounted in them, which the command didn't make.
    pub(super) fn note_room(&self, request: &ProcessRequest, places: &Places) {
        for one in self.state().get_mut(&address(request)).into_iter().flatten() {
            one.room = places.inside(&one.at);
        }
    }

    /// Carries out what became of the granted names, and says what didn't become of the others.
    pub(super) fn settle(&self, request: &ProcessRequest) -> Vec<Refusal> {
        let all = self.state().remove(&address(request)).unwrap_or_default();
        let mut said = Vec::new();
        for one in all {
            let failed = one.settle(&mut said);
            match failed {
                // What can't be put where it belongs is kept.
                true => {}
                false => one.remove(),
            }
        }
        said.truncate(limits::REPORTED_MAX);
        said
    }
}

impl Name {
    fn covers(&self, rest: &Path) -> bool {
        rest == self.rest || self.extent == Extent::Subtree && rest.starts_with(&self.rest)
    }
}

impl StandIn {
    fn add(&mut self, wanted: &Wanted<'_>) -> io::Result<()> {
        if Id::of(&fstat(wanted.place.folder())?) != Id::of(&fstat(&self.real)?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (rest, extent) = (wanted.place.rest().to_owned(), wanted.extent);
        if let Some(known) = self.names.iter_mut().find(|name| name.rest == rest) {
            if extent == Extent::Subtree {
                known.extent = extent;
            }
            return Ok(());
        }
        let mut before = None;
        if let Some(itself) = wanted.place.itself() {
            // By descriptor: the very file that was granted, whatever has its name by now.
            let path = format!("/proc/self/fd/{}", itself.as_raw_fd());
            linkat(CWD, path, &*self.private, &rest, AtFlags::SYMLINK_FOLLOW)?;
            before = Some(Id::of(&fstat(itself)?));
        }
        self.names.push(Name { rest, extent, before });
        self.names.sort_by(|one, other| one.rest.cmp(&other.rest));
        Ok(())
    }

    /// Whether something is left that belongs elsewhere.
    fn settle(&self, said: &mut Vec<Refusal>) -> bool {
        let mut failed = false;
        for name in &self.names {
            if let Err(error) = self.carry_out(name) {
                failed = true;
                let kept = match &self.own {
                    Some(own) => own.path.join(&name.rest),
                    None => self.at.join(&name.rest),
                };
                let done = format!(
                    "it can't be put there: {error}; what the command made is in `{}`",
                    kept.display()
                );
                said.push(Refusal::Protected { path: self.at.join(&name.rest), done });
            }
        }
        if self.own.is_none() {
            self.clear_temp();
        } else if !self.quiet {
            self.look_for_others(&self.private, Path::new(""), said);
        }
        failed
    }

    /// One granted name.
    fn carry_out(&self, name: &Name) -> io::Result<()> {
        let (mut from, mut to) = (self.private.try_clone()?, self.real.try_clone()?);
        let mut names = name.rest.iter().peekable();
        while let Some(part) = names.next() {
            let found = match statat(&from, part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => Some(found),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(errno.into()),
            };
            if names.peek().is_none() {
                return finish(name, from.as_fd(), to.as_fd(), part, found.as_ref());
            }
            // What it leads through: made by the command, or nothing was made at all.
            let Some(found) = found.filter(is_folder) else { return Ok(()) };
            make_like(to.as_fd(), part, &found)?;
            (from, to) = (open_folder(&from, part)?, open_folder(&to, part)?);
        }
        Ok(())
    }

    /// Takes the granted names out of the session's temporary folder.
    fn clear_temp(&self) {
        for name in self.names.iter().rev() {
            for part in name.rest.ancestors().filter(|part| !part.as_os_str().is_empty()) {
                // A folder with something in it stays.
                let _ = unlinkat(&*self.private, part, AtFlags::REMOVEDIR);
            }
            let found = statat(&*self.private, &name.rest, AtFlags::SYMLINK_NOFOLLOW).ok();
            if name.before.is_some() && found.map(|found| Id::of(&found)) == name.before {
                let _ = unlinkat(&*self.private, &name.rest, AtFlags::empty());
            }
        }
    }

    /// Says what the command left that it wasn't granted.
    fn look_for_others(&self, folder: &OwnedFd, inside: &Path, said: &mut Vec<Refusal>) {
        let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return };
        for entry in entries.flatten().take(limits::WATCHED_ENTRIES_MAX) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || said.len() >= limits::REPORTED_MAX {
                continue;
            }
            let rest = inside.join(name);
            let leads = |path: &PathBuf| path.starts_with(&rest);
            if self.names.iter().any(|name| leads(&name.rest)) || self.room.iter().any(leads) {
                let known = self.room.contains(&rest)
                    || self.names.iter().any(|name| name.covers(&rest) && name.before.is_some());
                if !known && let Ok(deeper) = open_folder(folder, name) {
                    self.look_for_others(&deeper, &rest, said);
                }
                continue;
            }
            let granted: Vec<String> = self
                .names
                .iter()
                .take(3)
                .map(|name| format!("`{}`", self.at.join(&name.rest).display()))
                .collect();
            let done = format!(
                "of that folder only {} was granted to it, so this was not kept; a grant of the whole folder would (`--add-dir {}`)",
                granted.join(", "),
                self.at.display()
            );
            said.push(Refusal::Protected { path: self.at.join(rest), done });
        }
    }

    fn remove(self) {
        if let Some(own) = &self.own {
            own.remove();
        }
    }
}

impl Own {
    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
        if let Some(record) = &self.record {
            let _ = fs::remove_file(record);
        }
    }
}

/// Makes of a name in one folder what became of it in another.
fn finish(
    name: &Name,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    last: &OsStr,
    found: Option<&Stat>,
) -> io::Result<()> {
    let Some(found) = found else {
        let now = statat(to, last, AtFlags::SYMLINK_NOFOLLOW).ok();
        // Removed by the command; unless it is another one by now.
        if name.before.is_some() && now.map(|now| Id::of(&now)) == name.before {
            unlinkat(to, last, AtFlags::empty())?;
        }
        return Ok(());
    };
    if Some(Id::of(found)) == name.before {
        return Ok(());
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if name.extent == Extent::File && !is_empty(from, last) => {
            // What is in it has to be granted by its own name.
            make_like(to, last, found)
        }
        FileType::Directory | FileType::RegularFile | FileType::Symlink => {
            Ok(renameat(from, last, to, last)?)
        }
        _ => Err(io::Error::other("it is neither a file nor a folder")),
    }
}

fn is_empty(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let Ok(opened) = open_folder(folder, name) else { return false };
    let Ok(mut entries) = rustix::fs::Dir::new(opened) else { return false };
    let other = |entry: &rustix::fs::DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
    !entries.any(|entry| entry.is_ok_and(|entry| other(&entry)))
}

fn is_folder(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

/// A folder with the permissions of another; one that is there stays as it is.
fn make_like(folder: BorrowedFd<'_>, name: &OsStr, like: &Stat) -> io::Result<()> {
    match mkdirat(folder, name, Mode::from_raw_mode(like.st_mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes a folder that nobody else may enter, and locks it.
fn private_folder(own: &Own, beside: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(0o700);
    let opened = match (&own.record, own.path.file_name()) {
        (Some(_), Some(name)) => {
            mkdirat(beside, name, mode)?;
            open_folder(beside, name)?
        }
        _ => {
            mkdirat(CWD, &own.path, mode)?;
            open_folder(CWD, &own.path)?
        }
    };
    flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    Ok(opened)
}

/// Removes what a killed session has left: a folder, or a link to one.
fn sweep(path: &Path) {
    let record = fs::read_link(path).ok();
    let folder = record.as_deref().unwrap_or(path);
    let ours = |name: &OsStr| name.as_bytes().starts_with(BESIDE.as_bytes());
    if record.is_some() && !folder.file_name().is_some_and(ours) {
        return;
    }
    match open_folder(CWD, folder) {
        Ok(opened) if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err() => return,
        Ok(_) => drop(fs::remove_dir_all(folder)),
        Err(_) => {}
    }
    if record.is_some() {
        let _ = fs::remove_file(path);
    }
}

fn open_folder(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

fn mount_number(folder: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}
