//! What is needed to undo what commands may do just now, for the case that this program is killed: copies of
//! configurations of git that they may write, names that they may make and must not, and which repositories
//! there are, since any other one was then made by a command.
//!
//! What a command may not change in one is undone when the command ends. Who is killed with `-9` undoes
//! nothing, and a `core.fsmonitor` would stay and run at the user's next `git status`. So before such a
//! command starts, what the configuration was is written to a file of its own, which is locked while the
//! session lives and removed when the command was looked at; only the file for protected names, which every
//! command needs, stays for the session and is empty between commands. Whoever starts the next session finds
//! the files that nobody holds. What can't be undone stays written down, for the next one to try; so does,
//! for some time, what is about folders that nobody finds.

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

use super::renamed_dirs::FolderIdentities;
use super::{limits, make_private, nested_repos};

/// Tells the files of one process apart.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct UndoJournal {
    folder: PathBuf,
    /// The record of protected names, once there is one.
    files: Mutex<Option<RecordFile>>,
    listing: Mutex<RecordListing>,
}

/// Records of which some may say what protected names held.
#[derive(Debug, Default)]
struct RecordListing {
    /// When the folder changed, unless that was just before it was read.
    changed: Option<(i64, i64)>,
    paths: Vec<PathBuf>,
}

/// A record that is kept as long as this lives.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    left: bool,
    locked: File,
}

impl RecordFile {
    /// Leaves it to whoever comes after us: it can't be undone yet.
    pub(super) fn leave(&mut self) {
        self.left = true;
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        if !self.left {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What there was before commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UndoRecord {
    /// The working directories, which commands could write; none in a record that doesn't say which
    /// repositories there were.
    pub(super) workspaces: Vec<PathBuf>,
    /// The repositories in them that no command has made, each by its `.git`, or for a bare one by its
    /// folder.
    pub(super) repositories: Vec<PathBuf>,
    /// There may be others further down than directly in a working directory.
    pub(super) more: bool,
    /// What git keeps of those that are held.
    pub(super) roots: Vec<PathBuf>,
    /// The folders in these, and what no command may make or change in them.
    pub(super) folders: Vec<KnownFolder>,
    /// Files that say what git goes on with, and what they said.
    pub(super) sequences: Vec<(PathBuf, Vec<u8>)>,
    /// Configurations, and what they were.
    pub(super) configs: Vec<(PathBuf, Vec<u8>)>,
    /// Names that weren't there and must not come to be, each with the folder that it is below.
    pub(super) names: Vec<(PathBuf, PathBuf)>,
    /// What protected names held, as these write it.
    pub(super) files: Vec<u8>,
}

/// A folder of git.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownFolder {
    pub(super) path: PathBuf,
    /// What it is to git; `.` if it is held whole.
    pub(super) kind: u8,
    pub(super) names: Vec<OsString>,
}

/// What ends a record: who was killed before it was written has started no command yet.
const END: &str = "end";

impl UndoRecord {
    pub(super) fn of_config(config: &Path, before: &[u8]) -> UndoRecord {
        UndoRecord { configs: vec![(config.to_owned(), before.to_owned())], ..UndoRecord::default() }
    }

    /// What is looked for should it have another name by then.
    fn folder_identities(&self) -> FolderIdentities {
        let names = self.names.iter().flat_map(|(below, name)| [below, name]);
        let configs = self.configs.iter().map(|(path, _)| path);
        let repositories = self.repositories.iter().map(|entry| known_work(entry));
        let all = self.workspaces.iter().chain(names).chain(configs).map(PathBuf::as_path);
        FolderIdentities::for_paths(all.chain(repositories))
    }

    fn to_bytes(&self, whereabouts: &FolderIdentities) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut row = |kind: &str, path: &Path, more: &[u8]| {
            [kind.as_bytes(), path.as_os_str().as_bytes(), more]
                .iter()
                .for_each(|field| push_field(&mut bytes, field));
        };
        let none = Path::new("");
        whereabouts.all().for_each(|(path, id)| row("id", path, id.as_bytes()));
        self.workspaces.iter().for_each(|path| row("workspace", path, b""));
        self.repositories.iter().for_each(|path| row("repository", path, b""));
        self.roots.iter().for_each(|path| row("root", path, b""));
        for folder in &self.folders {
            row("folder", &folder.path, &[folder.kind]);
            folder.names.iter().for_each(|name| row("inside", none, name.as_bytes()));
        }
        self.sequences.iter().for_each(|(path, content)| row("sequence", path, content));
        self.configs.iter().for_each(|(path, content)| row("config", path, content));
        self.names.iter().for_each(|(below, name)| row("name", below, name.as_os_str().as_bytes()));
        if self.more {
            row("more", none, b"");
        }
        if !self.files.is_empty() {
            row("files", none, &self.files);
        }
        row(END, none, b"");
        bytes
    }

    /// The two again, if all of it was written.
    fn parse(bytes: &[u8]) -> Option<(FolderIdentities, UndoRecord)> {
        let (mut whereabouts, mut record) = (FolderIdentities::default(), UndoRecord::default());
        let mut fields = RecordFields(bytes);
        loop {
            let (kind, path, more) = (fields.next()?, to_path(fields.next()?), fields.next()?);
            match str::from_utf8(kind).ok()? {
                "id" => whereabouts.add(path, more),
                "workspace" => record.workspaces.push(path),
                "repository" => record.repositories.push(path),
                "root" => record.roots.push(path),
                "folder" => {
                    let kind = *more.first()?;
                    record.folders.push(KnownFolder { path, kind, names: Vec::new() });
                }
                "inside" => record.folders.last_mut()?.names.push(OsStr::from_bytes(more).to_owned()),
                "sequence" => record.sequences.push((path, more.to_owned())),
                "config" => record.configs.push((path, more.to_owned())),
                "name" => record.names.push((path, to_path(more))),
                "more" => record.more = true,
                "files" => record.files = more.to_owned(),
                END => return Some((whereabouts, record)),
                _ => return None,
            }
        }
    }

    /// What is found, by the names that it has now, and what isn't.
    fn split(self, now: impl Fn(&Path) -> Option<PathBuf>) -> (UndoRecord, UndoRecord) {
        let at = |path: &PathBuf| now(path);
        let with_content = |(path, content): &(PathBuf, Vec<u8>)| Some((now(path)?, content.clone()));
        let (mut found, mut lost) = (UndoRecord::default(), UndoRecord::default());
        (found.workspaces, lost.workspaces) = split_by(self.workspaces, at);
        (found.repositories, lost.repositories) = split_by(self.repositories, at);
        (found.roots, lost.roots) = split_by(self.roots, at);
        (found.folders, lost.folders) = split_by(self.folders, |folder| {
            now(&folder.path).map(|path| KnownFolder { path, ..folder.clone() })
        });
        (found.sequences, lost.sequences) = split_by(self.sequences, with_content);
        (found.configs, lost.configs) = split_by(self.configs, with_content);
        (found.names, lost.names) = split_by(self.names, |(below, name)| Some((now(below)?, now(name)?)));
        (found.more, lost.more) = (self.more, self.more);
        found.files = self.files;
        (found, lost)
    }

    /// Whether what wasn't found is worth waiting for.
    fn waits(&self) -> bool {
        !(self.workspaces.is_empty() && self.configs.is_empty() && self.names.is_empty())
    }
}

/// Adds a field to a record, with its length before it.
pub(super) fn push_field(record: &mut Vec<u8>, field: &[u8]) {
    record.extend(field.len().to_string().into_bytes());
    record.push(b' ');
    record.extend(field);
}

/// Fields of a record.
pub(super) struct RecordFields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for RecordFields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = self.0.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&self.0[..blank]).ok()?.parse().ok()?;
        let (field, rest) = self.0[blank + 1..].split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

pub(super) fn to_path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

impl UndoJournal {
    pub(super) fn open(folder: PathBuf) -> io::Result<UndoJournal> {
        make_private(&folder)?;
        Ok(UndoJournal { folder, files: Mutex::default(), listing: Mutex::default() })
    }

    /// Keeps what protected names hold, until [`UndoJournal::forget_files`].
    pub(super) fn keep_files(&self, files: Vec<u8>) -> io::Result<()> {
        let record = UndoRecord { files, ..UndoRecord::default() };
        let mut files = lock(&self.files);
        match &*files {
            // It is empty, and has been locked since it was made.
            Some(kept) => {
                let written = kept.locked.write_all_at(&record.to_bytes(&FolderIdentities::default()), 0);
                written.inspect_err(|_| drop(kept.locked.set_len(0)))?;
            }
            None => *files = Some(self.keep(&record)?),
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
            // One that is empty may say more later; any other one stays of its kind.
            let Some((_, record)) = read_living(path).and_then(|bytes| UndoRecord::parse(&bytes)) else {
                return true;
            };
            let is_of_files = !record.files.is_empty();
            records.extend(is_of_files.then_some(record.files));
            is_of_files
        });
        records
    }

    /// Writes a record down.
    pub(super) fn keep(&self, record: &UndoRecord) -> io::Result<RecordFile> {
        let bytes = record.to_bytes(&record.folder_identities());
        let _alone = lock_records(&self.folder)?;
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
        file.write_all(&bytes)?;
        Ok(RecordFile { path: free, left: false, locked: file })
    }

    /// Hands over what killed sessions have left, with paths as they are now, and when it was written. What
    /// was undone is forgotten afterwards. `here` is where the session works that looks.
    pub(super) fn left(
        &self,
        here: &[PathBuf],
        mut look: impl FnMut(&UndoRecord, SystemTime) -> bool,
    ) -> io::Result<()> {
        let _alone = lock_records(&self.folder)?;
        for entry in fs::read_dir(&self.folder)?.flatten().take(limits::STAND_INS_SWEPT_MAX) {
            if entry.file_name() == "lock" {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let since = file.metadata()?.modified()?;
            let is_old = || since.elapsed().is_ok_and(|age| age > limits::RECOVERED_AGE_MAX);
            let Some((whereabouts, record)) = UndoRecord::parse(&fs::read(entry.path())?) else {
                fs::remove_file(entry.path())?;
                continue;
            };
            let (found, lost) = record.clone().split(|path| whereabouts.now(path, here));
            match look(&found, since) {
                false => {}
                true if !lost.waits() || is_old() => fs::remove_file(entry.path())?,
                // What was undone is no matter any more: what the user does there now is theirs.
                true if lost != record => {
                    fs::write(entry.path(), lost.to_bytes(&whereabouts))?;
                    OpenOptions::new().write(true).open(entry.path())?.set_modified(since)?;
                }
                true => {}
            }
        }
        Ok(())
    }
}

impl RecordListing {
    /// Reads the names again, if there may be others.
    fn refresh(&mut self, folder: &Path) {
        let changed = folder.metadata().map(|found| (found.ctime(), found.ctime_nsec())).ok();
        if changed.is_some() && self.changed == changed {
            return;
        }
        self.changed = changed.filter(|changed| !nested_repos::is_fresh(changed.0));
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
fn lock_records(records: &Path) -> io::Result<File> {
    let path = records.join("lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// The folder that a repository is for.
pub(super) fn known_work(entry: &Path) -> &Path {
    entry.parent().filter(|_| entry.ends_with(".git")).unwrap_or(entry)
}

/// What is found, and what isn't.
fn split_by<T>(all: Vec<T>, find: impl Fn(&T) -> Option<T>) -> (Vec<T>, Vec<T>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    for one in all {
        match find(&one) {
            Some(now) => found.push(now),
            None => lost.push(one),
        }
    }
    (found, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_on_record_only_while_commands_run() {
        let dir = tempfile::tempdir().unwrap();
        let open = || UndoJournal::open(dir.path().join("configs")).unwrap();
        let (one, other) = (open(), open());
        let known = one.keep(&UndoRecord::default()).unwrap();
        for record in [b"first and long".as_slice(), b"second"] {
            assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
            one.keep_files(record.to_owned()).unwrap();
            assert_eq!(other.living_files(), [record]);
            assert_eq!(one.living_files(), [] as [Vec<u8>; 0], "its own");
            one.forget_files();
        }
        assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
        // Whoever comes after one that was killed between commands finds nothing to undo.
        let left = lock(&one.files).as_ref().map(|kept| fs::read(&kept.path).unwrap()).unwrap();
        drop((one, known));
        fs::write(dir.path().join("configs/1-0"), left).unwrap();
        other.left(&[], |_, _| panic!("nothing is left")).unwrap();
        let names = fs::read_dir(dir.path().join("configs")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["lock"]);
    }

    /// Files that change nothing in the folder are read all the same.
    #[test]
    fn records_of_others_are_read_again_where_the_folder_has_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || UndoJournal::open(dir.path().join("configs")).unwrap();
        let (one, other) = (open(), open());
        one.keep_files(b"a".to_vec()).unwrap();
        one.forget_files();
        assert_eq!(other.living_files(), [] as [Vec<u8>; 0]);
        let folder = dir.path().join("configs").metadata().unwrap();
        // As it is once that was some time ago.
        lock(&other.listing).changed = Some((folder.ctime(), folder.ctime_nsec()));
        one.keep_files(b"b".to_vec()).unwrap();
        assert_eq!(other.living_files(), [b"b"]);
    }

    /// What `left` hands over, each time with this answer.
    fn left(journal: &UndoJournal, here: &[PathBuf], undone: bool) -> Vec<UndoRecord> {
        let mut seen = Vec::new();
        let look = |record: &UndoRecord, _: SystemTime| {
            seen.push(record.clone());
            undone
        };
        journal.left(here, look).unwrap();
        seen
    }

    /// A record with something of everything.
    fn full(root: &Path) -> UndoRecord {
        let git = root.join(".git");
        let folder = |name: &str, kind, names: &[&str]| KnownFolder {
            path: git.join(name),
            kind,
            names: names.iter().map(OsString::from).collect(),
        };
        UndoRecord {
            workspaces: vec![root.to_owned()],
            repositories: vec![git.clone(), root.join("sub")],
            more: true,
            roots: vec![git.clone()],
            folders: vec![folder("", b'g', &["config", "hooks"]), folder("modules", b'.', &[])],
            sequences: vec![(git.join("rebase-merge/todo"), b"exec x\n".to_vec())],
            configs: vec![(git.join("config"), b"[core]\0x".to_vec())],
            names: vec![(root.to_owned(), git.join("hooks"))],
            files: b"files".to_vec(),
        }
    }

    #[test]
    fn only_what_nobody_holds_is_left_and_only_whole() {
        let dir = tempfile::tempdir().unwrap();
        let journal = UndoJournal::open(dir.path().join("configs")).unwrap();
        let record = full(Path::new("/w"));
        let kept = journal.keep(&record).unwrap();
        let none: [UndoRecord; 0] = [];
        assert_eq!(left(&journal, &[], true), none, "it lives");
        let copy = fs::read(&kept.path).unwrap();
        drop(kept);
        assert_eq!(left(&journal, &[], true), none, "it ended well");
        let other = dir.path().join("configs/2-0");
        fs::write(&other, &copy[..copy.len() - 1]).unwrap();
        assert_eq!(left(&journal, &[], true), none);
        fs::write(&other, copy).unwrap();
        assert_eq!(left(&journal, &[], false), std::slice::from_ref(&record), "it couldn't be undone");
        assert_eq!(left(&journal, &[], true), [record]);
        assert_eq!(left(&journal, &[], true), none);
    }

    /// What is renamed after the session was killed is what was meant, and what nobody finds waits.
    #[test]
    fn a_folder_that_was_renamed_is_handed_over_by_its_new_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let journal = UndoJournal::open(root.join("configs")).unwrap();
        for folder in ["a/.git", "a/sub/.git", "far/away"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        journal.keep(&UndoRecord { files: Vec::new(), ..full(&root.join("a")) }).unwrap().leave();
        let b = root.join("far/away/b");
        fs::rename(root.join("a"), &b).unwrap();
        let lost = UndoRecord { more: true, ..UndoRecord::default() };
        assert_eq!(left(&journal, &[], true), [lost], "nobody knows where it is");
        fs::rename(b.join("sub"), b.join("other")).unwrap();
        let mut expected = UndoRecord { files: Vec::new(), ..full(&b) };
        expected.repositories[1] = b.join("other");
        assert_eq!(left(&journal, std::slice::from_ref(&b), true), [expected]);
        assert_eq!(left(&journal, std::slice::from_ref(&b), true), [] as [UndoRecord; 0], "once");
    }
}
