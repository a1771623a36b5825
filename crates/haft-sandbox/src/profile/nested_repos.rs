//! Repositories that come to be in the working directories while the session lives, however deep: folders
//! with a `.git`, and folders that are bare repositories by the names in them.
//!
//! Whoever enters one with git obeys its configuration, and git enters those that an index calls submodules
//! by itself. An index can be hidden from us (split, a link, too large), a `cd` with git in the prompt needs
//! none: so what counts is which folders hold a `.git` that weren't there before. The look at the start is
//! remembered with the time at which each folder changed, which no command can set; afterwards only folders
//! that changed are read again.
//!
//! What appears while no command runs is the user's, and is left alone.
//!
//! Where there are too many folders to remember, all of them are looked at after each command, and those
//! count that have changed since it began: slower, and as good. Only what nobody can look at in a few seconds
//! is given up, and told.
//!
//! The same look finds files that rules deny to write and that weren't there when the session began: no name
//! can be held that nobody can foretell, so these are only told.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft::files::HiddenPaths;
use haft_git::layout::{FolderKind, REPOSITORY_NAMES, is_repository};

use super::git_folders::GitFolders;
use super::name_comparison::NameContents;
use super::{limits, repository, undo};

/// Device, number, and when it last changed.
type ChangeStamp = (u64, u64, i64, i64);

/// So long after a change a folder may change once more without showing it.
const COARSE: Duration = Duration::from_secs(2);

/// So much earlier than it is the kernel may note a change.
const TICK: Duration = Duration::from_millis(50);

/// A folder as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct NestedFolder {
    changed: ChangeStamp,
    /// It had changed just before, so that its time says nothing.
    fresh: bool,
    pub(super) inside: Vec<OsString>,
    has_git: bool,
    /// Which names of a repository are there, one bit for each.
    marks: u8,
    /// Names in it that are protected in any folder.
    protected: Vec<OsString>,
    /// It wasn't there when the last command began.
    new: bool,
}

impl NestedFolder {
    /// To be taken before it is read.
    pub(super) fn read_folder(path: &Path) -> Option<NestedFolder> {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        let changed = (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
        let fresh = is_fresh(found.ctime());
        Some(NestedFolder { changed, fresh, new: true, ..NestedFolder::default() })
    }

    /// Takes a name in it into account.
    pub(super) fn note(&mut self, name: &OsStr) {
        self.has_git |= name == ".git";
        let at = REPOSITORY_NAMES.iter().position(|known| name == *known);
        self.marks |= at.map_or(0, |at| 1 << at);
        if name.to_str().is_some_and(haft_protected::is_any_depth) {
            self.protected.push(name.to_owned());
        }
    }

    /// Whether it is a repository itself.
    pub(super) fn is_bare(&self) -> bool {
        let has = |name: &str| {
            let at = REPOSITORY_NAMES.iter().position(|known| name == *known);
            at.is_some_and(|at| self.marks & 1 << at != 0)
        };
        is_repository(has)
    }

    /// What of it are repositories: its `.git`, and the folder itself.
    pub(super) fn entries(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let git = self.has_git.then(|| path.join(".git"));
        git.into_iter().chain(self.is_bare().then(|| path.to_owned()))
    }
}

/// Whether a time of change is so late that another change could follow which doesn't show.
pub(super) fn is_fresh(changed: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = i64::try_from(now.saturating_sub(COARSE).as_secs()).unwrap_or_default();
    changed >= since
}

#[derive(Debug, Default)]
pub(super) struct NestedRepositories {
    roots: Vec<PathBuf>,
    /// What isn't looked into: commands don't see it.
    hidden: Vec<PathBuf>,
    /// Nothing, if there was too much to look at.
    folders: Option<BTreeMap<PathBuf, NestedFolder>>,
    /// Repositories that no command has made: each by its `.git`, or for a bare one by its folder.
    users: BTreeSet<PathBuf>,
    /// The others, as they were when no command ran or when they were looked at; nothing if they aren't as
    /// they should be.
    made: BTreeMap<PathBuf, Option<NameContents>>,
    /// Says what may not be written.
    deny_write: Option<HiddenPaths>,
    /// What of it is there.
    denied: BTreeSet<PathBuf>,
    /// There were too many folders to remember, so they are looked at anew.
    anew: Option<FreshSearch>,
    /// How many are remembered.
    folders_max: usize,
}

/// A look at folders of which nothing is remembered.
#[derive(Debug)]
struct FreshSearch {
    /// When the first of the commands began that run, or had run.
    since: SystemTime,
    /// Repositories in folders that have changed since then, at any time.
    found: BTreeSet<PathBuf>,
    /// Names that are protected in any folder.
    protected: BTreeSet<PathBuf>,
}

impl FreshSearch {
    /// The time of change from which on a folder counts.
    fn from(&self) -> (i64, i64) {
        let since = self.since.checked_sub(TICK).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let since = since.unwrap_or_default();
        (i64::try_from(since.as_secs()).unwrap_or_default(), i64::from(since.subsec_nanos()))
    }
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct NestedChanges {
    /// Repositories that a command has made or changed, each by its `.git` or its own folder.
    pub(super) repositories: Vec<PathBuf>,
    /// What a command made although rules deny it.
    pub(super) denied: Vec<PathBuf>,
    /// Folders that can't be read any more.
    pub(super) closed: Vec<PathBuf>,
    /// Folders that couldn't be, and that were opened to their owner.
    pub(super) opened: Vec<PathBuf>,
    /// There was too much, and nothing is looked for any more.
    pub(super) gave_up: bool,
}

impl NestedRepositories {
    /// With what the look at the start has found in these working directories, which commands may write.
    pub(super) fn new(
        roots: Vec<PathBuf>,
        hidden: Vec<PathBuf>,
        folders: Option<BTreeMap<PathBuf, NestedFolder>>,
    ) -> NestedRepositories {
        let within = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
        let folders = folders.map(|mut folders| {
            folders.retain(|path, _| within(path));
            folders
        });
        let folders_max = limits::FOLDERS_KNOWN_MAX;
        let mut nested =
            NestedRepositories { roots, hidden, folders, folders_max, ..NestedRepositories::default() };
        nested.users = nested.repositories().into_iter().collect();
        nested
    }

    /// Also finds what rules deny to write, beside what is there.
    pub(super) fn with_denied(
        mut self,
        rule: Option<HiddenPaths>,
        there: BTreeSet<PathBuf>,
    ) -> NestedRepositories {
        (self.deny_write, self.denied) = (rule, there);
        self
    }

    /// Takes what is there now for the user's: no command runs. Gives what is new.
    pub(super) fn begin(&mut self) -> Vec<PathBuf> {
        let now = SystemTime::now();
        if self.anew.is_none() {
            self.refresh(&mut NestedChanges::default(), now);
        }
        self.folders.iter_mut().flatten().for_each(|(_, folder)| folder.new = false);
        if let Some(anew) = &mut self.anew {
            anew.since = now;
        }
        let there = self.repositories();
        self.made.retain(|work, _| there.contains(work));
        if self.folders.is_some() {
            // What is removed and made again is another one.
            self.users.retain(|work| there.contains(work));
        }
        let mut new = Vec::new();
        for work in there {
            match self.made.get_mut(&work) {
                Some(Some(content)) => *content = content_of(&work, content),
                Some(None) => {}
                None if self.users.insert(work.clone()) => new.push(work),
                None => {}
            }
        }
        new
    }

    /// Forgets that a repository is the user's: it is gone, or another one.
    pub(super) fn forget(&mut self, entry: &Path) {
        self.users.remove(entry);
    }

    /// Whether a command has made a folder: it is new, or was a repository of a command's before.
    pub(super) fn is_made(&self, folder: &Path) -> bool {
        let is_new =
            |folders: &BTreeMap<PathBuf, NestedFolder>| folders.get(folder).is_some_and(|found| found.new);
        self.folders.as_ref().is_some_and(is_new) || self.made.contains_key(folder)
    }

    /// Repositories that no command has made; whether these are all.
    pub(super) fn users(&self) -> (&BTreeSet<PathBuf>, bool) {
        (&self.users, self.folders.is_some())
    }

    /// All folders, if they are known.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.folders.iter().flatten().map(|(path, _)| path.clone()).collect()
    }

    /// Names that are protected in any folder, where there are any.
    pub(super) fn protected(&self) -> BTreeSet<PathBuf> {
        let folders = self.folders.iter().flatten();
        let known = folders.flat_map(|(path, folder)| folder.protected.iter().map(|name| path.join(name)));
        known.chain(self.anew.iter().flat_map(|anew| anew.protected.iter().cloned())).collect()
    }

    /// What commands have made or changed.
    pub(super) fn look(&mut self) -> NestedChanges {
        let mut looked = NestedChanges::default();
        loop {
            looked.closed.clear();
            // What is there already when there turn out to be too many could have been made by this command.
            self.refresh(&mut looked, UNIX_EPOCH);
            // What a command has closed may hold what it made, and others in it that it has closed too.
            let room = limits::FOLDERS_LOOKED_AT_MAX.saturating_sub(looked.opened.len());
            let new = looked.closed.iter().filter(|path| !looked.opened.contains(path)).take(room);
            let new: Vec<PathBuf> = new.filter(|path| undo::open_up(path)).cloned().collect();
            if new.is_empty() {
                break;
            }
            looked.opened.extend(new);
        }
        let there = self.repositories();
        let touched = |work: &PathBuf| {
            let known = || self.made.get(work).and_then(Option::as_ref);
            let same = || known().is_some_and(|known| known.is_untouched(&content_of(work, known)));
            !self.users.contains(work) && !same()
        };
        looked.repositories = there.into_iter().filter(touched).collect();
        looked
    }

    /// Remembers a repository that was looked at: what it was before that, if it is as it should be.
    pub(super) fn checked(&mut self, work: &Path, before: Option<NameContents>) {
        self.made.insert(work.to_owned(), before);
    }

    fn repositories(&self) -> BTreeSet<PathBuf> {
        let all = self.folders.iter().flatten().flat_map(|(path, folder)| folder.entries(path));
        let anew = self.anew.iter().flat_map(|anew| &anew.found);
        let known = anew.clone().next().is_some().then(|| self.made.keys().chain(&self.users));
        let anew = anew.chain(known.into_iter().flatten());
        let is_one = |entry: &&PathBuf| {
            let is_git = entry.ends_with(".git");
            if is_git { entry.symlink_metadata().is_ok() } else { repository::is_bare(entry) }
        };
        all.chain(anew.filter(is_one).cloned()).collect()
    }

    /// Remembers a file that rules deny to write, and tells it if it is new.
    fn note_denied(&mut self, path: PathBuf, looked: &mut NestedChanges) {
        if !self.deny_write.as_ref().is_some_and(|rule| rule.covers(&path)) || self.denied.contains(&path) {
            return;
        }
        looked.gave_up |= self.denied.len() >= limits::DENIED_KNOWN_MAX;
        if self.denied.len() < limits::DENIED_KNOWN_MAX {
            self.denied.insert(path.clone());
            looked.denied.push(path);
        }
    }

    /// Looks into the folders that have changed since they were read. Where there are too many to be
    /// remembered, it looks into all of them, and those count that have changed since the first of the
    /// commands began, or first since `since`.
    fn refresh(&mut self, looked: &mut NestedChanges, since: SystemTime) {
        let mut anew = self.anew.take();
        let known = self.folders.take();
        if anew.is_none() && known.is_none() {
            return;
        }
        let from = anew.as_ref().map(FreshSearch::from);
        let (mut before, mut now) = (known.unwrap_or_default(), BTreeMap::new());
        let (mut left, mut read) = (self.roots.clone(), 0);
        while let Some(path) = left.pop() {
            let Some(mut folder) = NestedFolder::read_folder(&path) else { continue };
            let counts = from.is_none_or(|from| (folder.changed.2, folder.changed.3) >= from);
            match before.remove(&path) {
                Some(known) if known.changed == folder.changed && !known.fresh => folder = known,
                known => match fs::read_dir(&path) {
                    Ok(entries) => {
                        folder.new = known.is_none_or(|known| known.new);
                        for entry in entries.flatten() {
                            read += 1;
                            let name = entry.file_name();
                            if counts {
                                self.note_denied(path.join(&name), looked);
                            }
                            folder.note(&name);
                            if name != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                                folder.inside.push(name);
                            }
                        }
                    }
                    Err(_) => {
                        // What is known to be in it still is, as far as anybody can tell.
                        let changed = folder.changed;
                        folder = NestedFolder { changed, fresh: false, ..known.unwrap_or(folder) };
                        looked.closed.extend(counts.then(|| path.clone()));
                    }
                },
            }
            let inside = folder.inside.iter().map(|name| path.join(name));
            left.extend(inside.filter(|path| !self.roots.contains(path) && !self.hidden.contains(path)));
            let Some(anew) = &mut anew else {
                now.insert(path, folder);
                if read > limits::NEW_ENTRIES_MAX || now.len() > self.folders_max {
                    self.anew =
                        Some(FreshSearch { since, found: BTreeSet::new(), protected: BTreeSet::new() });
                    return self.refresh(looked, since);
                }
                continue;
            };
            anew.found.extend(folder.entries(&path).filter(|_| counts));
            anew.protected.extend(folder.protected.iter().map(|name| path.join(name)));
            if read > limits::ANEW_ENTRIES_MAX {
                looked.gave_up = true;
                return;
            }
        }
        match anew {
            Some(_) => self.anew = anew,
            None => self.folders = Some(now),
        }
    }
}

/// Everything of a repository that says what runs. To be taken before it is looked at: a command that still
/// runs may change it meanwhile.
pub(super) fn content_of(repository: &Path, known: &NameContents) -> NameContents {
    NameContents::look(&names_of(repository), known)
}

/// The names of a repository that say what runs.
fn names_of(repository: &Path) -> Vec<PathBuf> {
    let Some(work) = repository.parent().filter(|_| repository.ends_with(".git")) else {
        return obeyed_names([(repository, FolderKind::Bare)]);
    };
    let Some(there) = repository::git_dir(work) else { return vec![repository.to_owned()] };
    // A folder changes with every commit; what it is doesn't.
    let own = (!repository.is_dir()).then(|| repository.to_owned());
    let common = repository::git_file_target(work).map(|led| led.common).filter(|common| *common != there);
    let roots = [&there].into_iter().chain(&common).map(|root| (root.as_path(), FolderKind::Git));
    own.into_iter().chain(obeyed_names(roots)).collect()
}

/// The names in these folders of git that say what runs.
fn obeyed_names<'p>(roots: impl IntoIterator<Item = (&'p Path, FolderKind)>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for (root, kind) in roots {
        let found = GitFolders::look(root, kind, None, limits::GIT_FOLDERS_SEEN_MAX);
        names.extend(found.held().map(|(path, _)| path));
        names.extend(found.sequences.into_keys());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(root: &Path) -> NestedRepositories {
        let found = super::super::workspace_scan::scan_workspaces(&[root.to_owned()], None, None);
        NestedRepositories::new(vec![root.to_owned()], Vec::new(), found.folders)
    }

    fn content(repository: &Path) -> NameContents {
        content_of(repository, &NameContents::default())
    }

    /// More folders than can be remembered hide nothing.
    #[test]
    fn what_was_made_among_too_many_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("mine/.git")).unwrap();
        let rule = HiddenPaths::new(|path| path.extension().is_some_and(|end| end == "key"));
        let mut nested = nested(root).with_denied(Some(rule), BTreeSet::new());
        nested.folders_max = 50;
        assert!(nested.begin().is_empty());
        for number in 0..100 {
            fs::create_dir_all(root.join(format!("many/{number}"))).unwrap();
        }
        fs::create_dir_all(root.join("a/b/c/.git")).unwrap();
        fs::write(root.join("a/b/x.key"), "").unwrap();
        let looked = nested.look();
        assert_eq!(looked.repositories, [root.join("a/b/c/.git")]);
        assert_eq!((looked.denied, looked.gave_up), (vec![root.join("a/b/x.key")], false));
        let git = root.join("a/b/c/.git");
        nested.checked(&git, Some(content(&git)));
        assert!(nested.look().repositories.is_empty());
        fs::write(git.join("config"), "one").unwrap();
        assert_eq!(nested.look().repositories, std::slice::from_ref(&git));
        nested.checked(&git, Some(content(&git)));
        // The next command.
        assert!(nested.begin().is_empty());
        fs::create_dir_all(root.join("many/7/deep/.git")).unwrap();
        assert_eq!(nested.look().repositories, [root.join("many/7/deep/.git")]);
        // It may be the user who makes so many, and then a command.
        let mut nested = self::nested(root);
        nested.folders_max = 50;
        assert!(nested.begin().is_empty());
        fs::create_dir_all(root.join("many/8/deep/.git")).unwrap();
        assert_eq!(nested.look().repositories, [root.join("many/8/deep/.git")]);
    }

    #[test]
    fn what_was_made_meanwhile_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("mine/.git")).unwrap();
        let mut nested = nested(root);
        assert!(nested.look().repositories.is_empty());
        fs::create_dir_all(root.join("a/b/c/.git")).unwrap();
        assert_eq!(nested.look().repositories, [root.join("a/b/c/.git")]);
        let git = root.join("a/b/c/.git");
        nested.checked(&git, Some(content(&git)));
        assert!(nested.look().repositories.is_empty());
        // However quickly it follows.
        fs::write(git.join("config"), "one").unwrap();
        assert_eq!(nested.look().repositories, std::slice::from_ref(&git));
        let before = content(&git);
        fs::write(git.join("config"), "two").unwrap();
        nested.checked(&git, Some(before));
        assert_eq!(nested.look().repositories, std::slice::from_ref(&git));
        // What is not as it should be is not the user's for that.
        nested.checked(&git, None);
        nested.begin();
        assert_eq!(nested.look().repositories, std::slice::from_ref(&git));
        nested.checked(&git, Some(content(&git)));
        // What comes between commands is the user's.
        fs::create_dir_all(root.join("a/users/.git")).unwrap();
        nested.begin();
        assert_eq!(nested.look().repositories, [] as [PathBuf; 0]);
        fs::remove_dir_all(root.join("a")).unwrap();
        assert!(nested.look().repositories.is_empty());
    }

    #[test]
    fn a_folder_is_a_repository_by_the_names_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let make = |folder: &str, names: &[&str]| {
            fs::create_dir_all(root.join(folder)).unwrap();
            for name in names {
                fs::write(root.join(folder).join(name), "").unwrap();
            }
        };
        make("mine", &["HEAD", "objects", "refs"]);
        make("half", &["HEAD", "refs"]);
        let mut nested = nested(root);
        assert_eq!(nested.users().0, &BTreeSet::from([root.join("mine")]));
        nested.begin();
        std::os::unix::fs::symlink("nowhere", root.join("half/objects")).unwrap();
        make("a/b", &["HEAD", "commondir"]);
        make("a/b/worktrees/x", &["HEAD", "commondir"]);
        make("a/objects", &["HEAD", "objects", "refs"]);
        let found = ["a/b", "a/b/worktrees/x", "a/objects", "half"].map(|name| root.join(name));
        assert_eq!(nested.look().repositories, found);
        let made = found.each_ref().map(|folder| nested.is_made(folder));
        assert_eq!(made, [true, true, true, false], "`half` is the user's folder");
        for folder in &found {
            nested.checked(folder, Some(content(folder)));
        }
        assert_eq!(nested.look().repositories, [] as [PathBuf; 0]);
        nested.begin();
        make("a/b", &["config"]);
        assert_eq!(nested.look().repositories, [root.join("a/b")]);
        assert!(nested.is_made(&root.join("a/b")));
        // However many there are.
        nested.folders_max = 2;
        nested.begin();
        make("c/d/e", &["HEAD", "objects", "refs"]);
        assert!(nested.look().repositories.contains(&root.join("c/d/e")));
    }
}
