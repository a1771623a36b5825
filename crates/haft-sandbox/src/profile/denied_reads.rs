//! What rules deny to read outside of the working directories, where a child would see it.
//!
//! A rule that names something in full needs no search: the name is looked for before each command, so that
//! it counts from the moment in which it is there, also if it then has other letters or lies behind a link.
//! What it has led to once stays hidden, since a command may turn the link elsewhere. A pattern is looked for
//! once, from its literal beginning, and only in what is shown. The working directories are looked at by
//! `walk`, but for names; what isn't shown needs nothing.
//!
//! The decision to question: a rule that would take away what every command needs (a shell, its loader) is
//! refused as a whole. Masking it would give a sandbox in which nothing starts, and leaving it out would
//! break the promise.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use haft::ports::DeniedRead;
use haft::sync::lock;

use super::etc::ETC;
use super::mount_map::MountMap;
use super::{ProfileConfig, is_beneath, limits};

/// What has to be hidden because rules deny reading it.
#[derive(Default)]
pub(super) struct DeniedReads {
    /// What rules name in full: looked for before each command.
    named: Mutex<Vec<DeniedName>>,
    /// What was found when the session began.
    pub(super) found: Vec<PathBuf>,
    /// Copies that were made for children.
    pub(super) copies: Vec<PathBuf>,
    /// Why something may have been missed.
    pub(super) missed: Option<String>,
}

impl DeniedReads {
    /// Under which names a child may see now what rules name in full.
    pub(super) fn named(&self, places: &MountMap) -> Vec<PathBuf> {
        let mut named = lock(&self.named);
        named.iter_mut().flat_map(|name| name.look(places).to_vec()).collect()
    }
}

/// What a rule names in full.
struct DeniedName {
    path: PathBuf,
    /// Where it was found so far: as it is written, with the letters that it has on the disk, behind a link,
    /// and where a folder above it is shown elsewhere.
    found: Vec<PathBuf>,
    /// The folders that were looked at for other letters, as they were.
    folders: Vec<SearchedFolder>,
}

/// How often a name may turn out to be something else. A command that could make more of them gets by it what
/// it made.
const FOUND_MAX: usize = 64;

impl DeniedName {
    fn new(path: &Path, places: &MountMap) -> DeniedName {
        let mut name =
            DeniedName { path: path.to_owned(), found: vec![path.to_owned()], folders: Vec::new() };
        name.look(places);
        name
    }

    fn look(&mut self, places: &MountMap) -> &[PathBuf] {
        if self.folders.is_empty() || !self.folders.iter().all(SearchedFolder::is_same) {
            self.folders.clear();
            let others = in_any_case(&self.path, &mut self.folders);
            self.add(others);
        }
        let real: Vec<PathBuf> = self.found.iter().filter_map(|name| name.canonicalize().ok()).collect();
        self.add(real);
        let elsewhere: Vec<PathBuf> = self.found.iter().flat_map(|name| places.aliases(name)).collect();
        self.add(elsewhere);
        &self.found
    }

    fn add(&mut self, names: Vec<PathBuf>) {
        for name in names {
            if self.found.len() < FOUND_MAX && !self.found.contains(&name) {
                self.found.push(name);
            }
        }
    }
}

/// A folder whose names were looked at, and when it last changed.
struct SearchedFolder {
    path: PathBuf,
    changed: Option<(u64, u64, i64, i64)>,
    /// It had changed just before, so that it may change once more without showing it.
    fresh: bool,
}

impl SearchedFolder {
    /// To be taken before it is read.
    fn read_stamp(path: &Path) -> SearchedFolder {
        let found = path.metadata().ok();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = i64::try_from(now.saturating_sub(Duration::from_secs(2)).as_secs()).unwrap_or_default();
        let fresh = found.as_ref().is_some_and(|found| found.ctime() >= since);
        let changed = found.map(|found| (found.dev(), found.ino(), found.ctime(), found.ctime_nsec()));
        SearchedFolder { path: path.to_owned(), changed, fresh }
    }

    fn is_same(&self) -> bool {
        !self.fresh && SearchedFolder::read_stamp(&self.path).changed == self.changed
    }
}

/// A folder to look through: where a child sees it, and where it lies on the host.
struct SearchRoot {
    at: PathBuf,
    real: PathBuf,
}

/// Looks for what rules deny in what children see.
///
/// # Errors
/// A rule denies what every command needs.
pub(super) fn find_denied(config: &ProfileConfig, places: &MountMap) -> Result<DeniedReads, String> {
    let mut denied = DeniedReads::default();
    let search = DenialSearch { config, places };
    let (mut patterns, mut roots): (Vec<&DeniedRead>, Vec<SearchRoot>) = (Vec::new(), Vec::new());
    for rule in &config.rules.denied_reads {
        if ["/proc", "/dev"].iter().any(|own| rule.path.starts_with(own)) {
            denied.missed =
                Some(format!("`{}` is for a folder of which each command has its own", rule.rule));
            continue;
        }
        let covered = |at: &&PathBuf| rule.covers.covers(at);
        denied.copies.extend(places.copies().filter(covered).cloned());
        // In a working directory names are looked for too: they may be made later. That directory itself
        // stays.
        if rule.whole && !config.workspace.contains(&rule.path) {
            let named = denied.named.get_mut().unwrap_or_else(PoisonError::into_inner);
            named.push(DeniedName::new(&rule.path, places));
        }
        if search.is_inside(&rule.path) {
            continue;
        }
        if rule.whole {
            let beneath = places.shown_beneath(&rule.path);
            let stays = |at: &PathBuf| search.is_own(at) || search.is_opened(&rule.path, at);
            denied.found.extend(beneath.into_iter().map(|(at, _)| at).filter(|at| !stays(at)));
        } else {
            patterns.push(rule);
            roots.extend(search.roots(&rule.path));
        }
    }
    if !patterns.is_empty() {
        search.walk(&patterns, roots, &mut denied);
    }
    refuse_what_is_needed(config, places, &denied)?;
    Ok(denied)
}

struct DenialSearch<'a> {
    config: &'a ProfileConfig,
    places: &'a MountMap,
}

impl DenialSearch<'_> {
    /// Whether a path lies in a working directory, which is looked at as a whole.
    fn is_inside(&self, path: &Path) -> bool {
        let mut workspaces = self.config.workspace.iter().filter(|workspace| **workspace != Path::new("/"));
        workspaces.any(|workspace| path.starts_with(workspace))
    }

    /// Whether a folder is the session's own, or a working directory: nothing of it is hidden from here.
    fn is_own(&self, path: &Path) -> bool {
        let config = self.config;
        let mut own = config.results.iter().chain(&config.tools).chain([&config.temp]);
        path == Path::new("/tmp") || own.any(|own| own == path) || self.is_inside(path)
    }

    /// Whether settings open a path although a wider one is denied.
    fn is_opened(&self, denied: &Path, path: &Path) -> bool {
        let mut opened = self.config.allow_read.iter().filter(|opened| is_beneath(opened, denied));
        opened.any(|opened| path.starts_with(opened))
    }

    /// Where a pattern may match something that a child sees.
    fn roots(&self, start: &Path) -> Vec<SearchRoot> {
        let mut roots = Vec::new();
        for start in DeniedName::new(start, self.places).found {
            if self.places.shows(&start) && start.is_dir() {
                roots.push(SearchRoot { at: start.clone(), real: start.clone() });
            }
            let beneath = self.places.shown_beneath(&start).into_iter();
            // Also what lies there and is shown elsewhere: a tool chain to which a link leads.
            let lies = self.places.shown_from(&start);
            let beneath = beneath.chain(lies).filter(|(at, _)| !self.is_own(at));
            roots.extend(beneath.map(|(at, real)| SearchRoot { at, real }));
        }
        roots
    }

    /// Whether one of these rules is for a path; what settings let be read although a wider path is denied
    /// isn't denied by that.
    fn is_denied(&self, patterns: &[&DeniedRead], path: &Path) -> bool {
        if !self.config.rules.unreadable.as_ref().is_none_or(|all| all.covers(path)) {
            return false;
        }
        let opened = |rule: &DeniedRead| {
            let mut allowed = self.config.allow_read.iter();
            allowed.any(|allowed| path.starts_with(allowed) && rule.covers.covers(allowed))
        };
        patterns.iter().any(|rule| rule.covers.covers(path) && !opened(rule))
    }

    fn walk(&self, patterns: &[&DeniedRead], mut roots: Vec<SearchRoot>, denied: &mut DeniedReads) {
        roots.sort_by(|one, other| one.at.cmp(&other.at));
        roots.dedup_by(|one, other| one.at == other.at);
        // One in another is found from there, unless it lies elsewhere.
        let plain = |root: &SearchRoot| root.at == root.real;
        let outer: Vec<PathBuf> =
            roots.iter().filter(|root| plain(root)).map(|root| root.at.clone()).collect();
        let within =
            |root: &SearchRoot| outer.iter().any(|outer| *outer != root.at && root.at.starts_with(outer));
        roots.retain(|root| !(plain(root) && within(root)));
        let mut folders: VecDeque<(PathBuf, PathBuf, usize)> =
            roots.into_iter().map(|root| (root.at, root.real, 0)).collect();
        // What has no place of its own is shown if the folder is that it lies in: few have to be asked about.
        let own = self.config.results.iter().chain(&self.config.tools).chain(&self.config.workspace);
        let placed: HashSet<&Path> = self.places.all().chain(own.map(PathBuf::as_path)).collect();
        let mut entries = 0;
        while let Some((at, real, depth)) = folders.pop_front() {
            for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
                entries += 1;
                if entries > limits::DENIED_ENTRIES_MAX {
                    let count = limits::DENIED_ENTRIES_MAX;
                    let rules: Vec<String> = patterns.iter().map(|rule| format!("`{}`", rule.rule)).collect();
                    denied.missed = Some(format!(
                        "there are more than {count} files where {} may mean one, and no more are looked at",
                        rules.join(", ")
                    ));
                    return;
                }
                let name = entry.file_name();
                let (at, real) = (at.join(&name), real.join(&name));
                if placed.contains(&*at) && (self.is_own(&at) || !self.places.shows(&at)) {
                    continue;
                }
                if at.starts_with(ETC) && !self.places.shows(&at) {
                    continue;
                }
                if self.is_denied(patterns, &at) || (real != at && self.is_denied(patterns, &real)) {
                    let count = limits::MASKS_MAX;
                    if denied.found.len() >= count {
                        denied.missed = Some(format!("rules deny reading more than {count} files there"));
                        return;
                    }
                    denied.found.push(at);
                    continue;
                }
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                if depth >= limits::WALK_DEPTH_MAX {
                    denied.missed = Some(format!("`{}` is more than {depth} folders deep", at.display()));
                    continue;
                }
                folders.push_back((at, real, depth + 1));
            }
        }
    }
}

/// Names on the disk that differ from this one by case alone: rules don't look at that. A bounded number.
/// Also gives the folders that were looked at.
fn in_any_case(path: &Path, folders: &mut Vec<SearchedFolder>) -> Vec<PathBuf> {
    const MOST: usize = 32;
    let mut found = vec![PathBuf::from("/")];
    for name in path.iter().skip(1) {
        let folded = name.to_string_lossy().to_lowercase();
        let mut next = Vec::new();
        for folder in found {
            folders.push(SearchedFolder::read_stamp(&folder));
            let same = fs::read_dir(&folder).into_iter().flatten().flatten();
            let same = same.map(|entry| entry.file_name());
            let same = same.filter(|other| other.to_string_lossy().to_lowercase() == folded);
            next.extend(same.map(|name| folder.join(name)));
        }
        next.truncate(MOST);
        found = next;
    }
    found
}

/// Programs that start every command.
const SHELLS: [&str; 4] = ["/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash"];
/// How the names of the loader and of what shells are linked with begin.
const LIBRARIES: [&str; 6] = ["ld-linux", "ld-musl", "ld.so", "libc.so", "libc.musl", "libtinfo.so"];
/// Where these lie, or in a folder directly in it.
const LIBRARY_FOLDERS: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// What no command can do without, as it really lies.
fn needed_paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = SHELLS.iter().map(PathBuf::from).collect();
    let folders = LIBRARY_FOLDERS.iter().map(PathBuf::from);
    let below =
        LIBRARY_FOLDERS.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let below = below.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("-linux-"));
    for folder in folders.chain(below) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = |name: &str| LIBRARIES.iter().any(|begin| name.starts_with(begin));
        let libraries = entries.filter(|entry| named(&entry.file_name().to_string_lossy()));
        paths.extend(libraries.map(|entry| entry.path()));
    }
    let mut real: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    real
}

fn refuse_what_is_needed(
    config: &ProfileConfig,
    places: &MountMap,
    denied: &DeniedReads,
) -> Result<(), String> {
    let named = denied.named(places);
    let hidden = named.iter().chain(&denied.found).chain(&config.rules.unreadable_paths);
    let hidden: Vec<PathBuf> = hidden.filter_map(|path| path.canonicalize().ok()).collect();
    if hidden.is_empty() {
        return Ok(());
    }
    let needed = needed_paths();
    let Some(path) = needed.iter().find(|path| hidden.iter().any(|hidden| path.starts_with(hidden))) else {
        return Ok(());
    };
    let mut rules = config.rules.denied_reads.iter();
    let rule = rules.find(|rule| rule.covers.covers(path) || path.starts_with(&rule.path));
    let who =
        rule.map_or("`sandbox.filesystem.denyRead`".to_owned(), |rule| format!("the rule `{}`", rule.rule));
    Err(format!(
        "no command can run, because {who} denies reading `{}`, which every command needs; deny what lies further down, \
         or the tool itself (`Bash`)",
        path.display()
    ))
}
