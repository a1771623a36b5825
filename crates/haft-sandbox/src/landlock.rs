//! Landlock: what may be opened, by where it lies, held by the kernel for a process and all that it starts.
//!
//! In the full sandbox only changes are limited: what can be read is what was mounted. Without namespaces
//! reads are limited by it too. Rights that a kernel doesn't know are left out, and scopes (signals, abstract
//! sockets) with them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;
use rustix::io::{Errno, Result};

use crate::sys;

/// Reading and running.
pub(crate) const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Everything that changes something.
pub(crate) const CHANGE: u64 = (WRITE_FILE | IOCTL_DEV | TRUNCATE) | ((1 << 14) - 1) & !READ;
/// What a device is good for.
pub(crate) const USE_DEVICE: u64 = WRITE_FILE | TRUNCATE | IOCTL_DEV;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
/// Seeing the names in a folder.
pub(crate) const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Rights that make sense for something that isn't a folder; the kernel refuses the others there.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// TCP: listening, and connecting.
const TCP: u64 = 0b11;
/// Abstract unix sockets, and signals, of processes outside.
const SCOPES: u64 = 0b11;

/// Rules on their way to a child.
pub(crate) struct LandlockRules {
    ruleset: OwnedFd,
    known: u64,
}

impl LandlockRules {
    /// Rules that refuse these ways of using files everywhere, until something is allowed; and TCP, if so.
    pub(crate) fn new(refused: u64, no_tcp: bool) -> Result<LandlockRules> {
        let abi = sys::landlock_abi().ok_or(Errno::NOSYS)?;
        let unknown = [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)];
        let known = unknown
            .iter()
            .filter(|(since, _)| abi < *since)
            .fold(refused, |known, (_, right)| known & !right);
        let tcp = if no_tcp && abi >= 4 { TCP } else { 0 };
        let scopes = if abi >= 6 { SCOPES } else { 0 };
        Ok(LandlockRules { ruleset: sys::landlock_ruleset(known, tcp, scopes)?, known })
    }

    /// Allows this in and beneath what the descriptor stands for.
    pub(crate) fn allow(&self, access: u64, beneath: BorrowedFd<'_>) -> Result<()> {
        let mut access = access & self.known;
        let status = rustix::fs::fstat(beneath)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
            access &= OF_FILES;
        }
        if access == 0 {
            return Ok(());
        }
        sys::landlock_allow(self.ruleset.as_fd(), access, beneath)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.ruleset
    }
}
