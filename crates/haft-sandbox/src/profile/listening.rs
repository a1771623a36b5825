//! Sockets that programs of this machine listen on, as the kernel tells them.
//!
//! A walk finds those in working directories. But folders of the system and tool chains are shown as well,
//! are too large to be walked, and may hold one too: that of the daemon of nix lies in `/nix`. Whoever
//! reaches a socket reaches the program behind it, and a mount that can't be written doesn't keep anybody
//! from it. What the kernel doesn't tell are sockets of other network namespaces, and by relative names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Before the name there are: address, uses, protocol, flags, kind, state, inode.
const FIELDS: usize = 7;

/// The sockets of the machine that have a place in the file system.
pub(super) fn listening_sockets() -> Vec<PathBuf> {
    let told = fs::read("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = told
        .split(|byte| *byte == b'\n')
        .filter_map(socket_path)
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The name on a line, if it is one of a file. It may have spaces in it.
fn socket_path(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..FIELDS {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = &rest[end..];
    }
    let name = rest.strip_prefix(b" ")?;
    name.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for (line, expected) in [
            ("0000000000000000: 00000002 00000000 00010000 0001 01  1234 /run/a b", Some("/run/a b")),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 12345678 /x", Some("/x")),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 1234 @abstract", None),
            ("0000000000000000: 00000003 00000000 00000000 0001 03 1234", None),
            ("Num       RefCount Protocol Flags    Type St Inode Path", None),
            ("", None),
        ] {
            assert_eq!(socket_path(line.as_bytes()), expected.map(Path::new), "{line}");
        }
    }

    #[test]
    fn one_that_listens_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a socket");
        assert!(!listening_sockets().contains(&path));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listening_sockets().contains(&path));
    }
}
