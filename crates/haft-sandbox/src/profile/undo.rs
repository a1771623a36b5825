//! Taking back what a command did in a folder that it can write.
//!
//! We may do what the command may not, and it (or one that still runs) may have put a link where a folder is
//! expected, or do so while we work. So every folder is opened without following a link anywhere, and
//! everything is done by name in the folder that was opened.
//!
//! Nor may it keep us out. What we make has a name that nobody can guess and is made only where nothing is; a
//! folder that its owner can't write is opened for as long as it takes; what stands in the way is put aside.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use haft::sync::lock;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{display_path, limits};

/// What is done in folders whose permissions were changed for it is done one after the other: the first one
/// to end would close the folder for the others.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());
/// How often something is tried again that another program, or a command that still runs, has prevented
/// meanwhile.
const TRIES: usize = 16;
/// So much of a name is kept where something is added to it; a file system has 255 bytes for one.
const NAME_KEPT: usize = 200;

/// What an owner needs to look into a folder, and to change what is in it.
const LOOK: u32 = 0o500;
const CHANGE: u32 = 0o700;

fn one_by_one() -> MutexGuard<'static, ()> {
    lock(&ONE_BY_ONE)
}

/// Folders that were opened to us, and what their permissions were. They are put back.
#[derive(Default)]
struct LiftedPermissions(Vec<(OwnedFd, u32)>);

impl LiftedPermissions {
    /// Gives the owner of a folder these permissions, if that is us and they are missing.
    fn lift_permissions(&mut self, folder: BorrowedFd<'_>, wanted: u32) -> io::Result<()> {
        let found = rustix::fs::fstat(folder)?;
        let mode = found.st_mode & 0o7777;
        let own = rustix::process::geteuid();
        if own.is_root() || found.st_uid != own.as_raw() || mode & wanted == wanted {
            return Ok(());
        }
        let kept = folder.try_clone_to_owned()?;
        change_mode(folder, mode | wanted)?;
        self.0.push((kept, mode));
        Ok(())
    }
}

impl Drop for LiftedPermissions {
    fn drop(&mut self) {
        for (folder, mode) in self.0.drain(..).rev() {
            let _ = change_mode(folder.as_fd(), mode);
        }
    }
}

/// Also of what was opened only as a place.
fn change_mode(of: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", of.as_raw_fd()), Mode::from_raw_mode(mode))?)
}

/// A folder, and a name in it.
struct FolderEntry<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
    _lifted: LiftedPermissions,
}

impl<'a> FolderEntry<'a> {
    fn open_parent(path: &'a Path, wanted: u32) -> io::Result<FolderEntry<'a>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (folder, _lifted) = open_folder(folder, wanted)?;
        Ok(FolderEntry { folder, name, _lifted })
    }

    fn found(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn kind(&self) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(self.found()?.st_mode))
    }

    /// Gives it a name that nothing else has and nobody could have taken before.
    fn put_aside(&self) -> io::Result<OsString> {
        for _ in 0..TRIES {
            let bytes = self.name.as_bytes();
            let mut aside = OsStr::from_bytes(&bytes[..bytes.len().min(NAME_KEPT)]).to_owned();
            aside.push(format!(".undone-{}", random_name()?));
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.folder, self.name, &self.folder, &aside, flags) {
                Err(Errno::EXIST) => {}
                done => return done.map(|()| aside).map_err(io::Error::from),
            }
        }
        Err(io::Error::other("there are too many of its kind"))
    }

    fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.folder, self.name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
    }

    fn read(&self) -> io::Result<(Vec<u8>, std::fs::Metadata)> {
        let file = self.open()?;
        let found = file.metadata()?;
        let mut bytes = Vec::new();
        file.take(limits::CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limits::CONFIG_BYTES_MAX {
            Err(io::Error::other("it is too large"))
        } else {
            Ok((bytes, found))
        }
    }

    /// Puts a new file in place of whatever is there; it keeps owner and permissions of a file.
    fn replace(&self, bytes: &[u8], new_mode: u32) -> io::Result<()> {
        let before = self.found().ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_file());
        let mode = before.map_or(new_mode, |before| before.st_mode & 0o755 | 0o600);
        let (name, mut file) = self.make(mode)?;
        let written = file.write_all(bytes).and_then(|()| {
            if let Some(before) = before.filter(|_| rustix::process::geteuid().is_root()) {
                std::os::unix::fs::fchown(&file, Some(before.st_uid), Some(before.st_gid))?;
            }
            // What the process leaves out of the permissions of new files is no matter here.
            change_mode(file.as_fd(), mode)?;
            for _ in 0..TRIES {
                if matches!(self.kind(), Ok(FileType::Directory)) {
                    self.put_aside()?;
                }
                match rustix::fs::renameat(&self.folder, &name, &self.folder, self.name) {
                    // Somebody was quicker.
                    Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {}
                    done => return done.map_err(io::Error::from),
                }
            }
            Err(io::Error::other("something is put in its place again and again"))
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
        }
        written
    }

    /// A new file with a name that nobody can guess.
    fn make(&self, mode: u32) -> io::Result<(String, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for _ in 0..TRIES {
            let name = format!(".haft-{}", random_name()?);
            match rustix::fs::openat(&self.folder, &name, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// 64 bits as text.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens a folder, and to us what keeps us out of it.
fn open_folder(folder: &Path, wanted: u32) -> io::Result<(OwnedFd, LiftedPermissions)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut lifted = LiftedPermissions::default();
    match rustix::fs::openat2(CWD, folder, flags | OFlags::RDONLY, Mode::empty(), resolve) {
        Ok(opened) => {
            lifted.lift_permissions(opened.as_fd(), wanted)?;
            return Ok((opened, lifted));
        }
        Err(Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    let place = flags | OFlags::PATH;
    let mut at = rustix::fs::open("/", place, Mode::empty())?;
    for part in folder.components() {
        let Component::Normal(name) = part else { continue };
        let next = match rustix::fs::openat2(&at, name, place, Mode::empty(), resolve) {
            Err(Errno::ACCESS) => {
                lifted.lift_permissions(at.as_fd(), 0o100)?;
                rustix::fs::openat2(&at, name, place, Mode::empty(), resolve)?
            }
            next => next?,
        };
        at = next;
    }
    lifted.lift_permissions(at.as_fd(), wanted)?;
    Ok((rustix::fs::openat(&at, ".", flags | OFlags::RDONLY, Mode::empty())?, lifted))
}

/// Does something at a path, also if a folder is closed to its owner, and again if it was closed meanwhile.
fn act_in_parent<T>(
    path: &Path,
    wanted: u32,
    act: impl Fn(&FolderEntry<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let _one = one_by_one();
    let mut done = FolderEntry::open_parent(path, wanted).and_then(|spot| act(&spot));
    for _ in 1..TRIES {
        match &done {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                done = FolderEntry::open_parent(path, wanted).and_then(|spot| act(&spot));
            }
            _ => break,
        }
    }
    done
}

/// Whether something is at a path, also if it lies in a folder that is closed to its owner.
pub(super) fn is_there(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            act_in_parent(path, LOOK, |spot| spot.found()).is_ok()
        }
        Err(_) => false,
    }
}

/// Gives the owner of a folder that a command has made all permissions, so that nothing in it is closed to
/// us. Whether that opened it.
pub(super) fn open_up(folder: &Path) -> bool {
    let Ok(found) = act_in_parent(folder, LOOK, |spot| spot.found()) else { return false };
    let mode = found.st_mode & 0o7777;
    if !FileType::from_raw_mode(found.st_mode).is_dir() || mode & CHANGE == CHANGE {
        return false;
    }
    let opened = act_in_parent(folder, LOOK, |spot| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&spot.folder, spot.name, flags, Mode::empty())?;
        change_mode(opened.as_fd(), mode | CHANGE)
    });
    opened.is_ok()
}

/// The entries of a folder, which is opened up where it is closed to its owner.
pub(super) fn read_dir(folder: &Path) -> io::Result<std::fs::ReadDir> {
    std::fs::read_dir(folder).or_else(|_| {
        open_up(folder);
        std::fs::read_dir(folder)
    })
}

/// The names in a folder; an error if it isn't one, a link leads there, or there are too many to be looked
/// at.
pub(super) fn list_names(folder: &Path) -> io::Result<Vec<OsString>> {
    let _one = one_by_one();
    let (opened, _lifted) = open_folder(folder, LOOK)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(opened)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if names.len() >= limits::WATCHED_ENTRIES_MAX {
            return Err(io::Error::other("it holds too many names"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// A small regular file to which no link leads, and whether it has other names, by which it could be written.
pub(super) fn read_file(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    act_in_parent(path, LOOK, |spot| spot.read()).map(|(bytes, found)| (bytes, found.nlink() > 1))
}

/// Takes a name away; a folder with something in it is put aside. Says what was done.
pub(super) fn take_away(path: &Path) -> String {
    let taken = |spot: &FolderEntry<'_>| {
        let flags = if spot.kind()? == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&spot.folder, spot.name, flags) {
            Ok(()) => Ok(None),
            Err(_) => spot.put_aside().map(|aside| Some(path.with_file_name(aside))),
        }
    };
    match act_in_parent(path, CHANGE, taken) {
        Ok(None) => "it was made while a command ran, and it was removed".into(),
        Ok(Some(aside)) => {
            format!("it was made while a command ran, and it was renamed to `{}`", display_path(&aside))
        }
        Err(error) => format!("it was made while a command ran, and it can't be removed: {error}; remove it"),
    }
}

/// Removes what is no folder.
pub(super) fn remove_entry(path: &Path) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| Ok(rustix::fs::unlinkat(&spot.folder, spot.name, AtFlags::empty())?))
}

/// Gives what is at a path a name that nothing obeys; says which.
pub(super) fn rename_aside(path: &Path) -> io::Result<PathBuf> {
    act_in_parent(path, CHANGE, |spot| spot.put_aside().map(|aside| path.with_file_name(aside)))
}

/// Gives what is at a path another name, with all that leads to it unless that is a link: then it is the
/// link. Says what was done.
pub(super) fn put_aside(path: &Path, below: &Path) -> String {
    let between: Vec<&Path> = path.ancestors().take_while(|above| *above != below).collect();
    let is_link = |path: &&&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let path = between.iter().rev().find(is_link).copied().unwrap_or(path);
    match rename_aside(path) {
        Ok(aside) => {
            format!(
                "it was made while a command ran, and git would run or obey it; it was renamed to `{}`",
                display_path(&aside)
            )
        }
        Err(error) => format!(
            "it was made while a command ran, and it can't be renamed: {error}; git would run or obey it, so remove it first"
        ),
    }
}

/// Removes a file that was made for a call and that nobody has touched since: it is empty, and its inode
/// didn't change.
pub(super) fn remove_if_untouched(path: &Path, made: Option<ChangeTime>) {
    let _ = act_in_parent(path, CHANGE, |spot| {
        let found = spot.found()?;
        let is_empty = FileType::from_raw_mode(found.st_mode).is_file() && found.st_size == 0;
        if is_empty && made == Some(ChangeTime::from_stat(&found)) {
            rustix::fs::unlinkat(&spot.folder, spot.name, AtFlags::empty())?;
        }
        Ok(())
    });
}

/// When an inode was changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeTime(i64, u64);

impl ChangeTime {
    fn from_stat(found: &Stat) -> ChangeTime {
        ChangeTime(found.st_ctime, found.st_ctime_nsec)
    }

    /// Of what is at a path.
    pub(super) fn at(path: &Path) -> Option<ChangeTime> {
        rustix::fs::lstat(path).ok().map(|found| ChangeTime::from_stat(&found))
    }
}

/// Puts a new file with this content in place of whatever is there.
pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| spot.replace(bytes, 0o644))
}

/// Puts a file with these permissions where nothing is.
pub(super) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| spot.replace(bytes, mode))
}

/// Opens a regular file to which no link leads.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    act_in_parent(path, LOOK, |spot| spot.open())
}

/// Removes a folder with nothing in it.
pub(super) fn remove_empty_folder(path: &Path) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| Ok(rustix::fs::unlinkat(&spot.folder, spot.name, AtFlags::REMOVEDIR)?))
}

/// Whether an empty folder is at a path, which nothing obeys.
pub(super) fn is_empty_folder(path: &Path) -> bool {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Sees to it that a file has one name only, by which it can be held: one that has others is written anew.
pub(super) fn one_name(path: &Path) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if !found.is_file() || found.nlink() < 2 {
        return Ok(());
    }
    act_in_parent(path, CHANGE, |spot| {
        let (bytes, _) = spot.read()?;
        spot.replace(&bytes, 0o644)
    })
}

/// Puts an empty folder at a path; what else is there is put aside.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| {
        if spot.found().is_ok() {
            spot.put_aside()?;
        }
        Ok(rustix::fs::mkdirat(&spot.folder, spot.name, Mode::from_raw_mode(0o755))?)
    })
}

/// Puts a link where nothing is.
pub(super) fn make_symlink(path: &Path, to: &Path) -> io::Result<()> {
    act_in_parent(path, CHANGE, |spot| Ok(rustix::fs::symlinkat(to, &spot.folder, spot.name)?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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
        assert!(replace_file(&through, b"2").is_err() && read_file(&through).is_err());
        assert!(
            list_names(&real.join("hooks")).is_err() && make_symlink(&real.join("hooks/new"), &real).is_err()
        );
        assert_eq!(fs::read(real.join("elsewhere/precious")).unwrap(), b"1");
        assert_eq!(fs::read_dir(real.join("elsewhere")).unwrap().count(), 1);
        // The same without the link.
        assert!(take_away(&real.join("hooks")).contains("removed"));
        assert!(take_away(&real.join("elsewhere")).contains("elsewhere.undone-"));
        let aside = fs::read_dir(&real).unwrap().next().unwrap().unwrap().path();
        replace_file(&aside.join("precious"), b"2").unwrap();
        assert_eq!(read_file(&aside.join("precious")).unwrap().0, b"2");
        assert_eq!(list_names(&aside).unwrap(), ["precious"]);
    }

    /// As root nothing is closed; as an ordinary user each of these is.
    #[test]
    fn a_closed_folder_keeps_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/git")).unwrap();
        fs::write(real.join("a/git/config"), "evil").unwrap();
        let closed = |path: &str, mode| {
            fs::set_permissions(real.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o555, 0o311, 0o000] {
            closed("a/git", mode);
            closed("a", 0o600);
            let config = real.join("a/git/config");
            assert!(is_there(&config) && !is_there(&real.join("a/git/none")));
            replace_file(&config, b"good").unwrap();
            assert_eq!(read_file(&config).unwrap().0, b"good");
            assert_eq!(list_names(&real.join("a/git")).unwrap(), ["config"]);
            assert_eq!(real.join("a").metadata().unwrap().mode() & 0o777, 0o600, "put back");
            closed("a", 0o700);
            assert_eq!(real.join("a/git").metadata().unwrap().mode() & 0o777, mode, "put back");
        }
        closed("a/git", 0o700);
    }

    #[test]
    fn what_stands_in_the_way_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let config = real.join("config");
        for number in 1..1_000 {
            fs::write(real.join(format!("config.undone-{number}")), "").unwrap();
        }
        fs::create_dir(real.join(format!(".config-{}", std::process::id()))).unwrap();
        fs::create_dir_all(config.join("full")).unwrap();
        replace_file(&config, b"1").unwrap();
        assert_eq!(read_file(&config).unwrap().0, b"1");
        assert!(put_aside(&config, &real).contains("renamed to"));
        assert!(!config.exists());
        let long = real.join("n".repeat(255));
        fs::write(&long, "").unwrap();
        rename_aside(&long).unwrap();
        // Another name of a file is another file from then on.
        fs::write(&config, "mine").unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(&config, real.join("other")).unwrap();
        one_name(&config).unwrap();
        fs::write(real.join("other"), "evil").unwrap();
        assert_eq!(fs::read(&config).unwrap(), b"mine");
        assert_eq!(config.metadata().unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn many_at_once_do_not_disturb_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().canonicalize().unwrap().join("config");
        fs::set_permissions(config.parent().unwrap(), fs::Permissions::from_mode(0o555)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| replace_file(&config, b"1").unwrap()));
            }
        });
        fs::set_permissions(config.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read_dir(config.parent().unwrap()).unwrap().count(), 1);
    }
}
