//! Where a path really leads, for everybody who judges a call before it runs.
//!
//! Rules compare paths, the scheduler looks for conflicts, the sandbox is built from directories: all of them
//! need one answer to "which file is that". [`resolve_path`] gives it for files that exist and for files that
//! a call is about to create, because a write to a new file is judged like any other.
//!
//! The answer is a judgement at one moment, never an authority: a link may appear a microsecond later. What
//! opens files ([`DirFiles`](super::dir::DirFiles)) therefore opens the *real* path and follows no link while
//! doing so.
//!
//! Most paths lead through no link. One `openat2` that refuses links shows this, and then the path as written
//! is the real path; only when the kernel met a link, or `..` behind something that does not exist, is the
//! path walked component by component. `statx` would save the descriptor, but it cannot refuse links.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat, statat};
use rustix::io::Errno;

use super::PathTable;
use super::error::{display_path, io_error_text};
use super::nolink::{self, OpenMethod, is_dir, is_link};
use crate::limits;

/// Who a file is, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileId {
    /// The device that holds the file.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
}

impl FileId {
    #[expect(clippy::unnecessary_cast, reason = "the fields have other widths on other architectures")]
    pub(crate) fn from_stat(stat: &Stat) -> FileId {
        FileId { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// A path as it really is: absolute, free of links, with the identity of the nearest existing ancestor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RealPath {
    /// The path as it was asked for: absolute, without `.` and `..`, links not followed.
    ///
    /// `..` behind a link means the parent of what the link leads to, as it does for the kernel; there, and
    /// only there, the part before it is the real one.
    pub given: PathBuf,
    /// The path without links. What does not exist yet follows the real path of the nearest existing
    /// ancestor; a dangling link counts as its target, since that is what creating through it creates.
    pub real: PathBuf,
    /// The file itself if it exists, otherwise its nearest existing ancestor.
    pub anchor: FileId,
    /// Whether the file exists.
    pub exists: bool,
    /// Whether it exists and is a directory.
    pub is_dir: bool,
    /// How many names an existing file has; 1 for a directory, 0 for what does not exist.
    ///
    /// More than one name means that writing into the file in place would change it under its other names
    /// too.
    pub links: u64,
    /// The real places of the links that the path led through. Changing one of them changes where the path
    /// leads.
    pub links_on_the_way: Vec<PathBuf>,
}

impl RealPath {
    /// Whether this path is `root` or lies beneath it; see [`is_beneath`].
    pub fn is_beneath(&self, root: &RealPath) -> bool {
        is_beneath(&self.real, &root.real)
    }

    fn existing(given: PathBuf, real: PathBuf, stat: &Stat) -> RealPath {
        RealPath {
            given,
            real,
            anchor: FileId::from_stat(stat),
            exists: true,
            is_dir: is_dir(stat),
            links: if is_dir(stat) { 1 } else { link_count(stat) },
            links_on_the_way: Vec::new(),
        }
    }

    fn missing(given: PathBuf, real: PathBuf, ancestor: &Stat) -> RealPath {
        let links_on_the_way = Vec::new();
        RealPath {
            given,
            real,
            anchor: FileId::from_stat(ancestor),
            exists: false,
            is_dir: false,
            links: 0,
            links_on_the_way,
        }
    }
}

#[expect(clippy::unnecessary_cast, reason = "the field has other widths on other architectures")]
fn link_count(stat: &Stat) -> u64 {
    stat.st_nlink as u64
}

/// Whether `path` is `root` or lies beneath it, component by component: `/a_evil` is not beneath `/a`.
///
/// Both must be absolute and free of `..`, or the answer is no.
pub fn is_beneath(path: &Path, root: &Path) -> bool {
    let plain = |path: &Path| path.is_absolute() && !has_parent(path);
    plain(root) && plain(path) && path.starts_with(root)
}

/// [`is_beneath`] for two paths that [`resolve_path`] gave: absolute and tidy, so that their bytes show their
/// components.
pub(crate) fn beneath_tidy(path: &Path, root: &Path) -> bool {
    let (path, root) = (path.as_os_str().as_bytes(), root.as_os_str().as_bytes());
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || root == b"/",
        None => false,
    }
}

pub(crate) fn has_parent(path: &Path) -> bool {
    // Looking for the bytes first is much cheaper than splitting, and nearly every path ends here.
    path.as_os_str().as_bytes().windows(2).any(|two| two == b"..")
        && path.components().any(|part| part == Component::ParentDir)
}

/// Why a path could not be resolved.
#[derive(Debug)]
pub struct ResolveError {
    /// The path as it was given.
    pub path: PathBuf,
    /// The place on the way where it went wrong, where that is known; otherwise the path.
    pub at: PathBuf,
    /// What was wrong.
    pub kind: ResolveErrorKind,
    source: Option<io::Error>,
}

/// What can be wrong with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResolveErrorKind {
    /// The path is empty.
    Empty,
    /// The path contains a NUL byte.
    Nul,
    /// The directory to start from is not an absolute path.
    RelativeStart,
    /// The path leads through too many links, or in a circle.
    TooManyLinks,
    /// A name or the whole path is too long.
    NameTooLong,
    /// Something before the end of the path is not a directory.
    NotADirectory,
    /// A directory on the way may not be searched.
    Denied,
    /// A link that only the kernel can follow, such as `/proc/self/fd/3`; its text is not where it leads.
    MagicLink,
    /// Anything else, for example a disk error.
    Io,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = display_path(&self.path);
        let at = display_path(&self.at);
        match self.kind {
            ResolveErrorKind::Empty => write!(f, "the path is empty"),
            ResolveErrorKind::Nul => write!(f, "`{path}` contains a NUL byte"),
            ResolveErrorKind::RelativeStart => {
                write!(f, "the directory `{at}` to start from is not absolute")
            }
            ResolveErrorKind::TooManyLinks => {
                write!(f, "`{path}` leads through more than {} links", limits::LINKS_MAX)
            }
            ResolveErrorKind::NameTooLong => write!(
                f,
                "`{path}` is too long: a name may have {} bytes, a path {}",
                limits::NAME_BYTES_MAX,
                limits::PATH_BYTES_MAX
            ),
            ResolveErrorKind::NotADirectory => write!(f, "`{at}` is not a directory"),
            ResolveErrorKind::Denied => write!(f, "`{path}` can't be reached: `{at}` may not be searched"),
            ResolveErrorKind::MagicLink => write!(f, "`{at}` is a link of the kernel and is not followed"),
            ResolveErrorKind::Io => {
                write!(f, "`{path}` can't be resolved at `{at}`")?;
                self.source.as_ref().map_or(Ok(()), |error| write!(f, ": {}", io_error_text(error)))
            }
        }
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What it says is in the text of that kind already.
        self.source.as_ref().filter(|_| self.kind != ResolveErrorKind::Io).map(|error| error as _)
    }
}

/// Resolves `path`, taken from `cwd` if it is relative.
///
/// A path without links costs one `openat2`, one `fstat` and one `close`.
///
/// # Errors
/// When the path is malformed, leads in a circle or through something that is not a directory, or may not be
/// looked at. That something does not exist is no error.
pub fn resolve_path(cwd: &Path, path: &Path) -> Result<RealPath, ResolveError> {
    PathTable::default().resolve(cwd, path)
}

/// Resolves the place of a name: like [`resolve_path`], but a link at the very end is not followed.
///
/// For effects on the name itself: removing or renaming a link concerns the link, not what it leads to.
///
/// # Errors
/// As for [`resolve_path`].
pub fn resolve_entry(cwd: &Path, path: &Path) -> Result<RealPath, ResolveError> {
    PathTable::default().resolve_entry(cwd, path)
}

pub(crate) fn resolve_with(
    kernel: OpenMethod,
    paths: &PathTable,
    cwd: &Path,
    path: &Path,
) -> Result<RealPath, ResolveError> {
    let absolute = make_absolute(cwd, path)?;
    // What the table moves is looked up name by name. What a symlink leads to is as well, since that is met
    // below.
    if kernel == OpenMethod::Walk || paths.moves(&absolute) || (!paths.is_empty() && has_parent(&absolute)) {
        return PathWalk::new(kernel, paths, path)?.run(&absolute);
    }
    match nolink::open_nolink(kernel, &absolute, OFlags::PATH).and_then(fstat) {
        Ok(stat) => {
            let real = normalize_path(absolute);
            Ok(RealPath::existing(real.clone(), real, &stat))
        }
        Err(Errno::NOENT) if !has_parent(&absolute) => {
            // No link was met before the missing name, so going up name by name finds the nearest ancestor.
            let mut ancestor = absolute.as_path();
            while let Some(parent) = ancestor.parent() {
                ancestor = parent;
                match nolink::open_nolink(kernel, ancestor, OFlags::PATH | OFlags::DIRECTORY).and_then(fstat)
                {
                    Ok(stat) => {
                        let real = normalize_path(absolute);
                        if real.components().any(|part| part.as_os_str().len() > limits::NAME_BYTES_MAX) {
                            return Err(resolve_failure(path, &real, Errno::NAMETOOLONG));
                        }
                        return Ok(RealPath::missing(real.clone(), real, &stat));
                    }
                    Err(Errno::NOENT) => {}
                    // Something appeared meanwhile; look closely.
                    Err(_) => break,
                }
            }
            PathWalk::new(kernel, paths, path)?.run(&absolute)
        }
        // A link, or `..` behind something missing (EXDEV: before which the walk of `nolink` stops), or an
        // error of which the careful walk can say where it happened.
        Err(Errno::LOOP | Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::ACCESS) => {
            PathWalk::new(kernel, paths, path)?.run(&absolute)
        }
        Err(errno) => Err(resolve_failure(path, &absolute, errno)),
    }
}

/// Resolves like [`resolve_with`]; what is missing in the session's own folder may be the host's.
pub(crate) fn resolve_read_with(
    kernel: OpenMethod,
    paths: &PathTable,
    cwd: &Path,
    path: &Path,
) -> Result<RealPath, ResolveError> {
    let found = resolve_with(kernel, paths, cwd, path)?;
    if found.exists || !paths.is_private(&found.real) {
        return Ok(found);
    }
    let on_host = resolve_with(kernel, &PathTable::default(), cwd, path);
    Ok(on_host.ok().filter(|on_host| on_host.exists).unwrap_or(found))
}

pub(crate) fn resolve_entry_with(
    kernel: OpenMethod,
    paths: &PathTable,
    cwd: &Path,
    path: &Path,
) -> Result<RealPath, ResolveError> {
    let absolute = make_absolute(cwd, path)?;
    // `file_name` ignores a slash or `.` at the end and is none for `/` and for `..`, which are no links.
    let (Some(name), Some(parent)) = (absolute.file_name(), absolute.parent()) else {
        return resolve_with(kernel, paths, cwd, path);
    };
    let place = resolve_with(kernel, paths, cwd, parent)
        .map_err(|error| ResolveError { path: path.to_owned(), ..error })?;
    if place.exists && !place.is_dir {
        return Err(resolve_failure(path, &place.real, Errno::NOTDIR));
    }
    let given = place.given.join(name);
    let real = match paths.begins(&paths.session_path(&place.real).join(name)) {
        Some(elsewhere) => elsewhere.to_owned(),
        None => place.real.join(name),
    };
    match statat(CWD, &real, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let links_on_the_way = place.links_on_the_way;
            Ok(RealPath { links_on_the_way, ..RealPath::existing(given, real, &stat) })
        }
        Err(Errno::NOENT) => Ok(RealPath { given, real, exists: false, is_dir: false, links: 0, ..place }),
        Err(errno) => Err(resolve_failure(path, &real, errno)),
    }
}

fn make_absolute(cwd: &Path, path: &Path) -> Result<PathBuf, ResolveError> {
    let refuse =
        |kind, at: &Path| Err(ResolveError { path: path.to_owned(), at: at.to_owned(), kind, source: None });
    if path.as_os_str().is_empty() {
        return refuse(ResolveErrorKind::Empty, path);
    }
    let absolute = if path.is_absolute() { path.to_owned() } else { cwd.join(path) };
    if !absolute.is_absolute() {
        return refuse(ResolveErrorKind::RelativeStart, cwd);
    }
    if absolute.as_os_str().as_bytes().contains(&0) {
        return refuse(ResolveErrorKind::Nul, path);
    }
    if absolute.as_os_str().len() > limits::PATH_BYTES_MAX {
        return refuse(ResolveErrorKind::NameTooLong, path);
    }
    Ok(absolute)
}

/// Takes `.`, `..`, doubled and final slashes out of an absolute path that is known to lead through no link.
fn normalize_path(path: PathBuf) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let untidy = bytes.windows(2).any(|two| two == b"//" || two == b"/.") || bytes.ends_with(b"/");
    if !untidy {
        return path;
    }
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

fn resolve_failure(path: &Path, at: &Path, errno: Errno) -> ResolveError {
    let kind = match errno {
        Errno::LOOP => ResolveErrorKind::TooManyLinks,
        Errno::NAMETOOLONG => ResolveErrorKind::NameTooLong,
        Errno::NOTDIR => ResolveErrorKind::NotADirectory,
        Errno::ACCESS | Errno::PERM => ResolveErrorKind::Denied,
        _ => ResolveErrorKind::Io,
    };
    ResolveError { path: path.to_owned(), at: at.to_owned(), kind, source: Some(errno.into()) }
}

/// The careful walk: one component at a time, following links by their text.
struct PathWalk<'a> {
    kernel: OpenMethod,
    paths: &'a PathTable,
    asked: &'a Path,
    /// What exists so far: its descriptor, its state, and its path without links, as the session names it.
    at: OwnedFd,
    stat: Stat,
    path: PathBuf,
    /// The names behind it that do not exist.
    missing: Vec<OsString>,
    given: PathBuf,
    /// For each name in `given`, whether it is a link.
    given_links: Vec<bool>,
    /// The links that were followed.
    links: Vec<PathBuf>,
    /// What is still to do, last first.
    todo: Vec<PathStep>,
}

struct PathStep {
    part: PathComponent,
    /// Whether the step was asked for, rather than read from a link.
    asked: bool,
}

enum PathComponent {
    Name(OsString),
    Up,
    /// `.` or a slash at the end: whatever is there must be a directory.
    Here,
}

impl<'a> PathWalk<'a> {
    fn new(kernel: OpenMethod, paths: &'a PathTable, asked: &'a Path) -> Result<PathWalk<'a>, ResolveError> {
        let root = Path::new("/");
        let (at, stat) = open_dir(kernel, root).map_err(|errno| resolve_failure(asked, root, errno))?;
        Ok(PathWalk {
            kernel,
            paths,
            asked,
            at,
            stat,
            path: root.to_owned(),
            missing: Vec::new(),
            given: root.to_owned(),
            given_links: Vec::new(),
            links: Vec::new(),
            todo: Vec::new(),
        })
    }

    fn run(mut self, absolute: &Path) -> Result<RealPath, ResolveError> {
        self.plan(absolute.as_os_str(), true);
        while let Some(step) = self.todo.pop() {
            match step.part {
                PathComponent::Name(name) => self.enter(name, step.asked)?,
                PathComponent::Up => self.leave(step.asked)?,
                PathComponent::Here => self.must_be_dir()?,
            }
        }
        let here = self.paths.host_path(&self.current_path()).into_owned();
        if here.as_os_str().len() > limits::PATH_BYTES_MAX {
            return Err(self.fail(Errno::NAMETOOLONG));
        }
        let path = if self.missing.is_empty() {
            RealPath::existing(self.given, here, &self.stat)
        } else {
            RealPath::missing(self.given, here, &self.stat)
        };
        Ok(RealPath { links_on_the_way: self.links, ..path })
    }

    fn plan(&mut self, path: &OsStr, asked: bool) {
        for name in path.as_bytes().rsplit(|byte| *byte == b'/') {
            let part = match name {
                b"" | b"." => PathComponent::Here,
                b".." => PathComponent::Up,
                name => PathComponent::Name(OsStr::from_bytes(name).to_owned()),
            };
            self.todo.push(PathStep { part, asked });
        }
    }

    fn enter(&mut self, name: OsString, asked: bool) -> Result<(), ResolveError> {
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(self.fail(Errno::NAMETOOLONG));
        }
        if asked {
            self.given.push(&name);
            self.given_links.push(false);
        }
        let next = self.current_path().join(&name);
        match self.paths.begins(&next) {
            Some(elsewhere) if elsewhere == next => self.go_to_host(&next)?,
            Some(_) => return self.go_to(next),
            None => {}
        }
        if !self.missing.is_empty() {
            self.missing.push(name);
            return Ok(());
        }
        self.must_be_dir()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&self.at, &name, flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                self.missing.push(name);
                return Ok(());
            }
            Err(errno) => return Err(self.fail(errno)),
        };
        let stat = fstat(&found).map_err(|errno| self.fail(errno))?;
        if is_link(&stat) {
            if let (true, Some(last)) = (asked, self.given_links.last_mut()) {
                *last = true;
            }
            return self.follow(&found, &name);
        }
        self.at = found;
        self.stat = stat;
        self.path = next;
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd, name: &OsStr) -> Result<(), ResolveError> {
        let place = self.paths.host_path(&self.path.join(name)).into_owned();
        self.links.push(place.clone());
        if self.links.len() > limits::LINKS_MAX {
            return Err(self.fail(Errno::LOOP));
        }
        // Links in the directories of processes lead to what the kernel says, not to what their text says;
        // only `/proc/self` and the like, directly in the root of procfs (always inode 1), are ordinary.
        if on_procfs(link).map_err(|errno| self.fail(errno))? && self.stat.st_ino != 1 {
            let path = self.asked.to_owned();
            return Err(ResolveError { path, at: place, kind: ResolveErrorKind::MagicLink, source: None });
        }
        let target = readlinkat(link, "", Vec::new()).map_err(|errno| self.fail(errno))?;
        let target = OsString::from_vec(target.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            self.go_to(PathBuf::from("/"))?;
        }
        self.plan(&target, false);
        Ok(())
    }

    fn leave(&mut self, asked: bool) -> Result<(), ResolveError> {
        if self.missing.pop().is_none() {
            self.must_be_dir()?;
            let mut parent = std::mem::take(&mut self.path);
            parent.pop();
            self.go_to(parent)?;
        }
        if asked {
            if self.given_links.pop() == Some(true) {
                self.given = self.current_path();
                self.given_links = vec![false; self.given.components().count() - 1];
            } else {
                self.given.pop();
            }
        }
        Ok(())
    }

    /// Goes to a path that led through no link a moment ago. Opening it anew, instead of asking the
    /// descriptor for `..`, keeps descriptor and path together when somebody moves directories meanwhile.
    fn go_to(&mut self, mut path: PathBuf) -> Result<(), ResolveError> {
        self.missing.clear();
        loop {
            let host = self.paths.host_path(&path);
            match open_dir(self.kernel, &host) {
                Ok((at, stat)) => {
                    (self.at, self.stat) = (at, stat);
                    break;
                }
                Err(Errno::NOENT) if self.paths.leads_to_host(&path) => {
                    self.missing.extend(path.file_name().map(OsStr::to_owned));
                    path.pop();
                }
                Err(errno) => return Err(resolve_failure(self.asked, &host, errno)),
            }
        }
        self.missing.reverse();
        self.path = path;
        Ok(())
    }

    /// Goes to the folder of the host that holds a path of the host, as far as it exists.
    fn go_to_host(&mut self, path: &Path) -> Result<(), ResolveError> {
        self.missing.clear();
        for folder in path.ancestors().skip(1) {
            match open_dir(self.kernel, folder) {
                Ok((at, stat)) => {
                    (self.at, self.stat, self.path) = (at, stat, folder.to_owned());
                    break;
                }
                Err(Errno::NOENT) => self.missing.extend(folder.file_name().map(OsStr::to_owned)),
                Err(errno) => return Err(resolve_failure(self.asked, folder, errno)),
            }
        }
        self.missing.reverse();
        Ok(())
    }

    fn must_be_dir(&self) -> Result<(), ResolveError> {
        if self.missing.is_empty() && !is_dir(&self.stat) { Err(self.fail(Errno::NOTDIR)) } else { Ok(()) }
    }

    fn current_path(&self) -> PathBuf {
        let mut here = self.path.clone();
        here.extend(&self.missing);
        here
    }

    fn fail(&self, errno: Errno) -> ResolveError {
        resolve_failure(self.asked, &self.paths.host_path(&self.path), errno)
    }
}

fn open_dir(kernel: OpenMethod, path: &Path) -> Result<(OwnedFd, Stat), Errno> {
    let dir = nolink::open_nolink(kernel, path, OFlags::PATH | OFlags::DIRECTORY)?;
    let stat = fstat(&dir)?;
    Ok((dir, stat))
}

/// Whether a descriptor belongs to `/proc`, whose files are views of processes rather than files.
pub(crate) fn on_procfs(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstatfs(file)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
