//! Ports: the small traits through which tools and engine reach the world.
//!
//! The engine knows these traits and nothing behind them; the other crates implement them, and the host hands
//! them over when it builds an [`Engine`](crate::Engine). A tool names the ports it can't do without
//! ([`ToolSpec::needs`](crate::ToolSpec::needs)); where one is absent the tool isn't offered. There is no
//! lookup by name and no downcast: a port is a field.

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

pub use asker::{
    AnswerChoice, ApprovalAnswer, ApprovalRequest, Asker, FormAnswer, UserForm, UserPage, UserQuestion,
};
pub use authorizer::{AuthorizationRequest, Authorizer};
pub use child_requests::{
    ChildRequest, ChildRequestQueue, ChildRequests, HostAnswer, HostGroup, OpenQuestion, PendingRequest,
    UndoneAnswer, UndoneChange, UndoneChanges, WantedHost,
};
pub use mode::{ModeControl, PermissionMode, UnknownMode};
pub use processes::{
    BackgroundFlag, CapturedOutput, ConfinementLevel, ConfinementRefusal, HostGrants, KillReason, OnLine,
    OnOutput, OnPipes, ProcessError, ProcessExit, ProcessOutcome, ProcessRequest, Processes, ProtectionLevel,
    SpillFile, signal_name,
};
pub use recorder::{CallIntent, HookOutcome, RecordError, Recorder, RefusedCall, RequestDecision};
pub(crate) use sandbox_rules::bind_processes;
pub use sandbox_rules::{
    DeniedRead, EnforcedRules, HostPattern, ProcessRestrictions, RestrictProcesses, RuleSetId, SandboxRules,
};
pub use sandbox_view::{PathUse, SandboxView};
pub use sub_agents::{AgentIsolation, AgentRequest, OnAgentLine, SubAgents};
pub use tasks::{LogSize, NewTask, TaskId, TaskLog, TaskState, Tasks, TooManyTasks};
pub(crate) use tracer::TracedProcesses;
pub use tracer::{CallPlace, TRACEPARENT, TRACESTATE, TraceContext, Tracer};

use crate::files::{DirFiles, Files};

/// The name of a port, for tools that say what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortName {
    /// [`Files`]; always there.
    Files,
    /// [`Processes`].
    Processes,
    /// [`Asker`].
    Asker,
    /// [`Recorder`].
    Recorder,
    /// [`ModeControl`].
    Mode,
    /// [`SubAgents`].
    SubAgents,
    /// [`Tasks`].
    Tasks,
    /// [`Tracer`].
    Tracer,
}

/// What it is, in words that come after "this host has no".
impl std::fmt::Display for PortName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PortName::Files => "files",
            PortName::Processes => "child processes",
            PortName::Asker => "user to ask",
            PortName::Recorder => "journal",
            PortName::Mode => "permission modes",
            PortName::SubAgents => "model for sub-agents",
            PortName::Tasks => "background tasks",
            PortName::Tracer => "tracing",
        })
    }
}

/// The ports that a host has.
#[derive(Clone)]
pub struct HostPorts {
    /// Files; the real disk unless something else is given.
    pub files: Arc<dyn Files>,
    /// Child processes.
    pub processes: Option<Arc<dyn Processes>>,
    /// The user.
    pub asker: Option<Arc<dyn Asker>>,
    /// The journal.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// The live permission mode.
    pub mode: Option<Arc<dyn ModeControl>>,
    /// Sub-agents.
    pub sub_agents: Option<Arc<dyn SubAgents>>,
    /// Background tasks.
    pub tasks: Option<Arc<dyn Tasks>>,
    /// Whoever measures calls.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl Default for HostPorts {
    fn default() -> HostPorts {
        HostPorts {
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

impl HostPorts {
    /// The user, if one can answer now. A panic counts as no.
    pub(crate) fn available_asker(&self) -> Option<&dyn Asker> {
        self.asker
            .as_deref()
            .filter(|asker| crate::future::catch_panic(|| asker.is_available()).unwrap_or(false))
    }

    /// Whether a port is there.
    pub fn has(&self, port: PortName) -> bool {
        match port {
            PortName::Files => true,
            PortName::Processes => self.processes.is_some(),
            PortName::Asker => self.available_asker().is_some(),
            PortName::Recorder => self.recorder.is_some(),
            PortName::Mode => self.mode.is_some(),
            PortName::SubAgents => self
                .sub_agents
                .as_deref()
                .is_some_and(|agents| crate::future::catch_panic(|| agents.is_available()).unwrap_or(false)),
            PortName::Tasks => self.tasks.is_some(),
            PortName::Tracer => self.tracer.is_some(),
        }
    }
}
