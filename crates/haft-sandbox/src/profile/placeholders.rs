//! Folders that stand where a protected name doesn't exist yet.
//!
//! A name can only be held in a child's view if there is something on the host to hold, and the kernel lets go of what it
//! holds as soon as somebody removes that. So where `.mcp.json` isn't, an *empty folder* of that name is made for as long as
//! a command runs that could make it, and a moment longer, because the next one often follows at once: git doesn't see empty folders, programs that look for a file find none, and what is
//! removed at the end can't be anybody's work, because only an empty folder can be removed so. One that the user has made
//! stays, though it is empty.
//!
//! Each session writes down what it makes before it makes it, and then which folder that is, in a file that it keeps
//! locked while it lives. Whoever opens or ends a session, or wants to write such a name, takes away what is written in
//! files that nobody holds any more, unless a living session needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use haft::sync::lock;
use rustix::fs::{FlockOperation, flock};

use super::shelf::{self, Shelf};
use super::whereabouts::Id;
use super::{limits, make_private};

#[derive(Debug)]
pub(super) struct Placeholders {
    all: Arc<All>,
}

/// What is shared with the thread that takes away what nobody needs any more.
#[derive(Debug)]
struct All {
    records: PathBuf,
    own: PathBuf,
    state: Mutex<State>,
    /// The session ends.
    ends: Condvar,
}

#[derive(Debug)]
struct State {
    /// Locked as long as this lives.
    record: File,
    /// What this session has made, or needs although another one has made it. It is in the record.
    made: BTreeSet<PathBuf>,
    /// Who needs which of them: requests whose children run.
    needs: BTreeMap<usize, Vec<PathBuf>>,
    /// Those that nobody needs, until when they stand.
    idle: BTreeSet<PathBuf>,
    until: Instant,
    /// Takes the idle away, when it is time.
    cleaner: Option<JoinHandle<()>>,
    closed: bool,
    /// What was ever made.
    ever: BTreeSet<PathBuf>,
    /// Empty folders that no session has made.
    of_others: Vec<(PathBuf, Id)>,
    shelf: Shelf,
}

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    path: PathBuf,
    /// Missing until it is made.
    id: Option<Id>,
}

impl Line {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self.id {
            Some(id) => [b"=", &*id.write(&self.path)].concat(),
            None => self.path.as_os_str().as_bytes().to_vec(),
        };
        bytes.push(0);
        bytes
    }

    fn parse(line: &[u8]) -> Option<Line> {
        let Some(rest) = line.strip_prefix(b"=") else {
            let path = PathBuf::from(OsStr::from_bytes(line));
            return (!line.is_empty()).then_some(Line { path, id: None });
        };
        Id::read(rest).map(|(id, path)| Line { path, id: Some(id) })
    }
}

/// What is written in a record.
fn read(record: &Path) -> Vec<Line> {
    fs::read(record).unwrap_or_default().split(|byte| *byte == 0).filter_map(Line::parse).collect()
}

/// Whether it was made by who wrote these. What was only going to be made was, if it is there.
fn is_made(lines: &[Line], path: &Path) -> bool {
    is_made_as(lines, path, Id::at(path))
}

/// The same of something at the path of which it is known what it is.
fn is_made_as(lines: &[Line], path: &Path, id: Option<Id>) -> bool {
    let (mut listed, mut known) = (false, false);
    for line in lines.iter().filter(|line| line.path == path) {
        if line.id.is_some() && line.id == id {
            return true;
        }
        (listed, known) = (true, known || line.id.is_some());
    }
    listed && !known
}

impl State {
    fn new(record: File, shelf: Shelf) -> State {
        State {
            record,
            made: BTreeSet::new(),
            needs: BTreeMap::new(),
            idle: BTreeSet::new(),
            until: Instant::now(),
            cleaner: None,
            closed: false,
            ever: BTreeSet::new(),
            of_others: Vec::new(),
            shelf,
        }
    }

    fn need(&mut self, request: usize, path: &Path) {
        self.idle.remove(path);
        let own = self.needs.entry(request).or_default();
        if !own.iter().any(|known| known == path) {
            own.push(path.to_owned());
        }
    }
}

impl Placeholders {
    /// Keeps records in this folder, and takes away what dead sessions have left.
    pub(super) fn open(records: &Path) -> io::Result<Placeholders> {
        make_private(records)?;
        let _alone = alone(records)?;
        clear(records, None);
        let mut tries = 0u32;
        loop {
            let own = records.join(format!("{}-{tries}", std::process::id()));
            let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&own);
            match opened {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 10_000 => tries += 1,
                Err(error) => return Err(error),
                Ok(record) => {
                    flock(&record, FlockOperation::NonBlockingLockExclusive)?;
                    let shelf = Shelf::at(shelf_of(&own));
                    let state = Mutex::new(State::new(record, shelf));
                    let all = All { records: records.to_owned(), own, state, ends: Condvar::new() };
                    return Ok(Placeholders { all: Arc::new(all) });
                }
            }
        }
    }

    /// Sees to it that something is at each of these paths, whose parents must exist, until this request is
    /// [let go](Placeholders::let_go). Gives those where nothing can be.
    pub(super) fn ensure(&self, request: usize, paths: &[PathBuf]) -> io::Result<Vec<(PathBuf, io::Error)>> {
        let mut state = self.all.state();
        let mut rest = Vec::new();
        for path in paths {
            let there = Id::at(path);
            let known = |id: Id| state.of_others.iter().any(|(other, of)| other == path && *of == id);
            match there {
                Some(_) if state.made.contains(path) => state.need(request, path),
                Some(id) if !stands(path) || known(id) => {}
                _ => rest.push(path),
            }
        }
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        // Not while another session takes its own away.
        let _alone = alone(&self.all.records)?;
        let (mut lines, mut missing, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for path in rest {
            let Some(id) = Id::at(path) else {
                lines.push(Line { path: path.clone(), id: None });
                missing.push(path);
                continue;
            };
            let records = fs::read_dir(&self.all.records).into_iter().flatten().flatten().filter(is_record);
            if records.map(|entry| read(&entry.path())).any(|lines| is_made(&lines, path)) {
                lines.push(Line { path: path.clone(), id: Some(id) });
                state.made.insert(path.clone());
                state.ever.insert(path.clone());
                state.need(request, path);
            } else if stands(path) {
                state.of_others.push((path.clone(), id));
            }
        }
        note(&mut state.record, &lines)?;
        lines.clear();
        for path in missing {
            match state.shelf.stand(path) {
                Ok(id) => lines.push(Line { path: path.clone(), id }),
                // The user was quicker.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    failed.push((path.clone(), error));
                    continue;
                }
            }
            state.made.insert(path.clone());
            state.ever.insert(path.clone());
            state.need(request, path);
        }
        note(&mut state.record, &lines)?;
        Ok(failed)
    }

    /// Says that this request needs none any more. What only it needed stands for a moment.
    pub(super) fn let_go(&self, request: usize) {
        let mut state = self.all.state();
        let Some(own) = state.needs.remove(&request) else { return };
        let needed = |path: &PathBuf| state.needs.values().flatten().any(|needed| needed == path);
        let free: Vec<PathBuf> = own.into_iter().filter(|path| !needed(path)).collect();
        if free.is_empty() {
            return;
        }
        state.idle.extend(free);
        state.until = Instant::now() + limits::STAND_IN_LINGER;
        if state.cleaner.as_ref().is_none_or(JoinHandle::is_finished) {
            let all = self.all.clone();
            let thread = thread::Builder::new().name("haft-names".into());
            match thread.stack_size(crate::limits::THREAD_STACK_BYTES).spawn(move || all.clean_in_time()) {
                Ok(cleaner) => state.cleaner = Some(cleaner),
                Err(_) => self.all.clean(&mut state),
            }
        }
    }

    /// Takes away at once what nobody needs.
    pub(super) fn clean(&self) {
        self.all.clean(&mut self.all.state());
    }

    /// Whether this session has made a path, or needs what another session has made there.
    pub(super) fn made(&self, path: &Path) -> bool {
        self.all.state().made.contains(path)
    }

    /// Whether what stands at a path is to be the same folder for the next request as it is for this one, as far as anybody
    /// can tell: it stands already, or waits on the shelf, or nothing ever stood there.
    pub(super) fn lasts(&self, path: &Path) -> bool {
        let state = self.all.state();
        state.made.contains(path) || state.shelf.has(path) || !state.ever.contains(path)
    }

    /// What this session has made that stands.
    pub(super) fn all(&self) -> BTreeSet<PathBuf> {
        self.all.state().made.clone()
    }

    /// Whether this session has stood in for a path, now or before.
    pub(super) fn stood(&self, path: &Path) -> bool {
        self.all.state().ever.contains(path)
    }
}

impl All {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until it is time to clean, and does. Ends when there is nothing to clean any more.
    fn clean_in_time(&self) {
        let mut state = self.state();
        while !state.closed && !state.idle.is_empty() {
            let left = state.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.clean(&mut state);
                break;
            }
            state = self.ends.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Who lets go next needs another one.
        state.cleaner = None;
    }

    /// Takes away what nobody needs.
    fn clean(&self, state: &mut State) {
        let idle = std::mem::take(&mut state.idle);
        if idle.is_empty() {
            return;
        }
        let Ok(_alone) = alone(&self.records) else { return };
        let of_others = needed_by_others(&self.records, &self.own);
        let listed = read(&self.own);
        for path in idle {
            let id = Id::at(&path);
            if !of_others.contains(&path) && is_made_as(&listed, &path, id) {
                state.shelf.away(&path, id);
            }
            state.made.remove(&path);
        }
        if state.made.is_empty() {
            let _ = state.record.set_len(0);
        }
    }
}

fn note(record: &mut File, lines: &[Line]) -> io::Result<()> {
    let bytes: Vec<u8> = lines.iter().flat_map(Line::to_bytes).collect();
    if bytes.is_empty() { Ok(()) } else { record.write_all(&bytes) }
}

/// Where the folders wait of the session with this record.
fn shelf_of(record: &Path) -> PathBuf {
    record.with_extension("shelf")
}

/// Whether it is what a session has written down.
fn is_record(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    name != "lock" && Path::new(&name).extension().is_none()
}

/// What living sessions have written down, but for one of them.
fn needed_by_others(records: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(records).into_iter().flatten().flatten();
    let others = entries.filter(is_record).map(|entry| entry.path()).filter(|path| path != own);
    let lives = |path: &PathBuf| {
        let file = File::open(path);
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
    };
    let lines = others.filter(lives).flat_map(|path| read(&path));
    lines.map(|line| line.path).collect()
}

/// Where in the folder for caches records are kept.
pub(super) fn records(caches: &Path) -> PathBuf {
    caches.join("placeholders")
}

/// Makes room for a file of the user's own where protected names are held: takes away the empty folders that killed
/// sessions have left. `caches` is that of [`ProfileConfig`](super::ProfileConfig).
///
/// To be called before one of [`PROTECTED`](super::PROTECTED) is written. Says whether nothing stands at the path any more;
/// if not, a command runs that is kept from it, and the folder has to stay until that one has ended. Waits for the moment
/// that it takes until the folders of a command go that has just ended.
///
/// ```
/// let (state, work) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// assert!(haft_sandbox::make_way(state.path(), &work.path().join(".mcp.json")));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn make_way(caches: &Path, path: &Path) -> bool {
    let records = records(caches);
    if !records.is_dir() || !stands(path) {
        return true;
    }
    let until = Instant::now() + 2 * limits::STAND_IN_LINGER;
    loop {
        let Ok(alone) = alone(&records) else { return true };
        clear(&records, None);
        let listed = || needed_by_others(&records, Path::new(""));
        if !stands(path) || !listed().iter().any(|needed| needed == path) {
            return true;
        }
        drop(alone);
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(limits::STAND_IN_LINGER / 20);
    }
}

/// Takes away the empty folders that killed sessions have left in place of protected names, anywhere. Costs next to nothing
/// where there are none.
pub fn clear_way(caches: &Path) {
    let records = records(caches);
    let left = fs::read_dir(&records).into_iter().flatten().flatten();
    if left.filter(is_record).count() > 0
        && let Ok(_alone) = alone(&records)
    {
        clear(&records, None);
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        let cleaner = {
            let mut state = self.all.state();
            state.closed = true;
            state.cleaner.take()
        };
        self.all.ends.notify_all();
        // It only waits.
        let _ = cleaner.map(JoinHandle::join);
        if let Ok(_alone) = alone(&self.all.records) {
            clear(&self.all.records, Some(&self.all.own));
        }
    }
}

/// Whether an empty folder is at a path. It may be one of another session, and goes when nobody needs it any more: with it
/// would go what holds the name in the view of a command that runs.
pub(super) fn stands(path: &Path) -> bool {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Held while records are read, written or removed.
pub(super) fn alone(records: &Path) -> io::Result<File> {
    let path = records.join("lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Takes away what is written in records that nobody holds, and in the one that ends now.
fn clear(records: &Path, ending: Option<&Path>) {
    let (mut needed, mut left) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(records).into_iter().flatten().flatten() {
        let path = entry.path();
        if !is_record(&entry) {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        let dead =
            ending == Some(path.as_path()) || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let listed = read(&path);
        match dead {
            true => left.push((path, listed)),
            false => needed.extend(listed.into_iter().map(|line| line.path)),
        }
    }
    for (record, listed) in left {
        for Line { path, .. } in listed.iter().filter(|line| !needed.contains(&line.path)) {
            if is_made(&listed, path) {
                // Only an empty folder goes this way.
                let _ = fs::remove_dir(path);
            }
        }
        shelf::clear(&shelf_of(&record));
        let _ = fs::remove_file(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Placeholders {
        fn put(&self, path: &Path) {
            assert!(self.ensure(0, &[path.to_owned()]).unwrap().is_empty());
        }
    }

    #[test]
    fn they_go_with_the_session_that_made_them() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".mcp.json"));
        let first = Placeholders::open(&records).unwrap();
        first.put(&name);
        assert!(name.is_dir() && first.made(&name));
        drop(first);
        assert!(!name.exists() && fs::read_dir(&records).unwrap().count() == 1, "only the lock is left");
    }

    /// Between commands nothing is to be seen of them.
    #[test]
    fn they_go_with_the_last_command_that_needs_them() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".mcp.json"));
        let (session, other) = (Placeholders::open(&records).unwrap(), Placeholders::open(&records).unwrap());
        for _ in 0..3 {
            let all = [name.clone(), dir.path().join(".idea")];
            assert!(session.ensure(1, &all).unwrap().is_empty());
            assert!(session.ensure(2, &all[..1]).unwrap().is_empty());
            session.let_go(1);
            assert!(all[1].is_dir(), "the next command may follow at once");
            session.clean();
            assert!(name.is_dir() && !all[1].exists() && session.made(&name) && !session.made(&all[1]));
            assert!(other.ensure(3, &all[..1]).unwrap().is_empty());
            session.let_go(2);
            session.clean();
            assert!(name.is_dir() && !session.made(&name), "a command of another session is held by it");
            other.let_go(3);
            other.clean();
            assert!(!name.exists() && session.stood(&name));
            assert_eq!(fs::read(&session.all.own).unwrap(), b"", "nothing is left to be cleaned up");
        }
        // What somebody put into it stays.
        session.put(&name);
        fs::write(name.join("x"), "mine").unwrap();
        session.let_go(0);
        session.clean();
        assert!(name.join("x").exists());
    }

    #[test]
    fn they_go_by_themselves_when_no_command_follows() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".mcp.json"));
        let session = Placeholders::open(&records).unwrap();
        for _ in 0..2 {
            session.put(&name);
            session.let_go(0);
            let cleaner = session.all.state().cleaner.take();
            // Another command follows, so it waits for that.
            session.put(&name);
            session.let_go(0);
            cleaner.unwrap().join().unwrap();
            let later = session.all.state().cleaner.take();
            let _ = later.map(JoinHandle::join);
            assert!(!name.exists() && !session.made(&name));
        }
        // What ends meanwhile doesn't wait.
        session.put(&name);
        session.let_go(0);
        drop(session);
        assert!(!name.exists());
    }

    #[test]
    fn way_is_made_for_the_users_own_file() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (records(dir.path()), dir.path().join(".mcp.json"));
        let living = Placeholders::open(&records).unwrap();
        living.put(&name);
        assert!(!make_way(dir.path(), &name) && name.is_dir(), "a command runs");
        let record = fs::read(&living.all.own).unwrap();
        living.let_go(0);
        assert!(make_way(dir.path(), &name), "a command has just ended");
        // Killed: its folder is there, and nobody holds its record.
        fs::create_dir(&name).unwrap();
        fs::write(records.join("1-0"), format!("{}\0", name.display())).unwrap();
        assert!(make_way(dir.path(), &name) && !name.exists());
        fs::create_dir(&name).unwrap();
        fs::write(records.join("1-0"), record).unwrap();
        clear_way(dir.path());
        assert!(name.is_dir(), "another one than it made");
        assert!(make_way(dir.path(), &name) && name.is_dir(), "it is the user's");
    }

    #[test]
    fn one_that_another_session_needs_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".haft"));
        let first = Placeholders::open(&records).unwrap();
        first.put(&name);
        fs::remove_dir(&name).unwrap();
        let second = Placeholders::open(&records).unwrap();
        second.put(&name);
        drop(first);
        assert!(name.is_dir());
        drop(second);
        assert!(!name.exists());
    }

    /// A command of the second session runs with the folder of the first in its view.
    #[test]
    fn one_that_another_session_found_stays_too() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".haft"));
        let first = Placeholders::open(&records).unwrap();
        first.put(&name);
        let second = Placeholders::open(&records).unwrap();
        second.put(&name);
        drop(first);
        assert!(name.is_dir());
        drop(second);
        assert!(!name.exists());
    }

    #[test]
    fn what_was_there_before_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".envrc"));
        fs::write(&name, "mine").unwrap();
        let session = Placeholders::open(&records).unwrap();
        session.put(&name);
        assert!(!session.made(&name));
        drop(session);
        assert!(name.is_file());
    }

    #[test]
    fn an_empty_folder_of_the_users_own_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".idea"));
        fs::create_dir(&name).unwrap();
        let (one, other) = (Placeholders::open(&records).unwrap(), Placeholders::open(&records).unwrap());
        for session in [one, other] {
            session.put(&name);
            session.put(&name);
            assert!(!session.made(&name));
        }
        assert!(name.is_dir());
        // So does one that the user makes in place of the session's, also if the session is killed.
        fs::remove_dir(&name).unwrap();
        let session = Placeholders::open(&records).unwrap();
        session.put(&name);
        fs::remove_dir(&name).unwrap();
        fs::create_dir(&name).unwrap();
        session.put(&name);
        let record = fs::read(&session.all.own).unwrap();
        drop(session);
        assert!(name.is_dir());
        fs::write(records.join("1-0"), record).unwrap();
        drop(Placeholders::open(&records).unwrap());
        assert!(name.is_dir());
    }

    #[test]
    fn what_a_killed_session_made_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".idea"));
        let killed = Placeholders::open(&records).unwrap();
        killed.put(&name);
        let record = fs::read(&killed.all.own).unwrap();
        // It doesn't end; only its lock goes.
        let later = Placeholders::open(&records).unwrap();
        fs::write(records.join("1-0"), &record).unwrap();
        std::mem::forget(killed);
        later.put(&name);
        assert!(later.made(&name));
        fs::remove_file(records.join(format!("{}-0", std::process::id()))).unwrap();
        drop(later);
        assert!(!name.exists());
    }

    #[test]
    fn what_a_killed_session_left_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let records = dir.path().join("records");
        let (left, used) = (dir.path().join(".vscode"), dir.path().join(".idea"));
        fs::create_dir_all(&records).unwrap();
        fs::create_dir(&left).unwrap();
        fs::create_dir(&used).unwrap();
        fs::write(used.join("workspace.xml"), "mine").unwrap();
        fs::write(records.join("1-0"), format!("{}\0{}\0", left.display(), used.display())).unwrap();
        let _session = Placeholders::open(&records).unwrap();
        assert!(!left.exists() && used.join("workspace.xml").exists() && !records.join("1-0").exists());
    }
}
