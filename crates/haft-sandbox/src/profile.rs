//! The profile of a session: what its children see, as a [`MountPlan`] for each request.
//!
//! Nobody can declare what `make` will write, so a session has one profile: the system and the tool chains to
//! read, the working directories and a temporary folder to write, a home folder that is empty but for a list.
//! A request only narrows it ([`ConfinementLevel::ReadOnly`], [`ConfinementLevel::Declared`]) or was granted
//! more for one call ([`ProcessRequest::access`]).
//!
//! - `places` is the view itself, a map from path to part.
//! - `system` and `etc` are what commands see of the system, `home` and `caches` furnish the home folder,
//!   `toolchains` shows what the environment names beside it, `unseen` says which programs on `PATH` it
//!   didn't, `addresses` judges remotes in a configuration of git.
//! - `subfolder` says of which repository a working directory is a part, `walk` looks at the working
//!   directories once, `repository` says where git keeps what of them, `administration` what of that a
//!   command may make, `strays` which links it has made there, `standing` whether it still is a repository,
//!   `gitlinks` which of them git enters by itself, `nested` which came to be since. What git obeys is in
//!   `haft-git`.
//! - `denied` finds what rules deny to read in what is shown beside them, `twins` other names of the same
//!   files.
//! - `guard` says which names must stay as they are, and sees to it afterwards; `named` finds those that
//!   configuration of git names, `ways` what leads to them, `protected` undoes changes of names such as
//!   `.vscode`, `approved` announces what the user writes there, `compare` knows what they looked like,
//!   `undo` takes back, and `journal` keeps what is needed for that, should this program be killed,
//!   `whereabouts` where that was.
//! - `temp` keeps the session's temporary folder: mount points in it, and its size.
//! - `grants` adds what one call was granted, `stand_in` what of it is made, replaced or removed; `kept` says
//!   afterwards what a command was kept from.
//!
//! Left to others: carrying a scene out (mounts, Landlock, seccomp), the network, the environment, and
//! whether a command is asked about at all.
//!
//! The decision to question: too wide a working directory isn't an error. Who works in their home folder,
//! above it, or in a folder of the system gets a session in which commands read that folder and can't write
//! it, and is told so.

mod approved;
mod caches;
mod configured_paths;
mod denial_messages;
mod denied_reads;
mod etc;
mod git_folders;
mod gitlinks;
mod grants;
mod guard;
mod hard_links;
mod home;
mod limits;
mod listening;
mod mount_map;
mod name_comparison;
mod nested_repos;
mod protected;
mod recovered_files;
mod remote_addresses;
mod renamed_dirs;
mod repo_markers;
mod repository;
mod stand_in;
mod subfolder;
mod symlink_cleanup;
mod symlink_trace;
mod system;
mod temp;
#[cfg(test)]
mod tests;
mod toolchains;
mod undo;
mod undo_journal;
mod unseen;
mod view;
mod workspace_scan;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessRequest, SandboxRules, UndoneChange};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::mount_plan::{BindSource, MountEntry, MountPlan, NetworkAccessKind, ResourceLimit};
use crate::watch::{KeeperCheck, UndoneNotice};
pub use approved::approve_content;
use caches::ToolCaches;
use denied_reads::DeniedReads;
use guard::RepositoryGuard;
pub use home::HIDDEN as HIDDEN_IN_HOME;
use mount_map::MountMap;
use protected::UndoneListener;
use stand_in::StandIns;
use system::{SYSTEM, is_of_the_kernel, is_too_wide};
use temp::TempFolder;
pub use temp::{TempRoom, make_private};
use toolchains::ToolChains;
pub use view::ProfileView;

/// What a session's children may see and change.
///
/// Paths are absolute and real, free of links, as [`haft::files::resolve_path`](fn@haft::files::resolve_path)
/// gives them; folders that don't exist are left out, but for the working directories, which must.
///
/// ```
/// use haft::ports::SandboxRules;
/// use haft_sandbox::ProfileConfig;
///
/// // With a policy: `policy.sandbox_rules()`.
/// let rules = SandboxRules::from_authorizer(&haft::PermissionRules::new());
/// let caches = "/home/me/.local/state/haft/caches";
/// let mut config = ProfileConfig::new("/home/me/project", "/tmp/session-1", caches, rules);
/// config.home = Some("/home/me".into());
/// config.own.push("/home/me/.config/haft".into());
/// assert_eq!(config.workspace, [std::path::Path::new("/home/me/project")]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProfileConfig {
    /// The working directory, then those that were added. Commands may write them.
    pub workspace: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Folders with the user's configuration and state of agents. Hidden, and written by no command.
    pub own: Vec<PathBuf>,
    /// The session's own kept results. Readable.
    pub results: Option<PathBuf>,
    /// Folders of tools that are scripts. Readable.
    pub tools: Vec<PathBuf>,
    /// What else may be read: the user's settings.
    pub allow_read: Vec<PathBuf>,
    /// What else may be written: the user's settings.
    pub allow_write: Vec<PathBuf>,
    /// The session's temporary folder: a folder of the host that nobody else may enter. Children see it at
    /// `/tmp` and nowhere else.
    pub temp: PathBuf,
    /// How large that may become, in bytes. A command that makes it larger is killed.
    pub temp_bytes_max: u64,
    /// Where private copies of caches are kept, and records of what is to be cleaned up.
    pub caches: PathBuf,
    /// Scripts that hooks run. Not written.
    pub scripts: Vec<PathBuf>,
    /// The environment of this program: where it says that tool chains lie, children see them.
    pub variables: Vec<(OsString, OsString)>,
    /// What rules deny. Files that match a rule are looked for in the working directories once, paths before
    /// each command; outside of the working directories rules that deny count for what commands see.
    pub rules: SandboxRules,
}

impl ProfileConfig {
    /// A session in this working directory, with these folders of its own, under these rules, and nothing
    /// else.
    pub fn new(
        cwd: impl Into<PathBuf>,
        temp: impl Into<PathBuf>,
        caches: impl Into<PathBuf>,
        rules: SandboxRules,
    ) -> ProfileConfig {
        ProfileConfig {
            workspace: vec![cwd.into()],
            home: None,
            own: Vec::new(),
            results: None,
            tools: Vec::new(),
            allow_read: Vec::new(),
            allow_write: Vec::new(),
            temp: temp.into(),
            temp_bytes_max: limits::TEMP_BYTES_MAX,
            caches: caches.into(),
            scripts: Vec::new(),
            variables: Vec::new(),
            rules,
        }
    }
}

/// Where children see the session's temporary folder.
const TEMP: &str = "/tmp";
/// The private temporary folder of every child, in memory.
const PRIVATE_TEMP: &str = "/var/tmp";

/// What the children of one session see.
pub(crate) struct SandboxProfile {
    config: ProfileConfig,
    /// The view before a request is looked at: of who may write, of who may look around.
    session: MountMap,
    read_only: MountMap,
    /// Of who may only do what it declared: nothing of the working directories.
    declared: MountMap,
    /// Held while the session lives.
    _caches: ToolCaches,
    rlimits: Vec<ResourceLimit>,
    /// Sockets and denied files that were found.
    masks: Vec<PathBuf>,
    guard: RepositoryGuard,
    incomplete: bool,
    /// What rules deny to read outside of the working directories.
    denied: DeniedReads,
    stand_ins: StandIns,
    temp: TempFolder,
    tool_chains: ToolChains,
}

impl SandboxProfile {
    /// Looks at the machine. Also gives what the user should know.
    ///
    /// # Errors
    /// A working directory isn't there, or the session's own folders can't be made.
    pub(crate) fn new(mut config: ProfileConfig) -> Result<(SandboxProfile, Vec<String>), String> {
        let mut notes = Vec::new();
        for folder in [&mut config.temp, &mut config.caches] {
            *folder = make_private(folder).map_err(|error| {
                format!("the folder `{}` of this session can't be made: {error}", display_path(&folder))
            })?;
        }
        let named_home = config.home.take();
        config.home =
            named_home.as_ref().and_then(|home| home.canonicalize().ok()).filter(|home| home.is_dir());
        config.home.take_if(|home| *home == Path::new("/"));
        for path in config.own.iter_mut().chain(&mut config.tools).chain(&mut config.results) {
            if let Ok(real) = path.canonicalize() {
                *path = real;
            }
        }

        let mut workspaces = Vec::new();
        for path in &config.workspace {
            if let Some(what) = is_of_the_kernel(path) {
                return Err(format!(
                    "no command can run in `{}`: {what}; work in a folder with files of your own, such as that of a \
                     project",
                    display_path(&path)
                ));
            }
            let held = open_path(path).map_err(|error| {
                format!("the working directory `{}` can't be opened: {error}", display_path(&path))
            })?;
            let wide = is_too_wide(path, config.home.as_deref());
            if let Some(why) = wide {
                notes.push(format!(
                    "commands can't write `{}`: {why}; start in a folder of one project",
                    display_path(&path)
                ));
            }
            workspaces.push(WorkspaceMount {
                path: path.clone(),
                held: Arc::new(held),
                writable: wide.is_none(),
            });
        }

        // Names in them are protected by the path at which they lie.
        let named_write = std::mem::take(&mut config.allow_write);
        config.allow_write =
            named_write.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();

        let (caches, said) = ToolCaches::open(&config.caches, &config.workspace[0]).map_err(|error| {
            format!("private copies of caches can't be kept in `{}`: {error}", display_path(&config.caches))
        })?;
        notes.extend(said);
        let mut session = system::system_mounts();
        let work = caches.work("etc").map_err(|error| {
            format!("no folder can be made in `{}`: {error}", display_path(&config.caches))
        })?;
        etc::show_etc(&mut session, work);
        let mut declared = session.clone();
        if let Some(home) = &config.home {
            furnish_session(&mut session, home, named_home.as_deref(), &workspaces, &mut notes);
            let works_there = workspaces.iter().any(|workspace| workspace.path == *home);
            if works_there {
                furnish_session(&mut declared, home, named_home.as_deref(), &[], &mut Vec::new())
            } else {
                declared = session.clone()
            }
        }
        let (at, bytes_max) = (PathBuf::from(TEMP), limits::PRIVATE_TEMP_BYTES);
        declared.put(MountEntry::Tmpfs { at, bytes_max, mode: 0o1777 });
        for tool in config.tools.iter().filter(|tool| tool.is_dir()) {
            declared.bind(tool, false);
        }
        let tops = subfolder::top_folders(&config);
        tops.iter().for_each(|top| session.bind(top, false));
        let mut read_only = session.clone();
        for (places, writable) in [(&mut session, true), (&mut read_only, false)] {
            put_own(places, &config, &workspaces, writable);
            for (named, real) in
                named_write.iter().zip(&config.allow_write).filter(|(one, other)| one != other)
            {
                if !places.shows(named) && !places.has(named) {
                    places.put(MountEntry::Link { at: named.clone(), to: real.clone() });
                }
            }
        }

        let tool_chains = ToolChains::from_variables(&config.variables);
        tool_chains.show(&mut [&mut session, &mut read_only, &mut declared], &config);
        for places in [&mut session, &mut read_only, &mut declared] {
            home::put_settings(places, home::moved_settings(&tool_chains));
        }

        let roots: Vec<PathBuf> = workspaces
            .iter()
            .map(|workspace| workspace.path.clone())
            .filter(|path| path != Path::new("/"))
            .collect();
        let mut found = workspace_scan::scan_workspaces(
            &roots,
            config.rules.unreadable.as_ref(),
            config.rules.unwritable.as_ref(),
        );
        let mut around = workspace_scan::walk_but(&tops, &roots, config.rules.unreadable.as_ref(), None);
        around.missed.take_if(|_| config.rules.unreadable.is_none());
        found.add_tops(tops, around);
        let mut writable: Vec<PathBuf> = workspaces
            .iter()
            .filter(|workspace| workspace.writable)
            .map(|workspace| workspace.path.clone())
            .collect();
        if let Some(why) = &found.missed {
            let denies = config.rules.unreadable.is_some() || config.rules.unwritable.is_some();
            let so = if denies {
                "so commands ask unless a rule allows them"
            } else {
                "so mode `auto` and `autoAllowBashIfSandboxed` let no command run unasked that may write"
            };
            notes.push(format!(
                "not everything in the working directories can be hidden from commands or protected: {why}; {so}"
            ));
        }
        let beside = written_beside(&config, &writable);
        // One in a working directory that is too wide was looked at with that.
        let unseen: Vec<PathBuf> =
            beside.iter().filter(|path| !roots.iter().any(|root| path.starts_with(root))).cloned().collect();
        if !unseen.is_empty() {
            let more = workspace_scan::walk_but(&unseen, &roots, None, config.rules.unwritable.as_ref());
            notes.extend(found.add(&unseen, more).map(|why| {
                format!(
                    "not everything in folders of `sandbox.filesystem.allowWrite` can be protected: {why}; name narrower ones"
                )
            }));
        }
        writable.extend(beside);
        let seen: Vec<PathBuf> = roots.iter().chain(&unseen).cloned().collect();
        let guard = RepositoryGuard::new(&config, writable, &mut found, &mut notes)?;
        for folder in guard.elsewhere() {
            session.bind(&folder, true);
            read_only.bind(&folder, false);
        }
        for cache in home::cache_mounts(&session, &config, &tool_chains, &caches)? {
            session.put(cache.clone());
            read_only.put(home::make_read_only(cache));
        }
        if let Some(at) = system::resolver_path() {
            session.put(MountEntry::File { at, content: b"nameserver 127.0.0.1\n".to_vec() });
        }
        let denied = denied_reads::find_denied(&config, &session)?;
        for places in [&mut session, &mut read_only, &mut declared] {
            places.take_copies(&denied.copies);
        }
        notes.extend(denied.missed.iter().map(|why| {
            format!(
                "not all that rules deny to read outside of the working directories can be hidden from commands: {why}; so \
                 those ask of which nobody knows what they read, unless a rule names them"
            )
        }));
        let mut incomplete = found.missed.is_some();
        let listening = listening::listening_sockets().into_iter().filter(|path| session.shows(path));
        let listening = listening.take(limits::MASKS_MAX);
        let mut masks: Vec<PathBuf> = found.sockets.into_iter().chain(found.unreadable).collect();
        masks.extend(listening.filter(|path| !masks.contains(path)).collect::<Vec<_>>());
        let denied_names = denied.named(&session);
        let hidden =
            masks.iter().chain(&denied.found).chain(&denied_names).chain(&config.rules.unreadable_paths);
        // A folder elsewhere may hold anything, and what is linked from there was put here by the user.
        let known = |path: &&PathBuf| path.is_file() || seen.iter().any(|root| is_beneath(path, root));
        let twins = hard_links::find_hard_links(&hidden.filter(known).cloned().collect::<Vec<_>>(), &seen);
        if let Some(why) = twins.missed {
            notes.push(format!(
                "a file that rules deny to read may have another name in the working directories, by which commands can read \
                 it: {why}; so commands ask unless a rule allows them"
            ));
            incomplete = true;
        }
        masks.extend(twins.names);
        let rlimits = session_rlimits();
        let (stand_ins, recovered) = StandIns::open(&config.caches).map_err(|error| {
            format!(
                "no folders for what is granted can be made in `{}`: {error}",
                display_path(&config.caches)
            )
        })?;
        notes.extend(recovered);
        let temp = TempFolder::new(&config.temp, config.temp_bytes_max);
        let mut profile = SandboxProfile {
            config,
            session: MountMap::default(),
            read_only: MountMap::default(),
            declared: MountMap::default(),
            _caches: caches,
            rlimits,
            masks,
            guard,
            incomplete,
            denied,
            stand_ins,
            temp,
            tool_chains,
        };
        for places in [&mut session, &mut read_only, &mut declared] {
            profile.hide_always(places);
        }
        (profile.session, profile.read_only, profile.declared) = (session, read_only, declared);
        Ok((profile, notes))
    }

    /// Says that nothing can be mounted: what is granted is shown where it lies, and nothing stands in for
    /// it.
    pub(crate) fn without_mounts(mut self) -> SandboxProfile {
        self.stand_ins.close();
        self.guard.hold_nothing();
        self
    }

    /// Whether something may be seen or changed that a rule denies, because there was too much to look at.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.incomplete || self.guard.gave_up()
    }

    /// Whether something may be seen that a rule denies to read outside of the working directories.
    pub(crate) fn misses_elsewhere(&self) -> bool {
        self.denied.missed.is_some()
    }

    /// What the child of a request sees.
    ///
    /// # Errors
    /// A name that must be held can't be, or the request is for the world outside.
    pub(crate) fn scene(&self, request: &ProcessRequest) -> Result<MountPlan, String> {
        let (mut places, writable) = match request.confinement {
            ConfinementLevel::Declared => (self.declared.clone(), false),
            ConfinementLevel::ReadOnly => (self.read_only.clone(), false),
            ConfinementLevel::Session => (self.session.clone(), true),
            ConfinementLevel::Outside => {
                return Err("what runs outside of the sandbox has no view of its own".into());
            }
        };
        let cwd = &*in_child(&self.config.temp, &request.cwd);
        let is_seen = cwd == Path::new("/") || places.shows(cwd) || places.has(cwd);
        if request.confinement == ConfinementLevel::Declared && !is_seen {
            // It runs there, whatever it sees of it.
            places.put(MountEntry::Excerpt { at: cwd.to_owned(), work: None, entries: Arc::new([]) });
        }
        // A protected name that was granted has to be there before it is protected; everything else comes
        // after what is the same for all calls, so that a sandbox can be made before it is known.
        self.stand_ins.begin(request);
        self.temp.begin(request);
        let by_name = self.is_by_name(request);
        if by_name {
            self.widen(&mut places, request)?;
        }
        self.hide_denied(&mut places);
        if writable || by_name {
            self.guard.hold(&mut places, request)?;
        }
        self.make_room_in_temp(&mut places, request)?;
        let mut widened = false;
        if !by_name {
            places.mark();
            widened = self.widen(&mut places, request)?;
        }
        if widened {
            self.hide_denied(&mut places);
            if !request.access.write.is_empty() {
                self.guard.hold(&mut places, request)?;
            }
            self.make_room_in_temp(&mut places, request)?;
        }
        self.stand_ins.note_room(request, &places);
        let network =
            if reaches_network(request) { NetworkAccessKind::Session } else { NetworkAccessKind::Empty };
        let (parts, more) = places.into_parts();
        let access = &request.access;
        // Its own results every command may read, also where there were none when the session began.
        let usual = |path: &Path| self.config.results.iter().any(|results| path.starts_with(results));
        let seen = |path: &Path| self.session.shows(path) && !self.session.is_partial(path);
        let beyond =
            |path: &Path| !seen(path) && !self.session.is_its_own(path) && !usual(path) && path.exists();
        let is_granted = access.write.iter().any(|root| self.session.writable_root(&root.path).is_none())
            || access.read.iter().any(|root| beyond(&root.path));
        let apart = is_granted && self.guard.others_run(request);
        Ok(MountPlan { parts, more, network, apart, rlimits: self.rlimits.clone() })
    }

    /// Variables that a request's child needs beside its own: where it may put temporary files.
    pub(crate) fn environment(&self, request: &ProcessRequest) -> Vec<(OsString, OsString)> {
        let temp = match request.confinement {
            ConfinementLevel::Declared | ConfinementLevel::ReadOnly => PRIVATE_TEMP.into(),
            ConfinementLevel::Session => TEMP.into(),
            ConfinementLevel::Outside => return Vec::new(),
        };
        let mut variables = vec![("TMPDIR".into(), temp)];
        if request.confinement != ConfinementLevel::Session {
            // A look at a repository doesn't want to write what it found out on the way.
            variables.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        }
        variables
    }

    /// The path at which a child sees what lies at a path of the host.
    pub(crate) fn path_in_child<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        in_child(&self.config.temp, path)
    }

    /// Whether a child that may write could change this, or make it.
    pub(crate) fn could_write(&self, path: &Path) -> bool {
        let temporary = path.starts_with(TEMP) || path.starts_with(&self.config.temp);
        temporary || self.session.writable_root(path).is_some()
    }

    /// The child of a request hears of changes of protected names that are undone while it runs. Not a
    /// server, which runs beside all commands.
    pub(crate) fn listen(&self, request: &ProcessRequest, tell: impl Fn(UndoneNotice) + Send + 'static) {
        if request.confinement == ConfinementLevel::Session && request.on_pipes.is_none() {
            let listener = UndoneListener::new(request.background.clone(), tell);
            self.guard.files().listen(request_address(request), listener);
        }
    }

    /// Changes that were undone while a child ran, and of which the user may say that they are theirs.
    pub(crate) fn unanswered(&self, request: &ProcessRequest) -> Vec<UndoneChange> {
        self.guard.files().unanswered(request_address(request))
    }

    /// The user has answered about such changes. Returns what to report.
    pub(crate) fn answered(&self, paths: &[PathBuf], is_users: bool) -> Vec<ConfinementRefusal> {
        self.guard.files().answered(paths, is_users)
    }

    /// A tool of ours is about to write these, as the user or a rule allows it.
    pub(crate) fn begin_writes(&self, paths: &[PathBuf]) {
        self.guard.files().begin_writes(paths);
    }

    /// It no longer does.
    pub(crate) fn end_writes(&self, paths: &[PathBuf]) {
        self.guard.files().end_writes(paths);
    }

    /// Looks at what running children have made, before a program outside uses it.
    pub(crate) fn check_now(&self) {
        self.guard.check_now();
    }

    /// Looks at what must have stayed as it was, after the child has ended. Puts back what can be put back.
    pub(crate) fn finished(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        let mut said = self.put_back(request);
        // Mount points go last: what was granted may lie in one.
        let too_large = self.temp.finish(request);
        said.extend(too_large.filter(|_| request.confinement == ConfinementLevel::Session));
        said
    }

    /// Measures the temporary folder while a child runs that may write it.
    pub(crate) fn check_running(&self, request: &ProcessRequest) -> KeeperCheck {
        match request.confinement {
            ConfinementLevel::Session => self.temp.check(request),
            ConfinementLevel::Declared | ConfinementLevel::ReadOnly | ConfinementLevel::Outside => {
                KeeperCheck::default()
            }
        }
    }

    fn put_back(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        match request.confinement {
            ConfinementLevel::Declared | ConfinementLevel::ReadOnly if request.access.write.is_empty() => {
                Vec::new()
            }
            ConfinementLevel::Declared | ConfinementLevel::ReadOnly | ConfinementLevel::Session => {
                let mut said = self.stand_ins.settle(request);
                said.extend(self.guard.finished(request));
                said
            }
            ConfinementLevel::Outside => Vec::new(),
        }
    }

    /// Folders of git that are to be closed to a child which may write them.
    pub(crate) fn to_close(&self, request: &ProcessRequest) -> Vec<PathBuf> {
        match request.confinement {
            ConfinementLevel::Session => self.guard.to_close(request),
            ConfinementLevel::Declared | ConfinementLevel::ReadOnly | ConfinementLevel::Outside => Vec::new(),
        }
    }

    /// Looks at what a child did to which they were closed just now, since it goes on in the background.
    pub(crate) fn moved(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        self.guard.moved(request)
    }

    /// Places that nothing hides, because they are what the session is about.
    fn kept(&self) -> Vec<PathBuf> {
        let config = &self.config;
        let kept = config.workspace.iter().chain(&config.results).chain(&config.tools).chain([&config.temp]);
        kept.cloned().chain(self.guard.elsewhere()).collect()
    }

    /// Hides what is hidden from every session.
    fn hide_always(&self, places: &mut MountMap) {
        let in_home =
            self.config.home.iter().flat_map(|home| HIDDEN_IN_HOME.iter().map(|name| home.join(name)));
        let always = in_home.chain(self.tool_chains.hidden()).chain(self.config.own.iter().cloned());
        let always: Vec<PathBuf> = always.chain(system::hidden_paths()).collect();
        self.hide(places, &always);
    }

    /// Hides what rules and settings deny to read, and sockets.
    fn hide_denied(&self, places: &mut MountMap) {
        let denied = &self.denied;
        let named = denied.named(&self.session);
        for paths in [&self.config.rules.unreadable_paths, &named, &denied.found, &self.masks] {
            self.hide_but(places, paths, &self.config.allow_read);
        }
    }

    fn hide(&self, places: &mut MountMap, paths: &[PathBuf]) {
        self.hide_but(places, paths, &[]);
    }

    /// The same without what is open although a wider path is hidden.
    fn hide_but(&self, places: &mut MountMap, paths: &[PathBuf], opened: &[PathBuf]) {
        if paths.is_empty() {
            return;
        }
        let kept = self.kept();
        for path in paths.iter().filter(|path| places.shows(path)).cloned().collect::<Vec<_>>() {
            if path.symlink_metadata().is_err() {
                continue;
            }
            // Nothing can be put over a link, and who denies one means what it leads to, wherever on the way
            // it stands; but one to a folder of the system hides nothing of that.
            let Some(real) = places.follow_links(&path) else { continue };
            if real != path && !(places.shows(&real) && self.may_hide(&real)) {
                continue;
            }
            // By another name it would be seen.
            places.pin_above(&real);
            let opened =
                opened.iter().filter(|opened| is_beneath(opened, &path) || is_beneath(opened, &real));
            let kept: Vec<PathBuf> = kept.iter().chain(opened).cloned().collect();
            places.hide(&real, &kept);
        }
    }

    /// Whether what a link leads to can be taken away.
    fn may_hide(&self, real: &Path) -> bool {
        let of_system = SYSTEM.iter().any(|folder| real.starts_with(folder));
        real.is_file() || !of_system && is_too_wide(real, self.config.home.as_deref()).is_none()
    }

    /// Makes the places on which something is mounted in the temporary folder, where the session's stands at
    /// `/tmp`: a workspace at `/tmp/w` needs a folder `w`. Nobody can rename them then.
    fn make_room_in_temp(&self, places: &mut MountMap, request: &ProcessRequest) -> Result<(), String> {
        for path in places.in_stand_in(Path::new(TEMP)) {
            let inside = path.strip_prefix(TEMP).unwrap_or(&path);
            let (is_file, lasts) = (places.is_file(&path), self.session.has(&path));
            self.temp.make_mount_point(request, inside, is_file, lasts).map_err(|error| {
                format!("there is no room for `{}` in the temporary folder: {error}", display_path(&path))
            })?;
            places.pin_in(Path::new(TEMP), &path);
        }
        Ok(())
    }
}

/// The path at which a child sees what lies at a path of the host: what lies in the session's temporary
/// folder, in `/tmp`.
fn in_child<'p>(temp: &Path, path: &'p Path) -> Cow<'p, Path> {
    match path.strip_prefix(temp) {
        // Joining nothing would add a slash.
        Ok(rest) => Path::new(TEMP).components().chain(rest.components()).collect::<PathBuf>().into(),
        Err(_) => path.into(),
    }
}

/// Whether a path lies in a folder, and isn't that.
fn is_beneath(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

/// Whether the child of a request has the session's network: it is a part of the session, or hosts were
/// granted to it.
pub(crate) fn reaches_network(request: &ProcessRequest) -> bool {
    match request.confinement {
        ConfinementLevel::Declared | ConfinementLevel::ReadOnly => {
            !request.access.hosts.is_empty() || request.grants.is_some()
        }
        ConfinementLevel::Session => true,
        ConfinementLevel::Outside => false,
    }
}

/// A path in words of ours: a command may have given it a name that is a line of its own, or moves the
/// cursor.
pub(crate) fn display_path(path: &(impl AsRef<Path> + ?Sized)) -> String {
    haft::view::visible_line(&path.as_ref().to_string_lossy())
}

/// Whether the child of a request runs beside others: in the background, or as a program that is talked to
/// while it runs.
fn runs_beside(request: &ProcessRequest) -> bool {
    request.background.has_begun() || request.on_pipes.is_some()
}

/// What tells requests apart whose children run at once.
fn request_address(request: &ProcessRequest) -> usize {
    std::ptr::from_ref(request).addr()
}

struct WorkspaceMount {
    path: PathBuf,
    /// Open since the session began: whatever its name leads to later, this is what is shown.
    held: Arc<OwnedFd>,
    writable: bool,
}

/// Folders beside the working directories that settings let commands write: what lies in them is guarded the
/// same way.
fn written_beside(config: &ProfileConfig, workspaces: &[PathBuf]) -> Vec<PathBuf> {
    let home = config.home.as_deref();
    let mut beside: Vec<PathBuf> = Vec::new();
    let mut allowed: Vec<&PathBuf> = config.allow_write.iter().collect();
    // The outer one first.
    allowed.sort();
    for path in allowed {
        let known = workspaces.iter().chain(&beside).any(|root| path.starts_with(root));
        if !known && path.is_dir() && is_too_wide(path, home).is_none() {
            beside.push(path.clone());
        }
    }
    beside
}

/// Puts the home folder there, and the working directories that hold it before it.
fn furnish_session(
    places: &mut MountMap,
    home: &Path,
    named: Option<&Path>,
    workspaces: &[WorkspaceMount],
    notes: &mut Vec<String>,
) {
    let shown = workspaces.iter().find(|workspace| workspace.path == home);
    if let Some(WorkspaceMount { held, .. }) = shown {
        places.put(MountEntry::Bind {
            from: BindSource::Held(held.clone()),
            at: home.to_owned(),
            writable: false,
        });
    }
    home::furnish_home(places, home, shown.is_some(), notes);
    if let Some(named) = named.filter(|named| *named != home && !places.shows(named)) {
        places.put(MountEntry::Link { at: named.to_owned(), to: home.to_owned() });
    }
}

/// Puts what belongs to the session: what may be read, the temporary folder, the working directories over
/// both.
fn put_own(places: &mut MountMap, config: &ProfileConfig, workspaces: &[WorkspaceMount], writable: bool) {
    let there = |path: &&PathBuf| path.symlink_metadata().is_ok() && **path != Path::new("/");
    for path in config.tools.iter().chain(&config.results).chain(&config.allow_read).filter(there) {
        places.bind(path, false);
    }
    for path in config.allow_write.iter().filter(there) {
        places.bind(path, writable && is_too_wide(path, config.home.as_deref()).is_none());
    }
    // At its own path on the host it isn't shown: its name would be seen in `/tmp`.
    places.put(MountEntry::Bind { from: BindSource::Path(config.temp.clone()), at: TEMP.into(), writable });
    for workspace in workspaces {
        let at = workspace.path.clone();
        if at != Path::new("/") && config.home.as_ref() != Some(&at) {
            let from = BindSource::Held(workspace.held.clone());
            places.put(MountEntry::Bind { from, at, writable: writable && workspace.writable });
        }
    }
}

/// The bounds that the kernel holds every child to.
fn session_rlimits() -> Vec<ResourceLimit> {
    use rustix::process::{Resource, geteuid, getrlimit};
    let at_most = |resource, wanted: u64| getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
    let limit = |resource: u32, value| ResourceLimit { resource, soft: value, hard: value };
    let mut limits = vec![
        limit(libc::RLIMIT_CORE, 0),
        limit(libc::RLIMIT_NOFILE, at_most(Resource::Nofile, limits::DESCRIPTORS)),
        limit(libc::RLIMIT_FSIZE, at_most(Resource::Fsize, limits::FILE_BYTES)),
    ];
    if !geteuid().is_root() {
        limits.push(limit(libc::RLIMIT_NPROC, at_most(Resource::Nproc, crate::limits::PROCESSES_MAX)));
    }
    limits
}

/// Opens what is at a real path, whatever it is, without following a link anywhere.
fn open_path(path: &Path) -> std::io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(CWD, path, flags, Mode::empty(), resolve)?)
}

/// Opens a regular file to read it; a link, a pipe or a device isn't one.
fn open_plain(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// A small regular file.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(limits::CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limits::CONFIG_BYTES_MAX).then_some(bytes)
}
