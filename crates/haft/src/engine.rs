//! The engine of one agent: tools, rules, hooks, ports and limits, put together once.

mod builder;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use haft_scheduler::sync::lock;
use haft_scheduler::{CallBoard, Cancel, Cause, SchedulerLimits};
use tokio::runtime::Handle;

pub use self::builder::EngineBuilder;
use self::builder::EngineConfig;
use crate::call::{CallInput, ToolCall};
use crate::context::{AgentHost, Context, DirectoryChange};
use crate::decision::{Decision, DecisionReason};
use crate::dispatch::background::BackgroundCalls;
use crate::dispatch::locks::{AncestorCall, FileLocks};
use crate::dispatch::turn::{AgentBoard, LiveCall};
use crate::dispatch::{ConflictRule, PendingCall, Turn, TurnHandle};
use crate::effects::resolved::HostCapabilities;
use crate::error::ToolError;
use crate::hooks::HookSet;
use crate::pipeline::authorize;
use crate::ports::{AuthorizationRequest, Authorizer, HostPorts};
use crate::registry::{AssemblyInputs, LoadedNames, Registry, Snapshot, ToolGates, ToolOrigin};
use crate::results::{OffloadStore, ReaderTools};
use crate::search::ToolFinder;
use crate::supervise::{BlockingThreads, CallSupervisor};
use crate::tool::{AnyTool, SiblingPolicy};

/// Runs the calls of one agent.
///
/// [`Engine::builder`] configures it; it takes one [`turn`](Engine::turn) for each message of the model:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
///
/// let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
/// let engine = Engine::new(Registry::new().with(answer)?);
///
/// let turn = engine.turn();
/// let results = turn.run([ToolCall::new("call-1", "answer", "{}")]).await;
/// assert_eq!(results[0].to_json().output, 42);
/// # Ok(()) }
/// ```
///
/// Without an [`Asker`](crate::ports::Asker) the session is not interactive: what would ask is denied. Clones
/// share one session; it ends, with everything that it started, when the last of them and the last turn are
/// gone.
#[derive(Clone)]
pub struct Engine {
    session: Arc<EngineSession>,
}

/// What [`Engine::check`] takes for granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOptions {
    /// What hooks before the call say.
    pub hooks: Vec<DecisionReason>,
    /// What permission hooks say, if the call asks. The first that allows or denies counts.
    pub permission_hooks: Vec<DecisionReason>,
    /// A user can be asked.
    pub has_user: bool,
}

/// The id of the agent that nobody delegated to.
pub const MAIN_AGENT: &str = "main";

/// What keeps a session alive: engines and turns hold it, the calls themselves don't.
pub(crate) struct EngineSession {
    config: EngineConfig,
    shared: OnceLock<Arc<EngineCore>>,
}

impl EngineSession {
    fn new(config: EngineConfig) -> EngineSession {
        EngineSession { config, shared: OnceLock::new() }
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        self.config.cancel.cancel(Cause::Shutdown);
    }
}

/// The engine as turns and calls see it.
pub(crate) struct EngineCore {
    pub(crate) host: Arc<AgentHost>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) hooks: HookSet,
    pub(crate) surroundings: HostCapabilities,
    pub(crate) store: Arc<OffloadStore>,
    pub(crate) locks: Arc<FileLocks>,
    pub(crate) background: Arc<BackgroundCalls>,
    pub(crate) supervisor: Arc<CallSupervisor<LiveCall>>,
    pub(crate) threads: Arc<BlockingThreads>,
    pub(crate) ancestors: Arc<[AncestorCall]>,
    pub(crate) cancel: Cancel,
    pub(crate) rule: ConflictRule,
    /// The calls of all turns.
    pub(crate) board: AgentBoard,
    pub(crate) siblings: SiblingPolicy,
    pub(crate) budget_chars: usize,
    /// Where the first call ran, for those who let others go from outside of any runtime.
    pub(crate) runtime: OnceLock<Handle>,
    tools: Mutex<ToolState>,
    turns: AtomicU64,
}

struct ToolState {
    gates: ToolGates,
    registry: Registry,
    loaded: LoadedNames,
    snapshot: Snapshot,
    /// Counts changes.
    version: u64,
}

impl Engine {
    /// An engine with these tools and the defaults of [`EngineBuilder`]: it works in the current directory,
    /// without a user to ask.
    pub fn new(registry: Registry) -> Engine {
        Engine::builder(registry).build()
    }

    /// A builder for an engine with these tools.
    pub fn builder(registry: Registry) -> EngineBuilder {
        EngineBuilder::new(registry)
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session.config.session
    }

    /// Begins a turn: pins the tools that the model is told of.
    pub fn turn(&self) -> Turn {
        let shared = self.shared();
        let number = shared.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let snapshot = lock(&shared.tools).snapshot.clone();
        Turn::new(self.session.clone(), shared.clone(), snapshot, number)
    }

    /// Takes one call, complete as it is; from any task or thread. It is ordered after all calls that came
    /// before, of turns and submitted ones, and waits for those that it conflicts with.
    ///
    /// Too many unfinished calls are answered with an error
    /// ([`UNFINISHED_CALLS_MAX`](crate::limits::UNFINISHED_CALLS_MAX)).
    pub fn submit(&self, call: ToolCall) -> PendingCall {
        self.turn().submit(call)
    }

    /// The turn with this number, if a call of it runs.
    pub fn running_turn(&self, number: u64) -> Option<TurnHandle> {
        self.shared().running_turn(number)
    }

    /// The tools that the next turn will have.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.shared().tools).snapshot.clone()
    }

    /// Brings in what changed between turns: tools that became available or not, rules that deny one by name,
    /// tools that the model found.
    pub fn refresh(&self) {
        self.shared().change_tools(|_| {});
    }

    /// Brings in another registry, from the next turn on. Turns that have begun keep theirs.
    pub fn refresh_with(&self, registry: Registry) {
        self.shared().change_tools(|tools| tools.registry = registry);
    }

    /// Fits the tools to the context window of a model, from the next turn on: those that take too much of it
    /// are deferred.
    pub fn fit_window(&self, tokens: Option<u64>) {
        self.shared().change_tools(|tools| tools.gates.window_tokens = tokens);
    }

    /// Shows deferred tools to the model from the next turn on. Returns those that there are.
    pub fn load(&self, names: &[String]) -> Vec<String> {
        let shared = self.shared();
        let snapshot = lock(&shared.tools).snapshot.clone();
        let known: Vec<Arc<str>> = names
            .iter()
            .filter_map(|name| snapshot.find(name).ok())
            .map(|offer| offer.name.clone())
            .collect();
        shared.change_tools(|tools| tools.loaded.extend(known.iter().cloned()));
        known.iter().map(|name| name.to_string()).collect()
    }

    /// Looks at a call as step 5 would, without making it: reads the input and shows the request to `look`.
    /// No hook, no sense check and nobody is asked, and the tool need not be one that is offered.
    ///
    /// # Errors
    /// An input that doesn't fit.
    pub fn consider<T>(
        &self,
        tool: &AnyTool,
        origin: &ToolOrigin,
        input: CallInput,
        look: impl FnOnce(&AuthorizationRequest<'_>) -> T,
    ) -> Result<T, ToolError> {
        authorize::consider_call(self.shared(), tool, origin, input, look)
    }

    /// Decides on a call as step 5 does, without making it: reads the input, asks the tool for its opinion,
    /// and shows request and decision to `look`. `hooks` is what hooks before the call are taken to say. No
    /// hook, no sense check, no classifier that runs a program and nobody is asked; the tool need not be one
    /// that is offered.
    ///
    /// # Errors
    /// An input that doesn't fit.
    pub async fn check<T>(
        &self,
        tool: &AnyTool,
        origin: &ToolOrigin,
        input: CallInput,
        options: CheckOptions,
        look: impl FnOnce(&AuthorizationRequest<'_>, &Decision) -> T,
    ) -> Result<T, ToolError> {
        authorize::check_call(self.shared(), (tool, origin), input, options, look).await
    }

    /// The tools that the next turn is made from, whatever it may be shown of them.
    pub fn registry(&self) -> Registry {
        lock(&self.shared().tools).registry.clone()
    }

    /// A builder for the engine of a sub-agent that works for the call of `cx`: fewer tools, the same
    /// session, locks and results. The engine is cancelled with that call and works in the same directories.
    /// Its calls are judged by the parent's rules; rules of its own can only be stricter.
    pub fn child(&self, agent: impl Into<Arc<str>>, registry: Registry, cx: &Context) -> EngineBuilder {
        let config = &self.session.config;
        let nearest = cx.entry().map(|entry| cx.running().ancestor(entry));
        let workspace = cx.location().workspace().clone();
        EngineBuilder::from_config(EngineConfig {
            store: Some(self.shared().store.clone()),
            ancestors: config.ancestors.iter().copied().chain(nearest).collect(),
            agent: agent.into(),
            registry,
            parent: Some(config.authorizer.clone()),
            parent_workspace: Some(workspace.clone()),
            workspace,
            cancel: cx.cancel().clone(),
            ..config.clone()
        })
    }

    /// Moves the main agent to where it was in an earlier process: calls that begin now work there.
    ///
    /// # Errors
    /// In words: it is no directory, or lies outside of those that the session works in. It stays where it
    /// is, then.
    pub fn move_to(&self, moved: &DirectoryChange) -> Result<(), String> {
        let host = &self.shared().host;
        let from = host.workspace.cwd();
        if let Some(scope) = &moved.scope {
            host.enter(from, scope)?;
        }
        moved.cwd.as_ref().map_or(Ok(()), |cwd| host.move_to(from, cwd))
    }

    /// Ends everything that runs, background tasks included.
    pub fn shutdown(&self, cause: Cause) {
        self.session.config.cancel.cancel(cause);
    }

    /// How many threads still run for blocking calls that were given up.
    pub fn abandoned_threads(&self) -> usize {
        self.session.config.common.threads.abandoned()
    }

    /// Removes kept results that are older than this.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn clean_results(&self, older_than: Duration) -> std::io::Result<usize> {
        self.shared().store.clean(older_than, SystemTime::now())
    }

    fn shared(&self) -> &Arc<EngineCore> {
        self.session.shared.get_or_init(|| Arc::new(EngineCore::new(&self.session.config)))
    }
}

impl EngineCore {
    fn new(config: &EngineConfig) -> EngineCore {
        let loaded = LoadedNames::new();
        let ports = config.ports.clone();
        let snapshot =
            assemble_snapshot(&config.registry, &loaded, &config.gates, &*config.authorizer, &ports);
        let finder = ToolFinder::default();
        finder.update(&snapshot);
        let store = config.store.clone().unwrap_or_else(|| {
            // Advice names only tools that the model has.
            let offered = |name: &str| snapshot.find(name).ok().map(|offer| offer.name.clone());
            let readers = ReaderTools { read: offered("Read"), search: offered("Grep") };
            Arc::new(OffloadStore::temporary().with_readers(readers))
        });
        let workspace = config.workspace.clone().with_readable(store.dir());
        let confined = ports.processes.as_ref().is_some_and(|processes| processes.confines());
        let host = AgentHost {
            session: config.session.clone(),
            agent: config.agent.clone(),
            base_access: Arc::new(workspace.access()),
            workspace,
            ports,
            finder,
            events: config.events.clone(),
            results: Some(store.clone()),
            background: config.common.background.clone(),
            confined,
            place: Mutex::default(),
        };
        EngineCore {
            host: Arc::new(host),
            authorizer: config.authorizer.clone(),
            hooks: config.hooks.clone(),
            surroundings: HostCapabilities { confined, checkpoints: config.checkpoints },
            store,
            locks: config.common.locks.clone(),
            background: config.common.background.clone(),
            supervisor: config.common.supervisor.clone(),
            threads: config.common.threads.clone(),
            ancestors: config.ancestors.clone(),
            cancel: config.cancel.clone(),
            rule: config.rule,
            board: CallBoard::new(
                config.rule,
                SchedulerLimits { running: config.cap, preparing: crate::limits::PREPARING_MAX },
            ),
            siblings: config.siblings,
            budget_chars: config.budget_chars,
            runtime: OnceLock::new(),
            tools: Mutex::new(ToolState {
                gates: config.gates.clone(),
                registry: config.registry.clone(),
                loaded,
                snapshot,
                version: 0,
            }),
            turns: AtomicU64::new(0),
        }
    }

    fn change_tools(&self, change: impl FnOnce(&mut ToolState)) {
        let (gates, registry, loaded, version) = {
            let mut tools = lock(&self.tools);
            tools.loaded.extend(self.host.finder.take_loaded().into_iter().map(Arc::from));
            change(&mut tools);
            tools.version += 1;
            (tools.gates.clone(), tools.registry.clone(), tools.loaded.clone(), tools.version)
        };
        // Foreign code (`unavailable_reason`, rules) runs here, so not under the lock. Who comes later knows
        // more.
        let snapshot = assemble_snapshot(&registry, &loaded, &gates, &*self.authorizer, &self.host.ports);
        let mut tools = lock(&self.tools);
        if tools.version == version {
            self.host.finder.update(&snapshot);
            tools.snapshot = snapshot;
        }
    }
}

fn assemble_snapshot(
    registry: &Registry,
    loaded: &LoadedNames,
    gates: &ToolGates,
    authorizer: &dyn Authorizer,
    ports: &HostPorts,
) -> Snapshot {
    let mut assembly = AssemblyInputs::new(gates, ports).authorizer(authorizer);
    assembly.loaded = Some(loaded);
    registry.snapshot(&assembly)
}
