//! Ports: the small traits through which tools and engine reach the world.
//!
//! The engine knows these traits and nothing behind them; the other crates implement them, and the host hands them
//! over when it builds an [`Engine`](crate::Engine). A tool names the ports it can't do without
//! ([`ToolSpec::needs`](crate::ToolSpec::needs)); where one is absent the tool isn't offered. There is no lookup by
//! name and no downcast: a port is a field.

mod asker;
mod authorizer;
mod child_requests;
mod crons;
mod grants;
mod history;
mod mode;
mod processes;
mod recorder;
mod resources;
mod sandbox_rules;
mod sandbox_view;
mod settings;
mod sub_agents;
mod tasks;
mod tool_index;
mod tracer;

use std::sync::Arc;

pub use asker::{Answer, Approval, Asker, Choice, Filled, UserForm, UserPage, UserQuestion};
pub use authorizer::{Authorizer, Request};
pub use child_requests::{
    ChildRequest, ChildRequestQueue, ChildRequests, HostAnswer, HostGroup, OpenQuestion, PendingRequest,
    UndoneAnswer, UndoneChange, UndoneChanges, WantedHost,
};
pub use crons::{CronState, Crons, NewCron};
pub use grants::Grants;
pub use history::{History, PastCall};
pub use mode::{Mode, PermissionMode, UnknownMode};
pub use processes::{
    Background, Captured, Confinement, Exit, HostGrants, KillReason, OnLine, OnOutput, OnPipes, ProcessError,
    ProcessOutcome, ProcessRequest, Processes, ProtectionLevel, Refusal, Spill, signal_name,
};
pub use recorder::{HookOutcome, Intent, RecordError, Recorder, RefusedCall, RequestDecision};
pub use resources::{Resource, ResourceError, Resources};
pub(crate) use sandbox_rules::bind_processes;
pub use sandbox_rules::{
    DeniedRead, EnforcedRules, HostPattern, ProcessRestrictions, RestrictProcesses, RuleSetId, SandboxRules,
};
pub use sandbox_view::{PathUse, SandboxView};
pub use settings::{Setting, SettingsView};
pub use sub_agents::{AgentRequest, Isolation, OnAgentLine, SubAgents};
pub use tasks::{LogSize, NewTask, TaskId, TaskLog, TaskState, Tasks, TooManyTasks};
pub use tool_index::{Found, ToolIndex};
pub(crate) use tracer::Traced;
pub use tracer::{CallPlace, TRACEPARENT, TRACESTATE, TraceContext, Tracer};

use crate::files::{DirFiles, Files};

/// The name of a port, for tools that say what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Port {
    /// [`Files`]; always there.
    Files,
    /// [`Processes`].
    Processes,
    /// [`Asker`].
    Asker,
    /// [`Recorder`].
    Recorder,
    /// [`ToolIndex`].
    ToolIndex,
    /// [`Mode`].
    Mode,
    /// [`SubAgents`].
    SubAgents,
    /// [`Resources`].
    Resources,
    /// [`Tasks`].
    Tasks,
    /// [`Crons`].
    Crons,
    /// [`Grants`].
    Grants,
    /// [`History`].
    History,
    /// [`SettingsView`].
    Settings,
    /// [`Tracer`].
    Tracer,
}

/// What it is, in words that come after "this host has no".
impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Port::Files => "files",
            Port::Processes => "child processes",
            Port::Asker => "user to ask",
            Port::Recorder => "journal",
            Port::ToolIndex => "search over tools",
            Port::Mode => "permission modes",
            Port::SubAgents => "model for sub-agents",
            Port::Resources => "servers with resources",
            Port::Tasks => "background tasks",
            Port::Crons => "planned prompts",
            Port::Grants => "permissions for a turn",
            Port::History => "memory of past calls",
            Port::Settings => "settings to show",
            Port::Tracer => "tracing",
        })
    }
}

/// The ports that a host has.
#[derive(Clone)]
pub struct Ports {
    /// Files; the real disk unless something else is given.
    pub files: Arc<dyn Files>,
    /// Child processes.
    pub processes: Option<Arc<dyn Processes>>,
    /// The user.
    pub asker: Option<Arc<dyn Asker>>,
    /// The journal.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// The search over tools.
    pub tool_index: Option<Arc<dyn ToolIndex>>,
    /// The live permission mode.
    pub mode: Option<Arc<dyn Mode>>,
    /// Sub-agents.
    pub sub_agents: Option<Arc<dyn SubAgents>>,
    /// Resources of connected servers.
    pub resources: Option<Arc<dyn Resources>>,
    /// Background tasks.
    pub tasks: Option<Arc<dyn Tasks>>,
    /// Prompts that are planned for later.
    pub crons: Option<Arc<dyn Crons>>,
    /// Permissions that end with a turn.
    pub grants: Option<Arc<dyn Grants>>,
    /// What the session has done.
    pub history: Option<Arc<dyn History>>,
    /// The settings in force.
    pub settings: Option<Arc<dyn SettingsView>>,
    /// Whoever measures calls.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl Default for Ports {
    fn default() -> Ports {
        Ports {
            files: Arc::new(DirFiles::new()),
            processes: None,
            asker: None,
            recorder: None,
            tool_index: None,
            mode: None,
            sub_agents: None,
            resources: None,
            tasks: None,
            crons: None,
            grants: None,
            history: None,
            settings: None,
            tracer: None,
        }
    }
}

impl Ports {
    /// The user, if one can answer now. A panic counts as no.
    pub(crate) fn available_asker(&self) -> Option<&dyn Asker> {
        self.asker.as_deref().filter(|asker| crate::future::guarded(|| asker.is_available()).unwrap_or(false))
    }

    /// Whether a port is there.
    pub fn has(&self, port: Port) -> bool {
        match port {
            Port::Files => true,
            Port::Processes => self.processes.is_some(),
            Port::Asker => self.available_asker().is_some(),
            Port::Recorder => self.recorder.is_some(),
            Port::ToolIndex => self.tool_index.is_some(),
            Port::Mode => self.mode.is_some(),
            Port::SubAgents => self
                .sub_agents
                .as_deref()
                .is_some_and(|agents| crate::future::guarded(|| agents.is_available()).unwrap_or(false)),
            Port::Resources => self.resources.is_some(),
            Port::Tasks => self.tasks.is_some(),
            Port::Crons => self.crons.is_some(),
            Port::Grants => self.grants.is_some(),
            Port::History => self.history.is_some(),
            Port::Settings => self.settings.is_some(),
            Port::Tracer => self.tracer.is_some(),
        }
    }
}
