//! Agents for a single call: the model of a run, without the run.
//!
//! `haft call Agent` has no model of its own that gives the task; the caller is that. Who the agent asks is
//! chosen as for `haft run` without flags, or is a script.

use std::path::PathBuf;
use std::sync::Arc;

use haft_session::agents::SessionAgents;
use haft_session::assembly::SessionParts;

use super::args::{ProviderArg, RunArgs, RunForm};
use super::provider;
use crate::UsageError;
use crate::args::CommonArgs;
use crate::output;

/// What is said where there is none.
const NO_MODEL: &str = "an agent needs a model, and none is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                        GEMINI_API_KEY, `run.provider` in your settings, or give a script with --script";

/// Gives a session agents, if the call is for one. They have to be closed at its end.
pub(crate) fn add_agents(
    session: &mut SessionParts,
    tool: &str,
    script: Option<PathBuf>,
    common: &CommonArgs,
) -> Result<Option<Arc<SessionAgents>>, UsageError> {
    if !session.is_agent_tool(tool) {
        return match script {
            Some(_) => Err(UsageError(format!(
                "--script is for Agent, and `{}` asks no model",
                output::one_line(tool)
            ))),
            None => Ok(None),
        };
    }
    let lookup = |name: &str| std::env::var_os(name);
    let args = RunArgs::of_call(script, common.clone());
    let options = common.options();
    if !provider::is_configured(&args.model_options(), &options, &lookup)? {
        return Err(UsageError(NO_MODEL.to_owned()));
    }
    let agents = session.add_agents(&options, &args.model_options())?;
    Ok(Some(agents))
}

impl RunArgs {
    /// A run with this script, or with whom the environment and settings name.
    fn of_call(script: Option<PathBuf>, common: CommonArgs) -> RunArgs {
        RunArgs {
            prompt: None,
            provider: ProviderArg::Auto,
            model: None,
            base_url: None,
            script,
            go_on: false,
            resume: None,
            max_turns: None,
            output: RunForm::Text,
            append_system_prompt: Vec::new(),
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            common,
        }
    }
}
