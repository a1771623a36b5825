//! The child processes of a session: in a sandbox, or without one if the user disabled it.
//!
//! The sandbox is created when the first child process starts, since most runs start none. Whether the
//! kernel supports a sandbox is checked immediately, as the rules depend on it. If creating the sandbox
//! then fails, nothing is started.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use haft::effects::AccessKind;
use haft::files::RootExtent;
use haft::future::BoxFuture;
use haft::ports::{
    ConfinementLevel, EnforcedRules, PathUse, ProcessError, ProcessOutcome, ProcessRequest, Processes,
    SandboxView,
};
use haft::sync::lock;
use haft_policy::gate::{CoverageGap, Policy};
use haft_policy::rule::NamedPath;
use haft_policy::settings::{SandboxSettings as Wanted, SettingValue};
use haft_sandbox::net::NetworkPolicy;
use haft_sandbox::net::host::HostRule;
use haft_sandbox::{
    LocalProcesses, ProfileConfig, ProfileView, Sandbox, SandboxConfig, SandboxStack, probe, stack_of,
};

use crate::temp_folder::{TempFolder, is_below_temp};
use crate::text::one_line;
use crate::{NoticeSink, SessionError};

/// Starts the child processes of a session.
pub struct SessionProcesses {
    /// The configuration of the sandbox, once the rules are known; `None` if the user disabled the sandbox.
    plan: Option<Mutex<Option<SandboxConfig>>>,
    sandbox: RwLock<Option<Result<Arc<Sandbox>, String>>>,
    local: LocalProcesses,
    /// What the sandbox opens without a grant. The policy needs it before the sandbox is created.
    view: OnceLock<ProfileView>,
    notices: NoticeSink,
    /// The folder for temporary files of child processes, removed at the end.
    temp: OnceLock<TempFolder>,
    /// The reachable hosts if no sandbox checks connections. Set when the rules are known.
    network: OnceLock<NetworkPolicy>,
    /// The rules of the configuration.
    enforced_rules: OnceLock<EnforcedRules>,
}

impl SessionProcesses {
    /// Creates a starter without a sandbox: child processes have the user's permissions.
    pub fn unconfined(notices: NoticeSink) -> SessionProcesses {
        let local = LocalProcesses::new(std::env::vars_os()).keeping_families(None);
        SessionProcesses {
            plan: None,
            sandbox: RwLock::new(None),
            local,
            view: OnceLock::new(),
            notices,
            temp: OnceLock::new(),
            network: OnceLock::new(),
            enforced_rules: OnceLock::new(),
        }
    }

    /// Creates a starter with a sandbox, which is created once it is planned and needed.
    pub fn confined(notices: NoticeSink) -> SessionProcesses {
        SessionProcesses { plan: Some(Mutex::new(None)), ..SessionProcesses::unconfined(notices) }
    }

    /// Sets the configuration of the sandbox, and the folder that it mounts at `/tmp`. Without a sandbox,
    /// only its host rules are used.
    pub(crate) fn plan(&self, config: SandboxConfig, temp: &TempFolder) {
        let _ = self.enforced_rules.set(config.profile.rules.enforced());
        match &self.plan {
            Some(plan) => {
                let _ = self.temp.set(temp.clone());
                let _ = self.view.set(ProfileView::new(&config));
                *lock(plan) = Some(config);
            }
            None => drop(self.network.set(config.network().clone())),
        }
    }

    /// Returns the sandbox. The first caller waits until it is created.
    ///
    /// # Errors
    /// Returns the reason why there is no sandbox.
    pub fn sandbox(&self) -> Result<Arc<Sandbox>, String> {
        if let Some(made) = &*self.sandbox.read().unwrap_or_else(PoisonError::into_inner) {
            return made.clone();
        }
        let mut sandbox = self.sandbox.write().unwrap_or_else(PoisonError::into_inner);
        sandbox.get_or_insert_with(|| self.make()).clone()
    }

    /// Returns the sandbox, unless it is not created yet.
    fn ready_sandbox(&self) -> Option<Arc<Sandbox>> {
        self.sandbox.try_read().ok()?.as_ref()?.as_ref().ok().cloned()
    }

    fn make(&self) -> Result<Arc<Sandbox>, String> {
        let plan = self.plan.as_ref().ok_or("this session has no sandbox")?;
        let plan = lock(plan).take();
        let sandbox = Sandbox::start(plan.ok_or("no process is started any more: this program ends")?);
        let sandbox = sandbox.map_err(|unavailable| unavailable.message)?;
        self.temp.get().inspect(|temp| temp.sweep_others());
        for note in sandbox.notes() {
            self.notices.warn(one_line(note));
        }
        Ok(Arc::new(sandbox))
    }

    /// Returns whether the complete sandbox can be created and hides everything that rules deny. Called
    /// where commands run without asking for that reason.
    pub fn is_full(&self) -> bool {
        self.plan.is_some()
            && self
                .sandbox()
                .is_ok_and(|sandbox| sandbox.stack() == SandboxStack::Full && !sandbox.is_incomplete())
    }

    /// Returns which of the denied files may be accessible: the sandbox could not visit everything, or has
    /// no mounts that mask them.
    pub fn coverage_gap(&self) -> CoverageGap {
        match self.plan.as_ref().and_then(|_| self.sandbox().ok()) {
            Some(sandbox) if sandbox.is_incomplete() || sandbox.stack() != SandboxStack::Full => {
                CoverageGap::Anything
            }
            Some(sandbox) if sandbox.misses_elsewhere() => CoverageGap::Elsewhere,
            _ => CoverageGap::Nothing,
        }
    }

    /// Ends every child process.
    pub fn shutdown(&self) {
        if let Some(plan) = &self.plan {
            lock(plan).take();
        }
        // The sandbox cleans up when its last reference is dropped.
        if let Some(Ok(sandbox)) = self.sandbox.write().unwrap_or_else(PoisonError::into_inner).take() {
            sandbox.shutdown();
        }
        self.local.shutdown();
        self.temp.get().inspect(|temp| temp.remove());
    }
}

impl Processes for SessionProcesses {
    fn confines(&self) -> bool {
        self.plan.is_some() && haft_sandbox::is_possible()
    }

    /// Before the rules are known, nothing is started.
    fn enforced_rules(&self) -> EnforcedRules {
        self.enforced_rules.get().copied().unwrap_or(EnforcedRules::Unidentified)
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        if let Some(sandbox) = self.ready_sandbox() {
            sandbox.begin_writes(paths);
        }
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        if let Some(sandbox) = self.ready_sandbox() {
            sandbox.end_writes(paths);
        }
    }

    fn check_host<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        grants: &'a [String],
    ) -> BoxFuture<'a, Result<(), String>> {
        let Some(network) = self.network.get().cloned() else {
            let denied = format!("no rule is known that allows `{host}`");
            return Box::pin(std::future::ready(Err(denied)));
        };
        let grants: Vec<HostRule> = grants.iter().filter_map(|grant| grant.parse().ok()).collect();
        let host = host.to_owned();
        Box::pin(async move {
            let checked = tokio::task::spawn_blocking(move || network.check(&grants, &host, port)).await;
            checked.unwrap_or_else(|_| Err("the lookup of the host failed".to_owned()))
        })
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        if self.plan.is_none() || request.confinement == ConfinementLevel::Outside {
            return self.local.run(request);
        }
        Box::pin(async move {
            // The first creation visits the workspace, which may take a moment.
            match run_blocking(|| self.sandbox()) {
                Ok(sandbox) => sandbox.run(request).await,
                // If the kernel can't confine anything, code of this program has only memory and time
                // limits. An isolated tool has asked for approval then.
                Err(_) if request.is_this_program && !haft_sandbox::is_possible() => {
                    self.local.run(request).await
                }
                Err(message) => Err(ProcessError { message }),
            }
        })
    }
}

/// Nothing is open before the sandbox is planned, or without a sandbox.
impl SandboxView for SessionProcesses {
    fn is_path_open(&self, path: &Path, extent: RootExtent, path_use: PathUse) -> bool {
        self.view.get().is_some_and(|view| view.is_path_open(path, extent, path_use))
    }

    fn is_host_open(&self, host: &str) -> bool {
        self.view.get().is_some_and(|view| view.is_host_open(host))
    }
}

/// Runs blocking work without delaying other calls, if the runtime supports that.
fn run_blocking<T>(make: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(make),
        _ => make(),
    }
}

/// The paths that a sandbox needs.
pub struct SandboxSurroundings<'a> {
    /// The working directory, then the additional ones.
    pub workspace: Vec<PathBuf>,
    pub home: Option<&'a Path>,
    /// The folders of the user's settings and state, at their current and default locations.
    pub own: Vec<PathBuf>,
    pub state: Option<&'a Path>,
    /// Folders of script tools.
    pub tools: Vec<PathBuf>,
    /// Scripts that hooks and tools of the workspace name.
    pub scripts: Vec<PathBuf>,
    /// The folder for temporary files.
    pub(crate) temp: &'a TempFolder,
    /// The paths that path rules name.
    pub(crate) named: &'a [NamedPath],
}

/// Returns the folder where sandboxes store persistent data.
pub(crate) fn caches_dir(state: &Path) -> PathBuf {
    state.join("caches")
}

/// Returns the sandbox configuration for settings and rules.
///
/// # Errors
/// Returns an error if sandbox settings are invalid.
pub fn sandbox_config(
    wanted: &Wanted,
    policy: &Policy,
    surroundings: SandboxSurroundings<'_>,
) -> Result<SandboxConfig, SessionError> {
    let SandboxSurroundings { workspace, home, own, state, tools, scripts, temp, named } = surroundings;
    let cwd = workspace.first().cloned().unwrap_or_else(|| "/".into());
    let paths = |list: &[SettingValue<String>]| Wanted::absolute_paths(list, home, &cwd);
    let temp = temp.path();
    let kept = state.map_or_else(|| temp.join("caches"), caches_dir);
    let mut profile = ProfileConfig::new(&cwd, temp, kept, policy.sandbox_rules());
    profile.workspace = workspace;
    profile.home = home.map(Path::to_owned);
    profile.own = own;
    profile.results = state.map(|state| state.join("results"));
    profile.tools = tools;
    profile.scripts = scripts;
    profile.allow_read = paths(&wanted.files.allow_read);
    profile.allow_write = paths(&wanted.files.allow_write);
    // For a path below `/tmp` that a rule names, file tools use the host's folder, so commands do too.
    for NamedPath { path, allowed, is_subtree } in named {
        match allowed {
            Some(allowed) if *is_subtree && is_below_temp(path) && is_plain_folder(path) => match allowed {
                AccessKind::Observe => profile.allow_read.push(path.clone()),
                AccessKind::Change => profile.allow_write.push(path.clone()),
            },
            _ => {}
        }
    }
    let config = SandboxConfig::new(profile).map_err(|bad| SessionError::settings(bad.to_string()))?;
    let config = wanted.presets.iter().try_fold(config, |config, preset| {
        let preset = preset.value.parse().map_err(|bad| invalid_setting(&preset.source, &bad))?;
        Ok::<_, SessionError>(config.with_preset(preset))
    })?;
    let config =
        wanted.network.private_hosts.iter().try_fold(config, |config, SettingValue { value, source }| {
            let host = value.host.parse().map_err(|bad| invalid_setting(source, &bad))?;
            let range = value.cidr.parse().map_err(|bad| invalid_setting(source, &bad))?;
            Ok::<_, SessionError>(config.with_private_host(host, range))
        })?;
    let config =
        if wanted.network.managed_domains_only.is_some() { config.without_questions() } else { config };
    Ok(config.with_variables(std::env::vars_os()))
}

/// Returns whether this is a folder and its path contains no symlink.
fn is_plain_folder(path: &Path) -> bool {
    path.is_dir() && path.canonicalize().is_ok_and(|real| real == path)
}

/// Restricts a sandbox to writing the workspace, without network access. What settings and rules open
/// besides is for the sessions that they were written for, and not for replayed calls.
pub fn without_network(mut config: SandboxConfig) -> SandboxConfig {
    config.profile.allow_write.clear();
    config.without_network()
}

pub fn of_settings(hosts: &[SettingValue<String>]) -> Result<Vec<HostRule>, SessionError> {
    hosts.iter().map(|host| host.value.parse().map_err(|bad| invalid_setting(&host.source, &bad))).collect()
}

fn invalid_setting(
    source: &haft_policy::source::SettingsSource,
    bad: &impl std::fmt::Display,
) -> SessionError {
    SessionError::settings(format!("{source}: {bad}"))
}

/// Returns whether a complete sandbox could be created on this machine, for callers that create none. Tried
/// once.
pub fn can_be_full() -> bool {
    static FULL: LazyLock<bool> = LazyLock::new(|| stack_of(&probe(None)) == SandboxStack::Full);
    *FULL
}

/// Returns which denied files a sandbox on this machine would leave accessible, as far as that is known
/// without one.
pub fn may_leave_open() -> CoverageGap {
    if can_be_full() { CoverageGap::Nothing } else { CoverageGap::Anything }
}

/// Returns whether the user wants commands to run in a sandbox.
pub fn is_wanted(no_sandbox: bool, wanted: &Wanted) -> bool {
    !no_sandbox && wanted.enabled.as_ref().is_none_or(|enabled| enabled.value)
}
