//! A run of the agent loop in a session: [`PreparedRun`].

use std::sync::Arc;

use haft::Engine;
use haft::ports::{Mode as _, PermissionMode};
use haft_agent::{AgentLoop, Conversation, Model, RunEnd, RunHandle, RunOptions, RunOutcome, UsageMeter};
use haft_policy::gate::{ModeForbidden, Policy};
use tokio::runtime::Handle as RuntimeHandle;

use super::hooks::Fired;
use super::kept::Kept;
use super::planned::Planned;
use super::provider::Others;
use super::running_session::RunningSession;
use crate::SessionError;
use crate::agents::Setup;
use crate::agents::kinds::Kinds;
use crate::assembly::{SessionParts, report_tasks};
use crate::front_end::FrontEnd;
use crate::kept::Lazy;

/// What a run is made of, beside the session and the front end.
pub struct RunPlan {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The name of the provider.
    pub provider: &'static str,
    /// Other models, for agents that use another one.
    pub others: Others,
    /// The kinds of sub-agents.
    pub kinds: Kinds,
    /// Limits and system prompt.
    pub options: RunOptions,
    /// The journal of the session.
    pub journal: Arc<Lazy>,
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

/// A run that can begin: a model in a session that runs.
pub struct PreparedRun {
    /// The engine of the session.
    pub engine: Engine,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Prompts that are due at a time.
    pub planned: Arc<Planned>,
    /// The journal, and the conversation to continue.
    pub kept: Kept,
    options: RunOptions,
    session: Arc<RunningSession>,
    fired: Arc<Fired>,
}

impl PreparedRun {
    /// Starts a session for one run. MCP servers begin to connect; nothing waits for them.
    ///
    /// `front_end` is shown events from the run itself, so it must not block.
    ///
    /// # Errors
    /// MCP servers that can't be started.
    pub fn new(
        parts: SessionParts,
        plan: RunPlan,
        front_end: Option<Arc<dyn FrontEnd>>,
        runtime: &RuntimeHandle,
    ) -> Result<PreparedRun, SessionError> {
        let resumed = plan.kept.resumed.as_ref().map(|(resumed, _)| resumed);
        let journal = plan.journal.clone();
        let session = RunningSession::start(parts, journal, resumed, front_end, Some(runtime))?;
        Ok(PreparedRun::join(Arc::new(session), plan))
    }

    /// Brings a model into a session that runs.
    pub(crate) fn join(session: Arc<RunningSession>, plan: RunPlan) -> PreparedRun {
        let RunPlan { model, others, kinds, options, mut kept, background, .. } = plan;
        let SessionParts { policy, hooks, tasks, crons, workspace, notices, .. } = &session.parts;
        let engine = session.engine.clone();
        session.sampler.set_model(model.clone());
        session.agents.open(Setup {
            kinds,
            engine: engine.clone(),
            policy: policy.clone(),
            model: model.clone(),
            others,
            options: options.clone(),
            sink: session.channels.events.clone(),
            hooks: hooks.clone(),
            asker: session.asker.clone(),
            cwd: workspace.cwd().to_owned(),
            keeping: kept.keeping(),
            notices: notices.clone(),
        });
        // With the tools that need a model.
        engine.fit_window(options.window_tokens);
        kept.not_there = session.lost_directory.clone();
        let planned = Arc::new(Planned::begin(crons.clone(), notices.clone()));
        let fired = Fired::new(hooks.clone(), session.servers.clone(), notices.clone());
        let fired = fired.ending_grants_of(policy);
        let fired = Arc::new(match background {
            BackgroundAgents::Awaited => fired.waiting_for(tasks),
            BackgroundAgents::Reported => fired.telling_of(tasks),
        });
        PreparedRun { engine, model, planned, kept, options, session, fired }
    }

    /// The permission mode, to read and to change.
    pub fn mode(&self) -> ModeControl {
        ModeControl(self.session.parts.policy.clone())
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
        self.session.agents.main_runs(handle, &account);
        let agent = AgentLoop::new(self.engine.clone(), self.model.clone())
            .options(self.options.clone())
            .usage_meter(account)
            .events(self.session.channels.events.clone())
            .hooks(self.fired.clone())
            .handle(handle.clone());
        let agent = self.kept.keeps(agent);
        let played = self.kept.play(&agent, handle, conversation, prompt);
        self.planned.beside(handle, &*self.fired, played).await
    }

    /// Fires the hooks of a session's end, ends the servers and closes the journal.
    pub async fn end(&self, why: &RunEnd) {
        self.fired.end().await;
        self.session.close_servers().await;
        self.kept.ended(why);
        self.session.agents.close();
    }

    /// Reports what ended with the session: background tasks, planned prompts, messages of hooks.
    pub fn report(&self) {
        self.session.agents.close();
        let SessionParts { tasks, hooks, notices, .. } = &self.session.parts;
        report_tasks(tasks, notices);
        self.planned.report();
        crate::hooks::report(hooks, notices);
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
