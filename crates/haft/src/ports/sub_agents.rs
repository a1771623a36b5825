//! The port to sub-agents.

use crate::content::Output;
use crate::context::Context;
use crate::error::ToolError;
use crate::future::BoxFuture;

/// Runs a task in a loop of its own.
///
/// Called from the delegating call's task. The child's calls are judged one by one, each at most as freely as its
/// parent's would be; it ends when the context's cancellation is raised.
pub trait SubAgents: Send + Sync + 'static {
    /// Runs a sub-agent to its answer.
    fn run<'a>(&'a self, request: AgentRequest, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>;

    /// Sends words to one that runs.
    fn send<'a>(&'a self, agent: &'a str, message: String) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// What a sub-agent is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// A few words, for the screen.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Which kind of agent.
    pub kind: Option<String>,
}
