//! Files in memory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haft_scheduler::sync::lock;

use crate::files::tree::must_be_a_name;
use crate::files::{
    DirEntry, FileError, FileId, FileKind, FileMetadata, Files, GrantedAccess, GrantedRoot, OpenDir,
    OpenFile, ReadFile, RequiredAccess, WriteMode, WriteOutcome,
};
use crate::future::BoxFuture;

/// A file system in a map: it honours what a call was granted and says what the real one says.
///
/// Every write makes the clock of the files one second later, so times are the same in every run. There are
/// no links, no permissions and no devices; a test of those wants a real folder and
/// [`DirFiles`](crate::files::DirFiles).
///
/// The engine looks at the real disk when it judges where a path leads, whatever the files behind the tools
/// are. So give it a workspace that exists, as here, or one with nothing in it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::files::{GrantedAccess, Files, GrantedRoot, ScopedFiles, WriteMode};
/// use haft::testing::MemoryFiles;
/// use std::path::Path;
///
/// let files = MemoryFiles::new().with("/w/a.txt", "text").with("/etc/secret", "no");
/// let access = GrantedAccess { write: vec![GrantedRoot::subtree("/w")], ..GrantedAccess::default() };
/// let scoped = ScopedFiles::new(&files, &access, Path::new("/w"));
///
/// assert_eq!(scoped.read_to_string("a.txt").await.unwrap(), "text");
/// scoped.write("new/b.txt", b"more", WriteMode::Create).await.unwrap();
/// assert_eq!(files.text("/w/new/b.txt").as_deref(), Some("more"));
///
/// let refused = scoped.read("../etc/secret").await.unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "`/etc/secret` is outside of what this call may read; it may read: /w"
/// );
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<MemoryDisk>>);

#[derive(Default)]
struct MemoryDisk {
    nodes: BTreeMap<PathBuf, MemoryNode>,
    broken: BTreeMap<PathBuf, io::ErrorKind>,
    inodes: u64,
    seconds: u64,
}

#[derive(Clone)]
struct MemoryNode {
    /// Nothing for a folder.
    bytes: Option<Arc<[u8]>>,
    inode: u64,
    seconds: u64,
}

impl MemoryFiles {
    /// No files.
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// Adds a file, and the folders that lead to it.
    ///
    /// # Panics
    /// The path is relative, or leads through a file.
    #[must_use]
    pub fn with(self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> MemoryFiles {
        self.put(path, bytes);
        self
    }

    /// Adds or changes a file behind the back of every call, as another program would.
    ///
    /// # Panics
    /// The path is relative, or leads through a file.
    pub fn put(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = plain_path(path.as_ref());
        assert!(path.is_absolute(), "`{}` is relative; these files have no current folder", path.display());
        let mut disk = lock(&self.0);
        disk.make_parents(&path).expect("a folder leads to the file");
        disk.place(path, Some(bytes.as_ref().into()));
    }

    /// Makes every operation on this path fail, as a bad disk does.
    pub fn break_path(&self, path: impl AsRef<Path>, kind: io::ErrorKind) {
        lock(&self.0).broken.insert(plain_path(path.as_ref()), kind);
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let disk = lock(&self.0);
        disk.nodes.get(&plain_path(path.as_ref()))?.bytes.as_deref().map(<[u8]>::to_vec)
    }

    /// The text of a file, if it is text.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        String::from_utf8(self.bytes(path)?).ok()
    }

    /// The paths of all files, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        let disk = lock(&self.0);
        disk.nodes.iter().filter(|(_, node)| node.bytes.is_some()).map(|(path, _)| path.clone()).collect()
    }
}

impl MemoryDisk {
    fn place(&mut self, path: PathBuf, bytes: Option<Arc<[u8]>>) -> bool {
        self.seconds += 1;
        let old = self.nodes.get(&path).map(|node| node.inode);
        let inode = old.unwrap_or_else(|| {
            self.inodes += 1;
            self.inodes
        });
        self.nodes.insert(path, MemoryNode { bytes, inode, seconds: self.seconds });
        old.is_some()
    }

    /// What is at a path; the root always is.
    fn get(&self, path: &Path) -> io::Result<MemoryNode> {
        if let Some(kind) = self.broken.get(path) {
            return Err((*kind).into());
        }
        if path == Path::new("/") {
            return Ok(MemoryNode { bytes: None, inode: 0, seconds: 0 });
        }
        if let Some(node) = self.nodes.get(path) {
            return Ok(node.clone());
        }
        let through_file = path.ancestors().skip(1).any(|above| self.is_file(above));
        Err(if through_file { io::ErrorKind::NotADirectory } else { io::ErrorKind::NotFound }.into())
    }

    fn is_file(&self, path: &Path) -> bool {
        self.nodes.get(path).is_some_and(|node| node.bytes.is_some())
    }

    fn make_parents(&mut self, path: &Path) -> io::Result<()> {
        let above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_path_buf).collect();
        if above.iter().any(|folder| self.is_file(folder)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        for folder in above.into_iter().rev().filter(|folder| folder != Path::new("/")) {
            if !self.nodes.contains_key(&folder) {
                self.place(folder, None);
            }
        }
        Ok(())
    }

    fn children(&self, folder: &Path) -> Vec<PathBuf> {
        self.nodes.keys().filter(|path| path.parent() == Some(folder)).cloned().collect()
    }

    fn metadata(node: &MemoryNode) -> FileMetadata {
        FileMetadata {
            kind: if node.bytes.is_some() { FileKind::File } else { FileKind::Directory },
            len: node.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(node.seconds)),
            id: FileId { device: u64::MAX, inode: node.inode },
            mode: None,
        }
    }
}

/// A path without `.` and `..`. Without links this is what the path means.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn granted_path(access: &GrantedAccess, need: RequiredAccess, path: &Path) -> Result<PathBuf, FileError> {
    let path = plain_path(path);
    let may = match need {
        RequiredAccess::Read => access.may_read(&path),
        RequiredAccess::Write => access.may_write(&path),
    };
    if may { Ok(path) } else { Err(FileError::not_granted(access, need, &path, false)) }
}

fn ready_outcome<'a, T: Send + 'a>(outcome: Result<T, FileError>) -> BoxFuture<'a, Result<T, FileError>> {
    Box::pin(std::future::ready(outcome))
}

impl MemoryFiles {
    fn opened(&self, access: &GrantedAccess, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        let path = granted_path(access, RequiredAccess::Read, path)?;
        let failed = |error: io::Error| FileError::from_io("read", &path, error);
        let node = lock(&self.0).get(&path).map_err(failed)?;
        let metadata = MemoryDisk::metadata(&node);
        let bytes = node.bytes.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        Ok(Box::new(OpenMemoryFile { metadata, bytes, offset: 0 }))
    }

    fn listed(&self, access: &GrantedAccess, path: &Path) -> Result<Vec<DirEntry>, FileError> {
        let path = granted_path(access, RequiredAccess::Read, path)?;
        let failed = |error: io::Error| FileError::from_io("listed", &path, error);
        let disk = lock(&self.0);
        if disk.get(&path).map_err(failed)?.bytes.is_some() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let entry = |path: &PathBuf| DirEntry {
            name: path.file_name().unwrap_or(OsStr::new("")).to_owned(),
            kind: if disk.is_file(path) { FileKind::File } else { FileKind::Directory },
        };
        let mut entries: Vec<DirEntry> = disk.children(&path).iter().map(entry).collect();
        entries.sort_by(|a, b| a.name.as_encoded_bytes().cmp(b.name.as_encoded_bytes()));
        Ok(entries)
    }

    fn written(
        &self,
        access: &GrantedAccess,
        path: &Path,
        bytes: &[u8],
        how: WriteMode,
    ) -> Result<WriteOutcome, FileError> {
        let path = granted_path(access, RequiredAccess::Write, path)?;
        let failed = |error: io::Error| FileError::from_io("written", &path, error);
        let mut disk = lock(&self.0);
        match disk.get(&path) {
            Ok(node) if node.bytes.is_none() => return Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(_) if how != WriteMode::Replace => return Err(failed(io::ErrorKind::AlreadyExists.into())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(_) | Err(_) => {}
        }
        disk.make_parents(&path).map_err(failed)?;
        Ok(WriteOutcome { existed: disk.place(path, Some(bytes.into())), ..WriteOutcome::default() })
    }

    fn swapped(
        &self,
        access: &GrantedAccess,
        path: &Path,
        old: &[u8],
        new: &[u8],
    ) -> Result<WriteOutcome, FileError> {
        let path = granted_path(access, RequiredAccess::Write, path)?;
        let mut disk = lock(&self.0);
        let node = disk.get(&path).map_err(|error| FileError::from_io("written", &path, error))?;
        if node.bytes.as_deref() != Some(old) {
            return Err(FileError::changed(&path));
        }
        Ok(WriteOutcome { existed: disk.place(path, Some(new.into())), ..WriteOutcome::default() })
    }

    fn folder(&self, path: PathBuf) -> Result<Box<dyn OpenDir>, FileError> {
        let access = GrantedAccess { read: vec![GrantedRoot::subtree(&path)], ..GrantedAccess::default() };
        self.listed(&access, &path)?;
        Ok(Box::new(MemoryDir { files: self.clone(), path, access }))
    }

    fn removed(&self, access: &GrantedAccess, path: &Path, old: Option<&[u8]>) -> Result<(), FileError> {
        let path = granted_path(access, RequiredAccess::Write, path)?;
        let failed = |error: io::Error| FileError::from_io("removed", &path, error);
        let mut disk = lock(&self.0);
        let node = disk.get(&path).map_err(failed)?;
        if old.is_some() && node.bytes.as_deref() != old {
            return Err(FileError::changed(&path));
        }
        if node.bytes.is_none() && !disk.children(&path).is_empty() {
            return Err(failed(io::ErrorKind::DirectoryNotEmpty.into()));
        }
        disk.nodes.remove(&path);
        Ok(())
    }

    fn renamed(&self, access: &GrantedAccess, from: &Path, to: &Path) -> Result<(), FileError> {
        let (from, to) = (
            granted_path(access, RequiredAccess::Write, from)?,
            granted_path(access, RequiredAccess::Write, to)?,
        );
        let failed = |error: io::Error| FileError::from_io("renamed", &from, error);
        let mut disk = lock(&self.0);
        let is_folder = disk.get(&from).map_err(failed)?.bytes.is_none();
        match disk.get(&to) {
            Ok(node) if node.bytes.is_none() && from != to => {
                return Err(FileError::from_io("renamed", &to, io::Error::from(io::ErrorKind::IsADirectory)));
            }
            Ok(_) => {
                return Err(FileError::from_io(
                    "replaced",
                    &to,
                    io::Error::from(io::ErrorKind::AlreadyExists),
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Err(_) => {}
        }
        let whole = |path: &Path| {
            access
                .roots(RequiredAccess::Write)
                .any(|root| root.extent == crate::effects::RootExtent::Subtree && root.covers(path))
        };
        if is_folder && let Some(part) = [&from, &to].into_iter().find(|path| !whole(path)) {
            return Err(FileError::not_granted(access, RequiredAccess::Write, part, false));
        }
        disk.make_parents(&to).map_err(failed)?;
        let moved: Vec<PathBuf> = disk.nodes.keys().filter(|path| path.starts_with(&from)).cloned().collect();
        for path in moved {
            let node = disk.nodes.remove(&path);
            let rest = path.strip_prefix(&from).unwrap_or(Path::new(""));
            let place = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
            disk.nodes.extend(node.map(|node| (place, node)));
        }
        Ok(())
    }

    fn created(&self, access: &GrantedAccess, path: &Path) -> Result<(), FileError> {
        let path = granted_path(access, RequiredAccess::Write, path)?;
        let failed = |error: io::Error| FileError::from_io("created", &path, error);
        let mut disk = lock(&self.0);
        match disk.get(&path) {
            Ok(_) => return Err(failed(io::ErrorKind::AlreadyExists.into())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Err(_) => {}
        }
        disk.make_parents(&path).map_err(failed)?;
        disk.place(path, None);
        Ok(())
    }
}

impl Files for MemoryFiles {
    fn open<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenFile>, FileError>> {
        ready_outcome(self.opened(access, path))
    }

    fn metadata<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<FileMetadata, FileError>> {
        ready_outcome(granted_path(access, RequiredAccess::Read, path).and_then(|path| {
            let node = lock(&self.0).get(&path);
            node.map(|node| MemoryDisk::metadata(&node))
                .map_err(|error| FileError::from_io("read", &path, error))
        }))
    }

    fn list<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Vec<DirEntry>, FileError>> {
        ready_outcome(self.listed(access, path))
    }

    fn open_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenDir>, FileError>> {
        ready_outcome(granted_path(access, RequiredAccess::Read, path).and_then(|path| {
            let whole =
                |root: &GrantedRoot| root.extent == crate::effects::RootExtent::Subtree && root.covers(&path);
            if !access.roots(RequiredAccess::Read).any(whole) {
                return Err(FileError::not_granted(access, RequiredAccess::Read, &path, false));
            }
            self.folder(path)
        }))
    }

    fn write<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        bytes: &'a [u8],
        how: WriteMode,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        ready_outcome(self.written(access, path, bytes, how))
    }

    fn swap<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Bytes,
        new: Bytes,
    ) -> BoxFuture<'a, Result<WriteOutcome, FileError>> {
        ready_outcome(self.swapped(access, path, &old, &new))
    }

    fn remove<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
        old: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        ready_outcome(self.removed(access, path, old))
    }

    fn rename<'a>(
        &'a self,
        access: &'a GrantedAccess,
        from: &'a Path,
        to: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        ready_outcome(self.renamed(access, from, to))
    }

    fn create_dir<'a>(
        &'a self,
        access: &'a GrantedAccess,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        ready_outcome(self.created(access, path))
    }
}

/// A folder is its path: nothing here is ever moved in a way that a test could see.
struct MemoryDir {
    files: MemoryFiles,
    path: PathBuf,
    access: GrantedAccess,
}

impl MemoryDir {
    fn child(&self, name: &OsStr) -> Result<PathBuf, FileError> {
        must_be_a_name(name, &self.path).map(|()| self.path.join(name))
    }
}

impl OpenDir for MemoryDir {
    fn each(&self, show: &mut dyn FnMut(&OsStr, FileKind)) -> Result<(), FileError> {
        let entries = self.files.listed(&self.access, &self.path)?;
        entries.iter().for_each(|entry| show(&entry.name, entry.kind));
        Ok(())
    }

    fn open_dir(&self, name: &OsStr) -> Result<Box<dyn OpenDir>, FileError> {
        self.files.folder(self.child(name)?)
    }

    fn open(&self, name: &OsStr) -> Result<Box<dyn ReadFile>, FileError> {
        let path = self.child(name)?;
        let failed = |error: io::Error| FileError::from_io("read", &path, error);
        let node = lock(&self.files.0).get(&path).map_err(failed)?;
        let metadata = MemoryDisk::metadata(&node);
        let bytes = node.bytes.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        Ok(Box::new(MemoryDirFile { metadata, bytes: io::Cursor::new(bytes) }))
    }

    fn metadata(&self, name: &OsStr) -> Result<FileMetadata, FileError> {
        let path = self.child(name)?;
        let node = lock(&self.files.0).get(&path);
        node.map(|node| MemoryDisk::metadata(&node)).map_err(|error| FileError::from_io("read", &path, error))
    }
}

struct MemoryDirFile {
    metadata: FileMetadata,
    bytes: io::Cursor<Arc<[u8]>>,
}

impl io::Read for MemoryDirFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl ReadFile for MemoryDirFile {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }
}

struct OpenMemoryFile {
    metadata: FileMetadata,
    bytes: Arc<[u8]>,
    offset: usize,
}

impl OpenFile for OpenMemoryFile {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        let from = self.offset.min(self.bytes.len());
        let end = from.saturating_add(max).min(self.bytes.len());
        self.offset = end.max(self.offset);
        ready_outcome(Ok(self.bytes[from..end].to_vec()))
    }

    fn seek(&mut self, offset: u64) {
        self.offset = usize::try_from(offset).unwrap_or(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileErrorKind, ScopedFiles};

    #[tokio::test]
    async fn operations_say_what_the_real_files_say() {
        let files = MemoryFiles::new().with("/w/d/a", "a").with("/w/b", "b").with("/x", "x");
        let access = GrantedAccess { write: vec![GrantedRoot::subtree("/w")], ..GrantedAccess::default() };
        let scoped = ScopedFiles::new(&files, &access, Path::new("/w"));
        let kind = |error: FileError| error.kind();
        let at = Path::new;

        assert_eq!(scoped.read(at("d")).await.map_err(kind), Err(FileErrorKind::IsDirectory));
        assert_eq!(scoped.read(at("none")).await.map_err(kind), Err(FileErrorKind::NotFound));
        assert_eq!(scoped.read(at("b/c")).await.map_err(kind), Err(FileErrorKind::NotADirectory));
        assert_eq!(scoped.read(at("/x")).await.map_err(kind), Err(FileErrorKind::NotGranted));
        assert_eq!(scoped.read(at("../none")).await.map_err(kind), Err(FileErrorKind::NotGranted));
        assert_eq!(scoped.exists(at("d/a")).await.map_err(kind), Ok(true));

        let names = |entries: Vec<DirEntry>| {
            entries.into_iter().map(|entry| (entry.name.into_string().unwrap(), entry.kind)).collect()
        };
        let listed: Vec<_> = names(scoped.list(at(".")).await.unwrap());
        assert_eq!(listed, [("b".into(), FileKind::File), ("d".into(), FileKind::Directory)]);

        assert_eq!(scoped.remove(at("d")).await.map_err(kind), Err(FileErrorKind::IsDirectory));
        assert_eq!(
            scoped.write(at("b"), b"", WriteMode::Create).await.map_err(kind),
            Err(FileErrorKind::AlreadyExists)
        );
        assert_eq!(
            scoped.write(at("b"), b"new", WriteMode::Replace).await.map_err(kind),
            Ok(WriteOutcome { existed: true, ..WriteOutcome::default() })
        );
        assert_eq!(scoped.create_dir(at("d")).await.map_err(kind), Err(FileErrorKind::AlreadyExists));
        scoped.rename(at("d"), at("e/f")).await.unwrap();
        assert_eq!(files.paths(), [at("/w/b"), at("/w/e/f/a"), at("/x")]);
        scoped.remove(at("b")).await.unwrap();
        assert_eq!(files.text("/w/b"), None);

        files.break_path("/w/e/f/a", io::ErrorKind::StorageFull);
        assert_eq!(
            scoped.write(at("e/f/a"), b"", WriteMode::Replace).await.map_err(kind),
            Err(FileErrorKind::NoSpace)
        );
    }

    #[tokio::test]
    async fn folders_open_as_the_real_ones_do() {
        let files = MemoryFiles::new().with("/w/d/a", "abc").with("/w/b", "b").with("/x", "x");
        let access = GrantedAccess {
            read: vec![GrantedRoot::subtree("/w"), GrantedRoot::file("/x")],
            write: vec![],
            ..GrantedAccess::default()
        };
        let scoped = ScopedFiles::new(&files, &access, Path::new("/w"));
        let kind = |error: FileError| error.kind();
        assert_eq!(scoped.open_dir("/").await.map(drop).map_err(kind), Err(FileErrorKind::NotGranted));
        assert_eq!(scoped.open_dir("/x").await.map(drop).map_err(kind), Err(FileErrorKind::NotGranted));
        assert_eq!(scoped.open_dir("b").await.map(drop).map_err(kind), Err(FileErrorKind::NotADirectory));
        let dir = scoped.open_dir(".").await.unwrap();
        let mut seen = Vec::new();
        dir.each(&mut |name, kind| seen.push((name.to_owned(), kind))).unwrap();
        assert_eq!(seen, [("b".into(), FileKind::File), ("d".into(), FileKind::Directory)]);
        let mut text = String::new();
        let inner = dir.open_dir(OsStr::new("d")).unwrap();
        io::Read::read_to_string(&mut inner.open(OsStr::new("a")).unwrap(), &mut text).unwrap();
        assert_eq!((text.as_str(), inner.metadata(OsStr::new("a")).unwrap().len), ("abc", 3));
        for name in ["..", ".", "", "d/a", "/x"] {
            let refused = dir.open(OsStr::new(name)).map(drop).map_err(kind);
            assert_eq!(refused, Err(FileErrorKind::NotGranted), "{name}");
        }
    }

    #[tokio::test]
    async fn a_file_reads_in_pieces_and_outlives_its_name() {
        let files = MemoryFiles::new().with("/w/a", "abcdef");
        let access = GrantedAccess { write: vec![GrantedRoot::subtree("/w")], ..GrantedAccess::default() };
        let scoped = ScopedFiles::new(&files, &access, Path::new("/w"));
        let mut open = scoped.open(Path::new("a")).await.unwrap();
        scoped.remove(Path::new("a")).await.unwrap();
        assert_eq!(open.metadata().len, 6);
        assert_eq!(open.read(4).await.unwrap(), b"abcd");
        assert_eq!(open.read(4).await.unwrap(), b"ef");
        assert_eq!(open.read(4).await.unwrap(), b"");
        open.seek(5);
        assert_eq!(open.read(4).await.unwrap(), b"f");
        open.seek(99);
        assert_eq!(open.read(4).await.unwrap(), b"");
    }
}
