//! Files as tools see them: a port that opens only what a call was granted.
//!
//! Whoever authorizes a call writes down what it may touch as an [`GrantedAccess`]: real paths, each one file
//! or a whole subtree. A tool holds a [`ScopedFiles`], which pairs that access with a [`Files`] and the
//! working directory; it cannot name the access, so it cannot widen it. [`DirFiles`] is the file system of
//! the machine; tests and remote workspaces bring their own.
//!
//! Deliberately absent: rules and questions (the access is their result), effects (they use
//! [`resolve_path`](fn@resolve_path) and decide before), and processes, which are held back by the sandbox
//! instead.
//!
//! The decision to question: authority is not a comparison of paths. Comparing says what a path was; opening
//! says what it is, and between the two a link can be swapped in. So the file is opened in a way that cannot
//! leave the root, and everything after that happens on the descriptor. Comparing component by component only
//! chooses *which* root to open through.

mod attributes;
pub mod checkpoint_plan;
pub mod dir;
pub mod error;
mod filtered_dir;
mod nolink;
pub mod path_table;
pub mod pinned_paths;
mod replace;
#[cfg(test)]
mod replace_tests;
pub mod resolve;
pub mod scoped;
pub(crate) mod tree;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::future::BoxFuture;

pub use bytes::Bytes;
pub use checkpoint_plan::{CheckpointPlan, PlannedChange};
pub use dir::DirFiles;
pub use error::{FileError, FileErrorKind};
pub use path_table::PathTable;
pub use pinned_paths::PinnedPaths;
pub(crate) use resolve::beneath_tidy;
pub use resolve::{FileId, RealPath, ResolveError, is_beneath, resolve_entry, resolve_path};
pub use scoped::ScopedFiles;

/// What one call may touch: decided by whoever authorized it, read by [`Files`].
///
/// The default grants nothing.
#[derive(Clone, Debug, Default)]
pub struct GrantedAccess {
    /// What may be read.
    pub read: Vec<GrantedRoot>,
    /// What may be written, which covers removing it; it may be read too.
    pub write: Vec<GrantedRoot>,
    /// What may not be written although it lies in what may.
    pub never_written: Vec<PathBuf>,
    /// What may not be read although it lies in what may.
    pub hidden: Option<HiddenPaths>,
    /// Hosts that a child process of the call may reach beside those that the session opens.
    pub hosts: Vec<String>,
    /// Of what was granted outside of the workspace, what it was when that was decided: for who shows it to a
    /// child.
    pub held: PinnedPaths,
}

/// Says which files may not be read although they lie in a folder that may: they aren't there, for who walks
/// it.
#[derive(Clone)]
pub struct HiddenPaths {
    paths: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
    hard_links: Vec<Arc<HardLinkCheck>>,
}

/// Says why a file with several names may not be read, after its path; nothing if it may.
type HardLinkCheck = dyn Fn(FileId) -> Option<String> + Send + Sync;

impl HiddenPaths {
    /// What this says of an absolute path. A panic hides.
    pub fn new(hides: impl Fn(&Path) -> bool + Send + Sync + 'static) -> HiddenPaths {
        HiddenPaths { paths: Arc::new(hides), hard_links: Vec::new() }
    }

    /// The same, and `refuses` is asked about each file that is opened for reading and has several names
    /// (hard links): one of the others may be hidden. It returns the end of a sentence that begins with the
    /// path. It may read the disk. A panic refuses.
    #[must_use]
    pub fn with_hard_links(
        mut self,
        refuses: impl Fn(FileId) -> Option<String> + Send + Sync + 'static,
    ) -> HiddenPaths {
        self.hard_links.push(Arc::new(refuses));
        self
    }

    /// What one of the two hides.
    #[must_use]
    pub fn or(self, other: HiddenPaths) -> HiddenPaths {
        let hard_links = [self.hard_links, other.hard_links].concat();
        let paths = [self.paths, other.paths];
        HiddenPaths { paths: Arc::new(move |path| paths.iter().any(|covers| covers(path))), hard_links }
    }

    /// Whether a path is hidden.
    pub fn covers(&self, path: &Path) -> bool {
        crate::future::catch_panic(|| (self.paths)(path)).unwrap_or(true)
    }

    /// Why a file that has several names may not be read.
    pub(crate) fn refuses_hard_link(&self, file: FileId) -> Option<String> {
        self.hard_links.iter().find_map(|refuses| {
            let failed = |_| Some("has other names, and the rules about them failed".to_owned());
            crate::future::catch_panic(|| refuses(file)).unwrap_or_else(failed)
        })
    }
}

impl std::fmt::Debug for HiddenPaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
}

impl GrantedAccess {
    /// Whether a real path may be read. For decisions and messages; opening checks again by descriptor.
    pub fn may_read(&self, real: &Path) -> bool {
        self.root_for(RequiredAccess::Read, real).is_some()
    }

    /// Whether a real path may be written. For decisions and messages; writing checks again by descriptor.
    pub fn may_write(&self, real: &Path) -> bool {
        self.root_for(RequiredAccess::Write, real).is_some()
    }

    pub(crate) fn roots(&self, need: RequiredAccess) -> impl Iterator<Item = &GrantedRoot> {
        let read: &[GrantedRoot] = if need == RequiredAccess::Read { &self.read } else { &[] };
        read.iter().chain(&self.write)
    }

    pub(crate) fn root_for(&self, need: RequiredAccess, path: &Path) -> Option<&GrantedRoot> {
        // Not what is protected, nor a folder that holds it: renaming that would replace it.
        let protected = |place: &PathBuf| is_beneath(path, place) || is_beneath(place, path);
        if need == RequiredAccess::Write && self.never_written.iter().any(protected) {
            return None;
        }
        let root = self.roots(need).find(|root| root.covers(path))?;
        let hidden =
            need == RequiredAccess::Read && self.hidden.as_ref().is_some_and(|hidden| hidden.covers(path));
        (!hidden).then_some(root)
    }
}

/// What an operation needs of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequiredAccess {
    Read,
    Write,
}

impl RequiredAccess {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            RequiredAccess::Read => "read",
            RequiredAccess::Write => "write",
        }
    }
}

/// One granted place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GrantedRoot {
    /// Its real path: absolute and free of links, as [`resolve_path`](fn@resolve_path) gives it.
    ///
    /// A root whose path leads through a link, or is relative, grants nothing.
    pub path: PathBuf,
    /// How far the grant reaches.
    pub extent: RootExtent,
}

/// How far a grant reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootExtent {
    /// Exactly the file of that name.
    File,
    /// The directory and everything beneath it.
    Subtree,
}

impl GrantedRoot {
    /// Grants exactly one file.
    pub fn file(path: impl Into<PathBuf>) -> GrantedRoot {
        GrantedRoot { path: path.into(), extent: RootExtent::File }
    }

    /// Grants a directory and everything beneath it.
    pub fn subtree(path: impl Into<PathBuf>) -> GrantedRoot {
        GrantedRoot { path: path.into(), extent: RootExtent::Subtree }
    }

    /// Whether the grant covers a real path, compared by components.
    pub fn covers(&self, real: &Path) -> bool {
        is_beneath(real, &self.path) && (self.extent == RootExtent::Subtree || real == self.path)
    }
}

/// The file system behind the tools.
///
/// # Who calls it
/// [`ScopedFiles`], on behalf of one call, from that call's task; many calls at the same time, in any order.
/// Calls that touch the same files are kept apart by the scheduler, not here. Paths are absolute and
/// otherwise as the model wrote them: `.`, `..` and links are allowed.
///
/// # What an implementer promises
/// - Nothing is opened, changed or made visible that the [`GrantedAccess`] of that very operation does not
///   cover, whatever other processes do to the directories meanwhile. In doubt the answer is
///   [`NotGranted`](error::FileErrorKind::NotGranted).
/// - A refusal tells nothing about what lies outside, not even whether it exists.
/// - No operation waits for another process: pipes, sockets and devices are refused, not read.
/// - An error leaves things as they were, except that missing parent directories may have been created, and
///   that a file may be in place of which the disk didn't confirm that it stays: the error says so.
///
/// # Cancel safety
/// A future that is dropped stops at its next await. A write that has begun either finishes or leaves the old
/// file whole; which of the two is not known to the one who dropped it.
///
/// # Example
/// ```
/// use haft::files::{GrantedAccess, GrantedRoot, dir::DirFiles, scoped::ScopedFiles};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let here = std::env::current_dir()?.canonicalize()?;
/// let access = GrantedAccess { read: vec![GrantedRoot::subtree(&here)], ..GrantedAccess::default() };
/// let files = DirFiles::new();
/// let scoped = ScopedFiles::new(&files, &access, &here);
/// assert!(scoped.read_to_string("Cargo.toml").await?.contains("[package]"));
/// assert!(scoped.read_to_string("/etc/passwd").await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Files: Send + Sync + 'static {
    /// Says where an absolute path leads that is read. By default where the host's own symlinks lead.
    ///
    /// # Errors
    /// As for [`resolve_path`](fn@resolve_path).
    fn resolve(&self, path: &Path) -> Result<RealPath, ResolveError> {
        resolve_path(Path::new("/"), path)
    }

    /// Opens a regular file for reading; links are followed as long as they stay inside of what may be read.
    fn open<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenFile>, FileError>>;

    /// Says what is at a path, following links. Needs a read grant.
    fn metadata<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<FileMetadata, FileError>>;

    /// Lists one directory, sorted by the bytes of the names, without `.` and `..`. Needs a read grant.
    ///
    /// More than [`LIST_ENTRIES_MAX`](crate::limits::LIST_ENTRIES_MAX) entries are an error, never a silent
    /// cut.
    fn list<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Vec<DirEntry>, FileError>>;

    /// Opens a directory, to walk what is beneath it. Needs a read grant for the whole subtree.
    ///
    /// Links on the way to it are followed as by [`open`](Files::open); beneath it none are.
    fn open_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenDir>, FileError>>;

    /// Writes a whole file, all of it or nothing, and creates missing parent directories.
    ///
    /// A grant for one file includes the directories that lead to it, as far as they do not exist. A link at
    /// the end of the path is written *at its target*, which must be covered. The file is replaced, not
    /// written into: its mode, extended attributes and access control list are kept, and its owner where that
    /// is possible; its other hard links keep the old content, so a second name that lies outside cannot be
    /// written through. [`WriteOutcome`] says what could not be kept. A file that the user made read-only is
    /// refused.
    fn write<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        bytes: &'a [u8],
        how: WriteMode,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>>;

    /// Replaces a file that is still `old`, as [`write`](Files::write) does it; otherwise it is
    /// [`Changed`](error::FileErrorKind::Changed) and stays as it is.
    ///
    /// Between the comparison and the replacement nobody else who writes through this file system changes the
    /// file, in this process or another: whoever reads, changes and swaps loses no change of others who do
    /// the same.
    ///
    /// Both contents are shared and not copied, as who swaps mostly keeps them.
    fn swap<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Bytes,
        new: Bytes,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>>;

    /// Removes a file, a link (never its target) or an empty directory. Needs a write grant for the name
    /// itself.
    ///
    /// With `old`, only a file that is still exactly that; otherwise it is
    /// [`Changed`](error::FileErrorKind::Changed) and stays. Nobody else who writes through this file system
    /// changes the file between the comparison and its end, as in [`swap`](Files::swap).
    fn remove<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<(), FileError>>;

    /// Renames a file, a link (never its target) or a directory. Nothing is replaced: that there is something
    /// at `to` is an error.
    ///
    /// Needs write grants for both names, of whole subtrees if it is a directory. Missing parents of `to` are
    /// created.
    fn rename<'a>(
        &'a self,
        access: &'a GrantedAccess,
        from: &'a Path,
        to: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>>;

    /// Creates a directory and its missing parents; that it exists already is an error.
    fn create_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>>;
}

/// A regular file that was opened for reading. It stays readable whatever happens to its name.
pub trait OpenFile: Send {
    /// What was known when it was opened; a file that is being written may have changed since.
    fn metadata(&self) -> &FileMetadata;

    /// Reads up to `max` bytes from the current offset and moves it; empty means the end (or `max` 0).
    ///
    /// Fewer bytes than `max` are not the end. Dropping the future leaves the offset where it was.
    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>>;

    /// Sets the offset of the next read, in bytes from the start; beyond the end the next read is empty.
    fn seek(&mut self, offset: u64);
}

/// A directory that was opened for walking what is beneath it.
///
/// # Who calls it
/// A tool that walks a tree, from threads of its own: the methods block, and several threads may share one
/// directory. Never from a task of the runtime, which may be the one that has to answer.
///
/// # What an implementer promises
/// What [`Files`] promises, and: everything is found by its name in this very directory, whatever happens to
/// the path that led here. No link is followed. A name is one name: with a slash in it, or `.` or `..`, it is
/// refused.
pub trait OpenDir: Send + Sync {
    /// Shows every entry but `.` and `..`, in no particular order.
    fn each(&self, show: &mut dyn FnMut(&OsStr, FileKind)) -> Result<(), FileError>;

    /// Opens a directory in this one.
    fn open_dir(&self, name: &OsStr) -> Result<Box<dyn OpenDir>, FileError>;

    /// Opens a regular file in this directory. Links, pipes, sockets and devices are refused.
    fn open(&self, name: &OsStr) -> Result<Box<dyn ReadFile>, FileError>;

    /// Says what an entry is; a link is a link.
    fn metadata(&self, name: &OsStr) -> Result<FileMetadata, FileError>;
}

/// A regular file that was opened in a walk. It ends where it ended when it was opened.
pub trait ReadFile: io::Read + Send {
    /// What was known when it was opened.
    fn metadata(&self) -> &FileMetadata;
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileMetadata {
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// When its content last changed, where that is known.
    pub modified: Option<SystemTime>,
    /// Who it is.
    pub id: FileId,
    /// What its owner, its group and others may do, as Unix has it (`0o755`), where that is known.
    pub mode: Option<u32>,
}

/// What an entry of the file system is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; only in listings, since everything else follows links.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Its name, which need not be UTF-8.
    pub name: OsString,
    /// What it is; links are not followed.
    pub kind: FileKind,
}

/// What a write does about a file that exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    /// The file must not exist, also not at the last moment.
    Create,
    /// The same, and what may be done with it is this (`0o755`): for a file that was there before.
    CreateAs(u32),
    /// The file is created or replaced.
    Replace,
}

/// What a write did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WriteOutcome {
    /// Whether there was a file before.
    pub existed: bool,
    /// How many other names (hard links) that file had. They keep the old content.
    pub other_names: u64,
    /// Whether its owner or group could not be kept.
    pub lost_owner: bool,
    /// Whether an extended attribute or its access control list could not be kept.
    pub lost_attributes: bool,
}
