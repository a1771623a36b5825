//! Ports: the small traits through which tools and engine reach the world.
//!
//! The engine knows these traits and nothing behind them; the other crates implement them, and the host hands them
//! over when it builds an [`Engine`](crate::Engine). A tool names the ports it can't do without
//! ([`ToolSpec::needs`](crate::ToolSpec::needs)); where one is absent the tool isn't offered. There is no lookup by
//! name and no downcast: a port is a field.

mod asker;
mod authorizer;
mod child_requests;
mod mode;
mod processes;
mod recorder;
mod sandbox_rules;
mod sandbox_view;
mod sub_agents;
mod tasks;
mod tracer;

use std::sync::Arc;

pub use asker::{Answer, Approval, Asker, Choice, Filled, UserForm, UserPage, UserQuestion};
pub use authorizer::{Authorizer, Request};
pub use child_requests::{
    ChildRequest, ChildRequestQueue, ChildRequests, HostAnswer, HostGroup, OpenQuestion, PendingRequest,
    UndoneAnswer, UndoneChange, UndoneChanges, WantedHost,
};
pub use mode::{Mode, PermissionMode, UnknownMode};
pub use processes::{
    Background, Captured, Confinement, Exit, HostGrants, KillReason, OnLine, OnOutput, OnPipes, ProcessError,
    ProcessOutcome, ProcessRequest, Processes, ProtectionLevel, Refusal, Spill, signal_name,
};
pub use recorder::{HookOutcome, Intent, RecordError, Recorder, RefusedCall, RequestDecision};
pub(crate) use sandbox_rules::bind_processes;
pub use sandbox_rules::{
    DeniedRead, EnforcedRules, HostPattern, ProcessRestrictions, RestrictProcesses, RuleSetId, SandboxRules,
};
pub use sandbox_view::{PathUse, SandboxView};
pub use sub_agents::{AgentRequest, Isolation, OnAgentLine, SubAgents};
pub use tasks::{LogSize, NewTask, TaskId, TaskLog, TaskState, Tasks, TooManyTasks};
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
    /// [`Mode`].
    Mode,
    /// [`SubAgents`].
    SubAgents,
    /// [`Tasks`].
    Tasks,
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
            Port::Mode => "permission modes",
            Port::SubAgents => "model for sub-agents",
            Port::Tasks => "background tasks",
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
    /// The live permission mode.
    pub mode: Option<Arc<dyn Mode>>,
    /// Sub-agents.
    pub sub_agents: Option<Arc<dyn SubAgents>>,
    /// Background tasks.
    pub tasks: Option<Arc<dyn Tasks>>,
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
            mode: None,
            sub_agents: None,
            tasks: None,
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
            Port::Mode => self.mode.is_some(),
            Port::SubAgents => self
                .sub_agents
                .as_deref()
                .is_some_and(|agents| crate::future::guarded(|| agents.is_available()).unwrap_or(false)),
            Port::Tasks => self.tasks.is_some(),
            Port::Tracer => self.tracer.is_some(),
        }
    }
}
