//! What is needed to undo what commands may do just now, for the case that this program is killed: copies of configurations
//! of git that they may write, and names that they may make and must not.
//!
//! What a command may not change in one is undone when the command ends. Who is killed with `-9` undoes nothing, and a
//! `core.fsmonitor` would stay and run at the user's next `git status`. So before such a command starts, what the
//! configuration was is written to a file of its own, which is locked while the session lives and removed when the command
//! was looked at. Whoever starts the next session finds the files that nobody holds.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};

use super::limits;
use super::placeholders::alone;

/// Tells the files of one process apart.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
}

/// A copy that is kept as long as this lives.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    _locked: File,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What a killed session has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left<'a> {
    /// A configuration, and what it was.
    Config(&'a Path, &'a [u8]),
    /// Names that weren't there, each with the folder that it is below.
    Names(&'a [(PathBuf, PathBuf)]),
}

impl Journal {
    pub(super) fn open(folder: PathBuf) -> io::Result<Journal> {
        fs::create_dir_all(&folder)?;
        Ok(Journal { folder })
    }

    /// Keeps what a configuration is.
    pub(super) fn keep(&self, config: &Path, before: &[u8]) -> io::Result<Kept> {
        let mut record = config.as_os_str().as_bytes().to_owned();
        record.push(0);
        record.extend(before);
        self.write(&record)
    }

    /// Keeps which names aren't there, each with the folder that it is below.
    pub(super) fn keep_names(&self, names: &[(PathBuf, PathBuf)]) -> io::Result<Kept> {
        // No configuration has an empty name.
        let mut record = vec![0];
        for path in names.iter().flat_map(|(below, name)| [below, name]) {
            record.extend(path.as_os_str().as_bytes());
            record.push(0);
        }
        self.write(&record)
    }

    fn write(&self, record: &[u8]) -> io::Result<Kept> {
        let _alone = alone(&self.folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{number}", std::process::id()));
        // What a killed process of the same number left was looked at when this session began.
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(record)?;
        Ok(Kept { path, _locked: file })
    }

    /// Hands over what killed sessions have left. It is forgotten afterwards.
    pub(super) fn left(&self, mut look: impl FnMut(Left<'_>)) -> io::Result<()> {
        let _alone = alone(&self.folder)?;
        for entry in fs::read_dir(&self.folder)?.flatten().take(limits::STAND_INS_SWEPT_MAX) {
            if entry.file_name() == "lock" {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let record = fs::read(entry.path())?;
            let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
            match record.iter().position(|byte| *byte == 0) {
                Some(0) => {
                    let paths: Vec<PathBuf> = record[1..].split(|byte| *byte == 0).map(path).collect();
                    let pairs = paths.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                    look(Left::Names(&pairs.collect::<Vec<_>>()));
                }
                Some(end) => look(Left::Config(&path(&record[..end]), &record[end + 1..])),
                None => {}
            }
            fs::remove_file(entry.path())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path().join("configs")).unwrap();
        let kept = journal.keep(Path::new("/a/config"), b"[core]\0x").unwrap();
        fs::write(dir.path().join("configs/1-0"), b"/b/config\0before").unwrap();
        let seen = || {
            let mut seen = Vec::new();
            let look = |left: Left<'_>| match left {
                Left::Config(path, before) => seen.push((path.to_owned(), before.to_owned())),
                Left::Names(names) => {
                    seen.extend(names.iter().map(|(below, name)| (below.join(name), b"name".to_vec())));
                }
            };
            journal.left(look).unwrap();
            seen
        };
        assert_eq!(seen(), [(PathBuf::from("/b/config"), b"before".to_vec())]);
        assert_eq!(seen(), []);
        let copy = fs::read(&kept.path).unwrap();
        drop(kept);
        assert_eq!(seen(), [], "it ended well");
        fs::write(dir.path().join("configs/2-0"), copy).unwrap();
        assert_eq!(seen(), [(PathBuf::from("/a/config"), b"[core]\0x".to_vec())]);
        let kept = journal.keep_names(&[("/w".into(), "/w/a".into()), ("/w".into(), "/w/b".into())]).unwrap();
        fs::copy(&kept.path, dir.path().join("configs/3-0")).unwrap();
        let name = |name: &str| (PathBuf::from(name), b"name".to_vec());
        assert_eq!(seen(), [name("/w/a"), name("/w/b")]);
    }
}
