//! The engine of one agent: tools, rules, hooks, ports and limits, put together once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_scheduler::sync::lock;
use haft_scheduler::{CallBoard, Cancel, Cause, SchedulerLimits};
use tokio::runtime::Handle;

use crate::call::{CallInput, ToolCall};
use crate::context::{Context, Host, Moved};
use crate::decision::{Decision, DecisionReason, Verdict};
use crate::dispatch::background::Background;
use crate::dispatch::locks::{Ancestor, Locks};
use crate::dispatch::turn::{AgentBoard, Live};
use crate::dispatch::{ConflictRule, PendingCall, Turn, TurnHandle};
use crate::effects::resolved::{Surroundings, Workspace};
use crate::error::ToolError;
use crate::event::EventSink;
use crate::files::Hidden;
use crate::future::BoxFuture;
use crate::hooks::Hooks;
use crate::limits;
use crate::permission::Permissions;
use crate::pipeline::authorize;
use crate::ports::{Asker, Authorizer, Ports, Request};
use crate::registry::{Assembly, Gates, Loaded, Origin, Registry, Snapshot};
use crate::results::{OffloadStore, Readers};
use crate::search::ToolFinder;
use crate::supervise::{Supervisor, Threads};
use crate::tool::{AnyTool, SiblingPolicy};

/// Runs the calls of one agent.
///
/// Give it what it should have, then take a [`turn`](Engine::turn) for each message of the model:
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
/// Without an [`Asker`] the session is not interactive: what would ask is denied. Clones share one session; it ends,
/// with everything that it started, when the last of them and the last turn are gone.
#[derive(Clone)]
pub struct Engine {
    config: Config,
    session: Arc<Session>,
}

/// What [`Engine::check`] takes for granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOptions {
    /// What hooks before the call say.
    pub hooks: Vec<DecisionReason>,
    /// A user can be asked.
    pub has_user: bool,
}

/// The id of the agent that nobody delegated to.
pub const MAIN_AGENT: &str = "main";

/// What keeps a session alive: engines and turns hold it, the calls themselves don't.
#[derive(Default)]
pub(crate) struct Session {
    shared: OnceLock<Arc<Shared>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.get() {
            shared.cancel.cancel(Cause::Shutdown);
        }
    }
}

#[derive(Clone)]
struct Config {
    registry: Registry,
    session: Arc<str>,
    agent: Arc<str>,
    workspace: Workspace,
    ports: Ports,
    events: Option<Arc<dyn EventSink>>,
    authorizer: Arc<dyn Authorizer>,
    hooks: Hooks,
    gates: Gates,
    rule: ConflictRule,
    cap: usize,
    siblings: SiblingPolicy,
    checkpoints: bool,
    budget_chars: usize,
    /// A temporary one if nothing is said.
    store: Option<Arc<OffloadStore>>,
    cancel: Cancel,
    /// What the agents of a session have in common.
    common: Common,
    parent: Option<Arc<dyn Authorizer>>,
    parent_workspace: Option<Workspace>,
    /// The calls that this agent works for, the outermost first.
    ancestors: Arc<[Ancestor]>,
}

#[derive(Clone)]
struct Common {
    locks: Arc<Locks>,
    background: Arc<Background>,
    supervisor: Arc<Supervisor<Live>>,
    threads: Arc<Threads>,
}

/// The engine as turns and calls see it.
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) hooks: Hooks,
    pub(crate) surroundings: Surroundings,
    pub(crate) store: Arc<OffloadStore>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) background: Arc<Background>,
    pub(crate) supervisor: Arc<Supervisor<Live>>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) ancestors: Arc<[Ancestor]>,
    pub(crate) cancel: Cancel,
    pub(crate) rule: ConflictRule,
    /// The calls of all turns.
    pub(crate) board: AgentBoard,
    pub(crate) siblings: SiblingPolicy,
    pub(crate) budget_chars: usize,
    /// Where the first call ran, for those who let others go from outside of any runtime.
    pub(crate) runtime: OnceLock<Handle>,
    gates: Gates,
    tools: Mutex<Tools>,
    /// What the model searches tools with, where the host has nothing of its own for it.
    finder: Option<ToolFinder>,
    turns: AtomicU64,
}

struct Tools {
    registry: Registry,
    loaded: Loaded,
    snapshot: Snapshot,
    /// Counts changes.
    version: u64,
}

impl Engine {
    /// An engine with these tools, working in the current directory, asking nobody.
    pub fn new(registry: Registry) -> Engine {
        Engine {
            config: Config {
                registry,
                session: fresh_id().into(),
                agent: MAIN_AGENT.into(),
                workspace: Workspace::new(".").unwrap_or_else(|_| Workspace::nowhere()),
                ports: Ports::default(),
                events: None,
                authorizer: Arc::new(Permissions::new()),
                hooks: Hooks::new(),
                gates: Gates::default(),
                rule: ConflictRule::Classes,
                cap: limits::CONCURRENCY,
                siblings: SiblingPolicy::Never,
                checkpoints: false,
                budget_chars: limits::TURN_CHARS,
                store: None,
                cancel: Cancel::new(),
                common: Common {
                    locks: Arc::default(),
                    background: Arc::default(),
                    supervisor: Supervisor::new(),
                    threads: Arc::default(),
                },
                parent: None,
                parent_workspace: None,
                ancestors: Arc::default(),
            },
            session: Arc::default(),
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Config)) -> Engine {
        change(&mut self.config);
        self.session = Arc::default();
        self
    }

    /// The directories that it works in. Default: the current one.
    #[must_use]
    ///
    /// A child's lies within its parent's: what doesn't is outside.
    pub fn workspace(self, workspace: Workspace) -> Engine {
        self.set(|config| {
            config.workspace = match &config.parent_workspace {
                Some(parent) => workspace.narrowed_to(parent),
                None => workspace,
            };
        })
    }

    /// The rules. Default: [`Permissions::new`]. A child's rules are held together with its parent's.
    #[must_use]
    pub fn permissions(self, authorizer: impl Authorizer) -> Engine {
        self.set(|config| {
            let own: Arc<dyn Authorizer> = Arc::new(authorizer);
            config.authorizer = match &config.parent {
                Some(parent) => Arc::new(Stricter { parent: parent.clone(), own }),
                None => own,
            };
        })
    }

    /// The user. Default: there is none.
    #[must_use]
    pub fn ask(self, asker: impl Asker) -> Engine {
        self.set(|config| config.ports.asker = Some(Arc::new(asker)))
    }

    /// Changes the ports.
    #[must_use]
    pub fn ports(self, change: impl FnOnce(&mut Ports)) -> Engine {
        self.set(|config| change(&mut config.ports))
    }

    /// Who is told what happens. Default: nobody.
    #[must_use]
    pub fn events(self, sink: impl EventSink) -> Engine {
        self.set(|config| config.events = Some(Arc::new(sink)))
    }

    /// The hooks. Default: none.
    #[must_use]
    pub fn hooks(self, hooks: Hooks) -> Engine {
        self.set(|config| config.hooks = hooks)
    }

    /// What is switched off, and when tools are deferred. Default: nothing, and above 60 tools.
    #[must_use]
    pub fn gates(self, gates: Gates) -> Engine {
        self.set(|config| config.gates = gates)
    }

    /// How many tokens fit into the model's window, for hosts that know it later than the rest of the gates: tools whose
    /// definitions would take too much of it are deferred.
    #[must_use]
    pub fn window_tokens(self, tokens: Option<u64>) -> Engine {
        self.set(|config| config.gates.window_tokens = tokens)
    }

    /// When calls conflict. Default: [`ConflictRule::Classes`].
    #[must_use]
    pub fn schedule(self, rule: ConflictRule) -> Engine {
        self.set(|config| config.rule = rule)
    }

    /// How many calls run at once. Default: 10.
    #[must_use]
    pub fn max_concurrency(self, calls: usize) -> Engine {
        self.set(|config| config.cap = calls.max(1))
    }

    /// What a failing call does to those that run beside it. Default: nothing.
    #[must_use]
    pub fn on_error(self, policy: SiblingPolicy) -> Engine {
        self.set(|config| config.siblings = policy)
    }

    /// Says that the content before each change is kept, so that overwriting is not destructive.
    #[must_use]
    pub fn checkpoints(self) -> Engine {
        self.set(|config| config.checkpoints = true)
    }

    /// How many characters all results of a turn may have together. Default: 400,000.
    #[must_use]
    pub fn turn_budget(self, chars: usize) -> Engine {
        self.set(|config| config.budget_chars = chars)
    }

    /// Where whole results are kept when the model gets only a part. Default: a private temporary folder that goes
    /// with the engine.
    #[must_use]
    pub fn results_in(self, store: OffloadStore) -> Engine {
        self.set(|config| config.store = Some(Arc::new(store)))
    }

    /// The session's id. Default: a fresh one.
    #[must_use]
    pub fn session_id(self, id: impl Into<Arc<str>>) -> Engine {
        self.set(|config| config.session = id.into())
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.shared().host.session
    }

    /// Begins a turn: pins the tools that the model is told of.
    pub fn turn(&self) -> Turn {
        let shared = self.shared();
        let number = shared.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let snapshot = lock(&shared.tools).snapshot.clone();
        Turn::new(self.session.clone(), shared.clone(), snapshot, number)
    }

    /// Takes one call, complete as it is; from any task or thread. It is ordered after all calls that came before, of turns
    /// and submitted ones, and waits for those that it conflicts with.
    ///
    /// Too many unfinished calls are answered with an error ([`UNFINISHED_CALLS_MAX`](limits::UNFINISHED_CALLS_MAX)).
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

    /// Brings in what changed between turns: tools that became available or not, rules that deny one by name, tools that the
    /// model found.
    pub fn refresh(&self) {
        self.shared().change_tools(|_| {});
    }

    /// Brings in another registry, from the next turn on. Turns that have begun keep theirs.
    pub fn refresh_with(&self, registry: Registry) {
        self.shared().change_tools(|tools| tools.registry = registry);
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

    /// Looks at a call as step 5 would, without making it: reads the input and shows the request to `look`. No hook, no
    /// sense check and nobody is asked, and the tool need not be one that is offered.
    ///
    /// # Errors
    /// An input that doesn't fit.
    pub fn consider<T>(
        &self,
        tool: &AnyTool,
        origin: &Origin,
        input: CallInput,
        look: impl FnOnce(&Request<'_>) -> T,
    ) -> Result<T, ToolError> {
        authorize::consider(self.shared(), tool, origin, input, look)
    }

    /// Decides on a call as step 5 does, without making it: reads the input, asks the tool for its opinion, and shows
    /// request and decision to `look`. `hooks` is what hooks before the call are taken to say. No hook, no sense check,
    /// no classifier that runs a program and nobody is asked; the tool need not be one that is offered.
    ///
    /// # Errors
    /// An input that doesn't fit.
    pub async fn check<T>(
        &self,
        tool: &AnyTool,
        origin: &Origin,
        input: CallInput,
        options: CheckOptions,
        look: impl FnOnce(&Request<'_>, &Decision) -> T,
    ) -> Result<T, ToolError> {
        authorize::check(self.shared(), (tool, origin), input, options, look).await
    }

    /// The tools that the next turn is made from, whatever it may be shown of them.
    pub fn registry(&self) -> Registry {
        lock(&self.shared().tools).registry.clone()
    }

    /// An engine for a sub-agent of the call that `cx` belongs to: fewer tools, the same session, locks and results;
    /// it ends with that call. It works where that call does. Its calls are judged by the parent's rules; rules of its own
    /// can only be stricter.
    #[must_use]
    pub fn child(&self, agent: impl Into<Arc<str>>, registry: Registry, cx: &Context) -> Engine {
        let parent = self.config.authorizer.clone();
        let cancel = cx.cancel().child();
        let store = self.shared().store.clone();
        let nearest = cx.entry().map(|entry| cx.running().ancestor(entry));
        let ancestors = self.config.ancestors.iter().copied().chain(nearest).collect();
        self.clone().set(|config| {
            config.store = Some(store);
            config.ancestors = ancestors;
            config.agent = agent.into();
            config.registry = registry;
            config.parent = Some(parent);
            config.workspace = cx.workspace().clone();
            config.parent_workspace = Some(config.workspace.clone());
            config.cancel = cancel;
        })
    }

    /// Moves the main agent to where it was in an earlier process: calls that begin now work there.
    ///
    /// # Errors
    /// In words: it is no directory, or lies outside of those that the session works in. It stays where it is, then.
    pub fn move_to(&self, moved: &Moved) -> Result<(), String> {
        let host = &self.shared().host;
        let from = host.workspace.cwd();
        if let Some(scope) = &moved.scope {
            host.enter(from, scope)?;
        }
        moved.cwd.as_ref().map_or(Ok(()), |cwd| host.move_to(from, cwd))
    }

    /// Ends everything that runs, background tasks included.
    pub fn shutdown(&self, cause: Cause) {
        self.config.cancel.cancel(cause);
    }

    /// How many threads still run for blocking calls that were given up.
    pub fn abandoned_threads(&self) -> usize {
        self.config.common.threads.abandoned()
    }

    /// Removes kept results that are older than this.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn clean_results(&self, older_than: Duration) -> std::io::Result<usize> {
        self.shared().store.clean(older_than, SystemTime::now())
    }

    fn shared(&self) -> &Arc<Shared> {
        self.session.shared.get_or_init(|| Arc::new(Shared::new(&self.config)))
    }
}

impl Shared {
    fn new(config: &Config) -> Shared {
        let loaded = Loaded::new();
        let mut ports = config.ports.clone();
        let finder = ports.tool_index.is_none().then(ToolFinder::new);
        if let Some(finder) = &finder {
            ports.tool_index = Some(Arc::new(finder.clone()));
        }
        let snapshot = assembled(&config.registry, &loaded, &config.gates, &*config.authorizer, &ports);
        if let Some(finder) = &finder {
            finder.update(&snapshot);
        }
        let store = config.store.clone().unwrap_or_else(|| {
            // Advice names only tools that the model has.
            let offered = |name: &str| snapshot.find(name).ok().map(|offer| offer.name.clone());
            let readers = Readers { read: offered("Read"), search: offered("Grep") };
            Arc::new(OffloadStore::temporary().with_readers(readers))
        });
        let workspace = config.workspace.clone().with_readable(store.dir());
        let confined = ports.processes.as_ref().is_some_and(|processes| processes.confines());
        let host = Host {
            session: config.session.clone(),
            agent: config.agent.clone(),
            base_access: Arc::new(workspace.access()),
            workspace,
            ports,
            events: config.events.clone(),
            results: Some(store.clone()),
            background: config.common.background.clone(),
            confined,
            place: Mutex::default(),
        };
        Shared {
            host: Arc::new(host),
            authorizer: config.authorizer.clone(),
            hooks: config.hooks.clone(),
            surroundings: Surroundings { confined, checkpoints: config.checkpoints },
            store,
            locks: config.common.locks.clone(),
            background: config.common.background.clone(),
            supervisor: config.common.supervisor.clone(),
            threads: config.common.threads.clone(),
            ancestors: config.ancestors.clone(),
            // A node of its own: this session may end, and the configuration be used for another.
            cancel: config.cancel.child(),
            rule: config.rule,
            board: CallBoard::new(
                config.rule,
                SchedulerLimits { running: config.cap, preparing: limits::PREPARING_MAX },
            ),
            siblings: config.siblings,
            budget_chars: config.budget_chars,
            runtime: OnceLock::new(),
            gates: config.gates.clone(),
            tools: Mutex::new(Tools { registry: config.registry.clone(), loaded, snapshot, version: 0 }),
            finder,
            turns: AtomicU64::new(0),
        }
    }

    fn change_tools(&self, change: impl FnOnce(&mut Tools)) {
        let (registry, loaded, version) = {
            let mut tools = lock(&self.tools);
            if let Some(finder) = &self.finder {
                tools.loaded.extend(finder.take_loaded().into_iter().map(Arc::from));
            }
            change(&mut tools);
            tools.version += 1;
            (tools.registry.clone(), tools.loaded.clone(), tools.version)
        };
        // Foreign code (`enabled`, rules) runs here, so not under the lock. Who comes later knows more.
        let snapshot = assembled(&registry, &loaded, &self.gates, &*self.authorizer, &self.host.ports);
        let mut tools = lock(&self.tools);
        if tools.version == version {
            if let Some(finder) = &self.finder {
                finder.update(&snapshot);
            }
            tools.snapshot = snapshot;
        }
    }
}

fn assembled(
    registry: &Registry,
    loaded: &Loaded,
    gates: &Gates,
    authorizer: &dyn Authorizer,
    ports: &Ports,
) -> Snapshot {
    let mut assembly = Assembly::new(gates, ports).authorizer(authorizer);
    assembly.loaded = Some(loaded);
    registry.snapshot(&assembly)
}

/// The rules of a child: its parent's, and its own where they are stricter. What the parent was granted, it has.
struct Stricter {
    parent: Arc<dyn Authorizer>,
    own: Arc<dyn Authorizer>,
}

impl Authorizer for Stricter {
    fn reasons(&self, request: &Request<'_>) -> Vec<DecisionReason> {
        let mut reasons = self.parent.reasons(request);
        reasons
            .extend(self.own.reasons(request).into_iter().filter(|reason| reason.verdict != Verdict::Allow));
        reasons
    }

    fn may_ask(&self) -> bool {
        self.parent.may_ask() && self.own.may_ask()
    }

    fn may_prompt(&self) -> bool {
        self.parent.may_prompt() && self.own.may_prompt()
    }

    fn effects(&self, name: &str, tool: &AnyTool, input: &serde_json::Value) -> Option<crate::Effects> {
        self.parent.effects(name, tool, input)
    }

    fn classify<'a>(
        &'a self,
        request: &'a Request<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Option<DecisionReason>> {
        self.parent.classify(request, reason)
    }

    fn classify_statically(&self, request: &Request<'_>, reason: &str) -> Option<DecisionReason> {
        self.parent.classify_statically(request, reason)
    }

    fn hides(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        self.parent.hides(name, tool).or_else(|| self.own.hides(name, tool))
    }

    fn hidden(&self, request: &Request<'_>) -> Option<Hidden> {
        match (self.parent.hidden(request), self.own.hidden(request)) {
            (Some(parent), Some(own)) => {
                Some(Hidden::new(move |path| parent.covers(path) || own.covers(path)))
            }
            (parent, own) => parent.or(own),
        }
    }

    fn remember(&self, request: &Request<'_>, answer: &crate::ports::Answer) -> Result<(), String> {
        self.parent.remember(request, answer)
    }

    fn lasting(&self, request: &Request<'_>) -> Vec<String> {
        self.parent.lasting(request)
    }

    fn propose(&self, request: &Request<'_>) -> Option<String> {
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
