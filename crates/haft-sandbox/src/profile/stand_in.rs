//! Private folders that stand in for folders of the host in which one call was granted single names.
//!
//! Who replaces a file (`sed -i`, an editor, `git config`) writes another one beside it and renames that. So
//! beside a granted name a command has to be able to make others, and the folder that it lies in wasn't
//! granted. The command sees a private folder in its place: a granted file is in it as a second name of the
//! very same file, so that what is written into it is written at once. When the command has ended, what
//! became of the granted names is carried out in the real folder: what is another file now is moved there,
//! what is gone is removed, what was made is moved, and what it leads through is made. A granted file that
//! only has another name now stays where it was. What else there is was not granted: it is kept in
//! `recovered`, because it may be all that is left of something, and that is said.
//!
//! Both folders lie on one mount, so that nothing has to be copied; everything is done by name in folders
//! that are held open, and no link is followed. In the session's temporary folder, which stands at `/tmp`,
//! the same is done without another folder. What a killed session leaves behind goes when the next one
//! starts, and what it had made is kept then: a session holds a lock while it lives.

mod folder;
mod stand_in_recovery;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::files::RootExtent;
use haft::files::pinned_paths::PinnedPath;
use haft::ports::{ConfinementRefusal, ProcessRequest};
use haft::sync::lock;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, FlockOperation, Mode, Stat, accessat, flock, fstat, linkat, mkdirat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use self::folder::{NameSearch, StandInId, is_empty, is_folder, make_like, mount_number, open_folder};
use self::stand_in_recovery::{StandInRecord, strip_folder, sweep_killed};
use super::mount_map::MountMap;
use super::recovered_files::RecoveredFiles;
use super::{display_path, limits, make_private, request_address};
use crate::mount_plan::MountEntry;

/// What such a folder is called where it has to lie beside the granted name.
const BESIDE: &str = ".haft-standing-in-";
/// How the name of the file ends that says what one is for.
const SAYS: &str = ".of";
/// How many that killed sessions left are told of by name.
const SWEPT_TOLD_MAX: usize = 3;

pub(super) struct StandIns {
    /// Where they lie; none if nothing can be mounted.
    folder: Option<PathBuf>,
    recovered: RecoveredFiles,
    state: Mutex<HashMap<usize, Vec<StandIn>>>,
    made: AtomicU64,
}

/// A name that is to be changed.
pub(super) struct RequestedName<'a> {
    /// The folder that exists and in which the name lies, or what leads to it.
    pub(super) folder: &'a Path,
    pub(super) place: &'a PinnedPath,
    pub(super) extent: RootExtent,
    /// What stands at that folder for the whole session, if something does.
    pub(super) temp: Option<&'a Path>,
    /// Whether a command has that folder in memory otherwise, and expects nothing of what it leaves there.
    pub(super) in_memory: bool,
}

struct StandIn {
    at: PathBuf,
    /// The private folder, and where it is to be removed from.
    private: Arc<OwnedFd>,
    own: Option<PrivateFolder>,
    real: OwnedFd,
    names: Vec<GrantedName>,
    /// Where something else is mounted in it.
    room: Vec<PathBuf>,
    quiet: bool,
}

/// A folder that was made here.
struct PrivateFolder {
    path: PathBuf,
    /// How it is called among all of them.
    name: String,
    /// Says what it is for, should nobody be left who knows.
    says: PathBuf,
    /// Locks that file as long as this session lives. The folder itself is free to be locked by who changes
    /// files in it.
    _lock: fs::File,
    /// Leads to it, if it lies beside the granted name.
    record: Option<PathBuf>,
}

/// What was granted in a folder.
struct GrantedName {
    rest: PathBuf,
    extent: RootExtent,
    /// What it was, held so that its other names can be counted.
    before: Option<(StandInId, OwnedFd)>,
}

impl GrantedName {
    fn id(&self) -> Option<StandInId> {
        self.before.as_ref().map(|(id, _)| *id)
    }

    /// How many names that file has: none, one, or more.
    fn links(&self) -> u8 {
        let found = self.before.as_ref().and_then(|(_, held)| fstat(held).ok());
        match found.map(|found| found.st_nlink) {
            None | Some(0) => 0,
            Some(1) => 1,
            Some(_) => 2,
        }
    }
}

impl StandIns {
    /// Makes the folder for them, and removes what killed sessions have left.
    /// Also gives what the user should know of that.
    pub(super) fn open(caches: &Path) -> io::Result<(StandIns, Option<String>)> {
        let recovered = RecoveredFiles::open(caches);
        let mut kept = Vec::new();
        let folder = caches.join("standing-in");
        make_private(&folder)?;
        let lock = open_folder(CWD, &folder)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for entry in fs::read_dir(&folder)?.flatten().take(limits::STAND_INS_SWEPT_MAX) {
                kept.extend(sweep_killed(&entry.path(), &recovered));
            }
        }
        let more = if kept.len() > SWEPT_TOLD_MAX { " and others beside it" } else { "" };
        kept.truncate(SWEPT_TOLD_MAX);
        let note = (!kept.is_empty()).then(|| {
            format!(
                "a session was killed while a command made what was allowed; that is kept for {} days, perhaps unfinished: {}{more}",
                limits::RECOVERED_AGE_MAX.as_secs() / 86_400,
                kept.join(", ")
            )
        });
        let (state, made) = (Mutex::new(HashMap::new()), AtomicU64::new(0));
        Ok((StandIns { folder: Some(folder), recovered, state, made }, note))
    }

    /// From now on there are none.
    pub(super) fn close(&mut self) {
        self.folder = None;
    }

    fn state(&self) -> MutexGuard<'_, HashMap<usize, Vec<StandIn>>> {
        lock(&self.state)
    }

    /// Begins with a call: of one before it that never began nothing is left.
    pub(super) fn begin(&self, request: &ProcessRequest) {
        let left = self.state().remove(&request_address(request));
        left.into_iter().flatten().for_each(StandIn::remove);
    }

    /// Lets the call change a name. If not, nothing has changed.
    pub(super) fn add(&self, request: &ProcessRequest, wanted: &RequestedName<'_>) -> bool {
        let mut state = self.state();
        let all = state.entry(request_address(request)).or_default();
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

    fn make(&self, wanted: &RequestedName<'_>) -> io::Result<Option<StandIn>> {
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
                let says = folder.join(format!("{name}{SAYS}"));
                let _lock = fs::File::create(&says)?;
                flock(&_lock, FlockOperation::NonBlockingLockExclusive)?;
                let own = if on_the_same(folder)?.is_some() {
                    PrivateFolder { path: folder.join(&name), name, says, _lock, record: None }
                } else {
                    let record = folder.join(&name);
                    let path = wanted.folder.join(format!("{BESIDE}{name}"));
                    std::os::unix::fs::symlink(&path, &record)?;
                    PrivateFolder { path, name, says, _lock, record: Some(record) }
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
    pub(super) fn parts(&self, request: &ProcessRequest) -> Vec<MountEntry> {
        let state = self.state();
        let own = state.get(&request_address(request)).into_iter().flatten().filter(|one| one.own.is_some());
        own.map(|one| MountEntry::StandIn { from: one.private.clone(), at: one.at.clone() }).collect()
    }

    /// Whether a call has a path already.
    pub(super) fn holds(&self, request: &ProcessRequest, path: &Path) -> bool {
        let holds = |one: &StandIn| {
            let rest = path.strip_prefix(&one.at).ok();
            rest.is_some_and(|rest| one.names.iter().any(|name| name.covers(rest)))
        };
        self.state().get(&request_address(request)).is_some_and(|all| all.iter().any(holds))
    }

    /// Remembers where something else is mounted in them, which the command didn't make.
    pub(super) fn note_room(&self, request: &ProcessRequest, places: &MountMap) {
        for one in self.state().get_mut(&request_address(request)).into_iter().flatten() {
            one.room = places.inside(&one.at);
            if let Some(own) = &one.own {
                // Without it more would be kept after a crash than has to be.
                let _ = fs::write(&own.says, one.left().to_bytes());
            }
        }
    }

    /// Carries out what became of the granted names, and says what didn't become of the others.
    pub(super) fn settle(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        let all = self.state().remove(&request_address(request)).unwrap_or_default();
        let mut said = Vec::new();
        for one in all {
            one.settle(&self.recovered, &mut said);
        }
        said.truncate(limits::REPORTED_MAX);
        said
    }
}

impl GrantedName {
    fn covers(&self, rest: &Path) -> bool {
        rest == self.rest || self.extent == RootExtent::Subtree && rest.starts_with(&self.rest)
    }
}

impl StandIn {
    fn add(&mut self, wanted: &RequestedName<'_>) -> io::Result<()> {
        if StandInId::from_stat(&fstat(wanted.place.folder())?) != StandInId::from_stat(&fstat(&self.real)?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (rest, extent) = (wanted.place.rest().to_owned(), wanted.extent);
        if let Some(known) = self.names.iter_mut().find(|name| name.rest == rest) {
            if extent == RootExtent::Subtree {
                known.extent = extent;
            }
            return Ok(());
        }
        let mut before = None;
        if let Some(itself) = wanted.place.itself() {
            // By descriptor: the very file that was granted, whatever has its name by now.
            let path = format!("/proc/self/fd/{}", itself.as_raw_fd());
            linkat(CWD, path, &*self.private, &rest, AtFlags::SYMLINK_FOLLOW)?;
            before = Some((StandInId::from_stat(&fstat(itself)?), itself.try_clone_to_owned()?));
        }
        self.names.push(GrantedName { rest, extent, before });
        self.names.sort_by(|one, other| one.rest.cmp(&other.rest));
        Ok(())
    }

    /// Carries everything out, keeps what has no place, and says so.
    fn settle(self, recovered: &RecoveredFiles, said: &mut Vec<ConfinementRefusal>) {
        let (mut failed, mut moved, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for name in &self.names {
            match self.carry_out(name) {
                Ok(NameOutcome::AsItBecame) => {}
                Ok(NameOutcome::Stays(now)) => moved.push((name, now)),
                Err(error) => failed.push((name, error)),
            }
        }
        let mut say = |rest: &Path, done: String| {
            if said.len() < limits::REPORTED_MAX {
                said.push(ConfinementRefusal::Protected { path: self.at.join(rest), done });
            }
        };
        for (name, now) in &moved {
            let granted = self.at.join(&name.rest);
            let done = format!(
                "only `{}` was granted to it, and not another name for that, so it stays where it was",
                display_path(&granted)
            );
            say(now.as_deref().unwrap_or(&name.rest), done);
        }
        let Some(own) = &self.own else {
            for (name, error) in failed {
                let kept = self.at.join(&name.rest);
                say(
                    &name.rest,
                    format!(
                        "it can't be put there: {error}; the session's has it in `{}`",
                        display_path(&kept)
                    ),
                );
            }
            self.clear_temp(recovered, &mut say);
            return;
        };
        if !self.quiet {
            self.look_for_others(&self.private, Path::new(""), &mut others);
            others.retain(|rest| {
                !moved.iter().any(|(_, now)| now.as_deref().is_some_and(|now| now.starts_with(rest)))
            });
        }
        let kept = strip_folder(self.private.as_fd(), Path::new(""), &self.left(), 0)
            .then(|| recovered.keep(&own.name, &own.path));
        let kept_in = |rest: &Path| {
            let kept =
                kept.as_ref().map(|kept| kept.join(rest)).filter(|kept| kept.symlink_metadata().is_ok());
            kept.map(|kept| format!("`{}`", display_path(&kept)))
        };
        let is_told = !failed.is_empty() || !others.is_empty();
        for (name, error) in failed {
            let kept = kept_in(&name.rest).map(|kept| format!("; what the command made is in {kept}"));
            say(&name.rest, format!("it can't be put there: {error}{}", kept.unwrap_or_default()));
        }
        let granted = self.names.iter().take(3);
        let granted: Vec<String> =
            granted.map(|name| format!("`{}`", display_path(&self.at.join(&name.rest)))).collect();
        for rest in others {
            let so = match kept_in(&rest) {
                Some(kept) => format!("so this was not put there and is in {kept}"),
                None => "so this was not kept".to_owned(),
            };
            let done = format!(
                "of that folder only {} was granted to it, {so}; a grant of the whole folder `{}` would keep it there",
                granted.join(", "),
                display_path(&self.at)
            );
            say(&rest, done);
        }
        match &kept {
            Some(kept) if !is_told => {
                let rest = self.names.first().map_or(Path::new(""), |name| &name.rest);
                say(rest, format!("what it was before, or became, is in `{}`", display_path(&kept)));
            }
            _ => {}
        }
        match kept {
            Some(kept) if kept == own.path => own.forget(),
            _ => own.remove(),
        }
    }

    /// What says which of the things in it matter.
    fn left(&self) -> StandInRecord {
        StandInRecord {
            at: self.at.clone(),
            quiet: self.quiet,
            granted: self.names.iter().map(|name| name.rest.clone()).collect(),
            files: self.names.iter().filter_map(GrantedName::id).collect(),
            room: self.room.clone(),
        }
    }

    /// One granted name.
    fn carry_out(&self, name: &GrantedName) -> io::Result<NameOutcome> {
        let (mut from, mut to) = (self.private.try_clone()?, self.real.try_clone()?);
        let mut names = name.rest.iter().peekable();
        while let Some(part) = names.next() {
            let found = match statat(&from, part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => Some(found),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(errno.into()),
            };
            if names.peek().is_none() {
                let Some(found) = found else { return self.remove_real(name, to.as_fd(), part) };
                move_into_place(name, from.as_fd(), to.as_fd(), part, &found)?;
                return Ok(NameOutcome::AsItBecame);
            }
            // What it leads through: made by the command, or nothing was made at all.
            let Some(found) = found.filter(is_folder) else { return Ok(NameOutcome::AsItBecame) };
            make_like(to.as_fd(), part, &found)?;
            (from, to) = (open_folder(&from, part)?, open_folder(&to, part)?);
        }
        Ok(NameOutcome::AsItBecame)
    }

    /// Removes a name that the command has removed: not if it is another file by now, or only has another
    /// name.
    fn remove_real(&self, name: &GrantedName, to: BorrowedFd<'_>, last: &OsStr) -> io::Result<NameOutcome> {
        let now = statat(to, last, AtFlags::SYMLINK_NOFOLLOW).ok().map(|now| StandInId::from_stat(&now));
        let Some(id) = name.id().filter(|id| now == Some(*id)) else { return Ok(NameOutcome::AsItBecame) };
        if name.links() > 1 {
            let mut search = NameSearch::new(id);
            let whole = search.look_in(self.private.as_fd(), Path::new(""), 0);
            if !whole || !search.found.is_empty() {
                return Ok(NameOutcome::Stays(search.found.pop().map(|(_, _, rest)| rest)));
            }
        }
        unlinkat(to, last, AtFlags::empty())?;
        Ok(NameOutcome::AsItBecame)
    }

    /// Takes the granted names out of the session's temporary folder, and other names of those files too: the
    /// next command could write them.
    fn clear_temp(&self, recovered: &RecoveredFiles, say: &mut impl FnMut(&Path, String)) {
        for name in self.names.iter().rev() {
            for part in name.rest.ancestors().filter(|part| !part.as_os_str().is_empty()) {
                // A folder with something in it stays.
                let _ = unlinkat(&*self.private, part, AtFlags::REMOVEDIR);
            }
            let Some((id, held)) = &name.before else { continue };
            let is = |folder: BorrowedFd<'_>| {
                let found = statat(folder, &name.rest, AtFlags::SYMLINK_NOFOLLOW).ok();
                found.is_some_and(|found| StandInId::from_stat(&found) == *id)
            };
            let stays = is(self.real.as_fd());
            if stays && is(self.private.as_fd()) {
                let _ = unlinkat(&*self.private, &name.rest, AtFlags::empty());
            }
            if name.links() <= u8::from(stays) {
                continue;
            }
            let mut search = NameSearch::new(*id);
            search.look_in(self.private.as_fd(), Path::new(""), 0);
            for (folder, called, rest) in search.found {
                if !stays && name.links() == 1 {
                    let kept = format!("temp-{}", std::process::id());
                    let Ok(kept) = recovered.keep_file(&kept, &called, held.as_fd()) else { continue };
                    let granted = self.at.join(&name.rest);
                    let done = format!(
                        "only `{}` was granted to it, so this, which it was before, is in `{}`",
                        display_path(&granted),
                        display_path(&kept)
                    );
                    say(&rest, done);
                }
                let _ = unlinkat(&folder, &called, AtFlags::empty());
            }
        }
    }

    /// What the command left that it wasn't granted.
    fn look_for_others(&self, folder: &OwnedFd, inside: &Path, others: &mut Vec<PathBuf>) {
        let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return };
        for entry in entries.flatten().take(limits::WATCHED_ENTRIES_MAX) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || others.len() >= limits::REPORTED_MAX {
                continue;
            }
            let rest = inside.join(name);
            let leads = |path: &PathBuf| path.starts_with(&rest);
            if self.names.iter().any(|name| leads(&name.rest)) || self.room.iter().any(leads) {
                let known = self.room.contains(&rest)
                    || self.names.iter().any(|name| name.covers(&rest) && name.before.is_some());
                if !known && let Ok(deeper) = open_folder(folder, name) {
                    self.look_for_others(&deeper, &rest, others);
                }
                continue;
            }
            others.push(rest);
        }
    }

    fn remove(self) {
        if let Some(own) = &self.own {
            own.remove();
        }
    }
}

impl PrivateFolder {
    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
        self.forget();
    }

    fn forget(&self) {
        let _ = fs::remove_file(&self.says);
        if let Some(record) = &self.record {
            let _ = fs::remove_file(record);
        }
    }
}

/// What was done about a granted name.
enum NameOutcome {
    AsItBecame,
    /// The file has another name for the command, perhaps this one, and keeps its own.
    Stays(Option<PathBuf>),
}

/// Makes of a name in one folder what became of it in another.
fn move_into_place(
    name: &GrantedName,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    last: &OsStr,
    found: &Stat,
) -> io::Result<()> {
    if Some(StandInId::from_stat(found)) == name.id() {
        return Ok(());
    }
    let there = statat(to, last, AtFlags::SYMLINK_NOFOLLOW).ok();
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if there.is_some_and(|there| !is_folder(&there)) => {
            Err(io::Error::other("it was a file and would be a folder now"))
        }
        FileType::Directory if name.extent == RootExtent::File && !is_empty(from, last) => {
            // What is in it has to be granted by its own name.
            make_like(to, last, found)
        }
        FileType::Directory | FileType::RegularFile | FileType::Symlink => {
            Ok(renameat(from, last, to, last)?)
        }
        _ => Err(io::Error::other("it is neither a file nor a folder")),
    }
}

/// Makes a folder that nobody else may enter.
fn private_folder(own: &PrivateFolder, beside: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(0o700);
    match (&own.record, own.path.file_name()) {
        (Some(_), Some(name)) => {
            mkdirat(beside, name, mode)?;
            open_folder(beside, name)
        }
        _ => {
            mkdirat(CWD, &own.path, mode)?;
            open_folder(CWD, &own.path)
        }
    }
}
