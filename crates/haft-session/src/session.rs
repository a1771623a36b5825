//! The public session: [`Session`] runs calls, [`Agent`] runs the loop around a model.

use std::sync::{Arc, Mutex};

use haft::{Cause, Engine, ToolCall, ToolResult};
use haft_agent::{Conversation, Model, RunEnd, RunEvent, RunHandle, RunOutcome};

use crate::assembly::{SessionFactory, SessionParts};
use crate::builder::{EventHandler, SessionBuilder};
use crate::kept::Resumed;
use crate::run::plan::{ModelSource, RunRequest};
use crate::run::prepared::{BackgroundAgents, FrontEnd, PreparedRun, RunPlan};
use crate::run::provider::ModelOptions;
use crate::{SessionError, SessionOptions, SessionPurpose};

/// A session: tools behind rules, sandbox, hooks and journal.
///
/// Dropping it ends its processes.
pub struct Session {
    options: SessionOptions,
    events: Option<EventHandler>,
    engine: Engine,
    id: String,
    /// Taken by the agent.
    parts: Mutex<Option<(SessionParts, Option<Resumed>)>>,
}

impl Session {
    /// A builder for a session that works in this directory.
    pub fn builder(dir: impl Into<std::path::PathBuf>) -> SessionBuilder {
        SessionBuilder::new(dir)
    }

    pub(crate) fn open(
        options: SessionOptions,
        events: Option<EventHandler>,
        resumed: Option<Resumed>,
    ) -> Result<Session, SessionError> {
        let parts = SessionFactory::load(&options, SessionPurpose::Run)?.open()?;
        parts.report_warnings();
        // For turns without an agent. The agent's engine also has its model, its journal and its front end.
        let (engine, id) = (parts.engine.clone().build(), parts.id.clone());
        Ok(Session { options, events, engine, id, parts: Mutex::new(Some((parts, resumed))) })
    }

    /// The id, which no other session of this machine has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs calls as one turn of a model. There is one result for each call, in order.
    pub async fn run_turn(&self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolResult> {
        self.engine.turn().run(calls).await
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
        let taken = haft::sync::lock(&self.parts).take();
        let (mut parts, resumed) =
            taken.ok_or_else(|| SessionError::new("this session has an agent already; build another one"))?;
        let background = BackgroundAgents::Awaited;
        let request =
            RunRequest { model, resumed, max_turns: None, append_system_prompt: Vec::new(), background };
        let plan = RunPlan::new(&mut parts, &self.options, request)?;
        let front_end = Arc::new(EventFrontEnd(self.events.clone()));
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| SessionError::new("an agent runs on a tokio runtime; there is none here"))?;
        let run = PreparedRun::new(parts, plan, front_end, &runtime)?;
        let conversation = run.start().await.map_err(SessionError::new)?;
        Ok(Agent { run, conversation, handle: RunHandle::new(), last: None })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if haft::sync::lock(&self.parts).is_some() {
            self.engine.shutdown(Cause::Shutdown);
        }
    }
}

/// The agent of a session: a model, and the conversation with it.
///
/// Dropping it without [`close`](Agent::close) leaves the journal as if the process had been killed: the session can be
/// resumed, and counts as cut off.
pub struct Agent {
    run: PreparedRun,
    conversation: Conversation,
    handle: RunHandle,
    last: Option<RunEnd>,
}

impl Agent {
    /// Says something to the model and runs its calls until it has an answer.
    pub async fn run(&mut self, prompt: &str) -> RunOutcome {
        if self.conversation.is_empty() {
            self.run.kept.said(prompt);
        }
        self.play(Some(prompt)).await
    }

    /// Continues what was cut off: calls that finished are read back, unknown ones are reported to the model.
    pub async fn resume(&mut self) -> RunOutcome {
        self.play(None).await
    }

    async fn play(&mut self, prompt: Option<&str>) -> RunOutcome {
        // A handle is good for one run.
        self.handle = RunHandle::new();
        let outcome = self.run.play(&mut self.conversation, prompt, &self.handle).await;
        self.last = Some(outcome.ended.clone());
        outcome
    }

    /// Ends the session: hooks, servers, processes and journal.
    pub async fn close(self) {
        self.run.end(self.last.as_ref().unwrap_or(&RunEnd::Finished)).await;
        self.run.report();
        self.run.engine.shutdown(Cause::Shutdown);
    }
}

struct EventFrontEnd(Option<EventHandler>);

impl FrontEnd for EventFrontEnd {
    fn show(&self, event: RunEvent) {
        if let Some(receive) = &self.0 {
            receive(&event);
        }
    }
}
