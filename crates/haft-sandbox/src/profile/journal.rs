//! What is needed to undo what commands may do just now, for the case that this program is killed: copies of configurations
//! of git that they may write, names that they may make and must not, and which repositories there are, since any other
//! one was then made by a command.
//!
//! What a command may not change in one is undone when the command ends. Who is killed with `-9` undoes nothing, and a
//! `core.fsmonitor` would stay and run at the user's next `git status`. So before such a command starts, what the
//! configuration was is written to a file of its own, which is locked while the session lives and removed when the command
//! was looked at; only the file for protected names, which every command needs, stays for the session and is empty between
//! commands. Whoever starts the next session finds the files that nobody holds. What can't be undone stays written
//! down, for the next one to try; so does, for some time, what is about folders that nobody finds.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use haft::sync::lock;
use rustix::fs::{FlockOperation, flock};

use super::whereabouts::Whereabouts;
use super::{limits, make_private, nested};

/// Tells the files of one process apart.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    /// The record of protected names, once there is one.
    files: Mutex<Option<Kept>>,
    listing: Mutex<Listing>,
}

/// Records of which some may say what protected names held.
#[derive(Debug, Default)]
struct Listing {
    /// When the folder changed, unless that was just before it was read.
    changed: Option<(i64, i64)>,
    paths: Vec<PathBuf>,
}

/// A copy that is kept as long as this lives.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    left: bool,
    locked: File,
}

impl Kept {
    /// Leaves it to whoever comes after us: it can't be undone yet.
    pub(super) fn leave(&mut self) {
        self.left = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.left {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a killed session has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left<'a> {
    /// A configuration, and what it was.
    Config(&'a Path, &'a [u8]),
    /// Names that weren't there, each with the folder that it is below.
    Names(&'a [(PathBuf, PathBuf)]),
    /// Which repositories there were when it began, and when that was.
    Known(&'a Known, SystemTime),
    /// What protected names held.
    Files(&'a [u8]),
}

/// The repositories of working directories that no command has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The working directories, which commands could write.
    pub(super) workspaces: Vec<PathBuf>,
    /// Each by its `.git`, or for a bare one by its folder.
    pub(super) repositories: Vec<PathBuf>,
    /// There may be others further down than directly in a working directory.
    pub(super) more: bool,
    /// What git keeps of those that are held.
    pub(super) roots: Vec<PathBuf>,
    /// The folders in these, and what no command may make or change in them.
    pub(super) folders: Vec<KnownFolder>,
    /// Files that say what git goes on with, and what they said.
    pub(super) sequences: Vec<(PathBuf, Vec<u8>)>,
}

/// A folder of git.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownFolder {
    pub(super) path: PathBuf,
    /// What it is to git; `.` if it is held whole.
    pub(super) kind: u8,
    pub(super) names: Vec<OsString>,
}

impl Known {
    fn to_bytes(&self) -> Vec<u8> {
        // Nothing else begins so.
        let mut record = vec![0, 0];
        let tagged = |paths: &[PathBuf], tag: u8, record: &mut Vec<u8>| {
            for path in paths {
                record.push(tag);
                record.extend(path.as_os_str().as_bytes());
                record.push(0);
            }
        };
        tagged(&self.workspaces, b'w', &mut record);
        tagged(&self.repositories, b'g', &mut record);
        if self.more {
            record.extend(b"m\0");
        }
        tagged(&self.roots, b'a', &mut record);
        for folder in &self.folders {
            record.extend([b'f', folder.kind]);
            record.extend(folder.path.as_os_str().as_bytes());
            record.push(0);
            for name in &folder.names {
                record.push(b'n');
                record.extend(name.as_bytes());
                record.push(0);
            }
        }
        // What holds a NUL is nothing that git wrote.
        for (path, content) in self.sequences.iter().filter(|(_, content)| !content.contains(&0)) {
            tagged(std::slice::from_ref(path), b's', &mut record);
            record.push(b'c');
            record.extend(content);
            record.push(0);
        }
        record.extend(Known::END);
        record
    }

    /// What follows everything: who was killed before it was written has started no command yet.
    const END: &'static [u8] = b"e\0";

    fn parse(record: &[u8]) -> Option<Known> {
        let mut known = Known::default();
        for line in record.strip_suffix(Known::END)?.split(|byte| *byte == 0) {
            let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
            match line.split_first() {
                Some((b'w', rest)) => known.workspaces.push(path(rest)),
                Some((b'g', rest)) => known.repositories.push(path(rest)),
                // Of older versions: the folder that `.git` lies in.
                Some((b'r', rest)) => known.repositories.push(path(rest).join(".git")),
                Some((b'm', _)) => known.more = true,
                Some((b'a', rest)) => known.roots.push(path(rest)),
                Some((b'f', [kind, rest @ ..])) => {
                    let (path, kind) = (path(rest), *kind);
                    known.folders.push(KnownFolder { path, kind, names: Vec::new() });
                }
                Some((b'n', rest)) => {
                    let name = OsStr::from_bytes(rest).to_owned();
                    known
                        .folders
                        .iter_mut()
                        .last()
                        .into_iter()
                        .for_each(|folder| folder.names.push(name.clone()));
                }
                Some((b's', rest)) => known.sequences.push((path(rest), Vec::new())),
                Some((b'c', rest)) => {
                    let content = rest.to_owned();
                    known
                        .sequences
                        .iter_mut()
                        .last()
                        .into_iter()
                        .for_each(|(_, last)| last.clone_from(&content));
                }
                _ => {}
            }
        }
        Some(known)
    }
}

impl Journal {
    pub(super) fn open(folder: PathBuf) -> io::Result<Journal> {
        make_private(&folder)?;
        Ok(Journal { folder, files: Mutex::default(), listing: Mutex::default() })
    }

    /// Keeps what a configuration is.
    pub(super) fn keep(&self, config: &Path, before: &[u8]) -> io::Result<Kept> {
        let mut record = config.as_os_str().as_bytes().to_owned();
        record.push(0);
        record.extend(before);
        self.write(&record, &Whereabouts::of([config]))
    }

    /// Keeps which names aren't there, each with the folder that it is below.
    pub(super) fn keep_names(&self, names: &[(PathBuf, PathBuf)]) -> io::Result<Kept> {
        let paths = names.iter().flat_map(|(below, name)| [below.as_path(), name.as_path()]);
        self.write(&names_to_bytes(names), &Whereabouts::of(paths))
    }

    /// Keeps which repositories there are.
    pub(super) fn keep_known(&self, known: &Known) -> io::Result<Kept> {
        let repositories = known.repositories.iter().map(|entry| known_work(entry));
        let paths = known.workspaces.iter().map(PathBuf::as_path).chain(repositories);
        self.write(&known.to_bytes(), &Whereabouts::of(paths))
    }

    /// Keeps what protected names hold, until [`Journal::forget_files`].
    pub(super) fn keep_files(&self, record: &[u8]) -> io::Result<()> {
        let record = [&[FILES], record].concat();
        let mut files = lock(&self.files);
        match &*files {
            // It is empty, and has been locked since it was made.
            Some(kept) => {
                let written = kept.locked.write_all_at(&Whereabouts::default().before(&record), 0);
                written.inspect_err(|_| drop(kept.locked.set_len(0)))?;
            }
            None => *files = Some(self.write(&record, &Whereabouts::default())?),
        }
        Ok(())
    }

    /// No command runs any more, so what protected names hold is the user's.
    pub(super) fn forget_files(&self) {
        let mut files = lock(&self.files);
        // One that can't be emptied is removed.
        files.take_if(|kept| kept.locked.set_len(0).is_err());
    }

    /// What other living sessions have kept of protected names, because commands of theirs run.
    pub(super) fn living_files(&self) -> Vec<Vec<u8>> {
        let own = lock(&self.files).as_ref().map(|kept| kept.path.clone());
        let mut listing = lock(&self.listing);
        listing.refresh(&self.folder);
        let mut records = Vec::new();
        listing.paths.retain(|path| {
            if own.as_ref() == Some(path) {
                return true;
            }
            let Some(bytes) = read_living(path) else { return true };
            match Record::parse(Whereabouts::parse(&bytes).1) {
                Some(Record::Files(record)) => records.push(record.to_owned()),
                // It may say more later.
                None => {}
                // It stays a record of that kind.
                Some(Record::Config(..) | Record::Names(_) | Record::Known(_)) => return false,
            }
            true
        });
        records
    }

    fn write(&self, record: &[u8], whereabouts: &Whereabouts) -> io::Result<Kept> {
        let _alone = alone(&self.folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{number}", std::process::id()));
        // A killed process of the same number may have left what can't be undone yet.
        let mut free = path.clone();
        let mut tries = 0u32;
        let mut file = loop {
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&free) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 10_000 => {
                    tries += 1;
                    free = path.with_file_name(format!("{}-{number}-{tries}", std::process::id()));
                }
                opened => break opened?,
            }
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&whereabouts.before(record))?;
        Ok(Kept { path: free, left: false, locked: file })
    }

    /// Hands over what killed sessions have left, with paths as they are now. What was undone is forgotten afterwards.
    /// `here` is where the session works that looks.
    pub(super) fn left(&self, here: &[PathBuf], mut look: impl FnMut(Left<'_>) -> bool) -> io::Result<()> {
        let _alone = alone(&self.folder)?;
        for entry in fs::read_dir(&self.folder)?.flatten().take(limits::STAND_INS_SWEPT_MAX) {
            if entry.file_name() == "lock" {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let bytes = fs::read(entry.path())?;
            let since = file.metadata()?.modified()?;
            let (whereabouts, record) = Whereabouts::parse(&bytes);
            let now = |path: &Path| whereabouts.now(path, here);
            let (undone, waits) = match Record::parse(record) {
                Some(Record::Config(config, before)) => match now(&config) {
                    Some(config) => (look(Left::Config(&config, before)), None),
                    None => (true, Some(record.to_owned())),
                },
                Some(Record::Names(names)) => {
                    let (found, lost) = split(names, |(below, name)| Some((now(below)?, now(name)?)));
                    (look(Left::Names(&found)), (!lost.is_empty()).then(|| names_to_bytes(&lost)))
                }
                Some(Record::Known(known)) => {
                    let (workspaces, lost) = split(known.workspaces, |path| now(path));
                    let (repositories, gone) = split(known.repositories, |path| now(path));
                    let (roots, lost_roots) = split(known.roots, |path| now(path));
                    let (folders, lost_folders) = split(known.folders, |folder| {
                        now(&folder.path).map(|path| KnownFolder { path, ..folder.clone() })
                    });
                    let (sequences, lost_sequences) =
                        split(known.sequences, |(path, said)| Some((now(path)?, said.clone())));
                    let more = known.more;
                    let found = Known { workspaces, repositories, more, roots, folders, sequences };
                    let waits = Known {
                        workspaces: lost,
                        repositories: gone,
                        more,
                        roots: lost_roots,
                        folders: lost_folders,
                        sequences: lost_sequences,
                    };
                    (
                        look(Left::Known(&found, since)),
                        (!waits.workspaces.is_empty()).then(|| waits.to_bytes()),
                    )
                }
                Some(Record::Files(record)) => (look(Left::Files(record)), None),
                None => (true, None),
            };
            let old = || {
                let since = entry.metadata().and_then(|found| found.modified()).ok();
                since.is_none_or(|since| since.elapsed().is_ok_and(|age| age > limits::RECOVERED_AGE_MAX))
            };
            match waits.filter(|_| !old()) {
                _ if !undone => {}
                // What was undone is no matter any more: what the user does there now is theirs.
                Some(waits) if waits != record => {
                    keep_time(&file, &entry.path(), &whereabouts.before(&waits))?
                }
                Some(_) => {}
                None => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}

impl Listing {
    /// Reads the names again, if there may be others.
    fn refresh(&mut self, folder: &Path) {
        let changed = folder.metadata().map(|found| (found.ctime(), found.ctime_nsec())).ok();
        if changed.is_some() && self.changed == changed {
            return;
        }
        self.changed = changed.filter(|changed| !nested::is_fresh(changed.0));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_name() != "lock").take(limits::STAND_INS_SWEPT_MAX);
        self.paths = entries.map(|entry| entry.path()).collect();
    }
}

/// What is in a record, if the session lives that made it.
fn read_living(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockShared).is_err().then(|| fs::read(path).ok())?
}

/// Held while records are read, written or removed.
fn alone(records: &Path) -> io::Result<File> {
    let path = records.join("lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// The folder that a repository is for.
pub(super) fn known_work(entry: &Path) -> &Path {
    entry.parent().filter(|_| entry.ends_with(".git")).unwrap_or(entry)
}

/// Writes a file anew that is as old as before.
fn keep_time(file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let since = file.metadata()?.modified()?;
    fs::write(path, bytes)?;
    OpenOptions::new().write(true).open(path)?.set_modified(since)
}

/// What is found, and what isn't.
fn split<T>(all: Vec<T>, find: impl Fn(&T) -> Option<T>) -> (Vec<T>, Vec<T>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    for one in all {
        match find(&one) {
            Some(now) => found.push(now),
            None => lost.push(one),
        }
    }
    (found, lost)
}

fn names_to_bytes(names: &[(PathBuf, PathBuf)]) -> Vec<u8> {
    // No configuration has an empty name.
    let mut record = vec![0];
    for path in names.iter().flat_map(|(below, name)| [below, name]) {
        record.extend(path.as_os_str().as_bytes());
        record.push(0);
    }
    record
}

/// What is written in a file.
enum Record<'a> {
    Config(PathBuf, &'a [u8]),
    Names(Vec<(PathBuf, PathBuf)>),
    Known(Known),
    Files(&'a [u8]),
}

/// What a record of protected names begins with: no path does.
const FILES: u8 = b'f';

impl Record<'_> {
    fn parse(record: &[u8]) -> Option<Record<'_>> {
        if let Some((&FILES, record)) = record.split_first() {
            return Some(Record::Files(record));
        }
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        match record.iter().position(|byte| *byte == 0)? {
            0 if record.get(1) == Some(&0) => Known::parse(&record[2..]).map(Record::Known),
            0 => {
                let paths: Vec<PathBuf> = record[1..].split(|byte| *byte == 0).map(path).collect();
                let pairs = paths.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                Some(Record::Names(pairs.collect()))
            }
            end => Some(Record::Config(path(&record[..end]), &record[end + 1..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_on_record_only_while_commands_run() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(dir.path().join("configs")).unwrap();
        let (one, other) = (open(), open());
        let known = one.keep_known(&Known::default()).unwrap();
        for record in [b"first and long".as_slice(), b"second"] {
            assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
            one.keep_files(record).unwrap();
            assert_eq!(other.living_files(), [record]);
            assert_eq!(one.living_files(), [] as [Vec<u8>; 0], "its own");
            one.forget_files();
        }
        assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
        // Whoever comes after one that was killed between commands finds nothing to undo.
        let left = lock(&one.files).as_ref().map(|kept| fs::read(&kept.path).unwrap()).unwrap();
        drop((one, known));
        fs::write(dir.path().join("configs/1-0"), left).unwrap();
        other.left(&[], |_| panic!("nothing is left")).unwrap();
        let names = fs::read_dir(dir.path().join("configs")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["lock"]);
    }

    /// Files that change nothing in the folder are read all the same.
    #[test]
    fn records_of_others_are_read_again_where_the_folder_has_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(dir.path().join("configs")).unwrap();
        let (one, other) = (open(), open());
        one.keep_files(b"a").unwrap();
        one.forget_files();
        assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
        let folder = dir.path().join("configs").metadata().unwrap();
        // As it is once that was some time ago.
        lock(&other.listing).changed = Some((folder.ctime(), folder.ctime_nsec()));
        one.keep_files(b"b").unwrap();
        assert_eq!(other.living_files(), [b"b"]);
    }

    #[test]
    fn only_what_nobody_holds_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path().join("configs")).unwrap();
        let kept = journal.keep(Path::new("/a/config"), b"[core]\0x").unwrap();
        fs::write(dir.path().join("configs/1-0"), b"/b/config\0before").unwrap();
        let seen = || {
            let mut seen = Vec::new();
            let look = |left: Left<'_>| {
                match left {
                    Left::Config(path, before) => seen.push((path.to_owned(), before.to_owned())),
                    Left::Names(names) => {
                        seen.extend(names.iter().map(|(below, name)| (below.join(name), b"name".to_vec())));
                    }
                    Left::Known(known, _) => {
                        seen.extend(known.repositories.iter().map(|path| (path.clone(), b"known".to_vec())));
                    }
                    Left::Files(record) => seen.push(("files".into(), record.to_owned())),
                }
                true
            };
            journal.left(&[], look).unwrap();
            seen
        };
        assert_eq!(seen(), [(PathBuf::from("/b/config"), b"before".to_vec())]);
        assert_eq!(seen(), []);
        let copy = fs::read(&kept.path).unwrap();
        drop(kept);
        assert_eq!(seen(), [], "it ended well");
        fs::write(dir.path().join("configs/2-0"), copy).unwrap();
        assert_eq!(seen(), [(PathBuf::from("/a/config"), b"[core]\0x".to_vec())]);
        let kept = journal.keep_names(&[("/w".into(), "/w/a".into()), ("/w".into(), "/w/b".into())]).unwrap();
        fs::copy(&kept.path, dir.path().join("configs/3-0")).unwrap();
        let name = |name: &str| (PathBuf::from(name), b"name".to_vec());
        assert_eq!(seen(), [name("/w/a"), name("/w/b")]);
        let none = journal.keep_names(&[]).unwrap();
        fs::copy(&none.path, dir.path().join("configs/4-0")).unwrap();
        assert_eq!(seen(), []);
    }

    #[test]
    fn what_could_not_be_undone_is_handed_over_again() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path().join("configs")).unwrap();
        let folder = KnownFolder {
            path: "/w/a/.git".into(),
            kind: b'g',
            names: vec!["config".into(), "hooks".into()],
        };
        let known = Known {
            workspaces: vec!["/w".into()],
            repositories: vec!["/w/a".into()],
            more: true,
            roots: vec!["/w/a/.git".into()],
            folders: vec![
                folder,
                KnownFolder { path: "/w/a/.git/modules".into(), kind: b'.', names: vec![] },
            ],
            sequences: vec![("/w/a/.git/rebase-merge/todo".into(), b"exec x\n".to_vec())],
        };
        let mut kept = journal.keep_known(&known).unwrap();
        kept.leave();
        drop(kept);
        let looked = |undone: bool| {
            let mut seen = Vec::new();
            let look = |left: Left<'_>| {
                if let Left::Known(known, _) = left {
                    seen.push(known.clone());
                }
                undone
            };
            journal.left(&[], look).unwrap();
            seen
        };
        assert_eq!(looked(false), std::slice::from_ref(&known));
        assert_eq!(looked(true), [known]);
        assert_eq!(looked(true), []);
    }

    /// What is renamed after the session was killed is what was meant, and what nobody finds waits.
    #[test]
    fn a_folder_that_was_renamed_is_handed_over_by_its_new_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let journal = Journal::open(root.join("configs")).unwrap();
        fs::create_dir_all(root.join("a/.git")).unwrap();
        fs::create_dir_all(root.join("a/sub/.git")).unwrap();
        fs::create_dir_all(root.join("far/away")).unwrap();
        let a = root.join("a");
        let known = Known {
            workspaces: vec![a.clone()],
            repositories: vec![a.clone(), a.join("sub")],
            more: false,
            ..Known::default()
        };
        let names = [(a.clone(), a.join(".git/hooks"))];
        for mut kept in [
            journal.keep(&a.join(".git/config"), b"before").unwrap(),
            journal.keep_names(&names).unwrap(),
            journal.keep_known(&known).unwrap(),
        ] {
            kept.leave();
        }
        let look = |here: &[PathBuf]| {
            let mut seen = Vec::new();
            let look = |left: Left<'_>| {
                match left {
                    Left::Config(path, _) => seen.push(path.to_owned()),
                    Left::Names(names) => seen.extend(names.iter().map(|(_, name)| name.clone())),
                    Left::Known(known, _) => {
                        assert_eq!(known.workspaces.is_empty(), known.repositories.is_empty());
                        seen.extend(known.repositories.iter().cloned());
                    }
                    Left::Files(_) => {}
                }
                true
            };
            journal.left(here, look).unwrap();
            seen.sort();
            seen
        };
        fs::rename(&a, root.join("far/away/b")).unwrap();
        assert_eq!(look(&[]), [] as [PathBuf; 0], "nobody knows where it is");
        fs::rename(root.join("far/away/b/sub"), root.join("far/away/b/other")).unwrap();
        let b = root.join("far/away/b");
        let all = [b.clone(), b.join(".git/config"), b.join(".git/hooks"), b.join("other")];
        assert_eq!(look(std::slice::from_ref(&b)), all);
        assert_eq!(look(std::slice::from_ref(&b)), [] as [PathBuf; 0], "once");
    }
}
