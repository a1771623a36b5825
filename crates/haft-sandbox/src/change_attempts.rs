//! What a command that may only look tried to change.
//!
//! The filter of such a command hands every call that could change something by its name to the first process
//! of its namespaces, which looks where the name leads and lets the call go on: the kernel refuses it or
//! doesn't, as without us. So this decides nothing, and what it sees is best effort: a command may change the
//! name after we have read it. It is good for saying what was in the way, and for an offer to run the command
//! again, which must not rest on what the command prints.
//!
//! The first process lives as long as anything of the command does, so nobody ever waits for an answer that
//! doesn't come. Only places that can't be written count (`EROFS`): what a file's own permissions forbid has
//! nothing to do with us.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::{limits, sys};

/// Hears of calls, and remembers where they led.
pub(crate) struct SyscallListener {
    descriptor: OwnedFd,
    found: Vec<PathBuf>,
}

/// What a call needs to be worth a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallCondition {
    /// What is there can be written; or, with true, something can be made there.
    Write(bool),
    /// Nothing is there yet.
    Nothing,
    /// Something is there, which is removed or renamed.
    Something,
    /// Something is there, which itself is changed.
    Target,
}

/// A call, as far as it can be seen without looking into the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangeAttempt {
    /// The descriptor of the folder that the name begins in, if it isn't the working directory.
    folder: i32,
    /// Where the caller has the name.
    name: u64,
    needs: CallCondition,
}

impl SyscallListener {
    pub(crate) fn new(descriptor: OwnedFd) -> SyscallListener {
        SyscallListener { descriptor, found: Vec::new() }
    }

    /// Readable when there is something to [`hear`](SyscallListener::hear).
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Hears of one call and lets it go on. A path that could not be changed is given once, and only the
    /// first few.
    pub(crate) fn hear(&mut self) -> Option<PathBuf> {
        let call = sys::receive_notification(self.descriptor.as_fd()).ok()?;
        let mut found = None;
        if self.found.len() < limits::ATTEMPTS_MAX {
            found = change_attempt(&call).and_then(|attempt| attempted_path(call.pid, attempt));
        }
        let _ = sys::go_on(self.descriptor.as_fd(), call.id);
        let found = found.filter(|path| !self.found.contains(path))?;
        self.found.push(found.clone());
        Some(found)
    }
}

/// What a call is about.
fn change_attempt(call: &sys::NotifiedCall) -> Option<ChangeAttempt> {
    use CallCondition::{Nothing, Something, Target, Write};
    let [first, second, third, fourth, ..] = call.arguments;
    let at = |folder: u64, name: u64, needs| Some(ChangeAttempt { folder: folder as i32, name, needs });
    let here = |name: u64, needs| Some(ChangeAttempt { folder: libc::AT_FDCWD, name, needs });
    let creates = |flags: u64| Write(flags & libc::O_CREAT as u64 != 0);
    match call.number {
        libc::SYS_openat => at(first, second, creates(third)),
        libc::SYS_openat2 => {
            let mut flags = [0; 8];
            let read = sys::read_memory(call.pid, third, &mut flags).ok()?;
            let flags = u64::from_ne_bytes(flags);
            (read == 8 && flags & crate::seccomp::WRITES as u64 != 0)
                .then(|| at(first, second, creates(flags)))?
        }
        libc::SYS_mkdirat | libc::SYS_mknodat => at(first, second, Nothing),
        libc::SYS_symlinkat => at(second, third, Nothing),
        libc::SYS_linkat => at(third, fourth, Nothing),
        libc::SYS_unlinkat => at(first, second, Something),
        libc::SYS_renameat | libc::SYS_renameat2 => at(first, second, Something),
        libc::SYS_fchmodat | crate::seccomp::FCHMODAT2 | libc::SYS_fchownat | libc::SYS_utimensat => {
            (second != 0).then(|| at(first, second, Target))?
        }
        libc::SYS_truncate => here(first, Target),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => here(first, creates(second)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => here(first, Write(true)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir | libc::SYS_mknod => here(first, Nothing),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink | libc::SYS_link => here(second, Nothing),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_rename => here(first, Something),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown | libc::SYS_lchown => here(first, Target),
        _ => None,
    }
}

/// Where an attempt leads, if nothing can be changed there.
fn attempted_path(pid: i32, attempt: ChangeAttempt) -> Option<PathBuf> {
    let mut name = [0; libc::PATH_MAX as usize];
    let read = sys::read_memory(pid, attempt.name, &mut name).ok()?;
    let end = name[..read].iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&name[..end]));
    if end == 0 || of_the_machine(name) {
        return None;
    }
    let path = if name.is_absolute() {
        name.to_owned()
    } else {
        let folder = match attempt.folder {
            libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
            descriptor => format!("/proc/{pid}/fd/{descriptor}"),
        };
        std::fs::read_link(folder).ok()?.join(name)
    };
    cannot_change(&path, attempt.needs)
}

/// The real path, if what is needed there can't be had because of how it is mounted.
fn cannot_change(path: &Path, needs: CallCondition) -> Option<PathBuf> {
    let sealed =
        |path: &Path, flags| rustix::fs::accessat(CWD, path, Access::WRITE_OK, flags) == Err(Errno::ROFS);
    let there = match needs {
        CallCondition::Write(_) | CallCondition::Target => path.metadata().is_ok(),
        CallCondition::Nothing | CallCondition::Something => path.symlink_metadata().is_ok(),
    };
    // What isn't there is made in a folder, and what is removed is removed from one.
    let (folder, last) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(last)) => (folder.canonicalize().ok()?, last),
        _ => return None,
    };
    let (path, refused) = match (needs, there) {
        (CallCondition::Write(_) | CallCondition::Target, true) => {
            let path = path.canonicalize().ok()?;
            let refused = sealed(&path, AtFlags::empty());
            (path, refused)
        }
        (CallCondition::Write(true) | CallCondition::Nothing, false) | (CallCondition::Something, true) => {
            let refused = sealed(&folder, AtFlags::empty());
            (folder.join(last), refused)
        }
        _ => return None,
    };
    (refused && !of_the_machine(&path)).then_some(path)
}

/// Nobody could be given these; most calls are about `/dev/null`.
fn of_the_machine(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|machine| path.starts_with(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_understood() {
        let call = |number, arguments| sys::NotifiedCall { id: 1, pid: 1, number, arguments };
        let found = |call: sys::NotifiedCall| {
            change_attempt(&call).map(|found| (found.folder, found.name, found.needs))
        };
        let creates = libc::O_CREAT as u64;
        let here = u64::from(libc::AT_FDCWD as u32);
        assert_eq!(
            found(call(libc::SYS_openat, [here, 7, creates, 0, 0, 0])),
            Some((libc::AT_FDCWD, 7, CallCondition::Write(true)))
        );
        assert_eq!(
            found(call(libc::SYS_openat, [5, 7, 1, 0, 0, 0])),
            Some((5, 7, CallCondition::Write(false)))
        );
        assert_eq!(found(call(libc::SYS_linkat, [1, 2, 3, 4, 0, 0])), Some((3, 4, CallCondition::Nothing)));
        assert_eq!(found(call(libc::SYS_utimensat, [3, 0, 0, 0, 0, 0])), None, "a descriptor, no name");
        assert_eq!(found(call(libc::SYS_read, [0; 6])), None);
    }

    #[test]
    fn what_can_be_changed_is_no_refusal() {
        let dir = tempfile::tempdir().unwrap();
        for needs in [
            CallCondition::Write(true),
            CallCondition::Nothing,
            CallCondition::Something,
            CallCondition::Target,
        ] {
            assert_eq!(cannot_change(&dir.path().join("new"), needs), None);
            assert_eq!(cannot_change(dir.path(), needs), None);
        }
    }
}
