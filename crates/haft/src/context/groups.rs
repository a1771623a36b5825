//! What a [`Context`] offers beyond the everyday methods, grouped by topic.
//!
//! Each group borrows the context and is cheap to make: `cx.call().id()`, `cx.ports().processes()`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_scheduler::Cancel;
use haft_scheduler::sync::lock;

use super::{AgentPlacement, CallState, Context, DirectoryChange};
use crate::content::ToolOutput;
use crate::dispatch::background;
use crate::effects::resolved::Workspace;
use crate::error::ToolError;
use crate::ports::{
    Asker, BackgroundFlag, CallPlace, ChildRequests, ModeControl, Processes, Recorder, SubAgents, TaskId,
    TaskLog, Tasks, TraceContext, TracedProcesses,
};
use crate::results::OffloadStore;

/// Which call this is: [`Context::call`].
#[derive(Clone, Copy)]
pub struct CallInfo<'a>(pub(super) &'a Context);

impl<'a> CallInfo<'a> {
    /// The session's id.
    pub fn session_id(self) -> &'a str {
        &self.0.call.host.session
    }

    /// The agent's id within the session.
    pub fn agent_id(self) -> &'a str {
        &self.0.call.host.agent
    }

    /// The number of the turn, from 1.
    pub fn turn(self) -> u64 {
        self.0.call.turn
    }

    /// The id of the call.
    pub fn id(self) -> &'a str {
        &self.0.call.reference.id
    }

    /// The position of the call in its turn, from 0.
    pub fn index(self) -> usize {
        self.0.call.reference.index
    }
}

/// Where the agent of this call works, and moving it: [`Context::location`].
#[derive(Clone, Copy)]
pub struct AgentLocation<'a>(pub(super) &'a Context);

impl<'a> AgentLocation<'a> {
    /// The directories that the session works in.
    pub fn workspace(self) -> &'a Workspace {
        let call = &*self.0.call;
        call.workspace.as_deref().unwrap_or(&call.host.workspace)
    }

    /// Moves the working directory of this agent, for the calls that begin after this one has ended. Relative
    /// paths of later calls start there, in rules and in tools.
    ///
    /// # Errors
    /// A message: it is not a directory, or is outside of the directories that the session works in.
    pub fn move_to(self, dir: &Path) -> Result<(), String> {
        self.0.call.host.move_to(self.0.cwd(), dir)
    }

    /// Moves the working directory of this agent back to where the session began, or to where its scope was
    /// moved.
    pub fn move_back(self) {
        lock(&self.0.call.host.place).moved = None;
    }

    /// Moves the scope of this agent into a directory of the workspace, for the calls that begin after this
    /// one has ended: relative paths start there, and the rest of the working directory that contains it is
    /// outside. Other directories of the workspace stay inside.
    ///
    /// # Errors
    /// A message: it is not a directory, or is outside of the directories that the session works in.
    pub fn enter(self, dir: &Path) -> Result<(), String> {
        self.0.call.host.enter(self.0.cwd(), dir)
    }

    /// Moves the scope of this agent back to where the session began.
    pub fn leave(self) {
        *lock(&self.0.call.host.place) = AgentPlacement::default();
    }

    /// The directory that the scope of this agent was moved into, if it was.
    pub fn entered(self) -> Option<PathBuf> {
        self.moved().scope
    }

    /// Where this agent has moved to.
    pub fn moved(self) -> DirectoryChange {
        self.0.call.host.moved()
    }
}

/// What the host offers to calls: [`Context::ports`]. A host without a port returns `None`; a tool that can't
/// do without one names it in its spec.
#[derive(Clone, Copy)]
pub struct ContextPorts<'a>(pub(super) &'a Context);

impl<'a> ContextPorts<'a> {
    /// Child processes. Where the call is traced, each gets its place in the trace.
    pub fn processes(self) -> Option<&'a dyn Processes> {
        let call: &'a CallState = &self.0.call;
        let processes = call.host.ports.processes.as_ref()?;
        let traced = call.traced.get_or_init(|| {
            self.0.tracing().context().map(|context| TracedProcesses::new(processes.clone(), context))
        });
        Some(traced.as_ref().map_or(&**processes, |traced| traced))
    }

    /// The user.
    pub fn asker(self) -> Option<&'a dyn Asker> {
        self.0.call.host.ports.available_asker()
    }

    /// Where a child process of this call asks for hosts that the call wasn't granted, while the call runs;
    /// `None` where nothing confines children.
    pub fn child_requests(self) -> Option<ChildRequests> {
        self.0.call.running.child_requests()
    }

    /// The journal.
    pub fn recorder(self) -> Option<&'a dyn Recorder> {
        self.0.call.host.ports.recorder.as_deref()
    }

    /// The live permission mode.
    pub fn mode(self) -> Option<&'a dyn ModeControl> {
        self.0.call.host.ports.mode.as_deref()
    }

    /// Sub-agents.
    pub fn sub_agents(self) -> Option<&'a dyn SubAgents> {
        self.0.call.host.ports.sub_agents.as_deref()
    }

    /// Background tasks.
    pub fn tasks(self) -> Option<&'a dyn Tasks> {
        self.0.call.host.ports.tasks.as_deref()
    }

    /// Stores results that are too long for the model, for a tool whose output can be too long for memory:
    /// see [`OffloadStore::begin`]. `None` in the child process of an [isolated](crate::isolated) tool.
    pub fn result_store(self) -> Option<&'a Arc<OffloadStore>> {
        self.0.call.host.results.as_ref()
    }
}

/// The call and background tasks: [`Context::background`].
#[derive(Clone, Copy)]
pub struct BackgroundControl<'a>(pub(super) &'a Context);

impl<'a> BackgroundControl<'a> {
    /// Continues work in the background after this call has its result, as a task of the session: `cancel`,
    /// which should be a [child](Cancel::child) of this call's, is cancelled with the session and stops the
    /// task. Results of calls that overlap with the task carry a note. Slot and locks are free as soon as the
    /// call returns, so return at once, with the task's id.
    ///
    /// # Errors
    /// The work itself, unchanged, and the reason: the host has no background tasks, or too many run already.
    pub fn spawn<F>(self, about: impl Into<String>, cancel: Cancel, work: F) -> Result<TaskId, (F, String)>
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        background::go_on(self.0, about.into(), cancel, work)
    }

    /// The background task that the call became, if the user or the host moved it there.
    pub fn task(self) -> Option<TaskId> {
        self.0.call.running.task()
    }

    /// Sets where the call shows its output while it runs, for readers once it is in the background. Only the
    /// first log counts.
    pub fn set_log(self, log: Arc<dyn TaskLog>) {
        self.0.call.running.prints_to(log);
    }

    /// Whether this call has moved to the background, or leaves something there: for the processes that it
    /// starts.
    pub fn state(self) -> &'a BackgroundFlag {
        self.0.call.running.background()
    }
}

/// The call as a part of a trace: [`Context::tracing`].
#[derive(Clone, Copy)]
pub struct CallTracing<'a>(pub(super) &'a Context);

impl CallTracing<'_> {
    /// The place of this call in its trace, to pass on to others; `None` where the call is not traced.
    pub fn context(self) -> Option<TraceContext> {
        let tracer = self.0.call.host.ports.tracer.as_ref()?;
        crate::future::catch_panic(|| tracer.context(self.place())).ok().flatten()
    }

    /// Adds an attribute to the trace of this call, by its name in the conventions of OpenTelemetry. `value`
    /// is computed only where the call is traced.
    pub fn note(self, name: &'static str, value: impl FnOnce() -> serde_json::Value) {
        if let Some(tracer) = &self.0.call.host.ports.tracer {
            let _ = crate::future::catch_panic(|| tracer.note(self.place(), name, value()));
        }
    }

    fn place(&self) -> CallPlace<'_> {
        let CallState { host, turn, reference, .. } = &*self.0.call;
        CallPlace::new(&host.session, &host.agent, *turn, reference)
    }
}
