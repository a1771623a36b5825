//! Planned prompts that outlive a session: one small file for each workspace.
//!
//! Several sessions may have the same workspace. Whoever changes the file holds a lock on another beside it,
//! reads it anew, and puts the new one in its place in one step; who takes a slot writes down the next one
//! before it tells anybody. So a slot is taken once, whoever dies when.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use haft::private_file::{ReplaceOptions, replace_private_file};
use serde::{Deserialize, Serialize};

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A prompt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PersistentCron {
    pub(super) id: u64,
    pub(super) cron: String,
    pub(super) prompt: String,
    pub(super) recurring: bool,
    /// The next slot, in seconds since 1970.
    pub(super) next: i64,
}

/// All of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PersistentCrons {
    /// The last number that was given.
    pub(super) last: u64,
    pub(super) crons: Vec<PersistentCron>,
}

/// A file of planned prompts.
#[derive(Debug, Clone)]
pub(super) struct CronFile {
    path: PathBuf,
}

impl CronFile {
    pub(super) fn at(path: &Path) -> CronFile {
        CronFile { path: path.to_owned() }
    }

    /// What is there, without waiting for anybody; the file is never half written.
    pub(super) fn read(&self) -> io::Result<PersistentCrons> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PersistentCrons::default()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let words = format!("`{}` can't be understood: {error}; remove it", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, words)
        })
    }

    /// Changes what is there while nobody else does. What is unchanged is not written.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut PersistentCrons) -> T) -> io::Result<T> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.with_extension("lock"))?;
        lock.lock()?;
        let before = self.read()?;
        let mut kept = before.clone();
        let result = change(&mut kept);
        if kept != before {
            let bytes = serde_json::to_vec(&kept).map_err(io::Error::other)?;
            let durable = ReplaceOptions { is_durable: true, ..ReplaceOptions::default() };
            replace_private_file(&self.path, &bytes, &durable)?;
        }
        Ok(result)
    }
}
