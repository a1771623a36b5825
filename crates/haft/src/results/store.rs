//! The folder that keeps whole results.
//!
//! A result may hold secrets, and the folder may lie in a place that others can write to, so nothing is taken
//! on trust: the folder has to be ours and closed to others, it is opened once per use without following a
//! link and files are made relative to that handle, and a file has to be new. Names are short and random.
//! They never come from a call's id, which a provider chooses and which can be of any length.
//!
//! Nothing is made before the first result is kept, and cleaning removes only what looks like a file of ours.
//! When to clean, and after how many days, is the caller's decision.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::offload_writer::{OffloadWriter, OffloadedFile};
use super::preview::{OffloadedPreview, PreviewSource, ReaderTools, RestLocation, render_preview};
use crate::content::ToolOutput;
use crate::limits;

/// Where whole results are kept when only a part goes to the model.
///
/// Share one by [`Arc`](std::sync::Arc); a [temporary](OffloadStore::temporary) one goes away with its last
/// owner.
#[derive(Debug)]
pub struct OffloadStore {
    dir: PathBuf,
    readers: ReaderTools,
    lifetime: StoreLifetime,
}

#[derive(Debug)]
enum StoreLifetime {
    /// Files stay until they are cleaned.
    Lasting,
    /// The folder goes away with the store, if it was made.
    Temporary { made: AtomicBool },
}

impl OffloadStore {
    /// A store in this folder, which is made when the first result is kept.
    ///
    /// A relative path counts from the current folder of now; the model gets absolute ones.
    pub fn at(dir: impl Into<PathBuf>) -> OffloadStore {
        let dir = dir.into();
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        OffloadStore { dir, readers: ReaderTools::default(), lifetime: StoreLifetime::Lasting }
    }

    /// A store in a private folder of its own below the system's temporary folder, removed on drop.
    pub fn temporary() -> OffloadStore {
        let name = format!("haft-{:016x}", random_number());
        let mut store = OffloadStore::at(std::env::temp_dir().join(name));
        store.lifetime = StoreLifetime::Temporary { made: AtomicBool::new(false) };
        store
    }

    /// Names the tools that previews advise.
    #[must_use]
    pub fn with_readers(mut self, readers: ReaderTools) -> OffloadStore {
        self.readers = readers;
        self
    }

    /// The folder, whether it is there yet or not.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The tools that previews advise.
    pub fn readers(&self) -> &ReaderTools {
        &self.readers
    }

    /// Writes a whole result to a new file that only this user can read, and returns its path.
    ///
    /// The file is named after `name_hint`, made safe and short, and a random number, for example
    /// `Grep-1a2b3c4d.txt`.
    ///
    /// # Errors
    /// The folder can't be made; it is a link, belongs to somebody else, or is open to others and holds files
    /// that aren't ours; or the bytes can't be written, in which case no file is left behind.
    pub fn keep(&self, name_hint: &str, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut keeping = self.begin(name_hint, extension, u64::MAX)?;
        // Half a result would read as a whole one: what isn't finished is removed.
        keeping.write(bytes)?;
        Ok(keeping.finish().path().to_owned())
    }

    /// Begins a file like those of [`keep`](OffloadStore::keep), for a result that comes piece by piece and
    /// may have at most `bytes_max` bytes. It is removed unless it is [finished](OffloadWriter::finish).
    ///
    /// # Errors
    /// As for [`keep`](OffloadStore::keep).
    pub fn begin(&self, name_hint: &str, extension: &str, bytes_max: u64) -> io::Result<OffloadWriter> {
        let folder = self.open_or_make()?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let hint = safe_file_name(name_hint, limits::OFFLOAD_HINT_CHARS, "result");
        let extension = safe_file_name(extension, EXTENSION_CHARS, "txt").to_ascii_lowercase();
        let mut tries = 0;
        let (name, file) = loop {
            let name = format!("{hint}-{:08x}.{extension}", random_number() as u32);
            match rustix::fs::openat(&folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => break (name, File::from(file)),
                Err(rustix::io::Errno::EXIST) if tries < limits::OFFLOAD_NAME_TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        };
        let path = self.dir.join(&name);
        Ok(OffloadWriter::new(folder, name, path, file, bytes_max))
    }

    /// The result of a call whose text is in a file: its beginning, what is missing and where it is, and its
    /// end. `head` and `tail` are as much of the text as its maker still has.
    ///
    /// Step 8 of the pipeline shortens it to the tool's limit and keeps the file, instead of writing another.
    pub fn show(&self, kept: &OffloadedFile, head: &str, tail: &str) -> ToolOutput {
        let source = PreviewSource::kept(kept, head, tail);
        let rest =
            RestLocation::File { path: kept.path(), readers: &self.readers, held_bytes: source.held_bytes() };
        let (text, cut) = render_preview(&source, &rest, usize::MAX);
        ToolOutput::with_preview(text, OffloadedPreview { path: kept.path().to_owned(), cut })
    }

    /// Removes kept files older than this, then the oldest until the rest is within
    /// [`limits::OFFLOAD_BYTES_MAX`]; returns how many were removed.
    ///
    /// Only regular files of ours with a name like ours are touched; a folder that isn't there is clean.
    ///
    /// # Errors
    /// The folder can't be read or isn't ours, or a file can't be removed. All others are still tried.
    pub fn clean(&self, older_than: Duration, now: SystemTime) -> io::Result<usize> {
        self.clean_to(older_than, now, limits::OFFLOAD_BYTES_MAX)
    }

    fn clean_to(&self, older_than: Duration, now: SystemTime, bytes_max: u64) -> io::Result<usize> {
        let folder = match self.open() {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        owned_stat(&folder)?;
        let mut kept = kept_files(&folder)?;
        kept.sort();
        let mut bytes: u64 = kept.iter().map(|file| file.bytes).sum();
        let mut removed = 0;
        let mut failed = None;
        for file in kept {
            let old = now.duration_since(file.modified).is_ok_and(|age| age > older_than);
            if !old && bytes <= bytes_max {
                break; // They are sorted by age: the rest is younger.
            }
            match rustix::fs::unlinkat(&folder, file.name.as_str(), AtFlags::empty()) {
                Ok(()) => removed += 1,
                // Another session cleans the same folder.
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            }
            bytes = bytes.saturating_sub(file.bytes);
        }
        failed.map_or(Ok(removed), |error| Err(error.into()))
    }

    /// Opens the folder, making it where it isn't there, and sees to it that only we can enter.
    fn open_or_make(&self) -> io::Result<OwnedFd> {
        let folder = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
                self.open()?
            }
            opened => opened?,
        };
        let stat = owned_stat(&folder)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            // Closing a folder that serves others too, such as `/tmp` or a home, would do harm.
            if mode.contains(Mode::SVTX) || holds_foreign(&folder)? {
                return Err(refusal_error(
                    "the folder for whole results is open to others and holds other files",
                ));
            }
            rustix::fs::fchmod(&folder, Mode::RWXU)?;
        }
        if let StoreLifetime::Temporary { made } = &self.lifetime {
            made.store(true, Ordering::Relaxed);
        }
        Ok(folder)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&self.dir, flags, Mode::empty()).map_err(|errno| match errno {
            // Which of the two a link gives depends on the system.
            rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
                refusal_error("the place for whole results is a link or no folder")
            }
            errno => errno.into(),
        })
    }
}

impl Drop for OffloadStore {
    fn drop(&mut self) {
        if let StoreLifetime::Temporary { made } = &self.lifetime
            && made.load(Ordering::Relaxed)
        {
            // It doesn't follow links. What can't be removed is left to the system's own cleaning.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A file that a store made, oldest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct StoredFile {
    modified: SystemTime,
    name: String,
    bytes: u64,
}

fn kept_files(folder: &OwnedFd) -> io::Result<Vec<StoredFile>> {
    let ours = rustix::process::geteuid().as_raw();
    let mut kept = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Some(name) = kept_name(entry.file_name().to_bytes()) else { continue };
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != ours {
            continue;
        }
        let since_1970 = Duration::new(
            u64::try_from(stat.st_mtime).unwrap_or(0),
            u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        );
        // A time that can't be said counts as old.
        let modified = SystemTime::UNIX_EPOCH.checked_add(since_1970).unwrap_or(SystemTime::UNIX_EPOCH);
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        kept.push(StoredFile { modified, name: name.to_owned(), bytes });
    }
    Ok(kept)
}

fn holds_foreign(folder: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && kept_name(name).is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name if it is one that [`OffloadStore::keep`] gives.
fn kept_name(name: &[u8]) -> Option<&str> {
    let name = OsStr::from_bytes(name).to_str()?;
    let (stem, extension) = name.split_once('.')?;
    let (hint, number) = stem.rsplit_once('-')?;
    let ours = safe_file_name(hint, limits::OFFLOAD_HINT_CHARS, "") == hint
        && !hint.is_empty()
        && number.len() == 8
        && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && safe_file_name(extension, EXTENSION_CHARS, "") == extension
        && !extension.is_empty();
    ours.then_some(name)
}

const EXTENSION_CHARS: usize = 8;

/// Returns a name with nothing in it that a path or a shell could read otherwise.
fn safe_file_name(name: &str, chars_max: usize, otherwise: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name: String = name.chars().map(plain).take(chars_max).collect();
    if name.is_empty() { otherwise.to_owned() } else { name }
}

fn owned_stat(folder: &OwnedFd) -> io::Result<rustix::fs::Stat> {
    let stat = rustix::fs::fstat(folder)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refusal_error("the folder for whole results belongs to another user"));
    }
    Ok(stat)
}

fn refusal_error(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, words)
}

/// Returns a number that differs each time; names need no more, since a file or folder must be new or ours.
fn random_number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::Arc;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("a path").permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own path");
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a plain name")
        };
        let mut names: Vec<String> = fs::read_dir(dir).expect("a folder").map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn folder_and_file_are_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = OffloadStore::at(folder.path().join("a/b"));
        assert!(!store.dir().exists());
        let path = store.keep("../../etc/passwd", "../TXT", b"whole").expect("a file");
        assert_eq!((mode(store.dir()), mode(&path)), (0o700, 0o600));
        assert_eq!(path.parent(), Some(store.dir()));
        assert_eq!(fs::read(&path).expect("a kept file"), b"whole");
        let keep = || store.keep("T", "txt", b"").expect("a file");
        assert_ne!(keep(), keep());
    }

    #[test]
    fn names_are_short_safe_and_known_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = OffloadStore::at(folder.path().join("kept"));
        for (hint, expected) in [
            ("Grep", "Grep-"),
            ("", "result-"),
            ("../..", "result-"),
            ("--rm -rf", "rm_-rf-"),
            ("漢字a漢", "a_-"),
            ("mcp__a_very_long_server__and_tool", "mcp__a_very_long_server_-"),
        ] {
            let path = store.keep(hint, "", b"").expect("a file");
            let name = path.file_name().and_then(OsStr::to_str).expect("a plain name");
            assert!(name.starts_with(expected) && name.ends_with(".txt"), "{name}");
            assert_eq!(name.len(), expected.len() + "1a2b3c4d.txt".len(), "{name}");
            assert_eq!(kept_name(name.as_bytes()), Some(name));
        }
        for foreign in [
            "notes.txt",
            "a-12345678",
            "a-1234567.txt",
            "a-1234567G.txt",
            "-12345678.txt",
            ".-",
            "\u{fc}-12345678.txt",
        ] {
            assert_eq!(kept_name(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn a_temporary_folder_goes_with_its_last_owner() {
        let store = Arc::new(OffloadStore::temporary());
        let dir = store.dir().to_owned();
        assert!(!dir.exists());
        let other = Arc::clone(&store);
        drop(store);
        let path = other.keep("T", "txt", b"x").expect("a file");
        assert!(path.exists());
        drop(other);
        assert!(!dir.exists());
    }

    /// Checks that the store refuses with these words, writes nothing and leaves the folder as it was.
    fn refused(dir: &Path, words: &str) {
        let before = fs::metadata(dir).ok().map(|found| found.permissions().mode());
        let error = OffloadStore::at(dir).keep("T", "txt", b"x").expect_err("a refusal");
        assert_eq!(error.to_string(), words);
        assert_eq!(fs::metadata(dir).ok().map(|found| found.permissions().mode()), before);
    }

    #[test]
    fn a_file_or_a_link_is_no_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let words = "the place for whole results is a link or no folder";
        let file = folder.path().join("file");
        fs::write(&file, "mine").expect("a file");
        refused(&file, words);
        refused(&file.join("below"), words);
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir(&target).expect("a folder");
        symlink(&target, &link).expect("a link");
        refused(&link, words);
        let clean = OffloadStore::at(&link).clean(Duration::ZERO, SystemTime::now());
        assert_eq!(clean.expect_err("a refusal").to_string(), words);
        let dangling = folder.path().join("dangling");
        symlink(folder.path().join("nowhere"), &dangling).expect("a link");
        refused(&dangling, words);
        assert_eq!(names(&target), [""; 0]);
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn an_open_folder_is_closed_if_it_is_only_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = OffloadStore::at(folder.path().join("kept"));
        store.keep("T", "txt", b"x").expect("a file");
        set_mode(store.dir(), 0o755);
        store.keep("T", "txt", b"x").expect("a file");
        assert_eq!(mode(store.dir()), 0o700);

        let words = "the folder for whole results is open to others and holds other files";
        set_mode(store.dir(), 0o1777);
        refused(store.dir(), words);
        set_mode(store.dir(), 0o755);
        fs::write(store.dir().join("thesis.tex"), "").expect("a file");
        refused(store.dir(), words);
        set_mode(store.dir(), 0o700);
        store.keep("T", "txt", b"x").expect("a closed folder may hold anything");
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        // Root owns `/` and may give folders away; a plain user finds one of root's.
        let folder = tempfile::tempdir().expect("a folder");
        let words = "the folder for whole results belongs to another user";
        if rustix::process::geteuid().is_root() {
            let other = Some(rustix::fs::Uid::from_raw(65_534));
            rustix::fs::chown(folder.path(), other, None).expect("root may");
            refused(folder.path(), words);
        } else {
            refused(Path::new("/usr"), words);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error() {
        if rustix::process::geteuid().is_root() {
            return; // Modes don't bind root.
        }
        let folder = tempfile::tempdir().expect("a folder");
        set_mode(folder.path(), 0o500);
        for dir in [folder.path().to_owned(), folder.path().join("below")] {
            let error = OffloadStore::at(dir).keep("T", "txt", b"x").expect_err("no permission");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        set_mode(folder.path(), 0o700);
    }

    /// As on a full disk: the file is there, and then its bytes can't be written.
    #[test]
    fn half_a_file_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = OffloadStore::at(folder.path());
        fs::write(folder.path().join("half"), "ha").expect("a file");
        let read_only = File::open(folder.path().join("half")).expect("a file");
        let handle = store.open().expect("our folder");
        let path = folder.path().join("half");
        let mut keeping = OffloadWriter::new(handle, "half".to_owned(), path, read_only, u64::MAX);
        keeping.write(b"half").expect_err("it was opened for reading");
        drop(keeping);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn cleaning_removes_old_files_of_ours_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        assert_eq!(OffloadStore::at(folder.path().join("none")).clean(day, now).expect("clean"), 0);

        let store = OffloadStore::at(folder.path());
        let age = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).expect("a file");
            file.set_len(100).expect("a longer file");
            file.set_modified(now - age).expect("our own file");
        };
        age("a-00000001.txt", day * 3);
        age("b-00000002.json", day * 2);
        age("c-00000003.txt", day / 2);
        age("d-00000004.txt", day / 4);
        age("notes.txt", day * 9);
        fs::create_dir(folder.path().join("e-00000005.txt")).expect("a folder");
        symlink("notes.txt", folder.path().join("f-00000006.txt")).expect("a link");
        let others = ["e-00000005.txt", "f-00000006.txt", "notes.txt"];

        assert_eq!(store.clean(day, now).expect("clean"), 2);
        assert_eq!(names(folder.path()), [&["c-00000003.txt", "d-00000004.txt"][..], &others].concat());
        assert_eq!(store.clean_to(day, now, 200).expect("clean"), 0);
        assert_eq!(store.clean_to(day, now, 199).expect("clean"), 1);
        assert_eq!(names(folder.path()), [&["d-00000004.txt"][..], &others].concat());
        // A clock that was set back makes nothing old.
        assert_eq!(store.clean(Duration::ZERO, now - day * 30).expect("clean"), 0);
        assert_eq!(store.clean(Duration::ZERO, now).expect("clean"), 1);
        assert_eq!(names(folder.path()), others);
    }
}
