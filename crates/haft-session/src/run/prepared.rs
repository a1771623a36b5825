//! A run of the agent loop in a session: [`PreparedRun`].

use std::sync::Arc;

use haft::Engine;
use haft::ports::{ModeControl as _, PermissionMode};
use haft_agent::{AgentLoop, Conversation, Model, RunEnd, RunHandle, RunOptions, RunOutcome, UsageMeter};
use haft_policy::gate::{ModeForbidden, Policy};
use tokio::runtime::Handle as RuntimeHandle;

use super::provider::ModelByName;
use super::run_hooks::RunHooks;
use super::run_journal::RunJournal;
use super::running_session::RunningSession;
use super::scheduled_prompts::ScheduledPrompts;
use crate::SessionError;
use crate::agents::AgentSetup;
use crate::agents::kinds::AgentKinds;
use crate::assembly::{SessionParts, report_tasks};
use crate::front_end::FrontEnd;
use crate::session_journal::LazyJournal;

/// The parts of a run, in addition to the session and the front end.
pub struct RunPlan {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The name of the provider.
    pub provider: &'static str,
    /// Other models, for agents that use another one.
    pub others: ModelByName,
    /// The kinds of sub-agents.
    pub kinds: AgentKinds,
    /// Limits and system prompt.
    pub options: RunOptions,
    /// The journal of the session.
    pub journal: Arc<LazyJournal>,
    /// The journal, and the conversation to continue.
    pub run_journal: RunJournal,
    /// What happens at the end of an answer while agents work in the background.
    pub background: BackgroundAgents,
}

/// What happens at the end of an answer while agents work in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundAgents {
    /// The run waits for them.
    Awaited,
    /// The run ends. The model receives the reports with the next request.
    Reported,
}

/// A run that can begin: a model in a running session.
pub struct PreparedRun {
    /// The engine of the session.
    pub engine: Engine,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Prompts that are due at a time.
    pub scheduled: Arc<ScheduledPrompts>,
    /// The journal, and the conversation to continue.
    pub run_journal: RunJournal,
    options: RunOptions,
    session: Arc<RunningSession>,
    hooks: Arc<RunHooks>,
}

impl PreparedRun {
    /// Starts a session for one run. MCP servers begin to connect, without being waited for.
    ///
    /// `front_end` receives events synchronously, so it must not block.
    ///
    /// # Errors
    /// Returns an error if MCP servers can't be started.
    pub fn new(
        parts: SessionParts,
        plan: RunPlan,
        front_end: Option<Arc<dyn FrontEnd>>,
        runtime: &RuntimeHandle,
    ) -> Result<PreparedRun, SessionError> {
        let resumed = plan.run_journal.resumed.as_ref().map(|(resumed, _)| resumed);
        let journal = plan.journal.clone();
        let session = RunningSession::start(parts, journal, resumed, front_end, Some(runtime))?;
        Ok(PreparedRun::join(Arc::new(session), plan))
    }

    /// Adds a model to a running session.
    pub(crate) fn join(session: Arc<RunningSession>, plan: RunPlan) -> PreparedRun {
        let RunPlan { model, others, kinds, options, mut run_journal, background, .. } = plan;
        let SessionParts { policy, hooks, tasks, crons, workspace, notices, .. } = &session.parts;
        let engine = session.engine.clone();
        session.sampler.set_model(model.clone());
        session.agents.open(AgentSetup {
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
            recorder: run_journal.recorder(),
            notices: notices.clone(),
        });
        // Includes the tools that need a model.
        engine.fit_window(options.window_tokens);
        run_journal.lost_directory = session.lost_directory.clone();
        let scheduled = Arc::new(ScheduledPrompts::begin(crons.clone(), notices.clone()));
        let run_hooks = RunHooks::new(hooks.clone(), session.servers.clone(), notices.clone());
        let run_hooks = run_hooks.end_grants_of(policy);
        let hooks = Arc::new(match background {
            BackgroundAgents::Awaited => run_hooks.wait_for(tasks),
            BackgroundAgents::Reported => run_hooks.report(tasks),
        });
        PreparedRun { engine, model, scheduled, run_journal, options, session, hooks }
    }

    /// Returns a control to read and change the permission mode.
    pub fn mode(&self) -> ModeControl {
        ModeControl(self.session.parts.policy.clone())
    }

    /// Fires the session start hooks. Returns the initial conversation.
    ///
    /// # Errors
    /// Returns the reason of a hook that ends the session here.
    pub async fn start(&self) -> Result<Conversation, String> {
        let first = self.hooks.start(self.model.name()).await?;
        Ok(self.run_journal.conversation(&*self.model, first.as_deref()))
    }

    /// Sends a message to the model and runs until it has an answer. Without a prompt the model continues
    /// an interrupted conversation.
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
            .hooks(self.hooks.clone())
            .handle(handle.clone());
        let agent = self.run_journal.add_recorder(agent);
        let played = self.run_journal.play(&agent, handle, conversation, prompt);
        self.scheduled.run_beside(handle, &*self.hooks, played).await
    }

    /// Fires the session end hooks, ends the servers and closes the journal.
    pub async fn end(&self, why: &RunEnd) {
        self.hooks.end().await;
        self.session.close_servers().await;
        self.run_journal.record_end(why);
        self.session.agents.close();
    }

    /// Reports what ended with the session: background tasks, scheduled prompts, messages of hooks.
    pub fn report(&self) {
        self.session.agents.close();
        let SessionParts { tasks, hooks, notices, .. } = &self.session.parts;
        report_tasks(tasks, notices);
        self.scheduled.report();
        crate::hooks::report_hooks(hooks, notices);
    }
}

/// Reads and changes the permission mode of a run.
pub struct ModeControl(Policy);

impl ModeControl {
    /// Returns the mode.
    pub fn current(&self) -> PermissionMode {
        self.0.current()
    }

    /// Changes the mode.
    ///
    /// # Errors
    /// Returns an error if settings forbid it.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), ModeForbidden> {
        self.0.set_mode(mode)
    }
}
