//! What a private folder holds that somebody may want, and what becomes of the folders of killed sessions.
//!
//! A record beside the folder says what was granted in it, so that the next session can tell what a command
//! made from what was there.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Stat, flock, statat, unlinkat};

use super::folder::{StandInId, is_folder, names_in, open_folder};
use super::{BESIDE, SAYS};
use crate::profile::recovered_files::RecoveredFiles;
use crate::profile::{display_path, limits};

/// What of a private folder matters.
#[derive(Default)]
pub(super) struct StandInRecord {
    pub(super) at: PathBuf,
    /// Nothing but what was granted.
    pub(super) quiet: bool,
    pub(super) granted: Vec<PathBuf>,
    /// What the granted names were.
    pub(super) files: Vec<StandInId>,
    /// What wasn't put there by the command.
    pub(super) room: Vec<PathBuf>,
}

impl StandInRecord {
    pub(super) fn is_relevant(&self, rest: &Path, found: &Stat) -> bool {
        let granted = || self.granted.iter().any(|granted| rest.starts_with(granted));
        let kept = match FileType::from_raw_mode(found.st_mode) {
            // With another name there is nothing to be lost.
            FileType::RegularFile => found.st_size > 0 && found.st_nlink == 1,
            FileType::Symlink => true,
            _ => false,
        };
        let was_granted = self.files.contains(&StandInId::from_stat(found));
        kept && (was_granted || !self.room.iter().any(|room| room == rest) && (!self.quiet || granted()))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.at.as_os_str().as_bytes().to_vec();
        let mut push = |sign: &str, rest: &[u8]| {
            bytes.push(0);
            bytes.extend_from_slice(sign.as_bytes());
            bytes.extend_from_slice(rest);
        };
        push(if self.quiet { "quiet" } else { "told" }, b"");
        self.granted.iter().for_each(|path| push("+", path.as_os_str().as_bytes()));
        self.room.iter().for_each(|path| push("-", path.as_os_str().as_bytes()));
        self.files.iter().for_each(|StandInId(dev, ino)| push("=", format!("{dev}:{ino}").as_bytes()));
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> StandInRecord {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let mut lines = bytes.split(|byte| *byte == 0);
        let mut left =
            StandInRecord { at: path(lines.next().unwrap_or_default()), ..StandInRecord::default() };
        left.quiet = lines.next() == Some(b"quiet");
        for line in lines {
            match line {
                [b'+', rest @ ..] => left.granted.push(path(rest)),
                [b'-', rest @ ..] => left.room.push(path(rest)),
                [b'=', rest @ ..] => {
                    let numbers = std::str::from_utf8(rest).ok().and_then(|rest| rest.split_once(':'));
                    let id =
                        numbers.and_then(|(dev, ino)| Some(StandInId(dev.parse().ok()?, ino.parse().ok()?)));
                    left.files.extend(id);
                }
                _ => {}
            }
        }
        left
    }
}

/// Removes what doesn't matter. Whether anything is left.
pub(super) fn strip_folder(
    folder: BorrowedFd<'_>,
    inside: &Path,
    matters: &StandInRecord,
    depth: usize,
) -> bool {
    let Ok(names) = names_in(folder) else { return true };
    let mut left = false;
    for name in names {
        let rest = inside.join(&name);
        let Ok(found) = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let flags = if is_folder(&found) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let keep = if is_folder(&found) {
            let deeper = (depth < limits::WALK_DEPTH_MAX).then(|| open_folder(folder, &name));
            deeper.is_none_or(|deeper| {
                deeper.map_or(true, |deeper| strip_folder(deeper.as_fd(), &rest, matters, depth + 1))
            })
        } else {
            matters.is_relevant(&rest, &found)
        };
        left |= keep || unlinkat(folder, &name, flags).is_err();
    }
    left
}

/// Removes what a killed session has left: a folder, or a link to one. Says what of it was kept, and where.
pub(super) fn sweep_killed(path: &Path, recovered: &RecoveredFiles) -> Option<String> {
    let called = path.file_name()?.to_str()?;
    if let Some(of) = called.strip_suffix(SAYS) {
        if path.with_file_name(of).symlink_metadata().is_err() {
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let record = fs::read_link(path).ok();
    let folder = record.as_deref().unwrap_or(path);
    let ours = |name: &OsStr| name.as_bytes().starts_with(BESIDE.as_bytes());
    if record.is_some() && !folder.file_name().is_some_and(ours) {
        return None;
    }
    let says = path.with_file_name(format!("{called}{SAYS}"));
    let mut kept = None;
    if let Ok(opened) = open_folder(CWD, folder) {
        let lock = fs::File::open(&says).ok();
        if lock.is_some_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()) {
            return None;
        }
        let left = StandInRecord::from_bytes(&fs::read(&says).unwrap_or_default());
        if strip_folder(opened.as_fd(), Path::new(""), &left, 0) {
            let at = recovered.keep(called, folder);
            kept = Some(if left.at.as_os_str().is_empty() {
                format!("`{}`", display_path(&at))
            } else {
                format!("`{}` (for `{}`)", display_path(&at), display_path(&left.at))
            });
        } else {
            drop(fs::remove_dir_all(folder))
        }
    }
    let _ = fs::remove_file(says);
    if record.is_some() {
        let _ = fs::remove_file(path);
    }
    kept
}
