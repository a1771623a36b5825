//! What a tool may know and use: one immutable value for each call, cheap to clone.
//!
//! Everything that a tool touches goes through its context. It carries authority, not configuration:
//! `files()` opens only what was granted to this call, also inside `check`, when nothing beyond the working
//! directories is.
//!
//! [`Context`] itself has what most tools use; the rest is found by topic in the groups that
//! [`Context::call`], [`location`](Context::location), [`ports`](Context::ports),
//! [`background`](Context::background) and [`tracing`](Context::tracing) return.

mod groups;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use haft_scheduler::sync::lock;
use haft_scheduler::{Cancel, Cause};

pub use self::groups::{AgentLocation, BackgroundControl, CallInfo, CallTracing, ContextPorts};
use crate::dispatch::background::BackgroundCalls;
use crate::dispatch::turn::TurnShared;
use crate::effects::resolved::Workspace;
use crate::event::{CallRef, Event, EventKind, EventSink};
use crate::files::{GrantedAccess, ScopedFiles, resolve_path};
use crate::limits;
use crate::pipeline::running::RunningCall;
use crate::ports::{HostPorts, TracedProcesses};
use crate::registry::RegisteredTool;
use crate::results::OffloadStore;
use crate::search::ToolFinder;
use crate::text::truncate_in_place;
use crate::view::CallProgress;

/// What one call may know and use.
///
/// Most tools need [`files`](Context::files), [`cwd`](Context::cwd), [`progress`](Context::progress) and
/// [`cancelled`](Context::cancelled). Everything else is grouped by topic:
///
/// | group | for |
/// |---|---|
/// | [`call`](Context::call) | ids of session, agent and call |
/// | [`location`](Context::location) | the workspace, and moving the agent within it |
/// | [`ports`](Context::ports) | processes, the user, sub-agents, tasks, the journal, and others |
/// | [`background`](Context::background) | continuing work after the call has its result |
/// | [`tracing`](Context::tracing) | the trace that the call is a part of |
#[derive(Clone)]
pub struct Context {
    call: Arc<CallState>,
    access: Arc<GrantedAccess>,
}

/// What all contexts of one call share.
struct CallState {
    host: Arc<AgentHost>,
    turn: u64,
    reference: CallRef,
    cancel: Cancel,
    /// The tool, where the call runs in the engine's own process.
    entry: Option<Arc<RegisteredTool>>,
    /// The working directory, where the workspace can't say it: in another process than the host's.
    cwd: Option<Box<Path>>,
    /// The workspace, where an earlier call moved the working directory.
    workspace: Option<Arc<Workspace>>,
    running: RunningCall,
    /// The processes of this call, where it is traced.
    traced: OnceLock<Option<TracedProcesses>>,
}

/// What all calls of an agent share.
pub(crate) struct AgentHost {
    pub(crate) session: Arc<str>,
    pub(crate) agent: Arc<str>,
    pub(crate) workspace: Workspace,
    /// What may be read before anything is granted.
    pub(crate) base_access: Arc<GrantedAccess>,
    pub(crate) ports: HostPorts,
    /// The search over the tools of the latest snapshot.
    pub(crate) finder: ToolFinder,
    pub(crate) events: Option<Arc<dyn EventSink>>,
    /// Where whole results are kept; nowhere in a child process, whose host has them.
    pub(crate) results: Option<Arc<OffloadStore>>,
    /// What goes on after its call was answered.
    pub(crate) background: Arc<BackgroundCalls>,
    /// Whether children can do no more than they were granted.
    pub(crate) confined: bool,
    /// Where calls that begin now work, if that isn't where the session began.
    pub(crate) place: Mutex<AgentPlacement>,
}

/// Where an agent has moved to.
#[derive(Clone, Default)]
pub(crate) struct AgentPlacement {
    /// The directories that it works in now, if its scope was moved, and what may be read there unasked.
    scope: Option<(Arc<Workspace>, Arc<GrantedAccess>)>,
    /// The same with the working directory that a call left, if one moved it.
    moved: Option<Arc<Workspace>>,
}

/// Where an agent has moved to, as far as it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct DirectoryChange {
    /// The directory that its scope was moved into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<std::path::PathBuf>,
    /// Its working directory, if that is another one than where its scope begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<std::path::PathBuf>,
}

impl DirectoryChange {
    /// Whether it is where the session began.
    pub fn is_nowhere(&self) -> bool {
        self.scope.is_none() && self.cwd.is_none()
    }
}

impl AgentPlacement {
    fn moved(&self) -> DirectoryChange {
        DirectoryChange {
            scope: self.scope.as_ref().map(|(scope, _)| scope.cwd().to_owned()),
            cwd: self.moved.as_ref().map(|moved| moved.cwd().to_owned()),
        }
    }

    /// The workspace of calls that begin now, if it isn't the session's.
    fn workspace(&self) -> Option<Arc<Workspace>> {
        self.moved.clone().or_else(|| self.scope.as_ref().map(|(workspace, _)| workspace.clone()))
    }
}

impl AgentHost {
    /// Tells the sink and the tracer, if there are any. The event is only built then.
    pub(crate) fn tell(&self, turn: u64, call: Option<&CallRef>, what: impl FnOnce() -> EventKind) {
        let tracer = &self.ports.tracer;
        if self.events.is_none() && tracer.is_none() {
            return;
        }
        let event = Event {
            session: self.session.clone(),
            agent: self.agent.clone(),
            turn,
            call: call.cloned(),
            what: what(),
        };
        if let Some(tracer) = tracer {
            let _ = crate::future::catch_panic(|| tracer.see(&event));
        }
        if let Some(sink) = &self.events {
            let _ = crate::future::catch_panic(|| sink.send(event));
        }
    }

    /// Where the agent is.
    pub(crate) fn moved(&self) -> DirectoryChange {
        lock(&self.place).moved()
    }

    /// Moves the agent's working directory; `dir` is found from `from`.
    pub(crate) fn move_to(&self, from: &Path, dir: &Path) -> Result<(), String> {
        let shown = dir.display();
        let found = resolve_path(from, dir).map_err(|error| error.to_string())?;
        if !found.is_dir {
            return Err(format!("`{shown}` is not a directory"));
        }
        let mut place = lock(&self.place);
        let scope = place.scope.as_ref().map(|(scope, _)| scope.clone());
        let scope = scope.as_deref().unwrap_or(&self.workspace);
        if !scope.contains(&found) {
            return Err(format!("`{shown}` lies outside of the working directories"));
        }
        place.moved = (found.real != scope.cwd()).then(|| Arc::new(scope.at(&found.real)));
        Ok(())
    }

    /// Moves the agent's scope; `dir` is found from `from`.
    pub(crate) fn enter(&self, from: &Path, dir: &Path) -> Result<(), String> {
        let shown = dir.display();
        let found = resolve_path(from, dir).map_err(|error| error.to_string())?;
        if !found.is_dir {
            return Err(format!("`{shown}` is not a directory"));
        }
        if !self.workspace.contains(&found) {
            return Err(format!("`{shown}` lies outside of the working directories"));
        }
        let scope = self.workspace.moved_into(&found.real);
        let access = Arc::new(scope.access());
        *lock(&self.place) = AgentPlacement { scope: Some((Arc::new(scope), access)), moved: None };
        Ok(())
    }
}

impl Context {
    pub(crate) fn new(
        host: Arc<AgentHost>,
        turn: u64,
        reference: CallRef,
        cancel: Cancel,
        called: Option<(Arc<RegisteredTool>, Weak<TurnShared>)>,
    ) -> Context {
        let place = lock(&host.place).clone();
        let (cwd, workspace) = (None, place.workspace());
        let (entry, running) = match called {
            Some((entry, turn)) => (Some(entry), RunningCall::of_turn(turn)),
            None => (None, RunningCall::default()),
        };
        let access = place.scope.map_or_else(|| host.base_access.clone(), |(_, access)| access);
        Context {
            call: Arc::new(CallState {
                host,
                turn,
                reference,
                cancel,
                entry,
                cwd,
                workspace,
                running,
                traced: OnceLock::new(),
            }),
            access,
        }
    }

    /// The context of a call in the child process of an isolated tool; paths start at `cwd`, which need not
    /// be visible from there.
    pub(crate) fn for_child(
        host: Arc<AgentHost>,
        turn: u64,
        reference: CallRef,
        cancel: Cancel,
        access: GrantedAccess,
        cwd: &Path,
    ) -> Context {
        let (entry, cwd, running) = (None, Some(cwd.into()), RunningCall::default());
        let (workspace, traced) = (None, OnceLock::new());
        let call = CallState { host, turn, reference, cancel, entry, cwd, workspace, running, traced };
        Context { call: Arc::new(call), access: Arc::new(access) }
    }

    /// The same call with what was granted to it.
    pub(crate) fn granted(&self, access: Arc<GrantedAccess>) -> Context {
        Context { call: self.call.clone(), access }
    }

    /// The working directory; relative paths start here.
    pub fn cwd(&self) -> &Path {
        self.call.cwd.as_deref().unwrap_or_else(|| self.location().workspace().cwd())
    }

    /// What this call may read and write.
    pub fn access(&self) -> &GrantedAccess {
        &self.access
    }

    /// The files that this call may touch.
    pub fn files(&self) -> ScopedFiles<'_> {
        ScopedFiles::new(&*self.call.host.ports.files, &self.access, self.cwd())
    }

    /// The cancellation of this call; children of it end with it.
    pub fn cancel(&self) -> &Cancel {
        &self.call.cancel
    }

    /// Completes when the call is cancelled, with the cause.
    ///
    /// # Cancel safety
    /// Dropping the future forgets it; a later one sees the same cause.
    pub async fn cancelled(&self) -> Cause {
        self.call.cancel.cancelled().await
    }

    /// Tells watchers how far the call is: a fraction between 0 and 1, and words.
    pub fn progress(&self, fraction: impl Into<Option<f64>>, message: impl Into<String>) {
        let call = &*self.call;
        call.host.tell(call.turn, Some(&call.reference), || {
            let mut message = message.into();
            truncate_in_place(&mut message, limits::PROGRESS_CHARS_MAX);
            let fraction = fraction.into().map(|fraction: f64| fraction.clamp(0.0, 1.0));
            EventKind::Progress(CallProgress { fraction, message: (!message.is_empty()).then_some(message) })
        });
    }

    /// Tells watchers what a child process wrote as a line to its descriptor for progress: a JSON object such
    /// as `{"progress": 0.5, "message": "half"}`, each part optional. Other lines are ignored.
    pub fn tell_progress_line(&self, line: &[u8]) {
        #[derive(serde::Deserialize)]
        struct ProgressLine {
            progress: Option<f64>,
            message: Option<String>,
        }
        if let Ok(ProgressLine { progress, message }) = serde_json::from_slice(line)
            && (progress.is_some() || message.is_some())
        {
            self.progress(progress, message.unwrap_or_default());
        }
    }

    /// Shows watchers a part of the output before the whole is there. The result itself is what `call`
    /// returns.
    pub fn partial(&self, text: impl Into<String>) {
        let call = &*self.call;
        call.host.tell(call.turn, Some(&call.reference), || {
            let mut text = text.into();
            truncate_in_place(&mut text, limits::PARTIAL_CHARS_MAX);
            EventKind::Partial(text)
        });
    }

    /// Says something that should be looked at.
    pub fn warn(&self, words: impl Into<String>) {
        let call = &*self.call;
        call.host.tell(call.turn, Some(&call.reference), || EventKind::Warning(words.into()));
    }

    /// Waits until no other call of the same message runs, and keeps others from running until this one has
    /// ended: for a call that is about to touch more than its tool declared, because the user allowed it.
    /// Where calls are not scheduled, as in the child process of an [isolated](crate::isolated) tool, it
    /// returns at once.
    ///
    /// # Cancel safety
    /// If the future is dropped, return from the call; don't wait again.
    pub async fn become_exclusive(&self) {
        if let Some(turn) = self.call.running.widen() {
            turn.alone(self.call().index()).await;
        }
    }

    /// A context for work that cleans up after this call: it is never cancelled, so the work has to be short.
    pub fn without_cancellation(&self) -> Context {
        let CallState { host, turn, reference, entry, cwd, workspace, .. } = &*self.call;
        let call = CallState {
            host: host.clone(),
            turn: *turn,
            reference: reference.clone(),
            cancel: Cancel::new(),
            entry: entry.clone(),
            cwd: cwd.clone(),
            workspace: workspace.clone(),
            running: RunningCall::default(),
            traced: OnceLock::new(),
        };
        Context { call: Arc::new(call), access: self.access.clone() }
    }

    /// Which call this is: ids of session, agent and call.
    pub fn call(&self) -> CallInfo<'_> {
        CallInfo(self)
    }

    /// Where the agent works, and moving it.
    pub fn location(&self) -> AgentLocation<'_> {
        AgentLocation(self)
    }

    /// What the host offers: processes, the user, sub-agents, tasks, and others.
    pub fn ports(&self) -> ContextPorts<'_> {
        ContextPorts(self)
    }

    /// Work in the background.
    pub fn background(&self) -> BackgroundControl<'_> {
        BackgroundControl(self)
    }

    /// The trace that the call is a part of.
    pub fn tracing(&self) -> CallTracing<'_> {
        CallTracing(self)
    }

    pub(crate) fn host(&self) -> &Arc<AgentHost> {
        &self.call.host
    }

    /// What the call holds while it runs, and shows to those who watch it.
    pub(crate) fn running(&self) -> &RunningCall {
        &self.call.running
    }

    pub(crate) fn entry(&self) -> Option<&Arc<RegisteredTool>> {
        self.call.entry.as_ref()
    }

    pub(crate) fn call_ref(&self) -> &CallRef {
        &self.call.reference
    }
}
