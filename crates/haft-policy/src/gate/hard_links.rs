//! Hard links to files that rules deny reading.
//!
//! A rule names a path, but a file may have several. A file with several hard links is looked up by device
//! and inode in an index of the files that deny rules cover. The index is built when such a file is first
//! opened, and rebuilt when it is outdated, so a session without hard links pays nothing. If a rule covers
//! more files than the index may visit, any file with several hard links could be one of them, and reading
//! it is denied.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft::files::FileId;
use haft::sync::lock;

use super::session_rules::CompiledRules;
use crate::rule::{RuleId, RuleSet};

/// The maximum number of directory entries visited for one index. Listing that many takes about half a
/// second.
const ENTRIES_MAX: usize = 400_000;
/// How long an index is valid. A file with several names that was denied after the index was built is
/// missing from it.
const INDEX_AGE_MAX: Duration = Duration::from_secs(2);

/// The index of a session.
#[derive(Default)]
pub(super) struct DeniedFileIndex(Mutex<Option<CurrentIndex>>);

struct CurrentIndex {
    sets: Arc<CompiledRules>,
    made: Instant,
    files: DeniedFiles,
}

impl DeniedFileIndex {
    /// Returns why a file with several hard links may not be read, as the end of a sentence, or `None` if
    /// it may.
    pub(super) fn refuse(&self, sets: &Arc<CompiledRules>, file: FileId) -> Option<String> {
        let mut current = lock(&self.0);
        let counts =
            |index: &CurrentIndex| Arc::ptr_eq(&index.sets, sets) && index.made.elapsed() < INDEX_AGE_MAX;
        if !current.as_ref().is_some_and(counts) {
            let files = DeniedFiles::find(&sets.rules, ENTRIES_MAX);
            *current = Some(CurrentIndex { sets: sets.clone(), made: Instant::now(), files });
        }
        current.as_ref()?.files.refuse(&sets.rules, file)
    }
}

/// The files that rules deny reading.
#[derive(Default)]
struct DeniedFiles {
    rules: HashMap<FileId, RuleId>,
    /// The rule that covers more files than could be visited.
    missed: Option<RuleId>,
}

impl DeniedFiles {
    fn find(rules: &RuleSet, entries_max: usize) -> DeniedFiles {
        let mut files = DeniedFiles::default();
        let mut remaining = entries_max;
        for (rule, start, is_whole) in rules.denied_reads() {
            let denies = |path: &Path| is_whole || rules.denies_read(rule, path);
            if !visit_files(start, &mut remaining, |path| files.add(rule, path, denies(path))) {
                files.missed = Some(rule);
                break;
            }
        }
        files
    }

    fn add(&mut self, rule: RuleId, path: &Path, is_denied: bool) {
        if is_denied && let Ok(found) = fs::symlink_metadata(path) {
            let id = FileId { device: found.dev(), inode: found.ino() };
            self.rules.entry(id).or_insert(rule);
        }
    }

    fn refuse(&self, rules: &RuleSet, file: FileId) -> Option<String> {
        if let Some(rule) = self.rules.get(&file) {
            let rule = rules.rule(*rule);
            return Some(format!(
                "is another name (a hard link) of a file that rule `{rule}` denies to read"
            ));
        }
        let rule = rules.rule(self.missed?);
        Some(format!(
            "has other names (hard links), and rule `{rule}`, which denies reading, covers too many files to find out \
             whether it covers one of them; a rule that begins with a folder covers fewer"
        ))
    }
}

/// Calls `visit` with each regular file at or below a path. Returns false if there are more entries than
/// remain, or if some can't be listed.
fn visit_files(start: PathBuf, remaining: &mut usize, mut visit: impl FnMut(&Path)) -> bool {
    let mut folders = Vec::new();
    match fs::symlink_metadata(&start) {
        Ok(found) if found.is_dir() => folders.push(start),
        Ok(found) if found.is_file() => visit(&start),
        _ => {}
    }
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_out_of_reach(&folder, &error) => continue,
            Err(_) => return false,
        };
        for entry in entries.flatten() {
            if *remaining == 0 {
                return false;
            }
            *remaining -= 1;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => visit(&entry.path()),
                _ => {}
            }
        }
    }
    true
}

/// Returns whether a folder is missing or inaccessible to this process. Then the process can't have linked
/// a file in it.
fn is_out_of_reach(folder: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => fs::symlink_metadata(folder.join(".")).is_err(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Rule, RuleAnchors};
    use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

    #[test]
    fn what_can_not_be_determined_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["a.key", "b.txt", "c.txt"] {
            fs::write(base.join(name), "x").unwrap();
        }
        let written =
            UnparsedRule::plain("Read(*.key)", RuleList::Deny, SettingsSource::new(SourceScope::User, &base));
        let (rules, _) =
            RuleSet::compile(vec![Rule::parse(written).unwrap()], &RuleAnchors::new("/home/me", &base));
        let id = |name: &str| {
            let found = fs::metadata(base.join(name)).unwrap();
            FileId { device: found.dev(), inode: found.ino() }
        };
        let refused = |files: &DeniedFiles, name: &str| files.refuse(&rules, id(name)).is_some();
        let all = DeniedFiles::find(&rules, 3);
        assert!(refused(&all, "a.key") && !refused(&all, "b.txt"));
        let too_few = DeniedFiles::find(&rules, 2);
        assert!(refused(&too_few, "a.key") && refused(&too_few, "b.txt"));
    }
}
