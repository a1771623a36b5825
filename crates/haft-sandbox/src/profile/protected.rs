//! Protected names outside of folders of git: `.vscode`, `.envrc`, `.npmrc` and the others of `haft_protected`.
//!
//! What they hold is read before a command and compared after it. A change stays if the path had that content in a commit
//! that was reachable when the session began, so that `git switch` works, or if the user approved it; everything else is
//! taken away, what was there is put back, and the result says so. Nothing of this is visible in a working directory.
//!
//! Names of class *held* that exist are mounted read-only as well, by [`guard`](super::guard), except for commands that
//! write repositories: git replaces these files when it switches branches.
//!
//! A command that runs beside others can't be told from them, nor from the user, so a change counts as a command's while one
//! runs that could have made it.

mod history;
mod judge;
mod quarantine;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use haft::ports::Refusal;
use haft::sync::lock;
use haft_protected::find_for_commands;

use self::history::{History, ReaderRoom, Wanted};
use self::judge::{KnownContents, NameChange};
use self::snapshot::{Content, Snapshot};
use super::approved;
use super::recovered::Recovered;
use super::shown;

pub(super) struct ProtectedFiles {
    /// Folders at whose top names count: working directories and the repositories in them.
    roots: Vec<PathBuf>,
    histories: Vec<History>,
    reader_room: ReaderRoom,
    caches: PathBuf,
    recovered: Recovered,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is there, as far as it may be.
    saved: Snapshot,
    /// Names that existed when the first of the running commands began, so that they are mounted for all of them.
    mounted: BTreeSet<PathBuf>,
    known: KnownContents,
    /// Contents that no history has.
    rejected: BTreeSet<(PathBuf, Content)>,
    /// Paths that a tool of ours writes just now, and how many do.
    being_written: BTreeMap<PathBuf, usize>,
}

/// The commands that run already when another one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunningCommands {
    None,
    /// From all of them existing names are held by mounts.
    Held,
    /// Some may change names that exist.
    Opened,
}

/// What a check needs to know of the commands that run.
pub(super) struct CheckScope<'a> {
    /// Names in any folder.
    pub(super) others: &'a BTreeSet<PathBuf>,
    /// Whether a command runs, or has just ended, from which existing names aren't held by mounts.
    pub(super) opened: bool,
    /// Whether the user allowed a command to write this path.
    pub(super) is_granted: &'a dyn Fn(&Path) -> bool,
}

impl ProtectedFiles {
    /// `works` are tops of work trees, each with the folder in which git keeps its references and objects.
    pub(super) fn new(
        workspaces: &[PathBuf],
        works: &[(PathBuf, PathBuf)],
        search_path: Option<&OsStr>,
        caches: &Path,
    ) -> ProtectedFiles {
        let inside = |work: &Path| workspaces.iter().any(|workspace| work.starts_with(workspace));
        let tops = works.iter().map(|(work, _)| work).filter(|work| inside(work));
        let roots: BTreeSet<PathBuf> = workspaces.iter().chain(tops).cloned().collect();
        ProtectedFiles {
            roots: roots.into_iter().collect(),
            histories: works.iter().map(|(work, common)| History::load(work, common)).collect(),
            reader_room: ReaderRoom::new(search_path, caches.join("git-reader"), workspaces),
            caches: caches.to_owned(),
            recovered: Recovered::beside(caches),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes what is there for the user's, as far as no command that runs could have made it. To be called before each.
    pub(super) fn begin(&self, others: &BTreeSet<PathBuf>, running: RunningCommands) {
        let mut state = self.state();
        let now = Snapshot::take(&self.roots, others, &state.saved);
        match running {
            RunningCommands::None => {
                state.mounted = now.held_names().cloned().collect();
                state.saved = now;
            }
            RunningCommands::Held => {
                let State { saved, mounted, .. } = &mut *state;
                saved.adopt(&now, |path| is_below(&*mounted, path));
            }
            RunningCommands::Opened => {}
        }
        state.accept_saved();
    }

    /// Names that exist and are to be held from a command by mounts.
    pub(super) fn held_names(&self, opened: bool) -> Vec<PathBuf> {
        let state = self.state();
        let is_replaced_by_git = |path: &Path| {
            !path.is_symlink()
                && !state.saved.too_large.contains(path)
                && self.histories.iter().any(|history| path.starts_with(&history.work))
        };
        state.saved.held_names().filter(|path| !opened || !is_replaced_by_git(path)).cloned().collect()
    }

    /// Whether a path is a protected name or lies in one.
    pub(super) fn is_protected(&self, path: &Path) -> bool {
        let mut relative = self.roots.iter().filter_map(|root| path.strip_prefix(root).ok());
        relative.any(|relative| find_for_commands(relative).is_some())
    }

    /// A tool of ours is about to write these, as the user or a rule allows it.
    pub(super) fn begin_writes(&self, paths: &[PathBuf]) {
        let mut state = self.state();
        for path in paths.iter().filter(|path| self.is_protected(path)) {
            *state.being_written.entry(path.clone()).or_default() += 1;
        }
    }

    /// It has: what is there now is the user's.
    pub(super) fn end_writes(&self, paths: &[PathBuf]) {
        let mut state = self.state();
        let State { being_written, saved, .. } = &mut *state;
        let written: Vec<&PathBuf> = paths.iter().filter(|path| being_written.contains_key(*path)).collect();
        if written.is_empty() {
            return;
        }
        for path in &written {
            if let Some(count) = being_written.get_mut(*path) {
                *count -= 1;
            }
        }
        let others = written.iter().map(|path| (*path).clone()).collect();
        let now = Snapshot::take(&self.roots, &others, saved);
        saved.adopt(&now, |path| written.iter().any(|written| path.starts_with(written)));
        being_written.retain(|_, count| *count > 0);
        state.accept_saved();
    }

    /// Compares with what was there, takes away and puts back, and says so.
    pub(super) fn check(&self, scope: &CheckScope<'_>) -> Vec<Refusal> {
        let mut state = self.state();
        let now = Snapshot::take(&self.roots, scope.others, &state.saved);
        let before = std::mem::take(&mut state.saved);
        let mut said = Vec::new();
        let mut changes = Vec::new();
        for change in all_changes(&before, &now) {
            if (scope.is_granted)(change.path) || is_below(state.being_written.keys(), change.path) {
                continue;
            }
            if !scope.opened && is_below(&state.mounted, change.path) {
                let done =
                    "no command can write it, so you or another program did that; look at it if you didn't";
                said.push(Refusal::Changed { path: change.path.to_owned(), done: done.into() });
            } else {
                changes.push(change);
            }
        }
        self.look_up(&mut state, &changes);
        changes.retain(|change| !judge::stays(change, &state.known));
        for path in now.too_large.difference(&before.too_large) {
            changes.retain(|change| !change.path.starts_with(path) || change.before.is_some());
            changes.insert(0, NameChange { path, before: None, now: Some(&Content::Other) });
        }
        for change in &changes {
            said.push(self.undo(change, &before));
        }
        state.saved = Snapshot::take(&self.roots, scope.others, &now);
        state.accept_saved();
        said
    }

    fn undo(&self, change: &NameChange<'_>, before: &Snapshot) -> Refusal {
        let path = change.path;
        let root = self.root_of(path);
        let taken = change.now.map(|_| quarantine::take(path, &self.recovered));
        let restored = change.before.map(|content| quarantine::restore(root, path, content));
        if change.before.is_none() {
            for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
                if before.is_folder(folder) || super::undo::remove_empty_folder(folder).is_err() {
                    break;
                }
            }
        }
        let executed = haft_protected::find(path).map_or("another program", |found| found.row.executed);
        let done = format!(
            "a command changed it, and what it holds is executed by another program ({executed}); {}; to keep such a change, \
             allow it (`Edit({})`)",
            quarantine::describe(taken, restored),
            shown(path)
        );
        Refusal::Protected { path: path.to_owned(), done }
    }

    /// Looks up what isn't known of the contents in these changes.
    fn look_up(&self, state: &mut State, changes: &[NameChange<'_>]) {
        let State { known, rejected, .. } = state;
        known.stored.clear();
        let mut asked: BTreeMap<(usize, bool), Vec<(PathBuf, Content)>> = BTreeMap::new();
        for change in changes {
            let Some(content) = change.now.or(change.before) else { continue };
            let key = (change.path.to_owned(), content.clone());
            let is_new = change.now.is_some();
            if is_new && (known.accepted.contains(&key) || rejected.contains(&key)) {
                continue;
            }
            if is_new && approved::is_approved(&self.caches, change.path, content.blob()) {
                known.accepted.insert(key);
            } else if let Some(at) = self.history_of(change.path).filter(|_| content.blob().is_some()) {
                asked.entry((at, is_new)).or_default().push(key);
            }
        }
        for ((at, is_new), contents) in asked {
            // Where git can't be asked nothing is known, and the next check tries again.
            let Ok(found) = self.ask(&self.histories[at], &contents, is_new) else { continue };
            for (index, content) in contents.into_iter().enumerate() {
                match (is_new, found.contains(&index)) {
                    (true, true) => known.accepted.insert(content),
                    (true, false) => rejected.insert(content),
                    (false, true) => known.stored.insert(content),
                    (false, false) => false,
                };
            }
        }
    }

    fn ask(
        &self,
        history: &History,
        contents: &[(PathBuf, Content)],
        is_new: bool,
    ) -> std::io::Result<BTreeSet<usize>> {
        let wanted: Vec<Wanted<'_>> = contents
            .iter()
            .map(|(path, content)| Wanted {
                path: path.strip_prefix(&history.work).unwrap_or(path),
                blob: content.blob().unwrap_or_default(),
            })
            .collect();
        match is_new {
            true => history.find(&wanted, &self.reader_room),
            false => history.find_stored(&wanted, &self.reader_room),
        }
    }

    /// The innermost repository around a path.
    fn history_of(&self, path: &Path) -> Option<usize> {
        let around = self.histories.iter().enumerate().filter(|(_, history)| path.starts_with(&history.work));
        around.max_by_key(|(_, history)| history.work.components().count()).map(|(at, _)| at)
    }

    /// The folder at whose top the name of a path counts.
    fn root_of<'p>(&'p self, path: &'p Path) -> &'p Path {
        let is_name = |root: &&PathBuf| {
            path.strip_prefix(root).is_ok_and(|relative| find_for_commands(relative).is_some())
        };
        let roots = self.roots.iter().filter(|root| path != *root && path.starts_with(root)).filter(is_name);
        let root = roots.max_by_key(|root| root.components().count());
        root.map(PathBuf::as_path).or(path.parent()).unwrap_or(path)
    }
}

impl State {
    /// What is there is the user's.
    fn accept_saved(&mut self) {
        let leaves = self.saved.leaves().map(|(path, content)| (path.to_owned(), content.clone()));
        self.known.accepted.extend(leaves);
    }
}

/// Every path at which the content differs.
fn all_changes<'a>(before: &'a Snapshot, now: &'a Snapshot) -> Vec<NameChange<'a>> {
    let paths: BTreeSet<&Path> = before.leaves().chain(now.leaves()).map(|(path, _)| path).collect();
    let changes =
        paths.into_iter().map(|path| NameChange { path, before: before.leaf(path), now: now.leaf(path) });
    changes.filter(|change| change.before != change.now).collect()
}

fn is_below<'p>(names: impl IntoIterator<Item = &'p PathBuf>, path: &Path) -> bool {
    names.into_iter().any(|name| path.starts_with(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Room {
        dir: tempfile::TempDir,
        files: ProtectedFiles,
    }

    impl Room {
        /// A working directory with these files, which are the user's.
        fn new(files: &[(&str, &str)]) -> Room {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for (path, content) in files {
                write(&root.join("work").join(path), content);
            }
            fs::create_dir_all(root.join("work")).unwrap();
            fs::create_dir_all(root.join("state/caches")).unwrap();
            let files = ProtectedFiles::new(&[root.join("work")], &[], None, &root.join("state/caches"));
            files.begin(&BTreeSet::new(), RunningCommands::None);
            Room { dir, files }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join("work").join(path)
        }

        /// What a check says, by path.
        fn check(&self, opened: bool) -> Vec<String> {
            let scope = CheckScope { others: &BTreeSet::new(), opened, is_granted: &|_| false };
            let name = |path: &Path| path.strip_prefix(self.at("")).unwrap().display().to_string();
            let said = self.files.check(&scope).into_iter().map(|said| match said {
                Refusal::Protected { path, .. } => name(&path),
                Refusal::Changed { path, .. } => format!("changed {}", name(&path)),
                other => panic!("{other:?}"),
            });
            said.collect()
        }
    }

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn changes_are_undone_and_kept() {
        let room = Room::new(&[(".npmrc", "mine"), (".cargo/config.toml", "mine"), ("src/main.rs", "x")]);
        write(&room.at(".npmrc"), "evil");
        write(&room.at(".vscode/tasks.json"), "evil");
        fs::remove_dir_all(room.at(".cargo")).unwrap();
        std::os::unix::fs::symlink("src", room.at(".idea")).unwrap();
        fs::hard_link(room.at(".npmrc"), room.at(".mcp.json")).unwrap();
        write(&room.at("src/main.rs"), "y");
        let said = room.check(true);
        assert_eq!(said, [".cargo/config.toml", ".idea", ".mcp.json", ".npmrc", ".vscode/tasks.json"]);
        assert_eq!(fs::read_to_string(room.at(".npmrc")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(room.at(".cargo/config.toml")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(room.at("src/main.rs")).unwrap(), "y");
        let mut names: Vec<_> =
            fs::read_dir(room.at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".cargo", ".npmrc", "src"], "nothing else is left");
        let kept = fs::read_dir(room.at("../state/recovered")).unwrap().count();
        assert_eq!(kept, 3);
        assert_eq!(room.check(true), [] as [String; 0], "it is said once");
    }

    #[test]
    fn what_is_mounted_was_changed_by_the_user() {
        let room = Room::new(&[(".vscode/tasks.json", "1"), (".npmrc", "1")]);
        assert_eq!(room.files.held_names(false), [room.at(".vscode")]);
        write(&room.at(".vscode/tasks.json"), "2");
        write(&room.at(".vscode/launch.json"), "2");
        assert_eq!(room.check(false), ["changed .vscode/launch.json", "changed .vscode/tasks.json"]);
        assert_eq!(room.check(false), [] as [String; 0]);
        // What the user did before a command began is no change, though another one runs.
        write(&room.at(".vscode/tasks.json"), "3");
        room.files.begin(&BTreeSet::new(), RunningCommands::Held);
        assert_eq!(room.check(true), [] as [String; 0]);
        write(&room.at(".vscode/tasks.json"), "4");
        assert_eq!(room.check(true), [".vscode/tasks.json"]);
        assert_eq!(fs::read_to_string(room.at(".vscode/tasks.json")).unwrap(), "3");
    }

    #[test]
    fn what_our_own_tools_write_stays() {
        let room = Room::new(&[]);
        let paths = [room.at(".mcp.json"), room.at("src/main.rs")];
        room.files.begin_writes(&paths);
        write(&paths[0], "half");
        assert_eq!(room.check(true), [] as [String; 0]);
        write(&paths[0], "mine");
        room.files.end_writes(&paths);
        assert_eq!(room.check(true), [] as [String; 0]);
        write(&paths[0], "evil");
        assert_eq!(room.check(true), [".mcp.json"]);
        assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "mine");
    }

    #[test]
    fn too_much_under_a_name_goes_as_a_whole() {
        let room = Room::new(&[]);
        fs::create_dir(room.at(".idea")).unwrap();
        for number in 0..=super::super::limits::PROTECTED_ENTRIES_MAX {
            write(&room.at(".idea").join(number.to_string()), "");
        }
        assert_eq!(room.check(true), [".idea"]);
        assert!(!room.at(".idea").exists());
    }
}
