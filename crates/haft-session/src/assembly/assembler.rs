//! [`SessionAssembler`]: loads settings, tools and rules once, and assembles sessions from them.
//!
//! Most commands load one assembler and open one session. A server creates an assembler for each view of
//! its tools ([`crate::clients`]) and opens a session for each client. The sessions of one assembler share
//! its sandbox.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use haft::call_log::CallLog;
use haft::dispatch::TaskTable;
use haft::event::EventSink;
use haft::files::{DirFiles, PathTable};
use haft::ports::{Asker, Processes, RuleSetId, SandboxView};
use haft::registry::ToolGates;
use haft::results::OffloadStore;
use haft::{Engine, EngineBuilder, Registry};
use haft_policy::gate::{IsFullSandbox, Policy, PolicyContext, PolicyFindings, SandboxCoverage};
use haft_policy::hooks::Hooks;
use haft_policy::rule::NamedPath;
use haft_policy::settings::Settings;
use haft_tools::SessionArguments;

use super::child_processes::{guarded_processes, path_table, sandbox_surroundings};
use super::client_session::{ClientSession, SharedServers};
use super::server_pool::ServerStarter;
use super::session_config::SessionConfig;
use super::tool_state::{self, active_settings};
use super::tools::reader_tools;
use super::{NoticeEvents, ProcessGuard, SessionParts};
use crate::hooks::ServerSlot;
use crate::loaded_settings::LoadedSettings;
use crate::processes::{self, SessionProcesses};
use crate::temp_folder::TempFolder;
use crate::text::one_line;
use crate::{SessionChannels, SessionError, SessionOptions, SessionPurpose, hooks};

/// Opens sessions with the same settings, tools, rules and sandbox.
pub struct SessionAssembler {
    pub(super) config: SessionConfig,
    purpose: SessionPurpose,
    /// The id of the first session.
    id: String,
    /// The folder for temporary files of the sandbox.
    temp: TempFolder,
    /// The paths that path rules name.
    named: Vec<NamedPath>,
    starter: Arc<SessionProcesses>,
    processes: Arc<dyn Processes>,
    process_guard: ProcessGuard,
    /// Identifies the rules of all sessions, which share the sandbox.
    rule_set: RuleSetId,
    /// The result of planning the sandbox. Set when the first rules are created.
    sandbox: OnceLock<Result<(), SessionError>>,
}

/// The parts of the engine that are specific to one session.
pub(super) struct EngineOptions<S> {
    pub(super) id: String,
    pub(super) policy: Policy,
    pub(super) asker: Option<Arc<dyn Asker>>,
    pub(super) events: S,
    pub(super) gates: ToolGates,
    /// What tools get from the session; the engine adds calls and settings.
    pub(super) arguments: SessionArguments,
    /// The stores for long results, for the engine and for hooks; `None` uses a temporary folder.
    pub(super) results: Option<(OffloadStore, OffloadStore)>,
}

/// The engine to build, and the parts created with it.
pub(super) struct EngineParts {
    pub(super) engine: EngineBuilder,
    /// The engine that evaluates the conditions of hooks: it has the tools and the rules, and no hooks.
    pub(super) bare: Engine,
    /// The tools that belong to this session.
    pub(super) session_tools: Registry,
    pub(super) hooks: Hooks,
    pub(super) tasks: Arc<TaskTable>,
    pub(super) calls: CallLog,
    /// The servers, once they are started, for hooks that call their tools.
    pub(super) servers: ServerSlot,
}

impl SessionAssembler {
    /// Reads settings, directories and tools. Starts nothing.
    ///
    /// # Errors
    /// Returns an error if settings, directories or tools can't be used.
    pub fn load(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionAssembler, SessionError> {
        let config = SessionConfig::load(options, purpose)?;
        let id = options.resume.clone().unwrap_or_else(hooks::session_id);
        Ok(SessionAssembler::new(config, purpose, id))
    }

    /// Returns an assembler with the same settings, tools and rules, and with its own front ends, processes
    /// and sandbox.
    pub(crate) fn for_purpose(&self, purpose: SessionPurpose) -> SessionAssembler {
        let mut config = self.config.clone();
        config.options.channels = Some(SessionChannels::default());
        let id = config.options.resume.clone().unwrap_or_else(hooks::session_id);
        SessionAssembler::new(config, purpose, id)
    }

    fn new(mut config: SessionConfig, purpose: SessionPurpose, id: String) -> SessionAssembler {
        let notices = config.options.notices.clone();
        let temp = TempFolder::new(&id, config.state.as_deref());
        let named = haft_policy::gate::named_paths(&config.given.loaded, &config.given.places);
        let paths = if config.is_confined() {
            path_table(&config, purpose, &temp, &named)
        } else {
            PathTable::default()
        };
        config.workspace = config.workspace.with_paths(paths);
        let starter = Arc::new(if config.is_confined() {
            SessionProcesses::confined(notices)
        } else {
            SessionProcesses::unconfined(notices)
        });
        let processes: Arc<dyn Processes> = Arc::new(guarded_processes(&starter, &config.given));
        let process_guard = ProcessGuard::new(starter.clone());
        let sandbox = OnceLock::new();
        SessionAssembler {
            config,
            purpose,
            id,
            temp,
            named,
            starter,
            processes,
            process_guard,
            rule_set: RuleSetId::new(),
            sandbox,
        }
    }

    /// Opens a session: the conversation of a user, or the calls of one command. Starts nothing.
    ///
    /// # Errors
    /// Returns an error if rules, hooks or sandbox settings can't be used.
    pub fn open(&self) -> Result<SessionParts, SessionError> {
        let SessionConfig { options, given, workspace, state, seen, .. } = &self.config;
        let asker: Option<Arc<dyn Asker>> = match &options.channels {
            _ if options.non_interactive => None,
            Some(channels) => Some(channels.prompts.clone()),
            None => options.asker.as_ref().and_then(|source| source.open(workspace.cwd())),
        };
        let (policy, findings) = self.rules(options.non_interactive)?;
        let search =
            self.config.settings().tool_search.as_ref().map(|at| at.value.clone()).unwrap_or_default();
        let mut gates = ToolGates::default();
        gates.groups_off = self.config.groups_off()?;
        if let Some(above) = search.above {
            gates.defer_above = usize::try_from(above).unwrap_or(usize::MAX);
        }
        if let Some(percent) = search.percent.and_then(|percent| u8::try_from(percent).ok()) {
            gates.defer_above_percent = percent;
        }
        let crons = tool_state::open_crons(state.as_deref(), workspace.cwd());
        let grants = policy.clone();
        let arguments = SessionArguments {
            crons: Some(crons.clone()),
            // Grants of skills end with the user's next message, which only a run receives. In other
            // sessions they end immediately.
            grants: Some(Arc::new(move |rules| grants.allow_for_turn(rules))),
            ..SessionArguments::default()
        };
        let EngineParts { engine, bare, hooks, tasks, calls, servers, .. } = self.engine(EngineOptions {
            id: self.id.clone(),
            policy: policy.clone(),
            asker: asker.clone(),
            events: NoticeEvents(options.notices.clone()),
            gates,
            arguments,
            results: self.config.results().zip(self.config.results()),
        })?;
        let searches = search.enabled != Some(false);
        let registry = engine.registry().clone();
        let server_starter = self.server_starter(&policy, asker, registry, bare, searches, &servers);
        let lints = findings.lints.iter().map(ToString::to_string);
        let hook_warnings = hooks.warnings().iter().map(ToString::to_string);
        let warnings = given.warnings().into_iter().chain(lints).chain(findings.notices).chain(hook_warnings);
        Ok(SessionParts {
            id: self.id.clone(),
            workspace: workspace.clone(),
            engine,
            built_engine: OnceLock::new(),
            policy,
            given: given.clone(),
            warnings: warnings.collect(),
            hooks,
            tasks,
            calls,
            shared_tools: self.config.registry.clone(),
            crons,
            seen: seen.clone(),
            confined: self.processes.confines(),
            server_starter,
            channels: options.channels.clone(),
            notices: options.notices.clone(),
            process_guard: self.process_guard.share(),
        })
    }

    /// Opens a session for one client of a server. `asker` is the client's user, if the client can be
    /// asked.
    ///
    /// # Errors
    /// Returns an error if rules or hooks can't be used.
    pub fn open_client(
        &self,
        asker: Option<Arc<dyn Asker>>,
        events: impl EventSink,
    ) -> Result<ClientSession, SessionError> {
        let (policy, _) = self.rules(asker.is_none())?;
        let id = hooks::session_id();
        let store = OffloadStore::temporary().with_readers(reader_tools(&self.config.registry));
        let of_hooks = self.config.store(store.dir());
        // A client decides itself which tools its model receives.
        let mut gates = ToolGates::default();
        gates.defer_above = usize::MAX;
        gates.groups_off = self.config.groups_off()?;
        let parts = self.engine(EngineOptions {
            id: id.clone(),
            policy: policy.clone(),
            asker,
            events,
            gates,
            arguments: SessionArguments::default(),
            results: Some((store, of_hooks)),
        })?;
        Ok(ClientSession::new(id, policy, parts, &self.config))
    }

    /// Returns the MCP servers of the settings, for a server whose clients share them. `asker` answers
    /// their prompts.
    ///
    /// # Errors
    /// Returns an error if rules or hooks can't be used.
    pub fn shared_servers(&self, asker: Option<Arc<dyn Asker>>) -> Result<SharedServers, SessionError> {
        let (policy, _) = self.rules(true)?;
        // This engine runs no calls. It is only needed to start servers.
        let parts = self.engine(EngineOptions {
            id: hooks::session_id(),
            policy: policy.clone(),
            asker: None,
            events: NoticeEvents(self.config.options.notices.clone()),
            gates: ToolGates::default(),
            arguments: SessionArguments::default(),
            results: None,
        })?;
        let registry = self.config.registry.clone();
        let starter =
            self.server_starter(&policy, asker.clone(), registry, parts.bare, false, &parts.servers);
        Ok(SharedServers { starter, engine: parts.engine.build(), asker })
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> &Path {
        self.config.workspace.cwd()
    }

    /// Returns the tools without those of MCP servers.
    pub fn registry(&self) -> &Registry {
        &self.config.registry
    }

    /// Returns a guard that ends the processes of all sessions when the last guard is dropped.
    pub fn process_guard(&self) -> ProcessGuard {
        self.process_guard.share()
    }

    /// Returns an assembler with changed settings, and its own rules and sandbox. `describe` formats each
    /// warning about them.
    pub(crate) fn with_settings(
        &self,
        change: impl FnOnce(&mut Settings),
        describe: impl Fn(String) -> String,
    ) -> Result<SessionAssembler, SessionError> {
        let mut config = self.config.clone();
        change(&mut config.given.loaded.settings);
        let factory = SessionAssembler::new(config, self.purpose, hooks::session_id());
        let (_, findings) = factory.rules(factory.config.options.non_interactive)?;
        let lints = findings.lints.iter().map(ToString::to_string);
        let warnings = factory.config.given.warnings().into_iter().chain(lints).chain(findings.notices);
        let notices = &factory.config.options.notices;
        warnings.for_each(|text| notices.warn(one_line(&describe(text))));
        Ok(factory)
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.config.settings()
    }

    pub(crate) fn loaded(&self) -> &LoadedSettings {
        &self.config.given
    }

    pub(crate) fn options(&self) -> &SessionOptions {
        &self.config.options
    }

    /// Returns the names of the MCP servers that may be used.
    pub(crate) fn server_names(&self) -> impl Iterator<Item = &str> {
        self.config.server_plan.usable().map(|(_, config)| config.name.as_str())
    }

    /// Creates rules, mode and answers of one session, with warnings about them.
    fn rules(&self, non_interactive: bool) -> Result<(Policy, PolicyFindings), SessionError> {
        let (full, coverage): (IsFullSandbox, SandboxCoverage) = match self.purpose {
            SessionPurpose::Run | SessionPurpose::Once | SessionPurpose::Replay => {
                let (full, starter) = (self.starter.clone(), self.starter.clone());
                (Arc::new(move || full.is_full()), SandboxCoverage::new(move || starter.coverage_gap()))
            }
            SessionPurpose::Inspect => {
                (Arc::new(processes::can_be_full), SandboxCoverage::new(processes::may_leave_open))
            }
        };
        let SessionConfig { options, given, workspace, registry, analyzer, .. } = &self.config;
        let plain = PolicyContext::new(&given.places, workspace);
        let setup = PolicyContext {
            no_sandbox: options.no_sandbox,
            confined: self.processes.confines(),
            full_sandbox: Some(full),
            coverage,
            view: self.config.is_confined().then(|| self.starter.clone() as Arc<dyn SandboxView>),
            non_interactive,
            tools: registry.entries().map(|entry| entry.tool().name().to_owned()).collect(),
            analyzer: Some(analyzer.clone()),
            processes: Some(self.processes.clone()),
            wording: options.rule_wording.unwrap_or(plain.wording),
            rule_set: self.rule_set,
            ..plain
        };
        let made =
            Policy::new(&given.loaded, setup).map_err(|error| SessionError::settings(error.to_string()))?;
        self.sandbox.get_or_init(|| self.plan_sandbox(&made.0)).clone()?;
        Ok(made)
    }

    /// Plans the sandbox for the rules. It is created when the first process starts, or now if settings
    /// require it.
    fn plan_sandbox(&self, policy: &Policy) -> Result<(), SessionError> {
        let SessionConfig { options, given, workspace, state, .. } = &self.config;
        let wanted = &self.config.settings().sandbox;
        let around = sandbox_surroundings(options, given, workspace, state, &self.temp, &self.named);
        let mut sandbox = processes::sandbox_config(wanted, policy, around)?;
        match self.purpose {
            SessionPurpose::Replay => sandbox = processes::without_network(sandbox),
            SessionPurpose::Once => sandbox = sandbox.without_spares(),
            SessionPurpose::Run | SessionPurpose::Inspect => {}
        }
        let confined = self.config.is_confined();
        self.starter.plan(sandbox, &self.temp);
        let required = wanted.fail_if_unavailable.as_ref().filter(|required| required.value && confined);
        if let Some(required) = required.filter(|_| self.purpose != SessionPurpose::Inspect)
            && let Err(reason) = self.starter.sandbox()
        {
            return Err(SessionError::sandbox(format!(
                "{reason} (`failIfUnavailable`, {})",
                required.source
            )));
        }
        Ok(())
    }

    /// Builds the engine of one session.
    fn engine<S: EventSink>(&self, engine_options: EngineOptions<S>) -> Result<EngineParts, SessionError> {
        let EngineOptions { id, policy, asker, events, gates, arguments, results } = engine_options;
        let SessionConfig { options, given, workspace, registry, max_concurrency, .. } = &self.config;
        let tasks = Arc::new(TaskTable::new());
        let calls = CallLog::new();
        let settings = active_settings(given.clone(), policy.clone());
        let arguments =
            SessionArguments { calls: Some(calls.clone()), settings: Some(settings), ..arguments };
        let session_tools = self.config.session_tools(arguments);
        let mut engine = Engine::builder(registry.replace_tools(&session_tools))
            .workspace(workspace.clone())
            .permissions(policy.clone())
            .events(events)
            .gates(gates);
        engine = engine.session_id(id.as_str()).ports(|ports| {
            ports.files = Arc::new(DirFiles::new().with_paths(workspace.paths().clone()));
            ports.processes = Some(self.processes.clone());
            ports.mode = Some(Arc::new(policy.clone()));
            ports.tasks = Some(tasks.clone());
            ports.asker = asker;
            ports.tracer = options.telemetry.as_ref().and_then(|telemetry| telemetry.tracer());
        });
        if let Some(calls) = max_concurrency {
            engine = engine.max_concurrency(calls.get());
        }
        if let Some(schedule) = options.schedule {
            engine = engine.schedule(schedule);
        }
        let (own, of_hooks) = results.unzip();
        if let Some(results) = own {
            engine = engine.result_store(results);
        }
        let bare = engine.clone().build();
        let servers = ServerSlot::default();
        let hooks =
            hooks::read_hooks(given, &bare, &id, &policy, self.processes.clone(), of_hooks, &servers)?;
        let engine = engine.hooks(hooks.add_to(haft::hooks::HookSet::new()).after(calls.clone()));
        Ok(EngineParts { engine, bare, session_tools, hooks, tasks, calls, servers })
    }

    /// Returns the starter of the MCP servers of a session.
    fn server_starter(
        &self,
        policy: &Policy,
        asker: Option<Arc<dyn Asker>>,
        registry: Registry,
        bare: Engine,
        searches: bool,
        slot: &ServerSlot,
    ) -> ServerStarter {
        let SessionConfig { options, server_plan, workspace, state, .. } = &self.config;
        ServerStarter {
            notices: options.notices.clone(),
            telemetry: options.telemetry.clone(),
            planned: server_plan.clone().without_denied(|server| policy.denies_server(server)),
            asker,
            registry,
            bare,
            processes: self.processes.clone(),
            cwd: workspace.cwd().to_owned(),
            roots: workspace.dirs().map(Path::to_owned).collect(),
            state: state.clone(),
            searches,
            slot: slot.clone(),
            for_hooks: hooks::use_servers(self.config.settings()),
        }
    }
}
