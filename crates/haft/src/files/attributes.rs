//! Extended attributes of a file that is replaced, and the access control list that is one of them.

use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, openat};
use rustix::io::Errno;

/// The most that the kernel gives of all names, and of one value, in bytes.
const KERNEL_BYTES_MAX: usize = 64 * 1024;

/// The access control list. A new file may inherit one from its folder.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// What says something about the old content, and what the kernel itself takes away when a file is written.
const OF_CONTENT: [&CStr; 3] = [c"security.capability", c"security.ima", c"security.evm"];

/// Gives a new file the attributes of the file that it is about to replace, and no others. Returns whether it
/// has all of them.
pub(super) fn keep_attributes(dir: &OwnedFd, name: &OsStr, new: &OwnedFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(old) = openat(dir, name, flags, Mode::empty()) else { return false };
    let names = match list_names(&old) {
        Ok(names) => names,
        Err(errno) => return is_unsupported(errno),
    };
    let mut has_all = true;
    let is_named = |wanted: &CStr| names_of(&names).any(|name| name == wanted);
    if !is_named(ACCESS_LIST) {
        has_all &= match fremovexattr(new, ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA) => true,
            Err(errno) => is_unsupported(errno),
        };
    }
    for name in names_of(&names).filter(|name| !OF_CONTENT.contains(name)) {
        has_all &= copy_attribute(&old, new, name).is_ok();
    }
    has_all
}

fn copy_attribute(old: &OwnedFd, new: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let value = match read_attribute(old, name) {
        // It was removed since.
        Err(Errno::NODATA) => return Ok(()),
        value => value?,
    };
    // A label that the new file has by itself needs no right to be set.
    if read_attribute(new, name).is_ok_and(|known| known == value) {
        return Ok(());
    }
    fsetxattr(new, name, &value, XattrFlags::empty())
}

fn read_attribute(file: &OwnedFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; KERNEL_BYTES_MAX];
    let length = fgetxattr(file, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// The names, each with a zero after it.
fn list_names(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut names = vec![0; KERNEL_BYTES_MAX];
    let length = flistxattr(file, &mut names[..])?;
    names.truncate(length);
    Ok(names)
}

fn names_of(names: &[u8]) -> impl Iterator<Item = &CStr> {
    names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

fn is_unsupported(errno: Errno) -> bool {
    // These two are one number on Linux.
    [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&errno)
}
