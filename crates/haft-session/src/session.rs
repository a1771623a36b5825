//! The public session: [`Session`] runs calls, [`Agent`] runs the loop around a model.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft::dispatch::{PendingCall, Turn};
use haft::sync::lock;
use haft::{ToolCall, ToolResult};
use haft_agent::{Conversation, Model, RunEnd, RunHandle, RunOutcome, TokenUsage};
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use crate::assembly::SessionAssembler;
use crate::builder::SessionBuilder;
use crate::front_end::FrontEnd;
use crate::handle::{FrontEndGuard, SessionHandle, SessionShared};
use crate::run::plan::{ModelSource, RunRequest};
use crate::run::prepared::{BackgroundAgents, PreparedRun, RunPlan};
use crate::run::provider::ModelOptions;
use crate::run::running_session::RunningSession;
use crate::session_journal::{JournalState, ResumedSession};
use crate::{DecisionReport, SessionError, SessionOptions};

/// How long [`Session::close`] waits for a run, and for front ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session: tools with rules, a sandbox, hooks and a journal.
///
/// It owns everything that it starts. Dropping it cancels its calls, ends its processes and records the end
/// in the journal. [`close`](Session::close) also runs the session end hooks. A [`SessionHandle`] accesses
/// it from other tasks.
pub struct Session {
    options: SessionOptions,
    shared: Arc<SessionShared>,
    _front_ends: Vec<FrontEndGuard>,
    /// The session to continue, if there is one. The agent takes it.
    joining: Mutex<Option<Option<ResumedSession>>>,
    /// The run of the agent, once there is one.
    run: Mutex<Option<Arc<AsyncMutex<AgentRun>>>>,
}

/// The report of a closed session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionReport {
    /// The id, by which it can be resumed.
    pub id: String,
    /// Whether it has a journal.
    pub is_journaled: bool,
    /// The model usage.
    pub usage: TokenUsage,
}

impl Session {
    /// Returns a builder for a session that works in this directory.
    pub fn builder(dir: impl Into<std::path::PathBuf>) -> SessionBuilder {
        SessionBuilder::new(dir)
    }

    pub(crate) fn open(
        assembler: &SessionAssembler,
        front_ends: Vec<Arc<dyn FrontEnd>>,
        resumed: Option<ResumedSession>,
    ) -> Result<Session, SessionError> {
        let options = assembler.options().clone();
        let channels = options.channels.clone().unwrap_or_default();
        let parts = assembler.open()?;
        parts.report_warnings();
        let journal = parts.journal(&options, resumed.as_ref());
        let front_ends = front_ends.into_iter().map(|front_end| channels.attach(front_end)).collect();
        let runtime = tokio::runtime::Handle::try_current().ok();
        let running = RunningSession::start(parts, journal, resumed.as_ref(), None, runtime.as_ref())?;
        Ok(Session {
            options,
            shared: Arc::new(SessionShared::new(Arc::new(running))),
            _front_ends: front_ends,
            joining: Mutex::new(Some(resumed)),
            run: Mutex::default(),
        })
    }

    /// Returns the id, which is unique on this machine.
    pub fn id(&self) -> &str {
        &self.running().parts.id
    }

    /// Returns a handle that accesses this session from other tasks and doesn't keep it alive.
    pub fn handle(&self) -> SessionHandle {
        SessionHandle(Arc::downgrade(&self.shared))
    }

    /// Runs calls as one turn of a model. Returns one result for each call, in order. Calls of tools that
    /// no server offers yet wait for the servers. When this returns, front ends have shown all events of
    /// the turn.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the calls.
    pub async fn run_turn(&self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolResult> {
        let calls: Vec<ToolCall> = calls.into_iter().collect();
        self.running().wait_for_tools(&calls).await;
        let results = self.turn().run(calls).await;
        self.running().channels.flush().await;
        results
    }

    /// Begins a turn, for calls that arrive one after the other. It has the tools of the connected servers.
    pub fn turn(&self) -> Turn {
        self.running().refresh_tools();
        let turn = self.shared.engine().turn();
        self.shared.track(turn.handle());
        turn
    }

    /// Submits one call, from any task or thread. Calls of a session are ordered by arrival, and
    /// conflicting ones wait. Results arrive as the calls end. Dropping the future cancels the call.
    pub fn submit(&self, call: ToolCall) -> PendingCall {
        self.running().refresh_tools();
        let pending = self.shared.engine().submit(call);
        self.shared.track(pending.handle());
        pending
    }

    /// Waits until each MCP server of the session is connected or has failed. They begin to connect when
    /// the session is built.
    pub async fn wait_for_servers(&self) {
        self.running().wait_for_servers().await;
    }

    /// Returns the decision on a call without making it. Runs nothing and doesn't ask the user.
    ///
    /// # Errors
    /// Returns an error if the tool is unknown or the input is invalid.
    pub async fn check(&self, tool: &str, input: Value) -> Result<DecisionReport, SessionError> {
        self.running().refresh_tools();
        self.running().parts.check(tool, input).await
    }

    /// Returns the agent of this session, with the model of environment and settings.
    ///
    /// # Errors
    /// Returns an error if no model is configured, or if the session already has an agent.
    pub async fn agent(&self) -> Result<Agent, SessionError> {
        self.start_agent(ModelSource::Configured(ModelOptions::default())).await
    }

    /// Returns the agent of this session, with this model.
    ///
    /// # Errors
    /// Returns an error if the session already has an agent.
    pub async fn agent_with(&self, model: impl Model) -> Result<Agent, SessionError> {
        self.start_agent(ModelSource::Custom(Arc::new(model))).await
    }

    async fn start_agent(&self, model: ModelSource) -> Result<Agent, SessionError> {
        let resumed = lock(&self.joining)
            .take()
            .ok_or_else(|| SessionError::model("this session has an agent already; build another one"))?;
        let running = self.running();
        let request = RunRequest {
            model,
            resumed,
            journal: running.journal.clone(),
            max_turns: None,
            append_system_prompt: Vec::new(),
            background: BackgroundAgents::Awaited,
        };
        let plan = RunPlan::new(&running.parts, &self.options, request)?;
        let run = PreparedRun::join(running.clone(), plan);
        let conversation = run.start().await.map_err(SessionError::model)?;
        let run = Arc::new(AsyncMutex::new(AgentRun { run, conversation, last: None }));
        *lock(&self.run) = Some(run.clone());
        Ok(Agent { shared: Arc::downgrade(&self.shared), run })
    }

    fn running(&self) -> &Arc<RunningSession> {
        &self.shared.running
    }

    /// Ends the session: interrupts what runs, fires the session end hooks, ends servers and processes, and
    /// closes the journal. Waits up to two seconds for each.
    pub async fn close(self) -> SessionReport {
        let run = lock(&self.run).take();
        if let Some(handle) = lock(&self.shared.run).as_ref() {
            handle.force();
        }
        if let Some(run) = run
            && let Ok(mut run) = tokio::time::timeout(CLOSE_TIMEOUT, run.lock()).await
        {
            let last = run.last.take().unwrap_or(RunEnd::Finished);
            run.run.end(&last).await;
            run.run.report();
        }
        // Closes the servers if there is no agent, or if it didn't end in time.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.running().close_servers()).await;
        let report = SessionReport {
            id: self.id().to_owned(),
            is_journaled: self.running().journal.opened().and_then(JournalState::recorder).is_some(),
            usage: lock(&self.shared.usage).clone(),
        };
        self.end();
        self.running().channels.join(CLOSE_TIMEOUT).await;
        report
    }

    /// Ends everything immediately. Only the first call has an effect.
    fn end(&self) {
        self.shared.shut_down();
        let running = self.running();
        running.shut_down();
        running.parts.process_guard.shut_down();
        running.journal.record_end("closed");
        running.channels.events.close();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// The agent of a session: a model, and the conversation with it.
///
/// It ends with its session: when the session is dropped or closed, a run is interrupted, and later runs
/// end immediately.
pub struct Agent {
    shared: Weak<SessionShared>,
    run: Arc<AsyncMutex<AgentRun>>,
}

/// The state that an agent and its session share.
struct AgentRun {
    run: PreparedRun,
    conversation: Conversation,
    last: Option<RunEnd>,
}

impl Agent {
    /// Sends a message to the model and runs its calls until it has an answer. When this returns, front
    /// ends have shown all events of the run.
    ///
    /// # Cancel safety
    /// Dropping the future keeps the conversation up to the last whole turn.
    pub async fn run(&mut self, prompt: &str) -> RunOutcome {
        self.play(Some(prompt)).await
    }

    /// Continues an interrupted conversation: results of finished calls are restored, and calls with an
    /// unknown outcome are reported to the model.
    pub async fn resume(&mut self) -> RunOutcome {
        self.play(None).await
    }

    async fn play(&mut self, prompt: Option<&str>) -> RunOutcome {
        // A handle is for a single run.
        let handle = RunHandle::new();
        match self.shared.upgrade() {
            Some(shared) => shared.begin_run(&handle),
            None => handle.force(),
        }
        let mut agent = self.run.lock().await;
        let AgentRun { run, conversation, last } = &mut *agent;
        if let Some(prompt) = prompt.filter(|_| conversation.is_empty()) {
            run.run_journal.record_title(prompt);
        }
        let outcome = run.play(conversation, prompt, &handle).await;
        *last = Some(outcome.ended.clone());
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.usage).add(&outcome.usage);
            *lock(&shared.run) = None;
            shared.running.channels.flush().await;
        }
        outcome
    }
}
