//! Folders that stand where a protected name doesn't exist yet.
//!
//! A name can only be held in a child's view if there is something on the host to hold. So where `.mcp.json` isn't, an
//! *empty folder* of that name is made for the session: git doesn't see empty folders, programs that look for a file
//! find none, and what is removed at the end can't be anybody's work, because only an empty folder can be removed so.
//! One that the user has made stays, though it is empty.
//!
//! Each session writes down what it makes before it makes it, and then which folder that is, in a file that it keeps
//! locked while it lives. Whoever opens or ends a session takes away what is written in files that nobody holds any more,
//! unless a living session needs it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

#[derive(Debug)]
pub(super) struct Placeholders {
    records: PathBuf,
    own: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Locked as long as this lives.
    record: File,
    made: Vec<PathBuf>,
    /// Empty folders that no session has made.
    of_others: Vec<(PathBuf, Id)>,
}

/// Which folder it is: numbers are used again, so when it was made counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id {
    device: u64,
    number: u64,
    born: u128,
}

impl Id {
    fn at(path: &Path) -> Option<Id> {
        let found = path.symlink_metadata().ok()?;
        let born = found.created().ok().and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        Some(Id { device: found.dev(), number: found.ino(), born: born.map_or(0, |born| born.as_nanos()) })
    }
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
            Some(Id { device, number, born }) => format!("={device}:{number}:{born}:").into_bytes(),
            None => Vec::new(),
        };
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        bytes.push(0);
        bytes
    }

    fn parse(line: &[u8]) -> Option<Line> {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let Some(rest) = line.strip_prefix(b"=") else {
            return (!line.is_empty()).then(|| Line { path: path(line), id: None });
        };
        let mut parts = rest.splitn(4, |byte| *byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u128>().ok();
        let (device, inode, born) = (number()?, number()?, number()?);
        let id = Id { device: device.try_into().ok()?, number: inode.try_into().ok()?, born };
        Some(Line { path: path(parts.next()?), id: Some(id) })
    }
}

/// What is written in a record.
fn read(record: &Path) -> Vec<Line> {
    fs::read(record).unwrap_or_default().split(|byte| *byte == 0).filter_map(Line::parse).collect()
}

/// Whether it was made by who wrote these. What was only going to be made was, if it is there.
fn is_made(lines: &[Line], path: &Path) -> bool {
    let (mut listed, mut known) = (false, false);
    for line in lines.iter().filter(|line| line.path == path) {
        if line.id.is_some() && line.id == Id::at(path) {
            return true;
        }
        (listed, known) = (true, known || line.id.is_some());
    }
    listed && !known
}

impl Placeholders {
    /// Keeps records in this folder, and takes away what dead sessions have left.
    pub(super) fn open(records: &Path) -> io::Result<Placeholders> {
        fs::create_dir_all(records)?;
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
                    let state = Mutex::new(State { record, made: Vec::new(), of_others: Vec::new() });
                    return Ok(Placeholders { records: records.to_owned(), own, state });
                }
            }
        }
    }

    /// Sees to it that something is at a path, whose parent must exist.
    pub(super) fn ensure(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (there, needed) = (Id::at(path), state.made.iter().any(|made| made == path));
        let known = |id: Id| state.of_others.iter().any(|(other, of)| other == path && *of == id);
        if there.is_some_and(|id| needed || !stands(path) || known(id)) {
            return Ok(());
        }
        // Not while another session takes its own away.
        let _alone = alone(&self.records)?;
        let note =
            |state: &mut State, id| state.record.write_all(&Line { path: path.to_owned(), id }.to_bytes());
        if let Some(id) = Id::at(path) {
            let records = fs::read_dir(&self.records).into_iter().flatten().flatten();
            if records.map(|entry| read(&entry.path())).any(|lines| is_made(&lines, path)) {
                note(&mut state, Some(id))?;
                state.made.push(path.to_owned());
            } else {
                state.of_others.push((path.to_owned(), id));
            }
            return Ok(());
        }
        if !needed {
            note(&mut state, None)?;
            state.made.push(path.to_owned());
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => note(&mut state, Id::at(path)),
        }
    }

    /// Whether this session has made a path, or needs what another session has made there.
    pub(super) fn made(&self, path: &Path) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.made.iter().any(|made| made == path)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        if let Ok(_alone) = alone(&self.records) {
            clear(&self.records, Some(&self.own));
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
        if entry.file_name() == "lock" {
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
        let _ = fs::remove_file(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_with_the_session_that_made_them() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".mcp.json"));
        let first = Placeholders::open(&records).unwrap();
        first.ensure(&name).unwrap();
        assert!(name.is_dir() && first.made(&name));
        drop(first);
        assert!(!name.exists() && fs::read_dir(&records).unwrap().count() == 1, "only the lock is left");
    }

    #[test]
    fn one_that_another_session_needs_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (records, name) = (dir.path().join("records"), dir.path().join(".haft"));
        let first = Placeholders::open(&records).unwrap();
        first.ensure(&name).unwrap();
        fs::remove_dir(&name).unwrap();
        let second = Placeholders::open(&records).unwrap();
        second.ensure(&name).unwrap();
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
        first.ensure(&name).unwrap();
        let second = Placeholders::open(&records).unwrap();
        second.ensure(&name).unwrap();
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
        session.ensure(&name).unwrap();
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
            session.ensure(&name).unwrap();
            session.ensure(&name).unwrap();
            assert!(!session.made(&name));
        }
        assert!(name.is_dir());
        // So does one that the user makes in place of the session's, also if the session is killed.
        fs::remove_dir(&name).unwrap();
        let session = Placeholders::open(&records).unwrap();
        session.ensure(&name).unwrap();
        fs::remove_dir(&name).unwrap();
        fs::create_dir(&name).unwrap();
        session.ensure(&name).unwrap();
        let record = fs::read(&session.own).unwrap();
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
        killed.ensure(&name).unwrap();
        let record = fs::read(&killed.own).unwrap();
        // It doesn't end; only its lock goes.
        let later = Placeholders::open(&records).unwrap();
        fs::write(records.join("1-0"), &record).unwrap();
        std::mem::forget(killed);
        later.ensure(&name).unwrap();
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
