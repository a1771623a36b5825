//! Sub-agents that answer by script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::content::{IntoOutput, ToolOutput};
use crate::context::Context;
use crate::error::ToolError;
use crate::future::BoxFuture;
use crate::ports::{AgentRequest, SubAgents};

/// A [`SubAgents`] that answers from a list and keeps what it was asked. At the end of the list every request
/// fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::{AgentRequest, SubAgents};
/// use haft::testing::{ScriptedSubAgents, test_context};
///
/// let agents = ScriptedSubAgents::new().then("done");
/// let cx = test_context(".", |_| {});
/// assert_eq!(agents.run(AgentRequest::new("count", "Count."), &cx).await.unwrap().to_text(), "done");
/// assert_eq!(agents.requests()[0].prompt, "Count.");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ScriptedSubAgents(Arc<Mutex<SubAgentScript>>);

#[derive(Default)]
struct SubAgentScript {
    answers: VecDeque<Result<ToolOutput, ToolError>>,
    requests: Vec<AgentRequest>,
    sent: Vec<(String, String)>,
}

impl ScriptedSubAgents {
    /// An empty list.
    pub fn new() -> ScriptedSubAgents {
        ScriptedSubAgents::default()
    }

    /// Answers the next request with this.
    #[must_use]
    pub fn then(self, output: impl IntoOutput) -> ScriptedSubAgents {
        lock(&self.0).answers.push_back(output.into_output());
        self
    }

    /// Fails the next request with this.
    #[must_use]
    pub fn then_fail(self, error: ToolError) -> ScriptedSubAgents {
        lock(&self.0).answers.push_back(Err(error));
        self
    }

    /// What was asked for, in order.
    pub fn requests(&self) -> Vec<AgentRequest> {
        lock(&self.0).requests.clone()
    }

    /// What was sent to running agents: the agent and the words.
    pub fn sent(&self) -> Vec<(String, String)> {
        lock(&self.0).sent.clone()
    }
}

impl SubAgents for ScriptedSubAgents {
    fn run<'a>(
        &'a self,
        request: AgentRequest,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let mut script = lock(&self.0);
        let missing = || Err(ToolError::new(format!("no answer is scripted for `{}`", request.description)));
        let answer = script.answers.pop_front().unwrap_or_else(missing);
        script.requests.push(request);
        Box::pin(std::future::ready(answer))
    }

    fn send<'a>(
        &'a self,
        to: &'a str,
        message: String,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        lock(&self.0).sent.push((to.to_owned(), message));
        Box::pin(std::future::ready(Ok(())))
    }
}
