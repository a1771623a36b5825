//! Protected names outside of folders of git: `.vscode`, `.envrc`, `.npmrc` and the others of
//! `haft_protected`.
//!
//! What they hold is read before a command and compared after it. A change stays if the path had that content
//! in a commit that was reachable when the session began, so that `git switch` works, or if the user approved
//! it; everything else is taken away, what was there is put back, and the result says so. Nothing of this is
//! visible in a working directory.
//!
//! Names of class *held* that exist are mounted read-only as well, by [`guard`](super::guard), except for
//! commands that write repositories: git replaces these files when it switches branches.
//!
//! The sandbox can't determine which of several concurrent commands, or whether the user, made a change. A
//! change counts as made by a command while a command runs that could have made it, and the user is asked
//! where that can be done.

mod history;
mod judge;
mod live;
mod quarantine;
mod record;
mod redo;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use haft::files::GrantedRoot;
use haft::ports::{BackgroundFlag, ConfinementRefusal};
use haft::sync::lock;
use haft_protected::find_for_commands;

use self::history::{BlobQuery, CollectedBlobs, ReaderRoom, RepositoryHistory};
use self::judge::{KnownContents, NameChange};
pub(super) use self::live::LiveWatch;
use self::quarantine::QuarantineFolder;
use self::record::RecordedNames;
use self::redo::RedoableChange;
use self::snapshot::{LeafContent, NameSnapshot, is_held, is_or_leads_to_name};
use super::approved;
use super::{display_path, limits};
use crate::watch::{PauseHold, UndoneNotice};

pub(super) struct ProtectedFiles {
    /// Folders at whose top names count: working directories and the repositories in them.
    roots: Vec<PathBuf>,
    histories: Vec<RepositoryHistory>,
    /// What each of them has under names at its top, once that is known.
    collected: OnceLock<Vec<Option<CollectedBlobs>>>,
    reader_room: ReaderRoom,
    caches: PathBuf,
    quarantine: QuarantineFolder,
    state: Mutex<ProtectedState>,
}

#[derive(Default)]
struct ProtectedState {
    /// What is there, as far as it may be.
    saved: NameSnapshot,
    /// Names that existed when the first of the running commands began, so that they are mounted for all of
    /// them.
    mounted: BTreeSet<PathBuf>,
    known: KnownContents,
    /// Contents that no history has.
    rejected: BTreeSet<(PathBuf, LeafContent)>,
    /// Commands that run and may write.
    running: BTreeMap<usize, RunningCommand>,
    /// Commands that hear of what is undone while they run.
    listeners: BTreeMap<usize, UndoneListener>,
    /// Changes that were undone while commands ran and are not reported yet.
    undone: Vec<ConfinementRefusal>,
    /// Changes that were undone and can be made again, until the user has answered or the command has ended.
    redoable: BTreeMap<PathBuf, RedoableChange>,
    /// Paths that a tool of ours writes just now, and how many do.
    being_written: BTreeMap<PathBuf, usize>,
}

/// A command that may write.
pub(super) struct RunningCommand {
    /// Protected names that the user allowed it to write.
    pub(super) granted: Vec<GrantedRoot>,
    /// Existing names aren't held from it by mounts, since git replaces them.
    pub(super) opened: bool,
}

/// Hears of changes that are undone while a command runs.
pub(crate) struct UndoneListener {
    tell: Box<dyn Fn(UndoneNotice) + Send>,
    background: BackgroundFlag,
    /// What the command seems to have planted.
    planted: BTreeSet<PathBuf>,
}

impl UndoneListener {
    pub(crate) fn new(
        background: BackgroundFlag,
        tell: impl Fn(UndoneNotice) + Send + 'static,
    ) -> UndoneListener {
        UndoneListener { tell: Box::new(tell), background, planted: BTreeSet::new() }
    }
}

impl ProtectedFiles {
    /// `works` are tops of work trees, each with the folder in which git keeps its references and objects;
    /// `others` are names in any folder.
    pub(super) fn new(
        workspaces: &[PathBuf],
        works: &[(PathBuf, PathBuf)],
        search_path: Option<&OsStr>,
        caches: &Path,
        others: &BTreeSet<PathBuf>,
    ) -> ProtectedFiles {
        let inside = |work: &Path| workspaces.iter().any(|workspace| work.starts_with(workspace));
        let tops = works.iter().map(|(work, _)| work).filter(|work| inside(work));
        let roots: BTreeSet<PathBuf> = workspaces.iter().chain(tops).cloned().collect();
        let roots: Vec<PathBuf> = roots.into_iter().collect();
        let saved = NameSnapshot::take(&roots, others, &NameSnapshot::default());
        ProtectedFiles {
            roots,
            histories: works.iter().map(|(work, common)| RepositoryHistory::load(work, common)).collect(),
            collected: OnceLock::new(),
            reader_room: ReaderRoom::new(search_path, caches.join("git-reader"), workspaces),
            caches: caches.to_owned(),
            quarantine: QuarantineFolder::new(caches),
            state: Mutex::new(ProtectedState { saved, ..ProtectedState::default() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, ProtectedState> {
        lock(&self.state)
    }

    /// A command begins. What is there is the user's, as far as no command that runs could have made it;
    /// `records` are those of other sessions whose commands run.
    pub(super) fn begin(
        &self,
        number: usize,
        command: RunningCommand,
        others: &BTreeSet<PathBuf>,
        records: impl FnOnce() -> Vec<Vec<u8>>,
    ) {
        let mut state = self.state();
        if state.running.contains_key(&number) {
            return;
        }
        let now = NameSnapshot::take(&self.roots, others, &state.saved);
        if state.running.is_empty() {
            state.mounted = now.held_names().cloned().collect();
            state.saved = now;
            for record in records() {
                RecordedNames::parse(&record).apply(&mut state.saved);
            }
        } else if !state.is_opened() {
            let ProtectedState { saved, mounted, .. } = &mut *state;
            saved.adopt(&now, |path| is_below(&*mounted, path));
        }
        state.accept_saved();
        state.running.insert(number, command);
    }

    /// From now on existing names are held from a command by mounts.
    pub(super) fn close(&self, number: usize) {
        let mut state = self.state();
        let ProtectedState { running, mounted, saved, .. } = &mut *state;
        if let Some(command) = running.get_mut(&number) {
            command.opened = false;
            // What isn't there can't be.
            mounted.retain(|name| saved.has(name));
        }
    }

    /// A command has ended, and what it did was checked.
    pub(super) fn end(&self, number: usize) {
        let mut state = self.state();
        state.running.remove(&number);
        state.listeners.remove(&number);
    }

    /// A command that is about to begin hears of what is undone while it runs.
    pub(super) fn listen(&self, number: usize, listener: UndoneListener) {
        self.state().listeners.insert(number, listener);
    }

    /// Folders at whose top names count.
    fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// A path relative to the folders around it at whose top names count.
    fn relative_paths<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p Path> {
        self.roots.iter().filter_map(|root| path.strip_prefix(root).ok())
    }

    fn leads_to_name(&self, folder: &Path) -> bool {
        self.relative_paths(folder).any(is_or_leads_to_name)
    }

    /// Reads what every history has under names at its top, so that it is known before it is needed.
    fn collect_histories(&self) {
        let collect = |history: &RepositoryHistory| history.collect(&self.reader_room).ok();
        let _ = self.collected.set(self.histories.iter().map(collect).collect());
    }

    /// Judges what has appeared at a path while commands run, and undoes it.
    fn judge_now(&self, path: &Path) {
        let mut state = self.state();
        let Ok(metadata) = path.symlink_metadata() else { return };
        let now = LeafContent::read(path, &metadata);
        let before = state.saved.leaf(path).cloned();
        let is_held_name = self.relative_paths(path).any(is_held);
        let change = NameChange { path, before: before.as_ref(), now: Some(&now) };
        if metadata.is_dir()
            || !is_held_name
            || state.running.is_empty()
            || before.as_ref() == Some(&now)
            || state.is_allowed(path)
            || state.is_mounted(path)
        {
            return;
        }
        self.look_up(&mut state, std::slice::from_ref(&change));
        if judge::change_stays(&change, &state.known) {
            return;
        }
        let Some((refusal, redoable)) = self.undo(&change) else { return };
        state.undone.push(refusal);
        state.undone.truncate(limits::REPORTED_MAX);
        state.tell(path, redoable);
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
        self.relative_paths(path).any(|relative| find_for_commands(relative).is_some())
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
        let ProtectedState { being_written, saved, .. } = &mut *state;
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
        let now = NameSnapshot::take(&self.roots, &others, saved);
        saved.adopt(&now, |path| written.iter().any(|written| path.starts_with(written)));
        being_written.retain(|_, count| *count > 0);
        state.accept_saved();
    }

    /// Compares with what was there before the commands that run, takes away and puts back, and says so.
    /// `others` are names in any folder.
    pub(super) fn check(&self, others: &BTreeSet<PathBuf>) -> Vec<ConfinementRefusal> {
        let mut state = self.state();
        if state.running.is_empty() {
            // None has begun, so what is there is the user's.
            return Vec::new();
        }
        self.compare(&mut state, others)
    }

    fn compare(&self, state: &mut ProtectedState, others: &BTreeSet<PathBuf>) -> Vec<ConfinementRefusal> {
        let now = NameSnapshot::take(&self.roots, others, &state.saved);
        let before = std::mem::take(&mut state.saved);
        let mut said = std::mem::take(&mut state.undone);
        let mut changes = Vec::new();
        for change in all_changes(&before, &now).into_iter().filter(|change| !state.is_allowed(change.path)) {
            if state.is_mounted(change.path) {
                let done =
                    "no command can write it, so you or another program did that; look at it if you didn't";
                said.push(ConfinementRefusal::Changed { path: change.path.to_owned(), done: done.into() });
            } else {
                changes.push(change);
            }
        }
        self.look_up(state, &changes);
        changes.retain(|change| !judge::change_stays(change, &state.known));
        for path in now.too_large.difference(&before.too_large) {
            changes.retain(|change| !change.path.starts_with(path) || change.before.is_some());
            changes.insert(0, NameChange { path, before: None, now: Some(&LeafContent::Other) });
        }
        for (refusal, redoable) in changes.iter().filter_map(|change| self.undo(change)) {
            said.push(refusal);
            state.keep_redoable(redoable, None);
        }
        for refusal in &said {
            if let ConfinementRefusal::Protected { path, .. } = refusal {
                self.remove_new_folders(path, &before);
            }
        }
        // What was undone isn't there any more.
        let is_as_seen = changes.is_empty() && said.is_empty();
        state.saved = if is_as_seen { now } else { NameSnapshot::take(&self.roots, others, &now) };
        state.accept_saved();
        said
    }

    /// What is reported, and what is needed to make the change again. None where another session was quicker.
    fn undo(&self, change: &NameChange<'_>) -> Option<(ConfinementRefusal, Option<RedoableChange>)> {
        let path = change.path;
        let root = self.root_of(path);
        let taken = change.now.map(|_| self.quarantine.take(path));
        let is_gone = matches!(&taken, Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound);
        if is_gone && change.before.is_none() {
            return None;
        }
        let restored = change.before.map(|content| quarantine::restore_content(root, path, content));
        let executed = haft_protected::find(path).map_or("another program", |found| found.row.executed);
        let described = quarantine::describe_outcome(taken.as_ref(), restored);
        let redoable = self.redoable_change(change, taken.as_ref(), executed, &described);
        let done = format!(
            "a command changed it, and what it holds is executed by another program ({executed}); {described}; to keep such a \
             change, allow it (`Edit({})`)",
            display_path(path)
        );
        Some((ConfinementRefusal::Protected { path: path.to_owned(), done }, redoable))
    }

    /// Removes the empty folders that a command made for a file that was taken away.
    fn remove_new_folders(&self, path: &Path, before: &NameSnapshot) {
        let root = self.root_of(path);
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
            let is_new = self.leads_to_name(folder) && !before.is_folder(folder);
            if !is_new || super::undo::remove_empty_folder(folder).is_err() {
                break;
            }
        }
    }

    /// Looks up what isn't known of the contents in these changes.
    fn look_up(&self, state: &mut ProtectedState, changes: &[NameChange<'_>]) {
        let ProtectedState { known, rejected, .. } = state;
        known.stored.clear();
        let mut asked: BTreeMap<(usize, bool), Vec<(PathBuf, LeafContent)>> = BTreeMap::new();
        for change in changes {
            let Some(content) = change.now.or(change.before) else { continue };
            let key = (change.path.to_owned(), content.clone());
            let is_new = change.now.is_some();
            if is_new && (known.accepted.contains(&key) || rejected.contains(&key)) {
                continue;
            }
            if is_new && approved::is_approved(&self.caches, change.path, content.blob()) {
                known.accepted.insert(key);
                continue;
            }
            let Some(at) = self.history_of(change.path).filter(|_| content.blob().is_some()) else {
                continue;
            };
            match self.is_collected(at, change.path, content).filter(|_| is_new) {
                Some(true) => drop(known.accepted.insert(key)),
                Some(false) => drop(rejected.insert(key)),
                None => asked.entry((at, is_new)).or_default().push(key),
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
        history: &RepositoryHistory,
        contents: &[(PathBuf, LeafContent)],
        is_new: bool,
    ) -> std::io::Result<BTreeSet<usize>> {
        let wanted: Vec<BlobQuery<'_>> = contents
            .iter()
            .map(|(path, content)| BlobQuery {
                path: path.strip_prefix(&history.work).unwrap_or(path),
                blob: content.blob().unwrap_or_default(),
            })
            .collect();
        if is_new {
            history.find(&wanted, &self.reader_room)
        } else {
            history.find_stored(&wanted, &self.reader_room)
        }
    }

    /// Whether a history has this content, if that is known already.
    fn is_collected(&self, at: usize, path: &Path, content: &LeafContent) -> Option<bool> {
        let path = path.strip_prefix(&self.histories[at].work).ok()?;
        let collected = self.collected.get()?.get(at)?.as_ref()?;
        // Only names at the top are collected.
        let is_top = path.iter().next().is_some_and(|first| is_or_leads_to_name(Path::new(first)));
        is_top.then(|| collected.contains(BlobQuery { path, blob: content.blob().unwrap_or_default() }))
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

impl ProtectedState {
    /// Whether some command may change names that exist.
    fn is_opened(&self) -> bool {
        self.running.values().any(|command| command.opened)
    }

    /// Whether no command can change a path, because it is mounted for all of them.
    fn is_mounted(&self, path: &Path) -> bool {
        !self.is_opened() && is_below(&self.mounted, path)
    }

    /// Whether the user allowed a command to write a path, or a tool of ours writes it.
    fn is_allowed(&self, path: &Path) -> bool {
        let mut granted = self.running.values().flat_map(|command| &command.granted);
        granted.any(|root| root.covers(path)) || is_below(self.being_written.keys(), path)
    }

    /// Tells running commands of a change that was undone. One decides, in the foreground if one is there,
    /// and the others there are paused meanwhile: any of them may have made the change.
    fn tell(&mut self, path: &Path, redoable: Option<RedoableChange>) {
        let ProtectedState { running, listeners, .. } = self;
        let in_foreground = |listener: &UndoneListener| !listener.background.has_begun();
        let number =
            listeners.iter().max_by_key(|(_, listener)| in_foreground(listener)).map(|(number, _)| *number);
        let change = redoable.as_ref().map(|redoable| redoable.change.clone());
        let hold = Arc::new(PauseHold::default());
        let others = listeners.iter().filter(|(other, _)| number.is_some_and(|number| number != **other));
        for (_, listener) in others.filter(|(_, listener)| in_foreground(listener)) {
            (listener.tell)(UndoneNotice::Pause(Arc::downgrade(&hold)));
        }
        if let Some(listener) = number.and_then(|number| listeners.get_mut(&number)) {
            // With several running commands, the one that made the change is unknown.
            let is_alone = running.len() == 1 && in_foreground(listener);
            // git checks out many files, and each of them once.
            let is_git = running.values().any(|command| command.opened);
            let is_again =
                is_alone && (listener.planted.contains(path) || !is_git && !listener.planted.is_empty());
            listener.planted.extend(is_alone.then(|| path.to_owned()));
            (listener.tell)(UndoneNotice::Decide { change, is_again, hold });
        }
        self.keep_redoable(redoable, number);
    }

    /// What is there is the user's.
    fn accept_saved(&mut self) {
        let leaves = self.saved.leaves().map(|(path, content)| (path.to_owned(), content.clone()));
        self.known.accepted.extend(leaves);
    }
}

/// Every path at which the content differs.
fn all_changes<'a>(before: &'a NameSnapshot, now: &'a NameSnapshot) -> Vec<NameChange<'a>> {
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
            let files = ProtectedFiles::new(
                &[root.join("work")],
                &[],
                None,
                &root.join("state/caches"),
                &BTreeSet::new(),
            );
            files.begin(0, held(), &BTreeSet::new(), Vec::new);
            Room { dir, files }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join("work").join(path)
        }

        /// What a check says, by path.
        fn check(&self, opened: bool) -> Vec<String> {
            self.files.state().running.values_mut().for_each(|command| command.opened = opened);
            let name = |path: &Path| path.strip_prefix(self.at("")).unwrap().display().to_string();
            let said = self.files.check(&BTreeSet::new()).into_iter().map(|said| match said {
                ConfinementRefusal::Protected { path, .. } => name(&path),
                ConfinementRefusal::Changed { path, .. } => format!("changed {}", name(&path)),
                other => panic!("{other:?}"),
            });
            said.collect()
        }
    }

    fn held() -> RunningCommand {
        RunningCommand { granted: Vec::new(), opened: false }
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
        let kept = fs::read_dir(room.at("../state/caches/recovered/protected")).unwrap().count();
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
        room.files.begin(1, held(), &BTreeSet::new(), Vec::new);
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

    /// What a command of another session has planted isn't the user's, though it was there first.
    #[test]
    fn a_session_that_begins_beside_another_takes_over_what_that_knows() {
        let room = Room::new(&[(".npmrc", "mine")]);
        let record = room.files.to_record();
        write(&room.at(".npmrc"), "evil");
        write(&room.at(".vscode/tasks.json"), "evil");
        let caches = room.at("../state/caches");
        let other = ProtectedFiles::new(&[room.at("")], &[], None, &caches, &BTreeSet::new());
        other.begin(0, held(), &BTreeSet::new(), || vec![record]);
        assert_eq!(room.check(true), [".npmrc", ".vscode/tasks.json"]);
        assert_eq!(other.check(&BTreeSet::new()), []);
        assert_eq!(fs::read_to_string(room.at(".npmrc")).unwrap(), "mine");
        assert!(!room.at(".vscode").exists());
    }
}
