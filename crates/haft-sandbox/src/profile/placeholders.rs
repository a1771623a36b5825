//! Folders that stand where a protected name doesn't exist yet.
//!
//! A name can only be held in a child's view if there is something on the host to hold. So where `.mcp.json` isn't, an
//! *empty folder* of that name is made for the session: git doesn't see empty folders, programs that look for a file
//! find none, and what is removed at the end can't be anybody's work, because only an empty folder can be removed so.
//!
//! Each session writes down what it makes before it makes it, in a file that it keeps locked while it lives. Whoever
//! opens or ends a session takes away what is written in files that nobody holds any more, unless a living session
//! needs it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
                    let state = Mutex::new(State { record, made: Vec::new() });
                    return Ok(Placeholders { records: records.to_owned(), own, state });
                }
            }
        }
    }

    /// Sees to it that something is at a path, whose parent must exist.
    pub(super) fn ensure(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.made.iter().any(|made| made == path) {
            // Not while another session takes its own away.
            let _alone = alone(&self.records)?;
            if path.symlink_metadata().is_ok() && !stands(path) {
                return Ok(());
            }
            let mut line = path.as_os_str().as_bytes().to_owned();
            line.push(0);
            state.record.write_all(&line)?;
            state.made.push(path.to_owned());
        }
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
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
        let listed: Vec<PathBuf> = fs::read(&path)
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
            .map(|line| PathBuf::from(OsStr::from_bytes(line)))
            .collect();
        match dead {
            true => left.push((path, listed)),
            false => needed.extend(listed),
        }
    }
    for (record, listed) in left {
        for path in listed.iter().filter(|path| !needed.contains(path)) {
            // Only an empty folder goes this way.
            let _ = fs::remove_dir(path);
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
