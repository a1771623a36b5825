//! The one primitive that authority over files rests on: opening an absolute path that leads through no link.
//!
//! If the kernel walked `/a/b/c` without meeting a symbolic link, the descriptor is the file at `/a/b/c`, and
//! a root `/a` that is itself free of links really contains it. There is nothing to compare afterwards, so
//! there is nothing to race against. One call also costs less than opening the root and then the file beneath
//! it.
//!
//! `openat2` does this in one step. Where it is missing (kernels before 5.6, or a seccomp filter that answers
//! EPERM) the same walk is done here, one `openat` with `O_NOFOLLOW` per component. [`OpenMethod`] chooses,
//! so that tests can ask for the second way on a kernel that has the first.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

use crate::limits;

/// Which way of walking a path to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum OpenMethod {
    /// `openat2`, and the walk where the kernel has none.
    #[default]
    Openat2,
    /// Always the walk.
    Walk,
}

/// Opens an existing file at an absolute path, following no link at all.
///
/// `ELOOP` says that there is a link somewhere on the way or at the end. The path may contain `.`, and `..`
/// where `openat2` exists; the walk refuses `..` with `EXDEV`.
pub(crate) fn open_nolink(kernel: OpenMethod, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    debug_assert!(path.is_absolute(), "the caller made the path absolute");
    match kernel {
        OpenMethod::Openat2 => {
            let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
                // EPERM is how seccomp filters refuse calls that they don't know. If it came from the file
                // itself, the walk meets it again and reports it.
                Err(Errno::NOSYS | Errno::PERM) => walk_nolink(path, flags),
                answer => answer,
            }
        }
        OpenMethod::Walk => walk_nolink(path, flags),
    }
}

/// Opens `relative` beneath a root, following links that stay inside.
///
/// `EXDEV` says that a link or `..` left the root, or that a link was absolute; `ELOOP` that it was one of
/// the kernel's magic links, or a loop. The root itself is reached without links.
pub(crate) fn open_beneath(root: &Path, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let root = open_nolink(OpenMethod::Openat2, root, OFlags::PATH | OFlags::DIRECTORY)?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..limits::BENEATH_TRIES_MAX {
        answer = openat2(&root, relative, flags | OFlags::CLOEXEC, Mode::empty(), how);
        if !matches!(answer, Err(Errno::AGAIN)) {
            break;
        }
    }
    answer
}

fn walk_nolink(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let ends_as_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let mut names = path.components().filter(|part| *part != Component::RootDir).peekable();
    if names.peek().is_none() {
        return openat(CWD, "/", flags | OFlags::CLOEXEC, Mode::empty());
    }
    let mut at = openat(CWD, "/", directory, Mode::empty())?;
    while let Some(part) = names.next() {
        let Component::Normal(name) = part else { return Err(Errno::XDEV) };
        let last = names.peek().is_none();
        let mut how = if last { flags | OFlags::CLOEXEC } else { directory };
        how |= OFlags::NOFOLLOW;
        if last && ends_as_directory {
            how |= OFlags::DIRECTORY;
        }
        let next = match openat(&at, name, how, Mode::empty()) {
            Ok(next) => next,
            // A link where a directory was wanted is reported as "not a directory"; callers need to know.
            Err(Errno::NOTDIR) => {
                let found = statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)?;
                return Err(if is_link(&found) { Errno::LOOP } else { Errno::NOTDIR });
            }
            Err(error) => return Err(error),
        };
        // `O_PATH | O_NOFOLLOW` opens a final link itself.
        if last && how.contains(OFlags::PATH) && is_link(&fstat(&next)?) {
            return Err(Errno::LOOP);
        }
        at = next;
    }
    Ok(at)
}

pub(crate) fn is_link(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

pub(crate) fn is_dir(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn both_ways_give_the_same_answers() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("d/e")).unwrap();
        std::fs::write(base.join("d/e/f"), "x").unwrap();
        symlink("d", base.join("dirlink")).unwrap();
        symlink("f", base.join("d/e/filelink")).unwrap();

        let read = OFlags::RDONLY;
        let path = OFlags::PATH;
        let dir = OFlags::PATH | OFlags::DIRECTORY;
        let table: &[(&str, OFlags, Result<(), Errno>)] = &[
            ("d/e/f", read, Ok(())),
            ("d/e/f", path, Ok(())),
            ("d/e", dir, Ok(())),
            ("d/./e//f", read, Ok(())),
            ("d/e/f", dir, Err(Errno::NOTDIR)),
            ("d/e/f/", path, Err(Errno::NOTDIR)),
            ("d/e/f/g", read, Err(Errno::NOTDIR)),
            ("d/none", read, Err(Errno::NOENT)),
            ("none/f", read, Err(Errno::NOENT)),
            ("dirlink/e/f", read, Err(Errno::LOOP)),
            ("dirlink", path, Err(Errno::LOOP)),
            ("dirlink", dir, Err(Errno::LOOP)),
            ("d/e/filelink", read, Err(Errno::LOOP)),
            ("d/e/filelink", path, Err(Errno::LOOP)),
        ];
        for (name, flags, expected) in table {
            for kernel in [OpenMethod::Openat2, OpenMethod::Walk] {
                let got = open_nolink(kernel, &base.join(name), *flags).map(drop);
                assert_eq!(got, *expected, "{kernel:?} {name} {flags:?}");
            }
        }
        assert!(open_nolink(OpenMethod::Walk, Path::new("/"), dir).is_ok());
        assert_eq!(open_nolink(OpenMethod::Walk, &base.join("d/../d"), dir).map(drop), Err(Errno::XDEV));
    }
}
