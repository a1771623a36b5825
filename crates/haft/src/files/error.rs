//! What can go wrong with a file, in words for the model and kinds for code.
//!
//! The text names the path, what was wrong and what would be accepted; the error of the operating system is
//! kept beside it for the log.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::{GrantedAccess, RequiredAccess};
use crate::limits;

/// Why a file operation failed.
#[derive(Debug)]
pub struct FileError {
    kind: FileErrorKind,
    text: String,
    source: Option<io::Error>,
}

/// The kinds of failure that callers tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// There is no such file or directory.
    NotFound,
    /// The path is outside of what this call may touch.
    NotGranted,
    /// It is neither a regular file nor a directory: a pipe, a socket, a device, a view of the kernel.
    NotAFile,
    /// It is a directory, and a file was wanted (or an empty directory, when removing).
    IsDirectory,
    /// It is a file, and a directory was wanted, at the end of the path or on the way.
    NotADirectory,
    /// It exists already.
    AlreadyExists,
    /// It is larger than the bound in `limits`.
    TooLarge,
    /// It is not UTF-8 text.
    NotText,
    /// It isn't what it was when it was looked at, or another process is changing it just now.
    Changed,
    /// The disk or the quota is full.
    NoSpace,
    /// Anything else that the operating system said.
    Io,
}

/// What the operating system said, in words that say what to do about it where there is something to be done.
pub(super) fn io_error_text(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open at once; try again later".to_owned(),
        Some(Errno::IO) => "the disk reports a failure".to_owned(),
        Some(_) => error.to_string(),
        None => error.kind().to_string(),
    }
}

impl FileError {
    /// An error with a text for the model: which path, what was wrong, what is accepted.
    pub fn new(kind: FileErrorKind, text: impl Into<String>) -> FileError {
        FileError { kind, text: text.into(), source: None }
    }

    /// The same error with its cause, for the log. The text should not repeat it.
    #[must_use]
    pub fn with_source(mut self, source: io::Error) -> FileError {
        self.source = Some(source);
        self
    }

    /// The kind, for code that branches.
    pub fn kind(&self) -> FileErrorKind {
        self.kind
    }

    /// An error of the operating system while `path` was being `done` ("read", "written", "removed").
    pub fn from_io(done: &str, path: &Path, error: impl Into<io::Error>) -> FileError {
        let error = error.into();
        let path = display_path(path);
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        let (kind, text) = match error.kind() {
            // What opening a socket, or a device without a driver, is answered with.
            _ if matches!(number, Some(Errno::NXIO | Errno::NODEV)) => {
                (FileErrorKind::NotAFile, format!("`{path}` can't be {done}: it is a socket or a device"))
            }
            io::ErrorKind::NotFound => (FileErrorKind::NotFound, format!("`{path}` does not exist")),
            io::ErrorKind::AlreadyExists => {
                (FileErrorKind::AlreadyExists, format!("`{path}` exists already"))
            }
            io::ErrorKind::IsADirectory => (FileErrorKind::IsDirectory, format!("`{path}` is a directory")),
            io::ErrorKind::DirectoryNotEmpty => {
                (FileErrorKind::IsDirectory, format!("`{path}` is a directory that is not empty"))
            }
            io::ErrorKind::NotADirectory => (
                FileErrorKind::NotADirectory,
                format!("`{path}` can't be {done}: it, or something before its end, is not a directory"),
            ),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (FileErrorKind::NoSpace, format!("`{path}` can't be {done}: no space is left for it"))
            }
            io::ErrorKind::PermissionDenied => {
                (FileErrorKind::Io, format!("`{path}` can't be {done}: its permissions don't allow it"))
            }
            io::ErrorKind::CrossesDevices => (
                FileErrorKind::Io,
                format!(
                    "`{path}` can't be {done}: the two places are on different file systems; copy it instead"
                ),
            ),
            _ => (FileErrorKind::Io, format!("`{path}` can't be {done}: {}", io_error_text(&error))),
        };
        FileError { kind, text, source: Some(error) }
    }

    /// A file that isn't what it was when it was looked at.
    pub(crate) fn changed(path: &Path) -> FileError {
        let text = format!("`{}` has changed since it was looked at; read it again", display_path(path));
        FileError::new(FileErrorKind::Changed, text)
    }

    /// The refusal of a path that no root covers.
    pub(crate) fn not_granted(
        access: &GrantedAccess,
        need: RequiredAccess,
        path: &Path,
        by_link: bool,
    ) -> FileError {
        let verb = need.verb();
        let how = if by_link { "leads by a link outside of" } else { "is outside of" };
        let mut text = format!("`{}` {how} what this call may {verb}; it may {verb}: ", display_path(path));
        let mut rest = 0;
        let mut shown = 0;
        for root in access.roots(need) {
            if shown == limits::ROOTS_SHOWN_MAX {
                rest += 1;
                continue;
            }
            if shown > 0 {
                text.push_str(", ");
            }
            text.push_str(&display_path(&root.path));
            shown += 1;
        }
        if shown == 0 {
            text.push_str("nothing");
        }
        if rest > 0 {
            text.push_str(&format!(" and {rest} more"));
        }
        FileError::new(FileErrorKind::NotGranted, text)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

/// A path for a message: bounded, and without characters that would break the line or hide text.
pub(crate) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut shown = String::with_capacity(text.len());
    for (count, character) in text.chars().enumerate() {
        if count == limits::PATH_CHARS_SHOWN_MAX {
            shown.push('…');
            break;
        }
        // `escape_debug` also escapes quotes and invisible characters; quotes are fine in a path.
        match character {
            '\'' | '"' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::GrantedRoot;

    #[test]
    fn refusals_name_the_path_and_what_is_granted() {
        let mut access = GrantedAccess::default();
        let said = |access: &GrantedAccess| {
            FileError::not_granted(access, RequiredAccess::Read, Path::new("/etc/passwd"), false).to_string()
        };
        assert_eq!(
            said(&access),
            "`/etc/passwd` is outside of what this call may read; it may read: nothing"
        );
        access.read.push(GrantedRoot::subtree("/srv/x"));
        assert_eq!(said(&access), "`/etc/passwd` is outside of what this call may read; it may read: /srv/x");
        access.write.extend((0..8).map(|n| GrantedRoot::file(format!("/w/{n}"))));
        assert!(said(&access).ends_with("/srv/x, /w/0, /w/1, /w/2, /w/3 and 4 more"), "{}", said(&access));
    }

    #[test]
    fn shown_paths_stay_on_one_line() {
        assert_eq!(display_path(Path::new("/a\nb\u{202e}'c")), "/a\\nb\\u{202e}'c");
        assert_eq!(
            display_path(Path::new(&"x".repeat(5000))).chars().count(),
            limits::PATH_CHARS_SHOWN_MAX + 1
        );
    }
}
