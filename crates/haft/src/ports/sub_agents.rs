//! The port to sub-agents.
//!
//! A tool says what is to be done and by which kind of agent; how a loop is run, which model is asked and
//! what a kind means is the business of whoever implements this. Who a message is from is read off the
//! context, so that nobody can speak in another's name.

use std::fmt;
use std::sync::Arc;

use crate::content::ToolOutput;
use crate::context::Context;
use crate::error::ToolError;
use crate::future::BoxFuture;

/// Runs a task in a loop of its own.
///
/// Called from the delegating call's task. The child's calls are judged one by one, each at most as freely as
/// its parent's would be; it ends when the context's cancellation is raised, or when the future is dropped.
pub trait SubAgents: Send + Sync + 'static {
    /// Returns whether sub-agents can work now. While they can't, tools that need them are not offered.
    fn is_available(&self) -> bool {
        true
    }

    /// Says what is wrong with a request before anything is asked or run: a kind that isn't there, agents too
    /// deep.
    ///
    /// # Errors
    /// In words for the model.
    fn check(&self, request: &AgentRequest, cx: &Context) -> Result<(), ToolError> {
        let _ = (request, cx);
        Ok(())
    }

    /// Runs a sub-agent to its answer.
    fn run<'a>(
        &'a self,
        request: AgentRequest,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;

    /// Sends words to an agent that runs, or to the one that the sender works for (`parent`). They arrive
    /// before its next turn and stop nothing.
    fn send<'a>(
        &'a self,
        to: &'a str,
        message: String,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// Told what an agent does, a line at a time. Called from the agent's tasks, so it must not block.
pub type OnAgentLine = Arc<dyn Fn(&str) + Send + Sync>;

/// What a sub-agent is asked to do.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentRequest {
    /// A few words, for the screen.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Which kind of agent.
    pub kind: Option<String>,
    /// What it is called, for messages; a name is made where none is given.
    pub name: Option<String>,
    /// The model that it asks, where it isn't its parent's.
    pub model: Option<String>,
    /// Where its files are.
    pub isolation: AgentIsolation,
    /// Told what it does.
    pub on_line: Option<OnAgentLine>,
}

/// Where the files of a sub-agent are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentIsolation {
    /// Where its parent's are.
    #[default]
    None,
    /// In a git worktree of its own, which is kept if something was changed in it.
    Worktree,
}

impl AgentRequest {
    /// A task for an agent of the usual kind.
    pub fn new(description: impl Into<String>, prompt: impl Into<String>) -> AgentRequest {
        AgentRequest {
            description: description.into(),
            prompt: prompt.into(),
            kind: None,
            name: None,
            model: None,
            isolation: AgentIsolation::None,
            on_line: None,
        }
    }
}

impl fmt::Debug for AgentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AgentRequest { description, prompt, kind, name, model, isolation, on_line: _ } = self;
        f.debug_struct("AgentRequest")
            .field("description", description)
            .field("prompt", prompt)
            .field("kind", kind)
            .field("name", name)
            .field("model", model)
            .field("isolation", isolation)
            .finish_non_exhaustive()
    }
}
