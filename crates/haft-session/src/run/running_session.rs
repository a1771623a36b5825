//! A running session: its engine, its MCP servers and its sub-agents, for calls and for the agent.

use std::sync::Arc;

use haft::Engine;
use haft::ToolCall;
use haft::ports::{Asker, ModeControl, PermissionMode};
use haft::registry::Snapshot;
use haft_agent::{RunSink, ToolEventSink};
use haft_policy::gate::Policy;
use tokio::runtime::Handle as RuntimeHandle;

use super::run_hooks::NotifyingAsker;
use crate::agents::SessionAgents;
use crate::assembly::{RESULTS_KEPT, ServerPool, ServerPorts, SessionParts};
use crate::events::{EventHub, SessionEventKind};
use crate::front_end::{AskerFrontEnd, FrontEnd};
use crate::mcp::sample::ModelSampler;
use crate::prompts::PromptKind;
use crate::session_journal::leftovers::RecordedTasks;
use crate::session_journal::{LazyJournal, ResumedSession};
use crate::{SessionChannels, SessionError};

/// A running session.
///
/// It has one engine from its beginning to its end. A model may join it later.
pub(crate) struct RunningSession {
    pub(crate) parts: SessionParts,
    pub(crate) channels: SessionChannels,
    pub(crate) engine: Engine,
    pub(crate) journal: Arc<LazyJournal>,
    pub(crate) agents: Arc<SessionAgents>,
    pub(crate) servers: Option<Arc<ServerPool>>,
    pub(crate) sampler: Arc<ModelSampler>,
    pub(crate) asker: Option<Arc<dyn Asker>>,
    /// The message to the model about a directory that a continued session can't enter any more.
    pub(crate) lost_directory: Option<String>,
}

impl RunningSession {
    /// Builds the engine. MCP servers begin to connect, without being waited for.
    ///
    /// `front_end` receives events synchronously, so it must not block. Without it the session uses its own
    /// channels, to which front ends attach and detach. A session with MCP servers needs a runtime.
    ///
    /// # Errors
    /// Returns an error if MCP servers can't be started.
    pub(crate) fn start(
        mut parts: SessionParts,
        journal: Arc<LazyJournal>,
        resumed: Option<&ResumedSession>,
        front_end: Option<Arc<dyn FrontEnd>>,
        runtime: Option<&RuntimeHandle>,
    ) -> Result<RunningSession, SessionError> {
        let is_live = parts.channels.is_some();
        let channels = parts.channels.clone().unwrap_or_default();
        let terminal = parts.server_starter.asker.clone();
        if let Some(front_end) = front_end {
            channels.use_direct(front_end, terminal.clone().filter(|_| !is_live));
        }
        // If front ends attach and detach, one that answers may attach later.
        let can_answer = is_live && terminal.is_some() || channels.prompts.is_available();
        let asker = can_answer.then(|| notifying_asker(&parts, &channels));
        let agents = SessionAgents::new();
        let engine = build_engine(&mut parts, &channels, &journal, asker.clone(), &agents);
        let lost_directory = resumed.and_then(|resumed| resumed.restore_location(&engine));
        // Removal of old results is retried next time. Without stored results this is a single file system
        // access.
        let _ = engine.clean_results(RESULTS_KEPT);
        let available = asker.clone().filter(|asker| asker.is_available());
        let sampler = Arc::new(ModelSampler::new(asker.clone()));
        let servers = start_servers(runtime, &parts, &engine, &sampler, available)?;
        Ok(RunningSession {
            parts,
            channels,
            engine,
            journal,
            agents,
            servers,
            sampler,
            asker,
            lost_directory,
        })
    }

    /// Applies changes of servers, from the next turn on.
    pub(crate) fn refresh_tools(&self) {
        if let Some(servers) = &self.servers {
            servers.refresh();
        }
    }

    /// Waits for the servers that these calls need: until each tool exists, or no server can provide it.
    pub(crate) async fn wait_for_tools(&self, calls: &[ToolCall]) {
        let Some(servers) = &self.servers else { return };
        let has_all =
            |snapshot: &Snapshot| calls.iter().all(|call| self.parts.needs_no_more_servers(snapshot, call));
        servers.refresh();
        if !has_all(&self.engine.snapshot()) {
            servers.settled(has_all).await;
        }
    }

    /// Waits until each server is connected or has failed.
    pub(crate) async fn wait_for_servers(&self) {
        if let Some(servers) = &self.servers {
            servers.settled(|_| false).await;
        }
    }

    /// Ends the servers gracefully.
    pub(crate) async fn close_servers(&self) {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }

    /// Ends servers and sub-agents immediately.
    pub(crate) fn shut_down(&self) {
        self.agents.close();
        if let Some(servers) = &self.servers {
            servers.stop();
        }
    }
}

impl SessionChannels {
    /// Sends all events synchronously to this front end. It is asked too if it can answer; otherwise this
    /// asker is.
    fn use_direct(&self, front_end: Arc<dyn FrontEnd>, asker: Option<Arc<dyn Asker>>) {
        self.events.set_direct(front_end.clone());
        if front_end.can_ask(PromptKind::Permission) {
            self.prompts.attach(front_end);
        } else if let Some(asker) = asker {
            self.prompts.attach(Arc::new(AskerFrontEnd { name: "terminal", asker }));
        }
    }
}

/// Returns the prompts of the session, with notification hooks run before each.
fn notifying_asker(parts: &SessionParts, channels: &SessionChannels) -> Arc<dyn Asker> {
    let (hooks, notices) = (parts.hooks.clone(), parts.notices.clone());
    Arc::new(NotifyingAsker { asker: channels.prompts.clone(), hooks, notices })
}

/// Builds the engine for all calls of the session.
fn build_engine(
    parts: &mut SessionParts,
    channels: &SessionChannels,
    journal: &Arc<LazyJournal>,
    asker: Option<Arc<dyn Asker>>,
    agents: &Arc<SessionAgents>,
) -> Engine {
    let sink: Arc<dyn RunSink> = channels.events.clone();
    let recorder = journal.recorder();
    parts.engine = parts.engine.clone().events(ToolEventSink::new(sink)).ports(|ports| {
        if recorder.is_some() {
            ports.tasks =
                Some(Arc::new(RecordedTasks { tasks: parts.tasks.clone(), journal: journal.clone() }));
        }
        ports.recorder = recorder;
        ports.asker = asker.or(ports.asker.take());
        ports.mode =
            Some(Arc::new(ReportedMode { policy: parts.policy.clone(), events: channels.events.clone() }));
        ports.sub_agents = Some(agents.clone());
    });
    let engine = parts.engine.clone().build();
    parts.built_engine = engine.clone().into();
    engine
}

/// Starts the MCP servers of a session, if it has any.
fn start_servers(
    runtime: Option<&RuntimeHandle>,
    parts: &SessionParts,
    engine: &Engine,
    sampler: &Arc<ModelSampler>,
    asker: Option<Arc<dyn Asker>>,
) -> Result<Option<Arc<ServerPool>>, SessionError> {
    let starter = &parts.server_starter;
    starter.warn();
    if starter.is_fixed() {
        return Ok(None);
    }
    let runtime = runtime.ok_or_else(|| {
        SessionError::tools("a session with MCP servers runs on a tokio runtime; there is none here")
    })?;
    let _entered = runtime.enter();
    let ports =
        ServerPorts { asker: asker.clone(), sampler: Some(sampler.clone()), ..ServerPorts::default() };
    let servers = starter.start(engine, ports)?;
    if let Some(asker) = &asker {
        servers.ask_for_approvals(&starter.planned, asker);
    }
    Ok(Some(Arc::new(servers)))
}

/// The permission mode, for tools that change it. Each change is an event.
struct ReportedMode {
    policy: Policy,
    events: Arc<EventHub>,
}

impl ModeControl for ReportedMode {
    fn current(&self) -> PermissionMode {
        self.policy.current()
    }

    fn set(&self, mode: PermissionMode) {
        self.policy.set(mode);
        self.events.send(SessionEventKind::ModeChanged(self.policy.current()));
    }
}
