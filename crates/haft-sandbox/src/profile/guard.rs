//! Names that must stay as they are, because what they hold runs by itself or says what runs.
//!
//! Before a command they are held in its view: read-only, with every folder above them pinned, since renaming
//! a folder would replace them, and with every link that leads to them. After it they are compared with what
//! they were. What the kernel held and what has changed all the same was changed by somebody else, mostly the
//! user: that is said and left alone. What could not be held is put back: names that git would obey as soon
//! as they exist, and a configuration of git that a command had to write.

mod cleanup;
mod config_check;
mod config_snapshots;
mod git;
mod level;
mod missing;
mod new_repos;
mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessRequest};
use haft::sync::lock;
use haft_git::layout::FolderKind;

use self::cleanup::is_obeyed_file;
use self::config_snapshots::ConfigSnapshots;
use super::configured_paths::ConfiguredPaths;
use super::git_folders::{FolderId, GitFolders};
use super::gitlinks::GitIndexes;
use super::mount_map::MountMap;
use super::name_comparison::NameWatch;
use super::nested_repos::NestedRepositories;
use super::protected::{LiveWatch, ProtectedFiles, RunningCommand};
use super::recovered_files::RecoveredFiles;
use super::repository::{self, GitRepository};
use super::symlink_trace::trace_symlinks;
use super::undo_journal::{RecordFile, UndoJournal, UndoRecord};
use super::workspace_scan::WorkspaceScan;
use super::{ProfileConfig, display_path, limits, request_address, undo};

pub(super) struct RepositoryGuard {
    /// Working directories that commands may write.
    workspaces: Vec<PathBuf>,
    /// These, and what else commands may write on the host.
    written: Vec<PathBuf>,
    /// What rules deny to write by name: held if it is there, and put aside if a command makes it.
    denied: Vec<PathBuf>,
    files: Arc<ProtectedFiles>,
    live: LiveWatch,
    /// Held if they are there.
    scripts: Vec<PathBuf>,
    /// Links and folders that lead to names and scripts.
    through: Vec<PathBuf>,
    /// What links among the names lead to, and isn't there.
    missing: Vec<PathBuf>,
    /// Held if they are there, and not looked at afterwards: this program itself writes them.
    own: Vec<PathBuf>,
    home: Option<PathBuf>,
    /// The session's temporary folder.
    temp: PathBuf,
    /// Where changes are kept that are undone.
    recovered: RecoveredFiles,
    journal: UndoJournal,
    watch: NameWatch,
    /// Whether names are held at all.
    holds: bool,
    state: Mutex<GuardState>,
}

#[derive(Default)]
struct GuardState {
    repositories: Vec<GitRepository>,
    /// What git keeps of these, as the user has it.
    administrations: BTreeMap<PathBuf, GitFolders>,
    /// Folders of worktrees that commands have made.
    made: BTreeSet<(PathBuf, FolderId)>,
    /// What could not be taken away yet.
    unsettled: BTreeSet<PathBuf>,
    /// Folders whose repository, the user's, was removed or replaced while a command ran.
    replaced: BTreeSet<PathBuf>,
    /// Links among the names, and where they lead.
    links: BTreeMap<PathBuf, PathBuf>,
    configs: ConfigSnapshots,
    /// Names that nothing can stand in for, since the folder isn't there that they would lie in.
    unheld: BTreeSet<PathBuf>,
    /// Files that were made for a call.
    empty: Vec<(PathBuf, Option<undo::ChangeTime>)>,
    /// How many of the repositories were known when a request's child was started, and are therefore held
    /// from it.
    held: BTreeMap<usize, usize>,
    /// Those of them that can't write the folders of git that were known then.
    beside: BTreeSet<usize>,
    indexes: GitIndexes,
    nested: NestedRepositories,
    /// Names that weren't there when the first of the running commands began and must not come to be.
    awaited: Vec<(PathBuf, PathBuf)>,
    /// These, and which repositories no command has made, for whoever comes after us.
    known: Option<(UndoRecord, RecordFile)>,
    /// Whether it is kept what protected names held when the first of the running commands began, for whoever
    /// comes after us.
    keeps_files: bool,
    /// What is to be said when the next command has ended.
    late: Vec<ConfinementRefusal>,
    /// There was too much to look for repositories in.
    gave_up: bool,
}

impl Drop for RepositoryGuard {
    fn drop(&mut self) {
        self.leave_configs(&mut self.state());
    }
}

impl RepositoryGuard {
    pub(super) fn new(
        config: &ProfileConfig,
        workspaces: Vec<PathBuf>,
        found: &mut WorkspaceScan,
        notes: &mut Vec<String>,
    ) -> Result<RepositoryGuard, String> {
        let copies = config.caches.join("git-configs");
        let kept = |error| {
            format!("no copy of what commands may write can be kept in `{}`: {error}", display_path(&copies))
        };
        let journal = UndoJournal::open(copies.clone()).map_err(kept)?;
        let home = config.home.as_deref();
        let recovered = RecoveredFiles::beside(&config.caches);
        let mut recorded = Vec::new();
        let undo = |record: &UndoRecord, since| {
            recorded.extend(Some(record.files.clone()).filter(|files| !files.is_empty()));
            recovery::undo_record(record, since, (&workspaces, &recovered), notes)
        };
        journal.left(&workspaces, undo).map_err(kept)?;
        let mut state = GuardState::default();
        for work in &found.repositories {
            // What lies in a folder that commands can't write needs no guard; its administration may,
            // elsewhere.
            let Some((mut repository, why)) = repository::find_repository(work, home) else { continue };
            // Only the folder that was asked for vouches for an administration elsewhere.
            let is_top = found.tops.contains(work);
            if is_top || config.workspace.contains(work) {
                notes.extend(why)
            } else {
                repository.elsewhere.clear()
            }
            let git = work.join(".git");
            repository.elsewhere.extend(Some(git).filter(|git| is_top && git.is_dir()));
            state.repositories.push(repository);
        }
        if let Some(first) = found.more_repositories.first() {
            notes.push(format!(
                "there are more than {} repositories; of `{}` and {} others commands can't write `.git`",
                limits::REPOSITORIES_MAX,
                display_path(first),
                found.more_repositories.len() - 1
            ));
        }
        state.repositories.extend(found.more_repositories.iter().map(|work| GitRepository::whole(work)));
        state.repositories.extend(found.bare.iter().filter_map(|folder| repository::find_bare(folder, home)));
        for workspace in &workspaces {
            let is_one = state.repositories.iter().any(|repository| repository.work == *workspace);
            if let Some(above) = repository::repository_above(workspace)
                .filter(|_| !is_one && !workspace.join(".git").exists())
                && config.workspace.contains(workspace)
                && !found.tops.iter().any(|top| top == above)
            {
                notes.push(format!(
                    "the repository of `{}` begins above it, in `{}`; commands don't see it: start there, or add it",
                    display_path(&workspace),
                    display_path(&above)
                ));
            }
        }
        let remembered =
            workspaces.iter().filter(|root| !found.too_much.contains(root)).chain([&config.temp]);
        let remembered = remembered.cloned().collect();
        state.nested = NestedRepositories::new(remembered, found.unreadable.clone(), found.folders.take())
            .with_denied(config.rules.unwritable.clone(), std::mem::take(&mut found.denied));
        let works: Vec<(PathBuf, PathBuf)> = state
            .repositories
            .iter()
            .filter(|repository| repository.kind() == FolderKind::Git)
            .filter_map(|repository| Some((repository.work.clone(), repository.config.parent()?.to_owned())))
            .take(limits::REPOSITORIES_MAX)
            .collect();
        let search_path = config.variables.iter().find(|(name, _)| name == "PATH");
        let search_path = search_path.map(|(_, folders)| folders.as_os_str());
        let others = state.protected_names(&workspaces);
        for record in &recorded {
            let undone = ProtectedFiles::undo_since(record, &others, search_path, &config.caches);
            notes.extend(recovery::words_of(undone));
        }
        let files = ProtectedFiles::new(&workspaces, &works, search_path, &config.caches, &others);
        let files = Arc::new(files);
        let denied = config.rules.unwritable_paths.clone();
        let names: Vec<PathBuf> = files.held_names(false).into_iter().chain(denied.iter().cloned()).collect();
        let mut led = ConfiguredPaths::default();
        let plain = plain_folders(&workspaces);
        for name in names.iter().filter(|name| !found.unwritable.contains(name)) {
            led.add_links(name, &plain);
        }
        // A folder in one of them may lead anywhere, and so may what isn't there; what is read as text runs
        // nothing.
        led.there.retain(|path| path.is_file() && path.extension().is_none_or(|end| end != "md"));
        led.missing.clear();
        let mut scripts: Vec<PathBuf> = found.unwritable.clone();
        for script in names.iter().filter(|name| name.is_symlink()).chain(&config.scripts) {
            let Some(way) = trace_symlinks(script) else { continue };
            led.through.extend(way.through);
            if way.there { scripts.push(way.end) } else { led.missing.push(way.end) }
        }
        scripts.append(&mut led.there);
        for list in [&mut scripts, &mut led.through, &mut led.missing] {
            list.sort();
            list.dedup();
        }
        let state = Mutex::new(state);
        let own = config.own.clone();
        let (home, temp, watch) = (config.home.clone(), config.temp.clone(), NameWatch::default());
        let (through, missing) = (led.through, led.missing);
        let written = workspaces.iter().chain([&config.temp, &config.caches]).cloned().collect();
        let guard = RepositoryGuard {
            workspaces,
            written,
            denied,
            files,
            live: LiveWatch::default(),
            scripts,
            through,
            missing,
            own,
            home,
            temp,
            recovered,
            journal,
            watch,
            holds: true,
            state,
        };
        guard.learn(&mut guard.state(), usize::MAX);
        notes.extend(guard.whole());
        Ok(guard)
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        lock(&self.state)
    }

    /// Folders outside of the working directories that git must be able to write.
    pub(super) fn elsewhere(&self) -> Vec<PathBuf> {
        let state = self.state();
        let inside = |path: &PathBuf| self.workspaces.iter().any(|workspace| path.starts_with(workspace));
        let all = state.repositories.iter().flat_map(|repository| &repository.elsewhere);
        all.filter(|path| !inside(path)).cloned().collect()
    }

    /// Whether a path is one of the names that are held or lies in one.
    pub(super) fn is_within(&self, path: &Path) -> bool {
        let is_plain = plain_folders(&self.workspaces).iter().any(|folder| path.starts_with(folder));
        !is_plain && self.fixed_paths(&[], false).iter().any(|name| path.starts_with(name))
    }

    /// All names that commands are kept from.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        let mut names = self.fixed_paths(&[], false);
        names.extend(self.state().links.keys().cloned());
        names
    }

    /// Protected names outside of folders of git.
    pub(super) fn files(&self) -> &ProtectedFiles {
        &self.files
    }

    /// Remembers a file that was made for a call.
    pub(super) fn made_empty(&self, path: &Path) {
        let made = undo::ChangeTime::at(path);
        self.state().empty.push((path.to_owned(), made));
    }

    /// Everything that stays as it is, but for a configuration that the command may write, and, if it is
    /// opened to git, for what git replaces in a work tree.
    fn fixed_paths(&self, but: &[PathBuf], opened: bool) -> Vec<PathBuf> {
        let names = self.files.held_names(opened);
        let state = self.state();
        let administrations = state.administrations.values().flat_map(GitFolders::held);
        let of_git = state.repositories.iter().flat_map(|repository| repository.fixed.iter().cloned());
        let of_git = of_git.chain(administrations.map(|(path, _)| path));
        let of_git = of_git.filter(|path| !but.contains(path));
        names.into_iter().chain(self.denied.iter().chain(&self.scripts).cloned()).chain(of_git).collect()
    }

    /// Those of which it is told when they have changed: not what other programs keep in folders of git.
    fn watched(&self) -> Vec<PathBuf> {
        let state = self.state();
        let obeyed = state.administrations.values().flat_map(GitFolders::held);
        let obeyed = obeyed.filter(|(_, obeyed)| *obeyed).map(|(path, _)| path);
        let of_git = state.repositories.iter().flat_map(|repository| &repository.fixed);
        self.denied.iter().chain(&self.scripts).chain(of_git).cloned().chain(obeyed).collect()
    }

    /// Takes what came to be while no command ran for the user's, and holds it from now on like everything of
    /// theirs.
    fn begin(&self, request: &ProcessRequest) -> Result<(), String> {
        let closes_git = self.closes_git(request);
        let mut state = self.state();
        if state.held.is_empty() {
            state.links.clear();
            state.unheld.clear();
            self.find_again(&mut state);
            state.replaced.clear();
            state.hold_made_by_user();
            for entry in state.nested.begin() {
                let room = state.repositories.len() < 2 * limits::REPOSITORIES_MAX;
                if state.repositories.iter().any(|repository| repository.git == entry) {
                    continue;
                }
                let found = if room { repository::find_entry(&entry, self.home.as_deref()) } else { None };
                let whole = || entry.parent().filter(|_| entry.ends_with(".git")).map(GitRepository::whole);
                let Some(mut repository) = found.or_else(whole) else { continue };
                repository.elsewhere.clear();
                state.repositories.push(repository);
            }
            self.learn(&mut state, usize::MAX);
            state.awaited = self.awaited_names(&state);
        } else if state.held.keys().all(|running| state.beside.contains(running)) {
            // None of them can write these.
            let count = state.held.values().min().copied().unwrap_or_default();
            self.learn(&mut state, count);
        }
        let granted = request.access.write.iter().filter(|root| self.files.is_protected(&root.path));
        let command =
            RunningCommand { granted: granted.cloned().collect(), opened: !closes_git || !self.holds };
        self.live.begin(&self.files, || state.nested.folders());
        if command.opened {
            self.live.expect_git(&self.files);
        }
        let others = state.protected_names(&self.workspaces);
        self.files.begin(request_address(request), command, &others, || self.journal.living_files());
        if !state.keeps_files {
            self.journal.keep_files(self.files.to_record()).map_err(|error| {
                format!("no record can be kept of what other programs execute here: {error}")
            })?;
            state.keeps_files = true;
        }
        let held = state.repositories.len();
        state.held.insert(request_address(request), held);
        if closes_git {
            state.beside.insert(request_address(request));
        }
        self.keep_known(&mut state)?;
        self.undo_configs(&mut state);
        Ok(())
    }

    /// Holds every name that a child could change.
    pub(super) fn hold(&self, places: &mut MountMap, request: &ProcessRequest) -> Result<(), String> {
        self.begin(request)?;
        let configs = self.configs_of(request);
        for workspace in &self.workspaces {
            // One that lies in another: where it is can't be changed either.
            places.protect(workspace);
        }
        if self.state().beside.contains(&request_address(request)) {
            for folder in self.folders_of_git() {
                places.close(&folder);
            }
        }
        let fixed = self.fixed_paths(&configs, !self.closes_git(request));
        let through: Vec<PathBuf> = {
            let state = self.state();
            let of_git = state.repositories.iter().flat_map(|repository| &repository.through);
            self.through.iter().chain(of_git).cloned().collect()
        };
        let held = |path: &&PathBuf| places.writable_root(path).is_some();
        if fixed.len() + through.len() > limits::HELD_NAMES_MAX
            && fixed.iter().chain(&through).filter(held).count() > limits::HELD_NAMES_MAX
        {
            return Err(format!(
                "more than {} names would have to be kept from commands, and nobody can hold so many: look at what lies in \
                 the folders of git here",
                limits::HELD_NAMES_MAX
            ));
        }
        for path in &through {
            self.hold_through(places, path);
        }
        for path in fixed.iter().chain(&self.own).chain(&request.access.never_written) {
            let found = path.symlink_metadata();
            if found.as_ref().is_ok_and(|found| found.is_symlink()) {
                self.hold_link(places, path);
            }
            if places.writable_root(path).is_none() {
                continue;
            }
            match found {
                Ok(found) => {
                    if found.is_file() && found.nlink() > 1 && (self.is_of_git(path) || is_obeyed_file(path))
                    {
                        undo::one_name(path).map_err(|error| {
                            format!(
                                "`{}` has another name, by which commands could write it, and can't be parted from it: \
                                 {error}",
                                display_path(path)
                            )
                        })?;
                    }
                    places.protect(path);
                }
                Err(_) if self.is_denied(path) => drop(self.state().unheld.insert(path.clone())),
                Err(_) => {}
            }
        }
        for config in &configs {
            places.pin_above(config);
            self.open_config(config, request)?;
        }
        let missing: Vec<PathBuf> = {
            let state = self.state();
            let of_git = state.repositories.iter().flat_map(|repository| &repository.missing);
            self.missing.iter().chain(of_git).cloned().collect()
        };
        for path in &missing {
            // Only what is there can be pinned.
            let there = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
            if let Some(there) = there {
                places.pin_above(&there.join("x"));
            }
        }
        for plain in plain_folders(&self.workspaces) {
            let may = request.confinement == ConfinementLevel::Session && places.shows(&plain);
            if may && plain.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                places.bind(&plain, true);
            }
        }
        self.watch.refresh(&self.watched());
        Ok(())
    }

    /// Files that configuration or a link names and that weren't there: git would obey them as soon as they
    /// are.
    fn missing_names(&self, state: &GuardState) -> BTreeSet<PathBuf> {
        let of_git = state.repositories.iter();
        let of_git = of_git.flat_map(|repository| repository.missing.iter().chain(&repository.hooks));
        self.missing.iter().chain(of_git).cloned().collect()
    }

    /// The names that commands may make and must not, each with the folder that it is below.
    fn awaited_names(&self, state: &GuardState) -> Vec<(PathBuf, PathBuf)> {
        let elsewhere = state.repositories.iter().flat_map(|repository| &repository.elsewhere);
        let roots: Vec<&PathBuf> = self.workspaces.iter().chain(elsewhere).collect();
        let denied = self.denied.iter().filter(|path| self.is_denied(path)).cloned();
        let named = self.missing_names(state).into_iter().chain(denied);
        let named = named.filter(|path| path.symlink_metadata().is_err());
        let below = |path: PathBuf| {
            let root = roots.iter().find(|root| path.starts_with(root))?;
            Some((root.to_path_buf(), path))
        };
        named.filter_map(below).collect()
    }

    /// A name that is a link: all that leads on from it is held, and what it leads to.
    fn hold_link(&self, places: &mut MountMap, path: &Path) {
        match trace_symlinks(path) {
            Some(way) => {
                for through in &way.through {
                    self.hold_through(places, through);
                }
                if way.there {
                    places.protect(&way.end);
                }
            }
            None => self.hold_through(places, path),
        }
    }

    /// What leads to a name: a link as it is, a folder in its place. Where the kernel can't hold a link, it
    /// is looked at afterwards.
    fn hold_through(&self, places: &mut MountMap, path: &Path) {
        if places.writable_root(path).is_none() {
            return;
        }
        match fs::read_link(path) {
            Ok(to) => {
                self.state().links.insert(path.to_owned(), to);
                places.protect(path);
            }
            Err(_) if path.is_dir() => places.pin_above(&path.join("x")),
            Err(_) => {}
        }
    }

    /// All folders of git that commands could write.
    pub(super) fn folders_of_git(&self) -> Vec<PathBuf> {
        let state = self.state();
        let of_repositories = state.repositories.iter().flat_map(|repository| {
            let git = Some(repository.git.clone()).filter(|git| !git.is_symlink() && git.is_dir());
            repository.roots.iter().cloned().chain(git)
        });
        let mut all: BTreeSet<PathBuf> =
            state.administrations.keys().cloned().chain(of_repositories).collect();
        // In a working directory that is a bare repository what git doesn't obey is plain work.
        let bare = state.repositories.iter().filter(|repository| repository.kind() == FolderKind::Bare);
        for folder in bare.map(|repository| &repository.git) {
            if self.workspaces.iter().any(|workspace| workspace.starts_with(folder)) {
                all.remove(folder);
            }
        }
        let inside = |folder: &PathBuf| all.iter().any(|other| other != folder && folder.starts_with(other));
        all.iter().filter(|folder| !inside(folder)).cloned().collect()
    }

    /// What a child may write, and is to be kept from: folders of git, and names that git replaces.
    pub(super) fn to_close(&self, request: &ProcessRequest) -> Vec<PathBuf> {
        let state = self.state();
        let writes = state.held.contains_key(&request_address(request))
            && !state.beside.contains(&request_address(request));
        drop(state);
        if !writes {
            return Vec::new();
        }
        let kept_held = self.files.held_names(true);
        let opened = self.files.held_names(false).into_iter().filter(|name| !kept_held.contains(name));
        self.folders_of_git().into_iter().chain(opened).collect()
    }

    /// Looks at what a child did in folders of git, which are closed to it from now on.
    pub(super) fn moved(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        let mut said = Vec::new();
        self.look_at_git(request, true, &mut said);
        self.check_files(&mut said);
        self.files.close(request_address(request));
        self.state().beside.insert(request_address(request));
        self.watch.learn(&self.watched());
        told_once(&mut said);
        said
    }

    /// Undoes what was done in folders of git. `afresh`: somebody may hold files of it open.
    fn look_at_git(&self, request: &ProcessRequest, afresh: bool, said: &mut Vec<ConfinementRefusal>) {
        // Who runs beside others can't have written there; what came to be there is the user's, or is looked
        // at when that command ends that made it.
        let could_write = !self.state().beside.contains(&request_address(request));
        self.look_at_configs(request, could_write, said);
        self.put_links_back(said);
        self.forget_replaced();
        if could_write {
            self.settle(afresh, said);
        }
        self.put_missing_aside(said);
        self.look_for_new_repositories(request, said);
    }

    /// Whether children of other requests run that may write.
    pub(super) fn others_run(&self, request: &ProcessRequest) -> bool {
        self.state().held.keys().any(|running| *running != request_address(request))
    }

    /// Says that nothing can be held here, so that commands may change every name.
    pub(super) fn hold_nothing(&mut self) {
        self.holds = false;
    }

    /// Whether rules deny a name in a working directory.
    fn is_denied(&self, path: &Path) -> bool {
        let inside = |folder: &PathBuf| path != folder && path.starts_with(folder);
        self.denied.iter().any(|denied| denied == path) && self.workspaces.iter().any(inside)
    }

    /// Undoes what commands did to protected names outside of folders of git.
    fn check_files(&self, said: &mut Vec<ConfinementRefusal>) {
        let others = self.state().protected_names(&self.workspaces);
        said.extend(self.files.check(&others));
    }

    /// Compares, puts back, and says what was done. Where others still run, it may have been one of them.
    pub(super) fn finished(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        let others = self.others_run(request);
        let mut said = std::mem::take(&mut self.state().late);
        let empty = std::mem::take(&mut self.state().empty);
        for (path, made) in empty {
            undo::remove_if_untouched(&path, made);
        }
        self.look_at_git(request, others, &mut said);
        self.check_files(&mut said);
        // Not before: who starts a command meanwhile would take what this one made for the user's.
        self.forget_command(request);
        // A configuration that another command may write just now is looked at when that one ends.
        let open = self.state().configs.open();
        for path in self.watch.changed(&self.watched(), &open) {
            let told = |said: &ConfinementRefusal| match said {
                ConfinementRefusal::Protected { path: told, .. }
                | ConfinementRefusal::Changed { path: told, .. } => path.starts_with(told),
                _ => false,
            };
            let told = said.iter().any(told);
            let granted =
                request.access.write.iter().any(|root| root.covers(&path) && self.is_within(&root.path));
            if !told && !granted {
                // What isn't there can't be held.
                let made = self.watch.is_new(&path) && self.denied.contains(&path);
                let done = match made {
                    _ if !self.holds => {
                        "nothing is held here from commands, so this one may have done that; look at it if it wasn't you"
                    }
                    true => {
                        "it wasn't there before, so a command may have made it; look at it if it wasn't you"
                    }
                    false => {
                        "no command can write it, so you or another program did that; look at it if you didn't"
                    }
                };
                said.push(ConfinementRefusal::Changed { path, done: done.into() });
            }
        }
        if others {
            said = said.into_iter().map(by_one_of_them).collect();
        }
        told_once(&mut said);
        said.truncate(limits::REPORTED_MAX);
        said
    }

    /// Whether a path is one that git obeys.
    fn is_of_git(&self, path: &Path) -> bool {
        self.state().repositories.iter().any(|repository| repository.fixed.iter().any(|fixed| fixed == path))
    }
}

impl GuardState {
    /// Names in working directories that are protected in any folder.
    fn protected_names(&self, workspaces: &[PathBuf]) -> BTreeSet<PathBuf> {
        let mut names = self.nested.protected();
        names.retain(|path| workspaces.iter().any(|workspace| path.starts_with(workspace)));
        names
    }

    /// What configuration names and what wasn't there is held once the user has made it.
    fn hold_made_by_user(&mut self) {
        for repository in &mut self.repositories {
            let GitRepository { missing, hooks, fixed, .. } = repository;
            for named in [missing, hooks] {
                fixed.extend(named.extract_if(.., |path| undo::is_there(path)));
            }
            fixed.sort();
            fixed.dedup();
        }
    }
}

/// Folders in protected ones that are plain work.
fn plain_folders(workspaces: &[PathBuf]) -> Vec<PathBuf> {
    let names: Vec<String> = haft_protected::plain_folders().collect();
    workspaces.iter().flat_map(|workspace| names.iter().map(|name| workspace.join(name))).collect()
}

/// Leaves each once.
fn told_once(said: &mut Vec<ConfinementRefusal>) {
    let mut told: Vec<ConfinementRefusal> = Vec::new();
    for refusal in said.drain(..) {
        if !told.contains(&refusal) {
            told.push(refusal);
        }
    }
    *said = told;
}

/// Folders with a repository that is held.
fn repository_roots(state: &GuardState) -> Vec<PathBuf> {
    state.repositories.iter().map(|repository| repository.work.clone()).collect()
}

/// What one of several commands has done.
fn by_one_of_them(refusal: ConfinementRefusal) -> ConfinementRefusal {
    match refusal {
        ConfinementRefusal::Protected { path, done } => {
            let done =
                format!("it or another command that runs in the background did that, and none may: {done}");
            ConfinementRefusal::Changed { path, done }
        }
        other => other,
    }
}
