//! Programs that git runs in a repository even for a read-only command.
//!
//! `git status` runs programs that the repository's configuration names (`core.fsmonitor`, filters, `diff`
//! drivers) and a hook, and the same for each submodule. A repository from an untrusted archive brings such
//! a configuration along, so the command asks. The user's own configuration isn't checked, since the user
//! controls it. A configuration that can't be read counts as dangerous.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use haft::sync::lock;
use haft_git::keys::{KeyEffect, effect, is_of_lfs};
use haft_git::layout::{gitdir_in, is_repository, path_in};
use haft_git::{ConfigEntry, include, index};

/// The maximum size of a configuration file, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum size of an index, in bytes.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The maximum number of repositories checked for one command, including nested submodules.
const REPOSITORIES_MAX: usize = 200;
/// The maximum number of indexes that are cached.
const INDEXES_MAX: usize = 16;
/// The hook that runs after git has written its index, which `git status` does by itself.
const HOOK: &str = "post-index-change";

/// Checks repositories, and caches the results for large files.
pub(super) struct RepositoryCheck {
    home: Option<PathBuf>,
    indexes: Mutex<HashMap<PathBuf, KnownIndex>>,
}

/// The cached result for an index.
struct KnownIndex {
    stamp: IndexStamp,
    submodules: Option<Vec<PathBuf>>,
}

/// The metadata by which an unchanged file is recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexStamp {
    length: u64,
    modified: Option<SystemTime>,
}

/// The folders of a repository.
struct GitFolders {
    own: PathBuf,
    /// The same as `own`, except for a worktree of another repository.
    common: PathBuf,
    work: Option<PathBuf>,
}

impl RepositoryCheck {
    pub(super) fn new(home: Option<PathBuf>) -> RepositoryCheck {
        RepositoryCheck { home, indexes: Mutex::default() }
    }

    /// Returns why git may run code of the repository around a folder, if it may.
    pub(super) fn runs_code(&self, folder: &Path) -> Option<String> {
        let (mut open, mut looked_at) = (vec![folder.ancestors().find_map(GitFolders::at)?], 0);
        while let Some(folders) = open.pop() {
            looked_at += 1;
            if looked_at > REPOSITORIES_MAX {
                return Some("looks at too many submodules".to_owned());
            }
            let work = match self.look_at(&folders) {
                Ok(work) => work,
                Err(why) => return Some(why),
            };
            let Some(work) = work else { continue };
            match self.submodules(&folders.own) {
                Some(paths) => {
                    open.extend(paths.iter().filter_map(|path| GitFolders::in_work(&work.join(path))));
                }
                None => return Some("works on a repository with an index that can't be read".to_owned()),
            }
        }
        None
    }

    /// Returns the working tree of one repository, or an error if git may run a program because of its
    /// configuration or hooks.
    fn look_at(&self, folders: &GitFolders) -> Result<Option<PathBuf>, String> {
        let (mut work, mut hooks) = (folders.work.clone(), vec![folders.common.join("hooks")]);
        for config in [folders.common.join("config"), folders.own.join("config.worktree")] {
            let mut unread = false;
            let mut read = |path: &Path| {
                let bytes = read_limited(path, CONFIG_BYTES_MAX);
                unread |= bytes.is_err();
                bytes.ok().flatten()
            };
            let loaded = include::load(&config, self.home.as_deref(), &mut read);
            if let Some(entry) = loaded.entries().find(|entry| starts_program(entry)) {
                return Err(format!("may run what `{}` in `{}` says", entry.name(), config.display()));
            }
            if loaded.incomplete || unread {
                return Err(format!("may run anything, as `{}` can't be read", config.display()));
            }
            let core = loaded.entries().filter(|entry| entry.section == "core" && entry.sub.is_none());
            for entry in core {
                let base = work.as_deref().unwrap_or(&folders.own);
                match (entry.key.as_str(), entry.value.as_deref()) {
                    ("hookspath", Some(value)) => {
                        hooks.push(include::named_path(base, value, self.home.as_deref()));
                    }
                    ("worktree", Some(value)) => work = Some(folders.own.join(value)),
                    _ => {}
                }
            }
        }
        let hook = hooks.iter().map(|folder| folder.join(HOOK)).find(|hook| hook.symlink_metadata().is_ok());
        hook.map_or(Ok(work), |hook| Err(format!("may run `{}`", hook.display())))
    }

    /// Returns the folders of submodules according to the index, or `None` if it can't be read.
    fn submodules(&self, own: &Path) -> Option<Vec<PathBuf>> {
        let path = own.join("index");
        let Ok(found) = path.metadata() else { return Some(Vec::new()) };
        let stamp = IndexStamp { length: found.len(), modified: found.modified().ok() };
        if let Some(known) = lock(&self.indexes).get(&path).filter(|known| known.stamp == stamp) {
            return known.submodules.clone();
        }
        let parse = |path: &Path| index::parse_submodules(&read_limited(path, INDEX_BYTES_MAX).ok()??);
        let submodules = parse(&path).and_then(|found| {
            let shared = found.shared.map_or(Some(Vec::new()), |name| {
                Some(parse(&own.join(format!("sharedindex.{name}")))?.folders)
            })?;
            Some([found.folders, shared].concat())
        });
        let mut indexes = lock(&self.indexes);
        if indexes.len() >= INDEXES_MAX {
            indexes.clear();
        }
        indexes.insert(path, KnownIndex { stamp, submodules: submodules.clone() });
        submodules
    }
}

impl GitFolders {
    /// Finds the repository of a folder as git does, including a folder that is itself a repository.
    fn at(folder: &Path) -> Option<GitFolders> {
        GitFolders::in_work(folder).or_else(|| {
            let is_bare = is_repository(|name| folder.join(name).symlink_metadata().is_ok());
            is_bare.then(|| GitFolders::new(folder.to_owned(), None))
        })
    }

    /// Returns the repository whose working tree is this folder.
    fn in_work(work: &Path) -> Option<GitFolders> {
        let git = work.join(".git");
        let found = git.metadata().ok()?;
        let own = if found.is_dir() {
            git
        } else {
            let text = read_limited(&git, CONFIG_BYTES_MAX).ok().flatten()?;
            work.join(gitdir_in(&text)?)
        };
        Some(GitFolders::new(own, Some(work.to_owned())))
    }

    fn new(own: PathBuf, work: Option<PathBuf>) -> GitFolders {
        let text = read_limited(&own.join("commondir"), CONFIG_BYTES_MAX).ok().flatten();
        let common = text.as_deref().and_then(path_in).map_or_else(|| own.clone(), |path| own.join(path));
        GitFolders { own, common, work }
    }
}

/// Returns whether git executes the value of an entry. Git's built-in values and those that `git lfs
/// install` writes are harmless.
fn starts_program(entry: &ConfigEntry) -> bool {
    let value = entry.value.as_deref().unwrap_or("true").trim();
    let is = |values: &[&str]| values.iter().any(|known| known.eq_ignore_ascii_case(value));
    // An included file is checked itself.
    let includes = matches!(entry.section.as_str(), "include" | "includeif") && entry.key == "path";
    if includes || is_of_lfs(entry) {
        return false;
    }
    let is_address = matches!(entry.key.as_str(), "url" | "pushurl");
    value.starts_with('!')
        || (is_address && value.contains("::"))
        || match effect(&entry.name()) {
            KeyEffect::Program => !is(&["", "true", "false", "cat"]),
            KeyEffect::Monitor => !is(&["", "true", "false", "yes", "no", "on", "off", "1", "0"]),
            KeyEffect::Helper => value.contains(['/', ' ']),
            KeyEffect::Address => value.contains("::"),
            KeyEffect::LikelyProgram => true,
            KeyEffect::Nothing | KeyEffect::Alias | KeyEffect::Unknown => false,
        }
}

/// Returns the bytes of a file, or `None` if it doesn't exist.
fn read_limited(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, ()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(_) => return Err(()),
    };
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    if !is_file || read.is_err() || bytes.len() as u64 > bytes_max { Err(()) } else { Ok(Some(bytes)) }
}
