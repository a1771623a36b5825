//! Builds an engine: [`EngineBuilder`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haft_scheduler::Cancel;

use super::{Engine, EngineSession, MAIN_AGENT, assemble_snapshot};
use crate::decision::{CallGrants, DecisionReason, DecisionSource, Verdict};
use crate::dispatch::ConflictRule;
use crate::dispatch::background::BackgroundCalls;
use crate::dispatch::locks::{AncestorCall, FileLocks};
use crate::dispatch::turn::LiveCall;
use crate::effects::resolved::Workspace;
use crate::event::EventSink;
use crate::files::HiddenPaths;
use crate::future::BoxFuture;
use crate::hooks::HookSet;
use crate::limits;
use crate::permission::PermissionRules;
use crate::ports::{Asker, AuthorizationRequest, Authorizer, HostPorts, RuleSetId, bind_processes};
use crate::registry::{LoadedNames, Registry, Snapshot, ToolGates};
use crate::results::OffloadStore;
use crate::supervise::{BlockingThreads, CallSupervisor};
use crate::tool::{AnyTool, SiblingPolicy};

/// Collects what an [`Engine`] is made of: rules, hooks, ports, limits.
///
/// Setters only store a value, and [`build`](EngineBuilder::build) fixes the configuration: an engine has no
/// setters, so a running session never changes its rules, ports or limits behind its calls. What may change
/// between turns is its tools ([`Engine::refresh_with`], [`Engine::load`]).
///
/// ```
/// use haft::{Engine, PermissionRules, Registry};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(Registry::new())
///     .permissions(PermissionRules::new().deny("Write")?)
///     .max_concurrency(4)
///     .build();
/// # drop(engine); Ok(()) }
/// ```
///
/// Each `build` begins a session of its own, so a host calls it once for each agent. Engines built from
/// clones of one builder have the same id, file locks and background tasks, as the agents of one session do;
/// cancellation, turns and tools are separate.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct EngineBuilder {
    config: EngineConfig,
}

/// Everything that an engine is made of.
#[derive(Clone)]
pub(super) struct EngineConfig {
    pub(super) registry: Registry,
    pub(super) session: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) workspace: Workspace,
    pub(super) ports: HostPorts,
    pub(super) events: Option<Arc<dyn EventSink>>,
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) hooks: HookSet,
    pub(super) gates: ToolGates,
    pub(super) rule: ConflictRule,
    pub(super) cap: usize,
    pub(super) siblings: SiblingPolicy,
    pub(super) checkpoints: bool,
    pub(super) budget_chars: usize,
    /// `None` for a temporary one.
    pub(super) store: Option<Arc<OffloadStore>>,
    /// Cancels the engine. A builder holds the parent of the node that the engine gets.
    pub(super) cancel: Cancel,
    /// What the agents of a session have in common.
    pub(super) common: SessionState,
    pub(super) parent: Option<Arc<dyn Authorizer>>,
    pub(super) parent_workspace: Option<Workspace>,
    /// The calls that this agent works for, the outermost first.
    pub(super) ancestors: Arc<[AncestorCall]>,
}

#[derive(Clone)]
pub(super) struct SessionState {
    pub(super) locks: Arc<FileLocks>,
    pub(super) background: Arc<BackgroundCalls>,
    pub(super) supervisor: Arc<CallSupervisor<LiveCall>>,
    pub(super) threads: Arc<BlockingThreads>,
}

impl EngineBuilder {
    pub(super) fn new(registry: Registry) -> EngineBuilder {
        let config = EngineConfig {
            registry,
            session: fresh_id().into(),
            agent: MAIN_AGENT.into(),
            workspace: Workspace::new(".").unwrap_or_else(|_| Workspace::without_dirs()),
            ports: HostPorts::default(),
            events: None,
            authorizer: Arc::new(PermissionRules::new()),
            hooks: HookSet::new(),
            gates: ToolGates::default(),
            rule: ConflictRule::Classes,
            cap: limits::CONCURRENCY,
            siblings: SiblingPolicy::Never,
            checkpoints: false,
            budget_chars: limits::TURN_CHARS,
            store: None,
            cancel: Cancel::new(),
            common: SessionState {
                locks: Arc::default(),
                background: Arc::default(),
                supervisor: CallSupervisor::new(),
                threads: Arc::default(),
            },
            parent: None,
            parent_workspace: None,
            ancestors: Arc::default(),
        };
        EngineBuilder { config }
    }

    pub(super) fn from_config(config: EngineConfig) -> EngineBuilder {
        EngineBuilder { config }
    }

    /// Builds the engine. It assembles its first set of tools when it is first used.
    ///
    /// If the processes are held to the [rules](crate::ports::SandboxRules) of another authorizer than the
    /// engine's, the engine starts none, and each result says why.
    #[must_use]
    pub fn build(self) -> Engine {
        let EngineBuilder { mut config } = self;
        config.cancel = config.cancel.child();
        let EngineConfig { ports, authorizer, .. } = &mut config;
        ports.processes = ports.processes.take().map(|processes| bind_processes(processes, &**authorizer));
        Engine { session: Arc::new(EngineSession::new(config)) }
    }

    /// The directories that the agent works in. Default: the current one.
    ///
    /// A child works within its parent's directories; others are outside.
    pub fn workspace(self, workspace: Workspace) -> EngineBuilder {
        self.set(|config| {
            config.workspace = match &config.parent_workspace {
                Some(parent) => workspace.narrowed_to(parent),
                None => workspace,
            };
        })
    }

    /// The rules. Default: [`PermissionRules::new`]. A child's calls are also judged by its parent's rules.
    pub fn permissions(self, authorizer: impl Authorizer) -> EngineBuilder {
        self.set(|config| {
            let own: Arc<dyn Authorizer> = Arc::new(authorizer);
            config.authorizer = match &config.parent {
                Some(parent) => Arc::new(StricterRules { parent: parent.clone(), own }),
                None => own,
            };
        })
    }

    /// The user, who answers questions. Default: none, and calls that would ask are denied.
    pub fn asker(self, asker: impl Asker) -> EngineBuilder {
        self.set(|config| config.ports.asker = Some(Arc::new(asker)))
    }

    /// Changes the ports.
    pub fn ports(self, change: impl FnOnce(&mut HostPorts)) -> EngineBuilder {
        self.set(|config| change(&mut config.ports))
    }

    /// Receives events. Default: they are dropped.
    pub fn events(self, sink: impl EventSink) -> EngineBuilder {
        self.set(|config| config.events = Some(Arc::new(sink)))
    }

    /// The hooks. Default: none.
    pub fn hooks(self, hooks: HookSet) -> EngineBuilder {
        self.set(|config| config.hooks = hooks)
    }

    /// Which tools are switched off, and when tools are deferred. Default: none, and above 60 tools.
    pub fn gates(self, gates: ToolGates) -> EngineBuilder {
        self.set(|config| config.gates = gates)
    }

    /// How many tokens fit into the model's context window; sets [`ToolGates::window_tokens`] and leaves the
    /// other gates alone. Tools are deferred if their definitions would take too much of it.
    pub fn window_tokens(self, tokens: Option<u64>) -> EngineBuilder {
        self.set(|config| config.gates.window_tokens = tokens)
    }

    /// When calls conflict. Default: [`ConflictRule::Classes`].
    pub fn schedule(self, rule: ConflictRule) -> EngineBuilder {
        self.set(|config| config.rule = rule)
    }

    /// How many calls of a turn run at once. Default: 10.
    pub fn max_concurrency(self, calls: usize) -> EngineBuilder {
        self.set(|config| config.cap = calls.max(1))
    }

    /// Whether a failing call cancels the calls that run in parallel with it. Default: it doesn't.
    pub fn sibling_policy(self, policy: SiblingPolicy) -> EngineBuilder {
        self.set(|config| config.siblings = policy)
    }

    /// States that the host keeps the content before each change, so that overwriting is not destructive.
    pub fn with_checkpoints(self) -> EngineBuilder {
        self.set(|config| config.checkpoints = true)
    }

    /// How many characters all results of a turn may have in total. Default: 400,000.
    pub fn turn_budget(self, chars: usize) -> EngineBuilder {
        self.set(|config| config.budget_chars = chars)
    }

    /// Stores results that are too long for the model. Default: a private temporary directory that is removed
    /// with the engine.
    pub fn result_store(self, store: OffloadStore) -> EngineBuilder {
        self.set(|config| config.store = Some(Arc::new(store)))
    }

    /// The session's id. Default: a new one.
    pub fn session_id(self, id: impl Into<Arc<str>>) -> EngineBuilder {
        self.set(|config| config.session = id.into())
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.config.registry
    }

    /// The tools that the first turn would have.
    pub fn snapshot(&self) -> Snapshot {
        let EngineConfig { registry, gates, ports, authorizer, .. } = &self.config;
        assemble_snapshot(registry, &LoadedNames::new(), gates, &**authorizer, ports)
    }

    fn set(mut self, change: impl FnOnce(&mut EngineConfig)) -> EngineBuilder {
        change(&mut self.config);
        self
    }
}

/// The rules of a child: its parent's, and its own where they are stricter. What the parent was granted, it
/// has.
struct StricterRules {
    parent: Arc<dyn Authorizer>,
    own: Arc<dyn Authorizer>,
}

impl Authorizer for StricterRules {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        let mut reasons = self.parent.reasons(request);
        reasons
            .extend(self.own.reasons(request).into_iter().filter(|reason| reason.verdict != Verdict::Allow));
        reasons
    }

    fn may_ask(&self, source: DecisionSource) -> bool {
        self.parent.may_ask(source) && self.own.may_ask(source)
    }

    fn grants(&self, request: &AuthorizationRequest<'_>, approved: bool) -> CallGrants {
        let mut grants = self.parent.grants(request, approved);
        let own = self.own.grants(request, approved);
        grants.hosts.retain(|host| own.hosts.contains(host));
        CallGrants {
            reads: grants.reads.intersect(own.reads),
            writes: grants.writes.intersect(own.writes),
            deletes: grants.deletes.intersect(own.deletes),
            ..grants
        }
    }

    /// The parent's, unless rules of its own would not bind its child processes.
    fn rule_set(&self) -> Option<RuleSetId> {
        let (parent, own) = (self.parent.rule_set()?, self.own.rule_set()?);
        (own == parent || own == RuleSetId::UNRESTRICTED).then_some(parent)
    }

    fn may_prompt(&self) -> bool {
        self.parent.may_prompt() && self.own.may_prompt()
    }

    fn effects(&self, name: &str, tool: &AnyTool, input: &serde_json::Value) -> Option<crate::Effects> {
        self.parent.effects(name, tool, input)
    }

    fn classify<'a>(
        &'a self,
        request: &'a AuthorizationRequest<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Option<DecisionReason>> {
        self.parent.classify(request, reason)
    }

    fn classify_statically(
        &self,
        request: &AuthorizationRequest<'_>,
        reason: &str,
    ) -> Option<DecisionReason> {
        self.parent.classify_statically(request, reason)
    }

    fn tool_denial(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        self.parent.tool_denial(name, tool).or_else(|| self.own.tool_denial(name, tool))
    }

    fn hidden(&self, request: &AuthorizationRequest<'_>) -> Option<HiddenPaths> {
        match (self.parent.hidden(request), self.own.hidden(request)) {
            (Some(parent), Some(own)) => Some(parent.or(own)),
            (parent, own) => parent.or(own),
        }
    }

    fn remember(
        &self,
        request: &AuthorizationRequest<'_>,
        answer: &crate::ports::ApprovalAnswer,
    ) -> Result<(), String> {
        self.parent.remember(request, answer)
    }

    fn lasting_rules(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        self.parent.lasting_rules(request)
    }

    fn propose(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        self.parent.propose(request)
    }
}

/// An id that no other session of this machine has: time, process and a count.
fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{time:x}-{:x}-{count:x}", std::process::id())
}
