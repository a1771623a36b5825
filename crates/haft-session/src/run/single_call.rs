//! Sub-agents for calls without a run: they use the model of a run, without its conversation.

use std::sync::Arc;

use haft::env::VariableLookup;
use haft_agent::RunEvent;

use super::plan::run_limits;
use super::prompt::system_prompt;
use super::provider::{self, ModelOptions, ModelRequirements};
use crate::agents::kinds::AgentKinds;
use crate::agents::{AgentSetup, SessionAgents, is_delegating};
use crate::assembly::SessionParts;
use crate::{SessionError, SessionOptions};

impl SessionParts {
    /// Returns whether a tool is the one that gives tasks to sub-agents.
    pub fn is_agent_tool(&self, name: &str) -> bool {
        self.engine.registry().entries().any(|entry| {
            let tool = entry.tool();
            is_delegating(tool) && (tool.name() == name || tool.aliases().iter().any(|alias| alias == name))
        })
    }

    /// Adds sub-agents to the session, with the model of these options, environment and settings. They have
    /// to be closed when the session ends.
    ///
    /// # Errors
    /// Returns an error if no model is configured.
    pub fn add_agents(
        &mut self,
        options: &SessionOptions,
        model: &ModelOptions,
    ) -> Result<Arc<SessionAgents>, SessionError> {
        let lookup: VariableLookup<'_> = &|name| options.environment.get(name);
        let settings = &self.given.loaded.settings.run;
        let requirements = ModelRequirements::default();
        let chosen =
            provider::choose_provider(model, settings, requirements, &self.id, lookup, &self.notices)?;
        let mut run_options = run_limits(None, settings);
        run_options.system = system_prompt(&self.workspace, None, &[]);
        run_options.window_tokens = chosen.window_tokens;
        run_options.prices = chosen.prices;
        let kinds = AgentKinds::load(&self.given, options);
        kinds.problems.iter().for_each(|problem| self.notices.warn(problem));
        let agents = SessionAgents::new();
        self.engine = self.engine.clone().ports(|ports| ports.sub_agents = Some(agents.clone()));
        agents.open(AgentSetup {
            kinds,
            engine: self.engine().clone(),
            policy: self.policy.clone(),
            model: chosen.model,
            others: chosen.others,
            options: run_options,
            // A call shows only its result.
            sink: Arc::new(|_: RunEvent| {}),
            hooks: self.hooks.clone(),
            asker: self.server_starter.asker.clone(),
            cwd: self.workspace.cwd().to_owned(),
            // A single call is not recorded.
            recorder: None,
            notices: self.notices.clone(),
        });
        Ok(agents)
    }
}
