//! Assembles an engine that is ready for calls from options, settings and environment.

mod assembler;
#[cfg(feature = "browser")]
mod browser;
mod child_processes;
mod client_session;
mod notice_events;
mod search;
mod server_plan;
mod server_pool;
mod session_config;
mod tool_state;
mod tools;
#[cfg(feature = "web")]
mod web;
mod workspace;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::call_log::CallLog;
use haft::dispatch::{TaskTable, TurnHandle};
use haft::effects::{AccessKind, ResourceEffect};
use haft::env::VariableLookup;
use haft::ports::{ModeControl as _, PermissionMode};
use haft::registry::{Snapshot, ToolNotFound};
use haft::{Effects, Engine, EngineBuilder, Registry, ToolCall, ToolResult, Workspace};
use haft_journal::SessionStart;
use haft_policy::gate::{CheckedCall, Policy};
use haft_policy::hooks::Hooks;
use haft_tools::cron::CronTable;
use haft_tools::{ReadTracker, SessionPlans};
use serde_json::Value;

use self::tools::warn_of_clashes;
use crate::hooks;
use crate::loaded_settings::LoadedSettings;
use crate::processes::SessionProcesses;
use crate::session_journal::{EMBEDDED, LazyJournal, ResumedSession, SessionRecorder};
use crate::text::one_line;
use crate::{DecisionReport, NoticeSink, SessionChannels, SessionError, SessionOptions, SessionPurpose};

pub use self::assembler::SessionAssembler;
pub use self::client_session::{ClientSession, SharedServers};
pub use self::notice_events::{NoticeEvents, report_tasks};
pub use self::server_plan::{PlannedServer, ServerPlan, TransportKind, UnusedReason};
pub use self::server_pool::{ReportLevel, ServerPool, ServerPorts, ServerStarter};
pub(crate) use self::tool_state::skills_of;

/// How long results that were too long for the model are kept.
pub(crate) const RESULTS_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// An opened session: the engine to build, its rules, and what was loaded for it.
pub struct SessionParts {
    /// The id, unique on this machine.
    pub id: String,
    /// The working directories.
    pub workspace: Workspace,
    /// Builds the engine. A run adds its model, journal and front end before it builds.
    pub(crate) engine: EngineBuilder,
    /// The engine of calls without a run.
    pub(crate) built_engine: OnceLock<Engine>,
    pub(crate) policy: Policy,
    /// The settings.
    pub given: LoadedSettings,
    /// The hooks of the settings, which are part of the engine.
    pub(crate) hooks: Hooks,
    /// The background tasks, which end with the session.
    pub(crate) tasks: Arc<TaskTable>,
    /// The calls that ran.
    pub(crate) calls: CallLog,
    /// The tools without what they get from this session, to read earlier calls with.
    pub(crate) shared_tools: Registry,
    /// Scheduled prompts.
    pub(crate) crons: Arc<CronTable>,
    /// What the session has read of files.
    pub(crate) seen: ReadTracker,
    /// Whether processes are confined to their grants.
    pub confined: bool,
    /// Warnings about settings, rules, trust and hooks.
    pub warnings: Vec<String>,
    /// Starts the MCP servers.
    pub server_starter: ServerStarter,
    /// Events and prompts, if front ends attach and detach.
    pub channels: Option<SessionChannels>,
    /// Receives warnings and messages.
    pub(crate) notices: NoticeSink,
    /// Ends the processes of the session.
    pub process_guard: ProcessGuard,
}

impl SessionParts {
    /// Returns the engine of calls without a run. It is built when it is first needed.
    pub(crate) fn engine(&self) -> &Engine {
        self.built_engine.get_or_init(|| self.engine.clone().build())
    }

    /// Reports warnings about settings, rules and tools.
    pub fn report_warnings(&self) {
        self.warnings.iter().for_each(|text| self.notices.warn(one_line(text)));
        warn_of_clashes(&self.engine, &self.notices);
    }

    /// Returns the journal of the session, which opens with the first call or run. Restores the state that
    /// an earlier process recorded.
    pub fn journal(&self, options: &SessionOptions, resumed: Option<&ResumedSession>) -> Arc<LazyJournal> {
        let (settings, state) =
            (self.given.loaded.settings.journal.clone(), self.given.places.state_dir.clone());
        let (id, cwd, policy) = (self.id.clone(), self.workspace.cwd().to_owned(), self.policy.clone());
        let (environment, notices) = (options.environment.clone(), self.notices.clone());
        let mark = resumed.map(|resumed| resumed.mark);
        let wire = resumed.map(|resumed| resumed.recovered.last.wire.clone()).unwrap_or_default();
        let seen = self.seen.clone();
        if let Some(resumed) = resumed {
            seen.restore(&id, &resumed.recovered.seen);
            resumed.restore_call_log(state.as_deref(), &self.calls, &self.shared_tools);
        }
        LazyJournal::new(move |began| {
            let began = began.unwrap_or_else(|| SessionStart {
                command: EMBEDDED.to_owned(),
                mode: policy.current().to_string(),
                wire: wire.clone(),
                ..SessionStart::in_folder(&cwd)
            });
            let lookup: VariableLookup<'_> = &|name| environment.get(name);
            let opened =
                SessionRecorder::open(state.as_deref(), &settings, (&id, began), mark, lookup, &notices)?;
            if let Some(recorder) = opened.recorder() {
                recorder.track_files(&seen);
            }
            Ok(opened)
        })
    }

    /// Returns whether this session continues one that was in plan mode when it ended.
    pub fn was_planning(&self, options: &SessionOptions) -> bool {
        let lookup: VariableLookup<'_> = &|name| options.environment.get(name);
        SessionPlans::kept_in(&tool_state::open_shelf(lookup, SessionPurpose::Run)).is_planning(&self.id)
    }

    /// Returns the tools of the next turn.
    pub fn snapshot(&self) -> Snapshot {
        self.engine().snapshot()
    }

    /// Returns the permission mode.
    pub fn permission_mode(&self) -> PermissionMode {
        self.policy.current()
    }

    /// Changes the permission mode. A mode that settings forbid changes nothing.
    pub fn set_permission_mode(&self, mode: PermissionMode) {
        self.policy.set(mode);
    }

    /// Returns the decision on a call without making it. Runs nothing and doesn't ask the user.
    ///
    /// # Errors
    /// Returns an error if the tool is unknown or the input is invalid.
    pub async fn check(&self, tool: &str, input: Value) -> Result<DecisionReport, SessionError> {
        let planned = &self.server_starter.planned.servers;
        let servers: Vec<&str> = planned.iter().map(PlannedServer::name).collect();
        let call = CheckedCall::new(tool, input).with_servers(&servers);
        let checked = self.policy.check(self.engine(), call).await;
        checked.map_err(|error| SessionError::tools(error.to_string()))
    }

    /// Starts the MCP servers in parallel without waiting for them. Needs a runtime.
    ///
    /// # Errors
    /// Returns an error if servers can't be started.
    pub fn start_servers(&self, ports: ServerPorts) -> Result<ServerPool, SessionError> {
        self.server_starter.start(self.engine(), ports)
    }

    /// Runs calls as one turn and returns one result for each, in order.
    ///
    /// If a call needs a tool of an MCP server, the servers are started, and they end with the turn.
    /// `turn_changed` receives the handle of the turn when it begins, and `None` when it has ended.
    ///
    /// # Errors
    /// Returns an error if servers can't be started.
    pub async fn run_calls(
        &self,
        calls: Vec<ToolCall>,
        turn_changed: impl Fn(Option<TurnHandle>),
    ) -> Result<Vec<ToolResult>, SessionError> {
        // Removal of old results is retried next time. Without stored results this is a single file system
        // access.
        let _ = self.engine().clean_results(RESULTS_KEPT);
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let made = calls.clone();
        let has_all =
            |snapshot: &Snapshot| made.iter().all(|call| self.needs_no_more_servers(snapshot, call));
        let mut pool = None;
        if self.server_starter.are_for_hooks() || !has_all(&self.engine().snapshot()) {
            self.server_starter.warn();
            if !self.server_starter.is_fixed() {
                let asker = self.server_starter.asker.clone();
                pool = Some(self.start_servers(ServerPorts {
                    asker,
                    one_turn: true,
                    ..ServerPorts::default()
                })?);
            }
        }
        if let Some(pool) = &pool {
            pool.settled(has_all).await;
        }
        let turn = self.engine().turn();
        turn_changed(Some(turn.handle()));
        let results = turn.run(calls).await;
        turn_changed(None);
        if let Some(pool) = &pool {
            pool.close().await;
        }
        Ok(results)
    }

    /// Returns the declared effects of a call, if its tool exists and its input is valid.
    pub fn declared_effects(&self, call: &ToolCall) -> Option<Effects> {
        self.effects_in(&self.engine().snapshot(), call)
    }

    fn effects_in(&self, snapshot: &Snapshot, call: &ToolCall) -> Option<Effects> {
        let offer = snapshot.find(&call.name).ok()?;
        let (tool, input) = (offer.tool(), call.input.clone());
        self.engine().consider(tool, offer.origin(), input, |request| request.declared().clone()).ok()
    }

    /// Returns whether a call can be made with the connected servers: its tool exists, and it doesn't list
    /// what all servers offer.
    pub(crate) fn needs_no_more_servers(&self, snapshot: &Snapshot, call: &ToolCall) -> bool {
        !matches!(snapshot.find(&call.name), Err(ToolNotFound::Unknown(_)))
            && !self.effects_in(snapshot, call).is_some_and(|effects| reads_servers(&effects))
    }

    /// Reports background tasks that end with the session.
    pub fn report_tasks(&self) {
        report_tasks(&self.tasks, &self.notices);
    }

    /// Reports the messages of background hooks so far.
    pub fn report_hooks(&self) {
        hooks::report_hooks(&self.hooks, &self.notices);
    }

    /// Reports that one of these results ends the turn, so that the caller should stop the conversation
    /// here.
    pub fn report_turn_end(&self, results: &[ToolResult]) {
        hooks::report_hook_results(results, &self.notices);
    }
}

/// Returns whether a call reads what servers offer: their tools, or their prompts and resources.
fn reads_servers(effects: &Effects) -> bool {
    let of_servers =
        |resource: &str| resource == "session:tools" || resource == "mcp" || resource.starts_with("mcp:");
    let observes =
        |state: &ResourceEffect| state.access == AccessKind::Observe && of_servers(&state.resource);
    effects.state.iter().any(observes)
}

/// Ends every process of a session when it and all its [shared](ProcessGuard::share) guards are dropped.
pub struct ProcessGuard(Arc<SharedProcesses>);

struct SharedProcesses(Arc<SessionProcesses>);

impl ProcessGuard {
    fn new(starter: Arc<SessionProcesses>) -> ProcessGuard {
        ProcessGuard(Arc::new(SharedProcesses(starter)))
    }

    /// Returns another guard of the same processes, for the code that handles interrupts of the program.
    #[must_use]
    pub fn share(&self) -> ProcessGuard {
        ProcessGuard(self.0.clone())
    }

    /// Ends the processes now. No further ones can start.
    pub fn shut_down(&self) {
        self.0.0.shutdown();
    }
}

impl Drop for SharedProcesses {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

#[cfg(test)]
mod tests;
