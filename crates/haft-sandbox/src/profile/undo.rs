//! Taking back what a command did in a folder that it can write.
//!
//! We may do what the command may not, and it (or one that still runs) may have put a link where a folder is expected, or
//! do so while we work. So every folder is opened without following a link anywhere, and everything is done by name in
//! the folder that was opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};

use super::limits;

/// A folder and a name in it.
struct Spot<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Spot<'a> {
    fn of(path: &'a Path) -> io::Result<Spot<'a>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Spot { folder: open(folder)?, name })
    }

    fn kind(&self) -> io::Result<FileType> {
        let found = rustix::fs::statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    /// Gives it a name that nothing else has.
    fn put_aside(&self) -> io::Result<OsString> {
        for number in 1..1_000 {
            let mut aside = self.name.to_owned();
            aside.push(format!(".undone-{number}"));
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.folder, self.name, &self.folder, &aside, flags) {
                Err(rustix::io::Errno::EXIST) => {}
                done => return done.map(|()| aside).map_err(io::Error::from),
            }
        }
        Err(io::Error::other("there are too many of its kind"))
    }
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(CWD, folder, flags, Mode::empty(), resolve)?)
}

/// The names in a folder, at most so many; an error if it isn't one, or a link leads there.
pub(super) fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(open(folder)?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && names.len() < limits::WATCHED_ENTRIES_MAX {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// A small regular file to which no link leads.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let spot = Spot::of(path)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::openat(&spot.folder, spot.name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(limits::CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limits::CONFIG_BYTES_MAX {
        true => Err(io::Error::other("it is too large")),
        false => Ok(bytes),
    }
}

/// Takes a name away; a folder with something in it is put aside. Says what was done.
pub(super) fn take_away(path: &Path) -> String {
    let taken = || -> io::Result<Option<PathBuf>> {
        let spot = Spot::of(path)?;
        let flags = if spot.kind()? == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&spot.folder, spot.name, flags) {
            Ok(()) => Ok(None),
            Err(_) => spot.put_aside().map(|aside| Some(path.with_file_name(aside))),
        }
    };
    match taken() {
        Ok(None) => "a command made it, and it was removed".into(),
        Ok(Some(aside)) => format!("a command made it, and it was renamed to `{}`", aside.display()),
        Err(error) => format!("a command made it, and it can't be removed: {error}; remove it"),
    }
}

/// Gives what is at a path another name, with all that leads to it unless that is a link: then it is the link. Says what
/// was done.
pub(super) fn put_aside(path: &Path, below: &Path) -> String {
    let between: Vec<&Path> = path.ancestors().take_while(|above| *above != below).collect();
    let is_link = |path: &&&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let path = between.iter().rev().find(is_link).copied().unwrap_or(path);
    match Spot::of(path).and_then(|spot| spot.put_aside()) {
        Ok(aside) => format!(
            "a command made it, and git would run or obey it; it was renamed to `{}`",
            path.with_file_name(aside).display()
        ),
        Err(error) => format!(
            "a command made it, and it can't be renamed: {error}; git would run or obey it, so remove it first"
        ),
    }
}

/// Removes a file that was made for a call and that nobody has touched since: it is empty, and its inode didn't change.
pub(super) fn remove_if_untouched(path: &Path, made: Option<Changed>) {
    let Ok(spot) = Spot::of(path) else { return };
    let Ok(found) = rustix::fs::statat(&spot.folder, spot.name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_empty = FileType::from_raw_mode(found.st_mode).is_file() && found.st_size == 0;
    if is_empty && made == Some(Changed::of(&found)) {
        let _ = rustix::fs::unlinkat(&spot.folder, spot.name, AtFlags::empty());
    }
}

/// When an inode was changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed(i64, u64);

impl Changed {
    fn of(found: &rustix::fs::Stat) -> Changed {
        Changed(found.st_ctime, found.st_ctime_nsec)
    }

    /// Of what is at a path.
    pub(super) fn at(path: &Path) -> Option<Changed> {
        rustix::fs::lstat(path).ok().map(|found| Changed::of(&found))
    }
}

/// Puts a new file with this content in place of whatever is there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let spot = Spot::of(path)?;
    if matches!(spot.kind(), Ok(FileType::Directory)) {
        spot.put_aside()?;
    }
    let name = format!(".config-{}", std::process::id());
    let _ = rustix::fs::unlinkat(&spot.folder, &name, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let mut file = File::from(rustix::fs::openat(&spot.folder, &name, flags, mode)?);
    let written = file.write_all(bytes).and_then(|()| {
        rustix::fs::renameat(&spot.folder, &name, &spot.folder, spot.name).map_err(io::Error::from)
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&spot.folder, &name, AtFlags::empty());
    }
    written
}

/// Puts a link where nothing is.
pub(super) fn link(path: &Path, to: &Path) -> io::Result<()> {
    let spot = Spot::of(path)?;
    Ok(rustix::fs::symlinkat(to, &spot.folder, spot.name)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_is_done_where_a_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("elsewhere")).unwrap();
        fs::write(real.join("elsewhere/precious"), "1").unwrap();
        std::os::unix::fs::symlink(real.join("elsewhere"), real.join("hooks")).unwrap();
        let through = real.join("hooks/precious");
        assert!(take_away(&through).contains("can't be removed"));
        assert!(replace(&through, b"2").is_err() && read(&through).is_err());
        assert!(names(&real.join("hooks")).is_err() && link(&real.join("hooks/new"), &real).is_err());
        assert_eq!(fs::read(real.join("elsewhere/precious")).unwrap(), b"1");
        assert_eq!(fs::read_dir(real.join("elsewhere")).unwrap().count(), 1);
        // The same without the link.
        assert!(take_away(&real.join("hooks")).contains("removed"));
        assert!(take_away(&real.join("elsewhere")).contains("elsewhere.undone-1"));
        replace(&real.join("elsewhere.undone-1/precious"), b"2").unwrap();
        assert_eq!(read(&real.join("elsewhere.undone-1/precious")).unwrap(), b"2");
        assert_eq!(names(&real.join("elsewhere.undone-1")).unwrap(), ["precious"]);
    }
}
