//! Processes that can do what their request grants and no more.
//!
//! Puts three things together and decides little: the profile says what a child sees, the network which hosts
//! it may reach, and the helper makes it so. What is to run outside goes the way of [`LocalProcesses`].

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::future::BoxFuture;
use haft::ports::{
    ConfinementLevel, ConfinementRefusal, EnforcedRules, ProcessError, ProcessOutcome, ProcessRequest,
    Processes, UndoneChange,
};

use crate::bubblewrap::TrustedBubblewrap;
use crate::child_pool::{ChildPool, refused_error};
use crate::confined::{ConfinedChild, HelperHandle, HelperProgram};
use crate::init::IsolationLevel;
use crate::local::LocalProcesses;
use crate::mount_plan::MountPlan;
use crate::net::address::PrivateRange;
use crate::net::host::HostRule;
use crate::net::host_preset::HostPreset;
use crate::net::{InvalidHost, NetworkListeners, NetworkPolicy, NetworkTicket, SessionProxy};
use crate::pinned_namespaces::{PinnedNamespaces, RunningView};
use crate::profile::{ProfileConfig, SandboxProfile};
use crate::remount_watch::CoveredNames;
use crate::watch::UndoneNotice;
use crate::wire::ChildJob;
use crate::{bare, environment, limits, profile, program, start, watch};

/// What children see, and what is looked at when one has ended: the profile, or what a test puts in its
/// place.
pub(crate) trait MountPlanner: Send + Sync {
    /// What this child sees.
    ///
    /// # Errors
    /// Why it can't be run, in words.
    fn scene(&self, request: &ProcessRequest) -> Result<MountPlan, String>;

    /// Variables that go with it.
    fn environment(&self, request: &ProcessRequest) -> Vec<(OsString, OsString)>;

    /// The path at which a child sees what lies at a path of the host, where anything can be mounted.
    fn path_in_child<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        path.into()
    }

    /// Whether a child that may do all that the session may could change this.
    fn could_write(&self, path: &Path) -> bool;

    /// What it changed although it may not.
    fn finished(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal>;

    /// A child hears of what is undone while it runs.
    fn listen(&self, _: &ProcessRequest, _: Box<dyn Fn(UndoneNotice) + Send>) {}

    /// What was undone while a child ran, and of which the user may say that it is theirs.
    fn unanswered(&self, _: &ProcessRequest) -> Vec<UndoneChange> {
        Vec::new()
    }

    /// The user has answered about such changes. Returns what to report.
    fn answered(&self, _: &[PathBuf], _is_users: bool) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    /// A tool of ours is about to write these, as the user or a rule allows it.
    fn begin_writes(&self, _: &[PathBuf]) {}

    /// It no longer does.
    fn end_writes(&self, _: &[PathBuf]) {}

    /// Looks at what running children have made, before a program outside of the sandbox uses it.
    fn check_now(&self) {}

    /// Folders that are to be closed to a child when it moves to the background, or has ended while another
    /// one runs; none if it can't write them anyway.
    fn to_close(&self, _: &ProcessRequest) -> Vec<PathBuf> {
        Vec::new()
    }

    /// What a child changed although it may not, that has moved to the background and to which these were
    /// closed.
    fn moved(&self, _: &ProcessRequest) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    /// Looks at what a child has done while it runs.
    fn check_running(&self, _: &ProcessRequest) -> watch::KeeperCheck {
        watch::KeeperCheck::default()
    }

    /// What its words say that it was kept from changing.
    fn kept_from(&self, _: &ProcessRequest, _: &ProcessOutcome) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    /// Whether something could be seen or changed that a rule denies.
    fn is_incomplete(&self) -> bool;

    /// Whether something outside of the working directories could be read that a rule denies.
    fn misses_elsewhere(&self) -> bool {
        false
    }
}

impl MountPlanner for SandboxProfile {
    fn listen(&self, request: &ProcessRequest, tell: Box<dyn Fn(UndoneNotice) + Send>) {
        SandboxProfile::listen(self, request, tell);
    }

    fn path_in_child<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        SandboxProfile::path_in_child(self, path)
    }

    fn unanswered(&self, request: &ProcessRequest) -> Vec<UndoneChange> {
        SandboxProfile::unanswered(self, request)
    }

    fn answered(&self, paths: &[PathBuf], is_users: bool) -> Vec<ConfinementRefusal> {
        SandboxProfile::answered(self, paths, is_users)
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        SandboxProfile::begin_writes(self, paths);
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        SandboxProfile::end_writes(self, paths);
    }

    fn check_now(&self) {
        SandboxProfile::check_now(self);
    }

    fn scene(&self, request: &ProcessRequest) -> Result<MountPlan, String> {
        SandboxProfile::scene(self, request)
    }

    fn environment(&self, request: &ProcessRequest) -> Vec<(OsString, OsString)> {
        SandboxProfile::environment(self, request)
    }

    fn could_write(&self, path: &Path) -> bool {
        SandboxProfile::could_write(self, path)
    }

    fn finished(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        SandboxProfile::finished(self, request)
    }

    fn check_running(&self, request: &ProcessRequest) -> watch::KeeperCheck {
        SandboxProfile::check_running(self, request)
    }

    fn to_close(&self, request: &ProcessRequest) -> Vec<PathBuf> {
        SandboxProfile::to_close(self, request)
    }

    fn moved(&self, request: &ProcessRequest) -> Vec<ConfinementRefusal> {
        SandboxProfile::moved(self, request)
    }

    fn kept_from(&self, request: &ProcessRequest, outcome: &ProcessOutcome) -> Vec<ConfinementRefusal> {
        SandboxProfile::kept_from(self, request, outcome)
    }

    fn is_incomplete(&self) -> bool {
        SandboxProfile::is_incomplete(self)
    }

    fn misses_elsewhere(&self) -> bool {
        SandboxProfile::misses_elsewhere(self)
    }
}

/// What a session's sandbox is to be.
///
/// ```
/// use haft::ports::SandboxRules;
/// use haft_sandbox::{ProfileConfig, SandboxConfig};
///
/// // With a policy: `policy.sandbox_rules()`.
/// let rules = SandboxRules::from_authorizer(&haft::PermissionRules::new());
/// let caches = "/home/me/.local/state/haft/caches";
/// let profile = ProfileConfig::new("/home/me/project", "/tmp/session-1", caches, rules);
/// let config = SandboxConfig::new(profile).unwrap().with_variables(std::env::vars_os());
/// assert!(config.helper.is_none());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// What children see and may change.
    pub profile: ProfileConfig,
    /// What they may reach.
    network: NetworkPolicy,
    /// Whether less than the whole sandbox is refused.
    pub full_only: bool,
    /// Whether sandboxes are made ahead of time for commands that come later.
    makes_spares: bool,
    /// Who makes its namespaces.
    pub maker: UserNamespaceMaker,
    /// The program that is the helper, if this one isn't: tests.
    pub helper: Option<PathBuf>,
}

impl SandboxConfig {
    /// This profile with the hosts of its rules, no variables, and whatever walls the machine has.
    ///
    /// # Errors
    /// A host of a rule that can't be understood.
    pub fn new(profile: ProfileConfig) -> Result<SandboxConfig, InvalidHost> {
        let (network, maker) = (NetworkPolicy::from_rules(&profile.rules)?, UserNamespaceMaker::default());
        Ok(SandboxConfig { profile, network, full_only: false, makes_spares: true, maker, helper: None })
    }

    /// Lets children reach the hosts of a preset as well, but for those that a rule denies.
    #[must_use]
    pub fn with_preset(mut self, preset: HostPreset) -> SandboxConfig {
        self.network = self.network.with_preset(preset);
        self
    }

    /// Lets children reach no host, whatever rules and presets allow.
    #[must_use]
    pub fn without_network(mut self) -> SandboxConfig {
        self.network = self.network.without_allowed();
        self
    }

    /// Lets names of this rule lead to private addresses of this range.
    #[must_use]
    pub fn with_private_host(mut self, host: HostRule, range: PrivateRange) -> SandboxConfig {
        self.network = self.network.with_private_host(host, range);
        self
    }

    /// Refuses hosts that rules and presets don't allow, without a question.
    #[must_use]
    pub fn without_questions(mut self) -> SandboxConfig {
        self.network = self.network.without_questions();
        self
    }

    /// Makes no sandbox ahead of time: for a session that ends with its first command, which would wait until
    /// a spare one is taken down.
    #[must_use]
    pub fn without_spares(mut self) -> SandboxConfig {
        self.makes_spares = false;
        self
    }

    /// What children may reach.
    pub fn network(&self) -> &NetworkPolicy {
        &self.network
    }

    /// The environment, usually [`std::env::vars_os`]: each child gets what [`environment`] lets through, and
    /// sees the tool chains that it names. Variables that the rules hide are left out.
    #[must_use]
    pub fn with_variables(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> SandboxConfig {
        let hidden = &self.profile.rules.hidden_variables;
        let passed = variables.into_iter().filter(|(name, _)| !hidden.contains(name));
        self.profile.variables.extend(passed);
        self
    }

    /// Who makes its namespaces: to be told only where one of the two ways is to be tried.
    #[must_use]
    pub fn with_maker(mut self, maker: UserNamespaceMaker) -> SandboxConfig {
        self.maker = maker;
        self
    }

    /// The program that is the helper, in place of this one.
    #[must_use]
    pub fn with_helper(mut self, program: impl Into<PathBuf>) -> SandboxConfig {
        self.helper = Some(program.into());
        self
    }
}

/// How much of a sandbox this machine can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStack {
    /// Namespaces, mounts, Landlock and a filter of system calls.
    Full,
    /// Landlock and a filter: reads are limited, but no names are protected, no hosts can be granted, and
    /// what a killed host leaves behind may live on.
    Fallback,
    /// None.
    None,
}

/// Who makes the user namespace in which a session's sandboxes are made. What is promised is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserNamespaceMaker {
    /// This program, or bubblewrap where the machine lets only that.
    #[default]
    Either,
    /// This program.
    Ourselves,
    /// Bubblewrap.
    Bubblewrap,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxUnavailable {
    /// What the machine refused, and what can be done.
    pub message: String,
}

impl fmt::Display for SandboxUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SandboxUnavailable {}

/// Processes in a sandbox.
///
/// One helper process makes a sandbox for each child; see the [crate's](crate) documentation. Dropping this
/// ends everything that still runs.
///
/// ```no_run
/// use haft_sandbox::{ProfileConfig, Sandbox, SandboxConfig};
///
/// # async fn program() -> Result<(), Box<dyn std::error::Error>> {
/// use haft::ports::{ConfinementLevel, ProcessRequest, Processes};
///
/// // With a policy: `policy.sandbox_rules()`.
/// let rules = haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new());
/// let caches = "/home/me/.local/state/haft/caches";
/// let profile = ProfileConfig::new("/home/me/project", "/tmp/session-1", caches, rules);
/// let sandbox = Sandbox::start(SandboxConfig::new(profile)?.with_variables(std::env::vars_os()))?;
/// let looking = ProcessRequest::new(["git", "status"], "/home/me/project").with_confinement(ConfinementLevel::ReadOnly);
/// let outcome = sandbox.run(looking).await?;
/// # Ok(()) }
/// ```
pub struct Sandbox {
    // In this order: children end before the helper, which would kill them without asking.
    pool: ChildPool,
    outside: LocalProcesses,
    inner: Arc<SandboxInner>,
    notes: Vec<String>,
}

struct SandboxInner {
    helper: HelperHandle,
    scenes: Arc<dyn MountPlanner>,
    network: Option<SessionProxy>,
    enforced_rules: EnforcedRules,
    variables: Arc<[(OsString, OsString)]>,
    views: PinnedNamespaces,
    covers: CoveredNames,
    makes_spares: bool,
}

impl Drop for SandboxInner {
    fn drop(&mut self) {
        let SandboxInner { helper, covers, .. } = self;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(limits::THREAD_STACK_BYTES);
            let ending = thread.spawn_scoped(scope, || {
                start::block_signals();
                covers.end();
            });
            helper.end();
            // Without a thread it is done with the other fields.
            drop(ending);
        });
    }
}

/// Looks after one child of a session.
struct ChildKeeper<'a> {
    scenes: &'a dyn MountPlanner,
    request: &'a ProcessRequest,
    running: RunningView<'a>,
}

impl watch::ChildSupervisor for ChildKeeper<'_> {
    fn moved(&mut self, child: &mut dyn watch::ChildProcess) -> Vec<ConfinementRefusal> {
        let folders = self.scenes.to_close(self.request);
        if folders.is_empty() {
            return Vec::new();
        }
        match child.close(&folders) {
            Ok(()) => self.scenes.moved(self.request),
            // Nobody is sure of it any more, so it doesn't go on.
            Err(why) => {
                child.signal(rustix::process::Signal::KILL);
                let done = format!(
                    "it could not be closed to a command that was to go on in the background, so that was ended: {why}"
                );
                vec![ConfinementRefusal::Changed { path: folders[0].clone(), done }]
            }
        }
    }

    fn answered(&mut self, paths: &[PathBuf], is_users: bool) -> Vec<ConfinementRefusal> {
        self.scenes.answered(paths, is_users)
    }

    fn check(&mut self) -> watch::KeeperCheck {
        self.scenes.check_running(self.request)
    }

    fn ending(&mut self, child: &mut dyn watch::ChildProcess) {
        if !self.running.has_others() {
            return;
        }
        let folders = self.scenes.to_close(self.request);
        if !folders.is_empty() {
            let _ = child.close(&folders);
        }
        if let Some(view) = child.view() {
            self.running.keep(view);
        }
    }
}

/// A helper that waits for orders, and the sockets of the session's network.
pub(crate) struct ReadyHelper {
    pub(crate) helper: HelperHandle,
    /// Proxy, name server by UDP, by TCP, and the ports that were asked for; none in the fallback.
    pub(crate) listeners: VecDeque<OwnedFd>,
    /// What keeps the machine from the whole of it.
    pub(crate) why_not_full: Option<String>,
}

/// Starts the helper with as many walls as the machine has, but no fewer than `least`.
///
/// # Errors
/// What the machine refuses, and what can be done.
pub(crate) fn start_helper(
    program: &HelperProgram,
    maker: UserNamespaceMaker,
    least: SandboxStack,
    ports: &[u16],
) -> Result<ReadyHelper, SandboxUnavailable> {
    ready_where(is_possible(), program, maker, least, ports)
}

fn ready_where(
    has_landlock: bool,
    program: &HelperProgram,
    maker: UserNamespaceMaker,
    least: SandboxStack,
    ports: &[u16],
) -> Result<ReadyHelper, SandboxUnavailable> {
    // Mounts alone don't keep root from what `/proc` can do to the machine; both together are the promise.
    if !has_landlock {
        return Err(unavailable_error("this kernel has no Landlock, or it is switched off (`lsm=` at boot)"));
    }
    let why_not_full = match with_namespaces(program, maker, ports) {
        Ok(mut helper) => {
            let listeners = helper.take_listeners();
            return Ok(ReadyHelper { helper, listeners, why_not_full: None });
        }
        Err(words) => words,
    };
    if least == SandboxStack::Full {
        return Err(unavailable_error(&why_not_full));
    }
    match HelperHandle::start(program, IsolationLevel::Bare, &[]) {
        Ok(helper) => {
            Ok(ReadyHelper { helper, listeners: VecDeque::new(), why_not_full: Some(why_not_full) })
        }
        Err(words) => Err(unavailable_error(&words)),
    }
}

/// A helper that can make namespaces.
///
/// # Errors
/// Why there is none, in words.
fn with_namespaces(
    program: &HelperProgram,
    maker: UserNamespaceMaker,
    ports: &[u16],
) -> Result<HelperHandle, String> {
    let by_bubblewrap = || match TrustedBubblewrap::find()? {
        Some(found) => HelperHandle::start_through(&found, program, IsolationLevel::Namespaces, ports)
            .map_err(|words| format!("`{}` can't help: {words}", found.path().display())),
        None => Err("bubblewrap isn't installed".to_owned()),
    };
    match maker {
        UserNamespaceMaker::Ourselves => HelperHandle::start(program, IsolationLevel::Namespaces, ports),
        UserNamespaceMaker::Bubblewrap => by_bubblewrap(),
        UserNamespaceMaker::Either => HelperHandle::start(program, IsolationLevel::Namespaces, ports)
            .or_else(|first| by_bubblewrap().map_err(|second| format!("{first}; {second}"))),
    }
}

/// Whether a sandbox may be possible here: one question to the kernel. Only [`Sandbox::start`] knows for
/// certain.
pub fn is_possible() -> bool {
    crate::sys::landlock_abi().is_some()
}

fn unavailable_error(why: &str) -> SandboxUnavailable {
    let message = format!(
        "no sandbox can be made: {why}; `haft doctor` says what is missing, and the setting `sandbox.enabled` runs \
         commands without one if it is `false`"
    );
    SandboxUnavailable { message }
}

impl Sandbox {
    /// Makes ready what a session's children need: the helper, its network, and the profile.
    ///
    /// # Errors
    /// What the machine or the working directory doesn't allow, and what can be done.
    pub fn start(config: SandboxConfig) -> Result<Sandbox, SandboxUnavailable> {
        let SandboxConfig { profile, network: policy, full_only, makes_spares, maker, helper } = config;
        let (variables, enforced_rules) = (profile.variables.clone(), profile.rules.enforced());
        let program = helper.map_or(HelperProgram::ThisProgram, HelperProgram::At);
        let least = if full_only { SandboxStack::Full } else { SandboxStack::Fallback };
        let ports = policy.host_ports();
        // The helper makes its namespaces while the profile is read from the disk.
        let (ready, profile) = std::thread::scope(|scope| {
            let start_helper = || {
                start::block_signals();
                start_helper(&program, maker, least, &ports)
            };
            let thread = std::thread::Builder::new().name("haft-sandbox-start".into());
            let started = thread.stack_size(limits::THREAD_STACK_BYTES).spawn_scoped(scope, start_helper);
            let profile = SandboxProfile::new(profile);
            let ready = match started {
                Ok(started) => started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => Err(unavailable_error(&format!("no thread for its helper: {error}"))),
            };
            (ready, profile)
        });
        let ReadyHelper { helper, listeners, why_not_full } = ready?;
        let (profile, mut notes) = profile.map_err(|message| SandboxUnavailable { message })?;
        let mounts = helper.isolation_level() == IsolationLevel::Namespaces;
        let profile = if mounts { profile } else { profile.without_mounts() };
        notes.extend(why_not_full.map(|why| {
            format!(
                "only a part of the sandbox can be made: {why}; no names are protected and no hosts can be granted; `haft doctor` says what is missing"
            )
        }));
        let network = listeners_of(listeners, policy.host_ports())
            .map(|listeners| SessionProxy::start(listeners, policy))
            .transpose()
            .map_err(|error| unavailable_error(&format!("its network can't be served: {error}")))?;
        let mut sandbox = Sandbox::with_helper(helper, Arc::new(profile), variables);
        sandbox.notes = notes;
        let inner = Arc::get_mut(&mut sandbox.inner).expect("nothing has been started");
        (inner.network, inner.enforced_rules) = (network, enforced_rules);
        inner.makes_spares = makes_spares;
        Ok(sandbox)
    }

    pub(crate) fn with_helper(
        helper: HelperHandle,
        scenes: Arc<dyn MountPlanner>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Sandbox {
        let variables: Arc<[(OsString, OsString)]> = variables.into_iter().collect();
        let outside = LocalProcesses::new(variables.iter().cloned());
        let (views, covers) = (PinnedNamespaces::default(), CoveredNames::default());
        let (enforced_rules, makes_spares) = (EnforcedRules::None, true);
        let inner = Arc::new(SandboxInner {
            helper,
            scenes,
            network: None,
            enforced_rules,
            variables,
            views,
            covers,
            makes_spares,
        });
        Sandbox { pool: ChildPool::default(), outside, inner, notes: Vec::new() }
    }

    /// What the user should know about this sandbox, once: what can't be written, hidden or held, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the sandbox is made of.
    pub fn stack(&self) -> SandboxStack {
        match self.inner.helper.isolation_level() {
            IsolationLevel::Namespaces => SandboxStack::Full,
            IsolationLevel::Bare | IsolationLevel::Probe | IsolationLevel::Open => SandboxStack::Fallback,
        }
    }

    /// Who made its namespaces, if it has any.
    pub fn maker(&self) -> Option<UserNamespaceMaker> {
        let helper = &self.inner.helper;
        let maker = if helper.is_through_bubblewrap() {
            UserNamespaceMaker::Bubblewrap
        } else {
            UserNamespaceMaker::Ourselves
        };
        (self.stack() == SandboxStack::Full).then_some(maker)
    }

    /// Whether something may be seen or changed that a rule denies, because there was too much to look at;
    /// then commands ask, however harmless they look.
    pub fn is_incomplete(&self) -> bool {
        self.inner.scenes.is_incomplete()
    }

    /// Whether something may be seen outside of the working directories that rules deny to read, because
    /// there was too much to look at; [`Sandbox::notes`] say what.
    pub fn misses_elsewhere(&self) -> bool {
        self.inner.scenes.misses_elsewhere()
    }

    /// Hosts that were asked for by somebody of whom it isn't known which call they belong to.
    pub fn refusals(&self) -> Vec<ConfinementRefusal> {
        self.inner.network.as_ref().map(SessionProxy::refusals).unwrap_or_default()
    }

    /// How many children there are, those included that are about to end.
    pub fn running(&self) -> usize {
        self.pool.running() + self.outside.running()
    }

    /// Ends every child and starts no more. Waits until they are gone, for at most a few seconds; to be
    /// called before the program ends, which would end the threads that do this.
    pub fn shutdown(&self) {
        self.pool.shutdown();
        self.outside.shutdown();
    }
}

impl Processes for Sandbox {
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> EnforcedRules {
        self.inner.enforced_rules
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        self.inner.scenes.begin_writes(paths);
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        self.inner.scenes.end_writes(paths);
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let inner = self.inner.clone();
        if request.confinement == ConfinementLevel::Outside {
            return Box::pin(async move {
                inner.scenes.check_now();
                self.outside.run(request).await
            });
        }
        Box::pin(self.pool.run(request, move |request, orders| {
            let ticket = inner.admit(request).map_err(refused_error)?;
            let begun = |own: &[BorrowedFd<'_>]| -> Result<Box<dyn watch::ChildProcess>, String> {
                Ok(Box::new(inner.begin(request, ticket.as_ref(), own)?))
            };
            let mut keeper = ChildKeeper { scenes: &*inner.scenes, request, running: inner.views.begin() };
            let told = orders.clone();
            inner.scenes.listen(request, Box::new(move |notice| told.undone(notice)));
            let outcome = watch::run_child(request, orders, &mut keeper, begun);
            // Whatever became of it: it may have changed something, and its scene was made.
            let mut changed = inner.scenes.finished(request);
            drop(keeper);
            inner.ask_about_undone(request, orders, &mut changed);
            let mut outcome = outcome?;
            // What it could not have either with all that the session may write is no news.
            outcome.refused.retain(|refused| match refused {
                ConfinementRefusal::Path { path, write: true } => inner.scenes.could_write(path),
                _ => true,
            });
            outcome.refused.extend(ticket.iter().flat_map(NetworkTicket::refusals));
            outcome.refused.extend(changed);
            outcome.refused.extend(inner.scenes.kept_from(request, &outcome));
            Ok(outcome)
        }))
    }
}

impl SandboxInner {
    /// Asks about what was undone while a child ran that has ended, and makes again what is the user's.
    fn ask_about_undone(
        &self,
        request: &ProcessRequest,
        orders: &watch::ChildOrders,
        changed: &mut Vec<ConfinementRefusal>,
    ) {
        let undone = self.scenes.unanswered(request);
        let paths: Vec<PathBuf> = undone.iter().map(|change| change.path.clone()).collect();
        let users = watch::ask_at_end(request, orders, undone);
        let is_users = |said: &ConfinementRefusal| matches!(said, ConfinementRefusal::Protected { path, .. } if users.contains(path));
        changed.retain(|said| !is_users(said));
        changed.extend(self.scenes.answered(&users, true));
        self.scenes.answered(&paths, false);
    }

    /// The right to use the network, for a child that has one.
    fn admit(&self, request: &ProcessRequest) -> Result<Option<NetworkTicket>, String> {
        let Some(network) = self.network.as_ref().filter(|_| profile::reaches_network(request)) else {
            return Ok(None);
        };
        let hosts: Result<Vec<_>, String> = request
            .access
            .hosts
            .iter()
            .map(|host| host.parse().map_err(|bad| format!("`{host}` can't be granted: {bad}")))
            .collect();
        let requests = request.child_requests.clone();
        let requests = requests.filter(|_| request.confinement == ConfinementLevel::Session);
        let ticket = network.admit(&hosts?, request.grants.clone(), requests);
        ticket.map(Some).map_err(|error| format!("no process can be started: {error}"))
    }

    fn begin(
        &self,
        request: &ProcessRequest,
        ticket: Option<&NetworkTicket>,
        own: &[BorrowedFd<'_>],
    ) -> Result<ConfinedChild, String> {
        let mut scene = self.scenes.scene(request)?;
        // Code of this program has no use for local sockets, by which it could hand on what it was given.
        scene.apart |= request.is_this_program;
        let opened = program::this_program(request)?;
        if let Some(opened) =
            opened.as_ref().filter(|_| self.helper.isolation_level() == IsolationLevel::Bare)
        {
            scene.more.push(bare::program_mount(opened)?);
        }
        let mut environment = environment::child_environment(request, &self.variables);
        environment.extend(self.scenes.environment(request));
        for (name, value) in ticket.into_iter().flat_map(NetworkTicket::timeout_variables) {
            environment.entry(name).or_insert(value);
        }
        environment.extend(ticket.into_iter().flat_map(NetworkTicket::env));
        if self.helper.isolation_level() == IsolationLevel::Bare {
            environment.extend(bare::temp_variable(&scene));
        }
        let cwd = match self.helper.isolation_level() {
            IsolationLevel::Bare => request.cwd.clone(),
            _ => self.scenes.path_in_child(&request.cwd).into_owned(),
        };
        let argv = request.argv.clone();
        let job = ChildJob { argv, environment, cwd, wants_spare: self.makes_spares, ..ChildJob::default() };
        // Before it is made, so that nothing is missed.
        let covered = match self.helper.isolation_level() {
            IsolationLevel::Namespaces => self.covers.begin(&scene),
            _ => None,
        };
        let mut child = self.helper.begin(&scene, job, own, opened.as_ref().map(|opened| opened.as_fd()))?;
        child.stays_covered(covered);
        Ok(child)
    }
}

/// The sockets as the network wants them.
fn listeners_of(mut sockets: VecDeque<OwnedFd>, ports: Vec<u16>) -> Option<NetworkListeners> {
    let proxy = TcpListener::from(sockets.pop_front()?);
    let dns = (UdpSocket::from(sockets.pop_front()?), TcpListener::from(sockets.pop_front()?));
    let host_ports = ports.into_iter().zip(sockets.into_iter().map(TcpListener::from)).collect();
    Some(NetworkListeners { proxy, dns: Some(dns), host_ports })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_landlock_there_is_no_sandbox_whatever_else_there_is() {
        for least in [SandboxStack::Full, SandboxStack::Fallback] {
            let refused =
                ready_where(false, &HelperProgram::ThisProgram, UserNamespaceMaker::Either, least, &[]);
            let refused = refused.err().unwrap();
            assert!(refused.message.starts_with("no sandbox can be made: this kernel has no Landlock"));
        }
    }
}
