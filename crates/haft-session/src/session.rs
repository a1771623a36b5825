//! The public session: [`Session`] runs calls, [`Agent`] runs the loop around a model.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft::dispatch::{PendingCall, Turn};
use haft::env::Lookup;
use haft::ports::Mode as _;
use haft::sync::lock;
use haft::{ToolCall, ToolResult};
use haft_agent::{Conversation, Model, RunEnd, RunHandle, RunOutcome, TokenUsage, ToolEventSink};
use haft_journal::Began;
use tokio::sync::Mutex as AsyncMutex;

use crate::assembly::{ProcessGuard, SessionFactory, SessionParts};
use crate::builder::SessionBuilder;
use crate::front_end::FrontEnd;
use crate::handle::{FrontEndGuard, SessionHandle, SessionShared};
use crate::kept::{EMBEDDED, Journaled, Keeping, Lazy, Resumed};
use crate::run::plan::{ModelSource, RunRequest};
use crate::run::prepared::{BackgroundAgents, PreparedRun, RunPlan};
use crate::run::provider::ModelOptions;
use crate::{SessionChannels, SessionError, SessionOptions, SessionPurpose};

/// How long [`Session::close`] waits for a run, and for front ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session: tools behind rules, sandbox, hooks and journal.
///
/// It owns everything that it starts. Dropping it cancels its calls, ends its processes and notes in the journal that it
/// ended; [`close`](Session::close) also runs the hooks of a session's end. A [`SessionHandle`] reaches it from elsewhere.
pub struct Session {
    options: SessionOptions,
    id: String,
    shared: Arc<SessionShared>,
    journal: Arc<Lazy>,
    processes: ProcessGuard,
    _front_ends: Vec<FrontEndGuard>,
    /// Taken by the agent.
    parts: Mutex<Option<(SessionParts, Option<Resumed>)>>,
    /// The run of the agent, once there is one.
    run: Mutex<Option<Arc<AsyncMutex<AgentRun>>>>,
}

/// What a session reports when it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionReport {
    /// The id, by which it can be resumed.
    pub id: String,
    /// Whether it has a journal.
    pub is_journaled: bool,
    /// What the model cost.
    pub usage: TokenUsage,
}

impl Session {
    /// A builder for a session that works in this directory.
    pub fn builder(dir: impl Into<std::path::PathBuf>) -> SessionBuilder {
        SessionBuilder::new(dir)
    }

    pub(crate) fn open(
        mut options: SessionOptions,
        front_ends: Vec<Arc<dyn FrontEnd>>,
        resumed: Option<Resumed>,
    ) -> Result<Session, SessionError> {
        let channels = SessionChannels::default();
        options.channels = Some(channels.clone());
        let mut parts = SessionFactory::load(&options, SessionPurpose::Run)?.open()?;
        parts.report_warnings();
        let journal = open_journal(&parts, &options, resumed.as_ref());
        let recorder = journal.clone();
        let events = ToolEventSink::new(channels.events.clone());
        parts.engine = parts.engine.clone().events(events).ports(|ports| ports.recorder = Some(recorder));
        let (id, processes) = (parts.id.clone(), parts.process_guard.share());
        let shared = Arc::new(SessionShared::new(channels, parts.policy.clone(), parts.engine().clone()));
        let handle = SessionHandle(Arc::downgrade(&shared));
        let front_ends = front_ends.into_iter().map(|front_end| handle.attach_shared(front_end)).collect();
        Ok(Session {
            options,
            id,
            shared,
            journal,
            processes,
            _front_ends: front_ends,
            parts: Mutex::new(Some((parts, resumed))),
            run: Mutex::default(),
        })
    }

    /// The id, which no other session of this machine has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A handle that reaches this session from elsewhere and doesn't keep it alive.
    pub fn handle(&self) -> SessionHandle {
        SessionHandle(Arc::downgrade(&self.shared))
    }

    /// Runs calls as one turn of a model. There is one result for each call, in order.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the calls.
    pub async fn run_turn(&self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolResult> {
        self.turn().run(calls).await
    }

    /// Begins a turn, for calls that arrive one after the other.
    pub fn turn(&self) -> Turn {
        let turn = self.shared.engine().turn();
        self.shared.track(turn.handle());
        turn
    }

    /// Takes one call, from any task or thread. Calls of a session are ordered by arrival, and conflicting ones wait; results
    /// come as the calls end. Dropping the future cancels the call.
    pub fn submit(&self, call: ToolCall) -> PendingCall {
        let pending = self.shared.engine().submit(call);
        self.shared.track(pending.handle());
        pending
    }

    /// The agent of this session, with the model of environment and settings.
    ///
    /// # Errors
    /// No model is configured, or the session has an agent already.
    pub async fn agent(&self) -> Result<Agent, SessionError> {
        self.start_agent(ModelSource::Configured(ModelOptions::default())).await
    }

    /// The agent of this session, with this model.
    ///
    /// # Errors
    /// The session has an agent already.
    pub async fn agent_with(&self, model: impl Model) -> Result<Agent, SessionError> {
        self.start_agent(ModelSource::Custom(Arc::new(model))).await
    }

    async fn start_agent(&self, model: ModelSource) -> Result<Agent, SessionError> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| SessionError::model("an agent runs on a tokio runtime; there is none here"))?;
        let taken = lock(&self.parts).take();
        let (mut parts, resumed) = taken
            .ok_or_else(|| SessionError::model("this session has an agent already; build another one"))?;
        let request = RunRequest {
            model,
            resumed,
            journal: self.journal.opened().cloned(),
            max_turns: None,
            append_system_prompt: Vec::new(),
            background: BackgroundAgents::Awaited,
        };
        let plan = RunPlan::new(&mut parts, &self.options, request)?;
        self.journal.set(plan.kept.keeping.clone());
        let run = PreparedRun::new(parts, plan, None, &runtime)?;
        *lock(&self.shared.engine) = run.engine.clone();
        let conversation = run.start().await.map_err(SessionError::model)?;
        let run = Arc::new(AsyncMutex::new(AgentRun { run, conversation, last: None }));
        *lock(&self.run) = Some(run.clone());
        Ok(Agent { shared: Arc::downgrade(&self.shared), run })
    }

    /// Ends the session: interrupts what runs, fires the hooks of a session's end, ends servers and processes, and closes the
    /// journal. Waits up to two seconds for each.
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
        let report = SessionReport {
            id: self.id.clone(),
            is_journaled: self.journal.opened().and_then(Journaled::keeping).is_some(),
            usage: lock(&self.shared.usage).clone(),
        };
        self.end();
        let tasks = std::mem::take(&mut *lock(&self.shared.front_end_tasks));
        for task in tasks {
            // A front end that doesn't return is left behind.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, task).await;
        }
        report
    }

    /// Ends everything at once. Only the first time counts.
    fn end(&self) {
        self.shared.shut_down();
        self.processes.shut_down();
        self.journal.ended("closed");
        self.shared.channels.events.close();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// A journal that is opened with the first call.
fn open_journal(parts: &SessionParts, options: &SessionOptions, resumed: Option<&Resumed>) -> Arc<Lazy> {
    let (settings, state) =
        (parts.given.loaded.settings.journal.clone(), parts.given.places.state_dir.clone());
    let (id, cwd, mode) = (parts.id.clone(), parts.workspace.cwd().to_owned(), parts.policy.clone());
    let (environment, notices) = (options.environment.clone(), parts.notices.clone());
    let (mark, wire) = match resumed {
        Some(resumed) => (Some(resumed.mark), resumed.recovered.last.wire.clone()),
        None => (None, String::new()),
    };
    Lazy::new(move || {
        let began = Began {
            command: EMBEDDED.to_owned(),
            mode: mode.current().to_string(),
            wire: wire.clone(),
            ..Began::in_folder(&cwd)
        };
        let lookup: Lookup<'_> = &|name| environment.get(name);
        let opened = Keeping::open(state.as_deref(), &settings, (&id, began), mark, lookup, &notices);
        opened.unwrap_or_else(|error| Journaled::Broken(error.to_string()))
    })
}

/// The agent of a session: a model, and the conversation with it.
///
/// It ends with its session: when that is dropped or closed, a run is interrupted, and later ones end at once.
pub struct Agent {
    shared: Weak<SessionShared>,
    run: Arc<AsyncMutex<AgentRun>>,
}

/// What an agent and its session share.
struct AgentRun {
    run: PreparedRun,
    conversation: Conversation,
    last: Option<RunEnd>,
}

impl Agent {
    /// Says something to the model and runs its calls until it has an answer.
    ///
    /// # Cancel safety
    /// Dropping the future keeps the conversation up to the last whole turn.
    pub async fn run(&mut self, prompt: &str) -> RunOutcome {
        self.play(Some(prompt)).await
    }

    /// Continues what was cut off: calls that finished are read back, unknown ones are reported to the model.
    pub async fn resume(&mut self) -> RunOutcome {
        self.play(None).await
    }

    async fn play(&mut self, prompt: Option<&str>) -> RunOutcome {
        // A handle is good for one run.
        let handle = RunHandle::new();
        match self.shared.upgrade() {
            Some(shared) => shared.begin_run(&handle),
            None => handle.force(),
        }
        let mut agent = self.run.lock().await;
        let AgentRun { run, conversation, last } = &mut *agent;
        if let Some(prompt) = prompt.filter(|_| conversation.is_empty()) {
            run.kept.said(prompt);
        }
        let outcome = run.play(conversation, prompt, &handle).await;
        *last = Some(outcome.ended.clone());
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.usage).add(&outcome.usage);
            *lock(&shared.run) = None;
        }
        outcome
    }
}
