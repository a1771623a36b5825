//! What a tool may know and use: one immutable value for each call, cheap to clone.
//!
//! Everything that a tool touches goes through its context. It carries authority, not configuration: `files()` opens
//! only what was granted to this call, also inside `check`, when nothing beyond the working directories is.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use haft_scheduler::sync::lock;
use haft_scheduler::{Cancel, Cause};

use crate::content::Output;
use crate::dispatch::background::{self, Background};
use crate::effects::resolved::Workspace;
use crate::error::ToolError;
use crate::event::{CallRef, Event, EventSink, What};
use crate::files::{Access, ScopedFiles, resolve};
use crate::limits;
use crate::pipeline::running::Running;
use crate::ports::{
    Asker, CallPlace, Crons, Grants, History, Mode, Ports, Processes, Recorder, Resources, SettingsView,
    SubAgents, TaskId, TaskLog, Tasks, ToolIndex, TraceContext, Traced,
};
use crate::registry::Entry;
use crate::results::OffloadStore;
use crate::text::truncate_in_place;
use crate::view::Progress;

/// The surroundings of one call.
#[derive(Clone)]
pub struct Context {
    call: Arc<Call>,
    access: Arc<Access>,
}

/// What all contexts of one call share.
struct Call {
    host: Arc<Host>,
    turn: u64,
    reference: CallRef,
    cancel: Cancel,
    /// The tool, where the call runs in the engine's own process.
    entry: Option<Arc<Entry>>,
    /// The working directory, where the workspace can't say it: in another process than the host's.
    cwd: Option<Box<Path>>,
    /// The workspace, where an earlier call moved the working directory.
    workspace: Option<Arc<Workspace>>,
    running: Running,
    /// The processes of this call, where it is traced.
    traced: OnceLock<Option<Traced>>,
}

/// What all calls of an agent share.
pub(crate) struct Host {
    pub(crate) session: Arc<str>,
    pub(crate) agent: Arc<str>,
    pub(crate) workspace: Workspace,
    /// What may be read before anything is granted.
    pub(crate) base_access: Arc<Access>,
    pub(crate) ports: Ports,
    pub(crate) events: Option<Arc<dyn EventSink>>,
    /// Where whole results are kept; nowhere in a child process, whose host has them.
    pub(crate) results: Option<Arc<OffloadStore>>,
    /// What goes on after its call was answered.
    pub(crate) background: Arc<Background>,
    /// Whether children can do no more than they were granted.
    pub(crate) confined: bool,
    /// Where calls that begin now work, if that isn't where the session began.
    pub(crate) place: Mutex<Place>,
}

/// Where an agent has moved to.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// The directories that it works in now, if its scope was moved, and what may be read there unasked.
    scope: Option<(Arc<Workspace>, Arc<Access>)>,
    /// The same with the working directory that a call left, if one moved it.
    moved: Option<Arc<Workspace>>,
}

/// Where an agent has moved to, as far as it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Moved {
    /// The directory that its scope was moved into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<std::path::PathBuf>,
    /// Its working directory, if that is another one than where its scope begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<std::path::PathBuf>,
}

impl Moved {
    /// Whether it is where the session began.
    pub fn is_nowhere(&self) -> bool {
        self.scope.is_none() && self.cwd.is_none()
    }
}

impl Place {
    fn moved(&self) -> Moved {
        Moved {
            scope: self.scope.as_ref().map(|(scope, _)| scope.cwd().to_owned()),
            cwd: self.moved.as_ref().map(|moved| moved.cwd().to_owned()),
        }
    }

    /// The workspace of calls that begin now, if it isn't the session's.
    fn workspace(&self) -> Option<Arc<Workspace>> {
        self.moved.clone().or_else(|| self.scope.as_ref().map(|(workspace, _)| workspace.clone()))
    }
}

impl Host {
    /// Tells the sink and the tracer, if there are any. The event is only built then.
    pub(crate) fn tell(&self, turn: u64, call: Option<&CallRef>, what: impl FnOnce() -> What) {
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
            let _ = crate::future::guarded(|| tracer.see(&event));
        }
        if let Some(sink) = &self.events {
            let _ = crate::future::guarded(|| sink.send(event));
        }
    }

    /// Where the agent is.
    pub(crate) fn moved(&self) -> Moved {
        lock(&self.place).moved()
    }

    /// Moves the agent's working directory; `dir` is found from `from`.
    pub(crate) fn move_to(&self, from: &Path, dir: &Path) -> Result<(), String> {
        let shown = dir.display();
        let found = resolve(from, dir).map_err(|error| error.to_string())?;
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
        let found = resolve(from, dir).map_err(|error| error.to_string())?;
        if !found.is_dir {
            return Err(format!("`{shown}` is not a directory"));
        }
        if !self.workspace.contains(&found) {
            return Err(format!("`{shown}` lies outside of the working directories"));
        }
        let scope = self.workspace.moved_into(&found.real);
        let access = Arc::new(scope.access());
        *lock(&self.place) = Place { scope: Some((Arc::new(scope), access)), moved: None };
        Ok(())
    }
}

impl Context {
    pub(crate) fn new(
        host: Arc<Host>,
        turn: u64,
        reference: CallRef,
        cancel: Cancel,
        entry: Option<Arc<Entry>>,
    ) -> Context {
        let place = lock(&host.place).clone();
        let (cwd, running, workspace) = (None, Running::default(), place.workspace());
        let access = place.scope.map_or_else(|| host.base_access.clone(), |(_, access)| access);
        Context {
            call: Arc::new(Call {
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

    /// The context of a call whose host is another process: `host` has stand-ins for that one's ports, and paths start
    /// at `cwd`, which need not be visible from here.
    pub(crate) fn proxied(
        host: Arc<Host>,
        turn: u64,
        reference: CallRef,
        cancel: Cancel,
        access: Access,
        cwd: &Path,
    ) -> Context {
        let (entry, cwd, running) = (None, Some(cwd.into()), Running::default());
        let (workspace, traced) = (None, OnceLock::new());
        let call = Call { host, turn, reference, cancel, entry, cwd, workspace, running, traced };
        Context { call: Arc::new(call), access: Arc::new(access) }
    }

    /// The same call with what was granted to it.
    pub(crate) fn granted(&self, access: Arc<Access>) -> Context {
        Context { call: self.call.clone(), access }
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.call.host.session
    }

    /// The agent's id within the session.
    pub fn agent_id(&self) -> &str {
        &self.call.host.agent
    }

    /// The number of the turn, from 1.
    pub fn turn(&self) -> u64 {
        self.call.turn
    }

    /// The id of the call.
    pub fn call_id(&self) -> &str {
        &self.call.reference.id
    }

    /// The place of the call in its turn, from 0.
    pub fn call_index(&self) -> usize {
        self.call.reference.index
    }

    /// The working directory; relative paths start here.
    pub fn cwd(&self) -> &Path {
        self.call.cwd.as_deref().unwrap_or_else(|| self.workspace().cwd())
    }

    /// Moves the working directory of this agent, for the calls that begin after this one has ended. Whatever a later
    /// call names by a relative path is found from there, by rules as by tools.
    ///
    /// # Errors
    /// In words: it is no directory, or lies outside of those that the session works in.
    pub fn move_to(&self, dir: &Path) -> Result<(), String> {
        self.call.host.move_to(self.cwd(), dir)
    }

    /// Moves the working directory of this agent back to where the session began, or to where its scope was moved.
    pub fn move_back(&self) {
        lock(&self.call.host.place).moved = None;
    }

    /// Moves the scope of this agent into a directory of the workspace, for the calls that begin after this one has ended:
    /// relative paths start there, and what lies around it in the working directory that it is a part of is outside. Other
    /// directories of the workspace stay inside.
    ///
    /// # Errors
    /// In words: it is no directory, or lies outside of those that the session works in.
    pub fn enter(&self, dir: &Path) -> Result<(), String> {
        self.call.host.enter(self.cwd(), dir)
    }

    /// Moves the scope of this agent back to where the session began.
    pub fn leave(&self) {
        *lock(&self.call.host.place) = Place::default();
    }

    /// The directory that the scope of this agent was moved into, if it was.
    pub fn entered(&self) -> Option<std::path::PathBuf> {
        self.moved().scope
    }

    /// Where this agent has moved to.
    pub fn moved(&self) -> Moved {
        self.call.host.moved()
    }

    /// The directories that the session works in.
    pub fn workspace(&self) -> &Workspace {
        self.call.workspace.as_deref().unwrap_or(&self.call.host.workspace)
    }

    /// What this call may read and write.
    pub fn access(&self) -> &Access {
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
            What::Progress(Progress { fraction, message: (!message.is_empty()).then_some(message) })
        });
    }

    /// Shows watchers a part of the output before the whole is there. The result itself is what `call` returns.
    pub fn partial(&self, text: impl Into<String>) {
        let call = &*self.call;
        call.host.tell(call.turn, Some(&call.reference), || {
            let mut text = text.into();
            truncate_in_place(&mut text, limits::PARTIAL_CHARS_MAX);
            What::Partial(text)
        });
    }

    /// Says something that should be looked at.
    pub fn warn(&self, words: impl Into<String>) {
        let call = &*self.call;
        call.host.tell(call.turn, Some(&call.reference), || What::Warning(words.into()));
    }

    /// Where whole results are kept, for a tool whose output can be too long for memory: see
    /// [`OffloadStore::begin`]. Nowhere in the child process of an [isolated](crate::isolated) tool.
    pub fn results(&self) -> Option<&Arc<OffloadStore>> {
        self.call.host.results.as_ref()
    }

    /// Child processes, if the host has them. Where the call is traced, each is told its place in the trace.
    pub fn processes(&self) -> Option<&dyn Processes> {
        let processes = self.call.host.ports.processes.as_ref()?;
        let traced = self
            .call
            .traced
            .get_or_init(|| self.trace().map(|context| Traced::new(processes.clone(), context)));
        Some(traced.as_ref().map_or(&**processes, |traced| traced))
    }

    /// The place in a trace in which this call works, for what it asks of others; none where nobody traces it.
    pub fn trace(&self) -> Option<TraceContext> {
        let tracer = self.call.host.ports.tracer.as_ref()?;
        crate::future::guarded(|| tracer.context(self.place())).ok().flatten()
    }

    /// Tells whoever traces this call a fact about it, by its name in the conventions of OpenTelemetry.
    pub fn note(&self, name: &'static str, value: impl FnOnce() -> serde_json::Value) {
        if let Some(tracer) = &self.call.host.ports.tracer {
            let _ = crate::future::guarded(|| tracer.note(self.place(), name, value()));
        }
    }

    fn place(&self) -> CallPlace<'_> {
        let Call { host, turn, reference, .. } = &*self.call;
        CallPlace::new(&host.session, &host.agent, *turn, reference)
    }

    /// The user, if there is one.
    pub fn asker(&self) -> Option<&dyn Asker> {
        self.call.host.ports.available_asker()
    }

    /// The journal, if there is one.
    pub fn recorder(&self) -> Option<&dyn Recorder> {
        self.call.host.ports.recorder.as_deref()
    }

    /// The search over tools, if there is one.
    pub fn tool_index(&self) -> Option<&dyn ToolIndex> {
        self.call.host.ports.tool_index.as_deref()
    }

    /// The live permission mode, if the host has one.
    pub fn mode(&self) -> Option<&dyn Mode> {
        self.call.host.ports.mode.as_deref()
    }

    /// Sub-agents, if the host has them.
    pub fn sub_agents(&self) -> Option<&dyn SubAgents> {
        self.call.host.ports.sub_agents.as_deref()
    }

    /// Resources of connected servers, if the host has them.
    pub fn resources(&self) -> Option<&dyn Resources> {
        self.call.host.ports.resources.as_deref()
    }

    /// Background tasks, if the host has them.
    pub fn tasks(&self) -> Option<&dyn Tasks> {
        self.call.host.ports.tasks.as_deref()
    }

    /// Prompts that are planned for later, if the host has them.
    pub fn crons(&self) -> Option<&dyn Crons> {
        self.call.host.ports.crons.as_deref()
    }

    /// Permissions that end with a turn, if the host gives such.
    pub fn grants(&self) -> Option<&dyn Grants> {
        self.call.host.ports.grants.as_deref()
    }

    /// What the session has done, if the host remembers it.
    pub fn history(&self) -> Option<&dyn History> {
        self.call.host.ports.history.as_deref()
    }

    /// The settings in force, if the host shows them.
    pub fn settings(&self) -> Option<&dyn SettingsView> {
        self.call.host.ports.settings.as_deref()
    }

    /// Says where the call shows what it prints while it runs, for those who look at it once it is in the background.
    /// Only the first one counts.
    pub fn prints_to(&self, log: Arc<dyn TaskLog>) {
        self.call.running.prints_to(log);
    }

    /// The background task that the call became, if somebody moved it there.
    pub fn task(&self) -> Option<TaskId> {
        self.call.running.task()
    }

    /// Whether this call has moved to the background, or leaves something there: for the processes that it starts.
    pub fn background(&self) -> &crate::ports::Background {
        self.call.running.background()
    }

    /// Waits until no other call of the same message runs, and keeps others from running until this one has ended: for a call
    /// that is about to touch more than its tool said, because the user let it. Where nothing keeps calls apart, as in the
    /// child process of an [isolated](crate::isolated) tool, it is there at once.
    ///
    /// # Cancel safety
    /// A future that was dropped is not to be replaced by another: return from the call then.
    pub async fn alone(&self) {
        if let Some(turn) = self.call.running.widen() {
            turn.alone(self.call_index()).await;
        }
    }

    /// Lets work go on in the background after this call has its answer, as a task of the session: `cancel`, which should
    /// be a [child](Cancel::child) of this call's, ends with the session and is what stops it. Calls that overlap with it
    /// are told. Slot and locks are free as soon as the call returns, so return at once, with the task's name.
    ///
    /// # Errors
    /// The work itself, unharmed, and why it can't: the host has no background tasks, or too many run already.
    pub fn go_on_in_background<F>(
        &self,
        about: impl Into<String>,
        cancel: Cancel,
        work: F,
    ) -> Result<TaskId, (F, String)>
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        background::go_on(self, about.into(), cancel, work)
    }

    /// The surroundings of this call for work that tidies up behind it: nothing cancels it, so it has to be short.
    pub fn uncancelled(&self) -> Context {
        let Call { host, turn, reference, entry, cwd, workspace, .. } = &*self.call;
        let call = Call {
            host: host.clone(),
            turn: *turn,
            reference: reference.clone(),
            cancel: Cancel::new(),
            entry: entry.clone(),
            cwd: cwd.clone(),
            workspace: workspace.clone(),
            running: Running::default(),
            traced: OnceLock::new(),
        };
        Context { call: Arc::new(call), access: self.access.clone() }
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.call.host
    }

    /// What the call holds while it runs, and shows to those who watch it.
    pub(crate) fn running(&self) -> &Running {
        &self.call.running
    }

    pub(crate) fn entry(&self) -> Option<&Arc<Entry>> {
        self.call.entry.as_ref()
    }

    pub(crate) fn call_ref(&self) -> &CallRef {
        &self.call.reference
    }
}
