//! A run of the agent loop, assembled once for every front end.

use std::sync::Arc;

use haft::Engine;
use haft::dispatch::TaskTable;
use haft::ports::{Asker, Mode, PermissionMode};
use haft_agent::{
    AgentLoop, Conversation, Model, RunEnd, RunHandle, RunOptions, RunOutcome, RunSink, ToolEventSink,
    UsageMeter,
};
use haft_policy::gate::{ModeForbidden, Policy};
use haft_policy::hooks::Hooks;
use tokio::runtime::Handle as RuntimeHandle;

use super::hooks::{Fired, Notifying};
use super::kept::Kept;
use super::planned::Planned;
use super::provider::Others;
use crate::agents::kinds::Kinds;
use crate::agents::{Agents, Setup};
use crate::assembly::{
    ProcessGuard, RESULTS_KEPT, ServerPool, ServerPorts, ServerStarter, SessionParts, report_tasks,
};
use crate::events::{EventHub, SessionEventKind};
use crate::front_end::{AskerFrontEnd, FrontEnd};
use crate::mcp::sample::ModelSampler;
use crate::prompts::PromptKind;
use crate::{NoticeSink, SessionChannels, SessionError};

/// What a run is made of, beside the session and the front end.
pub struct RunPlan {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Who is asked, as the flag `--provider` says it.
    pub provider: &'static str,
    /// Other models, for agents that use another one.
    pub others: Others,
    /// The kinds of sub-agents.
    pub kinds: Kinds,
    /// Limits and system prompt.
    pub options: RunOptions,
    /// The journal, and the conversation to continue.
    pub kept: Kept,
    /// What happens at the end of an answer while agents work in the background.
    pub background: BackgroundAgents,
}

/// What happens at the end of an answer while agents work in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundAgents {
    /// The run waits for them.
    Awaited,
    /// The run ends; the model is told when it is asked next.
    Reported,
}

/// A run that can begin: engine, hooks, servers, sub-agents and journal around one model.
pub struct PreparedRun {
    /// The engine, with the events and questions of this run.
    pub engine: Engine,
    policy: Policy,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Prompts that are due at a time.
    pub planned: Arc<Planned>,
    /// The journal, and the conversation to continue.
    pub kept: Kept,
    options: RunOptions,
    sink: Arc<dyn RunSink>,
    agents: Arc<Agents>,
    fired: Arc<Fired>,
    hooks: Hooks,
    tasks: Arc<TaskTable>,
    notices: NoticeSink,
    _processes: ProcessGuard,
}

impl PreparedRun {
    /// Assembles a run. MCP servers begin to connect; nothing waits for them.
    ///
    /// `front_end` is shown events from the run itself, so it must not block. Without one, the session's own channels are
    /// used, whose front ends come and go.
    ///
    /// # Errors
    /// MCP servers that can't be started.
    pub fn new(
        session: SessionParts,
        plan: RunPlan,
        front_end: Option<Arc<dyn FrontEnd>>,
        runtime: &RuntimeHandle,
    ) -> Result<PreparedRun, SessionError> {
        let SessionParts {
            engine,
            policy,
            hooks,
            tasks,
            crons,
            workspace,
            server_starter,
            channels,
            notices,
            process_guard,
            ..
        } = session;
        let RunPlan { model, others, kinds, options, mut kept, background, .. } = plan;
        let planned = Arc::new(Planned::begin(crons, notices.clone()));
        let agents = Agents::new(kinds);
        let is_live = channels.is_some();
        let SessionChannels { events, prompts } = channels.unwrap_or_default();
        if let Some(front_end) = front_end {
            events.set_direct(front_end.clone());
            if front_end.can_ask(PromptKind::Permission) {
                prompts.attach(front_end);
            } else if let Some(asker) = server_starter.asker.clone().filter(|_| !is_live) {
                prompts.attach(Arc::new(AskerFrontEnd { name: "terminal", asker }));
            }
        }
        let sink: Arc<dyn RunSink> = events.clone();
        // Where front ends come and go, whoever answers may come later.
        let asker = (is_live && server_starter.asker.is_some() || prompts.is_available()).then(|| {
            let (hooks, notices) = (hooks.clone(), notices.clone());
            Arc::new(Notifying { asker: prompts.clone(), hooks, notices }) as Arc<dyn Asker>
        });
        let engine = engine.events(ToolEventSink::new(sink.clone())).ports(|ports| {
            ports.asker = asker.clone().or(ports.asker.take());
            ports.mode = Some(Arc::new(ReportedMode { policy: policy.clone(), events }));
            ports.sub_agents = Some(agents.clone());
        });
        let engine = engine.build();
        agents.open(Setup {
            engine: engine.clone(),
            policy: policy.clone(),
            model: model.clone(),
            others,
            options: options.clone(),
            sink: sink.clone(),
            hooks: hooks.clone(),
            asker: asker.clone(),
            cwd: workspace.cwd().to_owned(),
            keeping: kept.keeping(),
            notices: notices.clone(),
        });
        kept.places(&engine);
        // What can't be removed is tried again next time. Where nothing was ever kept, this is one look at the disk.
        let _ = engine.clean_results(RESULTS_KEPT);
        let asker = asker.filter(|asker| asker.is_available());
        let pool = open_servers(runtime, &server_starter, &engine, &model, asker)?;
        let fired = Fired::new(hooks.clone(), pool, notices.clone()).ending_grants_of(&policy);
        let fired = Arc::new(match background {
            BackgroundAgents::Awaited => fired.waiting_for(&tasks),
            BackgroundAgents::Reported => fired.telling_of(&tasks),
        });
        Ok(PreparedRun {
            engine,
            policy,
            model,
            planned,
            kept,
            options,
            sink,
            agents,
            fired,
            hooks,
            tasks,
            notices,
            _processes: process_guard,
        })
    }

    /// The permission mode, to read and to change.
    pub fn mode(&self) -> ModeControl {
        ModeControl(self.policy.clone())
    }

    /// Fires the hooks of a session's start. Returns the conversation to begin with.
    ///
    /// # Errors
    /// The reason of a hook that ends the session here.
    pub async fn start(&self) -> Result<Conversation, String> {
        let first = self.fired.start(self.model.name()).await?;
        Ok(self.kept.conversation(&*self.model, first.as_deref()))
    }

    /// Says something to the model and runs until it has an answer. Without a prompt the model continues what was cut off.
    pub async fn play(
        &mut self,
        conversation: &mut Conversation,
        prompt: Option<&str>,
        handle: &RunHandle,
    ) -> RunOutcome {
        let account = UsageMeter::new();
        self.agents.main_runs(handle, &account);
        let agent = AgentLoop::new(self.engine.clone(), self.model.clone())
            .options(self.options.clone())
            .usage_meter(account)
            .events(self.sink.clone())
            .hooks(self.fired.clone())
            .handle(handle.clone());
        let agent = self.kept.keeps(agent);
        let played = self.kept.play(&agent, handle, conversation, prompt);
        self.planned.beside(handle, &*self.fired, played).await
    }

    /// Fires the hooks of a session's end, ends the servers and closes the journal.
    pub async fn end(&self, why: &RunEnd) {
        self.fired.end().await;
        self.kept.ended(why);
        self.agents.close();
    }

    /// Reports what ended with the session: background tasks, planned prompts, messages of hooks.
    pub fn report(&self) {
        self.agents.close();
        report_tasks(&self.tasks, &self.notices);
        self.planned.report();
        crate::hooks::report(&self.hooks, &self.notices);
    }
}

/// Reads and changes the permission mode of a run.
pub struct ModeControl(Policy);

impl ModeControl {
    /// The mode.
    pub fn current(&self) -> PermissionMode {
        self.0.current()
    }

    /// Changes the mode.
    ///
    /// # Errors
    /// Settings forbid it.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), ModeForbidden> {
        self.0.set_mode(mode)
    }
}

/// Starts the MCP servers of a run, if it has any.
fn open_servers(
    runtime: &RuntimeHandle,
    server_starter: &ServerStarter,
    engine: &Engine,
    model: &Arc<dyn Model>,
    asker: Option<Arc<dyn Asker>>,
) -> Result<Option<Arc<ServerPool>>, SessionError> {
    server_starter.warn();
    if server_starter.is_fixed() {
        return Ok(None);
    }
    let _entered = runtime.enter();
    let sampler = Arc::new(ModelSampler::new(model.clone(), asker.clone()));
    let ports = ServerPorts { asker: asker.clone(), sampler: Some(sampler), ..ServerPorts::default() };
    let pool = server_starter.start(engine, ports)?;
    if let Some(asker) = &asker {
        pool.ask_for_approvals(&server_starter.planned, asker);
    }
    Ok(Some(Arc::new(pool)))
}

/// The permission mode, for tools that change it: each change is an event.
struct ReportedMode {
    policy: Policy,
    events: Arc<EventHub>,
}

impl Mode for ReportedMode {
    fn current(&self) -> PermissionMode {
        self.policy.current()
    }

    fn set(&self, mode: PermissionMode) {
        self.policy.set(mode);
        self.events.send(SessionEventKind::ModeChanged(self.policy.current()));
    }
}
