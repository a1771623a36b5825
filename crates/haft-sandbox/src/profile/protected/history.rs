//! Which contents a repository had under a name when the session began.
//!
//! The tips of the history are saved before the first command: branches, tags, stashes and what the logs of
//! references name. Later, commands may write objects, and a forged file below `objects` fools git, which
//! trusts the name of a file. So git only finds and unpacks objects, in a repository of our own that borrows
//! the user's objects and has none of their configuration, and every object is hashed here before it is
//! believed. What is reached from the tips by hashes is what was there when the session began, whoever stored
//! it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::snapshot::is_or_leads_to_name;
use crate::profile::{limits, make_private, open_plain};

/// The hash of an object, as bytes: 20 or 32.
type ObjectId = Vec<u8>;

/// The history of one repository, as it was when the session began.
#[derive(Debug)]
pub(super) struct RepositoryHistory {
    /// The top of the work tree.
    pub(super) work: PathBuf,
    pub(super) objects: PathBuf,
    tips: BTreeSet<ObjectId>,
}

/// Content under a name, relative to the top of a work tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobQuery<'a> {
    pub(super) path: &'a Path,
    pub(super) blob: &'a [u8],
}

impl RepositoryHistory {
    /// `common` is the folder in which git keeps references and objects.
    pub(super) fn load(work: &Path, common: &Path) -> RepositoryHistory {
        let mut tips = BTreeSet::new();
        let mut lines = |path: &Path, fields: usize| {
            let Some(file) = open_plain(path) else { return };
            let text = BufReader::new(file.take(limits::REFERENCE_BYTES_MAX));
            for line in text.split(b'\n').map_while(Result::ok) {
                let words = line.split(|byte| *byte == b' ' || *byte == b'^').take(fields);
                tips.extend(words.filter_map(parse_id));
            }
        };
        lines(&common.join("packed-refs"), 2);
        lines(&common.join("HEAD"), 1);
        let mut left = vec![common.join("refs"), common.join("logs"), common.join("worktrees")];
        let mut room = limits::REFERENCES_MAX;
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Some(next) = room.checked_sub(1) else { break };
                room = next;
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                // A line of a log has the reference before and after.
                if is_folder { left.push(entry.path()) } else { lines(&entry.path(), 2) }
            }
        }
        RepositoryHistory { work: work.to_owned(), objects: common.join("objects"), tips }
    }

    /// One with these tips, as [`tips_text`](Self::tips_text) wrote them down.
    pub(super) fn with_tips(work: PathBuf, objects: PathBuf, tips: &str) -> RepositoryHistory {
        let tips = tips.lines().filter_map(|line| parse_id(line.as_bytes())).collect();
        RepositoryHistory { work, objects, tips }
    }

    /// The tips, a line each. Some of them where there are too many: then less is known of the history, and
    /// more is undone.
    pub(super) fn tips_text(&self) -> String {
        let tips = self.tips.iter().take(limits::RECORDED_TIPS_MAX);
        tips.map(|id| to_hex(id) + "\n").collect()
    }

    fn hash_length(&self) -> usize {
        self.tips.first().map_or(20, Vec::len)
    }

    /// Which of these the history has; an error where git can't be asked.
    pub(super) fn find(&self, wanted: &[BlobQuery<'_>], room: &ReaderRoom) -> io::Result<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        let length = self.hash_length();
        let ids: Vec<ObjectId> = wanted.iter().map(|wanted| object_id("blob", wanted.blob, length)).collect();
        self.for_each_tree(room, |reader, tree| {
            for (at, wanted) in wanted.iter().enumerate() {
                if !found.contains(&at) && reader.holds(tree, wanted.path, &ids[at])? {
                    found.insert(at);
                }
            }
            Ok(found.len() < wanted.len())
        })?;
        Ok(found)
    }

    /// What the history has under protected names at the top of the work tree.
    pub(super) fn collect(&self, room: &ReaderRoom) -> io::Result<CollectedBlobs> {
        let mut collected = CollectedBlobs { blobs: HashSet::new(), hash_length: self.hash_length() };
        let mut seen = HashSet::new();
        self.for_each_tree(room, |reader, tree| {
            let mut left = vec![(PathBuf::new(), tree.to_owned())];
            while let Some((folder, tree)) = left.pop() {
                let Some(object) = reader.read(&tree)?.filter(|object| object.kind == "tree") else {
                    continue;
                };
                let entries = TreeEntries { rest: &object.bytes, hash_length: tree.len() };
                for entry in entries {
                    let path = folder.join(entry.name);
                    if !is_or_leads_to_name(&path) || !seen.insert((path.clone(), entry.id.to_owned())) {
                        continue;
                    }
                    if entry.is_folder {
                        left.push((path, entry.id.to_owned()));
                    } else {
                        collected.blobs.insert((path, entry.id.to_owned()));
                    }
                }
            }
            Ok(true)
        })?;
        Ok(collected)
    }

    /// Visits the top folder of every commit, those of the tips first, until the visitor has enough.
    fn for_each_tree(
        &self,
        room: &ReaderRoom,
        mut visit: impl FnMut(&mut ObjectReader, &[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        if self.tips.is_empty() {
            return Ok(());
        }
        let mut reader = ObjectReader::start(self, room)?;
        let mut left: VecDeque<ObjectId> = self.tips.iter().cloned().collect();
        let mut seen: HashSet<ObjectId> = left.iter().cloned().collect();
        let mut trees = HashSet::new();
        while let Some(id) = left.pop_front() {
            let Some(GitObject { kind, bytes }) = reader.read(&id)? else { continue };
            let linked = match kind.as_str() {
                "commit" => header_ids(&bytes, "parent "),
                "tag" => header_ids(&bytes, "object "),
                _ => continue,
            };
            left.extend(linked.into_iter().filter(|id| seen.insert(id.clone())));
            for tree in header_ids(&bytes, "tree ") {
                if trees.insert(tree.clone()) && !visit(&mut reader, &tree)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Which of these the repository keeps now.
    pub(super) fn find_stored(
        &self,
        wanted: &[BlobQuery<'_>],
        room: &ReaderRoom,
    ) -> io::Result<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        let mut reader = ObjectReader::start(self, room)?;
        for (at, wanted) in wanted.iter().enumerate() {
            let id = object_id("blob", wanted.blob, self.hash_length());
            found.extend(reader.read(&id)?.map(|_| at));
        }
        Ok(found)
    }
}

/// Blobs of a history with their paths, relative to the top of the work tree.
#[derive(Debug)]
pub(super) struct CollectedBlobs {
    blobs: HashSet<(PathBuf, ObjectId)>,
    hash_length: usize,
}

impl CollectedBlobs {
    pub(super) fn contains(&self, wanted: BlobQuery<'_>) -> bool {
        self.blobs.contains(&(wanted.path.to_owned(), object_id("blob", wanted.blob, self.hash_length)))
    }
}

/// Tells the files apart that are being written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// What is needed to start git: the program, and a folder for a repository without configuration.
#[derive(Debug)]
pub(super) struct ReaderRoom {
    git: Option<PathBuf>,
    folder: PathBuf,
}

impl ReaderRoom {
    /// The first `git` on this `PATH` that no command can have put there.
    pub(super) fn new(path: Option<&OsStr>, folder: PathBuf, writable: &[PathBuf]) -> ReaderRoom {
        let is_safe =
            |folder: &PathBuf| folder.is_absolute() && !writable.iter().any(|root| folder.starts_with(root));
        let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
        let real = |folder: PathBuf| folder.join("git").canonicalize().ok().filter(|git| git.is_file());
        let git = folders.into_iter().filter(is_safe).filter_map(real).find(is_safe);
        ReaderRoom { git, folder }
    }

    /// A repository with nothing in it.
    fn repository(&self, hash_length: usize) -> io::Result<PathBuf> {
        let (name, config) = match hash_length {
            20 => ("sha1", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
            _ => (
                "sha256",
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n",
            ),
        };
        let folder = make_private(&self.folder)?.join(name);
        for inside in ["objects", "refs"] {
            fs::create_dir_all(folder.join(inside))?;
        }
        for (name, content) in [("config", config), ("HEAD", "ref: refs/heads/none\n")] {
            // Another reader may start just now, and must not find half of a file.
            let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
            let beside = folder.join(format!("{name}-{}-{number}", std::process::id()));
            fs::write(&beside, content)?;
            fs::rename(beside, folder.join(name))?;
        }
        Ok(folder)
    }
}

struct GitObject {
    kind: String,
    bytes: Vec<u8>,
}

/// Asks one `git cat-file --batch` for objects and believes none without its hash.
struct ObjectReader {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    objects_left: usize,
}

impl ObjectReader {
    fn start(history: &RepositoryHistory, room: &ReaderRoom) -> io::Result<ObjectReader> {
        let git = room.git.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(git)
            .args(["--no-replace-objects", "cat-file", "--batch"])
            .env_clear()
            .env("GIT_DIR", room.repository(history.hash_length())?)
            .env("GIT_OBJECT_DIRECTORY", &history.objects)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_NO_LAZY_FETCH", "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or(io::ErrorKind::BrokenPipe)?;
        let output = BufReader::with_capacity(1 << 16, output);
        Ok(ObjectReader { child, input, output, objects_left: limits::OBJECTS_READ_MAX })
    }

    /// None for an object that isn't there, is too large, or isn't what its name says.
    fn read(&mut self, id: &[u8]) -> io::Result<Option<GitObject>> {
        self.objects_left = self.objects_left.checked_sub(1).ok_or(io::ErrorKind::QuotaExceeded)?;
        self.input.write_all(format!("{}\n", to_hex(id)).as_bytes())?;
        let mut header = String::new();
        self.output.by_ref().take(256).read_line(&mut header)?;
        let mut words = header.split_whitespace().skip(1);
        let (Some(kind), Some(size)) = (words.next(), words.next().and_then(|size| size.parse::<u64>().ok()))
        else {
            return if header.ends_with('\n') { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        };
        if size > limits::OBJECT_BYTES_MAX {
            io::copy(&mut self.output.by_ref().take(size + 1), &mut io::sink())?;
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.output.by_ref().take(size + 1).read_to_end(&mut bytes)?;
        if bytes.pop() != Some(b'\n') || bytes.len() as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_real = object_id(kind, &bytes, id.len()) == id;
        Ok(is_real.then(|| GitObject { kind: kind.to_owned(), bytes }))
    }

    /// Whether a tree has this blob at this path.
    fn holds(&mut self, tree: &[u8], path: &Path, blob: &[u8]) -> io::Result<bool> {
        let mut at = tree.to_owned();
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            let object = self.read(&at)?.filter(|object| object.kind == "tree");
            let mut entries =
                object.iter().flat_map(|object| TreeEntries { rest: &object.bytes, hash_length: at.len() });
            let Some(next) = entries.find(|entry| entry.name == name).map(|entry| entry.id.to_owned()) else {
                return Ok(false);
            };
            if names.peek().is_none() {
                return Ok(next == blob);
            }
            at = next;
        }
        Ok(false)
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a tree holds.
struct TreeEntries<'t> {
    rest: &'t [u8],
    hash_length: usize,
}

struct TreeEntry<'t> {
    name: &'t OsStr,
    id: &'t [u8],
    is_folder: bool,
}

impl<'t> Iterator for TreeEntries<'t> {
    type Item = TreeEntry<'t>;

    fn next(&mut self) -> Option<TreeEntry<'t>> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let (entry, after) = (&self.rest[..end], &self.rest[end + 1..]);
        let (id, rest) = after.split_at_checked(self.hash_length)?;
        let blank = entry.iter().position(|byte| *byte == b' ')?;
        self.rest = rest;
        let name = OsStr::from_bytes(&entry[blank + 1..]);
        Some(TreeEntry { name, id, is_folder: &entry[..blank] == b"40000" })
    }
}

/// The ids in lines of a header that begin so.
fn header_ids(object: &[u8], key: &str) -> Vec<ObjectId> {
    let header = object.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    header.filter_map(|line| parse_id(line.strip_prefix(key.as_bytes())?)).collect()
}

fn object_id(kind: &str, bytes: &[u8], length: usize) -> ObjectId {
    let header = format!("{kind} {}\0", bytes.len());
    match length {
        20 => Sha1::new_with_prefix(header).chain_update(bytes).finalize().to_vec(),
        _ => Sha256::new_with_prefix(header).chain_update(bytes).finalize().to_vec(),
    }
}

fn to_hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_id(word: &[u8]) -> Option<ObjectId> {
    let is_id = matches!(word.len(), 40 | 64) && word.iter().any(|byte| *byte != b'0');
    let digits = word.iter().map(|byte| char::from(*byte).to_digit(16)).collect::<Option<Vec<u32>>>();
    let pair = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).ok();
    digits.filter(|_| is_id)?.chunks_exact(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Repository {
        dir: tempfile::TempDir,
    }

    impl Repository {
        fn new(format: &str) -> Repository {
            let repository = Repository { dir: tempfile::tempdir().unwrap() };
            repository.git(&["init", "-q", "-b", "main", "--object-format", format]);
            repository
        }

        fn root(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap()
        }

        fn git(&self, arguments: &[&str]) -> String {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).arg("-C").arg(self.dir.path());
            let done = git.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap().trim().to_owned()
        }

        fn commit(&self, file: &str, content: &str) {
            let path = self.root().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            self.git(&["add", "-A"]);
            self.git(&["commit", "-qm", "x"]);
        }

        fn history(&self) -> RepositoryHistory {
            RepositoryHistory::load(&self.root(), &self.root().join(".git"))
        }

        fn room(&self) -> ReaderRoom {
            let path = std::env::var_os("PATH");
            ReaderRoom::new(path.as_deref(), self.root().join(".git/x-room"), &[])
        }

        fn has(&self, history: &RepositoryHistory, path: &str, blob: &str) -> bool {
            let wanted = [BlobQuery { path: Path::new(path), blob: blob.as_bytes() }];
            !history.find(&wanted, &self.room()).unwrap().is_empty()
        }
    }

    #[test]
    fn what_any_reference_reaches_is_known_by_its_path() {
        for format in ["sha1", "sha256"] {
            let repository = Repository::new(format);
            repository.commit(".vscode/tasks.json", "old");
            repository.commit(".vscode/tasks.json", "new");
            repository.git(&["switch", "-qc", "side"]);
            repository.commit(".vscode/tasks.json", "side");
            repository.git(&["tag", "-am", "x", "v1"]);
            repository.git(&["switch", "-q", "main"]);
            repository.git(&["branch", "-qD", "side"]);
            fs::write(repository.root().join(".envrc"), "stashed").unwrap();
            repository.git(&["stash", "-qu"]);
            repository.git(&["gc", "-q"]);
            let history = repository.history();
            let collected = history.collect(&repository.room()).unwrap();
            for content in ["old", "new", "side"] {
                let wanted = BlobQuery { path: Path::new(".vscode/tasks.json"), blob: content.as_bytes() };
                assert!(
                    collected.contains(wanted) && !collected.contains(BlobQuery { blob: b"x", ..wanted })
                );
                assert!(repository.has(&history, ".vscode/tasks.json", content), "{format} {content}");
                assert!(!repository.has(&history, ".vscode/launch.json", content));
            }
            assert!(
                repository.has(&history, ".envrc", "stashed") && !repository.has(&history, ".envrc", "new")
            );
            // What was committed since isn't known, and is stored.
            repository.commit(".envrc", "later");
            assert!(!repository.has(&history, ".envrc", "later"));
            let stored =
                ["later", "never"].map(|blob| BlobQuery { path: Path::new(""), blob: blob.as_bytes() });
            let found = history.find_stored(&stored, &repository.room()).unwrap();
            assert_eq!(found, BTreeSet::from([0]));
            assert!(repository.has(&repository.history(), ".envrc", "later"));
        }
    }

    /// git believes the name of an object's file; with `git show` this content looks as if it had always been
    /// there.
    #[test]
    fn a_forged_object_is_not_believed() {
        let repository = Repository::new("sha1");
        repository.commit(".envrc", "good");
        let tip = repository.git(&["rev-parse", "HEAD"]);
        let history = repository.history();
        repository.commit(".envrc", "evil");
        let object = |id: &str| repository.root().join(".git/objects").join(&id[..2]).join(&id[2..]);
        let evil = repository.git(&["rev-parse", "HEAD"]);
        fs::remove_file(object(&tip)).unwrap();
        fs::copy(object(&evil), object(&tip)).unwrap();
        assert_eq!(repository.git(&["show", &format!("{tip}:.envrc")]), "evil", "git is fooled");
        assert!(!repository.has(&history, ".envrc", "evil"));
        // Nor by a replacement or a graft.
        let repository = Repository::new("sha1");
        repository.commit(".envrc", "good");
        let (history, tip) = (repository.history(), repository.git(&["rev-parse", "HEAD"]));
        repository.commit(".envrc", "evil");
        repository.git(&["replace", &tip, "HEAD"]);
        assert_eq!(repository.git(&["show", &format!("{tip}:.envrc")]), "evil", "git is fooled");
        assert!(!repository.has(&history, ".envrc", "evil") && repository.has(&history, ".envrc", "good"));
    }
}
